"""Statistics of many tensors at once, against NumPy in float64."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

import numpy as np
import pytest
import torch

from mindsummary_lightning.collection import row_statistics as module
from mindsummary_lightning.collection.row_statistics import EVERY, RowPlan, RowStatistics
from tests.collection.two_ranks import of_two_ranks, part_of

_GENERATOR = torch.Generator().manual_seed(0)


def _normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=_GENERATOR)


TENSORS = {
    "small": _normal(3),
    "one number": torch.tensor(2.0),
    "exactly a row": _normal(512),
    "more than a chunk": _normal(600, 700),
    "transposed": _normal(60, 70).t(),
    "vanishing": _normal(40, 50) * 1e-25,
    "exploding": _normal(40, 50) * 1e30,
    "both in one row": torch.tensor([1e-30, 1.0, 1e30]),
    "zeros": torch.zeros(7),
    "dead units": _normal(40, 50).relu(),
    "bfloat16": _normal(300, 10).bfloat16(),
    "float16": _normal(300, 10).half(),
    "float64": _normal(30).double(),
    "integers": torch.arange(-5, 6),
    "complex": torch.view_as_complex(_normal(8, 2)),
    "some not finite": torch.tensor([1.0, torch.nan, torch.inf, -torch.inf, 0.0, -2.0]),
    "largest of float32": torch.full((5000,), 3e38),
    "subnormal": torch.tensor([1e-42, -3e-43, 0.0] * 400),
    "squares beyond float64": torch.tensor([3e200, -1e180, 0.0] * 400, dtype=torch.float64),
    "squares below float64": torch.tensor([3e-200, -1e-210, 0.0] * 400, dtype=torch.float64),
}


def _statistics(
    tensors: list[torch.Tensor], wanted: Collection[str] = EVERY
) -> list[RowStatistics]:
    return RowPlan(tensors).statistics(tensors, wanted)


def _assert_numpys(tensors: list[torch.Tensor]) -> None:
    places = []
    for part in _statistics(tensors):
        ours = part.statistics(part.table)
        places += part.places.tolist()
        for at, place in enumerate(part.places):
            array = np.abs(
                tensors[place].numpy()
                if tensors[place].is_complex()
                else tensors[place].double().numpy()
            )
            finite = array[np.isfinite(array)].astype(np.float64)
            unit = finite.max() or 1.0  # whose square may leave the range
            expected = [
                np.sqrt(((finite / unit) ** 2).mean()) * unit,
                finite.mean(),
                finite.max(),
                (array == 0).mean(),
            ]
            found = [ours.rms[at], ours.mean[at], ours.largest[at], ours.zeros[at]]
            np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=str(place))
            assert ours.non_finite[at] == array.size - finite.size
            assert ours.elements[at] == array.size
    assert sorted(places) == list(range(len(tensors)))


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_has_numpys_statistics(name: str) -> None:
    _assert_numpys([TENSORS[name]])


def test_all_together_have_them_too() -> None:
    alike = [
        torch.tensor([0.0, 5.0, 0.0]),
        torch.tensor([-7.0, 1.0, 0.0]),
        torch.tensor([2.0, 3.0, 4.0]),
    ]
    _assert_numpys([*alike, *(tensor for name, tensor in TENSORS.items() if name != "complex")])
    _assert_numpys([*alike, *(tensor + 1 for tensor in alike)])


@pytest.mark.parametrize("chunk", [512, 1024, 1 << 18])
def test_the_size_of_a_chunk_changes_nothing(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(module, "CHUNK", (chunk, chunk))
    _assert_numpys(
        [_normal(size) for size in (1, 300, 511, 512, 513, 1024, 1025, 5000, 300, 300, 300)]
    )


@pytest.mark.filterwarnings("error")
def test_a_tensor_without_finite_elements_has_only_counts() -> None:
    for tensor, count in ((torch.full((3,), torch.nan), 3), (torch.empty(0), 0)):
        (part,) = _statistics([tensor])
        numbers = part.statistics(part.table)
        assert np.isnan([numbers.rms[0], numbers.mean[0], numbers.largest[0]]).all()
        assert (numbers.non_finite[0], numbers.elements[0]) == (count, count)


def test_a_scale_is_divided_out() -> None:
    (part,) = _statistics([torch.tensor([8.0, -16.0])])
    numbers = part.statistics(part.table, 8.0)
    assert (numbers.largest[0], numbers.mean[0], numbers.rms[0]) == (
        2.0,
        1.5,
        pytest.approx(2.5**0.5),
    )


def test_of_a_sparse_tensor_the_stored_elements_count() -> None:
    sparse = torch.sparse_coo_tensor([[1, 3]], [2.0, 0.0], (5,))
    stored = torch.tensor([2.0, 0.0])
    ours, expected = (
        part.statistics(part.table) for tensor in (sparse, stored) for part in _statistics([tensor])
    )
    for field in dataclasses.fields(expected):
        np.testing.assert_array_equal(getattr(ours, field.name), getattr(expected, field.name))


def test_two_ranks_have_the_statistics_of_what_they_share() -> None:
    # the second rank has a row less of the long tensor, and none of the one number
    long, short = _normal(2 * 512 * 5 + 1, 1), torch.tensor([[3.0], [-4.0], [torch.nan], [0.0]])
    shared, own = [long, short, short + 1, torch.tensor([[7.0]])], torch.tensor([1.0, 5.0])

    def reduced(rank: int, group: Any) -> list[RowStatistics]:
        return _statistics([own, *(part_of(tensor, rank, group) for tensor in shared)])

    expected = _by_place(_statistics([own, *shared]))
    for found in of_two_ranks(reduced):
        assert len(found) == 2
        assert _by_place(found) == pytest.approx(expected, rel=1e-6)


def _by_place(parts: list[RowStatistics]) -> dict[tuple[int, str], float]:
    return {
        (int(place), field.name): float(getattr(numbers, field.name)[at])
        for part in parts
        for numbers in [part.statistics(part.table)]
        for at, place in enumerate(part.places)
        for field in dataclasses.fields(numbers)
    }


def test_copies_are_what_the_tensors_were() -> None:
    tensors = [_normal(3, 4), _normal(5), _normal(3, 4)]
    plan = RowPlan(tensors)
    expected, copies = plan.statistics(tensors)[0].table, plan.copies(tensors)
    for tensor in tensors:
        tensor.zero_()

    [[reduced]] = plan.reduced(((block,) for block in copies), EVERY)
    assert torch.equal(reduced.table, expected)


def test_the_tensors_are_not_changed() -> None:
    tensor = torch.tensor([-1.0, torch.nan, 2.0])
    _statistics([tensor])
    assert tensor[0] == -1.0


def test_nothing_of_nothing() -> None:
    assert _statistics([]) == []


@pytest.mark.parametrize("name", TENSORS)
@pytest.mark.parametrize(
    "wanted", [("rms", "largest", "non_finite"), ("rms",)], ids=["three", "one"]
)
def test_less_is_known_in_less_time(name: str, wanted: tuple[str, ...]) -> None:
    alike = [TENSORS[name], torch.ones_like(TENSORS[name])]
    whole, less = (_statistics(alike, fields)[0] for fields in (EVERY, wanted))
    expected, found = whole.statistics(whole.table), less.statistics(less.table)
    for field in wanted:
        np.testing.assert_allclose(
            getattr(found, field), getattr(expected, field), rtol=1e-6, err_msg=field
        )


def test_a_plan_serves_later_tensors_that_are_alike_and_refuses_others() -> None:
    tensors = [_normal(3, 4), _normal(5), _normal(3, 4)]
    plan = RowPlan(tensors)
    later = [2 * tensor for tensor in tensors]

    assert plan.is_lasting
    ours, expected = plan.statistics(later)[0], _statistics(later)[0]
    assert torch.equal(ours.table, expected.table)
    for other in (
        [_normal(3, 4), _normal(5), _normal(4, 4)],
        [_normal(3, 4), _normal(6), _normal(3, 4)],
    ):
        with pytest.raises(RuntimeError):
            plan.statistics(other)
    sparse = torch.sparse_coo_tensor([[1]], [2.0], (5,))
    with pytest.raises(RuntimeError):
        plan.statistics([tensors[0], sparse, tensors[2]])
    assert not RowPlan([sparse]).is_lasting
