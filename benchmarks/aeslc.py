"""Subject lines for e-mails (AESLC): MiniLM with a decoder that copies, by recipes/aeslc.toml; ROUGE on dev.

Beside it: each e-mail's first sentence."""

import json
import re
from typing import Any

from benchmarks.minilm import minilm
from benchmarks.runs import data_files, facts, trained
from regard.api import Model
from regard.config import ScoreConfig
from regard.data.formats import read_lines
from regard.data.sets import resolve
from regard.tasks.scores import METRICS, score

ABOUT = (
    "Subject lines for e-mails: MiniLM (BERT, 6 layers, width 384) reads, a new decoder writes and copies; the "
    "baseline is an e-mail's first sentence. Scores are of dev, on which the recipe was tried."
)

ROUGE = METRICS["summarisation"]


def run() -> dict[str, Any]:
    rows = [json.loads(line) for line in read_lines(resolve("aeslc/dev.jsonl.gz"))]
    documents, references = ([row[key] for row in rows] for key in ("document", "summary"))
    baseline = score([_first_sentence(text) for text in documents], references, ScoreConfig(), names=ROUGE)
    bundle, seconds = trained("aeslc", None, "aeslc.toml", start_from=minilm())
    outputs = Model([bundle]).translate(documents)
    found = score(outputs, references, ScoreConfig(), names=ROUGE, intervals=True)
    for i in range(0, len(rows), max(1, len(rows) // 12)):  # shown, not kept: the e-mails are other people's
        print(f"{documents[i][:120]!r}\n    {outputs[i]}\n    expected: {references[i]}")
    return {
        "rouge_l": round(found["ROUGE-L"].value, 2),
        "baseline_rouge_l": round(baseline["ROUGE-L"].value, 2),
        **{f"{name.lower().replace('-', '_')}": round(found[name].value, 2) for name in ROUGE[:2]},
        **{f"baseline_{name.lower().replace('-', '_')}": round(baseline[name].value, 2) for name in ROUGE[:2]},
        "interval": found["ROUGE-L"].interval,
        "signature": found["ROUGE-L"].signature,
        **facts(bundle, seconds),
        "data": data_files(bundle),
    }


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.!?])\s+|\n", text.strip())[0]
