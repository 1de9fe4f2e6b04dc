"""Every way in which the viewer answers otherwise than MindInsight 2.3.1 does on purpose, one by
one, with its reason.

A difference that no request shows any more fails the test: it is to be taken out.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.oracle.differential.asking import Answer, Ask
from tests.oracle.differential.comparing import mismatch


@dataclass(frozen=True)
class Difference:
    """A way in which answers differ.

    Attributes:
        reason: why ours is right, or better for the user.
        explains: whether it accounts for two different answers to a request: theirs, ours.
    """

    reason: str
    explains: Callable[[Ask, Answer, Answer], bool]


_TAG_LISTS = ("datavisual/train-jobs", "datavisual/plugins", "datavisual/single-job")
_STEP_LISTS = ("scalar/metadata", "scalars", "image/metadata", "histograms", "tensors")


def _same_but_for(changed: Callable[[Any], Any]) -> Callable[[Ask, Answer, Answer], bool]:
    """Whether answers are the same once ``changed`` was applied to both bodies."""

    def explains(ask: Ask, theirs: Answer, ours: Answer) -> bool:
        del ask
        if not isinstance(theirs.content, dict) or not isinstance(ours.content, dict):
            return False
        bodies = (
            Answer(one.status, changed(one.content), one.content_type) for one in (theirs, ours)
        )
        return mismatch(*bodies) is None

    return explains


def _without_status(body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "load_status": None}


def _without_cache(body: dict[str, Any]) -> dict[str, Any]:
    hidden = {"cache_status": None, "plugins": None, "is_integrity": None}
    return {
        **_without_status(body),
        "train_jobs": [{**row, **hidden} for row in body.get("train_jobs", ())],
    }


def _without_integrity(body: dict[str, Any]) -> dict[str, Any]:
    return {
        **_without_status(body),
        "train_jobs": [{**row, "is_integrity": None} for row in body.get("train_jobs", ())],
    }


def _list_shows_other_slots(ask: Ask, theirs: Answer, ours: Answer) -> bool:
    is_list = ask.path == "datavisual/train-jobs" and ask.value("train_id") is None
    return is_list and _same_but_for(_without_cache)(ask, theirs, ours)


def _status_before_caching(ask: Ask, theirs: Answer, ours: Answer) -> bool:
    def names(body: dict[str, Any]) -> dict[str, Any]:
        return {
            "runs": [row["train_id"] for row in body.get("cache_result", ())],
            "is_error": "error_code" in body,
        }

    return ask.path == "datavisual/train-job-caches" and _same_but_for(names)(ask, theirs, ours)


def _is_refused_instead_of_failing(ask: Ask, theirs: Answer, ours: Answer) -> bool:
    del ask
    return theirs.status == 500 and ours.status == 400


def _is_answered_instead_of_failing(ask: Ask, theirs: Answer, ours: Answer) -> bool:
    return theirs.status == 500 and ours.status == 200 and ask.path == "datavisual/tensors"


def _path_in_message(ask: Ask, theirs: Answer, ours: Answer) -> bool:
    return ask.path == "datavisual/plugins" and (theirs.code, ours.code) == ("50545005", "50545005")


def _null_byte(ask: Ask, theirs: Answer, ours: Answer) -> bool:
    return "\0" in (ask.value("train_id") or "") and (theirs.code, ours.code) == (
        "50545011",
        "50545005",
    )


def _run_is(name: str) -> Callable[[Ask], bool]:
    return lambda ask: ask.value("train_id") == f"./{name}"


def _both(
    is_run: Callable[[Ask], bool], explains: Callable[[Ask, Answer, Answer], bool]
) -> Callable[..., bool]:
    return lambda ask, theirs, ours: is_run(ask) and explains(ask, theirs, ours)


def _holds_more(theirs: Any, ours: Any) -> bool:
    """Whether ours holds everything that theirs holds: all tags, and of each sample that both hold
    the same.
    """
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return theirs.keys() == ours.keys() and all(
            _holds_more(theirs[key], ours[key]) for key in theirs
        )
    if isinstance(theirs, list) and isinstance(ours, list):
        if theirs and all(isinstance(sample, dict) and "step" in sample for sample in theirs):
            shown = {sample["step"]: sample for sample in ours}
            both = [(sample, shown[sample["step"]]) for sample in theirs if sample["step"] in shown]
            return (
                len(ours) > len(theirs) and bool(both) and all(_holds_more(*pair) for pair in both)
            )
        if all(isinstance(tag, str) for tag in (*theirs, *ours)):
            return set(theirs) <= set(ours)
        return len(theirs) == len(ours) and all(map(_holds_more, theirs, ours))
    return mismatch(Answer(200, theirs), Answer(200, ours)) is None


def _more_tags(ask: Ask, theirs: Answer, ours: Answer) -> bool:
    return ask.path in _TAG_LISTS and _holds_more(
        _without_status(theirs.content), _without_status(ours.content)
    )


def _more_steps(ask: Ask, theirs: Answer, ours: Answer) -> bool:
    return ask.path.removeprefix("datavisual/") in _STEP_LISTS and _holds_more(
        theirs.content, ours.content
    )


def _any_step(ask: Ask, theirs: Answer, ours: Answer) -> bool:
    return (theirs.code, ours.status) in (("5054500D", 200), ("50545014", 200))


def _dropped_tag(ask: Ask, theirs: Answer, ours: Answer) -> bool:
    del ask
    return theirs.code in ("5054500E", "5054500F", "50545012") and ours.status == 200


def _fewer_points(ask: Ask, theirs: Answer, ours: Answer) -> bool:
    return _more_steps(ask, ours, theirs)


def _beyond(ask: Ask) -> bool:
    return (ask.value("train_id") or "").startswith("./beyond_")


def _interval_names(ask: Ask, theirs: Answer, ours: Answer) -> bool:
    def values(body: dict[str, Any]) -> dict[str, Any]:
        return {"values": [interval["value"] for interval in body.get("intervals", ())]}

    return ask.path == "datavisual/landscape/intervals" and _same_but_for(values)(ask, theirs, ours)


def _words_of_a_condition(ask: Ask, theirs: Answer, ours: Answer) -> bool:
    return ask.method == "POST" and theirs.code == ours.code == "50542218"


def _marks(ask: Ask, theirs: Answer, ours: Answer) -> bool:
    def without_marks(body: dict[str, Any]) -> dict[str, Any]:
        if "object" not in body:
            return body
        models = [{**row.get("model_lineage", {}), "dataset_mark": None} for row in body["object"]]
        return {
            **body,
            "object": [
                {**row, "model_lineage": m} for row, m in zip(body["object"], models, strict=True)
            ],
        }

    is_asked_for = b"dataset_mark" in (ask.body or b"") and theirs.status == ours.status == 200
    return is_asked_for or (
        ask.path == "lineagemgr/lineages" and _same_but_for(without_marks)(ask, theirs, ours)
    )


def _old_optimized_graph(ask: Ask, theirs: Answer, ours: Answer) -> bool:
    if (ask.value("tag") or "").endswith("1700000000.0.h_MS (optimized)"):
        return (
            theirs.status == 200
            or theirs.code != ours.code
            or "Can not find" in ours.content["error_msg"]
        )
    is_default = ask.path.startswith("datavisual/graphs/") and ask.value("mode") == "optimize"
    return is_default or (
        ask.path in _TAG_LISTS
        and _holds_more(_without_status(ours.content), _without_status(theirs.content))
    )


def _most_runs_first(ask: Ask, theirs: Answer, ours: Answer) -> bool:
    def by_name(body: dict[str, Any]) -> dict[str, Any]:
        return {
            **body,
            "targets": sorted(body.get("targets", ()), key=lambda target: target["name"]),
        }

    return ask.path == "optimizer/targets/search" and _same_but_for(by_name)(ask, theirs, ours)


def _plain_text(ask: Ask, theirs: Answer, ours: Answer) -> bool:
    return (
        ask.method == "PUT"
        and ask.content_type == "text/plain"
        and (theirs.status, ours.status) == (500, 200)
    )


def _webp(ask: Ask, theirs: Answer, ours: Answer) -> bool:
    del ask
    types = (theirs.content_type, ours.content_type)
    return types == ("application/octet-stream", "image/webp") and theirs.content == ours.content


def _joiners(ask: Ask, theirs: Answer, ours: Answer) -> bool:
    def without_joiners(body: dict[str, Any]) -> dict[str, Any]:
        text = json.dumps(body)
        return _without_status(json.loads(text.replace("<\\u2060", "<").replace("&\\u2060", "&")))

    return ask.path in _TAG_LISTS and _same_but_for(without_joiners)(ask, theirs, ours)


DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        (
            "The real one keeps the tags of 15 runs, ours those of every run that was asked for: "
            "lists show it."
        ),
        _list_shows_other_slots,
    ),
    Difference(
        "Ours has read a run when it answers, so it never says that a run is still waiting.",
        _status_before_caching,
    ),
    Difference(
        "The real one fails with 500 on malformed input; ours refuses it with 400.",
        _is_refused_instead_of_failing,
    ),
    Difference(
        (
            "The real one fails with 500 on a single NaN or infinity of a tensor; ours answers "
            "as its code means to."
        ),
        _is_answered_instead_of_failing,
    ),
    Difference(
        "The message names a path of the server's machine; ours names none.", _path_in_message
    ),
    Difference(
        "A NUL byte in the name of a run: the pages never send one; ours does not know such a run.",
        _null_byte,
    ),
    Difference(
        (
            "The lineage page opens on the first result: that which most runs have, not the "
            "first by name."
        ),
        _most_runs_first,
    ),
    Difference(
        "Every tag is shown, not 300 of a run and 6 of its tensors.", _both(_beyond, _more_tags)
    ),
    Difference("A tag that the real one dropped is still there.", _both(_beyond, _dropped_tag)),
    Difference(
        "A curve has 5000 points, not 1000; of other kinds more steps are shown.",
        _both(_beyond, _more_steps),
    ),
    Difference(
        "Every recorded step of an image or tensor can be asked for.", _both(_beyond, _any_step)
    ),
    Difference(
        "An empty record ends the file for the real one; ours reads on behind it.",
        _both(_run_is("damaged_empty record"), _more_steps),
    ),
    Difference(
        (
            "A tensor that contradicts itself costs the real one all values of its step, ours "
            "that tensor."
        ),
        _both(_run_is("damaged_tensor"), lambda *asked: _more_steps(*asked) or _more_tags(*asked)),
    ),
    Difference(
        "A record whose checksum is wrong is not believed; the real one never looks at checksums.",
        _both(_run_is("damaged_wrong checksum"), _fewer_points),
    ),
    Difference(
        "A file that is damaged otherwise than by an incomplete last record is said to be damaged.",
        _both(
            lambda ask: ask.value("train_id") in ("./damaged_garbage", "./damaged_wrong checksum"),
            _same_but_for(_without_integrity),
        ),
    ),
    Difference(
        "The name of a landscape's interval is opaque and differs per process of the real one.",
        _interval_names,
    ),
    Difference(
        "A refused search condition has the same code; ours says what is expected.",
        _words_of_a_condition,
    ),
    Difference(
        "The real one gives all data pipelines from the ninth on the same mark; ours numbers on.",
        _marks,
    ),
    Difference(
        (
            "Of a resumed run the real one lists the optimized view of the earlier graph, too, "
            "but not that graph."
        ),
        _both(_run_is("graph of a resumed run"), _old_optimized_graph),
    ),
    Difference(
        (
            "A damaged .pb file is listed; opening it says that there is no graph. The real one "
            "does not list it."
        ),
        _both(_run_is("compiled"), _more_tags),
    ),
    Difference(
        "A tag or remark is taken whatever media type its JSON has; the real one fails with 500.",
        _plain_text,
    ),
    Difference(
        (
            "A word joiner follows < and &, so that the pages cannot take a name for HTML "
            "(decision 47)."
        ),
        _joiners,
    ),
    Difference("A WebP image is sent as one; the real one knows four kinds of images.", _webp),
)
