"""Searching and sorting the table of runs: the query language, and how far summary files are read
for it.
"""

from __future__ import annotations

import json
import math
import os
import time
from pathlib import Path
from typing import Any

import pytest

from mindsummary_lightning.values import EvaluationInfo, RunInfo, TrainInfo, UserDefinedInfo
from mindsummary_lightning.viewer.api import ApiError
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.pages import run_search, run_table
from tests.reading.runs import values_at, write_lineage, write_summary
from tests.viewer.pages.asking import ask

_LONG_AGO = 1_700_000_000


@pytest.fixture
def runs(tmp_path: Path) -> LoadedRuns:
    for number, (name, optimizer, losses) in enumerate(
        [
            ("a", "Adam", [3.0, 1.0, 2.0]),
            ("b", "SGD", [5.0, 0.5, 4.0]),
            ("c", "AdamW", [1.0, math.nan]),
        ]
    ):
        records = [
            values_at(step, {"train/loss": loss, "loss": loss}, 100.0)
            for step, loss in enumerate(losses)
        ]
        write_summary(tmp_path / name, records)
        settings = UserDefinedInfo({"dead": number % 2, "run 1": number, "AP@IoU=0.50": number})
        values = [
            TrainInfo(optimizer=optimizer),
            EvaluationInfo(json.dumps({"accuracy": number / 2})),
            settings,
        ]
        write_lineage(tmp_path / name, [*values, RunInfo({"status": "success"})])
        for file in (tmp_path / name).iterdir():
            os.utime(file, (_LONG_AGO + number, _LONG_AGO + number))
    return LoadedRuns(str(tmp_path))


def _search(runs: LoadedRuns, query: str = "", **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = ask(
        runs, "run-table/search", body=json.dumps({"query": query, **more}).encode()
    )
    return found


def _names(answer: dict[str, Any]) -> str:
    return "".join(name.removeprefix("./") for name in answer["train_ids"])


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", "cba"),
        ("adam", "ca"),
        ("optimizer=adam", "a"),
        ("dead=true", "b"),
        ("accuracy>0.4", "cb"),
        ("curve=NaN", "c"),
        ("curve!=NaN", "ba"),
        ("last:loss=NaN", "c"),
        ("min:train/loss<0.7", "b"),
        ("max:train/loss>=3 optimizer=Adam", "a"),
        ("steps=1", "c"),
        ("status=finished", "cba"),
        ("running", ""),
        ("status=running", ""),
        ("run 1=2", "c"),
        ('"run 1"=2', "c"),
        ("AP@IoU=0.50>0", "cb"),
        ("written>=2023-11-14", "cba"),
        ("written>2024", ""),
        ("run=a OR summary_dir=./b", "ba"),
    ],
)
def test_what_a_cell_shows_is_found(runs: LoadedRuns, query: str, names: str) -> None:
    answer = _search(runs, query)

    assert (_names(answer), answer["problem"], answer["unread"]) == (names, None, 0)


@pytest.mark.parametrize(
    ("field", "ascending", "descending"),
    [
        ("last:train/loss", "abc", "bac"),  # NaN is last in both
        ("min:loss", "bca", "cab"),
        ("steps", "cba", "bac"),
        ("optimizer", "acb", "bca"),
        ("user_defined/run 1", "abc", "cba"),
        ("written", "abc", "cba"),
        ("a column that was there yesterday", "cba", "cba"),
    ],
)
def test_rows_are_sorted_by_any_column(
    runs: LoadedRuns, field: str, ascending: str, descending: str
) -> None:
    assert _names(_search(runs, sort=field)) == ascending
    assert _names(_search(runs, sort=field, descending=True)) == descending


def test_a_scalar_is_found_by_its_tag_once_its_run_was_read(runs: LoadedRuns) -> None:
    _search(runs, sort="steps")

    assert _names(_search(runs, "train/loss<3")) == "a"


def test_a_run_that_is_written_is_found_as_running(tmp_path: Path) -> None:
    write_summary(tmp_path / "live", [values_at(1, {"loss": 1.0}, time.time())], int(time.time()))
    write_summary(tmp_path / "old", [values_at(1, {"loss": 1.0})])
    for file in (tmp_path / "old").iterdir():
        os.utime(file, (_LONG_AGO, _LONG_AGO))
    runs = LoadedRuns(str(tmp_path))

    for query in ("running", "status=running", "status=RUNNING"):
        assert _names(_search(runs, query)) == "live", query
    assert (
        _names(_search(runs, "状态=运行中", aliases={"状态": "status", "运行中": "running"}))
        == "live"
    )
    assert _names(_search(runs, "status!=running")) == "old"


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("nothing=1", {"kind": "unknown", "field": "nothing", "names": ()}),
        ("metric/nothing>1", {"kind": "unknown", "field": "metric/nothing", "names": ()}),
        ("accuracy>high", {"kind": "number", "field": "metric/accuracy", "names": ()}),
    ],
)
def test_a_query_that_cannot_be_answered_says_why(
    runs: LoadedRuns, query: str, problem: dict[str, object]
) -> None:
    answer = _search(runs, query)

    assert (answer["train_ids"], answer["problem"]) == ([], problem)


def test_a_word_that_no_run_has_is_named(runs: LoadedRuns) -> None:
    assert _search(runs, "adam nowhere")["nowhere"] == "nowhere"
    assert _search(runs, "adam")["nowhere"] is None


def test_summary_files_are_read_for_a_second_at_a_time_and_none_without_need(
    runs: LoadedRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    facts_of = run_search.facts_of

    def counted(*arguments: Any) -> dict[str, Any]:
        read.append(arguments[1].train_id)
        return facts_of(*arguments)

    monkeypatch.setattr(run_search, "facts_of", counted)
    monkeypatch.setattr(run_search, "LIMIT_S", 0)

    for query in ("optimizer=adam", "status=finished", "written>2020", "run=a"):
        assert (_search(runs, query)["unread"], read) == (0, [])
    assert (_search(runs, "optimizer=adam* min:loss<9")["unread"], len(read)) == (1, 1)
    assert [_search(runs, "min:loss<9")["unread"] for _ in range(3)] == [1, 0, 0]
    assert sorted(read) == ["./a", "./b", "./c"]
    # that no run has a scalar is known by now
    assert (_search(runs, "min:nothing<9")["unread"], len(read)) == (0, 3)
    assert (_search(runs, "min:loss<9 min:train/loss<9")["unread"], len(read)) == (2, 4)


def test_a_scalar_is_read_though_another_one_of_the_run_is_known(runs: LoadedRuns) -> None:
    assert _names(_search(runs, "min:loss<9")) == "cba"
    assert _names(_search(runs, "min:loss<9 min:train/loss<0.7")) == "b"


def test_what_is_known_of_a_growing_run_is_taken_for_new_for_some_seconds(tmp_path: Path) -> None:
    write_summary(tmp_path / "a", [values_at(1, {"loss": 1.0})], int(time.time()))
    now = 100.0
    runs = LoadedRuns(str(tmp_path), clock=lambda: now)

    def read_at() -> float:
        _search(runs, "last:loss=1")
        return run_table.table_of(runs.base_dir).facts["./a"].read_at

    assert read_at() == 100.0
    now = 104.9
    assert read_at() == 100.0
    now = 105.0
    assert read_at() == 105.0


def test_a_growing_run_that_is_not_read_again_in_time_is_found_as_it_was_and_is_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        write_summary(tmp_path / name, [values_at(1, {"loss": 1.0})], int(time.time()))
    runs = LoadedRuns(str(tmp_path))
    assert sorted(_names(_search(runs, "last:loss=1"))) == ["a", "b", "c"]
    monkeypatch.setattr(run_search, "FRESH_S", 0)
    monkeypatch.setattr(run_search, "LIMIT_S", 0)

    answer = _search(runs, "last:loss=1")

    assert (sorted(_names(answer)), answer["unread"]) == (["a", "b", "c"], 2)


def test_a_date_is_of_the_zone_of_the_browser(tmp_path: Path) -> None:
    write_summary(tmp_path / "a", [values_at(1, {"loss": 1.0})])
    for file in (tmp_path / "a").iterdir():
        os.utime(file, (1_769_900_400, 1_769_900_400))  # 2026-01-31 23:00 UTC
    runs = LoadedRuns(str(tmp_path))

    assert _names(_search(runs, "written=2026-01-31", timezone="UTC")) == "a"
    assert _names(_search(runs, "written=2026-02-01", timezone="Asia/Shanghai")) == "a"
    assert len(_search(runs, "", timezone="Nowhere/Land")["train_ids"]) == 1


@pytest.mark.parametrize(
    "body", [b"[]", b"{}", b'{"query": 3}', b'{"query": "", "aliases": {"a": 1}}', b"not JSON"]
)
def test_a_request_that_is_no_query_is_refused(runs: LoadedRuns, body: bytes) -> None:
    with pytest.raises(ApiError):
        ask(runs, "run-table/search", body=body)


def test_a_run_that_grows_is_searched_as_it_is_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_search, "FRESH_S", 0)
    file = write_summary(tmp_path / "a", [values_at(1, {"loss": 1.0})], int(time.time()))
    runs = LoadedRuns(str(tmp_path))
    assert _names(_search(runs, "last:loss=1")) == "a"

    with file.open("ab") as grown:
        grown.write(values_at(2, {"loss": 0.5}))

    assert _names(_search(runs, "last:loss=0.5")) == "a"


def test_a_search_for_a_slow_expression_ends(
    runs: LoadedRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_search, "EXPRESSION_LIMIT_S", -1.0)

    assert _names(_search(runs, "a")) != ""
    answer = _search(runs, "/.*a.*z/")

    assert (answer["train_ids"], answer["problem"]["kind"]) == ([], "expression")
    assert list(answer["problem"]["names"]) == ["it takes too long"]


def test_an_expression_meets_the_name_as_it_is_shown(runs: LoadedRuns) -> None:
    assert _names(_search(runs, "/^[ab]$/", sort="run")) == "ab"
