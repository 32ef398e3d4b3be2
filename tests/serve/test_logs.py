"""Log lines and metrics: what happened, and never what was said."""

import json
import logging
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from serve.servers import Start

from regard.serve.logs import Lines

TEXT = "the man eats the bread"


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [Lines().format(record) for record in caplog.records if record.name == "regard.serve"]


def test_one_line_a_request_and_nothing_that_was_said(
    start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "keys").write_text("very-secret-key\n", encoding="utf-8")
    client = start(keys=tmp_path / "keys")
    with caplog.at_level("INFO", "regard.serve"):
        given = {"q": [TEXT, TEXT], "source": "en", "target": "es", "api_key": "very-secret-key"}
        assert client.post("/translate", json=given).status_code == 200
        client.post("/translate", params=given | {"q": TEXT, "api_key": "wrong-secret"})
        client.get(f"/{TEXT}?q={TEXT}")
    found = lines(caplog)
    assert len(found) == 3
    assert not [word for line in found for word in ("bread", "pan", "secret") if word in line]
    first, second, third = (json.loads(line) for line in found)
    assert first["event"] == "request"
    assert (first["method"], first["path"], first["status"]) == ("POST", "/translate", 200)
    assert (first["texts"], first["characters"]) == (2, 2 * len(TEXT))
    assert first["ms"] >= first["wait_ms"] >= 0
    assert len(first["key"]) == 8
    assert (second["status"], second["key"]) == (403, None)
    assert (third["status"], third["path"]) == (404, "other")


def test_an_exception_is_its_kind_and_place(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError("what was said")
    except ValueError:
        logging.getLogger("regard.serve").exception("it failed")
    (line,) = lines(caplog)
    assert json.loads(line)["error"] == "ValueError"
    assert "what was said" not in line


def test_metrics(client: TestClient) -> None:
    client.post("/translate", json={"q": TEXT, "source": "en", "target": "es"})
    client.get("/nothing")
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    figures = dict(line.rsplit(" ", 1) for line in answer.text.splitlines() if not line.startswith("#"))
    assert figures['regard_requests_total{route="/translate",status="200"}'] == "1.0"
    assert figures['regard_requests_total{route="other",status="404"}'] == "1.0"
    assert figures["regard_characters_total"] == f"{len(TEXT)}.0"
    assert figures['regard_batch_sentences_count{model="en-es"}'] == "1.0"
    assert figures['regard_waiting_sentences{model="en-es"}'] == "0.0"
    assert "bread" not in answer.text


def test_two_servers_in_one_process_count_apart(start: Start) -> None:
    one, other = start(), start()
    one.get("/health")
    assert 'route="/health"' in one.get("/metrics").text
    assert 'route="/health"' not in other.get("/metrics").text
