"""English word forms: plurals, the third person, the past and the participle, by rule."""

VOWELS = frozenset("aeiou")


def _with_s(word: str) -> str:
    if word.endswith("y") and word[-2] not in VOWELS:
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "ch", "sh", "o")) else "s")


def plural(noun: str) -> str:
    return noun + "s" if noun.endswith("o") else _with_s(noun)  # photos, pianos; tomatoes is in the lexicon


def third(verb: str) -> str:
    return "has" if verb == "have" else _with_s(verb)


def past(verb: str) -> str:
    if verb.endswith("y") and verb[-2] not in VOWELS:
        return verb[:-1] + "ied"
    return verb + ("d" if verb.endswith("e") else "ed")


def article(following: str) -> str:
    return "an" if following[0] in VOWELS else "a"
