"""`regard export`: a model in another program's format."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.cli.options import Precision


def export(
    model: Annotated[Path, typer.Argument(help="A model's or a run's folder.")],
    out: Annotated[Path, typer.Argument(help="The folder to write.")],
    to: Annotated[Literal["ctranslate2", "huggingface"], typer.Option(help="Which program's.")] = "ctranslate2",
    precision: Annotated[
        Precision, typer.Option(help="Of the weights, for ctranslate2: int8 is a quarter of float32.")
    ] = "float32",
) -> None:
    """Write a model for CTranslate2 or for Hugging Face Transformers, with its tokenizers."""
    from regard.bundle import load_bundle
    from regard.errors import UserError
    from regard.hub import ctranslate2, huggingface

    if to == "ctranslate2":
        ctranslate2.export(load_bundle(model), out, precision)
    elif precision == "float32":
        huggingface.export(load_bundle(model), out)
    else:
        raise UserError("only ctranslate2 knows weights of int8; leave out --precision")
    size = sum(f.stat().st_size for f in out.iterdir()) / 1e6
    print(f"{out}: {to}, {precision}, {size:.1f} MB")
