"""Which error MindSpore raises for each wrong argument: ``python write_errors.py --output FILE``.

``answers`` asks the same of any other pair of classes.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import tempfile
from pathlib import Path

WRONG = {
    "None": None,
    "a text": "x y",
    "an empty text": "",
    "an int": 1,
    "zero": 0,
    "a negative int": -1,
    "a float": 1.5,
    "a bool": True,
    "a list": [1],
    "a dict": {"a": 1},
    "a dict of numbers": {123: 1},
    "an object": object,
}


def record_call(record, folder, call):
    with record(str(folder)) as made:
        call(made)


def close(made):
    if hasattr(made, "close"):
        made.close()


def questions(record, collector):
    """Name of each question, and what is called with a fresh directory and the wrong value."""

    def wrong(kind, argument):
        place = "summary_dir" if kind is collector else "log_dir"
        return lambda folder, value: close(kind(**{place: str(folder), argument: value}))

    asked = {"SummaryRecord(log_dir)": lambda folder, value: close(record(value))}
    asked["SummaryCollector(summary_dir)"] = lambda folder, value: collector(value)
    for argument in ("file_prefix", "file_suffix", "max_file_size", "raise_exception", "export_options"):
        asked[f"SummaryRecord({argument})"] = wrong(record, argument)
    for argument in (
        "collect_freq", "collect_specified_data", "keep_default_action", "custom_lineage_data", "collect_tensor_freq",
        "max_file_size", "export_options",
    ):  # fmt: skip
        asked[f"SummaryCollector({argument})"] = wrong(collector, argument)
    asked["set_mode"] = lambda folder, value: record_call(record, folder, lambda made: made.set_mode(value))
    asked["add_value(plugin)"] = lambda folder, value: record_call(
        record, folder, lambda made: made.add_value(value, "a", 1.0)
    )
    asked["add_value(name)"] = lambda folder, value: record_call(
        record, folder, lambda made: made.add_value("scalar", value, 1.0)
    )
    asked["record(step)"] = lambda folder, value: record_call(record, folder, lambda made: made.record(value))
    return asked


def answer(ask, folder, value):
    """The class of the error, or ``accepted``; in a forked process, for MindSpore allows one record at a time."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        with os.fdopen(reading) as pipe:
            said = pipe.read()
        os.waitpid(child, 0)
        return said
    try:
        ask(folder, value)
        said = "accepted"
    except BaseException as error:
        said = type(error).__name__
    os.write(writing, said.encode())
    os._exit(0)


def answers(record, collector, root):
    """The answer to every question by kind of value; what the calls make is below ``root``, an empty directory."""
    found = {}
    os.chdir(root)
    file = Path(root, "file")
    file.touch()
    for name, ask in questions(record, collector).items():
        values = {**WRONG, "a file": str(file)}.items()
        found[name] = {kind: answer(ask, Path(root, f"{len(found)} {kind}"), value) for kind, value in values}
    os.chdir("/")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path, required=True)
    output = parser.parse_args().output.resolve()  # the directory is another one while the questions are asked
    mindspore = importlib.import_module("mindspore")
    classes = mindspore.SummaryRecord, mindspore.SummaryCollector
    with tempfile.TemporaryDirectory() as root:
        output.write_text(json.dumps(answers(*classes, root), indent=2) + "\n")
