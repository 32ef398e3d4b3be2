"""Why this output word? RISE for a translator: every output word over every source word, from one run."""

# Shapes: B masks, T target tokens, V vocabulary, K output words, S source words.

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from regard.decode import DecodeOptions
from regard.decode.engine import pad
from regard.decode.protocol import most_written
from regard.errors import UserError
from regard.explain.result import Explanation, last_of
from regard.explain.rise import Array, Bits, planned, rise
from regard.text import BOS, EOS, SPECIALS, UNK
from regard.view import words
from regard.view.look import encoded

if TYPE_CHECKING:
    from regard.api import Model

LOGITS = 2**22  # numbers held at once: 16 MB


class Sentence:
    """A source in words that can be hidden, and a fixed output whose words are scored."""

    def __init__(
        self,
        model: "Model",
        text: str,
        target: str | None,
        by: str,
        filler: str | None,
        options: DecodeOptions | None = None,
    ) -> None:
        if by not in ("words", "tokens"):
            raise UserError(f"a translator's input cannot be cut by {by!r}; choose words or tokens")
        if not text.strip():
            raise UserError("there is no text to explain")
        if target is not None and not target.strip():
            raise UserError("the target is empty: there is no word to explain")
        self.networks = [bundle.model for bundle in model.bundles]
        bundle, most = model.bundle, model.translator.max_source
        self.source = encoded(bundle.source, text, "text", most)
        if target is None:
            options = options or model.options(n_best=1, sample=False)
            [(_, (best, *_))] = model.translator.engine.decode([self.source], [0], options)
            self.target, self.output = list(best.tokens), bundle.target.decode(best.tokens)
        else:
            room = most_written(self.networks)
            self.target = encoded(bundle.target, target, "target", most if room is None else min(most, room))
            self.output = target
        if not self.target:
            raise UserError("the translation is empty: there is no word to explain")
        pieces, written = bundle.source.surface(self.source), bundle.target.surface(self.target)
        whole, self.outputs = words.groups(pieces), words.groups(written)
        self.groups = whole if by == "words" else tuple((i,) for i in range(len(pieces)))
        named = [words.word([pieces[i] for i in group]) for group in whole]
        self.places = tuple(named if by == "words" else words.labels(pieces, whole))
        self.filler = [] if filler is None else [UNK] if filler == SPECIALS[UNK] else bundle.source.encode(filler)
        longest = sum(max(len(group), len(self.filler)) for group in self.groups)
        if longest > most:
            raise UserError(f"with this filler a text can have {longest} tokens, the model is made for {most}")
        self.rows = tuple(words.word([written[i] for i in group]) for group in self.outputs)

    @torch.inference_mode()
    def score(self, masks: Array) -> Array:
        """The probability of each output word (B K), given the output before it and the source words that are seen."""
        device = next(self.networks[0].parameters()).device
        sources = [self._masked(mask) for mask in masks > 0.5]
        before = torch.tensor([[BOS, *self.target[:-1]]], device=device)  # 1 T
        wanted = torch.tensor(self.target, device=device)
        found = []
        size = max(1, LOGITS // (len(self.target) * len(self.networks[0].output)))
        for i in range(0, len(sources), size):
            padded, lengths = pad(sources[i : i + size], device)
            rows = before.expand(len(padded), -1)
            tokens = torch.zeros(rows.shape, device=device)  # B T, the probability of each token
            for network in self.networks:
                logits = network.logits(padded, lengths, rows).float()  # B T V
                mine = logits.gather(2, wanted.expand(len(padded), -1)[..., None])[..., 0]
                tokens += (mine - logits.logsumexp(-1)).exp()
            tokens /= len(self.networks)
            found.append(torch.stack([tokens[:, list(group)].prod(1) for group in self.outputs], 1))
        scores: Array = torch.cat(found).double().cpu().numpy()
        return scores

    def _masked(self, mask: Any) -> list[int]:
        tokens: list[int] = []
        for group, seen in zip(self.groups, mask, strict=True):
            tokens += [self.source[i] for i in group] if seen else self.filler
        return [*tokens, EOS]


def why_steps(
    model: "Model",
    text: str,
    target: str | None = None,
    *,
    word: int | str | None = None,
    by: str = "words",
    filler: str | None = None,
    keep: float = 0.5,
    options: DecodeOptions | None = None,
    **plan: Any,
) -> Iterator[Explanation]:
    """Why a translator writes each word, again and again as more masks are tried.

    An output word's score is its probability, given the output before it, when only some source words are seen. The
    output is the model's own translation (by these options, if given), or the given target; word (from 0, or the word
    itself) chooses one row.
    Hidden source words (or tokens, with by="tokens") are taken away, or replaced by a filler, which may be "<unk>".
    """
    sentence = Sentence(model, text, target, by, filler, options)
    rows = list(range(len(sentence.rows))) if word is None else [chosen(sentence.rows, word)]
    names = tuple(sentence.rows[i] for i in rows)

    def score(masks: Array) -> Array:
        return sentence.score(masks)[:, rows]

    for found in rise(score, Bits(len(sentence.places), keep), planned(**plan)):
        yield Explanation(text, sentence.places, names, found, score, sentence.output, model.languages)


why = last_of(why_steps)


def chosen(rows: tuple[str, ...], word: int | str) -> int:
    """The number of an output word; a word that stands twice must be told by its number."""
    listed = f"the output has {len(rows)} words: {' '.join(rows)}"
    if isinstance(word, int):
        if not 0 <= word < len(rows):
            raise UserError(f"there is no word of that number; {listed}")
        return word
    found = [i for i, row in enumerate(rows) if row == word]
    if len(found) != 1:
        what = "does not stand" if not found else "stands more than once"
        raise UserError(f"{word!r} {what} in the output; choose one, or its number: {listed}")
    return found[0]
