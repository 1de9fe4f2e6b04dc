"""Landscapes of many kinds of models, each against a loop that builds the model anew at every
point.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.parameter import is_lazy

from mindsummary_lightning.landscape import summary_landscape, workers
from mindsummary_lightning.landscape.checkpoints import (
    LandscapeCheckpoints,
    LandscapeCheckpointWriter,
    RowStore,
)
from mindsummary_lightning.landscape.summary_landscape import SummaryLandscape
from mindsummary_lightning.values import LossLandscape
from mindsummary_lightning.values.landscape_settings import LandscapeSettings
from tests.landscape.zoo import ZOO, Animal, converted, fresh, materialized, walk
from tests.warm_processes import run_warm, warm_processes

SIZE, NUMBERS = 3, (1, 2, 3, 4)
TAGS = ["landscape_[1, 4]", "landscape_[4]"]
UNPICKLABLE = ("compiled", "hidden state", "scripted", "bound: FirstBatch", "bound: Teacher")
# One for each kind of state and loss; what other processes do for all others is in the long form.
FEW = ("running mean", "viewed", "metrics", "bf16-true")
# One for each way in which the parameters get to a point, or the batches to the network.
QUICK = (
    *("running mean", "viewed", "bf16-true", "spectral", "lazy", "used twice", "student"),
    *("dict batches", "data module"),
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the run of each model is, once it is asked for."""
    return tmp_path_factory.mktemp("zoo")


def run_of(runs: Path, name: str) -> Path:
    """Return the run of a model; write it, if this is the first to ask."""
    if not (runs / name).exists():
        animal = ZOO[name]
        settings = LandscapeSettings(SIZE, num_samples=animal.samples, intervals=(NUMBERS,))
        writer = LandscapeCheckpointWriter(runs / name, "Net", settings)
        for number, state in enumerate(walk(animal, len(NUMBERS)), 1):
            writer.save(number, state)
    return runs / name


def generate(
    runs: Path, name: str, module: nn.Module | None = None, **options: Any
) -> dict[str, LossLandscape]:
    animal = ZOO[name]
    module = fresh(animal) if module is None else module
    return SummaryLandscape(run_of(runs, name)).generate(
        animal.part(module) if animal.part else module,
        (animal.data or animal.batches)(),
        animal.loss_fn,
        prefix=animal.prefix,
        **{"accelerator": "cpu", "devices": 1, "output": runs / name / "out"} | options,
    )


# ---- the loop


def checkpoints(runs: Path, name: str) -> list[dict[str, torch.Tensor]]:
    files = LandscapeCheckpoints.open(runs / name).files
    return [torch.load(files[number], weights_only=True) for number in NUMBERS]


def real(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def moving(animal: Animal, state: dict[str, torch.Tensor]) -> list[str]:
    module = materialized(fresh(animal))
    scope = animal.part(module) if animal.part else module
    inside = {id(parameter) for parameter in scope.parameters()}
    names = [
        name
        for name, parameter in module.named_parameters()
        if id(parameter) in inside and name in state
    ]
    names = [name for name in names if state[name].is_floating_point() or state[name].is_complex()]
    return [name for name in names if "weight" in name or "bias" in name]


def scaled(
    parts: dict[str, torch.Tensor], state: dict[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    dtype = (
        torch.float64
        if any(state[name].dtype == torch.float64 for name in parts)
        else torch.float32
    )
    factors = {
        name: state[name].double().norm() / (part.norm() or 1.0) for name, part in parts.items()
    }
    return {name: (part * factors[name]).to(dtype) for name, part in parts.items()}


def principal(
    states: list[dict[str, torch.Tensor]], names: list[str]
) -> list[dict[str, torch.Tensor]]:
    names = [
        name
        for name in names
        if any(not torch.equal(one[name], states[-1][name]) for one in states)
    ]
    rows = np.stack(
        [
            np.concatenate([(one[n].double() - states[-1][n].double()).flatten() for n in names])
            for one in states
        ]
    )
    centred = rows[:-1] - rows[:-1].mean(1, keepdims=True)
    found = []
    for vector in np.linalg.svd(centred, full_matrices=False)[2][:2]:
        pieces = torch.from_numpy(vector * np.sign(vector[np.abs(vector).argmax()])).split(
            [states[-1][name].numel() for name in names]
        )
        found.append(
            {
                name: piece.view(states[-1][name].shape)
                for name, piece in zip(names, pieces, strict=True)
            }
        )
    return [scaled(one, states[-1]) for one in found]


def path_of(
    states: list[dict[str, torch.Tensor]], axes: list[dict[str, torch.Tensor]]
) -> np.ndarray:
    columns = np.stack(
        [np.concatenate([part.double().flatten() for part in axis.values()]) for axis in axes], 1
    )
    return np.stack([
        np.linalg.lstsq(
            columns,
            np.concatenate(
                [(one[n].double() - states[-1][n].double()).flatten() for n in axes[0]]
            ),
            rcond=None
        )[0]
        for one in states
    ])  # fmt: skip


def loss_at(
    animal: Animal, state: dict[str, torch.Tensor], axes: list[dict[str, torch.Tensor]], point: Any
) -> float:
    module = materialized(fresh(animal, seed=11)).eval()
    module = module if animal.dtype == torch.float32 else module.to(animal.dtype)
    module.load_state_dict(state, strict=False)
    parameters = dict(module.named_parameters())
    first, second = axes
    with torch.no_grad():
        for name in first:
            wide = real(state[name]).to(first[name].dtype)
            value = torch.add(
                torch.add(wide, second[name], alpha=float(point[1])),
                first[name],
                alpha=float(point[0]),
            )
            real(parameters[name]).copy_(value)
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - for a model that uses the global one
    batches, total, count = animal.batches(), 0.0, 0
    torch.set_default_dtype(animal.dtype)
    try:
        with torch.set_grad_enabled(animal.has_gradients):
            for index, batch in enumerate(batches):
                data = converted(batch, animal.dtype)
                size = next(len(value) for value in leaves(data))
                total += animal.loss(module, data, index).float().item() * size
                count += size
    finally:
        torch.set_default_dtype(torch.float32)
    return total / count


def leaves(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
        return
    parts = value.values() if isinstance(value, dict) else value
    for part in parts if isinstance(value, (dict, list, tuple)) else vars(value).values():
        yield from leaves(part)


def assert_plain_loop(
    animal: Animal, made: dict[str, LossLandscape], states: list[dict[str, torch.Tensor]]
) -> None:
    names, last = moving(animal, states[-1]), states[-1]
    reals = [{name: real(state[name]) for name in names} for state in states]
    axes = principal(reals, names)
    path = path_of(reals, axes)
    margins = 0.2 * (path.max(0) - path.min(0))
    x, y = (
        np.linspace(path[:, k].min() - margins[k], path[:, k].max() + margins[k], SIZE)
        for k in (0, 1)
    )
    interval = made[TAGS[0]]
    assert interval.intervals == NUMBERS
    np.testing.assert_allclose(interval.path.x, path[:, 0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(interval.path.y, path[:, 1], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(interval.surface.x, x, rtol=1e-4)
    np.testing.assert_allclose(interval.surface.y, y, rtol=1e-4)
    np.testing.assert_allclose(
        interval.path.z, [loss_at(animal, last, axes, point) for point in path], rtol=1e-6
    )
    grid = [[loss_at(animal, last, axes, (a, b)) for a in x] for b in y]
    np.testing.assert_allclose(interval.surface.z, grid, rtol=1e-6)
    assert interval.convergence_point == pytest.approx(
        (0, 0, loss_at(animal, last, axes, (0.0, 0.0))), rel=1e-6
    )

    generator = torch.Generator().manual_seed(0)
    both = [
        scaled(
            {
                n: torch.randn(one.shape, generator=generator, dtype=torch.float64)
                for n, one in reals[-1].items()
            },
            reals[-1],
        )
        for _ in range(2)
    ]
    line = np.linspace(-1, 1, SIZE)
    grid = [[loss_at(animal, last, both, (a, b)) for a in line] for b in line]
    np.testing.assert_allclose(made[TAGS[1]].surface.z, grid, rtol=1e-6)
    assert made[TAGS[1]].convergence_point == pytest.approx((0, 0, grid[1][1]), rel=1e-6)


# ---- what the model was


def portrait(module: nn.Module) -> list[Any]:
    """Everything of a module by identity and value."""
    answer: list[Any] = [torch.get_rng_state().tolist(), random.getstate()]
    answer.append(np.random.get_state()[1].tolist())  # noqa: NPY002 - the global one must stay
    for name, part in module.named_modules():
        answer.append((name, id(part), type(part), part.training))
        for key, value in vars(part).items():
            answer.append((key, id(value), contents(value)))
            if isinstance(value, dict):
                answer += [(key, one, id(inner), contents(inner)) for one, inner in value.items()]
    return answer


def contents(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        if is_lazy(value):
            return type(value), value.requires_grad
        if value.layout != torch.strided:
            return type(value), value.to_dense().tolist()
        return (
            type(value),
            value.requires_grad,
            value.data_ptr(),
            value.dtype,
            value.detach().tolist(),
        )
    if isinstance(value, (list, dict, set)):
        return list(map(id, value.values() if isinstance(value, dict) else value))
    return sorted(vars(value).items()) if type(value).__name__ == "Memory" else None


@pytest.fixture(scope="module")
def landscapes(runs: Path) -> dict[str, dict[str, LossLandscape]]:
    """What one process makes, filled by the tests."""
    return {}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in ZOO]
)
def test_the_landscape_is_that_of_a_plain_loop_and_the_model_is_what_it_was(
    runs: Path, landscapes: dict[str, Any], name: str
) -> None:
    run_of(runs, name)  # before random states are looked at
    module = fresh(ZOO[name])
    next(module.children(), module).eval()  # one part of it is not in training mode
    before = portrait(module)
    made = landscapes[name] = generate(runs, name, module)
    assert portrait(module) == before
    assert list(made) == TAGS
    assert_plain_loop(ZOO[name], made, checkpoints(runs, name))


def assert_equal(one: dict[str, LossLandscape], other: dict[str, LossLandscape], name: str) -> None:
    for tag in TAGS:
        np.testing.assert_array_equal(one[tag].surface.z, other[tag].surface.z, err_msg=name)
        assert one[tag].convergence_point == other[tag].convergence_point, name
    assert one[TAGS[0]].path is not None
    np.testing.assert_array_equal(one[TAGS[0]].path.z, other[TAGS[0]].path.z, err_msg=name)


def interrupted(runs: Path, names: list[str]) -> None:
    """Break off each landscape at its third row, and with the last one the process."""
    write, rows = RowStore.write, []

    def write_and_stop(self: RowStore, index: int, losses: Any) -> None:
        write(self, index, losses)
        rows.append(index)
        if len(rows) % 3 == 0:
            if len(rows) == 3 * len(names):
                os.kill(os.getpid(), signal.SIGKILL)
            raise KeyboardInterrupt

    RowStore.write = write_and_stop  # type: ignore[method-assign]
    for name in names:
        with contextlib.suppress(KeyboardInterrupt):
            generate(runs, name)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_another_process_began_before_it_was_killed_is_continued_to_the_same_bits(
    runs: Path, landscapes: dict[str, Any], is_full: bool
) -> None:
    names = list(ZOO if is_full else FEW)
    for name in [name for name in names if name not in landscapes]:
        landscapes[name] = generate(runs, name)
    done = run_warm(interrupted, runs, names)
    assert done.returncode == -signal.SIGKILL, done.stderr
    for name in names:
        assert len(list((runs / name / "ckpt_dir").glob("rows_*/*.row"))) == 3, name
        assert_equal(generate(runs, name), landscapes[name], name)


class Work:
    """What each of two processes does: it computes its rows of every model; those of the last are
    gathered.
    """

    def __init__(self, works: list[Any]) -> None:
        self.works = works

    def __call__(self, fabric: Any) -> Any:
        *others, last = self.works
        with mock.patch.object(workers, "_gathered"):
            for work in others:
                work(fabric)
        return last(fabric)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_processes_give_the_bits_of_one(
    runs: Path, landscapes: dict[str, Any], monkeypatch: pytest.MonkeyPatch, is_full: bool
) -> None:
    """All models in the same two processes: starting them is what takes time."""
    names = [name for name in (ZOO if is_full else FEW) if name not in UNPICKLABLE]
    for name in [name for name in names if name not in landscapes]:
        landscapes[name] = generate(runs, name)
    works: list[Any] = []

    def collect(fabric: Any, work: Any) -> Any:
        works.append(work)
        raise InterruptedError

    with monkeypatch.context() as patch:
        patch.setattr(summary_landscape, "launch", collect)
        for name in names:
            with pytest.raises(InterruptedError):
                generate(runs, name)
        fabric: Any = workers.make_fabric("cpu", 2, 1, "32-true")
        assert fabric.strategy.launcher._start_method == "spawn"
        # which pickles the same
        fabric.strategy.launcher._start_method = warm_processes().get_start_method()
        _, final = workers.launch(fabric, Work(works))
    np.testing.assert_array_equal(np.float32(final), landscapes[names[-1]][TAGS[1]].surface.z)
    for name in names:
        assert len(list((runs / name / "ckpt_dir").glob("rows_*/*.row"))) == 2 * SIZE + 1, name
        assert_equal(generate(runs, name), landscapes[name], name)
