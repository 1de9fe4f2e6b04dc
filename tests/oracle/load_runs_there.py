"""Open run directories with MindInsight's own loader and lineage reader, in MindInsight's
environment.

``python load_runs_there.py`` reads lines with JSON lists of directories. It answers each with a
line, a JSON list with an object a directory: ``is_done`` (false if the loader still found something
unfinished after as many passes as would load any run, as with a torn tail), ``is_integrity``,
``scalars`` and ``tensors`` (tag -> steps and values or shapes), and ``lineage`` (the newest
training epoch of each lineage file; null if it says nothing of a training, "unreadable" if the file
could not be read).
"""

from __future__ import annotations

import glob
import json
import logging
import os
import sys
from typing import Any

from mindinsight.datavisual.data_transform.ms_data_loader import MSDataLoader
from mindinsight.lineagemgr.summary.lineage_summary_analyzer import LineageSummaryAnalyzer
from mindinsight.utils.computing_resource_mgr import ComputingResourceManager

SMALLEST_RECORD = 25  # bytes; each pass of the loader takes one record


def load(directory: str) -> dict[str, Any]:
    loader = MSDataLoader(directory)
    with ComputingResourceManager.get_instance().get_executor(max_processes_cnt=1) as executor:
        most_passes = (
            10 + sum(entry.stat().st_size for entry in os.scandir(directory)) // SMALLEST_RECORD
        )
        is_done = any(loader.load(executor) for _ in range(most_passes))
    data = loader.get_events_data()
    answer: dict[str, Any] = {
        "is_done": is_done,
        "is_integrity": loader.is_integrity,
        "scalars": {},
        "tensors": {},
    }
    for tag in tags_of(data, "scalar"):
        answer["scalars"][tag.removesuffix("/scalar")] = [
            [event.step, event.value] for event in data.tensors(tag)
        ]
    for tag in tags_of(data, "tensor"):
        answer["tensors"][tag.removesuffix("/tensor")] = [
            [event.step, list(event.value.dims)] for event in data.tensors(tag)
        ]
    answer["lineage"] = [
        epoch(path) for path in sorted(glob.glob(os.path.join(directory, "*_lineage")))
    ]
    return answer


def tags_of(data: Any, plugin: str) -> list[str]:
    try:
        tags: list[str] = data.list_tags_by_plugin(plugin)
    except KeyError:  # no value of the kind yet
        return []
    return tags


def epoch(path: str) -> int | str | None:
    try:
        found = LineageSummaryAnalyzer.get_summary_infos(path)
    except Exception:  # whatever it says, the page would show nothing
        return "unreadable"
    return (
        int(found.train_lineage.train_lineage.hyper_parameters.epoch)
        if found.train_lineage
        else None
    )


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # for whatever MindInsight prints
    for line in sys.stdin:
        answers.write(json.dumps([load(directory) for directory in json.loads(line)]) + "\n")
        answers.flush()
