"""Schedules and optimizers against the paper's formula and PyTorch's own, and a state that goes on bit by bit."""

import subprocess
import sys
from typing import Any

import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor, nn
from torch.testing import assert_close

from regard.config import TrainConfig
from regard.models import HEADS, Bert, BertConfig, HeadConfig, Transformer, TransformerConfig
from regard.training.muon import Muon, orthogonalise
from regard.training.optim import Optimizer, rate


def factors(at: list[int], **keys: Any) -> list[float]:
    return [rate(TrainConfig(**keys), step, 512) for step in at]


# --- schedules ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("warmup", [1, 10, 4000])
def test_the_papers_schedule(warmup: int) -> None:
    steps = [1, 2, warmup, warmup + 1, 100_000]
    expected = [512**-0.5 * min(s**-0.5, s * warmup**-1.5) for s in steps]
    assert factors(steps, warmup=warmup) == pytest.approx(expected)


def test_the_papers_schedule_peaks_at_the_end_of_warm_up() -> None:
    found = factors(list(range(1, 100)), warmup=40)
    assert found.index(max(found)) == 39
    assert max(found) == pytest.approx((512 * 40) ** -0.5)
    assert factors([4000])[0] == pytest.approx(7e-4, rel=0.01)  # the published base model's


@pytest.mark.parametrize("schedule", ["inverse_sqrt", "cosine", "linear", "constant"])
def test_warm_up_is_a_line_from_zero_to_the_peak(schedule: Any) -> None:
    found = factors([1, 25, 50, 100], schedule=schedule, warmup=100, steps=1000)
    assert found == pytest.approx([0.01, 0.25, 0.5, 1.0])


@pytest.mark.parametrize("schedule", ["inverse_sqrt", "cosine", "linear", "constant"])
@pytest.mark.parametrize("warmup", [0, 1])
def test_without_warm_up_the_first_update_has_the_peak(schedule: Any, warmup: int) -> None:
    assert factors([1], schedule=schedule, warmup=warmup, steps=10) == [1.0]


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_the_last_update_is_small_and_not_wasted(schedule: Any) -> None:
    steps = list(range(100, 1001))
    found = factors(steps, schedule=schedule, warmup=100, steps=1000)
    assert found == sorted(found, reverse=True)
    assert 0 < found[-1] < 0.002
    assert factors([1001], schedule=schedule, warmup=100, steps=1000)[0] == pytest.approx(0, abs=1e-12)
    assert factors([1500], schedule=schedule, warmup=100, steps=1000)[0] == pytest.approx(0, abs=1e-12)


def test_linear_cosine_and_inverse_square_root_by_hand() -> None:
    assert factors([6], schedule="linear", warmup=2, steps=9) == pytest.approx([0.5])  # half-way from 2 to 10
    assert factors([6], schedule="cosine", warmup=2, steps=9) == pytest.approx([0.5])
    assert factors([4], schedule="cosine", warmup=2, steps=9) == pytest.approx([(2 + 2**0.5) / 4])
    assert factors([16, 64], schedule="inverse_sqrt", warmup=4) == pytest.approx([0.5, 0.25])
    assert factors([999], schedule="constant", warmup=4, steps=1000) == [1.0]


@pytest.mark.parametrize("schedule", ["paper", "inverse_sqrt", "cosine", "linear", "constant"])
@pytest.mark.parametrize(("warmup", "steps"), [(0, 1), (5, 1), (5, 5), (5, 6), (50, 10)])
def test_every_update_of_a_short_run_has_a_rate(schedule: Any, warmup: int, steps: int) -> None:
    found = factors(list(range(1, steps + 1)), schedule=schedule, warmup=warmup, steps=steps)
    assert all(0 < factor <= 1 for factor in found)


# --- optimizers -----------------------------------------------------------------------------------------------------


def network(seed: int = 0) -> Transformer:
    torch.manual_seed(seed)
    config = TransformerConfig(
        d_model=16, d_ff=24, heads=2, encoder_layers=1, decoder_layers=1, source_vocabulary=9, target_vocabulary=9
    )
    return Transformer(config).eval()


def set_gradients(model: nn.Module, step: int) -> None:
    generator = torch.Generator().manual_seed(step)
    for p in model.parameters():
        p.grad = torch.randn(p.shape, generator=generator)


def run(model: nn.Module, optimizer: Optimizer, steps: range) -> list[float]:
    rates = []
    for step in steps:
        set_gradients(model, step)
        rates.append(optimizer.step(step))
    return rates


def weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def test_adam_is_pytorchs_with_the_papers_values() -> None:
    model, reference = network(), network()
    rates = run(model, Optimizer(model, TrainConfig(warmup=3), 16), range(1, 7))
    adam = torch.optim.Adam(reference.parameters(), betas=(0.9, 0.98), eps=1e-9)
    for step in range(1, 7):
        adam.param_groups[0]["lr"] = 16**-0.5 * min(step**-0.5, step * 3**-1.5)
        assert rates[step - 1] == pytest.approx(adam.param_groups[0]["lr"])
        set_gradients(reference, step)
        adam.step()
    assert_close(weights(model), weights(reference))


def test_adamw_decays_matrices_alone() -> None:
    model, reference = network(), network()
    config = TrainConfig(optimizer="adamw", lr=0.01, schedule="constant", warmup=0, weight_decay=0.5)
    run(model, Optimizer(model, config, 16), range(1, 4))
    groups = [
        {"params": [p for p in reference.parameters() if p.ndim > 1], "weight_decay": 0.5},
        {"params": [p for p in reference.parameters() if p.ndim == 1], "weight_decay": 0.0},
    ]
    adamw = torch.optim.AdamW(groups, lr=0.01, betas=(0.9, 0.98), eps=1e-9)
    for step in range(1, 4):
        set_gradients(reference, step)
        adamw.step()
    assert_close(weights(model), weights(reference))


@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
def test_muon_is_pytorchs(weight_decay: float) -> None:
    shapes = [(16, 16), (48, 16), (16, 48), (16, 16)]
    generator = torch.Generator().manual_seed(0)
    start = [torch.randn(shape, generator=generator) for shape in shapes]
    ours, theirs = ([nn.Parameter(t.clone()) for t in start] for _ in range(2))
    lr = 0.1
    mine = Muon(ours, lr=lr, weight_decay=weight_decay)
    reference = torch.optim.Muon(
        theirs, lr=lr, weight_decay=weight_decay, momentum=0.95, nesterov=True, adjust_lr_fn="original"
    )
    for _ in range(4):
        grads = [torch.randn(shape, generator=generator) for shape in shapes]
        before = [p.detach().clone() for p in ours]
        with torch.no_grad():
            for a, b, grad in zip(ours, theirs, grads, strict=True):
                b.copy_(a)  # each update by itself: the tolerance is bfloat16's
                a.grad, b.grad = grad.clone(), grad.clone()
        mine.step()
        reference.step()
        for a, b, old in zip(ours, theirs, before, strict=True):
            step_a, step_b = (a - old).detach(), (b - old).detach()
            assert float((step_a - step_b).norm() / step_b.norm()) < 0.02


@pytest.mark.parametrize("shape", [(8, 8), (24, 8), (8, 24)])
def test_orthogonalised_has_the_same_directions_and_singular_values_near_1(shape: tuple[int, int]) -> None:
    matrices = torch.randn(5, *shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = orthogonalise(matrices)
    u, s, v = torch.linalg.svd(matrices, full_matrices=False)
    inside = u.mT @ found @ v.mT  # diagonal, if the directions are the same
    values = inside.diagonal(dim1=1, dim2=2)
    assert_close(inside, torch.diag_embed(values), atol=1e-9, rtol=0)
    ill = s / s.norm(dim=1, keepdim=True) < 0.02  # five steps do not lift what is nearly nothing
    assert float(values[~ill].min()) > 0.6
    assert float(values.max()) < 1.3
    assert_close(orthogonalise(matrices * 1e-3), found)  # scale does not matter


def test_muon_has_the_matrices_of_the_layers_and_adam_the_rest() -> None:
    model = network()
    optimizer = Optimizer(model, TrainConfig(optimizer="muon", warmup=0), 16)
    held = {type(part).__name__: [p for g in part.param_groups for p in g["params"]] for _, part in optimizer.parts}
    names = {id(p): name for name, p in model.named_parameters()}
    linear = {f"{name}.weight" for name, m in model.named_modules() if isinstance(m, nn.Linear)}
    assert {names[id(p)] for p in held["Muon"]} == linear
    assert {names[id(p)] for p in held["AdamW"]} == set(names.values()) - linear
    assert any(name.startswith("embed") for name in set(names.values()) - linear)


def test_each_part_has_its_own_peak() -> None:
    model = network()
    config = TrainConfig(optimizer="muon", lr=0.5, matrix_lr=0.1, schedule="linear", warmup=4, steps=16)
    optimizer = Optimizer(model, config, 16)
    assert run(model, optimizer, range(1, 2)) == [0.125]
    assert [g["lr"] for _, part in optimizer.parts for g in part.param_groups] == [0.025, 0.125, 0.125]


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_each_layer_further_down_learns_more_slowly(kind: Any) -> None:
    body = Bert(BertConfig(vocabulary=20, d_model=8, d_ff=16, heads=2, layers=2, max_positions=8))
    model = HEADS["classification"](body, HeadConfig(), 2)
    config = TrainConfig(optimizer=kind, lr=0.1, matrix_lr=0.1, layer_decay=0.5, schedule="constant", warmup=0)
    optimizer = Optimizer(model, config, 8)
    optimizer.step(1)
    rates = {optimizer.names[p]: g["lr"] for _, part in optimizer.parts for g in part.param_groups for p in g["params"]}
    for name, peak in rates.items():
        layer = 1 if "layers.0." in name else 2 if "layers.1." in name else 0 if name.startswith("body.") else 3
        assert peak == pytest.approx(0.1 * 0.5 ** (3 - layer)), name


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_biases_and_norms_can_have_a_share_of_the_rate(kind: Any) -> None:
    config = TrainConfig(optimizer=kind, lr=0.5, matrix_lr=0.5, vector_share=0.02, schedule="constant", warmup=0)
    optimizer = Optimizer(network(), config, 16)
    optimizer.step(1)
    rates = {p.ndim < 2: g["lr"] for _, part in optimizer.parts for g in part.param_groups for p in g["params"]}
    assert rates == {True: pytest.approx(0.01), False: pytest.approx(0.5)}


@pytest.mark.parametrize("kind", ["adam", "adamw", "muon"])
def test_a_saved_state_goes_on_bit_by_bit(kind: Any) -> None:
    config = TrainConfig(optimizer=kind, warmup=2, lr=0.1, weight_decay=0.0 if kind == "adam" else 0.1, steps=8)
    model = network()
    optimizer = Optimizer(model, config, 16)
    run(model, optimizer, range(1, 4))
    saved, stored = weights(model), save({k: t.contiguous() for k, t in optimizer.state().items()})
    run(model, optimizer, range(4, 7))

    other = network(seed=1)
    with torch.no_grad():
        for name, p in other.named_parameters():
            p.copy_(saved[name])
    resumed = Optimizer(other, config, 16)
    resumed.load(load(stored))
    run(other, resumed, range(4, 7))
    expected = weights(model)
    assert all(torch.equal(p, expected[name]) for name, p in weights(other).items())
    assert all(torch.equal(t, resumed.state()[name]) for name, t in optimizer.state().items())

    forgetful = network()
    with torch.no_grad():
        for name, p in forgetful.named_parameters():
            p.copy_(saved[name])
    run(forgetful, Optimizer(forgetful, config, 16), range(4, 7))
    assert not all(torch.equal(p, expected[name]) for name, p in weights(forgetful).items())


@pytest.mark.parametrize("kind", ["adam", "adamw", "muon"])
def test_shares_of_the_parameters_move_as_the_whole_and_know_each_others_state(kind: Any) -> None:
    config = TrainConfig(optimizer=kind, warmup=2, lr=0.1, weight_decay=0.0 if kind == "adam" else 0.1, steps=8)
    model, other = network(), network()
    whole, shared = Optimizer(model, config, 16), Optimizer(other, config, 16, shared_by=3)
    assert [len(found.shares) for found in (whole, shared)] == [1, 3]
    held = [shared.names[p] for share in shared.shares for p in share.params]
    in_optimizers = [shared.names[p] for _, part in shared.parts for g in part.param_groups for p in g["params"]]
    assert sorted(held) == sorted(in_optimizers) == sorted(shared.names.values())
    assert run(model, whole, range(1, 4)) == run(other, shared, range(1, 4))
    assert_close(weights(other), weights(model))

    resumed = Optimizer(other, config, 16, shared_by=2)
    resumed.load({name: tensor.clone() for name, tensor in whole.state().items()})
    run(model, whole, range(4, 7))
    run(other, resumed, range(4, 7))
    assert_close(weights(other), weights(model))


def test_a_share_without_any_gradient_is_no_hindrance() -> None:
    """A part of a network that a task does not use, as the mix of layers is while ELMo learns to read."""
    from types import SimpleNamespace

    from regard.training.update import Update

    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    part: Any = SimpleNamespace(
        config=TrainConfig(clip=0.5), optimizer=Optimizer(model, TrainConfig(), 4, 4), workers=SimpleNamespace(map=map)
    )
    set_gradients(model[0], 1)
    norm = Update._clip(part)
    expected = torch.cat([p.grad.flatten() for p in model[0].parameters()]).norm()  # type: ignore[union-attr]
    assert norm > 0.5
    assert float(expected) == pytest.approx(0.5, rel=1e-5)


def test_every_weight_is_moved_by_every_optimizer() -> None:
    for kind in ("adam", "adamw", "muon"):
        model = network()
        before = weights(model)
        run(model, Optimizer(model, TrainConfig(optimizer=kind, warmup=0), 16), range(1, 2))  # type: ignore[arg-type]
        assert not [name for name, p in weights(model).items() if torch.equal(p, before[name])]


# --- memory ---------------------------------------------------------------------------------------------------------

FAULTS = """
import resource, torch
from regard.memory import keep_freed_memory
torch.set_num_threads(1)
def faults():
    for _ in range(30):  # the heap settles after some
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        torch.ones(10_000_000)  # 40 MB, freed at once
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(faults(), keep_freed_memory(), faults())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's malloc")
def test_freed_memory_is_used_again_without_faults() -> None:
    """In a process of its own: the setting cannot be taken back."""
    done = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True)
    before, kept, after = done.stdout.split()
    assert kept == "True"
    assert int(before) > 10
    assert int(after) < int(before) / 5


def test_a_short_run_warms_up_for_a_quarter_of_it_where_the_schedule_ends_with_it() -> None:
    short = {"warmup": 200, "steps": 40}
    assert rate(TrainConfig(schedule="linear", **short), 10, 16) == 1.0
    assert rate(TrainConfig(schedule="inverse_sqrt", **short), 10, 16) == 10 / 200
