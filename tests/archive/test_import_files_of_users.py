"""Files as users have them: vendors, frameworks and spreadsheets, with at most one option."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from derivdata.cli import main
from derivdata.errors import ArchiveError
from derivdata.sources.archive import import_files, open_archive
from derivdata.sources.archive.importing import Unclear
from derivdata.sources.archive.importing.market_names import names_in_path
from tests.archive.rates import EVER

_START = 1_772_323_200  # 2026-03-01T00:00Z
_RATES = (0.0001, -0.00002, 0.00005) * 3


def _stamps(form: str) -> list[str]:
    return [pd.Timestamp(_START + place * 28_800, unit="s").strftime(form) for place in range(len(_RATES))]


def _lines(header: str, form: str, text: str, separator: str = ",") -> str:
    rows = [
        text.format(time=time, rate=rate, percent=rate * 100, comma=f"{rate:.6f}".replace(".", ","))
        for time, rate in zip(_stamps(form), _RATES, strict=True)
    ]
    return "\n".join([header, *rows]).replace("|", separator) + "\n"


def _records(**names: str) -> list[dict[str, Any]]:
    fixed = {name: word for name, word in names.items() if name not in ("time", "rate")}
    return [
        {**fixed, names["rate"]: f"{rate:.8f}", names["time"]: str((_START + place * 28_800) * 1000)}
        for place, rate in enumerate(_RATES)
    ]


_FUNDING: dict[str, tuple[str, list[str], str]] = {
    # file: content, options, venue
    "bitget.json": (
        json.dumps({"data": _records(symbol="BTCUSDT", time="fundingTime", rate="fundingRate")}),
        [],
        "bitget",
    ),
    "aster.csv": (
        _lines("symbol,fundingTime,fundingRate", "%Y-%m-%dT%H:%M:%SZ", "BTCUSDT,{time},{rate}"),
        ["--set", "exchange=aster"],
        "aster",
    ),
    "dune_okx.csv": (
        _lines("block_time,coin,funding_rate", "%Y-%m-%d %H:%M:%S.000 UTC", "{time},BTC,{rate}"),
        [],
        "okx",
    ),
    "export_okx.csv": (
        _lines("Date,Symbol,Funding Rate", "%Y/%m/%d %H:%M:%S", "{time},BTCUSDT,{percent:.4f}%"),
        [],
        "okx",
    ),
    "export_bybit.csv": (
        _lines("UTC Time,Contract,Funding Rate,Interval", "%Y-%m-%d %H:%M", "{time},BTC,{percent:.4f}%,8h"),
        [],
        "bybit",
    ),
    "german_okx.csv": (
        _lines("Date;Symbol;Funding-Rate", "%d.%m.%Y %H:%M", "{time};BTCUSDT;{comma}"),
        [],
        "okx",
    ),
    "cryptofuture/binance/margin_interest/btcusdt.csv": (
        _lines("20260228 16:00:00,0.0001", "%Y%m%d %H:%M:%S", "{time},{rate}"),
        [],
        "binance",
    ),
    "apr_okx.csv": (
        # 1,095 payments of 0.01 % a year are 10.95 %.
        "timestamp,symbol,funding_rate_apr_pct\n"
        + "".join(
            f"{time},BTC,{percent}\n"
            for time, percent in zip(_stamps("%Y-%m-%dT%H:%M:%SZ"), (10.95, -2.19, 5.475) * 3, strict=True)
        ),
        [],
        "okx",
    ),
}  # fmt: skip


def _import(folder: Path, name: str, content: str | bytes, *options: str) -> None:
    path = folder / "in" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    assert main(["import", str(path), "--to", str(folder / "to"), *options]) == 0


def _rows(folder: Path, table: str) -> pd.DataFrame:
    return open_archive(folder / "to").read(table, *EVER)


@pytest.mark.parametrize("name", _FUNDING)
def test_payments(tmp_path: Path, name: str) -> None:
    """Rates of 0.01 %, -0.002 % and 0.005 % every 8 hours are 1, -0.2 and 0.5 bps per 8 hours."""
    content, options, venue = _FUNDING[name]
    _import(tmp_path, name, content, *options)
    rows = _rows(tmp_path, "funding_settlements")
    rows = rows[rows["time"] >= pd.Timestamp("2026-03-01", tz="UTC")]
    assert rows["exchange"].unique().tolist() == [venue]
    assert rows["symbol"].unique().tolist() == ["BTC"]
    assert rows["time"].dt.strftime("%d %H").tolist()[:4] == ["01 00", "01 08", "01 16", "02 00"]
    assert rows["rate_bps_8h"].tolist() == pytest.approx([1.0, -0.2, 0.5] * 3)
    assert rows["interval_hours"].tolist() == [8.0] * 9


_CANDLES = {
    "BINANCE_BTCUSDT.P, 60.csv": ("time,open,high,low,close,Volume", "last"),
    "candles_binance_perpetual_BTC-USDT_1h.csv": ("timestamp,open,high,low,close,volume", "last"),
    "binance_BTCUSDT_mark_price.csv": ("startTime,openPrice,highPrice,lowPrice,closePrice,volume", "mark"),
    "binance_BTCUSDT_index.csv": ("timestamp,open,high,low,close,volume", "index"),
    "backtrader_binance_BTCUSDT.csv": ("datetime,open,high,low,close,openinterest", "last"),
}


@pytest.mark.parametrize("name", _CANDLES)
def test_candles(tmp_path: Path, name: str) -> None:
    """The open is the price at the label; zeros under openinterest are not open interest."""
    header, kind = _CANDLES[name]
    lines = [f"{_START + hour * 3600},{67000.5 + hour},67100,66900,67050,0" for hour in range(3)]
    _import(tmp_path, name, "\n".join([header, *lines]) + "\n")
    assert open_archive(tmp_path / "to").tables() == {"prices_history"}
    rows = _rows(tmp_path, "prices_history")
    assert rows["kind"].unique().tolist() == [kind]
    assert rows["price_usd"].tolist() == [67000.5, 67001.5, 67002.5]


_MESSAGES: dict[str, tuple[list[dict[str, Any]], str]] = {
    "binance.jsonl": (
        [
            {"e": "forceOrder", "E": _START * 1000 + place, "o": {
                "s": "BTCUSDT", "S": "SELL", "o": "LIMIT", "f": "IOC", "q": "0.5", "p": "66000",
                "ap": "67000", "X": "FILLED", "l": "0.5", "z": "0.5", "T": _START * 1000 + place}}
            for place in range(3)
        ],
        "binance",
    ),
    # The side of bybit's message is that of the position.
    "bybit.jsonl": (
        [
            {"topic": "allLiquidation.BTCUSDT", "type": "snapshot", "ts": _START * 1000 + place, "data": [
                {"T": _START * 1000 + place, "s": "BTCUSDT", "S": "Buy", "v": "0.5", "p": "67000"}]}
            for place in range(3)
        ],
        "bybit",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _MESSAGES)
def test_recorded_messages_of_liquidations(tmp_path: Path, name: str) -> None:
    messages, venue = _MESSAGES[name]
    _import(tmp_path, name, "\n".join(map(json.dumps, messages)))
    rows = _rows(tmp_path, "liquidations_fills")
    assert rows[["exchange", "symbol", "side"]].to_numpy().tolist() == [[venue, "BTC", "long"]] * 3
    assert rows["value_usd"].tolist() == [33500.0] * 3


def test_side_of_the_position_is_used_if_order_sides_are_present(tmp_path: Path) -> None:
    rows = [
        {"exchange": "binance", "instrument": "BTCUSDT", "timestamp": _START * 1000 + place, "price": 67000,
         "volume": 0.5, "positionType": "LONG", "side": "SELL"}
        for place in range(3)
    ]  # fmt: skip
    _import(tmp_path, "liquidations.json", json.dumps({"status": 200, "payload": {"data": rows}}))
    assert _rows(tmp_path, "liquidations_fills")["side"].tolist() == ["long"] * 3


def test_a_chain_of_a_spreadsheet(tmp_path: Path) -> None:
    header = "quote_date,underlying,expiration,strike,type,implied_volatility,underlying_price,index_price"
    lines = [f"2026-03-01T00:00:00Z,BTC,2026-03-27,70000,{side},52.5%,67100,67000" for side in "CP"]
    _import(tmp_path, "chain_deribit.csv", "\n".join([header, *lines]) + "\n")
    rows = _rows(tmp_path, "options_snapshot")
    assert rows["instrument_name"].tolist() == ["BTC-27MAR26-70000-C", "BTC-27MAR26-70000-P"]
    assert rows["iv"].tolist() == [0.525, 0.525]
    assert rows["underlying_price"].tolist() == [67_100.0] * 2
    assert rows["index_price_usd"].tolist() == [67_000.0] * 2
    assert rows["expiry"].dt.hour.tolist() == [8, 8]


def _fixed_point(value: float, width: int) -> bytes:
    """Return a number as nautilus_trader stores it: units of 1e-9 in 8 bytes, of 1e-16 in 16."""
    scaled = round(value * 10) * 10 ** (8 if width == 8 else 15)
    return scaled.to_bytes(width, "little", signed=True)


@pytest.mark.parametrize("width", [8, 16])
@pytest.mark.parametrize("kind", ["mark", "index"])
def test_prices_of_a_nautilus_catalog(tmp_path: Path, kind: str, width: int) -> None:
    stamps = [(_START + second) * 10**9 for second in range(2)]
    table = pa.table(
        {
            "value": pa.array([_fixed_point(67000.5, width), _fixed_point(-0.5, width)], pa.binary(width)),
            "ts_event": pa.array(stamps, pa.uint64()),
            "ts_init": pa.array(stamps, pa.uint64()),
        }
    ).replace_schema_metadata({"instrument_id": "BTCUSDT-PERP.BINANCE", "price_precision": "1"})
    path = tmp_path / f"{kind}_price_update" / "BTCUSDT-PERP.BINANCE" / "a.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(table, path)
    assert main(["import", str(path), "--to", str(tmp_path / "to")]) == 0
    [row] = _rows(tmp_path, "prices_history").to_dict("records")
    assert (row["exchange"], row["symbol"], row["kind"], row["price_usd"]) == (
        "binance",
        "BTC",
        kind,
        67000.5,
    )


def test_bars_of_a_nautilus_catalog_are_stamped_at_their_close(tmp_path: Path) -> None:
    prices = {name: pa.array([_fixed_point(67000.5, 16)], pa.binary(16)) for name in ("open", "high", "low")}
    stamp = pa.array([_START * 10**9], pa.uint64())
    table = pa.table(
        {**prices, "close": pa.array([_fixed_point(67050.0, 16)], pa.binary(16)),
         "volume": pa.array([_fixed_point(1.5, 16)], pa.binary(16)), "ts_event": stamp, "ts_init": stamp}
    ).replace_schema_metadata(
        {"instrument_id": "BTCUSDT-PERP.BINANCE", "price_precision": "1", "size_precision": "3"}
    )  # fmt: skip
    path = tmp_path / "bar" / "BTCUSDT-PERP.BINANCE-1-HOUR-LAST-EXTERNAL" / "a.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(table, path)
    assert main(["import", str(path), "--to", str(tmp_path / "to")]) == 0
    assert _rows(tmp_path, "prices_history")["price_usd"].tolist() == [67050.0]


def test_digits_of_a_date_are_not_read_as_a_venue() -> None:
    """01 is a venue too; the name of a file has it as a month."""
    assert names_in_path("funding-2026-01-05.csv") == {}
    assert names_in_path("bitmex/funding-2026-01-05.csv") == {"exchange": "bitmex"}


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["0,5", "12,25"], [0.5, 12.25]),
        (["1.234.567,5", "2,5"], [1234567.5, 2.5]),
        (["1,234", "2,345,678"], [1234.0, 2345678.0]),
        (["1,234.5", "6"], [1234.5, 6.0]),
        (["6,04,14,900.5", "12,34,567"], [60414900.5, 1234567.0]),
        (["6\u2019041\u2019490.5", "1'234"], [6041490.5, 1234.0]),
        (["6\u202f041\u202f490,5", "2,5"], [6041490.5, 2.5]),
        (["2.000.000.001", "950.000"], [2000000001.0, 950000.0]),
        (["2.01B", "950.5K"], [2.01e9, 950500.0]),
        (["$2,000,000 USD", "3 USDT"], [2e6, 3.0]),
    ],
)
def test_commas_in_numbers(tmp_path: Path, cells: list[str], values: list[float]) -> None:
    lines = [f"BTC;okx;2026-03-01T0{hour}:00Z;{cell}" for hour, cell in enumerate(cells)]
    _import(tmp_path, "oi.csv", "\n".join(["symbol;venue;time;oi_usd", *lines]) + "\n")
    assert _rows(tmp_path, "oi_history")["oi_usd"].tolist() == values


def test_dates_with_slashes_need_a_day_above_12(tmp_path: Path) -> None:
    header = "symbol,venue,time,oi_usd\n"
    lines = "BTC,okx,3/1/2026 12:00 AM,1\nBTC,okx,3/27/2026 2:30 PM,2\n"
    _import(tmp_path, "oi.csv", header + lines)
    stamps = _rows(tmp_path, "oi_history")["time"].dt.strftime("%m-%d %H:%M").tolist()
    assert stamps == ["03-01 00:00", "03-27 14:30"]
    path = tmp_path / "unclear.csv"
    path.write_text(header + "BTC,okx,3/1/2026,1\n")
    assert main(["import", str(path), "--to", str(tmp_path / "to")]) != 0


def test_a_folder_of_another_venue_does_not_change_the_venue_of_a_layout(tmp_path: Path) -> None:
    """Only Binance's bulk files have these columns and this name."""
    lines = [f"{(_START + place * 28_800) * 1000},8,{rate}" for place, rate in enumerate(_RATES)]
    content = "\n".join(["calc_time,funding_interval_hours,last_funding_rate", *lines]) + "\n"
    _import(tmp_path, "bybit-research/BTCUSDT-fundingRate-2026-03.csv", content)
    rows = _rows(tmp_path, "funding_settlements")
    assert rows["exchange"].unique().tolist() == ["binance"]
    assert rows["rate_bps_8h"].tolist() == pytest.approx([1.0, -0.2, 0.5] * 3)


def test_rows_of_another_venue_than_the_layout_ask_for_the_venue(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"BTCUSDT,5,5,{(_START + place * 300) * 1000},okx" for place in range(3)]
    content = "\n".join(["symbol,sumOpenInterest,sumOpenInterestValue,timestamp,exchange", *lines]) + "\n"
    path = tmp_path / "oi.csv"
    path.write_text(content)
    said = ["import", str(path), "--to", str(tmp_path / "to")]
    assert main(said) != 0
    assert "column exchange has okx: pass the venue with --set exchange=okx" in capsys.readouterr().err
    assert main([*said, "--set", "exchange=okx"]) == 0
    assert _rows(tmp_path, "oi_history")["exchange"].unique().tolist() == ["okx"]


def test_payments_with_fields_of_many_venues_ask_for_the_venue_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rates.csv"
    path.write_text(_lines("symbol,fundingTime,fundingRate", "%Y-%m-%d %H:%M:%S", "BTCUSDT,{time},{rate}"))
    said = ["import", str(path), "--to", str(tmp_path / "to")]
    assert main(said) != 0
    assert "--set exchange=VALUE" in capsys.readouterr().err
    assert main([*said, "--set", "exchange=aster"]) == 0
    assert _rows(tmp_path, "funding_settlements")["exchange"].unique().tolist() == ["aster"]


def test_running_rates_of_coinapi_need_the_interval_only(tmp_path: Path) -> None:
    """The fraction 0.0001 of 4 hours is 2 bps in 8 hours; a row of another metric is omitted."""
    row = {
        "entry_time": "2026-03-01T00:00:01Z",
        "recv_time": "2026-03-01T00:00:00Z",
        "exchange_id": "BINANCEFTS",
        "symbol_id": "BINANCEFTS_PERP_ETH_USDT",
        "metric_id": "DERIVATIVES_FUNDING_RATE_CURRENT",
        "value_decimal": 0.0001,
    }
    other = {**row, "recv_time": "2026-03-01T01:00:00Z", "metric_id": "DERIVATIVES_OPEN_INTEREST"}
    _import(tmp_path, "metrics.json", json.dumps([row, other]), "--set", "interval_hours=4")
    [stored] = _rows(tmp_path, "funding_history").to_dict("records")
    assert (stored["exchange"], stored["symbol"]) == ("binance", "ETH")
    assert stored["rate_bps_8h"] == pytest.approx(2.0)


def test_web_export_uses_the_time_zone_of_the_browser(tmp_path: Path) -> None:
    """Binance's page of 2025-03, saved at UTC+8: its first payment, of 2019-09-10 08:00 UTC, is at 16:00."""
    lines = ["2019-09-11 08:00:00", "2019-09-11 00:00:00", "2019-09-10 16:00:00"]
    content = '"Time","Contracts","Funding Interval","Funding Rate"\n' + "".join(
        f'"{time}","BTCUSD CM Perpetual","8h","0.010000%"\n' for time in lines
    )
    path = tmp_path / "Funding Rate History_BTCUSD CM Perpetual_2025-03-13.csv"
    path.write_text(content)
    with pytest.raises(Unclear, match=r"has the local times of the computer that saved it.*--tz UTC\+8"):
        import_files(None, path, tmp_path / "to")
    import_files(None, path, tmp_path / "to", tz="UTC+8")
    rows = _rows(tmp_path, "funding_settlements")
    assert rows[["symbol", "exchange", "rate_bps_8h"]].to_numpy().tolist() == [["BTC", "binance", 1.0]] * 3
    assert rows["time"].dt.strftime("%m-%d %H").tolist() == ["09-10 08", "09-10 16", "09-11 00"]


def test_times_off_the_grid_of_a_layout_ask_for_the_zone(tmp_path: Path) -> None:
    """Payments at 01:00, 09:00 and 17:00 are those of London in summer."""
    lines = [f"2024-08-0{day} {hour}:00:00,BTCUSDT,8,0.0001" for day in (1, 2) for hour in ("01", "09", "17")]
    path = tmp_path / "BTCUSDT-fundingRate-2024-08.csv"
    path.write_text("\n".join(["calc_time,symbol,funding_interval_hours,last_funding_rate", *lines]) + "\n")
    with pytest.raises(
        ArchiveError, match="6 rows, first 2024-08-01 01:00, are not at a multiple of 8 hours"
    ):
        import_files(None, path, tmp_path / "to")
    import_files(None, path, tmp_path / "to", tz="Europe/London")
    assert _rows(tmp_path, "funding_settlements")["time"].dt.hour.tolist() == [0, 8, 16] * 2


def test_cells_without_percent_among_others_are_rejected(tmp_path: Path) -> None:
    cells = ["0.01%", "0.0001", "0", "0.01%", "0.02%", "-0.01%", "0.01%", "0.01%", "0.01%"]
    lines = [f"{time},{cell}" for time, cell in zip(_stamps("%Y-%m-%d %H:%M:%S"), cells, strict=True)]
    path = tmp_path / "okx_BTC.csv"
    path.write_text("\n".join(["time,fundingRate", *lines]) + "\n")
    counts = import_files(None, path, tmp_path / "to")
    assert (counts.written, counts.rejected) == (8, 1)
    assert counts.first_rejected is not None
    assert "line 3: rate_bps_8h='0.0001' has no %, unlike other rows of the column" in counts.first_rejected


_QUIET = [0.0001, 0.00005, -0.00002, 0.0001, 0.00013, 0.0001] * 6


@pytest.mark.parametrize("place", ["symbol", "run"])
def test_percent_among_fractions_is_asked_about(tmp_path: Path, place: str) -> None:
    """ETH is percent in all rows, or BTC in a run of 12; neither is at 1 % in quiet times."""
    is_percent = (
        {("ETH", row) for row in range(36)} if place == "symbol" else {("BTC", r) for r in range(12, 24)}
    )
    lines = []
    for symbol in ("BTC", "ETH"):
        for row, rate in enumerate(_QUIET):
            time = pd.Timestamp(_START + row * 28_800, unit="s").isoformat()
            lines.append(f"{time},{symbol},{rate * (100 if (symbol, row) in is_percent else 1):.8g}")
    path = tmp_path / "okx_funding.csv"
    path.write_text("\n".join(["time,symbol,fundingRate", *lines]) + "\n")
    with pytest.raises(ArchiveError, match="are 100 times the usual floor, so they may be percent"):
        import_files(None, path, tmp_path / "to", unit="native")
    assert import_files(None, path, tmp_path / "to", unit="native", accept=["unit"]).written == 72


def test_rates_rounded_to_a_hundredth_bps_are_not_fractions_among_percent(tmp_path: Path) -> None:
    """A third of the rates rounds to 0.01 bps, and the others are larger."""
    rates = [0.01, 0.31, 0.42, 0.01, -0.25, 1.21, 0.01, 0.18, 0.57] * 6
    times = (pd.Timestamp(_START + row * 28_800, unit="s").isoformat() for row in range(len(rates)))
    lines = [f"{time},BTC,{rate / 1e4:.8g}" for time, rate in zip(times, rates, strict=True)]
    path = tmp_path / "okx_funding.csv"
    path.write_text("\n".join(["time,symbol,fundingRate", *lines]) + "\n")
    assert import_files(None, path, tmp_path / "to", unit="native").written == len(rates)


def test_rows_of_totals_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "binance_oi_usd.csv"
    path.write_text("date,symbol,open_interest_usd\n2026-03-01,BTC,8e9\n2026-03-01,Total,9e9\n")
    counts = import_files(None, path, tmp_path / "to")
    assert (counts.written, counts.rejected) == (1, 1)
    assert "symbol='Total' is a total of several markets: omit it" in str(counts.first_rejected)


def test_hourly_rates_with_an_interval_column_are_payments(tmp_path: Path) -> None:
    """Rows of a dex of Hyperliquid that has a venue of its own."""
    lines = [
        f"{place},2025-11-13 {14 + place}:00:00.01+00,hyperliquid_xyz,xyz:TSLA,0.0000125,1.00"
        for place in range(5)
    ]
    path = tmp_path / "equity_perps.csv"
    path.write_text("\n".join(["id,ts,venue,symbol,funding_rate,funding_interval_hours", *lines]) + "\n")
    import_files(None, path, tmp_path / "to")
    rows = _rows(tmp_path, "funding_settlements")
    assert (
        rows[["exchange", "symbol", "rate_bps_8h", "interval_hours"]].to_numpy().tolist()
        == [["tradexyz", "TSLA", pytest.approx(1.0), 1.0]] * 5
    )


def test_exchange_time_is_used_before_collector_time(tmp_path: Path) -> None:
    lines = [f"binance,BTCUSDT,long,0.5,67000,{_START * 1000 + 5},{_START * 1000 + 95}"]
    path = tmp_path / "liquidations_2026-03-01.csv"
    path.write_text("\n".join(["exchange,symbol,side,qty,price,ts_exch_ms,ts_ingest_ms", *lines]) + "\n")
    import_files(None, path, tmp_path / "to")
    rows = _rows(tmp_path, "liquidations_fills")
    assert rows["time"].tolist() == [pd.Timestamp("2026-03-01T00:00:00.005Z")]
    assert rows["value_usd"].tolist() == [33_500.0]


def test_mapped_column_determines_the_table(tmp_path: Path) -> None:
    """`--map index_pct=open` alone says that candles are of the index; the path says venue and symbol."""
    path = tmp_path / "deribit-surface" / "dvol_daily_BTC.csv"
    path.parent.mkdir()
    path.write_text(
        "date,open,high,low,close\n2025-09-19,33.81,35.6,33.4,34.78\n2025-09-20,34.78,34.8,34.1,34.5\n"
    )
    assert main(["import", str(path), "--to", str(tmp_path / "to"), "--map", "index_pct=open"]) == 0
    rows = _rows(tmp_path, "volatility_index_published")
    assert rows[["symbol", "exchange", "index_pct"]].to_numpy().tolist() == [
        ["BTC", "deribit", 33.81],
        ["BTC", "deribit", 34.78],
    ]


def test_payments_whose_interval_no_row_shows_are_counted(tmp_path: Path) -> None:
    lines = [f"BTC-USDT-SWAP,0.0001,{(_START + row * 28_800) * 1000}" for row in range(2)]
    path = tmp_path / "allswap-fundingrates-2026-03-01.csv"
    path.write_text("\n".join(["instrument_name,funding_rate,funding_time", *lines]) + "\n")
    counts = import_files(None, path, tmp_path / "to")
    assert counts.notices[0].startswith(
        "the interval of 2 payments, first BTC on okx at 2026-03-01T00:00:00Z, is unknown"
    )
    assert "interval  unknown: too few rows" in counts.understood
