"""OKX v5: perpetual swaps, dated futures and options.

Sizes of books, liquidations and open interest are contracts; ``ctVal`` × ``ctMult`` of the instrument list is
the coins (linear) or USD (inverse) of one. The rate that was paid is ``realizedRate``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from derivdata.sources.venues.endpoint import DATED, RATE_TABLES, Paging, Socket, Stream, Venue, VenueEndpoint
from derivdata.sources.venues.readers import (
    Reader,
    books,
    candles,
    contracts,
    okx_loans,
    okx_tiers,
    option_trades,
    options,
    payments,
    states,
)
from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import (
    Delivery,
    Instrument,
    Liquidation,
    OiPoint,
    Records,
    State,
    StatedRate,
    TakerVolume,
)
from derivdata.sources.venues.wire import (
    Book,
    CodedBody,
    ContractRow,
    Data,
    Figures,
    Greeks,
    LongShortRow,
    PaymentRow,
    Stamp,
    TradeRow,
    Wire,
    expiry_in,
    if_stated,
    refusal,
    spelled,
)
from derivdata.tables.contracts import option_coins

_HOUR_US = 3_600_000_000
_EXTENDED = "_XPERP"
"""Suffix of the family of X-Perps (ccxt 4.5.90, okx.py fetch_funding_rate; a recorded rate of 2026-09)."""
_RATE_CHANNEL = "funding-rate"
_REASONS = {"50011": "limit", "50013": "busy", "50001": "busy", "50026": "busy"}


def _named(name: str) -> Instrument:
    """Parse a contract ID such as BTC-USDT-SWAP or BTC-USD-241227; contracts in USD are inverse.

    BTC-USD_UM_XPERP-310404 is linear, and a perpetual: it pays funding until a distant end date.
    """
    words = name.split("-")
    family = words[1] if len(words) > 1 else ""
    quote = family.partition("_")[0]
    if len(words) != 3:
        return Instrument(name, words[0], quote, perpetual=False)
    perpetual = words[2] == "SWAP" or family.endswith(_EXTENDED)
    expiry = None if perpetual else expiry_in(name)
    return Instrument(name, words[0], quote, inverse=family == "USD", perpetual=perpetual, expiry=expiry)


def _of_pair(name: str) -> Instrument:
    return _named(f"{name}-SWAP")


class _Funding(Wire):
    instId: str
    instType: str
    fundingRate: str
    fundingTime: Stamp
    # frames of 2021 lack both fields (tardis-node, test/mappers.test.ts, 2021-12)
    nextFundingTime: Stamp | None = None
    ts: Stamp | None = None
    nextFundingRate: str | None = None
    prevFundingTime: Stamp | None = None
    settFundingRate: str | None = None
    realizedRate: str | None = None  # only in payments
    settState: str | None = None


def funding_rates(reading: Reading) -> Records:
    """Read running rates, also of the stream; the interval is the time between the next two payments.

    The response about all contracts has X-Perps among the swaps. They are omitted there, because the rate of
    a coin is that of its swap. A request or a frame that names an X-Perp has its rate.
    """
    records = Records()
    is_of_all = reading.params.get("instId", "ANY") == "ANY" and reading.place != _RATE_CHANNEL
    for row in reading.pushed(_Funding, "data"):
        with reading.row():
            if row.realizedRate is not None:
                reading.fail(f"{row.instId} has a realizedRate: expected the running rate, got a payment")
            item = reading.instrument(row.instId, _named)
            if not item.perpetual or row.fundingRate == "" or (is_of_all and row.instType != "SWAP"):
                continue
            time = if_stated(reading.ms, row.ts)
            hours = _hours_between(reading, row, item, time)
            records.states.append(State(item, time, reading.required(row.fundingRate), hours, hours))
            records.rates += _stated_rates(reading, row, item, time, hours)
    return records


def _stated_rates(
    reading: Reading, row: _Funding, item: Instrument, time: int | None, hours: float | None
) -> list[StatedRate]:
    """Return the rate of the coming settlement, of the one after it, and of the last one.

    While a settlement is in progress (``settState`` is ``processing``), ``settFundingRate`` belongs to it.
    """
    rates: list[tuple[str, str | None, Stamp | None]] = [
        ("next", row.fundingRate, row.fundingTime),
        ("predicted", row.nextFundingRate, row.nextFundingTime),
    ]
    if row.settState == "settled":
        rates.append(("settled", row.settFundingRate, row.prevFundingTime))
    stated = []
    for kind, text, due in rates:
        rate = reading.number(text)
        if rate is not None:
            settlement = reading.ms(due) if due else None
            stated.append(StatedRate(item, kind, rate, settlement, time, hours, hours))
    return stated


def _hours_between(reading: Reading, row: _Funding, item: Instrument, time: int | None) -> float | None:
    """Return the hours between the next two payments, else the interval of another response if it agrees."""
    if not row.fundingTime:
        return None
    payment = reading.ms(row.fundingTime)
    now = reading.at if time is None else time
    if not row.nextFundingTime:
        if now is None:
            return reading.interval(item)
        return reading.current_interval(item, now, payment)
    hours = (reading.ms(row.nextFundingTime) - payment) / _HOUR_US
    if not 0 < hours <= 24:
        reading.fail(f"{row.instId}: expected an interval that venues use, got {hours:g} hours")
    return hours


_PAID = spelled(PaymentRow[str, str], name="instId", rate="realizedRate", time="fundingTime")


class _Typed(Wire):
    instId: str
    instType: str | None = None  # missing in trades and shortened recordings
    tradeId: str | None = None


def _only(types: str, read: Reader) -> Reader:
    """Reject rows of another ``instType``, and option trades, whose rows also have a mark."""

    def checked(reading: Reading) -> Records:
        for row in reading.pushed(_Typed, "data"):
            if row.tradeId is not None:
                reading.fail(f"{row.instId}: expected a state, got the trade {row.tradeId}")
            if row.instType is not None and row.instType not in types.split():
                reading.fail(f"{row.instId}: expected a row of the type {types}, got {row.instType}")
        return read(reading)

    return checked


_OI = spelled(Figures[str, str], name="instId", time="ts", oi_usd="oiUsd", coins="oiCcy", required=("coins",))


def open_interest_history(reading: Reading) -> Records:
    """Read past open interest: rows of time, contracts, coins and USD."""
    item = reading.instrument(reading.requested("instId"), _named)
    resolution = reading.resolution("period")
    records = Records()
    for stamp, _, coins, usd in reading.value(list[tuple[Stamp, str, str, str]], "data"):
        with reading.row():
            time = reading.ms(stamp)
            records.add_past(OiPoint(item, time, reading.required(usd), resolution, reading.required(coins)))
    return records


_MARK = spelled(Figures[str, str], name="instId", time="ts", mark="markPx")
_TICKER = spelled(
    Figures[str, str], name="instId", time="ts", last="last", opened="open24h", volume="volCcy24h"
)


class _Index(Wire):
    instId: str
    idxPx: str
    ts: Stamp


def indices(reading: Reading) -> Records:
    """Read index prices of the listed swaps: an index has the name of its pair."""
    listed = reading.context.instruments
    records = Records()
    for row in reading.rows(_Index, "data"):
        item = listed.get(f"{row.instId}-SWAP")
        if item is not None:
            records.states.append(State(item, reading.ms(row.ts), index_price=reading.number(row.idxPx)))
    return records


# Sizes are contracts.
_BOOK = spelled(Book[tuple[str, str, str, str], str], bids="bids", asks="asks", time="ts")


class _Topic(Wire):
    instId: str


class _BookFrame(Data[list[_BOOK]]):  # type: ignore[valid-type]
    arg: _Topic
    action: str = "snapshot"


def book_frames(reading: Reading) -> Records:
    """Read books of the stream."""
    records = Records()
    for frame in reading.frames(_BookFrame):
        reading.require_snapshot(frame.action)
        item = reading.instrument(frame.arg.instId, _named)
        rows: list[Any] = frame.data
        records.books += [reading.book(item, reading.ms(row.time), row.bids, row.asks) for row in rows]
    return records


class _Contract(ContractRow[str, str, str], kw_only=True):
    value: str
    times: str
    currency: str
    margin: str
    underlying: str
    strike: str | None = None


_CONTRACT = spelled(
    _Contract, name="instId", kind="instType", value="ctVal", times="ctMult", currency="ctValCcy",
    margin="ctType", underlying="uly", status="state", stage="ruleType", listed="listTime",
    expiry="expTime", tick="tickSz", step="lotSz", strike="stk",
)  # fmt: skip


def _contract(reading: Reading, row: _Contract) -> Instrument:
    """Return a swap, future or option; the base of a linear one is its currency, else the underlying.

    A future of the rule type ``xperp`` pays funding: it is a perpetual that is delisted on its last day.
    """
    requested = reading.params.get("instType", row.kind)
    if row.kind != requested:
        reading.fail(f"{row.name}: expected an instrument of the type {requested}, got {row.kind}")
    base, _, quote = row.underlying.partition("-")
    inverse = row.kind != "OPTION" and reading.word(row.margin, {"inverse": True, "linear": False})
    if inverse != (row.currency == "USD"):
        reading.fail(f"{row.name}: {row.margin} with contracts in {row.currency}")
    item = reading.contract(
        row,
        symbol=base if inverse else row.currency,
        quote=quote.partition("_")[0],
        size=reading.required(row.value) * reading.required(row.times),
        inverse=inverse,
        perpetual=row.kind == "SWAP" or row.stage == "xperp",
        active=row.status == "live" and row.stage != "pre_market",
        strike=reading.number(row.strike),
    )
    return item.without_expiry()


instruments = contracts(_CONTRACT, "data", _contract)


class _Detail(Wire):
    posSide: str
    side: str
    bkPx: str
    sz: str
    ts: Stamp


class _Liquidated(Wire):
    instId: str
    details: list[_Detail]


def liquidations(reading: Reading) -> Records:
    """Read liquidations; in net mode only ``side`` shows the order: sell closes a long."""
    records = Records()
    for frame in reading.frames(Data[list[_Liquidated]]):
        for group in frame.data:
            item = reading.instrument(group.instId, _named)
            for row in group.details:
                with reading.row():
                    order = reading.word(row.side, {"sell": "long", "buy": "short"})
                    position = reading.word(
                        row.posSide, {"long": "long", "short": "short", "net": "", "": ""}
                    )
                    if position not in ("", order):
                        reading.fail(
                            f"a {row.posSide} position is closed by an order to {row.side}, which is the "
                            "wrong side"
                        )
                    time = reading.ms(row.ts)
                    price = reading.required(row.bkPx)
                    amount = reading.required(row.sz)
                    native = (row.bkPx, row.sz)
                    records.add_past(
                        Liquidation.of(item, time, order, amount, order_price=price, native=native)
                    )
    return records


def _is_in_coin(name: str) -> bool:
    """Return whether an option of a name such as BTC-USD-240329-32000-C is priced and settled in its coin."""
    return name.split("-")[1] == "USD"


# Greeks without BS are premium-adjusted, in coin. Open interest is in contracts.
_OPTION = spelled(
    Greeks[str, str], name="instId", time="ts", iv="markVol", delta="deltaBS", gamma="gammaBS", vega="vegaBS",
    theta="thetaBS", underlying="fwdPx", required=("iv",),
)  # fmt: skip
_OPTION_OI = spelled(Greeks[str, str], name="instId", time="ts", open_interest="oi")
_OPTION_TICKER = spelled(
    Greeks[str, str], name="instId", time="ts", bid="bidPx", ask="askPx", volume="vol24h"
)
_OPTION_MARK = spelled(Greeks[str, str], name="instId", time="ts", mark="markPx")


def _swaps(shape: type[Figures[str, str]]) -> Reader:
    return _only("SWAP", states(shape, "data", _named))


def _futures(shape: type[Figures[str, str]]) -> Reader:
    return _only("FUTURES", states(shape, "data", _named))


def _quoted(shape: type[Greeks[str, str]]) -> Reader:
    return _only("OPTION", options(shape, "data", is_in_coin=_is_in_coin))


def taker_volumes(reading: Reading) -> Records:
    """Read taker sells and buys of each completed step in USD (by default, OKX counts contracts)."""
    unit = reading.params.get("unit", "1")
    if unit != "2":
        reading.fail(f"expected volumes in USD, unit=2 of the request, got unit={unit}")
    item = reading.instrument(reading.requested("instId"), _named)
    resolution = reading.resolution("period")
    records = Records()
    for stamp, sold, bought in reading.value(list[tuple[Stamp, str, str]], "data"):
        with reading.row():
            start = reading.ms(stamp)
            sides = (reading.required(bought), reading.required(sold))
            records.times.append(start)
            if reading.has_ended(start, resolution):
                records.taker_volumes.append(TakerVolume(item, start, *sides, resolution))
    return records


def _ratio(kind: str) -> Reader:
    """Return a reader of a long/short ratio of one contract, a row per hour."""

    def read(reading: Reading) -> Records:
        item = reading.instrument(reading.requested("instId"), _named)
        resolution = reading.resolution("period")
        records = Records()
        for stamp, ratio in reading.value(list[tuple[Stamp, str]], "data"):
            with reading.row():
                start = reading.ms(stamp)
                row = LongShortRow(stamp, item.name, ratio=ratio)
                records.times.append(start)
                records.positioning += reading.positioning(item, start, row, kind, resolution, ends=True)
        return records

    return read


_OPTION_TRADE = spelled(
    TradeRow[str, str, str], name="instId", time="ts", id="tradeId", side="side", price="px", amount="sz",
    iv="fillVol", index_price="idxPx", underlying="fwdPx",
)  # fmt: skip


def _option_coins(reading: Reading, name: str) -> float:
    """Return the coins of an option contract: as listed, from the context, or the usual size of its coin."""
    size: float | None = None
    listed = reading.context.instruments.get(name)
    if listed is not None:
        size = listed.size
    size = size or reading.context.contract_size or option_coins("okx", name.split("-")[0])
    if not size:
        reading.fail(
            f"the contract size of the option {name} is unknown: pass context={{'instruments': ...}}"
        )
    return size


class _DeliveredContract(Wire):
    type: str
    insId: str
    px: str


class _DeliveredGroup(Wire):
    ts: Stamp
    details: list[_DeliveredContract]


def delivery_prices(reading: Reading) -> Records:
    """Read the prices at which futures of a family were delivered, the newest first."""
    records = Records()
    for group in reading.rows(_DeliveredGroup, "data"):
        time = reading.ms(group.ts)
        records.times.append(time)
        for row in group.details:
            if row.type == "delivery":
                symbol, quote, _ = row.insId.split("-", 2)
                delivery = Delivery(symbol, time, reading.required(row.px), f"future:{quote}")
                records.deliveries.append(delivery)
    return records


_EXERCISED = {"exercised": True, "expired_otm": False}
_MIN_OF_STRIKE = 0.01  # of an index price; a payoff in coin is a smaller share of the strike


def exercise_prices(reading: Reading) -> Records:
    """Read the prices at which options of a family were exercised or expired, the newest first.

    The documentation's example has a ``px`` of 0.016, which is not an index price of BTC. A price on the
    wrong side of a strike raises, so that a payoff in coin is not read as the price of the index.
    """
    records = Records()
    for group in reading.rows(_DeliveredGroup, "data"):
        records.times.append(reading.ms(group.ts))
        for row in group.details:
            if row.type not in _EXERCISED:
                continue
            with reading.row():
                option = reading.option(row.insId, None)
                price = reading.required(row.px)
                gain = price - option.strike
                if option.side == "put":
                    gain = -gain
                if not _EXERCISED[row.type]:  # it expired without a gain
                    gain = -gain
                if gain < 0 or price < _MIN_OF_STRIKE * option.strike:
                    reading.fail(f"{row.insId} is {row.type} at {price:g}: px is not the price of its index")
                quote = row.insId.split("-")[1]
                delivery = Delivery(option.symbol, option.expiry, price, f"option:{quote}")
                records.deliveries.append(delivery)
    return records


_endpoint = partial(VenueEndpoint, "okx")
_HOURS = Paging(descending=True, start="begin", end="end", limit=100, exclusive=True, reach_days=59)
_statistics = partial(_endpoint, symbol="instId", weight=4, paging=_HOURS)
_STATISTICS = "/api/v5/rubik/stat"
_SWAP = {"instType": "SWAP"}
_DATED = "instType=FUTURES"
_FAMILIES = ("BTC-USD", "ETH-USD")
_chain = partial(_endpoint, "chain", symbol="instFamily", every=300, symbol_values=_FAMILIES)
_WALK = Paging(descending=True, start="", end="after", limit=400, reach_days=90)
_CANDLES = "/api/v5/market/history"
_hourly = partial(
    _endpoint, params={"bar": "1H"}, symbol="instId",
    paging=Paging(descending=True, start="", end="after", limit=100, exclusive=True),
)  # fmt: skip
_INDEX = _hourly(
    "prices", f"{_CANDLES}-index-candles", candles("data", _of_pair, "index", by="instId", step="bar"),
    names="{base}-{quote}", confirmed=False,
)  # fmt: skip

ENDPOINTS = (
    _endpoint("instruments", "/api/v5/public/instruments?instType=SWAP", instruments, lists=True),
    _endpoint(
        "funding", "/api/v5/public/funding-rate", funding_rates, tables=RATE_TABLES, params={"instId": "ANY"},
        weight=2.5, every=60,
    ),
    _endpoint("oi", "/api/v5/public/open-interest?instType=SWAP", _swaps(_OI), every=60),
    _endpoint("mark", "/api/v5/public/mark-price", _swaps(_MARK), params=_SWAP, weight=2.5, every=60),
    _endpoint("tickers", "/api/v5/market/tickers", _swaps(_TICKER), params=_SWAP, every=60),
    _endpoint("instruments", f"/api/v5/public/instruments?{_DATED}", instruments, lists=True),
    *(
        _endpoint(
            "mark", "/api/v5/market/index-tickers", indices, params={"quoteCcy": quote}, quote=quote,
            every=60,
        )
        for quote in ("USD", "USDT")
    ),
    *(
        _endpoint(
            what, f"/api/v5/{path}?{_DATED}", _futures(shape), tables=(DATED,), weight=weight, every=60,
        )
        for what, path, shape, weight in (
            ("mark", "public/mark-price", _MARK, 2.5),
            ("oi", "public/open-interest", _OI, 1.0),
            ("tickers", "market/tickers", _TICKER, 1.0),
        )
    ),
    _endpoint(
        "margin_tiers", "/api/v5/public/position-tiers?instType=SWAP", okx_tiers(_named),
        params={"tdMode": "isolated"}, symbol="instFamily",
    ),
    _endpoint(
        "borrow_rates", "/api/v5/public/interest-rate-loan-quota", okx_loans, confirmed=False,
        note="public in OKX's documentation; one client says that it needs a key since 2026",
    ),
    _endpoint(
        "settlements", "/api/v5/public/funding-rate-history", payments(_PAID, "data", _named),
        symbol="instId", paging=_WALK, weight=2.5,
    ),
    _endpoint(
        "oi_history", "/api/v5/rubik/stat/contracts/open-interest-history", open_interest_history,
        params={"period": "5m"}, symbol="instId", weight=2.5,
        paging=Paging(descending=True, start="begin", end="end", limit=100, reach_days=5),
    ),
    *(
        _statistics("positioning", f"{_STATISTICS}/contracts/{name}", _ratio(kind), params={"period": "1H"})
        for name, kind in (
            ("long-short-account-ratio-contract", "accounts"),
            ("long-short-account-ratio-contract-top-trader", "top_accounts"),
            ("long-short-position-ratio-contract-top-trader", "top_positions"),
        )
    ),
    _statistics(
        "taker", f"{_STATISTICS}/taker-volume-contract", taker_volumes, params={"period": "1H", "unit": "2"}
    ),
    _endpoint(
        "book", "/api/v5/market/books", books(_BOOK, "data", _named, by="instId"), params={"sz": "400"},
        symbol="instId",
    ),
    _chain("/api/v5/public/opt-summary", _quoted(_OPTION)),
    _chain("/api/v5/public/open-interest?instType=OPTION", _quoted(_OPTION_OI), tables=()),
    _chain("/api/v5/market/tickers?instType=OPTION", _quoted(_OPTION_TICKER), tables=()),
    _chain(
        "/api/v5/public/mark-price?instType=OPTION", _quoted(_OPTION_MARK), tables=(), weight=2.5,
        confirmed=False, note="the specification names it for swaps",
    ),
    _endpoint("instruments", "/api/v5/public/instruments?instType=OPTION", instruments, symbol="instFamily"),
    _endpoint(
        "liquidations", "/api/v5/public/liquidation-orders", liquidations,
        params={**_SWAP, "state": "filled"}, symbol="instFamily", confirmed=False,
        paging=Paging(descending=True, start="", end="after", limit=100, exclusive=True),
        note="removed from the documentation in 2023, available in 2026-09; used to refill gaps",
    ),
    _endpoint(
        "option_trades", "/api/v5/public/option-trades",
        option_trades(_OPTION_TRADE, "data", is_in_coin=_is_in_coin, coins=_option_coins),
        symbol="instFamily", every=60, symbol_values=_FAMILIES, note="the newest 100",
    ),
    _endpoint(
        "deliveries", "/api/v5/public/delivery-exercise-history?instType=FUTURES", delivery_prices,
        symbol="instFamily", names="{symbol}-USD",
        paging=Paging(descending=True, start="", end="after", limit=100, reach_days=90),
        note="three months",
    ),
    _endpoint(
        "deliveries", "/api/v5/public/delivery-exercise-history?instType=OPTION", exercise_prices,
        symbol="instFamily", names="{symbol}-USD", confirmed=False,
        paging=Paging(descending=True, start="", end="after", limit=100, reach_days=90),
        note="three months; no recorded body says whether px is the index or a payoff",
    ),
    _hourly(
        "prices", f"{_CANDLES}-mark-price-candles", candles("data", _named, "mark", by="instId", step="bar"),
        tables=("prices_history", DATED), marks=_INDEX, confirmed=False,
    ),
    _INDEX,
    _hourly(
        "spot", f"{_CANDLES}-candles", candles("data", _of_pair, "spot", by="instId", step="bar"),
        names="{base}-{quote}", margin="linear",
    ),
    _endpoint("funding", _RATE_CHANNEL, funding_rates, tables=RATE_TABLES, method="WS"),
    _endpoint("book", "books", book_frames, method="WS"),
    _endpoint(
        "oi", "open-interest", _only("SWAP FUTURES", states(_OI, "data", _named, pushed=True)), method="WS",
    ),
    _endpoint("liquidations", "liquidation-orders", liquidations, method="WS"),
)  # fmt: skip

_SOCKET = "wss://ws.okx.com:8443/ws/v5/public"
_SUBSCRIBE = (
    '{"op":"subscribe","args":[{"channel":"liquidation-orders","instType":"SWAP"},'
    '{"channel":"liquidation-orders","instType":"FUTURES"}]}'
)

VENUE = Venue(
    "okx",
    "https://openapi.okx.com",  # recommended in place of www.okx.com since 2026-05-20
    ENDPOINTS,
    refusal(CodedBody, _REASONS.get),
    budget=2.5,
    socket=_SOCKET,
    ping=("ping", 25.0),
    stream=Stream("liquidation-orders", lambda *_: [Socket(_SOCKET, [_SUBSCRIBE])], b'"data"'),
    terms="API agreement of 2026-03-26 covers all endpoints; its clause on data was not seen.",
    channel_at="arg.channel",
)
