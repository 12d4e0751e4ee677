"""ApeX Omni: one response has every ticker; rates are fractions per hour, open interest is in coins.

Tickers and books name a contract BTCUSDT, its history BTC-USDT.
"""

from __future__ import annotations

from functools import partial

from derivdata.sources.venues.endpoint import STATE_TABLES, Paging, Venue, VenueEndpoint
from derivdata.sources.venues.readers import books, contracts, states
from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Instrument, Records
from derivdata.sources.venues.wire import (
    Book,
    ContractRow,
    Fault,
    Figures,
    PaymentRow,
    Wire,
    refusal,
    spelled,
)
from derivdata.tables import contract


class _Fault(Wire):
    code: int | str | None = None
    msg: str = ""

    @property
    def fault(self) -> Fault:
        if self.code in (None, 0, "0"):
            return None
        return self.code, self.msg


def _named(name: str) -> Instrument:
    """Parse a contract name such as BTCUSDT."""
    plain = contract(name)
    return Instrument(name, plain.symbol, plain.quote or "USDT", 1.0)


class _Listing(ContractRow[str, int, bool], kw_only=True):
    is_prelaunch: bool = False


_CONTRACT = spelled(
    _Listing, name="crossSymbolName", symbol="baseTokenId", quote="settleAssetId", status="enableTrade",
    shown="enableDisplay", tick="tickSize", step="stepSize", listed="klineStartTime",
    is_prelaunch="isPrelaunch",
)  # fmt: skip


def _contract(reading: Reading, row: _Listing) -> Instrument:
    return reading.contract(row, active=row.status and row.shown and not row.is_prelaunch)


_TICKER = spelled(
    Figures[str, str], name="symbol", mark="markPrice", index_price="indexPrice", last="lastPrice",
    contracts="openInterest", volume_usd="turnover24h", change="price24hPcnt", rate="fundingRate",
    next_payment="nextFundingTime",
)  # fmt: skip
_PAID = spelled(PaymentRow[str, int], name="symbol", rate="rate", time="fundingTime")


def funding_history(reading: Reading) -> Records:
    """Read hourly payments, the newest first."""
    rows = reading.rows(_PAID, "data.historyFunds")
    return reading.payments(
        ((row.name.replace("-", ""), row.time, row.rate, None) for row in rows), _named, 1.0
    )


_BOOK = spelled(Book[tuple[str, str], int], name="s", bids="b", asks="a")

_endpoint = partial(VenueEndpoint, "apex")

ENDPOINTS = (
    _endpoint(
        "instruments", "/v3/symbols",
        contracts(_CONTRACT, "data.contractConfig.perpetualContract", _contract), lists=True,
    ),
    _endpoint(
        "funding", "/v3/data/all-ticker-info", states(_TICKER, "data", _named, hours=1.0, unit="iso"),
        tables=STATE_TABLES, every=60,
        note="hourly by the spacing of payments; open interest is coins by the size of recorded bodies; "
        "which sides it counts is not known",
    ),
    _endpoint(
        "funding", "/v3/ticker", states(_TICKER, "data", _named, hours=1.0, unit="iso"), symbol="symbol",
    ),
    _endpoint(
        "settlements", "/v3/history-funding", funding_history, symbol="symbol", names="{symbol}-{quote}",
        paging=Paging(
            descending=True, start="beginTimeInclusive", end="endTimeExclusive", limit=100, exclusive=True
        ),
    ),
    _endpoint(
        "book", "/v3/depth", books(_BOOK, "data", _named), symbol="symbol", params={"limit": "100"},
        note="without a time",
    ),
)  # fmt: skip

VENUE = Venue(
    "apex",
    "https://omni.apex.exchange/api",
    ENDPOINTS,
    refusal(_Fault, {429: "limit", "429": "limit"}.get),
    budget=2.5,  # a quarter of 600 a minute
    hourly=True,
)
