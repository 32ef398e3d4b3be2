"""What the configs of all networks have in common."""

from pydantic import BaseModel, ConfigDict


class ModelConfig(BaseModel):
    """The shape of a network: frozen, strict, checked when it is made."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @property
    def longest(self) -> int | None:
        """The most positions that a sequence can have; None when any number will do."""
        return None

    def parameters(self) -> int:
        """How many weights the network has, in closed form."""
        raise NotImplementedError


def check_heads(d_model: int, heads: int) -> None:
    if d_model % heads:
        near = max(heads, round(d_model / heads) * heads)
        raise ValueError(f"d_model {d_model} is not divisible by heads {heads}; try {near}")
