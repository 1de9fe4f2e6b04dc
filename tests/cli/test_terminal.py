"""Long work on a terminal: a bar with a total, and what Ctrl-C says and leaves."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reading.runs import values_at, write_summary

fcntl, pty, termios = (
    pytest.importorskip(name, reason="needs a terminal") for name in ("fcntl", "pty", "termios")
)
pytestmark = pytest.mark.slow

_MODULE = """
import time
from tests.landscape import nets
def make():
    net = nets.Mlp()
    return None, net, slow(nets.loader(net)), nets.LOSS
class slow(list):
    def __iter__(self):
        for batch in super().__iter__():
            time.sleep(0.1)
            yield batch
"""


def _interrupted(words: list[str], directory: Path) -> tuple[int, str]:
    """Exit code and text of a command that gets Ctrl-C once its bar shows a share of the whole."""
    terminal, its_end = pty.openpty()
    fcntl.ioctl(its_end, termios.TIOCSWINSZ, struct.pack("4H", 24, 100, 0, 0))
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    main = "import sys; from mindsummary_lightning.cli import main; sys.exit(main())"
    # which a background job ignores
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    command = [sys.executable, "-c", f"{heard}; {main}", *words]
    process = subprocess.Popen(
        command, cwd=directory, env=variables, stdin=its_end, stdout=its_end, stderr=its_end
    )
    os.close(its_end)
    text, is_sent = "", False
    with contextlib.suppress(OSError):  # the end of a terminal
        while chunk := os.read(terminal, 4096):
            text += chunk.decode(errors="replace")
            if not is_sent and re.search(r"[1-9]\d?%", text):
                process.send_signal(signal.SIGINT)
                is_sent = True
    os.close(terminal)
    return process.wait(), text


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ("verify run", "nothing was written"),
        ("compare run run --same run", "nothing was written"),  # two runs are left at a third
        ("export run --to csv --out out", "out is as it was before"),
        ("import tb --out out", "out is as it was before"),
        pytest.param(
            "landscape run --module makes:make --out out",
            r"interrupted\. Make the same call again to continue from the rows in .*ckpt_dir",
            marks=pytest.mark.long,
        ),
    ],
    ids=lambda text: text.split()[0],
)
def test_a_bar_has_a_total_and_ctrl_c_says_what_is_left(
    words: str, left: str, tmp_path: Path
) -> None:
    verb = words.split()[0]
    if verb == "landscape":
        from tests.landscape import nets

        nets.train(nets.Mlp(), str(tmp_path / "run"))
        (tmp_path / "makes.py").write_text(_MODULE, encoding="utf-8")
    elif verb == "import":
        tensorboard_files = pytest.importorskip("tests.export.tensorboard_files")
        one = tensorboard_files.tensor_value("loss", 0.5)
        tensorboard_files.write_tb(
            tmp_path / "tb", *(tensorboard_files.event(step, one) for step in range(60_000))
        )
    else:
        write_summary(
            tmp_path / "run", [values_at(step, {"a": 1.0, "b": 2.0}) for step in range(100_000)]
        )
    for file in [*tmp_path.glob("run/*_MS"), *tmp_path.glob("tb/*")]:
        # a quick machine needs as much for a bar to be seen
        file.write_bytes(file.read_bytes() * (32 if verb == "compare" else 16))

    code, text = _interrupted(words.split(), tmp_path)

    assert code == 130
    assert "Traceback" not in text
    assert re.search(left, text.splitlines()[-1])
    assert not (tmp_path / "out").exists()
