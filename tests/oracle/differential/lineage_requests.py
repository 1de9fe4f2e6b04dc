"""Requests of the lineage, data graph and landscape pages; right and wrong."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence

from tests.lineage.search_conditions import search_conditions
from tests.oracle.differential.asking import Ask, get, post
from tests.oracle.differential.value_requests import UNKNOWN_RUNS, OfAllRuns, OfARun, ShownRun

SEED = 24
CONDITIONS = 300
FIELDS = (
    "summary_dir",
    "loss",
    "network",
    "epoch",
    "metric/accuracy",
    "user_defined/lr",
    "tag",
    "dataset_mark",
)
LINEAGES, TARGETS, DATASET = (
    "lineagemgr/lineages",
    "optimizer/targets/search",
    "datasets/dataset_graph",
)
INTERVALS, LANDSCAPES = "datavisual/landscape/intervals", "datavisual/landscape/landscapes"


def pages_of_lineage(runs: Sequence[ShownRun]) -> Iterator[Ask]:
    for path in (LINEAGES, TARGETS):
        for part in ("model", "dataset"):
            yield post(path, {"lineage_type": {"in": [part]}})
            for name, order, offset in itertools.product(
                FIELDS, ("ascending", "descending", None), (0, 1)
            ):
                sort = {"sorted_name": name, "sorted_type": order}
                yield post(
                    path, {"limit": 10, "offset": offset, **sort, "lineage_type": {"in": [part]}}
                )
        names = [run.train_id for run in runs[:7]]
        yield post(path, {"summary_dir": {"in": names}, "lineage_type": {"in": ["model"]}})
        yield post(path, {"summary_dir": {"not_in": names}})
        yield post(path, {"loss": {"ge": 0.1, "le": 0.9}, "sorted_name": "loss"})
        yield post(path, {"summary_dir": {"in": names[:2]}})
        # The same search lies under both.
        for condition in search_conditions(
            CONDITIONS if path == LINEAGES else CONDITIONS // 6, SEED
        ):
            yield post(path, condition)
        for body in (None, b"", b"{", b"null", b"[]", b"5", b'"x"', b"{}", b"\xff\xfe", b"NaN"):
            for content_type in ("application/json", "text/plain"):
                yield Ask("POST", path, (), body, content_type)


def tags_and_remarks(runs: Sequence[ShownRun]) -> Iterator[Ask]:
    some = ["./run001", "./run002", "./run003", "./run004"]
    for number, train_id in enumerate(some):
        yield post(LINEAGES, {"tag": (number * 3) % 11}, "PUT", train_id=train_id)
        yield post(LINEAGES, {"remark": f"größe {number}"}, "PUT", train_id=train_id)
    yield post(LINEAGES, {"tag": 5, "remark": "x" * 128}, "PUT", train_id=some[0])
    yield post(LINEAGES, {"tag": True}, "PUT", train_id=some[1])
    yield post(LINEAGES, {}, "PUT", train_id=some[2])
    for order in ("ascending", "descending"):
        yield post(LINEAGES, {"sorted_name": "tag", "sorted_type": order})
    wrong = (
        {"tag": 11},
        {"tag": -1},
        {"tag": "1"},
        {"tag": 1.5},
        {"tag": None},
        {"remark": 5},
        {"remark": "x" * 129},
    )
    for body in (
        *wrong,
        {"other": 1},
        {"tag": 1, "other": 1},
        {"remark": None},
        [],
        [1],
        "x",
        5,
        None,
        True,
    ):
        yield post(LINEAGES, body, "PUT", train_id=some[0])
        yield post(LINEAGES, body, "PUT", train_id="./nothing")
    for train_id in UNKNOWN_RUNS:
        yield post(LINEAGES, {"tag": 1}, "PUT", train_id=train_id)
    yield post(LINEAGES, {"tag": 1}, "PUT", train_id="./scalars")
    yield post(LINEAGES, {"tag": 1}, "PUT")
    for raw in (b"", b"{", b"NaN"):
        yield Ask("PUT", LINEAGES, (("train_id", some[0]),), raw)
    yield post(LINEAGES, {})
    yield Ask(
        "PUT", LINEAGES, (("train_id", some[0]),), json.dumps({"tag": 1}).encode(), "text/plain"
    )


def data_graphs(runs: Sequence[ShownRun]) -> Iterator[Ask]:
    for train_id in (*UNKNOWN_RUNS, *(f"./run{number:03d}" for number in range(20))):
        yield get(DATASET, train_id=train_id)
    yield get(DATASET)


def data_graph(run: ShownRun) -> Iterator[Ask]:
    yield get(DATASET, train_id=run.train_id)


def landscapes(run: ShownRun) -> Iterator[Ask]:
    yield get(INTERVALS, train_id=run.train_id)
    for kind in ("final", "interval", "other", "") if run.tags["loss_landscape"] else ("final",):
        yield get(LANDSCAPES, train_id=run.train_id, type=kind, metadata="true")
        yield get(LANDSCAPES, train_id=run.train_id, type=kind, interval_id="0")
    yield get(LANDSCAPES, train_id=run.train_id)
    for interval_id in (f"#{number}" for number in range(run.intervals)):
        yield get(
            LANDSCAPES,
            train_id=run.train_id,
            type="interval",
            interval_id=interval_id,
            metadata="true",
        )
        yield get(LANDSCAPES, train_id=run.train_id, interval_id=interval_id)
        yield get(LANDSCAPES, train_id=run.train_id, type="final", interval_id=interval_id)


def wrong_landscapes(runs: Sequence[ShownRun]) -> Iterator[Ask]:
    yield get(LANDSCAPES)
    yield get(LANDSCAPES, type="final")
    yield get(INTERVALS)
    known = [run.train_id for run in runs[-10:]]
    yield get(LANDSCAPES, train_id=known, type="final")
    for train_id in UNKNOWN_RUNS:
        yield get(INTERVALS, train_id=train_id)
        yield get(LANDSCAPES, train_id=train_id, type="final")
        yield get(LANDSCAPES, train_id=[known[0], train_id], type="final")


OF_A_RUN: tuple[OfARun, ...] = (data_graph, landscapes)
OF_ALL_RUNS: tuple[OfAllRuns, ...] = (
    pages_of_lineage,
    data_graphs,
    wrong_landscapes,
    tags_and_remarks,
)
