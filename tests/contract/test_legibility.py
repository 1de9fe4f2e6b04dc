"""Rules that ruff does not have: dense expressions, and docstrings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
PACKAGE = PROJECT / "mindsummary_lightning"
# Packages that are being worked on. Delete each line when its package is done.
PENDING: tuple[str, ...] = ()
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
# Dense expressions that stay, by module and function, with the reason.
EXCEPTIONS = {
    # a hundred million values in a run: the walrus saves a second index
    ("fileformat/event_outline.py", "_bounds"),
}
LONGEST_SUMMARY = 80
# Words that stand for a noun, which a reader of the first line does not have.
PRONOUN = re.compile(r"\b(that of|what|ones|others)\b", re.IGNORECASE)
# Words that need a noun behind them, and that word.
BEFORE_NOUN = re.compile(r"\b(those|one|other|each)\b(\s+\w+)?", re.IGNORECASE)
NO_NOUN = re.compile(
    "|an?|and|are|as|at|by|for|from|has|have|in|into|is|its?|of|on|or|than|that|the|to|was|were|"
    "when|where|which|while|whose|with"
)

CODE = re.compile("``.*?``")


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if "_proto" not in path.parts and not name.startswith(PENDING):
            yield name, ast.parse(path.read_text(encoding="utf-8"))


def functions(module: ast.Module) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef):
            yield node


def is_dense(node: ast.AST) -> bool:
    """Tell whether a newcomer would stop at the expression.

    It is a comprehension in a comprehension, a walrus in `and` or `or`, or an unpacked generator.
    """
    if isinstance(node, COMPREHENSIONS):
        inner = [part for part in ast.walk(node) if isinstance(part, COMPREHENSIONS)]
        return len(inner) > 1
    if isinstance(node, ast.BoolOp):
        return any(isinstance(part, ast.NamedExpr) for part in ast.walk(node))
    if isinstance(node, ast.Assign):
        is_unpacked = isinstance(node.targets[0], (ast.Tuple, ast.List))
        return is_unpacked and isinstance(node.value, ast.GeneratorExp)
    return False


def lacks_noun(line: str) -> bool:
    """Tell whether a first line has a pronoun whose noun is not in it."""
    text = CODE.sub("code", line)
    if PRONOUN.search(text):
        return True
    following = [(found[2] or "").strip().lower() for found in BEFORE_NOUN.finditer(text)]
    return any(NO_NOUN.fullmatch(word) for word in following)


@pytest.mark.parametrize(
    ("line", "is_wrong"),
    [
        ("Return what was recorded.", True),
        ("Tell whether each is recorded.", True),
        ("Compare a tensor with the other.", True),
        ("Return the rows of each module.", False),
        ("Check one recorded step.", False),
    ],
)
def test_a_word_that_needs_a_noun_is_found(line: str, is_wrong: bool) -> None:
    assert lacks_noun(line) == is_wrong


def documented(module: ast.Module) -> Iterator[tuple[str, str]]:
    """Names and first lines of docstrings."""
    for node in ast.walk(module):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "name", ""), text.split("\n")[0]


@pytest.mark.slow
def test_no_expression_holds_another_one_that_needs_a_name() -> None:
    dense = set()
    for name, module in modules():
        for function in functions(module):
            if any(map(is_dense, ast.walk(function))):
                dense.add((name, function.name))

    assert dense - EXCEPTIONS == set()


@pytest.mark.slow
def test_a_docstring_begins_with_a_short_line_that_names_its_thing() -> None:
    wrong = []
    for name, module in modules():
        for thing, line in documented(module):
            if len(line) > LONGEST_SUMMARY or lacks_noun(line):
                wrong.append(f"{name} {thing}: {line}")

    assert wrong == []
