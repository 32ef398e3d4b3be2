"""`regard predict`: what a model that reads says of texts, as a table or as JSON lines."""

import json
import sys
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer


def predict(
    model: Annotated[Path, typer.Argument(help="A model's or a run's folder.")],
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Files of the task's kind, or plain text with a line each; default standard input."),
    ] = None,
    column: Annotated[
        list[str] | None, typer.Option("--text", help="Columns with a text, or with the two of a pair.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many labels of each text, or words of each mask.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines with all that is known.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, or cuda:N.")] = "auto",
) -> None:
    """Label texts or their words, or answer questions, with probabilities.

    Classifiers take texts. Taggers take sentences with spaces between the words (a line each, or .txt), CoNLL columns,
    or .jsonl with words. Models that answer take JSON lines {"context": ..., "question": ...} or a SQuAD .json file.
    Models of masked words take texts with <mask> in them.
    """
    from regard.api import load
    from regard.bundle import read_facts
    from regard.cli.options import refuse, refuse_columns
    from regard.data.formats import read_lines
    from regard.decode.translator import WINDOW
    from regard.tasks.classification import cut_told

    refuse_columns(read_facts(model)["task"], {"--text": column})
    refuse(not files, "names columns of files; standard input has none", {"--text": column or None})
    system = load(model, device=device)
    predictor = system.predictor
    read = (each for file in files or [] for each in predictor.read(file, column or ()))
    rest = read if files else predictor.lines(read_lines(sys.stdin.buffer))
    most = WINDOW if files or not sys.stdin.isatty() else 1  # a person waits for each line
    size = min(16, most)  # the first results come soon
    cut = total = 0
    while some := list(islice(rest, size)):
        for found in predictor(some):
            cut, total = cut + getattr(found, "cut", False), total + 1
            print(json.dumps(found.to_dict(), ensure_ascii=False) if as_json else found.table(top))
        sys.stdout.flush()
        size = min(2 * size, most)
    if told := cut_told(cut, total, system.bundle.max_length):
        typer.echo(f"warning: {told}", err=True)
