"""Statistics of scalars that queries compare, read from the files of runs."""

from __future__ import annotations

import math
from pathlib import Path

from mindsummary_lightning.lineage.scalar_statistics import ScalarStatistics, scalar_tags
from mindsummary_lightning.reading.run_tree import list_train_jobs
from mindsummary_lightning.values import TrainInfo
from tests.reading.runs import histogram, values_at, write_lineage, write_summary


def test_each_field_is_that_of_its_run_and_a_run_is_read_once(tmp_path: Path) -> None:
    for name, losses in (("a", (3.0, 1.0, 2.0)), ("b", (math.nan, math.inf))):
        records = [values_at(4 + step, {"loss": loss}) for step, loss in enumerate(losses)]
        path = write_summary(tmp_path / name, records)
    fields = ("last:loss", "min:loss", "max:loss", "best_step:loss", "steps", "duration")
    statistics = ScalarStatistics([*fields, "diverged", "started", "last:missing", "network"])
    run, diverged = str(tmp_path / "a"), str(tmp_path / "b")

    assert [statistics.value(run, field) for field in fields] == [2.0, 1.0, 3.0, 5, 6, 2.0]
    assert [statistics.value(run, field) for field in ("diverged", "started")] == [
        False,
        1700000004.0,
    ]
    assert [statistics.value(run, field) for field in ("last:missing", "network")] == [None, None]
    assert [statistics.value(diverged, field) for field in (*fields, "diverged")] == [
        *(math.inf, None, None, None, 5, 1.0, True),
    ]
    assert statistics.tags == {"loss"}
    path.unlink()
    assert statistics.value(diverged, "last:loss") == math.inf
    assert statistics.value(str(tmp_path / "nowhere"), "steps") is None


def test_fields_that_were_not_asked_for_have_no_value(tmp_path: Path) -> None:
    write_summary(tmp_path / "a", [values_at(1, {"loss": 1.0, "acc": 0.5})])
    write_summary(tmp_path / "b", [values_at(1, {"lr": 0.1})])
    statistics = ScalarStatistics(["max:acc"])

    for name, last in (("a", 0.5), ("b", None)):
        fields = ("last:acc", "last:loss", "steps")
        values = [statistics.value(str(tmp_path / name), field) for field in fields]
        assert values == [last, None, None]
    assert statistics.tags == {"acc", "loss", "lr"}


def test_the_tags_of_scalars_are_those_of_all_runs_that_can_be_read(tmp_path: Path) -> None:
    for name, tags in (("a", ["lost"]), ("b", ["loss", "val/loss"]), ("c", ["loss", "acc"])):
        values = {**dict.fromkeys(tags, 1.0), f"h_{name}": histogram(1)}
        path = write_summary(tmp_path / name, [values_at(step, values) for step in (1, 2)])
        write_lineage(tmp_path / name, [TrainInfo()])
    damaged = tmp_path / "a" / path.name
    damaged.write_bytes(damaged.read_bytes()[:60] + b"x" + damaged.read_bytes()[61:])
    runs = sorted(list_train_jobs(str(tmp_path)), key=lambda run: run.path)

    assert scalar_tags(runs) == {"loss", "val/loss", "acc"}
