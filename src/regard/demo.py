"""The demo: the whole main job on the embedded corpus, with figures, translations and an attention page."""

import json
import shutil
import tomllib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from regard.api import Model
from regard.config import ScoreConfig, make_recipe
from regard.data.grammar import Sentence, generate
from regard.errors import UserError
from regard.files import TEMPORARY, disk_errors, write_text
from regard.tasks.scores import score
from regard.training.progress import Show, clock
from regard.training.run import LOCK
from regard.training.session import train
from regard.view.heads import Head, noun_preference
from regard.view.look import look
from regard.view.roles import roles_or_why

TRAINING_PAIRS = 120_000
SMALL = 1000  # pairs of each other split
# What a demo leaves in its folder, and so may remove again.
OURS = {LOCK, "attention.html", "checkpoints", "curves.svg", "data", "log.jsonl", "model", "recipe.toml"}
OURS |= {"report.json", "tokenizer.json", "tokenizer.target.json", "tokens"}
TEACHING = (
    "this cat is very large",
    "the animal didn't cross the street because it was too tired",
    "the animal didn't cross the street because it was too wide",
)


def run(out: Path, *, fresh: bool = False, seed: int = 1) -> dict[str, Any]:
    """Trains, scores, translates, writes report.json and attention.html, and says what to try next."""
    console = Console(highlight=False)
    _make_place(out, fresh)
    splits = {name: list(generate(name, SMALL, seed)) for name in ("dev", "test", "compositional", "longer", "pronoun")}
    _write_corpus(out / "data", splits, seed)
    console.print(f"[bold]1. The corpus[/]: English to Spanish, {TRAINING_PAIRS:,} training pairs in {out / 'data'}")
    tree = tomllib.loads(resources.files("regard").joinpath("recipes/demo.toml").read_text(encoding="utf-8"))
    recipe = make_recipe(tree, [f"seed={seed}"])
    console.print("[bold]2. Training[/]")
    show = Show(Console(highlight=False))
    try:
        bundle = train(recipe, out, base=out, resume=(out / "recipe.toml").exists(), callbacks=[show])
    finally:
        show.close()
    model = Model([bundle])
    console.print("[bold]3. How good it is[/]")
    report = _measure(model, splits) | {"train_seconds": round(bundle.training["seconds"], 1)}
    write_text(out / "report.json", json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    console.print(_figures(report))
    console.print("[bold]4. What it says[/]")
    for text in TEACHING:
        console.print(f"   {escape(text)}\n   [green]{escape(model.translator.translate([text])[0])}[/]")
    write_text(out / "attention.html", look(model, TEACHING[1]).to_html(roles_or_why(model)))
    console.print("[bold]5. Where it looks[/]")
    console.print(f"   {escape(report['pronoun']['head'])}")
    console.print(f"   open [bold]{out / 'attention.html'}[/] in a browser")
    _say_what_next(console, out)
    return report


def _make_place(out: Path, fresh: bool) -> None:
    """A folder that is a demo's. An old one is removed only when it is one."""
    with disk_errors(out):
        if out.is_dir():
            names = sorted(path.name for path in out.iterdir() if not path.name.startswith(TEMPORARY))
            strange = names if LOCK not in names else [name for name in names if fresh and name not in OURS]
            if strange:
                raise UserError(f"{out} holds {strange[0]}, which is not the demo's; choose another folder with --out")
            if fresh:
                shutil.rmtree(out)
        out.mkdir(parents=True, exist_ok=True)
        (out / LOCK).touch()


def _write_corpus(folder: Path, splits: dict[str, list[Sentence]], seed: int) -> None:
    if (folder / "train.tsv").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    for name, sentences in splits.items():
        write_text(folder / f"{name}.tsv", _tsv(sentences))
    write_text(folder / "train.tsv", _tsv(list(generate("train", TRAINING_PAIRS, seed))))  # last: all are there


def _tsv(sentences: Sequence[Sentence]) -> str:
    return "".join(f"{s.source}\t{s.target}\n" for s in sentences)


def _measure(model: Model, splits: dict[str, list[Sentence]]) -> dict[str, Any]:
    """BLEU of each split, how often the pronoun's adjective agrees, and the head that finds the pronoun's noun."""
    bleu, signature = {}, ""
    for name in ("test", "compositional", "longer"):
        outputs = model.translator.translate([s.source for s in splits[name]])
        found = score(outputs, [s.target for s in splits[name]], ScoreConfig(), names=("BLEU",))["BLEU"]
        bleu[name], signature = round(found.value, 2), found.signature
    outputs = model.translator.translate([s.source for s in splits["pronoun"]])
    right = [_agrees(s, o) for s, o in zip(splits["pronoun"], outputs, strict=True)]
    bundle = model.bundle
    heads = noun_preference(bundle.model, bundle.source, bundle.target, splits["dev"])
    best: Head = max(heads, key=lambda h: heads[h])
    unseen = noun_preference(bundle.model, bundle.source, bundle.target, splits["pronoun"])
    return {
        "bleu": bleu,
        "bleu_signature": signature,
        "pronoun": {
            "gender": round(sum(right) / len(right), 4),
            "attention": round(unseen[best], 4),
            "head": str(best),
            "attention_dev": round(heads[best], 4),
        },
    }


def _agrees(sentence: Sentence, output: str) -> bool:
    """Whether the adjective has the right noun's gender: the right form is written, the wrong one is not."""
    assert sentence.pronoun is not None
    words = output.split()
    return sentence.target.split()[sentence.pronoun.target_adjective] in words and sentence.pronoun.wrong not in words


def _figures(report: dict[str, Any]) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 3))
    rows = {
        "BLEU on unseen sentences (test)": report["bleu"]["test"],
        "BLEU on words never seen together (compositional)": report["bleu"]["compositional"],
        "BLEU on sentences longer than any trained on (longer)": report["bleu"]["longer"],
        "adjective agrees with the right noun (pronoun; chance 50 %)": f"{report['pronoun']['gender']:.1%}",
        "one head, never told so, looks at the right noun": f"{report['pronoun']['attention']:.1%}",
        "training time": clock(report["train_seconds"]),
    }
    for name, value in rows.items():
        table.add_row(name, str(value))
    return table


def _say_what_next(console: Console, out: Path) -> None:
    console.print("[bold]Try next[/]")
    for command in (
        f"echo 'the old dog was too tired' | regard translate {out}",
        f"regard look {out} 'the horse entered the garden because it was open'",
        f"regard evaluate {out} {out}/data/longer.tsv",
        "regard train your-pairs.tsv --out runs/mine",
    ):
        console.print(f"   {escape(command)}", soft_wrap=True)
