"""Position codes against their formulas, and what makes each of them a code of positions."""

import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from regard.nn.position import Learned, Rotary, Sinusoidal, sinusoids


def test_sinusoids_are_the_papers() -> None:
    table = sinusoids(300, 8)
    for p in (0, 1, 7, 299):
        for i in range(4):
            angle = p / 10000 ** (2 * i / 8)
            assert float(table[p, 2 * i]) == pytest.approx(math.sin(angle), abs=1e-6)
            assert float(table[p, 2 * i + 1]) == pytest.approx(math.cos(angle), abs=1e-6)


def test_a_shift_is_a_rotation_that_does_not_depend_on_the_position() -> None:
    table, k, d = sinusoids(200, 16).double(), 13, 16
    turn = torch.zeros(d, d, dtype=torch.float64)
    for i in range(d // 2):
        c, s = math.cos(k / 10000 ** (2 * i / d)), math.sin(k / 10000 ** (2 * i / d))
        turn[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = torch.tensor([[c, s], [-s, c]])
    assert_close(table[:-k] @ turn.T, table[k:], atol=1e-6, rtol=0)


def test_sinusoids_grow_with_the_text() -> None:
    code, x = Sinusoidal(8, length=4), torch.zeros(2, 3, 8)
    assert torch.equal(code(x), sinusoids(3, 8).expand(2, 3, 8))
    assert torch.equal(code(x, start=100)[0], sinusoids(103, 8)[100:])
    assert not list(code.parameters())
    assert not code.state_dict()


def test_far_positions_keep_their_phase() -> None:
    far = 1_000_000
    assert float(sinusoids(far + 1, 4)[far, 0]) == pytest.approx(math.sin(far), abs=1e-6)


@pytest.mark.parametrize("code", [Sinusoidal(8, length=4), Rotary(8, length=4)])
def test_training_goes_on_after_decoding_went_further_than_the_table(code: torch.nn.Module) -> None:
    shape = (1, 9, 8) if isinstance(code, Sinusoidal) else (1, 1, 9, 8)
    with torch.inference_mode():
        code(torch.zeros(shape))
    x = torch.zeros(shape, requires_grad=True)
    code(x).square().sum().backward()
    assert x.grad is not None


def test_learned_positions_end_with_a_clear_error() -> None:
    code = Learned(8, length=4)
    x = torch.zeros(1, 4, 8)
    assert torch.equal(code(x)[0], code.table)
    assert torch.equal(code(x[:, :2], start=2)[0], code.table[2:])
    with pytest.raises(ValueError, match="position 5 is beyond the 4 learned ones"):
        code(x[:, :1], start=4)


def vectors(seed: int, length: int = 10) -> Tensor:
    return torch.randn(2, 3, length, 8, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_rotary_is_the_papers_rotation() -> None:
    x = vectors(0)
    for m in (0, 1, 9):
        for i in range(4):
            angle = m * 10000 ** (-2 * i / 8)
            pair = torch.complex(x[:, :, m, 2 * i], x[:, :, m, 2 * i + 1])
            turned = pair * complex(math.cos(angle), math.sin(angle))
            found = Rotary(8)(x)[:, :, m, 2 * i : 2 * i + 2]
            assert_close(found, torch.stack((turned.real, turned.imag), -1), atol=1e-6, rtol=0)


def test_rotary_keeps_norms_and_leaves_position_0_alone() -> None:
    x, code = vectors(0), Rotary(8)
    assert_close(code(x).norm(dim=-1), x.norm(dim=-1), atol=1e-6, rtol=0)
    assert torch.equal(code(x)[:, :, 0], x[:, :, 0])
    assert not torch.allclose(code(x)[:, :, 1], x[:, :, 1])


def test_a_rotary_score_depends_on_the_distance_alone() -> None:
    q, k, code = vectors(0, 1), vectors(1, 1), Rotary(8)

    def score(m: int, n: int) -> Tensor:
        return (code(q, start=m) * code(k, start=n)).sum(-1)

    assert_close(score(9, 5), score(300, 296), atol=1e-5, rtol=0)
    assert_close(score(4, 4), (q * k).sum(-1), atol=1e-5, rtol=0)
    assert not torch.allclose(score(9, 5), score(9, 6), atol=1e-3)


def test_rotary_from_an_offset_is_a_part_of_the_whole() -> None:
    x, code = vectors(0), Rotary(8, length=2)
    assert torch.equal(code(x[:, :, 3:], start=3), code(x)[:, :, 3:])
