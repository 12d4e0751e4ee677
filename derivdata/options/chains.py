"""Options as they stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import pandas as pd
from msgspec import UNSET

from derivdata import tables
from derivdata.client import transport
from derivdata.client.reading import Envelope, Figure, instants
from derivdata.client.retrieval import columns_of, tabulate
from derivdata.client.transport import Answer
from derivdata.support.arguments import typed
from derivdata.support.notices import warn_caller
from derivdata.tables import endpoints
from derivdata.tables.contracts import names, symbol_of, venue_of
from derivdata.tables.surfaces import surface_of

if TYPE_CHECKING:
    import xarray as xr


class _Instrument(msgspec.Struct, gc=False):
    instrument_name: str
    expiry: str
    strike: float
    side: Literal["call", "put"]
    iv: Figure = UNSET
    delta: Figure = UNSET
    gamma: Figure = UNSET
    vega: Figure = UNSET
    theta: Figure = UNSET
    rho: Figure = UNSET
    open_interest: Figure = UNSET
    underlying_price: Figure = UNSET
    bid_coin: Figure = UNSET
    ask_coin: Figure = UNSET
    mark_coin: Figure = UNSET
    bid_usd: Figure = UNSET
    ask_usd: Figure = UNSET
    mark_usd: Figure = UNSET
    index_price_usd: Figure = UNSET
    volume: Figure = UNSET
    interest_rate: Figure = UNSET
    quoted_at: str | msgspec.UnsetType | None = UNSET


class _Chain(Envelope):
    symbol: str
    exchange: str
    instruments: list[_Instrument]
    time: str | None = None


class _Metric(msgspec.Struct):
    expiry: str
    underlying_price: Figure = UNSET
    atm_strike: Figure = UNSET
    atm_iv: Figure = UNSET
    atm_iv_24h_ago: Figure = UNSET
    atm_iv_change_24h: Figure = UNSET


class _Metrics(Envelope):
    symbol: str
    exchange: str
    data: list[_Metric]


@typed
def snapshot(symbol: str | Sequence[str], venues: str | Sequence[str]) -> pd.DataFrame:
    """Return every active option of one symbol or several on one venue or several now.

    Parameters
    ----------
    symbol, venues
        ``"BTC"``, ``"deribit"``, or lists of them: one request for each pair. A pair that the document does
        not list is asked all the same, with a `DataNotice`: venues are added over time.

    Returns
    -------
    DataFrame, table ``options_snapshot``
        One row per instrument. ``iv`` is decimal per √year; greeks are NaN where the venue gives none. Prices
        [coin or USD], ``rho``, ``index_price_usd`` and ``volume`` are the library's own columns: an archive
        may have them, the hosted service does not, and there they are NaN. ``time`` is when the service
        answered, and of an archive when the chain was recorded: the timestamp of its newest row. The rows of
        the last hour are one chain (`derivdata.tables.snapshots`); ``quoted_at`` is a row's own timestamp.

    Raises
    ------
    BadRequest
        The service has no options for the pair.
    FetchError, SchemaError
        No answer, or one that is not this table.

    Notes
    -----
    ``GET /options/snapshot``, every tier.

    Examples
    --------
    >>> chain = dd.options.snapshot("BTC", "deribit")
    >>> len(chain), chain["expiry"].nunique(), sorted(chain["side"].unique())
    (764, 11, ['call', 'put'])
    """
    pairs = [(s, e) for s in names(symbol, "symbol") for e in names(venues, "venues")]
    answers = transport.progress(pairs, total=len(pairs), label=endpoints.OPTIONS_SNAPSHOT.path)
    return tabulate(tables.TABLES["options_snapshot"], (_requested(*pair) for pair in answers), _columns)


@typed
def surface(symbol: str, venue: str) -> xr.Dataset:
    """Return every active option of one symbol on one venue now, by expiry, strike and side.

    Parameters
    ----------
    symbol, venue
        As in `snapshot`.

    Returns
    -------
    Dataset, dims ``(expiry, strike, side)``
        As `derivdata.tables.surface` makes it from the snapshot; no options give a Dataset of no expiries
        and no strikes, and a `DataNotice`.

    Notes
    -----
    ``GET /options/snapshot``, every tier. Errors are those of `snapshot`.

    Examples
    --------
    >>> dict(dd.options.surface("BTC", "deribit").sizes)
    {'expiry': 11, 'strike': 97, 'side': 2}
    """
    answer = _requested(symbol, venue)
    columns, notices, _ = columns_of(tables.TABLES["options_snapshot"], answer, _columns)
    for notice in notices:
        transport.notify(answer.request, notice)
    provenance = transport.provenance([replace(answer, notices=(*answer.notices, *notices))])
    if not answer.body.instruments and not provenance["notices"]:
        transport.notify(answer.request, f"no options on {symbol} at {venue}")
    return surface_of(
        tables.TABLES["options_snapshot"].joined([columns]),
        symbol=answer.body.symbol,
        exchange=answer.body.exchange,
        as_of=_time_of(answer),
        provenance=provenance,
    )


@typed
def metrics(symbol: str, venue: str) -> pd.DataFrame:
    """Return at-the-money volatility per expiry, now and a day ago.

    Parameters
    ----------
    symbol, venue
        As in `snapshot`.

    Returns
    -------
    DataFrame, table ``options_metrics``
        One row per expiry; volatilities [1/√year], NaN where the service has none.

    Notes
    -----
    ``GET /options/metrics``, Dev and above. Errors are those of `snapshot`.
    """
    symbol, venue = symbol_of(symbol), venue_of(venue)
    warn_off_matrix(symbol, venue)
    answer = transport.get(endpoints.OPTIONS_METRICS, {"symbol": symbol, "exchange": venue}, into=_Metrics)
    return tabulate(
        tables.TABLES["options_metrics"],
        [answer],
        lambda a: tables.TABLES["options_metrics"].rows(
            a.body.data, symbol=a.body.symbol, exchange=a.body.exchange, time=a.as_of
        ),
    )


def warn_off_matrix(symbol: str, exchange: str) -> None:
    """Note that the document lists no such pair; it is requested all the same, since venues are added."""
    listed = endpoints.OPTIONS_MATRIX.get(symbol, ())
    if exchange not in listed:
        warn_caller(
            f"the API document lists options on {symbol} for {', '.join(listed) or 'no venue'}, "
            f"not {exchange}; asking all the same"
        )


def _requested(symbol: str, exchange: str) -> Answer[_Chain]:
    symbol, exchange = symbol_of(symbol), venue_of(exchange)
    warn_off_matrix(symbol, exchange)
    return transport.get(endpoints.OPTIONS_SNAPSHOT, {"symbol": symbol, "exchange": exchange}, into=_Chain)


def _columns(answer: Answer[_Chain]) -> dict[str, Any]:
    body = answer.body
    return tables.TABLES["options_snapshot"].rows(
        body.instruments, symbol=body.symbol, exchange=body.exchange, time=_time_of(answer)
    )


def _time_of(answer: Answer[_Chain]) -> pd.Timestamp:
    """Return the chain's own time, which services of the library state, or else the answer's."""
    return answer.as_of if answer.body.time is None else instants(answer, [answer.body.time])[0]
