"""Options shared by verbs, and their checks: in one place, with a user's mistake as one clear line."""

from typing import Any, Literal

from regard.errors import UserError

EngineName = Literal["torch", "ctranslate2"]
Precision = Literal["float32", "int8"]


def refuse(when: bool, why: str, options: dict[str, Any]) -> None:
    """Options that mean nothing here are told, not passed over."""
    for option, value in options.items():
        if when and value is not None:
            raise UserError(f"{option} {why}")


def refuse_columns(task: str, options: dict[str, Any]) -> None:
    """Tables and columns of words have columns to be named; texts and questions have none."""
    given = {option: value or None for option, value in options.items()}
    refuse(task not in ("classification", "tagging"), f"names columns; a model for {task} reads none", given)


def decode_options(**given: Any) -> dict[str, Any]:
    """The options that were given, checked."""
    from pydantic import ValidationError

    from regard.decode.options import DecodeOptions

    chosen = {name: value for name, value in given.items() if value is not None}
    try:
        DecodeOptions.model_validate({"beam": chosen.get("n_best") or 4} | chosen)
    except ValidationError as error:
        problem = error.errors()[0]
        name = "".join(f"--{str(part).replace('_', '-')}: " for part in problem["loc"])
        raise UserError(name + problem["msg"].removeprefix("Value error, ")) from None
    return chosen
