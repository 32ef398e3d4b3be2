"""The compiled steps against their plain twins, in double precision; and training where they cannot be had."""

import ctypes
import math
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import small_recipe
from torch import Tensor, nn
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from regard.config import make_recipe
from regard.errors import UserError
from regard.files import cache_folder
from regard.models import Transformer
from regard.nn import native
from regard.nn.attention import Full, Mask, attend
from regard.nn.blocks import FeedForward, Residual
from regard.nn.dropout import Dropout, drawing
from regard.nn.native import build
from regard.training.session import train

NEAR = {"rtol": 1e-4, "atol": 2e-6}  # single precision against double


@pytest.fixture
def steps() -> Iterator[None]:
    with native.compiled(cache_folder("native")) as lacking:
        if lacking == "there is no C compiler":
            pytest.skip(lacking)
        assert not lacking
        yield


def leaf(*shape: int) -> Tensor:
    return torch.randn(*shape).requires_grad_()


def with_gradients(function: Callable[..., Tensor], *inputs: Tensor) -> list[Tensor]:
    """What it gives, and the gradients of a sum of it with random weights."""
    out = function(*inputs)
    weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(5)).to(out)
    return [out, *torch.autograd.grad((out * weights).sum(), inputs)]


def same(found: list[Tensor], exact: list[Tensor]) -> None:
    assert_close([x.double() for x in found], exact, **NEAR)


def doubled(*inputs: Tensor) -> list[Tensor]:
    return [x.detach().double().requires_grad_() for x in inputs]


class Names(TorchDispatchMode):
    """The operations that PyTorch was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


# --- attention ------------------------------------------------------------------------------------------------------


MASKS = ("all", "lengths", "causal", "both")
SIZES = ((1, 1), (3, 3), (8, 16), (17, 15), (33, 33), (5, 128))


@pytest.mark.parametrize("width", [16, 32, 48, 64, 80])
@pytest.mark.parametrize(
    ("kind", "queries", "keys"), [(m, t, s) for m in MASKS for t, s in SIZES if t <= s or m in MASKS[:2]]
)
def test_attention_is_the_papers_equation(steps: None, width: int, queries: int, keys: int, kind: str) -> None:
    """With a causal mask the queries are the last of the keys."""
    torch.manual_seed(keys)
    lengths = torch.tensor([keys, max(1, keys // 2), 1], dtype=torch.int32 if width == 16 else torch.int64)
    mask = Mask(causal=kind in ("causal", "both"), lengths=lengths if kind in ("lengths", "both") else None)
    q, k, v = leaf(3, 2, queries, width), leaf(3, 2, keys, width), leaf(3, 2, keys, width)
    with Names() as names:
        found = with_gradients(lambda q, k, v: Full()(q, k, v, mask), q, k, v)
    assert not [name for name in names.seen if "attention" in name or "softmax" in name]
    same(found, with_gradients(lambda q, k, v: attend(q, k, v, mask)[0], *doubled(q, k, v)))


def test_what_is_no_number_stays_so(steps: None) -> None:
    """A training that goes wrong is told by it."""
    q, k, v = (torch.randn(1, 1, 4, 16) for _ in range(3))
    for broken in (q, k, v):
        for wrong in (math.nan, math.inf):
            kept = broken[0, 0, 2, 3].clone()
            broken[0, 0, 2, 3] = wrong
            assert Full()(q, k, v, Mask()).isnan().any() or Full()(q, k, v, Mask()).isinf().any()
            broken[0, 0, 2, 3] = kept
    layer = FeedForward(16, 16, "relu", 0.0)
    x = torch.full((1, 16), math.nan, requires_grad=True)
    assert layer(x).isnan().all()
    assert torch.autograd.grad(layer(x).sum(), layer.inner.weight)[0].isnan().all()


def test_a_query_without_keys_mixes_nothing(steps: None) -> None:
    q, k = leaf(1, 1, 40, 16), leaf(1, 1, 3, 16)
    out = Full()(q, k, k, Mask(causal=True))
    assert not out[:, :, :37].any()
    assert all(g.isfinite().all() for g in torch.autograd.grad(out.sum(), (q, k)))


def test_more_keys_than_there_are_is_all_of_them(steps: None) -> None:
    q = torch.randn(2, 1, 5, 16)
    assert_close(Full()(q, q, q, Mask(lengths=torch.tensor([90, 5]))), Full()(q, q, q, Mask()))
    assert_close(Full()(q, q, q, Mask(lengths=torch.tensor([3]))), Full()(q, q, q, Mask(lengths=torch.tensor([3, 3]))))


def test_scores_of_any_size_have_a_softmax(steps: None) -> None:
    """The largest score is taken away first; the smallest weights are zero, not noise."""
    torch.manual_seed(0)
    q, k, v = 40 * torch.randn(1, 1, 6, 16), 40 * torch.randn(1, 1, 20, 16), torch.randn(1, 1, 20, 16)
    found = with_gradients(lambda q, k, v: Full()(q, k, v, Mask()), *(x.requires_grad_() for x in (q, k, v)))
    exact = with_gradients(lambda q, k, v: attend(q, k, v, Mask())[0], *doubled(q, k, v))
    assert_close([x.double() for x in found], exact, rtol=1e-3, atol=2e-3)  # of scores around 1,000 e^x has 4 digits


def test_what_stands_in_padding_does_not_matter(steps: None) -> None:
    torch.manual_seed(0)
    mask = Mask(lengths=torch.tensor([5]))
    q, k, v = (leaf(1, 2, 11, 16) for _ in range(3))
    before = with_gradients(lambda q, k, v: Full()(q, k, v, mask), q, k, v)
    with torch.no_grad():
        k[:, :, 5:], v[:, :, 5:] = 1e30, -1e30
    after = with_gradients(lambda q, k, v: Full()(q, k, v, mask), q, k, v)
    assert_close(before, after, rtol=0, atol=0)
    assert not before[2][:, :, 5:].any()
    assert not before[3][:, :, 5:].any()


@pytest.mark.parametrize(
    ("width", "keys", "dtype", "dropout"),
    [
        (12, 5, torch.float32, 0.0),
        (16, 129, torch.float32, 0.0),
        (16, 5, torch.float64, 0.0),
        (16, 5, torch.float32, 0.5),
    ],
)
def test_other_attention_is_left_to_pytorch(
    steps: None, width: int, keys: int, dtype: torch.dtype, dropout: float
) -> None:
    q, k = torch.randn(1, 1, 3, width, dtype=dtype), torch.randn(1, 1, keys, width, dtype=dtype)
    with Names() as names:
        Full(dropout).train()(q, k, k, Mask())
    assert any("attention" in name or "softmax" in name for name in names.seen)


# --- dropout, norms, activation -------------------------------------------------------------------------------------


def drawn(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def seeded(*inputs: Tensor) -> Tensor:
        with drawing(torch.Generator().manual_seed(7)):
            return function(*inputs)

    return seeded


@pytest.mark.parametrize("count", [16, 48])
@pytest.mark.parametrize("rows", [1, 7])
@pytest.mark.parametrize("p", [0.1, 0.5, 0.999])
def test_dropout_is_the_plain_one_with_the_same_draws(steps: None, p: float, rows: int, count: int) -> None:
    dropout, x, y = Dropout(p).train(), leaf(rows, count), leaf(rows, count)
    with Names() as names:
        drawn(dropout)(y)
        drawn(dropout.add)(x, y)
    assert not names.seen & {"mul", "lt", "addcmul"}
    same(with_gradients(drawn(dropout), y), with_gradients(drawn(dropout), *doubled(y)))
    same(with_gradients(drawn(dropout.add), x, y), with_gradients(drawn(dropout.add), *doubled(x, y)))


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("p", [0.0, 0.3])
@pytest.mark.parametrize("width", [16, 144])
def test_a_residual_step_is_the_plain_one(steps: None, norm: str, p: float, width: int) -> None:
    torch.manual_seed(3)
    residual = Residual(width, p, norm).train()
    nn.init.normal_(residual.norm.weight)
    nn.init.normal_(residual.norm.bias)
    x, mixing = leaf(2, 5, width), torch.randn(width, width) / width**0.5

    def step(x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
        parameters = {"norm.weight": gain, "norm.bias": bias}
        sublayer = lambda y: y @ mixing.to(y)  # noqa: E731
        return drawn(lambda x: torch.func.functional_call(residual, parameters, (x, sublayer)))(x)

    inputs = (x, residual.norm.weight, residual.norm.bias)
    with Names() as names:
        found = with_gradients(step, *inputs)
    assert not names.seen & {"native_layer_norm", "native_layer_norm_backward", "addcmul"}
    same(found, with_gradients(step, *doubled(*inputs)))


def test_who_listens_to_a_norm_hears_it(steps: None) -> None:
    residual, heard = Residual(16, 0.0, "pre").train(), []
    residual.norm.register_forward_hook(lambda *call: heard.append(call[2]))
    residual(torch.randn(2, 16), lambda y: y)
    assert len(heard) == 1


class Doubling(nn.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


@pytest.mark.parametrize("order", ["pre", "post"])
@pytest.mark.parametrize(
    "norm",
    [
        nn.LayerNorm(16, bias=False),
        nn.LayerNorm(16, elementwise_affine=False),
        nn.Identity(),
        nn.RMSNorm(16),
        Doubling(16),
    ],
)
def test_another_norm_is_left_alone(order: str, norm: nn.Module) -> None:
    residual = Residual(16, 0.0, order).train()
    residual.norm = norm  # type: ignore[assignment]
    x = torch.randn(2, 16)
    plain = residual(x, lambda y: 2 * y)
    with native.compiled(cache_folder("native")):
        assert_close(residual(x, lambda y: 2 * y), plain)


def test_shapes_that_pytorch_spreads_are_left_to_it(steps: None) -> None:
    x, y, q, k = torch.randn(3, 16), torch.randn(1, 16), torch.randn(2, 4, 3, 16), torch.randn(2, 1, 5, 16)
    assert Dropout(0.5).train().add(x, y).shape == x.shape
    assert Residual(16, 0.0, "post").train()(x, lambda _: y).shape == x.shape
    assert Full()(q, k, k, Mask()).shape == q.shape
    Dropout(0.5).train()(torch.tensor(1.0))


def test_layouts_do_not_matter(steps: None) -> None:
    x, y = leaf(16, 3, 2), leaf(16, 3, 2)
    turned = lambda z: z.permute(2, 1, 0)  # noqa: E731
    residual, dropout = Residual(16, 0.0, "post").train(), Dropout(0.5).train()
    for step in (lambda x, y: drawn(dropout.add)(x, y), lambda x, y: residual(x, lambda _: y)):
        found = with_gradients(lambda x, y, step=step: step(turned(x), turned(y)), x, y)
        dense = with_gradients(lambda x, y, step=step: step(x, y), *(turned(z).contiguous() for z in (x, y)))
        assert_close(found, [dense[0], *(g.permute(2, 1, 0) for g in dense[1:])])


def test_second_derivatives_are_refused_not_wrong(steps: None) -> None:
    x = leaf(2, 16)
    (first,) = torch.autograd.grad(Residual(16, 0.0, "post").train()(x, lambda y: y).pow(2).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def test_the_steps_are_for_training_in_single_precision(steps: None) -> None:
    x = torch.randn(2, 16)
    assert native.ready(x)
    with torch.no_grad():
        assert not native.ready(x)
    with torch.autocast("cpu", torch.bfloat16):
        assert not native.ready(x)


def test_the_feed_forward_layer_is_the_plain_one(steps: None) -> None:
    torch.manual_seed(1)
    layer, plain = FeedForward(16, 48, "relu", 0.0), FeedForward(16, 48, "relu", 0.0).double()
    nn.init.normal_(layer.inner.bias)
    plain.load_state_dict(layer.state_dict())
    x = leaf(3, 7, 16)
    with Names() as names:
        found = with_gradients(lambda x, *_: layer(x), x, *layer.parameters())
    assert not names.seen & {"relu_", "threshold_backward"}
    same(found, with_gradients(lambda x, *_: plain(x), *doubled(x), *plain.parameters()))


# --- whole models ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_model_has_the_gradient_that_it_has_without(norm: str) -> None:
    torch.manual_seed(0)
    shape = {"d_model": 64, "d_ff": 96, "heads": 4, "dropout": 0.3, "norm": norm}
    shape |= {"encoder_layers": 2, "decoder_layers": 2, "attention_bias": True}
    model = Transformer(make_recipe({"model": shape}).network(50, 50)).train()
    tokens = {name: torch.randint(4, 50, (6, 11)) for name in ("source", "target", "wanted")}
    real = torch.ones(6, 11, dtype=torch.bool)

    def gradient() -> tuple[Tensor, ...]:
        with drawing(torch.Generator().manual_seed(1)):
            total, _ = model.losses(lengths=torch.tensor([11, 10, 7, 3, 11, 1]), real=real, smoothing=0.1, **tokens)
        return total, *torch.autograd.grad(total, list(model.parameters()))

    plain = gradient()
    with native.compiled(cache_folder("native")) as lacking:
        if lacking:
            pytest.skip(lacking)
        found = gradient()
    assert_close(found, plain, rtol=1e-4, atol=1e-4)
    assert any((x != y).any() for x, y in zip(found, plain, strict=True))  # they were not the same steps


def test_threads_do_not_disturb_each_other(steps: None) -> None:
    q = torch.randn(8, 4, 30, 32)
    alone = native.attend(q, q, q, None, causal=True)
    found: list[Tensor] = []

    def work() -> None:
        found.extend(native.attend(q, q, q, None, causal=True) for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 80
    assert all(torch.equal(x, alone) for x in found)


# --- building -------------------------------------------------------------------------------------------------------


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Nothing was built yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    build.library.cache_clear()
    yield tmp_path / "regard" / "native"
    build.library.cache_clear()


def compiler(folder: Path, script: str) -> str:
    path = folder / "cc"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_without_a_compiler_training_says_so_and_goes_on(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pairs: list[tuple[str, str]]
) -> None:
    monkeypatch.setattr(build, "COMPILERS", ())
    told: list[str] = []
    recipe = make_recipe(small_recipe(steps=2))
    train(recipe, tmp_path / "run", pairs=pairs, callbacks=[lambda e: told.append(e.get("text", ""))])
    assert "training is slower than it could be, for want of compiled steps: there is no C compiler" in told
    asked = make_recipe(small_recipe(steps=2, precision="int16"))
    with pytest.raises(UserError, match="int16 cannot be had here: there is no C compiler; leave it at auto"):
        train(asked, tmp_path / "other", pairs=pairs)
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("precision", ["auto", "float32", "int16"])
@pytest.mark.parametrize("there", [True, False], ids=["with VNNI", "without"])
def test_the_recipe_and_the_processor_choose_the_products(
    precision: str,
    there: bool,
    fresh: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    pairs: list[tuple[str, str]],
) -> None:
    """The processor is feigned: the products themselves are never asked for, since the matrices are small."""
    with native.compiled(cache_folder("native")) as lacking:
        if lacking:
            pytest.skip(lacking)
    monkeypatch.setattr(native, "_slow_library", lambda: False)
    monkeypatch.setattr(native, "LEAST", 10**9)
    monkeypatch.setattr(build.library(cache_folder("native")), "multiplies_whole", lambda: there)
    told: list[str] = []
    recipe = make_recipe(small_recipe(steps=2, precision=precision))
    hear = lambda event: told.append(event["precision"]) if event["event"] == "begin" else None  # noqa: E731
    if precision == "int16" and not there:
        with pytest.raises(UserError, match="the processor lacks AVX-512 VNNI"):
            train(recipe, tmp_path / "run", pairs=pairs, callbacks=[hear])
        return
    bundle = train(recipe, tmp_path / "run", pairs=pairs, callbacks=[hear])
    assert told == ["int16" if there and precision != "float32" else "float32"] == [bundle.training["precision"]]


@pytest.fixture
def with_vnni(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor that has it, it seems; no product is large enough to find out."""
    with native.compiled(cache_folder("native")) as lacking:
        if lacking:
            pytest.skip(lacking)
    monkeypatch.setattr(native, "LEAST", 10**9)
    monkeypatch.setattr(build.library(cache_folder("native")), "multiplies_whole", lambda: True)


def test_whole_numbers_by_name_are_had_or_refused(
    with_vnni: None, tmp_path: Path, pairs: list[tuple[str, str]]
) -> None:
    recipe = make_recipe(small_recipe(steps=2, precision="int16", threads=2, parts=1))
    with pytest.raises(UserError, match="each part has to have one thread; with parts = 1 there are 2"):
        train(recipe, tmp_path / "run", pairs=pairs)
    assert not (tmp_path / "run").exists()


def test_a_run_goes_on_in_another_precision_if_it_must_and_says_so(
    with_vnni: None, tmp_path: Path, pairs: list[tuple[str, str]]
) -> None:
    told: list[str] = []
    hear = lambda event: told.append(event.get("text", ""))  # noqa: E731
    train(make_recipe(small_recipe(steps=2, precision="int16")), tmp_path / "run", pairs=pairs)
    again = make_recipe(small_recipe(steps=4, precision="float32"))
    with pytest.raises(UserError, match=r"train\.precision was 'int16', now 'float32'"):
        train(again, tmp_path / "run", pairs=pairs, resume=True)
    bundle = train(again, tmp_path / "run", pairs=pairs, resume=True, force=True, callbacks=[hear])
    assert bundle.training["precision"] == "float32"
    assert any("products: int16 then, float32 now): results will differ, as from another precision" in t for t in told)


def test_two_trainings_at_once_have_one_precision(with_vnni: None) -> None:
    with native.compiled(cache_folder("native"), "auto"):
        with pytest.raises(RuntimeError, match="has another precision"), native.compiled(cache_folder("native")):
            pass
        assert native.products() == "int16"
    assert not native.used()


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 'steps.c:1: error: no such thing' >&2; exit 1", "the C compiler says: steps.c:1: error: no such thing"),
        ('for last; do :; done; [ "$1" = --version ] && exit 0; exit 7', "the C compiler says: exit code 7"),
        (
            '[ "$1" = --version ] && exit; while [ "$1" != -o ]; do shift; done; echo no library > "$2"',
            "they cannot be loaded: ",
        ),
    ],
)
def test_a_compiler_that_fails_is_no_reason_to_stop(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, reason: str
) -> None:
    monkeypatch.setattr(build, "COMPILERS", (compiler(tmp_path, script),))
    with native.compiled(cache_folder("native")) as lacking:
        assert lacking.startswith(reason)
        assert not native.used()


def test_steps_are_built_once(fresh: Path, steps: None) -> None:
    (made,) = fresh.iterdir()
    stamp = made.stat().st_mtime_ns
    build.library.cache_clear()
    build.library(cache_folder("native"))
    assert [path.stat().st_mtime_ns for path in fresh.iterdir()] == [stamp]


def test_a_folder_that_cannot_be_written_is_no_reason_to_stop(fresh: Path, tmp_path: Path) -> None:
    (tmp_path / "regard").write_text("a file in the way", encoding="utf-8")
    with native.compiled(cache_folder("native")) as lacking:
        assert lacking in ("", "there is no C compiler")


@pytest.mark.parametrize("allowed", ["cache", "temporary"])
def test_where_code_may_not_be_run_the_other_folder_serves(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, allowed: str
) -> None:
    """As where /tmp, or the home, is mounted without the right to run what is in it."""
    if not any(map(shutil.which, build.COMPILERS)):
        pytest.skip("there is no C compiler")

    def load(path: str) -> ctypes.CDLL:
        if (allowed == "cache") != path.startswith(str(fresh)):
            raise OSError("failed to map segment from shared object")
        return real(path)

    real = ctypes.CDLL
    monkeypatch.setattr(build.ctypes, "CDLL", load)
    with native.compiled(cache_folder("native")) as lacking:
        assert not lacking


def test_without_a_folder_for_temporary_files_training_goes_on(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(**_: object) -> None:
        raise FileNotFoundError("No usable temporary directory found")

    if not any(map(shutil.which, build.COMPILERS)):
        pytest.skip("there is no C compiler")
    monkeypatch.setattr(build.tempfile, "TemporaryDirectory", none)
    with native.compiled(cache_folder("native")) as lacking:
        assert lacking == "No usable temporary directory found"


def test_a_user_without_a_home_has_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", none)
    assert cache_folder("native").name == "native"


def test_a_broken_compiler_does_not_hide_a_working_one(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = next((found for name in build.COMPILERS if (found := shutil.which(name))), None)
    if real is None:
        pytest.skip("there is no C compiler")
    monkeypatch.setattr(build, "COMPILERS", (compiler(tmp_path, "exit 1"), real))
    with native.compiled(cache_folder("native")) as lacking:
        assert not lacking


def test_a_damaged_library_is_made_anew(fresh: Path, steps: None) -> None:
    (made,) = fresh.iterdir()
    whole = made.read_bytes()
    made.write_bytes(b"")
    build.library.cache_clear()
    build.library(cache_folder("native"))
    assert len(made.read_bytes()) == len(whole)


def test_a_compiler_that_does_not_know_the_machine_is_asked_for_less(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = next((found for name in build.COMPILERS if (found := shutil.which(name))), None)
    if real is None:
        pytest.skip("there is no C compiler")
    script = f'case "$*" in *-march=native*) echo "unknown argument" >&2; exit 1;; esac; exec {real} "$@"'
    monkeypatch.setattr(build, "COMPILERS", (compiler(tmp_path, script),))
    with native.compiled(cache_folder("native")) as lacking:
        assert not lacking


def test_whoever_leaves_last_ends_it() -> None:
    with native.compiled(cache_folder("native")) as lacking:
        if lacking:
            pytest.skip(lacking)
        with native.compiled(cache_folder("native")):
            pass
        assert native.used()
    assert not native.used()
