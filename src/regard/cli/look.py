"""`regard look`: what a model attends to in one sentence, as a page, a picture or numbers."""

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.errors import UserError

PAGE = Path("attention.html")


def look(
    model: Annotated[Path, typer.Argument(help="A model's or a run's folder.")],
    text: Annotated[str, typer.Argument(help="The sentence to translate and look into.")],
    target: Annotated[str | None, typer.Option(help="Look at this translation in place of the model's own.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help=f"The page's file; default {PAGE}.", show_default=False)
    ] = None,
    svg: Annotated[Path | None, typer.Option(help="Write the alignment as an SVG picture.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write tokens and weights as JSON.")] = None,
    terminal: Annotated[bool, typer.Option("--terminal", help="Print the alignment here.")] = False,
) -> None:
    """See what a model attends to: by default a page that opens in any browser, offline.

    With --svg, --json or --terminal the page is written only where --out says so.
    """
    wanted = {"--svg": svg, "--json": json_file, "--out": out}
    if not (svg or json_file or terminal or out):
        wanted["--out"] = PAGE
    for option, path in wanted.items():
        if path is not None and (path.is_dir() or not path.parent.is_dir()):
            raise UserError(f"{option}: {path} is a folder" if path.is_dir() else f"{option}: no folder {path.parent}")

    from regard.api import load
    from regard.files import write_text
    from regard.view.look import look as look_into

    found = look_into(load(model), text, target)
    makers = {
        "--svg": lambda: found.merged().alignment_svg(),
        "--json": lambda: json.dumps(found.to_dict(), ensure_ascii=False),
        "--out": found.to_html,
    }
    if terminal:
        print(found.merged().terminal())
    for option, path in wanted.items():
        if path is not None:
            write_text(path, makers[option]() + "\n")
            print(f"{found.translation}\nopen {path} in a browser" if option == "--out" else f"wrote {path}")
