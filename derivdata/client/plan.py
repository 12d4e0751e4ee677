"""Plan a large fetch: contents and instruments of the source, number of requests, and time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from derivdata.client import transport
from derivdata.client.quantities import row_type
from derivdata.client.reading import Envelope
from derivdata.client.retrieval import pieces, symbol_names, tabulate, venue_names
from derivdata.client.transport.settings import spacing_seconds
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.tables import TABLES, endpoints

_HISTORIES = {
    "funding.history": endpoints.FUNDING_HISTORICAL,
    "funding.settlements": endpoints.FUNDING_SETTLEMENT,
    "oi.history": endpoints.OI_TIMESERIES,
    "volume.history": endpoints.VOLUME_TIMESERIES,
    "prices.history": endpoints.PRICES_HISTORY,
}
_SETTLED: times.Resolution = "1h"
_CatalogRow = row_type("catalog")
_InstrumentRow = row_type("instruments")


class _Catalog(Envelope):
    timestamp: str
    tables: list[_CatalogRow]  # type: ignore[valid-type]


class _Instruments(Envelope):
    timestamp: str
    instruments: list[_InstrumentRow]  # type: ignore[valid-type]


@typed
def plan(
    symbols: str | Sequence[str],
    start: times.Instant,
    end: times.Instant | None = None,
    *,
    venues: str | Sequence[str] | None = None,
    resolution: times.Resolution | None = "1h",
    latency_seconds: float = 0.3,
) -> pd.DataFrame:
    """Estimate how many requests a fetch of histories makes, and how long they take, without sending any.

    Parameters
    ----------
    symbols, start, end, venues, resolution
        As for ``dd.funding.history``.
    latency_seconds
        Assumed time of one response [s]. Requests are counted as sequential.

    Returns
    -------
    DataFrame, one row per fetcher
        ``fetcher``; ``tier``, the lowest with access; ``requests``; ``per_second``, the rate limit of the
        service (NaN: none); ``seconds`` [s] within the rate limit and with an empty cache. Cached responses
        take no time, and an archive, the sample and a replay have no rate limit. ``attrs["summary"]`` is a
        summary in one line.

    Raises
    ------
    ValueError, TypeError
        `start` is not before `end`; a name or the resolution is not valid; `latency_seconds` is negative.
    """
    if not latency_seconds >= 0:
        raise ValueError(f"latency_seconds must be 0 or more, got {latency_seconds!r}")
    listed = symbol_names(symbols)
    window = times.window(start, end)
    rows: list[dict[str, Any]] = []
    for fetcher, endpoint in _HISTORIES.items():
        step = _SETTLED if endpoint is endpoints.FUNDING_SETTLEMENT else resolution
        count = len(listed) * len(pieces(endpoint, window, step, venue_names(venues)))
        pause = max(spacing_seconds(endpoint), latency_seconds)
        rows.append(
            {
                "fetcher": fetcher,
                "tier": endpoint.tier,
                "requests": count,
                "per_second": float("nan") if endpoint.per_second is None else endpoint.per_second,
                "seconds": (count - 1) * pause + latency_seconds,
            }
        )
    requests = pd.DataFrame(rows)
    estimates = "; ".join(
        f"{row['fetcher']} {row['requests']:,} requests, {_duration(row['seconds'])}" for row in rows
    )
    span = f"{window.start:%Y-%m-%d %H:%M} to {window.end:%Y-%m-%d %H:%M} UTC"
    requests.attrs["summary"] = f"{span}: {estimates}"
    return requests


@typed
def catalog() -> pd.DataFrame:
    """Return the contents of an archive, of the sample, or of the stored responses of venues.

    Returns
    -------
    DataFrame, table ``catalog``
        One row per table and venue (``unstated`` for tables without venues): ``first`` and ``last`` time up
        to the source's clock; ``step_hours`` [h] between the last rows of one of its series, missing for
        events, single times and tables without venues; ``row_count``, missing for rows that are generated on
        request.

    Raises
    ------
    NotFound
        The source is the hosted service, which has no catalog.
    FetchError, SchemaError
        The request failed, or the response is not this table.

    Notes
    -----
    ``GET /local/catalog``, which is not part of the API document.
    """
    answer = transport.get(endpoints.CATALOG, {}, into=_Catalog)
    return tabulate(TABLES["catalog"], [answer], lambda a: TABLES["catalog"].rows(a.body.tables))


@typed
def instruments(
    symbols: str | Sequence[str] | None = None, *, venues: str | Sequence[str] | None = None
) -> pd.DataFrame:
    """Return the current and former contracts of venues, each as it was last listed.

    Parameters
    ----------
    symbols, venues
        Symbols and venues to return; None returns all.

    Returns
    -------
    DataFrame, table ``instruments``
        One row per contract: base ``symbol`` and ``quote``, ``contract_size`` and ``multiplier``, its kind,
        ``listed``, ``delisted`` and ``expiry``, ``tick`` and ``step`` of price and size; NaN or NaT if the
        venue's list does not state them. ``is_active`` is False for a delisted contract, whose ``time`` is
        when it was first missing from the list.

    Raises
    ------
    NotFound
        The source is the hosted service, or has no lists.
    FetchError, SchemaError
        The request failed, or the response is not this table.

    Notes
    -----
    ``GET /local/instruments``, which is not part of the API document. Pass the symbols of this table to
    `derivdata.analysis.funding.universe`: a list of the contracts of today has survivorship bias.

    >>> contracts = dd.instruments("BTC", venues=["okx", "bybit"])
    >>> int(contracts["is_perpetual"].sum())
    2
    """
    listed = None if symbols is None else symbol_names(symbols)
    query = {"symbols": listed, "exchanges": venue_names(venues)}
    answer = transport.get(endpoints.INSTRUMENTS, query, into=_Instruments)
    return tabulate(TABLES["instruments"], [answer], lambda a: TABLES["instruments"].rows(a.body.instruments))


def _duration(seconds: float) -> str:
    """Return a duration as text in s, min or h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
