"""A thousand damaged run directories behind the viewer: every page of each answers, or refuses as MindInsight does."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mindsummary_lightning.fileformat.framing import frame
from mindsummary_lightning.values import Graph, GraphNode, Image, SummaryValue, Tensor
from mindsummary_lightning.values.events import Event
from mindsummary_lightning.viewer.api import ApiError, ApiRequest
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.pages import page_handlers
from tests.reading.runs import histogram, record, values_at, write_summary

VARIANTS, BATCHES = 1_000, 10
MINDSPORE_RUNS = Path(__file__).parents[1] / "oracle" / "mindspore_runs"
ALL_RUNS = ("lineagemgr/lineages", "optimizer/targets/search")


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, BATCHES))])
@pytest.mark.slow
def test_every_page_of_a_damaged_run_answers(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    for number in range(VARIANTS // BATCHES):
        run = tmp_path / f"run{number}"
        _write_whole_run(run, chance)
        for _ in range(chance.choice((1, 1, 2, 5))):
            chance.choice(DAMAGES)(run, chance)
    runs = LoadedRuns(str(tmp_path))
    handlers = page_handlers()
    listed = runs.listing()
    assert len(listed) > VARIANTS // BATCHES // 2

    for run in listed:
        for path, query in page_requests(runs, run.train_id):
            _answer(handlers[f"GET {path}"], runs, ApiRequest(query))
    for path in ALL_RUNS:
        _answer(handlers[f"POST {path}"], runs, ApiRequest({}, b"{}", "application/json"))


def _answer(handler: Callable[[LoadedRuns, ApiRequest], Any], runs: LoadedRuns, request: ApiRequest) -> None:
    with suppress(ApiError):  # any other error would be a 500
        json.dumps(handler(runs, request), default=lambda image: image.content_type)


def page_requests(runs: LoadedRuns, train_id: str) -> Iterator[tuple[str, dict[str, list[str]]]]:
    run = {"train_id": [train_id]}
    yield "datavisual/train-jobs", run
    yield "datavisual/plugins", {**run, "manual_update": ["true"]}
    yield "datasets/dataset_graph", run
    yield "datavisual/landscape/intervals", run
    for kind in ("interval", "final"):
        yield "datavisual/landscape/landscapes", {**run, "type": [kind]}
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
        yield "datavisual/tensors", {**run, "tag": [shown], "detail": ["data"], "step": ["3"], "dims": ["[:,:]"]}
    for plugin, mode in (("graph", "normal"), ("optimized_graph", "optimize")):
        for shown in tags.get(plugin, ()):
            for path in ("nodes", "nodes/names", "nodes/all"):
                yield f"datavisual/graphs/{path}", {**run, "tag": [shown], "mode": [mode], "search": ["o"]}


def _write_whole_run(run: Path, chance: random.Random) -> None:
    if chance.random() < 0.5:
        shutil.copytree(chance.choice(sorted(MINDSPORE_RUNS.glob("momentum_*"))), run)
        return
    values: dict[str, SummaryValue] = {
        "loss": 0.5,
        "h": histogram(1, 2, 3),
        "i": Image(2, 2, b"\x89PNG\r\n\x1a\n"),
        "t": Tensor(np.arange(6).reshape(2, 3)),
    }
    graph = record(Event(1.0, 0, Graph((GraphNode("1", "ReLU"), GraphNode("2", "Add")))))
    write_summary(run, [graph, *(values_at(step, values) for step in range(5))])


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
    path.write_bytes(b"".join(bytes(piece) for payload in records if payload for piece in frame([bytes(payload)])))


def _empty(run: Path, chance: random.Random) -> None:
    _file(run, chance).write_bytes(b"")


def _garbage(run: Path, chance: random.Random) -> None:
    name = chance.choice(
        ("x.pb", "events.summary.7.h_MS", "events.summary.99999999999999999999.h", "summary.1_lineage")
    )
    (run / name).write_bytes(chance.randbytes(chance.choice((0, 3, 500))))


def _directory(run: Path, chance: random.Random) -> None:
    (run / chance.choice(("events.summary.8.h_MS", "y.pb", "events.summary.8.h_lineage"))).mkdir(exist_ok=True)


def _link(run: Path, chance: random.Random) -> None:
    link = run / chance.choice(("events.summary.9.h_MS", "z.pb"))
    if not link.is_symlink():
        link.symlink_to(chance.choice((run, run / "nothing", link, Path("/etc/hostname"))))


def _twice(run: Path, chance: random.Random) -> None:
    path = _file(run, chance)
    path.write_bytes(path.read_bytes() * 2)


def _change(run: Path, chance: random.Random, change: Callable[[bytearray], None]) -> None:
    path = _file(run, chance)
    content = bytearray(path.read_bytes())
    if content:
        change(content)
        path.write_bytes(content)


def _file(run: Path, chance: random.Random) -> Path:
    return chance.choice(sorted(path for path in run.iterdir() if path.is_file() and not path.is_symlink()))


DAMAGES = (
    *(_cut, _flip, _flip, _blank, _insert, _damage_a_payload, _damage_a_payload, _damage_a_payload),
    *(_empty, _garbage, _directory, _link, _twice),
)
