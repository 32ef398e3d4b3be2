"""What the tasks that read texts prepare alike: a tokenizer learned once, and examples set apart."""

import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from regard.data.tables import Example
from regard.errors import UserError
from regard.files import write_text
from regard.tasks.task import HELD_OUT, Asked
from regard.text import Tokenizer

SHARE, MOST = 0.1, 1000


def tokenizer_for(asked: Asked, texts: Iterable[str], *, mask: bool = False) -> Tokenizer:
    """The parent's, the one that the run has learned already, or one learned from the training texts and kept."""
    path = asked.folder / "tokenizer.json"
    if asked.parent is not None:
        tokenizer = asked.parent.source
    elif path.exists():
        return Tokenizer.load(path)
    else:
        config = asked.recipe.tokenizer
        if config.kind == "imported":
            raise UserError("tokenizer.kind 'imported' is that of a model to begin from: give one with --from")
        asked.tell({"event": "prepare", "text": f"learning the tokenizer: {config.kind}, up to {config.size:,} tokens"})
        tokenizer = Tokenizer.learn(texts, config.kind, config.size, mask=mask, uncased=config.uncased)
    tokenizer.save(path)
    return tokenizer


def hold_out(examples: Sequence[Example], asked: Asked) -> tuple[list[Example], list[Example]]:
    """Training examples and dev examples, chosen by their texts."""
    names = asked.recipe.data.text or ("text", "second")
    label = asked.recipe.data.label or "label"
    return set_apart(
        examples,
        asked,
        lambda e: "\t".join(e.texts),
        lambda e: dict(zip(names, e.texts, strict=False)) | {label: e.label},
    )


def set_apart(
    examples: Sequence[Any], asked: Asked, text: Callable[[Any], str], row: Callable[[Any], dict[str, Any]]
) -> tuple[list[Any], list[Any]]:
    """Training examples and dev examples, chosen by their texts' hash, so that no text is in both.

    row: an example as a line of the file that the dev examples are kept in.
    """
    wanted = min(MOST, int(len(examples) * SHARE))
    if wanted < 1:
        parted = " (empty lines part sentences)" if asked.recipe.task == "tagging" else ""
        raise UserError(f"{len(examples)} training examples{parted} are too few to hold any out; give data.dev")
    hashes = [zlib.crc32(text(example).encode("utf-8", "surrogatepass")) for example in examples]
    threshold = sorted(hashes)[wanted - 1]
    dev = [example for example, value in zip(examples, hashes, strict=True) if value <= threshold]
    train = [example for example, value in zip(examples, hashes, strict=True) if value > threshold]
    if not train:
        raise UserError("(nearly) all training examples share one text, so that none can be held out; give data.dev")
    write_text(asked.folder / HELD_OUT, "".join(json.dumps(row(e), ensure_ascii=False) + "\n" for e in dev))
    asked.tell({"event": "prepare", "text": f"no dev set given: {len(dev)} training examples are held out"})
    return train, dev
