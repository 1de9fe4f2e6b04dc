from __future__ import annotations

from typing import Any

import pytest

from mindsummary_lightning.errors import LineageSearchConditionParamError
from mindsummary_lightning.lineage.conditions import (
    INTEGER_FIELDS,
    NUMBER_FIELDS,
    TEXT_FIELDS,
    Ordering,
    SearchCondition,
    parse_condition,
)
from mindsummary_lightning.lineage.conditions import (
    Test as FieldTest,
)
from mindsummary_lightning.lineage.merge import FIELDS

ACCEPTED: list[Any] = [
    {},
    {"network": {"eq": "LeNet5", "not_in": ["A"], "in": ("B",)}},
    {"network": {"in": [1, None]}},
    {"summary_dir": {"in": [1, None]}},
    {"network": {}},
    {"epoch": {"lt": 0, "ge": 2**63 - 1, "in": ["x"], "not_in": []}},
    {"loss": {"lt": 1, "ge": 0.5, "in": [None]}},
    {"loss": {"not_in": 0.5}},
    {"metric/top/5": {"eq": -1}},
    {"user_defined/": {"eq": 1}},
    {"user_defined/x": {"eq": None, "lt": [], "in": 5}},
    {"limit": 1, "offset": 100_000},
    {"offset": 3},
    {"sorted_name": "tag"},
    {"sorted_name": "user_defined/x", "sorted_type": None},
    {"sorted_name": "metric/x", "sorted_type": "descending"},
    {"lineage_type": {}},
    {"lineage_type": {"in": []}},
    {"lineage_type": {"eq": "model", "in": ["dataset"]}},
]
REFUSED: list[Any] = [
    [],
    "network",
    5,
    {"Network": {"eq": "LeNet5"}},
    {5: {"eq": 1}},
    {"metric/": {"eq": 1}},
    {"metric_": {"eq": 1}},
    {"network": "LeNet5"},
    {"network": {"lt": "LeNet5"}},
    {"network": {"eq": 5}},
    {"network": {"in": "LeNet5"}},
    {"network": {"like": "Le"}},
    {"epoch": {"lt": 3.5}},
    {"epoch": {"eq": True}},
    {"epoch": {"eq": -1}},
    {"epoch": {"eq": 2**63}},
    {"loss": {"not_in": [0.5]}},
    {"loss": {"eq": "0.5"}},
    {"loss": {"eq": True}},
    {"loss": {"in": 0.5}},
    {"metric/accuracy": {"eq": None}},
    {"user_defined/x": 1},
    {"user_defined/x": {"EQ": 1}},
    {"limit": 0},
    {"limit": 101},
    {"limit": True},
    {"limit": "5"},
    {"limit": None},
    {"offset": -1},
    {"offset": 100_001},
    {"offset": True},
    {"offset": 1.0},
    {"sorted_name": "metric/"},
    {"sorted_name": "user_defined/"},
    {"sorted_name": "accuracy"},
    {"sorted_name": None},
    {"sorted_type": "ascending"},
    {"sorted_name": "loss", "sorted_type": "up"},
    {"lineage_type": "other"},
    {"lineage_type": ["model"]},
    {"lineage_type": {"eq": "other"}},
    {"lineage_type": {"eq": 5, "in": ["model"]}},
    {"lineage_type": {"in": "model"}},
    {"lineage_type": {"in": 5}},
    {"lineage_type": {"in": [["model"]]}},
    {"lineage_type": {"not_in": ["model"]}},
]


@pytest.mark.parametrize("condition", ACCEPTED, ids=repr)
def test_is_accepted(condition: Any) -> None:
    parse_condition(condition, "/runs")


@pytest.mark.parametrize("condition", REFUSED, ids=repr)
def test_is_refused(condition: Any) -> None:
    with pytest.raises(LineageSearchConditionParamError):
        parse_condition(condition, "/runs")


def test_a_condition_is_tests_order_page_and_parts_wherever_each_stands() -> None:
    condition = parse_condition(
        {
            "limit": 5,
            "network": {"in": ["A", "B"]},
            "sorted_type": "descending",
            "sorted_name": "metric_loss",
            "epoch": {"gt": 1, "le": 9},
            "offset": 2,
            "lineage_type": "dataset",
        },
        "/runs",
    )

    assert condition == SearchCondition(
        (
            FieldTest("network", "in", ["A", "B"]),
            FieldTest("epoch", "gt", 1),
            FieldTest("epoch", "le", 9),
        ),
        Ordering("metric/loss", True),
        slice(10, 15),
        ("dataset",),
    )
    assert condition.fields == ("network", "epoch", "epoch", "metric/loss")
    assert condition.matches({"network": "B", "epoch": 2}.get)
    assert not condition.matches({"network": "B", "epoch": 1}.get)


def test_a_refusal_says_where_what_was_expected_and_what_was_found() -> None:
    with pytest.raises(
        LineageSearchConditionParamError,
        match=r"search_condition\['epoch'\]\['lt'\] .*int.*not 3\.5",
    ):
        parse_condition({"epoch": {"lt": 3.5}}, "/runs")


def test_every_field_has_a_kind() -> None:
    assert {*TEXT_FIELDS, *INTEGER_FIELDS, *NUMBER_FIELDS} == {
        *FIELDS,
        "summary_dir",
        "dataset_mark",
    }


def test_the_condition_passed_is_left_as_it_was() -> None:
    condition = {
        "lineage_type": {"in": ["model"], "eq": "dataset"},
        "summary_dir": {"in": ["/runs/a"]},
    }

    parse_condition(condition, "/runs")

    assert condition == {
        "lineage_type": {"in": ["model"], "eq": "dataset"},
        "summary_dir": {"in": ["/runs/a"]},
    }


class TestTheOlderSpelling:
    def test_of_a_metric_is_understood_as_field_and_as_order(self) -> None:
        old = parse_condition(
            {"metric_accuracy": {"lt": 0.1}, "sorted_name": "metric_loss"}, "/runs"
        )

        assert old == parse_condition(
            {"metric/accuracy": {"lt": 0.1}, "sorted_name": "metric/loss"}, "/runs"
        )

    def test_of_a_summary_dir_is_an_absolute_path(self, tmp_path: Any) -> None:
        base = str(tmp_path.resolve())
        (tmp_path / "link").symlink_to(base)
        runs = [f"{base}/run1", base, "./run2", "/elsewhere/run1", f"{base}/a/..b"]
        condition = {"summary_dir": {"in": runs, "eq": f"{base}/run1/"}}

        for spelling in (base, f"{base}/link"):
            assert parse_condition(condition, spelling).tests == (
                ("summary_dir", "in", ["./run1", "./", "./run2", "/elsewhere/run1", "./a/..b"]),
                ("summary_dir", "eq", "./run1"),
            )

    def test_a_relative_summary_dir_has_nothing_to_do_with_the_working_directory(
        self, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)

        condition = parse_condition({"summary_dir": {"eq": "run1"}}, str(tmp_path.resolve()))

        assert condition.tests == (("summary_dir", "eq", "run1"),)

    @pytest.mark.parametrize(
        ("spelling", "shown"),
        [
            ("model", ("dataset", "model")),
            (None, ("dataset", "model")),
            ({}, ("dataset", "model")),
            ("dataset", ("dataset",)),
        ],
    )
    def test_of_a_lineage_type_is_a_name_or_nothing(
        self, spelling: object, shown: tuple[str, ...]
    ) -> None:
        assert parse_condition({"lineage_type": spelling}, "/runs").lineage_types == shown


@pytest.mark.parametrize(
    ("condition", "page"),
    [
        ({}, slice(None)),
        ({"limit": 100}, slice(0, 100)),
        ({"limit": 1}, slice(0, 1)),
        ({"offset": 3}, slice(30, 40)),
        ({"limit": 5, "offset": 2}, slice(10, 15)),
    ],
)
def test_an_offset_counts_pages_of_ten_runs_or_as_many_as_the_limit(
    condition: dict[str, int], page: slice
) -> None:
    assert parse_condition(condition, "/runs").page == page


@pytest.mark.parametrize("limit", [0, 101, True, 5.0])
def test_a_page_has_one_to_a_hundred_runs(limit: object) -> None:
    with pytest.raises(LineageSearchConditionParamError, match=r"limit must be an int in 1\.\.100"):
        parse_condition({"limit": limit}, "/runs")


@pytest.mark.parametrize("operator", ["lt", "gt", "le", "ge", "in", "not_in"])
def test_what_does_not_compare_is_not_found(operator: str) -> None:
    expected: Any = 0.5 if operator in ("in", "not_in") else "text"
    condition = parse_condition({"user_defined/x": {operator: expected}}, "/runs")

    assert not condition.matches(lambda field: 1.0)


@pytest.mark.parametrize("is_descending", [False, True])
def test_values_of_several_types_are_sorted_by_type_and_equal_ones_keep_their_order(
    is_descending: bool,
) -> None:
    values = {"a": "x", "b": 2, "c": None, "d": 1, "e": 2, "f": "w"}
    order = Ordering("user_defined/x", is_descending)

    found = order.sort([*values], lambda run, field: values[run])

    assert found == (
        ["a", "f", "b", "e", "d", "c"] if is_descending else ["c", "d", "b", "e", "f", "a"]
    )
