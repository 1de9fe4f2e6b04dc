"""Tables of parameters as they are read, whatever became of their names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mindsummary_lightning import SummaryReader, SummaryRecord
from mindsummary_lightning.fileformat.row_names import ROW_NAMES_FILE, encode_row_names
from mindsummary_lightning.reading.followed_run import FollowedRun
from mindsummary_lightning.reading.parameter_tables import ParameterTable, parameter_facts
from mindsummary_lightning.values.statistics_columns import COLUMNS, to_stored
from tests.reading.runs import write_parameter_run


def _table(rows: int, **columns: list[float]) -> np.ndarray:
    table = np.zeros((rows, len(COLUMNS)))
    for name, numbers in columns.items():
        table[:, COLUMNS.index(name)] = numbers
    return table


def _record(run: Path, *tables: np.ndarray) -> None:
    with SummaryRecord(str(run)) as record:
        for step, table in enumerate(tables, 1):
            record.add_value("tensor", "parameter_statistics", table)
            record.record(step)


def _read(run: Path) -> ParameterTable:
    table = SummaryReader(run).parameter_statistics()
    assert table is not None
    return table


@pytest.mark.filterwarnings("error")
def test_magnitudes_beyond_float32_are_stored_without_a_warning() -> None:
    assert to_stored(_table(1, gradient_rms=[1e60]))[0, COLUMNS.index("gradient_rms")] == 60


def test_magnitudes_are_read_as_they_were(tmp_path: Path) -> None:
    _record(
        tmp_path,
        to_stored(
            _table(2, gradient_rms=[3e-9, 0.0], gradient_zeros=[0.25, 1.0], elements=[12, 3])
        ),
    )
    (tmp_path / ROW_NAMES_FILE).write_bytes(encode_row_names(["a.weight", "a.bias"]))

    table = _read(tmp_path)
    assert table.parameters == ("a.weight", "a.bias")
    np.testing.assert_allclose(table.column("gradient_rms")[0], [3e-9, 0.0], rtol=2e-6)
    assert table.column("gradient_zeros")[0].tolist() == [0.25, 1.0]
    assert table.column("elements")[0].tolist() == [12, 3]


def test_rows_are_numbered_where_names_are_missing(tmp_path: Path) -> None:
    _record(tmp_path, to_stored(_table(1)), to_stored(_table(3)))
    assert _read(tmp_path).parameters == ("row 0", "row 1", "row 2")
    assert np.isnan(_read(tmp_path).values[0, 1:]).all()

    (tmp_path / ROW_NAMES_FILE).write_bytes(encode_row_names(["a"]))
    assert _read(tmp_path).parameters == ("a", "row 1", "row 2")

    (tmp_path / ROW_NAMES_FILE).write_bytes(encode_row_names([*"abcd"]))
    assert _read(tmp_path).parameters == ("a", "b", "c")  # a later training has more

    (tmp_path / ROW_NAMES_FILE).write_bytes(b"cut of")
    assert _read(tmp_path).parameters == ("row 0", "row 1", "row 2")


def test_a_column_that_is_none_is_refused_with_the_closest(tmp_path: Path) -> None:
    _record(tmp_path, _table(2))
    table = _read(tmp_path)

    with pytest.raises(ValueError, match="no column 'gradient'; closest: 'gradient_max', "):
        table.column("gradient")
    assert repr(table) == f"ParameterTable(1 steps, 2 parameters, {len(COLUMNS)} columns)"


def test_a_users_tensor_of_that_name_is_no_table(tmp_path: Path) -> None:
    _record(tmp_path, np.zeros((4, 3)))
    assert SummaryReader(tmp_path).parameter_statistics() is None


def test_a_gradient_comes_before_the_weight_that_it_spoils(tmp_path: Path) -> None:
    _record(
        tmp_path,
        to_stored(_table(3)),
        to_stored(_table(3, gradient_non_finite=[0, 2, 0], weight_non_finite=[0, 2, 0])),
        to_stored(_table(3, gradient_non_finite=[4, 4, 4])),
    )
    first = _read(tmp_path).first_non_finite()
    assert first is not None
    assert (first.step, first.parameter, first.kind) == (2, "row 1", "gradient")


@pytest.mark.parametrize(
    ("gradients", "weights", "named"),
    [
        ([1, 1, 0, 0], [0, 0, 0, 0], ("b", "gradient")),  # a backward pass came from behind
        ([1, 1, 1, 1], [0, 0, 0, 0], ("a", "gradient")),
        ([np.nan, 0, 0, 0], [0, 0, 1, 1], ("c", "weight")),
        ([np.nan, 1, 1, 1], [0, 0, 0, 0], ("b", "gradient")),
    ],
)
def test_what_is_named_first(
    gradients: list[float], weights: list[float], named: tuple[str, str]
) -> None:
    values = _table(4, gradient_non_finite=gradients, weight_non_finite=weights)[None]
    first = ParameterTable(np.array([5]), ("a", "b", "c", "d"), COLUMNS, values).first_non_finite()
    assert first is not None
    assert (first.step, first.parameter, first.kind) == (5, *named)


def test_a_table_owns_its_arrays_whatever_kind_was_given() -> None:
    steps, values = np.array([5], np.int32), np.ones((1, 1, len(COLUMNS)), np.float32)
    table = ParameterTable(steps, ("a",), COLUMNS, values)
    steps[0], values[:] = 7, 7

    assert (table.steps.dtype, table.values.dtype) == (np.int64, np.float64)
    assert (table.steps.tolist(), table.column("gradient_rms").tolist()) == ([5], [[1.0]])


def test_values_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"must have the shape \(steps, parameters, columns\) = "):
        ParameterTable(np.array([1]), ("a",), COLUMNS, np.zeros((1, 2, 3)))


def test_logarithms_of_gradients_show_zeros_and_what_is_not_finite() -> None:
    values = np.stack(
        [
            _table(3, gradient_rms=[0.01, 0.0, 10.0]),
            _table(
                3,
                gradient_rms=[100.0, 1.0, np.nan],
                gradient_non_finite=[1, 0, np.nan],
                weight_non_finite=[0, 1, 0],
            ),
        ]
    )
    table = ParameterTable(np.array([5, 8]), ("a", "b", "c"), COLUMNS, values)

    np.testing.assert_array_equal(
        table.gradient_logarithms(), [[-2, -np.inf, 1], [np.inf, np.inf, np.nan]]
    )


def test_a_data_frame_has_a_row_for_every_step_and_parameter() -> None:
    pytest.importorskip("pandas")
    values = np.arange(2 * 3 * len(COLUMNS), dtype=float).reshape(2, 3, len(COLUMNS))

    frame = ParameterTable(np.array([5, 8]), ("a", "b", "c"), COLUMNS, values).to_pandas()

    assert frame.index.names == ["step", "parameter"]
    assert frame.index.tolist() == [(step, name) for step in (5, 8) for name in "abc"]
    assert list(frame.columns) == list(COLUMNS)
    assert frame.loc[(8, "b")].tolist() == values[1, 1].tolist()


@pytest.mark.parametrize("has_loss", [True, False])
def test_the_facts_of_a_run_name_the_first_number_that_is_not_finite_and_the_loss_then(
    tmp_path: Path, has_loss: bool
) -> None:
    write_parameter_run(tmp_path, has_loss=has_loss)
    run = FollowedRun(str(tmp_path))
    run.refresh()

    found = parameter_facts(run)

    assert found is not None
    loss = float(np.float32(1 / 30)) if has_loss else None
    assert found[1] == {
        "parameters": 3,
        "steps": [1, 10, 20, 30, 40],
        "first_not_finite": {
            "step": 30,
            "parameter": "last.weight",
            "kind": "gradient",
            "loss": loss,
        },
    }


def test_the_facts_of_a_run_of_finite_numbers_name_none(tmp_path: Path) -> None:
    _record(tmp_path, to_stored(_table(2)), to_stored(_table(3)))
    run = FollowedRun(str(tmp_path))
    run.refresh()

    found = parameter_facts(run)

    assert found is not None
    assert found[1] == {"parameters": 3, "steps": [1, 2], "first_not_finite": None}


def test_a_table_with_other_columns_is_not_read(tmp_path: Path) -> None:
    _record(tmp_path, to_stored(_table(2)))
    (tmp_path / ROW_NAMES_FILE).write_bytes(
        encode_row_names(["a", "b"]).replace(b"gradient_rms", b"gradient_abs")
    )

    assert SummaryReader(tmp_path).parameter_statistics() is None
