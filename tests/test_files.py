"""Files and folders are whole or not there, whenever the disk fills up or the process dies."""

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors import SafetensorError

from regard import bundle, files
from regard.errors import UserError
from regard.files import sweep, whole_folder, write_text
from regard.training.run import Run


def full(*args: Any, **options: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def dead(*args: Any, **options: Any) -> None:
    os._exit(9)


def dies(work: Any) -> bool:
    """Runs it in a process of its own, which must get as far as dying."""
    pid = os.fork()
    if pid == 0:
        work()
        os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9


def test_a_full_disk_leaves_the_old_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_text(tmp_path / "a", "old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="disk is full"):
        write_text(tmp_path / "a", "new")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a", "old")]


def test_a_link_stays_a_link_and_a_pipe_a_pipe(tmp_path: Path) -> None:
    write_text(tmp_path / "a", "old")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a").read_text() == "new"
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_text(tmp_path / "pipe", "told")
    assert os.read(reader, 99) == b"told"
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo()


def test_who_may_read_is_the_users_to_say(tmp_path: Path) -> None:
    """The umask, and of a file that is there its own mode."""
    before = os.umask(0o077)
    try:
        write_text(tmp_path / "a", "secret")
        with whole_folder(tmp_path / "folder") as part:
            (part / "b").write_text("secret")
    finally:
        os.umask(before)
    (tmp_path / "c").write_text("old")
    (tmp_path / "c").chmod(0o640)
    write_text(tmp_path / "c", "new")
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("a", "folder", "folder/b", "c")]
    assert modes == [0o600, 0o700, 0o600, 0o640]


def test_an_old_folder_whose_place_is_empty_goes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where two folders cannot be swapped in one step, a kill may come between two."""

    def fill(text: str) -> None:
        with whole_folder(tmp_path / "a") as part:
            (part / "b").write_text(text)

    fill("old")
    monkeypatch.setattr(files.ctypes, "CDLL", lambda *_, **__: object())  # no renameat2
    rename, calls = Path.rename, []

    def dying(path: Path, target: Path) -> Path:
        calls.append(path)
        if len(calls) == 2:
            os._exit(9)
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", dying)
    assert dies(lambda: fill("new"))
    monkeypatch.setattr(Path, "rename", rename)
    assert not (tmp_path / "a").exists()
    sweep(tmp_path)
    assert [(p.name, (p / "b").read_text()) for p in tmp_path.iterdir()] == [("a", "old")]


def test_a_kill_leaves_the_old_text_and_what_it_left_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_text(tmp_path / "a", "old")
    monkeypatch.setattr(os, "fsync", dead)
    assert dies(lambda: write_text(tmp_path / "a", "new"))
    assert (tmp_path / "a").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 2
    sweep(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("instant", ["before", "after"])
def test_a_folder_that_is_replaced_is_there_at_every_instant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instant: str
) -> None:
    """The old one goes only when the new one stands in its place."""

    def fill(text: str) -> None:
        with whole_folder(tmp_path / "a") as part:
            (part / "file").write_text(text)

    fill("old")
    if instant == "before":
        monkeypatch.setattr(files, "_exchange", dead)
    else:
        monkeypatch.setattr(shutil, "rmtree", dead)  # the first thing removed is what was replaced
    assert dies(lambda: fill("new"))
    assert (tmp_path / "a/file").read_text() == {"before": "old", "after": "new"}[instant]


def test_safetensors_tells_of_a_full_disk_as_everything_else_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save_file(*args: Any, **options: Any) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(bundle, "save_file", save_file)
    with pytest.raises(UserError, match="disk is full"), whole_folder(tmp_path / "a") as part:
        bundle.save_tensors({}, part / "weights.safetensors")


def test_a_log_on_a_full_disk_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(tmp_path)
    monkeypatch.setattr("regard.training.run.json.dumps", full)  # stands for the write that fails
    with pytest.raises(UserError, match="disk is full"), run.locked():
        run.log({"event": "train"})


def test_a_log_line_cut_off_by_a_kill_is_passed_over(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.log_path.write_text('{"event": "train", "step": 1}\n{"event": "tra')
    run.forget_after(1)
    assert run.events() == [{"event": "train", "step": 1}]
