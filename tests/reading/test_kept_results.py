"""A cache of results in bounded memory."""

from __future__ import annotations

import numpy as np

from mindsummary_lightning.reading.kept_results import KeptResults


class Counted:
    """Computes a text, and counts how often."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> str:
        self.times += 1
        return f"result {self.times}"


def test_a_result_is_computed_again_only_for_another_state() -> None:
    kept, compute = KeptResults(4, 10_000), Counted()

    assert [kept.of("key", compute, state) for state in (1, 1, 2, 2, 1)] == [
        *("result 1", "result 1", "result 2", "result 2", "result 3"),
    ]
    assert (kept.known("key"), kept.known("other")) == ("result 3", None)


def test_as_many_results_are_kept_as_allowed_and_the_oldest_go_first() -> None:
    kept = KeptResults(2, 1 << 20)
    for key in ("a", "b"):
        kept.of(key, lambda: "kept")
    assert [kept.known(key) for key in "ab"] == ["kept", "kept"]

    kept.of("a", lambda: "anew", state=2)  # which makes it the newest
    kept.of("c", lambda: "kept")

    assert [kept.known(key) for key in "abc"] == ["anew", None, "kept"]


def test_what_results_hold_counts_and_what_is_forgotten_does_not() -> None:
    kept = KeptResults(10, 10_000)
    kept.of("small", lambda: None)
    each = kept.nbytes
    kept.of("large", lambda: np.zeros(8_000, np.uint8))
    assert 0 < each < 1_000
    assert kept.nbytes == 8_000 + 2 * each

    kept.of("large", lambda: np.zeros(9_000, np.uint8), state=2)
    assert kept.nbytes == 9_000 + 2 * each
    kept.forget("large")
    kept.forget("large")
    assert (kept.nbytes, kept.known("large")) == (each, None)
    kept.of("exact", lambda: np.zeros(10_000 - 2 * each, np.uint8))
    assert kept.known("exact") is not None
    assert kept.nbytes == 10_000
    kept.of("too large alone", lambda: np.zeros(20_000, np.uint8))

    assert [kept.known(key) for key in ("small", "exact")] == [None, None]
    assert kept.known("too large alone") is not None
    assert kept.nbytes == 20_000 + each
