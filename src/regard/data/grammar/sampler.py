"""Draws trees at random: sentences that make sense, because verbs and adjectives know the nouns they go with."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from regard.data.grammar.lexicon import (
    ADJECTIVE,
    DETERMINER,
    HE,
    IT,
    NOUN,
    PRONOUN,
    THEY,
    THEY_FEMININE,
    VERBS_ALL,
    Adjective,
    Determiner,
    Noun,
    Verb,
    tagged,
)
from regard.data.grammar.tree import Clause, Phrase, Relative, Tree

T = TypeVar("T")


# Determiners as often as they stand here.
_OWNED = "my your his her our their"
_SINGULAR = "the the the the the the a a a a this this that that every"
_PLURAL = "the the the the the the these these those those two three four some many"
_MASS = "the the the the this that"
_ORDINAL = tuple(DETERMINER[name] for name in f"the the {_OWNED}".split())
_EXISTING = ((DETERMINER["a"],), tuple(DETERMINER[name] for name in "two three four some many".split()))


def _determiners(noun: Noun) -> tuple[tuple[Determiner, ...], tuple[Determiner, ...]]:
    """What may stand before the noun in the singular and in the plural."""
    owned = _OWNED if noun.tags & {"own", "thing", "food", "drink"} else ""
    singular = _MASS if "mass" in noun.tags else _SINGULAR
    return (
        tuple(DETERMINER[name] for name in f"{singular} {owned}".split()),
        tuple(DETERMINER[name] for name in f"{_PLURAL} {owned}".split()),
    )


_PEOPLE = tuple(noun for noun in NOUN.values() if "person" in noun.tags)
_NAMES = tagged("name")
_INTRODUCED = tuple(PRONOUN.values())
_PREDICATES = tuple(each for each in ADJECTIVE.values() if not (each.before and each.degrees == ("",)))
_TRAITS = tuple(ADJECTIVE[name] for name in "tall intelligent kind rich shy curious clever strong stubborn".split())
_MOODS = tuple(
    ADJECTIVE[name] for name in "tired sick happy sad angry hungry thirsty scared nervous bored busy confused".split()
)
_BEASTLY_MOODS = tuple(mood for mood in _MOODS if NOUN["cat"] in mood.nouns)
_PASSIVES = tuple(verb for verb in VERBS_ALL if "passive" in verb.flags)
_PLACES: dict[str, tuple[Noun, ...]] = {
    "in": tagged("building chamber land town cave street"),
    "near": tagged("place"),
    "behind": tagged("building barrier tree"),
    "under": tagged("table bed tree bridge"),
    "on": tagged("table bed chair"),
}
_BIG = tagged("person creature wheels")  # what stands in, near and behind places
_SMALL = tagged("small dish readable fruit cat mouse clothes")  # what lies on and under furniture

DESCRIBES: dict[Noun, tuple[Adjective, ...]] = {
    noun: tuple(adjective for adjective in ADJECTIVE.values() if noun in adjective.nouns) for noun in NOUN.values()
}
_DOES: dict[Noun, tuple[Verb, ...]] = {
    noun: tuple(verb for verb in VERBS_ALL if noun in verb.subjects) for noun in NOUN.values()
}
_UNDERGOES: dict[Noun, tuple[Verb, ...]] = {
    noun: tuple(
        verb
        for verb in VERBS_ALL
        if noun in verb.objects and not verb.particle and not verb.preposition and not noun.tags & {"person", "creature"}
    )
    for noun in NOUN.values()
}
_ACTORS = tuple(noun for noun, verbs in _DOES.items() if verbs and "name" not in noun.tags)
_MATTERS = tuple(noun for noun, verbs in _UNDERGOES.items() if len(verbs) > 2)
_CHOICES = {noun: _determiners(noun) for noun in NOUN.values()}
_ANIMATE = frozenset({"person", "creature"})
_NEVER_BARE = frozenset({"person", "creature", "vehicle", "place"})


def _ambiguous(verb: Verb, person: int, past: bool, negative: bool, modal: str) -> bool:
    """ "they read" is present or past: only the past is ever generated."""
    return verb.english[0] == verb.english[2] and not (past or negative or modal or person == HE)


class Sampler:
    """Every draw comes from one function that gives numbers in [0, 1)."""

    def __init__(self, random: Callable[[], float]) -> None:
        self.random = random

    def pick(self, options: Sequence[T]) -> T:
        return options[int(self.random() * len(options))]

    def phrase(self, noun: Noun, described: float = 0.2) -> Phrase:
        random = self.random
        if "name" in noun.tags:
            return Phrase(noun)
        plural = random() < 0.33 and "mass" not in noun.tags
        adjective = self.pick(DESCRIBES[noun]) if random() < described else None
        if adjective is not None and adjective.before and adjective.degrees == ("",):  # the first, my other
            return Phrase(noun, self.pick(_ORDINAL), plural, adjective)
        if "own" in noun.tags and "person" not in noun.tags and random() < 0.08:
            return Phrase(noun, plural=plural, adjective=adjective, owner=self.owner())
        return Phrase(noun, self.pick(_CHOICES[noun][plural]), plural, adjective)

    def owner(self) -> Phrase:
        noun = self.pick(_PEOPLE)
        if "name" in noun.tags:
            return Phrase(noun)
        return Phrase(noun, self.pick(_ORDINAL if "own" in noun.tags else _ORDINAL[:1]))

    def subject(self, nouns: Sequence[Noun], described: float = 0.2) -> Phrase:
        noun = self.pick(nouns)
        if "person" not in noun.tags:
            return self.phrase(noun, described)
        draw = self.random()
        if draw < 0.2:
            return Phrase(self.pick(_INTRODUCED))
        if draw < 0.25:
            first, second = self.pick(_NAMES), self.pick(_NAMES)
            if first is not second:
                return Phrase(first, joiner="and", second=second)
        return self.phrase(noun, described)

    def object(self, verb: Verb, subject: Noun, question: bool = False, described: float = 0.2) -> Phrase:
        noun = self.pick(verb.objects)
        while noun is subject:
            noun = self.pick(verb.objects)
        mass = "mass" in noun.tags
        if "bare" in verb.flags and self.random() < 0.3 and not noun.tags & _NEVER_BARE:
            second = self.pick(verb.objects)
            joined = self.random() < 0.5 and second is not noun and ("mass" in second.tags) == mass
            if joined and not second.tags & _NEVER_BARE:
                return Phrase(noun, plural=not mass, joiner="or" if question else "and", second=second)
            return Phrase(noun, plural=not mass)
        return self.phrase(noun, described)

    def action(
        self, past: bool, subject: Phrase | None = None, plain: bool = False, negative: bool | None = None
    ) -> Clause:
        """A verb with its subject and object; `plain` leaves out descriptions and modals."""
        random = self.random
        described = 0.0 if plain else 0.22
        if negative is None:
            negative = random() < (0.0 if plain else 0.2)
        while True:
            verb = self.pick(_DOES[subject.noun] if subject is not None else VERBS_ALL)
            who = subject or self.subject(verb.subjects, described)
            modal = "" if plain or random() > 0.14 else self.pick(("can", "must", "want"))
            if "state" in verb.flags or (modal == "must" and past) or "vehicle" in who.noun.tags:
                modal = ""
            if not _ambiguous(verb, who.person, past, negative, modal):
                break
        what = self.object(verb, who.noun, False, described) if verb.objects else None
        return Clause(who, verb, what, past=past, negative=negative, modal=modal)

    def place(self, prepositions: Sequence[str]) -> tuple[str, Phrase]:
        preposition = self.pick(prepositions)
        return preposition, self.phrase(self.pick(_PLACES[preposition]), 0.15)

    def adorn(self, clause: Clause) -> Clause:
        """Where, with whom, for whom, how, when, how often: at most two of them."""
        verb, random = clause.verb, self.random
        assert verb is not None
        flags = verb.flags
        if "where" in flags and random() < 0.45:
            clause.place = self.place(("in", "in", "near", "behind"))
        elif "for" in flags and random() < 0.3:
            clause.place = ("for", self.phrase(self.pick(_PEOPLE), 0.1))
        elif "person" in clause.subject.noun.tags and "state" not in flags and random() < 0.1:
            clause.place = ("with", self.phrase(self.pick(_PEOPLE), 0.1))
        elif "skill" in flags and random() < 0.4:
            clause.closing = "well"
        elif "manner" in flags and random() < 0.3:
            clause.closing = self.pick(("slowly", "quickly"))
        draw = random()
        if draw < 0.12:
            clause.opening = self.pick(("yesterday", "today") if clause.past else ("today", "now"))
        elif draw < 0.2 and not (clause.past or clause.negative or clause.modal):
            clause.frequency = self.pick(("always", "never"))
        return clause

    def simple(self) -> Tree:
        random = self.random
        clause = self.action(random() < 0.5)
        draw = random()
        if draw < 0.22:
            assert clause.verb is not None
            clause.question = self.pick(("", "", "", "why", "when"))
            clause.negative = False
            if clause.object is not None:
                clause.object = self.object(clause.verb, clause.subject.noun, True)
            elif "where" in clause.verb.flags and random() < 0.3:
                clause.question = "where"
        elif draw < 0.7:
            self.adorn(clause)
        return Tree([clause])

    def state(self, past: bool, subject: Phrase | None = None) -> Clause:
        """Someone or something is somehow."""
        random = self.random
        if subject is None:
            adjective = self.pick(_PREDICATES)
            subject = self.subject(adjective.nouns, 0.0)
        else:
            adjective = self.pick([each for each in DESCRIBES[subject.noun] if each in _PREDICATES])
        clause = Clause(subject, adjectives=(adjective,), past=past, negative=random() < 0.2)
        if adjective in _TRAITS and "person" in subject.noun.tags and random() < 0.6:
            second = self.pick(_TRAITS)
            if second is not adjective:
                clause.adjectives, clause.joiner, clause.negative = (adjective, second), "and", False
        elif random() < 0.5:
            clause.degree = self.pick(adjective.degrees)
        return clause

    def being(self) -> Tree:
        random = self.random
        clause = self.state(random() < 0.4)
        draw = random()
        if draw < 0.15:
            clause.question, clause.negative = self.pick(("", "", "why")), False
        elif draw < 0.22 and not (clause.past or clause.negative):
            clause.frequency = self.pick(("always", "never"))
        return Tree([clause])

    def locating(self) -> Tree:
        random = self.random
        past, draw = random() < 0.4, random()
        small = random() < 0.4
        noun = self.pick(_SMALL if small else _BIG)
        if draw < 0.2:
            return Tree([Clause(self.phrase(noun), past=past, question="where")])
        place = self.place(("on", "under") if small else ("in", "near", "behind"))
        if draw < 0.5 and "name" not in noun.tags:
            plural = random() < 0.5
            subject = Phrase(noun, self.pick(_EXISTING[plural]), plural)
            return Tree([Clause(subject, exists=True, past=past, place=place)])
        clause = Clause(self.phrase(noun, 0.15), past=past, place=place, negative=random() < 0.2)
        if random() < 0.2:
            clause.question, clause.negative = "", False
        return Tree([clause])

    def passive(self) -> Tree:
        verb = self.pick(_PASSIVES)
        agent = self.phrase(self.pick(verb.subjects), 0.15)
        patient = self.object(verb, agent.noun)
        if patient.second is not None or (not patient.determiner.name and "name" not in patient.noun.tags):
            patient = Phrase(patient.noun, DETERMINER["the"], patient.plural)
        return Tree([Clause(agent, verb, patient, past=True, passive=True)])

    def relative(self, phrase: Phrase, past: bool) -> Phrase:
        """Gives the phrase a relative clause: the dog that ate the apple, the apple that the dog ate."""
        noun = phrase.noun
        if noun not in _ACTORS or (noun in _MATTERS and self.random() < 0.6):
            verb = self.pick(_UNDERGOES[noun])
            while True:
                who = self.subject(verb.subjects, 0.0)
                if not _ambiguous(verb, who.person, past, False, ""):
                    break
            phrase.relative = Relative(Clause(who, verb, None, past=past), False)
            return phrase
        head = Phrase(noun, plural=phrase.plural)
        clause = self.action(past, head, plain=True, negative=self.random() < 0.15)
        phrase.relative = Relative(clause, True)
        return phrase

    def relating(self) -> Tree:
        """A sentence whose subject or object carries a relative clause."""
        random = self.random
        past = random() < 0.5
        if random() < 0.35:
            clause = self.action(past, plain=True)
            what = clause.object
            if what is not None and what.determiner.name and (what.noun in _ACTORS or what.noun in _MATTERS):
                self.relative(what, past)
            return Tree([clause])
        noun = self.pick(_ACTORS if random() < 0.6 else _MATTERS)
        subject = self.relative(self.phrase(noun, 0.0), past or random() < 0.5)
        if noun in _ACTORS and random() < 0.5:
            return Tree([self.action(past, subject, plain=True)])
        return Tree([self.state(past, subject)])

    def reason(self, clause: Clause) -> Clause:
        """Why the subject did it: its mood. A pronoun repeats the subject where nothing else could be meant."""
        subject, what = clause.subject, clause.object
        person = "person" in subject.noun.tags
        if subject.person == THEY:
            clear = what is None or what.person == HE
        else:
            clear = person or ("walker" in subject.noun.tags and what is None)
        if not clear:
            again = self.phrase(self.pick(_PEOPLE), 0.0)
            person = True
        elif subject.noun.pronoun is not None:
            again = Phrase(subject.noun)
        elif subject.person == THEY:
            again = Phrase(THEY_FEMININE if subject.agreement == 3 else PRONOUN["they"], refers=subject.noun)
        elif person:
            again = Phrase(PRONOUN["she" if subject.noun.feminine else "he"], refers=subject.noun)
        else:
            again = Phrase(IT[subject.noun.feminine], refers=subject.noun)
        mood = self.pick(_MOODS if person else _BEASTLY_MOODS)
        return Clause(again, adjectives=(mood,), degree=self.pick(mood.degrees), past=clause.past)

    def joining(self) -> Tree:
        past = self.random() < 0.6
        joiner = self.pick(("and", "but", "because", "because", "when", "while"))
        first = self.action(past, plain=joiner == "while")
        return Tree([first, self.following(first, joiner)], [joiner])

    def following(self, first: Clause, joiner: str) -> Clause:
        if joiner == "because":
            return self.reason(first)
        if joiner == "but":
            return self.action(first.past, plain=True, negative=not first.negative)
        return self.action(first.past, plain=True)
