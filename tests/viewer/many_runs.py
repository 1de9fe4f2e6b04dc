"""Many small runs of a sweep, written in seconds: curves are shared, settings and
results differ.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

from mindsummary_lightning.values import EvaluationInfo, RunInfo, TrainInfo, UserDefinedInfo
from tests.reading.runs import values_at, write_lineage, write_summary

STEPS = 20


def write_sweep(base: Path, count: int) -> None:
    """Runs ``version_0`` ... with a loss, an accuracy and settings; every third has a metric of its
    own kind.
    """
    chance = random.Random(0)
    templates = [
        write_summary(base / ".templates" / str(number), _curve(number), 1_700_000_000).read_bytes()
        for number in range(10)
    ]
    for number in range(count):
        run = base / "sweep" / f"version_{number}"
        run.mkdir(parents=True)
        second = 1_700_000_000 + number
        file = run / f"events.out.events.summary.{second}.0.h_MS"
        file.write_bytes(templates[number % 10])
        accuracy = round(chance.random(), 4)
        train = TrainInfo(
            network=chance.choice(["ResNet18", "ViT-B/16"]),
            optimizer=chance.choice(["Adam", "SGD"]),
            learning_rate=chance.choice([0.1, 0.01, 0.001]),
            batch_size=chance.choice([32, 64]),
            epoch=3,
            loss=round(2 - accuracy, 4),
        )
        metrics = {"val/accuracy": accuracy, **({"a_rare_metric": 1.0} if number % 3 == 0 else {})}
        settings = UserDefinedInfo(
            {"seed": number % 5, "note": f"run {number}", "optim": {"momentum": 0.9}}
        )
        status = RunInfo(
            {"status": "failed" if number % 13 == 0 else "success", "precision": "16-mixed"}
        )
        lineage = write_lineage(
            run, [train, EvaluationInfo(json.dumps(metrics)), settings, status], second
        )
        for path in (file, lineage):
            os.utime(path, (second, second))


def _curve(number: int) -> list[bytes]:
    values = [
        {"train_loss": 2.0 / (step + number), "val/accuracy": step / STEPS}
        for step in range(1, STEPS + 1)
    ]
    return [values_at(step, scalars) for step, scalars in enumerate(values, 1)]
