"""Less work for the same losses: joined batches, and a first layer that is computed once for all points.

Each is tried: it is used if a comparison with the plain evaluation shows the same losses, and nothing is raised.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mindsummary_lightning.landscape.batches import Batch, joined
from mindsummary_lightning.landscape.evaluation import TRUE_PRECISIONS, Autocast, EvaluationOptions, PlaneLoss
from mindsummary_lightning.landscape.grid import LandscapeGrid
from mindsummary_lightning.landscape.kept_layer import KeptLayerLoss
from mindsummary_lightning.landscape.mean_loss import MeanLoss
from mindsummary_lightning.landscape.plane import FlatPlane

_LOG = logging.getLogger(__name__)

# The largest tensor a joined batch may make. On a CPU larger ones leave its caches, and beyond 32 MB glibc maps and
# unmaps memory for every tensor, which costs a convolution as much as its arithmetic; an accelerator needs larger
# batches to be busy. A constant, not a measurement: the same call gives the same bits again.
_MAX_BYTES_ON_CPU = 2**21
_MAX_BYTES_ON_DEVICE = 2**28
_PROBE = (0.37, -0.61)
_TOLERANCE = 2e-6


def loss_on_plane(
    loss: MeanLoss,
    job: LandscapeGrid,
    batches: tuple[Batch, ...],
    device: torch.device,
    options: EvaluationOptions,
    autocast: Autocast = nullcontext,
    move: Callable[..., Any] | None = None,
) -> tuple[PlaneLoss, PlaneLoss]:
    """The plain evaluation of a landscape, and the fastest one that gives the same losses.

    A shortcut is used only if the mean loss at two corners of the grid and at a point off its axes agrees with the
    plain evaluation to 2e-6, and only of a loss that was tried out before. None is tried in training mode, in another
    precision, with ``compile``, with several points at once, or for a step that changes its batches.
    """
    plane = FlatPlane(job.open_plane(), device, TRUE_PRECISIONS.get(options.precision or ""))
    common = (options, autocast, move)
    plain = PlaneLoss(loss, plane, batches, *common)
    is_ordinary = not (options.train_mode or options.compile or options.points_at_once > 1)
    is_single = options.precision in (None, "32-true") and plane.own_dtype() == torch.float32
    is_known = loss.bytes_per_sample > 0 and not loss.changes_batches
    if not is_ordinary or not is_single or not is_known or loss.needs_gradients:
        return plain, plain
    max_bytes = _MAX_BYTES_ON_CPU if device.type == "cpu" else _MAX_BYTES_ON_DEVICE
    points = np.array([(job.x[0], job.y[0]), (job.x[-1], job.y[-1]), (_PROBE[0] * job.x[0], _PROBE[1] * job.y[-1])])
    expected: list[NDArray[np.float64]] = []
    best = plain

    def attempt(what: str, make: Callable[[], PlaneLoss | None]) -> PlaneLoss:
        try:
            candidate = make()
            if candidate is None:
                return best
            expected[:] = expected or [plain.losses(points)]
            found = candidate.losses(points)
            if np.allclose(found, expected[0], rtol=_TOLERANCE, atol=0.0, equal_nan=True):
                return candidate
            reason = f"gives {found[0]:.7g} where the plain way gives {expected[0][0]:.7g}"
        except Exception as error:
            reason = f"raises {type(error).__name__}: {error}".splitlines()[0]
        if what not in loss.dropped:
            loss.dropped.add(what)
            _LOG.info("loss landscape: computed without %s, which %s", what, reason)
        return best

    fewer = joined(batches, int(max_bytes / loss.bytes_per_sample))
    if len(fewer) < len(batches):
        best = attempt("joining batches", lambda: PlaneLoss(loss, plane, fewer, *common))
    batches = batches if best is plain else fewer
    best = attempt("keeping the first layer", lambda: KeptLayerLoss.of(best, loss, plane, batches, *common))
    return plain, best
