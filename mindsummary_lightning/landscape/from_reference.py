"""Landscapes of a run from a function named in text, for the command line."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from mindsummary_lightning.landscape.plot import plot_landscapes
from mindsummary_lightning.landscape.summary_landscape import CallbackFn, SummaryLandscape
from mindsummary_lightning.values import LossLandscape

__all__ = ["callback_from_reference", "landscapes_from_reference"]


def landscapes_from_reference(
    summary_dir: str | os.PathLike[str],
    reference: str,
    collect_landscape: Mapping[str, Any] | None = None,
    device_ids: Sequence[int] | None = None,
    output: str | os.PathLike[str] | None = None,
    plot: str | os.PathLike[str] | None = None,
) -> dict[str, LossLandscape]:
    """Make a run's landscapes with the function that ``reference`` names, and draw them if ``plot`` is given.

    Args:
        summary_dir: the run's directory.
        reference: ``"package.module:function"``; the function is a ``callback_fn`` of
            :meth:`SummaryLandscape.gen_landscapes_with_multi_process`. The current directory is searched first.
        collect_landscape: as there.
        device_ids: as there.
        output: as there.
        plot: image file to write, or ``None``.

    Raises:
        ImportError: ``plot`` is given and matplotlib is not installed; raised before any work.
        TypeError, ValueError, FileNotFoundError: as there, or ``reference`` does not name a function.
    """
    if plot is not None:
        try:
            importlib.import_module("matplotlib")
        except ImportError as error:
            raise ImportError("figures need matplotlib: pip install 'mindsummary-lightning[plot]'") from error
    callback_fn = callback_from_reference(reference)
    made = SummaryLandscape(summary_dir).gen_landscapes_with_multi_process(
        callback_fn, collect_landscape, device_ids, output
    )
    if plot is not None:
        plot_landscapes(made, plot)
    return made


def callback_from_reference(reference: str) -> CallbackFn:
    """The function that ``"package.module:function"`` names, as a ``callback_fn``.

    Raises:
        ValueError: the text is not of that form, or does not name a callable.
    """
    module_name, _, name = reference.partition(":")
    if not module_name or not name:
        raise ValueError(f"expected package.module:function, not {reference!r}")
    # Like ``python -m``; the path stays, because worker processes import the script again.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{reference!r} cannot be imported: {error}") from error
    if not callable(found):
        raise ValueError(f"{reference!r} is a {type(found).__name__}, not a function")
    return found  # type: ignore[no-any-return]  # what it returns is checked when it is called
