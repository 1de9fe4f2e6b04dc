"""Networks that only take batches of the size that they were trained with, or keep one batch's
state.
"""

from __future__ import annotations

from typing import Any

import lightning
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from tests.landscape.nets import CLASSES, Small

SAMPLES, WIDTH = 16, 12


def batches() -> list[Any]:
    """Three batches of 16."""
    generator = torch.Generator().manual_seed(4)
    return [
        (
            torch.randn(SAMPLES, WIDTH, generator=generator),
            torch.randint(0, CLASSES, (SAMPLES,), generator=generator),
        )
        for _ in range(3)
    ]


class Bound(lightning.LightningModule, Small):
    """What all of them are; ``forward`` gives scores of the classes."""

    inputs = WIDTH

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return cross_entropy(self(batch[0]), batch[1])


class Reshaping(Bound):
    def forward(self, x: Tensor) -> Tensor:
        return self.net(x.view(SAMPLES, WIDTH))


class InitialState(Bound):
    """A recurrent state that goes on from batch to batch."""

    def prepare(self) -> None:
        self.cell = nn.GRUCell(WIDTH, WIDTH)
        self.state = torch.zeros(SAMPLES, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        self.state = self.cell(x, self.state)
        return self.net(self.state)


class Queue(Bound):
    """MoCo's: keys of the last batches, in a ring whose length is a multiple of the batch."""

    def prepare(self) -> None:
        self.register_buffer(
            "queue", normalize(torch.randn(32, CLASSES, generator=torch.Generator().manual_seed(1)))
        )
        self.register_buffer("place", torch.zeros(1, dtype=torch.long))

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        keys = normalize(self.net(batch[0]))
        assert len(self.queue) % len(keys) == 0
        start = int(self.place)
        loss = cross_entropy(keys @ self.queue.T, torch.arange(len(keys)))
        self.queue[start : start + len(keys)] = keys.detach()
        self.place[0] = (start + len(keys)) % len(self.queue)
        return loss


class Grouped(Bound):
    """Groups of samples, as many as divide a queue."""

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        assert SAMPLES % len(batch[0]) == 0
        return super().training_step(batch, batch_idx)


class Indexed(Bound):
    """A target of each batch by its index, kept in a list."""

    def prepare(self) -> None:
        self.scales = [1.0, 0.5, 2.0]

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return self.scales[batch_idx] * super().training_step(batch, batch_idx)


class Preallocated(Bound):
    """Writes its activations into memory that it made once."""

    def prepare(self) -> None:
        self.out = torch.zeros(SAMPLES, 6)

    def forward(self, x: Tensor) -> Tensor:
        torch.mm(x, self.net[0].weight.detach().T, out=self.out)
        return self.net[2](self.out.tanh())


class FirstBatch(Bound):
    """Normalizes all batches by the first that it sees, in a variable of a hook."""

    def prepare(self) -> None:
        first: list[Tensor] = []

        def by_first(module: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
            first.append(inputs[0].detach())
            return (inputs[0] - 0.5 * first[0],)

        self.net[0].register_forward_pre_hook(by_first)


class Alternating(Bound):
    """Changes the signs of every second batch."""

    def prepare(self) -> None:
        self.seen: set[int] = set()

    def forward(self, x: Tensor) -> Tensor:
        self.seen.add(len(self.seen))
        return self.net(x * (-1) ** len(self.seen))


class BatchStatistics(Bound):
    """Batch norm without running statistics: each batch by its own, in evaluation too."""

    def prepare(self) -> None:
        self.norm = nn.BatchNorm1d(WIDTH, track_running_stats=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(self.norm(x))


class Teacher(Bound):
    """Distills from the scores that the batch before had, kept by a closure over the network
    itself.
    """

    def prepare(self) -> None:
        self.before: Tensor | None = None
        self.remember = lambda scores: setattr(self, "before", scores.detach())

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        scores = self.net(batch[0])
        loss = cross_entropy(scores, batch[1])
        if self.before is not None:
            loss = loss + (scores - self.before).pow(2).mean()
        self.remember(scores)
        return loss


BOUND = [
    *(Reshaping, InitialState, Queue, Grouped),
    *(Indexed, Preallocated, FirstBatch, Alternating, BatchStatistics, Teacher),
]
