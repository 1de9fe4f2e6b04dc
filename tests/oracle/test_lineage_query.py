"""MindInsight 2.3.1's own ``filter_summary_lineage`` and ours over one tree: the same JSON, the
same refusals.

Not compared, and tested in ``tests/lineage`` instead: dataset marks beyond eight pipelines
(MindInsight gives all of them the mark 10), files that make MindInsight fail for every run, and the
older spellings that 2.3.1 refuses. Custom entries with several keys in one element, of which
MindInsight keeps any one, no writer leaves.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mindsummary_lightning.errors import LineageSearchConditionParamError
from mindsummary_lightning.lineage.query import filter_summary_lineage
from tests.lineage.lineage_tree import write_tree
from tests.lineage.search_conditions import search_conditions
from tests.lineage.table_of_values import RECORDED, record_run
from tests.oracle.mindinsight_server import needed_python

SEED = 20_240_607
RUNS = 60
CONDITIONS = (400, 2_000)  # in the short form and in the long one
CONDITIONS_LOOKED_AT = 300


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("runs")
    write_tree(base, RUNS, SEED)
    return base


def _theirs(base: Path, conditions: list[Any], scratch: Path) -> list[dict[str, Any]]:
    (scratch / "conditions.pickle").write_bytes(pickle.dumps(conditions, protocol=4))
    command = [needed_python(), Path(__file__).with_name("filter_lineage_there.py"), base]
    files = [scratch / "conditions.pickle", scratch / "answers.json"]
    environment = {**os.environ, "HOME": str(scratch)}  # where it keeps its log
    subprocess.run([*command, *files], check=True, env=environment, cwd=scratch)
    answers: list[dict[str, Any]] = json.loads(
        (scratch / "answers.json").read_text(encoding="utf-8")
    )
    return answers


def _ours(base: Path, condition: Any) -> dict[str, Any]:
    try:
        return {"result": filter_summary_lineage(base, condition)}
    except LineageSearchConditionParamError as error:
        return {"refused": str(error)}


def _differences(base: Path, conditions: list[Any], answers: list[dict[str, Any]]) -> list[str]:
    different = []
    for condition, theirs in zip(conditions, answers, strict=True):
        ours = _ours(base, condition)
        if "refused" in ours or "refused" in theirs:
            same = ours.keys() == theirs.keys()
        else:
            same = json.dumps(ours, sort_keys=True) == json.dumps(theirs, sort_keys=True)
        if not same:
            different.append(f"{condition!r}\n  ours   {ours}\n  theirs {theirs}")
    return different


def test_random_conditions_get_the_answers_of_mindinsight(
    tree: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, times: Callable[[int, int], int]
) -> None:
    conditions = search_conditions(times(*CONDITIONS), SEED)
    answers = _theirs(tree, conditions, tmp_path)

    with caplog.at_level(logging.ERROR):
        different = _differences(tree, conditions, answers)

    assert not different, (
        f"{len(different)} of {len(conditions)} differ, the first:\n{different[0]}"
    )


def test_the_conditions_compared_are_worth_comparing(tree: Path) -> None:
    answers = [
        _ours(tree, condition) for condition in search_conditions(CONDITIONS_LOOKED_AT, SEED)
    ]
    kinds = Counter(
        "refused" if "refused" in answer else min(answer["result"]["count"], 2)
        for answer in answers
    )

    assert filter_summary_lineage(tree)["count"] >= RUNS
    assert kinds["refused"] > CONDITIONS_LOOKED_AT // 5
    assert kinds[2] > CONDITIONS_LOOKED_AT // 4
    assert kinds[1] > 0


def test_mindinsight_shows_the_table_of_values_and_answers_about_it_as_this_package(
    tmp_path: Path,
) -> None:
    record_run(tmp_path / "runs" / "with")
    record_run(tmp_path / "runs" / "without", {"other": 1})
    there = {name: str(value) if _is_inexact(value) else value for name, value in RECORDED.items()}
    conditions = [{f"user_defined/{name}": {"eq": value}} for name, value in there.items()]
    ordered = [{f"user_defined/{name}": {"ge": value}} for name, value in there.items()]

    shown, *answers = _theirs(tmp_path / "runs", [{}, *conditions, *ordered], tmp_path)

    by_name = {
        run["summary_dir"]: run["model_lineage"]["user_defined"]
        for run in shown["result"]["object"]
    }
    assert by_name == {"./with": there, "./without": {"other": 1}}
    for condition, theirs in zip([*conditions, *ordered], answers, strict=True):
        ((field, asked),) = condition.items()
        name = field.removeprefix("user_defined/")
        ours = _ours(tmp_path / "runs", {field: dict.fromkeys(asked, RECORDED[name])})
        assert [run["summary_dir"] for run in theirs["result"]["object"]] == ["./with"], condition
        assert [run["summary_dir"] for run in ours["result"]["object"]] == ["./with"], condition


def _is_inexact(value: object) -> bool:
    return isinstance(value, int) and abs(value) > 2**53
