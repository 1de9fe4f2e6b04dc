"""Names of two runs, matched: never wrongly, and nearly all of them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from mindsummary_lightning import SummaryRecord, compare_runs
from mindsummary_lightning.porting.comparison.matching.given_names import read_names
from mindsummary_lightning.porting.comparison.matching.match import match_names
from mindsummary_lightning.porting.comparison.matching.names import equal_names
from mindsummary_lightning.porting.comparison.matching.tensor_names import TensorName
from tests.porting.comparison.naming_worlds import WORLDS, counts
from tests.support import memory_below

# Of all pairs the least share that must be found, by what differs beside the names. 0 may be wrong.
SHARES = {"": 0.9995, "rate": 0.996, "optimizer": 0.995, "weights": 0.97}


@pytest.mark.slow
@pytest.mark.parametrize("change", SHARES)
def test_no_name_is_matched_wrongly_in_36_worlds_and_nearly_all_are_matched(change: str) -> None:
    found = counts(change)

    assert {name: row for name, row in found.items() if row[2]} == {}
    pairs, right, _ = (sum(column) for column in zip(*found.values(), strict=True))
    assert (len(WORLDS), right >= SHARES[change] * pairs) == (36, True), (right, pairs)


def _blocks_that_begin_with_norms() -> tuple[list[TensorName], list[TensorName]]:
    """Two norms and a dense layer in each of six blocks; the second library makes the norms of a
    block first.
    """
    random, a, b = np.random.default_rng(3), list[TensorName](), list[TensorName]()
    for block in range(6):
        first = [
            tuple(random.normal(begin, 1e-3 if begin else 1.0, 3)) for begin in (1.0, 0.0, 1.0)
        ]
        for tensors, names in (
            (a, (f"h.{block}.ln_1.weight", f"h.{block}.fc.weight", f"h.{block}.ln_2.weight")),
            (
                b,
                (
                    f"blocks.{block}.norm1.gamma",
                    f"blocks.{block}.dense.weight",
                    f"blocks.{block}.norm2.gamma",
                ),
            ),
        ):
            rows = [TensorName(*row) for row in zip(names, (32, 4096, 32), first, strict=True)]
            tensors += rows if tensors is a else [rows[2], rows[0], rows[1]]
    return a, b


@pytest.mark.parametrize("has_values", [True, False])
def test_norms_that_a_library_makes_before_the_rest_of_a_block_are_paired(has_values: bool) -> None:
    sides = _blocks_that_begin_with_norms()
    if not has_values:
        sides = tuple([tensor._replace(first=()) for tensor in side] for side in sides)  # type: ignore[assignment]
    words = {"h": "blocks", "ln_1": "norm1", "fc": "dense", "ln_2": "norm2"}

    pairs = {pair.a: pair.b for pair in match_names(*sides).pairs}

    assert len(pairs) == 18
    for one, other in pairs.items():
        assert [words.get(word, word) for word in one.split(".")][:3] == other.split(".")[:3]


def test_norms_that_are_made_first_are_not_paired_across_the_blocks_of_a_compiled_list() -> None:
    world = WORLDS["llama, compiled"]
    a, b = world.sides("rate")
    members = [re.findall(r"^\D*\d*", tensor.name) for tensor in b]
    order = sorted(
        range(len(b)), key=lambda at: (members.index(members[at]), "norm" not in b[at].name)
    )

    assert all(
        world.pairs[pair.a] == pair.b for pair in match_names(a, [b[at] for at in order]).pairs
    )


def test_norms_are_told_by_their_first_updates_where_neither_names_nor_order_say_it() -> None:
    firsts = np.random.default_rng(3).normal(1.0, 1e-3, (6, 3))
    a = [TensorName(f"n{at}.weight", 32, tuple(first)) for at, first in enumerate(firsts)]
    b = [TensorName(f"m{at}.gamma", 32, tuple(firsts[at])) for at in (3, 1, 5, 0, 2, 4)]
    bad = TensorName("n6.weight", 32, (np.nan,) * 3), TensorName("m6.gamma", 32, (np.nan,) * 3)

    pairs = match_names([bad[0], *a], [*b, bad[1]]).pairs
    assert {pair.a[1:2]: pair.b[1:2] for pair in pairs} == {str(at): str(at) for at in range(6)}


def test_a_layer_between_two_that_are_equally_near_is_left_alone() -> None:
    numbers = {"u": (-1.0, 1.0, 0.0), "x": (-1.0001, 1.0, 0.0), "y": (-1.0, 1.0001, 0.0)}
    u, x, y = (TensorName(f"{name}.weight", 256, first) for name, first in numbers.items())

    assert (match_names([u], [x, y]).pairs, match_names([x, y], [u]).pairs) == ((), ())


def test_layers_are_told_by_the_first_step_that_both_runs_recorded(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    tensors = {
        f"{layer}.{kind}": random.normal(size=n)
        for layer in "uv"
        for kind, n in (("weight", 256), ("bias", 16))
    }
    for run, begin, names in (("a", 1, {"u": "one", "v": "two"}), ("b", 5, {"v": "x", "u": "y"})):
        with SummaryRecord(tmp_path / run) as record:
            for step in range(begin, 9):
                record.add_value("scalar", "loss/auto", 1.0 / step)
                for layer, kind in (
                    (layer, kind) for layer in names for kind in ("weight", "bias")
                ):
                    tensor = (tensors[f"{layer}.{kind}"] * 0.9**step).astype(np.float32)
                    record.add_value("histogram", f"{names[layer]}.{kind}/auto", tensor)
                if step == 1:
                    record.add_value("histogram", "old/auto", np.ones(99, np.float32))
                record.record(step)

    comparison = compare_runs(tmp_path / "a", tmp_path / "b")

    assert comparison.matched_by_value == (("one.weight", "y.weight"), ("two.weight", "x.weight"))
    assert (comparison.verdict, comparison.compared.tensors, comparison.matched_by_position) == (
        "same",
        4,
        (),
    )


def test_layers_of_other_members_of_equal_lists_are_no_pair() -> None:
    parts = ("in.weight", "out.weight")
    a = [
        TensorName(f"h.{block}.{part}", 64)
        for block in range(3)
        for part in (*parts, f"x{block}.bias")
    ]
    b = [
        TensorName(f"layers.{block}.{part}", 64)
        for block in range(3)
        for part in ("u.weight", "v.weight", "y.bias")
    ]

    for pair in match_names(a, b[1:] + b[:1]).pairs:
        assert pair.a.split(".")[1] == pair.b.split(".")[1]


@pytest.mark.parametrize(
    "name", ["resnet18 mindcv", "bert", "lstm", "vgg", "unet in fsdp", "resnet50 from one"]
)
def test_names_are_matched_by_their_order_where_no_number_was_recorded(name: str) -> None:
    world = WORLDS[name]

    a, b = world.sides(values=False)

    assert {pair.a: pair.b for pair in match_names(a, b).pairs} == world.pairs
    assert {pair.b: pair.a for pair in match_names(b, a).pairs} == world.pairs


def test_a_fused_weight_is_left_alone() -> None:
    world = WORLDS["gpt, fused"]

    match = match_names(*world.sides())

    assert {*match.unmatched_a} == {name for name, _ in world.alone_a}
    assert {*match.unmatched_b} == {name for name, _ in world.alone_b}


def test_projections_in_another_order_are_told_apart_by_their_numbers_and_left_alone_without() -> (
    None
):
    world = WORLDS["bert, other order"]

    with_numbers, without = (
        match_names(*world.sides(values=has_values)) for has_values in (True, False)
    )

    assert {pair.a: pair.b for pair in with_numbers.pairs} == world.pairs
    assert {name for name in world.pairs if ".self." in name} <= {*without.unmatched_a}


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (["_orig_mod.conv.weight", "_orig_mod.fc.weight"], ["conv.weight", "fc.weight"]),
        (["module.bn.gamma", "module.bn.beta"], ["bn.weight", "bn.bias"]),
        (
            ["network._backbone.bn.moving_mean", "network._backbone.fc.bias"],
            ["bn.running_mean", "fc.bias"],
        ),
        (
            ["layers.0._fsdp_wrapped_module.fc.beta.gradient", "fc.beta", "fc.gamma.gradient"],
            ["layers.0.fc.bias.gradient", "fc.bias", "fc.weight.gradient"],
        ),
        (["net.backbone.emb.embedding_table", "net.backbone.act.w"], ["emb.weight", "act.weight"]),
    ],
)
def test_names_are_the_same_without_what_all_begin_with_and_in_the_words_of_both(
    a: list[str], b: list[str]
) -> None:
    assert equal_names(a, b) == [*zip(a, b, strict=True)]


@pytest.mark.parametrize(
    "names",
    [
        ["x.beta", "x.bias"],
        ["out", "model.out"],
        ["model.0.weight", "backbone.0.weight"],
        ["0.w", "1.w", "1.0.w"],
    ],
)
def test_a_run_is_matched_with_itself_whatever_its_names_are(names: list[str]) -> None:
    assert equal_names(names, names) == [(name, name) for name in names]
    assert [
        pair[:2] for pair in match_names(*[[TensorName(name, 4) for name in names]] * 2).pairs
    ] == [(name, name) for name in names]


def test_one_word_of_two_wrappers_is_not_dropped_from_names_that_do_not_share_it() -> None:
    assert equal_names(
        ["encoder.fc.weight", "head.weight"], ["decoder.fc.weight", "head.weight"]
    ) == [("head.weight", "head.weight")]


def test_what_the_user_says_decides_and_no_name_is_used_twice() -> None:
    a, b = [TensorName("x", 4), TensorName("y", 4)], [TensorName("x", 4), TensorName("y", 4)]

    match = match_names(a, b, {"x": "y"})

    assert [pair[:3] for pair in match.pairs] == [("x", "y", "given")]
    assert (match.unmatched_a, match.unmatched_b) == (("y",), ("x",))
    a = [
        TensorName(f"{layer}.{kind}", 4)
        for kind in ("weight", "bias", "running_mean")
        for layer in ("one", "two")
    ]
    b = [TensorName(f"both.{kind}", 4) for kind in ("weight", "bias", "running_mean")]
    match = match_names(a, b, {"two.bias": "both.bias", "one.weight": "both.weight"})
    assert [pair[:2] for pair in match.pairs] == [
        *zip(("one.weight", "two.bias", "one.running_mean"), (x.name for x in b), strict=True)
    ]


def test_equal_names_of_other_sizes_are_no_pair() -> None:
    match = match_names([TensorName("w", 4)], [TensorName("w", 6)])

    assert (match.pairs, match.unmatched_a, match.unmatched_b) == ((), ("w",), ("w",))


def test_a_map_is_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "map").write_text(
        "# names\nfc.weight end_point.weight  # the last layer\n\nfc.bias end_point.bias\n"
    )

    assert read_names(tmp_path / "map") == {
        "fc.weight": "end_point.weight",
        "fc.bias": "end_point.bias",
    }


def test_a_map_may_begin_with_a_mark_of_an_editor(tmp_path: Path) -> None:
    (tmp_path / "names").write_text("gamma weight\n", encoding="utf-8-sig")

    assert read_names(tmp_path / "names") == {"gamma": "weight"}


def test_a_line_of_a_map_that_is_no_pair_is_named(tmp_path: Path) -> None:
    (tmp_path / "map").write_text("a b\nc\n")

    with pytest.raises(
        ValueError, match=r"line 2 of .*map must be a name in the baseline.* got 'c'"
    ):
        read_names(tmp_path / "map")


def test_a_network_in_another_may_have_a_parameter_of_its_own() -> None:
    names = ["bias", "gru.bias_hh_l0", "cell.bias_hh"]
    match = match_names(
        [TensorName(x, 12) for x in names], [TensorName(f"model.{x}", 12) for x in names]
    )

    assert [(pair.a, pair.b, pair.rule) for pair in match.pairs] == [
        (x, f"model.{x}", "name") for x in names
    ]


@pytest.mark.slow
def test_memory_grows_with_the_number_of_experts_and_not_with_its_square() -> None:
    numbers = np.sort(np.random.default_rng(0).normal(size=(1500, 3)), axis=1)[
        :, [0, 2, 1]
    ].tolist()
    a, b = (
        [
            TensorName(name.format(*divmod(at, 50)), 1024, tuple(first))
            for at, first in enumerate(numbers)
        ]
        for name in ("layers.{}.mlp.experts.{}.w1.weight", "blocks.{}.moe.e{}.gate.weight")
    )
    with memory_below(20e6):  # was 107e6
        match = match_names(a, b)

    assert [pair.b for pair in match.pairs] == [tensor.name for tensor in b]
