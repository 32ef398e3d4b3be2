"""Which heads find who, did what, to whom, and what "it" is: measured on sentences of the embedded grammar."""

# Shapes: B batch, H heads, T queries, S keys, W words.

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.api import Model
from regard.data.grammar import Sentence, generate
from regard.decode.engine import pad
from regard.errors import UserError
from regard.models import Headed
from regard.text import BOS, EOS
from regard.view import png, svg
from regard.view.heads import spans
from regard.view.matrix import Matrix
from regard.view.record import Trace, record
from regard.view.relations import RELATIONS, Relation, related, rules

SENTENCES = 300
SURE = 3.0  # standard errors: with so many heads and relations, two would often be passed by chance
Place = tuple[str, int, int]  # kind, layer, head
_COUNT = itemgetter(1)


@dataclass
class Tally:
    """One relation: how often it was seen, found by each simple rule, and by each head's strongest weight."""

    seen: int = 0
    rules: Counter[str] = field(default_factory=Counter)
    hits: Counter[Place] = field(default_factory=Counter)


@dataclass(frozen=True)
class Roles:
    """A table of heads against relations: the share of times that a head's strongest weight goes along a relation.

    Beside it stands the share that the best fixed rule reaches ("always the word before", "always the first noun"),
    which takes no understanding. A head that is not clearly above it found no role. Sentences take turns in two halves:
    a best head is chosen on one, and its share told from the other.
    """

    languages: tuple[str, str]
    sentences: int
    places: tuple[Place, ...]  # every head that was measured
    tallies: tuple[dict[Relation, Tally], dict[Relation, Tally]]  # the two halves
    examples: dict[Relation, tuple[str, str, int, int]]  # source, target, from, to

    @property
    def relations(self) -> list[Relation]:
        return [r for r in RELATIONS if self.seen(r)]

    def seen(self, relation: Relation) -> int:
        return sum(half[relation].seen for half in self.tallies)

    def hits(self, relation: Relation, place: Place) -> int:
        return sum(half[relation].hits[place] for half in self.tallies)

    def share(self, relation: Relation, place: Place) -> float:
        return self.hits(relation, place) / self.seen(relation)

    def base(self, relation: Relation) -> tuple[str, float]:
        """The fixed rule that finds the other word most often, and how often it does."""
        rule, count = max((self.tallies[0][relation].rules + self.tallies[1][relation].rules).items(), key=_COUNT)
        return rule, count / self.seen(relation)

    def above(self, relation: Relation, place: Place) -> bool:
        """Whether a head is clearly above the fixed rule."""
        return _clearly(self.hits(relation, place), self.seen(relation), self.base(relation)[1])

    def best(self, relation: Relation) -> tuple[Place, float] | None:
        """The head that finds the relation most often in one half, and how often it does in the other.

        None where it is not clearly above the fixed rule there.
        """
        chosen, told = (half[relation] for half in self.tallies)
        if not chosen.hits or not told.seen:
            return None
        place = max(chosen.hits, key=lambda p: chosen.hits[p])
        clear = _clearly(told.hits[place], told.seen, self.base(relation)[1])
        return (place, told.hits[place] / told.seen) if clear else None

    def numbers(self) -> dict[str, Any]:
        relations = []
        for relation in self.relations:
            rule, base = self.base(relation)
            best = self.best(relation)
            source, target, start, end = self.examples[relation]
            relations.append({
                "kind": relation.kind,
                "name": relation.name,
                "seen": self.seen(relation),
                "base": {"rule": rule, "share": round(base, 4)},
                "best": None if best is None else {"place": list(best[0]), "share": round(best[1], 4)},
                "example": {"source": source.split(), "target": target.split(), "from": start, "to": end},
                "heads": [
                    {"layer": p[1], "head": p[2], "hits": self.hits(relation, p), "above": self.above(relation, p)}
                    for p in self.of(relation.kind)
                ],
            })  # fmt: skip
        return {"languages": list(self.languages), "sentences": self.sentences, "relations": relations}

    def text(self) -> str:
        """The table as text: a row for each head, a column for each relation of its kind."""
        lines = [f"How often a head's strongest weight goes from one word to another ({self.sentences} sentences)"]
        for kind, title in (("encoder", "Input-Input"), ("cross", "Output-Input"), ("decoder", "Output-Output")):
            relations = [r for r in self.relations if r.kind == kind]
            if not relations:
                continue
            widths = [max(len(r.name), 8) for r in relations]
            lines += ["", f"{title:<16}" + "  ".join(f"{r.name:>{w}}" for r, w in zip(relations, widths, strict=True))]
            rows = {f"layer {p[1] + 1} head {p[2] + 1}": [self._cell(r, p) for r in relations] for p in self.of(kind)}
            rows["fixed rule"] = [f"{self.base(r)[1]:.0%}" for r in relations]
            rows["times seen"] = [str(self.seen(r)) for r in relations]
            for name, cells in rows.items():
                lines.append(f"{name:<16}" + "  ".join(f"{c:>{w}}" for c, w in zip(cells, widths, strict=True)))
        lines += [
            "",
            "* clearly above the best fixed rule (always so far away, always the first noun): 3 standard errors",
        ]
        lines += [
            "A weight is not an explanation: it says where a head looked, not why, and not how much that mattered."
        ]
        return "\n".join(lines)

    def _cell(self, relation: Relation, place: Place) -> str:
        return f"{'* ' if self.above(relation, place) else ''}{self.share(relation, place):.0%}"

    def svg(self) -> str:
        """The table of the encoder's heads as a heat map."""
        relations = [r for r in self.relations if r.kind == "encoder"]
        rows = [[self.share(r, p) for r in relations] for p in self.of("encoder")]
        names = [f"layer {p[1] + 1} head {p[2] + 1}" for p in self.of("encoder")]
        base = [self.base(r)[1] for r in relations]
        columns = [r.name for r in relations]
        title = f"How often a head's strongest weight goes from one word to another ({self.sentences} sentences)"
        return svg.heat(np.array([*rows, base]), [*names, "fixed rule"], columns, title)

    def png(self) -> bytes:
        image = png.rendered(self.svg())
        if image is None:
            raise UserError(png.needed("roles"))
        return image

    def of(self, kind: str) -> list[Place]:
        return [place for place in self.places if place[0] == kind]


def _clearly(hits: int, seen: int, base: float) -> bool:
    return hits > seen * base + SURE * math.sqrt(seen * base * (1 - base))


def missing(languages: tuple[str, str]) -> str | None:
    """What keeps a model from being measured; None when nothing does."""
    if languages[0] == "en":
        return None
    return (
        "roles are measured on the embedded corpus, English to Spanish, whose grammar is known: it takes a model that "
        f"reads English (source = en), and for its decoder's heads writes Spanish; this one reads {languages[0] or '?'}"
    )


def roles_or_why(model: Model) -> Roles | str:
    """The table of heads, or what keeps it from being made."""
    try:
        return roles(model)
    except UserError as error:
        return str(error)


@torch.inference_mode()
def roles(model: Model, sentences: Iterable[Sentence] | None = None, size: int = 64) -> Roles:
    """Measures every head of a model that reads English; those of the decoder when it also writes Spanish."""
    need = missing(model.languages)
    if need is not None:
        raise UserError(need)
    bundle = model.bundle
    if isinstance(bundle.model, Headed):
        raise UserError("roles are those of an encoder's heads; this model has none")
    kinds = ("encoder", "decoder", "cross") if model.languages[1] == "es" else ("encoder",)
    tallies = tuple({relation: Tally() for relation in RELATIONS} for _ in range(2))
    examples: dict[Relation, tuple[str, str, int, int]] = {}
    places: dict[Place, None] = {}
    count = used = 0
    bundle.model.eval()
    rest = iter(generate("test", SENTENCES) if sentences is None else sentences)
    while batch := list(islice(rest, size)):
        sources = [bundle.source.encode(s.source) for s in batch]
        targets = [bundle.target.encode(s.target) for s in batch]
        device = bundle.model.output.device
        tokens, lengths = pad([[*ids, EOS] for ids in sources], device)
        before, _ = pad([[BOS, *ids] for ids in targets], device)
        with record(bundle.model) as trace:
            bundle.model(tokens, lengths, before)
        if not trace.layers("encoder"):
            raise UserError("roles are those of heads that look from word to word of the input; this model has none")
        weights = {place: trace.weights(*place).cpu().numpy() for place in _layers(trace, kinds)}  # B H T S
        places |= dict.fromkeys((*place, head) for place, w in weights.items() for head in range(w.shape[1]))
        for row, sentence in enumerate(batch):
            words = {"source": bundle.source.surface(sources[row]), "target": bundle.target.surface(targets[row])}
            spots = {side: spans(surface) for side, surface in words.items()}
            if [len(s) for s in spots.values()] == [len(sentence.source.split()), len(sentence.target.split())]:
                strongest = {place: _strongest(w[row], place[0], spots) for place, w in weights.items()}
                _count(sentence, strongest, tallies[used % 2], examples, kinds)
                used += 1  # the others have a word that the model does not know
        count += len(batch)
    if not used:
        raise UserError(f"none of the {count} sentences of the embedded corpus is in words that this model knows")
    return Roles(model.languages, used, tuple(places), (tallies[0], tallies[1]), examples)


def _layers(trace: Trace, kinds: Sequence[str]) -> list[tuple[str, int]]:
    return [(kind, layer) for kind in kinds for layer in range(trace.layers(kind))]


def _strongest(weights: Matrix, kind: str, words: dict[str, list[slice]]) -> NDArray[np.int64]:
    """The word that each head's (H) query word (W) looks at most; -1 is the begin or the end symbol."""
    asking = words["source" if kind == "encoder" else "target"]
    looked_at = words["target" if kind == "decoder" else "source"]
    # The state that writes a token stands at its index; what it reads stands one further, after the begin symbol.
    shift = 1 if kind == "decoder" else 0
    starts = [s.start + shift for s in looked_at]
    over = np.add.reduceat(weights[..., : looked_at[-1].stop + shift], starts, axis=-1)  # H T W
    symbols = weights.sum(-1, keepdims=True) - over.sum(-1, keepdims=True)
    over = np.concatenate([over, symbols], -1)
    rows = [s.start for s in asking]
    whole = np.add.reduceat(over[:, : asking[-1].stop], rows, axis=1)  # sums: as good as means for finding the most
    place = whole.argmax(-1)
    return np.where(place == len(looked_at), -1, place)


def _count(
    sentence: Sentence,
    strongest: dict[tuple[str, int], NDArray[np.int64]],
    tally: dict[Relation, Tally],
    examples: dict[Relation, tuple[str, str, int, int]],
    kinds: Sequence[str],
) -> None:
    for relation, start, end in related(sentence):
        if relation.kind not in kinds:
            continue
        mine = tally[relation]
        mine.seen += 1
        mine.rules.update(rules(relation, sentence, start, end))
        examples.setdefault(relation, (sentence.source, sentence.target, start, end))
        for (kind, layer), words in strongest.items():
            if kind == relation.kind:
                for head in np.flatnonzero(words[:, start] == end).tolist():
                    mine.hits[kind, layer, head] += 1
