"""Full attention: the paper's equation, and PyTorch's fused kernel beside it."""

# Shapes: B batch, H heads, T queries, S keys, K head width.

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.nn import native
from regard.nn.attention.mask import Mask
from regard.nn.attention.multihead import Kernel
from regard.nn.dropout import keep_mask


def attention_weights(q: Tensor, k: Tensor, mask: Mask) -> Tensor:
    """softmax(Q K^T / sqrt(d_k)), where the mask allows."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # B H T S
    allowed = mask.allowed(q.size(-2), k.size(-2), q.device)
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -torch.inf)
    return scores.softmax(-1)


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> tuple[Tensor, Tensor]:
    """softmax(Q K^T / sqrt(d_k)) V, section 3.2.1, equation 1: the plain reference. Gives the mix and the weights."""
    weights = attention_weights(q, k, mask)
    return weights @ v, weights


class Full(Kernel):
    """Every query over every key that the mask allows."""

    can = frozenset({"causal", "cross", "cache", "dropout"})

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        if self.training and self.dropout > 0:  # drawn by our own dropout: the fused kernel's follows no generator
            weights = attention_weights(q, k, mask)
            return (weights * keep_mask(weights, self.dropout)) @ v
        if type(mask) is Mask and native.attends(q, k, v):
            return native.attend(q, k, v, mask.lengths, mask.causal)
        if mask.lengths is None and mask.causal and q.size(-2) == k.size(-2):
            return F.scaled_dot_product_attention(q, k, v, is_causal=q.size(-2) > 1)
        allowed = mask.allowed(q.size(-2), k.size(-2), q.device)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)

    def weights(self, q: Tensor, k: Tensor, mask: Mask) -> Tensor:
        return attention_weights(q, k, mask)
