"""Facts of venues and units that a file does not state: rows are read by them, or a question is raised."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from derivdata.errors import ArchiveError
from derivdata.sources.archive import import_files, open_archive
from derivdata.sources.archive.importing import Unclear
from tests.archive.rates import EVER

_START = 1_769_990_400  # 2026-02-02T00:00Z


def _import(folder: Path, name: str, content: str, **said: Any) -> Any:
    path = folder / "in" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return import_files(said.pop("table", None), path, folder / "to", **said)


def _rows(folder: Path, table: str) -> pd.DataFrame:
    return open_archive(folder / "to").read(table, *EVER)


def _lines(header: str, row: str, hours: float = 1, count: int = 12) -> str:
    lines = [header]
    for number in range(count):
        second = _START + round(3_600 * hours * number)
        at = pd.Timestamp(second, unit="s")
        lines.append(row.format(s=second, ms=second * 1000, at=at))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("hours", [2, 4, 8])
@pytest.mark.parametrize("name", ["hyperliquid_BTC_funding.csv", "dydx_BTC-USD.csv"])
def test_rates_of_an_hour_that_are_hours_apart_are_samples(tmp_path: Path, name: str, hours: int) -> None:
    """0.0000125 an hour is 1 bps per 8 hours, whatever the time between rows is."""
    _import(tmp_path, name, _lines("timestamp,funding_rate", "{ms},0.0000125", hours))
    rows = _rows(tmp_path, "funding_history")
    assert rows["rate_bps_8h"].tolist() == pytest.approx([1.0] * 12)


def test_payments_of_a_venue_that_pays_each_hour_are_of_an_hour(tmp_path: Path) -> None:
    """The hours 0, 1, 2, 3, 8, 9, 10 and 11: four payments are missing, and none is of five hours."""
    whole = _lines("coin,fundingRate,premium,time", "BTC,0.0000125,0.0001,{ms}").splitlines()
    said: dict[str, Any] = {"table": "funding_settlements", "set": {"exchange": "hyperliquid"}}
    _import(tmp_path, "history.csv", "\n".join([*whole[:5], *whole[9:]]) + "\n", **said)
    rows = _rows(tmp_path, "funding_settlements")
    assert rows["rate_bps_8h"].tolist() == pytest.approx([1.0] * 8)
    assert {*rows["interval_hours"]} == {1.0}
    assert {*rows["interval_source"]} == {"list"}
    sparse = _lines("coin,fundingRate,premium,time", "BTC,0.0000125,0.0001,{ms}", 4)
    with pytest.raises(Unclear, match="are 4 hours apart, but the venue pays every hour"):
        _import(tmp_path, "sparse.csv", sparse, **said)


def test_rates_of_a_year_of_an_hourly_venue_are_samples(tmp_path: Path) -> None:
    """0.1095 a year is 0.0001 in 8 hours."""
    content = _lines("timestamp,asset,funding_apr", "{ms},BTC,0.1095", 4)
    _import(tmp_path, "funding_history.csv", content, set={"exchange": "hyperliquid"}, unit="per_year")
    assert _rows(tmp_path, "funding_history")["rate_bps_8h"].tolist() == pytest.approx([1.0] * 12)


def test_a_venue_with_longer_intervals_before_is_asked_about(tmp_path: Path) -> None:
    content = _lines("timestamp,funding_rate", "{ms},0.0000125", 8)
    with pytest.raises(Unclear, match="kraken pays every hour"):
        _import(tmp_path, "kraken_BTC.csv", content)


@pytest.mark.parametrize(
    ("rate", "price", "bps"),
    [
        ("0.035000000", "140.0", 20.0),  # 0.035 / 140 an hour
        ("6.399237833", "77333.73", 6.399237833 / 77333.73 * 80_000),
        ("837500000", "67000000000", 1.0),  # 0.8375 / 67,000 an hour, in 1e-9 and 1e-6 USD
    ],
)
def test_records_of_drift_are_decimals_or_integers(tmp_path: Path, rate: str, price: str, bps: float) -> None:
    """S3 fundingRateRecords of 2024 to 2026 have decimals, the program's records integers."""
    header = "ts,fundingRate,fundingRateLong,fundingRateShort,oraclePriceTwap,markPriceTwap,periodRevenue"
    content = f"{header}\n{_START},{rate},{rate},{rate},{price},{price},0.5\n"
    _import(tmp_path, "drift/SOL-PERP.csv", content, set={"symbol": "SOL"})
    assert _rows(tmp_path, "funding_settlements")["rate_bps_8h"].tolist() == pytest.approx([bps])


@pytest.mark.parametrize(
    ("name", "header", "row", "usd"),
    [
        # 8,123,456 contracts of 100 USD; 812,345,678 USD of both sides.
        (
            "binance_coinm_oi.csv",
            "symbol,sumOpenInterest,sumOpenInterestValue,timestamp",
            "BTCUSD_PERP,8123456,12124.56,{ms}",
            812_345_600.0,
        ),
        (
            "binance_oi.csv",
            "symbol,timestamp,open_interest,open_interest_value",
            "BTCUSD_PERP,{ms},8123456,12124.56",
            812_345_600.0,
        ),
        (
            "bybit_oi.csv",
            "symbol,timestamp,openInterest,openInterestValue",
            "BTCUSD,{ms},812345678,12124.56",
            406_172_839.0,
        ),
    ],
)
def test_values_of_inverse_contracts_are_coins(
    tmp_path: Path, name: str, header: str, row: str, usd: float
) -> None:
    _import(tmp_path, name, _lines(header, row))
    assert {*_rows(tmp_path, "oi_history")["oi_usd"]} == {usd}


def test_contracts_of_inverse_contracts_are_usd(tmp_path: Path) -> None:
    content = _lines("symbol,timestamp,open_interest", "ETHUSD_PERP,{ms},8123456")
    with pytest.raises(Unclear, match="may be in USD, coins or contracts"):
        _import(tmp_path, "binance_oi.csv", content)
    _import(tmp_path, "binance_oi.csv", content, unit="contracts")
    assert {*_rows(tmp_path, "oi_history")["oi_usd"]} == {81_234_560.0}  # of 10 USD


def test_a_value_of_an_inverse_contract_alone_is_asked_about(tmp_path: Path) -> None:
    content = _lines("symbol,timestamp,open_interest_value", "BTCUSD_PERP,{ms},12124.56")
    with pytest.raises(Unclear, match="open_interest_value of BTCUSD_PERP may be in USD, coins or contracts"):
        _import(tmp_path, "binance_oi.csv", content)


@pytest.mark.parametrize(
    ("venue", "name"),
    [
        ("kraken", "PI_XBTUSD"),
        ("kucoin", "XBTUSDTM"),
        ("phemex", "BTCUSD"),
        ("okx", "BTC-USD-SWAP"),
        ("okx", "BTC-USDC-SWAP"),
        ("bitmex", "ETHUSD"),
    ],
)
def test_sizes_of_contracts_are_not_taken_for_coins(tmp_path: Path, venue: str, name: str) -> None:
    content = f"timestamp,symbol,side,price,quantity\n{_START},{name},long,67000,1500\n"
    with pytest.raises(Unclear, match=f"sizes of {name} on {venue} .* may be in coins or in another unit"):
        _import(tmp_path, f"{venue}/liquidations.csv", content)


def test_contracts_of_kraken_are_usd_or_coins(tmp_path: Path) -> None:
    for name, usd in (("PI_XBTUSD", 1_500.0), ("PF_XBTUSD", 1_500 * 67_000.0)):
        content = f"timestamp,symbol,side,price,quantity\n{_START},{name},long,67000,1500\n"
        _import(tmp_path / name, "kraken/liquidations.csv", content, unit="contracts")
        assert _rows(tmp_path / name, "liquidations_fills")["value_usd"].tolist() == [usd]


def test_a_contract_size_is_not_that_of_every_contract(tmp_path: Path) -> None:
    """A contract of DOGE-USDT-SWAP is 1,000 DOGE, which no fact of the library says."""
    content = (
        "timestamp,symbol,side,price,quantity\n"
        f"{_START},BTC-USDT-SWAP,long,67000,8.5\n{_START},DOGE-USDT-SWAP,long,0.25,3\n"
    )
    with pytest.raises(Unclear, match=r"contract_size=0\.01 is not the size of all contracts"):
        _import(tmp_path, "okx/liquidations.csv", content, set={"contract_size": "0.01"})
    counts = _import(tmp_path, "okx/liquidations.csv", content, unit="contracts")
    assert (counts.written, counts.rejected) == (1, 1)
    assert _rows(tmp_path, "liquidations_fills")["value_usd"].tolist() == [5_695.0]


@pytest.mark.parametrize(("venue", "name"), [("phemex", "BTCUSD"), ("bitmex", "ETHUSD")])
def test_sizes_in_books_of_unknown_contracts_are_rejected(tmp_path: Path, venue: str, name: str) -> None:
    content = f"timestamp,symbol,bid_px_1,bid_sz_1,ask_px_1,ask_sz_1\n{_START},{name},2000,10,2001,10\n"
    with pytest.raises(ArchiveError, match="may be in contracts"):
        _import(tmp_path, f"{venue}/book.csv", content)


def test_fields_of_an_object_count_both_sides_too(tmp_path: Path) -> None:
    content = _lines("ts,data.symbol,data.openInterestValue", "{ms},BTCUSDT,3484059500.25")
    counts = _import(tmp_path, "bybit.csv", content)
    assert {*_rows(tmp_path, "oi_history")["oi_usd"]} == {1_742_029_750.125}
    assert "is halved" in counts.notices[0]


def test_a_figure_of_a_venue_of_both_sides_has_a_notice(tmp_path: Path) -> None:
    content = _lines("ts,symbol,open_interest_usd", "{ms},BTC_USDT,3484059500")
    counts = _import(tmp_path, "gate.csv", content)
    assert {*_rows(tmp_path, "oi_history")["oi_usd"]} == {3_484_059_500.0}
    assert "open_interest_usd is stored unchanged" in counts.notices[0]


def test_rows_of_coins_are_not_totals_of_venues(tmp_path: Path) -> None:
    content = _lines("time,coin,exchange,long_oi,total_oi_usd", "{s},BTC,hyperliquid,1.7e9,3.4e9")
    assert _import(tmp_path, "oi_sides.csv", content).table == "oi_history"
    assert {*_rows(tmp_path, "oi_history")["oi_usd"]} == {1.7e9}


def test_a_column_states_the_zone(tmp_path: Path) -> None:
    """Midnight in Tokyo is 15:00 UTC of the day before."""
    content = _lines("timestamp,tz,symbol,oi_usd", "{at:%Y-%m-%d %H:%M:%S},Asia/Tokyo,BTCUSDT,6e9")
    _import(tmp_path, "binance.csv", content)
    assert _rows(tmp_path, "oi_history")["time"].min() == pd.Timestamp("2026-02-01T15:00Z")
    mixed = content.replace("Asia/Tokyo", "Europe/Paris", 1)
    with pytest.raises(Unclear, match="column tz has time zones"):
        _import(tmp_path, "binance.csv", mixed)


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("date,time", "{at:%Y%m%d},{at:%H%M}"),
        ("date,time", "{at:%Y-%m-%d},{at:%-H%M%S}"),
        ("trade_date,trade_time", "{at:%Y-%m-%d},{at:%H:%M:%S}"),
        ("Date,Hour", "{at:%Y-%m-%d},{at:%H:%M}"),
        ("year,month,day,hour", "{at:%Y},{at:%-m},{at:%-d},{at:%-H}"),
        ("instant", "{at:%Y-%m-%dT%H:%M:%SZ}"),
    ],
)
def test_times_in_several_columns(tmp_path: Path, header: str, row: str) -> None:
    _import(tmp_path, "binance.csv", _lines(f"{header},symbol,oi_usd", f"{row},BTCUSDT,6e9", 8))
    stamps = _rows(tmp_path, "oi_history")["time"]
    assert stamps.tolist() == [pd.Timestamp(_START + 28_800 * n, unit="s", tz="UTC") for n in range(12)]


def test_prices_of_cme_are_not_those_of_a_perpetual_contract(tmp_path: Path) -> None:
    content = '"Date","Price","Open","High","Low"\n"2026-02-13","67,000.0","66,000.0","68,000.0","65,000.0"\n'
    with pytest.raises(Unclear, match="may belong to dated futures of CME"):
        _import(tmp_path, "Bitcoin Futures CME Historical Data.csv", content, set={"exchange": "cme"})


def test_a_ratio_that_contradicts_its_shares_is_rejected(tmp_path: Path) -> None:
    header = "time,symbol,long_account,short_account,long_short_ratio"
    content = f"{header}\n{_START},BTCUSDT,60,40,1.9\n{_START + 3600},BTCUSDT,60,40,1.5\n"
    counts = _import(tmp_path, "binance_accounts.csv", content, set={"kind": "accounts"})
    assert (counts.written, counts.rejected) == (1, 1)
    assert "long_short_ratio=1.9 contradicts the shares 0.6 and 0.4" in str(counts.first_rejected)


@pytest.mark.parametrize(
    ("name", "execution"), [("BTC_option_trades.json", "book"), ("blockTrades.json", "block")]
)
def test_trades_of_binance_are_of_the_book_or_of_blocks_by_their_name(
    tmp_path: Path, name: str, execution: str
) -> None:
    """GET /eapi/v1/trades and /eapi/v1/blockTrades, documented 2026, have the same fields."""
    trade = {
        "id": 1, "tradeId": "160", "symbol": "BTC-260327-70000-C", "price": "2130.5", "qty": "0.5",
        "quoteQty": "1065.25", "side": -1, "time": _START * 1000,
    }  # fmt: skip
    _import(tmp_path, name, json.dumps([trade]))
    assert {*_rows(tmp_path, "options_trades")["execution"]} == {execution}
    with pytest.raises(Unclear, match="--set execution=book"):
        _import(tmp_path, "options.json", json.dumps([trade]))


def test_prices_of_far_options_are_usd_by_their_volatility(tmp_path: Path) -> None:
    """A call of 200,000 in 53 days at 88 % is worth 0.0001 coins, or 6.6 USD at 67,100 USD."""
    header = "timestamp,instrument_name,bid,ask,mark_price,mark_iv,underlying_price"
    far = f"{_START}000,BTC-27MAR26-200000-C,5.5,7.5,6.5,88,67100.5"
    _import(tmp_path / "usd", "deribit_chain.csv", f"{header}\n{far}\n")
    row = _rows(tmp_path / "usd", "options_snapshot").iloc[0]
    assert row[["bid_usd", "ask_usd", "mark_usd"]].tolist() == [5.5, 7.5, 6.5]
    assert pd.isna(row["mark_coin"])
    near = f"{_START}000,BTC-27MAR26-70000-C,0.0505,0.0515,0.051,52.5,67100.5"
    _import(tmp_path / "coin", "deribit_chain.csv", f"{header}\n{near}\n")
    assert _rows(tmp_path / "coin", "options_snapshot")["mark_coin"].tolist() == [0.051]


def test_the_venue_and_symbol_are_asked_for_first(tmp_path: Path) -> None:
    """With them, the table of hourly rates and the unit of open interest follow."""
    rates = _lines("time,rate", "{at:%Y-%m-%dT%H:%M:%SZ},0.0001")
    interest = _lines("time,open_interest,mark_price", "{at:%Y-%m-%dT%H:%M:%SZ},81234.5,67000")
    for content in (rates, interest):
        with pytest.raises(ArchiveError, match="such as --market binance:BTC"):
            _import(tmp_path, "x.csv", content)
    _import(tmp_path, "x.csv", rates, market="binance:BTC")
    _import(tmp_path, "y.csv", interest, market="binance:BTC")
    assert _rows(tmp_path, "funding_history")["rate_bps_8h"].tolist() == pytest.approx([1.0] * 12)
    assert {*_rows(tmp_path, "oi_history")["oi_usd"]} == {81_234.5 * 67_000}


def test_rates_at_the_floor_of_an_hour_are_not_of_eight(tmp_path: Path) -> None:
    content = _lines("time,rate", "{at:%Y-%m-%dT%H:%M:%SZ},0.0000125")
    with pytest.raises(Unclear, match="per the venue's own interval"):
        _import(tmp_path, "x.csv", content, market="binance:BTC")


def test_rates_of_other_coins_than_leaders_are_asked_about(tmp_path: Path) -> None:
    content = _lines("time,rate", "{at:%Y-%m-%dT%H:%M:%SZ},0.0001")
    with pytest.raises(Unclear, match="may be payments"):
        _import(tmp_path, "x.csv", content, market="binance:DOGE")


def test_an_interval_of_all_rows_is_not_that_of_a_venue_that_pays_each_hour(tmp_path: Path) -> None:
    header = "time,venue,symbol,funding_rate,collected_at"
    lines = [header]
    for hour in range(6):
        lines.append(f"{_START + 3600 * hour},hyperliquid,BTC,0.0000125,{_START + 3600 * hour + 2}")
        lines.append(f"{_START + 3600 * hour},binance,BTCUSDT,0.0001,{_START + 3600 * hour + 2}")
    content = "\n".join(lines) + "\n"
    with pytest.raises(ArchiveError, match="interval_hours=8 contradicts hyperliquid"):
        _import(tmp_path, "x.csv", content, set={"interval_hours": "8"})
    _import(tmp_path, "x.csv", content)
    rates = _rows(tmp_path, "funding_history")
    assert rates["rate_bps_8h"].tolist() == pytest.approx([1.0] * 12)


def test_rows_at_the_payments_of_all_contracts_are_payments(tmp_path: Path) -> None:
    """Tables of a collector, 2026: the time of insertion is the same in all rows."""
    lines = ["exchange,symbol,funding_rate,collected_at,created_at"]
    lines += [f"hyperliquid,BTC,0.0000125,{_START + 3600 * n}000,2026-02-20 10:00:01" for n in range(8)]
    lines += [f"binance,BTC,0.0001,{_START + 28800 * n}000,2026-02-20 10:00:01" for n in range(4)]
    _import(tmp_path, "unified.csv", "\n".join(lines) + "\n")
    rows = _rows(tmp_path, "funding_settlements")
    assert rows.groupby("exchange")["interval_hours"].unique().map(list).to_dict() == {
        "binance": [8.0],
        "hyperliquid": [1.0],
    }
    assert rows["rate_bps_8h"].tolist() == pytest.approx([1.0] * 12)
    assert rows["time"].min() == pd.Timestamp(_START, unit="s", tz="UTC")


@pytest.mark.parametrize(
    ("venue", "symbol", "columns", "cells", "usd"),
    [
        ("binance", "BTC", "open_interest", "5400000000", 5.4e9),  # more coins than there are
        ("okx", "BTC-USDT-SWAP", "open_interest,mark_price", "5000000,67000", 3.35e9),
        ("okx", "ETH-USDT-SWAP", "oi_contracts,ct_val,mark_px", "5000000,0.1,2000.5", 1_000_250_000.0),
        ("bitget", "ETHUSDT", "open_interest,mark_price", "500000,2000", 1e9),
    ],
)
def test_open_interest_is_read_by_the_only_possible_size(
    tmp_path: Path, venue: str, symbol: str, columns: str, cells: str, usd: float
) -> None:
    content = _lines(f"time,exchange,symbol,{columns}", f"{{s}},{venue},{symbol},{cells}")
    _import(tmp_path, "oi.csv", content)
    assert _rows(tmp_path, "oi_history")["oi_usd"].tolist() == pytest.approx([usd] * 12)


@pytest.mark.parametrize(
    ("venue", "symbol", "columns", "cells"),
    [
        ("binance", "BTC", "open_interest,mark_price", "12000000,67000"),  # USD? contracts?
        ("binance", "BTC", "open_interest,mark_price", "5123456,67000"),
        ("okx", "BTC-USDT-SWAP", "open_interest", "5123456"),
        ("myvenue", "BTCUSDT", "open_interest,mark_price", "81234.5,67000"),
    ],
)
def test_open_interest_of_several_possible_sizes_is_asked_about(
    tmp_path: Path, venue: str, symbol: str, columns: str, cells: str
) -> None:
    content = _lines(f"time,exchange,symbol,{columns}", f"{{s}},{venue},{symbol},{cells}")
    with pytest.raises(Unclear, match="may be in USD, coins or contracts"):
        _import(tmp_path, "oi.csv", content)


def test_comments_above_the_names_state_the_market_and_the_zone(tmp_path: Path) -> None:
    content = "# source: OKX public API v5\n# instrument: ETH-USDT-SWAP\n# timezone: Asia/Tokyo\n"
    content += _lines("ts,mark_price", "{at:%Y-%m-%d %H:%M:%S},2000.5")
    _import(tmp_path, "export.csv", content)
    first = _rows(tmp_path, "prices_history").iloc[0]
    assert first[["symbol", "exchange", "price_usd"]].tolist() == ["ETH", "okx", 2000.5]
    assert first["time"] == pd.Timestamp("2026-02-01T15:00Z")


def test_what_remains_of_an_order_is_not_a_liquidation(tmp_path: Path) -> None:
    content = _lines("timestamp,symbol,side,price,leavesQty", "{s},XBTUSD,Sell,67000,500")
    with pytest.raises(ArchiveError, match="leavesQty is the remaining size of an order"):
        _import(tmp_path, "bitmex.csv", content)


def test_totals_have_a_notice_that_the_service_adds_up_its_own(tmp_path: Path) -> None:
    counts = _import(tmp_path, "total_oi.csv", _lines("time,exchange,total_oi_usd", "{s},binance,25e9"))
    assert "the local service serves totals that it computes from oi_history" in counts.notices[0]
    assert {*_rows(tmp_path, "oi_exchange_totals")["total_oi_usd"]} == {25e9}


def test_coins_without_a_price_do_not_stop_the_other_tables(tmp_path: Path) -> None:
    content = _lines("time,coin,funding_rate,open_interest", "{s},BTC,0.0000125,25000.5")
    counts = _import(tmp_path, "hyperliquid.csv", content)
    assert counts.table == "funding_settlements"
    assert "open_interest is in coins, but the file has no price column" in counts.notices[0]


def test_a_step_of_rows_is_not_the_interval_of_payments(tmp_path: Path) -> None:
    """A table of Coinalyze's hourly data, 2026, with a payment of Binance every 8 hours."""
    content = _lines("time,exchange,symbol,interval,funding_rate", "{s},binance,BTCUSDT,1hour,0.0001", 8)
    _import(tmp_path, "x.csv", content)
    rows = _rows(tmp_path, "funding_settlements")
    assert {*rows["interval_hours"]} == {8.0}
    assert rows["rate_bps_8h"].tolist() == pytest.approx([1.0] * 12)


def _mark_price(symbol: str) -> str:
    """Return two messages of Binance's stream of mark prices, documented 2026."""
    lines = ""
    for second in (_START, _START + 1):
        message = {
            "e": "markPriceUpdate", "E": second * 1000, "s": symbol, "p": "2000.5", "i": "1999.5",
            "P": "2000", "r": "0.0001", "T": (_START + 28_800) * 1000,
        }  # fmt: skip
        lines += json.dumps({"stream": f"{symbol.lower()}@markPrice@1s", "data": message}) + "\n"
    return lines


def test_running_rates_have_the_interval_that_is_a_fact_or_are_left_out(tmp_path: Path) -> None:
    counts = _import(tmp_path, "binance_ws.jsonl", _mark_price("ETHUSDT"))
    assert "funding_history" in counts.table
    assert _rows(tmp_path, "funding_history")["rate_bps_8h"].tolist() == pytest.approx([1.0] * 2)
    counts = _import(tmp_path / "other", "binance_ws.jsonl", _mark_price("TRBUSDT"))
    assert counts.table == "prices_history"
    assert "running rates are omitted, because their interval is unknown" in counts.notices[0]


@pytest.mark.parametrize(
    ("name", "row", "table", "column", "value"),
    [
        ("bybit_BTC_open_interest_usd_1h.csv", "5.4e9,5.5e9,5.3e9,5.41e9", "oi_history", "oi_usd", 5.4e9),
        ("okx_BTC_funding_ohlc.csv", "0.0001,0.0002,0,0.00015", "funding_history", "rate_bps_8h", 1.0),
        ("okx_BTC_funding_percent.csv", "0.01,0.02,0,0.015", "funding_history", "rate_bps_8h", 1.0),
        (
            "deribit_BTC_volatility_index.csv",
            "50.5,51,49,50",
            "volatility_index_published",
            "index_pct",
            50.5,
        ),
    ],
)
def test_candles_have_the_quantity_of_the_table(
    tmp_path: Path, name: str, row: str, table: str, column: str, value: float
) -> None:
    content = _lines("time,open,high,low,close", f"{{s}},{row}")
    with pytest.raises(
        Unclear, match=f"pass --table {table} to import column open, or --table prices_history"
    ):
        _import(tmp_path, name, content)
    _import(tmp_path, name, content, table=table)
    assert _rows(tmp_path, table)[column].tolist() == pytest.approx([value] * 12)


def test_candles_of_spot_markets_need_their_quote(tmp_path: Path) -> None:
    content = _lines("time,open,high,low,close", "{s},67000,67100,66900,67050")
    with pytest.raises(Unclear, match="pass --table prices_spot and --set quote=USDT"):
        _import(tmp_path, "okx_BTC_spot.csv", content)
    _import(tmp_path, "okx_BTC_spot.csv", content, table="prices_spot", set={"quote": "USDT"})
    assert {*_rows(tmp_path, "prices_spot")["price"]} == {67_000.0}


def test_names_of_bulk_files_are_those_of_binance(tmp_path: Path) -> None:
    header = "update_id,best_bid_price,best_bid_qty,best_ask_price,best_ask_qty,transaction_time,event_time"
    content = f"{header}\n1,67000.1,2.5,67000.2,1.5,{_START}001,{_START}002\n"
    _import(tmp_path, "BTCUSDT-bookTicker-2026-02-02.csv", content)
    rows = _rows(tmp_path, "orderbook_book").set_index("side")
    assert {*rows["exchange"]} == {"binance"}
    assert rows["size"].to_dict() == {"ask": 1.5, "bid": 2.5}


def test_the_word_of_a_currency_does_not_make_payments_of_samples(tmp_path: Path) -> None:
    """Hourly rates of Binance's BTC, which pays each 8 hours: 0.0001 is 1 bps per 8 hours."""
    header = "time,exchange,symbol,funding_rate,settle_currency"
    _import(tmp_path, "rates.csv", _lines(header, "{ms},binance,BTCUSDT,0.0001,USDT"))
    assert _rows(tmp_path, "funding_history")["rate_bps_8h"].tolist() == pytest.approx([1.0] * 12)


def test_rows_more_often_than_a_known_interval_are_samples(tmp_path: Path) -> None:
    header = "timestamp,exchange,symbol,funding_rate"
    _import(tmp_path, "rates.csv", _lines(header, "{ms},binance,BTCUSDT,0.0001", 4))
    assert _rows(tmp_path, "funding_history")["rate_bps_8h"].tolist() == pytest.approx([1.0] * 12)


@pytest.mark.parametrize("cycle", [",8", ""])
def test_rates_before_their_payment_are_samples(tmp_path: Path, cycle: str) -> None:
    """The payments are at 00:00, 08:00 and 16:00; the first row is at 05:30."""
    header = "symbol,timestamp,fundingRate,nextSettleTime" + (",collectCycle" if cycle else "")
    rows = [header]
    for hours in (5.5, 13.5, 21.5):
        second = _START + round(3600 * hours)
        due = second + 9000
        rows.append(f"PEPE_USDT,{second}000,0.0004,{due}000{cycle}")
    said: dict[str, Any] = {"set": {"exchange": "mexc"} | ({} if cycle else {"interval_hours": "8"})}
    _import(tmp_path, "rates.csv", "\n".join(rows) + "\n", **said)
    stored = _rows(tmp_path, "funding_history")
    assert stored["rate_bps_8h"].tolist() == pytest.approx([4.0] * 3)
    assert stored["time"].iloc[0] == pd.Timestamp("2026-02-02T05:30Z")


def test_the_venue_of_a_folder_comes_before_fields_that_venues_share(tmp_path: Path) -> None:
    row = {"symbol": "BTCUSDT", "fundingTime": _START * 1000, "fundingRate": "0.0001", "markPrice": "67000"}
    _import(tmp_path, "aster/history.json", json.dumps([row]))
    assert {*_rows(tmp_path, "funding_settlements")["exchange"]} == {"aster"}


def test_a_rate_of_a_stated_period_comes_before_one_of_an_unknown_interval(tmp_path: Path) -> None:
    """A table of Deribit's rates, 2026: 0.0000125 of an hour, 0.0001 of 8 hours and their prices."""
    header = "time,instrument_id,funding_rate,funding_rate_8h,index_price,mark_price"
    _import(
        tmp_path, "deribit_funding.csv", _lines(header, "{s},BTC-PERPETUAL,0.0000125,0.0001,66999.5,67000.5")
    )
    assert _rows(tmp_path, "funding_history")["rate_bps_8h"].tolist() == pytest.approx([1.0] * 12)
    assert {*_rows(tmp_path, "prices_history")["price_usd"]} == {66_999.5, 67_000.5}


@pytest.mark.parametrize(("unit", "usd"), [("usd", 4e5), ("BTC", 4e5 * 67_000), ("coins", 4e5 * 67_000)])
def test_a_column_states_the_unit(tmp_path: Path, unit: str, usd: float) -> None:
    content = _lines(
        "time,exchange,symbol,open_interest,unit,price", f"{{s}},myvenue,BTCUSDT,4e5,{unit},67000"
    )
    said: dict[str, Any] = {"accept": ["unit"]}
    _import(tmp_path, "oi.csv", content, **said)
    assert {*_rows(tmp_path, "oi_history")["oi_usd"]} == {usd}
    with pytest.raises(ArchiveError, match="contradicts the unit column"):
        _import(tmp_path, "oi.csv", content, unit="contracts", **said)


def test_rows_of_several_units_are_refused(tmp_path: Path) -> None:
    content = _lines("time,exchange,symbol,open_interest,unit", "{s},binance,BTCUSDT,6e9,usd", count=3)
    content += f"{_START},bybit,BTCUSDT,52000.5,BTC\n"
    with pytest.raises(ArchiveError, match=r"column unit has several or unknown units \(usd, BTC\)"):
        _import(tmp_path, "oi.csv", content, unit="usd")


def test_values_of_htx_are_of_both_sides(tmp_path: Path) -> None:
    content = _lines("timestamp,contract_code,volume,amount,value", "{ms},BTC-USDT,60000000,60000,4020030000")
    counts = _import(tmp_path, "htx_open_interest.csv", content, unit="usd")
    assert {*_rows(tmp_path, "oi_history")["oi_usd"]} == {2_010_015_000.0}
    assert "is halved" in counts.notices[0]


def test_a_book_of_gate_has_coins(tmp_path: Path) -> None:
    """GET /futures/usdt/order_book, documented 2026: 15,000 contracts of 0.0001 BTC; DOGE has no fact."""
    book = {
        "id": 123, "current": _START + 0.123, "update": _START + 0.111,
        "asks": [{"p": "67000.1", "s": 5000}, {"p": "67000.2", "s": 30000}],
        "bids": [{"p": "67000.0", "s": 15000}],
    }  # fmt: skip
    _import(tmp_path, "gate_orderbook_BTC_USDT.json", json.dumps(book))
    rows = _rows(tmp_path, "orderbook_book").sort_values("price_usd")
    assert rows["size"].tolist() == pytest.approx([1.5, 0.5, 3.0])
    with pytest.raises(ArchiveError, match="sizes are in contracts and are omitted"):
        _import(tmp_path, "gate_orderbook_DOGE_USDT.json", json.dumps(book))


def test_trades_of_options_of_okx_are_of_contracts(tmp_path: Path) -> None:
    """Columns of GET /api/v5/public/option-trades, documented 2026: 250 contracts of 0.01 BTC."""
    header = "instId,side,sz,px,tradeId,ts,fillVol,fwdPx,idxPx,markPx,optType"
    row = f"BTC-USD-260327-70000-C,buy,250,0.029,12,{_START}000,0.452,67600,67000,0.0289,C"
    lacking = f"BTC-USD-260327-70000-C,buy,250,,13,{_START}001,0.452,67600,67000,0.0289,C"
    counts = _import(tmp_path, "okx_option_trades.csv", f"{header}\n{row}\n{lacking}\n")
    stored = _rows(tmp_path, "options_trades").iloc[0]
    assert (stored["size"], stored["price_coin"], stored["iv"]) == (2.5, 0.029, 0.452)
    assert (counts.written, counts.rejected) == (1, 1)
    assert "the price is missing" in str(counts.first_rejected)


def test_greeks_of_black_and_scholes_come_before_those_in_coins(tmp_path: Path) -> None:
    """Columns of OKX's GET /api/v5/public/opt-summary, documented 2026."""
    header = "instId,ts,markVol,delta,gamma,theta,vega,deltaBS,gammaBS,thetaBS,vegaBS,fwdPx"
    figures = "0.452,0.381,-0.13,-0.0004,0.002,0.41,0.00003,-60.2,120.1,67600.5"
    _import(tmp_path, "okx_summary.csv", f"{header}\nBTC-USD-260327-70000-C,{_START}000,{figures}\n")
    stored = _rows(tmp_path, "options_snapshot").iloc[0]
    assert stored[["delta", "gamma", "theta", "vega"]].tolist() == [0.41, 0.00003, -60.2, 120.1]


def test_the_listing_of_a_contract_is_not_the_time_of_its_rate(tmp_path: Path) -> None:
    content = f"symbol,fundingFeeRate,markPrice,firstOpenDate\nXBTUSDTM,0.0001,67000,{_START}000\n"
    with pytest.raises(ArchiveError, match="no column is recognised as the time"):
        _import(tmp_path, "kucoin.csv", content)


def test_dates_of_deliveries_are_eight_o_clock(tmp_path: Path) -> None:
    content = ",date,delivery_price\n0,2026-02-02,67000.55\n1,2026-02-01,66999.55\n"
    _import(tmp_path, "deribit_delivery_prices_btc_usd.csv", content)
    rows = _rows(tmp_path, "delivery_prices").sort_values("time")
    assert rows["time"].tolist() == [pd.Timestamp("2026-02-01T08:00Z"), pd.Timestamp("2026-02-02T08:00Z")]
    assert rows["price_usd"].tolist() == [66_999.55, 67_000.55]


@pytest.mark.parametrize(("name", "usd"), [("BTC-USD-SWAP", 1_000.0), ("ETH-USD-SWAP", 100.0)])
def test_inverse_contracts_of_okx_are_of_known_usd(tmp_path: Path, name: str, usd: float) -> None:
    content = f"timestamp,symbol,side,price,quantity\n{_START},{name},long,2000,10\n"
    _import(tmp_path, "okx/liquidations.csv", content, unit="contracts")
    stored = _rows(tmp_path, "liquidations_fills").iloc[0]
    assert (stored["value_usd"], stored["quantity"]) == (usd, usd / 2_000)


def test_open_interest_of_options_is_not_that_of_perpetual_contracts(tmp_path: Path) -> None:
    content = _lines("time,deribit,okx,binance", "{at:%Y-%m-%d %H:%M},3e9,1e9,2e8")
    with pytest.raises(Unclear, match="the file name indicates options"):
        _import(tmp_path, "btc_options_open_interest.csv", content)


def test_sizes_of_books_that_are_converted_have_a_notice(tmp_path: Path) -> None:
    content = (
        f"timestamp,symbol,bid_px_1,bid_sz_1,ask_px_1,ask_sz_1\n{_START},BTC-USDT-SWAP,67000,150,67001,70\n"
    )
    counts = _import(tmp_path, "okx_book.csv", content)
    assert sorted(_rows(tmp_path, "orderbook_book")["size"]) == pytest.approx([0.7, 1.5])
    assert "sizes of BTC-USDT-SWAP on okx are contracts of 0.01 coins" in counts.notices[0]


@pytest.mark.parametrize(
    ("words", "said"),
    [(("L LIQ", "S LIQ"), {}), (("A1", "B2"), {"map_values": {"side": {"A1": "long"}}})],
)
def test_the_second_word_of_a_side_is_the_opposite(
    tmp_path: Path, words: tuple[str, str], said: dict[str, Any]
) -> None:
    rows = "".join(f"{_START + n},BTCUSDT,{word},67000,0.5\n" for n, word in enumerate(words))
    _import(tmp_path, "binance_liq.csv", f"timestamp,symbol,side,price,qty\n{rows}", **said)
    assert _rows(tmp_path, "liquidations_fills").sort_values("time")["side"].tolist() == ["long", "short"]


def test_running_rates_have_the_interval_of_the_next_payments(tmp_path: Path) -> None:
    """Rows each 30 minutes, before payments at 08:00 and 12:00: 0.0001 in 4 hours is 2 bps per 8 hours."""
    lines = ["timestamp,symbol,funding_rate,next_funding_time"]
    for number in range(12):
        due = "08:00" if number < 6 else "12:00"
        at = pd.Timestamp(_START + 18_000 + 1_800 * number, unit="s")
        lines.append(f"{at:%Y-%m-%dT%H:%M:%SZ},NTRNUSDT,0.0001,2026-02-02T{due}:00Z")
    _import(tmp_path, "rates.csv", "\n".join(lines) + "\n", set={"exchange": "bybit"})
    assert _rows(tmp_path, "funding_history")["rate_bps_8h"].tolist() == pytest.approx([2.0] * 12)


def test_buyers_and_sellers_of_bybit_are_accounts(tmp_path: Path) -> None:
    content = f"timestamp,buyRatio,sellRatio,symbol\n{_START}000,0.6,0.4,BTCUSDT\n"
    _import(tmp_path, "long_short_ratio.csv", content, set={"exchange": "bybit"})
    stored = _rows(tmp_path, "positioning_history").iloc[0]
    assert (stored["kind"], stored["long_short_ratio"]) == ("accounts", pytest.approx(1.5))


def test_another_statistic_of_the_rate_does_not_replace_it(tmp_path: Path) -> None:
    for name in ("funding_rate_avg_8h", "funding_rate_ma_8h", "funding_rate_max_8h"):
        content = _lines(f"time,funding_rate,{name}", "{ms},0.0001,0.0005", 8)
        _import(tmp_path / name, "binance_BTCUSDT.csv", content)
        stored = _rows(tmp_path / name, "funding_settlements")
        assert stored["rate_bps_8h"].tolist() == pytest.approx([1.0] * 12)


def test_payments_of_several_intervals_are_payments(tmp_path: Path) -> None:
    """One contract pays each 8 hours, and one each 4; the next payment is an interval after each."""
    lines = ["time,exchange,symbol,funding_rate_8h,next_funding_time"]
    for symbol, hours in (("SOLUSDT", 8), ("ENAUSDT", 4)):
        for number in range(6):
            second = _START + 3600 * hours * number
            lines.append(f"{second},binance,{symbol},0.0002,{second + 3600 * hours}")
    _import(tmp_path, "rates.csv", "\n".join(lines) + "\n")
    stored = _rows(tmp_path, "funding_settlements")
    assert stored["symbol"].value_counts().to_dict() == {"SOL": 6, "ENA": 6}
    assert stored["rate_bps_8h"].tolist() == pytest.approx([2.0] * 12)


def test_rows_that_count_down_to_a_payment_are_samples(tmp_path: Path) -> None:
    lines = ["time,exchange,symbol,funding_rate_8h,next_funding_time"]
    lines += [f"{_START + 3600 * hour},binance,SOLUSDT,0.0002,{_START + 28800}" for hour in (0, 4, 7)]
    _import(tmp_path, "rates.csv", "\n".join(lines) + "\n")
    assert len(_rows(tmp_path, "funding_history")) == 3


def test_rates_of_the_last_hours_are_those_of_deribit(tmp_path: Path) -> None:
    content = _lines("time,funding_8h", "{ms},0.0002", 8)
    _import(tmp_path, "binance_SOLUSDT.csv", content)
    assert len(_rows(tmp_path, "funding_settlements")) == 12
    _import(tmp_path, "deribit_BTC-PERPETUAL.csv", content)
    assert len(_rows(tmp_path, "funding_history")) == 12


@pytest.mark.parametrize(
    ("name", "rate"), [("hyperliquid_BTC.csv", 0.0001), ("hyperliquid_BTC_8h_sum.csv", 0.00003)]
)
def test_possible_sums_of_hourly_payments_are_asked_about(tmp_path: Path, name: str, rate: float) -> None:
    """0.0001 each 8 hours is the floor of 8 hours: one payment of an hour would be 8 bps per 8 hours."""
    with pytest.raises(Unclear, match="are 8 hours apart, but hyperliquid pays every hour"):
        _import(tmp_path, name, _lines("time,funding_rate", f"{{ms}},{rate}", 8))


def test_the_zone_of_the_caller_decides_whether_rows_are_at_payments(tmp_path: Path) -> None:
    """05:30, 13:30 and 21:30 in Kolkata are 00:00, 08:00 and 16:00 UTC."""
    times = [f"2026-02-0{day}T{clock}" for day in (2, 3) for clock in ("05:30", "13:30", "21:30")]
    content = "time,funding_rate\n" + "".join(f"{time},0.0001\n" for time in times)
    _import(tmp_path, "binance_BTCUSDT.csv", content, tz="Asia/Kolkata")
    stored = _rows(tmp_path, "funding_settlements")
    assert stored["time"].dt.hour.tolist() == [0, 8, 16] * 2


@pytest.mark.parametrize("field", ["id", "type", "event", "result"])
def test_records_with_an_id_or_a_type_are_not_replies(tmp_path: Path, field: str) -> None:
    lines = [
        f'{{"time": {_START + 28800 * number}, "symbol": "BTCUSDT", "exchange": "binance", '
        f'"fundingRate": 0.0001, "{field}": "x"}}'
        for number in range(12)
    ]
    lines.insert(0, '{"id": 1, "result": null}')
    counts = _import(tmp_path, "rates.jsonl", "\n".join(lines) + "\n")
    assert (counts.read, counts.written) == (12, 12)


def test_a_quantity_that_changes_after_many_rows_is_not_that_of_the_first(tmp_path: Path) -> None:
    """Parquet is read by groups of rows; the second group has index prices."""
    rows = pd.DataFrame(
        {
            "time": pd.date_range("2026-02-02", periods=4200, freq="min", tz="UTC"),
            "exchange": "binance",
            "symbol": "BTCUSDT",
            "metric": ["mark_price"] * 2100 + ["index_price"] * 2100,
            "value": [60000.0] * 2100 + [61000.0] * 2100,
        }
    )
    rows.to_parquet(tmp_path / "rows.parquet", row_group_size=2100)
    counts = import_files(None, tmp_path / "rows.parquet", tmp_path / "to")
    assert (counts.written, counts.rejected) == (4200, 0)
    stored = _rows(tmp_path, "prices_history")
    pairs = {*zip(stored["kind"], stored["price_usd"], strict=True)}
    assert pairs == {("mark", 60000.0), ("index", 61000.0)}


def test_an_export_without_its_kind_is_read(tmp_path: Path) -> None:
    content = _lines("time,symbol,exchange,rate_bps_8h,interval_hours", "{at}+00:00,SOL,binance,1.5,4", 4)
    _import(tmp_path, "mine.csv", content)
    stored = _rows(tmp_path, "funding_settlements")
    assert stored["rate_bps_8h"].tolist() == [1.5] * 12
    assert stored["rate_native"].tolist() == pytest.approx([0.000075] * 12)


def test_the_step_of_a_file_is_not_the_period_of_its_rates(tmp_path: Path) -> None:
    """Glassnode's rates a day apart are averages per 8 hours (API, 2026): 0.0001 is 1 bp per 8 hours."""
    rows = [{"t": _START + 86_400 * day, "o": {"binance": 0.0001, "bybit": 0.00005}} for day in range(3)]
    name = "glassnode_BTC_futures_funding_rate_perpetual_all_24h.json"
    _import(tmp_path, name, json.dumps(rows), table="funding_history")
    stored = _rows(tmp_path, "funding_history")
    assert stored[stored["exchange"] == "binance"]["rate_bps_8h"].tolist() == [1.0] * 3
    assert stored[stored["exchange"] == "bybit"]["rate_bps_8h"].tolist() == [0.5] * 3


def test_deliveries_of_a_coin_are_of_its_index_in_usd(tmp_path: Path) -> None:
    """Deribit's get_delivery_prices does not name its index (API v2, 2026)."""
    body = {"jsonrpc": "2.0", "result": {"data": [{"date": "2026-03-06", "delivery_price": 68123.5}],
                                         "records_total": 1}}  # fmt: skip
    _import(tmp_path, "deliveries.json", json.dumps(body), market="deribit:BTC")
    row = _rows(tmp_path, "delivery_prices").iloc[0]
    assert (row["contract"], row["price_usd"]) == ("index:USD", 68123.5)


def _settlements(header: str, row: str, count: int = 4) -> str:
    lines = [header]
    for number in range(count):
        stamp = pd.Timestamp(_START + 28_800 * number, unit="s")
        lines.append(row.format(time=f"{stamp}Z", local=stamp + pd.Timedelta(7, "h")))
    return "\n".join(lines) + "\n"


def test_raw_rates_of_settlements_are_payments(tmp_path: Path) -> None:
    """Columns of ZuShen168/funding_rate_data (2026): fractions of the interval next to them."""
    head = "venue,venue_symbol,settlement_ts,rate_raw,interval_hours,is_predicted,mark_price"
    content = _settlements(head, "binance,APTUSDT,{time},0.0001,8.0,False,4.5")
    _import(tmp_path, "data.csv", content)
    assert _rows(tmp_path, "funding_settlements")["rate_bps_8h"].tolist() == [1.0] * 4
    assert _rows(tmp_path, "prices_history")["price_usd"].tolist() == [4.5] * 4
    with pytest.raises(ArchiveError, match="is_predicted marks some rates as predictions"):
        _import(tmp_path, "mixed.csv", content + content.splitlines()[-1].replace("False", "True") + "\n")


def test_a_city_in_the_name_of_a_time_is_its_zone(tmp_path: Path) -> None:
    """15:00 in Bangkok is 08:00 UTC."""
    content = _settlements("datetime_bangkok,fundingRate,symbol", "{local},0.0001,ETHPERP")
    _import(tmp_path, "eth.csv", content, set={"exchange": "bybit"})
    stamps = _rows(tmp_path, "funding_settlements")["time"]
    assert stamps.dt.hour.tolist() == [0, 8, 16, 0]


def test_greeks_with_their_object_in_the_name_are_read(tmp_path: Path) -> None:
    """Deribit's ticker after `pandas.json_normalize` with the separator ``_``."""
    head = (
        "instrument_name,timestamp,mark_iv,mark_price,underlying_price,greeks_delta,greeks_vega,stats_volume"
    )
    content = f"{head}\nBTC-27MAR26-70000-C,{_START * 1000},44.5,0.05,67000,0.45,88.5,12.5\n"
    _import(tmp_path, "chain.csv", content, set={"exchange": "deribit"})
    row = _rows(tmp_path, "options_snapshot").iloc[0]
    assert [row["iv"], row["delta"], row["vega"], row["volume"]] == [0.445, 0.45, 88.5, 12.5]


def test_sums_have_the_step_between_their_rows(tmp_path: Path) -> None:
    content = _lines("time,symbol,exchange,long_usd,short_usd", "{s},BTC,binance,1000,2000", 24, 3)
    _import(tmp_path, "liquidations.csv", content)
    assert _rows(tmp_path, "liquidations_history")["resolution"].tolist() == ["1d"] * 3


def test_volumes_of_takers_need_their_unit_only(tmp_path: Path) -> None:
    """Next to open interest they are named in a notice, with the option that reads them."""
    content = _lines(
        "time,exchange,symbol,oi_value_usd,taker_buy_vol,taker_sell_vol", "{s},okx,BTC,3e9,60,40"
    )
    counts = _import(tmp_path, "takers.csv", content)
    assert counts.table == "oi_history"
    assert any("taker_buy_vol and taker_sell_vol may be in USD" in notice for notice in counts.notices)
    _import(tmp_path, "takers.csv", content, unit="usd", table="volume_taker")
    rows = _rows(tmp_path, "volume_taker")
    assert rows[["buy_usd", "sell_usd"]].iloc[0].tolist() == [60.0, 40.0]
    assert rows["resolution"].unique().tolist() == ["1h"]


def test_a_date_and_a_time_of_any_name_are_one_time(tmp_path: Path) -> None:
    content = _lines(
        "symbol,funding_date,funding_time,fundingRate", "BTCUSDT,{at:%Y-%m-%d},{at:%H:%M:%S},0.0001", 8
    )
    _import(tmp_path, "rates.csv", content, set={"exchange": "binance"})
    assert _rows(tmp_path, "funding_settlements")["time"].dt.hour.tolist() == [0, 8, 16] * 4


def test_a_close_of_an_index_is_not_known_at_the_start_of_its_bar(tmp_path: Path) -> None:
    content = _lines("time,close", "{s},64.5")
    with pytest.raises(
        ArchiveError, match="close is the close of a bar, which is known only when the bar ends"
    ):
        _import(tmp_path, "BTC_DVOL_hourly.csv", content)
    _import(tmp_path, "BTC_DVOL_hourly.csv", content.replace("time,", "close_time,"))
    assert _rows(tmp_path, "volatility_index_published")["time"].iloc[0] == pd.Timestamp(
        _START, unit="s", tz="UTC"
    )


def test_volumes_of_a_dated_contract_are_not_those_of_the_perpetual(tmp_path: Path) -> None:
    """Binance's takerBuySellVol of COIN-M has a type of contract for each pair (API, 2026)."""
    row = {"pair": "BTCUSD", "contractType": "CURRENT_QUARTER", "takerBuyVol": "234", "takerSellVol": "121",
           "takerBuyVolValue": "0.35", "takerSellVolValue": "0.18", "timestamp": _START * 1000}  # fmt: skip
    with pytest.raises(ArchiveError, match="contractType has CURRENT_QUARTER"):
        _import(tmp_path, "takerBuySellVol.json", json.dumps([row]))
    tick = [{"volume": "10", "amount_type": 1, "value": "660749.5", "ts": _START * 1000}]
    body = {"status": "ok", "data": {"symbol": "BTC", "contract_code": "BTC-USDT-211210",
                                     "contract_type": "this_week", "tick": tick}}  # fmt: skip
    with pytest.raises(ArchiveError, match="contract_type has THIS_WEEK"):
        _import(tmp_path, "htx_his_open_interest.json", json.dumps(body), unit="usd")


def test_open_interest_of_cryptofeed_has_the_unit_of_each_venue(tmp_path: Path) -> None:
    """90,000 coins on Binance, and 3,000,000 contracts of 0.01 coins on OKX, at 67,000 USD."""
    price = f"time,exchange,symbol,price_usd,kind\n{_START},binance,BTC,67000,mark\n"
    _import(tmp_path, "prices.csv", price, table="prices_history")
    lines = ["exchange,symbol,open_interest,timestamp,receipt_timestamp"]
    for venue, amount in (("BINANCE_FUTURES", 90_000), ("OKX", 3_000_000)):
        lines.append(f"{venue},BTC-USDT-PERP,{amount},{_START}.0,{_START}.2")
    _import(tmp_path, "cryptofeed.csv", "\n".join(lines) + "\n")
    rows = _rows(tmp_path, "oi_history").set_index("exchange")["oi_usd"]
    assert rows.to_dict() == {"binance": 90_000 * 67_000, "okx": 30_000 * 67_000}


def test_liquidations_next_to_the_open_interest_of_gate_are_read(tmp_path: Path) -> None:
    """contract_stats of API v4, 2026: USD of both sides of liquidations next to other figures."""
    rows = []
    for number in range(3):
        row = {"time": _START + 300 * number, "lsr_taker": 1.02, "lsr_account": 1.85, "long_liq_size": 1000}
        row |= {"short_liq_size": 500, "open_interest": 612345678, "short_liq_usd": 4425.0}
        row |= {"mark_price": "67000.5", "open_interest_usd": 4.1e9, "long_liq_usd": 8850.5}
        rows.append(row)
    _import(tmp_path, "gate_contract_stats_BTC_USDT_5m.json", json.dumps(rows))
    stored = _rows(tmp_path, "liquidations_history")
    assert stored[["long_usd", "short_usd"]].to_numpy().tolist() == [[8850.5, 4425.0]] * 3
    assert stored[["exchange", "symbol", "resolution"]].iloc[0].tolist() == ["gateio", "BTC", "5m"]
    assert _rows(tmp_path, "oi_history")["oi_usd"].tolist() == [2.05e9] * 3


def test_rates_of_tickers_without_their_interval_are_named(tmp_path: Path) -> None:
    """Gate has its tickers without the interval of their rates (API v4, 2026)."""
    row = {"contract": "BTC_USDT", "last": "67000", "change_percentage": "1.5", "funding_rate": "0.0001",
           "funding_rate_indicative": "0.0001", "mark_price": "67001", "index_price": "67002",
           "total_size": "32323904", "volume_24h": "1000", "volume_24h_quote": "6700000", "low_24h": "66000",
           "high_24h": "68000", "quanto_base_rate": "", "volume_24h_base": "100",
           "volume_24h_settle": "6700000"}  # fmt: skip
    counts = _import(tmp_path, "gate_tickers.json", json.dumps([row]), set={"time": "2026-03-01T00:00:00Z"})
    assert any(
        "funding_rate is not stored, because the response does not state" in text for text in counts.notices
    )


@pytest.mark.parametrize(
    ("market", "price", "amount"),
    [("aevo:BTC", 67_000, 120.5), ("hyperliquid:BTC", 27_000, 300.5), ("bitfinex:ETH", 2_000, 3000.5)],
)
def test_small_open_interest_of_a_small_venue_is_not_millions(
    tmp_path: Path, market: str, price: float, amount: float
) -> None:
    """120.5 BTC are 8 million USD, which Aevo has, and not 120.5 million."""
    content = f"Time,Price,Open-Interest\n{_START},{price},{amount}\n"
    with pytest.raises(ArchiveError, match=r"--unit usd \(or usd_millions\), --unit coins"):
        _import(tmp_path, "data.csv", content, market=market)


def test_a_period_in_a_file_name_that_is_not_the_step_is_that_of_the_rates(tmp_path: Path) -> None:
    """0.0001 per 8 hours in hourly rows is 1 bp per 8 hours, and not 8."""
    content = _lines("time,value", "{s},0.0001")
    _import(tmp_path, "hyperliquid_BTC_funding_rate_8h.csv", content, table="funding_history")
    assert _rows(tmp_path, "funding_history")["rate_bps_8h"].tolist() == [1.0] * 12


def test_other_times_and_dates_do_not_hide_those_of_rows(tmp_path: Path) -> None:
    head = "symbol,date,time,next_funding_time,ingest_date,fundingRate"
    row = "BTCUSDT,{at:%Y-%m-%d},{at:%H:%M:%S},16:00:00,2026-04-01,0.0001"
    _import(tmp_path, "rates.csv", _lines(head, row, 8), set={"exchange": "binance"})
    assert _rows(tmp_path, "funding_settlements")["time"].dt.hour.tolist() == [0, 8, 16] * 4


def test_the_unit_of_open_interest_is_not_that_of_volumes_next_to_it(tmp_path: Path) -> None:
    """Binance's volumes of takers are coins; the unit answers the question about open interest."""
    content = _lines("time,open_interest,takerBuyVol,takerSellVol", "{s},6000000000,300,280")
    counts = _import(tmp_path, "binance_BTCUSDT.csv", content, unit="usd")
    assert counts.table == "oi_history"
    assert "volume_taker" not in open_archive(tmp_path / "to").tables()


def test_candles_of_a_ratio_have_the_kind_in_the_file_name(tmp_path: Path) -> None:
    content = _lines("time,open,high,low,close", "{s},1.5,1.6,1.4,1.5")
    _import(tmp_path, "binance_BTCUSDT_top_position_ratio.csv", content, table="positioning_history")
    assert set(_rows(tmp_path, "positioning_history")["kind"]) == {"top_positions"}


@pytest.mark.parametrize(("name", "raw"), [("rate_raw", "100000000000000"), ("raw_rate", "0.01")])
def test_a_raw_rate_does_not_replace_the_rate(tmp_path: Path, name: str, raw: str) -> None:
    content = _lines(f"time,{name},funding_rate", "{s}," + raw + ",0.0001", 8)
    _import(tmp_path, "binance_BTCUSDT.csv", content)
    assert set(_rows(tmp_path, "funding_settlements")["rate_bps_8h"]) == {1.0}


def test_the_protocol_of_a_request_is_not_the_venue(tmp_path: Path) -> None:
    content = _lines("time,symbol,source,protocol,funding_rate", "{s},BTC,binance,rest,0.0001", 8)
    _import(tmp_path, "rates.csv", content)
    assert set(_rows(tmp_path, "funding_settlements")["exchange"]) == {"binance"}


def test_charts_of_coinglass_are_open_interest_by_their_name_only(tmp_path: Path) -> None:
    """The letters of "oi" in "coin" are not open interest."""
    data = {
        "time_list": [_START * 1000],
        "price_list": [67000],
        "data_map": {"Binance": [0.01], "OKX": [0.02]},
    }
    body = json.dumps({"code": "0", "data": data})
    for name in ("coinglass_coin_chart_BTC.json", "coinglass_oi_weighted_funding_BTC.json"):
        with pytest.raises(ArchiveError):
            _import(tmp_path, name, body)


def test_volumes_of_takers_without_a_venue_are_not_those_of_okx(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="the columns are not recognised"):
        _import(tmp_path, "taker_volume_BTC.csv", f"{_START * 1000},100,200\n" * 2, unit="usd")


def test_charts_of_coinglass_in_coins_are_not_usd(tmp_path: Path) -> None:
    data = {
        "time_list": [_START * 1000],
        "price_list": [67000],
        "data_map": {"Binance": [120000.5], "OKX": [3e4]},
    }
    body = json.dumps({"code": "0", "data": data})
    with pytest.raises(ArchiveError, match="at most 120,000, probably in coins"):
        _import(tmp_path, "coinglass_oi_exchange_history_chart_BTC.json", body)


def test_prices_of_candles_have_the_step_between_them(tmp_path: Path) -> None:
    """Polls of a price have no step, even if they are an hour apart."""
    market = {"market": "okx:BTC"}
    _import(tmp_path, "BTC.csv", _lines("ts,open,high,low,close", "{s},67000,67100,66900,67050"), **market)
    assert {*_rows(tmp_path, "prices_history")["resolution"]} == {"1h"}
    _import(tmp_path / "polls", "BTC.csv", _lines("ts,last", "{s},67000"), **market)
    assert {*_rows(tmp_path / "polls", "prices_history")["resolution"]} == {"raw"}


def test_rates_of_several_venues_at_one_time_are_samples(tmp_path: Path) -> None:
    """0.0081 % per 8 hours are 0.81 bps; the open interest is in USD by its name, and Bybit's is halved."""
    content = (
        "Timestamp (UTC),Coin,Exchange,Funding Rate 8h (%),Open Interest ($),Mark Price\n"
        '2026-02-02 12:00:00,BTC,Binance,0.0081%,"7,850,000,000",67000.5\n'
        '2026-02-02 12:00:00,BTC,Hyperliquid,0.0100%,"2,100,000,000",66998.0\n'
        '2026-02-02 12:00:00,ETH,Bybit,-0.0025%,"1,900,000,000",2000.5\n'
    )
    _import(tmp_path, "screener.csv", content)
    rates = _rows(tmp_path, "funding_history").set_index(["symbol", "exchange"])["rate_bps_8h"]
    assert rates[("BTC", "binance")] == pytest.approx(0.81)
    assert rates[("ETH", "bybit")] == pytest.approx(-0.25)
    assert _rows(tmp_path, "oi_history")["oi_usd"].sum() == 10_900_000_000.0
    assert len(_rows(tmp_path, "prices_history")) == 3


def test_prices_of_dated_futures_with_their_type_are_read(tmp_path: Path) -> None:
    content = _lines("time,symbol,contractType,price", "{s},BTCUSDT_260327,CURRENT_QUARTER,67000")
    _import(tmp_path, "binance_futures_prices.csv", content)
    assert set(_rows(tmp_path, "futures_history")["instrument_name"]) == {"BTCUSDT_260327"}


def test_words_of_bars_after_a_ticker_are_not_another_quantity(tmp_path: Path) -> None:
    content = _lines("time,open,high,low,close", "{s},67000,67100,66900,67050")
    _import(tmp_path, "BYBIT_BTCUSDT.P_OHLCV.csv", content)
    assert set(_rows(tmp_path, "prices_history")["price_usd"]) == {67000.0}


def test_dated_contracts_named_in_any_column_are_not_the_perpetual(tmp_path: Path) -> None:
    lines = ["time,exchange,symbol,contract_code,oi_usd"]
    lines.append("2021-12-06T00:00:00Z,huobi,BTC,BTC-USDT-211210,600000")
    lines.append("2021-12-06T00:00:00Z,huobi,BTC,BTC-USDT,5000000000")
    lines.append("2021-12-06T08:00:00Z,huobi,BTC,BTC211210,700000")
    _import(tmp_path, "oi.csv", "\n".join(lines) + "\n")
    assert _rows(tmp_path, "oi_history")["oi_usd"].tolist() == [5_000_000_000.0]


def test_prices_of_dated_contracts_named_in_any_column_are_futures(tmp_path: Path) -> None:
    lines = ["timestamp,exchange,symbol,id,mark_price"]
    lines.append("2024-01-01T00:00:00Z,binance,BTCUSDT,BTCUSDT_240329,43250.5")
    _import(tmp_path, "marks.csv", "\n".join(lines) + "\n")
    rows = _rows(tmp_path, "futures_history")
    assert rows["price_usd"].tolist() == [43_250.5]
    assert rows["instrument_name"].tolist() == ["BTCUSDT_240329"]


def test_a_ticker_of_tradingview_without_a_suffix_is_a_spot_market(tmp_path: Path) -> None:
    lines = ["time,symbol,oi_usd"]
    lines.append("2026-01-01T00:00:00Z,BINANCE:BTCUSDT,7000000000")
    lines.append("2026-01-01T00:00:00Z,BINANCE:BTCUSDT.P,5000000000")
    _import(tmp_path, "oi.csv", "\n".join(lines) + "\n", set={"exchange": "binance"})
    rows = _rows(tmp_path, "oi_history")
    assert rows["oi_usd"].tolist() == [5_000_000_000.0]
    assert rows["symbol"].tolist() == ["BTC"]


@pytest.mark.parametrize(
    "texts",
    [
        ["BTC-260202", "BTC-260203", "BTC-260204"],  # identifiers with the day of the row
        ["BTCUSDT_260327", "checked", "BTC-27MAR26"],  # remarks about other contracts
        ["BTCH26", "a1", "b2"],
    ],
)
@pytest.mark.parametrize("column", ["row_id", "note"])
def test_texts_that_end_in_a_date_by_chance_do_not_reject_rows(
    tmp_path: Path, column: str, texts: list[str]
) -> None:
    lines = [f"time,symbol,exchange,funding_rate,mark_price,interval_hours,{column}"]
    for hour, text in zip((0, 8, 16), texts, strict=True):
        lines.append(f"2026-02-02T{hour:02}:00:00Z,BTC,binance,0.0001,77000,8,{text}")
    _import(tmp_path, "rates.csv", "\n".join(lines) + "\n", table="funding_settlements")
    assert _rows(tmp_path, "funding_settlements")["rate_bps_8h"].tolist() == [1.0, 1.0, 1.0]


def test_remarks_about_dated_contracts_do_not_make_prices_futures(tmp_path: Path) -> None:
    lines = ["time,symbol,exchange,mark_price,note"]
    lines.append("2026-02-02T00:00:00Z,BTC,binance,77000,BTCUSDT_260327")
    lines.append("2026-02-02T01:00:00Z,BTC,binance,77100,ok")
    _import(tmp_path, "marks.csv", "\n".join(lines) + "\n")
    assert _rows(tmp_path, "prices_history")["price_usd"].tolist() == [77_000.0, 77_100.0]


def _order_book(name: str, second: int = 0, **figures: Any) -> dict[str, Any]:
    """Return a response of Deribit's ``get_order_book``. The amount of 6,700 USD at 67,000 is 0.1 BTC."""
    book = {"instrument_name": name, "timestamp": (_START + second) * 1000, "mark_price": 67_000.5,
            "index_price": 66_990.0, "last_price": 67_001.0, "open_interest": 5_000_000.0,
            "state": "open", "settlement_price": 67_000.0,
            "best_bid_price": 67_000.0, "best_bid_amount": 6_700.0, "best_ask_price": 67_001.0,
            "best_ask_amount": 6_700.0, "bids": [[67_000.0, 6_700.0]], "asks": [[67_001.0, 6_700.0]],
            "stats": {}, "change_id": 1, "min_price": 66_000.0, "max_price": 68_000.0,
            "estimated_delivery_price": 66_990.0, **figures}  # fmt: skip
    return {"jsonrpc": "2.0", "result": book, "usIn": 1, "usOut": 2, "usDiff": 1, "testnet": False}


def test_books_of_deribit_have_the_figures_next_to_them(tmp_path: Path) -> None:
    """A book of two levels ends within 10 bps of 67,000, so that no depth at 10 bps is known."""
    rates = {"current_funding": 0.0, "funding_8h": 0.0001}
    bodies = [_order_book("BTC-PERPETUAL", second, **rates) for second in (0, 5)]
    counts = _import(tmp_path, "deribit_order_book.jsonl", "\n".join(map(json.dumps, bodies)))
    assert "orderbook_depth_history" not in counts.table
    assert _rows(tmp_path, "orderbook_book")["size"].tolist()[0] == pytest.approx(6_700 / 67_001)
    assert _rows(tmp_path, "oi_history")["oi_usd"].tolist() == [5_000_000.0] * 2
    assert _rows(tmp_path, "funding_history")["rate_bps_8h"].tolist() == [1.0] * 2
    prices = _rows(tmp_path, "prices_history").groupby("kind")["price_usd"].unique()
    assert prices.to_dict() == {"index": [66_990.0], "last": [67_001.0], "mark": [67_000.5]}


def test_books_of_dated_contracts_are_not_those_of_the_perpetual(tmp_path: Path) -> None:
    """The book of an option has prices in coins, such as 0.05 BTC."""
    counts = _import(tmp_path, "future.json", json.dumps(_order_book("BTC-27MAR26")))
    assert counts.table == "futures_history"
    [notice] = counts.notices
    assert "order books of dated contracts are not stored" in notice
    assert _rows(tmp_path, "futures_history")["oi_usd"].tolist() == [5_000_000.0]
    option = _order_book(
        "BTC-27MAR26-70000-C", mark_price=0.05, last_price=0.051, best_bid_price=0.049, best_ask_price=0.051,
        bids=[[0.049, 6.7]], asks=[[0.051, 6.7]], open_interest=500.0, mark_iv=50.0, bid_iv=49.0, ask_iv=51.0,
        underlying_price=67_500.0, underlying_index="BTC-27MAR26", interest_rate=0.0,
        greeks={"delta": 0.4, "gamma": 0.00001, "vega": 70.0, "theta": -50.0, "rho": 30.0},
    )  # fmt: skip
    counts = _import(tmp_path, "option.json", json.dumps(option))
    assert counts.table == "options_snapshot"
    assert _rows(tmp_path, "options_snapshot")["mark_coin"].tolist() == [0.05]


def test_dated_contracts_of_a_list_that_are_not_stored_are_named(tmp_path: Path) -> None:
    """HTX counts both sides: 3,000,000 USDT are 1,500,000 of open interest."""
    rows = []
    for name, kind, value in (
        ("BTC-USDT", "swap", 3_000_000.0),
        ("BTC-USDT-260306", "this_week", 500_000.0),
        ("BTC-USDT-260327", "quarter", 800_000.0),
    ):
        rows.append(
            {"volume": 1000, "amount": value / 67_000, "symbol": "BTC", "value": value, "contract_code": name,
             "trade_amount": 0, "trade_volume": 0, "trade_turnover": 0, "pair": "BTC-USDT",
             "business_type": "swap" if kind == "swap" else "futures", "contract_type": kind}
        )  # fmt: skip
    body = {"status": "ok", "data": rows, "ts": _START * 1000}
    counts = _import(tmp_path, "htx_swap_open_interest.json", json.dumps(body))
    assert _rows(tmp_path, "oi_history")["oi_usd"].tolist() == [1_500_000.0]
    assert any("2 dated contracts (BTC-USDT-260306, BTC-USDT-260327)" in text for text in counts.notices)


def _tickers_of_bitget() -> str:
    row = {"symbol": "BTCUSDT", "lastPr": "67000", "indexPrice": "66990", "fundingRate": "0.0002",
           "holdingAmount": "125.5", "askPr": "67001", "bidPr": "66999", "bidSz": "1", "askSz": "1",
           "ts": str(_START * 1000)}  # fmt: skip
    others = "open24h high24h low24h change24h baseVolume quoteVolume usdtVolume openUtc changeUtc24h"
    row |= dict.fromkeys(others.split(), "0")
    return json.dumps({"code": "00000", "msg": "success", "requestTime": _START * 1000, "data": [row]})


def test_figures_of_tickers_that_are_not_stored_are_named_with_the_option(tmp_path: Path) -> None:
    counts = _import(tmp_path, "bitget_tickers.json", _tickers_of_bitget())
    assert any("fundingRate is not stored" in text and "interval_hours=8" in text for text in counts.notices)
    assert any("holdingAmount is not stored" in text for text in counts.notices)


def test_tickers_of_one_venue_are_not_read_as_those_of_another(tmp_path: Path) -> None:
    """BingX's reader takes its few fields from them if a time is stated, and has no price."""
    stated = {"interval_hours": "8", "time": "2026-02-02T00:00:00Z"}
    _import(tmp_path, "bitget_tickers.json", _tickers_of_bitget(), set=stated)
    rates = _rows(tmp_path, "funding_history")
    assert rates[["exchange", "rate_bps_8h"]].to_numpy().tolist() == [["bitget", 2.0]]
    with pytest.raises(ArchiveError, match="response of bingx or of bitget"):
        _import(tmp_path, "tickers.json", _tickers_of_bitget(), set=stated)


def test_trades_of_options_with_ids_of_blocks_are_blocks(tmp_path: Path) -> None:
    """Deribit's site has ``BlockTrade IDs`` and ``Price (BTC)``; 0.01 BTC at 67,000 are 670 USD."""
    content = (
        "Side,Instrument,Price (BTC),Price (USD),IV (%),Size,Underlying Price,Entry Date,BlockTrade IDs,"
        "Combo ID,Trade ID\n"
        "BUY,BTC-27MAR26-70000-C,0.01,670,45.5,0.5,67000,2026-02-02 08:00,,,1\n"
        "SELL,BTC-27MAR26-70000-C,0.01,670,45.5,0.5,67000,2026-02-02 08:01,BLOCK-7,,2\n"
        "SELL,BTC-27MAR26-70000-C,0.01,670,45.5,0.5,67000,2026-02-02 08:02,,BTC-CS-27MAR26,3\n"
    )
    _import(tmp_path, "public_trades.csv", content, set={"exchange": "deribit"})
    trades = _rows(tmp_path, "options_trades").sort_values("trade_id")
    assert trades["execution"].tolist() == ["book", "block", "combo"]
    assert trades["price_coin"].tolist() == [0.01] * 3


@pytest.mark.parametrize(
    ("blocks", "executions"),
    [(("19000001", "19000002"), ["book", "book"]), (("false", "true"), ["book", "block"])],
)
def test_numbers_of_blocks_of_a_chain_are_not_those_of_block_trades(
    tmp_path: Path, blocks: tuple[str, str], executions: list[str]
) -> None:
    head = "ts,instrument,side,qty,price,iv,trade_id,block"
    lines = [f"{_START * 1000},BTC-27MAR26-90000-C,buy,3.0,0.0412,52.5,1,{blocks[0]}"]
    lines.append(f"{_START * 1000},BTC-27MAR26-70000-P,sell,1.5,0.0107,61.0,2,{blocks[1]}")
    _import(tmp_path, "deribit_options.csv", "\n".join([head, *lines]) + "\n")
    trades = _rows(tmp_path, "options_trades").sort_values("trade_id")
    assert trades["execution"].tolist() == executions


def test_prices_are_not_at_the_time_of_the_last_payment(tmp_path: Path) -> None:
    """CoinEx has the mark price of now next to ``latest_funding_time`` (API v2, 2026)."""
    row = {"market": "BTCUSDT", "mark_price": "67000.5", "latest_funding_rate": "-0.00007",
           "next_funding_rate": "-0.0002", "max_funding_rate": "0.00375",
           "min_funding_rate": "-0.00375", "latest_funding_time": _START * 1000,
           "next_funding_time": (_START + 28_800) * 1000}  # fmt: skip
    other = {**row, "market": "ETHUSDT", "mark_price": "2000.5"}
    body = json.dumps({"code": 0, "data": [row, other], "message": "OK"})
    with pytest.raises(ArchiveError, match="latest_funding_time is the time of a payment"):
        _import(tmp_path, "coinex_funding_rate.json", body, set={"exchange": "coinex"})
    later = "2026-02-02T05:00:00Z"
    _import(tmp_path, "coinex_funding_rate.json", body, set={"exchange": "coinex", "time": later})
    assert _rows(tmp_path, "prices_history")["time"].tolist() == [pd.Timestamp(later)] * 2


def test_rates_of_loans_are_not_funding(tmp_path: Path) -> None:
    """A rate of 0.05 a year of Aave's borrowers would be 0.46 bps per 8 hours of funding."""
    content = "".join(f"2026-02-{day:02},0.05,USDC,borrow,aave\n" for day in range(1, 13))
    for table in (None, "funding_history"):
        with pytest.raises(ArchiveError, match="a rate of loans, because column rate_type has borrow"):
            _import(
                tmp_path, "rates.csv", "date,rate,asset,rate_type,protocol\n" + content,
                table=table, set={"exchange": "aave"}, unit="per_year" if table else None,
            )  # fmt: skip


def test_a_rate_before_the_next_payment_is_no_payment(tmp_path: Path) -> None:
    """A state of Binance at 05:00, three hours before its next payment, and not a payment at 05:00."""
    row = f"BTCUSDT,67000,{(_START + 28_800) * 1000},0.0001"
    stated = {"exchange": "binance", "time": "2026-02-02T05:00:00Z"}
    _import(tmp_path, "state.csv", f"symbol,markPrice,nextFundingTime,fundingRate\n{row}\n", set=stated)
    assert open_archive(tmp_path / "to").tables() == {"funding_history", "prices_history"}
    assert _rows(tmp_path, "funding_history")["rate_bps_8h"].tolist() == [1.0]


def test_funding_of_the_coin_lend_is_not_a_rate_of_loans(tmp_path: Path) -> None:
    lines = [f"{_START + place * 28_800},LENDUSDT,LEND,0.0001" for place in range(6)]
    _import(tmp_path, "binance_funding.csv", "\n".join(["time,symbol,base,fundingRate", *lines]) + "\n")
    rates = _rows(tmp_path, "funding_settlements")
    assert rates[["symbol", "rate_bps_8h"]].to_numpy().tolist() == [["LEND", 1.0]] * 6


def _ticker_of_gate(contract: str, price: str, size: str) -> dict[str, str]:
    prices = dict.fromkeys(
        "last mark_price index_price highest_bid lowest_ask low_24h high_24h".split(), price
    )
    volumes = dict.fromkeys("volume_24h volume_24h_base volume_24h_quote volume_24h_settle".split(), "1")
    rates = {"funding_rate": "0.0001", "funding_rate_indicative": "0.0001", "quanto_base_rate": ""}
    row = {"contract": contract, "total_size": size, "change_percentage": "0"}
    return {**row, **prices, **volumes, **rates}


def test_a_contract_size_is_not_that_of_all_tickers(tmp_path: Path) -> None:
    """8,000,000 contracts of 0.0001 BTC of both sides are 400 BTC of one, and 26.8 million USD at 67,000."""
    bitcoin = _ticker_of_gate("BTC_USDT", "67000", "8000000")
    other = _ticker_of_gate("ETH_USDT", "2000", "9000000")
    stated = {"time": "2026-02-02T00:00:00Z", "contract_size": "0.0001"}
    with pytest.raises(ArchiveError, match=r"contract_size=0\.0001 cannot apply to all rows.* BTC, ETH"):
        _import(tmp_path, "gate_tickers.json", json.dumps([bitcoin, other]), set=stated)
    _import(tmp_path, "gate_tickers.json", json.dumps([bitcoin]), set=stated)
    assert _rows(tmp_path, "oi_history")["oi_usd"].tolist() == [26_800_000.0]


def _closes(days: list[int]) -> str:
    lines = [f"{_START + day * 86_400},{67_000 + day},50" for day in days]
    return "\n".join(["time,close,RSI", *lines]) + "\n"


def test_the_open_last_bar_of_a_chart_is_omitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is at noon of the second day, whose close is not known."""
    noon = pd.Timestamp(_START + 86_400 + 43_200, unit="s", tz="UTC")
    monkeypatch.setattr("derivdata.support.times.machine_now", noon.to_pydatetime)
    counts = _import(tmp_path, "BINANCE_BTCUSDT.P, 1D.csv", _closes([0, 1]))
    assert counts.first_rejected == "BINANCE_BTCUSDT.P, 1D.csv, line 3: its bar has not ended"
    rows = _rows(tmp_path, "prices_history")
    assert rows["time"].tolist() == [pd.Timestamp(_START + 86_400, unit="s", tz="UTC")]
    assert rows["price_usd"].tolist() == [67_000.0]


def test_weekly_closes_of_a_chart_are_at_the_start_of_the_next_bar(tmp_path: Path) -> None:
    """The last week ends at an unknown time, as no bar follows."""
    counts = _import(tmp_path, "BINANCE_BTCUSDT.P, 1W.csv", _closes([0, 7, 14]))
    assert (counts.written, counts.rejected) == (2, 1)
    rows = _rows(tmp_path, "prices_history")
    days = [pd.Timestamp(_START + day * 86_400, unit="s", tz="UTC") for day in (7, 14)]
    assert rows["time"].tolist() == days
    assert rows["price_usd"].tolist() == [67_000.0, 67_007.0]
