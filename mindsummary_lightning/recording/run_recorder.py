"""Record the values, computational graphs and lineage of a run.

``SummaryRecord`` is the interface for users; the rest of the package calls this module directly.
Lineage is a run's settings and results.
"""

from __future__ import annotations

import functools
import time
import weakref
from collections.abc import Callable, Collection, Mapping
from typing import Any

from numpy.typing import NDArray

from mindsummary_lightning.conversion.flattening import leaves
from mindsummary_lightning.conversion.numeric import finite_metrics, metric_json
from mindsummary_lightning.errors import GraphCaptureError
from mindsummary_lightning.recording.event_files import FileOptions
from mindsummary_lightning.recording.event_writer import EventWriter, shared_event_writer
from mindsummary_lightning.recording.failure_policy import WRITE_ERRORS, FailurePolicy
from mindsummary_lightning.recording.npy_export import TensorExport
from mindsummary_lightning.recording.retries import UnsyncedError
from mindsummary_lightning.recording.untraced import leave_calls_alone
from mindsummary_lightning.values import EvaluationInfo, Graph, SummaryValue, check_recordable
from mindsummary_lightning.values.events import LineageValue


class RunRecorder:
    """A recorder of values, graphs and lineage into a run directory.

    It creates no file before the first value. Two recorders of one directory share its writer.

    Every method that writes returns whether everything is in the file. In a signal handler that
    interrupted another call to this run's writer, the result is False: the interrupted call writes
    the queued value at its end. Failures are raised with ``raise_exception`` and else logged.

    Attributes:
        directory: the run directory, absolute; need not exist.
        options: how its files are created.
        policy: what happens to a value that cannot be recorded.
        has_recorded: whether anything was recorded through this object.
        is_closed: whether :meth:`close` was called; nothing is recorded after it.
        is_reopened: whether a value after :meth:`close` continues the same run instead.
    """

    def __init__(
        self,
        directory: str,
        options: FileOptions | None = None,
        *,
        raise_exception: bool = False,
        exports_tensors: bool = False,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        leave_calls_alone()
        self.directory = directory
        self.options: FileOptions = options or FileOptions()
        self.policy: FailurePolicy = FailurePolicy(directory, raise_exception, timer)
        self._timer = timer
        self.has_recorded: bool = False
        self.is_closed: bool = False
        self.is_reopened = False
        self._export = (
            TensorExport(self.policy, directory, self.options.mode) if exports_tensors else None
        )
        self._deferred_lineage: list[LineageValue] = []
        self._has_graph = False
        self._writer: EventWriter | None = None
        self._finalizer: weakref.finalize[..., RunRecorder] | None = None

    @property
    def summary_path(self) -> str:
        """Return the full path of the summary file, also before it exists."""
        return self._acquire().summary_path

    @property
    def exports_tensors(self) -> bool:
        """Tell whether recorded tensors are also saved as ``.npy`` files."""
        return self._export is not None

    def write_values(
        self,
        step: int,
        values: Collection[tuple[str, SummaryValue]],
        originals: Mapping[str, NDArray[Any]] | None = None,
    ) -> bool:
        """Write the values of a step immediately, in one event if the format allows it.

        A scalar is a ``float``.

        ``originals`` maps tags to arrays in the dtype of the recorded tensor, for the npy export.
        Tensors without an entry are exported as float32.
        """
        if not values:
            return True
        if self.is_closed:
            for tag, _ in values:
                self.policy.skip_closed(repr(tag), f" at step {step}")
            return False
        is_done = self._export is None or self._export.save_all(step, values, originals)
        if not -(2**63) <= step < 2**63:
            self.policy.warnings.warn(
                "step", "step must fit 64 bits, got %d. Its values are skipped", step
            )
            return False
        if self._deferred_lineage:
            self.write_deferred_lineage()
        try:  # not through _attempt: this is the hot path
            is_written = (self._writer or self._acquire()).write_values(step, values)
        except UnsyncedError as error:
            self.policy.unconfirmed(error)
            is_written = True
        except WRITE_ERRORS as error:
            self.policy.write_failed("values", error)
            return False
        if not self.has_recorded:
            self.has_recorded = True
            # of a signal handler that came before anything was recorded
            self.write_deferred_lineage()
        return is_done and is_written

    def write_graph(self, graph: Graph) -> bool:
        """Write a computational graph to the summary file immediately."""
        self.write_deferred_lineage()
        is_done = self._attempt("the graph", self._acquire().write_graph, graph)
        self.write_deferred_lineage()  # of a signal handler
        return is_done

    def capture_graph(
        self,
        network: Any,
        example: Any,
        prepare: Callable[[Any, Any], Any] = lambda network, example: example,
    ) -> bool:
        """Capture the computational graph of a ``torch.nn.Module`` and write it, once.

        If the graph cannot be captured, the reason is logged.

        ``prepare(network, example)`` returns the arguments with which the network is called.

        Returns whether the graph is in the file, now or since an earlier call.
        """
        # The only import that brings torch, and only when asked for: docs/decisions/0017.
        from mindsummary_lightning.graph.capture import capture_example

        if not self._has_graph:
            try:
                self._has_graph = self.write_graph(capture_example(network, example, prepare))
            except GraphCaptureError as error:
                self.policy.warnings.warn(
                    "graph", "the computational graph is not recorded: %s", error
                )
            except MemoryError as error:
                self.policy.write_failed("the graph", error)
        return self._has_graph

    def write_lineage(self, *values: LineageValue, replaced: Collection[str] = ()) -> bool:
        """Write lineage values immediately, by replacing the lineage file once.

        Without values nothing is written.

        ``replaced`` names custom data that are removed from the file, unless the values contain
        them.

        Raises:
            ValueError: a value would break MindInsight.
        """
        for value in values:
            check_recordable(value)
        if not values:
            return True
        values = (*self._take_deferred_lineage(), *values)
        write: Callable[..., bool] = self._acquire().write_lineage
        if replaced:
            write = functools.partial(self._acquire().replace_custom, frozenset(replaced))
        is_done = self._attempt("lineage", self.policy.call_in_reach, write, *values)
        if self._deferred_lineage:  # of a signal handler
            self.write_deferred_lineage()
        return is_done

    def metric_lineage(self, call: str, metrics: Mapping[Any, Any]) -> list[LineageValue]:
        """Return a dict of metrics as the lineage of an evaluation.

        A warning names the metrics that are not a single finite number, and ``call``, to which the
        user passed them.
        """
        numbers = finite_metrics(metrics)
        lost = ", ".join(repr(name) for name, _ in leaves(metrics) if name not in numbers)
        if lost:
            self.policy.skip(
                f"metric {lost} of",
                call,
                ValueError("a metric in the lineage must be a single finite number"),
            )
        return [EvaluationInfo(metric=metric_json(numbers))] if numbers else []

    def defer_lineage(self, value: LineageValue) -> None:
        """Keep a lineage value until the next value is written.

        If no value follows, the lineage value is not recorded either.

        Raises the errors of :meth:`write_lineage`.
        """
        check_recordable(value)
        self._deferred_lineage.append(value)

    def write_deferred_lineage(self) -> None:
        """Write the lineage values that :meth:`defer_lineage` has kept."""
        self.write_lineage(*self._take_deferred_lineage())

    def write_ready_lineage(self) -> None:
        """Write the deferred lineage immediately, if the run has recorded a value."""
        if self.has_recorded:
            self.write_deferred_lineage()

    def _take_deferred_lineage(self) -> list[LineageValue]:
        values, self._deferred_lineage = self._deferred_lineage, []
        return values

    def discard_deferred_lineage(self) -> None:
        """Discard the deferred lineage of a fit or test that has recorded nothing."""
        self._take_deferred_lineage()

    def begin_file(self, is_new_run: bool = False) -> None:
        """Start a new summary file with the next value.

        From the step of that value on, MindInsight drops the values of older files.

        ``is_new_run``: start a new lineage file too, for which MindInsight drops all older lineage
        files.
        """
        self._attempt("a new file", self._acquire().begin_file, is_new_run)

    def continue_file(self) -> None:
        """Append the next value to the newest summary file, if it can be continued."""
        self.policy.attempt("the newest file", self._acquire().continue_file)

    def sync(self) -> None:
        """Wait until all recorded values are on the disk (fsync)."""
        if self._writer is not None:
            self._attempt("flush", self._writer.sync)

    def release(self) -> None:
        """Close the files until the next value.

        The number of lost records is logged if it has grown.
        """
        self.policy.attempt("the end of the run", self._release)
        if self._export is not None:
            self.policy.records_missing(self._export.take_losses())
        self.policy.log_total()

    def close(self) -> None:
        """Close the files, for good unless ``is_reopened``; a second call does nothing."""
        self.is_closed = not self.is_reopened
        self.release()

    def _attempt(self, what: str, action: Callable[..., bool | None], *arguments: Any) -> bool:
        if self.is_closed:
            self.policy.skip_closed(what)
        is_done = not self.is_closed and self.policy.attempt(what, action, *arguments)
        self.has_recorded |= is_done
        return is_done

    def _acquire(self) -> EventWriter:
        writer = self._writer
        if writer is None:
            writer = shared_event_writer(self.directory, self.options, self, self._timer)
            # A recorder that is dropped without close() keeps no file open.
            finalizer = weakref.finalize(self, writer.release_when_free)
            finalizer.atexit = False
            self._finalizer, self._writer = finalizer, writer
        return writer

    def _release(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            if self._finalizer is not None:
                self._finalizer.detach()
            try:
                writer.release(self)
            except OSError as error:
                raise UnsyncedError(error.errno, error.strerror, error.filename) from error
            finally:
                self.policy.records_missing(writer.take_losses())

    def __getstate__(self) -> dict[str, Any]:
        # A copy, in this process or another, opens nothing until it records.
        return {**self.__dict__, "_writer": None, "_finalizer": None}
