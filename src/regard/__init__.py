"""Regard: the Transformer family as one library and one command."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard import explain as explain
    from regard.api import Model as Model
    from regard.api import load as load
    from regard.api import train as train
    from regard.errors import UserError as UserError
    from regard.view.look import Look as Look
    from regard.view.look import look as look
    from regard.view.record import Trace as Trace
    from regard.view.record import record as record

__version__ = "0.1.0"
_HOMES = {
    "Look": "regard.view.look",
    "Model": "regard.api",
    "Trace": "regard.view.record",
    "UserError": "regard.errors",
    "load": "regard.api",
    "look": "regard.view.look",
    "record": "regard.view.record",
    "train": "regard.api",
}
__all__ = ["Look", "Model", "Trace", "UserError", "__version__", "explain", "load", "look", "record", "train"]


def __getattr__(name: str) -> Any:
    """Names are imported when first used, so that `import regard` and `regard --help` do not wait for torch."""
    if name == "explain":
        return import_module("regard.explain")
    if name not in _HOMES:
        raise AttributeError(f"module 'regard' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
