"""Figures of several tables on one grid of times, without look-ahead."""

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
from derivdata.client.quantities import catalog, instruments
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
"""Fetchers whose rows cover the step that begins at their time, and are therefore known when it ends."""

_STATES: dict[str, Callable[[_Inputs], xr.DataArray]] = {
    "positioning": lambda inputs: panel(inputs.history(positioning.history)),
    "price": lambda inputs: inputs.price("mark"),
    "basis": lambda inputs: inputs.basis(),
}
"""Values that are known at their time."""

_NAMES = (*_BUCKETS, *_STATES)
_IV = re.compile(r"iv([1-9]\d{0,2})")
_HOUR = pd.Timedelta(1, "h")
_YEAR = pd.Timedelta(365, "D")


@typed
def features(
    symbols: str | Sequence[str],
    start: times.TimeLike,
    names: str | Sequence[str],
    *,
    end: times.TimeLike | None = None,
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
        Figures to return: ``"funding"`` [bps/8h]; ``"oi"`` [USD]; ``"volume"`` of the previous step [USD];
        ``"price"``, the mark price [USD]; ``"basis"``, mark over index price [bps]; ``"positioning"``, long
        over short accounts [1]; ``"iv30"`` or another number of days, the at-the-money implied volatility of
        that maturity [1/√year].
    options_venue
        Venue of the options for ``"iv30"`` and other maturities.
    resolution
        Step of the grid, and of the histories that are requested.
    max_age
        Maximum age of a value; twice the step by default.
    apart
        Treatment of venues whose mark and index prices are far apart, as in
        `derivdata.analysis.basis.against`.

    Returns
    -------
    Dataset, dims ``(symbol, exchange, time)``
        A variable for each name; ``iv30`` does not have ``exchange``. ``time`` has the multiples of the step
        in ``[start, end)``, naive UTC. NaN without a recent value. A figure of a step is known at its end, an
        hourly state of options one hour later: no value looks ahead, and later data does not change a past
        value. The volatility of a symbol without options is NaN, with a `DataNotice`.

    Raises
    ------
    ValueError
        A name is unknown; or as in ``dd.funding.history`` and ``dd.options.atm_history``.
    FetchError, SchemaError
        A request failed, or a response is not its table; none of the symbols has options.

    Notes
    -----
    Total variance is interpolated linearly in time between two expiries; beyond the listed expiries the
    volatility is NaN.

    Examples
    --------
    >>> matrix = dd.features(["BTC", "ETH"], "2d", ["funding", "basis", "iv30"], venues=["okx", "bybit"])
    >>> dict(matrix.sizes), matrix["iv30"].dims
    ({'symbol': 2, 'exchange': 2, 'time': 48}, ('symbol', 'time'))
    """
    import xarray as xr

    from derivdata.analysis.align import align

    requested = listed_names(names, "names")
    for name in requested:
        if name not in _NAMES and not _IV.fullmatch(name):
            near = did_you_mean(name, _NAMES)
            raise ValueError(f"names must be among {', '.join(_NAMES)} and iv30, got {name!r}{near}")
    step = times.resolution(resolution)
    if step is None:
        raise ValueError(f"resolution must have a step, such as '1h', got {resolution!r}")
    oldest = 2 * step if max_age is None else times.length(max_age, "max_age")
    window = times.window(start, end)
    inputs = _Inputs(
        symbols=symbol_names(symbols), venues=venues, window=window, resolution=resolution,
        before=oldest + step, options_venue=options_venue, apart=apart, tables=[], panels={},
    )  # fmt: skip
    grid = times.naive_utc(pd.date_range(window.start.ceil(step), window.end, freq=step, inclusive="left"))
    figures = {}
    for name in requested:
        if name in _BUCKETS:
            value = panel(inputs.history(_BUCKETS[name]))
            delay = step
            age = oldest
        elif name in _STATES:
            value = _STATES[name](inputs)
            delay = 0 * step
            age = oldest
        else:
            value = inputs.volatility(float(name.removeprefix("iv")))
            delay = _HOUR
            age = max(oldest, _HOUR)
        aligned = align(value, grid, tolerance=age, delay=delay)["value"].reindex(symbol=inputs.symbols)
        aligned.attrs = {"units": value.attrs["units"]}
        figures[name] = aligned.to_dataset(name=name)
    matrix = xr.merge(figures.values(), join="outer", combine_attrs="drop_conflicts")
    origins = [table.attrs.get("provenance") for table in inputs.tables]
    return matrix.assign_attrs(provenance=json.dumps(joined_provenance(origins), sort_keys=True))


class _Inputs(NamedTuple):
    """Arguments of `features`, and the tables and price panels fetched so far."""

    symbols: list[str]
    venues: str | Sequence[str] | None
    window: times.Window
    resolution: times.Resolution
    before: pd.Timedelta  # how long before the window the histories start
    options_venue: str
    apart: Literal["raise", "keep"]
    tables: list[pd.DataFrame]
    panels: dict[str, xr.DataArray]

    def history(self, fetch: Callable[..., pd.DataFrame], **more: Any) -> pd.DataFrame:
        """Fetch a history of the symbols, from the oldest row that may be valid at the window's start."""
        options = {"venues": self.venues, "resolution": self.resolution, **more}
        table = fetch(self.symbols, self.window.start - self.before, self.window.end, **options)
        self.tables.append(table)
        return table

    def price(self, kind: str) -> xr.DataArray:
        """Return the panel of one kind of price; each kind is fetched once."""
        if kind not in self.panels:
            self.panels[kind] = panel(self.history(prices.history, kind=kind))
        return self.panels[kind]

    def basis(self) -> xr.DataArray:
        """Return mark over index prices [bps]."""
        from derivdata.analysis.basis import against

        basis = against(self.price("mark"), self.price("index"), apart=self.apart)
        return basis.drop_vars("apart", errors="ignore")

    def volatility(self, days: float) -> xr.DataArray:
        """Return the at-the-money volatility of a maturity [days], by symbol and hour."""
        import xarray as xr

        start = self.window.start - self.before - 2 * _HOUR
        volatilities: dict[str, xr.DataArray] = {}
        problems: dict[str, FetchError] = {}
        for symbol in self.symbols:
            try:
                rows = options.atm_history(symbol, self.options_venue, start, self.window.end)
            except (BadRequest, NotFound) as problem:
                problems[symbol] = problem
                continue
            self.tables.append(rows)
            volatilities[symbol] = at_maturity(rows, pd.Timedelta(days, "D"))
        if not volatilities:
            raise next(iter(problems.values()))
        for symbol, reason in problems.items():
            warnings.warn(f"iv{days:g} of {symbol} is missing: {reason}", DataNotice, stacklevel=4)
        symbols = pd.Index(volatilities, name="symbol")
        joined: xr.DataArray = xr.concat(volatilities.values(), symbols, join="outer")
        return joined.assign_attrs(units="1/√year")


def at_maturity(rows: pd.DataFrame, maturity: pd.Timedelta) -> xr.DataArray:
    """Return the at-the-money volatility of a maturity [1/√year] from rows of ``options_atm_history``.

    In each hour, total variance is interpolated linearly between two expiries; NaN beyond listed expiries.
    """
    import xarray as xr

    # 1. Rows before their expiry, by hour and time to expiry.
    rows = rows.assign(years=(rows["expiry"] - rows["time"]) / _YEAR).dropna(subset="iv")
    rows = rows[rows["years"] > 0.0].sort_values(["time", "years"])
    target = maturity / _YEAR
    years = rows["years"].to_numpy()
    variance = (rows["iv"] ** 2 * rows["years"]).to_numpy()
    hours, starts = np.unique(times.naive_utc(rows["time"]).to_numpy(), return_index=True)
    # 2. Total variance at the maturity, hour by hour.
    bounds = pairwise([*starts, len(rows)])
    variances = [
        np.interp(target, years[first:last], variance[first:last], np.nan, np.nan) for first, last in bounds
    ]
    # 3. Volatility.
    values = np.sqrt(np.array(variances, dtype=np.float64) / target)
    return xr.DataArray(values, {"time": pd.DatetimeIndex(hours).as_unit("us")}, "time")


FAMILIES = {name: import_module(f"derivdata.{name}") for name in derivdata._FAMILIES}

FETCHERS: dict[str, Callable[..., Any]] = {}
"""Fetchers by table."""
for _family, _module in FAMILIES.items():
    for _name in _module.__all__:
        if f"{_family}_{_name}" in TABLES.keys() | OPEN_TABLES.keys():
            FETCHERS[f"{_family}_{_name}"] = getattr(_module, _name)
FETCHERS |= {"catalog": catalog, "instruments": instruments}
