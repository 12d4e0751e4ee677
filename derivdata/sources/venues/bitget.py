"""Bitget: v2 and v3 ("UTA"). Sizes are coins; a liquidation names the side of the position."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import msgspec

from derivdata.sources.venues.endpoint import DATED, RATE_TABLES, STATE_TABLES, Paging, Venue, VenueEndpoint
from derivdata.sources.venues.readers import (
    bitget_tiers,
    books,
    candles,
    closed,
    contracts,
    payments,
    positioning,
    states,
    taker_volumes,
)
from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Instrument, Records, State
from derivdata.sources.venues.wire import (
    Book,
    CodedBody,
    ContractRow,
    Figures,
    LiquidationRow,
    LongShortRow,
    PaymentRow,
    Stamp,
    Wire,
    refusal,
    spelled,
)
from derivdata.tables import contract


class _Coded(CodedBody):
    success: ClassVar[str] = "00000"


_REASONS = {"429": "limit", "30007": "limit", "40725": "busy", "40015": "busy", "45001": "busy"}


def _named(name: str) -> Instrument:
    """Parse a contract name: BTCUSDT, BTCPERP (USDC), BTCUSD (coin-margined), or with _ if dated.

    v3 has coin-margined ones as BTCUSD_CM (typed-bitget 0.6.0, 2026-10).
    """
    if name.endswith("PERP"):
        return Instrument(name, name.removesuffix("PERP"), "USDC", 1.0)
    pair, _, date = name.removesuffix("_CM").partition("_")
    plain = contract(pair)
    return Instrument(name, plain.symbol, plain.quote, 1.0, perpetual=bool(plain.quote) and not date)


# Tickers of spot pairs do not have open interest.
_TICKER = spelled(
    Figures[str, str], name="symbol", time="ts", last="lastPr", index_price="indexPrice", rate="fundingRate",
    contracts="holdingAmount", volume_usd="quoteVolume", change="change24h", expiry="deliveryTime",
    mark="markPrice", required=("contracts",),
)  # fmt: skip
_TICKER_V3 = spelled(
    Figures[str, str], name="symbol", time="ts", last="lastPrice", index_price="indexPrice",
    rate="fundingRate", contracts="openInterest", volume_usd="turnover24h", change="price24hPcnt",
    expiry="deliveryTime", mark="markPrice", required=("contracts",),
)  # fmt: skip


class _Current(Wire):
    symbol: str
    fundingRate: str
    fundingRateInterval: str | None = None
    fundingTime: Stamp | None = None  # only in payments, which are rows of another response
    lastPr: str | None = None  # only in tickers of v2; v3 has lastPrice
    lastPrice: str | None = None
    maxFundingRate: str | msgspec.UnsetType | None = msgspec.UNSET


def current_rates(reading: Reading) -> Records:
    """Read running rates with their intervals."""
    time = reading.ms(reading.value(Stamp, "requestTime"))
    states = []
    for row in reading.rows(_Current, "data"):
        with reading.row():
            if row.fundingTime is not None:
                reading.fail(f"{row.symbol} has a fundingTime: expected the running rate, got a payment")
            if row.lastPr is not None or row.lastPrice is not None:
                reading.fail(f"{row.symbol} has a last price: expected the running rate, got a ticker")
            item = reading.instrument(row.symbol, _named)
            rate = reading.number(row.fundingRate)
            hours = reading.number(row.fundingRateInterval) or reading.interval(item)
            is_test = row.maxFundingRate is None  # test symbols lack limits of the rate
            if item.perpetual and not is_test and item.active:
                states.append(State(item, time, rate, hours, hours))
    return Records(states=states)


_PAID = spelled(PaymentRow[str, str], name="symbol", rate="fundingRate", time="fundingTime")
_PAID_V3 = spelled(PaymentRow[str, str], name="symbol", rate="fundingRate", time="fundingRateTimestamp")
_CLOSED = spelled(
    LiquidationRow[str, str], name="symbol", side="side", price="price", amount="amount", time="ts"
)
_LONGS = {"buy": "long", "sell": "short"}  # side of the position; the price is near the bankruptcy price
_BOOK = spelled(Book[tuple[float | str, float | str], str], bids="bids", asks="asks", time="ts")


class _Contract(ContractRow[str, str, str]):
    places: str | None = None  # number of decimals of prices, whose last digit changes by `tick`


_CONTRACT = spelled(
    _Contract, name="symbol", symbol="baseCoin", quote="quoteCoin", kind="symbolType",
    status="symbolStatus", hours="fundInterval", listed="launchTime", expiry="deliveryTime",
    tick="priceEndStep", places="pricePlace", step="sizeMultiplier",
)  # fmt: skip


def _contract(reading: Reading, row: _Contract) -> Instrument:
    """Return a contract of the list; ``sizeMultiplier`` is a lot step, contracts are counted in coins."""
    quote = row.quote
    if row.name.endswith("PERP"):
        quote = "USDC"
    tick: float | None = None
    units = reading.number(row.tick)
    places = reading.number(row.places)
    if units is not None and places is not None:
        tick = round(units * 10**-places, 12)
    perpetual = row.kind == "perpetual"
    return reading.contract(row, quote=quote, perpetual=perpetual, active=row.status == "normal", tick=tick)


_SIDED = partial(spelled, LongShortRow[str, str], time="ts")
_RATIOS = {
    "account-long-short": ("accounts", _SIDED(long="longAccountRatio", short="shortAccountRatio")),
    "position-long-short": ("positions", _SIDED(long="longPositionRatio", short="shortPositionRatio")),
}
_TAKEN = _SIDED(long="buyVolume", short="sellVolume")

_endpoint = partial(VenueEndpoint, "bitget")
_CATEGORY = {"category": "USDT-FUTURES"}
_V2 = "/api/v2/mix/market"
_V3 = "/api/v3/market"

_PAGES = Paging("page", descending=True, start="", end="", cursor="pageNo", limit=100, limit_name="pageSize")


def _of_type(product: str, quote: str) -> tuple[VenueEndpoint, ...]:
    """Return the requests of v2 for one of the three product types."""
    of = partial(_endpoint, quote=quote)
    always = {"productType": product}
    return (
        of(
            "instruments", f"{_V2}/contracts", contracts(_CONTRACT, "data", _contract), params=always,
            lists=True,
        ),
        # Polled first: its rate comes with its interval, so neither is stale.
        of("funding", f"{_V2}/current-fund-rate", current_rates, tables=RATE_TABLES, params=always, every=60),
        of(
            "funding", f"{_V2}/tickers", states(_TICKER, "data", _named),
            tables=(*STATE_TABLES, DATED), params=always, every=60,
        ),
        of(
            "settlements", f"{_V2}/history-fund-rate", payments(_PAID, "data", _named), params=always,
            symbol="symbol", paging=_PAGES,
        ),
        of(
            "book", f"{_V2}/merge-depth", books(_BOOK, "data", _named, by="symbol"),
            params={**always, "limit": "max"}, symbol="symbol",
        ),
    )  # fmt: skip


_hours = partial(
    # Limited to one request a second.
    _endpoint, params={"period": "1h"}, symbol="symbol", quote="USDT", weight=20,
    paging=Paging(descending=True, start="", end="", limit=30, limit_name="", reach_days=1.2),
)  # fmt: skip
_MARKS = _endpoint(
    "prices", f"{_V2}/history-mark-candles",
    candles("data", _named, "mark", by="symbol", step="granularity"), symbol="symbol", quote="USDT",
    params={"productType": "USDT-FUTURES", "granularity": "1H"}, confirmed=False,
    paging=Paging(descending=True, limit=200, span_hours=199),
)  # fmt: skip

ENDPOINTS = (
    *_of_type("USDT-FUTURES", "USDT"),
    *_of_type("COIN-FUTURES", "USD"),
    *_of_type("USDC-FUTURES", "USDC"),
    *(
        _hours(
            "positioning", f"{_V2}/{name}", positioning(shape, "data", _named, kind, by="symbol"),
            note="the newest 30 hours or so; the ratio is a hundredth of the true one, the shares are used",
        )
        for name, (kind, shape) in _RATIOS.items()
    ),
    _hours(
        "taker", f"{_V2}/taker-buy-sell", taker_volumes(_TAKEN, "data", _named, by="symbol"), confirmed=False,
        note="the newest 30 hours or so; whether volumes are coins is unconfirmed", marks=_MARKS,
    ),
    _MARKS,
    _endpoint(
        "funding", f"{_V3}/tickers", states(_TICKER_V3, "data", _named), params=_CATEGORY, quote="USDT",
    ),
    _endpoint(
        "margin_tiers", f"{_V2}/query-position-lever", bitget_tiers(_named),
        params={"productType": "USDT-FUTURES"}, symbol="symbol", quote="USDT",
    ),
    _endpoint(
        "settlements", f"{_V3}/history-fund-rate", payments(_PAID_V3, "data.resultList", _named),
        params=_CATEGORY, symbol="symbol", quote="USDT",
        paging=Paging("page", descending=True, start="", end="", cursor="cursor", limit=200),
    ),
    _endpoint(
        "liquidations", f"{_V3}/liquidations",
        closed(_CLOSED, "data.list", _named, _LONGS, cursor="data.cursor"), params=_CATEGORY, confirmed=False,
        note="the unit of amount is unstated; the last 3 days", every=60, weight=4,
        paging=Paging("cursor", descending=True, start="", end="", cursor="cursor", limit=100, reach_days=3),
    ),
    _endpoint("funding", "ticker", states(_TICKER, "data", _named, pushed=True), method="WS"),
)  # fmt: skip

VENUE = Venue(
    "bitget",
    "https://api.bitget.com",
    ENDPOINTS,
    refusal(_Coded, _REASONS.get),
    budget=5.0,
    ping=("ping", 25.0),
    terms="API terms of 2023-09 are written for key holders; a clause on public data was not seen.",
    channel_at="arg.channel",
)
