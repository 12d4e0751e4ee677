"""Funding rates: current rates, history, and settled payments.

Rates are in basis points of notional per 8 hours; longs pay shorts when positive. Snapshot and history are
``sampled``: the running rate, to be integrated over time. Settlements are ``settled``: payments, to be
summed. The API publishes them for information only, not for P&L or production trading.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa

from derivdata import tables
from derivdata.client import transport
from derivdata.client.reading import Envelope, Point, Settlement, response_time, series
from derivdata.client.retrieval import (
    By,
    get_windows,
    pieces,
    symbol_names,
    symbols_to_request,
    tabulate,
    venue_names,
)
from derivdata.client.transport import DecodedResponse
from derivdata.errors import NotFound, SchemaError
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.support.arrays import Array
from derivdata.support.text import nearest_symbols, warn_caller
from derivdata.tables import endpoints
from derivdata.tables.payments import payment_time
from derivdata.tables.schema import coded, floats, ranks, repeated
from derivdata.units import convert

__all__ = ["history", "metadata", "settlements", "snapshot"]
__dir__ = __all__.copy


class _Snapshot(Envelope):
    funding_rates: dict[str, dict[str, float | None]]
    timestamp: str
    funding_rates_raw: dict[str, dict[str, str | float | None]] = msgspec.field(default_factory=dict)
    funding_intervals: dict[str, dict[str, float | str | None]] = msgspec.field(default_factory=dict)
    oi_rankings: dict[str, float | str | None] = msgspec.field(default_factory=dict)
    symbols: Any = None
    exchanges: Any = None


class _Venue(msgspec.Struct):
    name: str
    display: str
    interval: float | str | None = None


class _Venues(msgspec.Struct):
    exchange_names: list[_Venue]


class _Metadata(Envelope):
    exchanges: _Venues
    timestamp: str


class _History(Envelope):
    symbol: str
    unit: str
    series: dict[str, msgspec.Raw]


class _Settlements(Envelope):
    symbol: str
    series: dict[str, msgspec.Raw]


@typed
def snapshot(
    symbols: str | Sequence[str] | None = None, *, venues: str | Sequence[str] | None = None
) -> pd.DataFrame:
    """Return current funding rates.

    Parameters
    ----------
    symbols, venues
        Base symbols and venues, one or several; None for all. The service always returns all of them, and
        the library selects.

    Returns
    -------
    DataFrame, table ``funding_snapshot``
        One row per symbol and venue with a rate. ``rate_bps_8h`` [bps/8h] is normalised by the service.
        ``rate_native`` [fraction per interval] is the venue's own rate; it may be missing, as may
        ``interval_hours`` [h] and ``oi_rank`` (beyond the ranked list). ``time`` is the time of the response,
        not of each rate.

    Raises
    ------
    FetchError, SchemaError
        The request failed, or the response is not this table.
    NotFound
        A symbol does not have a rate on any venue, or on `venues`.

    Notes
    -----
    ``GET /funding``, every tier; Free sees BTC and ETH. Refreshed every 60 seconds. A `DataNotice` names
    requested venues without a rate.
    """
    response = transport.get(endpoints.FUNDING, {}, into=_Snapshot)
    frame = tabulate(tables.TABLES["funding_snapshot"], [response], _snapshot_columns)
    if symbols is None and venues is None:
        return frame
    if venues is not None:
        frame = _of_venues(frame, venue_names(venues))
    if symbols is not None:
        frame = _of_symbols(frame, symbol_names(symbols))
    return tables.TABLES["funding_snapshot"].conform(frame)


@typed
def metadata() -> pd.DataFrame:
    """Return the venues that the funding endpoints cover.

    Returns
    -------
    DataFrame, table ``funding_metadata``
        One row per venue. ``interval_hours`` [h] is the venue's usual interval; single symbols may differ.

    Notes
    -----
    ``GET /funding/metadata``, Dev and above. Errors: see `snapshot`.
    """
    response = transport.get(endpoints.FUNDING_METADATA, {}, into=_Metadata)
    return tabulate(tables.TABLES["funding_metadata"], [response], _metadata_columns)


@typed
def history(
    symbols: str | Sequence[str],
    start: times.TimeLike,
    end: times.TimeLike | None = None,
    *,
    venues: str | Sequence[str] | None = None,
    resolution: times.Resolution | None = "1h",
    by: By = "symbol",
) -> pd.DataFrame:
    """Return the sampled funding rate of each venue over a window.

    Parameters
    ----------
    symbols
        Assets without quote, ``"BTC"`` or ``["BTC", "ETH"]``; one request each, more for long windows. Names
        of perpetuals such as ``"BTCUSDT"`` or ``"BTC-PERP"`` are read as their asset.
    start, end
        Half-open window ``[start, end)``. A naive time is UTC; ``"30d"`` looks back from `end`; without
        `end` the window ends at `derivdata.asof`.
    venues
        Venues; None is all. ``"Binance"`` and ``"htx"`` are read as the API's ``binance`` and ``huobi``.
    resolution
        Sampling step, ``"1m"`` to ``"1d"`` or ``"raw"``. With None the server chooses it by the length of
        the window, which affects the statistics of the result.
    by
        ``"coin"`` returns all contracts of the symbols' coins that the source lists: for ``"PEPE"`` also
        ``1000PEPE`` and ``kPEPE``, for ``"POL"`` also ``MATIC``. Each row keeps its symbol, and
        ``dd.panel(table, by="coin")`` joins them. With ``"symbol"`` a `DataNotice` names such contracts.

    Returns
    -------
    DataFrame, table ``funding_history``
        One row per symbol, venue and step. ``rate_bps_8h`` [bps/8h] is sampled, not settled: integrate
        it over time, do not sum it. Null rates are dropped. A window without data gives zero rows and a
        `DataNotice`.

    Raises
    ------
    ValueError, TypeError
        `start` is not before `end`; a name, time or resolution is not valid.
    NotFound
        A symbol does not have rows and is not in the source's own list.
    TierError
        The key may not read history, or not that far back.
    FetchError, SchemaError
        A request failed, or a response is not this table. A partial table is never returned; the responses
        so far are in the cache, so that the same call continues from there.

    Notes
    -----
    ``GET /funding/historical``, Dev and above (Dev sees 30 days), two requests a second.

    Examples
    --------
    >>> dd.funding.history(["BTC", "ETH"], "7d", venues=["okx"]).shape
    (336, 6)
    """
    window = times.window(start, end)
    slugs = venue_names(venues)
    listed = symbols_to_request(endpoints.FUNDING_HISTORICAL, symbol_names(symbols), by)
    spans = pieces(endpoints.FUNDING_HISTORICAL, window, resolution, slugs)
    queries = [{"symbol": symbol, "exchanges": slugs, "resolution": resolution} for symbol in listed]
    responses = get_windows(endpoints.FUNDING_HISTORICAL, queries, spans, _History)
    return tabulate(tables.TABLES["funding_history"], responses, _history_columns, listed=listed)


@typed
def settlements(
    symbols: str | Sequence[str],
    start: times.TimeLike,
    end: times.TimeLike | None = None,
    *,
    venues: str | Sequence[str] | None = None,
    by: By = "symbol",
) -> pd.DataFrame:
    """Return the funding payments of each venue over a window.

    Parameters
    ----------
    symbols, start, end, venues, by
        As in `history`.

    Returns
    -------
    DataFrame, table ``funding_settlements``
        One row per symbol, venue and settlement, for the ``interval_hours`` [h] that end at ``time``.
        ``rate_bps_8h`` [bps/8h] is normalised: the payment is ``rate_bps_8h × interval_hours / 8`` bps.
        ``rate_native`` is the payment as a fraction of notional; a payment with an unknown interval has only
        ``rate_native``. After a halt, a row may be the sum of several payments (``payment_count``). Times
        within 60 s of an hour are rounded to it.

    Notes
    -----
    ``GET /funding/settlement``, Dev and above. A position earns settlements in ``(entry, exit]``. Errors: see
    `history`.
    """
    window = times.window(start, end)
    slugs = venue_names(venues)
    listed = symbols_to_request(endpoints.FUNDING_SETTLEMENT, symbol_names(symbols), by)
    spans = pieces(endpoints.FUNDING_SETTLEMENT, window, "1h", slugs)
    queries = [{"symbol": symbol, "exchanges": slugs} for symbol in listed]
    responses = get_windows(endpoints.FUNDING_SETTLEMENT, queries, spans, _Settlements)
    return tabulate(tables.TABLES["funding_settlements"], responses, _settlement_columns, listed=listed)


def _of_venues(frame: pd.DataFrame, venues: Sequence[str]) -> pd.DataFrame:
    """Return the rows of venues. A notice names those without a rate."""
    listed = set(frame["exchange"])
    absent = [venue for venue in venues if venue not in listed]
    if absent:
        warn_caller(
            f"{endpoints.FUNDING.path}: no rates of {', '.join(map(str, absent))}; the response has "
            f"{len(listed)} venues, which dd.funding.metadata() lists"
        )
    return frame[frame["exchange"].isin(venues)]


def _of_symbols(frame: pd.DataFrame, symbols: Sequence[str]) -> pd.DataFrame:
    """Return the rows of symbols; raise if a symbol does not have any."""
    listed = set(frame["symbol"])
    for symbol in symbols:
        if symbol not in listed:
            near = ", ".join(nearest_symbols(symbol, sorted(listed)))
            advice = f"; did you mean {near}?" if near else ""
            raise NotFound(endpoints.FUNDING.path, f"these venues do not have a rate of {symbol!r}{advice}")
    return frame[frame["symbol"].isin(symbols)]


def _snapshot_columns(response: DecodedResponse[_Snapshot]) -> dict[str, Any]:
    """Return the columns of all pairs of symbol and venue with a rate."""
    body = response.body
    venues = sorted(body.funding_rates)
    symbols = sorted(set().union(*body.funding_rates.values()))

    # Each field becomes a matrix of symbols by venues at once: a loop over pairs is several times slower.
    def matrix(by_venue: Mapping[str, Mapping[str, Any]], read: Callable[[list[Any]], Any]) -> Any:
        values = chain.from_iterable(map(by_venue.get(venue, {}).get, symbols) for venue in venues)
        return read(list(values)).reshape(len(venues), len(symbols)).T

    rates = matrix(body.funding_rates, floats)
    pairs = np.nonzero(~np.isnan(rates))
    symbol, venue = pairs
    return {
        "symbol": coded(symbols, symbol),
        "exchange": coded(venues, venue),
        "timestamp": repeated(response_time(response), symbol.size),
        "rate_bps_8h": rates[pairs],
        "rate_native": matrix(body.funding_rates_raw, partial(_decimals, "funding_rates_raw"))[pairs],
        "interval_hours": matrix(body.funding_intervals, partial(_decimals, "funding_intervals"))[pairs],
        "oi_rank": ranks([body.oi_rankings.get(s) for s in symbols]).take(symbol),
        "kind": repeated("sampled", symbol.size),
    }


def _metadata_columns(response: DecodedResponse[_Metadata]) -> dict[str, Any]:
    venues = response.body.exchanges.exchange_names
    columns = tables.TABLES["funding_metadata"].rows(venues, timestamp=response_time(response))
    return columns | {"interval": _decimals("interval", [venue.interval for venue in venues])}


def _history_columns(response: DecodedResponse[_History]) -> dict[str, Any]:
    columns = series(response, Point, {"y": "y"})
    columns["resolution"] = repeated(response.body.resolution, len(columns["y"]))
    columns["kind"] = repeated("sampled", len(columns["y"]))
    return columns


def _settlement_columns(response: DecodedResponse[_Settlements]) -> dict[str, Any]:
    fields = {
        "y": "y",
        "interval_hours": "intervalMinutes",
        "rate_native": "rateNative",
        "payment_count": "paymentCount",
    }
    columns = series(response, Settlement, fields, instead="rate_native")
    columns["interval_hours"] /= 60
    paid = convert(columns["y"], "bps_8h", "native", hours=columns["interval_hours"])
    columns["rate_native"] = np.where(np.isnan(columns["rate_native"]), paid, columns["rate_native"])
    columns["payment_count"] = np.nan_to_num(columns["payment_count"], nan=1.0)
    stamps = payment_time(columns["timestamp"].asi8)
    columns["timestamp"] = pd.DatetimeIndex(stamps.view("datetime64[us]"), tz="UTC")
    columns["kind"] = repeated("settled", len(columns["y"]))
    return columns


def _decimals(field: str, values: list[str | float | None]) -> Array:
    """Convert numbers, most of them sent as text, to floats; None becomes NaN."""
    with suppress(pa.ArrowInvalid, TypeError):  # values that Arrow rejects are converted one by one below
        return np.array(pa.array(values, pa.string()).cast(pa.float64()))
    try:
        for value in values:
            if isinstance(value, str) and "_" in value:  # Python accepts it as a separator of digits
                raise ValueError(f"expected a number, got {value!r}")
        return floats(values)  # type: ignore[arg-type]
    except ValueError as problem:
        raise SchemaError(f"/funding.{field}: {problem}; see the response with dd.raw('/funding')") from None
