"""Several fits of one logger, and what a fit leaves in pictures and lineage, as a real MindInsight
answers them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.oracle.mindinsight_server import MindInsight, publish


@pytest.fixture(scope="module")
def fits(tmp_path_factory: pytest.TempPathFactory, runs: Path) -> dict[str, str]:
    """Three fits of 20, 12 and 6 steps into a given version, and a last one into a version of its
    own.
    """
    import torch

    from mindsummary_lightning import MindInsightLogger, SummaryCollector
    from tests.trainer.support import Net, loader, trainer

    class Decaying(Net):
        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.SGD(self.parameters(), lr=0.25)
            decay = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=6)
            return {
                "optimizer": optimizer,
                "lr_scheduler": {"scheduler": decay, "interval": "step"},
            }

    scratch = tmp_path_factory.mktemp("fits")
    found = {}
    for name, version in (("given", "fits_given"), ("numbered", None)):
        logger = MindInsightLogger(scratch / name, name="", version=version)
        for batches in (20, 12, 6):
            running = trainer(
                logger=logger,
                callbacks=[SummaryCollector(collect_freq=1)],
                limit_train_batches=batches,
            )
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
    assert [step for step, _ in mindinsight.scalars(fits[name], "train/loss/scalar")] == [
        0,
        1,
        2,
        3,
        4,
        5,
    ]


def test_the_lineage_has_the_first_rate_and_the_last_evaluation(
    mindinsight: MindInsight, fits: dict[str, str]
) -> None:
    row = mindinsight.wait_lineage(fits["numbered"])

    assert row["learning_rate"] == 0.25
    assert row["user_defined"]["final_learning_rate"] == 0.0
    assert row["metric"].keys() == {"val/loss", "test/loss"}
    assert "val/loss" not in row["user_defined"]
    assert row["test_dataset_count"] == 20  # that of the test, not of the validation
    assert row["train_dataset_count"] == 24  # six of the twenty batches were read


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory, runs: Path) -> dict[str, Path]:
    """Train id -> directory of runs with images and tensors: 30 steps in one part, and 30 steps
    that 30 more follow.
    """
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    from mindsummary_lightning import SummaryCollector, tensor_summary
    from tests.oracle.small_fit import Digits
    from tests.trainer.support import trainer

    class Seen(Digits):
        def __init__(self) -> None:
            super().__init__(0.01)
            self.scale = torch.nn.Parameter(torch.tensor(1.0))

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            scores = super().forward(images) * self.scale
            tensor_summary("scores", scores)
            return scores

    batches = DataLoader(TensorDataset(torch.rand(60, 1, 8, 8), torch.randint(0, 10, (60,))), 2)
    scratch = tmp_path_factory.mktemp("pictures")
    options: dict[str, Any] = {"logger": False, "default_root_dir": scratch}
    for name, tensor_freq in (("pictures", 1), ("pictures_resumed", None)):
        collector = SummaryCollector(
            scratch / name, collect_freq=1, collect_tensor_freq=tensor_freq
        )
        first = trainer(callbacks=[collector], **options)
        first.fit(Seen(), batches)
    first.save_checkpoint(scratch / "saved.ckpt")
    trainer(callbacks=[collector], max_epochs=2, **options).fit(
        Seen(), batches, ckpt_path=scratch / "saved.ckpt"
    )
    return {publish(scratch / name, runs): runs / name for name in ("pictures", "pictures_resumed")}


def test_a_rhythm_of_tensors_is_theirs_alone(
    mindinsight: MindInsight, pictures: dict[str, Path]
) -> None:
    mindinsight.wait_cached("./pictures")

    assert len(mindinsight.tensors("./pictures", "scores/tensor")) == 20  # of 30; it keeps no more
    assert len(mindinsight.images("./pictures", "input_data/auto/image")) == 10


def test_a_parameter_of_one_number_is_a_histogram(
    mindinsight: MindInsight, pictures: dict[str, Path]
) -> None:
    mindinsight.wait_cached("./pictures")
    samples = mindinsight.histograms("./pictures", "scale/auto/histogram")

    assert [step for step, _ in samples] == list(range(1, 31))
    # half a unit below the number, which begins at 1
    assert samples[0][1][0][0] == pytest.approx(0.5, abs=0.6)


def test_a_resumed_run_has_no_more_tensors_and_images_than_are_shown(
    mindinsight: MindInsight, pictures: dict[str, Path]
) -> None:
    from tests.trainer.support import steps

    run = pictures["./pictures_resumed"]
    mindinsight.wait_cached("./pictures_resumed", summary_files=2)

    assert len(mindinsight.scalars("./pictures_resumed", "loss/auto/scalar")) == 60
    shown = [step for step, _ in mindinsight.tensors("./pictures_resumed", "scores/tensor")]
    assert shown == steps(run, "scores", "tensor")
    assert len(shown) == 20
    images = [
        image["step"] for image in mindinsight.images("./pictures_resumed", "input_data/auto/image")
    ]
    assert images == steps(run, "input_data/auto", "image")
    assert len(images) == 10
