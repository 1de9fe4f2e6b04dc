"""A run with something of every kind, made in memory: what ``show`` and ``report`` are looked at
with.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from mindsummary_lightning import values as of
from mindsummary_lightning.conversion.histograms import to_histogram
from mindsummary_lightning.conversion.user_images import to_image
from tests.reading.runs import record, values_at, write_lineage, write_summary


def write_demo_run(run: Path, rate: float = 0.01, steps: int = 60) -> None:
    random = np.random.default_rng(int(rate * 1000))
    records = [
        record(
            of.Event(
                1700000000.0, 0, of.Graph((of.GraphNode("1", "Conv2D"), of.GraphNode("2", "ReLU")))
            )
        )
    ]
    for step in range(1, steps + 1):
        values: dict[str, of.SummaryValue] = {
            "loss/auto": 2.3 * math.exp(-step * rate * 3) + 0.05 * random.random(),
            "accuracy": 1 - math.exp(-step * rate * 4) * 0.9,
        }
        if step % 10 == 0:
            values["conv1.weight/auto"] = to_histogram(
                random.normal(0.0, 1 + step / 60, 864).astype(np.float32)
            )
        if step % 30 == 0:
            values["input_data/auto"] = to_image(_picture(step), "CHW")
        records.append(values_at(step, values))
    records.append(values_at(steps, {"logits": of.Tensor(np.eye(3, dtype=np.float32))}))
    records.append(values_at(0, {"landscape_[1, 2, 3]": _landscape(rate)}))
    write_summary(run, records)
    write_lineage(
        run,
        [
            of.TrainInfo(
                "Adam", rate, "CrossEntropyLoss", 2, "stand_alone", 1, 32, None, 1797, "LeNet", 0.08
            ),
            of.EvaluationInfo('{"accuracy": 0.97}', None, 360),
            of.DatasetGraph(
                {"op_type": "BatchDataset", "batch_size": 32},
                children=(
                    of.DatasetGraph(
                        {"op_type": "GeneratorDataset"}, sampler=of.Operation({"sampler": "Random"})
                    ),
                ),
            ),
            of.UserDefinedInfo({"seed": 7, "note": "first try"}),
        ],
    )


def _picture(step: int) -> np.ndarray:
    y, x = np.mgrid[-1:1:24j, -2:2:48j]
    rings = 0.5 + 0.5 * np.cos(6 * np.hypot(x, y) - step / 10)
    return np.stack([rings, rings * (x + 2) / 4, 1 - rings]).astype(np.float32)


def _landscape(rate: float) -> of.LossLandscape:
    x = np.linspace(-1, 1, 16)
    y = np.linspace(-1, 1, 12)
    z = (x[None, :] ** 2 + 2 * (y[:, None] - rate) ** 2 + 0.1).astype(np.float32)
    path = of.Points(
        np.array([-0.8, -0.3, 0.0]), np.array([0.7, 0.4, rate]), np.array([1.7, 0.6, 0.1])
    )
    return of.LossLandscape(
        of.Points(x, y, z),
        (1, 2, 3),
        path,
        (0.0, rate, 0.1),
        of.LandscapeMetadata("PCA", "step", 30),
    )
