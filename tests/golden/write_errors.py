"""Which error MindSpore raises for each wrong argument: ``python write_errors.py --output FILE``.

``answers`` asks the same of any other pair of classes.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
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


def questions(record, collector, landscape):
    """Name of each question, and what is called with a fresh directory and the wrong value."""

    def inside(argument, wrap):
        return lambda folder, value: collector(str(folder), **{argument: wrap(value)})

    def generate(argument):
        # neither gets that far: there are no checkpoints
        right = {"callback_fn": print, "device_ids": [0]}
        return lambda folder, value: landscape(str(Path.cwd())).gen_landscapes_with_multi_process(
            **{**right, argument: value}
        )

    def wrong(kind, argument):
        place = "summary_dir" if kind is collector else "log_dir"
        return lambda folder, value: close(kind(**{place: str(folder), argument: value}))

    asked = {"SummaryRecord(log_dir)": lambda folder, value: close(record(value))}
    asked["SummaryCollector(summary_dir)"] = lambda folder, value: collector(value)
    for argument in (
        "file_prefix",
        "file_suffix",
        "max_file_size",
        "raise_exception",
        "export_options",
    ):
        asked[f"SummaryRecord({argument})"] = wrong(record, argument)
    for argument in (
        "collect_freq", "collect_specified_data", "keep_default_action", "custom_lineage_data",
        "collect_tensor_freq",
        "max_file_size", "export_options",
    ):  # fmt: skip
        asked[f"SummaryCollector({argument})"] = wrong(collector, argument)
    for key in (
        "collect_metric", "collect_graph", "collect_train_lineage", "collect_eval_lineage",
        "collect_input_data",
        "collect_dataset_graph", "histogram_regular", "collect_landscape",
    ):  # fmt: skip
        asked[f"SummaryCollector(collect_specified_data {key})"] = inside(
            "collect_specified_data", lambda value, key=key: {key: value}
        )
    for key in ("landscape_size", "unit", "num_samples", "create_landscape", "intervals"):

        def settings(value, key=key):
            return {"collect_landscape": {"intervals": [[1, 2, 3]], key: value}}

        asked[f"SummaryCollector(collect_specified_data collect_landscape {key})"] = inside(
            "collect_specified_data", settings
        )
    asked["SummaryCollector(custom_lineage_data value)"] = inside(
        "custom_lineage_data", lambda value: {"a": value}
    )
    for kind, ask in (
        (record, wrong(record, "export_options")),
        (collector, wrong(collector, "export_options")),
    ):
        name = "SummaryRecord" if kind is record else "SummaryCollector"
        asked[f"{name}(export_options tensor_format)"] = lambda folder, value, ask=ask: ask(
            folder, {"tensor_format": value}
        )
    asked["SummaryRecord(network)"] = wrong(record, "network")
    asked["SummaryLandscape(summary_dir)"] = lambda folder, value: landscape(value)
    for argument in ("callback_fn", "collect_landscape", "device_ids", "output"):
        asked[f"gen_landscapes_with_multi_process({argument})"] = generate(argument)
    asked["set_mode"] = lambda folder, value: record_call(
        record, folder, lambda made: made.set_mode(value)
    )
    asked["add_value(plugin)"] = lambda folder, value: record_call(
        record, folder, lambda made: made.add_value(value, "a", 1.0)
    )
    asked["add_value(name)"] = lambda folder, value: record_call(
        record, folder, lambda made: made.add_value("scalar", value, 1.0)
    )
    for plugin in (
        "scalar", "image", "tensor", "histogram", "graph", "train_lineage", "eval_lineage",
        "dataset_graph",
        "custom_lineage_data", "landscape",
    ):  # fmt: skip
        asked[f"add_value(value of {plugin})"] = lambda folder, value, plugin=plugin: record_call(
            record, folder, lambda made: made.add_value(plugin, "a", value)
        )
    for argument in ("train_network", "plugin_filter"):
        asked[f"record({argument})"] = lambda folder, value, argument=argument: record_call(
            record, folder, lambda made: made.record(1, **{argument: value})
        )
    asked["record(step)"] = lambda folder, value: record_call(
        record, folder, lambda made: made.record(value)
    )
    return asked


def answer(ask, folder, value):
    """The class of the error, or ``accepted``."""
    try:
        ask(folder, value)
    except BaseException as error:
        return type(error).__name__
    return "accepted"


def answer_of_a_fork(ask, folder, value):
    """The same from a process of its own, for MindSpore allows one record at a time and leaves
    workers behind.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.setsid()
        os.write(writing, f"{answer(ask, folder, value)}\n".encode())
        signal.pause()
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.readline().strip()
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return said


def answers(classes, root, answered):
    """The answer to every question by kind of value; what the calls make is below ``root``, an
    empty directory.
    """
    found = {}
    os.chdir(root)
    file = Path(root, "file")
    file.touch()
    for name, ask in questions(*classes).items():
        values = {**WRONG, "a file": str(file)}.items()
        found[name] = {
            kind: answered(ask, Path(root, f"{len(found)} {kind}"), value) for kind, value in values
        }
    os.chdir("/")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path, required=True)
    # the directory is another one while the questions are asked
    output = parser.parse_args().output.resolve()
    mindspore = importlib.import_module("mindspore")
    classes = mindspore.SummaryRecord, mindspore.SummaryCollector, mindspore.SummaryLandscape
    with tempfile.TemporaryDirectory() as root:
        output.write_text(
            json.dumps(answers(classes, root, answer_of_a_fork), indent=2) + "\n", encoding="utf-8"
        )
