"""Figure of a volatility index and of skew over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.inputs import require_variables
from derivdata.plot._decorator import figure_function
from derivdata.plot.frames import keep_frame
from derivdata.plot.style import GREY, PALETTE, dress, footer, legend, number, percent, strips, utc_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["volatility_history"]


@figure_function
def volatility_history(
    history: xr.Dataset, *, symbol: str = "", source: Any = None, ax: Axes | None = None
) -> Axes:
    """Draw a volatility index with volatility at the forward over time, and the 25-delta risk reversals.

    Parameters
    ----------
    history
        What ``dd.analysis.surface.history`` gave, of one symbol and venue, with the points ``atm`` and
        ``rr25``.
    symbol
        Whose, for the title.
    source, ax
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        That of the index and of volatility at the forward; below it stands call less put volatility at 25
        delta, in points, one line per time to expiry. An instant without a fit is a gap.

    Raises
    ------
    ValueError
        Several symbols or venues, or no instant with a value.
    """
    skew = next((str(name) for name in history.data_vars if str(name).startswith("rr25")), "rr25_forward")
    require_variables(history, "history", ("index_pct", "atmf", skew), dims=("time", "tenor"))
    seen = history[["index_pct", "atmf", skew]].squeeze(
        [dim for dim in history.dims if dim not in ("time", "tenor") and history.sizes[dim] == 1], drop=True
    )
    if set(seen.dims) - {"time", "tenor"}:
        raise ValueError(f"history has dims {tuple(map(str, seen.dims))}: choose one symbol and one venue")
    table = _table(seen, skew)
    if not table.drop(columns="time").notna().to_numpy().any():
        raise ValueError("history has no instant with a value: its status says why")
    upper, lower = strips(ax, 2.0, 1.3)
    days = f"{history.attrs.get('index_days', 30.0):g}-day index"
    upper.plot(table["time"], table["index"], color=PALETTE[0], lw=1.7, label=days)
    for place, tenor in enumerate(seen["tenor"].to_numpy()):
        look: dict[str, Any] = {"color": PALETTE[1 + place % 7], "lw": 1.2}
        upper.plot(table["time"], table[f"atm_{tenor:g}d"], label=f"ATM, {tenor:g} days", **look)
        lower.plot(table["time"], 100 * table[f"rr25_{tenor:g}d"], **look)
    lower.axhline(0, color=GREY, lw=0.8)
    dress(upper, title=f"{symbol + ': ' if symbol else ''}{_finding(table, days)}")
    percent(upper)
    upper.set_ylabel("volatility\n[% per √year]")
    legend(upper, "above")
    dress(lower)
    lower.set_ylabel("risk reversal\n25Δ [points]")
    lower.yaxis.set_major_formatter(lambda value, _: number(value))
    utc_axis(lower)
    footer(lower, history, source=source)
    return keep_frame(upper, table)


def _table(seen: xr.Dataset, skew: str) -> pd.DataFrame:
    columns: dict[str, Any] = {
        "time": seen["time"].to_numpy(),
        "index": seen["index_pct"].to_numpy() / 100.0,
    }
    for name, variable in (("atm", "atmf"), ("rr25", skew)):
        for tenor in seen["tenor"].to_numpy():
            columns[f"{name}_{tenor:g}d"] = seen[variable].sel(tenor=tenor).to_numpy()
    return pd.DataFrame(columns)


def _finding(table: pd.DataFrame, days: str) -> str:
    """Describe the last index, what changed over the window, and who pays for skew."""
    known = table[["time", "index"]].dropna()
    words = "no index: no two expiries lie around it"
    if len(known):
        now, first = 100 * known["index"].iloc[-1], 100 * known["index"].iloc[0]
        span = (known["time"].iloc[-1] - known["time"].iloc[0]) / pd.Timedelta(1, "D")
        words = f"{days} {now:.1f} %, {now - first:+.1f} points in {span:.3g} days"
    skews = [name for name in table if str(name).startswith("rr25")]
    last = table[skews[len(skews) // 2]].dropna()
    if len(last) and np.isfinite(last.iloc[-1]):
        side = "puts" if last.iloc[-1] < 0 else "calls"
        words += f"; {side} {100 * abs(last.iloc[-1]):.1f} richer"
    return words
