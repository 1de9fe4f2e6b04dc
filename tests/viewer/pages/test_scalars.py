from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from mindsummary_lightning.viewer.api import ApiError
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from tests.reading.runs import histogram, values_at, write_summary
from tests.viewer.pages.asking import ask


def test_values_that_are_not_finite_are_null(tmp_path: Path) -> None:
    values = (0.1, math.nan, math.inf, -math.inf)
    write_summary(
        tmp_path / "a", [values_at(step, {"x": value}, 5.25) for step, value in enumerate(values)]
    )

    answer = ask(
        LoadedRuns(str(tmp_path)), "datavisual/scalar/metadata", train_id="./a", tag="x/scalar"
    )

    assert answer["metadatas"][0] == {"step": 0, "value": 0.10000000149011612, "wall_time": 5.25}
    assert [point["value"] for point in answer["metadatas"][1:]] == [None, None, None]


def test_a_long_curve_is_thinned_and_keeps_its_ends_and_a_spike(tmp_path: Path) -> None:
    records = [
        values_at(step, {"x": 100.0 if step == 7777 else float(step % 10)})
        for step in range(12_000)
    ]
    write_summary(tmp_path / "a", records)

    answer = ask(
        LoadedRuns(str(tmp_path)), "datavisual/scalar/metadata", train_id="./a", tag="x/scalar"
    )
    points = answer["metadatas"]

    assert len(points) == 5000
    assert (points[0]["step"], points[-1]["step"]) == (0, 11_999)
    assert 100.0 in [point["value"] for point in points]
    assert abs(np.mean([point["value"] for point in points]) - 4.5) < 0.1


def test_a_comparison_skips_runs_and_tags_that_do_not_exist(tmp_path: Path) -> None:
    for run, value in (("a", 1.0), ("b", 2.0)):
        write_summary(tmp_path / run, [values_at(0, {"x": value})])

    answer = ask(
        LoadedRuns(str(tmp_path)),
        "datavisual/scalars",
        train_id=["./b", "./nothing", "./a"],
        tag=["y/scalar", "x/scalar"],
    )

    time = {"step": 0, "wall_time": 1_700_000_000.0}
    assert answer["scalars"] == [
        {"train_id": "./b", "tag": "x/scalar", "values": [{**time, "value": 2.0}]},
        {"train_id": "./a", "tag": "x/scalar", "values": [{**time, "value": 1.0}]},
    ]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({}, "50540003"),
        ({"train_id": "./a"}, "50540003"),
        ({"train_id": "./b", "tag": "x/scalar"}, "50545005"),
        ({"train_id": "./a", "tag": "x"}, "5054500E"),
        ({"train_id": "./a", "tag": "h/histogram"}, "50540001"),
    ],
)
def test_a_wrong_request_is_refused_with_the_code_of_mindinsight(
    tmp_path: Path, query: dict[str, str], code: str
) -> None:
    write_summary(tmp_path / "a", [values_at(0, {"x": 1.0, "h": histogram(1)})])

    with pytest.raises(ApiError) as refused:
        ask(LoadedRuns(str(tmp_path)), "datavisual/scalar/metadata", **query)

    assert refused.value.code == code
