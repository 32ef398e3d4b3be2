"""Draws trees at random: sentences that make sense, because verbs and adjectives know the nouns they go with."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from regard.data.grammar.lexicon import HE, IT, PRONOUN, THEY, THEY_FEMININE, VERBS_ALL, Noun, Verb
from regard.data.grammar.semantics import (
    ACTOR,
    ACTORS,
    BEASTLY_MOODS,
    BIG,
    CHOICES,
    DEFINITE,
    DESCRIBES,
    DOES,
    EXISTING,
    INTRODUCED,
    MATTER,
    MATTERS,
    MOODS,
    NAMES,
    NEVER_BARE,
    PASSIVES,
    PEOPLE,
    PLACES,
    PREDICATES,
    QUANTIFIED,
    RELATED,
    SAID_OF,
    SMALL,
    THE,
    TRAITS,
    UNCOUNTED,
    UNDERGOES,
    VAGUE,
    ambiguous,
    beyond,
)
from regard.data.grammar.tree import Clause, Phrase, Relative, Tree, heads

T = TypeVar("T")


def _deny(clause: Clause) -> Clause:
    """Under "not" and "never", every and some give way to the."""
    for phrase in (clause.subject, clause.object, clause.place and clause.place[1]):
        if phrase is not None and phrase.determiner in QUANTIFIED:
            phrase.determiner = THE
    return clause


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
        plural = random() < 0.33 and not noun.tags & UNCOUNTED
        adjective = self.pick(DESCRIBES[noun]) if random() < described else None
        if adjective is not None and adjective.before and adjective.degrees == ("",):  # the first, my other
            return Phrase(noun, self.pick(DEFINITE), plural, adjective)
        if "own" in noun.tags and "person" not in noun.tags and random() < 0.08:
            return Phrase(noun, plural=plural, adjective=adjective, owner=self.owner())
        return Phrase(noun, self.pick(CHOICES[noun][plural]), plural, adjective)

    def owner(self) -> Phrase:
        noun = self.pick(PEOPLE)
        if "name" in noun.tags:
            return Phrase(noun)
        return Phrase(noun, self.pick(DEFINITE if "own" in noun.tags else DEFINITE[:1]))

    def subject(self, nouns: Sequence[Noun], described: float = 0.2) -> Phrase:
        noun = self.pick(nouns)
        if "person" not in noun.tags:
            return self.phrase(noun, described)
        draw = self.random()
        if draw < 0.2:
            return Phrase(self.pick(INTRODUCED))
        if draw < 0.25:
            first, second = self.pick(NAMES), self.pick(NAMES)
            if first is not second:
                return Phrase(first, joiner="and", second=second)
        return self.phrase(noun, described)

    def object(self, verb: Verb, subject: Noun, question: bool = False, described: float = 0.2) -> Phrase:
        noun = self.pick(verb.objects)
        while noun is subject or noun in beyond(subject):
            noun = self.pick(verb.objects)
        mass = "mass" in noun.tags
        if "bare" in verb.flags and self.random() < (0.6 if question else 0.3) and not noun.tags & NEVER_BARE:
            second = self.pick(verb.objects)
            joined = self.random() < 0.5 and second is not noun and ("mass" in second.tags) == mass
            if joined and not second.tags & NEVER_BARE:
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
            verb = self.pick(DOES[subject.noun] if subject is not None else VERBS_ALL)
            who = subject or self.subject(verb.subjects, described)
            modal = "" if plain or random() > 0.14 else self.pick(("can", "must", "want"))
            if "state" in verb.flags or (modal == "must" and past) or "vehicle" in who.noun.tags:
                modal = ""
            if not ambiguous(verb, who.person, past, negative, modal):
                break
        what = self.object(verb, who.noun, False, described) if verb.objects else None
        clause = Clause(who, verb, what, past=past, negative=negative, modal=modal)
        if negative:
            _deny(clause)
            if what is not None:
                what.second = None  # "doesn't eat apples and pears" would need "ni"
        return clause

    def place(self, prepositions: Sequence[str]) -> tuple[str, Phrase]:
        preposition = self.pick(prepositions)
        return preposition, self.phrase(self.pick(PLACES[preposition]), 0.15)

    def adorn(self, clause: Clause) -> Clause:
        """Where, with whom, for whom, how, when, how often: at most two of them."""
        verb, random = clause.verb, self.random
        assert verb is not None
        flags = verb.flags
        if "where" in flags and random() < 0.45:
            clause.place = self.place(("in", "in", "near", "behind"))
        elif "for" in flags and random() < 0.3:
            clause.place = ("for", self.phrase(self.pick(PEOPLE), 0.1))
        elif "person" in clause.subject.noun.tags and not verb.objects and random() < 0.3:
            clause.place = ("with", self.phrase(self.pick(PEOPLE), 0.1))
        elif "skill" in flags and random() < 0.4:
            clause.closing = "well"
        elif "manner" in flags and random() < 0.3:
            clause.closing = self.pick(("slowly", "quickly"))
        draw = random()
        if draw < 0.12:
            clause.opening = self.pick(("yesterday", "today") if clause.past else ("today", "now"))
        elif draw < 0.2 and not (clause.past or clause.negative or clause.modal):
            clause.frequency = self.pick(("always", "never"))
        return _deny(clause) if clause.negative or clause.frequency else clause

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
            adjective = self.pick(PREDICATES)
            subject = self.subject(adjective.nouns, 0.0)
            if subject.determiner in VAGUE and random() < 0.9:  # of what is somehow, one mostly knows which
                subject.determiner = THE
        else:
            adjective = self.pick(SAID_OF[subject.noun])
        clause = Clause(subject, adjectives=(adjective,), past=past, negative=random() < 0.2)
        if adjective in TRAITS and "person" in subject.noun.tags and random() < 0.6:
            second = self.pick(TRAITS)
            if second is not adjective:
                clause.adjectives, clause.joiner, clause.negative = (adjective, second), "and", False
        elif random() < 0.5:
            clause.degree = self.pick(adjective.degrees)
        return _deny(clause) if clause.negative else clause

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
        noun = self.pick(SMALL if small else BIG)
        if draw < 0.2:
            return Tree([Clause(self.phrase(noun), past=past, question="where")])
        place = self.place(("on", "under") if small else ("in", "near", "behind"))
        if draw < 0.5 and not noun.tags & {"name", "kin"}:
            plural = random() < 0.5 and not noun.tags & UNCOUNTED
            subject = Phrase(noun, self.pick(EXISTING[plural]), plural)
            return Tree([Clause(subject, exists=True, past=past, place=place)])
        clause = Clause(self.phrase(noun, 0.15), past=past, place=place, negative=random() < 0.2)
        if random() < 0.2:
            clause.question, clause.negative = "", False
        return Tree([_deny(clause) if clause.negative else clause])

    def passive(self) -> Tree:
        verb = self.pick(PASSIVES)
        agent = self.phrase(self.pick(verb.subjects), 0.15)
        patient = self.object(verb, agent.noun)
        if patient.second is not None or (not patient.determiner.name and "name" not in patient.noun.tags):
            patient = Phrase(patient.noun, THE, patient.plural)
        return Tree([Clause(agent, verb, patient, past=True, passive=True)])

    def relative(self, phrase: Phrase, past: bool) -> Phrase:
        """Gives the phrase a relative clause: the dog that ate the apple, the apple that the dog ate."""
        noun = phrase.noun
        phrase.determiner = THE if "mass" in noun.tags else self.pick(RELATED[phrase.plural])
        phrase.owner = None
        if noun not in ACTOR or (noun in MATTER and self.random() < 0.6):
            verb = self.pick(UNDERGOES[noun])
            while True:
                who = self.subject(verb.subjects, 0.0)
                if who.determiner.name != "that" and not ambiguous(verb, who.person, past, False, ""):
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
            if (
                what is not None
                and what.determiner.name
                and what.adjective is None
                and (what.noun in ACTOR or what.noun in MATTER)
            ):
                self.relative(what, past)
            return Tree([clause])
        noun = self.pick(ACTORS if random() < 0.6 else MATTERS)
        subject = self.relative(self.phrase(noun, 0.0), past or random() < 0.5)
        if noun in ACTOR and random() < 0.5:
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
            again = self.phrase(self.pick(PEOPLE), 0.0)
            person = True
        elif subject.noun.pronoun is not None:
            again = Phrase(subject.noun)
        elif subject.person == THEY:
            again = Phrase(THEY_FEMININE if subject.agreement == 3 else PRONOUN["they"], refers=heads(subject))
        elif person:
            again = Phrase(PRONOUN["she" if subject.noun.feminine else "he"], refers=heads(subject))
        else:
            again = Phrase(IT[subject.noun.feminine], refers=heads(subject))
        mood = self.pick(MOODS if person else BEASTLY_MOODS)
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

    def long(self) -> Tree:
        """Three clauses, or two of which one has a relative: longer than anything in training."""
        first = self.relating() if self.random() < 0.5 else self.joining()
        joiner = self.pick([each for each in ("and", "but", "when", "while") if each not in first.joiners])
        last = first.clauses[-1]
        first.clauses.append(self.following(last, joiner))
        first.joiners.append(joiner)
        return first
