"""A run recorded with SummaryRecord, as a real MindInsight reads it: every step, value, bucket,
pixel and element.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from mindsummary_lightning import SummaryRecord
from tests.oracle.mindinsight_server import MindInsight, publish, wait_until

_RUN = "./recorded"
_STEPS = tuple(range(1, 200, 3))  # 67 steps
_HISTOGRAM_STEPS = _STEPS[::2]  # MindInsight keeps 50 a tag,
_TENSOR_STEPS = _STEPS[::5]  # 20,
_IMAGE_STEPS = _STEPS[::8]  # and 10

_SCALARS: dict[str, list[np.float32]] = {
    "loss": [np.float32(1 / step) for step in _STEPS],
    "extremes of float32": [np.float32((-1) ** i * 10.0 ** (i - 37)) for i, _ in enumerate(_STEPS)],
    'Verlust/损失 "µ" <b>&amp;</b> 50%': [np.float32(np.sqrt(step)) for step in _STEPS],
    "not always finite": [
        np.float32((np.nan, np.inf, -np.inf, 0.1)[i % 4]) for i, _ in enumerate(_STEPS)
    ],
}


def _scattered(*shape: int) -> NDArray[np.float64]:
    """Exact numbers in [0, 1) without a pattern."""
    count = int(np.prod(shape))
    scattered: NDArray[np.float64] = np.arange(count) * 7919 % 65537 / 65537
    return scattered.reshape(shape)


_TENSORS: dict[str, NDArray[Any]] = {
    "float32": _scattered(2, 3, 4).astype(np.float32),
    "float64 not all finite": np.array([[0.1, np.nan, np.inf], [-np.inf, -0.0, 1e-3]]),
    "float16": _scattered(5).astype(np.float16),
    "int64": np.arange(-6, 6).reshape(2, 2, 3, 1),
    "uint8": np.array([[0, 127, 255]], dtype=np.uint8),
    "bool": np.array([True, False, True]),
}

_PICTURES: dict[str, NDArray[np.uint8]] = {
    "grey": (_scattered(1, 1, 9, 13) * 256).astype(np.uint8),
    "colour": (_scattered(1, 3, 8, 5) * 256).astype(np.uint8),
    "batch": (_scattered(10, 3, 4, 4) * 256).astype(np.uint8),
}


def _distribution(step: int) -> NDArray[np.float32]:
    """50 numbers from 0 to 6, other ones each step.

    MindInsight shows histograms in buckets of its own, spreading counts over them and rounding up.
    50 numbers over one range make six buckets for MindSpore's rule and for MindInsight's, and edges
    of whole numbers are the same for both: so counts must come through unchanged.
    """
    inner = 0.1 + 5.8 * (np.arange(48) / 48) ** (1 + step / 100)
    return np.concatenate([[0.0], inner, [6.0]]).astype(np.float32)


def _picture_at(name: str, step: int) -> NDArray[np.uint8]:
    moved: NDArray[np.uint8] = _PICTURES[name] + np.uint8(step)
    return moved


@pytest.fixture(scope="module", autouse=True)
def row(
    mindinsight: MindInsight, runs: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """The run's row in the list of runs, once it is loaded."""
    folder = tmp_path_factory.mktemp("finished") / _RUN
    with SummaryRecord(str(folder), raise_exception=True) as record:
        for index, step in enumerate(_STEPS):
            for tag, values in _SCALARS.items():
                record.add_value("scalar", tag, values[index])
            if step in _HISTOGRAM_STEPS:
                record.add_value("histogram", "weights", _distribution(step))
                record.add_value("histogram", "constant", np.full(5, 2.0, np.float32))
            if step in _TENSOR_STEPS:
                for tag, tensor in _TENSORS.items():
                    record.add_value("tensor", tag, tensor)
            if step in _IMAGE_STEPS:
                for tag in _PICTURES:
                    record.add_value("image", tag, _picture_at(tag, step))
            assert record.record(step)
    return mindinsight.wait_cached(publish(folder, runs))


def test_the_run_is_listed_whole_with_every_tag(row: dict[str, Any]) -> None:
    expected = {
        "scalar": sorted(f"{tag}/scalar" for tag in _SCALARS),
        "histogram": ["constant/histogram", "weights/histogram"],
        "tensor": sorted(f"{tag}/tensor" for tag in _TENSORS),
        "image": sorted(f"{tag}/image" for tag in _PICTURES),
    }

    assert {plugin: tags for plugin, tags in row["plugins"].items() if tags} == expected
    assert (row["summary_files"], row["lineage_files"], row["is_integrity"]) == (1, 0, True)


@pytest.mark.parametrize("tag", _SCALARS)
def test_scalars_keep_every_step_and_every_bit(mindinsight: MindInsight, tag: str) -> None:
    recorded = zip(_STEPS, _SCALARS[tag], strict=True)
    expected = [(step, float(value) if np.isfinite(value) else None) for step, value in recorded]

    assert mindinsight.scalars(_RUN, f"{tag}/scalar") == expected


def test_histograms_keep_every_step_edge_and_count(mindinsight: MindInsight) -> None:
    expected = []
    for step in _HISTOGRAM_STEPS:
        counts, _ = np.histogram(_distribution(step), np.arange(7))
        expected.append(
            (step, [[float(left), 1.0, count] for left, count in enumerate(counts.tolist())])
        )

    assert mindinsight.histograms(_RUN, "weights/histogram") == expected


def test_a_constant_has_a_histogram_around_it(mindinsight: MindInsight) -> None:
    expected = [(step, [[1.5, 0.5, 0], [2.0, 0.5, 5]]) for step in _HISTOGRAM_STEPS]

    assert mindinsight.histograms(_RUN, "constant/histogram") == expected


@pytest.mark.parametrize("tag", _PICTURES)
def test_images_decode_to_the_recorded_pixels(mindinsight: MindInsight, tag: str) -> None:
    listed = mindinsight.images(_RUN, f"{tag}/image")

    assert [sample["step"] for sample in listed] == list(_IMAGE_STEPS)
    for sample in listed:
        picture = Image.open(io.BytesIO(mindinsight.image(_RUN, f"{tag}/image", sample["step"])))
        assert (sample["height"], sample["width"]) == (picture.height, picture.width)
        np.testing.assert_array_equal(
            np.asarray(picture), _laid_out(_picture_at(tag, sample["step"]))
        )


def _laid_out(batch: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Eight pictures a row on black, grey ones in three equal channels."""
    blank = np.zeros((3, *batch.shape[2:]), np.uint8)
    pictures = [np.broadcast_to(picture, blank.shape) for picture in batch]
    columns = min(len(pictures), 8)
    rows = [pictures[start : start + columns] for start in range(0, len(pictures), columns)]
    rows[-1] += [blank] * (columns - len(rows[-1]))
    canvas: NDArray[np.uint8] = np.concatenate(
        [np.concatenate(row, axis=2) for row in rows], axis=1
    )
    rows_first: NDArray[np.uint8] = canvas.transpose(1, 2, 0)
    return rows_first


@pytest.mark.parametrize("tag", _TENSORS)
def test_tensors_keep_shape_type_and_every_element(mindinsight: MindInsight, tag: str) -> None:
    tensor = _TENSORS[tag]
    samples = mindinsight.tensors(_RUN, f"{tag}/tensor")

    assert [step for step, _ in samples] == list(_TENSOR_STEPS)
    for step, value in samples:
        assert (value["dims"], value["data_type"]) == (
            list(tensor.shape),
            f"DT_{tensor.dtype.name.upper()}",
        )
        if step in (_TENSOR_STEPS[0], _TENSOR_STEPS[-1]):
            for index in itertools.product(*map(range, tensor.shape[:-2])):
                dims = f"[{','.join([*map(str, index), *[':'] * min(tensor.ndim, 2)])}]"
                shown = mindinsight.tensor_slice(_RUN, f"{tag}/tensor", step, dims)
                np.testing.assert_array_equal(_numbers(shown), tensor[index].astype(np.float32))


def _numbers(shown: Sequence[Any]) -> NDArray[np.float32]:
    names = {"NAN": np.nan, "INF": np.inf, "-INF": -np.inf}
    array = np.array(shown, dtype=object)
    flat = [names.get(element, element) for element in array.ravel()]
    return np.array(flat, dtype=np.float32).reshape(array.shape)


def test_a_run_is_followed_while_it_grows(mindinsight: MindInsight, runs: Path) -> None:
    expected: list[tuple[int, float | None]] = []

    def is_shown() -> bool:
        tags = (
            mindinsight.plugins("./growing")["scalar"]
            if "./growing" in mindinsight.train_jobs()
            else []
        )
        return "loss/scalar" in tags and mindinsight.scalars("./growing", "loss/scalar") == expected

    with SummaryRecord(str(runs / "growing"), raise_exception=True) as record:
        for step in range(1, 4):
            record.add_value("scalar", "loss", 1 / 2**step)
            record.record(step)
            expected.append((step, 1 / 2**step))
            wait_until(is_shown, lambda: f"{expected} while the run is open")
