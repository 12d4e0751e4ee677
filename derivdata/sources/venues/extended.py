"""Extended: one response has every market, with an hourly rate and open interest in USD and in coins.

``nextFundingRate`` is a timestamp, that of the next payment. Spot markets are in the same list, with a mark
of 0.
"""

from __future__ import annotations

from functools import partial

from derivdata.sources.venues.endpoint import STATE_TABLES, Paging, Venue, VenueEndpoint
from derivdata.sources.venues.readers import closed, payments
from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Instrument, OiPoint, Records
from derivdata.sources.venues.wire import (
    Fault,
    Figures,
    Level,
    LiquidationRow,
    PaymentRow,
    Wire,
    refusal,
    spelled,
)


class _Reason(Wire):
    code: int | str | None = None
    message: str = ""


class _Fault(Wire):
    status: str | None = None
    error: _Reason | None = None
    code: int | str | None = None  # errors of a proxy in front of the venue lack the status
    msg: str | None = None

    @property
    def fault(self) -> Fault:
        if self.status is None and self.code is not None:
            return self.code, self.msg or ""
        if self.status in (None, "OK"):
            return None
        if self.error is None:
            return self.status, ""
        return self.error.code, self.error.message


_REASONS = {"RateLimited": "limit", 1010: "busy", "MaintenanceMode": "busy", 1006: "busy"}


def _named(name: str) -> Instrument:
    """Parse a contract name such as BTC-USD, settled in USDC."""
    return Instrument(name, name.rpartition("-")[0] or name, "USD", 1.0)


class _Market(Figures[str, int], kw_only=True):
    asset: str
    quote: str
    kind: str | None = None
    is_active: bool = True
    status: str = "ACTIVE"
    listed: int | None = None
    tick: str | None = None
    step: str | None = None


_MARKET = spelled(
    _Market, name="name", asset="assetName", quote="collateralAssetName", kind="type", is_active="active",
    status="status", listed="createdAt", tick="tradingConfig.minPriceChange",
    step="tradingConfig.minOrderSizeChange", mark="marketStats.markPrice",
    index_price="marketStats.indexPrice", last="marketStats.lastPrice", rate="marketStats.fundingRate",
    next_payment="marketStats.nextFundingRate", oi_usd="marketStats.openInterest",
    coins="marketStats.openInterestBase", volume_usd="marketStats.dailyVolume",
    change="marketStats.dailyPriceChangePercentage",
)  # fmt: skip


def markets(reading: Reading) -> Records:
    """Read contracts, hourly rates, open interest, prices and volume of all markets."""
    records = Records()
    for row in reading.rows(_MARKET, "data"):
        with reading.row():
            if row.kind != "PERPETUAL" and not row.next_payment:  # older responses lack the type
                continue
            item = Instrument(
                row.name,
                row.asset,
                row.quote,
                1.0,
                active=row.is_active and row.status in ("ACTIVE", "REDUCE_ONLY"),
                listed=reading.day(row.listed),
                tick=reading.number(row.tick),
                step=reading.number(row.step),
            )
            records.instruments.append(item)
            if not item.active:
                continue
            state = reading.state(item, row, 1.0)
            if state.oi_coins is not None and state.mark is not None:
                value = state.oi_coins * state.mark
                reading.require_close(state.oi_usd, value, 0.5, f"{row.name}: open interest in USD and coins")
            records.states.append(state)
    return records


_PAID = spelled(PaymentRow[str, int], name="m", rate="f", time="T")


class _Held(Wire):
    i: str  # USD
    I: str  # coins  # noqa: E741
    t: int


def open_interests(reading: Reading) -> Records:
    """Read open interest of the past, in USD and in coins."""
    item = reading.instrument(reading.requested("market"), _named)
    resolution = {"P1H": "1h", "P1D": "1d"}.get(reading.params.get("interval", ""), "unstated")
    records = Records()
    for row in reading.rows(_Held, "data"):
        usd = reading.required(row.i)
        coins = reading.required(row.I)
        records.add_past(OiPoint(item, reading.ms(row.t), usd, resolution, coins))
    return records


_LEVEL = spelled(Level[str], price="price", size="qty")


class _Book(Wire):
    market: str
    bid: list[_LEVEL]  # type: ignore[valid-type]
    ask: list[_LEVEL]  # type: ignore[valid-type]


def book(reading: Reading) -> Records:
    """Read a book; sizes are coins."""
    body = reading.value(_Book, "data")
    item = reading.instrument(body.market, _named)
    return Records(books=[reading.book(item, None, body.bid, body.ask)])


_TRADE = spelled(
    LiquidationRow[str, int], name="m", time="T", side="S", amount="q", price="p", kind="tT", number="i"
)
_LONGS = {"SELL": "long", "BUY": "short"}  # side of the taker: the liquidation of a long position sells

_endpoint = partial(VenueEndpoint, "extended")
_of_market = partial(_endpoint, symbol="market")

ENDPOINTS = (
    _endpoint("funding", "/info/markets", markets, tables=STATE_TABLES, lists=True, every=60),
    _of_market(
        "settlements", "/info/{market}/funding", payments(_PAID, "data", _named, period_h=1.0),
        paging=Paging(descending=True, limit=1000, limit_name=""),
        note="the newest 1,000 of a window, stamped some seconds after the hour",
    ),
    _of_market(
        "oi_history", "/info/{market}/open-interests", open_interests, params={"interval": "P1H"},
        paging=Paging(limit=300, span_hours=300), confirmed=False,
        note="hourly; one client spells the hour PT1H, and whether a stamp is an hour's start is not known",
    ),
    _of_market(
        "liquidations", "/info/markets/{market}/trades",
        closed(_TRADE, "data", _named, _LONGS, only="LIQUIDATION", filled=True), confirmed=False,
        paging=Paging(descending=True, start="", end="", limit=50, limit_name=""),
        note="the newest trades of a contract; that the side is the taker's is not confirmed",
    ),
    _of_market("book", "/info/markets/{market}/orderbook", book, note="every level; without a time"),
)  # fmt: skip

VENUE = Venue(
    "extended",
    "https://api.starknet.extended.exchange/api/v1",
    ENDPOINTS,
    refusal(_Fault, _REASONS.get),
    budget=1000 / 60 / 4,
    hourly=True,
)
