"""Text as the format holds it, and as a terminal may show it."""

from __future__ import annotations


def utf8_text(text: str) -> str:
    """The text with every lone surrogate, which UTF-8 cannot hold, written as its escape."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def printable(text: str) -> str:
    r"""The text with every character that does not print written as its JSON escape, such as ``\u001b``.

    For whatever was recorded, or named, by someone else and is about to reach a terminal or a log: control characters
    could rewrite the screen, and bidirectional marks reorder what is read. In a JSON text the result means the same.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def error_text(error: BaseException) -> str:
    """The message of an error, or its type's name if it has none or fails to give it."""
    try:
        return printable(str(error)) or type(error).__name__
    except KeyboardInterrupt:
        raise
    except BaseException:  # a user's class of errors; SystemExit is no better than the others here
        return type(error).__name__
