"""`regard look`: what a model attends to in one sentence, as a page, a picture, text or numbers."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from regard.cli.options import refuse
from regard.errors import UserError

PAGE = Path("attention.html")
KINDS = ("encoder", "decoder", "cross")
WORDLESS = " without its words: install cairosvg or rsvg-convert for them"
WORDS = ("alignment", "heads", "grid")  # drawn over whole words; the page shows subwords too
# How much of KIND.LAYER.HEAD a view heeds.
PLACED = {"alignment": 3, "heads": 3, "grid": 1, "steps": 3, "norms": 2}
View = Literal["alignment", "heads", "grid", "steps", "next", "positions", "norms", "roles"]


def look(
    model: Annotated[Path, typer.Argument(help="A model's or a run's folder.")],
    text: Annotated[
        str, typer.Argument(help="The sentence to look into; --view roles needs none.", show_default=False)
    ] = "",
    target: Annotated[str | None, typer.Option(help="Look at this translation in place of the model's own.")] = None,
    view: Annotated[View, typer.Option(help="What to draw, or where the page opens.")] = "alignment",
    at: Annotated[
        str | None, typer.Option(help="Which attention: KIND[.LAYER[.HEAD]], such as cross, encoder.2 or cross.1.4.")
    ] = None,
    token: Annotated[
        int | None,
        typer.Option(help="Whose steps or norms: the number of a token; default 1.", min=1, show_default=False),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help=f"The page's file; default {PAGE}.", show_default=False)
    ] = None,
    svg: Annotated[Path | None, typer.Option(help="Write the view as an SVG picture.")] = None,
    png: Annotated[Path | None, typer.Option(help="Write the view as a PNG picture.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the view's numbers as JSON.")] = None,
    terminal: Annotated[bool, typer.Option("--terminal", help="Print the view here.")] = False,
) -> None:
    """See what a model attends to: by default a page that opens in any browser, offline.

    With --svg, --png, --json or --terminal the page is written only where --out says so.
    """
    drawn = bool(svg or png or json_file or terminal)
    if not drawn and not out:
        out = PAGE
    for option, path in {"--svg": svg, "--png": png, "--json": json_file, "--out": out}.items():
        if path is not None and (path.is_dir() or not path.parent.is_dir()):
            raise UserError(f"{option}: {path} is a folder" if path.is_dir() else f"{option}: no folder {path.parent}")
    place, heeded = _place(at), PLACED.get(view, 0)
    if len(place) > heeded:
        raise UserError(f"--view {view} takes {('no --at', '--at KIND alone', '--at KIND.LAYER, no head')[heeded]}")
    shown = drawn and view in ("steps", "norms")
    refuse(not shown, "is for --view steps or norms, with --terminal or --json", {"--token": token})
    if not text.strip() and (out or view != "roles"):
        raise UserError("there is no text to look at")

    from regard.api import load
    from regard.files import disk_errors, write_text
    from regard.view.look import look as look_into
    from regard.view.png import can_render
    from regard.view.roles import roles_or_why

    loaded = load(model)
    table = roles_or_why(loaded) if view == "roles" or out else None
    found = look_into(loaded, text, target) if text.strip() else None
    drawing: Any = table
    if view != "roles":
        assert found is not None
        _check(place, found.weights)
        drawing = (found.merged() if view in WORDS else found).draw(view, token=(token or 1) - 1, **place)
    elif isinstance(table, str) and drawn:
        raise UserError(table)
    if terminal:
        print(drawing.text())
    if svg is not None:
        write_text(svg, drawing.svg() + "\n")
    if png is not None:
        with disk_errors(png):
            png.write_bytes(drawing.png())
    if json_file is not None:
        write_text(json_file, json.dumps(drawing.numbers(), ensure_ascii=False) + "\n")
    for path in filter(None, (svg, png, json_file)):
        print(f"wrote {path}" + (WORDLESS if path == png and not can_render() else ""))
    if out is not None:
        assert found is not None
        write_text(out, found.to_html(table, place.get("layer"), view) + "\n")
        print(f"{found.translation}\nopen {out} in a browser")


def _check(place: dict[str, Any], weights: Mapping[str, Any]) -> None:
    if not place:
        return
    if place["kind"] not in weights:
        raise UserError(f"--at: the model has no {place['kind']} attention; it has {', '.join(weights)}")
    layers, heads = weights[place["kind"]].shape[:2]
    if place.get("layer", 0) >= layers or place.get("head", 0) >= heads:
        raise UserError(f"--at: {place['kind']} attention has layers 1 to {layers} with heads 1 to {heads}")


def _place(at: str | None) -> dict[str, Any]:
    """ "encoder.2.1" as the library counts: kind, layer and head, from 0."""
    if at is None:
        return {}
    kind, *numbers = at.split(".")
    if kind not in KINDS or len(numbers) > 2 or not all(n.isdigit() and int(n) > 0 for n in numbers):
        raise UserError(f"--at {at}: write KIND[.LAYER[.HEAD]], KIND one of {', '.join(KINDS)}, numbers from 1")
    return {"kind": kind} | {name: int(n) - 1 for name, n in zip(("layer", "head"), numbers, strict=False)}
