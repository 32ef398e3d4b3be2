"""Recurrent layers: a two-way encoder that padding does not reach, and a layer that goes on from any state."""

# Shapes: B batch, S source length, T target length, D width, G all gates' widths together.

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.nn.dropout import Dropout

CELLS: dict[str, type[nn.LSTM] | type[nn.GRU]] = {"lstm": nn.LSTM, "gru": nn.GRU}
Hidden = tuple[Tensor, ...]  # h, and an LSTM's c


class Reader(nn.Module):
    """Recurrent layers over a source, one way or two ways, each layer over the states of the one below."""

    def __init__(self, cell: str, d_in: int, d_out: int, layers: int, two_way: bool, dropout: float) -> None:
        super().__init__()
        self.d_memory = d_out * (2 if two_way else 1)
        widths = [d_in, *[self.d_memory] * (layers - 1)]
        self.layers = nn.ModuleList(CELLS[cell](w, d_out, batch_first=True, bidirectional=two_way) for w in widths)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, lengths: Tensor | None) -> tuple[Tensor, list[Hidden]]:
        """All states (B S D), and those that each layer ends with: at the last word and, read two ways, the first."""
        length, ends = x.size(1), []
        for i, layer in enumerate(self.layers):
            x = self.dropout(x) if i else x
            if lengths is None:
                x, end = layer(x)
            else:
                packed, end = layer(pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False))
                x, _ = pad_packed_sequence(packed, batch_first=True, total_length=length)
            ends.append(tuple(torch.cat(tuple(h), -1) for h in (end if isinstance(end, tuple) else (end,))))
        return x, ends


class Writer(nn.Module):
    """One recurrent layer of a decoder: over a whole sequence at once, or a step at a time with the same weights."""

    def __init__(self, cell: str, d_in: int, d_out: int) -> None:
        super().__init__()
        self.rnn = CELLS[cell](d_in, d_out, batch_first=True)

    def forward(self, x: Tensor, hidden: Hidden) -> tuple[Tensor, Hidden]:
        """(B T D) from (B T D_in), and where it stands then."""
        given = tuple(h[None].contiguous() for h in hidden)
        out, end = self.rnn(x, given if len(given) > 1 else given[0])
        return out, tuple(h[0] for h in (end if isinstance(end, tuple) else (end,)))

    def columns(self, first: int) -> tuple[Tensor, Tensor]:
        """The input's matrix for its first so many numbers, and for the rest."""
        return self._weight("weight_ih")[:, :first], self._weight("weight_ih")[:, first:]

    def _weight(self, name: str) -> Tensor:
        return self.rnn.get_parameter(f"{name}_l0")

    def project(self, x: Tensor, columns: Tensor | None = None) -> Tensor:
        """The input's part in all gates (... G): it can be made for all steps at once."""
        return F.linear(x, self._weight("weight_ih") if columns is None else columns, self._weight("bias_ih"))

    def advance(self, x: Tensor, hidden: Hidden) -> Hidden:
        """One step from the projected input (B G): PyTorch's own equations, whose reset gate comes after the matrix."""
        own = F.linear(hidden[0], self._weight("weight_hh"), self._weight("bias_hh"))
        if isinstance(self.rnn, nn.LSTM):
            i, f, g, o = (x + own).chunk(4, -1)
            c = f.sigmoid() * hidden[1] + i.sigmoid() * g.tanh()
            return o.sigmoid() * c.tanh(), c
        (r, z, n), (own_r, own_z, own_n) = x.chunk(3, -1), own.chunk(3, -1)
        fresh = (n + (r + own_r).sigmoid() * own_n).tanh()
        return (torch.lerp(fresh, hidden[0], (z + own_z).sigmoid()),)


def initialise(module: nn.Module) -> None:
    """Recurrent matrices orthogonal, gate by gate; the others by Glorot's rule; biases zero."""
    if isinstance(module, nn.RNNBase):
        for name, parameter in module.named_parameters():
            for gate in parameter.chunk(4 if isinstance(module, nn.LSTM) else 3):
                if name.startswith("bias"):
                    nn.init.zeros_(gate)
                elif name.startswith("weight_hh"):
                    nn.init.orthogonal_(gate)
                else:
                    nn.init.xavier_uniform_(gate)
