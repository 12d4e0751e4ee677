"""Pacifica: one response has the rates, marks and open interest of every market; a second lists the markets.

``funding`` is the rate of the payment that was made, ``next_funding`` the estimate for the next one, which is
the running rate here. Both are fractions per hour. A row of the history is written at the hour of a payment,
whose rate it names ``next_funding_rate``; its ``funding_rate`` is that of the hour before.
"""

from __future__ import annotations

from functools import partial

from derivdata.sources.venues.endpoint import STATE_TABLES, Paging, Venue, VenueEndpoint
from derivdata.sources.venues.readers import contracts, payments
from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Instrument, Records
from derivdata.sources.venues.wire import (
    ContractRow,
    Fault,
    Figures,
    Level,
    PaymentRow,
    Wire,
    change_pct,
    refusal,
    spelled,
)


class _Fault(Wire):
    success: bool = True
    error: str | None = None
    code: int | None = None

    @property
    def fault(self) -> Fault:
        if self.success:
            return None
        return self.code, self.error or ""


def _named(name: str) -> Instrument:
    """Parse a contract name, which is the coin; a pair such as SOL-USDC is spot."""
    is_perpetual = "-" not in name
    return Instrument(name, name, "USDC", 1.0, perpetual=is_perpetual, active=is_perpetual)


class _Listing(ContractRow[str, int, None], kw_only=True):
    market: str | None = None


_MARKET = spelled(
    _Listing, name="symbol", market="instrument_type", symbol="base_asset", tick="tick_size",
    step="lot_size", listed="created_at", required=("tick",),
)  # fmt: skip


def _market(reading: Reading, row: _Listing) -> Instrument | None:
    if row.market == "spot":
        return None
    return reading.contract(row, symbol=row.symbol or row.name, quote="USDC")


class _Price(Figures[str, int], kw_only=True):
    traded: str | None = None
    before: str | None = None  # oracle price 24 hours ago


_PRICE = spelled(
    _Price, name="symbol", time="timestamp", rate="next_funding", mark="mark", index_price="oracle",
    contracts="open_interest", volume_usd="volume_24h", before="yesterday_price",
)  # fmt: skip


def prices(reading: Reading) -> Records:
    """Read running rates, open interest in coins at the mark, prices and volume of all markets."""
    records = Records()
    for row in reading.rows(_PRICE, "data"):
        with reading.row():
            item = reading.instrument(row.name, _named)
            if not item.perpetual:
                continue
            state = reading.state(item, row, 1.0)
            change = change_pct(state.index_price, reading.number(row.before))
            records.states.append(state._replace(change_pct=change))
    return records


class _Paid(PaymentRow[str, int], kw_only=True):
    oracle: str  # rows of /info also have a rate and a time, but are not payments


# Bodies of belyjelli/ai-rates, 2026-09-13: the newest row has `next_funding_rate` 0.00000475, which /info at
# that hour has as the rate that was paid. Tests of a public client of 2026-09-12 (PacificaPerp) agree.
_PAID = spelled(_Paid, rate="next_funding_rate", time="created_at", oracle="oracle_price")
funding_history = payments(
    _PAID, "data", _named, by="symbol", period_h=1.0, cursor="next_cursor", more="has_more"
)
_LEVEL = spelled(Level[str], price="p", size="a")


class _Book(Wire):
    s: str
    l: tuple[list[_LEVEL], list[_LEVEL]]  # type: ignore[valid-type]  # noqa: E741
    t: int


def book(reading: Reading) -> Records:
    """Read a book, bids first; sizes are coins."""
    body = reading.value(_Book, "data")
    item = reading.instrument(body.s, _named)
    return Records(books=[reading.book(item, reading.ms(body.t), *body.l)])


_endpoint = partial(VenueEndpoint, "pacifica")

ENDPOINTS = (
    _endpoint("instruments", "/info", contracts(_MARKET, "data", _market), lists=True),
    _endpoint(
        "funding", "/info/prices", prices, tables=STATE_TABLES, every=60,
        note="open interest is coins by the size of recorded bodies, where one page says USD; which sides it "
        "counts is not known",
    ),
    _endpoint(
        "settlements", "/funding_rate/history", funding_history, symbol="symbol",
        paging=Paging("cursor", descending=True, start="", end="", cursor="cursor", limit=1000),
    ),
    _endpoint("book", "/book", book, symbol="symbol", params={"agg_level": "1"}),
)  # fmt: skip

VENUE = Venue(
    "pacifica",
    "https://api.pacifica.fi/api/v1",
    ENDPOINTS,
    refusal(_Fault, {429: "limit", 500: "busy", 503: "busy"}.get),
    budget=100 / 60 / 4,  # a quarter of 100 credits a minute without a key
    hourly=True,
)
