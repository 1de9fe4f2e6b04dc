"""A run of Lightning's own TensorBoardLogger, imported, as a real MindInsight shows it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mindsummary_lightning.export.tensorboard import import_tensorboard
from tests.oracle.mindinsight_server import MindInsight, publish


@pytest.fixture(scope="module")
def train_id(mindinsight: MindInsight, runs: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    pytest.importorskip("tensorboard")
    from lightning.pytorch.loggers import TensorBoardLogger

    folder = tmp_path_factory.mktemp("tensorboard")
    logger = TensorBoardLogger(folder, name="fit")
    logger.log_hyperparams({"lr": 0.01, "layers": 3, "network": "net"})
    generator = np.random.default_rng(0)
    for step in range(1, 41):
        logger.log_metrics({"train_loss": 1.0 / step, "train_acc": 1.0 - 1.0 / step}, step)
        if step % 10 == 0:
            logger.experiment.add_histogram("weight", generator.normal(size=2000), step)
            logger.experiment.add_image("input", np.full((3, 4, 6), step, np.uint8), step)
    logger.finalize("success")

    import_tensorboard(str(folder), str(folder / "imported"))
    published = publish(folder / "imported" / "fit-version_0", runs)
    mindinsight.wait_cached(published)
    return published


def test_its_scalars_are_shown_with_every_step(mindinsight: MindInsight, train_id: str) -> None:
    shown = mindinsight.scalars(train_id, "train_loss/scalar")

    assert shown == [(step, float(np.float32(1.0 / step))) for step in range(1, 41)]


def test_its_histograms_are_shown_with_every_element(
    mindinsight: MindInsight, train_id: str
) -> None:
    shown = mindinsight.histograms(train_id, "weight/histogram")

    assert [step for step, _ in shown] == [10, 20, 30, 40]
    # MindInsight spreads counts over buckets of its own and rounds each of at most 30 up.
    assert all(2000 <= sum(count for _, _, count in buckets) <= 2030 for _, buckets in shown)


def test_its_images_are_shown_as_they_were(mindinsight: MindInsight, train_id: str) -> None:
    shown = mindinsight.images(train_id, "input/image")

    assert [(image["step"], image["height"], image["width"]) for image in shown] == [
        (n, 4, 6) for n in (10, 20, 30, 40)
    ]
    assert mindinsight.image(train_id, "input/image", 10).startswith(b"\x89PNG")


def test_its_hyper_parameters_are_custom_lineage(mindinsight: MindInsight, train_id: str) -> None:
    row = mindinsight.wait_lineage(train_id)

    assert row["user_defined"] == {"lr": 0.01, "layers": 3, "network": "net"}


@pytest.fixture(scope="module")
def odd_id(mindinsight: MindInsight, runs: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A log of a diverged training, in milliseconds."""
    pytest.importorskip("tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    folder = tmp_path_factory.mktemp("odd")
    with SummaryWriter(str(folder / "tb")) as writer:
        for step, odd in enumerate((1.0, np.nan, np.inf, -np.inf, 2.0)):
            data = np.append(np.random.default_rng(step).normal(size=999), odd).astype(np.float32)
            writer.add_histogram("weight", data, step)
            writer.add_scalar("loss", odd, step, walltime=1.7e12 + step)
    import_tensorboard(str(folder / "tb"), str(folder / "odd"))
    published = publish(folder / "odd", runs)
    mindinsight.wait_cached(published)
    return published


def test_histograms_with_nan_and_infinities_are_shown_with_the_good_ones(
    mindinsight: MindInsight, odd_id: str
) -> None:
    shown = mindinsight.histograms(odd_id, "weight/histogram")

    assert [step for step, _ in shown] == [0, 1, 2, 3, 4]
    for _, buckets in shown:
        assert np.isfinite(buckets).all()
        assert 999 <= sum(count for _, _, count in buckets) <= 1030


def test_a_run_with_wall_times_in_milliseconds_is_listed_and_shown(
    mindinsight: MindInsight, odd_id: str
) -> None:
    shown = mindinsight.scalars(odd_id, "loss/scalar")

    assert odd_id in mindinsight.train_jobs()
    assert [step for step, _ in shown] == [0, 1, 2, 3, 4]
    assert (shown[0][1], shown[4][1]) == (1.0, 2.0)
