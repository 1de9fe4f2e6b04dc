"""``--full`` injects each fault as often as docs/development/faults.md says.

Without it a short form runs.

What was reached is printed below the results, row by row, in the words of that page's table.
"""

from __future__ import annotations

import gc
import logging
import signal
import sys
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, settings

# A busy machine draws slowly; that says nothing about the code.
# The examples are those of the test's source, so that a gate does not fail by chance;
# ``nox -s tests -- --hypothesis-profile=drawn`` draws others.
settings.register_profile(
    "any machine",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
    print_blob=True,
)
settings.register_profile("drawn", settings.get_profile("any machine"), derandomize=False)
settings.register_profile("few", settings.get_profile("any machine"), max_examples=20)
settings.load_profile("any machine")

_FIGURE = "figure of the fault suite"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--full", action="store_true", default=False, help="the long form of the fault suite"
    )


def pytest_configure() -> None:
    """Let Ctrl-C be heard where a shell started the tests in the background, which ignores it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--full"):
        long = [item for item in items if item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]
    else:  # hundreds of trials, on a machine that may do much else
        for item in items:
            item.add_marker(pytest.mark.timeout(3600), append=False)


@pytest.fixture(autouse=True)
def _nothing_is_left_open() -> Iterator[None]:
    """Close the trainings and records that a test leaves open, which other tests would meet, and
    name the test.
    """
    yield
    buffers = sys.modules.get("mindsummary_lightning.collection.operator_buffer")
    if buffers is None or not buffers.open_buffers():
        return
    gc.collect()  # a record that only a cycle of references still holds is closed by this
    left = buffers.open_buffers()
    for buffer in left:
        buffers.end_training(buffer)
    assert not left, (
        f"the test leaves {len(left)} recordings open that take values of summary operators"
    )


@pytest.fixture(autouse=True)
def _lightning_speaks() -> None:
    """Let Lightning, and what we say through it, be heard: a test before may have silenced it."""
    for name in ("lightning.pytorch", "pytorch_lightning"):
        logging.getLogger(name).setLevel(logging.INFO)


@pytest.fixture
def only_new_garbage() -> Iterator[None]:
    """Let ``gc.collect`` look at what the test makes; all of the process takes half a second."""
    gc.collect(0)
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def is_full(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--full"))


@pytest.fixture
def times(is_full: bool) -> Callable[[int, int], int]:
    """How often: the first number in the short form, the second in the long one."""
    return lambda short, full: full if is_full else short


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Callable[[int, str], None]:
    """Note what was reached for a row of the table."""
    return lambda row, text: record_property(_FIGURE, [row, text])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [report for kind in terminalreporter.stats.values() for report in kind]
    calls = [report for report in reports if getattr(report, "when", None) == "call"]
    figures = [
        value for report in calls for name, value in report.user_properties if name == _FIGURE
    ]
    if figures:
        terminalreporter.section("figures of the fault suite")
        for row, text in sorted(figures):
            terminalreporter.line(f"{row:>3}  {text}")
