"""Figure of open interest, volume or gamma of options, by strike or by expiry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import exposure
from derivdata.plot import style
from derivdata.plot.fits import listed_expiry
from derivdata.plot.frames import Chain, Size, Source, figure_function, finish, only_for
from derivdata.plot.style import GREY, LONG, PALETTE, SHORT
from derivdata.support.arrays import Array
from derivdata.support.times import Instant, naive_utc

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHOWN = 0.995
_BARS = 45
_LABEL_WIDTH = 30.0
"""Width of the label of an expiry [points]."""
_MOST_BINS = 60
_STACKED = 4
"""Expiries with a colour of their own where all are added up."""


@figure_function
def strikes(
    chain: Chain,
    kind: Literal["open_interest", "volume", "gamma"] = "open_interest",
    *,
    by: Literal["strike", "expiry"] | None = None,
    expiry: Instant | None = None,
    dealer: dict[str, float] | None = None,
    contract_size: float | None = None,
    source: Source | None = None,
    ax: Axes | None = None,
    figsize: Size | None = None,
) -> Axes:
    """Draw open interest or volume by strike or expiry, or what hedgers trade per 1 % move by strike.

    Parameters
    ----------
    chain
        The table ``options_snapshot`` or a surface, of one symbol on one venue.
    kind
        ``"open_interest"`` or ``"volume"`` (of 24 hours): calls upwards, puts downwards [coins], at the right
        in USD at the underlying's price; by strike with that price and, of open interest, max pain. Options
        without a number are counted in the title and not drawn. ``"gamma"``: of all expiries
        [million USD per 1 %], calls and puts stacked, or on the side of their sign; the three strikes with
        most are named.
    by
        Of open interest and volume: a bar for each ``"strike"``, which is the default, or ``"expiry"``.
    expiry
        Of bars by strike: which expiry. None stacks all of them, the four largest in colours of their own,
        and draws max pain of the largest: it belongs to one expiry.
    dealer
        Of gamma: sign of the dealers' position by side, such as ``{"call": 1, "put": -1}``; then their net by
        strike and the level at which it changes sign in all are marked. None counts every option with +1.
    contract_size
        Coins per contract; None takes those of `derivdata.analysis.exposure.open_interest`.
    source, ax, figsize
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        By strike: the strikes that hold 99.5 % of all, more than 45 of them added up in bins, whose width the
        axis states.

    Raises
    ------
    ValueError
        Several chains, an expiry that is not listed, no open interest, volume or gamma at all, or an option
        of another `kind`.
    """
    only_for(kind, ("open_interest", "volume"), expiry=expiry, by=by)
    only_for(kind, ("gamma",), dealer=dealer)
    if contract_size is not None and not 0 < contract_size < np.inf:
        raise ValueError(f"{contract_size=} is not a number of coins")
    if by == "expiry" and expiry is not None:
        raise ValueError("expiry is one of the bars by='expiry': pass it with by='strike'")
    if kind == "gamma":
        ax, table = _gamma(chain, dealer, contract_size, ax)
    else:
        ax, table = _sides(chain, kind, by or "strike", expiry, contract_size, ax)
    return finish(ax, table, chain, source=source)


def _sides(
    chain: Chain, kind: str, by: str, expiry: Instant | None, contract_size: float | None, ax: Axes | None
) -> tuple[Axes, pd.DataFrame]:
    """Draw calls upwards and puts downwards."""
    what, did = ("open interest", "open") if kind == "open_interest" else ("volume", "traded in 24 hours")
    counted: Any = chain if kind == "open_interest" else chain.assign(open_interest=chain["volume"])
    sums = exposure.open_interest(counted, contract_size=contract_size)
    rows = _one_chain(sums, ("expiry", "strike", "side")).to_dataframe().reset_index().query("listed > 0")
    if expiry is not None and len(rows):
        rows = rows[rows["expiry"] == listed_expiry(rows["expiry"].unique(), expiry)]
    if not 0.0 < rows["open_interest"].sum() < np.inf:
        which = "" if expiry is None else f" at expiry {expiry}"
        raise ValueError(f"chain: no option has {what}{which}, or it is infinite")
    symbol = _symbol(sums)
    expiries = pd.DatetimeIndex(rows["expiry"].unique()).sort_values()
    price = _price(chain, expiries[0])
    ax = style.axes(ax)
    totals = rows.groupby(by)["open_interest"].sum()
    coins = float(totals.sum())
    stacked = by == "strike" and len(expiries) > 1
    if by == "expiry":
        place = expiries.get_indexer(rows["expiry"])
        table = _stack(ax, rows.assign(place=place, group=""), 0.8, symbol).drop(columns="expiry")
        table["expiry"] = expiries[table.pop("strike").to_numpy(dtype=np.intp)]
        labels = [f"{date.day} {date:%b}\n{date:%Y}" for date in expiries]
        step = 1 + int(len(labels) * _LABEL_WIDTH // (0.75 * style.cell_width(ax)))
        ax.set_xticks(range(0, len(expiries), step), labels[::step])
        label = "expiry [UTC]"
        most = f"on {_date(totals.idxmax())}"
    else:
        bins, binned = strike_bins(totals)
        named = _groups(rows) if stacked else dict.fromkeys(expiries, _date(expiries[0]))
        rows = rows.assign(place=rows["strike"].map(bins), group=rows["expiry"].map(named))
        table = _stack(ax, rows, bar_width(rows["place"][rows["open_interest"] > 0].unique()), symbol)
        label = f"strike [USD{binned}], 99.5 % shown"
        most = f"at {style.number(totals.idxmax())} USD"
        strike_axis(ax, totals, price)
        if kind == "open_interest":
            largest = rows.groupby("expiry")["open_interest"].sum().idxmax()
            of = f" {_date(largest)}" if stacked else ""
            pains = exposure.max_pain(chain, contract_size=contract_size)["max_pain"]
            pain = float(pains.sel(expiry=largest))
            if np.isfinite(pain):
                words = f"max pain{of}: {style.number(pain)}{'' if of else ' USD'}"
                ax.axvline(pain, color=PALETTE[2], lw=1.2, ls=":", label=words)
    missing = int(rows["missing"].sum())
    lack = f" ({missing} options without {what})" if missing else ""
    worth = f", {style.number(coins * price / 1e6)} M USD" if np.isfinite(price) else ""
    which = f"{len(expiries)} expiries" if len(expiries) > 1 else _date(expiries[0])
    words = f"{style.number(coins)} {symbol} {did}{worth}, most {most}, {which}{lack}"
    title = f"{symbol}: {words}" if symbol == "coin" else words
    style.dress(ax, title=title, x=label, y=f"puts (down), calls (up) [{symbol}]", form="size")
    ax.axhline(0, color=GREY, lw=0.8)
    if np.isfinite(price):
        _usd_axis(ax, price)
    style.legend(ax, "above", title=f"expiry: calls and puts [{symbol}]" if stacked else "")
    return ax, table


def _gamma(
    chain: Chain, dealer: dict[str, float] | None, contract_size: float | None, ax: Axes | None
) -> tuple[Axes, pd.DataFrame]:
    found = exposure.gamma_exposure(chain, dealer=dealer, by=("strike", "side"), contract_size=contract_size)
    both = _one_chain(found, ("strike", "side"))["gamma_exposure_usd"].reindex(side=["call", "put"])
    gamma = both.fillna(0.0).transpose("strike", "side").to_pandas() / 1e6
    size = gamma.abs().sum(axis=1)
    if not 0.0 < size.sum() < np.inf:
        raise ValueError("chain: no option has gamma and open interest, or it is infinite")
    bins, binned = strike_bins(size)
    bars = gamma.groupby(gamma.index.map(bins)).sum()
    calls = bars["call"]
    puts = bars["put"]
    net = bars.sum(axis=1)
    ax = style.axes(ax)
    width = bar_width(bars.index.to_numpy())
    beneath = np.where(calls * puts > 0.0, calls, 0.0)
    for side, color, bottom in (("call", LONG, 0.0), ("put", SHORT, beneath)):
        label = f"{side}s: {style.number(float(gamma[side].sum()))} M USD"
        style.bars(ax, bars.index, bars[side], width, start=bottom, color=color, label=label)
    ax.axhline(0, color=GREY, lw=0.8)
    _name_largest(ax, net, np.maximum(calls, beneath + puts).clip(lower=0.0))
    strike_axis(ax, size, _price(chain, pd.Timestamp(np.min(chain["expiry"]))))
    if dealer is not None:
        ax.plot(net.index, net, "D", ms=3.5, color=style.ink(), mec=style.paper(), mew=0.6, label="net")
        turn = float(exposure.zero_gamma(chain, dealer=dealer, contract_size=contract_size)["price_usd"])
        if np.isfinite(turn):
            label = f"zero gamma: {style.number(turn)} USD"
            ax.axvline(turn, color=PALETTE[2], lw=1.2, ls=":", label=label)
    whose = "all options counted +1" if dealer is None else "dealers' sign assumed"
    total = style.number(float(net.sum()))
    title = f"{_symbol(found)}: gamma {total} M USD per 1 % move, {whose}"
    label = f"strike [USD{binned}], 99.5 % shown"
    style.dress(ax, title=title, x=label, y="gamma [million USD per 1 %]", form="number")
    style.legend(ax, "above")
    parts = {"calls_musd": calls, "puts_musd": puts, "gamma_musd": net}
    return ax, pd.DataFrame(parts).rename_axis("strike").reset_index()


def _name_largest(ax: Axes, values: pd.Series, tops: pd.Series) -> None:
    """Write the strike above the three largest bars."""
    ground = {"facecolor": style.paper(), "edgecolor": "none", "pad": 2.5}  # covers the line of the price
    for strike in values.abs().nlargest(3).index:
        above: dict[str, Any] = {"rotation": 90, "ha": "center", "va": "bottom", "bbox": ground}
        above |= {"xytext": (0, 3), "textcoords": "offset points", "fontsize": 7.5}
        ax.annotate(style.number(strike), (strike, tops[strike]), **above)
    ax.margins(y=0.45)  # room for seven letters in a small figure


def _one_chain(found: xr.Dataset, dims: tuple[str, ...]) -> xr.Dataset:
    """Return what the analysis gave, of one chain; refuse several."""
    crowd = [str(dim) for dim in found.dims if dim not in dims]
    if crowd:
        raise ValueError(f"the figure is of one chain; this has a dim {crowd[0]!r}: choose one")
    return found


def _symbol(found: xr.Dataset) -> str:
    return str(found["symbol"].item()) if "symbol" in found.coords else "coin"


def _date(expiry: Any) -> str:
    return f"{pd.Timestamp(expiry):%Y-%m-%d}"


def _stack(ax: Axes, rows: pd.DataFrame, width: float, symbol: str) -> pd.DataFrame:
    """Draw the coins of each group at each place, stacked; return what the bars hold."""
    places = np.unique(rows["place"])
    groups = list(dict.fromkeys(rows.sort_values("expiry")["group"]))
    others = [group for group in groups if group.endswith(" others")]
    bottoms = np.zeros((2, places.size))
    parts = []
    for number, group in enumerate([*(group for group in groups if group not in others), *others]):
        mine = rows[rows["group"] == group]
        for side, (name, sign, color) in enumerate((("call", 1.0, LONG), ("put", -1.0, SHORT))):
            cells = mine[mine["side"] == name].groupby("place")["open_interest"].sum()
            held = cells.reindex(places, fill_value=0.0).to_numpy()
            look: dict[str, Any] = {"label": f"{name}s: {style.number(float(held.sum()))} {symbol}"}
            if len(groups) > 1:
                total = style.number(float(mine["open_interest"].sum()))
                shade = 0.35 if group in others else 1.0 - 0.16 * number
                look = {"alpha": shade, "label": "_puts" if side else f"{group}: {total}"}
            at = (held > 0.0) == (held > 0.0).any()  # all where there is none, for the legend
            below = sign * bottoms[side][at]
            style.bars(ax, places[at], sign * held[at], width, start=below, color=color, **look)
            bottoms[side] += held
            part = {"expiry": group, "side": name, "strike": places, "open_interest": held}
            parts.append(pd.DataFrame(part))
    table = pd.concat(parts, ignore_index=True)
    return table[table["open_interest"] > 0].reset_index(drop=True)


def _groups(rows: pd.DataFrame) -> dict[Any, str]:
    """Name the largest expiries by their dates, and all others together."""
    sizes = rows.groupby("expiry")["open_interest"].sum().sort_values(ascending=False, kind="stable")
    apart = len(sizes) if len(sizes) <= _STACKED + 1 else _STACKED
    rest = f"{len(sizes) - apart} others"
    return {expiry: _date(expiry) if place < apart else rest for place, expiry in enumerate(sizes.index)}


def strike_axis(ax: Axes, totals: pd.Series, price: float) -> None:
    """Limit the axis to the strikes that hold nearly all, and mark the price of the underlying."""
    ax.set_xlim(_range(totals))
    style.write(ax.xaxis, "number")
    ax.locator_params(axis="x", nbins=int(0.75 * style.cell_width(ax) / 48.0))
    if np.isfinite(price):
        label = f"underlying: {style.number(price)} USD"
        ax.axvline(price, color=GREY, lw=1.2, ls="--", zorder=0.5, label=label)


def _usd_axis(ax: Axes, price: float) -> None:
    """Write the same bars in dollars at the right."""
    scales: Any = (lambda coins: coins * price / 1e6, lambda millions: millions * 1e6 / price)
    right = ax.secondary_yaxis("right", functions=scales)
    right.set_ylabel("[million USD]")
    right.tick_params(labelsize=8.5)
    right.spines["right"].set_visible(False)
    style.write(right.yaxis, "size")


def bar_width(places: Array) -> float:
    """Return one width for all bars: nearly the distance between close ones."""
    close = np.percentile(np.diff(np.sort(places)), 25) if places.size > 1 else 0.02 * places[0] / 0.85
    return 0.85 * float(close)


def strike_bins(totals: pd.Series) -> tuple[dict[float, float], str]:
    """Return the middle of each strike's bin, and the bins' width in words.

    Where there are too many strikes for bars to be seen, bins are 1, 2 or 5 times a power of ten wide and
    centred at its multiples, so that strikes at regular distances fill them evenly.
    """
    strike = totals.index.to_numpy()
    if strike.size <= _BARS:
        return dict(zip(strike, strike, strict=True)), ""
    low, high = _range(totals)
    least = (high - low) / _MOST_BINS
    power = 10.0 ** np.floor(np.log10(least))
    width = next(power * step for step in (1.0, 2.0, 5.0, 10.0) if power * step >= least)
    middle = np.floor(strike / width + 0.5) * width
    return dict(zip(strike, middle, strict=True)), f", bins of {style.number(width)}"


def _range(totals: pd.Series) -> tuple[float, float]:
    strike = totals.index.to_numpy()
    part = totals.to_numpy() / totals.sum()
    share = np.cumsum(part)
    tail = (1.0 - _SHOWN) / 2
    inside = strike[(share >= tail) & (share - part <= 1.0 - tail)]
    low = float(inside.min())
    high = float(inside.max())
    margin = max(0.04 * (high - low), 0.6 * bar_width(inside)) + 0.01 * low  # few bars are wide
    return low - margin, high + margin


def _price(chain: Chain, expiry: pd.Timestamp) -> float:
    """Return the median underlying price of an expiry, which ignores single options with a wrong one."""
    prices = chain["underlying_price"]
    if isinstance(chain, pd.DataFrame):
        return float(prices[naive_utc(chain["expiry"]) == naive_utc(expiry)].median())
    return float(prices.sel(expiry=naive_utc(expiry)))
