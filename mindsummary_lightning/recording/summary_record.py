"""Record values from custom training loops and through ``logger.experiment``.

This module imports neither torch nor Lightning. ``run_recorder`` writes the values into files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Literal

from mindsummary_lightning.conversion.arguments import (
    check_export_options,
    checked_bool,
    checked_directory,
    drops_num_process,
    file_permissions,
    int64,
    max_file_bytes,
    natural_int,
    optional_module,
    optional_seconds,
)
from mindsummary_lightning.fileformat.file_names import (
    DEFAULT_PREFIX,
    DEFAULT_SUFFIX,
    check_prefix_and_suffix,
)
from mindsummary_lightning.recording.event_files import FileOptions
from mindsummary_lightning.recording.pending_values import LINEAGE_PLUGINS, PendingValues, Plugin
from mindsummary_lightning.recording.run_recorder import RunRecorder
from mindsummary_lightning.recording.tensorboard_api import TensorBoardMethods
from mindsummary_lightning.recording.untraced import untraced
from mindsummary_lightning.values import SummaryValue
from mindsummary_lightning.values.text import listed


class SummaryRecord(TensorBoardMethods):
    """A recorder that writes values into a run directory for MindInsight.

    Every call of :meth:`record` writes its values completely before it returns, so you lose no
    values if you do not close the record. No thread or process is started. You may open any number
    of records; two records of one directory share its files. No file is created before the first
    value.

    Args:
        log_dir: the run directory; created with the first value.
        file_prefix: first part of the file names.
        file_suffix: last part of the summary file's name; the lineage file always ends in
            ``_lineage``.
        network: a ``torch.nn.Module`` whose computational graph is recorded at the first
            :meth:`record`; needs ``example_input``.
        max_file_size: bytes after which a new summary file is started, at least 1; ``None``: never.
        raise_exception: raise when a value cannot be recorded, instead of logging that and
            continuing.
        export_options: ``{"tensor_format": "npy"}`` saves each recorded tensor to
            ``<log_dir>/export_<seconds>/tensor/<percent-quoted tag>_<step>.npy`` too; ``None``: no
            export.
        num_process: MindSpore's number of writer processes; accepted and ignored, because none are
            needed. An int after ``file_suffix``, its position in MindSpore 2, is ignored too.
        example_input: what ``network`` is called with to capture its graph: a tensor, a tuple of
            positional arguments or a dict of keyword arguments.
        file_mode: permission bits of the files, ``0o600`` without it; ``0o640`` (in YAML
            ``"0o640"`` or ``"640"``) lets a MindInsight of the same group read them.
        fsync_secs: fsync the file when this many seconds have passed; ``None`` leaves it to the
            system, and a power cut may then cost the last seconds, never a complete file.
        free_space_factor: refuse records of 64 KiB and more unless the disk has this many times
            their size free (MindSpore's guard); 0 turns it off.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: an argument has a value that cannot be used.

    Example:
        >>> import tempfile
        >>> with SummaryRecord(tempfile.mkdtemp()) as record:
        ...     record.add_value("scalar", "loss", 0.25)
        ...     record.record(step=1)
        True
    """

    @drops_num_process(position=4)
    def __init__(
        self,
        log_dir: str | os.PathLike[str],
        file_prefix: str = DEFAULT_PREFIX,
        file_suffix: str = DEFAULT_SUFFIX,
        network: Any = None,
        max_file_size: int | None = None,
        raise_exception: bool = False,
        export_options: Mapping[str, str | None] | None = None,
        *,
        num_process: int | None = None,
        example_input: Any = None,
        file_mode: int | str = 0o600,
        fsync_secs: float | None = None,
        free_space_factor: int = 32,
    ) -> None:
        directory = checked_directory("log_dir", log_dir)
        check_prefix_and_suffix(file_prefix, file_suffix)
        checked_bool("raise_exception", raise_exception)
        exports_tensors = check_export_options(export_options)
        options = FileOptions(
            prefix=file_prefix,
            suffix=file_suffix,
            max_file_size=max_file_bytes(max_file_size),
            mode=file_permissions(file_mode),
            fsync_secs=optional_seconds("fsync_secs", fsync_secs),
            free_space_factor=natural_int("free_space_factor", free_space_factor),
        )
        recorder = RunRecorder(
            directory, options, raise_exception=raise_exception, exports_tensors=exports_tensors
        )
        super().__init__(recorder)
        self._network = optional_module("network", network)
        self._example_input = example_input
        self._has_tried_graph = False
        self._mode: Literal["train", "eval"] = "train"
        self._pending = PendingValues(recorder)
        self._pending.take_operators(True)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.directory!r})"

    # ---- MindSpore's interface

    @property
    def log_dir(self) -> str:
        """Return the full path of the summary file, also before the first value.

        The path of the directory is :attr:`run_dir`.
        """
        return self._recorder.summary_path

    @property
    def run_dir(self) -> str:
        """Return the full path of the run directory."""
        return self._recorder.directory

    @property
    def directory(self) -> str:
        """Return the full path of the run directory, as :attr:`run_dir` does."""
        return self._recorder.directory

    @property
    def mode(self) -> Literal["train", "eval"]:
        """Return the phase that :meth:`set_mode` set last: ``"train"`` or ``"eval"``."""
        return self._mode

    @untraced
    def set_mode(self, mode: Literal["train", "eval"]) -> None:
        """Set the phase of the network: ``"train"`` or ``"eval"``.

        In phase ``"eval"`` the values of summary operators are dropped.

        Args:
            mode: ``"train"`` or ``"eval"``.

        Raises:
            ValueError: it is neither.
        """
        if mode not in ("train", "eval"):
            raise ValueError(f"mode must be 'train' or 'eval', got {mode!r}")
        self._mode = mode
        self._pending.take_operators(mode == "train" and not self._recorder.is_closed)

    @untraced
    def add_value(self, plugin: Plugin, name: str, value: Any) -> None:
        """Add a value that the next call of :meth:`record` writes.

        Args:
            plugin: ``scalar``, ``image``, ``tensor``, ``histogram``, ``graph``, ``train_lineage``,
                ``eval_lineage``, ``dataset_graph``, ``custom_lineage_data`` or ``LANDSCAPE``.
            name: the tag, not empty; if two values have the same name, the newest is recorded.
            value: for the first four plugins a ``torch.Tensor``, ``numpy.ndarray`` or Python
                number: of size 1 (scalar), of shape ``(N, C, H, W)`` with C 1 or 3 (image), of at
                least one dimension (tensor, histogram). For the other plugins an object of
                ``mindsummary_lightning.values`` (``Graph``, ``TrainInfo``, ``EvaluationInfo``,
                ``DatasetGraph``, ``UserDefinedInfo`` or a dict, ``LossLandscape``). The value is
                copied; later changes to it are not recorded.

        Raises:
            TypeError: ``name`` is not a str, or ``value`` is not of a type that the plugin takes.
            ValueError: ``plugin`` is unknown, ``name`` is empty or ``value`` has the wrong shape or
                a number that would break MindInsight.
            RecordTooLargeError: the tensor has more elements than MindInsight reads and
                ``raise_exception`` is set; otherwise it is skipped with one warning.
        """
        self._pending.add(plugin, name, value)

    @untraced
    def record(
        self,
        step: int,
        train_network: Any = None,
        plugin_filter: Callable[[str], bool] | None = None,
    ) -> bool:
        """Write all values added since the last call, as values of step ``step``.

        In phase ``"train"`` the values of summary operators are written too.

        If a summary operator gave several values since the last call, the newest is recorded. While
        a SummaryCollector collects a step, it gets the values of operators instead.

        Args:
            step: the step the values belong to.
            train_network: a ``torch.nn.Module`` whose graph is recorded if the constructor got no
                ``network``; needs its ``example_input``.
            plugin_filter: called with each plugin's name; the values of those it refuses are
                dropped.

        Returns:
            True if everything is in the files; False after :meth:`close` or when something could
            not be written.

        Raises:
            TypeError: ``step`` is not an int, ``train_network`` not a module or ``plugin_filter``
                not callable.
            ValueError: ``step`` does not fit 64 bits.
            OSError, RuntimeError: something could not be written and ``raise_exception`` is set.
        """
        int64("step", step)
        optional_module("train_network", train_network)
        if plugin_filter is not None and not callable(plugin_filter):
            raise TypeError(f"plugin_filter must be callable or None, got {plugin_filter!r}")
        values, originals, is_done = self._pending.take(plugin_filter, self._mode == "train")
        if self._recorder.is_closed:
            for _, tag, _ in values:
                self._recorder.policy.skip_closed(repr(tag), f" at step {step}")
            return False
        is_done &= self._capture_graph(train_network)
        pairs: list[tuple[str, SummaryValue]] = []
        for plugin, tag, value in values:
            if plugin in LINEAGE_PLUGINS:
                is_done &= self._recorder.write_lineage(value)
            elif plugin == "graph":
                is_done &= self._recorder.write_graph(value)
            else:
                pairs.append((tag, value))
        return self._recorder.write_values(step, pairs, originals) and is_done

    @untraced
    def flush(self) -> None:
        """Wait until all recorded values are on the disk (fsync).

        Raises:
            OSError: it failed and ``raise_exception`` is set.
        """
        self._recorder.sync()

    @untraced
    def close(self) -> None:
        """Close the files; a second call does nothing.

        The number of lost records is logged, if there are any.

        Values that wait for :meth:`record` are not recorded, with one warning.

        Raises:
            OSError: the file system reports only now that something is lost, and
                ``raise_exception`` is set.
        """
        self._pending.take_operators(False)
        names = self._pending.drop()
        if names:
            text = (
                "close() was called before record(): %s of %s is not recorded. Call record(step) "
                "after add_value()"
            )
            self._recorder.policy.warnings.warn(
                "pending", text, listed(list(map(repr, names)), 3), self.directory
            )
        self._recorder.close()

    def __enter__(self) -> SummaryRecord:
        if self._recorder.is_closed:
            raise ValueError(f"the SummaryRecord of {self.directory} is closed. Make a new record")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _capture_graph(self, train_network: Any) -> bool:
        """Capture the network's graph at the first call; return False if this fails.

        ``train_network`` is used if the constructor got no network.
        """
        network = self._network if self._network is not None else train_network
        if network is None or self._has_tried_graph:
            return True
        self._has_tried_graph = True
        if self._example_input is None:
            text = (
                "the network's graph is not recorded, because SummaryRecord got no example_input. "
                "Pass example_input=..."
            )
            self._recorder.policy.warnings.warn("no example", text)
            return True
        return self._recorder.capture_graph(network, self._example_input)

    def __getstate__(self) -> dict[str, Any]:
        # A copy, in this process or another, opens nothing until it records; the network stays with
        # the original.
        return {**self.__dict__, "_network": None, "_example_input": None, "_pending": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = {**state, "_pending": PendingValues(state["_recorder"])}
        self.set_mode(self._mode)  # with values of summary operators, as the original


def recorder_of(record: SummaryRecord) -> RunRecorder:
    """Return the ``RunRecorder`` through which a ``SummaryRecord`` writes."""
    return record._recorder
