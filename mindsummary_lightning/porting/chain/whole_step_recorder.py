"""``WholeStepRecorder``: writes every tensor of a training step as the step runs."""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.optim import Optimizer

from mindsummary_lightning.collection.tensor_statistics import plain_tensor, unseen
from mindsummary_lightning.fileio.whole_step_file import WholeStepWriter
from mindsummary_lightning.graph.module_names import (
    ModuleNames,
    module_class_name,
    module_properties,
)
from mindsummary_lightning.porting.chain.gradient_hooks import has_gradient_hooks
from mindsummary_lightning.porting.chain.torch_arrays import dtype_name, stored_array
from mindsummary_lightning.values.whole_step import (
    FIRST_MOMENT,
    MOMENTUM,
    SECOND_MOMENT,
    STEP_COUNT,
    StoredCall,
    StoredModule,
    StoredOptimizer,
    StoredState,
    StoredTensor,
    StoredWeight,
    WholeStep,
)

# Any, in this module: settings of modules and optimizers.
STATE_NAMES = {
    "exp_avg": FIRST_MOMENT,
    "exp_avg_sq": SECOND_MOMENT,
    "momentum_buffer": MOMENTUM,
    "step": STEP_COUNT,
}
_PRECISIONS = ("bfloat16", "float16", "float32", "float64")  # the coarsest first


@dataclass(slots=True, eq=False)
class _OpenCall:
    """A module call that is running or has finished."""

    module: str
    kind: str
    number: int
    parent: int
    entered: int
    line: str
    inputs: tuple[StoredTensor, ...]
    random: bytes
    left: int = -1
    outputs: tuple[StoredTensor, ...] = ()
    gradients: dict[str, StoredTensor] = field(default_factory=dict)
    draws_random: bool | None = None


@dataclass(frozen=True, slots=True)
class _Written:
    """A tensor whose current values are in the file already."""

    tensor: weakref.ref[torch.Tensor]
    version: int
    stored: StoredTensor


class WholeStepRecorder:
    """Writes all tensors of training steps, one step after another.

    Errors are raised; the caller notes them.

    Args:
        directory: of the run.
        max_bytes: greatest size of a step's file, in bytes.
        is_wanted: whether a step, counted from 1, is recorded.

    Attributes:
        loss_scale: factor of the step's gradients.
    """

    def __init__(self, directory: str, max_bytes: int, is_wanted: Callable[[int], bool]) -> None:
        self._directory = directory
        self._max_bytes = max_bytes
        self._is_wanted = is_wanted
        self._lock = threading.Lock()  # gradients of an accelerator arrive on a thread of autograd
        self._writer: WholeStepWriter | None = None
        self.loss_scale: float = 1.0

    @property
    def is_open(self) -> bool:
        """Whether a step is being recorded."""
        return self._writer is not None

    def begin(self, names: ModuleNames, step: int) -> None:
        """Begin to record a step, and write its weights."""
        if not self._is_wanted(step):
            return
        self._writer = WholeStepWriter(self._directory, self._max_bytes)
        self._step = step
        self._names = names
        self._clock = 0
        self._written: dict[int, _Written] = {}
        self._calls: list[_OpenCall] = []
        self._running: list[int | None] = []
        self._numbers: Counter[str] = Counter()
        self._batches: list[tuple[StoredTensor, ...]] = []
        self._losses: list[StoredTensor] = []
        self._weights: dict[str, StoredWeight] = {}
        self._optimizers: dict[int, StoredOptimizer] = {}
        self._hooks: list[Any] = []
        self.loss_scale = 1.0
        self._dtypes: set[str] = set()
        self._random_state = self._store(torch.get_rng_state())
        for name, kind, tensor in names.tensors():
            before = self._store_weight(tensor)
            if before is not None:
                stored_kind: Any = kind
                self._weights[name] = StoredWeight(
                    name, stored_kind, before, is_hooked=has_gradient_hooks(tensor)
                )
            if before is not None and tensor.requires_grad and tensor.is_leaf:
                hook = tensor.register_post_accumulate_grad_hook(
                    partial(self._take_weight_gradient, name)
                )  # type: ignore[no-untyped-call]
                self._hooks.append(hook)

    def add_batch(self, tensors: Sequence[tuple[str, torch.Tensor]]) -> None:
        """Write the tensors of a batch."""
        if self._writer is not None:
            self._batches.append(tuple(self._stored(tensors)))

    def add_loss(self, loss: torch.Tensor) -> None:
        """Write a loss."""
        if self._writer is not None:
            stored = self._store(loss)
            if stored is not None:
                self._losses.append(stored)

    # ---- calls of modules

    def enter(
        self, module: str, kind: str, line: str, tensors: Sequence[tuple[str, torch.Tensor]]
    ) -> None:
        """Note that a module call begins, and write its input tensors."""
        if self._writer is None:
            return
        parent = next((index for index in reversed(self._running) if index is not None), -1)
        number = self._numbers[module]
        self._numbers[module] += 1
        inputs = tuple(self._stored(tensors))
        random = torch.get_rng_state().numpy().tobytes()
        call = _OpenCall(module, kind, number, parent, self._tick(), line, inputs, random)
        self._running.append(len(self._calls))
        self._calls.append(call)

    def enter_unseen(self) -> None:
        """Note the beginning of a module call that is not recorded."""
        if self._writer is not None:
            self._running.append(None)

    def leave(self, tensors: Sequence[tuple[str, torch.Tensor]]) -> None:
        """Write the output tensors of the innermost running module."""
        if self._writer is None or not self._running:
            return
        index = self._running.pop()
        if index is None:
            return
        call = self._calls[index]
        call.left = self._tick()
        call.outputs = tuple(self._stored(tensors))
        call.draws_random = torch.get_rng_state().numpy().tobytes() != call.random
        call.random = b""
        for path, tensor in tensors:
            if tensor.requires_grad:
                take = partial(self._take_output_gradient, call, path, self._writer)
                tensor.register_hook(take)  # type: ignore[no-untyped-call]

    def _take_output_gradient(
        self, call: _OpenCall, path: str, writer: WholeStepWriter, gradient: torch.Tensor
    ) -> None:
        if self._writer is writer:  # a graph may outlive its step
            with unseen():
                stored = self._store(gradient, path)
            if stored is not None:
                call.gradients[path] = stored

    def _take_weight_gradient(self, name: str, parameter: torch.Tensor) -> None:
        gradient = parameter.grad
        if self._writer is not None and gradient is not None:
            with unseen():
                dense = gradient if gradient.layout is torch.strided else gradient.to_dense()
                stored = self._store(dense)
            self._weights[name] = replace(self._weights[name], gradient=stored)

    # ---- the update

    def add_optimizer(self, optimizer: Optimizer, scale: torch.Tensor | None) -> None:
        """Write an optimizer's state, settings and gradients before it updates weights."""
        if self._writer is None:
            return
        if scale is not None:
            self.loss_scale = float(scale)
        names = {id(tensor): name for name, _, tensor in self._names.tensors()}
        if id(optimizer) not in self._optimizers:
            self._optimizers[id(optimizer)] = self._stored_optimizer(optimizer, names)
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                name = names.get(id(parameter))
                if name in self._weights and parameter.grad is not None:
                    self._weights[name] = self._with_stepped(
                        self._weights[name], parameter.grad, scale
                    )

    def _with_stepped(
        self, weight: StoredWeight, gradient: torch.Tensor, scale: torch.Tensor | None
    ) -> StoredWeight:
        dense = gradient if gradient.layout is torch.strided else gradient.to_dense()
        unscaled = dense if scale is None else dense.float() / scale.to(dense.device)
        return replace(weight, stepped_gradient=self._store(unscaled))

    def _stored_optimizer(self, optimizer: Optimizer, names: Mapping[int, str]) -> StoredOptimizer:
        groups: list[dict[str, Any]] = []
        weights: list[tuple[str, ...]] = []
        state: list[StoredState] = []
        for group in optimizer.param_groups:
            groups.append(plain_settings(group))
            weights.append(tuple(names.get(id(parameter), "") for parameter in group["params"]))
            for parameter in group["params"]:
                state.extend(
                    self._stored_states(
                        names.get(id(parameter), ""), optimizer.state.get(parameter, {})
                    )
                )
        return StoredOptimizer(
            type(optimizer).__name__, tuple(groups), tuple(weights), tuple(state)
        )

    def _stored_states(self, weight: str, states: Mapping[str, Any]) -> Iterator[StoredState]:
        for name, value in states.items():
            tensor = torch.tensor(value) if isinstance(value, (int, float)) else value
            stored = self._store(tensor) if isinstance(tensor, torch.Tensor) else None
            if stored is not None:
                yield StoredState(weight, STATE_NAMES.get(name, name), stored)

    # ---- the end

    def finish(self) -> None:
        """Finish a step: write the weights after it, and rename the file.

        Raises:
            ValueError: the step is larger than ``max_bytes``.
        """
        writer = self._writer
        if writer is None:
            return
        try:
            for name, _, tensor in self._names.tensors():
                if name in self._weights:
                    after = self._store_weight(tensor)
                    self._weights[name] = replace(self._weights[name], after=after)
            writer.finish(self._whole_step())
        finally:
            self.clear()

    def clear(self) -> None:
        """Discard an unfinished step, and remove its file."""
        if self._writer is not None:
            for hook in self._hooks:
                hook.remove()
            self._writer.discard()
            self._writer = None
            self._written, self._calls, self._hooks = {}, [], []

    def _whole_step(self) -> WholeStep:
        modules = tuple(
            StoredModule(
                place.path, module_class_name(place.module), place.module.training,
                plain_settings(dict(module_properties(place.module))),
            )
            for place in self._names.places()
        )  # fmt: skip
        device = next((tensor.device.type for _, _, tensor in self._names.tensors()), "cpu")
        return WholeStep(
            framework="torch",
            framework_version=torch.__version__,
            step=self._step,
            precision=precision_of(self._dtypes, device),
            device=device,
            modules=modules,
            calls=tuple(map(_stored_call, self._calls)),
            batches=tuple(self._batches),
            weights=tuple(self._weights.values()),
            losses=tuple(self._losses),
            optimizers=tuple(self._optimizers.values()),
            loss_scale=self.loss_scale,
            random_state=self._random_state,
        )

    # ---- tensors

    def _tick(self) -> int:
        self._clock += 1
        return self._clock

    def _stored(self, tensors: Sequence[tuple[str, torch.Tensor]]) -> Iterator[StoredTensor]:
        for path, tensor in tensors:
            known = self._written.get(id(tensor))
            if known is not None and known.tensor() is tensor and known.version == tensor._version:
                yield replace(known.stored, path=path)
                continue
            stored = self._store(tensor, path)
            if stored is not None:
                self._dtypes.add(stored.dtype)
                self._written[id(tensor)] = _Written(weakref.ref(tensor), tensor._version, stored)
                yield stored

    def _store_weight(self, tensor: torch.Tensor) -> StoredTensor | None:
        return None if torch.nn.parameter.is_lazy(tensor) else self._store(tensor)

    def _store(self, tensor: torch.Tensor, path: str = "") -> StoredTensor | None:
        """Write a tensor to the file, and return its entry for the file's index.

        ``None`` if it has no elements in memory, or only some of them here.
        """
        if self._writer is None or (
            plain_tensor(tensor) is None and tensor.layout is torch.strided
        ):
            return None
        with unseen():
            array = stored_array(tensor)
        with self._lock:
            return self._writer.add(np.asarray(array), path, dtype_name(tensor))


def precision_of(dtypes: set[str], device: str) -> str:
    """Return the coarsest precision with which a device computes these dtypes."""
    found = next((name for name in _PRECISIONS if name in dtypes), "float32")
    may_round = device == "cuda" and (
        torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32
    )
    return "tensorfloat32" if found == "float32" and may_round else found


def plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return only the settings that are numbers, bools or strings.

    Members of a tuple are named by their number: ``betas.0``.
    """
    plain: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, torch.Tensor) and value.numel() == 1:
            plain[name] = float(value)
        elif isinstance(value, (bool, int, float, str)):
            plain[name] = value
        elif isinstance(value, (tuple, list)):
            numbers = {f"{name}.{index}": part for index, part in enumerate(value)}
            plain.update(
                {key: part for key, part in numbers.items() if isinstance(part, (bool, int, float))}
            )
    return plain


def _stored_call(call: _OpenCall) -> StoredCall:
    gradients = tuple(
        call.gradients[each.path] for each in call.outputs if each.path in call.gradients
    )
    return StoredCall(
        call.module, call.kind, call.number, call.parent, call.entered, call.left, call.line,
        call.inputs, call.outputs, gradients, call.draws_random,
    )  # fmt: skip
