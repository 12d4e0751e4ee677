"""Costs of trades by venue and side: fees with their caps, slippage, delivery and margin."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from derivdata.analysis.backtest.market import Market
from derivdata.analysis.backtest.results import provenance_of, trades
from derivdata.analysis.funding.pairs import slippage_bps
from derivdata.analysis.panels import last_valid, require, require_labels, require_times
from derivdata.support.arguments import Numbers, require_fields, typed
from derivdata.support.arrays import Bools, Floats
from derivdata.support.text import warn_caller
from derivdata.support.times import naive_utc
from derivdata.tables.venue_facts import FACTS, fact_value
from derivdata.units import BPS, USD_UNIT

_SIDES = ("buy", "sell")


@dataclass(frozen=True)
class Costs:
    """Costs of trades [bps of the notional traded].

    Attributes
    ----------
    fee_bps
        Fee of one trade: one number for all venues; or a mapping of venues to a number, or to ``{"buy": …,
        "sell": …}``. None uses the taker fees of ``dd.venues.facts()``, and raises for a symbol and venue
        without one.
    slippage_bps
        Distance from the mark at which an order is filled, without `depth`.
    liquidation_bps
        Fee of a liquidation on top of the fee of the trade, for the leg that is liquidated.
    """

    fee_bps: float | Mapping[str, Any] | None = None
    slippage_bps: float = 0.0
    liquidation_bps: float = 0.0

    def by_side(self, symbols: Sequence[str], venues: Sequence[str]) -> Floats:
        """Return the fees [bps] over (buy, sell), symbols and venues."""
        fees = np.empty((2, len(symbols), len(venues)))
        if self.fee_bps is None:
            fees[:] = _published(symbols, venues)
            return fees
        if not isinstance(self.fee_bps, Mapping):
            fees[:] = _number(self.fee_bps, "fee_bps")
            return fees
        for place, venue in enumerate(venues):
            if venue not in self.fee_bps:
                given = ", ".join(map(str, self.fee_bps)) or "none"
                raise ValueError(f"fee_bps does not have a fee for {venue!r}, only for {given}: add it")
            fee = self.fee_bps[venue]
            if not isinstance(fee, Mapping):
                fee = dict.fromkeys(_SIDES, fee)
            if set(fee) != set(_SIDES):
                raise ValueError(f"fee_bps[{venue!r}] must have the sides buy and sell, got {sorted(fee)}")
            for row, side in enumerate(_SIDES):
                fees[row, :, place] = _number(fee[side], f"fee_bps[{venue!r}]")
        return fees


def _published(symbols: Sequence[str], venues: Sequence[str]) -> Floats:
    """Return the taker fees of ``dd.venues.facts()`` [bps] over symbols and venues."""
    fees = np.empty((len(symbols), len(venues)))
    lacking = set()
    for row, symbol in enumerate(symbols):
        for column, venue in enumerate(venues):
            fee = fact_value(venue, "taker_fee_bps", symbol)
            if fee is None:
                lacking.add(venue)
            else:
                fees[row, column] = fee
    if lacking:
        raise ValueError(
            f"dd.venues.facts() does not have a taker fee of {', '.join(sorted(lacking))} for every symbol: "
            "pass fee_bps"
        )
    return fees


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool | str) or value is None or np.ndim(value):
        raise TypeError(f"{name} must be a number, got {value!r}")
    number = float(value)
    if not np.isfinite(number):
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    return number


_BOOK_SIDES = ["ask", "bid"]  # sides of the book that a buy and a sell use
_FILLS = (
    ("long", "entry", "ask", "entry_usd"),
    ("short", "entry", "bid", "entry_usd"),
    ("long", "exit", "bid", "exit_usd"),
    ("short", "exit", "ask", "exit_usd"),
)
"""Venue, time, side of the book and notional of the four orders of every trade."""


@typed
def capacity(result: xr.Dataset, depth: xr.DataArray, sizes_usd: Numbers | None = None) -> xr.Dataset:
    """Compute the earnings of a backtest's trades at other leg sizes.

    Parameters
    ----------
    result
        Result of `carry`.
    depth
        Depth of the books [USD], as in `carry`.
    sizes_usd
        Notional of a leg at entry [USD]; by default a quarter to 64 times that of the backtest.

    Returns
    -------
    Dataset, dim ``size_usd``
        ``net_usd``: funding, price and fees in proportion to the size, minus the slippage of that size;
        ``slippage_usd``; ``filled``, the fraction of the trades that the books fill at that size (the others
        are omitted). ``capacity_usd``: the size with the highest earnings [USD of a leg]; NaN if no size has
        positive earnings.

    Raises
    ------
    TypeError, ValueError
        `result` does not come from a backtest; `depth` is not in USD or lacks a dim; a size is not positive.

    Notes
    -----
    Every size makes the same trades, although a rule that reads depth might have made others. The capital
    grows with the size. Each order consumes the book from the best price, and the book recovers before the
    next order.
    """
    # 1. Read the trades of the backtest and the sizes.
    table = trades(result)
    for name in ("entry_usd", "exit_usd", "funding_usd", "price_usd", "fees_usd"):
        if table[name].dtype.kind not in "fiu":
            raise TypeError(f"result must have numbers in {name}, got {table[name].dtype}")
    if "leg_usd" not in result.attrs:
        raise ValueError(
            "result must come from a rule, got the result of a Portfolio, whose pairs have different sizes"
        )
    leg = float(result.attrs["leg_usd"])
    if sizes_usd is None:
        sizes_usd = leg * 2.0 ** np.arange(-2, 7)
    sizes = np.atleast_1d(np.asarray(sizes_usd, float))
    if not (sizes > 0.0).all() or sizes.ndim != 1:
        raise ValueError("sizes_usd must be positive numbers [USD]")
    require(depth, "exchange", "side", "depth_bps", units=USD_UNIT, name="depth")
    require_labels(depth, "depth", "side", ["ask", "bid"])

    # 2. Compute the slippage of the four orders of each trade at each size; NaN if the book is too thin.
    grid = xr.DataArray(sizes, dims="size_usd", coords={"size_usd": sizes})
    slippage = np.zeros((len(table), sizes.size))
    if len(table):
        for venue, timestamp, side, notional in _FILLS:
            books = _books(depth, table["symbol"].to_numpy(), table[venue].to_numpy(), table[timestamp], side)
            bps = slippage_bps(books, grid).transpose("trade", "size_usd").to_numpy()
            # Fraction of the traded notional in this leg.
            share = table[notional].to_numpy()[:, None] / (2.0 * leg)
            slippage += bps / BPS * share * sizes

    # 3. Add funding, price P&L and fees, which are proportional to the size.
    filled = np.isfinite(slippage)
    earned = (table["funding_usd"] + table["price_usd"] - table["fees_usd"]).to_numpy()[:, None] * sizes / leg
    net: Floats = np.where(filled, earned - slippage, 0.0).sum(axis=0)
    # The maximum of a NaN is NaN, and so is the capacity.
    capacity_usd = sizes[np.argmax(net)] if np.max(net, initial=0.0) > 0.0 else np.nan
    usd = {"units": USD_UNIT}
    return xr.Dataset(
        {
            "net_usd": ("size_usd", net, usd),
            "slippage_usd": ("size_usd", np.where(filled, slippage, 0.0).sum(axis=0), usd),
            "filled": ("size_usd", filled.mean(axis=0) if len(table) else np.full(sizes.size, np.nan)),
            "capacity_usd": ((), capacity_usd, usd),
        },
        {"size_usd": ("size_usd", sizes, usd)},
        {key: result.attrs[key] for key in ("leg_usd", "capital_usd") if key in result.attrs}
        | provenance_of(result, depth),
    )


def _books(
    depth: xr.DataArray, symbols: object, venues: object, timestamps: object, side: str
) -> xr.DataArray:
    """Return the newest books at the times of the trades, dims ``trade`` and ``depth_bps``."""
    books = depth.sel(side=side, drop=True)
    names = {"exchange": xr.DataArray(venues, dims="trade")}
    if "symbol" in books.dims:
        names["symbol"] = xr.DataArray(symbols, dims="trade")
    labels = {dim: np.unique(np.asarray(wanted)) for dim, wanted in names.items()}
    books = books.reindex(labels).sel(names)
    if "time" not in depth.dims:
        return books
    require_times(depth, "depth")
    books = books.sortby("time")
    stamps = np.asarray(naive_utc(timestamps), dtype="datetime64[us]")
    row = np.searchsorted(books["time"].to_numpy(), stamps, side="right") - 1
    at = xr.DataArray(np.maximum(row, 0), dims="trade")
    return books.isel(time=at).where(xr.DataArray(row >= 0, dims="trade")).drop_vars("time")


class Slippage:
    """Slippage [bps] over (side of the trade, symbol, venue), from the newest known depth.

    Attributes
    ----------
    costs
        Over (time of depth, side, symbol, venue). NaN before the first book that is deep enough; later an
        insufficient book uses the last value, so that a position can be closed.
    fills
        Whether the depth at that time fills an order on both sides.
    """

    costs: Floats
    fills: Bools

    def __init__(self, market: Market, depth: xr.DataArray | None, leg_usd: float, flat: float) -> None:
        shape = (len(market.symbols), len(market.venues))
        self._times: NDArray[Any] | None = None
        if depth is None:
            self.costs = np.full((1, 2, *shape), flat)
            self.fills = np.ones((1, *shape), dtype=np.bool_)
            return
        require(depth, "exchange", "side", "depth_bps", units=USD_UNIT, name="depth")
        if "symbol" not in depth.dims:
            depth = depth.drop_vars("symbol", errors="ignore").expand_dims(symbol=list(market.symbols[:1]))
        slippage = slippage_bps(depth, leg_usd)
        require_labels(slippage, "depth", "side", _BOOK_SIDES)
        if "time" in slippage.dims:
            require_times(slippage, "depth")
            slippage = slippage.sortby("time")
            self._times = slippage["time"].to_numpy()
        else:
            slippage = slippage.expand_dims("time")
        labels = {"symbol": list(market.symbols), "exchange": list(market.venues), "side": _BOOK_SIDES}
        values = slippage.reindex(labels).transpose("time", "side", "symbol", "exchange").to_numpy()
        self.fills = np.isfinite(values).all(axis=1)
        rows = np.moveaxis(last_valid(np.moveaxis(np.isfinite(values), 0, -1)), -1, 0)
        filled = np.take_along_axis(values, np.maximum(rows, 0), axis=0)
        self.costs = np.where(rows >= 0, filled, np.nan)

    def at(self, timestamp: Any) -> tuple[Floats, Bools]:
        """Return the slippage at a time, and a mask of orders that can be filled."""
        if self._times is None:
            return self.costs[0], self.fills[0]
        row = int(np.searchsorted(self._times, timestamp, side="right")) - 1
        if row < 0:
            return np.full(self.costs.shape[1:], np.nan), np.zeros(self.fills.shape[1:], dtype=np.bool_)
        return self.costs[row], self.fills[row]


_FRIDAY = 4


@dataclass(frozen=True)
class OptionCosts:
    """Costs of options and of their hedge.

    None uses the newest fact of ``dd.venues.facts()`` on the day of the trade, and raises for a venue without
    one.

    Attributes
    ----------
    option_fee_bps
        Fee of an option [bps of the underlying].
    option_fee_cap
        Maximum of a fee or delivery fee, as a fraction (up to 1) of the option's price or payoff. Infinite
        means no cap.
    delivery_fee_bps
        Fee of an option delivered in the money [bps of the underlying]. With None, options that do not expire
        on a Friday pay the venue's fee for daily options.
    fee_bps
        Fee of perpetuals, futures and spot [bps of the notional].
    slippage_bps
        Distance from the mark at which perpetuals, futures and spot are filled [bps]. Options are filled at
        bid and ask.
    """

    option_fee_bps: float | None = None
    option_fee_cap: float | None = None
    delivery_fee_bps: float | None = None
    fee_bps: float | None = None
    slippage_bps: float = 0.0

    def __post_init__(self) -> None:
        require_fields(self)
        if self.fee_bps is not None and not np.isfinite(self.fee_bps):
            raise ValueError(f"fee_bps must be a finite number, got {self.fee_bps!r}")
        cap = self.option_fee_cap
        if cap is not None and 1.0 < cap < np.inf:
            raise ValueError(f"option_fee_cap must be a fraction from 0 to 1 (12.5 % is 0.125), got {cap!r}")
        for name in ("option_fee_bps", "option_fee_cap", "delivery_fee_bps", "slippage_bps"):
            value = getattr(self, name)
            is_cap = name == "option_fee_cap"
            if value is not None and not (0.0 <= value < np.inf or (is_cap and value == np.inf)):
                raise ValueError(f"{name} must be 0 or more, got {value!r}")


class Fees:
    """Fees of one symbol on the venues of its options and of its hedge."""

    def __init__(self, costs: OptionCosts, symbol: str, venue: str, hedge_venue: str) -> None:
        self._costs = costs
        self._symbol = symbol
        self._venue = venue
        self._hedge_venue = hedge_venue
        self._early: set[str] = set()

    def of_trade(self, price: float, underlying: float, day: str) -> float:
        """Return the fee of one option at a price [currency of both]."""
        rate = self._rate("option_fee_bps", "option_taker_fee_bps", self._venue, day) / BPS
        return min(rate * underlying, self._cap(day) * price)

    def of_delivery(self, payoff: float, underlying: float, day: str) -> float:
        """Return the fee of one option that is delivered [currency of both]."""
        if payoff <= 0.0:
            return 0.0
        rate = self._delivery_rate(day) / BPS
        return min(rate * underlying, self._cap(day) * payoff)

    def of_hedge(self, day: str) -> float:
        """Return the fee of perpetuals, futures and spot [fraction of the notional]."""
        return self._rate("fee_bps", "taker_fee_bps", self._hedge_venue, day) / BPS

    @property
    def slippage(self) -> float:
        """Return the slippage of perpetuals, futures and spot [fraction of the notional]."""
        return self._costs.slippage_bps / BPS

    def _cap(self, day: str) -> float:
        return self._rate("option_fee_cap", "option_fee_cap", self._venue, day)

    def _delivery_rate(self, day: str) -> float:
        """Return the delivery fee [bps] on a day; daily options, not on a Friday, may have their own."""
        if self._costs.delivery_fee_bps is None and dt.date.fromisoformat(day).weekday() != _FRIDAY:
            fact = "daily_option_delivery_fee_bps"
            of_daily = fact_value(self._venue, fact, self._symbol, day)
            if of_daily is not None:
                return of_daily
        return self._rate("delivery_fee_bps", "option_delivery_fee_bps", self._venue, day)

    def _rate(self, name: str, fact: str, venue: str, day: str) -> float:
        """Return a fee [bps] on a day: the argument `name`, otherwise the published `fact` of a venue."""
        given: float | None = getattr(self._costs, name)
        if given is not None:
            return given
        published = fact_value(venue, fact, self._symbol, day)
        if published is not None:
            return published
        # Before the first recorded fact, the oldest value is used, and a notice states its day.
        rows = [row for row in FACTS if row.exchange == venue and row.fact == fact]
        of_symbol = [row for row in rows if row.symbol in ("", self._symbol)]
        if not of_symbol:
            raise ValueError(
                f"dd.venues.facts() does not have {fact} of {self._symbol} on {venue}: pass "
                f"OptionCosts({name}=...)"
            )
        first = min(of_symbol, key=lambda row: row.as_of)
        if fact not in self._early:
            self._early.add(fact)
            warn_caller(
                f"{fact} of {venue} is unknown on {day}; the value of {first.as_of} is used. Pass "
                f"OptionCosts({name}=...) to set it"
            )
        return first.value


def margin_of_short(side: str, strike: float, spot: float, mark: float) -> float:
    """Return the initial margin of one short option [USD] by the formula of Deribit's standard margin.

    ``max(0.15 − OTM/S, 0.1) S + mark``; of a put at least its maintenance margin,
    ``max(0.075 S, 0.075 mark) + mark`` (doc.tslab.pro, "Deribit Margin Requirements Calculation", read
    2026-11-28).
    """
    out_of_the_money = max(strike - spot, 0.0) if side == "call" else max(spot - strike, 0.0)
    initial = max(0.15 * spot - out_of_the_money, 0.1 * spot) + mark
    if side == "call":
        return initial
    return max(initial, max(0.075 * spot, 0.075 * mark) + mark)
