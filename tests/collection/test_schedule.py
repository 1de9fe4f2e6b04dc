"""Which steps are collected, against an independent statement of MindSpore's rules."""

from __future__ import annotations

from itertools import product

import pytest

from mindsummary_lightning.collection.schedule import Schedule

_TOTALS = sorted(
    {
        epochs * batches
        for epochs, batches in product((1, 2, 3, 10), (1, 2, 7, 10, 19, 20, 33, 60, 100))
    }
)


def _others_expected(total: int, freq: int) -> list[int]:
    """The first step, every freq-th, and (ours) the last."""
    return [step for step in range(1, total + 1) if step == 1 or step % freq == 0 or step == total]


def _tensors_expected(total: int, freq: int, tensor_freq: int | None) -> list[int]:
    """The rules of the reference by arithmetic; MindSpore counts step 0 among the twenty."""
    if tensor_freq is not None:
        return [step for step in range(1, total + 1) if step == 1 or step % tensor_freq == 0]
    if total // freq + 1 <= 20:
        return [step for step in range(1, total + 1) if step == 1 or step % freq == 0]
    gap = max(1, total // 19)
    last = 20 if gap == 1 else 19 * gap
    return [step for step in range(1, total + 1) if step == 1 or (step % gap == 0 and step <= last)]


@pytest.mark.parametrize("tensor_freq", [None, 1, 7, 200])
@pytest.mark.parametrize("freq", [1, 3, 10, 1000])
@pytest.mark.parametrize("total", _TOTALS)
def test_the_steps_of_a_run_are_those_of_the_rules(
    total: int, freq: int, tensor_freq: int | None
) -> None:
    schedule = Schedule(freq, tensor_freq, None, total)
    steps = range(1, total + 1)

    assert [step for step in steps if schedule.collects(step)] == _others_expected(total, freq)
    tensors = _tensors_expected(total, freq, tensor_freq)
    assert [step for step in steps if schedule.collects_tensors(step)] == tensors
    images = [step for step in steps if schedule.collects_inputs(step)]
    default = _tensors_expected(total, freq, None)
    assert images == (default if len(default) <= 10 else default[::2])
    assert len(images) <= 10  # MindInsight shows no more


@pytest.mark.parametrize("total", [None, 1, 57, 600])
@pytest.mark.parametrize(
    ("freq", "tensor_freq", "input_freq"), [(10, None, None), (1000, 7, None), (9, 4, 11)]
)
def test_something_is_collected_exactly_where_one_of_the_rules_says_so(
    freq: int, tensor_freq: int | None, input_freq: int | None, total: int | None
) -> None:
    schedule = Schedule(freq, tensor_freq, input_freq, total)

    for step in range(1, (total or 3000) + 1):
        each = (
            schedule.collects(step),
            schedule.collects_tensors(step),
            schedule.collects_inputs(step),
        )
        assert schedule.collects_anything(step) == any(each), step


@pytest.mark.parametrize(("total", "tensors", "others"), [(600, 20, 61), (20, 3, 3)])
def test_the_documented_examples_hold(total: int, tensors: int, others: int) -> None:
    schedule = Schedule(10, total=total)
    steps = range(1, total + 1)

    assert sum(map(schedule.collects_tensors, steps)) == tensors
    assert sum(map(schedule.collects, steps)) == others


@pytest.mark.parametrize("freq", [1, 2, 10, 1000, 10**6])
def test_a_run_of_unknown_length_keeps_at_most_twenty_tensor_steps_however_long_it_is(
    freq: int,
) -> None:
    schedule = Schedule(freq)
    candidates = {round(freq * 2.5**power) for power in range(60)} | set(range(1, 20_000))

    found = sorted(step for step in candidates if schedule.collects_tensors(step))

    assert 10 <= len(found) <= 20
    assert found[0] == 1
    assert found[-1] > 10**6


def test_a_run_of_unknown_length_follows_the_tensor_frequency_asked_for() -> None:
    schedule = Schedule(10, 300)

    assert [step for step in range(1, 1001) if schedule.collects_tensors(step)] == [
        1,
        300,
        600,
        900,
    ]


def test_input_images_follow_a_rhythm_of_their_own_if_asked_to() -> None:
    schedule = Schedule(10, None, 25, 100)

    assert [step for step in range(1, 101) if schedule.collects_inputs(step)] == [
        1,
        25,
        50,
        75,
        100,
    ]
    assert schedule.collects_anything(25)


@pytest.mark.parametrize(
    ("total", "longer"),
    [(100, 100), (100, 400), (None, None), (30, 31), (45, 400), (400, 45), (None, 60), (50, None)],
)
@pytest.mark.parametrize("at", [1, 19, 50, 99])
def test_a_resumed_run_has_at_most_twenty_steps_with_tensors_and_ten_with_images_in_all(
    total: int | None, longer: int | None, at: int
) -> None:
    before = Schedule(5, None, None, total)
    after = Schedule(
        5, None, None, longer, step=at, default_steps_used=before.default_steps_until(at)
    )
    first = [step for step in range(1, at + 1) if before.collects_tensors(step)]
    rest = [step for step in range(at + 1, 1000) if after.collects_tensors(step)]
    images = [step for step in range(1, at + 1) if before.collects_inputs(step)]
    later = [step for step in range(at + 1, 1000) if after.collects_inputs(step)]

    assert before.default_steps_until(at) == (len(first), len(images))
    assert len(first + rest) <= 20
    assert after.default_steps_until(1000) == (len(first + rest), len(images + later))
    assert len(images + later) <= 10
    if total == longer:
        assert first + rest == [step for step in range(1, 1000) if before.collects_tensors(step)]
        assert images + later == [step for step in range(1, 1000) if before.collects_inputs(step)]


def test_a_run_that_was_resumed_twice_has_at_most_ten_input_images_in_all() -> None:
    # planned steps each time: every step of the default range has images, then every second
    ends = (45, 100, 1000)
    images, used, start = [], None, 0
    for end in ends:
        schedule = Schedule(5, None, None, end, start, used)
        images += [step for step in range(start + 1, end + 1) if schedule.collects_inputs(step)]
        used, start = schedule.default_steps_until(end), end

    assert len(images) == 10


@pytest.mark.parametrize("used", [(20, 10), (21, 11), (19, 9)])
def test_a_resumed_run_whose_default_steps_are_used_up_has_no_further_ones(
    used: tuple[int, int],
) -> None:
    schedule = Schedule(5, None, None, 100, step=40, default_steps_used=used)
    steps = range(41, 101)

    left = [45] if used == (19, 9) else []
    assert [step for step in steps if schedule.collects_tensors(step)] == left
    assert len([step for step in steps if schedule.collects_inputs(step)]) == len(left)


def test_the_last_step_of_a_known_run_is_collected_but_its_tensors_are_not() -> None:
    schedule = Schedule(10, total=15)

    assert schedule.collects(15)
    assert not schedule.collects_tensors(15)


@pytest.mark.parametrize(
    ("freq", "total"), [(1, 5), (1, 1000), (7, 23), (10, 100_000), (50, 40), (10, None)]
)
def test_tables_and_pictures_are_few_and_on_collected_steps(freq: int, total: int | None) -> None:
    schedule = Schedule(freq, total=total)
    steps = [step for step in range(1, (total or 100_000) + 1) if schedule.collects(step)]
    tables = [step for step in steps if schedule.collects_tables(step)]
    pictures = [step for step in steps if schedule.collects_pictures(step)]

    assert tables[0] == 1
    assert len(tables) <= 19
    assert len(pictures) <= 6
    if total is not None:
        assert tables[-1] == pictures[-1] == total
    if len(steps) > 40:
        assert len(tables) >= 10


def test_a_gap_of_tensors_is_that_of_tables() -> None:
    each = Schedule(10, collect_tensor_freq=1, total=95)
    assert [step for step in range(1,
    96) if each.collects(step) and each.collects_tables(step)] == [
        1, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95,
    ]  # fmt: skip
    third = Schedule(10, collect_tensor_freq=30, total=95)
    tables = [step for step in range(1, 96) if third.collects(step) and third.collects_tables(step)]
    assert tables == [1, 30, 60, 90, 95]


def _steps(schedule: Schedule, total: int) -> dict[str, list[int]]:
    """The collected steps of each kind, and of tables and pictures those that are collected."""
    each = {
        "any": schedule.collects_anything,
        "tensors": schedule.collects_tensors,
        "inputs": schedule.collects_inputs,
        "tables": lambda step: schedule.collects(step) and schedule.collects_tables(step),
        "chain": schedule.collects_chain,
        "pictures": lambda step: schedule.collects(step) and schedule.collects_pictures(step),
    }
    return {
        kind: [step for step in range(1, total + 1) if collects(step)]
        for kind, collects in each.items()
    }


def test_the_steps_of_a_run_with_the_rhythm_of_tables_for_outputs() -> None:
    sevens = [*range(7, 99, 7)]
    assert _steps(Schedule(7, total=100, chain_steps=None), 100) == {
        "any": [1, 2, 3, *sevens, 100],
        "tensors": [1, *sevens],
        "inputs": [1, *range(14, 99, 14)],
        "tables": [1, *sevens, 100],
        "chain": [1, 2, 3, *sevens, 100],
        "pictures": [14, 42, 70, 98, 100],
    }


def test_the_steps_of_a_run_whose_tensors_are_not_of_collected_steps() -> None:
    forties = {*range(40, 951, 40)}
    assert _steps(Schedule(40, total=950, chain_steps={9, 3}), 950) == {
        "any": sorted({1, 3, 9, *forties, *range(50, 951, 50)}),
        "tensors": [1, *range(50, 951, 50)],
        "inputs": [1, *range(100, 901, 100)],
        # the first collected steps after 17 of the steps with tensors: not after 500, 250 or 450
        "tables": [1, *sorted(forties - {40, 240, 440, 520, 640, 840}), 950],
        "chain": [3, 9],
        "pictures": [120, 320, 520, 720, 920, 950],
    }


def test_the_steps_of_a_run_with_a_rhythm_of_its_own_for_each_kind() -> None:
    assert _steps(Schedule(10, 25, 35, total=100, chain_steps=None), 100) == {
        "any": [1, 2, 3, 10, 20, 25, 30, 35, 40, 50, 60, 70, 75, 80, 90, 100],
        "tensors": [1, 25, 50, 75, 100],
        "inputs": [1, 35, 70],
        "tables": [1, 30, 50, 80, 100],
        "chain": [1, 2, 3, 30, 50, 80, 100],
        "pictures": [20, 60, 100],
    }


def test_the_gaps_of_a_run_of_unknown_length_grow() -> None:
    schedule, end = Schedule(3), 100_000_000
    steps = [1, *(round(3 * 2.5**power) for power in range(30))]

    assert [step for step in steps if schedule.collects_tensors(step)] == steps[:20]
    assert [step for step in steps if schedule.collects_inputs(step)] == steps[:20:2]
    assert schedule.default_steps_until(end) == (20, 10)
    assert [Schedule(3).default_steps_until(step) for step in (1, 2, 7, 8)] == [
        (1, 1),
        (1, 1),
        (2, 1),
        (3, 2),
    ]
