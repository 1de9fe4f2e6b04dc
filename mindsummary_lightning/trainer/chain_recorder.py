"""``ChainRecorder``: records output statistics in the hooks of a step."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any

import torch

from mindsummary_lightning.collection.options import OutputStatisticsOptions
from mindsummary_lightning.fileformat.output_rows import OUTPUT_ROWS_FILE, encode_output_rows
from mindsummary_lightning.graph.replaced_method import ReplacedMethod
from mindsummary_lightning.porting.chain.chain_collector import ChainCollector
from mindsummary_lightning.porting.chain.whole_step_recorder import WholeStepRecorder
from mindsummary_lightning.reading.output_statistics import output_rows
from mindsummary_lightning.recording.row_descriptions import RowDescriptions
from mindsummary_lightning.recording.run_recorder import RunRecorder
from mindsummary_lightning.trainer.hook_guard import HookGuard
from mindsummary_lightning.trainer.trainer_state import backward_scale, loss_scale
from mindsummary_lightning.values.step_chain import OutputRow


class ChainRecorder:
    """Records the output statistics of the steps of a fit.

    A batch is recorded as ``training_step`` gets it: on its device, within autocast, inside DDP's
    forward.

    Attributes:
        chain: records the present fit, or ``None``.
        steps: the steps to record; ``None``: the default steps.
    """

    def __init__(self, options: OutputStatisticsOptions | None, guard: HookGuard) -> None:
        self.chain: ChainCollector | None = None
        self.steps: Container[int] | None = () if options is None else options.steps
        self._options = options
        self._step = 0
        self._guard = guard
        self._module: Any = None
        self._methods: tuple[ReplacedMethod, ...] = ()
        self._descriptions: RowDescriptions[OutputRow] | None = None

    def plan(self, module: Any, record: RunRecorder | None) -> None:
        """Prepare for a fit; ``record`` is ``None`` on ranks that do not record."""
        self.end()
        if self._options is not None and record is not None:
            rows = output_rows(record.directory)
            whole: WholeStepRecorder | None = None
            if self._options.whole_steps:
                is_wanted = self._options.whole_steps.__contains__
                whole = WholeStepRecorder(record.directory, self._options.max_bytes, is_wanted)
            self.chain, self._module = ChainCollector(rows, self._options.modules, whole), module
            self._descriptions = RowDescriptions(record, OUTPUT_ROWS_FILE, encode_output_rows, rows)
            self._methods = (
                ReplacedMethod(module, "training_step", self._call),
                ReplacedMethod(module, "configure_gradient_clipping", self._clip),
            )

    def begin_batch(self, is_recorded: bool, step: int) -> None:
        """Prepare for a batch of the given step; steps count from 1."""
        self._step = step
        for method in self._methods if is_recorded else ():
            method.arm()

    def before_backward(self, loss: torch.Tensor) -> None:
        """Record the loss of a module that calls ``manual_backward``.

        The loss of any other module is what ``training_step`` returns.
        """
        if self.chain is not None and not self._module.automatic_optimization:
            self.chain.add_loss(loss)

    def before_optimizer_step(self, trainer: Any, module: Any, optimizer: Any) -> None:
        """Record the gradients and settings of an optimizer of the Trainer."""
        if self.chain is None or not self.chain.is_open:
            return
        optimizers, scale = trainer.optimizers, loss_scale(trainer, module, optimizer)
        place = next((at for at, each in enumerate(optimizers) if each is optimizer), 0)
        self.chain.add_gradients(
            optimizer, sum(len(each.param_groups) for each in optimizers[:place]), scale
        )

    def end_batch(self) -> None:
        """Stop recording output statistics at the end of a batch."""
        for method in self._methods:
            method.disarm()

    def describe(self) -> None:
        """Write the descriptions of the table rows before the table is written."""
        if self.chain is not None and self._descriptions is not None:
            self._descriptions.add(self.chain.rows)

    def end(self) -> None:
        """Release all objects of the last fit."""
        self.end_batch()
        if self.chain is not None:
            self.chain.clear()
        self.chain = self._module = self._descriptions = None
        self._methods = ()

    def _call(
        self, original: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Any:
        chain = self.chain
        if chain is None:
            return original(*args, **kwargs)
        with self._guard("the output statistics"):
            chain.begin(self._module, self._step)
            chain.scale_gradients(backward_scale(self._module.trainer))
        return chain.call(args[0] if args else None, original, args, kwargs)

    def _clip(
        self, original: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Any:
        """Clip the gradients, and record them again if clipping has changed them.

        Clipping may change them in place, or replace the tensors.
        """
        optimizer: Any = args[0] if args else kwargs.get("optimizer")
        before: list[tuple[int, int]] = []
        with self._guard("the output statistics"):
            before = _states(optimizer)
        result = original(*args, **kwargs)
        with self._guard("the output statistics"):
            if self.chain is not None and before and _states(optimizer) != before:
                self.chain.add_clipped(
                    optimizer, loss_scale(self._module.trainer, self._module, optimizer)
                )
        return result

    def __getstate__(self) -> dict[str, Any]:
        held = ("chain", "_module", "_descriptions")
        return {**self.__dict__, **dict.fromkeys(held), "_methods": ()}


def _states(optimizer: Any) -> list[tuple[int, int]]:
    gradients = (
        parameter.grad for group in optimizer.param_groups for parameter in group["params"]
    )
    return [(id(gradient), gradient._version) for gradient in gradients if gradient is not None]
