"""Our landscapes against a real MindSpore 2.7.0's (golden/mindspore.json, written by
golden/make_golden.py).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from mindsummary_lightning.landscape.batches import take_batches
from mindsummary_lightning.landscape.directions import final_axes, scaled
from mindsummary_lightning.landscape.evaluation import EvaluationOptions
from mindsummary_lightning.landscape.grid import LandscapeGrid, interval_grid
from mindsummary_lightning.landscape.mean_loss import MeanLoss
from mindsummary_lightning.landscape.plane import Plane
from mindsummary_lightning.landscape.shortcuts import loss_on_plane
from mindsummary_lightning.values import LossLandscape
from tests.landscape.plain_loop import flat

GOLDEN = json.loads(
    (Path(__file__).parent / "golden" / "mindspore.json").read_text(encoding="utf-8")
)
STATES = [
    {name: torch.tensor(value) for name, value in state.items()} for state in GOLDEN["checkpoints"]
]
NAMES = list(STATES[-1])


def computed(job: LandscapeGrid) -> LossLandscape:
    network = nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 4))
    data = TensorDataset(torch.tensor(GOLDEN["inputs"]), torch.tensor(GOLDEN["labels"]))
    loss = MeanLoss(network, nn.CrossEntropyLoss())
    batches = take_batches(DataLoader(data, 16), 48, 0)
    surface = loss_on_plane(loss, job, batches, torch.device("cpu"), EvaluationOptions())[1]
    return job.landscape([surface.losses(row) for row in job.rows()], "step", 3)


def close(ours: Any, theirs: Any) -> None:
    np.testing.assert_allclose(ours, np.reshape(theirs, np.shape(ours)), rtol=1e-4, atol=1e-4)


def test_an_interval_landscape_is_mindspores() -> None:
    golden = GOLDEN["landscapes"]["landscape_[1, 6]"]
    job = interval_grid((1, 2, 3, 4, 5, 6), STATES, NAMES, 8, 0)
    ours = computed(job)
    assert job.tag == "landscape_[1, 6]"
    assert list(ours.intervals) == golden["intervals"]
    assert (ours.metadata.decomposition, ours.metadata.unit, ours.metadata.step_per_epoch) == (
        "PCA",
        "step",
        3,
    )
    z = ours.surface.z
    # the sign of a principal direction is free; a flipped axis runs the other way
    for axis in "xy":
        coordinates, grid = getattr(ours.path, axis), getattr(ours.surface, axis)
        if np.dot(coordinates, golden["path"][axis]) < 0:
            coordinates, grid, z = -coordinates, -grid[::-1], z[:, ::-1] if axis == "x" else z[::-1]
        close(coordinates, golden["path"][axis])
        close(grid, golden["surface"][axis])
    close(ours.path.z, golden["path"]["z"])
    close(z, golden["surface"]["z"])
    close(ours.convergence_point, [golden["convergence_point"][axis] for axis in "xyz"])


def test_a_final_landscape_is_mindspores_in_its_random_directions() -> None:
    golden = GOLDEN["landscapes"]["landscape_[6]"]
    first, second = (
        scaled(flat(split(torch.tensor(vector))), STATES[-1]) for vector in GOLDEN["random"]
    )
    job = LandscapeGrid((6,), lambda: Plane(STATES[-1], first, second), *final_axes(8))
    ours = computed(job)
    assert job.tag == "landscape_[6]"
    assert ours.metadata.decomposition == golden["metadata"]["decomposition"] == "Random"
    assert ours.path is None
    assert golden["intervals"] == []
    for axis in "xyz":
        close(getattr(ours.surface, axis), golden["surface"][axis])
    close(ours.convergence_point, [golden["convergence_point"][axis] for axis in "xyz"])


def split(vector: Tensor) -> dict[str, Tensor]:
    parts = vector.double().split([STATES[-1][name].numel() for name in NAMES])
    return {
        name: part.view(STATES[-1][name].shape) for name, part in zip(NAMES, parts, strict=True)
    }
