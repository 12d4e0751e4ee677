"""Orderly Network, whose order book WOOFi Pro and other front ends share: bulk responses of all contracts.

Rates are fractions of the interval, which runs from the last payment to the next. Open interest is coins.
"""

from __future__ import annotations

from functools import partial

from derivdata.sources.venues.endpoint import PRICE_TABLES, RATE_TABLES, Paging, Venue, VenueEndpoint
from derivdata.sources.venues.readers import contracts, payments
from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Instrument, Records
from derivdata.sources.venues.wire import ContractRow, Fault, Figures, PaymentRow, Wire, refusal, spelled

_HOUR_US = 3_600_000_000


class _Fault(Wire):
    success: bool = True
    code: int | None = None
    message: str = ""

    @property
    def fault(self) -> Fault:
        return None if self.success else (self.code, self.message)


_REASONS = {-1003: "limit"}


def _named(name: str) -> Instrument:
    """Parse a contract name such as PERP_BTC_USDC."""
    kind, _, pair = name.partition("_")
    base, _, quote = pair.rpartition("_")
    return Instrument(name, base, quote, 1.0, perpetual=kind == "PERP")


class _Listing(ContractRow[float, int, None], kw_only=True):
    trading: str | None = None


_CONTRACT = spelled(
    _Listing, name="symbol", hours="funding_period", listed="created_time",
    tick="quote_tick", step="base_tick", trading="status", required=("tick",),
)  # fmt: skip


def _contract(reading: Reading, row: _Listing) -> Instrument:
    item = _named(row.name)
    return reading.contract(
        row,
        symbol=item.symbol,
        quote=item.quote,
        perpetual=item.perpetual,
        active=row.trading in (None, "", "TRADING", "ACTIVE"),  # "ACTIVE" is in ccxt 4.5.90, modetrade.py
    )


class _Rate(Figures[float, int], kw_only=True):
    last_payment: int | None = None


_RATE = spelled(
    _Rate, name="symbol", time="est_funding_rate_timestamp", rate="est_funding_rate",
    last_payment="last_funding_rate_timestamp", next_payment="next_funding_time",
)  # fmt: skip


def funding_rates(reading: Reading) -> Records:
    """Read running rates; the interval runs from the last payment to the next."""
    records = Records()
    for row in reading.rows(_RATE, "data.rows"):
        with reading.row():
            item = reading.instrument(row.name, _named)
            hours = reading.interval(item)
            if row.last_payment and row.next_payment:
                hours = (reading.ms(row.next_payment) - reading.ms(row.last_payment)) / _HOUR_US
            if item.active:
                records.states.append(reading.state(item, row, hours))
    return records


_FUTURES = spelled(
    Figures[float, int], name="symbol", mark="mark_price", index_price="index_price", last="24h_close",
    opened="24h_open", contracts="open_interest", volume_usd="24h_amount",
)  # fmt: skip


def futures(reading: Reading) -> Records:
    """Read open interest in coins at the mark, prices and volume; the rates are in another response."""
    time = reading.value(int | None, "timestamp", None)
    at = None if time is None else reading.ms(time)
    records = Records()
    for row in reading.rows(_FUTURES, "data.rows"):
        with reading.row():
            item = reading.instrument(row.name, _named)
            if item.active:
                records.states.append(reading.state(item, row, time=at))
    return records


_PAID = spelled(PaymentRow[float, int], name="symbol", rate="funding_rate", time="funding_rate_timestamp")

_endpoint = partial(VenueEndpoint, "woofipro")

ENDPOINTS = (
    _endpoint("instruments", "/public/info", contracts(_CONTRACT, "data.rows", _contract), lists=True),
    _endpoint("funding", "/public/funding_rates", funding_rates, tables=RATE_TABLES, every=60),
    _endpoint(
        "oi", "/public/futures", futures, tables=("oi_history", *PRICE_TABLES), every=60,
        note="coins, as two clients read it; which sides it counts is not known",
    ),
    _endpoint(
        "settlements", "/public/funding_rate_history", payments(_PAID, "data.rows", _named), symbol="symbol",
        paging=Paging("page", descending=True, start="start_t", end="end_t", cursor="page", limit=60,
                      limit_name="size"),
    ),
)  # fmt: skip

VENUE = Venue(
    "woofipro",
    "https://api.orderly.org/v1",
    ENDPOINTS,
    refusal(_Fault, _REASONS.get),
    budget=2.0,  # the limit is 10 a second per endpoint and IP
)
