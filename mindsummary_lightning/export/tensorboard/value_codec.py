"""Convert recorded values to TensorBoard's messages and back.

Differences that the messages cannot avoid are reported as texts.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.conversion.bucket_limits import (
    histogram_of_limits,
    histogram_of_rows,
    limits_of_buckets,
)
from mindsummary_lightning.values import DataType, Histogram, Image, SummaryValue, Tensor
from mindsummary_lightning.values.limits import MAX_BUCKETS, MAX_ELEMENTS
from mindsummary_lightning.values.lineage_info import INT32_MAX

_Encodable: TypeAlias = "Image | Histogram | Tensor"


class DecodedMessage(NamedTuple):
    """The values of a TensorBoard ``Summary.Value`` message, with their kind.

    Attributes:
        kind: MindInsight's kind of the values. If MindInsight has no page for them: TensorBoard's
            name of the kind, and no values.
        values: the values; a message may hold several images.
        change: a text about how the values differ from TensorBoard's, or ``None``.
    """

    kind: str
    values: tuple[SummaryValue, ...] = ()
    change: str | None = None


def encode_value(tb: SimpleNamespace, tag: str, value: _Encodable) -> tuple[Any, str | None]:
    """Encode a value as TensorBoard's ``Summary.Value``, and describe its change.

    Returns:
        The message, and a text about how it differs from the value; ``None`` if it holds the value
        exactly.
    """
    if isinstance(value, Image):
        size = {"height": value.height, "width": value.width, "colorspace": value.colorspace}
        message = tb.Summary.Value(
            tag=tag, image=tb.Summary.Image(**size, encoded_image_string=value.encoded)
        )
    elif isinstance(value, Histogram):
        message = tb.Summary.Value(tag=tag, histo=_histogram_message(tb, value))
    else:
        message = tb.Summary.Value(tag=tag, tensor=_tensor_message(tb, value))
        message.metadata.plugin_data.plugin_name = "tensor"
    return message, _difference(tb, message, value)


def decode_value(tb: SimpleNamespace, message: Any, plugin: str) -> DecodedMessage:
    """Decode a TensorBoard ``Summary.Value`` message, given the name of its plugin.

    The name is empty for messages of old style.

    Raises:
        ValueError: the message holds a value that MindInsight cannot show.
    """
    kind = message.WhichOneof("value")
    if kind == "simple_value":
        return DecodedMessage("scalar", (float(message.simple_value),))
    if kind == "image":
        found = message.image
        colorspace = found.colorspace or 3
        image = _image(found.height, found.width, found.encoded_image_string, colorspace)
        return DecodedMessage("image", (image,))
    if kind == "histo":
        histo = message.histo
        limits = np.array(histo.bucket_limit, np.float64)
        buckets = np.array(histo.bucket, np.float64)
        histogram = histogram_of_limits(limits, buckets, histo.min, histo.max, histo.num, histo.sum)
        return _decoded_histogram(histogram, buckets, (histo.num, histo.min, histo.max))
    if kind == "tensor" and plugin in _OF_TENSOR:
        array = _array(tb, message.tensor)
        decoded = None if array is None else _OF_TENSOR[plugin](array)
        if decoded is not None:
            return decoded
    return DecodedMessage(plugin or kind or "empty value")


def _histogram_message(tb: SimpleNamespace, value: Histogram) -> Any:
    limits, buckets = limits_of_buckets(value)
    middles = value.lefts + value.widths / 2
    has_finite = bool(value.counts.any())
    unknown = 0.0 if not value.count else math.nan
    low, high = value.min, value.max
    if has_finite and (low is None or high is None):
        low, high = float(limits[0]), float(limits[-1])
    with np.errstate(over="ignore", invalid="ignore"):
        squares = float((value.counts * middles**2).sum())
    return tb.HistogramProto(
        min=unknown if low is None else low,
        max=unknown if high is None else high,
        num=float(value.count),
        sum=unknown if value.sum is None else value.sum,
        sum_squares=squares,
        bucket_limit=limits.tolist(),
        bucket=buckets.tolist(),
    )


def _tensor_message(tb: SimpleNamespace, value: Tensor) -> Any:
    array = _typed(value)
    if array.dtype not in (np.uint32, np.uint64):
        return tb.make_tensor_proto(array)
    if not array.size:
        return tb.make_tensor_proto(value.data)
    # TensorBoard writes single ones of these where it does not read them.
    message = tb.make_tensor_proto(np.broadcast_to(array, (2, *array.shape)))
    message.tensor_content = array.astype(array.dtype.newbyteorder("<")).tobytes()
    del message.tensor_shape.dim[0]
    return message


def _typed(tensor: Tensor) -> NDArray[Any]:
    """Convert the float32 elements of a tensor to its original type, if that is exact.

    Otherwise they stay float32, in which they are recorded.
    """
    data = tensor.data
    if not DataType.BOOL <= tensor.data_type <= DataType.FLOAT64:
        return data
    dtype = np.dtype(tensor.data_type.name.lower())
    with np.errstate(invalid="ignore", over="ignore"):
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            # float32 rounds the largest integers up to a power of two, which casts back to the
            # smallest or to 0.
            is_largest = data >= np.float32(limits.max)
            typed = np.where(is_largest, limits.max, data.astype(dtype)).astype(dtype)
        else:
            typed = data.astype(dtype)
        is_exact = np.array_equal(typed.astype(np.float32), data, equal_nan=dtype.kind == "f")
    return typed if is_exact else data


def _difference(tb: SimpleNamespace, message: Any, value: _Encodable) -> str | None:
    """Describe how a value differs from its message; ``None`` if it does not."""
    try:
        (back,) = decode_value(tb, message, message.metadata.plugin_data.plugin_name).values
    except ValueError as error:
        return f"{error}"
    if isinstance(value, Histogram) and isinstance(back, Histogram):
        return _histogram_difference(value, back)
    if isinstance(value, Tensor) and isinstance(back, Tensor):
        if back.data_type == value.data_type:
            return None
        return f"tensor: {value.data_type.name} written as float32"
    if value == back:
        return None
    return "image: a missing color space is written as RGB"


def _histogram_difference(value: Histogram, back: Histogram) -> str | None:
    if value.pos_inf_count or value.neg_inf_count:
        is_same = _totals(back) == _totals(value)
        if is_same:
            return None
        return "histogram: infinite elements count as NaN"
    is_same = _is_same_histogram(value, back)
    if is_same:
        return None
    return "histogram: extremes or buckets differ"


def _is_same_histogram(value: Histogram, back: Histogram) -> bool:
    filled, filled_back = value.counts > 0, back.counts > 0
    if _totals(value) != _totals(back):
        return False
    if not np.array_equal(value.counts[filled], back.counts[filled_back]):
        return False
    widths = value.widths[filled]
    tolerance = 1e-6 * (widths.max() if widths.size else 0)
    return _are_close(value.lefts[filled], back.lefts[filled_back], tolerance) and _are_close(
        widths, back.widths[filled_back], tolerance
    )


def _are_close(
    numbers: NDArray[np.float64], expected: NDArray[np.float64], tolerance: float
) -> bool:
    """Tell whether numbers differ by at most ``tolerance`` plus 1e-6 of ``expected``."""
    return bool((abs(numbers - expected) <= tolerance + 1e-6 * abs(expected)).all())


def _totals(histogram: Histogram) -> tuple[float | None, ...]:
    counts = (
        histogram.count,
        histogram.nan_count,
        histogram.pos_inf_count,
        histogram.neg_inf_count,
    )
    return (*counts, histogram.min, histogram.max, histogram.sum)


def _scalar_of(array: NDArray[Any]) -> DecodedMessage | None:
    if array.size != 1 or array.dtype.kind not in "biuf":
        return None
    value = float(array.item())
    with np.errstate(over="ignore"):
        single = float(np.float32(value))
    if single == value or math.isnan(value):
        return DecodedMessage("scalar", (value,))
    change = "rounded to float32" if math.isfinite(single) else "beyond float32, so infinite"
    return DecodedMessage("scalar", (value,), f"scalar: {change}")


def _images_of(array: NDArray[Any]) -> DecodedMessage | None:
    if array.ndim != 1 or array.size < 2 or array.dtype.kind not in "OS":
        return None
    width, height, *encoded = array.tolist()
    return DecodedMessage("image", tuple(_image(int(height), int(width), data) for data in encoded))


def _image(height: int, width: int, encoded: bytes, colorspace: int = 3) -> Image:
    if not (0 < height <= INT32_MAX and 0 < width <= INT32_MAX):
        raise ValueError(
            f"height and width of an image must be in 1..{INT32_MAX} pixels, got {height} x {width}"
        )
    return Image(height, width, encoded, colorspace)


def _histogram_of(array: NDArray[Any]) -> DecodedMessage | None:
    if array.ndim != 2 or array.shape[1] != 3 or array.dtype.kind not in "iuf":
        return None
    rows = array.astype(np.float64)
    return _decoded_histogram(histogram_of_rows(rows), rows[:, 2])


def _decoded_histogram(
    histogram: Histogram,
    buckets: NDArray[np.float64],
    stated: tuple[float, float, float] | None = None,
) -> DecodedMessage:
    """Wrap a decoded histogram; describe its difference from the message, if any.

    ``stated`` has the number of elements, the smallest and the largest, if the message has them.
    """
    change = None
    found = (histogram.count, histogram.min, histogram.max)
    if not np.array_equal(histogram.counts[histogram.counts > 0], buckets[buckets > 0]):
        change = (
            "histogram: new buckets, because the original has no buckets, "
            f"more than {MAX_BUCKETS}, or buckets without width"
        )
    elif stated and (found[0] != stated[0] or (found != stated and histogram.counts.any())):
        change = (
            "histogram: min, max or number of elements estimated from the buckets, because the "
            "recorded value contradicts them or is not finite"
        )
    return DecodedMessage("histogram", (histogram,), change)


def _tensor_of(array: NDArray[Any]) -> DecodedMessage | None:
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        return None
    with np.errstate(over="ignore"):
        tensor = Tensor(array)
        recorded = tensor.data.astype(np.longdouble)
        is_same = np.array_equal(recorded, array.astype(np.longdouble), equal_nan=True)
    change = None if is_same else "tensor: elements rounded to float32"
    return DecodedMessage("tensor", (tensor,), change)


_OF_TENSOR = {
    "scalars": _scalar_of,
    "images": _images_of,
    "histograms": _histogram_of,
    "": _tensor_of,
    "tensor": _tensor_of,  # torch's ``add_tensor``, and an exported run's
}


def _array(tb: SimpleNamespace, tensor: Any) -> NDArray[Any] | None:
    """Convert a TensorBoard tensor message to a NumPy array.

    The result is ``None`` if NumPy lacks its type, or its values have another type.

    Raises:
        ValueError: the tensor has more elements than MindInsight reads.
    """
    # A few bytes may claim any shape: the one value of a message fills it all.
    size = math.prod(dim.size for dim in tensor.tensor_shape.dim)
    if not 0 <= size <= MAX_ELEMENTS:
        raise ValueError(
            f"a tensor must have at most {MAX_ELEMENTS} elements for MindInsight, got {size}"
        )
    shape = [dim.size for dim in tensor.tensor_shape.dim]
    # torch's ``add_tensor`` writes 16-bit floats with the bits of their float32, and uint8 in the
    # field of uint32, where TensorBoard reads neither; it has no bfloat16.
    half = tensor.half_val
    is_zero = tensor.dtype == tb.BFLOAT16 and len(half) == size and not any(half)
    array: NDArray[Any]
    try:
        if is_zero or any(not 0 <= value < 1 << 16 for value in half):
            array = np.array(half, np.int32).view(np.float32).reshape(shape)
            if tensor.dtype == tb.HALF:
                return array.astype(np.float16)
            return array
        if tensor.dtype == tb.UINT8 and tensor.uint32_val:
            return np.array(tensor.uint32_val, np.uint8).reshape(shape)
        array = tb.make_ndarray(tensor)
    except (KeyError, TypeError, OverflowError):
        return None
    return array
