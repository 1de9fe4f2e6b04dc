"""Names of tags in MindInsight's pages: ``<tag>/<kind>``, or a graph's file name."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from mindsummary_lightning.reading.followed_file import Location
    from mindsummary_lightning.reading.followed_run import FollowedRun
    from mindsummary_lightning.values import LossLandscape

PLUGINS = ("image", "scalar", "graph", "optimized_graph", "histogram", "tensor", "loss_landscape")
_KINDS = frozenset(PLUGINS) - {"graph", "optimized_graph"}
# behind the name of a file: its graph with the optimizer's part taken out
OPTIMIZED = " (optimized)"
_FIRST_GRAPH = "ms_output_optimize.pb"  # what MindSpore's compiler saves; the pages show it first


def plugin_tags(run: FollowedRun) -> dict[str, list[str]]:
    """Return the tags of a run by kind, named and ordered as in MindInsight's pages."""
    by_kind = run.tags()
    by_kind["loss_landscape"] = [
        tag for tag in by_kind["loss_landscape"] if any(landscapes_of(run, tag))
    ]
    tags = {kind: _plugin_names(names, kind) for kind, names in by_kind.items()}
    graphs = sorted(
        (graph.name for graph in run.graphs()), key=lambda name: (name != _FIRST_GRAPH, name)
    )
    return {**tags, "graph": graphs, "optimized_graph": [name + OPTIMIZED for name in graphs]}


def _plugin_names(tags: Iterable[str], kind: str) -> list[str]:
    return sorted(f"{tag}/{kind}" for tag in tags)


def landscapes_of(run: FollowedRun, tag: str) -> Iterator[LossLandscape]:
    """Yield the readable loss landscapes that a run recorded under a tag."""
    # here: a list of runs needs no NumPy
    from mindsummary_lightning.reading.decode import read_value

    def read(location: Location) -> LossLandscape | None:
        try:
            return cast("LossLandscape", read_value(location))
        except (ValueError, OSError):  # damaged, or gone since it was located
            return None

    with contextlib.suppress(LookupError):  # its file was deleted since the tags were listed
        for sample in run.samples("loss_landscape", tag):
            found = run.cached(("landscape", sample.location), partial(read, sample.location))
            if found is not None:
                yield found


def has_tag(run: FollowedRun, plugin_tag: str) -> bool:
    """Tell whether a run has the tag that a page names (``loss/auto/scalar``)."""
    tag, kind = split_tag(plugin_tag)
    if kind:
        return tag in run.tags()[kind]
    return any(
        graph.name in (plugin_tag, plugin_tag.removesuffix(OPTIMIZED)) for graph in run.graphs()
    )


def split_tag(plugin_tag: str) -> tuple[str, str]:
    """Split ``loss/auto/scalar`` into tag and kind; a graph has the kind ``""``."""
    tag, slash, kind = plugin_tag.rpartition("/")
    return (tag, kind) if slash and kind in _KINDS else (plugin_tag, "")
