"""`regard translate`: standard input or files to output, line for line."""

import json
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, TextIO

import typer

from regard.cli.options import EngineName, Precision, decode_options, keep_apart
from regard.errors import UserError


def translate(
    model: Annotated[Path, typer.Argument(help="A model's or a run's folder.")],
    files: Annotated[
        list[Path] | None, typer.Argument(help="Text files; default standard input.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write; default standard output.")
    ] = None,
    ensemble: Annotated[list[Path] | None, typer.Option("--with", help="A further model to average with.")] = None,
    beam: Annotated[int | None, typer.Option(help="Hypotheses kept; 1 is greedy.")] = None,
    n_best: Annotated[int | None, typer.Option(help="How many translations of each line.")] = None,
    length_penalty: Annotated[float | None, typer.Option(help="Alpha of the paper's length penalty.")] = None,
    min_length: Annotated[int | None, typer.Option(help="Least tokens of a translation.")] = None,
    max_length: Annotated[int | None, typer.Option(help="Most tokens of a translation.")] = None,
    no_repeat_ngram: Annotated[int | None, typer.Option(help="No n-gram of this size twice.")] = None,
    sample: Annotated[bool, typer.Option("--sample", help="Draw at random in place of beam search.")] = False,
    temperature: Annotated[float | None, typer.Option(help="Of sampling.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Sample from the k likeliest tokens.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Sample from this much of the mass.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of sampling.")] = None,
    engine: Annotated[
        EngineName, typer.Option(help="What translates: torch, or ctranslate2, which is faster.")
    ] = "torch",
    precision: Annotated[Precision, typer.Option(help="With ctranslate2: int8 is faster and smaller.")] = "float32",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, or cuda:N.")] = "auto",
    json_lines: Annotated[bool, typer.Option("--json", help="JSON lines with scores and alternatives.")] = False,
) -> None:
    """Translate text, one line at a time in, one line out; of .jsonl files what stands under the first of data.keys.

    With --n-best N every line gives N lines (an empty one, one): its number, the score and the text, tab-separated.
    """
    from regard.api import load
    from regard.data.formats import KEYS
    from regard.decode.translator import WINDOW

    options = decode_options(
        beam=beam, n_best=n_best, length_penalty=length_penalty, min_length=min_length, max_length=max_length,
        no_repeat_ngram=no_repeat_ngram, sample=sample or None, temperature=temperature, top_k=top_k, top_p=top_p,
        seed=seed,
    )  # fmt: skip
    paths = files or []
    for path in paths:
        if not path.exists() or path.is_dir():
            raise UserError(f"there is no file {path}")
    keep_apart(output, paths or [sys.stdin])
    for name, value in (("temperature", temperature), ("top-k", top_k), ("top-p", top_p), ("seed", seed)):
        if value is not None and not sample:
            raise UserError(f"--{name} goes with --sample")
    translator = load([model, *(ensemble or [])], device=device, engine=engine, precision=precision)
    translator.options(**options)  # a wrong option is told before anything is read
    typed = not paths and sys.stdin.isatty()  # a person waits for each line
    scored = json_lines or bool(n_best)
    key = translator.bundle.data.get("keys", KEYS)[0]
    results = translator.stream(_lines(paths, key), window=1 if typed else WINDOW, scored=scored, **options)
    with warnings.catch_warnings(), ExitStack() as stack:
        warnings.showwarning = _warn
        out = stack.enter_context(_opened(output)) if output else sys.stdout
        known = paths and all(path.is_file() for path in paths)  # what else there is can be read once
        shown = stack.enter_context(_progress(_lines(paths, key))) if known and _screen_is_free(output) else None
        for number, found in enumerate(results, start=1):
            if json_lines:
                alternatives = [{"text": t.text, "score": t.score, "confidence": t.confidence} for t in found]
                print(json.dumps({"line": number, "translations": alternatives}, ensure_ascii=False), file=out)
            elif n_best:
                for t in found:
                    print(f"{number}\t{t.score:.4f}\t{_one_line(t.text)}", file=out)
            else:
                print(_one_line(found[0].text), file=out)
            if typed:
                out.flush()
            if shown is not None:
                shown()
        out.flush()


def _screen_is_free(output: Path | None) -> bool:
    return sys.stderr.isatty() and (output is not None or not sys.stdout.isatty())


def _one_line(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ")


def _lines(paths: list[Path], key: str) -> Iterator[str]:
    from regard.data.formats import read_lines, read_texts

    if not paths:
        yield from read_lines(sys.stdin.buffer)
    for path in paths:
        yield from read_texts(path, key)


def _opened(path: Path) -> TextIO:
    try:
        return path.open("w", encoding="utf-8", newline="\n")
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None


class _progress:
    """A progress line for long files, where standard output is free for it."""

    def __init__(self, lines: Iterable[str]) -> None:
        from rich.console import Console
        from rich.progress import Progress

        self.bar = Progress(console=Console(stderr=True), transient=True)
        total = sum(1 for _ in lines)
        self.row = self.bar.add_task("translating", total=total)

    def __enter__(self) -> "_progress":
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

    def __call__(self) -> None:
        self.bar.advance(self.row)


def _warn(message: Warning | str, *rest: object, **others: object) -> None:
    print(f"regard: warning: {message}", file=sys.stderr)
