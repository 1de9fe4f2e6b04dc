"""The table of docs/reference/tensorboard.md.

Each row is a value that passes export and import, with the result that the table states.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

pytest.importorskip("tensorboard")

from tensorboard.compat.proto.event_pb2 import Event as TensorBoardEvent
from tensorboard.compat.proto.summary_pb2 import Summary

from mindsummary_lightning.conversion.histograms import to_histogram
from mindsummary_lightning.export.tensorboard import export_tensorboard, import_tensorboard
from mindsummary_lightning.fileformat.framing import frame
from mindsummary_lightning.values import (
    DatasetGraph,
    EvaluationInfo,
    Event,
    Graph,
    GraphNode,
    Image,
    LossLandscape,
    Points,
    Tensor,
    TrainInfo,
    UserDefinedInfo,
)
from mindsummary_lightning.values.events import LineageValue
from tests.docs.pages import ROOT
from tests.export.tensorboard_files import (
    event,
    histogram_value,
    settings_value,
    tensor_value,
    write_tb,
)
from tests.reading.runs import record, values_at, write_lineage, write_summary

Recorded: TypeAlias = "tuple[Sequence[bytes], Sequence[LineageValue]]"

NAN, INF = math.nan, math.inf


def _rows() -> Iterator[tuple[str, str, str]]:
    page = (ROOT / "docs" / "reference" / "tensorboard.md").read_text(encoding="utf-8")
    _, _, table = page.partition(
        "| what | to TensorBoard and back | from TensorBoard |\n|---|---|---|\n"
    )
    for line in table.partition("\n\n")[0].splitlines():
        what, back, into = (cell.strip() for cell in line.strip("|").split("|"))
        yield what, back, into


ROWS = list(_rows())


def _run(*pairs: tuple[str, Any], lineage: Sequence[LineageValue] = ()) -> Recorded:
    """A value per step."""
    return [values_at(step, dict([pair])) for step, pair in enumerate(pairs)], lineage


def _histogram(*elements: float) -> Recorded:
    return _run(("h", to_histogram(np.array(elements, np.float32))))


def _at_times(*wall_times: float, steps: Sequence[int] = (1, 1)) -> Recorded:
    return [
        values_at(step, {f"tag {time}": 1.0}, time)
        for step, time in zip(steps, wall_times, strict=True)
    ], ()


# What each row's value is: recorded in a run, and written to an event file.
RECORDED: dict[str, Recorded] = {
    "scalars, NaN and infinities among them": _run(("a", 0.5), ("a", NAN), ("b", INF), ("b", -INF)),
    "images": _run(("i", Image(4, 5, b"\x89PNG bytes")), ("i", Image(1, 1, b"GIF8", 1))),
    "histograms": _histogram(*range(1000)),
    "NaN in histograms": _histogram(1.0, NAN, 2.0),
    "infinities in histograms": _histogram(1.0, INF, 2.0),
    "histograms without a finite element": _histogram(NAN, NAN),
    "tensors and their types": _run(
        ("t", Tensor(np.eye(2, dtype=np.float16))), ("t", Tensor(np.array(True)))
    ),
    "tensors with float64 or large integers": _run(
        ("t", Tensor(np.array([2**40]))), ("d", Tensor(np.array([0.1])))
    ),
    "tensors with elements that are not of their type": _run(("t", Tensor(np.array([1e20]), 4))),  # type: ignore[arg-type]
    "one tag for several kinds, or an empty tag": _run(("w", 1.0), ("w", Tensor(np.ones(2)))),
    "wall times, in milliseconds too": _at_times(1.7e9 + 0.125, 1.7e12, steps=(1, 2)),
    "wall times of neighbouring values of one step": _at_times(5.0, 5.5),
    "wall times that are not finite": _at_times(5.0, NAN),
    "settings that are numbers or texts": _run(
        lineage=[UserDefinedInfo({"lr": 0.1, "n": 3, "name": "net", "big": 1e20})]
    ),
    "settings that are whole numbers beyond 2^53": _run(
        lineage=[UserDefinedInfo({"seed": 2**53 + 1})]
    ),
    "settings that are true, false, NaN or infinite": _run(lineage=[UserDefinedInfo({"x": NAN})]),
    "graphs": (
        [record(Event(1.0, 0, Graph((GraphNode("1", "ReLU", "net", "net/ReLU-op1"),))))],
        (),
    ),
    "data pipelines, evaluation, loss landscapes, results in the lineage": _run(
        ("l", LossLandscape(Points([0.0], [0.0], [[0.0]]))),  # type: ignore[arg-type]
        lineage=[
            DatasetGraph({"op_type": "Batch"}),
            EvaluationInfo('{"acc": 0.5}'),
            TrainInfo(loss=0.5),
        ],
    ),
}
PNG = np.array([b"5", b"4", b"first", b"second"], object)
FOREIGN: dict[str, list[TensorBoardEvent]] = {
    "scalars, NaN and infinities among them": [
        event(
            1,
            Summary.Value(tag="a", simple_value=NAN),
            tensor_value("b", np.float32(INF), "scalars"),
        )
    ],
    "scalars of float64": [event(1, tensor_value("a", np.float64(0.1), "scalars"))],
    "scalars beyond float32": [event(1, tensor_value("a", np.float64(1e300), "scalars"))],
    "images": [event(1, tensor_value("i", PNG, "images"))],
    "histograms": [
        event(
            1,
            tensor_value(
                "h", np.array([[0.0, 1.0, 3.0], [1.0, 2.0, 0.0], [2.0, 3.0, 2.0]]), "histograms"
            ),
        )
    ],
    "histograms of more than 90 buckets": [
        event(
            1,
            histogram_value(
                "h", [*map(float, range(100))], [0.0, *[1.0] * 99], min=0, max=99, num=99, sum=9.0
            ),
        )
    ],
    "NaN in histograms": [
        event(1, histogram_value("h", [0.0, 1.0], [0.0, 3.0], min=NAN, max=NAN, num=5, sum=NAN))
    ],
    "infinities in histograms": [
        event(1, histogram_value("h", [0.0, 1.0], [0.0, 3.0], min=0, max=INF, num=5, sum=INF))
    ],
    "histograms without a finite element": [
        event(1, tensor_value("h", np.array([[NAN, NAN, 0.0]] * 30), "histograms"))
    ],
    "tensors and their types": [event(1, tensor_value("t", np.array([1, 2], np.int16)))],
    "tensors with float64 or large integers": [
        event(1, tensor_value("t", np.array([0.1])), tensor_value("u", [2**24 + 1]))
    ],
    "tensors of more than 10,000,000 elements": [event(1, tensor_value("t", np.zeros(1)))],
    "values without a tag": [event(1, Summary.Value(simple_value=1.0))],
    "wall times, in milliseconds too": [
        event(1, Summary.Value(tag="a", simple_value=1.0), wall_time=1.7e12)
    ],
    "wall times of neighbouring values of one step": [
        event(1, Summary.Value(tag=str(time), simple_value=1.0), wall_time=time)
        for time in (5.0, 5.5)
    ],
    "wall times that are not finite": [
        event(1, Summary.Value(tag="a", simple_value=1.0), wall_time=NAN)
    ],
    (
        "two values of a tag at one step, files that go back to earlier steps, what a "
        "`purge_step` takes back"
    ): [event(1, Summary.Value(tag="a", simple_value=value)) for value in (1.0, 2.0)],
    "settings that are numbers or texts": [
        event(0, settings_value({"lr": 0.1, "n": 3.0, "name": "net", "big": 1e20}))
    ],
    "settings that are true, false, NaN or infinite": [
        event(0, settings_value({"flag": True, "x": NAN}))
    ],
    "graphs": [TensorBoardEvent(step=0, wall_time=1.0, graph_def=b"graph")],
    "text, audio, meshes, embeddings, curves": [
        event(
            1,
            *(
                tensor_value(name, np.zeros(2), name)
                for name in ("text", "audio", "mesh", "pr_curves")
            ),
        )
    ],
    "damaged records": [event(1, Summary.Value(tag="a", simple_value=1.0))],
}
FOREIGN["tensors of more than 10,000,000 elements"][0].summary.value[0].tensor.tensor_shape.dim[
    0
].size = 10_000_001


def _verdict(changed: object, left_out: object) -> str:
    return "changes" if changed else "left out" if left_out else "equal"


@pytest.mark.parametrize(("what", "back", "into"), ROWS, ids=[row[0] for row in ROWS])
def test_a_row_says_what_the_doors_do(tmp_path: Path, what: str, back: str, into: str) -> None:
    if what in RECORDED:
        records, lineage = RECORDED[what]
        write_summary(tmp_path / "run", records)
        write_lineage(tmp_path / "run", lineage)
        exported = export_tensorboard(str(tmp_path / "run"), str(tmp_path / "tb"))
        (run,) = import_tensorboard(str(tmp_path / "tb"), str(tmp_path / "back"))
        assert not run.problems
        verdict = _verdict(
            {**exported.changed, **run.changed}, {**exported.skipped, **run.skipped, **run.dropped}
        )
        assert back.startswith(verdict)
    else:
        assert back == "–" or what == "damaged records"
    if what in FOREIGN:
        path = write_tb(tmp_path / "foreign", *FOREIGN[what])
        if what == "damaged records":
            path.write_bytes(path.read_bytes() + b"".join(frame([b"\xff"])))
        (run,) = import_tensorboard(str(tmp_path / "foreign"), str(tmp_path / "imported"))
        assert into.startswith(_verdict(run.changed, run.skipped + run.problems + run.dropped))
    else:
        assert into == "–"
    assert what in {**RECORDED, **FOREIGN}


def test_the_table_has_every_value_that_is_tried() -> None:
    assert {what for what, _, _ in ROWS} == {*RECORDED, *FOREIGN}
