"""Runs that are damaged at random, and every page of a run that a viewer can be asked for."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from mindsummary_lightning.fileformat.framing import frame
from mindsummary_lightning.values import Graph, GraphNode, Image, SummaryValue, Tensor
from mindsummary_lightning.values.events import Event
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from tests.reading.runs import histogram, record, values_at, write_summary

MINDSPORE_RUNS = Path(__file__).parents[1] / "oracle" / "mindspore_runs"


def page_requests(runs: LoadedRuns, train_id: str) -> Iterator[tuple[str, dict[str, list[str]]]]:
    run = {"train_id": [train_id]}
    yield "datavisual/train-jobs", run
    yield "datavisual/plugins", {**run, "manual_update": ["true"]}
    yield "datasets/dataset_graph", run
    yield "datavisual/landscape/intervals", run
    for kind in ("interval", "final"):
        yield "datavisual/landscape/landscapes", {**run, "type": [kind]}
    runs.run(train_id)
    summary = runs.summary(train_id)
    tags = summary.tags if summary is not None else {}
    for shown in tags.get("scalar", ()):
        yield "datavisual/scalar/metadata", {**run, "tag": [shown]}
        yield "datavisual/scalars", {**run, "tag": [shown]}
    for shown in tags.get("image", ()):
        yield "datavisual/image/metadata", {**run, "tag": [shown]}
        yield "datavisual/image/single-image", {**run, "tag": [shown], "step": ["-1"]}
    for shown in (*tags.get("histogram", ()), *tags.get("tensor", ())):
        yield "datavisual/histograms", {**run, "tag": [shown]}
    for shown in tags.get("tensor", ()):
        for detail in ("stats", "histogram"):
            yield "datavisual/tensors", {**run, "tag": [shown], "detail": [detail]}
        yield (
            "datavisual/tensors",
            {**run, "tag": [shown], "detail": ["data"], "step": ["3"], "dims": ["[:,:]"]},
        )
    for plugin, mode in (("graph", "normal"), ("optimized_graph", "optimize")):
        for shown in tags.get(plugin, ()):
            for path in ("nodes", "nodes/names", "nodes/all"):
                yield (
                    f"datavisual/graphs/{path}",
                    {**run, "tag": [shown], "mode": [mode], "search": ["o"]},
                )


def write_damaged_run(run: Path, chance: random.Random) -> None:
    """A run with one to five damages; what links in it lead to lies beside its parent directory."""
    if chance.random() < 0.5:
        shutil.copytree(chance.choice(sorted(MINDSPORE_RUNS.glob("momentum_*"))), run)
    else:
        picture, tensor = Image(2, 2, b"\x89PNG\r\n\x1a\n"), Tensor(np.arange(6).reshape(2, 3))
        values: dict[str, SummaryValue] = {
            "loss": 0.5,
            "h": histogram(1, 2, 3),
            "i": picture,
            "t": tensor,
        }
        graph = record(Event(1.0, 0, Graph((GraphNode("1", "ReLU"), GraphNode("2", "Add")))))
        write_summary(run, [graph, *(values_at(step, values) for step in range(5))])
    for _ in range(chance.choice((1, 1, 2, 5))):
        chance.choice(_DAMAGES)(run, chance)


def _cut(run: Path, chance: random.Random) -> None:
    path = _file(run, chance)
    path.write_bytes(path.read_bytes()[: chance.randrange(path.stat().st_size + 1)])


def _flip(run: Path, chance: random.Random) -> None:
    def flip(content: bytearray) -> None:
        for _ in range(chance.choice((1, 3, 30))):
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)

    _change(run, chance, flip)


def _blank(run: Path, chance: random.Random) -> None:
    def blank(content: bytearray) -> None:
        start = chance.randrange(len(content))
        end = min(start + chance.choice((4, 100, 4096)), len(content))
        content[start:end] = bytes(end - start)

    _change(run, chance, blank)


def _insert(run: Path, chance: random.Random) -> None:
    def insert(content: bytearray) -> None:
        at = chance.randrange(len(content))
        content[at:at] = chance.randbytes(chance.choice((1, 16, 5000)))

    _change(run, chance, insert)


def _damage_a_payload(run: Path, chance: random.Random) -> None:
    """Change a payload and make its checksums right again, so that it is believed."""
    path = _file(run, chance)
    content, at, records = path.read_bytes(), 0, []
    while at + 16 <= len(content):
        length = int.from_bytes(content[at : at + 8], "little")
        records.append(bytearray(content[at + 12 : at + 12 + length]))
        at += length + 16
    for payload in chance.sample(records, min(len(records), chance.choice((1, 2, 9)))):
        if payload:
            payload[chance.randrange(len(payload))] = chance.randrange(256)
    path.write_bytes(
        b"".join(
            bytes(piece) for payload in records if payload for piece in frame([bytes(payload)])
        )
    )


def _empty(run: Path, chance: random.Random) -> None:
    _file(run, chance).write_bytes(b"")


def _garbage(run: Path, chance: random.Random) -> None:
    name = chance.choice(
        (
            "x.pb",
            "events.summary.7.h_MS",
            "events.summary.99999999999999999999.h",
            "summary.1_lineage",
        )
    )
    (run / name).write_bytes(chance.randbytes(chance.choice((0, 3, 500))))


def _directory(run: Path, chance: random.Random) -> None:
    (run / chance.choice(("events.summary.8.h_MS", "y.pb", "events.summary.8.h_lineage"))).mkdir(
        exist_ok=True
    )


def _link(run: Path, chance: random.Random) -> None:
    link = run / chance.choice(("events.summary.9.h_MS", "z.pb"))
    if not link.is_symlink():
        link.symlink_to(chance.choice((run, run / "nothing", link, Path("/etc/hostname"))))


def _twice(run: Path, chance: random.Random) -> None:
    path = _file(run, chance)
    path.write_bytes(path.read_bytes() * 2)


def _replace(run: Path, chance: random.Random) -> None:
    """Put a directory, a FIFO, a link to the secret or a giant length in place of a file, but the
    last.
    """
    files = sorted(path for path in run.iterdir() if path.is_file() and not path.is_symlink())
    if len(files) > 1:
        path = chance.choice(files)
        path.unlink()
        giant = (2**63 - 1).to_bytes(8, "little") + bytes(500)
        link, write = (
            lambda at: at.symlink_to(run.parents[1] / "secret"),
            lambda at: at.write_bytes(giant),
        )
        chance.choice((Path.mkdir, os.mkfifo, link, write))(path)


def _change(run: Path, chance: random.Random, change: Callable[[bytearray], None]) -> None:
    path = _file(run, chance)
    content = bytearray(path.read_bytes())
    if content:
        change(content)
        path.write_bytes(content)


def _file(run: Path, chance: random.Random) -> Path:
    return chance.choice(
        sorted(path for path in run.iterdir() if path.is_file() and not path.is_symlink())
    )


_DAMAGES = (
    *(_cut, _flip, _flip, _blank, _insert, _damage_a_payload, _damage_a_payload, _damage_a_payload),
    *(_empty, _garbage, _directory, _link, _twice, _replace, _replace),
)
