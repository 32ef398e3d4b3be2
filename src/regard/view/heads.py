"""What single heads do, measured over many sentences: how often a head prefers the right noun."""

# Shapes: H heads, T queries, S keys.

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from regard.data.grammar import Sentence
from regard.decode.engine import pad
from regard.models import Transformer
from regard.text import BOS, EOS, Tokenizer
from regard.view.record import record

# Where the pronoun's meaning may be sought: (name, kind of attention).
PLACES = (("the pronoun", "encoder"), ("its adjective", "encoder"), ("the Spanish adjective", "cross"))


@dataclass(frozen=True)
class Head:
    """One head of one layer, seen from one place in the sentence."""

    kind: str
    layer: int
    head: int
    place: str

    def __str__(self) -> str:
        where = "encoder" if self.kind == "encoder" else "decoder over the source"
        return f"{where}, layer {self.layer + 1}, head {self.head + 1}, seen from {self.place}"


@torch.inference_mode()
def noun_preference(
    model: Transformer, source: Tokenizer, target: Tokenizer, sentences: Sequence[Sentence], size: int = 64
) -> dict[Head, float]:
    """For each head and place: in what share of pronoun sentences the antecedent outweighs the other noun."""
    wins: dict[Head, int] = {}
    known = [s for s in sentences if s.pronoun is not None]
    model.eval()
    for start in range(0, len(known), size):
        _count(model, source, target, known[start : start + size], wins)
    return {head: count / len(known) for head, count in wins.items()}


def _count(
    model: Transformer, source: Tokenizer, target: Tokenizer, sentences: Sequence[Sentence], wins: dict[Head, int]
) -> None:
    sources = [source.encode(s.source) for s in sentences]
    targets = [target.encode(s.target) for s in sentences]
    device = model.output.device
    padded, lengths = pad([[*ids, EOS] for ids in sources], device)
    decoder_input, _ = pad([[BOS, *ids] for ids in targets], device)
    with record(model) as trace:
        model(padded, lengths, decoder_input)
    for row, sentence in enumerate(sentences):
        pronoun = sentence.pronoun
        assert pronoun is not None
        words = spans(source.surface(sources[row]))
        written = spans(target.surface(targets[row]))
        queries = {
            "the pronoun": words[pronoun.it],
            "its adjective": words[pronoun.adjective],
            # The state that writes a token stands at its index: the decoder's input is one behind its output.
            "the Spanish adjective": written[pronoun.target_adjective],
        }
        right, wrong = words[pronoun.antecedent], words[pronoun.other]
        for place, kind in PLACES:
            for layer in range(trace.layers(kind)):
                weights = trace.weights(kind, layer)[row][:, queries[place]].mean(1)  # H S
                better = weights[:, right].sum(-1) > weights[:, wrong].sum(-1)  # H
                for head, won in enumerate(better.tolist()):
                    key = Head(kind, layer, head, place)
                    wins[key] = wins.get(key, 0) + won


def spans(surface: Sequence[str]) -> list[slice]:
    """Which tokens make up each word: a word begins at a token that begins with a space."""
    starts = [i for i, piece in enumerate(surface) if piece.startswith(" ")]
    ends = [*starts[1:], len(surface)]
    return [slice(a, b) for a, b in zip(starts, ends, strict=False)]  # of nothing there is one end too many
