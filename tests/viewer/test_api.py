from __future__ import annotations

from pathlib import Path

import pytest

from mindsummary_lightning.reading.followed_run import FollowedRun
from mindsummary_lightning.viewer.api import ApiError, ApiRequest, page_slice
from mindsummary_lightning.viewer.page_tags import has_tag, plugin_tags, split_tag
from tests.reading.runs import histogram, values_at, write_summary


@pytest.mark.parametrize(
    ("plugin_tag", "parts"),
    [
        ("loss/auto/scalar", ("loss/auto", "scalar")),
        ("/scalar", ("", "scalar")),
        ("scalar", ("scalar", "")),
        ("graph.pb", ("graph.pb", "")),
        ("loss/unknown", ("loss/unknown", "")),
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
    "query", [{"limit": ["0"]}, {"limit": ["101"]}, {"offset": ["-1"]}, {"limit": ["ten"]}]
)
def test_a_page_that_cannot_be_is_refused(query: dict[str, list[str]]) -> None:
    with pytest.raises(ApiError):
        page_slice(ApiRequest(query=query), 10, 100)
