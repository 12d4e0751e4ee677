"""EdgeX, second generation (contracts such as BTCUSDC). The first generation, in USD, is closed.

The running rate is ``forecastFundingRate``, which tickers call ``fundingRate``; next to it ``fundingRate`` is
the rate of the last payment. All numbers are text, and contracts are named by numbers, whose coins are only
in the list of contracts.
"""

from __future__ import annotations

from functools import partial

from derivdata.errors import SchemaError
from derivdata.sources.venues.endpoint import (
    PRICE_TABLES,
    RATE_TABLES,
    STATE_TABLES,
    Paging,
    Venue,
    VenueEndpoint,
)
from derivdata.sources.venues.readers import books, states
from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Instrument, Interval, Records
from derivdata.sources.venues.wire import (
    Book,
    CodedBody,
    Figures,
    Level,
    PaymentRow,
    Wire,
    as_rows,
    refusal,
    spelled,
)
from derivdata.support.forking import DECODERS


class _Coded(CodedBody):
    success = "SUCCESS"


def _named(number: str) -> Instrument:
    raise SchemaError(f"contract {number} is not in context['instruments']: pass the list of getMetaData")


class _Coin(Wire):
    coinId: str
    coinName: str


class _Contract(Wire):
    contractId: str
    baseCoinId: str
    quoteCoinId: str
    enableTrade: bool | None = True
    enableDisplay: bool | None = True
    fundingRateIntervalMin: str | None = None
    tickSize: str | None = None
    stepSize: str | None = None


class _Meta(Wire):
    contractList: list[_Contract]
    coinList: list[_Coin]


def metadata(reading: Reading) -> Records:
    """Read the list of contracts with their intervals."""
    records = Records()
    for meta in as_rows(reading.value(list[_Meta] | _Meta, "data")):
        coins = {coin.coinId: coin.coinName for coin in meta.coinList}
        for row in meta.contractList:
            number = row.contractId
            coin = row.baseCoinId
            with reading.row():
                if coin not in coins:
                    reading.fail(f"contract {number} is of coin {coin}, which is not listed")
                tick = reading.number(row.tickSize)
                step = reading.number(row.stepSize)
                is_shown = row.enableTrade is not False and row.enableDisplay is not False
                quote = coins.get(row.quoteCoinId, "")
                item = Instrument(number, coins[coin], quote, 1.0, active=is_shown, tick=tick, step=step)
                records.instruments.append(item)
                if minutes := reading.number(row.fundingRateIntervalMin):
                    records.intervals.append(Interval(item, minutes / 60))
    return records


_RATE = spelled(
    Figures[str, str], name="contractId", time="fundingTimestamp", rate="forecastFundingRate",
    price="oraclePrice", hours="fundingRateIntervalMin", index_price="indexPrice", mark="markPrice",
)  # fmt: skip
# Open interest is in coins, valued at the mark, otherwise at the oracle's price.
_TICKER = spelled(
    Figures[str, str], name="contractId", last="lastPrice", index_price="indexPrice", price="oraclePrice",
    mark="markPrice", contracts="openInterest", rate="fundingRate", volume_usd="value",
    change="priceChangePercent", required=("last",),
)  # fmt: skip


class _Paid(PaymentRow[str, str]):
    is_paid: bool = True


_PAID = spelled(
    _Paid,
    name="contractId",
    time="fundingTime",
    rate="fundingRate",
    is_paid="isSettlement",
    hours="fundingRateIntervalMin",
)


def funding_page(reading: Reading) -> Records:
    """Read settled rates, the newest first; other rows are estimates by minute."""
    rows = [row for row in reading.rows(_PAID, "data.dataList") if row.is_paid is not False]
    stated = ((row.name, row.time, row.rate, row.hours) for row in rows)
    records = reading.payments(stated, _named, per_hour=60.0)
    records.cursor = reading.value(str, "data.nextPageOffsetData", "") or None
    return records


_BOOK = spelled(Book[Level[str], str], name="contractId", bids="bids", asks="asks")
_PAGES = Paging(
    "cursor", descending=True, start="filterBeginTimeInclusive", end="filterEndTimeExclusive",
    cursor="offsetData", limit=100, limit_name="size",
)  # fmt: skip


_endpoint = partial(VenueEndpoint, "edgex")
_named_one = partial(_endpoint, symbol="contractId")
_BASE = "/api/v2/public"
_ticker = states(_TICKER, "data", _named)

ENDPOINTS = (
    _endpoint("instruments", f"{_BASE}/meta/getMetaData", metadata, lists=True),
    _named_one(
        "funding", f"{_BASE}/funding/getLatestFundingRate", states(_RATE, "data", _named, per_hour=60),
        tables=(*RATE_TABLES, *PRICE_TABLES), batch=200, every=60,
    ),
    _named_one("oi", f"{_BASE}/quote/getTicker", _ticker, every=300),
    _named_one("tickers", f"{_BASE}/quote/getTicker", _ticker, tables=STATE_TABLES),
    _named_one(
        "settlements", f"{_BASE}/funding/getFundingRatePage", funding_page,
        params={"filterSettlementFundingRate": "true"}, paging=_PAGES,
        note="paid at the stamp, as the venue flags it; a sentence of its page can mean an interval later",
    ),
    _named_one("book", f"{_BASE}/quote/getDepth", books(_BOOK, "data", _named), params={"level": "200"}),
    _endpoint("funding", "ticker.all.1s", states(_TICKER, "content.data", _named, pushed=True), method="WS"),
)  # fmt: skip


class _Ping(Wire):
    type: str = ""
    time: str = ""


def answer(frame: bytes) -> str | None:
    """Return the pong to a ping, with its time."""
    ping = DECODERS[_Ping].decode(frame)
    if ping.type != "ping":
        return None
    return f'{{"type":"pong","time":"{ping.time}"}}'


VENUE = Venue(
    "edgex",
    "https://edgex-prod-v2.edgex.exchange",
    ENDPOINTS,
    refusal(_Coded, {"RATE_LIMIT": "limit", "TOO_MANY_REQUESTS": "limit"}.get),
    budget=2.0,  # unconfirmed: no limit is published, but 5 a second were accepted in 2026-04
    channel_at="channel",
)
