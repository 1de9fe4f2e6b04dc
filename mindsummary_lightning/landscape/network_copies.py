"""Copy a network in memory, so that running the copy leaves the network as it is.

A copy has its own modules, buffers, lists, counters, variables of hooks and generators.

A landscape runs a user's network at thousands of points. Each point runs a copy of the network as
it was at the start: no point sees changes of an earlier point, and the user's network stays
unchanged. Copies share the tensors that the caller names (parameters that move), classes, data
sets, Trainers and everything that cannot be pickled.
"""

from __future__ import annotations

import copy
import copyreg
import io
import pickle
import types
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.nn.utils import parametrizations, parametrize
from torch.optim import Optimizer
from torch.storage import TypedStorage
from torch.utils.data import DataLoader, Dataset, Sampler

LIGHTNING = ("lightning", "pytorch_lightning")

_SHARED = (
    type,
    types.ModuleType,
    types.CodeType,
    types.BuiltinFunctionType,
    Dataset,
    DataLoader,
    Sampler,
    Optimizer,
)
_PROTOCOL = 4  # from 5 on arrays are written as buffers, which would be shared
_ATOMS = (str, int, float, bool, bytes, type(None), list, dict, tuple, set)


class NetworkCopies:
    """Copies of an object and of everything that it refers to, made as pickle does.

    Copies have the state that the object had when this was created.

    ``shared`` objects are the same in all copies. ``memory`` has the addresses of the memory that
    is copied.
    """

    def __init__(self, root: Any, shared: Iterable[Any] = ()) -> None:
        self._objects: list[Any] = []
        buffer = io.BytesIO()
        pickler = _CopyPickler(buffer, self._objects, shared)
        pickler.dump(root)
        self._content = buffer.getvalue()
        self.memory: set[int] = pickler.memory - {0}  # no bytes have no address

    def make(self, shares_memory: bool = False) -> Any:
        """Return a new copy.

        With ``shares_memory``, its tensors are new objects that use the original memory.
        """
        return _CopyUnpickler(io.BytesIO(self._content), self._objects, shares_memory).load()


def address(tensor: Tensor) -> int:
    """Return the memory address of a tensor's storage, or 0.

    It is 0 for a lazy tensor, for a tensor that is not strided, and for a storage without memory.
    """
    if is_lazy(tensor) or tensor.layout != torch.strided:
        return 0
    return tensor.untyped_storage().data_ptr()


def pickled(value: Any) -> bytes:
    """Pickle a network or loss for another process.

    Unlike with plain pickle, tensors that are views of the same memory stay views of the same
    memory.

    Raises:
        TypeError: the value cannot be pickled.
    """
    buffer = io.BytesIO()
    try:
        torch.save(
            value,
            buffer,
            pickle_module=types.SimpleNamespace(Pickler=_NetworkPickler, __name__="pickle"),
        )
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        reason = (
            f"several devices need a module and loss that can be pickled ({error}); use devices=1"
        )
        raise TypeError(reason) from error
    return buffer.getvalue()


def unpickled(content: bytes) -> Any:
    """Load a value that :func:`pickled` has pickled."""
    return torch.load(io.BytesIO(content), weights_only=False)


class _NetworkPickler(pickle.Pickler):
    """Pickler for modules that torch itself cannot pickle.

    Such modules have parametrizations, or were compiled.
    """

    def reducer_override(self, value: Any) -> Any:
        if getattr(value, "__module__", "") == parametrizations.__name__ and isinstance(
            value, types.FunctionType
        ):
            return _ignored, ()  # a hook for loading older state dicts, local to a function
        if isinstance(value, nn.Module):
            if parametrize.is_parametrized(value):
                return self.parametrized(value)
            if type(value).__name__ == "OptimizedModule":
                return _itself, (value._orig_mod,)
        return NotImplemented

    def parametrized(self, value: nn.Module) -> Any:
        # Its class is made by torch (2.5 to 2.13).
        names = list(vars(value)["_modules"]["parametrizations"])
        return _parametrized, (type(value).__mro__[1], names), vars(value)


class _CopyPickler(_NetworkPickler):
    """Pickler that writes numbers in place of shared objects and of tensor memory."""

    def __init__(self, buffer: io.BytesIO, objects: list[Any], shared: Iterable[Any]) -> None:
        super().__init__(buffer, _PROTOCOL)
        self._objects = objects
        self._numbers: dict[int, int] = {}
        self.memory: set[int] = set()
        for value in shared:
            self._number(value)

    def persistent_id(self, value: Any) -> int | None:
        if id(value) in self._numbers:
            return self._numbers[id(value)]
        if isinstance(value, TypedStorage):
            self._objects.append(value)
            self.memory.add(value._untyped_storage.data_ptr())
            return len(self._objects) - 1
        if isinstance(value, torch.jit.ScriptModule) or _is_shared(value):
            return self._number(value)
        return None

    def _number(self, value: Any) -> int:
        self._objects.append(value)
        return self._numbers.setdefault(id(value), len(self._objects) - 1)

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, types.MethodType):
            return types.MethodType, (value.__func__, value.__self__)
        if isinstance(value, types.CellType):
            return types.CellType, (), _content(value), None, None, _fill
        if isinstance(value, types.FunctionType):
            self._number(value.__globals__)
            made_of = (
                value.__code__,
                value.__globals__,
                value.__name__,
                value.__defaults__,
                value.__closure__,
            )
            return (
                types.FunctionType,
                made_of,
                (vars(value), {"__kwdefaults__": value.__kwdefaults__}),
            )
        return super().reducer_override(value)

    def parametrized(self, value: nn.Module) -> Any:
        return copyreg.__newobj__, (type(value),), vars(value)  # type: ignore[attr-defined]


class _CopyUnpickler(pickle.Unpickler):
    def __init__(self, buffer: io.BytesIO, objects: list[Any], shares_memory: bool) -> None:
        super().__init__(buffer)
        self._objects, self._shares_memory = objects, shares_memory
        self._copied: dict[int, Any] = {}

    def persistent_load(self, number: int) -> Any:
        value = self._objects[number]
        if isinstance(value, TypedStorage) and not self._shares_memory:
            memory = value._untyped_storage
            own = self._copy(memory.data_ptr(), memory.clone)
            typed: Any = TypedStorage
            return typed(wrap_storage=own, dtype=value.dtype, _internal=True)
        if isinstance(value, torch.jit.ScriptModule):
            return self._copy(number, partial(copy.deepcopy, value))
        return value

    def _copy(self, key: int, make: Callable[[], Any]) -> Any:
        if key not in self._copied:
            self._copied[key] = make()
        return self._copied[key]


def _is_shared(value: Any) -> bool:
    if type(value) in _ATOMS or isinstance(value, (Tensor, types.MethodType, types.CellType)):
        return False
    if isinstance(value, types.FunctionType):
        return value.__closure__ is None
    if isinstance(value, nn.Module):
        return False
    if isinstance(value, _SHARED) or any(
        package_of(kind) in LIGHTNING for kind in type(value).__mro__
    ):
        return True
    try:
        return isinstance(value.__reduce_ex__(_PROTOCOL), str)
    except Exception:
        return True  # a lock, a file, a weak reference, an object of another library


def package_of(kind: type) -> str:
    """Return the name of the top-level package that defines a type."""
    return str(kind.__module__).partition(".")[0]  # of a type that Cython made it may be no text


def _content(cell: types.CellType) -> Any:
    try:
        return (cell.cell_contents,)
    except ValueError:  # a variable without a value
        return ()


def _fill(cell: types.CellType, content: tuple[Any, ...]) -> None:
    for value in content:
        cell.cell_contents = value


def _ignored() -> Callable[..., None]:
    return ignore


def ignore(*_: Any, **__: Any) -> None:
    """Accept any arguments and do nothing."""


def _itself(value: Any) -> Any:
    return value


def _parametrized(kind: type[nn.Module], names: list[str]) -> nn.Module:
    """Make an empty module of the class that torch uses for parametrizations."""
    module = kind.__new__(kind)
    parametrize._inject_new_class(module)
    for name in names:
        parametrize._inject_property(module, name)
    return module
