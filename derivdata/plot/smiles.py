"""Figure of smiles: quotes, fits, and where a fit allows butterfly arbitrage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import smile as analysis
from derivdata.analysis.status import Status
from derivdata.plot._decorator import figure_function
from derivdata.plot.fits import days, is_fit, listed_expiry, name_of, quotes_of, single
from derivdata.plot.frames import keep_frame
from derivdata.plot.style import (
    GREY,
    SEQUENTIAL,
    SHORT,
    axes,
    dress,
    footer,
    legend,
    mark_clipped,
    percent,
    strips,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["smile"]

_POINTS = 161


@figure_function
def smile(
    quotes: Any,
    fit: xr.Dataset | None = None,
    *,
    expiries: Any = None,
    most: int = 6,
    source: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw implied volatility by log-moneyness: quotes as dots, the fit as a line, and its g(k) below.

    Parameters
    ----------
    quotes
        The table ``options_snapshot``, a surface of ``dd.options.surface``, or what
        ``dd.analysis.chain.smiles`` gave; one chain. A fit alone is drawn without quotes.
    fit
        A fit of ``dd.analysis.smile`` or ``dd.analysis.surface`` to them.
    expiries
        Which expiries; None takes up to `most`, spread over those that there are.
    most
        How many are drawn at most.
    source, ax
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        That of the smiles. Where there is a fit, the strip below shows Durrleman's g between its first and
        last quote: below zero the smile holds a butterfly arbitrage. Bars span bid and ask where the
        quotes have them. The legend says by how much the fit of a surface misses the quotes at the money,
        with a star where that is more than half their spread.

    Raises
    ------
    ValueError
        The data is of several chains, or an expiry is not in it.
    """
    from matplotlib import colormaps

    if is_fit(quotes):
        quotes, fit = None, quotes
    points = None if quotes is None else single(quotes_of(quotes), "a figure of smiles")
    curve = None if fit is None else single(fit, "a figure of smiles")
    shown = points if points is not None else curve
    assert shown is not None
    if curve is not None and not curve.indexes["expiry"].is_unique:
        raise ValueError("fit has an expiry twice")
    if isinstance(expiries, xr.Dataset):
        raise TypeError("expiries must be instants, not a Dataset")
    chosen = _chosen(shown, expiries, most)
    upper, lower = (axes(ax), None) if curve is None else strips(ax, 3.4, 1.2)
    shades = colormaps[SEQUENTIAL](0.25 + 0.62 * np.arange(len(chosen)) / max(len(chosen) - 1, 1))
    for color, expiry in zip(shades, chosen, strict=True):
        _one(upper, lower, _at(points, expiry), _at(curve, expiry), color)
    table = _table(points, curve, chosen)
    upper.axvline(0, color=GREY, lw=0.8)
    dress(upper, title=f"{name_of(shown)}: {_finding(table, chosen)}")
    percent(upper)
    upper.set_ylabel("implied volatility\n[% per √year]")
    has_errors = curve is not None and "atm_error_vol" in curve
    legend(upper, "right", title="expiry, fit − quote\nat the money [points]" if has_errors else "expiry")
    if lower is not None:
        _dress_g(lower, table)
    lowest = upper if lower is None else lower
    lowest.set_xlabel("log-moneyness ln(K/F) [1]")
    footer(lowest, quotes, fit, source=source)
    return keep_frame(upper, table)


def _table(points: xr.Dataset | None, curve: xr.Dataset | None, chosen: pd.DatetimeIndex) -> pd.DataFrame:
    """Return quotes and fitted volatilities by log-moneyness, with Durrleman's g of the fit."""
    rows = []
    for expiry in chosen:
        quotes, fit = _at(points, expiry), _at(curve, expiry)
        if quotes is not None:
            names = [name for name in ("iv", "iv_bid", "iv_ask") if name in quotes]
            part = {name: np.asarray(quotes[name]) for name in names}
            k = np.asarray(quotes["log_moneyness"])
            rows.append(pd.DataFrame({"expiry": expiry, "kind": "quote", "log_moneyness": k} | part))
        if fit is not None and np.isfinite(fit["k_min"]) and np.isfinite(fit["k_max"]):
            k = np.linspace(float(fit["k_min"]), float(fit["k_max"]), _POINTS)
            part = {"iv": np.asarray(analysis.iv(fit, k)), "g": np.asarray(analysis.durrleman(fit, k))}
            rows.append(pd.DataFrame({"expiry": expiry, "kind": "fit", "log_moneyness": k} | part))
    table = pd.concat(rows, ignore_index=True) if rows else pd.DataFrame(columns=["expiry", "kind", "iv"])
    return table[table["iv"].notna()]


def _finding(table: pd.DataFrame, chosen: pd.DatetimeIndex) -> str:
    """Say which wing costs more at the middle expiry drawn, as far out as both wings are known."""
    expiry = chosen[len(chosen) // 2]
    rows = table[table["expiry"] == expiry]
    rows = rows[rows["kind"] == ("fit" if (rows["kind"] == "fit").any() else "quote")]
    rows = rows.sort_values("log_moneyness")
    if rows.empty or not rows["log_moneyness"].min() < 0.0 < rows["log_moneyness"].max():
        return "implied volatility by expiry"
    k = 0.8 * min(-rows["log_moneyness"].min(), rows["log_moneyness"].max())
    low, middle, high = (100 * np.interp([-k, 0.0, k], rows["log_moneyness"], rows["iv"])).tolist()
    side, gap = ("puts", low - high) if low >= high else ("calls", high - low)
    return (
        f"{middle:.1f} % at the money on {expiry:%Y-%m-%d}, {side} {gap:.1f} points richer at |k| = {k:.2g}"
    )


def _chosen(data: xr.Dataset, expiries: Any, most: int) -> pd.DatetimeIndex:
    listed = pd.DatetimeIndex(data["expiry"].values)
    if expiries is None:
        places = np.unique(np.linspace(0, len(listed) - 1, min(most, len(listed))).round().astype(int))
        return listed[places]
    many = [expiries] if isinstance(expiries, str) or np.ndim(expiries) == 0 else list(expiries)
    return pd.DatetimeIndex([listed_expiry(listed, one, "expiries") for one in many])


def _at(data: xr.Dataset | None, expiry: pd.Timestamp) -> xr.Dataset | None:
    if data is None or expiry not in pd.DatetimeIndex(data["expiry"].values):
        return None
    return data.sel(expiry=expiry)


def _one(upper: Axes, lower: Axes | None, points: Any, curve: Any, color: Any) -> None:
    shown = points if points is not None else curve
    label = f"{float(days(shown)):.3g} days"
    if "forward" in shown.coords or "underlying_price" in shown:  # a bare slice has a placeholder date
        label = f"{pd.Timestamp(shown['expiry'].values):%Y-%m-%d}"
    label += _at_the_money_error(curve)
    if points is not None:
        _dots(upper, points, color, "" if curve is not None else label)
    if curve is None or lower is None:
        return
    k = np.linspace(float(curve["k_min"]), float(curve["k_max"]), _POINTS)
    if not np.isfinite(k).all():
        return
    upper.plot(k, analysis.iv(curve, k), color=color, lw=1.4, label=label)
    g = np.asarray(analysis.durrleman(curve, k))
    lower.plot(k, g, color=color, lw=1.2)
    lower.fill_between(k, g, 0.0, where=g < 0, color=SHORT, alpha=0.6, lw=0)


def _at_the_money_error(curve: Any) -> str:
    """Fit less quote at the money [points], with a star beyond half the spread; nothing where not known."""
    if curve is None or "atm_error_vol" not in curve or not np.isfinite(curve["atm_error_vol"]):
        return ""
    star = "*" if int(curve["status"]) & Status.OFF_AT_THE_MONEY else ""
    error = round(100 * float(curve["atm_error_vol"]), 2) + 0.0  # no −0.00
    return f" {error:+.2f}{star}"


def _dots(ax: Axes, points: xr.Dataset, color: Any, label: str) -> None:
    k, iv = np.asarray(points["log_moneyness"]), np.asarray(points["iv"])
    if "iv_bid" in points and "iv_ask" in points:
        ax.vlines(k, points["iv_bid"], points["iv_ask"], color=color, lw=1.0, alpha=0.5)
    finite = np.isfinite(iv)
    ax.plot(k[finite], iv[finite], ".", ms=3.5, color=color, alpha=0.8, label=label or "_quotes")


def _dress_g(ax: Axes, table: pd.DataFrame) -> None:
    dress(ax)
    ax.axhline(0, color=SHORT, lw=1.0)
    low, high = ax.get_ylim()
    ax.set_ylim(min(low, -0.1), min(high, 2.5))
    # One arrowhead per expiry whose g leaves the axes, at its highest and at its lowest.
    curves = table[table["kind"] == "fit"].groupby("expiry")["g"]
    ends = table.loc[pd.concat([curves.idxmax(), curves.idxmin()])]
    mark_clipped(ax, ends["log_moneyness"], ends["g"])
    ax.set_ylabel("g(k) [1]")
