"""The README as a package index shows it, where links to files of the repository lead nowhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

# the target of a link that does not begin with a scheme such as https:
_RELATIVE = r"\((?!\w+:)[^)\s]+\)"
_PICTURE = re.compile(rf"^!\[[^\]]*\]{_RELATIVE}\n\n?", re.MULTILINE)
# the way to the other language
_LINE_OF_ONE_LINK = re.compile(rf"^\[[^\]]*\]{_RELATIVE}\n\n?", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\((?!\w+:)([^)\s#]+)[^)\s]*\)")
_TITLE = re.compile(r"^# .*\n\n")
_WHERE_THE_PAGES_ARE = "The pages named in brackets are in the source distribution.\n\n"


class IndexReadme(MetadataHookInterface):
    """Sets the field ``readme`` of the metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Put the README without its relative links into ``metadata``."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": without_relative_links(text)}


def without_relative_links(text: str) -> str:
    """Markdown without relative links: each becomes its words and its file."""
    text = _PICTURE.sub("", text)
    text = _LINE_OF_ONE_LINK.sub("", text)
    text = _LINK.sub(r"\1 (\2)", text)
    return _TITLE.sub(lambda title: title[0] + _WHERE_THE_PAGES_ARE, text, count=1)
