"""What goes with what: the determiners, adjectives, verbs and places that suit each noun."""

from regard.data.grammar.lexicon import (
    ADJECTIVE,
    DETERMINER,
    HE,
    NOUN,
    PRONOUN,
    VERBS_ALL,
    Adjective,
    Determiner,
    Noun,
    Verb,
    named,
    tagged,
)

# Determiners, as often as they stand here.
_OWNED = "my your his her our their"
_KIN = f"the {_OWNED}"
_SINGULAR = "the the the the the the the the a a a a this this that that every"
_PLURAL = "the the the the the the the the these these those those two three four some many"
_MASS = "the the the the this that"


def _choices(noun: Noun) -> tuple[tuple[Determiner, ...], tuple[Determiner, ...]]:
    """What may stand before the noun in the singular and in the plural."""
    if "kin" in noun.tags:
        return named(DETERMINER, _KIN), named(DETERMINER, _KIN)
    owned = _OWNED if noun.tags & {"own", "thing", "food", "drink"} else ""
    singular = _MASS if "mass" in noun.tags else _SINGULAR
    return named(DETERMINER, f"{singular} {owned}"), named(DETERMINER, f"{_PLURAL} {owned}")


CHOICES = {noun: _choices(noun) for noun in NOUN.values()}
DEFINITE = named(DETERMINER, _KIN)
THE = DETERMINER["the"]
VAGUE = frozenset(named(DETERMINER, "a every some many two three four"))
QUANTIFIED = frozenset(named(DETERMINER, "every some"))  # not under negation: "doesn't eat some apples"
EXISTING = (named(DETERMINER, "a"), named(DETERMINER, "two three four some many"))
RELATED = (named(DETERMINER, "the the the a"), named(DETERMINER, "the the the two many"))
UNCOUNTED = frozenset({"mass", "single"})
NEVER_BARE = frozenset({"person", "creature", "vehicle", "place"})

PEOPLE = tuple(noun for noun in NOUN.values() if "person" in noun.tags)
NAMES = tagged("name")
INTRODUCED = tuple(PRONOUN.values())
PREDICATES = tuple(each for each in ADJECTIVE.values() if not (each.before and each.degrees == ("",)))
TRAITS = named(ADJECTIVE, "tall intelligent kind rich shy curious clever strong stubborn")
MOODS = named(ADJECTIVE, "tired sick happy sad angry hungry thirsty scared nervous bored busy confused")
BEASTLY_MOODS = tuple(mood for mood in MOODS if NOUN["cat"] in mood.nouns)
PASSIVES = tuple(verb for verb in VERBS_ALL if "passive" in verb.flags)
PLACES: dict[str, tuple[Noun, ...]] = {
    "in": tagged("building chamber land town cave street"),
    "near": tagged("place"),
    "behind": tagged("building barrier tree"),
    "under": tagged("table bed tree bridge"),
    "on": tagged("table bed chair"),
}
BIG = tagged("person creature wheels")  # what stands in, near and behind places
SMALL = tagged("small dish readable fruit cat mouse clothes")  # what lies on and under furniture

DESCRIBES: dict[Noun, tuple[Adjective, ...]] = {
    noun: tuple(adjective for adjective in ADJECTIVE.values() if noun in adjective.nouns) for noun in NOUN.values()
}
SAID_OF = {noun: tuple(each for each in fits if each in PREDICATES) for noun, fits in DESCRIBES.items()}
DOES: dict[Noun, tuple[Verb, ...]] = {
    noun: tuple(verb for verb in VERBS_ALL if noun in verb.subjects) for noun in NOUN.values()
}
UNDERGOES: dict[Noun, tuple[Verb, ...]] = {
    noun: tuple(
        verb
        for verb in VERBS_ALL
        if noun in verb.objects
        and not verb.particle
        and not verb.preposition
        and not noun.tags & {"person", "creature"}
    )
    for noun in NOUN.values()
}
ACTORS = tuple(noun for noun, verbs in DOES.items() if verbs and "name" not in noun.tags)
MATTERS = tuple(noun for noun, verbs in UNDERGOES.items() if len(verbs) > 2)
ACTOR, MATTER = frozenset(ACTORS), frozenset(MATTERS)


_BEYOND_WHEELS = frozenset(
    tagged("pond home cave kitchen room tower church store museum library restaurant school office mountain jungle")
)
_BEYOND_CREATURES = frozenset(tagged("coffee tea wine"))


def beyond(subject: Noun) -> frozenset[Noun]:
    """What a verb allows but this subject does not: cars in kitchens, hens at their wine."""
    if "vehicle" in subject.tags:
        return _BEYOND_WHEELS
    return _BEYOND_CREATURES if "creature" in subject.tags else frozenset()


def ambiguous(verb: Verb, person: int, past: bool, negative: bool, modal: str) -> bool:
    """ "they read" is present or past: only the past is ever generated."""
    return verb.english[0] == verb.english[2] and not (past or negative or modal or person == HE)
