"""Names module classes by the same words for PyTorch and MindSpore."""

from __future__ import annotations

import re

_WORDS = {
    "dense": "linear",
    "sequentialcell": "sequential",
    "celllist": "modulelist",
    "hswish": "hardswish",
    "hsigmoid": "hardsigmoid",
    "swish": "silu",
    "adaptiveavgpool2d": "avgpool2d",
    "adaptivemaxpool2d": "maxpool2d",
    "globalavgpooling": "avgpool2d",
}
_RANDOM = re.compile(r"dropout|droppath|dropblock|stochasticdepth|rrelu", re.IGNORECASE)
_CONTAINERS = frozenset(("sequential", "modulelist", "moduledict"))


def kind_word(kind: str) -> str:
    """Return PyTorch's name for a class, in lower case."""
    return _WORDS.get(kind.lower(), kind.lower())


def is_random_kind(kind: str) -> bool:
    """Tell whether modules of a class draw random numbers in training mode."""
    return _RANDOM.search(kind) is not None


def is_plain_container(kind: str) -> bool:
    """Tell whether a class only calls its children in order."""
    return kind_word(kind) in _CONTAINERS
