"""``mindsummary landscape RUN --module MODULE:FUNCTION``."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from typing import TYPE_CHECKING

from mindsummary_lightning import SummaryLandscape
from mindsummary_lightning.cli.output import UsageError, say_json, say_table, short_number
from mindsummary_lightning.errors import MindSummaryError, missing_packages
from mindsummary_lightning.landscape.plot import plot_landscapes

if TYPE_CHECKING:
    from mindsummary_lightning.landscape.summary_landscape import CallbackFn


def run(arguments: argparse.Namespace) -> int:
    """Compute the landscapes and print a table of them; 1 if the run asks for none."""
    if arguments.plot is not None:
        try:
            importlib.import_module("matplotlib")  # before hours of work
        except ImportError as error:
            raise missing_packages("--plot", "matplotlib") from error
    callback_fn = callback_from_reference(arguments.module)
    try:
        made = SummaryLandscape(arguments.run_dir).gen_landscapes_with_multi_process(
            callback_fn, device_ids=arguments.device_ids, output=arguments.out
        )
    except MindSummaryError:
        raise
    except (TypeError, ValueError) as error:  # what the function returned, the devices or the checkpoints are refused
        takes = "is called without arguments and must return (model, network, dataset, metrics)"
        said = f"{type(error).__name__}: {error}; --debug shows where"
        raise UsageError(f"--module {arguments.module} {takes}: {said}") from error
    if arguments.plot is not None:
        plot_landscapes(made, arguments.plot)
    rows = [["tag", "grid", "smallest loss", "largest loss"]]
    summaries = []
    for tag, landscape in made.items():
        x, y, z = landscape.surface.x, landscape.surface.y, landscape.surface.z
        low, high = float(z.min()), float(z.max())
        rows.append([tag, f"{x.size} x {y.size}", short_number(low), short_number(high)])
        summaries.append({"tag": tag, "grid": [x.size, y.size], "smallest_loss": low, "largest_loss": high})
    if arguments.json:
        say_json({"landscapes": summaries})
    else:
        say_table(rows, right=[2, 3])
    return 0 if made else 1


def callback_from_reference(reference: str) -> CallbackFn:
    """The function that ``"package.module:function"`` names, as a ``callback_fn``.

    Raises:
        UsageError: the text is not of that form, or names nothing callable.
    """
    module_name, _, name = reference.partition(":")
    if not module_name or not name:
        raise UsageError(f"expected package.module:function, not {reference!r}")
    # As with ``python -m``. The path stays, because worker processes import the module again.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        function = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"{reference!r} cannot be imported: {error}") from error
    if not callable(function):
        raise UsageError(f"{reference!r} is a {type(function).__name__}, not a function")
    return function  # type: ignore[no-any-return]  # what it returns is checked when it is called
