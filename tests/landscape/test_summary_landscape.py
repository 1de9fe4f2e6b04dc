from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from mindsummary_lightning.landscape import evaluation, workers
from mindsummary_lightning.landscape.checkpoints import (
    LandscapeCheckpointError,
    LandscapeCheckpointWriter,
    mapped,
    remove_checkpoints,
)
from mindsummary_lightning.landscape.summary_landscape import SummaryLandscape
from mindsummary_lightning.reading.summary_reader import SummaryReader
from mindsummary_lightning.values import LossLandscape
from mindsummary_lightning.values.landscape_settings import LandscapeSettings
from tests.landscape import nets
from tests.support import Terminal

TAGS = ["landscape_[1, 6]", "landscape_[6]"]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    nets.train(nets.Mlp(), str(tmp_path))
    return tmp_path


def generate(run: Path, **options: object) -> dict[str, LossLandscape]:
    net = nets.Mlp()
    return SummaryLandscape(run).generate(
        net, nets.loader(net), nets.LOSS, accelerator="cpu", **options
    )


def assert_equal(one: dict[str, LossLandscape], other: dict[str, LossLandscape]) -> None:
    assert list(one) == list(other)
    for tag in one:
        for axis in "xyz":
            np.testing.assert_array_equal(
                getattr(one[tag].surface, axis), getattr(other[tag].surface, axis)
            )
            if one[tag].path is not None:
                np.testing.assert_array_equal(
                    getattr(one[tag].path, axis), getattr(other[tag].path, axis)
                )
        assert one[tag].convergence_point == other[tag].convergence_point
        assert one[tag].metadata == other[tag].metadata


def test_the_written_file_holds_the_landscapes(run: Path) -> None:
    made = generate(run)
    read = {landscape.tag: landscape for landscape in SummaryReader(run).landscapes()}
    assert list(made) == TAGS == sorted(read)
    for tag, landscape in made.items():
        assert read[tag].step == 0
        for axis in "xyz":
            np.testing.assert_array_equal(
                getattr(read[tag].surface, axis), getattr(landscape.surface, axis)
            )
        assert read[tag].intervals == landscape.intervals
        assert read[tag].convergence_point == pytest.approx(landscape.convergence_point)
        assert read[tag].metadata == landscape.metadata
    interval, final = made[TAGS[0]], made[TAGS[1]]
    for axis in "xyz":
        np.testing.assert_array_equal(
            getattr(read[TAGS[0]].path, axis), getattr(interval.path, axis)
        )
    assert interval.intervals == (1, 2, 3, 4, 5, 6)
    assert (interval.metadata.decomposition, interval.metadata.unit) == ("PCA", "step")
    assert interval.metadata.step_per_epoch == 3
    assert final.metadata.decomposition == "Random"
    assert interval.convergence_point == (0.0, 0.0, interval.path.z[-1])
    assert final.convergence_point == (0.0, 0.0, final.surface.z[2, 2])
    assert final.convergence_point[2] == pytest.approx(interval.convergence_point[2], rel=1e-6)


@pytest.mark.slow
def test_the_same_call_gives_the_same_landscapes_of_a_shuffling_loader_too(run: Path) -> None:
    net = nets.Mlp()
    loader = DataLoader(TensorDataset(*net.data()), 16, shuffle=True)
    calls = [
        SummaryLandscape(run).generate(
            net, loader, nets.LOSS, accelerator="cpu", collect_landscape={"num_samples": 32}
        )
        for _ in range(2)
    ]
    assert_equal(*calls)


@pytest.mark.slow
@pytest.mark.long
def test_two_processes_give_what_one_gives(run: Path) -> None:
    assert_equal(generate(run, devices=1), generate(run, devices=2))


def test_several_batch_sizes_of_epoch_checkpoints(tmp_path: Path) -> None:
    settings = LandscapeSettings(3, "epoch", 50, False, True, ((1, 2, 3),))
    nets.train(nets.ConvNet(), str(tmp_path), 5, settings)
    net = nets.ConvNet()
    made = SummaryLandscape(tmp_path).generate(net, nets.loader(net), nets.LOSS, accelerator="cpu")
    assert list(made) == ["landscape_[3]"]
    assert made["landscape_[3]"].metadata.unit == "epoch"


@pytest.mark.slow
def test_a_network_inside_the_trained_module_is_found_by_its_prefix(tmp_path: Path) -> None:
    nets.train(nets.Lit(), str(tmp_path))
    lit, net = nets.Lit(), nets.Mlp()
    whole = SummaryLandscape(tmp_path).generate(lit, nets.loader(lit), accelerator="cpu")
    inner = SummaryLandscape(tmp_path).generate(net, nets.loader(lit), nets.LOSS, accelerator="cpu")
    assert_equal(whole, inner)


def callback() -> tuple[None, nn.Module, DataLoader, dict[str, object]]:
    net = nets.Mlp()
    return None, net, nets.loader(net), {"Loss": nets.LOSS}


@pytest.mark.slow
def test_mindspores_call_gives_the_same(
    run: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    output = tmp_path_factory.mktemp("output")
    made = SummaryLandscape(run).gen_landscapes_with_multi_process(
        callback, {}, device_ids=[0], output=output
    )
    assert len(list(output.glob("*summary*_MS"))) == 1
    assert not list(run.glob("*summary*_MS"))
    assert_equal(made, generate(run))


def small_run(tmp_path: Path, net: nn.Module) -> Path:
    """A run whose last checkpoint alone gives a landscape."""
    settings = LandscapeSettings(3, num_samples=32, train=False, intervals=((1, 2, 3),))
    nets.train(net, str(tmp_path), 4, settings)
    return tmp_path


@pytest.mark.parametrize("is_lightning", [False, True])
def test_mindspores_call_writes_to_the_output_and_shows_its_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_lightning: bool
) -> None:
    net = nets.Lit() if is_lightning else nets.Mlp()
    run, output = small_run(tmp_path / "run", net), tmp_path / "output"
    loader, given = (
        nets.loader(net),
        (net, net.net, None) if is_lightning else (None, net, nets.LOSS),
    )
    model, network, metric = given
    monkeypatch.setattr("sys.stderr", Terminal())

    made = SummaryLandscape(run).gen_landscapes_with_multi_process(
        # of a model the loss is its own
        lambda: (model, network, loader, {"Loss": metric or pytest.fail, "Accuracy": print}),
        collect_landscape={"landscape_size": 5},
        device_ids=[0],
        output=output,
    )

    assert list(made) == ["landscape_[3]"]
    (read,) = SummaryReader(output).landscapes()
    assert read.z.shape == (5, 5)
    np.testing.assert_array_equal(read.z, made["landscape_[3]"].z)
    assert not list(run.glob("*summary*_MS"))
    assert f"landscape_[3], loss {made['landscape_[3]'].z.min():.4g} to" in sys.stderr.getvalue()  # type: ignore[attr-defined]
    assert "5/5" in sys.stderr.getvalue()  # type: ignore[attr-defined]
    images, labels = next(iter(loader))
    net.load_state_dict(mapped(str(run / "ckpt_dir" / f"{type(net).__name__}_3_step.ckpt")))
    with torch.no_grad():
        centre = nets.LOSS(net(images), labels).item()
    assert made["landscape_[3]"].convergence_point == pytest.approx((0.0, 0.0, centre), rel=1e-5)


def test_an_interrupted_landscape_computes_the_missing_rows_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, computed = small_run(tmp_path, nets.Mlp()), []
    write = workers.RowStore.write

    def writing(self: workers.RowStore, index: int, losses: np.ndarray) -> None:
        write(self, index, losses)
        computed.append(index)
        if len(computed) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(workers.RowStore, "write", writing)
    with pytest.raises(KeyboardInterrupt):
        generate(run)
    continued = generate(run)
    assert computed == [0, 1, 2]
    assert [path.name for path in (run / "ckpt_dir").iterdir() if path.is_dir()] == []

    assert_equal(generate(run), continued)
    other = generate(run, seed=1)["landscape_[3]"]
    assert not np.allclose(other.z, continued["landscape_[3]"].z)
    assert other.convergence_point == continued["landscape_[3]"].convergence_point


@pytest.mark.slow
def test_mindspores_call_takes_a_lightning_module(tmp_path: Path) -> None:
    nets.train(nets.Lit(), str(tmp_path))
    lit = nets.Lit()
    made = SummaryLandscape(tmp_path).gen_landscapes_with_multi_process(
        lambda: (lit, lit.net, nets.loader(lit), None), device_ids=[0]
    )
    assert_equal(
        made, SummaryLandscape(tmp_path).generate(lit, nets.loader(lit), accelerator="cpu")
    )


@pytest.mark.slow
@pytest.mark.parametrize("stop_after", [0, 4, 10])
def test_an_interrupted_landscape_goes_on_without_computing_a_row_again(
    run: Path, monkeypatch: pytest.MonkeyPatch, stop_after: int
) -> None:
    expected = generate(run)
    computed: list[bytes] = []
    original = evaluation.PlaneLoss.losses

    def counting(self: evaluation.PlaneLoss, points: np.ndarray) -> np.ndarray:
        if len(points) > 3:  # a row or the path, not the check of a shortcut
            if len(computed) == stop_after:
                raise KeyboardInterrupt
            computed.append(points.tobytes())
        return original(self, points)

    monkeypatch.setattr(evaluation.PlaneLoss, "losses", counting)
    with pytest.raises(KeyboardInterrupt):
        generate(run)
    stop_after = -1
    assert_equal(generate(run), expected)
    assert len(computed) == 5 + 1 + 5  # a 5x5 grid with a path, a 5x5 grid
    assert not list((run / "ckpt_dir").glob("rows_*"))


@pytest.mark.slow
def test_rows_of_other_samples_are_not_taken(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = generate(run, collect_landscape={"num_samples": 32})
    monkeypatch.setattr(workers.RowStore, "clear", lambda self: None)
    generate(run)
    assert_equal(generate(run, collect_landscape={"num_samples": 32}), expected)


def test_losses_that_are_not_finite_become_the_largest_finite_one(
    run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plain = generate(run, collect_landscape={"create_landscape": {"train": False}})[
        TAGS[1]
    ].surface.z
    limit = float(np.sort(plain.flatten())[-4])

    def exploding(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        loss = nets.LOSS(output, target)
        return torch.where(loss > limit * 1.001, torch.tensor(float("nan")), loss)

    net = nets.Mlp()
    loader = DataLoader(TensorDataset(*next(iter(nets.loader(net, 96)))), 96)
    final = {"create_landscape": {"train": False}}
    made = SummaryLandscape(run).generate(
        net, loader, exploding, accelerator="cpu", collect_landscape=final
    )
    assert [record.message for record in caplog.records if "not finite" in record.message] == [
        f"landscape_[6]: 3 losses that are not finite were replaced by {limit:g}"
    ]
    np.testing.assert_allclose(
        made[TAGS[1]].surface.z, np.minimum(plain, np.float32(limit)), rtol=1e-6
    )


@pytest.mark.slow
def test_mixed_precision_is_close(run: Path) -> None:
    exact, mixed = generate(run), generate(run, precision="bf16-mixed")
    np.testing.assert_allclose(mixed[TAGS[1]].surface.z, exact[TAGS[1]].surface.z, rtol=0.05)


def saved(run: Path, numbers: range, **settings: object) -> Path:
    writer = LandscapeCheckpointWriter(run, "Mlp", LandscapeSettings(3, num_samples=32, **settings))
    torch.manual_seed(0)
    net = nets.Mlp()
    for number in numbers:
        with torch.no_grad():
            for parameter in net.parameters():
                parameter += 0.1 * torch.randn(parameter.shape)
        nets.save(writer, number, net.state_dict())
    return run


@pytest.mark.parametrize(
    "changes", [None, {"landscape_size": 5}, {"create_landscape": {"train": False}}]
)
def test_the_last_checkpoint_is_the_last_that_was_saved_whatever_else_is_asked(
    tmp_path: Path, changes: object
) -> None:
    made = generate(saved(tmp_path, range(1, 12)), collect_landscape=changes)
    assert "landscape_[11]" in made


def test_named_intervals_name_the_last_checkpoint_too(tmp_path: Path) -> None:
    made = generate(saved(tmp_path, range(1, 12)), collect_landscape={"intervals": [[1, 2, 3]]})
    assert list(made) == ["landscape_[1, 3]", "landscape_[3]"]


def test_a_directory_is_the_one_that_the_collector_means_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "run").mkdir()

    with pytest.raises(
        FileNotFoundError, match=r"summary_dir must be an existing directory, got .*nope$"
    ):
        SummaryLandscape("~/nope")
    assert (
        repr(SummaryLandscape("~/run"))
        == f"SummaryLandscape({os.path.realpath(tmp_path / 'run')!r})"
    )


def test_a_run_of_two_steps_gives_the_landscape_of_its_last(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert list(generate(saved(tmp_path, range(1, 3)))) == ["landscape_[2]"]
    assert "only the landscape around the last checkpoint is computed" in caplog.text


@pytest.mark.slow
def test_intervals_that_a_short_run_cuts_to_the_same_ends_give_one_landscape(
    tmp_path: Path,
) -> None:
    run = saved(tmp_path, range(1, 6), intervals=((1, 2, 3, 4, 5, 6), (1, 3, 5, 7)))
    assert list(generate(run)) == ["landscape_[1, 5]", "landscape_[5]"]


def of(net: nn.Module) -> Callable[[Path], Any]:
    return lambda run: SummaryLandscape(run).generate(net, nets.loader(nets.Mlp()), nets.LOSS)


def changed(**settings: object) -> Callable[[Path], Any]:
    return lambda run: generate(run, collect_landscape=settings)


def without_step_four(run: Path) -> None:
    (run / "ckpt_dir" / "Mlp_4_step.ckpt").unlink()
    generate(run)


def without_the_last_step(run: Path) -> None:
    (run / "ckpt_dir" / "Mlp_6_step.ckpt").unlink()
    generate(run, collect_landscape={"create_landscape": {"train": False}})


def of_other_width() -> nn.Module:
    net = nets.Mlp()
    net[1] = nn.Linear(81, 16)
    return net


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (
            without_step_four,
            LandscapeCheckpointError,
            r"no checkpoint of step 4; the saved checkpoints are \[1, 2, 3, 5, 6\]",
        ),
        (
            without_the_last_step,
            LandscapeCheckpointError,
            r"no checkpoint of step 6; the saved checkpoints are \[1, 2, 3, 4, 5\]",
        ),
        (
            lambda run: generate(run, points_at_once=0),
            ValueError,
            "points_at_once must be",
        ),
        (changed(intervals=[[5, 6, 7, 8]]), LandscapeCheckpointError, "no checkpoint of step 7, 8"),
        (changed(intervals=[[1, 2]]), ValueError, "each interval must have at least 3 numbers"),
        (changed(unit="epoch"), ValueError, "one checkpoint per step, so unit cannot be 'epoch'"),
        (
            of(nets.ConvNet()),
            LandscapeCheckpointError,
            r"is not a checkpoint of ConvNet: it has no '0\.weight'",
        ),
        (
            of(of_other_width()),
            LandscapeCheckpointError,
            r"'1.weight' has shape \(16, 80\), but the network's tensor has \(16, 81\)",
        ),
        (
            lambda run: SummaryLandscape(run).generate(nets.Mlp(), [], nets.LOSS),
            ValueError,
            "the dataloader is empty",
        ),
        (lambda run: SummaryLandscape(run).generate(nets.Mlp(), []), TypeError, "pass loss_fn"),
        (
            lambda run: SummaryLandscape(run).generate(None, [], nets.LOSS),
            TypeError,
            r"module must be an nn\.Module",
        ),
        (
            lambda run: SummaryLandscape(run).generate(nn.Linear, []),
            TypeError,
            "not the class Linear itself",
        ),
        (
            lambda run: by_mindspores_call(run, 3),
            TypeError,
            "callback_fn must be a function, not 3",
        ),
        (
            lambda run: by_mindspores_call(run, nets.Mlp),
            TypeError,
            r"\(model, network, dataset, metrics\), not Mlp",
        ),
    ],
)
def test_what_cannot_work_is_refused_before_a_loss_is_computed(
    run: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: Callable[[Path], Any],
    error: type[Exception],
    says: str,
) -> None:
    monkeypatch.setattr(
        evaluation.PlaneLoss, "losses", lambda *_: pytest.fail("a loss was computed")
    )
    with pytest.raises(error, match=says):
        call(run)
    assert not list(run.glob("*summary*"))


def test_nothing_to_make_is_nothing_written_as_with_mindspore(run: Path) -> None:
    assert (
        generate(run, collect_landscape={"create_landscape": {"train": False, "result": False}})
        == {}
    )
    assert not list(run.glob("*summary*"))


def by_mindspores_call(run: Path, callback_fn: Any, **arguments: Any) -> Any:
    return SummaryLandscape(run).gen_landscapes_with_multi_process(callback_fn, **arguments)


@pytest.mark.parametrize(
    ("argument", "value", "error", "says"),
    [
        *(("device_ids", ids, ValueError, "device_ids must") for ids in ([], [-1])),
        *(("device_ids", ids, TypeError, "device_ids must") for ids in (["0"], 0)),
        ("output", 3, TypeError, "output must"),
        ("collect_landscape", {"size": 3}, ValueError, "unknown keys of collect_landscape"),
        ("collect_landscape", {123: 1}, ValueError, "unknown keys of collect_landscape"),
        ("collect_landscape", {"landscape_size": 2}, ValueError, "landscape_size must"),
        ("collect_landscape", {"unit": "hour"}, ValueError, "unit must"),
        *(
            ("collect_landscape", {key: 1.5}, TypeError, f"{key} must")
            for key in ("landscape_size", "unit", "num_samples", "create_landscape", "intervals")
        ),
    ],
)
def test_a_wrong_argument_of_mindspores_call_is_refused_before_the_callback_runs(
    run: Path, argument: str, value: object, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        by_mindspores_call(run, lambda: pytest.fail("called"), **{argument: value})
    assert not list(run.glob("*summary*"))


def test_a_failing_loss_leaves_no_file(run: Path) -> None:
    def failing(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no such loss")

    net = nets.Mlp()
    with pytest.raises(RuntimeError, match="no such loss"):
        SummaryLandscape(run).generate(net, nets.loader(net), failing, accelerator="cpu")
    assert not list(run.glob("*summary*"))


def test_clean_ckpt_removes_the_checkpoints(run: Path) -> None:
    SummaryLandscape(run).clean_ckpt()
    assert not (run / "ckpt_dir").exists()
    remove_checkpoints(run)
