"""`regard train`: from a recipe, or straight from files of sentence pairs, to a scored model."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.errors import UserError

if TYPE_CHECKING:
    from regard.config import Recipe

# What to do first with a model of a task; its folder comes after it.
TRY = {
    "translation": "echo 'a sentence' | regard translate",
    "summarisation": "echo 'a text' | regard summarise",
    "classification": "echo 'a text' | regard predict",
    "tagging": "echo 'a sentence' | regard predict",
    "masked": "echo 'one <mask> to guess' | regard predict",
    "language": "regard generate",
}


def train(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RECIPE|FILES [KEY=VALUE]...",
            help="A recipe (.toml), a run's folder to resume, or training pairs: one .tsv or .jsonl file, or two.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The run's folder. Default: runs/NAME.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on exactly where the run stopped.")] = False,
    step: Annotated[int | None, typer.Option(help="With --resume: from this step's checkpoint.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Resume although the data or the recipe changed.")] = False,
    start_from: Annotated[
        Path | None, typer.Option("--from", metavar="BUNDLE", help="Go on training a finished model on new data.")
    ] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip and count lines that are not UTF-8.")] = False,
    keys: Annotated[bool, typer.Option("--keys", help="List every key of a recipe and leave.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Train a translator, or what else a recipe's task asks for.

    Examples: `regard train pairs.tsv --out runs/mine`, `regard train train.en train.de source=en target=de`,
    `regard train recipe.toml steps=2000 model.dropout=0.2`, `regard train runs/mine --resume`.

    Exit codes: 0 done; 2 a mistake in recipe or data; 75 stopped by SIGTERM or Ctrl-C with everything saved (after the
    current update, within seconds); 130 a second Ctrl-C, or one before there was anything to save.
    """
    if keys:
        _print_keys()
        return
    from regard.training import session
    from regard.training.progress import Show
    from regard.training.signals import AT_ONCE, SAVED, Stopped

    if not resume and (step is not None or force):
        raise UserError("--step and --force go with --resume")
    recipe, base, folder = read_arguments([*(what or []), *(["skip_bad=true"] if skip_bad else [])], out, resume)
    show = Show()
    try:
        session.train(
            recipe,
            folder,
            base=base,
            resume=resume,
            step=step,
            force=force,
            start_from=start_from,
            callbacks=[] if quiet else [show],
        )
    except Stopped:
        if not (folder / "recipe.toml").exists():
            typer.echo("regard: stopped while the data was prepared: there is nothing to resume, begin again", err=True)
            raise typer.Exit(AT_ONCE) from None
        raise typer.Exit(SAVED) from None
    finally:
        show.close()
    if not quiet:
        print(f"model: {folder / 'model'}")
        if recipe.task in TRY:
            print(f"try:   {TRY[recipe.task]} {folder}")


def read_arguments(what: list[str], out: Path | None, resume: bool) -> tuple["Recipe", Path | None, Path]:
    """The recipe, the folder its paths are relative to, and the run's folder."""
    from regard.config import default_recipe, load_recipe

    overrides = [word for word in what if "=" in word and not _is_there(word)]
    paths = [Path(word) for word in what if word not in overrides]
    if not paths:
        raise UserError("give a recipe (.toml), training pairs, or a run's folder; `regard train --help` has examples")
    if len(paths) == 1 and paths[0].is_dir():
        saved = paths[0] / "recipe.toml"
        if not saved.exists():
            raise UserError(f"{paths[0]} is a folder without a recipe.toml: no run began there")
        if not resume:
            raise UserError(f"{paths[0]} is a run's folder; add --resume to go on with it")
        return load_recipe(saved, overrides), None, out or paths[0]
    if len(paths) == 1 and paths[0].suffix == ".toml":
        return load_recipe(paths[0], overrides), paths[0].parent, out or Path("runs") / paths[0].stem
    if resume and len(paths) == 1 and not paths[0].exists():
        raise UserError(f"there is no run at {paths[0]}")
    if len(paths) > 2 and not any(word.startswith("task=") for word in overrides):
        raise UserError(
            f"{len(paths)} files were given; training pairs are one .tsv or .jsonl file, or two aligned files"
        )
    recipe = default_recipe([str(p) for p in paths], overrides)
    return recipe, None, out or Path("runs") / paths[0].name.split(".")[0]


def _is_there(name: str) -> bool:
    try:
        return Path(name).exists()
    except OSError:  # too long for a name
        return False


def _print_keys() -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from regard.config import describe

    table = Table("key", "type", "default", "what it says", box=None, pad_edge=False)
    for key, kind, default, text in describe():
        table.add_row(escape(key), escape(kind), escape(default), escape(text))
    Console(highlight=False, width=None if sys.stdout.isatty() else 160).print(table)
