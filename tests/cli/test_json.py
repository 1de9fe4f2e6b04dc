"""``--json`` of the verbs that report: strict JSON with the structure that docs/reference/json.md
states.
"""

from __future__ import annotations

import json
import math
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mindsummary_lightning import filter_summary_lineage
from mindsummary_lightning.cli.verbs import VERBS, verb_module
from mindsummary_lightning.values import (
    Event,
    Graph,
    GraphConstant,
    GraphNode,
    GraphParameter,
    Histogram,
    Image,
    LandscapeMetadata,
    LossLandscape,
    Points,
    RunInfo,
    SummaryValue,
    Tensor,
    TrainInfo,
)
from tests.cli.command import mindsummary
from tests.cli.demo_run import write_demo_run
from tests.docs.pages import ROOT
from tests.lineage.lineage_tree import write_run
from tests.reading.runs import histogram, record, values_at, write_lineage, write_summary


def _json(capsys: pytest.CaptureFixture[str], *words: object) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(mindsummary(capsys, *words, "--json").out, parse_constant=refuse)


def test_list_counts_tags_by_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_demo_run(tmp_path / "a" / "version_0")

    (run,) = _json(capsys, "list", tmp_path)["runs"]

    assert run["run"] == "a/version_0"
    assert run["tags"] == {
        "scalar": 2,
        "image": 1,
        "tensor": 1,
        "histogram": 1,
        "loss_landscape": 1,
    }
    assert run["has_lineage"] is True
    assert run["bytes"] > 1000
    assert run["last_written"] > 1.7e9


def test_show_has_every_kind_and_lineage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_demo_run(tmp_path / "a")

    page = _json(capsys, "show", tmp_path)

    kinds = ["run", "scalars", "histograms", "images", "tensors", "landscapes", "graph", "lineage"]
    assert list(page) == kinds
    assert all(page[kind] for kind in kinds)
    assert set(page["scalars"]["loss/auto"]) == {"samples", "last_step", "last", "min", "max"}
    assert (
        page["histograms"]["conv1.weight/auto"].items()
        >= {"samples": 6, "last_step": 60, "elements": 864}.items()
    )
    assert (
        page["images"]["input_data/auto"].items()
        >= {"samples": 2, "width": 48, "height": 24}.items()
    )
    assert page["tensors"]["logits"] == {
        "samples": 1,
        "last_step": 60,
        "shape": [3, 3],
        "data_type": "float32",
    }
    assert page["graph"] == {"nodes": 2, "parameters": 0, "constants": 0}
    assert page["lineage"]["network"] == "LeNet"


def test_show_has_all_facts_of_each_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = Graph(
        tuple(GraphNode(str(at), "ReLU") for at in (1, 2, 3)),
        parameters=(GraphParameter("w"), GraphParameter("v")),
        constants=(GraphConstant("c", 1),),
    )
    surface = Points(np.arange(3.0), np.arange(2.0), np.array([[5.0, 2.0, 4.0], [3.0, 6.0, 2.5]]))
    path = Points(np.arange(2.0), np.arange(2.0), np.arange(2.0))
    unit = LandscapeMetadata("PCA", "epoch", 7)
    counted = Histogram(np.arange(2.0), np.ones(2), np.array([1, 4]), 5, min=-0.5, max=2.25)
    first: dict[str, SummaryValue] = {"loss": 0.1, "h": histogram(1)}
    last: dict[str, SummaryValue] = {
        "h": counted,
        "i": Image(4, 9, b"picture"),
        "t": Tensor(np.zeros((2, 3), np.float32)),
        "land": LossLandscape(surface, (1, 2, 4), path, None, unit),
        "final": LossLandscape(surface),
    }
    records = [
        record(Event(1.0, 0, graph)),
        values_at(1, first),
        values_at(2, {"loss": -3.0, "odd": math.nan}),
    ]
    records += [values_at(5, {"loss": math.inf}), values_at(7, {"loss": 0.7}), values_at(9, last)]
    write_summary(tmp_path / "a", records)
    write_lineage(tmp_path / "a", [TrainInfo(network="LeNet"), RunInfo({"status": "success"})])

    (tmp_path / "a" / "a.pb").touch()  # a model is no recorded graph

    assert _json(capsys, "show", tmp_path) == {
        "run": str(tmp_path / "a"),
        "scalars": {
            "loss": {"samples": 4, "last_step": 7, "last": 0.7, "min": -3.0, "max": 0.7},
            "odd": {"samples": 1, "last_step": 2, "last": "NaN", "min": None, "max": None},
        },
        "histograms": {
            "h": {"samples": 2, "last_step": 9, "elements": 5, "min": -0.5, "max": 2.25}
        },
        "images": {"i": {"samples": 1, "last_step": 9, "width": 9, "height": 4, "bytes": 7}},
        "tensors": {"t": {"samples": 1, "last_step": 9, "shape": [2, 3], "data_type": "float32"}},
        "landscapes": [
            {
                "tag": "final",
                "grid": [3, 2],
                "smallest_loss": 2.0,
                "intervals": [],
                "unit": "",
            },
            {
                "tag": "land",
                "grid": [3, 2],
                "smallest_loss": 2.0,
                "intervals": [1, 2, 4],
                "unit": "epoch",
            },
        ],
        "graph": {"nodes": 3, "parameters": 2, "constants": 1},
        "lineage": {"network": "LeNet", "status": "finished"},
    }
    page = mindsummary(capsys, "show", tmp_path).out.splitlines()
    started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(1_700_000_001))
    ended = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(1_700_000_007))
    assert page[2] == f"recorded {started} to {ended}"
    assert page[page.index("Loss landscapes") + 1 :][:3] == [
        "  tag    grid   smallest loss  path",
        "  final  3 x 2  2              final",
        "  land   3 x 2  2              3 points, epoch",
    ]
    assert page[page.index("Graph") + 1] == "  3 nodes, 2 parameters and inputs, 1 constant"
    assert page[page.index("Images") + 2].split(maxsplit=3)[3] == "9 x 4, 7 B"
    assert page[page.index("Tensors") + 2].split(maxsplit=3)[3] == "2 x 3, float32"


def test_show_says_that_a_run_is_running(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_summary(tmp_path, [values_at(1, {"loss": 1.0})])
    write_lineage(tmp_path, [TrainInfo(network="LeNet"), RunInfo({"status": "started"})])

    assert _json(capsys, "show", tmp_path)["lineage"] == {"network": "LeNet", "status": "running"}


def test_lineage_has_run_info_beside_the_query_s_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "a", TrainInfo(epoch=1), RunInfo({"status": "success"}))

    (run,) = _json(capsys, "lineage", tmp_path)["object"]

    assert run.pop("run_info") == {"status": "finished"}
    assert [run] == filter_summary_lineage(tmp_path)["object"]


def test_a_number_that_is_not_finite_is_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_summary(tmp_path / "a", [values_at(1, {"loss": float("nan")})])

    assert _json(capsys, "show", tmp_path)["scalars"]["loss"]["last"] == "NaN"


def test_verify_and_repair_name_files_and_offsets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_summary(tmp_path / "a", [values_at(1, {"loss": 1.0}), values_at(2, {"loss": 1.0})])
    whole = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"torn")

    found = _json(capsys, "verify", tmp_path)
    repaired = _json(capsys, "repair", tmp_path / "a")

    (finding,) = [finding for finding in found["findings"] if finding["is_damage"]]
    assert (finding["path"], finding["offset"]) == (str(path), whole)
    assert found["runs"] == [str(tmp_path / "a")]
    assert repaired["runs"] == found["runs"]
    (file,) = repaired["repaired"]
    # with the version record
    assert (file["path"], file["records"], file["dropped"]) == (str(path), 3, 4)


def test_verify_and_repair_say_all_of_damaged_and_unreadable_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    records = [values_at(1, {"loss": 1.0}), values_at(2, {"loss": 1.0})]
    torn, other, _ = (write_summary(tmp_path / name, records) for name in ("a", "b", "c"))
    torn.write_bytes(torn.read_bytes() + b"torn")
    other.write_bytes(b"version of another file")
    (tmp_path / "c" / "model.pb").touch()
    monkeypatch.chdir(tmp_path)
    name = torn.name
    torn_end = (
        "4 bytes of an unfinished record at the end (4 bytes are left, a record has at least 16); "
        "run `mindsummary repair`"
    )
    kind = "another kind of file: it begins with b'version of a'"

    checked = mindsummary(capsys, "verify", "a", "b", "c")
    dry = mindsummary(capsys, "repair", "a", "b", "c", "--dry-run")
    dry_answer = _json(capsys, "repair", "a", "b", "c", "--dry-run")
    done = mindsummary(capsys, "repair", "a", "b", "c")

    assert (checked.code, checked.err, checked.out.splitlines()) == (
        1,
        "",
        [
            f"damage: a/{name}, byte 128: {torn_end}",
            f"damage: b/{name}, byte 0: no record can be read; it looks like {kind}",
            "warning: c/model.pb: MindInsight reads every .pb file in a run as a MindSpore graph",
            "3 runs checked: 2 damages, 1 warning",
        ],
    )
    left = f"b/{name}: left as it is: no record can be read; it looks like {kind}"
    assert (dry.code, dry.err, dry.out.splitlines()) == (
        1,
        "",
        [f"a/{name}: 3 records would be kept, 4 B would be dropped", left],
    )
    assert dry_answer == {
        "runs": ["a", "b", "c"],
        "repaired": [
            {
                "path": f"a/{name}",
                "records": 3,
                "dropped": 4,
                "backup": None,
                "looks_like": None,
            }
        ],
        "unreadable": [
            {
                "path": f"b/{name}",
                "records": 0,
                "dropped": 23,
                "backup": None,
                "looks_like": kind,
            }
        ],
    }
    kept, backup, *rest = done.out.splitlines()
    assert (done.code, kept, rest) == (1, f"a/{name}: 3 records kept, 4 B dropped", [left])
    saved = Path(backup.removeprefix("  the damaged file is now "))
    assert (saved.parent, saved.read_bytes()[-4:]) == (Path("a", ".damaged"), b"torn")


def test_repair_names_each_run_of_several_directories(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b c"):
        write_summary(tmp_path / name, [values_at(1, {"loss": 1.0})])
    directories = [str(tmp_path / "a"), str(tmp_path / "b c")]

    assert _json(capsys, "repair", *directories)["runs"] == directories
    told = mindsummary(capsys, "repair", *directories).out
    assert told == f"{directories[0]}, {directories[1]}: nothing is damaged\n"


def test_report_and_export_name_their_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("bokeh")
    pytest.importorskip("jinja2")
    write_demo_run(tmp_path / "a")
    page = tmp_path / "page.html"

    answer = _json(capsys, "report", tmp_path / "a", "-o", page)

    assert answer == {"file": str(page), "runs": 1, "bytes": page.stat().st_size}
    exported = _json(capsys, "export", tmp_path / "a", "--to", "csv", "--out", tmp_path / "out")
    assert [Path(file).name for file in exported["files"]] == ["scalars.csv", "histograms.csv"]


def test_the_guide_has_the_shape_of_every_json() -> None:
    text = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))

    taking = {
        verb for verb in VERBS if any("--json" in names for names, _ in verb_module(verb).ARGUMENTS)
    }
    assert listed == taking
