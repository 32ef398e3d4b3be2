"""A real English-Spanish translator from a TSV file, recipes/tatoeba-en-es.toml, with twenty of its translations."""

from typing import Any

from benchmarks.runs import data_files, facts, trained
from regard.api import Model
from regard.config import Recipe
from regard.training.prepare import small_set

ABOUT = "English-Spanish; scores on the dev set, one reference each."
SHOWN = 20


def run() -> dict[str, Any]:
    bundle, seconds = trained("tatoeba", "tatoeba", "tatoeba-en-es.toml")
    recipe = Recipe.model_validate(bundle.training["recipe"])
    dev = small_set(recipe, recipe.data.dev)
    chosen = dev[:: max(1, len(dev) // SHOWN)][:SHOWN]  # evenly over the file, not picked: good and bad
    outputs = Model([bundle]).translator.translate([source for source, _ in chosen])
    samples = [
        {"English": source, "translation": output, "reference": target}
        for (source, target), output in zip(chosen, outputs, strict=True)
    ]
    scores = bundle.scores["dev"]
    return {
        "bleu": round(scores["BLEU"]["value"], 2),
        "chrf": round(scores["chrF++"]["value"], 2),
        **facts(bundle, seconds),
        "signature_bleu": scores["BLEU"]["signature"],
        "signature_chrf": scores["chrF++"]["signature"],
        "data": data_files(bundle),
        "tables": {"Twenty translations, evenly over the dev set": samples},
    }
