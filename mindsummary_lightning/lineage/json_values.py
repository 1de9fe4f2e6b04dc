"""Convert values of lineage files to the JSON that MindInsight 2.3.1 returns.

This concerns the text of a NaN, the digits of a float32, and the keys of the data pipeline.

The rules, quirks included, were observed in the answers of the real reader (protobuf's JSON mapping
and its own flattening of the data pipeline), so that a query here and a query there give the same
JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from mindsummary_lightning.values import DatasetGraph, Operation
from mindsummary_lightning.values.lineage_info import EXACT_MAX, CustomValue, ParameterValue
from mindsummary_lightning.values.text import finite_or_named, map_json, shortest_float32

# what json.loads can return: a recursive type that mypy and readers both follow badly
JsonValue: TypeAlias = Any


def float32_to_json(value: float) -> float | str:
    """Convert a float32 to the shortest equal decimal, or a text such as ``"NaN"``.

    The result is 0.01 rather than 0.009999999776482582. Infinities become texts, too.
    """
    number: float | str = finite_or_named(shortest_float32(value))
    return number


def user_defined_to_json(values: Mapping[str, CustomValue]) -> dict[str, JsonValue]:
    """Convert custom lineage data to JSON values; nested data stay nested."""
    shown: dict[str, JsonValue] = {}
    for key, value in values.items():
        # asked first: a mapping is an abstract class, which takes long to ask for
        if isinstance(value, (str, int)):
            shown[key] = value
        elif isinstance(value, float):
            shown[key] = finite_or_named(value)
        else:
            shown[key] = user_defined_to_json(value)
    return shown


def has_inexact_int(values: Mapping[str, JsonValue]) -> bool:
    """Tell whether custom data hold an int that a 64-bit float cannot hold exactly."""
    for value in values.values():
        if isinstance(value, dict):
            if has_inexact_int(value):
                return True
        elif _is_inexact(value):
            return True
    return False


def _is_inexact(value: JsonValue) -> bool:
    return type(value) is int and abs(value) > EXACT_MAX


def for_a_browser(value: JsonValue) -> JsonValue:
    """Convert ints that JavaScript would round, beyond 2**53, to texts.

    MindInsight shows such ints as texts, too.
    """
    return map_json(value, lambda leaf: str(leaf) if _is_inexact(leaf) else leaf)


def dataset_graph_to_json(graph: DatasetGraph) -> dict[str, JsonValue]:
    """Convert a data pipeline, from its last stage on, to nested JSON dicts.

    A dict has the parameters of the stage, then ``operations``, ``sampler`` and ``children``.
    """
    shown = _shown_parameter(graph.parameter)
    if graph.operations:
        shown["operations"] = [_shown_operation(operation) for operation in graph.operations]
    sampler = _shown_operation(graph.sampler) if graph.sampler is not None else {}
    if sampler:
        shown["sampler"] = sampler
    shown["children"] = [dataset_graph_to_json(child) for child in graph.children]
    return shown


def _shown_operation(operation: Operation) -> dict[str, JsonValue]:
    shown = _shown_parameter(operation.parameter)
    # The reader collects sizes and weights in one list: ``size`` shows both, and so does
    # ``weights``, even without any.
    numbers = [*operation.size, *operation.weights]
    if operation.size:
        shown["size"] = numbers
    if numbers:
        shown["weights"] = list(numbers)
    return shown


def _shown_parameter(parameter: Mapping[str, ParameterValue]) -> dict[str, JsonValue]:
    shown: dict[str, JsonValue] = {}
    for key, value in parameter.items():
        if isinstance(value, tuple):
            shown[key] = [element or None for element in value]
        else:
            shown[key] = None if value == "None" else value
    return shown
