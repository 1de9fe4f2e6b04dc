"""``StepRecorder``: records steps of a MindSpore training, to check a port."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import mindspore
import numpy as np
from mindspore.train import Callback

from mindsummary_lightning.conversion.arguments import (
    checked_bool,
    checked_directory,
    positive_int,
    recorded_steps,
)
from mindsummary_lightning.fileformat.output_rows import OUTPUT_ROWS_FILE, encode_output_rows
from mindsummary_lightning.fileio.whole_step_file import DEFAULT_MAX_BYTES, WholeStepWriter
from mindsummary_lightning.porting.mindspore.cell_chain import CellChain
from mindsummary_lightning.porting.mindspore.cell_tensors import CellTensors
from mindsummary_lightning.porting.mindspore.trained_cells import (
    TrainedCells,
    loss_scale_of,
    trained_cells,
)
from mindsummary_lightning.reading.output_statistics import output_rows
from mindsummary_lightning.recording.row_descriptions import RowDescriptions
from mindsummary_lightning.recording.run_recorder import RunRecorder
from mindsummary_lightning.values import Tensor
from mindsummary_lightning.values.step_chain import COLUMNS, OUTPUT_STATISTICS_TAG, OutputRow

_LOG = logging.getLogger(__name__)
_GRAPH_MODE = (
    "in graph mode, only batch, loss and weights are recorded. To record cells and gradients, too, "
    "call mindspore.set_context(mode=mindspore.PYNATIVE_MODE)"
)
_LOSS_TAG = "loss/auto"  # as MindSpore's SummaryCollector names it


class StepRecorder(Callback):  # type: ignore[misc] # mindspore has no types
    """Records output statistics or whole tensors of a training's first steps.

    For a :class:`mindspore.train.Model` it is a callback; a loop of one's own uses :meth:`step`.
    The rows are those of ``SummaryCollector(collect_output_statistics=True)`` in Lightning, so that
    ``mindsummary compare`` names the module at which a port diverges. Nothing in the network is
    changed, and the training's numbers stay the same; what ``mindspore.jit`` compiles is recorded
    from outside.

    Args:
        summary_dir: the run's directory, of its own: MindInsight follows one summary file of a
            directory.
        steps: how many steps are recorded from the first on, or the numbers of the steps, counted
            from 1.
        whole_tensors: whether each recorded step is also written with whole tensors, as
            ``whole_step_<n>.npz`` in the directory. :class:`PortCheck` checks a port with it.
            PyNative mode only.
        whole_tensors_max_bytes: greatest size of one such file, in bytes. A larger step is not
            written, and a warning states its size.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: an argument cannot be used.

    Example:
        ``model.train(1, dataset, callbacks=[StepRecorder("runs/mindspore")])``
    """

    def __init__(
        self,
        summary_dir: str | os.PathLike[str],
        steps: int | Sequence[int] = 3,
        *,
        whole_tensors: bool = False,
        whole_tensors_max_bytes: int = DEFAULT_MAX_BYTES,
    ) -> None:
        super().__init__()
        directory = checked_directory("summary_dir", summary_dir)
        self._whole_directory = directory if checked_bool("whole_tensors", whole_tensors) else None
        self._max_bytes = positive_int("whole_tensors_max_bytes", whole_tensors_max_bytes)
        self._whole: CellTensors | None = None
        self._steps = recorded_steps(steps)
        self._record = RunRecorder(directory)
        self._rows: list[OutputRow] = output_rows(directory)
        self._numbers = {row.key: number for number, row in enumerate(self._rows)}
        self._descriptions: RowDescriptions[OutputRow] = RowDescriptions(
            self._record, OUTPUT_ROWS_FILE, encode_output_rows, self._rows
        )
        self._chain: CellChain | None = None
        self._count = 0
        self._has_failed = False

    # ---- a loop of one's own

    @contextlib.contextmanager
    def step(
        self, network: Any, optimizer: Any, batch: Any = ()
    ) -> Iterator[Callable[[Any], None]]:
        """Return a context that records a training step that you run without ``Model``.

        Args:
            network: the Cell that is trained.
            optimizer: the Cell that is called with the gradients.
            batch: what the step is computed from: tensors, or a tuple or dict of them.

        Yields:
            A function that takes the loss, once it is known.

        Example:
            .. code-block:: python

                with recorder.step(network, optimizer, (images, labels)) as loss_is:
                    loss, gradients = gradient_function(images, labels)
                    optimizer(gradients)
                    loss_is(loss)
        """
        self._count += 1
        if self._count in self._steps:
            self._begin(TrainedCells(network, optimizer, loss_scale_of(optimizer)), batch)
        try:
            yield self._guarded(self._add_loss)
        except BaseException:
            self._forget()
            raise
        self._end(self._count)

    # ---- Model.train calls these

    def on_train_step_begin(self, run_context: Any) -> None:
        """Record batch and weights, and watch the cells, if this step is to be recorded."""
        arguments = run_context.original_args()
        if arguments.cur_step_num in self._steps:
            self._guarded(self._begin_in_model)(arguments)

    def on_train_step_end(self, run_context: Any) -> None:
        """Record the loss and the weights, and write the step."""
        arguments = run_context.original_args()
        if self._chain is not None:
            self._guarded(self._add_loss)(arguments.net_outputs)
        self._end(arguments.cur_step_num)

    def on_train_end(self, run_context: Any) -> None:
        """Stop recording, and close the file."""
        self._forget()
        self._record.release()

    def _begin_in_model(self, arguments: Any) -> None:
        self._begin(trained_cells(arguments), arguments.get("train_dataset_element"))

    def _begin(self, trained: TrainedCells, batch: Any) -> None:
        chain = self._chain = CellChain(trained.network, trained.optimizer, self._guarded)
        self._guarded(chain.add_batch)(() if batch is None else batch)
        self._guarded(chain.add_weights)("weights")
        if mindspore.get_context("mode") == mindspore.GRAPH_MODE:
            self._record.policy.warnings.warn("graph mode", _GRAPH_MODE)
        else:
            self._guarded(chain.watch)()
            self._guarded(self._begin_whole)(trained, batch)

    def _begin_whole(self, trained: TrainedCells, batch: Any) -> None:
        if self._whole_directory is None:
            return
        writer = WholeStepWriter(self._whole_directory, self._max_bytes)
        whole = CellTensors(trained, writer, self._guarded)
        whole.add_batch(() if batch is None else batch)
        whole.add_weights()
        whole.watch()
        self._whole = whole

    def _add_loss(self, loss: Any) -> None:
        if self._chain is not None:
            self._chain.add_loss(loss)
        if self._whole is not None:
            self._whole.add_loss(loss)

    def _end(self, step: int) -> None:
        chain, whole = self._chain, self._whole
        if whole is not None:
            whole.remove()
            self._whole = None
            self._guarded(self._finish_whole)(step, whole)
        if chain is not None:
            self._forget()
            self._guarded(chain.add_weights)("update")
            self._guarded(self._write)(step, chain)

    def _finish_whole(self, step: int, whole: CellTensors) -> None:
        try:
            whole.finish(step)
        except ValueError as error:  # larger than whole_tensors_max_bytes
            self._record.policy.warnings.warn("whole_tensors_max_bytes", "%s", error)

    def _forget(self) -> None:
        if self._chain is not None:
            self._chain.remove()
        self._chain = None
        if self._whole is not None:
            self._whole.remove()
            self._whole.discard()
        self._whole = None

    def _write(self, step: int, chain: CellChain) -> None:
        taken = [(self._number_of(row), columns) for row, columns in chain.rows]
        table = np.full((len(self._rows), len(COLUMNS)), np.nan, np.float32)
        for order, (number, columns) in enumerate(taken):
            table[number] = [order, *columns]
        self._descriptions.add(self._rows)
        losses = [float(columns[2]) for row, columns in chain.rows if row.link == "loss"]
        self._record.write_values(
            step,
            [(OUTPUT_STATISTICS_TAG, Tensor(table)), *((_LOSS_TAG, loss) for loss in losses[:1])],
        )

    def _number_of(self, row: OutputRow) -> int:
        number = self._numbers.setdefault(row.key, len(self._rows))
        if number == len(self._rows):
            self._rows.append(row)
        return number

    def _guarded(self, take: Callable[..., None]) -> Callable[..., None]:
        """Wrap a function so that its errors are logged instead of raised."""

        @functools.wraps(take)
        def guarded(*args: Any) -> None:
            try:
                take(*args)
            except Exception as error:
                _LOG.log(
                    logging.DEBUG if self._has_failed else logging.WARNING,
                    "a part of the output statistics is not recorded: %s: %s",
                    type(error).__name__,
                    error,
                    exc_info=True,
                )
                self._has_failed = True

        return guarded
