"""Compute the loss of a batch as in the training, with a copy of the network.

`evaluation` puts other tensors into the copy; here the copy is only called.
"""

from __future__ import annotations

import inspect
import logging
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from mindsummary_lightning.collection.loss import loss_of
from mindsummary_lightning.landscape.batches import move_batch
from mindsummary_lightning.landscape.checkpoint_names import canonical_names, named_tensors
from mindsummary_lightning.landscape.network_copies import (
    LIGHTNING,
    NetworkCopies,
    address,
    ignore,
    package_of,
    pickled,
    unpickled,
)
from mindsummary_lightning.landscape.plane import PROCESS_STATE

LossFunction: TypeAlias = Callable[[Any, Any], Any]

_WAY_OUT = (
    "pass loss_fn (or metrics), a function of (output, target), and the network with this output"
)


class MeanLoss(nn.Module):
    """Module that computes the loss of a batch, with a copy of a user's network.

    The copy shares the memory of the given module and has no Trainer.

    Without a ``loss_fn`` the loss comes from the module's ``training_step`` or, if that returns
    ``None``, from its ``validation_step``. ``overlapping`` are the names of tensors whose memory is
    also used by something else; the copy has separate memory for them.
    """

    def __init__(
        self, module: nn.Module, loss_fn: LossFunction | None = None, datamodule: Any = None
    ) -> None:
        super().__init__()
        if loss_fn is not None and not callable(loss_fn):
            raise TypeError(f"loss_fn must be callable, not {type(loss_fn).__name__}")
        # Of a compiled LightningModule Lightning asks the module itself.
        self.module: nn.Module = getattr(module, "_orig_mod", module)
        self.loss_fn = loss_fn
        tensors = dict(named_tensors(self.module))
        distinct = {id(tensor): tensor for tensor in tensors.values()}
        memory = NetworkCopies(vars(self), shared=distinct.values()).memory
        self.overlapping: set[str] = {
            name for name, tensor in tensors.items() if address(tensor) in memory
        }
        vars(self).update(NetworkCopies(vars(self)).make(shares_memory=not self.overlapping))
        _leave_training(self.module)
        self._steps = {} if loss_fn is not None else _steps(self.module)
        self._transfers = [_transfer_hook(name, self.module, datamodule) for name in _TRANSFERS]
        has_own_transfer = any(is_overridden(datamodule, name) for name in _TRANSFERS)
        self._datamodule = datamodule if has_own_transfer else None
        self._names: dict[str, str] = {}
        self.needs_gradients: bool = False
        self._trainer: Any = None  # an idle one, for a step that asks
        self.changes_batches = False
        self.bytes_per_sample: float = 0.0  # of the largest tensor that a module takes or returns
        self.dropped: set[str] = set()  # shortcuts that were not used, and that this was said of

    def forward(self, batch: Any, index: int) -> Tensor:
        """Compute the mean loss of a batch, a tensor without dimensions."""
        if self.loss_fn is not None:
            if not isinstance(batch, (list, tuple)) or len(batch) < 2:
                kind = type(batch).__name__
                raise TypeError(
                    f"with loss_fn, each batch must be (*inputs, target), got {kind}. For other "
                    "batches, pass a LightningModule whose training_step returns the loss"
                )
            *inputs, target = batch
            return _as_loss(self.loss_fn(self.module(*inputs), target))
        for step, arguments in self._steps.items():
            answer = getattr(self.module, step)(*(batch, index, 0)[:arguments])
            if answer is not None:
                return _as_loss(answer)
        steps = " and ".join(self._steps)
        raise TypeError(f"{steps} of {type(self.module).__name__} returned no loss; {_WAY_OUT}")

    def canonical_names(self) -> dict[str, str]:
        """Return the canonical names of the module's tensors, as found at the first call.

        In another process tensors no longer share their memory.
        """
        self._names = self._names or canonical_names(self.module)
        return self._names

    def on_device(self, batch: Any, device: torch.device, dtype: torch.dtype | None) -> Any:
        """Move a batch to a device, through the transfer hooks that training would call.

        The hooks are methods of the LightningModule or LightningDataModule.

        Floating-point tensors get ``dtype`` if it is not ``None``, as in Lightning's true
        precisions.
        """
        if dtype is not None:

            def cast(tensor: Tensor) -> Tensor:
                if tensor.is_floating_point():
                    return tensor.to(dtype)
                return tensor

            batch = torch.utils._pytree.tree_map_only(Tensor, cast, batch)
        before, transfer, after = self._transfers
        with self._data_with(self._trainer):
            batch = before(batch, 0) if before else batch
            batch = transfer(batch, device, 0) if transfer else move_batch(batch, device)
            return after(batch, 0) if after else batch

    @contextmanager
    def _data_with(self, trainer: Any) -> Iterator[None]:
        """Give the data module another Trainer within a ``with`` block.

        Its own Trainer reports after a fit that it no longer trains.
        """
        attributes = {} if self._datamodule is None else vars(self._datamodule)
        own, attributes["trainer"] = attributes.get("trainer"), trainer
        try:
            yield
        finally:
            attributes["trainer"] = own

    def adapt(self, error: Exception) -> bool:
        """Enable gradients or add an idle Trainer, if an error shows the need for it.

        Returns:
            Whether something was added, so that the step may now work.
        """
        is_step = self.loss_fn is None
        lacks_gradients = "does not require grad" in str(error) and not self.needs_gradients
        if is_step and lacks_gradients:
            self.needs_gradients = True
            return True
        package = _lightning_package(self.module)
        if self._trainer is not None or not package:
            return False
        self._trainer = _idle_trainer(package)
        return True

    def explained(self, error: Exception) -> Exception:
        """Replace an error by advice, if the training step works only during a fit.

        Other errors are returned as they are.
        """
        frame = traceback.extract_tb(error.__traceback__)[-1]
        if self.loss_fn is not None or self._trainer is None:
            return error
        if isinstance(error, AttributeError) and isinstance(error.obj, nn.Module):
            owner = type(error.obj).__name__
            lack = f"which {owner} does not have outside of a fit"
            missing = f"reads {error.name!r}, {lack}; set it, or "
        elif any(word in (frame.line or "") for word in _TRAINING_WORDS):
            missing = f"needs the Trainer of its training ({error}); "
        else:
            return error
        return TypeError(
            f"{next(iter(self._steps))} of {type(self.module).__name__} {missing}{_WAY_OUT}"
        )

    def copies(self, shared: Iterable[Any]) -> Callable[[], MeanLoss]:
        """Return a function that copies this module in its present state.

        The copies share the ``shared`` tensors.
        """
        copies = NetworkCopies(vars(self), [*shared, self._names])
        return lambda: _loss_of(copies.make())

    def __reduce__(self) -> Any:
        with self._data_with(None):
            package = _lightning_package(self.module) if self._trainer else ""
            return _unpickled, (pickled(vars(self) | {"_trainer": None}), package)


def _loss_of(attributes: dict[str, Any]) -> MeanLoss:
    """Make a ``MeanLoss`` from the attributes of another ``MeanLoss``.

    The modules of its network get the idle Trainer, if there is one.
    """
    loss = MeanLoss.__new__(MeanLoss)
    vars(loss).update(attributes)
    if loss._trainer:
        for part in loss.module.modules():
            if "_trainer" in vars(part):
                vars(part)["_trainer"] = loss._trainer
    return loss


def _unpickled(attributes: bytes, package: str) -> MeanLoss:
    trainer = _idle_trainer(package) if package else None
    return _loss_of(unpickled(attributes) | {"_trainer": trainer})


def _leave_training(module: nn.Module) -> None:
    """Configure a module as a fit would, then detach it from its Trainer.

    ``self.log`` of a LightningModule then does nothing. Sets ``LightningModule._trainer`` and
    ``_fabric`` (lightning 2.4 to 2.6.6).
    """
    if _lightning_package(module):
        with torch.random.fork_rng(devices=[]):
            module.configure_model()  # type: ignore[operator]  # nn.Module's stub does not know it
    for part in module.modules():
        if "_trainer" in vars(part):
            vars(part).update(_trainer=None, _fabric=None, log=ignore, log_dict=ignore)


def _as_loss(answer: Any) -> Tensor:
    loss = loss_of(answer)
    if not isinstance(loss, Tensor):
        raise TypeError(
            "the loss must be a tensor, or a dict with a tensor under 'loss', "
            f"not {type(loss).__name__}"
        )
    return loss.mean() if loss.ndim else loss


def _steps(module: nn.Module) -> dict[str, int]:
    """Find the methods of a module that may return the loss; count their arguments.

    The arguments are (batch, batch_idx, dataloader_idx).

    Raises:
        TypeError: there is no such method.
    """
    name = type(module).__name__
    steps = []
    for step in ("training_step", "validation_step"):
        if callable(getattr(module, step, None)):
            steps.append(step)
    if not steps:
        raise TypeError(f"{name} has no training_step that returns the loss; {_WAY_OUT}")
    if getattr(module, "automatic_optimization", True) is False:
        steps = [step for step in steps if step != "training_step" and is_overridden(module, step)]
        if not steps:
            reason = "optimizes manually, so its training_step would change the weights"
            raise TypeError(f"{name} {reason}; {_WAY_OUT}")
    return {step: _argument_count(name, step, getattr(module, step)) for step in steps}


def _argument_count(name: str, step: str, method: Callable[..., Any]) -> int:
    parameters = list(inspect.signature(method).parameters.values())
    if parameters and parameters[0].name == "dataloader_iter":
        raise TypeError(f"{step} of {name} takes dataloader_iter and not a batch; {_WAY_OUT}")
    positional = [parameter for parameter in parameters if "POSITIONAL" in parameter.kind.name]
    if any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in parameters):
        return max(2, len(positional) - 1)
    required = sum(parameter.default is inspect.Parameter.empty for parameter in positional)
    return min(3, max(required, min(2, len(positional))))


_TRAINING_WORDS = ("trainer", "optimizer", "scheduler", "logger")
_TRANSFERS = ("on_before_batch_transfer", "transfer_batch_to_device", "on_after_batch_transfer")


def _transfer_hook(name: str, module: nn.Module, datamodule: Any) -> Callable[..., Any] | None:
    for owner in (datamodule, module):  # the data module's own comes first, as in Lightning
        if owner is not None and is_overridden(owner, name):
            return getattr(owner, name)  # type: ignore[no-any-return]
    return None


def is_overridden(value: Any, name: str) -> bool:
    """Tell whether a user's class overrides a method of Lightning or torch."""
    for kind in type(value).__mro__:
        if name in vars(kind):
            return package_of(kind) not in (*LIGHTNING, "torch")
    return False


def _lightning_package(module: nn.Module) -> str:
    """Return the package of a module's LightningModule base; ``""`` if it has none."""
    for kind in type(module).__mro__:
        if kind.__name__ == "LightningModule" and package_of(kind) in LIGHTNING:
            return package_of(kind)
    return ""


def _idle_trainer(package: str) -> Any:
    name = "lightning.pytorch" if package == "lightning" else package
    logger = logging.getLogger(f"{name}.utilities.rank_zero")
    with PROCESS_STATE:
        level = logger.level
        logger.setLevel(logging.ERROR)
        try:
            trainer = sys.modules[name].Trainer(
                accelerator="cpu",
                devices=1,
                logger=False,
                enable_checkpointing=False,
                enable_progress_bar=False,
                enable_model_summary=False,
            )
        finally:
            logger.setLevel(level)
    trainer.loggers = [sys.modules[f"{name}.loggers.logger"].DummyLogger()]
    trainer.training = True  # augmentations ask
    return trainer
