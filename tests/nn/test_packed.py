"""The packed decoder against its plain twin: the same logits step by step, the same hypotheses from a search."""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.decode import DecodeOptions, beam_search
from regard.files import cache_folder
from regard.models import Transformer, TransformerConfig
from regard.nn.native import decoding
from regard.text import EOS

VOCABULARY = 13
SHAPE: dict[str, Any] = {
    "d_model": 8, "d_ff": 12, "heads": 2, "encoder_layers": 1, "max_positions": 64,
    "source_vocabulary": VOCABULARY, "target_vocabulary": VOCABULARY,
}  # fmt: skip
SOURCE = torch.randint(4, VOCABULARY, (4, 7), generator=torch.Generator().manual_seed(0))
LENGTHS = torch.tensor([7, 2, 5, 1])


def make(seed: int = 0, **options: Any) -> Transformer:
    """A model in double precision whose every weight is random, norms and biases too."""
    torch.manual_seed(seed)
    model = Transformer(TransformerConfig(**{**SHAPE, **options})).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.ndim == 1:
                p.normal_(1.0 if name.endswith("norm.weight") else 0.0, 0.3)
    return model.double()


# What a search does to four sentences: how many steps it goes on, then which rows it goes on from, and which sentences
# stay. Room for positions is made at 0 and at 16; rows move before, there and after.
MOVES: list[tuple[int, list[int], list[int] | None]] = [
    (1, [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3], None),  # one row a sentence becomes three
    (4, [2, 0, 1, 3, 3, 5, 8, 7, 6, 9, 11, 9], None),  # other orders, and rows that nothing goes on from
    (3, [0, 1, 2, 7, 6, 6, 9, 10, 11], [0, 2, 3]),  # the second sentence is done
    (8, [1, 0, 4, 5, 8, 6], None),  # two rows each
    (2, [0, 0, 1, 3, 2, 3, 5, 4, 4], None),  # and three again
    (2, [8, 6, 7], [2]),  # one sentence is left
    (2, [1], None),
    (1, [0], None),
]
OPTIONS = ("norm", "activation", "positions", "attention_bias", "tie", "decoder_layers", "padded")
MORE = [
    {"activation": "swish", "output_bias": True, "padded": True},
    {"output_bias": True, "norm": "pre", "padded": False},
]
GRID: list[dict[str, Any]] = [
    dict(zip(OPTIONS, options, strict=True))
    for options in itertools.product(
        ("post", "pre"), ("relu", "gelu"), ("sinusoidal", "learned", "rotary", "none"), (False, True),
        (("source", "target", "output"), ("target", "output"), ()), (1, 3), (False, True),
    )
][::5]  # fmt: skip  # of 384; in every fifth, any three options still meet in all their ways


@pytest.mark.parametrize("options", GRID + MORE, ids=lambda options: "-".join(map(str, options.values())))
def test_logits_agree_at_every_step(options: dict[str, Any]) -> None:
    padded = options["padded"]
    model = make(**{name: value for name, value in options.items() if name != "padded"})
    differences = compared(model, padded=padded)
    assert all(difference < 1e-10 for difference in differences), differences  # also when one is no number


@torch.inference_mode()
def compared(model: Transformer, *, padded: bool) -> list[float]:
    """How far the packed decoder's logits are from the plain one's at most, step by step."""
    lengths, packed = LENGTHS if padded else None, model.for_decoding()
    memory = model.encode(SOURCE, lengths)
    plain_state, packed_state = model.start(memory), packed.start(memory)
    g = torch.Generator().manual_seed(1)
    rows = sentences = len(SOURCE)
    differences = []
    for steps, moved, kept in MOVES:
        for _ in range(steps):
            tokens = torch.randint(VOCABULARY, (rows, 1), generator=g)
            expected, plain_state = model.step(tokens, plain_state)
            found, packed_state = packed.step(tokens, packed_state)
            assert found.shape == expected.shape == (rows, model.config.target_vocabulary)
            differences.append(float((found - expected).abs().max()))
        rows, sentences = len(moved), sentences if kept is None else len(kept)
        for state in (plain_state, packed_state):
            state.reorder(torch.tensor(moved))
            if kept is not None:
                state.keep(torch.tensor(kept))
        assert packed_state.grown.size(2) == rows  # nothing is dragged along
        assert packed_state.source.size(2) == sentences
    return differences


WIDE = {"d_model": 64, "d_ff": 96, "heads": 2, "source_vocabulary": 37, "target_vocabulary": 37}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Decoders are one call where they can be. The rows of each call."""
    monkeypatch.setattr(decoding, "_folder", cache_folder("native"))
    if decoding._built(cache_folder("native")) is None:
        pytest.skip("it cannot be built")
    rows: list[int] = []
    step = decoding.Layers.step

    def counted(self: decoding.Layers, x: Tensor, *rest: Any) -> Tensor:
        rows.append(x.size(0))
        return step(self, x, *rest)

    monkeypatch.setattr(decoding.Layers, "step", counted)
    return rows


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_the_layers_are_one_call(calls: list[int], norm: str, bias: bool, padded: bool) -> None:
    more = {"positions": "learned", "output_bias": True, "embedding_norm": True}
    for shape in ({}, {"d_model": 48, "d_ff": 16, "heads": 3, **more}):
        model = make(norm=norm, attention_bias=bias, decoder_layers=3, **{**WIDE, **shape}).float()
        differences = compared(model, padded=padded)
        assert all(difference < 1e-4 for difference in differences), differences
    assert set(calls) == {1, 3, 4, 6, 9, 12}


@pytest.mark.parametrize(
    "other",
    [{"activation": "gelu"}, {"positions": "rotary"}, {"d_ff": 40}, {"d_model": 48}],
    ids=str,
)
@torch.inference_mode()
def test_other_layers_are_many_calls(calls: list[int], other: dict[str, Any]) -> None:
    model = make(**{**WIDE, **other}).float()
    compared(model, padded=True)
    compared(make(**WIDE), padded=True)  # double precision
    assert not calls


@torch.inference_mode()
def test_what_does_not_fit_is_an_error(calls: list[int]) -> None:
    packed = make(**WIDE).float().for_decoding()
    memory = packed.model.encode(SOURCE, LENGTHS)
    for rows, dtype in ((3, torch.float32), (6, torch.float32), (4, torch.bfloat16)):
        state = packed.start(memory)
        state.reorder(torch.arange(4))
        state.source = state.source.to(dtype)
        with pytest.raises(RuntimeError):
            packed.step(torch.full((rows, 1), 5), state)
    assert not calls


def test_large_layers_have_all_cores_where_there_are_many(calls: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    model = make(**WIDE).float()
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    compared(model, padded=True)
    assert calls  # these are small
    calls.clear()
    monkeypatch.setattr(decoding, "LARGE", 0)
    compared(model, padded=True)
    assert not calls


@pytest.mark.parametrize("options", [{}, {"norm": "pre", "positions": "rotary"}, {"positions": "learned"}], ids=str)
@pytest.mark.parametrize("beam", [1, 4])
def test_a_search_finds_the_same(beam: int, options: dict[str, Any]) -> None:
    lengths: set[int] = set()
    for seed in (1, 3, 5):
        model = make(seed, decoder_layers=2, max_positions=39, **options)
        with torch.no_grad():
            model.output[EOS].mul_(4)  # outputs end now and then
        chosen = DecodeOptions(beam=beam, n_best=beam, extra_length=30)
        plain = beam_search([model], SOURCE, LENGTHS, chosen)
        packed = beam_search([model.for_decoding()], SOURCE, LENGTHS, chosen)
        for expected, found in zip(plain, packed, strict=True):
            assert [h.tokens for h in found] == [h.tokens for h in expected]
            assert [h.score for h in found] == pytest.approx([h.score for h in expected], abs=1e-5)
            lengths |= {len(h.tokens) for h in found}
    assert min(lengths) < 16 < 32 < max(lengths)  # sentences left early and late, and room was made more than once
