"""Finds the training loss that both runs recorded, and its values."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.porting.comparison.distances import Floats, loss_distances
from mindsummary_lightning.porting.comparison.run_data import LOSS, RunData
from mindsummary_lightning.porting.comparison.tolerance_table import TOLERANCES

_NOT_OF_TRAINING = {"val", "valid", "validation", "test", "testing", "eval", "evaluation", "epoch"}
_NO_MEANING = {"auto", "step", "train", "training"}  # words of a loss that is of training anyway
_UNKNOWN_GAP = 2**31


class LossTags(NamedTuple):
    """Tags of the training loss in the baseline and in the candidate."""

    a: str
    b: str


class CommonSeries(NamedTuple):
    """The values of a scalar in two runs, at the steps that both runs recorded.

    Attributes:
        steps: int64, shape ``(s,)``.
        values: float64, shape ``(2, s)``: baseline and candidate.
    """

    steps: NDArray[np.int64]
    values: Floats


EMPTY_SERIES = CommonSeries(np.empty(0, np.int64), np.empty((2, 0)))


def loss_tags(a: Iterable[str], b: Iterable[str]) -> LossTags | None:
    """Find the tags of the training loss in both runs.

    The tag is ``loss/auto``, an equal tag in both runs, or two tags with the same words.
    """
    tags_a, tags_b = _training_losses(a), _training_losses(b)
    common = [tag for tag in tags_a if tag in tags_b]
    if common:
        tag = LOSS if LOSS in common else min(common)
        return LossTags(tag, tag)
    plain_b = dict(zip(map(_plain, tags_b), tags_b, strict=True))
    for tag in tags_a:
        if _plain(tag) in plain_b:
            return LossTags(tag, plain_b[_plain(tag)])
    return None


def _words(tag: str) -> list[str]:
    """Split a tag into lower-case words: ``val/latestLoss`` into val, latest and loss."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", tag).lower()
    return re.findall(r"[a-z]+", spaced.replace("loss", " loss "))


def _training_losses(tags: Iterable[str]) -> list[str]:
    losses = []
    for tag in tags:
        is_loss = "loss" in tag.lower()
        if is_loss and _NOT_OF_TRAINING.isdisjoint(_words(tag)):
            losses.append(tag)
    return losses


def _plain(tag: str) -> str:
    """Return a tag's words without those words that any training loss may have."""
    return "".join(word for word in _words(tag) if word not in _NO_MEANING)


def common_series(a: RunData, b: RunData, tags: LossTags) -> CommonSeries:
    """Return the values of a scalar in both runs, at the steps that both recorded."""
    series_a, series_b = a.scalars[tags.a], b.scalars[tags.b]
    steps, places_a, places_b = np.intersect1d(
        series_a.steps, series_b.steps, assume_unique=True, return_indices=True
    )
    values = np.stack([series_a.values[places_a], series_b.values[places_b]])
    return CommonSeries(steps, values.astype(np.float64))


def may_be_an_epoch_mean(a: RunData, b: RunData, tags: LossTags, losses: CommonSeries) -> bool:
    """Tell whether the loss of a run may be a mean over epochs.

    It may be if the steps lie at different intervals and the first values differ. The loss that the
    collector records is never a mean over epochs.
    """
    gap_a = np.diff(a.scalars[tags.a].steps).min(initial=_UNKNOWN_GAP)
    gap_b = np.diff(b.scalars[tags.b].steps).min(initial=_UNKNOWN_GAP)
    if gap_a == gap_b or tags == LossTags(LOSS, LOSS):
        return False
    first = loss_distances(*losses.values)[:1]
    return not (first <= TOLERANCES["float32"].loss).any()
