"""The data of a figure as a frame: one call for all figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd

from derivdata.support.arguments import typed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["data", "keep_frame", "long_table"]

_FRAMES: WeakKeyDictionary[Axes, pd.DataFrame] = WeakKeyDictionary()


@typed
def data(ax: Any) -> pd.DataFrame:
    """Return the data that a figure draws, for a table, a CSV file or a figure of your own.

    Parameters
    ----------
    ax
        What a figure of `derivdata.plot` returned.

    Returns
    -------
    DataFrame
        One row per mark, what is drawn outside the axes included; times are UTC. Units are those of the
        figure's axes or stand in the names of columns.

    Raises
    ------
    ValueError
        The axes are not what a figure of `derivdata.plot` returned.

    Examples
    --------
    >>> ax = dd.plot.funding_history(dd.funding.history("BTC", "2d"))
    >>> list(dd.plot.data(ax).columns)
    ['time', 'exchange', 'rate_bps_8h']
    """
    from matplotlib.axes import Axes

    if not isinstance(ax, Axes) or ax not in _FRAMES:
        raise ValueError("ax is not what a figure of derivdata.plot returned")
    return _FRAMES[ax].copy()


def keep_frame(ax: Axes, frame: pd.DataFrame | dict[str, Any]) -> Axes:
    """Keep the data of a figure for `data`, and return its axes."""
    table = pd.DataFrame(frame).reset_index(drop=True)
    for name in ("time", "expiry", "entry", "exit"):
        if name in table and table[name].dtype.kind == "M" and getattr(table[name].dt, "tz", None) is None:
            table[name] = table[name].dt.tz_localize("UTC")
    _FRAMES[ax] = table
    return ax


def long_table(wide: pd.DataFrame, row: str, column: str, value: str) -> pd.DataFrame:
    """Return one row per cell that has a value, of a table with labels on both sides."""
    places, names = np.nonzero(wide.notna().to_numpy())
    return pd.DataFrame(
        {
            row: wide.index.to_numpy()[places],
            column: np.asarray(wide.columns.astype(str))[names],
            value: wide.to_numpy()[places, names],
        }
    )
