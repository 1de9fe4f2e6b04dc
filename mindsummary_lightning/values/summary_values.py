"""Frozen dataclasses of tensors, images, histograms and loss landscapes.

A scalar is a plain ``float`` and needs no class.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.values.data_types import DataType, data_type_of

if TYPE_CHECKING:
    import PIL.Image

# what a browser shows; others run more code on loading
PICTURE_FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP")
_MEDIA_TYPES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"BM", "image/bmp"),
    (b"RIFF", "image/webp"),
)


def owned(array: Any, dtype: Any) -> NDArray[Any]:
    """Return a C-contiguous, read-only array that owns its memory.

    The array is copied unless it already is such an array.
    """
    if (
        type(array) is np.ndarray
        and array.base is None
        and not array.flags.writeable
        and array.flags.c_contiguous
        and array.dtype == dtype
    ):
        return array
    own = np.array(array, dtype=dtype, order="C")
    own.setflags(write=False)
    return own


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A recorded tensor: float32 elements, and the name of the original dtype.

    Attributes:
        data: the elements, shape as recorded, float32, read-only. Integers above 2**24 lose digits,
            because ``float_data`` is the only field that MindInsight reads.
        data_type: the dtype that the elements had before; ``UNDEFINED`` in the constructor takes it
            from ``data``.
    """

    data: NDArray[np.float32]
    data_type: DataType = DataType.UNDEFINED

    def __post_init__(self) -> None:
        if self.data_type is DataType.UNDEFINED:
            object.__setattr__(self, "data_type", data_type_of(np.asarray(self.data).dtype))
        object.__setattr__(self, "data", owned(self.data, np.float32))

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.data.shape)) or "one number"
        return f"{type(self).__name__}({shape}, {self.data_type.name.lower()})"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy or dtype is not None:
            return np.array(self.data, dtype=dtype)
        return self.data


@dataclass(frozen=True, slots=True)
class Image:
    """A recorded image: the bytes of an image file, and its size in pixels.

    Attributes:
        height: rows in pixels, at least 1.
        width: columns in pixels, at least 1.
        encoded: the bytes of the file; PNG from this package. MindInsight sends them to the browser
            unchanged.
        colorspace: number of channels; MindSpore always writes 3.
    """

    height: int
    width: int
    encoded: bytes = field(repr=False)
    colorspace: int = 3

    @property
    def media_type(self) -> str:
        """Return the media type of the image file, such as ``image/png``.

        The first bytes tell it. If they are unknown, the result is ``application/octet-stream``.
        """
        return next(
            (name for start, name in _MEDIA_TYPES if self.encoded.startswith(start)),
            "application/octet-stream",
        )

    def to_pil(self) -> PIL.Image.Image:
        """Open the image with Pillow; raise the errors of Pillow."""
        import PIL.Image

        return PIL.Image.open(BytesIO(self.encoded), formats=PICTURE_FORMATS)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.to_pil(), dtype=dtype)

    def _repr_png_(self) -> bytes | None:
        if self.media_type == "image/png":
            return self.encoded
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """A recorded histogram: counts of a tensor's finite elements in buckets.

    NaN and infinite elements are in no bucket; they are counted separately.

    Attributes:
        lefts: left edge of each bucket, float64, shape ``(n,)``; at most 90 buckets (MindInsight
            drops larger histograms).
        widths: width of each bucket, float64, shape ``(n,)``.
        counts: elements in each bucket, int64, shape ``(n,)``.
        count: number of all elements of the tensor, finite or not.
        nan_count: number of elements that are NaN.
        pos_inf_count: number of elements that are +inf.
        neg_inf_count: number of elements that are -inf.
        min: smallest finite element, ``None`` if there is none.
        max: largest finite element, ``None`` if there is none.
        sum: sum of the finite elements, ``None`` if there is none.
    """

    lefts: NDArray[np.float64]
    widths: NDArray[np.float64]
    counts: NDArray[np.int64]
    count: int
    nan_count: int = 0
    pos_inf_count: int = 0
    neg_inf_count: int = 0
    min: float | None = None
    max: float | None = None
    sum: float | None = None

    def __post_init__(self) -> None:
        lefts, widths = owned(self.lefts, np.float64), owned(self.widths, np.float64)
        counts = owned(self.counts, np.int64)
        if not lefts.shape == widths.shape == counts.shape or lefts.ndim != 1:
            raise ValueError(
                f"lefts, widths and counts must be 1-D and of the same length, not of shapes "
                f"{lefts.shape}, {widths.shape} and {counts.shape}"
            )
        object.__setattr__(self, "lefts", lefts)
        object.__setattr__(self, "widths", widths)
        object.__setattr__(self, "counts", counts)

    def __repr__(self) -> str:
        of = "" if self.min is None else f", {self.min:.6g} to {self.max:.6g}"
        return f"{type(self).__name__}({self.count} elements{of}, {self.counts.size} buckets)"

    @property
    def edges(self) -> NDArray[np.float64]:
        """Return the bucket edges as NumPy and Matplotlib expect them.

        They are float64, shape ``(n + 1,)``; empty if the histogram has no bucket.
        """
        return np.append(self.lefts, self.lefts[-1:] + self.widths[-1:])


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Coordinates of the points of a surface or path: three read-only float32 arrays."""

    x: NDArray[np.float32]
    y: NDArray[np.float32]
    z: NDArray[np.float32]

    def __post_init__(self) -> None:
        for axis in ("x", "y", "z"):
            object.__setattr__(self, axis, owned(getattr(self, axis), np.float32))


@dataclass(frozen=True, slots=True)
class LandscapeMetadata:
    """Method and units with which a loss landscape was computed.

    Attributes:
        decomposition: ``"PCA"`` for an interval, ``"Random"`` for a final landscape (MindSpore's
            terms).
        unit: what the interval's numbers count, ``"step"`` or ``"epoch"``.
        step_per_epoch: optimizer steps per epoch; MindInsight places epochs on the step axis with
            it.
    """

    decomposition: str = ""
    unit: str = ""
    step_per_epoch: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class LossLandscape:
    """Losses of a network on a grid along two directions in weight space.

    A landscape that another program wrote may have arrays of any shape, which MindInsight shows as
    they are. Landscapes of this package have the following shapes.

    Attributes:
        surface: ``x`` of shape ``(n,)``, ``y`` of shape ``(m,)``, ``z`` of shape ``(m, n)``: ``z[i,
            j]`` is the loss at ``(x[j], y[i])``.
        intervals: steps or epochs of the points of the path; empty for a final landscape.
        path: points of the path, three arrays as long as ``intervals``; ``None`` for a final
            landscape.
        convergence_point: ``(x, y, loss)`` at the end of the training, or ``None``.
        metadata: how the landscape was computed.
    """

    surface: Points
    intervals: tuple[int, ...] = ()
    path: Points | None = None
    convergence_point: tuple[float, float, float] | None = None
    metadata: LandscapeMetadata = LandscapeMetadata()

    def __post_init__(self) -> None:
        if not isinstance(self.surface, Points) or not isinstance(self.path, (Points, type(None))):
            given = f"{type(self.surface).__name__} and {type(self.path).__name__}"
            raise TypeError(f"surface and path of a landscape must be Points, not {given}")
        object.__setattr__(self, "intervals", tuple(int(number) for number in self.intervals))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({surface_text(self.surface, self.intervals)})"

    @property
    def x(self) -> NDArray[np.float32]:
        """Return the grid's coordinates along the first direction, shape ``(n,)``."""
        return self.surface.x

    @property
    def y(self) -> NDArray[np.float32]:
        """Return the grid's coordinates along the second direction, shape ``(m,)``."""
        return self.surface.y

    @property
    def z(self) -> NDArray[np.float32]:
        """Return the losses at the grid points, shape ``(m, n)``."""
        return self.surface.z


def check_landscape_shapes(
    surface: Points, intervals: tuple[int, ...], path: Points | None, end: Any
) -> None:
    """Raise ValueError unless the arrays of a loss landscape fit together.

    ``end`` is the convergence point.
    """
    x, y, z = surface.x, surface.y, surface.z
    if x.ndim != 1 or y.ndim != 1 or z.shape != (y.size, x.size):
        raise ValueError(
            f"surface needs x (n,), y (m,) and z (m, n), not {x.shape}, {y.shape} and {z.shape}"
        )
    shapes = {axis.shape for axis in (path.x, path.y, path.z)} if path else {(0,)}
    if shapes != {(len(intervals),)}:
        raise ValueError(
            f"path needs one point per interval, shape ({len(intervals)},), not {sorted(shapes)}"
        )
    if end is not None and np.shape(end) != (3,):
        raise ValueError(f"convergence_point must be three numbers, not {end}")


def surface_text(surface: Points, intervals: tuple[int, ...]) -> str:
    """Describe a loss landscape in a few words: size, range of the loss, path."""
    z = surface.z
    of = f"{surface.x.size} x {surface.y.size} points" + (
        f", loss {z.min():.4g} to {z.max():.4g}" if z.size else ""
    )
    if intervals:
        return f"{of}, path of {len(intervals)}"
    return of
