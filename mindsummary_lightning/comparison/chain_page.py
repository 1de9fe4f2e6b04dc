"""The chain of a step on the page of a comparison: its links, and the modules folded as they lie in each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape

import numpy as np

from mindsummary_lightning.comparison.calls import Call
from mindsummary_lightning.comparison.chain import Chain
from mindsummary_lightning.comparison.chain_words import both, lines, row_text
from mindsummary_lightning.comparison.distances import Floats

Say = Callable[..., str]


def chain_parts(chain: Chain, say: Say) -> Iterator[str]:
    """Rows around the parting, the table of links, and the modules: green ones agree, grey ones follow."""
    text = "\n".join(line[2:] for line in lines(chain))
    yield f"<h2>{say('The chain of step {}', chain.steps[-1])}</h2>"
    yield f'<pre class="scroll" lang="en">{escape(text)}</pre>'
    if chain.calls.a.calls:
        note = "Modules in the order in which they finished: green agrees, grey follows from the first difference."
        yield f'<p class="small">{say(note)}</p><div class="chain" lang="en">{_tree(chain)}</div>'


def growth(chain: Chain) -> Floats:
    """How far the outputs of the paired calls are apart, in their order."""
    return np.array([chain.calls.outputs(pair.a, pair.b)[0] for pair in chain.calls.pairs], np.float64)


def _tree(chain: Chain) -> str:
    calls, at = chain.calls.a.calls, _parting(chain)
    opened = {at}
    children: dict[int | None, list[int]] = {}
    for index in range(len(calls)):
        children.setdefault(chain.calls.a.parent(index), []).append(index)
    around: int | None = at if 0 <= at < len(calls) else None
    while around is not None:
        around = chain.calls.a.parent(around)
        opened.add(-1 if around is None else around)

    def shown(index: int) -> str:
        call, partner = calls[index], chain.calls.partner(index)
        text = _named(call)
        state = "first" if index == at else "follows" if index > at else ""
        if partner is None:
            text, state = f"{text}: not paired", state or "alone"
        else:
            far, _ = chain.calls.outputs(index, partner)
            other = chain.calls.b.calls[partner]
            text = f"{both(text, _named(other))}: {far:.1e}"
            if index == at and chain.part is not None:
                text += f"; {row_text(chain.part.tensors[0])}"
            state = state or "agrees"
        inner = "".join(shown(child) for child in children.get(index, []))
        label = f'<span class="{state}">{escape(text)}</span>'
        if not inner:
            return f"<div>{label}</div>"
        return f"<details{' open' if index in opened else ''}><summary>{label}</summary>{inner}</details>"

    return "".join(shown(index) for index in children.get(None, []))


def _named(call: Call) -> str:
    return f"{call.name or 'the network'} ({call.kind})"


def _parting(chain: Chain) -> int:
    """The call at which the chain parts; -1 if it does before all calls, and their number if after them."""
    calls, part = chain.calls.a.calls, chain.part
    if part is not None and part.link in ("data", "weights"):
        return -1
    if part is None or part.link != "forward":
        return len(calls)
    row = part.tensors[0].a
    return next(place for place, call in enumerate(calls) if (call.name, call.number) == (row.name, row.call))
