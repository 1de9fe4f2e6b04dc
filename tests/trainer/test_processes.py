"""Several processes: only rank zero writes, into one run directory."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lightning_utilities.core.rank_zero import rank_zero_only

from mindsummary_lightning import MindInsightLogger, SummaryCollector, SummaryReader
from tests.trainer.support import (
    SHARDS_ON_CPU,
    Net,
    files,
    kinds,
    loader,
    run_script,
    run_script_on_two_ranks,
    steps,
    trainer,
)

SCRIPT = """
import json, os, sys
from pathlib import Path
import torch
from lightning.pytorch import Callback
from lightning.pytorch.callbacks import ModelCheckpoint
from mindsummary_lightning import (
    EvalLineage, MindInsightLogger, SummaryCollector, TrainLineage, scalar_summary,
)
from tests.trainer.support import SHARDS_ON_CPU, Net, loader, trainer

class Look(Callback):
    def on_train_end(self, trainer, pl_module):
        facts = {"rank": trainer.global_rank, "log_dir": trainer.logger.log_dir,
                 "version": trainer.logger.version,
                 "experiment": type(trainer.logger.experiment).__name__}
        Path(sys.argv[1], f"rank{trainer.global_rank}.json").write_text(json.dumps(facts))

def main(directory, strategy):
    fits = 1 if strategy == "ddp_spawn" else 2
    for name, with_collector in (("pair", True), ("pair", False))[:fits]:
        logger = MindInsightLogger(directory + "/runs", name=name)
        callbacks = [Look(), ModelCheckpoint()]
        if with_collector:
            specified = {"histogram_regular": ".*"}
            callbacks += [SummaryCollector(collect_freq=2, collect_specified_data=specified,
                                           collect_gradients=True,
                                           collect_tensor_freq=1, collect_parameter_statistics=True,
                                           collect_output_statistics=True)]
            callbacks += [TrainLineage(directory + "/lineage"), EvalLineage(directory + "/lineage")]
        torch.manual_seed(0)
        def probe(module, x):
            if module.training:
                scalar_summary("mean", x.mean())

        net = Net(probe=probe)
        if strategy == "ddp_spawn":
            net.probe = None
        trainer(logger=logger, callbacks=callbacks, devices=2, strategy=strategy,
                use_distributed_sampler=False,
                enable_checkpointing=True, limit_val_batches=2).fit(net, loader(), loader(2))
        # In a file of its own: what several processes print to one pipe can be cut into each other.
        with Path(directory, "after" + os.environ.get("LOCAL_RANK", "0")).open("a") as after:
            after.write(f"{logger.log_dir}\\n")

if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
"""


def _histograms(
    run: Path | str, tag: str
) -> list[tuple[int, list[int], float | None, float | None]]:
    return [
        (step, h.counts.tolist(), h.min, h.max) for step, _, h in SummaryReader(run).histograms(tag)
    ]


def _assert_statistics_equal(run: Path, alone: Path, without_updates: bool = False) -> None:
    ours, theirs = (SummaryReader(path).parameter_statistics() for path in (run, alone))
    assert ours.steps.tolist() == theirs.steps.tolist() == [1, 2, 4, 6]
    assert ours.parameters == theirs.parameters
    for column in ours.columns:
        if column != "update_ratio" or not without_updates:
            np.testing.assert_allclose(
                ours.column(column), theirs.column(column), rtol=1e-6, err_msg=column
            )


def _assert_chains_equal(run: Path, alone: Path, without: frozenset[str] = frozenset()) -> None:
    """``without``: parts of a step of which each rank holds a share."""
    ours, theirs = (SummaryReader(path).output_statistics() for path in (run, alone))
    assert ours.steps.tolist() == theirs.steps.tolist()
    for step in ours.steps.tolist():
        (rows, values), (their_rows, their_values) = ours.rows_at(step), theirs.rows_at(step)
        whole = [place for place, row in enumerate(their_rows) if row.link not in without]
        assert [row.key for row in rows] == [their_rows[place].key for place in whole]
        np.testing.assert_allclose(values[:, 1:], their_values[whole, 1:], rtol=1e-4, atol=1e-6)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same training in one process."""
    import torch

    directory = tmp_path_factory.mktemp("alone")
    collector = SummaryCollector(
        directory,
        2,
        {"histogram_regular": ".*"},
        collect_gradients=True,
        collect_tensor_freq=1,
        collect_parameter_statistics=True,
        collect_parameter_updates=True,
        collect_output_statistics=True,
    )
    torch.manual_seed(0)
    trainer(logger=False, callbacks=[collector], limit_val_batches=2).fit(
        Net(), loader(), loader(2)
    )
    return directory


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", pytest.param("ddp_spawn", marks=pytest.mark.long)])
def test_two_processes_leave_one_run_that_equals_that_of_one(
    tmp_path: Path, strategy: str, alone: Path
) -> None:
    done = run_script(SCRIPT, tmp_path, strategy)
    assert done.returncode == 0, done.stderr[-3000:]

    # Exactly one directory a fit, written by rank zero alone.
    runs = [
        tmp_path / "runs" / "pair" / name for name in sorted(os.listdir(tmp_path / "runs" / "pair"))
    ]
    assert [run.name for run in runs] == (
        ["version_0", "version_1"] if strategy == "ddp" else ["version_0"]
    )
    assert [kinds(run) for run in runs] == [["MS", "lineage"]] * len(runs)
    pair = runs[0]
    assert kinds(tmp_path / "lineage") == ["lineage"]
    assert len([name for name in files(pair) if name.endswith("ckpt") and "epoch" in name]) == 1

    # Every rank knows the directory, and so does the process that launched them, after the run.
    ranks = [
        json.loads((tmp_path / f"rank{rank}.json").read_text(encoding="utf-8")) for rank in (0, 1)
    ]
    assert [facts["log_dir"] for facts in ranks] == [str(runs[-1])] * 2
    assert ranks[0]["experiment"] == "SummaryRecord"
    assert ranks[1]["experiment"] != "SummaryRecord"
    for rank in ("0", "1") if strategy == "ddp" else ("0",):
        assert (tmp_path / f"after{rank}").read_text(encoding="utf-8").splitlines() == [
            str(run) for run in runs
        ]

    # The values are those of one process on the same batches.
    tags = SummaryReader(alone).tags()
    assert SummaryReader(pair).tags()["histogram"] == tags["histogram"]
    assert len(tags["histogram"]) == 8
    for tag in tags["histogram"]:
        assert _histograms(pair, tag) == _histograms(alone, tag)
    for tag in ("loss/auto", "gradient_norm"):
        assert SummaryReader(pair).scalars(tag).values.tolist() == pytest.approx(
            SummaryReader(alone).scalars(tag).values.tolist(), rel=1e-6
        )
    assert steps(pair, "train/loss") == [0, 1, 2, 3, 4, 5]
    _assert_statistics_equal(pair, alone, without_updates=True)
    _assert_chains_equal(pair, alone)
    if strategy == "ddp":
        assert steps(pair, "mean") == [1, 2, 4, 6]
    lineage = SummaryReader(pair).lineage()
    assert (lineage.train.device_num, lineage.train.parallel_mode) == (2, "ddp")


_FSDP = """
import sys
import torch
from lightning.pytorch.strategies import ModelParallelStrategy
from torch.distributed.fsdp import fully_shard
from mindsummary_lightning import MindInsightLogger, SummaryCollector
from tests.trainer.support import SHARDS_ON_CPU, Net, loader, trainer

class Sharded(Net):
    def configure_model(self):
        fully_shard(self.first, mesh=self.device_mesh["data_parallel"])
        fully_shard(self.second, mesh=self.device_mesh["data_parallel"])

if __name__ == "__main__":
    torch.manual_seed(0)
    collector = SummaryCollector(
        sys.argv[1] + "/run", 2, {"histogram_regular": ".*"}, collect_gradients=True,
        collect_tensor_freq=1, collect_parameter_statistics=True, collect_parameter_updates=True,
        collect_output_statistics=True,
    )
    strategy = ModelParallelStrategy(
        data_parallel_size=2, tensor_parallel_size=1, process_group_backend="gloo"
    )
    net = Sharded()
    trainer(logger=False, callbacks=[collector], devices=2, strategy=strategy,
            use_distributed_sampler=False,
            limit_val_batches=2).fit(net, loader(), loader(2))
"""


@pytest.mark.slow
@SHARDS_ON_CPU
def test_sharded_parameters_have_the_histograms_of_whole_ones(tmp_path: Path, alone: Path) -> None:
    done = run_script_on_two_ranks(_FSDP, tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]

    run = tmp_path / "run"
    assert kinds(run) == ["MS", "lineage"]
    expected: Any = SummaryReader(alone)
    assert SummaryReader(run).tags()["histogram"] == expected.tags()["histogram"]
    for tag in expected.tags()["histogram"]:
        ours, theirs = _histograms(run, tag), _histograms(alone, tag)
        assert [step for step, *_ in ours] == [step for step, *_ in theirs]
        for (_, counts, low, high), (_, their_counts, their_low, their_high) in zip(
            ours, theirs, strict=True
        ):
            assert sum(counts) == sum(their_counts)
            assert (low, high) == pytest.approx((their_low, their_high), rel=1e-5, abs=1e-7)
    for tag in ("loss/auto", "gradient_norm"):
        assert SummaryReader(run).scalars(tag).values.tolist() == pytest.approx(
            expected.scalars(tag).values.tolist(), rel=1e-5
        )
    _assert_statistics_equal(run, alone)
    _assert_chains_equal(run, alone, without=frozenset({"weights", "gradients", "update"}))


_FSDP1 = """
import sys
from pathlib import Path
import torch
from lightning.pytorch.strategies import FSDPStrategy
from torch.distributed.fsdp import FullyShardedDataParallel
from mindsummary_lightning import MindInsightLogger, SummaryCollector
from tests.trainer.support import SHARDS_ON_CPU, Net, loader, trainer

class OnCpu(FSDPStrategy):  # Lightning's own asks for a GPU
    def _setup_model(self, model):
        return FullyShardedDataParallel(model, device_id=torch.device("cpu"), **self.kwargs)

class Wrapped(Net):
    def configure_optimizers(self):
        return torch.optim.SGD(self.trainer.model.parameters(), lr=0.1)

    def on_train_end(self):
        with FullyShardedDataParallel.summon_full_params(self.trainer.model, writeback=False):
            weights = [parameter.tolist() for parameter in self.parameters()]
        path = Path(sys.argv[1], f"{name}-{self.trainer.global_rank}")
        path.write_text(f"{weights} {torch.rand(1)}")

if __name__ == "__main__":
    for name in ("original", "flat", "without"):
        collector = SummaryCollector(
            f"{sys.argv[1]}/runs/{name}", 2, collect_specified_data={"histogram_regular": ".*"},
            collect_gradients=True,
            collect_parameter_statistics=True, collect_output_statistics=True,
        )
        torch.manual_seed(0)
        strategy = OnCpu(process_group_backend="gloo", use_orig_params=name == "original",
                         auto_wrap_policy={torch.nn.Linear})
        ours = [collector] if name != "without" else []
        running = trainer(logger=False, callbacks=ours, devices=2, strategy=strategy,
                          use_distributed_sampler=False, limit_val_batches=2)
        running.fit(Wrapped(), loader(), loader(2))
"""


@pytest.mark.slow
@SHARDS_ON_CPU
def test_parameters_of_fsdp1_are_skipped_with_one_warning_and_trained_as_without_us(
    tmp_path: Path,
) -> None:
    done = run_script_on_two_ranks(_FSDP1, tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]

    for name in ("original", "flat"):
        tags = SummaryReader(tmp_path / "runs" / name).tags()
        assert (tags["histogram"], tags["tensor"], tags["scalar"]) == (
            [],
            ["output_statistics"],
            ["loss/auto"],
        )
        assert steps(tmp_path / "runs" / name, "loss/auto") == [1, 2, 4, 6]
    assert done.stderr.count("FSDP1") == 2  # one for each run, from rank zero
    weights = {
        (tmp_path / f"{name}-{rank}").read_text(encoding="utf-8")
        for name in ("original", "flat", "without")
        for rank in (0, 1)
    }
    assert len(weights) == 1


def test_a_logger_on_a_further_rank_makes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank_zero_only, "rank", 1)
    logger = MindInsightLogger(tmp_path)
    logger.log_metrics({"a": 1.0}, step=0)
    logger.log_hyperparams({"a": 1})
    logger.experiment.add_scalar("a", 1.0, 0)
    logger.log_image("a", [object()])
    logger.finalize("success")

    assert logger.log_dir == str(tmp_path / "lightning_logs" / "version_0")
    assert files(tmp_path) == []


def test_a_logger_that_recorded_before_it_learnt_its_further_rank_goes_on_silently(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    logger = MindInsightLogger(tmp_path)
    logger.log_metrics({"a": 1.0}, step=0)
    monkeypatch.setattr(rank_zero_only, "rank", 1)
    logger.log_metrics({"a": 2.0, "no number": object()}, step=1)

    assert SummaryReader(logger.log_dir).scalars("a").steps.tolist() == [0]
    assert caplog.records == []
