"""Offer the ``add_*`` methods of TensorBoard's ``SummaryWriter``.

Names and arguments are the same. Arguments that only place or time a TensorBoard event are accepted
and ignored. A value is skipped with one warning if it cannot be recorded, or if MindInsight has no
page for its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mindsummary_lightning.conversion.arguments import checked_name, optional_module
from mindsummary_lightning.conversion.arrays import at_least_1d, to_array
from mindsummary_lightning.conversion.bucket_limits import histogram_of_limits
from mindsummary_lightning.conversion.flattening import items_of
from mindsummary_lightning.conversion.histograms import to_histogram
from mindsummary_lightning.conversion.hyperparameters import flatten
from mindsummary_lightning.conversion.numeric import to_scalar, to_tensor
from mindsummary_lightning.conversion.user_images import (
    boxes_to_image,
    check_dataformats,
    figure_to_image,
    to_image,
)
from mindsummary_lightning.errors import closest
from mindsummary_lightning.recording.run_recorder import RunRecorder
from mindsummary_lightning.recording.untraced import untraced
from mindsummary_lightning.values import EvaluationInfo, SummaryValue, UserDefinedInfo

NO_EXAMPLE = (
    "%s needs an input to record the graph. Pass an input, or give the module an "
    "example_input_array. A SummaryCollector records the graph without an input"
)
NO_PAGE = "%s is skipped: MindInsight has no page for what it records"
_WITHOUT_PAGE = [
    "add_audio", "add_custom_scalars", "add_custom_scalars_marginchart",
    "add_custom_scalars_multilinechart", "add_embedding", "add_mesh", "add_onnx_graph",
    "add_pr_curve", "add_pr_curve_raw", "add_text", "add_video",
]  # fmt: skip


_METRICS = "logger.log_metrics({name: value}, step), or experiment.add_scalar(tag, value, step)"
_SETTINGS = "logger.log_hyperparams({name: value})"
_NOT_NEEDED = "not needed, because a value is in its file when the call that records it returns"
_FILES = "put the file into logger.log_dir"
_CALLS = {  # of wandb's runs, of mlflow's client, and of comet's and neptune's
    "log": _METRICS, "log_metric": _METRICS, "log_metrics": _METRICS, "log_batch": _METRICS,
    "track": _METRICS, "summary": _METRICS,
    "config": _SETTINGS, "log_param": _SETTINGS, "log_params": _SETTINGS,
    "log_parameter": _SETTINGS, "log_parameters": _SETTINGS,
    "set_tag": _SETTINGS, "set_tags": _SETTINGS,
    "finish": _NOT_NEEDED, "end": _NOT_NEEDED, "end_run": _NOT_NEEDED,
    "set_terminated": _NOT_NEEDED,
    "define_metric": "not needed, because any scalar sorts runs (by last, least or greatest value)",
    "watch": "a SummaryCollector(collect_gradients='.*') records gradients",
    "log_image": "logger.log_image(tag, [image], step)",
    "log_figure": "logger.log_figure(tag, figure, step)",
    "log_artifact": _FILES, "log_artifacts": _FILES, "log_model": _FILES, "save": _FILES,
}  # fmt: skip


def call_of_other_tracker(name: str) -> str:
    """Return a hint for a method name of wandb, MLflow, Comet or Neptune.

    The hint names the equivalent call of this package, for the text of an AttributeError. It is
    ``""`` for other names.
    """
    return f"; another tracker has it. Here: {_CALLS[name]}" if name in _CALLS else ""


class TensorBoardMethods:
    """TensorBoard-compatible methods that write a value immediately.

    Every method takes ``global_step``. Without it, the step is the number of earlier values of the
    same tag and kind.
    """

    def __init__(self, recorder: RunRecorder) -> None:
        self._recorder = recorder
        self._counters: dict[tuple[type, str], int] = {}  # the next step by kind and tag
        self._params: Mapping[str, Any] = {}  # of the last `add_hparams`
        self._has_results = False  # likewise

    @untraced
    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Record a number, or a tensor or array with a single element."""
        # not through _write: the hot path of a loop
        tag = checked_name(tag)
        value = self._recorder.policy.converted("scalar", tag, to_scalar, scalar_value)
        self._write_converted(tag, global_step, value)

    @untraced
    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Record a dict of numbers under the tags ``<main_tag>/<key>``.

        All numbers belong to this run, while TensorBoard creates a run for each number.
        """
        main = checked_name(main_tag)
        items = self._recorder.policy.converted("scalars", main, items_of, tag_scalar_dict) or []
        pairs: list[tuple[str, SummaryValue]] = []
        for key, value in items:
            tag = checked_name(f"{main}/{key}")
            number = self._recorder.policy.converted("scalar", tag, to_scalar, value)
            if number is not None:
                pairs.append((tag, number))
        if global_step is not None:
            self._write_at(main, global_step, pairs)
            return
        by_step: dict[int, list[tuple[str, SummaryValue]]] = {}
        for tag, value in pairs:
            by_step.setdefault(self._next_step(tag, value), []).append((tag, value))
        for step, numbers in by_step.items():
            self._recorder.write_values(step, numbers)

    @untraced
    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Record a histogram of the elements of a number, tensor or array.

        The buckets are MindSpore's; ``bins`` is ignored.
        """
        self._write(
            "histogram", tag, global_step, lambda values: to_histogram(at_least_1d(values)), values
        )

    @untraced
    def add_histogram_raw(
        self,
        tag: str,
        min: float,  # noqa: A002 - TensorBoard's names
        max: float,  # noqa: A002
        num: float,
        sum: float,  # noqa: A002
        sum_squares: float,
        bucket_limits: Any,
        bucket_counts: Any,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Record a histogram whose buckets you have already counted.

        Pass the right edge of every bucket, and the number of elements in every bucket.

        If there are more than 90 buckets, neighbours are joined. The sum of squares is not used.
        """

        def convert(limits: Any) -> SummaryValue:
            edges = to_array(limits).astype(np.float64)
            counts = to_array(bucket_counts).astype(np.float64)
            return histogram_of_limits(
                edges, counts, float(min), float(max), float(num), float(sum)
            )

        self._write("histogram", tag, global_step, convert, bucket_limits)

    @untraced
    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Record an image whose axes are ``dataformats``, such as ``CHW``.

        Its values are uint8 in 0..255 or floating in [0, 1].
        """
        check_dataformats(dataformats)
        self._write("image", tag, global_step, to_image, img_tensor, dataformats)

    @untraced
    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Record a batch of images as a single image, up to eight images per row."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    @untraced
    def add_image_with_boxes(
        self,
        tag: str,
        img_tensor: Any,
        box_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        rescale: float = 1,
        dataformats: str = "CHW",
        labels: Any = None,
    ) -> None:
        """Record an image on which boxes and their labels are drawn.

        A box is left, top, right and bottom in pixels.
        """
        check_dataformats(dataformats)
        self._write(
            "image",
            tag,
            global_step,
            boxes_to_image,
            img_tensor,
            box_tensor,
            dataformats,
            rescale,
            labels,
        )

    @untraced
    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: int | None = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """Record a Matplotlib figure, or a list of figures as a single image.

        The figures are closed afterwards, unless ``close`` is False.
        """
        self._write("figure", tag, global_step, figure_to_image, figure)
        for one in (figure if isinstance(figure, (list, tuple)) else [figure]) if close else ():
            if hasattr(one, "savefig"):  # close(None) would close another one
                import matplotlib.pyplot

                matplotlib.pyplot.close(one)

    @untraced
    def add_tensor(
        self, tag: str, tensor: Any, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Record all elements of a number, tensor or array."""
        self._write(
            "tensor", tag, global_step, lambda tensor: to_tensor(at_least_1d(tensor)), tensor
        )

    @untraced
    def add_graph(
        self,
        model: Any,
        input_to_model: Any = None,
        verbose: bool = False,
        use_strict_trace: bool = True,
    ) -> None:
        """Record the computational graph of a module, once.

        The module is called with ``input_to_model``, or else with its ``example_input_array``.
        """
        optional_module("model", model)
        example = (
            getattr(model, "example_input_array", None)
            if input_to_model is None
            else input_to_model
        )
        if example is not None:
            self._recorder.capture_graph(model, example)
        else:
            self._recorder.policy.warnings.warn("no example", NO_EXAMPLE, "add_graph")

    @untraced
    def add_hparams(
        self,
        hparam_dict: Mapping[str, Any],
        metric_dict: Mapping[str, Any],
        hparam_domain_discrete: Any = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Record hyper-parameters as custom lineage, and metrics as evaluation lineage.

        A run has one set of hyper-parameters.

        If a later call changes a hyper-parameter, it replaces the hyper-parameters and metrics of
        the earlier call.
        """
        if not isinstance(hparam_dict, Mapping) or not isinstance(metric_dict, Mapping):
            found = f"{type(hparam_dict).__name__} and {type(metric_dict).__name__}"
            raise TypeError(f"hparam_dict and metric_dict must be dicts, got {found}")
        flat = flatten(hparam_dict)
        params = UserDefinedInfo(flat).values if flat else self._params  # with the keys of the file
        results = self._recorder.metric_lineage("add_hparams", metric_dict)
        if any(params.get(key) != value for key, value in self._params.items()):
            text = (
                "add_hparams replaces the values of an earlier trial in %s: a run has one row on "
                "MindInsight's page. Give each trial a run of its own"
            )
            self._recorder.policy.warnings.warn("hparams", text, self._recorder.directory)
            if self._has_results and not results:
                results = [EvaluationInfo()]
        replaced, self._params, self._has_results = self._params.keys(), params, bool(results)
        settings = [UserDefinedInfo(params)] if params else []
        self._recorder.write_lineage(*settings, *results, replaced=replaced - params.keys())

    @untraced
    def get_logdir(self) -> str:
        """Return the full path of the run directory."""
        return self._recorder.directory

    if not TYPE_CHECKING:  # it would make every name known

        def __getattr__(self, name: str) -> Any:
            if name not in _WITHOUT_PAGE:
                alike = (
                    ""
                    if name.startswith("_")
                    else closest(name, [*dir(type(self)), *_WITHOUT_PAGE])
                )
                alike = call_of_other_tracker(name) or alike
                raise AttributeError(
                    f"{type(self).__name__!r} object has no attribute {name!r}{alike}"
                )

            def skip(*_: Any, **__: Any) -> None:
                self._recorder.policy.warnings.warn(name, NO_PAGE, name)

            return skip

    def _write(
        self,
        kind: str,
        tag: str,
        global_step: int | None,
        convert: Callable[..., SummaryValue],
        *arguments: Any,
    ) -> None:
        tag = checked_name(tag)
        value = self._recorder.policy.converted(kind, tag, convert, *arguments)
        self._write_converted(tag, global_step, value)

    def _write_converted(
        self, tag: str, global_step: int | None, value: SummaryValue | None
    ) -> None:
        if value is not None:
            step = self._next_step(tag, value) if global_step is None else global_step
            self._write_at(tag, step, [(tag, value)])

    def _next_step(self, tag: str, value: SummaryValue) -> int:
        """Count the earlier values of a tag, to use the count as a step number."""
        counter = type(value), tag
        step = self._counters.get(counter, 0)
        self._counters[counter] = step + 1
        return step

    def _write_at(self, tag: str, global_step: int, pairs: list[tuple[str, SummaryValue]]) -> None:
        step = self._recorder.policy.step("global_step", tag, global_step)
        if step is not None:
            self._recorder.write_values(step, pairs)
