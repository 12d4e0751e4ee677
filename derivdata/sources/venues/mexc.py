"""MEXC: sizes are contracts of ``contractSize`` coins, of inverse contracts USD; marks are ``fairPrice``."""

from __future__ import annotations

from functools import partial

from derivdata.sources.venues.endpoint import STATE_TABLES, Paging, Venue, VenueEndpoint
from derivdata.sources.venues.reading import Fault, Reading, refusal
from derivdata.sources.venues.record_types import Instrument, Records, State
from derivdata.sources.venues.wire import Data, Wire

_REASONS = {510: "limit", 500: "busy", 501: "busy", 509: "busy"}


class _Fault(Wire):
    success: bool | None = None
    code: int | None = None
    message: str = ""

    @property
    def fault(self) -> Fault:
        """An error comes with HTTP 200."""
        failed = self.success is False or self.code not in (None, 0)
        return (self.code, self.message) if failed else None


def _named(name: str) -> Instrument:
    """Return the contract of BTC_USDT, or BTC_USD, which is inverse."""
    base, _, quote = name.partition("_")
    return Instrument(name, base, quote, None, quote == "USD", quote in ("USDT", "USD", "USDC"))


class _Pushed(Wire):
    symbol: str
    lastPrice: float | None = None
    fairPrice: float | None = None
    riseFallRate: float | None = None


class _Ticker(Wire):
    symbol: str
    timestamp: int
    lastPrice: float | None = None
    fairPrice: float | None = None
    indexPrice: float | None = None
    holdVol: float | None = None
    amount24: float | None = None
    riseFallRate: float | None = None
    fundingRate: float | None = None


def tickers(reading: Reading) -> Records:
    """Read rates, open interest, prices and volume of all contracts; intervals come from elsewhere."""
    data = reading.decode(Data[list[_Ticker] | _Ticker]).data
    states = []
    for row in data if isinstance(data, list) else [data]:
        item = reading.instrument(row.symbol, _named)
        if row.lastPrice == row.holdVol == 0:
            continue  # not trading
        hours = reading.interval(item)
        states.append(
            State(
                item,
                reading.ms(row.timestamp),
                row.fundingRate,
                hours,
                hours,
                mark=row.fairPrice,
                index_price=row.indexPrice,
                last=row.lastPrice,
                oi_usd=item.usd(row.holdVol, row.fairPrice),
                oi_coins=item.coins(row.holdVol, row.fairPrice),
                volume_usd=row.amount24,
                change_pct=reading.percent(row.riseFallRate),
            )
        )
    return Records(states=states)


class _TickerFrame(Data[list[_Pushed]]):
    ts: int


def ticker_frames(reading: Reading) -> Records:
    """Read marks, last prices and changes of all contracts, which the stream sends each second."""
    return Records(
        states=[
            State(
                reading.instrument(row.symbol, _named), reading.ms(frame.ts), mark=row.fairPrice,
                last=row.lastPrice, change_pct=reading.percent(row.riseFallRate),
            )
            for frame in reading.frames(_TickerFrame)
            for row in frame.data
        ]
    )  # fmt: skip


class _Rate(Wire):
    symbol: str
    fundingRate: float
    collectCycle: float
    timestamp: int


def funding_rates(reading: Reading) -> Records:
    """Read running rates with their intervals, of all contracts or one."""
    data = reading.decode(Data[list[_Rate] | _Rate]).data
    return Records(
        states=[
            State(
                reading.instrument(row.symbol, _named), reading.ms(row.timestamp), row.fundingRate,
                row.collectCycle, row.collectCycle,
            )
            for row in (data if isinstance(data, list) else [data])
        ]
    )  # fmt: skip


class _Paid(Wire):
    symbol: str
    fundingRate: float
    settleTime: int


class _PaidPage(Wire):
    resultList: list[_Paid]
    currentPage: int
    totalPage: int


def funding_history(reading: Reading) -> Records:
    """Read payments, the newest first, by page numbers."""
    rows = reading.decode(Data[_PaidPage]).data.resultList
    return reading.payments(((row.symbol, row.settleTime, row.fundingRate) for row in rows), _named)


class _Listed(Wire):
    symbol: str
    baseCoin: str
    quoteCoin: str
    settleCoin: str
    contractSize: float
    state: int
    conceptPlate: tuple[str, ...] = ()


def details(reading: Reading) -> Records:
    """Read the list of contracts."""
    items = [
        Instrument(
            row.symbol,
            row.baseCoin,
            row.quoteCoin,
            row.contractSize,
            row.settleCoin == row.baseCoin,
            active=row.state == 0 and not any("premarket" in plate.lower() for plate in row.conceptPlate),
        )
        for row in reading.decode(Data[list[_Listed]]).data
    ]
    return Records(instruments=items)


_endpoint = partial(VenueEndpoint, "mexc")
_BASE = "/api/v1/contract"

ENDPOINTS = (
    _endpoint("instruments", "GET", f"{_BASE}/detail", (), details, lists=True),
    _endpoint(
        "funding", "GET", f"{_BASE}/ticker",
        STATE_TABLES, tickers, every=60,
    ),
    _endpoint("funding", "GET", f"{_BASE}/funding_rate", ("funding_history",), funding_rates, every=60),
    _endpoint(
        "funding", "GET", f"{_BASE}/funding_rate/{{symbol}}", ("funding_history",), funding_rates,
        symbol="symbol",
    ),
    _endpoint(
        "settlements", "GET", f"{_BASE}/funding_rate/history", ("funding_settlements",), funding_history,
        symbol="symbol",
        paging=Paging(
            "page", descending=True, start="", end="", cursor="page_num", limit=1000, limit_name="page_size"
        ),
    ),
    _endpoint("tickers", "WS", "push.tickers", ("markets_symbol_exchanges", "prices_history"), ticker_frames),
)  # fmt: skip

VENUE = Venue("mexc", "https://api.mexc.com", ENDPOINTS, refusal(_Fault, _REASONS.get), budget=2.5)
