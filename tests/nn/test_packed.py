"""The packed decoder against its plain twin: the same logits step by step, the same hypotheses from a search."""

import itertools
from typing import Any

import pytest
import torch

from regard.decode import DecodeOptions, beam_search
from regard.models import Transformer, TransformerConfig
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
@torch.inference_mode()
def test_logits_agree_at_every_step(options: dict[str, Any]) -> None:
    lengths = LENGTHS if options["padded"] else None
    model = make(**{name: value for name, value in options.items() if name != "padded"})
    packed = model.for_decoding()
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
            assert found.shape == expected.shape == (rows, VOCABULARY)
            differences.append(float((found - expected).abs().max()))
        rows, sentences = len(moved), sentences if kept is None else len(kept)
        for state in (plain_state, packed_state):
            state.reorder(torch.tensor(moved))
            if kept is not None:
                state.keep(torch.tensor(kept))
        assert packed_state.grown.size(2) == rows  # nothing is dragged along
        assert packed_state.source.size(2) == sentences
    assert all(difference < 1e-10 for difference in differences), differences  # also when one is no number


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
