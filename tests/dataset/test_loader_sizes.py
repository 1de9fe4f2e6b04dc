"""Batch size and number of samples: what a loader states, where its first batch does not contradict
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from lightning.pytorch.utilities import CombinedLoader
from torch.nn.utils.rnn import pack_sequence, pad_sequence
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SubsetRandomSampler,
    TensorDataset,
)

from mindsummary_lightning.dataset.loader_sizes import (
    CheckedSizes,
    LoaderSizes,
    claimed_batch_size,
    fits,
)
from tests.dataset.pipelines import PIPELINES, Around, Pictures, Stream, Untouchable


def vectors(count: int) -> TensorDataset:
    return TensorDataset(torch.zeros(count, 3), torch.zeros(count))


def sizes_of(loader: Any, batch: Any, *limit: float) -> LoaderSizes:
    return CheckedSizes(loader, batch, *limit).sizes


def sizes(loader: Any, *limit: float) -> LoaderSizes:
    """What is known of a loader that a training has read the first batch of."""
    return sizes_of(loader, next(iter(loader)), *limit)


class Batches(IterableDataset[Any]):
    """Yields whole batches."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(torch.zeros(6, 8, 3))

    def __len__(self) -> int:
        return 6


class Tokens(Sampler[list[int]]):
    """Batches of as many sequences as hold a number of tokens."""

    def __iter__(self) -> Iterator[list[int]]:
        yield from ([0, 1, 2], [3], [4, 5])

    def __len__(self) -> int:
        return 3


class Sequences(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.zeros(index + 2)


class Chunks(Dataset[torch.Tensor]):
    """Each item is a batch."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.zeros(16, 3)


def bulk(count: int, size: int, drop_last: bool) -> DataLoader[Any]:
    """PyTorch's documented way of loading whole batches from a data set that takes many indices at
    once.
    """
    data = vectors(count)
    return DataLoader(
        data, sampler=BatchSampler(RandomSampler(data), size, drop_last), batch_size=None
    )


LOADERS: dict[str, tuple[Callable[[], Any], tuple[int | None, int | None]]] = {
    "plain": (lambda: DataLoader(vectors(21), 4), (4, 21)),
    "drop_last": (lambda: DataLoader(vectors(21), 4, drop_last=True), (4, 20)),
    "fewer samples than a batch": (lambda: DataLoader(vectors(3), 8), (3, 3)),
    "one sample in a batch": (lambda: DataLoader(vectors(5), 1), (1, 5)),
    "bulk": (lambda: bulk(96, 32, False), (32, 96)),
    "bulk with a rest": (lambda: bulk(90, 32, False), (32, 90)),
    "bulk without the rest": (lambda: bulk(90, 32, True), (32, 64)),
    "loader around a loader": (lambda: Around(DataLoader(vectors(96), 24)), (24, 96)),
    "two loaders around one": (lambda: Around(Around(DataLoader(vectors(96), 24))), (24, 96)),
    "subset": (lambda: DataLoader(vectors(21), 4, sampler=SubsetRandomSampler(range(10))), (4, 10)),
    "stream of batches": (lambda: DataLoader(Batches(), batch_size=None), (None, None)),
    "stream of batches joined": (lambda: DataLoader(Batches(), 2, collate_fn=torch.cat), (None,
    None)),
    "items that are batches": (lambda: DataLoader(Chunks(), batch_size=None), (None, None)),
    "samples one by one": (lambda: DataLoader(vectors(5), batch_size=None), (None, None)),
    "as many as tokens": (lambda: DataLoader(Sequences(), batch_sampler=Tokens(), collate_fn=list),
    (None, None)),
    "padded": (lambda: DataLoader(Sequences(), 2, collate_fn=lambda b: pad_sequence(b,
    batch_first=True)), (2, 6)),
    "time first": (lambda: DataLoader(Sequences(), 2, collate_fn=pad_sequence), (None, None)),
    "packed": (lambda: DataLoader(Sequences(), 3, collate_fn=lambda b: pack_sequence(b, False)),
    (3, 6)),
    "lists of tensors": (lambda: DataLoader(Sequences(), 3, collate_fn=list), (3, 6)),
    "doubled by its collate_fn": (
        lambda: DataLoader(vectors(21), 4, collate_fn=lambda b: torch.cat([torch.stack([x for x,
        _ in b])] * 2)),
        (None, None),
    ),
    "batches of bulks": (
        lambda: DataLoader(vectors(90), 2, sampler=BatchSampler(range(90), 30, False)), (2, 3)
    ),
    "several": (lambda: [DataLoader(vectors(40), 4), DataLoader(vectors(8), 2)], (4, 40)),
}  # fmt: skip


@pytest.mark.parametrize("kind", LOADERS)
def test_sizes_are_told_where_the_first_batch_has_them(kind: str) -> None:
    make, expected = LOADERS[kind]
    loader = make()
    batch = (
        [next(iter(part)) for part in loader] if isinstance(loader, list) else next(iter(loader))
    )

    assert sizes_of(loader, batch) == expected


@pytest.mark.parametrize(
    ("loaders", "batch_of"),
    [
        (lambda a, b: {"a": a, "b": b}, lambda a, b: {"a": a, "b": b}),
        (lambda a, b: CombinedLoader({"a": a, "b": b}, "min_size"), lambda a, b: {"a": a, "b": b}),
        (lambda a, b: [a, {"inner": b}], lambda a, b: [a, {"inner": b}]),
    ],
    ids=["dict", "combined", "nested"],
)
def test_of_several_loaders_the_first_is_checked_against_its_own_part(
    loaders: Callable[..., Any], batch_of: Callable[..., Any]
) -> None:
    parts = DataLoader(vectors(40), 4), DataLoader(vectors(9), 3)
    batches = [next(iter(part)) for part in parts]

    assert sizes_of(loaders(*parts), batch_of(*batches)) == (4, 40)
    assert sizes_of(loaders(*parts), batch_of(*reversed(batches))) == (None, None)


class Pair(NamedTuple):
    nodes: torch.Tensor
    labels: torch.Tensor


@pytest.mark.parametrize(
    ("batch", "size", "expected"),
    [
        (SimpleNamespace(num_graphs=3, x=torch.zeros(17, 2)), 3, True),
        (SimpleNamespace(num_graphs=3, x=torch.zeros(17, 2)), 17, False),
        (SimpleNamespace(batch_size=torch.Size([5]), x=torch.zeros(7, 5)), 5, True),
        (SimpleNamespace(batch_size=torch.Size([5]), x=torch.zeros(7, 5)), 7, False),
        (SimpleNamespace(num_graphs=True, x=torch.zeros(3, 2)), 3, True),
        (Pair(torch.zeros(17, 2), torch.zeros(4)), 4, True),
        ({"x": torch.zeros(8, 2), "step": torch.tensor(3)}, 8, True),
        ({"x": torch.zeros(8, 2), "mask": torch.zeros(8, 9), "texts": ["a"] * 8}, 8, True),
        ({"x": torch.zeros(8, 2)}, 1, False),
        ({"x": torch.zeros(1, 2), "y": torch.zeros(7)}, 1, False),
        (["a", "b", "c"], 3, True),
        ({"texts": ["a"] * 6, "x": torch.zeros(3, 2), "y": torch.zeros(4)}, 6, True),
        ({"x": torch.zeros(1, 2), "open": SimpleNamespace(shape=("N", 2))}, 1, True),
        (torch.tensor(1.0), 1, False),
        (None, 1, False),
        (object(), 4, False),
        (torch.zeros(6, 2).to_sparse(), 6, True),
        (torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]), 2, True),
    ],
)
def test_a_batch_tells_how_many_samples_it_may_have(batch: Any, size: int, expected: bool) -> None:
    assert fits(batch, size) == expected


def test_lists_are_looked_into_eight_times_and_not_forever() -> None:
    batch: Any = ["a"] * 7
    for _ in range(8):
        batch = [batch]
    endless: list[Any] = [torch.zeros(4), torch.zeros(5)]
    endless.append(endless)

    assert fits(batch, 7)
    assert not fits([batch], 7)
    assert (fits(endless, 3), fits(endless, 7)) == (True, False)


def test_a_limit_of_batches_bounds_the_size() -> None:
    loader = DataLoader(vectors(21), 4)

    assert [sizes(loader, limit)[1] for limit in (2, 5, 6, 100, float("inf"))] == [
        8,
        20,
        21,
        21,
        21,
    ]


def test_the_samples_of_all_devices_count_once() -> None:
    data = vectors(21)
    loader = DataLoader(data, 4, sampler=DistributedSampler(data, num_replicas=2, rank=0))

    assert len(loader.sampler) == 11  # type: ignore[arg-type]  # one sample is read twice
    assert sizes(loader) == (4, 21)
    assert sizes(loader, 2) == (4, 16)


def test_a_stream_has_a_size_if_it_knows_its_length() -> None:
    class Measured(Stream):
        def __len__(self) -> int:
            return 10

    batch = torch.zeros(4, 2)
    assert sizes_of(DataLoader(Stream(), 4), batch) == (4, None)
    assert sizes_of(DataLoader(Measured(), 4), batch) == (4, 10)
    assert sizes_of(DataLoader(Measured(), 4), batch, 2) == (4, 8)


def test_a_loader_that_knows_its_batches_alone_has_the_samples_of_all_of_them() -> None:
    class Counted:
        batch_size = 4

        def __len__(self) -> int:
            return 3

    batch = torch.zeros(4, 2)
    assert sizes_of(Counted(), batch) == (4, 12)
    assert sizes_of(Counted(), batch, 2) == (4, 8)
    assert sizes_of(SimpleNamespace(batch_size=4, dataset=Stream()), batch) == (4, None)


def test_samples_are_those_that_the_sampler_picks() -> None:
    data, batch = vectors(22), torch.zeros(4, 2)

    assert sizes_of(SimpleNamespace(dataset=data, batch_size=4, sampler=range(9)), batch) == (4, 9)
    assert sizes_of(SimpleNamespace(dataset=data, batch_size=4), batch) == (4, 22)
    picker = SubsetRandomSampler(range(3))
    picker.sampler = range(9)  # type: ignore[attr-defined]  # it picks from these, one by one
    single = DataLoader(data, batch_size=None, sampler=picker)
    assert sizes_of(single, torch.zeros(1, 2)) == (1, 3)


def test_a_size_beyond_32_bits_is_not_told() -> None:
    class Huge(Pictures):
        def __len__(self) -> int:
            return 2**40

    class Most(Pictures):
        def __len__(self) -> int:
            return 2**31 - 1

    assert sizes_of(DataLoader(Huge(), 4), torch.zeros(4, 2)) == (4, None)
    assert sizes_of(DataLoader(Most(), 4), torch.zeros(4, 2)) == (4, 2**31 - 1)


@pytest.mark.parametrize("nothing", [None, 3, "text", object(), DataLoader(Untouchable(), 2)])
def test_what_states_nothing_has_no_sizes(nothing: object) -> None:
    assert sizes_of(nothing, torch.zeros(4, 2)) == (None, None)


def test_no_further_sample_is_fetched() -> None:
    assert sizes_of(PIPELINES["transforms"](), torch.zeros(8, 2)) == (8, 50)


class Stated(DataLoader[Any]):
    """States another number of batches than it gives, and passes them through a function."""

    def __init__(
        self,
        count: int,
        stated: int | None = None,
        change: Callable[[list[Any]], Any] = lambda b: b,
    ) -> None:
        super().__init__(vectors(count), 4)
        self.stated, self.change = stated, change

    def __len__(self) -> int:
        return super().__len__() if self.stated is None else self.stated

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        yield from self.change(list(super().__iter__()))


class Lengths(Tokens):
    """Of sequences of a similar length as many as hold a number of tokens; states the most."""

    batch_size, sampler = 3, range(9)


class Long(IterableDataset[Any]):
    """States more samples than it gives."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(torch.zeros(22, 3))

    def __len__(self) -> int:
        return 100


class Endless(Sampler[int]):
    """Begins again, and knows how many there are."""

    def __iter__(self) -> Iterator[int]:
        while True:
            yield from range(22)

    def __len__(self) -> int:
        return 22


def an_epoch(loader: Any, limit: float = float("inf")) -> list[Any]:
    """The batches that Lightning reads: it stops at the number that a loader states."""
    try:
        most = min(len(loader), limit)
    except TypeError:
        most = limit
    return [batch for index, batch in zip(range(int(min(most, 99))), loader, strict=False)]


READ: dict[str, tuple[Callable[[], Any], tuple[int | None, int | None]]] = {
    "as stated": (lambda: DataLoader(vectors(22), 4), (4, 22)),
    "one sample is left": (lambda: DataLoader(vectors(21), 4), (4, 21)),
    "one sample in each": (lambda: DataLoader(vectors(5), 1), (1, 5)),
    "one long sequence is left": (lambda: DataLoader(Sequences(), 5, collate_fn=list), (5, 6)),
    "a stream that states too much": (lambda: DataLoader(Long(), 4), (4, None)),
    "ends early": (lambda: Stated(22, change=lambda batches: batches[:3]), (4, None)),
    "ends a batch early": (lambda: Stated(22, change=lambda batches: batches[:5]), (4, None)),
    "ends after its first batch": (
        lambda: Stated(22, change=lambda batches: batches[:1]), (4, None)
    ),
    "twice, without a rest": (lambda: Stated(20, 10, lambda batches: batches * 2), (4, None)),
    "twice": (lambda: Stated(22, 12, lambda batches: batches * 2), (4, None)),
    "the last one is filled": (lambda: DataLoader(vectors(22), 4, sampler=Endless()), (4, None)),
    "a smaller one in between": (
        lambda: DataLoader(Sequences(), batch_sampler=Lengths(), collate_fn=list), (None, None),
    ),
    "fewer than stated": (lambda: Stated(22, 3), (4, 12)),
}  # fmt: skip


@pytest.mark.parametrize("kind", READ)
def test_what_an_epoch_contradicts_is_taken_back(kind: str) -> None:
    make, expected = READ[kind]
    loader = make()
    first, *others = an_epoch(loader)
    checked = CheckedSizes(loader, first)
    for index, batch in enumerate([first, *others]):
        checked.see(index, batch)
    checked.end_epoch()

    assert checked.sizes == expected


def test_a_later_epoch_contradicts_too_and_one_without_a_batch_does_not() -> None:
    batches = list(DataLoader(vectors(22), 4))
    checked = CheckedSizes(DataLoader(vectors(22), 4), batches[0])
    checked.end_epoch()
    assert checked.sizes == (4, 22)

    for epoch, expected in ((batches, 22), (batches[:5], None)):
        for index, batch in enumerate(epoch):
            checked.see(index, batch)
        checked.end_epoch()
        assert checked.sizes == (4, expected)


def test_an_epoch_that_is_resumed_in_its_middle_contradicts_nothing() -> None:
    loader = DataLoader(vectors(22), 4)
    checked = CheckedSizes(loader, next(iter(loader)))
    # a loader begins with its first batch
    for index, batch in zip(range(4, 6), loader, strict=False):
        checked.see(index, batch)
    checked.end_epoch()

    assert checked.sizes == (4, 22)


@pytest.mark.parametrize("mode", ["min_size", "max_size", "max_size_cycle"])
@pytest.mark.parametrize("names", ["ab", "ba"])
def test_other_loaders_may_have_more_batches_or_fewer(mode: Any, names: str) -> None:
    parts = {"a": DataLoader(vectors(22), 4), "b": DataLoader(vectors(10), 3)}
    loader = CombinedLoader({name: parts[name] for name in names}, mode)
    batches = [batch for batch, _, _ in loader]
    checked = CheckedSizes(loader, batches[0], len(batches))
    for index, batch in enumerate(batches):
        checked.see(index, batch)
    checked.end_epoch()

    longest = (4, 16 if mode == "min_size" else 22)
    assert checked.sizes == (longest if names == "ab" else (3, 10))


def test_a_first_of_several_loaders_with_a_single_batch_may_begin_again_and_again() -> None:
    loaders = {"a": DataLoader(vectors(3), 4), "b": DataLoader(vectors(22), 4)}
    batches = [batch for batch, _, _ in CombinedLoader(loaders, "max_size_cycle")]
    checked = CheckedSizes(loaders, batches[0])
    for _ in range(2):
        for index, batch in enumerate(batches):
            checked.see(index, batch)
        checked.end_epoch()

    assert (len(batches), checked.sizes) == (6, LoaderSizes(3, 3))


def test_a_first_of_several_loaders_that_ends_early_has_no_known_number_of_samples() -> None:
    whole, short = torch.zeros(4, 3), torch.zeros(2, 3)
    loaders = {"a": DataLoader(vectors(22), 4), "b": DataLoader(vectors(22), 4)}
    checked = CheckedSizes(loaders, {"a": whole, "b": whole})
    assert checked.sizes == LoaderSizes(4, 22)

    for index, own in enumerate([whole, short]):
        checked.see(index, {"a": own, "b": whole})

    assert checked.sizes == LoaderSizes(None, None)


def test_a_loader_of_its_own_kind_over_single_samples_states_no_size() -> None:
    loader = SimpleNamespace(dataset=vectors(22))

    assert claimed_batch_size(loader) is None
    assert claimed_batch_size(DataLoader(vectors(22), batch_size=None)) == 1
    stream = SimpleNamespace(dataset=iter(()), batch_size=None)
    assert claimed_batch_size(stream) is None
    assert claimed_batch_size(DataLoader(Sequences(), batch_sampler=Tokens())) is None
