"""`regard export`: a model in another program's format."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.cli.options import Precision


def export(
    model: Annotated[Path, typer.Argument(help="A model's or a run's folder.")],
    out: Annotated[Path, typer.Argument(help="The folder to write.")],
    to: Annotated[Literal["ctranslate2"], typer.Option(help="Which format.")] = "ctranslate2",
    precision: Annotated[Precision, typer.Option(help="Of the weights: int8 is a quarter of float32.")] = "float32",
) -> None:
    """Write a model for CTranslate2, with its tokenizers beside it."""
    from regard.bundle import load_bundle
    from regard.hub import ctranslate2

    ctranslate2.export(load_bundle(model), out, precision)
    size = sum(f.stat().st_size for f in out.iterdir()) / 1e6
    print(f"{out}: {to}, {precision}, {size:.1f} MB")
