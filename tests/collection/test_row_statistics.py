"""Statistics of many tensors at once, against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mindsummary_lightning.collection import row_statistics as module
from mindsummary_lightning.collection.row_statistics import row_statistics

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
}


def _assert_numpys(tensors: list[torch.Tensor]) -> None:
    places = []
    for part in row_statistics(tensors):
        ours = part.statistics(part.table)
        places += part.places
        for at, place in enumerate(part.places):
            array = np.abs(tensors[place].numpy() if tensors[place].is_complex() else tensors[place].double().numpy())
            finite = array[np.isfinite(array)].astype(np.float64)
            expected = [np.sqrt((finite**2).mean()), finite.mean(), finite.max(), (array == 0).mean()]
            found = [ours.rms[at], ours.mean[at], ours.largest[at], ours.zeros[at]]
            np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=str(place))
            assert ours.non_finite[at] == array.size - finite.size
            assert ours.elements[at] == array.size
    assert sorted(places) == list(range(len(tensors)))


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_has_numpys_statistics(name: str) -> None:
    _assert_numpys([TENSORS[name]])


def test_all_together_have_them_too() -> None:
    _assert_numpys([tensor for name, tensor in TENSORS.items() if name != "complex"])


@pytest.mark.parametrize("chunk", [512, 1024, 1 << 18])
def test_the_size_of_a_chunk_changes_nothing(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(module, "_CHUNK", (chunk, chunk))
    _assert_numpys([_normal(size) for size in (1, 511, 512, 513, 1024, 1025, 5000)])


def test_a_tensor_without_finite_elements_has_only_counts() -> None:
    for tensor, count in ((torch.full((3,), torch.nan), 3), (torch.empty(0), 0)):
        (part,) = row_statistics([tensor])
        numbers = part.statistics(part.table)
        assert np.isnan([numbers.rms[0], numbers.mean[0], numbers.largest[0]]).all()
        assert (numbers.non_finite[0], numbers.elements[0]) == (count, count)


def test_a_scale_is_divided_out() -> None:
    (part,) = row_statistics([torch.tensor([8.0, -16.0])])
    numbers = part.statistics(part.table, 8.0)
    assert (numbers.largest[0], numbers.mean[0]) == (2.0, 1.5)


def test_the_tensors_are_not_changed() -> None:
    tensor = torch.tensor([-1.0, torch.nan, 2.0])
    row_statistics([tensor])
    assert tensor[0] == -1.0


def test_nothing_of_nothing() -> None:
    assert row_statistics([]) == []


@pytest.mark.parametrize("name", TENSORS)
def test_less_is_known_in_less_time(name: str) -> None:
    whole, less = (row_statistics([TENSORS[name]], is_whole=is_whole)[0] for is_whole in (True, False))
    expected, found = whole.statistics(whole.table), less.statistics(less.table)
    np.testing.assert_allclose([found.rms, found.largest], [expected.rms, expected.largest], rtol=1e-6)
    assert found.non_finite == expected.non_finite
