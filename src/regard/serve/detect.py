"""Which language a text is in, among those that are served."""

import copy
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from regard.serve.sentences import has_letters

LONGEST = 2000  # characters looked at: more would not change the answer
SHORT = 40  # a text of fewer characters in a batch is judged together with the others
_OTHER_CODES = {"nb": "no", "fil": "tl", "ckb": "ku", "iw": "he", "in": "id"}


@dataclass(frozen=True)
class Detected:
    """A language and how sure that is, in percent."""

    language: str
    confidence: float

    def to_dict(self) -> dict[str, Any]:
        return {"confidence": self.confidence, "language": self.language}


class Detector:
    """Knows the served languages apart, as far as the library knows them. The first use loads its model."""

    def __init__(self, languages: Sequence[str]) -> None:
        self.languages = list(languages)
        self._lock = threading.Lock()
        self._all: Any = None
        self._served: Any = None
        self._nothing: list[tuple[str, float]] = []  # how all languages rank before anything is read
        self._codes: dict[str, str] = {}  # the library's code of each served language -> ours

    def load(self) -> None:
        """Makes ready; the library's model is read once a process, which takes a second or so."""
        with self._lock:
            if self._all is not None:
                return
            everything = _identifier()
            known = set(everything.labels)
            for code in self.languages:
                base = code.replace("_", "-").split("-")[0].lower()
                base = base if base in known else _OTHER_CODES.get(base, base)
                if base in known:
                    self._codes.setdefault(base, code)
            if self._codes:
                self._served = copy.copy(everything)
                self._served.set_languages(list(self._codes))
            self._nothing = everything.rank("")
            self._all = everything

    def detect(self, text: str) -> list[Detected]:
        """The served languages that it may be in, likeliest first; never empty.

        The confidence is the probability among the served languages, but no more than what the likeliest language
        that is not served leaves over: French is no English, even where only English is served.
        """
        self.load()
        text = text[:LONGEST].strip()
        if not has_letters(text) or self._served is None:
            return [Detected(self.languages[0], 0.0)]
        everywhere = self._all.rank(text)
        if everywhere == self._nothing:  # nothing in it speaks for any language
            return [Detected(self.languages[0], 0.0)]
        outside = max((p for code, p in everywhere if code not in self._codes), default=0.0)
        ranked = [(self._codes[code], p) for code, p in self._served.rank(text)]
        found = [Detected(code, round(100 * max(0.0, min(p, 1 - outside)), 1)) for code, p in ranked]
        return [found[0], *(d for d in found[1:] if d.confidence > 0)]

    def detect_each(self, texts: Sequence[str]) -> list[Detected]:
        """The likeliest language of each text; short ones are judged by all texts together."""
        together = self.detect(" ".join(texts))[0] if any(len(text) < SHORT for text in texts) else None
        return [together if together and len(text) < SHORT else self.detect(text)[0] for text in texts]


@cache
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # type: ignore[import-untyped]

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
