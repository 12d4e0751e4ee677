"""OKX v5: perpetual swaps and options.

Sizes of books, liquidations and open interest are contracts; ``ctVal`` × ``ctMult`` of the instrument list is
the coins (linear) or USD (inverse) of one. The rate that was paid is ``realizedRate``.
"""

from __future__ import annotations

from functools import partial

from derivdata.sources.venues.endpoint import RATE_TABLES, Paging, Socket, Stream, Venue, VenueEndpoint
from derivdata.sources.venues.okx_options import (
    Mark,
    OpenInterest,
    option_marks,
    option_oi,
    option_summary,
    option_tickers,
)
from derivdata.sources.venues.reading import CodedBody, Reading, refusal
from derivdata.sources.venues.record_types import Instrument, Liquidation, OiPoint, Records, State
from derivdata.sources.venues.wire import Data, Wire

_HOUR_US = 3_600_000_000
_REASONS = {"50011": "limit", "50013": "busy", "50001": "busy", "50026": "busy"}


def _named(name: str) -> Instrument:
    """Return the contract of an id such as BTC-USDT-SWAP or BTC-USD-SWAP (inverse)."""
    parts = name.split("-")
    if len(parts) == 3 and parts[2] == "SWAP":
        return Instrument(name, parts[0], parts[1], inverse=parts[1] == "USD")
    return Instrument(name, parts[0], parts[1] if len(parts) > 1 else "", perpetual=False)


class _Funding(Wire):
    instId: str
    instType: str
    fundingRate: str
    fundingTime: str
    nextFundingTime: str
    ts: str


def funding_rates(reading: Reading) -> Records:
    """Read running rates, also of the stream; the interval is the time between the next two payments."""
    records = Records()
    for row in (row for frame in reading.frames(Data[list[_Funding]]) for row in frame.data):
        with reading.row():
            item = reading.instrument(row.instId, _named)
            if row.instType != "SWAP" or row.fundingRate == "":
                continue
            hours: float | None = None
            if row.nextFundingTime and row.fundingTime:
                hours = (reading.ms(row.nextFundingTime) - reading.ms(row.fundingTime)) / _HOUR_US
                if not 0 < hours <= 24:
                    reading.fail(f"{row.instId}: {hours:g} hours between two payments")
            rate = reading.required(row.fundingRate)
            records.states.append(State(item, reading.ms(row.ts), rate, hours, hours))
    return records


class _Paid(Wire):
    instId: str
    realizedRate: str
    fundingTime: str


def funding_history(reading: Reading) -> Records:
    """Read payments, the newest first; ``fundingRate`` beside them is the forecast of the time."""
    rows = reading.decode(Data[list[_Paid]]).data
    return reading.payments(((row.instId, row.fundingTime, row.realizedRate) for row in rows), _named)


def open_interest(reading: Reading) -> Records:
    """Read open interest, of a request or of the stream: contracts, coins and USD."""
    records = Records()
    for frame in reading.frames(Data[list[OpenInterest]]):
        for row in frame.data:
            item = reading.instrument(row.instId, _named)
            coins, usd = reading.required(row.oiCcy), reading.number(row.oiUsd)
            records.states.append(State(item, reading.ms(row.ts), oi_usd=usd, oi_coins=coins))
    return records


def open_interest_history(reading: Reading) -> Records:
    """Read open interest of the past: rows of instant, contracts, coins and USD."""
    item = reading.instrument(reading.asked("instId"), _named)
    resolution = reading.resolution("period")
    records = Records()
    for stamp, _, coins, usd in reading.decode(Data[list[tuple[str, str, str, str]]]).data:
        time = reading.ms(stamp)
        records.add_past(OiPoint(item, time, reading.required(usd), resolution, reading.required(coins)))
    return records


def mark_prices(reading: Reading) -> Records:
    """Read mark prices."""
    return Records(
        states=[
            State(
                reading.instrument(row.instId, _named), reading.ms(row.ts), mark=reading.required(row.markPx)
            )
            for row in reading.decode(Data[list[Mark]]).data
        ]
    )


class _Ticker(Wire):
    instId: str
    ts: str
    last: str | None = None
    open24h: str | None = None
    volCcy24h: str | None = None


def tickers(reading: Reading) -> Records:
    """Read 24 hours: the volume is coins."""
    records = Records()
    for row in reading.decode(Data[list[_Ticker]]).data:
        last, first = reading.number(row.last), reading.number(row.open24h)
        coins = reading.number(row.volCcy24h)
        records.states.append(
            State(
                reading.instrument(row.instId, _named),
                reading.ms(row.ts),
                last=last,
                volume_usd=None if coins is None or last is None else coins * last,
                change_pct=(last / first - 1) * 100 if last and first else None,
            )
        )
    return records


class _Levels(Wire):
    bids: list[tuple[str, str, str, str]]
    asks: list[tuple[str, str, str, str]]
    ts: str


def order_book(reading: Reading) -> Records:
    """Read a book, whose sizes are contracts."""
    item = reading.instrument(reading.asked("instId"), _named)
    records = Records()
    for book in reading.decode(Data[list[_Levels]]).data:
        records.books.append(reading.book(item, reading.ms(book.ts), book.bids, book.asks))
    return records


class _Topic(Wire):
    instId: str


class _BookFrame(Data[list[_Levels]]):
    arg: _Topic
    action: str = "snapshot"


def book_frames(reading: Reading) -> Records:
    """Read books of the stream, whose sizes are contracts."""
    records = Records()
    for frame in reading.frames(_BookFrame):
        reading.require_snapshot(frame.action)
        item = reading.instrument(frame.arg.instId, _named)
        books = [reading.book(item, reading.ms(book.ts), book.bids, book.asks) for book in frame.data]
        records.books += books
    return records


class _Listed(Wire):
    instId: str
    instType: str
    ctVal: str
    ctMult: str
    ctValCcy: str
    ctType: str
    settleCcy: str
    uly: str
    state: str
    ruleType: str = "normal"


def instruments(reading: Reading) -> Records:
    """Read the list of swaps or options; the base is ``ctValCcy`` of a linear contract, else of ``uly``."""
    items = []
    for row in reading.decode(Data[list[_Listed]]).data:
        with reading.row():
            base, _, quote = row.uly.partition("-")
            inverse = (
                row.instType != "OPTION"
                and reading.word(row.ctType, {"inverse": "inverse", "linear": "linear"}) == "inverse"
            )
            if inverse != (row.ctValCcy == "USD"):
                reading.fail(f"{row.instId}: {row.ctType} with contracts in {row.ctValCcy}")
            size = reading.required(row.ctVal) * reading.required(row.ctMult)
            items.append(
                Instrument(
                    row.instId,
                    base if inverse else row.ctValCcy,
                    quote,
                    size,
                    inverse,
                    row.instType == "SWAP",
                    row.state == "live" and row.ruleType != "pre_market",
                )
            )
    return Records(instruments=items)


class _Detail(Wire):
    posSide: str
    side: str
    bkPx: str
    sz: str
    ts: str


class _Liquidated(Wire):
    instId: str
    details: list[_Detail]


def liquidations(reading: Reading) -> Records:
    """Read liquidations; in net mode only ``side`` tells, the order: sell closes a long."""
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
                        reading.fail(f"a {row.posSide} position closed by an order to {row.side}")
                    time, price = reading.ms(row.ts), reading.required(row.bkPx)
                    amount, native = reading.required(row.sz), (row.bkPx, row.sz)
                    records.add_past(
                        Liquidation.of(item, time, order, amount, order_price=price, native=native)
                    )
    return records


_endpoint = partial(VenueEndpoint, "okx")
_SWAP = {"instType": "SWAP"}
_FAMILIES = ("BTC-USD", "ETH-USD")
_WALK = Paging(descending=True, start="", end="after", limit=400, reach_days=90)

ENDPOINTS = (
    _endpoint("instruments", "/api/v5/public/instruments?instType=SWAP", instruments, lists=True),
    _endpoint(
        "funding", "/api/v5/public/funding-rate", funding_rates, tables=RATE_TABLES, params={"instId": "ANY"},
        weight=2.5, every=60,
    ),
    _endpoint("oi", "/api/v5/public/open-interest?instType=SWAP", open_interest, every=60),
    _endpoint("mark", "/api/v5/public/mark-price", mark_prices, params=_SWAP, weight=2.5, every=60),
    _endpoint("tickers", "/api/v5/market/tickers", tickers, params=_SWAP, every=60),
    _endpoint(
        "settlements", "/api/v5/public/funding-rate-history", funding_history, symbol="instId", paging=_WALK,
        weight=2.5,
    ),
    _endpoint(
        "oi_history", "/api/v5/rubik/stat/contracts/open-interest-history", open_interest_history,
        params={"period": "5m"}, symbol="instId", weight=2.5,
        paging=Paging(descending=True, start="begin", end="end", limit=100, reach_days=5),
    ),
    _endpoint("book", "/api/v5/market/books", order_book, params={"sz": "400"}, symbol="instId"),
    _endpoint(
        "chain", "/api/v5/public/opt-summary", option_summary, symbol="instFamily", every=300, each=_FAMILIES,
    ),
    _endpoint(
        "chain", "/api/v5/public/open-interest?instType=OPTION", option_oi, tables=(), symbol="instFamily",
        every=300, each=_FAMILIES,
    ),
    _endpoint(
        "chain", "/api/v5/market/tickers?instType=OPTION", option_tickers, tables=(), symbol="instFamily",
        every=300, each=_FAMILIES,
    ),
    _endpoint(
        "chain", "/api/v5/public/mark-price?instType=OPTION", option_marks, tables=(), symbol="instFamily",
        weight=2.5, every=300, each=_FAMILIES, confirmed=False, note="the specification names it for swaps",
    ),
    _endpoint("instruments", "/api/v5/public/instruments?instType=OPTION", instruments, symbol="instFamily"),
    _endpoint(
        "liquidations", "/api/v5/public/liquidation-orders", liquidations,
        params={**_SWAP, "state": "filled"}, symbol="instFamily", confirmed=False,
        paging=Paging(descending=True, start="", end="after", limit=100, exclusive=True),
        note="left the documentation in 2023, answered in 2026-09: to refill a gap",
    ),
    _endpoint("funding", "funding-rate", funding_rates, tables=RATE_TABLES, method="WS"),
    _endpoint("book", "books", book_frames, method="WS"),
    _endpoint("oi", "open-interest", open_interest, method="WS"),
    _endpoint("liquidations", "liquidation-orders", liquidations, method="WS"),
)  # fmt: skip

_SOCKET = "wss://ws.okx.com:8443/ws/v5/public"
_SUBSCRIBE = (
    '{"op":"subscribe","args":[{"channel":"liquidation-orders","instType":"SWAP"},'
    '{"channel":"liquidation-orders","instType":"FUTURES"}]}'
)

VENUE = Venue(
    "okx",
    "https://www.okx.com",
    ENDPOINTS,
    refusal(CodedBody, _REASONS.get),
    budget=2.5,
    socket=_SOCKET,
    ping=("ping", 25.0),
    stream=Stream("liquidation-orders", lambda *_: [Socket(_SOCKET, [_SUBSCRIBE])], b'"data"'),
    terms="API agreement of 2026-03-26 covers all endpoints; its clause on data was not seen.",
)
