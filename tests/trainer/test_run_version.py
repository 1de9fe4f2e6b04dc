"""The number of a run: which is free, who reserves it, and when it is free again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mindsummary_lightning import MindInsightLogger
from mindsummary_lightning.trainer.namespaces import rank_zero_only
from mindsummary_lightning.trainer.run_version import RunVersion, run_directory


def test_a_version_is_a_directory_by_its_number_or_name() -> None:
    assert run_directory("runs", 3) == os.path.join("runs", "version_3")
    assert run_directory("runs", "a/../b", "inner") == os.path.join("runs", "b", "inner")
    assert run_directory("runs", "") == "runs"


def test_a_further_rank_takes_the_number_that_rank_zero_has_reserved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    MindInsightLogger(tmp_path, name="", version=4).log_metrics({"a": 1.0}, step=0)
    assert RunVersion(str(tmp_path), None).value == 5

    monkeypatch.setattr(rank_zero_only, "rank", 1)
    assert RunVersion(str(tmp_path / "none"), None).value == 0
    assert RunVersion(str(tmp_path), None).tell() == 5  # version_4 is a run of before
    (tmp_path / "version_6").mkdir()
    assert RunVersion(str(tmp_path), None).tell() == 6
    assert sorted(os.listdir(tmp_path)) == ["version_4", "version_6"]


def test_a_version_that_rank_zero_has_chosen_is_used(tmp_path: Path) -> None:
    version = RunVersion(str(tmp_path), None)
    assert version.value == 0
    version.adopt(7)

    assert version.value == 7


def test_a_reserved_number_is_free_again_and_its_directories_go_if_it_was_not_told(
    tmp_path: Path,
) -> None:
    root = tmp_path / "outer" / "inner"
    version = RunVersion(str(root), None)
    version.claim()
    version.claim()
    assert (os.listdir(root), version.tell()) == (["version_0"], 0)
    version.release_unused()
    assert os.listdir(tmp_path) == []

    other = RunVersion(str(root), None)
    other.claim()
    version.claim()
    assert (other.value, version.value) == (0, 1)


def test_a_number_that_was_told_stays_reserved(tmp_path: Path) -> None:
    version = RunVersion(str(tmp_path), None)
    assert (version.tell(), version.tell()) == (0, 0)
    version.release_unused()

    assert os.listdir(tmp_path) == ["version_0"]
    assert RunVersion(str(tmp_path), None).value == 1
    assert version.value == 0
