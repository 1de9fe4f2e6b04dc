"""Hypothesis profile without a deadline: the duration of an example proves nothing on a busy machine."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
