"""Tables and panels in other libraries, as docs/panels-and-surfaces.md shows."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import derivdata as dd
from derivdata.errors import SchemaError


@pytest.fixture
def rates() -> pd.DataFrame:
    dd.connect("sample")
    return dd.funding.history(["BTC", "ETH"], "2026-06-01", "2026-06-08", venues=["binance", "hyperliquid"])


def _arrow(frame: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(frame, preserve_index=False)


def _polars(frame: pd.DataFrame) -> Any:
    return pytest.importorskip("polars").from_pandas(frame)


def _relation(frame: pd.DataFrame) -> Any:
    return pytest.importorskip("duckdb").sql("select * from frame")


def _arrow_backed(frame: pd.DataFrame) -> pd.DataFrame:
    return _arrow(frame).to_pandas(types_mapper=pd.ArrowDtype)


def _ordered(frame: pd.DataFrame) -> pd.DataFrame:
    words = sorted(frame["exchange"].unique(), reverse=True)
    return frame.astype({"exchange": pd.CategoricalDtype(words, ordered=True)})


LIBRARIES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "polars": _polars,
    "polars, lazy": lambda frame: _polars(frame).lazy(),
    "pyarrow": _arrow,
    "pyarrow, a stream": lambda frame: _arrow(frame).to_reader(),
    "pyarrow, one batch": lambda frame: _arrow(frame).combine_chunks().to_batches()[0],
    "DuckDB": _relation,
    "DuckDB, as pandas": lambda frame: _relation(frame).df(),
    "ibis": lambda frame: pytest.importorskip("ibis").memtable(frame),
    "narwhals": lambda frame: pytest.importorskip("narwhals").from_native(frame),
    "narwhals of polars": lambda frame: pytest.importorskip("narwhals").from_native(_polars(frame).lazy()),
    "dask": lambda frame: pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=2),
    "pandas on Arrow": _arrow_backed,
    "pandas, ordered categories": _ordered,
    "pandas, keys in the index": lambda frame: frame.set_index(["symbol", "exchange", "time"]),
    "pandas, time in the index": lambda frame: frame.set_index("time"),
}
libraries = pytest.mark.parametrize("library", LIBRARIES)
# DuckDB 2.0 and ibis 12 use options of pandas that pandas 3.1 deprecates.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The inplace keyword"),
    pytest.mark.filterwarnings("ignore:The 'future.infer_string' option"),
]


@libraries
def test_panel_of_another_librarys_table_is_equal(library: str, rates: pd.DataFrame) -> None:
    """Only the provenance is lost, which most tables of another library cannot carry."""
    expected = dd.panel(rates)
    panel = dd.panel(LIBRARIES[library](rates))
    np.testing.assert_array_equal(panel.values, expected.values)
    for name in expected.dims:
        np.testing.assert_array_equal(panel[name].values, expected[name].values)
        assert panel[name].dtype == expected[name].dtype
    assert panel.attrs["units"] == "bps/8h"
    assert panel.attrs["kind"] == "sampled"


@libraries
def test_conform_takes_every_library(library: str, rates: pd.DataFrame) -> None:
    table = dd.tables.TABLES["funding_history"].conform(LIBRARIES[library](rates))
    pd.testing.assert_frame_equal(table, rates)


@libraries
def test_lists_of_tables_are_taken(library: str, rates: pd.DataFrame) -> None:
    halves = [rates[rates["symbol"] == name].reset_index(drop=True) for name in ("ETH", "BTC")]
    if "keys" in library or "time in" in library:
        pytest.skip("columns are compared in their order, which an index does not hold")
    pd.testing.assert_frame_equal(dd.concat([LIBRARIES[library](half) for half in halves]), rates)


@libraries
def test_reports_and_figures_accept_tables_of_other_libraries(library: str, rates: pd.DataFrame) -> None:
    report = dd.quality(LIBRARIES[library](rates))
    assert report["present"].tolist() == [168] * 4
    assert list(report["exchange"]) == ["binance", "hyperliquid"] * 2
    ax = dd.plot.funding_history(LIBRARIES[library](rates), symbol="BTC", source=rates, step="1h")
    assert len(ax.lines[0].get_xdata()) == 168


def test_missing_values_and_counts_survive_every_library() -> None:
    """Whole numbers with a missing one, flags with a missing one and decimals: 2, missing; 1.5."""
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    from derivdata.support.plain_data import to_pandas

    query = "select * from (values (2, true, 1.5::decimal(9,1)), (null, null, 0.1)) as t(count, flag, price)"
    for frame in (to_pandas(duckdb.sql(query)), to_pandas(duckdb.sql(query).pl())):
        assert frame["count"].tolist()[0] == 2
        assert frame["count"].isna().tolist() == [False, True]
        assert frame["flag"].dtype == "boolean"
        assert frame["flag"].isna().tolist() == [False, True]
        assert frame["price"].tolist() == [1.5, 0.1]
        assert frame["price"].dtype == np.float64
    empty = to_pandas(polars.DataFrame({"time": []}, schema={"time": polars.Datetime("ms", "Asia/Tokyo")}))
    assert str(empty["time"].dtype) == "datetime64[ms, Asia/Tokyo]"


@pytest.mark.parametrize("value", ["rates", 3, [1, 2], {"a": [1]}, np.ones(3), None])
def test_what_is_not_a_table_is_rejected(value: Any) -> None:
    with pytest.raises(TypeError, match=r"table must be a pandas\.DataFrame"):
        dd.panel(value)
    with pytest.raises(TypeError, match=r"table must be a pandas\.DataFrame"):
        dd.tables.TABLES["funding_history"].conform(value)


def test_a_single_column_is_not_a_table() -> None:
    polars = pytest.importorskip("polars")
    for column in (polars.Series([1.0]), pa.chunked_array([[1.0]]), pa.array([1.0])):
        with pytest.raises(TypeError, match=r"table must be a pandas\.DataFrame"):
            dd.panel(column)


def _csv(frame: pd.DataFrame) -> io.StringIO:
    return io.StringIO(frame.to_csv(index=False))


def test_identifiers_of_digits_round_trip_csv() -> None:
    dd.connect("sample")
    trades = dd.options.trades("BTC", "2026-06-30T10:00", "2026-06-30T12:00", venues=["okx"])
    table = dd.tables.TABLES["options_trades"]
    digits = trades["trade_id"].str.isdecimal()
    assert digits.all()
    pd.testing.assert_frame_equal(table.conform(pd.read_csv(_csv(trades))), trades)
    pd.testing.assert_frame_equal(table.read_csv(_csv(trades)), trades)
    zeros = trades.assign(trade_id=[f"00{n}" for n in range(len(trades))])
    pd.testing.assert_frame_equal(table.read_csv(_csv(zeros)), table.conform(zeros))


def test_floats_are_identifiers_only_if_they_are_exact_and_some_are_missing() -> None:
    dd.connect("sample")
    snapshot = dd.options.trades("BTC", "2026-06-30T10:00", "2026-06-30T12:00", venues=["okx"])
    table = dd.tables.TABLES["options_trades"]
    optional = next(n for n, c in table.columns.items() if c.kind == "category" and n not in table.key)
    numbers = snapshot.assign(**{optional: [7.0, np.nan] + [8.0] * (len(snapshot) - 2)})
    if not table.columns[optional].allowed:
        assert set(table.conform(numbers)[optional].dropna()) == {"7", "8"}
    for value in (1.5, 2.0**53):
        with pytest.raises(SchemaError, match=f"{optional} is not"):
            table.conform(numbers.assign(**{optional: [value, np.nan] + [8.0] * (len(snapshot) - 2)}))
    with pytest.raises(SchemaError, match="trade_id is not label"):
        table.conform(snapshot.assign(trade_id=np.arange(len(snapshot), dtype=np.float64)))


def test_empty_text_and_words_for_missing_round_trip_csv(rates: pd.DataFrame) -> None:
    buckets = dd.markets.price_buckets()
    assert (buckets["symbols"] == "").any()
    table = dd.tables.TABLES["markets_price_buckets"]
    pd.testing.assert_frame_equal(table.conform(pd.read_csv(_csv(buckets))), buckets)
    pd.testing.assert_frame_equal(table.read_csv(_csv(buckets)), buckets)
    table = dd.tables.TABLES["funding_history"]
    for name in ("NULL", "NA", "NAN", "None", "007"):
        one = rates[rates["symbol"] == "BTC"].assign(symbol=name)
        expected = table.conform(one)
        pd.testing.assert_frame_equal(table.read_csv(_csv(one)), expected)
        assert set(expected["symbol"]) == {name}
    with pytest.raises(SchemaError, match=r"missing in 336 rows.*read_csv\(path\)"):
        table.conform(pd.read_csv(_csv(rates[rates["symbol"] == "BTC"].assign(symbol="NULL"))))


def test_csv_readers_of_other_libraries(rates: pd.DataFrame, tmp_path: Path) -> None:
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    path = tmp_path / "rates.csv"
    rates.to_csv(path, index=False)
    table = dd.tables.TABLES["funding_history"]
    for read in (
        polars.read_csv(path),
        polars.scan_csv(path, try_parse_dates=True),
        duckdb.read_csv(str(path)),
        pa.csv.read_csv(path) if hasattr(pa, "csv") else polars.read_csv(path),
    ):
        pd.testing.assert_frame_equal(table.conform(read), rates)


def test_narwhals_is_not_imported_for_pandas() -> None:
    code = (
        "import sys, pandas as pd, derivdata as dd; dd.connect('sample');"
        "dd.panel(dd.funding.history('BTC', '1d', venues=['okx']));"
        "assert 'narwhals' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_pandera_checks_tables(rates: pd.DataFrame) -> None:
    pandera = pytest.importorskip("pandera")
    schema = dd.tables.TABLES["funding_history"].to_pandera()
    pd.testing.assert_frame_equal(schema.validate(rates), rates)
    faults = {
        "rate_bps_8h": rates.assign(rate_bps_8h=1e6),
        "kind": rates.assign(kind=pd.Categorical(["guessed"] * len(rates))),
        "time": rates.assign(time=rates["time"].dt.tz_localize(None)),
        "symbol": pd.concat([rates, rates.head(1)], ignore_index=True),
    }
    for name, frame in faults.items():
        with pytest.raises(pandera.errors.SchemaError, match=name):
            schema.validate(frame)
    for table in dd.tables.TABLES.values():
        if hasattr(table, "to_pandera"):
            table.to_pandera().validate(table.empty())


def test_steps_of_pandas_do_not_copy_the_requests(rates: pd.DataFrame) -> None:
    joined = dd.concat([rates[rates["symbol"] == name] for name in ("BTC", "ETH")])
    read = dd.tables.TABLES["funding_history"].conform(rates)
    read.attrs["provenance"] = dict(rates.attrs["provenance"])
    for frame in (rates, joined, dd.tables.TABLES["funding_history"].conform(read)):
        requests = frame.attrs["provenance"]["requests"]
        assert frame.head().attrs["provenance"]["requests"] is requests


@pytest.mark.parametrize("dtype", ["int64", "Int64", "int64[pyarrow]", "polars"])
def test_whole_numbers_of_another_library_are_values(dtype: str) -> None:
    times = pd.to_datetime(["2026-06-01", "2026-06-02"], utc=True)
    table = pd.DataFrame({"symbol": "BTC", "exchange": "okx", "time": times, "my_volume_usd": [3, 4]})
    given = _polars(table) if dtype == "polars" else table.astype({"my_volume_usd": dtype})
    panel = dd.panel(given)
    assert panel.name == "my_volume_usd"
    assert panel.values.ravel().tolist() == [3.0, 4.0]
    with pytest.raises(ValueError, match=r"columns of numbers \(my_volume_usd, trades\)"):
        dd.panel(table.assign(trades=[1, 2]))
