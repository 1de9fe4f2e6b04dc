"""A pytest plugin that states newer versions of what the package is built on than are installed.

Packages are imported before, so that they judge each other by their true versions. Ours is imported
after it.
"""

from __future__ import annotations

import contextlib
import importlib
from importlib import metadata

# the next major version of each
NEWER = {
    "aiohttp": "4.0.0",
    "lightning": "3.0.0",
    "numpy": "3.0.0",
    "protobuf": "8.0.0",
    "pytorch-lightning": "3.0.0",
    "torch": "3.0.0",
}
_MODULES = {"protobuf": "google.protobuf", "pytorch-lightning": "pytorch_lightning"}


def pytest_configure() -> None:
    """Let ``importlib.metadata`` and ``__version__`` give the newer versions in this process."""
    installed_version = metadata.version
    for package, newer in NEWER.items():
        with contextlib.suppress(ImportError):
            importlib.import_module(_MODULES.get(package, package)).__version__ = newer
    metadata.version = lambda name: NEWER.get(name) or installed_version(name)


def pytest_report_header() -> str:
    """State the versions as the tests find them."""
    found = {name: metadata.version(name) for name in NEWER}
    return f"stated versions: {found}"
