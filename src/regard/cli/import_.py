"""`regard import`: a model of another program as one of ours."""

from pathlib import Path
from typing import Annotated

import typer


def import_(
    folder: Annotated[Path, typer.Argument(help="A checkpoint in the Hugging Face layout.")],
    out: Annotated[Path, typer.Argument(help="The model's folder to write.")],
    allow_pickle: Annotated[
        bool, typer.Option("--allow-pickle", help="Also read pytorch_model.bin, weights only.")
    ] = False,
) -> None:
    """Read a BERT, RoBERTa, GPT, GPT-2 or Marian (OPUS-MT) from config.json, safetensors and tokenizer files."""
    from regard.errors import UserError
    from regard.hub import huggingface

    if out.exists():
        raise UserError(f"{out} is there already; choose another folder")
    bundle = huggingface.read(folder, allow_pickle=allow_pickle)
    bundle.save(out)
    print(f"{out}: {bundle.name}, {bundle.task}, {bundle.parameters:,} parameters")
