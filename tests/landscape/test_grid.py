"""The points of a landscape, what its losses depend on, and the value that is recorded of it."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import pytest
import torch

from mindsummary_lightning.landscape.grid import LandscapeGrid, final_grid, interval_grid
from mindsummary_lightning.landscape.plane import FlatState, Plane
from mindsummary_lightning.values import LandscapeMetadata

X, Y = np.array([-1.0, 0.0, 1.0, 2.0]), np.array([-3.0, 3.0])
PATH = np.array([[1.0, 5.0], [0.5, 4.0], [0.0, 0.0]])
NOWHERE = Plane({}, FlatState({}), FlatState({}))
INTERVAL = LandscapeGrid((2, 4, 7), lambda: NOWHERE, X, Y, PATH, "hash")
FINAL = LandscapeGrid((7,), lambda: NOWHERE, X, Y)
LOSSES = [
    np.array([1.0, 2.0, 3.0, 4.0]),
    np.array([5.0, 6.0, 7.0, 8.0]),
    np.array([9.0, 8.5, 0.25]),
]
NAMES = ["a.weight", "a.bias"]


def states(count: int, seed: int = 1) -> list[dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    shapes = {"a.weight": (3, 2), "a.bias": (3,), "mean": (4,)}
    return [
        {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
        for _ in range(count)
    ]


def test_the_rows_go_along_the_first_direction_and_the_path_is_the_last() -> None:
    rows = [row.tolist() for row in INTERVAL.rows()]

    assert rows == [
        [[-1.0, -3.0], [0.0, -3.0], [1.0, -3.0], [2.0, -3.0]],
        [[-1.0, 3.0], [0.0, 3.0], [1.0, 3.0], [2.0, 3.0]],
        PATH.tolist(),
    ]
    assert [row.tolist() for row in FINAL.rows()] == rows[:2]
    assert (INTERVAL.tag, FINAL.tag) == ("landscape_[2, 7]", "landscape_[7]")


def test_a_landscape_has_the_losses_of_its_rows_and_of_its_path() -> None:
    made = INTERVAL.landscape(LOSSES, "epoch", 5)

    assert (made.x.tolist(), made.y.tolist()) == (X.tolist(), Y.tolist())
    assert made.z.tolist() == [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]
    assert made.path is not None
    assert np.stack([made.path.x, made.path.y], 1).tolist() == PATH.tolist()
    assert made.path.z.tolist() == [9.0, 8.5, 0.25]
    assert (made.intervals, made.convergence_point) == ((2, 4, 7), (0.0, 0.0, 0.25))
    assert made.metadata == LandscapeMetadata("PCA", "epoch", 5)


def test_a_final_landscape_ends_in_the_middle_of_its_grid(caplog: pytest.LogCaptureFixture) -> None:
    made = FINAL.landscape(LOSSES[:2], "step", 3)

    assert caplog.messages == []
    assert (made.x.tolist(), made.y.tolist()) == (X.tolist(), Y.tolist())
    assert made.z.tolist() == [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]
    assert (made.intervals, made.path) == ((), None)
    assert made.convergence_point == (1.0, 3.0, 7.0)
    assert made.metadata == LandscapeMetadata("Random", "step", 3)


def test_losses_that_are_not_finite_in_float32_become_the_largest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    odd = [np.array([1.0, np.nan, 3.0, 1e39]), LOSSES[1], np.array([-np.inf, 8.5, 0.25])]
    with caplog.at_level(logging.WARNING):
        made = INTERVAL.landscape(odd, "step", 1)

    assert made.z.tolist() == [[1.0, 8.5, 3.0, 8.5], [5.0, 6.0, 7.0, 8.0]]
    assert made.path is not None
    assert made.path.z.tolist() == [8.5, 8.5, 0.25]
    assert caplog.messages == [
        "landscape_[2, 7]: 3 losses that are not finite were replaced by 8.5"
    ]
    with pytest.raises(
        ValueError, match=r"landscape_\[7\]: at least one loss must be finite, got none; .* is nan$"
    ):
        FINAL.landscape([np.array([np.inf, np.nan])], "step", 1)


def test_whatever_the_losses_depend_on_is_in_the_fingerprint() -> None:
    grids = [
        INTERVAL,
        replace(INTERVAL, numbers=(3, 4, 7)),
        replace(INTERVAL, x=X + 1),
        replace(INTERVAL, y=Y + 1),
        replace(INTERVAL, path=PATH[::-1]),
        replace(INTERVAL, plane_hash="other"),
    ]

    found = [grid.fingerprint("data") for grid in grids] + [INTERVAL.fingerprint("more", "data")]

    assert len(set(found)) == len(found)
    assert found[0] == replace(INTERVAL).fingerprint("data")


def test_grids_of_other_checkpoints_seeds_or_buffers_have_another_fingerprint() -> None:
    one, other = states(4), states(4, seed=2)
    buffer = [*one[:-1], one[-1] | {"mean": torch.zeros(4)}]
    intervals = [
        interval_grid((1, 2, 3, 4), given, NAMES, 3, 0) for given in (one, one, other, buffer)
    ]
    finals = [
        final_grid(4, given, NAMES, 3, seed)
        for given, seed in (
            (one[-1], 0),
            (one[-1], 0),
            (other[-1], 0),
            (buffer[-1], 0),
            (one[-1], 1),
        )
    ]

    for grids in (intervals, finals):
        first, again, *others = (grid.fingerprint() for grid in grids)
        assert first == again
        assert len({first, *others}) == 1 + len(others)


def test_a_plane_lies_at_the_last_checkpoint_and_its_directions_have_the_parameters_norms() -> None:
    given = states(4)
    interval = interval_grid((1, 2, 3, 4), given, NAMES, 3, 0)
    final = final_grid(4, given[-1], NAMES, 5, 0)

    for grid in (interval, final):
        plane = grid.plane()
        assert list(plane.anchor) == [*NAMES, "mean"]
        for direction in (plane.first, plane.second):
            norms = {name: part.norm().item() for name, part in direction.items()}
            assert norms == pytest.approx({name: given[-1][name].norm().item() for name in NAMES})
        assert not torch.equal(plane.first.flat, plane.second.flat)
    assert (final.numbers, final.x.tolist(), final.y.tolist()) == (
        *((4,), [-1.0, -0.5, 0.0, 0.5, 1.0], [-1.0, -0.5, 0.0, 0.5, 1.0]),
    )
    assert final.anchor is interval.anchor is given[-1]
