"""Figures of options by strike: open interest, volume and gamma, and the flow of trades."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import exposure, option_trades
from derivdata.plot import style
from derivdata.plot.fits import listed_expiry
from derivdata.plot.frames import Chain, Size, Source, figure_function, finish, only_for
from derivdata.plot.style import GREY, LONG, PALETTE, SHORT
from derivdata.support.arrays import Array
from derivdata.support.times import TimeLike, naive_utc
from derivdata.tables.frames import require_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHOWN = 0.98
_BARS = 45
_MAX_BINS = 60


@figure_function
def strikes(
    chain: Chain,
    kind: Literal["open_interest", "volume", "gamma"] = "open_interest",
    *,
    by: Literal["strike", "expiry"] | None = None,
    expiry: TimeLike | None = None,
    dealer: dict[str, float] | None = None,
    contract_size: float | None = None,
    source: Source | None = None,
    ax: Axes | None = None,
    figsize: Size | None = None,
) -> Axes:
    """Draw open interest or volume of options by strike or expiry, or gamma exposure by strike.

    Parameters
    ----------
    chain
        The table ``options_snapshot`` or a surface, of one symbol on one venue.
    kind
        ``"open_interest"`` or ``"volume"`` (of 24 hours): calls upwards, puts downwards [coins]; the title
        has their value in USD at the underlying's price. By strike, with that price and, for open interest of
        one expiry, max pain. The title counts options without a value. ``"gamma"``: of all expiries
        [million USD per 1 %], calls and puts stacked by sign.
    by
        For open interest and volume: bars by ``"strike"``, the default, or by ``"expiry"``.
    expiry
        For bars by strike: the expiry. None sums all expiries.
    dealer
        For gamma: sign of the dealers' position by side, such as ``{"call": 1, "put": -1}``. Their net by
        strike and the price at which the total changes sign are then marked. None counts all options as +1.
    contract_size
        Coins per contract; None uses the sizes of `derivdata.analysis.exposure.open_interest`.
    source, ax, figsize
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        By strike, the strikes with 98 % of the total are shown, in bins if there are more than 45; the axis
        states their width. By expiry, the sum of calls and puts is at the top.

    Raises
    ------
    ValueError
        There are several chains, the expiry is not listed, open interest, volume or gamma is missing, or an
        option belongs to another `kind`.
    """
    only_for(kind, ("open_interest", "volume"), expiry=expiry, by=by)
    only_for(kind, ("gamma",), dealer=dealer)
    if contract_size is not None and not 0 < contract_size < np.inf:
        raise ValueError(f"contract_size must be a positive number of coins, got {contract_size}")
    if by == "expiry" and expiry is not None:
        raise ValueError("expiry= applies only to by='strike': omit one of them")
    if kind == "gamma":
        ax, table = _gamma(chain, dealer, contract_size, ax)
    else:
        ax, table = _sides(chain, kind, by or "strike", expiry, contract_size, ax)
    return finish(ax, table, chain, source=source)


def _sides(
    chain: Chain, kind: str, by: str, expiry: TimeLike | None, contract_size: float | None, ax: Axes | None
) -> tuple[Axes, pd.DataFrame]:
    """Draw calls upwards and puts downwards."""
    what, did = ("open interest", "open") if kind == "open_interest" else ("volume", "traded in 24 hours")
    counted: Any = chain if kind == "open_interest" else chain.assign(open_interest=chain["volume"])
    sums = exposure.open_interest(counted, contract_size=contract_size)
    rows = _one_chain(sums, ("expiry", "strike", "side")).to_dataframe().reset_index().query("listed > 0")
    if expiry is not None and len(rows):
        rows = rows[rows["expiry"] == listed_expiry(rows["expiry"].unique(), expiry)]
    if not 0.0 < rows["open_interest"].sum() < np.inf:
        which = f" at expiry {expiry}" * (expiry is not None)
        raise ValueError(f"chain: no option has {what}{which}, or the sum is infinite")
    symbol = _symbol(sums)
    expiries = pd.DatetimeIndex(rows["expiry"].unique()).sort_values()
    price = _price(chain, expiries[0])
    ax = style.axes(ax)
    totals = rows.groupby(by)["open_interest"].sum()
    coins = float(totals.sum())
    if by == "expiry":
        place = expiries.get_indexer(rows["expiry"])
        table = _both_sides(ax, rows.assign(place=place), 0.8, symbol)
        table["expiry"] = expiries[table.pop("strike").to_numpy(dtype=np.intp)]
        ax.set_xticks(range(len(expiries)), _date_labels(expiries))
        unit = _write_totals(ax, rows.assign(place=place), symbol)
        label = f"expiry [UTC]; top: calls + puts [{unit}]"
        most = f"on {_date(totals.idxmax())}"
    else:
        bins, binned = strike_bins(totals)
        rows = rows.assign(place=rows["strike"].map(bins))
        table = _both_sides(ax, rows, bar_width(rows["place"][rows["open_interest"] > 0].unique()), symbol)
        label = f"strike [USD{binned}], 98 % shown"
        most = f"at the strike {style.number(totals.idxmax())} USD"
        strike_axis(ax, totals, price)
        _include_bars(ax, table["strike"])
        if kind == "open_interest" and len(expiries) == 1:
            pains = exposure.max_pain(chain, contract_size=contract_size)["max_pain"]
            pain = float(pains.sel(expiry=expiries[0]))
            if np.isfinite(pain):
                words = f"max pain: {style.number(pain)} USD"
                mark_price(ax, pain, words, ":")
    missing = int(rows["missing"].sum())
    lack = f" ({missing} options without {what})" * bool(missing)
    worth = f" ({_usd(coins * price)})" if np.isfinite(price) else ""
    which = f"in {len(expiries)} expiries" if len(expiries) > 1 else f"that expire on {_date(expiries[0])}"
    title = f"{symbol} options {which}: {style.number(coins)} {symbol}{worth} {did}, most {most}{lack}"
    style.dress(ax, title=title, x=label, y=f"puts (down), calls (up) [{symbol}]", form="size")
    ax.axhline(0, color=GREY, lw=0.8)
    style.legend(ax, "above")
    return ax, table


def _write_totals(ax: Axes, rows: pd.DataFrame, symbol: str) -> str:
    """Write the sum of calls and puts of each expiry into a row at the top, and return its unit."""
    totals = rows.groupby("place")["open_interest"].sum()
    unit = symbol
    divisor = 1.0
    if totals.max() >= 1000.0:
        unit = f"thousand\u00a0{symbol}"  # no line break within the unit
        divisor = 1000.0
    look: dict[str, Any] = {"fontsize": 8, "ha": "center", "va": "top"}
    look["transform"] = ax.get_xaxis_transform()
    largest = totals.idxmax()
    for place, total in totals.items():
        value = total / divisor
        words = f"{value:,.0f}"
        if value < 10.0:
            words = f"{value:.2g}"
        weight = "bold" if place == largest else "normal"
        ax.text(place, 0.99, words, color=style.ink(), fontweight=weight, **look)
    low, high = ax.get_ylim()
    ax.set_ylim(low, high + 0.1 * (high - low))  # space for the numbers
    return unit


def _date_labels(expiries: pd.DatetimeIndex) -> list[str]:
    """Return the day of each expiry; month and year only where they change."""
    labels = []
    before = None
    for date in expiries:
        label = str(date.day)
        if before is None or (date.year, date.month) != (before.year, before.month):
            label += f"\n{date:%b}"
        if before is None or date.year != before.year:
            label += f"\n{date:%Y}"
        labels.append(label)
        before = date
    return labels


def _usd(value: float) -> str:
    """Format dollars in millions or billions."""
    if value >= 1e9:
        return f"{value / 1e9:.3g}\u00a0B\u00a0USD"  # no line break within the amount
    return f"{style.number(value / 1e6)}\u00a0M\u00a0USD"


def _gamma(
    chain: Chain, dealer: dict[str, float] | None, contract_size: float | None, ax: Axes | None
) -> tuple[Axes, pd.DataFrame]:
    """Draw gamma exposure by strike."""
    exposures = exposure.gamma_exposure(
        chain, dealer=dealer, by=("strike", "side"), contract_size=contract_size
    )
    both = _one_chain(exposures, ("strike", "side"))["gamma_exposure_usd"].reindex(side=["call", "put"])
    gamma = both.fillna(0.0).transpose("strike", "side").to_pandas() / 1e6
    size = gamma.abs().sum(axis=1)
    if not 0.0 < size.sum() < np.inf:
        raise ValueError(
            "chain: expected options with a finite gamma and open interest, got none: "
            "compute gamma with chain.greeks"
        )
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
    strike_axis(ax, size, _price(chain, pd.Timestamp(np.min(chain["expiry"]))))
    _include_bars(ax, bars.index.to_series())
    if dealer is not None:
        ax.plot(net.index, net, "D", ms=3.5, color=style.ink(), mec=style.paper(), mew=0.6, label="net")
        turn = float(exposure.zero_gamma(chain, dealer=dealer, contract_size=contract_size)["price_usd"])
        if np.isfinite(turn):
            label = f"zero gamma: {style.number(turn)} USD"
            ax.axvline(turn, color=PALETTE[2], lw=1.2, ls=":", label=label)
    whose = "all open options" if dealer is None else "dealers' assumed options"
    total = style.number(float(net.sum()))
    title = f"{_symbol(exposures)}: the delta of {whose} changes by {total} M USD per 1 % move"
    label = f"strike [USD{binned}], 98 % shown"
    style.dress(ax, title=title, x=label, y="gamma [million USD per 1 %]", form="number")
    style.legend(ax, "above")
    table = pd.DataFrame({"calls_musd": calls, "puts_musd": puts, "gamma_musd": net})
    return ax, table.rename_axis("strike").reset_index()


def _one_chain(result: xr.Dataset, dims: tuple[str, ...]) -> xr.Dataset:
    """Return the result of an analysis unchanged; raise if it is of several chains."""
    others = [str(dim) for dim in result.dims if dim not in dims]
    if others:
        raise ValueError(f"chain must not have the dim {others[0]!r}: select one of its labels")
    return result


def _symbol(result: xr.Dataset) -> str:
    return str(result["symbol"].item()) if "symbol" in result.coords else "coin"


def _date(expiry: Any) -> str:
    return f"{pd.Timestamp(expiry).day} {pd.Timestamp(expiry):%b %Y}"


def _both_sides(ax: Axes, rows: pd.DataFrame, width: float, symbol: str) -> pd.DataFrame:
    """Draw calls upwards and puts downwards by position; return the values of the bars."""
    tables = []
    for name, sign, color in (("call", 1.0, LONG), ("put", -1.0, SHORT)):
        coins = rows[rows["side"] == name].groupby("place")["open_interest"].sum()
        label = f"{name}s: {style.number(float(coins.sum()))} {symbol}"
        coins = coins[coins > 0.0]
        style.bars(ax, coins.index.to_numpy(), sign * coins.to_numpy(), width, color=color, label=label)
        tables.append(pd.DataFrame({"side": name, "strike": coins.index, "open_interest": coins.to_numpy()}))
    return pd.concat(tables, ignore_index=True)


def strike_axis(ax: Axes, totals: pd.Series, price: float) -> None:
    """Limit the axis to the strikes with nearly all of the total, and mark the underlying's price."""
    low, high = _range(totals)
    if np.isfinite(price):  # its arrowheads must be inside the axes
        margin = 0.04 * (max(high, price) - min(low, price))
        low = min(low, price - margin)
        high = max(high, price + margin)
    ax.set_xlim(low, high)
    style.write(ax.xaxis, "number")
    ax.locator_params(axis="x", nbins=int(0.75 * style.cell_width(ax) / 48.0))
    if np.isfinite(price):
        label = f"underlying: {style.number(price)} USD"
        mark_price(ax, price, label, "--")


def _include_bars(ax: Axes, places: pd.Series) -> None:
    """Extend the axis so that the frame cuts no bar."""
    half = bar_width(places.unique()) / 2.0
    low, high = ax.get_xlim()
    cut_left = places[(places - half < low) & (places + half > low)]
    cut_right = places[(places - half < high) & (places + half > high)]
    ax.set_xlim(min(low, cut_left.min() - 1.2 * half), max(high, cut_right.max() + 1.2 * half))


def mark_price(ax: Axes, price: float, label: str, stroke: str) -> None:
    """Draw a vertical line with arrowheads at a price, over the bars."""
    ax.axvline(price, color=style.ink(), lw=1.2, ls=stroke, zorder=3, label=label)
    look: dict[str, Any] = {"color": style.ink(), "ms": 6, "lw": 0, "clip_on": False, "label": "_price"}
    for end, marker in ((1.0, "v"), (0.0, "^")):
        ax.plot([price], [end], marker, transform=ax.get_xaxis_transform(), **look)


def bar_width(places: Array) -> float:
    """Return one width for all bars: slightly less than the distance of close bars."""
    if places.size < 2:
        return 0.02 * float(places[0])
    # The lower quartile, as strikes are closer near the price than far from it.
    return 0.85 * float(np.percentile(np.diff(np.sort(places)), 25))


def strike_bins(totals: pd.Series) -> tuple[dict[float, float], str]:
    """Return the centre of each strike's bin, and the bins' width in words.

    If there are too many strikes for visible bars, strikes are binned. Bins are 1, 2 or 5 times a power of
    ten wide and centred at multiples of their width, so regularly spaced strikes fill them evenly.
    """
    strike = totals.index.to_numpy()
    if strike.size <= _BARS:
        return dict(zip(strike, strike, strict=True)), ""
    low, high = _range(totals)
    min_width = (high - low) / _MAX_BINS
    power = 10.0 ** np.floor(np.log10(min_width))
    width = next(power * step for step in (1.0, 2.0, 5.0, 10.0) if power * step >= min_width)
    middle = np.floor(strike / width + 0.5) * width
    return dict(zip(strike, middle, strict=True)), f", bins of {style.number(width)}"


def _range(totals: pd.Series) -> tuple[float, float]:
    """Return the limits of the axis: strikes with the fraction `_SHOWN` of the total, and a margin."""
    strike = totals.index.to_numpy()
    share = totals.to_numpy() / totals.sum()
    cumulative = np.cumsum(share)
    tail = (1.0 - _SHOWN) / 2
    inside = strike[(cumulative >= tail) & (cumulative - share <= 1.0 - tail)]
    low = float(inside.min())
    high = float(inside.max())
    margin = max(0.04 * (high - low), 0.6 * bar_width(inside)) + 0.01 * low  # few bars are wide
    return low - margin, high + margin


def _price(chain: Chain, expiry: pd.Timestamp) -> float:
    """Return the median underlying price of an expiry, which is robust to single wrong prices."""
    prices = chain["underlying_price"]
    if isinstance(chain, pd.DataFrame):
        return float(prices[naive_utc(chain["expiry"]) == naive_utc(expiry)].median())
    return float(prices.sel(expiry=naive_utc(expiry)))


@figure_function
def option_flow(
    trades: pd.DataFrame,
    *,
    expiry: TimeLike | None = None,
    source: Source | None = None,
    ax: Axes | None = None,
    figsize: Size | None = None,
) -> Axes:
    """Draw options that takers bought minus those that they sold, by strike.

    Parameters
    ----------
    trades
        The table ``options_trades`` of one symbol; venues are summed.
    expiry
        The expiry; None sums all expiries.
    source, ax, figsize
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        Bought minus sold of calls and, below, of puts [coins], at one scale: upwards takers bought more,
        downwards they sold more.
        Blocks and legs of packages are not in the bars. ``dd.plot.data(ax)`` has both sides. The strikes with
        98 % of the total are shown, in bins if there are more than 45.

    Raises
    ------
    ValueError
        There are several symbols, the expiry has no trades, or no trade is from the order book.
    """
    require_columns(trades, "trades", others=("symbol", "exchange", "expiry"))
    if trades["symbol"].nunique() != 1:
        raise ValueError(f"trades must be of one symbol, got {trades['symbol'].nunique()}: select one")
    symbol = str(trades["symbol"].iloc[0])
    if expiry is not None:
        trades = trades[trades["expiry"] == listed_expiry(trades["expiry"].unique(), expiry)]
    rows = trades.drop(columns="exchange")
    sums = option_trades.flow(rows, by=("strike", "side"))
    flows = sums.reset_coords(drop=True).to_dataframe().reset_index().fillna({"bought": 0.0, "sold": 0.0})
    totals = (flows["bought"] + flows["sold"]).groupby(flows["strike"]).sum()
    if not totals.sum() > 0:
        raise ValueError(
            "trades must have a trade with execution 'book' and a taker side: blocks and legs of packages "
            "are not drawn"
        )
    middles, binned = strike_bins(totals)
    flows["strike"] = flows["strike"].map(middles)
    table = flows.groupby(["strike", "side"], as_index=False)[["bought", "sold", "net"]].sum()
    wide = table.pivot(index="strike", columns="side", values="net").fillna(0.0)
    # A strip for calls and one for puts: a stack of purchases and sales would have no meaning.
    upper, lower = style.strips(ax, 1.0, 1.0, size=(8.0, 5.0), gap=0.07)
    width = bar_width(wide.index.to_numpy())
    nets = {}
    for strip, side, color in ((upper, "call", LONG), (lower, "put", SHORT)):
        coins = wide.get(side, pd.Series(0.0, wide.index)).to_numpy()
        if side in wide:
            nets[side] = float(coins.sum())
        style.bars(strip, wide.index, coins, width, color=color)
        strike_axis(strip, totals, float(trades["index_price_usd"].median()))
        strip.axhline(0, color=GREY, lw=0.8)
        style.dress(strip, y=f"{side}s, bought\n− sold [{symbol}]", form="number")
        words = f"net of {side}s: {nets.get(side, 0.0):+,.0f} {symbol}"
        strip.text(0.99, 0.97, words, transform=strip.transAxes, ha="right", va="top", fontsize=8)
    low, high = lower.get_xlim()
    lower.set_xlim(min(low, wide.index[0] - width), max(high, wide.index[-1] + width))
    minimum = min(float(wide.to_numpy().min()), 0.0)
    most = max(float(wide.to_numpy().max()), 0.0)
    margin = 0.06 * (most - minimum)
    for strip in (upper, lower):
        # A common scale makes calls and puts comparable; the text is above the bars.
        strip.set_ylim(minimum - margin, most + 4.0 * margin)
    name = symbol
    if trades["exchange"].nunique() == 1:
        name += f" on {trades['exchange'].iloc[0]}"
    title = (
        f"{name}: takers {_net_words(nets, symbol)} in {style.span_words(style.days_between(trades['time']))}"
    )
    style.dress(upper, title=title)
    style.legend(upper, "above")
    lower.set_xlabel(f"strike [USD{binned}], 98 % shown")
    return finish(upper, table, trades, source=source, lowest=lower)


def _net_words(nets: dict[str, float], symbol: str) -> str:
    """Describe the net flow of calls and puts: ``bought 4 BTC of calls more than they sold, …``."""
    words = {side: f"{abs(net):,.0f} {symbol} of {side}s" for side, net in nets.items()}
    if len(nets) < 2 or nets["call"] * nets["put"] >= 0.0:
        did, less = ("bought", "sold") if sum(nets.values()) >= 0.0 else ("sold", "bought")
        return f"{did} {' and '.join(words.values())} more than they {less}"
    up, down = ("call", "put") if nets["call"] > 0.0 else ("put", "call")
    return f"bought {words[up]} more than they sold, and sold {words[down]} more than they bought,"
