"""Do some work of ``kill_at_calls`` again and again on a mount whose first, second, third... call
fails.

Each time a forked child works in a fresh copy. It must end with code 0 or say in one line why not;
then what is left is checked as after a kill. Needs tests/faults/network_mount.c to be preloaded.
Prints the numbers of failures as JSON.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from pathlib import Path

from mindsummary_lightning.cli import main as mindsummary
from tests.faults.network_mount import mount, unmount
from tests.faults.scripts.kill_at_calls import WORKS, Work, contents, import_for, in_child

FAULTS = [(kind, errno.EDQUOT) for kind in ("write", "sync", "truncate", "close")]
FAULTS += [(kind, errno.ESTALE) for kind in ("read", "write", "look", "close")]
NEVER = 1_000_000


def only_read(*verb: str) -> Work:
    def unchanged(killed: Path, done: Path) -> None:
        assert contents(killed / "run") == contents(done / "run")

    return Work(
        WORKS["export csv"].prepare, lambda work: run_verb(*verb, str(work / "run")), unchanged
    )


def run_verb(*words: str) -> None:
    with open(os.devnull, "w", encoding="utf-8") as sink:
        os.dup2(sink.fileno(), 1)
        assert mindsummary(words) == 0, words


READING = {verb: only_read(verb) for verb in ("list", "show", "verify", "lineage")}


def fail(work: Work, top: Path, kind: str, error: int, after: int) -> tuple[int, int]:
    """Let the calls after the first ones fail; the number of calls there were, and whether the work
    said an error.
    """
    failing, log = top / "failing", top / "log"
    shutil.copytree(top / "prepared", failing)
    listen, said = os.pipe()

    def do() -> None:
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        mount(failing, kind, after, error)
        is_done = True
        try:
            work.do(failing)
        except AssertionError:  # the verb's code is not 0
            is_done = False
        os.write(said, b"%d %d" % (unmount(), is_done))

    code = in_child(do)
    printed = log.read_text(encoding="utf-8")
    where = f"{kind} {errno.errorcode[error]} after {after} calls: {printed}"
    assert code == 0, where
    calls, is_done = map(int, os.read(listen, 100).split())
    # what is skipped, and then that nothing is left
    assert is_done or 1 <= printed.count("\n") <= 2, where
    assert in_child(lambda: work.check(failing, top / "done")) == 0, where
    shutil.rmtree(failing)
    os.close(listen)
    os.close(said)
    return calls, not is_done


def main(name: str, directory: str, stride: str, kinds: str) -> None:
    work = {**WORKS, **READING}[name]
    top = Path(directory)
    import_for(name)
    (top / "prepared").mkdir()
    assert in_child(lambda: work.prepare(top / "prepared")) == 0
    shutil.copytree(top / "prepared", top / "done")
    assert in_child(lambda: work.do(top / "done")) == 0
    failures = refused = 0
    for kind, error in FAULTS[:: int(kinds)]:
        calls, _ = fail(work, top, kind, error, NEVER)
        for after in range(0, calls, int(stride)):
            refused += fail(work, top, kind, error, after)[1]
            failures += 1
    print(json.dumps({"failures": failures, "refused": refused}))


if __name__ == "__main__":
    main(*sys.argv[1:])
