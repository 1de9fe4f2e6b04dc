from __future__ import annotations

import json
import logging
import os
import re
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from mindsummary_lightning.fileio import replace as replace_module
from mindsummary_lightning.landscape.checkpoints import (
    LandscapeCheckpointError,
    LandscapeCheckpoints,
    LandscapeCheckpointWriter,
    RowStore,
    mapped,
    remove_checkpoints,
)
from mindsummary_lightning.recording.failure_policy import FailurePolicy
from mindsummary_lightning.values.landscape_settings import LandscapeSettings
from tests.landscape.nets import save

SETTINGS = LandscapeSettings(intervals=((1, 2, 3), (4, 5, 6)))
STATE = {"weight": torch.arange(6.0).view(2, 3), "count": torch.tensor(4)}


def saved(run: Path) -> list[int]:
    return sorted(LandscapeCheckpoints.open(run).files)


def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    writer = LandscapeCheckpointWriter(tmp_path, "Net", SETTINGS, step_per_epoch=3)
    assert (save(writer, 7, STATE), save(writer, 1, STATE)) == (False, True)  # 7 is of no interval
    saved = LandscapeCheckpoints.open(tmp_path)
    assert saved.settings == SETTINGS
    assert saved.step_per_epoch == 3
    assert saved.files == {1: str(tmp_path / "ckpt_dir" / "Net_1_step.ckpt")}
    assert zipfile.is_zipfile(saved.files[1])
    loaded = mapped(saved.files[1])
    assert list(loaded) == ["weight", "count"]
    assert all(torch.equal(loaded[name], STATE[name]) for name in STATE)


def test_the_metadata_has_mindspores_keys(tmp_path: Path) -> None:
    save(LandscapeCheckpointWriter(tmp_path, "Net", SETTINGS), 1, STATE)
    assert json.loads(
        (tmp_path / "ckpt_dir" / "train_metadata.json").read_text(encoding="utf-8")
    ) == {
        "epoch_group": {"0": [1, 2, 3], "1": [4, 5, 6]},
        "model_params_file_map": {"1": "Net_1_step.ckpt"},
        "step_per_epoch": 1,
        "unit": "step",
        "num_samples": 2048,
        "landscape_size": 40,
        "create_landscape": {"train": True, "result": True},
    }


def test_a_killed_run_can_be_used_up_to_its_last_save(tmp_path: Path) -> None:
    writer = LandscapeCheckpointWriter(tmp_path, "Net", SETTINGS)
    for number in (1, 2, 3, 4):
        save(writer, number, STATE)
    assert LandscapeCheckpoints.open(tmp_path).with_saved_intervals().settings.intervals == (
        (1, 2, 3),
    )


def test_a_checkpoint_that_could_not_be_written_is_not_named_among_the_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = LandscapeCheckpointWriter(tmp_path, "Net", SETTINGS)
    with monkeypatch.context() as full:
        full.setattr(replace_module.os, "replace", lambda *_, **__: os.fstat(-1))
        with pytest.raises(OSError, match="descriptor"):
            save(writer, 1, STATE)
    for number in range(2, 7):
        save(writer, number, STATE)

    assert saved(tmp_path) == [2, 3, 4, 5, 6]
    assert LandscapeCheckpoints.open(tmp_path).with_saved_intervals().settings.intervals == (
        (4, 5, 6),
    )


def files(run: Path) -> list[str]:
    return sorted(path.name for path in (run / "ckpt_dir").glob("*.ckpt"))


def test_checkpoints_of_consecutive_steps_wait_for_the_last_of_them(tmp_path: Path) -> None:
    settings = LandscapeSettings(intervals=((1, 2, 3), (5, 6, 7)))
    writer = LandscapeCheckpointWriter(tmp_path, "Net", settings)
    state = {"weight": torch.arange(6.0).view(2, 3)}
    written = []
    for number in range(1, 9):
        writer.save(number, state)
        state["weight"] += 1  # what was taken stays
        written.append(len(files(tmp_path)))

    assert written == [0, 0, 3, 3, 3, 3, 6, 6]
    for number, path in LandscapeCheckpoints.open(tmp_path).files.items():
        assert mapped(path)["weight"].tolist() == (state["weight"] - 9 + number).tolist()


@pytest.mark.parametrize(
    ("elements", "expected"), [(2**19, [0, 0, 3, 3]), (2**20 + 1, [1, 2, 3, 4])]
)
def test_large_checkpoints_do_not_wait(tmp_path: Path, elements: int, expected: list[int]) -> None:
    settings = LandscapeSettings(intervals=((1, 2, 3, 4, 5),))  # two of 2 MiB fit into 4 MiB
    writer = LandscapeCheckpointWriter(tmp_path, "Net", settings)
    written = []
    for number in range(1, 5):
        writer.save(number, {"weight": torch.zeros(elements)})
        written.append(len(files(tmp_path)))

    assert written == expected


def test_the_end_of_an_epoch_writes_what_waits_and_how_many_steps_it_had(tmp_path: Path) -> None:
    writer = LandscapeCheckpointWriter(tmp_path, "Net", SETTINGS, step_per_epoch=7)
    writer.end_epoch(6)
    writer.end_epoch(7)
    assert not (tmp_path / "ckpt_dir").exists()

    writer.save(1, STATE)
    writer.end_epoch(7)
    assert (saved(tmp_path), LandscapeCheckpoints.open(tmp_path).step_per_epoch) == ([1], 7)

    writer.end_epoch(5)
    assert (saved(tmp_path), LandscapeCheckpoints.open(tmp_path).step_per_epoch) == ([1], 5)


@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_what_is_going_to_be_saved_is_known_from_the_begin_or_the_first_checkpoint(
    tmp_path: Path,
) -> None:
    writer = LandscapeCheckpointWriter(tmp_path, "Net", SETTINGS, max_bytes=4 * 24)
    lazy = {"first": torch.zeros(2), "weight": nn.LazyLinear(2).weight}
    state = {"first": torch.zeros(2), "weight": torch.zeros(4)}
    writer.begin(lazy)
    assert writer.planned() is None
    assert [number for number in range(8) if writer.wants(number)] == [1, 2, 3, 4, 5, 6]

    assert not save(writer, 1, state)
    assert writer.planned() == (3, 3 * 24)
    assert [number for number in range(8) if writer.wants(number)] == [4, 5, 6]
    other = LandscapeCheckpointWriter(tmp_path / "other", "Net", SETTINGS)
    other.begin(state)
    assert other.planned() == (6, 6 * 24)
    assert not (tmp_path / "other").exists()


def test_if_only_one_checkpoint_fits_it_is_that_of_the_end(tmp_path: Path) -> None:
    writer = LandscapeCheckpointWriter(tmp_path, "Net", SETTINGS, max_bytes=50)
    state = {"weight": torch.zeros(10)}
    writer.begin(state)
    for number in (1, 2, 3):
        assert not writer.save(number, state)
    writer.end(4, {"weight": torch.ones(10)})

    assert saved(tmp_path) == [4]
    assert mapped(LandscapeCheckpoints.open(tmp_path).files[4])["weight"].tolist() == [1.0] * 10
    usable = LandscapeCheckpoints.open(tmp_path).with_saved_intervals()
    assert (usable.settings.train, usable.settings.result, usable.last()) == (False, True, 4)


def test_if_only_one_checkpoint_fits_and_was_saved_the_end_saves_no_other(tmp_path: Path) -> None:
    writer = LandscapeCheckpointWriter(tmp_path, "Net", SETTINGS, max_bytes=50)
    state = {"weight": torch.zeros(10)}
    assert [save(writer, number, state) for number in range(1, 8)] == [False] * 5 + [True, False]
    writer.end(7, {"weight": torch.ones(10)})

    assert (saved(tmp_path), files(tmp_path)) == ([6], ["Net_6_step.ckpt"])


def test_without_an_interval_the_error_says_how_many_bytes_the_run_needed(tmp_path: Path) -> None:
    settings = replace(SETTINGS, result=False)
    writer = LandscapeCheckpointWriter(tmp_path, "Net", settings, max_bytes=50)
    save(writer, 6, {"weight": torch.zeros(10)})

    with pytest.raises(
        LandscapeCheckpointError,
        match=r"found \[6\] in .*; they need 120 bytes, and landscape_max_bytes of "
        r"SummaryCollector was 50\. Train with landscape_max_bytes=120 or more",
    ):
        LandscapeCheckpoints.open(tmp_path).with_saved_intervals()


def test_checkpoints_whose_names_cannot_be_written_are_lost_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = FailurePolicy(str(tmp_path), raise_exception=False)
    writer = LandscapeCheckpointWriter(tmp_path, "Net", SETTINGS, policy=policy)
    move = os.replace

    def refusing(source: str, target: str, **options: object) -> None:
        if str(target).endswith("train_metadata.json"):
            raise OSError(28, "No space left on device", target)
        move(source, target, **options)  # type: ignore[arg-type]

    for number in (1, 2):
        save(writer, number, STATE)
    with monkeypatch.context() as full:
        full.setattr(replace_module.os, "replace", refusing)
        for number in (3, 4, 5):
            save(writer, number, STATE)
        (tmp_path / "ckpt_dir" / "Net_4_step.ckpt").unlink()
        assert policy.lost == 0
        writer.end(6, STATE)

    assert saved(tmp_path) == [1, 2]
    assert policy.lost == 3  # the removed, and the two of which the names are not written


def test_the_end_writes_what_waits_and_a_checkpoint_that_was_saved_is_not_saved_again(
    tmp_path: Path,
) -> None:
    writer = LandscapeCheckpointWriter(tmp_path, "Net", SETTINGS)
    writer.save(1, STATE)
    writer.end(2, {"weight": torch.ones(2)})

    assert (saved(tmp_path), files(tmp_path)) == ([1], ["Net_1_step.ckpt"])


def test_checkpoints_that_somebody_deletes_are_forgotten_and_counted_if_this_run_wrote_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    earlier = LandscapeCheckpointWriter(tmp_path, "Net", SETTINGS)
    for number in (1, 2):
        save(earlier, number, STATE)
    policy = FailurePolicy(str(tmp_path), raise_exception=False)
    writer = LandscapeCheckpointWriter(tmp_path, "Net", SETTINGS, policy=policy)
    for number in (3, 4, 5):
        save(writer, number, STATE)
    assert saved(tmp_path) == [1, 2, 3, 4, 5]

    for number in (1, 3, 4):  # 1 is of the earlier run
        (tmp_path / "ckpt_dir" / f"Net_{number}_step.ckpt").unlink()
    writer.end(6, STATE)
    writer.end(6, STATE)

    assert saved(tmp_path) == [2, 5]
    assert policy.lost == 2
    policy.log_total()
    assert "2 were in files that were removed or replaced" in caplog.text


def test_a_run_of_other_intervals_keeps_nothing_of_the_earlier(tmp_path: Path) -> None:
    save(LandscapeCheckpointWriter(tmp_path, "Net", SETTINGS), 1, STATE)
    others = LandscapeSettings(intervals=((1, 2, 3, 5),))
    save(LandscapeCheckpointWriter(tmp_path, "Net", others), 3, STATE)

    assert saved(tmp_path) == [3]


def test_if_not_all_checkpoints_fit_none_is_saved_where_all_are_needed(tmp_path: Path) -> None:
    state = {"weight": torch.zeros(10)}
    for max_bytes in (6 * 40, 6 * 40 - 1):
        run = tmp_path / str(max_bytes)
        writer = LandscapeCheckpointWriter(
            run, "Net", SETTINGS, max_bytes=max_bytes, all_or_nothing=True
        )
        writer.begin(state)
        assert [save(writer, number, state) for number in range(1, 7)] == [max_bytes == 240] * 6
    with pytest.raises(
        FileNotFoundError,
        match=r"ckpt_dir has no checkpoints for a landscape: they need 240 bytes, and "
        r"landscape_max_bytes of SummaryCollector was 239\. Train with landscape_max_bytes=240 or ",
    ):
        LandscapeCheckpoints.open(tmp_path / "239")
    assert saved(tmp_path / "240") == [1, 2, 3, 4, 5, 6]


def test_the_last_number_is_that_of_the_named_intervals_or_of_the_saved(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        save(LandscapeCheckpointWriter(tmp_path, "Net", SETTINGS), number, STATE)
    found = LandscapeCheckpoints.open(tmp_path)

    assert found.last() == 3
    assert replace(found, has_named_intervals=True).last() == 6
    assert replace(found, files={}).last() == 0


def test_finished_rows_come_back_and_parts_of_rows_do_not(tmp_path: Path) -> None:
    store = RowStore(str(tmp_path / "ckpt_dir" / "rows_1"))
    points = [np.zeros((3, 2)), np.zeros((3, 2)), np.zeros((2, 2))]
    assert store.rows(points) == {}
    store.write(0, np.array([1.0, 2.5, np.nan]))
    store.write(2, np.array([4.0, np.inf]))

    found = store.rows(points)
    assert sorted(found) == [0, 2]
    np.testing.assert_array_equal(found[0], [1.0, 2.5, np.nan])
    np.testing.assert_array_equal(found[2], [4.0, np.inf])
    assert sorted(store.rows([np.zeros((2, 2)), points[1], points[2]])) == [2]

    store.clear()
    store.clear()
    assert store.rows(points) == {}
    assert not (tmp_path / "ckpt_dir" / "rows_1").exists()


def test_tied_weights_are_saved_once(tmp_path: Path) -> None:
    first, second = nn.Linear(200, 200), nn.Linear(200, 200)
    second.weight = first.weight
    save(
        LandscapeCheckpointWriter(tmp_path, "Net", SETTINGS),
        1,
        nn.Sequential(first, second).state_dict(),
    )
    assert list(mapped(LandscapeCheckpoints.open(tmp_path).files[1])) == [
        "0.weight",
        "0.bias",
        "1.bias",
    ]
    assert (tmp_path / "ckpt_dir" / "Net_1_step.ckpt").stat().st_size < 1.2 * first.weight.nbytes


def test_a_view_is_saved_without_the_storage_behind_it(tmp_path: Path) -> None:
    save(
        LandscapeCheckpointWriter(tmp_path, "Net", SETTINGS),
        1,
        {"weight": torch.zeros(1_000_000)[:10]},
    )
    assert (tmp_path / "ckpt_dir" / "Net_1_step.ckpt").stat().st_size < 10_000


@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_entries_that_are_no_tensors_or_have_no_elements_yet_are_left_out(tmp_path: Path) -> None:
    others = {"_extra_state": {"a": 1}, "lazy": nn.LazyLinear(2).weight}
    save(LandscapeCheckpointWriter(tmp_path, "Net", SETTINGS), 1, STATE | others)
    assert list(mapped(LandscapeCheckpoints.open(tmp_path).files[1])) == ["weight", "count"]


@pytest.mark.parametrize(
    ("capacity", "expected", "advised"),
    [
        (8, [1, 2, 3, 4, 5, 6, 7, 8], None),
        (6, [1, 2, 3, 4, 6, 8], 8),  # two intervals of three
        (4, [4, 5, 7, 8], 8),
        (3, [4, 6, 8], 8),
        (2, [8], 3),  # an interval of three
        (1, [8], 3),
        (0, [], 3),
    ],
)
def test_the_byte_budget_thins_the_intervals_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capacity: int, expected: list[int],
    advised: int | None,
) -> None:  # fmt: skip
    settings = LandscapeSettings(intervals=((1, 2, 3), (4, 5, 6, 7, 8)))
    state = {"weight": torch.zeros(1000)}
    writer = LandscapeCheckpointWriter(tmp_path, "Net", settings, max_bytes=4000 * capacity + 100)
    with caplog.at_level(logging.WARNING):
        written = [number for number in range(1, 9) if save(writer, number, state)]
    assert written == expected
    assert len(caplog.records) == (capacity < 8)
    assert re.findall(r"Set landscape_max_bytes=(\d+)", caplog.text) == (
        [] if advised is None else [str(4000 * advised)]
    )
    if written:
        assert saved(tmp_path) == written


@pytest.mark.parametrize(("name", "number", "kept"), [("Net", 3, [1, 2, 3]), ("Other", 3, [3])])
def test_a_run_that_goes_on_keeps_what_lies_before_and_another_networks_does_not(
    tmp_path: Path, name: str, number: int, kept: list[int]
) -> None:
    writer = LandscapeCheckpointWriter(tmp_path, "Net", SETTINGS)
    for each in (1, 2, 3, 4):
        save(writer, each, STATE)
    save(LandscapeCheckpointWriter(tmp_path, name, SETTINGS), number, STATE)
    assert saved(tmp_path) == kept


def test_a_moved_run_finds_its_checkpoints(tmp_path: Path) -> None:
    save(LandscapeCheckpointWriter(tmp_path / "run", "Net", SETTINGS), 1, STATE)
    os.rename(tmp_path / "run", tmp_path / "moved")
    assert torch.equal(
        mapped(LandscapeCheckpoints.open(tmp_path / "moved").files[1])["weight"], STATE["weight"]
    )


def test_a_missing_checkpoint_is_named(tmp_path: Path) -> None:
    writer = LandscapeCheckpointWriter(tmp_path, "Net", SETTINGS)
    save(writer, 1, STATE)
    save(writer, 2, STATE)
    (tmp_path / "ckpt_dir" / "Net_2_step.ckpt").unlink()
    with pytest.raises(
        LandscapeCheckpointError,
        match=r"no checkpoint of step 2, 3; the saved checkpoints are \[1\]",
    ):
        LandscapeCheckpoints.open(tmp_path).check([1, 2, 3])


def test_too_short_a_run_says_what_was_wanted_and_found(tmp_path: Path) -> None:
    save(LandscapeCheckpointWriter(tmp_path, "Net", replace(SETTINGS, result=False)), 1, STATE)
    with pytest.raises(
        LandscapeCheckpointError,
        match=r"3 checkpoints .* wanted step \[\[1, 2, 3\], \[4, 5, 6\]\], found \[1\]",
    ):
        LandscapeCheckpoints.open(tmp_path).with_saved_intervals()


def test_a_run_without_a_trail_says_how_to_leave_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="train the run with SummaryCollector"):
        LandscapeCheckpoints.open(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"epoch_group": 3}', "[" * 100_000])
def test_damaged_metadata_is_one_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "ckpt_dir").mkdir()
    (tmp_path / "ckpt_dir" / "train_metadata.json").write_text(text, encoding="utf-8")
    with pytest.raises(LandscapeCheckpointError, match=r"train_metadata\.json"):
        LandscapeCheckpoints.open(tmp_path)


class Hostile:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("hostile",)


@pytest.mark.parametrize("damage", ["cut", "empty", "pickle"])
def test_a_damaged_or_hostile_checkpoint_is_one_error_and_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    monkeypatch.chdir(tmp_path)
    save(LandscapeCheckpointWriter(tmp_path, "Net", SETTINGS), 1, STATE)
    path = tmp_path / "ckpt_dir" / "Net_1_step.ckpt"
    if damage == "pickle":
        torch.save({"weight": Hostile()}, path)
    else:
        path.write_bytes(path.read_bytes()[:200] if damage == "cut" else b"")
    with pytest.raises(
        LandscapeCheckpointError, match=r"Net_1_step\.ckpt is not a checkpoint this package wrote"
    ):
        mapped(LandscapeCheckpoints.open(tmp_path).files[1])
    assert not (tmp_path / "hostile").exists()


def test_clean_removes_the_checkpoints_and_nothing_else(tmp_path: Path) -> None:
    save(LandscapeCheckpointWriter(tmp_path, "Net", SETTINGS), 1, STATE)
    (tmp_path / "kept").touch()
    remove_checkpoints(tmp_path)
    remove_checkpoints(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_sharded_parameters_are_left_out_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from torch import distributed
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    store = distributed.FileStore(str(tmp_path / "store"), 1)
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        sharded = distribute_tensor(torch.ones(4), init_device_mesh("cpu", (1,)), [Shard(0)])
        writer = LandscapeCheckpointWriter(tmp_path / "run", "Net", SETTINGS)
        assert save(writer, 1, {"sharded": sharded, "also": sharded, "weight": torch.ones(2)})
        assert save(writer, 2, {"sharded": sharded}) is False
    finally:
        distributed.destroy_process_group()
    assert list(mapped(LandscapeCheckpoints.open(tmp_path / "run").files[1])) == ["weight"]
    assert [record.message for record in caplog.records if "sharded" in record.message] == [
        (
            "loss landscape: the parameter sharded is sharded over devices; "
            "sharded parameters are not saved"
        )
    ]
