"""Defines every number by which a comparison decides, such as tolerances.

The table gives its value, bounded quantity, unit, source and test. A distance is relative: 0 for
equal tensors, about 1 for unrelated ones. The reference page ``docs/reference/comparison.md`` shows
this table.
"""

from __future__ import annotations

from typing import NamedTuple


class Bound(float):
    """A number of the tolerance table, used like a plain float.

    Attributes:
        bounds: what the number bounds.
        unit: its unit.
        source: where the value comes from.
        test: a test that covers it, as ``file::function`` below ``tests/porting/comparison``.
    """

    bounds: str
    unit: str
    source: str
    test: str

    def __new__(cls, value: float, *, bounds: str, unit: str, source: str, test: str) -> Bound:
        """Make a float with its unit, source and test."""
        bound = super().__new__(cls, value)
        bound.bounds, bound.unit = bounds, unit
        bound.source, bound.test = source, test
        return bound


class Tolerance(NamedTuple):
    """Distances up to which two runs are equal, for the coarser of their precisions.

    Attributes:
        name: ``float32``, ``bfloat16``, ``float16``, or the number that the user gave.
        loss: relative difference of two losses.
        tensor: distance of two histograms, see ``distances``.
        row: distance of two rows of output statistics, see ``row_distance``.
    """

    name: str
    loss: float
    tensor: float
    row: float

    @property
    def recorded_loss(self) -> float:
        """Return the tolerance of a loss in a step with output statistics.

        The smaller of loss and row.
        """
        return min(self.loss, self.row)


# Source: decision 52; five nets trained by MindSpore and PyTorch stay below.
TOLERANCES = {
    "float32": Tolerance("float32", loss=1e-5, tensor=3e-6, row=1e-6),
    "bfloat16": Tolerance("bfloat16", loss=2e-3, tensor=3e-2, row=2e-2),
    "float16": Tolerance("float16", loss=2e-3, tensor=3e-2, row=2e-2),
}

# Source: the number formats.
SPACINGS = {"bfloat16": 2.0**-7, "float16": 2.0**-10, "float32": 2.0**-23}
"""The distance from 1 to the next number in each precision, the lowest precision first."""

# Source: correct ports of 14 nets in half precision reached 1.01.
ZERO_GRADIENT_SPACINGS = 2
"""Size of a vector's gradient that is zero but for rounding, in half precision.

The unit is spacings of the precision, times the largest gradient of the step.
"""

# Source: each of two runs rounds its weight to the next number.
UPDATE_SPACINGS = 2
"""Distance of two updates that rounding explains, in spacings of the weight's precision."""

# ------------------------------------------------------------------ losses and histograms

LOSS_FLOOR = Bound(
    0.05,
    bounds="divisor of a loss distance from below: a loss near zero is mostly noise",
    unit="of the first loss",
    source="four nets: rounding reached 7.3e-6 without it, 6e-7 with it",
    test="test_distances.py::"
    "test_losses_differ_by_the_larger_one_and_infinitely_where_only_one_is_a_number",
)
SCALE_FLOOR = Bound(
    0.1,
    bounds="divisor of a tensor distance from below: a small bias rounds as large weights do",
    unit="of the upper quartile of the tensors' largest elements",
    source="a convention: five overfitted nets do not depend on it",
    test="test_distances.py::"
    "test_tensors_differ_by_the_largest_element_and_no_less_than_a_tenth_of_the_larger_ones",
)
MAX_ROUNDING_GROWTH = Bound(
    3e3,
    bounds="growth of a distance from the largest one before it that rounding can explain",
    unit="times",
    source="ResNets with and without mkldnn grew by up to this factor in one step",
    test="test_first_difference.py::test_a_jump_beyond_the_growth_of_rounding_is_a_difference",
)
UNRECORDED_ROUNDING = Bound(
    2.0**-23,
    bounds="distance that may have been there in steps that were not recorded",
    unit="relative distance",
    source="IEEE 754: the spacing of float32",
    test="test_first_difference.py::test_after_a_gap_a_small_difference_is_undecided",
)
WHOLE_TENSOR = Bound(
    1e-2,
    bounds="distance of tensors recorded whole, and of gradients if only gradients were recorded",
    unit="relative distance",
    source="a convention: not measured yet with whole tensors of correct ports",
    test="test_whole_tensors.py::test_rounding_in_a_tensor_is_no_difference_and_is_stated",
)
REPEAT_FACTOR = Bound(
    3.0,
    bounds="distance that counts as equal if a repeat of the baseline differs by 1",
    unit="times the distance of the repeat",
    source="repeats of five nets: up to 2.0, 1.6, 4.3, 2.9, and once 2.8e4",
    test="test_verdict.py::test_the_distance_of_a_repeat_counts_three_times",
)

# ------------------------------------------------------------------ output statistics

SAMPLE_WEIGHT = Bound(
    0.1,
    bounds="weight of single elements in the distance of two rows",
    unit="of the weight of averages",
    source="a convention: averages round less than elements; not measured yet",
    test="test_output_statistics.py::test_rounding_is_no_difference",
)
SAME_TENSOR = Bound(
    1e-4,
    bounds="distance up to which two rows are the same tensor when calls are paired",
    unit="relative distance",
    source="pairs the calls of 30 correct ports of six recorded nets",
    test="test_effects.py::test_what_a_loop_gives_to_a_module_is_said_of_the_code_of_the_loop",
)
OUTPUT_GROWTH = Bound(
    10.0,
    bounds="output distance over the distance of its inputs and weights",
    unit="times",
    source="decision 82: 30 correct ports of six recorded nets stay within it",
    test="test_output_statistics.py::test_a_right_port_is_the_same_however_it_is_written",
)
LOSS_GROWTH = Bound(
    3.0,
    bounds="loss distance, less the tolerance of the loss itself, over the distance of outputs",
    unit="times",
    source="at most 2.1 in 325 half-precision pairs of correct ports; 2 for a mean of squares",
    test="test_loops.py::test_a_loss_that_is_wrong_by_a_hundredth_is_named_though_outputs_round",
)
MAX_INPUT_AMPLIFICATION = Bound(
    1e3,
    bounds="size of inputs over outputs that excuses a distance in a module without weights",
    unit="times",
    source="decision 82: a ReLU may keep a hundredth of its inputs",
    test="test_rounding.py::"
    "test_what_an_activation_leaves_of_its_inputs_may_be_rounded_as_they_are",
)
GRADIENT_GROWTH = Bound(
    25.0,
    bounds="gradient distance over the distance of outputs",
    unit="times",
    source="gradients are sums over a batch: 30 correct ports stay within it",
    test="test_output_statistics.py::test_rounding_is_no_difference",
)
GRADIENT_NOISE = Bound(
    1e-5,
    bounds="size of a gradient that is zero but for rounding in float32",
    unit="of the largest gradient of the step",
    source="decision 82: gradients that are zero are rounding",
    test="test_output_statistics.py::test_a_weight_or_mean_that_moves_by_rounding_alone_may_walk",
)
TYPICAL_GRADIENT = Bound(
    0.05,
    bounds="median distance of gradients that rounding can reach in any precision",
    unit="relative distance",
    source="at most 0.039 in 2,449 pairs of correct ports, most of them in half precision",
    test="test_rounding.py::test_labels_of_other_samples_are_named_in_half_precision",
)
ACTIVATION_FLIPS = Bound(
    3.0,
    bounds="gradient distance over the square root of the output distance",
    unit="times",
    source="decision 82: the share of activations that change their side of zero",
    test="test_rounding.py::test_what_rounds_differently_does_not_part",
)
UPDATE = Bound(
    1e-3,
    bounds="distance of two updates, by the size of the update",
    unit="relative distance",
    source="decision 82: updates of 30 correct ports agree so far",
    test="test_output_statistics.py::test_a_mistake_is_named_at_the_first_stage_that_it_changes",
)

# ------------------------------------------------------------------ matching by values

MATCH_MARGIN = Bound(
    4.0,
    bounds="distance to the next candidate, and width of a tensor, over the distance of a match",
    unit="times",
    source="decision 66: no wrong pair in 36 naming worlds",
    test="test_names.py::test_no_name_is_matched_wrongly_in_36_worlds_and_nearly_all_are_matched",
)
CONSTANT_WIDTH = Bound(
    0.2,
    bounds="width of a tensor that began as a constant",
    unit="of its mean",
    source="decision 66: scales of normalizations after one update, in 36 naming worlds",
    test="test_names.py::test_no_name_is_matched_wrongly_in_36_worlds_and_nearly_all_are_matched",
)
TRUSTED_SHARE = Bound(
    0.3,
    bounds="fraction of random tensors that must match by value before any match counts",
    unit="fraction",
    source="decision 66: no wrong pair in 36 naming worlds with other weights",
    test="test_names.py::test_no_name_is_matched_wrongly_in_36_worlds_and_nearly_all_are_matched",
)
TRUSTED_CONSTANT_SHARE = Bound(
    0.5,
    bounds="fraction of all tensors that must match by value before constants are matched so",
    unit="fraction",
    source="decision 66: no wrong pair in 36 naming worlds with other updates",
    test="test_names.py::test_no_name_is_matched_wrongly_in_36_worlds_and_nearly_all_are_matched",
)

ALL_BOUNDS = {name: value for name, value in globals().items() if isinstance(value, Bound)}
