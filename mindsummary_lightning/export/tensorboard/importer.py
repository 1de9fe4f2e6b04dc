"""TensorBoard event files as MindInsight runs."""

from __future__ import annotations

import itertools
import math
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from mindsummary_lightning.conversion.arguments import refuse_remote
from mindsummary_lightning.conversion.hyperparameters import flatten
from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.export.tensorboard.bucket_limits import histogram_of_buckets
from mindsummary_lightning.export.tensorboard.messages import messages
from mindsummary_lightning.fileformat.framing import OVERHEAD
from mindsummary_lightning.fileio.replace import temporary_name
from mindsummary_lightning.fileio.scan import RecordScanner
from mindsummary_lightning.recording.event_files import FileOptions
from mindsummary_lightning.recording.event_writer import EventWriter
from mindsummary_lightning.values import Histogram, Image, SummaryValue, Tensor, UserDefinedInfo
from mindsummary_lightning.values.limits import MAX_ELEMENTS

_TENSOR_PLUGINS = ("", "tensor")  # an exported run's, and torch's ``add_tensor``


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """The run that was made of one directory.

    Attributes:
        source: the directory with TensorBoard's event files.
        run_dir: the MindInsight run.
        written: number of samples by kind.
        same_name_as: the directory whose run took the name that this one would have had, or ``None``.
        skipped: number of samples by what MindInsight cannot show (text, audio, ...).
    """

    source: str
    run_dir: str
    written: Counter[str] = field(default_factory=Counter)
    same_name_as: str | None = None
    skipped: Counter[str] = field(default_factory=Counter)


def event_files(directory: str) -> dict[str, list[str]]:
    """TensorBoard event files at and below a directory: paths by directory, each list in the order of the names.

    Raises:
        OSError: the directory cannot be listed.
    """
    os.scandir(directory).close()  # os.walk ignores a directory that does not exist
    found: dict[str, list[str]] = {}
    for folder, below, names in os.walk(directory):
        below.sort()
        paths = [os.path.join(folder, name) for name in sorted(names) if ".tfevents." in name]
        paths = [path for path in paths if os.path.isfile(path)]  # opening a FIFO would wait for ever
        if paths:
            found[folder] = paths
    return found


def import_tensorboard(
    tb_dir: str, out_dir: str, progress: Callable[[int], object] = lambda count: None
) -> list[ImportedRun]:
    """Write TensorBoard event files as MindInsight runs: scalars, images, histograms, tensors, and hparams as lineage.

    Files of torch, tensorboardX and Keras are understood. Each directory becomes a run: ``tb_dir`` itself becomes
    ``out_dir``, ``tb_dir/a/b`` becomes ``out_dir/a-b``, because MindInsight lists one level; if another directory has
    that name already, ``out_dir/a-b-2``. A run appears under its name when it is complete. Neighbouring values of one
    step share an event, at the wall time of the first.

    Args:
        tb_dir: a directory with event files at any depth.
        out_dir: where the runs go.
        progress: called with numbers of bytes read.

    Raises:
        ImportError: the ``tensorboard`` package is missing.
        FileNotFoundError: there is no event file.
        FileExistsError: a run to be written exists already.
        DamagedFileError: an event file is damaged.
        RemotePathError: ``out_dir`` is not local.
    """
    refuse_remote("out_dir", out_dir)
    tb = messages()
    sources = event_files(tb_dir)
    if not sources:
        raise FileNotFoundError(f"no TensorBoard event file at or below {tb_dir}")
    runs = _named_runs(tb_dir, out_dir, sources)
    for run in runs:
        if os.path.isdir(run.run_dir) and any(entry.is_file() for entry in os.scandir(run.run_dir)):
            raise FileExistsError(f"{run.run_dir} contains files already; give an --out that is new or empty")
    os.makedirs(out_dir, exist_ok=True)
    for run in runs:
        # Two levels down in a hidden directory neither MindInsight nor this package takes it for a run.
        hidden = temporary_name(out_dir)
        unfinished = os.path.join(hidden, "run")
        try:
            os.makedirs(unfinished)
            for path in sources[run.source]:
                _import_file(tb, path, unfinished, run, progress)
            _publish(unfinished, run.run_dir)
        finally:
            shutil.rmtree(hidden, ignore_errors=True)
    return runs


def _named_runs(tb_dir: str, out_dir: str, folders: Iterable[str]) -> list[ImportedRun]:
    wanted = {folder: os.path.relpath(folder, tb_dir).split(os.sep) for folder in folders}
    reserved = {"-".join(parts).casefold() for parts in wanted.values()}
    owners: dict[str, str] = {}
    runs = []
    for folder, parts in wanted.items():
        if parts == ["."]:
            runs.append(ImportedRun(folder, out_dir))
            continue
        name = "-".join(parts)
        same_name_as = owners.setdefault(name.casefold(), folder)
        if same_name_as != folder:
            numbered = (f"{name}-{number}" for number in itertools.count(2))
            name = next(other for other in numbered if other.casefold() not in reserved)
            reserved.add(name.casefold())
        other = same_name_as if same_name_as != folder else None
        runs.append(ImportedRun(folder, os.path.join(out_dir, name), same_name_as=other))
    return runs


def _publish(unfinished: str, run_dir: str) -> None:
    try:
        os.rename(unfinished, run_dir)
    except OSError:  # it exists and has directories in it, such as the runs below it
        os.makedirs(run_dir, exist_ok=True)
        for name in sorted(os.listdir(unfinished)):
            os.rename(os.path.join(unfinished, name), os.path.join(run_dir, name))


def _import_file(
    tb: SimpleNamespace, path: str, run_dir: str, run: ImportedRun, progress: Callable[[int], object]
) -> None:
    now = 0.0
    # One writer per file: MindInsight lets a later file replace the end of an earlier one, as a resumed run needs.
    writer = EventWriter(run_dir, FileOptions(free_space_factor=0), clock=lambda: now)
    pending: dict[tuple[str, str], SummaryValue] = {}
    pending_step = 0
    scanner = RecordScanner(path)
    for payload in scanner:
        progress(len(payload) + OVERHEAD)
        try:
            event = tb.Event.FromString(payload)
            values = list(_values(tb, event, run.skipped))
        except (ArithmeticError, ValueError, tb.DecodeError) as error:
            raise DamagedFileError(path, scanner.offset - len(payload) - OVERHEAD, str(error)) from error
        if values and (not pending or event.step != pending_step):
            _write(writer, pending_step, pending, run.written)
            pending, pending_step, now = {}, event.step, event.wall_time
        for kind, tag, value in values:
            if isinstance(value, UserDefinedInfo):
                writer.write_lineage(value)
                run.written[kind] += 1
            else:
                pending[kind, tag] = value
    _write(writer, pending_step, pending, run.written)
    writer.release()


def _write(
    writer: EventWriter, step: int, pending: Mapping[tuple[str, str], SummaryValue], written: Counter[str]
) -> None:
    if pending:
        writer.write_values(step, [(tag, value) for (_, tag), value in pending.items()])
        written.update(kind for kind, _ in pending)


def _values(tb: SimpleNamespace, event: Any, skipped: Counter[str]) -> Iterator[tuple[str, str, Any]]:
    if event.WhichOneof("what") == "graph_def":
        skipped["graph"] += 1
    for message in event.summary.value:
        plugin = message.metadata.plugin_data.plugin_name
        kind = message.WhichOneof("value")
        tag = message.tag or message.node_name
        if plugin == "hparams":
            yield from _hparams(tb, message)
        elif kind == "simple_value":
            yield "scalar", tag, float(message.simple_value)
        elif kind == "image":
            image = message.image
            yield "image", tag, Image(image.height, image.width, image.encoded_image_string, image.colorspace or 3)
        elif kind == "histo":
            yield "histogram", tag, _old_histogram(message.histo)
        elif kind == "tensor":
            array = _array(tb, message.tensor)
            found = [] if array is None else list(_of_tensor(tag, plugin, array))
            yield from found
            if not found:
                skipped[plugin or "tensor"] += 1
        else:
            skipped[plugin or kind or "empty value"] += 1


def _of_tensor(tag: str, plugin: str, array: np.ndarray[Any, Any]) -> Iterator[tuple[str, str, Any]]:
    if plugin == "scalars" and array.size == 1:
        yield "scalar", tag, float(array.reshape(()))
    elif plugin == "images" and array.ndim == 1:
        width, height, *encoded = array.tolist()
        for index, data in enumerate(encoded):
            yield "image", f"{tag}/{index}" if index else tag, Image(int(height), int(width), data)
    elif plugin == "histograms" and array.ndim == 2 and array.shape[1] == 3:
        yield "histogram", tag, _new_histogram(array)
    elif array.dtype.kind in "biuf" and plugin in _TENSOR_PLUGINS:
        yield "tensor", tag, Tensor(array)


def _array(tb: SimpleNamespace, tensor: Any) -> np.ndarray[Any, Any] | None:
    """The numbers of a tensor; ``None`` if NumPy has none of its type, or its values are of another."""
    # A few bytes may claim any shape: the one value of a message fills it all.
    size = math.prod(dim.size for dim in tensor.tensor_shape.dim)
    if not 0 <= size <= MAX_ELEMENTS:
        raise ValueError(f"a tensor of {size} elements; MindInsight reads at most {MAX_ELEMENTS}")
    array: np.ndarray[Any, Any]
    if any(not 0 <= value < 1 << 16 for value in tensor.half_val):
        # torch's ``add_tensor`` writes 16-bit floats with the bits of their float32, which TensorBoard cannot read.
        array = np.array(tensor.half_val, np.int32).view(np.float32)
        return array.reshape([dim.size for dim in tensor.tensor_shape.dim])
    try:
        array = tb.make_ndarray(tensor)
    except (KeyError, TypeError, OverflowError):
        return None
    return array


def _old_histogram(histo: Any) -> Histogram:
    edges = np.array([histo.min, *histo.bucket_limit])
    edges[0] = min(edges[:2])  # torch writes one limit for an empty first bucket, TensorFlow none
    counts = np.array(histo.bucket, np.float64)
    number = int(histo.num) if histo.num else None
    return histogram_of_buckets(edges, counts, histo.min, histo.max, count=number, total=histo.sum)


def _new_histogram(array: np.ndarray[Any, Any]) -> Histogram:
    if not len(array):
        return Histogram(np.empty(0), np.empty(0), np.empty(0, np.int64), 0)
    edges = np.concatenate([array[:1, 0], array[:, 1]])
    return histogram_of_buckets(edges, array[:, 2].astype(np.float64), float(array[0, 0]), float(array[-1, 1]))


def _hparams(tb: SimpleNamespace, message: Any) -> Iterator[tuple[str, str, UserDefinedInfo]]:
    content = tb.HParams.FromString(message.metadata.plugin_data.content)
    found = {
        name: getattr(value, value.WhichOneof("kind"))
        for name, value in content.session_start_info.hparams.items()
        if value.WhichOneof("kind") in ("number_value", "string_value", "bool_value")
    }
    whole = {name: int(fact) if isinstance(fact, float) and fact.is_integer() else fact for name, fact in found.items()}
    flat = flatten(whole)
    if flat:
        yield "hparams", message.tag, UserDefinedInfo(flat)
