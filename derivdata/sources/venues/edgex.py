"""EdgeX: its second generation (contracts such as BTCUSDC) is collected, the first (BTCUSD) can be read.

The two are separate books. A rate is fixed when its interval begins and paid when it ends. All numbers are
text, and contracts are named by numbers, which only the list of contracts tells the coins of.
"""

from __future__ import annotations

from functools import partial

from derivdata.sources.venues.endpoint import BOOK_TABLES, STATE_TABLES, Paging, Venue, VenueEndpoint
from derivdata.sources.venues.reading import CodedBody, Reading, refusal
from derivdata.sources.venues.record_types import Instrument, Interval, Payment, Records, State
from derivdata.sources.venues.wire import Data, Wire
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
    data, records = reading.decode(Data[list[_Meta] | _Meta]).data, Records()
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


class _Rate(Wire):
    contractId: str
    fundingTime: str
    fundingRate: str
    fundingTimestamp: str | None = None
    fundingRateIntervalMin: str | None = None
    indexPrice: str | None = None
    oraclePrice: str | None = None
    markPrice: str | None = None


def latest_rates(reading: Reading) -> Records:
    """Read the rates of the running intervals, with the oracle's prices; the mark comes with the tickers."""
    states = []
    for row in reading.decode(Data[list[_Rate]]).data:
        item, minutes = _item(reading, row.contractId), reading.number(row.fundingRateIntervalMin)
        hours = reading.interval(item) if minutes is None else minutes / 60
        states.append(
            State(
                item,
                None if row.fundingTimestamp is None else reading.ms(row.fundingTimestamp),
                reading.required(row.fundingRate),
                hours,
                hours,
                mark=reading.number(row.markPrice),
                index_price=reading.number(row.indexPrice),
                price=reading.number(row.oraclePrice),
            )
        )
    return Records(states=[state for state in states if state.instrument.active])


class _Ticker(Wire):
    contractId: str
    contractName: str | None = None
    lastPrice: str | None = None
    indexPrice: str | None = None
    oraclePrice: str | None = None
    markPrice: str | None = None
    openInterest: str | None = None
    fundingRate: str | None = None
    value: str | None = None
    priceChangePercent: str | None = None


def ticker(reading: Reading) -> Records:
    """Read one contract; open interest is coins, at the mark, else at the oracle's price."""
    states = []
    for row in reading.decode(Data[list[_Ticker]]).data:
        item = _item(reading, row.contractId, row.contractName)
        hours, coins = reading.interval(item), reading.number(row.openInterest)
        mark = reading.number(row.markPrice) or reading.number(row.oraclePrice)
        states.append(
            State(
                item,
                None,
                reading.number(row.fundingRate),
                hours,
                hours,
                mark=reading.number(row.markPrice) or None,
                index_price=reading.number(row.indexPrice),
                last=reading.number(row.lastPrice),
                oi_usd=item.usd(coins, mark),
                oi_coins=coins,
                volume_usd=reading.number(row.value),
                change_pct=reading.percent(row.priceChangePercent),
            )
        )
    return Records(states=states)


class _Paid(_Rate):
    isSettlement: bool = True


class _Page(Wire):
    dataList: list[_Paid]
    nextPageOffsetData: str = ""


def funding_page(reading: Reading) -> Records:
    """Read what was settled, the newest first; other rows are a minute's estimates."""
    body = reading.decode(Data[_Page]).data
    records = Records(cursor=body.nextPageOffsetData or None)
    for row in body.dataList:
        time, minutes = reading.ms(row.fundingTime), reading.number(row.fundingRateIntervalMin)
        records.times.append(time)
        if row.isSettlement:
            hours = None if minutes is None else minutes / 60
            payment = Payment(_item(reading, row.contractId), time, reading.required(row.fundingRate), hours)
            records.payments.append(payment)
    return records


class _Level(Wire):
    price: str
    size: str


class _Book(Wire):
    contractId: str
    bids: list[_Level]
    asks: list[_Level]
    contractName: str | None = None


def book(reading: Reading) -> Records:
    """Read a book; sizes are coins."""
    records = Records()
    for row in reading.decode(Data[list[_Book]]).data:
        bids, asks = ([(level.price, level.size) for level in side] for side in (row.bids, row.asks))
        item = _item(reading, row.contractId, row.contractName)
        records.books.append(reading.book(item, None, bids, asks))
    return records


def _of_generation(number: int, host: str) -> tuple[VenueEndpoint, ...]:
    """Return the requests of one generation; only the second is collected."""
    base, collected = f"/api/v{number}/public", number == 2
    of = partial(
        # Contracts of the first are quoted in USD: none of the second is ever asked for there
        VenueEndpoint, "edgex", host=host, confirmed=collected, quote="" if collected else "USD",
        note="" if collected else "the first generation, a book of its own",
    )  # fmt: skip
    named = partial(of, symbol="contractId")
    return (
        of("instruments", "GET", f"{base}/meta/getMetaData", (), metadata, lists=collected),
        named(
            "funding", "GET", f"{base}/funding/getLatestFundingRate",
            ("funding_history", "markets_symbol_exchanges", "prices_history"), latest_rates, batch=20,
            every=60 if collected else None,
        ),
        named(
            "oi", "GET", f"{base}/quote/getTicker", ("oi_history",), ticker, every=300 if collected else None
        ),
        named("tickers", "GET", f"{base}/quote/getTicker", STATE_TABLES, ticker),
        named(
            "settlements", "GET", f"{base}/funding/getFundingRatePage", ("funding_settlements",),
            funding_page, params={"filterSettlementFundingRate": "true"}, confirmed=False,
            note="whether a rate was paid at its stamp or at the end of its interval is not confirmed",
            paging=Paging(
                "cursor", descending=True, start="filterBeginTimeInclusive", end="filterEndTimeExclusive",
                cursor="offsetData", limit=100, limit_name="size",
            ),
        ),
        named("book", "GET", f"{base}/quote/getDepth", BOOK_TABLES, book, params={"level": "200"}),
    )  # fmt: skip


VENUE = Venue(
    "edgex",
    "https://edgex-prod-v2.edgex.exchange",
    (*_of_generation(2, ""), *_of_generation(1, "https://pro.edgex.exchange")),
    refusal(_Coded, {"RATE_LIMIT": "limit", "TOO_MANY_REQUESTS": "limit"}.get),
    budget=2.0,  # no limit is published; clients meet 429
)
