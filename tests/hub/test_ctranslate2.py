"""CTranslate2 as a format and as an engine: the same tokens, the same text, clear refusals."""

import math
import sys
from pathlib import Path
from typing import Any

import ctranslate2
import pytest
import torch
from decode.toys import in_order
from torch import nn

from regard.api import load
from regard.bundle import Bundle
from regard.decode import DecodeOptions, Hypothesis
from regard.decode.engine import Torch
from regard.errors import UserError
from regard.hub.ctranslate2 import CTranslate2, export
from regard.models import Transformer
from regard.text import BOS, EOS, PAD, UNK, Tokenizer

TEXTS = ["the small dog sleeps in the garden\tafter \n all", "el perro pequeño duerme en el jardín"] * 20
SOURCE = Tokenizer.learn(TEXTS[::2], size=280)
TARGET = Tokenizer.learn(TEXTS[1::2], size=290)
SHAPE = {"d_model": 16, "d_ff": 32, "heads": 4, "encoder_layers": 2, "decoder_layers": 3, "tie": ()}
KINDS: list[dict[str, Any]] = [
    {},
    {"norm": "pre", "attention_bias": True, "activation": "gelu"},
    {"positions": "learned", "max_positions": 40, "decoder_layers": 1},
    {"positions": "none", "norm": "pre"},
    {"activation": "swish", "output_bias": True, "attention_bias": True},
    {"positions": "learned", "max_positions": 40, "embedding_norm": True},
]


def bundle(**changes: Any) -> Bundle:
    torch.manual_seed(6)
    sizes = {"source_vocabulary": len(SOURCE), "target_vocabulary": len(TARGET)}
    model = Transformer(Transformer.Config.model_validate(SHAPE | sizes | changes)).eval()
    for name, parameter in model.named_parameters():  # nothing is left at its plain start: norms and biases too
        if parameter.ndim == 1:
            nn.init.normal_(parameter, mean=float("norm" in name and "weight" in name), std=0.3)
    last: Any = model.decoder_norm if model.config.norm == "pre" else model.decoder[-1].after_feed_forward.norm
    with torch.no_grad():  # outputs end now and then; pad, unknown and begin are as unlikely as training makes them
        last.bias[0] = 20
        model.output[:, 0] = 0
        model.output[[PAD, UNK, BOS], 0] = -5
        model.output[EOS].mul_(16)
    return Bundle(model, SOURCE, TARGET, ("en", "es"), 30, DecodeOptions(beam=1, max_length=12))


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_the_model_stays_as_it_was(tmp_path: Path, precision: str) -> None:
    sizes = {"source_vocabulary": len(TARGET), "target_vocabulary": len(TARGET)}
    model = Transformer(Transformer.Config.model_validate(SHAPE | sizes | {"tie": ("source", "target", "output")}))
    made = Bundle(model.eval(), TARGET, TARGET, ("en", "es"), 30)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    export(made, tmp_path / "out", precision)
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())


INPUTS = [SOURCE.encode(text) for text in ("the small dog", "the garden sleeps in the small dog", "a")]


def both(made: Bundle, **options: Any) -> tuple[list[list[Hypothesis]], list[list[Hypothesis]]]:
    chosen = DecodeOptions.model_validate({"max_length": 30, "length_penalty": 0, **options})
    numbers = list(range(len(INPUTS)))
    return tuple(  # type: ignore[return-value]
        in_order(engine.decode(INPUTS, numbers, chosen))
        for engine in (Torch([made.model]), CTranslate2(made, workers=1))
    )


@pytest.mark.parametrize("changes", KINDS)
@pytest.mark.parametrize("options", [{"beam": 1}, {"beam": 4, "n_best": 3}])
def test_the_same_tokens_and_probabilities(changes: dict[str, Any], options: dict[str, Any]) -> None:
    ours, theirs = both(bundle(**changes), **options)
    ended = 0
    for mine, other in zip(ours, theirs, strict=True):
        found = {h.tokens: h for h in other}
        if options["beam"] == 1:
            assert mine[0].tokens in found
        for h in mine:  # two searches may keep different hypotheses; of one and the same they think the same
            if h.tokens in found and len(h.tokens) < 30:  # at 30 ours is made to end, theirs is broken off
                ended += 1
                assert found[h.tokens].log_prob == pytest.approx(h.log_prob, rel=1e-4, abs=1e-4)
                assert found[h.tokens].score == pytest.approx(h.score, rel=1e-4, abs=1e-4)
    assert ended


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_padding_unknown_and_begin_are_no_output(precision: str) -> None:
    made = bundle()
    with torch.no_grad():
        made.model.output[[PAD, UNK, BOS], 0] = 5  # the likeliest of all
    options = DecodeOptions(beam=4, min_length=3, max_length=12)
    found = in_order(CTranslate2(made, precision, workers=1).decode(INPUTS, [0, 1, 2], options))
    assert all({PAD, UNK, BOS}.isdisjoint(group[0].tokens) for group in found)
    assert any(group[0].tokens for group in found)


def test_a_change_of_one_weight_is_seen() -> None:
    """That the test above can fail: one matrix exchanged gives other tokens."""
    made = bundle()
    engine = CTranslate2(made, workers=1)
    with torch.no_grad():
        made.model.decoder[0].cross.k.weight.mul_(-3)
    options, numbers = DecodeOptions(beam=1, max_length=12), [0, 1, 2]
    ours, theirs = (in_order(e.decode(INPUTS, numbers, options)) for e in (Torch([made.model]), engine))
    assert any(abs(a[0].log_prob - b[0].log_prob) > 0.01 for a, b in zip(ours, theirs, strict=True))


def test_text_in_text_out(tmp_path: Path) -> None:
    bundle().save(tmp_path / "model")
    texts = ["the small dog", "", "the garden. " * 30]
    with pytest.warns(UserWarning, match="parts"):
        ours = load(tmp_path / "model").translate(texts)
    with pytest.warns(UserWarning, match="parts"):
        theirs = load(tmp_path / "model", engine="ctranslate2").translate(texts)
    assert theirs == ours
    assert len(load(tmp_path / "model", engine="ctranslate2", precision="int8").translate(texts[:2])) == 2


def test_the_exported_folder_is_one_that_ctranslate2_loads(tmp_path: Path) -> None:
    made = bundle()
    export(made, tmp_path / "out", "int8")
    raw = ctranslate2.Translator(str(tmp_path / "out"), intra_threads=1)
    words = [[SOURCE.token(i) for i in tokens] for tokens in INPUTS]
    outputs = raw.translate_batch(words, beam_size=1, max_decoding_length=12)
    assert all(set(out.hypotheses[0]) <= {TARGET.token(i) for i in range(len(TARGET))} for out in outputs)
    assert TARGET.token(EOS) == "</s>"
    assert Tokenizer.load(tmp_path / "out" / "tokenizer.target.json").checksum == TARGET.checksum
    with pytest.raises(UserError, match="there already"):
        export(made, tmp_path / "out")


def test_what_it_cannot_do_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="rotary positions"):
        CTranslate2(bundle(positions="rotary"))
    with pytest.raises(UserError, match="cannot copy words"):
        CTranslate2(bundle(copying=True, target_vocabulary=len(SOURCE)))
    with pytest.raises(UserError, match="precision 'int4'"):
        export(bundle(), tmp_path / "out", "int4")
    assert not (tmp_path / "out").exists()
    bundle().save(tmp_path / "model")
    with pytest.raises(UserError, match="ensemble needs the torch engine"):
        load([tmp_path / "model"] * 2, engine="ctranslate2")
    with pytest.raises(UserError, match="needs the ctranslate2 engine"):
        load(tmp_path / "model", precision="int8")
    with pytest.raises(UserError, match="do not follow a seed"):
        load(tmp_path / "model", engine="ctranslate2").translate(["the dog"], sample=True)
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(UserError, match="pip install ctranslate2"):
        load(tmp_path / "model", engine="ctranslate2")


@pytest.mark.parametrize("beam", [1, 3])
def test_without_scores_the_outputs_are_the_same(beam: int) -> None:
    made = bundle()
    engine, inputs = CTranslate2(made), SOURCE.encode_batch(TEXTS[:4])
    options = made.decode.model_copy(update={"beam": beam})
    scored, bare = (in_order(engine.decode(inputs, range(4), options, scored=asked)) for asked in (True, False))
    assert [[h.tokens for h in group] for group in bare] == [[h.tokens for h in group] for group in scored]
    assert all(math.isfinite(group[0].score) for group in scored)
    assert all(math.isnan(group[0].score) for group in bare)


def test_neighbours_of_other_length_change_no_choice() -> None:
    engine = CTranslate2(bundle(), workers=1)
    options = DecodeOptions(beam=5, n_best=5, length_penalty=2, max_length=30)
    inputs = SOURCE.encode_batch([word for text in TEXTS[:2] for word in text.split()])
    long = SOURCE.encode(" ".join(TEXTS[:10]))
    (*beside, _) = in_order(engine.decode([*inputs, long], range(len(inputs) + 1), options))
    alone = [in_order(engine.decode([tokens], [0], options))[0] for tokens in inputs]
    assert [[h.tokens for h in group] for group in beside] == [[h.tokens for h in group] for group in alone]


def test_pytorch_keeps_its_threads() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert in_order(CTranslate2(bundle()).decode([[5, 6]], [0], DecodeOptions()))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_many_batches_come_back_each_to_its_input_and_few_are_begun_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    made = bundle()
    engine, inputs = CTranslate2(made, workers=2), SOURCE.encode_batch(TEXTS * 30)
    options = DecodeOptions(beam=1, max_length=8)
    expected = {tuple(i): group for i, (_, group) in zip(inputs, sorted(_all(engine, inputs, options)), strict=True)}
    begun: list[int] = []
    real = engine._translator

    class Watched:
        def translate_batch(self, words: list[list[str]], **settings: Any) -> Any:
            begun.append(len(words))
            return real.translate_batch(words, **settings)

    monkeypatch.setattr(engine, "_translator", Watched())
    monkeypatch.setattr("regard.hub.ctranslate2.BATCH", 40)
    found = engine.decode(inputs, range(len(inputs)), options)
    first = next(found)
    assert len(begun) <= 6 < len(inputs) / max(begun)  # more batches are still to come
    for i, group in [first, *found]:
        assert group[0].tokens == expected[tuple(inputs[i])][0].tokens
    assert sum(begun) == len(inputs)


def _all(engine: CTranslate2, inputs: list[list[int]], options: DecodeOptions) -> list[tuple[int, list[Hypothesis]]]:
    return list(engine.decode(inputs, range(len(inputs)), options))
