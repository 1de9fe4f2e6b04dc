"""Time a filtered, sorted lineage query over 999 runs: ours, cold and warm, and MindInsight's own
on the same tree.

``python benchmarks/lineage_query.py [RUNS]``. MindInsight is measured if ``MINDINSIGHT_PYTHON``
names a Python that holds MindInsight 2.3.1. Cold is the first query of a fresh process, after its
imports; the files are in the page cache for both.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, os.path.dirname(__file__))

import paired

from mindsummary_lightning.fileformat.framing import frame
from mindsummary_lightning.fileformat.lineage_codec import encode_lineage_event
from mindsummary_lightning.values import (
    DatasetGraph,
    EvaluationInfo,
    LineageEvent,
    TrainInfo,
    UserDefinedInfo,
)

RUNS = 999  # as many as MindInsight lists
REPEATS = 15
CONDITION: dict[str, Any] = {
    "metric/accuracy": {"gt": 0.5},
    "optimizer": {"in": ["Adam", "SGD"]},
    "sorted_name": "loss",
    "sorted_type": "descending",
}
_OURS = """
import json, sys, time
from mindsummary_lightning.lineage.query import filter_summary_lineage as query
"""
_THEIRS = """
import json, sys, time, logging
logging.disable(logging.CRITICAL)
from mindinsight.lineagemgr.model import filter_summary_lineage
def query(base, condition):
    return filter_summary_lineage(summary_base_dir=base, search_condition=condition)
"""
_MEASURE = """
base, condition, repeats = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
times = []
for _ in range(repeats):
    start = time.perf_counter()
    result = query(base, condition)
    times.append(time.perf_counter() - start)
print(json.dumps([times, result]))
"""


def write_runs(base: Path, count: int) -> None:
    """Write runs as a training leaves them: a summary file and a lineage file with train, data,
    custom and metric.
    """
    chance = random.Random(1)
    for number in range(count):
        source = DatasetGraph({"op_type": "GeneratorDataset", "num_samples": 60_000})
        graph = DatasetGraph(
            {"op_type": "BatchDataset", "batch_size": 2 ** (number % 6)}, children=(source,)
        )
        values = (
            TrainInfo(
                optimizer=chance.choice(("Adam", "SGD", "Momentum")),
                learning_rate=chance.choice((0.1, 0.01, 0.001)),
                loss_function="CrossEntropyLoss",
                epoch=number % 90,
                device_num=1,
                batch_size=2 ** (number % 6),
                network=f"Net{number % 17}",
                loss=chance.random(),
                train_dataset_size=60_000,
                model_path='{"ckpt": "last.ckpt"}',
                model_size=10**6 + number,
            ),
            graph,
            UserDefinedInfo(
                {
                    "seed": number,
                    "dropout": chance.random(),
                    "note": f"run {number}",
                    "optim": {"beta": 0.9},
                }
            ),
            EvaluationInfo(json.dumps({"accuracy": chance.random(), "val_loss": chance.random()})),
        )
        run = base / f"version_{number}"
        run.mkdir()
        payloads = (encode_lineage_event(LineageEvent(float(number), value)) for value in values)
        records = b"".join(bytes(piece) for payload in payloads for piece in frame([payload]))
        (run / f"events.out.events.summary.{1_700_000_000 + number}.0.host_lineage").write_bytes(
            records
        )
        (run / f"events.out.events.summary.{1_700_000_000 + number}.0.host_MS").touch()


def measured(python: str, program: str, base: Path, repeats: int) -> tuple[list[float], Any]:
    """Seconds of each of ``repeats`` queries of one process, and the answer."""
    command = [python, "-c", program + _MEASURE, str(base), json.dumps(CONDITION), str(repeats)]
    answer = subprocess.run(
        command, check=True, capture_output=True, text=True
    ).stdout.splitlines()[-1]
    times, result = json.loads(answer)
    return times, result


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    with tempfile.TemporaryDirectory() as temporary:
        base = Path(temporary)
        write_runs(base, count)
        times, ours = measured(sys.executable, _OURS, base, REPEATS)
        cold, warm = times[0], statistics.median(times[1:])
        rows = {"first query": {"ours": [cold]}, "nothing changed": {"ours": [warm]}}
        python = os.environ.get("MINDINSIGHT_PYTHON")
        if python:
            times, theirs = measured(python, _THEIRS, base, 3)
            rows["first query"]["MindInsight"] = [times[0]]
            rows["nothing changed"]["MindInsight"] = [statistics.median(times[1:])]
            print(f"same answer: {ours == theirs}")
        title = f"A filtered, sorted query that finds {ours['count']} of {count} runs"
        paired.report("lineage_query", title, "ms", 1e3, rows)


if __name__ == "__main__":
    main()
