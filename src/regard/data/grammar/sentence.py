"""What the grammar hands out: a pair of sentences, who did what to whom, and which noun "it" stands for."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Role:
    """One clause, as indices into source.split(): the doer's noun, the verb, and the noun it is done to, if any.

    Of two joined nouns the first counts; of "didn't want to eat" the verb is "eat"; of "is tired" it is "is".
    """

    agent: int
    action: int
    patient: int | None


@dataclass(frozen=True, slots=True)
class Pronoun:
    """Indices into source.split(), but for target_adjective, which is one into target.split()."""

    it: int
    antecedent: int  # the noun that "it" stands for
    other: int  # the noun that it might have stood for
    adjective: int
    target_adjective: int
    wrong: str  # the Spanish adjective as it would agree with the other noun


@dataclass(frozen=True, slots=True)
class Sentence:
    source: str
    target: str
    roles: tuple[Role, ...]  # in the order of the verbs
    pronoun: Pronoun | None
