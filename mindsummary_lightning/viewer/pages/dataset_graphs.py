"""Endpoint of the data graph page: the data pipeline of a run."""

from __future__ import annotations

from typing import Any

from mindsummary_lightning.viewer.api import ApiRequest
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.pages.lineages import run_lineage
from mindsummary_lightning.viewer.parameters import run_name

__all__ = ["dataset_graph"]


def dataset_graph(runs: LoadedRuns, request: ApiRequest) -> dict[str, Any]:
    """The data pipeline of a run; nothing for one without."""
    train_id = run_name(runs, request)
    lineage = run_lineage(runs, train_id)
    graph = lineage.sections["dataset_graph"] if lineage is not None else None
    return {"dataset_graph": graph, "summary_dir": train_id} if graph else {}
