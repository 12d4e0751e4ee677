"""What all figures share: kinds of data, checks of arguments, and the data that a figure draws as a frame."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeAlias, TypeVar

import pandas as pd
import xarray as xr

from derivdata.plot import style
from derivdata.support.arguments import typed
from derivdata.support.times import Instant

if TYPE_CHECKING:
    from matplotlib.axes import Axes

P = ParamSpec("P")
T = TypeVar("T")

Rates: TypeAlias = pd.DataFrame | xr.DataArray
"""A table, or the panel of one of its columns."""

Chain: TypeAlias = pd.DataFrame | xr.Dataset
"""Options as a table or a surface, or a fit to them."""

Expiries: TypeAlias = Instant | Sequence[Instant] | pd.DatetimeIndex
"""One listed expiry or several: an instant, or the day."""

Source: TypeAlias = pd.DataFrame | xr.DataArray | xr.Dataset | str
"""Whatever may carry a provenance, or words for the data, its licence and window."""

Size: TypeAlias = tuple[float, float]
"""Width and height of a new figure [inches]."""

Engine: TypeAlias = Literal["matplotlib", "plotly"]
"""The library that draws."""

_FRAME = "_derivdata_frame"
"""Attribute of what a figure returns: the data that it draws."""


def figure_function(function: Callable[P, T]) -> Callable[P, T]:
    """Return the function of a figure with its arguments checked.

    ``ax`` is an Axes or None. ``figsize`` makes a new figure of that size [inches], as in xarray.
    """
    checked = typed(function)

    @functools.wraps(checked)
    def draw(*args: P.args, **kwargs: P.kwargs) -> T:
        from matplotlib import rc_context
        from matplotlib.axes import Axes

        ax = kwargs.get("ax")
        if not isinstance(ax, Axes | None):
            kind = type(ax).__name__
            raise TypeError(f"ax must be the Axes of a matplotlib figure or None, not {kind}")
        if ax is not None and kwargs.get("engine") == "plotly":
            raise ValueError("ax is of matplotlib; engine='plotly' makes a figure of its own: leave ax out")
        if (figsize := kwargs.get("figsize")) is not None:
            kwargs["ax"] = _sized(ax, figsize, kwargs.get("engine"))
        # A symbol or a venue may hold "$", which matplotlib would read as mathematics.
        with warnings.catch_warnings(), rc_context({"text.parse_math": False}):
            warnings.filterwarnings("ignore", "Attempting to set identical low and high", UserWarning)
            return checked(*args, **kwargs)

    return draw


def _sized(ax: Axes | None, figsize: Any, engine: Any) -> Axes:
    """Return the axes of a new figure of a size [inches]."""
    import matplotlib.pyplot as plt

    if ax is not None:
        raise ValueError("figsize is the size of a new figure: pass ax or figsize, not both")
    if engine == "plotly":
        raise ValueError("figsize is of matplotlib; use figure.update_layout(width=, height=) of plotly")
    is_pair = isinstance(figsize, tuple | list) and len(figsize) == 2
    if not is_pair or not all(isinstance(side, int | float) and 0 < side <= 100 for side in figsize):
        raise ValueError(f"figsize must be width and height [inches], (8, 4.5), got {figsize!r}")
    _, new = plt.subplots(figsize=tuple(figsize), layout="constrained")
    return new


def only_for(kind: str, owners: tuple[str, ...], **options: Any) -> None:
    """Refuse options that another `kind` of the figure has, by name."""
    given = [name for name, value in options.items() if value is not None]
    if given and kind not in owners:
        whose = " and ".join(map(repr, owners))
        raise ValueError(f"{given[0]} is an option of kind={whose}; kind={kind!r} has none of that name")


@typed
def data(ax: Any) -> pd.DataFrame:
    """Return the data that a figure draws, for a table, a CSV file or a figure of your own.

    Parameters
    ----------
    ax
        What a figure of `derivdata.plot` returned, by either engine.

    Returns
    -------
    DataFrame
        One row per mark, what is drawn outside the axes included; times are UTC. Units are those of the
        figure's axes or are in the names of columns.

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
    frame = getattr(ax, _FRAME, None)
    if not isinstance(frame, pd.DataFrame):
        raise ValueError("ax is not what a figure of derivdata.plot returned")
    return frame.copy()


def finish(
    ax: Axes,
    table: pd.DataFrame | dict[str, Any],
    *drawn: Any,
    source: Any = None,
    lowest: Axes | None = None,
) -> Axes:
    """Write the footer below the `lowest` axes, keep the table for `data`, and return `ax`."""
    style.footer(ax if lowest is None else lowest, *drawn, source=source)
    return keep_frame(ax, table)


def keep_frame(drawn: T, table: pd.DataFrame | dict[str, Any]) -> T:
    """Return what was drawn, with the table for `data`."""
    table = pd.DataFrame(table).reset_index(drop=True)
    for name in ("time", "expiry", "entry", "exit"):
        if name in table and table[name].dtype.kind == "M" and getattr(table[name].dt, "tz", None) is None:
            table[name] = table[name].dt.tz_localize("UTC")
    vars(drawn)[_FRAME] = table
    return drawn


def long_table(wide: pd.DataFrame, row: str, column: str, value: str) -> pd.DataFrame:
    """Return one row per cell that has a value, of a table with labels on both sides."""
    labelled = wide.set_axis(wide.columns.astype(str), axis=1).rename_axis(index=row, columns=column)
    return labelled.stack(future_stack=True).dropna().rename(value).reset_index()
