"""The page about two runs that the table of runs links: where they differ."""

from __future__ import annotations

from mindsummary_lightning.errors import MindSummaryError
from mindsummary_lightning.porting.comparison.compare import compare_runs
from mindsummary_lightning.viewer.api import (
    WRONG_VALUE,
    ApiError,
    ApiRequest,
    EncodedAnswer,
    required,
)
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns


def comparison(runs: LoadedRuns, request: ApiRequest) -> EncodedAnswer:
    """The comparison of the runs ``a`` and ``b``, as HTML."""
    paths = []
    for side in ("a", "b"):
        listed = runs.find(required(request, side))
        if listed is None:
            raise ApiError(WRONG_VALUE, f"Invalid parameter value. {side!r} is not a run.")
        paths.append(listed.path)
    try:
        language = "zh" if request.first("language") == "zh" else "en"
        page = compare_runs(*paths).to_html(language=language)
    except (MindSummaryError, OSError) as error:
        raise ApiError(WRONG_VALUE, f"The runs cannot be compared: {error}") from error
    return EncodedAnswer(page.encode(), "text/html; charset=utf-8")
