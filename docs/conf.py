"""How Sphinx builds the site; docs/decisions/0010 says why it is set up so."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from docutils import nodes
from sphinx import search
from sphinx.application import Sphinx
from sphinx.errors import ConfigError
from sphinx.search.en import SearchEnglish

import mindsummary_lightning

for _needed in ("torch", "lightning"):
    # autodoc's stand-ins would leave out what their decorators wrap
    if importlib.util.find_spec(_needed) is None:
        raise ConfigError(
            f"the reference describes classes that need {_needed}, which is not installed "
            "here: run `python -m pip "
            "install -e .`, on a machine without a GPU after PyTorch's CPU build "
            "(docs/install.md), or `python -m nox "
            "-s docs`, which does it in an environment of its own"
        )

project = "mindsummary-lightning"
copyright = "the mindsummary-lightning authors, Apache-2.0"  # noqa: A001  # Sphinx's name
version = release = mindsummary_lightning.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["changes"]  # fragments, gathered into the page "changelog"

myst_heading_anchors = 3  # the anchors GitHub gives
suppress_warnings = ["misc.highlighting_failure"]  # output shortened with ... is no Python

autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True  # file_mode=0o600 and not 384
napoleon_use_ivar = True  # attributes of a dataclass are described once, in its docstring

# References that only another project's site could resolve; building must not need the network.
nitpick_ignore_regex = [
    # what the stages of a comparison work on is no part of its result
    (r"py:class", r"mindsummary_lightning\.porting\.comparison\.\w*(step|weights)\w*\..*"),
    (r"py:.*", r"(torch|nn|numpy|np|pandas|PIL|argparse|collections|datetime|os|lightning)\..*"),
    # aliases of plain types
    (r"py:class", r"AttributeValue|CustomValue|SpecifiedData|Target|Axes|Figure|.*\._T"),
]

html_theme = "furo"
html_title = f"mindsummary-lightning {release}"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]

html_search_language = "zh"
html_search_scorer = str(Path(__file__).parent / "search_scorer.js")  # titles and guides come first

copybutton_prompt_text = r">>> |\.\.\. |\$ "  # what is typed is copied, without prompts and output
copybutton_prompt_is_regexp = True


class SearchTwoLanguages(SearchEnglish):
    """Split English words and pairs of neighbouring Han characters, in pages and queries.

    Sphinx's own Chinese search asks jieba for words but looks a query up as one word, so that it
    finds no phrase.
    """

    lang = "zh"
    js_splitter_code = r"""
var splitQuery = (query) =>
  [...query.matchAll(/(?=([\u4e00-\u9fff]{2}))|((?:(?![\u4e00-\u9fff])[\p{Letter}\p{Number}_])+)/gu)]
    .map(([, pair, word]) => pair || word);
"""

    def split(self, input: str) -> list[str]:  # noqa: A002  # Sphinx's name
        """The words of a text, in its order."""
        return [
            pair or word
            for pair, word in re.findall(r"(?=([\u4e00-\u9fff]{2}))|([^\W\u4e00-\u9fff]+)", input)
        ]


search.languages["zh"] = SearchTwoLanguages


def index_questions(app: Sphinx, docname: str, source: list[str]) -> None:
    """Make ``<!-- search: one, another -->`` main entries of the index, which come first."""
    source[0] = re.sub(
        r"^<!-- search: (.*) -->$",
        lambda words: "```{index} ! " + words[1].replace(", ", ", ! ") + "\n```",
        source[0],
        flags=re.MULTILINE,
    )


def leave_decisions_out(app: Sphinx, doctree: nodes.document) -> None:
    """Keep decisions out of the search and of the sidebar.

    The page decisions/index links to them.
    """
    docname = app.env.docname
    if docname.startswith("decisions/"):
        app.env.metadata[docname]["nosearch"] = ""
        if docname != "decisions/index":
            app.env.metadata[docname]["orphan"] = ""


_FRAGMENTS = "<!-- fragments of docs/changes -->"


def gather_changes(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the fragments of ``docs/changes``, newest first, above the last release."""
    if docname != "changelog":
        return
    sections = ""
    fragments = sorted((Path(app.srcdir) / "changes").glob("[0-9]*.md"), reverse=True)
    for kind in ("added", "changed", "fixed", "removed"):
        texts = [
            path.read_text(encoding="utf-8").strip()
            for path in fragments
            if path.suffixes[0] == f".{kind}"
        ]
        # links of a fragment start in its own folder
        texts = [text.replace("](../", "](") for text in texts]
        if texts:
            lines = "\n".join("- " + re.sub(r"\s*\n", "\n  ", text) for text in texts)
            sections += f"### {kind.capitalize()}\n\n{lines}\n\n"
    if sections:
        source[0] = source[0].replace(_FRAGMENTS, f"## Since the last release\n\n{sections}")


def setup(app: Sphinx) -> None:
    """Connect the changelog and the search."""
    app.connect("source-read", gather_changes)
    app.connect("source-read", index_questions)
    app.connect("doctree-read", leave_decisions_out)
