"""BingX: perpetual swaps in USDT and USDC, with open interest in USD, one contract per request.

``nextFundingTime`` is a timestamp and ``updateTime`` the time of the last payment, contrary to the venue's
page. Coin-margined swaps are not read: each has an equivalent in USDT, which is used.
"""

from __future__ import annotations

from functools import partial

from derivdata.sources.venues.endpoint import PRICE_TABLES, RATE_TABLES, Paging, Venue, VenueEndpoint
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

_REASONS = {100410: "limit", 109415: "busy", 109500: "busy"}
_ALIASES = {"NEIROCTO": "NEIRO", "TRUMPSOL": "TRUMP", "MONAD": "MON", "LIGHTER": "LIT"}
"""Coins whose names on BingX differ (its list of 2026-11; TRUMPSOL also in ccxt 4.5.90)."""
_NO_COINS = ("NCSK", "NCFX", "NCCO", "NCSI")  # stocks, currencies, commodities and indexes


def _named(name: str) -> Instrument:
    """Parse a contract name such as BTC-USDT."""
    base, _, quote = name.partition("-")
    return Instrument(name, _ALIASES.get(base, base), quote, 1.0, active=not base.startswith(_NO_COINS))


def _contract(reading: Reading, row: ContractRow[float, int, int]) -> Instrument:
    """Return a contract by its name: `asset` shows AI for AIINU and GENSYN, and ONE for CROSS."""
    item = _named(row.name)
    # Status 1 means online.
    return reading.contract(row, symbol=item.symbol, active=item.active and row.status == 1)


_CONTRACT = spelled(
    ContractRow[float, int, int], name="symbol", symbol="asset", quote="currency", status="status",
    listed="launchTime",
)  # fmt: skip
_PREMIUM = spelled(
    Figures[str, int], name="symbol", mark="markPrice", index_price="indexPrice",
    rate="lastFundingRate", next_payment="nextFundingTime", plain_hours="fundingIntervalHours",
    required=("rate",),  # not in positions
)  # fmt: skip
_TICKER = spelled(
    Figures[str, int], name="symbol", last="lastPrice", volume_usd="quoteVolume",
    change_pct="priceChangePercent",
)  # fmt: skip
# The unit is USD: 3.3e9 for BTC at a price of 16,884 cannot be coins.
_OI = spelled(Figures[str, int], name="symbol", oi_usd="openInterest", time="time")
_PAID = spelled(PaymentRow[str, int], name="symbol", rate="fundingRate", time="fundingTime")
_BOOK = spelled(Book[tuple[str, str], int], bids="bids", asks="asks", time="T")

_endpoint = partial(VenueEndpoint, "bingx")
_BASE = "/openApi/swap/v2/quote"

ENDPOINTS = (
    _endpoint("instruments", f"{_BASE}/contracts", contracts(_CONTRACT, "data", _contract), lists=True),
    _endpoint(
        "funding", f"{_BASE}/premiumIndex", states(_PREMIUM, "data", _named),
        tables=(*RATE_TABLES, *PRICE_TABLES), every=60,
    ),
    _endpoint("tickers", f"{_BASE}/ticker", states(_TICKER, "data", _named), every=60),
    _endpoint(
        "oi", f"{_BASE}/openInterest", states(_OI, "data", _named), symbol="symbol", every=300,
        note="USD, from the size of one recorded response; which sides it counts is not known",
    ),
    _endpoint(
        "settlements", f"{_BASE}/fundingRate", payments(_PAID, "data", _named), symbol="symbol",
        paging=Paging(descending=True, limit=1000),
    ),
    _endpoint(
        "book", f"{_BASE}/depth", books(_BOOK, "data", _named, by="symbol"), params={"limit": "1000"},
        symbol="symbol",
    ),
)  # fmt: skip

VENUE = Venue(
    "bingx",
    "https://open-api.bingx.com",
    ENDPOINTS,
    refusal(NumberedBody, _REASONS.get),
    budget=12.5,  # a quarter of 500 in 10 seconds
    terms="Excludes the United States and Canada; no text on public data was found.",
)
