"""SummaryRecord: MindSpore's behaviour, line by line, and where it is improved."""

from __future__ import annotations

import copy
import logging
import os
import pickle
import shutil
import stat
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import unquote

import numpy as np
import pytest

from mindsummary_lightning import SummaryRecord
from mindsummary_lightning.collection import operator_buffer
from mindsummary_lightning.conversion.histograms import to_histogram
from mindsummary_lightning.conversion.image_batches import batch_to_image
from mindsummary_lightning.errors import RecordTooLargeError
from mindsummary_lightning.recording.summary_record import recorder_of
from mindsummary_lightning.values import (
    DatasetGraph,
    EvaluationInfo,
    Graph,
    GraphNode,
    Histogram,
    Image,
    LossLandscape,
    Points,
    Tensor,
    TrainInfo,
    UserDefinedInfo,
)
from tests.support import (
    lineage_paths,
    read_events,
    read_lineage,
    read_scalars,
    read_values,
    summary_paths,
)

LANDSCAPE = LossLandscape(Points(np.ones(2), np.ones(3), np.ones((3, 2))))
SAMPLES: dict[str, Any] = {
    "scalar": 0.5,
    "image": np.zeros((1, 3, 4, 4), np.uint8),
    "tensor": np.ones((2, 2)),
    "histogram": np.arange(5.0),
    "graph": Graph((GraphNode("1", "Add", full_name="Add-op1"),)),
    "LANDSCAPE": LANDSCAPE,
    "train_lineage": TrainInfo(epoch=1),
    "eval_lineage": EvaluationInfo('{"acc": 1.0}'),
    "dataset_graph": DatasetGraph({"op_type": "BatchDataset"}),
    "custom_lineage_data": {"lr": 0.1},
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


# ---- the ten plugins


@pytest.mark.parametrize(
    "plugin", ["scalar", "image", "tensor", "histogram", "LANDSCAPE", "landscape"]
)
def test_a_value_is_recorded_under_its_name_at_its_step(run: Path, plugin: str) -> None:
    with SummaryRecord(run) as record:
        record.add_value(plugin, "tag", SAMPLES.get(plugin, LANDSCAPE))
        assert record.record(7) is True

    types = {"scalar": float, "image": Image, "tensor": Tensor, "histogram": Histogram}
    ((step, tag, value),) = read_values(run)
    assert (step, tag, type(value)) == (7, "tag", types.get(plugin, LossLandscape))
    assert not lineage_paths(run)


def test_a_graph_is_recorded_in_an_event_of_its_own(run: Path) -> None:
    with SummaryRecord(run) as record:
        record.add_value("graph", "net", SAMPLES["graph"])
        record.record(1)

    assert read_events(run)[1].what == SAMPLES["graph"]


@pytest.mark.parametrize("plugin", ["train_lineage", "eval_lineage", "dataset_graph"])
def test_lineage_is_recorded_in_the_lineage_file_alone(run: Path, plugin: str) -> None:
    with SummaryRecord(run) as record:
        record.add_value(plugin, "name", SAMPLES[plugin])
        record.record(1)

    assert [event.what for event in read_lineage(run)] == [SAMPLES[plugin]]
    assert not summary_paths(run)


@pytest.mark.parametrize(
    "value", [{"lr": 0.1}, UserDefinedInfo({"lr": 0.1})], ids=["dict", "value"]
)
def test_custom_data_is_a_dict_or_its_value(run: Path, value: Any) -> None:
    with SummaryRecord(run) as record:
        record.add_value("custom_lineage_data", "name", value)
        record.record(1)

    assert [event.what for event in read_lineage(run)] == [
        TrainInfo(),
        UserDefinedInfo({"lr": 0.1}),
    ]


def test_all_values_of_a_step_that_may_share_an_event_do(run: Path) -> None:
    with SummaryRecord(run) as record:
        for plugin in ("scalar", "tensor", "image", "histogram"):
            record.add_value(plugin, f"a {plugin}", SAMPLES[plugin])
        record.record(3)

    tags = [
        [tag for tag, _ in event.what]
        for event in read_events(run)[1:]
        if isinstance(event.what, tuple)
    ]
    assert tags == [["a scalar", "a image", "a histogram"], ["a tensor"]]


def test_torch_tensors_are_recorded_like_arrays(run: Path) -> None:
    torch = pytest.importorskip("torch")
    array = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4)
    with SummaryRecord(run) as record:
        record.add_value("scalar", "s", torch.tensor([[2.5]], requires_grad=True))
        record.add_value("tensor", "t", torch.from_numpy(array).bfloat16())
        record.add_value("histogram", "h", torch.from_numpy(array))
        record.add_value("image", "i", torch.from_numpy(array))
        record.record(1)

    recorded = {tag: value for _, tag, value in read_values(run)}
    assert recorded["s"] == 2.5
    assert recorded["t"].data.tolist() == array.tolist()  # type: ignore[union-attr]
    assert recorded["h"].counts.tolist() == to_histogram(array).counts.tolist()  # type: ignore[union-attr]
    assert recorded["i"] == batch_to_image(array)


def test_a_value_is_copied_when_it_is_added(run: Path) -> None:
    mine = np.ones(3)
    with SummaryRecord(run) as record:
        record.add_value("tensor", "t", mine)
        mine[:] = 9
        record.record(1)

    assert read_values(run)[0][2].data.tolist() == [1, 1, 1]  # type: ignore[union-attr]


# ---- bad arguments raise at the call and leave nothing on the disk

BAD_ARGUMENTS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"log_dir": None}, TypeError, "log_dir must be a path, not None"),
    ({"log_dir": "a\0b"}, ValueError, "log_dir must be a str path without a NUL"),
    ({"log_dir": b"bytes"}, TypeError, "log_dir must be a path"),
    ({"file_prefix": 3}, TypeError, "file_prefix must be a str, not 3"),
    ({"file_suffix": None}, TypeError, "file_suffix must be a str, not None"),
    ({"file_suffix": "_lineage"}, ValueError, "file_suffix must not end in"),
    ({"max_file_size": 1.5}, TypeError, "max_file_size must be an int of bytes or None, not 1.5"),
    ({"max_file_size": True}, TypeError, "max_file_size must be an int"),
    ({"max_file_size": -5}, ValueError, "max_file_size must be at least 1 byte"),
    ({"raise_exception": 1}, TypeError, "raise_exception must be a bool, not 1"),
    ({"export_options": "npy"}, TypeError, "export_options must be a dict or None, not 'npy'"),
    (
        {"file_mode": "rw"},
        TypeError,
        "file_mode must be an int such as 0o640, or its text, not 'rw'",
    ),
    ({"file_mode": "400"}, ValueError, "file_mode must be 0o600..0o777"),
    (
        {"file_mode": 0o400},
        ValueError,
        "file_mode must be 0o600..0o777 and let the owner read and write",
    ),
    ({"fsync_secs": "1"}, TypeError, "fsync_secs must be a number of seconds or None"),
    ({"fsync_secs": 0}, ValueError, "fsync_secs must be above 0"),
    ({"free_space_factor": 0.5}, TypeError, "free_space_factor must be an int"),
    ({"free_space_factor": -1}, ValueError, "free_space_factor must be 0 or more"),
]


@pytest.mark.parametrize(
    ("arguments", "error", "text"), BAD_ARGUMENTS, ids=lambda part: str(part)[:40]
)
def test_a_bad_argument_raises_and_makes_nothing(
    tmp_path: Path, arguments: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as raised:
        SummaryRecord(**{"log_dir": str(tmp_path / "run"), **arguments})

    assert text in str(raised.value)
    assert not os.listdir(tmp_path)


BAD_VALUES: list[tuple[Any, Any, Any, type[Exception], str]] = [
    ("scalar", "a", None, TypeError, "found None"),
    (["scalar"], "a", 1.0, ValueError, "plugin must be one of scalar, image, "),
    ("scalars", "a", 1.0, ValueError, "plugin must be one of scalar, image, "),
    ("graph", "a", "text", TypeError, "values.Graph, got 'text'"),
    ("image", "a", np.ones((1, 2, 4, 4)), ValueError, ""),
    ("histogram", "a", np.float32(1), ValueError, ""),
    ("LANDSCAPE", "a", np.ones((3, 3)), TypeError, "values.LossLandscape"),
    ("train_lineage", "a", {}, TypeError, "values.TrainInfo"),
    (
        "train_lineage",
        "a",
        TrainInfo(loss=float("nan")),
        ValueError,
        "loss of TrainInfo must be finite",
    ),
    ("eval_lineage", "a", EvaluationInfo("[]"), ValueError, "JSON text of an object"),
    ("dataset_graph", "a", None, TypeError, "values.DatasetGraph"),
    ("custom_lineage_data", "a", {}, ValueError, "at least one entry"),
    ("custom_lineage_data", "a", {"k": None}, TypeError, "k of UserDefinedInfo"),
]


@pytest.mark.parametrize(
    ("plugin", "name", "value", "error", "text"), BAD_VALUES, ids=lambda part: str(part)[:30]
)
def test_a_bad_value_raises_and_is_not_kept(
    tmp_path: Path, plugin: Any, name: Any, value: Any, error: type[Exception], text: str
) -> None:
    with SummaryRecord(tmp_path / "run") as record:
        with pytest.raises(error) as raised:
            record.add_value(plugin, name, value)
        record.record(1)

    assert text in str(raised.value)
    assert not os.listdir(tmp_path)


def test_a_tensor_beyond_what_mindinsight_shows_is_skipped_where_it_is_added(
    run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with SummaryRecord(run) as record:
        for _ in range(2):
            record.add_value("tensor", "t", np.zeros(10_000_001, np.int8))
        assert record.record(1) is False  # not everything is in the files
        assert record.record(2) is True

    assert [line.getMessage()[:24] for line in caplog.records] == ["tensor 't' is skipped: a"]
    with pytest.raises(
        RecordTooLargeError, match="10000001 elements; MindInsight shows at most 10000000"
    ):
        SummaryRecord(run, raise_exception=True).add_value(
            "tensor", "t", np.zeros(10_000_001, np.int8)
        )


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"step": 1.0}, TypeError, "step must be an int, not 1.0"),
        ({"step": True}, TypeError, "step must be an int, not True"),
        ({"step": None}, TypeError, "step must be an int, not None"),
        ({"step": 2**63}, ValueError, "step must be in the range of 64 bits"),
        (
            {"step": 1, "plugin_filter": 3},
            TypeError,
            "plugin_filter must be callable or None, got 3",
        ),
        (
            {"step": 1, "train_network": 3},
            TypeError,
            "train_network must be a torch.nn.Module or None, not 3",
        ),
    ],
    ids=str,
)
def test_a_bad_step_filter_or_network_raises_and_keeps_what_was_added(
    run: Path, arguments: dict[str, Any], error: type[Exception], text: str
) -> None:
    record = SummaryRecord(run)
    record.add_value("scalar", "a", 1.0)
    with pytest.raises(error, match=text):
        record.record(**arguments)
    assert not run.exists()
    record.record(1)

    assert read_scalars(run, "a") == [(1, 1.0)]


# ---- record


def test_the_filter_chooses_plugins_and_the_rest_is_dropped(run: Path) -> None:
    asked: list[str] = []
    with SummaryRecord(run) as record:
        record.add_value("scalar", "s", 1.0)
        record.add_value("scalar", "s2", 2.0)
        record.add_value("tensor", "t", np.ones(2))
        record.add_value("train_lineage", "l", TrainInfo())
        record.record(1, plugin_filter=lambda plugin: asked.append(plugin) or plugin == "scalar")  # type: ignore[func-returns-value]
        record.record(2)

    assert sorted(asked) == ["scalar", "tensor", "train_lineage"]
    assert [(step, tag) for step, tag, _ in read_values(run)] == [(1, "s"), (1, "s2")]
    assert not lineage_paths(run)


def test_recording_nothing_is_done_and_makes_nothing(run: Path) -> None:
    assert SummaryRecord(run).record(1) is True
    assert not run.exists()


def test_of_two_values_under_one_name_the_newest_is_recorded_with_one_warning(
    run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with SummaryRecord(run) as record:
        for value in (1.0, 2.0, 3.0):
            record.add_value("scalar", "a", value)
        record.record(1)

        record.add_value("scalar", "a", 4.0)
        record.add_value("histogram", "a", np.arange(3.0))
        record.record(2)

    assert read_scalars(run, "a") == [(1, 3.0), (2, 4.0)]
    assert [line.getMessage() for line in caplog.records] == [
        "scalar 'a' was added twice before record(). The newest value is recorded"
    ]


def test_one_name_may_serve_several_plugins(run: Path) -> None:
    with SummaryRecord(run) as record:
        record.add_value("scalar", "a", 1.0)
        record.add_value("histogram", "a", np.arange(3.0))
        record.record(1)

    assert [tag for _, tag, _ in read_values(run)] == ["a", "a"]


@pytest.mark.parametrize("step", [-(2**63), -1, 0, 1, 2**63 - 1])
def test_any_64_bit_step_is_kept(run: Path, step: int) -> None:
    with SummaryRecord(run) as record:
        record.add_value("scalar", "a", 1.0)
        record.record(step)

    assert read_scalars(run, "a") == [(step, 1.0)]


@pytest.mark.parametrize("is_given_to_record", [False, True])
def test_the_network_is_recorded_at_the_first_record(run: Path, is_given_to_record: bool) -> None:
    torch = pytest.importorskip("torch")
    network = torch.nn.Linear(2, 3)
    mine, later = (
        ({}, {"train_network": network}) if is_given_to_record else ({"network": network}, {})
    )
    with SummaryRecord(run, example_input=torch.ones(1, 2), **mine) as record:
        assert not run.exists()
        record.record(1, **later)
        record.record(2, **later)

    assert sum(isinstance(event.what, Graph) for event in read_events(run)) == 1


def test_a_network_whose_graph_cannot_be_captured_is_called_once(
    run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    torch = pytest.importorskip("torch")

    class Failing(torch.nn.Module):  # type: ignore[misc]
        calls = 0

        def forward(self, x: Any) -> Any:
            Failing.calls += 1
            raise ValueError("not with this input")

    with SummaryRecord(run, network=Failing(), example_input=torch.ones(1)) as record:
        record.add_value("scalar", "a", 1.0)
        assert [record.record(1), record.record(2)] == [False, True]

    assert Failing.calls == 1
    assert len(caplog.messages) == 1
    assert read_scalars(run, "a") == [(1, 1.0)]


@pytest.mark.parametrize("failing", ["lineage", "a graph", "values"])
def test_a_record_tells_if_a_part_is_not_in_its_file(run: Path, failing: str) -> None:
    record = SummaryRecord(run)
    record.add_scalar("before", 1.0, 0)
    record.add_value("train_lineage", "l", SAMPLES["train_lineage"])
    record.add_value("graph", "g", SAMPLES["graph"])
    record.add_value("scalar", "a", 1.0)
    place = "replace.os.replace" if failing == "lineage" else "append.os.write"
    is_after = {"lineage": [True], "a graph": [True], "values": [False, True]}[failing]
    real = getattr(os, place.rpartition(".")[2])

    def fail_in_its_turn(*arguments: Any) -> Any:
        if is_after and is_after.pop(0):
            raise OSError(28, "disk full")
        return real(*arguments)

    with mock.patch(f"mindsummary_lightning.fileio.{place}", fail_in_its_turn):
        is_done = record.record(1)
    record.close()

    found = [event.what for event in read_events(run)]
    assert is_done is False
    assert recorder_of(record).policy.lost == 1
    assert (SAMPLES["graph"] in found, (("a", 1.0),) in found, lineage_paths(run) != []) == (
        failing != "a graph",
        failing != "values",
        failing != "lineage",
    )


def test_a_network_without_example_input_is_warned_of_once(
    run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    torch = pytest.importorskip("torch")
    record = SummaryRecord(run, network=torch.nn.Linear(2, 3))

    assert [record.record(1), record.record(2)] == [True, True]
    assert [line.getMessage() for line in caplog.records] == [
        (
            "the network's graph is not recorded, because SummaryRecord got no example_input. "
            "Pass example_input=..."
        )
    ]


# ---- modes, life, places


@pytest.mark.parametrize("mode", ["test", "", None, 1])
def test_the_mode_is_train_until_it_is_set_and_another_one_is_refused(run: Path, mode: Any) -> None:
    with pytest.raises(ValueError, match="mode must be 'train' or 'eval'"):
        SummaryRecord(run).set_mode(mode)
    record = SummaryRecord(run)
    assert record.mode == "train"
    record.set_mode("eval")
    assert record.mode == "eval"


def test_record_takes_what_operators_gave_since_the_last_one(run: Path) -> None:
    operators = pytest.importorskip("mindsummary_lightning.collection.operators")
    with SummaryRecord(run, export_options={"tensor_format": "npy"}) as record:
        operators.scalar_summary("before", 1.0)
        record.record(1)
        for value in (2.0, 3.0):
            operators.scalar_summary("newest", value)
        operators.tensor_summary("tensor", np.ones(2))
        record.add_value("scalar", "mine", 4.0)
        record.record(2)
        record.record(3)

    scalars = [
        (step, tag, value) for step, tag, value in read_values(run) if isinstance(value, float)
    ]
    assert scalars == [(1, "before", 1.0), (2, "mine", 4.0), (2, "newest", 3.0)]
    assert [path.name for path in run.glob("export_*/tensor/*")] == ["tensor_2.npy"]


def test_in_eval_mode_and_after_close_operators_give_nothing(run: Path) -> None:
    operators = pytest.importorskip("mindsummary_lightning.collection.operators")
    record = SummaryRecord(run)
    operators.scalar_summary("before", 1.0)
    record.set_mode("eval")
    operators.scalar_summary("a", 1.0)
    record.record(1)
    record.set_mode("train")
    record.record(2)
    assert not run.exists()
    operators.scalar_summary("a", 3.0)
    record.record(3)
    record.close()
    operators.scalar_summary("a", 4.0)

    assert read_scalars(run, "a") == [(3, 3.0)]


def test_a_record_that_is_dropped_takes_no_more_values_of_operators(run: Path) -> None:
    before = len(operator_buffer._records)
    SummaryRecord(run)

    assert len(operator_buffer._records) == before


def test_while_a_collector_takes_a_step_the_record_gets_nothing(run: Path) -> None:
    operators = pytest.importorskip("mindsummary_lightning.collection.operators")
    collected = operator_buffer.OperatorBuffer()
    with SummaryRecord(run) as record:
        operator_buffer.open_for(collected)
        operators.scalar_summary("collected", 1.0)
        operator_buffer.close(collected)
        operators.scalar_summary("recorded", 2.0)
        record.record(1)

    operator_buffer.end_training(collected)
    assert collected.take() == [("scalar", "collected", 1.0)]
    assert read_values(run) == [(1, "recorded", 2.0)]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [((32,), {}), ((32, None, 90, True, {"tensor_format": "npy"}), {}), ((), {"num_process": 4})],
    ids=["in its place", "before others", "named"],
)
def test_num_process_is_ignored_also_in_its_position_in_mindspore_2(
    run: Path, arguments: tuple[Any, ...], named: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.DEBUG, "mindsummary_lightning"),
        SummaryRecord(run, "events", "_MS", *arguments, **named) as record,
    ):
        for step in range(2):
            record.add_value("tensor", "t", np.ones(1))
            record.record(step)

    assert len(summary_paths(run)) == len(list(run.glob("export_*/tensor/*"))) or len(arguments) < 2
    assert [line.levelname for line in caplog.records] == ["DEBUG"]


def test_a_new_record_of_a_directory_has_its_own_settings_once_the_first_is_closed(
    run: Path,
) -> None:
    with SummaryRecord(run, file_prefix="first") as first:
        first.add_scalar("a", 1.0, 1)
    with SummaryRecord(run, file_prefix="second", file_mode=0o640, max_file_size=90) as second:
        for step in (2, 3):
            second.add_scalar("a", 1.0, step)

    names = [path.name.split(".")[0] for path in summary_paths(run)]
    assert names == ["first", "second", "second"]
    assert stat.S_IMODE(summary_paths(run)[1].stat().st_mode) == 0o640
    assert [step for step, _ in read_scalars(run, "a")] == [1, 2, 3]


def test_a_record_shows_its_directory(run: Path) -> None:
    record = SummaryRecord(run)

    assert repr(record) == f"SummaryRecord({str(run)!r})"
    assert [record.directory, record.run_dir, record.get_logdir()] == [str(run)] * 3
    assert not run.exists()


def test_log_dir_is_the_summary_file_before_and_after_it_is_made(run: Path) -> None:
    with SummaryRecord(run, file_prefix="pre", file_suffix="_x") as record:
        before = record.log_dir
        record.add_scalar("a", 1.0)

        assert record.log_dir == str(summary_paths(run)[0])
        assert before == record.log_dir
        assert os.path.basename(before).startswith("pre.out.events.summary.")
        assert before.endswith("_x")


def test_summary_and_lineage_file_share_their_second(run: Path) -> None:
    with SummaryRecord(run) as record:
        record.add_value("train_lineage", "l", TrainInfo())
        record.add_value("scalar", "s", 1.0)
        record.record(1)

    assert lineage_paths(run)[0].name == summary_paths(run)[0].name.replace("_MS", "_lineage")


def test_after_close_nothing_is_recorded_which_is_said_once(
    run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    record = SummaryRecord(run)
    record.flush()
    record.add_scalar("a", 1.0, 0)
    record.flush()
    record.close()
    record.close()
    record.flush()
    with pytest.raises(ValueError, match=r"is closed\. Make a new record"), record:
        pass
    record.add_value("scalar", "a", 2.0)
    record.add_value("scalar", "b", 2.0)

    assert [record.record(1), record.record(2)] == [False, False]
    record.add_scalar("a", 3.0, 2)
    record.add_hparams({"lr": 0.1}, {"acc": 1.0})
    assert read_scalars(run, "a") == [(0, 1.0)]
    assert not lineage_paths(run)
    assert caplog.messages == [
        f"the record of {run} is closed: {what} is not recorded. Record before close(), or make a "
        "new record"
        for what in ("'a' at step 1", "'b' at step 1", "lineage")
    ]


def test_two_records_of_one_directory_share_one_file(run: Path) -> None:
    run.mkdir()
    (run.parent / "link").symlink_to(run)
    first, second = SummaryRecord(run), SummaryRecord(os.path.join(run, "..", "link"))
    first.add_scalar("a", 1.0, 0)
    second.add_scalar("b", 2.0, 0)
    first.close()
    second.add_scalar("b", 3.0, 1)

    assert len(summary_paths(run)) == 1
    assert read_scalars(run, "a") + read_scalars(run, "b") == [(0, 1.0), (0, 2.0), (1, 3.0)]


# ---- size limit


def test_who_begins_in_a_directory_that_was_deleted_makes_it_anew(run: Path) -> None:
    kept = SummaryRecord(run)
    kept.add_value("scalar", "a", 1.0)
    kept.record(1)
    shutil.rmtree(run)
    again = SummaryRecord(run)
    again.add_value("scalar", "a", 2.0)
    again.record(1)

    assert read_scalars(run, "a") == [(1, 2.0)]
    kept.close()


def test_a_record_larger_than_the_limit_gets_a_file_of_its_own(run: Path) -> None:
    with SummaryRecord(run, max_file_size=100) as record:
        record.add_scalar("a", 1.0, 0)
        record.add_tensor("t", np.ones(1000), 0)
        record.add_scalar("a", 2.0, 1)

    kinds = [
        [type(value).__name__ for _, value in event.what]
        for event in read_events(run)
        if type(event.what) is tuple
    ]
    assert kinds == [["float"], ["Tensor"], ["float"]]
    assert len(summary_paths(run)) == 3


# ---- export


def test_tensors_are_exported_as_npy_files_too(run: Path) -> None:
    array = np.arange(4, dtype=np.int64).reshape(2, 2)
    with SummaryRecord(run, export_options={"tensor_format": "npy"}) as record:
        record.add_value("tensor", "dropped", array)
        record.record(4, plugin_filter=lambda plugin: False)
        record.add_value("tensor", "../a b/c", array)
        record.add_value("scalar", "../a b/c", 1.0)
        record.record(5)

    (file,) = run.glob("export_*/tensor/*")
    assert file.name == "..%2Fa%20b%2Fc_5.npy"
    assert np.load(file).tolist() == array.tolist()
    assert np.load(file).dtype == np.int64


def test_whose_a_shortened_npy_file_is_stands_beside_it(run: Path) -> None:
    with SummaryRecord(run, export_options={"tensor_format": "npy"}) as record:
        for tag in ("layer.é/" + "a" * 200, "b" * 300, "short"):
            record.add_value("tensor", tag, np.ones(1))
        record.record(5)

    (listing,) = run.glob("export_*/tensor/shortened_names.txt")
    names = {
        unquote(full): short
        for short, full in map(str.split, listing.read_text(encoding="utf-8").splitlines())
    }
    assert sorted(names) == ["b" * 300, "layer.é/" + "a" * 200]
    assert all((listing.parent / f"{short}_5.npy").is_file() for short in names.values())


@pytest.mark.parametrize("options", [None, {}, {"tensor_format": None}], ids=str)
def test_without_a_format_nothing_is_exported(run: Path, options: Any) -> None:
    with SummaryRecord(run, export_options=options) as record:
        record.add_value("tensor", "t", np.ones(1))
        record.record(5)

    assert not list(run.glob("export_*"))


# ---- copies


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda record: pickle.loads(pickle.dumps(record))]
)
def test_a_copy_takes_values_of_operators_as_its_original(run: Path, duplicate: Any) -> None:
    operators = pytest.importorskip("mindsummary_lightning.collection.operators")
    record = SummaryRecord(run)
    for step, mode in enumerate(("train", "eval")):
        record.set_mode(mode)
        twin = duplicate(record)
        operators.scalar_summary("a", 1.0)
        twin.record(step)

    assert read_scalars(run, "a") == [(0, 1.0)]


@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda record: pickle.loads(pickle.dumps(record))]
)
@pytest.mark.parametrize("has_recorded", [False, True])
def test_a_copy_opens_nothing_until_it_records(
    run: Path, duplicate: Any, has_recorded: bool
) -> None:
    record = SummaryRecord(run)
    record.add_value("tensor", "pending", np.ones(1))
    if has_recorded:
        record.add_scalar("a", 1.0, 0)
    twin = duplicate(record)
    assert run.exists() == has_recorded
    twin.add_scalar("a", 2.0, 1)

    assert read_scalars(run, "a") == [(0, 1.0)] * has_recorded + [(1, 2.0)]


def test_a_record_that_is_dropped_without_close_keeps_no_file_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None
    if before is None:
        pytest.skip("needs /proc")
    for number in range(30):
        SummaryRecord(tmp_path / str(number)).add_scalar("a", 1.0)

    assert len(os.listdir("/proc/self/fd")) <= before + 1


# ---- the failure policy


def test_what_cannot_be_written_is_logged_once_counted_and_totalled(
    run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    record = SummaryRecord(run)
    record.add_scalar("a", 1.0, 0)
    with mock.patch(
        "mindsummary_lightning.fileio.append.os.write", side_effect=OSError(28, "disk full")
    ):
        assert [recorder_of(record).write_values(step, [("a", 2.0)]) for step in (1, 2, 3)] == [
            False
        ] * 3
    record.add_scalar("a", 3.0, 4)
    record.close()

    assert recorder_of(record).policy.lost == 3
    assert [line.levelno for line in caplog.records] == [logging.ERROR, logging.ERROR]
    assert "values could not be recorded in" in caplog.records[0].getMessage()
    assert "disk full" in caplog.records[0].getMessage()
    assert caplog.records[1].getMessage() == f"3 records of {run} could not be written in total"
    assert read_scalars(run, "a") == [(0, 1.0), (4, 3.0)]


def test_a_large_record_is_refused_when_the_disk_is_nearly_full(
    run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    usage = mock.Mock(free=1_000_000)
    with SummaryRecord(run) as record, mock.patch("shutil.disk_usage", return_value=usage):
        record.add_scalar("small", 1.0, 0)
        record.add_tensor("large", np.ones(20_000), 0)

    assert [tag for _, tag, _ in read_values(run)] == ["small"]
    assert "bytes, got 1000000. Free space on the disk" in caplog.text


def test_memory_that_is_short_counts_as_a_failed_write(
    run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with SummaryRecord(run, export_options={"tensor_format": "npy"}) as record:
        record.add_scalar("a", 1.0, 1)
        with mock.patch(
            "mindsummary_lightning.recording.event_writer.encode_step", side_effect=MemoryError
        ):
            record.add_scalar("a", 2.0, 2)
        with mock.patch(
            "mindsummary_lightning.recording.pending_values.to_array", side_effect=MemoryError
        ):
            record.add_value("tensor", "t", np.ones(2))
        with mock.patch.object(np, "asarray", side_effect=MemoryError):
            record.add_value("histogram", "h", [1.0, 2.0])
            record.add_histogram("h", [1.0, 2.0], 3)
        assert not record.record(3)

    assert read_values(run) == [(1, "a", 1.0)]
    assert recorder_of(record).policy.lost == 4
    assert [line.levelname for line in caplog.records] == ["ERROR", "ERROR"]
    assert caplog.messages[0].startswith(
        f"values could not be recorded in {run}: MemoryError. Training continues"
    )


def test_values_of_each_kind_that_could_not_be_written_are_written_when_they_come_again(
    run: Path,
) -> None:
    encoder = "mindsummary_lightning.recording.event_writer.encode_step"

    def add_all(record: SummaryRecord) -> None:
        record.add_value("scalar", "a", 1.0)
        record.add_value("histogram", "h", [1.0, 2.0])
        record.add_value("image", "i", np.full((1, 1, 2, 3), 0.5))
        record.add_value("tensor", "t", np.ones(3))

    with SummaryRecord(run) as record:
        with mock.patch(encoder, side_effect=MemoryError):
            add_all(record)
            record.record(2)
        add_all(record)
        record.record(2)

    assert [tag for _, tag, _ in read_values(run)] == ["a", "h", "i", "t"]


@pytest.mark.parametrize("of_graph", [False, True], ids=["torch", "a graph"])
def test_memory_that_torch_or_a_graph_lacks_counts_too(run: Path, of_graph: bool) -> None:
    torch = pytest.importorskip("torch")
    no_memory = RuntimeError("DefaultCPUAllocator: can't allocate memory")
    with SummaryRecord(run) as record:
        if of_graph:
            with mock.patch(
                "mindsummary_lightning.graph.capture.capture_example", side_effect=MemoryError
            ):
                record.add_graph(torch.nn.Linear(1, 1), torch.ones(1, 1))
        else:
            with mock.patch.object(torch.Tensor, "cpu", side_effect=no_memory):
                record.add_value("tensor", "t", torch.ones(2, dtype=torch.bfloat16))

    assert recorder_of(record).policy.lost == 1


def test_memory_that_is_short_is_raised_if_asked_for(run: Path) -> None:
    with (
        SummaryRecord(run, raise_exception=True) as record,
        mock.patch.object(np, "asarray", side_effect=MemoryError),
        pytest.raises(MemoryError),
    ):
        record.add_value("histogram", "h", [1.0, 2.0])


def test_values_that_close_finds_unrecorded_are_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with SummaryRecord(tmp_path / "run") as record:
        for name in "abcde":
            record.add_value("scalar", name, 1.0)
    record.close()

    (text,) = caplog.messages
    assert "close() was called before record(): 'a', 'b', 'c' and 2 more" in text


def test_values_that_were_recorded_or_refused_are_no_loss_at_the_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with SummaryRecord(tmp_path / "run") as record:
        record.add_value("scalar", "a", 1.0)
        record.record(1)
        record.add_value("scalar", "b", 1.0)
        record.record(2, plugin_filter=lambda plugin: False)

    assert caplog.messages == []
