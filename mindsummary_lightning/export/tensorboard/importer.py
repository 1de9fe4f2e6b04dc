"""Import TensorBoard event files as MindInsight runs."""

from __future__ import annotations

import contextlib
import logging
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

from mindsummary_lightning.conversion.arguments import refuse_remote
from mindsummary_lightning.conversion.hyperparameters import plain_value
from mindsummary_lightning.export.output_directory import OutputDirectory
from mindsummary_lightning.export.tensorboard.messages import messages
from mindsummary_lightning.export.tensorboard.value_codec import decode_value
from mindsummary_lightning.fileformat.framing import frame, total_length
from mindsummary_lightning.fileformat.summary_codec import VERSION, encode_event, encode_step
from mindsummary_lightning.fileio.append import RecordFile
from mindsummary_lightning.fileio.salvage import Piece, read_pieces
from mindsummary_lightning.reading.summary_reader import SummaryReader
from mindsummary_lightning.recording.event_files import EventFiles, FileOptions
from mindsummary_lightning.recording.lineage_file import LineageFileWriter
from mindsummary_lightning.values import Event, SummaryValue, UserDefinedInfo
from mindsummary_lightning.values.addresses import without_local_scheme
from mindsummary_lightning.values.limits import MAX_EVENT
from mindsummary_lightning.values.lineage_info import EXACT_MAX

_LOG = logging.getLogger(__name__)

# wall times in milliseconds are beyond it; a file of that name would end MindInsight's listing
_MAX_SECOND = 1e11


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """A MindInsight run that was made from TensorBoard event files, with counts.

    Attributes:
        source: the directory with TensorBoard's event files.
        run_dir: the MindInsight run.
        written: number of samples that can be read in the run, by kind.
        skipped: number of samples that MindInsight cannot show, by their kind (text, audio, ...).
        changed: number of samples that differ from TensorBoard's, by a text about the difference.
        dropped: number of replaced samples, by kind. A sample is replaced by a later sample of the
            same tag and step, or by a later event file that goes back to an earlier step, as a
            resumed training does.
        problems: number of values and records that are damaged or beyond MindInsight's limits, by
            a text about the problem and its first place. They are skipped, and everything else is
            imported.
    """

    source: str
    run_dir: str
    written: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)


def event_files(
    directory: str, on_error: Callable[[OSError], object] | None = None
) -> dict[str, list[str]]:
    """Find the TensorBoard event files in a directory at any depth.

    Args:
        directory: the directory.
        on_error: called with the error for every directory in it that cannot be listed.

    Returns:
        The paths of the event files, in the order of their names, by directory.

    Raises:
        OSError: the directory itself cannot be listed.
    """
    os.scandir(directory).close()  # os.walk ignores a directory that does not exist
    found: dict[str, list[str]] = {}
    for folder, below, names in os.walk(directory, onerror=on_error):
        below.sort()
        paths = [os.path.join(folder, name) for name in sorted(names) if ".tfevents." in name]
        # opening a FIFO would wait for ever
        paths = [path for path in paths if os.path.isfile(path)]
        if paths:
            found[folder] = paths
    return found


def import_tensorboard(
    tb_dir: str,
    out_dir: str,
    progress: Callable[[int], object] = lambda count: None,
    *,
    force: bool = False,
) -> list[ImportedRun]:
    """Convert the TensorBoard event files in a directory to MindInsight runs.

    Scalars, images, histograms and tensors become values, and hparams become lineage (settings).

    Files of torch, tensorboardX and Keras can be read. Each directory becomes a run: ``tb_dir``
    itself becomes ``out_dir``, ``tb_dir/a/b`` becomes ``out_dir/a-b``, because MindInsight lists
    one level. The runs appear when all are complete. Neighbouring values of the same step are
    written together, with the wall time of the first value. Damaged values, and values beyond
    MindInsight's limits, are skipped and counted.

    Args:
        tb_dir: a directory with event files at any depth.
        out_dir: the output directory, which must be new or empty.
        progress: called with numbers of bytes read.
        force: replace the files of an earlier import in ``out_dir``.

    Raises:
        ImportError: the ``tensorboard`` package is missing.
        FileNotFoundError: there is no event file.
        FileExistsError: ``out_dir`` is not empty, or holds files that no earlier import wrote, or
            two directories would become runs of the same name.
        OSError: a run cannot be written.
        RemotePathError: ``out_dir`` is not local.
    """
    refuse_remote("out_dir", out_dir)
    tb_dir, out_dir = without_local_scheme(tb_dir), without_local_scheme(out_dir)
    tb = messages()
    sources = event_files(
        tb_dir, partial(_LOG.warning, "skipped a directory that cannot be listed: %s")
    )
    if not sources:
        raise FileNotFoundError(f"no TensorBoard event file in {tb_dir}")
    runs: dict[str, ImportedRun] = {}
    for folder in sources:
        parts = os.path.relpath(folder, tb_dir).split(os.sep)
        name = "" if parts == ["."] else "-".join(parts)
        if name in runs:
            raise FileExistsError(
                f"{folder} and {runs[name].source} would both become run {name}. "
                "Import one directory at a time"
            )
        runs[name] = ImportedRun(folder, os.path.join(out_dir, name) if name else out_dir)
    with OutputDirectory(out_dir, force=force) as out:
        for name, run in runs.items():
            directory = os.path.join(out.unfinished, name)
            os.makedirs(directory, exist_ok=not name)
            _RunImport(tb, run, directory).read(sources[run.source], progress)
    return list(runs.values())


class _RunImport:
    """Converter of the event files of a TensorBoard run to a MindInsight run."""

    def __init__(self, tb: SimpleNamespace, run: ImportedRun, directory: str) -> None:
        self._tb = tb
        self._run = run
        self._directory = directory
        self._second = 0
        self._purged_from = math.inf
        self._wall_time = 0.0
        self._files = EventFiles(directory, FileOptions(), lambda: self._second)
        self._lineage = LineageFileWriter(self._files, lambda: self._wall_time)
        self._file: RecordFile | None = None
        self._plugins: dict[str, str] = {}
        self._names: dict[tuple[str, str], tuple[str, int]] = {}
        self._decoded: Counter[str] = Counter()
        self._pending: dict[tuple[str, str], SummaryValue] = {}
        self._pending_step = 0
        self._pending_time = 0.0
        self._problems: dict[tuple[str, str], str] = {}

    def read(self, paths: Iterable[str], progress: Callable[[int], object]) -> None:
        paths = list(paths)
        purges = [self._purge_step(path) for path in paths]
        for number, path in enumerate(paths, 1):
            self._purged_from = min(purges[number:], default=math.inf)
            for piece in self._pieces(path):
                progress(piece.end - piece.start)
                if piece.payload is not None:
                    self._read_event(piece.payload, f"byte {piece.start} of {path}")
                elif not piece.is_tail:
                    self._skip("", f"{piece.damage}", f"byte {piece.start} of {path}")
            self._write_pending(path)
            # MindInsight lets a later file replace the end of an earlier one, as a resumed run
            # needs
            self._close()
        self._count()

    def _purge_step(self, path: str) -> float:
        """Return the step from which an event file replaces the files before it.

        ``SummaryWriter(purge_step=...)`` sets it; otherwise it is infinite.
        """
        with contextlib.suppress(OSError, self._tb.DecodeError):  # named where it is read
            for piece in read_pieces(path):
                event = self._tb.Event.FromString(piece.payload or b"")
                if event.session_log.status == self._tb.START:
                    return float(event.step)
                if event.summary.value:
                    break
        return math.inf

    def _pieces(self, path: str) -> Iterator[Piece]:
        try:
            # of a foreign logger, which may be a link
            yield from read_pieces(os.path.realpath(path))
        except OSError as error:
            self._skip("", f"{error}", path)

    def _read_event(self, payload: bytes, place: str) -> None:
        try:
            event = self._tb.Event.FromString(payload)
        except self._tb.DecodeError:
            self._skip("", "a record that is not an event of TensorBoard", place)
            return
        if event.WhichOneof("what") == "graph_def":
            self._run.skipped["graph"] += 1
        if math.isfinite(event.wall_time):
            self._wall_time = event.wall_time
        else:
            change = "wall time: NaN or infinite, replaced by the time of the value before"
            self._run.changed[change] += len(event.summary.value)
        if not self._second and 0 <= self._wall_time < _MAX_SECOND:
            self._second = int(self._wall_time)
        for message in event.summary.value:
            tag = message.tag or message.node_name
            # Only the first value of a tag has to name its plugin.
            own_plugin = message.metadata.plugin_data.plugin_name
            plugin = self._plugins.setdefault(tag, own_plugin) or own_plugin
            try:
                # its own plugin: another value may have the tag
                if own_plugin == "hparams":
                    self._write_settings(message)
                else:
                    self._take(event.step, tag, message, plugin, place)
            except (ArithmeticError, ValueError, self._tb.DecodeError) as error:
                self._skip(tag, f"{error}", place)

    def _take(self, step: int, tag: str, message: Any, plugin: str, place: str) -> None:
        decoded = decode_value(self._tb, message, plugin)
        if not decoded.values:
            self._run.skipped[decoded.kind] += 1
            return
        if not tag:
            raise ValueError(
                f"the record holds a value ({decoded.kind}) that has no tag; the file is corrupt "
                "or not a TensorBoard event file"
            )
        if step >= self._purged_from:
            self._decoded[decoded.kind] += len(decoded.values)
            return
        if self._pending and step != self._pending_step:
            self._write_pending(place)
        if not self._pending:
            self._pending_step, self._pending_time = step, self._wall_time
        if decoded.change:
            self._run.changed[decoded.change] += 1
        if self._wall_time != self._pending_time:
            change = "wall time: replaced by the time of the first value of the step"
            self._run.changed[change] += len(decoded.values)
        for index, value in enumerate(decoded.values):
            self._pending[decoded.kind, self._name(decoded.kind, tag, index)] = value
            self._decoded[decoded.kind] += 1

    def _name(self, kind: str, tag: str, index: int) -> str:
        """Return a tag for a value of a message that no value of another message gets.

        ``index`` counts the images in the message from 0; it is appended to the tag if it is not 0.
        """
        name = f"{tag}/{index}" if index else tag
        while self._names.setdefault((kind, name), (tag, index)) != (tag, index):
            name += f"/{index}"
        if name != tag and not index:
            self._run.changed["tag: renamed, because an image of another tag has the name"] += 1
        return name

    def _write_settings(self, message: Any) -> None:
        content = self._tb.HParams.FromString(message.metadata.plugin_data.content)
        settings: dict[str, Any] = {}
        for name, value in content.session_start_info.hparams.items():
            kind = value.WhichOneof("kind")
            number = value.number_value
            if kind == "number_value" and number.is_integer() and abs(number) <= EXACT_MAX:
                settings[name] = int(number)
            elif kind in ("number_value", "string_value", "bool_value"):
                settings[name] = plain_value(getattr(value, kind))
                if isinstance(settings[name], str) and kind == "number_value":
                    self._run.changed["hparams: NaN or infinite, written as text"] += 1
                elif kind == "bool_value":
                    self._run.changed["hparams: true written as 1, false as 0"] += 1
            else:
                self._run.skipped["hparams without a value"] += 1
        if settings:
            self._lineage.write(UserDefinedInfo(settings))
            self._run.written["hparams"] += 1

    def _write_pending(self, place: str) -> None:
        pairs = [(tag, value) for (_, tag), value in self._pending.items()]
        self._pending = {}
        if not pairs:
            return
        for payload in encode_step(self._pending_time, self._pending_step, pairs):
            size = total_length(payload)
            if size > MAX_EVENT:
                problem = f"an event of {size} bytes; MindInsight takes at most {MAX_EVENT}"
                self._skip("", problem, place)
                continue
            if self._file is None:
                self._file = self._files.create()
                self._file.append(frame(encode_event(Event(self._pending_time, 0, VERSION))))
            self._file.append(frame(payload))

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file, self._second = None, 0
            self._files.reset_second()

    def _count(self) -> None:
        """Count the samples that can be read in the new run, and the replaced samples."""
        reader = SummaryReader(self._directory)
        tags = reader.tags()
        numbers = {"scalar": sum(map(len, reader.all_scalars().values()))}
        for kind, read in (
            ("image", reader.images),
            ("histogram", reader.histograms),
            ("tensor", reader.tensors),
        ):
            numbers[kind] = 0
            for tag in tags[kind]:
                numbers[kind] += sum(1 for _ in read(tag))
        for kind, number in numbers.items():
            if number:
                self._run.written[kind] = number
            if number < self._decoded[kind]:
                self._run.dropped[kind] = self._decoded[kind] - number

    def _skip(self, tag: str, problem: str, place: str) -> None:
        first = f"{tag!r}: {problem}, {place}" if tag else f"{problem}, {place}"
        self._run.problems[self._problems.setdefault((tag, problem), first)] += 1
