"""One run as a JSON object: what ``mindsummary show --json`` prints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mindsummary_lightning.export.lineage_text import lineage_values
from mindsummary_lightning.reading.results import ScalarSeries
from mindsummary_lightning.reading.summary_reader import SummaryReader

__all__ = ["run_overview"]


def run_overview(reader: SummaryReader) -> dict[str, Any]:
    """Tags with their last values, landscapes, the graph's size and lineage.

    Returns:
        ``run`` (path); ``scalars``, ``histograms``, ``images`` and ``tensors``: for each tag ``samples``, ``last_step``
        and the kind's own keys; ``landscapes``: one object per landscape; ``graph``: counts or ``None``; ``lineage``:
        values by name. Numbers that are not finite are floats; JSON needs their names.

    Raises:
        DamagedFileError: a file of the run is damaged.
    """
    tags = reader.tags()
    graph = reader.graph()
    return {
        "run": reader.run_dir,
        "scalars": {tag: _scalar(series) for tag, series in reader.all_scalars().items()},
        "histograms": {tag: _last(reader.histograms(tag), _histogram) for tag in tags["histogram"]},
        "images": {tag: _last(reader.images(tag), _image) for tag in tags["image"]},
        "tensors": {tag: _last(reader.tensors(tag), _tensor) for tag in tags["tensor"]},
        "landscapes": [
            {
                "tag": found.tag,
                "grid": [found.x.size, found.y.size],
                "smallest_loss": float(found.z.min()),
                "intervals": list(found.intervals),
                "unit": found.metadata.unit,
            }
            for found in (reader.landscapes() if tags["loss_landscape"] else [])
        ],
        "graph": graph
        and {"nodes": len(graph.nodes), "parameters": len(graph.parameters), "constants": len(graph.constants)},
        "lineage": lineage_values(reader.lineage()),
    }


def _scalar(series: ScalarSeries) -> dict[str, Any]:
    finite = series.values[np.isfinite(series.values)]
    return {
        "samples": len(series),
        "last_step": int(series.steps[-1]),
        "last": float(series.values[-1]),
        "min": float(finite.min()) if finite.size else None,
        "max": float(finite.max()) if finite.size else None,
    }


def _last(samples: Iterator[tuple[int, float, Any]], describe: Any) -> dict[str, Any]:
    number, step, value = 0, 0, None
    for number, (step, _, value) in enumerate(samples, start=1):  # noqa: B007  # the last ones are wanted
        pass
    return {"samples": number, "last_step": step, **describe(value)}


def _histogram(value: Any) -> dict[str, Any]:
    return {"elements": value.count, "min": value.min, "max": value.max}


def _image(value: Any) -> dict[str, Any]:
    return {"width": value.width, "height": value.height, "bytes": len(value.encoded)}


def _tensor(value: Any) -> dict[str, Any]:
    return {"shape": list(value.data.shape), "data_type": value.data_type.name.lower()}
