"""The model card: a bundle's README.md, made from its facts alone."""

from typing import Any


def card(facts: dict[str, Any]) -> str:
    """Markdown that says what the model is, how good it is by which measure, and what it was made of."""
    config, training = facts["architecture"]["config"], facts["training"]
    title, use = _use(facts)
    lines = [
        f"# {title}",
        "",
        f"A model for {facts['task']}: {facts['architecture']['name']}, {facts['parameters']:,} parameters, "
        f"{shape(config)}. Made with Regard {facts['regard']}.",
        "",
        "```python",
        "import regard",
        f'regard.load("this folder").{use}',
        "```",
        "",
        "## Scores",
        "",
    ]
    lines += _scores(facts["scores"])
    lines += ["", "## Training", ""]
    lines += [f"- {name.replace('_', ' ')}: {_plain(value)}" for name, value in training.items() if name != "recipe"]
    if facts["task"] == "translation":
        lines += [f"- longest side trained on: {facts['max_length']} tokens; longer input is translated in parts"]
    lines += ["", "## Data licences", ""]
    lines += [f"- {licence}" for licence in facts["licences"]] or ["None was stated in the recipe."]
    lines += [
        "",
        "## Limits",
        "",
        "It knows what its training data showed it. Other kinds of text, and much longer sentences, come out worse.",
        "",
    ]
    return "\n".join(lines)


def shape(config: dict[str, Any]) -> str:
    """A network's layers, width and heads, if it has them, in words."""
    both = [config[key] for key in ("encoder_layers", "decoder_layers", "layers") if key in config]
    told = [f"{' + '.join(map(str, both))} layers"] if both else []
    told += [f"windows of {', '.join(map(str, config['windows']))}"] if "windows" in config else []
    return ", ".join(
        [*told, f"width {config['d_model']}", *([f"{config['heads']} heads"] if "heads" in config else [])]
    )


def _use(facts: dict[str, Any]) -> tuple[str, str]:
    """A title, and how the model is called."""
    if facts["task"] == "translation":
        return f"{facts['languages']['source']} → {facts['languages']['target']}", 'translate(["a sentence"])'
    if facts["task"] == "summarisation":
        return "Summarisation", 'translate(["a text"])'
    if facts["task"] == "masked":
        return "Masked words", f'predict("a {facts.get("mask", "<mask>")} of text")'
    if facts["task"] == "language":
        return "Language model", 'generate("How a text begins")'
    labels = facts.get("labels", [])
    told = f": {', '.join(labels[:8])}{', …' if len(labels) > 8 else ''}" if labels else ""
    return f"{facts['task'].capitalize()}{told}", 'predict("a text")'


def _scores(scores: dict[str, Any]) -> list[str]:
    if not scores:
        return ["Not scored yet: `regard evaluate`."]
    lines = ["| set | metric | score | signature |", "|---|---|---|---|"]
    for name, found in scores.items():
        for metric, value in found.items():
            spread = "" if value.get("interval") is None else f" ± {value['interval']:.2f}"
            digits = 2 if "signature" in value else 4  # BLEU goes to 100, accuracy to 1
            signature = f"`{value['signature']}`" if "signature" in value else ""
            of = f" of {value['of']}" if "of" in value else ""
            lines.append(f"| {name} | {metric}{of} | {value['value']:.{digits}f}{spread} | {signature} |")
    return lines


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{k} {_plain(v)}" for k, v in value.items())
    return str(value)
