"""The file of a whole step: complete or not there, read by NumPy, mapped member by member."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from mindsummary_lightning.fileio.whole_step_file import (
    WholeStepReader,
    WholeStepWriter,
    whole_step_paths,
)
from mindsummary_lightning.values.whole_step import (
    StoredCall,
    StoredModule,
    StoredOptimizer,
    StoredState,
    StoredTensor,
    StoredWeight,
    WholeStep,
)
from tests.fileio.handles import open_handles

ARRAYS = (
    np.arange(6.0).reshape(2, 3),
    np.arange(4).reshape(2, 2).T,
    np.float32(3) * np.ones(()),
    np.zeros((0, 3)),
    np.array([True, False]),
    np.array([[7, 8, 9]], np.int16),
    np.array([[[7.5], [8.5]]]),
)


def written(folder: Path, step: int = 1, arrays: tuple[np.ndarray, ...] = ARRAYS) -> WholeStep:
    writer = WholeStepWriter(str(folder))
    stored = tuple(writer.add(array, f"x.{number}") for number, array in enumerate(arrays))
    whole = WholeStep(
        framework="torch",
        framework_version="2.13.0",
        step=step,
        modules=(StoredModule("", "Net", False, {"p": 0.5}),),
        calls=(
            StoredCall("", "Net", 0, -1, 1, 2, "net.py:3", stored, stored[:1], stored[:1], False),
        ),
        batches=(stored,),
        weights=(StoredWeight("w", "parameter", stored[0], None, stored[0]),),
        losses=stored[:1],
        optimizers=(
            StoredOptimizer(
                "SGD", ({"lr": 0.1},), (("w",),), (StoredState("w", "momentum", stored[0]),)
            ),
        ),
        random_state=stored[1],
    )
    writer.finish(whole)
    return whole


def test_what_was_written_is_read(tmp_path: Path) -> None:
    whole = written(tmp_path)

    reader = WholeStepReader(whole_step_paths(str(tmp_path))[1])

    assert reader.step == whole
    for tensor, array in zip(reader.step.batches[0], ARRAYS, strict=True):
        assert reader.array(tensor).tolist() == array.tolist()
        assert reader.array(tensor).dtype == array.dtype
    assert isinstance(reader.array(reader.step.losses[0]), np.memmap)


def test_numpy_reads_the_file(tmp_path: Path) -> None:
    written(tmp_path)

    with np.load(tmp_path / "whole_step_1.npz") as file:
        assert file["array_0"].tolist() == ARRAYS[0].tolist()


def test_a_tensor_is_told_by_its_place_and_its_array(tmp_path: Path) -> None:
    writer = WholeStepWriter(str(tmp_path))

    assert [
        writer.add(np.zeros((2, 3), np.float16), "x.a"),
        writer.add(np.zeros((4,), np.uint16), "x.b", "bfloat16"),
        writer.add(np.zeros((), np.int64)),
    ] == [
        StoredTensor("x.a", "array_0", "float16", (2, 3)),
        StoredTensor("x.b", "array_1", "bfloat16", (4,)),
        StoredTensor("", "array_2", "int64", ()),
    ]
    writer.discard()


def test_bfloat16_is_held_as_bits_and_read_as_float32(tmp_path: Path) -> None:
    writer = WholeStepWriter(str(tmp_path))
    bits = np.array([0x3F80, 0xC000], np.uint16)
    stored = writer.add(bits, dtype="bfloat16")
    path = writer.finish(WholeStep("torch", "2", 3, losses=(stored,)))

    array = WholeStepReader(path).array(stored)

    assert (array.dtype, array.tolist()) == (np.float32, [1.0, -2.0])


def test_steps_are_listed_by_their_number(tmp_path: Path) -> None:
    for step in (10, 9):
        written(tmp_path, step)
    for name in ("whole_step_x.npz", "whole_step_8.npz.old", "a_whole_step_8.npz"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "whole_step_7.npz").mkdir()

    paths = whole_step_paths(str(tmp_path))
    assert [*paths.items()] == [
        (step, str(tmp_path / f"whole_step_{step}.npz")) for step in (9, 10)
    ]
    assert {Path(path).stat().st_mode & 0o777 for path in paths.values()} == {0o600}


def test_a_tensor_that_the_file_lacks_is_named(tmp_path: Path) -> None:
    written(tmp_path)
    path = str(tmp_path / "whole_step_1.npz")
    lacking = StoredTensor("x", "array_9", "float32", (2, 3))

    with pytest.raises(
        ValueError, match=r"lacks the tensor array_9\. Record the step again"
    ) as told:
        WholeStepReader(path).array(lacking)
    assert str(told.value).startswith(path)


def test_a_step_that_is_discarded_leaves_nothing(tmp_path: Path) -> None:
    writer = WholeStepWriter(str(tmp_path))
    writer.add(ARRAYS[0])
    writer.discard()

    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_writer_that_is_done_has_no_open_file(tmp_path: Path, is_kept: bool) -> None:
    writer = WholeStepWriter(str(tmp_path))
    writer.add(ARRAYS[0])
    (temporary,) = tmp_path.iterdir()
    status = temporary.stat()
    assert len(open_handles(status)) == 1
    if is_kept:
        writer.finish(WholeStep("torch", "2", 3))
    writer.discard()
    writer.discard()

    assert open_handles(status) == []
    assert [path.name for path in tmp_path.iterdir()] == ["whole_step_3.npz"] * is_kept


def test_a_step_may_be_as_large_as_its_limit(tmp_path: Path) -> None:
    writer = WholeStepWriter(str(tmp_path), max_bytes=100)
    writer.add(np.zeros(5))
    assert writer.size == 40
    writer.add(np.zeros(60, np.uint8))
    assert (writer.size, writer.is_too_large) == (100, False)
    writer.add(np.zeros(1, np.uint8))
    assert (writer.size, writer.is_too_large) == (101, True)


def test_a_step_that_is_too_large_states_its_whole_size_and_leaves_nothing(tmp_path: Path) -> None:
    writer = WholeStepWriter(str(tmp_path), max_bytes=1_000_000)
    for _ in range(3):
        writer.add(np.zeros(100_000))

    with pytest.raises(
        ValueError,
        match=r"the tensors of step 2 must have at most 1.0 MB, got 2.4 MB\. Pass a greater",
    ):
        writer.finish(WholeStep("torch", "2", 2))
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"no zip at all"])
def test_half_a_file_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "whole_step_1.npz"
    path.write_bytes(content)

    with pytest.raises(ValueError, match="must be the complete file of a recorded step"):
        WholeStepReader(path)


def test_a_file_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "whole_step_1.npz"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("index.json", '{"format": "mindsummary whole step", "version": 2}')

    with pytest.raises(
        ValueError, match=r"the format version of .* must be 1, got 2. Record the step again"
    ):
        WholeStepReader(path)
