"""Thinning: what a front end computes from the chosen points is what it would compute from all of
them.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mindsummary_lightning.reading.thinning import MAX_POINTS, every_nth, thinned

_RARE = {"hundreds", "rare hundreds"}
_SHAPES = (
    "skewed",
    "symmetric",
    "accuracy",
    "trending",
    "line",
    "periodic",
    "hundreds",
    "rare hundreds",
)


@functools.cache
def _curve(shape: str, count: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    steps = np.arange(count)
    curves = {
        "skewed": lambda: rng.lognormal(0, 1, count),
        "symmetric": lambda: rng.normal(0, 1, count),
        "accuracy": lambda: rng.binomial(32, 0.95, count) / 32,
        "trending": lambda: 1.5 * np.exp(-4 * steps / count) + rng.lognormal(-1, 1, count),
        "line": lambda: steps / count,
        "periodic": lambda: steps % 10,
        "hundreds": lambda: np.where(rng.random(count) < 0.01, 100, 1),
        "rare hundreds": lambda: np.where(rng.random(count) < 0.0005, 100, 1),
    }
    return np.asarray(curves[shape](), np.float32)


def _smoothed(values: np.ndarray, share: float) -> np.ndarray:
    """What the front end draws: its ``formateSmoothData``, and the report's ``smooth``."""
    block, means, carried = 250, [], 0.0
    powers = share ** np.arange(1.0, block + 1)
    for begin in range(0, values.size, block):
        part = values[begin : begin + block].astype(np.float64)
        decay = powers[: part.size]
        means.append(decay * (carried + (1 - share) * np.cumsum(part / decay)))
        carried = means[-1][-1]
    return np.concatenate(means) / (1 - share ** np.arange(1, values.size + 1))


def test_the_smoothing_of_these_tests_is_the_loop_of_the_front_end() -> None:
    values = _curve("skewed", 1_000)
    expected, mean = [], 0.0
    for count, value in enumerate(values.tolist(), 1):
        mean = mean * 0.9 + 0.1 * value
        expected.append(mean / (1 - 0.9**count))

    np.testing.assert_allclose(_smoothed(values, 0.9), expected)


@functools.cache
def _whole_mean(shape: str, count: int, share: float) -> float:
    return float(_smoothed(_curve(shape, count), share).mean())


@pytest.mark.slow
@pytest.mark.parametrize("count", [MAX_POINTS + 1, 7_000, 50_000, 1_000_000])
@pytest.mark.parametrize("shape", _SHAPES)
def test_smoothing_of_a_thinned_curve_is_that_of_the_whole_curve(shape: str, count: int) -> None:
    values = _curve(shape, count)
    chosen = values[thinned(values)]

    for share in (0.6, 0.9, 0.99):
        error = _smoothed(chosen, share).mean() - _whole_mean(shape, count, share)
        assert abs(error) <= (0.1 if shape in _RARE else 0.05) * np.abs(values).mean()


def test_a_period_that_meets_the_stretches_does_not_shift_the_mean() -> None:
    # of six points one stretch has two
    values = ((np.arange(6_000) / 2.4) % 1 < 0.2).astype(np.float32)

    assert values[thinned(values)].mean() == pytest.approx(values.mean(), rel=0.05)


@pytest.mark.parametrize("shape", [shape for shape in _SHAPES if shape != "rare hundreds"])
def test_every_part_of_a_thinned_curve_has_its_mean_and_its_spread(shape: str) -> None:
    values = _curve(shape, 50_000)
    chosen = thinned(values)

    low, high = np.quantile(values, [0.05, 0.95])
    low_of_chosen, high_of_chosen = np.quantile(values[chosen], [0.05, 0.95])
    assert high_of_chosen - low_of_chosen == pytest.approx(high - low, rel=0.1)
    for begin in range(0, 50_000, 10_000):
        part = values[begin : begin + 10_000]
        of_part = values[chosen[(chosen >= begin) & (chosen < begin + 10_000)]]
        bound = (0.25 if shape in _RARE else 0.1) * float(np.abs(values).mean())
        assert of_part.mean() == pytest.approx(part.mean(), abs=bound)


@pytest.mark.parametrize("count", [MAX_POINTS + 1, 50_000])
@pytest.mark.parametrize("shape", ["symmetric", "skewed", "trending", "accuracy"])
def test_a_single_spike_of_fifty_sigma_and_both_ends_are_kept(shape: str, count: int) -> None:
    for place in (17, count // 2, count - 2):
        values = _curve(shape, count).copy()
        values[place] -= 50 * values.std()
        chosen = thinned(values)

        assert {0, place, count - 1} <= set(chosen.tolist())


@pytest.mark.parametrize("rest", [5, 6])
def test_a_spike_among_the_last_points_is_kept_whatever_their_number(rest: int) -> None:
    values = _curve("hundreds", 50_000 + rest).copy()
    values[-5] = 420

    assert values.size - 5 in thinned(values)


@pytest.mark.parametrize("count", [100_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("sizes", "least"), [([50] * 60, 45), ([100] * 20 + [10_000], 16), ([30, 60, 120] * 10, 24)]
)
def test_spikes_of_a_noisy_curve_are_kept_and_its_mean_too(
    count: int, sizes: list[int], least: int
) -> None:
    rng = np.random.default_rng(3)
    values = (10 + rng.normal(size=count)).astype(np.float32)
    places = rng.choice(count, len(sizes), replace=False)
    values[places] += sizes
    chosen = thinned(values)

    assert len(set(places.tolist()) & set(chosen.tolist())) >= least
    assert values[chosen].mean() == pytest.approx(
        values.mean(), rel=0.25 if max(sizes) == 10_000 else 0.02
    )


@pytest.mark.parametrize("count", [100_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "base", ["lognormal", "exponential", "falls to noise", "falls with its noise", "falls below"]
)
def test_nine_in_ten_spikes_of_a_skewed_or_falling_curve_are_kept_and_the_level_of_its_end(
    base: str, count: int
) -> None:
    errors = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        falling, skewed = np.exp(-6 * np.arange(count) / count), rng.exponential(size=count)
        values, sigma = {
            "lognormal": (rng.lognormal(size=count), np.full(count, 2.16)),
            "exponential": (skewed, np.ones(count)),
            "falls to noise": (falling + 0.02 * skewed, np.full(count, 0.02)),
            "falls with its noise": ((falling + 0.02) * skewed, falling + 0.02),
            "falls below": (falling * (1 + 0.2 * rng.normal(size=count)), np.full(count, 0.03)),
        }[base]
        places = rng.choice(count, 50, replace=False)
        values[places] += 50 * sigma[places]
        chosen = thinned(values.astype(np.float32))
        # the mean wins
        assert np.isin(places, chosen).sum() >= (20 if base == "falls below" else 45)
        smoothed = _smoothed(values[chosen], 0.9)
        errors.append(abs(smoothed[-MAX_POINTS // 3 :].mean() / values[-count // 3 :].mean() - 1))
        if base == "falls below" and count == 1_000_000:  # of fewer points the tenth may be far off
            assert smoothed[-MAX_POINTS // 10 :].mean() == pytest.approx(
                values[-count // 10 :].mean(), rel=0.05
            )

    assert np.median(errors) <= (0.2 if base == "falls below" else 0.04)
    assert max(errors) <= (0.25 if base == "falls below" else 0.15)


@pytest.mark.parametrize("count", [8_000, 100_000])
@pytest.mark.parametrize("seed", range(3))
def test_steps_of_a_curve_hide_no_spikes(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    restarts = 1 + np.cos(np.pi * (7 * np.arange(count) / count % 1))
    values = (0.05 + restarts / 2 + 0.02 * rng.normal(size=count)).astype(np.float32)
    places = rng.choice(count, 50, replace=False)
    values[places] += 1.5
    chosen = thinned(values)

    assert np.isin(places, chosen).sum() >= 45
    assert values[chosen[chosen >= count * 2 // 3]].mean() == pytest.approx(
        values[count * 2 // 3 :].mean(), rel=0.02
    )


@pytest.mark.parametrize("shape", _SHAPES)
def test_the_greatest_and_the_least_value_are_kept(shape: str) -> None:
    values = _curve(shape, 50_000)
    chosen = values[thinned(values)]

    assert (chosen.max(), chosen.min()) == (values.max(), values.min())


@pytest.mark.parametrize("seed", range(3))
def test_chosen_points_take_back_what_those_before_them_were_off(seed: int) -> None:
    values = np.random.default_rng(seed).lognormal(size=50_000).astype(np.float32)

    assert values[thinned(values)].mean() == pytest.approx(values.mean(), rel=0.003)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("count", [100_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_the_end_of_a_long_falling_curve_has_its_level(count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = (np.exp(-8 * np.arange(count) / count) + 0.01 * rng.lognormal(size=count)).astype(
        np.float32
    )
    smoothed = _smoothed(values[thinned(values)], 0.9)

    assert smoothed[-MAX_POINTS // 3 :].mean() == pytest.approx(
        values[-count // 3 :].mean(), rel=0.04
    )
    assert smoothed[-MAX_POINTS // 10 :].mean() == pytest.approx(
        values[-count // 10 :].mean(), rel=0.15
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 2, 7])
def test_the_end_of_a_million_points_that_fall_below_their_spikes_has_its_level(seed: int) -> None:
    rng = np.random.default_rng(seed)
    falling = np.exp(-6 * np.arange(1_000_000) / 1_000_000)
    values = (falling * (1 + 0.2 * rng.normal(size=falling.size))).astype(np.float32)
    values[rng.choice(falling.size, 50, replace=False)] += 1.5
    chosen = thinned(values)

    assert values[chosen[chosen >= 900_000]].mean() == pytest.approx(
        values[900_000:].mean(), rel=0.03
    )


def test_a_tail_that_is_heavy_has_no_spikes_that_stand_apart() -> None:
    values = np.random.default_rng(1).lognormal(0, 1.5, 50_000).astype(np.float32)
    chosen = values[thinned(values)]

    assert chosen.mean() == pytest.approx(values.mean(), rel=0.05)
    assert np.quantile(chosen, 0.95) == pytest.approx(np.quantile(values, 0.95), rel=0.15)


def test_a_curve_never_has_fewer_points_after_it_has_grown() -> None:
    values = np.random.default_rng(0).normal(size=5_100).astype(np.float32)
    values[100:3_000:7] = np.nan

    assert [thinned(values[:count]).size for count in (4_993, 5_000, 5_001, 5_100)] == [
        4_993,
        5_000,
        5_000,
        5_000,
    ]
    values[10:] = np.nan
    assert thinned(values).size == 5_000


def test_a_tenth_of_the_points_shows_where_values_are_missing() -> None:
    values = _curve("symmetric", 50_000).copy()
    values[5::10] = np.nan
    values[25] = np.inf
    chosen = thinned(values)
    is_finite = np.isfinite(values[chosen])
    finite = values[np.isfinite(values)]

    assert (chosen.size, int(is_finite.sum())) == (MAX_POINTS, MAX_POINTS - 500)
    missing = chosen[~is_finite]
    assert (missing[0], missing[-1]) == (5, 49_995)
    assert np.ptp(np.diff(missing)) <= 10  # evenly spaced
    kept = values[chosen[is_finite]]
    assert (kept.max(), kept.min()) == (finite.max(), finite.min())
    assert kept.mean() == pytest.approx(finite.mean(), abs=0.02)


@given(arrays(np.float32, st.integers(0, 400)), st.integers(10, 60))
def test_a_thinned_curve_is_full_and_keeps_its_ends_and_that_values_are_missing(
    values: np.ndarray, max_points: int
) -> None:
    chosen = thinned(values, max_points)

    assert chosen.size == min(values.size, max_points)
    assert (np.diff(chosen) > 0).all()
    if values.size:
        assert chosen[0] == 0
        assert chosen[-1] == values.size - 1
        assert np.isfinite(values[chosen]).all() == np.isfinite(values).all()
        assert np.isfinite(values[chosen]).any() == np.isfinite(values).any()


def test_a_curve_of_ten_points_keeps_a_last_value_that_is_not_finite() -> None:
    values = np.arange(14, dtype=np.float32)
    values[[3, 7, 13]] = np.nan

    assert thinned(values, 10)[-1] == 13


def test_a_short_curve_is_kept_as_it_is() -> None:
    assert thinned(np.zeros(5000, np.float32), 5000).size == 5000


@given(st.integers(1, 3000), st.integers(2, 100))
def test_of_many_samples_as_many_are_shown_as_the_limit_allows(
    count: int, max_samples: int
) -> None:
    chosen = every_nth(count, max_samples)

    assert (chosen[0], chosen[-1]) == (0, count - 1)
    assert chosen.size == min(count, max_samples)
    assert np.ptp(np.diff(chosen)) <= 1 if count > 1 else True


def test_two_hundred_histograms_show_a_hundred() -> None:
    assert every_nth(200, 100).size == 100
