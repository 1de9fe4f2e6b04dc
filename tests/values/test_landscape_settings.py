from __future__ import annotations

import pytest

from mindsummary_lightning.values.landscape_settings import LandscapeSettings


def test_the_defaults_are_mindspores() -> None:
    assert LandscapeSettings.from_dict({}).to_dict() == {
        "landscape_size": 40,
        "unit": "step",
        "num_samples": 2048,
        "create_landscape": {"train": True, "result": True},
        "intervals": [list(range(1, 10)), list(range(10, 20))],
    }


def test_the_known_keys_are_mindspores() -> None:
    assert LandscapeSettings.known_keys() == (
        "landscape_size",
        "unit",
        "num_samples",
        "intervals",
        "create_landscape",
    )


@pytest.mark.parametrize("size", [3, 256])
def test_the_smallest_and_the_largest_grid_are_taken(size: int) -> None:
    intervals = [[1, 2, 3], (1, 2, 4), range(2, 5), [4, 5, 9]]
    values = {"landscape_size": size, "num_samples": 1, "intervals": intervals}
    settings = LandscapeSettings.from_dict(values)

    assert settings.landscape_size == size
    assert settings.intervals == ((1, 2, 3), (1, 2, 4), (2, 3, 4), (4, 5, 9))
    assert [number for number in range(12) if settings.wants(number)] == [1, 2, 3, 4, 5, 9]


def test_absent_keys_come_from_the_base() -> None:
    base = LandscapeSettings(landscape_size=9, result=False)
    changed = LandscapeSettings.from_dict(
        {"create_landscape": {"train": False}, "intervals": [[2, 4, 8]]}, base
    )
    assert changed == LandscapeSettings(
        landscape_size=9, train=False, result=False, intervals=((2, 4, 8),)
    )


def test_the_dict_form_comes_back() -> None:
    settings = LandscapeSettings(3, "epoch", 1, False, True, ((1, 2, 3), (3, 5, 9)))
    assert LandscapeSettings.from_dict(settings.to_dict()) == settings


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        (
            {"size": 3},
            ValueError,
            "unknown keys of collect_landscape: .'size'.; known keys are .'landscape_size', 'unit'",
        ),
        (
            {"create_landscape": {"test": True}},
            ValueError,
            "unknown keys of create_landscape: .'test'.; known keys",
        ),
        ([], TypeError, "collect_landscape must be a dict or None, not list"),
        ({"create_landscape": True}, TypeError, "create_landscape must be a dict, not bool"),
        (
            {"create_landscape": {"train": 1}},
            TypeError,
            r"create_landscape\['train'\] must be a bool, not int",
        ),
        ({"landscape_size": 2}, ValueError, "landscape_size must be from 3 to 256, not 2"),
        ({"landscape_size": 257}, ValueError, "landscape_size must be from 3 to 256, not 257"),
        ({"landscape_size": True}, TypeError, "landscape_size must be an int, not bool"),
        ({"landscape_size": 4.0}, TypeError, "landscape_size must be an int, not float"),
        ({"unit": 1}, TypeError, "unit must be a str, not int"),
        ({"unit": "batch"}, ValueError, "unit must be 'step' or 'epoch', not 'batch'"),
        ({"num_samples": "1"}, TypeError, "num_samples must be an int, not str"),
        ({"num_samples": 0}, ValueError, "num_samples must be at least 1, not 0"),
        ({"intervals": 3}, TypeError, "intervals must be a list of lists, not int"),
        ({"intervals": []}, ValueError, "at least one interval"),
        (
            {"intervals": [4]},
            TypeError,
            "each interval in intervals must be a list of ints, not int",
        ),
        (
            {"intervals": [[1, 2]]},
            ValueError,
            r"each interval must have at least 3 numbers, got \[1, 2\]",
        ),
        (
            {"intervals": [[1, 2, "3"]]},
            TypeError,
            "each number in intervals must be an int, not str",
        ),
        (
            {"intervals": [[1, 3, 2]]},
            ValueError,
            r"must be ascending and at least 1, got \[1, 3, 2\]",
        ),
        (
            {"intervals": [[1, 2, 9], [1, 5, 9]]},
            ValueError,
            r"must not have the same first and last number, got \[1, 9\] twice",
        ),
        (
            {"intervals": [[1, 2, 2]]},
            ValueError,
            r"must be ascending and at least 1, got \[1, 2, 2\]",
        ),
        (
            {"intervals": [[4, 5, 6], [1, 2, 9], [2, 5, 9], [1, 5, 9]]},
            ValueError,
            r"must not have the same first and last number, got \[1, 9\] twice",
        ),
        ({"intervals": [[1, 2, True]]}, TypeError, "each number in intervals must be an int"),
        ({"create_landscape": {"result": None}}, TypeError, r"create_landscape\['result'\] must"),
        (
            {"intervals": [[0, 1, 2]]},
            ValueError,
            r"must be ascending and at least 1, got \[0, 1, 2\]",
        ),
    ],
)
def test_a_wrong_value_is_named(values: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        LandscapeSettings.from_dict(values)  # type: ignore[arg-type]
