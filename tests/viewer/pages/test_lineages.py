from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from mindsummary_lightning.lineage.query import filter_summary_lineage
from mindsummary_lightning.values import DatasetGraph, EvaluationInfo, TrainInfo, UserDefinedInfo
from mindsummary_lightning.viewer import remarks
from mindsummary_lightning.viewer.api import ApiRequest
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.pages import page_handlers
from mindsummary_lightning.viewer.pages.lineages import drawable_pipeline
from tests.lineage.lineage_tree import write_run
from tests.reading.runs import write_lineage, write_summary
from tests.viewer.pages.asking import ask
from tests.viewer.pages.site import Site

LINEAGES = "lineagemgr/lineages"


@pytest.fixture(autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's state directory of a test."""
    path = tmp_path_factory.mktemp("state") / "mindsummary-lightning"
    monkeypatch.setattr(remarks, "state_directory", lambda: str(path))
    remarks.remarks_of.cache_clear()
    return path


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Three runs with lineage, ``./c`` the last one updated, and one without."""
    for number, name in enumerate("abc"):
        train = TrainInfo(network="Net", loss=0.5 - number / 10, learning_rate=0.1)
        write_run(
            tmp_path / name, train, EvaluationInfo(f'{{"acc": {number}}}'), mtime=100.0 * number
        )
    write_summary(tmp_path / "plain", [])
    return tmp_path


@pytest.fixture
def site(base: Path) -> Site:
    return Site(base)


def found(site: Site, condition: Any) -> list[str]:
    return [row["summary_dir"] for row in site.send("POST", LINEAGES, condition)["object"]]


def test_runs_are_found_sorted_and_paged(site: Site) -> None:
    assert found(site, {}) == ["./c", "./b", "./a"]
    assert found(site, {"loss": {"lt": 0.45}}) == ["./c", "./b"]
    assert found(site, {"sorted_name": "metric/acc", "limit": 2, "offset": 0}) == ["./a", "./b"]
    assert found(site, b"") == found(site, b"null") == ["./c", "./b", "./a"]


def test_the_newest_lineage_of_a_growing_run_is_shown(tmp_path: Path) -> None:
    """Of one file that grows and of a later one: the newest training and evaluation, all custom
    data.
    """
    growing = Site(tmp_path)

    def shown(*infos: Any, created: int) -> tuple[Any, ...]:
        path = write_lineage(tmp_path / "run", infos, created)
        os.utime(path, (created + len(infos), created + len(infos)))
        growing.runs.scan_again()
        (row,) = growing.send("POST", LINEAGES, {})["object"]
        model = row["model_lineage"]
        return model["learning_rate"], model["epoch"], model["metric"], model["user_defined"]

    first, custom = [TrainInfo(learning_rate=0.5, epoch=1)], UserDefinedInfo({"seed": 3})
    assert shown(*first, created=1) == (0.5, 1, {}, {})
    first += [custom, EvaluationInfo('{"acc": 0.25}')]
    assert shown(*first, created=1) == (0.5, 1, {"acc": 0.25}, {"seed": 3})
    first += [
        TrainInfo(learning_rate=0.25, epoch=2),
        EvaluationInfo('{"acc": 0.5}'),
        UserDefinedInfo({"depth": 4}),
    ]
    assert shown(*first, created=1) == (0.25, 2, {"acc": 0.5}, {"seed": 3, "depth": 4})
    assert shown(EvaluationInfo('{"acc": 0.75}'), created=9) == (
        0.25,
        2,
        {"acc": 0.75},
        {"seed": 3, "depth": 4},
    )
    assert shown(TrainInfo(learning_rate=0.125, epoch=3), created=10) == (0.125, 3, {}, {})


def test_runs_of_any_depth_are_found(tmp_path: Path) -> None:
    write_run(tmp_path / "logs" / "net" / "version_0", TrainInfo(network="Net"))

    assert found(Site(tmp_path), {}) == ["./logs/net/version_0"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", "50540002"),
        (b"[" * 100_000, "50540002"),
        (b"[]", "50542218"),
        (b'{"limit": 0}', "50542218"),
    ],
    ids=["no JSON", "deep", "a list", "limit"],
)
def test_a_condition_that_cannot_be_understood_is_refused(
    site: Site, body: bytes, code: str
) -> None:
    assert site.send("POST", LINEAGES, body) == (400, code)


def test_tags_and_remarks_are_shown_with_a_run_and_sort_it(site: Site) -> None:
    site.send("PUT", f"{LINEAGES}?train_id=./a", {"tag": 3, "remark": "größe"})
    assert site.send("PUT", f"{LINEAGES}?train_id=./a", {"tag": 4}) == {"status": "success"}

    rows = site.send("POST", LINEAGES, {"sorted_name": "tag", "sorted_type": "descending"})[
        "object"
    ]

    assert [row["added_info"] for row in rows] == [{"tag": 4, "remark": "größe"}, {}, {}]


def test_remarks_survive_the_viewer_and_belong_to_a_directory(
    base: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    Site(base).send("PUT", f"{LINEAGES}?train_id=./a", {"remark": "best"})
    remarks.remarks_of.cache_clear()  # as a new process
    other = tmp_path_factory.mktemp("other")
    write_run(other / "a", TrainInfo(network="Net"))

    def added(directory: Path) -> Any:
        return Site(directory).send("POST", LINEAGES, {"summary_dir": {"eq": "./a"}})["object"][0][
            "added_info"
        ]

    assert added(base) == {"remark": "best"}
    assert added(other) == {}


def test_remarks_are_private_and_never_in_a_run(base: Path, site: Site, state: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in base.rglob("*")}

    site.send("PUT", f"{LINEAGES}?train_id=./a", {"tag": 1})

    assert {path: path.stat().st_mtime_ns for path in base.rglob("*")} == before
    (path,) = (state / "remarks").glob("*.json")
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_damaged_file_of_remarks_is_reported_and_replaced_by_the_next_one(
    site: Site, state: Path
) -> None:
    site.send("PUT", f"{LINEAGES}?train_id=./a", {"tag": 1})
    (path,) = (state / "remarks").glob("*.json")
    path.write_text('{"runs": 5')

    assert (
        site.send("POST", LINEAGES, {"summary_dir": {"eq": "./a"}})["object"][0]["added_info"] == {}
    )
    assert site.send("PUT", f"{LINEAGES}?train_id=./b", {"tag": 2}) == {"status": "success"}
    assert site.send("POST", LINEAGES, {"summary_dir": {"eq": "./b"}})["object"][0][
        "added_info"
    ] == {"tag": 2}


@pytest.mark.parametrize(
    ("train_id", "body", "code"),
    [
        ("./a", {"tag": 11}, "50542081"),
        ("./a", {"tag": -1}, "50542081"),
        ("./a", {"tag": "1"}, "50542081"),
        ("./a", {"remark": "x" * 129}, "50542081"),
        ("./a", {"remark": 1}, "50542081"),
        ("./a", {"other": "x"}, "50542081"),
        ("./a", {"tag": 1, "other": "x"}, "50542081"),
        ("./a", [], "50540002"),
        ("./a", b"", "50540002"),
        ("./a", b"{", "50540002"),
        ("a", {"tag": 1}, "50540002"),
        ("./x/y", {"tag": 1}, "50540002"),
        ("./nothing", {"tag": 1}, "50545005"),
        ("./plain", {"tag": 1}, "50540002"),
    ],
    ids=str,
)
def test_a_wrong_tag_or_remark_is_refused(site: Site, train_id: str, body: Any, code: str) -> None:
    assert site.send("PUT", f"{LINEAGES}?train_id={train_id}", body) == (400, code)


@pytest.mark.parametrize("added", [{"tag": 0}, {"tag": 10}, {"tag": 3, "remark": "x" * 128}])
def test_the_least_and_the_largest_tag_and_the_longest_remark_are_kept(
    site: Site, added: dict[str, Any]
) -> None:
    assert site.send("PUT", f"{LINEAGES}?train_id=./a", added) == {"status": "success"}

    (row,) = site.send("POST", LINEAGES, {"summary_dir": {"eq": "./a"}})["object"]
    assert row["added_info"] == added


def test_a_remark_that_cannot_be_saved_is_an_error(site: Site, state: Path) -> None:
    state.parent.mkdir(exist_ok=True)
    state.write_text("a file where the directory should be", encoding="utf-8")

    assert site.send("PUT", f"{LINEAGES}?train_id=./a", {"tag": 1}) == (500, "50540000")


def test_the_data_pipeline_of_a_run_is_shown(tmp_path: Path) -> None:
    write_run(tmp_path / "a", DatasetGraph({"op_type": "BatchDataset", "batch_size": 8}))
    write_run(tmp_path / "b", TrainInfo(network="Net"))
    site = Site(tmp_path)

    graph = {"op_type": "BatchDataset", "batch_size": 8, "children": []}
    assert site.get("datasets/dataset_graph?train_id=./a") == {
        "dataset_graph": graph,
        "summary_dir": "./a",
    }
    assert site.get("datasets/dataset_graph?train_id=./b") == {}
    assert site.get("datasets/dataset_graph?train_id=./nothing") == {}
    assert site.get("datasets/dataset_graph?train_id=a") == (400, "50540002")
    assert site.get("datasets/dataset_graph") == (400, "50540003")


def test_importance_is_the_correlation_of_a_parameter_with_a_target(tmp_path: Path) -> None:
    for number in range(5):
        train = TrainInfo(
            learning_rate=number / 4,
            batch_size=32,
            epoch=(3, 1, 2, 5, 4)[number],
            loss=1.0 - number / 8,
        )
        custom = UserDefinedInfo({"depth": number, "kind": "x"})
        write_run(tmp_path / f"{number}", train, custom, mtime=100.0 * number)

    answer = Site(tmp_path).send("POST", "optimizer/targets/search", {})

    assert answer["metadata"]["train_ids"] == ["./4", "./3", "./2", "./1", "./0"]
    assert answer["metadata"]["unrecognized_params"] == [
        {"name": "[U]kind", "unselected": True, "reason_code": 1}
    ]
    (loss,) = answer["targets"]
    ranked = [
        (shown["name"], round(shown["importance"], 3), shown.get("reason_code"))
        for shown in loss["hyper_parameters"]
    ]
    assert ranked == [
        *(("learning_rate", 1.0, None), ("[U]depth", 1.0, None)),
        *(("epoch", 0.6, None), ("batch_size", 0, 3)),
    ]
    assert loss["data"] == [0.5, 0.625, 0.75, 0.875, 1.0]
    assert loss["buckets"] == [
        [pytest.approx(0.5 + n / 10), pytest.approx(0.1), 1.0] for n in range(5)
    ]


def test_a_question_is_answered_again_only_if_a_run_or_a_remark_has_changed(
    site: Site, base: Path
) -> None:
    handler, question = page_handlers()[f"POST {LINEAGES}"], ApiRequest(body=b"{}")
    now = 0.0
    site.runs.clock = lambda: now
    first = handler(site.runs, question)
    now = 2.0
    assert handler(site.runs, question) is first

    site.send("PUT", f"{LINEAGES}?train_id=./a", {"tag": 3})
    marked = handler(site.runs, question)
    assert [row["added_info"] for row in marked["object"]] == [{}, {}, {"tag": 3}]

    write_run(base / "d", TrainInfo(network="Other"))
    now = 4.0
    assert len(handler(site.runs, question)["object"]) == 4


def test_the_operations_of_a_pipeline_are_drawn_in_dot_and_their_parameters_are_not() -> None:
    pipeline = {
        "op_type": 'Add"<b>\\',
        "children": [{"op_type": "B<"}],
        "operations": [{"tensor_op_name": '"', "x": '"'}, {"op_type": 3}],
    }

    assert drawable_pipeline(pipeline) == {
        "op_type": "Add'(b)∖",
        "children": [{"op_type": "B("}],
        "operations": [{"tensor_op_name": "'", "x": '"'}, {"op_type": 3}],
    }


def test_an_int_that_a_browser_would_round_is_the_text_that_mindinsight_shows(
    tmp_path: Path,
) -> None:
    write_run(
        tmp_path / "a",
        TrainInfo(epoch=1),
        UserDefinedInfo({"seed": 2**53 + 1, "tokens": 7_000_000_000}),
    )
    write_run(tmp_path / "b", TrainInfo(epoch=1), UserDefinedInfo({"seed": 3}))
    runs = LoadedRuns(str(tmp_path))
    condition = {"user_defined/seed": {"eq": "9007199254740993"}}

    answer = ask(runs, "lineagemgr/lineages", body=json.dumps(condition).encode())

    (run,) = answer["object"]
    assert run["model_lineage"]["user_defined"] == {
        "seed": "9007199254740993",
        "tokens": 7_000_000_000,
    }
    assert answer["customized"]["user_defined/seed"]["type"] == "str"
    assert filter_summary_lineage(tmp_path, {"user_defined/seed": {"eq": 2**53 + 1}})["count"] == 1
