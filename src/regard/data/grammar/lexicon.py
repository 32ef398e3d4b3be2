"""Nouns, adjectives, verbs and small words in both languages, read from the tables with all their forms."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from regard.data.grammar import inflect_en, inflect_es
from regard.data.grammar.adjectives import ESTAR, SER
from regard.data.grammar.inflect_es import Conjugation
from regard.data.grammar.nouns import NOUNS
from regard.data.grammar.verbs import VERBS

ME, YOU, HE, WE, THEY = range(5)  # the five persons, as indices into a conjugation

T = TypeVar("T")


def named(table: dict[str, T], names: str) -> tuple[T, ...]:
    """The entries of those names; a name may come twice, to be drawn twice as often."""
    return tuple(table[name] for name in names.split())


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    english: tuple[str, str]  # singular, plural
    spanish: tuple[str, str]
    feminine: bool
    tags: frozenset[str]  # its semantic classes, and its own English name
    name: str  # the English singular
    pronoun: int | None = None  # the person, for "i", "he", ...


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    name: str
    spanish: tuple[str, str, str, str]  # ms, fs, mp, fp: index = feminine + 2 * plural
    short: str  # masculine singular before a noun
    before: bool
    copula: str
    degrees: tuple[str, ...]  # "", "very", "too": those it takes
    nouns: tuple[Noun, ...]  # what it fits

    @property
    def marked(self) -> bool:
        """Whether its Spanish form tells the gender."""
        return self.spanish[0] != self.spanish[1]


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    name: str  # "look for": the verb with its particle
    english: tuple[str, str, str, str]  # base, third person, past, participle
    particle: str
    spanish: Conjugation
    preposition: str
    participle: tuple[str, str, str, str]
    flags: frozenset[str]
    subjects: tuple[Noun, ...]
    objects: tuple[Noun, ...]
    key: str  # the name and the infinitive, since "play" is two verbs in Spanish


@dataclass(frozen=True, slots=True, eq=False)
class Determiner:
    name: str
    spanish: tuple[str, str, str, str]


def _four(masculine: str, feminine: str | None = None) -> tuple[str, str, str, str]:
    feminine = feminine or inflect_es.feminine(masculine)
    return masculine, feminine, inflect_es.plural(masculine), inflect_es.plural(feminine)


def _same(word: str) -> tuple[str, str, str, str]:
    return word, word, word, word


def _read_nouns() -> Iterator[Noun]:
    for line in filter(None, NOUNS.splitlines()):
        tags, _, entries = line.partition(":")
        for entry in entries.split(";"):
            english, spanish, gender = entry.split()
            name, _, plural = english.partition("/")
            yield Noun(
                (name, plural or inflect_en.plural(name)),
                (spanish, inflect_es.plural(spanish)),
                gender == "f",
                frozenset({*tags.split(), name}),
                name,
            )


NOUN: dict[str, Noun] = {noun.name: noun for noun in _read_nouns()}


def tagged(tags: str) -> tuple[Noun, ...]:
    """The nouns that bear any of the tags, in the lexicon's order; an unknown tag is a slip in a table."""
    wanted = frozenset(tags.split())
    if unknown := wanted - _TAGS:
        raise ValueError(f"no noun is tagged {', '.join(sorted(unknown))}")
    return tuple(noun for noun in NOUN.values() if noun.tags & wanted)


_TAGS = frozenset(tag for noun in NOUN.values() for tag in noun.tags)


def _read_adjectives(table: str, copula: str) -> Iterator[Adjective]:
    for line in filter(None, table.splitlines()):
        head, _, tags = line.partition(":")
        name, spanish = head.lstrip("!+<").split()
        marks = head[: head.index(name)]
        degrees = ("",) if "!" in marks else ("", "very") if "+" in marks else ("", "very", "too")
        short = inflect_es.before_noun(spanish)
        yield Adjective(name, _four(spanish), short, "<" in marks, copula, degrees, tagged(tags))


ADJECTIVE: dict[str, Adjective] = {
    adjective.name: adjective for table in ((SER, "ser"), (ESTAR, "estar")) for adjective in _read_adjectives(*table)
}


def _read_verbs() -> Iterator[Verb]:
    for line in filter(None, VERBS.splitlines()):
        english, spanish, subjects, objects, flags = (part.strip() for part in line.split("|"))
        base, *irregular = english.split()
        base, _, particle = base.partition("+")
        past = irregular[0] if irregular else inflect_en.past(base)
        infinitive, _, change = spanish.partition(" ")
        infinitive, _, preposition = infinitive.partition("+")
        forms = inflect_es.conjugate(infinitive, change)
        yield Verb(
            f"{base} {particle}".strip(),
            (base, inflect_en.third(base), past, irregular[1] if len(irregular) > 1 else past),
            particle,
            forms,
            preposition,
            _four(forms.participle),
            frozenset(flags.split()),
            tagged(subjects),
            tagged(objects),
            f"{base} {particle}".strip() + f"={infinitive}",
        )


VERBS_ALL: tuple[Verb, ...] = tuple(_read_verbs())


def verb(name: str, transitive: bool = True) -> Verb:
    """The verb of that name; "play" and "jump" exist with and without an object."""
    found = [each for each in VERBS_ALL if each.name == name]
    return next((each for each in found if bool(each.objects) == transitive), found[0])


def _pronoun(english: str, spanish: str, feminine: bool, person: int) -> Noun:
    return Noun((english, english), (spanish, spanish), feminine, frozenset({"person", english}), english, person)


PRONOUN: dict[str, Noun] = {
    "i": _pronoun("i", "", False, ME),
    "you": _pronoun("you", "", False, YOU),
    "he": _pronoun("he", "él", False, HE),
    "she": _pronoun("she", "ella", True, HE),
    "we": _pronoun("we", "", False, WE),
    "they": _pronoun("they", "ellos", False, THEY),
}
IT: tuple[Noun, Noun] = (_pronoun("it", "", False, HE), _pronoun("it", "", True, HE))  # by the antecedent's gender
THEY_FEMININE = _pronoun("they", "", True, THEY)  # only where the antecedent is known

DETERMINER: dict[str, Determiner] = {
    each.name: each
    for each in (
        Determiner("", _same("")),
        Determiner("the", ("el", "la", "los", "las")),
        Determiner("a", ("un", "una", "unos", "unas")),
        Determiner("this", ("este", "esta", "", "")),
        Determiner("that", ("ese", "esa", "", "")),
        Determiner("these", ("", "", "estos", "estas")),
        Determiner("those", ("", "", "esos", "esas")),
        Determiner("my", _four("mi", "mi")),
        Determiner("your", _four("tu", "tu")),
        Determiner("his", _four("su", "su")),
        Determiner("her", _four("su", "su")),
        Determiner("our", _four("nuestro")),
        Determiner("their", _four("su", "su")),
        Determiner("every", _same("cada")),
        Determiner("some", _four("alguno")),
        Determiner("many", _four("mucho")),
        Determiner("two", _same("dos")),
        Determiner("three", _same("tres")),
        Determiner("four", _same("cuatro")),
    )
}

DEGREE = {"very": "muy", "too": "demasiado"}
OPENING = {"yesterday": "ayer", "today": "hoy", "now": "ahora"}
FREQUENCY = {"always": "siempre", "never": "nunca"}  # before the verb in both languages
CLOSING = {"slowly": "despacio", "quickly": "rápidamente", "well": "bien"}
PREPOSITION = {
    "in": "en",
    "on": "sobre",
    "under": "debajo de",
    "near": "cerca de",
    "behind": "detrás de",
    "with": "con",
    "for": "para",
}
JOINER = {"and": "y", "or": "o", "but": "pero", "because": "porque", "when": "cuando", "while": "mientras"}
QUESTION = {"": "", "why": "por qué", "when": "cuándo", "where": "dónde"}
MODAL: dict[str, tuple[str, str]] = {"can": ("can", "could"), "must": ("must", ""), "want": ("want", "wanted")}
MODAL_SPANISH = {
    "can": inflect_es.conjugate("poder", "o>ue"),
    "must": inflect_es.conjugate("deber"),
    "want": inflect_es.conjugate("querer", "e>ie"),
}


def _small_words() -> Iterable[str]:
    for table in (PRONOUN, DETERMINER, DEGREE, OPENING, FREQUENCY, CLOSING, PREPOSITION, JOINER, QUESTION, MODAL):
        for entry in table:
            yield from entry.split()
    yield from ("it", "be", "do", "not", "there", "by", "who", "that", "to")


def words() -> tuple[str, ...]:
    """The English vocabulary: every lemma and small word once."""
    found = {*NOUN, *ADJECTIVE, *_small_words()}
    for each in VERBS_ALL:
        found.update(each.name.split())
    return tuple(sorted(found))
