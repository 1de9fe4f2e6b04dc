"""Train over a DataLoader whose forked workers log through the record they inherited."""

from __future__ import annotations

import sys

import torch
from torch.utils.data import DataLoader, Dataset

from mindsummary_lightning import SummaryRecord


class Logged(Dataset[torch.Tensor]):
    def __init__(self, record: SummaryRecord) -> None:
        self.record = record

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        self.record.add_scalar("of a worker", float(index), index)
        return torch.tensor([float(index)])


def main(directory: str, epochs: str) -> None:
    record = SummaryRecord(directory)
    record.add_scalar("loss", 0.0, 0)
    step = 0
    for _ in range(int(epochs)):
        loader = DataLoader(Logged(record), batch_size=8, num_workers=2, multiprocessing_context="fork")
        for batch in loader:
            step += 1
            record.add_scalar("loss", float(batch.sum()), step)
    print(step)


if __name__ == "__main__":
    main(*sys.argv[1:])
