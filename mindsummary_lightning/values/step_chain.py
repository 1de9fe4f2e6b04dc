"""Rows and columns of the output statistics of a training step.

Output statistics are a table with a row for every tensor of the step. Batch, weights, modules,
loss, gradients and update follow in this order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

OUTPUT_STATISTICS_TAG = "output_statistics"

Link = Literal["data", "weights", "forward", "loss", "gradients", "clipped", "update", "settings"]

SAMPLES = 16
COLUMNS = (
    *("order", "elements", "rms", "mean", "minimum", "maximum", "zeros", "non_finite"),
    *(f"sample_{number}" for number in range(SAMPLES)),
)
GOLDEN = 0.6180339887498949


@dataclass(frozen=True, slots=True)
class OutputRow:
    """The tensor of a training step that a row of the output statistics describes.

    Two calls, ports or paths give two rows.

    Attributes:
        link: stage of the step: ``data`` a tensor of the batch, ``weights`` a parameter or buffer
            at the beginning of the step, ``forward`` an input or output of a module's call,
            ``loss``, ``gradients`` unscaled and before clipping, ``clipped`` gradients after
            clipping, ``update`` a parameter or buffer after the step, ``settings`` a number of an
            optimizer's parameter group.
        name: dotted name of the module, parameter or tensor; ``""`` for the network itself; ``group
            0`` for settings.
        kind: class of the module, ``parameter`` or ``buffer``; ``""`` else.
        call: number of the module's call in the step, from 0.
        port: ``input`` or ``output`` of a module, name of a setting; ``""`` else.
        path: dotted place in a nested input or output; ``""`` for a single tensor.
        dtype: dtype of the tensor, as NumPy names it, or ``bfloat16``.
        shape: shape of the tensor when the row first occurred.
        line: ``file.py:12`` of the user's call of the module; ``""`` if it is not known.
    """

    link: Link
    name: str
    kind: str = ""
    call: int = 0
    port: str = ""
    path: str = ""
    dtype: str = ""
    shape: tuple[int, ...] = ()
    line: str = ""

    @property
    def key(self) -> tuple[str, str, int, str, str]:
        """Return the values that identify the row within a run."""
        return self.link, self.name, self.call, self.port, self.path


def sample_places(elements: int) -> NDArray[np.int64]:
    """Return the positions of the sampled elements in a flattened tensor.

    They are int64, shape ``(16,)``; in a small tensor, positions repeat.

    They are multiples of the golden ratio, because evenly spaced positions would be the same in a
    flipped tensor.
    """
    places: NDArray[np.int64] = (np.arange(SAMPLES) * GOLDEN % 1 * elements).astype(np.int64)
    return places
