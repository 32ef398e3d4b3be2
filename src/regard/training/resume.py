"""What may be otherwise when a run goes on, and what is said of it."""

import sys
from typing import Any

import torch

from regard.config import Recipe, TrainConfig
from regard.data.cache import fingerprint
from regard.nn import native
from regard.tasks.task import Pairs
from regard.training.prepare import training_corpus

# Keys of training that may differ. (More steps stretch a schedule that ends with them.)
FREE = {"steps", "validate_every", "save_every", "log_every", "keep", "average", "final", "metric", "patience"}
FREE |= {"validation_pairs", "samples", "threads", "device"}

Facts = dict[str, Any]


def changed_keys(saved: Recipe, recipe: Recipe) -> list[str]:
    """What is not as the run began with, of what its updates depend on."""
    changes = []
    for section in ("head", "data", "tokenizer", "train"):
        old, new = getattr(saved, section), getattr(recipe, section)
        for key in type(old).model_fields:
            if (section != "train" or key not in FREE) and getattr(old, key) != getattr(new, key):
                changes.append(f"{section}.{key} was {getattr(old, key)!r}, now {getattr(new, key)!r}")
    if saved.seed != recipe.seed:
        changes.append(f"seed was {saved.seed}, now {recipe.seed}")
    return changes


def changed_data(facts: Facts, recipe: Recipe, pairs: Pairs | None) -> list[str]:
    """Files that are not as they were: of training, and of dev, which says what is best."""
    changes = []
    data, dev = training_corpus(recipe, pairs).facts, fingerprint(recipe.data.dev)
    for key, what, now in (("data", "data", data), ("dev", "dev set", dev)):
        before = facts.get(key, now)
        if before != now:
            names = sorted({name for name, _ in _items(before) ^ _items(now)})
            changes.append(f"the {what} changed: {', '.join(names)}")
    return changes


def _items(facts: Facts) -> set[tuple[str, str]]:
    return {(name, str(value)) for name, value in facts.items()}


def environment(parts: int) -> Facts:
    """What exact resume depends on beside the seed."""
    threads = max(1, torch.get_num_threads() // parts)
    return {
        "python": ".".join(map(str, sys.version_info[:2])),
        "torch": torch.__version__,
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "threads of a part": threads,
        "compiled steps": native.name(),
        "products": native.products(threads),
    }


def elsewhere(before: Facts, now: Facts) -> str:
    """What another environment does to a run that goes on; nothing if it is the same."""
    if before == now:
        return ""
    changed = ", ".join(f"{key}: {before.get(key)} then, {now[key]} now" for key in now if before.get(key) != now[key])
    far = before.get("products", "float32") != now["products"]
    how = "will differ, as from another precision" if far else "may differ in the last bits"
    return f"resumed in another environment ({changed}): results {how}"


def stretched(old: TrainConfig, new: TrainConfig) -> str:
    """What another number of steps does to a schedule that ends with them; nothing if it is the same."""
    if old.steps == new.steps or new.schedule not in ("linear", "cosine"):
        return ""
    return (
        f"steps are {new.steps:,} in place of {old.steps:,}: the {new.schedule} schedule ends with them, so "
        "the learning rate jumps here, and the result is not that of a run planned so from the start"
    )
