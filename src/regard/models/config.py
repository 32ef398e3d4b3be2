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


def check_positions(positions: str, d_model: int, heads: int) -> None:
    if positions == "sinusoidal" and d_model % 2:
        raise ValueError(f"sinusoids come in pairs, so d_model {d_model} must be even")
    if positions == "rotary" and (d_model // heads) % 2:
        raise ValueError(f"rotary positions turn pairs, so d_model / heads = {d_model // heads} must be even")
