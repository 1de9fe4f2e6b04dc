"""HTML of this package's own pages: head, link to the table of runs, error pages."""

from __future__ import annotations

import functools
import importlib.resources
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from urllib.parse import urlencode

from mindsummary_lightning.values.text import Phrase, utf8_text
from mindsummary_lightning.viewer.api import ApiRequest, PageError

_BODY = re.compile(r"<body[^>]*>")
_STYLE = (
    "<style>nav.back { font: 14px system-ui, sans-serif; margin-bottom: 12px; }"
    "nav.back a { color: #0059b3; }"
    "@media (prefers-color-scheme: dark) { nav.back a { color: #8ab8ff; } }</style>"
)
_BACK = "\u2190 table of runs"
_TABLE = "../../runs"  # of the table of runs, as seen from the pages below v1/mindinsight/


def is_chinese(request: ApiRequest) -> bool:
    """Tell whether the request asks for a page in Chinese (``language=zh``)."""
    return request.first("language") == "zh"


@dataclass(frozen=True, slots=True)
class PageWords:
    """Translator of the texts of this package's own pages, with escapes for HTML."""

    in_chinese: bool

    def __call__(self, text: str, *values: object) -> str:
        """Translate a text, put values into it, and escape it for HTML."""
        return self.phrase(Phrase(text, *values))

    def phrase(self, phrase: Phrase | str) -> str:
        """Translate a phrase and the phrases inside it, and escape it for HTML."""
        text = phrase if isinstance(phrase, Phrase) else Phrase(phrase)
        return escape(text.said(_chinese() if self.in_chinese else {}))


@functools.cache
def _chinese() -> dict[str, str]:
    file = importlib.resources.files("mindsummary_lightning.viewer") / "pages_zh.json"
    words: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    return words


def page_of(title: str, body: str, words: PageWords) -> bytes:
    """Make a complete HTML page from a title (plain text) and a body (HTML)."""
    language = "zh-CN" if words.in_chinese else "en"
    page = (
        f'<!DOCTYPE html>\n<html lang="{language}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{escape(title)}</title><link rel="stylesheet" href="../../page.css">'
        f'<link rel="icon" href="data:,"></head><body>{body}</body></html>\n'
    )
    return utf8_text(page).encode()


def back_link(train_ids: Sequence[str], words: PageWords) -> str:
    """Return HTML of a link to the table of runs, with the given runs selected."""
    ticked = urlencode([("tick", train_id) for train_id in train_ids])
    address = escape(f"{_TABLE}#{ticked}" if ticked else _TABLE)
    return f'<nav class="back"><a href="{address}">{words(_BACK)}</a></nav>'


def with_back_link(page: str, train_ids: Sequence[str], words: PageWords) -> str:
    """Insert a link to the table of runs into a finished HTML page."""
    link = back_link(train_ids, words)
    framed = page.replace("</head>", f"{_STYLE}</head>", 1)
    return _BODY.sub(lambda body: body.group() + link, framed, count=1)


def missing_run(name: str, train_id: str, words: PageWords) -> PageError:
    """Return the 404 error for a query parameter that names no existing run."""
    text = words("{} is not a run of this directory. It may have been deleted or moved.", train_id)
    return _refusal(f"Invalid parameter value. {name!r} is not a run.", text, 404, words)


def unreadable_run(reason: object, words: PageWords) -> PageError:
    """Return the 400 error for a run that cannot be read."""
    text = words("The runs cannot be read: {}", reason)
    return _refusal(f"The runs cannot be compared: {reason}", text, 400, words)


def _refusal(message: str, text: str, status: int, words: PageWords) -> PageError:
    body = f"{back_link((), words)}<main><h1>{text}</h1></main>"
    return PageError(message, page_of(message, body, words), status)
