"""`regard average`: the mean of several models' weights as a new model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.errors import UserError

if TYPE_CHECKING:
    from regard.bundle import Bundle


def average(
    sources: Annotated[list[Path], typer.Argument(help="Models of one shape, or one run's folder (its checkpoints).")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder of the new model.")],
    last: Annotated[int, typer.Option(min=1, help="With a run: how many of its last checkpoints.")] = 5,
) -> None:
    """Average models, or the last checkpoints of a run."""
    from regard.bundle import load_bundle
    from regard.tasks.answering import THRESHOLD
    from regard.training.checkpoint import Checkpoints
    from regard.training.fit import load_weights
    from regard.training.session import average as mean

    if out.exists():
        raise UserError(f"{out} is there already; choose another folder")
    bundle = load_bundle(sources[0])
    if len(sources) == 1:
        checkpoints = Checkpoints(sources[0] / "checkpoints", keep=1)
        steps = checkpoints.steps()[-last:]
        if not steps:
            raise UserError(f"{sources[0]} has no checkpoints; give a run's folder, or several models")
        weights = [checkpoints.weights(step) for step in steps]
        names = [f"step {step}" for step in steps]
    else:
        bundles = [bundle, *(load_bundle(path) for path in sources[1:])]
        for other in bundles[1:]:
            if _sort(other) != _sort(bundle):
                raise UserError(f"{other.path} has another shape, tokenizer or labels than {bundle.path}")
        weights = [{n: p.detach() for n, p in b.model.named_parameters()} for b in bundles]
        names = [str(path) for path in sources]
    load_weights(bundle.model, mean(weights))
    threshold = bundle.scores.get("dev", {}).get(THRESHOLD)
    bundle.scores = {} if threshold is None else {"dev": {THRESHOLD: threshold}}  # that of the first one
    bundle.training["averaged"] = ", ".join(names)
    bundle.save(out)
    print(f"{out}: the mean of {', '.join(names)}; score it with `regard evaluate {out}`")


def _sort(bundle: "Bundle") -> tuple[object, ...]:
    """What models must share so that a mean of them is one."""
    shapes = {name: p.shape for name, p in bundle.model.named_parameters()}
    tokenizers = bundle.source.checksum, bundle.target.checksum
    return bundle.name, bundle.task, bundle.model.config, bundle.labels, tokenizers, shapes
