"""Arguments of statistics, as the collector checks them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from mindsummary_lightning.collection.options import (
    CollectOptions,
    OutputStatisticsOptions,
    checked_custom_lineage,
    checked_gradients,
    checked_parameter_statistics,
    hyper_config,
    output_statistics_options,
)
from mindsummary_lightning.collection.parameter_selection import EVERY
from mindsummary_lightning.values.landscape_settings import LandscapeSettings


@pytest.mark.parametrize(
    ("steps", "modules", "expected"),
    [
        (None, None, None),
        (False, None, None),
        (True, None, OutputStatisticsOptions()),
        ((1, 3), None, OutputStatisticsOptions(frozenset((1, 3)))),
        (range(1, 3), "fc", OutputStatisticsOptions(frozenset((1, 2)), "fc")),
        (None, "fc", OutputStatisticsOptions(modules="fc")),
    ],
)
def test_steps_and_modules_are_chosen_apart(
    steps: Any, modules: str | None, expected: OutputStatisticsOptions | None
) -> None:
    assert output_statistics_options(steps, modules, False, 10) == expected


def test_modules_are_refused_only_where_output_statistics_are_switched_off() -> None:
    for steps in (None, True, (2,)):
        options = output_statistics_options(steps, "fc", False, 10)
        assert options is not None
        assert options.modules == "fc"
    with pytest.raises(ValueError, match="must be None with collect_output_statistics=False"):
        output_statistics_options(False, "fc", False, 10)


@pytest.mark.parametrize(
    ("steps", "whole"), [(None, {1}), (True, {1}), ((2, 5), {2, 5})], ids=["none", "all", "some"]
)
def test_whole_tensors_are_of_the_named_steps_or_of_the_first(steps: Any, whole: set[int]) -> None:
    options = output_statistics_options(steps, None, True, 10)

    assert options is not None
    assert (options.whole_steps, options.max_bytes) == (whole, 10)


@pytest.mark.parametrize(
    ("statistics", "expression"), [(None, None), (False, None), (True, EVERY), ("conv", "conv")]
)
def test_statistics_are_of_the_parameters_that_were_named(
    statistics: bool | str | None, expression: str | None
) -> None:
    options = checked_parameter_statistics(statistics, False)

    assert (options.expression, options.has_updates) == (expression, False)


@pytest.mark.parametrize(
    ("statistics", "expression"), [(None, EVERY), (True, EVERY), ("conv", "conv")]
)
def test_updates_imply_the_statistics_of_every_parameter(
    statistics: bool | str | None, expression: str
) -> None:
    options = checked_parameter_statistics(statistics, True)

    assert (options.expression, options.has_updates) == (expression, True)


_NOTHING = CollectOptions(
    collect_metric=False,
    collect_graph=False,
    collect_train_lineage=False,
    collect_eval_lineage=False,
    collect_input_data=False,
    collect_dataset_graph=False,
    histograms=False,
    histogram_regular=None,
    landscape=None,
)
_ALL = CollectOptions(
    collect_metric=True,
    collect_graph=True,
    collect_train_lineage=True,
    collect_eval_lineage=True,
    collect_input_data=True,
    collect_dataset_graph=True,
    histograms=True,
    histogram_regular=None,
    landscape=LandscapeSettings(),
)


@pytest.mark.parametrize(("keeps", "base"), [(True, _ALL), (False, _NOTHING)])
def test_what_is_named_replaces_the_default_actions_and_the_rest_stays(
    keeps: bool, base: CollectOptions
) -> None:
    def options(**data: Any) -> CollectOptions:
        found = CollectOptions.from_dict(data, keeps)
        assert found.named == {*data}
        return found

    assert CollectOptions.from_dict(None, keeps) == options() == base
    assert options(collect_graph=True) == replace(base, collect_graph=True)
    assert options(collect_dataset_graph=False) == replace(base, collect_dataset_graph=False)
    assert options(histogram_regular=None) == replace(base, histograms=True)
    assert options(histogram_regular="conv", collect_landscape=None) == replace(
        base, histograms=True, histogram_regular="conv", landscape=None
    )
    assert options(collect_landscape={}) == replace(base, landscape=LandscapeSettings())
    assert CollectOptions() == _ALL


def test_gradients_are_those_of_the_histograms_of_an_expression_or_none() -> None:
    assert [checked_gradients(option) for option in (True, False, None, "conv")] == [
        True,
        False,
        None,
        "conv",
    ]
    with pytest.raises(ValueError, match="collect_gradients '\\(' is not a regular expression"):
        checked_gradients("(")


def test_custom_data_keep_their_names_but_for_an_empty_one() -> None:
    assert checked_custom_lineage({"": 1, "fold": 2, "rate": 0.5, "text": "x"}) == {
        "fold": 2,
        "rate": 0.5,
        "text": "x",
    }
    assert checked_custom_lineage(None) == {}


def test_a_hyper_config_longer_than_mindspore_reads_is_ignored_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    text = json.dumps({"custom_lineage_data": {"fold": 7}})
    for config in ("", text.ljust(100_000)):
        monkeypatch.setenv("MINDINSIGHT_HYPER_CONFIG", config)
        assert hyper_config() == ({"fold": 7} if config else {})
    assert caplog.messages == []

    monkeypatch.setenv("MINDINSIGHT_HYPER_CONFIG", text.ljust(100_001))
    assert hyper_config() == {}
    (message,) = caplog.messages
    assert message == (
        "MINDINSIGHT_HYPER_CONFIG is ignored: it has 100001 characters, but at most 100000 are "
        "allowed"
    )
