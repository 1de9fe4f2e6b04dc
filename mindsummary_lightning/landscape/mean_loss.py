"""Loss of the network that a landscape is computed for, and its tensors by the names of a checkpoint.

Nothing here changes a parameter.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from torch import Tensor, nn

from mindsummary_lightning.landscape.checkpoints import LandscapeCheckpointError
from mindsummary_lightning.landscape.directions import State, is_moved

LossFunction: TypeAlias = Callable[[Any, Any], Any]


class MeanLoss(nn.Module):
    """The loss of a batch as one module, so that its parameters can be swapped for a call.

    Without a ``loss_fn`` the module's ``training_step`` or, if that returns ``None``, its ``validation_step`` gives it.
    """

    def __init__(self, module: nn.Module, loss_fn: LossFunction | None = None) -> None:
        super().__init__()
        steps = [name for name in ("training_step", "validation_step") if callable(getattr(module, name, None))]
        if loss_fn is None and not steps:
            raise TypeError(
                f"{type(module).__name__} has no training_step that returns the loss; pass loss_fn (or metrics), "
                "a callable of (output, target)"
            )
        if loss_fn is not None and not callable(loss_fn):
            raise TypeError(f"loss_fn must be callable, not {type(loss_fn).__name__}")
        self.module = module
        self.loss_fn = loss_fn
        self._steps = steps

    def forward(self, batch: Any, index: int) -> Tensor:
        """The mean loss of one batch, a tensor without dimensions."""
        if self.loss_fn is not None:
            if not isinstance(batch, (list, tuple)) or len(batch) < 2:
                raise TypeError(
                    f"with a loss function a batch must be (*inputs, target), not {type(batch).__name__}; "
                    "for other batches pass a LightningModule whose training_step returns the loss"
                )
            *inputs, target = batch
            return _as_loss(self.loss_fn(self.module(*inputs), target))
        for step in self._steps:
            answer = getattr(self.module, step)(batch, index)
            if answer is not None:
                return _as_loss(answer)
        raise TypeError(f"{' and '.join(self._steps)} of {type(self.module).__name__} returned no loss; pass loss_fn")


def _as_loss(answer: Any) -> Tensor:
    if isinstance(answer, Mapping):
        answer = answer.get("loss")
    elif isinstance(answer, (list, tuple)) and answer:
        answer = answer[0]
    if not isinstance(answer, Tensor):
        raise TypeError(f"the loss must be a tensor, or a dict with one under 'loss', not {type(answer).__name__}")
    return answer.mean() if answer.ndim else answer


def canonical_names(module: nn.Module) -> dict[str, str]:
    """Every name of every parameter and buffer -> the first name of that tensor (tied weights have several)."""
    first: dict[int, str] = {}
    result = {}
    for named in (module.named_parameters(remove_duplicate=False), module.named_buffers(remove_duplicate=False)):
        for name, tensor in named:
            result[name] = first.setdefault(id(tensor), name)
    return result


def moving_names(module: nn.Module) -> list[str]:
    """Parameters of the module that a landscape moves: floating weights and biases, tied ones once."""
    return [name for name, tensor in module.named_parameters() if is_moved(name) and tensor.is_floating_point()]


def renamed_to_module(module: nn.Module, state: State, origin: str) -> dict[str, Tensor]:
    """The checkpoint's tensors under the module's names, one entry for each tensor of the module's state dict.

    The checkpoint may hold the module as a part of a larger one (a network inside a LightningModule): then all of its
    names have one prefix. ``origin`` is its path, for the message.
    """
    names = canonical_names(module)
    expected = {name: entry for name, entry in module.state_dict().items() if isinstance(entry, Tensor)}
    groups: dict[str, list[str]] = {}
    for name in expected:
        groups.setdefault(names.get(name, name), []).append(name)

    def find(prefix: str) -> dict[str, str]:
        keys = {first: [prefix + name for name in group if prefix + name in state] for first, group in groups.items()}
        return {first: matching[0] for first, matching in keys.items() if matching}

    best = max((find(prefix) for prefix in _prefixes(state, list(groups))), key=len)
    missing = [first for first in groups if first not in best]
    if missing:
        raise LandscapeCheckpointError(
            f"{origin} is not of {type(module).__name__}: it has no {missing[0]!r} ({len(missing)} of {len(groups)} "
            f"tensors are missing); it has {', '.join(list(state)[:4])}, ... Pass the network that was trained"
        )
    for first, key in best.items():
        if state[key].shape != expected[groups[first][0]].shape:
            raise LandscapeCheckpointError(
                f"{origin} is not of {type(module).__name__}: {key!r} has shape {tuple(state[key].shape)}, "
                f"the network's has {tuple(expected[groups[first][0]].shape)}"
            )
    return {first: state[key] for first, key in best.items()}


def _prefixes(state: State, names: list[str]) -> list[str]:
    ending = f".{names[0]}" if names else ""
    return ["", *(key[: -len(ending) + 1] for key in state if ending and key.endswith(ending))]


@contextmanager
def detached_from_trainer(module: nn.Module) -> Iterator[None]:
    """Detach a LightningModule from the Trainer it was trained with, whose loops its ``self.log`` would use.

    Reads ``LightningModule._trainer`` (lightning 2.4 to 2.6.6); a module that is not attached stays as it is.
    """
    trainer = getattr(module, "_trainer", None)
    if trainer is not None:
        module.trainer = None  # type: ignore[assignment]  # the setter takes None; nn.Module's stub does not know it
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*`self.trainer` reference is not registered")
            yield
    finally:
        if trainer is not None:
            module.trainer = trainer
