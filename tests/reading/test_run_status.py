"""How a run ended, in plain words, also where the run could not say it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mindsummary_lightning.reading.run_status import (
    KILLED_AFTER_S,
    STARTED,
    STATUSES,
    recorded_status,
    run_status,
)
from tests.reading.runs import values_at, write_summary

_NOW = 2_000_000_000.0


def _run(directory: Path, age_s: float) -> str:
    path = write_summary(directory, [values_at(1, {"loss": 1.0})])
    os.utime(path, (_NOW - age_s, _NOW - age_s))
    return str(directory)


@pytest.mark.parametrize(
    ("recorded", "word"),
    [
        ("success", "finished"),
        ("finished", "interrupted"),  # before the next job of a cluster
        ("failed", "failed"),
        ("interrupted", "interrupted"),
        ("pruned", "pruned"),
        ("a user's own", "a user's own"),
        (STARTED, None),
        (None, None),
    ],
)
def test_recorded_ends_are_plain_words(recorded: str | None, word: str | None) -> None:
    assert recorded_status(recorded) == word


@pytest.mark.parametrize(
    ("age_s", "word"), [(KILLED_AFTER_S - 1, "running"), (KILLED_AFTER_S, "killed")]
)
@pytest.mark.parametrize(
    "recorded",
    [{"status": STARTED}, {"lightning_version": "2.5"}, {"pytorch_lightning_version": "2.5"}],
)
def test_a_fit_without_an_end_runs_or_was_killed(
    tmp_path: Path, age_s: float, word: str, recorded: dict[str, str]
) -> None:
    assert run_status(_run(tmp_path, age_s), recorded, _NOW) == word
    assert word in STATUSES


def test_a_complete_file_of_long_ago_does_not_make_a_growing_run_a_killed_one(
    tmp_path: Path,
) -> None:
    old = write_summary(tmp_path, [values_at(1, {"loss": 1.0})], second=1)
    new = write_summary(tmp_path, [values_at(2, {"loss": 1.0})], second=2)
    for path, age_s in ((old, 10 * KILLED_AFTER_S), (new, 1.0)):
        os.utime(path, (_NOW - age_s, _NOW - age_s))

    assert run_status(str(tmp_path), {"status": STARTED}, _NOW) == "running"


def test_a_run_that_records_no_end_has_no_status(tmp_path: Path) -> None:
    assert run_status(_run(tmp_path, 1e6), {"note": "by hand"}, _NOW) is None


def test_a_run_that_was_removed_or_has_lost_its_files_has_no_status(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()

    assert run_status(str(tmp_path / "gone"), {"status": STARTED}, _NOW) is None
    assert run_status(str(tmp_path), {"status": STARTED}, _NOW) is None


def test_a_link_that_leads_nowhere_does_not_hide_when_the_files_were_written(
    tmp_path: Path,
) -> None:
    run = _run(tmp_path, KILLED_AFTER_S + 1)
    (tmp_path / "events.out.events.summary.9.0.h_MS").symlink_to("nowhere")

    assert run_status(run, {"status": STARTED}, _NOW) == "killed"
