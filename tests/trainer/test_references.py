"""What a training lets go of, we let go of.

Outputs and batches with their step, module and Trainer with the fit.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import lightning as L
import pytest
import torch
from torch import Tensor

from mindsummary_lightning import (
    EvalLineage,
    MindInsightLogger,
    SummaryCollector,
    TrainLineage,
    histogram_summary,
    tensor_summary,
)
from tests.trainer.support import Net, loader, trainer

pytestmark = pytest.mark.slow

_OURS: dict[str, Callable[[Path], tuple[Any, list[Any]]]] = {
    "nothing": lambda path: (False, []),
    "logger": lambda path: (MindInsightLogger(path), []),
    "collector": lambda path: (False, [SummaryCollector(path, collect_gradients=True)]),
    "collector of every step": lambda path: (
        False,
        [SummaryCollector(path, 1, collect_gradients=True)],
    ),
    "statistics": lambda path: (
        False,
        [
            SummaryCollector(
                path, 1, collect_parameter_statistics=True, collect_parameter_updates=True
            )
        ],
    ),
    "collector of a logged loss": lambda path: (False, [SummaryCollector(path, loss="train/loss")]),
    "pair": lambda path: (MindInsightLogger(path), [SummaryCollector(collect_freq=2)]),
    "lineage": lambda path: (False, [TrainLineage(path), EvalLineage(path)]),
}


class Watched(Net):
    """Returns a large output in addition to the loss.

    Notes when a step begins what is left of the one before.
    """

    def __init__(self) -> None:
        super().__init__()
        self.of_step: list[tuple[str, weakref.ref[Any]]] = []
        self.alive: list[list[str]] = []

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Any:
        # Between two steps Lightning itself has none of these any more.
        self.alive.append([name for name, reference in self.of_step if reference() is not None])
        scores = self(batch[0])
        logits = scores.repeat(1000, 1)
        tensor_summary("scores", scores)
        histogram_summary("logits", logits)
        self.of_step = [
            (name, weakref.ref(value)) for name, value in (("scores", scores), ("logits", logits))
        ]
        loss = torch.nn.functional.cross_entropy(scores, batch[1])
        self.log("train/loss", loss)
        return {"loss": loss, "logits": logits}


class Handed(L.Callback):
    """Adds what Lightning hands to callbacks: the batch, and the outputs without their graph."""

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        handed = {"batch": batch[0], "output": outputs["logits"], "loss": outputs["loss"]}
        pl_module.of_step += [(name, weakref.ref(value)) for name, value in handed.items()]


def _held(roots: list[Any], kinds: tuple[type, ...]) -> list[tuple[Any, str]]:
    """Return what of these kinds can be reached from our objects and modules, and by which path.

    Lightning's own cycles are left out. A path is the types of the objects on it.

    What `torch.compile` made of a frame it keeps among the globals of that frame, under names that
    begin as below.
    """
    for module in [
        module for name, module in sys.modules.items() if name.startswith("mindsummary_lightning")
    ]:
        roots += [
            value for name, value in vars(module).items() if not name.startswith("__compiled_fn")
        ]
    seen: set[int] = {id(sys.modules)}
    held = []
    holders: dict[int, tuple[int, str]] = {}
    waiting = [(root, 0) for root in roots]
    while waiting:
        value, holder = waiting.pop()
        if id(value) in seen or isinstance(value, (type, ModuleType)):
            continue
        seen.add(id(value))
        holders[id(value)] = holder, type(value).__name__
        if isinstance(value, kinds):
            held.append((value, _path(holders, id(value))))
            continue
        below = gc.get_referents(value)
        if isinstance(value, FunctionType):  # not its globals
            below = [value.__closure__, value.__defaults__, value.__dict__]
        waiting += [(each, id(value)) for each in below]
    return held


def _path(holders: dict[int, tuple[int, str]], at: int) -> str:
    names = []
    while at:
        at, name = holders[at]
        names.append(name)
    return " < ".join(names)


@pytest.mark.parametrize("ours", _OURS)
def test_what_a_step_made_is_gone_before_the_next_and_the_rest_with_the_fit(
    tmp_path: Path, ours: str
) -> None:
    kinds = (L.Trainer, torch.nn.Module, torch.utils.data.DataLoader, torch.nn.Parameter)
    before = _held([], kinds)  # what other tests have left, whose fits may have ended with an error
    logger, callbacks = _OURS[ours](tmp_path)
    module = Watched()
    running = trainer(logger=logger, callbacks=[*callbacks, Handed()])
    running.fit(module, loader(6), loader(1))

    assert module.alive == [[]] * 6
    assert [name for name, reference in module.of_step if reference() is not None] == []
    for callback in callbacks:  # Lightning itself gives them methods of the module
        del callback.log, callback.log_dict
    roots = [*callbacks, logger]
    known = {id(value) for value, _ in before}
    assert [path for value, path in _held(roots, kinds) if id(value) not in known] == []
