"""Roles are counted as the grammar has them: a head made to look at the verb's subject is found, and no other."""

import numpy as np
import pytest
import torch

from regard.api import Model
from regard.bundle import Bundle
from regard.data.grammar import Sentence, generate
from regard.errors import UserError
from regard.nn.attention import Mask
from regard.text import Tokenizer
from regard.view import roles as module
from regard.view.heads import spans
from regard.view.record import Record, Trace
from regard.view.relations import ADJECTIVE, RELATIONS, related
from regard.view.roles import missing, roles
from tests.view.conftest import transformer

SENTENCES = list(generate("test", 60))


@pytest.fixture(scope="module")
def model() -> Model:
    tokenizers = [Tokenizer.learn([getattr(s, side) for s in SENTENCES], "word", 1000) for side in ("source", "target")]
    sizes = {"source_vocabulary": len(tokenizers[0]), "target_vocabulary": len(tokenizers[1]), "tie": ()}
    return Model([Bundle(transformer(1, **sizes), *tokenizers, ("en", "es"), 64)])


def relations(sentence: Sentence) -> dict[str, list[tuple[str, str]]]:
    source, target = sentence.source.split(), sentence.target.split()
    found: dict[str, list[tuple[str, str]]] = {}
    for relation, start, end in related(sentence):
        first = source if relation.kind == "encoder" else target
        second = target if relation.kind == "decoder" else source
        found.setdefault(f"{relation.kind}: {relation.name}", []).append((first[start], second[end]))
    return found


def test_relations_are_the_grammars() -> None:
    text = "a camel didn't cross the highway because it was blocked"
    sentence = next(s for s in generate("test", 300) if s.source == text)
    assert relations(sentence) == {
        "encoder: verb → who": [("cross", "camel")],
        "encoder: verb → to whom": [("cross", "highway")],
        "encoder: who → verb": [("camel", "cross")],
        "encoder: to whom → verb": [("highway", "cross")],
        "encoder: it → its noun": [("it", "highway")],
        "encoder: its adjective → its noun": [("blocked", "highway")],
        "cross: who → who": [("camello", "camel")],
        "cross: verb → verb": [("cruzó", "cross")],
        "cross: to whom → to whom": [("autopista", "highway")],
        "cross: its adjective → its noun": [("bloqueada", "highway")],
        "decoder: verb → who": [("cruzó", "camello")],
        "decoder: its adjective → its noun": [("bloqueada", "autopista")],
    }


def test_a_translation_that_is_not_certain_is_left_out() -> None:
    for sentence in SENTENCES:
        for pairs in relations(sentence).values():
            assert all(a and b for a, b in pairs)


def test_a_head_that_was_made_to_find_a_role_is_found(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recording is replaced: encoder layer 1, head 3 looks from every verb at its subject; all others at the end."""
    batches = iter([SENTENCES])
    tokenizers = {"source": model.bundle.source, "target": model.bundle.target}
    pieces = {side: [t.surface(t.encode(getattr(s, side))) for s in SENTENCES] for side, t in tokenizers.items()}

    class Faked:
        def __init__(self, network: object) -> None:
            self.trace = Trace()

        def __enter__(self) -> Trace:
            return self.trace

        def __exit__(self, *_: object) -> None:
            batch = next(batches)
            longest = {side: max(len(s) for s in pieces[side]) + 1 for side in pieces}
            sides = {"encoder": ("source", "source"), "decoder": ("target", "target"), "cross": ("target", "source")}
            for kind, (queries, keys) in sides.items():
                for layer in range(2 if kind == "encoder" else 1):
                    weights = torch.zeros(len(batch), 4, longest[queries], longest[keys])
                    for row, sentence in enumerate(batch):
                        symbol = 0 if kind == "decoder" else len(pieces[keys][row])
                        weights[row, :, :, symbol] = 1.0
                        if (kind, layer) == ("encoder", 1):
                            words = spans(pieces["source"][row])
                            for role in sentence.roles:
                                weights[row, 2, words[role.action]] = 0
                                weights[row, 2, words[role.action], words[role.agent].stop - 1] = 1
                    self.trace.records.append(Record(f"{kind}.{layer}", kind, layer, weights, Mask()))

    monkeypatch.setattr(module, "record", Faked)
    monkeypatch.setattr(model.bundle.model, "forward", lambda *_: None)
    found = roles(model, SENTENCES, size=len(SENTENCES))
    shares = {(r, p): found.share(r, p) for r in found.relations for p in found.of(r.kind)}
    hit = (RELATIONS[0], ("encoder", 1, 2))
    assert shares.pop(hit) == 1
    assert set(shares.values()) == {0.0}
    assert found.best(RELATIONS[0]) == (("encoder", 1, 2), 1.0)
    assert found.best(RELATIONS[1]) is None
    assert [(r, p) for r in found.relations for p in found.places if found.above(r, p)] == [hit]


def test_the_fixed_rule_is_the_best_one(model: Model) -> None:
    found = roles(model, SENTENCES)
    relation = RELATIONS[1]
    offsets = [role.patient - role.action for s in SENTENCES for role in s.roles if role.patient is not None]
    best = max(offsets, key=offsets.count)
    assert best > 0
    assert found.base(relation) == (f"{best} after", offsets.count(best) / len(offsets))
    pronouns = [s.pronoun for s in SENTENCES if s.pronoun is not None]
    first = sum(p.antecedent < p.other for p in pronouns)
    assert found.base(ADJECTIVE)[0] in ("the first noun", "the second noun")
    assert found.base(ADJECTIVE)[1] == max(first, len(pronouns) - first) / len(pronouns)
    assert found.seen(relation) == len(offsets)
    assert found.sentences == len(SENTENCES)
    for place in found.of("encoder"):
        assert 0 <= found.share(relation, place) <= 1


def test_what_chance_would_do_is_not_clearly_above() -> None:
    assert not module._clearly(60, 100, 0.5)
    assert not module._clearly(65, 100, 0.5)  # three standard errors are 15
    assert module._clearly(66, 100, 0.5)
    assert module._clearly(1, 100, 0.0)


def test_batches_change_nothing(model: Model) -> None:
    small, whole = roles(model, SENTENCES, size=7).numbers(), roles(model, SENTENCES, size=60).numbers()
    assert small == whole


def test_the_table_is_printed_and_drawn(model: Model) -> None:
    found = roles(model, SENTENCES)
    said = found.text()
    for relation in found.relations:
        assert relation.name in said
    assert "fixed rule" in said
    assert "not an explanation" in said
    assert found.svg().count("<g>") == 6 * (2 * 4 + 1)
    numbers = found.numbers()["relations"][0]
    assert numbers["heads"][3]["hits"] == found.hits(found.relations[0], ("encoder", 0, 3))


def test_what_is_missing_is_told(model: Model) -> None:
    assert missing(("en", "de")) is None
    other = Model([Bundle(model.bundle.model, model.bundle.source, model.bundle.target, ("de", "en"), 64)])
    with pytest.raises(UserError, match=r"reads English.*this one reads de"):
        roles(other)
    strange = Tokenizer.learn(["xyz"], "word", 100)
    network = transformer(1, source_vocabulary=len(strange), target_vocabulary=len(strange), tie=())
    with pytest.raises(UserError, match="words that this model knows"):
        roles(Model([Bundle(network, strange, strange, ("en", "es"), 64)]), SENTENCES)


def test_another_target_language_leaves_the_encoder(model: Model) -> None:
    bundle = model.bundle
    found = roles(Model([Bundle(bundle.model, bundle.source, bundle.target, ("en", "de"), 64)]), SENTENCES)
    assert {r.kind for r in found.relations} == {"encoder"}
    assert np.all([place[0] == "encoder" for place in found.places])
