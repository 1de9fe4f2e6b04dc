from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from mindsummary_lightning.fileformat.framing import frame
from mindsummary_lightning.fileio.scan import RecordScanner
from mindsummary_lightning.lineage import search
from mindsummary_lightning.lineage.merge import MergedLineage
from mindsummary_lightning.lineage.query import filter_summary_lineage
from mindsummary_lightning.lineage.search import READING, TOGETHER, LineageCache, reading
from mindsummary_lightning.reading.run_tree import list_train_jobs
from mindsummary_lightning.values import EvaluationInfo, TrainInfo
from tests.lineage.lineage_tree import record, write_run

TRAIN = TrainInfo(network="LeNet5")
EVALUATION = EvaluationInfo('{"accuracy": 0.9}')


@pytest.fixture
def files_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the lineage files opened from now on."""
    names: list[str] = []

    def counted(path: str) -> RecordScanner:
        names.append(Path(path).name)
        return RecordScanner(path)

    monkeypatch.setattr(search, "RecordScanner", counted)
    return names


def network(cache: LineageCache, run: Path) -> str | None:
    (lineage,) = cache.lineages([(str(run), list_train_jobs(str(run), max_depth=0)[0].files)])
    return lineage.fields["network"] if isinstance(lineage, MergedLineage) else None


def test_an_unchanged_file_is_read_once(tmp_path: Path, files_read: list[str]) -> None:
    cache = LineageCache()
    write_run(tmp_path, TRAIN)

    assert [network(cache, tmp_path) for _ in range(3)] == ["LeNet5"] * 3
    assert len(files_read) == 1


def test_of_a_run_that_grew_a_file_only_that_file_is_read(
    tmp_path: Path, files_read: list[str]
) -> None:
    cache = LineageCache()
    write_run(tmp_path, TRAIN, seconds=1)
    network(cache, tmp_path)
    later = write_run(tmp_path, EVALUATION, seconds=2)
    network(cache, tmp_path)

    assert files_read[1:] == [later.name]


def test_a_file_replaced_by_one_of_the_same_size_and_time_is_read_again(tmp_path: Path) -> None:
    cache = LineageCache()
    path = write_run(tmp_path, TRAIN, mtime=100)
    network(cache, tmp_path)
    other = tmp_path / "other"
    other.write_bytes(record(TrainInfo(network="LeNet6")))
    os.utime(other, (100, 100))
    other.replace(path)

    assert network(cache, tmp_path) == "LeNet6"


def test_a_deleted_file_is_forgotten(tmp_path: Path) -> None:
    cache = LineageCache()
    write_run(tmp_path, TRAIN, seconds=1)
    later = write_run(tmp_path, TrainInfo(network="ResNet"), seconds=2)
    network(cache, tmp_path)
    later.unlink()

    assert network(cache, tmp_path) == "LeNet5"


def test_no_more_runs_are_kept_than_allowed(tmp_path: Path, files_read: list[str]) -> None:
    cache = LineageCache(max_runs=2)
    for name in ("a", "b", "c"):
        write_run(tmp_path / name, TRAIN)
        network(cache, tmp_path / name)

    network(cache, tmp_path / "c")
    network(cache, tmp_path / "b")
    assert len(files_read) == 3
    network(cache, tmp_path / "a")
    assert len(files_read) == 4


def test_the_run_asked_for_longest_ago_goes_first(tmp_path: Path, files_read: list[str]) -> None:
    cache = LineageCache(max_runs=2)
    for name in ("a", "b", "c"):
        write_run(tmp_path / name, TRAIN)

    for name in ("a", "b", "a", "c", "a"):
        network(cache, tmp_path / name)

    assert len(files_read) == 3


@pytest.mark.parametrize("damage", ["torn", "begun", "flipped", "no event"])
def test_a_damaged_file_costs_its_own_run_only_with_one_warning(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_run(tmp_path / "damaged", TRAIN, EVALUATION)
    content = path.read_bytes()
    if damage == "torn":
        path.write_bytes(content[:-3])
    elif damage == "begun":
        path.write_bytes(content + b"\x08")
    elif damage == "flipped":
        path.write_bytes(content[:-6] + bytes([content[-6] ^ 1]) + content[-5:])
    else:
        path.write_bytes(content + b"".join(bytes(piece) for piece in frame([b"\x0a\xff\xff"])))
    for name in ("a", "z"):
        write_run(tmp_path / name, TRAIN)

    with caplog.at_level(logging.WARNING):
        answers = [filter_summary_lineage(tmp_path) for _ in range(3)]

    assert [sorted(run["summary_dir"] for run in answer["object"]) for answer in answers] == [
        ["./a", "./z"]
    ] * 3
    assert len(caplog.records) == 1
    assert str(path) in caplog.text
    if damage in ("begun", "no event"):
        assert f"byte {len(content)} of {path}:" in caplog.text


def test_a_damaged_file_leaves_the_other_files_of_its_run(tmp_path: Path) -> None:
    write_run(tmp_path / "run", TRAIN, seconds=1)
    path = write_run(tmp_path / "run", EVALUATION, seconds=2)
    path.write_bytes(path.read_bytes()[:-1])

    (run,) = filter_summary_lineage(tmp_path)["object"]

    assert (run["model_lineage"]["network"], run["model_lineage"]["metric"]) == ("LeNet5", {})


def test_damage_is_told_of_the_run_that_has_it_until_its_file_is_whole(tmp_path: Path) -> None:
    cache = LineageCache()
    path = write_run(tmp_path / "damaged", TRAIN, seconds=2)
    write_run(tmp_path / "damaged", TRAIN, seconds=1)
    write_run(tmp_path / "whole", TRAIN)
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    runs = [str(tmp_path / name) for name in ("damaged", "whole")]
    assert not any(map(cache.has_damage, runs))  # not read yet

    assert [network(cache, Path(run)) for run in runs] == ["LeNet5", "LeNet5"]
    assert list(map(cache.has_damage, runs)) == [True, False]

    path.write_bytes(content)
    network(cache, tmp_path / "damaged")
    assert not any(map(cache.has_damage, runs))


def test_more_runs_than_are_read_side_by_side_come_in_their_order(tmp_path: Path) -> None:
    for number in range(TOGETHER + 3):
        write_run(tmp_path / f"{number:02d}", TrainInfo(epoch=number))
    write_run(tmp_path / "01", TrainInfo(network="second file"), seconds=101)
    (tmp_path / "02" / "events.summary.200.0.host_lineage").touch()
    runs = sorted(list_train_jobs(str(tmp_path)), key=lambda run: run.path)
    cache = LineageCache()

    for _ in range(2):
        lineages = cache.lineages([(run.path, run.files) for run in runs])
        assert [lineage and lineage.fields["epoch"] for lineage in lineages] == [
            *(0, None),
            *range(2, TOGETHER + 3),
        ]


def test_a_file_that_is_whole_again_is_read_again(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", TRAIN)
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    assert filter_summary_lineage(tmp_path)["count"] == 0
    path.write_bytes(content)

    assert filter_summary_lineage(tmp_path)["count"] == 1


def test_who_reads_many_runs_waits_for_another_who_does_but_no_longer_than_told() -> None:
    with reading():
        assert READING.locked()
        with reading(patience_s=0.0):
            pass
        assert READING.locked()
    assert not READING.locked()


def test_a_file_that_cannot_be_opened_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path, TRAIN)
    cache = LineageCache()
    with monkeypatch.context() as patch:

        def refuse(path: str) -> None:
            raise PermissionError(13, "Permission denied", path)

        patch.setattr(search, "RecordScanner", refuse)
        assert network(cache, tmp_path) is None

    assert network(cache, tmp_path) == "LeNet5"
