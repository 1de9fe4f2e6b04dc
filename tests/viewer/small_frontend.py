"""A front end of three files in the place of MindInsight's."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path

from mindsummary_lightning.viewer.frontend import WHEEL_NAME

SCRIPT = "let answer = 42;" * 1000
_FILES = {
    "mindinsight/__init__.py": "raise SystemExit",
    "mindinsight/ui/dist/index.html": (
        '<head><title>MindInsight</title></head><script src="app.js"></script>'
    ),
    "mindinsight/ui/dist/static/js/app.01234567.js": SCRIPT,
    "mindinsight/ui/dist/static/js/graphvizlib.wasm": b"\0asm\1\0\0\0",
    "mindinsight-2.3.1.dist-info/LICENSE": "Apache License",
}


def wheel_of(files: Mapping[str, str | bytes]) -> bytes:
    """The bytes of a wheel with some files."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)
    return content.getvalue()


SMALL_WHEEL = wheel_of(_FILES)
SMALL_SHA256 = hashlib.sha256(SMALL_WHEEL).hexdigest()
# The command, if its cache holds the small wheel.
COMMAND = (
    "import sys; sys.path.pop(0); "  # the working directory
    f"from mindsummary_lightning.viewer import frontend; frontend.WHEEL_SHA256 = {SMALL_SHA256!r}; "
    "from mindsummary_lightning.cli import main; sys.exit(main())"
)


def put_into_cache(cache: Path) -> Path:
    """Put the small wheel where a user's cache has MindInsight's; returns its path."""
    path = cache / "mindsummary-lightning" / WHEEL_NAME
    path.parent.mkdir(parents=True, mode=0o700)
    path.write_bytes(SMALL_WHEEL)
    return path


def is_in_cache(cache: Path) -> bool:
    """Whether it was put there."""
    path = cache / "mindsummary-lightning" / WHEEL_NAME
    return os.path.exists(path) and path.read_bytes() == SMALL_WHEEL
