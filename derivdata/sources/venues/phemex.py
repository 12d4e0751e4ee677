"""Phemex: perpetuals in USDT and USDC; ``openInterestRv`` is coins, though ``Rv`` marks values elsewhere.

Coin-margined contracts have scaled numbers, and are not read: each has an equivalent in USDT, which is used.
"""

from __future__ import annotations

from functools import partial

from derivdata.sources.venues.endpoint import RATE_TABLES, STATE_TABLES, Paging, Venue, VenueEndpoint
from derivdata.sources.venues.readers import books, contracts, payments, states
from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Instrument
from derivdata.sources.venues.wire import (
    Book,
    ContractRow,
    Figures,
    NumberedBody,
    PaymentRow,
    refusal,
    spelled,
)
from derivdata.tables import contract

_HOUR_SECONDS = 3600
_QUOTES = ("USDT", "USDC")


def _named(name: str) -> Instrument:
    """Parse a contract name: BTCUSDT or u1000PEPEUSDT; coin-margined ones, such as BTCUSD, are not read."""
    plain = contract(name)
    return Instrument(name, plain.symbol.removeprefix("u"), plain.quote, 1.0, active=plain.quote in _QUOTES)


def _product(reading: Reading, row: ContractRow[float | str, int, str]) -> Instrument:
    """Return a contract, whose base is written with a space, as in 1000 PEPE."""
    active = row.status == "Listed" and row.stage != "PreMarket"
    return reading.contract(row, symbol=row.symbol.replace(" ", ""), active=active)


_PRODUCT = spelled(
    ContractRow[float | str, int, str], name="symbol", symbol="baseCurrency", quote="quoteCurrency",
    status="status", stage="perpProductSubType", hours="fundingInterval", listed="listTime", tick="tickSize",
    step="qtyStepSize",
)  # fmt: skip
# `timestamp` is the time of the row's last change, not of the response.
_TICKER = spelled(
    Figures[str, int], name="symbol", mark="markRp", index_price="indexRp", last="lastRp", opened="openRp",
    rate="fundingRateRr", contracts="openInterestRv", volume_usd="turnoverRv",
)  # fmt: skip
_RATE = spelled(Figures[str | float, int], name="symbol", rate="fundingRate", plain_hours="fundingInterval")


_PAID = spelled(
    PaymentRow[str | float, int | str],
    name="symbol",
    rate="fundingRate",
    time="fundingTime",
    hours="intervalSeconds",
)


def _of_rate(name: str) -> Instrument:
    """Return the contract of the symbol of a rate, .BTCUSDTFR8H of BTCUSDT."""
    return _named(name.removeprefix(".").removesuffix("FR8H"))


# Books have 30 levels per side, in coins; the time is in nanoseconds.
_BOOK = spelled(
    Book[tuple[str, str], int], name="symbol", time="timestamp", bids="orderbook_p.bids",
    asks="orderbook_p.asks",
)  # fmt: skip
_endpoint = partial(VenueEndpoint, "phemex")

ENDPOINTS = (
    _endpoint(
        "instruments", "/public/products",
        contracts(_PRODUCT, "data.perpProductsV2", _product, per_hour=_HOUR_SECONDS), lists=True,
    ),
    _endpoint(
        "funding", "/contract-biz/public/real-funding-rates",
        states(_RATE, "data.rows", _named, per_hour=_HOUR_SECONDS), tables=RATE_TABLES,
        params={"pageSize": "200"}, every=60,
        note="the newest 200 contracts; of others the rate of the tickers and the list's interval",
    ),
    _endpoint(
        "tickers", "/md/v3/ticker/24hr/all", states(_TICKER, "result", _named), tables=STATE_TABLES, every=60,
        note="open interest is coins, as other clients take it; which sides it counts is not known",
    ),
    _endpoint(
        "settlements", "/api-data/public/data/funding-rate-history",
        payments(_PAID, "data.rows", _of_rate, by="symbol", per_hour=_HOUR_SECONDS),
        symbol="symbol", names=".{}FR8H",
        paging=Paging(start="start", end="end", limit=100, span_hours=100),
    ),
    _endpoint("book", "/md/v2/orderbook", books(_BOOK, "result", _named, per=1_000_000), symbol="symbol"),
)  # fmt: skip

VENUE = Venue(
    "phemex",
    "https://api.phemex.com",
    ENDPOINTS,
    refusal(NumberedBody, {10500: "busy", 11115: "limit"}.get),
    budget=1.25,  # a quarter of 300 a minute according to the venue
    terms="Excludes 45 places, among them the United States and the United Kingdom.",
)
