"""``WarnOnce``: one message per reason."""

from __future__ import annotations

import logging

import pytest

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.warn_once import WarnOnce

_LOG = logging.getLogger("mindsummary_lightning.test")


def test_a_reason_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    once = WarnOnce(_LOG)
    for tag in ("a", "b", "a"):
        once.warn(("dtype", tag), "tag %s has no dtype", tag)

    assert caplog.messages == ["tag a has no dtype", "tag b has no dtype"]


def test_control_characters_of_names_and_errors_do_not_reach_the_terminal(
    caplog: pytest.LogCaptureFixture,
) -> None:
    WarnOnce(_LOG).warn("a", "%s, %d: %s", "a\x1b[2J\nb", 1, DamagedFileError("c\x9bd", 5, "torn"))

    assert caplog.messages == ["a\\u001b[2J\\u000ab, 1: record at byte 5 of c\\u009bd: torn"]


def test_each_instance_warns_again_at_the_level_that_was_asked_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for _ in range(2):
        WarnOnce(_LOG).warn("full", "the disk is full", level=logging.ERROR)

    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2
