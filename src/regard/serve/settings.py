"""Every limit and option of the server, each with the words that `regard serve --help` says of it.

A plain dataclass, so that the help is there before anything heavy is imported.
"""

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from regard.errors import UserError


def _said(help: str, least: float | None = None, most: float | None = None) -> dict[str, Any]:
    return {"help": help, "least": least, "most": most}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a server allows; no limit can be switched off, but each can be set as high as the machine bears."""

    char_limit: int = field(
        default=5000, metadata=_said("Most characters of a request, all its texts together.", least=1)
    )
    batch_limit: int = field(default=100, metadata=_said("Most texts of a request.", least=1))
    alternatives_limit: int = field(default=5, metadata=_said("Most alternatives of a translation.", least=0, most=255))
    token_limit: int = field(default=1000, metadata=_said("Most tokens that a language model writes at once.", least=1))
    body_limit: int = field(default=1_000_000, metadata=_said("Most bytes of a request's body; files too.", least=1000))
    req_limit: int = field(
        default=0, metadata=_said("Requests a minute from one key or address; 0 sets no limit.", least=0)
    )
    requests: int = field(default=128, metadata=_said("Most requests at once; more are refused with 503.", least=1))
    queue: int = field(
        default=1000, metadata=_said("Most sentences that wait for a model; more are refused with 503.", least=1)
    )
    queue_chars: int = field(default=200_000, metadata=_said("Most characters that wait for a model.", least=1))
    deadline: float = field(
        default=30.0, metadata=_said("Seconds after which a request that still waits is refused with 503.", least=0.1)
    )
    grace: float = field(
        default=10.0, metadata=_said("Seconds in which waiting requests are finished after a signal to stop.", least=0)
    )
    files: int = field(
        default=100, metadata=_said("Most translated files kept for download; the oldest goes first.", least=1)
    )
    file_minutes: float = field(
        default=30.0, metadata=_said("Minutes for which a translated file is kept.", least=0.01)
    )
    keys: Path | None = field(
        default=None, metadata=_said("A file of API keys, one a line; without it no key is asked for.")
    )
    cors: tuple[str, ...] = field(
        default=(), metadata=_said("An origin whose pages may use the server, or * for all; can be repeated.")
    )
    proxy: tuple[str, ...] = field(
        default=(), metadata=_said("Address of a proxy whose X-Forwarded-For is believed; can be repeated.")
    )

    def __post_init__(self) -> None:
        for one in fields(self):
            least, value = one.metadata["least"], getattr(self, one.name)
            if least is not None and value < least:
                raise UserError(f"{option(one.name)} {value} is too small; the least is {least}")
            most = one.metadata["most"]
            if most is not None and value > most:
                raise UserError(f"{option(one.name)} {value} is too large; the most is {most}")


def option(name: str) -> str:
    """How the command line spells it."""
    return "--" + name.replace("_", "-")


def help_of(name: str) -> str:
    """What a setting means."""
    return str(Settings.__dataclass_fields__[name].metadata["help"])
