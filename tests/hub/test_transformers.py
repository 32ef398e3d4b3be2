"""Transformers as a format: a plain Marian and Pegasus, written here from their layout, say what the model says."""

import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

from regard.bundle import Bundle
from regard.cli import main
from regard.decode import DecodeOptions
from regard.errors import UserError
from regard.hub.huggingface import export, read
from regard.models import GPT, Bert, BertConfig, GPTConfig, Transformer
from regard.models.heads import HEADS, HeadConfig
from regard.text import BOS, EOS, KINDS, PAD, Tokenizer

TEXTS = ["the small dog sleeps in the garden\tafter \n all", "el perro pequeño duerme en el jardín"] * 20
TOKENIZER = Tokenizer.learn(TEXTS, size=300)
SHAPE = {"d_model": 16, "d_ff": 24, "heads": 4, "encoder_layers": 2, "decoder_layers": 3}


def bundle(source: Tokenizer = TOKENIZER, target: Tokenizer = TOKENIZER, **changes: Any) -> Bundle:
    torch.manual_seed(6)
    sizes = {"source_vocabulary": len(source), "target_vocabulary": len(target)}
    model = Transformer(Transformer.Config.model_validate(SHAPE | sizes | changes)).eval()
    for name, parameter in model.named_parameters():  # nothing is left at its plain start: norms and biases too
        if parameter.ndim == 1:
            nn.init.normal_(parameter, mean=float("norm" in name and "weight" in name), std=0.3)
    return Bundle(model, source, target, ("en", "es"), 30, DecodeOptions(beam=3))


class Reference:
    """The library's network from an exported folder: post-norm is its Marian, pre-norm its Pegasus."""

    def __init__(self, folder: Path) -> None:
        self.config = json.loads((folder / "config.json").read_text())
        self.weights = load_file(folder / "model.safetensors")
        self.read: set[str] = set()
        self.pre = {"marian": False, "pegasus": True}[self.config["model_type"]]
        self.activation: Any = {"relu": F.relu, "gelu": F.gelu, "swish": F.silu}[self.config["activation_function"]]

    def logits(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        real = (torch.arange(source.size(1)) < lengths[:, None])[:, None, None]  # B 1 1 S
        memory = self.stack("encoder", source, real)
        states = self.stack("decoder", target, real, memory)
        return states @ self.weight("model.shared.weight").T + self.weight("final_logits_bias")

    def stack(self, side: str, tokens: Tensor, real: Tensor, memory: Tensor | None = None) -> Tensor:
        length = tokens.size(1)
        x = self.weight("model.shared.weight")[tokens] * math.sqrt(self.config["d_model"])
        x = x + self.positions(side, length)
        own = real if memory is None else torch.ones(length, length, dtype=torch.bool).tril()
        heads = self.config[f"{side}_attention_heads"]
        for i in range(self.config[f"{side}_layers"]):
            at = f"model.{side}.layers.{i}"
            y = self.norm(x, f"{at}.self_attn_layer_norm") if self.pre else x
            x = x + self.attention(y, y, own, f"{at}.self_attn", heads)
            x = x if self.pre else self.norm(x, f"{at}.self_attn_layer_norm")
            if memory is not None:
                y = self.norm(x, f"{at}.encoder_attn_layer_norm") if self.pre else x
                x = x + self.attention(y, memory, real, f"{at}.encoder_attn", heads)
                x = x if self.pre else self.norm(x, f"{at}.encoder_attn_layer_norm")
            y = self.norm(x, f"{at}.final_layer_norm") if self.pre else x
            x = x + self.linear(self.activation(self.linear(y, f"{at}.fc1")), f"{at}.fc2")
            x = x if self.pre else self.norm(x, f"{at}.final_layer_norm")
        return self.norm(x, f"model.{side}.layer_norm") if self.pre else x

    def positions(self, side: str, length: int) -> Tensor:
        """Sines in the first half of the width, cosines in the second; a file may hold this table too."""
        half = self.config["d_model"] // 2
        angles = torch.arange(length)[:, None] / 10000 ** (torch.arange(half) / half)
        table = torch.cat((angles.sin(), angles.cos()), dim=1)
        name = f"model.{side}.embed_positions.weight"
        if name in self.weights:
            found = self.weight(name)
            assert found.shape == (self.config["max_position_embeddings"], 2 * half)
            assert_close(found[:length], table)
        return table

    def attention(self, x: Tensor, memory: Tensor, allowed: Tensor, name: str, heads: int) -> Tensor:
        def split(y: Tensor) -> Tensor:
            return y.view(*y.shape[:2], heads, -1).transpose(1, 2)  # B H T K

        q = split(self.linear(x, f"{name}.q_proj"))
        k, v = split(self.linear(memory, f"{name}.k_proj")), split(self.linear(memory, f"{name}.v_proj"))
        scores = q @ k.mT / math.sqrt(q.size(3))
        mixed = scores.masked_fill(~allowed, -torch.inf).softmax(-1) @ v
        return self.linear(mixed.transpose(1, 2).flatten(2), f"{name}.out_proj")

    def linear(self, x: Tensor, name: str) -> Tensor:
        return F.linear(x, self.weight(f"{name}.weight"), self.weight(f"{name}.bias"))

    def norm(self, x: Tensor, name: str) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], self.weight(f"{name}.weight"), self.weight(f"{name}.bias"))

    def weight(self, name: str) -> Tensor:
        self.read.add(name)
        return self.weights[name]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu", "swish"])
@pytest.mark.parametrize("norm", ["post", "pre"])
@torch.inference_mode()
def test_the_same_logits(tmp_path: Path, norm: str, activation: str, bias: bool) -> None:
    made = bundle(norm=norm, activation=activation, attention_bias=bias, output_bias=bias)
    export(made, tmp_path / "out")
    g = torch.Generator().manual_seed(0)
    source, target = (torch.randint(len(TOKENIZER), (3, n), generator=g) for n in (9, 7))
    lengths = torch.tensor([9, 4, 1])
    reference = Reference(tmp_path / "out")
    found = reference.logits(source, lengths, target)
    expected = F.linear(made.model(source, lengths, target), made.model.output, made.model.output_bias)
    assert_close(found, expected, atol=1e-4, rtol=1e-4)
    assert reference.read == set(reference.weights)  # nothing in the file that the library would not know
    assert reference.weights["model.shared.weight"].shape == (reference.config["vocab_size"], 16)


def test_generation_starts_and_ends_as_ours(tmp_path: Path) -> None:
    export(bundle(), tmp_path / "out")
    for name in ("config.json", "generation_config.json"):
        content = json.loads((tmp_path / "out" / name).read_text())
        symbols = ("decoder_start_token_id", "bos_token_id", "eos_token_id", "pad_token_id")
        assert [content[symbol] for symbol in symbols] == [BOS, BOS, EOS, PAD]
    assert content["num_beams"] == 3
    named = json.loads((tmp_path / "out" / "tokenizer_config.json").read_text())
    assert [named[f"{name}_token"] for name in ("pad", "unk", "bos", "eos")] == ["<pad>", "<unk>", "<s>", "</s>"]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "byte"])
def test_the_tokenizer_gives_our_ids_and_the_text_back(tmp_path: Path, kind: str) -> None:
    ours = Tokenizer.learn(TEXTS, kind, size=300)
    export(bundle(ours, ours), tmp_path / "out")
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    for text in (*TEXTS[:2], "a", "Zwei  Wörter, 128!", " first", "  two", "last ", "漢字 👍", "dog\nsleeps\t", " "):
        ids = theirs.encode(text).ids
        assert ids == [*ours.encode(text), EOS]
        assert theirs.decode(ids) == text
    assert len(theirs.encode_batch(["the dog", "the"])[1].ids) == len(ours.encode("the")) + 1  # it does not pad


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_our_own_is_read_again(tmp_path: Path, kind: str, norm: str) -> None:
    """With the same tokenizer, as one that was never away: it can go on training there."""
    ours = Tokenizer.learn(TEXTS, kind, size=300)
    before = bundle(ours, ours, norm=norm)
    export(before, tmp_path / "out")
    after = read(tmp_path / "out")
    assert (after.source.kind, after.source.checksum) == (kind, ours.checksum)
    assert after.one_vocabulary
    assert (after.languages, after.decode.beam) == (("en", "es"), 3)
    source, lengths, target = (
        torch.tensor([[9, 8, 5, EOS], [7, EOS, PAD, PAD]]),
        torch.tensor([4, 2]),
        torch.tensor([[BOS, 4, 6], [BOS, 5, 8]]),
    )
    with torch.inference_mode():
        states = [one.model(source, lengths, target) for one in (before, after)]
    assert_close(*states, rtol=0, atol=1e-6)


def test_our_own_gpt_and_bert_are_read_again(tmp_path: Path) -> None:
    ours, masking = TOKENIZER, Tokenizer.learn(TEXTS, size=300, mask=True)
    gpt = GPT(GPTConfig(vocabulary=len(ours), d_model=16, d_ff=32, heads=2, layers=2, max_positions=32)).eval()
    bert = HEADS["masked"](
        Bert(BertConfig(vocabulary=len(masking), d_model=16, d_ff=32, heads=2, layers=2, max_positions=32)),
        HeadConfig(), 2,
    ).eval()  # fmt: skip
    texts = ("text", "text")
    for name, before in {
        "gpt": Bundle(gpt, ours, ours, texts, 32, name="gpt", task="language"),
        "bert": Bundle(bert, masking, masking, texts, 32, name="bert", task="masked"),
    }.items():
        export(before, tmp_path / name)
        after = read(tmp_path / name)
        assert after.source.checksum == before.source.checksum
        assert after.source.specials == before.source.specials
        own = dict(before.model.named_parameters())
        for part, weight in after.model.named_parameters():
            assert torch.equal(weight, own[part]), part


OTHER = Tokenizer.learn(TEXTS[:1] * 9, size=300)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: bundle(TOKENIZER, OTHER, tie=("target", "output")), "one vocabulary and one embedding"),
        (lambda: bundle(tie=("target", "output")), "one vocabulary and one embedding"),
        (lambda: bundle(positions="learned"), "this model has learned positions"),
        (lambda: bundle(positions="rotary"), "this model has rotary positions"),
        (lambda: bundle(copying=True), "this model copies words from the source"),
        (lambda: bundle(positions="learned", embedding_norm=True), "this model does not multiply its embeddings"),
    ],
)
def test_what_it_cannot_do_is_said(tmp_path: Path, made: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        export(made(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(UserError, match="there already"):
        export(bundle(), tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def regard(*words: object) -> object:
        monkeypatch.setattr(sys, "argv", ["regard", *map(str, words)])
        with pytest.raises(SystemExit) as done:
            main()
        return done.value.code

    bundle().save(tmp_path / "run" / "model")
    out = tmp_path / "out"
    assert regard("export", tmp_path / "run", out, "--to", "huggingface", "--precision", "int8") == 2
    assert capsys.readouterr().err == "regard: only ctranslate2 knows weights of int8; leave out --precision\n"
    assert not out.exists()
    assert regard("export", tmp_path / "run", out, "--to", "huggingface") == 0
    assert capsys.readouterr().out.startswith(f"{out}: huggingface, float32, ")
    names = ("config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
    assert sorted(file.name for file in out.iterdir()) == sorted(names)
