"""BERT and what pre-trains it: the equations, the reference implementation, the published sizes."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from torch.nn import functional as F
from torch.testing import assert_close

from regard.bundle import Bundle
from regard.config import make_recipe
from regard.data.documents import Flat, Piece
from regard.hub import huggingface
from regard.models import Bert, BertConfig, HeadConfig
from regard.models.bert import SIZES
from regard.models.heads import PreTrainer
from regard.tasks.masked import NOTHING, MaskedTask, Texts
from regard.text import Tokenizer

SMALL: dict[str, Any] = {
    "d_model": 16, "d_ff": 24, "heads": 4, "layers": 2, "dropout": 0.0, "attention_dropout": 0.0, "max_positions": 40,
}  # fmt: skip
BYTES = Tokenizer.learn([], "byte", 261, mask=True)


def make(next_sentence: bool = True, vocabulary: int = 30, **options: Any) -> PreTrainer:
    """Every weight is random, norms and biases too."""
    torch.manual_seed(0)
    config = BertConfig(**{**SMALL, "vocabulary": vocabulary, **options})
    model = PreTrainer(Bert(config), HeadConfig(next_sentence=next_sentence))
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.add_(torch.randn_like(p) * (0.3 if p.ndim == 1 else 0.1))
            assert not name.endswith("norm.weight") or p.mean() > 0.5
    return model.eval()


def equations(model: PreTrainer, tokens: Tensor, segments: Tensor) -> tuple[Tensor, Tensor]:
    """The logits of words and of what follows, by the papers' equations from the weights alone: one row, no padding."""
    w, c = {name: p.detach() for name, p in model.named_parameters()}, model.config
    width = c.d_model // c.heads

    def norm(x: Tensor, name: str) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        variance = centred.pow(2).mean(-1, keepdim=True)
        return centred / torch.sqrt(variance + c.norm_eps) * w[f"{name}.weight"] + w[f"{name}.bias"]

    def linear(x: Tensor, name: str) -> Tensor:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def gelu(x: Tensor) -> Tensor:
        return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))

    def attention(x: Tensor, name: str) -> Tensor:
        q, k, v = (linear(x, f"{name}.{part}") for part in "qkv")
        heads = []
        for h in range(c.heads):
            part = slice(h * width, (h + 1) * width)
            heads.append(torch.softmax(q[:, part] @ k[:, part].T / math.sqrt(width), -1) @ v[:, part])
        return linear(torch.cat(heads, -1), f"{name}.out")

    places = torch.arange(len(tokens)) + c.first_position
    x = w["body.tokens.weight"][tokens] + w["body.positions.weight"][places] + w["body.segments.weight"][segments]
    x = norm(x, "body.norm")
    for i in range(c.layers):
        layer = f"body.layers.{i}"
        x = norm(x + attention(x, f"{layer}.attention"), f"{layer}.after_attention.norm")
        inner = gelu(linear(x, f"{layer}.feed_forward.inner"))
        x = norm(x + linear(inner, f"{layer}.feed_forward.outer"), f"{layer}.after_feed_forward.norm")
    words = norm(gelu(linear(x, "words.dense")), "words.norm") @ w["body.tokens.weight"].T + w["words.bias"]
    return words, linear(torch.tanh(linear(x[0], "pooler.dense")), "follows")


@pytest.mark.parametrize("first_position", [0, 2])
def test_the_papers_equations(first_position: int) -> None:
    model = make(first_position=first_position)
    tokens = torch.randint(5, 30, (9,))
    segments = (torch.arange(9) >= 5).long()
    words, follows = equations(model, tokens, segments)
    with torch.inference_mode():
        assert_close(model(tokens[None], None, segments[None])[0], words, rtol=0, atol=1e-5)
        assert model.follows is not None
        assert model.pooler is not None
        states = model.states(tokens[None], None, segments[None])
        assert_close(model.follows(model.pooler(states, None))[0], follows, rtol=0, atol=1e-5)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_padding_changes_nothing(norm: str) -> None:
    model, tokens = make(norm=norm), torch.randint(5, 30, (1, 7))
    with torch.inference_mode():
        alone = model(tokens, None)
        other = torch.cat([F.pad(tokens, (0, 4), value=0), torch.randint(5, 30, (1, 11))])
        assert_close(model(other, torch.tensor([7, 11]))[:1, :7], alone, rtol=0, atol=1e-5)
        other[0, 7:] = 9
        assert_close(model(other, torch.tensor([7, 11]))[:1, :7], alone, rtol=0, atol=1e-5)


def test_without_positions_words_that_change_places_change_their_states_places() -> None:
    model, tokens = make(), torch.tensor([[7, 8, 9, 10]])
    with torch.inference_mode():
        assert not torch.allclose(model(tokens, None)[0, [2, 1]], model(tokens[:, [0, 2, 1, 3]], None)[0, [1, 2]])
        model.body.positions.weight.zero_()
        assert_close(model(tokens, None)[0, [0, 2, 1, 3]], model(tokens[:, [0, 2, 1, 3]], None)[0], rtol=0, atol=1e-5)


def test_the_words_logits_follow_the_embedding_matrix() -> None:
    model, tokens = make(), torch.tensor([[7, 8, 9, 10]])
    with torch.inference_mode():
        before = model(tokens, None)
        bias = model.words.bias[[20, 21]].clone()
        model.body.tokens.weight[[20, 21]] = model.body.tokens.weight[[21, 20]]  # words that the row does not have
        after = model(tokens, None)
        assert_close(after[..., 20] - bias[0], before[..., 21] - bias[1], rtol=0, atol=1e-5)
        assert_close(after[..., 22:], before[..., 22:], rtol=0, atol=1e-5)


def some_batch(pairs: bool) -> tuple[MaskedTask, Any]:
    some = [Piece(f"text number {i} is here\nand it goes on") for i in range(12)]
    texts = Texts(Flat.of(some, BYTES), BYTES, 40, pairs=pairs)
    recipe = make_recipe(
        {"task": "masked", "model": SMALL | {"name": "bert"}, "data": {"max_length": 40},
         "head": {"next_sentence": pairs}, "train": {"label_smoothing": 0.0}}
    )  # fmt: skip
    return MaskedTask(recipe, BYTES, texts, texts, None), texts.collate([texts[i] for i in range(12)], None)


def test_both_losses_are_those_of_the_reference(tmp_path: Path) -> None:
    model = make(vocabulary=len(BYTES))
    huggingface.export(Bundle(model, BYTES, BYTES, ("text", "text"), 40, name="bert", task="masked"), tmp_path / "out")
    reference = transformers.BertForPreTraining.from_pretrained(tmp_path / "out").eval()
    task, batch = some_batch(pairs=True)
    assert set(batch.targets[:, 0].tolist()) == {0, 1}
    lengths = batch.lengths if batch.lengths is not None else torch.full((12,), batch.tokens.size(1))
    labels = batch.targets.where(batch.targets != NOTHING, -100)
    labels[:, 0] = -100
    with torch.inference_mode():
        expected = reference(
            input_ids=batch.tokens,
            attention_mask=(torch.arange(batch.tokens.size(1)) < lengths[:, None]).long(),
            token_type_ids=batch.segments,
            labels=labels,
            next_sentence_label=batch.targets[:, 0],
        )
        words = model(batch.tokens, batch.lengths, batch.segments)
        real = torch.arange(batch.tokens.size(1)) < lengths[:, None]
        assert_close(words[real], expected.prediction_logits[real], rtol=0, atol=1e-4)
        loss = task.loss(model, batch)
        assert_close(loss.total / loss.count, expected.loss, rtol=0, atol=1e-4)
        only_words = F.cross_entropy(expected.prediction_logits.flatten(0, 1), labels.flatten())
        assert_close(loss.metrics["nll"] / loss.count, only_words, rtol=0, atol=1e-4)
        assert float(expected.loss - only_words) > 0.1


def test_a_batch_in_parts_has_the_same_loss() -> None:
    model = make(vocabulary=len(BYTES))
    task, batch = some_batch(pairs=True)
    with torch.inference_mode():
        whole = task.loss(model, batch)
        parts = [task.loss(model, part) for part in batch.cut(3)]
        words = sum(part.metrics["nll"] for part in parts)
        assert_close(words, whole.metrics["nll"], rtol=1e-5, atol=1e-4)
        assert_close(sum(part.total for part in parts), whole.total, rtol=0.01, atol=0)  # counts are whole numbers


@pytest.mark.parametrize(
    ("size", "options", "next_sentence", "count"),
    [
        ("base", {}, True, 110_106_428),
        ("large", {}, True, 336_226_108),
        ("base", {"vocabulary": 50265, "first_position": 2, "segments": 1}, False, 124_697_433),
        ("large", {"vocabulary": 50265, "first_position": 2, "segments": 1}, False, 355_412_057),
    ],
)
def test_published_sizes(size: str, options: dict[str, Any], next_sentence: bool, count: int) -> None:
    with torch.device("meta"):
        body = Bert(BertConfig(**SIZES[size], **options))
        model = PreTrainer(body, HeadConfig(next_sentence=next_sentence))
    assert sum(p.numel() for p in model.parameters()) == count
    assert sum(p.numel() for p in body.parameters()) == body.config.parameters()
