"""Pages that are complete in themselves: template, style, modules and data in one file that loads nothing."""

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from functools import cache
from graphlib import TopologicalSorter
from html import escape
from importlib import resources
from typing import Any

# In JSON strings these are the same characters; in HTML they can no longer end the element they stand in.
_HARMFUL = "<>&\u2028\u2029"
STILL = 64 * 64  # cells of a picture that stands in a page for where scripts do not run
LONG = 400  # characters of both texts, from which they are written smaller
_PLACE = re.compile(r"\{\{(\w+)\}\}")
_IMPORT = re.compile(r'^import \{ (.+) \} from "regard/(\w+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?function|const) (\w+)", re.MULTILINE)


def make(data: dict[str, Any], picture: str, view: str) -> str:
    """The page for `Look.to_page()`, opened at a view; `picture` is the SVG that is shown where scripts do not run."""
    from regard import __version__

    parts = {
        "title": escape(f"Attention: {data['source']}"),
        "view": escape(view),
        "length": " long" if len(data["source"] + data["target"]) > LONG else "",
        "source": escape(data["source"]),
        "target": escape(data["target"] or "(nothing)"),
        "picture": picture,
        "version": escape(__version__),
    }
    return document(
        "look.html", parts, data, ["style.css", "look.css"], bundled("look.js") + "look_js.start(document);\n"
    )


def document(template: str, parts: dict[str, str], data: Any, styles: Sequence[str], script: str) -> str:
    """A page from its template, whose policy lets its own style and script alone in. parts: HTML, escaped already."""
    style = "".join(map(part, styles))
    parts = parts | {
        "policy": f"default-src 'none'; img-src data:; style-src {hashed(style)}; script-src {hashed(script)}; "
        "base-uri 'none'; form-action 'none'",
        "style": style,
        "script": script,
        "data": embedded(data),
    }
    # In one pass: what is put in is never searched for places again.
    return _PLACE.sub(lambda match: parts[match[1]], part("head.html") + part(template))


def framed(document: str, title: str) -> str:
    """A page inside a notebook's cell."""
    frame = f'width="100%" height="900" style="border:0" sandbox="allow-scripts" title="{escape(title)}"'
    return f'<iframe srcdoc="{escape(document, quote=True)}" {frame}></iframe>'


def embedded(data: Any) -> str:
    """JSON that is safe inside a script element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in _HARMFUL:
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


@cache
def bundled(name: str) -> str:
    """A module and all that it imports as one script, each module a function that gives its exports.

    A page could import modules from data: addresses, but then its policy would have to allow every such address. One
    script is allowed by its hash, and nothing else runs.
    """
    needs: dict[str, list[str]] = {}
    waiting = [name]
    while waiting:
        module = waiting.pop()
        if module not in needs:
            needs[module] = [found[1] for found in _IMPORT.findall(part(module))]
            waiting += needs[module]
    return "".join(map(_wrapped, TopologicalSorter(needs).static_order()))


def _wrapped(name: str) -> str:
    text = part(name)
    exports = ", ".join(found for _, found in _EXPORT.findall(text))

    def imported(match: re.Match[str]) -> str:
        return f"const {{ {match[1].replace(' as ', ': ')} }} = {match[2].replace('.', '_')};\n"

    body = _EXPORT.sub(r"\1 \2", _IMPORT.sub(imported, text))
    if re.search(r"^(import|export)\b", body, re.MULTILINE):
        raise ValueError(f"{name}: an import or export is not in the one form that the page is made from")
    return f"const {name.replace('.', '_')} = (() => {{\n{body}return {{ {exports} }};\n}})();\n"


def part(name: str) -> str:
    return resources.files("regard.view").joinpath("page", name).read_text(encoding="utf-8")


def hashed(text: str) -> str:
    """A style or script as a policy names it."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
