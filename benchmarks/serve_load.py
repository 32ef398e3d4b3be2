"""The server under load: 64 clients at once for a minute, four times its capacity, memory over 20,000 requests.

Beside it LibreTranslate's own server, with the same weights in the same runtime.
"""

import asyncio
import http.client
import itertools
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks import peers
from benchmarks.results import ROOT, RUNS
from regard.bundle import load_bundle
from regard.data.formats import read_lines
from regard.demo import run as demo
from regard.errors import UserError
from regard.hub.ctranslate2 import export
from regard.serve.settings import Settings

CLIENTS = 64
SECONDS = 60
MANY = 20_000  # requests over which memory must not grow
ABOUT = f"The demo's model, {CLIENTS} clients who wait for each answer; then overload."
CAPACITY = Settings().requests
OVERLOAD = 4 * CAPACITY  # clients, each of whom asks again as soon as it is answered or refused
OVERLOAD_SECONDS = 20


def run() -> dict[str, Any]:
    model = _model()
    sentences = [line.split("\t")[0] for line in read_lines(model / "data" / "test.tsv")]
    figures: dict[str, Any] = {}
    with _server(model) as (address, process):
        asyncio.run(_measure(address, process.pid, sentences, figures))
    return figures | _peer(model, sentences, figures)


async def _measure(address: str, pid: int, sentences: list[str], figures: dict[str, Any]) -> None:
    asked = _requests("/translate", [{"q": s, "source": "en", "target": "es"} for s in sentences])
    await load(address, asked, CLIENTS, count=1000)  # until all is loaded and laid out
    print("a minute with 64 clients")
    done = await load(address, asked, CLIENTS, seconds=SECONDS)
    figures |= {
        "errors": done.others(200),
        "p50_ms": done.percentile(50),
        "p95_ms": done.percentile(95),
        "p99_ms": done.percentile(99),
        "requests_per_second": round(done.count / done.seconds, 1),
        "clients": CLIENTS,
    }
    print(figures)
    print("memory over 20,000 requests")
    before = _resident(pid)
    done = await load(address, asked, CLIENTS, count=MANY)
    figures |= {"memory_growth_mb": round(_resident(pid) - before, 1), "memory_mb": round(_resident(pid))}
    figures["errors"] += done.others(200)
    print(f"{OVERLOAD} clients, {CAPACITY} places")
    with _watched(address) as answers:
        done = await load(address, asked, OVERLOAD, seconds=OVERLOAD_SECONDS)
    figures |= {
        "health_ms_overloaded": round(max(answers), 1),
        "health_median_ms_overloaded": round(statistics.median(answers), 1),
        "overload_clients": OVERLOAD,
        "overload_answered_per_second": round(done.status[200] / done.seconds, 1),
        "overload_refused_per_second": round(done.status[503] / done.seconds, 1),
        "overload_errors": done.others(200, 503),
    }
    figures["errors"] += done.others(200, 503)


def _peer(model: Path, sentences: list[str], ours: dict[str, Any]) -> dict[str, Any]:
    """LibreTranslate with the same model, or why it could not be measured."""
    folder = RUNS / "serve-load" / "libretranslate"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        export(load_bundle(model), folder / "model")
        command = [str(peers.python("libretranslate")), "-W", "ignore"]
        command += [str(ROOT / "benchmarks" / "workers" / "libretranslate_worker.py"), str(folder), str(port)]
        with started(command, f"http://127.0.0.1:{port}"):
            print(f"LibreTranslate: a minute with {CLIENTS} clients")
            asked = _requests("/translate", [{"q": s, "source": "en", "target": "es"} for s in sentences])
            address = f"http://127.0.0.1:{port}"
            asyncio.run(load(address, asked, CLIENTS, count=500))
            done = asyncio.run(load(address, asked, CLIENTS, seconds=SECONDS))
    except (OSError, UserError) as error:
        return {"libretranslate": f"could not be measured: {error}"}
    rate = done.count / done.seconds
    if not done.times:
        return {"libretranslate": f"answered nothing, but {dict(done.status)}"}
    return {
        "libretranslate_requests_per_second": round(rate, 1),
        "libretranslate_p95_ms": done.percentile(95),
        "libretranslate_errors": done.others(200),
        "versions": peers.versions("libretranslate"),
        "times_libretranslate": round(ours["requests_per_second"] / rate, 2),
    }


@contextmanager
def started(command: list[str], address: str) -> Iterator[None]:
    """A server that is up once it answers."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            if process.poll() is not None:
                raise ChildProcessError(f"it ended with code {process.returncode}")
            with suppress(OSError):
                urllib.request.urlopen(f"{address}/languages", timeout=5).close()
                break
            time.sleep(0.2)
        else:
            raise TimeoutError("it did not answer")
        yield
    finally:
        process.kill()
        process.wait()


class Done:
    """What became of many requests."""

    def __init__(self) -> None:
        self.times: list[float] = []  # of those that were answered with 200
        self.status: Counter[int] = Counter()  # 0 where there was no proper answer
        self.seconds = 0.0

    @property
    def count(self) -> int:
        return sum(self.status.values())

    def others(self, *right: int) -> int:
        return sum(n for status, n in self.status.items() if status not in right)

    def percentile(self, percent: int) -> float:
        return round(1000 * statistics.quantiles(self.times, n=100)[percent - 1], 1)


async def load(
    address: str, requests: Iterator[bytes], clients: int, *, seconds: float = 1e9, count: int = 10**9
) -> Done:
    """So many clients at once, each with a connection of its own, who ask again once they are answered."""
    done, begun, left = Done(), time.perf_counter(), itertools.count(1)

    async def client() -> None:
        line: Line | None = None
        while time.perf_counter() < begun + seconds and next(left) <= count:
            start = time.perf_counter()
            try:
                line = line or await Line.open(address)
                status, body = await line.ask(next(requests))
                right = status != 200 or bool(json.loads(body)["translatedText"])
                done.status[status if right else 0] += 1
                if status == 200:
                    done.times.append(time.perf_counter() - start)
            except (OSError, EOFError, ValueError, KeyError):
                done.status[0] += 1
                line = None
        if line is not None:
            line.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    done.seconds = time.perf_counter() - begun
    return done


class Line:
    """A connection that stays open: as little as HTTP needs, so that the measuring costs little."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, address: str) -> "Line":
        parts = urlsplit(address)
        return cls(*await asyncio.open_connection(parts.hostname, parts.port))

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        self.writer.write(request)
        head = await self.reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        return int(head[9:12]), await self.reader.readexactly(size)

    def close(self) -> None:
        self.writer.close()


def _requests(path: str, bodies: list[dict[str, Any]]) -> Iterator[bytes]:
    made = []
    for body in bodies:
        data = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        made.append(head.encode() + data)
    return itertools.cycle(made)


@contextmanager
def _watched(address: str) -> Iterator[list[float]]:
    """How long /health takes, in ms, asked ten times a second over a new connection each time, from a thread."""
    parts, times, ended = urlsplit(address), [], threading.Event()

    def watch() -> None:
        while not ended.wait(0.1):
            start = time.perf_counter()
            line = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=30)
            line.request("GET", "/health")
            assert line.getresponse().status == 200
            line.close()
            times.append(1000 * (time.perf_counter() - start))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield times
    finally:
        ended.set()
        thread.join()


@contextmanager
def _server(model: Path) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    command = [sys.executable, "-m", "regard", "serve", str(model), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT)
    try:
        assert process.stdout is not None
        yield next(word for word in process.stdout.readline().split() if word.startswith("http://")), process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def _resident(pid: int) -> float:
    """MB that a process holds."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _model() -> Path:
    """The demo's run, made if it is not there yet."""
    for folder in (RUNS / "demo", ROOT / "runs" / "demo"):
        if (folder / "model" / "model.json").exists() and (folder / "data" / "test.tsv").exists():
            return folder
    demo(RUNS / "demo")
    return RUNS / "demo"
