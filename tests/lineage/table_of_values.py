"""Names and values of hyper-parameters as people have them, which every place that shows lineage
must keep.

A bool is recorded as 1 or 0, and what is not finite as its name: MindInsight has neither.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from mindsummary_lightning.conversion.hyperparameters import flatten
from mindsummary_lightning.recording.summary_record import SummaryRecord
from mindsummary_lightning.values import TrainInfo, UserDefinedInfo

SETTINGS: dict[str, Any] = {
    "int32 most": 2**31 - 1,
    "int32 beyond": 2**31,
    "int32 least": -(2**31),
    "int32 below": -(2**31) - 1,
    "seed": 3_000_000_000,
    "n_params": 7_000_000_000,
    "exact": 2**53,
    "not exact": 2**53 + 1,
    "not exact, negative": -(2**53) - 1,
    "int64 most": 2**63 - 1,
    "beyond int64": 2**70,
    "amsgrad": True,
    "nesterov": False,
    "not a number": math.nan,
    "infinite": math.inf,
    "negative infinite": -math.inf,
    "float": 0.1,
    "tiny": 5e-324,
    "whole float": 7e9,
    "number as text": "3000000000",
    "exponent as text": "1e-3",
    "NaN as text": "NaN",
    "true as text": "True",
    "unicode": "学习率 ✓ é",
    "empty": "",
    "quotes": 'say "hello", it\'s',
    "lines": "a,b\nc",
    "formula": "=1+1",
    "star": "a*b",
    "AP@IoU=0.50": 0.5,
    "a<b": 1,
    "a>b!": 2,
    'a "quoted" name': 3,
    "it's": 4,
    "a.dotted.name": 5,
    "a/path/to": 6,
    "Case": 7,
    "case": 8,
    "CASE": 9,
    "学习率": 10,
    "OR": 11,
}
RECORDED = flatten(SETTINGS)
INT64 = range(-(2**63), 2**63)


def record_run(directory: Path, settings: dict[str, Any] = SETTINGS) -> None:
    """Record a run with the settings, as a training script does."""
    with SummaryRecord(str(directory)) as record:
        record.add_value(
            "train_lineage", "train", TrainInfo(network="Net", optimizer="Adam", epoch=1)
        )
        record.add_value("custom_lineage_data", "custom", UserDefinedInfo(flatten(settings)))
        record.record(1)


def condition_for(name: str) -> str:
    """A query that the value of a setting meets, as a person would write it."""
    value = RECORDED[name]
    quoted = '"' + name.replace('"', '""') + '"'
    return f"{quoted}=" + (
        '"' + value.replace('"', '""') + '"' if isinstance(value, str) else repr(value)
    )
