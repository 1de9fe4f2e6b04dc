"""``mindsummary landscape RUN --module PACKAGE.MODULE:FUNCTION``."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from typing import TYPE_CHECKING

from mindsummary_lightning.cli.output import UsageError
from mindsummary_lightning.errors import MindSummaryError

if TYPE_CHECKING:
    from mindsummary_lightning.landscape.summary_landscape import CallbackFn

__all__ = ["HELP", "NAME", "add_arguments", "callback_from_reference", "run"]

NAME = "landscape"
HELP = "Compute a run's loss landscapes from the checkpoints that its collector saved."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("run_dir", metavar="RUN", help="the run; its checkpoints are in it")
    parser.add_argument(
        "--module",
        required=True,
        metavar="PACKAGE.MODULE:FUNCTION",
        help="a function that returns (model, network, dataset, metrics), as SummaryLandscape takes it; "
        "the current directory is searched first",
    )
    parser.add_argument("--device-ids", type=int, nargs="+", metavar="N", help="devices to share the work between")
    parser.add_argument("--output", metavar="DIR", help="write the landscapes there and not into the run")
    parser.add_argument("--plot", metavar="FILE", help="plot them too, into a .png, .svg or .pdf (needs matplotlib)")
    parser.add_argument("--json", action="store_true", help="print the landscapes as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Compute the landscapes and print a table of them; 1 if the run asks for none."""
    from mindsummary_lightning.cli.output import columns, say_json, short_number
    from mindsummary_lightning.landscape.plot import plot_landscapes
    from mindsummary_lightning.landscape.summary_landscape import SummaryLandscape

    if arguments.plot is not None:
        try:
            importlib.import_module("matplotlib")  # before hours of work
        except ImportError as error:
            raise ImportError("--plot needs matplotlib: pip install 'mindsummary-lightning[plot]'") from error
    callback_fn = callback_from_reference(arguments.module)
    try:
        made = SummaryLandscape(arguments.run_dir).gen_landscapes_with_multi_process(
            callback_fn, device_ids=arguments.device_ids, output=arguments.output
        )
    except MindSummaryError:
        raise
    except (TypeError, ValueError) as error:  # what the function returned, the devices or the checkpoints are refused
        raise UsageError(str(error)) from error
    if arguments.plot is not None:
        plot_landscapes(made, arguments.plot)
    rows = [["tag", "grid", "smallest loss", "largest loss"]]
    found = []
    for tag, landscape in made.items():
        x, y, z = landscape.surface.x, landscape.surface.y, landscape.surface.z
        low, high = float(z.min()), float(z.max())
        rows.append([tag, f"{x.size} x {y.size}", short_number(low), short_number(high)])
        found.append({"tag": tag, "grid": [x.size, y.size], "smallest_loss": low, "largest_loss": high})
    if arguments.json:
        say_json({"landscapes": found})
    else:
        for line in columns(rows, right=[2, 3]):
            print(line)
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
        found = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"{reference!r} cannot be imported: {error}") from error
    if not callable(found):
        raise UsageError(f"{reference!r} is a {type(found).__name__}, not a function")
    return found  # type: ignore[no-any-return]  # what it returns is checked when it is called
