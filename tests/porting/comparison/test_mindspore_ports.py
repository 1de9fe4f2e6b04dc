"""The nets as a real MindSpore trained them, beside their ports; ``nox -s parity`` makes
the runs.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mindsummary_lightning import compare_runs
from tests.porting.comparison.ports.train_with_torch import MISTAKES, train
from tests.porting.comparison.test_ports import MISSED, PLANTED, is_found, is_named

RUNS = os.environ.get("MINDSPORE_RUNS", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not RUNS, reason="MINDSPORE_RUNS names no runs of MindSpore; `nox -s parity` makes them"
    ),
]


@pytest.mark.parametrize("kind", MISTAKES)
def test_a_right_port_is_the_same(kind: str, tmp_path: Path) -> None:
    train(kind, tmp_path / "right")

    comparison = compare_runs(Path(RUNS) / kind, tmp_path / "right")

    assert (comparison.verdict, comparison.mode) == ("same", "exact"), comparison.sentence
    assert comparison.unmatched == {"a": (), "b": ()}


def test_what_mindspore_trained_twice_is_the_same() -> None:
    comparison = compare_runs(Path(RUNS) / "cnn", Path(RUNS) / "again" / "cnn")

    assert (comparison.verdict, comparison.largest) == ("same", {"loss": 0.0, "tensor": 0.0})


def test_a_parameter_that_walks_while_no_loss_shows_it_is_a_remark_and_no_difference(
    tmp_path: Path,
) -> None:
    train("attention", tmp_path / "right")

    comparison = compare_runs(Path(RUNS) / "attention", tmp_path / "right")

    assert [(hint.rule, hint.numbers["tensor"]) for hint in comparison.hints] == [
        ("walks", "key.bias")
    ]


def test_mistakes_of_a_port_are_found_and_named(tmp_path: Path) -> None:
    found, named = set(), set()
    for kind, mistakes in MISTAKES.items():
        for wrong, mistake in mistakes.items():
            train(kind, tmp_path / kind / wrong, wrong)
            comparison = compare_runs(Path(RUNS) / kind, tmp_path / kind / wrong)
            found |= {(kind, wrong)} if is_found(comparison, mistake) else set()
            named |= {(kind, wrong)} if is_named(comparison, mistake) else set()

    assert {*PLANTED} - found <= MISSED
    assert len(named) >= 16
