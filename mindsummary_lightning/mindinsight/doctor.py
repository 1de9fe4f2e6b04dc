"""Which pages of an installed MindInsight are broken, and by which package."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["PAGES", "PageState", "examine", "installed_versions"]

# The pages as MindInsight 2.3.1 names them.
PAGES = (
    "Summary list",
    "Scalar",
    "Image",
    "Parameter distribution",
    "Tensor",
    "Computational graph",
    "Dataset graph",
    "Model traceback",
    "Data traceback",
    "Parameter importance",
    "Loss landscape",
)

# Package, first version that does not work, pages it breaks ("" is all), what is seen.
_BREAKS = (
    ("python", (3, 13), PAGES, "MindInsight cannot be imported: imghdr is gone"),
    ("protobuf", (3, 21), PAGES, "MindInsight's generated messages refuse to load"),
    (
        "numpy",
        (2,),
        ("Tensor", "Loss landscape", "Scalar", "Image", "Parameter distribution"),
        "every event with a tensor or landscape is dropped whole, with the scalars, images and histograms in it",
    ),
    (
        "marshmallow",
        (4,),
        ("Dataset graph", "Model traceback", "Data traceback"),
        "lineage queries fail with error 500",
    ),
    ("pandas", (2,), ("Parameter importance",), "the side panel of the model traceback page fails with error 500"),
)
_PACKAGES = ("mindinsight", "numpy", "marshmallow", "pandas", "protobuf", "scipy", "scikit-learn", "gunicorn", "Flask")


@dataclass(frozen=True, slots=True)
class PageState:
    """Whether a page works.

    Attributes:
        page: its name.
        problems: what breaks it, one sentence a package; empty if nothing does.
    """

    page: str
    problems: tuple[str, ...]


def installed_versions(python: str) -> dict[str, str]:
    """Versions of what matters in an environment, ``python`` among them; packages that are missing are left out.

    Args:
        python: path of the environment's executable.

    Raises:
        OSError: it cannot be run.
    """
    code = (
        "import json, sys\n"
        "from importlib import metadata\n"
        "found = {'python': '.'.join(map(str, sys.version_info[:3]))}\n"
        f"for name in {_PACKAGES!r}:\n"
        "    try: found[name] = metadata.version(name)\n"
        "    except metadata.PackageNotFoundError: pass\n"
        "print(json.dumps(found))\n"
    )
    answer = subprocess.run([python, "-c", code], check=False, capture_output=True, text=True)
    if answer.returncode:
        raise OSError(f"{python} failed to say what is installed: {' '.join(answer.stderr.split())[-300:]}")
    found: dict[str, str] = json.loads(answer.stdout)
    return found


def examine(versions: Mapping[str, str]) -> list[PageState]:
    """The state of every page under these versions.

    Args:
        versions: as :func:`installed_versions` gives them.
    """
    if "mindinsight" not in versions:
        return [PageState(page, ("MindInsight is not installed",)) for page in PAGES]
    return [
        PageState(
            page,
            tuple(
                f"{package} {versions[package]}: {seen}"
                for package, first, pages, seen in _BREAKS
                if package in versions and page in pages and _numbers(versions[package]) >= first
            ),
        )
        for page in PAGES
    ]


def _numbers(version: str) -> tuple[int, ...]:
    numbers = []
    for part in version.split(".")[:3]:
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)
