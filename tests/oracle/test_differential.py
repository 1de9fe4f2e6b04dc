"""The viewer answers as a real MindInsight 2.3.1 does: thousands of requests over the same runs,
the same JSON.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from mindsummary_lightning.viewer import remarks
from tests.oracle.differential import graph_requests, lineage_requests, value_requests
from tests.oracle.differential.asking import Answer, Ask, Server, get, running_viewer
from tests.oracle.differential.comparing import mismatch
from tests.oracle.differential.differences import DIFFERENCES
from tests.oracle.differential.runs import LINEAGE_ALONE, write_runs
from tests.oracle.differential.value_requests import ShownRun
from tests.oracle.mindinsight_server import running_mindinsight, wait_until

REQUESTS = (value_requests, graph_requests, lineage_requests)
LEAST_REQUESTS = 2_000
TRIES, PAUSE_S = 12, 0.5  # on a busy machine it takes seconds to load a run again
MOST_SHOWN = 400
PATIENCE = 10  # polls for a run that is not the same on both sides
AHEAD = 5  # runs that the real one loads meanwhile; it holds 15


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("differential")
    write_runs(path)
    return path


@pytest.fixture(scope="module")
def real(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_mindinsight(base, tmp_path_factory.mktemp("workspace")) as server:
        yield Server(server.address)


@pytest.fixture(scope="module")
def viewer(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    state = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remarks, "state_directory", lambda: str(state))
        with running_viewer(str(base)) as server:
            yield server


@pytest.mark.timeout(1800)  # 13,000 requests to each of two servers
def test_the_viewer_answers_as_mindinsight_does(real: Server, viewer: Server) -> None:
    asked: Counter[str] = Counter()
    explained: Counter[int] = Counter()
    unexplained: list[str] = []
    for ask in _all_requests(real, viewer):
        asked[f"{ask.method} {ask.path}"] += 1
        for _ in range(TRIES):
            theirs, ours = real.ask(ask), viewer.ask(ask)
            difference = mismatch(theirs, ours)
            if difference is None:
                break
            reasons = [
                index for index, one in enumerate(DIFFERENCES) if one.explains(ask, theirs, ours)
            ]
            if reasons:
                break
            # for moments in which it scans its directories again and lets go of lineage alone
            time.sleep(PAUSE_S)
            real.ask(_loading(ask.value("train_id") or ""))
        if difference is not None:
            explained.update(reasons[:1])
            if not reasons:
                unexplained.append(f"{ask}\n    {difference}")
    print(
        f"{asked.total()} requests: {dict(asked)}; {explained.total()} explained, "
        f"{len(unexplained)} unexplained"
    )
    for index, one in enumerate(DIFFERENCES):
        print(f"  {explained[index]:5} {one.reason}")

    assert not unexplained, f"{len(unexplained)} differ:\n" + "\n".join(unexplained[:MOST_SHOWN])
    assert asked.total() >= LEAST_REQUESTS
    assert [one.reason for index, one in enumerate(DIFFERENCES) if not explained[index]] == []


def _all_requests(real: Server, viewer: Server) -> Iterator[Ask]:
    """The requests of all runs, then those of each run while MindInsight holds it."""
    rows = real.ask(get("datavisual/train-jobs", limit=999)).content["train_jobs"]
    alone = f"./{LINEAGE_ALONE}"
    listed = [
        row["train_id"]
        for row in rows
        if row["summary_files"] or row["graph_files"] or row["train_id"] == alone
    ]
    runs = []
    for number, train_id in enumerate(listed):
        for later in listed[number + 1 : number + 1 + AHEAD]:
            real.ask(_loading(later))
        run = _loaded(real, viewer, train_id)
        runs.append(run)
        yield from _flat(make(run) for module in REQUESTS for make in module.OF_A_RUN)
    yield from _flat(make(runs) for module in REQUESTS for make in module.OF_ALL_RUNS)


def _flat(found: Iterable[Iterator[Ask]]) -> Iterator[Ask]:
    for asks in found:
        yield from asks


def _loading(train_id: str) -> Ask:
    """What makes the real one load a run; its answer lists the tags it has by then."""
    return get("datavisual/plugins", train_id=train_id, manual_update="true")


def _loaded(real: Server, viewer: Server, train_id: str) -> ShownRun:
    def answer() -> Answer:
        return real.ask(_loading(train_id))

    polls = 0

    def is_loaded() -> bool:
        # Values arrive from its parser some time after it says that the last record was read.
        nonlocal polls
        polls += 1
        (row,) = real.ask(get("datavisual/train-jobs", train_id=train_id)).content["train_jobs"]
        is_complete = (
            answer().content == viewer.ask(get("datavisual/plugins", train_id=train_id)).content
        )
        is_cached = row["cache_status"] == (
            "NOT_IN_CACHE" if train_id == f"./{LINEAGE_ALONE}" else "CACHED"
        )
        return is_cached and (is_complete or polls > PATIENCE)

    wait_until(is_loaded, lambda: f"{train_id} is loaded")
    tags = answer().content["plugins"]
    if train_id == f"./{LINEAGE_ALONE}":
        return ShownRun(train_id, tags, {}, {}, {}, 0)
    steps, dims = {}, {}
    for tag in tags["image"]:
        found = real.ask(get("datavisual/image/metadata", train_id=train_id, tag=tag)).content[
            "metadatas"
        ]
        steps[tag] = [sample["step"] for sample in found]
    for tag in tags["tensor"]:
        (one,) = real.ask(get("datavisual/tensors", train_id=train_id, tag=tag)).content["tensors"]
        steps[tag] = [sample["step"] for sample in one["values"]]
        dims[tag] = [len(sample["value"]["dims"]) for sample in one["values"]]
    nodes = {
        tag: _node_names(real, {"train_id": train_id, "mode": mode, "tag": tag})
        for plugin, mode in graph_requests.MODES.items()
        for tag in tags[plugin]
    }
    intervals = real.ask(get("datavisual/landscape/intervals", train_id=train_id)).content[
        "intervals"
    ]
    return ShownRun(train_id, tags, steps, dims, nodes, len(intervals))


def _node_names(real: Server, view: dict[str, str]) -> list[str]:
    names: list[str] = []
    scopes = [""]
    while scopes:
        nodes = real.ask(get("datavisual/graphs/nodes", **view, name=scopes.pop())).content["nodes"]
        names += [node["name"] for node in nodes]
        scopes += [node["name"] for node in nodes if node["subnode_count"]]
    return names
