from __future__ import annotations

import fcntl
import gzip
import os
import random
import shutil
from pathlib import Path

import pytest

from mindsummary_lightning.fileformat.file_names import MAX_TIMESTAMP, is_summary_name
from mindsummary_lightning.fileformat.framing import frame
from mindsummary_lightning.maintenance import verify
from mindsummary_lightning.maintenance.repair import repair_run
from mindsummary_lightning.maintenance.verify import verify_run
from mindsummary_lightning.reading.summary_reader import SummaryReader
from mindsummary_lightning.recording.summary_record import SummaryRecord
from mindsummary_lightning.values import EvaluationInfo, TrainInfo, UserDefinedInfo
from tests.cli.command import mindsummary
from tests.cli.demo_run import write_demo_run
from tests.reading.runs import (
    histogram,
    values_at,
    write_lineage,
    write_mindspore_run,
    write_parameter_run,
    write_summary,
)
from tests.support import whole_payloads

_RECORDS = [values_at(step, {"loss": float(step)}) for step in (1, 2, 3)]


def _damage(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 0xFF
    path.write_bytes(data)


def test_whole_runs_are_found_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_demo_run(tmp_path / "a")
    write_mindspore_run(tmp_path / "b")

    answer = mindsummary(capsys, "verify", tmp_path)

    assert (answer.code, answer.out) == (0, "2 runs checked: 0 damages, 0 warnings\n")


def test_damage_is_named_with_its_byte_and_gives_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_summary(tmp_path, _RECORDS)
    _damage(path, -len(_RECORDS[2]) - 2)

    answer = mindsummary(capsys, "verify", tmp_path)

    offset = path.stat().st_size - len(_RECORDS[2]) - len(_RECORDS[1])
    assert answer.code == 1
    assert answer.out.startswith(f"damage: {path}, byte {offset}: payload CRC")
    assert "1 run checked: 1 damage, 0 warnings" in answer.out


def test_a_step_that_two_blocks_share_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "BLOCK", 1)  # each record is one
    write_summary(tmp_path, [*_RECORDS, values_at(3, {"loss": 4.0})])

    (finding,) = verify_run(str(tmp_path))

    assert "scalar 'loss' has 1 repeated samples" in finding.message


def test_an_unfinished_record_at_the_end_is_damage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_summary(tmp_path, [*_RECORDS, _RECORDS[0][:11]])

    answer = mindsummary(capsys, "verify", tmp_path)

    assert answer.code == 1
    assert "11 bytes of an unfinished record at the end" in answer.out
    assert str(path) in answer.out


@pytest.mark.parametrize(
    ("records", "message"),
    [
        (
            [values_at(1, {"a": 1.0}), values_at(1, {"a": 2.0})],
            "scalar 'a' has 1 repeated samples, at steps with an earlier sample",
        ),
        (
            [values_at(1, {f"t{number}": 1.0 for number in range(301)})],
            "the run has 301 tags (a graph counts as two tags); MindInsight keeps only the 300",
        ),
        ([values_at(number, {"h": histogram(*range(1, 92))}) for number in (1,)], "91 buckets"),
        (
            [values_at(number, {"h": histogram(1)}) for number in range(51)],
            "1 histogram tags have more than 50 steps",
        ),
    ],
)
def test_what_mindinsight_would_drop_is_a_warning(
    records: list[bytes], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_summary(tmp_path, records)

    answer = mindsummary(capsys, "verify", tmp_path)

    assert answer.code == 0
    assert "warning: " in answer.out
    assert message in answer.out


def test_an_event_is_warned_of_from_the_first_byte_that_is_too_many(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_summary(tmp_path, [values_at(1, {"loss": 0.5, "other": 0.5})])
    largest = max(map(len, whole_payloads(path)))

    told = []
    for limit in (largest, largest - 1):
        monkeypatch.setattr(verify, "MAX_EVENT", limit)
        told.append(
            f"drops events of more than {limit}" in mindsummary(capsys, "verify", tmp_path).out
        )

    assert told == [False, True]


def test_the_last_second_of_the_calendar_is_a_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, second in (("last", MAX_TIMESTAMP), ("beyond", MAX_TIMESTAMP + 1)):
        write_summary(tmp_path / name, _RECORDS, second=second)

    codes = [mindsummary(capsys, "verify", tmp_path / name).code for name in ("last", "beyond")]

    assert codes == [0, 1]


def test_a_name_that_hides_every_run_is_damage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_summary(tmp_path, _RECORDS, second=1700000000000)

    answer = mindsummary(capsys, "verify", tmp_path)

    assert answer.code == 1
    assert "because of it MindInsight lists no run at all" in answer.out


def test_names_that_mindinsight_misreads_are_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_summary(tmp_path, _RECORDS, host="a")
    write_summary(tmp_path, _RECORDS, host="b")
    (tmp_path / "model.pb").write_bytes(b"")

    answer = mindsummary(capsys, "verify", tmp_path)

    assert "reads every .pb file" in answer.out
    assert "reads only one of the two files" in answer.out


def test_lineage_that_harms_other_runs_is_damage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_lineage(tmp_path, [TrainInfo(), EvaluationInfo("[1]")])

    answer = mindsummary(capsys, "verify", tmp_path)

    assert answer.code == 1
    assert "must be the JSON text of an object" in answer.out


def test_custom_lineage_alone_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_lineage(tmp_path, [UserDefinedInfo({"a": 1})])

    assert "MindInsight ignores it" in mindsummary(capsys, "verify", tmp_path).out


def test_repair_keeps_every_whole_record_and_the_damaged_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_summary(tmp_path, [*_RECORDS, _RECORDS[0][:11]])
    _damage(path, -len(_RECORDS[2]) - 13)
    damaged = path.read_bytes()
    os.chmod(path, 0o640)
    os.utime(path, (1_700_000_000, 1_700_000_000))

    answer = mindsummary(capsys, "repair", tmp_path)

    assert answer.code == 0
    assert "3 records kept" in answer.out
    assert SummaryReader(tmp_path).scalars("loss").steps.tolist() == [1, 3]
    (kept,) = (tmp_path / ".damaged").iterdir()
    assert kept.read_bytes() == damaged
    # MindInsight on the run itself looks into hidden directories too
    assert not is_summary_name(kept.name)
    assert (path.stat().st_mode & 0o777, path.stat().st_mtime) == (0o640, 1_700_000_000)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".damaged", path.name]
    assert mindsummary(capsys, "verify", tmp_path).code == 0


def test_repair_saves_the_good_records_of_a_lineage_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_lineage(tmp_path, [TrainInfo(epoch=3)])
    with path.open("ab") as file:
        file.write(b"".join(frame([b"\xff\xff"])) + b"torn")

    mindsummary(capsys, "repair", tmp_path)

    assert SummaryReader(tmp_path).lineage().train == TrainInfo(epoch=3)


def test_a_second_repair_does_not_overwrite_the_first_backup(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_summary(tmp_path, _RECORDS)
    for tail in (b"first", b"second"):
        with path.open("ab") as file:
            file.write(tail)
        mindsummary(capsys, "repair", tmp_path)

    assert sorted(entry.read_bytes()[-5:] for entry in (tmp_path / ".damaged").iterdir()) == [
        b"econd",
        b"first",
    ]


def test_repair_leaves_a_whole_run_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_summary(tmp_path, _RECORDS)
    before = path.stat()

    answer = mindsummary(capsys, "repair", tmp_path)

    assert (answer.code, "nothing is damaged" in answer.out) == (0, True)
    assert path.stat().st_ino == before.st_ino


def test_repair_refuses_a_run_that_is_being_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with SummaryRecord(tmp_path) as record:
        record.add_value("scalar", "loss", 1.0)
        record.record(1)
        path = Path(record.log_dir)
        with path.open("ab") as file:
            file.write(b"torn")
        before = path.read_bytes()

        answer = mindsummary(capsys, "repair", tmp_path)

    assert answer.code == 1
    assert "repair it after the recording has ended" in answer.err
    assert path.read_bytes() == before


def test_a_repair_that_cannot_write_leaves_the_file_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_summary(tmp_path, [*_RECORDS, b"torn"])
    before = path.read_bytes()

    def refuse(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    answer = mindsummary(capsys, "repair", tmp_path)

    assert (answer.code, "no space left" in answer.err) == (1, True)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.slow
def test_whatever_random_damage_leaves_is_whole_after_a_repair(tmp_path: Path) -> None:
    write_demo_run(tmp_path / "whole", steps=20)
    generator = random.Random(2)
    for number in range(100):
        run = tmp_path / str(number)
        shutil.copytree(tmp_path / "whole", run)
        for path in run.iterdir():
            data = bytearray(path.read_bytes())
            for _ in range(generator.randrange(1, 4)):
                begin = generator.randrange(len(data))
                end = min(len(data), begin + generator.choice([1, 12, 500]))
                data[begin:end] = generator.choice(
                    [generator.randbytes(end - begin), bytes(end - begin), b""]
                )
            path.write_bytes(data)

        # left as they are
        unreadable = {file.path for file in repair_run(str(run)) if not file.records}

        assert {finding.path for finding in verify_run(str(run)) if finding.is_damage} == unreadable
        if not unreadable:
            SummaryReader(run).all_scalars()
            SummaryReader(run).lineage()


def test_verify_and_repair_judge_lineage_by_one_rule(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_lineage(
        tmp_path, [TrainInfo(epoch=3), EvaluationInfo("not JSON"), UserDefinedInfo({"a": 1})]
    )
    before = mindsummary(capsys, "verify", tmp_path)

    repaired = mindsummary(capsys, "repair", tmp_path)

    assert (before.code, repaired.code) == (1, 0)
    assert "run `mindsummary repair`" in before.out
    assert "2 records kept" in repaired.out
    assert mindsummary(capsys, "verify", tmp_path).code == 0
    lineage = SummaryReader(tmp_path).lineage()
    assert (lineage.train, lineage.evaluation) == (TrainInfo(epoch=3), None)
    assert (
        b"not JSON"
        in (
            tmp_path / ".damaged" / "events.out.events.summary-1700000000.0.h_lineage.damaged"
        ).read_bytes()
    )
    assert path.exists()


def test_a_loss_that_is_not_finite_is_a_warning_and_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_lineage(tmp_path, [TrainInfo(epoch=3, loss=float("nan"))])

    answer = mindsummary(capsys, "verify", tmp_path)

    assert (answer.code, "1 warning" in answer.out, "not finite" in answer.out) == (0, True, True)
    assert repair_run(str(tmp_path)) == []


@pytest.mark.parametrize(
    ("content", "looks_like"),
    [
        (gzip.compress(b"".join(_RECORDS)), r"another kind of file: it begins with b'\x1f\x8b"),
        (
            b"version https://git-lfs.github.com/spec/v1\n",
            "another kind of file: it begins with b'version http'",
        ),
        (_RECORDS[0][:-3], "the beginning of a record"),
    ],
    ids=["gzip", "LFS", "torn"],
)
def test_a_file_without_a_readable_record_is_left_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, looks_like: str
) -> None:
    path = tmp_path / "events.out.events.summary.1700000000.0.h_MS"
    path.write_bytes(content)

    checked, repaired = (
        mindsummary(capsys, "verify", tmp_path),
        mindsummary(capsys, "repair", tmp_path),
    )

    assert (checked.code, repaired.code) == (1, 1)
    assert f"it looks like {looks_like}" in checked.out
    assert f"left as it is: no record can be read; it looks like {looks_like}" in repaired.out
    assert path.read_bytes() == content
    assert not (tmp_path / ".damaged").exists()


def test_what_is_no_file_under_the_name_of_one_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_summary(tmp_path, _RECORDS)
    for second, kind in enumerate(("directory", "link", "fifo", "empty"), start=1):
        path = tmp_path / f"events.out.events.summary.{second}.0.h_MS"
        {
            "directory": path.mkdir,
            "link": lambda path=path: path.symlink_to(tmp_path / "nowhere"),
            "fifo": lambda path=path: os.mkfifo(path),
            "empty": path.touch,
        }[kind]()

    answer = mindsummary(capsys, "verify", tmp_path)

    texts = ("a directory with the name", "leads nowhere", "a FIFO", "an empty file")
    assert [text in line for text, line in zip(texts, answer.out.splitlines(), strict=False)] == [
        True
    ] * 4
    assert (answer.code, "4 warnings" in answer.out) == (0, True)


def test_a_damaged_lineage_file_gives_1_by_every_verb(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_summary(tmp_path, _RECORDS)
    path = write_lineage(tmp_path, [TrainInfo(epoch=3)])
    assert [
        mindsummary(capsys, verb, tmp_path).code for verb in ("lineage", "list", "show", "verify")
    ] == [0] * 4

    _damage(path, -6)

    assert [
        mindsummary(capsys, verb, tmp_path).code for verb in ("lineage", "list", "show", "verify")
    ] == [1] * 4


def test_repair_takes_a_directory_of_runs_and_a_dry_run_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for run in ("a", "deep/b", "whole"):
        path = write_summary(tmp_path / run, _RECORDS)
        if run != "whole":
            _damage(path, -6)
    before = {path: path.read_bytes() for path in sorted(tmp_path.rglob("*_MS"))}

    tried = mindsummary(capsys, "repair", tmp_path, "--dry-run")
    assert {path: path.read_bytes() for path in sorted(tmp_path.rglob("*_MS"))} == before
    assert not list(tmp_path.rglob(".damaged"))
    repaired = mindsummary(capsys, "repair", tmp_path)

    assert (tried.code, repaired.code) == (1, 0)
    assert tried.out.count("3 records would be kept") == 2
    assert repaired.out.count("3 records kept") == 2
    assert mindsummary(capsys, "verify", tmp_path).code == 0
    assert mindsummary(capsys, "repair", tmp_path, "--dry-run").code == 0


def test_a_run_that_is_recorded_is_left_while_the_others_are_repaired(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [write_summary(tmp_path / run, _RECORDS) for run in ("a", "b")]
    for path in paths:
        _damage(path, -6)
    with paths[0].open("rb") as writing:
        fcntl.flock(writing, fcntl.LOCK_EX)
        answer = mindsummary(capsys, "repair", tmp_path)

    assert (answer.code, answer.out.count("3 records kept")) == (1, 1)
    assert f"{paths[0]}: the run is still being recorded" in answer.err


def test_names_of_parameters_that_are_missing_or_damaged_are_found(tmp_path: Path) -> None:
    write_parameter_run(tmp_path)
    assert list(verify_run(str(tmp_path))) == []

    names = tmp_path / "parameter_statistics.json"
    names.write_bytes(names.read_bytes()[:-9])
    (finding,) = verify_run(str(tmp_path))
    assert (finding.path, finding.is_damage) == (str(names), True)
    names.unlink()
    (finding,) = verify_run(str(tmp_path))
    assert (finding.path, finding.is_damage) == (str(names), False)
    assert (
        finding.message
        == "this file is missing; the rows of parameter_statistics have numbers instead of names"
    )


def test_a_file_that_changes_at_its_size_while_it_is_repaired_is_left_alone(
    tmp_path: Path,
) -> None:
    path = write_summary(tmp_path, _RECORDS)
    _damage(path, -len(_RECORDS[2]) - 2)
    before = path.read_bytes()

    with pytest.raises(BlockingIOError, match="changed while it was being repaired"):
        repair_run(str(tmp_path), lambda size: os.utime(path, (1, 1)))

    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
