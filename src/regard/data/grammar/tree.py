"""The sentence as a tree, before it is written in either language."""

from dataclasses import dataclass, field

from regard.data.grammar.lexicon import DETERMINER, HE, THEY, Adjective, Determiner, Noun, Verb

BARE = DETERMINER[""]


@dataclass(slots=True)
class Phrase:
    """A noun with what belongs to it; a pronoun is a phrase of its own, and knows the nouns it refers to."""

    noun: Noun
    determiner: Determiner = BARE
    plural: bool = False
    adjective: Adjective | None = None
    owner: "Phrase | None" = None  # the king's horse
    relative: "Relative | None" = None
    joiner: str = ""  # apples and pears: the joiner and the second noun, always bare
    second: Noun | None = None
    refers: tuple[Noun, ...] = ()

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


@dataclass(slots=True)
class Survey:
    """What a sentence brings together: (adjective or verb, noun) pairs, and all its nouns."""

    pairs: list[tuple[str, str]] = field(default_factory=list)
    nouns: set[str] = field(default_factory=set)

    def clause(self, clause: Clause) -> None:
        self.phrase(clause.subject)
        verb = clause.verb
        for noun in heads(clause.subject):
            for adjective in clause.adjectives:
                self.pairs.append((adjective.name, noun.name))
            if verb is not None:
                self.pairs.append((verb.key, noun.name))
        if clause.object is not None and verb is not None:
            self.phrase(clause.object)
            for noun in heads(clause.object):
                self.pairs.append((verb.key, noun.name))
        if clause.place is not None:
            self.phrase(clause.place[1])

    def phrase(self, phrase: Phrase) -> None:
        noun = phrase.noun.name
        self.nouns.add(noun)
        if phrase.second is not None:
            self.nouns.add(phrase.second.name)
        if phrase.adjective is not None:
            self.pairs.append((phrase.adjective.name, noun))
        if phrase.owner is not None:
            self.phrase(phrase.owner)
        if phrase.relative is not None:
            inner = phrase.relative.clause
            self.clause(inner)
            if not phrase.relative.lacks_subject and inner.verb is not None:
                self.pairs.append((inner.verb.key, noun))


def heads(phrase: Phrase) -> tuple[Noun, ...]:
    """The nouns that a verb or adjective is said of; a pronoun counts as the nouns it refers to."""
    noun = phrase.noun
    if noun.pronoun is not None:
        return phrase.refers
    return (noun,) if phrase.second is None else (noun, phrase.second)


def survey(tree: Tree) -> Survey:
    found = Survey()
    for clause in tree.clauses:
        found.clause(clause)
    return found
