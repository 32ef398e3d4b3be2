"""An explanation as a page that is complete in itself: saliency.js with its data, loading nothing."""

import base64
import hashlib
import re
from html import escape
from typing import Any

from regard.view import page

_PLACE = re.compile(r"\{\{(\w+)\}\}")
_START = """{
  const root = document.querySelector("[data-root]");
  root.replaceChildren();
  saliency_js.mount(root, JSON.parse(document.querySelector("[data-json]").textContent));
  document.documentElement.dataset.ready = "";
}
"""


def html(data: dict[str, Any], picture: str) -> str:
    """The page of `Explanation.to_dict()`; picture: the SVG that stands there where scripts do not run."""
    style = page.part("style.css") + page.part("look.css") + page.part("saliency.css")
    script = page.bundled("saliency.js") + _START
    shown = {"Input": data["text"], "Output": data["output"]}
    parts = {
        "policy": f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'",
        "title": escape(f"Explanation: {data['output'] or data['text']}"),
        "pair": "".join(f'<dt>{name}</dt><dd dir="auto">{escape(text)}</dd>' for name, text in shown.items() if text),
        "style": style,
        "script": script,
        "data": page.embedded(data),
        "picture": picture,
    }
    return _PLACE.sub(lambda match: parts[match[1]], page.part("explain.html"))


def framed(document: str) -> str:
    """The page inside a notebook's cell."""
    frame = 'width="100%" height="860" style="border:0" sandbox="allow-scripts" title="Explanation"'
    return f'<iframe srcdoc="{escape(document, quote=True)}" {frame}></iframe>'


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
