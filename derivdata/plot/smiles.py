"""Figures of single expiries: smiles with their fit and its arbitrage, and the densities that they imply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import ndtr

from derivdata.analysis import smile as analysis
from derivdata.analysis.smile.evaluate import durrleman
from derivdata.analysis.status import Status
from derivdata.analysis.surface import densities
from derivdata.analysis.surface.maturity import at_expiries
from derivdata.analysis.surface.points import points_at_expiries
from derivdata.plot import style
from derivdata.plot.fits import (
    at_the_money,
    chosen_expiries,
    days,
    fit_of,
    fitted,
    instant_of,
    is_fit,
    name_of,
    quotes_of,
    single,
)
from derivdata.plot.frames import Chain, Expiries, Source, figure_function, finish
from derivdata.plot.style import GREY, PALETTE, SHORT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_POINTS = 161
_DENSITY_POINTS = 241
_DENSITY_REACH = 3.5  # standard deviations
_DENSITY_DAYS = (7.0, 30.0, 90.0, 180.0)
_LEAST_DELTA = 0.02


@figure_function
def smile(
    quotes: Chain,
    fit: xr.Dataset | None = None,
    *,
    before: xr.Dataset | None = None,
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
    before
        A fit of an earlier instant, such as a day before: dashed, of the same expiries.
    expiries
        Which expiries; None takes up to `limit`, spread over those that there are.
    limit
        How many are drawn at most.
    source, ax
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        That of the smiles. The axes hold the quotes of 2 delta or more and those with a bid; the others are
        faded. The title gives volatility at the forward, risk reversal and butterfly at 25 delta [points] of
        the middle expiry. Where there is a fit, the strip below shows Durrleman's g between its first and
        last quote: below zero the smile holds a butterfly arbitrage. Bars span bid and ask where the
        quotes have them. The legend says by how much the fit of a surface misses the quotes at the money,
        with a star where that is more than half their spread.

    Raises
    ------
    ValueError
        The data is of several chains, an expiry is not in it, or no option has a volatility.
    """
    alone = isinstance(quotes, xr.Dataset) and is_fit(quotes)
    points = None if alone else single(quotes_of(quotes), "a figure of smiles")
    given = quotes if alone else fit
    curve = None if given is None else single(given, "a figure of smiles")
    past = None if before is None else fitted(single(before, "before, a figure of smiles,"))
    shown = points if points is not None else curve
    assert shown is not None
    if curve is not None and not curve.indexes["expiry"].is_unique:
        raise ValueError("fit has an expiry twice")
    listed = pd.DatetimeIndex(shown["expiry"].to_numpy())
    if listed.empty:
        raise ValueError("no option has an implied volatility")
    chosen = listed[chosen_expiries(listed, expiries, limit)]
    table = _table(points, curve, past, chosen)
    upper, lower = (style.axes(ax), None) if curve is None else style.strips(ax, 3.4, 1.2)
    for color, expiry in zip(style.shades(len(chosen)), chosen, strict=True):
        _one(upper, lower, table[table["expiry"] == expiry], _label(shown, curve, expiry), color)
    upper.axvline(0, color=GREY, lw=0.8)
    title = f"{name_of(shown)}: {_finding(curve, chosen)}"
    style.dress(upper, title=title, y="implied volatility\n[% annualised]", form="percent")
    traded = table[table["traded"]]
    if len(traded):
        for (low, high), limits, least in (
            (np.nanpercentile(traded["log_moneyness"], [0, 100]), upper.set_xlim, 0.01),
            (np.nanpercentile(traded[["iv", "iv_bid", "iv_ask"]], [0, 100]), upper.set_ylim, 0.005),
        ):
            margin = max(0.05 * (high - low), least)
            limits(low - margin, high + margin)
    if past is not None:
        upper.set_ylim(bottom=min(upper.get_ylim()[0], table["iv"][table["kind"] == "before"].min() - 0.005))
        label = f"fit of {instant_of(past):%Y-%m-%d %H:%M}"
        upper.plot([], [], ls="--", color=GREY, lw=1.2, label=label)
    has_errors = curve is not None and "atm_error_vol" in curve
    words = "expiry, fit − quote\nat the money [points]" if has_errors else "expiry"
    style.legend(upper, "right", title=words)
    if lower is not None:
        _dress_g(lower, table)
    lowest = upper if lower is None else lower
    lowest.set_xlabel("log-moneyness ln(K/F) [1]")
    kept = table.drop(columns="traded").dropna(axis=1, how="all")
    return finish(upper, kept, quotes, fit, source=source, lowest=lowest)


def _table(
    points: xr.Dataset | None, curve: xr.Dataset | None, past: xr.Dataset | None, chosen: pd.DatetimeIndex
) -> pd.DataFrame:
    """Return quotes and fitted volatilities by log-moneyness, with Durrleman's g of the fit."""
    columns = ["expiry", "kind", "log_moneyness", "iv", "iv_bid", "iv_ask", "g", "traded"]
    rows = []
    for expiry in chosen:
        quotes = _at(points, expiry)
        if quotes is not None:
            k, iv = np.asarray(quotes["log_moneyness"]), np.asarray(quotes["iv"])
            ends = {n: np.asarray(quotes[n]) for n in ("iv_bid", "iv_ask") if n in quotes}
            deviation = iv * np.sqrt(float(quotes["year_fraction"]))
            # Delta of the option out of the money.
            delta = ndtr(-np.abs(k) / deviation + np.sign(k) * deviation / 2.0)
            traded = (delta >= _LEAST_DELTA) | np.isfinite(ends.get("iv_bid", np.nan))
            rows.append({"kind": "quote", "log_moneyness": k, "iv": iv, "traded": traded, **ends})
            rows[-1]["expiry"] = expiry
        for kind, fits in (("fit", curve), ("before", past)):
            fit = _at(fits, expiry)
            if fit is not None and np.isfinite(fit["k_min"]) and np.isfinite(fit["k_max"]):
                k = np.linspace(float(fit["k_min"]), float(fit["k_max"]), _POINTS)
                line = {"kind": kind, "log_moneyness": k, "iv": np.asarray(analysis.iv(fit, k))}
                rows.append(line | ({"g": np.asarray(durrleman(fit, k))} if kind == "fit" else {}))
                rows[-1]["expiry"] = expiry
    table = pd.concat([pd.DataFrame(row) for row in rows] or [pd.DataFrame()], ignore_index=True)
    table = table.reindex(columns=columns).assign(traded=lambda t: t["traded"].eq(True))
    return table[table["iv"].notna()]


def _finding(curve: xr.Dataset | None, chosen: pd.DatetimeIndex) -> str:
    """Give volatility at the forward, risk reversal and butterfly of the middle expiry drawn."""
    expiry = chosen[len(chosen) // 2]
    if curve is None or "forward" not in curve.coords or expiry not in curve.indexes["expiry"]:
        return "implied volatility by expiry"
    points = points_at_expiries(curve.sel(expiry=[expiry]), ("atm", "rr25", "bf25")).isel(expiry=0)
    atm, reversal, butterfly = (100 * float(points[name]) for name in ("atm", "rr25", "bf25"))
    words = f"ATM {atm:.1f} %, RR25 {reversal:+z.1f}, BF25 {butterfly:+z.1f} points"
    return (
        f"{words.replace('RR25 +nan, BF25 +nan points', '25 delta beyond the quotes')} on {expiry:%Y-%m-%d}"
    )


def _at(data: xr.Dataset | None, expiry: pd.Timestamp) -> xr.Dataset | None:
    if data is None or expiry not in pd.DatetimeIndex(data["expiry"].values):
        return None
    return data.sel(expiry=expiry)


def _label(shown: xr.Dataset, curve: xr.Dataset | None, expiry: pd.Timestamp) -> str:
    """Name an expiry, and fit less quote at the money [points], with a star beyond half the spread."""
    label = f"{float(days(shown.sel(expiry=expiry))):.3g} days"
    if "forward" in shown.coords or "underlying_price" in shown:  # a bare slice has a placeholder date
        label = f"{expiry:%Y-%m-%d}"
    fit = _at(curve, expiry)
    if fit is None or "atm_error_vol" not in fit or not np.isfinite(fit["atm_error_vol"]):
        return label
    star = "*" if int(fit["status"]) & Status.OFF_AT_THE_MONEY else ""
    return f"{label} {round(100 * float(fit['atm_error_vol']), 2) + 0.0:+.2f}{star}"  # no −0.00


def _one(upper: Axes, lower: Axes | None, rows: pd.DataFrame, label: str, color: Any) -> None:
    """Draw one expiry: quotes, those that nobody bids for faded, its fit, the fit before, and g."""
    quotes, fit, past = (rows[rows["kind"] == kind] for kind in ("quote", "fit", "before"))
    for traded, part in quotes.groupby("traded"):
        alpha = 0.8 if traded else 0.2
        upper.vlines(
            part["log_moneyness"], part["iv_bid"], part["iv_ask"], color=color, lw=1.0, alpha=0.6 * alpha
        )
        of = label if traded and lower is None else "_quotes"
        upper.plot(part["log_moneyness"], part["iv"], ".", ms=3.5, color=color, alpha=alpha, label=of)
    upper.plot(past["log_moneyness"], past["iv"], color=color, lw=1.1, ls="--", label="_before")
    if lower is None or fit.empty:
        return
    k, g = fit["log_moneyness"], fit["g"]
    upper.plot(k, fit["iv"], color=color, lw=1.4, label=label)
    lower.plot(k, g, color=color, lw=1.2)
    lower.fill_between(k, g, 0.0, where=g < 0, color=SHORT, alpha=0.6, lw=0)


def _dress_g(ax: Axes, table: pd.DataFrame) -> None:
    style.dress(ax, y="g(k) [1]")
    ax.axhline(0, color=SHORT, lw=1.0)
    low, high = ax.get_ylim()
    ax.set_ylim(min(low, -0.1), min(high, 2.5))
    # One arrowhead per expiry whose g leaves the axes, at its highest and at its lowest.
    curves = table[table["kind"] == "fit"].groupby("expiry")["g"]
    ends = table.loc[pd.concat([curves.idxmax(), curves.idxmin()])]
    style.mark_clipped(ax, ends["log_moneyness"], ends["g"])


@figure_function
def implied_density(
    data: Chain,
    *,
    expiries: Expiries | None = None,
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
        Which expiries; None takes those nearest to a week, a month, and three and six months.
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
    near = [int(np.argmin(np.abs(np.log(days(fit) / target)))) for target in _DENSITY_DAYS]
    places = sorted(set(near)) if expiries is None else chosen_expiries(listed, expiries, len(listed))
    forwards = np.broadcast_to(fit["forward"].to_numpy(), len(listed))
    ax = style.axes(ax)
    tables = []
    for number_of, place in enumerate(places):
        table, inside = _density(fit.isel(expiry=[int(place)]), float(forwards[place]))
        color, density = PALETTE[number_of % len(PALETTE)], 100 * table["density_per_pct"]
        label = f"{listed[place]:%Y-%m-%d}: {style.number(float(forwards[place]))}"
        ax.plot(table["price_usd"], density.where(inside), color=color, lw=1.6, label=label)
        ax.axvline(float(forwards[place]), color=color, lw=0.9, ls=":")
        ax.plot(table["price_usd"], density.where(~inside), color=color, lw=1.0, ls="--")
        tables.append(table)
    whole = pd.concat(tables, ignore_index=True)
    shown = whole[whole["density_per_pct"] > 0.01 * whole["density_per_pct"].max()]["price_usd"]
    ax.set_xlim(shown.min(), shown.max())
    ax.set_ylim(min(0.0, 100 * float(whole["density_per_pct"].min())), None)
    middle = tables[len(tables) // 2]
    ends = np.interp([0.05, 0.95], middle["distribution"], middle["price_usd"]).tolist()
    low, high, when = *map(style.number, ends), f"{middle['expiry'].iloc[0]:%Y-%m-%d}"
    title = f"{name_of(fit)}: 90 % between {low} and {high} USD on {when}"
    style.dress(ax, title=title, x="price at expiry [USD]", y="probability per 1 % of the price [%]")
    style.write(ax.xaxis, "number")
    ax.locator_params(axis="x", nbins=6)
    style.legend(ax, title="expiry: forward, dotted [USD]")
    return finish(ax, whole, data, source=source)


def _density(fit: xr.Dataset, forward: float) -> tuple[pd.DataFrame, pd.Series]:
    """Return the density and distribution of one expiry by price, and which prices the quotes cover."""
    deviation = float(at_the_money(fit).item() * np.sqrt(fit["year_fraction"].item()))
    k = np.linspace(-_DENSITY_REACH, _DENSITY_REACH, _DENSITY_POINTS) * deviation
    cut, places = at_expiries(fit), xr.DataArray(k, dims="log_moneyness")
    density, distribution = (of(cut, places)[0] for of in (densities.density, densities.distribution))
    table = pd.DataFrame(
        {
            "expiry": pd.Timestamp(fit["expiry"].item()),
            "price_usd": forward * np.exp(k),
            "density_per_pct": 0.01 * density.to_numpy(),
            "distribution": distribution.to_numpy(),
        }
    )
    inside = (k >= float(fit["k_min"].item())) & (k <= float(fit["k_max"].item()))
    return table, pd.Series(inside)
