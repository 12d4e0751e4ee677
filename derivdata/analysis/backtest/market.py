"""Rates and prices of a backtest as arrays, and the part of them that is known at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from derivdata.analysis.funding.ledger import LATE
from derivdata.analysis.panels import (
    Panel,
    hours,
    hours_of,
    kind_of,
    labels_of,
    require,
    require_rate,
    usual_step,
    with_symbol,
)
from derivdata.analysis.settlements import Apart, due_settlements, of_one_coin
from derivdata.support.arrays import Bools, Floats, Indices
from derivdata.units import HOUR_UNIT, RATE_UNIT, USD_UNIT

_READ_ROWS = 256


class RowBlocks:
    """Rows of an array whose last axis is time. Blocks of rows are copied, so that a row is contiguous.

    Two blocks are cached, because a backtest reads the current row and a slightly earlier one.
    """

    def __init__(self, array: Floats) -> None:
        self.array = array
        self._blocks: dict[int, Floats] = {}

    def row(self, at: int) -> Floats:
        """Return one row, symbols by venues."""
        block = at // _READ_ROWS
        if block not in self._blocks:
            if len(self._blocks) > 1:
                del self._blocks[min(self._blocks)]
            self._blocks[block] = self.rows(block * _READ_ROWS, (block + 1) * _READ_ROWS)
        row: Floats = self._blocks[block][at - block * _READ_ROWS]
        return row

    def rows(self, first: int, stop: int) -> Floats:
        """Return some rows with the row axis first. An array with a single number is not copied."""
        rows = self.array[..., first:stop]
        if not any(rows.strides):
            return np.moveaxis(rows, -1, 0)
        result = np.empty((rows.shape[-1], *rows.shape[:-1]))
        # Transposing symbol by symbol fits into the processor's cache, which is three times as fast.
        for symbol, series in enumerate(rows):
            result[:, symbol] = series.T
        return result


@dataclass(frozen=True)
class Market:
    """Rates and prices over ``(symbol, exchange, row)``, NaN if missing at a row.

    Attributes
    ----------
    since
        Hours of the rows since the first.
    known_at
        Hours at which a row's rate is known: at a settlement's timestamp, or when a sample's bucket ends.
    rates, interval
        [bps/8h], and for settlements the hours that they cover.
    prices
        Marks [USD], or None.
    mark_step
        Usual hours between prices; infinite without them.
    limit
        Maximum validity of a sampled rate [h].
    """

    symbols: tuple[str, ...]
    venues: tuple[str, ...]
    times: NDArray[Any]
    since: Floats
    known_at: Floats
    settled: bool
    mark_step: float
    limit: float
    rates: RowBlocks
    interval: RowBlocks | None
    prices: RowBlocks | None


def market_of(panel: Panel, prices: xr.DataArray | None, apart: Apart = "raise") -> Market:
    """Check the panels and put them on one grid: the times of all rates, and of the prices between them."""
    panel = with_symbol(require_rate(panel, "exchange", "time"))
    if not panel.sizes["exchange"]:
        raise ValueError("panel must have at least one venue along exchange to trade")
    for dim in ("symbol", "exchange"):
        if len(set(labels_of(panel, dim))) != panel.sizes[dim]:
            raise ValueError(f"panel must have each {dim} once: remove duplicates")
    settled = kind_of(panel) == "settled"
    interval = None
    since = hours(panel)
    if settled:
        panel, interval = due_settlements(panel)
    panel = panel.drop_vars("interval_hours", errors="ignore")
    limit = np.inf if settled else 2.0 * usual_step(since)
    stamps = np.empty(0) if prices is None else hours(prices, name="prices")
    mark_step = usual_step(stamps) if stamps.size > 1 else np.inf
    rate_times = panel["time"].to_numpy()
    ends = np.append(since[1:], np.inf)
    panel, interval, marks = _on_one_grid(panel, interval, prices, apart)
    since = hours(panel)
    # A bucket ends at the next time of a rate. Rows of prices in between do not end it.
    bucket = np.searchsorted(rate_times, panel["time"].to_numpy(), side="right") - 1
    known_at = since if settled else ends[bucket]
    return Market(
        symbols=tuple(labels_of(panel, "symbol")), venues=tuple(labels_of(panel, "exchange")),
        times=panel["time"].to_numpy(), since=since, known_at=known_at, settled=settled, mark_step=mark_step,
        limit=limit, rates=RowBlocks(panel.to_numpy()),
        interval=None if interval is None else RowBlocks(interval.to_numpy()),
        prices=None if marks is None else RowBlocks(marks.to_numpy()),
    )  # fmt: skip


def _on_one_grid(
    panel: xr.DataArray, interval: xr.DataArray | None, prices: Panel | None, apart: Apart
) -> tuple[xr.DataArray, xr.DataArray | None, xr.DataArray | None]:
    """Sort dims and venues, and add the times of prices as rows without rates."""
    venues = sorted(labels_of(panel, "exchange"))
    labels = {"symbol": labels_of(panel, "symbol"), "exchange": np.array(venues)}
    rows = panel["time"].to_numpy()
    if prices is not None:
        prices = with_symbol(require(prices, "exchange", "time", units=USD_UNIT, name="prices"))
        prices = of_one_coin(prices, "prices", apart)
        hours(prices, name="prices")
        stamps = prices["time"].to_numpy()
        between = stamps[(stamps > rows[0]) & (stamps < rows[-1])]
        rows = np.union1d(rows, between.astype(rows.dtype))

    def on_grid(array: xr.DataArray | None) -> Any:
        if array is None:
            return None
        array = array.transpose("symbol", "exchange", "time")
        has_rows = array.sizes["time"] == rows.size and bool((array["time"].to_numpy() == rows).all())
        has_labels = all(
            array.sizes[dim] == len(names) and bool((labels_of(array, dim) == names).all())
            for dim, names in labels.items()
        )
        return array if has_rows and has_labels else array.reindex({**labels, "time": rows})

    return on_grid(panel), on_grid(interval), on_grid(prices)


_BLOCK = 256
_COVER = 0.75
_ROUNDING = 1e-9  # hours


class Target(NamedTuple):
    """Pairs that a rule wants to hold from now on, one per symbol.

    Attributes
    ----------
    long, short
        Index of each symbol's venue in `Past.venues`; −1 for no position.
    score
        Pairs with higher scores get the remaining capital first.
    """

    long: Indices
    short: Indices
    score: Floats


class Knowledge:
    """Rates known at the current row, without settlements and buckets that end later."""

    def __init__(self, market: Market, latency: float) -> None:
        shape = (len(market.symbols), len(market.venues))
        self.market = market
        self.latency = latency
        self.known = 0
        """Number of known rows."""
        self.last = np.full(shape, np.nan)
        """Newest known rate of each series [bps/8h]."""
        self.last_time = np.full(shape, -np.inf)
        """Time of that rate [h]."""
        self.interval = np.full(shape, np.nan)
        """Its settlement interval [h]."""
        self._means: dict[float, tuple[int, Floats]] = {}

    def advance(self, now: float) -> None:
        """Add the rows that are known by now."""
        market = self.market
        while self.known < market.since.size and (
            market.known_at[self.known] <= now - self.latency + _ROUNDING
        ):
            rates = market.rates.row(self.known)
            has_rate = np.isfinite(rates)
            if market.interval is not None:
                np.copyto(self.interval, market.interval.row(self.known), where=has_rate)
            np.copyto(self.last, rates, where=has_rate)
            self.last_time[has_rate] = market.since[self.known]
            self.known += 1

    def fresh(self, now: float) -> Floats:
        """Return the last rate of every series [bps/8h]; NaN if it is too old."""
        limit = LATE * self.interval if self.market.settled else self.market.limit + _ROUNDING
        age = now - self.latency - self.last_time
        return np.where(age < limit, self.last, np.nan)

    def mean(self, window: float) -> Floats:
        """Return the mean rate over the window that ends at the last known row; see `Past.mean`."""
        if not self.known:
            return np.full(self.last.shape, np.nan)
        block, row = divmod(self.known - 1, _BLOCK)
        cached_block, means = self._means.get(window, (-1, np.empty(0)))
        if cached_block != block:
            means = self._means_of(block * _BLOCK, window)
            self._means[window] = (block, means)
        mean: Floats = means[row]
        return mean

    def _means_of(self, start: int, window: float) -> Floats:
        """Return the mean rates over `window` hours up to each row of the block that begins at row `start`.

        Rates are weighted by their hours. NaN if they cover less than `_COVER` of the window.
        """
        market = self.market
        ends = np.where(np.isfinite(market.known_at), market.known_at, market.since[-1])
        stop = min(start + _BLOCK, ends.size)
        # The block needs the rows from the beginning of its first window. A window is the difference of two
        # running sums over these rows: up to its end, and up to its first row.
        first_rows = np.searchsorted(ends, ends[start:stop] - window + _ROUNDING, side="right")
        first_needed = int(first_rows[0])
        window_start = first_rows - first_needed
        window_stop = np.arange(start, stop) + 1 - first_needed
        gap = np.minimum((ends - market.since)[first_needed:stop], market.limit)
        means = np.empty((stop - start, *self.last.shape))
        # Process one symbol at a time, so that its sums fit into the processor's cache.
        for symbol in range(len(market.symbols)):
            rates = market.rates.array[symbol, :, first_needed:stop]
            hours = gap
            if market.interval is not None:
                hours = market.interval.array[symbol, :, first_needed:stop]
            hours = np.where(np.isfinite(rates) & (hours > 0.0), hours, 0.0)
            paid = np.where(hours > 0.0, rates * hours, 0.0)
            running = np.zeros((2, hours.shape[0], hours.shape[1] + 1))
            np.cumsum([paid, hours], axis=-1, out=running[..., 1:])
            total, covered = running[..., window_stop] - running[..., window_start]
            enough = covered >= _COVER * window
            np.divide(total, covered, out=total, where=enough)
            means[:, symbol] = np.where(enough, total, np.nan).T
        return means


class Past:
    """Data that a rule may use at one time, without later data; arrays are copies or read-only.

    Attributes
    ----------
    now, previous
        Time of this row, and of the previous one [datetime64, UTC].
    symbols, venues
        Labels of the arrays' two axes.
    long, short
        Indices of the venues held for each symbol, −1 without a position.
    held_hours
        Age of each position [h], 0 without one.
    tradable
        Whether an order can be filled now: there is a mark, and depth if depth is given.
    leg_usd
        Notional of a leg at entry [USD].
    """

    def __init__(
        self,
        knowledge: Knowledge,
        row: int,
        legs: NDArray[np.intp],
        held_hours: Floats,
        tradable: Bools,
        leg_usd: float,
    ) -> None:
        self._knowledge = knowledge
        self._row = row
        market = knowledge.market
        self.now = market.times[row]
        self.previous = market.times[max(row - 1, 0)]
        self.symbols = market.symbols
        self.venues = market.venues
        self.long, self.short = legs.copy()
        self.held_hours = held_hours.copy()
        self.tradable = tradable.copy()
        self.leg_usd = leg_usd

    @property
    def first(self) -> bool:
        """Whether this is the first row."""
        return self._row == 0

    def rate(self) -> Floats:
        """Return the last known rate of each symbol and venue [bps/8h]; NaN if it is too old."""
        return self._knowledge.fresh(float(self._knowledge.market.since[self._row]))

    def mean(self, window: str | pd.Timedelta) -> Floats:
        """Return the mean rate of each symbol and venue over the last `window`, such as ``"3d"`` [bps/8h].

        Settlements are weighted by the hours that they cover. NaN if rates cover less than three quarters of
        the window, so the window must be at least the settlement interval.
        """
        return self._knowledge.mean(hours_of(window, "window")).copy()

    def panel(self) -> xr.DataArray:
        """Return every known rate [bps/8h], dims ``(symbol, exchange, time)``.

        The panel has the form of the backtest's input, and settlements have ``interval_hours``. Functions
        that accept panels accept it.
        """
        market = self._knowledge.market
        row_count = self._knowledge.known
        dims = ("symbol", "exchange", "time")
        labels: dict[str, Any] = {"symbol": list(market.symbols), "exchange": list(market.venues)}
        labels["time"] = market.times[:row_count]
        if market.interval is not None:
            interval = _frozen(market.interval.array[..., :row_count])
            labels["interval_hours"] = (dims, interval, {"units": HOUR_UNIT})
        attrs = {"units": RATE_UNIT, "kind": "settled" if market.settled else "sampled"}
        return xr.DataArray(_frozen(market.rates.array[..., :row_count]), labels, dims, "rate_bps_8h", attrs)

    def positions(self) -> dict[str, tuple[str, str]]:
        """Return the open pairs as a mapping from symbols to (long venue, short venue)."""
        return {
            self.symbols[place]: (self.venues[self.long[place]], self.venues[self.short[place]])
            for place in np.flatnonzero(self.long >= 0)
        }


def _frozen(values: Floats) -> Floats:
    view = values.view()
    view.flags.writeable = False
    return view


def target_of(answer: Any, past: Past) -> Target:
    """Convert a rule's result to a `Target`, from a `Target` or a mapping of symbols to (long, short)."""
    if isinstance(answer, Target):
        return _checked(answer, past)
    if not isinstance(answer, Mapping):
        raise TypeError(
            "a rule must return a Target or a mapping of symbols to (long, short), got "
            f"{type(answer).__name__}"
        )
    legs = np.full((2, len(past.symbols)), -1, dtype=np.intp)
    score = np.zeros(len(past.symbols))
    for rank, (symbol, pair) in enumerate(answer.items()):
        unknown = [name for name in pair if name not in past.venues]
        if symbol not in past.symbols or unknown or len(pair) != 2 or pair[0] == pair[1]:
            raise ValueError(f"the rule must return pairs of this panel's venues, got {symbol!r}: {pair!r}")
        place = past.symbols.index(symbol)
        legs[:, place] = [past.venues.index(name) for name in pair]
        score[place] = -rank
    return Target(legs[0], legs[1], score)


def _checked(target: Target, past: Past) -> Target:
    """Return the target of a rule as arrays; raise if its legs are not two different venues or none."""
    long = np.asarray(target.long, dtype=np.intp)
    short = np.asarray(target.short, dtype=np.intp)
    score = np.asarray(target.score, dtype=np.float64)
    shape = past.long.shape
    venues = len(past.venues)
    if long.shape != shape or short.shape != shape or score.shape != shape:
        raise ValueError(
            f"a rule's Target must have one long, short and score for each of {len(past.symbols)} symbols"
        )
    has_long = long >= 0
    has_short = short >= 0
    if ((has_long != has_short) | (long >= venues) | (short >= venues)).any():
        raise ValueError("a rule's Target must have two legs on venues of the panel, or none")
    if (has_long & (long == short)).any():
        raise ValueError("a rule's Target must be long and short on different venues")
    return Target(long, short, score)
