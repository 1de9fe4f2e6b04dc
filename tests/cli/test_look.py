from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest

from mindsummary_lightning import SummaryRecord
from mindsummary_lightning.cli import list_runs
from mindsummary_lightning.cli.output import readable_size, sparkline
from mindsummary_lightning.values import Event, Graph, GraphNode, RunInfo
from tests.cli.command import mindsummary, on_a_terminal
from tests.cli.demo_run import write_demo_run
from tests.reading.runs import (
    histogram,
    record,
    values_at,
    write_lineage,
    write_mindspore_run,
    write_parameter_run,
    write_summary,
)


@pytest.fixture
def _little_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_runs, "READ_WHOLE", 1 << 16)


def test_list_gives_a_line_for_each_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_summary(tmp_path / "a", [values_at(1, {"loss": 1.0})])
    write_demo_run(tmp_path / "deep" / "b")

    answer = mindsummary(capsys, "list", tmp_path)

    lines = answer.out.splitlines()
    assert answer.code == 0
    assert [line.split()[0] for line in lines] == ["run", "a", "deep/b"]
    assert "1 scalar" in lines[1]
    assert "2 scalar, 1 image, 1 tensor, 1 histogram, 1 loss_landscape" in lines[2]


def test_a_run_that_is_named_twice_is_listed_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("b", "a"):
        write_demo_run(tmp_path / name)

    lines = mindsummary(capsys, "list", tmp_path, tmp_path / "b", tmp_path / "a").out.splitlines()

    assert [os.path.basename(line.split()[0]) for line in lines] == ["run", "a", "b"]


def test_list_and_show_say_how_a_run_ended_and_whether_it_diverged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "a"
    write_summary(run, [values_at(1, {"loss": 1.0}), values_at(2, {"loss": math.nan})])
    write_lineage(run, [RunInfo({"status": "success"})])
    write_summary(tmp_path / "b", [values_at(1, {"loss": 1.0})])
    for number, path in enumerate(sorted(run.iterdir())):
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))

    listed = mindsummary(capsys, "list", tmp_path).out.splitlines()
    answer = json.loads(mindsummary(capsys, "list", tmp_path, "--json").out)
    shown = mindsummary(capsys, "show", run).out.splitlines()

    assert listed[0].split() == ["run", "last", "written", "status", "size", "lineage", "tags"]
    assert [line.split()[3] for line in listed[1:]] == ["finished", "-"]
    assert [one["status"] for one in answer["runs"]] == ["finished", None]
    assert [one["has_lineage"] for one in answer["runs"]] == [True, False]
    assert answer["runs"][0]["last_written"] == 1_700_000_001
    assert {tuple(line.split()) for line in shown} >= {("status", "finished"), ("diverged", "True")}


def test_lines_of_a_list_end_at_the_edge_of_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_a_terminal(monkeypatch, 80)
    write_demo_run(tmp_path / "version_0")
    write_summary(tmp_path / "version_1", [values_at(1, {"loss": 1.0})])

    _, long, short = mindsummary(capsys, "list", tmp_path).out.splitlines()

    assert len(long) == 80
    assert "  2 scalar, 1 image" in long
    assert long.endswith("…")
    assert short.endswith("1 scalar")


def test_a_distribution_has_the_room_that_a_terminal_leaves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_a_terminal(monkeypatch, 80)
    write_summary(
        tmp_path,
        [values_at(1, {"encoder.layer.weight": histogram(*range(90)), "b": histogram(1, 2)})],
    )

    shown = mindsummary(capsys, "show", tmp_path).out.splitlines()

    assert max(map(len, shown[1:])) <= 80  # the first line is the path
    (line,) = (line for line in shown if "encoder" in line)
    assert line.endswith(" ▁▂▃▄▅▆▇█")


def test_a_long_tag_is_cut_in_its_middle(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "encoder.layers.11.attention.output.dense"
    tags = [f"{module}.bias", f"{module}.weight", f"{module[:-1]}.bias"]
    assert [len(tag) for tag in tags] == [45, 47, 44]
    write_summary(tmp_path, [values_at(1, dict.fromkeys(tags, 1.0))])

    def shown() -> list[str]:
        lines = mindsummary(capsys, "show", tmp_path).out.splitlines()
        return [line.split()[0] for line in lines if "encoder" in line]

    ends = [f"{module[:21]}…{tag[-22:]}" for tag in tags[:2]]
    assert sorted(shown()) == sorted([*ends, tags[2]])
    on_a_terminal(monkeypatch, 80)
    narrow = shown()
    assert len({len(tag) for tag in narrow}) == 1
    assert len(narrow[0]) < 44
    assert {tag.rpartition(".")[2] for tag in narrow} == {"bias", "weight"}


def test_list_marks_a_damaged_run_and_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_summary(tmp_path / "a", [values_at(1, {"loss": 1.0})])
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    other = write_summary(tmp_path / "b", [values_at(1, {"loss": 1.0})])
    for file, written in ((path, 1_700_000_010), (other, 1_700_000_020)):
        os.utime(file, (written, written))

    answer = mindsummary(capsys, "list", tmp_path)
    runs = json.loads(mindsummary(capsys, "list", tmp_path, "--json").out)["runs"]

    exact = {"tags_are_exact": True, "has_lineage": False, "status": None}
    sizes = {"a": path.stat().st_size, "b": other.stat().st_size}
    assert runs == [
        {"run": "a", "tags": None, "bytes": sizes["a"], "last_written": 1_700_000_010, **exact},
        {
            "run": "b",
            "tags": {"scalar": 1},
            "bytes": sizes["b"],
            "last_written": 1_700_000_020,
            **exact,
        },
    ]
    assert answer.code == 1
    assert "damaged" in answer.out.splitlines()[1]
    assert "1 scalar" in answer.out.splitlines()[2]


@pytest.mark.usefixtures("_little_is_large")
def test_list_reads_the_ends_of_large_files_and_marks_the_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    early = [values_at(step, {f"m{number}": 1.0 for number in range(20)}) for step in range(1000)]
    late, last = values_at(1000, {"h": histogram(1)}), values_at(1001, {"acc": 1.0})
    write_summary(tmp_path / "large", [*early[:500], late, *early[500:], last])
    write_summary(tmp_path / "small", [values_at(1, {"loss": 1.0})])

    lines = mindsummary(capsys, "list", tmp_path).out.splitlines()
    exact = mindsummary(capsys, "list", tmp_path, "--exact").out.splitlines()
    runs = json.loads(mindsummary(capsys, "list", tmp_path, "--json").out)["runs"]

    assert [line.split("  -")[-1].strip() for line in lines[1:]] == ["21+ scalar", "1 scalar"]
    assert [line.split("  -")[-1].strip() for line in exact[1:]] == [
        "21 scalar, 1 histogram",
        "1 scalar",
    ]
    assert [(run["tags"], run["tags_are_exact"]) for run in runs] == [
        ({"scalar": 21}, False),
        ({"scalar": 1}, True),
    ]


def test_list_reads_up_to_the_limit_in_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    early = [values_at(step, {f"m{number}": 1.0 for number in range(20)}) for step in range(800)]
    late = values_at(400, {"h": histogram(1)})
    paths = [write_summary(tmp_path / "large", [*early[:400], late, *early[400:]])]
    paths.append(write_summary(tmp_path / "small", [values_at(1, {"loss": 1.0})]))
    size = sum(path.stat().st_size for path in paths)

    shown = {}
    for limit in (size, size - 1):
        monkeypatch.setattr(list_runs, "READ_WHOLE", limit)
        shown[limit] = mindsummary(capsys, "list", tmp_path).out.splitlines()[1]

    assert shown[size].endswith("  20 scalar, 1 histogram")
    assert shown[size - 1].endswith("  20+ scalar")


@pytest.mark.usefixtures("_little_is_large")
def test_list_sees_the_tags_of_a_first_event_that_is_large(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = {f"layer{number}": histogram(*range(1, 88)) for number in range(60)}
    write_summary(tmp_path, [values_at(step, weights) for step in range(3)])

    assert mindsummary(capsys, "list", tmp_path).out.splitlines()[1].endswith("60+ histogram")


@pytest.mark.usefixtures("_little_is_large")
def test_list_sees_the_tags_behind_a_large_graph(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = tuple(
        GraphNode(f"layer{number}", "Linear", f"net/layer{number}") for number in range(2000)
    )
    first = values_at(1, {"loss": 1.0, "weight": histogram(1)})
    graph = record(Event(1700000000.0, 0, Graph(nodes)))
    write_summary(
        tmp_path, [graph, first, *(values_at(step, {"loss": 1.0}) for step in range(2, 3000))]
    )

    assert (
        mindsummary(capsys, "list", tmp_path)
        .out.splitlines()[1]
        .endswith("1+ scalar, 1+ histogram")
    )


@pytest.mark.usefixtures("_little_is_large")
def test_list_sees_damage_at_the_end_of_a_large_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = [values_at(step, {f"m{number}": 1.0 for number in range(20)}) for step in range(1000)]
    path = write_summary(tmp_path, records)
    data = bytearray(path.read_bytes())
    data[-1000] ^= 1
    path.write_bytes(data)

    assert mindsummary(capsys, "list", tmp_path).code == 1


def test_show_says_something_of_every_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_demo_run(tmp_path / "version_0")

    answer = mindsummary(capsys, "show", tmp_path)

    assert answer.code == 0
    headings = [line for line in answer.out.splitlines() if line and not line.startswith(" ")][3:]
    assert headings == [
        "Scalars",
        "Histograms",
        "Images",
        "Tensors",
        "Loss landscapes",
        "Graph",
        "Lineage",
    ]
    assert "loss/auto       60         60" in answer.out
    assert "█▇▇▇▆▆▅▅▅▄▄▄▄▃" in answer.out
    assert "16 x 12" in answer.out
    assert "BatchDataset <- GeneratorDataset" in answer.out
    assert "metric/accuracy     0.97" in answer.out


def test_show_reads_a_run_of_mindspore(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_mindspore_run(tmp_path)

    answer = mindsummary(capsys, "show", tmp_path)

    assert answer.code == 0
    assert "loss        3          3  0.333333" in answer.out


def test_show_prints_a_setting_of_several_lines_on_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with SummaryRecord(tmp_path) as record:
        record.add_value(
            "custom_lineage_data", "settings", {"normalizer": "Encoder(\n\tcenter=True\n)"}
        )
        record.record(1)

    lines = mindsummary(capsys, "show", tmp_path).out.splitlines()

    assert [line.split(maxsplit=1)[1] for line in lines if "normalizer" in line] == [
        "Encoder( center=True )"
    ]


def test_show_shows_an_empty_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_summary(tmp_path, [])

    answer = mindsummary(capsys, "show", tmp_path)

    assert (answer.code, answer.out.splitlines()) == (
        0,
        [f"{tmp_path}", f"1 summary and 0 lineage files, {path.stat().st_size} B"],
    )


def test_dump_prints_one_json_object_a_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_demo_run(tmp_path, steps=30)
    (summary,) = tmp_path.glob("*_MS")
    (lineage,) = tmp_path.glob("*_lineage")

    answer, of_lineage = (mindsummary(capsys, "dump", path) for path in (summary, lineage))
    lines = [json.loads(line) for line in answer.out.splitlines()]
    lineage_lines = [json.loads(line) for line in of_lineage.out.splitlines()]

    assert (answer.code, answer.err, of_lineage.code, of_lineage.err) == (0, "", 0, "")
    for path, records in ((summary, lines), (lineage, lineage_lines)):
        begins = [0]
        for one in records:  # a length and its checksum before the message, a checksum behind it
            begins.append(begins[-1] + 8 + 4 + one["length"] + 4)
        assert [*(one["offset"] for one in records), path.stat().st_size] == begins

    assert lines[0] == {
        "offset": 0,
        "length": 28,
        "wall_time": 1700000000.0,
        "step": 0,
        "version": "MindSpore.Event:1",
    }
    assert lines[2]["values"][0]["tag"] == "loss/auto"
    kinds = {value["kind"] for line in lines for value in line.get("values", [])}
    assert kinds == {"scalar", "histogram", "image", "tensor", "loss_landscape"}
    assert lineage_lines[0]["TrainLineage"]["network"] == "LeNet"
    assert lineage_lines[3]["UserDefinedInfo"] == {"values": {"seed": 7, "note": "first try"}}


def test_dump_writes_nan_as_text_so_that_every_line_is_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_summary(tmp_path, [values_at(1, {"loss": float("nan")})])

    line = mindsummary(capsys, "dump", path).out.splitlines()[1]

    assert json.loads(line)["values"] == [{"tag": "loss", "kind": "scalar", "value": "NaN"}]


def test_dump_prints_up_to_the_damage_and_gives_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_summary(tmp_path, [values_at(1, {"loss": 1.0}), values_at(2, {"loss": 1.0})])
    path.write_bytes(path.read_bytes()[:-1] + b"?")

    answer = mindsummary(capsys, "dump", path)

    assert (answer.code, len(answer.out.splitlines())) == (1, 2)
    assert "payload CRC" in answer.err

    path.write_bytes(path.read_bytes()[:43] + b"?" + path.read_bytes()[44:])  # of the first record
    answer = mindsummary(capsys, "dump", path)
    assert (answer.code, answer.out) == (2, "")


def test_dump_mentions_a_tail_that_is_no_record_yet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_summary(tmp_path, [])
    path.write_bytes(path.read_bytes() + b"123")

    answer = mindsummary(capsys, "dump", path)

    told = "mindsummary: the last record is incomplete: 3 bytes are not printed\n"
    assert (answer.code, answer.err) == (0, told)


@pytest.mark.parametrize(
    ("values", "curve"),
    [
        ([], ""),
        ([1.0], "▄"),
        ([2.0, 2.0], "▄▄"),
        ([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], "▁▂▃▄▅▆▇█"),
        ([0.0, float("nan"), 7.0], "▁!█"),
        ([float("inf")], "!"),
        ([3.0, -math.inf, *[7.0] * 2, *[0.0] * 12], "!█▁▁▁▁▁▁"),
        ([3.0, math.inf, -math.inf, *[7.0] * 3, *[0.0] * 18], "!█▁▁▁▁▁▁"),
        ([0.0, 2.0, 4.0, 10.0, *[7.0] * 4, *[0.0, 14.0] * 4], "▁███████"),
    ],
)
def test_a_curve_spans_the_values(
    values: list[float], curve: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sparkline(values, 8) == curve
    assert len(sparkline([float(number) for number in range(1000)], 33)) == 33


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1500, "1.5 kB"),
        (999_400_000, "999.4 MB"),
        (2_500_000_000, "2.5 GB"),
        (10**13, "10000.0 GB"),
    ],
)
def test_sizes_are_readable(size: int, text: str) -> None:
    assert readable_size(size) == text


def test_show_names_what_went_wrong_first_and_draws_a_row_of_blocks_for_each_parameter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_parameter_run(tmp_path)

    lines = mindsummary(capsys, "show", tmp_path).out.splitlines()
    page = lines[lines.index("Parameters") :]

    assert (
        page[1]
        == "  first not finite: the gradient of last.weight at step 30, where the loss is 0.0333333"
    )
    assert page[2].endswith("5 steps, 1 to 40; ▁ -3.0 to █ -1.0, ! not finite, 0 zero")
    assert page[3].split() == ["parameter", "steps", "last"]
    assert [line.split() for line in page[4:]] == [
        ["first.weight", "█████", "-1.0"],
        ["first.bias", "▅▅0▅▅", "-2.0"],
        ["last.weight", "▁▁▁!!", "inf"],
    ]
    facts = json.loads(mindsummary(capsys, "show", tmp_path, "--json").out)["parameters"]
    assert (facts["parameters"], facts["steps"]) == (3, [1, 10, 20, 30, 40])
    first = {
        "step": 30,
        "parameter": "last.weight",
        "kind": "gradient",
        "loss": pytest.approx(1 / 30),
    }
    assert facts["first_not_finite"] == first


def test_of_a_long_name_of_a_parameter_the_end_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = tuple(f"net.{'x' * 47}.{kind}" for kind in ("ln.bias", "out.bias", "out.weight"))
    assert [len(name) for name in names] == [59, 60, 62]
    write_parameter_run(tmp_path, names)

    lines = mindsummary(capsys, "show", tmp_path).out.splitlines()

    shown = [line.split()[0] for line in lines[lines.index("Parameters") + 4 :]]
    assert shown == [names[0], names[1], f"…{names[2][-59:]}"]


def test_many_parameters_are_shown_by_layers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_parameter_run(
        tmp_path, tuple(f"layers.{number // 2}.{number % 2}\x1b[31m" for number in range(2000))
    )

    out = mindsummary(capsys, "show", tmp_path).out

    assert "layers.0 to layers." in out
    assert "\n  layers " in out
    assert len(out.splitlines()) < 60
    assert "\x1b" not in out
