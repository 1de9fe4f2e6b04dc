"""Several fits of one logger, and what a fit leaves in the lineage, as a real MindInsight answers them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.oracle.mindinsight_server import MindInsight, publish


@pytest.fixture(scope="module")
def fits(tmp_path_factory: pytest.TempPathFactory, runs: Path) -> dict[str, str]:
    """Three fits of 20, 12 and 6 steps into a given version, and a last one into a version of its own."""
    import torch

    from mindsummary_lightning import MindInsightLogger, SummaryCollector
    from tests.trainer.support import Net, loader, trainer

    class Decaying(Net):
        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.SGD(self.parameters(), lr=0.25)
            decay = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=6)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": decay, "interval": "step"}}

    scratch = tmp_path_factory.mktemp("fits")
    found = {}
    for name, version in (("given", "fits_given"), ("numbered", None)):
        logger = MindInsightLogger(scratch / name, name="", version=version)
        for batches in (20, 12, 6):
            running = trainer(logger=logger, callbacks=[SummaryCollector(collect_freq=1)], limit_train_batches=batches)
            running.fit(Decaying(), loader(20), loader(2))
        running.test(Decaying(), loader(5), verbose=False)
        run = Path(logger.log_dir)
        if version is None:
            assert run.name == "version_2"
            run = run.rename(run.with_name("fits_numbered"))
        found[name] = publish(run, runs)
    return found


@pytest.mark.parametrize(("name", "summary_files"), [("given", 3), ("numbered", 1)])
def test_the_curve_is_that_of_the_last_fit(
    mindinsight: MindInsight, fits: dict[str, str], name: str, summary_files: int
) -> None:
    mindinsight.wait_cached(fits[name], summary_files=summary_files)

    for tag in ("loss/auto/scalar", "gradient_norm/scalar"):
        if tag in mindinsight.plugins(fits[name])["scalar"]:
            assert [step for step, _ in mindinsight.scalars(fits[name], tag)] == [1, 2, 3, 4, 5, 6]
    assert [step for step, _ in mindinsight.scalars(fits[name], "train/loss/scalar")] == [0, 1, 2, 3, 4, 5]


def test_the_lineage_has_the_first_rate_and_the_last_evaluation(mindinsight: MindInsight, fits: dict[str, str]) -> None:
    row = mindinsight.wait_lineage(fits["numbered"])

    assert row["learning_rate"] == 0.25
    assert row["user_defined"]["final_learning_rate"] == 0.0
    assert list(row["metric"]) == ["test/loss"]
    assert "val/loss" in row["user_defined"]
