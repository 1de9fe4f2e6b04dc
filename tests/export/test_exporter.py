"""Numbers that TensorBoard must show as they were: integers, NaN, the digits of a float32; and one
point per sample.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tensorboard")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from tensorboard.util.tensor_util import make_ndarray

from mindsummary_lightning import SummaryRecord
from mindsummary_lightning.export.output_directory import ExportedFiles
from mindsummary_lightning.export.tensorboard import export_tensorboard, import_tensorboard
from mindsummary_lightning.reading.summary_reader import SummaryReader
from mindsummary_lightning.values import DataType, Histogram, Tensor, TrainInfo, UserDefinedInfo
from tests.reading.runs import values_at, write_lineage, write_summary


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


def test_infinite_elements_are_counted_as_nan_and_said(tmp_path: Path) -> None:
    with SummaryRecord(tmp_path / "run") as record:
        record.add_value("histogram", "h", np.array([1.0, math.inf, 2.0], np.float32))
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


def test_a_learning_rate_is_the_number_that_was_typed(tmp_path: Path) -> None:
    write_summary(tmp_path / "run", [])
    custom = UserDefinedInfo({"nested": {"dropout": 0.2}, "nan": math.nan})
    write_lineage(tmp_path / "run", [TrainInfo(learning_rate=float(np.float32(0.1))), custom])

    _, accumulator = _exported(tmp_path)

    content = accumulator.summary_metadata["_hparams_/session_start_info"].plugin_data.content
    settings = HParamsPluginData.FromString(content).session_start_info.hparams
    numbers = {name: value.number_value or value.string_value for name, value in settings.items()}
    assert numbers == {"learning_rate": 0.1, "nested/dropout": 0.2, "nan": "nan"}
