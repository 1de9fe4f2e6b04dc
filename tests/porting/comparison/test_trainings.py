"""Trainings of the Trainer that are the same training: resumed, with other threads, and in two
parts of a batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lightning as L
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from mindsummary_lightning import Comparison, MindInsightLogger, SummaryCollector, compare_runs
from tests.trainer.support import trainer

pytestmark = pytest.mark.slow

_EVERYTHING = {"collect_metric": True, "histogram_regular": ".*", "collect_train_lineage": True}


class Regression(L.LightningModule):
    def __init__(self, batch_norm: bool = True, rate: float = 1e-2) -> None:
        super().__init__()
        self.rate = rate
        torch.manual_seed(7)
        norm = nn.BatchNorm1d(32) if batch_norm else nn.Identity()
        self.layers = nn.Sequential(nn.Linear(6, 32), norm, nn.Tanh(), nn.Linear(32, 1))

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        return nn.functional.mse_loss(self.layers(batch[0])[:, 0], batch[1])

    def configure_optimizers(self) -> Any:
        return torch.optim.AdamW(self.parameters(), lr=self.rate)


class TwoNets(L.LightningModule):
    """A critic and a generator in turns; what is returned is computed on both sides of the critic's
    update.
    """

    def __init__(self, critic: float, beta: float) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.critic, self.generator = (
            nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1)),
            nn.Linear(6, 6),
        )
        self.rates, self.automatic_optimization = (critic, beta), False

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        losses = []
        for optimizer in self.optimizers():
            made = self.critic(self.generator(batch[0].flip(0))).mean()
            losses.append(made - self.critic(batch[0]).mean() if not losses else -made)
            optimizer.zero_grad()
            self.manual_backward(losses[-1])
            optimizer.step()
        return sum(losses)

    def configure_optimizers(self) -> Any:
        critic, beta = self.rates
        return [
            torch.optim.Adam(self.critic.parameters(), critic),
            torch.optim.Adam(self.generator.parameters(), 1.5e-5, betas=(beta, 0.999)),
        ]


def _trainer(
    directory: Path,
    epochs: int,
    chains: bool = False,
    states_optimizers: bool = True,
    **arguments: Any,
) -> L.Trainer:
    specified = _EVERYTHING | {"collect_train_lineage": states_optimizers}
    collector = SummaryCollector(
        collect_freq=1,
        collect_specified_data=specified,
        keep_default_action=False,
        collect_output_statistics=chains,
    )
    logger = MindInsightLogger(directory, name="", version="")
    return trainer(max_epochs=epochs, logger=logger, callbacks=[collector], **arguments)


def _fit(directory: Path, epochs: int, batch_norm: bool = True, **arguments: Any) -> L.Trainer:
    inputs = torch.randn(160, 6, generator=torch.Generator().manual_seed(3))
    fitting = _trainer(directory, epochs)
    fitting.fit(
        Regression(batch_norm), DataLoader(TensorDataset(inputs, inputs.sum(1)), 16), **arguments
    )
    return fitting


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    _fit(tmp_path / "whole", 4)
    return tmp_path / "whole"


@pytest.fixture
def two_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(threads)


class HalfBatches(L.LightningDataModule):
    """The first half of what each batch of one process would hold goes to rank 0, the rest to rank
    1.
    """

    def train_dataloader(self) -> DataLoader[Any]:
        inputs = torch.randn(160, 6, generator=torch.Generator().manual_seed(3))
        first = 8 * self.trainer.global_rank
        order = [at for start in range(first, 160, 16) for at in range(start, start + 8)]
        return DataLoader(TensorDataset(inputs, inputs.sum(1)), 8, sampler=order)


def _only_in_one(comparison: Comparison) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return comparison.only_in_baseline.tensors, comparison.only_in_candidate.tensors


def _is_same(comparison: Comparison) -> bool:
    return (comparison.verdict, comparison.compared.steps) == ("same", 40)


def test_a_resumed_training_is_the_same_as_one_that_was_not_interrupted(
    whole: Path, tmp_path: Path
) -> None:
    _fit(tmp_path / "resumed", 2).save_checkpoint(tmp_path / "half.ckpt")
    _fit(tmp_path / "resumed", 4, ckpt_path=tmp_path / "half.ckpt")

    assert _is_same(compare_runs(whole, tmp_path / "resumed"))


def test_a_training_with_more_threads_is_the_same(
    whole: Path, tmp_path: Path, two_threads: None
) -> None:
    """But for the bias before a normalization, which moves by rounding alone."""
    _fit(tmp_path / "threads", 4)

    comparison = compare_runs(whole, tmp_path / "threads")
    assert _is_same(comparison) or comparison.doubt == "biases"


def test_a_training_that_was_continued_without_its_optimizer_parts_where_it_was_continued(
    whole: Path, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "half.ckpt"
    _fit(tmp_path / "resumed", 2).save_checkpoint(checkpoint)
    content = torch.load(checkpoint, weights_only=False)
    for state in content["optimizer_states"]:
        state["state"] = {}
    torch.save(content, checkpoint)
    _fit(tmp_path / "resumed", 4, ckpt_path=checkpoint)

    first = compare_runs(whole, tmp_path / "resumed").first_difference
    assert first is not None
    assert (first.step, first.stage) == (21, None)


def test_a_rate_less_than_a_thousandth_off_is_said_of_the_first_step(tmp_path: Path) -> None:
    inputs = torch.randn(160, 6, generator=torch.Generator().manual_seed(3))
    for run, rate in (("a", 1e-2), ("b", 1.0008e-2)):
        batches = DataLoader(TensorDataset(inputs, inputs.sum(1)), 16)
        _trainer(tmp_path / run, 2, chains=True).fit(
            Regression(batch_norm=False, rate=rate), batches
        )

    comparison = compare_runs(tmp_path / "a", tmp_path / "b")
    first = comparison.first_difference
    assert first is not None
    assert (first.step, first.stage, [name for name, *_ in first.settings]) == (1, "update", ["lr"])


def test_a_parameter_with_a_histogram_in_one_run_alone_is_compared_by_the_statistics_of_both(
    tmp_path: Path,
) -> None:
    inputs = torch.randn(160, 6, generator=torch.Generator().manual_seed(3))
    for run, names in (("a", "layers.0"), ("b", "layers.3")):
        collector = SummaryCollector(
            tmp_path / run,
            collect_specified_data={"histogram_regular": names},
            collect_parameter_statistics=True,
        )
        batches = DataLoader(TensorDataset(inputs, inputs.sum(1)), 16)
        trainer(max_epochs=1, logger=False, callbacks=[collector]).fit(Regression(), batches)

    comparison = compare_runs(tmp_path / "a", tmp_path / "b")
    assert (_only_in_one(comparison), comparison.compared.tensors) == (((), ()), 6)


class Thawing(Regression):
    """It trains its last layer, and from a step on the first one, too."""

    def __init__(self, first_step: int) -> None:
        super().__init__(batch_norm=False)
        self.first_step = first_step
        self.layers[0].requires_grad_(False)

    def configure_optimizers(self) -> Any:
        return torch.optim.AdamW(self.layers[3].parameters(), lr=self.rate)

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        if self.global_step + 1 == self.first_step:
            late = self.layers[0].requires_grad_().parameters()
            self.optimizers().optimizer.add_param_group({"params": [*late]})


def _by_statistics(tmp_path: Path, *models: L.LightningModule) -> Comparison:
    inputs = torch.randn(160, 6, generator=torch.Generator().manual_seed(3))
    kinds = {"collect_metric": True, "collect_train_lineage": True}
    for run, model in zip("ab", models, strict=True):
        collector = SummaryCollector(
            tmp_path / run, 1, keep_default_action=False, collect_specified_data=kinds,
            collect_parameter_statistics=True,
        )  # fmt: skip
        batches = DataLoader(TensorDataset(inputs, inputs.sum(1)), 16)
        trainer(max_epochs=1, logger=False, callbacks=[collector]).fit(model, batches)
    return compare_runs(tmp_path / "a", tmp_path / "b")


def test_parameters_that_an_optimizer_got_later_are_no_forward_pass(tmp_path: Path) -> None:
    first = _by_statistics(tmp_path, Thawing(99), Thawing(5)).first_difference
    assert first is not None
    assert (first.step, first.stage) == (6, None)


def test_a_parameter_that_the_statistics_of_one_run_alone_have_is_counted(tmp_path: Path) -> None:
    extended = Regression()
    extended.extra = torch.nn.Parameter(torch.ones(3))
    comparison = _by_statistics(tmp_path, Regression(), extended)

    assert (comparison.verdict, _only_in_one(comparison)) == (
        "same",
        ((), ("extra (statistics)",)),
    )


def test_statistics_of_parameters_of_other_sizes_are_not_compared(tmp_path: Path) -> None:
    wide, narrow = (Regression(batch_norm=False) for _ in range(2))
    narrow.layers[0], narrow.layers[3] = nn.Linear(6, 16), nn.Linear(16, 1)
    assert _by_statistics(tmp_path, wide, narrow).compared.tensors == 1


def test_steps_of_chains_beside_those_of_histograms_are_counted(tmp_path: Path) -> None:
    inputs = torch.randn(160, 6, generator=torch.Generator().manual_seed(3))
    for run in "ab":
        collector = SummaryCollector(tmp_path / run, collect_output_statistics=(1, 2, 3))
        batches = DataLoader(TensorDataset(inputs, inputs.sum(1)), 16)
        trainer(max_epochs=1, logger=False, callbacks=[collector]).fit(Regression(), batches)

    comparison = compare_runs(tmp_path / "a", tmp_path / "b")
    assert (comparison.verdict, comparison.compared.steps) == ("same", 4)  # 1, 2, 3 and 10


@pytest.mark.parametrize(
    ("chains", "states_optimizers"), [(True, True), (False, True), (False, False)]
)
@pytest.mark.parametrize(("critic", "beta", "step"), [(2e-3, 0.9, 1), (1e-3, 0.5, 2)])
def test_of_two_optimizers_the_update_of_one_is_no_forward_pass_of_the_other(
    critic: float, beta: float, step: int, chains: bool, states_optimizers: bool, tmp_path: Path
) -> None:
    for run, rates in (("a", (1e-3, 0.9)), ("b", (critic, beta))):
        inputs = torch.randn(160, 6, generator=torch.Generator().manual_seed(3))
        fitting = _trainer(tmp_path / run, 1, chains, states_optimizers)
        fitting.fit(TwoNets(*rates), DataLoader(TensorDataset(inputs), 16))

    first = compare_runs(tmp_path / "a", tmp_path / "b").first_difference
    assert first is not None
    assert first.step == step
    assert first.stage == ("update" if chains and step == 1 else first.stage)


@pytest.mark.long
def test_two_processes_that_share_the_batches_are_the_same_as_one(tmp_path: Path) -> None:
    _fit(tmp_path / "one", 2, batch_norm=False)
    _trainer(
        tmp_path / "two", 2, strategy="ddp_spawn", devices=2, use_distributed_sampler=False
    ).fit(Regression(batch_norm=False), HalfBatches())

    comparison = compare_runs(tmp_path / "one", tmp_path / "two")

    assert (comparison.verdict, comparison.compared) == (
        "same",
        (20, 4, 0),
    )
    assert [note.rule for note in comparison.notes] == ["world_sizes"]


@pytest.mark.long
def test_what_differs_in_two_processes_is_found_at_its_step(tmp_path: Path) -> None:
    _fit(tmp_path / "one", 2, batch_norm=True)
    _trainer(
        tmp_path / "two", 2, strategy="ddp_spawn", devices=2, use_distributed_sampler=False
    ).fit(
        Regression(batch_norm=True),
        HalfBatches(),  # each normalizes by its own half
    )

    first = compare_runs(tmp_path / "one", tmp_path / "two").first_difference

    assert first is not None
    assert (first.step, first.stage) == (1, None)
