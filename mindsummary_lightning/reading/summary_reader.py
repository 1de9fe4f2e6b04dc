"""``SummaryReader``: reads a run as NumPy arrays and plain Python values.

MindSpore or this package recorded the run.

A facade of ``FollowedRun`` that raises on damage. Several files of a resumed run are merged
as MindInsight does it. Neither torch nor MindSpore is needed.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar, cast

from mindsummary_lightning.fileformat.file_names import read_order
from mindsummary_lightning.fileformat.lineage_codec import decode_lineage_event
from mindsummary_lightning.fileformat.summary_codec import decode_event, decode_value
from mindsummary_lightning.fileio.scan import RecordScanner
from mindsummary_lightning.reading.decode import OpenFiles, read_graph
from mindsummary_lightning.reading.followed_file import LocatedSample
from mindsummary_lightning.reading.followed_run import FollowedRun
from mindsummary_lightning.reading.landscape_plot import RecordedLandscape
from mindsummary_lightning.reading.lineage_text import RunLineage
from mindsummary_lightning.reading.output_statistics import OutputStatistics, read_output_statistics
from mindsummary_lightning.reading.parameter_tables import ParameterTable, read_parameter_table
from mindsummary_lightning.reading.run_directory import (
    lineage_file_paths,
    local_path,
    summary_files,
)
from mindsummary_lightning.reading.run_numbers import HistogramStatistics, read_statistics
from mindsummary_lightning.reading.run_tree import find_run_directories
from mindsummary_lightning.reading.series import (
    Sample,
    ScalarSeries,
    html_table,
    scalar_table,
)
from mindsummary_lightning.values import (
    DatasetGraph,
    EvaluationInfo,
    Event,
    Graph,
    Histogram,
    Image,
    RunInfo,
    Tensor,
    TrainInfo,
    UserDefinedInfo,
)
from mindsummary_lightning.values.lineage_info import CustomValue
from mindsummary_lightning.values.text import listed

if TYPE_CHECKING:
    import pandas
    import PIL.Image

_T = TypeVar("_T")

_LINEAGE_NAMES = {TrainInfo: "train", EvaluationInfo: "evaluation", DatasetGraph: "dataset"}


class SummaryReader:
    """Reads a run directory; every call reads the run in its present state.

    The files are read once, however many tags are asked for, and only what has been added is read
    later. Scalars are held in memory, of all other values only where they lie, so a run larger than
    memory can be read; no file stays open.

    An incomplete last record is ignored until it is complete. A damaged record ends the call with
    :class:`~mindsummary_lightning.errors.DamagedFileError`; ``mindsummary repair`` recovers what
    can be recovered. A directory without event files is an empty run; one with runs below it is not
    a run, and reading it raises a ``FileNotFoundError`` that names them.

    Args:
        run_dir: the directory with the summary and lineage files.

    Raises:
        NotADirectoryError: ``run_dir`` is not a directory.
    """

    def __init__(self, run_dir: str | os.PathLike[str]) -> None:
        self.run_dir: str = local_path("run_dir", run_dir)
        if not os.path.isdir(self.run_dir):
            named = self.run_dir or "''"
            raise NotADirectoryError(
                f"{named} is not a directory; give the directory with the run's event files"
            )
        self._run = FollowedRun(self.run_dir, on_damage="raise")

    def __reduce__(self) -> tuple[type[SummaryReader], tuple[str]]:  # to a process of workers
        return type(self), (self.run_dir,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.run_dir!r})"

    def _repr_html_(self) -> str:
        table = html_table({kind: ", ".join(tags) for kind, tags in self.tags().items()})
        return f"<b>{escape(self.run_dir)}</b>{table}"

    def __fspath__(self) -> str:
        return self.run_dir

    def __contains__(self, tag: object) -> bool:
        return any(tag in tags for tags in self._refreshed().tags().values())

    # ---- values

    def tags(self) -> dict[str, list[str]]:
        """Return the sorted tags of each kind, without the suffix of MindInsight.

        The kinds are scalar, image, tensor, histogram and loss_landscape.

        Raises:
            DamagedFileError: a file is damaged.
        """
        return {kind: [*tags] for kind, tags in self._refreshed().tags().items()}

    def scalars(self, tag: str) -> ScalarSeries:
        """Return all samples of a scalar.

        Raises:
            LookupError: the run has no scalar of this tag.
            DamagedFileError: a file is damaged.
        """
        return self._refreshed().scalars(tag)

    def all_scalars(self) -> dict[str, ScalarSeries]:
        """Return every scalar of the run by its tag; tags are sorted.

        Raises:
            DamagedFileError: a file is damaged.
        """
        run = self._refreshed()
        return {tag: run.scalars(tag) for tag in run.tags()["scalar"]}

    def histograms(self, tag: str) -> Iterator[Sample[Histogram]]:
        """Yield the samples of a histogram: step, wall time in seconds and value.

        They come in order of their steps, and are decoded when they are asked for.

        Raises:
            LookupError: the run has no histogram of this tag.
            DamagedFileError: a file is damaged.
        """
        return self._values("histogram", tag)

    def histogram_statistics(self) -> dict[str, HistogramStatistics]:
        """Return minimum, maximum, mean and counts of every histogram, by its tag.

        Buckets are not decoded.

        Raises:
            DamagedFileError: a file is damaged.
        """
        return read_statistics(self._refreshed())

    def images(self, tag: str) -> Iterator[Sample[Image]]:
        """Read the encoded images of a tag; yields and raises as :meth:`histograms`."""
        return self._values("image", tag)

    def pictures(self, tag: str) -> Iterator[Sample[PIL.Image.Image]]:
        """Open the images of a tag with Pillow; yields as :meth:`histograms`.

        Pillow reads PNG, JPEG, GIF, BMP and WebP.

        Raises:
            LookupError: the run has no image of this tag.
            DamagedFileError: a file is damaged, or Pillow cannot open an image or takes it for a
                decompression bomb.
        """
        return self._values("image", tag, _opened_picture)

    def tensors(self, tag: str) -> Iterator[Sample[Tensor]]:
        """Read the tensors of a tag; yields and raises as :meth:`histograms`."""
        return self._values("tensor", tag)

    def parameter_statistics(self) -> ParameterTable | None:
        """Return the statistics of every parameter, or ``None``.

        ``collect_parameter_statistics`` records them.

        Raises:
            DamagedFileError: a file is damaged.
        """
        return read_parameter_table(self._refreshed())

    def output_statistics(self) -> OutputStatistics | None:
        """Return the output statistics of every recorded step, or ``None``.

        ``collect_output_statistics`` records it.

        Raises:
            DamagedFileError: a file is damaged.
        """
        return read_output_statistics(self._refreshed())

    def landscapes(self) -> list[RecordedLandscape]:
        """Return every loss landscape of the run, by tag and step.

        Raises:
            DamagedFileError: a file is damaged.
        """
        run = self._refreshed()
        found = []
        for tag in run.tags()["loss_landscape"]:
            for step, wall_time, value in _read_values(run.samples("loss_landscape", tag)):
                landscape = RecordedLandscape(
                    tag,
                    step,
                    wall_time,
                    x=value.surface.x,
                    y=value.surface.y,
                    z=value.surface.z,
                    intervals=value.intervals,
                    path=value.path,
                    convergence_point=value.convergence_point,
                    metadata=value.metadata,
                )
                found.append(landscape)
        return found

    def graph(self) -> Graph | None:
        """Return the newest computational graph in the summary files, or ``None``.

        Raises:
            DamagedFileError: a file is damaged.
        """
        newest = [graph for graph in self._refreshed().graphs() if not graph.is_model]
        return read_graph(newest[0])[0] if newest else None

    def lineage(self) -> RunLineage:
        """Return the newest lineage of each kind, with all custom data merged.

        As in MindInsight, a file with training or dataset lineage replaces all earlier files: it is
        of another training, or repeats what they say.

        Raises:
            DamagedFileError: a file is damaged.
        """
        newest: dict[str, Any] = {}
        custom: dict[type, dict[str, CustomValue]] = {}
        self._check_is_run()
        for path in lineage_file_paths(self.run_dir):
            events = RecordScanner(path).decoded(decode_lineage_event)
            contents = [event.what for event in events]
            if any(isinstance(content, (TrainInfo, DatasetGraph)) for content in contents):
                newest, custom = {}, {}
            for content in contents:
                if isinstance(content, UserDefinedInfo):
                    custom.setdefault(type(content), {}).update(content.values)
                elif content is not None:
                    newest[_LINEAGE_NAMES[type(content)]] = content
        # the user's entries count before the entries that the run notes of itself, as in queries
        if custom:
            newest["custom"] = UserDefinedInfo(
                {**custom.get(RunInfo, {}), **custom.get(UserDefinedInfo, {})}
            )
        return RunLineage(**newest)

    # ---- events

    def events(self) -> Iterator[Event]:
        """Yield every event of the run in file order, even if later events replace it.

        Raises:
            DamagedFileError: a file is damaged; the events before it have been yielded.
        """
        self._check_is_run()
        for path in summary_files(self.run_dir):
            yield from RecordScanner(path).decoded(decode_event)

    def follow(
        self,
        *,
        poll_s: float = 0.5,
        timeout_s: float | None = None,
        stop: Callable[[], bool] | None = None,
        wait: Callable[[float], object] = time.sleep,
    ) -> Iterator[Event]:
        """Yield every recorded event, then every new event as the run grows.

        A later file is followed when it appears. A file or directory that is removed, as by a
        training that begins again, is no end: the next file is followed from its start.

        Args:
            poll_s: seconds between two reads of the files.
            timeout_s: give up after this many seconds of waiting without a new event; ``None``
                never does.
            stop: called whenever there is no new event; a true result ends the loop.
            wait: waits that many seconds; a ``threading.Event().wait`` can be cut short.

        Raises:
            DamagedFileError: a file is damaged.
            FileNotFoundError: the directory is not a run but contains runs.
        """
        self._check_is_run()
        has_stopped = stop or (lambda: False)
        limit_s = math.inf if timeout_s is None else timeout_s
        events = _EventFollower(self.run_dir)
        waited = 0.0
        while True:
            for event in events.read():
                waited = 0.0
                yield event
            if has_stopped() or waited >= limit_s:
                return
            wait(poll_s)
            waited += poll_s

    def to_pandas(self) -> pandas.DataFrame:
        """Return all scalars as a table, with one row per sample.

        The columns are ``tag`` (categorical), ``step``, ``wall_time`` (seconds) and ``value``
        (float32).

        Raises:
            ImportError: pandas is not installed.
            DamagedFileError: a file is damaged.
        """
        found = self.all_scalars()
        return scalar_table({"tag": [*found]}, [*found.values()])

    def _values(
        self, kind: str, tag: str, decode: Callable[[bytes], Any] = decode_value
    ) -> Iterator[Sample[Any]]:
        return _read_values(self._refreshed().samples(kind, tag), decode)

    def _refreshed(self) -> FollowedRun:
        self._run.refresh()
        if not any(self._run.tags().values()):
            self._check_is_run()
        return self._run

    def _check_is_run(self) -> None:
        """Raise an error if the directory contains runs but is not itself a run."""
        if summary_files(self.run_dir) or lineage_file_paths(self.run_dir):
            return
        runs = [os.path.relpath(path, self.run_dir) for path in find_run_directories(self.run_dir)]
        if runs:
            below = listed(runs, 5)
            raise FileNotFoundError(
                f"{self.run_dir} itself contains no event file. Give one of the runs in it: {below}"
            )


def table_of(reader: SummaryReader) -> FollowedRun:
    """Return the ``FollowedRun`` in a reader, after reading newly written records.

    Raises as :meth:`SummaryReader.tags`.
    """
    return reader._refreshed()


class _EventFollower:
    """Reads the events of a run while its files are growing."""

    def __init__(self, run_dir: str) -> None:
        self._run_dir = run_dir
        self._scanner: RecordScanner | None = None

    def read(self) -> Iterator[Event]:
        """Yield the events that are new since the last call."""
        while True:
            paths = self._summary_files()
            self._scanner, later = _file_to_read(paths, self._scanner)
            if self._scanner is None or self._scanner.path not in paths:
                return
            try:
                self._scanner = _restarted_if_rewritten(self._scanner)
                yield from self._scanner.decoded(decode_event)
            except FileNotFoundError:  # removed since it was listed
                continue
            # Listed before it was read: all records that were written to it before a later file
            # was started have been read.
            if not later:
                return
            self._scanner = RecordScanner(later[0])

    def _summary_files(self) -> list[str]:
        """Return the paths of the summary files; empty if the directory was removed."""
        try:
            return summary_files(self._run_dir)
        except FileNotFoundError:
            return []


def _file_to_read(
    paths: list[str], scanner: RecordScanner | None
) -> tuple[RecordScanner | None, list[str]]:
    """Choose the file to read now, and return it with the files that follow.

    Without files there is no scanner: a file that comes later belongs to another run, even by an
    earlier name. A scanner whose file is gone stays until there is a later file.
    """
    if not paths:
        return None, []
    if scanner is None:
        return RecordScanner(paths[0]), paths[1:]
    later = _later_files(paths, scanner.path)
    if later and scanner.path not in paths:
        return RecordScanner(later[0]), later[1:]
    return scanner, later


def _restarted_if_rewritten(scanner: RecordScanner) -> RecordScanner:
    """Return a new scanner if the file was rewritten, else the given scanner."""
    if scanner.was_rewritten():
        return RecordScanner(scanner.path)
    return scanner


def _later_files(paths: list[str], path: str) -> list[str]:
    """Return in reading order the files after ``path``, even if ``path`` is gone."""
    names = read_order({*map(os.path.basename, paths), os.path.basename(path)})
    later = names[names.index(os.path.basename(path)) + 1 :]
    return [other for other in paths if os.path.basename(other) in later]


def _read_values(
    samples: list[LocatedSample], decode: Callable[[bytes], Any] = decode_value
) -> Iterator[Sample[Any]]:
    with OpenFiles() as files:
        for sample in samples:
            yield Sample((sample.step, sample.wall_time, files.decoded(sample.location, decode)))


def _opened_picture(message: bytes) -> PIL.Image.Image:
    try:
        return cast("Image", decode_value(message)).to_pil()
    except Exception as error:  # each of Pillow's readers has errors of its own
        raise ValueError(f"the image cannot be opened: {error}") from error
