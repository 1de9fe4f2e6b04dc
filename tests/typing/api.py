"""Ordinary user code, as it is written; it only has to type-check, strictly (``nox -s types
typing``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from typing_extensions import assert_type

import mindsummary_lightning as ms
from mindsummary_lightning import (
    Comparison,
    EvalLineage,
    ImageSummary,
    MindInsightLogger,
    SummaryCollector,
    SummaryLandscape,
    SummaryReader,
    SummaryRecord,
    TensorSummary,
    TrainLineage,
    compare_runs,
    filter_summary_lineage,
    find_runs,
    get_summary_lineage,
    lineage_to_pandas,
    plot_landscapes,
    read_scalars,
    runs_to_pandas,
    scalar_summary,
)
from mindsummary_lightning.errors import DamagedFileError, MindSummaryError
from mindsummary_lightning.types import (
    CollectLandscape,
    Histogram,
    Image,
    LossLandscape,
    ParameterTable,
    RecordedLandscape,
    RunLineage,
    Sample,
    ScalarSeries,
    SpecifiedData,
    Verdict,
)
from mindsummary_lightning.viewer import Shown, show


class Net(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.record_image = ImageSummary()
        self.record_tensor = TensorSummary()

    def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
        out: torch.Tensor = self.layer(batch)
        scalar_summary("mean", out.mean())
        self.record_tensor("out", out)
        self.record_image("image", batch)
        loss = out.square().mean()
        self.log("train/loss", loss)
        return loss

    def on_train_end(self) -> None:
        if isinstance(self.logger, MindInsightLogger):
            self.logger.log_image("last", [np.zeros((8, 8, 3), np.uint8)])


class OwnCollector(SummaryCollector):
    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)


class OwnLogger(MindInsightLogger):
    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        super().log_metrics({name: value for name, value in metrics.items() if name != "lr"}, step)


def train() -> str:
    logger = MindInsightLogger(
        "runs", name="digits", version=None, prefix="a", raise_exception=False
    )
    collector = SummaryCollector(
        collect_freq=5,
        collect_specified_data={
            "histogram_regular": "layer.*",
            "collect_landscape": {"unit": "epoch"},
        },
        custom_lineage_data={"note": "first", "fold": 3, "dropout": 0.5},
        collect_gradients=True,
    )
    trainer = L.Trainer(
        logger=logger,
        callbacks=[collector, TrainLineage(logger), EvalLineage(Path("runs") / "lineage")],
    )
    trainer.fit(Net())
    logger.log_image("prediction", [np.zeros((3, 8, 8), dtype=np.float32)], step=1)
    logger.log_histogram("weights", torch.zeros(8))
    logger.log_hyperparams({"lr": 0.1})
    assert_type(logger.experiment, SummaryRecord)
    logger.experiment.add_scalar("x", 1.0, 2)
    logger.experiment.add_scalar(
        "x", torch.tensor(1.0), global_step=2, walltime=1.0, new_style=True
    )
    logger.experiment.add_histogram("h", [1, 2, 3], 2, bins="auto")
    return logger.log_dir


def dicts_of_its_own() -> SummaryCollector:
    settings = {"lr": 0.1}
    options = {"tensor_format": "npy"}
    landscape: CollectLandscape = {
        "intervals": [[1, 2, 3], range(3, 6)],
        "create_landscape": {"result": False},
    }
    specified: SpecifiedData = {"collect_metric": True, "collect_landscape": landscape}
    return SummaryCollector(
        "run", 1, specified, False, custom_lineage_data=settings, export_options=options
    )


def file_modes() -> list[MindInsightLogger]:
    return [MindInsightLogger(file_mode=0o640), MindInsightLogger(file_mode="0o640")]


def record(run: Path) -> bool:
    with SummaryRecord(
        run, max_file_size=2**20, export_options={"tensor_format": "npy"}
    ) as summary_record:
        summary_record.add_value("scalar", "loss", torch.tensor(0.5))
        summary_record.set_mode("eval" if summary_record.mode == "train" else "train")
        return summary_record.record(1, plugin_filter=lambda plugin: plugin == "scalar")


def read(run: Path) -> float:
    reader = SummaryReader(run)
    series = reader.scalars("loss")
    assert_type(series.values, NDArray[np.float32])
    for _step, _wall_time, histogram in reader.histograms("layer.weight/auto"):
        print(histogram.counts.sum(), histogram.edges.size)
    SummaryLandscape(str(run)).clean_ckpt()
    print(get_summary_lineage(str(run)), filter_summary_lineage(str(run.parent)))
    return float(series.values[-1]) if "loss" in reader else 0.0


def samples(reader: SummaryReader) -> Iterator[Sample[Image]]:
    for sample in reader.images("input_data/auto"):
        assert_type(sample.value, Image)
        assert_type(sample.step, int)
        step, time, image = sample
        print(step + 1, time + 0.5, image.to_pil().size)
        yield sample


def plot(series: ScalarSeries, histogram: Histogram) -> tuple[list[int], list[float]]:
    return series.steps.tolist(), histogram.edges.tolist()


def arrays(reader: SummaryReader) -> NDArray[np.float64]:
    return np.asarray(next(reader.tensors("scores")).value, np.float64)


def statistics(reader: SummaryReader) -> NDArray[np.float64] | None:
    table: ParameterTable | None = reader.parameter_statistics()
    return None if table is None else table.column("gradient_rms")


def settings_of(reader: SummaryReader) -> float | None:
    lineage: RunLineage = reader.lineage()
    return lineage.train.learning_rate if lineage.train else None


def landscapes(run: str) -> None:
    recorded: list[RecordedLandscape] = SummaryReader(run).landscapes()
    plot_landscapes({each.tag: each for each in recorded}, "landscapes.svg")
    made: dict[str, LossLandscape] = {each.tag: LossLandscape(each.surface) for each in recorded}
    plot_landscapes(made, Path("landscapes.png"))


def many(runs: Path) -> int:
    readers = [SummaryReader(run) for run in find_runs(runs)]
    table = read_scalars(readers, tags={"loss"})
    best = runs_to_pandas(runs, where="status=finished", sort="min:loss", differing=True)
    first: str = find_runs(runs, where=["lr<0.1"], sort="last:loss", descending=True)[0].run
    return (
        len(best)
        + len(first)
        + len(read_scalars(runs))
        + len(table)
        + len(lineage_to_pandas(runs, {"sorted_name": "loss"}))
    )


def query(runs: str) -> list[str]:
    condition = {"metric/accuracy": {"gt": 0.9}}
    found = filter_summary_lineage(runs, condition, recursive=True)
    assert_type(found["count"], int)
    return [run["summary_dir"] for run in found["object"]]


def compared(a: SummaryReader, b: str) -> int:
    comparison: Comparison = compare_runs(a, b, tolerance="bfloat16")
    verdict: Verdict = comparison.verdict
    if verdict == "different" and comparison.first_difference is not None:
        return comparison.first_difference.step
    return 0 if comparison.is_same else -1


def by_the_package(run: str) -> float:
    try:
        return float(ms.SummaryReader(run).scalars("loss").values[-1])
    except ms.errors.DamagedFileError as error:
        return error.offset
    except (LookupError, MindSummaryError):
        return 0.0


def damage(run: str) -> int:
    try:
        SummaryReader(run).tags()
    except DamagedFileError as error:
        return error.offset
    return -1


def view(runs: str) -> Shown:
    return show(runs, height=600)


def types_of_the_package(value: ms.types.Histogram, graph: ms.values.Graph) -> int:
    return value.count + len(graph.nodes)
