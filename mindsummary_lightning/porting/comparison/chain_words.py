"""What a chain says, in words: one sentence, the rows before and at the parting, and a table of the links."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mindsummary_lightning.porting.comparison.chain import GRADIENT
from mindsummary_lightning.porting.comparison.chain_parts import Chain, Part, PartingPlace, RowPair
from mindsummary_lightning.porting.comparison.distances import Tolerance
from mindsummary_lightning.values.step_chain import OutputRow
from mindsummary_lightning.values.text import Phrase, listed

LISTED = 8


def sentence(chain: Chain, part: Part, limits: Tolerance) -> Phrase:
    """Where two runs part."""
    runs = " or ".join(sorted({*map(_alone, part.tensors)} - {""}))
    names = listed(
        [both(pair.a.name, pair.b.name) for pair in part.tensors if _alone(pair) or not runs], 3
    )
    far = max(pair.distance for pair in part.tensors)
    how = (
        Phrase("get to the optimizer in {} alone", runs)
        if runs
        else Phrase("are up to {:.1e} apart", far)
    )
    before_it = Phrase("the gradients or the update: no gradient is compared")
    if any(link.name == "gradients" and link.compared for link in chain.links):
        before_it = Phrase("the update: what is compared before it agrees")
    where = {
        "data": Phrase("in the data: {} of the batch, {}", names, _apart(far)),
        "weights": Phrase(
            "in the weights with which it begins: {}, up to {:.1e} apart", names, far
        ),
        "forward": _where(part.place, part.tensors),
        "loss": Phrase(
            "between the outputs and the loss: all that are compared agree, the loss is {}",
            _apart(far),
        ),
        "backward": Phrase(
            "in the gradients: what is compared before agrees, those of {} {}", names, how
        ),
        "update": Phrase("in {}, the updates of {} are up to {:.1e} apart", before_it, names, far),
    }[part.link]
    limit = min(limits.row, limits.loss if part.tensors[0].a.link == "loss" else limits.row)
    more = "" if part.link in ("backward", "update") else Phrase(" (tolerance {:.1g})", limit)
    for name, *groups in part.settings:
        one, other = (", ".join(f"{x:.6g}" for x in numbers) for numbers in groups)
        more = Phrase("{}; {} is {} in a and {} in b", more, Phrase(name), one, other)
    return Phrase("The runs differ from step {} on, first {}{}.", part.step, where, more)


def _apart(far: float) -> Phrase:
    """How far; another number of elements, or of finite ones, is no distance."""
    return (
        Phrase("{:.1e} apart", far)
        if far < float("inf")
        else Phrase("of another size, or not finite")
    )


def _alone(pair: RowPair) -> str:
    """The run that alone has a gradient, for which a weight stands in the other."""
    here, there = (row.link != "weights" for row in pair[:2])
    return "" if here == there else "a" if here else "b"


def _where(place: PartingPlace | None, tensors: tuple[RowPair, ...]) -> Phrase:
    """Where in the forward pass; a row that is no input is the module's own output, and weights may stand behind it."""
    pair, *moved = tensors
    far = _apart(pair.distance)
    if place is None:
        return Phrase(
            "in the forward pass or the loss function: no output is compared, the loss is {}", far
        )
    who = both(module_text(place.a, place.kind_a), module_text(place.b, place.kind_b))
    if place.between:
        who = Phrase("{} outside of the modules that are compared", who)
    if pair.a.port == "input":
        before = both(pair.a.name, pair.b.name)
        return Phrase("in the forward pass, in {}: what comes before {} is {}", who, before, far)
    text = Phrase(
        "in the forward pass, in {}: the inputs that both have agree, its output is {}", who, far
    )
    return (
        Phrase("{}, as are its weights after the step, which no gradient moves", text)
        if moved
        else text
    )


def around(part: Part) -> Iterator[Phrase]:
    """The last row that agrees, those that are apart, and the lines that called them."""
    if part.before is not None:
        yield Phrase("agrees to {:.1e}: {}", part.before.distance, row_text(part.before))
    for pair in part.tensors[:LISTED]:
        apart = (
            Phrase("in {} alone", run)
            if (run := _alone(pair))
            else Phrase("apart by  {:.1e}", pair.distance)
        )
        yield Phrase("{}: {}", apart, row_text(pair))
    if len(part.tensors) > LISTED:
        yield Phrase("and {} more", len(part.tensors) - LISTED)
    for run, line in (
        ("a", part.place and part.place.line_a),
        ("b", part.place and part.place.line_b),
    ):
        if line:
            yield Phrase("called in {} at {}", run, line)


def link_rows(chain: Chain, limit: float) -> Iterator[tuple[str, int, int, int, str, str]]:
    """A row per link: name, how many were compared, and are in a and in b alone, the farthest, and what is apart."""
    mark, part = "", chain.part
    at = part and {"backward": "gradients", "forward": "forward" if part.place else "loss"}.get(
        part.link, part.link
    )
    for link in chain.links:
        far = "-" if link.distance is None else f"{link.distance:.1e}"
        name = {"forward": "modules"}.get(link.name, link.name)
        mark = "differs first" if link.name == at else mark and "follows from it"
        said = "differs, too" if mark and link.name == "weights" != at else mark
        may_drift = link.name == "weights" and chain.steps[-1] > 1
        is_apart = not may_drift and (link.distance or 0) > limit * (
            GRADIENT if link.name == "gradients" else 1
        )
        yield name, link.compared, *link.alone, far, said if link.name == at or is_apart else ""


def lines(chain: Chain, limit: float) -> Iterator[str]:
    """The rows around the parting, and a table of the links."""
    if chain.part is not None:
        yield from (f"  {row}" for row in around(chain.part))
    yield f"  {'step ' + str(chain.steps[-1]):12} compared    in a, b alone  farthest"
    for name, compared, alone_a, alone_b, far, mark in link_rows(chain, limit):
        yield f"  {name:12} {compared:8}    {alone_a:6}, {alone_b:5}  {far:9} {mark}".rstrip()


def row_text(pair: RowPair) -> str:
    """A row of both runs, with shapes."""
    return both(_row(pair.a), _row(pair.b))


def _row(row: OutputRow) -> Phrase:
    of = Phrase("{} of {}", Phrase(row.port), row.name or Phrase("the network"))
    name = of if row.link == "forward" else row.name or Phrase(row.link)
    path = row.path and Phrase(" at {}", row.path)
    call = Phrase(" (call {})", row.call + 1) if row.call else ""
    return Phrase("{}{}{} {}", name, path, call, list(row.shape))


def module_text(name: str, kind: str) -> Phrase:
    """A module, by name and class, or the training step."""
    module = Phrase("{} ({})", name or Phrase("the network"), kind)
    return Phrase("the training step") if kind == "training step" else module


def both(one: str, other: str) -> str:
    """What two runs say, once if they say the same."""
    return one if one == other else Phrase("{} = {}", one, other)


def chain_dict(chain: Chain) -> dict[str, Any]:
    """The chain as JSON has it."""
    before = chain.part and chain.part.before
    return {
        "steps": chain.steps,
        "links": [link._asdict() for link in chain.links],
        "before": before
        and {"a": _row(before.a), "b": _row(before.b), "distance": before.distance},
    }
