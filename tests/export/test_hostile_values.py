"""Whatever a run or a TensorBoard log holds comes out as it went in, or the summary says what
changed.
"""

from __future__ import annotations

import csv
import functools
import json
import math
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

pytest.importorskip("tensorboard")
pytest.importorskip("pyarrow")

from pyarrow import parquet
from tensorboard.compat.proto.summary_pb2 import Summary

from mindsummary_lightning.conversion.histograms import to_histogram
from mindsummary_lightning.export.parquet_dataset import export_parquet
from mindsummary_lightning.export.tables import export_csv, export_npy
from mindsummary_lightning.export.tensorboard import export_tensorboard, import_tensorboard
from mindsummary_lightning.reading.summary_reader import SummaryReader
from mindsummary_lightning.values import DataType, Histogram, Image, SummaryValue, Tensor
from tests.export.tensorboard_files import event, histogram_value, tensor_value, write_tb
from tests.reading.runs import values_at, write_summary

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:overflow encountered in cast")]

# by kind and tag: by step, wall time and value
Samples = dict[tuple[str, str], dict[int, tuple[float, Any]]]

thorough = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

TAGS = st.sampled_from(
    ["loss", "Loss", "a/b", "a", "w/histogram", "", "=x", "'", "con", "7", "\n", "é", "i", "i/1"]
)
STEPS = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 5)
TIMES = st.floats(0, 2e12) | st.sampled_from([1.7e9, 1.7e12, -1.0, 0.0])
FLOAT32 = st.floats(width=32)
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
ARRAYS = st.sampled_from(["bool", *INTEGERS, "float16", "float32", "float64"]).flatmap(
    lambda dtype: arrays(dtype, array_shapes(min_dims=0, min_side=0, max_side=3))
)


def _tensors() -> st.SearchStrategy[Tensor]:
    claimed = st.builds(
        Tensor, arrays(np.float32, 3), st.sampled_from([kind for kind in DataType if 0 < kind < 13])
    )
    return ARRAYS.map(Tensor) | claimed


def _histograms() -> st.SearchStrategy[Histogram]:
    sizes = st.integers(0, 100)
    data = st.sampled_from(["float16", "float32", "float64", "int32"]).flatmap(
        lambda dtype: arrays(dtype, sizes)
    )
    return data.map(to_histogram)


IMAGES = st.builds(
    Image,
    st.integers(1, 9),
    st.integers(1, 9),
    st.binary(min_size=1, max_size=9),
    st.integers(1, 4),
)
VALUES = FLOAT32 | _tensors() | IMAGES | _histograms()
RUNS = st.lists(st.tuples(STEPS, TIMES, st.dictionaries(TAGS, VALUES, max_size=3)), max_size=8)


@contextmanager
def _folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp())
    try:
        yield path
    finally:
        shutil.rmtree(path)


def _samples(run: Path) -> Samples:
    reader = SummaryReader(run)
    found: Samples = {}
    for tag, series in reader.all_scalars().items():
        rows = zip(
            series.steps.tolist(), series.wall_times.tolist(), series.values.tolist(), strict=True
        )
        found["scalar", tag] = {step: (wall_time, value) for step, wall_time, value in rows}
    for kind, read in (
        ("image", reader.images),
        ("histogram", reader.histograms),
        ("tensor", reader.tensors),
    ):
        for tag in reader.tags()[kind]:
            found[kind, tag] = {step: (wall_time, value) for step, wall_time, value in read(tag)}
    return found


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, float):
        return one == other or (one != one and other != other)
    if isinstance(one, Tensor):
        return one.data_type == other.data_type and np.array_equal(
            one.data, other.data, equal_nan=True
        )
    if not isinstance(one, Histogram):
        return bool(one == other)
    full = [
        [part[each.counts > 0] for part in (each.lefts, each.widths, each.counts)]
        for each in (one, other)
    ]
    fields = ("count", "nan_count", "pos_inf_count", "neg_inf_count", "min", "max", "sum")
    tolerance = 1e-6 * max([*full[0][1], 0.0])
    return (
        all(getattr(one, name) == getattr(other, name) for name in fields)
        and full[0][2].tolist() == full[1][2].tolist()
        and all(
            np.allclose(a, b, rtol=1e-6, atol=tolerance)
            for a, b in zip(full[0][:2], full[1][:2], strict=True)
        )
    )


def _written(folder: Path, run: list[tuple[int, float, dict[str, SummaryValue]]]) -> Samples:
    write_summary(
        folder / "run",
        [values_at(step, values, wall_time) for step, wall_time, values in run if values],
    )
    return _samples(folder / "run")


@thorough
@given(RUNS)
def test_to_tensorboard_and_back(run: list[tuple[int, float, dict[str, SummaryValue]]]) -> None:
    with _folder() as folder:
        before = _written(folder, run)
        exported = export_tensorboard(str(folder / "run"), str(folder / "tb"))
        (imported,) = import_tensorboard(str(folder / "tb"), str(folder / "back"))
        after = _samples(folder / "back")

    renamed = sum(number for text, number in exported.changed.items() if text.startswith("tag: "))
    moved = sum(
        number for text, number in imported.changed.items() if text.startswith("wall time: ")
    )
    changes = sum(
        number for text, number in exported.changed.items() if not text.startswith("tag: ")
    )
    changes += sum(
        number for text, number in imported.changed.items() if not text.startswith("wall time: ")
    )
    assert not imported.problems
    assert not imported.dropped
    assert len(before.keys() - after.keys()) == renamed
    assert (
        sum(map(len, before.values()))
        == sum(map(len, after.values()))
        == sum(imported.written.values())
    )
    for key in before.keys() & after.keys():
        if renamed:  # a tag of one kind may have the name that one of another had
            continue
        assert before[key].keys() == after[key].keys()
        for step, (wall_time, value) in before[key].items():
            moved -= after[key][step][0] != wall_time
            changes -= not _is_same(value, after[key][step][1])
    assert (changes >= 0, moved >= 0) == (True, True)


@thorough
@given(RUNS)
def test_to_csv_npy_and_parquet(run: list[tuple[int, float, dict[str, SummaryValue]]]) -> None:
    with _folder() as folder:
        before = _written(folder, run)
        forms = {"csv": export_csv, "npy": export_npy, "parquet": export_parquet}
        exported = {
            form: export(str(folder / "run"), str(folder / form)) for form, export in forms.items()
        }

        scalars = [
            (tag, step, wall_time, value)
            for (kind, tag), series in before.items()
            for step, (wall_time, value) in series.items()
            if kind == "scalar"
        ]
        assert list(map(repr, _csv_rows(folder / "csv" / "scalars.csv", np.float32))) == list(
            map(repr, scalars)
        )
        if scalars:
            rows = parquet.read_table(folder / "parquet" / "scalars").to_pylist()
            found = [(row["tag"], row["step"], row["wall_time"], row["value"]) for row in rows]
            assert sorted(map(repr, found)) == sorted(map(repr, scalars))
        _assert_arrays(folder / "npy", before)
        _assert_histograms(folder, before)
        kinds = {
            kind: sum(key[0] == kind for key in before) for kind in ("image", "tensor", "histogram")
        }
        for form, skipped in (
            ("csv", ("image", "tensor")),
            ("npy", ("image", "histogram")),
            ("parquet", ("image", "tensor")),
        ):
            assert exported[form].skipped == {kind: kinds[kind] for kind in skipped if kinds[kind]}


def _csv_rows(path: Path, number: Any) -> Iterator[tuple[Any, ...]]:
    if path.exists():
        with path.open(newline="", encoding="utf-8") as file:
            _, *rows = csv.reader(file)
        for tag, step, wall_time, value in rows:
            yield tag.removeprefix("'"), int(step), float(wall_time), float(number(value))


def _assert_arrays(folder: Path, before: Samples) -> None:
    tags = (
        json.loads((folder / "names.json").read_text(encoding="utf-8"))
        if (folder / "names.json").exists()
        else {}
    )
    numbers = dict.fromkeys(before, 0)
    for name, tag in tags.items():
        kind = name.partition("/")[0]
        array, series = np.load(folder / name), before[kind, tag]
        if kind == "scalar":
            assert [repr(row) for row in array.tolist()] == [
                repr((step, *rest)) for step, rest in series.items()
            ]
        else:
            step = int(name.rpartition("_")[2].removesuffix(".npy"))
            np.testing.assert_array_equal(array, series[step][1].data)
        numbers[kind, tag] += len(array) if kind == "scalar" else 1
    expected = {
        key: len(series) for key, series in before.items() if key[0] in ("scalar", "tensor")
    }
    assert {key: number for key, number in numbers.items() if number} == expected


def _assert_histograms(folder: Path, before: Samples) -> None:
    tags = {tag: series for (kind, tag), series in before.items() if kind == "histogram"}
    rows = [
        [
            tag,
            step,
            wall_time,
            left,
            width,
            count,
            *(getattr(value, name) for name in FIELDS_OF_A_SAMPLE),
        ]
        for tag, series in tags.items()
        for step, (wall_time, value) in series.items()
        for left, width, count in list(zip(value.lefts, value.widths, value.counts, strict=True))
        or [(None, None, 0)]
    ]
    if not rows:
        return
    with (folder / "csv" / "histograms.csv").open(newline="", encoding="utf-8") as file:
        _, *cells = csv.reader(file)
    assert [[cell[0].removeprefix("'"), *cell[1:]] for cell in cells] == [
        ["" if part is None else str(part) for part in row] for row in rows
    ]
    _, *columns = parquet.read_table(folder / "parquet" / "histograms").to_pydict().values()
    found = [list(row) for row in zip(*columns, strict=True)]
    assert sorted(map(repr, found)) == sorted(repr([_plain(part) for part in row]) for row in rows)


def _plain(part: Any) -> Any:
    return part.item() if isinstance(part, np.generic) else part


FIELDS_OF_A_SAMPLE = ("count", "nan_count", "pos_inf_count", "neg_inf_count", "min", "max", "sum")

NUMBERS = st.floats() | st.sampled_from([0.0, 1.0, -1.0, math.nan, math.inf, 1e308, 2.0**63])
FIELDS = st.fixed_dictionaries(dict.fromkeys(("min", "max", "num", "sum"), NUMBERS))
PLUGINS = st.sampled_from(
    ["", "scalars", "images", "histograms", "tensor", "text", "mesh", "hparams"]
)
THREE = functools.partial(st.lists, min_size=3, max_size=3)


def _texts(parts: list[bytes]) -> np.ndarray:
    return np.array(parts, object)


FOREIGN = st.one_of(
    st.builds(lambda tag, value: Summary.Value(tag=tag, simple_value=value), TAGS, FLOAT32),
    st.builds(
        lambda tag, limits, buckets, fields: histogram_value(tag, limits, buckets, **fields),
        *(TAGS, st.lists(NUMBERS, max_size=4), st.lists(NUMBERS, max_size=4), FIELDS),
    ),
    st.builds(
        lambda tag, limits, buckets, fields: histogram_value(
            tag, sorted(limits), buckets, **fields
        ),
        *(TAGS, THREE(st.floats(-9, 9)), THREE(st.integers(0, 9)), FIELDS),
    ),
    st.builds(tensor_value, TAGS, ARRAYS, PLUGINS),
    st.builds(
        tensor_value,
        TAGS,
        st.lists(st.binary(max_size=3), min_size=1, max_size=4).map(_texts),
        PLUGINS,
    ),
    st.builds(Summary.Value, tag=TAGS),
)


@settings(thorough, max_examples=100)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.floats(), st.lists(FOREIGN, max_size=3)), max_size=5)
)
def test_anything_that_tensorboard_may_hold_is_imported_or_counted(
    log: list[tuple[int, float, list[Summary.Value]]],
) -> None:
    with _folder() as folder:
        write_tb(
            folder / "tb", *(event(step, *values, wall_time=time) for step, time, values in log)
        )
        (run,) = import_tensorboard(str(folder / "tb"), str(folder / "run"))
        found = _samples(folder / "run")

    values = [value for _, _, values in log for value in values]
    numbers = dict.fromkeys(("scalar", "image", "tensor", "histogram"), 0)
    for (kind, _), series in found.items():
        numbers[kind] += len(series)
        for _, (wall_time, value) in series.items():
            assert math.isfinite(wall_time)
            if isinstance(value, Histogram):
                _assert_is_shown(value)
    assert {kind: run.written[kind] for kind in numbers} == numbers
    told = run.written.total() + run.dropped.total() + run.skipped.total() + run.problems.total()
    # images in one message
    more = sum(max(0, len(value.tensor.string_val) - 3) for value in values)
    empty = sum(value.metadata.plugin_data.plugin_name == "hparams" for value in values)
    assert len(values) - len(values) * bool(empty) <= told <= len(values) + more
    for tag in {
        value.tag for value in values if value.WhichOneof("value") == "simple_value" and value.tag
    }:
        assert ("scalar", tag) in found


def test_a_number_under_the_tag_of_hyper_parameters_is_a_scalar(tmp_path: Path) -> None:
    settings, number = (
        tensor_value("loss", np.array(False), "hparams"),
        Summary.Value(tag="loss", simple_value=0.5),
    )
    write_tb(tmp_path / "tb", event(0, settings, number, wall_time=0.0))

    import_tensorboard(str(tmp_path / "tb"), str(tmp_path / "run"))

    assert list(_samples(tmp_path / "run")) == [("scalar", "loss")]


def _assert_is_shown(histogram: Histogram) -> None:
    """What MindInsight can show: finite buckets with a width that hold all elements but those that
    are not finite.
    """
    others = histogram.nan_count + histogram.pos_inf_count + histogram.neg_inf_count
    assert histogram.count == int(histogram.counts.sum()) + others
    assert min([0, others, *histogram.counts.tolist()]) == 0
    assert np.isfinite(histogram.lefts).all()
    assert np.isfinite(histogram.widths).all()
    assert (histogram.widths > 0).all()
    if histogram.counts.any():
        assert -math.inf < histogram.min <= histogram.max < math.inf
