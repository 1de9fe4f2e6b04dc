"""The tags of runs, found in the beginning and the end of large files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat.framing import HEADER_SIZE, frame
from mindsummary_lightning.fileio.blocks import BLOCK
from mindsummary_lightning.reading.tag_survey import TagSurvey
from mindsummary_lightning.values import Graph, GraphNode, Tensor
from mindsummary_lightning.values.events import Event
from tests.reading.runs import histogram, record, values_at, write_summary

_LOSS = values_at(1, {"loss": 0.5}) * 2000
_BROKEN = b"".join(frame([b"no event"]))


def _large(*between: bytes) -> list[bytes]:
    """The records of a file with one or more others between many of a loss."""
    records = [values_at(0, {"first": 1.0, "h": histogram(1)}), _LOSS]
    for other in between:
        records += [other, _LOSS]
    return records


def test_the_middle_of_a_large_file_is_read_only_where_it_must_be_exact(tmp_path: Path) -> None:
    middle, last = values_at(5, {"middle": 1.0}), values_at(9, {"last": 1.0, "end/h": histogram(2)})
    large = write_summary(tmp_path, [*_large(middle), last], 100)
    small = write_summary(tmp_path, [values_at(1, {"small": 1.0, "t": Tensor(np.zeros(2))})], 200)
    ends = {("scalar", "first"), ("scalar", "loss"), ("scalar", "last")}
    ends |= {("histogram", "h"), ("histogram", "end/h")}
    of_small = {("scalar", "small"), ("tensor", "t")}
    survey = TagSurvey()

    for paths in ([large, small], [small, large]):
        assert survey.tags(map(str, paths)) == (ends | of_small, False)
        assert survey.tags(map(str, paths), is_exact=True) == (
            *(ends | of_small | {("scalar", "middle")}, True),
        )
    assert survey.tags([str(small)]) == (of_small, True)
    assert survey.tags([]) == (set(), True)


def test_an_exact_survey_reads_beyond_the_first_block(tmp_path: Path) -> None:
    long = [_LOSS] * (2 * BLOCK // len(_LOSS))
    path = write_summary(tmp_path, [*long, values_at(5, {"middle": 1.0}), *long])

    assert TagSurvey().tags([str(path)], is_exact=True) == (
        {("scalar", "loss"), ("scalar", "middle")},
        True,
    )


def test_the_values_behind_a_large_graph_are_read(tmp_path: Path) -> None:
    graph = record(Event(1.0, 0, Graph((GraphNode("x" * 100_000, "ReLU"),))))
    path = write_summary(tmp_path, [graph, *_large(values_at(5, {"middle": 1.0}))])

    tags, is_whole = TagSurvey().tags([str(path)])

    assert (tags, is_whole) == (
        {("scalar", "first"), ("histogram", "h"), ("scalar", "loss")},
        False,
    )


@pytest.mark.parametrize("place", ["beginning", "end"])
def test_damage_is_named_with_its_byte(tmp_path: Path, place: str) -> None:
    many = _large(values_at(5, {"middle": 1.0}))
    good = values_at(7, {"loss": 1.0})
    records = [*many, good, _BROKEN, good] if place == "end" else [good, _BROKEN, good, *many]
    path = write_summary(tmp_path, records)

    with pytest.raises(DamagedFileError) as raised:
        TagSurvey().tags([str(path)])

    assert raised.value.path == str(path)
    assert raised.value.offset == path.read_bytes().index(b"no event") - HEADER_SIZE


def test_damage_in_the_middle_is_seen_only_where_all_is_read(tmp_path: Path) -> None:
    path = write_summary(tmp_path, _large(_BROKEN))

    assert TagSurvey().tags([str(path)])[1] is False
    with pytest.raises(DamagedFileError):
        TagSurvey().tags([str(path)], is_exact=True)


def test_a_record_that_is_still_written_is_no_damage(tmp_path: Path) -> None:
    torn = values_at(9, {"late": 1.0})[:-3]
    for name, records in (("small", [values_at(1, {"loss": 0.5})]), ("large", _large(_LOSS))):
        path = write_summary(tmp_path / name, [*records, torn])

        tags, is_whole = TagSurvey().tags([str(path)])

        assert ("scalar", "late") not in tags
        assert is_whole == (name == "small")
