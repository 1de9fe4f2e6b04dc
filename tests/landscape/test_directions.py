from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from mindsummary_lightning.landscape import checkpoints as checkpoint_files
from mindsummary_lightning.landscape import directions as d
from mindsummary_lightning.landscape.plane import FlatState


def checkpoints(count: int = 5) -> list[dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    steps = torch.randn(count, 40, generator=generator).cumsum(0)
    return [{"a.weight": step[:30].view(5, 6), "a.bias": step[30:]} for step in steps]


def flat(direction: dict[str, torch.Tensor]) -> np.ndarray:
    return torch.cat([part.flatten() for part in direction.values()]).double().numpy()


def test_only_weights_and_biases_move() -> None:
    assert [
        name
        for name in ("a.weight", "bias", "a.running_mean", "moment.weight", "gamma")
        if d.is_moved(name)
    ] == [
        "a.weight",
        "bias",
    ]


def check_principal_directions(states: list[dict[str, torch.Tensor]]) -> None:
    """Compare the directions with those of a full SVD, up to their signs."""
    matrix = np.stack([flat(state) - flat(states[-1]) for state in states[:-1]])
    matrix -= matrix.mean(1, keepdims=True)
    _, _, expected = np.linalg.svd(matrix, full_matrices=False)
    for found, right in zip(d.pca_directions(states, list(states[0])), expected, strict=False):
        vector = flat(found)
        np.testing.assert_allclose(vector * np.sign(vector @ right), right, atol=1e-6)
        assert vector[np.abs(vector).argmax()] > 0


def test_principal_directions_are_those_of_a_full_svd() -> None:
    check_principal_directions(checkpoints())


def long_tensors(count: int, size: int) -> list[dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(2)
    steps = torch.randn(count, size + 3, generator=generator).cumsum(0)
    return [{"a.weight": step[:size], "a.bias": step[size:]} for step in steps]


@pytest.mark.parametrize("size", [2**14 - 1, 2**14, 2**14 + 15, 2**14 + 16, 2**15 + 3])
def test_tensors_that_are_read_in_pieces_have_the_directions_of_the_whole(size: int) -> None:
    states = long_tensors(4, size)
    check_principal_directions(states)

    generator = torch.Generator().manual_seed(5)
    drawn = []
    for _ in range(2):
        for part in (size, 3):
            drawn.append(torch.randn(part, generator=generator, dtype=torch.float64).float())
    first, second = d.random_directions(states[-1], list(states[0]), 5)
    np.testing.assert_array_equal(np.concatenate([flat(first), flat(second)]), torch.cat(drawn))
    for name, part in d.scaled(first, states[-1]).items():
        assert part.norm().item() == pytest.approx(states[-1][name].norm().item())


def test_directions_are_computed_by_one_thread_which_the_user_does_not_notice() -> None:
    seen: list[int] = []

    def opening() -> dict[str, torch.Tensor]:
        seen.append(torch.get_num_threads())
        return states[0]

    states, threads = checkpoints(3), torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        d.pca_directions([opening, *states[1:]], list(states[0]))
        with pytest.raises(ValueError, match="equal"):
            d.pca_directions([opening, opening], list(states[0]))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert set(seen) == {1}


@pytest.mark.skipif(sys.platform != "linux", reason="pages are given back by a call of Linux")
def test_files_are_mapped_once_a_pass_and_not_kept_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(1)
    states = [
        {"weight": torch.rand(2**20, generator=generator), "bias": torch.ones(3)} for _ in range(3)
    ]
    for number, state in enumerate(states):
        torch.save(state, tmp_path / f"{number}.ckpt")
    mapped: list[int] = []

    def opening(number: int) -> dict[str, torch.Tensor]:
        mapped.append(number)
        return checkpoint_files.mapped(str(tmp_path / f"{number}.ckpt"))

    monkeypatch.setattr(d, "MAX_MAPPED_ELEMENTS", 2**18)
    resident, found = 0, []
    for _, _, rows in d._differences(
        [partial(opening, number) for number in range(3)], ["weight", "bias"]
    ):
        found.append(rows)
        if len(found) in (40, 60):
            maps = Path("/proc/self/smaps").read_text(encoding="utf-8").split(str(tmp_path))[1:]
            resident = max(
                resident, sum(int(each.partition("Rss:")[2].split()[0]) for each in maps)
            )
    assert mapped == [0, 1, 2]
    assert 0 < resident < 3 * 2**12 * 3 / 4  # kB, of which there are 4 MiB in each file
    expected = torch.stack(
        [torch.cat([state["weight"], state["bias"]]).double() for state in states]
    )
    assert torch.equal(torch.cat(found, 1), expected[:-1] - expected[-1])


def test_a_tensor_that_never_changed_takes_no_part() -> None:
    states = [state | {"frozen.weight": torch.ones(1000)} for state in checkpoints()]
    first, second = d.pca_directions(states, list(states[0]))
    assert list(first) == list(second) == ["a.weight", "a.bias"]
    np.testing.assert_array_equal(
        flat(first), flat(d.pca_directions(checkpoints(), ["a.weight", "a.bias"])[0])
    )


def test_a_straight_path_gets_a_random_second_direction() -> None:
    start, end = checkpoints(2)
    states = [
        {name: start[name] + t * (end[name] - start[name]) for name in start}
        for t in (0.0, 0.5, 1.0)
    ]
    first, second = d.pca_directions(states, list(start), seed=4)
    assert np.linalg.norm(flat(second)) > 1
    np.testing.assert_array_equal(flat(second), flat(d.random_directions(start, list(start), 4)[1]))
    assert np.linalg.norm(flat(first)) == pytest.approx(1)


def test_equal_checkpoints_have_no_direction() -> None:
    with pytest.raises(ValueError, match="all checkpoints of the interval are equal"):
        d.pca_directions(checkpoints(1) * 3, ["a.weight"])


def test_random_directions_depend_on_the_seed_alone() -> None:
    state = checkpoints(1)[0]
    for once, again in zip(
        d.random_directions(state, list(state), 3),
        d.random_directions(state, list(state), 3),
        strict=True,
    ):
        np.testing.assert_array_equal(flat(once), flat(again))
    one, other = (flat(d.random_directions(state, list(state), seed)[0]) for seed in (3, 4))
    assert not np.allclose(one, other)


def test_scaling_gives_each_tensor_the_norm_of_its_parameter() -> None:
    state = checkpoints(1)[0] | {
        "b.bias": torch.zeros(3),
        "c.weight": torch.ones(2, dtype=torch.float64),
    }
    names = list(state)
    found = d.scaled(d.random_directions(state, names, 0)[0], state)
    for name in names:
        assert found[name].norm().item() == pytest.approx(state[name].norm().item())
    assert (found.flat.dtype, d.random_directions(state, ["a.weight"])[0].flat.dtype) == (
        torch.float64,
        torch.float32,
    )
    assert d.scaled(FlatState({"a.bias": (10,)}), state).flat.abs().sum() == 0


def test_path_coordinates_are_the_least_squares_ones() -> None:
    states = checkpoints()
    first, second = (d.scaled(x, states[-1]) for x in d.pca_directions(states, list(states[0])))
    axes = np.stack([flat(first), flat(second)], axis=1)
    expected = [np.linalg.lstsq(axes, flat(s) - flat(states[-1]), rcond=None)[0] for s in states]
    np.testing.assert_allclose(d.path_coordinates(states, first, second), expected, atol=1e-5)


def test_a_direction_of_zeros_leaves_its_coordinate_at_zero() -> None:
    states = checkpoints()
    first, _ = (d.scaled(x, states[-1]) for x in d.pca_directions(states, list(states[0])))
    path = d.path_coordinates(states, first, FlatState(first.shapes))
    assert np.abs(path[:, 1]).max() == 0
    assert np.abs(path[:-1, 0]).min() > 0
    x, y = d.path_axes(path, 4)
    assert (y[0], y[-1]) == (-1.0, 1.0)
    assert np.isfinite(x).all()


def test_the_path_gets_a_fifth_of_room_on_each_side() -> None:
    x, y = d.path_axes(np.array([[0.0, -1.0], [10.0, 4.0]]), 3)
    np.testing.assert_allclose(x, [-2.0, 5.0, 12.0])
    np.testing.assert_allclose(y, [-2.0, 1.5, 5.0])
