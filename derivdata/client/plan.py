"""Before a large fetch: what the source holds, and how many requests and how much time it takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from derivdata.client import transport
from derivdata.client.quantities import row_type
from derivdata.client.reading import Envelope
from derivdata.client.retrieval import pieces, symbol_names, tabulate, venue_names
from derivdata.client.transport.adapter import spacing_seconds
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
_Held, _Instrument = map(row_type, ("catalog", "instruments"))


class _Catalog(Envelope):
    timestamp: str
    tables: list[_Held]  # type: ignore[valid-type]


class _Instruments(Envelope):
    timestamp: str
    instruments: list[_Instrument]  # type: ignore[valid-type]


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
    """Estimate how many requests a fetch of histories makes, and how long they take; send nothing.

    Parameters
    ----------
    symbols, start, end, venues, resolution
        As they would be given to ``dd.funding.history``.
    latency_seconds
        Seconds that the service is taken to need for one answer; requests go one after another.

    Returns
    -------
    DataFrame, one row per fetcher
        ``fetcher``; ``tier``, the lowest that may ask; ``requests``; ``per_second``, how many the service
        allows (NaN: any number); ``seconds`` at the pace that is kept, with an empty cache: what is cached
        costs nothing, and an archive, the sample and a replay are not paced. ``attrs["summary"]`` says it
        in a line.

    Raises
    ------
    ValueError, TypeError
        `start` is not before `end`; a name or the resolution is not one; `latency_seconds` is negative.
    """
    if not latency_seconds >= 0:
        raise ValueError(f"latency_seconds={latency_seconds!r} must be 0 or more")
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
    each = "; ".join(
        f"{row['fetcher']} {row['requests']:,} requests, {_lasting(row['seconds'])}" for row in rows
    )
    requests.attrs["summary"] = f"{window.start:%Y-%m-%d %H:%M} to {window.end:%Y-%m-%d %H:%M} UTC: {each}"
    return requests


@typed
def catalog() -> pd.DataFrame:
    """Return what the connected source holds: an archive, the sample, or what venues have answered.

    Returns
    -------
    DataFrame, table ``catalog``
        One row per table and venue (``unstated`` where a table names none): ``first`` and ``last`` instant
        up to the source's clock, ``step_hours`` [h] between the last rows of one of its series, missing for
        events, single instants and tables without venues, and ``row_count``, missing where rows are made
        when they are asked for.

    Raises
    ------
    NotFound
        The source is the hosted service, which tells no such thing.
    FetchError, SchemaError
        No answer, or one that is not this table.

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
    """Return the contracts that venues list, and those that they listed, as each was listed last.

    Parameters
    ----------
    symbols, venues
        What to keep; None is all.

    Returns
    -------
    DataFrame, table ``instruments``
        One row per contract: base ``symbol`` and ``quote``, ``contract_size`` and ``multiplier``, its kind,
        ``listed``, ``delisted`` and ``expiry``, ``tick`` and ``step`` of price and size; NaN or NaT where the
        venue's list does not say. ``is_active`` is False of a contract that is gone, from ``time`` on as far
        as it was seen.

    Raises
    ------
    NotFound
        The source is the hosted service, or holds no lists.
    FetchError, SchemaError
        No answer, or one that is not this table.

    Notes
    -----
    ``GET /local/instruments``, which is not part of the API document. The symbols of this table, not those
    that are listed now, are what `derivdata.analysis.funding.universe` is to choose from.

    >>> contracts = dd.instruments("BTC", venues=["okx", "bybit"])
    >>> int(contracts["is_perpetual"].sum())
    2
    """
    listed = None if symbols is None else symbol_names(symbols)
    query = {"symbols": listed, "exchanges": venue_names(venues)}
    answer = transport.get(endpoints.INSTRUMENTS, query, into=_Instruments)
    return tabulate(TABLES["instruments"], [answer], lambda a: TABLES["instruments"].rows(a.body.instruments))


def _lasting(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
