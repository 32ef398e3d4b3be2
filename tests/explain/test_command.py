"""`regard explain` as a person uses it, and what it shows."""

import json
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from regard.api import Model
from regard.cli import app
from regard.errors import UserError
from regard.explain import image, text
from regard.explain.overlay import coarse, pixels
from regard.view import png

SVG = "{http://www.w3.org/2000/svg}"
NASTY = '</script><script>alert("x")</script> & {{data}} \u2028 [bold]it\x01\x1b[2J'
MINE = """
import numpy as np

calls = []

def tone(texts):
    calls.append(len(texts))
    return [t.count("good") - t.count("bad") for t in texts]

def bright(images):
    return images[:, :4, :4].mean((1, 2, 3))

class Deep:
    wide = staticmethod(tone)

number = 3
"""


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["explain", *map(str, arguments)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def folder(translator: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    translator.bundle.save(tmp_path / "model")
    (tmp_path / "mine.py").write_text(MINE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    return tmp_path


def test_why_each_word(folder: Path) -> None:
    said = run("model", "the woman buys the bread today", "--masks", 300, "--curves")
    assert "la mujer compra el pan hoy" in said
    assert re.search(r"^ +pan  bread \+0\.\d\d", said, re.MULTILINE)
    assert re.search(r"^ +pan  deletion 0\.\d+ \(0\.\d+\)  insertion", said, re.MULTILINE)
    assert "\x1b" not in said


def test_why_one_word(folder: Path) -> None:
    for word in ("5", "pan"):
        said = run("model", "the woman buys the bread today", "--word", word, "--masks", 200)
        assert 'why "pan"?' in said
        assert re.search(r"^  bread +\+0\.\d\d ±0\.\d+ +█+", said, re.MULTILINE)


def test_files(folder: Path) -> None:
    run(
        "model",
        "the man eats a cake",
        "--out",
        "a.html",
        "--svg",
        "a.svg",
        "--json",
        "a.json",
        "--masks",
        100,
        "--curves",
    )
    data = json.loads((folder / "a.json").read_text(encoding="utf-8"))
    assert data["masks"] == data["planned"] == 100
    assert data["done"] is True
    assert len(data["rows"][0]["values"]) == len(data["places"]) == 5
    assert set(data["rows"][0]["curves"]) == {"deletion", "insertion"}
    assert ElementTree.parse(folder / "a.svg").getroot().tag == f"{SVG}svg"
    page = (folder / "a.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in page
    assert "el hombre come un pastel" in page


def test_it_stops_when_sure(folder: Path) -> None:
    said = run("model", "the man eats a cake", "--confidence", 0.9, "--within", 0.5, "--masks", 5000)
    assert re.search(r"\d+ masks of 5,000, sure enough", said)


def test_a_python_function(folder: Path) -> None:
    said = run("--python", "mine:tone", "a good film", "--masks", 50, "--batch", 10)
    assert re.search(r"good +\+1\.\d\d|good +\+0\.9", said)
    assert max(sys.modules["mine"].calls) <= 10
    assert str(folder) not in sys.path
    assert "film" in run("--python", "mine:Deep.wide", "a good film", "--masks", 50, "--by", "characters")


def test_an_image(folder: Path) -> None:
    shown = np.full((12, 16, 3), 200, dtype=np.uint8)
    (folder / "a.png").write_bytes(png.encoded(shown))
    said = run(
        "--python", "mine:bright", "--image", "a.png", "--masks", 200, "--png", "map.png", "--out", "a.html", "--curves"
    )
    assert "200.000 for the whole image, 0.000 with all of it hidden" in said
    lines = [line for line in said.splitlines() if set(line) <= set("·░▒▓█") and line]
    assert lines[0][0] in "▓█"
    assert lines[-1][-1] == "·"
    assert (folder / "map.png").read_bytes().startswith(b"\x89PNG")
    assert "data:image/png;base64," in (folder / "a.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["model"], "give a model's folder and one text"),
        (["--python", "mine:tone", "model", "a b"], "one text beside the black box"),
        (["--python", "mine:bright", "--image", "a.png", "a"], "nothing beside the image"),
        (["model", "--image", "a.png"], "needs a black box"),
        (["--python", "mine:tone", "--endpoint", "http://x/", "a"], "second black box"),
        (["--python", "mine:tone", "--word", "2", "a"], "--word is for a model"),
        (["model", "a", "--png", "a.png"], "--png is for an image"),
        (["model", "a", "--cells", "3"], "--cells is for an image"),
        (["--python", "mine:tone", "a", "--fill", "blur"], "--fill is for an image"),
        (["--python", "mine:bright", "--image", "a.png", "--by", "words"], "--by is for a text"),
        (["model", "a", "--header", "X: y"], "--header is for --endpoint"),
        (["--python", "mine:tone", "a", "--allow-remote"], "--allow-remote is for --endpoint"),
        (["model", "a", "--within", "0.2"], "--within goes with --confidence"),
        (["model", "a", "--out", "nowhere/a.html"], "no folder nowhere"),
        (["model", "a", "--json", "."], "is a folder"),
        (["model", "a", "--masks", "1"], "masks is 1"),
        (["other", "a"], "no model at"),
        (["--python", "mine", "a"], "MODULE:FUNCTION"),
        (["--python", "nothere:f", "a"], "No module named 'nothere'"),
        (["--python", "mine:nothing", "a"], "no attribute 'nothing'"),
        (["--python", "mine:number", "a"], "not a function"),
        (["--endpoint", "http://192.0.2.1/", "a"], "--allow-remote"),
        (["--endpoint", "http://127.0.0.1/", "--request", "{", "a"], "--request is not JSON"),
        (["--endpoint", "http://127.0.0.1/", "--header", "Key", "a"], "Name: value"),
        (["--python", "mine:tone", "a", "--by", "tokens"], "words or characters"),
    ],
)
def test_mistakes_are_told(folder: Path, arguments: list[str], said: str) -> None:
    with pytest.raises(UserError, match=re.escape(said)):
        run(*arguments)


def count(texts: list[str]) -> list[list[float]]:
    return [[float(len(t)), float("it" in t)] for t in texts]


def test_a_nasty_text_is_only_text() -> None:
    found = text(count, NASTY, masks=20, names=["</script>", "[red]"])
    page = found.to_html(found.curves(orders=1))
    assert page.count("</script>") == 2  # the data's own end and the program's
    assert len(re.findall(r"<script\b", page)) == 2
    assert found._repr_html_().count("<") == 2  # a frame, and in it nothing that is not escaped
    picture = ElementTree.fromstring(found.to_svg())
    assert {e.tag for e in picture.iter()} <= {SVG + tag for tag in ("svg", "title", "text", "rect", "g")}
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False)) == found.to_dict()
    console = Console(force_terminal=True, color_system="truecolor", width=200)
    with console.capture() as said:
        console.print(found.terminal(True))
    colours = re.findall(r"\x1b\[[^m]*m", said.get())
    assert all(re.fullmatch(r"\x1b\[[\d;]*m", colour) for colour in colours)
    assert said.get().count("\x1b") == len(colours)  # none of the text's own
    assert "[bold]it" in said.get()
    assert "\x01" not in said.get()


def test_colours_are_of_what_is_sure() -> None:
    found = text(count, "if it is so", masks=100)
    console = Console(force_terminal=True, color_system="truecolor", width=200)
    with console.capture() as said:
        console.print(found.terminal(True))
    second = said.get().splitlines()[-1]
    assert re.search(r"48;2;63;81;197mit\x1b|48;2;\d+;\d+;\d+mit\x1b", second)
    assert not re.search(r"48;2;\d+;\d+;\d+mso\x1b", second)


def test_overlays() -> None:
    assert pixels(np.array([[0.0, 1.0], [0.5, 0.5]])).tolist()[0] == [[0] * 3, [255] * 3]
    assert pixels(np.array([[-5.0, 5.0]]))[0, 1].tolist() == [255] * 3
    assert pixels(np.full((2, 2, 4), 7, dtype=np.uint8)).shape == (2, 2, 3)
    found = image(lambda images: images[:, 0, 0], np.ones((90, 130)), masks=60)
    assert ElementTree.fromstring(found.to_svg()).find(f"{SVG}image") is not None
    data = found.to_dict()
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    grid = data["image"]["values"]
    assert (grid["height"], grid["width"], len(grid["values"])) == (64, 64, 64 * 64)
    assert coarse(np.arange(12.0).reshape(3, 4)).tolist() == np.arange(12.0).reshape(3, 4).tolist()
    np.testing.assert_allclose(coarse(np.ones((200, 77))), 1.0)
    steep = coarse(np.arange(128.0)[:, None] * np.ones((1, 3)))
    np.testing.assert_allclose(steep[:, 0], np.arange(64) * 2 + 0.5)
