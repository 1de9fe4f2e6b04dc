"""Ports with planted mistakes, and right ones: no false alarm, and a mistake is found at its step
and in its class.

Judged against PyTorch itself here; `test_mindspore_ports` judges the same nets against a real
MindSpore.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mindsummary_lightning import Comparison, compare_runs
from tests.porting.comparison.ports.train_with_torch import MISTAKES, Mistake, train

pytestmark = pytest.mark.slow

# Below rounding in losses: what no comparison of recordings can see, or sees a step late.
MISSED = {("mlp", "norm_eps"), ("mlp", "activation")}
PLANTED = [(kind, wrong) for kind, mistakes in MISTAKES.items() for wrong in mistakes]


def is_found(comparison: Comparison, mistake: Mistake) -> bool:
    first = comparison.first_difference
    return first is not None and abs(first.step - mistake.step) <= 1 and first.kind == mistake.kind


def is_named(comparison: Comparison, mistake: Mistake) -> bool:
    return bool(mistake.named) and mistake.named in [hint.rule for hint in comparison.hints]


@pytest.fixture(scope="module")
def comparisons(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Comparison]:
    folder = tmp_path_factory.mktemp("ports")
    results = {}
    for kind, mistakes in MISTAKES.items():
        train(kind, folder / kind / "right")
        for wrong in mistakes:
            train(kind, folder / kind / wrong, wrong)
            results[kind, wrong] = compare_runs(folder / kind / "right", folder / kind / wrong)
    return results


def test_nearly_every_mistake_is_found_at_its_step_and_in_its_class(
    comparisons: dict[tuple[str, str], Comparison],
) -> None:
    found = {
        key
        for key, comparison in comparisons.items()
        if is_found(comparison, MISTAKES[key[0]][key[1]])
    }

    assert {*PLANTED} - found <= MISSED
    assert len(found) >= 0.95 * len(PLANTED)


def test_a_quarter_of_the_mistakes_is_named_by_numbers_and_none_wrongly(
    comparisons: dict[tuple[str, str], Comparison],
) -> None:
    named = [
        key
        for key, comparison in comparisons.items()
        if is_named(comparison, MISTAKES[key[0]][key[1]])
    ]
    wrongly = {
        key: [hint.rule for hint in comparison.hints]
        for key, comparison in comparisons.items()
        if {hint.rule for hint in comparison.hints} - {MISTAKES[key[0]][key[1]].named}
    }

    assert len(named) >= 16
    assert len(wrongly) <= 1, wrongly


@pytest.mark.parametrize("kind", MISTAKES)
def test_the_same_training_twice_is_the_same_and_another_beginning_is_only_a_trend(
    kind: str, tmp_path: Path
) -> None:
    for name, seed in (("a", None), ("b", None), ("c", 3)):
        train(kind, tmp_path / name, seed=seed)

    assert compare_runs(tmp_path / "a", tmp_path / "b").verdict == "same"
    other = compare_runs(tmp_path / "a", tmp_path / "c")
    assert (other.verdict, other.mode, other.first_difference, other.hints) == (
        "different",
        "trend",
        None,
        (),
    )


def test_with_a_gap_between_steps_the_sentence_says_what_is_not_known(tmp_path: Path) -> None:
    train("cnn", tmp_path / "a", freq=10)
    train("cnn", tmp_path / "b", "schedule", freq=10)

    comparison = compare_runs(tmp_path / "a", tmp_path / "b")

    assert comparison.first_difference is not None
    assert (comparison.first_difference.step, comparison.first_difference.after) == (30, 20)
    assert "from step 30 on (up to step 20 they agree)" in comparison.sentence
