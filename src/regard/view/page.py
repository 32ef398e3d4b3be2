"""Puts the attention page together: template, style, script and data in one file that loads nothing."""

import base64
import hashlib
import json
import re
from html import escape
from importlib import resources
from typing import Any

# In JSON strings these are the same characters; in HTML they can no longer end the element they stand in.
_HARMLESS = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})
_PLACE = re.compile(r"\{\{(\w+)\}\}")


def make(data: dict[str, Any], picture: str) -> str:
    """The page for `Look.to_dict()`; `picture` is the SVG that is shown where scripts do not run."""
    from regard import __version__

    style, script = _part("page.css"), _part("page.js")
    parts = {
        "policy": f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'",
        "title": escape(f"Attention: {data['source']}"),
        "source": escape(data["source"]),
        "target": escape(data["target"] or "(nothing)"),
        "style": style,
        "script": script,
        "data": embedded(data),
        "picture": picture,
        "version": escape(__version__),
    }
    # In one pass: what is put in is never searched for places again.
    return _PLACE.sub(lambda match: parts[match[1]], _part("page.html"))


def embedded(data: Any) -> str:
    """JSON that is safe inside a script element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.translate(_HARMLESS)


def _part(name: str) -> str:
    return resources.files("regard.view").joinpath("page", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
