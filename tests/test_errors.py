from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import mindsummary_lightning
from mindsummary_lightning.errors import missing_packages
from mindsummary_lightning.export.parquet_dataset import export_parquet
from mindsummary_lightning.export.tensorboard import export_tensorboard, import_tensorboard
from mindsummary_lightning.lineage.table import lineage_to_pandas
from mindsummary_lightning.reading.summary_reader import SummaryReader
from tests.reading.runs import write_summary


def test_missing_packages_are_named_as_pip_does() -> None:
    assert (
        str(missing_packages("the viewer", "aiohttp"))
        == "the viewer needs aiohttp: pip install aiohttp"
    )
    assert str(missing_packages("it", "a", "b", "c")) == "it needs a, b and c: pip install a b c"


@pytest.mark.parametrize(
    ("package", "call"),
    [
        ("pandas", lambda run: SummaryReader(run).to_pandas()),
        ("pandas", lambda run: lineage_to_pandas(run)),
        ("pyarrow", lambda run: export_parquet(run, "out")),
        ("tensorboard", lambda run: export_tensorboard(run, "out")),
        ("tensorboard", lambda run: import_tensorboard(run, "out")),
    ],
)
def test_what_needs_a_package_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, call: Callable[[str], object]
) -> None:
    write_summary(tmp_path / "run", [])
    for name in [package, *(name for name in sys.modules if name.startswith(f"{package}."))]:
        monkeypatch.setitem(sys.modules, name, None)

    with pytest.raises(ImportError, match=f"pip install {package}$"):
        call(str(tmp_path / "run"))


def test_no_message_asks_for_this_project_with_an_extra() -> None:
    sources = Path(mindsummary_lightning.__file__).parent.rglob("*.py")

    assert [
        path.name
        for path in sources
        if "mindsummary-lightning[" in path.read_text(encoding="utf-8")
    ] == []
