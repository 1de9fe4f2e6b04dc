"""What a package index shows: README.md as the description, and the project's addresses.

Both follow from the remote ``origin`` of the checkout that is built (decision 32). Where that names no known host, the
description goes without the links and pictures that work only beside README.md.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_RELATIVE = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)]*)\)")
_SSH = re.compile(r"^(?:ssh://)?[^/@]+@([^/:]+)(?::\d+)?[:/]")
_HTTPS = re.compile(r"https://(?:[^/@]*@)?(([^/@]+\.[^/@]+)/\S+?)(?:\.git)?/?")  # what names a user may hold a password
_BETWEEN = {"github.com": "", "gitee.com": "", "gitlab.com": "/-"}  # a project's address and that of its pages


class Description(MetadataHookInterface):
    """Fills the dynamic fields ``readme`` and ``urls``."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the description and the addresses."""
        if "readme" in metadata:  # a source distribution: its PKG-INFO has what was found when it was built
            return
        root = Path(self.root)
        url, commit = _git(root, "config", "--get", "remote.origin.url"), _git(root, "rev-parse", "HEAD")
        found = _HTTPS.fullmatch(_SSH.sub(r"https://\1/", url))
        address = found and f"https://{found[1]}"
        pages = f"{address}{_BETWEEN[found[2]]}" if found and commit and found[2] in _BETWEEN else None
        if address:
            metadata["urls"] = {"Source": address}
        if pages:
            metadata["urls"]["Documentation"] = f"{pages}/blob/{commit}/docs/index.md"
            metadata["urls"]["Changelog"] = f"{pages}/blob/{commit}/docs/changelog.md"
            metadata["urls"]["Issues"] = f"{pages}/issues"

        def on_an_index(link: re.Match[str]) -> str:
            picture, text, target = link.groups()
            if pages:
                return f"{picture}[{text}]({pages}/{'raw' if picture else 'blob'}/{commit}/{target})"
            return "" if picture else text

        text = _RELATIVE.sub(on_an_index, (root / "README.md").read_text(encoding="utf-8"))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def _git(root: Path, *command: str) -> str:
    """What git prints; nothing without git, or where the root is not that of a checkout but lies within another one."""
    if not (root / ".git").exists():
        return ""
    try:
        done = subprocess.run(["git", *command], cwd=root, capture_output=True, text=True, encoding="utf-8")
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
