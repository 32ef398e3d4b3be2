"""Who may see which sentence: the splits, drawn from one grammar and kept apart by stable hashes alone.

Three things are held out, each decided by a hash, so that any number of pairs streams in constant memory:
sentences (dev, test), combinations of a verb or adjective with a noun (compositional), and pairs of nouns between
which "it" must choose (pronoun). Sentences over MAX_WORDS are the split "longer". Training has none of these, and
no split but its own has a held-out combination or pair.
"""

from collections.abc import Callable, Iterator
from functools import cache, partial
from hashlib import blake2b
from math import isqrt
from random import Random

from regard.data.grammar import english, pronouns, spanish
from regard.data.grammar.lexicon import IT
from regard.data.grammar.pronouns import Case
from regard.data.grammar.sampler import Sampler
from regard.data.grammar.sentence import Pronoun, Sentence
from regard.data.grammar.tree import Tree, survey
from regard.errors import UserError

SPLITS = ("train", "dev", "test", "compositional", "longer", "pronoun")
MIN_WORDS, MAX_WORDS, LONGEST = 3, 12, 20
LIMIT = 100_000  # sentences of each split but train, kept in memory to be distinct; the grammar has far more
PRONOUN_SHARE, ALIKE_SHARE = 0.22, 0.2  # of the sentences: "it" between nouns of two genders, and of one

_SALT = "regard"
_BUCKETS = {0: "dev", 1: "test"}  # of 20
_KINDS = "simple " * 38 + "being " * 20 + "relating " * 16 + "joining " * 16 + "passive " * 5 + "locating " * 5
Frames = tuple[tuple[Case, ...], ...]


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(f"{_SALT} {text}".encode(), digest_size=4).digest())


def bucket(source: str) -> str:
    """train, dev or test, by the English sentence."""
    return _BUCKETS.get(_hash(source) % 20, "train")


@cache
def held_combination(pair: tuple[str, str]) -> bool:
    """Whether this verb or adjective is kept from this noun in training: one in sixteen."""
    return _hash(f"{pair[0]} + {pair[1]}") % 16 == 0


@cache
def held_pair(first: str, second: str) -> bool:
    """Whether training never shows these two nouns in one sentence; the pair that everyone teaches with is held."""
    one, two = sorted((first, second))
    return (one, two) == ("animal", "street") or _hash(f"{one} & {two}") % 12 == 0


@cache
def _frames(held: bool, *, differ: bool = True) -> Frames:
    """The pronoun cases, frame by frame, whose two nouns are held out or not; larger frames stand here more often."""
    chosen = (tuple(case for case in frame if _held(case) is held) for frame in pronouns.cases(differ=differ))
    return tuple(frame for frame in chosen if frame for _ in range(6 + isqrt(len(frame))))


def _held(case: Case) -> bool:
    return held_pair(case.subject.name, case.object.name)


@cache
def _kept_apart() -> dict[str, frozenset[str]]:
    """For each noun, those that it never meets in training."""
    partners: dict[str, set[str]] = {}
    for frame in _frames(True):
        for case in frame:
            partners.setdefault(case.subject.name, set()).add(case.object.name)
    return {noun: frozenset(others) for noun, others in partners.items()}


def _meet(nouns: set[str]) -> bool:
    """Whether two of the nouns are kept apart in training."""
    apart = _kept_apart()
    return any(noun in apart and not apart[noun].isdisjoint(nouns) for noun in nouns)


def written(tree: Tree, split: str) -> Sentence | None:
    """The sentence in both languages, if it belongs to the split."""
    found = survey(tree)
    if any(map(held_combination, found.pairs)) is not (split == "compositional"):
        return None
    if _meet(found.nouns) is not (split == "pronoun"):
        return None
    words, roles = english.write(tree)
    least, most = (MAX_WORDS + 1, LONGEST) if split == "longer" else (MIN_WORDS, MAX_WORDS)
    if not least <= len(words) <= most:
        return None
    source = " ".join(words)
    if split in ("train", "dev", "test") and bucket(source) != split:
        return None
    target = spanish.write(tree)
    last, act = tree.clauses[-1], roles[0]
    pronoun = None
    subject, what = tree.clauses[0].subject.noun, tree.clauses[0].object
    # There is something to decide if "it" can be either noun, and if these have two genders.
    differ = what is not None and what.noun.feminine != subject.feminine
    if last.subject.noun in IT and act.patient is not None and differ:
        right, other = act.agent, act.patient
        if last.subject.refers[0] is not subject:
            right, other = other, right
        wrong = last.adjectives[0].spanish[not last.subject.noun.feminine]
        pronoun = Pronoun(roles[-1].agent, right, other, len(words) - 1, len(target) - 1, wrong)
    return Sentence(source, " ".join(target), tuple(roles), pronoun)


def _drawing(split: str, sampler: Sampler) -> Iterator[Callable[[], Tree]]:
    """What to draw for the next sentence, to be tried until it fits the split: so held-out sentences skew no share.

    Within the pronoun family subject and object take turns as the antecedent.
    """
    kinds: list[Callable[[], Tree]] = [getattr(sampler, kind) for kind in _KINDS.split()]
    frames = _frames(split == "pronoun")
    sides = [partial(pronouns.draw, sampler, frames, of_object) for of_object in (False, True)]
    alike = [partial(pronouns.draw, sampler, _frames(False, differ=False), of_object) for of_object in (False, True)]
    turn = 0
    while True:
        if split == "longer":
            yield sampler.long
        elif split == "pronoun" or sampler.random() < PRONOUN_SHARE:
            turn = 1 - turn
            yield sides[turn]
        elif sampler.random() < ALIKE_SHARE / (1 - PRONOUN_SHARE):
            yield sampler.pick(alike)
        else:
            yield sampler.pick(kinds)


def _sentences(split: str, count: int, seed: int) -> Iterator[Sentence]:
    sampler = Sampler(Random(f"{seed} {split}").random)
    seen: set[str] | None = None if split == "train" else set()
    drawing = _drawing(split, sampler)
    for _ in range(count):
        draw = next(drawing)
        sentence = None
        while sentence is None or (seen is not None and sentence.source in seen):
            sentence = written(draw(), split)
        if seen is not None:
            seen.add(sentence.source)
        yield sentence


def generate(split: str, count: int, seed: int = 0) -> Iterator[Sentence]:
    """Streams `count` sentences of a split, the same ones for the same seed; distinct ones in every split but train."""
    if split not in SPLITS:
        raise UserError(f"no split is called {split!r}; there are {', '.join(SPLITS)}")
    if count < 0:
        raise UserError(f"cannot generate {count} sentences; ask for 0 or more")
    if split != "train" and count > LIMIT:
        raise UserError(f"the split {split!r} gives at most {LIMIT:,} distinct sentences; {count:,} were asked for")
    return _sentences(split, count, seed)
