"""Train a small network twice under a real MindSpore and keep the runs it wrote, to look at in
MindInsight's pages.

Run in an environment that holds MindSpore 2.7.0 (never in ours):
``python write_with_mindspore.py``. Each run becomes a directory beside this script, with something
for every page: scalars, histograms and input images from SummaryCollector, a tensor from
``ops.TensorSummary`` inside the network, the graph, the data pipeline, lineage, and a loss
landscape. The files' bytes are MindSpore's own; in their names the host becomes ``host`` and the
time a fixed one.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn, ops
from mindspore.dataset import vision
from mindspore.train import Loss, Model, SummaryCollector, SummaryLandscape

_HERE = Path(__file__).parent
_FIRST_SECOND = 1_700_000_000
_RUNS = {"momentum_0.05": 0.05, "momentum_0.01": 0.01}  # folder -> learning rate
_BATCH, _BATCHES, _EPOCHS = 8, 8, 2
_LANDSCAPE = {
    "landscape_size": 10,
    "unit": "step",
    "num_samples": 64,
    "create_landscape": {"train": True, "result": True},
    "intervals": [list(range(2, 17, 2))],
}
_RANDOM = np.random.default_rng(7)
_LABELS = _RANDOM.integers(0, 4, _BATCH * _BATCHES, dtype=np.int32)
_IMAGES = _RANDOM.integers(0, 128, (_BATCH * _BATCHES, 8, 8, 1), dtype=np.uint8)
for image, label in zip(_IMAGES, _LABELS, strict=True):
    image[2 * label : 2 * label + 2] += 100  # something to learn: which rows are bright


class Net(nn.Cell):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, pad_mode="valid")
        self.relu = nn.ReLU()
        self.flatten = nn.Flatten()
        self.fc = nn.Dense(4 * 6 * 6, 4)
        self.record = ops.TensorSummary()

    def construct(self, images: Any) -> Any:
        scores = self.fc(self.flatten(self.relu(self.conv1(images))))
        self.record("scores", scores)
        return scores


def _data() -> Any:
    to_float = [vision.Rescale(1 / 255, 0.0), vision.HWC2CHW()]
    data = ds.NumpySlicesDataset((_IMAGES, _LABELS), ["image", "label"], shuffle=False)
    return data.map(to_float, input_columns="image").shuffle(16).batch(_BATCH)


def _model(network: nn.Cell, rate: float) -> Model:
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    return Model(
        network,
        loss,
        nn.Momentum(network.trainable_params(), rate, 0.9),
        metrics={"accuracy", "loss"},
    )


def _for_landscape() -> tuple[Any, ...]:
    network = Net()
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    return Model(network, loss, metrics={"Loss": Loss()}), network, _data(), {"Loss": Loss()}


def train(directory: str, rate: float) -> None:
    """Train, evaluate and draw the landscape, all recorded in one directory."""
    ms.set_seed(1)
    model = _model(Net(), rate)
    options = {"collect_landscape": _LANDSCAPE, "histogram_regular": ".*"}
    collector = SummaryCollector(
        directory,
        collect_freq=4,
        collect_specified_data=options,
        custom_lineage_data={"note": "MindSpore 2.7.0, CPU"},
    )
    model.train(_EPOCHS, _data(), callbacks=[collector], dataset_sink_mode=False)
    SummaryLandscape(directory).gen_landscapes_with_multi_process(_for_landscape, device_ids=[0])
    model.eval(_data(), callbacks=[SummaryCollector(directory)], dataset_sink_mode=False)


def _seconds(path: Path) -> int:
    return int(path.name.partition("summary.")[2].partition(".")[0])


def _keep(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    files = sorted(path for path in source.glob("*summary.*") if path.stat().st_size)
    first = min(map(_seconds, files))
    for path in files:
        seconds = _seconds(path) - first + _FIRST_SECOND
        kept = (
            target
            / f"events.out.events.summary.{seconds}.0.host{path.name[path.name.rindex('_') :]}"
        )
        shutil.copyfile(path, kept)
        print(f"{kept.relative_to(_HERE)}: {kept.stat().st_size} bytes")


def main() -> None:
    ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
    for name, rate in _RUNS.items():
        with tempfile.TemporaryDirectory() as temporary:
            train(temporary, rate)
            _keep(Path(temporary), _HERE / name)


if __name__ == "__main__":
    main()
