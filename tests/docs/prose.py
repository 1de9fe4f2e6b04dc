"""Counts that show whether the prose of the guides is easy to read.

    python -m tests.docs.prose [PAGE ...]

Code, tables, headings, pictures and lists of pages are left out; inline code counts as one word.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.docs.pages import ROOT

LONG = 30  # words; a sentence of more is long
_NOT_GUIDES = ("decisions", "development", "reference", "zh", "changes")

_LEFT_OUT = re.compile(
    r"^```.*?^```$"  # fenced blocks, tables of contents among them
    r"|<!--.*?-->"
    r"|^\|.*?$"  # tables
    r"|^#+ .*?$"
    r"|^!\[.*?$"
    r"|^    .*?$",  # indented code
    re.MULTILINE | re.DOTALL,
)
_INLINE_CODE = re.compile(r"(`+)[^`]+?\1")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_LANGUAGE = re.compile(r"^\[(中文|English)\]\(.*\)$", re.MULTILINE)
_BLOCK_START = re.compile(r"^\s*(?:[-*] |\d+\. )", re.MULTILINE)
_SENTENCE_END = re.compile(r"(?<=[.!?])[*_)\"]*\s+(?=[*_(\"]*[A-Za-z0-9])")
_WORD = re.compile(r"[A-Za-z0-9][\w'./%-]*")

_YOU = re.compile(r"\b(?:you|your|yours|yourself)\b", re.IGNORECASE)
_NOBODY = re.compile(
    r"\b(?:nobody|nothing|none|no one|no \w+ (?:is|are|was|were|has|have|can|may|does|do))\b",
    re.IGNORECASE,
)
_IRREGULAR = (
    "begun|bound|broken|brought|built|bought|caught|chosen|cut|done|drawn|driven|fed|found|given|gone|grown|"
    "held|hidden|kept|known|laid|left|led|lost|made|meant|met|paid|proven|put|read|run|said|seen|sent|set|shown|"
    "shut|spent|split|stuck|taken|taught|thrown|told|understood|won|worn|written"
)
_PASSIVE = re.compile(
    r"\b(?:am|is|are|was|were|be|been|being)\s+(?:(?:not|never|always|also|then|only|still|already|all|both|once|"
    rf"\w+ly)\s+)*(?:\w+ed|{_IRREGULAR})\b",
    re.IGNORECASE,
)
_NO_PARTICIPLE = re.compile(r"\b(?:need|indeed|exceed|speed|seed|feed|embed)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Counts:
    """Counts of some prose.

    Attributes:
        words: number of words.
        you: "you" and "your" in 1,000 words.
        nobody: "nobody", "nothing", "none" and "no X is" in 1,000 words.
        semicolons: in 1,000 words.
        long: sentences of more than ``LONG`` words, in percent.
        passive: sentences with a passive verb, in percent; a form of "be" and a participle.
    """

    words: int
    you: float
    nobody: float
    semicolons: float
    long: float
    passive: float

    @classmethod
    def of(cls, sentences: list[str]) -> Counts:
        """Count sentences."""
        sizes = [len(_WORD.findall(sentence)) for sentence in sentences]
        words, number = sum(sizes), len(sentences)

        def in_thousand_words(pattern: re.Pattern[str]) -> float:
            found = sum(len(pattern.findall(sentence)) for sentence in sentences)
            return 1000 * found / max(words, 1)

        def percent(of_sentences: int) -> float:
            return 100 * of_sentences / max(number, 1)

        return cls(
            words,
            in_thousand_words(_YOU),
            in_thousand_words(_NOBODY),
            in_thousand_words(re.compile(";")),
            percent(sum(size > LONG for size in sizes)),
            percent(sum(map(_is_passive, sentences))),
        )


def guides() -> list[str]:
    """The English pages for users, seen from the root, and the README."""
    below = (path.relative_to(ROOT) for path in sorted((ROOT / "docs").rglob("*.md")))
    return [
        "README.md",
        *(path.as_posix() for path in below if not {*_NOT_GUIDES} & {*path.parts}),
    ]


def sentences_of(name: str) -> list[str]:
    """The sentences of a page in its order."""
    text = _LANGUAGE.sub("", (ROOT / name).read_text(encoding="utf-8"))
    # an item's second line is indented as code is: a paragraph of code has an empty line before it
    text = _LEFT_OUT.sub("", re.sub(r"(?<=\S)\n +(?=\S)", " ", text))
    text = _LINK.sub(r"\1", _INLINE_CODE.sub("Code", text))
    paragraphs = re.split(r"\n\s*\n", _BLOCK_START.sub("\n\n", text))
    sentences = [
        sentence.strip()
        for paragraph in paragraphs
        for sentence in _SENTENCE_END.split(" ".join(paragraph.split()))
    ]
    return [sentence for sentence in sentences if len(_WORD.findall(sentence)) > 1]


def count(names: Iterable[str]) -> Counts:
    """The counts of some pages together."""
    return Counts.of([sentence for name in names for sentence in sentences_of(name)])


def words_of(name: str) -> int:
    """All words of a page, its code and tables among them, as ``wc -w`` counts them."""
    return len((ROOT / name).read_text(encoding="utf-8").split())


def _is_passive(sentence: str) -> bool:
    return _PASSIVE.search(_NO_PARTICIPLE.sub("", sentence)) is not None


def _row(name: str, all_words: int, counts: Counts) -> str:
    return (
        f"{name:42}{all_words:7}{counts.words:7}{counts.you:7.1f}{counts.nobody:8.1f}"
        f"{counts.semicolons:11.1f}{counts.long:6.1f}{counts.passive:9.1f}"
    )


def main(names: list[str]) -> None:
    """Print a row for each page and one for all of them."""
    print(
        f"{'page':42}{'wc -w':>7}{'prose':>7}{'you':>7}{'nobody':>8}"
        f"{'semicolons':>11}{'long':>6}{'passive':>9}"
    )
    for name in names:
        print(_row(name, words_of(name), count([name])))
    print(_row("all", sum(map(words_of, names)), count(names)))


if __name__ == "__main__":
    main([Path(name).as_posix() for name in sys.argv[1:]] or guides())
