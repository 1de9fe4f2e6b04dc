"""A private name that a later PyTorch lacks costs its feature and no training."""

from __future__ import annotations

import importlib
from pathlib import Path

import lightning.pytorch as L
import pytest

from tests.trainer.support import Net, loader
from tests.warm_processes import run_warm

# Where each name is, and what is still recorded of a run without it: kinds of values, and a graph.
_NAMES = [
    ("torch._C", "DisableTorchFunction"),
    ("torch._C", "_current_graph_task_id"),
    ("torch._C", "_functorch"),
    ("torch._C", "_DisableFuncTorch"),
    ("torch.utils._python_dispatch", "_disable_current_modes"),
    ("torch.overrides", "_push_mode"),
    ("torch.overrides", "_pop_mode"),
    ("torch.utils._python_dispatch", "TorchDispatchMode"),
    ("torch.compiler", "set_stance"),
    ("torch.utils._pytree", "tree_map_only"),
    ("torch.nn.utils.parametrize", "_inject_new_class"),
    ("torch.distributed.distributed_c10d", "_get_default_store"),
    ("lightning.pytorch.loggers.logger", "DummyLogger"),
]


def train_without(module: str, name: str, directory: str) -> None:
    delattr(importlib.import_module(module), name)
    from mindsummary_lightning import MindInsightLogger, SummaryCollector, SummaryReader

    logger = MindInsightLogger(directory)
    collector = SummaryCollector(collect_freq=1, collect_output_statistics=True)
    trainer = L.Trainer(
        logger=logger,
        callbacks=[collector],
        max_steps=3,
        log_every_n_steps=1,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    )
    trainer.fit(Net(), loader())

    run = SummaryReader(logger.log_dir)
    print(sorted(run.tags()["scalar"]), run.scalars("train/loss").steps.tolist())


@pytest.mark.slow
@pytest.mark.parametrize(("module", "name"), _NAMES, ids=[name for _, name in _NAMES])
def test_a_training_records_its_scalars_without_a_private_name(
    tmp_path: Path, module: str, name: str
) -> None:
    ended = run_warm(train_without, module, name, str(tmp_path))

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1] == "['loss/auto', 'train/loss'] [0, 1, 2]"
    lines = [
        line for line in ended.stderr.splitlines() if "could not" in line or "no graph" in line
    ]
    assert all(name in line for line in lines), lines
    assert len(lines) <= 2
