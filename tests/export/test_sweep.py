"""The report of sixty runs: a row a run, the best first, and the curves of the best."""

from __future__ import annotations

import html
import json
import math
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mindsummary_lightning.errors import LineageSearchConditionParamError
from mindsummary_lightning.export.report import write_report
from mindsummary_lightning.export.report.contents import COLOURS
from mindsummary_lightning.export.report.coordinates import parallel_coordinates
from mindsummary_lightning.export.report.sweep import make_sweep
from mindsummary_lightning.lineage.run_rows import RunRow
from mindsummary_lightning.values import TrainInfo
from mindsummary_lightning.values.text import Phrase
from tests.cli.command import mindsummary
from tests.lineage.sixty_runs import Run, by_best, by_last, write_sixty_runs
from tests.reading.runs import values_at, write_lineage, write_summary


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sixty") / "runs"


@pytest.fixture(scope="module")
def runs(base: Path) -> list[Run]:
    return write_sixty_runs(base)


def _page(base: Path, runs: list[Run], **asked: object) -> str:
    out = base.parent / "page.html"
    write_report([str(base / run.name) for run in runs], str(out), **asked)  # type: ignore[arg-type]
    return out.read_text(encoding="utf-8")


def _names(page: str) -> list[str]:
    return re.findall(r"<tr><th>(run_\d\d)</th>", page)


def _curves(page: str, tag: str) -> list[dict[str, str]]:
    card = page[page.index(f"<h3>{tag}") :]
    found = re.search(r"data-curves='([^']*)'", card)
    assert found is not None
    curves: list[dict[str, str]] = json.loads(html.unescape(found[1]))
    return curves


def test_a_row_a_run_is_sorted_and_the_curves_are_those_of_the_best(
    base: Path, runs: list[Run]
) -> None:
    page = _page(base, runs, best=5, by="val/loss")

    assert _names(page) == [run.name.removeprefix("sweep/") for run in by_best(runs)]
    assert len(_curves(page, "val/loss")) == 5
    for run in by_best(runs)[:5]:
        assert f"<b>{run.name.removeprefix('sweep/')}</b>" in page
    assert page.count(", diverged") == sum(run.is_diverged for run in runs)
    assert page.count("<polyline") == len(runs)


def test_without_being_asked_for_many_runs_are_rows_and_eight_are_drawn(
    base: Path, runs: list[Run]
) -> None:
    page = _page(base, runs)

    assert "<h2>Runs by min:val/loss</h2>" in page
    assert len(_curves(page, "val/loss")) == 8


def test_the_last_value_is_another_order(base: Path, runs: list[Run]) -> None:
    assert _names(_page(base, runs, by="last:val/loss"))[:5] == [
        run.name.removeprefix("sweep/") for run in by_last(runs)[:5]
    ]


def test_curves_of_one_setting_have_one_colour(base: Path, runs: list[Run]) -> None:
    page = _page(base, runs, group="lr")
    curves = _curves(page, "val/loss")

    colours = [curve["colour"] for curve in sorted(curves, key=lambda curve: curve["run"])]
    of_rates = dict(zip(("0.1", "0.01", "0.001"), COLOURS, strict=False))
    assert colours == [of_rates[f"{run.lr:g}"] for run in by_best(runs)]
    legend = re.findall(
        r'<div><span class="chip" style="background:(#\w+)"></span>(.*?)</div>', page
    )
    assert legend == [(colour, rate) for rate, colour in of_rates.items()]


def _scalars(directory: Path, runs: list[dict[str, float]]) -> list[str]:
    for number, values in enumerate(runs):
        write_summary(directory / f"run_{number}", [values_at(1, values)])
    return [str(directory / f"run_{number}") for number in range(len(runs))]


@pytest.mark.parametrize(
    ("tags", "chosen"),
    [
        (["loss x", "loss x", "train_loss"], "min:loss"),
        (["train_loss x", "loss x", "train_loss x"], "min:train_loss"),
        (["Val/accuracy loss", "loss", "loss"], "max:Val/accuracy"),
        (["val/accuracy val/Loss", "val/accuracy", "val/accuracy"], "min:val/Loss"),
        (["a", "a b", "b c", "b"], "max:b"),
    ],
)
def test_runs_are_compared_by_a_validation_then_a_loss_then_what_most_have(
    tmp_path: Path, tags: list[str], chosen: str
) -> None:
    paths = _scalars(tmp_path, [dict.fromkeys(names.split(), 1.0) for names in tags])

    assert make_sweep(paths, None, None, None, Phrase).ranking.column == chosen


def test_runs_without_a_scalar_have_nothing_to_be_compared_by(tmp_path: Path) -> None:
    with pytest.raises(LineageSearchConditionParamError, match="no run has a scalar to compare by"):
        make_sweep(_scalars(tmp_path, [{}, {}]), None, None, None, Phrase)


def test_a_sweep_has_a_row_a_run_and_draws_the_best_that_can_be_read(tmp_path: Path) -> None:
    paths = _scalars(tmp_path, [{"loss": loss} for loss in (0.5, 0.25, 2.0, 1.0)])
    (damaged,) = Path(paths[1]).iterdir()
    damaged.write_bytes(b"\0" * 100)
    for number, rate in ((0, 0.1), (2, 0.01), (3, 0.1)):
        write_lineage(tmp_path / f"run_{number}", [TrainInfo(learning_rate=rate)])

    sweep = make_sweep(paths, "last:loss", 2, "learning_rate", Phrase)

    assert [line[0] for line in sweep.lines] == ["run_0", "run_3", "run_2", "run_1"]
    lines = [dict(zip(sweep.columns, line[2:], strict=True)) for line in sweep.lines]
    assert [line["learning_rate"] for line in lines] == ["0.1", "0.1", "0.01", "-"]
    assert [line["last:loss"] for line in lines] == ["0.5", "1", "2", "-"]
    assert [(run.name, run.colour) for run in sweep.drawn] == [
        *(("run_0", COLOURS[0]), ("run_3", COLOURS[0]))
    ]
    assert sweep.groups == {"0.1": COLOURS[0]}
    assert list(sweep.problems) == ["run_1"]
    assert len(make_sweep(paths, "loss", None, None, Phrase).drawn) == 3


@pytest.mark.parametrize("asked", [{"by": "val/loss"}, {"best": 1}, {"group": "lr"}, {}])
def test_few_runs_are_rows_where_that_is_asked_for(
    base: Path, runs: list[Run], asked: dict[str, object]
) -> None:
    page = _page(base, runs[:2], **asked)

    assert ("<h2>Runs by min:val/loss</h2>" in page) == bool(asked)


def test_the_page_names_no_directory_of_its_author(base: Path, runs: list[Run]) -> None:
    for page in (_page(base, runs), _page(base, runs[:2])):
        assert str(base) not in page
        assert str(base.parent) not in page


def test_the_command_takes_the_same(
    base: Path, runs: list[Run], capsys: pytest.CaptureFixture[str]
) -> None:
    out = base.parent / "of_the_command.html"

    answer = mindsummary(capsys, "report", base, "--best", 5, "--by", "val/loss", "-o", out)
    refused = mindsummary(capsys, "report", base, "--by", "nothing", "-o", out)

    assert answer.code == 0
    assert _names(out.read_text(encoding="utf-8"))[0] == by_best(runs)[0].name.removeprefix(
        "sweep/"
    )
    assert (refused.code, "no run has a scalar 'nothing'" in refused.err) == (2, True)


def test_an_unknown_group_is_refused(base: Path, runs: list[Run]) -> None:
    with pytest.raises(LineageSearchConditionParamError, match="no run has a setting 'lrr'"):
        _page(base, runs, group="lrr")


def _picture(
    rows: list[RunRow], columns: list[str], by: str
) -> tuple[dict[str, tuple[str, str]], list[tuple[str, ...]]]:
    """Points and colour of each run's line, from the back to the front; x, y and text of texts."""
    svg = parallel_coordinates(rows, columns, by, "axes & lines")
    root = ElementTree.fromstring(svg)
    assert (root.get("viewBox"), root.get("aria-label")) == ("0 0 1000 260", "axes & lines")
    lines = {
        line[0].text or "": (line.get("points", ""), line.get("stroke", ""))
        for line in root.iter("polyline")
    }
    texts = [(text.get("x", ""), text.get("y", ""), text.text or "") for text in root.iter("text")]
    return lines, texts


def test_a_line_goes_through_the_places_of_its_runs_values_from_the_best_to_the_worst() -> None:
    rows = [
        RunRow("first", "", {"lr": 0.001, "net": "b", "size": 10, "loss": 0.5}),
        RunRow("second", "", {"lr": 0.1, "size": 40, "loss": 0.75}),
        RunRow("third", "", {"lr": math.nan, "net": "a", "size": 20, "loss": 2.5, "net:x": 1}),
        RunRow("fourth", "", {"lr": 0.01, "net": "c", "size": 30}),
    ]
    columns = ["net:x", "lr", "loss", "net", "size", "missing"]

    lines, texts = _picture(rows, columns, "loss")

    # axes at 60, 353, 647 and 940, from 246 below to 34 above
    assert list(lines) == ["fourth", "third", "second", "first"]
    assert {name: points for name, (points, _) in lines.items()} == {
        "first": "60,246.0 353,140.0 647,246.0 940,246.0",
        "second": "60,34.0 647,34.0 940,219.5",
        "third": "353,246.0 647,175.3 940,34.0",
        "fourth": "60,140.0 353,34.0 647,104.7",
    }
    assert [colour for _, colour in lines.values()] == ["#0072b2", "#476b77", "#8e653b", "#d55e00"]
    assert texts == [
        *(("60", "12", "lr"), ("64", "250", "0.001"), ("64", "38", "0.1")),
        *(("353", "12", "net"), ("357", "250", "a"), ("357", "144", "b"), ("357", "38", "c")),
        *(("647", "12", "size"), ("651", "250", "10"), ("651", "38", "40")),
        *(("940", "12", "loss"), ("944", "250", "0.5"), ("944", "38", "2.5")),
    ]


@pytest.mark.parametrize(
    ("values", "place"),
    [((1.0, 7.0, 49.0), 219.5), ((1.0, 7.0, 50.0), 140.5), ((0.0, 7.0, 70.0), 224.8)],
)
def test_an_axis_is_logarithmic_from_fifty_times_on(
    values: tuple[float, ...], place: float
) -> None:
    rows = [RunRow(str(value), "", {"x": value, "loss": value}) for value in values]

    lines, _ = _picture(rows, ["x"], "loss")

    assert lines["7.0"][0] == f"60,{place} 940,{place}"


def test_long_names_are_shortened_and_texts_of_many_words_and_further_columns_left_out() -> None:
    rows = [
        RunRow(
            str(run),
            "",
            {
                "x" * 18: run,
                "y" * 19: -run,
                "few": f"word {run % 12:02d}",
                "many": f"word {run % 13:02d}",
                "mixed": run if run % 2 else "text",
                **{f"z{number}": run for number in range(9)},
                "loss": run,
            },
        )
        for run in range(4, 30)
    ]

    _, texts = _picture(rows, [*rows[0].cells], "loss")

    names = [text for _, y, text in texts if y == "12"]
    assert names == [
        *("x" * 18, "y" * 17 + "…", "few", *(f"z{number}" for number in range(6)), "loss")
    ]


def test_names_cannot_become_markup_in_parallel_coordinates() -> None:
    rows = [
        RunRow(f"<b>{word}", "", {"<i>": word, "x": number})
        for word, number in (("<u>", 1.0), ("v", 2.0))
    ]

    svg = parallel_coordinates(rows, ["<i>", "x"], "x", "axes")

    assert svg.count("<title>&lt;b&gt;") == 2
    assert not re.search("<[biu]>", svg)


def test_large_seeds_that_share_six_digits_are_told_apart() -> None:
    rows = [
        RunRow(f"run_{seed}", "", {"seed": 3_000_000_000 + seed, "loss": seed / 10})
        for seed in (0, 7)
    ]

    svg = parallel_coordinates(rows, ["seed"], "loss", "axes")

    assert re.findall(r'stroke="(#\w{6})" ', svg) == ["#0072b2", "#d55e00"]
    assert ">3000000000<" in svg
    assert ">3000000007<" in svg


def test_runs_that_do_not_differ_have_no_coordinates() -> None:
    assert (
        parallel_coordinates(
            [RunRow("a", "", {"x": 1}), RunRow("b", "", {"x": 1})], ["x"], "x", "axes"
        )
        == ""
    )
