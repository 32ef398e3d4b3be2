"""Attention against the paper's equation, PyTorch's own module, and plain concatenation and indexing."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from regard.nn.attention import Fixed, Full, Growing, Mask, MultiHead, attend
from regard.nn.position import Rotary

B, H, T, K = 3, 2, 5, 4
LENGTHS = torch.tensor([5, 1, 3])
MASKS = {"all": {}, "causal": {"causal": True}, "lengths": {"lengths": LENGTHS}}
MASKS["both"] = {**MASKS["causal"], **MASKS["lengths"]}


def equation(q: Tensor, k: Tensor, v: Tensor, causal: bool = False, lengths: Tensor | None = None) -> Tensor:
    """Equation 1, one query at a time, over a list of the keys it may see."""
    q, k, v = q.detach(), k.detach(), v.detach()
    out = torch.zeros(*q.shape[:3], v.size(-1), dtype=q.dtype)
    for b in range(q.size(0)):
        for h in range(q.size(1)):
            for t in range(q.size(2)):
                seen = range(k.size(2) if lengths is None else int(lengths[b]))
                if causal:
                    seen = [j for j in seen if j <= t]
                scores = [math.exp(float(q[b, h, t] @ k[b, h, j]) / math.sqrt(q.size(-1))) for j in seen]
                out[b, h, t] = sum(s / sum(scores) * v[b, h, j] for s, j in zip(scores, seen, strict=True))
    return out


def some(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def multihead(bias: bool = True, rotary: bool = False, heads: int = H) -> MultiHead:
    torch.manual_seed(1)
    made = MultiHead(heads * K, heads, Full(), bias=bias, rotary=Rotary(K, 2) if rotary else None)
    if bias:
        for linear in (made.q, made.k, made.v, made.out):
            nn.init.normal_(linear.bias)
    return made.double()


@pytest.mark.parametrize("kind", MASKS)
def test_kernel_is_the_equation_in_value_and_gradient(kind: str) -> None:
    q, k, v = (some(B, H, T, K, seed=s).requires_grad_() for s in range(3))
    expected = equation(q, k, v, **MASKS[kind])
    assert_close(Full()(q, k, v, Mask(**MASKS[kind])), expected)
    assert_close(attend(q, k, v, Mask(**MASKS[kind]))[0], expected)
    fused = torch.autograd.grad(Full()(q, k, v, Mask(**MASKS[kind])).square().sum(), (q, k, v))
    plain = torch.autograd.grad(attend(q, k, v, Mask(**MASKS[kind]))[0].square().sum(), (q, k, v))
    assert_close(fused, plain)


@pytest.mark.parametrize("kind", MASKS)
def test_recorded_weights_are_those_that_the_kernel_mixes_with(kind: str) -> None:
    q, k, v = (some(B, H, T, K, seed=s) for s in range(3))
    weights = Full().weights(q, k, Mask(**MASKS[kind]))
    assert_close(weights.sum(-1), torch.ones(B, H, T, dtype=torch.float64))
    assert_close(weights @ v, Full()(q, k, v, Mask(**MASKS[kind])))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", MASKS)
def test_multihead_is_pytorchs_with_the_same_weights(kind: str, bias: bool) -> None:
    ours, x = multihead(bias), some(B, T, H * K, seed=4)
    theirs = nn.MultiheadAttention(H * K, H, bias=bias, batch_first=True).double()
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.q.weight, ours.k.weight, ours.v.weight]))
        theirs.out_proj.weight.copy_(ours.out.weight)
        if bias:
            theirs.in_proj_bias.copy_(torch.cat([ours.q.bias, ours.k.bias, ours.v.bias]))
            theirs.out_proj.bias.copy_(ours.out.bias)
    future = torch.ones(T, T, dtype=torch.bool).triu(1) if "causal" in MASKS[kind] else None
    padding = torch.arange(T) >= LENGTHS[:, None] if "lengths" in MASKS[kind] else None
    expected, weights = theirs(x, x, x, key_padding_mask=padding, attn_mask=future, average_attn_weights=False)
    mask = Mask(**MASKS[kind])
    assert_close(ours(x, None, mask), expected)
    assert_close(ours.kernel.weights(ours.split(ours.q(x)), ours.split(ours.k(x)), mask), weights)


def test_attention_over_another_sequence_is_pytorchs() -> None:
    ours, x, memory = multihead(), some(B, T, H * K, seed=4), some(B, 7, H * K, seed=5)
    expected, _ = torch.nn.functional.multi_head_attention_forward(
        x.transpose(0, 1), memory.transpose(0, 1), memory.transpose(0, 1), H * K, H,
        torch.cat([ours.q.weight, ours.k.weight, ours.v.weight]), torch.cat([ours.q.bias, ours.k.bias, ours.v.bias]),
        None, None, False, 0.0, ours.out.weight, ours.out.bias,
    )  # fmt: skip
    assert_close(ours(x, memory, Mask()), expected.transpose(0, 1))


def test_heads_concatenated_are_heads_summed_each_through_its_slice_of_the_output_matrix() -> None:
    ours, x = multihead(), some(B, T, H * K)
    q, k, v = (ours.split(linear(x)) for linear in (ours.q, ours.k, ours.v))
    mixed = equation(q, k, v)
    summed = sum(mixed[:, h] @ ours.out.weight[:, h * K : (h + 1) * K].T for h in range(H)) + ours.out.bias
    assert_close(ours(x, None, Mask()), summed)


def test_one_head_with_identity_projections_is_plain_attention() -> None:
    ours, x = multihead(bias=False, heads=1), some(B, T, K)
    with torch.no_grad():
        for linear in (ours.q, ours.k, ours.v, ours.out):
            linear.weight.copy_(torch.eye(K))
    assert_close(ours(x, None, Mask()), equation(x[:, None], x[:, None], x[:, None])[:, 0])


def test_equal_keys_give_the_mean_of_the_values_that_are_real() -> None:
    q, v = some(B, H, T, K), some(B, H, T, K, seed=1)
    k = some(B, H, 1, K, seed=2).expand(B, H, T, K)
    assert_close(Full()(q, k, v, Mask()), v.mean(2, keepdim=True).expand_as(v))
    means = torch.stack([v[b, :, : LENGTHS[b]].mean(1, keepdim=True).expand(H, T, K) for b in range(B)])
    assert_close(Full()(q, k, v, Mask(lengths=LENGTHS)), means)


def test_mask_with_a_cache_counts_queries_as_the_last_keys() -> None:
    allowed = Mask(causal=True).allowed(2, 5, torch.device("cpu"))
    assert allowed is not None
    assert allowed[0, 0].tolist() == [[True, True, True, True, False], [True] * 5]
    assert Mask(causal=True).allowed(1, 5, torch.device("cpu")) is None
    assert Mask().allowed(4, 5, torch.device("cpu")) is None


def test_one_mask_serves_several_shapes() -> None:
    mask = Mask(causal=True, lengths=torch.tensor([2]))
    for queries, keys in ((2, 2), (2, 5), (3, 3), (2, 2)):
        allowed = mask.allowed(queries, keys, torch.device("cpu"))
        expected = [[j <= keys - queries + t and j < 2 for j in range(keys)] for t in range(queries)]
        assert allowed is not None
        assert allowed[0, 0].tolist() == expected


@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("cuts", [[1] * 6, [3, 3], [1, 2, 3], [6]])
def test_in_steps_with_a_cache_as_all_at_once(cuts: list[int], rotary: bool) -> None:
    ours, x = multihead(rotary=rotary), some(B, 6, H * K)
    whole = ours(x, None, Mask(causal=True))
    cache = Growing()
    with torch.no_grad():
        steps = [ours(part, None, Mask(causal=True), cache) for part in x.split(cuts, 1)]
    assert cache.length == 6
    assert_close(torch.cat(steps, 1), whole)


Operation = tuple[str, list[int]]


@given(
    rows=st.integers(1, 4),
    operations=st.lists(
        st.one_of(
            st.tuples(st.just("extend"), st.lists(st.integers(1, 20), min_size=1, max_size=1)),
            st.tuples(st.just("reorder"), st.lists(st.integers(0, 10**6), min_size=1, max_size=7)),
        ),
        max_size=8,
    ),
)
@settings(max_examples=60, deadline=None)
def test_growing_cache_is_concatenation_and_indexing(rows: int, operations: list[Operation]) -> None:
    cache, counter = Growing(), 0
    k = v = torch.zeros(rows, 2, 0, 3)
    for what, numbers in operations:
        if what == "extend":
            shape = (k.size(0), 2, numbers[0], 3)
            new = torch.arange(counter, counter + math.prod(shape)).view(shape).float()
            counter += new.numel()
            k, v = torch.cat((k, new), 2), torch.cat((v, -new), 2)
            held = cache.extend(new, -new)
            assert torch.equal(held[0], k)
            assert torch.equal(held[1], v)
        elif k.size(2):  # a state is reordered after its first step
            index = torch.tensor(numbers) % k.size(0)
            cache.reorder(index)
            k, v = k[index], v[index]
        assert cache.length == k.size(2)


def test_memory_shared_by_the_hypotheses_of_a_sentence_is_memory_repeated() -> None:
    ours, memory = multihead(), some(B, 7, H * K, seed=1)
    beam, lengths = 4, torch.tensor([7, 2, 5])
    x = some(B * beam, 3, H * K)
    cache = Fixed(*ours.project(memory))
    repeated = ours(x, memory.repeat_interleave(beam, 0), Mask(lengths=lengths.repeat_interleave(beam)))
    assert_close(ours(x, None, Mask(lengths=lengths), cache), repeated)
    kept = torch.tensor([2, 0])
    cache.keep(kept)
    rows = torch.cat([torch.arange(2 * beam, 3 * beam), torch.arange(beam)])
    assert_close(ours(x[rows], None, Mask(lengths=lengths[kept]), cache), repeated[rows])


def test_attention_dropout_while_training_alone() -> None:
    q, k = some(1, 1, 400, K), some(1, 1, 50, K, seed=1)
    v = torch.ones(1, 1, 50, K, dtype=torch.float64)
    kernel = Full(dropout=0.5)
    torch.manual_seed(0)
    dropped = kernel(q, k, v, Mask())  # each row is the sum of its weights that were kept, doubled
    assert dropped.std() > 0.1
    assert dropped.mean() == pytest.approx(1, abs=0.05)
    assert_close(kernel.eval()(q, k, v, Mask()), torch.ones_like(dropped))
