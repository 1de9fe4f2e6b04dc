from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import numpy as np
import PIL.Image as PillowImage
import pytest

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.lineage.query import get_summary_lineage
from mindsummary_lightning.reading.summary_reader import SummaryReader
from mindsummary_lightning.values import (
    EvaluationInfo,
    Event,
    Graph,
    GraphNode,
    Image,
    LandscapeMetadata,
    LossLandscape,
    Points,
    RunInfo,
    Tensor,
    TrainInfo,
    UserDefinedInfo,
)
from tests.reading.runs import (
    histogram,
    record,
    values_at,
    write_lineage,
    write_mindspore_run,
    write_summary,
)


def test_tags_are_listed_by_kind(tmp_path: Path) -> None:
    write_summary(
        tmp_path, [values_at(1, {"loss": 0.5, "h": histogram(1)}), values_at(2, {"acc": 0.5})]
    )

    reader = SummaryReader(tmp_path)
    tags = reader.tags()

    assert tags == {
        "scalar": ["acc", "loss"],
        "image": [],
        "tensor": [],
        "histogram": ["h"],
        "loss_landscape": [],
    }
    tags["scalar"].remove("acc")  # which is the caller's
    assert [*reader.all_scalars()] == ["acc", "loss"]


def test_a_scalar_comes_as_arrays_ordered_by_step(tmp_path: Path) -> None:
    write_summary(
        tmp_path,
        [values_at(3, {"loss": 0.25}), values_at(1, {"loss": 0.1}), values_at(2, {"acc": 1.0})],
    )

    series = SummaryReader(tmp_path).scalars("loss")

    assert (series.steps.dtype, series.wall_times.dtype, series.values.dtype) == (
        np.int64,
        np.float64,
        np.float32,
    )
    assert series.steps.tolist() == [1, 3]
    assert series.wall_times.tolist() == [1700000001.0, 1700000003.0]
    assert series.values.tolist() == [np.float32(0.1), 0.25]
    with pytest.raises(ValueError, match="read-only"):
        series.values[0] = 1.0


def test_scalars_beside_other_kinds_keep_their_place_in_the_file(tmp_path: Path) -> None:
    mixed, plain = values_at(1, {"loss": 1.0, "h": histogram(1)}), values_at(1, {"loss": 2.0})
    write_summary(tmp_path, [mixed, plain, values_at(2, {"loss": 3.0})])

    series = SummaryReader(tmp_path).scalars("loss")

    assert list(zip(series.steps.tolist(), series.values.tolist(), strict=True)) == [
        (1, 2.0),
        (2, 3.0),
    ]


def test_a_resumed_run_replaces_the_tail_of_each_tag_it_records_again(tmp_path: Path) -> None:
    old = [
        values_at(step, {"loss": float(step), "old": 1.0, "h": histogram(step)})
        for step in range(1, 11)
    ]
    write_summary(tmp_path, old, second=1700000000)
    write_summary(
        tmp_path,
        [values_at(step, {"loss": -1.0, "h": histogram(99)}) for step in (5, 7)],
        1700000100,
    )
    reader = SummaryReader(tmp_path)

    assert reader.scalars("loss").values.tolist() == [1.0, 2.0, 3.0, 4.0, -1.0, -1.0]
    assert [step for step, _, _ in reader.histograms("h")] == [1, 2, 3, 4, 5, 7]
    assert [value.count for _, _, value in reader.histograms("h")] == [1, 2, 3, 4, 99, 99]
    assert len(reader.scalars("old")) == 10


def test_of_two_files_of_one_second_the_later_read_replaces_equal_steps_only(
    tmp_path: Path,
) -> None:
    write_summary(tmp_path, [values_at(step, {"loss": 1.0}) for step in (1, 2, 3)], host="b")
    write_summary(tmp_path, [values_at(2, {"loss": 2.0})], host="a")

    assert SummaryReader(tmp_path).scalars("loss").values.tolist() == [1.0, 2.0, 1.0]


def test_an_unknown_tag_is_refused_with_what_may_have_been_meant(tmp_path: Path) -> None:
    write_summary(tmp_path, [values_at(1, {"loss": 0.5, "h": histogram(1)})])
    reader = SummaryReader(tmp_path)

    with pytest.raises(LookupError, match=r"has no scalar 'nope'; it has 'loss'"):
        reader.scalars("nope")
    with pytest.raises(LookupError, match=r"has no scalar 'los'; closest: 'loss'; it has 'loss'"):
        reader.scalars("los")
    with pytest.raises(
        LookupError,
        match=r"; the suffix /scalar is added by MindInsight's pages, so use 'loss'; it has 'loss'",
    ):
        reader.scalars("loss/scalar")
    with pytest.raises(
        LookupError,
        match=r"has no histogram 'loss', but a scalar with this tag. Use reader.scalars\('loss'\)",
    ):
        reader.histograms("loss")


def test_a_landscape_has_no_method_of_its_own_to_advise(tmp_path: Path) -> None:
    landscape = LossLandscape(
        Points(np.zeros(1), np.zeros(1), np.zeros((1, 1))),
        metadata=LandscapeMetadata("PCA", "step", 1),
    )
    write_summary(tmp_path, [values_at(1, {"around": landscape, "loss": 1.0})])

    with pytest.raises(LookupError, match=r"has no scalar 'around'; it has 'loss'$"):
        SummaryReader(tmp_path).scalars("around")


def test_a_reader_is_a_path_and_knows_whether_it_has_a_tag(tmp_path: Path) -> None:
    write_summary(tmp_path, [values_at(1, {"loss": 0.5, "h": histogram(1)})])
    reader = SummaryReader(tmp_path)

    assert os.fspath(reader) == str(tmp_path)
    assert os.fspath(SummaryReader(reader)) == str(tmp_path)
    assert "loss" in reader
    assert "h" in reader
    assert "los" not in reader
    assert [
        re.findall("<td [^>]*>(.*?)</td>", reader._repr_html_())[at] for at in (0, 1, 6, 7)
    ] == [
        *("scalar", "loss", "histogram", "h"),
    ]
    assert reader._repr_html_().count("<tr>") == 5


def test_a_sample_has_names_and_unpacks_in_their_order(tmp_path: Path) -> None:
    write_summary(tmp_path, [values_at(3, {"h": histogram(7)})])

    (sample,) = SummaryReader(tmp_path).histograms("h")
    step, wall_time, value = sample

    assert (step, wall_time, value) == (sample.step, sample.wall_time, sample.value)
    assert (sample.step, sample.wall_time, sample.value.count) == (3, 1700000003.0, 7)
    assert pickle.loads(pickle.dumps(sample)).step == 3


def test_what_was_read_fits_in_a_line(tmp_path: Path) -> None:
    axis = np.arange(4, dtype=np.float32)
    surface = LossLandscape(Points(axis, axis, np.ones((4, 4))))
    write_summary(
        tmp_path,
        [
            values_at(1, {"loss": 0.5, "h": histogram(7), "land": surface}),
            values_at(2, {"loss": 1.0}),
        ],
    )
    write_lineage(tmp_path, [TrainInfo(network="LeNet <5>", epoch=3), UserDefinedInfo({"lr": 0.1})])
    reader = SummaryReader(tmp_path)

    assert repr(reader.scalars("loss")) == "ScalarSeries(2 samples, steps 1 to 2, last 1)"
    assert repr(next(reader.histograms("h"))).startswith(
        "Sample(step=1, wall_time=1700000001.0, value=Histogram(7 elements"
    )
    # its columns are arrays
    with pytest.raises(TypeError, match="'ScalarSeries' object is not iterable"):
        iter(reader.scalars("loss"))
    assert repr(next(reader.histograms("h")).value).startswith("Histogram(7 elements")
    assert repr(surface) == "LossLandscape(4 x 4 points, loss 1 to 1)"
    assert (
        repr(reader.landscapes())
        == "[RecordedLandscape('land', step 1, 4 x 4 points, loss 1 to 1)]"
    )
    assert (
        repr(Graph((GraphNode("a", "Add"),), "net"))
        == "Graph('net', 1 nodes, 0 parameters, 0 constants)"
    )
    assert repr(Tensor(np.zeros((2, 3)))) == "Tensor(2 x 3, float64)"
    assert repr(reader.lineage()) == "RunLineage(train, custom)"
    assert str(reader.lineage()) == "epoch    3\nnetwork  LeNet <5>\nlr       0.1"
    assert re.findall("<td [^>]*>(.*?)</td>", reader.lineage()._repr_html_())[2:4] == [
        "network",
        "LeNet &lt;5&gt;",
    ]


@pytest.mark.parametrize(
    ("run", "advice"),
    [
        ("missing", "^missing is not a directory; give the directory with the run's event files"),
        ("", "^'' is not a directory"),
        ("s3://bucket/run", "bring it here first: mindsummary sync s3://bucket/run runs"),
    ],
)
def test_what_is_no_directory_is_refused_with_what_to_do(run: str, advice: str) -> None:
    with pytest.raises(NotADirectoryError, match=advice):
        SummaryReader(run)


def test_a_torn_tail_is_left_for_later(tmp_path: Path) -> None:
    path = write_summary(tmp_path, [values_at(1, {"loss": 1.0}), values_at(2, {"loss": 2.0})])
    path.write_bytes(path.read_bytes()[:-7])

    assert SummaryReader(tmp_path).scalars("loss").steps.tolist() == [1]


def test_a_damaged_record_is_named_with_file_and_byte(tmp_path: Path) -> None:
    path = write_summary(tmp_path, [values_at(1, {"loss": 1.0}), values_at(2, {"loss": 2.0})])
    damaged = bytearray(path.read_bytes())
    damaged[-6] ^= 1
    path.write_bytes(damaged)

    with pytest.raises(DamagedFileError) as caught:
        SummaryReader(tmp_path).tags()

    assert caught.value.path == str(path)
    assert caught.value.offset == len(damaged) - len(values_at(2, {"loss": 2.0}))


def test_a_whole_record_that_is_no_event_is_named(tmp_path: Path) -> None:
    from mindsummary_lightning.fileformat.framing import frame

    write_summary(tmp_path, [b"".join(frame([b"\xff\xff\xff"]))])

    reader = SummaryReader(tmp_path)
    for read in (reader.all_scalars, lambda: list(reader.events())):
        with pytest.raises(DamagedFileError, match="not a summary event") as caught:
            read()
        assert caught.value.offset == 44  # behind the version record


def test_what_is_added_is_seen_by_the_next_call(tmp_path: Path) -> None:
    path = write_summary(tmp_path, [values_at(1, {"loss": 1.0})])
    reader = SummaryReader(tmp_path)
    assert reader.scalars("loss").steps.tolist() == [1]

    with path.open("ab") as file:
        file.write(values_at(2, {"loss": 2.0, "acc": 1.0}))

    assert (reader.scalars("loss").steps.tolist(), reader.tags()["scalar"]) == (
        [1, 2],
        ["acc", "loss"],
    )


def test_damage_is_an_error_of_every_call_until_the_file_is_repaired(tmp_path: Path) -> None:
    whole = [values_at(step, {"loss": float(step)}) for step in (1, 2)]
    path = write_summary(tmp_path, [whole[0], whole[1][:-1] + b"?"])
    reader = SummaryReader(tmp_path)
    for _ in range(2):
        with pytest.raises(DamagedFileError):
            reader.tags()

    path.unlink()
    write_summary(tmp_path, whole)

    assert reader.scalars("loss").steps.tolist() == [1, 2]


def test_a_run_may_be_a_link_and_a_link_in_it_is_named_and_not_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_summary(tmp_path / "run", [values_at(1, {"loss": 1.0})], 5)
    (tmp_path / "run" / "events.summary.6.host_MS").symlink_to(
        write_summary(tmp_path / "store", [])
    )
    (tmp_path / "linked").symlink_to(tmp_path / "run")

    assert SummaryReader(tmp_path / "linked").scalars("loss").values.tolist() == [1.0]
    assert [record.getMessage().partition(" is ")[0] for record in caplog.records] == [
        str(tmp_path / "linked" / "events.summary.6.host_MS")
    ]


def test_a_directory_of_runs_says_which_runs_lie_below_it(tmp_path: Path) -> None:
    for number in range(7):
        write_summary(tmp_path / "logs" / f"version_{number}", [values_at(1, {"loss": 1.0})])
    reader = SummaryReader(tmp_path)

    for read in (
        reader.tags,
        reader.all_scalars,
        reader.graph,
        reader.lineage,
        lambda: list(reader.events()),
    ):
        with pytest.raises(
            FileNotFoundError,
            match=r"Give one of the runs in it: logs/version_0, .*, logs/version_4 and 2 more$",
        ):
            read()


def test_a_reader_goes_to_another_process(tmp_path: Path) -> None:
    write_summary(tmp_path, [values_at(1, {"loss": 1.0})])
    reader = SummaryReader(tmp_path)
    reader.tags()

    assert pickle.loads(pickle.dumps(reader)).scalars("loss").steps.tolist() == [1]


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM", "ICO", "TGA"])
def test_pictures_are_opened_in_five_formats_and_in_no_other(tmp_path: Path, kind: str) -> None:
    encoded = BytesIO()
    PillowImage.new("RGB", (16, 16)).save(encoded, kind)
    write_summary(tmp_path, [values_at(1, {"picture": Image(16, 16, encoded.getvalue())})])
    reader = SummaryReader(tmp_path)

    if kind in ("PNG", "JPEG", "GIF", "BMP", "WEBP"):
        assert [picture.size for _, _, picture in reader.pictures("picture")] == [(16, 16)]
    else:
        with pytest.raises(DamagedFileError, match="cannot be opened"):
            next(reader.pictures("picture"))


def test_mindspores_own_files_are_read(tmp_path: Path) -> None:
    write_mindspore_run(tmp_path)
    reader = SummaryReader(tmp_path)

    assert reader.scalars("loss").values.tolist() == [1.0, 0.5, np.float32(1 / 3)]
    assert [value.data.tolist() for _, _, value in reader.tensors("weight")][2] == [
        [0.0, 3.0],
        [6.0, 9.0],
    ]
    assert [value.count for _, _, value in reader.histograms("weight")] == [4, 4, 4]
    ((step, _, image),), ((_, _, picture),) = reader.images("input"), reader.pictures("input")
    assert (step, image.height, image.width, picture.size) == (1, 2, 3, (3, 2))


def test_landscapes_come_with_their_coordinates(tmp_path: Path) -> None:
    surface = Points(np.array([0.0, 1.0]), np.array([0.5]), np.array([[2.0, 3.0]]))
    path = Points(np.array([0.0, 4.0]), np.array([1.0, 5.0]), np.array([2.0, 6.0]))
    value = LossLandscape(
        surface, (1, 2), path, (0.0, 0.0, 0.5), LandscapeMetadata("PCA", "step", 10)
    )
    write_summary(tmp_path, [values_at(0, {"landscape_[1, 2]": value})])

    (found,) = SummaryReader(tmp_path).landscapes()

    assert (found.tag, found.step, found.intervals) == ("landscape_[1, 2]", 0, (1, 2))
    assert found.wall_time == 1700000000.0
    assert (found.x.tolist(), found.y.tolist(), found.z.tolist()) == (
        *([0.0, 1.0], [0.5], [[2.0, 3.0]]),
    )
    assert [column.tolist() for column in (found.surface.x, found.surface.y, found.surface.z)] == [
        *([0.0, 1.0], [0.5], [[2.0, 3.0]]),
    ]
    assert found.path is not None
    assert [column.tolist() for column in (found.path.x, found.path.y, found.path.z)] == [
        *([0.0, 4.0], [1.0, 5.0], [2.0, 6.0]),
    ]
    assert (found.convergence_point, found.metadata) == ((0.0, 0.0, 0.5), value.metadata)


def test_the_newest_graph_counts(tmp_path: Path) -> None:
    write_summary(
        tmp_path, [record(Event(1.0, 0, Graph((GraphNode("1", name),)))) for name in ("Old", "New")]
    )

    graph = SummaryReader(tmp_path).graph()

    assert graph is not None
    assert graph.nodes[0].op_type == "New"


def test_the_saved_graphs_beside_the_summary_files_are_not_the_graph_of_a_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "saved.pb").write_bytes(b"model" * 20)
    reader = SummaryReader(tmp_path)
    assert reader.graph() is None

    write_summary(tmp_path, [record(Event(1.0, 0, Graph((GraphNode("1", "ReLU"),))))])
    graph = reader.graph()

    assert graph is not None
    assert graph.nodes == (GraphNode("1", "ReLU"),)
    assert not caplog.records


def test_a_run_without_a_graph_or_lineage_says_so(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    write_summary(tmp_path, [])
    reader = SummaryReader(tmp_path)

    assert reader.graph() is None
    assert (reader.lineage().train, reader.lineage().custom) == (None, None)
    assert reader.to_pandas().columns.tolist() == ["tag", "step", "wall_time", "value"]


def test_lineage_is_the_newest_of_each_kind_and_custom_data_is_joined(tmp_path: Path) -> None:
    write_lineage(
        tmp_path, [TrainInfo(epoch=1), UserDefinedInfo({"a": 1, "b": 1}), TrainInfo(epoch=2)]
    )
    # what the run notes of itself gives way to what the user says, whichever comes later
    later = [UserDefinedInfo({"b": 2}), RunInfo({"a": "noted", "precision": "32-true"})]
    write_lineage(tmp_path, [EvaluationInfo('{"acc": 1}'), *later], 1700000001)

    lineage = SummaryReader(tmp_path).lineage()

    assert lineage.train == TrainInfo(epoch=2)
    assert lineage.evaluation == EvaluationInfo('{"acc": 1}')
    assert lineage.custom == UserDefinedInfo({"a": 1, "precision": "32-true", "b": 2})


def test_a_file_of_another_training_replaces_the_lineage_before_it_as_in_the_query(
    tmp_path: Path,
) -> None:
    write_summary(tmp_path, [])
    write_lineage(
        tmp_path,
        [TrainInfo(epoch=1), EvaluationInfo('{"acc": 1}'), UserDefinedInfo({"a": 1, "b": 1})],
    )
    write_lineage(tmp_path, [TrainInfo(epoch=2), UserDefinedInfo({"b": 2})], 1700000001)

    lineage = SummaryReader(tmp_path).lineage()
    queried = get_summary_lineage(tmp_path)

    assert (lineage.train, lineage.evaluation, lineage.custom) == (
        TrainInfo(epoch=2),
        None,
        UserDefinedInfo({"b": 2}),
    )
    assert (queried["hyper_parameters"]["epoch"], queried["metric"]) == (2, {})


def test_events_come_in_file_order_with_nothing_merged(tmp_path: Path) -> None:
    write_summary(tmp_path, [values_at(2, {"loss": 2.0})], second=1700000001)
    write_summary(tmp_path, [values_at(2, {"loss": 1.0})], second=1700000000)

    steps = [
        event.what for event in SummaryReader(tmp_path).events() if isinstance(event.what, tuple)
    ]

    assert steps == [(("loss", 1.0),), (("loss", 2.0),)]


def test_pandas_gets_one_row_a_sample(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    write_summary(tmp_path, [values_at(1, {"loss": 0.5, "acc": 1.0}), values_at(2, {"loss": 0.25})])

    frame = SummaryReader(tmp_path).to_pandas()

    assert {name: str(kind) for name, kind in frame.dtypes.items()} == {
        "tag": "category",
        "step": "int64",
        "wall_time": "float64",
        "value": "float32",
    }
    assert frame.to_numpy().tolist() == [
        ["acc", 1, 1700000001.0, 1.0],
        ["loss", 1, 1700000001.0, 0.5],
        ["loss", 2, 1700000002.0, 0.25],
    ]


def test_values_larger_than_a_block_are_read_one_at_a_time(tmp_path: Path) -> None:
    big = Tensor(np.arange(600_000, dtype=np.float32))
    write_summary(
        tmp_path,
        [
            values_at(1, {"t": big}),
            values_at(2, {"t": big}),
            values_at(3, {"t": big, "i": Image(1, 1, b"x")}),
        ],
    )

    sizes = [value.data[-1].item() for _, _, value in SummaryReader(tmp_path).tensors("t")]

    assert sizes == [599_999.0] * 3


@pytest.mark.slow
def test_reading_needs_no_torch() -> None:
    code = (
        "import sys, mindsummary_lightning.reading.summary_reader; "
        "sys.exit('torch' in sys.modules or 'pandas' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
