"""Spanish word forms: plurals, feminines, short forms, verbs, contractions and the sound rules of y and o."""

from dataclasses import dataclass
from functools import cache

Five = tuple[str, str, str, str, str]  # yo, tú, él or ella, nosotros, ellos

_PLAIN = str.maketrans("áéíóú", "aeiou")
_SHORT = {"bueno": "buen", "malo": "mal", "primero": "primer", "tercero": "tercer"}


def plural(word: str) -> str:
    if word == "joven":
        return "jóvenes"
    if word[-1] in "aeiouáéó":
        return word + "s"
    if word[-1] == "z":
        return word[:-1] + "ces"
    if word[-1] in "ns" and word[-2] in "áéíóú":  # jardín, jardines; inglés, ingleses
        return word.translate(_PLAIN) + "es"
    return word + "es"


def feminine(adjective: str) -> str:
    if adjective == "español":
        return "española"
    for ending, other in (("o", "a"), ("és", "esa"), ("án", "ana"), ("or", "ora")):
        if adjective.endswith(ending):
            return adjective.removesuffix(ending) + other
    return adjective


def before_noun(adjective: str) -> str:
    """The masculine singular that stands before its noun: un buen libro, but un libro bueno."""
    return _SHORT.get(adjective, adjective)


def contract(preposition: str, following: list[str]) -> list[str]:
    """a + el = al, de + el = del; the preposition may be of several words (cerca de)."""
    words = preposition.split()
    if following[0] == "el" and words[-1] in ("a", "de"):
        return [*words[:-1], "al" if words[-1] == "a" else "del", *following[1:]]
    return words + following


def conjunction(word: str, following: str) -> str:
    """y becomes e before the sound i, o becomes u before the sound o."""
    sound = following.removeprefix("h")
    if word == "y" and sound[0] in "ií" and following[:3] not in ("hie", "hia"):
        return "e"
    if word == "o" and sound[0] in "oó":
        return "u"
    return word


@dataclass(frozen=True, slots=True)
class Conjugation:
    infinitive: str
    present: Five
    preterite: Five
    imperfect: Five
    participle: str


_PRESENT: dict[str, str] = {
    "ser": "soy eres es somos son",
    "estar": "estoy estás está estamos están",
    "ir": "voy vas va vamos van",
    "oír": "oigo oyes oye oímos oyen",
    "sonreír": "sonrío sonríes sonríe sonreímos sonríen",
}
_FIRST = {
    "hacer": "hago",
    "traer": "traigo",
    "caer": "caigo",
    "salir": "salgo",
    "tener": "tengo",
    "ver": "veo",
}
_PRETERITE: dict[str, str] = {
    "ser": "fui fuiste fue fuimos fueron",
    "ir": "fui fuiste fue fuimos fueron",
    "ver": "vi viste vio vimos vieron",
    "hacer": "hice hiciste hizo hicimos hicieron",
    "sonreír": "sonreí sonreíste sonrió sonreímos sonrieron",
}
_STRONG = {  # the stem of preterites stressed on it: pude, pudo, pudieron
    "estar": "estuv",
    "tener": "tuv",
    "poder": "pud",
    "querer": "quis",
    "traer": "traj",
    "conducir": "conduj",
    "traducir": "traduj",
}
_IMPERFECT = {"ser": "era eras era éramos eran", "ir": "iba ibas iba íbamos iban"}
_PARTICIPLE = {
    "abrir": "abierto",
    "escribir": "escrito",
    "hacer": "hecho",
    "romper": "roto",
    "ver": "visto",
    "volver": "vuelto",
}


def _five(forms: str) -> Five:
    first, second, third, we, they = forms.split()
    return first, second, third, we, they


def _swap(stem: str, change: str) -> str:
    """The stem with the last vowel of a change such as e>ie replaced."""
    if not change:
        return stem
    old, _, new = change.partition(">")
    head, _, tail = stem.rpartition(old)
    return head + new + tail


def _present(infinitive: str, change: str) -> Five:
    if infinitive in _PRESENT:
        return _five(_PRESENT[infinitive])
    stem, theme = infinitive[:-2], infinitive[-2]
    stressed = _swap(stem, change)
    if theme == "i" and stem.endswith("u") and not stem.endswith("gu"):  # construir, construyo
        stressed += "y"
    first = stressed
    if theme != "a":
        if stem.endswith("gu"):  # seguir, sigo
            first = stressed[:-1]
        elif stem.endswith("g"):  # elegir, elijo
            first = stressed[:-1] + "j"
        elif stem.endswith("c"):  # conocer, conozco
            first = stressed[:-1] + "zc"
    a, i = ("a", "a") if theme == "a" else ("e", theme)
    return (_FIRST.get(infinitive, first + "o"), stressed + a + "s", stressed + a, stem + i + "mos", stressed + a + "n")


def _preterite(infinitive: str, change: str) -> Five:
    if infinitive in _PRETERITE:
        return _five(_PRETERITE[infinitive])
    if infinitive in _STRONG:
        stem = _STRONG[infinitive]
        they = "eron" if stem.endswith("j") else "ieron"
        return stem + "e", stem + "iste", stem + "o", stem + "imos", stem + they
    stem, theme = infinitive[:-2], infinitive[-2]
    if theme == "a":
        first = stem
        for ending, other in (("c", "qu"), ("g", "gu"), ("z", "c")):  # toqué, jugué, crucé
            if stem.endswith(ending):
                first = stem.removesuffix(ending) + other
        return first + "é", stem + "aste", stem + "ó", stem + "amos", stem + "aron"
    if stem[-1] in "aeo":  # leer, oír, caer
        return stem + "í", stem + "íste", stem + "yó", stem + "ímos", stem + "yeron"
    if infinitive.endswith("uir") and not infinitive.endswith("guir"):
        return stem + "í", stem + "iste", stem + "yó", stem + "imos", stem + "yeron"
    weak = stem
    if theme == "i" and change:  # pedir, pidió; dormir, durmió
        weak = _swap(stem, "o>u" if change.startswith("o") else "e>i")
    return stem + "í", stem + "iste", weak + "ió", stem + "imos", weak + "ieron"


def _imperfect(infinitive: str) -> Five:
    if infinitive in _IMPERFECT:
        return _five(_IMPERFECT[infinitive])
    stem = "ve" if infinitive == "ver" else infinitive[:-2]
    if infinitive[-2] == "a":
        return stem + "aba", stem + "abas", stem + "aba", stem + "ábamos", stem + "aban"
    return stem + "ía", stem + "ías", stem + "ía", stem + "íamos", stem + "ían"


def _participle(infinitive: str) -> str:
    if infinitive in _PARTICIPLE:
        return _PARTICIPLE[infinitive]
    stem = infinitive[:-2]
    if infinitive[-2] == "a":
        return stem + "ado"
    return stem + ("ído" if stem and stem[-1] in "aeo" else "ido")


@cache
def conjugate(infinitive: str, change: str = "") -> Conjugation:
    return Conjugation(
        infinitive,
        _present(infinitive, change),
        _preterite(infinitive, change),
        _imperfect(infinitive),
        _participle(infinitive),
    )
