"""`regard serve` as a user starts it: the real client of LibreTranslate, mistakes, and a clean end."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from libretranslatepy import LibreTranslateAPI
from serve.servers import Held, listening, until

from regard.explain import why_steps
from regard.serve.app import make_app
from regard.serve.listen import bind, url
from regard.serve.models import Models
from regard.serve.run import Server
from regard.serve.settings import Settings


class Running:
    """A server in a process of its own."""

    def __init__(self, *words: object) -> None:
        command = [sys.executable, "-m", "regard", "serve", *map(str, words), "--port", "0", "--engine", "torch"]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        assert self.process.stdout is not None
        self.first = self.process.stdout.readline()
        self.address = next((word for word in self.first.split() if word.startswith("http://")), "")

    def stop(self) -> tuple[int, list[dict[str, Any]]]:
        """Its exit code and its log lines."""
        self.process.send_signal(signal.SIGTERM)
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, [json.loads(line) for line in errors.splitlines()]


@contextmanager
def running(*words: object) -> Iterator[Running]:
    server = Running(*words)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.wait()


def post(address: str, body: dict[str, Any], path: str = "/translate") -> Any:
    request = urllib.request.Request(
        address + path, json.dumps(body).encode(), {"content-type": "application/json"}, method="POST"
    )
    return urllib.request.urlopen(request, timeout=60)


def test_the_real_client_from_ready_to_the_end(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("our-key\n", encoding="utf-8")
    with running(trained, "--keys", tmp_path / "keys", "--grace", 20) as server:
        assert server.first.startswith("Regard is ready at http://127.0.0.1:"), server.first
        client = LibreTranslateAPI(server.address, api_key="our-key")
        assert client.translate("the man eats the bread", "en", "es") == "el hombre come el pan"
        assert client.translate("the man eats the bread", "auto", "es") == "el hombre come el pan"
        assert client.detect("the man eats the bread and the fish")[0]["language"] == "en"
        assert {one["code"] for one in client.languages()} == {"en", "es"}
        with pytest.raises(urllib.error.HTTPError) as refused:
            LibreTranslateAPI(server.address).translate("the man", "en", "es")
        assert refused.value.code == 403
        # A stream is open when the signal comes: it is finished.
        asked = {"text": "the man eats the bread", "source": "en", "target": "es", "masks": 640, "api_key": "our-key"}
        stream = post(server.address, asked, "/api/explain")
        assert stream.readline() == b"event: step\n"
        server.process.send_signal(signal.SIGTERM)
        assert b"event: end\n" in stream.read()
        code, lines = server.stop()
    assert code == 0
    assert [line["status"] for line in lines if line["event"] == "request"] == [200] * 4 + [403, 200]
    assert "bread" not in json.dumps(lines)


def test_what_does_not_end_in_time_ends_with_an_error_event(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 25: a stream that would go on for ever, a grace that is short."""
    held, real = threading.Event(), why_steps

    def slow(*args: Any, **options: Any) -> Iterator[Any]:
        yield next(real(*args, **options))
        assert held.wait(20)

    monkeypatch.setattr("regard.explain.translation.why_steps", slow)
    bound = bind("127.0.0.1", 0)
    server = Server(make_app(models, Settings()), Settings(grace=0.2))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    until(lambda: server.started)
    stream = post(url(bound), {"text": "the man eats the bread", "source": "en", "target": "es"}, "/api/explain")
    assert stream.readline() == b"event: step\n"
    begun = time.monotonic()
    server.handle_exit(signal.SIGTERM, None)
    *_, last = stream.read().decode().strip().split("\n\n")
    assert last == 'event: error\ndata: {"error": "The server is shutting down"}'
    assert time.monotonic() - begun < 2  # by the end of the grace, not by uvicorn's hand
    held.set()
    thread.join(20)
    assert not thread.is_alive()


def test_those_who_wait_are_answered_before_the_end(held: Held) -> None:
    answers: list[Any] = []
    with listening(Models([held])) as address:
        asked = {"q": "the man eats the bread", "source": "en", "target": "es"}
        thread = threading.Thread(target=lambda: answers.append(json.load(post(address, asked))))
        thread.start()
        until(held.begun.is_set)
        threading.Timer(0.3, held.gate.set).start()
    thread.join(20)
    assert answers == [{"translatedText": "el hombre come el pan"}]


EARLY = """
import os, signal
from regard.cli import app
from regard.serve.run import Server

def early(server, sockets, run=Server.run):
    os.kill(os.getpid(), signal.SIGTERM)
    run(server, sockets)

Server.run = early
app()
"""


def test_a_signal_before_the_server_is_up_ends_it_too(trained: Path) -> None:
    command = [sys.executable, "-c", EARLY, "serve", str(trained), "--port", "0", "--engine", "torch"]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def regard(*words: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "regard", "serve", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_mistakes_are_one_line_and_exit_code_2(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for words, said in (
            (["nothing", "--port", port], f"cannot listen on 127.0.0.1 port {port}"),
            (["nothing", "--port", 0], "there is no model at nothing"),
            (["nothing", "--char-limit", 0], "--char-limit 0 is too small"),
            (["nothing", "--host", "no.such.host.invalid"], "cannot listen on no.such.host.invalid"),
        ):
            done = regard(*words)
            assert done.returncode == 2, done.stderr
            assert done.stderr.count("\n") == 1
            assert said in done.stderr


def test_an_open_door_is_warned_of(tmp_path: Path) -> None:
    done = regard("nothing", "--host", "0.0.0.0", "--port", 0)
    assert "warning: anyone who reaches 0.0.0.0 can use this server" in done.stderr


def test_every_setting_is_an_option_of_the_command() -> None:
    help = subprocess.run(
        [sys.executable, "-m", "regard", "serve", "--help"],
        capture_output=True, text=True, check=True, env=os.environ | {"COLUMNS": "300"},
    ).stdout  # fmt: skip
    for name in Settings.__dataclass_fields__:
        assert f"--{name.replace('_', '-')} " in help
