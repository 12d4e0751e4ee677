"""Paradex: rates for a period of each market (almost always 8 hours), accrued continuously.

``/funding/data`` has a row every few seconds. Each is a rate for the full period, so rows are samples and
never added up.
"""

from __future__ import annotations

from functools import partial
from typing import TypeVar

import msgspec

from derivdata.sources.venues.endpoint import RATE_TABLES, Paging, Venue, VenueEndpoint
from derivdata.sources.venues.readers import Reader, books, closed, contracts, states
from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Instrument, Records, State
from derivdata.sources.venues.wire import (
    Book,
    ContractRow,
    Figures,
    LiquidationRow,
    Stamp,
    Wire,
    WordedBody,
    refusal,
    spelled,
)

T = TypeVar("T")
_OLD_HOURS = 8.0
_CUT = 1e-8
"""`funding_rate_8h` is truncated to eight decimals (a body of 2026-02 in ccxt 4.5.90, pro/paradex.py)."""


class _Fault(WordedBody):
    code: str | None = msgspec.field(default=None, name="error")


def _named(name: str) -> Instrument:
    """Parse a contract name such as BTC-USD-PERP; names of options have more parts."""
    words = name.split("-")
    perpetual = len(words) == 3 and words[2] == "PERP"
    return Instrument(name, words[0], words[1] if len(words) > 1 else "", 1.0, perpetual=perpetual)


_SUMMARY = spelled(
    Figures[str, int], name="symbol", time="created_at", mark="mark_price", last="last_traded_price",
    index_price="underlying_price", contracts="open_interest", volume_usd="volume_24h", rate="funding_rate",
    change="price_change_rate_24h",
)  # fmt: skip


def _summaries(path: str, *, pushed: bool = False) -> Reader:
    """Return a reader of rates, open interest, prices and volume of perpetuals."""

    def read(reading: Reading) -> Records:
        # Funding is continuous, so there is no interval of payments.
        records = states(_SUMMARY, path, _named, pushed=pushed)(reading)
        records.states = [row._replace(settle_h=None) for row in records.states if row.instrument.perpetual]
        return records

    return read


def _contract(reading: Reading, row: ContractRow[str | float, int, str]) -> Instrument:
    """Return a contract of the list; its interval is the quoted period of rates."""
    return reading.contract(row, perpetual=row.kind == "PERP")


_CONTRACT = spelled(
    ContractRow[str | float, int, str], name="symbol", symbol="base_currency", quote="quote_currency",
    kind="asset_kind", hours="funding_period_hours", listed="open_at", expiry="expiry_at",
    tick="price_tick_size", step="order_size_increment",
)  # fmt: skip


class _Sample(Wire):
    market: str
    funding_rate: str
    created_at: Stamp
    funding_rate_8h: str = ""
    funding_period_hours: float | None = None


def funding_data(reading: Reading, *, pushed: bool = False) -> Records:
    """Read samples of the rate, the newest first, or the frames of the stream with one row each.

    Old rows state a period of 0, which means 8 hours.
    """
    records = Records()
    if pushed:
        rows = reading.pushed(_Sample, "params.data")
    else:
        rows = reading.rows(_Sample, "results")
        records.cursor = reading.value(str | None, "next", None) or None
    for row in rows:
        with reading.row():
            time = reading.ms(row.created_at)
            rate = reading.required(row.funding_rate)
            hours = row.funding_period_hours or _OLD_HOURS
            records.times.append(time)
            reading.require_close(
                rate * 8 / hours,
                reading.number(row.funding_rate_8h),
                1e-6,
                "funding_rate and funding_rate_8h",
                step=_CUT,
            )
            records.states.append(State(reading.instrument(row.market, _named), time, rate, hours, None))
    return records


_LONGS = {"SELL": "long", "BUY": "short"}  # a taker sell closed a long
_TRADE = spelled(
    LiquidationRow[str, int], name="market", time="created_at", side="side", amount="size", price="price",
    id="id", kind="trade_type",
)  # fmt: skip
_BOOK = spelled(Book[tuple[str, str], int], name="market", time="last_updated_at", bids="bids", asks="asks")


def trades(reading: Reading) -> Records:
    """Read liquidations among trades, a page of them or a bare list."""
    if reading.body.lstrip()[:1] == b"[":
        return _trades("")(reading)
    return _trades("results", cursor="next")(reading)


_trades = partial(closed, _TRADE, named=_named, longs=_LONGS, only="LIQUIDATION", filled=True)
_PUSHED_RATES = partial(funding_data, pushed=True)
_endpoint = partial(VenueEndpoint, "paradex")
_WALK = Paging(
    "cursor",
    descending=True,
    start="start_at",
    end="end_at",
    cursor="cursor",
    limit=1000,
    limit_name="page_size",
)

_SERIES = Paging(
    descending=True,
    start="start_at",
    end="end_at",
    limit=1,
    limit_name="page_size",
    span_hours=1 / 60,
    thinned=True,
    reach_days=7,
)

ENDPOINTS = (
    _endpoint("instruments", "/markets", contracts(_CONTRACT, "results", _contract), lists=True),
    _endpoint("funding", "/markets/summary", _summaries("results"), params={"market": "ALL"}, every=60),
    _endpoint(
        "funding_series", "/funding/data", funding_data, symbol="market", paging=_SERIES,
        note="one row a minute, 1,440 requests a day; the newest week",
    ),
    _endpoint("liquidations", "/trades", trades, symbol="market", paging=_WALK, every=300),
    _endpoint(
        "book", "/orderbook/{market}", books(_BOOK, "", _named), params={"depth": "100"}, symbol="market",
    ),
    _endpoint("funding", "funding_data", _PUSHED_RATES, tables=RATE_TABLES, method="WS"),
    _endpoint("funding", "funding_data.{market}", _PUSHED_RATES, tables=RATE_TABLES, method="WS"),
    _endpoint("liquidations", "trades.{market}", _trades("params.data", pushed=True), method="WS"),
    _endpoint("funding", "markets_summary", _summaries("params.data", pushed=True), method="WS"),
    _endpoint("funding", "markets_summary.{market}", _summaries("params.data", pushed=True), method="WS"),
)  # fmt: skip

VENUE = Venue(
    "paradex",
    "https://api.prod.paradex.trade/v1",
    ENDPOINTS,
    refusal(_Fault, lambda code: "limit" if "RATE_LIMIT" in code else None),
    budget=6.0,
    channel_at="params.channel",
)
