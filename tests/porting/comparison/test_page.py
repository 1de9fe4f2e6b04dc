"""The page of a comparison: one file, no script, nothing from elsewhere, and nothing of a run
becomes markup.
"""

from __future__ import annotations

import ast
import base64
import io
import json
import os
import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from mindsummary_lightning import StepRecorder, compare_runs
from mindsummary_lightning.porting.comparison.loss_tags import CommonSeries
from mindsummary_lightning.porting.comparison.matching.tensor_names import Pair
from mindsummary_lightning.porting.comparison.page import comparison_page
from tests.cli.command import mindsummary
from tests.docs.pages import ROOT
from tests.porting.comparison.test_output_statistics import ORIGINAL, PORT, train
from tests.porting.comparison.test_verdict import write_run
from tests.reading.runs import values_at, write_summary


def _page(a: Path, b: Path) -> str:
    return comparison_page(compare_runs(a, b))


def test_a_page_has_the_verdict_curves_and_a_map(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a")
    b = write_run(tmp_path / "b", lambda step, name, tensor: tensor * (1.01 if step > 6 else 1.0))

    page = _page(a, b)

    assert "from step 7, the loss agrees, tensors differ by up to " in page
    assert "steps compared: 12; tensors: 3; losses: 12" in page
    assert page.count("<polyline") == 3
    assert "data:image/png;base64," in page
    assert not re.search(r"<script|https?://|url\(", page)


def test_a_printed_comparison_is_the_text_of_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = (
        write_run(tmp_path / "a"),
        write_run(tmp_path / "b", lambda step, name, tensor: tensor * 1.01),
    )

    comparison = compare_runs(a, b)

    assert str(comparison).split("\n") == mindsummary(capsys, "compare", a, b).out.splitlines()
    assert comparison.sentence in str(comparison)


def test_a_page_is_chinese_where_asked_for(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a")
    b = write_run(
        tmp_path / "b",
        lambda step, name, tensor: tensor * (1.01 if step > 6 else 1.0),
        steps=range(1, 30),
    )
    chains = (
        train(tmp_path / "c", ORIGINAL),
        train(tmp_path / "d", PORT, {"hidden": lambda x: x * (1 + 1e-5)}),
    )
    failed = chains[0], train(tmp_path / "e", PORT, {"hidden": lambda x: x * np.nan})

    pages = [comparison_page(compare_runs(*runs), "zh") for runs in ((a, b), chains, failed)]

    for page in pages:
        texts = re.findall(r"<(?:h[12]|th|p|pre)(?: class=\"[^\"]*\")?>([^<]+)", page)
        assert 'lang="zh-CN"' in page
        assert 'lang="en"' not in page
        assert [text for text in texts if not re.search(r"[\u4e00-\u9fff]|^loss/auto$", text)] == []
    assert "从第 7 步起，损失一致，张量最多相差 " in pages[0]
    assert (
        "是前向计算，位于 net.dense1（Dense） = body.0（Linear）：其输入一致，其输出相差 1.0e-05"
        in pages[1]
    )
    assert "第 1 步的 Linear body.0 输出（调用处 Linear.py:7），其输入均为有限值" in pages[2]


def test_every_phrase_of_the_page_has_words_in_chinese_with_the_same_values() -> None:
    words = json.loads(
        (files("mindsummary_lightning.porting.comparison") / "page_zh.json").read_text(
            encoding="utf-8"
        )
    )
    package = ROOT / "mindsummary_lightning"
    sources = [
        *(package / "porting" / "comparison").rglob("*.py"),
        package / "reading" / "output_statistics.py",
    ]
    calls = [
        node.args[0]
        for path in sources
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("Phrase", "say")
    ]
    parts = [
        part
        for at in calls
        for part in ((at.body, at.orelse) if isinstance(at, ast.IfExp) else (at,))
    ]
    templates = [str(part.value) for part in parts if isinstance(part, ast.Constant)]

    assert len(templates) > 70
    assert {
        each for each in templates if re.search("[a-z]", re.sub("{.*?}", "", each))
    } <= words.keys()
    values = {
        text: sorted(re.findall(r"{\d?(.*?)}", text)) for pair in words.items() for text in pair
    }
    assert [
        english for english, chinese in words.items() if values[english] != values[chinese]
    ] == []


def test_the_chain_is_a_folded_list_with_its_first_difference_open(tmp_path: Path) -> None:
    a = train(tmp_path / "a", ORIGINAL)
    b = train(tmp_path / "b", PORT, {"hidden": lambda x: x * (1 + 1e-5)})

    page = _page(a, b)
    states = re.findall(r'<span class="(agrees|first|apart)">([^<]*?)[ :]', page)

    assert "Output statistics of step 1" in page
    assert ("first", "net.dense1") in states
    assert {name for state, name in states if state == "apart"} == {"net", "net.relu", "net.dense2"}
    assert re.search(r"<details open><summary><span class=\"apart\">net ", page)


def _net(directory: Path, seed: int, width: int = 16) -> Path:
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 4))
    with StepRecorder(directory).step(net, torch.optim.SGD(net.parameters())) as loss_is:
        loss_is(net(torch.ones(2, 8)).sum())
    return directory


def test_a_module_that_differs_as_its_weights_do_is_not_said_to_agree(tmp_path: Path) -> None:
    page = _page(_net(tmp_path / "a", 0), _net(tmp_path / "b", 1))

    states = re.findall(r'<span class="(\w+)">[^<]*?\): ([\d.e+-]+)<', page)
    assert {state for state, _ in states} == {"explained"}
    assert min(float(distance) for _, distance in states) > 0.01
    assert "\u2248 differs as its inputs or weights do" in page


def test_the_only_weight_of_one_size_is_said_to_differ_in_the_singular(tmp_path: Path) -> None:
    page = _page(_net(tmp_path / "a", 0, 16), _net(tmp_path / "b", 0, 32))

    assert "first in the weights with which the step begins: 2.bias differs by 3.8e-01" in page


def test_a_curve_of_one_step_is_a_dash_in_the_middle(tmp_path: Path) -> None:
    page = _page(_net(tmp_path / "a", 0), _net(tmp_path / "b", 1))

    begins_and_ends = re.findall(r'<polyline class="a" points="([\d.]+),[\d.]+ ([\d.]+),', page)
    assert begins_and_ends == [("474.0", "498.0")]


class Unused(nn.Module):
    """The output of its first module has no effect."""

    def __init__(self, slope: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.unused, self.last = nn.LeakyReLU(slope), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.unused(x)
        return self.last(x)


def test_a_module_behind_the_first_difference_that_agrees_is_green(tmp_path: Path) -> None:
    for run, slope in (("a", 0.1), ("b", 0.2)):
        net = Unused(slope)
        with StepRecorder(tmp_path / run).step(net, torch.optim.SGD(net.parameters())) as loss_is:
            loss_is(net(torch.tensor([[-2.0, -1.0, 1.0, 2.0]])).sum())

    page = _page(tmp_path / "a", tmp_path / "b")
    assert re.findall(r'<span class="(agrees|first|apart)">(\w+)', page)[-3:] == [
        ("agrees", "the"),
        ("first", "unused"),
        ("agrees", "last"),
    ]


def test_a_module_behind_an_update_that_differs_is_grey(tmp_path: Path) -> None:
    for run, rate in (("a", 0.1), ("b", 0.2)):
        torch.manual_seed(0)
        net, x = nn.Linear(4, 4), torch.ones(2, 4)
        optimizer = torch.optim.SGD(net.parameters(), rate)
        with StepRecorder(tmp_path / run).step(net, optimizer, x) as loss_is:
            net(x).sum().backward()
            optimizer.step()
            loss_is(net(x).sum())

    page = _page(tmp_path / "a", tmp_path / "b")
    assert "first in the gradients or the update" in page or "first in the update" in page
    assert re.findall(r'<span class="(\w+)">the network ', page) == ["agrees", "apart"]


def test_outputs_of_samples_in_another_order_are_drawn_as_far_apart_as_the_table_says(
    tmp_path: Path,
) -> None:
    a = train(tmp_path / "a", ORIGINAL)
    b = train(tmp_path / "b", PORT, {"batch": lambda x: x[::-1], "rate": lambda x: x * 1.01})

    page = _page(a, b)
    assert "first in the update" in page
    assert {
        text.rpartition(": ")[2] for text in re.findall(r'<span class="apart">([^<]*)<', page)
    } == {"not paired"}
    heights = [
        float(point.split(",")[1])
        for point in re.findall(r'class="d" points="([^"]*)"', page)[0].split()
    ]
    assert min(heights) > 200  # near the bottom


def test_of_more_numbers_than_are_drawn_the_greatest_is_shown(tmp_path: Path) -> None:
    runs = (
        write_run(tmp_path / "a"),
        write_run(tmp_path / "b", lambda step, name, x: x * (1.01 if step > 6 else 1.0)),
    )
    comparison = compare_runs(*runs)
    assert comparison.first_difference is not None
    losses, distances = np.ones((2, 2000)), np.full((800, 800), 1e-9)
    # the second is drawn of the first two
    losses[0, [1000, 1001, 1500, 1701]] = np.nan, 5.0, 0.5, np.inf
    distances[4:6, 554:556], distances[20:22] = [[np.nan, 1e-9], [1e-9, 1.0]], np.nan
    distances[8, 2] = np.inf
    names = comparison.alignment.names._replace(
        pairs=tuple(Pair(f"t{at}", f"t{at}", "name") for at in range(800))
    )
    alignment = replace(
        comparison.alignment,
        names=names,
        tensors=comparison.alignment.tensors._replace(steps=np.arange(1, 801)),
        losses=CommonSeries(np.arange(1, 2001), losses),
    )
    page = comparison_page(
        replace(
            comparison, alignment=alignment,
            distances=replace(comparison.distances, tensors=distances, losses=np.zeros(2000)),
            first_difference=replace(comparison.first_difference, step=401),
            scalars={f"scalar {at}": 1.0 - at / 100 for at in range(25)},
        )
    )  # fmt: skip

    a, b, far = (
        [float(y) for y in re.findall(r",([0-9.-]+)", points)]
        for points in re.findall('points="(.*?)"', page)
    )
    assert ({*map(len, (a, b, far))}, {*b}, {*far}) == ({900}, {195.6}, {220.0})
    assert (a.count(0.0), a.count(195.6)) == (1, 899)
    assert page.index(">5</span>") < page.index(">0.5</span>")
    assert [text in page for text in ('y1="157.1"', 'x1="575.0"', "scalar 19<", "t8 +1<")] == [
        True
    ] * 4
    assert [text in page for text in ("scalar 20<", "t4 +1<")] == [False] * 2
    picture = np.asarray(
        Image.open(io.BytesIO(base64.b64decode(re.findall('png;base64,(.*?)"', page)[0])))
    )
    for colour, expected in (([120, 60, 130], (2, 277)), ([190, 30, 45], (4, 1))):
        places = np.argwhere((picture == colour).all(axis=2))
        assert [tuple(place) for place in places] == [expected]
    assert {*np.nonzero((picture == 128).all(axis=2))[0]} == {10}


def test_a_single_step_is_seen_in_curves_and_nothing_to_compare_has_no_note_on_histograms(
    tmp_path: Path,
) -> None:
    a, b = (write_run(tmp_path / name, steps=range(1, 2)) for name in "ab")
    page, empty = _page(a, b), _page(a, write_run(tmp_path / "c", steps=range(50, 55)))

    for points in re.findall('points="(.*?)"', page):
        (left, y), (right, other) = (point.split(",") for point in points.split())
        assert float(right) - float(left) > 2
        assert y == other
    assert ["of histograms are compared: permuted" in text for text in (page, empty)] == [
        True,
        False,
    ]
    assert "steps compared: 0; tensors: 0; losses: 0" in empty


@pytest.mark.parametrize("verdict", ["different", "undecided", "not_comparable"])
def test_no_verdict_has_the_colour_of_runs_that_are_the_same(verdict: str, tmp_path: Path) -> None:
    run = write_run(tmp_path / "a")
    page = comparison_page(replace(compare_runs(run, run), verdict=verdict))

    assert f'class="verdict {verdict}"' in page
    assert re.search(rf"\.{verdict} {{ border-color: #[0-9a-f]+; }}", page)


def test_numbers_beside_a_curve_are_not_cut(tmp_path: Path) -> None:
    a, b = (write_run(tmp_path / name, loss=lambda step: -1.2345e-5 / step) for name in "ab")

    style = (
        files("mindsummary_lightning.porting.comparison").joinpath("page.css").read_text("utf-8")
    )
    assert '<div class="ends"><span>-1.029e-06</span><span>-1.234e-05</span>' in _page(a, b)
    assert re.search(r"\.chart { [^}]*grid-template-columns: minmax\(72px, max-content\)", style)


def test_steps_further_apart_than_an_integer_is_large_are_drawn_in_the_page(tmp_path: Path) -> None:
    run = tmp_path / "run"
    write_summary(run, [values_at(step, {"loss/auto": 1.0}) for step in (-(2**63), 0, 2**63 - 1)])

    places = re.findall(r"([0-9.e+-]+),[0-9.]+", re.findall('points="(.*?)"', _page(run, run))[0])

    assert len(places) == 3
    assert np.diff(np.array(places, float)).tolist() == pytest.approx(
        [np.diff(np.array(places, float))[0]] * 2
    )


def _write_net(directory: Path, width: int) -> Path:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 4))
    with StepRecorder(directory).step(net, torch.optim.SGD(net.parameters())) as loss_is:
        loss_is(net(torch.ones(2, 8)).sum())
    return directory


def test_tensors_of_one_name_and_two_shapes_are_one_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = _write_net(tmp_path / "narrow", 16), _write_net(tmp_path / "wide", 32)

    comparison = compare_runs(a, b)
    page = comparison_page(comparison)

    assert comparison.other_shapes[0] == ("0.weight", (16, 8), (32, 8))
    assert "<td>0.weight</td><td>(16, 8)</td><td>(32, 8)</td>" in page
    assert "Tensors of one run only" not in page
    assert "only in narrow, not compared" not in page
    printed = mindsummary(capsys, "compare", a, b).out
    assert (
        "different shape, not compared: 0.weight (16, 8) | (32, 8), 0.bias (16,) | (32,)" in printed
    )
    assert "only in the baseline" not in printed
    assert comparison.to_dict()["other_shapes"][0] == {
        "name": "0.weight",
        "baseline": [16, 8],
        "candidate": [32, 8],
    }


def test_without_shapes_the_numbers_of_elements_differ(tmp_path: Path) -> None:
    def shorter(step: int, name: str, tensor: np.ndarray) -> np.ndarray:
        return tensor[:-1] if name == "fc.weight" else tensor

    a, b = write_run(tmp_path / "a"), write_run(tmp_path / "b", shorter)

    ((name, size_a, size_b),) = compare_runs(a, b).other_shapes
    assert (name, size_a - size_b) == ("fc.weight", 1)
    assert f"<td>{size_a} elements</td><td>{size_b} elements</td>" in _page(a, b)


def test_values_are_shown_at_the_pointer(tmp_path: Path) -> None:
    def change(step: int, name: str, tensor: np.ndarray) -> np.ndarray:
        return tensor * (1.01 if step > 6 else 1.0)

    page = _page(write_run(tmp_path / "a"), write_run(tmp_path / "b", change))

    assert "<title>step 4&#10;a: 0.25&#10;b: 0.25</title>" in page
    assert "<title>step 4&#10;0.0e+00</title>" in page
    assert "<title>fc.bias&#10;step 7: 9.4e-03</title>" in page


def test_values_of_many_steps_are_shown_as_bounds(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, steps=range(1, 402)) for name in "ab"]

    page = _page(*runs)

    assert "<title>step 1\u20132&#10;a: \u2264 1&#10;b: \u2264 1</title>" in page
    assert page.count("<title>") < 2 * 200 + 2000 + 10


def test_the_runs_of_tables_have_their_names(tmp_path: Path) -> None:
    a = write_run(tmp_path / "first_try", names={"fc.bias": "fc.other"})
    b = write_run(tmp_path / "second_try", lambda step, name, tensor: tensor * 1.01)

    page = _page(a, b)

    assert '<th scope="col">first_<wbr>try</th><th scope="col">second_<wbr>try</th>' in page
    assert not re.search("<t[hd][^>]*>(baseline|candidate)<", page)


def test_names_do_not_become_markup(tmp_path: Path) -> None:
    evil = '<img src=x onerror="alert(1)">'
    a, b = (write_run(tmp_path / name, names={"fc.bias": f"{evil}{name}"}) for name in "ab")

    page = _page(a, b)

    assert evil not in page
    assert "&lt;img src=x" in page


def test_names_of_runs_need_not_be_utf8(tmp_path: Path) -> None:
    a, b = (write_run(tmp_path / name) for name in ("a", os.fsdecode(b"\xff")))

    assert r"\udcff" in _page(a, b).encode().decode()


def test_runs_that_cannot_be_compared_have_a_page_that_says_so(tmp_path: Path) -> None:
    a, b = write_run(tmp_path / "a"), write_run(tmp_path / "b", steps=range(50, 55))

    assert "not comparable" in _page(a, b)
