"""Text of runs in a form that the front end takes for text: it inserts names as HTML and writes graphs in DOT.

In JSON a word joiner, which shows nothing, follows each ``<`` and ``&``, so that neither begins a tag or an entity. The
front end sends names back as it got them; in requests the joiner is taken out again.
"""

from __future__ import annotations

from typing import Any

_JOINER = "\u2060"
_MARKS = ("<", "&")
_DRAWABLE = str.maketrans({"<": "(", ">": ")", '"': "'", "\\": "\u2216"})
_DRAWN_KEYS = ("op_type", "tensor_op_name")


def without_markup(json_text: str) -> str:
    """JSON whose strings hold no markup; outside of strings JSON has none of the characters."""
    for mark in _MARKS:
        json_text = json_text.replace(mark, f"{mark}\\u2060")
    return json_text


def as_recorded(text: str) -> str:
    """A text of a request as the run has it."""
    for mark in _MARKS:
        text = text.replace(mark + _JOINER, mark)
    return text


def body_as_recorded(body: bytes) -> bytes:
    """The body of a request with its texts as the run has them; browsers do not escape these characters in JSON."""
    for mark in _MARKS:
        body = body.replace((mark + _JOINER).encode(), mark.encode())
    return body


def drawable(name: str) -> str:
    """A name that the page may write into DOT, which it does without escaping."""
    return name.translate(_DRAWABLE)


def drawable_pipeline(value: Any) -> Any:
    """A data pipeline whose names of operations may be written into DOT."""
    if isinstance(value, dict):
        return {
            key: drawable(part) if key in _DRAWN_KEYS and isinstance(part, str) else drawable_pipeline(part)
            for key, part in value.items()
        }
    return [drawable_pipeline(part) for part in value] if isinstance(value, list) else value
