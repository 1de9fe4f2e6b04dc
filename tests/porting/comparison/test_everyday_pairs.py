"""Every word that is said of ordinary pairs of trainings is true; silence is allowed,
and counted.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mindsummary_lightning import Comparison
from tests.porting.comparison.everyday_pairs import PAIRS, compared, is_silent, untrue

pytestmark = pytest.mark.slow

SHORT = {name: pair for name, pair in PAIRS.items() if not pair.full}
_SILENT = 16  # pairs that are undecided


@pytest.fixture(scope="module")
def comparison_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Comparison]:
    trained: dict[str, Path] = {}
    results: dict[str, Comparison] = {}

    def compare(name: str) -> Comparison:
        if name not in results:
            results[name] = compared(
                PAIRS[name], tmp_path_factory.getbasetemp() / "everyday", trained
            )
        return results[name]

    return compare


@pytest.mark.parametrize("name", SHORT)
def test_every_word_about_a_pair_is_true(
    name: str, comparison_of: Callable[[str], Comparison]
) -> None:
    comparison = comparison_of(name)

    assert untrue(PAIRS[name], comparison) == [], (PAIRS[name].truth, comparison.sentence)


def test_little_is_left_unsaid(comparison_of: Callable[[str], Comparison]) -> None:
    silent = [name for name, pair in SHORT.items() if is_silent(pair, comparison_of(name))]

    assert len(silent) <= _SILENT, silent
