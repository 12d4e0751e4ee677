"""Options over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import pandas as pd
from msgspec import UNSET

from derivdata import tables
from derivdata.client import quantities, transport
from derivdata.client.reading import Envelope, Figure, instants
from derivdata.client.retrieval import days_back, tabulate
from derivdata.client.transport import Answer
from derivdata.options.chains import warn_off_matrix
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.tables import endpoints
from derivdata.tables.contracts import symbol_of, venue_of
from derivdata.tables.surfaces import one_per_place

if TYPE_CHECKING:
    import xarray as xr


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
    symbol: str, venue: str, start: times.Instant, end: times.Instant | None = None
) -> pd.DataFrame:
    """Return at-the-money volatility of every hour and expiry over a window.

    Parameters
    ----------
    symbol, venue
        As in `snapshot`.
    start, end
        Half-open window; a lookback such as ``"30d"`` reaches back from `end`. The service knows only whole
        days that end at its own second: a range that holds the window is asked for, and cut here. Of exactly
        90 days, the most below Pro, the first hour may be missing.

    Returns
    -------
    DataFrame, table ``options_atm_history``
        One row per hour and expiry; ``iv`` [1/√year].

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
    symbol, venue = symbol_of(symbol), venue_of(venue)
    window = times.window(start, end)
    query = {"symbol": symbol, "exchange": venue, "range": days_back(window)}
    warn_off_matrix(symbol, venue)
    answer = transport.get(endpoints.OPTIONS_ATM_HISTORY, query, into=_AtmHistory)
    return tabulate(tables.TABLES["options_atm_history"], [answer], _atm_columns, within=window)


@typed
def surface_history(
    symbol: str, venue: str, start: times.Instant, end: times.Instant | None = None
) -> xr.Dataset:
    """Return the options surface of every hour over a window.

    Parameters
    ----------
    symbol, venue, start, end
        As in `atm_history`.

    Returns
    -------
    Dataset, dims ``(time, expiry, strike, side)``
        ``iv`` [1/√year], ``open_interest`` [contracts], ``underlying_price(time, expiry)`` [USD] and the
        boolean ``observed``; coordinate ``year_fraction(time, expiry)``, NaN after expiry. Instants are
        naive UTC. No options in the window give a Dataset of no instants, and a `DataNotice`.

    Notes
    -----
    ``GET /options/surface-history``, Dev (30 days) and above; no greeks and no instrument names. The service
    may thin out surfaces by the length of the range that is asked for, so that no day is asked for beyond the
    window: of whole days, the first hour may be missing. Errors are those of `atm_history`.
    """
    symbol, venue = symbol_of(symbol), venue_of(venue)
    window = times.window(start, end)
    back = days_back(window, spare=pd.Timedelta(0))
    query = {"symbol": symbol, "exchange": venue, "range": back}
    warn_off_matrix(symbol, venue)
    answer = transport.get(endpoints.OPTIONS_SURFACE_HISTORY, query, into=_SurfaceHistory)
    frame = tabulate(tables.TABLES["options_surface_history"], [answer], _surface_columns, within=window)
    surface = tables.surface(frame)
    return surface if len(frame) else surface.assign_coords(symbol=symbol, exchange=venue)


@typed
def overview_history(start: times.Instant, end: times.Instant | None = None) -> pd.DataFrame:
    """Return options open interest and volume by venue and symbol, every hour of a window.

    Parameters
    ----------
    start, end
        As in `atm_history`.

    Returns
    -------
    DataFrame, table ``options_overview_history``
        One row per symbol, venue and hour: ``notional_oi_usd`` [USD], and ``notional_volume_24h_usd``
        [USD], which is rolling: do not add it up over hours.

    Notes
    -----
    ``GET /options/overview-history``, Dev and above. Errors are those of `atm_history`.
    """
    window = times.window(start, end)
    answer = transport.get(
        endpoints.OPTIONS_OVERVIEW_HISTORY, {"range": days_back(window)}, into=_OverviewHistory
    )
    return tabulate(tables.TABLES["options_overview_history"], [answer], _overview_columns, within=window)


def _atm_columns(answer: Answer[_AtmHistory]) -> dict[str, Any]:
    body = answer.body
    columns = tables.TABLES["options_atm_history"].rows(body.data, symbol=body.symbol, exchange=body.exchange)
    return columns | {"hour": instants(answer, [row.hour for row in body.data])}


def _overview_columns(answer: Answer[_OverviewHistory]) -> dict[str, Any]:
    rows = answer.body.data
    columns = tables.TABLES["options_overview_history"].rows(rows)
    return columns | {"timestamp": instants(answer, [row.timestamp for row in rows])}


def _surface_columns(answer: Answer[_SurfaceHistory]) -> dict[str, Any]:
    body = answer.body
    snapshots = list(body.snapshots.values())
    columns = tables.TABLES["options_surface_history"].rows(
        [point for points in snapshots for point in points], symbol=body.symbol, exchange=body.exchange
    )
    stamps = instants(answer, list(body.snapshots)).repeat([len(points) for points in snapshots])
    options = pd.DataFrame({**columns, "time": stamps})
    unique = one_per_place(options, ("time", "expiry", "strike", "side"))
    return {name: values.array for name, values in unique.items()}


@typed
def trades(
    symbols: str | Sequence[str],
    start: times.Instant,
    end: times.Instant | None = None,
    *,
    venues: str | Sequence[str] | None = None,
) -> pd.DataFrame:
    """Return every trade of options over a window.

    Parameters
    ----------
    symbols, start, end, venues
        As in `derivdata.funding.history`.

    Returns
    -------
    DataFrame, table ``options_trades``
        One row per trade: the option; ``taker_side``; ``size`` [coin]; ``price_coin`` or ``price_usd``, by
        what the option is settled in; ``iv`` [1/√year] of that price, NaN where the venue states none;
        ``execution``: ``"book"``, ``"block"``, whose side is that of one party, or ``"combo"``, a leg of a
        package, whose price alone means little.

    Notes
    -----
    ``GET /local/options/trades``, which is not part of the API document. Deribit tells all since 2016, OKX
    the newest 100 and Binance its newest blocks: these are whole only while a collector runs. Errors are
    those of `derivdata.prices.history`.

    >>> rows = dd.options.trades("BTC", "1d", venues=["deribit"])
    >>> sorted(rows["execution"].unique())
    ['block', 'book']
    """
    return quantities.table_rows(endpoints.OPTIONS_TRADES, symbols, start, end, venues)
