from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mindsummary_lightning.values import EvaluationInfo, TrainInfo, UserDefinedInfo
from mindsummary_lightning.viewer.pages.optimizer_targets import buckets, importance, lineage_table
from tests.lineage.lineage_tree import write_run
from tests.viewer.pages.site import Site


def column(*values: Any) -> list[Any] | None:
    table = lineage_table([{"user_defined": {"x": value}} for value in values])
    found = table.columns.get("[U]x")
    return None if found is None else found.tolist()


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        ((1, 2), [1, 2]),
        ((1, 2.5), [1.0, 2.5]),
        ((1, None), [1.0, math.nan]),
        ((1.5, "NaN", "inf"), [1.5, math.nan, math.nan]),
        ((None, "nan"), [math.nan, math.nan]),
        ((2**70, 1), [float(2**70), 1.0]),
        ((True, False), None),
        ((True, 1), None),
        ((None, None), None),
        ((1, "text"), None),
        (({}, 1), None),
        ((10**400, 1), None),
    ],
    ids=str,
)
def test_a_column_stays_if_its_values_are_numbers(
    values: tuple[Any, ...], kept: list[Any] | None
) -> None:
    found = column(*values)

    assert repr(found) == repr(kept)


def test_a_run_without_a_value_has_a_gap_in_the_column() -> None:
    table = lineage_table([{"metric": {"acc": 0.5}}, {"loss": 1.0}, {"metric": {"acc": 1}}])

    np.testing.assert_array_equal(table.columns["[M]acc"], [0.5, math.nan, 1.0])
    np.testing.assert_array_equal(table.columns["loss"], [math.nan, 1.0, math.nan])
    assert table.targets() == ["[M]acc", "loss"]
    assert table.hyper_parameters() == []


def test_two_runs_are_too_few_and_a_constant_has_no_correlation() -> None:
    gap = np.array([1.0, math.nan, 3.0])

    assert importance(gap, np.array([1.0, 2.0, 3.0])) == (0, 2)
    assert importance(np.array([1, 1, 1]), np.array([1.0, 2.0, 3.0])) == (0, 3)


def test_the_sign_of_a_correlation_does_not_count() -> None:
    value, reason = importance(np.array([1, 2, 3]), np.array([3.0, 2.0, 1.0]))

    assert (round(value, 12), reason) == (1.0, None)


def test_a_correlation_is_of_the_runs_that_have_both_values() -> None:
    settings = np.array([1.0, math.nan, 3.0, 4.0, 5.0])
    results = np.array([1.0, 2.0, math.nan, 5.0, 4.0])

    for one, other in ((settings, results), (results, settings)):
        assert importance(one, other) == (pytest.approx(23 / 26), None)


def test_what_a_run_lacks_is_null_and_a_reason_is_given_only_for_what_has_no_correlation(
    tmp_path: Path,
) -> None:
    for number, rate in enumerate((0.1, 0.2, 0.4, None)):
        train = TrainInfo(learning_rate=rate, batch_size=8)
        results = [EvaluationInfo(f'{{"acc": {number / 4}}}')] if number else []
        write_run(tmp_path / f"{number}", train, *results, mtime=100.0 * number)

    answer = Site(tmp_path).send("POST", "optimizer/targets/search", {})

    assert answer["metadata"]["train_ids"] == ["./3", "./2", "./1", "./0"]
    assert answer["metadata"]["possible_hyper_parameters"] == [
        {"name": "learning_rate", "data": [None, 0.4, 0.2, 0.1]},
        {"name": "batch_size", "data": [8, 8, 8, 8]},
    ]
    (accuracy,) = answer["targets"]
    assert (accuracy["name"], accuracy["data"]) == ("[M]acc", [0.75, 0.5, 0.25, None])
    assert accuracy["hyper_parameters"] == [
        {"name": "batch_size", "importance": 0, "reason_code": 3},
        {"name": "learning_rate", "importance": 0, "reason_code": 2},
    ]
    write_run(tmp_path / "4", TrainInfo(learning_rate=0.8), EvaluationInfo('{"acc": 1.5}'))
    (accuracy,) = Site(tmp_path).send("POST", "optimizer/targets/search", {})["targets"]
    assert accuracy["hyper_parameters"] == [
        {"name": "learning_rate", "importance": pytest.approx(1.0, abs=0.05)},
        {"name": "batch_size", "importance": 0, "reason_code": 3},
    ]


def test_an_answer_holds_every_column_its_buckets_and_the_settings_by_their_importance(
    tmp_path: Path,
) -> None:
    for number, (text, alike) in enumerate([("x", 1), ("y", 2), ("z", 4)]):
        custom = {"a": alike, "Z": alike, "text": text, "odd": [0.5, 0.25, 0.75][number]}
        train = TrainInfo(
            loss=1.0 / 2**number,
            learning_rate=0.5,
            batch_size=alike,
            model_size=alike,
            device_num=alike,
            train_dataset_size=8 * alike,
        )
        results = EvaluationInfo(f'{{"acc": {2 * alike}}}')
        write_run(tmp_path / f"{number}", train, results, UserDefinedInfo(custom), mtime=100.0)

    answer = Site(tmp_path).send(
        "POST",
        "optimizer/targets/search",
        {"sorted_name": "batch_size", "sorted_type": "ascending"},
    )

    found = answer["metadata"]
    assert found["train_ids"] == ["./0", "./1", "./2"]
    data = {one["name"]: one["data"] for one in found["possible_hyper_parameters"]}
    sizes, odd = [1, 2, 4], [0.5, 0.25, 0.75]
    settings = {"learning_rate": [0.5] * 3, "batch_size": sizes}
    assert data == {**settings, "[U]a": sizes, "[U]Z": sizes, "[U]odd": odd}
    assert found["unrecognized_params"] == [
        {"name": "[U]text", "unselected": True, "reason_code": 1}
    ]
    accuracy, loss = answer["targets"]
    assert (accuracy["name"], accuracy["data"]) == ("[M]acc", [2, 4, 8])
    assert (loss["name"], loss["data"]) == ("loss", [1.0, 0.5, 0.25])
    lefts, widths, counts = zip(*accuracy["buckets"], strict=True)
    assert lefts == pytest.approx((2.0, 3.2, 4.4, 5.6, 6.8))
    assert widths == pytest.approx((1.2,) * 5)
    assert counts == (1, 1, 0, 0, 1)
    ranked = accuracy["hyper_parameters"]
    assert [one["name"] for one in ranked] == [
        *("batch_size", "[U]Z", "[U]a", "[U]odd", "learning_rate")
    ]
    importances = [one["importance"] for one in ranked]
    assert importances == pytest.approx([1, 1, 1, 0.6546537, 0])
    assert [one.get("reason_code") for one in ranked] == [None, None, None, None, 3]


def test_equal_values_fill_the_middle_of_a_bucket_range_of_one() -> None:
    assert [count for _, _, count in buckets(np.array([2, 2, 2]))] == [0.0, 0.0, 3.0, 0.0, 0.0]
    assert buckets(np.array([2, 2, 2]))[0][:2] == pytest.approx([1.5, 0.2])


def test_values_that_are_not_finite_are_not_counted() -> None:
    found = buckets(np.array([math.nan, math.inf, 0.0, 1.0]))

    assert sum(count for _, _, count in found) == 2.0
    empty = buckets(np.array([math.nan]))
    assert [left for left, _, _ in empty] == pytest.approx([-0.5, -0.3, -0.1, 0.1, 0.3])
    assert [count for _, _, count in empty] == [0.0] * 5


def test_the_result_of_most_runs_comes_first() -> None:
    table = lineage_table(
        [{"metric": {"a_rare": 1.0, "val/acc": 0.5}}, {"metric": {"val/acc": 0.6}, "loss": 0.1}]
    )

    assert table.targets() == ["[M]val/acc", "[M]a_rare", "loss"]
