"""What may come next: the largest of each row, and the same candidates with and without holding all logits."""

import math
from typing import Any

import pytest
import torch
from decode.toys import padded
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.decode import DecodeOptions
from regard.decode.choose import BLOCK, ROWS, likeliest, top
from regard.decode.protocol import Model
from regard.errors import UserError
from regard.models import Transformer, TransformerConfig
from regard.text import BOS, PAD, UNK


def check_top(scores: Tensor, count: int) -> None:
    values, places = top(scores, count)
    assert torch.equal(values, scores.topk(min(count, scores.size(1))).values)
    assert torch.equal(scores.gather(1, places), values)
    assert all(len(set(row)) == len(row) for row in places.tolist())


@pytest.mark.parametrize("rows", [1, 3, 4, 33])
@pytest.mark.parametrize("count", [1, 2, 8])
@pytest.mark.parametrize("more", [-1, 0, 1, BLOCK - 1, 5 * BLOCK + 7])
def test_the_largest_are_those_of_topk(rows: int, count: int, more: int) -> None:
    g = torch.Generator().manual_seed(rows)
    scores = torch.randn(rows, 4 * count * BLOCK + more, generator=g)  # fewer than these are not cut into blocks
    check_top(scores, count)
    scores[:, -1] = 9.0  # what is left over after the last whole block counts too
    scores[:, :count] = 8.0  # one block may hold them all
    check_top(scores, count)
    scores[1:, count // 2 :] = -torch.inf
    check_top(scores, count)


@given(
    rows=st.integers(1, 6), width=st.integers(1, 150), count=st.integers(1, 6), kinds=st.integers(1, 30),
    seed=st.integers(0, 2**32),
)  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_the_largest_among_equals_and_impossible_ones(rows: int, width: int, count: int, kinds: int, seed: int) -> None:
    """Few different values, -inf among them, over small blocks."""
    values = torch.tensor([-math.inf, *range(kinds)])
    drawn = torch.randint(len(values), (rows, width), generator=torch.Generator().manual_seed(seed))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.decode.choose.BLOCK", 4)
        check_top(values[drawn], count)


def packed(size: int = 3000) -> Any:
    torch.manual_seed(3)
    shape = {"d_model": 16, "d_ff": 32, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    sizes = {"source_vocabulary": 20, "target_vocabulary": size}
    return Transformer(TransformerConfig.model_validate(shape | sizes | {"tie": ("target", "output")})).eval()


@pytest.mark.parametrize("rows", [1, ROWS, 2 * ROWS + 3])
@torch.inference_mode()
def test_candidates_without_all_logits_are_those_with_them(rows: int) -> None:
    whole, tokens = packed(), torch.full((rows, 1), BOS)
    twin = whole.for_decoding()
    twin.output[:, [PAD, UNK, BOS]] *= 50  # were they allowed, they would often be the best
    whole.output.data.copy_(twin.output.t())
    sources = padded([[4 + i % 9, 5, 3] for i in range(rows)])
    longest, options = torch.full((rows,), 9), DecodeOptions()
    assert Model([twin], *sources).splits
    assert not Model([whole], *sources).splits
    values, ids = likeliest(Model([twin], *sources), tokens, longest, options, 6)
    expected, places = likeliest(Model([whole], *sources), tokens, longest, options, 6)
    assert torch.allclose(values, expected, atol=1e-5)
    assert torch.equal(ids, places)
    assert not set(ids.flatten().tolist()) & {PAD, UNK, BOS}


@torch.inference_mode()
def test_rules_bind_and_nan_is_refused_without_all_logits_too() -> None:
    twin, tokens = packed().for_decoding(), torch.full((2, 1), BOS)
    sources = padded([[4, 3], [5, 3]])
    _, ids = likeliest(Model([twin], *sources), tokens, torch.tensor([0, 9]), DecodeOptions(), 4)
    assert ids[0, 0] == 3  # the first row is full: it ends
    twin.output[0, 7] = math.nan
    with pytest.raises(UserError, match="not numbers"):
        likeliest(Model([twin], *sources), tokens, torch.tensor([9, 9]), DecodeOptions(), 4)
