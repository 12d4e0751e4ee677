"""Derive v3: rates are hourly fractions; rows have names of one letter, and no name of their contract.

Its data usage policy of 2026-05-09 allows trading of one's own and unpublished internal research only, so the
venue is off unless the user names it.
"""

from __future__ import annotations

from functools import partial

import msgspec

from derivdata.sources.venues.endpoint import Paging, Venue, VenueEndpoint
from derivdata.sources.venues.reading import Reading, RefusedBody, refusal
from derivdata.sources.venues.record_types import Instrument, Quotes, Records, State
from derivdata.sources.venues.wire import Result, Wire

_REASONS = {-32000: "limit", -32100: "limit", 429: "limit", -32603: "busy"}


def _named(name: str) -> Instrument:
    base, _, rest = name.partition("-")
    return Instrument(name, base, "USDC", 1.0, perpetual=rest == "PERP")


class _Stats(Wire):
    c: str | None = None
    oi: str | None = None
    v: str | None = None
    p: str | None = None


class _Pricing(Wire):
    i: str | None = None
    d: str | None = None
    g: str | None = None
    v: str | None = None
    t: str | None = None
    f: str | None = None


class _Slim(Wire):
    t: int
    a: str
    b: str
    I: str  # noqa: E741
    M: str
    f: str | None
    option_pricing: _Pricing | None
    stats: _Stats


def _add(reading: Reading, records: Records, name: str, row: _Slim) -> None:
    """Add the row of a perpetual or an option, whose name comes with the request or as a key."""
    time = reading.ms(row.t)
    item = reading.instrument(name, _named)
    if (row.option_pricing is None) != item.perpetual:
        reading.fail(f"the row is not one of {name}")
    if row.option_pricing is None:
        mark, coins = reading.number(row.M), reading.number(row.stats.oi)
        records.states.append(
            State(
                item,
                time,
                reading.required(row.f),
                1.0,
                1.0,
                mark=mark,
                index_price=reading.number(row.I),
                oi_usd=item.usd(coins, mark),
                oi_coins=coins,
                volume_usd=reading.number(row.stats.v),
                change_pct=reading.percent(row.stats.p),
            )
        )
        return
    pricing, number = row.option_pricing, reading.number
    option = reading.option(
        name,
        time,
        iv=number(pricing.i) or None,
        delta=number(pricing.d),
        gamma=number(pricing.g),
        vega=number(pricing.v),
        theta=number(pricing.t),
        open_interest=number(row.stats.oi),
        underlying=number(pricing.f),
        quotes=_quotes(reading, row),
    )
    records.options.append(option)


def _quotes(reading: Reading, row: _Slim) -> Quotes:
    """Return the prices in USD; a bid or ask of 0 is none."""
    bid, ask = reading.number(row.b) or None, reading.number(row.a) or None
    mark, index, volume = (reading.number(v) for v in (row.M, row.I, row.stats.c))
    return Quotes(False, bid, ask, mark, index, volume)


def ticker(reading: Reading) -> Records:
    """Read one contract; the request names it."""
    records = Records()
    _add(reading, records, reading.asked("instrument_name"), reading.decode(Result[_Slim]).result)
    return records


class _SlimFrame(Wire):
    instrument_ticker: _Slim


def ticker_frames(reading: Reading) -> Records:
    """Read frames of one contract's channel."""
    records = Records()
    for frame in reading.frames(_SlimFrame):
        _add(reading, records, reading.asked("instrument_name"), frame.instrument_ticker)
    return records


class _Tickers(Wire):
    tickers: dict[str, _Slim]


def tickers(reading: Reading) -> Records:
    """Read all perpetuals, or the options of one expiry: a map of names to rows."""
    result = _rows(reading)
    records = Records()
    for name, row in result.items():
        _add(reading, records, name, row)
    return records


class _Peek(Wire):
    tickers: dict[str, msgspec.Raw] | None = None


def _rows(reading: Reading) -> dict[str, _Slim]:
    named = reading.decode(Result[_Peek]).result.tickers is not None
    return (
        reading.decode(Result[_Tickers]).result.tickers
        if named
        else reading.decode(Result[dict[str, _Slim]]).result
    )


class _Paid(Wire):
    timestamp: int
    funding_rate: str


class _PaidList(Wire):
    funding_rate_history: list[_Paid]


class _PaidNow(Wire):
    timestamp: int
    funding_rate: str
    currency: str


class _PaidNowList(Wire):
    funding_rate_history: list[_PaidNow]


def funding_history(reading: Reading) -> Records:
    """Read hourly payments; each row names its currency."""
    rows = reading.decode(Result[_PaidNowList]).result.funding_rate_history
    paid = ((f"{row.currency}-PERP", row.timestamp, row.funding_rate) for row in rows)
    return reading.payments(paid, _named, period_h=1.0)


class _Envelope(Wire):
    result: msgspec.Raw | None = None


def funding_history_v2(reading: Reading) -> Records:
    """Read hourly payments of the former interface, with or without its envelope."""
    wrapped = reading.decode(_Envelope).result is not None
    rows = (
        reading.decode(Result[_PaidList]).result if wrapped else reading.decode(_PaidList)
    ).funding_rate_history
    name = reading.asked("instrument_name")
    return reading.payments(((name, row.timestamp, row.funding_rate) for row in rows), _named, period_h=1.0)


class _Details(Wire):
    strike: str
    expiry: int


class _Listed(Wire):
    instrument_name: str
    instrument_type: str
    base_currency: str
    quote_currency: str
    is_active: bool
    option_details: _Details | None = None


class _ListedList(Wire):
    instruments: list[_Listed]


def instruments(reading: Reading) -> Records:
    """Read the list of instruments of a type; the former interface has it without a name."""
    result = reading.decode(Result[_ListedList | list[_Listed]]).result
    items = [
        Instrument(
            row.instrument_name,
            row.base_currency,
            row.quote_currency,
            1.0,
            perpetual=row.instrument_type == "perp",
            active=row.is_active,
            strike=None if row.option_details is None else reading.required(row.option_details.strike),
            expiry=None if row.option_details is None else reading.seconds(row.option_details.expiry),
        )
        for row in (result if isinstance(result, list) else result.instruments)
    ]
    return Records(instruments=items)


_endpoint = partial(VenueEndpoint, "derive")
_HISTORY = Paging(start="start_timestamp", end="end_timestamp", limit=720, limit_name="", span_hours=720)
_OFF = "forbids publication and products made of its data"

ENDPOINTS = (
    _endpoint(
        "instruments", "/v3/public/get_all_instruments", instruments, method="POST",
        params={"expired": "false", "instrument_type": "perp", "page": "1", "page_size": "1000"}, lists=True,
    ),
    _endpoint(
        "instruments", "/public/get_instruments", instruments, method="POST",
        params={"expired": "false", "instrument_type": "option"}, symbol="currency", confirmed=False,
        note="the former interface; of one currency and type",
    ),
    _endpoint(
        "funding", "/v3/public/get_tickers?instrument_type=perp", tickers, method="POST", every=60, note=_OFF,
        confirmed=False,
    ),
    _endpoint(
        "chain", "/v3/public/get_tickers?instrument_type=option", tickers, method="POST", symbol="currency",
        note=_OFF, confirmed=False,
    ),
    _endpoint("funding", "/v3/public/get_ticker", ticker, method="POST", symbol="instrument_name"),
    _endpoint(
        "settlements", "/v3/public/get_funding_rate_history", funding_history, method="POST",
        symbol="instrument_name", paging=_HISTORY,
    ),
    _endpoint(
        "settlements", "/public/get_funding_rate_history", funding_history_v2, method="POST",
        symbol="instrument_name", paging=_HISTORY, confirmed=False, note="the former interface",
    ),
    _endpoint("funding", "ticker_slim.{instrument_name}.{interval}", ticker_frames, method="WS"),
    _endpoint("chain", "ticker_slim.{instrument_name}.{interval}", ticker_frames, method="WS"),
)  # fmt: skip

VENUE = Venue(
    "derive",
    "https://api.derive.xyz",
    ENDPOINTS,
    refusal(RefusedBody, _REASONS.get),
    budget=1.25,
    terms=(
        "Data usage policy of 2026-05-09: own trading and unpublished internal research only; no "
        "redistribution, "
        "products, dashboards, indexes, surfaces or training of models."
    ),
    named_only=True,
    hourly=True,
)
