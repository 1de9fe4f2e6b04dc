"""Last, least and greatest values of many runs: the same as of each run read by itself."""

from __future__ import annotations

import math
import random
from pathlib import Path

import numpy as np
import pytest

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat.framing import frame
from mindsummary_lightning.reading.followed_run import FollowedRun
from mindsummary_lightning.reading.scalar_summaries import (
    RunScalars,
    TagSummary,
    duration_s,
    is_lower_better,
    read_run_scalars,
    run_scalars,
    seconds_per_step,
)
from tests.reading.runs import histogram, values_at, write_summary


def _scalars(run: Path) -> RunScalars:
    ((_, found),) = read_run_scalars([str(run)])
    assert isinstance(found, RunScalars)
    return found


def _alone(run: Path) -> RunScalars:
    followed = FollowedRun(str(run))
    followed.refresh()
    return run_scalars(followed)


def test_many_runs_give_what_each_gives_by_itself(tmp_path: Path) -> None:
    chance = random.Random(0)
    for number in range(100):
        tags = chance.sample(["loss", "acc", "lr", "val/loss", "x" * 200], chance.randint(1, 4))
        records = [
            values_at(
                step, {tag: chance.choice([step / 7, -1.5, math.nan, math.inf]) for tag in tags}
            )
            for step in sorted(chance.choices(range(400), k=chance.randint(0, 30)))
        ]
        records += [values_at(500, {"h": histogram(1, 2), "loose": 0.5})] * (number % 4 == 0)
        write_summary(tmp_path / f"run_{number}", records)

    found = dict(read_run_scalars([str(tmp_path / f"run_{number}") for number in range(100)]))

    for run, scalars in found.items():
        assert repr(scalars) == repr(_alone(Path(run)))  # in which NaN equals NaN


def test_values_of_a_step_that_is_done_again_count_once(tmp_path: Path) -> None:
    records = [
        values_at(step, {"loss": value}) for step, value in ((1, 0.5), (2, 0.1), (2, 0.4), (3, 0.3))
    ]
    write_summary(tmp_path, records)

    assert _scalars(tmp_path).tags == {"loss": TagSummary(0.3, 0.3, 0.5, 3, 1)}


@pytest.mark.parametrize(
    ("values", "is_diverged"),
    [
        ({"loss": [1.0, 0.5]}, False),
        ({"loss": [1.0, math.nan]}, True),
        ({"train/loss": [1.0, math.inf], "acc": [0.1, 0.2]}, True),
        ({"loss": [1.0, math.nan, 0.5]}, False),
        ({"acc": [0.1, math.nan]}, None),
        ({}, None),
    ],
)
def test_a_run_has_diverged_if_a_loss_ends_non_finite(
    tmp_path: Path, values: dict[str, list[float]], is_diverged: bool | None
) -> None:
    write_summary(
        tmp_path,
        [
            values_at(step, {tag: one})
            for tag, series in values.items()
            for step, one in enumerate(series, 1)
        ],
    )

    assert _scalars(tmp_path).is_diverged is is_diverged


def test_a_damaged_run_is_told_and_costs_no_other_one(tmp_path: Path) -> None:
    for name in "abc":
        path = write_summary(
            tmp_path / name, [values_at(step, {"loss": 1.0}) for step in (1, 2, 3)]
        )
    damaged = tmp_path / "b" / path.name
    damaged.write_bytes(damaged.read_bytes()[:60] + b"x" + damaged.read_bytes()[61:])
    growing = tmp_path / "c" / path.name
    growing.write_bytes(growing.read_bytes()[:-5])

    found = dict(read_run_scalars([str(tmp_path / name) for name in "abc"]))

    assert isinstance(found[str(tmp_path / "b")], DamagedFileError)
    assert [found[str(tmp_path / name)].last_step for name in "ac"] == [3, 2]  # type: ignore[union-attr]


def test_a_record_that_is_no_event_is_told_beside_records_of_other_runs(tmp_path: Path) -> None:
    good, bad = [values_at(step, {"loss": 1.0}) for step in (1, 2)], b"".join(frame([b"\x0a\xff"]))
    write_summary(tmp_path / "a", [*good, values_at(3, {"h": histogram(1), "acc": 0.5})])
    write_summary(tmp_path / "b", [good[0], bad, good[1]])

    found = dict(read_run_scalars([str(tmp_path / name) for name in "ab"]))

    assert found[str(tmp_path / "a")] == _alone(tmp_path / "a")
    assert isinstance(found[str(tmp_path / "b")], DamagedFileError)


def test_runs_without_scalars_before_and_between_others_take_none_of_theirs(
    tmp_path: Path,
) -> None:
    for number in range(5):
        (tmp_path / str(number)).mkdir()
    for name, steps in (("1", (2, 5)), ("3", (7, 8, 10))):
        records = [values_at(step, {"acc": step / 4, "lr": 1 / step}) for step in steps]
        write_summary(tmp_path / name, records)

    found = dict(read_run_scalars([str(tmp_path / str(number)) for number in range(5)]))

    none = RunScalars()
    assert found == {
        str(tmp_path / "0"): none,
        str(tmp_path / "1"): RunScalars(
            {"acc": TagSummary(1.25, 0.5, 1.25, 2, 5), "lr": TagSummary(0.2, 0.2, 0.5, 5, 2)},
            5,
            1700000002.0,
            3.0,
        ),
        str(tmp_path / "2"): none,
        str(tmp_path / "3"): RunScalars(
            {
                "acc": TagSummary(2.5, 1.75, 2.5, 7, 10),
                "lr": TagSummary(0.1, 0.1, 0.14285715, 10, 7),
            },
            10,
            1700000007.0,
            3.0,
        ),
        str(tmp_path / "4"): none,
    }


def test_a_step_takes_the_median_of_the_times_between_samples_that_go_on() -> None:
    steps = np.array([0, 2, 2, 6, 5, 7, 8, 10])
    times_s = np.array([0.0, 4.0, 5.0, 17.0, 18.0, 18.0, 21.0, 20.0])

    assert seconds_per_step(steps, times_s) == 3.0  # of 2, 3 and 3
    assert seconds_per_step(steps[:2], times_s[:2]) == 2.0
    assert seconds_per_step(steps[:2], times_s[:2] * 0) is None
    assert seconds_per_step(steps[:2] * 0, times_s[:2]) is None
    assert seconds_per_step(steps[:1], times_s[:1]) is None


def test_a_duration_adds_up_the_files_and_no_clock_that_was_set_back() -> None:
    assert duration_s([(100.0, 103.0), (500.0, 490.0), (600.0, 604.5)]) == 7.5
    assert duration_s([(500.0, 490.0)]) == 0.0
    assert duration_s([]) is None


def test_a_run_without_scalars_has_none(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    write_summary(tmp_path / "other", [values_at(1, {"h": histogram(1)})])

    assert _scalars(tmp_path / "empty") == _scalars(tmp_path / "other") == RunScalars()


def test_a_large_file_and_one_of_several_are_read_too(tmp_path: Path) -> None:
    write_summary(
        tmp_path / "large", [values_at(step, {"loss": 1 / (1 + step)}) for step in range(10_000)]
    )
    write_summary(
        tmp_path / "two", [values_at(step, {"loss": 1.0}, 100.0 + step) for step in (1, 2, 3)], 100
    )
    write_summary(
        tmp_path / "two", [values_at(step, {"loss": 0.5}, 500.0 + step) for step in (3, 4)], 500
    )

    write_summary(tmp_path / "small", [values_at(7, {"loss": 1.0})])

    found = dict(
        read_run_scalars(
            str(tmp_path / name) for name in ("nowhere", "large", "nowhere else", "two", "small")
        )
    )

    assert {Path(run).name: type(scalars) for run, scalars in found.items()} == {
        "nowhere": FileNotFoundError,
        "large": RunScalars,
        "nowhere else": FileNotFoundError,
        "two": RunScalars,
        "small": RunScalars,
    }
    large, two = found[str(tmp_path / "large")], found[str(tmp_path / "two")]
    assert isinstance(large, RunScalars)
    assert (large.last_step, large.tags["loss"].last) == (9_999, pytest.approx(1e-4))
    assert isinstance(two, RunScalars)
    assert (two.last_step, _scalars(tmp_path / "small").last_step) == (4, 7)
    assert two.tags["loss"] == TagSummary(0.5, 0.5, 1.0, 3, 1)
    assert (two.started_s, two.duration_s) == (101.0, 3.0)


@pytest.mark.parametrize(
    "tag", ["loss", "val/loss", "train_loss_epoch", "valLoss", "MSE", "val_mae", "bceloss"]
)
def test_a_loss_is_better_the_lower_it_is(tag: str) -> None:
    assert is_lower_better(tag)


@pytest.mark.parametrize("tag", ["acc", "val/accuracy", "mIoU", "auroc", "reward", "lr"])
def test_everything_else_is_better_the_higher_it_is(tag: str) -> None:
    assert not is_lower_better(tag)
