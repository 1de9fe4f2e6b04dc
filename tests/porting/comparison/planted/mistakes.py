"""What is made wrong in each net, and where a comparison should find it.

The mistakes follow from the modules, parameters and points of a net by the rules below. The rules
were written before any run was compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import TypeVar

from torch import nn

from tests.porting.comparison.planted.nets import TOKEN_NETS, Part

_Item = TypeVar("_Item")
_WEIGHTS, _GRADIENTS, _UPDATES = 24, 10, 10  # mistakes of single parameters at most


@dataclass(frozen=True)
class Mistake:
    """A planted mistake.

    Attributes:
        what: the kind of the mistake.
        where: the module, the parameter, or the point as ``module:point``; ``""`` for the training.
        stage: the first stage that differs.
        names: modules (``""`` the network), parameters or tensors of the batch, of which one must
            be named; ``()`` for any.
        step: the first step that differs.
    """

    what: str
    where: str
    stage: str
    names: tuple[str, ...] = ()
    step: int = 1

    @property
    def name(self) -> str:
        return f"{self.what} {self.where}".strip()


_OF_MODULES: dict[type[nn.Module], tuple[str, ...]] = {
    nn.LayerNorm: ("eps", "axis", "not_affine", "missing"),
    nn.BatchNorm2d: ("eps", "norm_momentum", "evaluated", "statistics_lost", "missing", "group"),
    nn.BatchNorm1d: ("eps", "norm_momentum", "evaluated", "statistics_lost", "missing"),
    nn.GroupNorm: ("eps", "groups", "missing"),
    nn.InstanceNorm2d: ("eps", "missing"),
    nn.ReLU: ("leaky", "gelu"),
    nn.GELU: ("tanh_form", "relu"),
    nn.Tanh: ("hardtanh", "missing"),
    nn.ELU: ("relu", "missing"),
    nn.SiLU: ("hardswish", "relu"),
    nn.PReLU: ("leaky",),
    nn.Conv2d: ("padding", "no_bias", "more_bias"),
    nn.Conv1d: ("padding", "no_bias"),
    nn.ConvTranspose2d: ("no_bias",),
    nn.Linear: ("no_bias", "more_bias"),
    nn.Dropout: ("dropout_on",),
    nn.Embedding: ("padding_idx",),
    nn.MaxPool2d: ("average", "smaller"),
    nn.GRU: ("no_bias",),
    nn.LSTM: ("no_bias", "time_first", "dropout_between"),
}
_REMOVED = frozenset({"missing", "dropout_on"})  # the code around may be named as well
_IMAGES = (
    "mean_std", "nearly_scaled", "bgr", "mirrored", "transposed", "rounded", "other_order",
)  # fmt: skip
_TOKENS = ("tokens_off", "reversed", "truncated", "later_tokens", "other_order")
_VECTORS = ("mean_std", "nearly_scaled", "reversed", "rounded", "other_order")
_LOSSES = ("summed", "halved", "first_half", "penalty", "smoothing", "softmax_twice", "weighted")
_LOSSES_OF_IMAGES = ("summed", "halved", "first_half", "penalty", "absolute")
_UPDATE_OF_ALL = (
    "rate_off", "rate_tenfold", "decay_missing", "decay_tenfold", "decay_of_all", "clipped",
    "clipped_by_value", "schedule_early",
)  # fmt: skip
_LAST_OUTPUT = ("", "made")  # without its gradient no training begins
_LATER = {"schedule_late": "update", "gradients_kept": "gradients"}
_OF_OPTIMIZERS = {
    "bottleneck": (("nesterov", 1), ("momentum_off", 2), ("dampening", 2)),
    "convnext": (("adam", 1), ("optimizer_eps", 1), ("betas", 2), ("first_beta", 2)),
    "mixer": (("adamw", 1), ("optimizer_eps", 1), ("betas", 2), ("first_beta", 2)),
    "encoder": (("adam", 1), ("optimizer_eps", 1), ("betas", 2), ("first_beta", 2)),
    "seq2seq": (("adamw", 1), ("clip_missing", 1), ("betas", 2), ("first_beta", 2)),
    "text": (("centered", 1), ("alpha", 1), ("optimizer_eps", 1), ("momentum_off", 2)),
    "autoencoder": (("accumulator", 1), ("optimizer_eps", 1), ("rate_decay", 2)),
    "siamese": (("not_nesterov", 1), ("momentum_off", 1)),
}


def mistakes_of(kind: str, net: Part, points: dict[tuple[str, str], bool]) -> list[Mistake]:
    """Return the mistakes of a net.

    Args:
        kind: the name of the net.
        net: the net.
        points: its points, with whether gradients flow through them.
    """
    return [
        *_of_data(kind),
        *_of_weights(net),
        *_of_modules(net),
        *_of_points(points),
        *_of_loss(kind),
        *_of_gradients(net),
        *_of_updates(net),
        *_of_training(kind),
    ]


def _of_data(kind: str) -> Iterator[Mistake]:
    changes = _TOKENS if kind in TOKEN_NETS else _VECTORS if kind == "siamese" else _IMAGES
    for what in changes:
        yield Mistake(what, "", "data", () if what == "other_order" else ("0",))
    yield Mistake("labels_off", "", "data", ("1",))
    yield Mistake("labels_of_others", "", "data", ("1",))
    yield Mistake("third_batch", "", "data", ("0",), 3)


def _spread(items: Sequence[_Item], most: int) -> list[_Item]:
    """Return at most so many items, spread over all."""
    if len(items) <= most:
        return list(items)
    return [items[at * len(items) // most] for at in range(most)]


def _of_weights(net: Part) -> Iterator[Mistake]:
    of_matrices = cycle(("not_carried", "turned", "half", "scaled", "rolled"))
    of_vectors = cycle(("not_carried", "half", "negated"))
    for name, weight in _spread([*net.named_parameters()], _WEIGHTS):
        what = next(of_matrices if weight.ndim > 1 else of_vectors)
        yield Mistake(what, name, "weights", (name,))


def _of_modules(net: Part) -> Iterator[Mistake]:
    for name, module in net.named_modules():
        for what in _OF_MODULES.get(type(module), ()):
            if _is_possible(what, module):
                yield _of_module(what, name)


def _is_possible(what: str, module: nn.Module) -> bool:
    has_bias = getattr(module, "bias", None) is not None
    if what == "no_bias":
        return has_bias
    if what == "more_bias":
        return not has_bias
    if what == "padding":
        return any(module.padding)
    return True


def _of_module(what: str, name: str) -> Mistake:
    around = name.rpartition(".")[0]
    if what == "norm_momentum":
        return Mistake(what, name, "update", (f"{name}.running_mean", f"{name}.running_var"))
    if what == "statistics_lost":
        return Mistake(what, name, "weights", (f"{name}.running_mean",))
    if what == "padding_idx":
        return Mistake(what, name, "gradients", (f"{name}.weight",))
    return Mistake(what, name, "forward", (name, around) if what in _REMOVED else (name,))


def _of_points(points: dict[tuple[str, str], bool]) -> Iterator[Mistake]:
    others = cycle(("flipped", "rounded", "cut", "shifted", "dropped", "zeroed"))
    for (module, point), has_gradient in points.items():
        where = f"{module}:{point}"
        yield Mistake("scaled_by", where, "forward", (module,))
        yield Mistake(next(others), where, "forward", (module,))
        if has_gradient and (module, point) != _LAST_OUTPUT:
            yield Mistake("detached", where, "gradients")


def _of_loss(kind: str) -> Iterator[Mistake]:
    for what in _LOSSES_OF_IMAGES if kind == "autoencoder" else _LOSSES:
        yield Mistake(what, "", "loss")


def _of_gradients(net: Part) -> Iterator[Mistake]:
    changes = cycle(("frozen", "doubled", "clamped"))
    for name, _ in _spread([*net.named_parameters()][1:], _GRADIENTS):
        yield Mistake(next(changes), name, "gradients", (name,))


def _of_updates(net: Part) -> Iterator[Mistake]:
    changes = cycle(("left_out", "own_rate", "own_decay"))
    for name, _ in _spread([*net.named_parameters()], _UPDATES):
        yield Mistake(next(changes), name, "update", (name,))


def _of_training(kind: str) -> Iterator[Mistake]:
    for what in _UPDATE_OF_ALL:
        # found with the first answers: the first step of AdamW does not ask for sizes of gradients
        is_later = what == "clipped_by_value" and kind in ("convnext", "encoder")
        yield Mistake(what, "", "update", (), 2 if is_later else 1)
    for what, step in _OF_OPTIMIZERS[kind]:
        yield Mistake(what, "", "update", (), step)
    for what, stage in _LATER.items():
        yield Mistake(what, "", stage, (), 2)
