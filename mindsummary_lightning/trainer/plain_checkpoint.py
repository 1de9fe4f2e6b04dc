"""``plain_values``: what a checkpoint holds beside tensors and objects, read without loading or running any of it.

``torch.load(weights_only=True)`` refuses the whole file for one object among the hyper-parameters, an ``Enum`` or a
configuration of OmegaConf, say.
"""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from typing import Any


def plain_values(path: str | os.PathLike[str]) -> Any:
    """The pickled value of a checkpoint in torch's zip format; tensors are ``None`` in it, objects empty stand-ins.

    Raises whatever a file that is none, or is sharded, leads to.
    """
    with zipfile.ZipFile(path) as archive:
        name = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
        return _PlainUnpickler(io.BytesIO(archive.read(name))).load()


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return _StandIn

    def persistent_load(self, key: Any) -> None:
        """A tensor's storage."""


class _StandIn(dict[Any, Any]):
    """In the place of every class and function: takes all that a pickle does with one, and does nothing."""

    def __new__(cls, *args: Any, **kwargs: Any) -> _StandIn:
        return super().__new__(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def _ignore(self, *args: Any) -> _StandIn:
        return self

    __call__ = __setstate__ = append = extend = add = _ignore
    __hash__ = object.__hash__  # type: ignore[assignment]
