"""All that running a network may change in it, and how to put it back: tensors, attributes, lists, random generators.

A landscape runs a user's network thousands of times. Each point starts from the same state, in any order and process,
and afterwards the network is what it was. So every container reachable from it is recorded with its contents by
identity and every tensor with its value. Nothing here knows of parameters that move, losses or files.
"""

from __future__ import annotations

import functools
import random
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Container, Iterator
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.utils.data import DataLoader, Dataset

from mindsummary_lightning.landscape.loaders import is_datamodule

_OPAQUE_PACKAGES = (
    *("torch", "lightning", "pytorch_lightning", "builtins", "logging", "threading", "weakref"),
    "mindsummary_lightning",  # what a layer calls for a point has the whole plane
)
_MAX_OBJECTS = 200_000  # a data set that a module refers to is not walked without end


class _Piece(Protocol):
    def is_changed(self) -> bool: ...
    def restore(self) -> None: ...


class RestorableState:
    """The state of everything that is reachable from an object, as it was when this was made.

    Tensors whose ``id`` is in ``unrecorded`` may change; those in ``unwritten`` get other storage, but their values are
    not written, so that these need no copy.
    """

    def __init__(self, root: Any, unrecorded: Container[int] = (), unwritten: Container[int] = ()) -> None:
        self._pieces: list[_Piece] = [_PythonRandom(), _NumpyRandom()]
        for value in _reachable(root):
            if isinstance(value, Tensor):
                if id(value) not in unrecorded:
                    self._pieces.append(_TensorValue(value, id(value) not in unwritten))
            else:
                self._pieces += _pieces_of(value)
        self._volatile: list[_Piece] = []
        self.is_new: bool = True  # until something was learned

    def restore(self) -> None:
        """Put everything back."""
        for piece in self._pieces:
            if piece.is_changed():
                piece.restore()

    def restore_volatile(self) -> None:
        """Put back what :meth:`learn_volatile` has seen to change; cheap, for every point."""
        for piece in self._volatile:
            piece.restore()

    def learn_volatile(self) -> bool:
        """Whether something changed that was not known to change; from now on it is. Looks at everything."""
        self.is_new = False
        known = set(map(id, self._volatile))
        changed = [piece for piece in self._pieces if id(piece) not in known and piece.is_changed()]
        self._volatile += changed
        return bool(changed)


def _pieces_of(value: Any) -> list[_Piece]:
    for kind, piece in _PIECES.items():
        if isinstance(value, kind):
            return [piece(value)]
    own: list[_Piece] = [_ClassOf(value)]
    if hasattr(value, "__dict__"):
        own.append(_Contents(vars(value)))
    return [*own, _Slots(value)] if _slot_names(value) else own


class _Contents:
    """A list, set, deque or dict (also that of an object's attributes) with its items by identity and in order."""

    def __init__(self, container: Any) -> None:
        self._container = container
        self._items = _items(container)

    def is_changed(self) -> bool:
        items = _items(self._container)
        return len(items) != len(self._items) or any(a is not b for a, b in zip(items, self._items, strict=True))

    def restore(self) -> None:
        container, items = self._container, self._items
        if isinstance(container, dict):
            base = _dict_class(container)
            half = len(items) // 2
            pairs = list(zip(items[:half], items[half:], strict=True))
            if list(base.keys(container)) != items[:half]:
                base.clear(container)
            for key, value in pairs:
                base.__setitem__(container, key, value)
        elif isinstance(container, list):
            list.__setitem__(container, slice(None), items)
        else:
            container.clear()
            container.update(items) if isinstance(container, set) else container.extend(items)


def _items(container: Any) -> list[Any]:
    if not isinstance(container, dict):
        return list(container)
    base = _dict_class(container)
    return [*base.keys(container), *base.values(container)]


def _dict_class(container: dict[Any, Any]) -> Any:
    """The class whose methods do no more than a dict's: a subclass may; an ordered dict has an order of its own."""
    return OrderedDict if isinstance(container, OrderedDict) else dict


class _TensorValue:
    def __init__(self, tensor: Tensor, is_copied: bool) -> None:
        self._tensor, self._class, self._home = tensor, type(tensor), tensor.data
        self._requires_grad, self._grad = tensor.requires_grad, tensor.grad if tensor.is_leaf else None
        self._value = tensor.detach().clone() if is_copied and not is_lazy(tensor) else None

    def is_changed(self) -> bool:
        tensor = self._tensor
        if type(tensor) is not self._class or tensor.requires_grad != self._requires_grad or not self._is_at_home():
            return True
        if tensor.is_leaf and tensor.grad is not self._grad:
            return True
        return self._value is not None and not torch.equal(self._home, self._value)

    def restore(self) -> None:
        tensor = self._tensor
        if not self._is_at_home():
            tensor.data = self._home
        tensor.__class__ = self._class  # a lazy parameter becomes one with a shape
        if tensor.is_leaf and not is_lazy(tensor):
            tensor.requires_grad_(self._requires_grad)
            tensor.grad = self._grad
        if self._value is not None:
            with torch.no_grad():
                self._home.copy_(self._value)

    def _is_at_home(self) -> bool:
        data, home = self._tensor.data, self._home
        if is_lazy(data) or is_lazy(home):
            return is_lazy(data) and is_lazy(home)
        is_alike = (data.device, data.dtype, data.shape) == (home.device, home.dtype, home.shape)
        return is_alike and _address(data) == _address(home)


def _address(tensor: Tensor) -> int:
    return tensor.data_ptr() if tensor.layout == torch.strided else id(tensor)


class _ClassOf:
    """The class of an object: a lazy module changes its own."""

    def __init__(self, value: Any) -> None:
        self._value, self._class = value, type(value)

    def is_changed(self) -> bool:
        return type(self._value) is not self._class

    def restore(self) -> None:
        if self.is_changed():
            self._value.__class__ = self._class


class _Array:
    def __init__(self, array: Any) -> None:
        self._array, self._value = array, array.copy()

    def is_changed(self) -> bool:
        return bool(self._array.tobytes() != self._value.tobytes())

    def restore(self) -> None:
        if self._array.flags.writeable:
            np.copyto(self._array, self._value)


class _Slots:
    """The attributes of an object that are no entries of a dict."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self._before = self._read()

    def is_changed(self) -> bool:
        now = self._read()
        return now.keys() != self._before.keys() or any(now[name] is not one for name, one in self._before.items())

    def restore(self) -> None:
        for name in self._read().keys() - self._before.keys():
            object.__delattr__(self._value, name)
        for name, one in self._before.items():
            object.__setattr__(self._value, name, one)

    def _read(self) -> dict[str, Any]:
        return {name: getattr(self._value, name) for name in _slot_names(self._value) if hasattr(self._value, name)}


class _Cell:
    """A variable that a function and the one around it share."""

    def __init__(self, cell: types.CellType) -> None:
        self._cell, self._value = cell, cell.cell_contents

    def is_changed(self) -> bool:
        return self._cell.cell_contents is not self._value

    def restore(self) -> None:
        self._cell.cell_contents = self._value


class _Random:
    """A random number generator by its state."""

    def __init__(self, read: Callable[[], Any], write: Callable[[Any], Any], key: Callable[[Any], Any]) -> None:
        self._read, self._write, self._key = read, write, key
        self._state = read()

    def is_changed(self) -> bool:
        return bool(self._key(self._read()) != self._key(self._state))

    def restore(self) -> None:
        self._write(self._state)


class _PythonRandom(_Random):
    def __init__(self, generator: Any = random) -> None:
        super().__init__(generator.getstate, generator.setstate, lambda state: state)


class _NumpyRandom(_Random):
    def __init__(self, generator: Any = np.random) -> None:
        super().__init__(generator.get_state, generator.set_state, lambda state: (state[1].tobytes(), *state[2:]))


class _NumpyGenerator(_Random):
    def __init__(self, generator: np.random.Generator) -> None:
        bits: Any = generator.bit_generator
        super().__init__(lambda: bits.state, lambda state: setattr(bits, "state", state), repr)


class _TorchRandom(_Random):
    def __init__(self, generator: torch.Generator) -> None:
        super().__init__(generator.get_state, generator.set_state, lambda state: state.tolist())


_PIECES: dict[Any, Callable[[Any], _Piece]] = {
    torch.Generator: _TorchRandom,
    np.random.Generator: _NumpyGenerator,
    np.random.RandomState: _NumpyRandom,
    random.Random: _PythonRandom,
    np.ndarray: _Array,
    (list, set, dict, deque): _Contents,
    types.CellType: _Cell,
}
_LEAVES = (Tensor, np.ndarray, torch.Generator, np.random.Generator, np.random.RandomState, random.Random)


def reachable_tensors(root: Any) -> list[Tensor]:
    """Every tensor that can be reached from an object."""
    return [value for value in _reachable(root) if isinstance(value, Tensor)]


def _reachable(root: Any) -> Iterator[Any]:
    """Tensors, arrays, generators, containers, variables of functions and objects with attributes, each once."""
    seen: set[int] = set()
    todo = [root]
    while todo and len(seen) < _MAX_OBJECTS:
        value = todo.pop()
        if id(value) in seen or value is None or isinstance(value, (str, bytes, int, float, bool, type)):
            continue
        seen.add(id(value))
        if isinstance(value, _LEAVES):
            yield value
        elif isinstance(value, (list, set, dict, deque)):
            yield value
            todo += dict.values(value) if isinstance(value, dict) else value
        elif isinstance(value, tuple):
            todo += value
        elif isinstance(value, types.FunctionType):
            cells = [cell for cell in value.__closure__ or () if _is_filled(cell)]
            yield from cells
            todo += [*(cell.cell_contents for cell in cells), value.__defaults__, value.__kwdefaults__, vars(value)]
        elif isinstance(value, types.MethodType):
            todo += [value.__self__, value.__func__]
        elif isinstance(value, functools.partial):
            todo += [value.func, value.args, value.keywords]
        elif _has_attributes(value):
            yield value
            todo += vars(value).values() if hasattr(value, "__dict__") else ()
            todo += [getattr(value, name) for name in _slot_names(value) if hasattr(value, name)]
            if isinstance(value, torch.jit.ScriptModule):  # its tensors are no attributes
                todo += [*value.parameters(), *value.buffers()]


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _slot_names(value: Any) -> list[str]:
    names = []
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            is_private = name.startswith("__") and not name.endswith("__")
            names.append(f"_{kind.__name__.lstrip('_')}{name}" if is_private else name)
    return [name for name in names if not name.endswith("__")]


def _has_attributes(value: Any) -> bool:
    if isinstance(value, nn.Module):
        return True
    if isinstance(value, (Dataset, DataLoader)) or is_datamodule(value):  # may be large, and a loss does not change it
        return False
    if isinstance(value, types.ModuleType) or not (hasattr(value, "__dict__") or _slot_names(value)):
        return False
    package = type(value).__module__
    return package.startswith("torch.distributions") or package.partition(".")[0] not in _OPAQUE_PACKAGES
