"""Language models through OpenAI's API, with OpenAI's own client."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import openai
import pytest
import torch
from fastapi.testclient import TestClient
from serve.servers import Start, listening

from regard.api import Model
from regard.decode.options import DecodeOptions
from regard.serve.models import Models, load_models
from regard.serve.openai import TURNS, Completion

HELLO = [{"role": "user", "content": "hello"}]
HALF = [{"role": "user", "content": "\ud800"}]


@pytest.fixture(scope="module")
def served(models: Models, writer: Model) -> Models:
    return Models(list(models.by_direction.values()), {"little": writer})


@pytest.fixture(scope="module")
def client(served: Models) -> Iterator[openai.OpenAI]:
    with listening(served) as address:
        yield openai.OpenAI(base_url=f"{address}/v1", api_key="any", max_retries=0)


def test_the_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["little"]
    assert client.models.retrieve("little").owned_by == "regard"
    with pytest.raises(openai.NotFoundError, match="'large' does not exist"):
        client.models.retrieve("large")


def test_a_completion_is_what_the_model_writes(client: openai.OpenAI, writer: Model) -> None:
    found = client.completions.create(model="little", prompt="the cat", max_tokens=8, temperature=0.7, seed=5)
    expected = writer.generate("the cat", max_tokens=8, temperature=0.7, seed=5)
    assert found.choices[0].text == expected
    (made,) = writer.generations(["the cat"], max_tokens=8, temperature=0.7, seed=5)[0]
    assert found.choices[0].finish_reason == ("length" if made.reason == "length" else "stop")
    assert abs(found.created - time.time()) < 60
    assert found.usage is not None
    assert found.usage.prompt_tokens == len(writer.bundle.source.encode("the cat"))
    assert 0 < found.usage.completion_tokens <= 8
    assert found.usage.total_tokens == found.usage.prompt_tokens + found.usage.completion_tokens


def test_several_prompts_and_several_texts(client: openai.OpenAI) -> None:
    found = client.completions.create(model="little", prompt=["a", "b"], n=3, max_tokens=4, seed=1, echo=True)
    assert [choice.index for choice in found.choices] == [0, 1, 2, 3, 4, 5]
    assert [choice.text[0] for choice in found.choices] == ["a", "a", "a", "b", "b", "b"]


def test_streaming_is_the_same_text_in_pieces(client: openai.OpenAI) -> None:
    asked = {"model": "little", "prompt": "the", "max_tokens": 12, "seed": 3}
    reasons = set()
    shifted = {"frequency_penalty": 1.5, "presence_penalty": -0.5, "logit_bias": {"70": 9, "80": 9.5}}
    for more in ({}, {"echo": True}, {"max_tokens": 2000}, {"stop": ["e", "a"]}, shifted):
        whole = client.completions.create(**asked | more).choices[0]  # type: ignore[call-overload]
        chunks = list(client.completions.create(**asked | more, stream=True))  # type: ignore[call-overload]
        assert "".join(chunk.choices[0].text for chunk in chunks) == whole.text
        assert chunks[-1].choices[0].finish_reason == whole.finish_reason
        assert {chunk.choices[0].finish_reason for chunk in chunks[:-1]} <= {None}
        reasons.add(whole.finish_reason)
    assert len(chunks) >= 2
    assert reasons == {"stop", "length"}


def test_a_conversation(client: openai.OpenAI) -> None:
    said = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}]
    found = client.chat.completions.create(model="little", messages=said, max_completion_tokens=6, seed=2)  # type: ignore[arg-type]
    assert found.object == "chat.completion"
    assert found.choices[0].message.role == "assistant"
    stream = client.chat.completions.create(model="little", messages=said, max_tokens=6, seed=2, stream=True)  # type: ignore[arg-type]
    chunks = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == found.choices[0].message.content
    assert chunks[-1].choices[0].finish_reason == found.choices[0].finish_reason
    parts = [{"role": "user", "content": [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]}]
    again = client.chat.completions.create(model="little", messages=[said[0], *parts], max_tokens=6, seed=2)  # type: ignore[list-item]
    assert again.choices[0].message.content == found.choices[0].message.content


def chances(writer: Model, tokens: list[int]) -> torch.Tensor:
    """log p of what comes after each token (T V), by one pass over all of them."""
    model = writer.bundle.model
    with torch.inference_mode():
        return (model(torch.tensor([tokens]))[0] @ model.output.T).log_softmax(-1)


def test_log_probabilities_are_the_models_own(client: openai.OpenAI, writer: Model) -> None:
    prompt, tokenizer = "the cat", writer.bundle.source
    asked = {"model": "little", "prompt": prompt, "max_tokens": 10, "temperature": 0.5, "seed": 5, "logprobs": 3}
    choice = client.completions.create(**asked, echo=True).choices[0]  # type: ignore[call-overload]
    found, ids = choice.logprobs, tokenizer.encode(prompt)
    read = len(ids)
    numbers = {tokenizer.piece(i): i for i in range(len(tokenizer))}  # each is one byte
    spelled = [bytes.fromhex(name[8:]) if name.startswith("bytes:") else name.encode() for name in found.tokens]
    assert [numbers[byte] for byte in spelled[:read]] == ids
    ids += [numbers[byte] for byte in spelled[read:]]
    known = chances(writer, ids)
    assert found.token_logprobs[0] is None
    assert found.token_logprobs[1:] == pytest.approx(
        [float(known[i - 1, ids[i]]) for i in range(1, len(ids))], abs=1e-4
    )
    for place, top in enumerate(found.top_logprobs[1:]):
        best = known[place].clone()
        best[list(tokenizer.specials.ids - {tokenizer.specials.end})] = -torch.inf
        assert sorted(top.values())[-3:] == pytest.approx(sorted(best.topk(3).values.tolist()), abs=1e-4)
        assert found.tokens[place + 1] in top
    assert b"".join(spelled).decode(errors="replace") == " " + choice.text
    assert found.text_offset[:read] == [0, *range(read - 1)]  # the first one is the space before a text
    assert found.text_offset == sorted(found.text_offset)
    alone = client.completions.create(**asked).choices[0]  # type: ignore[call-overload]
    assert alone.logprobs.tokens == found.tokens[read:]
    assert alone.logprobs.token_logprobs == found.token_logprobs[read:]
    assert alone.logprobs.text_offset[0] == 0


def test_a_text_can_be_scored_alone(client: openai.OpenAI, writer: Model) -> None:
    asked = {"model": "little", "prompt": ["the cat", "a"], "max_tokens": 0, "echo": True, "logprobs": 0}
    found = client.completions.create(**asked)  # type: ignore[call-overload]
    assert [choice.text for choice in found.choices] == ["the cat", "a"]
    assert [choice.finish_reason for choice in found.choices] == ["length", "length"]
    assert found.usage.completion_tokens == 0
    ids = writer.bundle.source.encode("the cat")
    known = chances(writer, ids)
    total = sum(float(known[i - 1, ids[i]]) for i in range(1, len(ids)))
    assert sum(found.choices[0].logprobs.token_logprobs[1:]) == pytest.approx(total, abs=1e-4)
    asked["prompt"] = "the cat"
    (opening, end) = client.completions.create(**asked, stream=True)  # type: ignore[call-overload]
    assert opening.choices[0].logprobs == found.choices[0].logprobs
    assert end.choices[0].finish_reason == "length"


def test_a_prompt_can_be_given_in_tokens(client: openai.OpenAI, writer: Model) -> None:
    asked = {"model": "little", "max_tokens": 8, "seed": 5, "echo": True, "logprobs": 1}
    ids = [writer.bundle.source.encode(text) for text in ("the cat", "é a")]
    texts = client.completions.create(**asked, prompt=["the cat", "é a"])  # type: ignore[call-overload]
    tokens = client.completions.create(**asked, prompt=ids)  # type: ignore[call-overload]
    assert (tokens.choices, tokens.usage) == (texts.choices, texts.usage)
    one = client.completions.create(**asked, prompt=ids[0])  # type: ignore[call-overload]
    assert one.choices[0].text == tokens.choices[0].text
    stream = client.completions.create(**asked, prompt=ids[0], stream=True)  # type: ignore[call-overload]
    assert "".join(chunk.choices[0].text for chunk in stream) == one.choices[0].text
    bare = ids[0][1:]  # as no text is cut: without the space before it
    found = client.completions.create(**asked | {"max_tokens": 0}, prompt=bare)  # type: ignore[call-overload]
    known = chances(writer, bare)
    assert found.choices[0].logprobs.token_logprobs[1:] == pytest.approx(
        [float(known[i - 1, bare[i]]) for i in range(1, len(bare))], abs=1e-4
    )
    assert found.choices[0].text == "the cat"
    assert found.usage.prompt_tokens == len(bare)


@pytest.mark.parametrize("stops", [False, True])
def test_a_stream_tells_as_much_as_the_whole(client: openai.OpenAI, writer: Model, stops: bool) -> None:
    asked = {"model": "little", "prompt": "the", "max_tokens": 30, "seed": 3, "logprobs": 2, "echo": True}
    if stops:
        text = writer.generate("the", max_tokens=30, seed=3)
        asked["stop"] = [text[8:10], text[9] + text[9]]
    whole = client.completions.create(**asked)  # type: ignore[call-overload]
    *chunks, last = client.completions.create(**asked, stream=True, stream_options={"include_usage": True})  # type: ignore[call-overload]
    assert last.choices == []
    assert last.usage == whole.usage
    assert all(chunk.usage is None for chunk in chunks)
    told = [chunk.choices[0].logprobs for chunk in chunks[:-1]]
    for key in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
        pieces = [item for one in told for item in getattr(one, key)]
        assert pieces == getattr(whole.choices[0].logprobs, key)
    assert all(offset < len(whole.choices[0].text) for offset in whole.choices[0].logprobs.text_offset)


def test_a_chat_tells_log_probabilities_too(client: openai.OpenAI) -> None:
    asked = {"model": "little", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 8, "seed": 2}
    asked |= {"logprobs": True, "top_logprobs": 2}
    choice = client.chat.completions.create(**asked).choices[0]  # type: ignore[call-overload]
    found = choice.logprobs.content
    spelled = b"".join(bytes(item.bytes) for item in found).decode(errors="replace")
    assert spelled.strip() == choice.message.content
    assert all(item.logprob <= 0 and len(item.top_logprobs) == 2 for item in found)
    plain = client.chat.completions.create(**asked | {"logprobs": False}).choices[0]  # type: ignore[call-overload]
    assert plain.logprobs is None
    chunks = list(client.chat.completions.create(**asked, stream=True))  # type: ignore[call-overload]
    told = [item for chunk in chunks if chunk.choices[0].logprobs for item in chunk.choices[0].logprobs.content]
    assert told == found
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == choice.message.content


def test_penalties_and_biases_are_heeded(client: openai.OpenAI, writer: Model) -> None:
    asked = {"frequency_penalty": 2.0, "presence_penalty": 1.0, "logit_bias": {"70": 7.0}}
    found = client.completions.create(model="little", prompt="the", max_tokens=20, seed=3, **asked)  # type: ignore[call-overload]
    own = asked | {"logit_bias": {70: 7.0}}
    assert found.choices[0].text == writer.generate("the", max_tokens=20, seed=3, **own)
    assert found.choices[0].text != writer.generate("the", max_tokens=20, seed=3)
    only = client.completions.create(model="little", prompt="the", max_tokens=5, logit_bias={"70": 100})
    assert only.choices[0].text == writer.bundle.source.piece(70).decode() * 5
    assert (
        Completion(model="little").options(DecodeOptions(min_length=20), 100)["max_tokens"] == 20
    )  # above the default
    said = [*HELLO, {"role": "assistant", "content": None}, *HELLO]
    plain = {"response_format": {"type": "text"}, "tools": [], "messages": said, "seed": 1, "max_tokens": 4}
    assert client.chat.completions.create(model="little", **plain).choices  # type: ignore[call-overload]


def test_the_best_of_several(client: openai.OpenAI, writer: Model) -> None:
    found = client.completions.create(model="little", prompt="the", max_tokens=6, seed=4, n=2, best_of=5)
    every = writer.generations(["the"], max_tokens=6, seed=4, n=5)[0]
    assert [choice.text for choice in found.choices] == [made.text for made in every[:2]]
    assert found.usage is not None
    assert found.usage.completion_tokens == sum(made.tokens for made in every)


def test_what_other_servers_take_is_taken(client: openai.OpenAI) -> None:
    """No nucleus at all is the likeliest token; a seed may be negative."""
    cold, none = (
        client.completions.create(model="little", prompt="the", max_tokens=6, **how).choices[0].text
        for how in ({"temperature": 0}, {"top_p": 0, "seed": -5})
    )
    assert cold == none


def test_what_fails_half_way_is_told_in_the_stream(
    start: Start, served: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    from regard.decode.sample import Sampler

    step, done = Sampler.step, []

    def failing(sampler: Sampler) -> object:
        done.append(1)
        if len(done) > 3:
            raise RuntimeError("the secret text")
        return step(sampler)

    monkeypatch.setattr(Sampler, "step", failing)
    asked = {"model": "little", "prompt": "the", "max_tokens": 30, "stream": True, "seed": 1}
    found = start(served=served).post("/v1/completions", json=asked)
    assert found.status_code == 200
    error = json.loads(found.text.strip().splitlines()[-1].removeprefix("data: "))["error"]
    assert error["type"] == "server_error"
    assert "the log has it under" in error["message"]
    assert "secret" not in found.text


def test_what_is_not_asked_for_is_as_the_model_has_it(start: Start, writer: Model) -> None:
    """Its own stop texts and length; without any, a completion is as short as OpenAI's and a chat as long as may be."""
    shown = writer.generate("the", max_tokens=60, seed=3)
    own = DecodeOptions(stop=(shown[9:11],), max_length=20)
    strict = Model([replace(writer.bundle, decode=own)])
    client = start(served=Models([], {"strict": strict, "little": writer}), token_limit=40)

    def text(**asked: object) -> str:
        given = {"model": "strict", "prompt": "the", "seed": 3} | asked
        return str(client.post("/v1/completions", json=given).json()["choices"][0]["text"])

    assert text() == text(stop=None) == strict.generate("the", seed=3)
    assert own.stop[0] not in text()
    assert text(stop=[]) == writer.generate("the", seed=3, max_tokens=20)
    assert text(stop=shown[2:4]) == writer.generate("the", seed=3, max_tokens=20, stop=[shown[2:4]])
    assert text(stop=[], max_tokens=30) == writer.generate("the", seed=3, max_tokens=30)
    assert text(stop=[], max_tokens=50) == writer.generate("the", seed=3, max_tokens=40)
    assert text(model="little") == writer.generate("the", seed=3, max_tokens=16)

    def said(**asked: object) -> dict[str, Any]:
        found = client.post("/v1/chat/completions", json={"messages": HELLO, "seed": 2} | asked).json()
        return {"text": found["choices"][0]["message"]["content"], "tokens": found["usage"]["completion_tokens"]}

    long = said(model="little")
    assert 20 < long["tokens"] <= 40
    prompt = "user: hello\nassistant:"
    assert said(model="strict")["text"] == strict.generate(prompt, seed=2, stop=[*own.stop, *TURNS]).strip()


def test_the_limit_of_tokens_holds(start: Start, served: Models) -> None:
    found = start(served=served, token_limit=3).post("/v1/completions", json={"model": "little", "max_tokens": 50})
    assert found.json()["usage"]["completion_tokens"] <= 3


def test_keys_are_asked_for_as_bearers(start: Start, served: Models, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("secret-key-1\n")
    client = start(served=served, keys=tmp_path / "keys")
    body = {"model": "little", "prompt": "a", "max_tokens": 1}
    none = client.post("/v1/completions", json=body)
    assert none.status_code == 401
    assert "Authorization: Bearer" in none.json()["error"]["message"]
    wrong = client.post("/v1/completions", json=body, headers={"Authorization": "Bearer no"})
    assert wrong.json()["error"]["type"] == "authentication_error"
    assert wrong.json()["error"]["code"] == "invalid_api_key"
    for scheme in ("Bearer", "bearer"):
        right = client.post("/v1/completions", json=body, headers={"Authorization": f"{scheme} secret-key-1"})
        assert right.status_code == 200
    assert client.post("/v1/completions", json=body, headers={"Authorization": "secret-key-1"}).status_code == 401


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("completions", {"model": "none", "prompt": "a"}, 404, "does not exist"),
        ("completions", {"prompt": "a"}, 400, "model"),
        ("completions", {"model": "little", "temperature": -1}, 400, "temperature"),
        ("completions", {"model": "little", "repetition_penalty": 1e-40}, 400, "repetition_penalty"),
        ("completions", {"model": "little", "n": 2, "stream": True}, 400, "one text at a time"),
        ("completions", {"model": "little", "best_of": 2, "stream": True}, 400, "one text at a time"),
        ("completions", {"model": "little", "n": 3, "best_of": 2}, 400, "best_of 2 is less than n 3"),
        ("completions", {"model": "little", "logprobs": 99}, 400, "logprobs"),
        ("completions", {"model": "little", "stream_options": {"include_usage": True}}, 400, "for a stream"),
        ("completions", {"model": "little", "prompt": 7}, 400, "prompt"),
        ("completions", {"model": "little", "prompt": [5, -1]}, 400, "the model's tokens are 0 to "),
        ("completions", {"model": "little", "prompt": [[5], [9999]]}, 400, "the model's tokens are 0 to "),
        ("completions", {"model": "little", "prompt": [2] * 5001}, 400, "more than 5000 tokens"),
        ("completions", {"model": "little", "prompt": ["a"] * 5, "n": 16}, 400, "80 texts; no more than 64"),
        ("completions", {"model": "little", "stop": ["a" * 201]}, 400, "stop"),
        ("completions", {"model": "little", "prompt": "x" * 6000}, 400, "characters exceed"),
        ("completions", {"model": "little", "presence_penalty": 3}, 400, "presence_penalty"),
        ("completions", {"model": "little", "logit_bias": {"9999": 1}}, 400, "logit_bias: the model's tokens are"),
        ("completions", {"model": "little", "logit_bias": {"-1": 1}, "stream": True}, 400, "logit_bias"),
        ("chat/completions", {"model": "little", "messages": []}, 400, "messages"),
        ("chat/completions", {"model": "little", "messages": HELLO, "max_tokens": 0}, 400, "max_tokens"),
        ("chat/completions", {"model": "little", "messages": HALF}, 400, "surrogate"),
        ("chat/completions", {"model": "little", "messages": HALF, "stream": True}, 400, "surrogate"),
        ("chat/completions", {"model": "little", "messages": [{"role": "king", "content": "a"}]}, 400, "'assistant'"),
    ],
)
def test_mistakes_are_told_in_their_shape(
    start: Start, served: Models, path: str, body: dict[str, object], status: int, words: str
) -> None:
    text = json.dumps(body)  # which keeps half of a surrogate pair as it is
    found = start(served=served).post(f"/v1/{path}", content=text, headers={"Content-Type": "application/json"})
    assert found.status_code == status
    error = found.json()["error"]
    assert words in error["message"]
    assert error["type"] == "invalid_request_error"
    assert error["code"] == ("model_not_found" if status == 404 else None)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"model": "little", "temperature": -1}, "temperature"),
        ({"prompt": "a"}, "model"),
        ({"model": "little", "prompt": [-1]}, "prompt"),
        ({"model": "none"}, None),
    ],
)
def test_the_parameter_that_is_wrong_is_named(start: Start, served: Models, body: object, param: str | None) -> None:
    assert start(served=served).post("/v1/completions", json=body).json()["error"]["param"] == param


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
    ],
)
def test_what_no_model_here_can_do_is_refused(start: Start, served: Models, more: dict[str, Any], param: str) -> None:
    found = start(served=served).post("/v1/chat/completions", json={"model": "little", "messages": HELLO} | more)
    assert found.status_code == 400
    assert found.json()["error"]["param"] == param


def test_what_is_refused_before_it_is_read_has_their_shape_too(start: Start, served: Models) -> None:
    client = start(served=served, body_limit=2000)
    large = {"model": "little", "prompt": "x" * 3000}
    for found, status in (
        (client.post("/v1/completions", json=large), 413),
        (client.post("/v1/completions", content=b"{", headers={"Content-Type": "application/json"}), 400),
        (client.get("/v1/completions"), 405),
        (client.get("/v1/nothing"), 404),
    ):
        assert found.status_code == status
        assert found.json()["error"]["type"] == "invalid_request_error"
        assert found.json()["error"]["code"] is None


def test_a_server_without_translators(start: Start, writer: Model, tmp_path: Path) -> None:
    writer.bundle.save(tmp_path / "little")
    alone = load_models([tmp_path / "little"])
    client: TestClient = start(served=alone)
    assert client.get("/v1/models").json()["data"][0]["id"] == "little"
    assert client.get("/languages").json() == []
    assert client.get("/frontend/settings").status_code == 200
    assert "How the text begins" in client.get("/").text
    assert client.get("/write").text == client.get("/").text
    assert client.get("/health").status_code == 200
    assert client.post("/translate", json={"q": "a", "source": "en", "target": "es"}).status_code == 400
    assert json.loads(client.get("/api/info").text)["languages"] == []
    for path, asked in (("detect", {"q": "a"}), ("translate", {"q": "a", "source": "auto", "target": "es"})):
        refused = client.post(f"/{path}", json=asked)
        assert (refused.status_code, refused.json()["error"]) == (400, "No translator is served here")


def test_a_server_without_writers_has_no_such_routes(start: Start) -> None:
    assert start().get("/v1/models").status_code == 404
