"""``WarnOnce``: one message per reason."""

from __future__ import annotations

import logging

import pytest

from mindsummary_lightning.warn_once import WarnOnce

_LOG = logging.getLogger("mindsummary_lightning.test")


def test_a_reason_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    once = WarnOnce(_LOG)
    for tag in ("a", "b", "a"):
        once.warn(("dtype", tag), "tag %s has no dtype", tag)

    assert caplog.messages == ["tag a has no dtype", "tag b has no dtype"]


def test_each_instance_warns_again_at_the_level_that_was_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        WarnOnce(_LOG).warn("full", "the disk is full", level=logging.ERROR)

    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2
