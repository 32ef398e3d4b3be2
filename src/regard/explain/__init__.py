"""RISE: why any black box gives the score it gives, by hiding parts of its input at random.

    from regard.explain import image, text, why

    text(score, "not a good film")          # score: a list of texts to an array of scores
    image(classify, pixels)                 # classify: a batch of images to an array of scores
    why(regard.load("runs/demo"), "this cat is very large")  # each output word over each source word

Each has a twin that yields the map as it gets clearer: `text_steps`, `image_steps`, `why_steps`. The method itself, for
masks of any other kind, is `regard.explain.rise`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.explain.endpoint import Endpoint as Endpoint
    from regard.explain.picture import ImageExplanation as ImageExplanation
    from regard.explain.picture import image as image
    from regard.explain.picture import image_steps as image_steps
    from regard.explain.result import Explanation as Explanation
    from regard.explain.rise import Plan as Plan
    from regard.explain.rise import Saliency as Saliency
    from regard.explain.translation import why as why
    from regard.explain.translation import why_steps as why_steps
    from regard.explain.words import text as text
    from regard.explain.words import text_steps as text_steps

_HOMES = {
    "Endpoint": "endpoint",
    "Explanation": "result",
    "ImageExplanation": "picture",
    "Plan": "rise",
    "Saliency": "rise",
    "image": "picture",
    "image_steps": "picture",
    "text": "words",
    "text_steps": "words",
    "why": "translation",
    "why_steps": "translation",
}
__all__ = [
    "Endpoint",
    "Explanation",
    "ImageExplanation",
    "Plan",
    "Saliency",
    "image",
    "image_steps",
    "text",
    "text_steps",
    "why",
    "why_steps",
]


def __getattr__(name: str) -> Any:
    """Imported when first used: only `why` needs torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'regard.explain' has no attribute {name!r}")
    return getattr(import_module(f"regard.explain.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
