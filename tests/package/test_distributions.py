"""What is built for others: the right files, nothing else, and metadata that an index takes."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

import mindsummary_lightning

pytestmark = pytest.mark.slow

pytest.importorskip("hatchling", reason="builds wheel and sdist")

ROOT = Path(__file__).parents[2]
NAME = f"mindsummary_lightning-{mindsummary_lightning.__version__}"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the wheel and the sdist of this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, check=True
    )
    return folder


def _wheel_names(built: Path) -> set[str]:
    with zipfile.ZipFile(built / f"{NAME}-py3-none-any.whl") as wheel:
        return set(wheel.namelist())


def _metadata(built: Path, file: str) -> Message:
    with zipfile.ZipFile(built / f"{NAME}-py3-none-any.whl") as wheel:
        return Parser().parsestr(wheel.read(f"{NAME}.dist-info/{file}").decode())


def test_the_wheel_holds_the_package_and_nothing_else(built: Path) -> None:
    package = ROOT / "mindsummary_lightning"
    files = [
        path
        for pattern in (
            "*.py",
            "*.pyi",
            "py.typed",
            "templates/*",
            "static/*",
            "static/*/*",
            "page.css",
            "page_base.css",
            "page_zh.json",
            "pages_zh.json",
            "report.css",
            "report_zh.json",
        )
        for path in package.rglob(pattern)
        if path.is_file()
    ]
    sources = {path.relative_to(ROOT).as_posix() for path in files}
    facts = {
        f"{NAME}.dist-info/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt")
    }

    sources.remove("mindsummary_lightning/viewer/static/uPlot.LICENSE")
    licenses = {"LICENSE", "mindsummary_lightning/viewer/static/uPlot.LICENSE"}
    assert _wheel_names(built) == sources | facts | {
        f"{NAME}.dist-info/licenses/{name}" for name in licenses
    }
    assert "mindsummary_lightning/py.typed" in sources


def test_the_sdist_holds_what_is_needed_to_build_and_check(built: Path) -> None:
    with tarfile.open(built / f"{NAME}.tar.gz") as sdist:
        names = {name.removeprefix(f"{NAME}/") for name in sdist.getnames()}

    assert {
        "pyproject.toml",
        "hatch_build.py",
        "noxfile.py",
        "LICENSE",
        "README.md",
        "README_CN.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        ".ci/run",
        ".github/workflows/release.yml",
    } <= names
    assert {"tests/package/test_distributions.py", "docs/index.md", "examples/digits.py"} <= names
    tops = {
        "mindsummary_lightning",
        "protos",
        "tests",
        "docs",
        "examples",
        "benchmarks",
        ".ci",
        ".github",
    }
    assert {name.partition("/")[0] for name in names if "/" in name} == tops
    assert not [name for name in names if name.endswith((".pyc", ".so", ".log"))]


def test_the_metadata_are_valid_and_say_what_the_package_is(built: Path) -> None:
    metadata = pytest.importorskip("packaging.metadata")
    with zipfile.ZipFile(built / f"{NAME}-py3-none-any.whl") as wheel:
        found = metadata.Metadata.from_email(
            wheel.read(f"{NAME}.dist-info/METADATA"), validate=True
        )

    assert (found.name, str(found.version)) == (
        "mindsummary-lightning",
        mindsummary_lightning.__version__,
    )
    assert str(found.license_expression) == "Apache-2.0 AND MIT"
    assert found.description_content_type == "text/markdown"
    assert found.description.startswith("# mindsummary-lightning")


def test_the_description_that_an_index_shows_has_the_readmes_words_and_no_relative_link(
    built: Path,
) -> None:
    with zipfile.ZipFile(built / f"{NAME}-py3-none-any.whl") as wheel:
        shown = wheel.read(f"{NAME}.dist-info/METADATA").decode().partition("\n\n")[2]
    targets = re.findall(r"\]\(([^)\s]*)\)", shown)

    assert targets
    assert [target for target in targets if not target.startswith("https://")] == []
    assert "[`" not in shown
    assert "The pages named in brackets are in the source distribution." in shown
    for words in (
        "trainer.fit(",
        "`mindsummary compare` (docs/find-the-mistakes-in-a-port.md)",
        "The first run (docs/first-run.md) |",
    ):
        assert words in shown


def test_the_wheel_installs_the_command(built: Path) -> None:
    with zipfile.ZipFile(built / f"{NAME}-py3-none-any.whl") as wheel:
        entries = wheel.read(f"{NAME}.dist-info/entry_points.txt").decode()

    assert "mindsummary = mindsummary_lightning.cli:main" in entries
    assert _metadata(built, "WHEEL")["Root-Is-Purelib"] == "true"
