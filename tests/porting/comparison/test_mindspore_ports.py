"""The nets as a real MindSpore trained them, beside their ports; ``nox -s parity`` makes
the runs.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mindsummary_lightning import compare_runs
from tests.porting.comparison.ports.train_with_torch import MISTAKES, train
from tests.porting.comparison.test_ports import MISSED, PLANTED, is_found

RUNS = os.environ.get("MINDSPORE_RUNS", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not RUNS, reason="MINDSPORE_RUNS names no runs of MindSpore; `nox -s parity` makes them"
    ),
]


# Rounding moves a bias that has no effect, or that is trained on few samples.
ONLY_BIASES_DIFFER = ("attention", "regression")


@pytest.mark.parametrize("kind", MISTAKES)
def test_a_right_port_does_not_differ(kind: str, tmp_path: Path) -> None:
    train(kind, tmp_path / "right")

    comparison = compare_runs(Path(RUNS) / kind, tmp_path / "right")

    if comparison.verdict != "same":
        assert (comparison.doubt, kind in ONLY_BIASES_DIFFER) == ("biases", True)
    assert (comparison.only_in_baseline.tensors, comparison.only_in_candidate.tensors) == ((), ())


def test_what_mindspore_trained_twice_is_the_same() -> None:
    comparison = compare_runs(Path(RUNS) / "cnn", Path(RUNS) / "again" / "cnn")

    assert (comparison.verdict, comparison.largest) == ("same", (0.0, 0.0))


def test_mistakes_of_a_port_are_found_at_their_step(tmp_path: Path) -> None:
    found, different = set(), set()
    for kind, mistakes in MISTAKES.items():
        for wrong, mistake in mistakes.items():
            train(kind, tmp_path / kind / wrong, wrong)
            comparison = compare_runs(Path(RUNS) / kind, tmp_path / kind / wrong)
            if is_found(comparison, mistake):
                found.add((kind, wrong))
            if comparison.verdict == "different":
                different.add((kind, wrong))

    assert {*PLANTED} - found <= MISSED
    assert len(different) >= 47
