"""The web page in a real browser: a person types, clicks and reads."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect
from serve.servers import listening, untrained

from regard.serve.models import Models
from regard.view.look import look
from regard.view.words import END

TEXT = "the man eats the bread today"
TABS = ("Alignment", "Heads", "Why this word?", "Next word", "All heads", "Six steps", "Positions", "Norms", "Roles")
NASTY = "the <script>alert(1)</script> <img src=x onerror=alert(2)> man"


class Visitor:
    """Opens the page, and notes what goes wrong in it and what it asks of other servers."""

    def __init__(self, browser: Browser, address: str) -> None:
        self.browser, self.address = browser, address
        self.troubles: list[str] = []
        self.contexts: list[BrowserContext] = []

    def __call__(self, fragment: str = "", *, width: int = 1280, key: bool = False, before: str = "") -> Page:
        context = self.browser.new_context(viewport={"width": width, "height": 900})
        self.contexts.append(context)
        page = context.new_page()
        page.add_init_script(before)
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        page.on("dialog", lambda dialog: self.troubles.append(f"dialog: {dialog.message}"))
        page.on("console", lambda m: self.troubles.append(m.text) if m.type == "error" and not key else None)
        page.on("request", lambda r: None if r.url.startswith(self.address) else self.troubles.append(r.url))
        page.goto(f"{self.address}/{fragment}")
        page.wait_for_selector("html[data-ready]", state="attached")
        return page


@pytest.fixture(scope="module")
def address(models: Models) -> Iterator[str]:
    with listening(models) as found:
        yield found


@pytest.fixture
def visit(browser: Browser, address: str) -> Iterator[Visitor]:
    visitor = Visitor(browser, address)
    yield visitor
    for context in visitor.contexts:
        context.close()
    assert visitor.troubles == []


def output(page: Page) -> str:
    return page.locator("[data-translation]").inner_text()


def test_what_is_typed_is_translated_and_looked_into(visit: Visitor, models: Models) -> None:
    model = models.by_direction["en", "es"].model
    best = model.n_best([TEXT], n_best=4, beam=4)[0]
    matrix = look(model, TEXT).merged().alignment()  # before the server looks: two at once would record each other
    page = visit()
    expect(page.locator("[data-inside]")).to_be_hidden()
    expect(page.locator("[data-intro]")).to_be_visible()
    page.get_by_label("Text to translate").press_sequentially(TEXT, delay=5)
    expect(page.locator("[data-translation]")).to_have_text("el hombre come el pan hoy")
    expect(page.locator("[data-confidence]")).to_have_text(f"confidence {best[0].confidence:.2f}")
    shown = page.locator("[data-alternatives] button").all_inner_texts()
    assert shown == [one.text for one in best[1:]]
    # The alignment beside it has the numbers that Python finds.
    cells = page.locator(".r-heat")
    cells.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    told = page.locator(".panel .r-read").first.inner_text()
    found = re.search(r"\d\.\d+", told)
    assert found
    assert float(found[0]) == pytest.approx(matrix[1, 0], abs=0.006)


def test_every_view_opens_and_says_something(visit: Visitor) -> None:
    page = visit(f"#text={TEXT.replace(' ', '+')}")
    expect(page.locator(".r-heat")).to_be_visible()
    for tab in TABS:
        page.get_by_role("tab", name=tab, exact=True).click()
        expect(page.get_by_role("tab", name=tab, exact=True)).to_have_attribute("aria-selected", "true")
        expect(page.get_by_role("tabpanel").locator(".r-lead, .r-small").first).to_be_visible()
        assert len(page.get_by_role("tabpanel").inner_text()) > 50, tab
    expect(page.get_by_role("tabpanel")).to_contain_text("the embedded corpus is in words that this model knows")


def test_why_refines_until_it_is_done(visit: Visitor) -> None:
    page = visit(f"#text={TEXT.replace(' ', '+')}&view=why")
    panel = page.get_by_role("tabpanel")
    expect(panel).to_contain_text("Why “")
    expect(panel).to_contain_text("masks; the thin lines are 95 % intervals")
    panel.get_by_role("button", name="pan", exact=True).click()
    expect(panel).to_contain_text("Why “pan”?")
    panel.get_by_role("button", name="Largest first").click()
    assert "bread" in panel.locator("li").first.inner_text()


def test_what_is_cleared_away_goes_on_no_longer(visit: Visitor) -> None:
    page = visit(f"#text={TEXT.replace(' ', '+')}&view=why")
    expect(page.get_by_role("tabpanel")).to_contain_text("Why “")
    page.get_by_role("button", name="Clear").click()
    expect(page.locator(".panel .r-view")).to_have_count(0)
    page.get_by_label("Text to translate").fill(TEXT)
    expect(page.get_by_role("tabpanel")).to_contain_text("Why “")


def test_heads_that_a_page_cannot_hold_are_asked_for(
    visit: Visitor, models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.view.look.BUDGET", 1)
    vectors = look(models.by_direction["en", "es"].model, TEXT).vectors
    steps = next(v for v in vectors if v.kind == "encoder").steps(1, 0)
    page = visit(f"#text={TEXT.replace(' ', '+')}&view=steps")
    panel = page.get_by_role("tabpanel")
    panel.get_by_label("Head").select_option(index=1)
    expect(panel.locator("tbody tr td:nth-child(5)")).to_have_text([f"{w:.3f}" for w in steps.weights])
    expect(panel.locator(".r-note")).to_be_empty()


def test_what_fails_is_told_in_every_view_and_asked_again(visit: Visitor) -> None:
    page = visit(key=True)
    page.route("**/api/look", lambda route: route.fulfill(status=503, json={"error": "Too busy"}))
    page.get_by_label("Text to translate").fill("the man eats")
    for tab in ("Heads", "Alignment"):
        page.get_by_role("tab", name=tab, exact=True).click()
        expect(page.get_by_role("tabpanel")).to_contain_text("Too busy")
    page.unroute("**/api/look")
    page.route("**/api/roles", lambda route: route.fulfill(status=503, json={"error": "Too busy"}))
    page.get_by_label("Text to translate").fill(TEXT)
    expect(page.locator(".r-heat")).to_be_visible()
    page.get_by_role("tab", name="Roles").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("Too busy")
    page.unroute("**/api/roles")
    page.get_by_role("tab", name="Heads", exact=True).click()
    page.get_by_role("tab", name="Roles").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("the embedded corpus")


def test_the_address_holds_what_is_seen_and_brings_it_back(visit: Visitor) -> None:
    page = visit()
    page.get_by_label("Text to translate").fill("my sister wants a cake")
    expect(page.locator("[data-translation]")).to_have_text("mi hermana quiere un pastel")
    page.get_by_role("tab", name="Heads", exact=True).click()
    expect(page.locator(".r-lines")).to_be_visible()
    again = visit("#" + page.url.partition("#")[2])
    expect(again.locator("[data-translation]")).to_have_text("mi hermana quiere un pastel")
    expect(again.get_by_role("tab", name="Heads", exact=True)).to_have_attribute("aria-selected", "true")
    expect(again.locator(".r-lines")).to_be_visible()


def test_several_sentences_are_looked_into_one_at_a_time(visit: Visitor) -> None:
    page = visit()
    page.get_by_label("Text to translate").fill("the man sees the fish\nthe woman buys the apple")
    expect(page.locator("[data-translation]")).to_have_text("el hombre ve el pescado\nla mujer compra la manzana")
    chips = page.locator("[data-sentences] button")
    expect(chips).to_have_count(2)
    chips.nth(1).click()
    expect(page.locator(".r-heat-rows")).to_contain_text("manzana")
    other = page.locator("[data-alternatives] button").first
    text = str(other.text_content())
    other.click()
    expect(page.locator(".r-heat-rows span")).to_have_text([*text.split("\n")[1].split(), END])
    # A link to it that comes into an open page brings it all.
    link = page.url.partition("#")[2]
    page.get_by_label("Text to translate").fill(TEXT)
    expect(page.locator("[data-translation]")).to_have_text("el hombre come el pan hoy")
    page.evaluate("link => { location.hash = link }", link)
    expect(page.locator("[data-translation]")).to_have_text(text)
    expect(chips.nth(1)).to_have_attribute("aria-pressed", "true")
    page.evaluate("link => { location.hash = link }", link.replace("alignment", "nonsense"))
    expect(page.get_by_role("tab", name="Alignment")).to_have_attribute("aria-selected", "true")


def test_an_alternative_can_be_looked_into(visit: Visitor) -> None:
    page = visit(f"#text={TEXT.replace(' ', '+')}&view=next")
    other = page.locator("[data-alternatives] button").first
    text = other.inner_text()
    other.click()
    assert output(page) == text
    expect(page.locator(".r-sentence")).to_contain_text(text.split()[-1])
    again = visit("#" + page.url.partition("#")[2])
    expect(again.locator("[data-translation]")).to_have_text(text)
    other.click()
    expect(page.locator("[data-translation]")).to_have_text("el hombre come el pan hoy")


def test_words_that_the_model_does_not_know_are_named(browser: Browser) -> None:
    with listening(Models([untrained("en", "es")])) as address:
        page = Visitor(browser, address)("#text=the+man+eats+Nothing+<b>")
        expect(page.locator("[data-unknown]")).to_have_text(re.compile("does not know: Nothing <b>|Nothing  <  b  >"))
        page.get_by_label("Text to translate").fill("the man eats")
        expect(page.locator("[data-unknown]")).to_be_hidden()


def test_what_is_no_language_is_not_looked_into(visit: Visitor) -> None:
    page = visit(f"#text={TEXT.replace(' ', '+')}")
    expect(page.locator(".r-heat")).to_be_visible()
    page.get_by_label("Text to translate").fill("123 456")
    expect(page.locator("[data-translation]")).to_have_text("123 456")
    expect(page.locator("[data-inside]")).to_be_hidden()


def test_the_request_can_be_sent_by_others(visit: Visitor, address: str) -> None:
    page = visit("#text=the+boy's+bread")
    page.locator("[data-request] summary").click()
    snippet = page.locator("[data-snippet]")
    expect(snippet).to_contain_text(f"curl {address}/translate")
    body = re.search(r"-d '(.*)'", snippet.inner_text())
    assert body
    assert json.loads(body[1].replace("'\\''", "'"))["q"] == "the boy's bread"
    page.get_by_role("button", name="Python").click()
    expect(snippet).to_contain_text('server.translate("the boy\'s bread", "en", "es")')
    compile(snippet.inner_text(), "snippet", "exec")


def test_markup_is_shown_as_it_is(visit: Visitor) -> None:
    page = visit()
    page.get_by_label("Text to translate").fill(NASTY)
    for tab in TABS:
        page.get_by_role("tab", name=tab, exact=True).click()
        expect(page.get_by_role("tabpanel").locator(".r-view p").first).to_be_visible()
    assert page.locator("main img").count() == 0


def test_a_phone_is_wide_enough(visit: Visitor) -> None:
    page = visit(f"#text={TEXT.replace(' ', '+')}", width=360)
    expect(page.locator(".r-heat")).to_be_visible()
    for tab in TABS:
        page.get_by_role("tab", name=tab, exact=True).click()
        expect(page.get_by_role("tabpanel").locator(".r-view p").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, tab


def test_by_keyboard(visit: Visitor) -> None:
    page = visit(f"#text={TEXT.replace(' ', '+')}")
    expect(page.locator(".r-heat")).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # to the text, past the header
    expect(page.get_by_label("Text to translate")).to_be_focused()
    expect(page.get_by_label("Text to translate")).to_have_value(TEXT)
    page.get_by_role("tab", name="Alignment").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Heads", exact=True)).to_be_focused()
    expect(page.locator(".r-lines")).to_be_visible()
    page.keyboard.press("End")
    expect(page.get_by_role("tab", name="Roles")).to_have_attribute("aria-selected", "true")


BLOCKED = "Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('', 'SecurityError'); } })"


@pytest.mark.parametrize("before", ["", BLOCKED])
def test_light_and_dark_by_hand(visit: Visitor, before: str) -> None:
    page = visit(before=before)
    colour = "getComputedStyle(document.body).backgroundColor"
    seen = set()
    for _ in range(3):
        page.get_by_label("Light or dark").click()
        seen.add(page.evaluate(colour))
    assert len(seen) == 2


def test_over_plain_http_there_is_a_way_to_copy(visit: Visitor) -> None:
    without = "Object.defineProperty(navigator, 'clipboard', { value: undefined })"
    page = visit("#text=the+man+eats+the+bread", before=without)
    expect(page.locator("[data-translation]")).to_have_text("el hombre come el pan")
    page.locator("[data-copy]").click()
    expect(page.locator("[data-copy]")).to_have_text("Copied")
    expect(page.locator("[data-copy]")).to_be_focused()
    page.get_by_label("Text to translate").fill("")
    page.keyboard.press("Control+V")
    expect(page.get_by_label("Text to translate")).to_have_value("el hombre come el pan")


def test_a_refusal_is_told_in_words(visit: Visitor, browser: Browser, models: Models) -> None:
    with listening(models, char_limit=10) as small:
        visitor = Visitor(browser, small)
        page = visitor(key=True)
        page.get_by_label("Text to translate").fill("the man sees the fish")
        expect(page.get_by_role("alert")).to_contain_text("21 characters exceed the limit of 10")
        page.get_by_label("Text to translate").fill("the 😀 fish")  # ten characters, as the server counts
        expect(page.get_by_role("alert")).to_be_hidden()
        expect(page.locator("[data-count]")).to_have_text("10 / 10")
        page.get_by_label("Text to translate").fill("the man sees the fish")
        expect(page.get_by_role("alert")).to_be_visible()
        page.get_by_role("button", name="Clear").click()
        expect(page.get_by_role("alert")).to_be_hidden()


def test_a_key_is_asked_for_where_one_is_needed(browser: Browser, models: Models, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("open-sesame-123\n")
    with listening(models, keys=keys) as guarded:
        page = Visitor(browser, guarded)(key=True)
        page.get_by_label("Text to translate").fill(TEXT)
        expect(page.get_by_role("alert")).to_contain_text("key")
        page.get_by_label("API key").fill("open-sesame-123")
        page.get_by_label("API key").press("Enter")
        expect(page.locator("[data-translation]")).to_have_text("el hombre come el pan hoy")
        page.locator("[data-request] summary").click()
        expect(page.locator("[data-snippet]")).to_contain_text('"api_key":"your-key"')
        page.get_by_role("button", name="Python").click()
        expect(page.locator("[data-snippet]")).to_contain_text(f'LibreTranslateAPI("{guarded}/", "your-key")')


def test_languages_are_detected_and_swapped(browser: Browser, models: Models) -> None:
    both = Models([models.by_direction["en", "es"], untrained("es", "en")])
    with listening(both) as address:
        page = Visitor(browser, address)(f"#text={TEXT.replace(' ', '+')}")
        expect(page.locator("[data-translation]")).to_have_text("el hombre come el pan hoy")
        page.get_by_label("Swap the languages").click()
        expect(page.locator("[data-source]")).to_have_value("es")
        expect(page.locator("[data-target]")).to_have_value("en")
        assert page.locator("[data-text]").input_value() == "el hombre come el pan hoy"
        page.locator("[data-source]").select_option("auto")
        expect(page.locator("[data-detected]")).to_contain_text("Spanish")
        expect(page.get_by_label("Swap the languages")).to_be_enabled()
