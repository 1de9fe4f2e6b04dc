from __future__ import annotations

import importlib.util
import json
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from mindsummary_lightning import SummaryLandscape
from mindsummary_lightning.cli.landscape import callback_from_reference
from mindsummary_lightning.cli.output import UsageError
from mindsummary_lightning.reading import landscape_plot
from mindsummary_lightning.reading.summary_reader import SummaryReader
from mindsummary_lightning.values import LossLandscape, Points
from tests.cli.command import mindsummary
from tests.cli.demo_run import write_demo_run
from tests.reading.runs import values_at, write_summary


def png_size(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", data[16:24])


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

    monkeypatch.setattr(SummaryLandscape, "gen_landscapes_with_multi_process", generate)

    words = ["landscape", tmp_path, "--module", "json:loads"]
    answer = mindsummary(capsys, *words, "--device-ids", 0, 1)

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
    (found,) = json.loads(mindsummary(capsys, *words, "--out", "x", "--json").out)["landscapes"]
    assert (found["tag"], found["grid"]) == ("landscape_[1, 2, 3]", [16, 12])
    assert (found["smallest_loss"], found["largest_loss"]) == pytest.approx(
        (0.117537, 3.1402), rel=1e-4
    )
    assert asked == {"callback_fn": json.loads, "device_ids": None, "output": "x"}
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    said = mindsummary(capsys, *words).err.splitlines()
    assert said[0] == "importing PyTorch and json ..."
    assert said[1].startswith("loading the model, the checkpoints and the data")


def test_the_landscapes_of_a_run_are_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def landscape(low: float) -> LossLandscape:
        z = np.array([[low, 2.5, 1.0], [3.5, 0.75, low + 0.25]], np.float32)
        return LossLandscape(Points(np.arange(3.0), np.arange(2.0), z))

    values = {"landscape_[1, 2]": landscape(0.5), "other": landscape(-0.25)}
    write_summary(tmp_path / "run", [values_at(0, values)])

    answer = mindsummary(capsys, "landscape", tmp_path)

    assert (answer.code, answer.err) == (0, "")
    assert answer.out.splitlines() == [
        "tag               grid   smallest loss  largest loss",
        "landscape_[1, 2]  3 x 2            0.5           3.5",
        "other             3 x 2          -0.25           3.5",
    ]
    assert json.loads(mindsummary(capsys, "landscape", tmp_path, "--json").out) == {
        "landscapes": [
            {"tag": tag, "grid": [3, 2], "smallest_loss": low, "largest_loss": 3.5}
            for tag, low in (("landscape_[1, 2]", 0.5), ("other", -0.25))
        ]
    }


@pytest.mark.parametrize("name", ["a.png", "a.SVG"])
def test_the_landscapes_of_a_run_are_drawn_where_asked_for(
    name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[tuple[list[str], str]] = []
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)  # matplotlib is there
    monkeypatch.setattr(
        landscape_plot,
        "plot_landscapes",
        lambda landscapes, path: drawn.append(([one.tag for one in landscapes], path)),
    )
    write_demo_run(tmp_path)

    answer = mindsummary(capsys, "landscape", tmp_path, "--plot", name)

    assert (answer.code, drawn) == (0, [(["landscape_[1, 2, 3]"], name)])


def test_a_run_without_landscapes_is_told_how_to_get_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_summary(tmp_path, [values_at(1, {"loss": 1.0})])

    answer = mindsummary(capsys, "landscape", tmp_path)

    assert (answer.code, answer.out) == (1, "")
    assert answer.err == (
        f"mindsummary: {tmp_path} has no loss landscape; to compute those of a collector, name a "
        "function: --module\n"
    )
    asked = mindsummary(capsys, "landscape", tmp_path, "--json")
    assert (asked.code, json.loads(asked.out)) == (1, {"landscapes": []})


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--plot", "x.jpg"], "--plot writes a file that ends in .png, .svg, .pdf, not x.jpg"),
        (["--out", "x"], "--out and --device-ids need --module"),
        (["--device-ids", "0"], "--out and --device-ids need --module"),
    ],
    ids=" ".join,
)
def test_options_of_landscapes_that_do_not_fit_are_refused(
    words: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    write_demo_run(tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)  # matplotlib is there

    answer = mindsummary(capsys, "landscape", tmp_path, *words)

    assert (answer.code, answer.out, told in answer.err) == (2, "", True)


@pytest.mark.parametrize(
    ("reference", "told"),
    [
        ("json", "--module must be package.module:function, not 'json'"),
        ("json:", "--module must be package.module:function"),
        (":loads", "--module must be package.module:function"),
        ("no_such_module_here:f", "'no_such_module_here:f' cannot be imported: No module named"),
        ("json:nothing", "'json:nothing' cannot be imported: .*has no attribute 'nothing'"),
        ("json:__name__", "--module 'json:__name__' must be a function, not str"),
    ],
)
def test_a_reference_that_names_no_function_is_refused(
    reference: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))

    with pytest.raises(UsageError, match=told):
        callback_from_reference(reference)


def test_a_reference_is_looked_for_in_the_current_directory_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, number in (("here", 1), ("elsewhere", 2)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "named_in_two_places.py").write_text(
            f"class Maker:\n    def make():\n        return {number}\n", encoding="utf-8"
        )
    monkeypatch.setattr(sys, "path", [str(tmp_path / "elsewhere"), *sys.path])
    monkeypatch.chdir(tmp_path / "here")

    found = [callback_from_reference("named_in_two_places:Maker.make") for _ in range(2)]

    assert [function() for function in found] == [1, 1]
    assert sys.path[:2] == [str(tmp_path / "here"), str(tmp_path / "elsewhere")]
    assert sys.path.count(str(tmp_path / "here")) == 1
    del sys.modules["named_in_two_places"]


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
