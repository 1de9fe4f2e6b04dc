"""Every number that decides something in a comparison: its value, what it bounds, unit, source and test.

A distance is relative: 0 for equal tensors, about 1 for unrelated ones. The reference page
``docs/reference/comparison.md`` shows this table.
"""

from __future__ import annotations

from typing import NamedTuple


class Bound(float):
    """A number of the table, used like a plain float.

    Attributes:
        bounds: what the number bounds.
        unit: its unit.
        source: where the value comes from.
        test: a test that fails with another value, as ``file::function`` below
            ``tests/porting/comparison``.
    """

    bounds: str
    unit: str
    source: str
    test: str

    def __new__(cls, value: float, *, bounds: str, unit: str, source: str, test: str) -> Bound:
        """Make a float that knows its reason."""
        bound = super().__new__(cls, value)
        bound.bounds, bound.unit = bounds, unit
        bound.source, bound.test = source, test
        return bound


class Tolerance(NamedTuple):
    """Distances up to which two runs are equal, by the precision of the weaker run.

    Attributes:
        name: ``float32``, ``bfloat16``, ``float16``, or the number that the user gave.
        loss: relative difference of two losses.
        tensor: distance of two histograms, see :mod:`.distances`.
        row: distance of two rows of output statistics, see :mod:`.row_distance`.
    """

    name: str
    loss: float
    tensor: float
    row: float

    @property
    def recorded_loss(self) -> float:
        """The tolerance of a loss inside a step with output statistics: the smaller of loss and row."""
        return min(self.loss, self.row)


# Source: MindSpore and PyTorch ran the same nets from the same weights; docs/development has them.
TOLERANCES = {
    "float32": Tolerance("float32", loss=1e-5, tensor=3e-6, row=1e-6),
    "bfloat16": Tolerance("bfloat16", loss=2e-3, tensor=3e-2, row=2e-2),
    "float16": Tolerance("float16", loss=2e-3, tensor=3e-2, row=2e-2),
}

# ------------------------------------------------------------------ losses and histograms

LOSS_FLOOR = Bound(
    0.05,
    bounds="divisor of a loss distance from below: a loss near zero is mostly noise",
    unit="of the first loss",
    source="recorded regressions whose loss falls to 1e-4 of the first one",
    test="test_distances.py::test_losses_differ_by_the_larger_one_and_infinitely_where_only_one_is_a_number",
)
SCALE_FLOOR = Bound(
    0.1,
    bounds="divisor of a tensor distance from below: a small bias rounds as large weights do",
    unit="of the upper quartile of the tensors' largest elements",
    source="biases that begin at zero, in the recorded ports",
    test="test_distances.py::test_tensors_differ_by_the_largest_element_so_far_and_no_less_than_a_tenth_of_the_larger_tensors",
)
MAX_ROUNDING_GROWTH = Bound(
    3e3,
    bounds="growth of a distance from the largest one before it that rounding can explain",
    unit="times",
    source="ResNets with and without mkldnn grew by this factor in one step",
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
    source="rounding shows in gradients and activations first, about a hundred times as large",
    test="test_whole_tensors.py::test_rounding_in_a_tensor_is_no_difference_and_is_stated",
)
REPEAT_FACTOR = Bound(
    3.0,
    bounds="distance that counts as equal if a repeat of the baseline differs by 1",
    unit="times the distance of the repeat",
    source="largest ratio of two repeats of one program in 100 pairs was 2.4",
    test="test_verdict.py::test_the_distance_of_a_repeat_counts_three_times",
)

# ------------------------------------------------------------------ output statistics

SAMPLE_WEIGHT = Bound(
    0.1,
    bounds="weight of single elements in the distance of two rows",
    unit="of the weight of averages",
    source="rounding of one element is about ten times that of a mean of many",
    test="test_output_statistics.py::test_rounding_is_no_difference",
)
SAME_TENSOR = Bound(
    1e-4,
    bounds="distance up to which two rows are the same tensor when calls are paired",
    unit="relative distance",
    source="outputs of different layers were never closer than 1e-3 in the recorded nets",
    test="test_effects.py::test_what_a_loop_gives_to_a_module_is_said_of_the_code_of_the_loop",
)
OUTPUT_GROWTH = Bound(
    10.0,
    bounds="output distance over the distance of its inputs and weights",
    unit="times",
    source="decision 82: 30 correct ports stay within it",
    test="test_output_statistics.py::test_a_correct_port_is_the_same",
)
MAX_INPUT_AMPLIFICATION = Bound(
    1e3,
    bounds="size of inputs over outputs that excuses a distance in a module without weights",
    unit="times",
    source="decision 82: a ReLU may keep a hundredth of its inputs",
    test="test_rounding.py::test_what_an_activation_leaves_of_its_inputs_may_be_rounded_as_they_are",
)
GRADIENT_GROWTH = Bound(
    25.0,
    bounds="gradient distance over the distance of outputs",
    unit="times",
    source="gradients are sums over a batch; correct recorded ports reach 12",
    test="test_output_statistics.py::test_rounding_is_no_difference",
)
GRADIENT_NOISE = Bound(
    1e-5,
    bounds="size of a gradient that is zero but for rounding",
    unit="of the largest gradient of the step",
    source="biases before a normalization: 1e-8 to 1e-6 of the largest gradient",
    test="test_output_statistics.py::test_a_weight_or_mean_that_moves_by_rounding_alone_may_drift",
)
ACTIVATION_FLIPS = Bound(
    3.0,
    bounds="gradient distance over the square root of the output distance",
    unit="times",
    source="decision 82: the share of activations that change their side of zero",
    test="test_rounding.py::test_different_kernels_agree_at_the_judged_step",
)
UPDATE = Bound(
    1e-3,
    bounds="distance of two updates, by the size of the update",
    unit="relative distance",
    source="Adam and SGD of MindSpore and PyTorch agree to 2e-4 of an update",
    test="test_output_statistics.py::test_a_mistake_is_named_at_the_first_stage_that_it_changes",
)
WEIGHT_ROUNDING = Bound(
    2.0**-22,
    bounds="distance of updates that the weights' own precision hides",
    unit="of the weight",
    source="IEEE 754: two roundings to float32",
    test="test_rounding.py::test_a_running_mean_that_follows_a_bias_without_effect_is_no_other_update",
)
SAME_SETTING = Bound(
    1e-6,
    bounds="relative difference of an optimizer's setting",
    unit="relative difference",
    source="settings are recorded as float32",
    test="test_output_statistics.py::test_the_setting_that_differs_is_named_with_the_update",
)

# ------------------------------------------------------------------ matching by values

MATCH_MARGIN = Bound(
    4.0,
    bounds="distance to the next candidate, and width of a tensor, over the distance of a match",
    unit="times",
    source="naming worlds: no wrong match from 2 on",
    test="test_names.py::test_matching_finds_what_it_found",
)
CONSTANT_WIDTH = Bound(
    0.2,
    bounds="width of a tensor that began as a constant",
    unit="of its mean",
    source="scales of normalizations after one update",
    test="test_names.py::test_matching_finds_what_it_found",
)
TRUSTED_SHARE = Bound(
    0.3,
    bounds="fraction of random tensors that must match by value before any match counts",
    unit="fraction",
    source="naming worlds: runs from other weights match fewer than 0.1",
    test="test_names.py::test_matching_finds_what_it_found",
)
TRUSTED_CONSTANT_SHARE = Bound(
    0.5,
    bounds="fraction of all tensors that must match by value before constants are matched so",
    unit="fraction",
    source="naming worlds: equal first updates match more than 0.7",
    test="test_names.py::test_matching_finds_what_it_found",
)

ALL_BOUNDS = {name: value for name, value in globals().items() if isinstance(value, Bound)}
