from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mindsummary_lightning.values import Tensor
from mindsummary_lightning.viewer.api import ApiError
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.pages import tensors as tensor_values
from tests.reading.runs import damage_unseen, values_at, write_summary
from tests.viewer.pages.asking import ask


def asked(base: Path, tensor: np.ndarray, **query: str) -> Any:
    if not (base / "a").exists():
        write_summary(base / "a", [values_at(3, {"t": Tensor(tensor)})])
    answer = ask(
        LoadedRuns(str(base)), "datavisual/tensors", train_id="./a", tag="t/tensor", **query
    )
    return answer["tensors"][0]["values"]


def test_statistics_are_those_of_the_finite_elements(tmp_path: Path) -> None:
    finite = [0.0, -0.0, -2.0, -3.0, -4.0, 1.0, 2.0, 4.0, 8.0]
    special = [np.nan] + [-np.inf] * 5 + [np.inf] * 6
    tensor = np.array(finite + special, np.float32).reshape(3, 7)

    (sample,) = asked(tmp_path, tensor, detail="stats")

    of_slice = {
        "max": 8.0,
        "min": -4.0,
        "avg": 6 / 9,
        "count": 21,
        "nan_count": 1,
        "neg_inf_count": 5,
        "pos_inf_count": 6,
    }
    of_signs = {"zero_count": 2, "neg_zero_count": 3, "pos_zero_count": 4}
    overall = {f"overall_{name}": number for name, number in {**of_slice, **of_signs}.items()}
    value = {"dims": (3, 7), "data_type": "DT_FLOAT32"}
    assert sample == {
        "step": 3,
        "wall_time": 1_700_000_003.0,
        "value": {**value, "statistics": {**of_slice, **overall}},
    }
    (sample,) = asked(tmp_path, tensor)
    assert sample["value"] == value


def test_a_slice_holds_its_numbers_and_their_statistics(tmp_path: Path) -> None:
    tensor = np.arange(12, dtype=np.float32).reshape(3, 4)

    (sample,) = asked(tmp_path, tensor, detail="data", step="3", dims="[-1, 1:3]")

    no_others = {"nan_count": 0, "neg_inf_count": 0, "pos_inf_count": 0}
    of_slice = {"max": 10.0, "min": 9.0, "avg": 9.5, "count": 2, **no_others}
    of_signs = {"zero_count": 1, "neg_zero_count": 0, "pos_zero_count": 11}
    whole = {"max": 11.0, "min": 0.0, "avg": 5.5, "count": 12, **no_others, **of_signs}
    overall = {f"overall_{name}": number for name, number in whole.items()}
    assert sample["value"] == {
        "dims": (3, 4),
        "data_type": "DT_FLOAT32",
        "data": [9.0, 10.0],
        "statistics": {**of_slice, **overall},
    }


@pytest.mark.parametrize(
    ("tensor", "dims", "data"),
    [
        (np.arange(24).reshape(2, 3, 4), "[ 1 ,::2, -2:]", [[14, 15], [22, 23]]),
        (np.arange(24).reshape(2, 3, 4), "[1,2,3]", 23),
        (np.arange(24).reshape(2, 3, 4), "[:,1,:1:]", [[4], [16]]),
        (np.float32(0.5), "[]", 0.5),
        (np.float32(np.nan), "[]", ["NAN"]),
        (np.zeros((2, 0)), "[:,:]", []),
        (np.zeros((2, 0)), "[9]", []),
    ],
    ids=["steps", "a number", "the inner", "0-d", "0-d NaN", "empty", "anything of empty"],
)
def test_dims_select_the_numbers(
    tmp_path: Path, tensor: np.ndarray, dims: str, data: object
) -> None:
    (sample,) = asked(tmp_path, np.asarray(tensor, np.float32), detail="data", step="3", dims=dims)

    assert sample["value"]["data"] == data


def test_every_tag_of_every_run_is_answered_in_the_order_asked_for(tmp_path: Path) -> None:
    for name, run in (("a", 1.0), ("b", 2.0)):
        values = {tag: Tensor(np.full(2, run * 10 + at, np.float32)) for at, tag in enumerate("tu")}
        write_summary(tmp_path / name, [values_at(1, values)])

    answer = ask(
        LoadedRuns(str(tmp_path)),
        "datavisual/tensors",
        train_id=["./b", "./a"],
        tag=["u/tensor", "t/tensor"],
        detail="stats",
    )

    found = [(one["train_id"], one["tag"], one["values"]) for one in answer["tensors"]]
    assert [
        (train_id, tag, value["value"]["statistics"]["max"]) for train_id, tag, (value,) in found
    ] == [
        ("./b", "u/tensor", 21.0),
        ("./b", "t/tensor", 20.0),
        ("./a", "u/tensor", 11.0),
        ("./a", "t/tensor", 10.0),
    ]


def test_of_many_steps_fifty_are_described_with_the_first_and_the_newest(tmp_path: Path) -> None:
    steps = [values_at(step, {"t": Tensor(np.full(1, step, np.float32))}) for step in range(101)]
    write_summary(tmp_path / "a", steps)

    answer = asked(tmp_path, np.zeros(0), detail="stats")

    assert (len(answer), answer[0]["step"], answer[-1]["step"]) == (50, 0, 100)
    assert all(one["value"]["statistics"]["max"] == one["step"] for one in answer)


def test_a_tensor_that_changed_since_it_was_located_is_left_out(tmp_path: Path) -> None:
    records = [values_at(at, {"t": Tensor(np.zeros(4, np.float32))}) for at in (1, 2, 3)]
    path = write_summary(tmp_path / "a", records)
    runs = LoadedRuns(str(tmp_path))
    ask(runs, "datavisual/plugins", train_id="./a")
    damage_unseen(path, records[1])
    asked_for = {"train_id": "./a", "tag": "t/tensor"}

    (shown,) = ask(runs, "datavisual/tensors", **asked_for, detail="stats")["tensors"]

    assert [sample["step"] for sample in shown["values"]] == [1, 3]


def test_numbers_that_are_not_finite_are_texts(tmp_path: Path) -> None:
    tensor = np.array([[1.0, np.nan], [np.inf, -np.inf]], np.float32)

    (sample,) = asked(tmp_path, tensor, detail="data", step="3", dims="[:,:]")

    assert sample["value"]["data"] == [[1.0, "NAN"], ["INF", "-INF"]]


def test_histograms_of_tensors_are_the_same_on_both_pages(tmp_path: Path) -> None:
    tensor = np.array([1.0, 2.0, 4.0, 5.0], np.float32)

    (sample,) = asked(tmp_path, tensor, detail="histogram")
    page = ask(LoadedRuns(str(tmp_path)), "datavisual/histograms", train_id="./a", tag="t/tensor")

    assert sample["value"]["histogram_buckets"] == [(1.0, 2.0, 2), (3.0, 2.0, 2)]
    assert sample["value"]["statistics"]["overall_max"] == 5.0
    assert page["histograms"][0]["buckets"] == sample["value"]["histogram_buckets"]


def test_the_histogram_of_a_constant_tensor_is_one_wide_around_it(tmp_path: Path) -> None:
    (sample,) = asked(tmp_path, np.full(7, 2.5, np.float32), detail="histogram")

    lefts, widths, counts = zip(*sample["value"]["histogram_buckets"], strict=True)
    assert lefts == pytest.approx((2.0, 2 + 1 / 3, 2 + 2 / 3))
    assert widths == pytest.approx((1 / 3,) * 3)
    assert (counts[1], sum(counts) - counts[1]) in ((7, 0), (7, 1))  # rounded up


def test_the_histogram_of_more_numbers_is_finer_and_leaves_out_what_is_not_finite(
    tmp_path: Path,
) -> None:
    tensor = np.array([*range(11), 10.0, np.nan, np.inf, -np.inf], np.float32)

    (sample,) = asked(tmp_path, tensor, detail="histogram")

    lefts, _, counts = zip(*sample["value"]["histogram_buckets"], strict=True)
    assert (lefts, counts) == (pytest.approx((0.0, 10 / 3, 20 / 3)), (4, 3, 5))


def test_a_histogram_of_a_tensor_without_finite_elements_is_empty(tmp_path: Path) -> None:
    (sample,) = asked(tmp_path, np.full(3, np.nan, np.float32), detail="histogram")

    assert sample["value"]["histogram_buckets"] == [(-0.5, 1.0, 0)]


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
        ({"detail": "data", "step": "3", "dims": "[0:1:1:1]"}, "50540002"),
        ({"detail": "data", "step": "3", "dims": "[x]"}, "50540002"),
        ({"detail": "data", "step": "3", "dims": "[]"}, "50540002"),
        ({"detail": "data", "step": "3", "dims": "0]"}, "50540002"),
        ({"detail": "data", "step": "3", "dims": "[0"}, "50540002"),
        ({"detail": "zz"}, "50540002"),
    ],
)
def test_a_wrong_request_is_refused_with_the_code_of_mindinsight(
    tmp_path: Path, query: dict[str, str], code: str
) -> None:
    with pytest.raises(ApiError) as refused:
        asked(tmp_path, np.zeros(3, np.float32), **query)

    assert refused.value.code == code


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"tag": "t/tensor"}, "50540003"),
        ({"train_id": "./a"}, "50540003"),
        ({"train_id": "./gone", "tag": "t/tensor"}, "50545005"),
        ({"train_id": "./a", "tag": "loss/scalar"}, "50545012"),
        ({"train_id": "./a", "tag": "u/tensor"}, "50545012"),
    ],
    ids=["no run", "no tag", "unknown run", "a scalar", "unknown tag"],
)
def test_a_request_for_what_is_no_tensor_is_refused(
    tmp_path: Path, query: dict[str, str], code: str
) -> None:
    write_summary(tmp_path / "a", [values_at(1, {"t": Tensor(np.zeros(2)), "loss": 1.0})])

    with pytest.raises(ApiError) as refused:
        ask(LoadedRuns(str(tmp_path)), "datavisual/tensors", **query)

    assert refused.value.code == code


def test_of_a_tensor_two_dimensions_at_most_are_shown(tmp_path: Path) -> None:
    with pytest.raises(ApiError, match="At most 2 dimensions are specified"):
        asked(tmp_path, np.zeros((2, 2, 2)), detail="data", step="3", dims="[:,:,:]")


def test_more_numbers_than_a_page_shows_are_refused(tmp_path: Path) -> None:
    tensor = np.zeros((2, 100_001), np.float32)

    with pytest.raises(ApiError) as refused:
        asked(tmp_path, tensor, detail="data", step="3", dims="[0,:]")

    assert refused.value.code == "50545013"
    (sample,) = asked(tmp_path, tensor, detail="data", step="3", dims="[0,1:]")
    assert len(sample["value"]["data"]) == 100_000


def test_a_tensor_of_more_elements_than_mindinsight_reads_has_no_statistics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensor_values, "MAX_ELEMENTS", 5)
    most, tensor = np.ones(5, np.float32), np.ones(6, np.float32)
    write_summary(tmp_path / "a", [values_at(3, {"t": Tensor(tensor), "most": Tensor(most)})])
    runs = LoadedRuns(str(tmp_path))

    (sample,) = asked(tmp_path, tensor, detail="stats")

    assert sample["value"]["statistics"] is None
    for query in ({"detail": "histogram"}, {"detail": "data", "step": "3", "dims": "[0]"}):
        with pytest.raises(ApiError) as refused:
            asked(tmp_path, tensor, **query)
        assert refused.value.code == "50545016"

    def counted(tag: str) -> int:
        page = ask(runs, "datavisual/histograms", train_id="./a", tag=f"{tag}/tensor")
        return sum(count for _, _, count in page["histograms"][0]["buckets"])

    assert (counted("most"), counted("t")) == (5, 0)
    asked_for = {"train_id": "./a", "tag": "most/tensor", "detail": "stats"}
    (shown,) = ask(runs, "datavisual/tensors", **asked_for)["tensors"]
    assert shown["values"][0]["value"]["statistics"]["count"] == 5
