"""Progress of a landscape: a bar on a terminal and in a notebook, at most a line for every tenth in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

_TENTHS = 10
_SECONDS_BETWEEN_LINES = 5.0


class Progress:
    """Shows how many of ``total`` rows are done, and the losses of the current landscape; a context manager."""

    def __init__(self, total: int, is_shown: bool) -> None:
        self._total, self._is_shown = total, is_shown and total > 0
        has_bar = sys.stderr.isatty() or "ipykernel" in sys.modules
        self._bar: Any = tqdm(total=total, unit="row", dynamic_ncols=True, disable=not (self._is_shown and has_bar))
        self._tenth = 0
        self._start = self._last_line = time.monotonic()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def show(self, done: int, tag: str, rows: Mapping[int, NDArray[np.float64]]) -> None:
        """Say that ``done`` rows are finished, ``rows`` of them of the landscape with this tag."""
        if not self._bar.disable:
            self._bar.set_description(tag, refresh=False)
            self._bar.set_postfix_str(_range(rows), refresh=False)
            self._bar.update(done - self._bar.n)
            return
        tenth, now = _TENTHS * done // max(self._total, 1), time.monotonic()
        if self._is_shown and tenth > self._tenth and now > self._last_line + _SECONDS_BETWEEN_LINES:
            self._tenth, self._last_line = tenth, now
            seconds = now - self._start
            text = f"loss landscape: {done} of {self._total} rows in {seconds:.0f} s, {tag}, {_range(rows)}"
            sys.stderr.write(text + "\n")


def _range(rows: Mapping[int, NDArray[np.float64]]) -> str:
    every = np.concatenate(list(rows.values()))
    good = every[np.isfinite(every)]
    return f"loss {good.min():.4g} to {good.max():.4g}" if good.size else "loss not finite"
