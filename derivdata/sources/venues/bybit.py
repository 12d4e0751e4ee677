"""Bybit v5: linear, inverse and option markets.

``openInterest`` counts both sides of each contract; ``singleOpenInterest`` (since 2026-06-11) counts one.
A liquidation names the side of the position: ``Buy`` is a long that was liquidated.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import msgspec

from derivdata.sources.venues.endpoint import (
    DATED,
    STATE_TABLES,
    Paging,
    Socket,
    Stream,
    Venue,
    VenueEndpoint,
)
from derivdata.sources.venues.readers import (
    books,
    bybit_loans,
    candles,
    closed,
    contracts,
    payments,
    positioning,
)
from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Instrument, OiPoint, Records, State
from derivdata.sources.venues.wire import (
    Book,
    ContractRow,
    Fault,
    Figures,
    Greeks,
    LiquidationRow,
    LongShortRow,
    PaymentRow,
    Stamp,
    Wire,
    expiry_in,
    one_side,
    refusal,
    spelled,
)
from derivdata.tables import contract

_REASONS = {10006: "limit", 10016: "busy", 10009: "region", 10024: "region", 10018: "limit", 10000: "busy"}
_DATED = re.compile(r"(?P<linear>\w+)-\d{1,2}[A-Z]{3}\d\d|(?P<inverse>[A-Z0-9]+USD)[FGHJKMNQUVXZ]\d\d")
"""Names of linear (BTCUSDT-26DEC25) and inverse (BTCUSDZ25) futures."""
_KINDS = {
    "LinearPerpetual": True,
    "InversePerpetual": True,
    "LinearFutures": False,
    "InverseFutures": False,
}
"""Kinds of contracts, and whether they are perpetual; spreads have others, such as FundingRateArb."""
_VALUE_STEP = 0.01  # USD, to which `openInterestValue` is rounded (recorded tickers of 2026-08)


class _Fault(Wire):
    retCode: int | None = None
    retMsg: str = ""
    success: bool | None = None
    ret_msg: str = ""

    @property
    def fault(self) -> Fault:
        """Return the fault of a body: errors have HTTP 200; errors of subscriptions have another shape."""
        if self.success is False:
            return "subscription", self.ret_msg
        if self.retCode in (None, 0):
            return None
        return self.retCode, self.retMsg


def _named(name: str) -> Instrument:
    """Parse a contract name: BTCUSDT, BTCPERP (USDC), BTCUSD (inverse), or a future as in `_DATED`."""
    if name.endswith("PERP"):
        return Instrument(name, name.removesuffix("PERP"), "USDC", 1.0)
    dated = _DATED.fullmatch(name)
    if dated is None:
        plain = contract(name)
        inverse = plain.quote == "USD"
        perpetual = plain.quote != ""
        return Instrument(name, plain.symbol, plain.quote, 1.0, inverse=inverse, perpetual=perpetual)
    plain = contract(dated["linear"] or dated["inverse"])
    quote = plain.quote or "USDC"  # BTC-26DEC25 is quoted in USDC
    item = Instrument(name, plain.symbol, quote, 1.0, inverse=plain.quote == "USD", perpetual=False)
    return item._replace(expiry=expiry_in(name))


class _Ticker(Figures[str, str]):
    due: str | None = None  # time of the next payment
    both: str | None = None  # open interest over both sides
    both_usd: str | None = None
    one: str | None = None
    one_usd: str | None = None
    traded: str | None = None  # 24-hour volume in contracts
    stage: str = ""


_TICKER_FIELDS = {
    "name": "symbol", "rate": "fundingRate", "hours": "fundingIntervalHour", "due": "nextFundingTime",
    "mark": "markPrice", "index_price": "indexPrice", "last": "lastPrice", "both": "openInterest",
    "both_usd": "openInterestValue", "one": "singleOpenInterest", "one_usd": "singleOpenInterestValue",
    "traded": "volume24h", "volume_usd": "turnover24h", "change": "price24hPcnt",
    "stage": "curPreListingPhase", "expiry": "deliveryTime",
}  # fmt: skip
# Payments and positions lack a last price, which every recorded v5 ticker since 2022 has.
_TICKER = spelled(_Ticker, required=("last",), **_TICKER_FIELDS)
_CHANGE = spelled(_Ticker, **_TICKER_FIELDS)


def tickers(reading: Reading) -> Records:
    """Read rate, open interest, prices and volume of all contracts of a category.

    A spread (``/v5/spread/tickers``) has the fields of a ticker, and a name such as SOLUSDT_SOL/USDT.
    """
    category = reading.value(str | None, "result.category", None)
    if category not in ("linear", "inverse", None):
        reading.fail(f"expected tickers of linear or inverse contracts, got the category {category!r}")
    records = Records()
    time = reading.ms(reading.value(Stamp, "time"))
    for row in reading.rows(_TICKER, "result.list"):
        with reading.row():
            if "_" in row.name:
                reading.fail(f"expected a contract, got the spread {row.name}")
            records.states += _state(reading, row, time)
    return records


class _Named(Wire):
    symbol: str


_OPTION_NAME = re.compile(r"\w+-\d{1,2}[A-Z]{3}\d\d-[\d.]+-[CP](-USDT)?")
# Layout of a frame of 2023-01-05 in ccxt 4.5.90, pro/bybit.py.
_PUSHED_OPTION = spelled(
    Greeks[str, int], name="symbol", iv="markPriceIv", delta="delta", gamma="gamma", vega="vega",
    theta="theta", open_interest="openInterest", underlying="underlyingPrice", bid="bidPrice", ask="askPrice",
    mark="markPrice", index_price="indexPrice", volume="volume24h",
)  # fmt: skip


def ticker_frames(reading: Reading) -> Records:
    """Read pushed tickers of futures or options; tickers of futures may have changed fields only."""
    for kind in reading.pushed(str, "type"):
        reading.word(kind, {"snapshot": True, "delta": False})
    are_options = all(_OPTION_NAME.fullmatch(row.symbol) for row in reading.pushed(_Named, "data"))
    shape = _PUSHED_OPTION if are_options else _CHANGE
    frames = zip(reading.pushed(Stamp, "ts"), reading.pushed_each(shape, "data"), strict=True)
    records = Records()
    for stamp, rows in frames:
        time = reading.ms(stamp)
        for row in rows:
            with reading.row():
                if are_options:
                    records.options.append(reading.quoted(row)._replace(time=time))
                else:
                    records.states += _state(reading, row, time)
    return records


def _state(reading: Reading, row: _Ticker, time: int) -> list[State]:
    """Return the state of a contract, without a rate for a dated one; empty before its listing."""
    item = reading.instrument(row.name, _named)
    if row.stage:
        return []
    # Delta frames lack both fields, so dated futures are identified by their name.
    is_dated = not item.perpetual or row.rate == "" or row.due in ("", "0")
    amount = _one_side(reading, row.both, row.one)
    mark = reading.number(row.mark)
    figures: dict[str, Any] = {"oi_coins": item.coins(amount, mark)}
    if item.inverse:  # open interest and volume are in USD
        figures["oi_usd"] = amount
        figures["volume_usd"] = reading.number(row.traded)
    else:
        value_of_coins = item.usd(amount, mark)
        value = reading.number(row.one_usd)
        if value is None:
            value = one_side(reading.number(row.both_usd))
        if value is None:
            value = value_of_coins
        what = "open interest in USD and in coins"
        reading.require_close(value, value_of_coins, 0.2, what, step=_VALUE_STEP)
        figures["oi_usd"] = value
    hours = None
    if not is_dated:
        hours = reading.number(row.hours) or reading.interval(item)
        if row.due:
            figures["next_payment"] = reading.ms(row.due)
    state = reading.state(item, row, hours, time=time, **figures)
    # Perpetuals that will be delisted also have a delivery time.
    expiry = state.instrument.expiry if is_dated else None
    perpetual = item.perpetual and state.instrument.perpetual and not is_dated
    return [state._replace(instrument=item._replace(perpetual=perpetual, expiry=expiry))]


def _one_side(reading: Reading, both: str | None, one: str | None) -> float | None:
    """Return `singleOpenInterest`, else half of both sides; they differ at most by rounding."""
    whole = reading.number(both)
    single = reading.number(one)
    if whole is None:
        return single
    # Each value is rounded to its own decimals, so the coarser step is the tolerance.
    step = max(10.0 ** -len(text.partition(".")[2]) for text in (both, one) if text)
    if single is not None and abs(whole / 2 - single) > max(step, 1e-3 * single):
        reading.fail(f"expected singleOpenInterest half of openInterest, {whole / 2!r}, got {single!r}")
    return whole / 2 if single is None else single


_PAID = spelled(PaymentRow[str, str], name="symbol", rate="fundingRate", time="fundingRateTimestamp")
_BOOK = spelled(Book[tuple[str, str], int], name="s", bids="b", asks="a", time="ts")
_LONGS = {"Buy": "long", "Sell": "short"}  # side of the position; the price is the bankruptcy price
_CLOSED = spelled(LiquidationRow[str, int], name="s", side="S", amount="v", price="p", time="T")


class _Oi(Wire):
    openInterest: str
    timestamp: Stamp
    singleOpenInterest: str | None = None


class _OiList(Wire):
    symbol: str
    category: str
    rows: list[_Oi] = msgspec.field(name="list")
    nextPageCursor: str | None = None


def open_interest(reading: Reading) -> Records:
    """Read open interest of the past: coins of linear contracts, which need a price, USD of inverse ones."""
    result = reading.value(_OiList, "result")
    item = reading.instrument(result.symbol, _named)
    if (result.category == "inverse") != item.inverse:
        reading.fail(f"{result.symbol}: the body states category {result.category}")
    resolution = reading.resolution("intervalTime")
    records = Records(cursor=result.nextPageCursor or None)
    for row in result.rows:
        with reading.row():
            amount = _one_side(reading, row.openInterest, row.singleOpenInterest)
            time = reading.ms(row.timestamp)
            if amount is None:
                reading.fail("a row lacks its open interest")
            usd = item.usd(amount, reading.context.mark(item.symbol, time))
            records.add_past(OiPoint(item, time, usd, resolution, None if item.inverse else amount))
    return records


_CONTRACT = spelled(
    ContractRow[str | float, str, str], name="symbol", status="status", symbol="baseCoin", quote="quoteCoin",
    kind="contractType", hours="fundingInterval", listed="launchTime", expiry="deliveryTime",
    tick="priceFilter.tickSize", step="lotSizeFilter.qtyStep",
)  # fmt: skip


def _contract(reading: Reading, row: ContractRow[str | float, str, str]) -> Instrument:
    """Return a contract; a perpetual that will be delisted has a time of delivery too."""
    perpetual = reading.word(row.kind, _KINDS)
    item = reading.contract(
        row,
        inverse=row.kind.startswith("Inverse"),
        perpetual=perpetual,
        active=row.status == "Trading",
    )
    return item.without_expiry()


_OPTION = spelled(
    Greeks[str, int], name="symbol", iv="markIv", delta="delta", gamma="gamma", vega="vega", theta="theta",
    open_interest="openInterest", underlying="underlyingPrice", bid="bid1Price", ask="ask1Price",
    mark="markPrice", index_price="indexPrice", volume="volume24h",
)  # fmt: skip


def option_tickers(reading: Reading) -> Records:
    """Read a chain: USDC- and USDT-settled options, which differ by their names."""
    time = reading.ms(reading.value(Stamp, "time"))
    records = Records()
    for row in reading.rows(_OPTION, "result.list"):
        with reading.row():
            records.options.append(reading.quoted(row)._replace(time=time))
    return records


_OPTION_LISTED = spelled(ContractRow[str, str, str], name="symbol", symbol="baseCoin")


def option_instruments(reading: Reading) -> Records:
    """Read the list of options."""
    records = Records(cursor=reading.value(str | None, "result.nextPageCursor", None) or None)
    for row in reading.rows(_OPTION_LISTED, "result.list"):
        with reading.row():
            option = reading.option(row.name, reading.at)
            if option.symbol != row.symbol:
                reading.fail(f"{row.name}: the body states the base coin {row.symbol}")
            records.options.append(option)
    return records


_RATIO = spelled(LongShortRow[str, str], name="symbol", time="timestamp", long="buyRatio", short="sellRatio")

_endpoint = partial(VenueEndpoint, "bybit")
_LIST = {"limit": "1000"}
_WALK = Paging(descending=True, limit=200)
_CURSOR = Paging("cursor", cursor="cursor", limit=1000, start="", end="")
_SOCKET = "wss://stream.bybit.com/v5/public"
_TOPICS = 200
_CONNECTION_TOPICS = 400  # the topics of one connection may have up to 21,000 characters
_BASES = ("BTC", "ETH", "SOL", "XRP", "DOGE")


def _of_category(category: Literal["linear", "inverse"]) -> tuple[VenueEndpoint, ...]:
    """Return the requests about contracts of a category."""
    always = {"category": category}
    of = partial(_endpoint, margin=category)
    mark, index = (
        partial(
            of, "prices", f"/v5/market/{kind}-price-kline",
            candles("result.list", _named, kind, by="symbol", step="interval"), symbol="symbol",
            paging=Paging(descending=True, limit=1000, start="start", end="end"),
        )
        for kind in ("mark", "index")
    )  # fmt: skip
    hourly = {"params": {**always, "interval": "60"}, "confirmed": False}
    return (
        of(
            "instruments", f"/v5/market/instruments-info?category={category}",
            contracts(_CONTRACT, "result.list", _contract, per_hour=60.0, cursor="result.nextPageCursor"),
            params=_LIST, paging=_CURSOR, lists=True,
        ),
        of(
            "funding", f"/v5/market/tickers?category={category}", tickers, tables=(*STATE_TABLES, DATED),
            every=60,
        ),
        of(
            "settlements", "/v5/market/funding/history", payments(_PAID, "result.list", _named),
            params=always, symbol="symbol", paging=_WALK,
        ),
        of(
            "oi_history", "/v5/market/open-interest", open_interest,
            params={**always, "intervalTime": "5min"}, symbol="symbol",
            paging=Paging(descending=True, limit=200), marks=mark(params={**always, "interval": "5"}),
        ),
        of(
            "book", "/v5/market/orderbook", books(_BOOK, "result", _named), params={**always, "limit": "500"},
            symbol="symbol",
        ),
        mark(**hourly, tables=("prices_history", DATED), marks=index(**hourly)),
        index(**hourly),
        of(
            "positioning", "/v5/market/account-ratio", positioning(_RATIO, "result.list", _named, "accounts"),
            params={**always, "period": "1h"}, symbol="symbol", paging=Paging(descending=True, limit=500),
            note="each time is read as the start of its hour",
        ),
    )  # fmt: skip


ENDPOINTS = (
    *_of_category("linear"),
    *_of_category("inverse"),
    _endpoint(
        "chain", "/v5/market/tickers?category=option", option_tickers, symbol="baseCoin", every=300,
        symbol_values=_BASES, note="one request for each of BTC, ETH, SOL, XRP and DOGE",
    ),
    _endpoint(
        "spot", "/v5/market/kline", candles("result.list", _named, "spot", by="symbol", step="interval"),
        params={"category": "spot", "interval": "60"}, symbol="symbol", names="{base}{quote}",
        margin="linear", paging=Paging(descending=True, limit=1000, start="start", end="end"),
    ),
    _endpoint("instruments", "/v5/market/instruments-info?category=option", option_instruments),
    _endpoint("borrow_rates", "/v5/spot-margin-trade/data", bybit_loans),
    *(
        _endpoint(what, "tickers.{symbol}", ticker_frames, tables=tables, method="WS")
        for what, tables in (("funding", (*STATE_TABLES, DATED)), ("chain", ("options_snapshot",)))
    ),
    _endpoint(
        "liquidations", "allLiquidation.{symbol}", closed(_CLOSED, "data", _named, _LONGS, pushed=True),
        method="WS",
    ),
)  # fmt: skip


def connections(channel: str, names: Sequence[str], _: int) -> list[Socket]:
    """Return connections for the linear and the inverse contracts, a few hundred topics each."""
    sockets = []
    for category, inverse in (("linear", False), ("inverse", True)):
        topics = [f"{channel}.{name}" for name in names if name.endswith("USD") == inverse]
        for i in range(0, len(topics), _CONNECTION_TOPICS):
            mine = topics[i : i + _CONNECTION_TOPICS]
            batches = [mine[j : j + _TOPICS] for j in range(0, len(mine), _TOPICS)]
            messages = [msgspec.json.encode({"op": "subscribe", "args": batch}).decode() for batch in batches]
            sockets.append(Socket(f"{_SOCKET}/{category}", messages))
    return sockets


VENUE = Venue(
    "bybit",
    "https://api.bybit.com",
    ENDPOINTS,
    refusal(_Fault, _REASONS.get),
    budget=5.0,
    socket=f"{_SOCKET}/linear",
    ping=('{"op":"ping"}', 20.0),
    stream=Stream("allLiquidation.{symbol}", partial(connections, "allLiquidation"), b'"topic"'),
    terms="No text on public data was found: for the user's own use. Refuses some countries.",
    channel_at="topic",
)
