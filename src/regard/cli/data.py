"""`regard data`: check a corpus, get a public one, write the embedded one, make more sentences like those there are."""

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import keep_apart
from regard.errors import UserError

app = typer.Typer(help="Check, get and make corpora.", no_args_is_help=True)


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(help="One .tsv or .jsonl file, or two aligned files; .gz too.")],
    max_chars: Annotated[int, typer.Option(min=1, help="A side longer than this counts as too long.")] = 5000,
    keys: Annotated[tuple[str, str], typer.Option(help="The two keys of JSON lines.")] = ("source", "target"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Report lengths, duplicates, pairs that look misaligned, and characters out of place."""
    from regard.data.check import check_pairs

    report = check_pairs(files, max_chars=max_chars, keys=keys)
    if as_json:
        print(json.dumps(report.to_dict(), indent=2, ensure_ascii=False))
    else:
        for line in report.lines():
            print(line)
    if not report.read.pairs:
        raise UserError("no pair in it can be used")


@app.command()
def get(name: Annotated[str, typer.Argument(help="The set's name: multi30k, tatoeba.")]) -> None:
    """Get a known public set: from $REGARD_DATA/NAME where it is there, else by download, with checksum and licence."""
    from regard.data.sets import KNOWN
    from regard.data.sets import get as fetch

    found = fetch(name)
    print(f"{name}: {KNOWN[name].help}\nlicence: {KNOWN[name].licence}\ncite: {KNOWN[name].citation}")
    for path in found.paths:
        print(path)


@app.command()
def make(
    folder: Annotated[Path, typer.Argument(help="Where to write the files, one a split.")],
    pairs: Annotated[int, typer.Option(min=1, help="Training pairs.")] = 60_000,
    small: Annotated[int, typer.Option(min=1, help="Pairs of each other split.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Other seeds give other sentences.")] = 0,
) -> None:
    """Write the embedded English-Spanish corpus: train, dev, test, compositional, longer, pronoun."""
    from regard.data.grammar import SPLITS, generate
    from regard.files import disk_errors

    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} is not an empty folder; choose another")
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for split in SPLITS:
        count, path = pairs if split == "train" else small, folder / f"{split}.tsv"
        with disk_errors(path), path.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{s.source}\t{s.target}\n" for s in generate(split, count, seed))
        print(f"{folder / split}.tsv: {count:,} pairs")


@app.command()
def splice(
    file: Annotated[Path, typer.Argument(help="Sentences of one language, one a line; .gz too.")],
    count: Annotated[int, typer.Option(min=1, help="How many new sentences.")] = 100_000,
    seed: Annotated[int, typer.Option(min=0, help="Other seeds give other sentences.")] = 0,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file, not the screen.")] = None,
) -> None:
    """Make more sentences of those in a file, for one model to translate and another to learn from."""
    from regard.data.formats import read_lines
    from regard.data.splice import spliced
    from regard.files import write_text

    keep_apart(output, [file])
    made = spliced(list(read_lines(file)), count, seed)
    if output is None:
        for line in made:
            print(line)
    else:
        write_text(output, "".join(f"{line}\n" for line in made))
        print(f"{output}: {count:,} sentences")
