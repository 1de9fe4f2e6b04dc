"""``PortCheck`` in small fits: what it reports, where it stops, and what it leaves as it was."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import pytest
import torch
from lightning.pytorch.plugins import MixedPrecision
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from mindsummary_lightning import PortCheck, StepRecorder
from tests.trainer.support import trainer

pytestmark = pytest.mark.filterwarnings("ignore")

_CLIPPED = 0.05  # below every norm of the gradients
_TAKEN_OVER = [
    {"what": "weights before the step", "reason": "this step is not the first step"},
    {
        "what": "learning rate",
        "reason": "this step is not the first step; the recorded rate is used",
    },
]


class Halved(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, : x.shape[1] // 2]


class Port(L.LightningModule):
    """A small network; each way is a mistake that a port may have."""

    def __init__(self, way: str = "") -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(3, 4), nn.BatchNorm1d(4)
        self.act, self.side = nn.LeakyReLU(0.2 if way == "slope" else 0.01), nn.Tanh()
        if way == "halves":
            self.act, self.side = Halved(), Halved()
        self.last = nn.Linear(4, 2)
        self.way, self.validated = way, 0
        self.number, self.numbers = 0, itertools.count(1)  # which a check does not restore

    def forward(self, x: Tensor) -> Tensor:
        repeats = 2 if self.way == "halves" else 1
        h = self.norm(self.first(x))
        if self.way == "detached":
            h = h.detach()
        acted = self.act(h).repeat(1, repeats) + h
        return self.last(acted + self.side(h).repeat(1, repeats) * h)

    def on_train_start(self) -> None:
        torch.rand(1), np.random.rand(), random.random()  # noqa: NPY002

    def training_step(self, batch: Any, index: int) -> Tensor:
        self.number = next(self.numbers)
        if self.way == "fails" and self.number == 2:
            raise ValueError("odd value\nin the batch")
        loss = (self(batch[0]) - batch[1]).square().mean()
        return 1.5 * loss if self.way == "loss" else loss

    def on_before_optimizer_step(self, optimizer: Any) -> None:
        if self.way == "breaks" and self.number == 2:
            raise OSError("no space")

    def on_train_batch_end(self, outputs: Any, batch: Any, index: int) -> None:
        if self.way == "rate":
            self.optimizers().param_groups[0]["lr"] = 0.2

    def validation_step(self, batch: Any, index: int) -> None:
        self.validated += 1

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


def _batches(count: int) -> list[list[Tensor]]:
    generator = torch.Generator().manual_seed(3)
    return [
        [torch.randn(5, 3, generator=generator), torch.randn(5, 2, generator=generator)]
        for _ in range(count)
    ]


def _loader(*numbers: int, **options: Any) -> DataLoader[Any]:
    """A loader of these batches of the original, or of the first six."""
    batches = [_batches(6)[number - 1] for number in numbers or range(1, 7)]
    parts = [torch.cat(part) for part in zip(*batches, strict=True)]
    return DataLoader(TensorDataset(*parts), batch_size=5, **options)


def _shuffled() -> DataLoader[Any]:
    return _loader(shuffle=True, generator=torch.Generator().manual_seed(1))


def _original() -> Port:
    torch.manual_seed(0)
    return Port()


def _record(folder: Path, clip: float | None = None) -> Path:
    """Record the first three steps of the original."""
    original = _original()
    optimizer = original.configure_optimizers()
    recorder = StepRecorder(folder, 3, whole_tensors=True)
    for batch in _batches(3):
        with recorder.step(original, optimizer, batch) as loss_is:
            optimizer.zero_grad()
            loss = original.training_step(batch, 0)
            loss_is(loss)
            loss.backward()
            if clip is not None:
                nn.utils.clip_grad_norm_(original.parameters(), clip)
            optimizer.step()
    return folder


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _record(tmp_path_factory.mktemp("original"))


def _port(way: str = "") -> Port:
    port = Port(way)
    port.load_state_dict(_original().state_dict())
    return port


def _fit(port: Port, *callbacks: Any, data: Any = None, **options: Any) -> Any:
    running = trainer(logger=False, callbacks=[*callbacks], **options)
    running.fit(port, _loader() if data is None else data, _loader(1))
    return running


def _found(check: PortCheck) -> list[tuple[str, str]]:
    assert check.report is not None
    return [(finding.module, finding.kind) for finding in check.report.findings]


def _state(port: Port, data: DataLoader[Any]) -> list[Any]:
    """All that a check may change and must restore."""
    hooks = [len(module._forward_hooks) for module in port.modules()]
    return [
        *(value.tolist() for value in port.state_dict().values()),
        [module.training for module in port.modules()],
        torch.get_rng_state().tolist(),
        np.random.get_state()[1].tolist(),  # type: ignore[index, union-attr] # noqa: NPY002
        random.getstate(),
        data.generator.get_state().tolist(),
        hooks,
        "training_step" in vars(port),
    ]


def test_a_check_stops_after_the_recorded_steps_and_leaves_everything_as_it_was(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port, data, check = _port("slope"), _shuffled(), PortCheck(recorded)
    before = _state(port, data)
    limits = {"limit_val_batches": 1, "num_sanity_val_steps": 1}
    running = _fit(port, check, data=data, max_epochs=4, min_epochs=3, min_steps=9, **limits)

    assert _found(check) == [("", "data"), ("", "data"), ("act", "output")]
    assert capsys.readouterr().out.startswith("3 mistakes found in step 1, 2, 3:")
    assert running.global_step == 3
    assert _state(port, data) == before
    assert {name: getattr(running, name) for name in limits} == limits
    assert port.validated == 0


def test_a_callback_checks_again_in_the_next_fit_and_lets_others_validate(recorded: Path) -> None:
    port, check, seen = _port("slope"), PortCheck(recorded, steps=2), []

    class Look(L.Callback):
        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            seen.append(check.report)

    first = _fit(port, check, Look())
    first.validate(port, _loader(1, 2), verbose=False)
    report, other = check.report, _port("slope")
    before = _state(other, _shuffled())
    second = _fit(other, check, Look())

    assert seen == [None, None]
    assert (first.global_step, second.global_step, port.validated) == (2, 2, 2)
    assert check.report.to_dict() == report.to_dict()
    assert _found(check) == [("act", "output")]
    assert _state(other, _shuffled()) == before


def test_a_fit_that_breaks_off_gives_back_what_the_check_changed(recorded: Path) -> None:
    port, data, check = _port("breaks"), _shuffled(), PortCheck(recorded)
    before = _state(port, data)
    running = trainer(logger=False, callbacks=[check], limit_val_batches=3)
    with pytest.raises(OSError, match="no space"):
        running.fit(port, data, _loader(1))

    assert check.report is None
    assert _state(port, data) == before
    assert (running.limit_val_batches, running.num_sanity_val_steps) == (3, 0)
    other = _port()
    _fit(other, check)
    assert _found(check) == []
    assert _state(other, data) == before


def test_a_step_that_fails_on_the_originals_values_is_not_tested(recorded: Path) -> None:
    check = PortCheck(recorded)
    port = _port("fails")
    _fit(port, check)

    error = "the step raised an error on the original's values: ValueError: odd value"
    assert (_found(check), next(port.numbers)) == ([], 5)
    assert check.report.to_dict()["not_tested"] == [
        {"what": "weights before the step", "reason": "this step is not the first step"},
        {"what": "modules", "reason": "the step has called no module of the original"},
        {"what": "everything after the last finding", "reason": error},
        _TAKEN_OVER[1],  # its optimizer has not made the step before
    ]


def test_no_batch_of_a_step_is_checked_after_one_that_failed(recorded: Path) -> None:
    check, port = PortCheck(recorded, steps=1), _port("fails")
    next(port.numbers)
    _fit(port, check, accumulate_grad_batches=2)

    assert (_found(check), next(port.numbers)) == ([], 5)
    not_tested = [each["what"] for each in check.report.to_dict()["not_tested"]]
    assert not_tested == ["modules", "everything after the last finding"]


def test_modules_of_another_size_are_each_reported(recorded: Path) -> None:
    check = PortCheck(recorded)
    _fit(_port("halves"), check)

    assert _found(check) == [("act", "output"), ("side", "output"), ("", "inputs")]
    assert {finding.step for finding in check.report.findings} == {1}


def test_clipping_takes_the_originals_gradients_where_the_port_has_none(tmp_path: Path) -> None:
    check = PortCheck(_record(tmp_path, clip=_CLIPPED))
    _fit(_port("detached"), check, gradient_clip_val=_CLIPPED)

    assert _found(check) == [("", "no gradient")]


def test_a_rate_is_checked_in_a_step_that_follows_and_taken_over_in_another(recorded: Path) -> None:
    following, later = PortCheck(recorded, steps=2), PortCheck(recorded, steps=[1, 3])
    _fit(_port("rate"), following)
    _fit(_port("rate"), later, data=_loader(1, 3))

    assert _found(following) == [("", "update")]
    assert _found(later) == []
    assert later.report.to_dict()["not_tested"] == _TAKEN_OVER


def test_weights_before_a_later_step_are_the_originals(recorded: Path) -> None:
    check = PortCheck(recorded, steps=[2, 3])
    _fit(Port(), check, data=_loader(2, 3))

    assert _found(check) == []
    assert check.report.to_dict()["not_tested"] == _TAKEN_OVER


def test_a_loss_of_another_size_is_a_mistake(recorded: Path) -> None:
    check = PortCheck(recorded, steps=1)
    _fit(_port("loss"), check)

    assert _found(check) == [("", "loss")]


def test_a_loss_that_is_scaled_for_mixed_precision_is_none(recorded: Path) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**6)
    check = PortCheck(recorded, steps=1)
    _fit(_port(), check, plugins=MixedPrecision("16-mixed", "cpu", scaler))

    assert _found(check) == []


def test_several_processes_are_refused(recorded: Path) -> None:
    running = trainer(logger=False, devices=2, strategy="ddp")
    with pytest.raises(ValueError, match=r"must run in one process, got 2\. Pass Trainer"):
        PortCheck(recorded).setup(running, Port(), "fit")


def test_its_repr_names_the_reference(recorded: Path) -> None:
    assert (
        repr(PortCheck(recorded))
        == repr(PortCheck(str(recorded)))
        == f"PortCheck({str(recorded)!r})"
    )
