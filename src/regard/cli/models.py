"""`regard models`: the networks there are, with their sizes and parameter counts."""

import json
import sys
from typing import Annotated, Any

import typer


def models(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List models and sizes: parameters counted, in closed form, and as published."""
    rows = table()
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    from regard.card import shape

    shown = Table("model", "size", "vocabulary", "parameters", "closed form", "published", "shape", box=None)
    for row in rows:
        published = f"{row['published'] / 1e6:g} M" if row["published"] else ""
        shown.add_row(
            row["model"], row["size"], f"{row['vocabulary']:,}", f"{row['parameters']:,}", f"{row['closed_form']:,}",
            published, shape(row["config"]),
        )  # fmt: skip
    Console(highlight=False, width=None if sys.stdout.isatty() else 120).print(shown)


def table() -> list[dict[str, Any]]:
    """One row a model and size; the parameters are counted on a network without memory."""
    import torch

    from regard.models import MODELS
    from regard.nn.initial import Unfilled

    rows = []
    for name, kind in MODELS.items():
        for size, keys in kind.sizes.items():
            names = [key for key in kind.Config.model_fields if key.endswith("vocabulary")]
            vocabulary, published = kind.published.get(size, (kind.Config.model_fields[names[0]].default, None))
            config = kind.Config(**keys, **dict.fromkeys(names, vocabulary))
            with torch.device("meta"), Unfilled():
                counted = sum(p.numel() for p in kind(config).parameters())
            rows.append(
                {
                    "model": name,
                    "size": size,
                    "vocabulary": vocabulary,
                    "parameters": counted,
                    "closed_form": config.parameters(),
                    "published": published,
                    "config": config.model_dump(mode="json"),
                }
            )
    return rows
