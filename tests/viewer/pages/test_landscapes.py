from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mindsummary_lightning.fileformat._proto import summary_pb2
from mindsummary_lightning.fileformat.framing import HEADER_SIZE, OVERHEAD, frame
from mindsummary_lightning.values import (
    EvaluationInfo,
    LandscapeMetadata,
    LossLandscape,
    Points,
    TrainInfo,
)
from tests.reading.runs import values_at, write_lineage, write_summary
from tests.viewer.pages.site import Site

P = "datavisual/landscape"


def landscape(*intervals: int) -> LossLandscape:
    count = len(intervals)
    path = Points(np.arange(count), np.arange(count), np.arange(count)) if count else None
    surface = Points(np.array([0.0, 1.0]), np.array([0.0, 1.0, 2.0]), np.arange(6.0).reshape(3, 2))
    return LossLandscape(
        surface, intervals, path, (0.5, 0.25, 0.125), LandscapeMetadata("PCA", "step", 20)
    )


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """``./run`` with three intervals, a final landscape and lineage; ``./other`` with one interval;
    ``./plain``.
    """
    values = {
        f"landscape_{list(steps)}": landscape(*steps)
        for steps in ((6, 10), (10, 14), (1, 3, 5), ())
    }
    write_summary(tmp_path / "run", [values_at(0, values)])
    train = TrainInfo(network="LeNet", optimizer="SGD", learning_rate=0.05, loss=0.125)
    write_lineage(tmp_path / "run", [train, EvaluationInfo('{"acc": 0.75}')])
    write_summary(tmp_path / "other", [values_at(0, {"landscape_[1, 2]": landscape(1, 2)})])
    write_summary(tmp_path / "plain", [values_at(0, {"loss": 1.0})])
    return Site(tmp_path)


def shown(site: Site, query: str) -> Any:
    (one,) = site.get(f"{P}/landscapes?{query}")["landscapes"]
    return one


def test_intervals_are_listed_by_their_first_step(site: Site) -> None:
    intervals = site.get(f"{P}/intervals?train_id=./run")["intervals"]

    assert [interval["value"] for interval in intervals] == [[1, 5], [6, 10], [10, 14]]


def test_an_interval_is_shown_with_its_path_and_the_lineage_of_its_run(site: Site) -> None:
    interval = site.get(f"{P}/intervals?train_id=./run")["intervals"][0]["id"]

    assert shown(site, f"train_id=./run&type=interval&interval_id={interval}") == {
        "train_id": "./run",
        "points": {
            "x": [0.0, 1.0],
            "y": [0.0, 1.0, 2.0],
            "z": [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]],
        },
        "path": {
            "intervals": [1, 3, 5],
            "x": [0.0, 1.0, 2.0],
            "y": [0.0, 1.0, 2.0],
            "z": [0.0, 1.0, 2.0],
        },
        "convergence_point": [0.5, 0.25, 0.125],
        "metadata": {
            "decomposition": "PCA",
            "unit": "step",
            "step_per_epoch": 20,
            "network": "LeNet",
            "optimizer": "SGD",
            "learning_rate": "5.000000e-02",
            "metric": {"acc": 0.75},
            "loss": "1.250000e-01",
        },
    }


def test_a_final_landscape_has_no_path_and_a_run_without_lineage_has_no_loss(site: Site) -> None:
    assert "path" not in shown(site, "train_id=./run&type=final")
    interval = site.get(f"{P}/intervals?train_id=./other")["intervals"][0]["id"]
    metadata = shown(site, f"train_id=./other&interval_id={interval}")["metadata"]
    assert (metadata["network"], metadata["metric"], "loss" in metadata) == (None, {}, False)


def test_what_was_not_recorded_of_a_landscape_is_zero_or_missing(tmp_path: Path) -> None:
    write_summary(
        tmp_path / "run", [values_at(0, {"final": replace(landscape(), convergence_point=None)})]
    )
    write_lineage(tmp_path / "run", [TrainInfo(network="LeNet", loss=math.nan)])

    answer = shown(Site(tmp_path), "train_id=./run&type=final")

    assert answer["convergence_point"] == [0, 0, 0]
    training = {"network": "LeNet", "optimizer": None, "learning_rate": None, "metric": {}}
    assert answer["metadata"].items() >= {**training, "loss": "NaN"}.items()


def test_the_same_interval_has_the_same_id_after_a_restart(site: Site) -> None:
    again = Site(Path(site.runs.base_dir))

    assert again.get(f"{P}/intervals?train_id=./run") == site.get(f"{P}/intervals?train_id=./run")


def test_several_runs_are_compared_and_each_may_lack_a_landscape(site: Site) -> None:
    answer = site.get(f"{P}/landscapes?train_id=./run&train_id=./plain&train_id=run&type=final")[
        "landscapes"
    ]

    assert [row.get("error_code") for row in answer] == [None, "50545017", "50540002"]
    assert [row["train_id"] for row in answer] == ["./run", "./plain", "run"]
    for query in ("train_id=./other&type=final", "train_id=./run&interval_id=x"):
        assert shown(site, query)["error_code"] == "50545017"
    interval = site.get(f"{P}/intervals?train_id=./run")["intervals"][2]["id"]
    for kind in ("final", "other"):
        answer = shown(site, f"train_id=./run&interval_id={interval}&type={kind}")
        assert "path" not in answer
    assert shown(site, f"train_id=./run&interval_id={interval}")["path"]["intervals"] == [10, 14]
    assert site.get(f"{P}/landscapes?type=final") == {"landscapes": []}


def test_unknown_runs_are_refused(site: Site) -> None:
    assert site.get(f"{P}/intervals?train_id=./nothing") == (400, "50545005")
    assert site.get(f"{P}/landscapes?train_id=./run&train_id=./nothing") == (400, "50545005")
    assert site.get(f"{P}/intervals") == (400, "50540003")


def test_a_landscape_of_any_dimensions_is_listed_and_answered_as_nested_lists(
    tmp_path: Path,
) -> None:
    message = summary_pb2.Event.FromString(_payload(values_at(0, {"other": landscape(1, 2)})))
    stored = message.summary.value[0].loss_landscape
    stored.landscape.x.dims[:] = [1, 2]
    stored.landscape.z.dims[:] = [1, 3, 2]
    stored.loss_path.points.y.dims[:] = [2, 1]
    stored.convergence_point.z.dims[:] = [1, 1]
    write_summary(tmp_path / "run", [b"".join(frame([message.SerializeToString()]))])
    site = Site(tmp_path)

    assert site.get("datavisual/plugins?train_id=./run")["plugins"]["loss_landscape"] == [
        "other/loss_landscape"
    ]
    (interval,) = site.get(f"{P}/intervals?train_id=./run")["intervals"]
    answer = shown(site, f"train_id=./run&interval_id={interval['id']}")
    assert answer["points"] == {"x": [[0, 1]], "y": [0, 1, 2], "z": [[[0, 1], [2, 3], [4, 5]]]}
    assert answer["path"] == {"intervals": [1, 2], "x": [0, 1], "y": [[0], [1]], "z": [0, 1]}
    assert answer["convergence_point"] == [0.5, 0.25, [0.125]]


def test_a_landscape_that_cannot_be_read_is_neither_listed_nor_answered(tmp_path: Path) -> None:
    message = summary_pb2.Event.FromString(_payload(values_at(0, {"whole": landscape(1, 2)})))
    message.summary.value.add().CopyFrom(message.summary.value[0])
    message.summary.value[1].tag = "other"
    message.summary.value[1].loss_landscape.landscape.x.dims[:] = [1, 7]
    write_summary(tmp_path / "run", [b"".join(frame([message.SerializeToString()]))])
    site = Site(tmp_path)

    assert site.get("datavisual/plugins?train_id=./run")["plugins"]["loss_landscape"] == [
        "whole/loss_landscape"
    ]
    assert len(site.get(f"{P}/intervals?train_id=./run")["intervals"]) == 1


def _payload(record: bytes) -> bytes:
    return record[HEADER_SIZE : len(record) - OVERHEAD + HEADER_SIZE]
