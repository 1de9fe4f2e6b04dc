"""PNG encoder, about four times as fast as Pillow at the same size.

Strategy: every row is stored as its difference to the row above, and deflate looks only for runs. Neither searches, and
on batches of photographs, digits and figures the file is within a few per cent of Pillow's default; figures in
``docs/decisions/0009-png-encoding.md``. One kind of file is written: 8-bit RGB, not interlaced.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_EIGHT_BIT_RGB = bytes((8, 2, 0, 0, 0))  # bit depth, colour type, deflate, adaptive filters, no interlace
_FILTER_UP = 2


def encode_png(pixels: NDArray[np.uint8]) -> bytes:
    """A PNG file.

    Args:
        pixels: RGB, uint8, shape ``(height, width, 3)``, C-contiguous, at least one pixel.
    """
    height, width, _ = pixels.shape
    header = struct.pack(">II", width, height) + _EIGHT_BIT_RGB
    return b"".join((_SIGNATURE, _chunk(b"IHDR", header), _chunk(b"IDAT", _deflated(pixels)), _chunk(b"IEND", b"")))


def _deflated(pixels: NDArray[np.uint8]) -> bytes:
    rows = pixels.reshape(pixels.shape[0], -1)
    filtered = np.empty((rows.shape[0], rows.shape[1] + 1), np.uint8)
    filtered[:, 0] = _FILTER_UP
    filtered[0, 1:] = rows[0]  # the row above the first one counts as zeros
    np.subtract(rows[1:], rows[:-1], out=filtered[1:, 1:])
    compressor = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, zlib.Z_RLE)
    return compressor.compress(filtered.data) + compressor.flush()


def _chunk(name: bytes, content: bytes) -> bytes:
    length, checksum = len(content), zlib.crc32(content, zlib.crc32(name))
    return b"".join((struct.pack(">I", length), name, content, struct.pack(">I", checksum)))
