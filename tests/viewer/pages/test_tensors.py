from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mindsummary_lightning.values import Tensor
from mindsummary_lightning.viewer.api import ApiError
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.pages import tensors as tensor_values
from tests.reading.runs import values_at, write_summary
from tests.viewer.pages.asking import ask


def asked(base: Path, tensor: np.ndarray, **query: str) -> Any:
    if not (base / "a").exists():
        write_summary(base / "a", [values_at(3, {"t": Tensor(tensor)})])
    answer = ask(
        LoadedRuns(str(base)), "datavisual/tensors", train_id="./a", tag="t/tensor", **query
    )
    return answer["tensors"][0]["values"]


def test_statistics_are_those_of_the_finite_elements(tmp_path: Path) -> None:
    tensor = np.array([1.0, -2.0, 0.0, np.nan, np.inf, -np.inf], np.float32)

    (sample,) = asked(tmp_path, tensor, detail="stats")

    assert (sample["step"], sample["value"]["dims"], sample["value"]["data_type"]) == (
        3,
        (6,),
        "DT_FLOAT32",
    )
    shown = sample["value"]["statistics"]
    assert (shown["max"], shown["min"], shown["avg"], shown["count"], shown["nan_count"]) == (
        1.0,
        -2.0,
        -1 / 3,
        6,
        1,
    )
    assert (
        shown["overall_zero_count"],
        shown["overall_neg_zero_count"],
        shown["overall_pos_zero_count"],
    ) == (1, 1, 1)
    assert "zero_count" not in shown


def test_a_slice_holds_its_numbers_and_their_statistics(tmp_path: Path) -> None:
    tensor = np.arange(12, dtype=np.float32).reshape(3, 4)

    (sample,) = asked(tmp_path, tensor, detail="data", step="3", dims="[-1, 1:3]")

    assert sample["value"]["data"] == [9.0, 10.0]
    assert (sample["value"]["statistics"]["max"], sample["value"]["statistics"]["overall_max"]) == (
        10.0,
        11.0,
    )


def test_numbers_that_are_not_finite_are_texts(tmp_path: Path) -> None:
    tensor = np.array([[1.0, np.nan], [np.inf, -np.inf]], np.float32)

    (sample,) = asked(tmp_path, tensor, detail="data", step="3", dims="[:,:]")

    assert sample["value"]["data"] == [[1.0, "NAN"], ["INF", "-INF"]]


def test_histograms_of_tensors_are_the_same_on_both_pages(tmp_path: Path) -> None:
    tensor = np.array([1.0, 2.0, 4.0, 5.0], np.float32)

    (sample,) = asked(tmp_path, tensor, detail="histogram")
    page = ask(LoadedRuns(str(tmp_path)), "datavisual/histograms", train_id="./a", tag="t/tensor")

    assert sample["value"]["histogram_buckets"] == [(1.0, 2.0, 2), (3.0, 2.0, 2)]
    assert page["histograms"][0]["buckets"] == sample["value"]["histogram_buckets"]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"detail": "data", "dims": "[:]"}, "50540003"),
        ({"detail": "data", "step": "3"}, "50540003"),
        ({"detail": "data", "step": "x", "dims": "0"}, "50540002"),
        ({"detail": "data", "step": "x", "dims": "[0]"}, "50540001"),
        ({"detail": "data", "step": "4", "dims": "[0]"}, "50545014"),
        ({"detail": "data", "step": "3", "dims": "[0,0]"}, "50540002"),
        ({"detail": "data", "step": "3", "dims": "[9]"}, "50540002"),
        ({"detail": "data", "step": "3", "dims": "[::0]"}, "50540002"),
        ({"detail": "zz"}, "50540002"),
    ],
)
def test_a_wrong_request_is_refused_with_the_code_of_mindinsight(
    tmp_path: Path, query: dict[str, str], code: str
) -> None:
    with pytest.raises(ApiError) as refused:
        asked(tmp_path, np.zeros(3, np.float32), **query)

    assert refused.value.code == code


def test_more_numbers_than_a_page_shows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ApiError) as refused:
        asked(tmp_path, np.zeros((400, 300), np.float32), detail="data", step="3", dims="[:,:]")

    assert refused.value.code == "50545013"
    assert (
        len(asked(tmp_path, np.zeros(0), detail="data", step="3", dims="[:,0]")[0]["value"]["data"])
        == 400
    )


def test_a_tensor_of_more_elements_than_mindinsight_reads_has_no_statistics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensor_values, "MAX_ELEMENTS", 5)
    tensor = np.zeros(6, np.float32)

    (sample,) = asked(tmp_path, tensor, detail="stats")

    assert sample["value"]["statistics"] is None
    for query in ({"detail": "histogram"}, {"detail": "data", "step": "3", "dims": "[0]"}):
        with pytest.raises(ApiError) as refused:
            asked(tmp_path, tensor, **query)
        assert refused.value.code == "50545016"
