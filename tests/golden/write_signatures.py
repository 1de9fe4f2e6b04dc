"""Write down how the originals of our classes, callbacks and operators are called.

Run where MindSpore 2.7.0 or MindInsight 2.3.1 is installed (never where we are):
``python write_signatures.py mindspore|mindinsight [--output FILE]``.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

_ORIGINALS = {
    "mindspore": {
        "mindspore": ["SummaryCollector", "SummaryLandscape", "SummaryRecord"],
        "mindspore.ops": ["HistogramSummary", "ImageSummary", "ScalarSummary", "TensorSummary"],
    },
    "mindinsight": {"mindinsight.lineagemgr.model": ["filter_summary_lineage"]},
}


def _arguments(function: Any) -> list[str]:
    """Every argument but ``self``, in order, as ``name`` or ``name=default``."""
    return [
        str(argument)
        for name, argument in inspect.signature(function).parameters.items()
        if name != "self"
    ]


def _signatures(original: Any) -> dict[str, Any]:
    """Those of a function, or of a class's constructor and its own public methods."""
    if not inspect.isclass(original):
        return {"()": _arguments(original)}
    methods = {
        name: member
        for name, member in vars(original).items()
        if name[0] != "_" and inspect.isfunction(member)
    }
    signatures = {
        name: _arguments(method)
        for name, method in {"__init__": original.__init__, **methods}.items()
    }
    inputs = re.search(r"Inputs:\n(.*?)\n\n", inspect.getdoc(original) or "", re.DOTALL)
    if inputs is not None:  # an operator: it takes *args, and its documentation names them
        signatures["__call__"] = re.findall(r"- \*\*(\w+)\*\*", inputs[1])
    return signatures


def main() -> None:
    """Write the JSON text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", choices=sorted(_ORIGINALS))
    parser.add_argument("--output", type=Path, help="the golden file by default")
    arguments = parser.parse_args()
    signatures = {
        name: _signatures(getattr(importlib.import_module(module), name))
        for module, names in _ORIGINALS[arguments.package].items()
        for name in names
    }
    document = {
        "written_by": {arguments.package: version(arguments.package)},
        "signatures": signatures,
    }
    output = arguments.output or Path(__file__).with_name(f"{arguments.package}_signatures.json")
    output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
