"""``mindsummary landscape RUN``: compute or show the loss landscapes of a run.

Without ``--module``, the landscapes that the run has are shown.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import pkgutil
import sys
import traceback
from typing import TYPE_CHECKING

from mindsummary_lightning.cli.arguments import argument, json_of
from mindsummary_lightning.cli.output import Answer, UsageError, say_step, short_number, table_lines
from mindsummary_lightning.cli.runs import one_run
from mindsummary_lightning.errors import MindSummaryError, missing_packages

if TYPE_CHECKING:
    from mindsummary_lightning.landscape.summary_landscape import CallbackFn
    from mindsummary_lightning.reading.landscape_plot import RecordedLandscape
    from mindsummary_lightning.values import LossLandscape

ARGUMENTS = (
    argument("run_dir", metavar="RUN", help="the run; its checkpoints are in it"),
    argument(
        "--module",
        metavar="MODULE:FUNCTION",
        help="a function that returns (model, network, dataset, metrics), as SummaryLandscape "
        "takes it; the current directory is searched first; without it, the landscapes that the "
        "run has are shown",
    ),
    argument(
        "--device-ids", type=int, nargs="+", metavar="N", help="devices to share the work between"
    ),
    argument(
        "-o",
        "--out",
        "--output",
        metavar="DIR",
        help="write the landscapes to DIR instead of the run",
    ),
    argument(
        "--plot", metavar="FILE", help="also draw them, as a .png, .svg or .pdf (needs matplotlib)"
    ),
    json_of("the landscapes"),
)
_PICTURES = (".png", ".svg", ".pdf")


def run(arguments: argparse.Namespace) -> Answer:
    """Print a table of the landscapes; exit 1 if there is no landscape."""
    if arguments.plot is not None:  # before hours of work
        if importlib.util.find_spec("matplotlib") is None:
            raise missing_packages("--plot", "matplotlib")
        if not arguments.plot.lower().endswith(_PICTURES):
            raise UsageError(
                f"--plot writes a file that ends in {', '.join(_PICTURES)}, not {arguments.plot}"
            )
    made = _computed(arguments) if arguments.module else _recorded(arguments)
    if arguments.plot is not None and made:
        from mindsummary_lightning.reading.landscape_plot import plot_landscapes

        plot_landscapes([landscape for _, landscape in made], arguments.plot)
    facts, rows = [], [["tag", "grid", "smallest loss", "largest loss"]]
    for tag, landscape in made:
        grid, z = [landscape.surface.x.size, landscape.surface.y.size], landscape.surface.z
        low, high = float(z.min()), float(z.max())
        facts.append({"tag": tag, "grid": grid, "smallest_loss": low, "largest_loss": high})
        rows.append([tag, "{} x {}".format(*grid), short_number(low), short_number(high)])
    if not made:
        lack = (
            f"{arguments.run_dir} has no loss landscape; "
            "to compute those of a collector, name a function: --module"
        )
        return Answer({"landscapes": []}, code=1, problems=[lack])
    return Answer({"landscapes": facts}, table_lines(rows, right=[2, 3]))


def _recorded(arguments: argparse.Namespace) -> list[tuple[str, RecordedLandscape]]:
    from mindsummary_lightning.reading.summary_reader import SummaryReader

    if arguments.out or arguments.device_ids:
        raise UsageError(
            "--out and --device-ids need --module, because they apply only to the computation of "
            "landscapes. Name a function with --module"
        )
    landscapes = SummaryReader(one_run(arguments.run_dir)).landscapes()
    return [(landscape.tag, landscape) for landscape in landscapes]


def _computed(arguments: argparse.Namespace) -> list[tuple[str, LossLandscape]]:
    say_step(f"importing PyTorch and {arguments.module.partition(':')[0]}")
    from mindsummary_lightning import SummaryLandscape

    callback_fn, named = callback_from_reference(arguments.module), f"--module {arguments.module}"
    landscape = SummaryLandscape(arguments.run_dir)
    say_step("loading the model, the checkpoints and the data, and computing a first loss")
    try:
        made = landscape.gen_landscapes_with_multi_process(
            callback_fn, device_ids=arguments.device_ids, output=arguments.out
        )
    except (MindSummaryError, OSError, ImportError):
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {error}; --debug shows where"
        where = traceback.extract_tb(error.__traceback__)[-1].filename
        package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        if isinstance(error, (TypeError, ValueError)) and where.startswith(package + os.sep):
            takes = "must take no arguments and return (model, network, dataset, metrics)"
            raise UsageError(f"the function of {named} {takes}, but got {said}") from error
        raise MindSummaryError(
            f"{named}: the function, or an object that it returned, raised {said}"
        ) from error
    return list(made.items())


def callback_from_reference(reference: str) -> CallbackFn:
    """Import the ``callback_fn`` that is named ``"package.module:function"``.

    Raises:
        UsageError: the text does not have that form, or does not name a callable.
    """
    if not all(reference.partition(":")):
        raise UsageError(f"--module must be package.module:function, not {reference!r}")
    # As with ``python -m``. The path stays, because worker processes import the module again.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        function = pkgutil.resolve_name(reference)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"{reference!r} cannot be imported: {error}") from error
    if not callable(function):
        raise UsageError(
            f"--module {reference!r} must be a function, not {type(function).__name__}"
        )
    return function  # type: ignore[no-any-return]  # what it returns is checked when it is called
