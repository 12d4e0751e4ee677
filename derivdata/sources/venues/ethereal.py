"""Ethereal: the list of products has the last payment's rate and open interest of both sides, in coins.

The running rate is projected in a separate response, and prices are in another; both name products by their
ids, whose coins are only in the list of products. Rates are fractions per hour.
"""

from __future__ import annotations

from functools import partial

from derivdata.errors import SchemaError
from derivdata.sources.venues.endpoint import PRICE_TABLES, RATE_TABLES, Paging, Venue, VenueEndpoint
from derivdata.sources.venues.readers import payments
from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Instrument, Records, State
from derivdata.sources.venues.wire import (
    Fault,
    Figures,
    PaymentRow,
    Wire,
    as_rows,
    change_pct,
    one_side,
    refusal,
    spelled,
)


class _Fault(Wire):
    statusCode: int | None = None
    error: str | None = None
    message: str | list[str] = ""
    code: int | str | None = None  # a proxy in front of the venue may send its own code
    msg: str | None = None

    @property
    def fault(self) -> Fault:
        if self.code is not None:
            return self.code, self.msg or ""
        if self.statusCode is None and self.error is None:
            return None
        text = "; ".join(as_rows(self.message))
        return self.statusCode or self.error, text or self.error or ""


def _named(name: str) -> Instrument:
    raise SchemaError(f"product {name} is not in context['instruments']: pass the list of /product")


class _Product(Wire):
    id: str
    baseTokenName: str
    quoteTokenName: str
    status: str | None = None
    createdAt: int | None = None
    tickSize: str | None = None
    lotSize: str | None = None
    openInterest: str | None = None
    volume24h: str | None = None


def products(reading: Reading) -> Records:
    """Read contracts, and open interest in coins, which the venue states for both sides and is halved."""
    records = Records(cursor=reading.value(str | None, "nextCursor", None))
    if not reading.value(bool, "hasNext", False):
        records.cursor = None
    for row in reading.rows(_Product, "data"):
        with reading.row():
            item = Instrument(
                row.id,
                row.baseTokenName,
                row.quoteTokenName,
                1.0,
                active=row.status in (None, "ACTIVE"),
                listed=reading.day(row.createdAt),
                tick=reading.number(row.tickSize),
                step=reading.number(row.lotSize),
            )
            records.instruments.append(item)
            if not item.active:
                continue
            coins = one_side(reading.number(row.openInterest))
            price = reading.mark(item, None)
            traded = reading.number(row.volume24h)
            held = item.usd(coins, price)
            volume = item.usd(traded, price)
            records.states.append(State(item, None, oi_usd=held, oi_coins=coins, volume_usd=volume))
    return records


_PRICE = spelled(Figures[str, int], name="productId", mark="oraclePrice", opened="price24hAgo")


def prices(reading: Reading) -> Records:
    """Read marks, which are the oracle's prices, and the change of 24 hours."""
    records = Records()
    for row in reading.rows(_PRICE, "data"):
        with reading.row():
            item = reading.instrument(row.name, _named)
            state = reading.state(item, row)
            before = reading.number(row.opened)
            change = change_pct(state.mark, before)
            records.states.append(state._replace(index_price=state.mark, change_pct=change))
    return records


_RATE = spelled(Figures[str, int], name="productId", rate="fundingRateProjected1h")


def projected_rates(reading: Reading) -> Records:
    """Read the rates projected for the next payment."""
    records = Records()
    for row in reading.rows(_RATE, "data"):
        item = reading.instrument(row.name, _named)
        records.states.append(reading.state(item, row, 1.0))
    return records


_PAID = spelled(PaymentRow[str, int], rate="fundingRate1h", time="createdAt")
funding_history = payments(
    _PAID, "data", _named, by="productId", period_h=1.0, cursor="nextCursor", more="hasNext"
)

_endpoint = partial(VenueEndpoint, "ethereal")
_of_fifty = partial(_endpoint, symbol="productIds", batch=50, repeats=True, every=60)

ENDPOINTS = (
    _of_fifty("tickers", "/product/market-price", prices, tables=PRICE_TABLES),
    _endpoint(
        "oi", "/product", products, lists=True, every=60, params={"order": "asc", "orderBy": "createdAt"},
        tables=("oi_history", "markets_symbol_exchanges"),
        note="coins of both sides, which the venue's own description says, halved",
        paging=Paging("cursor", start="", end="", cursor="cursor"),
    ),
    _of_fifty("funding", "/funding/projected-rate", projected_rates, tables=RATE_TABLES),
    _endpoint(
        "settlements", "/funding", funding_history, symbol="productId",
        params={"range": "MONTH", "order": "desc"},
        paging=Paging("cursor", descending=True, start="", end="", cursor="cursor", reach_days=30),
    ),
)  # fmt: skip

VENUE = Venue(
    "ethereal",
    "https://api.ethereal.trade/v1",
    ENDPOINTS,
    refusal(_Fault, {429: "limit", 500: "busy", 503: "busy"}.get),
    budget=1.0,  # no limit is published
    hourly=True,
)
