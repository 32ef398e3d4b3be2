"""A BERT becomes the encoder of a model that writes: the same states, its tokenizer in our numbers, one command."""

from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import make_pairs, small_recipe
from tokenizers import Tokenizer as Inner
from tokenizers import decoders, models, normalizers, pre_tokenizers
from torch.testing import assert_close

import regard
from regard.bundle import Bundle, load_bundle
from regard.config import load_recipe, make_recipe
from regard.errors import UserError
from regard.explain.translation import why
from regard.hub import ctranslate2, huggingface
from regard.models import Bert, BertConfig, HeadConfig
from regard.models.heads import PreTrainer
from regard.text import BOS, EOS, IMPORTED, PAD, UNK, Specials, Tokenizer
from regard.training.session import train
from regard.training.transfer import with_decoder
from regard.view.look import look

WORDS = sorted({word for pair in make_pairs() for text in pair for word in text.split()})
SPECIAL = {"[PAD]": 0, "[UNK]": 5, "[CLS]": 6, "[SEP]": 7, "[MASK]": 9}  # far from ours, as BERT's are
SHAPE: dict[str, Any] = {"d_model": 16, "d_ff": 24, "heads": 2, "layers": 2, "max_positions": 20}


def wordpiece() -> Tokenizer:
    words = iter([*WORDS, "##s"])
    names = {number: token for token, number in SPECIAL.items()}
    count = len(WORDS) + 1 + len(SPECIAL)
    vocabulary = {names.get(i) or next(words): i for i in range(count)}
    inner = Inner(models.WordPiece(vocabulary, unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=False)
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    inner.add_special_tokens(list(SPECIAL))
    return Tokenizer(IMPORTED, inner, Specials(*SPECIAL.values()))


def reader(**shape: Any) -> Bundle:
    """A BERT with random weights, norms and biases too."""
    torch.manual_seed(0)
    tokenizer = wordpiece()
    bert = Bert(BertConfig(**SHAPE | shape, vocabulary=len(tokenizer)))
    with torch.no_grad():
        for p in bert.parameters():
            p.add_(torch.randn_like(p) * 0.2)
    model = PreTrainer(bert, HeadConfig()).eval()
    return Bundle(model, tokenizer, tokenizer, ("en", "en"), 19, name="bert", task="masked")


def recipe(**model: Any) -> Any:
    tree = small_recipe() | {"task": "summarisation", "model": {"decoder_layers": 1} | model}
    return make_recipe(tree | {"data": {"max_length": 12}})


def test_a_tokenizer_in_our_numbers_is_the_same() -> None:
    old = wordpiece()
    new, order = old.with_our_specials()
    text = "The man eats the breads [SEP] of 17 women"
    assert sorted(order) == list(range(len(old)))
    assert [order[i] for i in new.encode(text)] == old.encode(text)
    assert new.decode(new.encode(text)) == old.decode(old.encode(text))
    found = [new.token(i) for i in (PAD, UNK, BOS, EOS)]
    assert found == ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    assert new.token(new.specials.mask or 0) == "[MASK]"
    assert new.with_our_specials()[0] is new


@pytest.mark.parametrize(
    "shape",
    [{}, {"norm": "pre"}, {"first_position": 2, "segments": 1, "activation": "relu"}, {"norm_eps": 0.1}],
    ids=str,
)
@torch.inference_mode()
def test_the_encoder_reads_as_the_bert_does(shape: dict[str, Any]) -> None:
    old = reader(**shape)
    new = with_decoder(old, recipe())
    texts = ["the man eats the bread", "a cake"]
    read = [[*new.source.encode(text), EOS] for text in texts]
    _, order = old.source.with_our_specials()
    lengths = torch.tensor([len(row) for row in read])
    tokens = torch.zeros(2, int(lengths.max()), dtype=torch.long)
    for row, ids in zip(tokens, read, strict=True):
        row[: len(ids)] = torch.tensor(ids)
    expected = old.model.body(torch.tensor(order)[tokens], lengths)
    found = new.model.eval().encode(tokens, lengths).states
    for i, n in enumerate(lengths.tolist()):
        assert_close(found[i, :n], expected[i, :n], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_words_are_written_with_the_berts_own_embeddings(norm: str) -> None:
    """A smaller matrix before the softmax would make every word equally likely at first."""
    old = reader(norm=norm)
    _, order = old.source.with_our_specials()
    assert_close(with_decoder(old, recipe()).model.output, old.model.body.tokens.weight[order])


def test_from_a_bert_to_summaries(tmp_path: Path) -> None:
    reader().save(tmp_path / "bert")
    pairs = make_pairs()
    asked = recipe(copying=True, dropout=0.2)
    bundle = train(asked, tmp_path / "run", pairs=pairs[:60], dev=pairs[60:64], start_from=tmp_path / "bert")
    config = load_bundle(tmp_path / "run").model.config
    assert (config.encoder_layers, config.decoder_layers, config.d_model) == (2, 1, 16)
    assert (config.copying, config.embedding_norm, config.dropout) == (True, True, 0.2)
    model = regard.load(tmp_path / "run")
    assert model.translate(["the man eats the bread"]) == regard.load([tmp_path / "run"] * 2).translate(
        ["the man eats the bread"]
    )
    assert model.n_best(["a cake"], n_best=2, sample=True)
    assert look(model, "the man eats the bread").weights["cross"].shape[-1] == 6
    assert why(model, "the man eats", "el hombre", masks=8).values.shape == (2, 3)
    for export in (ctranslate2.export, huggingface.export):
        with pytest.raises(UserError, match=r"cop(y|ies) words from the source"):
            export(bundle, tmp_path / "out")


def test_a_resumed_run_needs_the_bert_no_longer_and_is_the_same(tmp_path: Path) -> None:
    reader().save(tmp_path / "bert")
    pairs = make_pairs()
    told: dict[str, Any] = {"pairs": pairs[:60], "dev": pairs[60:64]}
    whole = train(recipe(copying=True), tmp_path / "whole", start_from=tmp_path / "bert", **told)
    half = recipe(copying=True)
    half = half.model_copy(update={"train": half.train.model_copy(update={"steps": 6})})
    train(half, tmp_path / "run", start_from=tmp_path / "bert", **told)
    again = train(load_recipe(tmp_path / "run" / "recipe.toml", ["steps=12"]), tmp_path / "run", resume=True, **told)
    for (name, one), other in zip(whole.model.named_parameters(), again.model.parameters(), strict=True):
        assert torch.equal(one, other), name


def test_lower_layers_can_be_frozen_and_learn_more_slowly(tmp_path: Path) -> None:
    reader().save(tmp_path / "bert")
    pairs, asked = make_pairs(), recipe()
    settings = asked.train.model_copy(update={"freeze": 2, "layer_decay": 0.5})
    frozen = asked.model_copy(update={"train": settings})
    bundle = train(frozen, tmp_path / "run", pairs=pairs[:60], dev=pairs[60:64], start_from=tmp_path / "bert")
    first = with_decoder(reader(), asked).model
    moved = {n for (n, a), b in zip(bundle.model.named_parameters(), first.parameters(), strict=True) if (a != b).any()}
    assert any(name.startswith("encoder.1.") for name in moved)
    assert not any(name.startswith(("embed", "positions", "encoder.0.")) for name in moved)


@pytest.mark.parametrize("model", [{"d_model": 32}, {"encoder_layers": 3}, {"size": "tiny"}, {"norm": "pre"}], ids=str)
def test_a_recipe_that_asks_for_another_shape_is_refused(model: dict[str, Any], tmp_path: Path) -> None:
    reader().save(tmp_path / "bert")
    with pytest.raises(UserError, match=r"model\.\w+ is .* in the model to begin from, which decides it: leave it out"):
        train(recipe(**model), tmp_path / "run", pairs=make_pairs()[:60], start_from=tmp_path / "bert")


def test_what_an_encoder_cannot_be_is_told() -> None:
    with pytest.raises(UserError, match=r"cannot become an encoder: model\.activation"):
        with_decoder(reader(activation="gelu_tanh"), recipe())
