"""Whatever is trained, it is trained to the same bits with and without the chain of every step."""

from __future__ import annotations

import contextlib
import copy
import logging
import pickle
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import pytest
import torch
from torch import nn

from mindsummary_lightning import SummaryCollector, SummaryReader
from mindsummary_lightning.porting.chain.loop_recorder import StepRecorder
from mindsummary_lightning.types import OutputStatistics
from tests.graph.test_compiled import WAYS, run
from tests.graph.training import train
from tests.graph.zoo import ZOO as TRAININGS
from tests.landscape.zoo import ZOO, Animal, converted, fresh, materialized
from tests.trainer.support import Net, loader, trainer

pytestmark = pytest.mark.slow


def table_of(path: Path) -> OutputStatistics:
    table = SummaryReader(path).output_statistics()
    assert table is not None
    return table


@pytest.mark.parametrize("name", TRAININGS)
def test_a_training_of_lightning_is_the_same_to_the_bit(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "mindsummary_lightning"):
        # and the graph of the first step
        observed = train(TRAININGS[name], tmp_path, collect_output_statistics=True)

    assert observed.values() == train(TRAININGS[name], None).values()
    assert [
        line for line in caplog.messages if "output_statistics" in line or "chain" in line
    ] == []
    assert "training_step" not in vars(observed.model)
    assert nn.Module.__call__ is nn.Module._wrapped_call_impl
    rows, _ = table_of(tmp_path).rows_at(1)
    links = {row.link for row in rows} - {"clipped"}
    assert links == {"data", "weights", "forward", "loss", "gradients", "settings", "update"}
    assert SummaryReader(tmp_path).graph() is not None


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_what_is_compiled_is_compiled_as_without(way: Any, tmp_path: Path) -> None:
    plain, counted = run(way, None)
    observed, counted_too = run(way, tmp_path, collect_output_statistics=True)

    assert (observed.values(), counted_too) == (plain.values(), counted)
    assert {row.link for row in table_of(tmp_path).rows} >= {
        "weights",
        "data",
        "loss",
        "gradients",
        "update",
    }


def loop(animal: Animal, recorder: StepRecorder | None) -> list[Any]:
    """Three steps by hand, and everything that they leave."""
    module = materialized(fresh(animal))
    module = module if animal.dtype == torch.float32 else module.to(animal.dtype)
    lightning.seed_everything(5, verbose=False)
    optimizer = torch.optim.SGD(module.parameters(), 0.01, momentum=0.9)
    losses = []
    for index, batch in enumerate(animal.batches()):
        batch = converted(batch, animal.dtype)
        context: Any = contextlib.nullcontext(lambda loss: None)
        with context if recorder is None else recorder.step(module, optimizer, batch) as loss_is:
            loss = animal.loss(module, batch, index)
            loss_is(loss)
            optimizer.zero_grad()
            # of a model that keeps the graph of its last step
            with contextlib.suppress(RuntimeError):
                loss.backward()
            optimizer.step()
        losses.append(loss.detach())
    return [losses, module.state_dict(), torch.get_rng_state()]


def same(some: Any, others: Any) -> bool:
    if isinstance(some, torch.Tensor):
        some, others = (
            each.to_dense() if each.layout is not torch.strided else each for each in (some, others)
        )
        return torch.equal(some, others)
    pairs = zip(some.values(), others.values()) if isinstance(some, dict) else zip(some, others)  # noqa: B905
    return len(some) == len(others) and all(same(*pair) for pair in pairs)


@pytest.mark.parametrize("name", ZOO)
def test_a_loop_by_hand_is_the_same_to_the_bit(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    animal = ZOO[name]
    loop(animal, None)  # a process computes what is scripted to other bits once it has seen it
    with caplog.at_level(logging.WARNING, "mindsummary_lightning"):
        recorded = loop(animal, StepRecorder(tmp_path))

    assert same(recorded, loop(animal, None))
    assert caplog.messages == []
    rows, values = table_of(tmp_path).rows_at(2)
    assert {"data", "weights", "forward", "loss", "update"} <= {row.link for row in rows}
    assert values[:, 0].tolist() == [*range(len(rows))]


class Saves(Net):
    """Is pickled and copied in the middle of a step."""

    def on_before_backward(self, loss: torch.Tensor) -> None:
        self.__dict__["saved"] = [pickle.loads(pickle.dumps(self)), copy.deepcopy(self)]


def test_a_module_that_is_pickled_or_copied_in_a_step_has_its_own_methods_in_the_copy(
    tmp_path: Path,
) -> None:
    net = Saves()
    collector = SummaryCollector(tmp_path, collect_output_statistics=True)
    trainer(logger=False, callbacks=[collector], max_epochs=1, limit_train_batches=1).fit(
        net, loader()
    )

    for saved in net.saved:
        assert saved.training_step.__self__ is saved.configure_gradient_clipping.__self__ is saved
    assert {row.link for row in table_of(tmp_path).rows} >= {"data", "forward", "loss", "gradients"}


class ByHand(Net):
    """Clips in a way of its own, and not through the Trainer."""

    def configure_gradient_clipping(self, optimizer: Any, *_: Any, **__: Any) -> None:
        for parameter in self.parameters():
            parameter.grad = None if parameter.grad is None else parameter.grad.clamp(-0.01, 0.01)


@pytest.mark.parametrize(
    ("net", "options", "clip"),
    [
        (Net, {"gradient_clip_val": 1e-3}, lambda size, norm: size * min(1.0, 1e-3 / norm)),
        (
            Net,
            {"gradient_clip_val": 1e-2, "gradient_clip_algorithm": "value"},
            lambda size, _: size.clip(max=0.01),
        ),
        (ByHand, {}, lambda size, _: size.clip(max=0.01)),
        (Net, {}, None),
    ],
)
def test_gradients_that_were_clipped_are_recorded_before_and_after(
    net: Any, options: dict[str, Any], clip: Any, tmp_path: Path
) -> None:
    collector = SummaryCollector(tmp_path, collect_output_statistics=(1,))
    trainer(logger=False, callbacks=[collector], **options).fit(net(), loader())
    rows, values = table_of(tmp_path).rows_at(1)
    largest, rms = np.abs(values[:, 4:6]).max(1), values[:, 2] * np.sqrt(values[:, 1])  # COLUMNS
    before, after = (
        {row.name: at for at, row in enumerate(rows) if row.link == link}
        for link in ("gradients", "clipped")
    )

    assert before
    assert before.keys() == after.keys() if clip else not after
    norm = np.sqrt(np.square(rms[[*before.values()]]).sum())
    for name, place in after.items():
        assert largest[place] == pytest.approx(clip(largest[before[name]], norm), rel=1e-4)
