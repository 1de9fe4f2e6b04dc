"""A coverage-guided fuzzer of everything that reads a run; ``nox -s fuzz -- SECONDS`` runs it. It
needs atheris.

Half of the mutations are libFuzzer's own; the others take one payload apart into protobuf fields,
change one and mend the lengths around it, because nearly all other changes fail at the first
length. An exception that no docstring names is kept, once for each place it comes from, and the
fuzzing goes on; an input that takes too long or too much memory ends it, as libFuzzer does. Inputs
worth keeping become cases of ``test_any_bytes.py``.

``python -m tests.faults.fuzz_reader FINDS CORPUS [libFuzzer's options]``
"""

from __future__ import annotations

import itertools
import logging
import random
import shutil
import sys
import tempfile
import traceback
from hashlib import sha256
from pathlib import Path
from types import TracebackType

import atheris

with atheris.instrument_imports(include=["mindsummary_lightning"]):
    from mindsummary_lightning.lineage import query
    from tests.faults.any_bytes import check_any_bytes, write_run
    from tests.faults.fuzz_inputs import (
        LINEAGE,
        SUMMARY,
        mutated_payload,
        pack,
        run_of,
        seeds,
        unpack,
    )


class Finds:
    """A file for each place in the package that raised what it should not."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._known = {path.name for path in folder.iterdir()}

    def keep(self, data: bytes, error: Exception) -> None:
        name = f"{type(error).__name__}-{_origin(error.__traceback__)}"
        if name not in self._known:
            self._known.add(name)
            (self._folder / name).write_bytes(data)
            print(f"find: {name}", file=sys.stderr)
            traceback.print_exception(error)


def _origin(trace: TracebackType | None) -> str:
    """The way of reading and the function of the package that an exception came from."""
    codes = [frame.f_code for frame, _ in traceback.walk_tb(trace)]
    ours = [code for code in codes if "mindsummary_lightning" in code.co_filename] or codes
    asked = [code for code in codes if code.co_filename.endswith("any_bytes.py")] or codes
    return f"{asked[-1].co_name}-{Path(ours[-1].co_filename).stem}-{ours[-1].co_name}"


def mutated(data: bytes, max_size: int, seed: int) -> bytes:
    draw = random.Random(seed)
    if len(data) < 3 or data[0] % 4 not in (SUMMARY, LINEAGE) or draw.random() < 0.5:
        return bytes(atheris.Mutate(data, max_size))
    payloads = unpack(data[1:])
    place = draw.randrange(len(payloads))
    is_second, payload = payloads[place]
    if draw.random() < 0.1:  # a record more, in one of the two files
        payloads.insert(draw.randrange(len(payloads) + 1), (draw.random() < 0.5, payload))
    else:
        payloads[place] = (is_second, mutated_payload(payload, draw, atheris.Mutate))
    return (data[:1] + pack(payloads))[:max_size]


def main(finds_folder: str, corpus: str, *options: str) -> None:
    logging.disable(logging.CRITICAL)
    finds, numbers = Finds(Path(finds_folder)), itertools.count()
    for seed in seeds():
        Path(corpus, sha256(seed).hexdigest()[:16]).write_bytes(seed)
    query.CACHE._max_runs = 1  # no run comes twice
    scratch = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))

    def read_any_bytes(data: bytes) -> None:
        run = scratch / str(next(numbers))  # a new name each time: lineage is remembered by path
        try:
            write_run(run, *run_of(data))
            check_any_bytes(run)
        except Exception as error:  # a find
            finds.keep(data, error)
        finally:
            shutil.rmtree(run)

    atheris.Setup([sys.argv[0], corpus, *options], read_any_bytes, custom_mutator=mutated)
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
