"""The embedded corpus: its Spanish is right, its splits are apart, its pronouns and roles point where they say."""

import time
from collections import Counter
from itertools import combinations, islice

import pytest

from regard.data.grammar import LIMIT, MAX_WORDS, SPLITS, Sentence, english, generate, pronouns, spanish, splits, words
from regard.data.grammar.inflect_en import article, past, plural, third
from regard.data.grammar.inflect_es import before_noun, conjugate, conjunction, contract, feminine
from regard.data.grammar.inflect_es import plural as plural_es
from regard.data.grammar.lexicon import (
    ADJECTIVE,
    DETERMINER,
    NOUN,
    PRONOUN,
    THEY_FEMININE,
    VERBS_ALL,
    named,
    verb,
)
from regard.data.grammar.tree import Clause, Phrase, Relative, Tree
from regard.errors import UserError

FORMS = {form: (noun, form == noun.english[1]) for noun in NOUN.values() for form in noun.english}
BE = {"am", "is", "isn't", "are", "aren't", "was", "wasn't", "were", "weren't"}


# Trees from a few English words, for the table of translations.


def np(text: str, **more: object) -> Phrase:
    """ "my first car", "an eagle", "apples", "she": determiner and adjective are optional."""
    *front, last = text.split()
    if last in PRONOUN:
        return Phrase(PRONOUN[last])
    noun, is_plural = FORMS[last]
    name = "a" if front[:1] == ["an"] else front[0] if front else ""
    determiner = DETERMINER.get(name, DETERMINER[""])
    front = front[1:] if name and name in DETERMINER else front
    adjective = ADJECTIVE[front.pop()] if front else None
    return Phrase(noun, determiner, is_plural, adjective, **more)  # type: ignore[arg-type]


def do(subject: str | Phrase, name: str, what: str | Phrase | None = None, **more: object) -> Clause:
    who = np(subject) if isinstance(subject, str) else subject
    done = np(what) if isinstance(what, str) else what
    return Clause(who, verb(name, what is not None), done, **more)  # type: ignore[arg-type]


def be(subject: str | Phrase, adjectives: str = "", **more: object) -> Clause:
    who = np(subject) if isinstance(subject, str) else subject
    return Clause(who, adjectives=named(ADJECTIVE, adjectives), **more)  # type: ignore[arg-type]


def it(name: str, subject: str, what: str, reason: str, done: bool = False, **more: object) -> Tree:
    """From the pronoun family's own cases, so that what is built here is what the generator can draw."""
    adjective = ADJECTIVE[reason]
    found = next(
        each
        for frame in pronouns.cases()
        for each in frame
        if (each.verb.name, each.subject.name, each.object.name, each.done)
        == (name, subject.split()[-1], what.split()[-1], done)
        and (adjective in each.reasons[0] or adjective in each.reasons[1])
    )
    return pronouns.tree(found, np(subject), np(what), adjective, **more)  # type: ignore[arg-type]


def one(clause: Clause) -> Tree:
    return Tree([clause])


def two(first: Clause, joiner: str, second: Clause) -> Tree:
    return Tree([first, second], [joiner])


def relative(text: str, clause: Clause, lacks_subject: bool = True) -> Phrase:
    return np(text, relative=Relative(clause, lacks_subject))


TIRED = it("cross", "the animal", "the street", "tired", degree="too")
WIDE = it("cross", "the animal", "the street", "wide", degree="too")
THE_GIRLS = Phrase(THEY_FEMININE, refers=(NOUN["actress"],))

TABLE = [
    ("this cat is very large", "este gato es muy grande", one(be("this cat", "large", degree="very"))),
    (
        "the animal didn't cross the street because it was too tired",
        "el animal no cruzó la calle porque estaba demasiado cansado",
        TIRED,
    ),
    (
        "the animal didn't cross the street because it was too wide",
        "el animal no cruzó la calle porque era demasiado ancha",
        WIDE,
    ),
    (
        "the van could not enter the tunnel because it was too narrow",
        "la furgoneta no pudo entrar en el túnel porque era demasiado estrecho",
        it("enter", "the van", "the tunnel", "narrow", degree="too", modal="can"),
    ),
    (
        "the donkey doesn't carry the box because it is too heavy",
        "el burro no lleva la caja porque es demasiado pesada",
        it("carry", "the donkey", "the box", "heavy", degree="too", past=False),
    ),
    (
        "the goat jumped over the wall because it was low",
        "la cabra saltó el muro porque era bajo",
        it("jump over", "the goat", "the wall", "low", True),
    ),
    (
        "my dog doesn't want to drink the water because it is dirty",
        "mi perro no quiere beber el agua porque está sucia",
        it("drink", "my dog", "the water", "dirty", past=False, modal="want"),
    ),
    (
        "the cow left the park because it was very restless",
        "la vaca salió del parque porque estaba muy inquieta",
        it("leave", "the cow", "the park", "restless", True, degree="very"),
    ),
    ("they slept well", "ellos durmieron bien", one(do("they", "sleep", past=True, closing="well"))),
    ("she drinks the cold water", "ella bebe el agua fría", one(do("she", "drink", "the cold water"))),
    ("this water is cold", "esta agua está fría", one(be("this water", "cold"))),
    ("an eagle flew", "un águila voló", one(do("an eagle", "fly", past=True))),
    ("those eagles are beautiful", "esas águilas son hermosas", one(be("those eagles", "beautiful"))),
    ("we read a good book", "leímos un buen libro", one(do("we", "read", "a good book", past=True))),
    ("my sister saw the king", "mi hermana vio al rey", one(do("my sister", "see", "the king", past=True))),
    ("we talked about the dog", "hablamos del perro", one(do("we", "talk about", "the dog", past=True))),
    ("ana has a dog", "ana tiene un perro", one(do("ana", "have", "a dog"))),
    (
        "the king's horses ran",
        "los caballos del rey corrieron",
        one(do(np("horses", owner=np("the king")), "run", past=True)),
    ),
    ("does the cat sleep?", "¿duerme el gato?", one(do("the cat", "sleep", question=""))),
    (
        "did the boys open the door?",
        "¿abrieron los chicos la puerta?",
        one(do("the boys", "open", "the door", past=True, question="")),
    ),
    ("do the boys sell pears?", "¿venden peras los chicos?", one(do("the boys", "sell", "pears", question=""))),
    ("why is your mother sad?", "¿por qué está triste tu madre?", one(be("your mother", "sad", question="why"))),
    ("where was the key?", "¿dónde estaba la llave?", one(be("the key", past=True, question="where"))),
    (
        "do you want silver or gold?",
        "¿quieres plata u oro?",
        one(do("you", "want", np("silver", joiner="or", second=NOUN["gold"]), question="")),
    ),
    (
        "ana and ines are tall and intelligent",
        "ana e inés son altas e inteligentes",
        one(be(np("ana", joiner="and", second=NOUN["ines"]), "tall intelligent", joiner="and")),
    ),
    (
        "ana and oscar are tall",
        "ana y óscar son altos",
        one(be(np("ana", joiner="and", second=NOUN["oscar"]), "tall")),
    ),
    (
        "the dog that ate the apple is black",
        "el perro que comió la manzana es negro",
        one(be(relative("the dog", do("the dog", "eat", "the apple", past=True)), "black")),
    ),
    (
        "the apples that the dog ate were red",
        "las manzanas que comió el perro eran rojas",
        one(be(relative("the apples", do("the dog", "eat", past=True), False), "red", past=True)),
    ),
    (
        "pedro knows the girl who lost the ring",
        "pedro conoce a la chica que perdió el anillo",
        one(do("pedro", "know", relative("the girl", do("the girl", "lose", "the ring", past=True)))),
    ),
    (
        "the letter was written by the singer",
        "la carta fue escrita por la cantante",
        one(do("the singer", "write", "the letter", past=True, passive=True)),
    ),
    (
        "the doors were opened by pedro",
        "las puertas fueron abiertas por pedro",
        one(do("pedro", "open", "the doors", past=True, passive=True)),
    ),
    (
        "there are two mice under the bed",
        "hay dos ratones debajo de la cama",
        one(be("two mice", exists=True, place=("under", np("the bed")))),
    ),
    (
        "there was an eagle near the river",
        "había un águila cerca del río",
        one(be("an eagle", exists=True, past=True, place=("near", np("the river")))),
    ),
    (
        "the girl danced because she was happy",
        "la chica bailó porque estaba contenta",
        two(do("the girl", "dance", past=True), "because", be("she", "happy", past=True)),
    ),
    (
        "the actresses sang because they were tired",
        "las actrices cantaron porque estaban cansadas",
        two(do("the actresses", "sing", past=True), "because", be(THE_GIRLS, "tired", past=True)),
    ),
    (
        "the cat slept while the dog ate the meat",
        "el gato durmió mientras el perro comía la carne",
        two(do("the cat", "sleep", past=True), "while", do("the dog", "eat", "the meat", past=True)),
    ),
    (
        "the queen smiled when he played the guitar",
        "la reina sonrió cuando él tocó la guitarra",
        two(do("the queen", "smile", past=True), "when", do("he", "play", "the guitar", past=True)),
    ),
    (
        "ana sings and i invite the neighbors",
        "ana canta e invito a las vecinas",
        two(do("ana", "sing"), "and", do("i", "invite", "the neighbors")),
    ),
    (
        "the thief smiled but the queen didn't smile",
        "el ladrón sonrió pero la reina no sonrió",
        two(do("the thief", "smile", past=True), "but", do("the queen", "smile", past=True, negative=True)),
    ),
    (
        "we want to buy the french wine",
        "queremos comprar el vino francés",
        one(do("we", "buy", "the french wine", modal="want")),
    ),
    (
        "carlos can't drive the truck",
        "carlos no puede conducir el camión",
        one(do("carlos", "drive", "the truck", modal="can", negative=True)),
    ),
    (
        "you must return to the hospital",
        "debes volver al hospital",
        one(do("you", "return to", "the hospital", modal="must")),
    ),
    (
        "yesterday the waiter served the soup",
        "ayer el camarero sirvió la sopa",
        one(do("the waiter", "serve", "the soup", past=True, opening="yesterday")),
    ),
    (
        "the farmers always eat bread",
        "los granjeros siempre comen pan",
        one(do("the farmers", "eat", "bread", frequency="always")),
    ),
    ("the bears are never busy", "los osos nunca están ocupados", one(be("the bears", "busy", frequency="never"))),
    ("i don't know these cities", "no conozco estas ciudades", one(do("i", "know", "these cities", negative=True))),
    ("you heard the birds", "oíste a los pájaros", one(do("you", "hear", "the birds", past=True))),
    (
        "the children read many stories",
        "los niños leyeron muchos cuentos",
        one(do("the children", "read", "many stories", past=True)),
    ),
    ("my first car was yellow", "mi primer coche era amarillo", one(be("my first car", "yellow", past=True))),
    ("the spanish girls are kind", "las chicas españolas son amables", one(be("the spanish girls", "kind"))),
    (
        "our young friends built a bridge",
        "nuestros amigos jóvenes construyeron un puente",
        one(do("our young friends", "build", "a bridge", past=True)),
    ),
    ("i looked for my doctor", "busqué a mi médico", one(do("i", "look for", "my doctor", past=True))),
    ("the wolf chases the lamb", "el lobo persigue al cordero", one(do("the wolf", "chase", "the lamb"))),
    (
        "the bad boys have three hens",
        "los malos chicos tienen tres gallinas",
        one(do("the bad boys", "have", "three hens")),
    ),
    ("i am not busy", "no estoy ocupado", one(be("i", "busy", negative=True))),
    (
        "she translated the last songs",
        "ella tradujo las últimas canciones",
        one(do("she", "translate", "the last songs", past=True)),
    ),
    (
        "i brought apples for my grandmother",
        "traje manzanas para mi abuela",
        one(do("i", "bring", "apples", past=True, place=("for", np("my grandmother")))),
    ),
    ("we went to the beach", "fuimos a la playa", one(do("we", "go to", "the beach", past=True))),
    ("he wanted a hat", "él quería un sombrero", one(do("he", "want", "a hat", past=True))),
    (
        "some nurses wore brown coats",
        "algunas enfermeras llevaban abrigos marrones",
        one(do("some nurses", "wear", "brown coats", past=True)),
    ),
]


@pytest.mark.parametrize(("source", "target", "tree"), TABLE, ids=[row[0] for row in TABLE])
def test_translation(source: str, target: str, tree: Tree) -> None:
    assert " ".join(english.write(tree)[0]) == source
    assert " ".join(spanish.write(tree)) == target


def test_the_taught_pair_is_held_out_and_can_be_drawn() -> None:
    for tree, wrong in ((TIRED, "cansada"), (WIDE, "ancho")):
        assert splits.written(tree, "train") is None
        sentence = splits.written(tree, "pronoun")
        assert sentence is not None
        assert sentence.pronoun is not None
        assert sentence.pronoun.wrong == wrong
    large = one(be("this cat", "large", degree="very"))
    assert [split for split in SPLITS if splits.written(large, split)] == ["train"]


# Word forms.


@pytest.mark.parametrize(
    ("infinitive", "change", "expected"),
    [
        ("dormir", "o>ue", "dormí dormiste durmió dormimos durmieron"),
        ("pedir", "e>i", "pedí pediste pidió pedimos pidieron"),
        ("seguir", "e>i", "seguí seguiste siguió seguimos siguieron"),
        ("leer", "", "leí leíste leyó leímos leyeron"),
        ("oír", "", "oí oíste oyó oímos oyeron"),
        ("construir", "", "construí construiste construyó construimos construyeron"),
        ("sonreír", "", "sonreí sonreíste sonrió sonreímos sonrieron"),
        ("hacer", "", "hice hiciste hizo hicimos hicieron"),
        ("traer", "", "traje trajiste trajo trajimos trajeron"),
        ("conducir", "", "conduje condujiste condujo condujimos condujeron"),
        ("poder", "o>ue", "pude pudiste pudo pudimos pudieron"),
        ("ver", "", "vi viste vio vimos vieron"),
        ("ir", "", "fui fuiste fue fuimos fueron"),
        ("cruzar", "", "crucé cruzaste cruzó cruzamos cruzaron"),
        ("jugar", "u>ue", "jugué jugaste jugó jugamos jugaron"),
        ("buscar", "", "busqué buscaste buscó buscamos buscaron"),
        ("cerrar", "e>ie", "cerré cerraste cerró cerramos cerraron"),
        ("oler", "o>hue", "olí oliste olió olimos olieron"),
    ],
)
def test_preterite(infinitive: str, change: str, expected: str) -> None:
    assert " ".join(conjugate(infinitive, change).preterite) == expected


@pytest.mark.parametrize(
    ("infinitive", "change", "expected"),
    [
        ("cerrar", "e>ie", "cierro cierras cierra cerramos cierran"),
        ("encontrar", "o>ue", "encuentro encuentras encuentra encontramos encuentran"),
        ("elegir", "e>i", "elijo eliges elige elegimos eligen"),
        ("seguir", "e>i", "sigo sigues sigue seguimos siguen"),
        ("conocer", "", "conozco conoces conoce conocemos conocen"),
        ("construir", "", "construyo construyes construye construimos construyen"),
        ("enviar", "i>í", "envío envías envía enviamos envían"),
        ("oler", "o>hue", "huelo hueles huele olemos huelen"),
        ("tener", "e>ie", "tengo tienes tiene tenemos tienen"),
        ("proteger", "", "protejo proteges protege protegemos protegen"),
        ("salir", "", "salgo sales sale salimos salen"),
    ],
)
def test_present(infinitive: str, change: str, expected: str) -> None:
    assert " ".join(conjugate(infinitive, change).present) == expected


def test_imperfect_and_participle() -> None:
    assert conjugate("ser").imperfect[3] == "éramos"
    assert conjugate("estar").imperfect[4] == "estaban"
    assert conjugate("ver").imperfect[2] == "veía"
    assert [conjugate(verb).participle for verb in ("abrir", "romper", "ver", "construir", "pintar")] == [
        "abierto",
        "roto",
        "visto",
        "construido",
        "pintado",
    ]


def test_noun_and_adjective_forms() -> None:
    singular = ["jardín", "canción", "actriz", "rey", "café", "autobús", "árbol", "joven", "inglés", "flor"]
    assert [plural_es(word) for word in singular] == [
        *[
            "jardines",
            "canciones",
            "actrices",
            "reyes",
            "cafés",
            "autobuses",
            "árboles",
            "jóvenes",
            "ingleses",
            "flores",
        ]
    ]
    masculine = ["ancho", "francés", "español", "grande", "azul", "marrón"]
    assert [feminine(word) for word in masculine] == ["ancha", "francesa", "española", "grande", "azul", "marrón"]
    assert [before_noun(word) for word in ("bueno", "malo", "primero", "último")] == ["buen", "mal", "primer", "último"]


def test_contractions_and_conjunctions() -> None:
    assert contract("a", ["el", "rey"]) == ["al", "rey"]
    assert contract("cerca de", ["el", "río"]) == ["cerca", "del", "río"]
    assert contract("de", ["la", "casa"]) == ["de", "la", "casa"]
    assert [conjunction("y", word) for word in ("inés", "hijos", "hierba", "ana")] == ["e", "e", "y", "y"]
    assert [conjunction("o", word) for word in ("oro", "hormigas", "plata")] == ["u", "u", "o"]


def test_english_forms() -> None:
    assert [plural(word) for word in ("story", "boy", "box", "piano")] == ["stories", "boys", "boxes", "pianos"]
    assert [third(word) for word in ("carry", "go", "watch", "have", "see")] == [
        "carries",
        "goes",
        "watches",
        "has",
        "sees",
    ]
    assert [past(word) for word in ("carry", "move", "play")] == ["carried", "moved", "played"]
    assert [article(word) for word in ("apple", "old", "cat")] == ["an", "an", "a"]


# The corpus.

TRAIN, OTHERS = 190_000, {"dev": 1_000, "test": 1_000, "compositional": 3_000, "longer": 3_000, "pronoun": 5_000}


@pytest.fixture(scope="module")
def train() -> list[Sentence]:
    return list(generate("train", TRAIN))


@pytest.fixture(scope="module")
def others() -> dict[str, list[Sentence]]:
    return {split: list(generate(split, count)) for split, count in OTHERS.items()}


def tokens(sentence: Sentence) -> list[str]:
    return [word.removesuffix("?").removesuffix("'s") for word in sentence.source.split()]


def test_some_400_words() -> None:
    assert 380 <= len(words()) <= 480
    assert len(set(words())) == len(words())


def test_english_determines_spanish(train: list[Sentence], others: dict[str, list[Sentence]]) -> None:
    found: dict[str, str] = {}
    for sentence in (*train, *(each for split in others.values() for each in split)):
        assert found.setdefault(sentence.source, sentence.target) == sentence.target
    assert len(found) > 150_000


def test_splits_are_disjoint_and_distinct(train: list[Sentence], others: dict[str, list[Sentence]]) -> None:
    sources = {split: {each.source for each in sentences} for split, sentences in others.items()}
    assert {split: len(found) for split, found in sources.items()} == OTHERS
    sources["train"] = {each.source for each in train}
    for first, second in combinations(sources, 2):
        assert sources[first].isdisjoint(sources[second]), (first, second)


def test_lengths(train: list[Sentence], others: dict[str, list[Sentence]]) -> None:
    lengths = [len(each.source.split()) for each in train]
    assert min(lengths) == 3
    assert max(lengths) == MAX_WORDS
    assert 7 <= sum(lengths) / len(lengths) <= 9
    assert min(len(each.source.split()) for each in others["longer"]) > MAX_WORDS


def test_every_word_is_learned_in_training(train: list[Sentence], others: dict[str, list[Sentence]]) -> None:
    seen = Counter(word for each in islice(train, 90_000) for word in tokens(each))
    for split, sentences in others.items():
        missing = {word for each in sentences for word in tokens(each)} - seen.keys()
        assert not missing, split
    assert all(seen[noun.english[0]] + seen[noun.english[1]] >= 50 for noun in NOUN.values())
    assert all(seen[name] >= 50 for name in ADJECTIVE)
    assert all(sum(seen[form] for form in set(each.english)) >= 50 for each in VERBS_ALL)


VERB_FORMS = {form: each.english[0] for each in VERBS_ALL for form in each.english}
PARTICLES = {(each.english[0], each.particle) for each in VERBS_ALL if each.particle}


def undecided(sentence: Sentence) -> bool:
    """Two nouns of one gender: the sentence does not tell which of them "it" is."""
    return " because it " in sentence.source and sentence.pronoun is None and sentence.roles[0].patient is not None


def spoken_of(sentence: Sentence) -> set[tuple[str, str]]:
    """The (verb or adjective, noun) pairs, read from the English sentence and its roles and not from the tree."""
    text = tokens(sentence)
    pairs = set()

    def doers(index: int) -> list[str]:
        if index and text[index - 1] == "because" and (text[index] == "it" or text[index] in PRONOUN):
            if undecided(sentence):
                return []
            index = sentence.pronoun.antecedent if sentence.pronoun else sentence.roles[0].agent
        joined = text[index + 1 : index + 3] if text[index] in NOUN and "name" in NOUN[text[index]].tags else []
        heads = [text[index], *(joined[1:] if joined[:1] == ["and"] else [])]
        return [FORMS[head][0].name for head in heads if head in FORMS]

    for role in sentence.roles:
        action = text[role.action]
        if action in BE:
            continue
        base, after = VERB_FORMS[action], text[role.action + 1 : role.action + 2]
        name = f"{base} {after[0]}" if after and (base, after[0]) in PARTICLES else base
        key = verb(name, role.patient is not None).key
        pairs |= {(key, noun) for noun in doers(role.agent)}
        if role.patient is not None:
            pairs.add((key, FORMS[text[role.patient]][0].name))
    actions = {role.action for role in sentence.roles}
    for index, word in enumerate(text):
        if word not in ADJECTIVE or index in actions:
            continue
        if index + 1 < len(text) and text[index + 1] in FORMS:
            pairs.add((word, FORMS[text[index + 1]][0].name))
        else:
            said = max((role for role in sentence.roles if role.action < index), key=lambda role: role.action)
            pairs |= {(word, noun) for noun in doers(said.agent)}
    return pairs


def joins_objects(sentence: Sentence) -> bool:
    text = tokens(sentence)
    return any(
        a in FORMS and b in ("and", "or") and c in FORMS for a, b, c in zip(text, text[1:], text[2:], strict=False)
    )


def test_compositional_combinations_are_unseen(train: list[Sentence], others: dict[str, list[Sentence]]) -> None:
    seen = set().union(*(spoken_of(each) for each in islice(train, 50_000)))
    assert len(seen) > 9_000
    assert not any(splits.held_combination(pair) for pair in seen)
    for sentence in others["compositional"]:
        if not joins_objects(sentence) and not undecided(sentence):  # there a noun is in no role that can be told
            assert spoken_of(sentence) - seen, sentence.source
    for split in ("dev", "test", "longer", "pronoun"):
        assert not any(splits.held_combination(pair) for each in others[split] for pair in spoken_of(each))


def test_pronoun_pairs_are_unseen(train: list[Sentence], others: dict[str, list[Sentence]]) -> None:
    held = set()
    for sentence in others["pronoun"]:
        text = tokens(sentence)
        assert sentence.pronoun is not None
        held.add(frozenset((text[sentence.pronoun.antecedent], text[sentence.pronoun.other])))
    assert len(held) > 50
    assert frozenset(("animal", "street")) in held
    for sentence in train:
        nouns = sorted({FORMS[word][0].name for word in tokens(sentence) if word in FORMS})
        assert not any(frozenset(pair) in held for pair in combinations(nouns, 2)), sentence.source


def test_pronoun_sentences(train: list[Sentence], others: dict[str, list[Sentence]]) -> None:
    for sentence in (*train, *others["pronoun"], *others["dev"]):
        pronoun = sentence.pronoun
        if pronoun is None:
            continue
        source, target = sentence.source.split(), sentence.target.split()
        right, other = (FORMS[source[index]][0] for index in (pronoun.antecedent, pronoun.other))
        adjective = ADJECTIVE[source[pronoun.adjective]]
        assert source[pronoun.it] == "it"
        assert right.feminine != other.feminine
        assert right in adjective.nouns
        assert other not in adjective.nouns
        assert target[pronoun.target_adjective] == adjective.spanish[right.feminine]
        assert pronoun.wrong == adjective.spanish[other.feminine] != target[pronoun.target_adjective]
        assert {pronoun.antecedent, pronoun.other} == {sentence.roles[0].agent, sentence.roles[0].patient}


def test_antecedents_are_balanced(train: list[Sentence], others: dict[str, list[Sentence]]) -> None:
    for sentences in (train, others["pronoun"]):
        family = [each for each in sentences if each.pronoun]
        subjects = sum(each.pronoun is not None and each.pronoun.antecedent == each.roles[0].agent for each in family)
        assert abs(subjects / len(family) - 0.5) < 0.015
    for sentences in (train, others["dev"]):
        assert 0.2 <= sum(each.pronoun is not None for each in sentences) / len(sentences) <= 0.25


def test_pronoun_family_is_a_family(train: list[Sentence]) -> None:
    partners: dict[str, set[str]] = {}
    for sentence in train:
        if sentence.pronoun is not None:
            text = tokens(sentence)
            right, other = text[sentence.pronoun.antecedent], text[sentence.pronoun.other]
            partners.setdefault(right, set()).add(other)
            partners.setdefault(text[sentence.pronoun.adjective], set()).add(right)
    assert len(partners.keys() & NOUN.keys()) >= 100
    assert len(partners.keys() & ADJECTIVE.keys()) >= 50
    assert min(map(len, partners.values())) >= 3
    assert len({each.verb.name for frame in pronouns.cases() for each in frame}) >= 24


def test_every_case_has_reasons_of_both_sides() -> None:
    for frame in pronouns.cases():
        for each in frame:
            assert all(each.reasons)
            assert all(adjective.marked for side in each.reasons for adjective in side)


def test_roles_point_to_nouns_and_verbs(train: list[Sentence], others: dict[str, list[Sentence]]) -> None:
    verbs = VERB_FORMS.keys() | BE
    for sentence in (*islice(train, 50_000), *others["longer"]):
        text = tokens(sentence)
        assert sentence.roles
        for role in sentence.roles:
            assert text[role.action] in verbs
            assert text[role.agent] in FORMS or text[role.agent] in PRONOUN or text[role.agent] == "it"
            assert role.patient is None or text[role.patient] in FORMS


def test_roles_of_passive_and_relative() -> None:
    passive = one(do("the singer", "write", "the letter", past=True, passive=True))
    assert [(each.agent, each.action, each.patient) for each in english.write(passive)[1]] == [(6, 3, 1)]
    nested = one(be(relative("the apples", do("the dog", "eat", past=True), False), "red", past=True))
    assert [(each.agent, each.action, each.patient) for each in english.write(nested)[1]] == [(4, 5, 1), (1, 6, None)]


# The interface.


def test_the_seed_decides(others: dict[str, list[Sentence]]) -> None:
    for split in SPLITS:
        first = list(generate(split, 50, seed=1))
        assert first == list(generate(split, 50, seed=1))
        assert first != list(generate(split, 50, seed=2))
    assert list(generate("pronoun", 100)) == others["pronoun"][:100]


def test_mistakes_are_explained() -> None:
    with pytest.raises(UserError, match="no split is called 'valid'; there are train, dev"):
        generate("valid", 1)
    with pytest.raises(UserError, match="-1"):
        generate("train", -1)
    with pytest.raises(UserError, match=f"at most {LIMIT:,} distinct"):
        generate("test", LIMIT + 1)
    assert list(generate("test", 0)) == []


def test_training_streams_quickly() -> None:
    next(generate("train", 1))
    start = time.process_time()
    assert sum(1 for _ in generate("train", 10_000, seed=3)) == 10_000
    assert time.process_time() - start < 2  # half a second on an idle core; the slack is for a busy one
