"""What stands on a body: guessed words, a class, a label for each token, a span, a text written after a prompt."""

# Shapes: B batch, R rows (hypotheses), T length, S source length, D width, V vocabulary, C classes.

from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from regard.models.config import ModelConfig
from regard.models.pair import Paired
from regard.nn.blocks import ACTIVATIONS
from regard.nn.dropout import Dropout


class HeadConfig(ModelConfig):
    """The shape of a head."""

    pooling: Literal["first", "mean", "last"] = Field(
        "first", description="what stands for a text: its first state through a layer (BERT), the mean, or the last"
    )
    drop: float = Field(0.1, ge=0, lt=1, description="dropout before the last layer")
    next_sentence: bool = Field(False, description="also guess whether the second text follows the first")
    prompt: str = Field(
        " TL;DR:", description="what stands between a document and its summary, for a model that writes on (gpt, tcn)"
    )
    prompt_tokens: tuple[int, ...] = Field((), description="the prompt's tokens; set from the tokenizer")
    document: int = Field(
        0,
        ge=0,
        description="most tokens of a document before the prompt; by default three quarters of data.max_length hold "
        "both, and the rest is the summary's",
    )
    summary: int = Field(0, ge=0, description="most tokens of a summary, 0 is any; set from data.max_length")
    also_document: float = Field(
        0.0, ge=0, description="weight of the loss of guessing the document too, beside the summary's (GPT 0.5)"
    )


class Pooler(nn.Module):
    """One vector for a text."""

    def __init__(self, d_model: int, pooling: str) -> None:
        super().__init__()
        self.pooling = pooling
        self.dense = nn.Linear(d_model, d_model) if pooling == "first" else None

    def forward(self, states: Tensor, lengths: Tensor | None) -> Tensor:
        if self.dense is not None:
            first: Tensor = self.dense(states[:, 0])
            return first.tanh()  # B D
        length = states.size(1)
        count = torch.full((len(states),), length, device=states.device) if lengths is None else lengths
        if self.pooling == "last":
            return states[torch.arange(len(states), device=states.device), count - 1]
        real = (torch.arange(length, device=states.device) < count[:, None])[..., None]  # B T 1
        return (states * real).sum(1) / count[:, None]


class Words(nn.Module):
    """The masked words: a layer, its norm, and the embeddings turned round (BERT's published head)."""

    def __init__(self, d_model: int, vocabulary: int, activation: str, eps: float) -> None:
        super().__init__()
        self.dense = nn.Linear(d_model, d_model)
        self.activation = ACTIVATIONS[activation]()
        self.norm = nn.LayerNorm(d_model, eps)
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, states: Tensor) -> Tensor:
        out: Tensor = self.norm(self.activation(self.dense(states)))
        return out


class Headed(nn.Module):
    """A body with a head. by_label: its layer that has a row for each label, if it has labels."""

    by_label: str | None = None

    def __init__(self, body: Any, head: HeadConfig, outputs: int) -> None:
        super().__init__()
        self.body, self.head, self.outputs = body, head, outputs

    @property
    def config(self) -> Any:
        return self.body.config

    def states(self, tokens: Tensor, lengths: Tensor | None, segments: Tensor | None = None) -> Tensor:
        out: Tensor = self.body(tokens, lengths, segments)
        return out


class Encoder(Headed):
    """States, and one vector for a text."""

    def __init__(self, body: Any, head: HeadConfig, outputs: int = 0) -> None:
        super().__init__(body, head, outputs)
        self.pooler = Pooler(body.config.d_model, head.pooling)

    def forward(self, tokens: Tensor, lengths: Tensor | None, segments: Tensor | None = None) -> Tensor:
        return self.states(tokens, lengths, segments)


class PreTrainer(Headed):
    """Masked words, and whether one text follows the other."""

    def __init__(self, body: Any, head: HeadConfig, outputs: int = 2) -> None:
        super().__init__(body, head, outputs)
        c = body.config
        self.words = Words(c.d_model, c.vocabulary, c.activation, c.norm_eps)
        self.pooler = Pooler(c.d_model, "first") if head.next_sentence else None
        self.follows = nn.Linear(c.d_model, outputs) if head.next_sentence else None

    @property
    def output(self) -> Tensor:
        """The matrix before the softmax (V D): logits are words(states) @ output^T + words.bias."""
        matrix: Tensor = self.body.tokens.weight
        return matrix

    def forward(self, tokens: Tensor, lengths: Tensor | None, segments: Tensor | None = None) -> Tensor:
        """Logits of each token (B T V)."""
        return F.linear(self.words(self.states(tokens, lengths, segments)), self.output, self.words.bias)


class TwoWayWords(Headed):
    """The word after each word, and the one before, guessed by one layer from what each direction says (ELMo)."""

    by_label = "words"

    def __init__(self, body: Any, head: HeadConfig, outputs: int) -> None:
        super().__init__(body, head, outputs)
        self.words = _last(body.config.d_model // 2, outputs)

    def forward(self, tokens: Tensor, lengths: Tensor | None, segments: Tensor | None = None) -> Tensor:
        """What the last layer says of each word, to the right and to the left (B N D)."""
        out: Tensor = self.body.states(self.body.cut(tokens, lengths))[-1]
        return out


class Classifier(Headed):
    """Scores of a whole text (B C)."""

    by_label = "out"

    def __init__(self, body: Any, head: HeadConfig, outputs: int) -> None:
        super().__init__(body, head, outputs)
        own = hasattr(body, "pooled")  # a body may make one vector of a text itself
        self.pooler = None if own else Pooler(body.config.d_model, head.pooling)
        self.dropout = Dropout(head.drop)
        self.out = _last(body.width if own else body.config.d_model, outputs)

    def forward(self, tokens: Tensor, lengths: Tensor | None, segments: Tensor | None = None) -> Tensor:
        if self.pooler is None:
            vectors = self.body.pooled(tokens, lengths, segments)  # B W
        else:
            vectors = self.pooler(self.states(tokens, lengths, segments), lengths)  # B D
        out: Tensor = self.out(self.dropout(vectors))
        return out


class Tagger(Headed):
    """Scores of each token (B T C)."""

    by_label = "out"

    def __init__(self, body: Any, head: HeadConfig, outputs: int) -> None:
        super().__init__(body, head, outputs)
        self.dropout = Dropout(head.drop)
        self.out = _last(body.config.d_model, outputs)

    def forward(self, tokens: Tensor, lengths: Tensor | None, segments: Tensor | None = None) -> Tensor:
        out: Tensor = self.out(self.dropout(self.states(tokens, lengths, segments)))
        return out


class Answerer(Tagger):
    """Scores of each token as the start and as the end of an answer (B T 2)."""


class Prompted(Headed, Paired):
    """A model that writes on (a body with `start` and `step`), as one that writes a summary of a document.

    A row is the document, the prompt, the summary. The document's end symbol is left out, and in place of the
    summary's begin symbol stands the prompt's last token.
    """

    output_bias = None

    def __init__(self, body: Any, head: HeadConfig, outputs: int = 0) -> None:
        super().__init__(body, head, outputs)
        self.prompt = head.prompt_tokens

    @property
    def limit(self) -> int:
        """The most tokens of a document."""
        return self.head.document

    @property
    def most_written(self) -> int | None:
        """The most tokens of a summary: all three are one row."""
        return self.head.summary or None

    @property
    def output(self) -> Tensor:
        """The matrix before the softmax (V D); logits are states @ output^T."""
        matrix: Tensor = self.body.output
        return matrix

    def rows(self, source: Tensor, lengths: Tensor | None, after: Tensor) -> tuple[Tensor, Tensor]:
        """Documents (B S), the prompt, what comes after it (B T), then padding; and where the prompts' last tokens are.

        source: ends with an end symbol, in whose place the prompt begins.
        """
        ends = torch.full_like(source[:, 0], source.size(1)) if lengths is None else lengths
        prompt = torch.tensor(self.prompt, device=source.device).expand(len(source), -1)
        more = torch.cat((prompt, after), 1)
        places = (ends - 1)[:, None] + torch.arange(more.size(1), device=source.device)
        return F.pad(source, (0, more.size(1) - 1)).scatter(1, places, more), ends + len(self.prompt) - 2

    def forward(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
        """The states before the softmax (B T D) after the prompt, and after the target's second token, third, ..."""
        rows, places = self.rows(source, lengths, target[:, 1:])
        return self.written(self.body(rows), places, target.size(1))

    @staticmethod
    def written(states: Tensor, places: Tensor, count: int) -> Tensor:
        """So many states of each row, from the prompt's last on (B T D)."""
        chosen = places[:, None] + torch.arange(count, device=places.device)
        return states.gather(1, chosen[..., None].expand(-1, -1, states.size(-1)))

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Documents with their prompts; they are read when writing starts."""
        return self.rows(source, lengths, source[:, :0])

    def start(self, memory: tuple[Tensor, Tensor]) -> "PromptedState":
        """All is read but the prompts' last token. Rows of one length are read together: none needs padding."""
        rows, places = memory
        parts = []
        for place in sorted(set(places.tolist())):
            chosen, state = (places == place).nonzero().flatten(), self.body.start(None)
            parts.append((chosen, self.body.step(rows[chosen, :place], state)[1] if place else state))
        return PromptedState(parts)

    def step(self, tokens: Tensor, state: "PromptedState") -> tuple[Tensor, "PromptedState"]:
        """Logits (R V) after one or more further tokens (R T) of each row."""
        if not state.begun:
            tokens = torch.cat((torch.full_like(tokens[:, :1], self.prompt[-1]), tokens[:, 1:]), 1)
            state.begun = True
        logits = torch.cat([self.body.step(tokens[rows], part)[0] for rows, part in state.parts])
        return logits[torch.cat([rows for rows, _ in state.parts]).argsort()], state


class PromptedState:
    """Where writing stands: the body's states, each with the numbers of its rows in rising order."""

    def __init__(self, parts: list[tuple[Tensor, Any]]) -> None:
        self.parts, self.begun = parts, False

    def reorder(self, rows: Tensor) -> None:
        """Row i goes on from where row rows[i] stands; there may be more or fewer rows than before."""
        before, self.parts = self.parts, []
        for held, state in before:
            chosen = torch.isin(rows, held).nonzero().flatten()
            if len(chosen):
                state.reorder(torch.searchsorted(held, rows[chosen]))
                self.parts.append((chosen, state))

    def keep(self, sentences: Tensor) -> None:
        """A document is a part of its rows: `reorder` has forgotten it."""


def _last(d_model: int, outputs: int) -> nn.Linear:
    layer = nn.Linear(d_model, outputs)
    nn.init.normal_(layer.weight, std=0.02)
    nn.init.zeros_(layer.bias)
    return layer


HEADS: dict[str, type[Headed]] = {
    "encoding": Encoder, "masked": PreTrainer, "two-way": TwoWayWords, "classification": Classifier, "tagging": Tagger,
    "answering": Answerer, "summarisation": Prompted,
}  # fmt: skip
