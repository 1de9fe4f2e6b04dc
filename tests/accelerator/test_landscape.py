"""Landscapes on the stand-in: on one device, on two in two processes, equal to the CPU's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mindsummary_lightning import SummaryLandscape
from tests.accelerator.lightning_accelerator import StandInAccelerator
from tests.landscape import nets


class Witness(nets.ConvNet):
    """Writes which process it runs in on which device, into the folder that ``WITNESSES`` names."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if "WITNESSES" in os.environ:
            Path(os.environ["WITNESSES"], f"{os.getpid()}-{x.device}").touch()
        return super().forward(x)


def trained(folder: Path, net: Any) -> Any:
    torch.manual_seed(0)
    network = net()
    nets.train(network, str(folder))
    return network


def landscapes(folder: Path, net: Any = Witness, **options: Any) -> dict[str, Any]:
    network = trained(folder, net)
    return SummaryLandscape(folder).generate(network, nets.loader(network), nets.LOSS, **options)


def assert_alike(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for tag, landscape in found.items():
        np.testing.assert_allclose(
            landscape.surface.z, expected[tag].surface.z, rtol=1e-6, err_msg=tag
        )


@pytest.mark.parametrize("devices", [1, [1]])
@pytest.mark.parametrize("net", [nets.Mlp, nets.ConvNet, nets.Transformer])
def test_one_device_gives_the_landscapes_of_the_cpu(tmp_path: Path, net: Any, devices: Any) -> None:
    expected = landscapes(tmp_path / "cpu", net, accelerator="cpu", devices=1)
    assert_alike(
        landscapes(tmp_path / "npu", net, accelerator=StandInAccelerator(), devices=devices),
        expected,
    )


def test_it_runs_on_the_device_that_was_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = trained(tmp_path / "run", Witness)
    monkeypatch.setenv("WITNESSES", str(tmp_path))
    SummaryLandscape(tmp_path / "run").generate(
        network, nets.loader(network), nets.LOSS, accelerator=StandInAccelerator(), devices=[1]
    )
    assert {path.name.split("-")[1] for path in tmp_path.glob("*-*")} == {"npu:1"}


@pytest.mark.parametrize("options", [{"train_mode": True}, {"points_at_once": 4}])
def test_the_options_work_on_a_device(tmp_path: Path, options: dict[str, Any]) -> None:
    expected = landscapes(tmp_path / "cpu", nets.Mlp, accelerator="cpu", devices=1, **options)
    found = landscapes(
        tmp_path / "npu", nets.Mlp, accelerator=StandInAccelerator(), devices=1, **options
    )
    assert_alike(found, expected)


def test_a_device_without_float64_gives_the_same_landscapes(tmp_path: Path) -> None:
    from tests.accelerator import npu

    expected = landscapes(tmp_path / "cpu", accelerator="cpu", devices=1)
    npu.lack("float64")
    assert_alike(
        landscapes(tmp_path / "npu", accelerator=StandInAccelerator(), devices=1), expected
    )


@pytest.mark.slow
def test_two_devices_divide_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = landscapes(tmp_path / "cpu", accelerator="cpu", devices=1)
    network = trained(tmp_path / "npu", Witness)
    monkeypatch.setenv("WITNESSES", str(tmp_path))
    found = SummaryLandscape(tmp_path / "npu").generate(
        network, nets.loader(network), nets.LOSS, accelerator=StandInAccelerator(), devices=2
    )
    assert_alike(found, expected)
    witnesses = [path.name.split("-") for path in tmp_path.glob("*-npu:*")]
    assert {device for process, device in witnesses if int(process) != os.getpid()} == {
        "npu:0",
        "npu:1",
    }
