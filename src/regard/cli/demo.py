"""`regard demo`: the whole main job on the embedded corpus."""

from pathlib import Path
from typing import Annotated

import typer


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="The run's folder.")] = Path("runs/demo"),
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin again even if the folder holds a demo.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of the corpus and the training.")] = 1,
) -> None:
    """Train a translator on the embedded corpus, score it, translate with it, and write its attention page.

    Takes a few minutes on two cores. Stopped half-way, it goes on where it was.
    """
    from regard.demo import run
    from regard.training.signals import SAVED, Stopped

    try:
        run(out, fresh=fresh, seed=seed)
    except Stopped:
        raise typer.Exit(SAVED) from None
