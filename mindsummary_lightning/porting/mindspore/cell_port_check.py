"""``PortCheck`` and ``check_port``: find mistakes in a model ported to MindSpore."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import mindspore
import numpy as np
from mindspore.train import Callback
from numpy.typing import NDArray

from mindsummary_lightning.porting.mindspore.cell_substitution import (
    CellSubstitution,
    port_module,
    restore_parameters,
    saved_parameters,
    set_values,
)
from mindsummary_lightning.porting.mindspore.cell_tensors import as_array, dtype_name
from mindsummary_lightning.porting.mindspore.cell_tree import (
    network_cells,
    parameters,
    tensors,
    with_tensors,
)
from mindsummary_lightning.porting.mindspore.optimizer_loading import RecordedState, load_state
from mindsummary_lightning.porting.mindspore.optimizer_settings import (
    group_settings,
    plain_settings,
)
from mindsummary_lightning.porting.mindspore.trained_cells import (
    TrainedCells,
    loss_scale_of,
    trained_cells,
)
from mindsummary_lightning.porting.port_check.findings import NotTested
from mindsummary_lightning.porting.port_check.port_frames import PortTensor
from mindsummary_lightning.porting.port_check.port_report import CheckedStep, PortReport
from mindsummary_lightning.porting.port_check.recorded_steps import open_step, recorded_paths
from mindsummary_lightning.porting.port_check.reference_step import ReferenceStep
from mindsummary_lightning.porting.port_check.step_parts import PortWeight
from mindsummary_lightning.porting.port_check.substituted_step import SubstitutedStep
from mindsummary_lightning.porting.port_check.tolerances import coarsest
from mindsummary_lightning.values.text import Phrase

# Any, in this module: MindSpore's cells and tensors, and the user's batches and losses.
_GRAPH_MODE = (
    "the mode must be PyNative mode to check a port, got graph mode. Call "
    "mindspore.set_context(mode=mindspore.PYNATIVE_MODE)"
)
# each place where a gradient ends needs one more; blocks beyond the eighth are not tested
_MOST_RUNS = 9
RunStep = Callable[[Any], Any]
OutputKey = tuple[int, str]  # order of entering of a call, path of its output


def check_port(
    network: Any,
    optimizer: Any,
    reference: str | os.PathLike[str],
    step_function: RunStep,
    steps: int | Sequence[int] | None = None,
) -> PortReport:
    """Run a ported model on the original's recorded values, and list its mistakes.

    Network, optimizer and random state are afterwards as before. The step function runs once for
    each recorded step, and once more for each place at which a gradient ends that the original
    passes on.

    Args:
        network: the Cell of the port that is trained.
        optimizer: the Cell that is called with the gradients.
        reference: directory of the original's run, recorded with ``whole_tensors=True``, or the
            file of one step.
        step_function: takes the recorded batch, runs forward pass, backward pass and update on it,
            and returns the loss. The batch is a tensor, or a tuple or dict of tensors. Integers are
            int32.
        steps: how many of the recorded steps from the first on, or their numbers; ``None`` for all.

    Returns:
        The report.

    Raises:
        TypeError: an argument has the wrong type.
        FileNotFoundError: there is no such reference.
        ValueError: the reference has no whole tensors, is of another architecture, or MindSpore is
            in graph mode.

    Example:
        .. code-block:: python

            def step(batch):
                loss, gradients = gradient_function(*batch)
                optimizer(gradients)
                return loss


            print(check_port(network, optimizer, "runs/torch", step))
    """
    if not callable(step_function):
        raise TypeError(
            f"step_function must be a function that runs one step, got {step_function!r}. "
            "Pass a function"
        )
    trained = TrainedCells(network, optimizer, loss_scale_of(optimizer))
    checked: list[CheckedStep] = []
    for path in recorded_paths(reference, steps).values():
        step = open_step(path)
        checked.append(
            _checked_step(step, trained, step_function, _recorded_batch(step), is_first=not checked)
        )
    return PortReport(os.fspath(reference), checked)


class PortCheck(Callback):  # type: ignore[misc] # mindspore has no types
    """Checks a ported model in ``Model.train`` on recorded values, and ends training.

    Network, optimizer and random state are as before when the training has ended. PyNative mode
    only.

    Args:
        reference: directory of the original's run, recorded with ``whole_tensors=True``, or the
            file of one step.
        steps: how many of the recorded steps from the first on, or their numbers; ``None`` for all.

    Raises:
        TypeError: an argument has the wrong type.
        FileNotFoundError: there is no such reference.
        ValueError: the reference has no whole tensors, or not these steps.

    Attributes:
        report: the :class:`PortReport`; ``None`` until the check is done.

    Example:
        ``model.train(1, dataset, callbacks=[PortCheck("runs/torch")])``
    """

    def __init__(
        self, reference: str | os.PathLike[str], steps: int | Sequence[int] | None = None
    ) -> None:
        super().__init__()
        self.report: PortReport | None = None
        self._reference = os.fspath(reference)
        self._paths = recorded_paths(reference, steps)
        self._checked: list[CheckedStep] = []
        self._state: list[tuple[Any, NDArray[Any], Any]] = []

    def on_train_begin(self, run_context: Any) -> None:
        """Save the weights and the optimizer's state."""
        self._state = saved_parameters(run_context.original_args().train_network)

    def on_train_step_begin(self, run_context: Any) -> None:
        """Check the step if the same step of the original was recorded."""
        step_arguments = run_context.original_args()
        path = self._paths.get(step_arguments.cur_step_num)
        if path is None or self.report is not None:
            return
        network = step_arguments.train_network
        checked = _checked_step(
            open_step(path),
            trained_cells(step_arguments),
            lambda batch: network(*batch),
            step_arguments.train_dataset_element,
            is_first=not self._checked,
        )
        self._checked.append(checked)
        if len(self._checked) == len(self._paths):
            self.report = PortReport(self._reference, self._checked)
            print(self.report.text())  # noqa: T201
            run_context.request_stop()

    def on_train_end(self, run_context: Any) -> None:
        """Restore the weights and the optimizer's state."""
        restore_parameters(self._state)


def _checked_step(
    reference: ReferenceStep, trained: TrainedCells, run: RunStep, batch: Any, is_first: bool
) -> CheckedStep:
    """Check a step of the port; run it again until every gradient was seen."""
    if mindspore.get_context("mode") == mindspore.GRAPH_MODE:
        raise ValueError(_GRAPH_MODE)
    injected: dict[OutputKey, NDArray[Any]] = {}
    keeps_sizes = False
    for _ in range(_MOST_RUNS):
        with _restored(trained):
            checked = _StepOfPort(reference, trained, injected, is_first, keeps_sizes)
            failure = checked.run(run, batch)
        if failure is not None and not keeps_sizes:
            keeps_sizes = True  # a tensor of another size may be the reason
        elif failure is not None or checked.ended is None:
            break
        else:
            injected.update(checked.ended)
    return checked.finish()


class _StepOfPort:
    """A single run of the port's step on the original's values.

    Args:
        reference: the recorded step.
        trained: of the port.
        injected: gradients for outputs that none reached in an earlier run.
        is_first: whether the port's weights should be the recorded ones already.
        keeps_sizes: whether outputs of another size stay as they are.

    Attributes:
        ended: the last output that no gradient reaches, though the original's has one, and that
            gradient.
    """

    def __init__(
        self,
        reference: ReferenceStep,
        trained: TrainedCells,
        injected: Mapping[OutputKey, NDArray[Any]],
        is_first: bool,
        keeps_sizes: bool,
    ) -> None:
        self.ended: dict[OutputKey, NDArray[Any]] | None = None
        self._reference = reference
        self._trained = trained
        self._injected = injected
        self._not_tested: list[NotTested] = []
        cells = network_cells(trained.network, trained.optimizer)
        modules = []
        for name, cell in trained.network.cells_and_names():
            if id(cell) in cells:
                modules.append(port_module(name, cell))
        own = self._weights()
        self._step = SubstitutedStep(
            reference, modules, own, coarsest({weight.dtype for weight in own})
        )
        self._step.gradients.scale.port = trained.loss_scale
        if keeps_sizes:
            self._step.forward.keeps_sizes = frozenset(module.name for module in modules)
        self._given = self._step.parts.weights_before(own, is_first)

    def run(self, run: RunStep, batch: Any) -> Exception | None:
        """Run the step, and return the error that it raised, or ``None``."""
        optimizer = self._trained.optimizer
        self._give_weights()
        is_known = optimizer is not None and self._give_state(optimizer)
        settings = []
        if optimizer is not None:
            settings = list(map(plain_settings, group_settings(optimizer)))
        recorded = self._recorded_batch(batch)
        substitution = CellSubstitution(self._trained, self._step, self._injected)
        substitution.watch()
        try:
            output = run(recorded)
        except Exception as error:  # the original's values may not fit the port's code
            text = f"{type(error).__name__}: {error}".splitlines()[0]
            reason = Phrase("the step raised an error on the original's values: {}", text)
            self._not_tested.append(NotTested(Phrase("everything after the last finding"), reason))
            return error
        finally:
            substitution.remove()
        self._find_end()
        self._find_missing_weights(substitution.weights_with_gradients)
        self._compare_loss(output)
        if substitution.optimizer_calls:
            self._step.parts.update(self._given, self._weights(), settings, is_known)
        else:
            self._not_tested.append(
                NotTested(Phrase("update"), Phrase("the optimizer was not called"))
            )
        return None

    def finish(self) -> CheckedStep:
        """Return the result of the checked step."""
        return self._step.finish(self._not_tested)

    def _weights(self) -> list[PortWeight]:
        return [
            PortWeight(name, as_array(tensor), dtype_name(tensor))
            for name, _, tensor in parameters(self._trained.network)
        ]

    def _give_weights(self) -> None:
        for name, _, tensor in parameters(self._trained.network):
            if name in self._given:
                set_values(tensor, mindspore.Tensor(np.array(self._given[name]), tensor.dtype))

    def _give_state(self, optimizer: Any) -> bool:
        names = {id(tensor): name for name, _, tensor in parameters(self._trained.network)}
        recorded = RecordedState(self._reference, self._step.weights)
        return load_state(optimizer, lambda parameter: names.get(id(parameter), ""), recorded)

    def _recorded_batch(self, batch: Any) -> Any:
        """Return the port's batch, filled with the recorded values."""
        found = [
            PortTensor(path, as_array(tensor), dtype_name(tensor))
            for path, tensor in tensors(batch)
        ]
        values = iter(self._step.parts.batch(0, found))

        def recorded(tensor: Any) -> Any:
            value = next(values)
            return (
                tensor if value is None else mindspore.Tensor(np.array(value)).astype(tensor.dtype)
            )

        return with_tensors(batch, recorded)

    def _find_end(self) -> None:
        """Find the last module output that receives no gradient.

        The calls before it need another run.
        """
        for call, output, gradient in self._step.gradients.outputs.missing():
            key = call.frame.entered, output.port
            if key not in self._injected:
                self.ended = {key: gradient}
                return

    def _find_missing_weights(self, received: set[str]) -> None:
        optimizer = self._trained.optimizer
        trained = {id(parameter) for parameter in getattr(optimizer, "parameters", ())}
        wanted = {}
        for name, kind, tensor in parameters(self._trained.network):
            needs_gradient = id(tensor) in trained or not tensor.requires_grad
            is_missing = kind == "parameter" and name not in received
            if is_missing and needs_gradient:
                wanted[name] = tuple(tensor.shape)
        for _ in self._step.gradients.weights.missing(wanted):
            pass  # reported

    def _compare_loss(self, output: Any) -> None:
        for _, tensor in tensors(output):
            if tensor.size == 1:
                self._step.parts.loss(0, as_array(tensor))
                return
        self._not_tested.append(
            NotTested(Phrase("loss"), Phrase("the step returned no tensor of one element"))
        )


def _recorded_batch(reference: ReferenceStep) -> Any:
    """Return the recorded batch as MindSpore tensors.

    A single tensor, a tuple, or a dict by dotted paths.
    """
    found: dict[str, Any] = {}
    for stored in reference.step.batches[0] if reference.step.batches else ():
        array = np.array(reference.array(stored))
        array = array.astype(np.int32) if array.dtype == np.int64 else array
        found[stored.path] = mindspore.Tensor(array)
    if [*found] == [""]:
        return found[""]
    is_numbered = [*found] == [str(number) for number in range(len(found))]
    return tuple(found.values()) if is_numbered else found


@contextmanager
def _restored(trained: TrainedCells) -> Iterator[None]:
    """Return a context that restores weights, optimizer and random state."""
    cells = [cell for cell in (trained.network, trained.optimizer) if cell is not None]
    states = [saved_parameters(cell) for cell in cells]
    random_state = mindspore.get_rng_state()
    try:
        yield
    finally:
        for state in states:
            restore_parameters(state)
        mindspore.set_rng_state(random_state)
