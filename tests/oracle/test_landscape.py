"""Loss landscapes of a Lightning run, as a real MindInsight answers and draws them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

pytest.importorskip("sklearn")

from sklearn.datasets import load_digits

from mindsummary_lightning.values import LossLandscape
from tests.oracle.browser import Browser
from tests.oracle.mindinsight_server import MindInsight, publish, wait_until

RUN = "landscapes"
TRAIN_ID = f"./{RUN}"
TAGS = ["landscape_[1, 9]", "landscape_[10, 19]", "landscape_[19]"]


@pytest.fixture(scope="module")
def landscapes(
    mindinsight: MindInsight, runs: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, LossLandscape]:
    """Train with the collector's defaults, then make the landscapes from what it left."""
    from mindsummary_lightning.landscape.summary_landscape import SummaryLandscape
    from tests.oracle.small_fit import Digits, fit_digits

    fit_digits(runs, RUN, tmp_path_factory.mktemp("fit"), learning_rate=0.05, note="landscape")
    digits = load_digits()
    data = TensorDataset(
        torch.tensor(digits.images[:, None] / 16).float(), torch.tensor(digits.target)
    )
    made = SummaryLandscape(runs / RUN).generate(
        Digits(0.05),
        DataLoader(data, 256),
        accelerator="cpu",
        collect_landscape={"landscape_size": 20},
    )
    mindinsight.wait_cached(TRAIN_ID)
    wait_until(lambda: len(mindinsight.intervals(TRAIN_ID)) == 2, lambda: "two intervals")
    wait_until(lambda: bool(asked(mindinsight, "final")), lambda: "the final landscape")
    return made


def asked(
    mindinsight: MindInsight, kind: str, train_id: str = TRAIN_ID, **query: str
) -> list[dict[str, Any]]:
    query = {"train_id": train_id, "type": kind, **query}
    found: list[dict[str, Any]] = mindinsight.get("datavisual/landscape/landscapes", query)[
        "landscapes"
    ]
    return found


def assert_same(answer: dict[str, Any], made: LossLandscape) -> None:
    for axis in "xyz":
        np.testing.assert_array_equal(
            np.float32(answer["points"][axis]), getattr(made.surface, axis)
        )
    np.testing.assert_array_equal(
        np.float32(answer["convergence_point"]), np.float32(made.convergence_point)
    )
    assert answer["metadata"]["decomposition"] == made.metadata.decomposition
    assert answer["metadata"]["unit"] == made.metadata.unit
    assert answer["metadata"]["step_per_epoch"] == made.metadata.step_per_epoch


def test_the_intervals_are_listed(
    mindinsight: MindInsight, landscapes: dict[str, LossLandscape]
) -> None:
    assert list(landscapes) == TAGS
    assert sorted(interval["value"] for interval in mindinsight.intervals(TRAIN_ID)) == [
        [1, 9],
        [10, 19],
    ]


def test_interval_landscapes_are_answered_with_our_numbers(
    mindinsight: MindInsight, landscapes: dict[str, LossLandscape]
) -> None:
    for interval in mindinsight.intervals(TRAIN_ID):
        made = landscapes[f"landscape_{interval['value']}"]
        (answer,) = asked(mindinsight, "interval", interval_id=interval["id"])
        assert_same(answer, made)
        assert made.path is not None
        assert answer["path"]["intervals"] == list(made.intervals)
        for axis in "xyz":
            np.testing.assert_array_equal(
                np.float32(answer["path"][axis]), getattr(made.path, axis)
            )


def test_the_final_landscape_is_answered_with_our_numbers(
    mindinsight: MindInsight, landscapes: dict[str, LossLandscape]
) -> None:
    (answer,) = asked(mindinsight, "final")
    assert_same(answer, landscapes[TAGS[-1]])


def test_the_epochs_of_an_interval_end_where_the_loss_curve_does(
    mindinsight: MindInsight, runs: Path, tmp_path: Path
) -> None:
    from mindsummary_lightning import SummaryCollector
    from mindsummary_lightning.landscape.summary_landscape import SummaryLandscape
    from tests.trainer.support import Net, loader, trainer
    from tests.trainer.test_gradients import Stream

    settings = {
        "landscape_size": 3,
        "unit": "epoch",
        "intervals": [[1, 2, 3]],
        "create_landscape": {"train": True},
    }
    run = tmp_path / "landscape_epochs"
    collector = SummaryCollector(run, collect_specified_data={"collect_landscape": settings})
    training = trainer(logger=False, callbacks=[collector], max_epochs=3, accumulate_grad_batches=2)
    training.fit(Net(), DataLoader(Stream(), 4))
    SummaryLandscape(run).generate(Net(), loader(2), accelerator="cpu")
    train_id = publish(run, runs)
    mindinsight.wait_cached(train_id)
    wait_until(lambda: bool(mindinsight.intervals(train_id)), lambda: "the interval")

    (interval,) = mindinsight.intervals(train_id)
    (answer,) = asked(mindinsight, "interval", train_id, interval_id=interval["id"])
    last_step, _ = mindinsight.scalars(train_id, "loss/auto/scalar")[-1]
    assert (interval["value"], answer["metadata"]["unit"]) == ([1, 3], "epoch")
    assert interval["value"][-1] * answer["metadata"]["step_per_epoch"] == last_step == 12


def test_the_landscapes_of_a_run_draw_in_every_form(
    browser: Browser, landscapes: dict[str, LossLandscape]
) -> None:
    browser.open("loss analysis", TRAIN_ID)
    assert browser.placeholders() == []
    for tab in ("Isoline Map", "Topographic Map"):
        browser.driver.find_element("xpath", f"//*[normalize-space(text())='{tab}']").click()
        assert browser.wait_drawn(".mi-contour-map canvas") >= 1
    assert browser.errors() == []


def test_the_landscapes_of_several_runs_are_compared(
    browser: Browser, landscapes: dict[str, LossLandscape]
) -> None:
    browser.open("loss comparison", TRAIN_ID)
    assert browser.placeholders() == []
    assert browser.errors() == []
