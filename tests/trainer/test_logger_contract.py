"""What Lightning demands of a logger.

As its own tests do it (``tests_pytorch/loggers/test_all.py`` and others).
"""

from __future__ import annotations

import copy
import importlib
import math
import os
import pickle
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from lightning.pytorch.cli import LightningCLI
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from lightning.pytorch.utilities import rank_zero_only

from mindsummary_lightning import MindInsightLogger, SummaryCollector, SummaryReader
from tests.trainer.support import (
    NAMESPACES,
    Gan,
    Net,
    files,
    kinds,
    loader,
    module_of,
    points,
    steps,
    trainer,
)


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_fit_and_test_record_every_metric_at_lightnings_step(
    tmp_path: Path, namespace: str
) -> None:
    logger = MindInsightLogger(tmp_path)
    fitting = trainer(
        namespace, logger=logger, max_epochs=1, limit_train_batches=3, limit_val_batches=2
    )
    net = module_of(namespace)
    fitting.fit(net, loader(), loader(2))
    fitting.test(net, loader(2), verbose=False)

    assert steps(logger.log_dir, "train/loss") == [0, 1, 2]
    assert steps(logger.log_dir, "val/loss") == [2]
    assert steps(logger.log_dir, "test/loss") == [3]
    assert logger.log_dir == str(tmp_path / "lightning_logs" / "version_0")
    assert kinds(logger.log_dir) == ["MS", "lineage"]


def test_hyperparameters_that_come_last_are_recorded_without_a_trainer(tmp_path: Path) -> None:
    logger = MindInsightLogger(tmp_path)
    logger.experiment.add_scalar("loss", 0.5, 0)
    logger.log_hyperparams({"depth": 3})

    custom = SummaryReader(logger.log_dir).lineage().custom
    assert custom is not None
    assert custom.values == {"depth": 3}


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_the_logger_and_the_collector_are_what_each_namespace_asks_for(namespace: str) -> None:
    space = importlib.import_module(namespace)

    assert issubclass(MindInsightLogger, space.loggers.Logger)
    assert issubclass(SummaryCollector, space.callbacks.Callback)
    assert not isinstance(MindInsightLogger(), space.loggers.CSVLogger)


def test_the_epoch_that_lightning_adds_is_no_scalar_and_one_that_a_user_logs_is(
    tmp_path: Path,
) -> None:
    class Counts(Net):
        def on_train_epoch_end(self) -> None:
            self.log("epoch", float(self.current_epoch))

    logger, own = MindInsightLogger(tmp_path, "added"), MindInsightLogger(tmp_path, "own")
    trainer(logger=logger, max_epochs=1, limit_train_batches=3).fit(Net(), loader())
    trainer(logger=own, max_epochs=1, limit_train_batches=3).fit(Counts(), loader())
    by_hand = MindInsightLogger(tmp_path, "by_hand")
    by_hand.log_metrics({"loss": 0.5, "epoch": 3}, step=7)
    fabric = lightning.fabric.Fabric(
        accelerator="cpu", devices=1, loggers=MindInsightLogger(tmp_path, name="fabric")
    )
    fabric.log_dict({"loss": 0.5, "epoch": 3}, step=7)

    assert "epoch" not in SummaryReader(logger.log_dir).tags()["scalar"]
    assert points(own.log_dir, "epoch") == [(2, 0.0)]
    assert points(by_hand.log_dir, "epoch") == points(fabric.logger.log_dir, "epoch") == [(7, 3.0)]


def test_a_logger_that_was_used_can_be_pickled_and_logs_on(tmp_path: Path) -> None:
    logger = MindInsightLogger(tmp_path)
    logger.log_metrics({"a": 1.0}, step=1)
    logger.save()

    for copied in (pickle.loads(pickle.dumps(logger)), copy.deepcopy(logger)):
        assert copied.log_dir == logger.log_dir
    pickle.loads(pickle.dumps(logger)).log_metrics({"a": 2.0}, step=2)

    assert points(logger.log_dir, "a") == [(1, 1.0), (2, 2.0)]


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_a_trainer_with_the_pair_can_be_pickled(tmp_path: Path, namespace: str) -> None:
    logger = MindInsightLogger(tmp_path)
    running = trainer(
        namespace, logger=logger, callbacks=[SummaryCollector()], max_steps=1, max_epochs=-1
    )
    running.fit(module_of(namespace), loader())

    loaded = pickle.loads(pickle.dumps(running))
    loaded.logger.log_metrics({"after": 1.0}, step=5)

    assert points(logger.log_dir, "after") == [(5, 1.0)]


def test_what_a_spawned_copy_records_lies_where_the_parent_says(tmp_path: Path) -> None:
    logger = MindInsightLogger(tmp_path)
    copied = pickle.loads(pickle.dumps(logger))
    assert files(tmp_path) == []
    copied.log_metrics({"a": 1.0}, step=0)

    assert points(logger.log_dir, "a") == [(0, 1.0)]


@pytest.mark.skipif(
    not os.path.isdir("/proc/self/fd"), reason="open files are listed in /proc on Linux"
)
@pytest.mark.parametrize(
    ("status", "is_open"), [("success", False), ("failed", False), ("finished", True)]
)
def test_the_end_of_a_run_lets_go_of_its_file_and_a_requeue_does_not(
    tmp_path: Path, status: str, is_open: bool
) -> None:
    logger = MindInsightLogger(tmp_path)
    logger.log_metrics({"a": 1.0}, step=0)
    logger.finalize(status)

    held = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    assert any(path.startswith(os.path.realpath(tmp_path)) for path in held) == is_open


def test_the_prefix_stands_before_every_value_of_the_logger_and_no_other(tmp_path: Path) -> None:
    logger = MindInsightLogger(tmp_path, prefix="student")
    logger.log_metrics({"loss": 1.0}, 1)
    logger.log_histogram("weights", [1.0, 2.0], 1)
    logger.log_tensor("weights", [1.0, 2.0], 1)
    logger.log_image("sample", [torch.zeros(3, 8, 8)], 1)
    logger.log_image("batch", [torch.zeros(3, 8, 8)] * 2, 1)
    logger.experiment.add_scalar("raw", 1.0, 1)

    tags = SummaryReader(logger.log_dir).tags()
    assert {kind: names for kind, names in tags.items() if names} == {
        "scalar": ["raw", "student/loss"],
        "histogram": ["student/weights"],
        "tensor": ["student/weights"],
        "image": ["student/batch/0", "student/batch/1", "student/sample"],
    }


@pytest.mark.parametrize(("given", "recorded"), [(None, 7), (0, 0), (3, 3)])
def test_a_value_has_the_step_it_is_given_or_else_the_last_one(
    tmp_path: Path, given: int | None, recorded: int
) -> None:
    logger = MindInsightLogger(tmp_path)
    logger.log_metrics({"loss": 1.0}, 7)
    logger.log_tensor("weights", [1.0, 2.0], given)

    assert [sample.step for sample in SummaryReader(logger.log_dir).tensors("weights")] == [
        recorded
    ]


def test_the_prefix_stands_before_every_metric(tmp_path: Path) -> None:
    logger = MindInsightLogger(tmp_path, prefix="tmp")
    logger.log_metrics({"test": 1.0, "outer": {"inner": 2.0}}, step=0)
    logger.log_metrics({"test": 3.0}, step=1)

    assert SummaryReader(logger.log_dir).tags()["scalar"] == ["tmp/outer/inner", "tmp/test"]
    assert points(logger.log_dir, "tmp/test") == [(0, 1.0), (1, 3.0)]


def test_nothing_is_on_disk_when_callbacks_are_set_up(tmp_path: Path) -> None:
    found: list[list[str]] = []

    class Look(importlib.import_module("lightning.pytorch").Callback):  # type: ignore[misc]
        def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
            found.append(files(tmp_path))
            assert trainer.logger.experiment is not None

    running = trainer(
        logger=MindInsightLogger(tmp_path), callbacks=[Look()], max_steps=1, max_epochs=-1
    )
    running.fit(Net(), loader())

    assert found == [[]]


def test_finalize_without_an_experiment_does_nothing(tmp_path: Path) -> None:
    logger = MindInsightLogger(tmp_path)
    logger.finalize("success")
    logger.finalize("failed")

    assert files(tmp_path) == []


@pytest.mark.parametrize(
    "statuses", [["success"], ["failed"], ["finished"], ["whatever"], ["finished", "success"]]
)
def test_the_last_end_status_is_recorded_and_a_requeue_goes_on_in_its_files(
    tmp_path: Path, statuses: list[str]
) -> None:
    logger = MindInsightLogger(tmp_path)
    for step, status in enumerate(statuses):
        logger.log_metrics({"a": 1.0}, step=step)
        logger.finalize(status)

    # a requeue is of a signal
    expected = "interrupted" if statuses[-1] == "finished" else statuses[-1]
    assert SummaryReader(logger.log_dir).lineage().custom.values["status"] == expected
    assert kinds(logger.log_dir) == ["MS", "lineage"]


def test_hyper_parameters_wait_for_the_first_value(tmp_path: Path) -> None:
    logger = MindInsightLogger(tmp_path)
    logger.log_hyperparams({"lr": 0.1})
    assert files(tmp_path) == []
    logger.experiment.add_scalar("a", 1.0, 0)

    assert SummaryReader(logger.log_dir).lineage().custom.values == {"lr": 0.1}


@pytest.mark.parametrize("call", ["log_hyperparams", "add_hparams"])
def test_hyper_parameters_with_metrics_become_lineage_and_a_metric_that_is_no_number_is_named_once(
    call: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    params = {"net": {"depth": 3}, "sizes": [1, 2]}
    metrics = {
        "fine": {"one": torch.tensor(0.5)},
        "bad": "x",
        "two": [1, 2],
        "none": None,
        "nan": math.nan,
    }
    logger = MindInsightLogger(tmp_path)
    record = getattr(logger if call == "log_hyperparams" else logger.experiment, call)
    for _ in range(2):
        record(params, metrics)

    (said,) = caplog.messages
    assert said.startswith(f"metric 'bad', 'two', 'none', 'nan' of {call!r} is skipped: ")
    lineage = SummaryReader(logger.log_dir).lineage()
    assert lineage.custom.values == {"net/depth": 3, "sizes": "[1, 2]"}
    assert lineage.evaluation.metric == '{"fine/one": 0.5}'


@pytest.mark.parametrize(
    ("metric", "said"), [(0.5, 0), (torch.tensor([2.0]), 0), (math.inf, 1), ("x", 1)]
)
def test_one_result_without_a_name_is_hp_metric_as_with_tensorboard(
    metric: Any, said: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logger = MindInsightLogger(tmp_path)
    logger.log_hyperparams({}, metric)

    evaluation = None if said else SummaryReader(logger.log_dir).lineage().evaluation
    assert [bool(evaluation), len(caplog.messages)] == [not said, said]
    assert evaluation is None or evaluation.metric == f'{{"hp_metric": {float(metric)}}}'
    if said:
        with pytest.raises(ValueError, match="metric 'hp_metric' of 'log_hyperparams'"):
            MindInsightLogger(tmp_path, raise_exception=True).log_hyperparams({}, metric)


def test_one_logger_beside_others_records_the_same_metrics(tmp_path: Path) -> None:
    space = importlib.import_module("lightning.pytorch.loggers")
    ours = MindInsightLogger(tmp_path, name="ours")
    csv = space.CSVLogger(tmp_path, name="csv")
    running = trainer(logger=[csv, ours], limit_train_batches=3, callbacks=[SummaryCollector()])
    running.fit(Net(), loader())

    rows = Path(csv.log_dir, "metrics.csv").read_text(encoding="utf-8").splitlines()
    assert len(points(ours.log_dir, "train/loss")) == len(rows) - 1 == 3
    assert running.log_dir == csv.log_dir  # only the first logger defines directories
    assert "loss/auto" in SummaryReader(ours.log_dir).tags()["scalar"]


def test_two_optimizers_and_accumulation_keep_logger_and_collector_in_step(tmp_path: Path) -> None:
    gan = MindInsightLogger(tmp_path, name="gan")
    collector = SummaryCollector(collect_freq=1)
    trainer(logger=gan, callbacks=[collector], limit_train_batches=4).fit(Gan(), loader())
    accumulating = MindInsightLogger(tmp_path, name="accumulating")
    collector = SummaryCollector(collect_freq=1)
    running = trainer(
        logger=accumulating, callbacks=[collector], limit_train_batches=6, accumulate_grad_batches=3
    )
    running.fit(Net(), loader())

    # The collector counts steps from 1, as MindSpore does; Lightning hands out steps from 0.
    assert steps(gan.log_dir, "train/loss") == [0, 1, 2, 3]
    assert steps(gan.log_dir, "loss/auto") == [1, 2, 3, 4]
    assert steps(accumulating.log_dir, "train/loss") == [0, 1]
    assert steps(accumulating.log_dir, "loss/auto") == [1, 2]


@pytest.mark.parametrize("base", [MindInsightLogger, None], ids=["logger", "a user's subclass"])
def test_an_epoch_that_a_user_logs_during_a_training_is_recorded_wherever_it_stands(
    tmp_path: Path, base: Any
) -> None:
    class Own(MindInsightLogger):
        @rank_zero_only
        def log_metrics(self, metrics: Any, step: int | None = None) -> None:
            super().log_metrics(metrics, step)

    class Logs(Net):
        def on_train_batch_end(self, *_: Any) -> None:
            logger.log_metrics({"mine": 1.0, "epoch": 7}, step=100 + self.global_step)

    logger = (base or Own)(tmp_path)
    trainer(logger=logger, limit_train_batches=2).fit(Logs(), loader())

    assert points(logger.log_dir, "epoch") == [(101, 7.0), (102, 7.0)]
    assert steps(logger.log_dir, "train/loss") == [0, 1]


def test_a_metric_without_a_name_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logger = MindInsightLogger(tmp_path)
    for step in range(2):
        logger.log_metrics({"": 1.0, "loss": 0.5}, step=step)

    assert [record.getMessage() for record in caplog.records] == [
        "a metric without a name is not recorded. Give it a name"
    ]
    assert steps(logger.log_dir, "loss") == [0, 1]


def test_values_without_a_step_follow_those_that_have_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logger = MindInsightLogger(tmp_path)
    logger.log_tensor("before", [1.0])
    for number, step in enumerate((None, 7, None)):
        logger.log_metrics({"loss": 0.5}, step)
        logger.log_tensor(f"tensor/{number}", [1.0])
    logger.log_metrics({"loss": 0.5}, 2**70)  # which no file can hold
    logger.log_metrics({"loss": 0.5})
    logger.log_tensor("given", [1.0], step=3)

    assert steps(logger.log_dir, "loss") == [0, 7, 8, 9]
    tags = ("before", "tensor/0", "tensor/1", "tensor/2", "given")
    assert [steps(logger.log_dir, tag, "tensor") for tag in tags] == [[0], [0], [7], [8], [3]]
    assert len([line for line in caplog.records if line.levelname == "WARNING"]) == 1


# ---- what the originals' own tests ask for


class _Named(MindInsightLogger):
    @property
    def name(self) -> str:
        return "mine"


class _Versioned(MindInsightLogger):
    @property
    def version(self) -> str:
        return f"v{super().version}"


class _Placed(MindInsightLogger):
    @property
    def log_dir(self) -> str:
        return os.path.join(self.save_dir, "here")


@pytest.mark.parametrize(
    ("kind", "run", "checkpoints"),
    [
        (MindInsightLogger, "lightning_logs/version_0", "lightning_logs/version_0"),
        (_Named, "mine/version_0", "mine/version_0"),
        (_Versioned, "lightning_logs/v0", "lightning_logs/v0"),
        (_Placed, "here", "lightning_logs/version_0"),  # Lightning asks for name and version alone
    ],
)
def test_files_lie_where_the_properties_of_a_subclass_say(
    tmp_path: Path,
    kind: type[MindInsightLogger],
    run: str,
    checkpoints: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    logger = kind(tmp_path)
    trainer(logger=logger, limit_train_batches=2, enable_checkpointing=True).fit(Net(), loader())

    assert (logger.log_dir, steps(tmp_path / run, "train/loss")) == (str(tmp_path / run), [0, 1])
    assert os.listdir(tmp_path / checkpoints / "checkpoints")
    assert f"view {shlex.quote(logger.root_dir)}" in caplog.text
    assert {path.parent for path in tmp_path.rglob("events*")} == {tmp_path / run}
    assert all(os.listdir(path) for path in tmp_path.rglob("*") if path.is_dir())


class _Chosen(MindInsightLogger):
    chosen = "first"

    @property
    def name(self) -> str:
        return self.chosen


def test_a_subclass_that_changes_its_name_places_the_next_run_there(tmp_path: Path) -> None:
    logger = _Chosen(tmp_path)
    (tmp_path / "second" / "version_4").mkdir(parents=True)
    logger.chosen = "second"

    assert (logger.version, logger.log_dir) == (5, str(tmp_path / "second" / "version_5"))
    logger.log_metrics({"a": 1.0}, 0)
    assert steps(tmp_path / "second" / "version_5", "a") == [0]
    assert not (tmp_path / "first").exists()


def test_what_it_cannot_do_is_said_or_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logger: Any = MindInsightLogger(tmp_path)
    for _ in range(2):
        logger.log_text("a", ["b"])
        logger.log_table("a", ["b"], data=[[1]])

    assert [text.partition(":")[0] for text in caplog.messages] == [
        "log_text is skipped",
        "log_table is skipped",
    ]
    with pytest.raises(AttributeError, match=r"no attribute 'log_imag'.*log_image\b"):
        _ = logger.log_imag
    for of_callback in ("setup", "on_exception"):
        with pytest.raises(TypeError, match="must be a Callback, got a MindInsightLogger"):
            getattr(logger, of_callback)


class _Transferring(Net):
    def __init__(self) -> None:
        super().__init__()
        self.example_input_array = {"numbers": [0.0, 1.0, 2.0, 3.0]}  # as its loader gives them

    def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        return torch.tensor([batch["numbers"]]) if isinstance(batch, dict) else batch


def test_the_graph_of_an_example_goes_through_the_hooks_of_batch_transfer(tmp_path: Path) -> None:
    logger = MindInsightLogger(tmp_path)
    trainer(logger=logger, limit_train_batches=1).fit(_Transferring(), loader())

    assert SummaryReader(logger.log_dir).graph() is not None


def test_a_missing_example_is_said_to_who_asks_for_a_graph_and_not_in_each_fit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logger = MindInsightLogger(tmp_path)
    trainer(logger=logger, limit_train_batches=1).fit(Net(), loader())
    before = [text for text in caplog.messages if "needs an input to record" in text]
    for _ in range(2):
        logger.log_graph(torch.nn.Linear(2, 2))

    assert before == []
    assert [text[:24] for text in caplog.messages if "needs an input to record" in text] == [
        "log_graph needs an input"
    ]


class _Closing(Net):
    def training_step(self, batch: Any, batch_idx: int) -> Any:
        with self.logger.experiment as writer:
            writer.add_scalar("own", batch_idx, batch_idx)
        self.logger.experiment.close()
        return super().training_step(batch, batch_idx)


def test_a_module_that_closes_the_experiment_in_each_step_loses_nothing(tmp_path: Path) -> None:
    logger = MindInsightLogger(tmp_path)
    trainer(logger=logger, callbacks=[SummaryCollector(collect_freq=1)], limit_train_batches=4).fit(
        _Closing(), loader()
    )

    assert steps(logger.log_dir, "own") == steps(logger.log_dir, "train/loss") == [0, 1, 2, 3]
    assert steps(logger.log_dir, "loss/auto") == [1, 2, 3, 4]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "silenced"),
    [
        ("import lightning.pytorch", "lightning.pytorch"),
        ("import pytorch_lightning", "pytorch_lightning"),
        ("", "lightning.pytorch"),
    ],
)
def test_importing_the_package_changes_nothing_of_lightnings_logging(
    tmp_path: Path, before: str, silenced: str
) -> None:
    pytest.importorskip(silenced)
    space = silenced if before else "lightning.pytorch"
    script = f"""
        import logging, warnings
        warnings.simplefilter("ignore")
        {before or "pass"}
        logging.getLogger({silenced!r}).setLevel(logging.ERROR)
        from mindsummary_lightning import MindInsightLogger
        from {space} import Trainer
        Trainer(logger=False, accelerator="cpu", enable_checkpointing=False)
        print("level", logging.getLogger({silenced!r}).level)
    """
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(script), encoding="utf-8")
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "level 40"
    assert "GPU available" not in done.stderr


# ---- beside the loggers that Lightning ships

_OTHERS = {"ours": MindInsightLogger, "TensorBoard": TensorBoardLogger, "CSV": CSVLogger}
_ARGUMENTS: list[dict[str, Any]] = [
    {},
    {"name": "exp"},
    {"name": ""},
    {"version": 3},
    {"version": "a"},
    {"name": "exp", "version": "a"},
    {"name": "", "version": "a"},
    {"name": "a/b"},
]


class _WithData(Net):
    def train_dataloader(self) -> Any:
        return loader(2)


def _fitted(how: str, logger_class: Any, root: Path, arguments: dict[str, Any]) -> Any:
    """A Trainer that has trained with a logger of a class that was made in one of four ways."""
    if how == "LightningCLI":
        path = f"{logger_class.__module__}.{logger_class.__name__}"
        words = {"class_path": path, "init_args": {"save_dir": str(root), **arguments}}
        options = {"accelerator": "cpu", "max_epochs": 1, "limit_val_batches": 0, "logger": words}
        quiet = {"enable_progress_bar": False, "enable_model_summary": False}
        settings = {"fit": {"trainer": {**options, **quiet}}, "subcommand": "fit"}
        return LightningCLI(_WithData, save_config_callback=None, args=settings).trainer
    if how == "subclass":
        logger_class = type("Own", (logger_class,), {"name": property(lambda self: "mine")})
    strategy = {"strategy": how, "devices": 1} if how == "ddp_spawn" else {}
    logger = logger_class(root, **arguments)
    running = trainer(logger=logger, limit_train_batches=2, enable_checkpointing=True, **strategy)
    running.fit(Net(), loader())
    return running


@pytest.mark.filterwarnings("ignore:LightningCLI's args parameter")
@pytest.mark.parametrize(
    ("how", "arguments"),
    [
        *(("plain", arguments) for arguments in _ARGUMENTS),
        *(("subclass", arguments) for arguments in _ARGUMENTS[3:5]),
        *(
            pytest.param("LightningCLI", arguments, marks=pytest.mark.slow)
            for arguments in _ARGUMENTS[:4]
        ),
        # With a version: without one, Lightning's loggers count in each process anew, and what
        # launched the training finds version_1 where its child has written version_0. Ours counts
        # once, before the processes start.
        pytest.param(
            "ddp_spawn", {"name": "exp", "version": "a"}, marks=[pytest.mark.slow, pytest.mark.long]
        ),
    ],
    ids=str,
)
def test_directories_versions_and_names_are_those_of_lightnings_loggers(
    tmp_path: Path, how: str, arguments: dict[str, Any]
) -> None:
    pytest.importorskip("tensorboard")
    found = {}
    for kind, logger_class in _OTHERS.items():
        root = tmp_path / kind
        seen = []
        for _ in range(1 if how == "ddp_spawn" else 2):
            running = _fitted(how, logger_class, root, arguments)
            logger = running.logger
            saved = os.path.dirname(running.checkpoint_callback.best_model_path)
            places = [
                os.path.relpath(path, root)
                for path in (logger.log_dir, logger.root_dir, logger.save_dir, saved)
            ]
            seen.append((*places, logger.name, logger.version))
        found[kind] = seen

    assert found["ours"] == found["TensorBoard"] == found["CSV"]


@pytest.mark.slow
@pytest.mark.long
def test_what_launched_a_spawned_training_knows_the_directory_that_it_wrote(tmp_path: Path) -> None:
    running = _fitted("ddp_spawn", MindInsightLogger, tmp_path, {})

    assert running.logger.log_dir == str(tmp_path / "lightning_logs" / "version_0")
    assert steps(running.logger.log_dir, "train/loss") == [0, 1]
    assert running.checkpoint_callback.best_model_path.startswith(running.logger.log_dir)
