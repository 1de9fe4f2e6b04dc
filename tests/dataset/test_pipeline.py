from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lightning.fabric.utilities.distributed import DistributedSamplerWrapper
from lightning.pytorch.utilities import CombinedLoader
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from mindsummary_lightning.dataset.pipeline import dataset_graph, dataset_path
from mindsummary_lightning.dataset.stage_parameters import display_name, json_text, parameters_of
from mindsummary_lightning.fileformat.lineage_codec import encode_lineage_event
from mindsummary_lightning.values import DatasetGraph, LineageEvent, check_recordable
from mindsummary_lightning.values.limits import FLOAT32_MAX
from tests.dataset.pipelines import (
    PIPELINES,
    Around,
    Compose,
    Normalize,
    Pictures,
    Resize,
    Stream,
    Untouchable,
    Wrapper,
)


def graph(kind: str, batch: Any = None) -> DatasetGraph:
    found = dataset_graph(PIPELINES[kind](), batch)
    assert found is not None
    return found


def stages(root: DatasetGraph) -> Iterator[DatasetGraph]:
    """Every stage, each before those it takes from."""
    yield root
    for child in root.children:
        yield from stages(child)


def types(root: DatasetGraph) -> list[Any]:
    return [part.parameter["op_type"] for part in stages(root)]


@pytest.mark.parametrize("kind", PIPELINES)
def test_every_kind_of_pipeline_keeps_the_rules_of_both_pages(kind: str) -> None:
    everything = list(stages(graph(kind)))

    for part in everything:
        assert isinstance(part.parameter["op_type"], str)
        assert part.parameter["op_type"]
        assert not {"key", "id", "children", "operations"} & part.parameter.keys()
        if part.parameter["op_type"] in ("Map", "MapDataset"):
            assert part.operations
        names = [
            part.parameter["op_type"],
            *(entry.parameter["tensor_op_name"] for entry in part.operations),
        ]
        assert all(not set('<>"\\') & set(str(name)) and name for name in names)
    assert len(everything) <= 250


@pytest.mark.parametrize("kind", PIPELINES)
def test_every_kind_of_pipeline_fits_the_format(kind: str) -> None:
    assert encode_lineage_event(LineageEvent(wall_time=1.0, what=graph(kind)))


def test_a_shuffled_loader_is_batch_shuffle_and_source() -> None:
    root = graph("tensors", [torch.zeros(4, 3), torch.zeros(4)])

    batch, shuffle, source = stages(root)
    assert types(root) == ["BatchDataset", "ShuffleDataset", "TensorDataset"]
    assert batch.parameter == {
        "op_type": "BatchDataset",
        "batch_size": 4,
        "drop_remainder": True,
        "num_parallel_workers": 0,
        "pin_memory": False,
        "persistent_workers": False,
    }
    assert shuffle.parameter["buffer_size"] == 21
    assert source.parameter["num_samples"] == 21
    assert source.sampler.parameter == {
        "sampler_name": "RandomSampler",
        "replacement": False,
        "num_samples": 21,
    }


def test_transforms_are_operations_in_their_order_with_their_parameters() -> None:
    root = graph("transforms")

    _, target, image, source = stages(root)
    assert types(root) == ["BatchDataset", "MapDataset", "MapDataset", "Pictures"]
    assert [part.parameter["tensor_op_name"] for part in image.operations] == [
        "Resize", "RandomApply", "lambda", "flatten", "clamp", "Normalize",
    ]  # fmt: skip
    parameters = [part.parameter.get("tensor_op_params") for part in image.operations]
    assert json.loads(str(parameters[0])) == {"size": [4, 6], "antialias": True}
    assert json.loads(str(parameters[1])) == {
        "transforms": ["Normalize", "Resize"],
        "p": 0.3,
    }
    assert parameters[2] is None
    assert json.loads(str(parameters[4])) == {"min": 0.0}
    assert [part.parameter["tensor_op_name"] for part in target.operations] == ["Flatten", "Linear"]
    assert (image.parameter["input_columns"], target.parameter["input_columns"]) == (
        ('"input"',),
        ('"target"',),
    )
    assert source.parameter["dataset_dir"] == "pictures"


def test_a_known_class_has_the_name_that_the_lineage_page_knows() -> None:
    root = graph("image-folder")

    assert types(root)[-1] == "ImageFolderDataset"
    assert str(list(stages(root))[-1].parameter["dataset_class"]).endswith(".ImageFolder")


def test_a_source_named_like_a_stage_is_still_a_source() -> None:
    assert types(graph("named-like-a-stage")) == ["BatchDataset", "MapDatasetSource"]


def test_few_weights_of_a_sampler_are_kept() -> None:
    source = list(stages(graph("weighted")))[-1]

    assert source.sampler.weights == pytest.approx((0.2, 0.3, 0.5))
    assert source.sampler.size == ()  # the server mixes the two up when both are there
    assert source.sampler.parameter["num_samples"] == 10


@pytest.mark.parametrize("weight", [float("inf"), float("nan"), 1e39, -1e39])
def test_weights_that_the_file_cannot_hold_are_left_out(weight: float) -> None:
    found = dataset_graph(
        DataLoader(Pictures(), sampler=WeightedRandomSampler([0.5, weight], 2)), None
    )
    assert found is not None
    source = list(stages(found))[-1]

    assert source.sampler is not None
    assert source.sampler.weights == ()
    check_recordable(found)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("subset", ["BatchDataset", "Subset", "MapDataset", "MapDataset", "Pictures"]),
        ("split", ["BatchDataset", "Subset", "TensorDataset"]),
        (
            "concat",
            [
                "BatchDataset",
                "ConcatDataset",
                "TensorDataset",
                "MapDataset",
                "MapDataset",
                "Pictures",
            ],
        ),
        (
            "stack",
            [
                "BatchDataset",
                "StackDataset",
                "MapDataset",
                "MapDataset",
                "Pictures",
                "TensorDataset",
            ],
        ),
        ("chain", ["BatchDataset", "ChainDataset", "Stream", "Stream"]),
        ("stream", ["BatchDataset", "Stream"]),
        ("wrapped", ["BatchDataset", "Wrapper", "MapDataset", "MapDataset", "Pictures"]),
        ("subset-sampler", ["BatchDataset", "ShuffleDataset", "TensorDataset"]),
        ("unbatched", ["TensorDataset"]),
        ("untouchable", ["BatchDataset", "Untouchable"]),
    ],
)
def test_wrappers_are_stages_above_what_they_wrap(kind: str, expected: list[str]) -> None:
    assert types(graph(kind)) == expected


def test_as_many_weights_as_the_page_can_show_are_kept_and_not_one_more() -> None:
    def weights(count: int) -> tuple[float, ...]:
        sampler = WeightedRandomSampler([FLOAT32_MAX] * count, 2)
        found = dataset_graph(DataLoader(Pictures(), sampler=sampler), None)
        assert found is not None
        source = list(stages(found))[-1]
        assert source.sampler is not None
        return source.sampler.weights

    assert [len(weights(count)) for count in (1, 32, 33)] == [1, 32, 0]


def test_what_a_loader_does_with_a_batch_is_told_with_it() -> None:
    loader = DataLoader(
        Pictures(), 4, num_workers=2, collate_fn=len, prefetch_factor=3, persistent_workers=True
    )
    plain = SimpleNamespace(dataset=Pictures(), batch_size=8)

    root, other = (dataset_graph(each, None) for each in (loader, plain))

    assert root is not None
    assert root.parameter == {
        "op_type": "BatchDataset",
        "drop_remainder": False,
        "num_parallel_workers": 2,
        "collate_fn": "len",
        "pin_memory": False,
        "persistent_workers": True,
        "prefetch_factor": 3,
    }
    assert other is not None
    assert other.parameter == {
        "op_type": "BatchDataset",
        "drop_remainder": False,
        "num_parallel_workers": 0,
    }


def test_batches_of_an_unknown_size_are_no_stage() -> None:
    class Tokens(Sampler[list[int]]):
        def __iter__(self) -> Iterator[list[int]]:
            yield from ([0, 1, 2], [3])

    assert types(dataset_graph(DataLoader(Pictures(), batch_sampler=Tokens()), None)) == [
        "Pictures"
    ]


def test_the_shuffled_are_those_that_the_sampler_picks_from() -> None:
    class RandomStream(Sampler[int]):
        def __iter__(self) -> Iterator[int]:
            yield 0

    found = [
        next(part for part in stages(root) if part.parameter["op_type"] == "ShuffleDataset")
        for root in (
            graph("subset-sampler"),
            dataset_graph(DataLoader(Pictures(), 2, sampler=RandomStream()), None),
        )
        if root is not None
    ]

    assert [part.parameter["buffer_size"] for part in found] == [10, 50]


def test_a_transform_of_all_columns_counts_where_there_are_none_of_single_ones() -> None:
    data = Pictures()
    data.transforms = Normalize([0.5], [0.25])  # type: ignore[attr-defined]
    root = dataset_graph(DataLoader(data, 2), None)

    assert root is not None
    _, mapped, _ = stages(root)
    assert mapped.parameter == {"op_type": "MapDataset", "input_columns": ('"input"',)}
    assert [part.parameter for part in mapped.operations] == [
        {"tensor_op_name": "Normalize", "tensor_op_params": '{"mean": [0.5], "std": [0.25]}'}
    ]
    data.target_transform = len
    _, mapped, _ = stages(dataset_graph(DataLoader(data, 2), None))  # type: ignore[arg-type]
    assert mapped.parameter["input_columns"] == ('"target"',)


def test_a_transform_inside_itself_is_told_as_deep_as_data_sets_are() -> None:
    composed = Compose([Resize((4, 6))])
    composed.transforms.append(composed)
    nested: Any = Pictures(transform=composed)
    for _ in range(30):
        nested = Wrapper(nested)

    mapped = dataset_graph(DataLoader(Pictures(transform=composed), 2), None).children[0]
    assert [part.parameter["tensor_op_name"] for part in mapped.operations] == [
        *["Resize"] * 24,
        "Compose",
    ]
    many = Pictures(transform=Compose([Resize((4, 6))] * 101))
    assert len(dataset_graph(DataLoader(many, 2), None).children[0].operations) == 100
    root = dataset_graph(DataLoader(nested, 2), None)
    assert types(root) == ["BatchDataset", *["Wrapper"] * 23]
    assert list(stages(root))[-1].parameter["datasets_skipped"] == 1


def test_of_several_loaders_the_shorter_ones_repeat() -> None:
    root = graph("combined")

    assert types(root) == [
        "CombinedLoader", "BatchDataset", "TensorDataset", "RepeatDataset", "BatchDataset",
        "ShuffleDataset",
        "TensorDataset",
    ]  # fmt: skip
    assert root.parameter["mode"] == "max_size_cycle"
    assert root.parameter["loaders"] == ('"a"', '"b"')


@pytest.mark.parametrize("mode", ["min_size", "max_size", "sequential"])
def test_no_loader_repeats_in_the_other_modes(
    mode: Literal["min_size", "max_size", "sequential"],
) -> None:
    loaders = [DataLoader(TensorDataset(torch.zeros(count)), 2) for count in (4, 8)]

    root = dataset_graph(CombinedLoader(loaders, mode), None)

    assert root.parameter["mode"] == mode
    assert types(root) == ["CombinedLoader", *(["BatchDataset", "TensorDataset"] * 2)]


def test_loaders_that_are_not_combined_have_no_mode() -> None:
    loaders = [DataLoader(TensorDataset(torch.zeros(count)), 2) for count in (4, 8)]

    root = dataset_graph(loaders, [torch.zeros(2), torch.zeros(3)])

    assert root is not None
    assert root.parameter == {"op_type": "list", "loaders": ('"0"', '"1"')}
    assert [child.parameter.get("batch_size") for child in root.children] == [2, None]


def test_a_list_of_batches_is_a_loader_of_its_own() -> None:
    root = dataset_graph([torch.zeros(2)] * 3, torch.zeros(2))

    assert root == DatasetGraph(
        {"op_type": "list", "dataset_class": "builtins.list", "num_batches": 3}
    )


def test_a_loader_of_unknown_length_is_the_longest() -> None:
    root = dataset_graph(
        CombinedLoader([DataLoader(Stream(), 2), DataLoader(TensorDataset(torch.zeros(4)), 2)]),
        None,
    )

    assert types(root) == [
        "CombinedLoader",
        "BatchDataset",
        "Stream",
        "BatchDataset",
        "TensorDataset",
    ]
    assert root.parameter["mode"] == "min_size"


def test_a_concatenation_of_thousands_is_cut_and_says_so() -> None:
    concatenation = graph("many").children[0]

    assert len(types(graph("many"))) == 200
    assert len(concatenation.children) == 198
    assert concatenation.parameter["datasets_skipped"] == 5000 - 198


def test_a_data_set_inside_itself_is_drawn_once() -> None:
    root = graph("itself")

    assert types(root) == ["BatchDataset", "Wrapper"]
    assert root.children[0].parameter["datasets_skipped"] == 1


def test_a_loader_inside_itself_has_no_graph() -> None:
    loader = SimpleNamespace(batch_size=2, batch_sampler=None)
    loader.dataset = loader

    assert dataset_graph(loader, None) is None


def test_a_wrapper_whose_data_sets_are_all_drawn_skips_none() -> None:
    data = ConcatDataset([TensorDataset(torch.zeros(2)), TensorDataset(torch.zeros(3))])

    (concatenation,) = dataset_graph(DataLoader(data, 1), None).children

    assert types(concatenation) == ["ConcatDataset", "TensorDataset", "TensorDataset"]
    assert "datasets_skipped" not in concatenation.parameter


def test_a_sampler_of_a_distributed_run_is_told_with_what_it_shares_out() -> None:
    data = TensorDataset(torch.zeros(10))
    sampler = DistributedSampler(data, num_replicas=2, rank=1, shuffle=True, seed=3)

    root = dataset_graph(DataLoader(data, 2, sampler=sampler), None)

    assert root is not None
    assert types(root) == ["BatchDataset", "ShuffleDataset", "TensorDataset"]
    found = list(stages(root))[-1].sampler
    assert {"num_replicas": 2, "rank": 1, "seed": 3}.items() <= found.parameter.items()


def test_a_loader_without_a_data_set_is_a_stage() -> None:
    root = graph("of-another-library")

    assert (root.parameter["op_type"], root.parameter["num_batches"], root.children) == (
        "BatchSource",
        3,
        (),
    )


def test_a_loader_without_a_length_has_no_number_of_batches() -> None:
    root = dataset_graph((batch for batch in [torch.zeros(2)]), torch.zeros(2))

    assert root.parameter == {"op_type": "generator", "dataset_class": "builtins.generator"}


def test_the_sampler_that_lightning_shares_out_is_named_with_its_wrapper() -> None:
    data = TensorDataset(torch.zeros(10))
    sampler = DistributedSamplerWrapper(
        SubsetRandomSampler(range(8)), num_replicas=2, rank=0, shuffle=False
    )

    root = dataset_graph(DataLoader(data, 2, sampler=sampler), None)

    assert root is not None
    found = list(stages(root))[-1].sampler
    assert {
        "sampler_name": "DistributedSamplerWrapper",
        "wraps": "SubsetRandomSampler",
        "num_samples": 4,
    }.items() <= (found.parameter.items())


def test_a_batch_sampler_of_the_users_is_named() -> None:
    class Buckets(BatchSampler):
        pass

    data = TensorDataset(torch.zeros(10))
    loader = DataLoader(data, batch_sampler=Buckets(SubsetRandomSampler(range(8)), 3, True))
    root = dataset_graph(loader, next(iter(loader)))

    assert types(root) == ["BatchDataset", "ShuffleDataset", "TensorDataset"]
    assert str(root.parameter["batch_sampler"]).endswith(".Buckets")
    assert (root.parameter["batch_size"], root.parameter["drop_remainder"]) == (3, True)


@pytest.mark.parametrize("nothing", [None, 3, "text", object()])
def test_what_gives_no_batches_has_no_graph(nothing: object) -> None:
    assert dataset_graph(nothing, None) is None
    assert dataset_path(nothing) is None


def test_a_batch_size_that_the_first_batch_does_not_have_is_not_told() -> None:
    batch = next(stages(graph("tensors", [torch.zeros(5, 3), torch.zeros(5)])))

    assert batch.parameter["op_type"] == "BatchDataset"
    assert "batch_size" not in batch.parameter


def test_bulk_loading_is_batch_shuffle_and_source() -> None:
    data = TensorDataset(torch.zeros(96, 3))
    loader = DataLoader(
        data, sampler=BatchSampler(RandomSampler(data), 32, drop_last=False), batch_size=None
    )

    root = dataset_graph(loader, next(iter(loader)))

    assert types(root) == ["BatchDataset", "ShuffleDataset", "TensorDataset"]
    assert (root.parameter["batch_size"], root.parameter["drop_remainder"]) == (32, False)


def test_a_loader_around_a_loader_is_drawn_as_that() -> None:
    root = dataset_graph(
        Around(DataLoader(TensorDataset(torch.zeros(96, 3)), 24, shuffle=True)), torch.zeros(24, 3)
    )

    assert types(root) == ["BatchDataset", "ShuffleDataset", "TensorDataset"]
    assert root.parameter["batch_size"] == 24


@pytest.mark.parametrize(
    ("kind", "path"),
    [("subset", "pictures"), ("concat", "pictures"), ("wrapped", "pictures"), ("tensors", None)],
)
def test_the_path_is_found_below_wrappers(kind: str, path: str | None) -> None:
    assert dataset_path(PIPELINES[kind]().dataset) == path


def test_a_list_of_other_things_holds_no_data_sets() -> None:
    data = Pictures("own")
    data.datasets = [Pictures("inner"), 5]  # type: ignore[attr-defined]

    assert types(dataset_graph(DataLoader(data, 2), None)) == ["BatchDataset", "Pictures"]  # type: ignore[arg-type]
    data.datasets = {"a": Pictures("inner"), "b": Stream()}  # type: ignore[attr-defined]
    assert types(dataset_graph(DataLoader(data, 2), None)) == [  # type: ignore[arg-type]
        *("BatchDataset", "Pictures", "Pictures", "Stream")
    ]


def test_the_path_is_looked_for_in_sixteen_data_sets() -> None:
    nested: Any = Pictures("deep")
    for _ in range(15):
        nested = Wrapper(nested)

    assert dataset_path(nested) == "deep"
    assert dataset_path(Wrapper(nested)) is None
    assert dataset_path(ConcatDataset([Wrapper(Pictures("later")), Pictures("first")])) == "first"


def test_a_data_set_without_a_path_tells_none() -> None:
    root = dataset_graph(DataLoader(Pictures(""), 2), None)

    assert dataset_path(Pictures("")) is None
    assert "dataset_dir" not in list(stages(root))[-1].parameter  # type: ignore[arg-type]


def test_a_data_set_that_raises_at_every_touch_has_no_facts() -> None:
    assert dataset_path(Untouchable()) is None


def test_no_iterator_is_made_and_no_worker_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DataLoader, "__iter__", lambda _: pytest.fail("the data was iterated"))
    loader = DataLoader(Pictures(), 2, num_workers=2)

    assert dataset_graph(loader, None) is not None


class _Holder(Dataset[Any]):
    def __init__(self, transform: Any, root: Any) -> None:
        self.transform, self.root = transform, root

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Any:
        return index


_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
    | st.complex_numbers() | st.just(torch.zeros(2, 3)) | st.just(torch.tensor(1.5))
    | st.just(torch.float16) | st.just(_Holder),
    lambda inner: st.lists(inner, max_size=40) | st.dictionaries(st.text() | st.integers(), inner,
    max_size=5),
    max_leaves=30,
)  # fmt: skip

_FEW = settings(max_examples=30)  # they are large


@pytest.mark.slow
@_FEW
@given(st.dictionaries(st.text(), _ANYTHING, max_size=6))
def test_any_value_becomes_a_parameter_of_the_format(fields: dict[str, Any]) -> None:
    event = LineageEvent(
        wall_time=1.0, what=DatasetGraph({"op_type": "X", **parameters_of(fields)})
    )

    assert encode_lineage_event(event)


@pytest.mark.slow
@_FEW
@given(st.dictionaries(st.text(), _ANYTHING, max_size=6))
def test_any_fields_become_short_json(fields: dict[str, Any]) -> None:
    text = json_text(fields)

    assert len(text) <= 1000
    assert isinstance(json.loads(text, parse_constant=lambda name: pytest.fail(name)), dict)


@pytest.mark.slow
@_FEW
@given(_ANYTHING, _ANYTHING)
def test_a_data_set_that_holds_anything_never_raises(transform: Any, root: Any) -> None:
    loader = DataLoader(_Holder(transform, root), 2)

    assert dataset_graph(loader, None) is not None
    assert dataset_path(loader.dataset) is None or isinstance(root, str)


@given(st.text())
def test_any_text_becomes_a_name_that_can_be_drawn(text: str) -> None:
    assert display_name(text)
    assert not set('<>"\\') & set(display_name(text))


def test_ints_beyond_32_bits_become_text() -> None:
    assert parameters_of({"a": 2**31, "b": -(2**31), "c": 2**31 - 1}) == {
        "a": "2147483648", "b": -(2**31), "c": 2**31 - 1,
    }  # fmt: skip


def test_short_arrays_are_lists_and_other_values_what_hyper_parameters_are() -> None:
    fields = {
        "a": torch.tensor([1.5, 2]),
        "b": torch.zeros(2, 3),
        "c": torch.float16,
        "d": list(range(33)),
    }

    assert parameters_of(fields) == {
        "a": ("1.5", "2.0"), "b": "Tensor(shape=(2, 3), dtype=float32)", "c": "torch.float16",
        "d": "list of 33 elements",
    }  # fmt: skip


def test_a_vector_without_data_is_told_by_its_shape() -> None:
    assert parameters_of({"weights": torch.empty(3, device="meta")}) == {
        "weights": "Tensor(shape=(3,), dtype=float32)"
    }


def test_a_collate_object_has_the_name_of_its_class() -> None:
    class Padding:
        def __call__(self, samples: list[Any]) -> int:
            return len(samples)

    root = dataset_graph(DataLoader(Pictures(), 2, collate_fn=Padding()), None)

    assert root is not None
    assert str(root.parameter["collate_fn"]).endswith(".Padding")


def test_a_value_is_told_up_to_the_limits_of_the_page() -> None:
    letters = "".join(chr(ord("a") + number % 26) for number in range(1001))
    fields = {
        "elements": list(range(32)),
        "vector": torch.arange(32),
        "long": torch.arange(33),
        "entries": dict.fromkeys(range(33), 0),
        "nested": [[[[[1]]]]],
        "text": letters,
        "mapping": {"k": letters},
        "set": {3},
        "inner": {"a": {"b": {"c": {"d": {"e": 1}}}}},
        "bounds": [-(2**31), 2**31],
        "low": -(2**31) - 1,
    }

    assert parameters_of(fields) == {
        "elements": tuple(str(number) for number in range(32)),
        "vector": tuple(str(number) for number in range(32)),
        "long": "Tensor(shape=(33,), dtype=int64)",
        "entries": json.dumps({str(number): 0 for number in range(32)}),
        "nested": ('[[["[1]"]]]',),
        "text": letters[:1000],
        "mapping": f'{{"k": "{letters[:993]}',
        "set": ("3",),
        "inner": '{"a": {"b": {"c": {"d": "dict"}}}}',
        "bounds": (str(-(2**31)), str(2**31)),
        "low": str(-(2**31) - 1),
    }
    assert parameters_of(dict.fromkeys(("key", "id", "children", "operations", "sampler"), 1)) == {
        "key_": 1, "id_": 1, "children_": 1, "operations_": 1, "sampler_": 1,
    }  # fmt: skip


def test_the_longest_fields_give_way_where_json_would_be_too_long() -> None:
    fits = {"b": "y" * 480, "c": 1, "z": "x" * 494}  # 1,000 characters
    assert len(json.dumps(fits)) == 1000

    assert json_text(fits) == json.dumps(fits)
    assert json_text({**fits, "c": 10}) == json.dumps({**fits, "z": "...", "c": 10})
    assert json_text({str(number): number for number in range(200)}) == '{"parameters": 200}'


def test_a_name_that_can_be_drawn_has_a_hundred_characters_and_no_marks() -> None:
    assert display_name("<lambda>") == "lambda"
    assert display_name('a<b>"c{d}e|f\\g/h\ti j') == "a_b__c_d_e_f_g_h_i j"
    assert display_name("x" * 101) == "x" * 100
    assert display_name("<>") == "unnamed"


def test_none_and_lists_are_written_as_mindspore_writes_them() -> None:
    assert parameters_of({"a": None, "b": ["x", 1, None], "c": [], "d": {"k": 1}, "key": 1}) == {
        "a": "None", "b": ('"x"', "1", ""), "d": '{"k": 1}', "key_": 1,
    }  # fmt: skip
