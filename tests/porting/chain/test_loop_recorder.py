"""A loop of one's own: its steps are recorded, and are those of a loop without us."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from mindsummary_lightning import SummaryReader
from mindsummary_lightning.porting.chain.loop_recorder import StepRecorder

X = torch.randn(5, 6, 4, generator=torch.Generator().manual_seed(1))
Y = torch.tensor([0, 1, 2, 0, 1, 2])


def train(recorder: StepRecorder | None, told: bool = True) -> tuple[nn.Module, list[float]]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(), nn.ReLU(inplace=True), nn.Linear(8, 3))
    optimizer = torch.optim.AdamW(net.parameters(), 0.1)
    losses = []
    for x in X:
        context: Any = contextlib.nullcontext(lambda loss: None)
        with (
            context
            if recorder is None
            else recorder.step(net, optimizer, {"x": x, "y": Y}) as loss_is
        ):
            loss = cross_entropy(net(x), Y)
            if told:
                loss_is(loss)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    return net, losses


@pytest.mark.parametrize(("steps", "recorded"), [(3, [1, 2, 3]), ((2, 5), [2, 5])])
def test_the_steps_that_are_asked_for_have_a_chain_and_the_training_is_the_same_to_the_bit(
    steps: Any, recorded: list[int], tmp_path: Path
) -> None:
    net, losses = train(StepRecorder(tmp_path, steps))
    plain, plain_losses = train(None)

    assert losses == plain_losses
    assert all(map(torch.equal, net.state_dict().values(), plain.state_dict().values()))
    assert not net._forward_hooks
    assert nn.Module.__call__ is nn.Module._wrapped_call_impl
    table = SummaryReader(tmp_path).output_statistics()
    assert table is not None
    assert table.steps.tolist() == recorded
    rows, values = table.rows_at(recorded[-1])
    assert dict.fromkeys(row.link for row in rows) == dict.fromkeys(
        ["weights", "data", "forward", "loss", "gradients", "settings", "update"]
    )
    loss = next(values[at] for at, row in enumerate(rows) if row.link == "loss")
    assert loss[table.columns.index("mean")] == pytest.approx(losses[recorded[-1] - 1])
    assert SummaryReader(tmp_path).scalars("loss/auto").steps.tolist() == recorded


def test_without_its_loss_a_step_has_the_other_rows(tmp_path: Path) -> None:
    train(StepRecorder(tmp_path, 1), told=False)

    table = SummaryReader(tmp_path).output_statistics()
    assert table is not None
    assert {row.link for row in table.rows} == {
        "weights",
        "data",
        "forward",
        "gradients",
        "settings",
        "update",
    }


def test_gradients_that_a_closure_computes_in_the_step_are_those_of_that_step(
    tmp_path: Path,
) -> None:
    net, recorder = nn.Linear(4, 3), StepRecorder(tmp_path)
    optimizer, norms = torch.optim.SGD(net.parameters(), 0.1), []

    def closure() -> Any:
        optimizer.zero_grad()
        loss = cross_entropy(net(X[0]), Y)
        loss.backward()
        return loss

    for _ in range(3):
        with recorder.step(net, optimizer, X[0]) as loss_is:
            loss_is(optimizer.step(closure))
        norms.append(float(net.weight.grad.norm()))

    table = SummaryReader(tmp_path).output_statistics()
    assert table is not None
    (place,) = [
        at for at, row in enumerate(table.rows) if (row.link, row.name) == ("gradients", "weight")
    ]
    rms = table.values[:, place, table.columns.index("rms")]
    assert (rms * 12**0.5).tolist() == pytest.approx(norms)


def test_a_step_that_raises_is_not_recorded_and_leaves_nothing_in_place(tmp_path: Path) -> None:
    net, recorder = nn.Linear(4, 3), StepRecorder(tmp_path)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with pytest.raises(ZeroDivisionError), recorder.step(net, optimizer, X[0]):
        1 / 0
    assert nn.Module.__call__ is nn.Module._wrapped_call_impl
    assert not optimizer._optimizer_step_pre_hooks
    with recorder.step(net, optimizer, X[0]) as loss_is:
        loss_is(net(X[0]).sum())

    table = SummaryReader(tmp_path).output_statistics()
    assert table is not None
    assert table.steps.tolist() == [2]


def _step(**arguments: Any) -> Callable[[Path], object]:
    net = nn.Linear(1, 1)
    given = {"network": net, "optimizer": torch.optim.SGD(net.parameters()), **arguments}
    return lambda path: StepRecorder(path).step(**given).__enter__()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda path: StepRecorder(path, 0), ValueError, "steps"),
        (lambda path: StepRecorder(path, "3"), TypeError, "steps"),
        (lambda path: StepRecorder(path, []), ValueError, "steps must name at least one step"),
        (
            lambda path: StepRecorder(path, range(3, 3)),
            ValueError,
            "steps must name at least one step",
        ),
        (lambda path: StepRecorder(path, (1, 0)), ValueError, "a step"),
        (_step(network=None), TypeError, "network must be a torch.nn.Module"),
        (_step(optimizer=[1]), TypeError, "optimizer must be a torch.optim.Optimizer"),
    ],
)
def test_a_bad_argument_is_refused_at_the_call(
    call: Callable[[Path], object], error: type[Exception], text: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=text):
        call(tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_step_in_compiled_code_is_refused_and_around_it_recorded(tmp_path: Path) -> None:
    if not hasattr(torch._C._dynamo.eval_frame, "get_eval_frame_callback"):
        pytest.skip("this PyTorch does not tell what compiles its frames")
    torch._dynamo.reset()
    net = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    recorder = StepRecorder(tmp_path)

    def step(x: torch.Tensor) -> None:
        with recorder.step(net, optimizer, x) as loss_is:
            loss = cross_entropy(forward(x), Y)
            loss_is(loss)
            loss.backward()
            optimizer.step()

    forward: Any = net
    with pytest.raises(RuntimeError, match=r"StepRecorder\.step must be called outside"):
        torch.compile(step, backend="eager")(X[0])
    forward = torch.compile(net, backend="eager")
    step(X[0])
    torch._dynamo.reset()

    assert SummaryReader(tmp_path).scalars("loss/auto").steps.tolist() == [1]
