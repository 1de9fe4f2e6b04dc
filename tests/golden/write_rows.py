"""What MindSpore does where the page for those who come from it says "the same".

``python write_rows.py --output FILE``; ``answers`` asks the same of ours. A question is named by
the left cell of its row, and asked in a forked process, for MindSpore allows one record at a time.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

PLUGINS = (
    "scalar", "image", "histogram", "tensor", "graph", "train_lineage", "eval_lineage",
    "dataset_graph",
    "custom_lineage_data", "landscape", "text", "plugin",
)  # fmt: skip
KEYS = (
    "collect_metric", "collect_graph", "collect_train_lineage", "collect_eval_lineage",
    "collect_input_data",
    "collect_dataset_graph", "histogram_regular", "collect_landscape", "collect_everything",
)  # fmt: skip
LANDSCAPE = {
    "landscape_size": 4,
    "unit": "step",
    "create_landscape": {"train": True, "result": False},
    "num_samples": 32,
    "intervals": [[2, 3, 5]],
}


def error_of(call, *arguments, **named):
    try:
        call(*arguments, **named)
    except Exception as error:
        return type(error).__name__
    return "accepted"


def content(folder):
    return b"".join(path.read_bytes() for path in Path(folder).glob("*summary*"))


def names_of_files(side, folder):
    """Of the summary file what is before and behind ``summary``, and of the exported tensor the
    ending.
    """
    options = {"export_options": {"tensor_format": "npy"}, "raise_exception": True}
    found = []
    for number, more in enumerate(({}, {"file_prefix": "mine", "file_suffix": "_MINE"})):
        with side.record(f"{folder}/{number}", **options, **more) as record:
            record.add_value("tensor", "scores", side.array(np.ones((2, 3), np.float32)))
            record.record(1)
        (path,) = Path(folder, str(number)).glob("*summary*")
        found.append([path.name.partition(".")[0], path.name.rpartition("_")[2]])
        found.append(sorted(each.suffix for each in Path(folder).rglob("export*/**/*.*")))
    return found


def after_close(side, folder):
    record = side.record(folder)
    record.add_value("scalar", "loss", side.array(np.float32(1)))
    record.record(1)
    record.close()
    before = content(folder)
    path = Path(record.log_dir)
    record.add_value("scalar", "loss", side.array(np.float32(2)))
    answer = record.record(2)
    return {
        "is a file": path.is_file(),
        "answer": answer,
        "nothing is written": content(folder) == before,
    }


def plugins(side, folder):
    with side.record(folder) as record:
        return [
            name
            for name in PLUGINS
            if error_of(record.add_value, name, "a", object()) != "ValueError"
        ]


def one_step(side, folder):
    with side.record(folder) as record:
        record.set_mode("eval")
        record.set_mode("train")
        for plugin in ("scalar", "tensor"):
            record.add_value(
                plugin,
                f"a {plugin}",
                side.array(np.ones(3 if plugin == "tensor" else (), np.float32)),
            )
        answer = record.record(1, None, lambda plugin: plugin == "scalar")
        found = [
            answer,
            record.record(step=2, train_network=None, plugin_filter=None),
            record.flush(),
        ]
    record.close()  # once more
    written = content(folder)
    return [*found, Path(record.log_dir).is_file(), b"a scalar" in written, b"a tensor" in written]


def specified(side, folder):
    """Which keys there are, and what is recorded with one of them beside the default and alone."""
    errors = {
        key: error_of(side.collector, folder, collect_specified_data={key: 3.5}) for key in KEYS
    }
    tags = {}
    for default in (True, False):
        where = f"{folder}/{default}"
        chosen = {"collect_metric": True, "collect_landscape": None}
        side.train(where, collect_specified_data=chosen, keep_default_action=default)
        tags[str(default)] = sorted(side.steps(where))
    return [errors, tags]


def chosen_histograms(side, folder):
    for number, expression in enumerate(("fc.*", "^conv|bias$", "nothing")):
        chosen = {"histogram_regular": expression, "collect_landscape": None}
        side.train(f"{folder}/{number}", collect_specified_data=chosen, keep_default_action=False)
    return [sorted(side.steps(f"{folder}/{number}")) for number in range(3)]


def landscapes(side, folder):
    """The settings that a run leaves, but for the paths of its checkpoints."""
    side.train(folder, collect_specified_data={"collect_landscape": LANDSCAPE})
    left = json.loads(Path(folder, "ckpt_dir", "train_metadata.json").read_text(encoding="utf-8"))
    left["model_params_file_map"] = sorted(left["model_params_file_map"])
    return left


def custom_data(side, folder):
    os.environ["MINDINSIGHT_HYPER_CONFIG"] = json.dumps(
        {"custom_lineage_data": {"tuned": 2, "both": "tuner"}}
    )
    side.train(folder, custom_lineage_data={"mine": 1.5, "both": "mine"})
    return {
        name: value
        for name, value in side.custom(folder).items()
        if name in ("mine", "tuned", "both")
    }


def frequencies(side, folder):
    side.train(folder)
    return side.steps(folder)


def directory(side, folder):
    side.train(f"{folder}/new/run")
    return sorted(
        {path.name.rpartition("_")[2] for path in Path(folder, "new/run").glob("*summary*")}
    )


def early_stopping(side, folder):
    return [
        name
        for name in inspect.signature(side.early_stopping).parameters
        if name in ("min_delta", "verbose")
    ]


QUESTIONS = {
    (
        '`log_dir`, `file_prefix="events"`, `file_suffix="_MS"`, `raise_exception`, '
        "`export_options`"
    ): names_of_files,
    "`log_dir` is the summary file; a value after `close()` is lost": after_close,
    "`add_value(plugin, name, value)`": plugins,
    (
        "`record(step, train_network, plugin_filter)`, `set_mode`, `flush`, `close`, `log_dir`, "
        "`with`"
    ): one_step,
    "`summary_dir`": directory,
    "`collect_freq=10`, `collect_tensor_freq`": frequencies,
    "`collect_specified_data`, `keep_default_action`": specified,
    "`histogram_regular`": chosen_histograms,
    "`collect_landscape`": landscapes,
    "`custom_lineage_data`, `MINDINSIGHT_HYPER_CONFIG`": custom_data,
    "`min_delta`, `verbose`": early_stopping,
}


def answers(side, root):
    """What one side does, by the row of the page; ``side`` has classes and functions of the same
    names for either.
    """
    found = {}
    for number, (row, question) in enumerate(QUESTIONS.items()):
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            try:
                said = question(side, f"{root}/{number}")
            except BaseException as error:
                said = f"{type(error).__name__}: {error}"
            with os.fdopen(writing, "w") as pipe:
                pipe.write(json.dumps(said))
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            found[row] = json.loads(pipe.read())
        os.waitpid(child, 0)
    return found


class MindSpore:
    """Their side, where it is installed."""

    def __init__(self):
        sys.path.insert(0, str(Path(__file__).with_name("collector")))
        import mindspore as ms
        from mindspore.train import EarlyStopping

        self.record, self.collector, self.early_stopping = (
            ms.SummaryRecord,
            ms.SummaryCollector,
            EarlyStopping,
        )
        self.array = ms.Tensor

    def train(self, folder, **options):
        """The case of ``collector_case``."""
        from train_with_mindspore import train

        train(folder, **options)

    def steps(self, folder):
        """Tag -> its steps, each once."""
        from train_with_mindspore import recorded

        return {
            tag: sorted({step for step, _ in each})
            for tag, each in recorded(folder).items()
            if tag != "lineage"
        }

    def custom(self, folder):
        """Custom lineage data."""
        from mindspore.train.lineage_pb2 import LineageEvent
        from train_with_mindspore import payloads

        found = {}
        for payload in payloads(folder, "_lineage"):
            for info in LineageEvent.FromString(payload).user_defined_info.user_info:
                for values in (info.map_int32, info.map_str, info.map_double):
                    found.update(values)
        return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path, required=True)
    output = parser.parse_args().output.resolve()
    with tempfile.TemporaryDirectory() as root:
        output.write_text(json.dumps(answers(MindSpore(), root), indent=1) + "\n", encoding="utf-8")
