"""Workers, forked and spawned, that hold the logger, its record, the collector and a reader; every
other one logs.

Each case has the directory ``<way>-<place>``; on standard error its name stands before what is said
in it. Prints for each what the workers found: how many steps their reader read, and how many values
were written.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import warnings

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from mindsummary_lightning import MindInsightLogger, SummaryCollector, SummaryReader, SummaryRecord
from mindsummary_lightning.recording.summary_record import recorder_of
from tests.trainer.support import trainer

WORKERS, SAMPLES = 2, 8


class Holding(Dataset[torch.Tensor]):
    """A dataset that holds everything that records."""

    def __init__(self, logger: MindInsightLogger, collector: SummaryCollector) -> None:
        self.logger, self.collector = logger, collector
        self.record: SummaryRecord = logger.experiment
        self.reader = SummaryReader(logger.log_dir)

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> torch.Tensor:
        read = len(self.reader.scalars("loss"))
        written = 0
        if index % WORKERS:  # of the second worker
            self.logger.log_metrics({"of the logger": float(index)}, index)
            written = recorder_of(self.record).write_values(
                index, [("of the record", float(index))]
            )
        return torch.tensor([float(read), float(written)])


def use(
    held: Holding, indices: list[int], answers: multiprocessing.Queue[list[list[float]]]
) -> None:
    answers.put([held[index].tolist() for index in indices])


def in_processes(held: Holding, way: str) -> list[list[float]]:
    context = multiprocessing.get_context(way)
    answers = context.Queue()
    workers = [
        context.Process(target=use, args=(held, list(range(number, SAMPLES, WORKERS)), answers))
        for number in range(WORKERS)
    ]
    for worker in workers:
        worker.start()
    found = [answer for _ in workers for answer in answers.get(timeout=120)]
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0, worker.exitcode
    return found


def in_loader(held: Holding, way: str) -> list[list[float]]:
    loader = DataLoader(held, batch_size=1, num_workers=WORKERS, multiprocessing_context=way)
    return [answer for batch in loader for answer in batch.tolist()]


class Net(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 1)
        self.found: list[list[float]] = []

    def training_step(self, batch: torch.Tensor, index: int) -> torch.Tensor:
        self.found += batch.tolist()
        self.log("of the step", float(index))
        loss: torch.Tensor = self.layer(batch).square().mean()
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.01)


def in_training(held: Holding, way: str) -> list[list[float]]:
    net = Net()
    running = trainer(logger=held.logger, callbacks=[held.collector])
    running.fit(
        net, DataLoader(held, batch_size=1, num_workers=WORKERS, multiprocessing_context=way)
    )
    return net.found


PLACES = {"processes": in_processes, "loader": in_loader, "training": in_training}


def main(directory: str, way: str, *places: str) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    told = {}
    for place in places:
        case = f"{way}-{place}"
        print(f"== {case}", file=sys.stderr, flush=True)
        logger = MindInsightLogger(directory, name="", version=case)
        for step in range(5):
            logger.experiment.add_scalar("loss", float(step), step)
        found = PLACES[place](Holding(logger, SummaryCollector(collect_freq=4)), way)
        logger.experiment.add_scalar("loss", 5.0, 5)
        logger.finalize("success")
        told[case] = {
            "read": [int(read) for read, _ in found],
            "written": sum(int(done) for _, done in found),
        }
    print(json.dumps(told))
    sys.stdout.flush()
    os._exit(0)  # without the threads of queues


if __name__ == "__main__":
    main(*sys.argv[1:])
