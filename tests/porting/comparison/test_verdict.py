"""Rules of the verdict, each by a run that was made for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mindsummary_lightning import SummaryRecord, compare_runs
from mindsummary_lightning.values import TrainInfo
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
    assert (comparison.first_difference.step, comparison.first_difference.stage) == (7, None)
    assert comparison.notes[0].rule == "not_finite"
    assert comparison.notes[0].numbers == {
        "tensor": "fc.bias",
        "step": 7,
        "baseline": 0,
        "candidate": 1,
    }


def test_no_step_in_common_is_not_comparable_and_says_what_to_set(
    run: Path, tmp_path: Path
) -> None:
    comparison = compare_runs(run, write_run(tmp_path / "b", steps=range(100, 110)))

    assert (comparison.verdict, comparison.first_difference) == ("not_comparable", None)
    assert "collect_freq=1 and histogram_regular='.*'" in comparison.next_step


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
    assert comparison.compared == (12, 0, 12)


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
    assert "no step at which both recorded the same tensor or the loss" in of_epochs.sentence
    assert every_fourth.compared.losses == 3


def test_losses_of_validation_are_no_losses_of_training(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", tag="val_loss")
    b = write_run(
        tmp_path / "b", lambda step, name, tensor: tensor * (1 + 0.1 * (step > 4)), tag="val_loss"
    )
    comparison = compare_runs(a, b)

    assert "compared: 12 steps, no loss, 3 tensors" in str(comparison)
    assert "loss" not in comparison.sentence.partition("(")[0]


@pytest.mark.parametrize("begin", [1, 5])
def test_batch_sizes_that_no_run_recorded_are_not_named(tmp_path: Path, begin: int) -> None:
    steps = range(begin, _STEPS + 1)
    a = write_run(tmp_path / "a", steps=steps)
    comparison = compare_runs(
        a, write_run(tmp_path / "b", loss=lambda step: 2.0 / step, steps=steps)
    )

    assert comparison.notes[0].text == "the first losses differ by the factor 2"
    assert (comparison.verdict, comparison.doubt) == ("undecided", "losses")
    assert comparison.undecided_difference is not None
    assert comparison.undecided_difference.step == begin


def test_unmatched_tensors_are_named(run: Path, tmp_path: Path) -> None:
    comparison = compare_runs(run, write_run(tmp_path / "b", names={"fc.bias": "extra.scale"}))

    assert comparison.only_in_baseline == (0, ("fc.bias",))
    assert comparison.only_in_candidate == (0, ("extra.scale",))
    assert comparison.verdict == "same"


def test_a_map_matches_what_no_rule_does(run: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "b", names={"fc.bias": "extra.scale"})

    comparison = compare_runs(run, other, names={"fc.bias": "extra.scale"})

    assert comparison.compared == (_STEPS, 3, _STEPS)


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
    other = write_run(
        tmp_path / "b",
        lambda step, name, tensor: tensor * (1.01 if step >= 5 else 1.0),
        loss=lambda step: 1.0 / step + (0.1 if step == 5 else 0.0),
    )

    result = json.loads(json.dumps(compare_runs(run, other).to_dict(), allow_nan=False))

    assert result["verdict"] == "different"
    assert result["largest"] == {
        "loss": pytest.approx(1 / 3),
        "tensor": pytest.approx(0.01, rel=0.1),
    }
    first = result["first_difference"]
    assert (first["step"], first["stage"], first["last_equal_step"]) == (5, None, 4)
    assert first["tensors"][0].keys() == {"baseline", "candidate", "distance"}
    only = {"steps": 0, "tensors": []}
    assert (result["notes"], result["only_in_baseline"], result["repeat"]) == ([], only, None)
    assert set(result) == {
        *("baseline", "candidate", "verdict", "sentence", "next_step", "doubt", "compared"),
        *("first_difference", "undecided_difference", "only_in_baseline", "only_in_candidate"),
        "other_shapes",
        *("matched_by_value", "matched_by_position", "largest", "tolerance", "repeat", "settings"),
        *("scalars", "whole_tensors", "notes", "output_statistics"),
    }


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

    assert compare_runs(a, until_little).doubt == "growth"
    assert compare_runs(a, b, tolerance=3e-6).verdict == "different"  # who gives a number, decides

    assert (comparison.verdict, comparison.first_difference) == ("undecided", None)
    assert comparison.next_step.startswith("record the baseline again and pass that run")


def test_a_directory_without_a_run_is_refused(run: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    with pytest.raises(
        FileNotFoundError, match="empty holds no scalar, no histogram and no output"
    ):
        compare_runs(run, tmp_path / "empty")


def test_decay_of_some_tensors_is_a_difference_and_no_other_learning_rate(tmp_path: Path) -> None:
    names = {"out.weight": "out.scale"}

    def decayed(step: int, name: str, tensor: np.ndarray) -> np.ndarray:
        return tensor * 0.9995**step if name != "fc.weight" else tensor

    comparison = compare_runs(
        write_run(tmp_path / "a", names=names), write_run(tmp_path / "b", decayed, names=names)
    )

    first = comparison.first_difference
    assert first is not None
    assert (first.step, first.stage, comparison.notes) == (1, None, ())
    assert {tensor.baseline for tensor in first.tensors} == {"fc.bias", "out.scale"}


def test_what_a_runs_statistics_found_first_is_a_fact(tmp_path: Path) -> None:
    for name in "ab":
        write_parameter_run(tmp_path / name)
    (tmp_path / "b" / "parameter_statistics.json").unlink()

    comparison = compare_runs(tmp_path / "a", tmp_path / "b")

    assert (comparison.verdict, comparison.whole_tensors) == ("same", {})
    assert [note.text for note in comparison.notes] == [
        "the gradient of last.weight is non-finite for the first time at step 30 of the baseline",
        "the gradient of row 2 is non-finite for the first time at step 30 of the candidate",
    ]
    assert comparison.notes[0].numbers == {
        "run": "baseline",
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

    assert (equal.verdict, equal.compared.losses, [note.rule for note in equal.notes]) == (
        "same",
        0,
        ["world_sizes"],
    )
    assert parting.first_difference is not None
    assert (parting.first_difference.step, parting.first_difference.stage) == (4, None)
    assert "loss" not in parting.sentence.partition("(")[0]


def _bad_from(first: int, name: str = "out.weight") -> Callable[[int, str, np.ndarray], np.ndarray]:
    return lambda step, tensor, array: array * np.nan if tensor == name and step >= first else array


def test_what_is_not_finite_is_neither_frozen_nor_another_batch(run: Path, tmp_path: Path) -> None:
    other = write_run(
        tmp_path / "b", change=_bad_from(2), loss=lambda step: np.nan if step == 2 else 1.0 / step
    )

    assert [note.text for note in compare_runs(run, other).notes] == [
        "the loss of the candidate is non-finite for the first time at step 2",
        "out.weight has 0 non-finite elements in the baseline and 80 in the candidate at step 2",
    ]


def test_a_first_loss_that_is_not_finite_is_a_difference_and_no_other_beginning(
    run: Path, tmp_path: Path
) -> None:
    bad = write_run(
        tmp_path / "b", change=lambda step, name, tensor: tensor * np.nan, loss=lambda step: np.nan
    )

    comparison = compare_runs(run, bad)

    assert comparison.first_difference is not None
    assert (comparison.first_difference.step, comparison.first_difference.stage) == (1, None)
    assert [note.rule for note in comparison.notes] == ["not_finite", "not_finite"]


def test_of_losses_that_are_not_finite_in_both_runs_it_is_said_from_where(tmp_path: Path) -> None:
    """Between two recorded steps each may have failed at another."""
    runs = [
        write_run(tmp_path / name, loss=lambda step: 0.5 if step < 9 else np.nan) for name in "ab"
    ]

    comparison = compare_runs(*runs)

    assert comparison.verdict == "same"
    assert [note.numbers for note in comparison.notes] == [
        {"run": run, "step": 9} for run in ("baseline", "candidate")
    ]


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

    assert (comparison.verdict, comparison.compared.losses) == ("same", 6)
    assert (comparison.only_in_baseline.steps, comparison.only_in_candidate.steps) == (0, 0)


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
        (0.0, pytest.approx(0.0, abs=1e-7)),
    )
    assert comparison.compared == (_STEPS, 3, _STEPS - begin)
    assert [(note.rule, note.numbers) for note in comparison.notes] == [
        ("step_offset", {"steps": shift})
    ]


def test_losses_that_stand_still_are_not_counted_otherwise(tmp_path: Path) -> None:
    a, b = (
        write_run(tmp_path / f"{n}", loss=lambda step, n=n: min(1.0, 2.0 / (step + n)))
        for n in (0, 1)
    )

    comparison = compare_runs(a, b)

    assert (comparison.doubt, comparison.notes) == ("losses", ())


@pytest.mark.parametrize(("begin", "verdict"), [(3, "same"), (2, "different")])
def test_the_distance_of_a_repeat_counts_three_times(
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
    assert apart.repeat == (0.0, pytest.approx(1e-4, 0.05))


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16"])
def test_a_tolerance_has_the_name_that_was_asked_for(run: Path, name: Any) -> None:
    assert compare_runs(run, run, tolerance=name).tolerance.name == name


def test_losses_of_other_signs_have_no_ratio(tmp_path: Path) -> None:
    a, b = write_run(tmp_path / "a"), write_run(tmp_path / "b", loss=lambda step: -2.0 / step)

    assert "loss_ratio" not in [note.rule for note in compare_runs(a, b).notes]


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

    assert (comparison.verdict, comparison.notes) == (verdict, ())
    assert comparison.first_difference is None or comparison.first_difference.step == 6


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
    assert (comparison.only_in_candidate.steps, comparison.compared.steps) == (0, 3)


@pytest.mark.parametrize(
    "other", [lambda path: write_run(path, loss=lambda step: 1.1 / step), None]
)
def test_what_is_no_second_run_of_the_first_is_refused(
    other: Callable[[Path], Path], run: Path, tmp_path: Path
) -> None:
    b = write_run(tmp_path / "b", lambda step, name, tensor: tensor * 1.001)

    with pytest.raises(ValueError, match="same must be a repeat of the baseline"):
        compare_runs(run, b, same=other(tmp_path / "again") if other else b)


def test_a_comparison_is_neither_true_nor_false(run: Path, tmp_path: Path) -> None:
    comparison = compare_runs(run, run)

    assert comparison.is_same
    with pytest.raises(TypeError, match="is_same"):
        bool(comparison)


def test_a_comparison_says_its_sentence_and_frames_its_page(run: Path) -> None:
    comparison = compare_runs(run, run)

    assert repr(comparison) == f"Comparison('same', {comparison.sentence!r})"
    assert comparison._repr_html_().startswith('<iframe srcdoc="&lt;!DOCTYPE html&gt;')


def _walks(step: int, name: str, tensor: np.ndarray) -> np.ndarray:
    return tensor + 0.02 * np.sin(7.0 * step) if name == "fc.bias" else tensor


def test_a_bias_alone_decides_nothing(run: Path, tmp_path: Path) -> None:
    """Adam moves a bias that has no effect on the loss by whole steps of rounding."""
    comparison = compare_runs(run, write_run(tmp_path / "b", _walks))

    assert (comparison.verdict, comparison.doubt) == ("undecided", "biases")
    assert comparison.undecided_difference is not None
    assert [tensor.baseline for tensor in comparison.undecided_difference.tensors] == ["fc.bias"]
    assert "only biases differ" in comparison.sentence


def test_a_bias_hides_no_difference_of_other_weights(run: Path, tmp_path: Path) -> None:
    def change(step: int, name: str, tensor: np.ndarray) -> np.ndarray:
        jumps = step >= 4 and name == "out.weight"
        return _walks(step, name, tensor) + 0.1 * jumps

    first = compare_runs(run, write_run(tmp_path / "b", change)).first_difference

    assert first is not None
    assert (first.step, {tensor.baseline for tensor in first.tensors}) == (
        4,
        {"out.weight", "fc.bias"},
    )


def test_a_loss_alone_decides_nothing_while_no_weight_differs(run: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "b", loss=lambda step: 1.1 / step)
    comparison = compare_runs(run, other)

    assert (comparison.verdict, comparison.doubt) == ("undecided", "losses")
    assert "no recorded weight differs" in comparison.sentence


@pytest.mark.parametrize("tag", ["latest_loss", "interval_loss", "trainLoss"])
def test_a_loss_of_training_may_hold_letters_of_a_word_for_validation(
    tag: str, tmp_path: Path
) -> None:
    a, b = (write_run(tmp_path / name, tag=tag) for name in "ab")

    assert compare_runs(a, b).compared.losses == _STEPS


@pytest.mark.parametrize(
    "tag", ["val_loss", "test/loss", "valLoss", "evalloss", "train_loss_epoch"]
)
def test_a_loss_of_validation_or_an_epoch_is_no_loss_of_training(tag: str, tmp_path: Path) -> None:
    a, b = (write_run(tmp_path / name, tag=tag) for name in "ab")

    assert compare_runs(a, b).compared.losses == 0


def test_an_ordinary_pair_takes_at_most_twelve_lines_and_the_verdict_comes_first(
    run: Path, tmp_path: Path
) -> None:
    other = write_run(tmp_path / "b", lambda step, name, x: x * (1.01 if step > 6 else 1.0))
    lines = str(compare_runs(run, other)).splitlines()

    assert len(lines) <= 12
    assert lines[0].startswith("different: from step 7, the loss agrees, tensors differ by up to ")
    assert lines[1].startswith("next: to find the module, record step 7 of both runs with ")


def test_a_repeat_that_equals_the_baseline_shows_no_rounding(tmp_path: Path) -> None:
    def drift(step: int, name: str, tensor: np.ndarray) -> np.ndarray:
        return tensor + 1e-8 * 1.2**step

    steps = range(1, 60)
    a, again = (write_run(tmp_path / name, steps=steps) for name in ("a", "again"))
    comparison = compare_runs(a, write_run(tmp_path / "b", drift, steps=steps), same=again)

    assert (comparison.verdict, comparison.doubt) == ("undecided", "growth")
    assert "the repeat equals the baseline" in comparison.next_step
