"""Derive v3: rates are hourly fractions. Rows have one-letter field names and do not name their contract.

Its data usage policy of 2026-05-09 allows trading of one's own and unpublished internal research only, so the
venue is off unless the user names it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from derivdata.sources.venues import wire
from derivdata.sources.venues.endpoint import Paging, Venue, VenueEndpoint
from derivdata.sources.venues.readers import contracts, payments
from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Instrument, Records
from derivdata.sources.venues.wire import (
    ContractRow,
    Figures,
    Greeks,
    PaymentRow,
    RefusedBody,
    Wire,
    keyed,
    refusal,
    spelled,
)

_REASONS = {-32000: "limit", -32100: "limit", 429: "limit", -32603: "busy"}


def _named(name: str) -> Instrument:
    base, _, rest = name.partition("-")
    return Instrument(name, base, "USDC", 1.0, perpetual=rest == "PERP")


class _Slim(Wire):
    """Fields that distinguish a perpetual, which has a rate, from an option."""

    f: str | None
    option_pricing: dict[str, str] | None


_PERPETUAL = spelled(
    Figures[str, int], time="t", mark="M", index_price="I", rate="f", contracts="stats.oi",
    volume_usd="stats.v", change="stats.p",
)  # fmt: skip
_OPTION = spelled(
    Greeks[str, int], time="t", iv="option_pricing.i", delta="option_pricing.d", gamma="option_pricing.g",
    vega="option_pricing.v", theta="option_pricing.t", underlying="option_pricing.f", bid="b", ask="a",
    mark="M", index_price="I", open_interest="stats.oi", volume="stats.c",
)  # fmt: skip


def _add(reading: Reading, records: Records, name: str, body: bytes) -> None:
    """Add the row of a perpetual or an option; its name is in the request or is the key."""
    item = reading.instrument(name, _named)
    slim = wire.decode(body, _Slim, reading.where)
    if (slim.option_pricing is None) != item.perpetual:
        reading.fail(f"expected a row of {name}, got another one")
    if item.perpetual:
        row = wire.decode(body, _PERPETUAL, reading.where)
        records.states.append(reading.state(item, row, 1.0)._replace(rate=reading.required(row.rate)))
    else:
        records.options.append(reading.quoted(wire.decode(body, _OPTION, reading.where), name=name))


def ticker(reading: Reading) -> Records:
    """Read one contract; the request names it."""
    records = Records()
    _add(reading, records, reading.requested("instrument_name"), reading.value(msgspec.Raw, "result"))
    return records


class _TickerData(Wire):
    instrument_ticker: msgspec.Raw = msgspec.Raw(b"")


class _Notice(Wire):
    channel: str
    data: _TickerData


class _Frame(_TickerData):
    params: _Notice | None = None


def ticker_frames(reading: Reading) -> Records:
    """Read frames of one contract's channel, with the notification around them or without."""
    records = Records()
    for frame in reading.frames(_Frame):
        if frame.params is None:
            _add(reading, records, reading.requested("instrument_name"), frame.instrument_ticker)
        else:
            name = frame.params.channel.removeprefix("ticker_slim.").rpartition(".")[0]
            _add(reading, records, name, frame.params.data.instrument_ticker)
    return records


def tickers(reading: Reading) -> Records:
    """Read all perpetuals, or the options of one expiry: a map of names to rows, with a name or without."""
    named = reading.value(Any, "result.tickers", None) is not None
    records = Records()
    rows = reading.value(keyed(msgspec.Raw), "result.tickers" if named else "result")
    # Currencies without options have an empty map of tickers.
    if not rows and not (named and reading.params.get("instrument_type") == "option"):
        reading.fail("result: expected tickers by name, got an empty object")
    for name, row in rows.items():
        with reading.row():
            _add(reading, records, name, row)
    return records


_PAID = spelled(PaymentRow[str, int], name="currency", time="timestamp", rate="funding_rate")
_OLD_PAID = spelled(PaymentRow[str, int], time="timestamp", rate="funding_rate")
_HISTORY_AT = "result.funding_rate_history"


def funding_history(reading: Reading) -> Records:
    """Read hourly payments; each row names its currency."""
    rows = reading.rows(_PAID, _HISTORY_AT)
    names = [f"{row.name}-PERP" for row in rows]
    times = [row.time for row in rows]
    rates = [row.rate for row in rows]
    return reading.payment_columns(names, times, rates, [None] * len(rows), _named, 1.0)


def funding_history_v2(reading: Reading) -> Records:
    """Read hourly payments of the former interface, with or without its envelope."""
    wrapped = reading.value(Any, "result", None) is not None
    path = _HISTORY_AT if wrapped else _HISTORY_AT.partition(".")[2]
    return payments(_OLD_PAID, path, _named, by="instrument_name", period_h=1.0)(reading)


_CONTRACT = spelled(
    ContractRow[str, int, bool], name="instrument_name", kind="instrument_type", symbol="base_currency",
    quote="quote_currency", status="is_active", listed="scheduled_activation", tick="tick_size",
    step="amount_step", size="option_details.strike", expiry="option_details.expiry",
)  # fmt: skip


def _contract(reading: Reading, row: ContractRow[str, int, bool]) -> Instrument:
    """Return an instrument of a list."""
    is_option = row.kind == "option"
    return reading.contract(
        row,
        unit="seconds",
        size=1.0,
        strike=reading.required(row.size) if is_option else None,
        perpetual=row.kind == "perp",
        active=row.status,
    )


def instruments(reading: Reading) -> Records:
    """Read the list of instruments of a type; the former interface has it without a name."""
    named = reading.value(msgspec.Raw, "result")
    path = "result" if bytes(named).lstrip()[:1] == b"[" else "result.instruments"
    return contracts(_CONTRACT, path, _contract)(reading)


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
    *(
        _endpoint(what, "/v3/public/get_ticker", ticker, method="POST", symbol="instrument_name")
        for what in ("funding", "chain")
    ),
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
    channel_at="params.channel",
)
