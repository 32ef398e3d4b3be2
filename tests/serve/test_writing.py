"""The page of a language model: its routes, and the page itself in a real browser."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from fastapi.testclient import TestClient
from playwright.sync_api import Browser, Page, expect
from serve.servers import Start, listening

from regard.api import Model
from regard.bundle import Bundle
from regard.models import GPT, GPTConfig
from regard.serve.models import Models
from regard.text import EOS, UNK, Specials, Tokenizer

NASTY = "<img src=x onerror=alert(1)>"


def made(kind: str, window: int = 512) -> Model:
    torch.manual_seed(0)
    tokenizer = Tokenizer.learn(["the cat sat on the mat", f"a dog ran {NASTY}\n"] * 3, kind, 300)  # type: ignore[arg-type]
    shape = {"d_model": 16, "d_ff": 32, "heads": 2, "layers": 1, "max_positions": window, "dropout": 0.0}
    model = GPT(GPTConfig(**shape, vocabulary=len(tokenizer)))  # type: ignore[arg-type]
    with torch.no_grad():
        model.tokens.weight *= 20  # some tokens are likelier than others
    return Model([Bundle(model.eval(), tokenizer, tokenizer, ("text", "text"), 64, name="gpt", task="language")])


@pytest.fixture(scope="module")
def models() -> Models:
    one_symbol = made("byte", window=256)  # as GPT-2 has it: one token for all that is no text
    tokenizer = one_symbol.bundle.source
    one_symbol.bundle.source = Tokenizer(tokenizer.kind, tokenizer._inner, Specials(EOS, EOS, EOS, EOS))
    return Models([], {"little": made("bpe"), "short": made("char", window=8), "one": one_symbol})


@pytest.fixture
def client(start: Start, models: Models) -> TestClient:
    return start(served=models)


def own_log_probs(model: Model, tokens: list[int]) -> torch.Tensor:
    with torch.inference_mode():
        network = model.bundle.model
        found: torch.Tensor = (network(torch.tensor([tokens]))[0] @ network.output.T).log_softmax(-1)
        return found


def ask(client: TestClient, path: str, **body: Any) -> Any:
    answer = client.post(path, json={"model": "little"} | body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def stream(client: TestClient, **body: Any) -> list[tuple[str, Any]]:
    answer = client.post("/api/write", json={"model": "little"} | body)
    assert answer.status_code == 200, answer.text
    blocks = [dict(line.split(": ", 1) for line in block.split("\n")) for block in answer.text.strip().split("\n\n")]
    return [(block["event"], json.loads(block["data"])) for block in blocks]


@pytest.mark.parametrize(("path", "given"), [("/api/next", {"text": "the cat"}), ("/api/write", {"tokens": []})])
def test_keys_and_rates_hold_here_too(
    start: Start, models: Models, tmp_path: Path, path: str, given: dict[str, Any]
) -> None:
    (tmp_path / "keys.txt").write_text("alpha-key 2\n")
    client = start(served=models, keys=tmp_path / "keys.txt")
    body = {"model": "little", **given}
    assert client.post(path, json=body).status_code == 403
    assert client.post(path, json=body | {"api_key": "other"}).status_code == 403
    told = [client.post(path, json=body | {"api_key": "alpha-key"}).status_code for _ in range(3)]
    assert told == [200, 200, 429]


def test_what_might_come_at_each_place(client: TestClient, models: Models) -> None:
    model = models.writers["little"]
    ids = model.bundle.source.encode("the cat sat")
    found = ask(client, "/api/next", text="the cat sat", top=5)
    assert [token["id"] for token in found["tokens"]] == ids
    assert "".join(token["text"] for token in found["tokens"]) == " the cat sat"
    expected = own_log_probs(model, ids)
    assert (found["tokens"][0]["probability"], found["tokens"][0]["top"]) == (None, [])
    for place, token in enumerate(found["tokens"][1:]):
        own = expected[place, token["id"]]
        assert token["probability"] == pytest.approx(float(own.exp()), abs=1e-5)
        assert token["rank"] == int((expected[place] > own).sum()) + 1
    shown = expected[-1].clone()
    shown[:EOS] = -torch.inf  # what is no text is not shown
    best = shown.topk(5)
    assert [one[0] for one in found["next"]] == best.indices.tolist()
    assert [one[2] for one in found["next"]] == pytest.approx(best.values.exp().tolist(), abs=1e-5)
    begin = ask(client, "/api/next", text="")
    assert begin["tokens"] == []
    assert len(begin["next"]) == 10


def test_a_text_longer_than_the_window(client: TestClient, models: Models) -> None:
    found = ask(client, "/api/next", model="short", text="the cat sat on the mat")
    ids = models.writers["short"].bundle.source.encode("the cat sat on the mat")
    assert [token["id"] for token in found["tokens"]] == ids
    seen = found["seen"]
    assert seen <= 8
    told = [token["probability"] is not None for token in found["tokens"]]
    assert told == [False] * (len(ids) - seen + 1) + [True] * (seen - 1)
    state = models.writers["short"].bundle.model.start()
    logits, _ = models.writers["short"].bundle.model.step(torch.tensor([ids]), state)
    likeliest = max(found["next"], key=lambda one: one[2])
    assert likeliest[2] == pytest.approx(float(logits.softmax(-1)[0, likeliest[0]].detach()), abs=1e-5)


def test_of_a_long_text_the_end_is_told_of_as_the_model_writes_by_it(client: TestClient) -> None:
    """Longer than what is told of, and than the window; and one token is begin, end, padding and unknown."""
    found = ask(client, "/api/next", model="one", text="the cat sat " * 60)
    assert [token["probability"] is None for token in found["tokens"][-100:]] == [False] * 100
    tokens = [token["id"] for token in found["tokens"]]
    (_, first), *_ = stream(client, model="one", tokens=tokens, max_tokens=1)
    assert [one[0] for one in first["top"]] == [one[0] for one in found["next"]]
    assert [one[2] for one in first["top"]] == pytest.approx([one[2] for one in found["next"]], abs=1e-5)


def test_each_piece_knows_where_it_stands_in_the_text(client: TestClient) -> None:
    text = "the ö\U0001f600 cat"
    starts = [token["start"] for token in ask(client, "/api/next", text=text)["tokens"]]
    assert starts == sorted(starts)
    assert {*starts} >= {0, 4, 5, 6}  # a letter of two bytes is one place, a face of four another


def test_a_text_is_written_with_what_else_might_have_come(client: TestClient, models: Models) -> None:
    model = models.writers["little"]
    ids = model.bundle.source.encode("the cat")
    *steps, (name, end) = stream(client, tokens=ids, max_tokens=6, seed=3, temperature=0.7, top=4)
    assert name == "end"
    written = [step["id"] for event, step in steps if event == "step"]
    assert 0 < len(written) <= 6
    assert end["text"] == model.bundle.source.decode([*ids, *written])
    assert end["text"] == "the cat" + model.generate("the cat", max_tokens=6, seed=3, temperature=0.7)
    expected = own_log_probs(model, [*ids, *written])[len(ids) - 1 :]
    for place, (_, step) in enumerate(steps):
        assert step["probability"] == pytest.approx(float(expected[place, step["id"]].exp()), abs=1e-4)
        assert len(step["top"]) == 4
    assert end["reason"] == "length"
    assert end["next"][0][2] == pytest.approx(float(expected[-1, end["next"][0][0]].exp()), abs=1e-4)


def test_the_likeliest_is_on_top_at_temperature_0(client: TestClient) -> None:
    steps = [step for event, step in stream(client, tokens=[], max_tokens=3, temperature=0) if event == "step"]
    assert all(step["top"][0][0] == step["id"] and step["rank"] == 1 for step in steps)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/api/next", {"model": "large"}, 404),
        ("/api/next", {"text": "a" * 6000}, 400),
        ("/api/next", {"top": 1000}, 400),
        ("/api/write", {"tokens": [100_000]}, 400),
        ("/api/write", {"tokens": [EOS]}, 400),
        ("/api/write", {"tokens": [-1]}, 400),
        ("/api/write", {"model": "large"}, 404),
        ("/api/write", {"tokens": [260] * 6000}, 400),
        ("/api/write", {"tokens": [UNK] * 6000}, 400),  # which has no characters
        ("/api/write", {"model": "one", "tokens": [EOS]}, 400),
    ],
)
def test_mistakes_are_told(client: TestClient, path: str, body: dict[str, Any], status: int) -> None:
    answer = client.post(path, json={"model": "little"} | body)
    assert answer.status_code == status
    assert answer.json()["error"]


def test_no_more_is_written_than_the_server_allows(start: Start, models: Models) -> None:
    client = start(served=models, token_limit=2)
    *steps, (last, told) = stream(client, max_tokens=50, seed=2)
    assert [event for event, _ in steps] == ["step"] * 2
    assert (last, told["reason"]) == ("end", "length")


@pytest.fixture
def page(browser: Browser, models: Models) -> Iterator[Page]:
    troubles: list[str] = []
    with listening(models) as address:
        context = browser.new_context(viewport={"width": 390, "height": 844})
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("dialog", lambda dialog: troubles.append(dialog.message))
        page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
        page.on("request", lambda r: None if r.url.startswith(address) else troubles.append(r.url))
        page.goto(f"{address}/#model=little")
        page.wait_for_selector("html[data-ready]", state="attached")
        yield page
        context.close()
    assert troubles == []


def test_a_person_writes_and_goes_on_from_another_word(page: Page) -> None:
    bars, pieces = page.locator("[data-bars] button"), page.locator("[data-pieces] button:not(.caret)")
    expect(bars).to_have_count(10, timeout=20_000)  # before anything is typed
    page.get_by_label("How the text begins").fill(f"the cat {NASTY}")
    expect(page.locator("[data-pieces] .given").first).to_be_visible(timeout=20_000)
    assert "onerror" in page.locator("[data-pieces]").inner_text().replace(" ", "")
    given = page.locator("[data-pieces] .given").count()
    expect(pieces).to_have_count(given)
    page.get_by_label("Length").select_option("20")
    page.get_by_role("button", name="Write", exact=True).click()
    expect(page.locator("[data-copy]")).to_be_visible(timeout=20_000)
    assert given < pieces.count() <= given + 21
    pieces.nth(given).click()
    expect(page.locator("[data-told]")).to_contain_text("had probability")
    on = page.locator("[data-bars] .on")
    expect(on).to_have_count(1)
    before = pieces.nth(given).inner_text()
    other = page.locator("[data-bars] button:not(.on):not(:disabled)").first
    chosen = other.locator(".piece").inner_text().replace("\u2423", "").strip()
    other.click()
    expect(page.locator("[data-copy]")).to_be_visible(timeout=20_000)
    assert pieces.nth(given).inner_text().strip() == (chosen or " ").strip()
    assert chosen != before.strip()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_keys_in_a_row_are_kept_once_and_typing_outlives_a_browser_that_refuses(page: Page) -> None:
    page.evaluate("""() => {
        window.kept = 0;
        history.replaceState = () => { window.kept += 1; throw new DOMException("too many", "SecurityError"); };
    }""")
    page.get_by_label("How the text begins").press_sequentially("the cat sat on the mat")
    expect(page.locator("[data-pieces]")).to_contain_text("the cat sat on the mat")
    assert page.evaluate("window.kept") < 10


def test_what_was_written_before_it_was_stopped_can_be_copied(page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.emulate_media(reduced_motion="reduce")
    page.get_by_label("How the text begins").fill("the ö cat")
    expect(page.locator("[data-pieces] .given").first).to_be_visible()
    page.route("**/api/write", lambda _: None)  # nothing comes
    page.get_by_role("button", name="Write", exact=True).click()
    expect(page.locator("[data-pieces]")).to_have_class("pieces busy")
    assert page.locator(".caret").evaluate("e => getComputedStyle(e).animationName") == "none"
    assert page.locator("[data-told]").get_attribute("aria-live") == "off"
    page.get_by_role("button", name="Stop").click()
    assert page.locator("[data-told]").get_attribute("aria-live") == "polite"
    page.locator("[data-copy]").click()
    expect(page.locator("[data-copy]")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == "the ö cat"


def test_a_piece_of_a_text_that_was_changed_is_not_gone_on_from(page: Page) -> None:
    expect(page.locator("[data-bars] button")).to_have_count(10)
    page.evaluate("""() => {
        const text = document.querySelector("[data-text]");
        text.value = "the cat";
        text.dispatchEvent(new Event("input"));
        document.querySelector("[data-bars] button:not(:disabled)").click();
    }""")
    expect(page.locator("[data-pieces]")).to_contain_text("the cat")
    expect(page.locator("[data-go]")).to_have_text("Write")
