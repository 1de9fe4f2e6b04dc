"""What a chain says, in words: one sentence, the rows before and at the parting, and a table of the links."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mindsummary_lightning.comparison.chain import Chain
from mindsummary_lightning.comparison.chain_parts import Part, PartingPlace, RowPair
from mindsummary_lightning.values.step_chain import ChainRow
from mindsummary_lightning.values.text import listed

_LISTED = 8


def sentence(part: Part, limit: float) -> str:
    """Where two runs part."""
    names = listed([both(pair.a.name, pair.b.name) for pair in part.tensors], 3)
    where = {
        "data": f"in the data: {names} of the batch, up to",
        "weights": f"in the weights with which it begins: {names}, up to",
        "forward": part.place and _where(part.place, part.tensors[0]),
        "loss": "in the loss function or its labels: all outputs agree, the loss is",
        "backward": f"in the backward pass: loss and outputs agree, the gradient of {names} is up to",
        "update": f"in the update: gradients agree, the updates of {names} are up to",
    }[part.link]
    settings = "".join(
        f"; {name} is {', '.join(f'{x:.6g}' for x in one)} in a and {', '.join(f'{x:.6g}' for x in other)} in b"
        for name, one, other in part.settings
    )
    tolerance = "" if part.link in ("backward", "update") else f" (tolerance {limit:.1g})"
    far = max(pair.distance for pair in part.tensors)
    return f"The runs differ from step {part.step} on, first {where} {far:.1e} apart{tolerance}{settings}."


def _where(place: PartingPlace, pair: RowPair) -> str:
    """Where in the forward pass; a row that is no input is the module's own output."""
    who = both(module_text(place.a, place.kind_a), module_text(place.b, place.kind_b))
    if pair.a.port == "input":
        return f"in the forward pass, in the code of {who}: what comes before {both(pair.a.name, pair.b.name)} is"
    return f"in the forward pass, in {'the code of ' * place.between}{who}: its inputs agree, its output is"


def lines(chain: Chain) -> Iterator[str]:
    """The rows around the parting, and a table of the links."""
    part = chain.part
    if part is not None:
        if part.before is not None:
            yield f"  agrees to {part.before.distance:.1e}: {row_text(part.before)}"
        for pair in part.tensors[:_LISTED]:
            yield f"  apart by  {pair.distance:.1e}: {row_text(pair)}"
        if len(part.tensors) > _LISTED:
            yield f"  and {len(part.tensors) - _LISTED} more"
        for run, line in (("a", part.place and part.place.line_a), ("b", part.place and part.place.line_b)):
            if line:
                yield f"  called in {run} at {line}"
    yield f"  {'step ' + str(chain.steps[-1]):12} compared    in a, b alone  farthest"
    mark = ""
    for link in chain.links:
        far = "-" if link.distance is None else f"{link.distance:.1e}"
        if part is not None and part.link == {"gradients": "backward"}.get(link.name, link.name):
            mark = "differs first"
        name = {"forward": "modules"}.get(link.name, link.name)
        counts = f"{link.compared:8}    {link.alone[0]:6}, {link.alone[1]:5}"
        yield f"  {name:12} {counts}  {far:9} {mark if link.distance or mark == 'differs first' else ''}".rstrip()
        mark = mark and "follows from it"


def row_text(pair: RowPair) -> str:
    """A row of both runs, with shapes."""
    return both(_row(pair.a), _row(pair.b))


def _row(row: ChainRow) -> str:
    name = f"{row.port} of {row.name or 'the network'}" if row.link == "forward" else row.name or row.link
    call = f" (call {row.call})" if row.call else ""
    return f"{name}{f' at {row.path}' if row.path else ''}{call} {list(row.shape)}"


def module_text(name: str, kind: str) -> str:
    """A module, by name and class."""
    return f"{name or 'the network'} ({kind})"


def both(one: str, other: str) -> str:
    """What two runs say, once if they say the same."""
    return one if one == other else f"{one} = {other}"


def chain_dict(chain: Chain) -> dict[str, Any]:
    """The chain as JSON has it."""
    before = chain.part and chain.part.before
    return {
        "steps": chain.steps,
        "links": [link._asdict() for link in chain.links],
        "before": before and {"a": _row(before.a), "b": _row(before.b), "distance": before.distance},
    }
