"""What the web page needs: its files under a strict policy, looks, steps, explanations."""

import base64
import hashlib
import json
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from serve.servers import Start, listening, until, untrained

from regard.serve import app as app_module
from regard.serve.models import Models, Served
from regard.serve.pageapi import STREAMS
from regard.view.look import look

SENTENCE = {"text": "the man eats the bread", "source": "en", "target": "es"}


def test_the_page_runs_only_what_is_its_own(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = '{"imports": {"regard/look.js": "/static/view/look.js"}}'
    html = f'<script type="importmap">{script}</script><script type=module src="/static/page/app.js"></script>'
    (tmp_path / "index.html").write_text(html, encoding="utf-8")
    monkeypatch.setattr(app_module, "PAGE", tmp_path)
    answer = client.get("/")
    assert answer.text == html
    policy = answer.headers["content-security-policy"]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert "default-src 'none'" in policy
    assert f"script-src 'self' 'sha256-{digest}';" in policy
    assert "unsafe" not in policy


def test_without_a_page_there_is_one_line(client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_module, "PAGE", tmp_path)
    answer = client.get("/")
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.text.count("\n") == 1


def test_the_views_modules_are_served(client: TestClient) -> None:
    answer = client.get("/static/view/data.js")
    assert answer.status_code == 200
    assert "javascript" in answer.headers["content-type"]


def test_info(client: TestClient) -> None:
    found = client.get("/api/info").json()
    (model,) = found["models"]
    assert (model["name"], model["source"], model["target"], model["engine"]) == ("small", "en", "es", "torch")
    assert model["layers"] == {"encoder": 1, "decoder": 1}
    limits = {"characters": 5000, "texts": 100, "alternatives": 5, "masks": 5000, "tokens": 1000}
    assert found["limits"] == limits
    assert found["key_required"] is False


def test_a_look_is_the_same_as_in_python(client: TestClient, models: Models) -> None:
    model = models.by_direction["en", "es"].model
    found = look(model, SENTENCE["text"])
    assert client.post("/api/look", json=SENTENCE).json() == found.to_dict()
    assert client.post("/api/look", json=SENTENCE | {"packed": True}).json() == json.loads(json.dumps(found.to_page()))
    given = client.post("/api/look", json=SENTENCE | {"translation": "el pan"}).json()
    assert given == look(model, SENTENCE["text"], "el pan").to_dict()


def test_what_is_looked_into_is_what_was_shown(start: Start) -> None:
    """The server's beam and the number of alternatives decide, for each of this text's translations another."""
    model = untrained("en", "es", 9).model
    client = start(served=Models([Served(model, "small", beam=1)]))
    shown = []
    for alternatives in (0, 2):
        asked = {"text": "el pan", "source": "en", "target": "es", "alternatives": alternatives}
        shown.append(client.post("/api/translate", json=asked).json()["translations"][0]["text"])
        assert client.post("/api/look", json=asked).json()["target"] == shown[-1]
        explained = events(client.post("/api/explain", json=asked | {"masks": 2}).text)
        assert explained[0][1]["output"] == shown[-1]
        steps = client.post("/api/steps", json=asked | {"kind": "cross"}).json()
        given = client.post("/api/steps", json=asked | {"kind": "cross", "translation": shown[-1]}).json()
        assert steps == given
    assert len({*shown, model.translate("el pan")}) == 3


def test_steps_of_one_head(client: TestClient, models: Models) -> None:
    asked = SENTENCE | {"kind": "cross", "layer": 0, "head": 1}
    found = client.post("/api/steps", json=asked).json()
    vectors = look(models.by_direction["en", "es"].model, SENTENCE["text"]).vectors
    expected = next(v for v in vectors if v.kind == "cross")
    assert found == json.loads(json.dumps(expected.to_dict(1)))


def test_roles_that_nobody_waited_for_are_there_later(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, asked = threading.Event(), []

    def slow(model: Any) -> str:
        asked.append(model)
        gate.wait(20)
        return "it takes English"

    monkeypatch.setattr("regard.view.roles.roles_or_why", slow)
    client = start(deadline=0.5)
    pair = {"source": "en", "target": "es"}
    assert client.post("/api/roles", json=pair).status_code == 503
    gate.set()
    until(lambda: client.post("/api/roles", json=pair).status_code == 200)
    assert client.post("/api/roles", json=pair).json() == {"needs": "it takes English"}
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("path", "change", "word"),
    [
        ("/api/look", {"text": ""}, "missing text"),
        ("/api/look", {"text": " "}, "no text"),
        ("/api/look", {"text": "the man " * 500}, "tokens"),
        ("/api/look", {"text": "x" * 5001}, "5000"),
        ("/api/look", {"target": "en"}, "one model"),
        ("/api/look", {"target": "xx"}, "xx"),
        ("/api/steps", {"kind": "cross", "layer": 9}, "layer 9"),
        ("/api/steps", {"kind": "cross", "head": 9}, "head"),
        ("/api/steps", {"kind": "none"}, "kind"),
        ("/api/explain", {"masks": 10**9}, "masks"),
        ("/api/explain", {"text": " "}, "no text"),
        ("/api/explain", {"by": "letters"}, "by"),
    ],
)
def test_what_cannot_be_looked_at_is_a_400(client: TestClient, path: str, change: dict[str, Any], word: str) -> None:
    answer = client.post(path, json=SENTENCE | change)
    assert answer.status_code == 400
    assert word in answer.json()["error"]


def events(text: str) -> list[tuple[str, Any]]:
    found = []
    for one in text.strip().split("\n\n"):
        name, data = one.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


def test_an_explanation_comes_as_it_gets_clearer(client: TestClient) -> None:
    answer = client.post("/api/explain", json=SENTENCE | {"masks": 200})
    assert answer.headers["content-type"].startswith("text/event-stream")
    found = events(answer.text)
    assert [name for name, _ in found] == ["step"] * (len(found) - 1) + ["end"]
    assert len(found) >= 3
    last = found[-2][1]
    assert (last["masks"], last["done"]) == (200, True)
    assert last["places"] == ["the", "man", "eats", "the", "bread"]
    assert last["output"] == "el hombre come el pan"
    values = np.array([row["values"] for row in last["rows"]])
    assert values[1].argmax() == 1  # hombre, by man


def test_a_fault_in_the_middle_of_a_stream_ends_it_with_an_error(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    from regard.explain import why_steps

    def breaking(*args: Any, **options: Any) -> Any:
        yield next(why_steps(*args, **options))
        raise ValueError("the secret text")

    monkeypatch.setattr("regard.explain.translation.why_steps", breaking)
    found = events(client.post("/api/explain", json=SENTENCE).text)
    assert [name for name, _ in found] == ["step", "error"]
    assert "secret" not in found[-1][1]["error"]


def test_streams_are_bounded(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.explain import why_steps

    def endless(*args: Any, **options: Any) -> Any:
        first = next(why_steps(*args, **options))
        while True:
            yield first

    monkeypatch.setattr("regard.explain.translation.why_steps", endless)
    with listening(models) as address:
        request = urllib.request.Request(f"{address}/api/explain", json.dumps(SENTENCE).encode())
        request.add_header("content-type", "application/json")
        streams = [urllib.request.urlopen(request, timeout=20) for _ in range(STREAMS)]
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=20)
        assert refused.value.code == 503
        streams.pop().close()
        until(lambda: _answers(request))
        for stream in streams:
            stream.close()


def _answers(request: urllib.request.Request) -> bool:
    try:
        urllib.request.urlopen(request, timeout=20).close()
    except urllib.error.HTTPError:
        return False
    return True


def test_text_and_markup_in_errors_and_looks_is_data(client: TestClient) -> None:
    """Fault 21: what looks like a tag is never more than a JSON string."""
    text = "<script>alert(1)</script>"
    answer = client.post("/api/look", json=SENTENCE | {"translation": text})
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["target"] == text
    answer = client.post("/translate", json={"q": "x", "source": text[:20], "target": "es"})
    assert answer.headers["content-type"] == "application/json"


def test_cors_by_option(start: Start) -> None:
    origin = {"origin": "https://example.org"}
    assert "access-control-allow-origin" not in start().get("/languages", headers=origin).headers
    client = start(cors=("https://example.org",), requests=1)
    assert client.get("/languages", headers=origin).headers["access-control-allow-origin"] == "https://example.org"
    assert (
        "access-control-allow-origin" not in client.get("/languages", headers={"origin": "https://other.org"}).headers
    )
    preflight = client.options("/translate", headers=origin | {"access-control-request-method": "POST"})
    assert preflight.status_code == 200
    error = client.post("/translate", headers=origin)
    assert (error.status_code, error.headers["access-control-allow-origin"]) == (400, "https://example.org")
