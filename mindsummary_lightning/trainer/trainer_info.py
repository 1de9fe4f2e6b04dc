"""Trainer, module and data module -> lineage values: one function per field.

A field that cannot be determined is skipped; nothing here raises, whatever the model or the data looks like.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from types import CodeType
from typing import Any, TypeVar

from mindsummary_lightning.conversion.hyperparameters import flatten
from mindsummary_lightning.dataset.pipeline import batch_size, dataset_path, dataset_size
from mindsummary_lightning.trainer.trainer_state import training_loader
from mindsummary_lightning.values import TrainInfo
from mindsummary_lightning.values.lineage_info import INT32_MAX, CustomValue

T = TypeVar("T")

_FUNCTIONAL_LOSSES = frozenset(["cross_entropy", "binary_cross_entropy", "binary_cross_entropy_with_logits"])
_CALL_DEPTH = 3  # training_step -> shared step -> compute_loss


def train_lineage(
    trainer: Any,
    module: Any,
    loss: float | None = None,
    epochs: int | None = None,
    learning_rate: float | None = None,
) -> TrainInfo:
    """The fields of a training job that are known now.

    ``epochs`` are those done, ``None`` for the number planned; ``learning_rate`` is what the first group was made with.
    """
    loader = _known(lambda: training_loader(trainer))
    path = checkpoint_path(trainer)
    return TrainInfo(
        optimizer=_known(lambda: ", ".join(type(optimizer).__name__ for optimizer in trainer.optimizers)) or None,
        learning_rate=learning_rate,
        loss_function=loss_function_name(module),
        epoch=_int32(_known(lambda: planned_epochs(trainer)) if epochs is None else epochs),
        parallel_mode=_known(lambda: parallel_mode(trainer)),
        device_num=_int32(_known(lambda: int(trainer.world_size))),
        batch_size=_int32(_known(lambda: batch_size(loader))),
        train_dataset_path=_known(lambda: dataset_path(getattr(loader, "dataset", None))),
        train_dataset_size=_int32(_known(lambda: dataset_size(loader, trainer.num_training_batches))),
        network=type(module).__name__,
        loss=_finite(loss),
        model_path=json.dumps({"ckpt": path}),
        model_size=_known(lambda: size_of(path)) if path else 0,
    )


def planned_epochs(trainer: Any) -> int | None:
    """Epochs the Trainer is going to train, or ``None`` where something else ends the run."""
    epochs = trainer.max_epochs
    return epochs if epochs is not None and epochs >= 0 else None


def parallel_mode(trainer: Any) -> str:
    """``stand_alone`` for one device, as MindSpore says; otherwise the strategy's name."""
    if trainer.world_size == 1:
        return "stand_alone"
    return type(trainer.strategy).__name__.removesuffix("Strategy").lower()


def checkpoint_path(trainer: Any) -> str | None:
    """Absolute path of the best checkpoint of the Trainer's first checkpoint callback, else of its last, else ``None``.

    The address of a remote checkpoint (``s3://...``) stays as it is.
    """
    callback = _known(lambda: trainer.checkpoint_callback)
    for attribute in ("best_model_path", "last_model_path"):
        path = getattr(callback, attribute, None)
        if path:
            return str(path) if "://" in str(path) else os.path.abspath(path)
    return None


def size_of(path: str) -> int | None:
    """Bytes of a checkpoint: a file, or a directory of shards."""
    if os.path.isdir(path):
        return sum(os.path.getsize(os.path.join(root, name)) for root, _, names in os.walk(path) for name in names)
    return os.path.getsize(path) if os.path.isfile(path) else None


def loss_function_name(module: Any) -> str | None:
    """The loss of a model: a loss module in it, else what its hyper-parameters say, else a functional loss it calls."""
    return (
        _known(lambda: _loss_module_name(module))
        or _known(lambda: _loss_in_hyperparameters(module))
        or _known(lambda: _functional_loss_name(module))
    )


def _loss_module_name(module: Any) -> str | None:
    for part in module.modules():
        kind = type(part)
        if kind.__module__ == "torch.nn.modules.loss" or (part is not module and kind.__name__.endswith("Loss")):
            return str(kind.__name__)
    return None


def _loss_in_hyperparameters(module: Any) -> str | None:
    for key, value in flatten(getattr(module, "hparams", {})).items():
        if key.rpartition("/")[2] in ("loss", "loss_fn", "loss_function", "criterion") and isinstance(value, str):
            return value
    return None


def _functional_loss_name(module: Any) -> str | None:
    """The first functional loss among the names that ``training_step`` and the methods it calls refer to."""
    seen = {"training_step"}
    methods = ["training_step"]
    for _ in range(_CALL_DEPTH):
        called: list[str] = []
        for method in methods:
            code = getattr(getattr(type(module), method, None), "__code__", None)
            if not isinstance(code, CodeType):
                continue
            for name in code.co_names:
                if name in _FUNCTIONAL_LOSSES or (name.endswith("_loss") and not hasattr(module, name)):
                    return name
                if name not in seen and callable(getattr(type(module), name, None)):
                    seen.add(name)
                    called.append(name)
        methods = called
    return None


def evaluation_dataset(loaders: Any, max_batches: Sequence[float] = ()) -> tuple[str | None, int | None]:
    """Path of the first evaluation data set and number of samples that were read of all of them.

    ``loaders`` are one loader, or a list or dict of them; at most ``max_batches`` are read of each.
    """
    if isinstance(loaders, Mapping):
        loaders = list(loaders.values())
    every = loaders if isinstance(loaders, (list, tuple)) else [loaders]
    paths = [_known(lambda loader=loader: dataset_path(getattr(loader, "dataset", None))) for loader in every]
    limits = itertools.chain(max_batches, itertools.repeat(math.inf))
    sizes = [_known(lambda pair=pair: dataset_size(*pair)) for pair in zip(every, limits, strict=False)]
    known_sizes = [size for size in sizes if size is not None]
    return next(filter(None, paths), None), _int32(sum(known_sizes)) if known_sizes else None


def hyperparameters(trainer: Any, module: Any) -> dict[str, CustomValue]:
    """Hyper-parameters of the data module and, over them, of the module, flattened."""
    params: dict[str, CustomValue] = {}
    for owner in (getattr(trainer, "datamodule", None), module):
        found = _known(lambda owner=owner: flatten(owner.hparams))
        params.update(found or {})
    return params


def environment(trainer: Any) -> dict[str, CustomValue]:
    """The run's environment: versions of torch and Lightning, precision, planned epochs."""
    found: dict[str, CustomValue | None] = {}
    for package in ("torch", "lightning", "pytorch-lightning"):
        with contextlib.suppress(PackageNotFoundError):
            found[f"{package.replace('-', '_')}_version"] = version(package)
    found["precision"] = _known(lambda: str(trainer.precision))
    found["planned_epochs"] = _known(lambda: planned_epochs(trainer))
    return {name: value for name, value in found.items() if value is not None}


def settings(trainer: Any, rates: Sequence[float]) -> dict[str, CustomValue]:
    """What differs between runs and has no field of its own: type of the device, first rates of several groups."""
    accelerator = _known(lambda: str(trainer.strategy.root_device.type))
    found: dict[str, CustomValue] = {"accelerator": accelerator} if accelerator else {}
    return found | ({f"learning_rate/{index}": rate for index, rate in enumerate(rates)} if len(rates) > 1 else {})


def learning_rates(trainer: Any) -> list[float]:
    """The learning rate of each parameter group now, in the optimizers' order; finite ones only."""
    return _rates(trainer, "lr")


def first_learning_rates(trainer: Any) -> list[float]:
    """The learning rate that each parameter group was made with, in the optimizers' order; finite ones only.

    A scheduler of torch keeps it as ``initial_lr``, in checkpoints too; without one it is the rate when the fit begins.
    ``OneCycleLR`` and ``CyclicLR`` overrule the optimizer's own rate: there it is the one that they begin with, which
    follows what the user set.
    """
    return _rates(trainer, "initial_lr")


def _rates(trainer: Any, key: str) -> list[float]:
    groups = _known(lambda: [group for optimizer in trainer.optimizers for group in optimizer.param_groups]) or []
    rates = _known(lambda: [float(group.get(key, group["lr"])) for group in groups if "lr" in group]) or []
    return [rate for rate in rates if math.isfinite(rate)]


def _known(find: Callable[..., T]) -> T | None:
    try:
        return find()
    except Exception:  # a strange model or loader costs its own field only
        return None


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


def _int32(number: int | None) -> int | None:
    return number if number is not None and 0 <= number <= INT32_MAX else None
