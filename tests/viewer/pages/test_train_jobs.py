from __future__ import annotations

import json
import os
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from mindsummary_lightning.values import Tensor, TrainInfo
from mindsummary_lightning.viewer.api import ApiError, ApiRequest
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.pages import train_jobs
from tests.reading.runs import values_at, write_lineage, write_summary
from tests.viewer.pages.asking import ask

LIST, PLUGINS = "datavisual/train-jobs", "datavisual/plugins"


def runs_below(base: Path, *names: str) -> LoadedRuns:
    for age, name in enumerate(names):
        path = write_summary(base / name, [values_at(1, {"loss": 1.0})])
        os.utime(path, (1_700_000_000 - age, 1_700_000_000 - age))
    return LoadedRuns(str(base))


def test_the_run_updated_last_is_listed_first(tmp_path: Path) -> None:
    runs = runs_below(tmp_path, "new", "logs/net/version_0", "old")

    answer = ask(runs, LIST, limit="2")

    assert (answer["total"], answer["name"], answer["load_status"]) == (3, tmp_path.name, "loaded")
    assert [row["train_id"] for row in answer["train_jobs"]] == ["./new", "./logs/net/version_0"]
    assert [row["train_id"] for row in ask(runs, LIST, limit="2", offset="1")["train_jobs"]] == [
        "./old"
    ]


def test_a_page_of_the_list_has_ten_runs_unless_more_are_asked_for(tmp_path: Path) -> None:
    runs = runs_below(tmp_path, *(f"run{number:02d}" for number in range(12)))

    assert [len(ask(runs, LIST, **query)["train_jobs"]) for query in ({}, {"limit": "11"})] == [
        10,
        11,
    ]
    for limit in ("0", "1000"):
        with pytest.raises(ApiError, match=r"'limit' should in \[1, 999\]"):
            ask(runs, LIST, limit=limit)


def test_a_list_opens_no_file_and_shows_the_tags_of_runs_that_were_asked_for(
    tmp_path: Path,
) -> None:
    runs = runs_below(tmp_path, "a", "b")
    ask(runs, PLUGINS, train_id="./b")

    first, second = ask(runs, LIST)["train_jobs"]

    assert (first["cache_status"], first["plugins"]["scalar"]) == ("NOT_IN_CACHE", [])
    assert (second["cache_status"], second["plugins"]["scalar"]) == ("CACHED", ["loss/scalar"])


def test_a_run_whose_files_are_deleted_leaves_the_list_at_the_next_look(tmp_path: Path) -> None:
    now = [0.0]
    runs = LoadedRuns(str(tmp_path), clock=lambda: now[0])
    path = write_summary(tmp_path / "a", [values_at(1, {"loss": 1.0})])
    ask(runs, PLUGINS, train_id="./a")

    path.unlink()
    now[0] += 1.0

    assert ask(runs, LIST)["train_jobs"] == []


def test_half_a_record_at_the_end_of_a_run_in_memory_is_seen_by_the_list(tmp_path: Path) -> None:
    runs = LoadedRuns(str(tmp_path))
    path = write_summary(tmp_path / "a", [values_at(1, {"loss": 1.0})])
    ask(runs, PLUGINS, train_id="./a")
    assert [row["is_integrity"] for row in ask(runs, LIST)["train_jobs"]] == [True]

    whole = path.read_bytes()
    path.write_bytes(whole + whole[:20])

    assert [row["is_integrity"] for row in ask(runs, LIST)["train_jobs"]] == [False]


def test_of_a_run_with_lineage_alone_every_tag_is_without_values(tmp_path: Path) -> None:
    write_lineage(tmp_path / "a", [TrainInfo(network="LeNet")])
    runs = LoadedRuns(str(tmp_path))
    asked = {"train_id": "./a", "tag": "x"}

    assert ask(runs, "datavisual/scalar/metadata", **asked) == {"metadatas": []}
    assert ask(runs, "datavisual/image/metadata", **asked) == {"metadatas": []}
    assert ask(runs, "datavisual/histograms", **asked) == {**asked, "histograms": []}
    assert ask(runs, "datavisual/scalars", **asked) == {"scalars": [{**asked, "values": []}]}
    for detail in ({}, {"detail": "stats"}, {"detail": "histogram"}):
        assert ask(runs, "datavisual/tensors", **asked, **detail) == {
            "tensors": [{**asked, "values": []}]
        }
    with pytest.raises(ApiError, match="this step: 1 data may has been dropped") as error:
        ask(runs, "datavisual/tensors", **asked, detail="data", step="1", dims="[0]")
    assert error.value.code == "50545014"
    with pytest.raises(
        ApiError, match="Can not find the step with given train job id and tag"
    ) as error:
        ask(runs, "datavisual/image/single-image", **asked, step="1")
    assert error.value.code == "5054500D"
    assert [row["cache_status"] for row in ask(runs, LIST, train_id="./a")["train_jobs"]] == [
        "NOT_IN_CACHE"
    ]
    # a graph, though an empty one: not lineage alone any more
    (tmp_path / "a" / "model.pb").touch()
    runs.scan_again()
    with pytest.raises(ApiError, match="Scalar value is not exist"):
        ask(runs, "datavisual/scalar/metadata", **asked)


def test_a_list_for_comparing_runs_reads_the_newest_ones_for_a_limited_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"run{number:02d}" for number in range(20)]
    runs = runs_below(tmp_path, *names)

    rows = ask(runs, LIST, limit="999")["train_jobs"]
    assert [row["cache_status"] for row in rows] == ["CACHED"] * 15 + ["NOT_IN_CACHE"] * 5

    monkeypatch.setattr(train_jobs, "LIST_LIMIT_S", -1.0)
    (first, second) = ask(runs_below(tmp_path / "other", "a", "b"), LIST, limit="999")["train_jobs"]
    assert (first["cache_status"], second["cache_status"]) == ("CACHED", "NOT_IN_CACHE")


def test_only_a_list_of_more_than_a_hundred_rows_reads_runs(tmp_path: Path) -> None:
    runs = runs_below(tmp_path, "a")

    for limit, status in (("100", "NOT_IN_CACHE"), ("101", "CACHED")):
        (row,) = ask(runs, LIST, limit=limit)["train_jobs"]
        assert row["cache_status"] == status


def test_runs_without_values_are_none_of_those_that_are_read_to_compare(tmp_path: Path) -> None:
    for number in range(16):
        write_lineage(tmp_path / f"lineage{number}", [TrainInfo(network="LeNet")])

    rows = ask(runs_below(tmp_path, "old"), LIST, limit="999")["train_jobs"]

    assert [row["train_id"] for row in rows if row["cache_status"] == "CACHED"] == ["./old"]
    assert rows[-1]["train_id"] == "./old"


def test_of_runs_chosen_by_hand_all_are_read(tmp_path: Path) -> None:
    names = [f"run{number:02d}" for number in range(20)]
    chosen = ApiRequest({"limit": ["999"]}, only=frozenset(f"./{name}" for name in names[1:]))

    rows = train_jobs.train_jobs(runs_below(tmp_path, *names), chosen)["train_jobs"]

    assert [row["cache_status"] for row in rows] == ["CACHED"] * 19


@pytest.mark.slow
def test_more_runs_than_mindinsight_lists_are_listed_the_newest_first(tmp_path: Path) -> None:
    names = [f"run{number:04d}" for number in range(1_200)]
    runs = runs_below(tmp_path, *names)

    pages = [ask(runs, LIST, limit="100", offset=str(page)) for page in range(13)]

    assert {page["total"] for page in pages} == {1_200}
    assert [row["train_id"] for page in pages for row in page["train_jobs"]] == [
        f"./{name}" for name in names
    ]


def test_more_tags_than_mindinsight_keeps_are_shown(tmp_path: Path) -> None:
    scalars = {f"loss_{number}": 1.0 for number in range(400)}
    tensors = {f"weight_{number}": Tensor(np.zeros(2, np.float32)) for number in range(8)}
    write_summary(tmp_path / "a", [values_at(1, {**scalars, **tensors})])

    tags = ask(LoadedRuns(str(tmp_path)), PLUGINS, train_id="./a")["plugins"]

    assert (len(tags["scalar"]), len(tags["tensor"])) == (400, 8)


def test_a_run_asked_for_by_name_is_read(tmp_path: Path) -> None:
    (row,) = ask(runs_below(tmp_path, "deep/a"), LIST, train_id="./deep/a")["train_jobs"]

    assert (row["cache_status"], row["plugins"]["scalar"], row["is_integrity"]) == (
        "CACHED",
        ["loss/scalar"],
        True,
    )


def test_an_incomplete_last_record_is_reported_and_costs_nothing_else(tmp_path: Path) -> None:
    path = write_summary(tmp_path / "a", [values_at(1, {"loss": 1.0})])
    path.write_bytes(path.read_bytes() + b"\x09\0")

    (row,) = ask(LoadedRuns(str(tmp_path)), LIST, train_id="./a")["train_jobs"]

    assert (row["is_integrity"], row["plugins"]["scalar"]) == (False, ["loss/scalar"])


def test_a_file_time_beyond_the_calendar_is_shown_as_its_end(tmp_path: Path) -> None:
    path = write_summary(tmp_path / "a", [], second=253402300799)
    os.utime(path, (2**40, 2**40))

    (row,) = ask(LoadedRuns(str(tmp_path)), LIST)["train_jobs"]

    assert row["create_time"].startswith("9999-12-30") or row["create_time"].startswith(
        "9999-12-31"
    )


def test_files_are_counted_by_kind(tmp_path: Path) -> None:
    write_summary(tmp_path / "a", [])
    write_lineage(tmp_path / "a", [])
    (tmp_path / "a" / "graph.pb").write_bytes(b"")

    (row,) = ask(LoadedRuns(str(tmp_path)), LIST)["train_jobs"]

    assert (row["summary_files"], row["lineage_files"], row["graph_files"]) == (1, 1, 1)


def test_a_row_has_all_that_the_list_of_mindinsight_shows(tmp_path: Path) -> None:
    path = write_summary(tmp_path / "a", [values_at(1, {"loss": 1.0})], 1_700_000_000)
    other = write_summary(tmp_path / "a", [], 1_600_000_000)
    for file, written in ((path, 1_700_000_123), (other, 1_600_000_000)):
        os.utime(file, (written, written))

    (row,) = ask(LoadedRuns(str(tmp_path)), LIST, train_id="./a")["train_jobs"]

    tags = row.pop("plugins")
    assert {kind: names for kind, names in tags.items() if names} == {"scalar": ["loss/scalar"]}
    assert row == {
        "train_id": "./a",
        "relative_path": "./a",
        "create_time": f"{datetime.fromtimestamp(1_700_000_000)}",
        "update_time": f"{datetime.fromtimestamp(1_700_000_123)}",
        "summary_files": 2,
        "lineage_files": 0,
        "graph_files": 0,
        "profiler_dir": None,
        "profiler_type": "",
        "dump_dir": None,
        "cache_status": "CACHED",
        "is_integrity": True,
    }


@pytest.mark.skipif(os.name == "nt", reason="files of Windows have no such times")
def test_a_file_time_before_the_calendar_is_shown_as_its_beginning(tmp_path: Path) -> None:
    os.utime(write_summary(tmp_path / "a", []), (-5, -5))

    (row,) = ask(LoadedRuns(str(tmp_path)), LIST)["train_jobs"]

    assert row["update_time"] == f"{datetime.fromtimestamp(0)}"


def test_runs_to_compare_are_read_and_unknown_ones_skipped(tmp_path: Path) -> None:
    runs = runs_below(tmp_path, "a")
    body = json.dumps({"train_ids": ["./nothing", "./a"]}).encode()

    answer = ask(runs, "datavisual/train-job-caches", body=body)

    assert answer == {"cache_result": [{"train_id": "./a", "cache_status": "CACHED"}]}
    assert runs.summary("./a") is not None


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'"text"', b"{}", b'{"train_ids": null}', b"[" * 100_000]
)
def test_a_body_without_runs_to_compare_is_refused(tmp_path: Path, body: bytes) -> None:
    with pytest.raises(ApiError, match="'train_ids' is required"):
        ask(runs_below(tmp_path), "datavisual/train-job-caches", body=body)


@pytest.mark.parametrize(
    ("body", "media_type", "code"),
    [
        (b'{"train_ids": "./a"}', "application/json", "50540001"),
        (b'{"train_ids": ["./a", 3]}', "application/json", "50540001"),
        (b'{"train_ids": ["./a"]}', "text/plain", "50540003"),
    ],
    ids=["no list", "no text", "no JSON"],
)
def test_runs_to_compare_are_a_list_of_names_in_json(
    tmp_path: Path, body: bytes, media_type: str, code: str
) -> None:
    with pytest.raises(ApiError) as refused:
        train_jobs.train_job_caches(
            runs_below(tmp_path, "a"), ApiRequest(body=body, content_type=media_type)
        )

    assert refused.value.code == code


def test_what_mindinsight_has_beside_runs_is_said_to_be_missing(tmp_path: Path) -> None:
    runs = runs_below(tmp_path / "runs", "a")

    assert train_jobs.ui_config(runs, ApiRequest()) == {"enable_debugger": False}
    assert train_jobs.explain_jobs(runs, ApiRequest()) == {
        "explain_jobs": [],
        "name": "runs",
        "total": 0,
    }


def test_tags_are_read_whether_a_manual_update_is_asked_for_or_not(tmp_path: Path) -> None:
    runs = runs_below(tmp_path, "a")

    for text in ("true", "FALSE"):
        answer = ask(runs, PLUGINS, train_id="./a", manual_update=text)
        assert answer["plugins"]["scalar"] == ["loss/scalar"]
    with pytest.raises(ApiError, match="manual_update must be 'false' or 'true'"):
        ask(runs, PLUGINS, train_id="./a", manual_update="1")


def test_an_unknown_kind_of_tags_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ApiError, match="'plugin_name' only can be one of") as refused:
        ask(runs_below(tmp_path, "a"), "datavisual/single-job", plugin_name="x", train_id="./a")

    assert refused.value.code == "5054500B"


def test_tags_of_one_kind_are_sorted_as_they_are_shown(tmp_path: Path) -> None:
    write_summary(tmp_path / "a", [values_at(1, {"loss": 1.0, "loss-x": 1.0})])

    answer = ask(
        LoadedRuns(str(tmp_path)), "datavisual/single-job", plugin_name="scalar", train_id="./a"
    )

    assert answer["train_jobs"] == [
        {"id": "./a", "name": "./a", "tags": ["loss-x/scalar", "loss/scalar"]}
    ]


def test_the_tags_of_a_kind_are_sorted_the_graph_of_the_compiler_among_them(
    tmp_path: Path,
) -> None:
    runs = runs_below(tmp_path, "a")
    for name in ("z.pb", "ms_output_optimize.pb", "b.pb"):
        (tmp_path / "a" / name).write_bytes(b"model")

    (job,) = ask(runs, "datavisual/single-job", train_id="./a", plugin_name="graph")["train_jobs"]

    tags = ["b.pb", "ms_output_optimize.pb", "z.pb"]
    assert job == {"id": "./a", "name": "./a", "tags": tags}
    listed = ask(runs, PLUGINS, train_id="./a")["plugins"]["graph"]
    assert listed == ["ms_output_optimize.pb", "b.pb", "z.pb"]
