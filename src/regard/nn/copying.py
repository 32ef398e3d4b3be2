"""Copying: a word can be taken over from the source in place of being chosen from the vocabulary (See 2017)."""

# Shapes: R rows (B, or hypotheses when decoding), N sentences, T target length, S source length, D width, V vocabulary.

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
        lengths = self.mask.lengths
        self.tokens, self.keys = self.tokens[sentences], self.keys[sentences]
        self.mask = Mask(lengths=None if lengths is None else lengths[sentences])


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
        """log p (R T V). The rows of a sentence stand together, equally many each."""
        sentences, length = source.tokens.shape
        exact = torch.promote_types(logits.dtype, torch.float32)
        q = self.q(states).view(sentences, -1, states.size(-1))  # N R/N*T D
        weights = attention_weights(q[:, None], source.keys[:, None], source.mask)[:, 0].to(exact)  # N R/N*T S
        where = source.tokens[:, None].expand_as(weights).reshape(-1, length)
        copied = torch.zeros_like(logits, dtype=exact).flatten(0, 1)  # R*T V
        copied = copied.scatter_add(1, where, weights.reshape(-1, length)).view_as(logits)
        gate = self.gate(states).to(exact)  # R T 1
        written = F.logsigmoid(gate) + logits.to(exact).log_softmax(-1)
        # What is nowhere in the source has no logarithm; the least number keeps the gradient one.
        taken = F.logsigmoid(-gate) + copied.clamp(min=torch.finfo(exact).tiny).log()
        return torch.logaddexp(written, taken)
