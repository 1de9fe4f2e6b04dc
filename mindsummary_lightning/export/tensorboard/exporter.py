"""A run as a TensorBoard event file."""

from __future__ import annotations

import itertools
import operator
import socket
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

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
_KINDS = ("scalar", "image", "tensor", "histogram")  # the first of a tag's kinds keeps its name


def export_tensorboard(
    run_dir: str,
    out_dir: str,
    progress: Callable[[int], object] = lambda count: None,
    *,
    force: bool = False,
) -> ExportedFiles:
    """Write the values, graph and settings of a run to a TensorBoard event file.

    Steps and wall times stay as they are. A tag of several kinds keeps its name for the first and
    gets ``/<kind>`` for the others, because TensorBoard has one kind per tag. The file appears when
    it is complete, with the permissions of the run's files.

    Args:
        run_dir: the run.
        out_dir: where the event file goes: a directory that is new or empty.
        progress: called with bytes of the run's files.
        force: replace what an earlier export left in ``out_dir``.

    Returns:
        Path of the file.

    Raises:
        ImportError: the ``tensorboard`` package is missing.
        DamagedFileError: a file of the run is damaged.
        FileExistsError: ``out_dir`` is not empty, or holds other files than those of an earlier
            export.
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
    written, changed = exported.written, exported.changed
    told, first, last = in_bytes(run, _KINDS, progress), _first_second(run), {}
    for tag in tags["scalar"]:
        *_, end = run.scalar_parts(tag)
        last[tag] = float(end.values[-1])
    name = f"events.out.tfevents.{first:010d}.{socket.gethostname()}.mindsummary"
    with (
        OutputDirectory(out_dir, mode_of_runs([run_dir]), force=force) as out,
        out.file(name) as file,
    ):

        def write(wall_time: float, **what: Any) -> None:
            file.writelines(frame([tb.Event(wall_time=wall_time, **what).SerializeToString()]))

        write(first, file_version="brain.Event:2")
        settings, results, texts = session_start(tb, lineage, last)
        changed.update(texts)
        if graph is not None:
            write(first, graph_def=graph_def(tb, graph).SerializeToString())
            written["graph"] = 1
        if settings is not None:
            write(first, summary=tb.Summary(value=[settings]))
            written["hparams"] = 1
        for step, wall_time, values in _scalar_samples(tb, run, names):
            write(wall_time, step=step, summary=tb.Summary(value=values))
            written["scalar"] += len(values)
            told(len(values))
        for kind in ("image", "histogram", "tensor"):
            for tag, step, wall_time, value in samples_of(run, kind):
                message, change = encode_value(tb, names[kind, tag], value)
                write(wall_time, step=step, summary=tb.Summary(value=[message]))
                written[kind] += 1
                changed.update([change] if change else [])
                told(1)
    renamed = sum(name != tag for (_, tag), name in names.items())
    if renamed:
        changed[
            "tag: it ends in its kind, because TensorBoard has one kind per tag and none without a tag"
        ] = renamed
    skipped = {
        "loss_landscape": len(tags["loss_landscape"]),
        "dataset_graph": int(lineage.dataset is not None),
        "evaluation_lineage": int(lineage.evaluation is not None),
        "lineage_result": results,
    }
    exported.skipped.update({kind: number for kind, number in skipped.items() if number})
    exported.extend(out.files)
    return exported


def _first_second(run: FollowedRun) -> int:
    parts = (part.wall_times for tag in run.tags()["scalar"] for part in run.scalar_parts(tag))
    # ten digits, by which TensorBoard orders files
    known = (times[(times >= 0) & (times < 1e10)] for times in parts)
    return int(min((times.min() for times in known if times.size), default=0))


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


def _scalar_samples(
    tb: SimpleNamespace, run: FollowedRun, names: Mapping[tuple[str, str], str]
) -> Iterator[tuple[int, float, list[Any]]]:
    """Step, wall time and messages of all scalars of a step that were recorded at one moment, by step."""
    tags = run.tags()["scalar"]
    size = max(_WINDOW // max(len(tags), 1), 1)
    parts = [run.scalar_parts(tag, size) for tag in tags]
    held = {owner: next(waiting) for owner, waiting in enumerate(parts)}
    while held:
        # up to which the next samples of all are here
        bound = min(int(series.steps[-1]) for series in held.values())
        taken = []
        for owner, series in [item for item in held.items() if item[1].steps[0] <= bound]:
            count = int(np.searchsorted(series.steps, bound, "right"))
            columns = [getattr(series, name) for name in ScalarSeries.__slots__]
            taken.append((np.full(count, owner), *(column[:count] for column in columns)))
            is_left = count < len(series)
            rest = (
                ScalarSeries(*(column[count:] for column in columns))
                if is_left
                else next(parts[owner], None)
            )
            if rest is None:
                del held[owner]
            else:
                held[owner] = rest
        owners, steps, wall_times, values = map(np.concatenate, zip(*taken, strict=True))
        order = np.lexsort((wall_times, steps))
        rows = zip(
            *(column[order].tolist() for column in (steps, wall_times, owners, values)), strict=True
        )
        for (step, wall_time), found in itertools.groupby(rows, key=operator.itemgetter(0, 1)):
            yield (
                step,
                wall_time,
                [
                    tb.Summary.Value(tag=names["scalar", tags[owner]], simple_value=value)
                    for _, _, owner, value in found
                ],
            )
