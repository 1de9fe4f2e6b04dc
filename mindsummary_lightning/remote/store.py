"""``Store``: a local directory or an address such as ``s3://bucket/runs``, through fsspec; nothing is deleted."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, pairwise
from typing import IO, Any

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from mindsummary_lightning.errors import RemotePathError
from mindsummary_lightning.fileio.append import try_lock
from mindsummary_lightning.fileio.replace import replacement
from mindsummary_lightning.warn_once import WarnOnce

_LOG = logging.getLogger(__name__)
_BLOCK = 32 << 20  # bytes in one request; S3 takes 10,000 parts
_SMALLEST_PART = 5 << 20  # of an object that S3 makes of parts, but for the last one
_LARGEST_COPY = 4 << 30  # S3 takes 5 GiB


class Store:
    """One side of a copy; paths are relative to its address, and ``progress`` is told numbers of sent bytes."""

    def __init__(self, address: str, progress: Callable[[int], object] = int) -> None:
        local = LocalFileSystem()  # a name of a directory may hold "::", which url_to_fs takes for a chain
        try:
            self._files, root = url_to_fs(address) if "://" in address else (local, local._strip_protocol(address))
        except ImportError as error:
            raise ImportError(f"{address}: the driver of this store is missing: {error}") from error
        except ValueError as error:
            raise RemotePathError(
                f"{address}: {error}; a store with the interface of S3 (OBS, OSS, MinIO) is s3://BUCKET/PATH with its "
                "server in AWS_ENDPOINT_URL"
            ) from error
        self.address: str = self._files.unstrip_protocol(root)
        self._progress = progress
        self._root = root.rstrip("/")
        names = self._files.protocol
        protocols = {names} if isinstance(names, str) else set(names)
        self.is_local: bool = "file" in protocols
        self._is_s3 = "s3" in protocols
        self._appends = bool(protocols & {"file", "hdfs", "memory"})
        self._warnings = WarnOnce(_LOG)
        self.sent: int = 0  # bytes, those that were sent again too

    def path(self, name: str) -> str:
        """A file as the driver names it."""
        return f"{self._root}/{name}"

    def list(self, below: str = "") -> dict[str, dict[str, Any]]:
        """The regular files in a directory and below it, with what changes when they do; links are not followed."""
        self._files.invalidate_cache()
        path = self.path(below).rstrip("/")
        listed = self._walked(path) if self.is_local else self._files.find(path, detail=True)
        return {path[len(self._root) + 1 :]: info for path, info in listed.items() if info["type"] == "file"}

    def _walked(self, path: str) -> dict[str, dict[str, Any]]:
        """What lies in a local directory and below it; what ``find`` would pass over without a word is warned of."""
        listed: dict[str, dict[str, Any]] = {}
        pending = [path]
        while pending:
            try:
                entries = self._files.ls(pending.pop(), detail=True)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                self._warnings.warn(str(error), "skipped a directory that cannot be listed: %s", error)
                continue
            listed |= {entry["name"]: entry for entry in entries}
            pending += [entry["name"] for entry in entries if entry["type"] == "directory"]
        return listed

    def open(self, name: str) -> IO[bytes]:
        """Open a file for reading as it is now; one that is replaced meanwhile is read as it was, or raises."""
        self._files.invalidate_cache()
        file: IO[bytes] = self._files.open(self.path(name), "rb")
        return file

    def kept(self, size: int) -> int:
        """How many bytes of a file of this size stay when it grows; all others are sent again."""
        return size if self._appends or (self._is_s3 and size >= _SMALLEST_PART) else 0

    def put(self, name: str, chunks: Iterable[bytes], kept: int | None = None) -> None:
        """Put chunks behind the bytes of a file that stay or, if ``None`` are named, in the place of the file."""
        path, blocks = self.path(name), self._blocks(chunks)
        if self._appends:  # the others have no directories
            self._files.makedirs(os.path.dirname(path), exist_ok=True)
        if self._is_s3:
            self._upload(path, kept or 0, blocks)
        elif self._appends and kept is not None:
            # Locally as private as what is recorded, whatever the umask, and locked against a second command.
            private = partial(os.open, mode=0o600)
            with open(path, "ab", opener=private) if self.is_local else self._files.open(path, "ab") as file:
                is_free = not self.is_local or try_lock(file.fileno()) is not False
                if (size := self._files.size(path)) != kept or not is_free:
                    raise OSError(f"{path} has {size} bytes, not {kept}: something else writes to it")
                file.writelines(blocks)
        elif self.is_local:
            with replacement(path) as file:
                file.writelines(blocks)
        else:
            with tempfile.NamedTemporaryFile() as file:
                file.writelines(blocks)
                file.flush()
                self._files.put_file(file.name, path)

    def _blocks(self, chunks: Iterable[bytes]) -> Iterator[bytearray]:
        """The same bytes, counted, in blocks that S3 takes for parts."""
        block = bytearray()
        for chunk in chain(chunks, [b""]):
            block += chunk
            if block and (len(block) >= _BLOCK or not chunk):
                yield block
                self.sent += len(block)
                self._progress(len(block))
                block = bytearray()

    def _upload(self, path: str, kept: int, blocks: Iterator[bytearray]) -> None:
        """Make an object of the first bytes that it has, copied by the server, and of blocks."""
        # Not in fsspec's append mode: that copies what the object holds by then, even after an attempt has failed.
        first, second = next(blocks, bytearray()), next(blocks, None)
        if not kept and not second:
            self._files.pipe_file(path, bytes(first))
            return
        call = self._files.call_s3
        parts: list[str] = []
        bucket, key, _ = self._files.split_path(path)
        target = {"Bucket": bucket, "Key": key}
        upload = {**target, "UploadId": call("create_multipart_upload", **target)["UploadId"]}
        try:
            copies = -(-kept // _LARGEST_COPY)
            for begin, end in pairwise(kept * number // max(1, copies) for number in range(copies + 1)):
                part = {"CopySource": target, "CopySourceRange": f"bytes={begin}-{end - 1}"}
                answer = call("upload_part_copy", **upload, **part, PartNumber=len(parts) + 1)
                parts.append(answer["CopyPartResult"]["ETag"])
            for block in filter(None, chain((first, second), blocks)):
                parts.append(call("upload_part", **upload, PartNumber=len(parts) + 1, Body=block)["ETag"])
            listed = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(parts, 1)]
            call("complete_multipart_upload", **upload, MultipartUpload={"Parts": listed})
        except BaseException:
            with contextlib.suppress(Exception):  # the first error is the one to raise
                call("abort_multipart_upload", **upload)
            raise
