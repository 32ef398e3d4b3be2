"""Recipes: strict, typed, and with errors that say what to do."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from regard import config
from regard.config import DataConfig, Recipe, TrainConfig, default_recipe, describe, load_recipe, make_recipe
from regard.decode import DecodeOptions
from regard.errors import UserError
from regard.models import MODELS, TransformerConfig

ROOT = Path(__file__).parent.parent


def refused(tree: dict[str, Any], *overrides: str) -> str:
    with pytest.raises(UserError) as caught:
        make_recipe(tree, overrides)
    message = str(caught.value)
    assert "\n" not in message
    return message


# --- unknown and misplaced keys -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({"train": {"stpes": 5}}, ["unknown key 'stpes' in [train]", "did you mean 'steps'?"]),
        ({"model": {"d_modle": 8}}, ["unknown key 'd_modle' in [model]", "did you mean 'd_model'?"]),
        ({"model": {"szie": "tiny"}}, ["unknown key 'szie' in [model]", "did you mean 'size'?"]),
        ({"model": {"name": "rnn", "norm": "pre"}}, ["unknown key 'norm' in [model]; rnn has no such key"]),
        ({"model": {"name": "rnn", "headss": 2}}, ["unknown key 'headss' in [model]"]),
        ({"decode": {"beem": 3}}, ["unknown key 'beem' in [decode]", "did you mean 'beam'?"]),
        ({"trian": {"steps": 5}}, ["unknown key 'trian' in the top level", "did you mean 'train'?"]),
        ({"train": {"qqqq": 5}}, ["unknown key 'qqqq' in [train]", "known keys: steps, "]),
        ({"score": {"dropuot": 5}}, ["known keys: tokenize, lowercase", "did you mean model.dropout?"]),
    ],
)
def test_an_unknown_key_is_answered_with_the_nearest(tree: dict[str, Any], words: list[str]) -> None:
    message = refused(tree)
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    ("tree", "home"),
    [
        ({"train": {"beam": 5}}, "it belongs in [decode]"),
        ({"train": {"dropout": 0.1}}, "it belongs in [model]"),
        ({"model": {"steps": 5}}, "it belongs in [train]"),
        ({"model": {"size": "tiny"}, "heads": 4}, "it belongs in [model]"),
        ({"data": {"size": 5}}, "it belongs in [tokenizer] or [model]"),
        ({"train": {"seed": 5}}, "it belongs in [decode] or the top level"),
        ({"model": {"task": "translation"}}, "it belongs in the top level"),
    ],
)
def test_a_key_in_the_wrong_section_is_told_its_own(tree: dict[str, Any], home: str) -> None:
    assert refused(tree).endswith(home)


# --- overrides ------------------------------------------------------------------------------------------------------


def test_overrides_are_typed() -> None:
    recipe = make_recipe(
        {"train": {"steps": 7, "lr": 2.0}},
        ["steps=9", "train.lr=1e-3", "tokenizer.shared=false", "model.size=tiny", "model.tie=['target', 'output']",
         "data.train=['a b.en', 'c=d.de']", "decode.max_length=20", "optimizer=adamw", 'data.source="en"',
         "weight_decay=.5", "seed=3"],
    )  # fmt: skip
    assert (recipe.train.steps, recipe.train.lr, recipe.train.optimizer) == (9, 0.001, "adamw")
    assert recipe.train.weight_decay == 0.5
    assert recipe.tokenizer.shared is False
    assert recipe.model == {"size": "tiny", "tie": ["target", "output"]}
    assert recipe.data.train == ("a b.en", "c=d.de")
    assert (recipe.decode.max_length, recipe.data.source, recipe.seed) == (20, "en", 3)


def test_overrides_do_not_change_the_tree_they_are_laid_over() -> None:
    tree = {"train": {"steps": 7}}
    assert make_recipe(tree, ["steps=8"]).train.steps == 8
    assert tree == {"train": {"steps": 7}}


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("size=5", ["size could be", "tokenizer.size", "model.size", "write one of these"]),
        ("max_length=5", ["data.max_length", "decode.max_length"]),
        ("stpes=5", ["no section of a recipe has a key 'stpes'", "did you mean train.steps?"]),
        ("qqqq=5", ["no section of a recipe has a key 'qqqq'"]),
        ("steps", ["'steps' is not key=value"]),
        ("=5", ["'=5' is not key=value"]),
        ("train.stpes=5", ["unknown key 'stpes' in [train]"]),
        ("nowhere.steps=5", ["unknown key 'nowhere' in the top level"]),
        ("steps=many", ["train.steps", "(it is 'many')"]),
        ("steps=0", ["train.steps", "greater than or equal to 1", "(it is 0)"]),
        ("train.betas=0.9", ["train.betas"]),
        ("train=pairs.tsv", ["train"]),
        ("model.size=tony", ["model.size 'tony' is not known; known: tiny, small, base, big"]),
        ("model.name=burt", ["model.name 'burt' is not known; known: transformer"]),
        ("model.name=bert", ["model.name 'bert' cannot learn translation; these can: transformer"]),
        ("task=translating", ["task 'translating' is not known; known: translation"]),
        ("model.source_vocabulary=9", ["model.source_vocabulary comes from the tokenizer"]),
    ],
)
def test_an_override_that_cannot_be(override: str, words: list[str]) -> None:
    message = refused({}, override)
    assert all(word in message for word in words), message


def test_an_override_into_what_is_no_section() -> None:
    assert "where a section [train] should be" in refused({"train": 3}, "train.steps=5")
    assert "train" in refused({"train": 3})


# --- what must fit together -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({"model": {"d_model": 510}}, ["d_model 510 is not divisible by heads 8; try 512"]),
        ({"model": {"heads": "many"}}, ["model.heads", "(it is 'many')"]),
        ({"model": {"dropout": 1.5}}, ["model.dropout", "less than 1", "(it is 1.5)"]),
        ({"train": {"average": 5, "keep": 3}}, ["average = 5", "keep"]),
        ({"train": {"weight_decay": 0.1}}, ["optimizer 'adamw'"]),
        ({"tokenizer": {"shared": False}, "model": {"tie": ["source", "output"]}}, ["shared tokenizer"]),
        ({"model": {"positions": "learned", "max_positions": 256}}, ["257 learned positions", "data.max_length"]),
        ({"decode": {"n_best": 9}}, ["decode: n_best 9 needs a beam of at least 9"]),
    ],
)
def test_what_does_not_fit_together_is_refused(tree: dict[str, Any], words: list[str]) -> None:
    message = refused(tree)
    assert all(word in message for word in words), message


@pytest.mark.parametrize("task", ["classification", "tagging", "answering", "masked", "two-way", "language"])
def test_what_a_recipe_leaves_open_suits_its_task(task: str) -> None:
    def told(train: TrainConfig) -> tuple[Any, ...]:
        return train.schedule, train.optimizer, train.label_smoothing, train.warmup, train.clip

    own, published = ("linear", "adamw", 0, 100, 1.0), ("paper", "adam", 0.1, 4000, 0)
    tree = {"task": task, "tokenizer": {"kind": "byte" if task == "two-way" else "bpe"}}
    made = make_recipe(tree | {"train": {"lr": 5e-5}}).train
    assert (made.lr, told(made)) == (5e-5, own)
    assert told(Recipe(**tree, train=TrainConfig(lr=5e-5)).train) == own
    assert make_recipe(tree | {"train": {"clip": 0.5}}).train.clip == 0.5
    assert told(make_recipe({}).train) == published
    assert told(make_recipe(tree | {"train": {"schedule": "paper"}}).train) == published  # asked for as it is


@pytest.mark.parametrize(("labels", "metric"), [("one", "accuracy"), ("several", "accuracy"), ("number", "pearson")])
def test_each_kind_of_label_has_scores_of_its_own(labels: str, metric: str) -> None:
    tree = {"task": "classification", "data": {"labels": labels}}
    assert make_recipe(tree).metric == metric
    other = "accuracy" if labels == "number" else "pearson"
    with pytest.raises(UserError, match=rf"train\.metric '{other}' is not one of classification's"):
        make_recipe(tree, [f"metric={other}"])


def test_learned_positions_that_just_suffice() -> None:
    assert make_recipe({"model": {"positions": "learned", "max_positions": 257}})
    assert make_recipe({"model": {"max_positions": 5}})  # not learned: of no account


def test_a_models_size_is_laid_under_the_recipes_own_keys() -> None:
    network = make_recipe({"model": {"size": "tiny", "dropout": 0.0}}).network(100, 100)
    assert (network.d_model, network.heads, network.dropout) == (128, 4, 0.0)
    assert (network.source_vocabulary, network.target_vocabulary) == (100, 100)
    assert network.tie == ("source", "target", "output")
    assert make_recipe({}).network(7, 7) == TransformerConfig(source_vocabulary=7, target_vocabulary=7)


@pytest.mark.parametrize("shared", [True, False])
def test_shapes_can_be_compared_before_there_is_a_tokenizer(shared: bool) -> None:
    first = make_recipe({"model": {"size": "tiny"}, "tokenizer": {"shared": shared}})
    same = make_recipe({"model": {"size": "tiny", "heads": 4}, "tokenizer": {"shared": shared}})
    other = make_recipe({"model": {"size": "tiny", "heads": 8}, "tokenizer": {"shared": shared}})
    assert first.shape() == same.shape() != other.shape()


def test_two_tokenizers_leave_the_source_embedding_alone() -> None:
    network = make_recipe({"tokenizer": {"shared": False}}).network(100, 90)
    assert network.tie == ("target", "output")


# --- files ----------------------------------------------------------------------------------------------------------


def test_the_file_is_named_whatever_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    with pytest.raises(UserError, match=r"there is no recipe .*mine\.toml"):
        load_recipe(path)
    for text in ("[train]\nstpes = 5", "[model]\nd_model = 510", "steps =", "[model]\nhaeds = 3"):
        path.write_text(text)
        with pytest.raises(UserError, match=r"mine\.toml"):
            load_recipe(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match=r"cannot read recipe .*mine\.toml"):
        load_recipe(path)
    with pytest.raises(UserError, match="cannot read recipe"):
        load_recipe(tmp_path)


def test_a_resolved_recipe_is_read_back_as_it_was(tmp_path: Path) -> None:
    tree = {"model": {"size": "tiny", "tie": ["target", "output"]}, "train": {"betas": [0.8, 0.9]}}
    for recipe in (Recipe(), make_recipe(tree, ["decode.max_length=30", "data.source='é\"\\n'", "eps=1e-9"])):
        path = tmp_path / "recipe.toml"
        path.write_text(recipe.to_toml(), encoding="utf-8")
        assert load_recipe(path) == recipe
        assert set(tomllib.loads(recipe.to_toml())) == set(Recipe.model_fields)  # every section is written out


@pytest.mark.parametrize("path", sorted(ROOT.glob("recipes/*.toml")) + sorted(ROOT.glob("src/regard/recipes/*.toml")))
def test_recipes_that_come_with_it_are_sound(path: Path) -> None:
    assert load_recipe(path).network(300, 300)


@pytest.mark.parametrize(
    ("files", "languages"),
    [
        (["train.en", "train.de"], ("en", "de")),
        (["a/corpus.spa.gz", "a/corpus.en.gz"], ("spa", "en")),
        (["a.txt", "b.txt"], ("source", "target")),
        (["pairs.tsv"], ("source", "target")),
        (["a.english", "b.german"], ("source", "target")),
    ],
)
def test_files_without_a_recipe(files: list[str], languages: tuple[str, str]) -> None:
    recipe = default_recipe(files, ["steps=5"])
    assert recipe.data.train == tuple(files)
    assert (recipe.data.source, recipe.data.target) == languages
    assert recipe.train.steps == 5


@pytest.mark.parametrize("name", ["rnn", "conv", "transformer"])
def test_files_and_another_network(name: str) -> None:
    recipe = default_recipe(["pairs.tsv"], [f"model.name={name}"])
    assert recipe.network_name == name
    assert recipe.train.optimizer == "muon"


def test_files_and_another_task() -> None:
    recipe = default_recipe(["texts.csv"], ["task=classification", "data.label=2", "data.text=[1]"])
    assert (recipe.network_name, recipe.shape().d_model, recipe.train.optimizer) == ("bert", 128, "adamw")
    assert (recipe.data.label, recipe.data.text) == ("2", ("1",))
    assert default_recipe(["texts.csv"], ["task=classification", "model.name=textcnn"]).network_name == "textcnn"
    assert recipe.train.patience > 0  # a few hundred examples are not read for hours
    assert default_recipe(["texts.csv"], ["task=classification", "steps=9"]).train.steps == 9
    assert default_recipe(["book.txt"], ["task=language"]).train.patience == 0
    for name in ("gpt", "tcn"):  # which have no tiny one
        assert default_recipe(["a.tsv"], ["task=summarisation", f"model.name={name}"]).model["size"] == "mini"
    with pytest.raises(UserError, match="task 'singing' is not known"):
        default_recipe(["texts.csv"], ["task=singing"])


# --- help -----------------------------------------------------------------------------------------------------------


def test_every_key_has_its_line_of_help() -> None:
    rows = {key: (kind, default, text) for key, kind, default, text in describe()}
    sections = {"data": DataConfig, "train": TrainConfig, "decode": DecodeOptions, "model": TransformerConfig}
    for section, kind in sections.items():
        assert {f"{section}.{name}" for name in kind.model_fields} <= set(rows)
    assert {"seed", "task", "model.name", "model.size", "tokenizer.kind", "score.tokenize"} <= set(rows)
    assert all(kind and len(text) > 8 for kind, _, text in rows.values())
    assert rows["train.warmup"][:2] == ("int", "4000")
    assert rows["train.optimizer"][0] == "adam | adamw | muon"
    known = config._sections()
    assert {key for key in rows if "." in key} == {f"{s}.{name}" for s, names in known.items() for name in names}


def test_every_key_that_is_listed_can_be_set() -> None:
    """Each default, given as an override to the first network that has the key, is what it was."""
    for key, _, default, _ in describe():
        if default and not key.endswith("vocabulary"):
            owner = next((n for n, m in MODELS.items() if key.removeprefix("model.") in m.Config.model_fields), "")
            tree: dict[str, Any] = {}
            if key.startswith("model.") and owner != "transformer":
                reads = {"kind": getattr(MODELS[owner], "tokenizer", "bpe")}
                tree = {"task": max(MODELS[owner].tasks), "model": {"name": owner}, "tokenizer": reads}
            recipe = make_recipe(tree, [f"{key}={default.replace('(', '[').replace(')', ']')}"])
            assert recipe.model_copy(update={"model": {}}) == make_recipe(tree).model_copy(update={"model": {}}), key
            assert recipe.network(5, 5) == make_recipe(tree).network(5, 5), key


def test_what_is_written_keeps_its_capitals() -> None:
    made = {"task": "masked", "tokenizer": {"uncased": True}}
    assert make_recipe(made).tokenizer.uncased
    for task in ("translation", "summarisation", "language", "two-way"):
        with pytest.raises(UserError, match=f"uncased is for tasks that read; {task} has words with capitals to give"):
            make_recipe(made | {"task": task})
