"""Every view as SVG, PNG, text and numbers; a page of bounded size; a trace shown with its tokens."""

import base64
import json
import re
import struct
import zlib
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from regard.api import Model
from regard.cli import app
from regard.errors import UserError
from regard.models import Transformer
from regard.nn.attention import Full, Mask, MultiHead
from regard.view import look as look_module
from regard.view import page, png
from regard.view.look import Look, look
from regard.view.pack import pack_floats, pack_weights
from regard.view.pictures import LEAST, pooled
from regard.view.record import record
from regard.view.words import END, START

SVG = "{http://www.w3.org/2000/svg}"
NASTY = '<b>"x"</b> & ]]> \x01'


@pytest.fixture(scope="module")
def seen(translator: Model) -> Look:
    translator.bundle.decode = translator.options(beam=2, max_length=5)
    return look(translator, "the small dog didn't sleep")


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which nothing renders SVG."""
    monkeypatch.setattr(png, "find_spec", lambda name: None)
    monkeypatch.setattr(png.shutil, "which", lambda name: None)


def pixels(image: bytes) -> np.ndarray:  # type: ignore[type-arg]
    """A PNG of this library's, read again by the book."""
    assert image[:8] == b"\x89PNG\r\n\x1a\n"
    at, parts = 8, {}
    while at < len(image):
        size, name = struct.unpack(">I4s", image[at : at + 8])
        body = image[at + 8 : at + 8 + size]
        assert struct.unpack(">I", image[at + 8 + size : at + 12 + size])[0] == zlib.crc32(name + body)
        parts[name], at = body, at + 12 + size
    width, height, depth, colour = struct.unpack(">IIBB", parts[b"IHDR"][:10])
    assert (depth, colour) == (8, 2)
    lines = np.frombuffer(zlib.decompress(parts[b"IDAT"]), np.uint8).reshape(height, 1 + 3 * width)
    assert not lines[:, 0].any()
    return lines[:, 1:].reshape(height, width, 3)


class TestSVG:
    def test_lines_are_the_weights_from_the_least_on(self, seen: Look) -> None:
        root = ElementTree.fromstring(seen.draw("heads", kind="encoder", layer=1).svg())
        paths = root.findall(f"{SVG}path")
        weights = seen.weights["encoder"][1]
        assert len(paths) == (weights >= LEAST).sum() > 10
        shown = sorted(float(str(p.get("stroke-opacity"))) for p in paths)
        np.testing.assert_allclose(shown, np.sort(weights[weights >= LEAST]), atol=0.0051)
        alone = ElementTree.fromstring(seen.draw("heads", kind="encoder", layer=1, head=2).svg())
        assert len(alone.findall(f"{SVG}path")) == (weights[2] >= LEAST).sum()

    @pytest.mark.parametrize("view", ["alignment", "heads", "grid", "positions", "next"])
    def test_every_picture_is_well_formed_whatever_the_text(self, translator: Model, view: str) -> None:
        root = ElementTree.fromstring(look(translator, NASTY, NASTY).draw(view).svg())
        assert root.tag == f"{SVG}svg"
        assert not [e for e in root.iter() if e.tag == f"{SVG}b"]

    def test_thumbnails_keep_the_strongest(self) -> None:
        matrix = np.zeros((500, 100))
        matrix[499, 99] = 0.9
        matrix[250, 3] = 0.7
        small = pooled(matrix, 48)
        assert small.shape == (48, 48)
        assert sorted(small[small > 0]) == [0.7, 0.9]
        assert pooled(matrix[:5, :7], 48).shape == (5, 7)

    def test_a_large_map_is_no_large_file(self) -> None:
        from regard.view.svg import heat

        names = [str(i) for i in range(300)]
        assert len(heat(np.eye(300), names, names, "x")) < 60_000


class TestPNG:
    def test_a_heat_map_needs_nothing(self, seen: Look, bare: None) -> None:
        image = pixels(seen.draw().png())
        weights = seen.alignment()
        cell = 900 // max(weights.shape)
        assert image.shape == (cell * weights.shape[0], cell * weights.shape[1], 3)
        paper, ink = np.array([243, 242, 239]), np.array([63, 81, 197])
        expected = np.rint(paper + weights[..., None] * (ink - paper))
        np.testing.assert_array_equal(image[::cell, ::cell], expected)
        assert pixels(seen.draw("positions").png()).shape[0] == 64 * (900 // 64)

    def test_what_needs_words_says_so(self, seen: Look, bare: None) -> None:
        with pytest.raises(UserError, match="cairosvg"):
            seen.draw("heads").png()

    def test_a_renderer_gets_the_svg(self, seen: Look, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        tool = tmp_path / "rsvg-convert"
        tool.write_text("#!/bin/sh\necho rendered $*\ncat\n")
        tool.chmod(0o755)
        monkeypatch.setattr(png, "find_spec", lambda name: None)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        image = seen.draw("next").png()
        assert image.startswith(b"rendered --zoom 2\n<svg ")


class TestText:
    def test_heads_name_where_most_goes(self, seen: Look) -> None:
        said = seen.draw("heads", kind="encoder", layer=0, head=1).text().splitlines()
        row = seen.weights["encoder"][0, 1, 0]
        best = int(row.argmax())
        assert said[2].split("→")[1].split()[:2] == [seen.axes["source"].labels[best], f"{row[best]:.2f}"]

    def test_steps_are_the_tokens(self, seen: Look) -> None:
        said = seen.draw("steps", kind="decoder", layer=2, head=3, token=1).text()
        steps = next(v for v in seen.vectors if (v.kind, v.layer) == ("decoder", 2)).steps(3, 1)
        for score, weight in zip(steps.scores, steps.weights, strict=True):
            assert f"{score:.2f}" in said
            assert f"{weight:.3f}" in said
        assert said.count("future") == len(seen.target) - 2

    def test_positions_and_norms(self, seen: Look) -> None:
        assert "██" in seen.draw("positions").text()
        assert "layer 2, attention" in seen.draw("norms", kind="encoder", layer=1).text()
        with pytest.raises(UserError, match="no such token: there are"):
            seen.draw("norms", token=99).text()
        with pytest.raises(UserError, match="no norms of layer 8"):
            seen.draw("norms", layer=7).text()


class TestNumbers:
    @pytest.mark.parametrize("view", ["alignment", "heads", "grid", "steps", "next", "positions", "norms"])
    def test_every_view_has_them(self, seen: Look, view: str) -> None:
        numbers = seen.draw(view).numbers()
        assert json.loads(json.dumps(numbers, allow_nan=False)) == numbers

    def test_what_there_is_not_is_told(self, seen: Look) -> None:
        with pytest.raises(UserError, match="grid cannot be had as text; that can be alignment"):
            seen.draw("grid").text()
        with pytest.raises(UserError, match="no self attention; there is encoder"):
            seen.draw("heads", kind="self").svg()
        with pytest.raises(UserError, match="over words"):
            seen.merged().draw("steps").text()


class TestPacking:
    def test_weights_are_right_to_the_digits_kept(self) -> None:
        weights = np.random.default_rng(0).random((2, 3, 4, 5)).astype(np.float32)
        found = pack_weights(weights)
        np.testing.assert_allclose(unpacked(found), weights, atol=5.1e-5)
        many = pack_weights(np.broadcast_to(np.float32(0.12345), (1_000_001,)))
        assert unpacked(many)[0] == pytest.approx(0.123)

    def test_vectors_are_the_same_to_the_bit(self) -> None:
        values = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
        np.testing.assert_array_equal(unpacked(pack_floats(values)), values)


def unpacked(found: dict) -> np.ndarray:  # type: ignore[type-arg]
    kinds = {"uint16": "<u2", "float32": "<f4"}
    values = np.frombuffer(zlib.decompress(base64.b64decode(found["data"])), kinds[found["packed"]])
    return values.reshape(found["shape"]) * found["scale"]


class TestPage:
    def test_vectors_beyond_the_budget_stay_out(self, seen: Look, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = seen.to_page()
        assert whole["steps"]["note"] is None
        assert len(whole["steps"]["parts"]) == 2 + 3 + 3
        every = sum(v.size for v in (*seen.vectors, *seen.norms))
        monkeypatch.setattr(look_module, "BUDGET", every - 1)
        one = seen.to_page(layer=1)
        assert [p["layer"] for p in one["steps"]["parts"]] == [1, 1, 1]
        assert {p["layer"] for p in one["norms"]["parts"]} == {1}
        assert one["steps"]["note"].startswith("Here is layer 2 alone")
        monkeypatch.setattr(look_module, "BUDGET", 10)
        none = seen.to_page()
        assert none["steps"]["parts"] == none["norms"]["parts"] == []
        assert "shorter text" in none["steps"]["note"]

    def test_every_module_is_in_the_script_once(self) -> None:
        script = page.bundled("look.js")
        names = re.findall(r"^const (\w+)_js = \(\(\) => \{$", script, re.MULTILINE)
        assert len(names) == len(set(names))
        views = {"alignment", "grid", "heads", "nextword", "norms", "positions", "roles", "steps"}
        parts = {"attend", "board", "data", "dom", "heat", "lines", "look", "shared", "strip"}
        assert views | parts == set(names)
        assert names[-1] == "look"

    def test_every_name_that_a_module_imports_is_there_and_used(self) -> None:
        folder = Path(page.__file__).with_name("page")
        texts = {p.name: p.read_text(encoding="utf-8") for p in folder.glob("*.js")}
        exports = {name: set(re.findall(r"^export .*?(?:function|const) (\w+)", t, re.M)) for name, t in texts.items()}
        for name, text in texts.items():
            for imported, module in re.findall(r'^import \{ (.+) \} from "regard/(\w+\.js)";$', text, re.M):
                for one in imported.split(", "):
                    theirs, _, mine = one.partition(" as ")
                    assert theirs in exports[module], f"{name}: {module} has no {theirs}"
                    assert len(re.findall(rf"\b{mine or theirs}\b", text)) > 1, f"{name} does not use {one}"

    def test_an_odd_import_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(page, "part", lambda name: 'import * as all from "regard/dom.js";\n')
        with pytest.raises(ValueError, match="one form"):
            page.bundled.__wrapped__("odd.js")

    def test_a_long_text_has_no_still_picture(self) -> None:
        from regard.view.axes import Axis

        axis = Axis.of([f" w{i}" for i in range(80)])
        weights = {"encoder": np.full((1, 2, 80, 80), 1 / 80)}
        assert "<svg" not in Look("x", "", ("", ""), {"source": axis}, weights).to_html()


class TestTrace:
    SOURCE = torch.tensor([[5, 6, 7, 8, 9, 3], [10, 11, 12, 3, 0, 0]])
    LENGTHS = torch.tensor([6, 4])
    TARGET = torch.tensor([[2, 20, 21, 22, 23], [2, 24, 25, 0, 0]])

    def test_it_is_shown_with_its_tokens(self, network: Transformer) -> None:
        with torch.no_grad(), record(network, full=True) as trace:
            network(self.SOURCE, self.LENGTHS, self.TARGET)
        found = trace.show([" a", " b", "c", END], [" x", " y", END], row=1)
        assert found.read == (START, " x", " y")
        assert {kind: w.shape for kind, w in found.weights.items()} == {
            "encoder": (2, 4, 4, 4), "decoder": (3, 4, 3, 3), "cross": (3, 4, 3, 4),
        }  # fmt: skip
        np.testing.assert_allclose(found.weights["cross"][2], trace.weights("cross", 2)[1, :, :3, :4].numpy())
        np.testing.assert_allclose(found.weights["cross"].sum(-1), 1, atol=1e-5)
        assert found._repr_html_().startswith("<iframe")
        steps = found.draw("steps", kind="cross", layer=0, token=1)
        assert len(steps.numbers()["weights"]) == 6, "padding is shown, apart"
        assert sum(steps.numbers()["padding"]) == 2
        assert "padding" in steps.text()

    def test_any_module_with_attention_will_do(self) -> None:
        attention = MultiHead(8, 2, Full(), bias=False).eval()
        with torch.no_grad(), record(attention) as trace:
            attention(torch.randn(1, 3, 8), None, Mask())
        found = trace.show(["one", "two", "three"])
        assert found.draw("heads").svg()
        assert "Attention: mean of heads" in found.draw().text()
        with pytest.raises(UserError, match="bare trace"):
            found.draw("next").svg()

    def test_tokens_that_do_not_fit_are_told(self, network: Transformer) -> None:
        with torch.no_grad(), record(network) as trace:
            network(self.SOURCE, self.LENGTHS, self.TARGET)
        with pytest.raises(UserError, match="7 source tokens were given, but encoder attention has 6"):
            trace.show(["a"] * 7)
        assert set(trace.show(["a"] * 6).weights) == {"encoder"}


class TestCommand:
    @pytest.fixture
    def folder(self, translator: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        translator.bundle.save(tmp_path / "model")
        monkeypatch.chdir(tmp_path)
        return tmp_path

    def run(self, *arguments: object) -> str:
        result = CliRunner().invoke(app, ["look", "model", *map(str, arguments)])
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result.output

    def test_a_view_and_a_place_are_drawn(self, folder: Path, bare: None) -> None:
        text = ("the small dog", "--target", "el perro")
        said = self.run(*text, "--view", "steps", "--at", "encoder.2.3", "--token", "2", "--terminal")
        assert "layer 2, head 3" in said
        assert "the query of " in said
        self.run(*text, "--view", "heads", "--at", "decoder.3", "--svg", "a.svg")
        assert "layer 3 of 3, all heads" in (folder / "a.svg").read_text(encoding="utf-8")
        said = self.run(*text, "--png", "a.png", "--json", "a.json", "--view", "positions")
        assert "wrote a.png without its words" in said
        assert pixels((folder / "a.png").read_bytes()).shape[0] > 100
        assert len(json.loads((folder / "a.json").read_text())["products"]) == 64

    def test_roles_need_no_text(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("regard.view.roles.SENTENCES", 12)
        said = self.run("--view", "roles", "--terminal", "--json", "roles.json")
        assert "verb → who" in said
        assert json.loads((folder / "roles.json").read_text())["sentences"] == 12
        with pytest.raises(UserError, match="no text"):
            self.run("--terminal")
        with pytest.raises(UserError, match="no text"):
            self.run("--view", "roles")

    def test_a_layer_that_is_not_there_is_told_as_it_was_written(self, folder: Path) -> None:
        with pytest.raises(UserError, match="layers 1 to 2 with heads 1 to 4"):
            self.run("a dog", "--target", "x", "--at", "encoder.3", "--terminal")

    @pytest.mark.parametrize(
        ("asked", "said"),
        [
            ("--view next --at cross.1.2", "--view next takes no --at"),
            ("--view grid --at cross.1.2 --svg a.svg", "--view grid takes --at KIND alone"),
            ("--view norms --at encoder.1.2 --terminal", "--view norms takes --at KIND.LAYER, no head"),
            ("--view grid --token 7 --svg a.svg", "--token is for --view steps or norms"),
            ("--view steps --token 2", "with --terminal or --json"),
        ],
    )
    def test_what_a_view_does_not_heed_is_told(self, folder: Path, asked: str, said: str) -> None:
        with pytest.raises(UserError, match=re.escape(said)):
            self.run("a dog", "--target", "x", *asked.split())

    @pytest.mark.parametrize("at", ["self", "cross.0", "cross.1.2.3", "cross.x", "3"])
    def test_a_place_that_is_none_is_told(self, folder: Path, at: str) -> None:
        with pytest.raises(UserError, match=r"KIND\[\.LAYER\[\.HEAD\]\]"):
            self.run("a dog", "--at", at, "--terminal")
