"""Text as the format holds it."""

from __future__ import annotations

__all__ = ["utf8_text"]


def utf8_text(text: str) -> str:
    """The text with every lone surrogate, which UTF-8 cannot hold, written as its escape."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
