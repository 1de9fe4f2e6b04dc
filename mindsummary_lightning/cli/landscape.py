"""``mindsummary landscape RUN --module PACKAGE.MODULE:FUNCTION``."""

from __future__ import annotations

import argparse

__all__ = ["HELP", "NAME", "add_arguments", "run"]

NAME = "landscape"
HELP = "Make a run's loss landscapes from the checkpoints its collector left."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("run_dir", metavar="RUN", help="the run; its checkpoints lie in it")
    parser.add_argument(
        "--module",
        required=True,
        metavar="PACKAGE.MODULE:FUNCTION",
        help="a function that returns (model, network, dataset, metrics), as SummaryLandscape takes it; "
        "the current directory is looked in first",
    )
    parser.add_argument("--device-ids", type=int, nargs="+", metavar="N", help="devices to share the work between")
    parser.add_argument("--output", metavar="DIR", help="write the landscapes there and not into the run")
    parser.add_argument("--plot", metavar="FILE", help="draw them too, into a .png, .svg or .pdf (needs matplotlib)")


def run(arguments: argparse.Namespace) -> int:
    """Make the landscapes and say what came out; 1 if the run asks for none."""
    from mindsummary_lightning.cli.output import columns, short_number
    from mindsummary_lightning.landscape.from_reference import landscapes_from_reference

    made = landscapes_from_reference(
        arguments.run_dir,
        arguments.module,
        device_ids=arguments.device_ids,
        output=arguments.output,
        plot=arguments.plot,
    )
    rows = [["tag", "grid", "smallest loss", "largest loss"]]
    for tag, landscape in made.items():
        x, y, z = landscape.surface.x, landscape.surface.y, landscape.surface.z
        rows.append([tag, f"{x.size} x {y.size}", short_number(float(z.min())), short_number(float(z.max()))])
    for line in columns(rows, right=[2, 3]):
        print(line)
    return 0 if made else 1
