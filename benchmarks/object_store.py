"""A server of the part of S3's interface that ``mindsummary sync`` uses: ``python object_store.py
PORT COUNTER``.

An object is a list of pieces in memory; moto's server copies and hashes it, in Python. The
file COUNTER holds the number of bytes in request bodies.
"""

from __future__ import annotations

import hashlib
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

Pieces = list[bytes]
OBJECTS: dict[str, Pieces] = {}
TIMES: dict[str, str] = {}
UPLOADS: dict[str, dict[int, Pieces]] = {}
RECEIVED = [0]


def size_of(pieces: Pieces) -> int:
    return sum(map(len, pieces))


def cut(pieces: Pieces, begin: int, end: int) -> Pieces:
    """The bytes from ``begin`` to ``end``; whole pieces are not copied."""
    result, at = [], 0
    for piece in pieces:
        low, high = max(begin - at, 0), min(end - at, len(piece))
        if low < high:
            result.append(piece if (low, high) == (0, len(piece)) else piece[low:high])
        at += len(piece)
    return result


def tag(pieces: Pieces) -> str:
    return (
        f'"{hashlib.md5(str([(id(piece), len(piece)) for piece in pieces]).encode()).hexdigest()}"'
    )


class Handler(BaseHTTPRequestHandler):
    """Answers every kind of request."""

    protocol_version = "HTTP/1.1"

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content_Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _handle_request(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        RECEIVED[0] += len(body)
        COUNTER.write_text(str(RECEIVED[0]), encoding="utf-8")
        url = urlsplit(self.path)
        query = {
            name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()
        }
        bucket, _, key = unquote(url.path).lstrip("/").partition("/")
        if not key:
            self._list_objects(bucket, query.get("prefix", ""))
        elif self.command == "POST" and "uploads" in query:
            UPLOADS[name := f"upload-{len(UPLOADS)}"] = {}
            self._answer(
                200,
                f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId></InitiateMultipartUploadResult>".encode(),
            )
        elif self.command == "POST":
            parts = UPLOADS[query["uploadId"]]
            TIMES[f"{bucket}/{key}"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            OBJECTS[f"{bucket}/{key}"] = [
                piece for number in sorted(parts) for piece in parts[number]
            ]
            self._answer(
                200,
                b"<CompleteMultipartUploadResult><ETag>done</ETag></CompleteMultipartUploadResult>",
            )
        elif self.command == "PUT":
            pieces = [body] if body else []
            if "uploadId" in query:
                UPLOADS[query["uploadId"]][int(query["partNumber"])] = pieces
            else:
                OBJECTS[f"{bucket}/{key}"] = pieces
                TIMES[f"{bucket}/{key}"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            self._answer(200, ETag=tag(pieces))
        elif f"{bucket}/{key}" in OBJECTS:
            self._send_object(OBJECTS[f"{bucket}/{key}"])
        else:
            self._answer(404)

    def _send_object(self, pieces: Pieces) -> None:
        size = size_of(pieces)
        if self.command == "HEAD":
            self._answer(
                200,
                Content_Length=str(size),
                ETag=tag(pieces),
                Last_Modified="Mon, 01 Jan 2024 00:00:00 GMT",
            )
            return
        begin, _, end = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
        stop = min(size, int(end) + 1) if end else size
        self._answer(
            206,
            b"".join(cut(pieces, int(begin), stop)),
            ETag=tag(pieces),
            Content_Range=f"bytes {begin}-{stop - 1}/{size}",
        )

    def _list_objects(self, bucket: str, prefix: str) -> None:
        contents = "".join(
            f"<Contents><Key>{escape(name.partition('/')[2])}</Key><Size>{size_of(pieces)}</Size>"
            f"<ETag>{escape(tag(pieces))}</ETag><LastModified>{TIMES[name]}</LastModified></Contents>"
            for name, pieces in sorted(OBJECTS.items())
            if name.startswith(f"{bucket}/{prefix}")
        )
        self._answer(
            200,
            f"<ListBucketResult><IsTruncated>false</IsTruncated>{contents}</ListBucketResult>".encode(),
        )

    def log_message(self, *_: object) -> None:
        """Say nothing."""


for _method in ("GET", "HEAD", "PUT", "POST", "DELETE"):
    setattr(Handler, f"do_{_method}", Handler._handle_request)


if __name__ == "__main__":
    COUNTER = Path(sys.argv[2])
    COUNTER.write_text("0", encoding="utf-8")
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
