"""A look at one sentence: right tokens, right weights, and pictures that are well formed whatever the text."""

import dataclasses
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from regard.api import Model
from regard.cli import app
from regard.errors import UserError
from regard.view.look import Look, look
from regard.view.record import record
from regard.view.words import END, START

SVG = "{http://www.w3.org/2000/svg}"
TEXT = "the small dog didn't sleep"
NASTY = '</script><script>alert("x")</script><!-- & \' {{data}} \u2028 ]]> \x01'


class Parsed(HTMLParser):
    """What a browser would see: elements, their attributes, and the text of scripts and titles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, text: str) -> None:
        self.texts.append((self.elements[-1][0] if self.elements else "", text))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def seen(translator: Model) -> Look:
    return look(translator, TEXT, "el perro pequeño no duerme")


def test_tokens_and_shapes(translator: Model, seen: Look) -> None:
    tokenizer = translator.bundle.source
    assert seen.source == (*tokenizer.surface(tokenizer.encode(TEXT)), END)
    assert seen.target[-1] == END
    assert seen.read == (START, *seen.target[:-1])
    s, t = len(seen.source), len(seen.target)
    shapes = {kind: w.shape for kind, w in seen.weights.items()}
    assert shapes == {"encoder": (2, 4, s, s), "decoder": (3, 4, t, t), "cross": (3, 4, t, s)}


def test_weights_are_those_of_the_model(translator: Model, seen: Look) -> None:
    bundle = translator.bundle
    source = torch.tensor([[*bundle.source.encode(TEXT), 3]])
    target = torch.tensor([[2, *bundle.target.encode("el perro pequeño no duerme")]])
    with torch.no_grad(), record(bundle.model) as trace:
        bundle.model(source, None, target)
    np.testing.assert_allclose(seen.weights["cross"][2], trace.weights("cross", 2)[0].numpy(), atol=1e-6)


def test_without_a_target_it_is_the_models_own_translation(translator: Model) -> None:
    options = {"beam": 2, "max_length": 6}
    translator.bundle.decode = translator.options(**options)
    found = look(translator, TEXT)
    assert found.translation == translator.translate(TEXT)
    assert found.translation
    assert len(found.target) <= 7


def test_a_users_mistakes_are_told(translator: Model, seen: Look) -> None:
    with pytest.raises(UserError, match="no text"):
        look(translator, "  ")
    with pytest.raises(UserError, match="made for 200"):
        look(translator, "the dog " * 300)
    with pytest.raises(UserError, match="target has"):
        look(translator, TEXT, "the dog " * 300)
    with pytest.raises(UserError, match="one of the 2 models"):
        look(Model([translator.bundle, translator.bundle]), TEXT)
    with pytest.raises(UserError, match="no such layer: the model has 3"):
        seen.draw(layer=3).svg()
    with pytest.raises(UserError, match="no such head"):
        seen.draw(head=-1).text()


def test_merged_words_still_sum_to_one(seen: Look) -> None:
    merged = seen.merged()
    assert merged.source == ("the", "small", "dog", "didn't", "sleep", END)
    assert merged.target == ("el", "perro", "pequeño", "no", "duerme", END)
    assert merged.read == (START, "el", "perro", "pequeño", "no", "duerme")
    assert len(merged.source) < len(seen.source), "nothing was merged, so nothing was tested"
    for kind, weights in merged.weights.items():
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5, err_msg=kind)
    first = seen.axes["target"].groups[2]
    expected = seen.weights["cross"][1, 0, list(first), :][:, list(seen.axes["source"].groups[3])].sum(1).mean()
    assert merged.weights["cross"][1, 0, 2, 3] == pytest.approx(expected)


def test_the_alignment_is_the_one_asked_for(seen: Look) -> None:
    cross = seen.weights["cross"]
    np.testing.assert_array_equal(seen.alignment(1, 2), cross[1, 2])
    np.testing.assert_array_equal(seen.alignment(), cross[seen.clearest].mean(0))
    assert f"layer {seen.clearest + 1} of 3 (the clearest), mean of heads" in seen.draw().svg()
    assert "layer 2 of 3, head 3" in seen.draw(layer=1, head=2).svg()
    only = dataclasses.replace(seen, weights={"cross": cross[:1, :1]})  # as a recurrent network has it
    assert "looks at input (columns)<" in only.draw().svg()


def test_the_dict_survives_json(seen: Look) -> None:
    data = seen.to_dict()
    assert json.loads(json.dumps(data)) == data
    weights = np.array(data["attention"]["cross"]["weights"])
    np.testing.assert_allclose(weights, seen.weights["cross"], atol=5.1e-5)
    assert np.array_equal(weights, weights.round(4))
    assert data["axes"]["source"]["words"] == list(seen.merged().source)


@pytest.mark.parametrize("text", [TEXT, NASTY])
def test_the_svg_is_well_formed(translator: Model, text: str) -> None:
    found = look(translator, text, text)
    root = ElementTree.fromstring(found.draw().svg())
    assert {e.tag for e in root.iter()} == {SVG + tag for tag in ("svg", "title", "text", "rect", "path", "g")}
    cells = root.findall(f"{SVG}g")
    assert len(cells) == len(found.source) * len(found.target)
    shown = [float(str(cell[1].get("fill-opacity"))) for cell in cells]
    np.testing.assert_allclose(shown, found.alignment().flatten(), atol=5.1e-4)


def test_the_svg_shows_markup_as_text(translator: Model) -> None:
    texts = [
        e.text for e in ElementTree.fromstring(look(translator, NASTY, "x").merged().draw().svg()).iter(f"{SVG}text")
    ]
    assert "</" in texts
    assert "script" in texts


def test_the_page_holds_a_nasty_text_as_data(translator: Model) -> None:
    found = look(translator, NASTY, NASTY)
    page = found.to_html()
    parsed = Parsed(page)
    scripts = parsed.all("script")
    assert scripts == [{"type": "application/json", "data-json": None}, {"type": "module"}]
    held = "".join(text for tag, text in parsed.texts if tag == "script")
    data, _ = json.JSONDecoder().raw_decode(held)
    assert data == json.loads(json.dumps(found.to_page()))
    assert data["source"] == NASTY
    assert next(text for tag, text in parsed.texts if tag == "dd") == NASTY
    title = next(text for tag, text in parsed.texts if tag == "title")
    assert title == f"Attention: {NASTY}"
    assert not re.search(r"\{\{(?!data)\w+\}\}", page), "a place was left unfilled"


def test_the_page_loads_nothing(seen: Look) -> None:
    page = seen.to_html()
    parsed = Parsed(page)
    addresses = set(re.findall(r"\w+://[^\"'\s<)]*", page))
    assert addresses == {"http://www.w3.org/2000/svg"}
    loading = {"src", "href", "srcset", "action", "style"}
    for tag, attributes in parsed.elements:
        assert not loading & set(attributes), tag
        assert not any(name.startswith("on") for name in attributes), tag
    assert not re.search(
        r"@import|url\(|innerHTML|insertAdjacent|document\.write|fetch\(|import\(|^import ", page, re.M
    )


def test_the_policy_allows_only_what_is_in_the_page(seen: Look) -> None:
    import base64
    import hashlib

    page = seen.to_html()
    policy = next(m["content"] for m in Parsed(page).all("meta") if m.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    for tag, opening in (("style", "<style>"), ("script", '<script type="module">')):
        inside = re.search(rf"{opening}(.*?)</{tag}>", page, re.DOTALL)
        assert inside is not None
        digest = base64.b64encode(hashlib.sha256(inside[1].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_a_notebook_gets_the_page_in_a_frame(translator: Model) -> None:
    found = look(translator, NASTY, "x")
    frames = Parsed(found._repr_html_()).elements
    assert [tag for tag, _ in frames] == ["iframe"]
    assert frames[0][1]["srcdoc"] == found.to_html()
    assert frames[0][1]["sandbox"] == "allow-scripts"


def test_the_terminal_picture_has_a_row_for_each_word(seen: Look) -> None:
    merged = seen.merged()
    cross = merged.weights["cross"].copy()
    cross[0, 0] = np.array([0.0, 0.06, 0.25, 0.5, 0.95, 0.0])
    merged.weights["cross"] = cross
    lines = merged.draw(layer=0, head=0).text().splitlines()
    rows = [line for line in lines if line.strip().startswith(("el", "perro", "pequeño", "no", "duerme", END))]
    assert [row.split(" ", 1)[0] for row in map(str.lstrip, rows)] == list(merged.target)
    assert all(row.endswith(" · ░░▒▒▓▓██·") for row in rows)
    header = lines[2 : lines.index(rows[0])]
    start = rows[0].index("·")
    for j, name in enumerate(merged.source):
        column = "".join(line.ljust(200)[start + 2 * j] for line in header).strip()
        assert column == name
    assert "\x1b" not in "".join(lines)


class TestCommand:
    @pytest.fixture
    def folder(self, translator: Model, tmp_path: Path) -> Path:
        translator.bundle.save(tmp_path / "model")
        return tmp_path

    def run(self, *arguments: object) -> str:
        result = CliRunner().invoke(app, ["look", *map(str, arguments)])
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result.output

    def test_writes_the_page_by_default(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(folder)
        said = self.run("model", TEXT, "--target", "el perro")
        assert "attention.html" in said
        assert Parsed((folder / "attention.html").read_text(encoding="utf-8")).all("script")
        assert sorted(p.name for p in folder.iterdir()) == ["attention.html", "model"]

    def test_writes_what_is_asked_and_no_page(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(folder)
        said = self.run("model", TEXT, "--target", "el perro", "--svg", "a.svg", "--json", "a.json", "--terminal")
        assert ElementTree.parse(folder / "a.svg").getroot().tag == f"{SVG}svg"
        assert json.loads((folder / "a.json").read_text(encoding="utf-8"))["target"] == "el perro"
        assert "perro" in said
        assert "from 0.05" in said
        assert not (folder / "attention.html").exists()

    def test_tells_mistakes_before_any_work(self, folder: Path) -> None:
        with pytest.raises(UserError, match="no folder"):
            self.run(folder / "model", TEXT, "--out", folder / "nowhere" / "a.html")
        with pytest.raises(UserError, match="is a folder"):
            self.run(folder / "model", TEXT, "--svg", folder)
        with pytest.raises(UserError, match="no model at"):
            self.run(folder / "other", TEXT)
