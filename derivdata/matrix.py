"""Figures of several tables on one grid, each as it was known at its time."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pandas as pd

import derivdata
from derivdata import funding, oi, options, positioning, prices, volume
from derivdata.client.plan import catalog, instruments
from derivdata.client.retrieval import names as listed_names
from derivdata.client.retrieval import symbol_names
from derivdata.errors import BadRequest, DataNotice, FetchError, NotFound
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.support.text import did_you_mean
from derivdata.tables import TABLES
from derivdata.tables.definitions import OPEN_TABLES
from derivdata.tables.frames import joined_provenance
from derivdata.tables.panels import panel

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["FAMILIES", "FETCHERS"]


_BUCKETS: dict[str, Callable[..., pd.DataFrame]] = {
    "funding": funding.history,
    "oi": oi.history,
    "volume": volume.history,
}
"""Fetchers whose rows are of the step that begins at their time: known when it ends."""

_STATES: dict[str, Callable[[_Question], xr.DataArray]] = {
    "positioning": lambda ask: panel(ask.history(positioning.history)),
    "price": lambda ask: ask.price("mark"),
    "basis": lambda ask: ask.basis(),
}
"""Figures that have the time at which they were known."""

_NAMES = (*_BUCKETS, *_STATES)
_IV = re.compile(r"iv([1-9]\d{0,2})")
_HOUR = pd.Timedelta(1, "h")
_YEAR = pd.Timedelta(365, "D")


@typed
def features(
    symbols: str | Sequence[str],
    start: times.Instant,
    names: str | Sequence[str],
    *,
    end: times.Instant | None = None,
    venues: str | Sequence[str] | None = None,
    options_venue: str = "deribit",
    resolution: times.Resolution = "1h",
    max_age: str | pd.Timedelta | None = None,
    apart: Literal["raise", "keep"] = "raise",
) -> xr.Dataset:
    """Return figures of symbols on one grid of times, each as it was known at its time.

    Parameters
    ----------
    symbols, start, end, venues
        As in ``dd.funding.history``: ``"90d"`` looks back from `end`.
    names
        What to return: ``"funding"`` [bps/8h], ``"oi"`` [USD], ``"volume"`` of the step before [USD],
        ``"price"``, the mark price [USD], ``"basis"`` of mark over index price [bps], ``"positioning"``, long
        over short accounts [1], and ``"iv30"`` or
        another number of days, the implied volatility at the money of that maturity [1/√year].
    options_venue
        Venue of ``"iv30"`` and the like.
    resolution
        Step of the grid, and of the histories that are requested.
    max_age
        How old the newest known value may be; twice the step unless given.
    apart
        Prices for ``"basis"`` that lie apart, as in `derivdata.analysis.basis.against`.

    Returns
    -------
    Dataset, dims ``(symbol, exchange, time)``
        A variable for each name, ``iv30`` without ``exchange``; ``time`` holds the multiples of the step in
        ``[start, end)``, naive UTC. NaN without a value that is recent enough. A figure of a
        step counts from its end on, an hourly state of options an hour after it: no value looks ahead, and
        a value of the past does not change as time goes on. A symbol without options has no volatility, and
        a `DataNotice` names it.

    Raises
    ------
    ValueError
        A name is unknown; and as in ``dd.funding.history`` and ``dd.options.atm_history``.
    FetchError, SchemaError
        No answer, or one that is not the table; none of the symbols has options.

    Notes
    -----
    Between two expiries total variance is linear in time; beyond the listed ones there is no volatility.

    Examples
    --------
    >>> matrix = dd.features(["BTC", "ETH"], "2d", ["funding", "basis", "iv30"], venues=["okx", "bybit"])
    >>> dict(matrix.sizes), matrix["iv30"].dims
    ({'symbol': 2, 'exchange': 2, 'time': 48}, ('symbol', 'time'))
    """
    import xarray as xr

    from derivdata.analysis.align import align

    wanted = listed_names(names, "names")
    for name in wanted:
        if name not in _NAMES and not _IV.fullmatch(name):
            near = did_you_mean(name, _NAMES)
            raise ValueError(f"names={name!r} is not one of {', '.join(_NAMES)} and iv30{near}")
    step = times.resolution(resolution)
    if step is None:
        raise ValueError(f"{resolution=} has no step: a grid needs one, such as '1h'")
    oldest = 2 * step if max_age is None else times.length(max_age, "max_age")
    window = times.window(start, end)
    ask = _Question(
        symbol_names(symbols), venues, window, resolution, oldest + step, options_venue, apart, [], {}
    )
    grid = times.naive_utc(pd.date_range(window.start.ceil(step), window.end, freq=step, inclusive="left"))
    figures = {}
    for name in wanted:
        if name in _BUCKETS:
            value = panel(ask.history(_BUCKETS[name]))
            delay = step
            age = oldest
        elif name in _STATES:
            value = _STATES[name](ask)
            delay = 0 * step
            age = oldest
        else:
            value = ask.volatility(float(name.removeprefix("iv")))
            delay = _HOUR
            age = max(oldest, _HOUR)
        known = align(value, grid, tolerance=age, delay=delay)["value"].reindex(symbol=ask.symbols)
        known.attrs = {"units": value.attrs["units"]}
        figures[name] = known.to_dataset(name=name)
    matrix = xr.merge(figures.values(), join="outer", combine_attrs="drop_conflicts")
    origins = [table.attrs.get("provenance") for table in ask.tables]
    return matrix.assign_attrs(provenance=json.dumps(joined_provenance(origins), sort_keys=True))


class _Question(NamedTuple):
    """Arguments of every figure, and the tables and panels of prices fetched so far."""

    symbols: list[str]
    venues: str | Sequence[str] | None
    window: times.Window
    resolution: times.Resolution
    before: pd.Timedelta  # how much longer before the window a value may have become known
    options_venue: str
    apart: Literal["raise", "keep"]
    tables: list[pd.DataFrame]
    panels: dict[str, xr.DataArray]

    def history(self, fetch: Callable[..., pd.DataFrame], **more: Any) -> pd.DataFrame:
        """Return a history of the symbols, from the oldest row that may be valid at the window's start."""
        how = {"venues": self.venues, "resolution": self.resolution, **more}
        self.tables.append(fetch(self.symbols, self.window.start - self.before, self.window.end, **how))
        return self.tables[-1]

    def price(self, kind: str) -> xr.DataArray:
        """Return the panel of one kind of price, which is requested once."""
        if kind not in self.panels:
            self.panels[kind] = panel(self.history(prices.history, kind=kind))
        return self.panels[kind]

    def basis(self) -> xr.DataArray:
        """Return mark over index prices [bps]."""
        from derivdata.analysis.basis import against

        basis = against(self.price("mark"), self.price("index"), apart=self.apart)
        return basis.drop_vars("apart", errors="ignore")

    def volatility(self, days: float) -> xr.DataArray:
        """Return the volatility at the money of a maturity, by symbol and hour."""
        import xarray as xr

        start = self.window.start - self.before - 2 * _HOUR
        found: dict[str, xr.DataArray] = {}
        lacking: dict[str, FetchError] = {}
        for symbol in self.symbols:
            try:
                rows = options.atm_history(symbol, self.options_venue, start, self.window.end)
            except (BadRequest, NotFound) as problem:
                lacking[symbol] = problem
                continue
            self.tables.append(rows)
            found[symbol] = at_maturity(rows, pd.Timedelta(days, "D"))
        if not found:
            raise next(iter(lacking.values()))
        for symbol, why in lacking.items():
            warnings.warn(f"iv{days:g} of {symbol} is missing: {why}", DataNotice, stacklevel=4)
        joined: xr.DataArray = xr.concat(found.values(), pd.Index(found, name="symbol"), join="outer")
        return joined.assign_attrs(units="1/√year")


def at_maturity(rows: pd.DataFrame, maturity: pd.Timedelta) -> xr.DataArray:
    """Return volatility at the money of a maturity [1/√year] from rows of ``options_atm_history``.

    Total variance is linear between two expiries, hour by hour; NaN beyond the listed ones.
    """
    import xarray as xr

    rows = rows.assign(years=(rows["expiry"] - rows["time"]) / _YEAR).dropna(subset="iv")
    rows = rows[rows["years"] > 0.0].sort_values(["time", "years"])
    target = maturity / _YEAR
    years = rows["years"].to_numpy()
    variance = (rows["iv"] ** 2 * rows["years"]).to_numpy()
    hours, starts = np.unique(times.naive_utc(rows["time"]).to_numpy(), return_index=True)
    slices = [slice(*ends) for ends in pairwise([*starts, len(rows)])]
    found = [np.interp(target, years[part], variance[part], np.nan, np.nan) for part in slices]
    values = np.sqrt(np.array(found, dtype=np.float64) / target)
    return xr.DataArray(values, {"time": pd.DatetimeIndex(hours).as_unit("us")}, "time")


FAMILIES = {name: import_module(f"derivdata.{name}") for name in derivdata._FAMILIES}

FETCHERS: dict[str, Callable[..., Any]] = {
    f"{family}_{name}": getattr(module, name)
    for family, module in FAMILIES.items()
    for name in module.__all__
    if f"{family}_{name}" in TABLES.keys() | OPEN_TABLES.keys()
} | {"catalog": catalog, "instruments": instruments}
