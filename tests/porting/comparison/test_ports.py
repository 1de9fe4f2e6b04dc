"""Ports with planted mistakes, and right ones: no false alarm, and a mistake is found at its step.

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
    """Whether the numbers exceed their tolerance where the mistake is made, or a step later."""
    first = comparison.shown_difference
    return first is not None and abs(first.step - mistake.step) <= 1


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


def test_nearly_every_mistake_is_found_at_its_step(
    comparisons: dict[tuple[str, str], Comparison],
) -> None:
    found = set()
    for key, comparison in comparisons.items():
        if is_found(comparison, MISTAKES[key[0]][key[1]]):
            found.add(key)

    assert {*PLANTED} - found <= MISSED


def test_only_two_mistakes_are_not_called_different(
    comparisons: dict[tuple[str, str], Comparison],
) -> None:
    verdicts = {key: comparison.verdict for key, comparison in comparisons.items()}

    assert {key for key, verdict in verdicts.items() if verdict != "different"} <= MISSED


def test_without_output_statistics_no_stage_is_named(
    comparisons: dict[tuple[str, str], Comparison],
) -> None:
    for comparison in comparisons.values():
        assert comparison.shown_difference is None or comparison.shown_difference.stage is None


@pytest.mark.parametrize("kind", MISTAKES)
def test_the_same_training_twice_is_the_same_and_other_weights_differ_from_the_first_step(
    kind: str, tmp_path: Path
) -> None:
    for name, seed in (("a", None), ("b", None), ("c", 3)):
        train(kind, tmp_path / name, seed=seed)

    assert compare_runs(tmp_path / "a", tmp_path / "b").verdict == "same"
    other = compare_runs(tmp_path / "a", tmp_path / "c")
    assert (other.verdict, other.notes) == ("different", ())
    assert other.first_difference is not None
    assert other.first_difference.step == 1


def test_with_a_gap_between_steps_the_sentence_says_what_is_not_known(tmp_path: Path) -> None:
    train("cnn", tmp_path / "a", freq=10)
    train("cnn", tmp_path / "b", "schedule", freq=10)

    comparison = compare_runs(tmp_path / "a", tmp_path / "b")

    assert comparison.first_difference is not None
    assert (comparison.first_difference.step, comparison.first_difference.last_equal_step) == (
        30,
        20,
    )
    assert "from step 30 (steps 21 to 29 were not recorded by both runs)" in comparison.sentence
