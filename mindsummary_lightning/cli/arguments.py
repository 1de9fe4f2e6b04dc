"""The command line: what each verb is for, and its arguments. Nothing of a verb is imported to read it."""

from __future__ import annotations

import argparse
from typing import Any, TypeAlias

from mindsummary_lightning import __version__

_Argument: TypeAlias = "tuple[tuple[str, ...], dict[str, Any]]"  # what ArgumentParser.add_argument takes


def _verb(text: str, *arguments: _Argument) -> tuple[str, tuple[_Argument, ...]]:
    return text, arguments


def _argument(*names: str, **options: Any) -> _Argument:
    return names, options


def _json(what: str) -> _Argument:
    return _argument("--json", action="store_true", help=f"print {what} as JSON")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {number}")
    return number


def _tolerance(text: str) -> str | float:
    return text if text in ("float32", "bfloat16", "float16") else float(text)


_FOLLOW = _argument("--follow", action="store_true", help="draw it again every two seconds, until Ctrl-C")
_OUT = _argument("--out", required=True, metavar="DIR", help="directory to write into; new or empty")
_FORCE = _argument("--force", action="store_true", help="replace what an earlier call left in --out")
_DIRECTORY = _argument("directory", metavar="DIR", help="a run, or a directory that contains runs at any depth")

VERBS = {  # in the order of the help
    "view": _verb(
        "Open runs in MindInsight's pages; Ctrl-C ends it.",
        _DIRECTORY,
        _argument("--port", type=int, help="port to listen on; without it 8080, or any if that is taken"),
        _argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)"),
        _argument("--no-browser", action="store_true", help="do not open a browser"),
        _argument("--no-token", action="store_true", help="answer everyone who reaches the port"),
        _argument("--memory", type=int, metavar="MB", help="memory for the runs that are kept loaded"),
        _argument("--wheel", metavar="FILE", help="MindInsight's wheel or its address, for the first start"),
    ),
    "doctor": _verb("Check what `mindsummary view` needs; exit 1 if anything is missing.", _json("what was found")),
    "list": _verb(
        "List the runs in a directory and below it.",
        _DIRECTORY,
        _argument(
            "--exact",
            action="store_true",
            help="read everything; otherwise, of much data, only the beginning and end of each file, and a number of "
            "tags that may be larger is marked, like 100+",
        ),
        _FOLLOW,
        _json("the runs"),
    ),
    "show": _verb(
        "Show a run on one page: tags, steps, last values, curves and lineage.",
        _argument("run_dir", metavar="RUN", help="a run, or a directory that contains one"),
        _FOLLOW,
        _json("the run"),
    ),
    "dump": _verb(
        "Print the records of a summary or lineage file, one JSON object per line.",
        _argument("file", metavar="FILE", help="a summary or lineage file"),
    ),
    "verify": _verb(
        "Check every record of every run in a directory; exit 1 if anything is damaged.",
        _DIRECTORY,
        _json("the findings"),
    ),
    "repair": _verb(
        "Rebuild damaged files of the runs in a directory from their complete records; the damaged ones are kept in "
        "RUN/.damaged.",
        _DIRECTORY,
        _argument("--dry-run", action="store_true", help="say what would be done and do nothing; exit 1 if it is any"),
        _json("the rebuilt files"),
    ),
    "lineage": _verb(
        "List the runs in a directory with their settings and results, filtered and sorted.",
        _DIRECTORY,
        _argument(
            "--where",
            action="append",
            default=[],
            metavar="CONDITION",
            help="keep runs with, for example, 'metric/accuracy>0.9', 'network=LeNet' or 'user_defined/lr<=0.1'; "
            "operators are = != < <= > >=; may be given several times",
        ),
        _argument("--sort", metavar="FIELD", help="sort by this field, smallest first; no value is smallest"),
        _argument("--descending", action="store_true", help="sort largest first"),
        _argument("--limit", type=_positive, metavar="N", help="show the first N runs"),
        _argument("--json", action="store_true", help="print JSON: the answer of filter_summary_lineage and run_info"),
    ),
    "compare": _verb(
        "Compare two runs: are they the same training, and if not, at which step and in which tensors do they part? "
        "Exit 0: the same, 1: different, 2: not comparable.",
        _argument("a", metavar="A", help="a run"),
        _argument("b", metavar="B", help="another run, of another framework perhaps"),
        _argument("--map", metavar="FILE", help="lines of a tensor's name in A and its name in B"),
        _argument(
            "--tolerance",
            type=_tolerance,
            metavar="float32|bfloat16|NUMBER",
            help="distance up to which values are the same; without it by the precision that the runs state",
        ),
        _json("the result"),
        _argument("--html", metavar="FILE", help="write a page with curves and a map of all tensors, too"),
    ),
    "landscape": _verb(
        "Compute a run's loss landscapes from the checkpoints that its collector saved.",
        _argument("run_dir", metavar="RUN", help="the run; its checkpoints are in it"),
        _argument(
            "--module",
            required=True,
            metavar="PACKAGE.MODULE:FUNCTION",
            help="a function that returns (model, network, dataset, metrics), as SummaryLandscape takes it; "
            "the current directory is searched first",
        ),
        _argument("--device-ids", type=int, nargs="+", metavar="N", help="devices to share the work between"),
        _argument("--output", metavar="DIR", help="write the landscapes there and not into the run"),
        _argument("--plot", metavar="FILE", help="plot them too, into a .png, .svg or .pdf (needs matplotlib)"),
        _json("the landscapes"),
    ),
    "export": _verb(
        "Write a run's values to CSV, Parquet, NumPy or TensorBoard files, or many runs into one Parquet data set.",
        _argument("run_dir", metavar="RUN", help="a run; for parquet also a directory of runs"),
        _argument(
            "--to",
            required=True,
            choices=["csv", "parquet", "npy", "tensorboard"],
            help="csv, parquet: scalars and histograms; npy: scalars and tensors; "
            "tensorboard: those, images, graph and settings",
        ),
        _OUT,
        _FORCE,
        _json("the files"),
    ),
    "import": _verb(
        "Turn TensorBoard event files (torch, tensorboardX, Keras) into MindInsight runs.",
        _argument("tb_dir", metavar="TB_DIR", help="a directory with TensorBoard event files at any depth"),
        _OUT,
        _FORCE,
        _json("the imported runs"),
    ),
    "sync": _verb(
        "Carry runs to or from a remote store, whole records only; exit 1 if anything is not there at the end.",
        _argument("source", metavar="SOURCE", help="a run or a directory of runs: a path, or an address as s3://..."),
        _argument("destination", metavar="DESTINATION", help="a directory or address for the copies"),
        _argument(
            "--follow", action="store_true", help="go on until the runs have ended, or until SIGTERM and a last round"
        ),
        _argument(
            "--every", type=float, default=30.0, metavar="SECONDS", help="from round to round (default: %(default)g)"
        ),
        _json("what was sent"),
    ),
    "report": _verb(
        "Write one self-contained HTML page about some runs.",
        _argument("runs", metavar="RUN", nargs="+", help="runs, or directories that hold runs"),
        _argument("-o", "--out", default="report.html", metavar="FILE", help="the page to write (%(default)s)"),
    ),
}


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line; the verb becomes the attribute ``verb``."""
    made = argparse.ArgumentParser(
        prog="mindsummary",
        description="Show, check, repair and convert MindInsight run directories.",
        epilog="Exit codes: 0 all is well; 1 something is damaged, missing or could not be done; 2 wrong command line.",
    )
    made.add_argument("--version", action="version", version=f"mindsummary {__version__}")
    debug = "show the traceback of an error instead of one line"
    made.add_argument("--debug", action="store_true", help=debug)
    verbs = made.add_subparsers(metavar="VERB", required=True, dest="verb")
    for name, (text, arguments) in VERBS.items():
        verb = verbs.add_parser(name, help=text, description=text)
        for names, options in arguments:
            verb.add_argument(*names, **options)
        # Suppressed, the default does not undo what stands before the verb.
        verb.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=debug)
    return made
