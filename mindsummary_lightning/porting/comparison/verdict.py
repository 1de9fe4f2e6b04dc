"""``compare_runs``: are two recorded runs the same training, and if not, where do they part?"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from mindsummary_lightning.porting.comparison.alignment import (
    Alignment,
    align,
    counted_alike,
    largest_scalar_differences,
    setting_differences,
    whole_distances,
)
from mindsummary_lightning.porting.comparison.beginning import Beginning, beginning_of
from mindsummary_lightning.porting.comparison.chain import TIMES_FLOOR, compare_chains
from mindsummary_lightning.porting.comparison.chain_parts import Chain, Part
from mindsummary_lightning.porting.comparison.chain_words import sentence as chain_sentence
from mindsummary_lightning.porting.comparison.distances import (
    TOLERANCES,
    Distances,
    Tolerance,
    largest,
    largest_first,
    loss_distances,
    tensor_distances,
)
from mindsummary_lightning.porting.comparison.hints import (
    first_failures,
    hints_of,
    loss_ratio,
    remarks_of,
)
from mindsummary_lightning.porting.comparison.parting import (
    losses_of_shares,
    parting,
    wandering_tensors,
)
from mindsummary_lightning.porting.comparison.result import (
    Alone,
    Comparison,
    FirstDifference,
    Mode,
    TensorDistance,
    Verdict,
)
from mindsummary_lightning.porting.comparison.sides import LOSS, Side, magnitudes, read_side
from mindsummary_lightning.values.text import Phrase, listed

# of a tensor recorded whole, and of gradients where nothing else was recorded
_BEYOND_ROUNDING = 1e-2
_COMPARABLE = 1e-2  # median distance of tensors, without a loss
_LATE = "In the chains step {} begins with other weights; whether by rounding is not to be seen."


def compare_runs(
    a: str | os.PathLike[str],
    b: str | os.PathLike[str],
    *,
    names: Mapping[str, str] | None = None,
    tolerance: Literal["float32", "bfloat16", "float16"] | float | None = None,
    same: str | os.PathLike[str] | None = None,
    progress: Callable[[int], object] = lambda count: None,
) -> Comparison:
    """Compare two runs by their losses and the histograms of their weights and gradients.

    Args:
        a: directory of a run, of MindSpore or of this package.
        b: directory of another run.
        names: tensors of the first run by their names in the second, where they cannot be matched
            by themselves.
        tolerance: ``"float32"``, ``"bfloat16"``, a positive number for tensors and losses alike, or
            ``None``: by the weaker precision that the runs state.
        same: directory of a second run of the program of ``a``. How far the two part is rounding,
            step by step, and three times as much is no difference.
        progress: called with the bytes of the files of each run that has been read.

    Returns:
        The result. It names no cause, only what was recorded.

    Raises:
        NotADirectoryError: ``a``, ``b`` or ``same`` is not a directory.
        FileNotFoundError: it holds no run.
        DamagedFileError: a file is damaged.
        ValueError: ``names`` or ``tolerance`` cannot be used.
    """
    sides = read_side(a, progress), read_side(b, progress)
    limits = _tolerance(tolerance, *sides)
    sides, shift = counted_alike(*sides)
    alignment = align(*sides, names)
    found, floor, tables = _distances(alignment, limits), None, None
    if same is not None:
        second = read_side(same, progress)
        again, tables = align(sides[0], second), second.modules
        rounding = _distances(again, limits)
        if os.path.samefile(same, b) or rounding.losses[:1].max(initial=0.0) > _COMPARABLE:
            raise ValueError(
                f"{second.run_dir} is no second run of a: it is b, or its first loss is another"
            )
        found, floor = _above(found, alignment, again, rounding)
    beginning = beginning_of(alignment)
    chain, late, carried = compare_chains(
        sides[0].modules, sides[1].modules, limits, names or {}, tables
    )
    mode = "exact" if chain else _mode(alignment, found, beginning) or ("exact" if late else None)
    whole = whole_distances(*sides)
    if mode == "exact":
        answer = _followed(sides, alignment, found, beginning, chain, trusts_chain=same is None)
        first, sentence = answer.first, answer.sentence
        if not sentence:
            first, sentence = _whole_difference(whole, max(_BEYOND_ROUNDING, limits.tensor))
        seen = {
            pair.a
            for pair in alignment.names.pairs
            if late and alignment.steps.max(initial=0) >= late.step
        }
        if not sentence and late and not {pair.a.name for pair in late.tensors} <= seen:
            sentence = Phrase(_LATE, late.step)
        verdict: Verdict = "different" if first else "undecided" if sentence else "same"
    else:
        first, sentence = None, _without_steps(alignment, found, beginning)
        verdict, answer = (
            "different" if mode else "not_comparable",
            _Answer(None, sentence, alignment, found, None, {}),
        )
    unmatched = _unmatched(sides, alignment, chain, carried)
    alone = {
        run: Alone(x.steps_without(y), len(unmatched[run]))
        for run, x, y in (("a", *sides), ("b", *sides[::-1]))
    }
    common = {*alignment.steps.tolist(), *(chain.steps if chain else ())}
    common |= {*alignment.loss_steps.tolist()} if alignment.loss_tag == LOSS else set()
    steps = max(len(common), alignment.loss_steps.size)  # a logged loss may be counted from zero
    compared, shown, walking = answer.alignment, answer.distances, answer.walking
    if verdict == "same":
        sentence = _no_difference(compared, shown, walking, alone, steps)
    remarks = remarks_of(sides, bool(alignment.names.pairs), answer.shares, walking, shift)
    facts = hints_of(sides, compared, first.step) if first else ()
    return Comparison(
        a=sides[0].run_dir,
        b=sides[1].run_dir,
        verdict=verdict,
        mode=mode,
        sentence=sentence,
        first_difference=first,
        unmatched=unmatched,
        guessed=tuple((pair.a, pair.b) for pair in alignment.names.pairs if pair.rule == "place"),
        by_value=tuple((pair.a, pair.b) for pair in alignment.names.pairs if pair.rule == "value"),
        compared={
            "steps": steps,
            "tensors": found.tensors[:, :1].size,
            "losses": int(compared.loss_steps.size),
        },
        alone=alone,
        largest={"loss": largest(shown.losses), "tensor": largest(shown.tensors)},
        tolerance=limits,
        floor=floor,
        settings=setting_differences(*sides),
        scalars=largest_scalar_differences(*sides),
        whole_tensors=largest_first({one: max(far.values()) for (one, _), far in whole.items()}),
        hints=(*remarks, *first_failures(sides, alignment), *facts),
        trend=_trend(sides, alignment) if mode == "trend" else {},
        chain=chain,
        alignment=alignment,
        losses=found.losses,
        distances=found.tensors,
    )


class _Answer(NamedTuple):
    """What losses, tensors and chains say together, and of which numbers.

    Attributes:
        first: where the runs part, or ``None``.
        sentence: about it; ``""`` if nothing parts.
        alignment: what was compared.
        distances: of it.
        shares: a step whose losses are of shares of a batch, and how far losses and updates are
            apart, or ``None``.
        walking: how far tensors that walk by themselves are apart, by name.
    """

    first: FirstDifference | None
    sentence: str
    alignment: Alignment
    distances: Distances
    shares: tuple[int, float, float] | None
    walking: dict[str, float]


def _followed(
    sides: tuple[Side, Side], alignment: Alignment, found: Distances, beginning: Beginning, chain: Chain | None,
    trusts_chain: bool,
) -> _Answer:  # fmt: skip
    """Follow two runs step by step."""
    agreed = chain.steps[: -1 if chain.part else None] if chain else []
    counting = (
        _without_agreed(found, alignment, agreed)
        if chain and chain.calls.pairs and trusts_chain
        else found
    )
    compared, shown = alignment, found
    shares = None if loss_ratio(alignment) else losses_of_shares(alignment, counting)
    if shares is not None:
        compared = replace(
            alignment, loss_steps=alignment.loss_steps[:0], losses=alignment.losses[:, :0]
        )
        counting, shown = (
            x._replace(losses=x.losses[:0], loss_limits=x.losses[:0]) for x in (counting, found)
        )
    is_walking, until = wandering_tensors(compared, counting)
    far = np.where(compared.steps < until, counting.tensors, np.nan)
    walking = {
        alignment.names.pairs[i].a: largest(far[i]) or 0.0
        for i in np.flatnonzero(is_walking).tolist()
    }
    first, sentence = parting(sides, compared, counting, beginning, is_walking, agreed)
    # The weights with which the first step of a chain begins show that nothing has parted before
    # it.
    if chain and chain.part and not (first and chain.steps[0] <= first.step < chain.part.step):
        first = _of_chain(chain, chain.part, alignment, found)
        sentence = chain_sentence(chain, chain.part, found.tolerance)
    return _Answer(first, sentence, compared, shown, shares, walking)


def _unmatched(
    sides: tuple[Side, Side], alignment: Alignment, chain: Chain | None, carried: Mapping[str, str]
) -> dict[str, tuple[str, ...]]:
    """Tensors of histograms, chains and statistics that one run alone has."""
    paired = {pair.a: pair.b for pair in alignment.names.pairs} | {**carried}
    rows = [step.rows for step in (chain.calls.a, chain.calls.b)] if chain else [[], []]
    held = [
        [row.name for row in each if (row.link, row.kind) == ("weights", "parameter")]
        for each in rows
    ]
    stated = [side.table if all(x.table for x in sides) else None for side in sides]
    each = zip(
        "ab", alignment.names[1:], held, stated, ({*paired}, {*paired.values()}), strict=True
    )
    return {
        run: tuple(
            x
            for x in dict.fromkeys((*names, *own, *magnitudes(table, {*names, *own, *done})))
            if x not in done
        )
        for run, names, own, table, done in each
    }


def _without_agreed(found: Distances, alignment: Alignment, agreed: list[int]) -> Distances:
    """Distances that do not count at the steps of which the chains agree."""
    near = (
        np.minimum(found.losses, found.loss_limits),
        np.minimum(found.tensors, found.tensor_limits),
    )
    losses = np.where(np.isin(alignment.loss_steps, agreed), near[0], found.losses)
    return found._replace(
        losses=losses, tensors=np.where(np.isin(alignment.steps, agreed), near[1], found.tensors)
    )


def _of_chain(chain: Chain, part: Part, alignment: Alignment, found: Distances) -> FirstDifference:
    tensors = tuple(
        TensorDistance(pair.a.name, pair.b.name, pair.distance) for pair in part.tensors
    )
    loss = alignment.loss_at(part.step, found.losses)
    losses = alignment.loss_steps.tolist() if alignment.loss_tag == LOSS else []
    after = max(
        (x for x in [*alignment.steps.tolist(), *losses, *chain.steps] if x < part.step),
        default=None,
    )
    return FirstDifference(part.step, part.link, loss, tensors, after, part.place, part.settings)


def _tolerance(asked: object, a: Side, b: Side) -> Tolerance:
    if asked is None:
        stated = f"{a.precision} {b.precision}"
        return TOLERANCES[
            "bfloat16" if "bf" in stated else "float16" if "16" in stated else "float32"
        ]
    if isinstance(asked, str) and asked in TOLERANCES:
        return TOLERANCES[asked]
    if isinstance(asked, bool) or not isinstance(asked, (int, float)) or not 0 < asked < 1:
        raise ValueError(
            f"tolerance must be float32, bfloat16, float16 or a number between 0 and 1, not {asked!r}"
        )
    return Tolerance(f"{asked:g}", float(asked), float(asked), float(asked))


def _distances(alignment: Alignment, limits: Tolerance) -> Distances:
    losses, tensors = loss_distances(*alignment.losses), tensor_distances(*alignment.tensors)
    tensors = np.where(
        (alignment.nonfinite[0] != alignment.nonfinite[1]).any(axis=2), np.inf, tensors
    )
    # rounding shows in gradients first
    only_gradients = not alignment.is_weight.any() and not losses.size
    tensor = max(_BEYOND_ROUNDING, limits.tensor) if only_gradients else limits.tensor
    return Distances(
        losses, tensors, np.full(losses.shape, limits.loss), np.full(tensors.shape, tensor), limits
    )


def _above(
    found: Distances, alignment: Alignment, again: Alignment, rounding: Distances
) -> tuple[Distances, dict[str, float | None]]:
    """Limits that are not below three times what two runs of one program are apart up to the step after each.

    Rounding of another kernel is in other tensors, and a step ahead or behind where it grows fast.
    """
    limits = []
    for own, theirs, steps, series in (
        (found.loss_limits, again.loss_steps, alignment.loss_steps, rounding.losses),
        (
            found.tensor_limits,
            again.steps,
            alignment.steps,
            np.fmax.reduce(rounding.tensors, axis=0, initial=0.0),
        ),
    ):
        farthest = np.maximum.accumulate(np.concatenate([[0.0], series]))
        at = np.minimum(np.searchsorted(theirs, steps, side="right") + 1, series.size)
        limits.append(np.maximum(own, TIMES_FLOOR * farthest[at]))
    floor = {"loss": largest(rounding.losses), "tensor": largest(rounding.tensors)}
    return found._replace(loss_limits=limits[0], tensor_limits=limits[1]), floor


def _mode(alignment: Alignment, found: Distances, beginning: Beginning) -> Mode | None:
    known = np.isfinite(found.tensors)
    if not found.losses.size and not known.any():
        return None
    if beginning.are_alike is False:
        return "trend"
    if found.losses.size:
        is_same = found.losses[0] <= found.loss_limits[0] or found.losses[0] == np.inf
        return "exact" if is_same or beginning.are_alike or loss_ratio(alignment) else "trend"
    first = found.tensors[:, known.any(axis=0).argmax()]
    return "exact" if beginning.are_alike or np.nanmedian(first) <= _COMPARABLE else "trend"


def _whole_difference(
    whole: Mapping[tuple[str, str], Mapping[int, float]], limit: float
) -> tuple[FirstDifference | None, str]:
    """Where tensors recorded whole part by more than rounding, of runs whose losses and weights agree."""
    parted = [step for far in whole.values() for step, distance in far.items() if distance > limit]
    if not parted:
        return None, ""
    step = min(parted)
    tensors = [
        TensorDistance(*names, far[step])
        for names, far in whole.items()
        if far.get(step, 0.0) > limit
    ]
    tensors.sort(key=lambda tensor: -tensor.distance)
    before = [earlier for far in whole.values() for earlier in far if earlier < step]
    first = FirstDifference(step, None, None, tuple(tensors), max(before, default=None))
    return first, Phrase(
        "The runs differ from step {} on, first in {}, recorded whole: {:.1e} apart; losses and weights are the same.",
        step, tensors[0].a, tensors[0].distance,
    )  # fmt: skip


def _trend(sides: tuple[Side, Side], alignment: Alignment) -> dict[str, float | None]:
    """Differences of the courses of two runs that are not followed step by step."""
    trend: dict[str, float | None] = {}
    last = alignment.losses[:, -max(1, alignment.loss_steps.size // 10) :]
    for run, side, losses in zip("ab", sides, last, strict=True):
        known = losses[np.isfinite(losses)]
        trend[f"final_loss_{run}"] = float(known.mean()) if known.size else None
        series = side.scalars.get(alignment.loss_tag or "")
        if series is not None and len(series) > 2:
            trend[f"seconds_per_step_{run}"] = float(
                np.median(np.diff(series.wall_times) / np.diff(series.steps))
            )
    return trend


def _without_steps(alignment: Alignment, found: Distances, beginning: Beginning) -> str:
    """Why the runs are not followed step by step."""
    if not alignment.steps.size and not alignment.loss_steps.size:
        return Phrase(
            "The runs have no step in common at which both recorded a tensor, or a loss that is known to be of that "
            "training step: record both with collect_freq=1 and histogram_regular='.*'."
        )
    if beginning.are_alike is False:
        step, far = (
            int(alignment.steps[0]),
            float(np.nanmedian(found.tensors[alignment.is_weight, 0])),
        )
        return Phrase(
            "The runs began with other weights: after step {}, the first that both recorded, half of them are more "
            "than {:.1e} apart, farther than their updates lead. Only their trends are compared.",
            step, far,
        )  # fmt: skip
    what, steps = Phrase("tensors are"), alignment.steps
    if found.losses.size:
        what, steps = Phrase("losses are {:.1e}", found.losses[0]), alignment.loss_steps
    return Phrase(
        "The {} apart at step {}, the first that both recorded; whether the weights before it were the same is not to "
        "be seen in what was recorded. Only their trends are compared.",
        what, int(steps[0]),
    )  # fmt: skip


def _no_difference(
    alignment: Alignment,
    found: Distances,
    walking: Mapping[str, float],
    alone: Mapping[str, Alone],
    steps: int,
) -> str:
    counting = [pair.a not in walking for pair in alignment.names.pairs]
    kinds = (("losses", largest(found.losses)), ("tensors", largest(found.tensors[counting])))
    parts = [
        Phrase("{} at most {:.1e}", Phrase(kind), far) for kind, far in kinds if far is not None
    ]
    but = Phrase(" but in {}", listed([*walking], 3)) if walking else ""
    enumerated = functools.partial(functools.reduce, functools.partial(Phrase, "{}, {}"))
    text = Phrase("No difference in the chains of the steps")
    if parts:
        text = Phrase("No difference{}: {} apart ({})", but, enumerated(parts), found.tolerances)
    if (found.far & alignment.is_weight[:, None])[counting].any() or (
        found.losses > found.loss_limits
    ).any():
        text = Phrase("{}, as far as rounding may have grown", text)
    more = [Phrase("{} has {} more", run, of.steps) for run, of in alone.items() if of.steps]
    if more:
        text = Phrase("{}; steps in common: {}; {}", text, steps, enumerated(more))
    return Phrase("{}.", text)
