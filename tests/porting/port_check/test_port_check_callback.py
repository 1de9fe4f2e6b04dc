"""``PortCheck`` in a Trainer: checks, stops, and leaves everything as it was."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import lightning as L
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from mindsummary_lightning import PortCheck, SummaryCollector, SummaryReader
from mindsummary_lightning.fileio.whole_step_file import whole_step_paths

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def quiet() -> None:
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.manual_seed(0)


class Port(L.LightningModule):
    def __init__(self, slope: float = 0.01, shift: float = 0.0, rate: float = 0.1) -> None:
        super().__init__()
        self.model = nn.Sequential(
            nn.Linear(8, 8), nn.LeakyReLU(slope), nn.BatchNorm1d(8), nn.Linear(8, 2)
        )
        self.shift, self.rate, self.calls = shift, rate, 0

    def training_step(self, batch: Any, index: int) -> Tensor:
        self.calls += 1
        loss = (self.model(batch[0]) + self.shift - batch[1]).square().mean()
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: Any, index: int) -> None:
        raise AssertionError("a check validates nothing")

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.Adam(self.parameters(), lr=self.rate)
        return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)]


def loader(shift: float = 0.0, shuffle: bool = False, seed: int = 3) -> DataLoader:
    generator = torch.Generator().manual_seed(seed)
    data = torch.randn(24, 8, generator=generator) + shift, torch.randn(24, 2, generator=generator)
    return DataLoader(
        TensorDataset(*data), 4, shuffle=shuffle, generator=torch.Generator().manual_seed(1)
    )


def fit(module: L.LightningModule, data: DataLoader, *callbacks: Any, **options: Any) -> L.Trainer:
    trainer = L.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[*callbacks],
        **options,
    )
    trainer.fit(module, data, data)
    return trainer


class Recorded(Port):
    def validation_step(self, batch: Any, index: int) -> None:
        return None


def record(folder: Path, **options: Any) -> dict[str, Tensor]:
    """Record two steps of the original; its first weights are returned."""
    original = Recorded()
    weights = {name: value.clone() for name, value in original.state_dict().items()}
    collector = SummaryCollector(
        str(folder),
        collect_output_statistics=(1, 2),
        whole_tensors=True,
        collect_specified_data={"collect_landscape": None},
    )
    fit(original, loader(), collector, **options)
    return weights


def checked(
    folder: Path, port: Port, weights: dict[str, Tensor], data: DataLoader, **options: Any
) -> PortCheck:
    port.load_state_dict(weights)
    check = PortCheck(folder)
    trainer = fit(port, data, check, **options)
    assert trainer.global_step == 2
    assert check.report is not None
    return check


def found(check: PortCheck) -> list[tuple[str, str]]:
    assert check.report is not None
    return [(finding.module, finding.kind) for finding in check.report.findings]


def test_whole_steps_are_files_that_readers_of_the_run_ignore(tmp_path: Path) -> None:
    record(tmp_path)

    assert [*whole_step_paths(str(tmp_path))] == [1, 2]
    assert SummaryReader(str(tmp_path)).output_statistics() is not None


@pytest.mark.parametrize(
    "options", [{}, {"accumulate_grad_batches": 2}, {"gradient_clip_val": 0.1}]
)
def test_a_right_port_has_no_findings(options: dict[str, Any], tmp_path: Path) -> None:
    weights = record(tmp_path, **options)

    assert found(checked(tmp_path, Port(), weights, loader(), **options)) == []


def test_mistakes_in_data_module_loss_and_update_are_found_in_one_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = record(tmp_path)

    check = checked(tmp_path, Port(slope=0.2, shift=0.5, rate=0.2), weights, loader(shift=1e-3))

    assert found(check) == [("", "data"), ("model.1", "output"), ("", "loss"), ("", "update")]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "4 mistakes found in step 1, 2:"
    assert "negative_slope=0.2 (0.01)" in lines[2] + lines[3]


def test_clipping_that_one_alone_has_is_an_update(tmp_path: Path) -> None:
    weights = record(tmp_path)

    assert found(checked(tmp_path, Port(), weights, loader(), gradient_clip_val=1e-3)) == [
        ("", "update")
    ]


def test_a_training_that_follows_is_bit_equal_to_one_without_the_check(tmp_path: Path) -> None:
    weights = record(tmp_path)
    ends = []
    for with_check in (True, False):
        port, data = Recorded(slope=0.2), loader(shuffle=True)
        port.load_state_dict(weights)
        torch.manual_seed(7)
        if with_check:
            fit(port, data, PortCheck(tmp_path))
            assert port.calls == 0
        fit(port, data)
        ends.append(
            (
                {name: value.clone() for name, value in port.state_dict().items()},
                torch.get_rng_state(),
            )
        )

    (first, random), (other, other_random) = ends
    assert all(torch.equal(first[name], other[name]) for name in first)
    assert torch.equal(random, other_random)


def test_a_port_of_another_architecture_is_refused_in_one_line(tmp_path: Path) -> None:
    record(tmp_path)
    port = Port()
    port.model = nn.Sequential(nn.Linear(8, 5), nn.Linear(5, 3))

    with pytest.raises(
        ValueError, match="the port's weights must fit the original's weights"
    ) as caught:
        fit(port, loader(), PortCheck(tmp_path))
    assert "\n" not in str(caught.value)


def test_a_reference_without_whole_tensors_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="whole_tensors=True"):
        PortCheck(tmp_path)
