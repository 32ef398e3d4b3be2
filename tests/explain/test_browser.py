"""The explanation's page in a real browser: what a person reads is what Python computed, and it refines in place."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

from regard.api import Model
from regard.explain import image, text, why, why_steps
from regard.explain.result import Explanation

TEXT = "the woman buys the bread today"
NASTY = "it's <script>alert('x')</script> & <img src=x onerror=alert(1)> good"
Open = Callable[..., Page]


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Opens a page from a file; any error, dialog or request for something outside fails the test."""
    troubles: list[str] = []
    contexts = []

    def opened(html: str, width: int = 1100, policy: bool = True) -> Page:
        size = {"width": width, "height": 900}
        contexts.append(browser.new_context(viewport=size, reduced_motion="reduce", bypass_csp=not policy))  # type: ignore[arg-type]
        page = contexts[-1].new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda m: troubles.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda e: troubles.append(str(e)))
        page.on("dialog", lambda d: troubles.append(f"dialog: {d.message}"))
        page.on("request", lambda r: None if r.url.startswith(("file:", "data:")) else troubles.append(r.url))
        (tmp_path / "page.html").write_text(html, encoding="utf-8")
        page.goto((tmp_path / "page.html").as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert troubles == []


@pytest.fixture(scope="module")
def found(translator: Model) -> Explanation:
    return why(translator, TEXT, masks=200)


def shown(value: float) -> str:
    told = f"{value:.2f}".replace("-", "−")
    return "0.00" if told == "−0.00" else f"+{told}" if value > 0.005 else told


def numbers(page: Page) -> list[str]:
    return page.locator(".r-sal-number b").all_text_contents()


def test_it_shows_what_python_found(opened: Open, found: Explanation) -> None:
    page = opened(found.to_html(found.curves(orders=2)))
    assert page.locator(".r-sal-name").all_text_contents() == TEXT.split()
    assert numbers(page) == [shown(v) for v in found.values[0]]
    page.get_by_role("button", name="pan").click()
    assert numbers(page) == [shown(v) for v in found.values[4]]
    assert page.locator("h3").first.text_content() == "Why “pan”?"
    widths = [bar.evaluate("e => e.getBoundingClientRect().width") for bar in page.locator(".r-sal-fill").all()]
    assert int(np.argmax(widths)) == found.values[4].argmax()
    assert page.locator(".r-sal-text .full").all_text_contents() == [
        place for place, value in zip(found.places, found.values[4], strict=True) if abs(value) > 0.6
    ]
    assert page.locator("figure svg").count() == 2
    assert page.get_by_text("not how the model works inside").is_visible()
    assert "200 masks" in str(page.locator(".r-sal-progress").text_content())
    page.get_by_role("button", name="Largest first").click()
    order = np.argsort(-np.abs(found.values[4]), kind="stable")
    assert page.locator(".r-sal-name").all_text_contents() == [found.places[i] for i in order]


def test_pointing_at_the_map_chooses_its_word(opened: Open, found: Explanation) -> None:
    page = opened(found.to_html())
    cells = page.locator(".r-heat-cells")
    size = cells.bounding_box()["height"] / len(found.rows)  # type: ignore[index]
    cells.hover(position={"x": size / 2, "y": 4.5 * size})
    assert page.locator("h3").first.text_content() == "Why “pan”?"
    assert numbers(page) == [shown(v) for v in found.values[4]]
    page.locator(".r-heat").press("Escape")  # no cell is none to choose
    assert page.locator("h3").first.text_content() == "Why “pan”?"


def test_the_keyboard_reaches_every_word(opened: Open, found: Explanation) -> None:
    page = opened(found.to_html())
    page.locator(".r-tokens button").first.focus()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    assert page.locator("h3").first.text_content() == "Why “hoy”?"


def test_it_refines_in_place(opened: Open, translator: Model) -> None:
    steps = list(why_steps(translator, TEXT, masks=64, batch=16))
    held = steps[0].to_html().replace("saliency_js.mount(", "window.mounted = saliency_js.mount(", 1)
    page = opened(held, policy=False)  # which would not let a changed script run
    page.get_by_role("button", name="pan").click()
    bar = page.locator(".r-sal-fill").nth(4).element_handle()
    assert "16 of 64 masks" in str(page.locator(".r-sal-progress").text_content())
    assert page.locator("progress").is_visible()
    for step in steps[1:]:
        page.evaluate("data => window.mounted.update(JSON.parse(data))", json.dumps(step.to_dict()))
        assert numbers(page) == [shown(v) for v in step.values[4]]
    assert bar is not None
    assert bar.evaluate("e => e.isConnected")  # the same element, moved on
    assert page.locator("h3").first.text_content() == "Why “pan”?"
    assert not page.locator("progress").is_visible()
    other = why(translator, "the man eats", masks=16)
    page.evaluate("data => window.mounted.update(JSON.parse(data))", json.dumps(other.to_dict()))
    assert page.locator(".r-sal-name").all_text_contents() == ["the", "man", "eats"]
    page.evaluate("() => window.mounted.destroy()")
    assert page.locator("main > *").count() == 0


def test_a_nasty_text_is_shown_as_it_is(opened: Open) -> None:
    found = text(lambda texts: [[len(t), "good" in t] for t in texts], NASTY, masks=20, names=["<b>length</b>", "good"])
    page = opened(found.to_html())
    assert NASTY in str(page.locator("header").text_content())
    assert page.locator(".r-tokens button").first.text_content() == "<b>length</b>"
    assert page.locator("main b:has-text('length')").count() == 0


def test_a_long_text_is_listed_in_part(opened: Open) -> None:
    long = " ".join(f"word{i}" for i in range(60))
    html = text(lambda texts: [t.count("word7") for t in texts], long, masks=64).to_html()
    assert "<svg" in html  # for where scripts do not run
    page = opened(html)
    assert page.locator(".r-sal-bars li").count() == 24
    assert page.locator(".r-sal-name").first.text_content() == "word7"
    page.get_by_role("button", name="All 60").click()
    assert page.locator(".r-sal-bars li").count() == 60
    longer = text(lambda texts: [0.0 for _ in texts], long * 80, masks=2)
    assert "<svg" not in longer.to_html()


def test_an_image_under_its_map(opened: Open) -> None:
    found = image(lambda images: images[:, :10, 20:].mean((1, 2)), np.ones((30, 40)), masks=300)
    page = opened(found.to_html(found.curves(steps=10, orders=1)))
    alpha = (
        "e => Array.from(e.getContext('2d').getImageData(0, 0, e.width, e.height).data.filter((_, i) => i % 4 === 3))"
    )
    map_ = np.array(page.locator(".r-sal-image canvas").evaluate(alpha)).reshape(30, 40)
    np.testing.assert_allclose(map_ / 255, np.abs(found.values) / np.abs(found.values).max(), atol=0.01)
    assert page.locator(".r-sal-image img").evaluate("e => e.complete && e.naturalWidth") == 40


@pytest.mark.parametrize("width", [360, 1100])
def test_nothing_is_wider_than_the_screen(opened: Open, found: Explanation, width: int) -> None:
    page = opened(found.to_html(found.curves(orders=1)), width)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
