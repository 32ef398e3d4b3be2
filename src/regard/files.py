"""Files and folders that are either whole or not there: atomic writing and checksums."""

import ctypes
import errno
import hashlib
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.errors import UserError

TEMPORARY = ".part-"  # prefix of folders being written; a killed process may leave one behind
ASIDE = "-old"  # ends the name of one that is being replaced
_AT_FDCWD, _EXCHANGE = -100, 2


def cache_folder(name: str) -> Path:
    """Where what can be made or fetched again is kept."""
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "regard" / name
    except RuntimeError:  # a user without a home
        return Path(tempfile.gettempdir()) / f"regard-{os.getuid()}" / name


def checksum(path: Path) -> str:
    """SHA-256 of a file, read in pieces."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None


def write_text(path: Path, text: str) -> None:
    """Replaces a file in one step: readers see the old text or the new. A device or a pipe is written to."""
    with disk_errors(path):
        there = path.exists()
        if there and not path.is_file() and not path.is_dir():
            path.write_text(text, encoding="utf-8", newline="\n")
            return
        path = path.resolve()  # what a link points to, not the link
        part = _fresh_name(path)
        try:
            with part.open("x", encoding="utf-8", newline="\n") as file:
                if there:
                    part.chmod(stat.S_IMODE(path.stat().st_mode))
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


def _fresh_name(path: Path) -> Path:
    """Beside a path, for what will take its place."""
    return path.with_name(f"{TEMPORARY}{secrets.token_hex(8)}")


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Yields an empty folder to fill; on success it takes the place of `path` in one step, else it is removed."""
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = _fresh_name(path)
        part.mkdir()
        try:
            yield part
            for file in part.rglob("*"):
                if file.is_file():
                    _sync(file)
            _sync(part)
            if path.exists():
                _exchange(part, path)
            else:
                part.rename(path)
            _sync(path.parent)
        finally:
            shutil.rmtree(part, ignore_errors=True)


def sweep(folder: Path) -> None:
    """Removes what killed processes left half-written in a folder; an old one whose place is empty goes back."""
    for left in folder.glob(f"{TEMPORARY}*{ASIDE}"):
        old = folder / left.name.removeprefix(TEMPORARY).removesuffix(ASIDE)
        if not old.exists():
            left.rename(old)
    for left in folder.glob(f"{TEMPORARY}*"):
        shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _exchange(new: Path, old: Path) -> None:
    """Swaps two folders; in one step where the system can (Linux), else in two."""
    try:
        swap = ctypes.CDLL(None, use_errno=True).renameat2
        if swap(_AT_FDCWD, os.fsencode(new), _AT_FDCWD, os.fsencode(old), _EXCHANGE) == 0:
            return
    except (AttributeError, OSError, TypeError):
        pass
    aside = old.with_name(f"{TEMPORARY}{old.name}{ASIDE}")
    shutil.rmtree(aside, ignore_errors=True)
    old.rename(aside)
    new.rename(old)
    aside.rename(new)


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """What goes wrong with the disk inside is told in one line."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UserError(f"the disk is full: {path} was not written, and what stood there is intact") from error
        if error.errno in (errno.EACCES, errno.EROFS, errno.EPERM, errno.ENOTDIR, errno.ENOENT, errno.EISDIR):
            raise UserError(f"cannot write {path}: {os.strerror(error.errno)}") from error
        raise
