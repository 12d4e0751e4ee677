"""Every recorded body against rows computed from it by hand."""

from __future__ import annotations

import csv
from functools import cache
from typing import Any

import pandas as pd
import pytest

from derivdata import tables
from derivdata.errors import VenueError
from derivdata.sources import venues
from derivdata.sources.venues.registry import VENUES
from derivdata.sources.venues.tabulation import LISTS
from tests.support.shared import shared_path

AT = pd.Timestamp("2026-10-01T12:00:00Z")

REQUESTS = {
    "binance/um_depth_5.json": "?symbol=BTCUSDT",
    "binance/um_depth_sushi_1000.json": "?symbol=SUSHIUSDT",
    "bitget/order_book.json": "?symbol=BTCUSDT",
    "derive/funding_rate_history_v2.json": "?instrument_name=ETH-PERP",
    "derive/get_ticker_perp_v3.json": "?instrument_name=BTC-PERP",
    "dydx/historical_funding.json": "BTC-USD",
    "dydx/orderbook.json": "BTC-USD",
    "dydx/trades.json": "BTC-USD",
    "dydx/trades_liquidated.json": "LINK-USD",
    "derive/ws_ticker_slim_call_2026.json": "ETH-20260626-1500-C",
    "derive/ws_ticker_slim_perp_2026.json": "ETH-PERP",
    "gate/funding_rate.json": "?contract=BTC_USDT",
    "gate/order_book_rdnt.json": "?contract=RDNT_USDT",
    "gate/contract_btc_2026.json": "BTC_USDT",
    "deribit/funding_rate_history.json": "?instrument_name=BTC-PERPETUAL",
    "kraken/historical_funding_rates_inverse.json": "?symbol=PI_XBTUSD",
    "kraken/order_book.json": "?symbol=PF_XBTUSD",
    "lighter/fundings.json": "?market_id=0",
    "lighter/order_book_orders.json": "?market_id=0",
    "okx/order_book.json": "?instId=BTC-USDT-SWAP",
    "paradex/trades_2026.json": "?market=BTC-USD-PERP",
    "bitget/funding_history_v2.json": "?symbol=BTCUSDT&productType=USDT-FUTURES",
}
"""Parameters (from ?) or the filled-in part of the path, of bodies that do not name their contract."""

CONTEXTS: dict[str, tuple[str, ...]] = {
    "binance/um_premium_index_all.json": ("binance/um_funding_info.json",),
    "binance/um_premium_index_2026.json": ("binance/um_funding_info.json",),
    "bybit/linear_tickers_old.json": ("bybit/instruments_linear_2026.json",),
    "okx/ws_liquidation_btc_2026.json": ("okx/instruments_swap.json",),
    "okx/ws_liquidation_iost.json": ("okx/instruments_swap_2022.json",),
    "okx/order_book.json": ("okx/instruments_swap.json",),
    "gate/liq_orders_short.json": ("gate/contract_btc_2026.json",),
    "gate/liq_orders_2026.json": ("gate/contract_btc_2026.json",),
    "gate/order_book_rdnt.json": ("gate/contracts_2023.json",),
    "bitget/tickers_v3.json": ("bitget/current_fund_rate.json",),
    "lighter/fundings.json": ("lighter/order_book_details.json",),
    "lighter/order_book_orders.json": ("lighter/order_book_details.json",),
    "lighter/trade_liquidation.json": ("lighter/order_book_details.json",),
    "hyperliquid/ws_all_dexs_asset_ctxs.json": ("hyperliquid/meta.json",),
    "mexc/tickers.json": ("mexc/detail.json", "mexc/funding_rates.json"),
    "huobi/liquidation_orders_v5.json": ("huobi/linear_contract_info_2022.json",),
}
"""Bodies of the same venue with the data that a body refers to."""

EIGHT_HOURS = (
    "binance/cm_premium_index_all.json",
    "bitget/tickers_v2.json",
    "bitget/tickers_v3_2026.json",
    "aster/premium_index.json",
    "huobi/batch_funding_rate_2026.json",
    "huobi/batch_funding_rate.json",
    "paradex/markets_summary_perp.json",
    "paradex/markets_summary_2026.json",
    "paradex/markets_summary_option.json",
    "binance/um_funding_rate_ltc.json",
    "binance/um_funding_rates.json",
    "bitget/funding_history_v2.json",
    "bitget/funding_history_v3.json",
    "bybit/funding_history.json",
    "okx/funding_rate_history.json",
    "gate/funding_rate.json",
    "aster/funding_rates.json",
    "huobi/historical_funding_rate.json",
    "kucoin/funding_history.json",
    "mexc/funding_rate_history.json",
)
"""Bodies whose interval no stored response names: 8 hours there."""
FOUR_HOURS = ("kraken/historical_funding_rates_inverse.json",)
"""Bodies of too few payments to confirm their interval: 4 hours there."""


@cache
def listed() -> list[dict[str, str]]:
    """Rows of what.csv, none where the recordings are absent."""
    try:
        path = shared_path("data/venues/what.csv")
    except pytest.skip.Exception:
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@cache
def expected() -> dict[str, list[dict[str, str]]]:
    """Rows of expected.csv by file."""
    results: dict[str, list[dict[str, str]]] = {}
    with shared_path("data/venues/expected.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            results.setdefault(row["file"], []).append(row)
    return results


def body_of(file: str) -> bytes:
    """The recorded bytes."""
    return shared_path(f"data/venues/{file}").read_bytes()


def shortened(body: Any) -> Any:
    """The same body with a few elements of each long list, which still has all its shapes."""
    if isinstance(body, dict):
        return {key: shortened(value) for key, value in body.items()}
    return [shortened(v) for v in body[:5]] if isinstance(body, list) else body


@cache
def _row(file: str) -> dict[str, str]:
    return next(row for row in listed() if row["file"] == file)


def request_of(file: str) -> str:
    """Return the request of a recorded body."""
    path, extra = _row(file)["path_or_channel"], REQUESTS.get(file, "")
    if extra[:1] == "?":
        return f"{path}{'&' if '?' in path else '?'}{extra[1:]}"
    if not extra:
        return path
    head, _, tail = path.partition("{")
    return f"{head}{extra}{tail.partition('}')[2]}"


@cache
def context_of(file: str) -> dict[str, Any]:
    """Values of other responses."""
    context: dict[str, Any] = {}
    for other in CONTEXTS.get(file, ()):
        context |= read(other)
    if file in EIGHT_HOURS:
        context["interval_hours"] = 8
    if file in FOUR_HOURS:
        context["interval_hours"] = 4
    return context


def read(file: str, reader: Any = venues.read) -> Any:
    """The tables of a recorded body, or its records where `venues.records` reads it."""
    exchange, context = _row(file)["exchange"], context_of(file)
    return reader(exchange, request_of(file), body_of(file), at=AT, context=context)


FILES = [row["file"] for row in listed() if row["exchange"] in VENUES]
APPROXIMATE = {("kraken/ticker_enj.json", "rate_bps_8h"): 5e-3}


def test_every_recorded_body_is_of_a_listed_endpoint() -> None:
    rows = venues.endpoints()
    known = set(zip(rows["exchange"], rows["what"], rows["method"], rows["path_or_channel"], strict=True))
    missing = [
        row
        for row in listed()
        if row["what"] != "error"
        and (row["exchange"], row["what"], row["method"], row["path_or_channel"]) not in known
    ]
    assert missing == []


@pytest.mark.parametrize("file", FILES)
def test_recorded_body_gives_rows_of_hand_calculation(file: str) -> None:
    rows = expected().get(file, [])
    if any(row["column"] == "error" for row in rows):
        with pytest.raises(VenueError) as caught:
            read(file)
        assert caught.value.code == rows[0]["value"]
        return
    frames = read(file)
    for name, frame in frames.items():
        if "time" in frame:
            table = LISTS.get(name) or tables.TABLES[name]
            pd.testing.assert_frame_equal(frame, table.conform(frame))
    records = read(file, venues.records)
    for row in rows:
        result = _value(frames, row) if row["table"] else _fact(frames, records, row)
        where = f"{row['table']} {row['symbol']} {row['column']}: {row['why']}"
        if row["value"] == "":
            assert pd.isna(result), where
            continue
        try:
            wanted: Any = float(row["value"])
        except ValueError:
            wanted = row["value"]
            result = (
                result.isoformat(timespec="milliseconds").replace("+00:00", "Z")
                if isinstance(result, pd.Timestamp)
                else result
            )
            assert result == wanted, where
        else:
            tolerance = APPROXIMATE.get((file, row["column"]), 1e-9)
            assert result == pytest.approx(wanted, rel=tolerance), where


def _value(frames: dict[str, pd.DataFrame], row: dict[str, str]) -> Any:
    frame = frames.get(row["table"], pd.DataFrame())
    if row["column"] == "rows":
        return len(frame)
    rows = frame[frame["symbol"] == row["symbol"]]
    if row["time"]:
        rows = rows[rows["time"] == pd.Timestamp(row["time"])]
    column = row["column"]
    if column.startswith(("bid ", "ask ")):
        side, level, column = column.split()
        rows = rows[(rows["side"] == side) & (rows["level"] == int(level))]
    assert len(rows) >= 1, f"no row of {row}"
    if row["table"] == "liquidations_fills":
        wanted = row["value"]
        alike = [v for v in rows[column] if str(v) == wanted or (wanted.isdecimal() and v == float(wanted))]
        return (alike or rows[column].tolist())[0]
    assert len(rows) == 1, f"{len(rows)} rows of {row}"
    return rows[column].iloc[0]


def _fact(frames: dict[str, pd.DataFrame], records: Any, row: dict[str, str]) -> Any:
    """A fact outside the tables: of an instrument, an interval, or a point of the past."""
    name, column = row["symbol"], row["column"]
    if column == "interval_hours":
        return _interval(frames["intervals"], records, row)
    stamp = pd.Timestamp(row["time"]).value // 1000 if row["time"] else None
    items = sorted((i for i in records.instruments if name in (i.name, i.symbol)), key=lambda i: i.rank)
    points = [p for p in (*records.states, *records.oi) if stamp in (None, p.time)]
    facts: dict[str, Any] = {
        "perpetuals": lambda: sum(i.perpetual and i.active for i in records.instruments),
        "instrument": lambda: items[0].name,
        "contract_coins": lambda: next(i.size for i in items if not i.inverse),
        "contract_usd": lambda: next(i.size for i in items if i.inverse),
        "oi_coins": lambda: next(p.oi_coins for p in points if p.instrument.symbol == name and p.oi_coins),
        "oi_usd": lambda: next(p.oi_usd for p in points if p.instrument.name.startswith(name)),
        "underlying_price": lambda: next(o.underlying for o in records.options if o.symbol == name),
        "strike": lambda: next(o.strike for o in records.options if o.name == name),
    }
    return facts[column]()


def _interval(hours: pd.DataFrame, records: Any, row: dict[str, str]) -> float:
    rows = hours[hours["symbol"] == row["symbol"]]
    if rows.empty:
        assert "not listed" in row["why"]
        return 8
    return rows["interval_hours"].iloc[0] if len(rows) == 1 else _preferred(records, rows)


def _preferred(records: Any, rows: pd.DataFrame) -> float:
    items = {i.name: i for i in records.instruments}
    best = min(rows["instrument_name"], key=lambda n: items[n].rank)
    return float(rows.loc[rows["instrument_name"] == best, "interval_hours"].iloc[0])
