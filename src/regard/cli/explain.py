"""`regard explain`: why a model writes each word, or what any black box's score depends on."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.cli.options import refuse
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.explain.picture import ImageExplanation
    from regard.explain.result import Explanation

Fill = Literal["zeros", "mean", "blur"]
By = Literal["words", "tokens", "characters"]
ORDERS = 10  # random ones, beside which a curve is seen


def explain(
    given: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL] [TEXT]", help="A model's folder and a sentence; a black box gets the text alone."
        ),
    ] = None,
    target: Annotated[str | None, typer.Option(help="Explain this translation in place of the model's own.")] = None,
    word: Annotated[str | None, typer.Option(help="Only this output word: its number, or the word.")] = None,
    python: Annotated[str | None, typer.Option(help="A black box: MODULE:FUNCTION, from inputs to scores.")] = None,
    endpoint: Annotated[str | None, typer.Option(help="A black box: the address of an HTTP endpoint.")] = None,
    request: Annotated[
        str | None,
        typer.Option(
            help='The endpoint\'s request in JSON; "$input" is one input, "$inputs" a list of them; '
            'default {"inputs": "$inputs"}.',
            show_default=False,
        ),
    ] = None,
    answer: Annotated[
        str | None, typer.Option(help="Where the scores stand in the answer: scores, or data.*.score.")
    ] = None,
    header: Annotated[list[str] | None, typer.Option(help='A header of the request: "Name: value".')] = None,
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="The endpoint may be another machine's.")
    ] = False,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds that an answer may take; default 30.", min=0.1, show_default=False)
    ] = None,
    image: Annotated[Path | None, typer.Option(help="Explain an image file (needs Pillow).")] = None,
    score: Annotated[
        int | None,
        typer.Option(help="Of an image's scores, which one; default the highest.", min=1, show_default=False),
    ] = None,
    cells: Annotated[
        int | None,
        typer.Option(help="Of an image's masks, in each direction; default 7.", min=1, show_default=False),
    ] = None,
    fill: Annotated[
        Fill | None, typer.Option(help="What stands where an image is hidden; default zeros.", show_default=False)
    ] = None,
    by: Annotated[
        By | None,
        typer.Option(help="What is hidden: words (default), a model's tokens, or characters.", show_default=False),
    ] = None,
    filler: Annotated[
        str | None,
        typer.Option(help='In place of a hidden word, such as "<unk>"; default nothing.', show_default=False),
    ] = None,
    keep: Annotated[float, typer.Option(help="How likely a part is seen.")] = 0.5,
    masks: Annotated[
        int | None, typer.Option(help="How many are tried; default 1000, for images 4000.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the masks.")] = 0,
    batch: Annotated[int, typer.Option(help="Inputs that are asked at once.")] = 64,
    confidence: Annotated[
        float | None, typer.Option(help="Stop as soon as the map is known with this confidence, such as 0.95 ...")
    ] = None,
    within: Annotated[
        float | None, typer.Option(help="... to within this part of its range; default 0.1.", show_default=False)
    ] = None,
    curves: Annotated[bool, typer.Option("--curves", help="Test the map: deletion and insertion curves.")] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write a page for any browser, offline.")] = None,
    svg: Annotated[Path | None, typer.Option(help="Write the map as an SVG picture.")] = None,
    png: Annotated[Path | None, typer.Option(help="Write an image's map as a PNG picture.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the map as JSON.")] = None,
) -> None:
    """Explain by RISE: parts of the input are hidden at random; what the score does then tells which of them matter.

    `regard explain MODEL TEXT`: why each word of the translation? `regard explain --python MODULE:FUNCTION TEXT`, or
    --endpoint URL: what the scores of any black box depend on; with --image FILE in place of the text, in an image.
    """
    files = {"--out": out, "--svg": svg, "--png": png, "--json": json_file}
    box = python is not None or endpoint is not None
    refuse(python is not None, "is a second black box; give one", {"--endpoint": endpoint})
    refuse(box, "is for a model's translation", {"--target": target, "--word": word})
    refuse(image is None, "is for an image", {"--score": score, "--png": png, "--cells": cells, "--fill": fill})
    refuse(image is not None, "is for a text", {"--by": by, "--filler": filler})
    called_by = {"--request": request, "--answer": answer, "--header": header or None, "--timeout": timeout}
    refuse(endpoint is None, "is for --endpoint", called_by | {"--allow-remote": allow_remote or None})
    refuse(confidence is None, "goes with --confidence", {"--within": within})
    refuse(not box, "needs a black box: --python or --endpoint", {"--image": image})
    inputs = _inputs(given or [], box, image is not None)
    for option, path in files.items():
        if path is not None and (path.is_dir() or not path.parent.is_dir()):
            raise UserError(f"{option}: {path} is a folder" if path.is_dir() else f"{option}: no folder {path.parent}")
    plan = _given(seed=seed, batch=batch, confidence=confidence, within=within, keep=keep, masks=masks)

    from regard.explain import Endpoint, image_steps, text_steps
    from regard.explain.imagefile import read

    called: Any = None
    if python is not None:
        called = _function(python)
    elif endpoint is not None:
        template = None if request is None else _template(request)
        more = _given(headers=_headers(header or []), timeout=timeout)
        called = Endpoint(endpoint, template, answer or "", allow_remote=allow_remote, **more)
    steps: Iterator[Explanation] | Iterator[ImageExplanation]
    if image is not None:
        of = None if score is None else score - 1
        steps = image_steps(called, read(image), of=of, **_given(cells=cells, fill=fill), **plan)
    elif box:
        steps = text_steps(called, inputs[0], **_given(by=by, filler=filler), **plan)
    else:
        from regard.api import load
        from regard.explain import why_steps

        chosen = int(word) - 1 if word is not None and word.isdecimal() else word
        steps = why_steps(load(inputs[0]), inputs[1], target, word=chosen, **_given(by=by, filler=filler), **plan)
    found = _watched(steps)
    tested = found.curves(orders=ORDERS) if curves else ()
    _print(found, tested)
    _write(found, tested, files)


def _given(**options: Any) -> dict[str, Any]:
    """Those that were given; of the others the library knows the defaults."""
    return {name: value for name, value in options.items() if value is not None}


def _inputs(given: list[str], box: bool, image: bool) -> list[str]:
    wanted = 0 if image else 1 if box else 2
    if len(given) != wanted:
        usage = {
            0: "give nothing beside the image",
            1: "give one text beside the black box",
            2: "give a model's folder and one text, in quotes; a black box by --python or --endpoint",
        }[wanted]
        raise UserError(f"{usage} (there {'is' if len(given) == 1 else 'are'} {len(given)} here)")
    return given


def _function(name: str) -> Callable[[Any], Any]:
    """A function by its name; modules are looked for in the current folder too, as `python -m` does."""
    from importlib import import_module

    module, _, path = name.partition(":")
    if not module or not path:
        raise UserError(f"--python {name!r}: write MODULE:FUNCTION, such as mine:score")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except ModuleNotFoundError as error:
        raise UserError(f"--python {name}: {error}; the module must be installed or in this folder") from None
    except AttributeError as error:
        raise UserError(f"--python {name}: {error}") from None
    finally:
        sys.path.pop(0)
    if not callable(found):
        raise UserError(f"--python {name}: this is a {type(found).__name__}, not a function")
    function: Callable[[Any], Any] = found
    return function


def _template(request: str) -> Any:
    try:
        return json.loads(request)
    except ValueError as error:
        raise UserError(f"--request is not JSON: {error}") from None


def _headers(given: list[str]) -> dict[str, str]:
    pairs = [line.partition(":") for line in given]
    if any(not colon or not name.strip() for name, colon, _ in pairs):
        raise UserError('--header: write "Name: value"')
    return {name.strip(): value.strip() for name, _, value in pairs}


def _watched(steps: "Iterator[Explanation] | Iterator[ImageExplanation]") -> "Explanation | ImageExplanation":
    """The last step; on the way a bar, where somebody may be watching."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = BarColumn(bar_width=24), TextColumn("{task.completed:,.0f} of {task.total:,.0f} masks")
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        row = bar.add_task("", total=None)
        for found in steps:
            bar.update(row, completed=found.saliency.masks, total=found.saliency.planned)
    return found


def _print(found: "Explanation | ImageExplanation", tested: Any) -> None:
    from rich.console import Console

    from regard.explain.show import plain

    console = Console(highlight=False)
    colour = console.color_system is not None
    console.print(found.terminal(colour), soft_wrap=True)
    if tested:
        console.print("\narea under the curve (in random order)", style="dim")
    names = [plain(row) for row in found.rows]
    margin = max(map(len, names))
    for name, both in zip(names, tested, strict=False):
        pairs = (("deletion", both.deletion), ("insertion", both.insertion))
        told = [f"{kind} {c.auc:.3f} ({sum(c.random) / len(c.random):.3f})" for kind, c in pairs]
        console.print(f"{name:>{margin}}  {'  '.join(told)}", markup=False, soft_wrap=True)


def _write(found: "Explanation | ImageExplanation", tested: Any, files: dict[str, Path | None]) -> None:
    from regard.files import disk_errors, write_text

    makers: dict[str, Callable[[], str]] = {
        "--out": lambda: found.to_html(tested),
        "--svg": found.to_svg,
        "--json": lambda: json.dumps(found.to_dict(tested), ensure_ascii=False),
    }
    for option, path in files.items():
        if path is None:
            continue
        if option == "--png":
            with disk_errors(path):
                path.write_bytes(found.to_png())  # type: ignore[union-attr]
        else:
            write_text(path, makers[option]() + "\n")
        print(f"open {path} in a browser" if option == "--out" else f"wrote {path}")
