"""The pages in a real browser: a person types, clicks and reads, and what they read is what Python computed."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, Page, Route

from regard.api import Model
from regard.bundle import Bundle
from regard.data.grammar import generate
from regard.text import Tokenizer
from regard.view.axes import Axis
from regard.view.look import Look, look
from regard.view.page import part
from regard.view.roles import Roles, roles
from regard.view.words import END, START
from tests.view.conftest import transformer

TEXT = "the small dog didn't sleep"
TARGET = "el perro pequeño no duerme"
NASTY = "the <script>alert('x')</script> & <img src=x onerror=alert(1)> didn't sleep"
TABS = ("alignment", "heads", "grid", "steps", "next", "positions", "norms", "roles")


class Opener:
    """Opens pages from files, and notes what goes wrong in them and what they ask of the network."""

    def __init__(self, browser: Browser, folder: Path) -> None:
        self.browser, self.folder = browser, folder
        self.troubles: list[str] = []
        self.pages: dict[tuple[int, bool], Page] = {}  # one window of each sort does for all tests
        self.opened = 0

    def __call__(self, html: str, *, width: int = 1280, scripts: bool = True, ready: bool = True) -> Page:
        if (width, scripts) not in self.pages:
            self.pages[width, scripts] = self._window(width, scripts)
        page = self.pages[width, scripts]
        self.opened += 1
        file = self.folder / f"{self.opened}.html"
        file.write_text(html, encoding="utf-8")
        page.goto(file.as_uri())
        if scripts and ready:
            page.wait_for_selector("html[data-ready]", state="attached")
        return page

    def _window(self, width: int, scripts: bool) -> Page:
        page = self.browser.new_page(viewport={"width": width, "height": 800}, java_script_enabled=scripts)
        page.set_default_timeout(20_000)
        page.on("console", lambda m: self.troubles.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda e: self.troubles.append(str(e)))
        page.on("dialog", lambda d: self.troubles.append(f"dialog: {d.message}"))
        page.on("request", lambda r: None if r.url.startswith("file:") else self.troubles.append(r.url))
        return page


@pytest.fixture(scope="module")
def opener(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Opener:
    return Opener(browser, tmp_path_factory.mktemp("pages"))


@pytest.fixture
def opened(opener: Opener) -> Iterator[Opener]:
    opener.troubles.clear()
    yield opener
    assert opener.troubles == []


@pytest.fixture(scope="module")
def seen(translator: Model) -> Look:
    return look(translator, TEXT, TARGET)


@pytest.fixture(scope="module")
def table() -> Roles:
    """A model of random weights that knows the grammar's words."""
    sentences = list(generate("test", 40))
    tokenizers = [Tokenizer.learn([getattr(s, side) for s in sentences], "bpe", 400) for side in ("source", "target")]
    sizes = {"source_vocabulary": len(tokenizers[0]), "target_vocabulary": len(tokenizers[1]), "tie": ()}
    return roles(Model([Bundle(transformer(1, **sizes), *tokenizers, ("en", "es"), 64)]), sentences)


@pytest.fixture(scope="module")
def html(seen: Look, table: Roles) -> str:
    return seen.to_html(table)


def go(page: Page, tab: str) -> Locator:
    """The panel of a tab, opened."""
    page.get_by_role("tab").and_(page.locator(f"#tab-{tab}")).click()
    return page.locator(f"#panel-{tab}")


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def numbers(text: str) -> list[float]:
    return [float(n.replace("−", "-")) for n in re.findall(r"[-−]?\d+(?:\.\d+)?", text)]


def two(value: float) -> float:
    return round(value, 2) + 0.0


def test_the_alignment_tells_the_number_of_a_square(html: str, seen: Look, opened: Opener) -> None:
    panel = go(page := opened(html), "alignment")
    panel.get_by_role("application").focus()
    press(page, "ArrowDown", "ArrowRight", "ArrowRight", "ArrowDown")  # the first key only enters
    merged = seen.merged()
    expected = merged.alignment()[1, 2]
    read = panel.locator(".r-under .r-read")
    assert read.inner_text() == f"{merged.target[1]} takes {expected:.2f} from {merged.source[2]}"
    panel.get_by_label("Layer").select_option(index=0)
    panel.get_by_label("Head").select_option(index=4)  # after their mean
    assert numbers(read.inner_text()) == [pytest.approx(merged.alignment(0, 3)[1, 2], abs=0.0051)]
    panel.get_by_role("button", name="Subwords").click()
    assert numbers(read.inner_text()) == [pytest.approx(seen.alignment(0, 3)[1, 2], abs=0.0051)]
    shown = panel.locator(".r-heat-rows span").all_inner_texts()
    assert shown == seen.axes["target"].labels
    panel.get_by_role("application").focus()
    press(page, "Escape")
    assert panel.locator(".r-heat-ring").is_hidden()


def test_heads_are_chosen_and_their_weights_read(html: str, seen: Look, opened: Opener) -> None:
    panel = go(page := opened(html), "heads")
    merged = seen.merged()
    panel.get_by_role("button", name="Input–Input").click()
    panel.get_by_label("Layer").select_option(index=1)
    panel.get_by_role("button", name="Solo").click()
    panel.get_by_role("button", name="Head 3").click()
    panel.locator(".r-left").get_by_role("button", name="sleep").click()
    row = merged.weights["encoder"][1, 2, 4]
    found = dict(zip(panel.locator(".r-numbers button").all_inner_texts(), read_all(panel), strict=True))
    best = sorted(range(len(row)), key=lambda j: -row[j])
    assert found == {merged.source[j]: pytest.approx(two(row[j]), abs=0.0101) for j in best if row[j] >= 0.005}
    assert (
        panel.locator("[aria-live]")
        .inner_text()
        .startswith(f"sleep looks at {merged.source[best[0]]} {row[best[0]]:.2f}")
    )
    panel.get_by_role("button", name="All", exact=True).click()
    mean = merged.weights["encoder"][1, :, 4].mean(0)
    assert max(read_all(panel)) == pytest.approx(mean.max(), abs=0.0051)
    panel.locator(".r-right").get_by_role("button", name="dog").click()
    assert panel.locator(".r-aside h3").inner_text().startswith("dog is seen by")
    press(page, "Escape")
    assert panel.locator(".r-aside h3").inner_text() == "Strongest lines"
    strongest = merged.weights["encoder"][1].max()
    assert read_all(panel)[0] == pytest.approx(strongest, abs=0.0051)


def read_all(panel: Locator) -> list[float]:
    return [float(text) for text in panel.locator(".r-numbers b").all_inner_texts()]


def test_only_lines_from_the_threshold_on_are_drawn(html: str, opened: Opener) -> None:
    panel = go(opened(html), "heads")
    drawn = "c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(x => x)"
    canvas = panel.locator("canvas")
    assert canvas.evaluate(drawn)
    slider = panel.get_by_label("Lines from")
    slider.fill("0.9")
    assert not canvas.evaluate(drawn), "a small model of random weights has no weight of 0.9"
    assert "No weight is above 0.90" in panel.locator(".r-aside").inner_text()
    slider.fill("0.05")
    assert canvas.evaluate(drawn)
    panel.get_by_role("button", name="None").click()
    assert not canvas.evaluate(drawn)
    assert "No head is shown" in panel.locator(".r-aside").inner_text()


def test_tokens_are_reached_by_keys(html: str, seen: Look, opened: Opener) -> None:
    panel = go(page := opened(html), "heads")
    panel.locator(".r-left button").first.focus()
    press(page, "ArrowDown", "ArrowDown", "ArrowRight")
    heading = panel.locator(".r-aside h3")
    assert heading.inner_text().startswith(f"{seen.merged().source[2]} is seen by")
    press(page, "End")
    assert heading.inner_text().startswith(f"{END} is seen by")
    assert page.locator("[tabindex='0']:focus").inner_text() == END


def test_the_grid_enlarges_a_head(html: str, seen: Look, opened: Opener) -> None:
    panel = go(page := opened(html), "grid")
    panel.get_by_role("button", name="Output–Output").click()
    panel.get_by_role("button", name="Layer 3, head 2").click()
    dialog = page.get_by_role("dialog")
    assert dialog.locator("h3").inner_text().startswith("Layer 3, head 2")
    dialog.get_by_role("application").focus()
    press(page, "ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight")
    merged = seen.merged()
    expected = merged.weights["decoder"][2, 1, 2, 1]
    read = dialog.locator(".r-read").inner_text()
    assert read == f"{merged.target[2]} looks at {merged.read[1]}: {expected:.3f}"
    dialog.get_by_role("button", name="Head after").click()
    assert dialog.locator("h3").inner_text().startswith("Layer 3, head 3")
    dialog.get_by_role("button", name="Its lines").click()
    heads = page.locator("#panel-heads")
    assert heads.locator(".r-chip[aria-pressed=true]").all_inner_texts() == ["3"]


def test_the_board_does_thinking_machines(html: str, opened: Opener) -> None:
    panel = go(opened(html), "steps")
    panel.get_by_role("button", name="Thinking Machines").click()
    told, table = panel.locator(".r-told"), panel.locator("tbody tr")
    said = []
    for _ in range(5):
        panel.get_by_role("button", name="Next step").click()
        said.append(told.inner_text())
    assert "= 112 for Thinking and 96 for Machines" in said[0]
    assert "square root of 64, 8," in said[1]
    assert "14 for Thinking and 12 for Machines" in said[1]
    assert "0.88 for Thinking and 0.12 for Machines" in said[2]
    assert [numbers(text) for text in table.all_inner_texts()] == [[112, 14, 0.881], [96, 12, 0.119]]
    panel.get_by_role("button", name="Causal mask").click()
    assert "future" in table.nth(1).inner_text()
    assert numbers(table.nth(0).inner_text()) == [112, 14, 1]
    panel.get_by_role("button", name="Padding mask").click()
    assert re.search(r"<pad>\s+64\s+8\s+−∞\s*padding\s+0\.000", table.nth(2).inner_text())


@pytest.mark.parametrize(("kind", "name", "token"), [("encoder", "Input–Input", 3), ("decoder", "Output–Output", 2)])
def test_the_board_has_the_models_own_numbers(
    html: str, seen: Look, opened: Opener, kind: str, name: str, token: int
) -> None:
    panel = go(opened(html), "steps")
    panel.get_by_role("button", name=name).click()
    panel.get_by_label("Layer").select_option(index=1)
    panel.get_by_label("Head").select_option(index=2)
    panel.locator(".r-tokens button").nth(token).click()
    vectors = next(v for v in seen.vectors if (v.kind, v.layer) == (kind, 1))
    steps = vectors.steps(2, token)
    rows = panel.locator("tbody tr").all_inner_texts()
    assert len(rows) == len(steps.weights)
    for j, text in enumerate(rows):
        found = numbers(re.sub(r"^\S+", "", text))
        expected = [steps.scores[j], steps.scaled[j], steps.weights[j]]
        np.testing.assert_allclose(found, expected, atol=0.0051)
        assert ("future" in text) == (kind == "decoder" and j > token)
    np.testing.assert_allclose(steps.weights, seen.weights[kind][1, 2, token], atol=1e-5)
    np.testing.assert_allclose(numbers(panel.locator(".r-told").inner_text())[1:], steps.sum[:4], atol=0.0051)


def test_a_head_of_few_numbers_has_them_all_written_out(opened: Opener) -> None:
    tokenizer = Tokenizer.learn([TEXT, TARGET], "word", 50)
    narrow = look(Model([Bundle(transformer(len(tokenizer), heads=8), tokenizer, tokenizer, ("en", "es"), 50)]), TEXT)
    panel = go(opened(narrow.to_html()), "steps")
    panel.get_by_role("button", name="Step 2").click()
    told = panel.locator(".r-told").inner_text()
    assert told.count("·") == 2
    assert "…" not in told
    panel.get_by_role("button", name="Step 6").click()
    assert re.search(r"\([−\d.]+, [−\d.]+\)$", panel.locator(".r-told").inner_text())


def test_the_positions_are_the_sinusoids(html: str, seen: Look, opened: Opener) -> None:
    panel = go(page := opened(html), "positions")
    assert seen.positions is not None
    table, products = seen.positions.table, seen.positions.products
    assert table is not None
    assert products is not None
    panel.get_by_role("application").nth(0).focus()
    press(page, "ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight")
    read = panel.locator(".r-under .r-read")
    assert read.nth(0).inner_text() == f"position 2, number 1: cos(2 / 10000^(0/16)) = {table[2, 1]:.3f}".replace(
        "-", "−"
    )
    panel.get_by_role("application").nth(1).focus()
    press(page, "ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight")
    assert read.nth(1).inner_text() == f"position 1 with 3: {products[1, 3]:.1f}"
    panel.get_by_role("slider").fill("7")
    told = panel.locator(".r-apart .r-read").inner_text()
    assert told == f"Position 7 with itself: {products[7, 7]:.1f}, with 8: {products[7, 8]:.1f}"


def test_the_norm_is_the_models_and_the_batch_matters_to_batch_norm_alone(
    html: str, seen: Look, opened: Opener
) -> None:
    panel = go(opened(html), "norms")
    panel.get_by_label("Norm").select_option(index=1)
    panel.locator(".r-tokens button").nth(2).click()
    norm, told = seen.norms[1], panel.locator("p[aria-live]")
    x = norm.x[2]
    expected = [x.mean(), np.sqrt(x.var() + norm.eps), x[0], norm.normalised()[2, 0], norm.output()[2, 0]]
    read = numbers(told.inner_text().split(":", 1)[1])
    np.testing.assert_allclose([*read[:5], read[-1]], [*expected, norm.batch()[2, 0]], atol=0.0006)
    panel.get_by_label("Pieces in the batch").fill("1")
    alone = numbers(told.inner_text().split(":", 1)[1])
    assert alone[:5] == read[:5]
    assert alone[-1] == 0


def test_the_next_words_are_the_models(translator: Model, table: Roles, opened: Opener) -> None:
    translator.bundle.decode = translator.options(beam=3, max_length=6)
    found = look(translator, TEXT)
    assert found.next is not None
    assert found.next.beam is not None
    panel = go(opened(found.to_html()), "next")
    pieces = panel.locator(".r-sentence button")
    assert pieces.count() == len(found.next.steps)
    pieces.nth(1).click()
    step = found.next.steps[1]
    listed = panel.locator(".r-probabilities li")
    assert listed.locator("span:first-child").all_inner_texts()[: len(step.top)] == [token for token, _ in step.top]
    shown = [numbers(text)[0] for text in listed.locator("b").all_inner_texts()]
    np.testing.assert_allclose(shown[: len(step.top)], [p for _, p in step.top], atol=0.0011)
    assert f"{step.token} had probability {step.probability:.3f}" in panel.locator("p[aria-live]").inner_text()
    rows = panel.locator(".r-candidates tbody tr")
    beam = found.next.beam["steps"][1]
    assert rows.count() == len(beam)
    for text, candidate in zip(rows.all_inner_texts(), beam, strict=True):
        _, log_prob, fate = text.split("\t")
        assert numbers(log_prob) == [pytest.approx(candidate["log_prob"], abs=0.0051)]
        assert fate.startswith(candidate["fate"])
    kept = sum(c["fate"] != "dropped" for step in found.next.beam["steps"][:-1] for c in step)
    ended = sum(c["fate"] == "ended" for c in found.next.beam["steps"][-1])
    assert panel.locator(".r-lattice rect").count() == kept + ended


def test_a_given_output_was_not_searched_for(html: str, opened: Opener) -> None:
    panel = go(opened(html), "next")
    assert "given, not searched for" in panel.inner_text()
    assert panel.locator(".r-lattice").count() == 0


def test_the_table_of_roles_is_pythons(html: str, table: Roles, opened: Opener) -> None:
    panel = go(opened(html), "roles")
    for kind, name in (("encoder", "Input–Input"), ("cross", "Output–Input"), ("decoder", "Output–Output")):
        panel.get_by_role("button", name=name).click()
        relations = [r for r in table.relations if r.kind == kind]
        assert panel.locator("thead th").all_inner_texts()[1:] == [r.name for r in relations]
        for row, place in zip(panel.locator("tbody tr").all(), table.of(kind), strict=True):
            found = [float(text) for text in row.locator("td").all_inner_texts()]
            assert found == [pytest.approx(100 * table.share(r, place), abs=0.501) for r in relations]
        coloured = panel.locator("td.above").count()
        assert coloured == sum(table.above(r, place) for r in relations for place in table.of(kind))
        base = [float(text) for text in panel.locator("tfoot tr").nth(0).locator("td").all_inner_texts()]
        assert base == [pytest.approx(100 * table.base(r)[1], abs=0.501) for r in relations]
    panel.get_by_role("button", name="Input–Input").click()
    panel.locator("tbody td").first.click()
    relation, place = table.relations[0], table.of("encoder")[0]
    told = f"{table.hits(relation, place)} of {table.seen(relation)}"
    assert told in panel.locator("p[aria-live]").inner_text()
    words = panel.locator("mark").all_inner_texts()
    source, _, start, end = table.examples[relation]
    assert sorted(words) == sorted((source.split()[start], source.split()[end]))


def test_a_model_that_reads_no_english_is_told_what_roles_need(seen: Look, opened: Opener) -> None:
    panel = go(opened(seen.to_html("it takes a model that reads <b>English</b>")), "roles")
    assert panel.inner_text() == "it takes a model that reads <b>English</b>"


def test_a_language_without_a_name_is_called_by_its_code(seen: Look, opened: Opener) -> None:
    page = opened(replace(seen, languages=("en-simplified", "zh-Hans_CN")).to_html())
    assert page.locator("[data-name=source]").inner_text().lower() == "en-simplified"
    assert page.get_by_role("tab").count() > 0


def test_markup_in_a_text_is_text(translator: Model, opened: Opener) -> None:
    translator.bundle.decode = translator.options(beam=2, max_length=4)
    found = look(translator, NASTY)
    page = opened(found.to_html("<script>alert(1)</script>"))
    assert page.locator("[data-text=source]").inner_text() == NASTY
    for tab in TABS:
        go(page, tab)
    go(page, "heads").get_by_role("button", name="Input–Input").click()
    shown = page.locator("#panel-heads .r-left button").all_inner_texts()
    assert shown == list(found.merged().source)
    assert "<" in "".join(shown)
    page.locator("#panel-heads .r-left button").nth(1).click()
    assert page.locator("script").count() == 2
    assert page.locator("img").count() == 0


def test_the_policy_lets_nothing_else_run(html: str, opened: Opener) -> None:
    page = opened(html)
    ran = page.evaluate(
        """() => new Promise((done) => {
            document.addEventListener("securitypolicyviolation", (e) => done(e.violatedDirective));
            const script = document.createElement("script");
            script.src = "data:text/javascript,document.title='ran'";
            document.body.append(script);
            setTimeout(() => done("ran"), 3000);
        })"""
    )
    assert ran == "script-src-elem"
    assert page.title().startswith("Attention")
    assert len(opened.troubles) == 1
    assert "Content Security Policy" in opened.troubles.pop()


def test_without_scripts_there_is_the_picture(html: str, seen: Look, opened: Opener) -> None:
    page = opened(html, scripts=False)
    assert page.locator("svg").is_visible()
    assert str(page.locator("svg text").first.text_content()).startswith("Output (rows) looks at input")
    assert page.get_by_text("A weight is not an explanation").is_visible()


def test_a_notebooks_frame_shows_the_page(seen: Look, opened: Opener) -> None:
    page = opened(f"<!doctype html><title>notebook</title>{seen._repr_html_()}", ready=False)
    frame = page.frame_locator("iframe")
    frame.get_by_role("tab", name="Six steps").click()
    assert frame.locator("#panel-steps table").is_visible()


def test_tabs_go_round_by_keys(html: str, opened: Opener) -> None:
    page = opened(html)
    page.get_by_role("tab", selected=True).focus()
    seen = []
    for _ in TABS:
        seen.append(page.locator("[role=tab][aria-selected=true]").get_attribute("id"))
        assert page.locator("[role=tabpanel]:visible").count() == 1
        press(page, "ArrowRight")
    assert seen == [f"tab-{name}" for name in TABS]
    assert page.locator("#tab-alignment").get_attribute("aria-selected") == "true"


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_hangs_over_the_edge(html: str, opened: Opener, width: int) -> None:
    page = opened(html, width=width)
    for tab in TABS:
        go(page, tab)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, tab


def test_five_hundred_tokens_are_usable(opened: Opener) -> None:
    count = 512
    tokens = [f" w{i}" for i in range(count - 1)]
    weights = np.full((1, 8, count, count), 0.3 / count, np.float32)
    places = np.arange(count)
    for head in range(8):
        weights[0, head, places, (places + head) % count] += 0.5
        weights[0, head, places, (places + 2 * head + 40) % count] += 0.2
    axes = {"source": Axis.of([*tokens, END]), "target": Axis.of([*tokens, END]), "read": Axis.of([START, *tokens])}
    page = opened(Look("long", "long", ("en", "es"), axes, {"cross": weights}).to_html(view="heads"))
    panel = page.locator("#panel-heads")
    assert panel.locator(".r-left button").count() == count
    assert panel.locator("canvas").bounding_box()["height"] < 800  # type: ignore[index]
    assert "fainter lines are not drawn" in panel.inner_text()
    drawn = "c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(x => x)"
    panel.locator(".r-lines").evaluate("box => { box.scrollTop = 6000 }")
    page.wait_for_timeout(100)
    assert panel.locator("canvas").evaluate(drawn)
    panel.locator(".r-left button").nth(300).click()
    assert read_all(panel)[0] == pytest.approx(weights[0, :, 300].mean(0).max(), abs=0.0051)
    grid = go(page, "grid")
    sizes = grid.locator("canvas").evaluate_all("all => all.map(c => c.width)")
    assert sizes == [72] * 8


def test_the_modules_serve_another_page(seen: Look, browser: Browser) -> None:
    """As a server's page uses them: from addresses, by bare names, with plain lists for weights."""
    modules = sorted(p.name for p in Path(__file__).parents[2].joinpath("src/regard/view/page").glob("*.js"))
    names = ", ".join(f'"regard/{name}": "/static/view/{name}"' for name in modules)
    html = f"""<!doctype html><link rel="icon" href="data:,"><link rel="stylesheet" href="/static/view/style.css">
        <script type="importmap">{{"imports": {{{names}}}}}</script><div id="here"></div>"""

    def answer(route: Route) -> None:
        name = route.request.url.rsplit("/", 1)[1]
        kind = {"js": "text/javascript", "css": "text/css"}.get(name.rsplit(".", 1)[-1], "text/html")
        route.fulfill(body=part(name) if name else html, content_type=kind)

    page = browser.new_page()
    page.route("**/*", answer)
    page.goto("http://regard.test/")
    data = seen.to_page() | seen.to_dict()
    for name, text in (
        ("heads", "Strongest lines"),
        ("alignment", "Most from"),
        ("grid", "Layer 1"),
        ("steps", "softmax"),
    ):
        shown = page.evaluate(
            """async ([name, data]) => {
                const { mount } = await import(`regard/${name}.js`);
                const { unpack } = await import("regard/data.js");
                const root = document.getElementById("here");
                const view = mount(root, await unpack(data), {});
                await new Promise((done) => setTimeout(done, 50));
                const text = root.textContent;
                view.destroy();
                return [text, root.childElementCount];
            }""",
            [name, data],
        )
        assert text in shown[0], name
        assert shown[1] == 0
    page.close()
