"""HTML through a model that has learned its corpus: tags at the words that they were around."""

import time

import pytest
from fastapi.testclient import TestClient
from serve.servers import Start

from regard.bundle import Bundle
from regard.serve.align import Alignment, align

CASES = {
    "<p>the man eats the <b>bread</b></p>": "<p>el hombre come el <b>pan</b></p>",
    "<b>my sister</b> wants <i>a <u>cake</u></i> now": "<b>mi hermana</b> quiere <i>un <u>pastel</u></i> ahora",
    'the boy sees the <a href="/?a=1&amp;b=2" title="the man">fish</a>': (
        'el chico ve el <a href="/?a=1&amp;b=2" title="the man">pescado</a>'
    ),
    "<table><tr><th>the boy sees the fish</th><td>12</td></tr></table>": (
        "<table><tr><th>el chico ve el pescado</th><td>12</td></tr></table>"
    ),
    "<div class=notranslate>the man</div><p>the boy eats the bread": (
        "<div class=notranslate>the man</div><p>el chico come el pan"
    ),
    "<script>the man</script><!-- the man -->": "<script>the man</script><!-- the man -->",
    "the man eats the bread<br/>the boy eats the bread": "el hombre come el pan<br/>el chico come el pan",
}


@pytest.mark.parametrize("html", CASES)
def test_tags_are_kept(client: TestClient, html: str) -> None:
    answer = client.post("/translate", json={"q": html, "source": "en", "target": "es", "format": "html"})
    assert answer.json() == {"translatedText": CASES[html]}


def test_several_pages_and_their_alternatives(client: TestClient) -> None:
    pages = ["<p>the man eats the <b>bread</b></p>", "the <i>boy</i> sees the fish"]
    asked = {"q": pages, "source": "en", "target": "es", "format": "html", "alternatives": 2}
    answer = client.post("/translate", json=asked).json()
    assert answer["translatedText"] == ["<p>el hombre come el <b>pan</b></p>", "el <i>chico</i> ve el pescado"]
    for first, others in zip(answer["translatedText"], answer["alternatives"], strict=True):
        assert others
        assert first not in others
    assert all(other.count("<b>") == other.count("</b>") == 1 for other in answer["alternatives"][0])


def test_a_page_that_takes_longer_than_the_deadline_has_its_turns(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(bundle: Bundle, pairs: list[tuple[str, str]], longest: int) -> list[Alignment]:
        time.sleep(0.05)
        return align(bundle, pairs, longest)

    monkeypatch.setattr("regard.serve.service.align", slow)
    monkeypatch.setattr("regard.serve.service.ALIGNED", 1)
    page, expected = (
        f"<p>{text}</p>" * 40 for text in ("the man eats the <b>bread</b>", "el hombre come el <b>pan</b>")
    )
    asked = {"q": page, "source": "en", "target": "es", "format": "html"}
    assert start(deadline=1.5).post("/translate", json=asked).json() == {"translatedText": expected}


def test_plain_text_is_not_read_as_html(client: TestClient) -> None:
    asked = {"q": "the man eats the bread\n<", "source": "en", "target": "es"}
    assert client.post("/translate", json=asked).json()["translatedText"] == "el hombre come el pan\n<"


def test_text_that_looks_like_a_tag_comes_back_escaped(client: TestClient) -> None:
    asked = {"q": "<p>the man</p>&lt;script&gt;", "source": "es", "target": "es", "format": "html"}
    assert client.post("/translate", json=asked).json()["translatedText"] == "<p>the man</p>&lt;script&gt;"
    asked = {"q": "the man eats the bread &lt;1&gt;\n&lt;", "source": "en", "target": "es", "format": "html"}
    text = client.post("/translate", json=asked).json()["translatedText"]
    assert "<" not in text
