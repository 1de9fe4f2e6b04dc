from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mindsummary_lightning.viewer.user_directories import cache_directory


@pytest.mark.skipif(sys.platform != "linux", reason="the rule of Linux")
def test_the_cache_is_where_the_platform_wants_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    assert cache_directory() == str(tmp_path / "cache" / "mindsummary-lightning")
    assert os.stat(cache_directory()).st_mode & 0o777 == 0o700
