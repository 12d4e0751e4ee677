"""Traded options: taker flow, and the chain implied by trades.

``trades`` is the table ``options_trades``. The side of a negotiated block is that of one party, and a leg of
a package is priced with the others: neither counts as flow or as a volatility.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import ndtr

from derivdata.analysis.black76 import kernels
from derivdata.analysis.chain.prepared import contracts
from derivdata.analysis.labelling import by_label
from derivdata.analysis.panels import require_columns
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.support.arrays import Floats
from derivdata.tables import TABLES
from derivdata.tables.frames import require_timestamps

__all__ = ["chain", "flow"]
__dir__ = __all__.copy

_UNITS = dict.fromkeys(("bought", "sold", "net", "block"), "coin") | {"premium_usd": "USD"}
_SERIES = ("symbol", "exchange", "expiry")
_MIN_SLOPE = 0.2
_ROUNDS = 30


@typed
def flow(
    trades: pd.DataFrame,
    *,
    by: Sequence[Literal["expiry", "strike", "side"]] = ("strike", "side"),
    every: str | pd.Timedelta | None = None,
) -> xr.Dataset:
    """Sum the amounts that takers bought and sold, grouped by expiry, strike and side, or by some of these.

    Parameters
    ----------
    trades
        Table ``options_trades``.
    by
        Dims of the result.
    every
        Length of the time steps to sum over; the dim ``time`` has their starts. None sums over all times.

    Returns
    -------
    Dataset, dims ``symbol``, ``exchange`` and ``time``, each only if there are several, then `by`
        ``bought`` and ``sold`` [coin] in the order book; ``net``, bought minus sold; ``premium_usd`` [USD],
        paid minus received by takers, NaN if a trade has no price or index; ``block`` [coin], blocks and legs
        of packages, which the other amounts exclude; ``trade_count``. NaN without trades.

    Raises
    ------
    ValueError
        A column is missing.

    Examples
    --------
    >>> trades = dd.options.trades("BTC", "1d", venues=["deribit"])
    >>> flow = dd.analysis.option_trades.flow(trades, by=["side"])
    >>> bool(abs(flow["bought"] - flow["sold"] - flow["net"]).max() < 1e-9)
    True
    """
    rows = _rows(trades)
    size = rows["size"]
    in_book = rows["execution"] == "book"
    bought = size.where(in_book & (rows["taker_side"] == "buy"), 0.0)
    sold = size.where(in_book & (rows["taker_side"] == "sell"), 0.0)
    price_usd = rows["price_usd"].fillna(rows["price_coin"] * rows["index_price_usd"])
    figures = pd.DataFrame(
        {
            "bought": bought,
            "sold": sold,
            "premium_usd": ((bought - sold) * price_usd).where(in_book, 0.0),
            "block": size.where(~in_book, 0.0),
            "trade_count": 1,
        }
    )
    # Group by those of these columns that the table has, in this order.
    labels = rows.filter(["symbol", "exchange", *by])
    if every is not None:
        labels = labels.assign(time=rows["time"].dt.floor(times.length(every, "every")))
    keys = [labels[name] for name in labels]
    table = figures.groupby(keys, observed=True).sum(skipna=False).reset_index()
    table["net"] = table["bought"] - table["sold"]
    return by_label(table, by, dict.fromkeys([*figures, "net"], by), _UNITS)


@typed
def chain(
    trades: pd.DataFrame, *, at: times.TimeLike | None = None, window: str | pd.Timedelta = "6h"
) -> pd.DataFrame:
    """Return the option chain implied by the trades of the last hours, for fits of smiles and surfaces.

    Parameters
    ----------
    trades
        Table ``options_trades`` with volatilities in ``iv``.
    at
        Time of the chain; None is the time of the last trade.
    window
        Length of the period before `at` whose trades are used.

    Returns
    -------
    DataFrame, table ``options_snapshot``
        One row per option out of the money that was traded in the book: ``iv`` [1/√year], the mean by size;
        ``volume`` [coin]; ``underlying_price`` [USD], the forward. Open interest is missing.
        `derivdata.analysis.surface.from_chain` fits it, `derivdata.plot.smile` draws it.

    Raises
    ------
    ValueError
        A column is missing, or no trade of the window has a volatility.

    Notes
    -----
    The forward over the index comes from the venue if it publishes one. Otherwise it is the median over an
    expiry of the values implied by price and volatility of each trade. For an option paid in coin ``price =
    B(1, m, T, iv)`` in ``m = K/F``, for one paid in USD or a dollar token ``price = B(F, K, T, iv)`` in F,
    solved where the slope is above 0.2. Coin and USDC options of an expiry have separate medians. Expiries
    without either are omitted. The smile moves with the price within the window: volatilities are placed at
    the current moneyness of their strike.

    Examples
    --------
    >>> quotes = dd.analysis.option_trades.chain(dd.options.trades("BTC", "6h", venues=["deribit"]))
    >>> surface = dd.analysis.surface.from_chain(quotes)
    """
    rows = _rows(trades)
    now = rows["time"].max() if at is None else times.timestamp(at, "at")
    since = now - times.length(window, "window")
    require_columns(rows, "trades", others=(*_SERIES, "instrument_name"))
    rows = rows[(rows["time"] > since) & (rows["time"] <= now) & (rows["expiry"] > now)]
    rows = rows[(rows["execution"] == "book") & rows["iv"].notna() & rows["index_price_usd"].notna()]
    if rows.empty:
        raise ValueError(
            f"trades must have at least one row with a volatility and an index price in {window=} to "
            f"at={now}: pass a longer window"
        )

    # 1. Compute the forward of each expiry and contract: its ratio to the index times the newest index.
    rows = rows.sort_values("time", kind="stable").astype({"symbol": "object", "exchange": "object"})
    rows["ratio"] = _forwards(rows) / rows["index_price_usd"]
    rows["iv_times_size"] = rows["iv"] * rows["size"]
    rows["contract"] = contracts(rows)
    by_index = rows.groupby(["symbol", "exchange", "contract"])
    rows["index_price_usd"] = by_index["index_price_usd"].transform("last")
    median = rows.groupby([*_SERIES, "contract"])["ratio"].transform("median")
    rows["underlying_price"] = median * rows["index_price_usd"]

    # 2. Average the volatility of each option that is out of the money at this forward.
    options = rows.groupby([*_SERIES, "strike", "side", "instrument_name"], observed=True)
    sums = options[["size", "iv_times_size"]].sum()
    table = sums.join(options[["underlying_price", "index_price_usd"]].last()).reset_index()
    table = table.assign(time=now, iv=table["iv_times_size"] / table["size"], open_interest=np.nan)
    is_call = table["side"] == "call"
    is_out_of_the_money = is_call == (table["strike"] >= table["underlying_price"])
    quotes = table[is_out_of_the_money & table["underlying_price"].notna()]
    quotes = quotes.rename(columns={"size": "volume"}).drop(columns="iv_times_size")
    result = TABLES["options_snapshot"].conform(quotes)
    result.attrs = dict(trades.attrs)
    return result


def _rows(trades: pd.DataFrame) -> pd.DataFrame:
    """Check the columns of trades, and return a copy without attributes."""
    others = ("time", "expiry", "side", "taker_side", "execution")
    numbers = ("strike", "size", "price_coin", "price_usd", "iv", "index_price_usd", "underlying_price")
    require_columns(trades, "trades", numbers, others=others)
    require_timestamps(trades, "trades", ("time", "expiry"))
    rows = trades.copy(deep=False)
    rows.attrs = {}
    return rows


def _forwards(rows: pd.DataFrame) -> pd.Series:
    """Return the forward of each trade: the venue's, or implied by price and volatility, or NaN.

    Prices are in coin, ``B(F, K)/F``, or in USD, ``B(F, K)``.
    """
    years = times.year_fraction(rows["time"], rows["expiry"]).to_numpy()
    names = ("strike", "iv", "price_coin", "price_usd", "index_price_usd")
    strike, iv, in_coin, in_usd, index = (rows[name].to_numpy(np.float64) for name in names)
    sign = np.where(rows["side"] == "call", 1.0, -1.0)
    ones = np.ones(len(rows))
    root = iv * np.sqrt(years)

    def solved(start: Floats, price: Floats, value: Any, slope: Any) -> Floats:
        """Return the root of ``value(x) = price`` by Newton's steps; NaN where the slope is small there."""
        x = start
        with np.errstate(divide="ignore", invalid="ignore"):
            for _ in range(_ROUNDS):
                rate = slope(x)
                x = np.maximum(x + (price - value(x)) / np.where(rate == 0.0, np.nan, rate), 1e-9)
            return np.where(np.abs(slope(x)) > _MIN_SLOPE, x, np.nan)

    def premium(forward: Floats, against: Floats) -> Floats:
        return kernels.price(forward, against, years, iv, sign, np.zeros(len(rows)), inverse=False)

    def probability(log_ratio: Floats, shift: float) -> Floats:
        return np.asarray(sign * ndtr(sign * (log_ratio / root + shift * root)))

    # In coin the unknown is m = K/F, whose price B(1, m) does not depend on F.
    m = solved(strike / index, in_coin, lambda m: premium(ones, m), lambda m: -probability(-np.log(m), -0.5))
    # In units of the strike: x = F/K, and the price over K is B(x, 1).
    x = solved(
        index / strike, in_usd / strike, lambda x: premium(x, ones), lambda x: probability(np.log(x), 0.5)
    )
    implied = pd.Series(np.where(np.isnan(in_coin), strike * x, strike / m), rows.index)
    return rows["underlying_price"].fillna(implied)
