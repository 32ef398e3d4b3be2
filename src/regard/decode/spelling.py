"""From tokens to a text as they come: whole characters, and nothing of a text that it is to stop at."""

import codecs
from collections.abc import Sequence

from regard.text import Tokenizer


class Spelling:
    """A text that grows token by token. It shows no half of a character, and nothing that may begin a stop text."""

    def __init__(self, tokenizer: Tokenizer, stop: Sequence[str] = (), opening: int = 0) -> None:
        """opening: how many spaces stand at the beginning that are no part of the text."""
        self.tokenizer, self.stop, self.opening = tokenizer, [s for s in stop if s], opening
        self.bytes = codecs.getincrementaldecoder("utf-8")("replace")
        self.text, self.shown, self.stopped = "", 0, False

    def add(self, token: int) -> str:
        """What can be shown now."""
        return self._grown(self.bytes.decode(self.tokenizer.piece(token)), last=False)

    def finish(self) -> str:
        """What was held back."""
        return "" if self.stopped else self._grown(self.bytes.decode(b"", final=True), last=True)

    def _grown(self, more: str, last: bool) -> str:
        if more and self.opening:
            more, self.opening = more.removeprefix(" "), 0
        self.text += more
        found = [at for at in (self.text.find(s, self.shown) for s in self.stop) if at >= 0]
        if found:
            self.text, self.stopped = self.text[: min(found)], True
        held = 0 if last or self.stopped else self._held()
        piece = self.text[self.shown : len(self.text) - held]
        self.shown += len(piece)
        return piece

    def _held(self) -> int:
        """The most characters at the end with which a stop text begins."""
        waiting = self.text[self.shown :]
        most = len(waiting) + 1
        sizes = (size for s in self.stop for size in range(1, min(len(s), most)) if waiting.endswith(s[:size]))
        return max(sizes, default=0)
