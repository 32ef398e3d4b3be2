"""Marian from Hugging Face's layout and back: the same numbers, the same tokens, the same words."""

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
import transformers
from decode.toys import in_order
from torch import Tensor
from torch.nn import functional as F
from torch.testing import assert_close

import regard
from regard.api import Model
from regard.bundle import Bundle, load_bundle
from regard.cli import main
from regard.errors import UserError
from regard.hub import huggingface
from regard.hub.ctranslate2 import CTranslate2
from regard.models import Transformer, TransformerConfig
from regard.text import BOS, EOS, PAD, UNK

ENGLISH = "the small dog sleeps in garden after all while seven cats were running through an open gate and nobody knew"
GERMAN = "der kleine Hund schläft im Garten nach allem während sieben Katzen durch ein offenes Tor liefen und wußte"
SENTENCES = ["the small dog sleeps", "nobody knew why seven cats were running through the garden", "a gate", "all dogs"]
LACKING = ("▁dog", "▁Hund")  # pieces that the vocabulary lacks, one of each language
LANGUAGES = (">>deu<<", ">>nds<<")


def pieces(folder: Path, name: str, words: list[str]) -> list[str]:
    """A SentencePiece model learned from a few words, and its pieces."""
    draw = random.Random(1)
    lines = [" ".join(draw.choices(words, k=draw.randint(3, 9))) for _ in range(400)]
    (folder / "text.txt").write_text("\n".join(lines) + "\n")
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text.txt"), model_prefix=str(folder / name), vocab_size=80, model_type="unigram",
        normalization_rule_name="nmt_nfkc", hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    (folder / "text.txt").unlink()
    (folder / f"{name}.model").rename(folder / f"{name}.spm")
    found = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{name}.spm"))
    return [found.id_to_piece(i) for i in range(3, found.get_piece_size())]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tokenizer's files."""
    folder = tmp_path_factory.mktemp("files")
    both = pieces(folder, "source", ENGLISH.split()) + pieces(folder, "target", GERMAN.split())
    assert set(LACKING) <= set(both)
    known = [piece for piece in dict.fromkeys(both) if piece not in LACKING]
    names = ["</s>", "<unk>", *known, *LANGUAGES, "<s>", "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({name: i for i, name in enumerate(names)}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"source_lang": "en", "target_lang": "de"}))
    return folder


def vocabulary(folder: Path) -> dict[str, int]:
    found: dict[str, int] = json.loads((folder / "vocab.json").read_text())
    return found


def theirs(folder: Path, **shape: Any) -> Any:
    """A model of theirs with random weights, norms, biases and the output's bias too, beside its tokenizer's files."""
    torch.manual_seed(6)
    size = len(vocabulary(folder))
    settings = {
        "vocab_size": size, "d_model": 16, "encoder_layers": 2, "decoder_layers": 3, "max_position_embeddings": 64,
        "activation_function": "swish", "scale_embedding": True, "static_position_embeddings": True,
        "pad_token_id": size - 1, "decoder_start_token_id": size - 1, "eos_token_id": 0, "forced_eos_token_id": 0,
    }  # fmt: skip
    for side in ("encoder", "decoder"):
        settings |= {f"{side}_attention_heads": 4, f"{side}_ffn_dim": 24}
    model = transformers.MarianMTModel(transformers.MarianConfig(**(settings | shape))).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "embed_positions" not in name:
                p.add_(torch.randn_like(p) * (0.3 if p.ndim == 1 else p.size(-1) ** -0.5))
        model.model.decoder.layers[-1].final_layer_norm.weight.normal_()  # outputs are not one token again and again
        model.final_logits_bias.normal_()
        model.final_logits_bias[0, 0] += 2  # and end now and then
    model.generation_config.update(num_beams=3, length_penalty=0.8, max_length=64)
    model.save_pretrained(folder)
    return model


@pytest.fixture
def folder(files: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "theirs"
    copy.mkdir()
    for file in files.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    return copy


def shared(folder: Path, bundle: Bundle) -> tuple[Tensor, Tensor]:
    """The numbers of all tokens that both have, there and here."""
    numbers = {bundle.source.token(i): i for i in range(len(bundle.source))}
    numbers["<s>"] = numbers.pop("<<s>>")  # theirs is a token as any other; ours of that name begins an output
    known = vocabulary(folder)
    return torch.tensor(list(known.values())), torch.tensor([numbers[name] for name in known])


def logits(bundle: Bundle, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
    return F.linear(bundle.model(source, lengths, target), bundle.model.output, bundle.model.output_bias)


def assert_same(model: Any, folder: Path, bundle: Bundle, atol: float = 1e-4) -> None:
    """The encoder's states, the logits after every token, and their log-probabilities."""
    there, here = shared(folder, bundle)
    g = torch.Generator().manual_seed(0)
    drawn = [torch.randint(len(there), (3, n), generator=g) for n in (9, 7)]
    lengths = torch.tensor([9, 4, 1])
    start = torch.full((3, 1), model.config.decoder_start_token_id)
    with torch.inference_mode():
        seen = (torch.arange(9) < lengths[:, None]).long()
        found = model(
            input_ids=there[drawn[0]], attention_mask=seen, decoder_input_ids=torch.cat((start, there[drawn[1]]), 1)
        )
        memory = bundle.model.encode(here[drawn[0]], lengths).states
        order = torch.cat((torch.arange(0, memory.size(2), 2), torch.arange(1, memory.size(2), 2)))
        real = seen.bool()
        assert_close(memory[..., order][real], found.encoder_last_hidden_state[real], rtol=0, atol=atol)
        target = torch.cat((torch.full((3, 1), BOS), here[drawn[1]]), 1)
        mine = logits(bundle, here[drawn[0]], lengths, target)
        assert_close(mine[..., here], found.logits[..., there], rtol=0, atol=atol)
        expected = found.logits.log_softmax(-1)[..., there]  # tokens that only we have take no probability
        assert_close(mine.log_softmax(-1)[..., here], expected, rtol=0, atol=atol)


@pytest.mark.parametrize("activation", ["swish", "relu", "gelu", "silu"])
def test_the_same_numbers(folder: Path, tmp_path: Path, activation: str) -> None:
    model = theirs(folder, activation_function=activation)
    bundle = huggingface.read(folder)
    assert_same(model, folder, bundle)
    bundle.save(tmp_path / "ours")
    again = load_bundle(tmp_path / "ours")
    assert again.languages == ("en", "de")
    assert (again.decode.beam, again.decode.length_penalty, again.max_length) == (3, 0.8, 63)
    assert_same(model, folder, again)


@pytest.mark.parametrize(("width", "heads", "inner"), [(512, 8, 2048), (1024, 16, 4096)])
def test_a_layer_of_every_published_width(folder: Path, width: int, heads: int, inner: int) -> None:
    sides = {f"{side}_{key}": n for side in ("encoder", "decoder") for key, n in (("ffn_dim", inner), ("layers", 1))}
    sides |= {f"{side}_attention_heads": heads for side in ("encoder", "decoder")}
    names = vocabulary(folder)
    last = names.pop("<pad>")
    names |= {f"▁word{i}": last + i for i in range(1000 - last - 1)} | {"<pad>": 999}
    (folder / "vocab.json").write_text(json.dumps(names))
    model = theirs(folder, d_model=width, **sides)
    assert_same(model, folder, huggingface.read(folder))


@pytest.mark.slow
def test_a_whole_base_model(folder: Path) -> None:
    """Six layers on each side, as OPUS-MT has them."""
    shape: dict[str, Any] = {"d_model": 512, "encoder_layers": 6, "decoder_layers": 6, "max_position_embeddings": 512}
    for side in ("encoder", "decoder"):
        shape |= {f"{side}_attention_heads": 8, f"{side}_ffn_dim": 2048}
    assert_same(theirs(folder, **shape), folder, huggingface.read(folder))


def test_another_token_may_start_the_decoder(folder: Path) -> None:
    model = theirs(folder, decoder_start_token_id=7)
    assert_same(model, folder, huggingface.read(folder))


def test_as_many_parameters_as_theirs_and_the_begin_symbol() -> None:
    sides = {
        f"{side}_{key}": n
        for side in ("encoder", "decoder")
        for key, n in (("layers", 6), ("ffn_dim", 2048), ("attention_heads", 8))
    }
    with torch.device("meta"):
        there = transformers.MarianMTModel(transformers.MarianConfig(vocab_size=58101, d_model=512, **sides))
    expected = sum(p.numel() for p in there.parameters() if p.requires_grad) + there.final_logits_bias.numel()
    here = TransformerConfig(
        attention_bias=True, output_bias=True, activation="swish", source_vocabulary=58102, target_vocabulary=58102
    )
    with torch.device("meta"):
        counted = sum(p.numel() for p in Transformer(here).parameters())
    assert counted == here.parameters() == expected + 512 + 1


TEXTS = (
    *SENTENCES, "  Two   spaces\tand a tab ", "ﬁne ① ½ ｆｕｌｌ", "café cafe\u0301", "", "   ", "....", "the\u00a0cat",
    "日本 cats", "👍🏽 dog", "👩‍👩‍👧 the",
    "▁", "▁the", "the▁dog", "▁▁dog", "zero\u200bwidth", "\u3000the", "नमस्ते", "a\nb",
    ">>deu<< the dog", ">>deu<<the dog", "während der Hund", "a < b > c", "dogarden", "x" * 300,
)  # fmt: skip


def test_the_same_tokens(folder: Path) -> None:
    theirs(folder)
    bundle = huggingface.read(folder)
    reference = transformers.MarianTokenizer.from_pretrained(folder)
    there, here = shared(folder, bundle)
    to_theirs = dict(zip(here.tolist(), there.tolist(), strict=True))
    lacking = set()
    for text in TEXTS:
        for ours, ids in (
            (bundle.source, reference(text)["input_ids"]),
            (bundle.target, reference(text_target=text)["input_ids"]),
        ):
            found = ours.encode(text)
            assert [to_theirs.get(i, to_theirs[UNK]) for i in found] == ids[:-1], text
            lacking |= {ours.token(i) for i in found if i not in to_theirs}
            assert ours.decode(found).split() == ours.decode(ours.encode(ours.decode(found))).split()
        written = [i for i in bundle.target.encode(text) if i in to_theirs and i != UNK]
        expected = reference.decode([to_theirs[i] for i in written], skip_special_tokens=True)
        assert bundle.target.decode(written).strip() == expected
    assert lacking == {"▁dog", "▁Hund"}


def test_where_they_differ_a_text_is_a_text(folder: Path) -> None:
    """Theirs reads an end symbol where a text spells one, and of unknown letters together none that it knows alone."""
    theirs(folder)
    source = huggingface.read(folder).source
    assert EOS not in source.encode("the </s> dog")
    assert PAD not in source.encode("<pad>")
    assert source.surface(source.encode("ßß")) == [" ", "ß", "ß"]


@pytest.mark.parametrize("beam", [1, 4])
def test_the_same_words(folder: Path, tmp_path: Path, beam: int) -> None:
    model = theirs(folder)
    huggingface.read(folder).save(tmp_path / "ours")
    reference = transformers.MarianTokenizer.from_pretrained(folder)
    ours = regard.load(tmp_path / "ours")
    bad = [[model.config.pad_token_id], [vocabulary(folder)["<unk>"]]]
    lengths = set()
    for text in SENTENCES:
        ids = reference([text], return_tensors="pt")
        options = ours.options(beam=beam, length_penalty=0, max_length=62, no_repeat_ngram=2)
        [(_, (found, *_))] = ours.translator.engine.decode([ours.bundle.source.encode(text)], [0], options)
        expected = model.generate(
            **ids, num_beams=beam, length_penalty=0.0, early_stopping=beam > 1, max_length=64, bad_words_ids=bad,
            no_repeat_ngram_size=2,
        )  # fmt: skip
        assert ours.bundle.target.decode(found.tokens) == reference.decode(expected[0], skip_special_tokens=True)
        lengths.add(len(found.tokens))
    assert min(lengths) < 62  # not all were cut off
    assert len(lengths) > 1


def test_there_and_back(folder: Path, tmp_path: Path) -> None:
    model = theirs(folder)
    bundle = huggingface.read(folder)
    huggingface.export(bundle, tmp_path / "back")
    back = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "back").eval()
    there, here = shared(folder, bundle)
    state, before = back.state_dict(), model.state_dict()
    for name, weight in before.items():
        if state[name].shape == weight.shape and "embed_positions" not in name:
            assert torch.equal(state[name], weight), name
    assert torch.equal(back.model.shared.weight[here], model.model.shared.weight[there])
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    reference = transformers.MarianTokenizer.from_pretrained(folder)
    for text in SENTENCES:
        assert tokenizer(text)["input_ids"] == [*bundle.source.encode(text), EOS]
        options: dict[str, Any] = {
            "num_beams": 3,
            "length_penalty": 1.0,
            "max_length": 64,
            "no_repeat_ngram_size": 2,
            "early_stopping": True,
        }
        bad = [[model.config.pad_token_id], [vocabulary(folder)["<unk>"]]]
        expected = model.generate(**reference(text, return_tensors="pt"), bad_words_ids=bad, **options)
        ids = tokenizer(text, return_tensors="pt", return_token_type_ids=False)
        found = back.generate(**ids, forced_eos_token_id=EOS, **options)
        assert tokenizer.decode(found[0], skip_special_tokens=True) == reference.decode(
            expected[0], skip_special_tokens=True
        )


def test_what_is_written_is_read_again(folder: Path, tmp_path: Path) -> None:
    """By us, and with the tokenizer that Transformers has for a Marian; both languages' pieces are kept."""
    theirs(folder)
    bundle = huggingface.read(folder)
    huggingface.export(bundle, tmp_path / "back")
    again = huggingface.read(tmp_path / "back")
    assert (again.source.checksum, again.target.checksum) == (bundle.source.checksum, bundle.target.checksum)
    assert again.languages == bundle.languages
    own = dict(bundle.model.named_parameters())
    for name, weight in again.model.named_parameters():
        assert torch.equal(weight, own[name]), name
    tokenizer = transformers.MarianTokenizer.from_pretrained(tmp_path / "back")
    for text in SENTENCES:
        assert tokenizer(text)["input_ids"] == [*bundle.source.encode(text), EOS]
        assert tokenizer(text_target=text)["input_ids"] == [*bundle.target.encode(text), EOS]


def test_ctranslate2_writes_the_same(folder: Path) -> None:
    theirs(folder)
    bundle = huggingface.read(folder)
    model = Model([bundle])
    options = model.options(beam=1, max_length=30, no_repeat_ngram=2)
    inputs = [bundle.source.encode(text) for text in SENTENCES]
    numbers = list(range(len(inputs)))
    engines = (model.translator.engine, CTranslate2(bundle, workers=1))
    ours, found = (in_order(engine.decode(inputs, numbers, options)) for engine in engines)
    assert [h[0].tokens for h in found] == [h[0].tokens for h in ours]


def test_it_is_a_model_as_any_other(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Import, look, explain and go on training, by command."""

    def command(*words: object) -> None:
        monkeypatch.setattr(sys, "argv", ["regard", *map(str, words)])
        with pytest.raises(SystemExit) as done:
            main()
        assert done.value.code == 0

    model = theirs(folder)
    (folder / "model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    with pytest.raises(UserError, match="--allow-pickle reads it"):
        huggingface.read(folder)
    ours = tmp_path / "ours"
    command("import", folder, ours, "--allow-pickle")
    assert_same(model, folder, load_bundle(ours))
    command("look", ours, SENTENCES[0], "--out", tmp_path / "look.html")
    command("explain", ours, SENTENCES[0], "--masks", 20, "--out", tmp_path / "why.html")
    (tmp_path / "pairs.tsv").write_text(
        "the small dog sleeps\tder kleine Hund schläft\n" * 40 + "seven cats\tsieben Katzen\n" * 40
    )
    command("evaluate", ours, tmp_path / "pairs.tsv", "--beam", 1)
    command(
        "train",
        tmp_path / "pairs.tsv",
        "steps=3",
        "warmup=1",
        "validate_every=3",
        "--from",
        ours,
        "--out",
        tmp_path / "more",
    )
    more = load_bundle(tmp_path / "more")
    assert more.target.checksum == load_bundle(ours).target.checksum != more.source.checksum
    assert not torch.equal(more.model.output_bias, load_bundle(ours).model.output_bias)


def changed(name: str, **changes: Any) -> Any:
    def change(folder: Path) -> None:
        content = json.loads((folder / name).read_text()) | changes
        (folder / name).write_text(json.dumps({k: v for k, v in content.items() if v is not ...}))

    return change


def without(name: str) -> Any:
    return lambda folder: (folder / name).unlink()


def holding(name: str, text: str) -> Any:
    return lambda folder: (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("source.spm"), "cannot read .*source.spm"),
        (without("target.spm"), "cannot read .*target.spm"),
        (holding("target.spm", "no model"), "target.spm is damaged, or not a SentencePiece model"),
        (without("vocab.json"), "cannot read .*vocab.json"),
        (holding("vocab.json", "[1, 2]"), "vocab.json is not a JSON object"),
        (changed("vocab.json", more=7), "tokens are not numbered 0 to"),
        (changed("vocab.json", **{"<unk>": "1"}), "tokens are not numbered 0 to"),
        (changed("vocab.json", **{"<unk>": ..., "unk": 1}), "has no <unk>"),
        (changed("config.json", d_model=...), "d_model is None, expected a number"),
        (changed("config.json", decoder_start_token_id=900), "decoder_start_token_id 900 is not in the vocabulary"),
        (changed("config.json", activation_function="gelu_new"), "the activation 'gelu_new' is not known"),
        (changed("config.json", encoder_attention_heads=5, decoder_attention_heads=5), "not divisible by heads 5"),
        (changed("config.json", encoder_ffn_dim=8), "differ in ffn_dim"),
        (changed("config.json", encoder_ffn_dim=8, decoder_ffn_dim=8), r"fc1.weight is \(24, 16\), expected \(8, 16\)"),
        (changed("config.json", decoder_layers=4), "decoder.layers.3.self_attn.q_proj.weight is absent"),
        (changed("config.json", scale_embedding=False), "scale_embedding is not true"),
        (changed("config.json", share_encoder_decoder_embeddings=False), "share_encoder_decoder_embeddings = False"),
        (changed("config.json", normalize_before=True), "normalize_before = True is not known"),
        (changed("generation_config.json", num_beams=900), "generation_config.json"),
    ],
)
def test_what_it_cannot_read_is_told(folder: Path, change: Any, message: str) -> None:
    theirs(folder)
    change(folder)
    with pytest.raises(UserError, match=message):
        huggingface.read(folder)
