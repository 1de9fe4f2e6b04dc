"""Flows of calls through one logger or collector, and what each run must then hold.

They are the rows of the table of runs.

A flow is a function that a process runs; it writes what must be in the runs as JSON, beside the
runs themselves. A ``TensorBoardLogger`` of its own records each fit as the judge of steps and
values.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.strategies import DDPStrategy
from lightning_utilities.core import rank_zero
from torch.multiprocessing.spawn import ProcessException

from mindsummary_lightning import MindInsightLogger, SummaryCollector
from tests.trainer.support import Net, loader, trainer

_DDP = {name: {"strategy": name, "devices": 2} for name in ("ddp", "ddp_spawn", "ddp_fork")}
_RAISED = (RuntimeError, SystemExit, FileNotFoundError, ProcessException)


class Noted(Net):
    """A module with a hyper-parameter, which stops where it is told."""

    def __init__(self, width: int = 1, stops_in: str = "", error: str = "RuntimeError") -> None:
        super().__init__()
        self.save_hyperparameters({"width": width})
        self.stops_in, self.error = stops_in, error

    def _stop(self, hook: str) -> None:
        if hook == self.stops_in and self.trainer.global_step >= (hook == "on_train_batch_end") * 2:
            raise {"RuntimeError": RuntimeError, "KeyboardInterrupt": KeyboardInterrupt}[
                self.error
            ]("mine")

    def on_fit_start(self) -> None:
        self._stop("on_fit_start")

    def on_train_batch_end(self, *_: Any) -> None:
        self._stop("on_train_batch_end")

    def on_validation_epoch_end(self) -> None:
        self._stop("on_validation_epoch_end")

    def on_train_epoch_end(self) -> None:
        self._stop("on_train_epoch_end")

    def on_test_batch_end(self, *_: Any) -> None:
        self._stop("on_test_batch_end")


def _options(processes: str) -> dict[str, Any]:
    """A Trainer's options for a kind of processes.

    ``pickled copies`` are those of ``ddp_spawn``, in processes that a fork server starts: each has
    PyTorch and Lightning imported when it begins.
    """
    if processes == "pickled copies":
        return {"strategy": DDPStrategy(start_method="forkserver"), "devices": 2}
    return _DDP.get(processes, {})


@dataclass
class Expected:
    """What one run must hold."""

    train: list[int]  # steps of what the module logs
    losses: list[int]  # steps of the collector's loss
    status: str | None = "success"
    width: int | None = None
    validations: int = 0
    judge: str = ""  # directory of TensorBoard's events of the same fit
    has_checkpoint: bool = False
    fold: int | None = None


@dataclass
class Flow:
    """One logger or collector, or both, and the calls that go through them."""

    directory: Path
    kind: str  # L, C or B
    processes: str
    version: int | str | None = None
    runs: dict[str, Expected] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.root = self.directory / "runs"
        self.logger: Any = None
        if self.kind != "C":
            self.logger = MindInsightLogger(self.root, name="", version=self.version)
        self._judges = 0

    def callbacks(self) -> list[Any]:
        if self.kind == "L":
            return []
        return [SummaryCollector(self.root / "run" if self.kind == "C" else None, collect_freq=1)]

    def trainer(self, **options: Any) -> Any:
        callbacks = [*self.callbacks(), *options.pop("callbacks", [])]
        ours = [self.logger] if self.logger else []
        self.judge = str(self.directory / f"judge{self._judges}")
        self._judges += 1
        judge = TensorBoardLogger(self.judge, name="", version="")
        settings = {
            "limit_train_batches": 3,
            "limit_val_batches": 1,
            **_options(self.processes),
            **options,
        }
        logger = [*ours, judge]
        return trainer(
            logger=logger, callbacks=callbacks, use_distributed_sampler=False, **settings
        )

    def call(self, running: Any, method: str, module: Any, **options: Any) -> None:
        """Call a method of a Trainer, which may raise what the module raises."""
        loaders = (loader(8), loader(2)) if method == "fit" else (loader(2),)
        quiet = {"verbose": False} if method in ("validate", "test") else {}
        handler = signal.getsignal(signal.SIGINT)
        with contextlib.suppress(*_RAISED):
            getattr(running, method)(module, *loaders, **quiet, **options)
        signal.signal(signal.SIGINT, handler)

    def expect(
        self, name: str, train: list[int], losses: list[int] | None = None, **facts: Any
    ) -> None:
        """Say what a run must hold; Lightning logs a step after the hooks that may stop the fit."""
        every = [step + 1 for step in train] if losses is None else losses
        self.runs[name if self.kind != "C" else "run"] = Expected(train, every, **facts)


def second_name(flow: Flow) -> str:
    """The run of a second fit: another version, unless the directory was fixed."""
    return "version_1" if flow.version is None else "version_0"


def two_fits(flow: Flow) -> None:
    """A fit of a new Trainer after a fit: a run of its own."""
    for number in range(2):
        running = flow.trainer(callbacks=[ModelCheckpoint()], enable_checkpointing=True)
        flow.call(running, "fit", Noted(number))
        name = "version_0" if number == 0 else second_name(flow)
        flow.expect(
            name,
            [0, 1, 2],
            width=number,
            validations=1,
            judge=flow.judge,
            has_checkpoint=flow.kind != "C",
        )


def fit_after_failure(
    flow: Flow, stops_in: str = "on_train_batch_end", error: str = "RuntimeError"
) -> None:
    """A fit of the same module after one that raised or was interrupted in a hook."""
    module = Noted(0, stops_in, error)
    flow.call(flow.trainer(limit_train_batches=5), "fit", module)
    is_early = stops_in == "on_fit_start"
    if not is_early:
        train, losses = (
            ([0], [1, 2]) if stops_in == "on_train_batch_end" else ([0, 1, 2, 3, 4], None)
        )
        validations = int(stops_in == "on_train_epoch_end")
        facts: dict[str, Any] = {"width": 0, "judge": flow.judge, "validations": validations}
        status = "interrupted" if error == "KeyboardInterrupt" else "failed"
        flow.expect("version_0", train, losses, status=status, **facts)
    module.stops_in = ""
    flow.call(flow.trainer(), "fit", module)
    name = "version_0" if is_early else second_name(flow)
    flow.expect(name, [0, 1, 2], width=0, validations=1, judge=flow.judge)


def fit_after_failed_test(flow: Flow) -> None:
    """A fit after a test that raised after a fit.

    The test changes no status, and the fit is a run of its own.
    """
    module = Noted(0)
    running = flow.trainer()
    flow.call(running, "fit", module)
    flow.expect("version_0", [0, 1, 2], width=0, validations=1, judge=flow.judge)
    module.stops_in = "on_test_batch_end"
    flow.call(running, "test", module)
    module.stops_in = ""
    flow.call(flow.trainer(), "fit", module)
    flow.expect(second_name(flow), [0, 1, 2], width=0, validations=1, judge=flow.judge)


def evaluation_before_second_fit(flow: Flow) -> None:
    """A new Trainer that validates before it fits.

    Its checkpoints lie with the values of its fit.
    """
    flow.call(flow.trainer(), "fit", Noted(0))
    flow.expect("version_0", [0, 1, 2], width=0, validations=2, judge="")
    running = flow.trainer(callbacks=[ModelCheckpoint()], enable_checkpointing=True)
    flow.call(running, "validate", Noted(1))
    flow.call(running, "fit", Noted(1))
    facts: dict[str, Any] = {"has_checkpoint": flow.kind != "C"}
    flow.expect(second_name(flow), [0, 1, 2], width=1, validations=1, **facts)


def evaluation_after_fit(flow: Flow) -> None:
    """A validation and a test after a fit are in its run, and take nothing away."""
    module = Noted(0)
    running = flow.trainer()
    flow.call(running, "fit", module)
    judge = flow.judge
    flow.call(running, "validate", module)
    flow.call(flow.trainer(), "test", module)
    flow.expect("version_0", [0, 1, 2], width=0, validations=2, judge=judge)


def same_trainer_after_failure(flow: Flow) -> None:
    """The Trainer of a fit that raised fits again: the run goes on, and ends well."""
    module = Noted(0, "on_train_batch_end")
    running = flow.trainer()
    flow.call(running, "fit", module)
    module.stops_in = ""
    flow.call(running, "fit", module)
    flow.expect(
        "version_0", [0, 1, 2, 3], [1, 2, 3, 4, 5], width=0, validations=1, judge=flow.judge
    )


def resumed_fit(flow: Flow) -> None:
    """A fit with a checkpoint goes on in the run, in a later file, after a failure too."""
    saving = ModelCheckpoint(
        flow.directory / "saved", "{step}", every_n_train_steps=1, save_top_k=-1
    )
    module = Noted(0, "on_train_epoch_end")
    flow.call(flow.trainer(callbacks=[saving], enable_checkpointing=True), "fit", module)
    module.stops_in = ""
    flow.call(
        flow.trainer(max_epochs=2),
        "fit",
        module,
        ckpt_path=flow.directory / "saved" / "step=3.ckpt",
    )
    flow.expect("version_0", [0, 1, 2, 3, 4, 5], width=0, validations=2)


def mistyped_checkpoint(flow: Flow) -> None:
    """A fit with a checkpoint that is not there changes nothing of the finished run."""
    flow.call(flow.trainer(), "fit", Noted(0))
    flow.expect("version_0", [0, 1, 2], width=0, validations=1, judge=flow.judge)
    flow.call(flow.trainer(), "fit", Noted(0), ckpt_path=flow.directory / "nowhere.ckpt")


def hyperparameters_between_fits(flow: Flow) -> None:
    """Those that a user logs before each fit are of that fit."""
    for fold in range(3):
        if flow.logger:
            flow.logger.log_hyperparams({"fold": fold})
        flow.call(flow.trainer(), "fit", Noted(fold))
        facts: dict[str, Any] = {"width": fold, "fold": fold if flow.kind != "C" else None}
        name = f"version_{fold}" if flow.version is None else "version_0"
        flow.expect(name, [0, 1, 2], validations=1, judge=flow.judge, **facts)


FLOWS: dict[str, Callable[[Flow], None]] = {
    function.__name__: function
    for function in (
        two_fits,
        fit_after_failure,
        fit_after_failed_test,
        evaluation_before_second_fit,
        evaluation_after_fit,
        same_trainer_after_failure,
        resumed_fit,
        mistyped_checkpoint,
        hyperparameters_between_fits,
    )
}


def run_flow(
    name: str, kind: str, processes: str, directory: Path, version: int | None
) -> dict[str, Expected]:
    """Run a flow here, and return what the runs must hold, by their directory."""
    flow = Flow(directory, kind, processes, version)
    FLOWS[name](flow)
    return flow.runs


def run_in_process(
    name: str, kind: str, processes: str, directory: str, version: int | None
) -> None:
    """Run a flow in a process of its own, and leave what its runs must hold in a file."""
    # as when Lightning is imported in this process
    known: Any = rank_zero.rank_zero_only
    known.rank = int(os.environ.get("RANK", "0"))
    multiprocessing.set_forkserver_preload([__name__])
    runs = run_flow(name, kind, processes, Path(directory), version)
    if known.rank == 0:
        Path(directory, "expected.json").write_text(
            json.dumps({run: vars(facts) for run, facts in runs.items()}), encoding="utf-8"
        )
