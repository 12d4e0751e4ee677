"""A prepared chain, the common input of the option functions: rows, prices, contracts, expiries.

`prepare` creates it from a table or a surface. A row is one option with its time to expiry and status. Prices
are in the currency in which the option is paid.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from derivdata.analysis.black76 import kernels
from derivdata.analysis.black76.formulas import sign
from derivdata.analysis.labelling import keys_of
from derivdata.analysis.panels import require_columns, require_decimal_volatility
from derivdata.analysis.status import Status
from derivdata.support import times
from derivdata.support.arrays import Bools, Floats, Indices, epsilon_in
from derivdata.tables.chains import snapshots
from derivdata.tables.contracts import expiries

_PLACE = ("expiry", "strike", "side")
_CURRENCIES = ("coin", "usd")
_SIDES = ("bid", "ask", "mark")
_VENUE = ("symbol", "exchange")

# Log ratios: a median price that is this far off in the stated unit, and this close in the other, has the
# other unit.
_FAR = np.log(3.0)
_NEAR = np.log(1.5)
_MIN_PRICES = 3
_IN_THE_MONEY = 0.01  # minimum intrinsic value relative to the forward at which a price determines its unit
_FAR_LIMIT = 2.0
_NEAR_LIMIT = 1.1
_REQUIRED = (*_PLACE, "iv")
_NUMBERS = ("strike", "iv", "underlying_price", "open_interest")
PRICES = ("bid_coin", "bid_usd", "ask_coin", "ask_usd", "mark_coin", "mark_usd")
_FROM_PRICES = {"ask_coin", "ask_usd", "mark_coin", "mark_usd"}
_NAME = re.compile(
    r"(?P<head>.+?)[-_](?:\d{1,2}[A-Z]{3}\d{2}|\d{6}|\d{8})[-_][\d.d_]+[-_](?:C|P|CALL|PUT)(?P<tail>.*)",
    re.IGNORECASE,
)
_FIGURES = (
    *_NUMBERS,
    "index_price_usd",
    "volume",
    *PRICES,
    "delta",
    "gamma",
    "vega",
    "theta",
    "rho",
    "year_fraction",
    "status",
    "interest_rate",
)


class Quoted(NamedTuple):
    """Prices of options, NaN if missing, and a mask of rows priced in coin (``inverse``)."""

    bid: pd.Series
    ask: pd.Series
    mark: pd.Series
    inverse: npt.NDArray[np.bool_]

    @property
    def known(self) -> bool:
        """Return whether any option has a price."""
        return any(bool(price.notna().any()) for price in (self.bid, self.ask, self.mark))

    @property
    def mid(self) -> pd.Series:
        """Return the middle of bid and ask; NaN unless both are positive."""
        return ((self.bid + self.ask) / 2).where((self.bid > 0) & (self.ask > 0))


class PreparedChain(NamedTuple):
    """Options in a common form, with the inputs that option functions share.

    `rows` is the result of `option_rows`, with its flags in ``status``. `prices` belong to the same rows.
    `labels` has a row for each forward, that is for each chain, expiry and ``contract``. `place` is the index
    of this row for each option.
    """

    rows: pd.DataFrame
    prices: Quoted
    labels: pd.DataFrame
    place: Indices

    def numbers(self, names: Sequence[str]) -> Indices:
        """Return group numbers: options with the same labels `names` have the same number."""
        if not names:
            return np.zeros(len(self.rows), dtype=np.intp)
        groups = self.labels.groupby(list(names), observed=True, sort=False, dropna=False)
        return np.asarray(groups.ngroup().to_numpy(np.intp)[self.place])

    def select(self, chosen: Bools) -> PreparedChain:
        """Return some of the options, and the labels that they have."""
        used, place = np.unique(self.place[chosen], return_inverse=True)
        labels = self.labels.iloc[used].reset_index(drop=True)
        rows = self.rows[chosen].reset_index(drop=True)
        bid, ask, mark = (price[chosen].reset_index(drop=True) for price in self.prices[:3])
        prices = Quoted(bid, ask, mark, self.prices.inverse[chosen])
        return PreparedChain(rows, prices, labels, place)


def prepare(
    chain: pd.DataFrame | xr.Dataset,
    *,
    at: Any = None,
    iv_unit: str | Mapping[str, str] | None = None,
    dates: bool | None = None,
    interest_rate: float | None = None,
) -> PreparedChain:
    """Prepare a table or a surface; arguments as in `option_rows`."""
    return arranged(option_rows(chain, at=at, iv_unit=iv_unit, dates=dates, interest_rate=interest_rate))


def arranged(rows: pd.DataFrame) -> PreparedChain:
    """Prepare the rows of `option_rows` or `derivdata.analysis.chain.clean`."""
    labelled = rows.assign(contract=contracts(rows))  # a forward is of one contract
    names = [*keys_of(rows), "expiry", "contract"]
    groups = labelled[names].groupby(names, observed=True, sort=True, dropna=False)
    place = groups.ngroup().to_numpy(np.intp)
    _, first = np.unique(place, return_index=True)
    labels = labelled[names].iloc[first].reset_index(drop=True)
    return PreparedChain(rows, quoted(rows), labels, place)


def option_rows(
    chain: pd.DataFrame | xr.Dataset,
    *,
    at: Any = None,
    iv_unit: str | Mapping[str, str] | None = None,
    dates: bool | None = None,
    interest_rate: float | None = None,
) -> pd.DataFrame:
    """Return one row per option in one form; `dates` is True if expiries at midnight are dates.

    ``interest_rate`` [1/year] comes from the argument, or else from the row, or else is 0.
    """
    # 1. One frame with the columns that a chain needs.
    frame = _from_surface(chain) if isinstance(chain, xr.Dataset) else chain
    frame = frame.reset_index(drop=True)
    frame.attrs = {}  # which pandas would copy, however large, with every step from here on
    missing = [name for name in _REQUIRED if name not in frame]
    if missing == ["iv"] and _FROM_PRICES & set(frame):
        frame["iv"] = np.nan  # computed from prices
    elif missing:
        raise ValueError(f"chain lacks {', '.join(missing)}: pass the table options_snapshot")

    # 2. Numbers as floats, volatilities as decimals.
    for name in frame.columns.intersection(PRICES):
        with suppress(TypeError, ValueError):  # object columns, with None for missing quotes
            frame[name] = frame[name].astype(np.float64)
    require_columns(frame, "chain", list(frame.columns.intersection(_FIGURES)))
    unknown = frame["side"][~frame["side"].isin(("call", "put"))]
    if len(unknown):
        raise ValueError(
            f"chain: side must be 'call' or 'put', got {unknown.iloc[0]!r} first in {len(unknown):,} of "
            f"{len(frame):,} rows"
        )
    frame = _with_numbers(frame)
    frame["iv"] = _decimal(frame, iv_unit)

    # 3. Compute the columns that cleaned chains and surfaces already have.
    frame = with_rate(frame, interest_rate)
    if "year_fraction" not in frame:
        frame = _timed(frame, at, dates)
    if "status" not in frame:
        frame["status"] = np.int32(0)
    return frame.reset_index(drop=True)


def _with_numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """Return rows with the columns `_NUMBERS` as floats, NaN where the chain does not have one."""
    for name in _NUMBERS:
        if name in frame:
            frame[name] = frame[name].to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            frame[name] = np.nan
    return frame


def _from_surface(surface: xr.Dataset) -> pd.DataFrame:
    """Return the options of a Dataset from `dd.options.surface` as rows."""
    missing = [dim for dim in _PLACE if dim not in surface.dims]
    if missing:
        raise ValueError(
            f"chain lacks the dim {', '.join(missing)}: a Dataset must come from dd.options.surface"
        )
    if "time" in surface.dims and "time" not in surface.get("year_fraction", surface["time"]).dims:
        surface = surface.drop_vars("year_fraction")
    frame = surface.to_dataframe().reset_index()
    # A surface of prices has `observed` and need not have `iv`.
    if "observed" in frame:
        frame = frame[frame["observed"]].drop(columns="observed")
    else:
        frame = frame[frame["iv"].notna()]
    if "time" not in frame and "as_of" in frame:
        frame = frame.rename(columns={"as_of": "time"})
    for name in ("time", "expiry"):
        if name in frame:
            frame[name] = frame[name].dt.tz_localize("UTC")
    return frame


def _decimal(frame: pd.DataFrame, unit: str | Mapping[str, str] | None) -> pd.Series:
    """Return volatilities as decimals; `unit` is one for all, or one by venue."""
    iv = frame["iv"]
    if unit == "percent":
        return iv / 100.0
    if unit == "decimal" or (unit is None and is_cleaned(frame)):
        return iv
    units: Mapping[str, str] = {} if unit is None else unit  # type: ignore[assignment]
    iv = _of_venues_in_percent(iv, frame, units)
    # Check venues separately, so that percentages of one venue are not hidden among the others.
    venue = [name for name in _VENUE if name in frame]
    keys = [frame[name] for name in venue] or [pd.Series("", index=frame.index)]
    for labels, group in iv.groupby(keys, observed=True):
        if labels[-1] in units:
            continue
        at = f"{{{labels[-1]!r}: 'percent'}}" if "exchange" in venue else "'percent'"
        require_decimal_volatility(group, f"call chain.clean(..., iv_unit={at}) first")
    return iv


def _of_venues_in_percent(iv: pd.Series, frame: pd.DataFrame, units: Mapping[str, str]) -> pd.Series:
    """Return volatilities as decimals; the volatilities of venues that publish percent are divided by 100."""
    if not units:
        return iv
    for name, word in units.items():
        if word not in ("decimal", "percent"):
            raise ValueError(f"iv_unit of {name!r} must be 'decimal' or 'percent', got {word!r}")
    venues = frame.get("exchange", pd.Series("", index=frame.index)).astype(object)
    if absent := sorted(set(units) - set(venues)):
        raise ValueError(f"iv_unit has {', '.join(absent)}, which the chain does not have")
    return iv.mask(venues.map(units) == "percent", iv / 100.0)


def _timed(frame: pd.DataFrame, at: Any, dates: bool | None) -> pd.DataFrame:
    if at is not None:
        frame["time"] = times.timestamp(at, "at")
    if "time" not in frame:
        raise ValueError("chain does not have a time: pass at=, the time of the quotes")
    frame["time"] = timestamps(frame["time"], "the column 'time' of chain")
    frame["expiry"], dated = expiries(frame["expiry"], "the column 'expiry' of chain", dates=dates)
    frame = snapshots(frame)
    dated = dated[frame.index]
    frame["status"] = np.where(dated, np.int32(Status.EXPIRY_TIME_ASSUMED), np.int32(0))
    frame["year_fraction"] = times.year_fraction(frame["time"], frame["expiry"])
    return frame


def timestamps(column: pd.Series, called: str) -> pd.Series:
    """Parse a column of times as UTC; each text is parsed separately."""
    form = "mixed" if column.dtype.kind == "O" else None
    try:
        return pd.to_datetime(column, utc=True, format=form).dt.as_unit("us")
    except (ValueError, TypeError, OverflowError):
        raise ValueError(f"{called} must have times such as 2026-01-31T08:00Z") from None


def with_rate(frame: pd.DataFrame, interest_rate: float | None) -> pd.DataFrame:
    """Return rows with the rate [1/year] at which premiums are discounted, if one is known."""
    if interest_rate is not None:
        return frame.assign(interest_rate=float(interest_rate))
    if "interest_rate" in frame:
        rate = frame["interest_rate"].astype(np.float64).fillna(0.0)
        if not np.isfinite(rate).all():
            raise ValueError("chain: interest_rate must be finite: set infinite rates to NaN")
        return frame.assign(interest_rate=rate)
    return frame


def is_cleaned(chain: pd.DataFrame | xr.Dataset) -> bool:
    """Return whether the table has the columns ``year_fraction`` and ``status``, which `clean` adds."""
    return isinstance(chain, pd.DataFrame) and {"year_fraction", "status"} <= set(chain.columns)


def contracts(frame: pd.DataFrame) -> pd.Series:
    """Return the contract of each option: its name without expiry, strike and side.

    ``BTC-27MAR26-90000-C`` and ``BTC_USDC-27MAR26-90000-C`` are two contracts at one place, of two indices.
    Options without such a name are grouped by the currency of their prices.
    """
    priced = frame[frame.columns.intersection(PRICES)].notna()
    in_coin, in_usd = (priced.filter(like=f"_{unit}").any(axis=1) for unit in _CURRENCIES)
    currency = np.select([in_coin, in_usd], _CURRENCIES, default="")
    if "instrument_name" not in frame:
        return pd.Series(currency, index=frame.index)
    # Parse each name once, because a history has it in many rows.
    codes, names = pd.factorize(frame["instrument_name"])
    # The last element is for rows without a name, which have the code −1.
    family = np.full(len(names) + 1, None, dtype=object)
    for place, name in enumerate(names):
        if match := _NAME.fullmatch(str(name)):
            family[place] = match["head"] + match["tail"]
    unnamed = pd.isna(family)[codes]
    return pd.Series(np.where(unnamed, currency, family[codes]), index=frame.index)


def places(frame: pd.DataFrame) -> list[str]:
    """Return the columns that identify an option's place in its chain."""
    return [*keys_of(frame), *_PLACE]


def quoted(frame: pd.DataFrame) -> Quoted:
    """Return bid, ask and mark of each option."""
    bare = [name for name in _SIDES if name in frame or f"{name}_price" in frame]
    if bare:
        raise ValueError(
            f"the unit of column {bare[0]} is unknown: rename it to {bare[0]}_coin or {bare[0]}_usd"
        )

    # 1. Read the prices in each currency; each row has only one.
    prices = frame.reindex(columns=PRICES).astype(np.float64)
    in_coin = prices[[f"{name}_coin" for name in _SIDES]]
    in_usd = prices[[f"{name}_usd" for name in _SIDES]]
    coin = in_coin.notna().any(axis=1).to_numpy()
    both = np.flatnonzero(coin & in_usd.notna().any(axis=1).to_numpy())
    if both.size:
        first = prices.iloc[both[0]]
        raise ValueError(
            f"chain: {both.size} rows{_from(frame.iloc[both[0]])} have prices in coin and in USD "
            f"({', '.join(first.dropna().index)}): keep the columns of the currency in which the option is "
            "paid"
        )

    # 2. Select the currency in which each row is paid.
    bid, ask, mark = (prices[f"{name}_usd"].mask(coin, prices[f"{name}_coin"]) for name in _SIDES)
    return Quoted(bid, ask, mark, coin)


def best_first(options: pd.DataFrame, prices: Quoted) -> pd.DataFrame:
    """Sort options at one place by preference, independently of the order of the rows.

    Options are sorted by larger open interest, then tighter quote, lower volatility and name.
    """
    width = (prices.ask - prices.bid) / (prices.ask + prices.bid)  # relative: prices may be in coin or USD
    # Crossed quotes do not count as tight.
    ranked = options.assign(wide=width.where(prices.ask >= prices.bid))
    columns = [name for name in ("open_interest", "wide", "iv", "instrument_name") if name in ranked]
    ascending = [name != "open_interest" for name in columns]
    return ranked.sort_values(columns, ascending=ascending, na_position="last", kind="stable")


def black(options: pd.DataFrame) -> Floats:
    """Return Black's price [USD] of each option, by its own volatility and underlying price."""
    names = ("underlying_price", "strike", "year_fraction", "iv")
    forward, strike, years, iv = (options[name].to_numpy(np.float64) for name in names)
    side = sign(options["side"])
    rate = np.zeros(len(options))
    with np.errstate(all="ignore"):
        return kernels.price(forward, strike, years, iv, side, rate, inverse=False)


def implied(
    options: pd.DataFrame, price: pd.Series, forward: pd.Series, discount: Any, inverse: Any
) -> Floats:
    """Return the volatility of each option at a price, in coin if `inverse`; NaN without one."""
    years = options["year_fraction"].to_numpy(np.float64)
    columns = (price, forward, options["strike"])
    value, f, strike = (column.to_numpy(np.float64) for column in columns)
    side = sign(options["side"])
    iv = np.full(len(options), np.nan)
    with np.errstate(all="ignore"):
        rate = np.broadcast_to(-np.log(np.asarray(discount, dtype=np.float64)) / years, years.shape)
        for coin in (False, True):
            rows = np.flatnonzero(inverse == coin)
            if rows.size:
                arguments = [values[rows] for values in (value, f, strike, years, side, rate)]
                precision = (epsilon_in(value[rows]), 0.0)
                iv[rows], _ = kernels.implied_volatility(*arguments, inverse=coin, precision=precision)
    return iv


def require_price_units(chain: PreparedChain) -> None:
    """Raise if prices are in another unit than their name states.

    With volatilities, prices are compared with Black's price: they are in the other unit if they are off by
    more than a factor of three in the stated unit and close in the other. Without volatilities, prices are
    compared with the bounds of options in the money. Prices in coin are those in USD divided by the forward.
    """
    # 1. Compare prices with Black's in both units, for options with a volatility.
    options = chain.rows
    prices = chain.prices
    forward = options["underlying_price"]
    paid = prices.mark.fillna(prices.mid)
    with np.errstate(all="ignore"):
        model = black(options)
        in_stated = (paid * forward.where(prices.inverse, 1.0)).to_numpy()
        in_other = (paid * forward.where(~prices.inverse, 1.0)).to_numpy()
        off_by_model = np.abs(np.log(in_stated / model))
        off_in_other = np.abs(np.log(in_other / model))
    has_model = ((paid > 0) & (model > 0) & (forward > 0)).to_numpy(dtype=bool)

    # 2. An option in the money is worth at least its intrinsic value, and a call at most the forward, a put
    # its strike.
    is_call = options["side"] == "call"
    intrinsic = (forward - options["strike"]).where(is_call, options["strike"] - forward)
    ceiling = forward.where(is_call, options["strike"])
    in_the_money = ((paid > 0) & (intrinsic > _IN_THE_MONEY * forward)).to_numpy(dtype=bool)
    impossible = (in_stated < intrinsic / _FAR_LIMIT) | (in_stated > _FAR_LIMIT * ceiling)
    possible = (in_other > intrinsic / _NEAR_LIMIT) & (in_other < _NEAR_LIMIT * ceiling)
    is_swapped = (impossible & possible).to_numpy(dtype=bool)

    # 3. Decide by venue and currency.
    venue = chain.numbers([name for name in _VENUE if name in options])
    for number, inverse in itertools.product(np.unique(venue), (False, True)):
        rows = np.flatnonzero((venue == number) & (prices.inverse == inverse))
        priced = rows[has_model[rows]]
        deep = rows[in_the_money[rows]]
        if len(priced) >= _MIN_PRICES:
            off = np.median(off_by_model[priced]) > _FAR and np.median(off_in_other[priced]) < _NEAR
        else:
            off = len(deep) >= _MIN_PRICES and np.mean(is_swapped[deep]) > 0.5
        if off:
            unit, right = ("coin", "usd") if inverse else ("usd", "coin")
            raise ValueError(
                f"prices of chain{_from(options.iloc[rows[0]])} have the suffix _{unit}, but are in {right} "
                f"by their volatility and underlying price: rename the columns bid, ask and mark to _{right}"
            )


def _from(row: pd.Series) -> str:
    place = [str(row[name]) for name in _VENUE if name in row]
    return f" ({', '.join(place)})" if place else ""
