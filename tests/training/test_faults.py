"""The faults of training that must be survived: each test fails when its guard is removed."""

import errno
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import small_recipe, write_tsv
from safetensors.torch import load_file
from torch import Tensor

from regard import bundle as bundle_module
from regard.bundle import load_bundle
from regard.config import TrainConfig, make_recipe
from regard.data.cache import TokenCache
from regard.errors import UserError
from regard.training.checkpoint import Checkpoint, Checkpoints
from regard.training.resume import FREE
from regard.training.session import train
from regard.training.signals import SAVED, Stop, Stopped

Pairs = list[tuple[str, str]]
Event = dict[str, Any]


class Cut(Exception):
    """Stands for a process that dies here."""


def run(pairs: Pairs, out: Path, callback: Callable[[Event], None] | None = None, **options: Any) -> Any:
    settings = {key: options.pop(key) for key in list(options) if key not in ("resume", "step", "force", "start_from")}
    recipe = make_recipe(small_recipe(**settings))
    return train(recipe, out, pairs=pairs[:200], dev=pairs[200:], callbacks=[callback] if callback else [], **options)


def weights(out: Path, step: int) -> dict[str, Tensor]:
    return load_file(out / "checkpoints" / f"step-{step:08d}" / "weights.safetensors")


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def cut_at(step: int) -> Callable[[Event], None]:
    def cut(event: Event) -> None:
        if event["event"] == "train" and event["step"] == step:
            raise Cut

    return cut


def dev_losses(monkeypatch: pytest.MonkeyPatch, *values: float) -> None:
    """What the coming validations find."""
    from regard.tasks.translation import TranslationTask

    coming = iter(values)
    monkeypatch.setattr(TranslationTask, "dev_loss", lambda task, model: next(coming))


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(p): (p.stat().st_mtime_ns, p.stat().st_size) for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
@pytest.mark.parametrize("ema", [0.0, 0.9])
def test_1_resume_in_mid_epoch_is_bit_equal(tmp_path: Path, pairs: Pairs, optimizer: str, ema: float) -> None:
    options = {"optimizer": optimizer, "ema": ema, "accumulate": 2}
    run(pairs, tmp_path / "whole", **options)

    def cut(event: Event) -> None:
        if event["event"] == "train" and event["step"] == 9:
            raise Cut

    with pytest.raises(Cut):
        run(pairs, tmp_path / "cut", cut, **options)
    assert max(_steps(tmp_path / "cut")) == 6  # step 9 was made and is lost with the process
    run(pairs, tmp_path / "cut", resume=True, **options)
    for step in (9, 12):
        assert same(weights(tmp_path / "whole", step), weights(tmp_path / "cut", step))
    logs = [[_timeless(e) for e in _log(tmp_path / name)] for name in ("whole", "cut")]
    assert logs[0] == logs[1]


def test_1_words_are_split_the_same_after_a_resume(tmp_path: Path, pairs: Pairs) -> None:
    tree = small_recipe(split=0.3)
    tree["tokenizer"] = {"kind": "bpe", "size": 300}
    recipe = make_recipe(tree)

    def go(name: str, callback: Callable[[Event], None] | None = None, **options: Any) -> None:
        callbacks = [callback] if callback else []
        train(recipe, tmp_path / name, pairs=pairs[:200], dev=pairs[200:220], callbacks=callbacks, **options)

    go("whole")
    with pytest.raises(Cut):
        go("cut", cut_at(9))
    go("cut", resume=True)
    assert same(weights(tmp_path / "whole", 12), weights(tmp_path / "cut", 12))


def test_1_what_was_counted_goes_on(tmp_path: Path, pairs: Pairs, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"metric": "loss", "validate_every": 3, "patience": 9}
    for name in ("whole", "cut"):
        dev_losses(monkeypatch, 3.0, 5.0, 6.0, 7.0)
        Poisoned(monkeypatch, {4, 5})
        if name == "cut":
            with pytest.raises(Cut):
                run(pairs, tmp_path / name, cut_at(9), **options)
        run(pairs, tmp_path / name, resume=True, **options)
    whole, cut = (_progress(tmp_path / name, 12) for name in ("whole", "cut"))
    assert whole == cut
    assert (whole["best_step"], whole["without_gain"], whole["skipped"]) == (3, 3, 2)


def test_1_every_step_batch_and_part_has_masks_of_its_own(
    tmp_path: Path, pairs: Pairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    from regard.training import update

    seeds: list[int] = []
    real = update.drawing

    def drawing(generator: torch.Generator) -> Any:
        seeds.append(generator.initial_seed())
        return real(generator)

    monkeypatch.setattr(update, "drawing", drawing)
    run(pairs, tmp_path, steps=3, accumulate=2, parts=2)
    assert len(seeds) == len(set(seeds)) == 3 * 2 * 2


def test_2_resume_at_an_epochs_end_is_bit_equal(tmp_path: Path, pairs: Pairs) -> None:
    epochs: dict[int, int] = {}
    run(pairs, tmp_path / "whole", lambda e: epochs.update({e["step"]: e["epoch"]}) if e["event"] == "train" else None,
        steps=16, log_every=1, save_every=1, keep=20)  # fmt: skip
    end = next(step for step in range(2, 16) if epochs[step] > epochs[step - 1])  # it rises with an epoch's last batch

    def cut(event: Event) -> None:
        if event["event"] == "train" and event["step"] == end + 1:
            raise Cut

    with pytest.raises(Cut):
        run(pairs, tmp_path / "cut", cut, steps=16, log_every=1, save_every=1, keep=20)
    assert max(_steps(tmp_path / "cut")) == end
    run(pairs, tmp_path / "cut", resume=True, steps=16, log_every=1, save_every=1, keep=20)
    assert same(weights(tmp_path / "whole", 16), weights(tmp_path / "cut", 16))
    logs = [[_timeless(e) for e in _log(tmp_path / name)] for name in ("whole", "cut")]
    assert logs[0] == logs[1]  # the epochs too


def test_3_resuming_a_finished_run_writes_nothing(tmp_path: Path, pairs: Pairs) -> None:
    run(pairs, tmp_path)
    before = snapshot(tmp_path)
    seen: list[str] = []
    run(pairs, tmp_path, lambda e: seen.append(e["event"]), resume=True)
    assert snapshot(tmp_path) == before
    assert seen == ["finished"]


def test_3_a_run_that_ended_by_patience_is_finished_too(
    tmp_path: Path, pairs: Pairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"metric": "loss", "validate_every": 3, "patience": 2}
    dev_losses(monkeypatch, 3.0, 5.0, 6.0)
    run(pairs, tmp_path, **options)
    before = snapshot(tmp_path)
    run(pairs, tmp_path, resume=True, **options)
    assert snapshot(tmp_path) == before
    assert max(_steps(tmp_path)) == 9


def test_3_a_finished_run_made_longer_is_finished_only_with_its_new_model(
    tmp_path: Path, pairs: Pairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped between its last checkpoint and its final model, while the shorter run's final model is still there."""
    from regard.tasks.translation import TranslationTask

    dev_losses(monkeypatch, 3.0, 5.0, 6.0)
    run(pairs, tmp_path, metric="loss")
    with monkeypatch.context() as patch:
        patch.setattr(TranslationTask, "scores", lambda *args: signal.raise_signal(signal.SIGTERM))
        with pytest.raises(Stopped):
            run(pairs, tmp_path, metric="loss", steps=15, resume=True)
    assert run(pairs, tmp_path, metric="loss", steps=15, resume=True).training["steps"] == 15


def test_4_killed_at_any_instant_of_a_save_the_newest_complete_checkpoint_loads(
    tmp_path: Path, pairs: Pairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dies at every file operation of a save in turn, as SIGKILL would: nothing after it happens, no clean-up."""
    run(pairs, tmp_path / "whole")
    for instant in ("first file", "last file", "before rename"):
        out = tmp_path / instant.replace(" ", "-")
        saves = 0
        real = bundle_module.save_file

        def dying(tensors: Any, path: Any, *, when: str = instant, save: Any = real, **rest: Any) -> None:
            nonlocal saves
            saves += 1
            save(tensors, path, **rest)
            if saves == (3 if when == "first file" else 4) and when != "before rename":
                os._exit(9)

        pid = os.fork()
        if pid == 0:
            bundle_module.save_file = dying
            if instant == "before rename":
                Path.rename = _dying_rename  # type: ignore[method-assign]
            run(pairs, out)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
        assert _steps(out) == [3]
        run(pairs, out, resume=True)
        assert same(weights(out, 12), weights(tmp_path / "whole", 12))
        assert not list((out / "checkpoints").glob(".part-*"))


def test_a_copy_under_a_name_of_its_own_is_no_checkpoint(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=1)
    save_small(checkpoints, 3)
    shutil.copytree(tmp_path / "step-00000003", tmp_path / "step-00000003.bak")
    save_small(checkpoints, 6)
    assert checkpoints.steps() == [6]
    assert (tmp_path / "step-00000003.bak").is_dir()


def test_4_killed_while_an_old_checkpoint_is_removed_it_no_longer_counts(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=1)
    save_small(checkpoints, 1)

    def dying(folder: Path, **options: Any) -> None:
        if folder.exists():
            next(folder.iterdir()).unlink()
            os._exit(9)

    pid = os.fork()
    if pid == 0:
        shutil.rmtree = dying  # type: ignore[assignment]
        save_small(checkpoints, 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    assert checkpoints.steps() == [2]
    assert checkpoints.load().step == 2


def save_small(checkpoints: Checkpoints, step: int) -> None:
    checkpoints.save(Checkpoint(step, {"weights": {"w": torch.full((3,), float(step))}}, {}))


RENAME = Path.rename


def _dying_rename(self: Path, target: Any) -> Path:
    if "step-00000006" in str(target):
        os._exit(9)
    return RENAME(self, target)


def test_5_a_full_disk_leaves_the_previous_checkpoint_and_says_so_in_one_line(
    tmp_path: Path, pairs: Pairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    saves = 0
    real = bundle_module.save_file

    def full(tensors: Any, path: Path, **rest: Any) -> None:
        nonlocal saves
        saves += 1
        if saves == 4:
            path.write_bytes(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")
        real(tensors, path, **rest)

    monkeypatch.setattr(bundle_module, "save_file", full)
    with pytest.raises(UserError, match="disk is full") as error:
        run(pairs, tmp_path)
    assert "\n" not in str(error.value)
    assert _steps(tmp_path) == [3]
    assert not list((tmp_path / "checkpoints").glob(".part-*"))
    monkeypatch.undo()
    run(pairs, tmp_path, resume=True)
    assert max(_steps(tmp_path)) == 12


@pytest.mark.parametrize("file", ["weights.safetensors", "optimizer.safetensors", "checkpoint.json"])
@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing"])
def test_6_a_damaged_checkpoint_is_named_and_the_previous_one_offered(
    tmp_path: Path, pairs: Pairs, file: str, damage: str
) -> None:
    out = tmp_path / "run"

    def cut(event: Event) -> None:
        if event["event"] == "train" and event["step"] == 9:
            raise Cut

    with pytest.raises(Cut):
        run(pairs, out, cut)
    path = out / "checkpoints" / "step-00000006" / file
    content = bytearray(path.read_bytes())
    if damage == "truncated":
        path.write_bytes(content[:-7])
    elif damage == "flipped":
        content[len(content) // 2] ^= 4
        path.write_bytes(content)
    else:
        path.unlink()
    with pytest.raises(UserError, match=r"step-00000006 is damaged.*--step 3"):
        run(pairs, out, resume=True)
    run(pairs, out, resume=True, step=3)
    run(pairs, tmp_path / "whole")
    assert same(weights(out, 12), weights(tmp_path / "whole", 12))


def test_6_a_damaged_checkpoint_is_not_offered_in_place_of_another(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=3)
    for step in (1, 2, 3):
        save_small(checkpoints, step)
    for step in (2, 3):
        (checkpoints.path(step) / "weights.safetensors").write_bytes(b"")
    with pytest.raises(UserError, match=r"step-00000003 is damaged.*--step 1$"):
        checkpoints.load()
    (checkpoints.path(1) / "checkpoint.json").unlink()
    with pytest.raises(UserError, match=r"step-00000003 is damaged.*there is no other"):
        checkpoints.load()


def start(corpus: Path, out: Path, *words: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "regard", "train", str(corpus / "small.toml"), "--out", str(out), *words]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def wait_for(out: Path, step: int, process: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + 120
    while not any(e.get("step", 0) >= step for e in _log(out)):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_7_sigterm_saves_and_exits_with_its_own_code_and_the_run_goes_on_exactly(corpus: Path, tmp_path: Path) -> None:
    words = ["steps=600", "log_every=1", "save_every=1000", "validate_every=50"]
    process = start(corpus, tmp_path / "stopped", *words)
    wait_for(tmp_path / "stopped", 10, process)
    asked = time.monotonic()
    process.send_signal(signal.SIGTERM)
    _, error = process.communicate(timeout=30)
    assert time.monotonic() - asked < 10  # stated: after the current update, within seconds
    assert process.returncode == SAVED
    assert "--resume" in error
    assert "Traceback" not in error
    (step,) = _steps(tmp_path / "stopped")
    assert 10 <= step < 600
    again = start(corpus, tmp_path / "stopped", *words[1:], f"steps={step + 5}", "--resume")
    assert again.wait(60) == 0, again.communicate()
    whole = start(corpus, tmp_path / "whole", *words[1:], f"steps={step + 5}")
    assert whole.wait(60) == 0, whole.communicate()
    assert same(weights(tmp_path / "stopped", step + 5), weights(tmp_path / "whole", step + 5))


def test_7_a_stop_between_scheduled_checkpoints_leaves_the_average_as_it_was(tmp_path: Path, pairs: Pairs) -> None:
    options = {"save_every": 3, "keep": 2, "average": 2, "log_every": 1}

    def stop(event: Event) -> None:
        if event["event"] == "train" and event["step"] == 10:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Stopped):
        run(pairs, tmp_path / "stopped", stop, **options)
    assert (tmp_path / "stopped/checkpoints/stop-00000010").is_dir()
    run(pairs, tmp_path / "stopped", resume=True, **options)
    run(pairs, tmp_path / "whole", **options)
    ours, theirs = (load_file(tmp_path / name / "model/model.safetensors") for name in ("stopped", "whole"))
    assert same(ours, theirs)
    assert _steps(tmp_path / "stopped") == _steps(tmp_path / "whole") == [9, 12]


def test_7_a_signal_in_validation_never_saves_the_average_as_the_weights(
    tmp_path: Path, pairs: Pairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    from regard.tasks.translation import TranslationTask

    real = TranslationTask.evaluate

    def evaluate(task: Any, model: Any) -> Any:
        signal.raise_signal(signal.SIGTERM)
        return real(task, model)

    monkeypatch.setattr(TranslationTask, "evaluate", evaluate)
    with pytest.raises(Stopped):
        run(pairs, tmp_path / "stopped", ema=0.9)
    monkeypatch.undo()
    run(pairs, tmp_path / "stopped", ema=0.9, resume=True)
    run(pairs, tmp_path / "whole", ema=0.9)
    assert same(weights(tmp_path / "stopped", 12), weights(tmp_path / "whole", 12))


def test_going_on_from_a_bundle_survives_a_kill_before_the_first_checkpoint(tmp_path: Path, pairs: Pairs) -> None:
    run(pairs, tmp_path / "parent")

    def cut(event: Event) -> None:
        if event["event"] == "train":
            raise Cut

    options = {"steps": 4, "log_every": 1, "save_every": 4, "validate_every": 4}
    with pytest.raises(Cut):
        run(pairs, tmp_path / "cut", cut, start_from=tmp_path / "parent", **options)
    run(pairs, tmp_path / "cut", resume=True, **options)
    run(pairs, tmp_path / "whole", start_from=tmp_path / "parent", **options)
    assert same(weights(tmp_path / "cut", 4), weights(tmp_path / "whole", 4))


def test_what_an_aborted_start_left_behind_is_not_used(tmp_path: Path, pairs: Pairs) -> None:
    tmp_path.joinpath("run").mkdir()
    (tmp_path / "run/.lock").touch()
    (tmp_path / "run/tokenizer.json").write_text("half a fi")
    (tmp_path / "run/.part-recipe").write_text("half a re")
    run(pairs, tmp_path / "run")
    assert not (tmp_path / "run/.part-recipe").exists()
    assert max(_steps(tmp_path / "run")) == 12


def test_a_run_that_ended_by_its_steps_can_be_made_longer(tmp_path: Path, pairs: Pairs) -> None:
    run(pairs, tmp_path, patience=50)
    run(pairs, tmp_path, patience=50, steps=15, resume=True)
    assert max(_steps(tmp_path)) == 15


@pytest.mark.parametrize(("schedule", "warned"), [("linear", True), ("inverse_sqrt", False)])
def test_other_steps_change_a_schedule_that_ends_with_them(
    tmp_path: Path, pairs: Pairs, schedule: str, warned: bool
) -> None:
    run(pairs, tmp_path, schedule=schedule)
    told: list[Event] = []
    run(pairs, tmp_path, told.append, schedule=schedule, steps=15, resume=True)
    warnings = [e["text"] for e in told if e["event"] == "warning"]
    assert any("the linear schedule" in text for text in warnings) == warned


@pytest.mark.parametrize("phase", ["prepare", "validate", "finish"])
def test_7_a_signal_in_other_phases_loses_nothing(
    tmp_path: Path, pairs: Pairs, phase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from regard.tasks.translation import TranslationTask
    from regard.training import prepare

    fired = False

    def fire(*args: Any, **options: Any) -> Any:
        nonlocal fired
        if not fired:
            fired = True
            signal.raise_signal(signal.SIGTERM)
            pytest.fail("it went on")  # these phases may be long: they are left at once
        return real(*args, **options)

    owner, name = {
        "prepare": (prepare, "training_corpus"),
        "validate": (TranslationTask, "evaluate"),
        "finish": (TranslationTask, "scores"),
    }[phase]
    real = getattr(owner, name)
    monkeypatch.setattr(owner, name, fire)
    with pytest.raises(Stopped):
        run(pairs, tmp_path / "stopped")
    run(pairs, tmp_path / "stopped", resume=True)
    run(pairs, tmp_path / "whole")
    assert same(weights(tmp_path / "stopped", 12), weights(tmp_path / "whole", 12))
    ours, theirs = load_bundle(tmp_path / "stopped"), load_bundle(tmp_path / "whole")
    assert ours.training["finished"] is True
    assert ours.scores == theirs.scores


def test_7_a_signal_in_an_update_waits_for_its_end(
    tmp_path: Path, pairs: Pairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    from regard.training.optim import Optimizer

    real = Optimizer.step

    def step(optimizer: Optimizer, number: int, each: Any) -> float:
        if number == 8:  # a validation, which is left at once, was before it
            signal.raise_signal(signal.SIGTERM)
        return real(optimizer, number, each)

    monkeypatch.setattr(Optimizer, "step", step)
    with pytest.raises(Stopped):
        run(pairs, tmp_path)
    assert max(_steps(tmp_path)) == 8


def test_7_a_signal_before_a_phase_is_seen_at_its_start() -> None:
    stop = Stop()
    with stop.listening():
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(Stopped), stop.interruptible():
            pytest.fail("it went on")


def while_listening(*lines: str) -> tuple[int, str]:
    """The exit code and the output of a process that does these lines while it listens for signals."""
    start = ["import signal, time", "from regard.training.signals import Stop", "with Stop().listening():"]
    code = "\n".join([*start, *(f"    {line}" for line in lines)])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=False)
    return done.returncode, done.stdout


def test_7_a_second_sigterm_does_not_keep_it_from_saving() -> None:
    twice = ["signal.raise_signal(signal.SIGTERM)"] * 2
    assert while_listening(*twice, "print('saved')") == (0, "saved\n")


def test_8_a_second_ctrl_c_is_out_at_once() -> None:
    """The first is taken up only after a long update; the second must not wait for it."""
    ask, wait = "signal.raise_signal(signal.SIGINT)", "time.sleep(60)"
    done = while_listening(ask, "print('first', flush=True)", ask, "print('second', flush=True)", wait)
    assert done == (130, "first\n")


def test_8_the_first_ctrl_c_only_asks() -> None:
    before, stop = signal.getsignal(signal.SIGINT), Stop()
    with stop.listening():
        signal.raise_signal(signal.SIGINT)
        assert stop.requested
    assert signal.getsignal(signal.SIGINT) is before


def nan_loss(total: Tensor) -> Tensor:
    return total * float("nan")


def infinite_loss(total: Tensor) -> Tensor:
    return total + float("inf")  # its gradient is finite


def infinite_gradient(total: Tensor) -> Tensor:
    total.register_hook(lambda gradient: gradient * float("inf"))
    return total


class Poisoned:
    """Makes the loss of some steps NaN, or otherwise useless."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, steps: set[int], poison: Callable[[Tensor], Tensor] = nan_loss
    ) -> None:
        from regard.tasks.translation import TranslationTask

        self.calls = 0
        real = TranslationTask.loss

        def loss(task: Any, model: Any, batch: Any) -> Any:
            self.calls += 1
            found = real(task, model, batch)
            if self.calls in steps:
                return type(found)(poison(found.total), found.count, found.metrics)
            return found

        monkeypatch.setattr(TranslationTask, "loss", loss)


@pytest.mark.parametrize("poison", [nan_loss, infinite_loss, infinite_gradient])
def test_9_an_update_that_is_not_finite_is_skipped_and_counted(
    tmp_path: Path, pairs: Pairs, monkeypatch: pytest.MonkeyPatch, poison: Callable[[Tensor], Tensor]
) -> None:
    poisoned = [2, 3, 4, 6, 7, 8]  # more than the run is given up for, but not in a row
    Poisoned(monkeypatch, set(poisoned), poison)
    run(pairs, tmp_path)
    assert [e["step"] for e in _log(tmp_path) if e["event"] == "skipped"] == poisoned
    assert _progress(tmp_path, 12)["skipped"] == len(poisoned)
    assert all(math.isfinite(e["loss"]) for e in _log(tmp_path) if e["event"] == "train")
    assert all(t.isfinite().all() for t in weights(tmp_path, 12).values())


def test_9_several_nan_losses_in_a_row_stop_the_run(
    tmp_path: Path, pairs: Pairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    Poisoned(monkeypatch, set(range(5, 100)))
    with pytest.raises(UserError, match=r"not finite.*train\.lr"):
        run(pairs, tmp_path, steps=40)
    assert _steps(tmp_path)
    for step in _steps(tmp_path):
        assert all(t.isfinite().all() for t in weights(tmp_path, step).values())


def test_the_best_of_an_abandoned_branch_is_not_the_best(
    tmp_path: Path, pairs: Pairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Back at step 6, the weights of step 9 are still in the model's folder, and those of step 3 are gone."""
    options: dict[str, Any] = {"metric": "loss", "validate_every": 3, "keep": 9, "final": "best"}
    dev_losses(monkeypatch, 5.0, 6.0, 3.0, 4.0)
    assert run(pairs, tmp_path, **options).training["best_step"] == 9
    dev_losses(monkeypatch, 7.0, 8.0)
    told: list[str] = []
    found = run(
        pairs, tmp_path, lambda e: told.append(e["text"]) if e["event"] == "warning" else None,
        resume=True, step=6, force=True, lr=0.001, **options,
    )  # fmt: skip
    assert any("the weights of step 3, is so no longer, or gone" in text for text in told)
    assert found.training["best_step"] == 9
    final = dict(found.model.named_parameters())
    assert all(torch.equal(final[name], weight) for name, weight in weights(tmp_path, 9).items())


def test_a_best_that_comes_again_is_not_lost(tmp_path: Path, pairs: Pairs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed between a validation and the checkpoint after it: what was found will be found again, and logged alike."""
    options: dict[str, Any] = {"metric": "loss", "validate_every": 3, "save_every": 6, "keep": 9, "log_every": 1}
    logs = {}
    for name in ("whole", "cut"):
        dev_losses(monkeypatch, 5.0, 6.0, 3.0, 4.0)
        if name == "cut":
            with pytest.raises(Cut):
                run(pairs, tmp_path / name, cut_at(10), **options)
            dev_losses(monkeypatch, 3.0, 4.0)
        run(pairs, tmp_path / name, resume=name == "cut", **options)
        logs[name] = [_timeless(event) for event in _log(tmp_path / name)]
    assert logs["whole"] == logs["cut"]
    assert _progress(tmp_path / "whole", 12) == _progress(tmp_path / "cut", 12)


def test_what_was_best_on_another_set_or_by_another_score_is_not_the_best(
    corpus: Path, tmp_path: Path, pairs: Pairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    from regard.config import load_recipe

    def go(*changes: str, **how: Any) -> Any:
        return train(load_recipe(corpus / "small.toml", changes), tmp_path / "run", base=corpus, **how)

    dev_losses(monkeypatch, 1.0, 2.0)
    go("metric=loss")
    write_tsv(corpus / "dev.tsv", pairs[210:])
    dev_losses(monkeypatch, 9.0)
    assert go("metric=loss", "steps=15", resume=True, force=True).training["best_step"] == 15
    dev_losses(monkeypatch, 9.5)
    assert go("metric=chrf", "steps=18", resume=True).training["best_step"] == 18


@pytest.mark.parametrize(("final", "best"), [("best", 3), ("last", 15)])
def test_the_best_is_kept_when_a_run_is_made_longer_unless_it_ended_with_others(
    tmp_path: Path, pairs: Pairs, monkeypatch: pytest.MonkeyPatch, final: str, best: int
) -> None:
    options: dict[str, Any] = {"metric": "loss", "validate_every": 3, "keep": 9}
    dev_losses(monkeypatch, 3.0, 5.0, 6.0, 4.0)
    run(pairs, tmp_path, **options, final=final)
    dev_losses(monkeypatch, 7.0)
    found = run(pairs, tmp_path, resume=True, steps=15, **options, final="best")
    assert found.training["best_step"] == best
    assert all(torch.equal(dict(found.model.named_parameters())[n], w) for n, w in weights(tmp_path, best).items())


def test_equal_bleu_is_decided_by_the_loss(tmp_path: Path, pairs: Pairs, monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.tasks.task import Evaluation
    from regard.tasks.translation import TranslationTask

    found = iter([(0.0, 6.0), (0.0, 5.0), (0.0, 5.5), (1.0, 9.0)])

    def evaluate(task: Any, model: Any) -> Evaluation:
        bleu, loss = next(found)
        return Evaluation({"bleu": bleu, "loss": loss})

    monkeypatch.setattr(TranslationTask, "evaluate", evaluate)
    run(pairs, tmp_path, validate_every=3)
    assert [e["best"] for e in _log(tmp_path) if e["event"] == "validate"] == [True, True, False, True]


def test_a_start_that_fails_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no training data"):
        train(make_recipe(small_recipe()), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_9_a_nan_is_never_the_best(tmp_path: Path, pairs: Pairs, monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.tasks.translation import TranslationTask

    values = iter([float("nan"), 3.0, float("nan"), 9.0])
    monkeypatch.setattr(TranslationTask, "dev_loss", lambda task, model: next(values))
    run(pairs, tmp_path, metric="loss", validate_every=3)
    validations = [e for e in _log(tmp_path) if e["event"] == "validate"]
    assert [e["best"] for e in validations] == [False, True, False, False]
    assert [e["loss"] for e in validations] == [None, 3.0, None, 9.0]  # JSON has no NaN


def no_memory_on_a_gpu() -> Any:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def no_memory_in_python() -> Any:
    raise MemoryError


def no_memory_for_a_tensor() -> Any:
    return torch.empty(1 << 46)


@pytest.mark.parametrize("hungry", [no_memory_for_a_tensor, no_memory_on_a_gpu, no_memory_in_python])
def test_10_out_of_memory_gives_advice(
    tmp_path: Path, pairs: Pairs, monkeypatch: pytest.MonkeyPatch, hungry: Callable[[], Any]
) -> None:
    from regard.tasks.translation import TranslationTask

    monkeypatch.setattr(TranslationTask, "loss", lambda task, model, batch: hungry())
    with pytest.raises(UserError, match="batch_tokens=128 accumulate=2"):
        run(pairs, tmp_path)


def test_10_other_errors_are_not_taken_for_it(tmp_path: Path, pairs: Pairs, monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.tasks.translation import TranslationTask

    def broken(task: Any, model: Any, batch: Any) -> Any:
        raise RuntimeError("shapes do not fit")

    monkeypatch.setattr(TranslationTask, "loss", broken)
    with pytest.raises(RuntimeError, match="shapes do not fit"):
        run(pairs, tmp_path)


def test_11_a_second_run_in_the_same_folder_refuses(tmp_path: Path, pairs: Pairs) -> None:
    inside, leave = threading.Event(), threading.Event()

    def hold(event: Event) -> None:
        if event["event"] == "begin":
            inside.set()
            assert leave.wait(60)

    first = threading.Thread(target=lambda: run(pairs, tmp_path, hold))
    first.start()
    assert inside.wait(60)
    before = snapshot(tmp_path)
    try:
        with pytest.raises(UserError, match="another run is writing"):
            run(pairs, tmp_path, resume=True)
        assert snapshot(tmp_path) == before
    finally:
        leave.set()
        first.join()
    assert max(_steps(tmp_path)) == 12


def test_11_a_begun_run_is_not_overwritten(tmp_path: Path, pairs: Pairs) -> None:
    run(pairs, tmp_path)
    before = snapshot(tmp_path)
    with pytest.raises(UserError, match="--resume"):
        run(pairs, tmp_path)
    assert {k: v for k, v in snapshot(tmp_path).items() if "lock" not in k} == {
        k: v for k, v in before.items() if "lock" not in k
    }


@pytest.fixture
def stopped(tmp_path: Path, pairs: Pairs) -> Path:
    def cut(event: Event) -> None:
        if event["event"] == "train" and event["step"] == 6:
            raise Cut

    with pytest.raises(Cut):
        run(pairs, tmp_path / "run", cut)
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"batch_tokens": 128}, r"train\.batch_tokens was 256, now 128"),
        ({"batch_tokens": 4096}, r"train\.batch_tokens was 256, now 4096"),  # no batch has the number it stood at
        ({"accumulate": 2}, r"train\.accumulate was 1, now 2"),
        ({"lr": 0.5}, r"train\.lr was 0\.003, now 0\.5"),
    ],
)
def test_12_changed_settings_are_refused_with_the_difference(
    stopped: Path, pairs: Pairs, change: dict[str, Any], told: str
) -> None:
    before = snapshot(stopped)
    with pytest.raises(UserError, match=told):
        run(pairs, stopped, resume=True, **change)
    assert snapshot(stopped) == before
    run(pairs, stopped, resume=True, force=True, **change)
    assert max(_steps(stopped)) == 12


def test_12_changed_data_is_refused_with_the_file_named(corpus: Path, tmp_path: Path, pairs: Pairs) -> None:
    from regard.config import load_recipe

    recipe = load_recipe(corpus / "small.toml")
    train(recipe, tmp_path / "run", base=corpus)
    longer = load_recipe(corpus / "small.toml", ["steps=15"])
    write_tsv(corpus / "train.tsv", [*pairs[:199], ("something else", "otra cosa")])
    with pytest.raises(UserError, match=r"the data changed.*train\.tsv"):
        train(longer, tmp_path / "run", base=corpus, resume=True)
    train(longer, tmp_path / "run", base=corpus, resume=True, force=True)
    assert max(_steps(tmp_path / "run")) == 15


def test_12_another_dev_set_is_told(corpus: Path, tmp_path: Path, pairs: Pairs) -> None:
    """It says what is best, and what was best on another set is not."""
    from regard.config import load_recipe

    train(load_recipe(corpus / "small.toml"), tmp_path / "run", base=corpus)
    write_tsv(corpus / "dev.tsv", pairs[210:])
    with pytest.raises(UserError, match=r"the dev set changed.*dev\.tsv"):
        train(load_recipe(corpus / "small.toml", ["steps=15"]), tmp_path / "run", base=corpus, resume=True)


def test_12_the_sides_of_the_data_turned_round_are_other_data(tmp_path: Path, pairs: Pairs) -> None:
    """The same two files, but what was the source is the target now."""
    for name, side in (("a", 0), ("b", 1)):
        (tmp_path / f"train.{name}").write_text("".join(pair[side] + "\n" for pair in pairs[:200]), encoding="utf-8")
        (tmp_path / f"dev.{name}").write_text("".join(pair[side] + "\n" for pair in pairs[200:]), encoding="utf-8")

    def go(order: str, **options: Any) -> None:
        tree = small_recipe(steps=options.pop("steps"))
        tree["data"] |= {name: [str(tmp_path / f"{name}.{side}") for side in order] for name in ("train", "dev")}
        train(make_recipe(tree), tmp_path / "run", **options)

    go("ab", steps=3)
    first = TokenCache.open(tmp_path / "run" / "tokens")
    source = [first.pair(i)[0].tolist() for i in range(3)]
    go("ba", steps=6, resume=True, force=True)
    again = TokenCache.open(tmp_path / "run" / "tokens")
    assert [again.pair(i)[1].tolist() for i in range(3)] == source


def test_12_what_does_not_fit_is_told_where_it_is_forced(tmp_path: Path, pairs: Pairs) -> None:
    """A head of another shape; and parts that are frozen by now need no memory of their optimizer."""
    rows = "".join(f"{source}\t{len(source) % 2}\n" for source, _ in pairs)
    (tmp_path / "train.tsv").write_text(rows)

    def go(head: dict[str, Any], **settings: Any) -> None:
        model = {"name": "bert", "d_model": 16, "d_ff": 32, "heads": 2, "layers": 1}
        base = small_recipe(**{"optimizer": "adamw", "batch": 16} | settings)
        data = {name: [str(tmp_path / "train.tsv")] for name in ("train", "dev")}
        tree = {"task": "classification", "model": model, "head": head, "data": data, "train": base["train"]}
        tree |= {"tokenizer": base["tokenizer"]}
        train(make_recipe(tree), tmp_path / "run", resume=True, force=True)

    go({"pooling": "mean"}, steps=3)
    before = snapshot(tmp_path / "run")
    with pytest.raises(UserError, match=r"the weights of step 3 are another model's \(pooler"):
        go({"pooling": "first"}, steps=6)
    assert snapshot(tmp_path / "run") == before
    go({"pooling": "mean"}, steps=6, freeze=2)
    first, then = (weights(tmp_path / "run", step) for step in (3, 6))
    assert torch.equal(first["body.tokens.weight"], then["body.tokens.weight"])
    assert not torch.equal(first["out.weight"], then["out.weight"])
    go({"pooling": "mean"}, steps=9, freeze=2, batch=5)  # other batches: the epoch begins again
    assert _log(tmp_path / "run")[-1]["step"] == 9


# Another value for everything that an update depends on.
OTHERS: dict[str, dict[str, Any]] = {
    "train": {"batch_tokens": 128, "accumulate": 2, "optimizer": "muon", "lr": 0.5, "matrix_lr": 0.5, "warmup": 3}
    | {"schedule": "linear", "betas": [0.8, 0.9], "eps": 0.1, "weight_decay": 0.5, "label_smoothing": 0.3}
    | {"clip": 9.0, "ema": 0.5, "precision": "bfloat16", "parts": 2, "split": 0.1}
    | {"batch": 2, "vector_share": 0.5, "layer_decay": 0.5, "freeze": 1, "max_norm": 3.0},
    "data": {"max_length": 9, "max_chars": 99, "skip_bad": True, "keys": ["a", "b"], "source": "de", "target": "fr"}
    | {"text": ["a"], "label": "b", "labels": "several"},
    "head": {"pooling": "mean", "drop": 0.5, "next_sentence": True},
    "tokenizer": {"kind": "char", "size": 290, "pairs": 9, "shared": False},
    "model": {"d_ff": 64, "dropout": 0.2},
}
UNFIT = ["train.optimizer", "tokenizer.shared", "model.d_ff", "model.dropout"]  # no force would help


def test_12_everything_that_an_update_depends_on_is_refused(tmp_path: Path, pairs: Pairs) -> None:
    def go(change: dict[str, Any], count: int = 200, **options: Any) -> None:
        tree = small_recipe(optimizer="adamw") | {"tokenizer": {"kind": "bpe", "size": 300}}
        for section, value in change.items():
            tree[section] = tree.get(section, {}) | value if isinstance(value, dict) else value
        train(make_recipe(tree), tmp_path, pairs=pairs[:count], dev=pairs[200:], resume=True, **options)

    with pytest.raises(Cut):
        go({}, callbacks=[cut_at(6)])
    before = snapshot(tmp_path)
    for section, changes in OTHERS.items():
        for key, value in changes.items():
            unfit = f"{section}.{key}" in UNFIT
            with pytest.raises(UserError, match="another optimizer or model" if unfit else rf"{section}\.{key} was "):
                go({section: {key: value}}, force=unfit)
    with pytest.raises(UserError, match="seed was 1, now 2"):
        go({"seed": 2})
    with pytest.raises(UserError, match="the data changed: memory"):
        go({}, count=199)
    assert snapshot(tmp_path) == before


def test_12_every_setting_of_training_is_either_refused_or_free() -> None:
    elsewhere = {"class_weights", "rdrop"}  # a translator has no classes
    assert OTHERS["train"].keys() | FREE | elsewhere == TrainConfig.model_fields.keys()


def test_12_settings_that_change_no_update_may_differ(tmp_path: Path, stopped: Path, pairs: Pairs) -> None:
    run(pairs, tmp_path / "whole")
    free = {"log_every": 2, "validate_every": 4, "save_every": 2, "keep": 4, "average": 1, "final": "last", "steps": 14}
    free |= {"metric": "loss", "patience": 9, "validation_pairs": 2, "samples": 0, "threads": 0, "device": "cpu"}
    assert free.keys() == FREE
    run(pairs, stopped, resume=True, **free)
    assert max(_steps(stopped)) == 14
    assert same(weights(stopped, 12), weights(tmp_path / "whole", 12))


@pytest.mark.slow
def test_twenty_kills_at_random_give_the_same_weights(corpus: Path, tmp_path: Path) -> None:
    words = [
        "steps=1000",
        "train.parts=2",
        "train.threads=2",
        "save_every=7",
        "log_every=10",
        "validate_every=200",
        "--quiet",
    ]
    whole = start(corpus, tmp_path / "whole", *words)
    assert whole.wait(300) == 0, whole.communicate()
    draw = random.Random(0)
    kills = 0
    while kills < 20:
        process = start(corpus, tmp_path / "killed", *words, "--resume")
        try:
            process.wait(draw.uniform(1.5, 4.0))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
            continue
        break
    process = start(corpus, tmp_path / "killed", *words, "--resume")
    assert process.wait(300) == 0, process.communicate()
    assert kills == 20
    assert same(weights(tmp_path / "whole", 1000), weights(tmp_path / "killed", 1000))
    ours = load_file(tmp_path / "killed/model/model.safetensors")
    assert same(ours, load_file(tmp_path / "whole/model/model.safetensors"))


def _steps(out: Path) -> list[int]:
    return sorted(int(p.name[5:]) for p in (out / "checkpoints").glob("st*p-*"))


def _progress(out: Path, step: int) -> dict[str, Any]:
    state = json.loads((out / f"checkpoints/step-{step:08d}/checkpoint.json").read_text())["state"]
    return {key: value for key, value in state["progress"].items() if key != "seconds"}


def _log(out: Path) -> list[Event]:
    path = out / "log.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = []
    for line in lines:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def _timeless(event: Event) -> Event:
    return {k: v for k, v in event.items() if k not in ("seconds", "tokens_per_second", "eta")}
