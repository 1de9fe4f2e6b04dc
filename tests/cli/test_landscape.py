from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import Any

import pytest

from mindsummary_lightning.reading.summary_reader import SummaryReader
from tests.cli.command import mindsummary
from tests.cli.demo_run import write_demo_run

pytest.importorskip("torch")


def png_size(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", data[16:24])


@pytest.mark.slow
def test_the_arguments_reach_the_landscapes_and_a_table_comes_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_demo_run(tmp_path)
    (recorded,) = (
        value
        for event in SummaryReader(tmp_path).events()
        if isinstance(event.what, tuple)
        for tag, value in event.what
        if tag.startswith("landscape")
    )
    asked: dict[str, Any] = {}

    def generate(_: object, callback_fn: object, **options: Any) -> dict[str, Any]:
        asked.update(options, callback_fn=callback_fn)
        return {"landscape_[1, 2, 3]": recorded}

    monkeypatch.setattr(
        "mindsummary_lightning.landscape.summary_landscape.SummaryLandscape.gen_landscapes_with_multi_process",
        generate,
    )

    words = [
        "landscape",
        tmp_path,
        "--module",
        "json:loads",
        "--device-ids",
        0,
        1,
        "--plot",
        tmp_path / "x.png",
    ]
    answer = mindsummary(capsys, *words)

    assert answer.code == 0
    assert answer.out.splitlines()[1].split() == [
        "landscape_[1,",
        "2,",
        "3]",
        "16",
        "x",
        "12",
        "0.117537",
        "3.1402",
    ]
    assert asked == {"callback_fn": json.loads, "device_ids": [0, 1], "output": None}
    (found,) = json.loads(mindsummary(capsys, *words, "--json").out)["landscapes"]
    assert (found["tag"], found["grid"]) == ("landscape_[1, 2, 3]", [16, 12])
    assert (found["smallest_loss"], found["largest_loss"]) == pytest.approx(
        (0.117537, 3.1402), rel=1e-4
    )
    assert (tmp_path / "x.png").exists()


@pytest.mark.slow
def test_without_a_function_the_landscapes_of_the_run_are_shown_and_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    write_demo_run(tmp_path / "run")

    answer = mindsummary(capsys, "landscape", tmp_path / "run", "--plot", tmp_path / "out.png")

    assert answer.code == 0
    assert answer.out.splitlines()[1].split()[-5:] == ["16", "x", "12", "0.117537", "3.1402"]
    assert png_size(tmp_path / "out.png")[1] == 750
    assert mindsummary(capsys, "landscape", tmp_path / "run", "--out", "x").code == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "code", "told"),
    [
        (
            "raise ValueError('no data here')",
            1,
            "the function, or an object that it returned, raised ValueError: no data here",
        ),
        (
            "return 5",
            2,
            "and return (model, network, dataset, metrics), but got TypeError: callback_fn must",
        ),
    ],
)
def test_an_error_inside_the_function_is_said_to_be_its_own_and_a_wrong_answer_to_be_wrong_use(
    body: str,
    code: int,
    told: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tests.landscape import nets

    nets.train(nets.Mlp(), str(tmp_path / "run"))
    (tmp_path / f"that_fails_{code}.py").write_text(f"def make():\n    {body}\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    answer = mindsummary(capsys, "landscape", "run", "--module", f"that_fails_{code}:make")

    assert (answer.code, answer.err.count("\n"), told in answer.err) == (code, 1, True)


@pytest.mark.slow
def test_a_function_in_the_current_directory_computes_and_plots_the_landscapes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.landscape import nets

    run = tmp_path / "run"
    nets.train(nets.Mlp(), str(run))
    (tmp_path / "named_by_text.py").write_text(
        "from tests.landscape import nets\n"
        "def make():\n    net = nets.Mlp()\n    return None, net, nets.loader(net), nets.LOSS\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    answer = mindsummary(
        capsys, "landscape", run, "--module", "named_by_text:make", "--plot", tmp_path / "out.png"
    )

    assert (answer.code, len(answer.out.splitlines())) == (0, 3)
    assert png_size(tmp_path / "out.png") == (1650, 750)


def test_a_plot_without_matplotlib_says_what_to_install_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)

    answer = mindsummary(
        capsys, "landscape", tmp_path, "--module", "nowhere:f", "--plot", "out.png"
    )

    assert (answer.code, "--plot needs matplotlib: pip install matplotlib" in answer.err) == (
        1,
        True,
    )
