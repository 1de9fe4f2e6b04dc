"""Stores: a directory, memory and a server of the S3 interface; how each takes what grows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mindsummary_lightning.errors import RemotePathError
from mindsummary_lightning.remote import store as store_module
from mindsummary_lightning.remote.store import Store
from tests.remote.stores import Faults, RewritingStore

MIB = 1 << 20
S3 = Callable[[], str]


def _extend(store: Store, name: str, at: int, data: bytes, size: int) -> None:
    """Make a file of ``at`` bytes one with all of the data."""
    kept = store.kept(at)
    store.put(name, (data[start : start + size] for start in range(kept, len(data), size)), kept)


def _content(store: Store, name: str) -> bytes:
    with store.open(name) as file:
        return file.read()


def _pattern(size: int) -> bytes:
    return bytes(range(251)) * (size // 251 + 1)


@pytest.fixture(params=["directory", "memory", "rewriting", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "s3":
        pytest.importorskip("moto")
        return Store(request.getfixturevalue("s3")())
    RewritingStore.store.clear()
    RewritingStore.faults = Faults(0, 0.0)
    return Store(
        {"directory": str(tmp_path / "far"), "memory": f"memory:/{tmp_path}", "rewriting": "rewriting://far"}[
            request.param
        ]
    )


@pytest.mark.slow
def test_what_grows_arrives_piece_by_piece(store: Store) -> None:
    data, at = _pattern(100), 0
    for end in (1, 40, 41, 100):
        _extend(store, "run/a", at, data[:end], 7)
        assert _content(store, "run/a") == data[:end]
        at = end
    assert {name: info["size"] for name, info in store.list().items()} == {"run/a": 100}
    assert store.list("other") == {}


@pytest.mark.slow
def test_a_whole_file_takes_the_place_of_another(store: Store) -> None:
    store.put("run/a", [b"a longer one"])
    store.put("run/a", [b"new", b"er"])

    assert _content(store, "run/a") == b"newer"


def test_what_cannot_be_appended_to_is_sent_again_from_its_beginning() -> None:
    RewritingStore.store.clear()
    RewritingStore.faults = Faults(0, 0.0)
    store = Store("rewriting://far")
    _extend(store, "a", 0, b"12345", 2)
    _extend(store, "a", 5, b"1234567", 2)

    assert store.kept(10**9) == 0
    assert store.sent == 5 + 7


@pytest.mark.slow
def test_s3_copies_what_it_has_and_gets_the_rest(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_LARGEST_COPY", 6 * MIB)  # two copies of one object
    store, data = Store(s3()), _pattern(12 * MIB)
    at = 0
    for end in (MIB, 4 * MIB, 11 * MIB, 12 * MIB):
        _extend(store, "a", at, data[:end], 3 * MIB)
        assert store.list()["a"]["size"] == end
        at = end

    assert hashlib.sha256(_content(store, "a")).digest() == hashlib.sha256(data[:at]).digest()
    assert store.sent == (1 + 4 + 11 + 1) * MIB  # what is below 5 MiB is sent again


@pytest.mark.slow
def test_s3_keeps_an_object_whose_continuation_fails(s3: S3) -> None:
    store, data = Store(s3()), _pattern(10 * MIB)
    _extend(store, "a", 0, data[: 6 * MIB], MIB)

    def failing() -> Iterator[bytes]:
        yield data[6 * MIB :]
        raise OSError("the source is gone")

    with pytest.raises(OSError, match="the source is gone"):
        store.put("a", failing(), 6 * MIB)
    assert store.list()["a"]["size"] == 6 * MIB
    uploads = store._files.call_s3("list_multipart_uploads", Bucket="bucket").get("Uploads", [])
    assert not [upload for upload in uploads if upload["Key"] == f"{store.address.rsplit('/')[-1]}/a"]


def test_a_file_that_something_else_continues_is_not_appended_to(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    _extend(store, "a", 0, b"123", 3)
    with pytest.raises(OSError, match="has 3 bytes, not 2: something else writes to it"):
        _extend(store, "a", 2, b"123", 3)


def test_two_commands_do_not_append_to_one_file_at_once(tmp_path: Path) -> None:
    first, second = Store(str(tmp_path)), Store(str(tmp_path))

    def chunks() -> Iterator[bytes]:
        with pytest.raises(OSError, match="something else writes to it"):
            second.put("a", [b"of the second"], 0)
        yield b"of the first"

    first.put("a", chunks(), 0)

    assert _content(first, "a") == b"of the first"


def test_a_missing_driver_is_named() -> None:
    pytest.importorskip("fsspec")
    with pytest.raises(ImportError, match=r"gs://bucket/runs: the driver of this store is missing: .*gcsfs"):
        Store("gs://bucket/runs")
    with pytest.raises(RemotePathError, match=r"obs.*s3://BUCKET/PATH with its server in AWS_ENDPOINT_URL"):
        Store("obs://bucket/runs")
