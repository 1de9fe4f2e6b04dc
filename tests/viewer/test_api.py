from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mindsummary_lightning.reading.followed_run import FollowedRun
from mindsummary_lightning.values import LossLandscape, Points
from mindsummary_lightning.viewer.api import (
    ApiError,
    ApiRequest,
    known_run,
    known_tag,
    page_slice,
    required,
    run_name,
)
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.page_tags import has_tag, landscapes_of, plugin_tags, split_tag
from tests.reading.runs import damage_unseen, histogram, values_at, write_summary


@pytest.mark.parametrize(
    ("plugin_tag", "parts"),
    [
        ("loss/auto/scalar", ("loss/auto", "scalar")),
        ("/scalar", ("", "scalar")),
        ("scalar", ("scalar", "")),
        ("graph.pb", ("graph.pb", "")),
        ("loss/unknown", ("loss/unknown", "")),
        ("net/graph", ("net/graph", "")),
        ("net/optimized_graph", ("net/optimized_graph", "")),
    ],
)
def test_a_shown_tag_ends_with_its_kind(plugin_tag: str, parts: tuple[str, str]) -> None:
    assert split_tag(plugin_tag) == parts


def test_tags_are_sorted_as_they_are_shown_and_the_compiled_graph_comes_first(
    tmp_path: Path,
) -> None:
    write_summary(tmp_path, [values_at(1, {"x": 1.0, "x-y": 2.0, "h": histogram(1)})])
    for name in ("a.pb", "ms_output_optimize.pb"):
        (tmp_path / name).write_bytes(b"model")
    run = FollowedRun(str(tmp_path))
    run.refresh()

    tags = plugin_tags(run)

    assert tags["scalar"] == ["x-y/scalar", "x/scalar"]
    assert tags["graph"] == ["ms_output_optimize.pb", "a.pb"]
    assert tags["optimized_graph"] == ["ms_output_optimize.pb (optimized)", "a.pb (optimized)"]
    assert all(has_tag(run, tag) for names in tags.values() for tag in names)
    assert not any(has_tag(run, tag) for tag in ("x", "x/histogram", "b.pb", "", "/scalar"))


def test_a_landscape_is_a_tag_if_one_of_its_samples_can_be_read(tmp_path: Path) -> None:
    def landscape(step: int, tag: str, value: float) -> bytes:
        points = Points(np.arange(2.0), np.arange(2.0), np.full((2, 2), value))
        return values_at(step, {tag: LossLandscape(points)})

    records = [landscape(1, "some", 1.0), landscape(2, "some", 2.0), landscape(3, "none", 3.0)]
    path = write_summary(tmp_path, records)
    run = FollowedRun(str(tmp_path))
    run.refresh()
    for damaged in records[::2]:
        damage_unseen(path, damaged)

    assert plugin_tags(run)["loss_landscape"] == ["some/loss_landscape"]
    (readable,) = landscapes_of(run, "some")
    assert readable.surface.z.tolist() == [[2.0, 2.0], [2.0, 2.0]]


@pytest.mark.parametrize(
    ("query", "page"),
    [
        ({}, slice(0, 10)),
        ({"limit": ["1"]}, slice(0, 1)),
        ({"limit": ["100"], "offset": ["2"]}, slice(200, 300)),
        ({"offset": [" 1 "]}, slice(10, 20)),
    ],
)
def test_an_offset_counts_pages(query: dict[str, list[str]], page: slice) -> None:
    assert page_slice(ApiRequest(query=query), 10, 100) == page


@pytest.mark.parametrize(
    ("query", "code", "text"),
    [
        ({"limit": ["0"]}, "50540002", "value. 'limit' should in [1, 100]."),
        ({"limit": ["101"]}, "50540002", "value. 'limit' should in [1, 100]."),
        ({"offset": ["-1"]}, "50540002", "value. 'offset' should be greater than or equal to 0."),
        ({"limit": ["ten"]}, "50540001", "type. 'limit' expect Integer type."),
        ({"offset": [""], "limit": ["0"]}, "50540001", "type. 'offset' expect Integer type."),
    ],
)
def test_a_page_that_cannot_be_is_refused(
    query: dict[str, list[str]], code: str, text: str
) -> None:
    with pytest.raises(ApiError) as refused:
        page_slice(ApiRequest(query=query), 10, 100)
    error = refused.value
    assert (error.code, error.message, error.status) == (code, f"Invalid parameter {text}", 400)


def test_a_parameter_that_is_needed_may_not_be_empty_and_its_first_value_counts() -> None:
    request = ApiRequest({"tag": ["x", "y"], "empty": ["", "z"], "none": []})

    assert required(request, "tag") == "x"
    assert [request.first(name) for name in ("tag", "empty", "none", "gone")] == [
        *("x", "", None, None)
    ]
    for name in ("empty", "none", "gone"):
        with pytest.raises(ApiError) as refused:
            required(request, name)
        assert refused.value.code == "50540003"
        assert refused.value.message == f"Param missing. '{name}' is required."


@pytest.mark.parametrize(
    ("train_id", "code"),
    [
        ("./a", None),
        ("./deep/a", None),
        ("./", None),
        ("./unknown", None),  # could be one: what it is asked for is then not found
        ("./deep/unknown", "50540002"),
        ("unknown", "50540002"),
        ("deep/a", "50540002"),
        ("", "50540002"),
        (None, "50540003"),
    ],
)
def test_a_run_is_named_by_a_path_that_could_be_one(
    train_id: str | None, code: str | None, tmp_path: Path
) -> None:
    for run in (tmp_path, tmp_path / "a", tmp_path / "deep" / "a"):
        write_summary(run, [])
    request = ApiRequest({} if train_id is None else {"train_id": [train_id]})

    if code is None:
        assert run_name(LoadedRuns(str(tmp_path)), request) == train_id
    else:
        with pytest.raises(ApiError) as refused:
            run_name(LoadedRuns(str(tmp_path)), request)
        assert refused.value.code == code


def test_runs_and_tags_that_are_unknown_are_refused_in_the_words_of_mindinsight(
    tmp_path: Path,
) -> None:
    write_summary(tmp_path / "a", [values_at(1, {"x/y": 1.0})])
    (tmp_path / "a" / "m.pb").write_bytes(b"model")
    runs = LoadedRuns(str(tmp_path))
    run = known_run(runs, "./a")

    assert known_tag(run, "x/y/scalar", "1", "No.") == ("x/y", "scalar")
    assert known_tag(run, "m.pb", "1", "No.") == ("m.pb", "")
    cannot = "Can not find any data in this train job by given tag."
    with pytest.raises(ApiError) as refused:
        known_tag(run, "x/scalar", "1", "No.")
    assert refused.value.code == "1"
    assert refused.value.message == f"No. Detail: Invalid parameter value. {cannot}"
    for words in ((), ("Gone.",)):
        with pytest.raises(ApiError) as refused:
            known_run(runs, "./b", *words)
        assert refused.value.code == "50545005"
        cache = "Train job is not exist. Detail: Can not find the given train job in cache."
        assert refused.value.message == (words or (cache,))[0]
