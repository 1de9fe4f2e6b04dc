"""Which part of a checkpoint a network is: names, then shapes, then a refusal."""

from __future__ import annotations

import pytest
from torch import nn

from mindsummary_lightning.landscape.checkpoint_names import (
    canonical_names,
    moving_names,
    names_in_checkpoint,
)
from mindsummary_lightning.landscape.checkpoints import LandscapeCheckpointError
from tests.landscape import zoo


def found(module: nn.Module, trained: nn.Module, prefix: str | None = None) -> dict[str, str]:
    return names_in_checkpoint(module, trained.state_dict(), "x.ckpt", prefix)


def test_two_parts_that_could_be_the_network_are_listed_and_the_prefix_decides() -> None:
    with pytest.raises(
        LandscapeCheckpointError, match=r"Choose one with prefix=: 'teacher\.', 'student\.'$"
    ):
        found(zoo.small(), zoo.Distilled())
    for prefix in ("student", "student."):
        assert found(zoo.small(), zoo.Distilled(), prefix)["0.weight"] == "student.0.weight"


def test_shapes_decide_between_parts_of_the_same_names() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(3, 4), nn.Linear(4, 3)

    assert found(nn.Linear(4, 3), Two()) == {"weight": "b.weight", "bias": "b.bias"}


def test_the_beginning_of_a_larger_network_is_refused() -> None:
    with pytest.raises(
        LandscapeCheckpointError, match=r"it has 2 more tensors, such as '2\.weight'"
    ):
        found(zoo.small()[:1], zoo.small())


def test_the_beginning_of_a_part_is_refused_with_what_the_part_has_more() -> None:
    trained = nn.ModuleDict({"other": nn.Tanh(), "part": zoo.small(), "last": nn.Linear(9, 9)})

    with pytest.raises(
        LandscapeCheckpointError, match=r"it has 2 more tensors, such as 'part\.2\.weight'"
    ):
        found(zoo.small()[:1], trained)


class Parts(nn.Module):
    """Two parts that begin as the network does, the second longer; a third has another shape."""

    def __init__(self, *, has_third: bool = False) -> None:
        super().__init__()
        self.a = nn.Sequential(nn.Linear(3, 4))
        self.b = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
        if has_third:
            self.c = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2), nn.Linear(2, 5))


@pytest.mark.parametrize(
    ("has_third", "message"),
    [
        (False, r"it has no 'b\.2\.weight' \(2 of 6 tensors are missing\); its tensors are a\.0\."),
        (True, r"'c\.2\.weight' has shape \(5, 2\), but the network's tensor has \(2, 2\)$"),
    ],
)
def test_the_part_that_comes_nearest_is_named(has_third: bool, message: str) -> None:
    network = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2), nn.Linear(2, 2))

    with pytest.raises(
        LandscapeCheckpointError, match=rf"x\.ckpt is not a checkpoint of Sequential: {message}"
    ):
        found(network, Parts(has_third=has_third))


@pytest.mark.parametrize(
    ("prefix", "width", "message"),
    [
        (
            "nobody",
            8,
            r"it has no 'nobody\.0\.weight'.*\. Prefixes that fit: 'teacher\.', 'student\.'$",
        ),
        (
            "student",
            9,
            (
                r"'student\.0\.weight' has shape \(6, 8\), but the network's tensor has \(6, 9\)\. "
                r"Prefixes that fit: none$"
            ),
        ),
    ],
)
def test_a_prefix_of_something_else_is_refused_with_those_that_fit(
    prefix: str, width: int, message: str
) -> None:
    with pytest.raises(
        LandscapeCheckpointError,
        match=rf"prefix='{prefix}' does not select a Sequential.*{message}",
    ):
        found(zoo.small(width), zoo.Distilled(), prefix)


def test_compiled_parts_have_the_names_of_what_they_compile() -> None:
    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.ModuleDict({"_orig_mod": nn.Linear(2, 2)})  # as torch.compile nests it

    class Bare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(2, 2)

    assert found(Bare(), Wrapped()) == {
        "net.weight": "net._orig_mod.weight",
        "net.bias": "net._orig_mod.bias",
    }


def test_one_tensor_has_one_canonical_name() -> None:
    aliased, shared = zoo.Aliased(), zoo.SharedMemory()
    assert canonical_names(aliased)["net.0.weight"] == "first.weight"
    assert canonical_names(shared)["decoder.weight"] == "encoder.weight"
    assert "decoder.weight" not in moving_names(shared)
    norm = nn.BatchNorm1d(2)
    twice = canonical_names(nn.Sequential(norm, nn.Tanh(), norm))
    assert {name: twice[f"2.{name}"] for name in norm.state_dict()} == {
        name: f"0.{name}" for name in norm.state_dict()
    }
    for net in (nn.Linear(2, 2, device="meta"), zoo.SparseGraph(), nn.LazyBatchNorm1d()):
        assert len(set(canonical_names(net).values())) == len(canonical_names(net))


def test_parameters_that_are_weights_or_biases_and_have_fractions_move() -> None:
    assert moving_names(zoo.Spectral()) == ["weights", "head.weight", "head.bias"]
    assert moving_names(zoo.RunningMean()) == [
        *("net.0.weight", "net.0.bias", "net.2.weight", "net.2.bias")
    ]
