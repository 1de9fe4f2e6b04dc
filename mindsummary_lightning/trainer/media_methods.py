"""A logger's methods for what is not a number: images, figures, histograms and tensors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from mindsummary_lightning.conversion.arguments import checked_name
from mindsummary_lightning.conversion.histograms import to_histogram
from mindsummary_lightning.conversion.numeric import to_tensor
from mindsummary_lightning.conversion.user_images import check_dataformats, figure_to_image, to_image
from mindsummary_lightning.trainer.namespaces import rank_zero_only
from mindsummary_lightning.values import SummaryValue


class MediaMethods:
    """Checks the arguments and hands each value to ``_write``, on rank zero only."""

    @rank_zero_only
    def log_image(
        self, key: str, images: Iterable[Any], step: int | None = None, dataformats: str | None = None, **kwargs: Any
    ) -> None:
        """Record images.

        Args:
            key: the tag; several images get ``key/0``, ``key/1``, ...
            images: each an array or tensor (HW, HWC, CHW or NCHW; uint8 in 0..255 or floating in [0, 1]), a PIL image
                or the path of an image file.
            step: the step they belong to; ``None`` takes the last one logged.
            dataformats: layout of arrays, such as ``"CHW"``; ``None`` determines it where it is unambiguous.
            kwargs: options of other loggers (captions, masks); not used.

        An image that cannot be shown, or whose layout is ambiguous, is skipped with one warning.

        Raises:
            TypeError: ``images`` is not a list of images.
            ValueError: ``dataformats`` is not a layout.
        """
        name = checked_name(key)
        if isinstance(images, (str, os.PathLike)) or hasattr(images, "shape") or not isinstance(images, Iterable):
            raise TypeError(f"images must be a list of images, not {type(images).__name__}; put a single one in a list")
        check_dataformats(dataformats)
        batch = list(images)
        for index, image in enumerate(batch):
            tag = name if len(batch) == 1 else f"{name}/{index}"
            self._write("image", tag, step, to_image, image, dataformats)

    @rank_zero_only
    def log_histogram(self, key: str, values: Any, step: int | None = None) -> None:
        """Record the distribution of a tensor or array of at least one dimension; ``step`` as in :meth:`log_image`."""
        self._write("histogram", checked_name(key), step, to_histogram, values)

    @rank_zero_only
    def log_tensor(self, key: str, tensor: Any, step: int | None = None) -> None:
        """Record a tensor or array, element by element, of at least one dimension; ``step`` as in :meth:`log_image`."""
        self._write("tensor", checked_name(key), step, to_tensor, tensor)

    @rank_zero_only
    def log_figure(self, key: str, figure: Any, step: int | None = None) -> None:
        """Record a Matplotlib figure as an image; it stays open. ``step`` as in :meth:`log_image`."""
        self._write("figure", checked_name(key), step, figure_to_image, figure)

    def _write(
        self, kind: str, tag: str, step: int | None, convert: Callable[..., SummaryValue], *arguments: Any
    ) -> None:
        """Convert a value and record it."""
        raise NotImplementedError
