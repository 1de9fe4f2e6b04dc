"""No public call takes the address of a remote store for a directory to write: it would name a
local ``s3:``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from mindsummary_lightning import (
    EvalLineage,
    MindInsightLogger,
    SummaryCollector,
    SummaryLandscape,
    SummaryRecord,
    TrainLineage,
)
from mindsummary_lightning.cli import main
from mindsummary_lightning.errors import RemotePathError
from mindsummary_lightning.export.parquet_dataset import export_parquet_dataset
from mindsummary_lightning.export.tables import export_csv, export_npy, export_parquet
from mindsummary_lightning.export.tensorboard import export_tensorboard, import_tensorboard
from tests.support import skip_without_packages

ADDRESS = "s3://bucket/runs"
_NEEDS_PYARROW = pytest.mark.skipif(find_spec("pyarrow") is None, reason="pyarrow is not installed")


@pytest.fixture(autouse=True)
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run, ``run``, in the working directory."""
    monkeypatch.chdir(tmp_path)
    with SummaryRecord("run") as record:
        record.add_value("scalar", "loss", 1.0)
        record.record(1)


def _landscape(output: str) -> None:
    import torch

    SummaryLandscape("run").generate(torch.nn.Linear(1, 1), [], output=output)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "call",
    [
        SummaryRecord,
        SummaryCollector,
        MindInsightLogger,
        TrainLineage,
        EvalLineage,
        lambda path: export_csv("run", path),
        lambda path: export_npy("run", path),
        pytest.param(lambda path: export_parquet("run", path), marks=_NEEDS_PYARROW),
        pytest.param(lambda path: export_parquet_dataset(["run"], ".", path), marks=_NEEDS_PYARROW),
        lambda path: export_tensorboard("run", path),
        lambda path: import_tensorboard("run", path),
        _landscape,
    ],
)
def test_a_remote_directory_is_refused_before_anything_is_made(
    call: Callable[[str], object],
) -> None:
    with pytest.raises(
        RemotePathError, match=r"must be a local path, not 's3://bucket/runs'.* copy it afterwards"
    ):
        call(ADDRESS)
    assert os.listdir() == ["run"]


@pytest.mark.parametrize("path", [ADDRESS, Path(ADDRESS)], ids=["text", "Path"])
@pytest.mark.parametrize(
    ("start", "name"),
    [
        (SummaryRecord, "log_dir"),
        (SummaryCollector, "summary_dir"),
        (MindInsightLogger, "save_dir"),
        (TrainLineage, "summary_record"),
        (EvalLineage, "summary_record"),
        (SummaryLandscape, "summary_dir"),
    ],
)
def test_what_records_names_the_two_lines_that_do_it(
    start: Callable[[str | Path], object], name: str, path: str | Path
) -> None:
    with pytest.raises(RemotePathError) as raised:
        start(path)
    assert str(raised.value).endswith(
        f'pass {name}="runs" in the program, and in a second shell run: mindsummary sync runs '
        "s3://bucket/runs --follow"
    )


@pytest.mark.parametrize(
    "verb", [["export", "run", "--to", "csv"], ["import", "run"]], ids=" ".join
)
def test_the_command_refuses_it_in_one_line(
    verb: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    skip_without_packages(*verb)
    if verb[0] == "import":
        assert main(["export", "run", "--to", "tensorboard", "--out", "run/tb"]) == 0
    assert main([*verb, "--out", ADDRESS]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "must be a local path" in line
    assert os.listdir() == ["run"]


@pytest.mark.parametrize(
    "verb", ["list", "show", "view", "verify", "repair", "lineage", "report", "compare run"]
)
def test_what_takes_local_runs_answers_an_address_with_the_line_that_brings_it(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*verb.split(), ADDRESS]) == (2 if verb.startswith("compare") else 1)
    (line,) = capsys.readouterr().err.splitlines()
    assert "bring it here first: mindsummary sync s3://bucket/runs runs" in line
