from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mindsummary_lightning.viewer.user_directories import cache_directory, state_directory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the rules of Linux")


def test_the_cache_is_where_the_platform_wants_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    assert cache_directory() == str(tmp_path / "cache" / "mindsummary-lightning")
    assert os.stat(cache_directory()).st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("platform", "cache", "state"),
    [
        ("linux", ".cache", ".local/state"),
        ("darwin", "Library/Caches", "Library/Application Support"),
        ("win32", "AppData/Local", "AppData/Local"),
    ],
)
def test_each_platform_has_its_places_in_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, cache: str, state: str
) -> None:
    for variable in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", platform)

    name = "mindsummary-lightning"
    assert (cache_directory(), state_directory()) == (
        str(tmp_path / cache / name),
        str(tmp_path / state / name),
    )
    other = {"linux": "XDG_STATE_HOME", "win32": "LOCALAPPDATA"}.get(platform)
    if other is not None:
        monkeypatch.setenv(other, str(tmp_path / "other"))
        assert state_directory() == str(tmp_path / "other" / name)


@pytest.mark.parametrize(
    ("mode", "owner", "reason"),
    [
        (0o770, None, r"can be written to by other users \(mode 0770\)"),
        (0o702, None, r"can be written to by other users \(mode 0702\)"),
        (0o700, 12345, "belongs to user 12345, not to user"),
    ],
)
def test_a_cache_that_others_may_write_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, owner: int | None, reason: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    os.makedirs(tmp_path / "mindsummary-lightning")
    os.chmod(tmp_path / "mindsummary-lightning", mode)
    if owner is not None:
        if os.geteuid() != 0:
            pytest.skip("only root gives files away")
        os.chown(tmp_path / "mindsummary-lightning", owner, owner)

    with pytest.raises(
        PermissionError, match=f"the cache .*/mindsummary-lightning {reason}.*XDG_CACHE_HOME"
    ):
        cache_directory()


def test_on_macos_no_variable_is_advised_as_none_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setenv("HOME", str(tmp_path))
    cache = tmp_path / "Library" / "Caches" / "mindsummary-lightning"
    cache.mkdir(parents=True)
    cache.chmod(0o777)

    with pytest.raises(PermissionError) as refused:
        cache_directory()

    assert str(refused.value) == (
        f"the cache directory {cache} can be written to by other users (mode 0777). "
        "Run `chmod 700` on it"
    )


def test_without_a_home_a_temporary_directory_is_used_which_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    # as for a user that no one knows; of each test another one, as of each it is said once
    unknown = f"~{tmp_path.name}"
    monkeypatch.setattr(os.path, "expanduser", lambda path: path.replace("~", unknown))
    monkeypatch.chdir(tmp_path)

    cache = cache_directory()
    assert cache == cache_directory()
    assert os.stat(cache).st_mode & 0o777 == 0o700
    assert list(tmp_path.iterdir()) == []
    (said,) = caplog.records
    assert "HOME is not set; this process uses" in said.getMessage()
    assert cache in said.getMessage()


@pytest.mark.parametrize("of", [cache_directory, state_directory], ids=["cache", "state"])
def test_where_the_home_is_not_writable_a_temporary_directory_is_used(
    of: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    for variable in ("XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(variable, str(home / "x"))
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).startswith(str(home)))
    assert callable(of)

    assert of() != str(home / "x")
    assert os.path.isdir(of())
    assert list(home.iterdir()) == []
    assert "is not writable" in caplog.text
