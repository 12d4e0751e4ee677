"""Binance: USDT-margined, coin-margined and option markets; and Aster, which has the same API.

The rate called ``lastFundingRate`` is the running estimate for ``nextFundingTime``. Coin-margined contracts
count in contracts of 100 USD (BTC) or 10 USD (others). ``closeTime`` of a ticker is the last trade's.

Aster's ``fundingInfo`` names all symbols, and its open interest is undocumented.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from derivdata.sources.venues.endpoint import (
    DATED,
    PRICE_TABLES,
    RATE_TABLES,
    Paging,
    Socket,
    Stream,
    Venue,
    VenueEndpoint,
)
from derivdata.sources.venues.readers import (
    books,
    candles,
    contracts,
    option_trades,
    options,
    payments,
    positioning,
    states,
    taker_volumes,
)
from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import (
    Delivery,
    Instrument,
    Interval,
    Liquidation,
    OiPoint,
    Records,
    TakerVolume,
)
from derivdata.sources.venues.wire import (
    Book,
    ContractRow,
    Fault,
    Figures,
    Greeks,
    LongShortRow,
    PaymentRow,
    Stamp,
    TradeRow,
    Wire,
    expiry_in,
    refusal,
    spelled,
)
from derivdata.tables import contract

_OPTION_MARK = spelled(
    Greeks[str, str], name="symbol", iv="markIV", delta="delta", gamma="gamma", vega="vega", theta="theta",
    mark="markPrice", interest_rate="riskFreeInterest", required=("iv",),  # not in positions and exercises
)  # fmt: skip
# The exercise price is the index on which each option settles.
_OPTION_TICKER = spelled(
    Greeks[str, str], name="symbol", underlying="exercisePrice", index_price="exercisePrice", bid="bidPrice",
    ask="askPrice", volume="volume", required=("bid",),
)  # fmt: skip
_OPTION_OI = spelled(Greeks[str, str], name="symbol", open_interest="sumOpenInterest", time="timestamp")
_OPTION_TRADE = spelled(
    TradeRow[str, int, str | int], name="symbol", time="time", id="id", side="side", price="price",
    amount="qty",
)  # fmt: skip


class _Exercised(Wire):
    symbol: str
    realStrikePrice: str
    expiryDate: Stamp


def exercises(reading: Reading) -> Records:
    """Read the settlement prices of expired options, which have one row per option."""
    records = Records()
    for row in reading.rows(_Exercised):
        option = reading.option(row.symbol, reading.ms(row.expiryDate))
        records.times.append(option.expiry)
        price = reading.required(row.realStrikePrice)
        delivery = Delivery(option.symbol, reading.ms(row.expiryDate), price, "option:USDT")
        records.deliveries.append(delivery)
    return records


_option_endpoint = partial(VenueEndpoint, "binance", host="https://eapi.binance.com")

OPTION_ENDPOINTS = (
    _option_endpoint("chain", "/eapi/v1/mark", options(_OPTION_MARK, ""), weight=5, every=300),
    _option_endpoint(
        "chain", "/eapi/v1/ticker", options(_OPTION_TICKER, ""), tables=(), weight=40,
        every=300,
    ),
    _option_endpoint(
        "chain", "/eapi/v1/openInterest", options(_OPTION_OI, ""), tables=(),
        symbol="underlyingAsset", expiry="expiration", every=300,
    ),
    _option_endpoint(
        "option_trades", "/eapi/v1/blockTrades", option_trades(_OPTION_TRADE, "", is_block=True),
        params={"limit": "500"}, weight=5, every=300, note="block trades, the newest 500",
    ),
    _option_endpoint(
        "option_trades", "/eapi/v1/trades", option_trades(_OPTION_TRADE, ""), params={"limit": "500"},
        symbol="symbol", weight=5, note="of one option: not collected",
    ),
    _option_endpoint(
        "deliveries", "/eapi/v1/exerciseHistory", exercises, params={"limit": "100"}, symbol="underlying",
        weight=3, every=3600, symbol_values=("BTCUSDT", "ETHUSDT"), note="the newest 100 options",
    ),
)  # fmt: skip


_COIN = "https://dapi.binance.com"
_SPOT = "https://data-api.binance.vision"
_DEFAULT_HOURS = 8.0
_DAY_US = 86_400_000_000
_RESTING = ("PERPETUAL", "TRADIFI_PERPETUAL")
_REASONS = {451: "region", -1003: "limit", **dict.fromkeys((-1000, -1001, -1007, -1008, -1016), "busy")}


class _Fault(Wire):
    code: int | None = None
    msg: str = ""

    @property
    def fault(self) -> Fault:
        """Return code and message of the error, which may come with HTTP 200, or None."""
        if self.code in (None, 200):
            return None
        return 451 if "restricted location" in self.msg else self.code, self.msg


refuse = refusal(_Fault, _REASONS.get)


def coin_margined(name: str) -> bool:
    """Return whether a contract is of the coin-margined market by its name: BTCUSD_PERP, BTCUSD_240329."""
    return "USD_" in name


def named(name: str) -> Instrument:
    """Parse a contract name; a coin-margined contract is 100 USD for BTC and 10 USD for other coins."""
    pair, _, ending = name.partition("_")
    expiry = expiry_in(name)
    if not coin_margined(name):
        plain = contract(pair)
        return Instrument(name, plain.symbol, plain.quote, 1.0, perpetual=not ending, expiry=expiry)
    symbol = pair.removesuffix("USD")
    size = 100.0 if symbol == "BTC" else 10.0
    return Instrument(name, symbol, "USD", size, inverse=True, perpetual=ending == "PERP", expiry=expiry)


_PREMIUM = spelled(
    Figures[str, int], name="symbol", time="time", rate="lastFundingRate", mark="markPrice",
    index_price="indexPrice", next_payment="nextFundingTime", required=("rate",),  # not in positions
)  # fmt: skip


class _Pushed(Figures[str, int], kw_only=True):
    event: str


_PUSHED = spelled(
    _Pushed, name="s", time="E", rate="r", mark="p", index_price="i", next_payment="T", event="e"
)  # fmt: skip


def premium_index(reading: Reading, *, pushed: bool = False) -> Records:
    """Read the running rate, mark and index of all contracts; dated ones have no next payment."""
    records = Records()
    shape: Any = _PREMIUM
    if pushed:
        shape = _PUSHED
    for row in reading.rows_of(shape, is_pushed=pushed):
        with reading.row():
            if pushed:
                reading.word(row.event, {"markPriceUpdate": True})
            item = reading.instrument(row.name, named)
            if _is_shadow(reading, item.quote):
                continue
            hours = None
            if item.perpetual and row.next_payment:
                # fundingInfo lists only contracts with another interval than the default.
                default = _DEFAULT_HOURS if reading.context.lists_intervals(item) else None
                times = reading.ms(row.time), reading.ms(row.next_payment)
                hours = reading.current_interval(item, *times, default)
            records.states.append(reading.state(item, row, hours))
    return records


MARKED = (*RATE_TABLES, "prices_history")
"""Tables of the stream of marks; volumes and last prices come only with the tickers."""
mark_frames = partial(premium_index, pushed=True)


def _is_shadow(reading: Reading, quote: str) -> bool:
    """Return whether a contract is one of Aster's in USD without a market: rate and interest 0."""
    return reading.exchange == "aster" and quote == "USD"


class _Info(Wire):
    symbol: str
    fundingIntervalHours: int


def funding_info(reading: Reading) -> Records:
    """Read the intervals of contracts whose interval is or was different from 8 hours."""
    rows = reading.rows(_Info)
    return Records(
        intervals=[Interval(reading.instrument(r.symbol, named), r.fundingIntervalHours) for r in rows]
    )


_PAID = spelled(PaymentRow[str, int], name="symbol", rate="fundingRate", time="fundingTime")
_OI = spelled(Figures[str, int], name="symbol", contracts="openInterest", time="time")
funding_rates = payments(_PAID, "", named)
open_interest = states(_OI, "", named)


class _OiPast(Wire):
    sumOpenInterest: str
    sumOpenInterestValue: str
    timestamp: Stamp
    symbol: str | None = None
    pair: str | None = None
    contractType: str | None = None


def open_interest_history(reading: Reading) -> Records:
    """Read past open interest in USD, and in coins of linear contracts.

    Rows of coin-margined pairs have contracts of a fixed USD value, which are converted. Their coins are
    at the price of that time, and are omitted.
    """
    resolution = reading.resolution("period")
    records = Records()
    for row in reading.rows(_OiPast):
        with reading.row():
            time = reading.ms(row.timestamp)
            amount = reading.required(row.sumOpenInterest)
            if row.pair is not None and row.contractType is not None:
                ending = "PERP" if row.contractType == "PERPETUAL" else row.contractType
                item = reading.instrument(f"{row.pair}_{ending}", named)
                coins = None
                usd = item.usd(amount, None)
            elif row.symbol is not None:
                item = reading.instrument(row.symbol, named)
                coins = amount
                usd = reading.required(row.sumOpenInterestValue)
            else:
                reading.fail("a row has neither symbol nor pair and contractType")
            records.add_past(OiPoint(item, time, usd, resolution, coins))
    return records


class _Ticker(Figures[str, int]):
    traded: str | None = None  # 24-hour volume in contracts
    bid: str | None = None  # size of the best bid, which only tickers of spot pairs state


_TICKER = spelled(
    _Ticker, name="symbol", last="lastPrice", change_pct="priceChangePercent", traded="volume",
    volume_usd="quoteVolume", bid="bidQty", required=("last",),  # not in orders
)  # fmt: skip


def tickers(reading: Reading) -> Records:
    """Read 24-hour volume and prices of all contracts."""
    records = Records()
    for row in reading.rows(_TICKER):
        with reading.row():
            if row.name.endswith(("-C", "-P")):  # the tickers of options have the same fields
                reading.fail(f"expected a future or a perpetual, got the option {row.name}")
            if row.bid is not None:
                reading.fail(f"expected a future or a perpetual, got the spot pair {row.name}")
            item = reading.instrument(row.name, named)
            state = reading.state(item, row)
            if item.inverse:
                state = state._replace(volume_usd=item.usd(reading.number(row.traded), None))
            records.states.append(state)
    return records


_DEPTH = spelled(Book[tuple[str, str], int], bids="bids", asks="asks", time="T")
depth = books(_DEPTH, "", named, by="symbol")


class _Contract(ContractRow[str, int, str], kw_only=True):
    state: str | None = None
    inverse_status: str | None = None
    usd: float | None = None


_CONTRACT = spelled(
    _Contract, name="symbol", kind="contractType", symbol="baseAsset", quote="quoteAsset", usd="contractSize",
    inverse_status="contractStatus", listed="onboardDate", expiry="deliveryDate",
    tick="filters.PRICE_FILTER.tickSize", step="filters.LOT_SIZE.stepSize", state="status",
)  # fmt: skip


def _contract(reading: Reading, row: _Contract) -> Instrument:
    """Return a contract; a perpetual that will be delisted has a day of delivery too."""
    size: float | None = 1.0
    status = row.state
    inverse = coin_margined(row.name)
    if inverse:
        size = row.usd
        status = row.inverse_status
        if size is None:
            reading.fail(f"{row.name} has no contractSize")
    perpetual = row.kind in _RESTING
    active = status == "TRADING" and not _is_shadow(reading, row.quote)
    item = reading.contract(row, size=size, inverse=inverse, perpetual=perpetual, active=active)
    return item.without_expiry()


exchange_info = contracts(_CONTRACT, "symbols", _contract)


class _Forced(Wire):
    s: str
    S: str
    q: str
    p: str
    ap: str
    z: str
    T: Stamp
    st: int | None = None


class _ForceOrder(Wire):
    e: str
    o: _Forced


class _Frame(Wire):
    data: _ForceOrder | msgspec.UnsetType = msgspec.UNSET
    e: str | None = None
    o: _Forced | None = None


def force_orders(reading: Reading) -> Records:
    """Read forced orders: a sell closes a long; `z` is the total filled quantity, `l` the last fill."""
    records = Records()
    for frame in reading.frames(_Frame):
        with reading.row():
            event = frame if frame.data is msgspec.UNSET else frame.data
            reading.word(event.e or "", {"forceOrder": True})
            order = event.o
            if order is None:
                reading.fail("the frame has no order")
            item = reading.instrument(order.s, named)
            if order.st is not None and (order.st == 2) != item.inverse:
                reading.fail(f"{order.s} belongs to the other market (st {order.st})")
            side = reading.word(order.S, {"SELL": "long", "BUY": "short"})
            fill = reading.required(order.ap)
            price = reading.required(order.p)
            ordered = reading.required(order.q)
            filled = reading.required(order.z)
            records.liquidations.append(
                Liquidation.of(
                    item,
                    reading.ms(order.T),
                    side,
                    filled,
                    order_price=price,
                    fill_price=fill,
                    ordered=ordered,
                    native=(order.p, order.ap, order.q, order.z),
                )
            )
    return records


_Bar = tuple[Stamp, str, str, str, str, str, Stamp, str, int, str, str, str]


def klines(reading: Reading) -> Records:
    """Read prices at the start of each bar: of the mark, the index of a pair, or the last trade.

    Completed bars of last prices also state the turnover that takers bought; the rest was sold by takers.
    """
    item = reading.instrument(reading.requested("symbol", "pair"), named)
    resolution = reading.resolution("interval")
    bars = reading.decode(list[_Bar])
    kind = next((kind for kind in ("mark", "index") if f"{kind}Price" in reading.place), "last")
    opens = [(row[0], reading.opening(row[1], row[2], row[3])) for row in bars]
    records = reading.prices(opens, item, kind, resolution)
    has_turnover = kind == "last" and not item.inverse
    for start, row in zip(records.times, bars if has_turnover else (), strict=False):
        turnover = reading.required(row[7])
        bought = reading.required(row[10])
        if bought > turnover:
            reading.fail(f"takers bought {bought:g}, which is more than the turnover of {turnover:g}")
        if reading.has_ended(start, resolution):
            records.taker_volumes.append(TakerVolume(item, start, bought, turnover - bought, resolution))
    return records


class _Delivered(Wire):
    deliveryTime: Stamp
    deliveryPrice: float


def deliveries(reading: Reading) -> Records:
    """Read delivery prices of quarterly futures: at 08:00, although some timestamps are at 00:00."""
    item = reading.instrument(reading.requested("pair"), named)
    days = []
    for row in reading.rows(_Delivered):
        time = reading.ms(row.deliveryTime) // _DAY_US * _DAY_US + _DAY_US // 3
        days.append(Delivery(item.symbol, time, row.deliveryPrice, f"future:{item.quote}"))
    return Records(deliveries=days, times=[day.time for day in days])


_endpoint = partial(VenueEndpoint, "binance")
_linear = partial(_endpoint, margin="linear")
_inverse = partial(_endpoint, margin="inverse", host=_COIN)
_HISTORY = Paging(limit=1000)
# 499 rows, so pages are never cut.
_OI_HISTORY = Paging(limit=500, descending=True, reach_days=30, span_hours=41.5)
_SIDED = {"ratio": "longShortRatio", "long": "longAccount", "short": "shortAccount", "time": "timestamp"}
_OF_PAIR = {"long": "longPosition", "short": "shortPosition"}


def _ratios(path: str, kind: str) -> tuple[VenueEndpoint, VenueEndpoint]:
    """Return the requests of one ratio for linear and inverse contracts."""
    of_pair = {**_SIDED, **(_OF_PAIR if kind == "top_positions" else {})}
    always = {"params": {"period": "5m"}, "paging": _OI_HISTORY, "pool": "data"}
    read = partial(positioning, path="", kind=kind, ends=False)
    linear = read(spelled(LongShortRow[str, int], name="symbol", **_SIDED), named=named)
    inverse = read(spelled(LongShortRow[str, int], name="pair", **of_pair), named=_perpetual_of)
    return (
        _linear("positioning", f"/futures/data/{path}", linear, symbol="symbol", **always),
        _inverse("positioning", f"/futures/data/{path}?pair", inverse, symbol="pair", **always),
    )


def _perpetual_of(pair: str) -> Instrument:
    return named(f"{pair}_PERP")


_TAKEN = spelled(
    LongShortRow[str, int], name="pair", long="takerBuyVol", short="takerSellVol", time="timestamp",
)  # fmt: skip


def _of_market(of: partial[VenueEndpoint], base: str) -> tuple[VenueEndpoint, ...]:
    """Return the requests that the linear and the inverse market share."""
    return (
        of("instruments", f"{base}/exchangeInfo", exchange_info, lists=True),
        of("intervals", f"{base}/fundingInfo", funding_info, pool="funding"),
        of(
            "funding", f"{base}/premiumIndex", premium_index, tables=(*RATE_TABLES, *PRICE_TABLES, DATED),
            weight=10, every=60,
        ),
        of("tickers", f"{base}/ticker/24hr", tickers, weight=40, every=300),
        of(
            "oi", f"{base}/openInterest", open_interest, symbol="symbol", every=300,
            note="one request for each contract, a fifth of them each minute",
        ),
        of(
            "settlements", f"{base}/fundingRate", funding_rates, symbol="symbol", paging=_HISTORY,
            pool="funding", note="500 requests in 5 minutes",
        ),
        of("book", f"{base}/depth", depth, params={"limit": "500"}, symbol="symbol", weight=10),
    )  # fmt: skip


def _candles(of: partial[VenueEndpoint], base: str) -> tuple[VenueEndpoint, ...]:
    """Return the requests for prices of a market; for dated futures mark and index together."""
    candles_of = partial(
        of, "prices", read=klines, params={"interval": "1h"}, paging=Paging(limit=1500), weight=10,
        confirmed=False,
    )  # fmt: skip
    index = candles_of(path=f"{base}/indexPriceKlines", symbol="pair")
    mark = candles_of(
        path=f"{base}/markPriceKlines", symbol="symbol", tables=("prices_history", DATED), marks=index
    )
    return mark, candles_of(path=f"{base}/klines", symbol="symbol"), index


ENDPOINTS = (
    *_of_market(_linear, "/fapi/v1"),
    _linear(
        "oi_history", "/futures/data/openInterestHist", open_interest_history, params={"period": "5m"},
        symbol="symbol", paging=_OI_HISTORY, pool="data",
        note="1,000 requests in 5 minutes; the newest month",
    ),
    *_of_market(_inverse, "/dapi/v1"),
    _inverse(
        "oi_history", "/futures/data/openInterestHist?pair", open_interest_history,
        params={"period": "5m", "contractType": "PERPETUAL"}, symbol="pair", paging=_OI_HISTORY, pool="data",
        confirmed=False,
        note="response of 2026-09-21 repeats one figure for 50 minutes: 2.2 times the current open interest",
    ),
    *_ratios("globalLongShortAccountRatio", "accounts"),
    *_ratios("topLongShortAccountRatio", "top_accounts"),
    *_ratios("topLongShortPositionRatio", "top_positions"),
    _linear(
        "taker", "/fapi/v1/klines", klines, params={"interval": "1h"}, symbol="symbol",
        paging=Paging(limit=1500), weight=10,
    ),
    _inverse(
        "taker", "/futures/data/takerBuySellVol?pair", taker_volumes(_TAKEN, "", _perpetual_of),
        symbol="pair", params={"contractType": "PERPETUAL", "period": "1h"}, pool="data",
        paging=Paging(limit=500, descending=True, reach_days=30, span_hours=499),
    ),
    _linear(
        "deliveries", "/futures/data/delivery-price", deliveries, symbol="pair", pool="data",
        paging=Paging("cursor", start="", end="", limit_name=""), note="of quarterly futures",
    ),
    *OPTION_ENDPOINTS,
    *_candles(_linear, "/fapi/v1"),
    *_candles(_inverse, "/dapi/v1"),
    _linear(
        "spot", "/api/v3/klines", candles("", named, "spot", by="symbol", step="interval"), host=_SPOT,
        params={"interval": "1h"}, symbol="symbol", names="{base}{quote}", paging=Paging(limit=1000),
        pool="spot", weight=2,
    ),
    _endpoint("funding", "!markPrice@arr@1s", mark_frames, tables=MARKED, method="WS"),
    _endpoint("liquidations", "!forceOrder@arr", force_orders, method="WS"),
)  # fmt: skip

_SOCKET = "wss://fstream.binance.com/market/ws/!forceOrder@arr"

VENUE = Venue(
    "binance",
    "https://fapi.binance.com",
    ENDPOINTS,
    refuse,
    budget=10.0,  # a quarter of 2,400 a minute
    pools={"funding": 500 / 300 / 4, "data": 1000 / 300 / 4, "spot": 6000 / 60 / 4},
    socket=_SOCKET,
    stream=Stream("!forceOrder@arr", lambda *_: [Socket(_SOCKET, [])], b"forceOrder"),
    terms="API terms of 2025-01-22 are written for key holders; a clause on public data was not seen.",
)

_aster = partial(VenueEndpoint, "aster")

ASTER_ENDPOINTS = (
    _aster("instruments", "/fapi/v1/exchangeInfo", exchange_info, lists=True),
    _aster("intervals", "/fapi/v1/fundingInfo", funding_info),
    _aster(
        "funding", "/fapi/v1/premiumIndex", premium_index, tables=(*RATE_TABLES, *PRICE_TABLES),
        every=60,
    ),
    _aster("tickers", "/fapi/v1/ticker/24hr", tickers, weight=40, every=300),
    _aster(
        "oi", "/fapi/v1/openInterest", open_interest, symbol="symbol", every=300, largest=50,
        confirmed=False, note="not in the documentation; the 50 largest symbols every 5 minutes",
    ),
    _aster(
        "settlements", "/fapi/v1/fundingRate", funding_rates, symbol="symbol",
        paging=Paging(limit=1000),
    ),
    _aster(
        "taker", "/fapi/v1/klines", klines, params={"interval": "1h"}, symbol="symbol",
        paging=Paging(limit=1500), weight=10,
    ),
    _aster("book", "/fapi/v1/depth", depth, params={"limit": "500"}, symbol="symbol", weight=10),
    _aster("funding", "!markPrice@arr@1s", mark_frames, tables=MARKED, method="WS"),
    _aster("liquidations", "!forceOrder@arr", force_orders, method="WS"),
)  # fmt: skip

_ASTER_SOCKET = "wss://fstream.asterdex.com/ws/!forceOrder@arr"

ASTER = Venue(
    "aster",
    "https://fapi.asterdex.com",
    ASTER_ENDPOINTS,
    refuse,
    budget=10.0,
    socket=_ASTER_SOCKET,
    stream=Stream("!forceOrder@arr", lambda *_: [Socket(_ASTER_SOCKET, [])], b"forceOrder"),
)
