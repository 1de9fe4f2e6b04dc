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

sys.path.insert(0, str(Path(__file__).parent))

import collector_case as case
import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn
from mindspore.train.summary_pb2 import Event


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, pad_mode="valid", has_bias=False)
        self.relu = nn.ReLU()
        self.flatten = nn.Flatten()
        self.fc = nn.Dense(4 * 6 * 6, 10)

    def construct(self, images: ms.Tensor) -> ms.Tensor:
        return self.fc(self.flatten(self.relu(self.conv1(images))))


def train(run_dir: str) -> None:
    ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
    network = Net()
    for name, value in case.weights().items():
        network.parameters_dict()[name].set_data(ms.Tensor(value))
    images, labels = case.data()
    dataset = ds.NumpySlicesDataset({"image": images, "label": labels}, shuffle=False).batch(case.BATCH_SIZE)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    optimizer = nn.Momentum(network.trainable_params(), case.LEARNING_RATE, case.MOMENTUM)
    collector = ms.SummaryCollector(run_dir, case.COLLECT_FREQ, {"collect_landscape": None})
    model = ms.Model(network, loss, optimizer)
    model.train(case.EPOCHS, dataset, callbacks=[collector], dataset_sink_mode=False)


def recorded(run_dir: str) -> dict[str, list]:
    """Tag with kind -> [step, value] in file order; a histogram is [min, max, counts]."""
    found: dict[str, list] = {}
    path = next(path for path in glob.glob(f"{run_dir}/*summary.*") if path.endswith("_MS"))
    content = Path(path).read_bytes()
    while content:
        length = struct.unpack("<Q", content[:8])[0]
        event = Event.FromString(content[12 : 12 + length])
        content = content[16 + length :]
        for value in event.summary.value:
            kind = value.WhichOneof("value")
            if kind == "scalar_value":
                number = value.scalar_value
            elif kind == "histogram":
                counts = [bucket.count for bucket in value.histogram.buckets]
                number = [value.histogram.min, value.histogram.max, counts]
            else:
                number = [value.image.height, value.image.width]
            found.setdefault(f"{value.tag} {kind}", []).append([event.step, number])
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
    return [number for part in values for number in _numbers(part)] if isinstance(values, list) else [float(values)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", help="write what was recorded there")
    parser.add_argument("--check", help="compare what was recorded with this file")
    parser.add_argument("--keep", help="leave the run in this directory")
    arguments = parser.parse_args()
    run_dir = arguments.keep or tempfile.mkdtemp()
    train(run_dir)
    found = recorded(run_dir)
    if arguments.output:
        lines = [f"{json.dumps(tag)}: {json.dumps(values)}" for tag, values in sorted(found.items())]
        Path(arguments.output).write_text("{\n" + ",\n".join(lines) + "\n}\n")
    wrong = differences(found, json.loads(Path(arguments.check).read_text())) if arguments.check else []
    print("\n".join(wrong))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
