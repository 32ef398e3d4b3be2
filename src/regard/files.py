"""Files and folders that are either whole or not there: atomic writing and checksums."""

import ctypes
import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.errors import UserError

TEMPORARY = ".part-"  # prefix of folders being written; a killed process may leave one behind
_AT_FDCWD, _EXCHANGE = -100, 2


def cache_folder(name: str) -> Path:
    """Where what can be made or fetched again is kept."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "regard" / name


def checksum(path: Path) -> str:
    """SHA-256 of a file, read in pieces."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None


def write_text(path: Path, text: str) -> None:
    """Replaces a file in one step: readers see the old text or the new."""
    with disk_errors(path):
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=TEMPORARY)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Yields an empty folder to fill; on success it takes the place of `path` in one step, else it is removed."""
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(dir=path.parent, prefix=TEMPORARY))
        try:
            yield part
            part.chmod(0o755)
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
    """Removes what killed processes left half-written in a folder."""
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
    aside = old.with_name(f"{TEMPORARY}{old.name}-old")
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
