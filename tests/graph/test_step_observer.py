"""The observer leaves nothing behind and never disturbs what it observes, also when it fails."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import sys
import threading
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from mindsummary_lightning import SummaryReader, tensor_summary
from mindsummary_lightning.collection import operator_buffer
from mindsummary_lightning.graph import module_calls, observation, step_observer
from mindsummary_lightning.graph.step_observer import StepObserver
from tests.graph.reader_rules import sources
from tests.graph.training import skip_where_result_is_unseen, train
from tests.graph.zoo import ZOO


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
        return self.layer(batch).square().mean()


def is_clean(module: nn.Module) -> bool:
    return (
        nn.Module.__call__.__name__ == "_wrapped_call_impl"
        and torch._C._len_torch_function_stack() == 0
        and "training_step" not in vars(module)
    )


def observed(net: Any) -> StepObserver:
    """What observed a step of a network."""
    observer = StepObserver(net)
    observer.arm()
    net.training_step(torch.ones(2, 4), 0)
    return observer


def test_only_the_first_call_is_observed() -> None:
    net = Net()
    observer = observed(net)
    first = observer.graph
    net.training_step(torch.ones(2, 4), 1)

    assert first is not None
    assert observer.graph is first
    assert is_clean(net)


def test_a_step_that_is_observed_again_has_its_own_losses_and_graph() -> None:
    class Losing(Net):
        def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
            loss = nn.functional.mse_loss(self.layer(batch), batch)
            return loss if batch_idx == 0 else loss.exp()

    net = Losing()
    observer = observed(net)
    first = observer.graph
    assert [*observer.losses.values()] == ["mse_loss"]
    observer.arm()
    net.training_step(torch.ones(2, 4), 1)

    assert [*observer.losses.values()] == ["mse_loss"]
    assert [len(graph.nodes) for graph in (first, observer.graph) if graph is not None] == [2, 3]
    assert is_clean(net)


def test_lazy_modules_are_drawn_without_the_first_values_of_their_parameters() -> None:
    lazy, ready = Net(), Net()
    lazy.layer = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d())  # type: ignore[assignment]
    ready.layer = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))  # type: ignore[assignment]
    graphs = [observed(net).graph for net in (lazy, ready)]

    assert graphs[0] is not None
    types = [[node.op_type for node in graph.nodes] for graph in graphs]
    names = [[parameter.name for parameter in graph.parameters] for graph in graphs]
    assert types[0] == types[1]
    assert names[0] == names[1]


def test_a_call_that_never_comes_leaves_nothing() -> None:
    net = Net()
    observer = StepObserver(net)
    observer.arm()
    observer.disarm()

    assert is_clean(net)
    assert observer.graph is None


def test_a_method_of_the_instance_is_put_back() -> None:
    net = Net()
    own = net.training_step = lambda batch, batch_idx: net.layer(batch).sum()  # type: ignore[method-assign]
    observer = observed(net)

    assert vars(net)["training_step"] is own
    assert observer.graph is not None


def test_a_temporary_tensor_is_freed_within_the_observed_step() -> None:
    class Temporary(Net):
        def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
            with torch.no_grad():
                hidden = self.layer(batch)
                gone.append(weakref.ref(hidden))
                hidden = hidden * 2
                gone.append(weakref.ref(hidden))
                del hidden
            alive.extend(reference() for reference in gone)
            return super().training_step(batch, batch_idx)

    gone: list[Any] = []
    alive: list[Any] = []
    net = Temporary()
    observer = StepObserver(net)
    observer.arm()
    gc.disable()  # reference counts alone free them
    try:
        net.training_step(torch.ones(2, 4), 0)
    finally:
        gc.enable()

    assert alive == [None, None]
    assert observer.graph is not None


def test_an_error_of_the_user_passes_and_leaves_nothing() -> None:
    class Failing(Net):
        def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
            super().training_step(batch, batch_idx)
            raise ValueError("of the user")

    net = Failing()
    observer = StepObserver(net)
    observer.arm()

    with pytest.raises(ValueError, match="of the user"):
        net.training_step(torch.ones(2, 4), 0)
    assert is_clean(net)
    assert (observer.graph, observer.error) == (None, None)


def operations_beside_a_thread(work: Callable[[nn.Module, torch.Tensor], object]) -> list[str]:
    """Types of the operations observed in a step that lets a thread do some work and
    waits for it.
    """

    class Threaded(Net):
        def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
            thread = threading.Thread(target=work, args=(self.layer, batch))
            thread.start()
            thread.join()
            return super().training_step(batch, batch_idx)

    return [node.op_type for node in observed(Threaded()).graph.nodes]  # type: ignore[union-attr]


def test_other_threads_are_not_observed() -> None:
    assert operations_beside_a_thread(lambda layer, batch: layer(batch).exp()) == [
        "Linear",
        "square",
        "mean",
    ]


def test_two_threads_whose_observations_overlap_leave_all_as_it_was() -> None:
    second_is_in, first_is_done = threading.Event(), threading.Event()

    class First(Net):
        def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
            second.start()
            assert second_is_in.wait(60)
            return super().training_step(batch, batch_idx)

    class Second(Net):
        def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
            second_is_in.set()
            assert first_is_done.wait(60)
            return super().training_step(batch, batch_idx)

    def observe(net: Net) -> None:
        observers.append(observed(net))

    observers: list[StepObserver] = []
    limit = sys.getrecursionlimit()
    second = threading.Thread(target=observe, args=(Second(),))
    observe(First())
    first_is_done.set()
    second.join()

    for observer in observers:
        assert [node.op_type for node in observer.graph.nodes] == ["Linear", "square", "mean"]  # type: ignore[union-attr]
    assert is_clean(Net())
    assert sys.getrecursionlimit() == limit


def test_a_wrapper_that_a_step_puts_around_the_call_of_modules_may_stay() -> None:
    class Wrapping(Net):
        def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
            call = nn.Module.__call__
            nn.Module.__call__ = lambda module, *args: call(module, *args)  # type: ignore[method-assign]
            return super().training_step(batch, batch_idx)

    own, graphs = nn.Module.__call__, []
    try:
        for net in (Wrapping(), Net(), Net()):
            observer = StepObserver(net)
            observer.arm()
            net.training_step(torch.ones(2, 4), 0)
            graphs.append([node.op_type for node in observer.graph.nodes])  # type: ignore[union-attr]
    finally:
        nn.Module.__call__ = own  # type: ignore[method-assign]

    assert graphs == [["Linear", "square", "mean"]] * 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_process_that_a_step_forks_is_not_observed() -> None:
    class Forking(Net):
        def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
            child = os.fork()
            if child == 0:
                was_clean = is_clean(Net()) and sys.getrecursionlimit() == limit
                graph = observed(Net()).graph  # the child may observe a step of its own
                is_observed = graph is not None and graph.nodes[0].scope == "layer-Linear"
                os._exit(not (was_clean and is_observed and sys.getrecursionlimit() == limit))
            exits.append(os.waitpid(child, 0)[1])
            return super().training_step(batch, batch_idx)

    exits: list[int] = []
    net, limit = Forking(), sys.getrecursionlimit()
    observer = StepObserver(net)
    observer.arm()
    net.training_step(torch.ones(2, 4), 0)

    assert exits == [0]
    assert [node.op_type for node in observer.graph.nodes] == ["Linear", "square", "mean"]  # type: ignore[union-attr]


def test_a_function_compiled_in_another_thread_is_not_observed() -> None:
    @torch.compile(backend="eager")
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    assert operations_beside_a_thread(lambda layer, batch: double(batch).exp()) == [
        "Linear",
        "square",
        "mean",
    ]


def test_a_compiled_function_is_a_node_with_its_sources() -> None:
    @torch.compile(backend="eager")
    def halved(x: torch.Tensor) -> torch.Tensor:
        return x / 2

    class Halving(Net):
        def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
            return halved(self.layer(batch)).mean()

    skip_where_result_is_unseen(halved)
    graph = observed(Halving()).graph

    assert graph is not None
    assert [(node.op_type, sources(graph, node)) for node in graph.nodes] == [
        ("Linear", ["batch", "layer.weight", "layer.bias"]),
        ("halved", ["Linear"]),
        ("mean", ["halved"]),
    ]


def test_the_order_in_which_a_backward_pass_sums_stays() -> None:
    class Written(Net):
        def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
            hidden = self.layer(batch)
            with torch._C.DisableTorchFunction():
                view = hidden[:60]
            # from here on autograd makes the view's function anew, when it is needed
            hidden.mul_(0.7)
            view.detach()
            parts = [hidden * 0.3, hidden * 0.1, view * 0.9]
            return sum(part.sin().sum() for part in parts)  # type: ignore[return-value]

    def gradient(is_observed: bool) -> torch.Tensor | None:
        torch.manual_seed(3)
        net, batch = Written(), torch.randn(64, 4)
        if is_observed:
            StepObserver(net).arm()
        net.training_step(batch, 0).backward()
        return net.layer.weight.grad

    assert torch.equal(gradient(True), gradient(False))  # type: ignore[arg-type]


@pytest.mark.parametrize("is_compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("use_reentrant", [False, True])
def test_a_block_that_a_backward_pass_computes_again_is_there_once(
    is_compiled: bool, use_reentrant: bool
) -> None:
    class Checkpointed(Net):
        def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
            hidden = checkpoint(lambda x: self.layer(x).exp(), batch, use_reentrant=use_reentrant)
            loss = hidden.square().mean()
            loss.backward()
            return loss.detach()

    net = Checkpointed()
    block = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Tanh())
    net.layer = torch.compile(block, backend="eager") if is_compiled else block  # type: ignore[assignment]
    observer = StepObserver(net)
    observer.arm()
    net.training_step(torch.ones(2, 4, requires_grad=True), 0)

    assert is_clean(net)
    in_block = ["Sequential"] if is_compiled else ["Linear", "Tanh", "Tanh"]
    assert [node.op_type for node in observer.graph.nodes] == [
        *in_block,
        "exp",
        "square",
        "mean",
        "detach",
    ]


def test_a_mode_of_the_user_is_left_as_it_is() -> None:
    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return func(*args, **(kwargs or {}))

    modes = [Mode(), Mode()]

    class Entering(Net):
        def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
            for mode in modes:
                mode.__enter__()  # and leaves it later
            return super().training_step(batch, batch_idx)

    net = Entering()
    observer = observed(net)

    assert torch.overrides._get_current_function_mode_stack() == modes
    for mode in reversed(modes):
        mode.__exit__(None, None, None)
    assert observer.graph is not None
    assert is_clean(net)


def test_fused_kernels_stay_fused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: list[int] = []
    fused = torch._transformer_encoder_layer_fwd
    monkeypatch.setattr(
        torch, "_transformer_encoder_layer_fwd", lambda *args: calls.append(1) or fused(*args)
    )  # type: ignore[func-returns-value]

    train(ZOO["fused-kernels"], None)
    plain = len(calls)
    train(ZOO["fused-kernels"], tmp_path)

    assert plain > 0
    assert len(calls) == 2 * plain


def fails(*_: Any, **__: Any) -> Any:
    raise RuntimeError("injected\nby a test")


PLACES = [
    (step_observer, "Observation"),
    (observation, "named_tensors"),
    (observation.Observation, "add_operation"),
    (observation.Observation, "enter_module"),
    (observation.Observation, "leave_module"),
    (observation.Observation, "finish"),
    (observation, "graph_type"),
    (observation.Observation, "_find"),
    (module_calls, "_is_one_node"),
    (module_calls.ModuleCalls, "_install"),
    (step_observer, "_named_arguments"),
]


@pytest.mark.parametrize(("where", "name"), PLACES, ids=[name for _, name in PLACES])
def test_whatever_fails_in_the_observer_a_step_gives_what_it_gives_alone(
    where: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = Net()
    alone = net.training_step(torch.ones(2, 4), 0)
    monkeypatch.setattr(where, name, fails)
    observer = StepObserver(net)
    observer.arm()

    assert torch.equal(net.training_step(torch.ones(2, 4), 0), alone)
    assert observer.graph is None
    assert repr(observer.error) == repr(RuntimeError("injected\nby a test"))
    assert is_clean(net)


@pytest.mark.slow
@pytest.mark.parametrize(("where", "name"), PLACES, ids=[name for _, name in PLACES])
def test_whatever_fails_in_the_observer_the_training_continues_and_one_line_is_logged(
    where: Any,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    plain = train(ZOO["readme-autoencoder"], None)
    monkeypatch.setattr(where, name, fails)

    with caplog.at_level(logging.INFO, "mindsummary_lightning"):
        observed = train(ZOO["readme-autoencoder"], tmp_path)

    assert observed.values() == plain.values()
    assert is_clean(observed.model)
    assert SummaryReader(tmp_path).graph() is None
    lines = [record.getMessage() for record in caplog.records if "graph" in record.getMessage()]
    assert lines == ["the computational graph is not recorded: RuntimeError: injected by a test"]


def test_a_summary_operator_leaves_no_operation_in_the_graph() -> None:
    class Summarized(Net):
        def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
            scores = self.layer(batch)
            tensor_summary("scores", scores)
            return scores.square().mean()

    def operations(net: Net) -> list[str]:
        return [node.op_type for node in observed(net).graph.nodes]  # type: ignore[union-attr]

    buffer = operator_buffer.OperatorBuffer()
    operator_buffer.open_for(buffer)
    try:
        summarized = operations(Summarized())
    finally:
        operator_buffer.end_training(buffer)

    assert summarized == operations(Net())


class _Deep(nn.Module):
    def forward(self, x: torch.Tensor, levels: int) -> torch.Tensor:
        return self(x, levels - 1) if levels else x.exp()


def _observe(call: Callable[[torch.Tensor], torch.Tensor], is_observed: bool = True) -> None:
    class Calling(Net):
        def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
            return call(self.layer(batch)).sum()

    observer = StepObserver(net := Calling())
    if is_observed:
        observer.arm()
    net.training_step(torch.ones(2, 4), 0)
    assert (observer.graph is not None) == is_observed


def test_what_is_deep_enough_for_the_recursion_limit_is_so_in_an_observed_step() -> None:
    limit = sys.getrecursionlimit()
    deepest = 0  # how many calls a module takes is another number in each version of Python
    with contextlib.suppress(RecursionError):
        for deepest in range(10, limit, 10):
            _observe(partial(_Deep(), levels=deepest), is_observed=False)

    _observe(partial(_Deep(), levels=int(0.9 * deepest) - 10))

    assert sys.getrecursionlimit() == limit


def test_a_limit_that_the_user_sets_in_the_step_stays() -> None:
    limit = sys.getrecursionlimit()

    def sets(x: torch.Tensor) -> torch.Tensor:
        sys.setrecursionlimit(5000)
        return x.exp()

    try:
        _observe(sets)
        assert sys.getrecursionlimit() == 5000
    finally:
        sys.setrecursionlimit(limit)
