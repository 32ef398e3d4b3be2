"""Log lines: JSON, one a line, on standard error. They name routes, sizes and times, never a text or a key."""

import json
import logging
import sys
import traceback
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

LOGGER = logging.getLogger("regard.serve")


@dataclass
class Facts:
    """What is known of a request when it is answered."""

    texts: int = 0
    characters: int = 0
    wait: float = 0.0  # seconds in a model's queue
    key: str | None = None  # the beginning of the key's hash


class Lines(logging.Formatter):
    """Any record as one line of JSON; an exception as its kind and place, without its message, which may hold text."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage().strip(),
        }
        line |= getattr(record, "facts", {})
        if record.exc_info and record.exc_info[1] is not None:
            line |= describe(record.exc_info[1])
        return json.dumps(line, ensure_ascii=True)


def describe(error: BaseException) -> dict[str, Any]:
    """An exception's kind and where it arose."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    return {"error": type(error).__name__, "at": [f"{f.filename.rpartition('/')[2]}:{f.lineno}" for f in frames]}


def event(name: str, level: int = logging.INFO, **facts: Any) -> None:
    """Writes one line."""
    if LOGGER.isEnabledFor(level):
        LOGGER.log(level, name, extra={"facts": facts})


def write_to_stderr() -> None:
    """For the command: our lines and those of uvicorn, in one form."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines())
    for logger, level in ((LOGGER, logging.INFO), (logging.getLogger("uvicorn"), logging.WARNING)):
        logger.handlers = [handler]
        logger.setLevel(level)
        logger.propagate = False
