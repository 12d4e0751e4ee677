"""Figures of single expiries: smiles with their fit and its arbitrage, and the densities that they imply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import risk_neutral
from derivdata.analysis import smile as analysis
from derivdata.analysis.smile.evaluate import durrleman
from derivdata.analysis.status import Status
from derivdata.plot.fits import (
    at_the_money,
    chosen_expiries,
    days,
    fit_of,
    fitted,
    is_fit,
    name_of,
    quotes_of,
    single,
)
from derivdata.plot.frames import Chain, Expiries, Source, figure_function, keep_frame
from derivdata.plot.style import (
    GREY,
    PALETTE,
    SEQUENTIAL,
    SHORT,
    axes,
    dress,
    footer,
    legend,
    mark_clipped,
    number,
    percent,
    strips,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_POINTS = 161
_DENSITY_POINTS = 241
_DENSITY_REACH = 3.5  # standard deviations


@figure_function
def smile(
    quotes: Chain,
    fit: xr.Dataset | None = None,
    *,
    expiries: Expiries | None = None,
    limit: int = 6,
    source: Source | None = None,
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
        Which expiries; None takes up to `limit`, spread over those that there are.
    limit
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

    alone = isinstance(quotes, xr.Dataset) and is_fit(quotes)
    points = None if alone else single(quotes_of(quotes), "a figure of smiles")
    given = quotes if alone else fit
    curve = None if given is None else single(given, "a figure of smiles")
    shown = points if points is not None else curve
    assert shown is not None
    if curve is not None and not curve.indexes["expiry"].is_unique:
        raise ValueError("fit has an expiry twice")
    listed = pd.DatetimeIndex(shown["expiry"].to_numpy())
    chosen = listed[chosen_expiries(listed, expiries, limit)]
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
            part = {"iv": np.asarray(analysis.iv(fit, k)), "g": np.asarray(durrleman(fit, k))}
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
    g = np.asarray(durrleman(curve, k))
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


@figure_function
def implied_density(
    data: Chain,
    *,
    expiries: Expiries | None = None,
    limit: int = 3,
    source: Source | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw how likely options hold each price at expiry to be, under the risk-neutral measure.

    Parameters
    ----------
    data
        A fit of ``dd.analysis.surface`` with its forwards, or the table ``options_snapshot`` or a surface of
        ``dd.options.surface``, to which a surface is fitted first.
    expiries
        As in `smile`.
    limit
        How many are drawn at most.
    source, ax
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        Probability per 1 % of the price; dashed beyond the quotes, where it depends on the fitted wings. It
        prices options and is no forecast: the price of risk is in it.

    Raises
    ------
    ValueError
        Several surfaces, no expiry with a fit, an expiry that is not listed, or a fit without forwards.
    """
    fit = fitted(single(fit_of(data), "a density"))
    if "forward" not in fit.variables:
        raise ValueError("data has no forward: give a fit of surface.from_chain, or a chain")
    listed = pd.DatetimeIndex(fit["expiry"].to_numpy())
    if not listed.is_unique:
        raise ValueError("data has an expiry twice")
    places = chosen_expiries(listed, expiries, limit)
    forwards = np.broadcast_to(fit["forward"].to_numpy(), len(listed))
    ax = axes(ax)
    tables = []
    for number_of, place in enumerate(places):
        table, inside = _density(fit.isel(expiry=[int(place)]), float(forwards[place]))
        color, density = PALETTE[number_of % len(PALETTE)], 100 * table["density_per_pct"]
        ax.plot(
            table["price_usd"],
            density.where(inside),
            color=color,
            lw=1.6,
            label=f"{listed[place]:%Y-%m-%d}: {number(float(forwards[place]))}",
        )
        ax.axvline(float(forwards[place]), color=color, lw=0.9, ls=":")
        ax.plot(table["price_usd"], density.where(~inside), color=color, lw=1.0, ls="--")
        tables.append(table)
    whole = pd.concat(tables, ignore_index=True)
    shown = whole[whole["density_per_pct"] > 0.01 * whole["density_per_pct"].max()]["price_usd"]
    ax.set_xlim(shown.min(), shown.max())
    ax.set_ylim(min(0.0, 100 * float(whole["density_per_pct"].min())), None)
    middle = tables[len(tables) // 2]
    low, high = np.interp([0.05, 0.95], middle["distribution"], middle["price_usd"])
    when = f"{middle['expiry'].iloc[0]:%Y-%m-%d}"
    dress(ax, title=f"{name_of(fit)}: 90 % between {number(low)} and {number(high)} USD on {when}")
    ax.set(xlabel="price at expiry [USD]", ylabel="probability per 1 % of the price [%]")
    ax.xaxis.set_major_formatter(lambda value, _: number(value))
    legend(ax, title="expiry: forward, dotted [USD]")
    footer(ax, data, source=source)
    return keep_frame(ax, whole)


def _density(fit: xr.Dataset, forward: float) -> tuple[pd.DataFrame, pd.Series]:
    """Return the density and distribution of one expiry by price, and which prices the quotes cover."""
    deviation = float(at_the_money(fit).item() * np.sqrt(fit["year_fraction"].item()))
    k = np.linspace(-_DENSITY_REACH, _DENSITY_REACH, _DENSITY_POINTS) * deviation
    found = risk_neutral.density(fit, k).isel(expiry=0)
    table = pd.DataFrame(
        {
            "expiry": pd.Timestamp(fit["expiry"].item()),
            "price_usd": forward * np.exp(k),
            "density_per_pct": 0.01 * found["density"].to_numpy(),
            "distribution": found["distribution"].to_numpy(),
        }
    )
    inside = (k >= float(fit["k_min"].item())) & (k <= float(fit["k_max"].item()))
    return table, pd.Series(inside)
