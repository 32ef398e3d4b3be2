"""Known sets come from $REGARD_DATA or over a (loopback) network, whole and checked, or not at all."""

import gzip
import hashlib
import io
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from regard.data import download, sets
from regard.data.formats import read_pairs
from regard.data.sets import KNOWN, KnownSet, Remote, get, resolve
from regard.errors import UserError

TEXT = "Go.\tVe.\tCC-BY 1\n" + "".join(f"Word {i}.\tPalabra {i}.\tCC-BY\n" for i in range(400))


def zipped(members: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return buffer.getvalue()


class Handler(BaseHTTPRequestHandler):
    files: dict[str, bytes] = {}  # noqa: RUF012

    def do_GET(self) -> None:
        content = self.files.get(self.path)
        if self.path == "/away":
            self.send_response(302)
            self.send_header("Location", "http://example.invalid/x")
            self.end_headers()
            return
        self.send_response(404 if content is None else 200)
        body = content or b""
        self.send_header("Content-Length", str(len(body) + (100 if self.path == "/cut" else 0)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    monkeypatch.delenv("REGARD_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(
        download, "_allowed", lambda url: urlsplit(url).scheme == "https" or urlsplit(url).hostname == "127.0.0.1"
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def known(monkeypatch: pytest.MonkeyPatch, *remotes: Remote) -> None:
    monkeypatch.setitem(KNOWN, "toy", KnownSet("a toy", "free", "nobody", remotes))


def test_a_download_is_unpacked_kept_and_verified(monkeypatch: pytest.MonkeyPatch, web: str, tmp_path: Path) -> None:
    Handler.files = {"/a.gz": gzip.compress(b"hello\n"), "/b": b"hallo\n"}
    sha = hashlib.sha256(b"hello\n").hexdigest()
    remotes = (Remote(f"{web}/a.gz", download.gzipped("a"), {"a": sha}), Remote(f"{web}/b", download.plain("b")))
    known(monkeypatch, *remotes)
    seen: list[tuple[str, int, int | None]] = []
    found = get("toy", progress=lambda *step: seen.append(step))
    assert found.folder == tmp_path / "xdg" / "regard" / "data" / "toy"
    assert [(path.name, path.read_bytes()) for path in found.paths] == [("a", b"hello\n"), ("b", b"hallo\n")]
    assert seen[-1] == (f"{web}/b", 6, 6)
    Handler.files = {}
    assert get("toy") == found, "the second time needs no network"
    (found.folder / "b").write_bytes(b"changed")
    with pytest.raises(UserError, match=r"b: the file was changed since it was downloaded"):
        get("toy")
    (found.folder / "SOURCE.json").write_text("{")
    with pytest.raises(UserError, match=r"SOURCE\.json is missing or damaged"):
        get("toy")


def test_another_content_is_refused(monkeypatch: pytest.MonkeyPatch, web: str, tmp_path: Path) -> None:
    Handler.files = {"/a.gz": gzip.compress(b"evil\n")}
    known(monkeypatch, Remote(f"{web}/a.gz", download.gzipped("a"), {"a": "0" * 64}))
    with pytest.raises(UserError, match="instead of 0000"):
        get("toy", root=tmp_path / "root")
    assert list((tmp_path / "root").iterdir()) == []


def test_an_anki_export_becomes_two_files_without_shared_sources(
    monkeypatch: pytest.MonkeyPatch, web: str, tmp_path: Path
) -> None:
    Handler.files = {"/z.zip": zipped({"../../evil.txt": "x", "/etc/evil": "x", "spa.txt": TEXT + TEXT})}
    known(monkeypatch, Remote(f"{web}/z.zip", download.anki("spa.txt", "en-es")))
    found = get("toy", root=tmp_path / "deep" / "root")
    assert [path.name for path in found.paths] == ["dev.en-es.tsv", "train.en-es.tsv"]
    assert not list(tmp_path.rglob("*evil*")), "names inside an archive must not become paths"
    dev, train = ([pair.source for pair in read_pairs([path])] for path in found.paths)
    assert len(dev) + len(train) == 802
    assert 0 < len(dev) < 80
    assert not set(dev) & set(train)


@pytest.mark.parametrize(
    ("path", "content", "says"),
    [
        ("/absent", None, "cannot download .*Not Found.*set REGARD_DATA"),
        ("/cut", b"abc", "cannot download .*ended after 3 of 103|IncompleteRead"),
        ("/away", None, "not https"),
        ("/not.zip", b"hello", "not the file that was expected"),
        ("/other.zip", zipped({"other.txt": "x"}), "not the file that was expected"),
        ("/huge", b"x" * 2000, "more than 1,000 bytes"),
        ("/bomb.zip", zipped({"spa.txt": "x" * 2000}), "more than 1,000 bytes"),
    ],
)
def test_what_goes_wrong_on_the_way(
    monkeypatch: pytest.MonkeyPatch, web: str, tmp_path: Path, path: str, content: bytes | None, says: str
) -> None:
    monkeypatch.setattr(download, "LIMIT", 1000)
    Handler.files = {} if content is None else {path: content}
    known(monkeypatch, Remote(web + path, download.anki("spa.txt", "en-es")))
    with pytest.raises(UserError, match=says):
        get("toy", root=tmp_path / "root")
    assert list((tmp_path / "root").iterdir()) == []


def test_no_network_says_what_to_do(monkeypatch: pytest.MonkeyPatch, web: str) -> None:
    known(monkeypatch, Remote("http://127.0.0.1:9/x", download.plain("x")))  # nobody listens there
    with pytest.raises(UserError, match="folder called toy and set REGARD_DATA to the folder above it") as caught:
        get("toy")
    assert "\n" not in str(caught.value)


def test_only_https() -> None:
    for url in ("http://127.0.0.1/x", "file:///etc/passwd", "ftp://example.org/x"):
        with pytest.raises(UserError, match="not https"):
            download.download(url, Path("/nonexistent/x"))
    assert all(remote.url.startswith("https://") for found in KNOWN.values() for remote in found.remotes)


def test_files_in_place_are_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "multi30k").mkdir()
    (tmp_path / "multi30k" / "train.en").write_text("hello\n")
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    assert get("multi30k").paths == (tmp_path / "multi30k" / "train.en",)


def test_unknown_names_get_the_nearest() -> None:
    with pytest.raises(UserError, match=r"known are multi30k, tatoeba.*did you mean multi30k\?"):
        get("Multi30")


def test_multi30k_names_all_its_files() -> None:
    assert len(KNOWN["multi30k"].remotes) == 12
    urls = [remote.url for remote in KNOWN["multi30k"].remotes]
    assert any(url.endswith("/raw/train.en.gz") for url in urls)
    assert any(url.endswith("/tok/val.lc.norm.tok.de") for url in urls)


def test_paths_in_recipes_are_found_in_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here, recipe, data, cached = (tmp_path / name for name in ("here", "recipe", "data", "xdg/regard/data"))
    for place in (here, recipe, data, cached):
        (place / "toy").mkdir(parents=True)
    monkeypatch.chdir(here)
    monkeypatch.setenv("REGARD_DATA", str(data))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    with pytest.raises(UserError) as caught:
        resolve("toy/x.en", folder=recipe)
    for place in (here, recipe, data, cached):
        assert str(place / "toy" / "x.en") in str(caught.value)
    for place in (cached, data, here, recipe):
        (place / "toy" / "x.en").write_text("x")
        assert resolve("toy/x.en", folder=recipe) == place / "toy" / "x.en"
    assert resolve(str(data / "toy" / "x.en")) == data / "toy" / "x.en"
    with pytest.raises(UserError, match="regard data get multi30k"):
        resolve("multi30k/train.en", folder=recipe)


def test_sets_have_their_facts() -> None:
    assert all(found.licence and found.citation and found.help for found in sets.KNOWN.values())
