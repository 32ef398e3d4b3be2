"""The family of sentences in which the adjective tells what "it" is, and so the gender of its own Spanish form.

    the animal didn't cross the street because it was too tired    ->  ... porque estaba demasiado cansado
    the animal didn't cross the street because it was too wide     ->  ... porque era demasiado ancha

The two nouns differ in gender, and the adjective fits one of them only. Verb and nouns do not give the antecedent
away: whatever they are, there are sentences for both sides, and the sides take turns. Beside it stands a like family in
which both nouns have one gender: if they always differed, the gender of either noun would give away that of the other,
and nobody would have to look at the right one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from regard.data.grammar.frames import FRAMES, Frame
from regard.data.grammar.lexicon import (
    ADJECTIVE,
    DETERMINER,
    IT,
    Adjective,
    Determiner,
    Noun,
    Verb,
    named,
    tagged,
    verb,
)
from regard.data.grammar.sampler import Sampler
from regard.data.grammar.semantics import DESCRIBES
from regard.data.grammar.tree import Clause, Phrase, Tree

_FITS = {noun: frozenset(adjectives) for noun, adjectives in DESCRIBES.items()}
_UNWILLING = frozenset({"lazy", "stubborn", "shy", "bored"})  # "couldn't, because it was lazy" is odd
_LOOKS = frozenset(named(ADJECTIVE, "big small old young white black brown red blue green yellow"))
_LOOKING = {noun: tuple(each for each in fits if each in _LOOKS) for noun, fits in DESCRIBES.items()}
_SUBJECT = named(DETERMINER, "the the the the the the this this that a")
_OBJECT = named(DETERMINER, "the the the the the the this that")
_OWNED = named(DETERMINER, "my your his her our their")


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One choice of verb, nouns and polarity, with the adjectives that fit the subject only and the object only."""

    verb: Verb
    subject: Noun
    object: Noun
    done: bool
    flight: bool
    reasons: tuple[tuple[Adjective, ...], tuple[Adjective, ...]]


def _fitting(names: str, antecedent: Noun, other: Noun) -> tuple[Adjective, ...]:
    return tuple(each for each in named(ADJECTIVE, names) if each in _FITS[antecedent] and each not in _FITS[other])


@cache
def cases(*, differ: bool = True) -> tuple[tuple[Case, ...], ...]:
    """Frame by frame, every case that has a reason on both sides and nouns of different gender (or of the same)."""
    return tuple(tuple(_cases(frame, differ)) for frame in FRAMES)


def _cases(frame: Frame, differ: bool) -> Iterator[Case]:
    act = verb(frame.verb)
    for done, (of_subject, of_object) in ((False, frame.against), (True, frame.favor)):
        for subject in tagged(frame.who):
            for what in tagged(frame.what):
                if (subject.feminine != what.feminine) is not differ:
                    continue
                reasons = (_fitting(of_subject, subject, what), _fitting(of_object, what, subject))
                if all(reasons):
                    yield Case(act, subject, what, done, frame.flight, reasons)


def tree(
    case: Case,
    subject: Phrase,
    what: Phrase,
    reason: Adjective,
    *,
    degree: str = "",
    past: bool = True,
    modal: str = "",
) -> Tree:
    antecedent = case.subject if reason in case.reasons[0] else case.object
    act = Clause(subject, case.verb, what, past=past, negative=not case.done, modal=modal)
    it = Phrase(IT[antecedent.feminine], refers=(antecedent,))
    return Tree([act, Clause(it, adjectives=(reason,), degree=degree, past=past)], ["because"])


def draw(sampler: Sampler, frames: tuple[tuple[Case, ...], ...], of_object: bool) -> Tree:
    """A random sentence whose antecedent is the object, or else the subject."""
    pick, random = sampler.pick, sampler.random
    case = pick(pick(frames))
    reason = pick(case.reasons[of_object])
    modal = "" if random() < 0.5 else pick(("want",) if case.done else ("can", "want"))
    if "creature" not in case.subject.tags and modal == "want":
        modal = ""
    if modal == "can" and reason.name in _UNWILLING:
        modal = "want"
    degrees = reason.degrees if not case.done or case.flight else reason.degrees[:2]
    degree = degrees[-1] if random() < 0.5 else pick(degrees)
    subject, what = _phrase(sampler, case.subject, _SUBJECT), _phrase(sampler, case.object, _OBJECT)
    made = tree(case, subject, what, reason, degree=degree, past=random() < 0.7, modal=modal)
    if made.clauses[0].past and random() < 0.08:
        made.clauses[0].opening = "yesterday"
    return made


def _phrase(sampler: Sampler, noun: Noun, usual: tuple[Determiner, ...]) -> Phrase:
    owned = "own" in noun.tags and sampler.random() < 0.2
    determiner = sampler.pick(_OWNED if owned else usual)
    looks = _LOOKING[noun]
    return Phrase(noun, determiner, adjective=sampler.pick(looks) if looks and sampler.random() < 0.08 else None)
