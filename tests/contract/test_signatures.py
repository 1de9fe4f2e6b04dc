"""How what we name alike is called: as by the originals, argument by argument, with every
difference listed.

The originals' signatures come from a real MindSpore and MindInsight
(``tests/golden/write_signatures.py``).
"""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

import mindsummary_lightning as ours
from tests.support import summary_paths
from tests.trainer.support import Net, loader, trainer

_GOLDEN = Path(__file__).parents[1] / "golden"
_ORIGINALS: dict[str, dict[str, list[str]]] = {
    name: methods
    for package in ("mindspore", "mindinsight")
    for name, methods in json.loads(
        (_GOLDEN / f"{package}_signatures.json").read_text(encoding="utf-8")
    )["signatures"].items()
}
_WORKERS = (
    "taken there, and by keyword, but not needed: each record is in its file when the call returns"
)
_HOOKS = "a hook of MindSpore's Callback; Lightning's hooks are in its place"

# What is not as there, and why.
_DIFFERENCES = {
    "SummaryCollector.__init__: summary_dir, not summary_dir=None": (
        "without it the logger's directory is taken"
    ),
    "SummaryCollector.__init__: no num_process=32": _WORKERS,
    "SummaryCollector: no begin": _HOOKS,
    "SummaryCollector: no end": _HOOKS,
    "SummaryCollector: no epoch_end": _HOOKS,
    "SummaryCollector: no step_end": _HOOKS,
    "SummaryRecord.__init__: no num_process=32": _WORKERS,
    "filter_summary_lineage: no data_manager=None": "MindInsight's server hands its own cache over",
    "filter_summary_lineage: summary_base_dir=None, not summary_base_dir": (
        "there it or data_manager must be given"
    ),
}


def _positional(function: Any) -> list[str]:
    arguments = inspect.signature(function).parameters.values()
    bare = [
        argument.replace(annotation=argument.empty)
        for argument in arguments
        if argument.name != "self"
    ]
    return [str(argument) for argument in bare if argument.kind is argument.POSITIONAL_OR_KEYWORD]


def _differences(name: str) -> list[str]:
    """What a caller of the original would notice, position by position."""
    differences = []
    for method, theirs in _ORIGINALS[name].items():
        where = name if method == "()" else f"{name}.{method}"
        owner = getattr(ours, name)
        function = {"()": owner, "__call__": getattr(owner, "forward", None)}.get(
            method, getattr(owner, method, None)
        )
        if function is None:
            differences.append(f"{name}: no {method}")
            continue
        own = _positional(function)
        names = [argument.partition("=")[0] for argument in own]
        missing = [argument for argument in theirs if argument.partition("=")[0] not in names]
        differences += [f"{where}: no {argument}" for argument in missing]
        rest = [argument for argument in theirs if argument not in missing]
        differences += [f"{where}: {a}, not {b}" for a, b in zip(rest, own, strict=False) if a != b]
        differences += [f"{where}: {argument} is not there" for argument in own[len(rest) :]]
    return differences


def test_what_we_name_alike_is_called_as_the_originals_but_for_the_differences_listed() -> None:
    differences = [difference for name in _ORIGINALS for difference in _differences(name)]

    assert sorted(differences) == sorted(_DIFFERENCES)


def test_every_name_of_the_originals_that_we_have_is_compared() -> None:
    compared = {*_ORIGINALS, *_WITHOUT_ORIGINAL}
    only_ours = {
        "MindInsightLogger",
        "SummaryReader",
        "Comparison",
        "compare_runs",
    }
    only_ours |= {
        "find_runs",
        "lineage_to_pandas",
        "plot_landscapes",
        "read_scalars",
        "runs_to_pandas",
        "StepRecorder",
    }
    only_ours |= {"PortCheck", "PortReport", "check_port", "transfer_weights"}
    operators = {name for name in ours.__all__ if name.endswith("_summary")}

    assert set(ours.__all__) == compared | only_ours | operators


class _Tensors(Net):
    """Records a tensor in each step that is collected."""

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        ours.tensor_summary("batch", batch[0])
        return super().training_step(batch, batch_idx)


def _recorded_by(collector: ours.SummaryCollector, run: Path) -> dict[str, Any]:
    """What a training of 16 steps leaves in the run of its collector."""
    trainer(logger=False, callbacks=[collector], max_epochs=2).fit(_Tensors(), loader(8))
    reader = ours.SummaryReader(run)
    custom = reader.lineage().custom
    assert custom is not None
    return {
        "tags": reader.tags(),
        "steps": reader.scalars("loss/auto").steps.tolist(),
        "custom": custom.values["a"],
        "files": len(summary_paths(run)),
        "exported": sorted(path.name for path in run.rglob("*.npy")),
    }


@pytest.mark.parametrize(
    "workers", [(), (32,)], ids=["as here", "with num_process, as in MindSpore 2"]
)
def test_a_script_that_passes_everything_by_position_means_the_same(
    workers: tuple[int, ...], tmp_path: Path
) -> None:
    npy = {"tensor_format": "npy"}
    run, alike = tmp_path / "by position", tmp_path / "by keyword"
    collector = ours.SummaryCollector(
        str(run), 3, *workers, {"collect_metric": True}, False, {"a": 1}, 7, 500, npy
    )  # type: ignore[misc]
    record = ours.SummaryRecord(str(tmp_path), "mine", "_MINE", *workers, None, 1000, True, npy)  # type: ignore[misc]
    record.close()

    by_keyword = ours.SummaryCollector(
        summary_dir=str(alike),
        collect_freq=3,
        num_process=4,
        collect_specified_data={"collect_metric": True},
        keep_default_action=False,
        custom_lineage_data={"a": 1},
        collect_tensor_freq=7,
        max_file_size=500,
        export_options=npy,
    )
    recorded = _recorded_by(collector, run)
    assert recorded == _recorded_by(by_keyword, alike)
    assert recorded == {
        "tags": {
            "scalar": ["loss/auto"],
            "image": [],
            "tensor": ["batch"],
            "histogram": [],
            "loss_landscape": [],
        },
        "steps": [1, 3, 6, 9, 12, 15, 16],
        "custom": 1,
        "files": 2,
        "exported": ["batch_1.npy", "batch_14.npy", "batch_7.npy"],
    }
    assert Path(record.log_dir).name.startswith("mine.")
    assert record.log_dir.endswith("_MINE")


# Removed from MindInsight before 2.3.1: as its documentation had them.
_WITHOUT_ORIGINAL = {
    "TrainLineage": ["summary_record", "raise_exception=False"],
    "EvalLineage": ["summary_record", "raise_exception=False"],
    "get_summary_lineage": ["summary_dir", "keys=None"],
}


@pytest.mark.parametrize("name", _WITHOUT_ORIGINAL)
def test_what_mindinsight_had_is_called_as_it_was(name: str) -> None:
    assert _positional(getattr(ours, name)) == _WITHOUT_ORIGINAL[name]


_LOGGER = {
    "__init__": ["save_dir='.'", "name='lightning_logs'", "version=None"],
    "log_metrics": ["metrics", "step=None"],
    "log_graph": ["model", "input_array=None"],
    "finalize": ["status"],
}


@pytest.mark.parametrize("method", _LOGGER)
def test_the_logger_is_called_as_lightning_calls_loggers(method: str) -> None:
    assert _positional(getattr(ours.MindInsightLogger, method)) == _LOGGER[method]


_KEYWORD_ONLY = {
    "SummaryRecord": {
        "num_process": None,
        "example_input": None,
        "file_mode": 0o600,
        "fsync_secs": None,
        "free_space_factor": 32,
    },
    "SummaryCollector": {
        "num_process": None,
        "collect_gradients": None,
        "collect_input_freq": None,
        "landscape_max_bytes": 2**26,
        "loss": None,
        "collect_parameter_statistics": None,
        "collect_parameter_updates": False,
        "collect_output_statistics": None,
        "output_statistics_modules": None,
        "whole_tensors": False,
        "whole_tensors_max_bytes": 2**33,
    },
    "MindInsightLogger": {
        "prefix": "",
        "sub_dir": None,
        "max_file_size": None,
        "export_options": None,
        "raise_exception": False,
        "log_graph": True,
        "file_mode": 0o600,
    },
}


@pytest.mark.parametrize("name", _KEYWORD_ONLY)
def test_what_was_added_is_keyword_only(name: str) -> None:
    arguments = inspect.signature(getattr(ours, name)).parameters.values()

    assert {
        each.name: each.default for each in arguments if each.kind is each.KEYWORD_ONLY
    } == _KEYWORD_ONLY[name]
