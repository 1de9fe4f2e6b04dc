"""Each number of the tolerance table has unit, source and test, and is in the docs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mindsummary_lightning.porting.comparison.tolerance_table import ALL_BOUNDS, Bound
from tests.docs.pages import ROOT

HERE = Path(__file__).parent


def test_the_table_is_short() -> None:
    assert 0 < len(ALL_BOUNDS) <= 20


@pytest.mark.parametrize("name", ALL_BOUNDS)
def test_a_number_says_what_it_bounds_and_names_a_test(name: str) -> None:
    bound: Bound = ALL_BOUNDS[name]
    file, _, function = bound.test.partition("::")

    assert all((bound.bounds, bound.unit, bound.source))
    assert f"def {function}(" in (HERE / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ALL_BOUNDS)
def test_the_reference_page_shows_every_number(name: str) -> None:
    page = (ROOT / "docs" / "reference" / "comparison.md").read_text(encoding="utf-8")
    row = re.search(rf"^\| `{name}` \| (\S+) \|", page, re.MULTILINE)

    assert row is not None
    assert float(row[1]) == pytest.approx(float(ALL_BOUNDS[name]), rel=0.01)


def test_no_other_module_of_the_comparison_holds_a_float_of_its_own() -> None:
    folder = ROOT / "mindsummary_lightning" / "porting" / "comparison"
    found = []
    for path in folder.rglob("*.py"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if re.match(r"_?[A-Z_]+ = -?\d*\.\d+|_?[A-Z_]+ = \d+e-?\d+", line):
                found.append(f"{path.name}: {line}")

    assert [line for line in found if "_TINY" not in line] == []
