"""Train tiny networks under a real MindSpore's SummaryCollector and keep the lineage files that
MindSpore wrote.

Run in an environment that holds MindSpore 2.7.0 (never in ours):
``python write_with_mindspore.py``. Each run becomes a directory beside this script. The files'
bytes are MindSpore's own; in their names the host becomes ``host`` and the time a fixed one.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import mindspore
import mindspore.dataset as ds
import numpy as np
from mindspore import nn
from mindspore.dataset import transforms, vision

_HERE = Path(__file__).parent
_FIRST_SECOND = 1_700_000_000


class TinyNet(nn.Cell):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.flatten = nn.Flatten()
        self.dense = nn.Dense(64, 4)

    def construct(self, images: Any) -> Any:
        return self.dense(self.flatten(images))


def _samples(count: int, size: int = 8) -> Any:
    generator = np.random.default_rng(7)
    images = generator.integers(0, 255, (count, size, size, 1), dtype=np.uint8)
    labels = generator.integers(0, 4, count, dtype=np.int32)
    return ds.NumpySlicesDataset((images, labels), ["image", "label"], shuffle=False)


def _scaled(count: int) -> Any:
    to_float = [vision.Rescale(1 / 255, 0.0), vision.HWC2CHW()]
    data = _samples(count).map(to_float, input_columns="image")
    return data.shuffle(16).batch(8, drop_remainder=True)


def _resized(count: int) -> Any:
    images = [vision.Resize((8, 8)), vision.Normalize([0.5], [0.25]), vision.HWC2CHW()]
    data = _samples(count, size=12).map(images, input_columns="image")
    data = data.map(transforms.TypeCast(mindspore.int32), input_columns="label")
    return data.batch(4).repeat(2)


def _model(optimizer: str, metrics: set[str]) -> mindspore.Model:
    mindspore.set_seed(1)
    network = TinyNet()
    kinds = {"Momentum": lambda p: nn.Momentum(p, 0.01, 0.9), "Adam": lambda p: nn.Adam(p, 1e-3)}
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    return mindspore.Model(
        network, loss, kinds[optimizer](network.trainable_params()), metrics=metrics
    )


def _collector(directory: Path, custom: dict[str, Any] | None = None) -> Any:
    options = {
        "collect_metric": True,
        "collect_graph": False,
        "collect_dataset_graph": True,
        "histogram_regular": None,
    }
    return mindspore.SummaryCollector(
        str(directory),
        collect_freq=1,
        collect_specified_data=options,
        keep_default_action=True,
        custom_lineage_data=custom,
    )


def train_only(directory: Path) -> None:
    model = _model("Momentum", {"accuracy"})
    custom = {"note": "né à Paris ✓", "folds": 5, "dropout": 0.25}
    model.train(2, _scaled(32), callbacks=[_collector(directory, custom)], dataset_sink_mode=False)


def train_and_eval(directory: Path) -> None:
    model = _model("Adam", {"accuracy", "loss"})
    model.train(1, _scaled(64), callbacks=[_collector(directory)], dataset_sink_mode=False)
    model.eval(
        _scaled(32),
        callbacks=[_collector(directory, {"evaluated by": "hand"})],
        dataset_sink_mode=False,
    )


def pipeline(directory: Path) -> None:
    model = _model("Momentum", {"accuracy"})
    checkpoints = mindspore.ModelCheckpoint(directory=str(directory / "checkpoints"))
    collector = _collector(directory, {"resized": 1})
    model.train(3, _resized(16), callbacks=[checkpoints, collector], dataset_sink_mode=False)


def eval_only(directory: Path) -> None:
    model = _model("Adam", {"accuracy", "precision", "loss"})
    model.eval(_resized(16), callbacks=[_collector(directory)], dataset_sink_mode=False)


def _seconds(path: Path) -> int:
    return int(path.name.partition("summary.")[2].partition(".")[0])


def _keep_lineage(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    files = sorted(path for path in source.rglob("*_lineage") if path.stat().st_size)
    first = min(_seconds(path) for path in files)
    for path in files:
        seconds = _seconds(path) - first + _FIRST_SECOND
        kept = target / f"events.out.events.summary.{seconds}.0.host_lineage"
        shutil.copyfile(path, kept)
        print(f"{kept.relative_to(_HERE)}: {kept.stat().st_size} bytes")


def main() -> None:
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE, device_target="CPU")
    for write in (train_only, train_and_eval, pipeline, eval_only):
        with tempfile.TemporaryDirectory() as temporary:
            write(Path(temporary))
            _keep_lineage(Path(temporary), _HERE / f"mindspore_{write.__name__}")


if __name__ == "__main__":
    main()
