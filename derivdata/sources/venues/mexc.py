"""MEXC: sizes are contracts of ``contractSize`` coins, of inverse contracts USD; marks are ``fairPrice``."""

from __future__ import annotations

from functools import partial

from derivdata.sources.venues.endpoint import RATE_TABLES, Paging, Venue, VenueEndpoint
from derivdata.sources.venues.readers import contracts, payments, states
from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Instrument, Records
from derivdata.sources.venues.wire import (
    ContractRow,
    Figures,
    NumberedBody,
    PaymentRow,
    Stamp,
    refusal,
    spelled,
)

_REASONS = {510: "limit", 500: "busy", 501: "busy", 509: "busy"}


def _named(name: str) -> Instrument:
    """Parse a contract name: BTC_USDT (linear) or BTC_USD (inverse)."""
    base, _, quote = name.partition("_")
    perpetual = quote in ("USDT", "USD", "USDC", "USD1")
    return Instrument(name, base, quote, None, inverse=quote == "USD", perpetual=perpetual)


_TICKER = spelled(
    Figures[float, int], name="symbol", time="timestamp", last="lastPrice", mark="fairPrice",
    index_price="indexPrice", contracts="holdVol", volume_usd="amount24", change="riseFallRate",
    rate="fundingRate", required=("last", "contracts"),
)  # fmt: skip
_PUSHED = spelled(
    Figures[float, int], name="symbol", last="lastPrice", mark="fairPrice", index_price="indexPrice",
    change="riseFallRate", volume_usd="amount24",
)  # fmt: skip
_RATE = spelled(
    Figures[float, int], name="symbol", time="timestamp", rate="fundingRate", hours="collectCycle",
    mark="fairPrice", index_price="idxPrice", required=("hours",),
)  # fmt: skip
_PAID = spelled(
    PaymentRow[float, int], name="symbol", rate="fundingRate", time="settleTime", hours="collectCycle"
)


def tickers(reading: Reading) -> Records:
    """Read rates, open interest, prices and volume of contracts with a last price or open interest."""
    records = states(_TICKER, "data", _named)(reading)
    records.states = [row for row in records.states if row.last != 0 or row.oi_coins != 0]
    return records


def funding_rates(reading: Reading) -> Records:
    """Read rates and intervals. Rows of missing contracts, with a rate and prices of 0, are omitted."""
    records = states(_RATE, "data", _named)(reading)
    listed = reading.context.instruments
    records.states = [
        row for row in records.states if row.mark != 0 and (not listed or row.instrument.name in listed)
    ]
    return records


def ticker_frames(reading: Reading) -> Records:
    """Read marks, last prices, and figures of 24 hours of all contracts, which the stream sends each second.

    The turnover and the index: ccxt 4.5.90, pro/mexc.py, a frame of 2024-09-09.
    """
    records = Records()
    for channel in reading.pushed(str, "channel"):
        reading.word(channel, {"push.tickers": True})
    frames = zip(reading.pushed(Stamp, "ts"), reading.pushed_each(_PUSHED, "data"), strict=True)
    for time, row in [(reading.ms(stamp), row) for stamp, rows in frames for row in rows]:
        with reading.row():
            item = reading.instrument(row.name, _named)
            records.states.append(reading.state(item, row, time=time))
    return records


class _Plated(ContractRow[float, int, int]):
    plates: tuple[str, ...] = ()
    settle: str = ""


_CONTRACT = spelled(
    _Plated, name="symbol", symbol="baseCoin", quote="quoteCoin", status="state", size="contractSize",
    settle="settleCoin", plates="conceptPlate", listed="createTime", tick="priceUnit", step="volUnit",
)  # fmt: skip


def _contract(reading: Reading, row: _Plated) -> Instrument:
    is_early = any("premarket" in plate.lower() for plate in row.plates)
    return reading.contract(row, inverse=row.settle == row.symbol, active=row.status == 0 and not is_early)


_endpoint = partial(VenueEndpoint, "mexc")
_BASE = "/api/v1/contract"
_PAGES = Paging(
    "page", descending=True, start="", end="", cursor="page_num", limit=1000, limit_name="page_size"
)

ENDPOINTS = (
    _endpoint("instruments", f"{_BASE}/detail", contracts(_CONTRACT, "data", _contract), lists=True),
    _endpoint("funding", f"{_BASE}/ticker", tickers, every=60),
    _endpoint(
        "funding", f"{_BASE}/funding_rate", funding_rates, tables=RATE_TABLES, every=60,
    ),
    _endpoint(
        "settlements", f"{_BASE}/funding_rate/history", payments(_PAID, "data.resultList", _named),
        symbol="symbol", paging=_PAGES,
    ),
    _endpoint("tickers", "push.tickers", ticker_frames, method="WS"),
)  # fmt: skip

VENUE = Venue("mexc", "https://api.mexc.com", ENDPOINTS, refusal(NumberedBody, _REASONS.get), budget=2.5)
