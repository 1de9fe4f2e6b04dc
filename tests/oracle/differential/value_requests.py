"""Requests of the pages for runs and values: list, dashboard, scalars, images, histograms, tensors;
right and wrong.

``OF_A_RUN`` are asked of every run while it is loaded, ``OF_ALL_RUNS`` once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.oracle.differential.asking import Ask, get, post

PLUGINS = ("scalar", "image", "histogram", "tensor", "graph", "optimized_graph", "loss_landscape")
UNKNOWN_TAGS = ("nothing/scalar", "loss", "", "a\0b/scalar")
UNKNOWN_RUNS = ("./nothing", "nothing", "", "./a/b", "../up", "./\0")


@dataclass(frozen=True)
class ShownRun:
    """A run that a page shows.

    Attributes:
        train_id: its name.
        tags: plugin -> its tags as MindInsight names them.
        steps: tag -> its steps in MindInsight, for images and tensors.
        dims: tag -> number of dimensions of each tensor.
        nodes: tag -> names of all nodes of a graph.
        intervals: how many landscape intervals it has.
    """

    train_id: str
    tags: Mapping[str, Sequence[str]]
    steps: Mapping[str, Sequence[int]]
    dims: Mapping[str, Sequence[int]]
    nodes: Mapping[str, Sequence[str]]
    intervals: int


OfARun = Callable[[ShownRun], Iterator[Ask]]
OfAllRuns = Callable[[Sequence[ShownRun]], Iterator[Ask]]


def list_of_runs(runs: Sequence[ShownRun]) -> Iterator[Ask]:
    path = "datavisual/train-jobs"
    yield get(path)
    for limit in (1, 5, 10, 20, 998, 999):
        for offset in (0, 1, 2, 3, 50):
            yield get(path, limit=limit, offset=offset)
    for wrong in (
        "0",
        "1000",
        "x",
        "",
        "-1",
        "1.5",
        "1e2",
        " 3 ",
        "+5",
        "1_0",
        "٣",
        "0x10",
        "null",
        "9" * 30,
    ):
        yield get(path, limit=wrong, offset=0)
        yield get(path, limit=5, offset=wrong)
    yield get(path, limit="x", offset="x")
    yield get(path, limit=0, offset=-1)
    for train_id in (*UNKNOWN_RUNS, *(run.train_id + "/" for run in runs[:3])):
        yield get(path, train_id=train_id)
    yield get(path, train_id=["./nothing", "./nothing too"])


def a_run_in_the_list(run: ShownRun) -> Iterator[Ask]:
    yield get("datavisual/train-jobs", train_id=run.train_id)


def plugins(run: ShownRun) -> Iterator[Ask]:
    for manual_update in ("true", "false", "TRUE", "False"):
        yield get("datavisual/plugins", train_id=run.train_id, manual_update=manual_update)
    yield get("datavisual/plugins", train_id=run.train_id)


def wrong_plugins(runs: Sequence[ShownRun]) -> Iterator[Ask]:
    path, known = "datavisual/plugins", runs[0].train_id
    for manual_update in ("yes", "", "1", "None"):
        yield get(path, train_id=known, manual_update=manual_update)
    for train_id in UNKNOWN_RUNS:
        yield get(path, train_id=train_id)
        yield get(path, train_id=train_id, manual_update="true")
    yield get(path)
    yield get(path, manual_update="x")


def single_job(run: ShownRun) -> Iterator[Ask]:
    for plugin in (*PLUGINS, "scalars", "SCALAR", ""):
        yield get("datavisual/single-job", plugin_name=plugin, train_id=run.train_id)


def wrong_single_jobs(runs: Sequence[ShownRun]) -> Iterator[Ask]:
    path = "datavisual/single-job"
    for train_id in UNKNOWN_RUNS:
        yield get(path, plugin_name="scalar", train_id=train_id)
        yield get(path, plugin_name="unknown", train_id=train_id)
    yield get(path, plugin_name="scalar")
    yield get(path, train_id=runs[0].train_id)
    yield get(path)


def caches(runs: Sequence[ShownRun]) -> Iterator[Ask]:
    path = "datavisual/train-job-caches"
    known = [run.train_id for run in runs]
    for train_ids in (
        [],
        known[:1],
        [*known[:2], "./nothing"],
        ["./nothing"],
        [known[0], known[0]],
    ):
        yield post(path, {"train_ids": train_ids})
    for body in (
        {},
        {"train_ids": None},
        {"train_ids": "./a"},
        {"train_ids": {}},
        {"train_ids": 5},
        None,
    ):
        yield post(path, body)
    for train_ids in ([5], [known[0], None], [[known[0]]], ["./nothing", 1.5], [True]):
        yield post(path, {"train_ids": train_ids})
    for body in ([], ["./a"], "text", 5, True, False, 0, ""):
        yield post(path, body)
    for raw, content_type in (
        (b"", "application/json"),
        (b"{", "application/json"),
        (b'{"train_ids": []}', "text/plain"),
    ):
        yield Ask("POST", path, (), raw, content_type)
    yield Ask("POST", path)


def scalar_metadata(run: ShownRun) -> Iterator[Ask]:
    for tag in (*run.tags["scalar"][:60], *_unknown_tags(run, "scalar"), *_others(run, "scalar")):
        yield get("datavisual/scalar/metadata", train_id=run.train_id, tag=tag)


def scalars(run: ShownRun) -> Iterator[Ask]:
    path, tags = "datavisual/scalars", list(run.tags["scalar"][:5])
    yield get(path, train_id=run.train_id, tag=tags)
    yield get(
        path,
        train_id=[run.train_id, "./nothing", run.train_id],
        tag=[*tags[::-1], "nothing/scalar"],
    )
    yield get(path, train_id=run.train_id)
    for other in _others(run, "scalar"):
        yield get(path, train_id=run.train_id, tag=[*tags[:1], other])


def scalars_of_several_runs(runs: Sequence[ShownRun]) -> Iterator[Ask]:
    path = "datavisual/scalars"
    yield get(path)
    yield get(path, tag="loss/scalar")
    yield get(path, train_id=list(UNKNOWN_RUNS), tag=["loss/scalar", ""])


def images(run: ShownRun) -> Iterator[Ask]:
    single = "datavisual/image/single-image"
    for tag in (*run.tags["image"], *_unknown_tags(run, "image")):
        yield get("datavisual/image/metadata", train_id=run.train_id, tag=tag)
        wrong = (-1, 12345, "x", "", "1.0", " 1 ") if run.tags["image"] else (1,)
        for step in (*run.steps.get(tag, ()), *wrong):
            yield get(single, train_id=run.train_id, tag=tag, step=step, wt="1.5")
        yield get(single, train_id=run.train_id, tag=tag)
    yield get(single, train_id=run.train_id, step=1)


def histograms(run: ShownRun) -> Iterator[Ask]:
    for tag in (*run.tags["histogram"], *run.tags["tensor"], *_unknown_tags(run, "histogram")):
        yield get("datavisual/histograms", train_id=run.train_id, tag=tag)


def tensors(run: ShownRun) -> Iterator[Ask]:
    path = "datavisual/tensors"
    for tag in (*run.tags["tensor"], *_unknown_tags(run, "tensor"), *_others(run, "tensor")):
        for detail in ("stats", "histogram", "zz", "") if run.tags["tensor"] else ("stats",):
            yield get(path, train_id=run.train_id, tag=tag, detail=detail)
        yield get(path, train_id=run.train_id, tag=tag)
    for tag in run.tags["tensor"]:
        for step, count in zip(run.steps[tag], run.dims[tag], strict=True):
            for dims in _slices(count)[: 40 if step == run.steps[tag][-1] else 3]:
                yield get(path, train_id=run.train_id, tag=tag, detail="data", step=step, dims=dims)
        newest, dims = run.steps[tag][-1], _slices(run.dims[tag][-1])[0]
        for step in (newest + 1, "x", "", "-1", "1.0", f" {newest} "):
            yield get(path, train_id=run.train_id, tag=tag, detail="data", step=step, dims=dims)
            yield get(
                path, train_id=run.train_id, tag=tag, detail="data", step=step, dims="[:,:,:]"
            )
        yield get(path, train_id=run.train_id, tag=tag, detail="data", step=newest)
        yield get(path, train_id=run.train_id, tag=tag, detail="data", dims=dims)
    tags = list(run.tags["tensor"])
    yield get(path, train_id=[run.train_id, run.train_id], tag=tags, detail="stats")
    yield get(path, train_id=[run.train_id, "./nothing"], tag=tags)
    yield get(path, train_id=run.train_id, tag=[*tags, "nothing/tensor"], detail="stats")


def tags_beyond_the_limits(run: ShownRun) -> Iterator[Ask]:
    """Tags that MindInsight has dropped from the runs that have too many."""
    if run.train_id == "./beyond_tags":
        yield get("datavisual/scalar/metadata", train_id=run.train_id, tag="tag000/scalar")
    if run.train_id == "./beyond_steps":
        yield get("datavisual/tensors", train_id=run.train_id, tag="t0/tensor", detail="stats")
    if run.train_id == "./beyond_buckets":
        yield get("datavisual/histograms", train_id=run.train_id, tag="many/histogram")


def _slices(count: int) -> list[str]:
    """Texts for ``dims``, first what the page asks for: the last two dimensions of the first
    element of the others.
    """
    shown = ["0"] * max(count - 2, 0) + [":"] * min(count, 2)
    one, pair = ["0"] * count, ["-1"] * count
    rest = one[1:]
    right = [
        shown,
        one,
        pair,
        ["1"] * max(count - 1, 0) + ["0:1"] * (count > 0),
        ["::-1", *rest],
        ["1:0", *rest],
    ]
    right += [["::2", *rest], ["-2:", *rest], [" 0 ", *rest], ["0 : 2", *rest], ["5:90", *rest]]
    wrong = [["9", *rest], ["-90", *rest], [*one, "0"], rest, ["x", *rest], ["1.5", *rest]]
    wrong += [
        [":"] * 3,
        ["1:2:3:4", *rest],
        ["::0", *rest],
        ["", *rest],
        ["...", *rest],
        ["9" * 30, *rest],
    ]
    texts = [f"[{','.join(entries)}]" for entries in right + wrong]
    return [
        *texts,
        " [0] ",
        "0",
        "[",
        "]",
        "[]",
        "[ ]",
        "(0,)",
        "",
        "None",
        "[[0]]",
        "[:" * 3,
        "[,]",
        "[0,]",
    ]


def wrong_values(runs: Sequence[ShownRun]) -> Iterator[Ask]:
    paths = ["scalar/metadata", "image/metadata", "image/single-image", "histograms", "tensors"]
    known = runs[0]
    for path in (f"datavisual/{path}" for path in paths):
        yield get(path)
        yield get(path, tag="loss/scalar")
        yield get(path, train_id=known.train_id)
        yield get(path, train_id=known.train_id, tag="")
        yield get(path, train_id="", tag="", step="")
        for train_id in UNKNOWN_RUNS:
            yield get(path, train_id=train_id, tag="loss/scalar", step="x")
            yield get(path, train_id=train_id, tag="loss/scalar", step="1")


def _unknown_tags(run: ShownRun, plugin: str) -> tuple[str, ...]:
    """One for a run that has no tag of the kind: it refuses all for the one reason that it does not
    know them.
    """
    return UNKNOWN_TAGS if run.tags[plugin] else UNKNOWN_TAGS[:1]


def _others(run: ShownRun, plugin: str) -> list[str]:
    return [tag for other, tags in run.tags.items() if other != plugin for tag in tags[:1]]


OF_A_RUN: tuple[OfARun, ...] = (
    *(
        a_run_in_the_list,
        plugins,
        single_job,
        scalar_metadata,
        scalars,
        images,
        histograms,
        tensors,
    ),
    tags_beyond_the_limits,
)
OF_ALL_RUNS: tuple[OfAllRuns, ...] = (
    *(
        list_of_runs,
        wrong_plugins,
        wrong_single_jobs,
        caches,
        scalars_of_several_runs,
        wrong_values,
    ),
)
