"""Train the case with a real MindSpore and its SummaryCollector, and say in JSON what it recorded.

    python train_with_mindspore.py --output mindspore_collector.json [--keep RUN_DIR]
    python train_with_mindspore.py --check mindspore_collector.json

Runs in MindSpore's environment (``nox -s parity`` does the second).
"""

from __future__ import annotations

import argparse
import glob
import json
import struct
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import collector_case as case
import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn, ops
from mindspore.train.lineage_pb2 import LineageEvent
from mindspore.train.summary_pb2 import Event


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, pad_mode="valid", has_bias=False)
        self.relu = nn.ReLU()
        self.flatten = nn.Flatten()
        self.fc = nn.Dense(4 * 6 * 6, 10)
        self.tensor_summary = ops.TensorSummary()

    def construct(self, images: ms.Tensor) -> ms.Tensor:
        scores = self.fc(self.flatten(self.relu(self.conv1(images))))
        self.tensor_summary("scores", scores)
        return scores


def train(run_dir: str, **options: Any) -> None:
    ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
    network = Net()
    for name, value in case.weights().items():
        network.parameters_dict()[name].set_data(ms.Tensor(value))
    images, labels = case.data()
    dataset = ds.NumpySlicesDataset({"image": images, "label": labels}, shuffle=False).batch(
        case.BATCH_SIZE
    )
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    optimizer = nn.Momentum(network.trainable_params(), case.LEARNING_RATE, case.MOMENTUM)
    collector = ms.SummaryCollector(run_dir, **case.OPTIONS | options)
    model = ms.Model(network, loss, optimizer)
    model.train(case.EPOCHS, dataset, callbacks=[collector], dataset_sink_mode=False)


def recorded(run_dir: str) -> dict[str, list]:
    """Tag with kind -> [step, value] in file order; a histogram is [min, max, counts].

    Without a step: the learning rate, the batch size and the size of the data set in the lineage.
    """
    found: dict[str, list] = {}
    for payload in payloads(run_dir, "_lineage"):
        lineage = LineageEvent.FromString(payload).train_lineage
        if lineage.hyper_parameters.batch_size:
            numbers = [lineage.hyper_parameters.learning_rate, lineage.hyper_parameters.batch_size]
            found["lineage"] = [[0, [*numbers, lineage.train_dataset.train_dataset_size]]]
    for payload in payloads(run_dir, "_MS"):
        event = Event.FromString(payload)
        for value in event.summary.value:
            kind = value.WhichOneof("value")
            if kind == "scalar_value":
                number = value.scalar_value
            elif kind == "histogram":
                counts = [bucket.count for bucket in value.histogram.buckets]
                number = [value.histogram.min, value.histogram.max, counts]
            elif kind == "tensor":
                number = list(value.tensor.dims)
            else:
                number = [value.image.height, value.image.width]
            found.setdefault(f"{value.tag} {kind}", []).append([event.step, number])
    return found


def payloads(run_dir: str, ending: str) -> list[bytes]:
    """The records of the one file with that ending, if there is one."""
    content = b"".join(
        Path(path).read_bytes() for path in glob.glob(f"{run_dir}/*summary.*{ending}")
    )
    found = []
    while content:
        length = struct.unpack("<Q", content[:8])[0]
        found.append(content[12 : 12 + length])
        content = content[16 + length :]
    return found


def differences(found: dict[str, list], golden: dict[str, list]) -> list[str]:
    """Where two recordings differ by more than the last digits that another machine may give."""
    if found.keys() != golden.keys():
        return [f"tags: {sorted(found)} here, {sorted(golden)} there"]
    return [
        f"{tag}: {found[tag]} here, {golden[tag]} there"
        for tag in golden
        if not np.allclose(_numbers(found[tag]), _numbers(golden[tag]), rtol=1e-4, atol=1e-5)
    ]


def _numbers(values: object) -> list[float]:
    return (
        [number for part in values for number in _numbers(part)]
        if isinstance(values, list)
        else [float(values)]
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", help="write what was recorded there")
    parser.add_argument("--check", help="compare what was recorded with this file")
    parser.add_argument("--keep", help="leave the run in this directory")
    arguments = parser.parse_args()
    run_dir = arguments.keep or tempfile.mkdtemp()
    train(run_dir)
    found = recorded(run_dir)
    if arguments.output:
        lines = [
            f"{json.dumps(tag)}: {json.dumps(values)}" for tag, values in sorted(found.items())
        ]
        Path(arguments.output).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    wrong = (
        differences(found, json.loads(Path(arguments.check).read_text(encoding="utf-8")))
        if arguments.check
        else []
    )
    print("\n".join(wrong))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
