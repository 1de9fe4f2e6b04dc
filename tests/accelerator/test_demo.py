"""The demo of examples/ trains on the stand-in, and a real MindInsight shows its run."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

import lightning as L
import pytest
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.strategies import SingleDeviceStrategy

from mindsummary_lightning import (
    MindInsightLogger,
    SummaryCollector,
    SummaryLandscape,
    SummaryReader,
)
from tests.accelerator.lightning_accelerator import StandInAccelerator
from tests.oracle.mindinsight_server import publish, running_mindinsight

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def example() -> Any:
    spec = importlib.util.spec_from_file_location("digits", ROOT / "examples" / "digits.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def train(example: Any, folder: Path, device: str) -> Path:
    L.seed_everything(0, verbose=False)
    logger = MindInsightLogger(folder, name="digits")
    where: dict[str, Any] = {"accelerator": "cpu"}
    if device != "cpu":
        where = {"accelerator": StandInAccelerator(), "strategy": SingleDeviceStrategy(device)}
    trainer = L.Trainer(
        max_epochs=1, logger=logger, log_every_n_steps=5, enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[
            SummaryCollector(collect_specified_data={"histogram_regular": ".*weight"}),
            LearningRateMonitor("step"),
            ModelCheckpoint(folder / "checkpoints", monitor="val/accuracy", mode="max"),
        ],
        **where,
    )  # fmt: skip
    model, data = example.DigitsNet(), example.DigitsData()
    trainer.fit(model, data)
    trainer.test(model, data, verbose=False)
    SummaryLandscape(logger.log_dir).generate(
        model, data.train_dataloader(), accelerator=where["accelerator"], devices=1,
        collect_landscape={"landscape_size": 5, "num_samples": 64},
    )  # fmt: skip
    return Path(logger.log_dir)


@pytest.fixture(scope="module")
def runs(example: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {
        device: train(example, tmp_path_factory.mktemp(device[:3]), device)
        for device in ("npu:0", "cpu")
    }


def test_it_records_the_tags_and_steps_of_the_cpu(runs: dict[str, Path]) -> None:
    npu, cpu = (SummaryReader(run) for run in runs.values())
    assert npu.tags() == cpu.tags()
    for tag in npu.tags()["scalar"]:
        assert npu.scalars(tag).steps.tolist() == cpu.scalars(tag).steps.tolist(), tag
    for kind in ("histogram", "image", "tensor"):
        for tag in npu.tags()[kind]:
            steps = [
                [step for step, _, _ in getattr(reader, f"{kind}s")(tag)] for reader in (npu, cpu)
            ]
            assert steps[0] == steps[1], tag
    assert len(npu.landscapes()) == len(cpu.landscapes()) > 0
    graphs = [reader.graph() for reader in (npu, cpu)]
    assert graphs[0] is not None
    assert graphs[1] is not None
    assert [node.name for node in graphs[0].nodes] == [node.name for node in graphs[1].nodes]


def test_a_real_mindinsight_shows_it(runs: dict[str, Path], tmp_path: Path) -> None:
    base = tmp_path / "runs"
    base.mkdir()
    reader = SummaryReader(runs["npu:0"])
    expected = {tag: reader.scalars(tag) for tag in reader.tags()["scalar"]}
    histograms = {
        tag: [step for step, _, _ in reader.histograms(tag)] for tag in reader.tags()["histogram"]
    }
    # other tests read the run
    copied = shutil.copytree(runs["npu:0"], tmp_path / "copy" / "version_0")
    train_id = publish(copied, base)
    with running_mindinsight(base, tmp_path / "workspace") as server:
        server.wait_cached(train_id)
        assert server.train_jobs()[train_id]["is_integrity"]
        for tag, series in expected.items():
            shown = [step for step, _ in server.scalars(train_id, f"{tag}/scalar")]
            assert shown == series.steps.tolist(), tag
        for tag, steps in histograms.items():
            assert [step for step, _ in server.histograms(train_id, f"{tag}/histogram")] == steps, (
                tag
            )
        assert server.graph_nodes(train_id)
        assert server.intervals(train_id)
        lineage = server.wait_lineage(train_id)
        assert lineage["user_defined"]["accelerator"] == "npu"
        assert lineage["device_num"] == 1
