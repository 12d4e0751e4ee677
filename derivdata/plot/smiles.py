"""Figures of single expiries: smiles with their fit, implied densities, and their calibration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import ndtr

from derivdata.analysis import delivery
from derivdata.analysis import smile as analysis
from derivdata.analysis.smile.evaluate import durrleman
from derivdata.analysis.status import Status
from derivdata.analysis.surface import evaluate
from derivdata.analysis.surface.maturity import at_expiries
from derivdata.analysis.surface.points import points_at_expiries
from derivdata.plot import style
from derivdata.plot.fits import (
    apart,
    at_the_money,
    chosen_expiries,
    days,
    fit_of,
    fitted,
    is_fit,
    name_of,
    quotes_of,
    single,
    timestamp_of,
)
from derivdata.plot.frames import Chain, Expiries, Size, Source, figure_function, finish
from derivdata.plot.style import GREY, PALETTE
from derivdata.support.arrays import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_POINTS = 161
_DENSITY_POINTS = 241
_DENSITY_REACH = 3.5  # standard deviations
_DENSITY_DAYS = (7.0, 30.0, 90.0, 180.0)
_MIN_DELTA = 0.02
_SHOWN_DELTA = 0.05
_FEW = 10
"""Dots of at most this many quotes are larger."""
_ARBITRAGE = "#d62728"
_DELTAS = {0.1: "10P", 0.25: "25P", 0.5: "50", 0.75: "25C", 0.9: "10C"}
_PRICE_LABEL = 46.0
"""Width of the label of a price [points]."""
_DELTAS_IN_NARROW = [0.25, 0.5, 0.75]
"""Deltas with a strike on top in a narrow figure."""
"""Labels of the axis of delta, at one minus the call's delta."""


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
    figsize: Size | None = None,
) -> Axes:
    """Draw implied volatility by delta, with strikes on top: quotes as dots, the fit as a line.

    Parameters
    ----------
    quotes
        The table ``options_snapshot``, a surface of ``dd.options.surface``, or a result of
        ``dd.analysis.chain.smiles``; one chain. A fit is drawn without quotes.
    fit
        A fit of ``dd.analysis.smile`` or ``dd.analysis.surface`` to the quotes.
    before
        A fit of an earlier time, such as a day before; drawn dashed for the same expiries.
    expiries
        The expiries; None selects up to `limit`, evenly spread.
    limit
        Maximum number of expiries.
    source, ax, figsize
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        Volatility over the forward delta of the option out of the money: puts at the left, the forward in the
        middle, calls at the right, from 5 delta on. The upper axis has the strikes of the middle expiry at
        these deltas. Quotes below 2 delta without a bid are faded. The title gives the difference of puts and
        calls at 25 delta of the middle expiry [points]. Red parts of a fit have a butterfly arbitrage:
        Durrleman's g is below zero there; ``dd.plot.data(ax)`` has g and log-moneyness. Bars span bid and ask
        where the quotes have them. A star at an expiry means that the fit of a surface misses the quotes at
        the money by more than half their spread.

    Raises
    ------
    ValueError
        The data is of several chains, an expiry is not in it, or no option has a volatility.
    """
    alone = isinstance(quotes, xr.Dataset) and is_fit(quotes)
    points = None if alone else single(quotes_of(quotes), "a figure of smiles")
    for name, other in (("fit", fit), ("before", before)):
        if other is not None and not is_fit(other):
            raise ValueError(
                f"{name} must be a fit of dd.analysis.smile or surface: it needs k_min, k_max, status"
            )
    given = quotes if alone else fit
    curve = None if given is None else single(given, "a figure of smiles")
    past = None if before is None else fitted(single(before, "before, a figure of smiles,"))
    shown = points if points is not None else curve
    assert shown is not None
    if curve is not None and not curve.indexes["expiry"].is_unique:
        raise ValueError("fit must have each expiry once: remove duplicates")
    listed = pd.DatetimeIndex(shown["expiry"].to_numpy())
    if listed.empty:
        raise ValueError("no option has an implied volatility")
    chosen = listed[chosen_expiries(listed, expiries, limit)]
    table = _table(points, curve, past, chosen)
    ax = style.axes(ax)
    ends = _curves(ax, table, shown, curve, chosen)
    title = f"{name_of(shown)}: {_finding(curve, chosen)}{_arbitrage(table)}"
    style.dress(ax, title=title, y="implied volatility [% a year]", form="percent")
    _delta_axis(ax, table)
    key = _key(table, past, ends)
    if "points more than" in title:
        _mark_deltas(ax, table[table["expiry"] == chosen[len(chosen) // 2]])
        key = f"{key}; rings: 25 delta".removeprefix("; ")
    _strikes_on_top(ax, shown, table, chosen, key)
    style.label_ends(ax, ends)
    kept = table.drop(columns="traded").dropna(axis=1, how="all")
    return finish(ax, kept, quotes, fit, source=source)


def _curves(
    ax: Axes, table: pd.DataFrame, shown: xr.Dataset, curve: xr.Dataset | None, chosen: pd.DatetimeIndex
) -> list[tuple[float, str, str]]:
    """Draw each expiry; return the volatility at the right end of its line, its label and its colour."""
    ends = []
    for place, expiry in enumerate(chosen):
        rows = table[table["expiry"] == expiry]
        label = _label(shown, curve, expiry)
        color = str(style.look(place)["color"])
        _draw_expiry(ax, rows, label, color, alone=curve is None)
        line = _fit_or_quotes(rows)
        line = line[line["delta"] <= 1.0 - _SHOWN_DELTA]
        if len(line):
            ends.append((float(line.loc[line["delta"].idxmax(), "iv"]), label, color))
    return ends


def _fit_or_quotes(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the fit of an expiry, or its quotes if it was not fitted."""
    for kind in ("fit", "quote"):
        of_kind = rows[rows["kind"] == kind]
        if len(of_kind):
            break
    return of_kind


def _key(table: pd.DataFrame, past: xr.Dataset | None, ends: list[tuple[float, str, str]]) -> str:
    """Return a key to the dots, lines and stars that the figure has."""
    words = []
    if {"quote", "fit"} <= set(table["kind"]):
        bids = " (bid to ask)" * bool(table["iv_bid"].notna().any())
        words.append(f"dots: quotes{bids}; lines: fit")
        if not _arbitrage(table):
            words[-1] += ", no butterfly arbitrage"
    if past is not None:
        words.append(f"dashed: fit of {timestamp_of(past):%Y-%m-%d %H:%M}")
    if any(label.endswith("*") for _, label, _ in ends):
        words.append("*: fit off the quotes at the money")
    return "; ".join(words)


def _mark_deltas(ax: Axes, rows: pd.DataFrame) -> None:
    """Draw rings at 25 delta on the fit of the expiry in the title."""
    line = rows[rows["kind"] == "fit"].sort_values("delta")
    for place in (0.25, 0.75):
        level = np.interp(place, line["delta"], line["iv"])
        ax.plot([place], [level], "o", ms=9, mfc="none", mec=style.ink(), mew=1.4, zorder=4)


def _delta_axis(ax: Axes, table: pd.DataFrame) -> None:
    """Label the axis of delta, and set the limits to traded quotes and fits."""
    inside = table[table["traded"] | (table["kind"] != "quote")]
    inside = inside[inside["delta"].between(_SHOWN_DELTA, 1.0 - _SHOWN_DELTA)]
    if inside.empty:
        inside = table
    levels = inside[["iv", "iv_bid", "iv_ask"]].to_numpy(dtype=np.float64)
    low = np.nanmin(levels)
    high = np.nanmax(levels)
    margin = max(0.06 * (high - low), 0.005)
    ax.set_ylim(low - margin, high + 1.5 * margin)
    near = inside["delta"]
    ax.set_xlim(min(near.min(), 0.3) - 0.005, max(near.max(), 0.7) + 0.005)
    labels = pd.Series(_DELTAS).loc[slice(*ax.get_xlim())]
    ax.set_xticks(labels.index, labels)
    ax.axvline(0.5, color=GREY, lw=0.8, ls=":")
    ax.set_xlabel("delta [%]: puts (P), calls (C)")


def _strikes_on_top(
    ax: Axes, shown: xr.Dataset, table: pd.DataFrame, chosen: pd.DatetimeIndex, key: str
) -> None:
    """Write the strikes of the middle expiry at the labelled deltas above the axes, and the key over them."""
    expiry = chosen[len(chosen) // 2]
    rows = _fit_or_quotes(table[table["expiry"] == expiry]).sort_values("delta")
    if "forward" not in shown.coords or len(rows) < 2:
        style.note(ax, key)
        return
    level = float(np.max(np.asarray(shown["forward"].sel(expiry=expiry))))
    low, high = ax.get_xlim()
    strikes = f"strikes of {expiry.day} {expiry:%b %Y} [USD]:\n"  # an empty line for the strikes
    style.note(ax, f"{key}\n{strikes}".lstrip("\n"))
    shown_deltas = list(_DELTAS)
    if style.is_narrow(ax):
        shown_deltas = _DELTAS_IN_NARROW  # five strikes would touch
    for place in shown_deltas:
        if max(low, rows["delta"].iloc[0]) <= place <= min(high, rows["delta"].iloc[-1]):
            strike = level * np.exp(np.interp(place, rows["delta"], rows["log_moneyness"]))
            words = _three_digits(strike)
            look: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": 8, "color": style.muted()}
            ax.annotate(words, (place, 1.0), (0, 2), ("data", "axes fraction"), "offset points", **look)


def _three_digits(price: float) -> str:
    """Format a price rounded to three digits: ``152,000``."""
    digits = 10.0 ** (np.floor(np.log10(price)) - 2)
    return style.number(float(np.round(price / digits) * digits))


def _arbitrage(table: pd.DataFrame) -> str:
    """Return a description of a fitted smile's butterfly arbitrage; empty without any."""
    return "; red: butterfly arbitrage" * bool((table["g"] < 0.0).any())


def _table(
    points: xr.Dataset | None, curve: xr.Dataset | None, past: xr.Dataset | None, chosen: pd.DatetimeIndex
) -> pd.DataFrame:
    """Return quotes and fitted volatilities by log-moneyness, with Durrleman's g of the fit."""
    columns = ["expiry", "kind", "log_moneyness", "delta", "iv", "iv_bid", "iv_ask", "g", "traded"]
    rows = []
    for expiry in chosen:
        quotes = _at(points, expiry)
        if quotes is not None:
            k = np.asarray(quotes["log_moneyness"])
            iv = np.asarray(quotes["iv"])
            ends = {n: np.asarray(quotes[n]) for n in ("iv_bid", "iv_ask") if n in quotes}
            deviation = iv * np.sqrt(float(quotes["year_fraction"]))
            # Delta of the option out of the money.
            delta = ndtr(-np.abs(k) / deviation + np.sign(k) * deviation / 2.0)
            traded = (delta >= _MIN_DELTA) | np.isfinite(ends.get("iv_bid", np.nan))
            line = {"kind": "quote", "log_moneyness": k, "iv": iv, "traded": traded, **ends}
            rows.append(line | {"expiry": expiry})
        for kind, fits in (("fit", curve), ("before", past)):
            fit = _at(fits, expiry)
            if fit is not None and np.isfinite(fit["k_min"]) and np.isfinite(fit["k_max"]):
                k = np.linspace(float(fit["k_min"]), float(fit["k_max"]), _POINTS)
                line = {"kind": kind, "log_moneyness": k, "iv": np.asarray(analysis.iv(fit, k))}
                if kind == "fit":
                    line["g"] = np.asarray(durrleman(fit, k))
                rows.append(line | {"expiry": expiry})
    table = pd.concat(map(pd.DataFrame, rows or [{}]), ignore_index=True)
    table = table.reindex(columns=columns).assign(traded=lambda t: t["traded"].eq(True))
    source = points if points is not None else curve
    assert source is not None
    years = pd.Series(
        np.asarray(source["year_fraction"]).ravel(), pd.DatetimeIndex(source["expiry"].to_numpy())
    )
    deviation = table["iv"] * np.sqrt(table["expiry"].map(years[~years.index.duplicated()]))
    # One minus the call's forward delta: 0.1 is the 10-delta put, 0.9 the 10-delta call.
    table["delta"] = ndtr(table["log_moneyness"] / deviation - deviation / 2.0)
    return table[table["iv"].notna()]


def _finding(curve: xr.Dataset | None, chosen: pd.DatetimeIndex) -> str:
    """Return a description of the skew at 25 delta of the middle expiry, or of its ATM volatility."""
    expiry = chosen[len(chosen) // 2]
    if curve is None or "forward" not in curve.coords or expiry not in curve.indexes["expiry"]:
        return "implied volatility by expiry"
    points = points_at_expiries(curve.sel(expiry=[expiry]), ("atm", "rr25")).isel(expiry=0)
    reversal = 100 * float(points["rr25"])
    when = f"{expiry.day} {expiry:%b %Y}"
    if not np.isfinite(reversal):
        atm = 100 * float(points["atm"])
        return f"ATM volatility {atm:.1f} % on {when}, 25 delta is beyond the quotes"
    if reversal < 0:
        return f"25-delta puts cost {-reversal:.1f} points more than calls on {when}"
    return f"25-delta calls cost {reversal:.1f} points more than puts on {when}"


def _at(data: xr.Dataset | None, expiry: pd.Timestamp) -> xr.Dataset | None:
    if data is None or expiry not in pd.DatetimeIndex(data["expiry"].values):
        return None
    return data.sel(expiry=expiry)


def _label(shown: xr.Dataset, curve: xr.Dataset | None, expiry: pd.Timestamp) -> str:
    """Return an expiry's label; a star marks a large error of its fit at the money."""
    label = f"{style.day_words(float(days(shown.sel(expiry=expiry))))}"
    if "forward" in shown.coords or "underlying_price" in shown:  # a bare slice has a placeholder date
        label = f"{expiry.day} {expiry:%b %y}"
    fit = _at(curve, expiry)
    is_off = fit is not None and bool(int(fit["status"]) & Status.OFF_AT_THE_MONEY)
    return label + "*" * is_off


def _draw_expiry(ax: Axes, rows: pd.DataFrame, label: str, color: Any, *, alone: bool) -> None:
    """Draw one expiry: quotes, faded without a bid, its fit with its arbitrage, and the earlier fit."""
    fit = rows[rows["kind"] == "fit"]
    past = rows[rows["kind"] == "before"]
    for traded, group in rows[rows["kind"] == "quote"].groupby("traded"):
        alpha = 0.8 if traded else 0.15
        if group["iv_bid"].notna().any():
            look: dict[str, Any] = {"color": color, "lw": 1.6, "alpha": 0.6 * alpha}
            ax.vlines(group["delta"], group["iv_bid"], group["iv_ask"], **look)
        name = label if traded and alone else "_quotes"
        size = 5.5 if len(group) > _FEW else 8.0
        ax.plot(group["delta"], group["iv"], ".", ms=size, color=color, alpha=alpha, label=name)
    if len(past):
        ax.plot(past["delta"], past["iv"], color=color, lw=1.1, ls="--", label="_before")
    if len(fit):
        ax.plot(fit["delta"], fit["iv"], color=color, lw=1.2, label=label)
        below = fit["iv"].where(fit["g"] < 0.0)
        if below.notna().any():
            ax.plot(fit["delta"], below, color=_ARBITRAGE, lw=3.5, alpha=0.8, label="_arbitrage")


@figure_function
def implied_density(
    data: Chain,
    *,
    expiries: Expiries | None = None,
    source: Source | None = None,
    ax: Axes | None = None,
    figsize: Size | None = None,
) -> Axes:
    """Draw the risk-neutral density of the price at expiry.

    Parameters
    ----------
    data
        A fit of ``dd.analysis.surface`` with its forwards, or the table ``options_snapshot`` or a surface of
        ``dd.options.surface``, to which a surface is fitted first.
    expiries
        The expiries; None selects those nearest to a week, a month, three and six months.
    source, ax, figsize
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        Probability per 1 % of the price; dashed beyond the quotes, where it depends on the fitted wings. The
        density includes the price of risk, so it is not a forecast.

    Raises
    ------
    ValueError
        Several surfaces, no expiry with a fit, an expiry that is not listed, or a fit without forwards.
    """
    fit = fitted(single(fit_of(data), "a density"))
    if "forward" not in fit.variables:
        raise ValueError("data has no forward: pass a fit of surface.from_chain, or a chain")
    listed = pd.DatetimeIndex(fit["expiry"].to_numpy())
    if not listed.is_unique:
        raise ValueError("data must have each expiry once: remove duplicates")
    if expiries is None:
        ratios = np.log(days(fit)[:, None] / np.array(_DENSITY_DAYS))
        places = np.unique(np.argmin(np.abs(ratios), axis=0))
    else:
        places = np.asarray(chosen_expiries(listed, expiries, len(listed)))
    forwards = np.broadcast_to(fit["forward"].to_numpy(), len(listed))
    ax = style.axes(ax)
    tables = []
    has_wings = False
    for index, place in enumerate(places):
        table, inside = _density(fit.isel(expiry=[int(place)]), float(forwards[place]))
        color = PALETTE[index % len(PALETTE)]
        density = 100 * table["density_per_pct"]
        label = f"{listed[place].day} {listed[place]:%b %Y}"
        ax.plot(table["price_usd"], density.where(inside), color=color, lw=1.6, label=label)
        ax.plot(table["price_usd"], density.where(~inside), color=color, lw=1.0, ls="--")
        has_wings = has_wings or not inside.all()
        tables.append(table)
    densities = pd.concat(tables, ignore_index=True)
    is_shown = densities["density_per_pct"] > 0.01 * densities["density_per_pct"].max()
    shown = densities[is_shown]["price_usd"]
    # Probability per 1 % is a density of the logarithm: over it, an area is a probability.
    ax.set_xscale("log")
    ax.set_xlim(shown.min(), shown.max())
    ax.set_ylim(min(0.0, 100 * float(densities["density_per_pct"].min())), None)
    middle = tables[len(tables) // 2]
    ends = np.interp([0.05, 0.95], middle["distribution"], middle["price_usd"]).tolist()
    within = middle[middle["price_usd"].between(*ends)]
    color = PALETTE[len(tables) // 2 % len(PALETTE)]
    ax.fill_between(within["price_usd"], 100 * within["density_per_pct"], color=color, alpha=0.2, lw=0)
    low, high = map(_three_digits, ends)
    when = middle["expiry"].iloc[0]
    title = f"{name_of(fit)}: risk-neutral probability of 90 % between {low} and {high} USD"
    title += f" on {when.day} {when:%b %Y}"
    x = "price at expiry [USD], log scale"
    style.dress(ax, title=title, x=x, y="probability per 1 % of the price [%]")
    _price_ticks(ax)
    bottom, top = ax.get_ylim()
    ax.set_ylim(bottom, bottom + 1.12 * (top - bottom))  # space for a name at the highest peak
    _name_densities(ax, tables, forwards[places])
    shaded = f"shaded: 90 % on {when.day} {when:%b}; area is probability"
    style.note(ax, shaded + "; dashed: beyond the quotes" * has_wings)
    return finish(ax, densities, data, source=source)


def _price_ticks(ax: Axes) -> None:
    """Put ticks at round prices of a logarithmic axis, as far apart as their labels need."""
    from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

    low, high = ax.get_xlim()
    ticks = np.asarray(MaxNLocator(8, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high))
    inside = ticks[(ticks >= low) & (ticks <= high)]
    label = np.log(high / low) * _PRICE_LABEL / (0.72 * style.cell_width(ax))
    ax.xaxis.set_major_locator(FixedLocator(inside[apart(np.log(inside), label)].tolist()))
    ax.xaxis.set_minor_locator(NullLocator())
    style.write(ax.xaxis, "number")


def _name_densities(ax: Axes, tables: list[pd.DataFrame], forwards: Array) -> None:
    """Write expiry and forward where a density is furthest above the others, right of its peak."""
    prices = np.geomspace(*ax.get_xlim(), _DENSITY_POINTS)
    levels = [
        np.interp(prices, table["price_usd"], 100 * table["density_per_pct"], left=0.0, right=0.0)
        for table in tables
    ]
    for place, (table, forward) in enumerate(zip(tables, forwards, strict=True)):
        others = np.max([*levels[:place], *levels[place + 1 :], np.zeros(len(prices))], axis=0)
        is_right = prices > 1.01 * prices[np.argmax(levels[place])]
        best = int(np.argmax(np.where(is_right, levels[place] - others, -np.inf)))
        when = table["expiry"].iloc[0]
        words = f"{when.day} {when:%b %Y},\nforward {style.number(float(forward))}"
        look: dict[str, Any] = {"textcoords": "offset points", "fontsize": 8, "va": "bottom"}
        color = PALETTE[place % len(PALETTE)]
        ax.annotate(words, (prices[best], levels[place][best]), (5, 0), color=color, **look)


def _density(fit: xr.Dataset, forward: float) -> tuple[pd.DataFrame, pd.Series]:
    """Return density and distribution of one expiry by price, and whether quotes cover each price."""
    deviation = float(at_the_money(fit).item() * np.sqrt(fit["year_fraction"].item()))
    k = np.linspace(-_DENSITY_REACH, _DENSITY_REACH, _DENSITY_POINTS) * deviation
    cut = at_expiries(fit)
    places = xr.DataArray(k, dims="log_moneyness")
    density = evaluate.density(cut, places)[0]
    distribution = evaluate.distribution(cut, places)[0]
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


@figure_function
def calibration(
    probability: xr.DataArray,
    *,
    source: Source | None = None,
    ax: Axes | None = None,
    figsize: Size | None = None,
) -> Axes:
    """Draw the number of deliveries in each decile of the densities that options implied before.

    Parameters
    ----------
    probability
        Result of ``dd.analysis.delivery.probabilities``, of any dims.
    source, ax, figsize
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        A bar for each decile. The line is a tenth of the deliveries, the expected number if the densities are
        right; the band is its 90 % interval for independent deliveries.

    Raises
    ------
    ValueError
        `probability` has no finite value.
    """
    from scipy.stats import binom  # slow to import, and needed only here

    result = delivery.calibration(probability)
    count = int(result["count"])
    if not count:
        raise ValueError("probability has no finite value: no delivery has an earlier density")
    values = probability.to_numpy()
    counts, edges = np.histogram(values[np.isfinite(values)], np.linspace(0.0, 1.0, 11))
    ax = style.axes(ax)
    ax.bar(10 * edges[:-1] + 0.5, counts, 0.9, color=PALETTE[0])
    low, high = (float(binom.ppf(quantile, count, 0.1)) for quantile in (0.05, 0.95))
    ax.axhspan(low, high, color=GREY, alpha=0.2, lw=0, label="90 % interval if calibrated")
    ax.axhline(count / 10, color=GREY, lw=1.0, ls="--", label="expected")
    ax.set_xlim(0, 10)
    ax.locator_params(axis="y", integer=True)
    inside = 100 * float(result["inside"].sel(interval=0.8))
    chance = f"test of uniformity p = {float(result['p_value']):.2g}"
    title = f"{inside:.0f} % of {count} deliveries in the central 80 %; {chance}"
    place = "place in the distribution [tenths, from the lowest prices]"
    style.dress(ax, title=title, x=place, y="deliveries [1]", form="number")
    style.legend(ax, "above")
    table = pd.DataFrame({"probability": edges[:-1], "deliveries": counts})
    return finish(ax, table, probability, source=source)
