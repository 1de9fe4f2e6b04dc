"""Lists the subcommands in groups, with their descriptions and modules.

Importing this module imports no module of a subcommand.
"""

from __future__ import annotations

import importlib
from types import ModuleType

GROUPS: dict[str, tuple[str, ...]] = {
    "look": ("view", "list", "show", "lineage", "compare", "report", "dump"),
    "check": ("verify", "repair", "doctor"),
    "convert": ("export", "import", "landscape"),
    "share and set up": ("sync", "completion"),
}
VERBS = {  # in the order of the help
    "view": "Open runs in MindInsight's pages; Ctrl-C stops the server.",
    "list": "List the runs in a directory, at any depth.",
    "show": "Show a run on one page: tags, steps, last values, curves and lineage.",
    "lineage": "List the runs in a directory with their settings and results, filtered and sorted.",
    "compare": "Compare two runs: are they the same training, and if not, at which step and in "
    "which tensors do they diverge? Exit 0: same, 1: different, 2: undecided or not comparable.",
    "report": "Write one self-contained HTML page about some runs.",
    "dump": "Print the records of a summary or lineage file, one JSON object per line.",
    "verify": "Check every record of every run in a directory; exit 1 if anything is damaged.",
    "repair": "Rebuild damaged files of the runs in a directory from their complete records; the "
    "damaged files are kept in RUN/.damaged.",
    "doctor": "Check what `mindsummary view` needs, or how a device records; exit 1 if anything "
    "is missing or differs.",
    "export": "Write the values of runs to CSV, Parquet, NumPy or TensorBoard files.",
    "import": "Turn TensorBoard event files (torch, tensorboardX, Keras) into MindInsight runs.",
    "landscape": "Compute a run's loss landscapes from its collector's checkpoints, or show those "
    "that exist already.",
    "sync": "Copy runs to or from a remote store; exit 1 if a copy is missing at the end.",
    "completion": "Print a script that completes subcommands, options and values in a shell.",
}
MORE = {  # of each verb two lines that use it, and the page about it
    "view": ("view runs", "view runs --port 8080 --no-browser", "viewer"),
    "list": ("list runs", "list runs --best val/loss --limit 10", "choose-the-best-run"),
    "show": ("show runs/digits/version_0", "show runs/digits/version_0 --follow", "command-line"),
    "lineage": (
        "lineage runs --sort loss --limit 10",
        "lineage runs --where 'metric/accuracy>0.9'",
        "lineage",
    ),
    "compare": (
        "compare runs/mindspore runs/torch",
        "compare a b --html page.html",
        "find-the-mistakes-in-a-port",
    ),
    "report": ("report runs/a runs/b", "report runs --best 5 --by val/loss", "choose-the-best-run"),
    "dump": ("dump runs/a/*_MS | head -2", "dump runs/a/*_lineage", "command-line"),
    "verify": ("verify runs", "verify runs/a runs/b --json", "command-line"),
    "repair": ("repair runs --dry-run", "repair runs/a", "command-line"),
    "doctor": ("doctor", "doctor --device cuda", "viewer"),
    "export": (
        "export runs/a --to csv --out tables",
        "export runs --to parquet --out data",
        "command-line",
    ),
    "import": (
        "import lightning_logs --out runs",
        "import lightning_logs --out runs --force",
        "tensorboard",
    ),
    "landscape": (
        "landscape runs/a --module train:make",
        "landscape runs/a --plot a.svg",
        "landscape",
    ),
    "sync": ("sync runs s3://bucket/runs --follow", "sync s3://bucket/runs runs", "remote"),
    "completion": ("completion bash >> ~/.bashrc", "completion zsh >> ~/.zshrc", "command-line"),
}
LEFT = {  # by Ctrl-C
    "compare": "nothing was written",
    "verify": "nothing was written",
    "repair": "each file is rebuilt completely or as it was; the same call goes on",
    "export": "{out} is as it was before",
    "import": "{out} is as it was before",
    "sync": "{destination} has whole records only; the same call goes on",
    "report": "{out} is as it was before",
}
# where a module cannot be called like its verb
_MODULES = {"list": "list_runs", "import": "import_runs"}


def verb_module(verb: str) -> ModuleType:
    """Import the module that implements a subcommand."""
    return importlib.import_module(f"mindsummary_lightning.cli.{_MODULES.get(verb, verb)}")
