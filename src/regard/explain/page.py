"""An explanation as a page that is complete in itself: saliency.js with its data, loading nothing."""

from html import escape
from typing import Any

from regard.view import page

_START = """{
  const root = document.querySelector("[data-root]");
  root.replaceChildren();
  saliency_js.mount(root, JSON.parse(document.querySelector("[data-json]").textContent));
  document.documentElement.dataset.ready = "";
}
"""


def html(data: dict[str, Any], picture: str) -> str:
    """The page of `Explanation.to_dict()`; picture: the SVG that stands there where scripts do not run."""
    shown = {"Input": data["text"], "Output": data["output"]}
    parts = {
        "title": escape(f"Explanation: {data['output'] or data['text']}"),
        "pair": "".join(f'<dt>{name}</dt><dd dir="auto">{escape(text)}</dd>' for name, text in shown.items() if text),
        "picture": picture,
    }
    styles = ["style.css", "look.css", "saliency.css"]
    return page.document("explain.html", parts, data, styles, page.bundled("saliency.js") + _START)
