"""Imports of recorded files: mapping, units, rejected rows and the reasons."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from derivdata.errors import ArchiveError
from derivdata.sources.archive import import_files, open_archive
from tests.archive.rates import EVER

_MAP = {"symbol": "Symbol", "time": "Date", "rate_bps_8h": "Rate"}
_SET = {"exchange": "binance", "interval_hours": "8"}


def text(folder: Path, content: str, name: str = "in.csv") -> Path:
    path = folder / name
    folder.mkdir(exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return path


def settlements(folder: Path, content: str | Path, **options: Any) -> Any:
    said = {"map": _MAP, "set": _SET, "tz": "UTC", "unit": "native"} | options
    path = content if isinstance(content, Path) else text(folder, content)
    return import_files("funding_settlements", path, folder / "to", **said)


def held(folder: Path, table: str = "funding_settlements") -> pd.DataFrame:
    return open_archive(folder / "to", create=False).read(table, *EVER)


def test_columns_are_mapped_and_constants_set(tmp_path: Path) -> None:
    result = settlements(tmp_path, "Symbol,Date,Rate\nBTC-USDT,2020-01-01 00:00:00.000,-0.00012359\n")
    row = held(tmp_path).iloc[0]
    assert row[["symbol", "exchange", "kind"]].tolist() == ["BTC", "binance", "settled"]
    assert row["time"] == pd.Timestamp("2020-01-01", tz="UTC")
    assert row["rate_bps_8h"] == pytest.approx(-1.2359, rel=1e-14)
    assert row["interval_hours"] == 8.0
    assert (result.read, result.written, result.rejected) == (1, 1, 0)
    assert str(result) == "funding_settlements: 1 rows read, 1 written, 0 already there, 0 rejected"
    path = text(tmp_path, "symbol,exchange,time,rate_bps_8h\nBTC,okx,2020-01-01T00:00Z,0.0001\n")
    import_files("funding_history", path, tmp_path / "to", set={"interval_hours": "4"}, unit="native")
    row = held(tmp_path, "funding_history").iloc[0]
    assert row["rate_bps_8h"] == pytest.approx(2.0)
    assert row[["resolution", "kind"]].tolist() == ["raw", "sampled"]


@pytest.mark.parametrize(
    ("unit", "hours", "given", "bps_8h"),
    [
        ("native", "8", "0.0001", 1.0),
        ("native", "4", "0.0001", 2.0),
        ("percent", "1", "0.00125", 1.0),
        ("bps", "1", "0.125", 1.0),
        ("bps_8h", "1", "1", 1.0),
    ],
)
def test_units_of_rates(tmp_path: Path, unit: str, hours: str, given: str, bps_8h: float) -> None:
    said = {"exchange": "x", "interval_hours": hours}
    settlements(tmp_path, f"Symbol,Date,Rate\nBTC,2020-01-01,{given}\n", unit=unit, set=said)
    assert held(tmp_path)["rate_bps_8h"].iloc[0] == pytest.approx(bps_8h, rel=1e-14)


def test_unit_of_small_rates_in_a_mapped_column_is_required(tmp_path: Path) -> None:
    """A rate of 0.0128 % in 8 hours is 1.28 bps; without a unit it would be stored as 0.0128 bps."""
    times = pd.date_range("2020-01-01", periods=21, freq="8h")
    rows = [f"BTC,{time},{0.0127 + 0.0001 * (place % 3):.4f}" for place, time in enumerate(times)]
    content = "Symbol,Date,Rate\n" + "\n".join(rows) + "\n"
    constants = {"exchange": "x", "interval_hours": "8"}
    with pytest.raises(ArchiveError, match=r"unit of column Rate is unclear \(median 0\.0128\): pass --unit"):
        settlements(tmp_path, content, unit=None, set=constants)
    settlements(tmp_path, content, unit="percent", set=constants)
    assert held(tmp_path)["rate_bps_8h"].median() == pytest.approx(1.28)


def test_unit_of_small_rates_can_be_accepted(tmp_path: Path) -> None:
    content = "Symbol,Date,Rate\nBTC,2020-01-01,0.05\nBTC,2020-01-01 08:00,0.06\n"
    settlements(tmp_path, content, unit=None, set={"exchange": "x", "interval_hours": "8"}, accept=["unit"])
    assert held(tmp_path)["rate_bps_8h"].tolist() == [0.05, 0.06]


def test_intervals_may_differ_from_row_to_row(tmp_path: Path) -> None:
    content = "symbol,time,rate,h\nA,2020-01-01,0.0001,8\nB,2020-01-01,0.0001,1.0\nC,2020-01-01,0.0001,0\n"
    mapping = {"rate_bps_8h": "rate", "interval_hours": "h"}
    result = settlements(tmp_path, content, map=mapping, set={"exchange": "x"})
    assert held(tmp_path).set_index("symbol")["rate_bps_8h"].to_dict() == pytest.approx({"A": 1.0, "B": 8.0})
    assert result.first_rejected == ("in.csv, line 4: interval_hours=0 is not a funding interval")


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("1 days 00:00:00", 24.0),  # pandas 3, `to_csv`
        ("0 days 08:00:00", 8.0),
        ('"1 day, 0:00:00"', 24.0),  # `str` of a timedelta
        ("P1D", 24.0),  # ISO 8601
        ("P0DT6H0M0S", 6.0),  # pandas 3, `isoformat`
        ("1.00:00:00", 24.0),  # .NET
        ("2000-01-02T00:00:00.000Z", 24.0),  # BitMEX
        ("2000-01-01T12:00:00.000Z", 12.0),
        ("PT480M", 8.0),
    ],
)
def test_intervals_may_be_durations(tmp_path: Path, text: str, hours: float) -> None:
    mapping = {"rate_bps_8h": "rate", "interval_hours": "h"}
    content = f"symbol,time,rate,h\nA,2020-01-01,0.0001,{text}\n"
    settlements(tmp_path, content, map=mapping, set={"exchange": "x"})
    row = held(tmp_path).iloc[0]
    assert row["interval_hours"] == hours
    assert row["rate_bps_8h"] == pytest.approx(8.0 / hours, rel=1e-14)


@pytest.mark.parametrize("text", ["eight", "8 months", "P1M", "1.5.2", "NaT hours"])
def test_texts_that_are_not_durations_are_rejected(tmp_path: Path, text: str) -> None:
    mapping = {"rate_bps_8h": "rate", "interval_hours": "h"}
    content = f"symbol,time,rate,h\nA,2020-01-01,0.0001,8\nB,2020-01-01,0.0001,{text}\n"
    result = settlements(tmp_path, content, map=mapping, set={"exchange": "x"})
    assert (result.written, result.rejected) == (1, 1)
    assert f"interval_hours={text!r} is not a number" in str(result.first_rejected)


def test_volatility_may_be_in_percent(tmp_path: Path) -> None:
    content = (
        "symbol,exchange,time,instrument_name,expiry,strike,side,iv\n"
        "BTC,deribit,2025-12-05T01:10Z,B,2025-12-06T08:00Z,90000,Call,51.24\n"
    )
    path = text(tmp_path / "percent", content)
    with pytest.raises(
        ArchiveError, match=r"in\.csv: iv must be decimal .* percent, .*: pass --unit percent"
    ):
        import_files("options_snapshot", path, tmp_path / "percent" / "to")
    import_files("options_snapshot", path, tmp_path / "percent" / "to", unit="percent")
    row = held(tmp_path / "percent", "options_snapshot").iloc[0]
    assert row["iv"] == pytest.approx(0.5124)
    assert row["side"] == "call"
    assert pd.isna(row["underlying_price"])


_RECORDS = [
    {"Symbol": "BTC", "Date": "2020-01-01T00:00:00Z", "Rate": 0.0001},
    {"Symbol": "BTC", "Date": "2020-01-01T08:00:00Z", "Rate": "0.0003"},
    {"Symbol": "ETH", "Date": 1577836800000, "Rate": 2.6e-05},
]


@pytest.mark.parametrize(
    "kind", ["csv", "csv.gz", "tsv", "bom.csv", "json", "jsonl", "json lines", "json.gz"]
)
def test_every_kind_of_file_gives_the_same_rows(tmp_path: Path, kind: str) -> None:
    lines = ["Symbol;Date;Rate", *(";".join(map(str, r.values())) for r in _RECORDS)]
    content = {
        "csv": "\r\n".join(lines),
        "csv.gz": "\n".join(lines).replace(";", ","),
        "tsv": "\n".join(lines).replace(";", "\t"),
        "bom.csv": "\ufeff" + "\n".join(lines),
        "json": json.dumps(_RECORDS, indent=1),
        "json.gz": json.dumps(_RECORDS),
        "jsonl": "\n".join(map(json.dumps, _RECORDS)) + "\n\n",
        "json lines": "\n".join(map(json.dumps, _RECORDS)),
    }[kind]
    path = tmp_path / f"in.{kind.replace(' lines', '')}"
    data = content.encode()
    path.write_bytes(gzip.compress(data, mtime=0) if kind.endswith("gz") else data)
    result = settlements(tmp_path, path, tz=None)
    assert (result.read, result.written) == (3, 3)
    rows = held(tmp_path)[["symbol", "time", "rate_bps_8h"]].to_numpy().tolist()
    assert rows == [
        ["BTC", pd.Timestamp("2020-01-01", tz="UTC"), pytest.approx(1.0)],
        ["BTC", pd.Timestamp("2020-01-01T08", tz="UTC"), pytest.approx(3.0)],
        ["ETH", pd.Timestamp("2020-01-01", tz="UTC"), pytest.approx(0.26)],
    ]


@pytest.mark.parametrize("zoned", [True, False])
def test_parquet_with_its_own_types(tmp_path: Path, zoned: bool) -> None:
    times = pd.to_datetime(["2020-01-01", "2020-01-02"]).as_unit("ns")
    frame = pd.DataFrame(
        {
            "Symbol": pd.Categorical(["BTC", "ETH"]),
            "Date": times.tz_localize("Etc/GMT-3") if zoned else times,
            "Rate": [0.0001, 0.0002],
            "unused": [{"a": 1}, None],
        }
    )
    frame.to_parquet(tmp_path / "in.parquet")
    settlements(tmp_path, tmp_path / "in.parquet", tz=None if zoned else "Etc/GMT-3")
    assert held(tmp_path)["time"].tolist() == [
        pd.Timestamp("2019-12-31T21", tz="UTC"),
        pd.Timestamp("2020-01-01T21", tz="UTC"),
    ]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("BTC,2020-01-02,abc", "rate_bps_8h='abc' is not a number"),
        ("BTC,2020-01-02,inf", "rate_bps_8h='inf' is not a number"),
        ("BTC,2020-01-02,1_0", "rate_bps_8h='1_0' is not a number"),
        ("BTC,2020-01-02,", "rate_bps_8h is missing"),
        ("BTC,2020-01-02,NaN", "rate_bps_8h is missing"),
        ("BTC,soon,1", "time='soon' is not a time: expected ISO 8601 or a number since 1970"),
        (
            "BTC,01/02/2020,1",
            "time='01/02/2020' is ambiguous, because the file does not show the order of day and month",
        ),
        ("BTC,20201302,1", "time='20201302' is not a time: expected ISO 8601 or a number since 1970"),
        ("BTC,2020-01-02,3001", "rate_bps_8h is a payment of 30.01 % of the position: at most 30 %"),
        ("BTC,2020-01-02,٣", "rate_bps_8h='٣' is not a number"),
        (
            "BTC,2226-01-01,1",
            "time=2226-01-01T00:00:00Z is in the future: correct it, or pass --accept future",
        ),
        ("BTC,,1", "time is missing"),
        (",2020-01-02,1", "symbol is missing"),
        ("BTC,2020-01-02", "got 2 fields, but the first line has 3 columns"),
        ("BTC,2020-01-02,1,9", "got 4 fields, but the first line has 3 columns"),
    ],
)
def test_invalid_row_is_counted_with_its_line_and_reason(tmp_path: Path, line: str, why: str) -> None:
    good = "BTC,2020-01-01,1"
    content = f"Symbol,Date,Rate\n{good}\n\n{line}\n{line}\nETH,2020-01-01,2\n"
    result = settlements(tmp_path, content, unit="bps")
    assert (result.read, result.written, result.rejected) == (4, 2, 2)
    assert result.first_rejected.startswith(f"in.csv, line 4: {why}")
    assert str(result).endswith(f"2 rejected; the first: {result.first_rejected}")
    assert [line.partition(":")[0] for line in result.rejections] == ["in.csv, line 4", "in.csv, line 5"]


def test_rejected_rows_are_counted_and_the_first_is_named(tmp_path: Path) -> None:
    lines = ["Symbol,Date,Rate", "A,2020-01-01,1", "A,2020-01-02,", "A,never,1", "A,2020-01-04,x"]
    result = settlements(tmp_path, "\n".join(lines), unit="bps")
    assert result.rejected == 3
    assert result.first_rejected == "in.csv, line 3: rate_bps_8h is missing"
    good = json.dumps(_RECORDS[0])
    path = text(
        tmp_path / "records",
        f'{good}\n{{"Symbol": "A", "Symbol": "B"}}\n[1]\n'
        '{"Symbol": \n{"Symbol": {"a": 1}, "Rate": true}\n',
        "in.jsonl",
    )
    result = settlements(tmp_path / "records", path, tz=None)
    assert (result.written, result.rejected) == (1, 4)
    assert result.first_rejected == "in.jsonl, line 2: no record: an object in it has the same key twice"
    with pytest.raises(ArchiveError, match=r"all 2 rows were rejected .*line 2: time='never' is not a time"):
        settlements(tmp_path / "none", "Symbol,Date,Rate\nA,never,1\nB,never,1\n", tz=None)
    assert open_archive(tmp_path / "none" / "to").tables() == frozenset()
    assert settlements(tmp_path / "header", "Symbol,Date,Rate\n").read == 0


def test_stored_and_differing_rows_are_counted(tmp_path: Path) -> None:
    content = "Symbol,Date,Rate\nA,2020-01-01,1\nA,2020-01-01,1\nA,2020-01-01,2\nA,2020-01-02,1\n"
    result = settlements(tmp_path, content, unit="bps")
    assert (result.written, result.present, result.differing) == (2, 1, 1)
    again = settlements(tmp_path, content.replace("02,1", "02,3"), unit="bps")
    assert (again.written, again.present, again.differing) == (0, 2, 2)
    assert "2 already stored with other values (the stored values are kept)" in str(again)
    assert held(tmp_path)["rate_bps_8h"].tolist() == [1.0, 1.0]


def test_one_quote_currency_is_imported_per_symbol(tmp_path: Path) -> None:
    """BTC has a USDT contract on okx, so the USDC one is let go even where USDT lacks an hour."""
    one = text(tmp_path, "Symbol,exchange,Date,Rate\nBTC-USDC,okx,2020-01-01,5\nBTC-USDC,okx,2020-01-02,5\n")
    two = text(
        tmp_path,
        "Symbol,exchange,Date,Rate\nBTC-USDT-SWAP,okx,2020-01-01,1\nBTC-USDC,gate,2020-01-01,7\n",
        "two.csv",
    )
    result = import_files(
        "funding_settlements",
        [one, two],
        tmp_path / "to",
        map=_MAP,
        set={"interval_hours": "8"},
        tz="UTC",
        unit="bps_8h",
    )
    assert (result.written, result.other_quotes) == (2, 2)
    assert "2 of a quote currency of lower priority" in str(result)
    found = held(tmp_path)[["symbol", "exchange", "rate_bps_8h"]].to_numpy().tolist()
    assert found == [["BTC", "gateio", 7.0], ["BTC", "okx", 1.0]]


_LIQUIDATIONS = "\n".join(
    [
        "timestamp,venue,coin,side,size_usd,price",
        "2025-05-25T14:36:58.596Z,hyperliquid,HYPE,S,101.25,38.5",
        "2025-05-25T14:36:58.596Z,hyperliquid,HYPE,S,101.25,38.5",
        "2025-05-25T14:36:59Z,hyperliquid,HYPE,S,7,38.5",
    ]
)
_LIQUIDATIONS_MAP = {
    "time": "timestamp",
    "exchange": "venue",
    "symbol": "coin",
    "value_usd": "size_usd",
    "fill_price_usd": "price",
}


def liquidations(folder: Path, content: str, name: str = "in.csv", **options: Any) -> Any:
    said = {"map": _LIQUIDATIONS_MAP, "set": {"side": "long", "status": "filled"}} | options
    return import_files("liquidations_events", text(folder, content, name), folder / "to", **said)


def test_orders_without_an_id_get_a_reproducible_one(tmp_path: Path) -> None:
    assert liquidations(tmp_path, _LIQUIDATIONS).written == 3
    found = held(tmp_path, "liquidations_events")
    assert found["order_id"].nunique() == 3
    assert found["value_usd"].tolist() == [101.25, 101.25, 7.0]
    assert found["side"].tolist() == ["long"] * 3
    assert found["quantity"].isna().all()
    liquidations(tmp_path / "again", _LIQUIDATIONS)
    ids = held(tmp_path / "again", "liquidations_events")["order_id"].tolist()
    again = liquidations(tmp_path / "again", _LIQUIDATIONS, "copy.csv")
    assert (again.written, again.present) == (0, 3)
    other = tmp_path / "again" / "other"
    other.mkdir()
    liquidations(other, _LIQUIDATIONS)
    assert held(other, "liquidations_events")["order_id"].tolist() == ids
    lines = _LIQUIDATIONS.splitlines()[:2]
    content = f"{lines[0]},oid\n{lines[1]},123456789012345678\n"
    liquidations(tmp_path / "given", content, map=_LIQUIDATIONS_MAP | {"order_id": "oid"})
    assert held(tmp_path / "given", "liquidations_events")["order_id"].tolist() == ["123456789012345678"]
    path = text(tmp_path / "fills", _LIQUIDATIONS)
    result = import_files(
        "liquidations_fills", path, tmp_path / "fills" / "to", map=_LIQUIDATIONS_MAP, set={"side": "short"}
    )
    assert result.written == 3
    assert held(tmp_path / "fills", "liquidations_fills")["fill_id"].nunique() == 3


def test_booleans_must_be_true_false_1_or_0(tmp_path: Path) -> None:
    lines = [
        "exchange_id,start,session,time,end,is_tradable",
        *(f"nyse,2026-01-0{i}T00Z,{i},2026-01-05T00Z,2026-01-06T00Z,{f}" for i, f in enumerate("10", 1)),
        "nyse,2026-01-03T00Z,3,2026-01-05T00Z,2026-01-06T00Z,True",
        "nyse,2026-01-04T00Z,4,2026-01-05T00Z,2026-01-06T00Z,maybe",
    ]
    result = import_files("rwa_market_hours", text(tmp_path, "\n".join(lines)), tmp_path / "to")
    assert result.first_rejected == "in.csv, line 5: is_tradable='maybe' is not true or false"
    assert held(tmp_path, "rwa_market_hours")["is_tradable"].tolist() == [True, False, True]


def test_quotes_sides_and_counts_of_liquidations(tmp_path: Path) -> None:
    result = liquidations(
        tmp_path, _LIQUIDATIONS.replace("HYPE", "HYPE-USDC", 1).replace("HYPE,", "HYPE-USDT,")
    )
    assert (result.written, result.other_quotes) == (3, 0)
    assert held(tmp_path, "liquidations_events")["symbol"].tolist() == ["HYPE"] * 3
    with pytest.raises(
        ArchiveError,
        match=r"side='S' is not long or short: pass its meaning with --map-value side:S=long or",
    ):
        liquidations(tmp_path / "sides", _LIQUIDATIONS, set={})
    content = _LIQUIDATIONS.replace("price", "price,fill_count").replace("38.5", "38.5,1.5", 1)
    content = content.replace("38.5\n", "38.5,2\n").removesuffix("38.5") + "38.5,3"
    result = liquidations(tmp_path / "counts", content)
    assert result.first_rejected == "in.csv, line 2: fill_count=1.5 is not a whole number"
    assert sorted(held(tmp_path / "counts", "liquidations_events")["fill_count"]) == [2, 3]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"map": {**_MAP, "price": "x"}}, "map: table funding_settlements has no column 'price'"),
        ({"set": {**_SET, "sied": "x"}}, "set: table funding_settlements has no column 'sied'"),
        ({"set": {**_SET, "symbol": "BTC"}}, "column 'symbol' is in both map and set"),
        ({"unit": "apr"}, "unit must be one of bps_8h, native, percent, bps,"),
        ({"unit": "fraction"}, "got 'fraction'; a fraction per interval is 'native'"),
        ({"tz": "Europe/Atlantis"}, "tz='Europe/Atlantis' is not a time zone"),
        ({"table": "fundings"}, "'fundings' cannot be archived"),
        ({"table": "volume_history", "map": {}, "set": {}}, "volume_history has no column to convert"),
        ({"files": []}, "files must name at least one file"),
    ],
)
def test_invalid_options_raise_before_a_file_is_opened(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    said = {"table": "funding_settlements", "files": "absent.csv", "map": _MAP, "set": _SET, "unit": "native"}
    with pytest.raises(ValueError, match=message):
        import_files(**said | options, to=tmp_path / "to")


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("absent.csv", None, "cannot be read: No such file"),
        ("in.xlsx", b"PK\0\0", "the file is not CSV, JSON, Parquet or Feather"),
        ("in.csv", b"", "the file is empty"),
        ("in.json", b"  ", "the file is empty"),
        ("in.csv", b"Symbol,Symbol\nA,B\n", "two columns have the name 'Symbol'"),
        ("in.csv", b"Symbol,Date,Rate\nB\xe9,2020-01-01,1\n", "cannot be read: .*UTF-?8"),
        ("in.json", b'[{"a": 1}', "cannot be read"),
        ("in.json", b"[" * 100_000, "cannot be read: the JSON is nested too deeply"),
        ("in.json", b'[{"Symbol": "A", "Symbol": "B"}]', "cannot be read: .* same key twice"),
        ("in.csv.gz", gzip.compress(b"Symbol,Date,Rate\n" * 99, mtime=0)[:-20], "cannot be read"),
        ("in.csv.gz", b"\x1f\x8bno gzip", "cannot be read"),
        ("in.parquet", b"PAR1 no parquet PAR1", "cannot be read"),
    ],
)
def test_unreadable_file_raises_one_clear_error(
    tmp_path: Path, name: str, content: bytes | None, why: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ArchiveError, match=f"{name}: {why}"):
        settlements(tmp_path, tmp_path / name)


def test_missing_column_is_named_with_the_available_ones(tmp_path: Path) -> None:
    content = "Symbol,When,Rate\nBTC,2020-01-01,1\n"
    sampled = text(tmp_path, "symbol,time,rate_bps_8h\nA,2020-01-01,1\n")
    said: dict[str, Any] = {"set": {"exchange": "x"}, "tz": "UTC", "unit": "native"}
    with pytest.raises(ArchiveError, match="rates in native are per the venue's own interval"):
        import_files("funding_history", sampled, tmp_path / "to", **said)
    for options, told in (
        ({}, "no column 'Date' for time.*; the file has Symbol, When, Rate"),
        ({"map": {"symbol": "Symbol", "rate_bps_8h": "Rate"}}, "name the column with --map time="),
    ):
        with pytest.raises(ArchiveError, match=told):
            settlements(tmp_path, content, **options)


def test_large_files_are_read_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Line numbers, equal rows and repeated keys are distinguished across the bites."""
    monkeypatch.setattr("derivdata.sources.archive.importing.readers.CHUNK_ROWS", 2)
    monkeypatch.setattr("derivdata.sources.archive.importing.buffered_rows.HOLD_ROWS", 3)
    rows = "\n".join(_LIQUIDATIONS.splitlines()[1:])
    content = f"{_LIQUIDATIONS}\n{rows}\nx\n"
    result = liquidations(tmp_path, content)
    assert (result.read, result.written, result.rejected) == (7, 6, 1)
    assert result.first_rejected == "in.csv, line 8: got 1 fields, but the first line has 6 columns"
    assert liquidations(tmp_path, content).present == 6


def test_chain_read_in_several_chunks_has_one_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two chains of five options, a second between rows, and bites of three rows."""
    monkeypatch.setattr("derivdata.sources.archive.importing.readers.CHUNK_ROWS", 2)
    monkeypatch.setattr("derivdata.sources.archive.importing.buffered_rows.HOLD_ROWS", 3)
    lines = ["symbol,exchange,time,instrument_name,expiry,strike,side,iv,open_interest,underlying_price"]
    for hour in (0, 2):
        for second, strike in enumerate((80, 90, 100, 110, 120)):
            time = f"2026-01-01T{hour:02}:00:{second:02}Z"
            name = f"BTC-27MAR26-{strike}-C"
            lines.append(f"BTC,deribit,{time},{name},2026-03-27T08:00:00Z,{strike},call,0.5,1,100")
    path = text(tmp_path, "\n".join(lines) + "\n")
    assert import_files("options_snapshot", path, tmp_path / "to").written == 10
    window = pd.Timestamp("2026-01-01", tz="UTC"), pd.Timestamp("2026-01-02", tz="UTC")
    rows = open_archive(tmp_path / "to").read("options_snapshot", *window)
    stamps = rows["time"].value_counts().sort_index()
    assert stamps.index.strftime("%H:%M:%S").tolist() == ["00:00:04", "02:00:04"]
    assert stamps.tolist() == [5, 5]
    assert rows["quoted_at"].dt.second.tolist() == [0, 1, 2, 3, 4] * 2


def test_values_outside_the_allowed_words_are_rejected(tmp_path: Path) -> None:
    path = text(tmp_path, "symbol,exchange,time,rate_bps_8h\nBTC,okx,2026-01-01T00:00:00Z,1.5\n")
    for column, word, told in (
        ("resolution", "hourly", "is not raw or 1m or "),
        ("kind", "whatever", "is not sampled or settled"),
    ):
        with pytest.raises(ArchiveError, match=f"{column}='{word}' {told}"):
            import_files("funding_history", path, tmp_path / "to", set={column: word})


PRICES = "symbol,time,price\nBTC-USDT,2026-01-01 00:00,90000.5\nBTC-USDT,2026-01-01 01:00,{}\n"


def prices(folder: Path, second: str, **options: Any) -> Any:
    said = {"map": {"price_usd": "price"}, "set": {"exchange": "binance", "kind": "mark"}, "tz": "UTC"}
    return import_files(
        "prices_history", text(folder, PRICES.format(second)), folder / "to", **said | options
    )


def test_prices_are_imported_as_one_kind(tmp_path: Path) -> None:
    assert prices(tmp_path, "91000").written == 2
    rows = held(tmp_path, "prices_history")
    assert rows["price_usd"].tolist() == [90000.5, 91000.0]
    assert rows[["symbol", "kind", "resolution"]].drop_duplicates().to_numpy().tolist() == [
        ["BTC", "mark", "raw"]
    ]
    with pytest.raises(ArchiveError, match=r"prices_history\.kind is not in the file"):
        prices(tmp_path, "91000", set={"exchange": "binance"})
    for none in ("0", "-5"):
        assert prices(tmp_path / none, none).rejected == 1


def interest(folder: Path, content: str, **options: Any) -> Any:
    said = {"set": {"exchange": "binance", "symbol": "BTC"}, "unit": "coins"} | options
    return import_files("oi_history", text(folder, content), folder / "to", **said)


@pytest.mark.parametrize(
    ("head", "options"),
    [
        ("time,oi_usd,price_usd", {}),
        ("time,coins,mark", {"map": {"oi_usd": "coins", "price_usd": "mark"}}),
    ],
)
def test_open_interest_in_coins_is_converted_with_prices_of_the_file(
    tmp_path: Path, head: str, options: Any
) -> None:
    """90,171 coins at 60,000 and 90,000 at 61,000; a price of 0 counts as missing."""
    content = f"{head}\n2026-01-01,90171,60000\n2026-01-01 01:00,90000,61000\n2026-01-01 02:00,1,0\n"
    result = interest(tmp_path, content, tz="UTC", **options)
    assert held(tmp_path, "oi_history")["oi_usd"].tolist() == [5_410_260_000.0, 5_490_000_000.0]
    assert (result.written, result.rejected) == (2, 1)
    assert result.first_rejected.endswith("price_usd=0 is not positive")


def test_open_interest_in_coins_is_converted_with_prices_of_the_archive(tmp_path: Path) -> None:
    """The venue's mark of the hour before, else its last price, else another venue's; never a later one."""
    prices = pd.DataFrame(
        [
            ("binance", "00:30", "mark", 60_000.0),
            ("binance", "00:30", "last", 1.0),
            ("okx", "00:59", "mark", 2.0),
            ("binance", "01:10", "last", 61_000.0),
            ("okx", "04:00", "index", 62_000.0),
            ("binance", "04:01", "mark", 3.0),
        ],
        columns=["exchange", "time", "kind", "price_usd"],
    ).assign(symbol="BTC", resolution="raw")
    prices["time"] = pd.to_datetime("2026-01-01 " + prices["time"], utc=True)
    archive = open_archive(tmp_path / "to")
    archive.append("prices_history", prices)
    content = "time,oi_usd\n2026-01-01 01:00,100000\n2026-01-01 02:00,100000\n2026-01-01 04:00,100000\n"
    interest(tmp_path, content, tz="UTC")
    assert held(tmp_path, "oi_history")["oi_usd"].tolist() == [6.0e9, 6.1e9, 6.2e9]


def test_open_interest_in_coins_without_a_price_is_rejected(tmp_path: Path) -> None:
    said = r"1 of 1 rows are in coins, and the archive has no price of BTC within the hour before 2026-01-01"
    with pytest.raises(ArchiveError, match=said):
        interest(tmp_path, "time,oi_usd\n2026-01-01,90171\n", tz="UTC")
    assert not open_archive(tmp_path / "to").tables()
    with pytest.raises(ValueError, match="'price_usd'"):
        interest(tmp_path, "time,oi_usd,p\n2026-01-01,1,1\n", unit="usd", map={"price_usd": "p"})
    rows = "".join(f"2026-01-{i + 1:02d},90171\n" for i in range(31))
    with pytest.raises(ArchiveError, match="pass --unit coins"):
        interest(tmp_path, f"time,oi_usd\n{rows}", tz="UTC", unit=None)
