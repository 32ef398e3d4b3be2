"""Operations that a Transformer's training needs by its definition, and how many the machine can do."""

import time

import torch

from regard.models import TransformerConfig


def training_flops(config: TransformerConfig, source: int, target: int, pairs: int) -> float:
    """Of the matrix products over real tokens, forward and backward (twice the forward), nothing computed again.

    source, target: tokens of all pairs together. The attention's own products are counted at the mean lengths, the
    causal ones by half.
    """
    d, ff = config.d_model, config.d_ff
    s, t = source / pairs, target / pairs
    encoder = config.encoder_layers * (4 * d * d + 2 * d * ff + 2 * s * d)  # products a source token
    decoder = config.decoder_layers * (6 * d * d + 2 * d * ff + t * d + 2 * s * d) + d * config.target_vocabulary
    over_source = config.decoder_layers * 2 * d * d  # keys and values of the attention over the source
    return 3 * 2 * ((encoder + over_source) * source + decoder * target)


def peak(size: int = 2048, seconds: float = 3.0) -> float:
    """The best speed of a square float32 matrix product on all cores, in operations a second."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    best, end = float("inf"), time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        a @ b
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best
