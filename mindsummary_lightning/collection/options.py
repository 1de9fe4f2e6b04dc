"""Checks the options of a SummaryCollector, and merges them as MindSpore does.

No Trainer is needed, so that a wrong argument raises before any run begins.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mindsummary_lightning.collection.parameter_selection import EVERY
from mindsummary_lightning.conversion.arguments import checked_bool, positive_int
from mindsummary_lightning.conversion.hyperparameters import plain_value
from mindsummary_lightning.errors import closest
from mindsummary_lightning.values.landscape_settings import LandscapeSettings
from mindsummary_lightning.values.lineage_info import CustomValue
from mindsummary_lightning.values.specified_data import SpecifiedData
from mindsummary_lightning.values.text import utf8_text

_LOG = logging.getLogger(__name__)

_HYPER_CONFIG = "MINDINSIGHT_HYPER_CONFIG"
_MAX_HYPER_CONFIG = 100_000  # characters; MindSpore ignores a longer one


_KNOWN = tuple(SpecifiedData.__annotations__)
_FLAGS = _KNOWN[:-2]


@dataclass(frozen=True, slots=True)
class CollectOptions:
    """Options that choose which values are collected, as in :class:`SpecifiedData`.

    The defaults of the last two keys are resolved.

    ``named`` are the keys that the user gave; of what they do not find there is a warning, of
    defaults there is none.
    """

    collect_metric: bool = True
    collect_graph: bool = True
    collect_train_lineage: bool = True
    collect_eval_lineage: bool = True
    collect_input_data: bool = True
    collect_dataset_graph: bool = True
    histograms: bool = True
    histogram_regular: str | None = None
    landscape: LandscapeSettings | None = field(default_factory=LandscapeSettings)
    named: frozenset[str] = field(default=frozenset(), compare=False)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any] | None, keep_default_action: bool) -> CollectOptions:
        """Merge ``collect_specified_data`` with the defaults, as MindSpore does.

        Without the defaults, only its own keys count.

        Raises:
            TypeError: it is not a dict, or a value has the wrong type.
            ValueError: a key is unknown, or the expression does not compile.
        """
        off: dict[str, Any] = {
            **dict.fromkeys(_FLAGS, False),
            "histograms": False,
            "landscape": None,
        }
        base = cls() if keep_default_action else cls(**off)
        if data is None:
            return base
        _check_keys(data)
        changes: dict[str, Any] = {flag: data[flag] for flag in _FLAGS if flag in data}
        for flag, value in changes.items():
            if not isinstance(value, bool):
                raise TypeError(f"{flag} of collect_specified_data must be a bool, not {value!r}")
        if "histogram_regular" in data:
            changes["histograms"] = True
            changes["histogram_regular"] = _checked_expression(
                "histogram_regular", data["histogram_regular"]
            )
        if "collect_landscape" in data:
            landscape = data["collect_landscape"]
            changes["landscape"] = (
                None if landscape is None else LandscapeSettings.from_dict(landscape)
            )
        return replace(base, **changes, named=frozenset(data))


def _check_keys(data: Any) -> None:
    """Refuse ``collect_specified_data`` that is no dict, or has unknown keys."""
    if not isinstance(data, Mapping):
        raise TypeError(f"collect_specified_data must be a dict or None, not {data!r}")
    if not all(isinstance(key, str) for key in data):
        raise TypeError(f"keys of collect_specified_data must be str, not {[*data]}")
    unknown = [key for key in data if key not in _KNOWN]
    if unknown:
        near = closest(str(unknown[0]), _KNOWN)
        known = ", ".join(_KNOWN)
        raise ValueError(
            f"collect_specified_data has no key {unknown[0]!r}{near}; its keys are {known}"
        )


def checked_gradients(collect_gradients: Any) -> str | bool | None:
    """Check ``collect_gradients``: a bool, a regular expression or ``None``.

    Anything else raises a TypeError or ValueError.
    """
    if isinstance(collect_gradients, bool):
        return collect_gradients
    return _checked_expression("collect_gradients", collect_gradients)


@dataclass(frozen=True, slots=True)
class ParameterStatisticsOptions:
    """The parameters for which statistics are recorded.

    Attributes:
        expression: matched from the start of a parameter's name; ``None``: no parameter.
        has_updates: whether the ratio of each update to its weight is recorded, too.
    """

    expression: str | None
    has_updates: bool


def _checked_statistics(collect_parameter_statistics: Any) -> str | None:
    """Return the regular expression that selects parameters, or ``None``."""
    if isinstance(collect_parameter_statistics, bool):
        return EVERY if collect_parameter_statistics else None
    return _checked_expression("collect_parameter_statistics", collect_parameter_statistics)


def checked_parameter_statistics(
    collect_parameter_statistics: Any, collect_parameter_updates: Any
) -> ParameterStatisticsOptions:
    """Check the two options for statistics of parameters and of their updates.

    ``collect_parameter_updates`` implies statistics of every parameter.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: the expression does not compile, or updates are wanted without statistics.
    """
    expression = _checked_statistics(collect_parameter_statistics)
    has_updates = checked_bool("collect_parameter_updates", collect_parameter_updates)
    if has_updates and collect_parameter_statistics is False:
        raise ValueError(
            "collect_parameter_updates must be False with collect_parameter_statistics=False, got "
            "True. Updates are a column of the parameter statistics: leave one of the two out."
        )
    if has_updates and expression is None:
        expression = EVERY
    return ParameterStatisticsOptions(expression, has_updates)


@dataclass(frozen=True, slots=True)
class OutputStatisticsOptions:
    """The steps and modules for which output statistics are recorded.

    Attributes:
        steps: optimizer steps, counted from 1; ``None``: the rhythm of tables.
        modules: an expression matched from the start of a module's name; ``None``: every module.
        whole_steps: steps of which whole tensors are recorded.
        max_bytes: greatest size of the file of such a step.
    """

    steps: frozenset[int] | None = None
    modules: str | None = None
    whole_steps: frozenset[int] = frozenset()
    max_bytes: int = 0


def _output_statistics_steps(collect_output_statistics: Any) -> frozenset[int] | None:
    """Return the steps that the argument names, or ``None`` for the default steps."""
    if collect_output_statistics is None or isinstance(collect_output_statistics, bool):
        return None
    if isinstance(collect_output_statistics, str):
        raise TypeError(
            "collect_output_statistics must be True, None or a sequence of steps, got "
            f"{collect_output_statistics!r}. Pass names of modules as output_statistics_modules."
        )
    if not isinstance(collect_output_statistics, (tuple, list, range)):
        raise TypeError(
            "collect_output_statistics must be True, None or a sequence of steps, got "
            f"{collect_output_statistics!r}. Pass steps as a tuple, such as (1, 2, 3)."
        )
    if not collect_output_statistics:
        raise ValueError(
            "collect_output_statistics must name at least one step, got "
            f"{collect_output_statistics!r}. Pass steps counted from 1, True or None."
        )
    return frozenset(
        positive_int("a step of collect_output_statistics", step)
        for step in collect_output_statistics
    )


def _output_statistics(
    collect_output_statistics: Any, output_statistics_modules: Any
) -> OutputStatisticsOptions | None:
    steps = _output_statistics_steps(collect_output_statistics)
    modules = _checked_expression("output_statistics_modules", output_statistics_modules)
    if modules is not None and collect_output_statistics is False:
        raise ValueError(
            "output_statistics_modules must be None with collect_output_statistics=False, got "
            f"{modules!r}. Leave one of the two out."
        )
    if modules is None and steps is None and not collect_output_statistics:
        return None
    return OutputStatisticsOptions(steps, modules)


def output_statistics_options(
    collect_output_statistics: Any,
    output_statistics_modules: Any,
    whole_tensors: Any,
    max_bytes: Any,
) -> OutputStatisticsOptions | None:
    """Check the arguments of output statistics.

    ``output_statistics_modules`` implies ``collect_output_statistics=True``.

    Whole tensors are of the steps that are named, or of the first one, and imply output statistics
    of it.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: an argument has a value that cannot be used.
    """
    options = _output_statistics(collect_output_statistics, output_statistics_modules)
    limit = positive_int("whole_tensors_max_bytes", max_bytes)
    if not checked_bool("whole_tensors", whole_tensors):
        return options
    if options is None:
        options = OutputStatisticsOptions(frozenset((1,)))
    return replace(options, whole_steps=options.steps or frozenset((1,)), max_bytes=limit)


def _checked_expression(name: str, expression: Any) -> str | None:
    if expression is None:
        return None
    if not isinstance(expression, str):
        raise TypeError(
            f"{name} must be a regular expression as a str, or None, not {expression!r}"
        )
    try:
        re.compile(expression)
    except re.error as error:
        raise ValueError(f"{name} {expression!r} is not a regular expression: {error}") from error
    return expression


def checked_custom_lineage(data: Any) -> dict[str, CustomValue]:
    """Check custom lineage data.

    It raises a TypeError unless they are a dict of str to str, int or float.
    """
    if data is None:
        return {}
    if not isinstance(data, Mapping):
        raise TypeError(f"custom_lineage_data must be a dict or None, not {data!r}")
    for key, value in data.items():
        if not isinstance(key, str):
            raise TypeError(f"keys of custom_lineage_data must be str, not {key!r}")
        if not isinstance(value, (str, int, float)):
            raise TypeError(
                f"custom_lineage_data[{key!r}] must be a str, int or float, not {value!r}"
            )
    return {utf8_text(key): plain_value(value) for key, value in data.items() if key}


def hyper_config() -> dict[str, CustomValue]:
    """Read custom lineage data from ``MINDINSIGHT_HYPER_CONFIG``.

    MindInsight's tuner sets it to JSON.
    """
    text = os.environ.get(_HYPER_CONFIG, "")
    if not text:
        return {}
    if len(text) > _MAX_HYPER_CONFIG:
        _LOG.warning(
            "%s is ignored: it has %d characters, but at most %d are allowed",
            _HYPER_CONFIG,
            len(text),
            _MAX_HYPER_CONFIG,
        )
        return {}
    try:
        return checked_custom_lineage(json.loads(text).get("custom_lineage_data"))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        _LOG.warning("%s is ignored: %s", _HYPER_CONFIG, error)
        return {}
