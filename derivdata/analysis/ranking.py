"""Rank of a value among those before it, and among the others of its time."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.panels import Panel, figures_of, require, window_rows
from derivdata.analysis.settlements import held_settlements
from derivdata.support.arguments import typed
from derivdata.support.arrays import Floats

__all__ = ["percentile", "rank"]
__dir__ = __all__.copy


@typed
def percentile(
    panel: Panel,
    window: str | pd.Timedelta | None = None,
    *,
    rows: int | None = None,
    min_rows: int | None = None,
) -> xr.DataArray:
    """Return the share of the values in a window before each one that lie below it.

    Parameters
    ----------
    panel
        Values with dim ``time`` at regular steps, in memory or lazy (time is put into one chunk). A
        settlement whose ``interval_hours`` the panel has is carried until the next one of its series is due,
        as in `derivdata.analysis.funding.best_pair`.
    window, rows
        Length of the window, such as ``"30d"``, whole steps of the panel; or its rows, at least 2. It ends on
        the row before: the value itself and what comes later play no part.
    min_rows
        Values that a window needs, by default half of its rows, at least 2.

    Returns
    -------
    DataArray, the panel's dims
        From 0 (below all) to 1 (above all); an equal value counts half. NaN where the value is, and where the
        window has too few values.

    Raises
    ------
    TypeError, ValueError
        As `derivdata.analysis.funding.zscore`.

    Examples
    --------
    >>> rates = dd.funding.history("BTC", "30d", venues=["binance"])
    >>> share = dd.analysis.percentile(rates, "7d")
    >>> bool(((share.dropna("time") >= 0.0) & (share.dropna("time") <= 1.0)).all())
    True
    """
    panel = held_settlements(require(panel, "time"))
    rows, least = window_rows(panel, window, rows, min_rows)
    units = {"percentile": "1"}
    share = figures_of(_percentile, panel, units=units, into={"time": None}, rows=rows, least=least)
    return share["percentile"]


def _percentile(values: Floats, *, rows: int, least: int) -> Floats:
    # The rank within a window that includes the value is one more than among the others.
    table = values.reshape(int(np.prod(values.shape[:-1])), values.shape[-1]).T
    series = pd.DataFrame(table).rolling(rows + 1, least + 1)
    share = (series.rank(method="average") - 1.0) / (series.count() - 1.0)
    return np.asarray(share.to_numpy().T.reshape(values.shape))


@typed
def rank(panel: Panel, *, dim: str = "exchange") -> xr.DataArray:
    """Rank the values of each instant along a dim: 1 for the highest, equal values share the mean rank.

    Parameters
    ----------
    panel
        Values with `dim`, in memory or lazy (`dim` is put into one chunk). Settlements are carried as in
        `percentile`, so that series that pay at different hours are ranked together.
    dim
        ``"exchange"`` ranks the venues of a symbol, ``"symbol"`` the symbols of a venue.

    Returns
    -------
    DataArray, the panel's dims
        NaN where the value is missing; it takes no rank.

    Raises
    ------
    TypeError, ValueError
        `panel` has no such dim, or it is ``time``: a rank among later values would be known later only.
    """
    if dim == "time":
        raise ValueError("dim='time' would rank a value among later ones: take dd.analysis.percentile")
    panel = held_settlements(require(panel, dim))
    return figures_of(_rank, panel, units={"rank": "1"}, over=[dim], into={dim: None})["rank"]


def _rank(values: Floats) -> Floats:
    from scipy.stats import rankdata  # takes long to import, and ranks alone need it

    return np.asarray(rankdata(-values, axis=-1, nan_policy="omit"))
