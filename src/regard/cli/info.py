"""`regard info`: what a model or a run is."""

import json
from pathlib import Path
from typing import Annotated

import typer


def info(
    model: Annotated[Path, typer.Argument(help="A model's or a run's folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show a model's facts: shape, languages, training, scores, licences; its files are checked."""
    from regard.bundle import load_bundle, read_facts
    from regard.card import card

    facts = read_facts(model)
    bundle = load_bundle(model)
    if as_json:
        print(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    if console.is_terminal:
        console.print(Markdown(card(facts)))
    else:
        print(card(facts))
    print(f"{bundle.path}: all files are sound")
