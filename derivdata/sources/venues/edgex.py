"""EdgeX, its second generation (contracts such as BTCUSDC); the first, in USD, trades no more.

The running rate is ``forecastFundingRate``, which tickers call ``fundingRate``; beside it ``fundingRate`` is
that of the last payment. All numbers are text, and contracts are named by numbers, which only the list of
contracts tells the coins of.
"""

from __future__ import annotations

from functools import partial

from derivdata.sources.venues.endpoint import (
    PRICE_TABLES,
    RATE_TABLES,
    STATE_TABLES,
    Paging,
    Venue,
    VenueEndpoint,
)
from derivdata.sources.venues.faults import CodedBody, refusal
from derivdata.sources.venues.readers import Reader
from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Instrument, Interval, Payment, Records
from derivdata.sources.venues.shapes import Figures, Level, spelled
from derivdata.sources.venues.wire import Wire
from derivdata.support.decoders import DECODERS
from derivdata.tables import contract


class _Coded(CodedBody):
    success = "SUCCESS"


def _named(name: str) -> Instrument:
    """Return the contract of a name such as BTCUSDC; a number says nothing."""
    plain = contract(name)
    return Instrument(name, plain.symbol, plain.quote, 1.0)


class _Coin(Wire):
    coinId: str
    coinName: str


class _Contract(Wire):
    contractId: str
    baseCoinId: str
    quoteCoinId: str
    enableTrade: bool = True
    enableDisplay: bool = True
    fundingRateIntervalMin: str | None = None
    tickSize: str | None = None
    stepSize: str | None = None


class _Meta(Wire):
    contractList: list[_Contract]
    coinList: list[_Coin]


def metadata(reading: Reading) -> Records:
    """Read the list of contracts with their intervals."""
    data, records = reading.part(list[_Meta] | _Meta, "data"), Records()
    for meta in data if isinstance(data, list) else [data]:
        coins = {coin.coinId: coin.coinName for coin in meta.coinList}
        for row in meta.contractList:
            with reading.row():
                number, coin, minutes = (
                    row.contractId,
                    row.baseCoinId,
                    reading.number(row.fundingRateIntervalMin),
                )
                if coin not in coins:
                    reading.fail(f"contract {number} is of coin {coin}, which is not listed")
                tick, step = reading.number(row.tickSize), reading.number(row.stepSize)
                is_shown, quote = row.enableTrade and row.enableDisplay, coins.get(row.quoteCoinId, "")
                item = Instrument(number, coins[coin], quote, 1.0, active=is_shown, tick=tick, step=step)
                records.instruments.append(item)
                if minutes:
                    records.intervals.append(Interval(item, minutes / 60))
    return records


def _item(reading: Reading, number: str, name: str | None = None) -> Instrument:
    """Return a contract by its number, from the list, else by its name where the row has one."""
    if number in reading.context.instruments:
        return reading.context.instruments[number]
    if not name:
        reading.fail(f"contract {number} is not among the instruments of the context: give getMetaData")
    return reading.instrument(name, _named)


class _Titled(Figures[str, str]):
    title: str | None = None


_RATE = spelled(
    _Titled, name="contractId", time="fundingTimestamp", rate="forecastFundingRate", price="oraclePrice",
    hours="fundingRateIntervalMin", index_price="indexPrice", mark="markPrice",
)  # fmt: skip
_TICKER = spelled(
    _Titled, name="contractId", title="contractName", last="lastPrice", index_price="indexPrice",
    price="oraclePrice", mark="markPrice", contracts="openInterest", rate="fundingRate", volume_usd="value",
    change="priceChangePercent",
)  # fmt: skip


def _states(shape: type[_Titled], path: str, *, pushed: bool = False) -> Reader:
    """Read contracts; open interest is coins, at the mark, else at the oracle's price."""

    def read(reading: Reading) -> Records:
        states = []
        for row in (reading.pushed if pushed else reading.rows)(shape, path):
            item, minutes = _item(reading, row.name, row.title), reading.number(row.hours)
            state = reading.state(item, row, minutes / 60 if minutes else reading.interval(item))
            states.append(state._replace(mark=state.mark or None))
        return Records(states=[state for state in states if state.instrument.active])

    return read


class _Paid(Wire):
    contractId: str
    fundingTime: str
    fundingRate: str
    fundingRateIntervalMin: str | None = None
    isSettlement: bool = True


class _Page(Wire):
    dataList: list[_Paid]
    nextPageOffsetData: str = ""


def funding_page(reading: Reading) -> Records:
    """Read what was settled, the newest first; other rows are a minute's estimates."""
    body = reading.part(_Page, "data")
    records = Records(cursor=body.nextPageOffsetData or None)
    for row in body.dataList:
        time, minutes = reading.ms(row.fundingTime), reading.number(row.fundingRateIntervalMin)
        records.times.append(time)
        if row.isSettlement:
            hours = None if minutes is None else minutes / 60
            payment = Payment(_item(reading, row.contractId), time, reading.required(row.fundingRate), hours)
            records.payments.append(payment)
    return records


class _Book(Wire):
    contractId: str
    bids: list[Level[str]]
    asks: list[Level[str]]
    contractName: str | None = None


def book(reading: Reading) -> Records:
    """Read a book; sizes are coins."""
    records = Records()
    for row in reading.rows(_Book, "data"):
        item = _item(reading, row.contractId, row.contractName)
        records.books.append(reading.book(item, None, row.bids, row.asks))
    return records


_PAGES = Paging(
    "cursor", descending=True, start="filterBeginTimeInclusive", end="filterEndTimeExclusive",
    cursor="offsetData", limit=100, limit_name="size",
)  # fmt: skip


_endpoint = partial(VenueEndpoint, "edgex")
_named_one = partial(_endpoint, symbol="contractId")
_BASE = "/api/v2/public"
_ticker = _states(_TICKER, "data")

ENDPOINTS = (
    _endpoint("instruments", f"{_BASE}/meta/getMetaData", metadata, lists=True),
    _named_one(
        "funding", f"{_BASE}/funding/getLatestFundingRate", _states(_RATE, "data"),
        tables=(*RATE_TABLES, *PRICE_TABLES), batch=200, every=60,
    ),
    _named_one("oi", f"{_BASE}/quote/getTicker", _ticker, every=300),
    _named_one("tickers", f"{_BASE}/quote/getTicker", _ticker, tables=STATE_TABLES),
    _named_one(
        "settlements", f"{_BASE}/funding/getFundingRatePage", funding_page,
        params={"filterSettlementFundingRate": "true"}, paging=_PAGES,
        note="paid at the stamp, as the venue flags it; a sentence of its page can mean an interval later",
    ),
    _named_one("book", f"{_BASE}/quote/getDepth", book, params={"level": "200"}),
    _endpoint("funding", "ticker.all.1s", _states(_TICKER, "content.data", pushed=True), method="WS"),
)  # fmt: skip


class _Ping(Wire):
    type: str = ""
    time: str = ""


def answer(frame: bytes) -> str | None:
    """Return the pong to a ping, with its time."""
    ping = DECODERS[_Ping].decode(frame)
    return f'{{"type":"pong","time":"{ping.time}"}}' if ping.type == "ping" else None


VENUE = Venue(
    "edgex",
    "https://edgex-prod-v2.edgex.exchange",
    ENDPOINTS,
    refusal(_Coded, {"RATE_LIMIT": "limit", "TOO_MANY_REQUESTS": "limit"}.get),
    budget=2.0,  # no limit is published; clients meet 429
)
