"""Running a model for a look at it, and leaving no trace: attributes, hooks, modes, weights, gradients and RNG states.

``untouched`` notes what a forward pass may change, takes away what must not happen twice (the user's hooks, compiled
code, Lightning's ``self.log``), and puts everything back. The values of tensors are not its concern: ``stand_ins``.
"""

from __future__ import annotations

import contextlib
import random
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

__all__ = ["mutable_contents", "untouched"]

_MUTABLE = (list, dict, set, deque)
_MAX_NESTING = 3
_MAX_WALKED_ELEMENTS = 10_000
_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
)
_Undo = Callable[[], None]


@contextlib.contextmanager
def untouched(module: nn.Module) -> Iterator[None]:
    """Inside, ``module`` may be called; afterwards it and every random state are as before.

    The user's forward and backward hooks, ``torch.compile`` and Lightning's ``log`` do not act inside; pre-hooks of
    ``torch.nn.utils`` (spectral norm, weight norm, pruning) do, because they compute the weights.
    """
    undo = [_random_states(), *_weight_states(module)]
    for part in list(module.modules()):
        undo.append(_attribute_states(part))
    fast_path = torch.backends.mha.get_fastpath_enabled()
    try:
        for part in list(module.modules()):
            _silence(part)
        torch.backends.mha.set_fastpath_enabled(False)  # one fused node would hide a whole TransformerEncoderLayer
        with warnings.catch_warnings(), _eager():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)
        for step in reversed(undo):
            step()


def _eager() -> contextlib.AbstractContextManager[Any]:
    set_stance = getattr(torch.compiler, "set_stance", None)  # torch >= 2.6
    return contextlib.nullcontext() if set_stance is None else set_stance("force_eager")


def _attribute_states(module: nn.Module) -> _Undo:
    before = dict(module.__dict__)
    contents = mutable_contents(before)

    def undo() -> None:
        for name in [name for name in module.__dict__ if name not in before]:
            del module.__dict__[name]
        module.__dict__.update(before)
        for container, content in contents:
            _refill(container, content)

    return undo


def mutable_contents(container: Any, nesting: int = _MAX_NESTING) -> list[tuple[Any, Any]]:
    """Each mutable container below ``container`` with a copy of what it holds, outermost first."""
    found = []
    for value in list(container.values() if isinstance(container, dict) else container):
        if isinstance(value, _MUTABLE):
            found.append((value, value.copy()))
            if nesting and len(value) <= _MAX_WALKED_ELEMENTS:
                found += mutable_contents(value, nesting - 1)
    return found


def _refill(container: Any, content: Any) -> None:
    if _is_same(container, content):  # torch.compile guards on these dicts; an idle write would recompile
        return
    container.clear()
    container.extend(content) if isinstance(container, (list, deque)) else container.update(content)


def _is_same(container: Any, content: Any) -> bool:
    if len(container) != len(content):
        return False
    if isinstance(container, dict):
        pairs = zip(container.items(), content.items(), strict=True)
        return all(key is other_key and value is other for (key, value), (other_key, other) in pairs)
    return all(value is other for value, other in zip(container, content, strict=True))


def _weight_states(module: nn.Module) -> list[_Undo]:
    return [_weight_state(weight) for weight in module.parameters()]


def _weight_state(weight: nn.Parameter) -> _Undo:
    alias, grad, requires_grad = weight.data, weight.grad, weight.requires_grad

    def undo() -> None:
        if _place(weight.data) != _place(alias):
            weight.data = alias
        if weight.requires_grad is not requires_grad:
            weight.requires_grad_(requires_grad)
        if weight.grad is not grad:
            weight.grad = grad

    return undo


def _place(tensor: torch.Tensor) -> tuple[Any, ...] | None:
    try:
        return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype
    except RuntimeError:  # subclasses without memory of their own (quantised weights)
        return None


def _random_states() -> _Undo:
    python, numpy, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002 - the legacy state is the global one
    device_module = _started_accelerator()
    whole = device_module is not None and hasattr(device_module, "get_rng_state_all")  # Apple's has one generator
    devices = None if device_module is None else getattr(device_module, f"get_rng_state{'_all' * whole}")()

    def undo() -> None:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002 - as above
        torch.set_rng_state(cpu)
        if devices is not None:
            getattr(device_module, f"set_rng_state{'_all' * whole}")(devices)

    return undo


def _started_accelerator() -> Any:
    """The device module (``torch.cuda``, ``torch.npu``, ...) whose generators a forward pass may advance, or None."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # torch's own
        return torch.cuda
    accelerator = getattr(torch, "accelerator", None)  # torch >= 2.6
    if accelerator is None or not accelerator.is_available():
        return None
    module = torch.get_device_module(accelerator.current_accelerator())
    started = getattr(module, "is_initialized", lambda: True)()
    return module if started and hasattr(module, "get_rng_state") else None


def _silence(module: nn.Module) -> None:
    for name in _HOOKS:
        hooks: dict[Any, Any] = module.__dict__.get(name) or {}
        for key in [key for key, hook in hooks.items() if name != "_forward_pre_hooks" or not _computes(hook)]:
            del hooks[key]
    if module.__dict__.get("_compiled_call_impl") is not None:
        module.__dict__["_compiled_call_impl"] = None
    if any(kind.__name__ == "LightningModule" for kind in type(module).__mro__):
        for name in ("log", "log_dict"):
            module.__dict__[name] = _ignore


def _computes(hook: Any) -> bool:
    return str(type(hook).__module__).startswith("torch.nn.utils.")


def _ignore(*_args: Any, **_kwargs: Any) -> None:
    """Stands in for LightningModule.log: a value of this pass is none of the training's."""
