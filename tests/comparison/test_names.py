"""Names of two runs, matched: never wrongly, and nearly all of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mindsummary_lightning import carried_weights
from mindsummary_lightning.comparison.names import TensorName, match_names, plain_name, read_names
from tests.comparison.naming_worlds import WORLDS, World


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS.keys())
def test_no_name_is_matched_wrongly(world: World) -> None:
    match = match_names(world.a, world.b)

    assert [pair for pair in match.pairs if world.pairs.get(pair.a) != pair.b] == []


def test_nearly_all_names_of_all_worlds_are_matched() -> None:
    shares = {
        name: len(match_names(world.a, world.b).pairs) / len(world.pairs)
        for name, world in WORLDS.items()
        if name != "swapped_projections"  # a guess that could be wrong is not made
    }

    assert {name: share for name, share in shares.items() if share < 0.95} == {}


def test_a_fused_weight_is_left_alone() -> None:
    world = WORLDS["gpt_with_fused_attention"]
    match = match_names(world.a, world.b)

    assert {*match.unmatched_a, *match.unmatched_b} == world.alone


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("_orig_mod.conv.weight", "conv.weight"),
        ("module.bn.gamma", "bn.weight"),
        ("network._backbone.bn.moving_mean", "bn.running_mean"),
        ("layers.0._fsdp_wrapped_module.fc.beta.gradient", "layers.0.fc.bias.gradient"),
        ("emb.embedding_table", "emb.weight"),
        ("model_head.weight", "model_head.weight"),
    ],
)
def test_a_plain_name_has_no_wrapper_and_pytorchs_words(name: str, plain: str) -> None:
    assert plain_name(name) == plain


def test_what_the_user_says_decides_and_no_name_is_used_twice() -> None:
    a, b = [TensorName("x", 4), TensorName("y", 4)], [TensorName("x", 4), TensorName("y", 4)]

    match = match_names(a, b, {"x": "y"})

    assert [pair[:3] for pair in match.pairs] == [("x", "y", "map")]
    assert (match.unmatched_a, match.unmatched_b) == (("y",), ("x",))


def test_equal_names_of_other_sizes_are_no_pair() -> None:
    match = match_names([TensorName("w", 4)], [TensorName("w", 6)])

    assert (match.pairs, match.unmatched_a, match.unmatched_b) == ((), ("w",), ("w",))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"z": "y"}, "the first run has no tensor 'z'"),
        ({"x": "z"}, "second run has no"),
        ({"x": "y", "y": "y"}, "one partner"),
    ],
)
def test_a_map_that_does_not_fit_is_refused(given: dict[str, str], reason: str) -> None:
    tensors = [TensorName("x"), TensorName("y")]

    with pytest.raises(ValueError, match=reason):
        match_names(tensors, tensors, given)


def test_a_map_is_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "map").write_text("# names\nfc.weight end_point.weight  # the last layer\n\nfc.bias end_point.bias\n")

    assert read_names(tmp_path / "map") == {"fc.weight": "end_point.weight", "fc.bias": "end_point.bias"}


def test_a_map_may_begin_with_a_mark_of_an_editor(tmp_path: Path) -> None:
    (tmp_path / "names").write_text("gamma weight\n", encoding="utf-8-sig")

    assert read_names(tmp_path / "names") == {"gamma": "weight"}


def test_a_line_of_a_map_that_is_no_pair_is_named(tmp_path: Path) -> None:
    (tmp_path / "map").write_text("a b\nc\n")

    with pytest.raises(ValueError, match=r"line 2 of .*map must be a name of the first run.* not 'c'"):
        read_names(tmp_path / "map")


def test_weights_are_carried_in_both_directions() -> None:
    mindspore = {"conv.weight": np.ones((2, 1, 3, 3)), "bn.gamma": np.full(2, 2.0), "bn.moving_mean": np.full(2, 3.0)}
    torch = {"bn.weight": np.zeros(2), "bn.running_mean": np.zeros(2), "conv.weight": np.zeros((2, 1, 3, 3))}

    there = carried_weights(mindspore, {**torch, "bn.num_batches_tracked": np.zeros(())})

    assert list(there) == ["bn.weight", "bn.running_mean", "conv.weight"]
    assert there["bn.running_mean"][0] == 3.0
    assert {name: array.tolist() for name, array in carried_weights(there, mindspore).items()} == {
        name: array.tolist() for name, array in mindspore.items()
    }


def test_a_transposed_weight_is_not_carried_silently() -> None:
    with pytest.raises(ValueError, match=r"'fc.weight' has shape \(2, 3\), not \(3, 2\); transpose it yourself"):
        carried_weights({"fc.weight": np.ones((2, 3))}, {"fc.weight": np.ones((3, 2))})
