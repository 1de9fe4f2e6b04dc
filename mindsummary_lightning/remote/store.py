"""``Store``: a local directory or an address such as ``s3://bucket/runs``, through fsspec.

Nothing is deleted. What is written whole appears at once where the store can do that (not HDFS); what grows keeps its
beginning.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, NamedTuple

from fsspec.core import url_to_fs

from mindsummary_lightning.errors import RemotePathError
from mindsummary_lightning.fileio.replace import replacement

CHUNK = 8 << 20  # bytes in memory at a time
_SMALLEST_PART = 5 << 20  # of an upload in parts to S3, but for the last one
_LARGEST_COPY = 4 << 30  # S3 takes 5 GiB
_APPENDING = {"file", "local", "hdfs", "memory"}
_CHANGING = ("mtime", "ino", "ETag", "etag", "LastModified", "last_modified", "updated", "created")


class StoredFile(NamedTuple):
    """Size of a file in bytes, and what else changes when its bytes do."""

    size: int
    version: str


class Store:
    """One side of a copy. Paths are relative to its address, with ``/``.

    Args:
        address: a local directory, or whatever fsspec has a driver for.
        progress: called with numbers of bytes that were sent.

    Raises:
        ImportError: the store's driver is not installed; the text names it.
        RemotePathError: there is no driver for this kind of address.
    """

    def __init__(self, address: str, progress: Callable[[int], object] = int) -> None:
        try:
            self._files, root = url_to_fs(address)
        except ImportError as error:
            raise ImportError(f"{address}: the driver of this store is missing: {error}") from error
        except ValueError as error:
            raise RemotePathError(
                f"{address}: {error}; a store with the interface of S3 (OBS, OSS, MinIO) is s3://BUCKET/PATH with its "
                "server in AWS_ENDPOINT_URL"
            ) from error
        self.address = address
        self._progress = progress
        self._root = root.rstrip("/")
        names = self._files.protocol
        protocols = {names} if isinstance(names, str) else set(names)
        self.is_local = "file" in protocols
        self._is_s3 = "s3" in protocols
        self._appends = bool(protocols & _APPENDING)
        self.rewrites = not (self._appends or self._is_s3)
        self.sent = 0  # bytes, those that were sent again too

    def path(self, name: str) -> str:
        """A file as the driver names it."""
        return f"{self._root}/{name}"

    def list(self, below: str = "") -> dict[str, StoredFile]:
        """The regular files in a directory and below it; empty if there is none. Links are not followed."""
        self._files.invalidate_cache()
        listed: dict[str, dict[str, Any]] = self._files.find(self.path(below).rstrip("/"), detail=True)
        return {
            path[len(self._root) + 1 :]: StoredFile(info["size"], str([info.get(key) for key in _CHANGING]))
            for path, info in listed.items()
            if info["type"] == "file"
        }

    def size(self, name: str) -> int:
        """Bytes of a file now."""
        self._files.invalidate_cache()
        return int(self._files.size(self.path(name)))

    def read(self, name: str, start: int, end: int) -> bytes:
        """Some bytes of a file; raises OSError if fewer arrive."""
        data = bytes(self._files.cat_file(self.path(name), start=start, end=end))
        if len(data) != end - start:
            raise OSError(f"{self.path(name)}: {len(data)} bytes arrived of {start}..{end}")
        return data

    def open(self, name: str) -> IO[bytes]:
        """Open a file for reading; one that is replaced meanwhile is read as it was, or raises."""
        file: IO[bytes] = self._files.open(self.path(name), "rb")
        return file

    def extend(self, name: str, at: int, records_after: Callable[[int], Iterator[bytes]]) -> None:
        """Continue a file of ``at`` bytes, 0 if it is new, with what ``records_after(at)`` yields, if anything.

        Where the store cannot append, all of ``records_after(0)`` is sent.
        """
        if next(records_after(at), None) is None:
            return
        if self._appends:
            self._make_folder(name)
            if self.is_local:  # as private as what is recorded; open() would leave that to the umask
                os.close(os.open(self.path(name), os.O_WRONLY | os.O_CREAT, 0o600))
            there = sum(file.size for file in self.list(name).values())
            if there != at:
                raise OSError(f"{self.path(name)} has {there} bytes, not {at}: something else writes to it")
            with self._files.open(self.path(name), "ab") as file:
                for chunk in self._counted(records_after(at)):
                    file.write(chunk)
        elif self._is_s3:
            at = at if at >= _SMALLEST_PART else 0
            self._upload(name, at, records_after(at))
        else:
            self.write(name, records_after(0))

    def write(self, name: str, chunks: Iterable[bytes]) -> None:
        """Put a whole file in the place of what is there."""
        if self._is_s3:
            self._upload(name, 0, chunks)
            return
        self._make_folder(name)
        if self.is_local:
            with replacement(self.path(name)) as file:
                file.writelines(self._counted(chunks))
            return
        with tempfile.NamedTemporaryFile() as gathered:
            gathered.writelines(self._counted(chunks))
            gathered.flush()
            self._files.put_file(gathered.name, self.path(name))

    def _make_folder(self, name: str) -> None:
        if self._appends:  # the others have no directories
            self._files.makedirs(os.path.dirname(self.path(name)), exist_ok=True)

    def _counted(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            yield chunk
            self.sent += len(chunk)
            self._progress(len(chunk))

    def _upload(self, name: str, keep: int, chunks: Iterable[bytes]) -> None:
        """Make an object of the first ``keep`` bytes that it has, copied by the server, and of chunks.

        fsspec's append mode copies whatever the object holds by then; here the result is right even if another copy of
        this command was faster, and an attempt that failed cannot come true later.
        """
        blocks = _blocks(self._counted(chunks))
        first, second = next(blocks, b""), next(blocks, None)
        if not keep and second is None:
            self._files.pipe_file(self.path(name), first)
            return
        call = self._files.call_s3
        bucket, key, _ = self._files.split_path(self.path(name))
        target = {"Bucket": bucket, "Key": key}
        upload = {**target, "UploadId": call("create_multipart_upload", **target)["UploadId"]}
        parts: list[dict[str, Any]] = []

        def add(method: str, **content: Any) -> None:
            answer = call(method, **upload, PartNumber=len(parts) + 1, **content)
            parts.append({"PartNumber": len(parts) + 1, "ETag": answer.get("CopyPartResult", answer)["ETag"]})

        try:
            copies = -(-keep // _LARGEST_COPY)
            for number in range(copies):
                begin, end = keep * number // copies, keep * (number + 1) // copies
                add("upload_part_copy", CopySource=target, CopySourceRange=f"bytes={begin}-{end - 1}")
            for block in itertools.chain([first, second or b""], blocks):
                if block:
                    add("upload_part", Body=block)
            call("complete_multipart_upload", **upload, MultipartUpload={"Parts": parts})
        except BaseException:
            with contextlib.suppress(Exception):  # the first error is the one to raise
                call("abort_multipart_upload", **upload)
            raise


def _blocks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in blocks that S3 takes for parts."""
    block = b""
    for chunk in chunks:
        block += chunk
        if len(block) >= CHUNK:
            yield block
            block = b""
    if block:
        yield block
