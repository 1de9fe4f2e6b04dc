"""``--full`` injects each fault as often as docs/reliability.md says; without it a short form runs.

What was reached is printed below the results, row by row, in the words of that page's table.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings

# A busy machine draws slowly; that says nothing about the code.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

_FIGURES = pytest.StashKey[dict[int, list[str]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", default=False, help="the long form of the fault suite")


@pytest.fixture
def is_full(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--full"))


@pytest.fixture
def times(is_full: bool) -> Callable[[int, int], int]:
    """How often: the first number in the short form, the second in the long one."""
    return lambda short, full: full if is_full else short


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Callable[[int, str], None]:
    """Note what was reached for a row of the table."""
    figures = request.config.stash.setdefault(_FIGURES, {})
    return lambda row, text: figures.setdefault(row, []).append(text)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    figures = config.stash.get(_FIGURES, {})
    if figures:
        terminalreporter.section("figures of the fault suite")
        for row in sorted(figures):
            for text in figures[row]:
                terminalreporter.line(f"{row:>3}  {text}")
