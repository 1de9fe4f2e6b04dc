"""Custom data in the lineage file.

Data that MindInsight has a column for are kept where only our readers look.
"""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest

from mindsummary_lightning import SummaryReader, SummaryRecord, filter_summary_lineage
from mindsummary_lightning.recording import lineage_file
from mindsummary_lightning.recording.summary_record import recorder_of
from mindsummary_lightning.values import EvaluationInfo, RunInfo, TrainInfo, UserDefinedInfo
from mindsummary_lightning.values.events import LineageValue
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
