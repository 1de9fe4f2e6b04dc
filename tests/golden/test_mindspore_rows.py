"""Each row of the page for those who come from MindSpore that says "the same" is compared with a
real MindSpore.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from lightning.pytorch.callbacks import EarlyStopping

from mindsummary_lightning import SummaryCollector, SummaryReader, SummaryRecord
from tests.golden.collector.train_with_lightning import train
from tests.golden.write_rows import answers
from tests.warm_processes import run_warm

_DOCS = Path(__file__).parents[2] / "docs"
PAGES = [
    _DOCS / "coming-from-mindspore.md",
    *(_DOCS / "reference" / f"mindspore-{name}.md" for name in ("classes", "callbacks")),
]
THEIRS: dict[str, Any] = json.loads(
    Path(__file__).with_name("mindspore_rows.json").read_text(encoding="utf-8")
)
# Rows of names and arguments, which `tests/contract/test_signatures.py` compares with MindSpore's
# and MindInsight's.
NAMES = {
    "`mindspore.train.callback.SummaryCollector`",
    "`mindspore.train.summary.SummaryRecord`",
    "`mindspore.ops.ScalarSummary`, `TensorSummary`, `ImageSummary`, `HistogramSummary`",
    "`SummaryLandscape`",
    "`TrainLineage`, `EvalLineage`, `get_summary_lineage`, `filter_summary_lineage`",
}


class Ours:
    """Our side of what `write_rows` asks."""

    record, collector, early_stopping = SummaryRecord, SummaryCollector, EarlyStopping

    def array(self, value: Any) -> Any:
        return value

    def train(self, folder: str, **options: Any) -> None:
        train(folder, **options)

    def steps(self, folder: str) -> dict[str, list[int]]:
        reader = SummaryReader(folder)
        read = {"scalar": reader.scalars, "histogram": reader.histograms, "image": reader.images}
        return {
            f"{tag} {'scalar_value' if kind == 'scalar' else kind}": _steps(
                read.get(kind, reader.tensors)(tag)
            )
            for kind, tags in reader.tags().items()
            for tag in tags
        }

    def custom(self, folder: str) -> dict[str, Any]:
        return dict(SummaryReader(folder).lineage().custom.values)


def _steps(series: Any) -> list[int]:
    return (
        [int(step) for step in series.steps]
        if hasattr(series, "steps")
        else [each[0] for each in series]
    )


def _write_answers(folder: str, file: str) -> None:
    Path(file).write_text(json.dumps(answers(Ours(), folder)), encoding="utf-8")


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Our answers; a process that has used autograd may not fork, so another one asks."""
    folder = tmp_path_factory.mktemp("rows")
    done = run_warm(_write_answers, str(folder), str(folder / "answers.json"))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads((folder / "answers.json").read_text(encoding="utf-8"))
    return found


def test_each_row_that_says_the_same_is_asked_of_mindspore() -> None:
    texts = [page.read_text("utf-8").partition("## Defaults that differ")[0] for page in PAGES]
    lines = [line for text in texts for line in text.splitlines()]
    cells = [
        line[2:-2].split(" | ", 1)
        for line in lines
        if line.startswith("| ") and " | " in line[2:-2]
    ]
    say_so = {left for left, right in cells if re.search(r"\bsame\b", right)}

    assert say_so == {*THEIRS, *NAMES}


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="each question is asked in a forked process")
@pytest.mark.parametrize("row", THEIRS)
def test_a_row_that_says_the_same_is_the_same(ours: dict[str, Any], row: str) -> None:
    assert ours[row] == THEIRS[row]
