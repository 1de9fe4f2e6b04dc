"""The ``add_*`` methods that users of TensorBoard's ``SummaryWriter`` call on ``logger.experiment``.

Names and first arguments are those they know; arguments that only place or time a TensorBoard event are taken and not
used. A kind that MindInsight has no page for is said once and left out.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Any

from mindsummary_lightning.conversion.arguments import check_network, checked_name
from mindsummary_lightning.conversion.histograms import to_histogram
from mindsummary_lightning.conversion.hyperparameters import flatten
from mindsummary_lightning.conversion.metrics import finite_metrics, metric_json
from mindsummary_lightning.conversion.numeric import to_scalar, to_tensor
from mindsummary_lightning.conversion.user_images import figure_to_image, to_image
from mindsummary_lightning.values import EvaluationInfo, SummaryValue, UserDefinedInfo
from mindsummary_lightning.values.events import LineageValue

__all__ = ["TensorBoardMethods"]

_LOG = logging.getLogger(__name__)

_NO_PAGE = (
    "add_audio",
    "add_custom_scalars",
    "add_custom_scalars_marginchart",
    "add_custom_scalars_multilinechart",
    "add_embedding",
    "add_mesh",
    "add_onnx_graph",
    "add_pr_curve",
    "add_pr_curve_raw",
    "add_text",
    "add_video",
)


class TensorBoardMethods(ABC):
    """Writes single values at once, in TensorBoard's words.

    Every method takes ``global_step``; without one, values of a tag are counted from 0.
    """

    _counters: dict[str, int]
    _said: set[str]

    @abstractmethod
    def write_values(self, step: int, values: Collection[tuple[str, SummaryValue]]) -> bool:
        """Write ready values at a step."""

    @abstractmethod
    def write_lineage(self, value: LineageValue) -> bool:
        """Write a lineage value."""

    @abstractmethod
    def capture_graph(self, network: Any, example: Any) -> bool:
        """Capture and write the computational graph of a module, once."""

    def add_scalar(self, tag: str, scalar_value: Any, global_step: int | None = None, *_: Any, **__: Any) -> None:
        """Record one number; a tensor or array must have one element."""
        self._write(tag, to_scalar(scalar_value), global_step)

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: Mapping[str, Any], global_step: int | None = None, *_: Any, **__: Any
    ) -> None:
        """Record several numbers under ``main_tag/key``, in this run (TensorBoard makes a run of each)."""
        main = checked_name(main_tag)
        pairs = [(checked_name(f"{main}/{key}"), to_scalar(value)) for key, value in tag_scalar_dict.items()]
        self.write_values(self._step(main, global_step), list(pairs))

    def add_histogram(self, tag: str, values: Any, global_step: int | None = None, *_: Any, **__: Any) -> None:
        """Record the distribution of a tensor or array; the buckets are MindSpore's, whatever ``bins`` says."""
        self._write(tag, to_histogram(values), global_step)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Record one picture: uint8 in 0..255 or floating in [0, 1], laid out as ``dataformats`` says."""
        self._write(tag, to_image(img_tensor, dataformats), global_step)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Record a batch of pictures as one, up to eight in a row."""
        self._write(tag, to_image(img_tensor, dataformats), global_step)

    def add_figure(
        self, tag: str, figure: Any, global_step: int | None = None, close: bool = True, *_: Any, **__: Any
    ) -> None:
        """Record a Matplotlib figure, and close it unless told not to."""
        self._write(tag, figure_to_image(figure), global_step)
        if close:
            import matplotlib.pyplot

            matplotlib.pyplot.close(figure)

    def add_tensor(self, tag: str, tensor: Any, global_step: int | None = None, *_: Any, **__: Any) -> None:
        """Record a tensor element by element."""
        self._write(tag, to_tensor(tensor), global_step)

    def add_graph(self, model: Any, input_to_model: Any = None, *_: Any, **__: Any) -> None:
        """Record the computational graph of a module, called with ``input_to_model`` or its own example, once."""
        check_network("model", model)
        example = getattr(model, "example_input_array", None) if input_to_model is None else input_to_model
        if example is not None:
            self.capture_graph(model, example)

    def add_hparams(self, hparam_dict: Mapping[str, Any], metric_dict: Mapping[str, Any], *_: Any, **__: Any) -> None:
        """Record hyper-parameters as custom lineage and metrics as evaluation lineage."""
        params = flatten(hparam_dict)
        if params:
            self.write_lineage(UserDefinedInfo(params))
        metrics = finite_metrics(metric_dict)
        if metrics:
            self.write_lineage(EvaluationInfo(metric=metric_json(metrics)))

    def __getattr__(self, name: str) -> Any:
        if name not in _NO_PAGE:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

        def leave_out(*_: Any, **__: Any) -> None:
            if name not in self._said:
                self._said.add(name)
                _LOG.warning("%s is left out: MindInsight has no page for what it records", name)

        return leave_out

    def _write(self, tag: str, value: SummaryValue, global_step: int | None) -> None:
        tag = checked_name(tag)
        self.write_values(self._step(tag, global_step), [(tag, value)])

    def _step(self, tag: str, global_step: int | None) -> int:
        if global_step is not None:
            return int(global_step)
        step = self._counters.get(tag, 0)
        self._counters[tag] = step + 1
        return step
