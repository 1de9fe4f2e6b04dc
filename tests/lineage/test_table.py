from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mindsummary_lightning.errors import LineageSearchConditionParamError
from mindsummary_lightning.lineage.merge import FIELDS
from mindsummary_lightning.lineage.table import lineage_records, lineage_to_pandas
from mindsummary_lightning.values import EvaluationInfo, TrainInfo, UserDefinedInfo
from tests.lineage.lineage_tree import write_run


@pytest.fixture
def base(tmp_path: Path) -> Path:
    metric = EvaluationInfo('{"accuracy": 0.9, "per class": [1, "ä"]}')
    write_run(
        tmp_path / "a",
        TrainInfo(loss=0.5),
        UserDefinedInfo({"optim": {"lr": 0.1}}),
        metric,
        mtime=2,
    )
    write_run(tmp_path / "b", EvaluationInfo('{"other": 1}'), mtime=1)
    return tmp_path


def test_every_row_has_every_column_results_and_custom_data_last(base: Path) -> None:
    first, second = lineage_records(base)

    columns = ("metric/accuracy", "metric/per class", "metric/other", "optim/lr")
    empty = dict.fromkeys(("run", *FIELDS, "dataset_mark", *columns))
    assert list(first) == list(second) == list(empty)
    assert first == {
        **empty,
        "run": "a",
        "loss": 0.5,
        "dataset_mark": "2",
        "metric/accuracy": 0.9,
        "metric/per class": '[1, "ä"]',
        "optim/lr": 0.1,
    }
    assert second == {**empty, "run": "b", "dataset_mark": "2", "metric/other": 1}


def test_rows_follow_the_condition(base: Path) -> None:
    rows = lineage_records(base, {"sorted_name": "loss", "sorted_type": "descending"})

    assert [row["run"] for row in rows] == ["a", "b"]
    assert lineage_records(base, {"loss": {"gt": 1}}) == []
    with pytest.raises(LineageSearchConditionParamError):
        lineage_records(base, {"Loss": {"gt": 1}})


def test_a_condition_without_the_model_leaves_the_names(base: Path) -> None:
    assert lineage_records(base, {"lineage_type": {"eq": "dataset"}}) == [
        {"run": "a"},
        {"run": "b"},
    ]


def test_pandas_gets_the_same_rows(base: Path) -> None:
    pytest.importorskip("pandas")

    frame = lineage_to_pandas(base)

    assert list(frame["run"]) == ["a", "b"]
    assert frame["metric/accuracy"][0] == 0.9


@pytest.mark.slow
def test_rows_are_those_of_direct_children_where_no_other_depth_is_asked_for(base: Path) -> None:
    pytest.importorskip("pandas")
    write_run(base / "nested" / "c", TrainInfo(loss=0.1), mtime=3)

    assert [row["run"] for row in lineage_records(base, recursive=False)] == ["a", "b"]
    assert list(lineage_to_pandas(base, recursive=False)["run"]) == ["a", "b"]
    assert set(lineage_to_pandas(base)["run"]) == {"a", "b", "nested/c"}


def test_queries_need_neither_torch_nor_lightning_nor_pandas(base: Path) -> None:
    program = f"""
import sys
for name in ("torch", "lightning", "pytorch_lightning", "pandas"):
    sys.modules[name] = None  # an import of it raises
from mindsummary_lightning.lineage.query import filter_summary_lineage, get_summary_lineage
from mindsummary_lightning.lineage.table import lineage_records
import mindsummary_lightning.cli.lineage
assert filter_summary_lineage({str(base)!r})["count"] == 2
assert get_summary_lineage({str(base / "a")!r})["algorithm"] == {{"loss": 0.5}}
assert len(lineage_records({str(base)!r})) == 2
"""
    subprocess.run([sys.executable, "-c", program], check=True)
