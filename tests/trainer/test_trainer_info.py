"""Facts of a Trainer, a module and its data, and how a missing one is left out."""

from __future__ import annotations

import math
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning as L
import pytest
import torch
from lightning.pytorch.utilities import CombinedLoader
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from mindsummary_lightning import SummaryCollector, SummaryReader
from mindsummary_lightning.dataset.loader_sizes import CheckedSizes
from mindsummary_lightning.dataset.pipeline import dataset_graph
from mindsummary_lightning.trainer.trainer_info import (
    CheckpointFile,
    KnownCheckpoints,
    arithmetic,
    checkpoint_path,
    earlier_checkpoint,
    environment,
    evaluation_dataset,
    first_learning_rates,
    hyperparameters,
    learning_rates,
    parallel_mode,
    recorded_checkpoint,
    settings,
    size_of,
    train_lineage,
)
from mindsummary_lightning.trainer.trainer_state import training_loader
from mindsummary_lightning.values import TrainInfo
from mindsummary_lightning.values.limits import FLOAT32_MAX
from tests.trainer.support import Gan, Net, loader, trainer


class _Seen(L.Callback):
    """Takes the lineage after the first batch and when the Trainer has trained."""

    def __init__(self) -> None:
        self.lineages: list[TrainInfo] = []
        self.environments: list[dict[str, Any]] = []

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if not self.lineages:
            sizes = CheckedSizes(
                training_loader(trainer), batch, trainer.num_training_batches
            ).sizes
            self.lineages.append(
                train_lineage(trainer, pl_module, sizes=sizes, loss_function="MSELoss")
            )
            self.environments.append(dict(environment(trainer)))

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self.lineages.append(train_lineage(trainer, pl_module, 0.25, trainer.current_epoch))


class _Hollow:
    """Something that has nothing and refuses everything."""

    def __init__(self, kind: type[BaseException] = RuntimeError) -> None:
        self._kind = kind

    def __getattr__(self, name: str) -> Any:
        raise self._kind(name)


def _see(net: Any, data: Any = None, **options: Any) -> _Seen:
    seen = _Seen()
    trainer(logger=False, callbacks=[seen], **options).fit(net, loader() if data is None else data)
    return seen


def test_what_is_known_at_the_start_and_at_the_end() -> None:
    start, end = _see(Net(), max_epochs=3).lineages

    expected = {
        "optimizer": "SGD",
        "loss_function": "MSELoss",
        "parallel_mode": "stand_alone",
        "device_num": 1,
        "batch_size": 4,
        "train_dataset_size": 24,
        "network": "Net",
        "model_path": '{"ckpt": null}',
        "model_size": 0,
    }
    assert {name: getattr(start, name) for name in expected} == expected
    assert (start.epoch, start.loss) == (3, None)
    assert (end.epoch, end.loss) == (3, 0.25)


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), -float("inf"), 1e39, -1e39, None])
def test_a_loss_that_is_not_finite_is_left_out(loss: float | None) -> None:
    assert train_lineage(_Hollow(), Net(), loss).loss is None
    assert train_lineage(_Hollow(), Net(), -FLOAT32_MAX).loss == -FLOAT32_MAX


@pytest.mark.parametrize(
    ("epochs", "recorded"), [(-1, None), (0, 0), (2**31 - 1, 2**31 - 1), (2**31, None)]
)
def test_a_count_that_the_field_cannot_hold_is_left_out(epochs: int, recorded: int | None) -> None:
    assert train_lineage(_Hollow(), Net(), epochs=epochs).epoch == recorded


@pytest.mark.parametrize(("epochs", "planned"), [(None, None), (-1, None), (0, 0), (3, 3)])
def test_epochs_are_planned_unless_something_else_ends_the_run(
    epochs: int | None, planned: int | None
) -> None:
    running = SimpleNamespace(max_epochs=epochs)

    assert environment(running).get("planned_epochs") == planned
    assert train_lineage(running, Net()).epoch == planned


def test_rates_are_those_of_each_group_that_has_a_finite_one() -> None:
    one = [{"lr": 0.5, "initial_lr": 0.25}, {"momentum": 0.5}, {"lr": -math.inf}]
    other = [{"lr": math.nan, "initial_lr": -FLOAT32_MAX}, {"lr": torch.tensor(0.75)}]
    running = SimpleNamespace(
        optimizers=[SimpleNamespace(param_groups=one), SimpleNamespace(param_groups=other)]
    )

    assert learning_rates(running) == [0.5, 0.75]
    assert first_learning_rates(running) == [0.25, -FLOAT32_MAX, 0.75]
    assert learning_rates(_Hollow()) == first_learning_rates(_Hollow()) == []


def test_settings_are_the_device_and_the_first_rates_of_several_groups() -> None:
    device = SimpleNamespace(root_device=torch.device("cuda", 1))
    running = SimpleNamespace(strategy=device)

    assert settings(running, [0.5]) == {"accelerator": "cuda"}
    assert settings(running, [0.5, 0.25]) == {
        "accelerator": "cuda",
        "learning_rate/0": 0.5,
        "learning_rate/1": 0.25,
    }
    assert settings(SimpleNamespace(), []) == {}


def test_a_setting_of_a_group_that_is_no_single_value_is_left_out() -> None:
    group = {"params": list(Net().parameters())[1:], "mask": torch.ones(2), "name": "all"}
    optimizer = torch.optim.SGD([group], lr=torch.tensor(0.5), momentum=0.25)
    module = SimpleNamespace(automatic_optimization=True)
    running = SimpleNamespace(precision="32-true", optimizers=[], lightning_module=module)

    assert arithmetic(running) == {"precision": "32-true"}
    running.optimizers = [SimpleNamespace(optimizer=optimizer, param_groups=optimizer.param_groups)]
    (recorded,) = arithmetic(running)["optimizer_groups"].values()  # type: ignore[union-attr]
    expected = {"optimizer": "SGD", "parameters": 3, "name": "all", "lr": 0.5, "momentum": 0.25}
    assert recorded.items() >= expected.items()
    assert {"mask", "params"} & set(recorded) == set()


class _Grouped(Net):
    def configure_optimizers(self) -> Any:
        one, *others = self.parameters()
        groups = [
            {"params": [one], "lr": torch.tensor(0.25)},
            {"params": others, "weight_decay": 0.5},
        ]
        return torch.optim.AdamW(groups, lr=0.5, betas=(0.5, 0.75))


@pytest.mark.parametrize("specified", [{}, {"collect_metric": True, "histogram_regular": ".*"}])
def test_precision_and_the_settings_of_every_group_are_recorded_whatever_is_left_out(
    specified: dict[str, Any], tmp_path: Path
) -> None:
    collector = SummaryCollector(
        tmp_path, collect_specified_data=specified, keep_default_action=False
    )
    trainer(logger=False, callbacks=[collector], max_steps=1).fit(_Grouped(), loader())

    custom = SummaryReader(tmp_path).lineage().custom
    groups = custom.values["optimizer_groups"]
    assert (custom.values["precision"], set(custom.values)) == (
        "32-true",
        {"precision", "optimizer_groups"},
    )
    assert [
        groups[at][name] for at in "01" for name in ("optimizer", "lr", "weight_decay", "betas")
    ] == [
        *("AdamW", 0.25, 0.01, "(0.5, 0.75)"),
        *("AdamW", 0.5, 0.5, "(0.5, 0.75)"),
    ]
    assert groups["0"]["parameters"] == 1


def test_several_optimizers_are_named_together() -> None:
    assert _see(Gan()).lineages[0].optimizer == "SGD, SGD"


def test_a_module_that_steps_by_hand_says_so(tmp_path: Path) -> None:
    collector = SummaryCollector(tmp_path, collect_specified_data={}, keep_default_action=False)
    trainer(logger=False, callbacks=[collector], max_steps=2).fit(Gan(), loader())

    assert SummaryReader(tmp_path).lineage().custom.values["manual_optimization"]


def test_a_module_without_an_optimizer_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Net, "configure_optimizers", lambda self: None)
    assert _see(Net(), max_steps=1).lineages[0].optimizer is None


def test_a_run_that_ends_by_steps_plans_no_epochs() -> None:
    assert _see(Net(), max_epochs=-1, max_steps=2).lineages[0].epoch is None


@pytest.mark.parametrize("kind", [RuntimeError, SystemExit])
def test_a_trainer_and_a_module_that_refuse_everything_cost_their_facts_only(
    kind: type[BaseException],
) -> None:
    pytest.importorskip("pytorch_lightning")
    hollow = _Hollow(kind)
    lineage = train_lineage(hollow, nn.Linear(2, 2))

    assert lineage.network == "Linear"
    assert (lineage.optimizer, lineage.batch_size, lineage.train_dataset_size) == (None, None, None)
    assert environment(hollow).keys() == {
        "torch_version",
        "lightning_version",
        "pytorch_lightning_version",
    }
    assert evaluation_dataset(hollow, []) == (None, None)


def test_the_last_smaller_batch_counts_as_what_it_is() -> None:
    data = TensorDataset(torch.zeros(10, 4), torch.zeros(10, dtype=torch.int64))

    sizes = [
        _see(Net(), DataLoader(data, 4, drop_last=drop)).lineages[0].train_dataset_size
        for drop in (False, True)
    ]

    assert sizes == [10, 8]


# ---- checkpoints, data, hyper-parameters, environment


def test_a_training_that_ended_before_its_first_epoch_has_trained_none() -> None:
    assert train_lineage(_Hollow(), _Hollow(), epochs=0).epoch == 0


def test_the_best_checkpoint_goes_before_the_last(tmp_path: Path) -> None:
    class Saved:
        best_model_path = ""
        last_model_path = "last.ckpt"
        monitor: str | None = None

    class HasIt:
        checkpoint_callback = Saved()

    assert checkpoint_path(HasIt()) == os.path.abspath("last.ckpt")
    Saved.best_model_path = "best.ckpt"
    assert checkpoint_path(HasIt()) == os.path.abspath("best.ckpt")
    assert checkpoint_path(HasIt(), "on_exception.ckpt") == os.path.abspath("on_exception.ckpt")
    Saved.monitor = "loss"
    assert checkpoint_path(HasIt(), "on_exception.ckpt") == os.path.abspath("best.ckpt")
    Saved.best_model_path = "s3://bucket/best.ckpt"
    assert checkpoint_path(HasIt()) == "s3://bucket/best.ckpt"
    assert checkpoint_path(_Hollow()) is None


def test_a_checkpoint_of_an_earlier_fit_is_not_this_fits_until_it_is_written_again(
    tmp_path: Path,
) -> None:
    saved = tmp_path / "saved"
    (saved / "shards" / "more").mkdir(parents=True)
    written = {saved / "shards" / "b": 4, saved / "a": 2, saved / "shards" / "more": 3}
    for path in (saved / "shards" / "b", saved / "a"):
        path.write_bytes(b"1")
    for path in (saved, saved / "shards"):
        os.utime(path, (1, 1))
    for path, seconds in written.items():
        os.utime(path, (seconds, seconds))
    callback = SimpleNamespace(best_model_path=str(saved), last_model_path="", monitor="loss")
    running = SimpleNamespace(checkpoint_callback=callback, ckpt_path=None, global_step=0)

    known = KnownCheckpoints(earlier_checkpoint(running), "/on_exception.ckpt")
    assert known.earlier == CheckpointFile(str(saved), 4_000_000_000)
    assert recorded_checkpoint(running, known) == "/on_exception.ckpt"
    assert recorded_checkpoint(running, KnownCheckpoints()) == str(saved)
    os.utime(saved / "shards" / "more", (5, 5))
    assert recorded_checkpoint(running, known) == str(saved)


@pytest.mark.parametrize("goes_on", [{"ckpt_path": "a.ckpt"}, {"global_step": 3}])
def test_a_fit_that_goes_on_has_its_earlier_checkpoint(goes_on: dict[str, Any]) -> None:
    callback = SimpleNamespace(best_model_path="a.ckpt")
    facts = {"ckpt_path": None, "global_step": 0, **goes_on}

    assert earlier_checkpoint(SimpleNamespace(checkpoint_callback=callback, **facts)) is None


def test_the_size_of_a_checkpoint_is_that_of_its_file_or_of_all_its_shards(tmp_path: Path) -> None:
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "a").write_bytes(b"12")
    (tmp_path / "shards" / "b").write_bytes(b"345")

    assert size_of(str(tmp_path / "shards")) == 5
    assert size_of(str(tmp_path / "shards" / "b")) == 3
    assert size_of(str(tmp_path / "none")) is None


@pytest.mark.parametrize(
    "wrap", [lambda a, b: [a, b], lambda a, b: {"a": a, "b": b}], ids=["list", "dict"]
)
def test_evaluation_data_of_several_loaders_are_added_up_if_all_are_known(wrap: Any) -> None:
    assert evaluation_dataset(wrap(loader(2), loader(3)), [8, 12]) == (None, 20)
    assert evaluation_dataset(loader(2), [8]) == (None, 8)
    assert evaluation_dataset(wrap(loader(2), loader(3)), [8, None]) == (None, None)


def test_the_modules_hyper_parameters_stand_above_those_of_the_data() -> None:
    class Data(L.LightningDataModule):
        def __init__(self, batch_size: int = 8, rate: float = 0.5) -> None:
            super().__init__()
            self.save_hyperparameters()

    class Module(L.LightningModule):
        def __init__(self, rate: float = 0.25, inner: dict[str, int] | None = None) -> None:
            super().__init__()
            self.save_hyperparameters()

    class HasData:
        datamodule = Data()
        enable_autolog_hparams = True

    expected = {"batch_size": 8, "rate": 0.25, "inner/depth": 3}
    assert hyperparameters(HasData(), Module(inner={"depth": 3})) == expected
    assert hyperparameters(HasData(), nn.Linear(1, 1)) == {"batch_size": 8, "rate": 0.5}
    HasData.enable_autolog_hparams = False
    assert hyperparameters(HasData(), Module(inner={"depth": 3})) == {}


def test_the_environment_names_versions_and_epochs() -> None:
    (facts,) = _see(Net(), max_epochs=2).environments

    # The metadata of the wheels on an index leave out the build, "+cu132", that torch itself names.
    assert facts["torch_version"] in (torch.__version__, torch.__version__.partition("+")[0])
    assert facts["lightning_version"] == L.__version__
    assert facts["planned_epochs"] == 2


def test_a_single_device_is_stand_alone_and_several_have_a_strategy() -> None:
    class DDPStrategy:
        pass

    class Fitting:
        world_size = 1
        strategy = DDPStrategy()

    assert parallel_mode(Fitting()) == "stand_alone"
    Fitting.world_size = 2
    assert parallel_mode(Fitting()) == "ddp"


@pytest.mark.parametrize("mode", ["min_size", "max_size_cycle", "max_size"])
def test_several_training_loaders_keep_the_mode_in_which_they_are_read(mode: Any) -> None:
    class Seen(L.Callback):
        def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
            self.loader = training_loader(trainer)

    class Several(Net):
        def training_step(self, batch: Any, batch_idx: int, *more: int) -> torch.Tensor:
            return super().training_step(loader(1).dataset[:4], batch_idx)

    seen = Seen()
    data = CombinedLoader([loader(2), loader(3)], mode)
    trainer(logger=False, callbacks=[seen]).fit(Several(), data)

    graph = dataset_graph(seen.loader, None)
    assert graph.parameter["mode"] == mode
    assert [child.parameter["op_type"] for child in graph.children].count("RepeatDataset") == (
        mode == "max_size_cycle"
    )
