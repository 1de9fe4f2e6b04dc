from __future__ import annotations

from pathlib import Path

import pytest

from mindsummary_lightning.reading.base_directory import find_base
from tests.reading.runs import write_summary


def test_a_run_is_its_own_base(tmp_path: Path) -> None:
    write_summary(tmp_path / "version_0", [])

    found = find_base(str(tmp_path / "version_0"))

    assert (found.path, found.train_ids) == (str(tmp_path / "version_0"), ("./",))


def test_a_directory_of_runs_is_the_base(tmp_path: Path) -> None:
    for name in ("version_1", "version_0"):
        write_summary(tmp_path / name, [])

    found = find_base(str(tmp_path))

    assert (found.path, found.train_ids) == (str(tmp_path), ("./version_0", "./version_1"))


def test_a_directory_further_up_leads_to_the_one_that_holds_the_runs(tmp_path: Path) -> None:
    for name in ("version_0", "version_1"):
        write_summary(tmp_path / "lightning_logs" / name, [])

    found = find_base(str(tmp_path))

    assert (found.path, found.train_ids) == (str(tmp_path / "lightning_logs"), ("./version_0", "./version_1"))


def test_runs_deeper_than_mindinsight_looks_are_not_promised(tmp_path: Path) -> None:
    write_summary(tmp_path / "a", [])
    write_summary(tmp_path / "deep" / "b", [])

    assert find_base(str(tmp_path)).train_ids == ("./a",)


def test_runs_in_several_directories_must_be_told_apart(tmp_path: Path) -> None:
    for name in ("x", "y"):
        write_summary(tmp_path / name / "version_0", [])

    with pytest.raises(ValueError, match=r"2 directories \(x, y\)"):
        find_base(str(tmp_path))


def test_a_directory_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no run in"):
        find_base(str(tmp_path))
