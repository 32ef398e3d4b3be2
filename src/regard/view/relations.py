"""Who did what to whom, and what "it" is: the words of a sentence that a head may connect, as the grammar knows."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from regard.data.grammar import Sentence
from regard.data.grammar.lexicon import NOUN, VERBS_ALL


@dataclass(frozen=True)
class Relation:
    """From one word to another, in one kind of attention."""

    kind: str  # encoder, decoder or cross
    name: str


VERB_WHO = Relation("encoder", "verb → who")
VERB_WHOM = Relation("encoder", "verb → to whom")
WHO_VERB = Relation("encoder", "who → verb")
WHOM_VERB = Relation("encoder", "to whom → verb")
IT = Relation("encoder", "it → its noun")
ADJECTIVE = Relation("encoder", "its adjective → its noun")
CROSS_WHO = Relation("cross", "who → who")
CROSS_VERB = Relation("cross", "verb → verb")
CROSS_WHOM = Relation("cross", "to whom → to whom")
CROSS_ADJECTIVE = Relation("cross", "its adjective → its noun")
DECODER_VERB = Relation("decoder", "verb → who")
DECODER_ADJECTIVE = Relation("decoder", "its adjective → its noun")
RELATIONS = (
    VERB_WHO, VERB_WHOM, WHO_VERB, WHOM_VERB, IT, ADJECTIVE,
    CROSS_WHO, CROSS_VERB, CROSS_WHOM, CROSS_ADJECTIVE,
    DECODER_VERB, DECODER_ADJECTIVE,
)  # fmt: skip


def related(sentence: Sentence) -> Iterator[tuple[Relation, int, int]]:
    """Each relation that a sentence shows, with the words it goes from and to.

    Words are counted in source.split() and target.split(): in the encoder both in the source, in the decoder both in
    the target, and across from the target to the source. Only clauses that have all three of who, did what, to whom.
    """
    source, target = sentence.source.split(), sentence.target.split()
    for role in sentence.roles:
        if role.patient is None:
            continue
        who, verb, whom = role.agent, role.action, role.patient
        yield from ((VERB_WHO, verb, who), (VERB_WHOM, verb, whom), (WHO_VERB, who, verb), (WHOM_VERB, whom, verb))
        across = {place: _translated(source[place], target) for place in (who, verb, whom)}
        for relation, place in ((CROSS_WHO, who), (CROSS_VERB, verb), (CROSS_WHOM, whom)):
            if across[place] is not None:
                yield relation, across[place] or 0, place
        first, act = across[who], across[verb]
        if first is not None and act is not None and first < act:
            yield DECODER_VERB, act, first
    it = sentence.pronoun
    if it is not None:
        yield from ((IT, it.it, it.antecedent), (ADJECTIVE, it.adjective, it.antecedent))
        yield CROSS_ADJECTIVE, it.target_adjective, it.antecedent
        noun = _translated(source[it.antecedent], target)
        if noun is not None:
            yield DECODER_ADJECTIVE, it.target_adjective, noun


def rules(relation: Relation, sentence: Sentence, start: int, end: int) -> Iterator[str]:
    """What finds the word without understanding: a fixed distance; where "it" has two nouns, always the same one."""
    distance = end - start
    yield f"{abs(distance)} {'before' if distance < 0 else 'after'}" if distance else "the same place"
    it = sentence.pronoun
    if it is not None and relation in (IT, ADJECTIVE, CROSS_ADJECTIVE, DECODER_ADJECTIVE):
        yield f"the {'first' if it.antecedent < it.other else 'second'} noun"


def _translated(word: str, target: list[str]) -> int | None:
    """Where the translation of an English noun or verb stands; None when that is not certain."""
    forms = _forms().get(word, frozenset())
    places = [i for i, other in enumerate(target) if other.strip("¿?") in forms]
    return places[0] if len(places) == 1 else None


@cache
def _forms() -> dict[str, frozenset[str]]:
    """Every form in Spanish that a form in English may become."""
    found: dict[str, set[str]] = {}
    for noun in NOUN.values():
        for english, spanish in zip(noun.english, noun.spanish, strict=True):
            found.setdefault(english, set()).add(spanish)
    for verb in VERBS_ALL:
        c = verb.spanish
        forms = {c.infinitive, *c.present, *c.preterite, *c.imperfect, *verb.participle}
        for english in verb.english:
            found.setdefault(english, set()).update(forms)
    return {english: frozenset(spanish) for english, spanish in found.items()}
