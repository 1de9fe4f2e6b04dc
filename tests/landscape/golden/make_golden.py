"""Run MindSpore's own SummaryCollector and SummaryLandscape and keep what they made as
``mindspore.json``.

Needs an environment with ``mindspore==2.7.0 protobuf<=3.20.3``; run it there as
``python make_golden.py`` and read the diff.
"""

from __future__ import annotations

import glob
import json
import os
import struct
import tempfile

import mindspore as ms
import numpy as np
from mindspore import nn
from mindspore.train import Loss, Model, SummaryCollector, SummaryLandscape
from mindspore.train.summary_pb2 import Event

STEPS = [1, 2, 3, 4, 5, 6]
SETTINGS = {
    "landscape_size": 8,
    "unit": "step",
    "num_samples": 48,
    "create_landscape": {"train": True, "result": True},
    "intervals": [STEPS],
}
RANDOM = np.random.RandomState(7)
INPUTS = RANDOM.normal(size=(48, 12)).round(3).astype(np.float32)
LABELS = RANDOM.randint(0, 4, 48).astype(np.int32)


def network() -> nn.Cell:
    return nn.SequentialCell(nn.Dense(12, 8), nn.ReLU(), nn.Dense(8, 4))


def dataset() -> ms.dataset.Dataset:
    return ms.dataset.NumpySlicesDataset((INPUTS, LABELS), shuffle=False).batch(16)


def callback_fn() -> tuple:
    net = network()
    model = Model(
        net,
        nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"),
        metrics={"Loss": Loss()},
    )
    return model, net, dataset(), {"Loss": Loss()}


def records(path: str) -> list[Event]:
    with open(path, "rb") as file:
        data = file.read()
    found, at = [], 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        found.append(Event.FromString(data[at + 12 : at + 12 + length]))
        at += length + 16
    return found


def points(message: object) -> dict:
    return {axis: list(getattr(message, axis).float_data) for axis in "xyz"}


def main() -> None:
    ms.set_seed(3)
    ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
    run = tempfile.mkdtemp()
    net = network()
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    model = Model(net, loss, nn.Momentum(net.trainable_params(), 0.2, 0.9))
    collector = SummaryCollector(
        run, collect_specified_data={"collect_landscape": SETTINGS}, keep_default_action=False
    )
    model.train(2, dataset(), callbacks=[collector], dataset_sink_mode=False)

    drawn, draw = [], np.random.normal
    np.random.normal = lambda *args, **kwargs: drawn.append(draw(*args, **kwargs)) or drawn[-1]
    output = tempfile.mkdtemp()
    SummaryLandscape(run).gen_landscapes_with_multi_process(
        callback_fn, device_ids=[0], output=output
    )
    events = [event for path in glob.glob(os.path.join(output, "*_MS")) for event in records(path)]
    values = [value for event in events for value in event.summary.value]
    checkpoints = [
        ms.load_checkpoint(path)
        for step in STEPS
        for path in glob.glob(os.path.join(run, "ckpt_dir", f"*_{step}_step.ckpt"))
    ]
    golden = {
        "versions": {"mindspore": ms.__version__, "numpy": np.__version__},
        "inputs": INPUTS.round(3).astype(float).round(3).tolist(),
        "labels": LABELS.tolist(),
        "checkpoints": [{name: p.asnumpy().tolist() for name, p in c.items()} for c in checkpoints],
        "random": [vector.astype(np.float32).tolist() for vector in drawn[-2:]],
        "landscapes": {
            value.tag: {
                "surface": points(value.loss_landscape.landscape),
                "path": points(value.loss_landscape.loss_path.points),
                "intervals": list(value.loss_landscape.loss_path.intervals),
                "convergence_point": points(value.loss_landscape.convergence_point),
                "metadata": {
                    "decomposition": value.loss_landscape.metadata.decomposition,
                    "unit": value.loss_landscape.metadata.unit,
                    "step_per_epoch": value.loss_landscape.metadata.step_per_epoch,
                },
            }
            for value in values
        },
    }
    with open(
        os.path.join(os.path.dirname(os.path.abspath(__file__)), "mindspore.json"),
        "w",
        encoding="utf-8",
    ) as file:
        json.dump(golden, file, indent=0)
        file.write("\n")


if __name__ == "__main__":
    main()
