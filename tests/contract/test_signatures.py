"""Names, order and defaults of the arguments that MindSpore's users know, and of those this package promises."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import mindsummary_lightning as ours

_NONE = inspect.Parameter.empty


def _shape(function: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Positional and keyword-only arguments with their defaults, in order."""
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    keyword_only = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
    return {p.name: p.default for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD}, keyword_only


_MINDSPORE = {
    "SummaryRecord": {
        "log_dir": _NONE,
        "file_prefix": "events",
        "file_suffix": "_MS",
        "network": None,
        "max_file_size": None,
        "raise_exception": False,
        "export_options": None,
    },
    "SummaryCollector": {
        "summary_dir": None,
        "collect_freq": 10,
        "collect_specified_data": None,
        "keep_default_action": True,
        "custom_lineage_data": None,
        "collect_tensor_freq": None,
        "max_file_size": None,
        "export_options": None,
    },
    "SummaryLandscape": {"summary_dir": _NONE},
    "TrainLineage": {"summary_record": _NONE, "raise_exception": False},
    "EvalLineage": {"summary_record": _NONE, "raise_exception": False},
    "get_summary_lineage": {"summary_dir": _NONE, "keys": None},
    "filter_summary_lineage": {"summary_base_dir": _NONE, "search_condition": None},
    "MindInsightLogger": {"save_dir": ".", "name": "lightning_logs", "version": None},
}
_METHODS = {
    "SummaryRecord.add_value": {"plugin": _NONE, "name": _NONE, "value": _NONE},
    "SummaryRecord.record": {"step": _NONE, "train_network": None, "plugin_filter": None},
    "SummaryRecord.set_mode": {"mode": _NONE},
    "SummaryRecord.flush": {},
    "SummaryRecord.close": {},
    "SummaryLandscape.gen_landscapes_with_multi_process": {
        "callback_fn": _NONE,
        "collect_landscape": None,
        "device_ids": None,
        "output": None,
    },
    "SummaryLandscape.clean_ckpt": {},
    "MindInsightLogger.log_metrics": {"metrics": _NONE, "step": None},
    "MindInsightLogger.log_graph": {"model": _NONE, "input_array": None},
    "MindInsightLogger.finalize": {"status": _NONE},
}
_KEYWORD_ONLY = {
    "SummaryCollector": {
        "collect_gradients": None,
        "collect_input_freq": None,
        "landscape_max_bytes": 2**26,
        "loss": None,
    },
    "MindInsightLogger": {
        "prefix": "",
        "sub_dir": None,
        "max_file_size": None,
        "export_options": None,
        "raise_exception": False,
        "log_graph": True,
        "file_mode": 0o600,
    },
}


@pytest.mark.parametrize("name", _MINDSPORE)
def test_a_constructor_takes_what_its_users_know_in_their_order(name: str) -> None:
    positional, _ = _shape(getattr(ours, name))

    assert list(positional.items()) == list(_MINDSPORE[name].items())


@pytest.mark.parametrize("name", _METHODS)
def test_a_method_takes_what_its_users_know_in_their_order(name: str) -> None:
    owner, method = name.split(".")
    positional, _ = _shape(getattr(getattr(ours, owner), method))

    assert list(positional.items()) == list(_METHODS[name].items())


@pytest.mark.parametrize("name", _KEYWORD_ONLY)
def test_what_was_added_is_keyword_only(name: str) -> None:
    _, keyword_only = _shape(getattr(ours, name))

    assert keyword_only == _KEYWORD_ONLY[name]


def test_num_process_is_taken_from_older_scripts() -> None:
    _, keyword_only = _shape(ours.SummaryRecord)

    assert keyword_only["num_process"] is None
