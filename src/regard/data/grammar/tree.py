"""The sentence as a tree, before it is written in either language."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from regard.data.grammar.lexicon import DETERMINER, HE, THEY, Adjective, Determiner, Noun, Verb

BARE = DETERMINER[""]


@dataclass(slots=True)
class Phrase:
    """A noun with what belongs to it; a pronoun is a phrase of its own, and knows the noun it refers to."""

    noun: Noun
    determiner: Determiner = BARE
    plural: bool = False
    adjective: Adjective | None = None
    owner: "Phrase | None" = None  # the king's horse
    relative: "Relative | None" = None
    joiner: str = ""  # apples and pears: the joiner and the second noun, always bare
    second: Noun | None = None
    refers: Noun | None = None

    @property
    def person(self) -> int:
        if self.noun.pronoun is not None:
            return self.noun.pronoun
        return THEY if self.plural or self.second is not None else HE

    @property
    def agreement(self) -> int:
        """The index of the form that agrees with it: feminine + 2 * plural."""
        feminine = self.noun.feminine and (self.second is None or self.second.feminine)
        return feminine + 2 * (self.person > HE)


@dataclass(slots=True)
class Clause:
    """Who (subject) does what (verb) to whom (object), also when the passive turns it round.

    Without a verb it says what the subject is (adjectives) or where (place); `exists` is "there is".
    """

    subject: Phrase
    verb: Verb | None = None
    object: Phrase | None = None
    adjectives: tuple[Adjective, ...] = ()
    joiner: str = ""  # between two adjectives
    degree: str = ""
    past: bool = False
    negative: bool = False
    modal: str = ""
    passive: bool = False
    exists: bool = False
    opening: str = ""
    frequency: str = ""
    closing: str = ""
    place: tuple[str, Phrase] | None = None
    question: str | None = None  # "" for a question without a question word


@dataclass(slots=True)
class Relative:
    """A clause that lacks its subject, or its object, which is the noun it belongs to."""

    clause: Clause
    lacks_subject: bool


@dataclass(slots=True)
class Tree:
    clauses: list[Clause]
    joiners: list[str] = field(default_factory=list)


def phrases(clause: Clause) -> Iterator[Phrase]:
    """Every phrase of a clause, with those inside other phrases; a relative's missing phrase is not repeated."""
    places = (clause.place[1],) if clause.place else ()
    for phrase in (clause.subject, clause.object, *places):
        if phrase is None:
            continue
        yield phrase
        if phrase.owner is not None:
            yield phrase.owner
        if phrase.relative is not None:
            inner = phrase.relative.clause
            yield from (each for each in phrases(inner) if each.noun is not phrase.noun)


def nouns(tree: Tree) -> set[str]:
    found = set()
    for clause in tree.clauses:
        for phrase in phrases(clause):
            found.add(phrase.noun.name)
            if phrase.second is not None:
                found.add(phrase.second.name)
    return found


def _heads(phrase: Phrase) -> Iterator[Noun]:
    if phrase.refers is not None:
        yield phrase.refers
    elif phrase.noun.pronoun is None:
        yield phrase.noun
    if phrase.second is not None:
        yield phrase.second


def combinations(clause: Clause) -> Iterator[tuple[str, str]]:
    """The (adjective, noun) and (verb, noun) pairs that the clause brings together."""
    for noun in _heads(clause.subject):
        for adjective in clause.adjectives:
            yield adjective.name, noun.name
        if clause.verb is not None:
            yield clause.verb.key, noun.name
    if clause.object is not None and clause.verb is not None:
        for noun in _heads(clause.object):
            yield clause.verb.key, noun.name
    places = (clause.place[1],) if clause.place else ()
    for phrase in (clause.subject, clause.object, *places):
        if phrase is None:
            continue
        if phrase.adjective is not None:
            yield phrase.adjective.name, phrase.noun.name
        if phrase.owner is not None and phrase.owner.adjective is not None:
            yield phrase.owner.adjective.name, phrase.owner.noun.name
        if phrase.relative is not None:
            yield from combinations(phrase.relative.clause)
