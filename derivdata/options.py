"""Options: chains of active instruments as a table or a surface, now and over time, and trades.

The hosted service's snapshot has neither times nor prices: ``time`` is the server's ``Date``. Greeks are the
venue's own, in undocumented units; `derivdata.analysis` computes greeks from the implied volatility.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import pandas as pd
from msgspec import UNSET

from derivdata import tables
from derivdata.client import quantities, transport
from derivdata.client.reading import Envelope, Figure, timestamps
from derivdata.client.retrieval import days_back, keep_passed, names, read_columns, tabulate
from derivdata.client.transport import DecodedResponse
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.support.text import warn_caller
from derivdata.tables import endpoints
from derivdata.tables.chains import one_per_place, surface_of
from derivdata.tables.contracts import symbol_of, venue_of

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["atm_history", "metrics", "overview_history", "snapshot", "surface", "surface_history", "trades"]
__dir__ = __all__.copy


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
    """Return the active options of symbols on venues.

    Parameters
    ----------
    symbol, venues
        ``"BTC"``, ``"deribit"``, or lists of them: one request for each pair. A pair that is not in the API
        document is requested too, with a `DataNotice`, since venues are added over time.

    Returns
    -------
    DataFrame, table ``options_snapshot``
        One row per instrument. ``iv`` is decimal per √year; greeks may be NaN. Prices [coin or USD], ``rho``,
        ``index_price_usd`` and ``volume`` are columns of this library: an archive may have them; from the
        hosted service they are NaN. ``time`` is the time of the response, or in an archive the timestamp of
        the newest row of the chain. The rows of the last hour are one chain (`derivdata.tables.snapshots`);
        ``quoted_at`` is a row's own timestamp.

    Raises
    ------
    BadRequest
        The service does not have options for the pair.
    FetchError, SchemaError
        A request failed, or a response is not this table.

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
    responses = transport.progress(pairs, total=len(pairs), label=endpoints.OPTIONS_SNAPSHOT.path)
    return tabulate(tables.TABLES["options_snapshot"], (_requested(*pair) for pair in responses), _columns)


@typed
def surface(symbol: str, venue: str) -> xr.Dataset:
    """Return the active options of one symbol on one venue, by expiry, strike and side.

    Parameters
    ----------
    symbol, venue
        As in `snapshot`.

    Returns
    -------
    Dataset, dims ``(expiry, strike, side)``
        The snapshot as a surface, see `derivdata.tables.surface`. Without options the Dataset is empty, with
        a `DataNotice`.

    Notes
    -----
    ``GET /options/snapshot``, every tier. Errors: see `snapshot`.

    Examples
    --------
    >>> dict(dd.options.surface("BTC", "deribit").sizes)
    {'expiry': 11, 'strike': 97, 'side': 2}
    """
    response = _requested(symbol, venue)
    reading = read_columns(tables.TABLES["options_snapshot"], response, _columns)
    keep_passed(response, reading, is_complete=True)
    for notice in reading.notices:
        transport.notify(response.request, notice)
    provenance = transport.provenance([replace(response, notices=(*response.notices, *reading.notices))])
    if not response.body.instruments and not provenance["notices"]:
        transport.notify(response.request, f"no options on {symbol} at {venue}")
    return surface_of(
        tables.TABLES["options_snapshot"].joined([reading.columns]),
        symbol=response.body.symbol,
        exchange=response.body.exchange,
        as_of=_time_of(response),
        provenance=provenance,
    )


@typed
def metrics(symbol: str, venue: str) -> pd.DataFrame:
    """Return the at-the-money volatility of each expiry, now and a day ago.

    Parameters
    ----------
    symbol, venue
        As in `snapshot`.

    Returns
    -------
    DataFrame, table ``options_metrics``
        One row per expiry: ``underlying_price`` and ``atm_strike`` [USD], ``atm_iv``, ``atm_iv_24h_ago`` and
        ``atm_iv_change_24h`` [1/√year]. Figures that the service does not have are NaN.

    Notes
    -----
    ``GET /options/metrics``, Dev and above. Errors: see `snapshot`.
    """
    symbol = symbol_of(symbol)
    venue = venue_of(venue)
    warn_off_matrix(symbol, venue)
    response = transport.get(endpoints.OPTIONS_METRICS, {"symbol": symbol, "exchange": venue}, into=_Metrics)
    return tabulate(
        tables.TABLES["options_metrics"],
        [response],
        lambda a: tables.TABLES["options_metrics"].rows(
            a.body.data, symbol=a.body.symbol, exchange=a.body.exchange, time=a.as_of
        ),
    )


def warn_off_matrix(symbol: str, exchange: str) -> None:
    """Warn of a pair that is not in the API document. It is requested anyway, since venues are added."""
    listed = endpoints.OPTIONS_MATRIX.get(symbol, ())
    if exchange not in listed:
        warn_caller(
            f"the API document lists options on {symbol} for {', '.join(listed) or 'no venue'}, not "
            f"{exchange}; they are requested anyway"
        )


def _requested(symbol: str, exchange: str) -> DecodedResponse[_Chain]:
    """Request the chain of a pair."""
    symbol = symbol_of(symbol)
    exchange = venue_of(exchange)
    warn_off_matrix(symbol, exchange)
    return transport.get(endpoints.OPTIONS_SNAPSHOT, {"symbol": symbol, "exchange": exchange}, into=_Chain)


def _columns(response: DecodedResponse[_Chain]) -> dict[str, Any]:
    body = response.body
    return tables.TABLES["options_snapshot"].rows(
        body.instruments, symbol=body.symbol, exchange=body.exchange, time=_time_of(response)
    )


def _time_of(response: DecodedResponse[_Chain]) -> pd.Timestamp:
    """Return the chain's own time, which the library's services send, else the response's ``Date``."""
    return response.as_of if response.body.time is None else timestamps(response, [response.body.time])[0]


class _Point(msgspec.Struct, gc=False):
    expiry: str
    strike: float
    side: Literal["call", "put"]
    iv: Figure = UNSET
    underlying_price: Figure = UNSET
    open_interest: Figure = UNSET


class _SurfaceHistory(Envelope):
    symbol: str
    exchange: str
    snapshots: dict[str, list[_Point]]


class _Atm(msgspec.Struct):
    hour: str
    expiry: str
    underlying_price: Figure = UNSET
    strike: Figure = UNSET
    iv: Figure = UNSET


class _AtmHistory(Envelope):
    symbol: str
    exchange: str
    data: list[_Atm]


class _Overview(msgspec.Struct):
    timestamp: str
    exchange: str
    symbol: str
    notional_oi_usd: Figure = UNSET
    notional_volume_24h_usd: Figure = UNSET


class _OverviewHistory(Envelope):
    data: list[_Overview]


@typed
def atm_history(
    symbol: str, venue: str, start: times.TimeLike, end: times.TimeLike | None = None
) -> pd.DataFrame:
    """Return hourly at-the-money volatility by expiry over a window.

    Parameters
    ----------
    symbol, venue
        As in `snapshot`.
    start, end
        Half-open window; a lookback such as ``"30d"`` reaches back from `end`. The service accepts only whole
        days up to now: a range that contains the window is requested, and other rows are removed. In a window
        of exactly 90 days, the maximum below Pro, the first hour may be missing.

    Returns
    -------
    DataFrame, table ``options_atm_history``
        One row per hour and expiry: ``iv`` [1/√year] at the ``strike`` [USD] nearest to ``underlying_price``
        [USD]; NaN if the service does not have it.

    Raises
    ------
    ValueError
        `start` is not before `end` or not before `derivdata.asof`.
    BadRequest, TierError
        The range is longer than the key's tier allows (90 days below Pro).
    FetchError, SchemaError
        As in `snapshot`.

    Notes
    -----
    ``GET /options/atm-history``, Dev and above.
    """
    symbol = symbol_of(symbol)
    venue = venue_of(venue)
    window = times.window(start, end)
    query = {"symbol": symbol, "exchange": venue, "range": days_back(window)}
    warn_off_matrix(symbol, venue)
    response = transport.get(endpoints.OPTIONS_ATM_HISTORY, query, into=_AtmHistory)
    return tabulate(tables.TABLES["options_atm_history"], [response], _atm_columns, within=window)


@typed
def surface_history(
    symbol: str, venue: str, start: times.TimeLike, end: times.TimeLike | None = None
) -> xr.Dataset:
    """Return hourly options surfaces over a window.

    Parameters
    ----------
    symbol, venue, start, end
        As in `atm_history`.

    Returns
    -------
    Dataset, dims ``(time, expiry, strike, side)``
        ``iv`` [1/√year], ``open_interest`` [contracts], ``underlying_price(time, expiry)`` [USD] and the
        boolean ``observed``; coordinate ``year_fraction(time, expiry)``, NaN after expiry. Times are
        naive UTC. Without options in the window the Dataset is empty, with a `DataNotice`.

    Notes
    -----
    ``GET /options/surface-history``, Dev (30 days) and above, without greeks and instrument names. The
    service may thin out the surfaces of a longer range. The requested range is therefore as short as
    possible, and in a window of whole days the first hour may be missing. Errors: see `atm_history`.
    """
    symbol = symbol_of(symbol)
    venue = venue_of(venue)
    window = times.window(start, end)
    back = days_back(window, spare=pd.Timedelta(0))
    query = {"symbol": symbol, "exchange": venue, "range": back}
    warn_off_matrix(symbol, venue)
    response = transport.get(endpoints.OPTIONS_SURFACE_HISTORY, query, into=_SurfaceHistory)
    frame = tabulate(tables.TABLES["options_surface_history"], [response], _surface_columns, within=window)
    surface = tables.surface(frame)
    return surface if len(frame) else surface.assign_coords(symbol=symbol, exchange=venue)


@typed
def overview_history(start: times.TimeLike, end: times.TimeLike | None = None) -> pd.DataFrame:
    """Return hourly open interest and volume of options by venue and symbol over a window.

    Parameters
    ----------
    start, end
        As in `atm_history`.

    Returns
    -------
    DataFrame, table ``options_overview_history``
        One row per symbol, venue and hour: ``notional_oi_usd`` [USD], and ``notional_volume_24h_usd`` [USD],
        a rolling sum that must not be added up over hours. Missing figures are NaN.

    Notes
    -----
    ``GET /options/overview-history``, Dev and above. Errors: see `atm_history`.
    """
    window = times.window(start, end)
    response = transport.get(
        endpoints.OPTIONS_OVERVIEW_HISTORY, {"range": days_back(window)}, into=_OverviewHistory
    )
    return tabulate(tables.TABLES["options_overview_history"], [response], _overview_columns, within=window)


def _atm_columns(response: DecodedResponse[_AtmHistory]) -> dict[str, Any]:
    body = response.body
    columns = tables.TABLES["options_atm_history"].rows(body.data, symbol=body.symbol, exchange=body.exchange)
    return columns | {"hour": timestamps(response, [row.hour for row in body.data])}


def _overview_columns(response: DecodedResponse[_OverviewHistory]) -> dict[str, Any]:
    rows = response.body.data
    columns = tables.TABLES["options_overview_history"].rows(rows)
    return columns | {"timestamp": timestamps(response, [row.timestamp for row in rows])}


def _surface_columns(response: DecodedResponse[_SurfaceHistory]) -> dict[str, Any]:
    body = response.body
    snapshots = list(body.snapshots.values())
    points = list(chain.from_iterable(snapshots))
    columns = tables.TABLES["options_surface_history"].rows(
        points, symbol=body.symbol, exchange=body.exchange
    )
    stamps = timestamps(response, list(body.snapshots)).repeat(list(map(len, snapshots)))
    options = pd.DataFrame({**columns, "time": stamps})
    # Two instruments may have the same expiry, strike and side.
    unique = one_per_place(options, ("time", "expiry", "strike", "side"))
    return {name: values.array for name, values in unique.items()}


@typed
def trades(
    symbols: str | Sequence[str],
    start: times.TimeLike,
    end: times.TimeLike | None = None,
    *,
    venues: str | Sequence[str] | None = None,
) -> pd.DataFrame:
    """Return the trades of options over a window.

    Parameters
    ----------
    symbols, start, end, venues
        As in `derivdata.funding.history`.

    Returns
    -------
    DataFrame, table ``options_trades``
        One row per trade: the option; ``taker_side``; ``size`` [coin]; ``price_coin`` or ``price_usd``, by
        the currency of settlement; ``iv`` [1/√year] at this price, NaN if the venue does not state it;
        ``execution``: ``"book"``, ``"block"`` (the side is of one party), or ``"combo"`` (a leg of a package,
        which is not priced on its own).

    Notes
    -----
    ``GET /local/options/trades``, which is not part of the API document. Deribit has all trades since 2016.
    OKX has the newest 100 trades and Binance its newest blocks, which are complete only while a collector
    runs. Errors: see `derivdata.prices.history`.

    Examples
    --------
    >>> rows = dd.options.trades("BTC", "1d", venues=["deribit"])
    >>> sorted(rows["execution"].unique())
    ['block', 'book']
    """
    return quantities.table_rows(endpoints.OPTIONS_TRADES, symbols, start, end, venues)
