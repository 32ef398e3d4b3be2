"""`regard evaluate`: scores with signatures and intervals, and a paired test against another system."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import EngineName, Precision, decode_options, keep_apart, refuse, refuse_columns
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.api import Model
    from regard.data.formats import Report


def evaluate(
    model: Annotated[Path, typer.Argument(help="A model's or a run's folder.")],
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Pairs to score on; default the recipe's test set, else its dev set.", show_default=False),
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="Another model, or a file with its translations: adds a paired test.")
    ] = None,
    ensemble: Annotated[list[Path] | None, typer.Option("--with", help="A further model to average with.")] = None,
    beam: Annotated[int | None, typer.Option(help="Hypotheses kept; 1 is greedy.")] = None,
    length_penalty: Annotated[float | None, typer.Option(help="Alpha of the paper's length penalty.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the translations here.")] = None,
    tokenize: Annotated[str | None, typer.Option(help="sacreBLEU's tokenizer: 13a, none, intl, char, zh.")] = None,
    lowercase: Annotated[bool | None, typer.Option("--lowercase/--cased", help="Without regard to case.")] = None,
    engine: Annotated[
        EngineName, typer.Option(help="What translates: torch, or ctranslate2, which is faster.")
    ] = "torch",
    precision: Annotated[Precision, typer.Option(help="With ctranslate2: int8 is faster and smaller.")] = "float32",
    column: Annotated[
        list[str] | None,
        typer.Option("--text", help="Columns with a text, or with the two of a pair, if not training's."),
    ] = None,
    label: Annotated[str | None, typer.Option(help="The column with the label, if not training's.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, or cuda:N.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Score a model: translators by BLEU, chrF++ and TER (sacreBLEU), with 95 % intervals and signatures.

    Classifiers by accuracy, F1, Matthews and calibration; predicted numbers by correlation; taggers by precision,
    recall and F1 of spans (seqeval); answers by SQuAD's exact match and F1; masked words by loss, perplexity and
    accuracy; language models by loss, perplexity and bits per character and byte of text files; two-way ones (ELMo)
    by loss and perplexity of words, mean of both directions.
    """
    from regard.api import load
    from regard.bundle import read_facts
    from regard.config import WRITING, make_recipe
    from regard.data.formats import Report
    from regard.files import write_text
    from regard.tasks.scores import METRICS, compare, require, score
    from regard.training.prepare import small_set

    task = read_facts(model)["task"]
    refuse_columns(task, {"--text": column, "--label": label})
    if task not in WRITING:
        others = {
            "--against": against, "--output": output, "--with": ensemble, "--beam": beam, "--tokenize": tokenize,
            "--length-penalty": length_penalty, "--lowercase": lowercase, "--engine": engine != "torch",
            "--precision": precision != "float32",
        }  # fmt: skip
        for option, asked in others.items():
            if asked is not None and asked is not False:
                raise UserError(f"{option} is for models that translate or summarise; {model} is one for {task}")
        system, given = load(model, device=device), [str(f) for f in files or []]
        if task == "language":
            _evaluate_text(system, model, given, as_json)
        elif task == "two-way":
            _evaluate_two_way(system, model, given, as_json)
        else:
            _evaluate_reading(system, model, given, column or [], label or "", as_json)
        return
    why = "is for translations; ROUGE compares the stems of words, in small letters"
    refuse(task == "summarisation", why, {"--tokenize": tokenize, "--lowercase": lowercase})
    if output is not None and not output.parent.is_dir():
        raise UserError(f"cannot write {output}: there is no folder {output.parent}")
    options = decode_options(beam=beam, length_penalty=length_penalty)
    system = load([model, *(ensemble or [])], device=device, engine=engine, precision=precision)
    recipe = make_recipe(system.bundle.training.get("recipe", {}))
    chosen, name = ([str(f) for f in files], " ".join(map(str, files))) if files else _own_set(system, model)
    keep_apart(output, [*map(Path, chosen), *([against] if against else [])])
    report = Report()
    pairs = small_set(recipe, chosen, report)
    if not pairs:
        raise UserError(f"there are no pairs in {name}")
    changes: dict[str, Any] = {"tokenize": tokenize, "lowercase": lowercase}
    config = make_recipe(
        {"score": recipe.score.model_dump() | {k: v for k, v in changes.items() if v is not None}}
    ).score
    require(config, METRICS[system.bundle.task])
    sources, references = [s for s, _ in pairs], [t for _, t in pairs]
    how: dict[str, Any] = {"device": device, "engine": engine, "precision": precision}
    theirs = [] if against is None else _theirs(against, report, sources, options, **how)  # what is wrong is told first
    outputs = system.translator.translate(sources, system.options(**options))
    if output is not None:
        write_text(output, "".join(text.replace("\n", " ") + "\n" for text in outputs))
    task = system.bundle.task
    scores = score(outputs, references, config, names=METRICS[task], intervals=True)
    comparisons = [] if against is None else compare(outputs, theirs, references, config, task)
    if as_json:
        found = {
            "set": name,
            "pairs": len(pairs),
            "dropped": report.dropped,
            "scores": {metric: s.to_dict() for metric, s in scores.items()},
            "against": [c.to_dict() for c in comparisons],
        }
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return
    print(f"{' + '.join(map(str, [model, *(ensemble or [])]))} on {name}: {report}")
    for value in scores.values():
        print(f"  {value!s:<24} {value.signature}")
    if comparisons:
        print(f"against {against}")
        for comparison in comparisons:
            print(f"  {comparison}")


def _evaluate_reading(
    system: "Model", model: Path, files: list[str], columns: list[str], label: str, as_json: bool
) -> None:
    chosen, name = (files, " ".join(files)) if files else _own_set(system, model)
    examples = system.predictor.examples(chosen, lambda text: typer.echo(f"warning: {text}", err=True), columns, label)
    _tell(model, name, {"examples": len(examples)}, system.predictor.evaluate(examples), as_json)


def _evaluate_text(system: "Model", model: Path, files: list[str], as_json: bool) -> None:
    from regard.data.documents import Flat, documents
    from regard.tasks.language import measure

    chosen, name = (files, " ".join(files)) if files else _own_set(system, model)
    bundle = system.bundle
    data = bundle.data
    pieces = documents(chosen, data.get("document", "file"), next(iter(data.get("text", ())), "text"))
    flat = Flat.of(pieces, bundle.source)
    if not flat.documents:
        raise UserError(f"there is no text in {name}")
    counts = {"documents": flat.documents, "tokens": len(flat.tokens) - 1, "bytes": flat.bytes}
    counts |= {"unknown tokens": flat.unknown} if flat.unknown else {}
    _tell(model, name, counts, measure(bundle.model, flat, bundle.max_length), as_json)


def _evaluate_two_way(system: "Model", model: Path, files: list[str], as_json: bool) -> None:
    from regard.data.documents import documents
    from regard.tasks.twoway import Reader, measure

    chosen, name = (files, " ".join(files)) if files else _own_set(system, model)
    bundle = system.bundle
    reader = Reader(bundle.source, bundle.labels, bundle.max_length)
    rows = reader.rows(piece.text for piece in documents(chosen, "line"))
    if not rows:
        raise UserError(f"there is no text in {name}")
    counts = {"rows": len(rows), "words": sum(len(row.target) - 2 for row in rows)}
    _tell(model, name, counts, measure(bundle.model, reader, rows), as_json)


def _tell(model: Path, name: str, counts: dict[str, int], scores: dict[str, Any], as_json: bool) -> None:
    positive = scores.pop("positive", "")
    if as_json:
        told = {"set": name, **counts} | ({"positive": positive} if positive else {})
        print(json.dumps(told | {"scores": scores}, indent=2, ensure_ascii=False))
        return
    print(f"{model} on {name}: {', '.join(f'{count:,} {what}' for what, count in counts.items())}")
    types: dict[str, dict[str, float]] = scores.pop("types", {})
    for metric, value in scores.items():
        shown = f"f1 of {positive}" if positive and metric == "f1" else metric.replace("_", " ")
        print(f"  {shown:<20} {value:.4f}")
    for kind, row in types.items():
        print(f"  {kind:<20} " + "  ".join(f"{n} {v:.0f}" if n == "spans" else f"{n} {v:.4f}" for n, v in row.items()))


def _own_set(system: "Model", model: Path) -> tuple[list[str], str]:
    data = system.bundle.data
    for name in ("test", "dev"):
        if data.get(name):
            return list(data[name]), f"its {name} set"
    raise UserError(f"{model} names no test or dev set; give the files to score on")


def _theirs(path: Path, report: "Report", sources: list[str], options: dict[str, Any], **how: Any) -> list[str]:
    from regard.api import load
    from regard.data.formats import read_lines

    if path.is_dir():
        other = load(path, **how)
        return other.translator.translate(sources, other.options(**options))
    if not path.is_file():
        raise UserError(f"there is no model and no file {path} to compare with")
    lines = list(read_lines(path))
    if len(lines) != len(sources):
        raise UserError(
            f"{path} has {len(lines):,} lines, the set {report}; the translations must be of just these pairs, in order"
        )
    return lines
