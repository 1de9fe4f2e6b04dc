"""What SummaryRecord writes equals, message by message, what a real MindSpore wrote for the same
arrays.

Where the arithmetic is the same, floats are compared bit by bit. Only the sum of a histogram may
differ in its last digits: in which order elements are added is NumPy's affair. One difference is
wanted: pictures of bytes.
"""

from __future__ import annotations

import base64
import io
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image as Picture

from mindsummary_lightning.fileformat.summary_codec import decode_event
from mindsummary_lightning.fileio.scan import RecordScanner
from mindsummary_lightning.recording.summary_record import SummaryRecord
from mindsummary_lightning.values import Histogram, Image, SummaryValue, Tensor
from tests.golden.cases import CASES, Case

_GOLDEN: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("mindspore_values.json").read_text(encoding="utf-8")
)["values"]


def _recorded(case: Case, folder: Path) -> SummaryValue:
    """The case as our SummaryRecord writes it, read back from the file."""
    with SummaryRecord(str(folder), raise_exception=True) as record:
        record.add_value(case.plugin, case.tag, case.value)
        assert record.record(1)
    (path,) = folder.glob("*_MS")
    events = [decode_event(payload) for payload in RecordScanner(str(path))]
    ((tag, value),) = [
        pair for event in events if isinstance(event.what, tuple) for pair in event.what
    ]
    assert tag == case.tag
    return value


def _bits(values: Any, dtype: type) -> bytes:
    """The bits of the numbers, every NaN the same one."""
    array: NDArray[Any] = np.array([float(value) for value in values], dtype)
    array[np.isnan(array)] = np.nan
    return array.tobytes()


def _same_scalar(written: SummaryValue, golden: dict[str, Any]) -> None:
    assert isinstance(written, float)
    assert _bits([written], np.float32) == _bits([golden["scalar"]], np.float32), (written, golden)


def _same_tensor(written: SummaryValue, golden: dict[str, Any]) -> None:
    assert isinstance(written, Tensor)
    assert list(written.data.shape) == golden["dims"]
    assert written.data_type == golden["data_type"]
    assert _bits(written.data.ravel(), np.float32) == _bits(golden["float_data"], np.float32)


def _same_histogram(written: SummaryValue, golden: dict[str, Any]) -> None:
    assert isinstance(written, Histogram)
    for field in ("count", "nan_count", "pos_inf_count", "neg_inf_count", "min", "max"):
        assert getattr(written, field) == golden[field], field
    assert written.counts.tolist() == golden["counts"]
    for field in ("lefts", "widths"):
        np.testing.assert_array_equal(getattr(written, field), golden[field], err_msg=field)
    assert (written.sum is None) == (golden["sum"] is None)
    assert written.sum is None or written.sum == pytest.approx(golden["sum"], rel=1e-6)


def _same_image(written: SummaryValue, golden: dict[str, Any]) -> None:
    assert isinstance(written, Image)
    for field in ("height", "width", "colorspace"):
        assert getattr(written, field) == golden[field], field
    pixels = _pixels(written)
    expected = np.frombuffer(zlib.decompress(base64.b64decode(golden["pixels"])), np.uint8)
    np.testing.assert_array_equal(pixels, expected.reshape(pixels.shape))


def _pixels(image: Image) -> NDArray[np.uint8]:
    picture = Picture.open(io.BytesIO(image.encoded))
    assert (picture.format, picture.mode) == ("PNG", "RGB")
    return np.asarray(picture)


_COMPARERS: dict[str, Callable[[SummaryValue, dict[str, Any]], None]] = {
    "scalar": _same_scalar,
    "tensor": _same_tensor,
    "histogram": _same_histogram,
    "image": _same_image,
}


def _is_picture_of_bytes(case: Case) -> bool:
    return case.plugin == "image" and case.value.dtype == np.uint8


@pytest.mark.parametrize(
    "case", [case for case in CASES if not _is_picture_of_bytes(case)], ids=lambda case: case.tag
)
def test_a_value_is_written_as_mindspore_writes_it(case: Case, tmp_path: Path) -> None:
    golden = _GOLDEN[case.tag]
    written = _recorded(case, tmp_path)  # recorded even where MindSpore's worker died

    if "lost" not in golden:
        _COMPARERS[case.plugin](written, golden)


@pytest.mark.parametrize(
    "case", [case for case in CASES if _is_picture_of_bytes(case)], ids=lambda case: case.tag
)
def test_bytes_of_a_picture_are_kept_as_they_are(case: Case, tmp_path: Path) -> None:
    """A mend. MindSpore means to keep uint8 too, but its canvas is float64, so 2.7.0 stretches them
    to 0..254.
    """
    golden = _GOLDEN[case.tag]
    written = _recorded(case, tmp_path)
    assert isinstance(written, Image)
    pixels = _pixels(written)

    assert [written.height, written.width, written.colorspace] == [
        golden[field] for field in ("height", "width", "colorspace")
    ]
    height, width = case.value.shape[2:]
    for number, picture in enumerate(case.value):
        top, left = number // 8 * height, number % 8 * width
        tile = pixels[top : top + height, left : left + width]
        np.testing.assert_array_equal(tile, np.broadcast_to(picture.transpose(1, 2, 0), tile.shape))


def test_golden_values_and_cases_are_of_one_generation() -> None:
    assert list(_GOLDEN) == [case.tag for case in CASES], (
        "regenerate the golden values: see tests/golden/README.md"
    )
