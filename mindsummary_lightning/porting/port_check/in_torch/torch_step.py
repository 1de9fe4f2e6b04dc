"""``TorchStep``: runs a PyTorch port's step on the original's values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from mindsummary_lightning.collection.loss import mean_loss
from mindsummary_lightning.collection.operators import in_backward
from mindsummary_lightning.collection.tensor_statistics import plain_tensor, unseen
from mindsummary_lightning.conversion.calling_line import calling_line
from mindsummary_lightning.graph.module_names import ModuleNames
from mindsummary_lightning.porting.chain.gradient_hooks import (
    has_gradient_hooks,
    register_first_hook,
)
from mindsummary_lightning.porting.chain.torch_arrays import dtype_name, float_array
from mindsummary_lightning.porting.chain.whole_step_recorder import plain_settings, precision_of
from mindsummary_lightning.porting.port_check.findings import NotTested
from mindsummary_lightning.porting.port_check.in_torch.described_modules import (
    described_module,
    random_state,
)
from mindsummary_lightning.porting.port_check.in_torch.float64_run import run_in_float64
from mindsummary_lightning.porting.port_check.in_torch.kept_state import KeptState
from mindsummary_lightning.porting.port_check.in_torch.optimizer_start import give_rates, give_state
from mindsummary_lightning.porting.port_check.in_torch.own_code import OwnCode
from mindsummary_lightning.porting.port_check.in_torch.repeated_calls import DoneCall, RepeatedCalls
from mindsummary_lightning.porting.port_check.in_torch.tensor_replacement import (
    argument_tensors,
    port_tensors,
    replaced,
    result_tensors,
    tensor_like,
    with_distinct,
    with_replaced,
)
from mindsummary_lightning.porting.port_check.port_frames import (
    CallAnswer,
    PairedCall,
    PairedOutput,
    PortModule,
)
from mindsummary_lightning.porting.port_check.port_report import CheckedStep
from mindsummary_lightning.porting.port_check.reference_step import ReferenceStep
from mindsummary_lightning.porting.port_check.step_parts import PortWeight
from mindsummary_lightning.porting.port_check.substituted_step import SubstitutedStep
from mindsummary_lightning.porting.port_check.tensor_distance import Array
from mindsummary_lightning.porting.port_check.weight_pairs import WeightPairs
from mindsummary_lightning.values.text import Phrase

# Any, in this module: arguments and results of the user's modules.


@dataclass(slots=True, eq=False)
class _RunningCall:
    """A call of a module between its two hooks."""

    args: Any
    kwargs: dict[str, Any]
    # given to the module, its own, version when given
    versions: list[tuple[torch.Tensor, torch.Tensor, int]]
    answer: CallAnswer


@dataclass(slots=True, eq=False)
class _Update:
    """Facts that are known about the state of the port's optimizers."""

    settings: list[dict[str, Any]] = field(default_factory=list)
    is_known: bool = True
    count: int = 0


class TorchStep:
    """Checks a step of a PyTorch port.

    Args:
        network: the port; a LightningModule or any other module.
        reference: the recorded step.
        kept: keeps what the step changes.
        is_first: whether the weights should be those of the original already.
        weights: how the weights are paired; ``None`` if that is not known yet.
        follows: whether the optimizers come from the check of the step before this one.
        keeps_sizes: names of modules whose outputs of another size are not replaced.

    Attributes:
        step: the framework-neutral part.
    """

    def __init__(
        self,
        network: nn.Module,
        reference: ReferenceStep,
        kept: KeptState,
        *,
        is_first: bool,
        weights: WeightPairs | None = None,
        follows: bool = False,
        keeps_sizes: frozenset[str] = frozenset(),
    ) -> None:
        self._reference = reference
        self._kept = kept
        self._follows = follows
        self._prepared: set[int] = set()  # optimizers
        self._names = ModuleNames(network, lambda *_: "")
        modules = [described_module(place.path, place.module) for place in self._names.places()]
        self._described = {module.name: module for module in modules}
        own = [*self._weights()]
        self._device_type = self._device().type
        precision = precision_of({weight.dtype for weight in own}, self._device_type)
        self.step: SubstitutedStep = SubstitutedStep(reference, modules, own, precision, weights)
        self.step.forward.keeps_sizes = keeps_sizes
        self._before = self.step.parts.weights_before(own, is_first)
        self._running: list[_RunningCall] = []
        self._has_left = False  # whether the call that ends now has returned, and not raised
        self._done = RepeatedCalls(reference, self._hook_gradient)
        self._pending: dict[tuple[int, str], torch.Tensor] = {}
        self._arrivals: Counter[str] = Counter()
        self._received: dict[str, Array] = {}  # gradients of weights before the user's hooks
        self._handles: set[int] = set()
        self._update = _Update()
        self._batches = 0
        self._losses = 0
        self._not_tested: list[NotTested] = []
        self.has_changed_sizes: set[str] = set()

    def __deepcopy__(self, memo: dict[int, Any]) -> TorchStep:
        """Return itself: copying a module with this step's hooks must not copy the step."""
        return self

    # ---- what the caller does in the order of the step

    @contextmanager
    def substitution(self) -> Iterator[None]:
        """Return a context in which the port's modules run on the original's values."""
        self._give_weights()
        with ExitStack() as hooks:
            for place in self._names.places():
                for handle in self._hook_module(place.module, place.path):
                    hooks.callback(handle.remove)
                    self._handles.add(handle.id)
            for name, _, tensor in self._names.tensors():
                if tensor.requires_grad and tensor.is_leaf:
                    if has_gradient_hooks(tensor):
                        receive = partial(self._receive_weight_gradient, name)
                        hooks.callback(register_first_hook(tensor, receive).remove)
                    take = partial(self._take_weight_gradient, name)
                    tensor_hooks: Any = tensor
                    hooks.callback(tensor_hooks.register_post_accumulate_grad_hook(take).remove)
            hooks.callback(register_optimizer_step_pre_hook(self._before_optimizer).remove)
            hooks.callback(register_optimizer_step_post_hook(self._after_optimizer).remove)
            forward = self.step.forward
            weights = self._names_by_identity()
            own_code = OwnCode(forward.note_operation, self._is_own_code, weights, self._note_use)
            hooks.enter_context(own_code)
            yield

    def batch(self, batch: Any) -> Any:
        """Compare the port's batch, and return the recorded batch."""
        with unseen():
            tensors = result_tensors(batch)
            values = self.step.parts.batch(self._batches, port_tensors(tensors))
            self._batches += 1
            replacements = {}
            for (_, tensor), value in zip(tensors, values, strict=True):
                if value is not None:
                    replacements[id(tensor)] = tensor_like(value, tensor)
        return with_replaced(batch, replacements)

    def loss(self, outputs: Any, factor: float = 1.0) -> None:
        """Compare the loss that the step has returned for a batch."""
        loss = mean_loss(outputs)
        if loss is None:
            self._not_tested.append(NotTested(Phrase("loss"), Phrase("the step returns no loss")))
            return
        with unseen():
            self.step.parts.loss(self._losses, float_array(loss), factor)
        self._losses += 1

    @property
    def has_backward(self) -> bool:
        """Tell whether any gradient has arrived, which means that a backward pass has run."""
        return bool(self._arrivals) or bool(self.step.gradients.agreed)

    def finish(self) -> CheckedStep:
        """Return the result of the step.

        Call it after the step, before the state is restored.
        """
        if not self.has_backward:
            self._not_tested.append(
                NotTested(Phrase("gradients"), Phrase("the step runs no backward pass"))
            )
        self.end_backward()
        with unseen():
            if self._update.count:
                after = [*self._weights()]
                self.step.parts.update(
                    self._before, after, self._update.settings, self._update.is_known
                )
            else:
                after = [weight for weight in self._weights() if self._is_buffer(weight.name)]
                self.step.parts.update(self._before, after, (), True)
                self._not_tested.append(
                    NotTested(
                        Phrase("update"), Phrase("no optimizer of the port has updated weights")
                    )
                )
        return self.step.finish(self._not_tested, has_updated=self._update.count > 0)

    # ---- weights

    def _weights(self) -> Iterator[PortWeight]:
        for name, _, tensor in self._names.tensors():
            if not nn.parameter.is_lazy(tensor) and plain_tensor(tensor) is not None:
                yield PortWeight(name, float_array(tensor), dtype_name(tensor))

    def _names_by_identity(self) -> dict[int, str]:
        return {id(tensor): name for name, _, tensor in self._names.tensors()}

    def _device(self) -> torch.device:
        return next((tensor.device for _, _, tensor in self._names.tensors()), torch.device("cpu"))

    def _is_buffer(self, name: str) -> bool:
        return any(kind == "buffer" and own == name for own, kind, _ in self._names.tensors())

    def _give_weights(self) -> None:
        with unseen():
            for name, _, tensor in self._names.tensors():
                value = self._before.get(name)
                if value is not None:
                    tensor.data.copy_(
                        torch.tensor(np.ascontiguousarray(value)).reshape(tensor.shape)
                    )

    # ---- calls of modules

    def _hook_module(self, module: nn.Module, name: str) -> Iterator[Any]:
        described = self._described[name]
        enter = partial(self._enter, described)
        yield module.register_forward_pre_hook(enter, with_kwargs=True)
        yield module.register_forward_hook(partial(self._leave, described), with_kwargs=True)
        yield module.register_forward_hook(self._end, always_call=True)

    def _note_use(self, weight: str) -> None:
        if not in_backward():
            self.step.forward.note_use(weight)

    def _is_own_code(self) -> bool:
        return not in_backward() and not self.step.forward.innermost.module.is_library

    def _enter(
        self, described: PortModule, module: nn.Module, args: Any, kwargs: dict[str, Any]
    ) -> Any:
        if in_backward():
            return self._done.enter(described.name, args, kwargs)
        with unseen():
            tensors = argument_tensors(args, kwargs)
            self._note_autocast()
            answer = self.step.forward.enter(
                described, port_tensors(tensors), calling_line(), random_state()
            )
        if _has_conflict(tensors, answer):
            args, kwargs = with_distinct((args, kwargs))
            tensors = argument_tensors(args, kwargs)
        given = self._given(tensors, answer)
        table = {id(own): value for own, value in given}
        new_args, new_kwargs = with_replaced((args, kwargs), table)
        versions = [
            (table.get(id(own), own), own, table.get(id(own), own)._version) for _, own in tensors
        ]
        self._running.append(_RunningCall(new_args, new_kwargs, versions, answer))
        return new_args, new_kwargs

    def _note_autocast(self) -> None:
        """Note the dtype of autocast, with which code computes whatever its inputs are."""
        if torch.is_autocast_enabled(self._device_type):
            dtype = torch.get_autocast_dtype(self._device_type)
            self.step.forward.note_precision(str(dtype).removeprefix("torch."))

    def _given(
        self, tensors: Sequence[tuple[str, torch.Tensor]], answer: CallAnswer
    ) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Pair tensors with the tensors that replace them."""
        given: list[tuple[torch.Tensor, torch.Tensor]] = []
        for (_, own), value, heals in zip(tensors, answer.values, answer.heals, strict=True):
            if value is None:
                continue
            with unseen():
                new = tensor_like(value, own)
                if heals and _heal(own, new):
                    continue
            given.append((own, replaced(own, new)))
        return given

    def _leave(
        self,
        described: PortModule,
        module: nn.Module,
        args: Any,
        kwargs: dict[str, Any],
        output: Any,
    ) -> Any:
        self._has_left = True
        if in_backward():
            return self._done.leave(described.name, output)
        running = self._running.pop()
        with unseen():
            tensors = result_tensors(output)
            again = partial(self._run_in_float64, module, running)
            answer = self.step.forward.leave(port_tensors(tensors), random_state(), again)
        is_trained = any(parameter.requires_grad for parameter in module.parameters())
        may_train = is_trained or any(given.requires_grad for given, _, _ in running.versions)
        done = DoneCall(running.answer.values, answer.values, answer.call, may_train)
        self._done.add(described.name, done)
        table = self._returned(tensors, answer.values, done)
        self._write_back(running, table)
        return with_replaced(output, table)

    def _end(self, module: nn.Module, args: Any, output: Any) -> None:
        """Discard a call that has raised an error, which the port may catch."""
        if not self._has_left and self._running and not in_backward():
            self._running.pop()
            self.step.forward.abort()
        self._has_left = False

    def _returned(
        self,
        tensors: Sequence[tuple[str, torch.Tensor]],
        values: Sequence[Array | None],
        done: DoneCall,
    ) -> dict[int, torch.Tensor]:
        """Return the tensors that replace a module's outputs, with gradient hooks."""
        table: dict[int, torch.Tensor] = {}
        for (path, own), value in zip(tensors, values, strict=True):
            if value is None or id(own) in table:
                continue
            with unseen():
                new = tensor_like(value, own)
            if new.shape != own.shape and done.call is not None:
                self.has_changed_sizes.add(done.call.frame.module.name)
            result = replaced(own, new)
            table[id(own)] = result
            self._hook_gradient(path, own, result, done)
        return table

    def _hook_gradient(
        self, path: str, own: torch.Tensor, result: torch.Tensor, done: DoneCall
    ) -> None:
        call = done.call
        if call is None:
            return
        if not result.requires_grad:
            if not done.may_train:
                self.step.gradients.outputs.needs_none.add((call.frame.entered, path))
            return
        output = next((each for each in call.outputs if each.port == path), None)
        if output is not None:
            done.is_hooked = True
            self._pending[call.frame.entered, path] = own
            # The module's own tensor receives what other outputs pass on, too, as the original's
            # did.
            hooked = own if own.shape == result.shape else result
            take = partial(self._take_gradient, call, output)
            hooked.register_hook(take)  # type: ignore[no-untyped-call]

    def _write_back(self, running: _RunningCall, table: Mapping[int, torch.Tensor]) -> None:
        """Put the original's values into inputs that a module has changed in place."""
        for given, own, version in running.versions:
            if given._version == version:
                continue
            result = table.get(id(given), given)
            if result is own or result.shape != own.shape:
                continue
            try:
                if own is given:
                    own.data.copy_(result.detach())
                else:
                    own.copy_(result)
            except (
                RuntimeError
            ):  # a leaf, or a view of one: the module cannot have changed it in the original either
                continue

    def _run_in_float64(self, module: nn.Module, running: _RunningCall) -> list[Array] | None:
        if not self._is_unchanged(running):
            return None
        return run_in_float64(module, running.args, running.kwargs, self._handles)

    def _is_unchanged(self, running: _RunningCall) -> bool:
        """Tell whether a module has left its inputs unchanged."""
        return all(given._version == version for given, _, version in running.versions)

    # ---- gradients

    def _take_gradient(
        self, call: PairedCall, output: PairedOutput, gradient: torch.Tensor
    ) -> torch.Tensor | None:
        self._pending.pop((call.frame.entered, output.port), None)
        with unseen():
            expected = self.step.gradients.outputs.check(call, output, float_array(gradient))
            return None if expected is None else tensor_like(expected, gradient)

    def _receive_weight_gradient(self, name: str, gradient: torch.Tensor) -> None:
        """Save the gradient before the weight's hooks, which may change it in place."""
        with unseen():
            array = np.array(float_array(gradient))
        self._received[name] = self._received.get(name, 0.0) + array

    def _take_weight_gradient(self, name: str, parameter: torch.Tensor) -> None:
        gradient = parameter.grad
        self._arrivals[name] += 1
        is_last = self._arrivals[name] >= len(self._reference.step.losses)
        if gradient is None or not is_last:
            return
        with unseen():
            dense = gradient if gradient.layout is torch.strided else gradient.to_dense()
            expected = self.step.gradients.weights.check(
                name, float_array(dense), self._received.get(name)
            )
            if expected is not None and gradient.layout is torch.strided:
                gradient.copy_(torch.tensor(np.ascontiguousarray(expected)))

    def end_backward(self) -> None:
        """Report missing gradients, and continue with the original's gradients."""
        if not self.has_backward:
            return
        self.step.gradients.outputs.is_going_on = True
        for call, output, expected in self.step.gradients.outputs.missing():
            own = self._pending.pop((call.frame.entered, output.port), None)
            if own is not None and own.requires_grad and own.shape == expected.shape:
                with unseen():
                    gradient = tensor_like(expected, own)
                _run_backward(own, gradient)
        parameters = {
            name: tensor for name, kind, tensor in self._names.tensors() if kind == "parameter"
        }
        for name, expected in self.step.gradients.weights.missing(parameters):
            if parameters[name].requires_grad:
                parameters[name].grad = tensor_like(expected, parameters[name].detach())
        self.step.gradients.outputs.is_going_on = False

    # ---- the update

    def _before_optimizer(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        names = self._names_by_identity()
        if not _holds_any(optimizer, names):
            return
        closure = any(map(callable, (*args[1:], *kwargs.values())))
        self._kept.keep_optimizer(optimizer)
        if not closure:
            self.end_backward()
        if id(optimizer) not in self._prepared:
            self._prepared.add(id(optimizer))
            self._prepare_optimizer(optimizer, names)
            self._update.settings.extend(plain_settings(group) for group in optimizer.param_groups)
        self._update.count += 1

    def _after_optimizer(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        """Compare gradients after an optimizer step.

        Code may have clipped them.
        """
        if id(optimizer) not in self._prepared:
            return
        names = self._names_by_identity()
        stepped: dict[str, Array] = {}
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                gradient, name = parameter.grad, names.get(id(parameter))
                if name is not None and gradient is not None and _is_dense(gradient):
                    stepped[name] = float_array(gradient)
        with unseen():
            self.step.parts.stepped_gradients(stepped)

    def _prepare_optimizer(self, optimizer: Optimizer, names: Mapping[int, str]) -> None:
        """Load the recorded state, unless the optimizer has made the previous step."""
        if self._follows:
            return
        optimizer.state.clear()
        if self._reference.step.step == 1:
            return
        give_rates(optimizer, self._reference)
        self._not_tested.append(
            NotTested(
                Phrase("learning rate"),
                Phrase("this step is not the first step; the recorded rate is used"),
            )
        )
        references = {
            identity: self.step.weights.references(name) for identity, name in names.items()
        }
        self._update.is_known = give_state(optimizer, self._reference, references)


def _has_conflict(tensors: Sequence[tuple[str, torch.Tensor]], answer: CallAnswer) -> bool:
    """Tell whether a tensor needs different values in different places."""
    values: dict[int, Array | None] = {}
    for (_, own), value in zip(tensors, answer.values, strict=True):
        first = values.setdefault(id(own), value)
        if first is not value and not np.array_equal(_or_own(first, own), _or_own(value, own)):
            return True
    return False


def _or_own(value: Array | None, own: torch.Tensor) -> Array:
    return float_array(own) if value is None else value


def _heal(own: torch.Tensor, value: torch.Tensor) -> bool:
    """Write the original's values into a tensor; return whether this succeeded."""
    if (own.is_leaf and own.requires_grad) or own.shape != value.shape:
        return False
    try:
        own.data.copy_(value)
    except RuntimeError:  # an expanded tensor
        return False
    return True


def _holds_any(optimizer: Optimizer, names: Mapping[int, str]) -> bool:
    """Tell whether an optimizer updates any of the named parameters."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if id(parameter) in names:
                return True
    return False


def _is_dense(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided


def _run_backward(own: torch.Tensor, gradient: torch.Tensor) -> None:
    try:
        with torch.enable_grad():
            torch.autograd.backward(own, gradient)
    except RuntimeError:  # the graph is gone: the module's weights are reported as not reached
        return
