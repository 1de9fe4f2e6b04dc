"""``MindInsightLogger``: what Lightning logs, as files that MindInsight shows.

Lightning's contract and nothing else: which values are collected, and when, is the collector's business; how they reach
the file is the SummaryRecord's.
"""

from __future__ import annotations

import contextlib
import os
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mindsummary_lightning.conversion.arguments import (
    check_export_options,
    check_flag,
    check_network,
    checked,
    checked_name,
)
from mindsummary_lightning.conversion.flattening import leaves
from mindsummary_lightning.conversion.histograms import to_histogram
from mindsummary_lightning.conversion.hyperparameters import flatten
from mindsummary_lightning.conversion.metrics import finite_metrics, metric_json
from mindsummary_lightning.conversion.numeric import to_scalar, to_tensor
from mindsummary_lightning.conversion.user_images import check_dataformats, figure_to_image, to_image
from mindsummary_lightning.recording.summary_record import SummaryRecord
from mindsummary_lightning.trainer.namespaces import (
    LoggerBase,
    current_rank,
    rank_zero_experiment,
    rank_zero_info,
    rank_zero_only,
    serve_log_dir,
)
from mindsummary_lightning.trainer.version_numbers import next_version
from mindsummary_lightning.values import EvaluationInfo, SummaryValue, UserDefinedInfo
from mindsummary_lightning.values.text import utf8_text

__all__ = ["MindInsightLogger"]

_EXACT = 2**53  # ints below it are floats


@serve_log_dir
class MindInsightLogger(LoggerBase):
    """Records a Lightning run for MindInsight.

    Files lie in ``log_dir``: ``save_dir/name/version_<n>``, or ``save_dir/version`` with ``name=""`` and a text as
    version. MindInsight lists the base directory it is given and that directory's direct children, so give it
    ``root_dir`` (``mindsummary view`` finds it by itself). Nothing is made before the first value is logged.

    Metrics become scalars under their own names, at the step Lightning gives. Hyper-parameters become custom lineage.
    Whatever Lightning or a user hands to :meth:`log_metrics` and :meth:`log_hyperparams` is converted or left out with
    one warning; it never raises.

    Args:
        save_dir: directory of all runs; ``~`` and environment variables are filled in.
        name: name of the experiment, a directory below it; ``""`` for none.
        version: number or name of this run; ``None`` takes the number after the highest ``version_<n>`` there.
        prefix: text put before every metric's name, with a ``/`` between.
        sub_dir: directory below the version directory for this logger's files; MindInsight then needs the version
            directory as its base.
        max_file_size: bytes after which a new summary file is begun; ``None``: never.
        export_options: ``{"tensor_format": "npy"}`` also saves recorded tensors as npy files; ``None``: not.
        raise_exception: raise when something cannot be written, instead of logging it and training on.
        log_graph: record the model's computational graph when Lightning offers it with an ``example_input_array``.
        file_mode: permission bits of the files; ``0o640`` lets a MindInsight of the same group read them.

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
        file_mode: int = 0o600,
    ) -> None:
        super().__init__()
        self._save_dir = _checked_path("save_dir", save_dir)
        if name is not None and not isinstance(name, str):
            raise TypeError(f"name must be a str or None, not {name!r}")
        self._name = name or ""
        self._version = _checked_version(version)
        if not isinstance(prefix, str):
            raise TypeError(f"prefix must be a str, not {prefix!r}")
        self._prefix = utf8_text(prefix)
        self._sub_dir = None if sub_dir is None else _checked_path("sub_dir", sub_dir)
        checked("max_file_size", max_file_size)
        check_export_options(export_options)
        check_flag("raise_exception", raise_exception)
        check_flag("log_graph", log_graph)
        self._record_options: dict[str, Any] = {
            "max_file_size": max_file_size,
            "export_options": export_options,
            "raise_exception": raise_exception,
            "file_mode": checked("file_mode", file_mode),
        }
        self._log_graph = log_graph
        self._graph_is_logged = False
        self._experiment: SummaryRecord | None = None
        self._last_step = -1
        self._tags: dict[str, str] = {}
        self._is_shown = False

    # ---- where the run is

    @property
    def save_dir(self) -> str:
        """Directory of all runs, as given, with ``~`` and variables filled in."""
        return self._save_dir

    @property
    def name(self) -> str:
        """Name of the experiment; ``""`` if it has none."""
        return self._name

    @property
    def version(self) -> int | str:
        """Number or name of this run, the same on every rank; decided when first asked for."""
        if self._version is None:
            self._version = next_version(self.root_dir, current_rank())
        return self._version

    def adopt_version(self, version: int | str) -> None:
        """Take the version that rank zero decided; for the collector, which can ask it."""
        self._version = version

    @property
    def root_dir(self) -> str:
        """Directory of all versions, which is what MindInsight's ``--summary-base-dir`` should be."""
        return os.path.join(self._save_dir, self._name) if self._name else self._save_dir

    @property
    def log_dir(self) -> str:
        """Directory of this run's files."""
        version = f"version_{self.version}" if isinstance(self.version, int) else self.version
        return os.path.join(self.root_dir, version, self._sub_dir or "").rstrip(os.sep)

    # ---- what Lightning calls

    @property
    @rank_zero_experiment
    def experiment(self) -> SummaryRecord:
        """The :class:`SummaryRecord` of this run; on ranks above zero an object that does nothing.

        It answers TensorBoard's ``add_scalar``, ``add_histogram``, ``add_image`` and their kin too.
        """
        if self._experiment is None:
            self._experiment = SummaryRecord(self.log_dir, **self._record_options)
            self._experiment.set_mode("eval")  # values of summary operators are the collector's
        return self._experiment

    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Record numbers as scalars, in one event.

        Args:
            metrics: names to numbers, tensors of one element, or mappings of these (``outer/inner``). What is no
                number is left out with one warning.
            step: the step they belong to; ``None`` takes the one after the last.
        """
        # Not by the decorator, and not through the property below where it is not needed: a training loop waits.
        if getattr(rank_zero_only, "rank", None):
            return
        tags = self._tags
        pairs: list[tuple[str, SummaryValue]] = []
        for name, value in metrics.items() if type(metrics) is dict else self._items(metrics):
            kind = type(value)
            if name in tags and (kind is float or (kind is int and -_EXACT < value < _EXACT)):
                pairs.append((tags[name], float(value)))
            else:
                pairs.extend(self._scalars(name, value))
        number = self._checked_step(step)
        if number.bit_length() < 64:  # SummaryRecord skips the values of others
            self._last_step = number
        (self._experiment or self.experiment).write_values(number, pairs)

    @rank_zero_only
    def log_hyperparams(
        self, params: Mapping[str, Any] | Namespace | None, metrics: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        """Record hyper-parameters as custom lineage, flattened to ``outer/inner`` keys.

        Args:
            params: a mapping, ``Namespace``, dataclass or OmegaConf container; keys with a leading ``_`` are dropped.
            metrics: results to show beside them, as evaluation lineage.
            args: not used.
            kwargs: not used.
        """
        flat = flatten({} if params is None else params)
        if flat:
            self.experiment.write_lineage(UserDefinedInfo(flat))
        results = finite_metrics(metrics) if isinstance(metrics, Mapping) else {}
        if results:
            self.experiment.write_lineage(EvaluationInfo(metric=metric_json(results)))

    def save(self) -> None:
        """Do nothing: every record is in its file when the call that made it returns."""

    @rank_zero_only
    def finalize(self, status: str) -> None:
        """Record how the run ended and let go of the files; logging again opens them again.

        Args:
            status: Lightning's word: ``"success"``, ``"failed"`` or, before a SLURM requeue, ``"finished"``.
        """
        if self._experiment is None:
            return
        if self._experiment.has_recorded:
            self._experiment.write_lineage(UserDefinedInfo({"status": str(status)}))
            self._show_where()
        if status != "finished":  # a SLURM requeue: training may go on until the job is killed
            self._experiment.release()

    # ---- more than numbers

    @rank_zero_only
    def log_image(
        self, key: str, images: Iterable[Any], step: int | None = None, dataformats: str | None = None, **kwargs: Any
    ) -> None:
        """Record pictures.

        Args:
            key: the tag; several pictures get ``key/0``, ``key/1``, ...
            images: pictures, each an array or tensor (HW, HWC, CHW or NCHW; uint8 in 0..255 or floating in [0, 1]), a
                PIL image or the path of a picture file.
            step: the step they belong to; ``None`` takes the last one logged.
            dataformats: layout of arrays, such as ``"CHW"``; ``None`` finds out where that is unambiguous.
            kwargs: options of other loggers (captions, masks); not used.

        An image that cannot be shown, or whose layout is ambiguous, is skipped with one warning.

        Raises:
            TypeError: ``images`` is not a list of images.
            ValueError: ``dataformats`` is not a layout.
        """
        name = checked_name(key)
        if isinstance(images, (str, os.PathLike)) or hasattr(images, "shape") or not isinstance(images, Iterable):
            raise TypeError(
                f"images must be a list of pictures, not {type(images).__name__}; put a single one in a list"
            )
        check_dataformats(dataformats)
        batch = list(images)
        for index, image in enumerate(batch):
            tag = name if len(batch) == 1 else f"{name}/{index}"
            self._write("image", tag, step, to_image, image, dataformats)

    @rank_zero_only
    def log_histogram(self, key: str, values: Any, step: int | None = None) -> None:
        """Record the distribution of a tensor or array of at least one dimension; ``step`` as in :meth:`log_image`."""
        self._write("histogram", checked_name(key), step, to_histogram, values)

    @rank_zero_only
    def log_tensor(self, key: str, tensor: Any, step: int | None = None) -> None:
        """Record a tensor or array, element by element, of at least one dimension; ``step`` as in :meth:`log_image`."""
        self._write("tensor", checked_name(key), step, to_tensor, tensor)

    @rank_zero_only
    def log_figure(self, key: str, figure: Any, step: int | None = None) -> None:
        """Record a Matplotlib figure as a picture; it stays open. ``step`` as in :meth:`log_image`."""
        self._write("figure", checked_name(key), step, figure_to_image, figure)

    @rank_zero_only
    def log_graph(self, model: Any, input_array: Any = None) -> None:
        """Record the computational graph of a module, once.

        Args:
            model: any ``torch.nn.Module``.
            input_array: what its ``forward`` takes: a tensor, a tuple of positional or a dict of keyword arguments;
                ``None`` takes the module's ``example_input_array``, and without one does nothing.

        Raises:
            TypeError: ``model`` is no module.
        """
        check_network("model", model)
        if self._graph_is_logged or not self._log_graph:
            return
        example = input_array if input_array is not None else getattr(model, "example_input_array", None)
        if example is not None:
            self._graph_is_logged = self.experiment.capture_graph(model, example)

    def _write(
        self, kind: str, tag: str, step: int | None, convert: Callable[..., SummaryValue], *arguments: Any
    ) -> None:
        value = self.experiment.converted(kind, tag, convert, *arguments)
        if value is not None:
            number = max(self._last_step, 0) if step is None else self._checked_step(step)
            self.experiment.write_values(number, [(tag, value)])

    def _items(self, metrics: Any) -> Iterable[tuple[Any, Any]]:
        return self.experiment.converted("metrics of", "log_metrics", lambda: dict(metrics).items()) or []

    def _scalars(self, name: Any, value: Any) -> list[tuple[str, SummaryValue]]:
        pairs: list[tuple[str, SummaryValue]] = []
        for key, leaf in leaves({name: value}):
            tag = f"{self._prefix}/{key}" if self._prefix else key
            number = self.experiment.converted("metric", tag, to_scalar, leaf, per_tag=True)
            if number is not None:
                pairs.append((tag, number))
                if key == name:
                    self._tags[key] = tag
        return pairs

    def _checked_step(self, step: Any) -> int:
        if type(step) is int:
            return step
        with contextlib.suppress(TypeError, ValueError, OverflowError, RuntimeError):
            return int(step)
        return self._last_step + 1

    def _show_where(self) -> None:
        if not self._is_shown:
            self._is_shown = True
            rank_zero_info(
                f"MindInsight files of this run: {self.log_dir}\nto look at them: mindsummary view {self.root_dir}"
            )

    def __getstate__(self) -> dict[str, Any]:
        # A spawned process never hands its decision back, so the version is decided before it starts.
        self.version  # noqa: B018
        return dict(self.__dict__)


def _checked_path(name: str, path: Any) -> str:
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{name} must be a path, not {path!r}")
    text = os.fspath(path)
    if not isinstance(text, str) or "\0" in text:
        raise ValueError(f"{name} must be a path of text, not {text!r}")
    return os.path.expandvars(os.path.expanduser(text)) or "."


def _checked_version(version: Any) -> int | str | None:
    if version is None or isinstance(version, str):
        return version
    if not isinstance(version, int) or isinstance(version, bool):
        raise TypeError(f"version must be an int, a str or None, not {version!r}")
    if version < 0:
        raise ValueError(f"version must be 0 or more, not {version}")
    return version
