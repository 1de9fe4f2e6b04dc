"""The table of runs: rows without reading summary files, curves for some rows, and pages about
selected runs.
"""

from __future__ import annotations

import base64
import gc
import itertools
import json
import math
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mindsummary_lightning.reading.followed_run import FollowedRun
from mindsummary_lightning.values import (
    EvaluationInfo,
    Event,
    Graph,
    GraphNode,
    LossLandscape,
    Points,
    RunInfo,
    TrainInfo,
    UserDefinedInfo,
)
from mindsummary_lightning.viewer import remarks
from mindsummary_lightning.viewer.api import ApiError, ApiRequest
from mindsummary_lightning.viewer.app import without_selection
from mindsummary_lightning.viewer.frontend import own_files
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.pages import page_handlers, run_table
from tests.reading.runs import (
    record,
    values_at,
    write_lineage,
    write_parameter_run,
    write_summary,
)
from tests.viewer.pages.asking import ask


def _two_runs(base: Path) -> LoadedRuns:
    for name, rate in (("a", 0.1), ("b", 0.01)):
        write_summary(
            base / name, [values_at(step, {"loss": 1.0 / step, "x": 0.0}) for step in range(1, 100)]
        )
        train = TrainInfo(network="LeNet", learning_rate=rate)
        metric = [EvaluationInfo(json.dumps({"accuracy": 0.9}))] if name == "a" else []
        custom = UserDefinedInfo({"optim": {"momentum": rate}})
        write_lineage(
            base / name, [train, *metric, custom, RunInfo({"status": "success", "precision": "16"})]
        )
    return LoadedRuns(str(base))


def _curves(runs: LoadedRuns, *train_ids: object, **more: object) -> dict[str, Any]:
    body = json.dumps({"train_ids": train_ids, **more}).encode()
    found: dict[str, Any] = ask(runs, "run-table/curves", body=body)["curves"]
    return found


def test_values_in_which_runs_differ_are_columns_and_the_others_are_said_once(
    tmp_path: Path,
) -> None:
    answer = ask(_two_runs(tmp_path), "run-table")

    order = answer["train_ids"]
    assert sorted(order) == ["./a", "./b"]
    rates = dict(zip(order, answer["columns"]["learning_rate"], strict=True))
    assert rates == {"./a": 0.1, "./b": 0.01}
    accuracies = dict(zip(order, answer["columns"]["metric/accuracy"], strict=True))
    assert accuracies == {"./a": 0.9, "./b": None}
    assert answer["columns"]["optim/momentum"] == [rates[name] for name in order]
    assert answer["same"] == {"network": "LeNet", "status": "finished", "precision": "16"}
    newest = {
        f"./{run.name}": max(file.stat().st_mtime for file in run.iterdir())
        for run in tmp_path.iterdir()
    }
    assert answer["written"] == pytest.approx([newest[name] for name in order])
    assert answer["name"] == LoadedRuns(str(tmp_path)).name


def test_no_summary_file_is_read_for_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = _two_runs(tmp_path)
    monkeypatch.delattr(FollowedRun, "scalars")

    assert len(ask(runs, "run-table")["train_ids"]) == 2


def test_a_run_without_lineage_has_a_row_and_no_run_has_none(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    path = write_summary(tmp_path / "runs" / "a", [values_at(1, {"x": 1.0})])
    os.utime(path, (1_700_000_000.126, 1_700_000_000.126))

    assert ask(LoadedRuns(str(tmp_path / "runs")), "run-table") == {
        "name": "runs",
        "unread": 0,
        "other_names": {},
        "train_ids": ["./a"],
        "written": [1_700_000_000.13],
        "lines": [0],
        "columns": {},
        "same": {},
    }
    assert ask(LoadedRuns(str(tmp_path / "empty")), "run-table")["train_ids"] == []


def test_only_names_that_a_browser_cannot_make_are_sent(tmp_path: Path) -> None:
    for run in (tmp_path, tmp_path / "a", tmp_path / "deep" / "b"):
        write_summary(run, [values_at(1, {"x": 1.0})])

    answer = ask(LoadedRuns(str(tmp_path)), "run-table")

    assert sorted(answer["train_ids"]) == ["./", "./a", "./deep/b"]
    assert answer["other_names"] == {"./": tmp_path.name}


def test_ints_that_a_browser_would_round_are_texts(tmp_path: Path) -> None:
    values = {"a": 2**53, "b": 2**53 + 1, "c": -(2**53) - 1, "d": 0.5, "e": "x", "f": True}
    for name, value in values.items():
        settings = UserDefinedInfo({"seed": value, "same": 2**53 + 1})
        write_lineage(tmp_path / name, [TrainInfo(), settings])

    answer = ask(LoadedRuns(str(tmp_path)), "run-table")

    shown = dict(zip(answer["train_ids"], answer["columns"]["seed"], strict=True))
    assert shown == {
        "./a": 9007199254740992,
        "./b": "9007199254740993",
        "./c": "-9007199254740993",
        "./d": 0.5,
        "./e": "x",
        "./f": True,
    }
    assert answer["same"]["same"] == "9007199254740993"


def test_a_metric_that_an_older_version_recorded_as_a_setting_is_in_the_column_of_the_metric(
    tmp_path: Path,
) -> None:
    write_lineage(tmp_path / "new", [EvaluationInfo(json.dumps({"accuracy": 0.9}))])
    write_lineage(tmp_path / "old", [TrainInfo(), UserDefinedInfo({"accuracy": 0.5})])

    answer = ask(LoadedRuns(str(tmp_path)), "run-table")

    assert answer["columns"].keys() == {"metric/accuracy"}
    accuracies = zip(answer["train_ids"], answer["columns"]["metric/accuracy"], strict=True)
    assert dict(accuracies) == {"./new": 0.9, "./old": 0.5}


def test_a_run_that_was_killed_is_said_to_be_though_its_files_stay_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, status in (("a", "started"), ("b", "success")):
        write_lineage(
            tmp_path / name,
            [TrainInfo(learning_rate=0.5, network=name), RunInfo({"status": status})],
        )
    runs = LoadedRuns(str(tmp_path))
    now_s = time.time()

    def statuses() -> dict[str, Any]:
        columns = ask(runs, "run-table")["columns"]
        return dict(zip(columns["network"], columns["status"], strict=True))

    before = statuses()
    answer = ask(runs, "run-table")
    assert ask(runs, "run-table") is answer
    monkeypatch.setattr(time, "time", lambda: now_s + 700)

    assert before == {"a": "running", "b": "finished"}
    assert statuses() == {"a": "killed", "b": "finished"}
    assert ask(runs, "run-table")["same"] == answer["same"] == {"learning_rate": 0.5}


def test_the_rows_are_made_again_only_if_a_run_changed(tmp_path: Path) -> None:
    runs = _two_runs(tmp_path)
    now = 0.0
    runs.clock = lambda: now
    first = ask(runs, "run-table")
    now = 2.0
    assert ask(runs, "run-table") is first

    write_lineage(tmp_path / "b", [TrainInfo(network="ResNet", learning_rate=0.5)])
    now = 4.0
    assert "ResNet" in ask(runs, "run-table")["columns"]["network"]

    write_summary(tmp_path / "a", [values_at(100, {"loss": 0.0})])
    os.utime(next((tmp_path / "a").glob("*_MS")), (1, 1))
    now = 6.0
    assert 1.0 in ask(runs, "run-table")["written"]


def test_what_takes_long_is_given_bit_by_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_table, "TOGETHER", 1)
    runs = _two_runs(tmp_path)
    write_lineage(tmp_path / "c", [TrainInfo(network="ResNet")])
    ticks = itertools.count(0.0, 0.5)
    runs.clock = lambda: next(ticks)

    first = ask(runs, "run-table")
    second = ask(runs, "run-table")

    assert (first["unread"], second["unread"]) == (2, 0)
    assert "learning_rate" in second["columns"]


def test_a_row_keeps_what_it_said_until_its_news_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_table, "TOGETHER", 1)
    runs = _two_runs(tmp_path)
    runs.clock = lambda: 0.0
    before = ask(runs, "run-table")
    for name in ("a", "b"):
        write_lineage(tmp_path / name, [TrainInfo(network="ResNet", learning_rate=0.5)], 1700000001)
    ticks = itertools.count(10.0, 6.0)
    runs.clock = lambda: next(ticks)

    half, whole = ask(runs, "run-table"), ask(runs, "run-table")

    assert (half["unread"], whole["unread"]) == (1, 0)
    assert sorted(half["columns"]["network"]) == ["LeNet", "ResNet"]
    assert (before["same"]["network"], whole["same"]["network"]) == ("LeNet", "ResNet")


def test_lineage_that_is_read_before_a_page_asks_is_in_its_first_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_table, "TOGETHER", 1)
    monkeypatch.setattr(run_table, "SETTLED_S", 0.0)
    runs = _two_runs(tmp_path)
    ticks = itertools.count(0.0, 10.0)
    runs.clock = lambda: next(ticks)

    run_table.read_lineage(runs)
    gc.unfreeze()

    assert gc.isenabled()
    assert ask(runs, "run-table")["unread"] == 0


def test_as_many_curves_are_given_as_can_be_read_in_a_second(tmp_path: Path) -> None:
    runs = _two_runs(tmp_path)
    ticks = itertools.count(0.0, 2.0)
    runs.clock = lambda: next(ticks)

    assert list(_curves(runs, "./a", "./b")) == ["./a"]


def test_a_request_gets_no_more_curves_and_scalars_than_a_page_shows(tmp_path: Path) -> None:
    tags = [f"x{number:02d}" for number in range(51)]
    write_summary(tmp_path / "a", [values_at(1, dict.fromkeys(tags, 1.0))])
    names = ["./a", *(f"./gone{number}" for number in range(500))]

    found = _curves(LoadedRuns(str(tmp_path)), *names, tags=tags)

    assert list(found) == names[:500]
    assert list(found["./a"]["scalars"]) == tags[:50]


def test_a_curve_has_steps_the_last_loss_and_a_short_line(tmp_path: Path) -> None:
    answer = _curves(_two_runs(tmp_path), "./a", "./nothing")

    assert answer["./nothing"] == {}
    curve = answer["./a"]
    assert (curve["steps"], curve["tag"], curve["loss"]) == (99, "loss", 0.010101)
    assert len(curve["line"]) == 48
    assert curve["line"][0] == 0.75  # the mean of 1 and 1/2
    assert curve["line"][0] > curve["line"][-1]
    assert (curve["has_graph"], curve["has_landscape"]) == (False, False)
    # Events of these runs are a second apart.
    assert (curve["started"], curve["duration"], curve["pace"]) == (1_700_000_001, 98, 1)


def test_a_run_says_whether_it_has_a_graph_and_a_landscape(tmp_path: Path) -> None:
    axis = np.arange(2.0)
    graph = record(Event(1.0, 0, Graph((GraphNode("1", "ReLU", "Default", "Default/ReLU-op1"),))))
    write_summary(
        tmp_path,
        [graph, values_at(1, {"land": LossLandscape(Points(axis, axis, np.ones((2, 2))))})],
    )

    curve = _curves(LoadedRuns(str(tmp_path)), "./")["./"]

    assert (curve["has_graph"], curve["has_landscape"], curve["steps"], curve["pace"]) == (
        True,
        True,
        None,
        None,
    )


def test_the_pace_is_that_of_the_scalar_that_was_recorded_longest(tmp_path: Path) -> None:
    records = [
        values_at(90, {"long": 1.0}, 1e9),
        values_at(98, {"short": 1.0}, 1e9 + 8),
        values_at(110, {"long": 2.0}, 1e9 + 60),
        values_at(112, {"short": 2.0}, 1e9 + 61),
        values_at(113, {"last": 2.0}, 1e9 + 62),
    ]
    path = write_summary(tmp_path, records, 1_000_000_000)
    os.utime(path, (1_000_000_070, 1_000_000_070))

    assert _curves(LoadedRuns(str(tmp_path)), "./")["./"] == {
        "started": 1e9,
        "duration": 62,
        "pace": 3,
        "tags": ["last", "long", "short"],
        "diverged": None,
        "steps": 113,
        "tag": None,
        "loss": None,
        "line": [],
        "recorded": 1e9 + 62,
        "has_graph": False,
        "has_landscape": False,
        "has_statistics": False,
        "scalars": {},
        "written": 1_000_000_070,
        "is_growing": False,
    }


def test_a_line_has_as_many_means_as_fit_and_large_losses_do_not_overflow(tmp_path: Path) -> None:
    runs = LoadedRuns(str(tmp_path))
    for name, count in (("few", 47), ("most", 48), ("large", 96)):
        losses = [3e38] * count if name == "large" else [*map(float, range(count))]
        records = [values_at(step, {"loss": loss}) for step, loss in enumerate(losses)]
        write_summary(tmp_path / name, records)

    lines = {
        name: curve["line"] for name, curve in _curves(runs, "./few", "./most", "./large").items()
    }

    assert lines == {"./few": [*range(47)], "./most": [*range(48)], "./large": [3e38] * 48}


def test_the_pause_before_a_run_is_resumed_counts_neither_in_its_pace_nor_in_its_duration(
    tmp_path: Path,
) -> None:
    before = [values_at(step, {"loss": 1.0}, 1e9 + 0.1 * step) for step in range(1, 11)]
    after = [values_at(step, {"loss": 1.0}, 1e9 + 3_600 + 0.1 * step) for step in range(11, 21)]
    write_summary(tmp_path, before, 1_000_000_000)
    write_summary(tmp_path, after, 1_000_003_600)

    curve = _curves(LoadedRuns(str(tmp_path)), "./")["./"]

    assert curve["pace"] == pytest.approx(0.1)
    assert curve["duration"] == pytest.approx(1.8)


def test_a_clock_that_is_behind_makes_neither_a_negative_duration_nor_a_negative_pace(
    tmp_path: Path,
) -> None:
    times = [1e9 + 100, 1e9 + 101, 1e9 - 500, 1e9 - 499]
    write_summary(
        tmp_path,
        [values_at(step, {"loss": 1.0}, time) for step, time in enumerate(times)],
        1_000_000_000,
    )

    curve = _curves(LoadedRuns(str(tmp_path)), "./")["./"]

    assert curve["pace"] == 1
    assert curve["duration"] >= 0


def test_of_scalars_that_are_asked_for_the_last_and_both_finite_extremes_are_given(
    tmp_path: Path,
) -> None:
    curve = {"x": [2.0, -1.0, 3.0, 1.5], "broken": [1.0, math.inf], "lost": [math.nan]}
    for tag, values in curve.items():
        records = [values_at(step, {tag: value}) for step, value in enumerate(values)]
        write_summary(tmp_path / "a", records, host=tag)
    write_summary(tmp_path / "b", [values_at(1, {"x": 7.0})])
    runs = LoadedRuns(str(tmp_path))

    assert _curves(runs, "./a", tags=["x"])["./a"]["scalars"] == {"x": [1.5, -1, 3, 2]}
    found = _curves(runs, "./a", "./b", "./gone", tags=["x", "broken", "lost", "absent", 3, ["x"]])
    lost = found["./a"]["scalars"].pop("lost")
    assert found["./a"]["scalars"] == {"x": [1.5, -1, 3, 2], "broken": [math.inf, 1, 1, 0]}
    # the last value as it was recorded: what is no number can be searched for
    assert math.isnan(lost[0])
    assert lost[1:] == [None, None, None]
    assert (found["./b"]["scalars"], found["./gone"]) == ({"x": [7, 7, 7, 1]}, {})


@pytest.mark.parametrize(
    ("tags", "chosen"),
    [
        (["train_loss_step", "loss/auto", "train_loss", "a_loss"], "train_loss"),
        (["a/generator_loss", "b/LOSS", "x"], "b/LOSS"),
        (["accuracy"], None),
    ],
    ids=["a known name", "the shortest with the word in it", "none"],
)
def test_which_scalar_is_the_loss(tmp_path: Path, tags: list[str], chosen: str | None) -> None:
    write_summary(tmp_path, [values_at(step, dict.fromkeys(tags, 1.0)) for step in (3, 7)])

    curve = _curves(LoadedRuns(str(tmp_path)), "./")["./"]

    assert (curve["tag"], curve["steps"]) == (chosen, 7)
    assert curve["line"] == ([] if chosen is None else [1.0, 1.0])


def test_a_curve_is_read_again_only_if_its_run_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_summary(tmp_path, [values_at(1, {"loss": 1.0})])
    runs = LoadedRuns(str(tmp_path))
    first = _curves(runs, "./")
    with monkeypatch.context() as patch:
        patch.delattr(FollowedRun, "scalars")
        assert _curves(runs, "./") == first

    write_summary(tmp_path, [values_at(2, {"loss": 0.5})], 1700000001)
    assert _curves(runs, "./")["./"]["loss"] == 0.5


def test_a_run_that_was_deleted_and_made_again_is_read_again(tmp_path: Path) -> None:
    runs = LoadedRuns(str(tmp_path))

    def loss(*values: float) -> Any:
        write_summary(
            tmp_path / "a", [values_at(step, {"loss": value}) for step, value in enumerate(values)]
        )
        for path in (tmp_path / "a").iterdir():
            os.utime(path, (1700000000, 1700000000))
        runs.scan_again()
        ask(runs, "run-table")
        return _curves(runs, "./a")["./a"]["loss"]

    first = loss(1.0)
    shutil.rmtree(tmp_path / "a")
    runs.scan_again()
    ask(runs, "run-table")

    assert (first, loss(1.0, 0.5)) == (1.0, 0.5)


def test_a_run_whose_lineage_says_no_end_grows_while_it_is_written(tmp_path: Path) -> None:
    write_summary(tmp_path / "a", [values_at(1, {"loss": 1.0})])
    write_lineage(tmp_path / "a", [TrainInfo(network="LeNet")])
    runs = LoadedRuns(str(tmp_path))
    ask(runs, "run-table")

    def is_growing(age: float) -> bool:
        written = time.time() - age
        for path in (tmp_path / "a").iterdir():
            os.utime(path, (written, written))
        curve = _curves(runs, "./a")["./a"]
        assert curve["written"] == pytest.approx(written)
        return bool(curve["is_growing"])

    assert [is_growing(5), is_growing(1000)] == [True, False]


def test_a_run_grows_while_it_is_written_and_has_not_ended_since(tmp_path: Path) -> None:
    runs = _two_runs(tmp_path)
    for name in "cd":
        write_summary(tmp_path / name, [values_at(1, {"loss": 1.0})])
    write_lineage(tmp_path / "d", [TrainInfo(), RunInfo({"status": "interrupted"})])
    ask(runs, "run-table")
    now = time.time()
    for path in (*(tmp_path / "a").iterdir(), *(tmp_path / "b").iterdir()):
        os.utime(path, (now - 5, now - 5))
    for name in "ab":  # a landscape is written after the end; of b, which was resumed, a scalar too
        (summary,) = (path for path in (tmp_path / name).iterdir() if path.name.endswith("_MS"))
        if name == "b":
            with summary.open("ab") as resumed:
                resumed.write(values_at(200, {"loss": 1.0}, now))
        os.utime(summary, (now, now))

    growing = [curve["is_growing"] for curve in _curves(runs, "./a", "./b", "./c", "./d").values()]

    assert growing == [False, True, True, False]


def test_other_files_beside_a_run_that_has_ended_do_not_make_it_grow(tmp_path: Path) -> None:
    runs = _two_runs(tmp_path)
    ask(runs, "run-table")
    for path in (tmp_path / "a").iterdir():
        os.utime(path, (1_700_000_000, 1_700_000_000))
    (tmp_path / "a" / "checkpoints").mkdir()
    (tmp_path / "a" / "notes.txt").touch()
    link = tmp_path / "a" / "events.out.events.summary.1600000000.0.gone_MS"
    link.symlink_to(tmp_path / "gone")
    os.utime(link, (1_600_000_000, 1_600_000_000), follow_symlinks=False)

    curve = _curves(runs, "./a")["./a"]

    assert (curve["is_growing"], curve["written"]) == (False, 1_700_000_000)


def test_lineage_alone_dates_its_run_which_does_not_grow(tmp_path: Path) -> None:
    path = write_lineage(tmp_path, [TrainInfo(network="LeNet"), RunInfo({"status": "success"})])
    os.utime(path, (1_700_000_000, 1_700_000_000))
    runs = LoadedRuns(str(tmp_path))
    ask(runs, "run-table")

    answer = _curves(runs, "./", ["./"])

    assert (answer["./"]["is_growing"], answer["./"]["written"]) == (False, 1_700_000_000)
    assert answer["['./']"] == {}


def test_a_saved_graph_alone_dates_its_run(tmp_path: Path) -> None:
    (tmp_path / "model.pb").touch()
    os.utime(tmp_path / "model.pb", (1_700_000_000, 1_700_000_000))

    curve = _curves(LoadedRuns(str(tmp_path)), "./")["./"]

    assert (curve["is_growing"], curve["written"], curve["loss"]) == (False, 1_700_000_000, None)


def test_a_loss_that_is_no_longer_a_number_is_said(tmp_path: Path) -> None:
    write_summary(
        tmp_path, [values_at(step, {"loss": value}) for step, value in enumerate([1.0, math.nan])]
    )

    curve = _curves(LoadedRuns(str(tmp_path)), "./")["./"]

    assert math.isnan(curve["loss"])
    assert curve["line"] == [1.0, None]


def test_a_setting_named_status_is_a_column_beside_how_the_run_ended(tmp_path: Path) -> None:
    settings = UserDefinedInfo({"status": "a", "precision": "mine", "loss": 1.0})
    write_lineage(
        tmp_path, [TrainInfo(loss=1.0), settings, RunInfo({"status": "success", "precision": "16"})]
    )

    columns = ask(LoadedRuns(str(tmp_path)), "run-table")["columns"]

    assert (columns["status"], columns["user_defined/status"]) == (["finished"], ["a"])
    assert (columns["loss"], columns["precision"], "user_defined/loss" in columns) == (
        [1],
        ["mine"],
        False,
    )


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"train_ids": 1}'])
def test_a_request_for_curves_names_runs(tmp_path: Path, body: bytes) -> None:
    handler = page_handlers()["POST run-table/curves"]

    with pytest.raises(ApiError, match="train_ids"):
        handler(LoadedRuns(str(tmp_path)), ApiRequest(body=body))


def _address(value: object) -> str:
    return f"/only/{base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip('=')}/v1/x"


def test_a_path_selects_runs() -> None:
    assert without_selection(_address(["./a", "./ü<\u2060b>"])) == (
        "/v1/x",
        frozenset({"./a", "./ü<b>"}),
    )
    for path in (
        "/only/",
        "/only/x",
        "/only/%%/y",
        "/only/AAAA/y",
        _address(3),
        _address([[]])[:-5],
        "/v1/x",
    ):
        assert without_selection(path) == (path, None)


def test_pages_below_a_selection_list_only_its_runs(tmp_path: Path) -> None:
    runs = _two_runs(tmp_path)
    handlers = page_handlers()
    request = ApiRequest({"limit": ["999"]}, b"{}", "application/json", frozenset({"./b"}))

    listed = handlers["GET datavisual/train-jobs"](runs, request)
    lineage = handlers["POST lineagemgr/lineages"](runs, request)
    every_run = handlers["POST lineagemgr/lineages"](runs, ApiRequest(body=b"{}"))

    assert [row["train_id"] for row in listed["train_jobs"]] == ["./b"]
    assert listed["total"] == 1
    assert [row["summary_dir"] for row in lineage["object"]] == ["./b"]
    assert len(every_run["object"]) == 2


def test_the_page_names_nothing_outside_of_it_and_has_no_inline_code() -> None:
    page = own_files()["/runs"].content().decode()

    assert "http" not in page.replace("http-equiv", "")
    assert 'src="/' not in page
    assert "<style" not in page
    assert not re.search(r"\son\w+=", page)
    assert page.count("<script") == page.count("<script src=") == 1
    # the rows are asked for before the script runs, and the library of the plot runs after them
    for asked in ("v1/mindinsight/run-table", "uPlot.iife.min.js"):
        assert f'<link rel="preload" href="{asked}"' in page


@pytest.fixture
def own_remarks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep what users note in a directory of the test."""
    monkeypatch.setattr(remarks, "state_directory", lambda: str(tmp_path / "state"))
    remarks.remarks_of.cache_clear()
    yield
    remarks.remarks_of.cache_clear()


def test_what_users_noted_about_a_run_is_shown_and_searched(
    tmp_path: Path, own_remarks: None
) -> None:
    runs = _two_runs(tmp_path / "runs")
    body = json.dumps({"query": "keep", "sort": ""}).encode()
    assert ask(runs, "run-table/search", body=body)["train_ids"] == []

    remarks.remarks_of(runs.base_dir).update("./a", {"remark": "Keep this one", "tag": 3})

    answer = ask(runs, "run-table")
    assert dict(zip(answer["train_ids"], answer["columns"]["remark"], strict=True)) == {
        "./a": "Keep this one",
        "./b": None,
    }
    assert ask(runs, "run-table/search", body=body)["train_ids"] == ["./a"]
    assert ask(runs, "run-table") is answer
    remarks.remarks_of(runs.base_dir).update("./a", {"remark": "Or not"})
    assert sorted(map(str, ask(runs, "run-table")["columns"]["remark"])) == ["None", "Or not"]
    remarks.remarks_of(runs.base_dir).update("./a", {"remark": ""})
    assert "remark" not in ask(runs, "run-table")["columns"]


def test_each_of_many_remarks_is_shown_as_soon_as_it_changes(
    tmp_path: Path, own_remarks: None
) -> None:
    for name in "abcdef":
        write_summary(tmp_path / "runs" / name, [])
    runs = LoadedRuns(str(tmp_path / "runs"))
    noted = remarks.remarks_of(runs.base_dir)
    expected: dict[str, str | None] = dict.fromkeys(f"./{name}" for name in "abcdef")

    for name in expected:
        expected[name] = f"of {name}"
        noted.update(name, {"remark": f"of {name}"})
        answer = ask(runs, "run-table")
        shown = dict(zip(answer["train_ids"], answer["columns"]["remark"], strict=True))
        assert shown == expected


def test_a_setting_named_remark_is_a_column_beside_what_users_noted(
    tmp_path: Path, own_remarks: None
) -> None:
    write_lineage(
        tmp_path / "runs" / "a", [TrainInfo(), UserDefinedInfo({"remark": "of the script"})]
    )
    runs = LoadedRuns(str(tmp_path / "runs"))

    remarks.remarks_of(runs.base_dir).update("./a", {"remark": "of the user"})

    assert ask(runs, "run-table")["columns"] == {
        "user_defined/remark": ["of the script"],
        "remark": ["of the user"],
    }


def test_a_run_says_whether_it_has_statistics(tmp_path: Path) -> None:
    write_parameter_run(tmp_path / "a")
    write_summary(tmp_path / "b", [values_at(1, {"loss": 1.0})])

    curves = _curves(LoadedRuns(str(tmp_path)), "./a", "./b")

    assert [curves[name]["has_statistics"] for name in ("./a", "./b")] == [True, False]


def test_a_new_run_changes_no_line_and_runs_that_begin_later_have_the_next_lines(
    tmp_path: Path,
) -> None:
    for name, began in (("z", 1_700_000_000), ("run_10", 1_700_000_100), ("run_9", 1_700_000_100)):
        write_lineage(tmp_path / name, [TrainInfo(optimizer="Adam")], began)
    write_lineage(tmp_path / "z", [TrainInfo(optimizer="Adam")], 1_700_000_300)  # resumed
    write_summary(tmp_path / "plain", [], 1_700_000_050)

    before = _lines(tmp_path)
    write_lineage(tmp_path / "a", [TrainInfo(optimizer="Adam")], 1_700_000_200)

    assert before == {"./z": 0, "./plain": 1, "./run_9": 2, "./run_10": 3}
    assert _lines(tmp_path) == {**before, "./a": 4}


def test_the_lines_of_many_runs_are_used_again(tmp_path: Path) -> None:
    for number in range(38):
        write_summary(tmp_path / f"{number:02d}", [], 1_700_000_000 + number)

    lines = _lines(tmp_path)

    assert [lines[f"./{number:02d}"] for number in range(38)] == [*range(36), 0, 1]


def _lines(directory: Path) -> dict[str, int]:
    answer = ask(LoadedRuns(str(directory)), "run-table")
    return dict(zip(answer["train_ids"], answer["lines"], strict=True))
