"""Figure of open interest or gamma by strike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import exposure
from derivdata.plot.fits import listed_expiry
from derivdata.plot.frames import Chain, Source, figure_function, keep_frame, only_for
from derivdata.plot.style import GREY, LONG, PALETTE, SHORT, axes, dress, footer, legend, number
from derivdata.support.arrays import Array
from derivdata.support.times import Instant

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHOWN = 0.995
_BARS, _MOST_BINS = 45, 60
_STACKED = 4
"""Expiries with a colour of their own where all are added up."""


@figure_function
def strikes(
    chain: Chain,
    kind: Literal["open_interest", "gamma"] = "open_interest",
    *,
    expiry: Instant | None = None,
    dealer: dict[str, float] | None = None,
    contract_size: float = 1.0,
    source: Source | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw open interest by strike, or the underlying that hedgers trade per 1 % move.

    Parameters
    ----------
    chain
        The table ``options_snapshot`` or a surface, of one symbol on one venue.
    kind
        ``"open_interest"``: calls upwards, puts downwards [coins], at the right in USD at the underlying's
        price, with that price and max pain. Options whose open interest is not known are counted in the title
        and not drawn. ``"gamma"``: of all expiries [million USD per 1 %].
    expiry
        Of open interest: which expiry. None stacks all of them, the four largest in colours of their own, and
        draws max pain of the largest: it belongs to one expiry.
    dealer
        Of gamma: sign of the dealers' position by side, such as ``exposure.NAIVE_DEALER``; then the level at
        which their gamma changes sign is marked. None counts every option with +1.
    contract_size
        Coins per contract.
    source, ax
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        The strikes that hold 99.5 % of all, more than 45 of them added up in bins, whose width the axis
        states.

    Raises
    ------
    ValueError
        Several chains, an expiry that is not listed, no open interest or gamma at all, or an option of the
        other `kind`.
    """
    only_for(kind, ("open_interest",), expiry=expiry)
    only_for(kind, ("gamma",), dealer=dealer)
    if not 0 < contract_size < np.inf:
        raise ValueError(f"{contract_size=} is no number of coins")
    if kind == "gamma":
        ax, table = _gamma(chain, dealer, contract_size, ax)
    else:
        ax, table = _open(chain, expiry, contract_size, ax)
    footer(ax, chain, source=source)
    return keep_frame(ax, table)


def _open(
    chain: Chain, expiry: Instant | None, contract_size: float, ax: Axes | None
) -> tuple[Axes, pd.DataFrame]:
    sums = _sums(chain, expiry, contract_size)
    symbol = str(sums["symbol"].item()) if "symbol" in sums.coords else "coin"
    price = _price(chain, expiry, sums)
    ax = axes(ax)
    table, binned = _bars(ax, sums, symbol)
    _marks(ax, chain, sums, price, contract_size)
    missing = int(sums["missing"].sum())
    lack = f" ({missing} options without open interest)" if missing else ""
    by_strike = sums["open_interest"].sum([dim for dim in sums["open_interest"].dims if dim != "strike"])
    most = float(by_strike.idxmax("strike"))  # a listed strike: bars may be bins of several
    coins = float(table["open_interest"].sum())
    worth = f", {number(coins * price / 1e6)} M USD" if np.isfinite(price) else ""
    which = f"{sums.sizes['expiry']} expiries" if "expiry" in sums.dims else f"{_date(sums['expiry'].values)}"
    words = f"{number(coins)} {symbol} open{worth}, most at {number(most)} USD, {which}{lack}"
    dress(ax, title=f"{symbol}: {words}" if symbol == "coin" else words)
    ax.set(
        xlabel=f"strike [USD{binned}], 99.5 % shown",
        ylabel=f"puts (down), calls (up) [{symbol}]",
    )
    if np.isfinite(price):
        _usd_axis(ax, price)
    legend(ax, "above", title=f"expiry: calls and puts [{symbol}]" if "expiry" in sums.dims else "")
    return ax, table


def _usd_axis(ax: Axes, price: float) -> None:
    """Write the same bars in dollars at the right."""

    def to_usd(coins: Any) -> Any:
        return coins * price / 1e6

    def to_coins(millions: Any) -> Any:
        return millions * 1e6 / price

    right = ax.secondary_yaxis("right", functions=(to_usd, to_coins))
    right.set_ylabel("[million USD]")
    right.tick_params(labelsize=8.5)
    right.spines["right"].set_visible(False)
    right.yaxis.set_major_formatter(lambda value, _: number(abs(value)))


def _gamma(
    chain: Chain, dealer: dict[str, float] | None, contract_size: float, ax: Axes | None
) -> tuple[Axes, pd.DataFrame]:
    found = exposure.gamma_exposure(chain, dealer=dealer, by=("strike",), contract_size=contract_size)
    gamma = found["gamma_exposure_usd"]
    crowd = [str(dim) for dim in gamma.dims if dim != "strike"]
    if crowd:
        raise ValueError(f"the figure is of one chain; this has a dim {crowd[0]!r}: choose one")
    values = np.nan_to_num(np.asarray(gamma)) / 1e6
    if not np.abs(values).sum() > 0:
        raise ValueError("chain: no option has gamma and open interest, or they cancel out")
    symbol = str(found["symbol"].item()) if "symbol" in found.coords else "coin"
    up, down = np.maximum(values, 0.0), np.maximum(-values, 0.0)
    bins, binned = _bins(np.asarray(gamma["strike"]), up + down)
    strike, place = np.unique(bins, return_inverse=True)
    up, down = np.bincount(place, up), np.bincount(place, down)
    ax = axes(ax)
    width = 0.85 * float(np.percentile(np.diff(strike), 25)) if strike.size > 1 else 0.02 * float(strike[0])
    ax.bar(strike, up - down, width=width, color=np.where(up >= down, PALETTE[0], PALETTE[1]).tolist())
    ax.axhline(0, color=GREY, lw=0.8)
    ax.set_xlim(_range(strike, up + down))
    first = chain["expiry"].min() if isinstance(chain, pd.DataFrame) else chain["expiry"].values[0]
    price = _price(chain, first, xr.Dataset({"expiry": pd.Timestamp(first).to_datetime64()}))
    if np.isfinite(price):
        ax.axvline(price, color=GREY, lw=1.2, ls="--", label=f"underlying: {number(price)} USD")
    if dealer is not None:
        turn = float(exposure.zero_gamma(chain, dealer=dealer, contract_size=contract_size)["price_usd"])
        if np.isfinite(turn):
            ax.axvline(turn, color=PALETTE[2], lw=1.2, ls=":", label=f"zero gamma: {number(turn)} USD")
    whose = "all options counted +1" if dealer is None else "dealers' sign assumed"
    dress(ax, title=f"{symbol}: gamma {number(float(values.sum()))} M USD per 1 % move, {whose}")
    ax.set(xlabel=f"strike [USD{binned}], 99.5 % shown", ylabel="gamma [million USD per 1 %]")
    ax.yaxis.set_major_formatter(lambda value, _: number(value))
    ax.xaxis.set_major_formatter(lambda value, _: number(value))
    ax.locator_params(axis="x", nbins=6)
    legend(ax, "above")
    return ax, pd.DataFrame({"strike": strike, "gamma_musd": up - down})


def _sums(chain: Chain, expiry: Instant | None, contract_size: float) -> xr.Dataset:
    """Return open interest by strike and side, of one expiry or of all."""
    sums = exposure.open_interest(chain, contract_size=contract_size)
    crowd = [str(dim) for dim in sums.dims if dim not in ("expiry", "strike", "side")]
    if crowd:
        raise ValueError(f"the figure is of one chain; this has a dim {crowd[0]!r}: choose one")
    if not sums["open_interest"].fillna(0.0).sum() > 0:
        raise ValueError("no option has open interest")
    if expiry is None:
        return sums
    one = sums.sel(expiry=listed_expiry(sums["expiry"].values, expiry))
    return one.isel(strike=np.flatnonzero(one["listed"].sum("side") > 0))


def _bars(ax: Axes, sums: xr.Dataset, symbol: str) -> tuple[pd.DataFrame, str]:
    """Draw the bars, one colour per expiry where there are several; return what they and the bins hold."""
    coins = sums["open_interest"].reindex(side=["call", "put"])  # a chain may have one of them only
    strike = np.asarray(sums["strike"])
    if "expiry" not in coins.dims:
        coins = coins.expand_dims("expiry")
    values = np.nan_to_num(coins.transpose("expiry", "side", "strike").to_numpy())
    expiries = np.atleast_1d(coins["expiry"].to_numpy())
    bins, binned = _bins(strike, values.sum((0, 1)))
    places = np.unique(bins)
    # One width for all bars: nearly the distance between close strikes.
    used = places[np.isin(places, bins[values.sum((0, 1)) > 0])]
    width = 0.85 * float(np.percentile(np.diff(used), 25)) if used.size > 1 else 0.02 * float(used[0])
    groups = _groups(values.sum((1, 2)))
    bottoms = np.zeros((2, places.size))
    rows = []
    for group, members in enumerate(groups):
        words = _date(expiries[members[0]]) if len(members) == 1 else f"{len(members)} others"
        for side, (name, sign, color) in enumerate((("call", 1.0, LONG), ("put", -1.0, SHORT))):
            cells = values[members, side].sum(0)
            held = np.array([cells[bins == place].sum() for place in places])
            label = f"{name}s: {number(float(cells.sum()))} {symbol}"
            look: dict[str, Any] = {"color": color, "label": label}
            if len(groups) > 1:
                shade = 0.35 if len(members) > 1 else 1.0 - 0.16 * group
                look = {
                    "color": color,
                    "alpha": shade,
                    "label": f"{words}: {number(float(values[members].sum()))}",
                }
                look["label"] = look["label"] if side == 0 else "_puts"
            ax.bar(places, sign * held, width=width, bottom=sign * bottoms[side], **look)
            bottoms[side] += held
            rows.append(
                pd.DataFrame({"expiry": words, "side": name, "strike": places, "open_interest": held})
            )
    ax.set_xlim(_range(strike, values.sum((0, 1))))
    ax.axhline(0, color=GREY, lw=0.8)
    ax.yaxis.set_major_formatter(lambda value, _: number(abs(value)))
    ax.xaxis.set_major_formatter(lambda value, _: number(value))
    ax.locator_params(axis="x", nbins=6)
    table = pd.concat(rows, ignore_index=True)
    return table[table["open_interest"] > 0], binned


def _groups(sizes: Array) -> list[list[int]]:
    """Return the places of the largest expiries one by one, in order of time, and those of all others."""
    order = [int(place) for place in np.argsort(-sizes, kind="stable")]
    if len(order) <= _STACKED + 1:
        return [[place] for place in sorted(order)]
    return [*([place] for place in sorted(order[:_STACKED])), sorted(order[_STACKED:])]


def _date(expiry: Any) -> str:
    return f"{pd.Timestamp(expiry):%Y-%m-%d}"


def _bins(strike: Array, total: Array) -> tuple[Array, str]:
    """Return the middle of each strike's bin, and the bins' width in words.

    Where there are too many strikes for bars to be seen, bins are 1, 2 or 5 times a power of ten wide and
    centred at its multiples, so that strikes at regular distances fill them evenly.
    """
    if strike.size <= _BARS:
        return strike, ""
    low, high = _range(strike, total)
    least = (high - low) / _MOST_BINS
    power = 10.0 ** np.floor(np.log10(least))
    width = next(power * step for step in (1.0, 2.0, 5.0, 10.0) if power * step >= least)
    middle: Array = np.floor(strike / width + 0.5) * width
    return middle, f", bins of {number(width)}"


def _range(strike: Array, total: Array) -> tuple[float, float]:
    share = np.cumsum(total) / total.sum()
    tail = (1.0 - _SHOWN) / 2
    inside = strike[(share >= tail) & (share - total / total.sum() <= 1.0 - tail)]
    low, high = float(inside.min()), float(inside.max())
    margin = 0.04 * (high - low) + 0.01 * low
    return low - margin, high + margin


def _marks(ax: Axes, chain: Chain, sums: xr.Dataset, price: float, contract_size: float) -> None:
    if np.isfinite(price):
        ax.axvline(price, color=GREY, lw=1.2, ls="--", zorder=0.5, label=f"underlying: {number(price)} USD")
    expiry = sums["expiry"]
    if "expiry" in sums.dims:
        expiry = sums["open_interest"].sum(["strike", "side"]).idxmax("expiry")
    pain = exposure.max_pain(chain, contract_size=contract_size)["max_pain"].sel(expiry=expiry)
    if np.isfinite(pain):
        words = f"max pain: {number(float(pain))} USD"
        if "expiry" in sums.dims:
            words = f"max pain {_date(expiry.values)}: {number(float(pain))}"
        ax.axvline(float(pain), color=PALETTE[2], lw=1.2, ls=":", label=words)


def _price(chain: Chain, expiry: Any, sums: xr.Dataset) -> float:
    """Return the median underlying price of the expiry, or of the first one.

    The median ignores single options that state a wrong price. An expiry given as a date is that day's.
    """
    first = sums["expiry"].values if expiry is not None else sums["expiry"].values[0]
    if isinstance(chain, pd.DataFrame):
        same = chain["expiry"].dt.tz_localize(None).dt.normalize() == pd.Timestamp(first).normalize()
        return float(chain.loc[same, "underlying_price"].median())
    return float(chain["underlying_price"].sel(expiry=first, method="nearest"))
