"""The report of sixty runs: a row a run, the best first, and the curves of the best."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

from mindsummary_lightning.errors import LineageSearchConditionParamError
from mindsummary_lightning.export.report import write_report
from mindsummary_lightning.export.report.coordinates import parallel_coordinates
from mindsummary_lightning.lineage.run_rows import RunRow
from tests.cli.command import mindsummary
from tests.lineage.sixty_runs import Run, by_best, by_last, write_sixty_runs


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
    curves = _curves(_page(base, runs, group="lr"), "val/loss")

    assert len(curves) == len(runs)
    assert len({curve["colour"] for curve in curves}) == 3


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

    assert ">3000000000<" in svg
    assert ">3000000007<" in svg


def test_runs_that_do_not_differ_have_no_coordinates() -> None:
    assert (
        parallel_coordinates(
            [RunRow("a", "", {"x": 1}), RunRow("b", "", {"x": 1})], ["x"], "x", "axes"
        )
        == ""
    )
