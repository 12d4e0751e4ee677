"""Crypto.com's exchange: rates are hourly and fixed for blocks of four hours, one contract a request.

``get-tickers`` has no mark: open interest, in coins, is valued at the last price of the same row.
"""

from __future__ import annotations

from functools import partial

from derivdata.sources.venues.endpoint import BOOK_TABLES, Paging, Venue, VenueEndpoint
from derivdata.sources.venues.reading import NumberedBody, Reading, refusal
from derivdata.sources.venues.record_types import Instrument, Payment, Records, State
from derivdata.sources.venues.wire import Data, Result, Wire
from derivdata.tables import contract

_REASONS = {42901: "limit", 40101: "refused", 50001: "busy"}
_PERPETUAL = "-PERP"


def _named(name: str) -> Instrument:
    """Return the contract of BTCUSD-PERP; other names are of spot pairs, indexes or dated futures."""
    plain = contract(name.removesuffix(_PERPETUAL))
    return Instrument(name, plain.symbol, plain.quote, 1.0, perpetual=name.endswith(_PERPETUAL))


class _Listed(Wire):
    symbol: str
    inst_type: str
    base_ccy: str
    quote_ccy: str
    tradable: bool
    contract_size: str | float | None = None
    expiry_timestamp_ms: int | None = None
    product_type: str = ""


def instruments(reading: Reading) -> Records:
    """Read the list of contracts; spot pairs are left out."""
    items = [
        Instrument(
            row.symbol,
            row.base_ccy,
            row.quote_ccy,
            reading.number(row.contract_size) or 1.0,
            perpetual=row.inst_type == "PERPETUAL_SWAP",
            active=row.tradable and row.product_type != "PRE_IPO",
            expiry=reading.ms(row.expiry_timestamp_ms) if row.expiry_timestamp_ms else None,
        )
        for row in reading.decode(Result[Data[list[_Listed]]]).result.data
        if row.inst_type in ("PERPETUAL_SWAP", "FUTURE")
    ]
    return Records(instruments=items)


class _Ticker(Wire):
    i: str
    t: int
    a: str | None = None
    vv: str | None = None
    c: str | None = None
    oi: str | None = None


def tickers(reading: Reading) -> Records:
    """Read last prices, volume and open interest of all contracts."""
    states = []
    for row in reading.decode(Result[Data[list[_Ticker]]]).result.data:
        item = reading.instrument(row.i, _named)
        if not item.perpetual or not item.active:
            continue
        last, amount = reading.number(row.a), reading.number(row.oi)
        states.append(
            State(
                item,
                reading.ms(row.t),
                last=last,
                price=last,
                oi_usd=item.usd(amount, last),
                oi_coins=item.coins(amount, last),
                volume_usd=reading.number(row.vv),
                change_pct=reading.percent(row.c),
            )
        )
    return Records(states=states)


class _Value(Wire):
    v: str
    t: int


class _Valuation(Data[list[_Value]]):
    instrument_name: str | None = None


def _values(reading: Reading) -> tuple[Instrument, list[_Value]]:
    result = reading.decode(Result[_Valuation]).result
    name = result.instrument_name or reading.asked("instrument_name")
    return reading.instrument(name, _named), sorted(result.data, key=lambda row: row.t)


def funding_rates(reading: Reading) -> Records:
    """Read the hourly rate of the running block of four hours; its stamp is that of the block."""
    item, rows = _values(reading)
    return Records(states=[State(item, None, reading.required(row.v), 1.0, 1.0) for row in rows[-1:]])


def mark_prices(reading: Reading) -> Records:
    """Read the mark price."""
    item, rows = _values(reading)
    return Records(states=[State(item, reading.ms(row.t), mark=reading.required(row.v)) for row in rows[-1:]])


def funding_history(reading: Reading) -> Records:
    """Read hourly payments."""
    item, rows = _values(reading)
    records = Records()
    for row in rows:
        records.add_past(Payment(item, reading.ms(row.t), reading.required(row.v), 1.0))
    return records


class _Sides(Wire):
    bids: list[tuple[str, str, str]]
    asks: list[tuple[str, str, str]]
    t: int


class _Book(Data[list[_Sides]]):
    instrument_name: str | None = None


def book(reading: Reading) -> Records:
    """Read a book; sizes are coins."""
    result = reading.decode(Result[_Book]).result
    item = reading.instrument(result.instrument_name or reading.asked("instrument_name"), _named)
    books = [reading.book(item, reading.ms(row.t), row.bids, row.asks) for row in result.data]
    return Records(books=books)


_endpoint = partial(VenueEndpoint, "cryptocom")
_VALUATIONS = "/public/get-valuations?valuation_type="
_ONE = {"count": "1"}

ENDPOINTS = (
    _endpoint("instruments", "GET", "/public/get-instruments", (), instruments, lists=True),
    _endpoint(
        "tickers", "GET", "/public/get-tickers", ("oi_history", "markets_symbol_exchanges", "prices_history"),
        tickers, every=60, note="open interest is in coins by its step; which sides it counts is not known",
    ),
    _endpoint(
        "funding", "GET", f"{_VALUATIONS}funding_rate", ("funding_history",), funding_rates, params=_ONE,
        symbol="instrument_name", batch=1, every=3600, note="each hour, one contract a request",
    ),
    _endpoint(
        "mark", "GET", f"{_VALUATIONS}mark_price", ("markets_symbol_exchanges", "prices_history"),
        mark_prices, params=_ONE, symbol="instrument_name",
    ),
    _endpoint(
        "settlements", "GET", f"{_VALUATIONS}funding_hist", ("funding_settlements",), funding_history,
        symbol="instrument_name", note="how far back it reaches is not known",
        paging=Paging(
            descending=True, start="start_ts", end="end_ts", limit=100, limit_name="count", span_hours=100
        ),
    ),
    _endpoint(
        "book", "GET", "/public/get-book", BOOK_TABLES, book, params={"depth": "150"},
        symbol="instrument_name",
    ),
)  # fmt: skip

VENUE = Venue(
    "cryptocom",
    "https://api.crypto.com/exchange/v1",
    ENDPOINTS,
    refusal(NumberedBody, _REASONS.get),
    budget=25.0,  # 100 a second of each method
    terms="Derivatives are closed to 93 places; no text on public data was found.",
    hourly=True,
)
