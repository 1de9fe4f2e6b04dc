"""Endpoints of the recorded images of a tag: their steps, and an image of a step."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from mindsummary_lightning.reading.decode import read_value
from mindsummary_lightning.reading.followed_run import FollowedRun
from mindsummary_lightning.reading.thinning import every_nth
from mindsummary_lightning.values import Image
from mindsummary_lightning.viewer.api import (
    ApiError,
    ApiRequest,
    EncodedAnswer,
    known_run,
    known_tag,
    required,
    whole_number,
)
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns

_MAX_IMAGES = 1000  # MindInsight keeps 10
_UNKNOWN_IMAGE, _NO_IMAGE = "5054500D", "Image is not exist."


def image_metadata(runs: LoadedRuns, request: ApiRequest) -> dict[str, Any]:
    """Answer with step, wall time, width and height of the images of a tag."""
    train_id, plugin_tag = required(request, "train_id"), required(request, "tag")
    run = known_run(runs, train_id)
    if runs.has_lineage_only(train_id):
        return {"metadatas": []}
    samples = run.samples(
        "image", _image_tag(run, plugin_tag), lambda steps: every_nth(steps.size, _MAX_IMAGES)
    )
    return {
        "metadatas": [
            {
                "step": sample.step,
                "wall_time": sample.wall_time,
                "width": sample.width,
                "height": sample.height,
            }
            for sample in samples
        ]
    }


def single_image(runs: LoadedRuns, request: ApiRequest) -> EncodedAnswer:
    """Answer with the recorded image of a tag at a step; step -1 is the newest step.

    The step may be any recorded step, also one that :func:`image_metadata` leaves out.
    """
    train_id, plugin_tag = required(request, "train_id"), required(request, "tag")
    step = whole_number(required(request, "step"), "step")
    run = known_run(runs, train_id)
    tag = plugin_tag if runs.has_lineage_only(train_id) else _image_tag(run, plugin_tag)
    try:
        (sample,) = run.samples(
            "image",
            tag,
            lambda steps: (
                np.array([steps.size - 1]) if step == -1 else np.flatnonzero(steps == step)
            ),
        )
        image = cast("Image", read_value(sample.location))
    except (
        LookupError,
        ValueError,
        OSError,
    ):  # no such tag or step, or its bytes changed since they were located
        raise ApiError(
            _UNKNOWN_IMAGE,
            f"{_NO_IMAGE} Detail: Can not find the step with given train job id and tag.",
        ) from None
    return EncodedAnswer(image.encoded, image.media_type)


def _image_tag(run: FollowedRun, plugin_tag: str) -> str:
    tag, kind = known_tag(run, plugin_tag, _UNKNOWN_IMAGE, _NO_IMAGE)
    if kind != "image":
        raise ApiError(
            _UNKNOWN_IMAGE, f"{_NO_IMAGE} Detail: there is no image in this tag: {plugin_tag}"
        )
    return tag
