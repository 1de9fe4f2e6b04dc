"""``Comparison``: prints, exports and displays the result of ``compare_runs``."""

from __future__ import annotations

from html import escape
from typing import Any

from mindsummary_lightning.porting.comparison.comparison_data import ComparisonData
from mindsummary_lightning.porting.comparison.comparison_json import comparison_dict
from mindsummary_lightning.porting.comparison.page import comparison_page
from mindsummary_lightning.porting.comparison.terminal_text import comparison_lines


class Comparison(ComparisonData):
    """The result of :func:`.compare_runs`.

    Its attributes are those of :class:`.ComparisonData`. ``print`` shows what the command prints;
    a notebook shows the page.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.verdict!r}, {self.sentence!r})"

    def __str__(self) -> str:
        return "\n".join(comparison_lines(self))

    def _repr_html_(self) -> str:
        page = escape(self.to_html(), quote=True)
        return f'<iframe srcdoc="{page}" height="600" style="border: 0; width: 100%"></iframe>'

    def to_html(self, *, language: str = "en") -> str:
        """Return the page as HTML.

        Args:
            language: ``"en"`` or ``"zh"``.

        Raises:
            ValueError: the language is another one.
        """
        return comparison_page(self, language)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON values; a non-finite number becomes its name."""
        return comparison_dict(self)
