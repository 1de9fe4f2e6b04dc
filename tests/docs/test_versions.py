"""The page of versions names what the sessions of nox install, and what pyproject.toml states."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT

_PAGE = (ROOT / "docs" / "development" / "versions.md").read_text(encoding="utf-8")
_NOXFILE = (ROOT / "noxfile.py").read_text(encoding="utf-8")


def _cells(feature: str) -> list[str]:
    line = next(line for line in _PAGE.splitlines() if line.startswith(f"| {feature}"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_page_of_versions_has_the_lower_bounds_that_are_stated() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    bounds = re.findall(
        r'"(\w+)>=([\d.]+)', re.findall(r"^dependencies = \[(.*?)^\]", project, re.DOTALL | re.M)[0]
    )
    (python,) = re.findall(r'requires-python = ">=([\d.]+)"', project)

    assert len(bounds) >= 6
    assert sorted(_cells("recording")[1].split(", ")) == sorted(
        " ".join(each) for each in [("Python", python), *bounds]
    )


def test_the_page_of_versions_has_what_the_judges_install() -> None:
    pinned = re.findall(r'"(mindspore)==([\d.]+)"', _NOXFILE)
    majors = re.findall(r'"([\d.]+)"', re.findall(r"PROTOBUF_MAJORS = \[(.*?)\]", _NOXFILE)[0])
    block = re.findall(r"^LIBRARIES = \{(.*?)^\}", _NOXFILE, re.DOTALL | re.MULTILINE)[0]
    libraries = re.findall(r'"([\w-]+)(?:\[\w+\])?"[,\]]', block)
    sessions = set(re.findall(r"`nox -s (\w+)`", _PAGE))
    torch = (
        (ROOT / ".ci" / "constraints.txt").read_text(encoding="utf-8").strip().replace("==", " ")
    )

    assert [
        f"{name} {version}" for name, version in pinned if f"{name} {version}" not in _PAGE
    ] == []
    assert [version for version in majors if version not in _PAGE] == []
    assert torch in _PAGE
    assert sorted(_cells("trainings")[3].split(", ")) == sorted(libraries)
    assert [
        name for name in sessions if not re.search(rf"^def {name}\(", _NOXFILE, re.MULTILINE)
    ] == []
