"""How a model knows word order: its position vectors as a table, and the dot products between them."""

# Shapes: T positions, D width.

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.models import Pair, TransformerConfig
from regard.nn.position import sinusoids
from regard.view.pack import pack_floats

Array = NDArray[np.floating[Any]]
LEAST, MOST = 64, 256  # positions shown


@dataclass(frozen=True, eq=False)
class Positions:
    """The vectors that stand for positions 0, 1, 2, ... on the input's side.

    sinusoidal and learned: what is added to the embeddings. rotary: nothing is added; each pair of a query's and a
    key's coordinates is turned, and the table holds sine and cosine of those angles. none: the model knows no order.
    """

    kind: str
    table: Array | None  # T D

    @property
    def products(self) -> Array | None:
        """Each position's vector with each other's (T T). For sinusoids it depends on the distance alone."""
        return None if self.table is None else self.table @ self.table.T

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "table": None if self.table is None else pack_floats(self.table)}


def positions(model: Pair, length: int = LEAST) -> Positions | None:
    """The model's own table, for at least `LEAST` positions if it has as many; None where order needs no vectors."""
    config = model.config
    count = min(MOST, max(LEAST, length))
    learned = dict(model.named_parameters()).get("positions.source.table")
    if learned is not None:
        return Positions("learned", learned[:count].detach().float().cpu().numpy())
    if not isinstance(config, TransformerConfig):
        return None
    if config.positions == "none":
        return Positions("none", None)
    width = config.d_model if config.positions == "sinusoidal" else config.d_model // config.heads
    return Positions(config.positions, sinusoids(count, width).numpy())
