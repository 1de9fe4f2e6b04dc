"""Runs that both sides show: every kind of value, resumed, damaged, empty, MindSpore's, and a tree
with lineage.

What lies within MindInsight's limits is in runs of its own; ``beyond_...`` exceeds them. All times
are long past, as MindInsight waits ten minutes before it believes that an incomplete record will
stay so.
"""

from __future__ import annotations

import math
import os
import random
import shutil
from io import BytesIO
from pathlib import Path

import numpy as np
import PIL.Image

from mindsummary_lightning.fileformat.framing import frame
from mindsummary_lightning.values import (
    DataType,
    EvaluationInfo,
    Histogram,
    Image,
    LandscapeMetadata,
    LossLandscape,
    Points,
    SummaryValue,
    Tensor,
    TrainInfo,
    UserDefinedInfo,
)
from tests.lineage.lineage_tree import write_tree
from tests.oracle.differential.graph_runs import write_graph_runs
from tests.reading.runs import values_at, write_lineage, write_summary

BEYOND, DAMAGED = "beyond_", "damaged_"
LINEAGE_ALONE = "lineage alone"
SEED = 24
_LINEAGE_RUNS = 30
_MINDSPORE_RUNS = Path(__file__).parents[1] / "mindspore_runs"
_LAST_MTIME = 1_720_000_000


def write_runs(base: Path) -> None:
    """Write everything below ``base``."""
    write_tree(base, _LINEAGE_RUNS, SEED)
    shutil.rmtree(base / "deep")  # the real one lists direct children only
    known = set(base.iterdir())
    for source in sorted(_MINDSPORE_RUNS.glob("momentum_*")):
        shutil.copytree(source, base / source.name)
    for write in (
        _scalars,
        _images,
        _histograms,
        _tensors,
        _landscapes,
        write_graph_runs,
        _several_files,
        _odd_orders,
        _damaged,
        _beyond,
    ):
        write(base, random.Random(SEED))
    for age, run in enumerate(sorted(set(base.iterdir()) - known)):
        for path in sorted(run.rglob("*")):
            seconds = _LAST_MTIME - 100 * age
            os.utime(path, ns=(seconds * 10**9, seconds * 10**9 + age * 1_234_000))


def _scalars(base: Path, chance: random.Random) -> None:
    special = [0.1, math.nan, math.inf, -math.inf, 3.4e38, 1e-45, -0.0, 0.0, 1.0, -1.5, 16777217.0]
    odd_tags = [
        "loss/auto",
        "a b",
        "точность",
        'x"y<z>&',
        "a/b/c",
        "scalar",
        "loss/scalar",
        "loss-x",
        "p" * 200,
        "?#%+",
    ]
    records = [
        values_at(step, {"special": value}, 1_700_000_000.123456 + step)
        for step, value in enumerate(special)
    ]
    records += [
        values_at(step, {tag: chance.random() for tag in odd_tags if chance.random() < 0.9})
        for step in range(1, 40)
    ]
    records += [
        values_at(step, {"steps": float(step % 7)})
        for step in (-(2**40), -3, 0, 5, 2**31, 2**40, 2**62)
    ]
    write_summary(base / "scalars", records)
    long = [
        values_at(step, {"loss/auto": 1 / (step + 1), "other": float(step)}) for step in range(250)
    ]
    write_summary(base / "many points", long)
    write_summary(base / "no values", [])
    (base / "no bytes").mkdir()
    (base / "no bytes" / "events.out.events.summary.1700000000.0.h_MS").touch()


def _images(base: Path, chance: random.Random) -> None:
    records = []
    for step in range(1, 11):
        pixels = np.random.default_rng(step).integers(
            0, 255, (chance.randrange(1, 9), 5, 3), np.uint8
        )
        values: dict[str, SummaryValue] = {}
        for name in ("PNG", "JPEG", "GIF", "BMP", "WEBP"):
            encoded = BytesIO()
            PIL.Image.fromarray(pixels).save(encoded, name)
            values[f"{name} image"] = Image(pixels.shape[0] * 2, 5, encoded.getvalue())
        values["no image"] = Image(0, 0, b"")
        values["loss"] = float(step)
        records.append(values_at(step, values))
    write_summary(base / "images", records)


def _histograms(base: Path, chance: random.Random) -> None:
    generator = np.random.default_rng(SEED)
    records = []
    for step in range(1, 51):
        values: dict[str, SummaryValue] = {}
        for index, count in enumerate((0, 1, 4, 9, 30, 250, 281, 5000)):
            values[f"normal {count}"] = _of(
                generator.normal(index, 1 + step / 10, count), chance.choice((1, 2, 10, 90))
            )
        values["constant"] = _of(np.full(20, 2.5), 3)
        values["sometimes empty"] = _of(generator.normal(0, 1, 50 if step % 3 else 0), 9)
        values["far away"] = _of(generator.normal(1e30, 1e28, 100), 20)
        values["random buckets"] = _random_buckets(generator, chance)
        records.append(values_at(step, values))
    odd: dict[str, SummaryValue] = {
        "no range": Histogram(np.array([0.0]), np.array([1.0]), np.array([3]), 3),
        "not finite range": Histogram(
            np.array([0.0]), np.array([1.0]), np.array([3]), 3, min=-math.inf, max=math.nan
        ),
        "upside down": Histogram(
            np.array([0.0]), np.array([1.0]), np.array([3]), 3, min=1.0, max=-1.0
        ),
        "zero width": Histogram(
            np.array([0.0, 1.0]), np.array([1.0, 0.0]), np.array([3, 2]), 5, min=0.0, max=1.0
        ),
        "negative count": Histogram(
            np.array([0.0, 1.0]), np.ones(2), np.array([5, -2]), 3, min=0.0, max=2.0
        ),
        "no bucket": Histogram(
            np.array([]), np.array([]), np.array([], np.int64), 0, min=1.0, max=2.0
        ),
    }
    records.append(values_at(51, odd))
    write_summary(base / "histograms", records)


def _of(data: np.ndarray, bins: int) -> Histogram:
    if not data.size:
        return Histogram(np.array([]), np.array([]), np.array([], np.int64), 0)
    counts, edges = np.histogram(data, bins)
    low, high = float(data.min()), float(data.max())
    return Histogram(
        edges[:-1], np.diff(edges), counts, data.size, min=low, max=high, sum=float(data.sum())
    )


def _random_buckets(generator: np.random.Generator, chance: random.Random) -> Histogram:
    count = chance.randrange(1, 90)
    lefts = generator.uniform(-5, 5, count)  # neither ordered nor adjacent
    counts = generator.integers(0, 20, count)
    return Histogram(
        lefts, generator.uniform(0, 2, count), counts, int(counts.sum()), min=-5.0, max=7.0
    )


def _tensors(base: Path, chance: random.Random) -> None:
    del chance
    generator = np.random.default_rng(SEED)
    records = []
    for step in range(1, 21):
        holed = generator.normal(0, 1, (4, 5)).astype(np.float32)
        holed.reshape(-1)[:3] = (math.nan, math.inf, -math.inf)
        values: dict[str, SummaryValue] = {
            "number": Tensor(np.array(step / 3, np.float32)),
            "vector": Tensor(generator.normal(0, 1, 7 + step).astype(np.float32)),
            "holed": Tensor(holed),
            "cube": Tensor(generator.integers(-3, 4, (2, 3, 4, 5)), DataType.INT64),
            "loss": float(step),
        }
        records.append(values_at(step, values))
    write_summary(base / "tensors", records)
    odd: dict[str, SummaryValue] = {
        "empty": Tensor(np.empty((0, 3), np.float32)),
        "nothing finite": Tensor(np.array([math.nan, math.inf], np.float32)),
        "bools": Tensor(np.array([[True, False], [True, True]])),
        "constant": Tensor(np.full((3, 3), 2.5, np.float32)),
        "wide": Tensor(generator.normal(0, 1, (400, 300)).astype(np.float32)),
        "halves": Tensor(np.array([1.5, -2.5], np.float16)),
    }
    write_summary(base / "odd tensors", [values_at(3, odd)])


def _landscapes(base: Path, chance: random.Random) -> None:
    generator = np.random.default_rng(chance.randrange(100))

    def landscape(intervals: tuple[int, ...]) -> LossLandscape:
        x, y = np.linspace(-1, 1, 4), np.linspace(-2, 2, 3)
        count = len(intervals)
        path = (
            Points(generator.random(count), generator.random(count), generator.random(count))
            if count
            else None
        )
        metadata = LandscapeMetadata(
            "PCA" if intervals else "Random", "epoch" if intervals else "step", 20
        )
        return LossLandscape(
            Points(x, y, generator.random((3, 4))), intervals, path, (0.1, 0.2, 0.3), metadata
        )

    both = {"landscape_[1, 2, 3]": landscape((1, 2, 3)), "landscape_[3]": landscape(())}
    write_summary(base / "landscapes", [values_at(0, both)])
    train = TrainInfo(
        network="LeNet", optimizer="SGD", learning_rate=0.05, loss=0.125, epoch=3, batch_size=32
    )
    write_lineage(
        base / "landscapes", [train, EvaluationInfo('{"acc": 0.75}'), UserDefinedInfo({"seed": 3})]
    )
    write_lineage(base / LINEAGE_ALONE, [train, EvaluationInfo('{"acc": 0.75}')])
    write_summary(
        base / "landscape without lineage", [values_at(0, {"landscape_[5, 9]": landscape((5, 9))})]
    )
    deep = Points(*(generator.random(shape) for shape in ((2, 1, 4), (3, 1), (1, 1, 3, 4))))
    deep_path = Points(*(generator.random(shape) for shape in ((2, 1), (1, 2), (2, 3))))
    odd = {
        "landscape_[1, 2]": LossLandscape(deep, (1, 2), deep_path),
        "landscape_[2]": LossLandscape(deep),
    }
    write_summary(base / "landscapes of other dimensions", [values_at(0, odd)])


def _several_files(base: Path, chance: random.Random) -> None:
    def part(first: int, last: int, offset: float, *tags: str) -> list[bytes]:
        return [
            values_at(step, {tag: offset + chance.random() for tag in tags})
            for step in range(first, last)
        ]

    write_summary(base / "resumed", part(0, 100, 0, "loss", "only first"), 1_700_000_000)
    write_summary(base / "resumed", part(60, 130, 10, "loss"), 1_700_000_500)
    write_summary(base / "resumed", part(120, 150, 20, "loss", "only last"), 1_700_001_000)
    write_summary(base / "same second", part(0, 50, 0, "loss"), 1_700_000_000, host="b")
    write_summary(base / "same second", part(20, 30, 10, "loss"), 1_700_000_000, host="a")
    write_summary(base / "digits", part(0, 50, 0, "loss"), 999_999_999)
    # as text it is the smaller one
    write_summary(base / "digits", part(20, 30, 10, "loss"), 1_000_000_000)
    histograms = [
        values_at(step, {"h": _of(np.arange(step + 1.0), 4), "s": 1.0}) for step in range(10)
    ]
    write_summary(base / "resumed histograms", histograms, 1_700_000_000)
    write_summary(base / "resumed histograms", histograms[4:6], 1_700_000_001)


def _odd_orders(base: Path, chance: random.Random) -> None:
    steps = [chance.randrange(50) for _ in range(120)]
    write_summary(
        base / "any order", [values_at(step, {"loss": chance.random()}) for step in steps]
    )
    same = [
        values_at(step // 3, {"loss": float(step), "h": _of(np.arange(5.0 + step), 3)})
        for step in range(60)
    ]
    write_summary(base / "same steps", same)


def _damaged(base: Path, chance: random.Random) -> None:
    del chance
    good = [values_at(step, {"loss": float(step)}) for step in range(20)]
    torn = write_summary(base / f"{DAMAGED}torn", good)
    torn.write_bytes(torn.read_bytes()[:-5])
    header = write_summary(base / f"{DAMAGED}torn header", good)
    header.write_bytes(header.read_bytes() + b"\x05\0\0")
    write_summary(base / f"{DAMAGED}torn then resumed", [*good, good[0][:-9]], 1_700_000_000)
    write_summary(base / f"{DAMAGED}torn then resumed", good[:3], 1_700_000_100)
    write_summary(
        base / f"{DAMAGED}no event", [*good[:10], b"".join(frame([b"\x0a\xff\xff"])), *good[10:]]
    )
    empty = bytes(16)
    write_summary(base / f"{DAMAGED}empty record", [*good[:10], empty, *good[10:]])
    flipped = bytearray(good[10])
    flipped[-6] ^= 0x40  # in the scalar's float: the checksum no longer fits
    write_summary(base / f"{DAMAGED}wrong checksum", [*good[:10], bytes(flipped), *good[11:]])
    misfit = Tensor(np.zeros((2, 3), np.float32))
    spoilt = values_at(30, {"t": misfit, "loss": 30.0}).replace(
        b"\x08\x02\x08\x03", b"\x08\x02\x08\x04"
    )
    payload = spoilt[12:-4]
    write_summary(base / f"{DAMAGED}tensor", [*good, b"".join(frame([payload]))])
    torn_lineage = write_lineage(base / f"{DAMAGED}lineage", [TrainInfo(network="LeNet")])
    torn_lineage.write_bytes(torn_lineage.read_bytes()[:-3])
    write_summary(base / f"{DAMAGED}lineage", good)
    (base / f"{DAMAGED}garbage").mkdir()
    (base / f"{DAMAGED}garbage" / "events.summary.5.x").write_bytes(
        random.Random(1).randbytes(5000)
    )


def _beyond(base: Path, chance: random.Random) -> None:
    write_summary(
        base / f"{BEYOND}points",
        [values_at(step, {"loss": chance.random()}) for step in range(1050)],
    )
    records = []
    for step in range(60):
        values: dict[str, SummaryValue] = {
            "h": _of(np.random.default_rng(step).normal(0, 1, 40), 8)
        }
        values |= {f"t{index}": Tensor(np.array([step, index], np.float32)) for index in range(8)}
        values["i"] = Image(1, 1, b"GIF89a" + bytes([step]))
        records.append(values_at(step, values))
    write_summary(base / f"{BEYOND}steps", records)
    write_summary(
        base / f"{BEYOND}tags", [values_at(1, {f"tag{index:03d}": 1.0 for index in range(320)})]
    )
    many = Histogram(np.arange(91.0), np.ones(91), np.ones(91, np.int64), 91, min=0.0, max=91.0)
    write_summary(base / f"{BEYOND}buckets", [values_at(1, {"many": many, "loss": 1.0})])
