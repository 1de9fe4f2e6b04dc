"""What an index shows of this project, with and without an address of its own."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hatchling", reason="runs the build hook")
pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="makes repositories")

ROOT = Path(__file__).parents[2]
README = "[The guide](docs/guide.md#top), ![a](docs/a.png), [torch](https://pytorch.org), [below](#below).\n"
ALONE = "The guide, , [torch](https://pytorch.org), [below](#below).\n"


def _git(folder: Path, *command: str) -> str:
    return subprocess.run(["git", *command], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def _checkout(folder: Path, origin: str | None) -> str:
    """Make a repository of a directory; the commit."""
    _git(folder, "init", "-q")
    if origin is not None:
        _git(folder, "remote", "add", "origin", origin)
    _git(folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "first")
    return _git(folder, "rev-parse", "HEAD")


def _hooked(folder: Path) -> dict[str, Any]:
    """What the build hook adds to the metadata of a project that has a README.md."""
    (folder / "README.md").write_text(README, encoding="utf-8")
    metadata: dict[str, Any] = {}
    runpy.run_path(str(ROOT / "hatch_build.py"))["Description"](str(folder), {}).update(metadata)
    return metadata


@pytest.mark.parametrize(
    ("origin", "address", "pages"),
    [
        ("https://github.com/owner/name", "https://github.com/owner/name", ""),
        ("https://user:secret@github.com/owner/name.git", "https://github.com/owner/name", ""),
        ("git@github.com:owner/name.git", "https://github.com/owner/name", ""),
        ("ssh://git@gitlab.com:22/group/sub/name.git/", "https://gitlab.com/group/sub/name", "/-"),
        ("git@gitee.com:owner/name.git", "https://gitee.com/owner/name", ""),
    ],
)
def test_links_and_addresses_lead_to_the_origin(tmp_path: Path, origin: str, address: str, pages: str) -> None:
    commit = _checkout(tmp_path, origin)

    found = _hooked(tmp_path)

    assert found["urls"] == {
        "Source": address,
        "Documentation": f"{address}{pages}/blob/{commit}/docs/index.md",
        "Changelog": f"{address}{pages}/blob/{commit}/docs/changelog.md",
        "Issues": f"{address}{pages}/issues",
    }
    guide, picture = f"blob/{commit}/docs/guide.md#top", f"raw/{commit}/docs/a.png"
    absolute = f"[The guide]({address}{pages}/{guide}), ![a]({address}{pages}/{picture})"
    assert found["readme"]["text"] == f"{absolute}, [torch](https://pytorch.org), [below](#below).\n"


def test_of_a_host_that_is_not_known_only_the_address_is_stated(tmp_path: Path) -> None:
    _checkout(tmp_path, "https://git.example.org:8443/owner/name.git")

    found = _hooked(tmp_path)

    assert found["urls"] == {"Source": "https://git.example.org:8443/owner/name"}
    assert found["readme"]["text"] == ALONE


@pytest.mark.parametrize("origin", [None, "/srv/name.git", "../name", "file:///srv/name.git", "git@alias:owner/name"])
def test_without_an_address_links_become_text_and_pictures_go(tmp_path: Path, origin: str | None) -> None:
    _checkout(tmp_path, origin)

    assert _hooked(tmp_path) == {"readme": {"content-type": "text/markdown", "text": ALONE}}


def test_the_origin_of_a_checkout_around_the_project_is_not_its_own(tmp_path: Path) -> None:
    _checkout(tmp_path, "https://github.com/other/project")
    inner = tmp_path / "vendored"
    inner.mkdir()

    assert "urls" not in _hooked(inner)


def test_it_builds_where_git_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _checkout(tmp_path, "https://github.com/owner/name")
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))

    assert _hooked(tmp_path) == {"readme": {"content-type": "text/markdown", "text": ALONE}}


@pytest.mark.slow
@pytest.mark.parametrize("origin", ["git@github.com:owner/name.git", None])
def test_a_wheel_built_from_the_source_distribution_says_the_same(tmp_path: Path, origin: str | None) -> None:
    source = tmp_path / "source"
    shutil.copytree(ROOT / "mindsummary_lightning", source / "mindsummary_lightning")
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    commit = _checkout(source, origin)
    direct = _wheel_metadata(source, "sdist", "wheel")
    with tarfile.open(next((source / "dist").glob("*.tar.gz"))) as sdist:
        sdist.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    _checkout(unpacked, "https://github.com/packagers/name")  # others may keep it in a repository of theirs
    indirect = _wheel_metadata(unpacked, "wheel")

    assert indirect.get_all("Project-URL") == direct.get_all("Project-URL")
    assert indirect.get_payload() == direct.get_payload()
    urls = dict(url.split(", ") for url in direct.get_all("Project-URL", []))
    targets = re.findall(r"\]\(([^)]*)\)", str(direct.get_payload()))
    assert targets
    assert [target for target in targets if not target.startswith("https://")] == []
    if origin:
        assert urls["Source"] == "https://github.com/owner/name"
        assert f"https://github.com/owner/name/raw/{commit}/docs/images/demo-dashboard.png" in targets
    else:
        assert urls == {}
        assert "Step by step: the first run." in str(direct.get_payload())


def _wheel_metadata(source: Path, *targets: str) -> Message:
    for target in targets:
        subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", target], cwd=source, check=True)
    (path,) = (source / "dist").glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(wheel.read(name).decode())
