"""Export a run as a TensorBoard event file."""

from __future__ import annotations

import itertools
import operator
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import IO, Any

import numpy as np

from mindsummary_lightning.conversion.arguments import refuse_remote
from mindsummary_lightning.export.output_directory import (
    ExportedFiles,
    OutputDirectory,
    mode_of_runs,
)
from mindsummary_lightning.export.parquet_dataset import in_bytes, samples_of
from mindsummary_lightning.export.tensorboard.messages import graph_def, messages, session_start
from mindsummary_lightning.export.tensorboard.value_codec import encode_value
from mindsummary_lightning.fileformat.framing import frame
from mindsummary_lightning.reading.followed_run import FollowedRun
from mindsummary_lightning.reading.series import ScalarSeries
from mindsummary_lightning.reading.summary_reader import SummaryReader, table_of

_WINDOW = 1 << 18  # scalars that are ordered at a time
_RENAMED = (
    "tag: its kind was added at the end, because a TensorBoard tag has one kind and is not empty"
)
_KINDS = ("scalar", "image", "tensor", "histogram")  # the first of a tag's kinds keeps its name


def export_tensorboard(
    run_dir: str,
    out_dir: str,
    progress: Callable[[int], object] = lambda count: None,
    *,
    force: bool = False,
) -> ExportedFiles:
    """Export the values, graph and settings of a run as a TensorBoard event file.

    Steps and wall times stay as they are. A tag of several kinds keeps its name for the first kind
    and gets ``/<kind>`` for the others, because TensorBoard has one kind per tag. The file appears
    when it is complete, with the permissions of the run's files.

    Args:
        run_dir: the run.
        out_dir: the output directory, which must be new or empty.
        progress: called with numbers of bytes of the run's files, as they are exported.
        force: replace the files of an earlier export in ``out_dir``.

    Returns:
        Path of the file.

    Raises:
        ImportError: the ``tensorboard`` package is missing.
        DamagedFileError: a file of the run is damaged.
        FileExistsError: ``out_dir`` is not empty, or holds files that no earlier export wrote.
        OSError: the file cannot be written.
        RemotePathError: ``out_dir`` is not local.
    """
    refuse_remote("out_dir", out_dir)
    tb = messages()
    reader = SummaryReader(run_dir)
    lineage, graph = reader.lineage(), reader.graph()
    run = table_of(reader)  # not read on from here: it may be growing
    tags = run.tags()
    names = _one_kind_per_name(tags)
    exported = ExportedFiles()
    first = _first_second(run)
    file_name = f"events.out.tfevents.{first:010d}.{socket.gethostname()}.mindsummary"
    with (
        OutputDirectory(out_dir, mode_of_runs([run_dir]), force=force) as out,
        out.file(file_name) as file,
    ):
        writer = _EventWriter(tb, file, exported, in_bytes(run, _KINDS, progress))
        writer.write(first, file_version="brain.Event:2")
        session = session_start(tb, lineage, _last_values(run))
        exported.changed.update(session.texts)
        if graph is not None:
            writer.write(first, graph_def=graph_def(tb, graph).SerializeToString())
            exported.written["graph"] = 1
        if session.message is not None:
            writer.write(first, summary=tb.Summary(value=[session.message]))
            exported.written["hparams"] = 1
        writer.write_scalars(run, names)
        for kind in ("image", "histogram", "tensor"):
            writer.write_samples(run, kind, names)
    renamed = sum(name != tag for (_, tag), name in names.items())
    if renamed:
        exported.changed[_RENAMED] = renamed
    skipped = {
        "loss_landscape": len(tags["loss_landscape"]),
        "dataset_graph": int(lineage.dataset is not None),
        "evaluation_lineage": int(lineage.evaluation is not None),
        "lineage_result": session.left_out,
    }
    for kind, number in skipped.items():
        if number:
            exported.skipped[kind] += number
    exported.extend(out.files)
    return exported


class _EventWriter:
    """Writer of TensorBoard events to a file, which counts the written samples."""

    def __init__(
        self,
        tb: SimpleNamespace,
        file: IO[bytes],
        exported: ExportedFiles,
        advance: Callable[[int], object],
    ) -> None:
        self._tb = tb
        self._file = file
        self._exported = exported
        self._advance = advance

    def write(self, wall_time: float, **content: Any) -> None:
        event = self._tb.Event(wall_time=wall_time, **content)
        self._file.writelines(frame([event.SerializeToString()]))

    def write_scalars(self, run: FollowedRun, names: Mapping[tuple[str, str], str]) -> None:
        tb = self._tb
        for samples in _scalar_samples(run):
            values = []
            for tag, value in samples.values:
                values.append(tb.Summary.Value(tag=names["scalar", tag], simple_value=value))
            self.write(samples.wall_time, step=samples.step, summary=tb.Summary(value=values))
            self._exported.written["scalar"] += len(values)
            self._advance(len(values))

    def write_samples(
        self, run: FollowedRun, kind: str, names: Mapping[tuple[str, str], str]
    ) -> None:
        for tag, step, wall_time, value in samples_of(run, kind):
            message, change = encode_value(self._tb, names[kind, tag], value)
            self.write(wall_time, step=step, summary=self._tb.Summary(value=[message]))
            self._exported.written[kind] += 1
            if change:
                self._exported.changed[change] += 1
            self._advance(1)


def _last_values(run: FollowedRun) -> dict[str, float]:
    """Return the last value of every scalar of a run, by tag."""
    values = {}
    for tag in run.tags()["scalar"]:
        *_, end = run.scalar_parts(tag)
        values[tag] = float(end.values[-1])
    return values


def _first_second(run: FollowedRun) -> int:
    """Return the earliest wall time of a run's scalars in whole seconds, or 0.

    It is 0 if no wall time has at most ten digits. TensorBoard orders files by these digits in
    their names.
    """
    earliest = []
    for tag in run.tags()["scalar"]:
        for part in run.scalar_parts(tag):
            times = part.wall_times
            known = times[(times >= 0) & (times < 1e10)]
            if known.size:
                earliest.append(known.min())
    return int(min(earliest, default=0))


def _one_kind_per_name(tags: Mapping[str, list[str]]) -> dict[tuple[str, str], str]:
    names: dict[tuple[str, str], str] = {}
    taken: set[str] = set()
    for kind in _KINDS:
        for tag in tags[kind]:
            name = tag
            while not name or name in taken:
                name += f"/{kind}"
            names[kind, tag] = name
            taken.add(name)
    return names


@dataclass(frozen=True)
class _StepScalars:
    """Tags and values of the scalars that have the same step and wall time."""

    step: int
    wall_time: float
    values: list[tuple[str, float]]


def _scalar_samples(run: FollowedRun) -> Iterator[_StepScalars]:
    """Yield all scalars of a run in groups, ordered by step and wall time."""
    tags = run.tags()["scalar"]
    for rows in _ordered_rows(run, tags):
        for (step, wall_time), found in itertools.groupby(rows, key=operator.itemgetter(0, 1)):
            values = [(tags[owner], value) for _, _, owner, value in found]
            yield _StepScalars(step, wall_time, values)


def _ordered_rows(run: FollowedRun, tags: Sequence[str]) -> Iterator[Iterable[tuple[Any, ...]]]:
    """Yield all scalars as rows (step, wall time, index of the tag, value), in order.

    The order is by step, then by wall time. A part of every tag is in memory at a time. All rows up
    to the smallest last step of these parts are known, and are ordered and yielded together.
    """
    size = max(_WINDOW // max(len(tags), 1), 1)
    waiting = [run.scalar_parts(tag, size) for tag in tags]
    held = {owner: next(parts) for owner, parts in enumerate(waiting)}
    while held:
        taken = _take_known(held, waiting)
        owners = np.concatenate([np.full(len(series), owner) for owner, series in taken])
        steps = np.concatenate([series.steps for _, series in taken])
        wall_times = np.concatenate([series.wall_times for _, series in taken])
        values = np.concatenate([series.values for _, series in taken])
        order = np.lexsort((wall_times, steps))
        columns = (steps, wall_times, owners, values)
        yield zip(*(column[order].tolist() for column in columns), strict=True)


def _take_known(
    held: dict[int, ScalarSeries], waiting: Sequence[Iterator[ScalarSeries]]
) -> list[tuple[int, ScalarSeries]]:
    """Remove and return the rows whose order is final; the other rows stay held.

    These are the rows up to the smallest last step of the held parts. A part that is used up is
    replaced by the next part of its tag.
    """
    bound = min(int(series.steps[-1]) for series in held.values())
    taken = []
    for owner, series in list(held.items()):
        count = int(np.searchsorted(series.steps, bound, "right"))
        if count == 0:
            continue
        taken.append((owner, _slice(series, slice(count))))
        if count < len(series):
            held[owner] = _slice(series, slice(count, None))
        else:
            _replace_by_next(held, owner, waiting[owner])
    return taken


def _slice(series: ScalarSeries, rows: slice) -> ScalarSeries:
    return ScalarSeries(series.steps[rows], series.wall_times[rows], series.values[rows])


def _replace_by_next(
    held: dict[int, ScalarSeries], owner: int, parts: Iterator[ScalarSeries]
) -> None:
    """Replace a finished part of a series by the next part, or drop the series."""
    following = next(parts, None)
    if following is None:
        del held[owner]
    else:
        held[owner] = following
