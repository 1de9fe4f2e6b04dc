"""Small runs as real files, written record by record so that a test says exactly what
lies where.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from mindsummary_lightning.fileformat.framing import frame
from mindsummary_lightning.fileformat.lineage_codec import encode_lineage_event
from mindsummary_lightning.fileformat.row_names import ROW_NAMES_FILE, encode_row_names
from mindsummary_lightning.fileformat.summary_codec import VERSION, encode_event
from mindsummary_lightning.values import Event, Histogram, LineageEvent, SummaryValue, Tensor
from mindsummary_lightning.values.events import LineageValue
from mindsummary_lightning.values.statistics_columns import COLUMNS, STATISTICS_TAG, to_stored

MINDSPORE_RUN = Path(__file__).with_name("mindspore_run.json")


def record(event: Event) -> bytes:
    return b"".join(frame(encode_event(event)))


def values_at(
    step: int, values: Mapping[str, SummaryValue], wall_time: float | None = None
) -> bytes:
    return record(
        Event(1700000000.0 + step if wall_time is None else wall_time, step, tuple(values.items()))
    )


def write_summary(
    run: Path, records: Iterable[bytes], second: int = 1700000000, host: str = "h"
) -> Path:
    run.mkdir(parents=True, exist_ok=True)
    path = run / f"events.out.events.summary.{second}.0.{host}_MS"
    path.write_bytes(record(Event(float(second), 0, VERSION)) + b"".join(records))
    return path


def damage_unseen(path: Path, recorded: bytes) -> None:
    """Replace the bytes of a record in a file whose size and times stay as they were."""
    before = path.stat()
    path.write_bytes(path.read_bytes().replace(recorded, b"\xff" * len(recorded)))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def write_lineage(run: Path, values: Iterable[LineageValue], second: int = 1700000000) -> Path:
    run.mkdir(parents=True, exist_ok=True)
    path = run / f"events.out.events.summary.{second}.0.h_lineage"
    framed = (
        b"".join(frame([encode_lineage_event(LineageEvent(float(second), value))]))
        for value in values
    )
    path.write_bytes(b"".join(framed))
    return path


def write_mindspore_run(run: Path) -> None:
    """The files that MindSpore 2.7.0 wrote for three steps of a scalar, a tensor, a histogram and
    an image.
    """
    run.mkdir(parents=True, exist_ok=True)
    for name, text in json.loads(MINDSPORE_RUN.read_text(encoding="utf-8")).items():
        (run / name).write_bytes(base64.b64decode(text))


def histogram(*counts: int) -> Histogram:
    lefts = np.arange(len(counts), dtype=np.float64)
    total = sum(counts)
    return Histogram(
        lefts,
        np.ones(len(counts)),
        np.array(counts),
        total,
        min=0.0,
        max=float(len(counts)),
        sum=1.5,
    )


def write_parameter_run(
    run: Path,
    names: tuple[str, ...] = ("first.weight", "first.bias", "last.weight"),
    *,
    has_loss: bool = True,
) -> None:
    """Five tables: the gradient of the second parameter is zero at step 20, that of the last is NaN
    from step 30 on.
    """
    records = []
    for step in (1, 10, 20, 30, 40):
        table = np.zeros((len(names), len(COLUMNS)))
        table[:, COLUMNS.index("gradient_rms")] = [
            10.0 ** -(1 + row % 3) for row in range(len(names))
        ]
        table[1, COLUMNS.index("gradient_rms")] *= step != 20
        table[-1, COLUMNS.index("gradient_non_finite")] = 2.0 * (step >= 30)
        table[:, COLUMNS.index("update_ratio")] = np.nan
        loss = {"loss/auto": 1 / step} if has_loss else {}
        records.append(values_at(step, {**loss, STATISTICS_TAG: Tensor(to_stored(table))}))
    write_summary(run, records)
    (run / ROW_NAMES_FILE).write_bytes(encode_row_names(names))
