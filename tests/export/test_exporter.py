"""Numbers that TensorBoard must show as they were: integers, NaN, the digits of a float32; and one
point per sample.
"""

from __future__ import annotations

import math
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tensorboard")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from tensorboard.util.tensor_util import make_ndarray

from mindsummary_lightning import SummaryRecord
from mindsummary_lightning.export.output_directory import ExportedFiles
from mindsummary_lightning.export.tensorboard import (
    export_tensorboard,
    exporter,
    import_tensorboard,
)
from mindsummary_lightning.fileio.salvage import read_pieces
from mindsummary_lightning.reading.summary_reader import SummaryReader
from mindsummary_lightning.values import (
    DataType,
    EvaluationInfo,
    Histogram,
    Tensor,
    TrainInfo,
    UserDefinedInfo,
)
from tests.reading.runs import histogram, values_at, write_lineage, write_summary


def _exported(tmp_path: Path) -> tuple[ExportedFiles, EventAccumulator]:
    exported = export_tensorboard(str(tmp_path / "run"), str(tmp_path / "tb"), force=True)
    sizes = {"scalars": 0, "histograms": 0, "images": 0, "tensors": 0}
    return exported, EventAccumulator(str(tmp_path / "tb"), size_guidance=sizes).Reload()


@pytest.mark.parametrize(
    "dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
)
def test_the_ends_of_every_integer_type_leave_as_they_were(tmp_path: Path, dtype: str) -> None:
    limits = np.iinfo(dtype)
    numbers = np.array([limits.min, 0, 1, limits.max], dtype)
    write_summary(tmp_path / "run", [values_at(1, {"t": Tensor(numbers)})])

    exported, accumulator = _exported(tmp_path)

    (sample,) = accumulator.Tensors("t")
    array = make_ndarray(sample.tensor_proto)
    assert (array.dtype, array.tolist(), exported.changed) == (
        np.dtype(dtype),
        numbers.tolist(),
        {},
    )
    assert accumulator.SummaryMetadata("t").plugin_data.plugin_name == "tensor"


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ([1e20], DataType.INT32),
        ([math.nan], DataType.INT64),
        ([-1.0], DataType.UINT8),
        ([2.0], DataType.BOOL),
        ([70000.0], DataType.FLOAT16),
        ([0.5], DataType.BFLOAT16),
    ],
)
def test_elements_that_are_not_of_the_type_they_claim_stay_and_are_counted(
    tmp_path: Path, data: list[float], kind: DataType
) -> None:
    write_summary(tmp_path / "run", [values_at(1, {"t": Tensor(np.array(data, np.float32), kind)})])

    exported, accumulator = _exported(tmp_path)

    (sample,) = accumulator.Tensors("t")
    np.testing.assert_array_equal(make_ndarray(sample.tensor_proto), np.array(data, np.float32))
    assert exported.changed == {f"tensor: {kind.name} written as float32": 1}


def test_histograms_that_are_not_finite_leave_and_come_back(tmp_path: Path) -> None:
    data = {
        "nan": [math.nan] * 3,
        "some": [1.0, math.nan, 2.0, 3.0],
        "none": [],
        "same": [7.0] * 20,
    }
    with SummaryRecord(tmp_path / "run") as record:
        for tag, elements in data.items():
            record.add_value("histogram", tag, np.array(elements, np.float32))
        record.record(1)

    exported, accumulator = _exported(tmp_path)
    import_tensorboard(str(tmp_path / "tb"), str(tmp_path / "back"))
    old, new = SummaryReader(tmp_path / "run"), SummaryReader(tmp_path / "back")

    assert (exported.changed, exported.written) == ({}, {"histogram": 4})
    messages = {tag: accumulator.Histograms(tag)[0].histogram_value for tag in data}
    assert {tag: message.num for tag, message in messages.items()} == {
        "nan": 3,
        "some": 4,
        "none": 0,
        "same": 20,
    }
    assert math.isnan(messages["nan"].min)
    assert sum(messages["some"].bucket) == 3
    assert accumulator.CompressedHistograms("some")
    for tag in data:
        ((_, _, before),), ((_, _, after),) = old.histograms(tag), new.histograms(tag)
        fields = ("count", "nan_count", "pos_inf_count", "neg_inf_count", "min", "max", "sum")
        assert [getattr(after, name) for name in fields] == [
            getattr(before, name) for name in fields
        ]
        assert after.counts.tolist() == before.counts.tolist()
        np.testing.assert_allclose(after.lefts, before.lefts, rtol=1e-6)


@pytest.mark.parametrize("infinite", [math.inf, -math.inf])
def test_infinite_elements_are_counted_as_nan_and_said(tmp_path: Path, infinite: float) -> None:
    with SummaryRecord(tmp_path / "run") as record:
        record.add_value("histogram", "h", np.array([1.0, infinite, 2.0], np.float32))
        record.record(1)

    exported, _ = _exported(tmp_path)
    import_tensorboard(str(tmp_path / "tb"), str(tmp_path / "back"))

    ((_, _, after),) = SummaryReader(tmp_path / "back").histograms("h")
    assert exported.changed == {"histogram: infinite elements count as NaN": 1}
    assert (after.count, after.nan_count, after.min, after.max) == (3, 1, 1.0, 2.0)


@pytest.mark.parametrize("second", [0.5, 3.0], ids=["an overlap", "a gap"])
def test_buckets_that_are_not_neighbours_are_said_to_change(tmp_path: Path, second: float) -> None:
    apart = Histogram(
        np.array([0.0, second]), np.ones(2), np.array([1, 2]), 3, min=0.0, max=second + 1, sum=1.0
    )
    write_summary(tmp_path / "run", [values_at(1, {"h": apart})])

    assert _exported(tmp_path)[0].changed == {"histogram: extremes or buckets differ": 1}


def test_elements_that_are_in_no_bucket_are_said_to_change(tmp_path: Path) -> None:
    odd = Histogram(
        np.array([0.0, 1.0]), np.ones(2), np.array([1, 2]), 4, min=0.0, max=2.0, sum=1.0
    )
    write_summary(tmp_path / "run", [values_at(1, {"h": odd})])

    assert _exported(tmp_path)[0].changed == {"histogram: extremes or buckets differ": 1}


def test_tensors_of_one_element_keep_their_types(tmp_path: Path) -> None:
    kinds = ("int8", "uint8", "uint32", "uint64", "float16", "float32", "float64")
    tensors = {kind: Tensor(np.array([7], kind)) for kind in kinds}
    write_summary(tmp_path / "run", [values_at(1, tensors)])

    exported, accumulator = _exported(tmp_path)

    arrays = [make_ndarray(accumulator.Tensors(kind)[0].tensor_proto) for kind in kinds]
    assert [(array.dtype.name, array.tolist()) for array in arrays] == [
        (kind, [7]) for kind in kinds
    ]
    assert exported.changed == {}


def test_tensors_without_elements_keep_their_shapes_and_types(tmp_path: Path) -> None:
    kinds = ("uint8", "uint32", "uint64", "int64", "float32")
    tensors = {kind: Tensor(np.zeros((0, 3), kind)) for kind in kinds}
    write_summary(tmp_path / "run", [values_at(1, tensors)])

    exported, accumulator = _exported(tmp_path)

    assert exported.written == {"tensor": len(kinds)}
    assert {make_ndarray(accumulator.Tensors(kind)[0].tensor_proto).shape for kind in kinds} == {
        (0, 3)
    }


def test_a_histogram_leaves_with_its_limits_buckets_and_sums(tmp_path: Path) -> None:
    write_summary(tmp_path / "run", [values_at(1, {"h": histogram(1, 2)})])

    _, accumulator = _exported(tmp_path)

    (sample,) = accumulator.Histograms("h")
    value = sample.histogram_value
    assert (value.min, value.max, value.num, value.sum) == (0.0, 2.0, 3.0, 1.5)
    assert value.sum_squares == 1 * 0.5**2 + 2 * 1.5**2
    filled = [limit for limit, count in zip(value.bucket_limit, value.bucket, strict=True) if count]
    assert (filled, [count for count in value.bucket if count]) == ([1.0, 2.0], [1.0, 2.0])


def _events(tmp_path: Path) -> list[tuple[Any, ...]]:
    """Step, wall time, tag and value of each scalar in the order of the file."""
    (path,) = (tmp_path / "tb").glob("events.*")
    events = [Event.FromString(piece.payload or b"") for piece in read_pieces(str(path))]
    return [
        (event.step, event.wall_time, value.tag, value.simple_value)
        for event in events
        for value in event.summary.value
    ]


@pytest.mark.parametrize("window", [1 << 18, 6, 1])
def test_scalars_leave_in_the_order_of_their_steps_and_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    monkeypatch.setattr(exporter, "_WINDOW", window)
    samples = [
        *((1, 1.5, "a", 1.0), (1, 1.5, "b", 2.0), (2, 0.5, "c", 3.0), (3, 4.0, "a", 4.0)),
        *((3, 5.0, "b", 5.0), (5, 6.0, "a", 6.0), (6, 7.0, "a", 7.0), (9, 8.0, "c", 8.0)),
    ]
    for tag, second in zip("abc", (1, 2, 3), strict=True):
        records = [
            values_at(step, {name: value}, wall_time)
            for step, wall_time, name, value in samples
            if name == tag
        ]
        write_summary(tmp_path / "run", records, second)

    exported, _ = _exported(tmp_path)

    assert _events(tmp_path) == samples
    assert exported.written == {"scalar": 8}


@pytest.mark.parametrize(
    ("times", "second"),
    [((1700000009.75, 1600000000.5), 1600000000), ((-5.0, 1e10), 0), ((-5.0, 7.0), 7)],
)
def test_the_file_is_named_by_the_first_time_that_is_one(
    tmp_path: Path, times: tuple[float, ...], second: int
) -> None:
    records = [values_at(step, {f"x{step}": 1.0}, time) for step, time in enumerate(times)]
    write_summary(tmp_path / "run", records)

    exported, _ = _exported(tmp_path)

    (path,) = exported
    name = f"events.out.tfevents.{second:010d}.{socket.gethostname()}.mindsummary"
    assert path == str(tmp_path / "tb" / name)


def test_results_that_are_left_out_and_settings_that_become_text_are_counted(
    tmp_path: Path,
) -> None:
    write_summary(tmp_path / "run", [values_at(1, {"a": 0.5}), values_at(2, {"a": 0.25})])
    custom = {
        "a": 0.25,
        "fold": 3,
        "id": 2**53 + 1,
        "edge": -(2**53),
        "nan": math.nan,
        "inf": math.inf,
    }
    lineage = [
        TrainInfo(network="LeNet", loss=0.5, train_dataset_size=7),
        EvaluationInfo('{"acc": 1}'),
        UserDefinedInfo(custom),
    ]
    write_lineage(tmp_path / "run", lineage)

    exported, accumulator = _exported(tmp_path)

    assert exported.changed == {
        "hparams: NaN or infinite, written as text": 2,
        "hparams: a whole number beyond 2^53, written as text": 1,
    }
    assert exported.skipped == {"evaluation_lineage": 1, "lineage_result": 3}
    assert exported.written == {"hparams": 1, "scalar": 2}
    content = accumulator.summary_metadata["_hparams_/session_start_info"].plugin_data.content
    settings = HParamsPluginData.FromString(content).session_start_info.hparams
    assert {name: getattr(value, value.WhichOneof("kind")) for name, value in settings.items()} == {
        "network": "LeNet",
        "fold": 3.0,
        "id": str(2**53 + 1),
        "edge": -float(2**53),
        "nan": "nan",
        "inf": "inf",
    }


def test_a_learning_rate_is_the_number_that_was_typed(tmp_path: Path) -> None:
    write_summary(tmp_path / "run", [])
    custom = UserDefinedInfo({"nested": {"dropout": 0.2}, "nan": math.nan})
    write_lineage(tmp_path / "run", [TrainInfo(learning_rate=float(np.float32(0.1))), custom])

    _, accumulator = _exported(tmp_path)

    content = accumulator.summary_metadata["_hparams_/session_start_info"].plugin_data.content
    settings = HParamsPluginData.FromString(content).session_start_info.hparams
    numbers = {name: value.number_value or value.string_value for name, value in settings.items()}
    assert numbers == {"learning_rate": 0.1, "nested/dropout": 0.2, "nan": "nan"}
