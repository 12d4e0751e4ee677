"""EdgeX, its second generation (contracts such as BTCUSDC): the first, in USD, is a book of its own.

A rate is fixed when its interval begins and paid when it ends. All numbers are
text, and contracts are named by numbers, which only the list of contracts tells the coins of.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Instrument, Interval, Payment, Records
from derivdata.sources.venues.shapes import Figures, Level, spelled
from derivdata.sources.venues.wire import Wire
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
    fundingRateIntervalMin: str | None = None


class _Meta(Wire):
    contractList: list[_Contract]
    coinList: list[_Coin]


def metadata(reading: Reading) -> Records:
    """Read the list of contracts with their intervals."""
    data, records = reading.part(list[_Meta] | _Meta, "data"), Records()
    for meta in data if isinstance(data, list) else [data]:
        coins = {coin.coinId: coin.coinName for coin in meta.coinList}
        for row in meta.contractList:
            if row.baseCoinId not in coins:
                reading.fail(f"contract {row.contractId} is of coin {row.baseCoinId}, which is not listed")
            quote = coins.get(row.quoteCoinId, "")
            item = Instrument(row.contractId, coins[row.baseCoinId], quote, 1.0, active=row.enableTrade)
            records.instruments.append(item)
            minutes = reading.number(row.fundingRateIntervalMin)
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


_RATE = spelled(
    Figures[str, str], name="contractId", time="fundingTimestamp", rate="fundingRate", price="oraclePrice",
    hours="fundingRateIntervalMin", index_price="indexPrice", mark="markPrice",
)  # fmt: skip


def latest_rates(reading: Reading) -> Records:
    """Read the rates of the running intervals, with the oracle's prices; the mark comes with the tickers."""
    return _states(reading, [(_item(reading, row.name), row) for row in reading.rows(_RATE, "data")])


class _Titled(Figures[str, str]):
    title: str | None = None


_TICKER = spelled(
    _Titled, name="contractId", title="contractName", last="lastPrice", index_price="indexPrice",
    price="oraclePrice", mark="markPrice", contracts="openInterest", rate="fundingRate", volume_usd="value",
    change="priceChangePercent",
)  # fmt: skip


def ticker(reading: Reading) -> Records:
    """Read one contract; open interest is coins, at the mark, else at the oracle's price."""
    rows = reading.rows(_TICKER, "data")
    return _states(reading, [(_item(reading, row.name, row.title), row) for row in rows])


def _states(reading: Reading, rows: Sequence[tuple[Instrument, Figures[str, str]]]) -> Records:
    states = []
    for item, row in rows:
        minutes = reading.number(row.hours)
        hours = reading.interval(item) if minutes is None else minutes / 60
        state = reading.state(item, row, hours)
        states.append(state._replace(mark=state.mark or None))
    return Records(states=[state for state in states if state.instrument.active])


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

ENDPOINTS = (
    _endpoint("instruments", f"{_BASE}/meta/getMetaData", metadata, lists=True),
    _named_one(
        "funding", f"{_BASE}/funding/getLatestFundingRate", latest_rates,
        tables=(*RATE_TABLES, *PRICE_TABLES), batch=20, every=60,
    ),
    _named_one("oi", f"{_BASE}/quote/getTicker", ticker, every=300),
    _named_one("tickers", f"{_BASE}/quote/getTicker", ticker, tables=STATE_TABLES),
    _named_one(
        "settlements", f"{_BASE}/funding/getFundingRatePage", funding_page,
        params={"filterSettlementFundingRate": "true"}, confirmed=False, paging=_PAGES,
        note="whether a rate was paid at its stamp or at the end of its interval is not confirmed",
    ),
    _named_one("book", f"{_BASE}/quote/getDepth", book, params={"level": "200"}),
)  # fmt: skip

VENUE = Venue(
    "edgex",
    "https://edgex-prod-v2.edgex.exchange",
    ENDPOINTS,
    refusal(_Coded, {"RATE_LIMIT": "limit", "TOO_MANY_REQUESTS": "limit"}.get),
    budget=2.0,  # no limit is published; clients meet 429
)
