"""A server of the S3 interface, started once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import fsspec
import pytest

from tests.remote.stores import s3_server

_NUMBERS = itertools.count()


@pytest.fixture(scope="package")
def s3() -> Iterator[Callable[[], str]]:
    """Gives an address on the server that nothing has been written to."""
    with s3_server():
        fsspec.get_filesystem_class("s3").clear_instance_cache()
        yield lambda: f"s3://bucket/{next(_NUMBERS)}"
        fsspec.get_filesystem_class("s3").clear_instance_cache()
