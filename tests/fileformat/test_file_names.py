from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindsummary_lightning.fileformat.file_names import (
    MAX_TIMESTAMP,
    check_prefix_and_suffix,
    file_name,
    is_graph_name,
    is_lineage_name,
    is_summary_name,
    read_order,
    timestamp_of,
)


def test_a_name_is_spelled_as_mindspore_spells_it() -> None:
    assert (
        file_name("events", 1795246505, 0, "vm", "_MS")
        == "events.out.events.summary.1795246505.0.vm_MS"
    )


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("node-1.cluster_a", "node-1.cluster_a"),
        ("a/b\\c\0d\ne f", "a_b_c_d_e_f"),
        ("主机", "_"),
        ("", "localhost"),
        ("../../etc", ".._.._etc"),
        ("h" * 300, "h" * 64),
    ],
)
def test_a_host_name_never_leads_out_of_the_directory(host: str, shown: str) -> None:
    assert file_name("events", 5, 0, host, "_MS") == f"events.out.events.summary.5.0.{shown}_MS"


def test_a_host_that_looks_like_a_time_does_not_change_the_time() -> None:
    assert timestamp_of(file_name("events", 5, 0, "summary.9", "_MS")) == 5


@pytest.mark.parametrize(
    ("host", "suffix"), [("node_explain", ""), ("node_lineage", ""), ("node_lin", "eage")]
)
def test_a_host_does_not_make_it_a_file_of_another_kind(host: str, suffix: str) -> None:
    name = file_name("events", 5, 0, host, suffix)
    assert name == f"events.out.events.summary.5.0.{host}-{suffix}"
    assert is_summary_name(name)
    assert file_name("events", 5, 0, host, "_MS_lineage").endswith(f"{host}_MS_lineage")


@pytest.mark.parametrize("seconds", [0, 253402300799])
def test_the_first_and_the_last_time_are_taken(seconds: int) -> None:
    name = file_name("a b", seconds, 3, "vm", "_x_lineage")

    assert name == f"a b.out.events.summary.{seconds}.3.vm_x_lineage"
    assert (timestamp_of(name), is_lineage_name(name)) == (seconds, True)


@pytest.mark.parametrize("seconds", [-1, MAX_TIMESTAMP + 1, 1795246505000])
def test_a_time_that_would_empty_the_readers_list_is_refused(seconds: int) -> None:
    with pytest.raises(ValueError, match="MindInsight would list no run"):
        file_name("events", seconds, 0, "vm", "_MS")


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("events.out.events.summary.17.0.vm_MS", 17),
        ("Xsummary.12", 12),
        ("summary.5.txt", 5),
        ("summary.3.summary.4", 3),
        ("summary.x.summary.4", 4),
        ("events.out.tfevents.1700000000.vm", None),
        ("summary", None),
        ("model.pb", None),
    ],
)
def test_the_first_digits_behind_summary_are_the_time(name: str, seconds: int | None) -> None:
    assert timestamp_of(name) == seconds


@pytest.mark.parametrize(
    ("name", "is_summary", "is_lineage"),
    [
        ("a.summary.1.vm_MS", True, False),
        ("a.summary.1.vm", True, False),
        ("a.summary.1.vm_lineage", False, True),
        ("a.summary.1.vm_explain", False, False),
        ("a.summary.1.vm_lineage.tmp", True, False),
        ("a_lineage", False, False),
        (".mindsummary-1-ab.tmp", False, False),
    ],
)
def test_the_suffix_decides_the_kind(name: str, is_summary: bool, is_lineage: bool) -> None:
    assert (is_summary_name(name), is_lineage_name(name)) == (is_summary, is_lineage)


def test_files_are_read_by_time_and_for_one_time_by_descending_name() -> None:
    names = ["a.summary.9", "x.pb", "b.summary.10", "a.summary.10", "c.summary.9", "y.pb"]
    assert read_order(iter(names)) == [
        "y.pb",
        "x.pb",
        "c.summary.9",
        "a.summary.9",
        "b.summary.10",
        "a.summary.10",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "a/b",
        "a\\b",
        "a\0",
        "a\nb",
        "a\tb",
        "summary.1",
        "xsummary.12y",
        "\ud800",
        "p" * 64,
        "é" * 32,
    ],
)
@pytest.mark.parametrize("argument", ["file_prefix", "file_suffix"])
def test_a_prefix_or_suffix_that_no_file_should_have_is_refused(text: str, argument: str) -> None:
    with pytest.raises(ValueError, match=argument):
        check_prefix_and_suffix(*((text, "_MS") if argument == "file_prefix" else ("events", text)))


@pytest.mark.parametrize("text", ["", "p" * 63, "é" * 31, "a b"])
def test_a_prefix_or_suffix_may_have_63_bytes(text: str) -> None:
    check_prefix_and_suffix(text, text)


@pytest.mark.parametrize(
    ("name", "is_graph"),
    [
        ("ms_output_after_hwopt_0.pb", True),
        ("memory_usage_12.pb", False),
        ("memory_usage_x.pb", True),
        ("events.summary.12.pb", False),
        ("graph.pbtxt", False),
        ("graph.pb.txt", False),
    ],
)
def test_a_graph_of_a_compiler_is_told_by_its_name(name: str, is_graph: bool) -> None:
    assert is_graph_name(name) is is_graph


@pytest.mark.parametrize("suffix", ["_lineage", "x_lineage", "_explain", ".pb"])
def test_a_suffix_of_another_kind_of_file_is_refused(suffix: str) -> None:
    with pytest.raises(ValueError, match="other kinds of file"):
        check_prefix_and_suffix("events", suffix)


@pytest.mark.parametrize("wrong", [None, 1, b"events"])
def test_a_prefix_that_is_not_text_is_refused(wrong: object) -> None:
    with pytest.raises(TypeError, match="file_prefix must be a str"):
        check_prefix_and_suffix(wrong, "_MS")  # type: ignore[arg-type]


@given(
    st.text(max_size=30), st.text(max_size=30), st.integers(0, MAX_TIMESTAMP), st.text(max_size=80)
)
def test_every_name_that_is_made_is_recognised_with_its_time(
    prefix: str, suffix: str, seconds: int, host: str
) -> None:
    try:
        check_prefix_and_suffix(prefix, suffix)
    except ValueError:
        return
    name = file_name(prefix, seconds, 0, host, suffix)

    assert is_summary_name(name)
    assert timestamp_of(name) == seconds
    assert len(name.encode()) <= 255
    assert "/" not in name
