"""Chains of plain loops: gaps between steps, batches of other sizes, and what neither an update nor
a module did.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from mindsummary_lightning import Comparison, StepRecorder, SummaryRecord, compare_runs
from tests.support import memory_below

Net = Callable[[], nn.Module]
After = Callable[[int, nn.Module, torch.optim.Optimizer], object]


def _loop(
    run: Path,
    net: Net,
    steps: Sequence[int] = (1, 2, 3),
    *,
    batches: Sequence[Any] = tuple(
        torch.randn(6, 4, 8, generator=torch.Generator().manual_seed(1))
    ),
    adam: bool = False,
    given: Callable[[torch.Tensor], torch.Tensor] = lambda batch: batch,
    after: After = lambda *_: None,
    offset: float = 0.0,
) -> Path:
    """Record steps of a loop whose model gets what ``given`` makes of a batch; ``after`` is called
    behind each step.
    """
    torch.manual_seed(0)
    model, recorder = net(), StepRecorder(run, tuple(steps))
    optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), 0.1)
    if adam:
        optimizer = torch.optim.Adam(model.parameters(), 0.1)
    for step, batch in enumerate(batches, 1):
        with recorder.step(model, optimizer, batch) as loss_is:
            loss_is(loss := model(given(batch)).square().mean() + offset)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        after(step, model, optimizer)
    return run


def _linear() -> nn.Module:
    return nn.Linear(8, 8)


def _faster_from(first: int, times: float = 2.0) -> After:
    def after(step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        if step == first - 1:
            optimizer.param_groups[0]["lr"] *= times

    return after


def _only_in_one(comparison: Comparison) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return comparison.only_in_baseline.tensors, comparison.only_in_candidate.tensors


def _compared(tmp_path: Path, a: dict[str, Any], b: dict[str, Any]) -> Comparison:
    return compare_runs(_loop(tmp_path / "a", **a), _loop(tmp_path / "b", **b))


@pytest.mark.parametrize("steps", [(1, 2, 5), (5,)])
def test_weights_that_are_others_behind_a_gap_are_not_the_same(
    steps: tuple[int, ...], tmp_path: Path
) -> None:
    """A loss that hardly feels the weights does not show it, nor does one that was not recorded."""
    of_both = {"net": _linear, "steps": steps, "offset": 1e6}
    comparison = _compared(tmp_path, of_both, of_both | {"after": _faster_from(3)})

    assert comparison.shown_difference is not None
    assert (comparison.shown_difference.step, comparison.is_same) == (5, False)
    assert comparison.first_difference is None or comparison.first_difference.stage is None
    with SummaryRecord(tmp_path / "b") as record:
        # which the chains of both have
        record.add_value("histogram", "weight/auto", torch.ones(8, 8))
        record.record(5)
    assert _only_in_one(compare_runs(tmp_path / "a", tmp_path / "b")) == ((), ())


def test_where_runs_part_behind_a_gap_the_last_step_of_which_the_chains_agree_is_said(
    tmp_path: Path,
) -> None:
    of_both = {"net": _linear, "steps": (1, 2, 5)}
    comparison = _compared(tmp_path, of_both, of_both | {"after": _faster_from(3)})

    first = comparison.first_difference
    assert first is not None
    assert (first.step, first.last_equal_step, comparison.compared.steps) == (5, 2, 3)
    assert comparison.sentence == (
        "from step 5; lr is 0.1 in the baseline and 0.2 in the candidate"
    )


def _moved_from(first: int, by: float) -> After:
    def after(step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        if step == first - 1:
            with torch.no_grad():
                model.get_parameter("weight").mul_(1 + by)

    return after


def test_what_rounding_may_have_grown_to_behind_a_gap_is_left_undecided(tmp_path: Path) -> None:
    of_both = {"net": _linear, "steps": (1, 2, 5)}
    comparison = _compared(tmp_path, of_both, of_both | {"after": _moved_from(4, 1e-4)})

    assert (comparison.verdict, comparison.first_difference) == ("undecided", None)
    assert "rounding errors can grow to this size" in comparison.sentence
    assert "--same" in comparison.next_step


def test_a_last_batch_that_is_smaller_is_other_data(tmp_path: Path) -> None:
    batches = [*torch.randn(2, 4, 8, generator=torch.Generator().manual_seed(1))]
    comparison = _compared(
        tmp_path,
        {"net": _linear, "batches": batches},
        {"net": _linear, "batches": [batches[0], batches[1][:3]]},
    )

    first = comparison.first_difference
    assert first is not None
    assert (first.step, first.stage) == (2, "data")
    assert "differs by inf: data [4, 8] = data [24]" in str(comparison)


class _Teacher(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.student, self.teacher = nn.Linear(8, 8), nn.Linear(8, 8).requires_grad_(False)
        self.teacher.load_state_dict(self.student.state_dict())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.student(x) - self.teacher(x + 1)
        return out


def _averaged(share: float) -> After:
    def after(step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        with torch.no_grad():
            for mean, weight in zip(
                model.teacher.parameters(), model.student.parameters(), strict=True
            ):  # type: ignore[union-attr,operator]
                mean.lerp_(weight, share)

    return after


def test_weights_that_both_runs_change_otherwise_between_steps_are_named(tmp_path: Path) -> None:
    comparison = _compared(
        tmp_path,
        {"net": _Teacher, "after": _averaged(0.01)},
        {"net": _Teacher, "after": _averaged(0.1)},
    )

    first = comparison.first_difference
    assert first is not None
    assert (first.step, first.stage) == (2, "weights")
    assert {tensor.baseline for tensor in first.tensors} == {"teacher.weight", "teacher.bias"}


class _Averaging(_Teacher):
    """It averages its teacher before that computes."""

    share: float

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        _averaged(self.share)(0, self, torch.optim.SGD(self.student.parameters(), 0.1))
        return super().forward(x)


def test_weights_that_change_within_a_step_are_said_with_the_output_that_they_make(
    tmp_path: Path,
) -> None:
    nets = [type("Averaging", (_Averaging,), {"share": share}) for share in (0.01, 0.1)]
    comparison = _compared(tmp_path, *({"net": net, "steps": (2, 3)} for net in nets))

    first = comparison.first_difference
    assert first is not None
    assert (first.step, first.stage) == (2, "forward")
    assert [tensor.baseline for tensor in first.tensors] == [
        "teacher",
        "teacher.bias",
        "teacher.weight",
    ]
    assert "in teacher (Linear): its inputs agree, its output differs by " in comparison.sentence
    assert "and so do its weights that have no gradient (" in comparison.sentence


class _Joined(nn.Module):
    """A layer that gets its input once or twice, and whose rounded weights what comes behind it
    makes more of.
    """

    def __init__(self, times: int, weight: float) -> None:
        super().__init__()
        self.times, self.layer = times, nn.Linear(8, 4, bias=False)
        nn.init.constant_(self.layer.weight, weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.layer(torch.cat([x] * self.times))[: len(x)] - 0.8
        return out


def test_weights_in_a_module_that_is_not_compared_explain_what_the_one_around_makes(
    tmp_path: Path,
) -> None:
    of_both = {"batches": [torch.ones(4, 8)]}
    nets = [lambda: _Joined(1, 0.125), lambda: _Joined(2, 0.125 * (1 + 9e-7))]
    comparison = _compared(tmp_path, *({"net": net, **of_both} for net in nets))

    assert comparison.first_difference is None, comparison.sentence


class _Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        out: torch.Tensor = self.out((q @ k.transpose(-1, -2) / 3).softmax(-1) @ v)
        return out


def test_a_fused_bias_of_which_a_third_moves_by_rounding_is_no_other_update(tmp_path: Path) -> None:
    batches = [*torch.randn(3, 4, 6, 8, generator=torch.Generator().manual_seed(1))]
    exact = {
        "net": lambda: _Attention().double(),
        "adam": True,
        "batches": [batch.double() for batch in batches],
    }
    comparison = _compared(tmp_path, exact, {"net": _Attention, "adam": True, "batches": batches})

    assert comparison.first_difference is None, comparison.sentence


def test_rounding_of_later_gradients_makes_no_difference_of_a_batch_in_another_order(
    tmp_path: Path,
) -> None:
    def rounded() -> nn.Module:
        net, count = nn.Sequential(nn.Linear(8, 8)), iter(range(9))
        net[0].weight.register_hook(lambda gradient: gradient * (1 + 1e-4 * min(next(count), 1)))
        return net

    a: dict[str, Any] = {"net": lambda: nn.Sequential(nn.Linear(8, 8)), "offset": 1e3}
    turned = {"net": rounded, "offset": 1e3, "given": lambda x: x.flip(0)}
    assert _compared(tmp_path, a, turned).first_difference is None


@pytest.mark.parametrize("seed", [2, 3, 5, 8])
def test_a_running_mean_that_follows_a_bias_without_effect_is_no_other_update(
    seed: int, tmp_path: Path
) -> None:
    def normalized() -> nn.Module:
        return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 4))

    batches = torch.randn(4, 32, 8, generator=torch.Generator().manual_seed(seed)).unbind()
    of_both = {"net": normalized, "steps": (1, 2, 3, 4), "batches": batches, "adam": True}

    assert _compared(tmp_path, of_both, of_both | {"given": lambda x: x.flip(0)}).verdict == "same"


def test_weights_of_another_precision_round_their_updates(tmp_path: Path) -> None:
    a = _loop(tmp_path / "a", _linear, given=lambda x: x / 10)
    b = _loop(tmp_path / "b", lambda: _linear().bfloat16(), given=lambda x: x.bfloat16() / 10)
    comparison = compare_runs(a, b, tolerance="bfloat16")

    assert comparison.first_difference is None, comparison.sentence


def _shifted(by: float) -> After:
    def after(step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        with torch.no_grad():
            model.get_parameter("bias").add_(by * (step == 2))

    return after


class _Rooted(nn.Linear):
    """A layer whose squares have gradients that no weight has a part in."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (super().forward(x) + 100).sqrt()


def _forgetful(step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    if step == 3:
        optimizer.state.clear()


def test_behind_a_gap_of_runs_that_round_an_update_may_come_of_what_was_not_recorded(
    tmp_path: Path,
) -> None:
    of_all: dict[str, Any] = {
        "net": lambda: _Rooted(8, 8),
        "steps": (1, 2, 5),
        "adam": True,
        "offset": 1e6,
    }
    a, b = _loop(tmp_path / "a", **of_all), _loop(tmp_path / "b", **of_all, after=_forgetful)
    again = _loop(tmp_path / "again", **of_all, after=_shifted(0.5))

    assert compare_runs(a, b, same=again).first_difference is None


class _Centred(nn.Module):
    """A layer behind which a bias has no effect."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x - x.mean(0)) * self.scale


def test_losses_decide_where_a_second_run_of_the_first_has_shown_that_outputs_may_be_apart(
    tmp_path: Path,
) -> None:
    def net(scale: float = 1.0, bias: float = 0.0) -> nn.Module:
        layer = nn.Linear(8, 8)
        nn.init.constant_(layer.bias, bias)
        return nn.Sequential(layer, _Centred(scale))

    a, b = _loop(tmp_path / "a", net), _loop(tmp_path / "b", lambda: net(scale=1.0001))
    again = _loop(tmp_path / "again", lambda: net(bias=2.0))

    assert compare_runs(a, b, same=again).verdict == "different"


class _Steps(nn.Module):
    """A cell that reads a sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.out = nn.RNNCell(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = torch.zeros(len(x), 8)
        for part in x.unbind(1):
            state = self.cell(part, state)
        out: torch.Tensor = self.out(state)
        return out


def test_a_network_whose_input_has_another_size_is_not_where_the_runs_part(tmp_path: Path) -> None:
    of_both = {
        "net": _Steps,
        "batches": [torch.randn(4, 6, 8, generator=torch.Generator().manual_seed(1))],
    }
    comparison = _compared(tmp_path, of_both, of_both | {"given": lambda x: x[:, :5]})

    first = comparison.first_difference
    assert first is not None
    assert first.location is not None
    assert first.location.kind_baseline == "training step"


class _Turning(nn.Module):
    """It normalizes the channels as the last dimension, and turns them back, or not."""

    def __init__(self, is_turned_back: bool) -> None:
        super().__init__()
        self.norm, self.is_turned_back = nn.LayerNorm(2), is_turned_back

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.norm(x.transpose(1, 2))
        return normed.transpose(1, 2) if self.is_turned_back else normed.reshape(x.shape)


def test_what_is_turned_wrongly_is_said_of_the_module_that_does_it(tmp_path: Path) -> None:
    of_both = [
        {"net": lambda right=right: nn.Sequential(_Turning(right), nn.Linear(4, 4), nn.Tanh()),
         "given": lambda batch: batch.reshape(4, 2, 4)}
        for right in (True, False)
    ]  # fmt: skip
    first = _compared(tmp_path, *of_both).first_difference

    assert first is not None
    assert first.location is not None
    assert (first.stage, first.location.baseline) == ("forward", "0")


def test_settings_of_an_optimizer_that_steps_several_times_are_those_of_its_groups(
    tmp_path: Path,
) -> None:
    for run, rate, times in (("a", 0.1, 2), ("b", 0.2, 3)):
        torch.manual_seed(0)
        net, x = _linear(), torch.ones(4, 8)
        optimizer = torch.optim.SGD(net.parameters(), rate)
        with StepRecorder(tmp_path / run).step(net, optimizer, x) as loss_is:
            loss_is(loss := net(x).square().mean())
            loss.backward()
            for _ in range(times):
                optimizer.step()
    first = compare_runs(tmp_path / "a", tmp_path / "b").first_difference

    assert first is not None
    assert first.settings == (("lr", [pytest.approx(0.1)], [pytest.approx(0.2)]),)


def test_an_update_of_a_step_that_one_run_leaves_out_is_not_said_to_have_equal_gradients(
    tmp_path: Path,
) -> None:
    for run in "ab":
        torch.manual_seed(0)
        net, x, recorder = _linear(), torch.ones(4, 8), StepRecorder(tmp_path / run, (1, 2))
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        for step in (1, 2):
            optimizer.zero_grad()
            with recorder.step(net, optimizer, x) as loss_is:
                if (run, step) != ("b", 2):
                    loss_is(loss := net(x).square().mean())
                    loss.backward()
                    optimizer.step()
    comparison = compare_runs(tmp_path / "a", tmp_path / "b")

    first = comparison.first_difference
    assert first is not None
    assert (first.step, first.stage) == (2, "update")
    assert (
        "first in the gradients or the update: gradients could not be compared, the updates of "
        in comparison.sentence
    )
    assert "number of losses is 1 in the baseline and 0 in the candidate" in comparison.sentence


class _Samples(nn.Module):
    """Decodes so many samples, of which the first is the same however many there are."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.decoder, self.count = nn.Linear(8, 8), count

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [self.decoder(x + number) for number in range(self.count)]


def test_outputs_that_one_run_has_more_of_are_judged_alike_from_either_side(tmp_path: Path) -> None:
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(1))
    for count in (1, 2):
        torch.manual_seed(0)
        net = _Samples(count)
        with StepRecorder(tmp_path / f"{count}").step(
            net, torch.optim.SGD(net.parameters(), 0.1), x
        ) as loss_is:
            loss_is(sum(out.square().mean() for out in net(x)))
    runs = tmp_path / "1", tmp_path / "2"

    for comparison in (compare_runs(*runs), compare_runs(*runs[::-1])):
        assert comparison.first_difference is not None
        assert comparison.first_difference.stage == "loss"


def test_equal_outputs_in_coarse_numbers_do_not_make_losses_equal(tmp_path: Path) -> None:
    for run, offset, scale in (("a", 0.0, 1.0), ("b", 3e-3, 1.0), ("rounded", 0.0, 1 + 3e-3)):
        _loop(tmp_path / run, _linear, offset=offset, given=torch.tensor(scale).mul)
    comparison = compare_runs(tmp_path / "a", tmp_path / "b", tolerance="bfloat16")
    rounded = compare_runs(tmp_path / "a", tmp_path / "rounded", tolerance="bfloat16")

    assert rounded.verdict == "same"
    assert comparison.first_difference is not None
    assert (comparison.first_difference.step, comparison.first_difference.stage) == (1, "loss")
    assert comparison.sentence.endswith("(tolerance 0.002)")


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "same"), (1.01, "different")])
@pytest.mark.parametrize("rounding", [1e-4, 1e-3])
def test_a_loss_that_is_wrong_by_a_hundredth_is_named_though_outputs_round(
    rounding: float, factor: float, verdict: str, precision: str, tmp_path: Path
) -> None:
    """Outputs that differ by a thousandth excuse no loss that differs by ten times as much."""
    batch, labels = torch.randn(64, 16), torch.arange(64) % 4
    for run, scale, wrong in (("a", 1.0, 1.0), ("b", 1 + rounding, factor)):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
        optimizer = torch.optim.SGD(net.parameters(), 1e-3)
        with StepRecorder(tmp_path / run, 1).step(net, optimizer, (batch, labels)) as loss_is:
            output = net[2](net[1](net[0](batch) * scale))
            loss = nn.functional.cross_entropy(output, labels)
            loss_is(loss * wrong)
            loss.backward()
            optimizer.step()
    comparison = compare_runs(tmp_path / "a", tmp_path / "b", tolerance=precision)
    first = comparison.first_difference

    assert comparison.verdict == verdict
    assert (first and first.stage) == (None if verdict == "same" else "loss")
    if first:  # what outputs explain is allowed, and said
        allowed = 0.002 + 3 * rounding
        said = re.search(r"\(tolerance (.+)\)$", comparison.sentence)
        assert said
        assert float(said.group(1)) == pytest.approx(allowed, rel=0.25)


@pytest.mark.parametrize("differs_in", ["forward", "update"])
def test_a_step_that_diverges_takes_at_most_twelve_lines(differs_in: str, tmp_path: Path) -> None:
    def layers(is_other: bool) -> nn.Module:
        activation = nn.GELU("tanh" if is_other else "none")
        return nn.Sequential(nn.Linear(8, 8), activation, nn.Linear(8, 8), nn.Linear(8, 8))

    is_forward = differs_in == "forward"
    a: dict[str, Any] = {"net": lambda: layers(False)}
    b: dict[str, Any] = {"net": lambda: layers(is_forward), "adam": not is_forward}
    comparison = _compared(tmp_path, a, b)
    lines = str(comparison).splitlines()

    assert comparison.first_difference is not None
    assert comparison.first_difference.stage == differs_in
    assert len(lines) <= 12, lines
    assert any(line.startswith("  downstream: loss ") for line in lines) == is_forward


def test_a_weight_that_one_chain_alone_has_is_counted(tmp_path: Path) -> None:
    def extended() -> nn.Module:
        net = _linear()
        net.register_parameter("extra", nn.Parameter(torch.ones(3)))
        return net

    comparison = _compared(tmp_path, {"net": _linear}, {"net": extended})

    assert (comparison.verdict, _only_in_one(comparison)) == ("same", ((), ("extra",)))
    assert "only in the candidate: 1 tensor (extra)" in str(comparison)


class _Normed(nn.Module):
    """Normalizes a batch many times, always to the same root mean square."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.norm, self.times = nn.LayerNorm(8), times

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for time in range(self.times):
            x = self.norm(x + torch.linspace(0, 1 + time, 8))
        return x


@pytest.mark.slow
def test_memory_grows_with_the_calls_of_a_step_and_not_with_their_square(tmp_path: Path) -> None:
    run = _loop(tmp_path / "a", lambda: _Normed(600), (1,), batches=(torch.randn(4, 8),))
    with memory_below(20e6):  # was 420e6
        comparison = compare_runs(run, run)

    assert comparison.output_statistics is not None
    assert len(comparison.output_statistics.shown.pair.calls.pairs) == 601
