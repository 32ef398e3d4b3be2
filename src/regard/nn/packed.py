"""A decoder laid out for writing one token at a time: the same numbers from fewer, larger operations.

The plain twin is the layers themselves, called with a cache (`Transformer.step`); a test holds the two together. The
weights are copied, so this is made anew when they change. All layers are one compiled call, if there is one.
"""

# Shapes: R rows (hypotheses), N sentences, L layers, H heads, T target length, S source length, D width, K head width.

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.nn.blocks import DecoderLayer
from regard.nn.copying import Copies
from regard.nn.native import decoding


class PackedState:
    """Where decoding stands: the keys and values of all layers together, of the target so far and of the source."""

    def __init__(self, source: Tensor, lengths: Tensor | None) -> None:
        self.source = source  # L 2 N H S K
        self.lengths = None if lengths is None else lengths.to(torch.int64).contiguous()  # N
        self.mask: Tensor | None = None  # N 1 1 S, added to the scores
        if lengths is not None:
            real = torch.arange(source.size(4), device=source.device) < lengths[:, None]
            self.mask = torch.zeros_like(real, dtype=source.dtype).masked_fill_(~real, -torch.inf)[:, None, None]
        layers, _, sentences, heads, _, width = source.shape
        self.grown = source.new_empty(layers, 2, sentences, heads, 0, width)  # L 2 R H T K, with room for more T
        self.length = 0
        self.copies: Copies | None = None  # of a model that copies

    def reorder(self, rows: Tensor) -> None:
        """Row i goes on from where row rows[i] stands; there may be more or fewer rows than before."""
        moved = self._room(rows.numel(), self.grown.size(4))
        torch.index_select(self._used(self.grown), 2, rows, out=self._used(moved))
        self.grown = moved

    def keep(self, sentences: Tensor) -> None:
        """Forgets the source of all sentences but these."""
        self.source = self.source.index_select(2, sentences)
        self.mask = None if self.mask is None else self.mask[sentences]
        self.lengths = None if self.lengths is None else self.lengths[sentences]
        if self.copies is not None:
            self.copies.keep(sentences)

    def lengthen(self, rows: int) -> None:
        """One position more in each row; room is doubled, so that a step seldom copies."""
        room = self.grown.size(4)
        if self.length == room:
            larger = self._room(rows, max(16, 2 * room))
            if self.length:
                self._used(larger).copy_(self.grown)
            self.grown = larger
        self.length += 1

    def _room(self, rows: int, length: int) -> Tensor:
        layers, _, _, heads, _, width = self.grown.shape
        return self.grown.new_empty(layers, 2, rows, heads, length, width)

    def _used(self, room: Tensor) -> Tensor:
        return room[:, :, :, :, : self.length]


class _Layer:
    """One decoder layer's weights, and what it does with them."""

    def __init__(self, layer: DecoderLayer) -> None:
        own, cross, feed_forward = layer.attention, layer.cross, layer.feed_forward
        self.first = layer.after_attention.first
        self.norms = [_norm(r.norm) for r in (layer.after_attention, layer.after_cross, layer.after_feed_forward)]
        self.qkv, self.out = _Affine(own.q, own.k, own.v), _Affine(own.out)
        self.cross_q, self.cross_out = _Affine(cross.q), _Affine(cross.out)
        self.inner, self.outer = _Affine(feed_forward.inner), _Affine(feed_forward.outer)
        self.activation = torch.relu_ if isinstance(feed_forward.activation, nn.ReLU) else feed_forward.activation
        self.rotary = own.rotary

    @property
    def pairs(self) -> list[decoding.Pair]:
        """Its weights as the compiled call wants them."""
        own, cross, last = ((gain, bias) for _, gain, bias, _ in self.norms)
        linear = (self.qkv, self.out, self.cross_q, self.cross_out, self.inner, self.outer)
        qkv, out, cross_q, cross_out, inner, outer = ((layer.weight, layer.bias) for layer in linear)
        return [own, qkv, out, cross, cross_q, cross_out, last, inner, outer]

    def __call__(self, x: Tensor, place: Tensor, seen: Tensor, source: Tensor, mask: Tensor | None) -> Tensor:
        """place: where the new keys and values go (2 R H K). seen: all of them up to there (2 R H T K)."""
        first, second, third = self.norms
        if self.first:
            x = self.out.added(x, self._own(torch.layer_norm(x, *first), place, seen))
            x = self.cross_out.added(x, self._cross(torch.layer_norm(x, *second), source, mask))
            return self.outer.added(x, self.activation(self.inner(torch.layer_norm(x, *third))))
        x = torch.layer_norm(self.out.added(x, self._own(x, place, seen)), *first)
        x = torch.layer_norm(self.cross_out.added(x, self._cross(x, source, mask)), *second)
        return torch.layer_norm(self.outer.added(x, self.activation(self.inner(x))), *third)

    def _own(self, x: Tensor, place: Tensor, seen: Tensor) -> Tensor:
        _, rows, heads, width = place.shape
        qkv = self.qkv(x).view(rows, 3, heads, width)
        q, new = qkv[:, 0, :, None], qkv[:, 1:]  # R H 1 K, R 2 H K
        if self.rotary is not None:
            position = seen.size(3) - 1
            q = self.rotary(q, position)
            new = torch.stack((self.rotary(new[:, 0, :, None], position)[:, :, 0], new[:, 1]), dim=1)
        place.copy_(new.transpose(0, 1))
        keys, values = seen.unbind()
        return F.scaled_dot_product_attention(q, keys, values).reshape(rows, -1)  # R D

    def _cross(self, x: Tensor, source: Tensor, mask: Tensor | None) -> Tensor:
        """Over the source (2 N H S K): the rows of a sentence are so many queries."""
        _, sentences, heads, _, width = source.shape
        q = self.cross_q(x).view(sentences, -1, heads, width).transpose(1, 2)  # N H R/N K
        keys, values = source.unbind()
        mixed = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
        return mixed.transpose(1, 2).reshape(x.size(0), -1)


class PackedDecoder:
    """Decoder layers as one. table: what a token adds to the residual stream (V D).

    first, last: the norms of the embeddings and after the last layer, if any.
    """

    def __init__(
        self,
        layers: Sequence[DecoderLayer],
        table: Tensor,
        positions: nn.Module | None,
        first: nn.Module | None,
        last: nn.Module,
        output: Tensor,
        bias: Tensor | None = None,
    ) -> None:
        self.layers = [_Layer(layer) for layer in layers]
        self.heads = layers[0].attention.heads
        self.memory = _Affine(*(p for layer in layers for p in (layer.cross.k, layer.cross.v)))
        self.first, self.last = (_norm(norm) if isinstance(norm, nn.LayerNorm) else None for norm in (first, last))
        self.table, self.positions = table, positions
        self.output, self.bias = output.t().contiguous(), None if bias is None else bias.clone()  # D V, V
        self.compiled = self._compiled()

    def start(self, memory: Tensor, lengths: Tensor | None) -> PackedState:
        sentences, length, width = memory.shape
        keys = self.memory(memory.view(-1, width))  # N*S L*2*D
        keys = keys.view(sentences, length, len(self.layers), 2, self.heads, width // self.heads)
        return PackedState(keys.permute(2, 3, 0, 4, 1, 5).contiguous(), lengths)

    def step(self, tokens: Tensor, state: PackedState) -> tuple[Tensor, Tensor]:
        """The last states (R D) and logits (R V) after one further token of each row (R 1)."""
        position = state.length
        state.lengthen(tokens.size(0))
        x = torch.embedding(self.table, tokens)  # R 1 D
        x = (x if self.positions is None else self.positions(x, position)).squeeze(1)
        x = x if self.first is None else torch.layer_norm(x, *self.first)
        if self.compiled is not None and self.compiled.takes(x, state.grown, state.source):
            return x, self.compiled.step(x, state.grown, state.length, state.source, state.lengths)
        places = state.grown[:, :, :, :, position].unbind()
        seen, sources = state.grown[:, :, :, :, : state.length].unbind(), state.source.unbind()
        for layer, place, past, source in zip(self.layers, places, seen, sources, strict=True):
            x = layer(x, place, past, source, state.mask)
        x = x if self.last is None else torch.layer_norm(x, *self.last)
        return x, torch.mm(x, self.output) if self.bias is None else torch.addmm(self.bias, x, self.output)

    def _compiled(self) -> decoding.Layers | None:
        """The same as one call, if that knows such layers."""
        norms = [norm for layer in self.layers for norm in layer.norms] + ([] if self.last is None else [self.last])
        plain = all(layer.activation is torch.relu_ and layer.rotary is None for layer in self.layers)
        if not plain or len({eps for *_, eps in norms}) != 1:
            return None
        last = (None, None) if self.last is None else self.last[1:3]
        compiled = decoding.Layers(
            [layer.pairs for layer in self.layers],
            [last, (self.output, self.bias)],
            heads=self.heads,
            first=self.layers[0].first,
            eps=norms[0][3],
        )
        return compiled if compiled.call else None


class _Affine:
    """x W + b of one linear layer, or of several over the same input side by side."""

    def __init__(self, *layers: nn.Linear) -> None:
        self.weight = torch.cat([layer.weight.detach() for layer in layers]).t().contiguous()
        self.bias = None if layers[0].bias is None else torch.cat([layer.bias.detach() for layer in layers])

    def __call__(self, x: Tensor) -> Tensor:
        return torch.mm(x, self.weight) if self.bias is None else torch.addmm(self.bias, x, self.weight)

    def added(self, to: Tensor, x: Tensor) -> Tensor:
        """to + x W + b, written over `to`."""
        to.addmm_(x, self.weight)
        return to if self.bias is None else to.add_(self.bias)


def _norm(norm: nn.LayerNorm) -> tuple[tuple[int, ...], Tensor, Tensor, float]:
    return tuple(norm.normalized_shape), norm.weight.detach().clone(), norm.bias.detach().clone(), norm.eps
