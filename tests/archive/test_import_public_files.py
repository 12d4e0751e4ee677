"""Files of public repositories, data sets and vendors, each with its source and values worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest

from derivdata.errors import ArchiveError
from derivdata.sources.archive import import_files, open_archive
from derivdata.sources.archive.importing import Imported
from tests.archive.rates import EVER

_START = pd.Timestamp("2026-03-02", tz="UTC")
_RATES = (0.0001, -0.00002, 0.00005, 0.000123, 0.0001, 0.00007, -0.00013, 0.0001, 0.00011)


class _File(NamedTuple):
    """A file, and a table with the cells of its first row."""

    about: str
    name: str
    content: str
    table: str
    first: dict[str, Any]
    options: dict[str, Any] | None = None


def _rows(header: str, text: str, hours: float = 8, count: int = 9) -> str:
    """Return lines with the time, number and rate of each row."""
    lines = [header]
    for row in range(count):
        at = _START + pd.Timedelta(hours * row, "h")
        ms = round(at.timestamp() * 1000)
        rate = _RATES[row % len(_RATES)]
        lines.append(text.format(at=at, ms=ms, s=ms // 1000, row=row, rate=rate, percent=f"{rate * 100:.4f}"))
    return "\n".join(line for line in lines if line) + "\n"


_PAYMENT = {"symbol": "BTC", "exchange": "binance", "time": "2026-03-02T00:00Z", "rate_bps_8h": 1.0}
_HOURLY = {"symbol": "BTC", "exchange": "hyperliquid", "time": "2026-03-02T00:00Z", "rate_bps_8h": 8.0}
_FILES = {
    "two times": _File(
        "a collector's CSV of Binance, 2026: the same instants in UTC, in Beijing and in ms",
        "binance_SOLUSDT_funding_history.csv",
        _rows(
            "symbol,funding_time_utc,funding_time_beijing,funding_time_ms,funding_rate,funding_rate_pct,"
            "configured_interval_hours,interval_source",
            "SOLUSDT,{at:%Y-%m-%dT%H:%M:%SZ},{at:%Y-%m-%dT%H:%M:%S+00:00},{ms},{rate:.8f},{percent},8,fundingInfo",
        ),
        "funding_settlements",
        {**_PAYMENT, "symbol": "SOL", "interval_hours": 8.0},
    ),
    "dumps of Python": _File(
        "print() of pybit's rows, one a line, 2025",
        "bybit_funding_dump.txt",
        _rows(
            "", "{{'symbol': 'BTCUSDT', 'fundingRate': '{rate:.8f}', 'fundingRateTimestamp': '{ms}'}}"
        ),
        "funding_settlements",
        {**_PAYMENT, "exchange": "bybit"},
    ),
    "ticks of .NET": _File(
        "DateTime.Ticks of .NET 8: 100 ns since the year 1",
        "bybit_funding_ticks.csv",
        "Ticks,Symbol,FundingRate\n"
        + "".join(
            f"{621355968000000000 + (1772409600 + row * 28800) * 10**7},BTCUSDT,{rate:.8f}\n"
            for row, rate in enumerate(_RATES)
        ),
        "funding_settlements",
        {**_PAYMENT, "exchange": "bybit"},
    ),
    "days first": _File(
        "a script's CSV in Spanish, 2025: 02/03 and 03/03 are a day apart only with the day first",
        "funding_rates/binance_ETHUSDT.csv",
        _rows(
            "fecha;simbolo;tasa_funding;tasa_funding_pct", "{at:%d/%m/%Y %H:%M};ETHUSDT;{rate:.8f};{percent}"
        ).replace(".", ","),
        "funding_settlements",
        {**_PAYMENT, "symbol": "ETH"},
    ),
    "market in the folder": _File(
        "Torch-Trade's data sets on Hugging Face, 2026-02: the folder has the market, in small letters",
        "ethusdt_perp_funding_8h/train-00000-of-00001.csv",
        _rows("timestamp,funding_rate,funding_interval_hours", "{at:%Y-%m-%dT%H:%M:%S},{rate:.8f},8"),
        "funding_settlements",
        {**_PAYMENT, "symbol": "ETH"},
        {"set": {"exchange": "binance"}},
    ),
    "partitions": _File(
        "algotick.dev/data/funding, 2026-04: partitions above the file, time of the chain and local time",
        "exchange=hyperliquid/coin=BTC/year=2026/month=04/day=20/node=eu/data.csv",
        _rows(
            "time_chain,time_local,coin,funding_rate,mark_price,open_interest,funding_velocity",
            "{at:%Y-%m-%dT%H:%M:%SZ},{at:%Y-%m-%dT%H:%M:%S.2Z},BTC,{rate:.8f},67000,2.5e9,0",
            hours=5 / 3600,
        ),
        "funding_history",
        _HOURLY,
    ),
    "equal rates": _File(
        "Apify's hyperliquid-funding-rates, 2026: the rate of an hour, a day and a year in percent",
        "dataset_hyperliquid-funding-rates.csv",
        "symbol,observedAt,hourlyFundingRatePercent,dailyFundingRatePercent,annualizedFundingRatePercent,"
        "markPrice,openInterestUnits,openInterestUsd\n"
        "BTC,2026-03-02T00:00:00Z,0.01,0.24,87.6,67000,31000,2077000000\n"
        "ETH,2026-03-02T00:00:00Z,-0.0005,-0.012,-4.38,2000,400000,800000000\n",
        "funding_history",
        _HOURLY,
    ),
    "ratios in rows": _File(
        "a Postgres table of Binance's three ratios, 2026: the kind is in each row",
        "binance_futures_long_short_ratios.csv",
        "symbol,timestamp,ratio_type,long_short_ratio,period\nBTCUSDT,1772409600000,global_account,1.5,1h\n"
        "BTCUSDT,1772409600000,top_position,1.25,1h\nBTCUSDT,1772409600000,top_account,2.0,1h\n",
        "positioning_history",
        {"symbol": "BTC", "kind": "accounts", "long_short_ratio": 1.5},
    ),
    "series of Prometheus": _File(
        "CSV export of a panel of Grafana 11, 2025",
        "Funding-data-2026-03-05.csv",
        _rows(
            '"Time","funding_rate{{exchange=""bybit"", symbol=""BTCUSDT""}}",'
            '"funding_rate{{exchange=""bybit"", symbol=""ETHUSDT""}}"'.replace("{{", "{").replace("}}", "}"),
            "{at:%Y-%m-%d %H:%M:%S},{rate:.8f},{rate:.8f}",
        ),
        "funding_settlements",
        {**_PAYMENT, "exchange": "bybit"},
    ),
    "millions": _File(
        "CSV of a dashboard, 2025: millions of USD, and a 0 where a value is missing",
        "BTC_open_interest.csv",
        "timestamp,exchange,open_interest_mln_usd\n2026-03-02 00:00:00,binance,6041.5\n"
        "2026-03-02 01:00:00,binance,0\n2026-03-02 02:00:00,binance,6042.25\n",
        "oi_history",
        {"symbol": "BTC", "exchange": "binance", "oi_usd": 6041500000.0},
    ),
    "intervals of rows": _File(
        "a merged CSV of two venues, 2026: each row has its interval in minutes",
        "funding_all.csv",
        _rows("ts;venue;pair;rate;interval_minutes", "{at:%Y-%m-%dT%H:%M:%SZ};Binance;BTCUSDT;{rate:.8f};480")
        + _rows("", "{at:%Y-%m-%dT%H:%M:%SZ};Hyperliquid;BTC;0.0000125;60", hours=1, count=12),
        "funding_settlements",
        {**_PAYMENT, "interval_hours": 8.0},
    ),
    "quote volumes": _File(
        "two columns of Binance's klines, 2026: quote volumes of a contract in USDT are USD",
        "binance_BTCUSDT_taker_1h.csv",
        "open_time,taker_buy_quote_volume,taker_sell_quote_volume\n1772409600000,400000.5,270000.5\n",
        "volume_taker",
        {"symbol": "BTC", "exchange": "binance", "buy_usd": 400000.5, "sell_usd": 270000.5},
    ),
    "titles": _File(
        "a report of a spreadsheet, 2025: two lines and an empty one above the table",
        "report_okx_BTCUSDT_funding.csv",
        "Funding rates of BTCUSDT on OKX\nGenerated 2026-03-05\n\n"
        + _rows("Timestamp,Rate", "{at:%Y-%m-%dT%H:%M:%SZ},{rate:.8f}"),
        "funding_settlements",
        {**_PAYMENT, "exchange": "okx"},
    ),
    "halves of days": _File(
        "a CSV of a spreadsheet, 2025: ISO dates with AM and PM",
        "mexc_ltc.txt",
        _rows("Date|Pair|Rate %", "{at:%Y-%m-%d %I:%M %p}|LTCUSDT|{percent}"),
        "funding_settlements",
        {**_PAYMENT, "symbol": "LTC", "exchange": "mexc"},
    ),
    "a mapped rate of a year": _File(
        "a CSV of a dashboard of dYdX, 2025: the fraction of a year",
        "dydx_funding_apr.csv",
        _rows("time,ticker,apr", "{at:%Y-%m-%dT%H:%M:%SZ},BTC-USD,0.1095", hours=1, count=12),
        "funding_settlements",
        {"exchange": "dydx", "rate_bps_8h": 1.0, "interval_hours": 1.0},
        {"map": {"rate_bps_8h": "apr"}},
    ),
    "ratio of the folder": _File(
        "GET /futures/data/topLongShortPositionRatio of Binance, 2026: positions are named longAccount too",
        "binance/topLongShortPositionRatio/BTCUSDT-1h.csv",
        "symbol,timestamp,longShortRatio,longAccount,shortAccount\nBTCUSDT,1772409600000,1.5,0.6,0.4\n",
        "positioning_history",
        {"symbol": "BTC", "kind": "top_positions", "long_share": 0.6},
    ),
    "prices of Hyperliquid": _File(
        "a CSV with a column for each contract, 2025: Hyperliquid is no word of liquidations",
        "hyperliquid_mark_prices.csv",
        "date,BTC-PERP,ETH-PERP\n2026-03-02 00:00:00,67000.5,2000.5\n2026-03-02 01:00:00,67001.5,2001.5\n",
        "prices_history",
        {"symbol": "BTC", "exchange": "hyperliquid", "kind": "mark", "price_usd": 67000.5},
    ),
    "names in capitals": _File(
        "an export of Snowflake, 2025",
        "lighter_market_hourly.csv",
        _rows(
            "BLOCK_TIMESTAMP,MARKET_SYMBOL,FUNDING_RATE_HOURLY,OPEN_INTEREST_USD",
            "{at:%Y-%m-%d %H:%M:%S}.000000000,ETH-USD,0.0000125,500000000.5",
            hours=1,
            count=12,
        ),
        "funding_settlements",
        {"symbol": "ETH", "exchange": "lighter", "rate_bps_8h": 1.0},
    ),
    "folders above": _File(
        "a data lake of Bybit, 2025: the venue is four folders above the file",
        "bybit/linear/BTCUSDT/funding_rate/2025-11.csv",
        _rows("symbol,fundingRate,fundingRateTimestamp", "BTCUSDT,{rate:.8f},{ms}"),
        "funding_settlements",
        {**_PAYMENT, "exchange": "bybit"},
    ),
    "dollars": _File(
        "a CSV of a dashboard, 2025: amounts such as $6,041.5M",
        "oi_usd_dash.csv",
        'Time,Exchange,Symbol,Open Interest\n2026-03-02 00:00,Binance,BTC,"$6,041.5M"\n',
        "oi_history",
        {"symbol": "BTC", "exchange": "binance", "oi_usd": 6041500000.0},
    ),
    "closed positions": _File(
        "a collector's CSV of liquidations of two venues, 2025",
        "liqs.csv",
        "timestamp,exchange,symbol,liquidation_side,quantity,price,notional_usd\n"
        "1772409600000,bybit,SOLUSDT,LONG,10,140.5,1405\n",
        "liquidations_fills",
        {"symbol": "SOL", "exchange": "bybit", "side": "long", "value_usd": 1405.0},
    ),
    "bps of a payment": _File(
        "a CSV of settlements with symbols of ccxt, 2025",
        "mexc_settlements.csv",
        _rows("pair,settled_at,rate_bps", "AVAX/USDT:USDT,{at:%Y-%m-%d %H:%M:%S},1"),
        "funding_settlements",
        {**_PAYMENT, "symbol": "AVAX", "exchange": "mexc"},
    ),
    "two rates": _File(
        "a Postgres table of OKX's history, 2026: the rate that was announced and the one that was paid",
        "okx_funding_history.csv",
        _rows(
            "inst_id,funding_time,funding_rate,realized_rate",
            "BTC-USDT-SWAP,{at:%Y-%m-%d %H:%M:%S+00},0.0009,{rate:.8f}",
        ),
        "funding_settlements",
        {**_PAYMENT, "exchange": "okx"},
    ),
    "venues and their sum": _File(
        "CSV of a dashboard, 2025",
        "BTC open interest USD.csv",
        "Date,Binance,Bybit,All\n2026-03-02,6000000000.5,3000000000,9000000000.5\n"
        "2026-03-03,6000000001.5,3000000001,9000000002.5\n",
        "oi_history",
        {"symbol": "BTC", "exchange": "binance", "oi_usd": 6000000000.5},
    ),
    "liquidations in USD": _File(
        "a collector's CSV of Hyperliquid, 2026: times in UTC+8, which they state",
        "hyperliquid_liquidations.csv",
        "time,coin,side,usd_size,price\n2026-03-02T08:00:00+08:00,BTC,long,33500.5,67000\n",
        "liquidations_fills",
        {"symbol": "BTC", "side": "long", "time": "2026-03-02T00:00Z", "value_usd": 33500.5},
    ),
    "index as lists": _File(
        "Deribit API v2, get_index_chart_data, 2026: [ms, price]",
        "deribit_btc_usd_index_chart.json",
        json.dumps({"jsonrpc": "2.0", "result": [[1772409600000, 67000.5], [1772413200000, 67001.5]]}),
        "prices_history",
        {"symbol": "BTC", "exchange": "deribit", "kind": "index", "price_usd": 67000.5},
    ),
}  # fmt: skip


def _import(folder: Path, file: _File) -> Imported:
    path = folder / "in" / file.name
    path.parent.mkdir(parents=True)
    path.write_text(file.content, encoding="utf-8")
    return import_files(None, path, folder / "to", **(file.options or {}))


@pytest.mark.parametrize("name", _FILES)
def test_a_public_file_is_read_with_at_most_one_option(tmp_path: Path, name: str) -> None:
    file = _FILES[name]
    _import(tmp_path, file)
    first = open_archive(tmp_path / "to").read(file.table, *EVER).iloc[0]
    for column, value in file.first.items():
        if column == "time":
            assert first[column] == pd.Timestamp(value)
        else:
            assert first[column] == (pytest.approx(value, rel=1e-12) if isinstance(value, float) else value)


def test_a_zero_among_large_open_interest_is_rejected(tmp_path: Path) -> None:
    counts = _import(tmp_path, _FILES["millions"])
    assert (counts.written, counts.rejected) == (2, 1)
    assert "oi_usd=0 between values above one million" in str(counts.first_rejected)


def test_a_table_with_a_question_is_left_to_a_notice(tmp_path: Path) -> None:
    """The rates are clear, and the unit of open interest only for BTC and ETH, by its size."""
    file = _FILES["partitions"]
    assert _import(tmp_path / "sized", file).table == "funding_history, oi_history, prices_history"
    other = file._replace(name=file.name.replace("BTC", "SOL"), content=file.content.replace("BTC", "SOL"))
    counts = _import(tmp_path, other)
    assert counts.table == "funding_history, prices_history"
    assert any("not imported as oi_history" in notice and "--unit" in notice for notice in counts.notices)
    several = _import(tmp_path / "other", _FILES["equal rates"])
    assert several.table == "funding_history, oi_history, prices_history"


_REFUSED = {
    "kind of accounts": (
        "binance_BTCUSDT-1h.csv",
        "symbol,timestamp,longShortRatio,longAccount,shortAccount\nBTCUSDT,1772409600000,1.5,0.6,0.4\n",
        "kind is not in the file",
    ),
    "totals of hours": (
        "hourly_liquidations.csv",
        "hour,exchange,symbol,side,usd\n2026-03-02 00:00:00,binance,BTC,long,1000.5\n",
        "not recognised",
    ),
    "predictions": (
        "okx_funding_events.csv",
        "ticker,funding_time,funding_rate,rate_type\nBTC-PERP,1772409600,0.0001,settled\n"
        "BTC-PERP,1772438400,0.00015,predicted\n",
        "column rate_type has the kind of each rate",
    ),
    "repeated times": (
        "okx_BTC.csv",
        "time,basis,oi_usd\n" + "".join(
            f"{1772409600 + row // 2 * 3600},{'a' if row % 2 else 'b'},{6e9 + row}\n" for row in range(8)
        ),
        "different rows have only 4 different combinations",
    ),
    "fills of accounts": (
        "hypercore.liquidations_hyperliquid.csv",
        "timestamp,user,coin,side,dir,price,size\n1772409600000,0xaa,BTC,A,Close Long,66000,0.5\n"
        "1772409600000,0xbb,BTC,B,Open Long,66000,0.5\n",
        "fills of accounts",
    ),
    "no side": (
        "hyperliquid_liquidations.csv",
        "time_ms,coin,size_total,notional_total,mark_px\n1772409600000,BTC,0.1,6700,67000\n",
        "no column is recognised as the side",
    ),
    "trades with sides": (
        "BTCUSDT2026-03-02.csv",
        "timestamp,symbol,side,size,price,tickDirection,trdMatchID\n1772409600.5,BTCUSDT,Buy,0.1,67000,Zero,a\n",
        "the rows are trades",
    ),
    "no time": (
        "bitmex.jsonl",
        '{"table": "liquidation", "action": "insert", "data": [{"orderID": "a", "symbol": "XBTUSD", "side": '
        '"Sell", "price": 66000.5, "leavesQty": 1500}]}\n' * 2,
        "have no time",
    ),
    "volumes without a unit": (
        "binance_BTCUSDT_taker.csv",
        "timestamp,buyVol,sellVol\n1772409600000,387.3,248.5\n",
        "may be in USD, coins or contracts",
    ),
    "months": (
        "binance_BTC_monthly.csv",
        "date,oi_usd\n01/02/2026,6e9\n01/03/2026,6e9\n01/04/2026,6e9\n",
        "because the file does not show the order of day and month",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _REFUSED)
def test_a_file_that_may_be_read_wrongly_is_refused(tmp_path: Path, name: str) -> None:
    file, content, why = _REFUSED[name]
    with pytest.raises(ArchiveError, match=why):
        _import(tmp_path, _File("", file, content, "", {}))


@pytest.mark.parametrize(
    ("cells", "first"),
    [
        (["500.000", "600.000", "2.000.000.001"], 500_000.0),
        (["500,000", "600,000", "2,000,000,001"], 500_000.0),
        (["100,250", "100,500", "67,5"], 100.25),
        (["100.250", "100.500", "67.5"], 100.25),
    ],
)
def test_decimal_mark_is_determined_from_the_whole_file(
    tmp_path: Path, cells: list[str], first: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chunk that may be read in two ways is followed by a number that shows the mark."""
    monkeypatch.setattr("derivdata.sources.archive.importing.readers.CHUNK_ROWS", 2)
    lines = [f"{1772409600 + row * 3600};BTCUSDT;okx;{cell}" for row, cell in enumerate(cells)]
    content = "\n".join(["time;symbol;exchange;oi_usd", *lines]) + "\n"
    _import(tmp_path, _File("", "oi.csv", content, "", {}, {"accept": ["unit"]}))
    assert open_archive(tmp_path / "to").read("oi_history", *EVER)["oi_usd"].iloc[0] == first
