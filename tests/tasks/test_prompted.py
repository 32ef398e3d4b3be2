"""Summarisation with a model that writes on: rows, steps, loss, a toy that is learned, cutting, and a parent."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from typer.testing import CliRunner

from regard.api import Model, load, train
from regard.cli import app
from regard.config import make_recipe
from regard.decode import DecodeOptions
from regard.decode.beam import beam_search
from regard.errors import UserError
from regard.models import GPT, TCN, GPTConfig, HeadConfig, Prompted, TCNConfig
from regard.serve.align import align
from regard.tasks.prompted import PromptedTask, settled
from regard.tasks.translation import Batch
from regard.text import EOS, PAD, Tokenizer
from regard.view.look import look
from regard.view.roles import roles

WORDS = ["cat", "dog", "fish", "bird", "cow", "ant", "bee", "fox"]
SHAPE = {"name": "gpt", "d_model": 32, "d_ff": 64, "heads": 2, "layers": 1, "dropout": 0.0, "max_positions": 24}
PROMPT = (7, 8)


def pairs(count: int) -> list[tuple[str, str]]:
    """Some words, and the first of them."""
    draw = random.Random(0)
    made = (draw.choices(WORDS, k=draw.randint(2, 6)) for _ in range(count))
    return [(" ".join(words), words[0]) for words in made]


def recipe(**changes: Any) -> Any:
    settings = {
        "steps": 150, "batch_tokens": 512, "optimizer": "muon", "lr": 0.02, "schedule": "linear", "warmup": 10,
        "label_smoothing": 0.0, "validate_every": 150, "save_every": 150, "metric": "loss", "parts": 1,
    }  # fmt: skip
    tree: dict[str, Any] = {
        "task": "summarisation", "model": SHAPE, "tokenizer": {"kind": "word", "size": 40},
        "data": {"max_length": 16}, "train": settings, "decode": {"beam": 2, "max_length": 3},
    }  # fmt: skip
    for section, keys in changes.items():
        tree[section] = tree.get(section, {}) | keys
    return make_recipe(tree)


def bodies() -> list[Any]:
    torch.manual_seed(0)
    gpt = GPTConfig(d_model=8, d_ff=12, heads=2, layers=2, dropout=0.0, vocabulary=20, max_positions=32)
    tcn = TCNConfig(d_model=8, width=8, layers=2, dropout=0.0, embedding_dropout=0.0, vocabulary=20)
    return [GPT(gpt).double().eval(), TCN(tcn).double().eval()]


def prompted(body: Any) -> Prompted:
    return Prompted(body, HeadConfig(prompt_tokens=PROMPT, document=12))


def batch() -> Batch:
    """Documents and summaries of unlike lengths."""
    texts = [([10, 11, 12], [13, 14]), ([15], [16]), ([17, 18, 19, 10, 11], [12, 13, 14, 15]), ([9, 9, 9], [10])]
    return Batch.of([(np.array(s), np.array(t)) for s, t in texts])


def own_logits(body: Any, row: list[int]) -> Tensor:
    with torch.inference_mode():
        states = body(torch.tensor([row]))
        logits: Tensor = (states @ body.output.T)[0]
        return logits


def test_a_row_is_document_prompt_and_summary() -> None:
    given = batch()
    rows, places = prompted(bodies()[0]).rows(given.source, given.lengths, given.target_in[:, 1:])
    assert rows[0].tolist() == [10, 11, 12, *PROMPT, 13, 14, *[PAD] * 4]
    assert rows[1].tolist() == [15, *PROMPT, 16, *[PAD] * 7]
    assert rows[2].tolist() == [17, 18, 19, 10, 11, *PROMPT, 12, 13, 14, 15]
    assert [int(row[place]) for row, place in zip(rows, places, strict=True)] == [PROMPT[-1]] * 4
    alone = Batch.of([(np.array([10, 11, 12]), np.array([13, 14]))])  # nothing is padded
    assert alone.lengths is None
    rows, _ = prompted(bodies()[0]).rows(alone.source, None, alone.target_in[:, 1:])
    assert rows.tolist() == [[10, 11, 12, *PROMPT, 13, 14]]


@pytest.mark.parametrize("body", bodies(), ids=["gpt", "tcn"])
def test_states_and_steps_are_the_models_own(body: Any) -> None:
    """Trained on, or written step by step beside others: the logits are those of the row by itself."""
    model, given = prompted(body), batch()
    with torch.inference_mode():
        whole = model(given.source, given.lengths, given.target_in) @ model.output.T
        state = model.start(model.encode(given.source, given.lengths))
        steps = []
        for t in range(given.target_in.size(1)):
            logits, state = model.step(given.target_in[:, t : t + 1], state)
            steps.append(logits)
    for i, (source, target) in enumerate(zip(given.source.tolist(), given.target_out.tolist(), strict=True)):
        document, summary = source[: source.index(EOS)], target[: target.index(EOS)]
        expected = own_logits(body, [*document, *PROMPT, *summary])[-len(summary) - 1 :]
        assert_close(whole[i, : len(summary) + 1], expected, rtol=0, atol=1e-9)
        for t in range(len(summary) + 1):
            assert_close(steps[t][i], expected[t], rtol=0, atol=1e-9)


@pytest.mark.parametrize("body", bodies(), ids=["gpt", "tcn"])
def test_a_beam_finds_the_same_in_a_batch_and_alone(body: Any) -> None:
    model, given = prompted(body), batch()
    assert given.lengths is not None
    options = DecodeOptions(beam=3, n_best=3, max_length=6)
    together = beam_search([model], given.source, given.lengths, options)
    for i, length in enumerate(given.lengths.tolist()):
        (alone,) = beam_search([model], given.source[i : i + 1, :length], given.lengths[i : i + 1], options)
        assert [h.tokens for h in together[i]] == [h.tokens for h in alone]
        assert [h.log_prob for h in together[i]] == pytest.approx([h.log_prob for h in alone], abs=1e-6)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    out = tmp_path_factory.mktemp("prompted") / "run"
    return train(recipe(), pairs=pairs(400), dev=pairs(450)[400:], out=out, quiet=True)


def test_a_toy_is_learned_and_kept(model: Model, tmp_path: Path) -> None:
    assert model.bundle.path is not None
    run = model.bundle.path.parent
    texts = ["fox cow bee ant", "bee bee cat", "dog ant"]
    assert model.translate(texts) == ["fox", "bee", "dog"]
    again = load(run)
    assert again.translate(texts) == ["fox", "bee", "dog"]
    assert again.n_best(texts, n_best=2)[0][0].confidence > 0.9
    file = tmp_path / "test.tsv"
    file.write_text("".join(f"{s}\t{t}\n" for s, t in pairs(500)[450:]))
    found = json.loads(CliRunner().invoke(app, ["evaluate", str(run), str(file), "--json"]).stdout)
    assert found["scores"]["ROUGE-1"]["value"] > 95
    shown = CliRunner().invoke(app, ["summarise", str(run)], input="ant cow\ncow ant\n")
    assert shown.stdout == "ant\ncow\n"


def test_a_document_may_have_lines_of_its_own(model: Model, tmp_path: Path) -> None:
    assert model.bundle.path is not None
    run, file = model.bundle.path.parent, tmp_path / "documents.jsonl"
    file.write_text('{"source": "ant\\ncow bee"}\n\n{"source": "cow ant", "target": "cow"}\n')
    assert CliRunner().invoke(app, ["summarise", str(run), str(file)]).stdout == "ant\ncow\n"
    file.write_text('{"source": "ant"}\n{"body": "cow ant"}\n')
    with pytest.raises(UserError, match=r"documents\.jsonl, line 2: no text under 'source'"):
        CliRunner().invoke(app, ["summarise", str(run), str(file)], catch_exceptions=False)


def test_options_of_translators_scores_are_refused(model: Model) -> None:
    assert model.bundle.path is not None
    for option in ("--lowercase", "--cased", "--tokenize=none"):
        with pytest.raises(UserError, match="is for translations"):
            CliRunner().invoke(app, ["evaluate", str(model.bundle.path), option], catch_exceptions=False)


def test_documents_are_cut_at_their_end(model: Model) -> None:
    document = model.bundle.model.head.document
    assert document + len(model.bundle.model.prompt) == 12  # three quarters of 16
    long = " ".join(["cow", *["bee"] * 200])
    assert model.translate(long) == "cow"
    assert model.translator.max_source == document
    beginning = " ".join(["cow", *["bee"] * (document - 1)])
    assert model.n_best([long])[0][0] == model.n_best([beginning])[0][0]


def test_a_summary_is_as_long_as_its_own_place_not_the_documents() -> None:
    body, source = bodies()[0], torch.tensor([[10, 11, 12, EOS]])
    model = Prompted(body, HeadConfig(prompt_tokens=PROMPT, document=3, summary=6))
    options = DecodeOptions(beam=1, max_length=9, min_length=9)
    ((found, *_),) = beam_search([model], source, torch.tensor([4]), options)
    assert len(found.tokens) == 6


def test_what_looks_at_an_encoder_says_that_there_is_none(model: Model) -> None:
    for ask in (lambda: look(model, "cat dog"), lambda: roles(model)):
        with pytest.raises(UserError):
            ask()
    (one,) = align(model.bundle, [("cat dog", "cat")], 20)
    assert one.weights.sum() == 1


def test_the_documents_loss_can_count() -> None:
    body, given = bodies()[0], batch()
    task = PromptedTask.__new__(PromptedTask)
    task.recipe, task.head = recipe(), HeadConfig(prompt_tokens=PROMPT, document=12)
    model = prompted(body)

    def nats(row: list[int], places: range) -> float:
        logits = own_logits(body, row[:-1]).log_softmax(-1)
        return -float(sum(logits[i - 1, row[i]] for i in places))

    rows = []
    for source, target in zip(given.source.tolist(), given.target_out.tolist(), strict=True):
        document, summary = source[: source.index(EOS)], target[: target.index(EOS) + 1]
        rows.append(([*document, *PROMPT, *summary], len(document) + 2))
    written = sum(nats(row, range(begin, len(row))) for row, begin in rows)
    read = sum(nats(row, range(1, begin)) for row, begin in rows)
    assert task.loss(model, given).total.item() == pytest.approx(written)
    task.head = task.head.model_copy(update={"also_document": 0.5})
    mean = read / sum(begin - 1 for _, begin in rows)
    assert task.loss(model, given).total.item() == pytest.approx(written + 0.5 * mean * given.count)


def test_a_language_model_can_learn_it(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("".join(f"{source} TL;DR: {target}\n" for source, target in pairs(200)))
    tree = {
        "task": "language", "model": SHAPE, "tokenizer": {"kind": "word", "size": 40},
        "data": {"train": [str(tmp_path / "text.txt")], "max_length": 16, "document": "line"},
        "train": {"steps": 2, "batch": 4, "schedule": "constant", "validate_every": 2, "parts": 1},
    }  # fmt: skip
    parent = train(tree, out=tmp_path / "parent", quiet=True)
    made = train(
        recipe(train={"steps": 1, "lr": 1e-9}), pairs=pairs(40), out=tmp_path / "run", quiet=True,
        start_from=tmp_path / "parent",
    )  # fmt: skip
    assert made.bundle.source.checksum == parent.bundle.source.checksum
    assert_close(made.bundle.model.body.tokens.weight, parent.bundle.model.tokens.weight, rtol=0, atol=1e-6)
    assert load(tmp_path / "run").translate("cat dog") == made.translate("cat dog")


def test_mistakes_are_told() -> None:
    with pytest.raises(UserError, match="reads and writes one vocabulary"):
        recipe(tokenizer={"shared": False})
    with pytest.raises(UserError, match=r"model\.max_positions is 24"):
        recipe(data={"max_length": 25})
    tokenizer = Tokenizer.learn(["cat dog TL;DR:"], "word", 40)
    with pytest.raises(UserError, match="room for the summary"):
        settled(recipe(head={"document": 16}), tokenizer)
    with pytest.raises(UserError, match=r"head\.prompt is empty"):
        settled(recipe(head={"prompt": ""}), tokenizer)
