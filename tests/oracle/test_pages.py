"""MindInsight's pages draw what the pair recorded: looked at in a headless Chromium."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.oracle.browser import DASHBOARD_CARDS, Browser

if TYPE_CHECKING:
    from tests.oracle.small_fit import Fit


def _assert_nothing_is_missing(browser: Browser) -> None:
    assert browser.placeholders() == []
    assert browser.errors() == []


def test_the_list_shows_both_runs(browser: Browser, fits: tuple[Fit, Fit]) -> None:
    browser.open("summary list")

    shown = browser.text()
    assert all(fit.train_id in shown for fit in fits), shown
    _assert_nothing_is_missing(browser)


def test_the_dashboard_draws_its_cards(browser: Browser, fits: tuple[Fit, Fit]) -> None:
    browser.open("dashboard", fits[0].train_id)

    assert [
        browser.wait_drawn(DASHBOARD_CARDS[card]) for card in ("scalar", "histogram", "image")
    ] == [1, 1, 1]
    assert browser.errors() == []


@pytest.mark.parametrize(
    ("page", "drawn"),
    [
        pytest.param("scalar", 0, marks=pytest.mark.long),
        ("histogram", 4),
        pytest.param("image", 0, marks=pytest.mark.long),
    ],
)
def test_the_page_of_a_run_draws_its_data(
    browser: Browser, fits: tuple[Fit, Fit], page: str, drawn: int
) -> None:
    browser.open(page, fits[0].train_id)

    # one for every parameter
    assert not drawn or browser.wait_drawn(".char-item-content canvas") == drawn
    _assert_nothing_is_missing(browser)


def test_the_lineage_page_draws_both_runs_with_their_fields(
    browser: Browser, fits: tuple[Fit, Fit]
) -> None:
    browser.open("model lineage")

    shown = browser.text()
    expected = [fit.train_id for fit in fits] + [
        "Digits",
        "SGD",
        "val/accuracy",
        "fold",
        "fast",
        "slow",
    ]
    assert [text for text in expected if text not in shown] == []
    _assert_nothing_is_missing(browser)


def test_the_comparison_page_lays_both_runs_over_each_other(
    browser: Browser, fits: tuple[Fit, Fit]
) -> None:
    browser.open("scalar comparison")

    shown = browser.text()
    assert all(fit.train_id in shown for fit in fits), shown
    assert "loss/auto/scalar" in shown
    _assert_nothing_is_missing(browser)
