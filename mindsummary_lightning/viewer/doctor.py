"""Diagnostics: what ``mindsummary view`` needs, and which pages of an installed MindInsight are broken."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata

from mindsummary_lightning.viewer.frontend import find_pip, has_frontend
from mindsummary_lightning.viewer.isolated_process import output_tail, python_command, run_isolated
from mindsummary_lightning.viewer.user_directories import cache_directory

PAGES = (  # as MindInsight 2.3.1 names them
    "Summary list", "Scalar", "Image", "Parameter distribution", "Tensor", "Computational graph", "Dataset graph",
    "Model traceback", "Data traceback", "Parameter importance", "Loss landscape",
)  # fmt: skip
_WITH_TENSORS = ("Tensor", "Loss landscape", "Scalar", "Image", "Parameter distribution")
_LOSS = "every event with a tensor or landscape is dropped, including the scalars, images and histograms in it"
_OF_LINEAGE = ("Dataset graph", "Model traceback", "Data traceback")
_BREAKS = (  # package, first version that does not work, pages it breaks, what is seen
    ("python", (3, 13), PAGES, "MindInsight cannot be imported: imghdr is gone"),
    ("protobuf", (3, 21), PAGES, "MindInsight's generated messages refuse to load"),
    ("numpy", (2,), _WITH_TENSORS, _LOSS),
    ("marshmallow", (4,), _OF_LINEAGE, "lineage queries fail with error 500"),
    ("pandas", (2,), ("Parameter importance",), "the side panel of the model traceback page fails with error 500"),
)
_PACKAGES = ("mindinsight", "numpy", "marshmallow", "pandas", "protobuf", "scipy", "scikit-learn", "gunicorn", "Flask")
_VIEWER_PACKAGES = ("aiohttp", "numpy", "protobuf", "crc32c")


@dataclass(frozen=True, slots=True)
class ViewerNeed:
    """Something that ``mindsummary view`` needs, its state, and whether that is enough."""

    name: str
    state: str
    is_met: bool = True


def examine_viewer() -> list[ViewerNeed]:
    """What ``mindsummary view`` needs in this environment, and its state."""
    needs = [ViewerNeed("Python", ".".join(map(str, sys.version_info[:3])))]
    for package in _VIEWER_PACKAGES:
        try:
            needs.append(ViewerNeed(package, metadata.version(package)))
        except metadata.PackageNotFoundError:
            needs.append(ViewerNeed(package, f"is missing: python -m pip install {package}", is_met=False))
    return [*needs, *_examine_frontend()]


def _examine_frontend() -> list[ViewerNeed]:
    try:
        cache = cache_directory()
        is_writable = os.access(cache, os.W_OK)
    except OSError as error:
        return [ViewerNeed("cache", f"cannot be made: {error}", is_met=False)]
    needs = [ViewerNeed("cache", cache if is_writable else f"{cache} is not writable", is_writable)]
    if has_frontend():
        return [*needs, ViewerNeed("front end", "is in the cache")]
    pip = find_pip()
    if pip is None:
        missing = "is not in the cache, and there is no pip to fetch it: use `mindsummary view --wheel FILE`"
        return [*needs, ViewerNeed("front end", missing, is_met=False)]
    return [*needs, ViewerNeed("front end", f"is fetched on the first start, by {' '.join(pip)}")]


def installed_versions(python: str) -> dict[str, str]:
    """Versions of MindInsight and its packages in a Python's environment, and its own; missing packages are skipped."""
    code = (
        "import json, sys\n"
        "from importlib import metadata\n"
        "versions = {'python': '.'.join(map(str, sys.version_info[:3]))}\n"
        f"for name in {_PACKAGES!r}:\n"
        "    try: versions[name] = metadata.version(name)\n"
        "    except metadata.PackageNotFoundError: pass\n"
        "print(json.dumps(versions))\n"
    )
    answer = run_isolated(python_command(os.path.abspath(python), "-c", code))
    if answer.returncode:
        raise OSError(f"{python} cannot list its packages: {output_tail(answer)}")
    versions: dict[str, str] = json.loads(answer.stdout)
    return versions


def examine(versions: Mapping[str, str]) -> dict[str, list[str]]:
    """What breaks each page under versions as :func:`installed_versions` gives them, one sentence per package."""
    if "mindinsight" not in versions:
        return {page: ["MindInsight is not installed"] for page in PAGES}
    problems: dict[str, list[str]] = {page: [] for page in PAGES}
    for package, first, pages, seen in _BREAKS:
        if package in versions and tuple(map(int, re.findall(r"\d+", versions[package]))) >= first:
            for page in pages:
                problems[page].append(f"{package} {versions[package]}: {seen}")
    return problems
