"""GPT and GPT-2 to and from Hugging Face's layout: the same numbers, the same words, the same files back."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import ByteLevelBPETokenizer
from torch import Tensor
from torch.testing import assert_close

from regard.api import Model, load, train
from regard.bundle import load_bundle
from regard.errors import UserError
from regard.hub import huggingface
from regard.models.gpt import PUBLISHED, SIZES
from regard.training.transfer import in_our_numbers

TEXTS = ["the cat sat on the mat", "the dog sat on the log", "a cat, a dog; and a naïve café"]
TOKENS = torch.tensor([[5, 9, 2, 30, 30, 7, 1], [8, 8, 3, 0, 22, 11, 4]])
FAMILIES = {"gpt2": "GPT2", "openai-gpt": "OpenAIGPT"}


def theirs(family: str, **shape: Any) -> Any:
    """A model of theirs with random weights, norms and biases too."""
    torch.manual_seed(0)
    settings = {"n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 24, "vocab_size": 300} | shape
    settings |= dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), 0)
    config = getattr(transformers, f"{FAMILIES[family]}Config")(**settings)
    model = getattr(transformers, f"{FAMILIES[family]}LMHeadModel")(config)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.1)
    return model.eval()


def written(model: Any, folder: Path) -> Path:
    model.save_pretrained(folder)
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(TEXTS, vocab_size=270, min_frequency=2, special_tokens=["<|endoftext|>"])
    tokenizer.save_model(str(folder))
    return folder


def words(model: Any, folder: Path) -> Path:
    """GPT's files: letters, and letters at the end of a word."""
    model.save_pretrained(folder)
    letters = ["<unk>", *"acdehlmnogst", *(f"{c}</w>" for c in "acdehlmnogst,"), "ca", "cat</w>"]
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(letters)}))
    (folder / "merges.txt").write_text("#version: 0.2\nc a\nca t</w>\n")
    return folder


def logits(model: Any) -> Tensor:
    with torch.inference_mode():
        out: Tensor = model(input_ids=TOKENS).logits
    return out


def ours(model: Any) -> Tensor:
    with torch.inference_mode():
        out: Tensor = model(TOKENS) @ model.output.T
    return out


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("tie", [True, False])
def test_there_and_back(tmp_path: Path, family: str, tie: bool) -> None:
    model = theirs(family, tie_word_embeddings=tie)
    folder = (written if family == "gpt2" else words)(model, tmp_path / "theirs")
    bundle = huggingface.read(folder)
    assert bundle.task == "language"
    assert_close(ours(bundle.model), logits(model), rtol=0, atol=1e-4)
    bundle.save(tmp_path / "ours")
    again = load_bundle(tmp_path / "ours")
    huggingface.export(again, tmp_path / "back")
    back = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "back").eval()
    for name, weight in model.state_dict().items():
        assert torch.equal(back.state_dict()[name], weight), name
    assert_close(logits(back), logits(model), rtol=0, atol=0)
    reference = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    for text in TEXTS:
        assert reference(text)["input_ids"] == again.source.encode(text)


@pytest.mark.parametrize("size", [size for size in PUBLISHED if size != "gpt1"])
def test_two_layers_of_every_published_width(tmp_path: Path, size: str) -> None:
    shape = SIZES[size]
    model = theirs("gpt2", n_embd=shape["d_model"], n_head=shape["heads"], vocab_size=270)
    with torch.no_grad():  # so that sums over a thousand numbers stay near 1
        for p in model.parameters():
            p.div_(4 if p.ndim > 1 else 1)
    bundle = huggingface.read(written(model, tmp_path))
    assert bundle.model.config.d_ff == shape["d_ff"]
    assert_close(ours(bundle.model), logits(model), rtol=0, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_whole_base_models(tmp_path: Path, family: str) -> None:
    model = theirs(family, n_embd=768, n_head=12, n_layer=12, n_positions=512, vocab_size=40478)
    with torch.no_grad():
        for p in model.parameters():
            p.div_(4 if p.ndim > 1 else 1)
    bundle = huggingface.read((written if family == "gpt2" else words)(model, tmp_path))
    assert_close(ours(bundle.model), logits(model), rtol=0, atol=1e-4)


def test_greedy_writing_is_theirs(tmp_path: Path) -> None:
    model = theirs("gpt2", vocab_size=270)
    bundle = huggingface.read(written(model, tmp_path))
    reference = transformers.GPT2TokenizerFast.from_pretrained(tmp_path)
    prompts = ["the cat", "a naïve", "on the log; the"]
    found = Model([bundle]).generations(prompts, temperature=0, max_tokens=10)
    for prompt, (made,) in zip(prompts, found, strict=True):
        ids = torch.tensor([reference(prompt)["input_ids"]])
        assert bundle.source.encode(prompt) == ids[0].tolist()
        with torch.inference_mode():
            expected = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=10, do_sample=False)
        new = [token for token in expected[0, ids.size(1) :].tolist() if token]
        assert made.tokens == len(new)
        assert made.text == b"".join(map(bundle.source.piece, new)).decode(errors="replace")


def taught(folder: Path, *marks: str) -> Path:
    """With special symbols of its own, in its tokenizer.json."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"additional_special_tokens": list(marks)})
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize(("family", "make"), [("gpt2", written), ("openai-gpt", words)])
@pytest.mark.parametrize("old", [False, True], ids=["tokenizer.json", "added_tokens.json"])
def test_marks_that_a_model_was_taught_are_found(tmp_path: Path, family: str, make: Any, old: bool) -> None:
    folder, text = make(theirs(family), tmp_path / "theirs"), "a cat [E1] sat <|pad|>"
    number = len(json.loads((folder / "vocab.json").read_text()))
    if old:
        (folder / "added_tokens.json").write_text(json.dumps({"<|pad|>": number + 1, "[E1]": number}))
        (folder / "special_tokens_map.json").write_text(json.dumps({"pad_token": "<|pad|>"}))
    else:
        taught(folder, "[E1]", "<|pad|>")
    found = huggingface.read(folder).source.encode(text)
    assert found == transformers.AutoTokenizer.from_pretrained(folder)(text)["input_ids"]
    assert {number, number + 1} < set(found)


def test_old_files_are_read_too(tmp_path: Path) -> None:
    """Names without a prefix, and masks kept among the weights."""
    from safetensors.torch import load_file, save_file

    model = theirs("gpt2")
    folder = written(model, tmp_path)
    weights = load_file(folder / "model.safetensors")
    old = {name.removeprefix("transformer."): weight for name, weight in weights.items()}
    old |= {f"h.{i}.attn.bias": torch.ones(1, 1, 24, 24) for i in range(2)}
    save_file(old, folder / "model.safetensors")
    assert_close(ours(huggingface.read(folder).model), logits(model), rtol=0, atol=1e-4)


def test_what_cannot_be_is_told(tmp_path: Path) -> None:
    folder = written(theirs("gpt2"), tmp_path / "theirs")
    bundle = huggingface.read(folder)
    config = json.loads((folder / "config.json").read_text())
    for change, told in (
        ({"n_embd": 64}, r"wte\.weight is \(300, 32\), expected \(300, 64\)"),
        ({"n_head": 5}, r"config\.json: "),
        ({"n_positions": None}, r"n_positions is None, expected a number"),
        ({"n_layer": 3}, r"transformer\.h\.2\.ln_1\.weight is absent"),
        ({"activation_function": "silu"}, "the activation 'silu' is not known"),
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx = True is not known"),
        ({"add_cross_attention": True}, "add_cross_attention = True is not known"),
        ({"architectures": ["GPT2DoubleHeadsModel"]}, "a GPT2DoubleHeadsModel is not known"),
    ):
        (folder / "config.json").write_text(json.dumps(config | change))
        with pytest.raises(UserError, match=told):
            huggingface.read(folder)
    changed = bundle.model.config.model_copy(update={"positions": "rotary"})
    bundle.model.config = changed
    with pytest.raises(UserError, match="this model's are rotary"):
        huggingface.export(bundle, tmp_path / "out")


@pytest.mark.parametrize(("family", "make"), [("gpt2", written), ("openai-gpt", words)])
@pytest.mark.parametrize("tie", [True, False])
def test_it_can_learn_to_summarise(tmp_path: Path, family: str, make: Any, tie: bool) -> None:
    """Its one symbol becomes the four that a summary is learned with; nothing else changes."""
    bundle = huggingface.read(make(theirs(family, tie_word_embeddings=tie), tmp_path / "theirs"))
    bundle.save(tmp_path / "old")
    old, text = bundle.source, "a cat, a dog and the mat"
    recipe = {
        "task": "summarisation", "model": {"name": "gpt"}, "data": {"max_length": 24}, "head": {"prompt": " so"},
        "train": {"steps": 1, "lr": 1e-9, "schedule": "constant", "optimizer": "adam", "parts": 1, "warmup": 0},
    }  # fmt: skip
    pairs = [("the cat sat", "a cat"), ("the dog sat", "a dog")] * 10
    made = train(recipe, pairs=pairs, dev=pairs[:2], out=tmp_path / "run", start_from=tmp_path / "old", quiet=True)
    new = made.bundle.source
    assert (new.specials.ids, len(new)) == ({0, 1, 2, 3}, len(old) + 3)
    before, after = old.encode(text), new.encode(text)
    assert new.decode(after) == old.decode(before)
    assert not new.specials.ids.intersection(after)
    assert new.encode("<pad></s>") != [0, 3]  # a text that spells a symbol is that text
    with torch.inference_mode():
        known, body = bundle.model(torch.tensor([before]))[0], made.bundle.model.body
        found = body(torch.tensor([after]))[0]
        assert_close(found, known, atol=1e-5, rtol=1e-4)
        expected = (known @ bundle.model.output.T)[:, [*before, old.specials.end]]
        assert_close((found @ body.output.T)[:, [*after, new.specials.end]], expected, atol=1e-4, rtol=1e-4)
    assert load(tmp_path / "run").translate("the cat sat") == made.translate("the cat sat")


@pytest.mark.parametrize(
    ("family", "make", "symbols"),
    [
        ("gpt2", written, ["<pad>"]),
        ("gpt2", written, ["<s>", "</s>", "<unk>"]),
        ("openai-gpt", words, ["</s>", "<pad>"]),
    ],
)
def test_symbols_that_it_was_taught_are_those_of_a_summary(
    tmp_path: Path, family: str, make: Any, symbols: list[str]
) -> None:
    """Their rows go on; its end stays the one that it has, if that has a name of its own."""
    bundle = huggingface.read(taught(make(theirs(family), tmp_path), "[E1]", *symbols))
    made, old = in_our_numbers(bundle), bundle.source
    new, rows = made.source, made.model.tokens.weight
    numbers, before = ({t.token(i): i for i in range(len(t))} for t in (new, old))
    assert len(new) == len(rows) == len(numbers)
    for token, was in before.items():
        assert torch.equal(rows[numbers[token]], bundle.model.tokens.weight[was]), token
    ours = {"<pad>": 0, "<unk>": 1, "<s>": 2} | ({"</s>": 3} if family == "openai-gpt" else {"<|endoftext|>": 3})
    assert {token: numbers[token] for token in ours} == ours
    assert new.decode(new.encode("a cat [E1] sat")) == old.decode(old.encode("a cat [E1] sat"))
    assert {0, 2, 3}.isdisjoint(new.encode("<pad> <s>"))  # a text that spells a symbol is that text


def test_a_symbol_that_is_first_of_all_keeps_its_row(tmp_path: Path) -> None:
    folder = written(theirs("gpt2"), tmp_path)
    vocabulary = json.loads((folder / "vocab.json").read_text())
    moved = {"<pad>": 0} | {token: i + 1 for token, i in vocabulary.items()}
    (folder / "vocab.json").write_text(json.dumps(moved))
    bundle = huggingface.read(folder)
    made = in_our_numbers(bundle)
    assert (made.source.token(0), len(made.source)) == ("<pad>", len(bundle.source) + 2)
    assert torch.equal(made.model.tokens.weight[0], bundle.model.tokens.weight[0])
    assert made.source.decode(made.source.encode("a cat")) == "a cat"
