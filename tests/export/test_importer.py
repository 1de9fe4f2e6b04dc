"""What real TensorBoard logs hold: values that are not finite, not usual or not the first of their
tag.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tensorboard")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from torch.utils.tensorboard import SummaryWriter

from mindsummary_lightning.export.tensorboard import (
    ImportedRun,
    import_tensorboard,
    importer,
)
from mindsummary_lightning.fileio.salvage import Piece, read_pieces
from mindsummary_lightning.reading.run_tree import RunTree
from mindsummary_lightning.reading.summary_reader import SummaryReader
from mindsummary_lightning.values import Histogram
from tests.cli.command import mindsummary
from tests.export.tensorboard_files import (
    SECOND,
    event,
    histogram_value,
    settings_value,
    tensor_value,
    write_tb,
)


def _imported(tmp_path: Path, *events: Event) -> tuple[ImportedRun, SummaryReader]:
    write_tb(tmp_path / "tb", *events)
    (run,) = import_tensorboard(str(tmp_path / "tb"), str(tmp_path / "mi"))
    return run, SummaryReader(tmp_path / "mi")


def _histogram(reader: SummaryReader, tag: str) -> Histogram:
    ((_, _, histogram),) = reader.histograms(tag)
    return histogram


# ---- histograms that are not finite


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_a_histogram_of_torch_with_one_element_that_is_not_finite(
    tmp_path: Path, odd: float
) -> None:
    data = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    data[7] = odd
    with SummaryWriter(str(tmp_path / "tb")) as writer:
        writer.add_histogram("h", data, 1)
    import_tensorboard(str(tmp_path / "tb"), str(tmp_path / "mi"))

    histogram = _histogram(SummaryReader(tmp_path / "mi"), "h")

    finite = data[np.isfinite(data)]
    numbers = (histogram.nan_count, histogram.pos_inf_count, histogram.neg_inf_count)
    assert (histogram.count, int(histogram.counts.sum())) == (1000, 999)
    assert numbers == (int(odd != odd), int(odd == math.inf), int(odd == -math.inf))
    assert (histogram.counts >= 0).all()
    assert (histogram.widths > 0).all()
    # TensorBoard's buckets are a tenth wide, and an extreme that it does not know is the edge of
    # its bucket.
    edges = (finite.min() * 1.11, finite.max() * 1.11)
    assert edges[0] <= histogram.min <= finite.min() or histogram.min == pytest.approx(finite.min())
    assert finite.max() <= histogram.max <= edges[1] or histogram.max == pytest.approx(finite.max())
    if odd == math.inf:
        assert histogram.min == pytest.approx(finite.min())
    if odd == -math.inf:
        assert histogram.max == pytest.approx(finite.max())
    assert histogram.sum is None


def test_a_histogram_of_tensorflow_2_of_nothing_but_nan(tmp_path: Path) -> None:
    rows = [[math.nan, math.nan, 0.0]] * 30
    run, reader = _imported(
        tmp_path,
        event(1, tensor_value("h", np.array(rows), "histograms")),
        event(
            2,
            tensor_value("h", np.array([[0.0, 1.0, 3.0], [math.nan, math.nan, 4.0]]), "histograms"),
        ),
    )

    first, second = (histogram for _, _, histogram in reader.histograms("h"))

    assert (run.written, run.problems) == ({"histogram": 2}, {})
    assert (first.count, first.counts.size, first.min) == (0, 0, None)
    assert (second.count, second.nan_count, second.counts.tolist(), second.max) == (7, 4, [3], 1.0)


_NAN, _INF = math.nan, math.inf
_BUCKETS = (
    [-5.0, 0.0, 2.0],
    [0.0, 2.0, 3.0],
)  # right edges, and elements: the smallest is above -5, the largest below 2
_FULL = ([-5.0, 0.0, 2.0], [1.0, 1.0, 3.0])  # nothing says where its first bucket begins
_NONE: tuple[list[float], list[float]] = ([], [])


@pytest.mark.parametrize(
    ("buckets", "stated", "kept", "change"),
    [
        (_BUCKETS, (5, -4.0, 1.5, 3.0), (5, 0, -4.0, 1.5, 3.0), None),
        (_BUCKETS, (5, -4.0, 1.5, _NAN), (5, 0, -4.0, 1.5, None), None),
        (_BUCKETS, (5, -4.0, 1.5, _INF), (5, 0, -4.0, 1.5, None), None),
        (_BUCKETS, (5, _NAN, 1.5, 3.0), (5, 0, -5.0, 1.5, 3.0), "estimated"),
        (_BUCKETS, (5, -4.0, _NAN, 3.0), (5, 0, -4.0, 2.0, 3.0), "estimated"),
        (_BUCKETS, (7, -_INF, _INF, _NAN), (7, 2, -5.0, 2.0, None), "estimated"),
        (_BUCKETS, (5, 3.0, 1.5, 3.0), (5, 0, -5.0, 1.5, 3.0), "estimated"),
        (_BUCKETS, (5, -4.0, -6.0, 3.0), (5, 0, -4.0, 2.0, 3.0), "estimated"),
        (_BUCKETS, (_NAN, -4.0, 1.5, 3.0), (5, 0, -4.0, 1.5, 3.0), "estimated"),
        (_BUCKETS, (0, -4.0, 1.5, 3.0), (5, 0, -4.0, 1.5, 3.0), "estimated"),
        (_FULL, (5, -6.5, 1.5, 3.0), (5, 0, -6.5, 1.5, 3.0), None),
        (_FULL, (5, _NAN, 1.5, 3.0), (5, 0, -10.0, 1.5, 3.0), "estimated"),
        (_NONE, (0, 0.0, 0.0, 0.0), (0, 0, None, None, None), None),
        (_NONE, (4, _NAN, _NAN, _NAN), (4, 4, None, None, None), None),
        (_NONE, (4, 1.0, 2.0, 6.0), (4, 0, 1.0, 2.0, 6.0), "new buckets"),
        (([1.0, 2.0], [0.0, 0.0]), (4, 1.0, 2.0, 6.0), (4, 0, 1.0, 2.0, 6.0), "new buckets"),
    ],
)
def test_what_a_histogram_states_is_kept_and_what_it_does_not_is_estimated_and_counted(
    buckets: tuple[list[float], list[float]],
    stated: tuple[float, ...],
    kept: tuple[float | None, ...],
    change: str | None,
    tmp_path: Path,
) -> None:
    run, reader = _imported(
        tmp_path,
        event(
            1,
            histogram_value(
                "h", *buckets, **dict(zip(("num", "min", "max", "sum"), stated, strict=True))
            ),
        ),
    )

    found = _histogram(reader, "h")
    assert (found.count, found.nan_count, found.min, found.max, found.sum) == kept
    assert int(found.counts.sum()) == found.count - found.nan_count
    assert [text for text in run.changed if change and change in text] == list(run.changed)
    assert bool(run.changed) == bool(change)


def test_elements_beyond_the_outermost_bucket_are_not_nan(tmp_path: Path) -> None:
    with SummaryWriter(str(tmp_path / "tb")) as writer:
        # torch's buckets end at 1e20
        writer.add_histogram("h", np.array([1e30, 1.0, 1.0], np.float32), 1)
    import_tensorboard(str(tmp_path / "tb"), str(tmp_path / "mi"))

    histogram = _histogram(SummaryReader(tmp_path / "mi"), "h")

    assert (histogram.count, histogram.nan_count, int(histogram.counts.sum())) == (3, 0, 3)
    assert histogram.max == pytest.approx(1e30)


@pytest.mark.parametrize(
    ("limits", "buckets", "problem"),
    [
        ([1.0, 2.0], [1.0], "got 2 limits and 1 buckets"),
        ([2.0, 1.0], [1.0, 1.0], "bucket limits of a histogram must ascend"),
        ([1.0, math.nan], [1.0, 1.0], "bucket limits of a histogram must ascend"),
        ([1.0, 2.0], [1.0, -1.0], "must be whole numbers"),
        ([1.0, 2.0], [1.0, math.inf], "must be whole numbers"),
        ([1.0, 2.0], [1.0, math.nan], "must be whole numbers"),
    ],
)
def test_a_histogram_that_is_none_is_skipped_and_named(
    tmp_path: Path, limits: list[float], buckets: list[float], problem: str
) -> None:
    good = Summary.Value(tag="loss", simple_value=0.5)
    run, _ = _imported(tmp_path, event(1, histogram_value("h", limits, buckets), good))

    assert run.written == {"scalar": 1}
    assert [problem in text and number == 1 for text, number in run.problems.items()] == [True]


@pytest.mark.parametrize("second", [(5.0, 6.0), (0.5, 2.0)], ids=["a gap", "an overlap"])
def test_rows_that_are_not_neighbours_are_no_histogram(
    tmp_path: Path, second: tuple[float, float]
) -> None:
    rows = np.array([[0.0, 1.0, 2.0], [*second, 2.0]])
    run, _ = _imported(tmp_path, event(1, tensor_value("h", rows, "histograms")))

    (problem,) = run.problems
    assert "each bucket of a histogram must begin where the previous bucket ends" in problem


# ---- what the format says once


def test_the_plugin_of_a_tag_is_said_by_its_first_value_only(tmp_path: Path) -> None:
    png = np.array([b"5", b"4", b"\x89PNG bytes"], object)
    arrays = {"scalars": np.float32(0.5), "histograms": np.array([[0.0, 1.0, 3.0]]), "images": png}
    events = [
        event(
            step,
            *(
                tensor_value(plugin, array, plugin if step == 1 else "")
                for plugin, array in arrays.items()
            ),
        )
        for step in range(1, 6)
    ]

    run, reader = _imported(tmp_path, *events)

    assert (run.written, run.skipped) == ({"scalar": 5, "histogram": 5, "image": 5}, {})
    assert reader.scalars("scalars").values.tolist() == [0.5] * 5


def test_a_later_file_of_a_run_knows_the_plugins_of_the_first(tmp_path: Path) -> None:
    write_tb(tmp_path / "tb", event(1, tensor_value("loss", np.float32(0.5), "scalars")))
    write_tb(tmp_path / "tb", event(2, tensor_value("loss", np.float32(0.25))), second=SECOND + 9)

    (run,) = import_tensorboard(str(tmp_path / "tb"), str(tmp_path / "mi"))

    assert run.written == {"scalar": 2}


def test_each_file_of_a_run_becomes_a_file_of_its_own_second_and_progress_is_in_its_bytes(
    tmp_path: Path,
) -> None:
    good = Summary.Value(tag="loss", simple_value=0.5)
    paths = []
    for number, second in enumerate((SECOND, SECOND + 9, SECOND + 30)):
        steps = [event(number + 1, good), event(number + 5, good)][: number + 1]
        paths.append(write_tb(tmp_path / "tb", *steps, second=second))
    read: list[int] = []

    import_tensorboard(str(tmp_path / "tb"), str(tmp_path / "mi"), read.append)

    names = sorted(path.name for path in (tmp_path / "mi").glob("*.summary.*"))
    assert [int(name.partition(".summary.")[2][:10]) for name in names] == [
        SECOND,
        SECOND + 9,
        SECOND + 30,
    ]
    assert sum(read) == sum(path.stat().st_size for path in paths)
    assert len(read) == 3 + 5  # a file begins with its version


# ---- settings and tags


def test_large_settings_stay_numbers_and_hidden_ones_stay(tmp_path: Path) -> None:
    numbers = {
        "big": 1e20,
        "bigger": 1e300,
        "edge": 2.0**31,
        "three": 3.0,
        "_seed": 7.0,
        "tenth": 0.1,
    }
    run, reader = _imported(
        tmp_path, event(0, settings_value({**numbers, "nan": math.nan, "flag": True}))
    )

    custom = reader.lineage().custom
    assert custom.values == {**numbers, "nan": "nan", "flag": 1}
    assert {name for name, value in custom.values.items() if type(value) is int} == {
        *("edge", "three", "_seed", "flag")
    }
    assert run.changed == {
        "hparams: NaN or infinite, written as text": 1,
        "hparams: true written as 1, false as 0": 1,
    }


def test_a_run_that_begins_with_its_settings_is_dated_by_them(tmp_path: Path) -> None:
    values = [Summary.Value(tag="loss", simple_value=0.5)]
    write_tb(tmp_path / "tb", event(0, settings_value({"lr": 0.1})), event(1, *values))
    write_tb(
        tmp_path / "tb" / "settings_alone", event(0, settings_value({"lr": 0.1})), second=SECOND + 5
    )
    import_tensorboard(str(tmp_path / "tb"), str(tmp_path / "mi"))

    created = {run.train_id: run.create_time_s for run in RunTree(str(tmp_path / "mi")).scan()}
    assert created == {"./": SECOND, "./settings_alone": SECOND + 5}


def test_a_scalar_that_float32_does_not_hold_is_counted(tmp_path: Path) -> None:
    numbers = [1e300, 0.1, math.inf, math.nan, 0.5, 0.2]
    events = [
        event(step, tensor_value("x", np.float64(number), "scalars"))
        for step, number in enumerate(numbers)
    ]
    run, reader = _imported(tmp_path, *events)

    expected = [math.inf, np.float32(0.1), math.inf, math.nan, 0.5, np.float32(0.2)]
    np.testing.assert_array_equal(reader.scalars("x").values, expected)
    assert run.changed == {
        "scalar: beyond float32, so infinite": 1,
        "scalar: rounded to float32": 2,
    }


def test_a_value_without_a_tag_is_counted(tmp_path: Path) -> None:
    run, reader = _imported(
        tmp_path,
        event(1, Summary.Value(simple_value=1.0), Summary.Value(tag="a", simple_value=2.0)),
    )

    assert (run.written, reader.tags()["scalar"]) == ({"scalar": 1}, ["a"])
    ((text, number),) = run.problems.items()
    assert (text.partition(";")[0], number) == (
        *("the record holds a value (scalar) that has no tag", 1),
    )


def test_a_value_of_nothing_is_counted_as_one(tmp_path: Path) -> None:
    text = Summary.Value(tag="a")
    text.metadata.plugin_data.plugin_name = "text"
    run, _ = _imported(tmp_path, event(1, text, Summary.Value(tag="b"), Summary.Value(tag="c")))

    assert (run.written, run.skipped) == ({}, {"text": 1, "empty value": 2})


def test_a_second_image_of_a_tag_does_not_take_the_name_of_another(tmp_path: Path) -> None:
    images = np.array([b"5", b"4", b"first", b"second"], object)
    run, reader = _imported(
        tmp_path,
        event(1, tensor_value("i", images, "images")),
        event(2, tensor_value("i/1", images[:3], "images")),
        event(3, tensor_value("i/1", images[:3], "images")),
    )

    encoded = {
        tag: [image.encoded for _, _, image in reader.images(tag)] for tag in reader.tags()["image"]
    }
    assert encoded == {"i": [b"first"], "i/1": [b"second"], "i/1/0": [b"first", b"first"]}
    assert run.changed == {"tag: renamed, because an image of another tag has the name": 2}


# ---- one bad thing must not cost the rest


def test_a_giant_tensor_a_mesh_and_milliseconds_cost_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    giant = tensor_value("giant", np.zeros(1, np.uint8))
    giant.tensor.tensor_shape.dim[0].size = 10_000_001
    mesh = tensor_value("mesh_VERTEX", np.zeros(1, np.float32), "mesh")
    mesh.tensor.tensor_shape.dim[0].size = 10_000_001
    good = Summary.Value(tag="loss", simple_value=0.5)
    write_tb(tmp_path / "tb" / "a", event(1, giant, mesh, good), event(2, giant, good))
    write_tb(
        tmp_path / "tb" / "b",
        event(1, good, wall_time=1.6e12),
        event(2, good, wall_time=1.6e12 + 1),
    )
    write_tb(tmp_path / "tb" / "c", event(1, good))

    answer = mindsummary(capsys, "import", tmp_path / "tb", "--out", tmp_path / "mi")

    assert answer.code == 1
    assert (
        ": 2 'giant': a tensor must have at most 10000000 elements for MindInsight, got 10000001, "
        "byte 40 of "
    ) in answer.err
    assert str(tmp_path / "tb" / "a" / "events.out.tfevents.1600000000.host") in answer.err
    assert "not imported: 1 mesh" in answer.out
    assert ".tmp" not in answer.out
    runs = {
        path.name: SummaryReader(path).scalars("loss") for path in (tmp_path / "mi").glob("[!.]*")
    }
    assert {name: len(series) for name, series in runs.items()} == {"a": 2, "b": 2, "c": 1}
    assert runs["b"].wall_times.tolist() == [1.6e12, 1.6e12 + 1]


def test_an_event_that_is_too_large_costs_itself_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importer, "MAX_EVENT", 300)
    large = tensor_value("large", np.ones(100, np.float32))
    good = Summary.Value(tag="loss", simple_value=0.5)
    run, reader = _imported(
        tmp_path, event(1, good), event(2, large, good), event(3, large), event(4, good)
    )

    assert reader.scalars("loss").steps.tolist() == [1, 2, 4]
    assert (run.written, run.dropped) == ({"scalar": 3}, {"tensor": 2})
    ((text, number),) = run.problems.items()
    assert re.match(r"an event of \d+ bytes; MindInsight takes at most 300, byte \d+ of ", text)
    assert number == 2


def test_the_torn_end_of_a_file_that_is_being_written_is_no_problem(tmp_path: Path) -> None:
    good = Summary.Value(tag="loss", simple_value=0.5)
    path = write_tb(tmp_path / "tb", event(1, good), event(2, good))
    path.write_bytes(path.read_bytes()[:-3])

    (run,) = import_tensorboard(str(tmp_path / "tb"), str(tmp_path / "mi"))

    assert (run.written, run.problems) == ({"scalar": 1}, {})


def test_a_second_import_is_refused_and_by_force_replaces_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = Summary.Value(tag="loss", simple_value=0.5)
    for folder in ("one", "one/a", "two/b"):
        write_tb(tmp_path / folder, event(1, good))
    command = ("--out", tmp_path / "mi")
    assert mindsummary(capsys, "import", tmp_path / "one", *command).code == 0

    refused = mindsummary(capsys, "import", tmp_path / "two", *command)
    assert (refused.code, "--force" in refused.err) == (1, True)
    assert mindsummary(capsys, "import", tmp_path / "two", *command, "--force").code == 0

    assert {path.name for path in (tmp_path / "mi").iterdir()} == {"b", ".mindsummary-export"}
    assert len(SummaryReader(tmp_path / "mi" / "b").scalars("loss")) == 1


def test_a_file_that_cannot_be_read_costs_itself_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = Summary.Value(tag="loss", simple_value=0.5)
    for name in "ab":
        write_tb(tmp_path / "tb" / name, event(1, good))

    def pieces(path: str) -> Iterator[Piece]:
        if os.path.basename(os.path.dirname(path)) == "a":
            raise PermissionError(13, "Permission denied", path)
        yield from read_pieces(path)

    monkeypatch.setattr("mindsummary_lightning.export.tensorboard.importer.read_pieces", pieces)
    runs = import_tensorboard(str(tmp_path / "tb"), str(tmp_path / "mi"))

    assert [run.written["scalar"] for run in runs] == [0, 1]
    assert ["Permission denied" in text for text in runs[0].problems] == [True]


def test_a_directory_that_cannot_be_listed_is_skipped_with_one_warning(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    write_tb(tmp_path / "tb" / "a", event(1, Summary.Value(tag="loss", simple_value=0.5)))
    (tmp_path / "tb" / "closed").mkdir()
    scandir = os.scandir

    def refusing(path: str | int) -> object:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)

    assert mindsummary(capsys, "import", tmp_path / "tb", "--out", tmp_path / "mi").code == 0
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "skipped a directory that cannot be listed"
    ]


def test_an_import_says_what_it_wrote_left_out_dropped_and_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    loss, mesh = (Summary.Value(tag="loss", simple_value=0.5), tensor_value("m", [0.0], "mesh"))
    giant = tensor_value("giant", np.zeros(1, np.uint8))
    giant.tensor.tensor_shape.dim[0].size = 10_000_001
    first = event(1, loss, Summary.Value(tag="acc", simple_value=0.25), tensor_value("t", [[1.0]]))
    timeless = event(3, loss, wall_time=math.nan)
    path = write_tb(
        Path("tb", "a"), first, event(2, mesh, giant, loss, loss), timeless, event(4, loss, giant)
    )
    write_tb(Path("tb", "b"), event(1, mesh, mesh))

    told = mindsummary(capsys, "import", "tb", "--out", "out")
    answer = mindsummary(capsys, "import", "tb", "--out", "out", "--force", "--json")

    no_time = "wall time: NaN or infinite, replaced by the time of the value before"
    assert told.out.splitlines() == [
        "tb/a -> out/a: 5 scalar, 1 tensor",
        "  not imported: 1 mesh",
        "  dropped for later values of the same steps, or files that go back: 1 scalar",
        f"  changed: 1 {no_time}",
        "tb/b -> out/b: nothing",
        "  not imported: 2 mesh",
    ]
    lines = told.err.splitlines()
    assert [line.partition(": a tensor must have at most")[0] for line in lines] == [
        "mindsummary: skipped in tb/a: 2 'giant'"
    ]
    assert str(path) in lines[0]
    assert (told.code, answer.code, answer.err) == (1, 1, told.err)
    whole, empty = json.loads(answer.out)["runs"]
    assert list(whole.pop("problems").values()) == [2]
    assert whole == {
        "source": "tb/a",
        "run": "out/a",
        "written": {"scalar": 5, "tensor": 1},
        "skipped": {"mesh": 1},
        "changed": {no_time: 1},
        "dropped": {"scalar": 1},
    }
    assert empty == {
        "source": "tb/b",
        "run": "out/b",
        "written": {},
        "skipped": {"mesh": 2},
        "changed": {},
        "dropped": {},
        "problems": {},
    }


@pytest.mark.parametrize("wall_time", [math.nan, math.inf, -math.inf])
def test_a_wall_time_that_is_no_time_is_that_of_the_value_before(
    tmp_path: Path, wall_time: float
) -> None:
    values = [Summary.Value(tag="loss", simple_value=0.5)]
    more = [*values, Summary.Value(tag="acc", simple_value=0.25)]
    run, reader = _imported(
        tmp_path,
        event(1, *values),
        event(2, *more, wall_time=wall_time),
        event(3, *values, wall_time=wall_time),
    )

    assert reader.scalars("loss").wall_times.tolist() == [SECOND + 1] * 3
    assert run.changed == {
        "wall time: NaN or infinite, replaced by the time of the value before": 3
    }


# ---- what is counted can be read


def test_two_processes_whose_steps_interleave(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for process in range(2):
        values = [Summary.Value(tag="loss", simple_value=float(process))]
        events = [event(step, *values) for step in range(1 + process, 41, 2)]
        write_tb(tmp_path / "tb", *events, second=SECOND + process)

    answer = mindsummary(capsys, "import", tmp_path / "tb", "--out", tmp_path / "mi")

    readable = len(SummaryReader(tmp_path / "mi").scalars("loss"))
    assert answer.code == 0
    assert f": {readable} scalar\n" in answer.out
    assert (
        f"dropped for later values of the same steps, or files that go back: {40 - readable} scalar"
        in answer.out
    )


def test_a_purge_step_takes_back_what_is_not_written_again_too(tmp_path: Path) -> None:
    for begin, tags, purge_step in ((0, ("a", "b"), None), (5, ("a",), 5)):
        with SummaryWriter(
            str(tmp_path / "tb"), purge_step=purge_step, filename_suffix=f".{begin}"
        ) as writer:
            for step in range(begin, 10):
                for tag in tags:
                    writer.add_scalar(tag, float(begin), step)
        # torch's own names end in a number of the process's writers, by which 10 comes before 9
        (path,) = (tmp_path / "tb").glob(f"*.{begin}")
        path.rename(tmp_path / "tb" / f"events.out.tfevents.{SECOND + begin}.host")

    (run,) = import_tensorboard(str(tmp_path / "tb"), str(tmp_path / "mi"))

    reader, shown = SummaryReader(tmp_path / "mi"), EventAccumulator(str(tmp_path / "tb")).Reload()
    for tag in "ab":
        values = [(sample.step, sample.value) for sample in shown.Scalars(tag)]
        series = reader.scalars(tag)
        assert list(zip(series.steps.tolist(), series.values.tolist(), strict=True)) == values
    assert (run.written, run.dropped) == ({"scalar": 15}, {"scalar": 10})


def test_two_values_of_a_step_are_one(tmp_path: Path) -> None:
    values = [Summary.Value(tag="loss", simple_value=number) for number in (1.0, 2.0)]
    run, reader = _imported(tmp_path, event(1, *values), event(2, values[0]), event(1, values[0]))

    assert (run.written, run.dropped) == ({"scalar": 2}, {"scalar": 2})
    assert reader.scalars("loss").values.tolist() == [1.0, 1.0]


def test_wall_times_that_an_event_shares_are_counted(tmp_path: Path) -> None:
    events = [
        event(1, Summary.Value(tag=tag, simple_value=1.0), wall_time=time)
        for tag, time in (("a", 5.0), ("b", 5.5))
    ]
    run, reader = _imported(tmp_path, *events)

    assert reader.scalars("b").wall_times.tolist() == [5.0]
    assert run.changed == {"wall time: replaced by the time of the first value of the step": 1}
