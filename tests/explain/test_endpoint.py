"""An HTTP endpoint as a black box: what is sent, what is taken, and whom it will not call."""

import base64
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from regard.cli import app
from regard.errors import UserError
from regard.explain import Endpoint, endpoint, text

Reply = tuple[int, dict[str, str], bytes]


class Server:
    """Answers as a test says, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.reply: Callable[[Any], Reply] = lambda body: self.json({"scores": [len(t) for t in body["inputs"]]})
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                outer.headers.append(dict(self.headers))
                status, headers, body = outer.reply(outer.asked[-1])
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.http = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/score?x=1"
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @staticmethod
    def json(data: Any, status: int = 200, **headers: str) -> Reply:
        return status, headers, json.dumps(data).encode()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.http.shutdown()
    made.http.server_close()


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waits: list[float] = []
    monkeypatch.setattr(endpoint.time, "sleep", waits.append)
    return waits


def test_a_whole_batch_in_one_request(server: Server) -> None:
    called = Endpoint(server.url, path="scores", headers={"Authorization": "Bearer key"})
    np.testing.assert_array_equal(called(["a", "bcd"]), [1, 3])
    assert server.asked == [{"inputs": ["a", "bcd"]}]
    assert server.headers[0]["Authorization"] == "Bearer key"


def test_one_request_for_each_text(server: Server) -> None:
    server.reply = lambda body: server.json([{"label": "x", "score": len(body["q"][0]["text"])}])
    called = Endpoint(server.url, {"q": [{"text": "$input"}], "n": 1}, "0.score")
    np.testing.assert_array_equal(called(['"}]', "$inputs"]), [3, 7])
    assert server.asked[0] == {"q": [{"text": '"}]'}], "n": 1}  # a text is a text, whatever it holds


def test_a_star_takes_every_entry(server: Server) -> None:
    server.reply = lambda body: server.json({"data": [{"p": [len(t), 1]} for t in body["inputs"]]})
    np.testing.assert_array_equal(Endpoint(server.url, path="data.*.p")(["a", "bc"]), [[1, 1], [2, 1]])


def test_images_are_sent_as_png(server: Server) -> None:
    server.reply = lambda body: server.json([1.0] * len(body["inputs"]))
    Endpoint(server.url)(np.zeros((2, 4, 5, 3), dtype=np.uint8))
    assert base64.b64decode(server.asked[0]["inputs"][1]).startswith(b"\x89PNG")
    Endpoint(server.url)(np.zeros((1, 4, 5), dtype=np.uint8))
    with pytest.raises(UserError, match="images of bytes"):
        Endpoint(server.url)(np.zeros((2, 4, 5, 3)))


def test_it_explains(server: Server) -> None:
    server.reply = lambda body: server.json({"scores": [float("good" in t) for t in body["inputs"]]})
    found = text(Endpoint(server.url, path="scores"), "a good film", masks=64)
    assert found.top(0, 1)[0][0] == "good"


def test_the_command_asks_as_it_is_told(server: Server) -> None:
    server.reply = lambda body: server.json({"results": [{"score": float("good" in t)} for t in body["texts"]]})
    told = ["--request", '{"texts": "$inputs"}', "--answer", "results.*.score", "--header", "X-Key: a: b"]
    done = CliRunner().invoke(app, ["explain", "a good film", "--endpoint", server.url, "--masks", "40", *told])
    assert done.exit_code == 0, done.output
    assert re.search(r"good +\+[01]\.\d\d", done.output)
    assert server.headers[0]["X-Key"] == "a: b"
    assert len(server.asked) <= 8  # batches, of masks that were not asked before


@pytest.mark.parametrize(
    ("after", "waited"),
    [("3", 3.0), ("100000", 60.0), ("-1", 1.0), ("soon", 1.0), (None, 1.0), ("Mon, 01 Jan 2001 00:00:00 GMT", 0.0)],
)
def test_a_busy_server_is_asked_again(server: Server, slept: list[float], after: str | None, waited: float) -> None:
    replies = iter([server.json({}, 503, **({} if after is None else {"Retry-After": after})), server.json([5])])
    server.reply = lambda body: next(replies)
    np.testing.assert_array_equal(Endpoint(server.url)(["a"]), [5])
    assert slept == [pytest.approx(waited)]


def test_a_date_to_come_back_at(server: Server, slept: list[float]) -> None:
    at = format_datetime(datetime.now(UTC) + timedelta(seconds=20), usegmt=True)
    replies = iter([server.json({}, 429, **{"Retry-After": at}), server.json([5])])
    server.reply = lambda body: next(replies)
    Endpoint(server.url)(["a"])
    assert 15 < slept[0] <= 20


def test_it_gives_up_on_a_server_that_stays_busy(server: Server, slept: list[float]) -> None:
    server.reply = lambda body: server.json({"error": "full"}, 429)
    with pytest.raises(UserError, match="answered 429"):
        Endpoint(server.url)(["a"])
    assert len(server.asked) == endpoint.TRIES
    assert slept == [1, 2, 4, 8, 8]


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ((307, {"Location": "http://example.com/"}, b""), "sends us on to 'http://example.com/'"),
        ((500, {}, b"broken \xff"), "answered 500: broken"),
        ((200, {}, b"<html>"), "not answer in JSON"),
        ((200, {}, b"[" * 100_000), "not answer in JSON"),
        ((200, {}, b'{"other": 1}'), "no 'scores'"),
        ((200, {}, b'{"scores": ["high"]}'), "is no scores"),
        ((200, {}, b'{"scores": [[1], [2, 3]]}'), "is no scores"),
    ],
)
def test_a_wrong_answer_is_told(server: Server, reply: Reply, said: str) -> None:
    server.reply = lambda body: reply
    with pytest.raises(UserError, match=said):
        Endpoint(server.url, path="scores")(["a"])
    assert len(server.asked) == 1


def test_an_answer_without_end_is_cut(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "LARGEST", 2**20)
    server.reply = lambda body: (200, {}, b"1" * (2**20 + 1))
    with pytest.raises(UserError, match="more than 1 MB"):
        Endpoint(server.url)(["a"])


def test_a_server_that_says_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with pytest.raises(UserError, match=r"within 0\.05 seconds"):
            Endpoint(f"http://127.0.0.1:{silent.getsockname()[1]}/", timeout=0.05)(["a"])
        closed = silent.getsockname()[1]
    with pytest.raises(UserError, match="is the server running"):
        Endpoint(f"http://127.0.0.1:{closed}/")(["a"])


def test_a_server_that_drips_has_a_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as slow:
        stop = threading.Event()

        def drip() -> None:
            caller, _ = slow.accept()
            with caller:
                caller.recv(65536)
                caller.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                while not stop.wait(0.02):
                    try:
                        caller.sendall(b"1")
                    except OSError:
                        return

        threading.Thread(target=drip, daemon=True).start()
        with pytest.raises(UserError, match="did not answer within"):
            Endpoint(f"http://127.0.0.1:{slow.getsockname()[1]}/", timeout=0.2)(["a"])
        stop.set()


@pytest.mark.parametrize("host", ["192.0.2.1", "[2001:db8::1]", "0.0.0.0", "mine.example"])
def test_other_machines_are_not_called_unless_allowed(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.getaddrinfo

    def known(name: str, port: int, **how: Any) -> Any:
        # A name with one address here and one elsewhere, as a rebinding name server would give it.
        names = ["127.0.0.1", "192.0.2.7"] if name == "mine.example" else [name]
        return [found for each in names for found in real(each, port, **how)]

    monkeypatch.setattr(socket, "getaddrinfo", known)
    with pytest.raises(UserError, match=r"another machine.*--allow-remote"):
        Endpoint(f"http://{host}:1/")
    assert Endpoint(f"http://{host}:1/", allow_remote=True).host in host


def test_what_was_checked_is_what_is_called(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.getaddrinfo
    asked: list[str] = []

    def known(name: str, *more: Any, **how: Any) -> Any:
        asked.append(name)
        names = ["::1", "127.0.0.1"] if name == "mine.example" else [name]  # nobody listens at the first
        return [found for each in names for found in real(each, *more, **how)]

    monkeypatch.setattr(socket, "getaddrinfo", known)
    called = Endpoint(server.url.replace("127.0.0.1", "mine.example"), path="scores")
    np.testing.assert_array_equal(called(["abc"]), [3])
    assert asked.count("mine.example") == 1
    assert server.headers[0]["Host"].startswith("mine.example")


def test_a_header_that_cannot_be(server: Server) -> None:
    with pytest.raises(UserError, match="header"):
        Endpoint(server.url, headers={"X-Key": "a\nb"})(["a"])


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://127.0.0.1/", "not the address"),
        ("file:///etc/passwd", "not the address"),
        ("http://", "not the address"),
        ("http://127.0.0.1:99999/", "not the address"),
        ("127.0.0.1:8000", "not the address"),
        ("http://user:secret@127.0.0.1/", "give it as a header"),
        ("http://nowhere.invalid/", "is not known"),
    ],
)
def test_wrong_addresses(url: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(UserError, match=said) as told:
        Endpoint(url)
    assert "secret" not in str(told.value)


def test_a_template_without_a_place() -> None:
    with pytest.raises(UserError, match="no place for the input"):
        Endpoint("http://127.0.0.1:1/", {"text": "fixed"})
