"""`regard generate`: what a language model writes after a prompt, as it is written."""

import json
import sys
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.errors import UserError


def generate(
    model: Annotated[Path, typer.Argument(help="A model's or a run's folder.")],
    prompt: Annotated[str, typer.Argument(help="How the text begins; default nothing.", show_default=False)] = "",
    file: Annotated[Path | None, typer.Option("--prompts", help="A file with a prompt on each line.")] = None,
    n: Annotated[int, typer.Option("--n", min=1, help="How many texts for each prompt.")] = 1,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Most tokens of a text; default 200.")] = None,
    temperature: Annotated[float | None, typer.Option(min=0, help="Below 1 is surer; 0 takes the likeliest.")] = None,
    top_k: Annotated[int | None, typer.Option(min=0, help="Draw from the k likeliest tokens.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Draw from this much of the mass.")] = None,
    repetition_penalty: Annotated[
        float | None, typer.Option(help="Above 1, what was there before is less likely.")
    ] = None,
    stop: Annotated[list[str] | None, typer.Option(help="A text to end at; may be given several times.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Of the random draws.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, or cuda:N.")] = "auto",
) -> None:
    """Write on from a prompt with a language model. Several texts have a line of --- between them."""
    from regard.api import load
    from regard.data.formats import read_lines

    if prompt and file is not None:
        raise UserError("give a prompt or a file of prompts, not both")
    writer = load(model, device=device)
    options: dict[str, Any] = {
        "n": n, "max_tokens": max_tokens, "temperature": temperature, "top_k": top_k, "top_p": top_p,
        "repetition_penalty": repetition_penalty, "stop": stop or None, "seed": seed,
    }  # fmt: skip
    prompts = [prompt] if file is None else list(read_lines(file))
    if len(prompts) == n == 1 and not as_json:
        pieces = writer.stream_text(prompts[0], **options)
        begun = next(pieces, "")  # what is wrong with a prompt shows before it is written
        for piece in chain(prompts, [begun], pieces):
            sys.stdout.write(piece)
            sys.stdout.flush()
        print()
        return
    first = True
    for beginning, found in zip(prompts, writer.generations(prompts, **options), strict=True):
        for made in found:
            if as_json:
                facts = {"text": made.text, "tokens": made.tokens, "log_prob": made.log_prob, "reason": made.reason}
                print(json.dumps({"prompt": beginning} | facts, ensure_ascii=False))
            else:
                print(("" if first else "---\n") + beginning + made.text)
                first = False
