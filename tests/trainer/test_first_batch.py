"""The lineage has what the first batch of a training shows.

These are sizes that loaders state, the loss, groups that join.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning as L
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, RandomSampler

from mindsummary_lightning import EvalLineage, SummaryCollector, SummaryReader, TrainLineage
from tests.trainer.support import Gan, Net, data, loader, trainer


def bulk(count: int, size: int) -> DataLoader[Any]:
    dataset = data(count, 1)
    return DataLoader(
        dataset,
        sampler=BatchSampler(RandomSampler(dataset), size, drop_last=False),
        batch_size=None,
    )


class Around(DataLoader[Any]):
    def __iter__(self) -> Any:
        yield from self.dataset


Callbacks = Callable[[Path], list[L.Callback]]
WAYS: dict[str, Callbacks] = {
    "collector": lambda folder: [SummaryCollector(folder)],
    "without a graph": lambda folder: [
        SummaryCollector(folder, collect_specified_data={"collect_graph": False})
    ],
    "callbacks": lambda folder: [TrainLineage(str(folder)), EvalLineage(str(folder))],
}
every_way = pytest.mark.parametrize("way", WAYS)


def lineage_of(
    folder: Path, way: str, net: L.LightningModule, train: Any, validate: Any = None, **options: Any
) -> Any:
    trainer(logger=False, callbacks=WAYS[way](folder), **options).fit(net, train, validate)
    return SummaryReader(folder).lineage()


@every_way
def test_loaders_are_believed_what_their_first_batch_has(tmp_path: Path, way: str) -> None:
    lineage = lineage_of(tmp_path, way, Net(), bulk(96, 32), Around(loader(3, 8)))

    assert (lineage.train.batch_size, lineage.train.train_dataset_size) == (32, 96)
    assert lineage.evaluation.valid_dataset_size == 24
    assert lineage.dataset.parameter["op_type"] == "BatchDataset"


@every_way
def test_a_size_that_does_not_fit_is_left_out(tmp_path: Path, way: str) -> None:
    doubled = DataLoader(
        data(),
        4,
        collate_fn=lambda rows: [torch.stack([row[k] for row in rows * 2]) for k in (0, 1)],
    )
    lineage = lineage_of(tmp_path, way, Net(), doubled, [loader(2), doubled])

    assert (lineage.train.batch_size, lineage.train.train_dataset_size) == (None, None)
    assert lineage.evaluation.valid_dataset_size is None
    assert lineage.train.optimizer == "SGD"


class Twice(DataLoader[Any]):
    """Gives each of its batches twice, of which it says nothing in its data set."""

    def __iter__(self) -> Any:
        for batch in super().__iter__():
            yield from (batch, batch)

    def __len__(self) -> int:
        return 2 * super().__len__()


class Short(DataLoader[Any]):
    """Ends before its data set does."""

    def __iter__(self) -> Any:
        for _, batch in zip(range(2), super().__iter__(), strict=False):
            yield batch


@pytest.mark.parametrize("kind", [Twice, Short])
@every_way
def test_a_number_of_batches_that_an_epoch_does_not_have_tells_no_size(
    tmp_path: Path, way: str, kind: type[DataLoader[Any]]
) -> None:
    lineage = lineage_of(tmp_path, way, Net(), kind(data(), 4), kind(data(), 4))

    assert (lineage.train.batch_size, lineage.train.train_dataset_size) == (4, None)
    assert lineage.evaluation is None or lineage.evaluation.valid_dataset_size is None


@pytest.mark.parametrize("end", [{"max_steps": 3}, {"limit_train_batches": 3}], ids=str)
def test_an_epoch_that_something_else_ends_contradicts_no_loader(
    tmp_path: Path, end: dict[str, Any]
) -> None:
    lineage = lineage_of(tmp_path, "collector", Net(), loader(), **end)

    assert lineage.train.train_dataset_size == (24 if "max_steps" in end else 12)


def test_the_sizes_stay_in_the_lineage_that_checkpoints_and_the_end_write(tmp_path: Path) -> None:
    lineage = lineage_of(
        tmp_path,
        "collector",
        Net(),
        loader(),
        max_epochs=2,
        enable_checkpointing=True,
        default_root_dir=tmp_path / "root",
    )

    assert (lineage.train.batch_size, lineage.train.train_dataset_size, lineage.train.epoch) == (
        4,
        24,
        2,
    )
    assert lineage.train.loss_function == "cross_entropy"
    assert lineage.train.loss is not None


class LossWithSummary(nn.Module):
    """One of the user's own."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x - y).pow(2).mean()


class WeightedLoss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x - y).pow(2).mean() * self.weight.exp() - self.weight


class Hyper(Net):
    def __init__(self, loss: str | None = None, compute: Any = F.mse_loss) -> None:
        super().__init__()
        self.save_hyperparameters("loss")
        self.unused, self.compute = nn.ModuleList([nn.L1Loss(), nn.MSELoss()]), compute

    def total_loss(self, batch: Any) -> torch.Tensor:
        return self.compute(self(batch[0]), F.one_hot(batch[1], 2).float())

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        return self.total_loss(batch)


@pytest.mark.parametrize(
    ("compute", "name"),
    [
        (F.mse_loss, "mse_loss"),
        (nn.MSELoss(), "MSELoss"),
        (nn.L1Loss(), "L1Loss"),  # which has no name in autograd
        (LossWithSummary(), "LossWithSummary"),
        (WeightedLoss(), "WeightedLoss"),
        (lambda x, y: (x - y).abs().mean(), None),
        (lambda x, y: F.mse_loss(x, y) + 0.5 * x.pow(2).mean(), None),
    ],
    ids=[
        "function",
        "module",
        "another module",
        "the user's own",
        "with a parameter",
        "by hand",
        "with a penalty",
    ],
)
@every_way
def test_the_loss_is_named_by_what_computed_it(
    tmp_path: Path, way: str, compute: Any, name: str | None
) -> None:
    assert lineage_of(tmp_path, way, Hyper(compute=compute), loader()).train.loss_function == name


@every_way
def test_a_training_that_breaks_off_in_its_first_batch_leaves_no_hook(
    tmp_path: Path, way: str
) -> None:
    class Broken(Hyper):
        def on_before_backward(self, loss: torch.Tensor) -> None:
            raise RuntimeError("mine")

    module = Broken(compute=LossWithSummary())
    with pytest.raises(RuntimeError, match="mine"):
        lineage_of(tmp_path, way, module, loader())
    assert not any(part._forward_hooks for part in module.modules())


@pytest.mark.parametrize(
    "options", [{"accumulate_grad_batches": 2}, {"precision": "bf16-mixed"}], ids=str
)
def test_accumulation_and_precision_do_not_hide_the_loss(tmp_path: Path, options: Any) -> None:
    assert (
        lineage_of(tmp_path, "collector", Net(), loader(), **options).train.loss_function
        == "cross_entropy"
    )


@pytest.mark.parametrize(
    ("other", "names"),
    [(F.huber_loss, "mse_loss, huber_loss"), (lambda x, y: (x - y).abs().mean(), None)],
    ids=["both known", "one by hand"],
)
def test_the_losses_of_manual_optimization_are_named_together(
    tmp_path: Path, other: Any, names: str | None
) -> None:
    class Two(Gan):
        def training_step(self, batch: Any, batch_idx: int) -> None:
            for index, (optimizer, compute) in enumerate(
                zip(self.optimizers(), (F.mse_loss, other), strict=True)
            ):
                optimizer.zero_grad()
                part = list(self.children())[index]
                inputs = next(part.parameters()).shape[1]
                output = part(torch.ones(4, inputs))
                self.manual_backward(compute(output, torch.zeros_like(output)))
                optimizer.step()

    assert lineage_of(tmp_path, "collector", Two(), loader()).train.loss_function == names


class Skipping(Net):
    """Returns no loss for its first batches, before or after a part of its operations."""

    def __init__(self, skipped: int, is_late: bool) -> None:
        super().__init__()
        self.skipped, self.is_late = skipped, is_late

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor | None:  # type: ignore[override]
        if self.trainer.current_epoch == 0 and batch_idx < self.skipped:
            if self.is_late:
                self.first(batch[0])
            return None
        return super().training_step(batch, batch_idx)


@pytest.mark.parametrize("skipped", [1, 4])
@pytest.mark.parametrize("is_late", [False, True], ids=["at once", "after a layer"])
@every_way
def test_a_skipped_first_batch_hides_neither_graph_nor_loss_function(
    tmp_path: Path, way: str, is_late: bool, skipped: int
) -> None:
    lineage = lineage_of(tmp_path / "run", way, Skipping(skipped, is_late), loader())

    assert lineage.train.loss_function == "cross_entropy"
    assert lineage.train.batch_size == 4
    if way == "collector":
        lineage_of(tmp_path / "whole", way, Net(), loader())
        graphs = [SummaryReader(tmp_path / run).graph() for run in ("run", "whole")]
        assert [[node.op_type for node in graph.nodes] for graph in graphs] == [
            ["Linear", "ReLU", "Linear", "CrossEntropyLoss"]
        ] * 2


def test_a_skipped_first_batch_of_several_that_are_accumulated_hides_nothing(
    tmp_path: Path,
) -> None:
    module = Skipping(1, is_late=True)
    lineage = lineage_of(tmp_path, "collector", module, loader(), accumulate_grad_batches=2)

    assert lineage.train.loss_function == "cross_entropy"
    assert len(SummaryReader(tmp_path).graph().nodes) == 4


@every_way
def test_a_training_without_any_loss_has_no_graph_and_keeps_no_hook(
    tmp_path: Path, way: str
) -> None:
    module = Skipping(100, is_late=True)
    module.loss = LossWithSummary()
    lineage = lineage_of(tmp_path, way, module, loader())

    assert lineage.train.loss_function is None
    assert lineage.train.batch_size == 4
    assert SummaryReader(tmp_path).graph() is None
    assert not any(part._forward_hooks for part in module.modules())
    assert "training_step" not in vars(module)


class ByHand(Net):
    """Calls backward itself with an optimizer that Lightning does not know.

    It skips a batch first if asked to.
    """

    def __init__(self, is_known: bool, skipped: int = 0) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.is_known, self.skipped = is_known, skipped
        self.own = torch.optim.SGD(self.parameters(), 0.1)

    def training_step(self, batch: Any, batch_idx: int) -> None:  # type: ignore[override]
        if batch_idx < self.skipped:
            self.first(batch[0])
            return
        loss = F.cross_entropy(self(batch[0]), batch[1])
        loss.backward()
        optimizer: Any = self.optimizers() if self.is_known else self.own
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize(("is_known", "skipped"), [(True, 0), (True, 2), (False, 0)])
def test_manual_optimization_without_a_returned_loss_has_its_graph(
    tmp_path: Path, is_known: bool, skipped: int
) -> None:
    lineage_of(tmp_path, "collector", ByHand(is_known, skipped), loader(12))

    assert len(SummaryReader(tmp_path).graph().nodes) == 4


def test_manual_optimization_that_shows_no_loss_is_observed_for_a_few_batches_only(
    tmp_path: Path,
) -> None:
    module = ByHand(is_known=False)
    observed: list[bool] = []

    class Note(L.Callback):
        def on_train_batch_start(
            self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
        ) -> None:
            observed.append("training_step" in vars(pl_module))

    trainer(logger=False, callbacks=[SummaryCollector(tmp_path), Note()]).fit(module, loader(20))

    assert observed[0]
    assert not observed[-1]
