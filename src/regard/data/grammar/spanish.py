"""Writes a tree in Spanish."""

from functools import cache

from regard.data.grammar.inflect_es import Five, conjugate, conjunction, contract
from regard.data.grammar.lexicon import (
    CLOSING,
    DEGREE,
    DETERMINER,
    FREQUENCY,
    JOINER,
    MODAL_SPANISH,
    OPENING,
    PREPOSITION,
    QUESTION,
    Verb,
)
from regard.data.grammar.nouns import STRESSED_A
from regard.data.grammar.tree import Clause, Phrase, Tree

_COPULA = {"ser": conjugate("ser"), "estar": conjugate("estar")}
_THE = DETERMINER["the"]
_STRESSED = {"la": "el", "una": "un"}


@cache
def finite(verb: Verb, person: int, past: bool, modal: str, background: bool) -> tuple[str, ...]:
    """The verb group; states, and what goes on in the background (mientras), take the imperfect."""
    forms = MODAL_SPANISH[modal] if modal else verb.spanish
    state = modal == "want" or (not modal and "state" in verb.flags)
    tense: Five = forms.present
    if past:
        tense = forms.imperfect if state or background else forms.preterite
    return (tense[person], verb.spanish.infinitive) if modal else (tense[person],)


def join(joiner: str, following: list[str]) -> list[str]:
    return [conjunction(JOINER[joiner], following[0]), *following]


def phrase(it: Phrase) -> list[str]:
    """The noun phrase, with its owner and relative clause; pronouns are the subject's business."""
    noun, adjective, plural = it.noun, it.adjective, it.plural
    agreement = noun.feminine + 2 * plural
    head = noun.spanish[plural]
    determiner = (_THE if it.owner is not None else it.determiner).spanish[agreement]
    words: list[str] = []
    if adjective is None:
        words.append(head)
    elif adjective.before:
        words += (adjective.spanish[agreement] if agreement else adjective.short, head)
    else:
        words += (head, adjective.spanish[agreement])
    if determiner:
        if words[0] in STRESSED_A:
            determiner = _STRESSED.get(determiner, determiner)
        words.insert(0, determiner)
    if it.second is not None:
        words += join(it.joiner, [it.second.spanish[plural]])
    if it.owner is not None:
        words += contract("de", phrase(it.owner))
    if it.relative is not None:
        words.append("que")
        inner = it.relative.clause
        if it.relative.lacks_subject:
            words += _predicate(inner)
        else:  # la manzana que comió el perro
            words += _verb(inner) + _subject(inner, False)
    return words


def _subject(clause: Clause, explicit: bool) -> list[str]:
    """I, you and we stay in the verb; he, she and they are written unless they repeat a subject (porque)."""
    it = clause.subject
    if it.noun.pronoun is None:
        return phrase(it)
    return [it.noun.spanish[0]] if explicit and it.noun.spanish[0] else []


def _verb(clause: Clause, background: bool = False) -> list[str]:
    assert clause.verb is not None
    words = ["no"] if clause.negative else []
    if clause.frequency:
        words.append(FREQUENCY[clause.frequency])
    return words + list(finite(clause.verb, clause.subject.person, clause.past, clause.modal, background))


def _object(clause: Clause) -> list[str]:
    it, verb = clause.object, clause.verb
    if it is None or verb is None:
        return []
    words = phrase(it)
    if verb.preposition:
        return contract(verb.preposition, words)
    if ("person" in it.noun.tags or "creature" in it.noun.tags) and "plain" not in verb.flags:
        return contract("a", words)  # the personal a, which animals get too
    return words


def _rest(clause: Clause) -> list[str]:
    words: list[str] = []
    if clause.place is not None:
        words += contract(PREPOSITION[clause.place[0]], phrase(clause.place[1]))
    if clause.closing:
        words += CLOSING[clause.closing].split()
    return words


def _be(clause: Clause) -> list[str]:
    copula = clause.adjectives[0].copula if clause.adjectives else "estar"  # where something is: estar
    forms = _COPULA[copula].imperfect if clause.past else _COPULA[copula].present
    words = ["no"] if clause.negative else []
    if clause.frequency:
        words.append(FREQUENCY[clause.frequency])
    words.append(forms[clause.subject.person])
    return words


def _adjectives(clause: Clause) -> list[str]:
    words = [DEGREE[clause.degree]] if clause.degree else []
    agreement = clause.subject.agreement
    for place, adjective in enumerate(clause.adjectives):
        form = adjective.spanish[agreement]
        words += join(clause.joiner, [form]) if place else [form]
    return words


def _predicate(clause: Clause, background: bool = False) -> list[str]:
    if clause.verb is None:
        return _be(clause) + _adjectives(clause) + _rest(clause)
    return _verb(clause, background) + _object(clause) + _rest(clause)


def _bare(it: Phrase) -> bool:
    return not it.determiner.name and it.owner is None and "name" not in it.noun.tags


def _question(clause: Clause) -> list[str]:
    """Verb, subject, object; but how someone is comes before who: ¿está cansado el gato?"""
    words = QUESTION[clause.question or ""].split()
    subject = _subject(clause, False)
    if clause.verb is None:
        words += _be(clause) + _adjectives(clause) + subject
    else:
        verb, *infinitive = _verb(clause)
        what = _object(clause)
        if clause.object is not None and _bare(clause.object) and not infinitive:  # ¿come manzanas el chico?
            words += [verb, *what, *subject]
        else:
            words += [verb, *subject, *infinitive, *what]
    words += _rest(clause)
    words[0] = "¿" + words[0]
    words[-1] += "?"
    return words


def _passive(clause: Clause) -> list[str]:
    assert clause.object is not None
    assert clause.verb is not None
    was = _COPULA["ser"].preterite[clause.object.person]
    participle = clause.verb.participle[clause.object.agreement]
    return [*phrase(clause.object), was, participle, "por", *phrase(clause.subject)]


def _clause(clause: Clause, joiner: str) -> list[str]:
    words = [OPENING[clause.opening]] if clause.opening else []
    if clause.question is not None:
        return words + _question(clause)
    if clause.exists:
        return [*words, "había" if clause.past else "hay", *phrase(clause.subject), *_rest(clause)]
    if clause.passive:
        return words + _passive(clause)
    return words + _subject(clause, joiner != "because") + _predicate(clause, joiner == "while")


def write(tree: Tree) -> list[str]:
    words: list[str] = []
    for place, clause in enumerate(tree.clauses):
        joiner = tree.joiners[place - 1] if place else ""
        following = _clause(clause, joiner)
        words += join(joiner, following) if place else following
    return words
