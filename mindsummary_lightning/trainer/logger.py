"""``MindInsightLogger``: a Lightning logger whose files MindInsight shows.

Lightning's contract and nothing else: the collector decides which values are collected and when,
the `SummaryRecord` brings them into the files.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mindsummary_lightning.conversion.arguments import (
    check_export_options,
    checked_bool,
    checked_name,
    checked_path,
    checked_version,
    file_permissions,
    max_file_bytes,
    optional_module,
    refuse_file_in_the_way,
)
from mindsummary_lightning.conversion.arrays import at_least_1d
from mindsummary_lightning.conversion.histograms import to_histogram
from mindsummary_lightning.conversion.hyperparameters import flatten
from mindsummary_lightning.conversion.numeric import to_tensor
from mindsummary_lightning.conversion.user_images import (
    check_dataformats,
    figure_to_image,
    to_image,
)
from mindsummary_lightning.errors import closest
from mindsummary_lightning.recording.summary_record import SummaryRecord
from mindsummary_lightning.recording.tensorboard_api import (
    NO_EXAMPLE,
    NO_PAGE,
    call_of_other_tracker,
)
from mindsummary_lightning.recording.untraced import leave_calls_alone, untraced
from mindsummary_lightning.trainer.current_run import CurrentRun
from mindsummary_lightning.trainer.metric_scalars import (
    MetricScalars,
    checked_step,
    without_added_epoch,
)
from mindsummary_lightning.trainer.namespaces import (
    LoggerBase,
    rank_zero_experiment,
    rank_zero_only,
)
from mindsummary_lightning.trainer.run_version import run_directory
from mindsummary_lightning.trainer.trainer_frames import (
    calling_trainer,
    is_called_by_trainer,
    launching_trainer,
)
from mindsummary_lightning.trainer.trainer_state import transferred
from mindsummary_lightning.values import SummaryValue, UserDefinedInfo
from mindsummary_lightning.values.events import LineageValue
from mindsummary_lightning.values.text import utf8_text

# what a subclass may override to place its files
_PLACES = ("save_dir", "name", "version", "root_dir", "log_dir")


class MindInsightLogger(LoggerBase):
    """A Lightning logger that records a run for MindInsight.

    Files are in ``log_dir``: ``save_dir/name/version_<n>``, or ``save_dir/version`` with
    ``name=""`` and a text as version. MindInsight lists the base directory it is given and that
    directory's direct children, so give it ``root_dir`` (``mindsummary view`` finds it by itself).
    No file is made before the first value is logged; hyper-parameters wait for it.

    A run is one fit. A second fit through the same logger gets a version of its own, unless the
    version was given; one that resumes from a checkpoint of that run, or continues its Trainer's,
    stays in the run.

    Metrics become scalars under their own names, at the step Lightning gives; the ``epoch`` that
    Lightning adds to them does not. Hyper-parameters become custom lineage.
    Whatever Lightning or a user hands to :meth:`log_metrics` and :meth:`log_hyperparams` is
    converted or skipped with one warning; it never raises.

    Args:
        save_dir: local directory of all runs; ``~`` and environment variables are expanded.
        name: name of the experiment, a directory below it; ``""`` for none.
        version: number or name of this run; ``None`` takes the number after the highest
            ``version_<n>`` there.
        prefix: text put before the name of every value that a ``log_...`` method records, with a
            ``/`` between. The tags of :attr:`experiment` and of collectors stay as they are.
        sub_dir: directory below the version directory for this logger's files; MindInsight then
            needs the version directory as its base.
        max_file_size: bytes after which a new summary file is started; ``None``: never.
        export_options: ``{"tensor_format": "npy"}`` also saves recorded tensors as npy files;
            ``None``: not.
        raise_exception: raise when something cannot be written, instead of logging it and
            continuing.
        log_graph: record the model's computational graph when Lightning offers it with an
            ``example_input_array``.
        file_mode: permission bits of the files, ``0o600`` without it; ``0o640`` (in YAML
            ``"0o640"`` or ``"640"``) lets a MindInsight of the same group read them.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: an argument has a value that cannot be used.

    Example:
        >>> logger = MindInsightLogger("runs", name="digits", version="first")
        >>> os.path.relpath(logger.log_dir)
        'runs/digits/first'
    """

    def __init__(
        self,
        save_dir: str | os.PathLike[str] = ".",
        name: str | None = "lightning_logs",
        version: int | str | None = None,
        *,
        prefix: str = "",
        sub_dir: str | os.PathLike[str] | None = None,
        max_file_size: int | None = None,
        export_options: Mapping[str, str | None] | None = None,
        raise_exception: bool = False,
        log_graph: bool = True,
        file_mode: int | str = 0o600,
    ) -> None:
        super().__init__()
        leave_calls_alone()
        # Absolute: checkpoints, which Lightning puts there, lie with the values if the working
        # directory changes.
        self._save_dir = os.path.abspath(checked_path("save_dir", save_dir))
        if name is not None and not isinstance(name, str):
            raise TypeError(f"name must be a str or None, got {name!r}")
        self._name = name or ""
        if not isinstance(prefix, str):
            raise TypeError(f"prefix must be a str, got {prefix!r}")
        self._prefix = f"{utf8_text(prefix)}/" if prefix else ""
        self._scalars = MetricScalars(self._prefix)
        self._sub_dir = "" if sub_dir is None else checked_path("sub_dir", sub_dir)
        check_export_options(export_options)
        options = {
            "max_file_size": max_file_bytes(max_file_size),
            "export_options": export_options,
            "raise_exception": checked_bool("raise_exception", raise_exception),
            "file_mode": file_permissions(file_mode),
        }
        self._fit_run = CurrentRun(
            os.path.join(self._save_dir, self._name),
            checked_version(version),
            self._sub_dir,
            options,
        )
        changed = {
            name
            for name in _PLACES
            if getattr(type(self), name) is not getattr(MindInsightLogger, name)
        }
        self._is_placed_by_subclass = bool(changed)
        self._fit_run.version.is_given |= bool(changed & {"version", "log_dir"})
        self._log_graph = checked_bool("log_graph", log_graph)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(log_dir={self._run.directory!r})"

    # ---- where the run is

    @property
    def save_dir(self) -> str:
        """Return the absolute directory of all runs, with ``~`` and variables expanded."""
        return self._save_dir

    @property
    def name(self) -> str:
        """Return the name of the experiment; ``""`` if it has none."""
        return self._name

    @property
    def version(self) -> int | str:
        """Return the number or name of this run.

        Asking for a number reserves its directory, which goes if it stays empty.
        """
        if self._is_placed_by_subclass:
            self._fit_run.move_root(self.root_dir)
        return self._fit_run.version.tell()

    @property
    def root_dir(self) -> str:
        """Return the directory of all versions, for MindInsight's ``--summary-base-dir``."""
        return os.path.join(self.save_dir, self.name) if self.name else self.save_dir

    @property
    def log_dir(self) -> str:
        """Return the directory that contains this run's files.

        It is the version's directory in the root directory, also if a subclass names these.
        """
        return run_directory(self.root_dir, self.version, self._sub_dir)

    @property
    def _run(self) -> CurrentRun:
        if self._is_placed_by_subclass:
            self._fit_run.move_root(self.root_dir)
            self._fit_run.fix_directory(self.log_dir)
        return self._fit_run

    # ---- what Lightning calls

    @property
    @untraced
    def experiment(self) -> SummaryRecord:
        """Return the :class:`SummaryRecord` of this run.

        On ranks above zero the object does nothing.

        It answers TensorBoard's ``add_scalar``, ``add_histogram``, ``add_image`` and their kin too.
        """
        trainer = calling_trainer(self)
        if trainer is not None:  # before all hooks of setup, on every rank: here its call begins
            self._run.begin(trainer)
        return self._rank_zero_experiment

    @property
    @rank_zero_experiment
    def _rank_zero_experiment(self) -> SummaryRecord:
        refuse_file_in_the_way(self._run.directory)
        return self._run.record()

    @untraced
    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Record metrics as scalars, all in one event of the file.

        Args:
            metrics: names to numbers, tensors of one element, or mappings of these
                (``outer/inner``). What is not a number is skipped with one warning.
            step: the step they belong to; ``None`` takes the one after the last. Of a fraction the
                whole part is taken, and anything that is not a number skips the metrics; each with
                one warning.
        """
        # Hot path: neither the decorator nor `_record` where they are not needed.
        if getattr(rank_zero_only, "rank", None):
            return
        run = self._fit_run
        record = run.values_recorder or self._run.begin_values()
        pairs = self._scalars.pairs(without_added_epoch(metrics, self), record)
        number = checked_step(step, run.last_step, record)
        if number is None:
            return
        if number.bit_length() < 64:  # SummaryRecord skips the values of others
            run.last_step = number
        record.write_values(number, pairs)

    @untraced
    @rank_zero_only
    def log_hyperparams(
        self,
        params: Mapping[str, Any] | Namespace | None,
        metrics: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Record hyper-parameters in the lineage, together with the run's first value.

        They are flattened to ``outer/inner`` keys.

        Args:
            params: a mapping, ``Namespace``, dataclass or OmegaConf container; keys with a leading
                ``_`` are dropped.
            metrics: results to show beside them, as evaluation lineage; a single one is named
                ``hp_metric``. Those that are not one finite number are named in one warning.
            args: not used.
            kwargs: not used.
        """
        results: list[LineageValue] = []
        if metrics is not None:
            named = metrics if isinstance(metrics, Mapping) else {"hp_metric": metrics}
            results = self._run.recorder().metric_lineage("log_hyperparams", named)
        flat = flatten({} if params is None else params)
        if flat:
            self._run.add_hyperparameters(UserDefinedInfo(flat), is_called_by_trainer(self))
        elif (
            params is not None
            and not isinstance(params, Mapping)
            and not hasattr(params, "__dict__")
        ):
            error = TypeError(
                f"params must be a mapping, Namespace or dataclass, got {type(params).__name__}"
            )
            self._run.recorder().policy.skip("params of", "log_hyperparams", error)
        if results:
            self._run.recorder().write_lineage(*results)

    def save(self) -> None:
        """Do nothing, because every recording call writes to the file before it returns."""

    @untraced
    @rank_zero_only
    def finalize(self, status: str) -> None:
        """Record how the run ended and close its files; logging again opens them again.

        Args:
            status: Lightning's word: ``"success"``, ``"failed"`` or, before a SLURM requeue,
                ``"finished"``. Where a signal ended the fit, ``"interrupted"`` is recorded.
        """
        self._run.end(str(status), calling_trainer(self))

    # ---- graphs

    @untraced
    def log_graph(self, model: Any, input_array: Any = None) -> None:
        """Record the computational graph of a module, once.

        Args:
            model: any ``torch.nn.Module``.
            input_array: what its ``forward`` takes: a tensor, a tuple of positional or a dict of
                keyword arguments; ``None`` takes the module's ``example_input_array``. Within a
                Trainer it passes the module's hooks of batch transfer, as batches do. Without one a
                warning says that none is recorded.

        Raises:
            TypeError: ``model`` is not a module.
        """
        optional_module("model", model)
        self._record_graph(model, input_array)

    @rank_zero_only
    def _record_graph(self, model: Any, input_array: Any) -> None:
        example = (
            input_array if input_array is not None else getattr(model, "example_input_array", None)
        )
        if example is not None and self._log_graph:
            self._run.recorder().capture_graph(model, example, transferred)
        elif self._log_graph and not is_called_by_trainer(
            self
        ):  # a Trainer calls it at each fit, unasked
            self._run.recorder().policy.warnings.warn("no example", NO_EXAMPLE, "log_graph")

    # ---- images, figures, histograms, tensors

    @untraced
    @rank_zero_only
    def log_image(
        self,
        key: str,
        images: Iterable[Any],
        step: int | None = None,
        dataformats: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Record images.

        Args:
            key: the tag; several images get ``key/0``, ``key/1``, ...
            images: each an array or tensor (HW, HWC, CHW or NCHW; uint8 in 0..255 or floating in
                [0, 1]), a PIL image or the path of an image file.
            step: the step they belong to; ``None`` takes the last one logged.
            dataformats: layout of arrays, such as ``"CHW"``; ``None`` determines it where it is
                unambiguous.
            kwargs: options of other loggers (captions, masks); not used.

        An image that cannot be shown, or whose layout is ambiguous, is skipped with one warning.

        Raises:
            TypeError: ``images`` is not a list of images.
            ValueError: ``dataformats`` is not a layout.
        """
        name = checked_name(key)
        if (
            isinstance(images, (str, os.PathLike))
            or hasattr(images, "shape")
            or not isinstance(images, Iterable)
        ):
            raise TypeError(
                f"images must be a list of images, got {type(images).__name__}. Put a single "
                "image in a list"
            )
        check_dataformats(dataformats)
        batch = list(images)
        for index, image in enumerate(batch):
            tag = name if len(batch) == 1 else f"{name}/{index}"
            self._write("image", tag, step, to_image, image, dataformats)

    @untraced
    @rank_zero_only
    def log_histogram(self, key: str, values: Any, step: int | None = None) -> None:
        """Record the histogram of a number, tensor or array.

        ``step`` is as in :meth:`log_image`.
        """
        self._write(
            "histogram",
            checked_name(key),
            step,
            lambda values: to_histogram(at_least_1d(values)),
            values,
        )

    @untraced
    @rank_zero_only
    def log_tensor(self, key: str, tensor: Any, step: int | None = None) -> None:
        """Record all elements of a number, tensor or array.

        ``step`` is as in :meth:`log_image`.
        """
        self._write(
            "tensor", checked_name(key), step, lambda tensor: to_tensor(at_least_1d(tensor)), tensor
        )

    @untraced
    @rank_zero_only
    def log_figure(self, key: str, figure: Any, step: int | None = None) -> None:
        """Record a Matplotlib figure as an image; the figure stays open.

        ``step`` is as in :meth:`log_image`.
        """
        self._write("figure", checked_name(key), step, figure_to_image, figure)

    def _write(
        self,
        kind: str,
        tag: str,
        step: int | None,
        convert: Callable[..., SummaryValue],
        *arguments: Any,
    ) -> None:
        record, tag = self._run.recorder(), self._prefix + tag
        value = record.policy.converted(kind, tag, convert, *arguments)
        if value is not None:
            number = max(self._run.last_step, 0) if step is None else checked_step(step, 0, record)
            if number is not None:
                record.write_values(number, [(tag, value)])

    if not TYPE_CHECKING:  # it would make every name known

        def __getattr__(self, name: str) -> Any:
            # what Lightning calls of a callback before it trains
            if name in ("setup", "on_exception"):
                raise TypeError(
                    "a callback must be a Callback, got a MindInsightLogger. Give it as logger=..."
                )
            if name in ("log_text", "log_table"):  # as ``experiment.add_text``
                return rank_zero_only(
                    lambda *_, **__: self._run.recorder().policy.warnings.warn(name, NO_PAGE, name)
                )
            alike = "" if name.startswith("_") else closest(name, dir(type(self)))
            alike = call_of_other_tracker(name) or alike
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{alike}")


def _launch_by_fork() -> None:
    """Let a Trainer's loggers choose their runs before the Trainer forks processes."""
    trainer = launching_trainer()
    for logger in getattr(trainer, "loggers", ()):
        if isinstance(logger, MindInsightLogger):
            logger._run.launch(trainer)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_launch_by_fork)
