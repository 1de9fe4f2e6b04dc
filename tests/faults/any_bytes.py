"""What must hold of a run directory whose files are any bytes at all; the fuzzer and the cases it
found both ask here.

Every way of reading gives something or the one documented error, ``DamagedFileError``; after
``repair`` every way of reading gives something. Whatever else is raised is a find.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path

from mindsummary_lightning import SummaryReader
from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat.framing import OVERHEAD
from mindsummary_lightning.fileio.salvage import read_pieces
from mindsummary_lightning.fileio.scan import RecordScanner
from mindsummary_lightning.fileio.torn_tail import cut_torn_tail
from mindsummary_lightning.lineage.query import filter_summary_lineage, get_summary_lineage
from mindsummary_lightning.lineage.table import lineage_records
from mindsummary_lightning.maintenance.repair import repair_run
from mindsummary_lightning.maintenance.verify import verify_run
from mindsummary_lightning.reading.run_directory import lineage_file_paths, summary_files
from mindsummary_lightning.values import Image
from mindsummary_lightning.values.events import kind_of


def write_run(run: Path, summaries: list[bytes], lineages: list[bytes]) -> None:
    """A run of some files, each with its bytes, one second after the other."""
    run.mkdir()
    for suffix, contents in (("MS", summaries), ("lineage", lineages)):
        for second, data in enumerate(contents, start=1_700_000_000):
            (run / f"events.out.events.summary.{second}.0.h_{suffix}").write_bytes(data)


def check_any_bytes(run: Path) -> None:
    """Read a run in every way, repair it, and read it again.

    Raises:
        AssertionError: what is read contradicts itself, or something is damaged after the repair.
        Exception: whatever the package raises and does not document.
    """
    for read in ways_of_reading(run):
        with suppress(DamagedFileError):
            read()
    _query(run)
    damaged = {finding.path for finding in verify_run(str(run)) if finding.is_damage}
    for path in _files(run):
        _cut(path, str(run.with_suffix(".cut")))

    repaired = repair_run(str(run))

    assert {file.path for file in repaired} == damaged
    for file in repaired:
        if not file.records:  # nothing of it can be read, and it is left as it is
            os.unlink(file.path)
    for read in ways_of_reading(run):
        read()
    _query(run)
    assert not [finding for finding in verify_run(str(run)) if finding.is_damage]
    assert repair_run(str(run)) == []


def ways_of_reading(run: Path) -> Iterator[Callable[[], None]]:
    """Everything that a reader can be asked about a run."""
    reader = SummaryReader(run)
    for path in _files(run):
        yield partial(_scan, path)
    yield partial(_read_values, reader)
    yield partial(_read_events, reader)
    yield lambda: _assert_text(reader.lineage())


def _files(run: Path) -> list[str]:
    return [*summary_files(str(run)), *lineage_file_paths(str(run))]


def _query(run: Path) -> None:
    # A query leaves a damaged file out and says so in the log.
    if lineage_file_paths(str(run)):
        json.dumps(get_summary_lineage(run))
    json.dumps(filter_summary_lineage(run, {"sorted_name": "loss"}))
    lineage_records(run)


def _cut(path: str, copy: str) -> None:
    shutil.copyfile(path, copy)
    before = _payloads(path)
    *others, last = [*read_pieces(path)] or [None]
    is_torn = last is not None and last.is_tail and all(piece.payload for piece in others)
    assert (cut_torn_tail(copy) > 0) == is_torn
    assert _payloads(copy) == before
    os.unlink(copy)


def _payloads(path: str) -> list[bytes]:
    found: list[bytes] = []
    with suppress(DamagedFileError):
        found.extend(RecordScanner(path))
    return found


def _scan(path: str) -> None:
    scanner = RecordScanner(path)
    assert (
        sum(len(payload) + OVERHEAD for payload in scanner)
        == scanner.offset
        <= os.path.getsize(path)
    )


def _read_values(reader: SummaryReader) -> None:
    tags = reader.tags()
    series = reader.all_scalars()
    assert list(series) == tags["scalar"]
    for tag in tags["scalar"][:3]:
        assert len(reader.scalars(tag)) == len(series[tag]) > 0
    _assert_text(reader.graph())
    assert {landscape.tag for landscape in reader.landscapes()} == set(tags["loss_landscape"])
    for kind, read in (
        ("histogram", reader.histograms),
        ("image", reader.images),
        ("tensor", reader.tensors),
    ):
        for tag in tags[kind][:3]:
            steps = [step for step, _, _ in read(tag)]
            assert steps == sorted(set(steps))
            assert steps
            if kind == "image":
                with suppress(DamagedFileError):  # a whole record may hold what is no picture
                    assert len(list(reader.pictures(tag))) == len(steps)


def _read_events(reader: SummaryReader) -> None:
    tags: dict[str, set[str]] = {}
    for event in reader.events():
        _assert_text(event.what)
        for tag, value in event.what if isinstance(event.what, tuple) else ():
            tags.setdefault(kind_of(value), set()).add(tag)
    assert {kind: sorted(found) for kind, found in tags.items()} == {
        kind: found for kind, found in reader.tags().items() if found
    }


def _assert_text(value: object) -> None:
    """Nothing in it is text that nobody decoded."""
    assert not isinstance(value, bytes)
    if isinstance(value, Mapping):
        for item in value.items():
            _assert_text(item)
    elif isinstance(value, (tuple, list)):
        for element in value:
            _assert_text(element)
    elif is_dataclass(value) and not isinstance(value, Image):
        for field in fields(value):
            _assert_text(getattr(value, field.name))
