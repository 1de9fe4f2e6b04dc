"""A run as a TensorBoard event file."""

from __future__ import annotations

import contextlib
import os
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from mindsummary_lightning.conversion.arguments import refuse_remote
from mindsummary_lightning.export.file_mode import mode_of_runs
from mindsummary_lightning.export.tensorboard.bucket_limits import limits_of_buckets
from mindsummary_lightning.export.tensorboard.messages import messages
from mindsummary_lightning.export.tensorboard.run_description import graph_def, session_start
from mindsummary_lightning.fileformat.framing import frame
from mindsummary_lightning.fileio.append import RecordFile
from mindsummary_lightning.fileio.replace import temporary_name
from mindsummary_lightning.reading.results import RunLineage
from mindsummary_lightning.reading.summary_reader import KINDS, SummaryReader
from mindsummary_lightning.values import DataType, Graph, Histogram, Image, Tensor

__all__ = ["ExportedRun", "export_tensorboard"]


@dataclass(frozen=True, slots=True)
class ExportedRun:
    """What an export wrote.

    Attributes:
        path: the event file.
        written: number of samples by kind.
        skipped: number of what TensorBoard has no page for, by kind.
    """

    path: str
    written: Mapping[str, int]
    skipped: Mapping[str, int]


def export_tensorboard(
    run_dir: str, out_dir: str, progress: Callable[[int], object] = lambda count: None
) -> ExportedRun:
    """Write the values, graph and settings of a run to a TensorBoard event file.

    Steps and wall times stay as they are. A tag of several kinds keeps its name for the first and gets ``/<kind>`` for
    the others, because TensorBoard has one kind per tag. The file appears under its name when it is complete, with the
    permissions of the run's files.

    Args:
        run_dir: the run.
        out_dir: where the event file goes; created if needed.
        progress: called with numbers of samples written.

    Raises:
        ImportError: the ``tensorboard`` package is missing.
        DamagedFileError: a file of the run is damaged.
        OSError: the file cannot be written.
        RemotePathError: ``out_dir`` is not local.
    """
    refuse_remote("out_dir", out_dir)
    tb = messages()
    reader = SummaryReader(run_dir)
    tags = reader.tags()
    names = _one_kind_per_name(tags)
    lineage = reader.lineage()
    os.makedirs(out_dir, exist_ok=True)
    written: Counter[str] = Counter()
    series = reader.all_scalars()
    first = min((found.wall_times.min() for found in series.values()), default=0.0)
    path = os.path.join(
        out_dir, f"events.out.tfevents.{int(first):010d}.{socket.gethostname()}.{os.getpid()}.mindsummary"
    )
    unfinished = temporary_name(out_dir)
    file = RecordFile(unfinished, mode_of_runs([run_dir]))

    def write(event: Any) -> None:
        file.append(frame([event.SerializeToString()]))

    try:
        write(tb.Event(wall_time=first, file_version="brain.Event:2"))
        for kind, part in _description(tb, reader.graph(), lineage):
            write(tb.Event(wall_time=first, **part))
            written[kind] += 1
        for event in _scalar_events(tb, series, names):
            write(event)
            written["scalar"] += len(event.summary.value)
            progress(len(event.summary.value))
        for kind, tag, step, wall_time, value in _other_samples(reader, tags):
            message = tb.Summary.Value(tag=names[kind, tag])
            _FILLERS[kind](tb, message, value)
            write(tb.Event(step=step, wall_time=wall_time, summary=tb.Summary(value=[message])))
            written[kind] += 1
            progress(1)
        file.sync()
        file.close()
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            file.close()
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        raise
    skipped = {
        "loss_landscape": len(tags["loss_landscape"]),
        "dataset_graph": int(lineage.dataset is not None),
        "evaluation_lineage": int(lineage.evaluation is not None),
    }
    return ExportedRun(path, dict(written), {kind: number for kind, number in skipped.items() if number})


def _description(tb: SimpleNamespace, graph: Graph | None, lineage: RunLineage) -> Iterator[tuple[str, dict[str, Any]]]:
    if graph is not None:
        yield "graph", {"graph_def": graph_def(tb, graph).SerializeToString()}
    settings = session_start(tb, lineage)
    if settings is not None:
        yield "hparams", {"summary": tb.Summary(value=[settings])}


def _other_samples(
    reader: SummaryReader, tags: Mapping[str, list[str]]
) -> Iterator[tuple[str, str, int, float, Image | Histogram | Tensor]]:
    for tag in tags["image"]:
        for step, wall_time, image in reader.images(tag):
            yield "image", tag, step, wall_time, image
    for tag in tags["histogram"]:
        for step, wall_time, histogram in reader.histograms(tag):
            yield "histogram", tag, step, wall_time, histogram
    for tag in tags["tensor"]:
        for step, wall_time, tensor in reader.tensors(tag):
            yield "tensor", tag, step, wall_time, tensor


def _one_kind_per_name(tags: Mapping[str, list[str]]) -> dict[tuple[str, str], str]:
    names: dict[tuple[str, str], str] = {}
    taken: set[str] = set()
    for kind in KINDS:
        for tag in tags[kind]:
            name = tag if tag not in taken else f"{tag}/{kind}"
            names[kind, tag] = name
            taken.add(name)
    return names


def _scalar_events(
    tb: SimpleNamespace, series: Mapping[str, Any], names: Mapping[tuple[str, str], str]
) -> Iterator[Any]:
    """One event for all scalars of a step that were recorded at one moment."""
    if not series:
        return
    steps = np.concatenate([found.steps for found in series.values()])
    wall_times = np.concatenate([found.wall_times for found in series.values()])
    values = np.concatenate([found.values for found in series.values()])
    tags = [names["scalar", tag] for tag in series]
    owner = np.repeat(np.arange(len(series)), [len(found) for found in series.values()])
    event = None
    for index in np.lexsort((wall_times, steps)).tolist():
        step, wall_time = int(steps[index]), float(wall_times[index])
        if event is None or (event.step, event.wall_time) != (step, wall_time):
            if event is not None:
                yield event
            event = tb.Event(step=step, wall_time=wall_time)
        event.summary.value.add(tag=tags[owner[index]], simple_value=float(values[index]))
    yield event


def _fill_image(tb: SimpleNamespace, message: Any, image: Image) -> None:
    message.image.height, message.image.width, message.image.colorspace = image.height, image.width, image.colorspace
    message.image.encoded_image_string = image.encoded


def _fill_histogram(tb: SimpleNamespace, message: Any, histogram: Histogram) -> None:
    limits, buckets = limits_of_buckets(histogram)
    middles = histogram.lefts + histogram.widths / 2
    message.histo.CopyFrom(
        tb.HistogramProto(
            min=histogram.min or 0.0,
            max=histogram.max or 0.0,
            num=float(histogram.count),
            sum=histogram.sum or 0.0,
            sum_squares=float((histogram.counts * middles**2).sum()),
            bucket_limit=limits.tolist(),
            bucket=buckets.tolist(),
        )
    )


def _fill_tensor(tb: SimpleNamespace, message: Any, tensor: Tensor) -> None:
    data: Any = tensor.data
    if DataType.BOOL <= tensor.data_type <= DataType.FLOAT64:
        with np.errstate(invalid="ignore"):
            data = data.astype(tensor.data_type.name.lower())
    message.tensor.CopyFrom(tb.make_tensor_proto(data))


_FILLERS: dict[str, Callable[[SimpleNamespace, Any, Any], None]] = {
    "image": _fill_image,
    "histogram": _fill_histogram,
    "tensor": _fill_tensor,
}
