"""Images: the steps of a tag, and the image of one step as it was recorded."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from mindsummary_lightning.reading.decode import read_value
from mindsummary_lightning.reading.followed_run import FollowedRun
from mindsummary_lightning.values import Image
from mindsummary_lightning.viewer.api import (
    ApiError,
    ApiRequest,
    EncodedImage,
    known_run,
    known_tag,
    required,
    whole_number,
)
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.sample_limits import MAX_IMAGES, spread

_UNKNOWN_IMAGE, _NO_IMAGE = "5054500D", "Image is not exist."


def image_metadata(runs: LoadedRuns, request: ApiRequest) -> dict[str, Any]:
    """Step, wall time and recorded size of each image of a tag."""
    train_id, shown = required(request, "train_id"), required(request, "tag")
    run = known_run(runs, train_id)
    return {
        "metadatas": [
            {"step": sample.step, "wall_time": sample.wall_time, "width": sample.width, "height": sample.height}
            for sample in run.samples("image", _image_tag(run, shown), spread(MAX_IMAGES))
        ]
    }


def single_image(runs: LoadedRuns, request: ApiRequest) -> EncodedImage:
    """The image of a step, ``-1`` for the newest; any recorded step will do, not only those that are listed."""
    train_id, shown = required(request, "train_id"), required(request, "tag")
    step = whole_number(required(request, "step"), "step")
    run = known_run(runs, train_id)
    tag = _image_tag(run, shown)
    found = run.samples(
        "image", tag, lambda steps: np.array([steps.size - 1]) if step == -1 else np.flatnonzero(steps == step)
    )
    try:
        (sample,) = found
        image = cast("Image", read_value(sample.location))
    except (ValueError, OSError):  # no such step, or its bytes changed since they were located
        raise ApiError(
            _UNKNOWN_IMAGE, f"{_NO_IMAGE} Detail: Can not find the step with given train job id and tag."
        ) from None
    return EncodedImage(image.encoded, image.media_type)


def _image_tag(run: FollowedRun, shown: str) -> str:
    tag, kind = known_tag(run, shown, _UNKNOWN_IMAGE, _NO_IMAGE)
    if kind != "image":
        raise ApiError(_UNKNOWN_IMAGE, f"{_NO_IMAGE} Detail: there is no image in this tag: {shown}")
    return tag
