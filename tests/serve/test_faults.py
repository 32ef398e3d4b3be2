"""What a server must survive: malformed requests, bodies without end, more than it can take, clients that leave."""

import asyncio
import json
import select
import socket
import threading
import urllib.request
from http.client import HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from fastapi.testclient import TestClient
from serve.servers import Held, Start, listening, until

from regard.api import Model
from regard.serve.body import Body
from regard.serve.models import Models

PLAIN = {"q": "the man eats the bread", "source": "en", "target": "es"}
JSON = {"content-type": "application/json"}


def only_error(answer: Any, status: int) -> str:
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"
    assert list(answer.json()) == ["error"]
    return str(answer.json()["error"])


# 22: the API's own error shape


def test_unknown_paths_and_wrong_methods(client: TestClient) -> None:
    only_error(client.get("/nothing"), 404)
    only_error(client.get("/static/page/nothing.js"), 404)
    only_error(client.get("/static/view/..%2f..%2fapi.py"), 404)
    only_error(client.get("/translate"), 405)
    only_error(client.put("/translate", json=PLAIN), 405)
    only_error(client.post("/languages"), 405)


def test_head_is_get_without_its_body(models: Models, writer: Model) -> None:
    with listening(Models(list(models.by_direction.values()), {"little": writer})) as address:
        for path in ("/", "/write", "/languages", "/health", "/v1/models/little", "/static/view/data.js"):
            found = []
            for method in ("GET", "HEAD"):
                request = urllib.request.Request(address + path, method=method)
                with urllib.request.urlopen(request, timeout=20) as answer:
                    found.append((answer.status, answer.headers["content-length"], answer.read()))
            whole, bare = found
            assert bare == (*whole[:2], b"")


@pytest.mark.parametrize("kind", ["text/plain", "application/xml", "", "nonsense", "application/octet-stream"])
def test_other_content_types(client: TestClient, kind: str) -> None:
    only_error(client.post("/translate", content=b"x", headers={"content-type": kind}), 415)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=x", b"nothing of the sort"),
        ("multipart/form-data; boundary=x", b"--x\r\nContent-Disposition: form-data; name=q\r\n\r\nx"),
        ("multipart/form-data; boundary=" + "x" * 300, b"--x"),
        ("application/x-www-form-urlencoded", b"&" * 5000),
        ("application/x-www-form-urlencoded", b"%zz%ff=%00"),
        ("application/json; charset=nonsense", b"\xff"),
    ],
)
def test_malformed_bodies(client: TestClient, kind: str, body: bytes) -> None:
    only_error(client.post("/translate", content=body, headers={"content-type": kind}), 400)


def test_a_fault_of_our_own_is_told_by_a_number_and_not_by_its_words(
    start: Start, models: Models, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(*_: Any) -> None:
        raise ValueError("the secret text")

    monkeypatch.setattr("regard.serve.models.cut", failing)
    with caplog.at_level("INFO", "regard.serve"):
        error = only_error(start().post("/translate", json=PLAIN), 500)
    failed = next(r for r in caplog.records if r.getMessage() == "failed")
    assert failed.facts["reference"] in error  # type: ignore[attr-defined]
    assert failed.facts["error"] == "ValueError"  # type: ignore[attr-defined]
    assert "secret" not in error + str(failed.__dict__)


# 23: bodies


def test_a_body_over_the_limit_is_refused(start: Start) -> None:
    client = start(body_limit=2000)
    only_error(client.post("/translate", json=PLAIN | {"q": "x" * 3000}), 413)
    assert client.post("/translate", json=PLAIN).status_code == 200


def test_a_body_without_end_and_without_length_is_refused_and_not_held() -> None:
    """A gigabyte that comes in pieces: reading stops at the limit, and nothing is kept."""
    pieces = 0

    async def receive() -> dict[str, Any]:
        nonlocal pieces
        pieces += 1
        return {"type": "http.request", "body": bytes(100_000), "more_body": pieces < 10_000}

    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def app(*_: Any) -> None:
        raise AssertionError("it must not get so far")

    scope = {"type": "http", "method": "POST", "path": "/translate", "headers": []}
    asyncio.run(Body(app, limit=1_000_000, seconds=10)(scope, receive, send))  # type: ignore[arg-type]
    assert sent[0]["status"] == 413
    assert (b"connection", b"close") in sent[0]["headers"]
    assert json.loads(sent[1]["body"]) == {"error": "The request's body is larger than 1000000 bytes"}
    assert pieces < 60


def test_a_body_that_never_comes_is_given_up() -> None:
    async def receive() -> dict[str, Any]:
        await asyncio.sleep(60)
        raise AssertionError

    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def work() -> None:
        scope = {"type": "http", "method": "POST", "path": "/translate", "headers": []}
        async with asyncio.timeout(10):
            await Body(None, limit=1000, seconds=0.05)(scope, receive, send)  # type: ignore[arg-type]

    asyncio.run(work())
    assert sent[0]["status"] == 408


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_a_large_body_over_a_real_connection(models: Models) -> None:
    with listening(models) as address, _connected(address) as line:
        line.sendall(b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n")
        line.sendall(b"Transfer-Encoding: chunked\r\n\r\n")
        before, sent = resident(), 0
        piece = b"10000\r\n" + bytes(0x10000) + b"\r\n"
        while sent < 1_000_000_000 and not select.select([line], [], [], 0)[0]:
            line.sendall(piece)
            sent += len(piece)
        assert sent < 100_000_000
        assert resident() - before < 50_000_000
        answer = HTTPResponse(line)
        answer.begin()
        assert answer.status == 413
        assert json.loads(answer.read()) == {"error": "The request's body is larger than 1000000 bytes"}


def test_a_length_over_the_limit_is_refused_before_anything_is_sent(models: Models) -> None:
    with listening(models) as address, _connected(address) as line:
        line.sendall(b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n")
        line.sendall(b"Content-Type: application/json\r\nExpect: 100-continue\r\n\r\n")
        assert line.recv(10_000).startswith(b"HTTP/1.1 413 ")


# 24: more than the server takes


def test_beyond_its_capacity_it_refuses_cleanly_and_stays_healthy(held: Held) -> None:
    with listening(Models([held]), requests=4) as address:
        waiting = [_asking(address) for _ in range(4)]
        until(lambda: held.begun.is_set() and _open(address) == 5)  # the four and this question
        for _ in range(12):  # and as many again, three times over
            status, headers, body = _ask(address)
            assert status == 503
            assert headers["retry-after"] == "1"
            assert list(body) == ["error"]
        assert _ask(address, "GET /health")[0] == 200
        held.gate.set()
        for line in waiting:
            assert _answer(line)[0] == 200


def test_beyond_the_queue_it_refuses_cleanly(held: Held, start: Start) -> None:
    client = start(served=Models([held]), queue=2)
    answers: list[Any] = []
    threads = []
    for i in range(3):
        thread = threading.Thread(target=lambda: answers.append(client.post("/translate", json=PLAIN)))
        thread.start()
        threads.append(thread)
        if i == 0:
            assert held.begun.wait(20)
    service = client.app.state.service  # type: ignore[attr-defined]
    (gatherer,) = service._gatherers.values()
    until(lambda: gatherer.waiting == 2)
    refused = client.post("/translate", json=PLAIN)
    only_error(refused, 503)
    assert refused.headers["retry-after"] == "1"
    assert client.get("/health").status_code == 200
    held.gate.set()
    for thread in threads:
        thread.join(20)
    assert [answer.status_code for answer in answers] == [200] * 3


def test_a_client_that_leaves_frees_its_place(held: Held) -> None:
    with listening(Models([held]), requests=2) as address:
        first = _asking(address)
        assert held.begun.wait(20)
        leaving = _asking(address, "gone")
        until(lambda: _open(address) == 3)
        assert _ask(address)[0] == 503
        leaving.close()
        until(lambda: _open(address) == 2)
        last = _asking(address)
        until(lambda: _open(address) == 3)
        held.gate.set()
        assert [_answer(line)[0] for line in (first, last)] == [200, 200]
    assert ["gone"] not in held.asked


def test_a_request_that_waits_too_long_is_refused(held: Held, start: Start) -> None:
    client = start(served=Models([held]), deadline=0.2)
    assert "in time" in only_error(client.post("/translate", json=PLAIN), 503)
    held.gate.set()


def _connected(address: str) -> socket.socket:
    parts = urlsplit(address)
    return socket.create_connection((str(parts.hostname), parts.port or 0), timeout=20)


def _asking(address: str, text: str = PLAIN["q"]) -> socket.socket:
    """A request on its way."""
    line = _connected(address)
    body = json.dumps(PLAIN | {"q": text}).encode()
    head = (
        f"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    line.sendall(head.encode() + body)
    return line


def _answer(line: socket.socket) -> tuple[int, dict[str, str], Any]:
    data = b""
    while b"\r\n\r\n" not in data:
        data += line.recv(10_000)
    head, _, body = data.partition(b"\r\n\r\n")
    first, *rest = head.decode().split("\r\n")
    headers = {name.lower(): value for name, value in (one.split(": ", 1) for one in rest)}
    while len(body) < int(headers["content-length"]):
        body += line.recv(10_000)
    line.close()
    return int(first.split()[1]), headers, json.loads(body) if body.startswith((b"{", b"[")) else body.decode()


def _ask(address: str, request: str = "") -> tuple[int, dict[str, str], Any]:
    if not request:
        return _answer(_asking(address))
    line = _connected(address)
    line.sendall(f"{request} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    return _answer(line)


def _open(address: str) -> int:
    """How many requests are at work, this one among them."""
    text = _ask(address, "GET /metrics")[2]
    return next(int(float(line.split()[1])) for line in text.splitlines() if line.startswith("regard_requests_open "))
