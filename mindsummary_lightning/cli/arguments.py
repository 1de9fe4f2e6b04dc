"""The command line: what each verb is for, and its arguments. Nothing of a verb is imported to read it."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from typing import Any, NoReturn, TypeAlias

from mindsummary_lightning import __version__

_Argument: TypeAlias = "tuple[tuple[str, ...], dict[str, Any]]"  # what ArgumentParser.add_argument takes


def _verb(text: str, *arguments: _Argument) -> tuple[str, tuple[_Argument, ...]]:
    return text, arguments


def _argument(*names: str, **options: Any) -> _Argument:
    return names, options


def _json(what: str) -> _Argument:
    return _argument("--json", action="store_true", help=f"print {what} as JSON")


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}")
    return int(text)


def _tolerance(text: str) -> str | float:
    try:
        return text if text in ("float32", "bfloat16", "float16") else float(text)
    except ValueError:
        expected = "must be float32, bfloat16, float16 or a number between 0 and 1"
        raise argparse.ArgumentTypeError(f"{expected}, not {text!r}") from None


_FOLLOW = _argument("--follow", action="store_true", help="draw it again every two seconds, until Ctrl-C")
_OUT = _argument("-o", "--out", "--output", required=True, metavar="DIR", help="directory to write into; new or empty")
_FORCE = _argument("--force", action="store_true", help="replace what an earlier call left in --out")
_RUNS_IN = "a run, or a directory that contains runs at any depth"
_DIRECTORY = _argument("directory", metavar="DIR", nargs="?", default=".", help=f"{_RUNS_IN} (default: here)")
_DIRECTORIES = _argument("directories", metavar="DIR", nargs="*", default=["."], help=f"{_RUNS_IN} (default: here)")

VERBS = {  # in the order of the help
    "view": _verb(
        "Open runs in MindInsight's pages; Ctrl-C ends it.",
        _DIRECTORY,
        _argument("--port", type=int, help="port to listen on; without it 8080, or any if that is taken"),
        _argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)"),
        _argument("--no-browser", action="store_true", help="do not open a browser"),
        _argument("--no-token", action="store_true", help="answer everyone who reaches the port"),
        _argument("--memory", type=int, metavar="MB", help="memory for the runs that are kept loaded (default: 320)"),
        _argument("--wheel", metavar="FILE", help="MindInsight's wheel or its address, for the first start"),
    ),
    "doctor": _verb(
        "Check what `mindsummary view` needs; exit 1 if anything is missing.",
        _json("what was found"),
    ),
    "list": _verb(
        "List the runs in a directory and below it.",
        _DIRECTORIES,
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
        _argument(
            "run_dir",
            metavar="RUN",
            nargs="?",
            default=".",
            help="a run, or a directory with one (default: here)",
        ),
        _FOLLOW,
        _json("the run"),
    ),
    "dump": _verb(
        "Print the records of a summary or lineage file, one JSON object per line.",
        _argument("file", metavar="FILE", help="a summary or lineage file"),
    ),
    "verify": _verb(
        "Check every record of every run in a directory; exit 1 if anything is damaged.",
        _DIRECTORIES,
        _json("the findings"),
    ),
    "repair": _verb(
        "Rebuild damaged files of the runs in a directory from their complete records; the damaged ones are kept in "
        "RUN/.damaged.",
        _argument("directories", metavar="DIR", nargs="+", help=_RUNS_IN),
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
        "Exit 0: the same, 1: different, 2: undecided or not comparable.",
        _argument("a", metavar="A", help="a run"),
        _argument("b", metavar="B", help="another run, of another framework perhaps"),
        _argument(
            "--names", "--map", dest="map", metavar="FILE", help="lines of a tensor's name in A and its name in B"
        ),
        _argument(
            "--tolerance",
            type=_tolerance,
            metavar="PRECISION",
            help="float32, bfloat16 or a number: values so far apart are the same (default: by the runs)",
        ),
        _argument("--same", metavar="A2", help="a second run of A's program: how far the two part is no difference"),
        _argument("--strict", action="store_true", help="end with 1, too, if one run has steps or tensors alone"),
        _json("the result"),
        _argument("--html", metavar="FILE", help="write a page with curves and a map of all tensors, too"),
    ),
    "landscape": _verb(
        "Compute a run's loss landscapes from the checkpoints that its collector saved.",
        _argument("run_dir", metavar="RUN", help="the run; its checkpoints are in it"),
        _argument(
            "--module",
            required=True,
            metavar="MODULE:FUNCTION",
            help="a function that returns (model, network, dataset, metrics), as SummaryLandscape takes it; "
            "the current directory is searched first",
        ),
        _argument("--device-ids", type=int, nargs="+", metavar="N", help="devices to share the work between"),
        _argument("-o", "--out", "--output", metavar="DIR", help="write the landscapes there and not into the run"),
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
        "Copy runs to or from a remote store; exit 1 if anything is not there at the end.",
        _argument("source", metavar="SOURCE", help="a run or a directory of runs: a path, or an address as s3://..."),
        _argument("destination", metavar="DESTINATION", help="a directory or address for the copies"),
        _argument(
            "--follow", action="store_true", help="go on until the runs have ended, or until SIGTERM and a last round"
        ),
        _argument(
            "--every", type=float, default=30.0, metavar="SECONDS", help="from round to round (default: %(default)g)"
        ),
        _argument("--force", action="store_true", help="replace copies that differ and are newer than what is sent"),
        _argument("--verify", action="store_true", help="compare whole contents, too, once; each copy is read"),
        _json("what was sent"),
    ),
    "report": _verb(
        "Write one self-contained HTML page about some runs.",
        _argument("runs", metavar="RUN", nargs="+", help="runs, or directories that hold runs"),
        _argument(
            "-o", "--out", "--output", default="report.html", metavar="FILE", help="the page to write (%(default)s)"
        ),
    ),
    "completion": _verb(
        "Print what a shell needs to complete verbs, options and their values.",
        _argument("shell", choices=["bash", "zsh", "fish"], help="the shell that reads it"),
    ),
}
_MORE = {  # of each verb two lines that use it, and the page about it
    "view": ("view runs", "view runs --port 8080 --no-browser", "viewer"),
    "doctor": ("doctor", "doctor --json", "viewer"),
    "list": ("list runs", "list runs/* --json", "command-line"),
    "show": ("show runs/digits/version_0", "show runs/digits/version_0 --follow", "command-line"),
    "dump": ("dump runs/a/*_MS | head -2", "dump runs/a/*_lineage", "command-line"),
    "verify": ("verify runs", "verify runs/a runs/b --json", "command-line"),
    "repair": ("repair runs --dry-run", "repair runs/a", "command-line"),
    "lineage": ("lineage runs --sort loss --limit 10", "lineage runs --where 'metric/accuracy>0.9'", "lineage"),
    "compare": ("compare runs/mindspore runs/torch", "compare a b --html page.html", "is-my-port-right"),
    "landscape": ("landscape runs/a --module train:make", "landscape a --module train:make --plot a.svg", "landscape"),
    "export": ("export runs/a --to csv --out tables", "export runs --to parquet --out data", "command-line"),
    "import": ("import lightning_logs --out runs", "import lightning_logs --out runs --force", "tensorboard"),
    "sync": ("sync runs s3://bucket/runs --follow", "sync s3://bucket/runs runs", "remote"),
    "report": ("report runs -o report.html", "report runs/a runs/b", "command-line"),
    "completion": ("completion bash >> ~/.bashrc", "completion zsh >> ~/.zshrc", "command-line"),
}
LEFT = {  # by Ctrl-C
    "repair": "each file is rebuilt completely or as it was; the same call goes on",
    "export": "{out} is as it was before",
    "import": "{out} is as it was before",
    "sync": "{destination} has whole records only; the same call goes on",
    "report": "{out} is as it was before",
}
_GROUPS = {
    "look": ("view", "list", "show", "lineage", "compare", "report", "dump"),
    "check": ("verify", "repair", "doctor"),
    "convert": ("export", "import", "landscape"),
    "share and set up": ("sync", "completion"),
}


class _Parser(argparse.ArgumentParser):
    """Says of a word that it does not take which option is meant, or what it takes, with the usage of the verb."""

    def refuse(self, unknown: list[str]) -> NoReturn:
        from mindsummary_lightning.errors import closest

        options = [word.partition("=")[0] for word in unknown if word.startswith("-")]
        if options:
            known = [name for action in self._actions for name in action.option_strings]
            self.error(f"no option {options[0]}{closest(options[0], known)}")
        taken = [action.metavar or action.dest for action in self._actions if not action.option_strings]
        self.error(f"it takes {' '.join(map(str, taken)) or 'no argument'}; there is {' '.join(unknown)} too")


def parser() -> tuple[argparse.ArgumentParser, dict[str, _Parser]]:
    """The parser of the whole command line, where the verb becomes the attribute ``verb``, and that of each verb."""
    plain = argparse.RawDescriptionHelpFormatter
    made = argparse.ArgumentParser(
        prog="mindsummary",
        usage="mindsummary [-h] [-V] [--debug] VERB ...",
        description="Show, check, repair and convert MindInsight run directories.",
        epilog=_verbs_text()
        + "\n\nExit codes: 0 all is well; 1 something is damaged, missing or could not\nbe done; 2 wrong "
        "command line. `mindsummary VERB --help` has examples.",
        formatter_class=plain,
    )
    made.add_argument("-V", "--version", action="version", version=f"mindsummary {__version__}")
    debug = "show the traceback of an error instead of one line"
    made.add_argument("--debug", action="store_true", help=debug)
    verbs = made.add_subparsers(
        prog=made.prog, dest="verb", required=True, parser_class=_Parser, help=argparse.SUPPRESS
    )
    for name, (_, arguments) in VERBS.items():
        added = verbs.add_parser(name, formatter_class=plain)
        for names, options in arguments:
            added.add_argument(*names, **options)
        # Suppressed, the default does not undo what stands before the verb.
        added.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=debug)
    return made, verbs.choices


def _wrapped(text: str, indent: str, first: str = "") -> str:
    width = max(30, shutil.get_terminal_size().columns - 2)
    return textwrap.fill(text, width, initial_indent=first or indent, subsequent_indent=indent)


def _verbs_text() -> str:
    """The verbs with the first sentence of each, in groups."""
    lines = []
    for group, names in _GROUPS.items():
        lines.append(f"{group}:")
        texts = ((name, VERBS[name][0].partition("; exit")[0].partition(": ")[0]) for name in names)
        lines += [_wrapped(text.rstrip("."), " " * 14, f"  {name:12}") for name, text in texts]
    return "\n".join(lines)


def describe(made: argparse.ArgumentParser, name: str) -> None:
    """Give the parser of a verb its description, examples and the address of its page; looked up only for a help."""
    import importlib.metadata

    *examples, page = _MORE[name]
    address = f"docs/{page}.md"
    try:
        links = importlib.metadata.metadata("mindsummary-lightning").get_all("Project-URL") or []
        address = next(link for link in links if link.startswith("Documentation, "))[15:].replace("index", page)
    except (importlib.metadata.PackageNotFoundError, StopIteration):  # not installed, or built without an address
        pass
    made.description = _wrapped(VERBS[name][0], "")
    lines = "\n".join(f"  mindsummary {example}" for example in examples)
    made.epilog = f"examples:\n{lines}\n\nmore: {address}"
