"""Tensors as ``.npy`` files: their names, and what is counted if their folder goes away."""

from __future__ import annotations

import errno
import hashlib
import shutil
from pathlib import Path
from unittest import mock
from urllib.parse import quote

import numpy as np
import pytest

from mindsummary_lightning import SummaryRecord
from mindsummary_lightning.fileio.append import MissingRecords
from mindsummary_lightning.recording.failure_policy import FailurePolicy
from mindsummary_lightning.recording.npy_export import TensorExport, quoted_name
from mindsummary_lightning.recording.summary_record import recorder_of
from mindsummary_lightning.values import Tensor
from tests.support import Clock

LONG = ("layer.1/" + "a" * 300, "layer.2/" + "a" * 300)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def export(run: Path) -> TensorExport:
    return TensorExport(FailurePolicy("run", raise_exception=False), str(run), 0o640)


def _folder(run: Path) -> Path:
    (folder,) = run.glob("export_*/tensor")
    return folder


def _renumber(folder: Path) -> None:
    """Replace a folder by a copy, as a mount that numbers its files anew."""
    copy = folder.with_name("copy")
    shutil.copytree(folder, copy)
    shutil.rmtree(folder)
    copy.rename(folder)


def _listed_names(folder: Path) -> list[str]:
    lines = (folder / "shortened_names.txt").read_text("utf-8").splitlines()
    return [line.partition("\t")[2] for line in lines]


@pytest.mark.parametrize(
    ("tag", "name"),
    [
        ("", "_"),
        ("a b/~é", "a%20b%2F%7E%C3%A9"),
        ("\ud800", "%ED%A0%80"),
        ("a" * 180, "a" * 180),
        ("a" * 181, "a" * 167 + "~" + hashlib.sha256(b"a" * 181).hexdigest()[:12]),
        ("/" * 61, ("%2F" * 61)[:167] + "~" + hashlib.sha256(b"/" * 61).hexdigest()[:12]),
    ],
    ids=["empty", "quoted", "surrogate", "at the limit", "above it", "quoted above it"],
)
def test_a_name_is_the_quoted_tag_in_at_most_180_characters(tag: str, name: str) -> None:
    assert quoted_name(tag) == name
    assert len(name) <= 180


def test_files_have_the_mode_of_the_run_and_lie_in_the_folder_of_the_first(
    run: Path, export: TensorExport, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(1_700_000_000.9)
    monkeypatch.setattr("mindsummary_lightning.recording.npy_export.time.time", clock)
    for step in (3, 4):
        export.save("a", step, np.arange(6, dtype=np.int16).reshape(2, 3) + step)
        clock.now += 10

    folder = run / "export_1700000000" / "tensor"
    assert {path: path.stat().st_mode & 0o777 for path in folder.iterdir()} == {
        folder / "a_3.npy": 0o640,
        folder / "a_4.npy": 0o640,
    }
    assert [*run.iterdir()] == [folder.parent]
    assert np.load(folder / "a_4.npy").tolist() == [[4, 5, 6], [7, 8, 9]]
    assert np.load(folder / "a_4.npy").dtype == np.int16


def test_of_a_step_the_tensors_are_saved_in_their_own_dtype_if_it_is_known(
    run: Path, export: TensorExport
) -> None:
    values = [("a", Tensor(np.ones(2))), ("s", 0.5), ("b", Tensor(np.zeros((1, 2))))]

    assert export.save_all(5, values, {"b": np.array([7, 8]), "s": np.ones(1)}) is True
    assert export.save_all(6, [("s", 0.5)]) is True

    saved = {path.name: np.load(path) for path in _folder(run).iterdir()}
    assert {name: (array.tolist(), str(array.dtype)) for name, array in saved.items()} == {
        "a_5.npy": ([1.0, 1.0], "float32"),
        "b_5.npy": ([7, 8], "int64"),
    }


def test_a_tensor_that_cannot_be_saved_is_counted_and_the_others_are_saved(run: Path) -> None:
    policy = FailurePolicy("run", raise_exception=False)
    export = TensorExport(policy, str(run), 0o600)
    values = [(tag, Tensor(np.ones(2))) for tag in "abc"]
    export.save_all(0, values)
    (_folder(run) / "b_1.npy").mkdir()

    assert export.save_all(1, values) is False
    assert policy.lost == 1
    assert (_folder(run) / "c_1.npy").is_file()


def test_tensors_whose_folder_was_removed_are_counted_once(run: Path, export: TensorExport) -> None:
    assert export.take_losses() == []
    for step in range(3):
        export.save(LONG[0], step, np.ones(1))
    folder = _folder(run)
    shutil.rmtree(folder)
    export.save(LONG[1], 3, np.ones(1))

    assert export.take_losses() == [MissingRecords(3, is_removed=True)]
    assert export.take_losses() == []
    assert _listed_names(folder) == [quote(LONG[1], safe="")]
    export.save(LONG[0], 4, np.ones(1))
    assert _listed_names(folder) == [quote(tag, safe="") for tag in (LONG[1], LONG[0])]
    shutil.rmtree(folder)
    assert export.take_losses() == [MissingRecords(2, is_removed=True)]


def test_a_folder_with_another_number_is_the_same_if_it_has_the_files(
    run: Path, export: TensorExport
) -> None:
    for step in range(3):
        export.save(LONG[0], step, np.ones(1))
    folder = _folder(run)
    np.save(folder / "of_the_user.npy", np.ones(1))
    _renumber(folder)
    assert export.take_losses() == []
    export.save(LONG[1], 3, np.ones(1))
    assert _listed_names(folder) == [quote(tag, safe="") for tag in LONG]

    for path in [*folder.glob("*.npy")][:2]:
        path.unlink()
    assert export.take_losses() == []  # what the user deletes is no loss
    _renumber(folder)
    assert export.take_losses() == [MissingRecords(1, is_removed=True)]
    shutil.rmtree(folder)
    assert export.take_losses() == [MissingRecords(3, is_removed=True)]


def test_a_folder_out_of_reach_is_no_loss(run: Path, export: TensorExport) -> None:
    export.save("a", 1, np.ones(1))
    away = OSError(errno.ENOTCONN, "away")
    with mock.patch("mindsummary_lightning.recording.npy_export.os.stat", side_effect=away):
        assert export.take_losses() == []
    assert export.take_losses() == []


def test_the_end_of_a_record_counts_the_tensors_whose_folder_is_gone(
    run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with SummaryRecord(run, export_options={"tensor_format": "npy"}) as record:
        for step in range(2):
            record.add_tensor("t", np.ones(1), step)
        shutil.rmtree(_folder(run))

    assert recorder_of(record).policy.lost == 2
    assert caplog.messages == [
        f"2 records of {run} are lost in total: 2 were in files that were removed or replaced"
    ]
