"""A translation as the page shows it: in whole and by its sentences, and how sure the model is."""

import math
from collections.abc import Sequence
from typing import Any

from regard.decode.translator import Translation
from regard.serve.sentences import Cut


def told(whole: Cut, found: Sequence[Sequence[Translation]], alternatives: int) -> dict[str, Any]:
    """The best translations of all sentences together, then the second best, and so on; each text once."""
    translations: dict[str, dict[str, Any]] = {}
    for chosen in ranked(found, alternatives):
        parts = [one.text for one in chosen]
        text = whole.filled(parts)
        sure = round(_confidence(chosen), 4)
        translations.setdefault(text, {"text": text, "confidence": sure, "sentences": parts})
    return {
        "translations": list(translations.values()),
        "sentences": [
            {"source": source, "target": variants[0].text, "confidence": round(variants[0].confidence, 4)}
            for source, variants in zip(whole.sentences, found, strict=True)
        ],
    }


def ranked(sentences: Sequence[Sequence[Translation]], alternatives: int) -> list[list[Translation]]:
    """The best of each sentence, then the second best of each, and so on."""
    ranks = range(min(alternatives + 1, max(map(len, sentences), default=1)))
    return [[found[min(rank, len(found) - 1)] for found in sentences] for rank in ranks]


def _confidence(sentences: Sequence[Translation]) -> float:
    """The geometric mean, as within a sentence."""
    if not sentences:
        return 1.0
    return math.exp(sum(math.log(max(one.confidence, 1e-9)) for one in sentences) / len(sentences))
