"""Search conditions from a seed, most of them valid, the rest wrong in one place each."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.lineage.lineage_tree import CUSTOM, METRICS, NETWORKS, OPTIMIZERS

_TEXTS: dict[str, tuple[str, ...]] = {
    "summary_dir": ("./run001", "./run002", "./прогон 7 ✓", "./", "run001", "./torn later"),
    "loss_function": ("CrossEntropyLoss", "MSELoss", "SoftmaxCrossEntropyWithLogits"),
    "train_dataset_path": ("/data/train", "/данные/обучение"),
    "test_dataset_path": ("/data/valid", ""),
    "network": (*NETWORKS, "TinyNet"),
    "optimizer": OPTIMIZERS,
    "dataset_mark": ("1", "2", "3", "5", "10"),
}
_INTEGERS = (
    "train_dataset_count",
    "test_dataset_count",
    "epoch",
    "batch_size",
    "device_num",
    "model_size",
)
_NUMBERS = (
    "learning_rate",
    "loss",
    *(f"metric/{name}" for name in METRICS),
    "metric/unknown",
    "metric/a/b",
)
_CUSTOM_FIELDS = (
    *(f"user_defined/{name}" for name in CUSTOM),
    "user_defined/unknown",
    "user_defined/",
)
_ORDERS = ("eq", "lt", "gt", "le", "ge")
_ALL = (*_ORDERS, "in", "not_in")
_ANYTHING: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        0.5,
        10**20,
        "",
        "text",
        "0.5",
        "Adam",
        [],
        [1, "text"],
        ["./run001"],
        {},
        {"a": 1},
    ),
    *((), (1, 2), 1.0, "Infinity", [None], [[1]], {"inner": 1, "deeper": {"x": 0}}, 16, "2", "2.3"),
)


def search_conditions(count: int, seed: int) -> list[Any]:
    """``count`` conditions, the same for the same seed."""
    chance = random.Random(seed)
    return [_condition(chance) for _ in range(count)]


def _condition(chance: random.Random) -> Any:
    if chance.random() < 0.01:
        return chance.choice((None, {}, [], "text", 5, [("loss", {"gt": 1})]))
    parts = [_text, _integer, _number, _custom, _sorting, _sorting, _page, _lineage_type]
    condition: dict[Any, Any] = {}
    for part in chance.sample(parts, chance.choice((0, 1, 1, 2, 2, 3, 4))):
        condition.update(part(chance))
    if chance.random() < 0.3:
        condition.update(_mistake(chance))
    return condition


def _text(chance: random.Random) -> dict[Any, Any]:
    field = chance.choice(list(_TEXTS))
    return {
        field: _expressions(chance, ("eq", "in", "not_in"), lambda: chance.choice(_TEXTS[field]))
    }


def _integer(chance: random.Random) -> dict[Any, Any]:
    return {
        chance.choice(_INTEGERS): _expressions(
            chance, _ALL, lambda: chance.choice((0, 1, 5, 8, 32, 60_000, 2**40))
        )
    }


def _number(chance: random.Random) -> dict[Any, Any]:
    operators = (*_ORDERS, "in")
    values = (0, 0.0, 0.5, 0.9, 1, 1.0, 2.3, -1, 0.01, 0.33333334)
    return {chance.choice(_NUMBERS): _expressions(chance, operators, lambda: chance.choice(values))}


def _custom(chance: random.Random) -> dict[Any, Any]:
    return {
        chance.choice(_CUSTOM_FIELDS): _expressions(chance, _ALL, lambda: chance.choice(_ANYTHING))
    }


def _expressions(
    chance: random.Random, operators: tuple[str, ...], value: Callable[[], Any]
) -> dict[str, Any]:
    chosen = chance.sample(operators, chance.choice((1, 1, 1, 2)))
    return {
        name: [value() for _ in range(chance.randrange(4))]
        if name in ("in", "not_in") and chance.random() < 0.9
        else value()
        for name in chosen
        if chance.random() < 0.98
    }


def _sorting(chance: random.Random) -> dict[Any, Any]:
    fields = (
        *_TEXTS,
        *_INTEGERS,
        *_NUMBERS,
        *_CUSTOM_FIELDS,
        "tag",
        "loss",
        "metric/accuracy",
        "user_defined/nested",
    )
    condition: dict[str, Any] = {"sorted_name": chance.choice(fields)}
    if chance.random() < 0.8:
        condition["sorted_type"] = chance.choice(("ascending", "descending", None))
    return condition


def _page(chance: random.Random) -> dict[Any, Any]:
    condition: dict[str, Any] = {}
    if chance.random() < 0.8:
        condition["limit"] = chance.choice((1, 3, 10, 50, 100))
    if chance.random() < 0.6:
        condition["offset"] = chance.choice((0, 1, 2, 7, 100_000))
    return condition


def _lineage_type(chance: random.Random) -> dict[Any, Any]:
    value: dict[str, Any] = {}
    if chance.random() < 0.6:
        value["eq"] = chance.choice(("model", "dataset"))
    if chance.random() < 0.5:
        value["in"] = chance.sample(("model", "dataset"), chance.randrange(3))
    if chance.random() < 0.5:
        value = dict(reversed(value.items()))
    return {"lineage_type": value}


def _mistake(chance: random.Random) -> dict[Any, Any]:
    anything: Any = chance.choice(_ANYTHING)
    fields = (*_TEXTS, *_INTEGERS, *_NUMBERS)
    return chance.choice(
        (
            {
                chance.choice(
                    ("Loss", "metric/", "user defined/x", "lineage", "", "added_info", 5, None)
                ): {"eq": 1}
            },
            {chance.choice(fields): anything},
            {chance.choice(fields): {chance.choice(("ne", "EQ", "", "like", 3)): 1}},
            {chance.choice(fields): {chance.choice(_ALL): anything}},
            {chance.choice(fields): {chance.choice(_ALL): anything, "eq": anything}},
            {chance.choice(_NUMBERS): {"not_in": chance.choice((0.5, 1, True, [0.5]))}},
            {
                chance.choice(_INTEGERS): {
                    "lt": chance.choice((3.5, 2**63, 2**63 - 1, -1, True, "5"))
                }
            },
            {chance.choice(list(_TEXTS)): {chance.choice(_ORDERS): "x"}},
            {"limit": chance.choice((0, 101, True, 1.0, "5", None, -1, [1]))},
            {"offset": chance.choice((-1, 100_001, False, 0.0, "0", None, {}))},
            {
                "sorted_name": chance.choice(
                    ("Loss", "metric/", "user_defined/", 5, None, "", ["loss"], "update_time")
                )
            },
            {
                "sorted_name": "loss",
                "sorted_type": chance.choice(("up", "", 1, True, [], "DESCENDING")),
            },
            {"sorted_type": chance.choice(("ascending", None, "up"))},
            {"lineage_type": chance.choice(_WRONG_LINEAGE_TYPES)},
        )
    )


# Without ``None``, "model" and "dataset", which the older API takes and MindInsight 2.3.1 refuses.
_WRONG_LINEAGE_TYPES: tuple[Any, ...] = (
    *(
        "",
        5,
        ["model"],
        {"eq": "other"},
        {"eq": 5},
        {"in": "model"},
        {"in": ["model", "other"]},
        {"lt": "model"},
    ),
    *(
        {"not_in": ["model"]},
        {"in": [["model"]]},
        {"eq": None},
        {"eq": "model", "gt": "x"},
        {"eq": 5, "in": ["model"]},
    ),
    *({"eq": "other", "in": ["model"]}, {"in": ["model"], "eq": "other"}, {"in": [None]}),
)
