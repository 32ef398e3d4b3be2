"""The model card: a bundle's README.md, made from its facts alone."""

from typing import Any


def card(facts: dict[str, Any]) -> str:
    """Markdown that says what the model is, how good it is by which measure, and what it was made of."""
    source, target = facts["languages"]["source"], facts["languages"]["target"]
    config, training = facts["architecture"]["config"], facts["training"]
    lines = [
        f"# {source} → {target}",
        "",
        f"A translation model: {facts['architecture']['name']}, {facts['parameters']:,} parameters, "
        f"{config['encoder_layers']} + {config['decoder_layers']} layers, width {config['d_model']}, "
        f"{config['heads']} heads. Made with Regard {facts['regard']}.",
        "",
        "```python",
        "import regard",
        'regard.load("this folder").translate(["a sentence"])',
        "```",
        "",
        "## Scores",
        "",
    ]
    lines += _scores(facts["scores"])
    lines += ["", "## Training", ""]
    lines += [f"- {name.replace('_', ' ')}: {_plain(value)}" for name, value in training.items() if name != "recipe"]
    lines += [f"- longest side trained on: {facts['max_length']} tokens; longer input is translated in parts"]
    lines += ["", "## Data licences", ""]
    lines += [f"- {licence}" for licence in facts["licences"]] or ["None was stated in the recipe."]
    lines += [
        "",
        "## Limits",
        "",
        "It knows what its training pairs showed it. Other kinds of text, and much longer sentences, come out worse.",
        "",
    ]
    return "\n".join(lines)


def _scores(scores: dict[str, Any]) -> list[str]:
    if not scores:
        return ["Not scored yet: `regard evaluate`."]
    lines = ["| set | metric | score | signature |", "|---|---|---|---|"]
    for name, found in scores.items():
        for metric, value in found.items():
            spread = "" if value["interval"] is None else f" ± {value['interval']:.2f}"
            lines.append(f"| {name} | {metric} | {value['value']:.2f}{spread} | `{value['signature']}` |")
    return lines


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{k} {_plain(v)}" for k, v in value.items())
    return str(value)
