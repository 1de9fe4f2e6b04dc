"""What counts as a copy from a device and as a wait for it, and which devices are there."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from torch import Tensor

from mindsummary_lightning import SummaryReader, SummaryRecord
from mindsummary_lightning.collection.device_copy import DeviceCopy
from mindsummary_lightning.trainer import device_proof
from mindsummary_lightning.trainer.device_proof import prove_device


class _OnDevice(Tensor):
    """A tensor that says it is on a device, and computes on the CPU."""

    @staticmethod
    def __new__(cls, inner: Tensor) -> _OnDevice:
        made = Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, device=torch.device("meta")
        )
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        inner = [one.inner if isinstance(one, cls) else one for one in args]
        answer = func(*inner, **kwargs)
        goes_to_host = kwargs.get("device") == torch.device("cpu")
        is_written = any(answer is one for one in args)
        return (
            cls(answer)
            if isinstance(answer, Tensor) and not (goes_to_host or is_written)
            else answer
        )


def _there() -> _OnDevice:
    return _OnDevice(torch.tensor([[1.0, 0.0, 2.0], [3.0, 4.0, 0.0]]))


@pytest.mark.parametrize(
    ("ask", "copies", "waits"),
    [
        (lambda: _there() + 1, 0, 0),
        (lambda: _there().to("cpu"), 1, 1),
        (lambda: _there().to("cpu", non_blocking=True), 1, 0),
        (lambda: _there().to("cpu", non_blocking=False), 1, 1),
        (lambda: _there().to(torch.float64), 0, 0),
        (lambda: _there()[1, 2].item(), 0, 1),
        (lambda: _there().nonzero(), 0, 1),
        (lambda: torch.empty(2, 3).copy_(torch.ones(2, 3)), 0, 0),
        (lambda: torch.empty(2, 3).copy_(_there()), 1, 1),
        (lambda: torch.empty(2, 3).copy_(_there(), False), 1, 1),
        (lambda: torch.empty(2, 3).copy_(_there(), True), 1, 0),
        (lambda: torch.ones(3).sum().item(), 0, 0),
    ],
)
def test_copies_to_the_host_and_waits_for_the_device_are_counted(
    ask: Callable[[], Any], copies: int, waits: int
) -> None:
    asked = device_proof._Asked(torch.device("meta"))
    with asked:
        ask()
        ask()
    assert (asked.copies, asked.waits, asked.events) == (2 * copies, 2 * waits, 0)

    of_host = device_proof._Asked(torch.device("cpu"))
    with of_host:
        ask()
    assert (of_host.copies, of_host.waits, of_host.events) == (0, 0, 0)


def test_a_copy_with_an_event_is_waited_for_once() -> None:
    asked = device_proof._Asked(torch.device("meta"))
    with_event, without = (DeviceCopy([torch.arange(3)]) for _ in range(2))
    with_event._event = SimpleNamespace(synchronize=lambda: None)

    for copy in (with_event, without, with_event, with_event):
        assert [part.tolist() for part in asked.wait(copy)] == [[0, 1, 2]]
    assert (asked.copies, asked.waits, asked.events) == (0, 0, 1)


def test_its_trainings_are_alike_and_leave_steps_and_checkpoints(tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    plain, asked = device_proof._fit("cpu")
    recorded, _ = device_proof._fit("cpu", run, {"intervals": [[5, 10, 20]]})
    torch.manual_seed(0)
    untrained = device_proof._Net().state_dict()

    assert asked.device == torch.device("cpu")
    assert (asked.copies, asked.waits, asked.events) == (0, 0, 0)
    assert list(plain) == list(recorded) == list(untrained)
    assert all(torch.equal(plain[name], recorded[name]) for name in plain)
    assert not any(torch.equal(plain[name], untrained[name]) for name in plain)
    losses = SummaryReader(run).scalars("loss/auto")
    assert losses.steps.tolist() == [1, 10, 20]
    assert losses.values[-1] < losses.values[0]


_NAMES = ("device", "weights", "values", "copies", "waits", "events", "landscape")


def _proofs(
    monkeypatch: pytest.MonkeyPatch,
    device: str = "meta",
    *,
    is_same_weight: bool = True,
    cpu_tags: tuple[str, ...] = ("loss/auto", "lr"),
    more: tuple[int, int, int] = (3, 1, 2),
    surface_of_cpu: float = 2.0,
) -> dict[str, tuple[str, bool]]:
    """What is proven of trainings that end like this; the first one, that warms up, differs."""
    calls: list[tuple[Any, ...]] = []

    def fit(accelerator: Any, run: str = "", landscape: Any = None) -> tuple[Any, Any]:
        is_first, is_recorded = not calls, bool(run)
        calls.append((accelerator, run.rpartition("/")[2], landscape))
        asked = device_proof._Asked(torch.device(device))
        before = (100, 100, 100) if is_first else (7, 5, 4)
        asked.copies, asked.waits, asked.events = before
        if is_recorded:
            asked.copies, asked.waits, asked.events = map(sum, zip(before, more, strict=True))
            with SummaryRecord(run) as record:
                for tag in cpu_tags if accelerator == "cpu" else ("loss/auto", "lr"):
                    for step in (1, 10, 20):
                        record.add_value("scalar", tag, 0.5)
                        record.record(step)
        other = torch.tensor([1.0, 2.0 if is_same_weight or not is_recorded else 3.0])
        return {"first": torch.tensor([1.0]), "other": other}, asked

    def surfaces(run: str, accelerator: Any) -> list[Any]:
        assert run.endswith("/checkpoints")
        here = surface_of_cpu if accelerator == "cpu" else 2.0
        return [np.array([[1.0, 2.0], [4.0, 2.0]]), np.array([[1.0, here], [4.0, 2.0]])]

    monkeypatch.setattr(device_proof, "_fit", fit)
    monkeypatch.setattr(device_proof, "_surfaces", surfaces)
    # its trainings are those above, so any device that is here will do
    monkeypatch.setattr(device_proof, "_accelerator", lambda name: "accelerator of " + name)
    found = prove_device("abacus")
    ours = "accelerator of abacus"
    assert calls == [
        (ours, "", None),
        (ours, "", None),
        (ours, "device", None),
        ("cpu", "cpu", None),
        (ours, "checkpoints", {"intervals": [[5, 10, 20]]}),
    ]
    assert tuple(proof.name for proof in found) == _NAMES
    return {proof.name: (proof.state, proof.is_met) for proof in found}


def test_a_device_that_does_as_expected_meets_every_need(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _proofs(monkeypatch)
    counted = "2 scalar, 0 image, 0 tensor, 0 histogram, 0 loss_landscape"

    assert found.pop("device")[0].startswith(f"meta, torch {torch.__version__}, lightning ")
    assert found == {
        "weights": ("equal with and without the collector (equal)", True),
        "values": (f"{counted} (the CPU's: {counted})", True),
        "copies": ("3 more to the host (3: one in each of the steps [1, 10, 20])", True),
        "waits": ("1 more (at most 1: the loss, when the training ends)", True),
        "events": ("2 waited for, a step later (at most 3)", True),
        "landscape": ("differs by 0.0e+00 from the CPU's (below 1e-4)", True),
    }


@pytest.mark.parametrize(
    ("options", "name", "state"),
    [
        ({"is_same_weight": False}, "weights", "DIFFERENT with and"),
        ({"cpu_tags": ("loss/auto",)}, "values", "2 scalar, 0 image"),
        ({"cpu_tags": ("loss/auto", "other")}, "values", "2 scalar, 0 image"),
        ({"more": (2, 1, 3)}, "copies", "2 more to the host (3:"),
        ({"more": (4, 1, 3)}, "copies", "4 more to the host (3:"),
        ({"more": (3, 2, 3)}, "waits", "2 more (at most 1:"),
        ({"more": (3, 0, 4)}, "events", "4 waited for, a step later (at most 3)"),
        ({"surface_of_cpu": 2.0003}, "landscape", "differs by 1.5e-04 from"),
        ({"surface_of_cpu": 1.9997}, "landscape", "differs by 1.5e-04 from"),
        ({"device": "cpu", "more": (1, 0, 0)}, "copies", "1 more to the host (0:"),
        ({"device": "cpu", "more": (0, 1, 0)}, "waits", "1 more (at most 0:"),
        ({"device": "cpu", "more": (0, 0, 1)}, "events", "1 waited for, a step later (at most 0)"),
    ],
)
def test_the_need_that_a_device_does_not_meet_is_the_one_that_says_so(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], name: str, state: str
) -> None:
    found = _proofs(monkeypatch, **options)

    assert [need for need, (_, is_met) in found.items() if not is_met] == [name]
    assert found[name][0].startswith(state)


def test_a_proof_leaves_random_numbers_and_loggers_as_they_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*arguments: Any) -> Any:
        torch.manual_seed(1)
        levels.append([logger.getEffectiveLevel() for logger in loggers])
        raise RuntimeError("mine")

    levels: list[list[int]] = []
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "mindsummary_lightning")]
    monkeypatch.setattr(loggers[0], "level", logging.DEBUG)
    monkeypatch.setattr(loggers[1], "level", logging.WARNING)
    monkeypatch.setattr(device_proof, "_fit", broken)
    before = torch.get_rng_state()
    with pytest.raises(RuntimeError, match="mine"):
        prove_device("cpu")

    assert torch.equal(torch.get_rng_state(), before)
    assert levels == [[logging.ERROR, logging.ERROR]]
    assert [logger.level for logger in loggers] == [logging.DEBUG, logging.WARNING]


@pytest.mark.parametrize("name", ["abacus", "meta", "tpu", "mtia"])
def test_a_device_that_is_not_here_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"PyTorch has no device '{name}' here"):
        prove_device(name)


def test_a_device_that_lightning_does_not_know_trains_with_an_accelerator_of_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen: list[torch.device] = []
    module = SimpleNamespace(is_available=lambda: True, set_device=chosen.append)
    monkeypatch.setattr(torch, "get_device_module", lambda device: module)

    accelerator: Any = device_proof._accelerator("mtia")
    assert isinstance(accelerator, pl.accelerators.Accelerator)
    (device,) = accelerator.get_parallel_devices(1)
    assert device == torch.device("mtia", 0)
    accelerator.setup_device(device)
    assert chosen == [device]
    assert (accelerator.name(), accelerator.auto_device_count()) == ("mtia", 1)
    assert (accelerator.is_available(), accelerator.parse_devices(1)) == (True, 1)
    assert accelerator.get_device_stats(device) == {}
    assert device_proof._accelerator("cpu") == "cpu"
