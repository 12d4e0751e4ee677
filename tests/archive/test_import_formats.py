"""Files as databases, R and spreadsheets write them, and names of columns that say a zone or a unit."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from derivdata.errors import ArchiveError
from derivdata.sources.archive import import_files, open_archive
from derivdata.sources.archive.importing import Imported, Unclear
from derivdata.sources.archive.importing.cells import Rejections
from derivdata.sources.archive.importing.guessed_units import unit_of_rates
from derivdata.sources.archive.importing.readers import Chunk
from derivdata.sources.archive.importing.source_files import Source
from derivdata.sources.archive.importing.timestamps import to_timestamps, zone_in_name
from tests.archive.rates import EVER

_FIRST = pd.Timestamp("2026-03-01")
_RATES = [0.0001, -0.00002, 0.00005] * 3
_STAMPS = [_FIRST + place * pd.Timedelta(8, "h") for place in range(len(_RATES))]


def _import(folder: Path, name: str, text: str, **options: object) -> Imported:
    path = folder / "in" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return import_files(None, path, folder / "to", **options)  # type: ignore[arg-type]


def _rows(folder: Path, table: str) -> pd.DataFrame:
    return open_archive(folder / "to").read(table, *EVER)


def _lines(form: str, text: str, rates: list[float] = _RATES, *, hours: int = 0) -> str:
    """Return a line for each payment; times are so many hours ahead of UTC."""
    stamps = [stamp + pd.Timedelta(hours, "h") for stamp in _STAMPS]
    return "".join(
        text.format(time=stamp.strftime(form), rate=rate) for stamp, rate in zip(stamps, rates, strict=True)
    )


_INFLUX = (
    "#group,false,false,true,true,false,false,true,true,true\n"
    "#datatype,string,long,dateTime:RFC3339,dateTime:RFC3339,dateTime:RFC3339,double,string,string,string\n"
    "#default,_result,,,,,,,,\n"
    ",result,table,_start,_stop,_time,_value,_field,exchange,symbol\n"
)
_NAMES = ["time", "symbol", "exchange", "rate"]
_LISTS = [[str(time), "BTCUSDT", "binance", rate] for time, rate in zip(_STAMPS, _RATES, strict=True)]
_PAYMENTS = {
    "influx.csv": _INFLUX
    + _lines(
        "%Y-%m-%dT%H:%M:%SZ",
        ",,0,2026-03-01T00:00:00Z,2026-03-09T00:00:00Z,{time},{rate},funding_rate,binance,BTCUSDT\n",
    ),
    "kdb_binance.csv": "time,sym,rate\n" + _lines("%Y.%m.%dD%H:%M:%S.000000000", "{time},BTCUSDT,{rate}\n"),
    "excel_binance.csv": "Date,Symbol,Funding Rate\n"
    + _lines("%Y/%-m/%-d %-H:%M", "{time},BTCUSDT,{rate:.4%}\n"),
    "clickhouse.json": json.dumps({"meta": [{"name": name} for name in _NAMES], "data": _LISTS}),
    "questdb.json": json.dumps(
        {"query": "funding", "columns": [{"name": name} for name in _NAMES], "dataset": _LISTS, "count": 9}
    ),
    "influx.json": json.dumps(
        {
            "results": [
                {
                    "series": [
                        {
                            "name": "funding",
                            "tags": {"symbol": "BTCUSDT", "exchange": "binance"},
                            "columns": ["time", "rate"],
                            "values": [[row[0], row[3]] for row in _LISTS],
                        }
                    ]
                }
            ]
        }
    ),
    "mongodb_binance.json": "".join(
        json.dumps(
            {
                "_id": {"$oid": f"{row}"},
                "ts": {"$date": {"$numberLong": str(int(time.timestamp() * 1000))}},
                "symbol": "BTCUSDT",
                "rate": {"$numberDecimal": f"{rate:.6f}"},
            }
        )
        + "\n"
        for row, (time, rate) in enumerate(zip(_STAMPS, _RATES, strict=True))
    ),
    "short_years_binance.csv": "Time;Symbol;Funding Rate\n"
    + _lines("%d.%m.%y %H:%M", "{time};BTCUSDT;{rate:.6f}\n"),
    "exchange=binance/symbol=BTCUSDT/part.csv": "time,funding_rate\n"
    + _lines("%Y-%m-%dT%H:%M:%SZ", "{time},{rate}\n"),
    "row_numbers_binance.csv": ",symbol,calculated_date,funding_rate\n"
    + _lines("%Y-%m-%dT%H:%M:%SZ", "7,BTCUSDT,{time},{rate}\n"),
    "beijing_binance.csv": "Time (UTC+8),symbol,funding_rate\n"
    + _lines("%Y-%m-%d %H:%M:%S", "{time},BTCUSDT,{rate}\n", hours=8),
    "tokyo_binance.csv": "time_jst,symbol,funding_rate\n"
    + _lines("%Y-%m-%d %H:%M:%S", "{time},BTCUSDT,{rate}\n", hours=9),
    # 0.01 %, -0.002 % and 0.005 %, in a column whose name has the sign.
    "percent_binance.csv": "time,symbol,Funding Rate (%)\n"
    + _lines("%Y-%m-%dT%H:%M:%SZ", "{time},BTCUSDT,{rate}\n", [rate * 100 for rate in _RATES]),
}


@pytest.mark.parametrize("name", _PAYMENTS)
def test_payments(tmp_path: Path, name: str) -> None:
    """Rates of 0.01 %, -0.002 % and 0.005 % every 8 hours are 1, -0.2 and 0.5 bps per 8 hours."""
    assert _import(tmp_path, name, _PAYMENTS[name]).written == 9
    rows = _rows(tmp_path, "funding_settlements")
    assert {*rows["exchange"]} == {"binance"}
    assert {*rows["symbol"]} == {"BTC"}
    assert rows["time"].tolist() == [stamp.tz_localize("UTC") for stamp in _STAMPS]
    assert rows["rate_bps_8h"].tolist() == pytest.approx([1.0, -0.2, 0.5] * 3)


def test_small_rates_in_percent_are_not_fractions(tmp_path: Path) -> None:
    """0.001 % is 0.1 bps; as a fraction it would be 10 bps."""
    text = "time,symbol,Funding Rate (%)\n" + _lines(
        "%Y-%m-%dT%H:%M:%SZ", "{time},BTCUSDT,{rate}\n", [0.001, -0.0005, 0.0008] * 3
    )
    _import(tmp_path, "binance.csv", text)
    rates = _rows(tmp_path, "funding_settlements")["rate_bps_8h"]
    assert rates.tolist() == pytest.approx([0.1, -0.05, 0.08] * 3)


@pytest.mark.parametrize(
    ("name", "zone"),
    [
        ("Time (UTC+8)", "UTC+8"),
        ("time GMT+08:00", "UTC+08:00"),
        ("timestamp_utc", "UTC"),
        ("timeUTC", "UTC"),
        ("Date (Europe/London)", "Europe/London"),
        ("北京时间", "UTC+8"),
        ("時間(JST)", "UTC+9"),
        ("timestamp", None),
        ("latest_time", None),
        ("fundingTime", None),
    ],
)
def test_zones_in_names_of_columns(name: str, zone: str | None) -> None:
    assert zone_in_name(name) == zone


@pytest.mark.parametrize("name", ["local_time", "time_est", "Time (ET)", "本地时间"])
def test_local_times_ask_for_the_zone(tmp_path: Path, name: str) -> None:
    """Times 8 hours ahead of UTC are at hours of payments too."""
    text = f"{name},symbol,funding_rate\n" + _lines("%Y-%m-%d %H:%M", "{time},BTCUSDT,{rate}\n", hours=8)
    with pytest.raises(Unclear, match="local times") as raised:
        _import(tmp_path, "binance.csv", text, map={"time": name})
    assert raised.value.option == "--tz"
    _import(tmp_path, "binance.csv", text, map={"time": name}, tz="UTC+8")
    assert _rows(tmp_path, "funding_settlements")["time"].iloc[0] == _FIRST.tz_localize("UTC")


@pytest.mark.parametrize(
    ("texts", "first"),
    [
        (["15/03/23 8:00", "1/3/23 0:00"], "2023-03-15T08:00"),
        (["3/15/23 8:00 PM", "3/1/23 12:00 AM"], "2023-03-15T20:00"),
        (["23/3/15", "23/3/28"], None),  # 2023, or 2015 and 2028
        (["1/3/23", "2/3/23"], None),  # 1 March or 3 January
        (["15/03/23", "16/03/23"], None),  # 2023 or 2015 and 2016
    ],
)
def test_years_of_two_digits_need_one_order(texts: list[str], first: str | None) -> None:
    rejections = Rejections(len(texts))
    stamps = to_timestamps(pa.chunked_array([texts]), "time", rejections, tz=dt.UTC)
    if first is None:
        assert rejections.bad.all()
        assert "order" in rejections.reasons[0]
    else:
        assert stamps[0] == pd.Timestamp(first, tz="UTC")


def test_messages_of_tardis_are_not_a_response_of_bitmex(tmp_path: Path) -> None:
    """Their fields are those of BitMEX's payments; each message names its venue."""
    message = {
        "type": "derivative_ticker", "symbol": "BTCUSDT", "exchange": "binance-futures", "markPrice": 67000.5,
        "lastPrice": 67001.0, "indexPrice": 67002.0, "openInterest": 10.0, "fundingRate": 0.0001,
        "localTimestamp": "2026-03-01T01:00:00.250Z",
    }  # fmt: skip
    lines = [
        {
            **message,
            "timestamp": f"2026-03-01T{hour}:00:00.000Z",
            "fundingTimestamp": f"2026-03-01T{hour}:30Z",
        }
        for hour in ("00", "08", "16")
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    _import(tmp_path, "ticker.jsonl", text)
    assert not _rows(tmp_path, "funding_settlements").shape[0]
    rows = _rows(tmp_path, "oi_history")
    assert rows["exchange"].unique().tolist() == ["binance"]
    assert rows["oi_usd"].tolist() == [670005.0] * 3


def test_rows_that_name_another_venue_are_not_a_response(tmp_path: Path) -> None:
    """BitMEX's fields with a field that names Bybit are not read as BitMEX's."""
    rows = [
        {
            "timestamp": stamp.strftime("%Y-%m-%dT%H:%M:%S.000Z"), "symbol": "XBTUSD", "fundingRate": rate,
            "fundingInterval": "2000-01-01T08:00:00.000Z", "fundingRateDaily": rate * 3, "venue": "Bybit",
        }
        for stamp, rate in zip(_STAMPS, _RATES, strict=True)
    ]  # fmt: skip
    with pytest.raises(Unclear, match="has bybit"):
        _import(tmp_path, "rows.json", json.dumps(rows))


def test_kinds_of_prices_in_one_column_are_read_separately(tmp_path: Path) -> None:
    text = "time,symbol,metric,value\n" + _lines(
        "%Y-%m-%dT%H:%M:%SZ", "{time},BTCUSDT,mark_price,67000\n{time},BTCUSDT,index_price,67001\n"
    )
    _import(tmp_path, "binance_prices.csv", text)
    prices = _rows(tmp_path, "prices_history").groupby("kind", observed=True)["price_usd"]
    assert prices.agg(["size", "max"]).to_dict("index") == {
        "index": {"size": 9, "max": 67001.0},
        "mark": {"size": 9, "max": 67000.0},
    }


def test_unknown_quantities_in_one_column_are_refused(tmp_path: Path) -> None:
    text = "time,symbol,metric,value\n" + _lines(
        "%Y-%m-%dT%H:%M:%SZ", "{time},BTCUSDT,basis,1\n{time},BTCUSDT,skew,2\n"
    )
    with pytest.raises(ArchiveError, match="'metric' names 2 quantities"):
        _import(tmp_path, "binance_prices.csv", text)


def test_samples_are_not_payments(tmp_path: Path) -> None:
    """Rates that somebody looked up every 8 hours are samples, whose interval must be stated."""
    text = "fetched_at,symbol,funding_rate\n" + _lines("%Y-%m-%dT%H:%M:%SZ", "{time},BTCUSDT,{rate}\n")
    _import(tmp_path, "binance.csv", text, set={"interval_hours": "8"})
    assert _rows(tmp_path, "funding_history")["rate_bps_8h"].tolist() == pytest.approx([1.0, -0.2, 0.5] * 3)
    assert not len(_rows(tmp_path, "funding_settlements"))


def test_candles_with_names_of_one_letter(tmp_path: Path) -> None:
    klines = [{"t": 1_772_323_200_000 + hour * 3_600_000, "o": f"67000.{hour}", "h": "1", "l": "1", "c": "1"}
              for hour in range(3)]  # fmt: skip
    _import(tmp_path, "binance_1h.json", json.dumps({"symbol": "BTCUSDT", "klines": klines}))
    assert _rows(tmp_path, "prices_history")["price_usd"].tolist() == [67000.0, 67000.1, 67000.2]
    with pytest.raises(Unclear, match="oi_history"):
        _import(tmp_path, "binance_open_interest.json", json.dumps({"symbol": "BTCUSDT", "klines": klines}))


def test_candles_of_dydx_state_their_step_in_words(tmp_path: Path) -> None:
    candle = {"startedAt": "2026-03-01T00:00:00.000Z", "ticker": "BTC-USD", "resolution": "1HOUR",
              "low": "1", "high": "1", "open": "67000.5", "close": "1", "usdVolume": "1"}  # fmt: skip
    _import(tmp_path, "dydx_candles.json", json.dumps({"candles": [candle]}))
    row = _rows(tmp_path, "prices_history").iloc[0]
    assert (row["symbol"], row["price_usd"], row["resolution"]) == ("BTC", 67000.5, "1h")


def test_candles_of_yfinance(tmp_path: Path) -> None:
    """The header has a line of prices and one of markets; the open is the price at the label."""
    text = (
        "Price,Close,High,Low,Open,Volume\nTicker,BTC-USD,BTC-USD,BTC-USD,BTC-USD,BTC-USD\nDate,,,,,\n"
        "2026-03-01,67050.25,67100,66900,67000.5,123456\n2026-03-02,67060.25,67100,66900,67050.5,123456\n"
    )
    _import(tmp_path, "prices.csv", text, set={"exchange": "coinbase"})
    rows = _rows(tmp_path, "prices_history")
    assert rows["price_usd"].tolist() == [67000.5, 67050.5]
    assert {*rows["symbol"]} == {"BTC"}


def test_open_interest_by_coin_in_lower_case(tmp_path: Path) -> None:
    text = "date,btc_oi_value_usd,eth_oi_value_usd\n2026-03-01,8969884426.5,5909985149.25\n"
    _import(tmp_path, "binance.csv", text)
    rows = _rows(tmp_path, "oi_history").set_index("symbol")["oi_usd"]
    assert rows.to_dict() == {"BTC": 8969884426.5, "ETH": 5909985149.25}


_CHAIN = "instrument_name,bid,ask,mark_price,underlying_price,{column}\n"
_COINS = (
    "BTC-27MAR26-70000-C,0.031,0.032,0.0314,67100,{time}\nBTC-27MAR26-70000-P,,0.072,0.0711,67100,{time}\n"
)
_DOLLARS = "BTC-27MAR26-70000-C,2080,2147,2107,67100,{time}\nBTC-27MAR26-70000-P,,4831,4771,67100,{time}\n"


@pytest.mark.parametrize(
    ("venue", "rows", "columns"),
    [
        ("deribit", _COINS, {"bid_coin": 0.031, "ask_coin": 0.032, "mark_coin": 0.0314}),
        ("bybit", _DOLLARS, {"bid_usd": 2080.0, "ask_usd": 2147.0, "mark_usd": 2107.0}),
        # Coins on a venue that quotes USD are not clear, so quotes are left out. Nobody quotes 20 coins.
        ("bybit", _COINS, {}),
        ("deribit", _DOLLARS, {"bid_usd": 2080.0, "ask_usd": 2147.0, "mark_usd": 2107.0}),
    ],
)
def test_quotes_of_options_are_coins_or_dollars(
    tmp_path: Path, venue: str, rows: str, columns: dict[str, float]
) -> None:
    text = _CHAIN.format(column="time") + rows.format(time="2026-03-01T00:00:00Z")
    _import(tmp_path, f"{venue}.csv", text.replace("\n", ",0.5\n").replace("time,0.5", "time,mark_iv"))
    row = _rows(tmp_path, "options_snapshot").sort_values("side").iloc[0]
    names = [f"{quote}_{unit}" for quote in ("bid", "ask", "mark") for unit in ("coin", "usd")]
    assert {name: row[name] for name in names if not pd.isna(row[name])} == columns


def test_one_large_quote_does_not_make_a_chain_one_in_usd(tmp_path: Path) -> None:
    rows = _COINS.format(time="2026-03-01T00:00:00Z").splitlines()
    for strike in range(60000, 70000, 1000):
        rows.append(f"BTC-27MAR26-{strike}-C,0.1,0.11,0.105,67100,2026-03-01T00:00:00Z")
    rows.append("BTC-27MAR26-71000-C,210,220,215,67100,2026-03-01T00:00:00Z")
    text = _CHAIN.format(column="time") + "\n".join(rows) + "\n"
    _import(tmp_path, "deribit.csv", text.replace("\n", ",0.5\n").replace("time,0.5", "time,mark_iv"))
    chain = _rows(tmp_path, "options_snapshot").set_index("strike")
    assert chain.loc[60000.0, "mark_coin"] == 0.105
    assert bool(chain.loc[71000.0, ["mark_coin", "mark_usd"]].isna().all())
    assert bool(chain["mark_usd"].isna().all())


def test_listing_times_of_contracts_are_not_times_of_quotes(tmp_path: Path) -> None:
    """Deribit's creation_timestamp is the time of a summary, or of an instrument's listing."""
    text = _CHAIN.format(column="strike,type,creation_timestamp")
    first, second = _COINS.splitlines()
    rows = first.format(time="70000,call,{0}\n") + second.format(time="70000,put,{1}\n")
    summary = text + rows.format(1_772_323_200_000, 1_772_323_200_007)
    _import(tmp_path, "deribit.csv", summary)
    assert _rows(tmp_path, "options_snapshot")["time"].dt.strftime("%m-%d %H:%M").unique() == ["03-01 00:00"]
    listed = text + rows.format(1_772_323_200_000, 1_771_910_221_000)
    with pytest.raises(ArchiveError, match="but no column is recognised as the time"):
        _import(tmp_path, "deribit.csv", listed)


@pytest.mark.parametrize(
    ("name", "rates", "unit"),
    [
        ("funding_apr", [10.95, -2.19, 5.475], "percent_year"),  # a floor of 10.95 %
        ("funding_apr", [0.1095, -0.0219, 0.05475], "per_year"),
        ("funding_apr", [3.2, -1.5, 2.8], None),  # 3.2 %, or 320 %
        ("APR (%)", [3.2, -1.5, 2.8], "percent_year"),
        ("funding_rate_8h", [0.0001, -0.00002, 0.00005], "per_8h"),
        ("funding_rate_8h", [0.0021, -0.0035, 0.0028], None),  # percent, or 0.2 %
        ("funding_8h_pct", [0.0021, -0.0035, 0.0028], "percent_8h"),
        ("funding_rate_daily_pct", [0.03, -0.006, 0.015], "percent_day"),
        ("funding_bps_8h", [1.0, -0.2, 0.5], "bps_8h"),
        ("funding_bps", [1.0, -0.2, 0.5], "bps"),
        ("funding_apr_bps", [1095.0, -219.0, 547.5], None),
    ],
)
def test_units_in_names_of_rates(name: str, rates: list[float], unit: str | None) -> None:
    head = Chunk({name: pa.chunked_array([rates * 4])}, 12)
    if unit is not None:
        assert unit_of_rates(Source(Path("rates.csv")), head, name) == unit
        return
    with pytest.raises(Unclear, match=r"the unit of column .* is unclear"):
        unit_of_rates(Source(Path("rates.csv")), head, name)


@pytest.mark.parametrize("name", ["predicted_funding_rate", "next_funding_rate", "cumulative_funding_rate"])
def test_predicted_rates_are_not_payments(tmp_path: Path, name: str) -> None:
    text = f"time,symbol,{name}\n" + _lines("%Y-%m-%dT%H:%M:%SZ", "{time},BTCUSDT,{rate}\n")
    with pytest.raises(ArchiveError, match="not recognised"):
        _import(tmp_path, "binance.csv", text)


def test_times_that_a_spreadsheet_rounded_are_rejected(tmp_path: Path) -> None:
    text = "time,symbol,open_interest_usd\n1.77232E+12,BTC,6041490500\n1772323200000,BTC,6041490500\n"
    counts = _import(tmp_path, "binance.csv", text)
    assert (counts.written, counts.rejected) == (1, 1)
    assert "rounded by a spreadsheet" in (counts.first_rejected or "")


def test_an_hour_next_to_a_date_is_a_part_of_the_time(tmp_path: Path) -> None:
    rows = "".join(f"2026-03-01,{hour},BTC,{6041490500 + hour}\n" for hour in (0, 9, 23))
    _import(tmp_path, "binance.csv", "date,hour,symbol,open_interest_usd\n" + rows)
    stored = _rows(tmp_path, "oi_history")
    assert stored["time"].dt.strftime("%d %H:%M").tolist() == ["01 00:00", "01 09:00", "01 23:00"]
    assert stored["oi_usd"].tolist() == [6041490500.0, 6041490509.0, 6041490523.0]


def test_the_start_of_a_candle_is_its_time(tmp_path: Path) -> None:
    """Hyperliquid's candles have the end under T, before the start under t, and the market under s."""
    candle = {"T": 1_772_326_799_999, "c": "1", "h": "1", "i": "1h", "l": "1", "n": 1, "o": "67000.5",
              "s": "BTC", "t": 1_772_323_200_000, "v": "1"}  # fmt: skip
    _import(tmp_path, "hyperliquid.json", json.dumps([candle]))
    row = _rows(tmp_path, "prices_history").iloc[0]
    assert (row["symbol"], row["time"], row["price_usd"]) == ("BTC", _FIRST.tz_localize("UTC"), 67000.5)


def test_candles_in_lists_ask_who_wrote_them(tmp_path: Path) -> None:
    rows = [
        [1_772_323_200_000 + hour * 3_600_000, 67000.5 + hour, 68000.0, 66000.0, 67000.0, 9.5]
        for hour in range(3)
    ]
    with pytest.raises(ArchiveError, match="candles without column names"):
        _import(tmp_path, "binance_BTC_USDT_1h.json", json.dumps(rows))
    _import(tmp_path, "binance_BTC_USDT_1h.json", json.dumps(rows), source="ccxt")
    assert _rows(tmp_path, "prices_history")["price_usd"].tolist() == [67000.5, 67001.5, 67002.5]


def test_strikes_without_a_figure_are_not_a_chain(tmp_path: Path) -> None:
    text = "time,symbol,expiry,strike,type,gex\n2026-03-01T00:00:00Z,BTC,2026-03-27,70000,call,-12.5\n"
    with pytest.raises(ArchiveError, match="not recognised"):
        _import(tmp_path, "deribit.csv", text)


def test_current_values_are_not_stored_as_history(tmp_path: Path) -> None:
    """A page has the current open interest next to that of past hours."""
    history = [{"ts": 1_772_323_200_000 + hour * 3_600_000, "openInterestUsd": 6e9 + hour} for hour in (0, 1)]
    page = {"symbol": "BTC", "mark_price": 67000.5, "open_interest_value": 5e9, "oi_history": history}
    _import(tmp_path, "binance.json", json.dumps(page))
    assert _rows(tmp_path, "oi_history")["oi_usd"].tolist() == [6e9, 6e9 + 1]


@pytest.mark.parametrize(
    ("last", "rejected"),
    [("0.00010", 1), ("0.", 1), ("0", 1), ("0.00010000", 0), ("0.00010000\n", 0), ("0.00010\n", 0)],
)
def test_truncated_last_number_is_rejected(tmp_path: Path, last: str, rejected: int) -> None:
    """Every other rate has 8 digits after the point, and the file has no final line break."""
    rows = [f"{stamp:%Y-%m-%dT%H:%M:%SZ},BTCUSDT,{rate:.8f}" for stamp, rate in
            ((_FIRST + place * pd.Timedelta(8, "h"), 0.00005) for place in range(11))]  # fmt: skip
    text = "\n".join(["time,symbol,funding_rate", *rows, f"2026-03-04T16:00:00Z,BTCUSDT,{last}"])
    counts = _import(tmp_path, "binance.csv", text)
    assert (counts.written, counts.rejected) == (12 - rejected, rejected)
    assert not rejected or "line 13: the last number has fewer digits" in (counts.first_rejected or "")


def test_file_without_a_final_line_break_is_complete(tmp_path: Path) -> None:
    """Rates of different lengths do not show where the last one ends."""
    rows = [f"{stamp:%Y-%m-%dT%H:%M:%SZ},BTCUSDT,{rate}" for stamp, rate in zip(_STAMPS, _RATES, strict=True)]
    counts = _import(tmp_path, "binance.csv", "\n".join(["time,symbol,funding_rate", *rows]))
    assert counts.written == 9
    assert "no line break" in counts.notices[0]


@pytest.mark.parametrize(
    ("header", "price"),
    [
        ("close_time,open,high,low,close", 67050.5),  # the end of a candle has its close
        ("open_time,open,high,low,close", 67000.5),
        ("timestamp,open,high,low,close", 67000.5),
        # CoinMarketCap: the timestamp is the end of the day, as timeClose is.
        ("timeOpen,open,high,low,close,timeClose,timestamp", 67000.5),
    ],
)
def test_candles_have_the_price_at_their_time(tmp_path: Path, header: str, price: float) -> None:
    end = ",2026-03-01T23:59:59.999Z" * header.count("time", 8)
    _import(tmp_path, "binance_BTCUSDT.csv", f"{header}\n2026-03-01T00:00:00Z,67000.5,1,1,67050.5{end}\n")
    row = _rows(tmp_path, "prices_history").iloc[0]
    assert (row["time"], row["price_usd"]) == (_FIRST.tz_localize("UTC"), price)


def test_units_below_the_header(tmp_path: Path) -> None:
    """A line of units says percent; 0.002 % are 0.2 bps."""
    text = "time,symbol,funding_rate\n(UTC),,(%)\n"
    rates = [0.002, -0.001, 0.003] * 3
    text += _lines("%Y-%m-%dT%H:%M:%SZ", "{time},BTCUSDT,{rate}\n", rates)
    _import(tmp_path, "binance.csv", text)
    stored = _rows(tmp_path, "funding_settlements")["rate_bps_8h"]
    assert stored.tolist() == pytest.approx([0.2, -0.1, 0.3] * 3)


def test_fields_of_structs_are_columns(tmp_path: Path) -> None:
    path = tmp_path / "binance.parquet"
    rates = pa.array([{"rate": rate, "predicted": 0.5} for rate in _RATES])
    stamps = pa.array(_STAMPS, pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"time": stamps, "symbol": ["BTCUSDT"] * 9, "funding": rates}), path)
    import_files(None, path, tmp_path / "to")
    stored = _rows(tmp_path, "funding_settlements")["rate_bps_8h"]
    assert stored.tolist() == pytest.approx([1.0, -0.2, 0.5] * 3)


_CANDLES = [
    [str(1_772_323_200_000 + hour * 3_600_000), f"6700{hour}.5", "67100", "66900", "67050"] for hour in (0, 1)
]


@pytest.mark.parametrize(
    ("name", "kind", "stored"),
    [
        ("bybit_mark-price-kline_BTCUSDT.json", None, "mark"),
        ("bybit_index-price-kline_BTCUSDT.json", None, "index"),
        ("bybit_kline_BTCUSDT.json", "index", "index"),
        ("bybit_kline_BTCUSDT.json", None, None),
    ],
)
def test_candles_of_venues_say_their_price(
    tmp_path: Path, name: str, kind: str | None, stored: str | None
) -> None:
    """Bybit's candles of the mark price, the index and trades are lists with the same fields."""
    body = {
        "retCode": 0,
        "retMsg": "OK",
        "result": {"symbol": "BTCUSDT", "category": "linear", "list": _CANDLES},
    }
    given = {} if kind is None else {"set": {"kind": kind}}
    if stored is None:
        with pytest.raises(ArchiveError, match="candles without column names"):
            _import(tmp_path, name, json.dumps(body), **given)
        return
    _import(tmp_path, name, json.dumps(body), **given)
    rows = _rows(tmp_path, "prices_history")
    assert rows["kind"].unique().tolist() == [stored]
    assert rows["price_usd"].tolist() == [67000.5, 67001.5]


def test_the_time_of_a_response_is_not_that_of_its_candles(tmp_path: Path) -> None:
    """HTX has the start of a candle as its id, and the time of the response next to the list."""
    data = [{"id": 1_772_323_200 + hour * 3_600, "open": 67000.5 + hour, "close": 1, "low": 1, "high": 1}
            for hour in (0, 1)]  # fmt: skip
    body = {"ch": "market.BTC-USDT.kline.60min", "status": "ok", "ts": 1_772_400_000_000, "data": data}
    _import(tmp_path, "htx_BTC-USDT_kline.json", json.dumps(body))
    rows = _rows(tmp_path, "prices_history")
    assert rows["time"].dt.strftime("%d %H:%M").tolist() == ["01 00:00", "01 01:00"]
    assert rows["price_usd"].tolist() == [67000.5, 67001.5]


def test_candles_of_spot_markets_are_not_those_of_futures(tmp_path: Path) -> None:
    row = "1772323200000,67000.5,67100,66900,67050,12.5,1772326799999,837506,100,6,402003,0\n"
    for market, is_read in (("spot", False), ("futures/um", True)):
        name = f"data/{market}/monthly/klines/BTCUSDT/1h/BTCUSDT-1h-2026-03.csv"
        if is_read:
            assert _import(tmp_path, name, row).written == 2
        else:
            with pytest.raises(ArchiveError):
                _import(tmp_path, name, row)


@pytest.mark.parametrize(
    ("venue", "market", "size"),
    [
        ("binance", "BTCUSDT", 3.0),
        ("bitmex", "XBTUSD", 3.0 / 60_000),  # contracts of one USD
        ("deribit", "BTC-PERPETUAL", 3.0 / 60_000),
        ("kraken", "PI_XBTUSD", 3.0 / 60_000),
        ("kraken", "PF_XBTUSD", 3.0),
        ("okx", "BTC-USDT-SWAP", 0.03),  # contracts of 0.01 BTC
        ("okx", "BTC-USDT", None),  # a spot market, or a contract
        ("gateio", "BTC_USDT", None),
    ],
)
def test_sizes_of_books_are_coins(tmp_path: Path, venue: str, market: str, size: float | None) -> None:
    book = {"symbol": market, "exchange": venue, "timestamp": "2026-03-01T00:00:00Z",
            "bids": [[60_000, 3]], "asks": [[60_000, 3]]}  # fmt: skip
    if size is None:
        with pytest.raises(ArchiveError, match="may be in contracts"):
            _import(tmp_path, "book.json", json.dumps(book))
        return
    _import(tmp_path, "book.json", json.dumps(book))
    assert _rows(tmp_path, "orderbook_book")["size"].tolist() == pytest.approx([size, size])


@pytest.mark.parametrize(("name", "kind"), [("mark", "mark"), ("trade", "last")])
def test_candles_of_kraken_are_of_the_price_that_their_file_names(
    tmp_path: Path, name: str, kind: str
) -> None:
    """Kraken's candles of trades and of the mark price have the same fields."""
    candle = {"time": 1_772_323_200_000, "open": "67000.5", "high": "67100", "low": "66900", "close": "67050",
              "volume": "12"}  # fmt: skip
    body = {"candles": [candle], "more_candles": False}
    _import(tmp_path, f"kraken_candles_{name}.json", json.dumps(body), set={"symbol": "BTC"})
    row = _rows(tmp_path, "prices_history").iloc[0]
    assert (row["exchange"], row["kind"], row["price_usd"]) == ("kraken", kind, 67000.5)


def test_value_of_an_index_is_not_stored_for_its_venues(tmp_path: Path) -> None:
    """OKX has the index next to the list of the venues in it."""
    components = [{"exch": venue, "symbol": "BTC/USDT", "wgt": "0.5"} for venue in ("binance", "bybit")]
    data = {"components": components, "last": "67000.5", "index": "BTC-USDT", "ts": "1772323200000"}
    with pytest.raises(ArchiveError, match="not recognised"):
        _import(tmp_path, "okx.json", json.dumps({"code": "0", "msg": "", "data": data}))
