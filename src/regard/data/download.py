"""Fetching a public file over https and unpacking it, with limits on size and no trust in names inside archives."""

import gzip
import hashlib
import http.client
import shutil
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from regard.errors import UserError

LIMIT = 1 << 28  # bytes of one file, packed or unpacked; far above what any set here needs
CHUNK = 1 << 16
TIMEOUT = 30.0  # seconds without a byte

Progress = Callable[[str, int, int | None], None]  # url, bytes so far, bytes in all if known
Unpack = Callable[[Path, Path], list[Path]]  # a downloaded file into a folder: the data files made of it


def download(url: str, path: Path, progress: Progress | None = None) -> None:
    """Write what is at `url` to `path`; whatever goes wrong on the way is a UserError."""
    if not _allowed(url):
        raise UserError(f"{url} is not https; nothing was downloaded")
    request = urllib.request.Request(url, headers={"User-Agent": "regard"})  # one host refuses Python's own name
    opener = urllib.request.build_opener(_SafeRedirects)
    try:
        with opener.open(request, timeout=TIMEOUT) as response, path.open("wb") as file:
            length = response.headers.get("Content-Length", "")
            total = int(length) if length.isdecimal() else None
            size = _copy(response, file, url, lambda done: progress(url, done, total) if progress else None)
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        raise UserError(f"cannot download {url} ({getattr(error, 'reason', None) or error})") from None
    if total is not None and size != total:
        raise UserError(f"cannot download {url} (the connection ended after {size:,} of {total:,} bytes)")


def _allowed(url: str) -> bool:
    return urlsplit(url).scheme == "https"


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if not _allowed(newurl):
            raise UserError(f"{req.full_url} leads to {newurl}, which is not https; nothing was downloaded")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _copy(
    source: IO[bytes] | gzip.GzipFile, target: IO[bytes], what: str, report: Callable[[int], None] = lambda done: None
) -> int:
    size = 0
    while chunk := source.read(CHUNK):
        size += len(chunk)
        if size > LIMIT:
            raise UserError(f"{what}: more than {LIMIT:,} bytes; this is not the file that was expected")
        target.write(chunk)
        report(size)
    return size


def plain(name: str) -> Unpack:
    def unpack(packed: Path, folder: Path) -> list[Path]:
        return [Path(shutil.copyfile(packed, folder / name))]

    return unpack


def gzipped(name: str) -> Unpack:
    def unpack(packed: Path, folder: Path) -> list[Path]:
        with gzip.open(packed) as source, (folder / name).open("wb") as target:
            _copy(source, target, name)
        return [folder / name]

    return unpack


def anki(member: str, pair: str) -> Unpack:
    """An Anki export (source, target, attribution) into a training and a development file.

    The export has many translations of one sentence in a row; which file a line goes to depends on its source alone,
    so that no source is in both. About one in forty goes to the development file.
    """

    def unpack(packed: Path, folder: Path) -> list[Path]:
        train, dev = folder / f"train.{pair}.tsv", folder / f"dev.{pair}.tsv"
        # The member is read by its name and never extracted: no name inside the archive becomes a path.
        with zipfile.ZipFile(packed) as archive:
            if archive.getinfo(member).file_size > LIMIT:  # zipfile reads no further than this declared size
                raise UserError(f"{member}: more than {LIMIT:,} bytes; this is not the file that was expected")
            with archive.open(member) as lines, train.open("wb") as first, dev.open("wb") as second:
                for line in lines:
                    digest = hashlib.sha256(line.split(b"\t", 1)[0]).digest()
                    (second if digest[0] % 40 == 0 else first).write(line)
        return [train, dev]

    return unpack
