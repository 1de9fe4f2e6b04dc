"""``PortCheck``: checks a LightningModule against recorded steps."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from mindsummary_lightning.graph.replaced_method import ReplacedMethod
from mindsummary_lightning.porting.port_check.in_torch.check_port import eager, follows, stopped_by
from mindsummary_lightning.porting.port_check.in_torch.kept_state import (
    GeneratorStates,
    KeptState,
    RandomState,
)
from mindsummary_lightning.porting.port_check.in_torch.torch_step import TorchStep
from mindsummary_lightning.porting.port_check.port_report import CheckedStep, PortReport
from mindsummary_lightning.porting.port_check.recorded_steps import open_step, recorded_paths
from mindsummary_lightning.porting.port_check.reference_step import ReferenceStep
from mindsummary_lightning.trainer.namespaces import CallbackBase
from mindsummary_lightning.trainer.trainer_state import backward_scale, given_loaders

# Any, in this module: Trainers, modules and batches of either Lightning namespace.
_LOG = logging.getLogger(__name__)


class PortCheck(CallbackBase):
    """Runs the training step of a ported model on recorded values and checks it.

    Each module of the port runs on the inputs that the original had. Its output, its gradients and
    the update are compared with the original's, and replaced by them. So all independent mistakes
    are found in one run. Then the Trainer stops. Weights, buffers, random states, training modes
    and hooks are as before afterwards.

    Args:
        reference: directory of a run that was recorded with ``whole_tensors=True``, or the file of
            one step.
        steps: how many of the recorded steps from the first on, or their numbers; ``None`` for all.

    Raises:
        TypeError: an argument has the wrong type.
        FileNotFoundError: there is no such reference.
        ValueError: the reference has no whole tensors, or the port has the weights of another
            architecture.

    Attributes:
        report: the :class:`PortReport`; ``None`` before the check.

    Example:
        .. code-block:: python

            check = PortCheck("runs/original")
            Trainer(callbacks=[check]).fit(port, loader)
            check.report.to_html("report.html")
    """

    def __init__(
        self, reference: str | os.PathLike[str], steps: int | Sequence[int] | None = None
    ) -> None:
        super().__init__()
        self._reference = os.fspath(reference) if isinstance(reference, os.PathLike) else reference
        self._paths = recorded_paths(reference, steps)
        self.report: PortReport | None = None
        self._left: list[int] = []
        self._checked: list[CheckedStep] = []
        self._running: _RunningStep | None = None
        self._kept: KeptState | None = None
        self._random: RandomState | None = None
        self._generators: GeneratorStates | None = None
        self._validation: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._reference!r})"

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Refuse unsupported setups, and save the random state."""
        if stage != "fit":
            return
        if trainer.world_size > 1:
            raise ValueError(
                f"PortCheck must run in one process, got {trainer.world_size}. "
                "Pass Trainer(devices=1)"
            )
        self.report = None
        self._checked = []
        self._left = [*self._paths]
        self._random = RandomState()
        loaders = given_loaders(trainer)
        samplers = [getattr(loader, "sampler", None) for loader in loaders]
        self._generators = GeneratorStates([*loaders, *samplers])
        self._validation = {
            name: getattr(trainer, name) for name in ("limit_val_batches", "num_sanity_val_steps")
        }
        trainer.limit_val_batches = trainer.num_sanity_val_steps = 0

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        """Begin to check the next recorded step, unless a check is running."""
        if self._running is None and self._left:
            if self._kept is None:
                self._kept = KeptState(pl_module)
            reference = open_step(self._paths[self._left.pop(0)])
            self._running = _RunningStep(trainer, pl_module, reference, self._kept, self._checked)
            self._running.begin()

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        """Set the gradients that the port lacks to the gradients of the original model."""
        if self._running is not None:
            self._running.end_backward()

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """End the check after an optimizer step, and stop the fit after the last check."""
        if self._running is None or not self._running.is_done():
            return
        running, self._running = self._running, None
        self._checked.append(running.end())
        if self._left:
            return
        if self._kept is not None:
            self._kept.give_back()
            self._kept = None
        self.report = PortReport(str(self._reference), self._checked)
        trainer.should_stop = True
        trainer.fit_loop.min_epochs = 0
        trainer.fit_loop.epoch_loop.min_steps = None
        print(self.report.text())  # noqa: T201 # what the user has asked for
        _LOG.warning(
            "PortCheck has finished and stops the Trainer. The module has its state from before "
            "the check"
        )

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Restore the state that the module had before the check."""
        self._give_back(trainer)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Restore the state that the module had before the check."""
        if stage == "fit":
            self._give_back(trainer)

    def _give_back(self, trainer: Any) -> None:
        if self._running is not None:
            self._running.end_hooks()
            self._running = None
        if self._kept is not None:
            self._kept.give_back()
            self._kept = None
        for name, value in self._validation.items():
            setattr(trainer, name, value)
        self._validation = {}
        if self._generators is not None:
            self._generators.give_back()
            self._generators = None
        if self._random is not None:
            self._random.give_back()
            self._random = None


class _RunningStep:
    """The check of a recorded step, from its first batch to its optimizer step."""

    def __init__(
        self,
        trainer: Any,
        module: Any,
        reference: ReferenceStep,
        kept: KeptState,
        before: Sequence[CheckedStep],
    ) -> None:
        self._trainer = trainer
        self._module = module
        self._reference = reference
        self._kept = kept
        self._before = before
        self._hooks = ExitStack()
        self._method = ReplacedMethod(module, "training_step", self._training_step)
        self._keeps_sizes: frozenset[str] = frozenset()
        self._failure: Exception | None = None
        self._global_step = trainer.global_step
        self._step = self._new_step()

    def begin(self) -> None:
        """Install the hooks, and load the recorded weights."""
        self._enter()
        self._method.arm()

    def is_done(self) -> bool:
        """Tell whether an optimizer has stepped."""
        return bool(self._trainer.global_step != self._global_step)

    def end_backward(self) -> None:
        """Compare the gradients at the end of the backward pass."""
        if self._failure is None:
            self._step.end_backward()

    def end(self) -> CheckedStep:
        """Remove the hooks, and return the result."""
        try:
            if self._failure is not None:
                return self._step.step.finish([stopped_by(self._failure)])
            return self._step.finish()
        finally:
            self.end_hooks()

    def end_hooks(self) -> None:
        """Remove the hooks."""
        self._method.disarm()
        self._hooks.close()

    def _new_step(self) -> TorchStep:
        number = self._reference.step.step
        return TorchStep(
            self._module,
            self._reference,
            self._kept,
            is_first=not self._before and number == 1,
            weights=self._before[0].weights if self._before else None,
            follows=follows(self._before, number),
            keeps_sizes=self._keeps_sizes,
        )

    def _enter(self) -> None:
        self._hooks.enter_context(eager())
        self._hooks.enter_context(self._step.substitution())

    def _training_step(
        self, original: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Any:
        if self._failure is not None:
            return original(*args, **kwargs)
        try:
            new_args, new_kwargs = _with_batch(self._step, args, kwargs)
            output = original(*new_args, **new_kwargs)
        except Exception as error:
            return self._again(error, original, args, kwargs)
        self._step.loss(output)
        self._step.step.gradients.scale.port = backward_scale(self._trainer)
        return output

    def _again(
        self,
        error: Exception,
        original: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
    ) -> Any:
        """Run a failed step again, without the likely cause of the failure."""
        self._hooks.close()
        self._kept.give_back()
        self._kept.set_aside_gradients()
        changed = self._step.has_changed_sizes
        if changed - self._keeps_sizes:
            self._keeps_sizes |= changed
            self._step = self._new_step()
            self._enter()
            return self._training_step(original, args, kwargs)
        output = original(*args, **kwargs)
        self._failure = error
        return output


def _with_batch(
    step: TorchStep, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Sequence[Any], dict[str, Any]]:
    """Replace the batch in the arguments of ``training_step`` by the recorded batch."""
    if args:
        return (step.batch(args[0]), *args[1:]), kwargs
    if "batch" in kwargs:
        return args, {**kwargs, "batch": step.batch(kwargs["batch"])}
    return args, kwargs
