from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from mindsummary_lightning.fileformat.row_names import ROW_NAMES_FILE, encode_row_names
from mindsummary_lightning.values import Tensor
from mindsummary_lightning.values.statistics_columns import COLUMNS, STATISTICS_TAG, to_stored
from mindsummary_lightning.viewer.api import ApiError, PageError
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.pages import what_went_wrong
from tests.porting.comparison.test_output_statistics import ORIGINAL, train
from tests.reading.runs import values_at, write_parameter_run, write_summary
from tests.viewer.pages.asking import ask


def _page(base: Path, **query: str) -> str:
    answer = ask(LoadedRuns(str(base)), "what-went-wrong", **query)
    assert answer.content_type == "text/html; charset=utf-8"
    content: bytes = answer.content
    return content.decode()


def _verdicts(page: str) -> list[str]:
    return re.findall(r'<p class="verdict[^>]*>(.*?)</p>', page)


def _rows(page: str) -> list[tuple[str, list[str]]]:
    """The rows of the table of output statistics: how each is marked, and its cells."""
    body = page.partition('<table class="modules">')[2].partition("<tbody>")[2]
    rows = re.findall(r'<tr(?: class="(\w+)")?>(.*?)</tr>', body.partition("</tbody>")[0])
    return [(mark, re.findall(r"<td[^>]*>(.*?)</td>", cells)) for mark, cells in rows]


def _write_tables(
    run: Path,
    steps: Sequence[int],
    names: Sequence[str],
    *changes: tuple[str, int, int, float],
) -> None:
    """Parameter statistics in which every gradient is 0.01; changes are of a column, at a step,
    in a row.
    """
    records = []
    for step in steps:
        table = np.zeros((len(names), len(COLUMNS)))
        table[:, COLUMNS.index("gradient_rms")] = 0.01
        for column, at, row, number in changes:
            if at == step:
                table[row, COLUMNS.index(column)] = number
        records.append(values_at(step, {STATISTICS_TAG: Tensor(to_stored(table))}))
    write_summary(run, records)
    (run / ROW_NAMES_FILE).write_bytes(encode_row_names(tuple(names)))


def test_the_first_gradient_that_is_not_finite_is_named_and_marked(tmp_path: Path) -> None:
    write_parameter_run(tmp_path / "a")

    page = _page(tmp_path, train_id="./a")

    assert _verdicts(page) == [
        "First not finite: gradient of last.weight at step 30. The loss of that step is 0.0333333."
    ]
    marked = re.findall(r'<td class="(\w+)"[^>]*title="([^"]*)">([^<]*)', page)
    assert marked == [
        ("zero", "first.bias, 20: zero", "0"),
        ("lost", "last.weight, 30: not finite", "\u00d7"),
        ("lost", "last.weight, 40: not finite", "\u00d7"),
    ]
    assert 'title="first.weight, 10: 0.1"' in page
    key = re.search(r'<p class="small key">.*?</p>', page)
    assert key is not None
    first, *_, last = re.findall(r'<i style="background:(#\w+)"></i>', key[0])
    assert (first, last) == ("#440154", "#fde725")  # dark is small
    assert re.sub(r"<i .*</i>", "...", key[0]) == (
        '<p class="small key">Root mean square of the gradient: 1.0e-03 ... 1.0e-01; '
        "\u00d7 not finite, 0 zero</p>"
    )


def test_the_first_weight_that_is_not_finite_is_named(tmp_path: Path) -> None:
    _write_tables(tmp_path / "a", (1, 2, 3), ("x", "y"), ("weight_non_finite", 2, 1, 4.0))

    page = _page(tmp_path, train_id="./a")

    assert _verdicts(page) == ["First not finite: weight of y at step 2."]
    assert re.findall(r'<td class="(\w+)"[^>]*title="([^"]*)"', page) == [
        ("lost", "y, 2: not finite")
    ]


def test_parameters_that_are_all_finite_are_said_to_be(tmp_path: Path) -> None:
    _write_tables(tmp_path / "a", (1, 2), ("x", "y"), ("gradient_rms", 2, 0, np.nan))

    page = _page(tmp_path, train_id="./a")

    assert _verdicts(page) == ["All gradients and weights of 2 recorded steps are finite."]
    assert re.findall(r'<td style="[^"]*" title="([^"]*)">([^<]*)</td>', page) == [
        ("x, 1: 0.01", ""),
        ("x, 2: no gradient", ""),
        ("y, 1: 0.01", ""),
        ("y, 2: 0.01", ""),
    ]


@pytest.mark.parametrize(("bad", "shown"), [(None, 40), (0, 40), (50, 41), (99, 40)])
def test_of_many_steps_forty_are_columns_and_the_first_bad_one(
    bad: int | None, shown: int, tmp_path: Path
) -> None:
    change = () if bad is None else (("gradient_non_finite", bad, 1, 1.0),)
    _write_tables(tmp_path / "a", range(100), ("x", "y"), *change)

    page = _page(tmp_path, train_id="./a")

    steps = [int(step) for step in re.findall(r'<th scope="col"><span>(\d+)</span>', page)]
    assert (len(steps), steps[0], steps[-1]) == (shown, 0, 99)
    assert steps == sorted(steps)
    lost = re.findall(r'title="y, (\d+): not finite"', page)
    assert lost == ([] if bad is None else [str(bad)])


def test_long_names_lose_their_beginning_and_rows_of_a_layer_are_joined(tmp_path: Path) -> None:
    _write_tables(tmp_path / "a", (1, 2), (f"a{'b' * 47}", f"c{'d' * 48}"))
    layers = [f"layer{at}.{kind}" for at in range(61) for kind in ("weight", "bias")]
    _write_tables(tmp_path / "b", (1, 2), layers[:121])
    _write_tables(tmp_path / "c", (1, 2), layers[:120])

    heads = re.findall(
        r'<th scope="row" title="([^"]*)"><bdi>([^<]*)</bdi>', _page(tmp_path, train_id="./a")
    )
    joined, single = (
        re.findall(r"<bdi>([^<]*)</bdi>", _page(tmp_path, train_id=train_id))
        for train_id in ("./b", "./c")
    )

    assert heads == [
        (f"a{'b' * 47}", f"a{'b' * 47}"),
        (f"c{'d' * 48}", f"\u2026{'d' * 47}"),
    ]
    assert joined == [f"layer{at}" for at in range(61)]
    assert single == layers[:120]


def test_the_first_module_that_is_not_finite_is_marked_in_its_step(tmp_path: Path) -> None:
    train(tmp_path / "a", ORIGINAL, {"active": lambda tensor: np.where(tensor > 0, np.nan, tensor)})

    page = _page(tmp_path, train_id="./a")

    (said,) = _verdicts(page)
    assert said == (
        "First value that is not finite: ReLU net.relu output at step 1, called at ReLU.py:7, "
        "whose inputs are finite."
    )
    rows = _rows(page)
    assert [mark for mark, _ in rows] == [
        *([""] * 6),
        *("origin", "lost", "", "lost", "", "lost", "lost", "lost", "lost", "", "lost", "lost"),
    ]
    weights = ["weights", "net.dense1.weight", "parameter", "8 \u00d7 8"]
    assert rows[1][1] == [*weights, "0.9722", "-2.118", "2.253", "0", "0", ""]
    relu = ["forward", "net.relu output", "ReLU", "6 \u00d7 8"]
    assert rows[6][1] == [*relu, "0", "0", "0", "1", "\u00d7 17", "ReLU.py:7"]
    none = "\u2013"
    updated = ["after the update", *weights[1:]]
    assert rows[-2][1] == [*updated, none, none, none, "0", "\u00d7 64", ""]


def test_any_step_can_be_asked_for_and_another_one_is_the_first_that_failed(
    tmp_path: Path,
) -> None:
    train(tmp_path / "bad", ORIGINAL, {"between1": lambda tensor: tensor * np.nan})
    train(tmp_path / "good", ORIGINAL)

    def step(train_id: str, **query: str) -> str:
        (found,) = re.findall(
            r"<h2>Output statistics of step (\d+)</h2>",
            _page(tmp_path, train_id=train_id, **query),
        )
        return str(found)

    asked = [{}, *({"step": text} for text in ("1", "3", "4", "x"))]
    assert [step("./bad", **query) for query in asked] == ["2", "1", "3", "2", "2"]
    assert [step("./good", **query) for query in asked] == ["3", "1", "3", "3", "3"]
    page = _page(tmp_path, train_id="./bad", step="3")
    assert "origin" not in [mark for mark, _ in _rows(page)]
    assert "at step 2" in _verdicts(page)[0]


def test_the_recorded_steps_are_links_and_a_single_one_is_not(tmp_path: Path) -> None:
    for steps in (1, 2, 3):
        train(tmp_path / str(steps), ORIGINAL, steps=steps)

    def links(train_id: str, **query: str) -> list[tuple[str, str, str]]:
        page = _page(tmp_path, train_id=train_id, **query)
        return re.findall(r'<a href="(\?[^"]*)"( aria-current="true")?>(\d+)</a>', page)

    assert links("./1") == []
    assert [step for _, _, step in links("./2")] == ["1", "2"]
    begin = "?train_id=.%2F3&amp;language=zh&amp;step="
    assert links("./3", step="2", language="zh") == [
        (f"{begin}1", "", "1"),
        (f"{begin}2", ' aria-current="true"', "2"),
        (f"{begin}3", "", "3"),
    ]


def test_a_run_in_which_all_is_finite_says_so(tmp_path: Path) -> None:
    train(tmp_path / "a", ORIGINAL)
    write_summary(tmp_path / "b", [values_at(1, {"loss": 1.0})])

    page = _page(tmp_path, train_id="./a")
    assert _verdicts(page) == ["All values of the recorded steps are finite."]
    assert {mark for mark, _ in _rows(page)} == {""}
    assert _verdicts(_page(tmp_path, train_id="./b")) == [
        "This run has no statistics of parameters and no recorded step."
    ]


def test_a_run_is_named_as_in_the_table_of_runs(tmp_path: Path) -> None:
    for run in (tmp_path / "runs", tmp_path / "runs" / "deep" / "a"):
        write_summary(run, [values_at(1, {"loss": 1.0})])

    for train_id, name in (("./", "runs"), ("./deep/a", "deep/a")):
        page = _page(tmp_path / "runs", train_id=train_id)
        assert f"<h1>What went wrong: {name}</h1>" in page
        assert f"<title>{name}</title>" in page


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ("batch", slice(0, 4)),
        ("active", slice(4, 8)),
        ("after1", slice(14, 18)),
        (None, slice(0, 4)),
    ],
)
def test_rows_around_the_first_failure_of_a_large_step_are_shown(
    change: str | None, shown: slice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {} if change is None else {change: lambda tensor: tensor * np.nan}
    train(tmp_path / "a", ORIGINAL, changes, steps=1)
    every_row = _rows(_page(tmp_path, train_id="./a"))
    assert len(every_row) == 18
    monkeypatch.setattr(what_went_wrong, "MAX_MODULES", 4)

    page = _page(tmp_path, train_id="./a")

    assert _rows(page) == every_row[shown]
    assert "4 of 18 rows are shown." in page
    monkeypatch.setattr(what_went_wrong, "MAX_MODULES", 18)
    assert "rows are shown" not in _page(tmp_path, train_id="./a")


def test_the_page_speaks_chinese_and_escapes_names(tmp_path: Path) -> None:
    write_parameter_run(tmp_path / "<b>", ("<i>", "x", "y"))

    page = _page(tmp_path, train_id="./<b>", language="zh")

    assert '<html lang="zh-CN">' in page
    assert "y" in page
    assert "\u68af\u5ea6" in page
    assert "<i>" not in page
    assert "<b>" not in page


def test_a_run_that_is_gone_is_answered_with_a_page(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    runs = LoadedRuns(str(tmp_path))

    with pytest.raises(PageError) as refused:
        ask(runs, "what-went-wrong", train_id="./gone")
    assert refused.value.status == 404
    assert b'<a href="../../runs">' in refused.value.page
    with pytest.raises(ApiError, match="'train_id' is required"):
        ask(runs, "what-went-wrong")


def test_a_run_that_cannot_be_opened_is_answered_with_a_page_that_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_summary(tmp_path / "a", [values_at(1, {"loss": 1.0})])
    fails = Mock(side_effect=PermissionError(13, "Permission denied", "the file"))
    monkeypatch.setattr(what_went_wrong, "read_parameter_table", fails)

    with pytest.raises(PageError) as refused:
        ask(LoadedRuns(str(tmp_path)), "what-went-wrong", train_id="./a")
    assert b"Permission denied" in refused.value.page
