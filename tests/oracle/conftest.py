"""One MindInsight and one Chromium for all tests of this folder, over one directory of runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest

from tests.oracle.browser import Browser, running_browser
from tests.oracle.mindinsight_server import MindInsight, running_mindinsight

if TYPE_CHECKING:
    from tests.oracle.small_fit import Fit

_Report = TypeVar("_Report", pytest.TestReport, pytest.CollectReport)


def _failed_if_required(report: _Report) -> _Report:
    if report.skipped and os.environ.get("REQUIRE_JUDGES"):
        report.outcome = "failed"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where no judge may be missing, what would be skipped fails."""
    return _failed_if_required((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a module that would be skipped."""
    return _failed_if_required((yield))


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory the server looks at: each test module records its runs below it."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="session")
def amount(request: pytest.FixtureRequest) -> Callable[[int, int], int]:
    """How much of what a module's tests share: the first number in the short form, the second with
    ``--full``.
    """
    return lambda short, full: full if request.config.getoption("--full") else short


@pytest.fixture(scope="session")
def mindinsight(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MindInsight]:
    with running_mindinsight(runs, tmp_path_factory.mktemp("workspace")) as server:
        yield server


@pytest.fixture(scope="session")
def fits(
    mindinsight: MindInsight, runs: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Fit, Fit]:
    """Two runs of the same training script, loaded by the server."""
    # here: importing Lightning takes seconds, even if all is skipped
    from tests.oracle.small_fit import fit_digits

    scratch = tmp_path_factory.mktemp("fits")
    first = fit_digits(runs, "fit_fast", scratch, learning_rate=0.05, note="fast")
    second = fit_digits(runs, "fit_slow", scratch, learning_rate=0.01, note="slow")
    for fit in (first, second):
        mindinsight.wait_cached(fit.train_id)
        mindinsight.wait_lineage(fit.train_id)
    return first, second


@pytest.fixture(scope="session")
def browser(
    mindinsight: MindInsight, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Browser]:
    with running_browser(mindinsight.address, tmp_path_factory.mktemp("profile")) as chromium:
        yield chromium
