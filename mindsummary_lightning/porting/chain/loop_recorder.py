"""``StepRecorder``: records steps of a plain training loop, without Lightning."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.optim import Optimizer

from mindsummary_lightning.collection.loss import mean_loss
from mindsummary_lightning.collection.step_values import StepValues
from mindsummary_lightning.conversion.arguments import (
    checked_bool,
    checked_directory,
    optional_module,
    positive_int,
    recorded_steps,
)
from mindsummary_lightning.errors import error_text
from mindsummary_lightning.fileformat.output_rows import OUTPUT_ROWS_FILE, encode_output_rows
from mindsummary_lightning.fileio.whole_step_file import DEFAULT_MAX_BYTES
from mindsummary_lightning.graph.module_calls import ModuleCalls
from mindsummary_lightning.porting.chain.chain_collector import ChainCollector
from mindsummary_lightning.porting.chain.whole_step_recorder import WholeStepRecorder
from mindsummary_lightning.reading.output_statistics import output_rows
from mindsummary_lightning.recording.row_descriptions import RowDescriptions
from mindsummary_lightning.recording.run_recorder import RunRecorder
from mindsummary_lightning.recording.untraced import refused_in_compiled_code
from mindsummary_lightning.values.step_chain import OutputRow


class StepRecorder:
    """Records the output statistics or the whole tensors of a training loop.

    The rows are those of ``SummaryCollector(collect_output_statistics=True)``;
    ``mindsummary_lightning.mindspore`` has the same for MindSpore. Gradients are those that the
    optimizer steps with, so after the loop has clipped them. What is recorded of a step is in the
    file when the step ends, which waits for the device then, and on no other step. Of several
    processes the first records.

    Args:
        summary_dir: the run's directory, of its own: MindInsight follows one summary file of a
            directory.
        steps: how many steps are recorded from the first on, or the numbers of the steps, counted
            from 1.
        whole_tensors: also write every tensor of these steps to ``whole_step_<n>.npz``, for
            :func:`check_port`.
        whole_tensors_max_bytes: greatest size of a file, at least 1. A larger step is left out,
            and a warning states its size.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: an argument has a value that cannot be used.

    Example:
        >>> import tempfile, torch
        >>> model = torch.nn.Linear(2, 1)
        >>> optimizer, recorder = (
        ...     torch.optim.SGD(model.parameters(), lr=0.1),
        ...     StepRecorder(tempfile.mkdtemp()),
        ... )
        >>> for batch in [torch.ones(4, 2)] * 5:
        ...     with recorder.step(model, optimizer, batch) as loss_is:
        ...         loss = model(batch).square().mean()
        ...         loss_is(loss)
        ...         loss.backward()
        ...         optimizer.step()
    """

    def __init__(
        self,
        summary_dir: str | os.PathLike[str],
        steps: int | Sequence[int] = 3,
        *,
        whole_tensors: bool = False,
        whole_tensors_max_bytes: int = DEFAULT_MAX_BYTES,
    ) -> None:
        directory = checked_directory("summary_dir", summary_dir)
        self._steps = recorded_steps(steps)
        limit = positive_int("whole_tensors_max_bytes", whole_tensors_max_bytes)
        whole: WholeStepRecorder | None = None
        if checked_bool("whole_tensors", whole_tensors):
            whole = WholeStepRecorder(directory, limit, self._steps.__contains__)
        self._record = RunRecorder(directory)
        rows = output_rows(directory)
        self._chain = ChainCollector(rows, whole=whole)
        self._descriptions: RowDescriptions[OutputRow] = RowDescriptions(
            self._record, OUTPUT_ROWS_FILE, encode_output_rows, rows
        )
        self._count = 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._record.directory!r})"

    @refused_in_compiled_code
    @contextmanager
    def step(
        self, network: nn.Module, optimizer: Optimizer | Sequence[Optimizer], batch: Any = ()
    ) -> Iterator[Callable[[Any], None]]:
        """Return a context in which you run a single training step, to record it.

        Args:
            network: what is trained.
            optimizer: what steps in it; several of them as a sequence.
            batch: what the step is computed from: a tensor, or any nesting of tuples, lists, dicts
                and dataclasses.

        Yields:
            A function that takes the loss once it is known; calls of modules behind it are left
            out.

        Raises:
            TypeError: ``network`` is not a module or ``optimizer`` not an optimizer.
            RuntimeError: a function under ``torch.compile`` calls it.
        """
        if optional_module("network", network) is None:
            raise TypeError("network must be a torch.nn.Module, not None")
        optimizers: list[Any] = (
            [*optimizer] if isinstance(optimizer, (tuple, list)) else [optimizer]
        )
        for each in optimizers:
            if not isinstance(each, Optimizer):
                raise TypeError(
                    f"optimizer must be a torch.optim.Optimizer or a sequence of them, not {each!r}"
                )
        self._count += 1
        is_distributed = dist.is_available() and dist.is_initialized()
        is_first_process = not is_distributed or dist.get_rank() == 0
        if self._count not in self._steps or not is_first_process:
            yield lambda loss: None
            return
        values, chain = StepValues(), self._chain
        try:
            chain.begin(network, self._count)
            chain.add_batch(batch)
            with ExitStack() as hooks, ExitStack() as calls:
                calls.enter_context(ModuleCalls.told_to(chain))
                group = 0
                for each in optimizers:
                    hooks.callback(
                        each.register_step_pre_hook(_taker(chain, group, with_closure=False)).remove
                    )
                    hooks.callback(
                        each.register_step_post_hook(_taker(chain, group, with_closure=True)).remove
                    )
                    group += len(each.param_groups)

                def loss_is(loss: Any) -> None:
                    calls.close()
                    chain.add_loss(loss)
                    if (mean := mean_loss(loss)) is not None:
                        values.add_scalar("loss/auto", mean)

                yield loss_is
            chain.move_into(values)
        finally:
            chain.clear()
        self._write(values)

    def _write(self, values: StepValues) -> None:
        pairs = self._chain.finish(values.drain())
        for tag, problem in values.problems:
            self._record.policy.warnings.warn(
                tag, "%s is not recorded: %s", tag, error_text(problem)
            )
        self._descriptions.add(self._chain.rows)
        self._record.write_values(self._count, pairs)


def _taker(chain: ChainCollector, group: int, with_closure: bool) -> Callable[..., None]:
    def take(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        # which computes gradients in the step
        if any(map(callable, (*args[1:], *kwargs.values()))) != with_closure:
            return
        # A fused optimizer divides by the scale of a GradScaler in its step; others have it done
        # before.
        scale: torch.Tensor | None = getattr(optimizer, "grad_scale", None)
        chain.add_gradients(optimizer, group, scale)

    return take
