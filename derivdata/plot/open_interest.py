"""Figures of open interest and gamma by strike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import exposure
from derivdata.plot._decorator import figure_function
from derivdata.plot.fits import listed_expiry
from derivdata.plot.style import GREY, LONG, PALETTE, SHORT, axes, dress, footer, legend, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["gamma_exposure", "open_interest_by_strike"]

Floats = np.ndarray[Any, Any]
_SHOWN = 0.995
_BARS = 60


@figure_function
def open_interest_by_strike(
    chain: pd.DataFrame | xr.Dataset,
    *,
    expiry: Any = None,
    contract_size: float = 1.0,
    source: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw open calls and puts by strike, with the underlying's price and max pain.

    Parameters
    ----------
    chain
        The table ``options_snapshot`` or a surface, of one symbol on one venue.
    expiry
        Which expiry; None adds up all of them, and then no pain is drawn: it belongs to one expiry.
    contract_size
        Coins per contract.
    source, ax
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        Calls upwards, puts downwards [coins]; the strikes that hold 99.5 % of the open interest, more than 60
        of them added up in bins. Options whose open interest is not known are counted in the title and not
        drawn.

    Raises
    ------
    ValueError
        Several chains, an expiry that is not listed, or no open interest at all.
    """
    if not 0 < contract_size < np.inf:
        raise ValueError(f"{contract_size=} is no number of coins")
    sums = _sums(chain, expiry, contract_size)
    symbol = str(sums["symbol"].item()) if "symbol" in sums.coords else "coin"
    ax = axes(ax)
    _bars(ax, sums, symbol)
    _marks(ax, chain, sums, expiry, contract_size)
    missing = int(sums["missing"].sum())
    lack = f" ({missing} options without open interest)" if missing else ""
    if expiry is None:
        which = f"{sums.sizes['expiry']} expiries"
    else:
        which = f"expiry {pd.Timestamp(sums['expiry'].values):%Y-%m-%d}"
    most = sums["open_interest"].sum([dim for dim in sums["open_interest"].dims if dim != "strike"]).idxmax()
    dress(ax, title=f"{symbol}: most options are open at {number(float(most))} USD, {which}{lack}")
    ax.set(xlabel="strike [USD]", ylabel=f"calls (up) and puts (down) [{symbol}]")
    legend(ax, "right")
    footer(ax, chain, source=source)
    return ax


@figure_function
def gamma_exposure(
    chain: pd.DataFrame | xr.Dataset,
    *,
    dealer: dict[str, float] | None = None,
    contract_size: float = 1.0,
    source: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the underlying that hedgers trade per 1 % move, by strike, over all expiries.

    Parameters
    ----------
    chain
        The table ``options_snapshot`` or a surface, of one symbol on one venue.
    dealer
        Sign of the dealers' position by side, such as ``exposure.NAIVE_DEALER``; then the level at which
        their gamma changes sign is marked. None counts every option with +1.
    contract_size
        Coins per contract.
    source, ax
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        Bars [million USD per 1 %], more than 60 strikes added up in bins.

    Raises
    ------
    ValueError
        Several chains, or no option with gamma and open interest.
    """
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
    strike, up, down = _binned(np.asarray(gamma["strike"]), up, down)
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
    ax.set(xlabel="strike [USD]", ylabel="gamma [million USD per 1 %]")
    ax.xaxis.set_major_formatter(lambda value, _: number(value))
    legend(ax)
    footer(ax, chain, source=source)
    return ax


def _sums(chain: Any, expiry: Any, contract_size: float) -> xr.Dataset:
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


def _bars(ax: Axes, sums: xr.Dataset, symbol: str) -> None:
    coins = sums["open_interest"]
    if "expiry" in coins.dims:
        coins = coins.sum("expiry", min_count=1)
    coins = coins.reindex(side=["call", "put"])  # a chain may have one of them only
    calls, puts = (np.nan_to_num(np.asarray(coins.sel(side=side))) for side in ("call", "put"))
    strike, calls, puts = _binned(np.asarray(sums["strike"]), calls, puts)
    listed = strike[calls + puts > 0]
    # One width for all bars: nearly the distance between close strikes.
    width = 0.85 * float(np.percentile(np.diff(listed), 25)) if listed.size > 1 else 0.02 * float(listed[0])
    ax.bar(strike, calls, width=width, color=LONG, label=f"calls: {number(float(np.sum(calls)))} {symbol}")
    ax.bar(strike, -puts, width=width, color=SHORT, label=f"puts: {number(float(np.sum(puts)))} {symbol}")
    ax.set_xlim(_range(strike, calls + puts))
    ax.axhline(0, color=GREY, lw=0.8)
    ax.yaxis.set_major_formatter(lambda value, _: number(abs(value)))
    ax.xaxis.set_major_formatter(lambda value, _: number(value))


def _binned(strike: Floats, calls: Floats, puts: Floats) -> tuple[Floats, Floats, Floats]:
    """Add up strikes in bins of equal width where there are too many for bars that can be seen."""
    if strike.size <= _BARS:
        return strike, calls, puts
    low, high = _range(strike, calls + puts)
    width = (high - low) / _BARS
    place = np.floor((strike - low) / width)  # strikes far out keep bins of the same width
    bins, inverse = np.unique(place, return_inverse=True)
    return low + (bins + 0.5) * width, np.bincount(inverse, calls), np.bincount(inverse, puts)


def _range(strike: Floats, total: Floats) -> tuple[float, float]:
    share = np.cumsum(total) / total.sum()
    tail = (1.0 - _SHOWN) / 2
    inside = strike[(share >= tail) & (share - total / total.sum() <= 1.0 - tail)]
    low, high = float(inside.min()), float(inside.max())
    margin = 0.04 * (high - low) + 0.01 * low
    return low - margin, high + margin


def _marks(ax: Axes, chain: Any, sums: xr.Dataset, expiry: Any, contract_size: float) -> None:
    price = _price(chain, expiry, sums)
    if np.isfinite(price):
        ax.axvline(price, color=GREY, lw=1.2, ls="--", zorder=0.5, label=f"underlying: {number(price)} USD")
    if expiry is None:
        return
    pain = exposure.max_pain(chain, contract_size=contract_size)["max_pain"].sel(expiry=sums["expiry"])
    if np.isfinite(pain):
        ax.axvline(
            float(pain), color=PALETTE[2], lw=1.2, ls=":", label=f"max pain: {number(float(pain))} USD"
        )


def _price(chain: Any, expiry: Any, sums: xr.Dataset) -> float:
    """Return the median underlying price of the expiry, or of the first one.

    The median ignores single options that state a wrong price. An expiry given as a date is that day's.
    """
    first = sums["expiry"].values if expiry is not None else sums["expiry"].values[0]
    if isinstance(chain, pd.DataFrame):
        same = chain["expiry"].dt.tz_localize(None).dt.normalize() == pd.Timestamp(first).normalize()
        return float(chain.loc[same, "underlying_price"].median())
    return float(chain["underlying_price"].sel(expiry=first, method="nearest"))
