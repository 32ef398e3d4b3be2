"""Copying: a word can be taken over from the source in place of being chosen from the vocabulary (See 2017)."""

# Shapes: R rows (hypotheses, or sentences), N sentences, T target length, S source length, D width, V vocabulary.

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.nn.attention.full import attention_weights
from regard.nn.attention.mask import Mask


class Copies:
    """What can be copied from N sentences: the tokens, and the keys by which they are found."""

    def __init__(self, tokens: Tensor, keys: Tensor, lengths: Tensor | None) -> None:
        self.tokens, self.keys = tokens, keys  # N S, N S D
        self.mask = Mask(lengths=lengths)

    def keep(self, sentences: Tensor) -> None:
        """Only these sentences are still being decoded."""
        self.tokens, self.keys = self.tokens[sentences], self.keys[sentences]
        self.mask = self.mask.keep(sentences)


class Pointer(nn.Module):
    """p(w) = g softmax(logits)(w) + (1 - g) sum of a_i over the i with x_i = w: equation 9.

    The attention a has one head of its own; the gate g = sigmoid(w s + b) sees the decoder's last state s.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.q = nn.Linear(d_model, d_model)
        self.k = nn.Linear(d_model, d_model)
        self.gate = nn.Linear(d_model, 1)

    def copies(self, tokens: Tensor, memory: Tensor, lengths: Tensor | None) -> Copies:
        return Copies(tokens, self.k(memory), lengths)

    def forward(self, states: Tensor, logits: Tensor, source: Copies) -> Tensor:
        """log p (R T V)."""
        weights = self._weights(states, source)  # R T S
        where = source.tokens.repeat_interleave(len(states) // len(source.tokens), 0)[:, None].expand_as(weights)
        copied = torch.zeros_like(logits, dtype=weights.dtype).scatter_add(2, where, weights)
        return self._mixed(states, logits.to(weights.dtype).log_softmax(-1), copied)

    def losses(
        self,
        states: Tensor,
        output: Tensor,
        bias: Tensor | None,
        source: Copies,
        wanted: Tensor,
        real: Tensor,
        smoothing: float,
    ) -> tuple[Tensor, Tensor]:
        """Sums of the smoothed loss and of -log p over the wanted tokens (R T) that are real, as p of these alone.

        The softmax is what is smoothed: to smooth p itself would punish the gate for every word that is not there.
        """
        weights = self._weights(states, source)  # R T S
        copied = (weights * (source.tokens[:, None] == wanted[..., None])).sum(-1)[real]  # n
        states, wanted = states[real], wanted[real]
        words = F.linear(states, output, bias).to(weights.dtype).log_softmax(-1)  # n V
        nll = -self._mixed(states, words.gather(1, wanted[:, None]), copied[:, None]).sum()
        return (1 - smoothing) * nll - smoothing * words.mean(1).sum(), nll.detach()

    def _weights(self, states: Tensor, source: Copies) -> Tensor:
        """a (R T S). The rows of a sentence stand together, equally many each."""
        q = self.q(states).view(len(source.tokens), 1, -1, states.size(-1))  # N 1 R/N*T D
        weights = attention_weights(q, source.keys[:, None], source.mask)
        exact = torch.promote_types(weights.dtype, torch.float32)
        return weights.view(*states.shape[:2], -1).to(exact)

    def _mixed(self, states: Tensor, words: Tensor, copied: Tensor) -> Tensor:
        """log(g exp(words) + (1 - g) copied)."""
        gate = self.gate(states).to(words.dtype)
        # What is nowhere in the source has no logarithm; the least number keeps the gradient one.
        taken = copied.clamp(min=torch.finfo(copied.dtype).tiny).log()
        return torch.logaddexp(F.logsigmoid(gate) + words, F.logsigmoid(-gate) + taken)
