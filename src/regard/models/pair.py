"""What networks that write one sequence from another share: vocabularies, tied embeddings, losses, and steps."""

# Shapes: B batch, R rows (hypotheses), T target length, D width, V vocabulary.

from typing import Any, Literal, Self

from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from regard.models.config import ModelConfig
from regard.nn.loss import smoothed_loss

Embedding = Literal["source", "target", "output"]


class PairConfig(ModelConfig):
    """Two vocabularies, and which of the three embeddings are one."""

    d_model: int
    tie: tuple[Embedding, ...] = Field(
        ("source", "target", "output"), description="which of source, target and output embeddings share one matrix"
    )
    source_vocabulary: int = Field(37000, ge=1, description="source tokens; set from the tokenizer")
    target_vocabulary: int = Field(37000, ge=1, description="target tokens; set from the tokenizer")

    @property
    def embedding_shapes(self) -> dict[str, tuple[int, int]]:
        """Rows and width of the source's, the target's and the output's embeddings."""
        rows = {"source": self.source_vocabulary, "target": self.target_vocabulary, "output": self.target_vocabulary}
        return {name: (n, self.d_model) for name, n in rows.items()}

    @model_validator(mode="after")
    def _check_ties(self) -> Self:
        if len(set(self.tie)) != len(self.tie):
            raise ValueError(f"tie names one embedding twice: {', '.join(self.tie)}")
        if "source" in self.tie and len(self.tie) > 1 and self.source_vocabulary != self.target_vocabulary:
            raise ValueError("source embeddings can be tied to the others only with a shared tokenizer")
        widths = {name: self.embedding_shapes[name][1] for name in self.tie}
        if len(set(widths.values())) > 1:
            told = ", ".join(f"{name} {width}" for name, width in widths.items())
            raise ValueError(f"embeddings that are tied have one width; these have: {told}")
        return self

    def embedding_parameters(self) -> int:
        once = [name for name in self.embedding_shapes if name not in self.tie[1:]]
        return sum(rows * width for rows, width in map(self.embedding_shapes.__getitem__, once))


def embeddings(config: PairConfig) -> nn.ModuleDict:
    """source, target and output; those that are tied are one module."""
    shared = nn.Embedding(*config.embedding_shapes[config.tie[0]]) if config.tie else None
    return nn.ModuleDict(
        {
            name: shared if shared is not None and name in config.tie else nn.Embedding(*shape)
            for name, shape in config.embedding_shapes.items()
        }
    )


class Paired(nn.Module):
    """A network that writes: `forward` gives the states before the softmax (B T D) for a known target."""

    embed: nn.ModuleDict
    output_bias: Tensor | None

    @property
    def output(self) -> Tensor:
        """The matrix before the softmax (V D); logits are states @ output^T + output_bias."""
        embedding = self.embed["output"]
        assert isinstance(embedding, nn.Embedding)
        return embedding.weight

    def logits(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
        """Whose softmax is p(next) after each token of a known target (B T V)."""
        return F.linear(self(source, lengths, target), self.output, self.output_bias)

    def losses(
        self, source: Tensor, lengths: Tensor | None, target: Tensor, wanted: Tensor, real: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        """Sums of the smoothed loss and of -log p over the wanted tokens (B T) that are real, no padding."""
        states = self(source, lengths, target)  # B T D
        return smoothed_loss(states[real], self.output, self.output_bias, wanted[real], smoothing)


class Stepwise(Paired):
    """A network that trains by the same steps as it decodes by: `write` takes one token or a whole target."""

    output_bias = None

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Any:
        raise NotImplementedError

    def start(self, memory: Any) -> Any:
        raise NotImplementedError

    def write(self, tokens: Tensor, state: Any) -> Tensor:
        """The states before the softmax (R T D) after each of these tokens; the state goes on to the last of them."""
        raise NotImplementedError

    def forward(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
        return self.write(target, self.start(self.encode(source, lengths)))

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Logits (R V) after one or more further tokens (R T) of each row."""
        return F.linear(self.write(tokens, state)[:, -1], self.output), state
