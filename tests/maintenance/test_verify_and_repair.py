from __future__ import annotations

import fcntl
import gzip
import os
import random
import shutil
from collections import deque
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from mindsummary_lightning.conversion.image_batches import batch_to_image
from mindsummary_lightning.fileformat.file_names import MAX_TIMESTAMP, is_summary_name
from mindsummary_lightning.fileformat.framing import frame
from mindsummary_lightning.maintenance import verify
from mindsummary_lightning.maintenance.repair import RepairedFile, repair_run
from mindsummary_lightning.maintenance.verify import Finding, verify_run
from mindsummary_lightning.reading.summary_reader import SummaryReader
from mindsummary_lightning.recording.summary_record import SummaryRecord
from mindsummary_lightning.values import (
    DatasetGraph,
    EvaluationInfo,
    Event,
    Graph,
    GraphNode,
    LossLandscape,
    Points,
    RunInfo,
    SummaryValue,
    Tensor,
    TrainInfo,
    UserDefinedInfo,
)
from mindsummary_lightning.values.events import LineageValue
from tests.cli.command import mindsummary
from tests.cli.demo_run import write_demo_run
from tests.reading.runs import (
    histogram,
    record,
    values_at,
    write_lineage,
    write_mindspore_run,
    write_parameter_run,
    write_summary,
)
from tests.support import append_bytes, whole_payloads

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


# ---- limits: what is shown, and the first that is not

_OF_KIND: dict[str, tuple[int, SummaryValue]] = {
    "scalar": (1000, 0.5),
    "image": (10, batch_to_image(np.zeros((1, 1, 2, 2), np.uint8))),
    "tensor": (20, Tensor(np.ones(2))),
    "histogram": (50, histogram(1, 2)),
    "loss_landscape": (500, LossLandscape(Points(np.ones(1), np.ones(1), np.ones((1, 1))))),
}


@pytest.mark.parametrize("kind", _OF_KIND)
def test_the_steps_that_mindinsight_keeps_of_a_tag_are_no_warning_and_one_more_is(
    tmp_path: Path, kind: str
) -> None:
    kept, value = _OF_KIND[kind]
    values = {"at the limit": value} if kept <= 100 else {}  # of the others it takes too long
    records = [values_at(step, {**values, "above it": value}) for step in range(kept)]
    write_summary(tmp_path, [*records, values_at(kept, {"above it": value})])
    message = (
        f"1 {kind} tags have more than {kept} steps; MindInsight shows only {kept} randomly "
        "chosen steps of each of these tags"
    )
    assert list(verify_run(str(tmp_path))) == [Finding(str(tmp_path), None, False, message)]


def test_the_tags_and_buckets_that_mindinsight_keeps_are_no_warning_and_one_more_is(
    tmp_path: Path,
) -> None:
    tensor = Tensor(np.ones(2))
    values: dict[str, SummaryValue] = {f"t{number}": tensor for number in range(6)}
    values |= {f"s{number}": 0.5 for number in range(293)}
    path = write_summary(tmp_path, [values_at(1, {**values, "h": histogram(*range(90))})])
    assert list(verify_run(str(tmp_path))) == []

    append_bytes(path, values_at(2, {"t6": tensor, "h": histogram(*range(91))}))
    offset = path.stat().st_size - len(values_at(2, {"t6": tensor, "h": histogram(*range(91))}))
    assert list(verify_run(str(tmp_path))) == [
        Finding(
            str(path),
            offset,
            False,
            "histogram 'h' at step 2 has 91 buckets; MindInsight drops histograms with more than "
            "90",
        ),
        Finding(
            str(tmp_path),
            None,
            False,
            "the run has 301 tags (a graph counts as two tags); MindInsight keeps only the 300 "
            "tags that appeared last",
        ),
        Finding(
            str(tmp_path),
            None,
            False,
            "the run has 7 tensor tags; MindInsight keeps only the 6 that appeared last",
        ),
    ]


def test_repeated_samples_are_counted_for_each_tag_and_a_second_graph_is_none(
    tmp_path: Path,
) -> None:
    graph = record(Event(1.0, 0, Graph((GraphNode("1", "Add"),))))
    records = [graph, graph]
    records += [values_at(step, {"b": 1.0, "c": 1.0}) for step in (1, 2, 3, 2, 1)]
    records += [values_at(step, {"a": histogram(1), "c": 1.0}) for step in (4, 4, 5)]
    records += [values_at(step, {"d": 1.0}) for step in (5, 6, 4)]
    path = write_summary(tmp_path, records)

    told = [
        finding.message.partition(", at steps with an earlier sample")[0]
        for finding in verify_run(str(tmp_path))
    ]

    assert told == [
        "histogram 'a' has 1 repeated samples",
        "scalar 'b' has 2 repeated samples",
        "scalar 'c' has 3 repeated samples",
    ]
    assert {finding.path for finding in verify_run(str(tmp_path))} == {str(path)}


def test_a_landscape_that_a_page_cannot_show_is_a_warning(tmp_path: Path) -> None:
    points = Points(np.ones(2), np.ones(3), np.full((3, 2), np.nan))
    path = write_summary(tmp_path, [*_RECORDS, values_at(4, {"l": LossLandscape(points)})])

    (finding,) = verify_run(str(tmp_path))

    assert (finding.path, finding.is_damage) == (str(path), False)
    assert finding.message == (
        "loss_landscape 'l' at step 4 cannot be shown by MindInsight: z of a landscape's surface "
        "must be finite: a browser cannot parse NaN"
    )


def test_only_files_of_events_and_graphs_are_judged_by_their_names(tmp_path: Path) -> None:
    write_summary(tmp_path, _RECORDS)
    for name in ("notes.txt", "memory_usage_1.pb", "graph.pb.txt"):
        (tmp_path / name).touch()
    (tmp_path / "folder.pb").mkdir()
    assert list(verify_run(str(tmp_path))) == []

    (tmp_path / "graph.pb").touch()
    assert [finding.path for finding in verify_run(str(tmp_path))] == [str(tmp_path / "graph.pb")]


# ---- lineage


@pytest.mark.parametrize(
    ("values", "is_ignored"),
    [
        ([UserDefinedInfo({"a": 1}), RunInfo({"b": 1})], True),
        ([RunInfo({"b": 1})], False),
        ([UserDefinedInfo({"a": 1}), EvaluationInfo("{}")], False),
        ([UserDefinedInfo({"a": 1}), RunInfo({"b": 1}), TrainInfo()], False),
    ],
)
def test_custom_data_are_ignored_if_no_other_lineage_is_with_them(
    tmp_path: Path, values: list[LineageValue], is_ignored: bool
) -> None:
    path = write_lineage(tmp_path, values)

    assert (
        list(verify_run(str(tmp_path)))
        == [
            Finding(
                str(path),
                None,
                False,
                "this _lineage file contains only custom data, so MindInsight ignores it",
            )
        ]
        * is_ignored
    )


@pytest.mark.parametrize(
    ("value", "is_damage"),
    [
        (TrainInfo(learning_rate=float("inf")), False),
        (TrainInfo(loss=float("nan"), learning_rate=0.1), False),
        (TrainInfo(loss=0.5, learning_rate=0.1), None),
        (EvaluationInfo(f'{{"a": {10**400}}}'), None),
        (EvaluationInfo('{"a": Infinity}'), True),
        (DatasetGraph({"op_type": "x", "weight": float("nan")}), True),
    ],
    ids=range(6),
)
def test_numbers_that_are_not_finite_are_damage_where_mindinsight_fails_on_them(
    tmp_path: Path, value: LineageValue, is_damage: bool | None
) -> None:
    write_lineage(tmp_path, [value, TrainInfo(epoch=1), EvaluationInfo("{}")])

    assert [finding.is_damage for finding in verify_run(str(tmp_path))] == (
        [] if is_damage is None else [is_damage]
    )
    assert len(repair_run(str(tmp_path), is_dry=True)) == (is_damage is True)


def test_each_bad_record_of_a_lineage_file_is_found(tmp_path: Path) -> None:
    bad = [EvaluationInfo("[1]"), TrainInfo(epoch=3), EvaluationInfo("[1, 2]"), TrainInfo(epoch=4)]
    path = write_lineage(tmp_path, bad)
    starts = [0]
    for payload in whole_payloads(path):
        starts.append(starts[-1] + len(payload) + 16)
    _damage(path, starts[1] + 13)
    append_bytes(path, b"torn")

    findings = list(verify_run(str(tmp_path)))

    assert [(finding.offset, finding.is_damage) for finding in findings] == [
        (starts[0], True),
        (starts[1], True),
        (starts[2], True),
        (starts[4], True),
    ]
    assert "payload CRC" in findings[1].message
    assert "4 bytes of an unfinished record at the end" in findings[3].message


# ---- progress and copies


def test_the_bytes_that_were_read_are_told_once(tmp_path: Path) -> None:
    path = write_summary(tmp_path, [*_RECORDS, _RECORDS[0][:11]])
    _damage(path, -len(_RECORDS[2]) - 13)
    size = path.stat().st_size + write_lineage(tmp_path, [TrainInfo(), TrainInfo()]).stat().st_size
    told: list[int] = []
    deque(verify_run(str(tmp_path), told.append), maxlen=0)
    assert (sum(told), min(told) > 0) == (size, True)

    told.clear()
    repair_run(str(tmp_path), told.append, is_dry=True)
    assert (sum(told), min(told) > 0) == (size, True)


@pytest.mark.parametrize("has_links", [True, False])
def test_the_damaged_file_is_kept_with_its_mode_and_costs_no_room_where_links_are_known(
    tmp_path: Path, has_links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_summary(tmp_path, [*_RECORDS, b"torn"])
    os.chmod(path, 0o640)
    before, content = path.stat(), path.read_bytes()
    if not has_links:
        refusing = mock.Mock(side_effect=OSError(1, "no hard links"))
        monkeypatch.setattr(os, "link", refusing)

    (repaired,) = repair_run(str(tmp_path))

    kept = tmp_path / ".damaged" / f"{path.name.replace('summary.', 'summary-')}.damaged"
    assert repaired == RepairedFile(str(path), 4, 4, str(kept))
    assert (kept.read_bytes(), kept.stat().st_mode) == (content, before.st_mode)
    assert (kept.stat().st_ino == before.st_ino) == has_links
    assert path.read_bytes() == content[:-4]
    assert [*(tmp_path / ".damaged").iterdir()] == [kept]
    assert repair_run(str(tmp_path)) == []


def test_a_rebuilt_file_of_which_the_disk_lost_a_part_replaces_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_summary(tmp_path, [*_RECORDS, b"torn"])
    before = path.read_bytes()

    def lose(descriptor: int) -> None:
        os.ftruncate(descriptor, os.fstat(descriptor).st_size - 1)

    monkeypatch.setattr(os, "fsync", lose)
    with pytest.raises(OSError, match="the rebuilt file does not read back as it was written"):
        repair_run(str(tmp_path))

    assert path.read_bytes() == before
    assert [*tmp_path.iterdir()] == [path]


def test_what_a_repair_tells_of_each_damaged_file_is_what_it_did(tmp_path: Path) -> None:
    torn = write_summary(tmp_path, [*_RECORDS, _RECORDS[0][:11]])
    other = tmp_path / "events.out.events.summary.1800000000.0.h_MS"
    other.write_bytes(b"no record at all")
    lineage = write_lineage(tmp_path, [EvaluationInfo("[1]"), TrainInfo(epoch=3)])
    bad = len(whole_payloads(lineage)[0]) + 16
    looks_like = "another kind of file: it begins with b'no record at'"

    tried = repair_run(str(tmp_path), is_dry=True)
    repaired = repair_run(str(tmp_path))

    assert tried == [
        RepairedFile(str(torn), 4, 11),
        RepairedFile(str(other), 0, 16, looks_like=looks_like),
        RepairedFile(str(lineage), 1, bad),
    ]
    kept = {Path(str(one.backup)).name for one in repaired if one.backup}
    assert {path.name for path in (tmp_path / ".damaged").iterdir()} == kept
    assert [replace(one, backup=None) for one in repaired] == tried
    assert [one.backup is None for one in repaired] == [False, True, False]
