"""Prices of a chain's options, each row in the unit of its own columns: coin or USD."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from derivdata.analysis.black76 import kernels
from derivdata.analysis.black76.formulas import sign
from derivdata.support.arrays import Floats, epsilon_in

_UNITS = ("coin", "usd")
_NAMES = ("bid", "ask", "mark")
_VENUE = ("symbol", "exchange")

# Logs: a median price this far off in the unit of its name, and this close in the other, is in the other.
_FAR = np.log(3.0)
_NEAR = np.log(1.5)
_LEAST_PRICES = 3


class Quoted(NamedTuple):
    """Prices of options, NaN where there is none, and which rows are priced in coin (``inverse``)."""

    bid: pd.Series
    ask: pd.Series
    mark: pd.Series
    inverse: npt.NDArray[np.bool_]

    @property
    def known(self) -> bool:
        """Tell whether any option has a price."""
        return any(bool(part.notna().any()) for part in (self.bid, self.ask, self.mark))

    @property
    def mid(self) -> pd.Series:
        """Middle of bid and ask; NaN unless both are positive."""
        return ((self.bid + self.ask) / 2).where((self.bid > 0) & (self.ask > 0))


def quoted(frame: pd.DataFrame) -> Quoted:
    """Return bid, ask and mark of each option."""
    bare = [name for name in _NAMES if name in frame or f"{name}_price" in frame]
    if bare:
        raise ValueError(f"the {bare[0]} has no unit: name it {bare[0]}_coin or {bare[0]}_usd")
    nothing = pd.Series(np.nan, index=frame.index)
    prices = {
        unit: [frame.get(f"{name}_{unit}", nothing).astype(np.float64) for name in _NAMES] for unit in _UNITS
    }
    coin, usd = (np.any([column.notna() for column in prices[unit]], axis=0) for unit in _UNITS)
    both = np.flatnonzero(coin & usd)
    if both.size:
        raise ValueError(
            f"{both.size} rows of chain{_from(frame.iloc[both[0]])} have prices in coin and in USD: keep the "
            "columns of the currency that the option is paid in"
        )
    bid, ask, mark = (
        each.mask(coin, other) for each, other in zip(prices["usd"], prices["coin"], strict=True)
    )
    return Quoted(bid, ask, mark, coin)


def best_first(options: pd.DataFrame) -> pd.DataFrame:
    """Sort options by how well they represent their place, whatever the order of the rows.

    More open interest comes first, of equal ones the tighter quote, then the lower volatility, then the name.
    """
    prices = quoted(options)
    width = (prices.ask - prices.bid) / (prices.ask + prices.bid)  # relative: prices may be in coin or USD
    ranked = options.assign(wide=width.where(prices.ask >= prices.bid))  # a crossed quote is not a tight one
    columns = [name for name in ("open_interest", "wide", "iv", "instrument_name") if name in ranked]
    ascending = [name != "open_interest" for name in columns]
    return ranked.sort_values(columns, ascending=ascending, na_position="last", kind="stable")


def black(options: pd.DataFrame) -> Floats:
    """Return Black's price [USD] of each option, by its own volatility and underlying price."""
    names = ("underlying_price", "strike", "year_fraction", "iv")
    forward, strike, years, iv = (options[name].to_numpy(np.float64) for name in names)
    side, rate = sign(options["side"]), np.zeros(len(options))
    with np.errstate(all="ignore"):
        return kernels.price(forward, strike, years, iv, side, rate, inverse=False)


def implied(
    options: pd.DataFrame, price: pd.Series, forward: pd.Series, discount: Any, inverse: Any
) -> Floats:
    """Return the volatility of each option at a price, in coin where `inverse`; NaN where there is none."""
    years = options["year_fraction"].to_numpy(np.float64)
    columns = (price, forward, options["strike"])
    value, f, strike = (column.to_numpy(np.float64) for column in columns)
    side, iv = sign(options["side"]), np.full(len(options), np.nan)
    with np.errstate(all="ignore"):
        rate = np.broadcast_to(-np.log(np.asarray(discount, dtype=np.float64)) / years, years.shape)
        for coin in (False, True):
            rows = np.flatnonzero(inverse == coin)
            own = [part[rows] for part in (value, f, strike, years, side, rate)]
            if rows.size:
                precision = (epsilon_in(own[0]), 0.0)
                iv[rows], _ = kernels.implied_volatility(*own, inverse=coin, precision=precision)
    return iv


def require_price_units(options: pd.DataFrame) -> None:
    """Refuse prices that are in another unit than their name says: three times off, and right as the other.

    Black's price of each option, by its own volatility and underlying price, shows which: prices in coin
    are those in USD divided by the forward.
    """
    prices = quoted(options)
    model = black(options)
    paid = prices.mark.fillna(prices.mid)
    usable = ((paid > 0) & (model > 0) & (options["underlying_price"] > 0)).to_numpy(dtype=bool)
    with np.errstate(all="ignore"):
        as_usd = np.log(paid.to_numpy() / model)
        as_coin = as_usd + np.log(options["underlying_price"].to_numpy())
    stated = np.where(prices.inverse, as_coin, as_usd)
    other = np.where(prices.inverse, as_usd, as_coin)
    names = [name for name in _VENUE if name in options]
    venues = options.groupby(names or np.zeros(len(options)), observed=True, sort=False, dropna=False)
    frame = pd.DataFrame({"venue": venues.ngroup().to_numpy(), "inverse": prices.inverse})
    for (_, inverse), rows in frame[usable].groupby(["venue", "inverse"]).groups.items():
        off = np.median(np.abs(stated[rows])) > _FAR and np.median(np.abs(other[rows])) < _NEAR
        if len(rows) >= _LEAST_PRICES and off:
            unit, right = ("coin", "usd") if inverse else ("usd", "coin")
            raise ValueError(
                f"the prices of chain{_from(options.iloc[rows[0]])} are named _{unit} and are in {right} by "
                f"their volatility and underlying price: rename the columns bid, ask and mark to _{right}"
            )


def _from(row: pd.Series) -> str:
    place = [str(row[name]) for name in _VENUE if name in row]
    return f" ({', '.join(place)})" if place else ""
