"""MEXC: sizes are contracts of ``contractSize`` coins, of inverse contracts USD; marks are ``fairPrice``."""

from __future__ import annotations

from functools import partial

from derivdata.errors import VenueError
from derivdata.sources.venues.endpoint import STATE_TABLES, Endpoint, Paging, Venue
from derivdata.sources.venues.past_rows import payments
from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Instrument, Records, State
from derivdata.sources.venues.wire import Wire

_REASONS = {510: "limit", 500: "busy", 501: "busy", 509: "busy"}


class _Fault(Wire):
    success: bool | None = None
    code: int | None = None
    message: str = ""


def refuse(reading: Reading) -> None:
    """Raise a `VenueError` for ``"success": false``, which comes with HTTP 200."""
    if reading.body.lstrip()[:1] != b"{":
        return
    fault = reading.decode(_Fault)
    if fault.success is False or fault.code not in (None, 0):
        reason = _REASONS.get(fault.code or 0, "refused")
        raise VenueError(reading.where, fault.message or "refused", code=fault.code, reason=reason)


def _named(name: str) -> Instrument:
    """Return the contract of BTC_USDT, or BTC_USD, which is inverse."""
    base, _, quote = name.partition("_")
    return Instrument(name, base, quote, None, quote == "USD", quote in ("USDT", "USD", "USDC"))


class _Ticker(Wire):
    symbol: str
    timestamp: int
    lastPrice: float
    fairPrice: float
    indexPrice: float
    holdVol: float
    amount24: float
    riseFallRate: float
    fundingRate: float


class _Tickers(Wire):
    success: bool
    data: list[_Ticker] | _Ticker


def tickers(reading: Reading) -> Records:
    """Read rates, open interest, prices and volume of all contracts; intervals come from elsewhere."""
    data = reading.decode(_Tickers).data
    states = []
    for row in data if isinstance(data, list) else [data]:
        item = reading.instrument(row.symbol, _named)
        if row.lastPrice == 0 and row.holdVol == 0:
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
                change_pct=row.riseFallRate * 100,
            )
        )
    return Records(states=states)


class _Rate(Wire):
    symbol: str
    fundingRate: float
    collectCycle: float
    timestamp: int


class _Rates(Wire):
    success: bool
    data: list[_Rate] | _Rate


def funding_rates(reading: Reading) -> Records:
    """Read running rates with their intervals, of all contracts or one."""
    data = reading.decode(_Rates).data
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


class _PaidBody(Wire):
    success: bool
    data: _PaidPage


def funding_history(reading: Reading) -> Records:
    """Read payments, the newest first, by page numbers."""
    rows = reading.decode(_PaidBody).data.resultList
    return payments(reading, ((row.symbol, row.settleTime, row.fundingRate) for row in rows), _named)


class _Listed(Wire):
    symbol: str
    baseCoin: str
    quoteCoin: str
    settleCoin: str
    contractSize: float
    state: int


class _ListedBody(Wire):
    success: bool
    data: list[_Listed]


def details(reading: Reading) -> Records:
    """Read the list of contracts."""
    items = [
        Instrument(
            row.symbol,
            row.baseCoin,
            row.quoteCoin,
            row.contractSize,
            row.settleCoin == row.baseCoin,
            active=row.state == 0,
        )
        for row in reading.decode(_ListedBody).data
    ]
    return Records(instruments=items)


_endpoint = partial(Endpoint, "mexc")
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
)  # fmt: skip

VENUE = Venue("mexc", "https://api.mexc.com", ENDPOINTS, refuse, budget=2.5)
