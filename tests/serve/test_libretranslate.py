"""LibreTranslate's API: its parameters, answers and errors."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from serve.servers import Start

from regard.serve.store import Store

TEXT, TRANSLATION = "the man eats the bread", "el hombre come el pan"
PLAIN = {"q": TEXT, "source": "en", "target": "es"}
STYLED = f"<style>{'.the-header .from-here { background: white; border-width: thin }' * 40}</style><p>%s</p>"
SPANISH = "el hombre come el pan y la mujer quiere una manzana todos los días"


@pytest.mark.parametrize("how", ["json", "data", "params", "files"])
def test_parameters_come_as_json_form_multipart_or_query(client: TestClient, how: str) -> None:
    given: dict[str, Any] = {how: {k: (None, v) for k, v in PLAIN.items()} if how == "files" else PLAIN}
    answer = client.post("/translate", **given)
    assert (answer.status_code, answer.json()) == (200, {"translatedText": TRANSLATION})


def test_the_body_wins_over_the_query(client: TestClient) -> None:
    answer = client.post("/translate", params=PLAIN | {"q": "nonsense"}, json={"q": TEXT})
    assert answer.json()["translatedText"] == TRANSLATION


def test_several_texts_are_answered_in_their_order(client: TestClient) -> None:
    texts = [TEXT, "", "my sister wants a cake now", "  ", TEXT]
    answer = client.post("/translate", json=PLAIN | {"q": texts}).json()
    assert answer["translatedText"] == [TRANSLATION, "", "mi hermana quiere un pastel ahora", "  ", TRANSLATION]


def test_lines_and_spaces_stay_where_they_were(client: TestClient) -> None:
    text = f"\n  {TEXT}\r\n\n\t{TEXT} \n"
    expected = f"\n  {TRANSLATION}\r\n\n\t{TRANSLATION} \n"
    assert client.post("/translate", json=PLAIN | {"q": text}).json()["translatedText"] == expected


def test_alternatives_are_other_translations(client: TestClient) -> None:
    answer = client.post("/translate", json=PLAIN | {"alternatives": 3}).json()
    assert answer["translatedText"] == TRANSLATION
    assert 1 <= len(answer["alternatives"]) <= 3
    assert TRANSLATION not in answer["alternatives"]
    several = client.post("/translate", json=PLAIN | {"q": [TEXT, TEXT], "alternatives": 3}).json()
    assert several["alternatives"] == [answer["alternatives"]] * 2
    assert "alternatives" not in client.post("/translate", json=PLAIN | {"alternatives": 0}).json()


def test_a_form_says_numbers_in_digits(client: TestClient) -> None:
    assert client.post("/translate", data=PLAIN | {"alternatives": "1"}).json()["alternatives"]


def test_the_source_can_be_found_out(client: TestClient) -> None:
    answer = client.post("/translate", json=PLAIN | {"source": "auto"}).json()
    assert answer["translatedText"] == TRANSLATION
    assert answer["detectedLanguage"]["language"] == "en"
    assert 0 <= answer["detectedLanguage"]["confidence"] <= 100
    several = client.post("/translate", json=PLAIN | {"source": "auto", "q": [TEXT, TEXT]}).json()
    assert [d["language"] for d in several["detectedLanguage"]] == ["en", "en"]


def test_a_text_that_is_in_the_target_language_already_stays(client: TestClient) -> None:
    for text, format in ((SPANISH, "text"), (STYLED % SPANISH, "html")):
        asked = {"q": text, "source": "auto", "target": "es", "format": format}
        answer = client.post("/translate", json=asked).json()
        assert answer["translatedText"] == text
        assert answer["detectedLanguage"]["language"] == "es"


def test_languages_with_their_targets(client: TestClient) -> None:
    assert client.get("/languages").json() == [
        {"code": "en", "name": "English", "targets": ["en", "es"]},
        {"code": "es", "name": "Spanish", "targets": ["es"]},
    ]


def test_detect(client: TestClient) -> None:
    found = client.post("/detect", data={"q": "this is an English sentence about the weather"}).json()
    assert found[0]["language"] == "en"
    assert found[0]["confidence"] > 50


def test_settings_health_and_spec(client: TestClient) -> None:
    settings = client.get("/frontend/settings").json()
    assert settings["charLimit"] == 5000
    assert settings["keyRequired"] is False
    assert settings["language"]["source"] == {"code": "en", "name": "English"}
    assert client.get("/health").json() == {"status": "ok"}
    assert "/translate" in client.get("/spec").json()["paths"]
    assert client.get("/spec").json() == client.get("/openapi.json").json()


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"q": None}, "q"),
        ({"q": ""}, "missing q"),
        ({"q": []}, "missing q"),
        ({"q": 7}, "q"),
        ({"q": [TEXT, 7]}, "q"),
        ({"q": {"a": 1}}, "q"),
        ({"source": None}, "source"),
        ({"source": ""}, "missing source"),
        ({"target": ""}, "missing target"),
        ({"target": "xx"}, "xx is not supported"),
        ({"source": "xx"}, "xx is not supported"),
        ({"source": "es", "target": "en"}, "English (en) is not available as a target language from Spanish (es)"),
        ({"format": "pdf"}, "format"),
        ({"alternatives": 10_000}, "alternatives"),
        ({"alternatives": -1}, "alternatives"),
        ({"alternatives": "many"}, "alternatives"),
        ({"alternatives": True}, "alternatives"),
        ({"alternatives": 1.5}, "alternatives"),
        ({"q": "x" * 5001}, "5000"),
        ({"q": ["x"] * 101}, "100"),
        ({"q": ["x" * 2501] * 2}, "5000"),
        ({"q": "\ud800"}, "surrogate"),
        ({"q": ["fine", "\udfff"]}, "surrogate"),
        ({"target": "\ud800"}, "surrogate"),
    ],
)
def test_what_is_wrong_is_a_400_in_the_apis_own_shape(client: TestClient, change: dict[str, Any], word: str) -> None:
    body = json.dumps(PLAIN | change)
    answer = client.post("/translate", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert list(answer.json()) == ["error"]
    assert word in answer.json()["error"]


@pytest.mark.parametrize("body", [b"{", b"[]", b"7", b"null", b'{"q": }', b"\xff\xfe", b"[" * 100_000, b"1" * 5000])
def test_a_body_that_is_no_json_object_is_a_400(client: TestClient, body: bytes) -> None:
    answer = client.post("/translate", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert "JSON" in answer.json()["error"]


def test_a_missing_parameter_is_named(client: TestClient) -> None:
    for name in PLAIN:
        rest = {k: v for k, v in PLAIN.items() if k != name}
        assert client.post("/translate", json=rest).json() == {"error": f"Invalid request: missing {name} parameter"}
    assert client.post("/detect").json() == {"error": "Invalid request: missing q parameter"}


def test_a_file_is_translated_and_kept_for_download(client: TestClient) -> None:
    files = {"file": ("notes/letter.txt", f"{TEXT}\n\n  {TEXT}\n".encode())}
    answer = client.post("/translate_file", files=files, data={"source": "en", "target": "es"})
    assert answer.status_code == 200
    url = answer.json()["translatedFileUrl"]
    assert url.startswith("http://testserver/download_file/")
    got = client.get(url)
    assert got.text == f"{TRANSLATION}\n\n  {TRANSLATION}\n"
    assert got.headers["content-disposition"] == 'attachment; filename="letter_es.txt"'
    assert "sandbox" in got.headers["content-security-policy"]


def test_a_file_of_html_keeps_its_tags(client: TestClient) -> None:
    for page, expected in ((f"<p class=x>{TEXT}</p>", f"<p class=x>{TRANSLATION}</p>"), (STYLED % SPANISH,) * 2):
        files = {"file": ("page.html", page.encode())}
        answer = client.post("/translate_file", files=files, data={"source": "auto", "target": "es"})
        assert client.get(answer.json()["translatedFileUrl"]).text == expected


def test_a_long_file_is_not_held_to_the_limit_of_a_text(start: Start) -> None:
    client = start(char_limit=100, queue=20, queue_chars=500)
    files = {"file": ("long.txt", f"{TEXT}\n".encode() * 300)}
    url = client.post("/translate_file", files=files, data={"source": "en", "target": "es"}).json()["translatedFileUrl"]
    assert client.get(url).text == f"{TRANSLATION}\n" * 300


@pytest.mark.parametrize(
    ("file", "word"),
    [
        (("a.exe", b"MZ"), "format"),
        (("noname", b"x"), "format"),
        (("a.txt", b"caf\xe9"), "UTF-8"),
        (None, "missing file"),
    ],
)
def test_what_is_no_such_file_is_a_400(client: TestClient, file: Any, word: str) -> None:
    given = {"file": file} if file else {"file": (None, "text")}
    answer = client.post("/translate_file", files=given, data={"source": "en", "target": "es"})
    assert answer.status_code == 400
    assert word in answer.json()["error"]


def test_kept_files_are_bounded_and_cannot_be_guessed(start: Start) -> None:
    client = start(files=2)
    urls = []
    for i in range(3):
        files = {"file": (f"../../etc/{i}.txt", TEXT.encode())}
        answer = client.post("/translate_file", files=files, data={"source": "en", "target": "es"})
        urls.append(answer.json()["translatedFileUrl"])
    assert [client.get(url).status_code for url in urls] == [404, 200, 200]
    assert client.get("/download_file/..%2f..%2fetc%2fpasswd").status_code == 404
    assert client.get("/download_file/passwd.txt").json() == {"error": "There is no such file, or no longer"}


def test_files_are_removed_when_their_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(most=5, seconds=10)
    name = store.add("text", "a.txt")
    path = store.find(name)
    assert path is not None
    now = time.monotonic()
    monkeypatch.setattr("regard.serve.store.time.monotonic", lambda: now + 11)
    assert store.find(name) is None
    assert not path.path.exists()
    store.close()
    assert not path.path.parent.exists()
