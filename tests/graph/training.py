"""One training of the zoo, with or without a SummaryCollector, and everything about it that must
not differ.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from mindsummary_lightning import SummaryCollector
from tests.graph.zoo import Training

RESULT_IS_UNSEEN = "this torch returns a compiled function's result unseen"


def keeps_result(compiled: Any) -> bool:
    """Whether torch holds a compiled function's result in a variable, where it can be observed."""
    return "result" in compiled.__code__.co_varnames


def skip_where_result_is_unseen(compiled: Any) -> None:
    """Skip a test with a torch that does not hold the result of a compiled function."""
    if not keeps_result(compiled):
        pytest.skip(RESULT_IS_UNSEEN)


@dataclass
class Trace:
    """What happened in a training, in plain values that compare bit for bit.

    Attributes:
        model: the trained module.
        losses: bytes of what each training step returned.
        gradients: bytes of the gradients before each optimizer step.
        weights: bytes of the final parameters and buffers.
        random_states: of torch, NumPy and Python at the end.
        calls: hooks of the modules in the order in which they ran, of each training step.
    """

    model: L.LightningModule
    losses: list[bytes] = field(default_factory=list)
    gradients: list[dict[str, bytes]] = field(default_factory=list)
    weights: dict[str, bytes] = field(default_factory=dict)
    random_states: list[Any] = field(default_factory=list)
    calls: list[list[str]] = field(default_factory=lambda: [[]])

    def values(self) -> list[Any]:
        """Everything but the module."""
        return [self.losses, self.gradients, self.weights, self.random_states, self.calls]


class _Witness(L.Callback):
    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        value = outputs["loss"] if isinstance(outputs, dict) and "loss" in outputs else outputs
        self._trace.losses.append(_bytes(value) if isinstance(value, Tensor) else b"")
        self._trace.calls.append([])

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        gradients = {name: weight.grad for name, weight in pl_module.named_parameters()}
        self._trace.gradients.append(
            {name: _bytes(grad) for name, grad in gradients.items() if grad is not None}
        )


def train(
    training: Training,
    directory: Path | None,
    prepare: Callable[[L.LightningModule], Any] = lambda module: None,
    **options: Any,
) -> Trace:
    """Train from a fixed seed.

    Args:
        training: what to train.
        directory: where a SummaryCollector records; ``None`` trains without one.
        prepare: is given the module before the training.
        options: of the SummaryCollector.
    """
    L.seed_everything(11, verbose=False)
    batches = training.batches()
    trace = Trace(training.model())
    if training.is_hooked:
        for name, part in trace.model.named_modules():
            if isinstance(part, torch.jit.ScriptModule):
                continue  # has no hooks
            part.register_forward_pre_hook(
                lambda *_, name=name: trace.calls[-1].append(f"before {name}")
            )
            part.register_forward_hook(
                lambda *_, name=name: trace.calls[-1].append(f"after {name}")
            )
    prepare(trace.model)
    collectors = [] if directory is None else [SummaryCollector(directory, 1, **options)]
    settings = {
        name: value() if callable(value) else value for name, value in training.trainer.items()
    }
    trainer = L.Trainer(
        **{"accelerator": "cpu", "max_epochs": 1, **settings},
        logger=False,
        callbacks=[_Witness(trace), *collectors],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(trace.model, DataLoader(batches, batch_size=None, collate_fn=lambda batch: batch))  # type: ignore[arg-type]
    trace.weights = {name: _bytes(tensor) for name, tensor in trace.model.state_dict().items()}
    trace.random_states = [
        torch.get_rng_state().tolist(),
        np.random.get_state()[1].tolist(),  # type: ignore[union-attr,index]  # noqa: NPY002
        random.getstate(),
    ]
    return trace


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().clone().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
