"""Kraken Futures: linear PF_ and inverse PI_ perpetuals.

``fundingRate`` of tickers is money: USD per coin (PF_: divide by the price) or coin per USD (PI_: multiply
by it), good to half a percent. ``relativeFundingRate`` is a fraction per hour, also where payments were 4
hours apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec
import numpy as np

from derivdata.sources.venues import wire
from derivdata.sources.venues.endpoint import DATED, STATE_TABLES, Paging, Venue, VenueEndpoint
from derivdata.sources.venues.readers import closed, closed_rows, contracts, payments
from derivdata.sources.venues.reading import Reading, step_name
from derivdata.sources.venues.record_types import Instrument, OiBar, OiPoint, Records
from derivdata.sources.venues.wire import (
    NUMBER,
    ContractRow,
    Fault,
    Figures,
    LiquidationRow,
    LongShortRow,
    PaymentRow,
    Stamp,
    Wire,
    if_stated,
    leaf,
    many,
    placed,
    refusal,
    spelled,
    step_of,
)

_ALIASES = {"XBT": "BTC", "XDG": "DOGE"}
_REASONS = {
    "apiLimitExceeded": "limit",
    "EGeneral:Too many requests": "limit",
    "EAPI:Rate limit exceeded": "limit",
    "Server Error": "busy",
    "Unavailable": "busy",
    "EService:Unavailable": "busy",
    "EService:Busy": "busy",
}
_SMALLEST = 1e-9
"""Rates below it, a millionth of a percent, are not compared because few digits remain."""
_TYPES = {"flexible_futures": False, "futures_vanilla": False, "futures_inverse": True}


class _Wrong(Wire):
    """One of several errors: of the derivatives with a code and text, of the charts with a type and field."""

    code: int | str | None = None
    message: str | None = None
    severity: str = "E"  # W is a warning, which is sent together with rows
    type: str | None = None
    msg: str | None = None
    field: str | None = None
    value: object = None


class _Fault(Wire):
    result: str | dict[str, object] | None = None
    error: str | list[str] = ""
    errors: tuple[_Wrong, ...] = ()

    @property
    def fault(self) -> Fault:
        """Return code and message of the error, which comes with HTTP 200, or None."""
        if isinstance(self.error, list):  # errors of spot prices are a list
            if not self.error:
                return None
            return self.error[0], self.error[0]
        for wrong in self.errors:
            if wrong.severity == "E":
                named = (wrong.message or wrong.type, wrong.msg, wrong.field, wrong.value)
                text = ": ".join(str(word) for word in named if word is not None)
                return if_stated(str, wrong.code) or wrong.type, text
        if self.result != "error":
            return None
        return self.error, self.error


def _named(name: str) -> Instrument:
    """Parse a contract name: PF_XBTUSD (linear, coins) or PI_XBTUSD (inverse, USD); others are dated.

    Bodies of 2021 have names in lower case (JKorf/Kraken.Net, FuturesExchangeData/GetSymbolsAsync.txt).
    """
    name = name.upper()
    kind, pair, *_ = (*name.split("_"), "")
    base = pair.removesuffix("USD")
    perpetual = kind in ("PF", "PI") and name.endswith("USD")
    return Instrument(name, _ALIASES.get(base, base), "USD", 1.0, kind in ("PI", "FI"), perpetual)


class _Ticker(Figures[float, str]):
    traded: float | None = None  # 24-hour volume in contracts
    suspended: bool = False


_TICKER_FIELDS = {
    "name": "symbol", "last": "last", "mark": "markPrice", "index_price": "indexPrice",
    "contracts": "openInterest", "traded": "vol24h", "volume_usd": "volumeQuote", "rate": "fundingRate",
    "change_pct": "change24h", "suspended": "suspended",
}  # fmt: skip
_TICKER = spelled(_Ticker, **_TICKER_FIELDS)  # the list also has indices, which only have a last price
_ONE_TICKER = spelled(_Ticker, required=("mark",), **_TICKER_FIELDS)


def tickers(reading: Reading) -> Records:
    """Read rates, open interest, prices and volume of all contracts."""
    time = if_stated(reading.iso, reading.value(str | None, "serverTime", None))
    return _states(reading, reading.rows(_TICKER, "tickers"), time)


def ticker(reading: Reading) -> Records:
    """Read the ticker of one contract."""
    return _states(reading, reading.rows(_ONE_TICKER), None)


def _states(reading: Reading, rows: list[_Ticker], time: int | None) -> Records:
    """Return the states of contracts that are not suspended, with hourly rates as fractions."""
    states = []
    for row in rows:
        with reading.row():
            item = reading.instrument(row.name, _named)
            if row.suspended:
                continue
            price = row.index_price or row.mark  # the mark of an illiquid contract may be 7 % off
            rate = None
            hours = None
            if row.rate is not None and price and item.perpetual:
                rate = _relative_rate(item, row.rate, price)
                hours = 1.0
            volume = _volume_usd(item, row)
            states.append(reading.state(item, row, hours, time=time, rate=rate, volume_usd=volume))
    return Records(states=states)


def _relative_rate(item: Instrument, money: float, price: float) -> float:
    """Convert an absolute rate to a fraction of a contract's value."""
    if item.inverse:
        return money * price  # the rate is in coins per USD
    return money / price  # the rate is in USD per coin


class _Pushed(Figures[float, int], kw_only=True):
    absolute: float
    traded: float


def _volume_usd(item: Instrument, row: _Ticker | _Pushed) -> float | None:
    """Return the volume of 24 hours in USD, which is the number of contracts of an inverse one."""
    if item.inverse:
        return row.traded
    return row.volume_usd


_PUSHED = spelled(
    _Pushed, name="product_id", time="time", rate="relative_funding_rate", absolute="funding_rate",
    index_price="index", last="last", mark="markPrice", contracts="openInterest", traded="volume",
    volume_usd="volumeQuote", change_pct="change",
)  # fmt: skip


def ticker_frames(reading: Reading) -> Records:
    """Read the stream, which has the relative rate itself."""
    records = Records()
    for row in reading.pushed(_PUSHED):
        with reading.row():
            item = reading.instrument(row.name, _named)
            relative = _relative_rate(item, row.absolute, reading.required(row.index_price))
            reading.require_close(
                relative, row.rate, 0.05, "relative and absolute funding rate", step=_SMALLEST
            )
            volume = _volume_usd(item, row)
            records.states.append(reading.state(item, row, 1.0, volume_usd=volume))
    return records


_PAID = spelled(PaymentRow[float, str], time="timestamp", rate="relativeFundingRate")


class _Contract(ContractRow[float, str, bool]):
    places: int | None = None  # decimals of a size; negative for multiples of ten


def _contract(reading: Reading, row: _Contract) -> Instrument | None:
    """Return a contract of a list; FI_ and FF_ are dated, other types are not futures."""
    if row.kind not in _TYPES:
        return None
    item = _named(row.name)
    if item.inverse != _TYPES[row.kind]:
        reading.fail(f"{row.name}: the body states type {row.kind}")
    return reading.contract(
        row,
        symbol=_ALIASES.get(row.symbol, row.symbol) or item.symbol,
        quote=item.quote,
        inverse=item.inverse,
        perpetual=item.perpetual,
        active=row.status and row.stage != "Pre-IPO",
        step=step_of(row.places),
    )


_CONTRACT = spelled(
    _Contract, name="symbol", symbol="base", kind="type", status="tradeable", stage="category",
    size="contractSize", listed="openingDate", expiry="lastTradingTime", tick="tickSize",
    places="contractValueTradePrecision",
)  # fmt: skip


_LONGS = {"sell": "long", "buy": "short"}  # a taker sell closed a long
_TRADE = spelled(
    LiquidationRow[float, str], time="time", id="uid", number="trade_id", price="price", amount="size",
    side="side", kind="type",
)  # fmt: skip
_PUSHED_TRADE = spelled(
    LiquidationRow[float, int], name="product_id", time="time", id="uid", price="price", amount="qty",
    side="side", kind="type",
)  # fmt: skip


def trade_frames(reading: Reading) -> Records:
    """Read liquidations among the trades of the stream, including its initial snapshot."""
    rows: list[LiquidationRow[float, int]] = []
    for frame in map(bytes, reading.frames(msgspec.Raw)):
        if b'"trade_snapshot"' in frame:
            rows += leaf(wire.decode(frame, placed(many(_PUSHED_TRADE), "trades"), reading.where))
        else:
            rows.append(wire.decode(frame, _PUSHED_TRADE, reading.where))
    return closed_rows(reading, rows, _named, _LONGS, only="liquidation", filled=True)


class _Levels(Wire):
    bids: list[tuple[float, float]]
    asks: list[tuple[float, float]]


def book(reading: Reading) -> Records:
    """Read a book: coins of PF_, USD of PI_."""
    sides = reading.value(_Levels, "orderBook")
    time = reading.iso(reading.value(str, "serverTime"))
    item = reading.instrument(reading.requested("symbol"), _named)
    return Records(books=[reading.book(item, time, sides.bids, sides.asks)])


class _Counts(Wire):
    longCount: list[float]
    shortCount: list[float]


class _Taken(Wire):
    buy_volume: list[str]
    sell_volume: list[str]


def long_short(reading: Reading) -> Records:
    """Read numbers of accounts that are long and short, in columns."""
    counts = reading.value(_Counts, "result.data")
    records = Records()
    for item, start, step, long, short in _sides(reading, records, counts.longCount, counts.shortCount):
        with reading.row():
            row = LongShortRow(start, item.name, long, short)
            records.positioning += reading.positioning(item, start, row, "accounts", step, ends=True)
    return records


def taker_volume(reading: Reading) -> Records:
    """Read taker buys and sells, sent in columns: coins for PF_, USD for PI_."""
    volumes = reading.value(_Taken, "result.data")
    records = Records()
    steps = _sides(reading, records, volumes.buy_volume, volumes.sell_volume)
    for item, start, resolution, bought, sold in steps:
        with reading.row():
            records.taker_volumes += reading.taker_volumes(item, start, bought, sold, resolution)
    return records


def _sides(
    reading: Reading, records: Records, long: list[Any], short: list[Any]
) -> Iterator[tuple[Instrument, int, str, Any, Any]]:
    """Yield contract, start, resolution, and both values of each step; add the starts to the records."""
    item = reading.instrument(reading.requested("symbol"), _named)
    resolution = reading.resolution("interval", "s")
    stamps = reading.value(list[float], "result.timestamp")
    if not len(stamps) == len(long) == len(short):
        reading.fail("columns of different lengths")
    records.times += map(reading.seconds, stamps)
    for start, long_side, short_side in zip(records.times, long, short, strict=True):
        yield item, start, resolution, long_side, short_side


def open_interest_history(reading: Reading) -> Records:
    """Read open interest at the start of each step, the open of its bucket: coins of PF_, USD of PI_."""
    records = Records()
    resolution = reading.resolution("interval", "s")
    item = reading.instrument(reading.requested("symbol"), _named)
    stamps = reading.value(list[float], "result.timestamp")
    buckets = reading.value(list[tuple[NUMBER, NUMBER, NUMBER, NUMBER]], "result.data")
    if len(stamps) != len(buckets):
        reading.fail("columns of different lengths")
    for stamp, (opened, high, low, last) in zip(stamps, buckets, strict=True):
        with reading.row():
            time = reading.seconds(stamp)
            amount = reading.required(opened)
            mark = reading.mark(item, time)
            point = OiPoint(item, time, item.usd(amount, mark), resolution)
            if not item.inverse:
                point = point._replace(oi_coins=amount)
            records.add_past(point)
            required = reading.required
            bar = OiBar(item, time, amount, required(high), required(low), required(last), resolution)
            if not bar.lowest <= min(bar.opened, bar.closed) <= max(bar.opened, bar.closed) <= bar.highest:
                reading.fail(f"{item.name}: the open interest of a step is outside its highest and lowest")
            records.oi_bars.append(bar)
    return records


class _Candle(Wire):
    time: Stamp
    open: str


class _Ohlc(Wire):
    result: dict[str, msgspec.Raw]


def price_candles(reading: Reading) -> Records:
    """Read marks, or the index (``spot``), at the start of each bar."""
    rows = [(row.time, row.open) for row in reading.value(list[_Candle], "candles")]
    kind = "mark" if "/mark/" in reading.place else "index"
    item = reading.instrument(reading.requested("symbol"), _named)
    return reading.prices(rows, item, kind, step_name(reading.place.rpartition("/")[2]))


def spot_candles(reading: Reading) -> Records:
    """Read spot prices at the start of each bar, under the venue's long name of the pair.

    Without ``interval`` in the request the smallest gap is the step: Kraken skips no bar of a liquid pair.
    """
    item = reading.instrument(reading.context.named or f"PF_{reading.requested('pair')}", _named)
    bars = reading.decode(_Ohlc).result
    pairs = sorted(bars.keys() - {"last"})
    if len(pairs) != 1:
        reading.fail(f"expected the bars of one pair, got {pairs}")
    rows = wire.decode(bars[pairs[0]], list[tuple[int, str, str, str, str, str, str, int]], reading.where)
    opens = [(1000 * row[0], reading.opening(row[1], row[2], row[3])) for row in rows]
    resolution = reading.resolution("interval")
    if "interval" not in reading.params and len(rows) > 1:
        starts = [row[0] for row in rows]
        gap = int(np.min(np.diff(starts)))
        resolution = step_name(str(gap), "s")
    return reading.prices(opens, item, "spot", resolution)


_endpoint = partial(VenueEndpoint, "kraken")
_TRADES = Paging(
    descending=True, start="", end="lastTime", unit="iso", limit=100, limit_name="", exclusive=True
)
_V3 = "/derivatives/api/v3"
_CHARTS = "/api/charts/v1"
_analytics = partial(
    _endpoint, params={"interval": "3600"}, symbol="symbol",
    paging=Paging(start="since", end="to", unit="s", limit=2000, limit_name=""),
)  # fmt: skip
_candles = partial(
    _endpoint, "prices", read=price_candles, symbol="symbol", confirmed=False,
    paging=Paging(start="from", end="to", unit="s", limit=2000, limit_name=""),
)  # fmt: skip
_INDEX = _candles(path=f"{_CHARTS}/spot/{{symbol}}/1h", note="that spot is the index is unconfirmed")
_MARKS_OF_FIVE = _candles(path=f"{_CHARTS}/mark/{{symbol}}/5m")
_MARKS = _candles(path=f"{_CHARTS}/mark/{{symbol}}/1h", tables=("prices_history", DATED), marks=_INDEX)

ENDPOINTS = (
    _endpoint(
        "instruments", f"{_V3}/instruments", contracts(_CONTRACT, "instruments", _contract), lists=True,
    ),
    _endpoint("funding", f"{_V3}/tickers", tickers, tables=(*STATE_TABLES, DATED), every=60),
    _endpoint("funding", f"{_V3}/tickers/{{symbol}}", ticker, tables=(*STATE_TABLES, DATED)),
    _endpoint(
        "settlements", "/derivatives/api/v4/historicalfundingrates",
        payments(_PAID, "rates", _named, by="symbol", unit="iso", period_h=1.0), symbol="symbol",
        confirmed=False,
        note="a year in one response; whether a stamp is the hour's start or end is unconfirmed",
    ),
    _endpoint("book", f"{_V3}/orderbook", book, symbol="symbol"),
    _endpoint(
        "liquidations", f"{_V3}/history",
        closed(_TRADE, "history", _named, _LONGS, by="symbol", unit="iso", only="liquidation", filled=True),
        symbol="symbol", every=60, note="100 trades a page, as other clients page it", paging=_TRADES,
    ),
    _analytics("positioning", f"{_CHARTS}/analytics/{{symbol}}/long-short-info", long_short),
    _analytics(
        "taker", f"{_CHARTS}/analytics/{{symbol}}/cvd", taker_volume, marks=_MARKS,
        note="the venue states no unit; volumes of PF_ contracts of 2026-10-08 are coins",
    ),
    _endpoint(
        "oi_history", f"{_CHARTS}/analytics/{{symbol}}/open-interest", open_interest_history,
        params={"interval": "300"}, symbol="symbol", marks=_MARKS_OF_FIVE,
        paging=Paging(start="since", end="to", unit="s", limit=2000, limit_name="", reach_days=6),
        note="6 days at 5 minutes, as perp-md 0.5.3 (2026-10) requests it",
    ),
    _MARKS,
    _MARKS_OF_FIVE,
    _INDEX,
    _endpoint(
        "spot", "/0/public/OHLC", spot_candles, host="https://api.kraken.com", symbol="pair", names="{pair}",
        params={"interval": "60"}, margin="linear", weight=4,
        paging=Paging(start="since", end="", unit="s", limit=720, limit_name="", reach_days=29.9),
        note="the newest 720 hours",
    ),
    _endpoint("funding", "ticker", ticker_frames, method="WS"),
    _endpoint("liquidations", "trade", trade_frames, method="WS"),
)  # fmt: skip

VENUE = Venue(
    "kraken",
    "https://futures.kraken.com",
    ENDPOINTS,
    refusal(_Fault, _REASONS.get),
    budget=1.0,
    socket="wss://futures.kraken.com/ws/v1",
    hourly=True,
    is_inverse_hourly=False,  # PI_ contracts paid every 4 hours in 2022 (recorded body of 2022-06-28).
    channel_at="feed",
)
