"""Rules of the listing that import contracts do not see; docs/decisions/0001-the-house.md gives
their reasons.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
PACKAGE = PROJECT / "mindsummary_lightning"
ROOMS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
REPEATING = ("cli", "viewer/pages")  # a module is named after its verb or page


def modules() -> Iterator[tuple[str, Path]]:
    """Every module that is written by hand: its path in the package, and on the disk."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if "_proto" not in path.parts:
            yield name, path


def test_at_most_six_modules_lie_at_the_top() -> None:
    assert len([name for name, _ in modules() if "/" not in name]) <= 6


def test_no_module_name_is_used_twice() -> None:
    names = Counter(
        path.name
        for name, path in modules()
        if path.name != "__init__.py" and not name.startswith(REPEATING)
    )

    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.slow
def test_no_class_name_is_used_twice() -> None:
    names = Counter(
        node.name
        for _, path in modules()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )

    assert [
        name
        for name, count in names.items()
        if count > 1 and name not in ("StepRecorder", "PortCheck")
    ] == []


def test_lightning_is_loaded_by_name_in_the_trainer_room_alone() -> None:
    # importlib is not seen by the contract "Lightning is imported by the trainer":
    # trainer/namespaces loads the second namespace with it.
    loading = [
        name
        for name, path in modules()
        if re.search(r"(import_module|__import__)\(", path.read_text(encoding="utf-8"))
        and re.search(
            r"[\"'](lightning|pytorch_lightning|lightning_fabric)[.\"']",
            path.read_text(encoding="utf-8"),
        )
    ]

    assert [name for name in loading if not name.startswith("trainer/")] == []


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/decisions/0001-the-house.md"])
def test_the_pages_of_the_house_name_every_room(page: str) -> None:
    text = (PROJECT / page).read_text(encoding="utf-8")

    assert [room for room in ROOMS if f"{room}/" not in text] == []


def test_the_tests_mirror_the_rooms() -> None:
    folders = {path.name for path in (PROJECT / "tests").iterdir() if path.is_dir()}

    assert [room for room in ROOMS if room not in folders] == []
