"""Rules of the verdict, each by a run that was made for it."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mindsummary_lightning import SummaryRecord, compare_runs
from mindsummary_lightning.values import RunInfo, TrainInfo
from tests.reading.runs import write_parameter_run

_STEPS = 12
_RANDOM = np.random.default_rng(0)
_FIRST = {
    "fc.weight": _RANDOM.normal(size=300),
    "fc.bias": _RANDOM.normal(size=40),
    "out.weight": _RANDOM.normal(size=80),
}


def write_run(
    directory: Path,
    change: Callable[[int, str, np.ndarray], np.ndarray] = lambda step, name, tensor: tensor,
    loss: Callable[[int], float] = lambda step: 1.0 / step,
    steps: range = range(1, _STEPS + 1),
    names: dict[str, str] | None = None,
    tag: str = "loss/auto",
) -> Path:
    """Write a run whose tensors shrink a little at every step."""
    with SummaryRecord(directory) as record:
        for step in steps:
            record.add_value("scalar", tag, loss(step))
            for name, first in _FIRST.items():
                tensor = change(step, name, first * 0.99**step)
                record.add_value(
                    "histogram", f"{(names or {}).get(name, name)}/auto", tensor.astype(np.float32)
                )
            record.record(step)
    return directory


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "a")


def test_the_first_nan_comes_first(run: Path, tmp_path: Path) -> None:
    def change(step: int, name: str, tensor: np.ndarray) -> np.ndarray:
        return (
            np.where(np.arange(tensor.size) == 3, np.nan, tensor)
            if step >= 7 and name == "fc.bias"
            else tensor
        )

    comparison = compare_runs(run, write_run(tmp_path / "b", change))

    assert comparison.first_difference is not None
    assert (comparison.first_difference.step, comparison.first_difference.kind) == (7, "update")
    assert comparison.hints[0].rule == "not_finite"
    assert comparison.hints[0].numbers == {"tensor": "fc.bias", "step": 7, "a": 0, "b": 1}


def test_no_step_in_common_is_not_comparable_and_says_what_to_set(
    run: Path, tmp_path: Path
) -> None:
    comparison = compare_runs(run, write_run(tmp_path / "b", steps=range(100, 110)))

    assert (comparison.verdict, comparison.mode) == ("not_comparable", None)
    assert "collect_freq=1 and histogram_regular='.*'" in comparison.sentence


@pytest.mark.parametrize(("loss", "verdict"), [(1.0, "same"), (1.1, "different")])
def test_tensors_recorded_at_other_steps_are_not_compared_and_losses_are(
    loss: float, verdict: str, tmp_path: Path
) -> None:
    for run, odd in (("a", 0), ("b", 1)):
        with SummaryRecord(tmp_path / run) as record:
            for step in range(1, _STEPS + 1):
                record.add_value("scalar", "loss/auto", (loss if odd and step > 6 else 1.0) / step)
                if step % 2 == odd:
                    record.add_value(
                        "histogram", "fc.weight/auto", np.float32(_FIRST["fc.weight"]) / step
                    )
                record.record(step)

    comparison = compare_runs(tmp_path / "a", tmp_path / "b")

    assert comparison.verdict == verdict
    assert comparison.compared == {"steps": 12, "tensors": 0, "losses": 12}


def _log(directory: Path, losses: dict[int, float]) -> Path:
    with SummaryRecord(directory) as record:
        for step, loss in losses.items():
            record.add_value("scalar", "train_loss", loss)
            record.record(step)
    return directory


def test_what_may_be_a_mean_over_an_epoch_is_not_compared_with_the_losses_of_steps(
    tmp_path: Path,
) -> None:
    losses = {step: 1 / step for step in range(1, _STEPS + 1)}
    a = _log(tmp_path / "a", losses)
    of_epochs = compare_runs(a, _log(tmp_path / "b", {4: 0.5, 8: 0.2, 12: 0.1}))
    of_one_epoch = compare_runs(a, _log(tmp_path / "c", {12: 0.3}))
    every_fourth = compare_runs(
        a, _log(tmp_path / "d", {step: losses[step] for step in (4, 8, 12)})
    )

    assert [x.verdict for x in (of_epochs, of_one_epoch, every_fourth)] == [
        "not_comparable",
        "not_comparable",
        "same",
    ]
    assert (
        "recorded a tensor, or a loss that is known to be of that training step"
        in of_epochs.sentence
    )
    assert every_fourth.compared["losses"] == 3


def test_losses_of_validation_are_no_losses_of_training(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", tag="val_loss")
    b = write_run(
        tmp_path / "b", lambda step, name, tensor: tensor * (1 + 0.1 * (step > 4)), tag="val_loss"
    )
    comparison = compare_runs(a, b)

    assert "compared: 12 steps, no loss of a training step, 3 tensors" in str(comparison)
    assert ", no training loss of that step is compared; " in comparison.sentence


def test_a_first_update_that_is_far_too_large_is_no_rounding(run: Path, tmp_path: Path) -> None:
    """The next ones are larger by far, beside which it is little."""
    b = write_run(
        tmp_path / "b", lambda step, name, tensor: tensor * 1e3**step, lambda step: step**2.0
    )
    first = compare_runs(run, b).first_difference

    assert first is not None
    assert (first.step, first.kind) == (1, "update")


@pytest.mark.parametrize(("begin", "kind"), [(1, "forward"), (5, None)])
def test_batch_sizes_that_no_run_recorded_are_not_named(
    tmp_path: Path, begin: int, kind: str | None
) -> None:
    steps = range(begin, _STEPS + 1)
    a = write_run(tmp_path / "a", steps=steps)
    comparison = compare_runs(
        a, write_run(tmp_path / "b", loss=lambda step: 2.0 / step, steps=steps)
    )

    assert comparison.hints[0].text == "the first losses differ by the factor 2"
    assert comparison.first_difference is not None
    assert (comparison.first_difference.step, comparison.first_difference.kind) == (begin, kind)


def test_unmatched_tensors_are_named(run: Path, tmp_path: Path) -> None:
    comparison = compare_runs(run, write_run(tmp_path / "b", names={"fc.bias": "extra.scale"}))

    assert comparison.unmatched == {"a": ("fc.bias",), "b": ("extra.scale",)}
    assert comparison.verdict == "same"


def test_a_map_matches_what_no_rule_does(run: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "b", names={"fc.bias": "extra.scale"})

    comparison = compare_runs(run, other, names={"fc.bias": "extra.scale"})

    assert comparison.compared == {"steps": _STEPS, "tensors": 3, "losses": _STEPS}


@pytest.mark.parametrize("tolerance", ["float64", 0, 1.5, True])
def test_a_tolerance_that_is_none_is_refused(run: Path, tolerance: object) -> None:
    with pytest.raises(
        ValueError, match="tolerance must be float32, bfloat16, float16 or a number between 0 and 1"
    ):
        compare_runs(run, run, tolerance=tolerance)  # type: ignore[arg-type]


def test_the_tolerance_decides_what_is_a_difference(run: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "b", lambda step, name, tensor: tensor * 1.001)

    assert [
        compare_runs(run, other, tolerance=limit).verdict for limit in (None, "bfloat16", 1e-4)
    ] == [
        "different",
        "same",
        "different",
    ]


@pytest.mark.parametrize(
    ("stated", "name"), [("bf16-mixed", "bfloat16"), ("16-true", "float16"), (32, "float32")]
)
def test_the_weaker_precision_of_both_runs_sets_the_tolerance(
    stated: Any, name: str, run: Path, tmp_path: Path
) -> None:
    other = write_run(tmp_path / "b")
    with SummaryRecord(other) as record:
        record.add_value("custom_lineage_data", "info", {"precision": stated})
        record.record(99)

    assert compare_runs(run, other).tolerance.name == name


def test_settings_that_both_runs_state_differently_and_other_scalars_are_listed(
    run: Path, tmp_path: Path
) -> None:
    other = write_run(tmp_path / "b")
    for directory, size, data, rate, depth, beta, decay in (
        (run, 8, "digits", 0.1, 3, 0.5, 0.5),
        (other, 16, "letters", float(np.float32(0.1)), "deep", "0.5", "no"),
    ):
        with SummaryRecord(directory) as record:
            # of the machine, or results
            own = {"model_path": data, "model_size": size, "train_dataset_path": data}
            own |= {"network": data} if size == 8 else {}
            train = TrainInfo(
                batch_size=size, epoch=3, learning_rate=size / 80, loss=float(size), **own
            )
            record.add_value("train_lineage", "train_lineage", train)
            info = {
                "dataset": {"name": data},
                "rate": rate,
                "depth": depth,
                "beta": beta,
                "decay": decay,
                "width": 4,
            }
            info |= {"status": data, data: 1, "batch_size": 4, "final_learning_rate": size / 9}
            record.add_value("custom_lineage_data", "info", info)
            record.add_value("scalar", "accuracy", size / 4)
            record.add_value("scalar", "nothing", 0.0)
            record.record(99)

    comparison = compare_runs(run, other)

    assert comparison.settings == {
        "batch_size": (8, 16),
        "learning_rate": (0.1, 0.2),
        "dataset/name": ("digits", "letters"),
        "depth": (3, "deep"),
        "decay": (0.5, "no"),
    }
    assert comparison.scalars == {"accuracy": 0.5, "nothing": 0.0}


def test_a_result_is_json_with_the_documented_keys(run: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "b", loss=lambda step: 1.0 / step + (0.1 if step == 5 else 0.0))

    result = json.loads(json.dumps(compare_runs(run, other).to_dict(), allow_nan=False))

    assert (result["verdict"], result["mode"]) == ("different", "exact")
    assert result["largest"] == {"loss": pytest.approx(1 / 3), "tensor": 0.0}
    assert (result["first_difference"]["step"], result["first_difference"]["kind"]) == (
        5,
        "forward",
    )
    assert result["first_difference"]["class"] == "forward"
    assert result["hints"] == []
    assert (result["alone"], result["by_value"], result["floor"]) == (
        {"a": {"steps": 0, "tensors": 0}, "b": {"steps": 0, "tensors": 0}},
        [],
        None,
    )
    assert set(result) >= {"unmatched", "compared", "largest", "tolerance", "settings", "hints"}


def test_what_a_user_logged_as_loss_may_be_of_other_weights(tmp_path: Path) -> None:
    for name, more in (("a", 0.0), ("b", 0.1)):
        with SummaryRecord(tmp_path / name) as record:
            record.add_value("scalar", "loss/val", 1.0 + more)
            record.record(0)
        write_run(
            tmp_path / name,
            loss=lambda step, more=more: 1 / step + more * (step == 5),
            tag="train/loss",
        )

    first = compare_runs(tmp_path / "a", tmp_path / "b").first_difference

    assert first is not None
    assert (first.step, first.kind) == (5, None)


def test_what_grows_slowly_from_rounding_level_is_left_undecided_and_the_way_to_decide_is_said(
    tmp_path: Path,
) -> None:
    def drift(step: int, name: str, tensor: np.ndarray) -> np.ndarray:
        return tensor + 1e-8 * 1.2**step

    steps = range(1, 60)
    a = write_run(tmp_path / "a", steps=steps)
    b = write_run(tmp_path / "b", drift, steps=steps)
    until_little = write_run(tmp_path / "c", drift, steps=range(1, 41))

    comparison = compare_runs(a, b)

    # four times the tolerance, in tensors alone
    assert compare_runs(a, until_little).verdict == "same"
    assert compare_runs(a, b, tolerance=3e-6).verdict == "different"  # who gives a number, decides

    assert (comparison.verdict, comparison.first_difference) == ("undecided", None)
    assert comparison.sentence.endswith("A second run of a shows how far rounding leads: --same.")


def test_a_directory_without_a_run_is_refused(run: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    with pytest.raises(FileNotFoundError, match="empty holds no scalar, no histogram and no chain"):
        compare_runs(run, tmp_path / "empty")


def test_decay_of_some_tensors_is_a_difference_and_no_other_learning_rate(tmp_path: Path) -> None:
    names = {"out.weight": "out.bias"}

    def decayed(step: int, name: str, tensor: np.ndarray) -> np.ndarray:
        return tensor * 0.9995**step if name != "fc.weight" else tensor

    comparison = compare_runs(
        write_run(tmp_path / "a", names=names), write_run(tmp_path / "b", decayed, names=names)
    )

    first = comparison.first_difference
    assert first is not None
    assert (first.step, first.kind, comparison.hints) == (1, "update", ())
    assert {tensor.a for tensor in first.tensors} == {"fc.bias", "out.bias"}


def test_what_a_runs_statistics_found_first_is_a_fact(tmp_path: Path) -> None:
    for name in "ab":
        write_parameter_run(tmp_path / name)
    (tmp_path / "b" / "parameter_statistics.json").unlink()

    comparison = compare_runs(tmp_path / "a", tmp_path / "b")

    assert (comparison.verdict, comparison.whole_tensors) == ("same", {})
    assert [hint.text for hint in comparison.hints] == [
        "the gradient of last.weight is not finite at step 30, the first in the statistics of a",
        "the gradient of row 2 is not finite at step 30, the first in the statistics of b",
    ]
    assert comparison.hints[0].numbers == {
        "run": "a",
        "tensor": "last.weight",
        "step": 30,
        "kind": "gradient",
    }


def test_the_losses_of_other_numbers_of_processes_are_not_compared(
    run: Path, tmp_path: Path
) -> None:
    same = write_run(tmp_path / "same", loss=lambda step: 0.7 / step)
    other = write_run(
        tmp_path / "other",
        lambda step, name, tensor: tensor * (1.01 if step >= 4 and name == "fc.weight" else 1.0),
        loss=lambda step: 0.7 / step,
    )
    for directory, devices in ((run, 1), (same, 2), (other, 2)):
        with SummaryRecord(directory) as record:
            record.add_value("train_lineage", "train_lineage", TrainInfo(device_num=devices))
            record.record(99)

    equal, parting = compare_runs(run, same), compare_runs(run, other)

    assert (equal.verdict, equal.compared["losses"], [hint.rule for hint in equal.hints]) == (
        "same",
        0,
        ["shares"],
    )
    assert parting.first_difference is not None
    assert (parting.first_difference.step, parting.first_difference.kind) == (4, None)
    assert "the loss is the same" not in parting.sentence


def _bad_from(first: int, name: str = "out.weight") -> Callable[[int, str, np.ndarray], np.ndarray]:
    return lambda step, tensor, array: array * np.nan if tensor == name and step >= first else array


def test_what_is_not_finite_is_neither_frozen_nor_another_batch(run: Path, tmp_path: Path) -> None:
    other = write_run(
        tmp_path / "b", change=_bad_from(2), loss=lambda step: np.nan if step == 2 else 1.0 / step
    )

    assert [hint.text for hint in compare_runs(run, other).hints] == [
        "the loss of b is not finite at step 2, the first of those compared",
        "out.weight has 0 elements that are not finite in a and 80 in b at step 2",
    ]


def test_a_first_loss_that_is_not_finite_is_a_difference_and_no_other_beginning(
    run: Path, tmp_path: Path
) -> None:
    bad = write_run(
        tmp_path / "b", change=lambda step, name, tensor: tensor * np.nan, loss=lambda step: np.nan
    )

    comparison = compare_runs(run, bad)

    assert comparison.first_difference is not None
    assert (comparison.first_difference.step, comparison.first_difference.kind) == (1, None)
    assert [hint.rule for hint in comparison.hints] == ["not_finite", "not_finite"]


def test_of_losses_that_are_not_finite_in_both_runs_it_is_said_from_where(tmp_path: Path) -> None:
    """Between two recorded steps each may have failed at another."""
    runs = [
        write_run(tmp_path / name, loss=lambda step: 0.5 if step < 9 else np.nan) for name in "ab"
    ]

    comparison = compare_runs(*runs)

    assert comparison.verdict == "same"
    assert [hint.numbers for hint in comparison.hints] == [{"run": run, "step": 9} for run in "ab"]


def test_steps_of_a_script_that_counts_from_zero_are_in_none_alone(tmp_path: Path) -> None:
    for name in "ab":
        with SummaryRecord(tmp_path / name) as record:
            for step in range(6):
                record.add_value("scalar", "train_loss", 1.0 / (step + 1))
                record.record(step)
                if name == "b":
                    record.add_value("scalar", "loss/auto", 1.0 / (step + 1))
                    record.record(step + 1)
    comparison = compare_runs(tmp_path / "a", tmp_path / "b")

    assert (comparison.verdict, comparison.compared["losses"]) == ("same", 6)
    assert [alone.steps for alone in comparison.alone.values()] == [0, 0]


@pytest.mark.parametrize(
    ("stated", "optimizer", "kind"),
    [
        ({}, "SGD", "forward"),
        # groups are of one optimizer
        ({"optimizer_groups/0/lr": 0.1, "optimizer_groups/1/lr": 0.2}, None, "forward"),
        ({"manual_optimization": True}, "SGD", None),
        ({}, "LBFGS", None),
    ],
)
def test_a_loss_may_be_computed_behind_an_update_where_a_step_may_hold_several(
    stated: dict[str, Any], optimizer: str | None, kind: str | None, run: Path, tmp_path: Path
) -> None:
    other = write_run(
        tmp_path / "b",
        lambda step, name, x: x * (1 + 1e-7),
        lambda step: 1.0 / step + 0.1 * (step == 1),
    )
    for directory in (run, other):
        with SummaryRecord(directory) as record:
            record.add_value(
                "custom_lineage_data",
                "custom_lineage_data",
                RunInfo({"precision": "32-true", **stated}),
            )
            record.add_value("train_lineage", "train_lineage", TrainInfo(optimizer=optimizer))
            record.record(99)
    first = compare_runs(run, other).first_difference

    assert first is not None
    assert (first.step, first.kind) == (1, kind)


@pytest.mark.parametrize("shift", [1, -1])
@pytest.mark.parametrize("tensors", ["as losses", "from one"])
def test_losses_that_are_counted_from_zero_in_one_run_are_compared_as_they_belong(
    run: Path, tmp_path: Path, shift: int, tensors: str
) -> None:
    begin, factor = (0, 0.99) if tensors == "as losses" else (1, 1.0)
    steps = range(begin, _STEPS + begin)
    later = write_run(
        tmp_path / "b", lambda step, name, x: x * factor, lambda step: 1.0 / (step + 1), steps
    )

    comparison = compare_runs(*(run, later)[::shift])

    assert (comparison.verdict, comparison.largest) == (
        "same",
        {"loss": 0.0, "tensor": pytest.approx(0.0, abs=1e-7)},
    )
    assert comparison.compared == {"steps": _STEPS, "tensors": 3, "losses": _STEPS - begin}
    assert [(hint.rule, hint.numbers) for hint in comparison.hints] == [("shift", {"steps": shift})]
    assert comparison.hints[0].text.startswith(f"the first losses of {'ba'[::shift][0]} are")


def test_losses_that_stand_still_are_not_counted_otherwise(tmp_path: Path) -> None:
    a, b = (
        write_run(tmp_path / f"{n}", loss=lambda step, n=n: min(1.0, 2.0 / (step + n)))
        for n in (0, 1)
    )

    comparison = compare_runs(a, b)

    assert [hint.rule for hint in comparison.hints] == ["losses_apart"]


def test_a_tensor_that_walks_by_itself_is_left_out_and_named_while_the_others_agree(
    run: Path, tmp_path: Path
) -> None:
    def walk(step: int, name: str, tensor: np.ndarray, other: float = 0.0) -> np.ndarray:
        if name == "fc.bias":
            return tensor + 0.02 * np.sin(7.0 * step)
        return tensor * (1 + other) if name == "out.weight" and step > 2 else tensor

    comparison = compare_runs(run, write_run(tmp_path / "b", walk))
    beside = compare_runs(run, write_run(tmp_path / "e", lambda *given: walk(*given, other=5e-6)))
    parted = compare_runs(
        run, write_run(tmp_path / "c", walk, lambda step: 1.0 / step + (step > 2))
    )
    bias = _FIRST["fc.bias"] + 0.02
    still = compare_runs(
        run, write_run(tmp_path / "d", lambda step, name, x: bias if name == "fc.bias" else x)
    )

    assert (comparison.verdict, [hint.rule for hint in comparison.hints]) == ("same", ["walks"])
    assert comparison.hints[0].numbers["tensor"] == "fc.bias"
    said = (
        "No difference but in fc.bias: losses at most 0.0e+00, tensors at most 0.0e+00 apart "
        "(tolerance "
    )
    assert comparison.sentence.startswith(said)
    assert "rounding" not in comparison.sentence
    assert beside.first_difference is not None
    assert (
        beside.first_difference.step,
        [tensor.a for tensor in beside.first_difference.tensors],
    ) == (
        3,
        ["out.weight"],
    )
    assert parted.first_difference is not None
    assert (parted.first_difference.step, parted.first_difference.tensors[0].a) == (1, "fc.bias")
    assert [hint.rule for hint in still.hints] == ["unchanged"]
    assert [hint.rule for hint in compare_runs(tmp_path / "d", run).hints] == ["unchanged"]
    jump = write_run(
        tmp_path / "f", lambda step, name, x: x + 0.02 * (step > 2) * (name == "fc.bias")
    )
    first = compare_runs(run, jump).first_difference
    assert first is not None
    assert first.step == 3


@pytest.mark.parametrize("other", ["fc.bias", "out.weight"])
def test_a_gradient_neither_walks_nor_ends_a_walk(other: str, tmp_path: Path) -> None:
    def walk(step: int, name: str, tensor: np.ndarray) -> np.ndarray:
        return tensor + 0.02 * np.sin(7.0 * step) * (name in ("fc.bias", other))

    names = {other: f"{other}.gradient"}
    comparison = compare_runs(
        write_run(tmp_path / "a", names=names), write_run(tmp_path / "b", walk, names=names)
    )

    assert comparison.verdict == "same"
    assert [hint.numbers["tensor"] for hint in comparison.hints] == ["fc.bias"] * (
        other != "fc.bias"
    )


def test_tensors_that_all_walk_are_a_difference(tmp_path: Path) -> None:
    names = {"fc.weight": "in.bias", "out.weight": "out.bias"}
    other = write_run(
        tmp_path / "b", lambda step, name, tensor: tensor + 0.02 * np.sin(7.0 * step), names=names
    )

    first = compare_runs(write_run(tmp_path / "a", names=names), other).first_difference

    assert first is not None
    assert (first.step, len(first.tensors)) == (1, 3)


@pytest.mark.parametrize(
    ("bias", "weights", "loss", "found"),
    [
        (0.0, 1, 99, (1, ["out.weight", "fc.weight"])),  # no bias, so its gradient is no rounding
        (0.0, 4, 9, (4, ["out.weight", "fc.bias", "fc.weight"])),  # not by itself
        (0.02, 5, 5, (1, ["fc.bias"])),  # apart, but not walking until all of them do
    ],
)
def test_what_parts_otherwise_than_a_walking_bias_is_a_difference(
    bias: float, weights: int, loss: int, found: tuple[int, list[str]], run: Path, tmp_path: Path
) -> None:
    def change(step: int, name: str, tensor: np.ndarray) -> np.ndarray:
        walks = step >= weights and (name != "fc.bias" or weights > 1)
        return tensor + bias * (name == "fc.bias") + 0.02 * np.sin(7.0 * step) * walks

    first = compare_runs(
        run, write_run(tmp_path / "b", change, lambda step: 1.0 / step + (step >= loss))
    ).first_difference

    assert first is not None
    assert (first.step, sorted(tensor.a for tensor in first.tensors)) == (
        found[0],
        sorted(found[1]),
    )


def test_behind_losses_of_other_parts_of_a_batch_a_difference_of_tensors_is_found(
    run: Path, tmp_path: Path
) -> None:
    other = write_run(
        tmp_path / "b",
        lambda step, name, tensor: tensor * (1.01 if step > 7 else 1.0),
        lambda step: (1.0 + 1e-3 * (-1) ** step + 0.5 * (step > 7)) / step,
    )

    comparison = compare_runs(run, other)

    assert comparison.first_difference is not None
    assert (comparison.first_difference.step, comparison.hints[0].rule) == (8, "losses_apart")


def test_a_first_loss_alone_that_is_another_is_a_difference(run: Path, tmp_path: Path) -> None:
    other = write_run(
        tmp_path / "b",
        lambda step, name, x: x * (1 + 1e-7),
        lambda step: 1.0 / step + 0.1 * (step == 1),
    )

    first = compare_runs(run, other).first_difference

    assert first is not None
    assert (first.step, first.kind) == (1, "forward")


@pytest.mark.parametrize(("begin", "verdict"), [(3, "same"), (2, "different")])
def test_what_a_second_run_was_apart_by_counts_from_the_step_before_to_the_last(
    begin: int, verdict: str, run: Path, tmp_path: Path
) -> None:
    again = write_run(
        tmp_path / "again", lambda step, name, tensor: tensor * (1 + 1e-4 * (step == 4))
    )
    other = write_run(
        tmp_path / "b", lambda step, name, tensor: tensor * (1 + 2e-4 * (step >= begin))
    )

    near = write_run(tmp_path / "near", lambda step, name, tensor: tensor * (1 + 1e-6))

    apart, rounded = (compare_runs(run, each, same=again) for each in (other, near))
    assert (apart.verdict, rounded.verdict) == (verdict, "same")
    assert apart.floor == {"loss": 0.0, "tensor": pytest.approx(1e-4, 0.05)}


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16"])
def test_a_tolerance_has_the_name_that_was_asked_for(run: Path, name: Any) -> None:
    assert compare_runs(run, run, tolerance=name).tolerance.name == name


def test_losses_of_other_signs_have_no_ratio(tmp_path: Path) -> None:
    a, b = write_run(tmp_path / "a"), write_run(tmp_path / "b", loss=lambda step: -2.0 / step)

    assert "loss_ratio" not in [hint.rule for hint in compare_runs(a, b).hints]


def test_the_course_of_a_loss_that_was_never_finite_is_compared_without_a_warning(
    run: Path, tmp_path: Path
) -> None:
    others = {
        name: np.random.default_rng(1).normal(size=first.size) for name, first in _FIRST.items()
    }
    other = write_run(
        tmp_path / "b",
        change=lambda step, name, tensor: others[name] * 0.99**step,
        loss=lambda step: np.nan,
    )

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        comparison = compare_runs(run, other)

    assert comparison.mode == "trend"
    assert comparison.trend["final_loss_b"] is None


def test_a_tensor_that_stands_still_in_one_run_alone_is_no_rounding(tmp_path: Path) -> None:
    def change(step: int, name: str, tensor: np.ndarray) -> np.ndarray:
        step = min(step, 7) if name == "fc.weight" else step
        return (
            _FIRST[name]
            * 0.9999**step
            * (1 + 1e-7 * np.random.default_rng(step).normal(size=tensor.size))
        )

    run = write_run(tmp_path / "a", lambda step, name, tensor: _FIRST[name] * 0.9999**step)
    comparison = compare_runs(run, write_run(tmp_path / "b", change))

    assert comparison.first_difference is not None
    assert (comparison.first_difference.step, comparison.first_difference.kind) == (8, "update")


def test_the_text_says_of_which_losses_a_mean_is(tmp_path: Path) -> None:
    steps = range(1, 31)
    others = {
        name: np.random.default_rng(1).normal(size=first.size) for name, first in _FIRST.items()
    }
    one = write_run(tmp_path / "a", steps=steps)
    other = write_run(
        tmp_path / "b",
        lambda step, name, tensor: others[name] * 0.99**step,
        lambda step: 1.0,
        steps,
    )

    lines = str(compare_runs(one, other)).splitlines()

    assert (
        f"  mean of the last tenth of the losses of a: {(1 / 28 + 1 / 29 + 1 / 30) / 3:.4g}"
        in lines
    )
    assert "  mean of the last tenth of the losses of b: 1" in lines


def _gradients(directory: Path, factor: float, shrinks: float = 1.0) -> Path:
    names = {name: f"{name}.gradient" for name in _FIRST}
    with SummaryRecord(directory) as record:
        for step in range(1, _STEPS + 1):
            for name, first in _FIRST.items():
                tensor = first * (factor if step > 5 else 1.0) * shrinks**step
                record.add_value("histogram", f"{names[name]}/auto", tensor.astype(np.float32))
            record.record(step)
    return directory


@pytest.mark.parametrize("shrinks", [1.0, 0.99])
@pytest.mark.parametrize(("factor", "verdict"), [(1.1, "different"), (1.0001, "same")])
def test_gradients_decide_where_nothing_else_was_recorded(
    factor: float, verdict: str, shrinks: float, tmp_path: Path
) -> None:
    comparison = compare_runs(
        _gradients(tmp_path / "a", 1.0, shrinks), _gradients(tmp_path / "b", factor, shrinks)
    )

    assert (comparison.verdict, comparison.hints) == (verdict, ())
    assert comparison.first_difference is None or comparison.first_difference.step == 6


def test_what_no_update_moves_and_no_loss_shows_is_no_update(tmp_path: Path) -> None:
    def still(step: int, name: str, tensor: np.ndarray) -> np.ndarray:
        return _FIRST[name] if name == "out.weight" else tensor

    def moved(step: int, name: str, tensor: np.ndarray) -> np.ndarray:
        return still(step, name, tensor) + (1e-3 if name == "out.weight" else 0.0)

    comparison = compare_runs(write_run(tmp_path / "a", still), write_run(tmp_path / "b", moved))

    assert comparison.first_difference is not None
    assert (comparison.first_difference.kind, len(comparison.first_difference.tensors)) == (None, 1)


def test_what_a_script_logs_from_zero_on_is_no_step_more(tmp_path: Path) -> None:
    for run in "ab":
        with SummaryRecord(tmp_path / run) as record:
            for step in range(4):
                if run == "b":
                    record.add_value("scalar", "accuracy", 1.0)
                if step:
                    record.add_value("scalar", "loss/auto", 1.0 / step)
                record.record(step)

    comparison = compare_runs(tmp_path / "a", tmp_path / "b")
    assert (comparison.alone["b"].steps, comparison.compared["steps"]) == (0, 3)


@pytest.mark.parametrize(
    "other", [lambda path: write_run(path, loss=lambda step: 1.1 / step), None]
)
def test_what_is_no_second_run_of_the_first_is_refused(
    other: Callable[[Path], Path], run: Path, tmp_path: Path
) -> None:
    b = write_run(tmp_path / "b", lambda step, name, tensor: tensor * 1.001)

    with pytest.raises(ValueError, match="is no second run of a"):
        compare_runs(run, b, same=other(tmp_path / "again") if other else b)


def _only(directory: Path, names: tuple[str, ...], jump: int) -> Path:
    """A run that recorded these tensors, and another loss from a step on."""
    with SummaryRecord(directory) as record:
        for step in range(1, _STEPS + 1):
            record.add_value("scalar", "loss/auto", 1.0 / step + (0.1 if step >= jump else 0.0))
            for name in names:
                record.add_value(
                    "histogram", f"{name}/auto", (_FIRST[name] * 0.99**step).astype(np.float32)
                )
            record.record(step)
    return directory


def test_without_weights_a_loss_tells_neither_frozen_tensors_nor_a_batch(
    run: Path, tmp_path: Path
) -> None:
    comparison = compare_runs(run, _only(tmp_path / "b", (), 2))

    assert comparison.first_difference is not None
    assert comparison.first_difference.step == 2
    assert comparison.first_difference.kind is None
    assert "does not show which part of the training differs" in comparison.sentence
    assert comparison.hints == ()


def test_a_sudden_difference_of_a_later_step_is_no_update_of_what_one_run_recorded(
    run: Path, tmp_path: Path
) -> None:
    comparison = compare_runs(run, _only(tmp_path / "b", ("fc.weight",), 7))

    assert comparison.first_difference is not None
    assert (comparison.first_difference.step, comparison.first_difference.kind) == (7, None)


def test_a_comparison_is_neither_true_nor_false(run: Path, tmp_path: Path) -> None:
    comparison = compare_runs(run, run)

    assert comparison.is_same
    with pytest.raises(TypeError, match="is_same"):
        bool(comparison)


def test_a_comparison_says_its_sentence_and_frames_its_page(run: Path) -> None:
    comparison = compare_runs(run, run)

    assert repr(comparison) == f"Comparison('same', {comparison.sentence!r})"
    assert comparison._repr_html_().startswith('<iframe srcdoc="&lt;!DOCTYPE html&gt;')


def test_tensors_of_one_run_that_stand_still_have_no_update(tmp_path: Path) -> None:
    def still(size: int, growth: float = 0.0) -> Callable[[int, str, np.ndarray], np.ndarray]:
        def changed(step: int, name: str, tensor: np.ndarray) -> np.ndarray:
            return _FIRST[name][:size] if name == "fc.bias" else tensor * (1 + growth * (step - 1))

        return changed

    a = write_run(tmp_path / "a", change=still(30))
    b = write_run(
        tmp_path / "b",
        change=still(20, 1e-4),
        loss=lambda step: 1.0 / step + (1e-3 if step > 1 else 0.0),
    )
    first = compare_runs(a, b).first_difference

    assert first is not None
    assert (first.step, first.kind) == (2, None)


@pytest.mark.parametrize(
    ("growth", "every", "place"),
    [(1e-4, 1, (1, "update")), (1e-2, 1, (2, "forward")), (1e-4, 10, (11, None))],
)
def test_adapters_in_the_place_of_weights_part_in_the_first_update(
    tmp_path: Path, growth: float, every: int, place: tuple[int, str | None]
) -> None:
    """Of what both recorded nothing parts in the first step; the second loss shows the tensors that
    one has alone.

    Unless most updates of the second step differ, too: then it is of another batch. Of a later step
    nothing is known.
    """

    def adapted(step: int, name: str, tensor: np.ndarray) -> np.ndarray:
        return (
            tensor * (1 + growth * (step - 1))
            if name == "out.weight"
            else tensor[: tensor.size // 10]
        )

    steps = range(1, 31, every)
    a = write_run(tmp_path / "a", steps=steps)
    b = write_run(tmp_path / "b", loss=lambda step: 1.0 / step + (1e-3 if step > 1 else 0.0),
    steps=steps,
                  names={"fc.weight": "lora_a", "fc.bias": "lora_b"}, change=adapted)  # fmt: skip

    first = compare_runs(a, b).first_difference

    assert first is not None
    assert (first.step, first.kind) == place
