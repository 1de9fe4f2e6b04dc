"""``check_port``: checks a ported model in a plain PyTorch training loop."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

from mindsummary_lightning.collection.loss import loss_of
from mindsummary_lightning.conversion.arguments import optional_module
from mindsummary_lightning.porting.port_check.findings import NotTested
from mindsummary_lightning.porting.port_check.in_torch.kept_state import KeptState
from mindsummary_lightning.porting.port_check.in_torch.torch_step import TorchStep
from mindsummary_lightning.porting.port_check.port_report import CheckedStep, PortReport
from mindsummary_lightning.porting.port_check.recorded_steps import open_step, recorded_paths
from mindsummary_lightning.porting.port_check.reference_step import ReferenceStep
from mindsummary_lightning.values.text import Phrase

# Any, in this module: batches, and what the user's step function returns.


def check_port(
    module: nn.Module,
    reference: str | os.PathLike[str],
    step_function: Callable[..., Any],
    steps: int | Sequence[int] | None = None,
) -> PortReport:
    """Run a ported model's step on recorded values, and check each module separately.

    Each module of the port runs on the inputs that the original had. Its output, its gradients and
    the update are compared with the original's, and replaced by them. So all independent mistakes
    are found in one run. Weights, buffers, gradients, optimizers, random states, training modes and
    hooks are as before afterwards.

    Args:
        module: the port.
        reference: directory of a run that was recorded with ``whole_tensors=True``, or the file of
            one step.
        step_function: runs one step: forward, loss, ``backward()`` and the optimizer's ``step()``,
            and returns the loss. It may take the batch: as one argument in the recorded structure,
            or one argument for each of its tensors. If it runs no backward pass, that of the
            returned loss is run here.
        steps: how many of the recorded steps from the first on, or their numbers; ``None`` for all.

    Returns:
        The report.

    Raises:
        TypeError: an argument has the wrong type.
        FileNotFoundError: there is no such reference.
        ValueError: the reference has no whole tensors, or the port has the weights of another
            architecture.

    Example:
        .. code-block:: python

            def step(batch):
                optimizer.zero_grad()
                loss = loss_function(model(batch[0]), batch[1])
                loss.backward()
                optimizer.step()
                return loss


            print(check_port(model, "runs/original", step))
    """
    if optional_module("module", module) is None:
        raise TypeError("module must be a torch.nn.Module, got None. Pass the port")
    if not callable(step_function):
        raise TypeError(
            f"step_function must be a function that runs one step, got {step_function!r}. "
            "Pass a function"
        )
    paths = recorded_paths(reference, steps)
    checked: list[CheckedStep] = []
    kept = KeptState(module)
    try:
        for path in paths.values():
            kept.set_aside_gradients()
            checked.append(_checked(module, open_step(path), step_function, kept, checked))
    finally:
        kept.give_back()
    return PortReport(os.fspath(reference), checked)


def _checked(
    module: nn.Module,
    reference: ReferenceStep,
    step_function: Callable[..., Any],
    kept: KeptState,
    before: Sequence[CheckedStep],
) -> CheckedStep:
    """Check a single recorded step.

    ``before`` holds the results of the steps before it.
    """
    keeps_sizes: frozenset[str] = frozenset()
    weights = before[0].weights if before else None
    while True:
        step = TorchStep(
            module,
            reference,
            kept,
            is_first=not before and reference.step.step == 1,
            weights=weights,
            follows=follows(before, reference.step.step),
            keeps_sizes=keeps_sizes,
        )
        try:
            with eager(), step.substitution():
                _run(step, step_function, reference)
            return step.finish()
        except Exception as error:
            kept.give_back()
            kept.set_aside_gradients()
            if not step.has_changed_sizes - keeps_sizes:
                return _stopped(step, step_function, reference, error)
            keeps_sizes |= step.has_changed_sizes  # a tensor of another size may be the reason


def follows(before: Sequence[CheckedStep], step: int) -> bool:
    """Tell whether the optimizers have made the update of the step before a step.

    They have not where its check failed: their state is then not the original's.
    """
    return bool(before) and before[-1].step == step - 1 and before[-1].has_updated


def _run(step: TorchStep, step_function: Callable[..., Any], reference: ReferenceStep) -> None:
    count = max(1, len(reference.step.batches)) if _takes_batch(step_function) else 1
    loss: Any = None
    for number in range(count):
        batch = recorded_batch(reference, number)
        arguments = _arguments(step_function, batch)
        if arguments:
            step.batch(tuple(arguments) if len(arguments) > 1 else arguments[0])
        loss = loss_of(step_function(*arguments))
        step.loss(loss)
    if not step.has_backward and isinstance(loss, torch.Tensor) and loss.requires_grad:
        loss.backward()  # type: ignore[no-untyped-call]


def _stopped(
    step: TorchStep, step_function: Callable[..., Any], reference: ReferenceStep, error: Exception
) -> CheckedStep:
    """Return the result of a step that raised an error in the check.

    If the step also raises without the check, that error is raised.
    """
    step_function(*_arguments(step_function, recorded_batch(reference, 0)))
    return step.step.finish([stopped_by(error)])


def stopped_by(error: Exception) -> NotTested:
    """Name the checks that an error in the port's step has prevented."""
    text = f"{type(error).__name__}: {error}".splitlines()[0]
    return NotTested(
        Phrase("everything after the last finding"),
        Phrase("the step raised an error on the original's values: {}", text),
    )


def recorded_batch(reference: ReferenceStep, number: int) -> Any:
    """Return a recorded batch as torch tensors.

    A single tensor, a tuple, or a dict, nested by its dotted paths.
    """
    batches = reference.step.batches
    if number >= len(batches):
        return ()
    nested: dict[str, Any] = {}
    for tensor in batches[number]:
        value = torch.tensor(np.ascontiguousarray(reference.array(tensor)))
        if tensor.dtype == "bfloat16":
            value = value.bfloat16()
        value = value.reshape(tensor.shape)
        if not tensor.path:
            return value
        *outer, last = tensor.path.split(".")
        inside = nested
        for word in outer:
            inside = inside.setdefault(word, {})
        inside[last] = value
    return _without_numbers(nested)


def _without_numbers(nested: Any) -> Any:
    """Replace dicts whose keys are 0, 1, 2, ... by tuples."""
    if not isinstance(nested, dict):
        return nested
    parts = {key: _without_numbers(part) for key, part in nested.items()}
    if [*parts] == [str(number) for number in range(len(parts))]:
        return tuple(parts.values())
    return parts


def _takes_batch(function: Callable[..., Any]) -> bool:
    return _positional_count(function) != 0


def _arguments(function: Callable[..., Any], batch: Any) -> list[Any]:
    """Return the arguments for calling a step function with a batch."""
    count = _positional_count(function)
    if count == 0:
        return []
    is_spread = isinstance(batch, tuple) and count == len(batch) and count > 1
    return [*batch] if is_spread else [batch]


def _positional_count(function: Callable[..., Any]) -> int:
    """Count the positional arguments that a function requires, or else accepts."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [
        each
        for each in parameters
        if each.kind in kinds and each.default is inspect.Parameter.empty
    ]
    return len(needed)


@contextmanager
def eager() -> Iterator[None]:
    """Return a context in which compiled modules run uncompiled."""
    set_stance = getattr(torch.compiler, "set_stance", None)  # torch 2.6 and newer
    if set_stance is None:
        yield
        return
    with set_stance("force_eager"):
        yield
