"""Does cost grow with the work, or faster? Each case at three sizes, in a process of its own.

    python benchmarks/growth.py [--scale 0.1] [--cases scalars,checkpoints]

The exponent of CPU time is the slope of its logarithm over that of the size, the cost of an empty
run taken off: 1 is linear. Bytes are those that the process handed to the system; memory,
descriptors and threads are what the largest size left beyond the smallest.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np

Work = Callable[[Path, int], None]


def scalars(run: Path, steps: int) -> None:
    from mindsummary_lightning import MindInsightLogger

    logger = MindInsightLogger(run)
    for step in range(steps):
        logger.log_metrics({"loss": 1 / (step + 1), "accuracy": 0.5}, step)
    logger.finalize("success")


def sets_of_metrics(run: Path, steps: int) -> None:
    from mindsummary_lightning import MindInsightLogger, SummaryReader

    logger = MindInsightLogger(run, name="", version="run")
    draw = np.random.default_rng(0)
    for step in range(steps):
        logger.log_metrics({f"m{number}": 0.5 for number in draw.permutation(20)[:8]}, step)
    logger.finalize("success")
    SummaryReader(run / "run").all_scalars()


def verified_sets(run: Path, steps: int) -> None:
    from mindsummary_lightning import SummaryRecord
    from mindsummary_lightning.maintenance.verify import verify_run
    from mindsummary_lightning.recording.summary_record import recorder_of

    draw = np.random.default_rng(0)
    with SummaryRecord(run) as record:
        write = recorder_of(record).write_values
        for step in range(steps):
            write(step, [(f"m{number}", 0.5) for number in draw.permutation(20)[:8]])
    assert not any(finding.is_damage for finding in verify_run(str(run)))


def histograms(run: Path, steps: int) -> None:
    from mindsummary_lightning import SummaryRecord

    weights = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    with SummaryRecord(run) as record:
        for step in range(steps):
            record.add_histogram("weights", weights, step)


def rotated_files(run: Path, files: int) -> None:
    from mindsummary_lightning import SummaryRecord

    with SummaryRecord(run, max_file_size=2000) as record:
        for step in range(35 * files):
            record.add_scalar("a", 1.0, step)


def directories(run: Path, count: int) -> None:
    from mindsummary_lightning import SummaryRecord

    for step in range(5):
        for number in range(count):
            with SummaryRecord(run / str(number)) as record:
                record.add_scalar("a", 1.0, step)


def evaluations(run: Path, times: int) -> None:
    from mindsummary_lightning.recording.run_recorder import RunRecorder
    from mindsummary_lightning.trainer.lineage_recorder import LineageRecorder

    clock = [0.0]
    recorder = RunRecorder(str(run))
    lineage = LineageRecorder(recorder, timer=lambda: clock[0])
    for number in range(times):
        clock[0] += 20
        metrics = {f"accuracy/{part}": number / times for part in range(10)}
        stand_in = SimpleNamespace(
            callback_metrics=metrics, testing=False, num_val_batches=[1], val_dataloaders=None
        )
        lineage.evaluation_ends(stand_in)
    recorder.close()


def _fit(run: Path, batches: int, callbacks: list[object], version: str = "run") -> None:
    import torch
    from lightning import LightningModule, Trainer
    from torch.utils.data import DataLoader, TensorDataset

    from mindsummary_lightning import MindInsightLogger, SummaryCollector

    class Net(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 2)

        def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
            loss = self.layer(batch[0]).square().mean()
            self.log("train/loss", loss)
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), 0.1)

    trainer = Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=MindInsightLogger(run, name="", version=version),
        callbacks=[SummaryCollector(), *callbacks],
        enable_checkpointing=bool(callbacks),
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Net(), DataLoader(TensorDataset(torch.zeros(batches, 4))))


def steps(run: Path, count: int) -> None:
    _fit(run, count, [])


def checkpoints(run: Path, saves: int) -> None:
    from lightning.pytorch.callbacks import ModelCheckpoint

    _fit(
        run,
        saves,
        [
            ModelCheckpoint(
                run / "saved", "{step}", every_n_train_steps=1, save_top_k=-1, save_last=False
            )
        ],
    )


def fits(run: Path, count: int) -> None:
    for number in range(count):
        _fit(run, 2, [], f"version_{number}")


def parameters(run: Path, count: int) -> None:
    import torch

    from mindsummary_lightning.collection.step_values import StepValues

    values = StepValues()
    for number in range(count):
        values.add_histogram(f"p{number}", torch.full((100,), float(number)))
    from mindsummary_lightning.recording.run_recorder import RunRecorder

    recorder = RunRecorder(str(run))
    recorder.write_values(1, list(values.drain()))
    recorder.close()


def verified_scalars(run: Path, points: int) -> None:
    from mindsummary_lightning import SummaryRecord
    from mindsummary_lightning.maintenance.verify import verify_run
    from mindsummary_lightning.recording.summary_record import recorder_of

    with SummaryRecord(run) as record:
        write = recorder_of(record).write_values
        for step in range(points):
            write(step, [("loss", 0.5)])
    assert not any(finding.is_damage for finding in verify_run(str(run)))


def many_runs(run: Path, count: int) -> None:
    from mindsummary_lightning import SummaryRecord

    for number in range(count):
        with SummaryRecord(run / str(number)) as record:
            record.add_scalar("a", 1.0, 0)


def looks(run: Path, loaded: int) -> None:
    """As many looks at one run that grows as there are runs in memory: linear if a look costs the
    same.
    """
    from mindsummary_lightning import SummaryRecord
    from mindsummary_lightning.viewer.loaded_runs import LoadedRuns

    runs = LoadedRuns(str(run), clock=lambda: 0.0)  # lists the directories once
    for number in range(loaded):
        runs.run(f"./{number}")
    with SummaryRecord(run / "0") as record:
        for step in range(1, loaded + 1):
            record.add_scalar("a", 1.0, step)
            runs.run("./0")


def called_often(run: Path, calls: int) -> None:
    import torch

    from mindsummary_lightning import StepRecorder

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.LayerNorm(8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for call in range(calls):
                x = self.norm(x + torch.linspace(0, 1 + call, 8))
            return x

    net, x = Net(), torch.randn(4, 8)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with StepRecorder(run / "a", 1).step(net, optimizer, x) as loss_is:
        loss_is(loss := net(x).square().mean())
        loss.backward()
        optimizer.step()


def compared_calls(run: Path, calls: int) -> None:
    """The chain of a step with itself: many outputs of one root mean square."""
    from mindsummary_lightning import compare_runs

    assert compare_runs(run / "a", run / "a").is_same


def compared_names(run: Path, weights: int) -> None:
    """Weights of one size under other names: their numbers tell them."""
    from mindsummary_lightning.porting.comparison.matching.match import match_names
    from mindsummary_lightning.porting.comparison.matching.tensor_names import TensorName

    numbers = (
        np.random.default_rng(0).normal((-4.0, 4.0, 0.0), (0.3, 0.3, 0.01), (weights, 3)).tolist()
    )
    ours = [
        TensorName(f"experts.{index}.weight", 4096, tuple(row)) for index, row in enumerate(numbers)
    ]
    theirs = [
        TensorName(f"moe.e{index}.kernel", 4096, tuple(row)) for index, row in enumerate(numbers)
    ]
    assert len(match_names(ours, theirs).pairs) == weights


CASES: dict[str, tuple[Work, tuple[int, int, int]]] = {
    "scalars": (scalars, (50_000, 100_000, 200_000)),
    "sets_of_metrics": (sets_of_metrics, (2_500, 5_000, 10_000)),
    "verified_sets": (verified_sets, (7_500, 15_000, 30_000)),
    "histograms": (histograms, (5_000, 10_000, 20_000)),
    "rotated_files": (rotated_files, (250, 500, 1_000)),
    "directories": (directories, (300, 600, 1_200)),
    "evaluations": (evaluations, (1_000, 2_000, 4_000)),
    "steps": (steps, (5_000, 10_000, 20_000)),
    "checkpoints": (checkpoints, (250, 500, 1_000)),
    "fits": (fits, (100, 200, 400)),
    "parameters": (parameters, (2_500, 5_000, 10_000)),
    "verified_scalars": (verified_scalars, (250_000, 500_000, 1_000_000)),
    "looks": (looks, (1_000, 2_000, 4_000)),
    "compared_calls": (compared_calls, (1_000, 2_000, 4_000)),
    "compared_names": (compared_names, (4_000, 8_000, 16_000)),
}
PREPARED: dict[str, Work] = {  # not measured
    "looks": many_runs,  # to make a directory costs the system what it likes
    "compared_calls": called_often,
}


def _measure(case: str, size: int) -> dict[str, float]:
    """Run one case in this process; its cost, after a run of size 1 that imports and warms
    everything.
    """
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    (work, _), prepare = CASES[case], PREPARED.get(case, lambda run, size: None)
    with tempfile.TemporaryDirectory() as directory:
        warm, run = Path(directory, "warm"), Path(directory, "run")
        prepare(warm, 1)
        work(warm, 1)
        prepare(run, size)
        before = _state()
        work(run, size)
        after = _state()
    return {name: after[name] - before[name] for name in before}


def _state() -> dict[str, float]:
    with open("/proc/self/io", encoding="utf-8") as file:
        written = next(int(line.split()[1]) for line in file if line.startswith("wchar"))
    with open("/proc/self/statm", encoding="utf-8") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": time.process_time(),
        "bytes": written,
        "resident": resident,
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
    }


def exponent(sizes: list[int], costs: list[float]) -> float:
    """Slope of a straight line through the logarithms."""
    slope, _ = np.polyfit(
        [math.log(size) for size in sizes], [math.log(max(cost, 1e-9)) for cost in costs], 1
    )
    return float(slope)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=1, help="the fastest of so many is taken")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--measure", nargs=2, metavar=("CASE", "SIZE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(_measure(options.measure[0], int(options.measure[1]))))
        return
    print(
        "| case | sizes | CPU s | exponent | MB written | exponent | MB resident more | "
        "descriptors | threads |"
    )
    print("|---|---|---|---:|---|---:|---:|---:|---:|")
    for case in options.cases.split(","):
        sizes = [max(1, int(size * options.scale)) for size in CASES[case][1]]
        found = []
        for size in sizes:
            command = [sys.executable, __file__, "--measure", case, str(size)]
            runs = [
                json.loads(
                    subprocess.run(
                        command, check=True, capture_output=True, text=True
                    ).stdout.splitlines()[-1]
                )
                for _ in range(options.rounds)
            ]
            found.append(min(runs, key=lambda run: run["cpu"]))
        cpu, written = [each["cpu"] for each in found], [each["bytes"] for each in found]
        more = {
            name: found[-1][name] - found[0][name]
            for name in ("resident", "descriptors", "threads")
        }
        print(
            f"| {case} | {' '.join(f'{size:,}' for size in sizes)} | "
            f"{' '.join(f'{each:.2f}' for each in cpu)} "
            f"| {exponent(sizes, cpu):.2f} | {' '.join(f'{each / 1e6:.1f}' for each in written)} "
            f"| {exponent(sizes, written):.2f} | {more['resident'] / 1e6:.1f} | "
            f"{more['descriptors']:.0f} "
            f"| {more['threads']:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
