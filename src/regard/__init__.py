"""Regard: the Transformer family as one library and one command."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.api import Model as Model
    from regard.api import load as load
    from regard.api import train as train
    from regard.errors import UserError as UserError

__version__ = "0.1.0"
__all__ = ["Model", "UserError", "__version__", "load", "train"]


def __getattr__(name: str) -> Any:
    """Names are imported when first used, so that `import regard` and `regard --help` do not wait for torch."""
    if name == "UserError":
        from regard.errors import UserError

        return UserError
    if name in ("Model", "load", "train"):
        from regard import api

        return getattr(api, name)
    raise AttributeError(f"module 'regard' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
