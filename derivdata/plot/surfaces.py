"""Figures of volatility surfaces, and the summary card of a fit or a surface."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import smile as smile_functions
from derivdata.analysis import surface as analysis
from derivdata.analysis.panels import hours_of, require_variables
from derivdata.analysis.smile.evaluate import Method
from derivdata.plot import frames, style
from derivdata.plot.fits import (
    apart,
    at_the_money,
    days,
    expiry_axis,
    expiry_label,
    fit_of,
    fitted,
    is_fit,
    name_of,
    single,
    verdicts,
)
from derivdata.plot.frames import Chain, Engine, Size, Source, figure_function, finish, long_table
from derivdata.plot.smiles import smile
from derivdata.plot.style import SEQUENTIAL
from derivdata.support.arrays import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_ACROSS = 81
_MIN_DISTANCE = 22.0
"""Minimum distance of columns with written values [points]."""
_MARGIN = 1.07
"""Ends of the axis as multiple of the largest distance."""
_WRITTEN_AT = (-2.0, -1.0, 0.0, 1.0, 2.0)
"""Moneyness of the written values [standard deviations]; the title compares two of them."""
_NEAR_DAYS = 7.0
_COMPARED = 1.0
"""Distance from the forward at which the title compares volatilities [standard deviations]."""
_WHOLE = 2.0
"""Smallest difference from which on the title has whole points."""
_OUTER = 0.055
"""Minimum half width of the outer columns, as a fraction of the axis, for their written values."""
_FARTHEST = 20.0
_DEVIATIONS = (-1.5, 0.0, 1.5)
"""Moneyness at which venues are compared."""
_HEADINGS = ("puts,\n−1.5 σ", "at the\nforward", "calls,\n+1.5 σ")


@figure_function
def surface(
    data: Chain,
    *,
    reach: float = 2.0,
    source: Source | None = None,
    ax: Axes | None = None,
    figsize: Size | None = None,
    engine: Engine = "matplotlib",
) -> Axes | Any:
    """Draw implied volatility over moneyness and listed expiries as a heat map.

    Parameters
    ----------
    data
        A fit of ``dd.analysis.surface``, or the table ``options_snapshot`` or a surface of
        ``dd.options.surface``, to which a surface is fitted first.
    reach
        Range of moneyness on both sides of the forward, in at-the-money standard deviations.
    source, ax, figsize, engine
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes, or a plotly Figure
        Moneyness is ln(K/F) over the at-the-money standard deviation, so that short and long expiries are
        comparable. Time to expiry has a logarithmic scale. Each column is a listed expiry and extends half
        way to the next; nothing is interpolated between expiries or drawn outside the quotes. Values are
        written into the columns [%]; a narrow figure has them in place of a colour scale. The title compares
        volatility one standard deviation below and above the forward [points].

    Raises
    ------
    ValueError
        There are several surfaces, or fewer than two expiries with a fit.
    """
    if not 0 < reach <= _FARTHEST:
        raise ValueError(
            f"reach must be above 0 and at most {_FARTHEST:g} standard deviations, got {reach:g}"
        )
    fit = fitted(single(fit_of(data), "a figure of a surface"))
    if fit.sizes["expiry"] < 2:
        raise ValueError("data must have at least two expiries with a fit: draw one with dd.plot.smile")
    spread = xr.DataArray(np.linspace(-reach, reach, _ACROSS), dims="deviation")
    k = at_the_money(fit) * np.sqrt(fit["year_fraction"]) * spread
    iv = np.asarray(smile_functions.iv(fit, k).transpose("deviation", "expiry"))
    expiries = pd.DatetimeIndex(fit["expiry"].to_numpy())
    tenors = days(fit)
    title = f"{name_of(fit)}: {_finding(iv, spread.to_numpy(), tenors)}"
    table = pd.DataFrame(
        {
            "expiry": np.tile(expiries, _ACROSS),
            "days": np.tile(tenors, _ACROSS),
            "deviations": np.repeat(spread.to_numpy(), len(expiries)),
            "iv": iv.ravel(),
        }
    ).dropna()
    columns = np.arange(len(expiries))
    labels = list(map(expiry_label, expiries, tenors))
    x = "listed expiry [UTC], time to expiry [days]"
    y = "distance from the forward\n[standard deviations σ]"
    unit = "implied volatility [% annualised]"
    if engine == "plotly":
        hover = "%{customdata}<br>%{y:+.2f} standard deviations<br>%{z:.2f} % annualised"
        names = np.tile([label.replace("\n", " ") for label in labels], (_ACROSS, 1))
        place = {"x": columns, "y": spread, "customdata": names, "colorscale": SEQUENTIAL}
        strip = frames.Strip([frames.plotly_heat_map(100 * iv, unit, hover, **place)], y)
        few = apart(columns, len(expiries) / 4)  # maximum on a narrow screen
        ticks: Any = {"tickvals": few, "ticktext": list(map(frames.plotly_text, np.array(labels)[few]))}
        return frames.plotly_figure([strip], title, table, data, source=source, label=x, **ticks)
    ax = style.axes(ax)
    edges = _edges(tenors)
    half = reach / (_ACROSS - 1)
    heights = np.linspace(-reach - half, reach + half, _ACROSS + 1)
    heights[[0, -1]] = -_MARGIN * reach, _MARGIN * reach  # space for the outermost numbers
    drawn = ax.pcolormesh(edges, heights, 100 * iv, cmap=SEQUENTIAL, rasterized=True)
    expiry_axis(ax, tenors, expiries)
    ax.set(xlim=(edges[0], edges[-1]), ylim=(heights[0], heights[-1]))
    _write_values(ax, drawn, tenors, edges, spread.to_numpy(), 100 * iv)
    style.dress(ax, title=title, y=y, grid="")
    ax.locator_params(axis="y", nbins=5, steps=[1, 2, 5, 10])
    if style.is_narrow(ax):
        style.note(ax, f"colour and numbers: {unit}")
    else:
        scale = style.colorbar(ax, drawn, unit)
        scale.locator_params(axis="y", nbins=6, steps=[1, 2, 5, 10])
    return finish(ax, table, data, source=source)


def _edges(tenors: Array) -> Array:
    """Return the edges of columns, half way between expiries on a logarithmic axis."""
    logs = np.log(tenors)
    middle = (logs[1:] + logs[:-1]) / 2.0
    minimum = _OUTER * (logs[-1] - logs[0])
    first = logs[0] - max(middle[0] - logs[0], minimum)
    last = logs[-1] + max(logs[-1] - middle[-1], minimum)
    edges: Array = np.exp(np.r_[first, middle, last])
    return edges


def _write_values(ax: Axes, drawn: Any, tenors: Array, edges: Array, spread: Array, iv: Array) -> None:
    """Write volatilities into the columns that are far enough apart [%]."""
    per_log = 0.72 * style.cell_width(ax) / np.log(edges[-1] / edges[0])
    look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 8.0}
    for column in apart(per_log * np.log(tenors), _MIN_DISTANCE):
        for deviation in _WRITTEN_AT:
            if abs(deviation) > spread[-1]:
                continue  # outside the axes
            row = int(np.argmin(np.abs(spread - deviation)))
            value = iv[row, column]
            if np.isfinite(value):
                # Low values have dark cells.
                ink = "#fcfcfc" if drawn.norm(value) < 0.6 else "#101010"
                ax.text(tenors[column], spread[row], f"{value:.1f}", color=ink, **look)


def _finding(iv: Array, spread: Array, tenors: Array) -> str:
    """Describe drawn volatility below minus above the forward for a near and the last expiry, or ATM."""
    near = int(np.argmin(np.abs(np.log(tenors / _NEAR_DAYS))))
    columns = sorted({near, len(tenors) - 1})
    spans = [f"{tenors[column]:.0f} days" for column in columns]
    below = int(np.argmin(np.abs(spread + _COMPARED)))
    above = len(spread) - 1 - below
    skews = 100.0 * (iv[below, columns] - iv[above, columns])
    if not np.isfinite(skews).all():
        atm = 100.0 * iv[len(spread) // 2, columns]
        levels = [f"{level:.1f} % in {span}" for level, span in zip(atm, spans, strict=True)]
        return f"volatility at the money is {' and '.join(levels)}"
    distance = f"{spread[above]:.2g} σ"
    # Differences of the written values, which have one digit, may differ from a skew by 0.1.
    digits = 0 if np.min(np.abs(skews)) >= _WHOLE else 1
    if np.min(skews) < 0.0 < np.max(skews):
        sides = []
        for skew, span in zip(skews, spans, strict=True):
            relation = "higher" if skew > 0.0 else "lower"
            sides.append(f"{abs(skew):.{digits}f} points {relation} in {span}")
        return (
            f"volatility {distance} below the forward, compared with {distance} above: {' and '.join(sides)}"
        )
    relation = "higher"
    if np.mean(skews) < 0.0:
        relation = "lower"
        skews = 0.0 - skews  # not -skews, which would write -0.0
    amounts = [f"{skew:.{digits}f} points in {span}" for skew, span in zip(skews, spans, strict=True)]
    places = f"{distance} below the forward is {relation} than {distance} above"
    return f"volatility {places}, by {' and '.join(amounts)}"


@figure_function
def venue_difference(
    data: Chain,
    *,
    reference: str = "deribit",
    tenors: Sequence[str | pd.Timedelta] = ("7d", "30d", "90d", "180d"),
    source: Source | None = None,
    ax: Axes | None = None,
    figsize: Size | None = None,
) -> Axes:
    """Draw the difference in implied volatility between venues and a reference, by tenor and moneyness.

    Parameters
    ----------
    data
        A fit of ``dd.analysis.surface`` with dim ``exchange``, or the tables ``options_snapshot`` of one
        symbol on several venues in one frame, to which surfaces are fitted first.
    reference
        Reference venue.
    tenors
        Times to expiry.
    source, ax, figsize
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        A line for each venue: puts 1.5 standard deviations below the forward, options at the forward, and
        calls 1.5 above it. The standard deviation is the reference's at the money. A dot is the median over
        the tenors at which both venues have quotes, and a bar their range. The data of the figure has every
        tenor.

    Raises
    ------
    ValueError
        There is only one venue, the reference is missing, or there are several symbols or times.
    """
    if not len(tenors):
        raise ValueError("tenors must have at least one time to expiry")
    fit = fit_of(data)
    gap = _differences(fit, reference, [hours_of(tenor, "tenors") / 24.0 for tenor in tenors])
    order = gap.isel(deviation=len(_DEVIATIONS) // 2).median("days").to_series()
    venues = list(order.sort_values(ascending=False, na_position="last").index)
    cells = 100.0 * gap.sel(exchange=venues).transpose("deviation", "exchange", "days").to_numpy()
    symbol = "options"
    if "symbol" in fit.coords and fit["symbol"].ndim == 0:
        symbol = str(fit["symbol"].item())
    tenor_words = [f"{tenor:g}" for tenor in gap["days"].to_numpy()]
    spans = " and ".join(filter(None, [", ".join(tenor_words[:-1]), tenor_words[-1]])) + " days"
    ax = style.axes(ax)
    y = f"volatility minus that of {reference}\n[points]"
    style.dress(ax, title=f"{symbol}: {_largest(gap, reference)}", x="strike [σ from the forward]", y=y)
    ax.locator_params(axis="y", nbins=6, steps=[1, 2, 5, 10])
    style.note(ax, f"dot: median of {spans}; bar: their range" if len(tenor_words) > 1 else f"in {spans}")
    ax.set_xticks(_DEVIATIONS, _HEADINGS)
    ax.set_xlim(_DEVIATIONS[0] - 0.4, _DEVIATIONS[-1] + 0.4)
    _draw_differences(ax, venues, cells, reference)
    named = [(venue, day) for venue in venues for day in gap["days"].to_numpy()]
    rows = cells.transpose(1, 2, 0).reshape(len(named), -1)
    table = long_table(pd.DataFrame(rows, columns=_DEVIATIONS), "row", "deviations", "difference_points")
    labels = pd.DataFrame(named, columns=["exchange", "days"]).iloc[table["row"]].reset_index(drop=True)
    table = pd.concat([labels, table.drop(columns="row").astype(float)], axis=1)
    return finish(ax, table, data, source=source)


def _draw_differences(ax: Axes, venues: list[str], cells: Array, reference: str) -> None:
    """Draw the medians over times to expiry as a line for each venue, with their ranges and values.

    `cells` has the dims moneyness, venue and time to expiry.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a venue may have no quotes at a moneyness
        middle, low, high = np.nanmedian(cells, axis=2), np.nanmin(cells, axis=2), np.nanmax(cells, axis=2)
    ax.axhline(0.0, color=style.GREY, lw=1.0)
    ends = [(0.0, reference, style.GREY)]
    for place, venue in enumerate(venues):
        look = style.look(place)
        ax.vlines(_DEVIATIONS, low[:, place], high[:, place], color=look["color"], lw=5.0, alpha=0.35)
        ax.plot(_DEVIATIONS, middle[:, place], "o", ms=5, lw=1.6, **look)
        present = middle[np.isfinite(middle[:, place]), place]
        if present.size:
            ends.append((float(present[-1]), venue, str(look["color"])))
        for deviation, value in zip(_DEVIATIONS, middle[:, place], strict=True):
            if np.isfinite(value):
                where: dict[str, Any] = {"xytext": (0, 7), "textcoords": "offset points"}
                where |= {"ha": "center", "fontsize": 8}
                style.lift(ax.annotate(f"{value:+.2f}", (deviation, value), **where))
    ax.margins(y=0.12)
    style.label_ends(ax, ends)


def _largest(gap: xr.DataArray, reference: str) -> str:
    """Return a description of the venue with the largest median difference at the forward."""
    level = gap.isel(deviation=len(_DEVIATIONS) // 2).median("days")
    if not np.isfinite(level).any():
        return f"no quotes to compare with those of {reference}"
    venue = str(abs(level).idxmax("exchange").item())
    value = 100.0 * float(level.sel(exchange=venue))
    side = "higher" if value >= 0.0 else "lower"
    words = f"{venue} differs most from {reference}: its volatility is {abs(value):.2f} points {side}"
    return f"{words} at the forward"


def _differences(fit: xr.Dataset, reference: str, days: Sequence[float]) -> xr.DataArray:
    venues: list[str] = []
    if "exchange" in fit.dims:
        venues = list(map(str, fit["exchange"].values))
    if len(venues) < 2 or reference not in venues:
        raise ValueError(
            f"data must have the reference {reference!r} and another venue, got {venues or 'one venue'}"
        )
    if len(set(venues)) < len(venues):
        raise ValueError(f"data must have each exchange once, got {venues}")
    require_variables(fit, "data", ("method", "year_fraction"))
    for dim in fit["method"].dims:
        if dim not in ("exchange", "expiry"):
            raise ValueError(f"data must not have the dim {str(dim)!r}: select one symbol and one time")
    maturity = xr.DataArray(
        np.asarray(days, dtype=np.float64) / 365.0, dims="days", coords={"days": list(days)}
    )
    spread = xr.DataArray(np.array(_DEVIATIONS), dims="deviation")
    basis = fit.sel(exchange=reference, drop=True).dropna("expiry", subset=["year_fraction"])
    k = analysis.iv(basis, 0.0, maturity, wings=True) * np.sqrt(maturity) * spread
    iv = analysis.iv(fit, k, maturity)
    return (iv - iv.sel(exchange=reference, drop=True)).drop_sel(exchange=reference).compute()


@dataclass(frozen=True)
class Card:
    """Facts by name, a table with a row per expiry, and a PNG. A notebook displays all of them."""

    title: str
    facts: dict[str, str]
    table: pd.DataFrame
    picture: bytes = field(repr=False)

    def __repr__(self) -> str:
        facts = "\n".join(f"{name}: {value}" for name, value in self.facts.items())
        return f"{self.title}\n{facts}\n{self.table.to_string(index=False)}"

    def _repr_html_(self) -> str:
        facts = " · ".join(f"{escape(name)}: <b>{escape(value)}</b>" for name, value in self.facts.items())
        drawn = ""
        if self.picture:
            image = base64.b64encode(self.picture).decode()
            drawn = f'<img alt="{escape(self.title)}" src="data:image/png;base64,{image}">'
        table = self.table.to_html(index=False, border=0, na_rep="")
        flex = "display: flex; flex-wrap: wrap; align-items: flex-start; gap: 1em"
        return f'<div><b>{escape(self.title)}</b><br>{facts}<div style="{flex}">{drawn}{table}</div></div>'


@figure_function
def card(data: xr.Dataset) -> Card:
    """Summarise a fit (parameters, error, arbitrage, a small picture) or a surface of quotes.

    Parameters
    ----------
    data
        A fit of ``dd.analysis.smile`` or ``dd.analysis.surface`` to one chain, or a surface of
        ``dd.options.surface``.

    Returns
    -------
    Card
        Volatilities in percent and errors in points.

    Raises
    ------
    TypeError
        `data` is not a fit or a surface.
    ValueError
        `data` is of several chains.
    """
    if is_fit(data):
        return _of_fit(single(data, "a card"))
    if isinstance(data, xr.Dataset) and {"iv", "observed"} <= set(data.data_vars):
        return _of_quotes(data)
    raise TypeError(f"data must be a fit or a surface of dd.options.surface, got {type(data).__name__}")


def _of_fit(fit: xr.Dataset) -> Card:
    parameters = ("theta", "rho", "psi") if "theta" in fit else ("a", "b", "rho", "m", "sigma")
    require_variables(fit, "data", ("n", "method", "rmse_vol", *parameters))
    words = verdicts(fit)
    level = at_the_money(fit).values
    defects = ", ".join(words).split(", ")
    error = 100 * fit["rmse_vol"].values
    alive = np.isfinite(level)
    methods = [Method(int(m)).name.lower() for m in np.unique(fit["method"].values[alive])]
    table: dict[str, Any] = {
        "days": days(fit).round(2),
        "ATM [%]": (100 * level).round(2),
    }
    for name in parameters:
        table[name] = [float(f"{value:.4g}") for value in fit[name].values]
    table |= {"quotes": fit["n"].values, "error [points]": error.round(4), "status": words}
    arbitrage = [kind for kind in ("butterfly", "calendar") if kind in defects]
    facts = {
        "fit": str(fit.attrs.get("surface", ", ".join(methods) or "none")),
        "expiries": f"{alive.sum()} of {alive.size} fitted",
        **_errors(fit),
        "arbitrage": ", ".join(arbitrage) or "none",
    }
    picture = b""
    if alive.sum() > 1:
        picture = _picture(surface, fit)
    elif alive.any():
        picture = _picture(smile, fit)  # a surface needs two expiries
    return Card(name_of(fit), facts, pd.DataFrame(table), picture)


def _errors(fit: xr.Dataset) -> dict[str, str]:
    """Return a description of the errors of the fit at the money and over all quotes."""
    names = {"error at the money": "atm_error_vol", "error of all quotes": "rmse_vol"}
    facts = {}
    tenors = days(fit)
    for words, name in names.items():
        if name not in fit:
            continue
        error = 100 * np.abs(fit[name].values)
        if np.isfinite(error).any():
            worst = int(np.nanargmax(error))
            middle = style.number(float(np.nanmedian(error)))
            largest = style.number(float(error[worst]))
            facts[words] = f"median {middle}, largest {largest} points at {tenors[worst]:.3g} days"
    if not facts:
        facts["error"] = "unknown"
    return facts | _share_inside(fit)


def _share_inside(fit: xr.Dataset) -> dict[str, str]:
    """Return the share of two-sided quotes that contain the fit, and the largest distance outside them."""
    if "two_sided" not in fit:
        return {}
    counts = fit["two_sided"].values
    count = int(counts.sum())
    if not count:
        return {}
    inside = style.number(100 * float(np.nansum(fit["inside_share"].values * counts)) / count)
    breach = 100 * fit["breach_vol"].values
    worst = int(np.nanargmax(breach))
    of_quotes = f"{inside} % of {count:,} two-sided quotes"
    text = f"{of_quotes}, no breach"
    if breach[worst] > 0.0:
        points = style.number(float(breach[worst]))
        text = f"{of_quotes}, largest breach {points} points at {days(fit)[worst]:.3g} days"
    return {"fit between bid and ask": text}


def _of_quotes(data: xr.Dataset) -> Card:
    require_variables(data, "data", ("underlying_price", "open_interest", "year_fraction"))
    seen = data["observed"]
    table = {
        "days": days(data).round(2),
        "underlying [USD]": data["underlying_price"].values.round(2),
        "calls": seen.sel(side="call").sum("strike").values,
        "puts": seen.sel(side="put").sum("strike").values,
        "with iv": data["iv"].notnull().sum(("strike", "side")).values,
        "open interest": data["open_interest"].sum(("strike", "side"), min_count=1).values,
    }
    facts = {
        "options": f"{int(seen.sum()):,}",
        "expiries": str(data.sizes["expiry"]),
        "strikes": str(data.sizes["strike"]),
        "as of": f"{pd.Timestamp(data['as_of'].values):%Y-%m-%d %H:%M} UTC",
    }
    return Card(name_of(data), facts, pd.DataFrame(table), _picture(smile, data))


def _picture(draw: Callable[..., Any], data: xr.Dataset) -> bytes:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2, 3.1), layout="constrained")
    out = io.BytesIO()
    draw(data, ax=figure.subplots())
    figure.savefig(out, format="png", dpi=70)
    return out.getvalue()
