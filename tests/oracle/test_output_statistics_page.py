"""The chain of a step as a real MindInsight shows it: one tensor more, and nothing less on any
other page.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from mindsummary_lightning import SummaryCollector
from tests.oracle.mindinsight_server import MindInsight, publish, wait_until
from tests.trainer.support import Net, loader, trainer


def _published(
    folder: Path, runs: Path, mindinsight: MindInsight, **options: Any
) -> tuple[str, dict[str, list[str]]]:
    torch.manual_seed(0)
    trainer(logger=False, callbacks=[SummaryCollector(folder, 1, **options)]).fit(Net(), loader())
    mindinsight.wait_cached(published := publish(folder, runs))
    tags = {plugin: sorted(tags) for plugin, tags in mindinsight.plugins(published).items()}
    return published, {
        plugin: [""] * len(each) if "graph" in plugin else each for plugin, each in tags.items()
    }


def test_a_run_with_chains_has_one_tensor_more_and_all_else(
    mindinsight: MindInsight, runs: Path, tmp_path: Path
) -> None:
    _, plain = _published(tmp_path / "plain", runs, mindinsight)
    train_id, chained = _published(
        tmp_path / "chained", runs, mindinsight, collect_output_statistics=(1, 2, 3)
    )

    tag = "output_statistics/tensor"
    assert chained == {**plain, "tensor": [*plain["tensor"], tag]}
    wait_until(
        lambda: len(mindinsight.tensors(train_id, tag)) == 3, lambda: f"three tables of {train_id}"
    )
    assert [step for step, _ in mindinsight.tensors(train_id, tag)] == [1, 2, 3]
