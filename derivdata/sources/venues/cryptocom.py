"""Crypto.com's exchange: rates are hourly and fixed for blocks of four hours, one contract a request.

``get-tickers`` has no mark: open interest, in coins, is valued at the last price of the same row.
"""

from __future__ import annotations

from functools import partial

from derivdata.sources.venues.endpoint import PRICE_TABLES, RATE_TABLES, Paging, Venue, VenueEndpoint
from derivdata.sources.venues.readers import contracts, states
from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Instrument, Records, State
from derivdata.sources.venues.wire import (
    ContractRow,
    Data,
    Figures,
    NumberedBody,
    Stamp,
    Wire,
    if_stated,
    refusal,
    spelled,
)
from derivdata.tables import contract

_REASONS = {42901: "limit", 40101: "refused", 50001: "busy"}
_PERPETUAL = "-PERP"


def _named(name: str) -> Instrument:
    """Parse a contract name such as BTCUSD-PERP; others are spot pairs, indices or dated futures."""
    plain = contract(name.removesuffix(_PERPETUAL))
    return Instrument(name, plain.symbol, plain.quote, 1.0, perpetual=name.endswith(_PERPETUAL))


def _contract(reading: Reading, row: ContractRow[str | float, int, bool]) -> Instrument | None:
    """Return a contract; None for a spot pair."""
    if row.kind not in ("PERPETUAL_SWAP", "FUTURE"):
        return None
    return reading.contract(
        row,
        size=reading.number(row.size) or 1.0,
        perpetual=row.kind == "PERPETUAL_SWAP",
        active=row.status and row.stage != "PRE_IPO",
    )


_CONTRACT = spelled(
    ContractRow[str | float, int, bool], name="symbol", symbol="base_ccy", quote="quote_ccy",
    kind="inst_type", status="tradable", stage="product_type", size="contract_size",
    expiry="expiry_timestamp_ms", tick="price_tick_size", step="qty_tick_size",
)  # fmt: skip
_TICKER = spelled(
    Figures[str, int], name="i", time="t", last="a", price="a", contracts="oi", volume_usd="vv", change="c"
)


class _Value(Wire):
    v: str
    t: Stamp
    h: str | None = None  # only in bars and tickers, in which v is the volume


class _Valuation(Data[list[_Value]]):
    instrument_name: str | None = None


def _values(reading: Reading) -> tuple[Instrument, list[_Value]]:
    result = reading.value(_Valuation, "result")
    if any(row.h is not None for row in result.data):
        reading.fail("rows have a high: expected values of a valuation, got bars or tickers")
    name = result.instrument_name or reading.requested("instrument_name")
    return reading.instrument(name, _named), sorted(result.data, key=lambda row: row.t)


def funding_rates(reading: Reading) -> Records:
    """Read the hourly rate of the running block of four hours, with the block's timestamp."""
    item, rows = _values(reading)
    return Records(states=[State(item, None, reading.required(row.v), 1.0, 1.0) for row in rows[-1:]])


def funding_history(reading: Reading) -> Records:
    """Read hourly payments."""
    item, rows = _values(reading)
    return reading.payments(((item.name, row.t, row.v, None) for row in rows), _named, 1.0)


class _Sides(Wire):
    bids: list[tuple[str, str, str]]
    asks: list[tuple[str, str, str]]
    t: Stamp | None = None  # the sample of the page of 2025-11 lacks it


class _Book(Data[list[_Sides]]):
    instrument_name: str | None = None


def book(reading: Reading) -> Records:
    """Read a book; sizes are coins."""
    result = reading.value(_Book, "result")
    item = reading.instrument(result.instrument_name or reading.requested("instrument_name"), _named)
    records = Records()
    for row in result.data:
        time = if_stated(reading.ms, row.t or None)
        records.books.append(reading.book(item, time, row.bids, row.asks))
    return records


_endpoint = partial(VenueEndpoint, "cryptocom")
_VALUATIONS = "/public/get-valuations?valuation_type="
_HUNDRED_HOURS = Paging(
    descending=True, start="start_ts", end="end_ts", limit=100, limit_name="count", span_hours=100
)

ENDPOINTS = (
    _endpoint(
        "instruments", "/public/get-instruments", contracts(_CONTRACT, "result.data", _contract), lists=True,
    ),
    _endpoint(
        "tickers", "/public/get-tickers", states(_TICKER, "result.data", _named),
        tables=("oi_history", *PRICE_TABLES), every=60,
        note="open interest is in coins by its step; which sides it counts is not known",
    ),
    _endpoint(
        "funding", f"{_VALUATIONS}funding_rate", funding_rates, tables=RATE_TABLES, params={"count": "1"},
        symbol="instrument_name", batch=1, every=3600, note="each hour, one contract a request",
    ),
    _endpoint(
        "settlements", f"{_VALUATIONS}funding_hist", funding_history, symbol="instrument_name",
        note="how far back it reaches is not known", paging=_HUNDRED_HOURS,
    ),
    _endpoint("book", "/public/get-book", book, params={"depth": "150"}, symbol="instrument_name"),
)  # fmt: skip

VENUE = Venue(
    "cryptocom",
    "https://api.crypto.com/exchange/v1",
    ENDPOINTS,
    refusal(NumberedBody, _REASONS.get),
    budget=25.0,  # a quarter of 100 a second for each method
    terms="Derivatives are closed to 93 places; no text on public data was found.",
    hourly=True,
    channel_at="method",
)
