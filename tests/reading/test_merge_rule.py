"""Which samples of a resumed run count, against the rule said plainly."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest

from mindsummary_lightning.reading.followed_run import selected_samples


def _by_the_rule(files: list[tuple[str, list[int]]]) -> list[tuple[int, int]]:
    """File and step of each sample that MindInsight's reader keeps, by step: file after file, as it
    reads.
    """
    kept: dict[int, int] = {}
    for index, (digits, steps) in enumerate(files):
        kept = {
            step: owner
            for step, owner in kept.items()
            if not (files[owner][0] < digits and step >= min(steps)) and step not in steps
        }
        kept.update(dict.fromkeys(steps, index))
    return [(kept[step], step) for step in sorted(kept)]


@pytest.mark.parametrize("seed", range(40))
def test_the_samples_of_resumed_runs_are_those_of_the_rule(seed: int) -> None:
    draw = random.Random(seed)
    seconds = sorted(
        draw.choice([7, 8, 98, 99, 100, 101, 300, 1000, 2000, 9999])
        for _ in range(draw.randint(1, 12))
    )
    files = [
        (str(second), [draw.randint(-3, 12) for _ in range(draw.randint(1, 5))])
        for second in seconds
    ]

    paths = [
        (f"/run/e.out.events.summary.{digits}.0.h_MS", np.array(steps, np.int64))
        for digits, steps in files
    ]
    indices = selected_samples(paths)
    joined = [(index, step) for index, (_, steps) in enumerate(files) for step in steps]
    assert [joined[index] for index in indices.tolist()] == _by_the_rule(files)
    last_ones = {pair: index for index, pair in enumerate(joined)}
    assert [last_ones[joined[index]] for index in indices.tolist()] == indices.tolist()


def test_the_file_that_goes_back_furthest_takes_the_place_of_all_before_it() -> None:
    files = [
        ("summary.98.0_MS", np.array([3])),
        ("summary.99.0_MS", np.array([5])),
        ("summary.999.0_MS", np.array([2])),
    ]

    assert selected_samples(files).tolist() == [2]


def test_the_extreme_steps_of_64_bits_are_kept() -> None:
    steps = np.array([-(2**63), 0, 2**63 - 1])

    assert selected_samples([("summary.1.0_MS", steps)]).tolist() == [0, 1, 2]
    assert selected_samples([("summary.1.0_MS", steps[::-1])]).tolist() == [2, 1, 0]
    assert selected_samples([("summary.1.0_MS", np.array([1, -(2**63)]))]).tolist() == [1, 0]
    assert selected_samples(
        [("summary.1.0_MS", steps), ("summary.2.0_MS", steps[1:2])]
    ).tolist() == [0, 3]


@pytest.mark.slow
def test_merging_is_not_quadratic_in_the_files() -> None:
    files = [(f"summary.{1_000_000 + number}.0_MS", np.array([number])) for number in range(20_000)]
    start = time.process_time()

    assert selected_samples(files).size == 20_000
    assert time.process_time() - start < 3  # 35 where each file is compared with all before it
