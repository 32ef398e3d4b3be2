"""Writes a tree in English, and says where in the sentence each clause's agent, action and patient stand."""

from functools import cache
from operator import attrgetter

from regard.data.grammar.inflect_en import article
from regard.data.grammar.lexicon import HE, ME, MODAL, THEY, WE, YOU, Verb
from regard.data.grammar.sentence import Role
from regard.data.grammar.tree import Clause, Phrase, Tree

_BE = {
    (ME, False): ("am", "am not"),
    (HE, False): ("is", "isn't"),
    (ME, True): ("was", "wasn't"),
    (HE, True): ("was", "wasn't"),
    **{(person, False): ("are", "aren't") for person in (YOU, WE, THEY)},
    **{(person, True): ("were", "weren't") for person in (YOU, WE, THEY)},
}


def _do(person: int, past: bool) -> str:
    return "did" if past else "does" if person == HE else "do"


@cache
def finite(verb: Verb, person: int, past: bool, negative: bool, modal: str) -> tuple[str, ...]:
    """The verb group: its last word is the verb itself."""
    base, third, past_form, _ = verb.english
    if modal in ("can", "must"):
        word = MODAL[modal][past]
        if negative:
            return ("can't", base) if word == "can" else (word, "not", base)
        return word, base
    tail: tuple[str, ...] = ()
    if modal:
        base, third, past_form, tail = "want", "wants", "wanted", ("to", base)
    if negative:
        return _do(person, past) + "n't", base, *tail
    return (past_form if past else third if person == HE else base, *tail)


_BY_ACTION = attrgetter("action")


class _Writer:
    def __init__(self) -> None:
        self.words: list[str] = []
        self.roles: list[Role] = []

    def phrase(self, phrase: Phrase) -> int:
        """Writes the phrase and returns the index of its head noun."""
        words = self.words
        if phrase.owner is not None:
            self.phrase(phrase.owner)
            words[-1] += "'s"
        noun = phrase.noun.english[phrase.plural]
        first = noun if phrase.adjective is None else phrase.adjective.name
        name = phrase.determiner.name
        if name:
            words.append(article(first) if name == "a" else name)
        if phrase.adjective is not None:
            words.append(first)
        head = len(words)
        words.append(noun)
        if phrase.second is not None:
            words += (phrase.joiner, phrase.second.english[phrase.plural])
        if phrase.relative is not None:
            self.relative(phrase, head)
        return head

    def relative(self, phrase: Phrase, head: int) -> None:
        relative = phrase.relative
        assert relative is not None
        self.words.append("who" if "person" in phrase.noun.tags else "that")
        clause = relative.clause
        if relative.lacks_subject:
            self.predicate(clause, head)
            return
        agent = self.phrase(clause.subject)
        self.verb(clause)
        self.roles.append(Role(agent, len(self.words) - 1, head))

    def verb(self, clause: Clause) -> None:
        assert clause.verb is not None
        if clause.frequency:
            self.words.append(clause.frequency)
        self.words += finite(clause.verb, clause.subject.person, clause.past, clause.negative, clause.modal)

    def predicate(self, clause: Clause, agent: int) -> None:
        """All that follows the subject."""
        words = self.words
        if clause.verb is None:
            be = _BE[clause.subject.person, clause.past][clause.negative]
            self.roles.append(Role(agent, len(words), None))
            words += be.split()
            if clause.frequency:
                words.append(clause.frequency)
            self.adjectives(clause)
        else:
            self.verb(clause)
            self.complement(clause, agent)
        self.rest(clause)

    def complement(self, clause: Clause, agent: int) -> None:
        """The verb has just been written: its particle and its object follow."""
        assert clause.verb is not None
        action = len(self.words) - 1
        if clause.verb.particle:
            self.words.append(clause.verb.particle)
        patient = None if clause.object is None else self.phrase(clause.object)
        self.roles.append(Role(agent, action, patient))

    def adjectives(self, clause: Clause) -> None:
        if clause.degree:
            self.words.append(clause.degree)
        for place, adjective in enumerate(clause.adjectives):
            if place:
                self.words.append(clause.joiner)
            self.words.append(adjective.name)

    def rest(self, clause: Clause) -> None:
        if clause.place is not None:
            preposition, phrase = clause.place
            self.words.append(preposition)
            self.phrase(phrase)
        if clause.closing:
            self.words.append(clause.closing)

    def question(self, clause: Clause) -> None:
        words, person = self.words, clause.subject.person
        if clause.question:
            words.append(clause.question)
        if clause.verb is None:
            words.append(_BE[person, clause.past][0])
            action = len(words) - 1
            self.roles.append(Role(self.phrase(clause.subject), action, None))
            self.adjectives(clause)
        else:
            modal = clause.modal in ("can", "must")
            words.append(MODAL[clause.modal][clause.past] if modal else _do(person, clause.past))
            agent = self.phrase(clause.subject)
            if clause.modal == "want":
                words += ("want", "to")
            words.append(clause.verb.english[0])
            self.complement(clause, agent)
        self.rest(clause)
        words[-1] += "?"

    def clause(self, clause: Clause) -> None:
        words = self.words
        if clause.opening:
            words.append(clause.opening)
        if clause.question is not None:
            self.question(clause)
        elif clause.exists:
            words += ("there", _BE[clause.subject.person, clause.past][0])
            action = len(words) - 1
            self.roles.append(Role(self.phrase(clause.subject), action, None))
            self.rest(clause)
        elif clause.passive:
            assert clause.object is not None
            assert clause.verb is not None
            patient = self.phrase(clause.object)
            words += (_BE[clause.object.person, True][0], clause.verb.english[3], "by")
            action = len(words) - 2
            self.roles.append(Role(self.phrase(clause.subject), action, patient))
        else:
            self.predicate(clause, self.phrase(clause.subject))


def write(tree: Tree) -> tuple[list[str], list[Role]]:
    writer = _Writer()
    for place, clause in enumerate(tree.clauses):
        if place:
            writer.words.append(tree.joiners[place - 1])
        writer.clause(clause)
    writer.roles.sort(key=_BY_ACTION)
    return writer.words, writer.roles
