"""Record PyTorch Lightning runs so that MindInsight shows them.

The package also reads, queries, views and converts runs.

A public name is imported when it is first used, so that a program that only reads runs does not
import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mindsummary_lightning.errors import closest

if TYPE_CHECKING:
    from mindsummary_lightning import errors as errors
    from mindsummary_lightning import types as types
    from mindsummary_lightning import values as values
    from mindsummary_lightning import viewer as viewer
    from mindsummary_lightning.collection.operators import (
        HistogramSummary,
        ImageSummary,
        ScalarSummary,
        TensorSummary,
        histogram_summary,
        image_summary,
        scalar_summary,
        tensor_summary,
    )
    from mindsummary_lightning.landscape.summary_landscape import SummaryLandscape
    from mindsummary_lightning.lineage.found_runs import find_runs, runs_to_pandas
    from mindsummary_lightning.lineage.query import filter_summary_lineage, get_summary_lineage
    from mindsummary_lightning.lineage.table import lineage_to_pandas
    from mindsummary_lightning.porting.chain.loop_recorder import StepRecorder
    from mindsummary_lightning.porting.comparison.compare import compare_runs
    from mindsummary_lightning.porting.comparison.result import Comparison
    from mindsummary_lightning.porting.port_check.in_torch.check_port import check_port
    from mindsummary_lightning.porting.port_check.port_report import PortReport
    from mindsummary_lightning.porting.port_check.weight_transfer import transfer_weights
    from mindsummary_lightning.reading.landscape_plot import plot_landscapes
    from mindsummary_lightning.reading.many_runs import read_scalars
    from mindsummary_lightning.reading.summary_reader import SummaryReader
    from mindsummary_lightning.recording.summary_record import SummaryRecord
    from mindsummary_lightning.trainer.collector import SummaryCollector
    from mindsummary_lightning.trainer.lineage_callbacks import EvalLineage, TrainLineage
    from mindsummary_lightning.trainer.logger import MindInsightLogger
    from mindsummary_lightning.trainer.port_check_callback import PortCheck

__all__ = [
    "Comparison",
    "EvalLineage",
    "HistogramSummary",
    "ImageSummary",
    "MindInsightLogger",
    "PortCheck",
    "PortReport",
    "ScalarSummary",
    "StepRecorder",
    "SummaryCollector",
    "SummaryLandscape",
    "SummaryReader",
    "SummaryRecord",
    "TensorSummary",
    "TrainLineage",
    "check_port",
    "compare_runs",
    "filter_summary_lineage",
    "find_runs",
    "get_summary_lineage",
    "histogram_summary",
    "image_summary",
    "lineage_to_pandas",
    "plot_landscapes",
    "read_scalars",
    "runs_to_pandas",
    "scalar_summary",
    "tensor_summary",
    "transfer_weights",
]

__version__ = "0.1.0"

_MODULES = {
    "porting.chain.loop_recorder": ["StepRecorder"],
    "porting.comparison.result": ["Comparison"],
    "porting.comparison.compare": ["compare_runs"],
    "porting.port_check.in_torch.check_port": ["check_port"],
    "porting.port_check.port_report": ["PortReport"],
    "porting.port_check.weight_transfer": ["transfer_weights"],
    "trainer.collector": ["SummaryCollector"],
    "trainer.port_check_callback": ["PortCheck"],
    "reading.landscape_plot": ["plot_landscapes"],
    "landscape.summary_landscape": ["SummaryLandscape"],
    "trainer.lineage_callbacks": ["EvalLineage", "TrainLineage"],
    "lineage.found_runs": ["find_runs", "runs_to_pandas"],
    "lineage.query": ["filter_summary_lineage", "get_summary_lineage"],
    "lineage.table": ["lineage_to_pandas"],
    "trainer.logger": ["MindInsightLogger"],
    "collection.operators": [
        "HistogramSummary",
        "ImageSummary",
        "ScalarSummary",
        "TensorSummary",
        "histogram_summary",
        "image_summary",
        "scalar_summary",
        "tensor_summary",
    ],
    "reading.many_runs": ["read_scalars"],
    "reading.summary_reader": ["SummaryReader"],
    "recording.summary_record": ["SummaryRecord"],
}
_PUBLIC_MODULES = ("errors", "types", "values", "viewer")
_HOME = {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}


if not TYPE_CHECKING:  # a checker would take every name for known

    def __getattr__(name: str) -> Any:
        if name in _PUBLIC_MODULES:
            return importlib.import_module(f"{__name__}.{name}")
        if name not in _HOME:
            raise AttributeError(
                f"module {__name__!r} has no attribute {name!r}{closest(name, __all__)}"
            )
        try:
            value = getattr(importlib.import_module(_HOME[name]), name)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.startswith(__name__):
                raise
            package = {"PIL": "Pillow", "google.protobuf": "protobuf"}.get(error.name, error.name)
            text = (
                f"{name} needs {package}, which is not installed; install it with: "
                "pip install mindsummary-lightning"
            )
            # one line to read, whichever module imports the package
            raise ModuleNotFoundError(text, name=error.name) from None
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({"__version__", *__all__, *_PUBLIC_MODULES})
