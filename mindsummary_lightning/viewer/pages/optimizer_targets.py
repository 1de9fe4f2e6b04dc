"""Endpoint of the panel beside the model lineage: which hyper-parameters a metric or the loss depends on."""

from __future__ import annotations

import math
from typing import Any

from mindsummary_lightning.viewer.api import ApiRequest
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.pages.lineages import search_runs
from mindsummary_lightning.viewer.parameter_importance import (
    NOT_ALL_NUMBERS,
    LineageTable,
    buckets,
    importance,
    lineage_table,
)

__all__ = ["targets"]


def targets(runs: LoadedRuns, request: ApiRequest) -> dict[str, Any]:
    """The hyper-parameters that each metric and the loss depend on."""
    found = search_runs(runs, request)["object"]
    table = lineage_table(run.get("model_lineage", {}) for run in found)
    return {
        "metadata": {
            "train_ids": [run.get("summary_dir") for run in found],
            "possible_hyper_parameters": [
                {"name": name, "data": _data(table, name)} for name in table.hyper_parameters()
            ],
            "unrecognized_params": [
                {"name": name, "unselected": True, "reason_code": NOT_ALL_NUMBERS} for name in table.dropped
            ],
        },
        "targets": [
            {
                "name": target,
                "buckets": buckets(table.columns[target]),
                "hyper_parameters": _ranked(table, target),
                "data": _data(table, target),
            }
            for target in table.targets()
        ],
    }


def _ranked(table: LineageTable, target: str) -> list[dict[str, Any]]:
    """The hyper-parameters, most important first; of equally important ones those that users defined come last."""
    ranked = []
    for name in table.hyper_parameters():
        value, reason = importance(table.columns[name], table.columns[target])
        ranked.append({"name": name, "importance": value} | ({} if reason is None else {"reason_code": reason}))
    return sorted(ranked, key=lambda shown: (-shown["importance"], shown["name"].startswith("["), shown["name"]))


def _data(table: LineageTable, name: str) -> list[float | None]:
    return [None if math.isnan(value) else value for value in table.columns[name].tolist()]
