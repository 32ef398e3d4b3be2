"""Classification from the command line: a model that learns, predicts, resumes, and says what is wrong."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from typer.testing import CliRunner

from regard.api import load
from regard.bundle import load_bundle
from regard.cli import app
from regard.config import load_recipe, make_recipe
from regard.errors import UserError
from regard.tasks.classification import prepare
from regard.tasks.reading import framed
from regard.tasks.task import Asked
from regard.text import Specials
from regard.training.session import train

MODEL = {"name": "bert", "d_model": 32, "d_ff": 64, "heads": 2, "layers": 1, "dropout": 0.0, "attention_dropout": 0.0}
GOOD, BAD = ("good", "great", "fine", "lovely"), ("bad", "awful", "poor", "dull")


def sentences(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Any of some words and others around; the label says which sort."""
    random = np.random.default_rng(seed)
    nouns = ("film", "book", "song", "day", "house", "meal", "walk", "talk")
    rows = []
    for _ in range(count):
        label = int(random.integers(2))
        word = (GOOD if label else BAD)[random.integers(4)]
        rows.append(
            (f"the {nouns[random.integers(8)]} was {word} and the {nouns[random.integers(8)]} long", str(label))
        )
    return rows


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    for name, count, seed in (("train", 300, 1), ("dev", 60, 2)):
        rows = sentences(count, seed)
        (folder / f"{name}.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in rows))
    return folder


def recipe(folder: Path, data: dict[str, Any] | None = None, **changes: Any) -> Any:
    settings = {
        "steps": 60, "batch": 32, "optimizer": "adamw", "lr": 0.003, "schedule": "linear", "warmup": 5,
        "label_smoothing": 0.0, "validate_every": 30, "save_every": 30, "batch_tokens": 1024, "parts": 1,
    }  # fmt: skip
    tree = {
        "task": "classification", "model": MODEL, "tokenizer": {"kind": "word", "size": 100},
        "head": {"pooling": "mean"},
        "data": {name: [str(folder / f"{name}.tsv")] for name in ("train", "dev")} | {"max_length": 20} | (data or {}),
        "train": settings | changes,
    }  # fmt: skip
    return make_recipe(tree)


@pytest.fixture(scope="module")
def trained(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "run"
    train(recipe(files), out)
    return out


def test_it_learns_and_says_how_well(trained: Path) -> None:
    facts = json.loads((trained / "model" / "model.json").read_text())
    assert facts["task"] == "classification"
    assert facts["labels"] == ["0", "1"]
    assert facts["scores"]["dev"]["accuracy"]["value"] > 0.95
    assert 0 <= facts["scores"]["dev"]["calibration_error"]["value"] < 0.5
    assert "Classification: 0, 1" in (trained / "model" / "README.md").read_text()


def test_it_predicts(trained: Path) -> None:
    predictor = load(trained).predict
    good, bad = predictor(["the film was great and the day long", "the film was awful and the day long"])
    assert good.chosen == ("1",)
    assert bad.chosen == ("0",)
    assert sum(good.labels.values()) == pytest.approx(1)
    assert list(good.labels) == ["1", "0"]  # the likeliest first
    assert predictor([]) == []
    assert predictor("the film was great and the day long").chosen == ("1",)  # one text is no list of characters


@pytest.mark.parametrize("size", ["kim", "dcnn"])
def test_a_text_cnn_learns_it_too(files: Path, tmp_path: Path, size: str) -> None:
    shape = {"d_model": 16, "maps": (8, 8, 8) if size == "kim" else (2, 4), "dropout": 0.1}
    asked = recipe(files, lr=0.02, max_norm=0.5).model_copy(update={"model": {"name": "textcnn", "size": size} | shape})
    assert train(asked, tmp_path / "run").scores["dev"]["accuracy"]["value"] > 0.95
    model = load(tmp_path / "run")
    alone = model.predict(["fine"])[0]
    beside = model.predict(["fine", "the song was fine and the walk long and the talk long"])[0]
    assert alone.chosen == ("1",)
    assert beside.labels["1"] == pytest.approx(alone.labels["1"], abs=1e-6)
    assert float(model.bundle.model.out.weight.detach().norm(dim=1).max()) == pytest.approx(
        0.5, abs=1e-4
    )  # it wants to be larger


def test_it_does_not_translate(trained: Path) -> None:
    with pytest.raises(UserError, match="it does not translate; use it with `regard predict`"):
        load(trained).translate("the film")


def test_what_stands_beside_a_text_changes_nothing(trained: Path) -> None:
    predictor = load(trained).predict
    text = "the song was fine"
    alone = predictor([text])[0].labels["1"]
    beside = predictor([text, "the song was fine and the walk long and the talk long and the meal long", ""])[0]
    assert beside.labels["1"] == pytest.approx(alone, abs=1e-5)


def test_a_resumed_run_is_the_same(files: Path, trained: Path, tmp_path: Path) -> None:
    train(recipe(files, steps=30, schedule="constant"), tmp_path / "a")
    train(recipe(files, steps=60, schedule="constant"), tmp_path / "a", resume=True)
    train(recipe(files, steps=60, schedule="constant"), tmp_path / "b")
    a, b = ((tmp_path / name / "model" / "model.safetensors").read_bytes() for name in "ab")
    assert a == b


def test_from_another_model_with_frozen_parts(files: Path, trained: Path, tmp_path: Path) -> None:
    before = load(trained).bundle.model
    train(recipe(files, freeze=2, layer_decay=0.5, steps=5, validate_every=5), tmp_path / "b", start_from=trained)
    after = load(tmp_path / "b").bundle.model
    for (name, old), new in zip(before.named_parameters(), after.parameters(), strict=True):
        assert torch.equal(old, new) == name.startswith("body."), name
    with pytest.raises(UserError, match=r"freeze = 3 would leave nothing to learn"):
        train(recipe(files, freeze=3, steps=5), tmp_path / "c", start_from=trained)


def test_from_a_model_with_other_labels(files: Path, trained: Path, tmp_path: Path) -> None:
    for name in ("train", "dev"):
        rows = [(text, "unsure" if "song" in text else label) for text, label in sentences(60, 4)]
        (tmp_path / f"{name}.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in rows))
    train(recipe(tmp_path, freeze=2, steps=2, validate_every=2, lr=1e-30), tmp_path / "run", start_from=trained)
    before, after = load(trained).bundle, load(tmp_path / "run").bundle
    assert after.labels == ["0", "1", "unsure"]
    assert torch.equal(after.model.body.tokens.weight, before.model.body.tokens.weight)
    assert torch.equal(after.model.out.weight[:2], before.model.out.weight)  # what it knows of the labels stays
    assert torch.equal(after.model.out.bias[:2], before.model.out.bias)


def test_labels_in_another_order_are_the_same_labels(files: Path, trained: Path, tmp_path: Path) -> None:
    bundle = load(trained).bundle
    bundle.labels = ["1", "0"]
    bundle.save(tmp_path / "turned")
    train(recipe(files, steps=2, validate_every=2, lr=1e-30), tmp_path / "run", start_from=tmp_path / "turned")
    after = load(tmp_path / "run").bundle
    assert after.labels == ["0", "1"]
    assert torch.equal(after.model.out.weight, bundle.model.out.weight.flip(0))


def test_a_head_of_another_task_begins_anew(files: Path, trained: Path, tmp_path: Path) -> None:
    bundle = load(trained).bundle
    bundle.task, bundle.labels = "tagging", ["0", "1"]  # as many outputs, of another meaning
    bundle.save(tmp_path / "tagger")
    train(recipe(files, steps=2, validate_every=2, lr=1e-30), tmp_path / "run", start_from=tmp_path / "tagger")
    after = load(tmp_path / "run").bundle.model
    assert torch.allclose(after.body.tokens.weight, bundle.model.body.tokens.weight)
    assert not torch.allclose(after.out.weight, bundle.model.out.weight)


def test_a_new_head_goes_on_gently_unless_told_otherwise(files: Path, trained: Path, tmp_path: Path) -> None:
    tree = recipe(files, steps=2, validate_every=2).model_dump(exclude_none=True)
    del tree["train"]["lr"]
    train(make_recipe(tree), tmp_path / "on", start_from=trained)
    train(make_recipe(tree), tmp_path / "new")
    assert [load_recipe(tmp_path / run / "recipe.toml").train.peak for run in ("on", "new")] == [5e-5, 1e-3]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"schedule": "paper"}, r"train\.lr = 0\.003 is a factor of the schedule 'paper', which gives 9e-05 at most"),
        ({"schedule": "constant", "warmup": 9}, r"warmup = 9 is longer than the 2 steps: .* gets to 0\.0007 only"),
        ({"schedule": "constant", "warmup": 2}, None),
        ({"schedule": "paper", "lr": 1.0, "warmup": 2}, None),
    ],
    ids=str,
)
def test_rates_that_cannot_be_meant_are_told(
    files: Path, trained: Path, tmp_path: Path, changes: dict[str, Any], told: str | None
) -> None:
    events: list[dict[str, Any]] = []
    made = recipe(files, **{"steps": 2, "validate_every": 2} | changes)
    train(made, tmp_path / "run", start_from=trained, callbacks=[events.append])
    warnings = [event["text"] for event in events if event["event"] == "warning"]
    assert (len(warnings) == 1 and re.search(told, warnings[0])) if told else not warnings


def test_rare_classes_count_for_more(files: Path, tmp_path: Path) -> None:
    rows = [row for i, row in enumerate(sentences(400, 3)) if row[1] == "0" or i % 7 == 0]
    (tmp_path / "train.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in rows))
    (tmp_path / "dev.tsv").write_text((files / "dev.tsv").read_text())
    texts = [text for text, _ in sentences(60, 2)]
    rare = {}
    for weighted in (False, True):
        out = tmp_path / f"weighted-{weighted}"
        train(recipe(tmp_path, class_weights=weighted, steps=10, validate_every=10, final="last"), out)
        rare[weighted] = sum(found.labels["1"] for found in load(out).predict(texts)) / len(texts)
    assert rare[False] < 0.35  # about as often as it was seen
    assert rare[True] > rare[False] + 0.1


def test_rare_labels_of_several_count_for_more(tmp_path: Path) -> None:
    rows = [
        (text, "rare,often" if i % 8 == 0 else "often" if i % 2 else "") for i, (text, _) in enumerate(sentences(64))
    ]
    for name in ("train", "dev"):
        (tmp_path / f"{name}.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in rows))
    made, _ = prepare(Asked(recipe(tmp_path, {"labels": "several"}, class_weights=True), tmp_path, lambda _: None))
    logits, targets = torch.zeros(1, 2), torch.tensor([[0.0, 1.0]])  # often is absent, rare is there
    assert made.labels == ["often", "rare"]
    expected = (np.log(2) + 7 * np.log(2)) / 2  # 8 of 64 have it: its presence weighs 56 / 8
    assert float(made._loss(logits, targets, 0.0)) == pytest.approx(expected, rel=1e-5)
    unsure = torch.tensor([[2.0, 0.0]])
    assert float(made._loss(unsure, targets, 0.2)) < float(made._loss(unsure, targets, 0.0))  # smoothed: 0.1 of it


@pytest.mark.parametrize("labels", ["one", "several"])
def test_two_readings_of_a_text_are_drawn_together(tmp_path: Path, labels: str) -> None:
    """R-Drop's loss (Liang 2021, equation 4) by PyTorch's own parts, per reading in place of per pair of readings."""
    for name in ("train", "dev"):
        (tmp_path / f"{name}.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in sentences(8)))
    made, _ = prepare(Asked(recipe(tmp_path, {"labels": labels}, rdrop=3.0), tmp_path, lambda _: None))
    batch = next(made.batches)
    one, other = torch.randn(2, len(batch.tokens), 2, dtype=torch.double)

    def twice(tokens: Any, lengths: Any, segments: Any) -> Any:
        assert torch.equal(tokens, torch.cat((batch.tokens, batch.tokens)))
        return torch.cat((one, other))

    if labels == "one":
        lost = sum(F.cross_entropy(logits, batch.targets, reduction="sum") for logits in (one, other))
        p, q = (torch.distributions.Categorical(logits=logits) for logits in (one, other))
        apart = torch.distributions.kl_divergence(p, q).sum() + torch.distributions.kl_divergence(q, p).sum()
    else:
        targets = batch.targets.double()
        lost = sum(F.binary_cross_entropy_with_logits(x, targets, reduction="sum") / 2 for x in (one, other))
        p, q = (torch.distributions.Bernoulli(logits=logits) for logits in (one, other))
        apart = (torch.distributions.kl_divergence(p, q) + torch.distributions.kl_divergence(q, p)).sum() / 2
    expected = (lost + 3.0 * apart / 2) / 2
    assert float(
        made.loss(twice, replace(batch, targets=batch.targets.to(one) if labels == "several" else batch.targets)).total
    ) == pytest.approx(float(expected))  # type: ignore[arg-type]


def test_the_set_that_was_held_out_is_scored_as_in_training(tmp_path: Path) -> None:
    """Columns by number, the label first: the file that the held-out examples are kept in has names."""
    rows = sentences(300, 7)
    (tmp_path / "train.tsv").write_text("".join(f"{label}\t{text}\t{i}\n" for i, (text, label) in enumerate(rows)))
    run = train(recipe(tmp_path, {"dev": [], "text": ["2"], "label": "1"}), tmp_path / "run")
    said = CliRunner().invoke(app, ["evaluate", str(tmp_path / "run"), "--json"])
    assert said.exit_code == 0, said.output
    for metric, value in json.loads(said.output)["scores"].items():
        assert value == pytest.approx(run.scores["dev"][metric]["value"], abs=1e-4)
    assert run.scores["dev"]["accuracy"]["value"] > 0.9
    said = CliRunner().invoke(app, ["predict", str(tmp_path / "run"), str(tmp_path / "train.tsv")])
    assert said.output.splitlines()[0].endswith(rows[0][0])  # the text, not the label beside it


def test_two_texts_are_asked_for_where_two_were_learned(tmp_path: Path) -> None:
    rows = "".join(f"{a}\t{b}\t{int(a == b)}\n" for a in GOOD for b in GOOD) * 4
    (tmp_path / "train.tsv").write_text("one\tother\tsame\n" + rows)
    data = {"dev": [], "text": ["one", "other"], "label": "same"}
    train(recipe(tmp_path, data, steps=2, validate_every=2), tmp_path / "run")
    run = CliRunner().invoke
    said = run(app, ["predict", str(tmp_path / "run"), str(tmp_path / "train.tsv")])
    assert said.output.splitlines()[1].split("\t")[1:] == ["good", "great"]
    assert run(app, ["predict", str(tmp_path / "run")], input="good\tgreat\n").output.endswith("\tgood\tgreat\n")
    model = load(tmp_path / "run")
    with pytest.raises(UserError, match=r"there are 1 texts in 'good'; this model reads 2 \(one and other\)"):
        model.predict(["good"])
    said = run(app, ["evaluate", str(tmp_path / "run"), "--against", str(tmp_path / "run")])
    assert "--against is for models that translate" in str(said.exception)
    with pytest.raises(UserError, match=r"the ctranslate2 engine translates; .* is a model for classification"):
        load(tmp_path / "run", engine="ctranslate2")


def test_a_model_from_elsewhere_reads_one_text_or_two(trained: Path, tmp_path: Path) -> None:
    """It does not tell which: a line with a tab is a pair, and columns are named."""
    bundle = load_bundle(trained)
    bundle.training = {}
    bundle.save(tmp_path / "model")
    run = CliRunner().invoke
    said = run(app, ["predict", str(tmp_path / "model"), "--json"], input="a good film\na day\twas good\n").output
    assert [json.loads(line)["text"] for line in said.splitlines()] == ["a good film", ["a day", "was good"]]
    assert run(app, ["predict", str(trained)], input="a day\twas good\n").output.endswith("\ta day was good\n")
    (tmp_path / "test.tsv").write_text("sentence1\tsentence2\tlabel\nthe film\twas good\t1\nthe film\twas bad\t0\n")
    words = ["evaluate", str(tmp_path / "model"), str(tmp_path / "test.tsv"), "--json"]
    assert "'sentence1' and 'sentence2'" in str(run(app, words).exception)
    pairs = json.loads(run(app, [*words, "--text", "sentence1", "--text", "sentence2"]).output)
    alone = json.loads(run(app, [*words, "--text", "sentence2"]).output)
    assert pairs["examples"] == alone["examples"] == 2
    assert pairs["scores"] != alone["scores"]


def test_a_table_from_elsewhere_is_asked_about(trained: Path, tmp_path: Path) -> None:
    """Which columns a model without a recipe reads nobody knows."""
    bundle = load_bundle(trained)
    bundle.training = {}
    bundle.save(tmp_path / "model")
    rows = "id,review,gold\n1,the film was good,1\n2,the film was bad,0\n"
    (tmp_path / "A.CSV").write_text(rows)
    run = CliRunner().invoke
    words = [str(tmp_path / "model"), str(tmp_path / "A.CSV"), "--text", "review"]
    assert "say with data.text (or --text)" in str(run(app, ["predict", *words[:2]]).exception)
    said = run(app, ["predict", *words])
    assert [line.split("\t")[1] for line in said.output.splitlines()] == ["the film was good", "the film was bad"]
    assert "data.label (or --label)" in str(run(app, ["evaluate", *words]).exception)
    assert json.loads(run(app, ["evaluate", *words, "--label", "gold", "--json"]).output)["scores"]["accuracy"] == 1


@pytest.mark.parametrize("labels", ["one", "several", "number"])
def test_it_predicts_the_layout_of_its_training(files: Path, trained: Path, tmp_path: Path, labels: str) -> None:
    """Nothing names the text: it stands beside what the model knows as labels."""
    bundle, run = load_bundle(trained), CliRunner().invoke
    bundle.training["recipe"]["data"]["labels"] = labels
    bundle.labels = [] if labels == "number" else bundle.labels
    bundle.save(tmp_path / "model")
    rows = [line.split("\t") for line in (files / "dev.tsv").read_text().splitlines()]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"label": y, "review": x}) + "\n" for x, y in rows))
    for path in (files / "dev.tsv", tmp_path / "a.jsonl"):
        said = run(app, ["predict", str(tmp_path / "model"), str(path), "--json"])
        assert [json.loads(line)["text"] for line in said.stdout.splitlines()] == [text for text, _ in rows]
    (tmp_path / "b.tsv").write_text("the film was good\tthe day long\n")
    said = run(app, ["predict", str(tmp_path / "model"), str(tmp_path / "b.tsv")])
    assert "b.tsv has 2 columns" in str(said.exception)


def test_a_model_of_pairs_reads_labels_as_texts(tmp_path: Path) -> None:
    rows = "".join(f"{a}\t{b}\t{int(a == b)}\n" for a in GOOD for b in GOOD) * 4
    (tmp_path / "train.tsv").write_text(rows)
    data = {"dev": [], "text": [1, 2], "label": 3}
    train(recipe(tmp_path, data, steps=2, validate_every=2), tmp_path / "run")
    (tmp_path / "a.tsv").write_text("good\t1\nfine\t0\n")
    said = CliRunner().invoke(app, ["predict", str(tmp_path / "run"), str(tmp_path / "a.tsv"), "--json"]).stdout
    assert [json.loads(line)["text"] for line in said.splitlines()] == [["good", "1"], ["fine", "0"]]


def test_columns_that_nothing_has_are_told(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the film was good\n")
    run = CliRunner().invoke
    assert "standard input has none" in str(run(app, ["predict", str(trained), "--text", "a"], input="a\n").exception)
    said = run(app, ["predict", str(trained), str(tmp_path / "a.txt"), "--text", "a"])
    assert "is read line by line" in str(said.exception)


def test_texts_that_are_cut_are_counted(trained: Path, tmp_path: Path) -> None:
    """This model reads 20 tokens, two of which are begin and end."""
    long, short = "the film was good and " * 4 + "long", "the film was good"
    (tmp_path / "a.tsv").write_text(f"{long}\t1\n{short}\t1\n" * 10 + f"{'film ' * 17}film\t1\n{'film ' * 18}film\t0\n")
    run, told = CliRunner().invoke, "11 of 22 texts are longer than 20 tokens and are cut"
    assert f"warning: {told}" in run(app, ["evaluate", str(trained), str(tmp_path / "a.tsv")]).stderr
    said = run(app, ["predict", str(trained), str(tmp_path / "a.tsv"), "--text", "1", "--json"])
    assert said.stderr == f"warning: {told}\n"
    assert [json.loads(line).get("cut", False) for line in said.stdout.splitlines()][:2] == [True, False]
    events: list[dict[str, Any]] = []
    data = {name: [str(tmp_path / "a.tsv")] for name in ("train", "dev")}
    prepare(Asked(recipe(tmp_path, data), tmp_path, events.append))
    (warning,) = (event["text"] for event in events if event["event"] == "warning")
    assert warning.startswith("22 of 44 texts are longer than 20 tokens and are cut; data.max_length")


def test_the_label_that_f1_is_of_is_named(tmp_path: Path) -> None:
    for name in ("train", "dev"):
        rows = [(text, ("OFFENSE", "OTHER")[int(label)]) for text, label in sentences(40)]
        (tmp_path / f"{name}.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in rows))
    train(recipe(tmp_path, steps=2, validate_every=2), tmp_path / "run")
    run = CliRunner().invoke
    assert "f1 of OTHER  " in run(app, ["evaluate", str(tmp_path / "run")]).output
    told = json.loads(run(app, ["evaluate", str(tmp_path / "run"), "--json"]).output)
    assert told["positive"] == "OTHER"
    assert 0 <= told["scores"]["f1"] <= 1
    assert "| dev | f1 of OTHER |" in (tmp_path / "run" / "model" / "README.md").read_text()


def test_what_was_said_before_a_bad_line_is_not_lost(trained: Path) -> None:
    text = b"the film was good\n" * 100 + b"caf\xe9\n"
    said = CliRunner().invoke(app, ["predict", str(trained)], input=text)
    assert "line 101" in str(said.exception)
    assert 16 <= said.stdout.count("\n") <= 100


def test_a_line_for_each_text(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('text,label\n"a good\nfilm\tat last",1\n"bad",0\n')
    said = CliRunner().invoke(app, ["predict", str(trained), str(tmp_path / "a.csv"), "--text", "text"]).output
    assert [line.split("\t")[1] for line in said.splitlines()] == ["a good film at last", "bad"]


def test_a_label_whose_only_example_is_held_out_is_a_label(tmp_path: Path) -> None:
    rows = [*sentences(40), *((f"text {i}", f"kind {i}") for i in range(60))]
    (tmp_path / "train.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in rows))
    for labels in ("one", "several"):
        asked = recipe(tmp_path, {"dev": [], "labels": labels}, class_weights=True)
        made, _ = prepare(Asked(asked, tmp_path, lambda _: None))
        assert len(made.labels) == 62
        assert made.weights.isfinite().all()


def test_a_first_line_that_may_name_the_columns_is_told(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("id,review,sentiment\n" + "".join(f"{i},text {i},{i % 2}\n" for i in range(60)))
    events: list[dict[str, Any]] = []
    data = {"train": [str(tmp_path / "train.csv")], "dev": [], "text": [2], "label": 3}
    prepare(Asked(recipe(tmp_path, data), tmp_path, events.append))
    (told,) = {event["text"] for event in events if event["event"] == "warning"}
    assert "line 1 is read as an example, whose label 'sentiment' is nowhere else" in told


def test_a_shape_that_is_not_taken_is_told(files: Path, trained: Path, tmp_path: Path) -> None:
    asked = recipe(files, steps=2, validate_every=2)
    changed = asked.model_copy(update={"model": MODEL | {"layers": 3, "dropout": 0.1}})
    events: list[dict[str, Any]] = []
    train(changed, tmp_path / "run", start_from=trained, callbacks=[events.append])
    (told,) = (event["text"] for event in events if event["event"] == "warning")
    assert told == "the model to go on from decides its shape: model.layers is 1, not 3"


@pytest.mark.parametrize(
    ("row", "labels", "words"),
    [
        ("the film\t", "one", "dev.tsv, line 1: there is no label"),
        ("the film\t", "number", "dev.tsv, line 1: there is no label"),
        ("the film\tnan", "number", "dev.tsv, line 1: 'nan' is not a number"),
    ],
)
def test_what_is_scored_on_has_labels(tmp_path: Path, row: str, labels: str, words: str) -> None:
    (tmp_path / "train.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in sentences(20)))
    (tmp_path / "dev.tsv").write_text(row + "\n")
    with pytest.raises(UserError, match=words):
        prepare(Asked(recipe(tmp_path, {"labels": labels}), tmp_path, lambda _: None))


def test_labels_that_look_like_numbers(tmp_path: Path) -> None:
    labels = ["10", "2", "-1", "--1", "²"]
    rows = [(text, labels[i % 5]) for i, (text, _) in enumerate(sentences(50))]
    for name in ("train", "dev"):
        (tmp_path / f"{name}.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in rows))
    made, _ = prepare(Asked(recipe(tmp_path), tmp_path, lambda _: None))
    assert made.labels == ["-1", "2", "10", "--1", "²"]
    with pytest.raises(UserError, match="here are 5: choose macro_f1"):
        prepare(Asked(recipe(tmp_path, metric="f1"), tmp_path, lambda _: None))


def test_several_labels_and_numbers(tmp_path: Path) -> None:
    rows = sentences(300, 4)
    both = [
        (text, ",".join([*(["good"] if label == "1" else []), *(["film"] if "film" in text else [])]))
        for text, label in rows
    ]
    (tmp_path / "train.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in both))
    (tmp_path / "dev.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in both[:60]))
    run = train(recipe(tmp_path, {"labels": "several"}, metric="macro_f1", steps=150), tmp_path / "several")
    assert run.scores["dev"]["macro_f1"]["value"] > 0.9
    found = load(tmp_path / "several").predict(["the film was great and the film long"])[0]
    assert set(found.chosen) == {"good", "film"}
    assert re.fullmatch(r"(good|film) 0\.\d+, (good|film) 0\.\d+\tthe film .*", found.table(1))
    assert replace(found, chosen=()).table(1) == "-\tthe film was great and the film long"
    numbers = [(text, str(2.5 if label == "1" else -1.0)) for text, label in rows]
    (tmp_path / "train.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in numbers))
    (tmp_path / "dev.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in numbers[:60]))
    run = train(recipe(tmp_path, {"labels": "number"}, steps=120), tmp_path / "numbers")
    assert run.scores["dev"]["pearson"]["value"] > 0.9
    assert load(tmp_path / "numbers").predict(["the film was great and the day long"])[0].number == pytest.approx(
        2.5, abs=0.6
    )


@pytest.mark.parametrize(
    ("data", "changes", "words"),
    [
        ({"train": []}, {}, "names no training data"),
        ({"label": "9"}, {}, "no column '9'"),
        ({"labels": "number", "label": "1"}, {}, "is not a number"),
        ({}, {"metric": "bleu"}, "is not one of classification's"),
    ],
)
def test_mistakes_are_told(
    files: Path, tmp_path: Path, data: dict[str, Any], changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(UserError, match=words):
        train(recipe(files, data, **changes), tmp_path / "run")


def test_two_texts_are_cut_where_they_are_longest() -> None:
    specials = Specials(begin=1, end=2)
    assert framed(specials, [5] * 3, None, 10)[0].tolist() == [1, 5, 5, 5, 2]
    tokens, second = framed(specials, [5] * 9, [6] * 3, 10)
    assert tokens.tolist() == [1, 5, 5, 5, 5, 2, 6, 6, 6, 2]
    assert second == 6
    tokens, second = framed(specials, [5] * 9, [6] * 9, 9)
    assert tokens.tolist() == [1, 5, 5, 5, 2, 6, 6, 6, 2]
    tokens, second = framed(Specials(begin=1, end=2, doubled=True), [5], [6], 9)
    assert tokens.tolist() == [1, 5, 2, 2, 6, 2]


def test_subword_sampling_changes_the_pieces_and_not_the_text(files: Path, tmp_path: Path) -> None:
    rows = sentences(40, 5)
    (tmp_path / "train.tsv").write_text("".join(f"{text}\t{text[::-1]}\t{label}\n" for text, label in rows))
    (tmp_path / "dev.tsv").write_text((tmp_path / "train.tsv").read_text())
    tree = recipe(tmp_path, {"text": ["1", "2"], "label": "3", "max_length": 64}).model_dump(exclude_none=True)
    asked = make_recipe(tree, ["tokenizer.kind=bpe", "tokenizer.size=400", "train.split=0.3"])
    drawn = []
    for _ in range(2):
        task, _ = prepare(Asked(asked, tmp_path, lambda event: None))
        drawn.append([next(task.batches) for _ in range(4)])
    end, longer = task.source.specials.end, 0
    texts = {(text, text[::-1]) for text, _ in rows}
    for batch, again in zip(*drawn, strict=True):
        assert torch.equal(batch.tokens, again.tokens)  # what is drawn depends on seed and place alone
        for ids, segments in zip(batch.tokens.tolist(), batch.segments.tolist(), strict=True):
            cut = segments.index(1)
            assert ids[cut - 1] == end
            first, second = task.source.decode(ids[:cut]), task.source.decode(ids[cut:])
            assert (first, second) in texts
            longer += cut - 2 > len(task.source.encode(first))
            assert len(ids) <= 64
    assert longer > 20
