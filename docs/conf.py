"""How Sphinx builds the site; docs/decisions/0010 says why it is set up so."""

from __future__ import annotations

import mindsummary_lightning

project = "mindsummary-lightning"
copyright = "the mindsummary-lightning authors, Apache-2.0"  # noqa: A001  # Sphinx's name
version = release = mindsummary_lightning.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["changes"]  # fragments; a release gathers them

myst_heading_anchors = 3  # the anchors GitHub gives
suppress_warnings = ["misc.highlighting_failure"]  # output shortened with ... is no Python

autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
napoleon_use_ivar = True  # attributes of a dataclass are described once, in its docstring

# References that only another project's site could resolve; building must not need the network.
nitpick_ignore_regex = [
    (r"py:.*", r"(torch|nn|numpy|np|pandas|PIL|argparse|collections|os)\..*"),
    (r"py:class", r"AttributeValue|CustomValue|SpecifiedData|Target"),  # aliases of plain types
]

html_theme = "furo"
html_title = f"mindsummary-lightning {release}"
html_copy_source = False
