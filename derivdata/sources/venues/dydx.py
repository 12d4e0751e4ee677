"""dYdX v4, from its indexer: hourly rates as fractions, open interest in coins at the oracle price."""

from __future__ import annotations

from functools import partial

import msgspec

from derivdata.sources.venues.endpoint import Paging, Venue, VenueEndpoint
from derivdata.sources.venues.readers import books, closed_rows, payments
from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Instrument, Records, State
from derivdata.sources.venues.wire import (
    Book,
    Fault,
    Level,
    LiquidationRow,
    PaymentRow,
    Wire,
    as_rows,
    if_stated,
    leaf,
    many,
    placed,
    refusal,
    spelled,
)


class _Reason(Wire):
    msg: str = ""
    code: str = ""


class _Fault(Wire):
    errors: list[_Reason] | None = None

    @property
    def fault(self) -> Fault:
        if not self.errors:
            return None
        return self.errors[0].code or "errors", self.errors[0].msg


def _path(reading: Reading, path: str) -> str:
    """Return the path of a field: some recordings wrap it in ``{"requestId", "status", "result"}``."""
    if reading.value(str | None, "requestId", None) is None:
        return path
    return f"result.{path}".rstrip(".")


def _named(name: str) -> Instrument:
    """Parse a contract name such as BTC-USD; a permissionless PEPE,RAYDIUM,…-USD is PEPE."""
    base = name.removesuffix("-USD").partition(",")[0]
    return Instrument(name, base, "USD", 1.0, perpetual=name.endswith("-USD"))


class _Market(Wire):
    ticker: str | None = None
    status: str | None = None
    oraclePrice: str | None = None
    priceChange24H: str | None = None
    volume24H: str | None = None
    nextFundingRate: str | None = None
    openInterest: str | None = None
    tickSize: str | None = None
    stepSize: str | None = None


def markets(reading: Reading) -> Records:
    """Read rates for the next hour, open interest, prices and volume of all contracts."""
    return _states(reading, reading.keyed_rows(_Market, _path(reading, "markets")))


class _Oracle(Wire):
    oraclePrice: str


class _Changes(Wire):
    """Initial markets of the stream, and later changes with the changed fields."""

    markets: dict[str, _Market] = msgspec.field(default_factory=dict)
    trading: dict[str, _Market] = msgspec.field(default_factory=dict)
    oraclePrices: dict[str, _Oracle] = msgspec.field(default_factory=dict)


def market_frames(reading: Reading) -> Records:
    """Read the stream; open interest needs the oracle price of the same frame."""
    records = Records()
    for changes in reading.pushed(_Changes, "contents"):
        rows = {**changes.markets, **changes.trading}
        for name, oracle in changes.oraclePrices.items():
            rows[name] = msgspec.structs.replace(rows.get(name, _Market()), oraclePrice=oracle.oraclePrice)
        records.add(_states(reading, rows))
    return records


def _states(reading: Reading, markets: dict[str, _Market]) -> Records:
    """Return the contracts of markets by name, and the states of active ones at oracle prices."""
    records = Records()
    for name, row in markets.items():
        with reading.row():
            if row.ticker not in (None, name):
                reading.fail(f"expected the row of {name}, got the row of {row.ticker}")
            active = row.status in (None, "ACTIVE")
            tick = reading.number(row.tickSize)
            step = reading.number(row.stepSize)
            item = reading.instrument(name, _named)._replace(active=active, tick=tick, step=step)
            records.instruments.append(item)
            price = reading.number(row.oraclePrice)
            if not active:
                continue
            rate = reading.number(row.nextFundingRate)
            hours = if_stated(lambda _: 1.0, rate)
            coins = reading.number(row.openInterest)
            moved = reading.number(row.priceChange24H)
            change = None
            if price is not None and moved is not None and price != moved:
                change = moved / (price - moved) * 100
            records.states.append(
                State(
                    item,
                    None,
                    rate,
                    hours,
                    hours,
                    index_price=price,
                    price=price,
                    oi_usd=item.usd(coins, price),
                    oi_coins=coins,
                    volume_usd=reading.number(row.volume24H),
                    change_pct=change,
                )
            )
    return records


_PAID = spelled(PaymentRow[str, str], name="ticker", rate="rate", time="effectiveAt")
_TRADE = spelled(
    LiquidationRow[str, str],
    time="createdAt",
    side="side",
    amount="size",
    price="price",
    id="id",
    kind="type",
)
_LONGS = {"SELL": "long", "BUY": "short"}  # a taker sell closed a long
_liquidated = partial(closed_rows, named=_named, longs=_LONGS, unit="iso", only="LIQUIDATED", filled=True)


def funding_history(reading: Reading) -> Records:
    """Read hourly payments, the newest first."""
    return payments(_PAID, _path(reading, "historicalFunding"), _named, unit="iso", period_h=1.0)(reading)


def trades(reading: Reading) -> Records:
    """Read liquidations among trades."""
    rows = reading.rows(_TRADE, _path(reading, "trades"))
    return _liquidated(reading, rows, name=reading.requested("ticker"))


def trade_frames(reading: Reading) -> Records:
    """Read liquidations among the trades of the stream."""
    records = Records()
    for name, trades in zip(reading.pushed(str, "id"), reading.frames(_PARTS), strict=True):
        for trade in as_rows(trades.value):
            records.add(_liquidated(reading, leaf(trade), name=name))
    return records


_PART = placed(many(_TRADE), "trades")
_PARTS = placed(_PART | many(_PART), "contents")  # one message or a batch


_BOOK = spelled(Book[Level[str], str], bids="bids", asks="asks")


def book(reading: Reading) -> Records:
    """Read a book; sizes are coins."""
    return books(_BOOK, _path(reading, ""), _named, by="ticker")(reading)


_endpoint = partial(VenueEndpoint, "dydx")

ENDPOINTS = (
    _endpoint("funding", "/perpetualMarkets", markets, lists=True, every=60),
    _endpoint(
        "settlements", "/historicalFunding/{ticker}", funding_history, symbol="ticker",
        paging=Paging(descending=True, start="", end="effectiveBeforeOrAt", unit="iso", limit=1000),
    ),
    _endpoint(
        "liquidations", "/trades/perpetualMarket/{ticker}", trades, symbol="ticker", every=60,
        paging=Paging(descending=True, start="", end="createdBeforeOrAt", unit="iso", limit=1000),
    ),
    _endpoint("book", "/orderbooks/perpetualMarket/{ticker}", book, symbol="ticker"),
    _endpoint("liquidations", "v4_trades", trade_frames, method="WS"),
    _endpoint("funding", "v4_markets", market_frames, method="WS"),
)  # fmt: skip

VENUE = Venue(
    "dydx",
    "https://indexer.dydx.trade/v4",
    ENDPOINTS,
    refusal(_Fault, lambda code: "region" if "GEO" in code.upper() else None),
    budget=2.5,
    hourly=True,
    channel_at="channel",
)
