"""Gradients and their norm, against numpy."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

from mindsummary_lightning.collection.gradients import GradientCollector, total_norm
from mindsummary_lightning.collection.parameter_selection import NamedParameter
from mindsummary_lightning.collection.sharding import groups_that_share, is_sharded, largest_shard
from mindsummary_lightning.collection.step_values import StepValues
from mindsummary_lightning.values import Histogram


def test_parameters_without_a_gradient_are_passed_over() -> None:
    with_gradient, without = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    with_gradient.sum().backward()
    selected = [NamedParameter("without", without), NamedParameter("with", with_gradient)]
    collector = GradientCollector()

    collector.take(0, [without, with_gradient], selected)
    collector.take(1, [without], selected)
    values = StepValues()
    collector.move_into(values)

    assert [tag for tag, _ in values.drain()] == ["with.gradient", "gradient_norm"]


def test_of_several_steps_in_a_batch_the_last_counts_with_its_scale_taken_out() -> None:
    weight, other = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(1))
    scalar = nn.Parameter(torch.tensor(1.0))
    selected = [NamedParameter(name, each) for name, each in (("w", weight), ("s", scalar))]
    collector = GradientCollector()

    def take(optimizer: int, gradients: dict[nn.Parameter, float], scale: float | None) -> None:
        for parameter, gradient in gradients.items():
            parameter.grad = torch.full_like(parameter, gradient)
        factor = None if scale is None else torch.tensor(scale)
        collector.take(optimizer, [*gradients], selected, factor)

    def moved() -> dict[str, Any]:
        values = StepValues()
        collector.move_into(values)
        assert values.problems == []
        return {
            tag: (value.min, value.max, value.count) if isinstance(value, Histogram) else value
            for tag, value in values.drain()
        }

    take(0, {weight: 5.0, other: 7.0}, None)
    take(1, {scalar: -6.0}, None)
    take(0, {weight: 6.0, other: 12.0}, 3.0)
    assert moved() == {
        "w.gradient": (2.0, 2.0, 2),
        "s.gradient": (-6.0, -6.0, 1),
        "gradient_norm": pytest.approx((2 * 2**2 + 4**2 + 6**2) ** 0.5),
    }
    assert moved() == {}

    take(0, {weight: 5.0}, None)
    collector.clear()
    assert moved() == {}


def test_the_norm_is_that_of_all_gradients_laid_end_to_end() -> None:
    gradients = [torch.randn(3, 4), torch.randn(5), torch.randn(1, 1, 2)]
    laid = np.concatenate([gradient.numpy().reshape(-1) for gradient in gradients])

    np.testing.assert_allclose(float(total_norm(gradients)), np.linalg.norm(laid), rtol=1e-6)


def test_the_norm_of_half_precision_gradients_does_not_overflow() -> None:
    gradients = [
        torch.full((4,), 60000.0, dtype=torch.float16),
        torch.ones(3, dtype=torch.bfloat16),
    ]

    np.testing.assert_allclose(float(total_norm(gradients)), 120000.0, rtol=1e-3)


def test_the_norm_of_complex_gradients_takes_both_parts() -> None:
    gradients = [
        torch.full((4,), 3 + 4j),
        torch.ones(2, dtype=torch.complex128),
        torch.ones(3, dtype=torch.float64),
    ]

    np.testing.assert_allclose(float(total_norm(gradients)), np.sqrt(4 * 25 + 2 + 3), rtol=1e-6)


@pytest.fixture
def mesh() -> Iterator[DeviceMesh]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


def test_sharded_gradients_enter_the_norm_with_whole_ones(mesh: DeviceMesh) -> None:
    sharded = distribute_tensor(torch.tensor([[3.0, 4.0], [0.0, 12.0]]), mesh, [Shard(0)])
    replicated = distribute_tensor(torch.tensor([1.0, 2.0]), mesh, [Replicate()])
    summands = DTensor.from_local(torch.ones(2), mesh, [Partial()])

    total = total_norm([sharded, torch.tensor([2.0]), replicated])
    assert float(total) == pytest.approx(178**0.5)
    assert not isinstance(total, DTensor)
    assert [is_sharded(each) for each in (sharded, replicated)] == [True, False]
    assert (len(groups_that_share(sharded)), groups_that_share(replicated)) == (1, ())
    with pytest.raises(TypeError, match="sharded or replicated"):
        groups_that_share(summands)
    with pytest.raises(TypeError, match="sharded or replicated"):
        groups_that_share(SimpleNamespace(placements=(Shard(0), Partial())))


def test_the_largest_shard_is_of_the_rows_that_remain_on_no_other_rank() -> None:
    def shared(*placements: Any) -> Any:
        sizes = SimpleNamespace(size=lambda dimension: (2, 4)[dimension])
        return SimpleNamespace(shape=(5, 7, 3), placements=placements, device_mesh=sizes)

    assert largest_shard(shared(Shard(0), Replicate())) == 3 * 7 * 3
    assert largest_shard(shared(Shard(0), Shard(1))) == 3 * 2 * 3
    assert largest_shard(shared(Replicate(), Shard(0))) == 2 * 7 * 3


def test_of_a_sparse_gradient_the_stored_elements_enter_the_norm() -> None:
    twice = torch.sparse_coo_tensor([[1, 1, 3]], [[1.0, 2.0], [2.0, 2.0], [0.0, 12.0]], (5, 2))
    rows = torch.tensor([[0.0, 3.0], [4.0, 0.0]]).to_sparse_csr()

    assert float(total_norm([twice])) == 13.0
    assert float(total_norm([rows])) == 5.0


def test_the_norm_of_norms_is_the_norm_of_all() -> None:
    first, second = [torch.randn(3)], [torch.randn(4), torch.randn(2)]
    parts = total_norm([total_norm(first), total_norm(second)])

    np.testing.assert_allclose(float(parts), float(total_norm(first + second)), rtol=1e-6)
