"""How far a value goes through the package, warm: calls, stays in a file, files, and moves between
rooms.

    python benchmarks/walk.py [--list "a collected step"]

A stay is a row of calls within one file; a move is a call into another room (folder) than that of
the call before it. A generator that goes on is the same call still.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import itertools
import logging
import sys
import tempfile
import threading
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import mindsummary_lightning
from mindsummary_lightning import MindInsightLogger, SummaryCollector, SummaryRecord

_ROOT = f"{Path(mindsummary_lightning.__file__).parent}/"
_calls: list[tuple[str, str]] = []  # file and function
_frames: set[FrameType] = set()  # of these calls


def _see(frame: FrameType, event: str, argument: object) -> None:
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(_ROOT) and frame not in _frames:
        _frames.add(frame)
        _calls.append((code.co_filename[len(_ROOT) :], code.co_name))


def walk_of(work: Callable[[], object]) -> list[tuple[str, str]]:
    """File and function of each call in the package, also in threads that the work starts."""
    _calls.clear()
    threading.setprofile(_see)
    sys.setprofile(_see)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return list(_calls)


def scalar(run: Path) -> list[tuple[str, str]]:
    """One number through Lightning's call of a logger."""
    logger = MindInsightLogger(run)
    for step in range(3):
        logger.log_metrics({"loss": 0.5 + step}, step)
    return walk_of(lambda: logger.log_metrics({"loss": 0.25}, 3))


def histogram(run: Path) -> list[tuple[str, str]]:
    """One array to its file."""
    with SummaryRecord(run) as record:
        for step in range(3):
            record.add_histogram("weights", np.arange(1000, dtype=np.float32) + step, step)
        return walk_of(
            lambda: record.add_histogram("weights", np.arange(1000, dtype=np.float32), 3)
        )


def steps(run: Path) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """A collected step of a training on the CPU, with two histograms and the loss, and one that is
    not collected.
    """
    import torch
    from lightning import Callback, LightningModule, Trainer
    from torch.utils.data import DataLoader, TensorDataset

    class Net(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 2)

        def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
            return self.layer(batch[0]).square().mean()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), 0.1)

    walks: dict[int, list[tuple[str, str]]] = {}

    class Walk(Callback):
        def on_train_batch_start(self, trainer: Trainer, *_: Any) -> None:
            sys.setprofile(None)
            # from the step's first hook to that of the next one
            walks[trainer.global_step] = list(_calls)
            _calls.clear()
            sys.setprofile(_see)

        def on_train_end(self, *_: Any) -> None:
            sys.setprofile(None)

    trainer = Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=MindInsightLogger(run),
        callbacks=[Walk(), SummaryCollector(collect_specified_data={"collect_input_data": False})],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        log_every_n_steps=1000,
    )
    trainer.fit(Net(), DataLoader(TensorDataset(torch.rand(60, 4))))
    return walks[40], walks[44]


def curve(run: Path) -> list[tuple[str, str]]:
    """A request for one curve of a run that is in memory and has not grown."""
    from aiohttp.test_utils import TestClient, TestServer

    from mindsummary_lightning.viewer.access import Access
    from mindsummary_lightning.viewer.app import create_app
    from mindsummary_lightning.viewer.loaded_runs import LoadedRuns

    with SummaryRecord(run / "a") as record:
        for step in range(100):
            record.add_scalar("loss", 0.5, step)
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in ("index.html", "static/js/graphvizlib.wasm"):
            archive.writestr(f"mindinsight/ui/dist/{name}", "<head></head>")
    site = create_app(LoadedRuns(str(run), clock=lambda: 0.0), wheel.getvalue(), Access(None))

    async def ask() -> list[tuple[str, str]]:
        async with TestClient(TestServer(site)) as client:
            path = "/v1/mindinsight/datavisual/scalar/metadata?train_id=.%2Fa&tag=loss%2Fscalar"
            for _ in range(3):
                assert len((await (await client.get(path)).json())["metadatas"]) == 100
            _calls.clear()
            threading.setprofile(_see)
            sys.setprofile(_see)
            answer = await client.get(path)
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
            assert len((await answer.json())["metadatas"]) == 100
            return list(_calls)

    return asyncio.run(ask())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--list", help="print the calls of this row", metavar="ROW")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        collected, other = steps(Path(folder, "steps"))
        walks = {
            "a scalar through Lightning": scalar(Path(folder, "scalar")),
            "a histogram to its file": histogram(Path(folder, "histogram")),
            "a collected step": collected,
            "a step that is not collected": other,
            "the viewer: one curve": curve(Path(folder, "curve")),
        }
    print("| | calls | stays in files | files | moves between rooms |\n|---|---:|---:|---:|---:|")
    for name, walk in walks.items():
        files = [file for file, _ in walk]
        stays = [file for file, _ in itertools.groupby(files)]
        rooms = [room for room, _ in itertools.groupby(file.rpartition("/")[0] for file in files)]
        print(f"| {name} | {len(walk)} | {len(stays)} | {len(set(files))} | {len(rooms) - 1} |")
    for file, calls in itertools.groupby(
        walks.get(options.list or "", ()), key=lambda call: call[0]
    ):
        print(f"{file}: {' '.join(function for _, function in calls)}")


if __name__ == "__main__":
    main()
