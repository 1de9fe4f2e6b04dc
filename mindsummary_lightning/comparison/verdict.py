"""``compare_runs``: are two recorded runs the same training, and if not, where do they part?"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np

from mindsummary_lightning.comparison.alignment import (
    Alignment,
    Side,
    align,
    largest_scalar_differences,
    read_side,
    setting_differences,
)
from mindsummary_lightning.comparison.beginning import Beginning, beginning_of
from mindsummary_lightning.comparison.chain import Chain, compare_chains
from mindsummary_lightning.comparison.chain_parts import Part
from mindsummary_lightning.comparison.chain_words import sentence as chain_sentence
from mindsummary_lightning.comparison.distances import (
    TOLERANCES,
    Floats,
    Tolerance,
    largest_first,
    loss_distances,
    smoothed,
    tensor_distances,
)
from mindsummary_lightning.comparison.hints import (
    Hint,
    first_failures,
    hints_of,
    loss_ratio,
    losses_apart,
    shares,
    walks,
)
from mindsummary_lightning.comparison.parting import Distances, losses_of_shares, parting, wandering_tensors
from mindsummary_lightning.comparison.recorded_tensors import WholeTensor, whole_tensors
from mindsummary_lightning.comparison.result import (
    Alone,
    Comparison,
    FirstDifference,
    Mode,
    TensorDistance,
    Verdict,
)
from mindsummary_lightning.values.text import listed

_BEYOND_ROUNDING = 1e-2  # of a tensor recorded whole, and of gradients where nothing else was recorded
_COMPARABLE = 1e-2  # median distance of tensors, without a loss
_TIMES_FLOOR = 3.0  # how far beyond what a second run of the first shows


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
        names: tensors of the first run by their names in the second, where they cannot be matched by themselves.
        tolerance: ``"float32"``, ``"bfloat16"``, a positive number for tensors and losses alike, or ``None``: by the
            weaker precision that the runs state.
        same: directory of a second run of the program of ``a``. How far the two part is rounding, step by step, and
            three times as much is no difference.
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
    alignment = align(*sides, names)
    found = _distances(alignment, limits)
    floor = None
    if same is not None:
        again = align(sides[0], read_side(same, progress))
        found, floor = _above(found, alignment, again, _distances(again, limits))
    beginning = beginning_of(alignment)
    whole = whole_tensors(sides[0].whole, sides[1].whole)
    begin = min((int(side.steps[0]) for side in sides), default=1)
    chain = compare_chains(sides[0].modules, sides[1].modules, limits.row, begin)
    mode = _mode(alignment, found, beginning)
    trend = _trend(*sides, alignment) if mode == "trend" else {}
    if chain is not None:
        mode, found = "exact", _followed(found, alignment, chain)
    remarks = shares(*sides) if alignment.names.pairs else []
    first: FirstDifference | None = None
    verdict: Verdict = "same"
    sentence = ""
    if mode == "exact":
        share = losses_of_shares(alignment, found)
        if share is not None and loss_ratio(alignment) is None:
            remarks.append(losses_apart(*share))
            found = found._replace(losses=np.zeros_like(found.losses), has_losses=False)
        wandering, until = wandering_tensors(alignment, found)
        for index in np.flatnonzero(wandering).tolist():
            apart = float(np.nanmax(found.tensors[index, alignment.steps < until]))
            remarks.append(walks(alignment.names.pairs[index].a, apart, until))
        first, sentence = parting(*sides, alignment, found, beginning, wandering, tolerance is None)
        if chain is not None and chain.part is not None and (first is None or first.step >= chain.part.step):
            first, sentence = _of_chain(chain, chain.part, alignment, found), chain_sentence(chain.part, limits.row)
        verdict = "different" if first else "undecided" if sentence else "same"
        if not first and not sentence:
            first = _first_whole_tensor(whole, limits)
            if first is not None:
                verdict, far = "different", first.tensors[0]
                sentence = f"The runs differ from step {first.step} on, first in {far.a}, recorded whole: "
                sentence += f"{far.distance:.1e} apart; losses and weights are the same."
    else:
        verdict = "not_comparable" if mode is None else "different"
        sentence = _without_steps(mode, alignment, found, beginning)
    alone = {"a": _alone(*sides, alignment.names.unmatched_a), "b": _alone(*sides[::-1], alignment.names.unmatched_b)}
    if verdict == "same":
        sentence = _no_difference(alignment, found, remarks, alone)
    hints = [*remarks, *first_failures(*sides), *(hints_of(*sides, alignment, first.step) if first else ())]
    return Comparison(
        a=sides[0].run_dir,
        b=sides[1].run_dir,
        verdict=verdict,
        mode=mode,
        sentence=sentence,
        first_difference=first,
        unmatched={"a": alignment.names.unmatched_a, "b": alignment.names.unmatched_b},
        guessed=tuple((pair.a, pair.b) for pair in alignment.names.pairs if pair.rule == "place"),
        by_value=tuple((pair.a, pair.b) for pair in alignment.names.pairs if pair.rule == "value"),
        compared={
            "steps": int(np.union1d(alignment.steps, alignment.loss_steps).size),
            "tensors": len(alignment.names.pairs),
            "losses": int(alignment.loss_steps.size),
        },
        alone=alone,
        largest={"loss": _largest(found.losses), "tensor": _largest(found.tensors)},
        tolerance=limits,
        floor=floor,
        settings=setting_differences(*sides),
        scalars=largest_scalar_differences(*sides),
        whole_tensors=largest_first({tensor.a: float(tensor.distances.max()) for tensor in whole}),
        hints=tuple(hints),
        trend=trend,
        chain=chain,
        alignment=alignment,
        losses=found.losses,
        distances=found.tensors,
    )


def _followed(found: Distances, alignment: Alignment, chain: Chain) -> Distances:
    """Distances that do not count at the steps of which the chains agree."""
    agreeing = [step for step in chain.steps if chain.part is None or step < chain.part.step]
    losses = np.where(np.isin(alignment.loss_steps, agreeing), np.fmin(found.losses, found.loss_limits), found.losses)
    tensors = np.where(np.isin(alignment.steps, agreeing), np.fmin(found.tensors, found.tensor_limits), found.tensors)
    return found._replace(losses=losses, tensors=tensors)


def _of_chain(chain: Chain, part: Part, alignment: Alignment, found: Distances) -> FirstDifference:
    tensors = tuple(TensorDistance(pair.a.name, pair.b.name, pair.distance) for pair in part.tensors)
    loss = alignment.loss_at(part.step, found.losses)
    after = chain.steps[-2] if len(chain.steps) > 1 else None
    return FirstDifference(part.step, part.link, loss, tensors, after, part.place, part.settings)


def _tolerance(asked: object, a: Side, b: Side) -> Tolerance:
    if asked is None:
        stated = " ".join(str(side.settings.get("precision", "")) for side in (a, b))
        return TOLERANCES["bfloat16" if "16" in stated else "float32"]
    if isinstance(asked, str) and asked in (*TOLERANCES, "float16"):
        return TOLERANCES["float32" if asked == "float32" else "bfloat16"]
    if isinstance(asked, bool) or not isinstance(asked, (int, float)) or not 0 < asked < 1:
        raise ValueError(f"tolerance must be float32, bfloat16, float16 or a number between 0 and 1, not {asked!r}")
    return Tolerance(f"{asked:g}", float(asked), float(asked), float(asked))


def _distances(alignment: Alignment, limits: Tolerance) -> Distances:
    losses, tensors = loss_distances(*alignment.losses), tensor_distances(*alignment.tensors)
    tensors = np.where((alignment.nonfinite[0] != alignment.nonfinite[1]).any(axis=2), np.inf, tensors)
    only_gradients = not alignment.is_weight.any() and not losses.size  # rounding shows in gradients first
    tensor = max(_BEYOND_ROUNDING, limits.tensor) if only_gradients else limits.tensor
    return Distances(losses, tensors, np.full(losses.shape, limits.loss), np.full(tensors.shape, tensor), limits)


def _above(
    found: Distances, alignment: Alignment, again: Alignment, rounding: Distances
) -> tuple[Distances, dict[str, float | None]]:
    """Limits that are not below three times what two runs of one program are apart up to the step after each.

    Rounding of another kernel is in other tensors, and a step ahead or behind where it grows fast.
    """
    losses, tensors = rounding.losses, np.fmax.reduce(rounding.tensors, axis=0, initial=0.0)
    limits = []
    for own, theirs, series, steps in (
        (found.loss_limits, again.loss_steps, losses, alignment.loss_steps),
        (found.tensor_limits, again.steps, tensors, alignment.steps),
    ):
        largest = np.maximum.accumulate(np.concatenate([[0.0], series]))
        at = np.minimum(np.searchsorted(theirs, steps, side="right") + 1, series.size)
        limits.append(np.maximum(own, _TIMES_FLOOR * largest[at]))
    floor = {"loss": _largest(losses), "tensor": _largest(rounding.tensors)}
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


def _first_whole_tensor(whole: list[WholeTensor], limits: Tolerance) -> FirstDifference | None:
    """Where tensors recorded whole part by more than rounding, of runs whose losses and weights agree."""
    limit = max(_BEYOND_ROUNDING, limits.tensor)
    far = {int(tensor.steps[tensor.distances > limit][0]) for tensor in whole if (tensor.distances > limit).any()}
    if not far:
        return None
    step = min(far)
    tensors = [
        TensorDistance(tensor.a, tensor.b, float(tensor.distances[tensor.steps == step][0]))
        for tensor in whole
        if (tensor.distances[tensor.steps == step] > limit).any()
    ]
    before = [int(earlier) for tensor in whole for earlier in tensor.steps if earlier < step]
    tensors.sort(key=lambda tensor: -tensor.distance)
    return FirstDifference(step, None, None, tuple(tensors), max(before, default=None))


def _alone(side: Side, other: Side, unmatched: tuple[str, ...]) -> Alone:
    return Alone(int(np.setdiff1d(side.steps, other.steps).size), len(unmatched))


def _trend(a: Side, b: Side, alignment: Alignment) -> dict[str, float | None]:
    """Differences of the courses of two runs that are not followed step by step."""
    trend: dict[str, float | None] = {}
    if alignment.losses.shape[1]:
        one, other = (smoothed(losses) for losses in alignment.losses)
        scale = max(abs(one[-1]), abs(other[-1])) or 1.0
        trend["final_loss_a"], trend["final_loss_b"] = float(one[-1]), float(other[-1])
        trend["final_loss_difference"] = float(abs(one[-1] - other[-1]) / scale)
        largest = np.fmax.reduce(np.abs([one, other]), axis=None)
        trend["largest_loss_difference"] = float(np.fmax.reduce(np.abs(one - other)) / (largest or 1.0))
    for key, side in (("seconds_per_step_a", a), ("seconds_per_step_b", b)):
        series = side.scalars.get(alignment.loss_tag or "")
        if series is not None and len(series) > 2:
            trend[key] = float(np.median(np.diff(series.wall_times) / np.diff(series.steps)))
    return trend


def _without_steps(mode: str | None, alignment: Alignment, found: Distances, beginning: Beginning) -> str:
    if mode is None:
        return (
            "The runs have no step in common at which both recorded a loss or a tensor: record both with "
            "collect_freq=1 and histogram_regular='.*'."
        )
    courses = "Only their courses are compared."
    if beginning.are_alike is False:
        step, far = int(alignment.steps[0]), float(np.nanmedian(found.tensors[alignment.is_weight, 0]))
        return (
            f"The runs began with other weights: after step {step}, the first that both recorded, half of them are "
            f"more than {far:.1e} apart, farther than their updates lead. {courses}"
        )
    what = "tensors are"
    if found.losses.size:
        what = f"losses are {found.losses[0]:.1e}"
    step = int((alignment.loss_steps if found.losses.size else alignment.steps)[0])
    return (
        f"The {what} apart at step {step}, the first that both recorded; whether the weights before it were the same "
        f"is not to be seen in what was recorded. {courses}"
    )


def _no_difference(alignment: Alignment, found: Distances, remarks: list[Hint], alone: Mapping[str, Alone]) -> str:
    but = [str(hint.numbers["tensor"]) for hint in remarks if hint.rule == "walks"]
    counting = [pair.a not in but for pair in alignment.names.pairs]
    parts = []
    if found.losses.size and found.has_losses:
        parts.append(f"losses at most {_largest(found.losses):.1e}")
    largest = _largest(found.tensors[counting])
    if largest is not None:
        parts.append(f"tensors at most {largest:.1e}")
    text = f"No difference{f' but in {listed(but, 3)}' if but else ''}: {', '.join(parts)} apart ({found.tolerances})"
    if (found.far & alignment.is_weight[:, None])[counting].any():
        text += ", as far as rounding may have grown"
    more = [f"{run} has {found_alone.steps} more steps" for run, found_alone in alone.items() if found_alone.steps]
    if more:
        text += f" at the {alignment.loss_steps.size or alignment.steps.size} steps in common; {', '.join(more)}"
    return text + "."


def _largest(distances: Floats) -> float | None:
    known = distances[~np.isnan(distances)]
    return float(known.max()) if known.size else None
