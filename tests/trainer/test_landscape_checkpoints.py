"""Landscape checkpoints of real trainings.

The budget of the default, and how many steps an epoch has.
"""

from __future__ import annotations

import json
import logging
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from mindsummary_lightning import SummaryCollector, SummaryLandscape
from mindsummary_lightning.landscape.checkpoints import (
    LandscapeCheckpointError,
    LandscapeCheckpointWriter,
)
from mindsummary_lightning.values.landscape_settings import LandscapeSettings
from tests.trainer.support import Net, files, loader, trainer
from tests.trainer.test_gradients import Stream


def _fit(
    run: Path,
    net: Any = None,
    data: Any = None,
    collector: dict[str, Any] | None = None,
    **options: Any,
) -> None:
    callbacks = [SummaryCollector(run, **(collector or {}))]
    trainer(logger=False, callbacks=callbacks, **options).fit(
        net or Net(), loader(20) if data is None else data
    )


def _metadata(run: Path) -> dict[str, Any]:
    return dict(json.loads((run / "ckpt_dir" / "train_metadata.json").read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("data", "options", "expected"),
    [
        (lambda: loader(20), {}, 20),
        (lambda: loader(20), {"accumulate_grad_batches": 4}, 5),
        (lambda: loader(18), {"accumulate_grad_batches": 4}, 5),
        (lambda: loader(20), {"limit_train_batches": 7}, 7),
        (lambda: torch.utils.data.DataLoader(Stream(), 4), {}, 8),
        (lambda: torch.utils.data.DataLoader(Stream(), 4), {"accumulate_grad_batches": 2}, 4),
    ],
    ids=[
        "batches",
        "accumulated",
        "a smaller last step",
        "limited",
        "unknown length",
        "unknown, accumulated",
    ],
)
def test_step_per_epoch_counts_the_optimizer_steps_of_an_epoch(
    tmp_path: Path, data: Any, options: dict[str, Any], expected: int
) -> None:
    _fit(tmp_path, None, data(), max_epochs=2, **options)

    assert _metadata(tmp_path)["step_per_epoch"] == expected


def test_step_per_epoch_is_known_in_the_first_epoch_already(tmp_path: Path) -> None:
    class Broken(Net):
        def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
            if batch_idx == 12:
                raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        _fit(tmp_path, Broken(), accumulate_grad_batches=2)

    assert _metadata(tmp_path)["step_per_epoch"] == 10


class Large(Net):
    """Its 19 checkpoints have 76 MB."""

    def __init__(self) -> None:
        super().__init__()
        self.ballast = nn.Parameter(torch.zeros(1_000_000))


def test_by_default_nothing_is_saved_unless_all_of_it_fits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mindsummary_lightning")
    _fit(tmp_path, Large())

    assert [name for name in files(tmp_path) if name.endswith(".ckpt")] == []
    (line,) = [record for record in caplog.records if "landscape_max_bytes" in record.message]
    assert line.levelname == "INFO"
    assert "19 checkpoints" in line.message
    assert "no checkpoint is saved. Set landscape_max_bytes=" in line.message


@pytest.mark.parametrize(
    ("allowed", "is_named"), [(1_000, False), (1_000, True), (9_000_000, False), (9_000_000, True)]
)
def test_a_landscape_whose_checkpoints_did_not_fit_says_how_many_bytes_they_need(
    tmp_path: Path, allowed: int, is_named: bool
) -> None:
    options: dict[str, Any] = {"landscape_max_bytes": allowed}
    if is_named:
        options["collect_specified_data"] = {
            "collect_landscape": {"create_landscape": {"result": False}}
        }
    net = Large()
    _fit(tmp_path, net, collector=options)
    size = sum(tensor.nbytes for tensor in net.parameters())

    needed = 3 * size if is_named else 19 * size
    text = (
        f"need {needed} bytes, and landscape_max_bytes of SummaryCollector was {allowed}. Train "
        "with"
    )
    with pytest.raises((FileNotFoundError, LandscapeCheckpointError), match=text):
        SummaryLandscape(tmp_path).generate(Large(), loader(2))


@pytest.mark.parametrize(
    ("specified", "level"), [({}, "DEBUG"), ({"collect_landscape": {}}, "WARNING")]
)
def test_parameters_of_fsdp1_are_never_gathered(
    tmp_path: Path, specified: Any, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    gathered: list[str] = []

    class Flattened(Net):
        def state_dict(self, *args: Any, **kwargs: Any) -> Any:
            gathered.append("FSDP1 would wait for the other ranks here")
            return super().state_dict(*args, **kwargs)

    net = Flattened()
    net.first.weight._fsdp_flattened = True  # type: ignore[assignment]  # as FSDP1 marks it
    caplog.set_level(logging.DEBUG, "mindsummary_lightning")
    _fit(tmp_path, net, collector={"collect_specified_data": specified})

    assert [name for name in files(tmp_path) if "ckpt" in name] == gathered == []
    (line,) = [record for record in caplog.records if "loss landscape" in record.message]
    assert line.levelname == level


def test_what_to_set_is_said_at_the_start_if_no_landscape_would_fit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Starting(Large):
        lines = 0

        def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
            self.lines = self.lines or len(
                [line for line in caplog.records if "landscape_max_bytes" in line.message]
            )

    net = Starting()
    named = {"collect_specified_data": {"collect_landscape": {}}, "landscape_max_bytes": 10_000_000}
    _fit(tmp_path, net, collector=named)

    (line,) = [record for record in caplog.records if "landscape_max_bytes" in record.message]
    size = sum(tensor.nbytes for tensor in net.parameters())
    assert line.message.endswith(
        f"only the last checkpoint is saved. Set landscape_max_bytes={3 * size} or more"
    )
    assert net.lines == 1
    assert _metadata(tmp_path)["model_params_file_map"].keys() == {"19"}


def test_checkpoints_are_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr("mindsummary_lightning.fileio.replace.os.fsync", synced.append)
    writer = LandscapeCheckpointWriter(tmp_path, "Net", LandscapeSettings())
    for step in range(1, 20):
        assert writer.save(step, Net().state_dict())
    assert synced == []


class Watching(Net):
    """Counts the checkpoints that are written when each batch begins."""

    def __init__(self, run: Path, stop: int = -1) -> None:
        super().__init__()
        self.run, self.stop, self.found = run, stop, []

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        if batch_idx == self.stop:
            raise KeyboardInterrupt
        self.found.append(len(list(self.run.glob("ckpt_dir/*.ckpt"))))


def test_steps_behind_one_another_are_written_together_and_others_at_once(tmp_path: Path) -> None:
    default, far = Watching(tmp_path / "default"), Watching(tmp_path / "far")
    _fit(default.run, default, loader(21))
    settings = {"intervals": [[1, 3, 5]]}
    _fit(far.run, far, loader(6), {"collect_specified_data": {"collect_landscape": settings}})

    assert default.found == [*[0] * 19, 19, 19]
    assert far.found == [0, 1, 1, 2, 2, 3]
    first, last = (
        torch.load(default.run / "ckpt_dir" / f"Watching_{step}_step.ckpt") for step in (1, 19)
    )
    assert not torch.equal(first["first.weight"], last["first.weight"])


def test_what_waits_is_written_when_the_run_breaks_off_or_has_an_end(tmp_path: Path) -> None:
    broken, short = Watching(tmp_path / "broken", stop=7), Watching(tmp_path / "short")
    with pytest.raises(SystemExit):
        _fit(broken.run, broken)
    _fit(short.run, short, loader(5))

    assert list(_metadata(broken.run)["model_params_file_map"]) == [
        str(step) for step in range(1, 8)
    ]
    assert list(_metadata(short.run)["model_params_file_map"]) == [
        str(step) for step in range(1, 6)
    ]


class Failing(Net):
    def training_step(self, batch: Any, batch_idx: int) -> Any:
        if batch_idx == 4:
            raise RuntimeError("mine")
        return super().training_step(batch, batch_idx)


@pytest.mark.parametrize("net", [Net, Failing])
def test_where_only_the_last_checkpoint_fits_it_is_that_of_the_last_step_that_was(
    tmp_path: Path, net: Any
) -> None:
    module = net()
    size = sum(tensor.nbytes for tensor in module.state_dict().values())
    options = {"landscape_max_bytes": 2 * size, "collect_specified_data": {"collect_landscape": {}}}
    with pytest.raises(RuntimeError, match="mine") if net is Failing else nullcontext():
        _fit(tmp_path, module, loader(6), options)
    last = 4 if net is Failing else 6
    (name,) = _metadata(tmp_path)["model_params_file_map"].values()
    assert name.endswith(f"_{last}_step.ckpt")
    saved = torch.load(tmp_path / "ckpt_dir" / name, weights_only=True)
    assert all(torch.equal(tensor, module.state_dict()[key]) for key, tensor in saved.items())


@pytest.mark.parametrize(("epochs", "expected"), [(4, ["1", "3"]), (2, ["2"])])
def test_epochs_are_saved_at_their_ends_and_only_the_last_where_no_more_fits(
    tmp_path: Path, epochs: int, expected: list[str]
) -> None:
    ends: dict[str, dict[str, Any]] = {}

    class Noting(Net):
        def on_train_epoch_end(self) -> None:
            weights = {name: value.tolist() for name, value in self.state_dict().items()}
            ends[str(self.current_epoch + 1)] = weights

    settings = {"unit": "epoch", "intervals": [[1, 3, 7]]}
    options: dict[str, Any] = {"collect_specified_data": {"collect_landscape": settings}}
    if epochs == 2:
        size = sum(tensor.nbytes for tensor in Net().state_dict().values())
        options["landscape_max_bytes"] = 2 * size
    _fit(tmp_path, Noting(), loader(3), options, max_epochs=epochs)

    names = _metadata(tmp_path)["model_params_file_map"]
    assert list(names) == expected
    for number, name in names.items():
        saved = torch.load(tmp_path / "ckpt_dir" / name, weights_only=True)
        assert {key: value.tolist() for key, value in saved.items()} == ends[number]


class Trained(Large):
    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return super().training_step(batch, batch_idx) + self.ballast.sum()


def peak_of_first_step(callbacks: list[Any]) -> tuple[int, int]:
    """Return the most bytes of tensors that a training of one step has at a time.

    Its weights are left out; their bytes are returned, too.
    """
    torch.manual_seed(0)
    net = Trained()
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profile:
        trainer(logger=False, callbacks=callbacks, max_steps=1).fit(net, loader(1))
    events = sorted(profile.profiler.kineto_results.events(), key=lambda event: event.start_ns())
    live = np.cumsum([event.nbytes() for event in events if event.name() == "[memory]"])
    return int(live.max()), sum(parameter.nbytes for parameter in net.parameters())


def test_a_model_above_the_budget_is_not_copied_to_find_that_out(tmp_path: Path) -> None:
    plain, size = peak_of_first_step([])
    recorded, _ = peak_of_first_step([SummaryCollector(tmp_path)])
    assert plain >= size
    assert recorded - plain <= 0.05 * size
    assert _metadata(tmp_path)["needed_bytes"] >= 19 * size
    assert [file.name for file in (tmp_path / "ckpt_dir").iterdir()] == ["train_metadata.json"]
