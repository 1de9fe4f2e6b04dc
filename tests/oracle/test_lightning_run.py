"""A Lightning training recorded by the pair, as a real MindInsight reads it, against what
independent witnesses saw.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from tests.oracle.mindinsight_server import MindInsight

if TYPE_CHECKING:
    from tests.oracle.small_fit import Fit

_COLLECTED_STEPS = [1, 6, 12, 18, 20]  # the first, every sixth, the last of 20
# images follow MindSpore's rule for tensors: the last step is not special
_IMAGE_STEPS = [1, 6, 12, 18]


def _float32(value: float) -> float:
    return float(np.float32(value))


@pytest.fixture(scope="module")
def lineage(mindinsight: MindInsight, fits: tuple[Fit, Fit]) -> dict[str, Any]:
    """The lineage row of the first run."""
    return mindinsight.lineages()[fits[0].train_id]


def test_both_runs_of_a_script_are_listed_whole(
    mindinsight: MindInsight, fits: tuple[Fit, Fit]
) -> None:
    jobs = mindinsight.train_jobs()

    for fit in fits:
        row = jobs[fit.train_id]
        assert (row["cache_status"], row["is_integrity"]) == ("CACHED", True)
        assert (row["summary_files"], row["lineage_files"]) == (1, 1)


def test_every_metric_is_a_scalar_with_the_steps_and_values_lightning_logged(
    mindinsight: MindInsight, fits: tuple[Fit, Fit]
) -> None:
    for fit in fits:
        shown = {
            tag: mindinsight.scalars(fit.train_id, tag)
            for tag in mindinsight.plugins(fit.train_id)["scalar"]
            if tag != "loss/auto/scalar"
        }
        expected = {
            f"{metric}/scalar": sorted(
                (step, _float32(value)) for step, value in dict(points).items()
            )
            for metric, points in fit.logged.items()
            if metric != "epoch"
        }
        assert shown == expected


def test_the_collector_records_the_loss_of_the_steps_it_collects(
    mindinsight: MindInsight, fits: tuple[Fit, Fit]
) -> None:
    for fit in fits:
        expected = [(step, _float32(fit.losses[step - 1])) for step in _COLLECTED_STEPS]

        assert mindinsight.scalars(fit.train_id, "loss/auto/scalar") == expected


def test_the_collector_records_a_histogram_of_each_parameter(
    mindinsight: MindInsight, fits: tuple[Fit, Fit]
) -> None:
    sizes = {
        "convolution.weight": 36,
        "convolution.bias": 4,
        "classifier.weight": 1440,
        "classifier.bias": 10,
    }
    train_id = fits[0].train_id

    assert mindinsight.plugins(train_id)["histogram"] == sorted(
        f"{name}/auto/histogram" for name in sizes
    )
    for name, size in sizes.items():
        samples = mindinsight.histograms(train_id, f"{name}/auto/histogram")
        assert [step for step, _ in samples] == _COLLECTED_STEPS
        for _, buckets in samples:
            # The server spreads counts over buckets of its own and rounds each of them up.
            assert size <= sum(count for _, _, count in buckets) <= size + len(buckets)


def test_the_collector_records_the_input_images(
    mindinsight: MindInsight, fits: tuple[Fit, Fit]
) -> None:
    fit = fits[0]
    listed = mindinsight.images(fit.train_id, "input_data/auto/image")
    shown = Image.open(io.BytesIO(mindinsight.image(fit.train_id, "input_data/auto/image", 1)))

    assert [sample["step"] for sample in listed] == _IMAGE_STEPS
    rows = [np.concatenate(list(fit.images[start : start + 8, 0]), axis=1) for start in (0, 8)]
    expected = (np.concatenate(rows) * 255).astype(np.uint8)
    np.testing.assert_array_equal(np.asarray(shown), np.stack([expected] * 3, axis=-1))


def test_the_lineage_row_says_what_was_trained_and_how_with_results_and_custom_data(
    lineage: dict[str, Any], fits: tuple[Fit, Fit]
) -> None:
    expected = {
        "network": "Digits",
        "optimizer": "SGD",
        "learning_rate": 0.05,
        "loss_function": "CrossEntropyLoss",
        "epoch": 2,
        "batch_size": 16,
        "device_num": 1,
        "train_dataset_count": 160,
        "test_dataset_count": 48,
        "model_size": fits[0].checkpoint_bytes,
    }

    assert {name: lineage[name] for name in expected} == expected
    assert lineage["loss"] == pytest.approx(fits[0].losses[-1], rel=1e-6)
    assert lineage["metric"] == pytest.approx(fits[0].metrics, rel=1e-6)
    assert lineage["user_defined"] == {
        "note": "fast",
        "fold": 3,
        "dropout": 0.25,
        "channels": 4,
        "accelerator": "cpu",
    }
