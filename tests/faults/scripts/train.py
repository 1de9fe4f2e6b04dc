"""Fit with the pair again and again, each time in a forked child that a signal ends somewhere;
print what was lost.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import os
import random
import select
import signal
import sys
import time
import warnings

import lightning
import torch
from torch import nn

from mindsummary_lightning import MindInsightLogger, SummaryCollector
from tests.trainer.support import trainer


class Net(lightning.LightningModule):
    def __init__(self, said: int) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)
        self.said = said

    def training_step(self, batch: torch.Tensor, index: int) -> torch.Tensor:
        loss: torch.Tensor = self.layer(batch).square().mean()
        self.logger.log_metrics({"mine": float(index)}, index)  # type: ignore[union-attr]
        os.write(self.said, b"%d\n" % index)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.01)


# A checkpoint every other step, so that kills come in the middle of them too.
LANDSCAPE = {
    "landscape_size": 3,
    "unit": "step",
    "num_samples": 64,
    "intervals": [[*range(1, 400, 2)]],
}


def fit(directory: str, said: int, has_landscape: bool) -> None:
    torch.set_num_threads(1)
    collected = {"collect_landscape": LANDSCAPE} if has_landscape else None
    logger = MindInsightLogger(directory, name="", version="run")
    collector = SummaryCollector(collect_specified_data=collected)
    running = trainer(logger=logger, callbacks=[collector], log_every_n_steps=50)
    running.fit(Net(said), torch.utils.data.DataLoader(torch.rand(40_000, 4), batch_size=1))


def main(directory: str, trials: str, signal_name: str, has_landscape: str = "") -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    draw = random.Random(0)
    last = {}
    for trial in range(int(trials)):
        listen, said = os.pipe()
        child = os.fork()
        if not child:
            os.close(listen)
            faulthandler.register(signal.SIGUSR1)
            # a shell's background job ignores it
            signal.signal(signal.SIGINT, signal.default_int_handler)
            try:
                fit(f"{directory}/{trial}", said, bool(has_landscape))
            finally:
                os._exit(0)
        os.close(said)
        wanted, heard = draw.randrange(1, 60), b""
        while heard.count(b"\n") < wanted:
            heard += os.read(listen, 4096)
        os.kill(child, signal.Signals[signal_name])
        heard += rest_of(listen, trial, child)
        os.waitpid(child, 0)
        last[trial] = int(heard[: heard.rindex(b"\n")].split(b"\n")[-1])
    print(json.dumps(last))


def rest_of(listen: int, trial: int, child: int) -> bytes:
    """What a child says until it ends; one that goes on for five minutes shows where it is and ends
    us too.
    """
    heard, until = b"", time.monotonic() + 300
    while time.monotonic() < until and select.select([listen], [], [], until - time.monotonic())[0]:
        more = os.read(listen, 4096)
        if not more:
            os.close(listen)
            return heard
        heard += more
    os.kill(child, signal.SIGUSR1)
    select.select([], [], [], 1)  # time to write it
    os.kill(child, signal.SIGKILL)
    sys.exit(f"trial {trial} goes on after the signal; it has said {heard[-20:]!r}")


if __name__ == "__main__":
    main(*sys.argv[1:])
