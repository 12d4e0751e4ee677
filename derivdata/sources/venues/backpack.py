"""Backpack: rates, marks, open interest (coins) and 24 hours come in bulk, in separate responses."""

from __future__ import annotations

from functools import partial

from derivdata.sources.venues.endpoint import PRICE_TABLES, RATE_TABLES, Paging, Venue, VenueEndpoint
from derivdata.sources.venues.readers import books, contracts, states
from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Instrument, Records
from derivdata.sources.venues.wire import Book, ContractRow, Figures, PaymentRow, WordedBody, refusal, spelled

_HOUR_MS = 3_600_000
_REASONS = {"TOO_MANY_REQUESTS": "limit", "SERVICE_UNAVAILABLE": "busy", "MAINTENANCE": "busy"}


def _named(name: str) -> Instrument:
    """Parse a contract name such as BTC_USDC_PERP; a pair without the last part is spot."""
    base, _, rest = name.partition("_")
    return Instrument(name, base, rest.partition("_")[0], 1.0, perpetual=name.endswith("_PERP"))


_MARKET = spelled(
    ContractRow[str | float, str, str], name="symbol", symbol="baseSymbol", quote="quoteSymbol",
    kind="marketType", status="orderBookState", shown="visible", hours="fundingInterval",
    tick="filters.price.tickSize", step="filters.quantity.stepSize", listed="createdAt",
)  # fmt: skip
_MARK = spelled(
    Figures[str, int], name="symbol", mark="markPrice", index_price="indexPrice", rate="fundingRate",
    next_payment="nextFundingTimestamp",
)  # fmt: skip
_OI = spelled(Figures[str, int], name="symbol", contracts="openInterest", time="timestamp")
_TICKER = spelled(
    Figures[str, int], name="symbol", last="lastPrice", volume_usd="quoteVolume", change="priceChangePercent"
)  # fmt: skip
_PAID = spelled(PaymentRow[str, str], name="symbol", rate="fundingRate", time="intervalEndTimestamp")
_BOOK = spelled(Book[tuple[str, str], int], bids="bids", asks="asks", time="timestamp")


def _market(reading: Reading, row: ContractRow[str | float, str, str]) -> Instrument | None:
    if row.kind == "SPOT":
        return None
    active = row.status != "Closed" and row.shown is not False
    return reading.contract(row, perpetual=row.kind == "PERP", active=active)


def funding_rates(reading: Reading) -> Records:
    """Read payments, the newest first, without the interval that has not ended."""
    rows = reading.rows(_PAID)
    names = [row.name for row in rows]
    times = [f"{str(row.time).removesuffix('Z')}Z" for row in rows]  # times lack a zone
    rates = [row.rate for row in rows]
    records = reading.payment_columns(names, times, rates, [None] * len(rows), _named, unit="iso")
    if reading.at is not None:
        records.payments = [row for row in records.payments if row.time <= reading.at]
    return records


_endpoint = partial(VenueEndpoint, "backpack")

ENDPOINTS = (
    _endpoint(
        "instruments", "/markets", contracts(_MARKET, "", _market, per_hour=_HOUR_MS),
        params={"marketType": "PERP"}, lists=True,
    ),
    _endpoint(
        "funding", "/markPrices", states(_MARK, "", _named), tables=(*RATE_TABLES, *PRICE_TABLES), every=60,
    ),
    _endpoint(
        "oi", "/openInterest", states(_OI, "", _named), every=60,
        note="coins, from the size of one recorded response; which sides it counts is not known",
    ),
    _endpoint("tickers", "/tickers", states(_TICKER, "", _named), every=60),
    _endpoint(
        "settlements", "/fundingRates", funding_rates, symbol="symbol", pool="history",
        paging=Paging(descending=True, start="", end="", limit=10_000, reach_days=400),
    ),
    _endpoint(
        "book", "/depth", books(_BOOK, "", _named, by="symbol", per=1000), params={"limit": "1000"},
        symbol="symbol", note="the best bid comes last",
    ),
)  # fmt: skip

VENUE = Venue(
    "backpack",
    "https://api.backpack.exchange/api/v1",
    ENDPOINTS,
    refusal(WordedBody, _REASONS.get),
    budget=2000 / 60 / 4,
    pools={"history": 30 / 60 / 4},
    terms="Persons of the United States may not trade perpetuals; no text on public data was found.",
    hourly=True,
)
