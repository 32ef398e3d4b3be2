"""`regard predict`: what a classifier says of texts, or the words for their masks, as a table or as JSON lines."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer


def predict(
    model: Annotated[Path, typer.Argument(help="A model's or a run's folder.")],
    files: Annotated[
        list[Path] | None,
        typer.Argument(help=".tsv, .csv or .jsonl files, or plain text with a line each; default standard input."),
    ] = None,
    column: Annotated[
        list[str] | None, typer.Option("--text", help="Columns with a text, or with the two of a pair.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many labels of each text, or words of each mask.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines with all probabilities.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, or cuda:N.")] = "auto",
) -> None:
    """Label texts, with probabilities; or, with a model of masked words, fill in each <mask> of a text."""
    from regard.api import load
    from regard.data.formats import read_lines
    from regard.data.tables import KINDS, read_examples

    loaded = load(model, device=device)
    masked = loaded.bundle.task == "masked"
    if not masked:
        _ = loaded.predictor  # a model that does not predict says so before anything is read
    texts: list[tuple[str, ...]] = []
    for file in files or []:
        if any(file.name.removesuffix(".gz").endswith(kind) for kind in KINDS):
            texts += [example.texts for example in read_examples([file], column or (), labelled=False)]
        else:
            texts += [(line,) for line in read_lines(file)]
    if not files:
        texts = [(line.rstrip("\n"),) for line in sys.stdin]
    if masked:
        filled = loaded.fill([given[0] for given in texts], max(top, 10))
        answers = [(given, found) for given, words in zip(texts, filled, strict=True) for found in words]
    else:
        answers = list(zip(texts, loaded.predict(texts), strict=True))
    for given, found in answers:
        if as_json:
            print(
                json.dumps({"text": given[0] if len(given) == 1 else list(given)} | found.to_dict(), ensure_ascii=False)
            )
        else:
            print("\t".join([*found.told(top), *given]))
