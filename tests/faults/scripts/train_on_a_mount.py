"""Fit with the pair, each time in a forked child, on a mount whose calls fail; print what each
child was told.

Arguments: a directory, then for each fit a kind of call, an errno and the calls that succeed first,
joined by commas. Needs tests/faults/network_mount.c to be preloaded. The run is
``<number>/mount/run`` below the directory; beside the mount, ``log`` is what the child said, and
``told`` has the steps whose call returned True.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
import warnings
from pathlib import Path

import lightning
import torch
from torch import nn

from mindsummary_lightning import MindInsightLogger, SummaryCollector
from mindsummary_lightning.recording.summary_record import recorder_of
from tests.faults.network_mount import mount, unmount
from tests.trainer.support import trainer


class Net(lightning.LightningModule):
    def __init__(self, written: list[int]) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)
        self.written = written
        self.save_hyperparameters({"lr": 0.01})

    def training_step(self, batch: torch.Tensor, index: int) -> torch.Tensor:
        loss: torch.Tensor = self.layer(batch).square().mean()
        if recorder_of(self.logger.experiment).write_values(index, [("mine", float(index))]):  # type: ignore[union-attr]
            self.written.append(index)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.01)


def fit(work: Path, kind: str, error: int, after: int) -> None:
    written: list[int] = []
    mount(work / "mount", kind, after, error)
    logger = MindInsightLogger(str(work / "mount"), name="", version="run")
    running = trainer(logger=logger, callbacks=[SummaryCollector(collect_freq=5)])
    running.fit(Net(written), torch.utils.data.DataLoader(torch.rand(20, 4), batch_size=1))
    calls = unmount()
    (work / "told").write_text(
        json.dumps({"written": written, "calls": calls, "steps": running.global_step}),
        encoding="utf-8",
    )


def main(directory: str, *faults: str) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for number, fault in enumerate(faults):
        kind, error, after = fault.split(",")
        work = Path(directory, str(number))
        (work / "mount").mkdir(parents=True)
        child = os.fork()
        if not child:
            os.dup2(os.open(work / "log", os.O_WRONLY | os.O_CREAT), 2)
            try:
                fit(work, kind, int(error), int(after))
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code:
            sys.exit(
                f"{fault}: training ended with {code}: "
                f"{(work / 'log').read_text(encoding='utf-8')[-2000:]}"
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
