"""The chain of a step as rows of a table, in their order.

The parts are batch, weights, modules, loss, gradients and update.
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
    """The meaning of a row of the table; two calls, ports or paths are two rows.

    Attributes:
        link: part of the step: ``data`` a tensor of the batch, ``weights`` a parameter or buffer as
            the step begins, ``forward`` an input or output of a module's call, ``loss``,
            ``gradients`` before clipping and unscaled, ``clipped`` what clipping left of them,
            ``update`` a parameter or buffer after the step, ``settings`` a number of an optimizer's
            group.
        name: of the module, parameter or tensor, dotted; ``""`` for the network itself; ``group 0``
            for settings.
        kind: class of the module, ``parameter`` or ``buffer``; ``""`` else.
        call: number of the module's call in the step, from 0.
        port: ``input`` or ``output`` of a module, name of a setting; ``""`` else.
        path: dotted place in a nested input or output; ``""`` for a tensor alone.
        dtype: of the tensor, as NumPy names it, or ``bfloat16``.
        shape: of the tensor when the row first occurred.
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
        """The key of the row, which is unique in a run."""
        return self.link, self.name, self.call, self.port, self.path


def sample_places(elements: int) -> NDArray[np.int64]:
    """Places of the recorded elements in a flattened tensor.

    They are int64, shape ``(16,)``; those of a small tensor repeat.

    They are spread as multiples of the golden ratio: evenly spaced ones would be the same after a
    flip.
    """
    places: NDArray[np.int64] = (np.arange(SAMPLES) * GOLDEN % 1 * elements).astype(np.int64)
    return places
