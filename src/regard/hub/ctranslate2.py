"""CTranslate2: a model in its format, and its runtime as an engine for translating.

Its search is its own: scores are divided by a power of the length, not by the paper's ((5 + length) / 6)^alpha. The
power is chosen so that they grow alike in outputs of TYPICAL length, whatever else is in a batch; with a beam an output
may now and then be another one. Greedy outputs are the same. An output that would not end may be longer here, since a
batch has the limit of its longest input.
"""

import math
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.bundle import Bundle
from regard.decode import DecodeOptions
from regard.decode.engine import batched
from regard.decode.options import NEVER
from regard.decode.protocol import Hypothesis
from regard.errors import UserError
from regard.files import whole_folder
from regard.models import Transformer
from regard.nn.attention import MultiHead
from regard.nn.blocks import DecoderLayer, EncoderLayer, FeedForward, Residual
from regard.nn.position import sinusoids
from regard.text import BOS, EOS, SPECIALS, UNK, Tokenizer

PRECISIONS = ("float32", "int8")
POSITIONS = 4096  # rows of the table of sinusoids that is written out
TYPICAL = 20  # tokens of an output
BATCH = 2304  # tokens of the source and of all hypotheses in a batch; half as many are as good, twice as many slower
LEAST = 256  # tokens of a batch that is made for the sake of a worker who has none
AHEAD = 3  # batches a worker that are begun before the first is taken: what is begun cannot be called back


def export(bundle: Bundle, out: Path, precision: str = "float32") -> None:
    """Writes a folder that CTranslate2 loads, with the tokenizers beside it."""
    if out.exists():
        raise UserError(f"{out} is there already; choose another folder")
    specs = _library().specs
    spec = _specified(bundle, specs)
    spec.validate()
    spec.optimize(quantization=None if _checked(precision) == "float32" else precision)
    with whole_folder(out) as part:
        spec.save(str(part))
        bundle.source.save(part / "tokenizer.json")
        if bundle.target.checksum != bundle.source.checksum:
            bundle.target.save(part / "tokenizer.target.json")


class CTranslate2:
    """CTranslate2's runtime as an engine: one worker a core, which is faster than one worker on many cores."""

    def __init__(self, bundle: Bundle, precision: str = "float32", workers: int = 0) -> None:
        library = _library()
        self.limit: int | None = bundle.model.limit or POSITIONS - 1
        self._words = _words(bundle.source)
        self._numbers = {word: i for i, word in enumerate(_words(bundle.target))}
        threads = torch.get_num_threads()
        self._workers = workers or threads
        with tempfile.TemporaryDirectory(prefix="regard-") as folder:
            export(bundle, Path(folder) / "model", precision)
            self._translator = library.Translator(
                str(Path(folder) / "model"),
                compute_type=precision,
                inter_threads=self._workers,
                intra_threads=1,
            )
        torch.set_num_threads(threads)  # what stands above has made it 1 for PyTorch too

    def check(self, options: DecodeOptions) -> None:
        if options.sample:
            raise UserError("CTranslate2's random draws do not follow a seed; sample with the torch engine")

    def decode(
        self, inputs: Sequence[list[int]], numbers: Sequence[int], options: DecodeOptions, *, scored: bool = True
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Its workers go on while words are looked up here.

        A greedy search that need not tell scores makes no softmax.
        """
        self.check(options)
        settings: dict[str, Any] = {
            "num_hypotheses": options.n_best,
            "no_repeat_ngram_size": options.no_repeat_ngram,
            "max_input_length": 0,
            "return_scores": scored,
            "return_end_token": scored,  # it counts in a score's length
            "beam_size": options.beam,
            "length_penalty": _power(options),
            "asynchronous": True,
        }
        lengths = [len(tokens) + 1 for tokens in inputs]
        workers = min(self._workers, max(1, sum(lengths) // LEAST))
        running: deque[tuple[list[int], list[Any]]] = deque()
        for batch in batched(lengths, BATCH // (1 + options.beam), workers):
            if len(running) >= AHEAD * self._workers:
                yield from self._taken(*running.popleft(), options)
            longest = options.most(lengths[batch[0]], self.limit)  # one limit for a batch is all it knows
            settings |= {"max_decoding_length": longest, "min_decoding_length": min(options.min_length, longest)}
            words = [[self._words[token] for token in inputs[i]] for i in batch]
            running.append((batch, self._translator.translate_batch(words, **settings)))
        for begun in running:
            yield from self._taken(*begun, options)

    def _taken(
        self, batch: list[int], results: list[Any], options: DecodeOptions
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        for i, waiting in zip(batch, results, strict=True):
            result = waiting.result()
            pairs = zip(result.hypotheses, result.scores or [math.nan] * options.n_best, strict=True)
            yield i, [self._hypothesis(words, score, options) for words, score in pairs]

    def _hypothesis(self, words: list[str], score: float, options: DecodeOptions) -> Hypothesis:
        tokens = tuple(map(self._numbers.__getitem__, words))
        if tokens[-1:] == (EOS,):
            tokens = tokens[:-1]
        if math.isnan(score):  # nobody asked for it
            return Hypothesis(tokens, score, score)
        log_prob = score * len(words) ** _power(options)
        return Hypothesis(tokens, log_prob, options.normalise(log_prob, len(words)))


def _power(options: DecodeOptions) -> float:
    """The x with which length^x grows as the paper's ((5 + length) / 6)^alpha does, in outputs of typical length."""
    return options.length_penalty * TYPICAL / (5 + TYPICAL)


def _library() -> ModuleType:
    try:
        import ctranslate2
        import ctranslate2.specs
    except ImportError:
        raise UserError("CTranslate2 is not installed; get it with: pip install ctranslate2") from None
    library: ModuleType = ctranslate2
    return library


def _checked(precision: str) -> str:
    if precision not in PRECISIONS:
        raise UserError(f"precision {precision!r} is not known; choose one of {', '.join(PRECISIONS)}")
    return precision


def _words(tokenizer: Tokenizer) -> list[str]:
    return [tokenizer.token(i) for i in range(len(tokenizer))]


def _specified(bundle: Bundle, specs: Any) -> Any:
    """The model as CTranslate2 describes one."""
    model, c = bundle.model, bundle.model.config
    if not isinstance(model, Transformer):
        raise UserError(f"CTranslate2 runs Transformers; this model is {bundle.name!r}: use the torch engine")
    if c.positions == "rotary" or c.attention != "full" or c.encoder_layers == 0:
        raise UserError(
            f"CTranslate2 cannot run this model ({c.positions} positions, {c.attention} attention, "
            f"{c.encoder_layers} encoder layers): it knows full attention with added positions; use the torch engine"
        )
    if c.copying:
        raise UserError("CTranslate2 cannot copy words from the source, as this model does; use the torch engine")
    kinds = specs.Activation
    activation = {"relu": kinds.RELU, "gelu": kinds.GELU, "swish": kinds.SWISH}[c.activation]
    spec = specs.TransformerSpec.from_config(
        (c.encoder_layers, c.decoder_layers),
        c.heads,
        pre_norm=c.norm == "pre",
        activation=activation,
        layernorm_embedding=c.embedding_norm,
    )
    for side, stack in (("source", spec.encoder), ("target", spec.decoder)):
        stack.scale_embeddings = c.embedding_scale != 1
        embedding = stack.embeddings[0] if side == "source" else stack.embeddings
        embedding.weight = _array(_embedding(model, side).weight)
        stack.position_encodings.encodings = _positions(model, side)
        if c.embedding_norm:
            _norm(stack.layernorm_embedding, model.embedding_norms[side])
    for layer, described in zip(model.encoder, spec.encoder.layer, strict=True):
        assert isinstance(layer, EncoderLayer)
        _self_attention(described.self_attention, layer.attention, layer.after_attention)
        _feed_forward(described.ffn, layer.feed_forward, layer.after_feed_forward)
    for layer, described in zip(model.decoder, spec.decoder.layer, strict=True):
        assert isinstance(layer, DecoderLayer)
        _self_attention(described.self_attention, layer.attention, layer.after_attention)
        _cross_attention(described.attention, layer.cross, layer.after_cross)
        _feed_forward(described.ffn, layer.feed_forward, layer.after_feed_forward)
    if c.norm == "pre":
        _norm(spec.encoder.layer_norm, model.encoder_norm)
        _norm(spec.decoder.layer_norm, model.decoder_norm)
    spec.decoder.projection.weight = _array(model.output)
    zeros = torch.zeros(len(bundle.target))
    spec.decoder.projection.bias = _array(zeros if model.output_bias is None else model.output_bias)
    spec.decoder.projection.bias[NEVER] = -1e4  # cheaper than its options that suppress tokens at every step
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = SPECIALS[UNK], SPECIALS[BOS], SPECIALS[EOS]
    spec.config.decoder_start_token = SPECIALS[BOS]
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = c.norm_eps
    spec.register_source_vocabulary(_words(bundle.source))
    spec.register_target_vocabulary(_words(bundle.target))
    return spec


def _embedding(model: Transformer, side: str) -> nn.Embedding:
    embedding = model.embed[side]
    assert isinstance(embedding, nn.Embedding)
    return embedding


def _array(tensor: torch.Tensor) -> Any:
    return tensor.detach().cpu().float().numpy().copy()  # the library quantises some of what it is given in place


def _positions(model: Transformer, side: str) -> Any:
    c = model.config
    if c.positions == "learned":
        return _array(model.positions[side].table)  # type: ignore[arg-type]
    if c.positions == "none":
        return np.zeros((POSITIONS, c.d_model), dtype=np.float32)
    return _array(sinusoids(POSITIONS, c.d_model))


def _norm(spec: Any, norm: nn.Module) -> None:
    assert isinstance(norm, nn.LayerNorm)
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _linear(spec: Any, *layers: nn.Linear) -> None:
    """One layer, or several side by side as one."""
    spec.weight = np.concatenate([_array(layer.weight) for layer in layers])
    if layers[0].bias is not None:
        spec.bias = np.concatenate([_array(layer.bias) for layer in layers])


def _self_attention(spec: Any, attention: MultiHead, residual: Residual) -> None:
    _norm(spec.layer_norm, residual.norm)
    _linear(spec.linear[0], attention.q, attention.k, attention.v)
    _linear(spec.linear[1], attention.out)


def _cross_attention(spec: Any, attention: MultiHead, residual: Residual) -> None:
    _norm(spec.layer_norm, residual.norm)
    _linear(spec.linear[0], attention.q)
    _linear(spec.linear[1], attention.k, attention.v)
    _linear(spec.linear[2], attention.out)


def _feed_forward(spec: Any, feed_forward: FeedForward, residual: Residual) -> None:
    _norm(spec.layer_norm, residual.norm)
    _linear(spec.linear_0, feed_forward.inner)
    _linear(spec.linear_1, feed_forward.outer)
