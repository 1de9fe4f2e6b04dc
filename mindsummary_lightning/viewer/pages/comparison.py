"""The HTML page that compares two runs and shows where they first differ."""

from __future__ import annotations

from mindsummary_lightning.errors import MindSummaryError
from mindsummary_lightning.porting.comparison.compare import compare_runs
from mindsummary_lightning.viewer.api import ApiRequest, EncodedAnswer, required
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.page_frame import (
    PageWords,
    is_chinese,
    missing_run,
    unreadable_run,
    with_back_link,
)


def comparison(runs: LoadedRuns, request: ApiRequest) -> EncodedAnswer:
    """Compare the runs of query parameters ``a`` and ``b``; answer with HTML."""
    words = PageWords(is_chinese(request))
    train_ids, paths = [], []
    for side in ("a", "b"):
        train_id = required(request, side)
        listed = runs.find(train_id)
        if listed is None:
            raise missing_run(side, train_id, words)
        train_ids.append(train_id)
        paths.append(listed.path)
    try:
        language = "zh" if words.in_chinese else "en"
        page = compare_runs(*paths).to_html(language=language)
    except (MindSummaryError, OSError) as error:
        raise unreadable_run(error, words) from error
    framed = with_back_link(page, train_ids, words)
    return EncodedAnswer(framed.encode(), "text/html; charset=utf-8")
