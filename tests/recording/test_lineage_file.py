"""Custom data in the lineage file.

Data that MindInsight has a column for are kept where only our readers look.
"""

from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

import pytest

from mindsummary_lightning import SummaryReader, SummaryRecord, filter_summary_lineage
from mindsummary_lightning.fileformat._proto import lineage_pb2
from mindsummary_lightning.fileformat.framing import frame
from mindsummary_lightning.recording import lineage_file
from mindsummary_lightning.recording.summary_record import recorder_of
from mindsummary_lightning.values import EvaluationInfo, RunInfo, TrainInfo, UserDefinedInfo
from mindsummary_lightning.values.events import LineageValue
from mindsummary_lightning.values.lineage_info import AddedEvaluation
from tests.reading.runs import write_lineage
from tests.support import lineage_paths, read_lineage

HPARAMS = UserDefinedInfo({"batch_size": 16, "learning_rate": 0.1, "dropout": 0.5})
TRAIN = TrainInfo(batch_size=16, learning_rate=0.1)


def _write(run: Path, *values: LineageValue) -> None:
    with SummaryRecord(run, raise_exception=True) as record:
        for value in values:
            recorder_of(record).write_lineage(value)


def _columns(run: Path) -> dict[str, object]:
    (found,) = filter_summary_lineage(run)["object"]
    columns: dict[str, object] = found["model_lineage"]["user_defined"]
    return columns


def _custom(run: Path) -> object:
    custom = SummaryReader(run).lineage().custom
    return None if custom is None else custom.values


@pytest.mark.parametrize(
    "values", [(HPARAMS, TRAIN), (TRAIN, HPARAMS)], ids=["train last", "train first"]
)
def test_custom_data_that_repeat_a_field_have_no_column_and_are_still_read(
    tmp_path: Path, values: tuple[LineageValue, ...]
) -> None:
    _write(tmp_path, *values)

    assert _custom(tmp_path) == HPARAMS.values
    assert _columns(tmp_path) == {"dropout": 0.5}


def test_custom_data_that_say_otherwise_keep_their_column(tmp_path: Path) -> None:
    _write(tmp_path, HPARAMS, TrainInfo(batch_size=32, learning_rate=0.1))

    assert _columns(tmp_path) == {"batch_size": 16, "dropout": 0.5}


def test_what_is_small_enough_by_itself_and_too_large_together_stays_below_64_kib(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    large = {f"k{number}": "x" * 900 for number in range(40)}
    _write(
        tmp_path,
        TRAIN,
        RunInfo(large),
        UserDefinedInfo({f"own_{key}": large[key] for key in large}),
    )

    (path,) = lineage_paths(tmp_path)
    assert 60_000 < path.stat().st_size < 2**16
    (warning,) = caplog.messages
    assert "custom data 'own_k" in warning
    assert "is too large for a lineage file of 64 KiB" in warning


def test_an_event_of_repetitions_alone_leaves_the_file(tmp_path: Path) -> None:
    # MindInsight fails on an empty one
    _write(tmp_path, UserDefinedInfo({"batch_size": 16}), TRAIN)

    kinds = [type(event.what) for event in read_lineage(tmp_path)]
    assert UserDefinedInfo not in kinds


def test_the_file_grows_when_custom_data_lose_their_column(tmp_path: Path) -> None:
    with SummaryRecord(tmp_path, raise_exception=True) as record:
        recorder_of(record).write_lineage(HPARAMS)
        (path,) = lineage_paths(tmp_path)
        before = path.stat().st_size
        recorder_of(record).write_lineage(TRAIN)

        assert path.stat().st_size > before


def test_a_write_that_failed_leaves_the_columns_as_they_were(tmp_path: Path) -> None:
    with SummaryRecord(tmp_path, raise_exception=True) as record:
        recorder_of(record).write_lineage(HPARAMS)
        with (
            mock.patch.object(lineage_file, "replace_file", side_effect=OSError("full")),
            pytest.raises(OSError),
        ):
            recorder_of(record).write_lineage(TRAIN)
        recorder_of(record).write_lineage(EvaluationInfo('{"accuracy": 0.5}'))

    assert _columns(tmp_path) == dict(HPARAMS.values)


def test_run_info_of_an_earlier_process_is_carried_over_into_the_new_file(tmp_path: Path) -> None:
    _write(tmp_path, TRAIN, RunInfo({"precision": "32-true"}), RunInfo({"status": "failed"}))
    (path,) = lineage_paths(tmp_path)
    # this process knows it no more
    path.rename(path.with_name(path.name.replace("summary.1", "summary.0")))
    _write(tmp_path, RunInfo({"status": "success"}))

    assert len(lineage_paths(tmp_path)) == 2
    # A later file with training lineage replaces the earlier ones.
    condition = {
        "user_defined/precision": {"eq": "32-true"},
        "user_defined/status": {"eq": "finished"},
    }
    assert filter_summary_lineage(tmp_path, condition)["count"] == 1
    assert _columns(tmp_path) == {}


def test_of_earlier_values_under_one_name_the_later_is_carried_over(tmp_path: Path) -> None:
    earlier = [UserDefinedInfo({"a": 1, "b": 1}), UserDefinedInfo({"b": 2, "c": 2})]
    path = write_lineage(tmp_path, [TrainInfo(batch_size=16), *earlier])
    with path.open("ab") as file:  # of a kind that a later version may write
        file.writelines(frame([lineage_pb2.LineageEvent(wall_time=1.0).SerializeToString()]))
    _write(tmp_path, UserDefinedInfo({"d": 3}))

    assert [event.what for event in read_lineage(tmp_path)][-2:] == [
        TrainInfo(batch_size=16),
        UserDefinedInfo({"a": 1, "b": 2, "c": 2, "d": 3}),
    ]


def test_what_the_user_says_of_a_field_replaces_what_the_run_noted_under_its_name(
    tmp_path: Path,
) -> None:
    _write(tmp_path, RunInfo({"batch_size": 8}), TRAIN, UserDefinedInfo({"batch_size": 16}))

    noted = [event.what for event in read_lineage(tmp_path) if type(event.what) is RunInfo]
    assert noted == [RunInfo({"batch_size": 16})]
    assert _custom(tmp_path) == {"batch_size": 16}


def test_custom_data_that_come_to_repeat_a_field_do_not_leave_an_earlier_value_to_be_shown(
    tmp_path: Path,
) -> None:
    _write(tmp_path, TrainInfo(batch_size=32), UserDefinedInfo({"batch_size": 64, "dropout": 0.5}))
    before = sum(path.stat().st_size for path in lineage_paths(tmp_path))
    _write(tmp_path, UserDefinedInfo({"batch_size": 32}))

    assert _columns(tmp_path) == {"dropout": 0.5}
    assert _custom(tmp_path) == {"batch_size": 32, "dropout": 0.5}
    assert sum(path.stat().st_size for path in lineage_paths(tmp_path)) > before


def test_an_earlier_value_that_comes_to_repeat_a_field_does_not_replace_the_newer_one(
    tmp_path: Path,
) -> None:
    _write(
        tmp_path,
        UserDefinedInfo({"batch_size": 32}),
        UserDefinedInfo({"batch_size": 64}),
        TrainInfo(batch_size=32),
    )

    assert _columns(tmp_path) == _custom(tmp_path) == {"batch_size": 64}


def test_what_the_user_says_counts_before_what_the_run_notes_of_itself_for_every_reader(
    tmp_path: Path,
) -> None:
    noted = RunInfo({"precision": "32-true", "torch_version": "2"})
    _write(tmp_path, TRAIN, UserDefinedInfo({"precision": "mine"}), noted)

    assert _columns(tmp_path) == {"precision": "mine"}
    assert _custom(tmp_path) == {"precision": "mine", "torch_version": "2"}


def test_what_the_run_noted_already_is_shown_if_the_user_says_it_too(tmp_path: Path) -> None:
    _write(
        tmp_path,
        TRAIN,
        RunInfo({"precision": "32-true"}),
        UserDefinedInfo({"precision": "32-true"}),
    )

    assert _columns(tmp_path) == {"precision": "32-true"}


# ---- metrics that are added


def _metric(run: Path) -> dict[str, object]:
    evaluation = SummaryReader(run).lineage().evaluation
    assert evaluation is not None
    return dict(json.loads(evaluation.metric or "{}"))


def test_metrics_are_added_to_the_earlier_ones_the_newest_last(tmp_path: Path) -> None:
    earlier = EvaluationInfo('{"a": 1.0, "b": 2.0, "c": NaN, "d": [1, 2]}', "old.txt", 5)
    write_lineage(tmp_path, [earlier])  # MindSpore writes NaN
    _write(tmp_path, AddedEvaluation('{"e": 3.0, "a": 4.0}', "new.txt", 6))

    assert [*_metric(tmp_path).items()] == [("b", 2.0), ("d", [1, 2]), ("e", 3.0), ("a", 4.0)]
    evaluation = SummaryReader(tmp_path).lineage().evaluation
    assert evaluation is not None
    assert (evaluation.valid_dataset_path, evaluation.valid_dataset_size) == ("new.txt", 6)
    _write(tmp_path, EvaluationInfo('{"f": 5.0}'))
    assert _metric(tmp_path) == {"f": 5.0}
    write_lineage(tmp_path / "other", [EvaluationInfo("no JSON")])
    _write(tmp_path / "other", AddedEvaluation('{"g": 6.0}'))
    assert read_lineage(tmp_path / "other")[-1].what == EvaluationInfo('{"g": 6.0}')
    write_lineage(tmp_path / "no metric", [EvaluationInfo(None, "old.txt", 5)])
    _write(tmp_path / "no metric", AddedEvaluation('{"g": 6.0}'))
    assert read_lineage(tmp_path / "no metric")[-1].what == EvaluationInfo('{"g": 6.0}')


def test_of_too_many_metrics_those_that_were_measured_last_are_kept(tmp_path: Path) -> None:
    _write(
        tmp_path,
        AddedEvaluation(json.dumps({f"m{number}": number for number in range(1000)})),
        AddedEvaluation(json.dumps({"m0": -1, "new": -2})),
    )

    kept = [(f"m{number}", number) for number in range(2, 1000)] + [("m0", -1), ("new", -2)]
    assert [*_metric(tmp_path).items()] == kept


def test_an_event_that_fits_exactly_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def size_with(length: int, name: str, **more: int) -> int:
        custom = {"k": "x" * length, "l": "x" * 30_000, **more}
        _write(tmp_path / name, TRAIN, UserDefinedInfo(custom))
        (path,) = lineage_paths(tmp_path / name)
        return path.stat().st_size

    length = 30_000 + 64_000 - size_with(30_000, "first")
    assert not caplog.messages
    size_with(length, "fits")
    assert _custom(tmp_path / "fits") == {"k": "x" * length, "l": "x" * 30_000}
    assert not caplog.messages
    size_with(length + 1, "does not")
    assert _custom(tmp_path / "does not") == {"k": "x" * (length + 1)}
    (message,) = caplog.messages
    assert message.startswith(f"custom data 'l' of {tmp_path / 'does not'} is too large for a")
    size_with(length, "with more", m=1)
    assert _custom(tmp_path / "with more") == {"k": "x" * length, "l": "x" * 30_000}


def test_what_is_left_out_is_named_by_its_kind_or_by_its_keys(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _write(
        tmp_path,
        TRAIN,
        EvaluationInfo(json.dumps({"m" * 70_000: 1})),
        RunInfo({"of the run": "x" * 70_000}),
        UserDefinedInfo({"a": 1, "b": "x" * 70_000, "c": 2, "d": 3}),
    )

    assert [message.partition(" of ")[0] for message in caplog.messages] == [
        "EvaluationInfo",
        "custom data 'of the run'",
        "custom data 'b' and 2 more",
    ]
    assert _columns(tmp_path) == {"a": 1}
    assert _custom(tmp_path) == {"a": 1}
