"""The chain of a step on the page of a comparison: the modules folded as they lie in each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from mindsummary_lightning.comparison.chain import Chain
from mindsummary_lightning.comparison.chain_words import both, module_text, row_text
from mindsummary_lightning.comparison.distances import Floats
from mindsummary_lightning.values.text import Phrase


def modules(chain: Chain, say: Callable[..., str]) -> Iterator[str]:
    """The modules: green ones agree, grey ones follow."""
    if chain.calls.a.calls:
        note = "Modules in the order in which they finished: green agrees, grey follows from the first difference."
        yield f'<p class="small">{say(note)}</p><div class="chain">{_tree(chain, say)}</div>'


def growth(chain: Chain) -> Floats:
    """How far the outputs of the paired calls are apart, in their order."""
    calls = chain.calls
    return np.array([calls.distance(*calls.outputs(*pair)) for pair in calls.pairs], np.float64)


def _tree(chain: Chain, say: Callable[..., str]) -> str:
    """The calls, each with those in it behind; the one where the chain parts is open with all around it."""
    both_calls, at = chain.calls, _parting(chain)
    calls, parents = both_calls.a.calls, both_calls.a.parents
    inner = [""] * (len(calls) + 1)  # the last of those that nothing is around
    for index, call in enumerate(calls):
        text: str = module_text(call.name, call.kind)
        state = "first" if index == at else "follows" if index > at else ""
        partner = both_calls.partner.get(index)
        if partner is None:
            text, state = Phrase("{}: not paired", text), state or "alone"
        else:
            other = both_calls.b.calls[partner]
            far = both_calls.distance(*both_calls.outputs(index, partner))
            text = Phrase("{}: {:.1e}", both(text, module_text(other.name, other.kind)), far)
        if index == at and chain.part is not None:
            text = Phrase("{}; {}", text, row_text(chain.part.tensors[0]))
        label = f'<span class="{state or "agrees"}">{say(text)}</span>'
        is_open = index == at or at in both_calls.a.within[index]
        folded = f"<details{' open' * is_open}><summary>{label}</summary>{inner[index]}</details>"
        around = parents[index]
        inner[-1 if around is None else around] += folded if inner[index] else f"<div>{label}</div>"
    return inner[-1]


def _parting(chain: Chain) -> int:
    """The call at which the chain parts; -1 if it does before all calls, and their number if after them."""
    calls, part = chain.calls.a.calls, chain.part
    if part is not None and part.link in ("data", "weights"):
        return -1
    if part is None or part.link != "forward":
        return len(calls)
    row = part.tensors[0].a
    return next(place for place, call in enumerate(calls) if (call.name, call.number) == (row.name, row.call))
