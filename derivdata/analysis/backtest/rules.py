"""Rules of entry and exit. Each is called at every row with the `Past` and returns the pairs to hold.

A custom rule is any callable that takes a `Past` and returns a `Target`, or a mapping of symbols to ``(long,
short)`` by descending priority. Positions in other symbols are closed.

Rules that differ only in their numbers are combined into one rule with arrays of numbers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.backtest.market import Knowledge, Past, Target, target_of
from derivdata.analysis.panels import hours_at, hours_of, labels_of, require, require_times
from derivdata.support.arrays import Bools, Floats, Indices
from derivdata.support.times import TimeLike, naive_utc, timestamp

_HOUR_US = 3_600_000_000
_EPOCH = np.datetime64(0, "us")


@dataclass(frozen=True)
class SpreadThreshold:
    """Hold the pair with the widest spread of each symbol while the spread exceeds a threshold.

    Attributes
    ----------
    enter_bps_8h
        Minimum spread [bps/8h] to enter a pair.
    exit_bps_8h
        Spread [bps/8h] below which a pair is closed. An unknown spread also closes it.
    switch_bps_8h
        A held pair is replaced by the widest pair if that is wider by this amount [bps/8h]; by default never.
    window
        Averaging window of the rates, such as ``"3d"``; None uses the last rates.
    """

    enter_bps_8h: float
    exit_bps_8h: float = 0.0
    switch_bps_8h: float = np.inf
    window: str | pd.Timedelta | None = None

    def __call__(self, past: Past) -> Target:
        """Return the target pairs."""
        signal = past.rate() if self.window is None else past.mean(self.window)
        best = _widest(signal, past)
        held = _spread_of(signal, past.long, past.short)
        return _thresholded(past, best, held, self.enter_bps_8h, self.exit_bps_8h, self.switch_bps_8h)


@dataclass(frozen=True, eq=False)
class ForecastThreshold:
    """Hold the pair with the highest forecast of each symbol while the forecast exceeds a threshold.

    Attributes
    ----------
    forecast
        Dims ``symbol``, ``time`` and either ``pair`` or ``exchange``. Over ``pair``, whose coordinates
        ``long`` and ``short`` are the venues: the forecast earnings of each pair. Over ``exchange``: the
        forecast rate of each venue; a pair earns the rate of its short leg minus that of its long leg. A
        value must have been known at its time. A forecast fitted to later data looks ahead, which a backtest
        cannot detect.
    enter, exit, switch
        Thresholds in the unit of `forecast`, with the meaning of those of `SpreadThreshold`.
    max_age
        Maximum age of a forecast.
    """

    forecast: xr.DataArray = field(repr=False)
    enter: float
    exit: float = 0.0
    switch: float = np.inf
    max_age: str | pd.Timedelta = "24h"

    def __post_init__(self) -> None:
        require(self.forecast, "symbol", "time", name="forecast")
        require_times(self.forecast, "forecast")
        if ("pair" in self.forecast.dims) == ("exchange" in self.forecast.dims):
            raise ValueError(f"forecast must have the dim pair or exchange, got dims {self.forecast.dims}")
        if "pair" in self.forecast.dims and not {"long", "short"} <= set(self.forecast.coords):
            raise ValueError("forecast: the coordinates long and short must name the venues of each pair")
        if (np.diff(self._parts.times) <= np.timedelta64(0, "us")).any():
            raise ValueError(
                "the times of forecast must ascend without duplicates: sort them and drop duplicates"
            )

    def __call__(self, past: Past) -> Target:
        """Return the target pairs."""
        values = self._values(past)
        if "exchange" in self.forecast.dims:
            best = _widest(values, past)
            held = _spread_of(values, past.long, past.short)
            return _thresholded(past, best, held, self.enter, self.exit, self.switch)

        # 1. Map the pairs of the forecast to the venues of the market, −1 for a missing venue.
        place = {name: i for i, name in enumerate(past.venues)}
        long, short = (
            np.array([place.get(name, -1) for name in names], dtype=np.intp) for names in self._parts.venues
        )

        # 2. Find the best pair of each symbol that can be traded now.
        symbols = np.arange(len(past.symbols))
        open_now = past.tradable[:, long] & past.tradable[:, short] & (long >= 0) & (short >= 0)
        wanted = np.where(open_now & np.isfinite(values), values, -np.inf)
        if not wanted.shape[-1]:
            none = np.full(len(symbols), -1, dtype=np.intp)
            best = Target(none, none, np.full(len(symbols), -np.inf))
            unknown = np.full(past.long.shape, np.nan)
            return _thresholded(past, best, unknown, self.enter, self.exit, self.switch)
        best_pair = np.argmax(wanted, axis=-1)
        score = wanted[symbols, best_pair]
        has_pair = np.isfinite(score)
        best = Target(
            np.where(has_pair, long[best_pair], -1), np.where(has_pair, short[best_pair], -1), score
        )

        # 3. Apply the thresholds, with the forecast of the held pair.
        is_held = (long == past.long[..., None]) & (short == past.short[..., None])
        held = np.where(is_held.any(-1), values[symbols, np.argmax(is_held, axis=-1)], np.nan)
        return _thresholded(past, best, held, self.enter, self.exit, self.switch)

    @cached_property
    def _parts(self) -> _Forecast:
        over = "pair" if "pair" in self.forecast.dims else "exchange"
        data = self.forecast.transpose("time", "symbol", over)
        places = {name: at for at, name in enumerate(labels_of(data, "symbol"))}
        if over == "exchange":
            venues = [labels_of(data, "exchange")]
        else:
            venues = [data[leg].to_numpy().astype(str) for leg in ("long", "short")]
        oldest = np.timedelta64(round(hours_of(self.max_age, "max_age", minimum=0.0) * _HOUR_US), "us")
        return _Forecast(
            times=data["time"].to_numpy(), max_age=oldest, symbols=places, venues=venues,
            values=data.to_numpy(),
        )  # fmt: skip

    def _values(self, past: Past) -> Floats:
        """Return the newest known forecasts (symbol of `past`, pair of the forecast or venue of `past`).

        NaN if they are older than `max_age` or missing.
        """
        forecast = self._parts
        is_by_venue = len(forecast.venues) == 1
        row = int(np.searchsorted(forecast.times, past.now, side="right")) - 1
        if row < 0 or past.now - forecast.times[row] > forecast.max_age:
            width = len(past.venues) if is_by_venue else forecast.values.shape[-1]
            return np.full((len(past.symbols), width), np.nan)
        rows = np.array([forecast.symbols.get(name, -1) for name in past.symbols])
        values = np.where(rows[:, None] >= 0, forecast.values[row][rows], np.nan)
        if not is_by_venue:
            return values
        place = {name: at for at, name in enumerate(forecast.venues[0])}
        columns = np.array([place.get(name, -1) for name in past.venues])
        return np.where(columns >= 0, values[:, columns], np.nan)


class _Forecast(NamedTuple):
    times: Any
    max_age: np.timedelta64
    symbols: dict[str, int]
    """Position of each symbol in `values`."""
    venues: list[Any]
    """One array with the venues, or two with the long and the short venue of each pair."""
    values: Floats
    """(time, symbol, venue or pair)."""


@dataclass(frozen=True)
class Rotation:
    """Hold the pair with the widest spread of each symbol, selected again at fixed intervals.

    Attributes
    ----------
    every
        Interval between selections, such as ``"8h"``, aligned to 00:00 UTC.
    top
        Number of symbols to hold, those with the widest pairs. None holds all symbols.
    min_bps_8h
        Minimum spread [bps/8h] of a pair.
    window
        As in `SpreadThreshold`.
    """

    every: str | pd.Timedelta
    top: int | None = None
    min_bps_8h: float = 0.0
    window: str | pd.Timedelta | None = None

    def __call__(self, past: Past) -> Target:
        """Return the target pairs."""
        every = hours_of(self.every, "every")
        turn = np.floor(hours_at(past.now, _EPOCH) / every)
        turn_before = np.floor(hours_at(past.previous, _EPOCH) / every)
        if turn == turn_before and not past.first:
            return Target(past.long, past.short, np.zeros(past.long.shape))
        signal = past.rate() if self.window is None else past.mean(self.window)
        best = _widest(signal, past)
        chosen = (best.long >= 0) & (best.score >= self.min_bps_8h)
        if self.top is not None:
            order = np.argsort(np.where(chosen, -best.score, np.inf), axis=-1, kind="stable")
            chosen &= np.argsort(order, axis=-1) < self.top
        return _where(chosen, best)


@dataclass(frozen=True)
class HoldPair:
    """Hold one pair of a symbol from a start to an end, regardless of its rates.

    Attributes
    ----------
    symbol, long, short
        The pair.
    start, end
        The pair is opened at the first row at or after `start`, and closed at the first row at or after
        `end`. None is the start or end of the data.
    """

    symbol: str
    long: str
    short: str
    start: TimeLike | None = None
    end: TimeLike | None = None

    def __call__(self, past: Past) -> dict[str, tuple[str, str]]:
        """Return the target pairs."""
        first, last = self._span
        return {self.symbol: (self.long, self.short)} if first <= past.now < last else {}

    @cached_property
    def _span(self) -> tuple[Any, Any]:
        """Return start and end; without them, times far in the past and in the future."""
        first = np.datetime64(-(2**62), "us")
        last = np.datetime64(2**62, "us")
        if self.start is not None:
            first = naive_utc(timestamp(self.start, "start")).to_datetime64()
        if self.end is not None:
            last = naive_utc(timestamp(self.end, "end")).to_datetime64()
        return first, last


@dataclass(frozen=True)
class HoldingTime:
    """Limit the holding time of another rule's positions.

    Attributes
    ----------
    rule
        The other rule.
    min_hold
        Minimum holding time, such as ``"3d"``, regardless of the rule.
    max_hold
        Maximum holding time. The pair may be opened again at the next row. None means no maximum.
    """

    rule: Callable[[Past], Any]
    min_hold: str | pd.Timedelta = "0h"
    max_hold: str | pd.Timedelta | None = None

    def __call__(self, past: Past) -> Target:
        """Return the target pairs."""
        # 1. Keep pairs below the minimum holding time; follow the rule for all others.
        wanted = target_of(self.rule(past), past)
        has_pair = past.long >= 0
        is_kept = has_pair & (past.held_hours < _hours(self.min_hold, "min_hold", minimum=0.0))
        long = np.where(is_kept, past.long, wanted.long)
        short = np.where(is_kept, past.short, wanted.short)

        # 2. Close pairs that would stay open beyond the maximum.
        stays = has_pair & (long == past.long) & (short == past.short)
        max_hours = np.inf if self.max_hold is None else _hours(self.max_hold, "max_hold")
        is_over = stays & (past.held_hours >= max_hours)
        return _where(~is_over, Target(long, short, wanted.score))


@dataclass(frozen=True)
class VenueLimit:
    """Limit another rule's positions on a venue; pairs with higher scores come first.

    Attributes
    ----------
    rule
        The other rule.
    limit_usd
        Maximum notional at entry [USD] on each venue, or a mapping from venues to limits. A limit of 0
        excludes a venue, and venues without a limit are unrestricted.
    """

    rule: Callable[[Past], Any]
    limit_usd: float | Mapping[str, float]

    def __call__(self, past: Past) -> Target:
        """Return the target pairs."""
        wanted = target_of(self.rule(past), past)
        unused_usd = np.full(len(past.venues), np.inf)
        if isinstance(self.limit_usd, Mapping):
            unused_usd[:] = [self.limit_usd.get(venue, np.inf) for venue in past.venues]
        else:
            unused_usd[:] = self.limit_usd

        # 1. Pairs that stay open count against the limits first.
        stays = (wanted.long >= 0) & (wanted.long == past.long) & (wanted.short == past.short)
        for legs in (wanted.long[stays], wanted.short[stays]):
            np.subtract.at(unused_usd, legs, past.leg_usd)

        # 2. Add new pairs by descending score, while both venues are below their limits.
        allowed = stays.copy()
        new = np.flatnonzero((wanted.long >= 0) & ~stays)
        for place in new[np.argsort(-wanted.score[new], kind="stable")]:
            legs = [wanted.long[place], wanted.short[place]]
            if (unused_usd[legs] >= past.leg_usd).all():
                unused_usd[legs] -= past.leg_usd
                allowed[place] = True
        return _where(allowed, wanted)


def _hours(span: Any, name: str, minimum: float | None = None) -> Any:
    """Return a length of time in hours; numbers, as in stacked rules, are in hours already."""
    return span if isinstance(span, np.ndarray) else hours_of(span, name, minimum=minimum)


def _widest(signal: Floats, past: Past) -> Target:
    """Return the tradable pair of each symbol with the largest difference of signals; the first of ties."""
    usable = past.tradable & np.isfinite(signal)
    symbols = np.arange(signal.shape[0])
    low = np.where(usable, signal, np.inf)
    high = np.where(usable, signal, -np.inf)
    long = np.argmin(low, axis=-1)
    short = np.argmax(high, axis=-1)
    has_pair = long != short  # both indices are 0 if no signal is usable
    score = np.where(has_pair, high[symbols, short] - low[symbols, long], -np.inf)
    return Target(np.where(has_pair, long, -1), np.where(has_pair, short, -1), score)


def _spread_of(signal: Floats, long: Indices, short: Indices) -> Floats:
    symbols = np.arange(signal.shape[0])
    return np.where(long >= 0, signal[symbols, short] - signal[symbols, long], np.nan)


def _thresholded(past: Past, best: Target, held: Floats, enter: float, close: float, switch: float) -> Target:
    """Keep a pair while its signal is at least `close`; otherwise open the best one from `enter` on."""
    stays = (past.long >= 0) & (held >= close)
    worth = (best.long >= 0) & (best.score >= enter)
    better = stays & worth & (best.score > held + switch)
    stay = stays & ~better
    go = worth & (~stays | better)
    long = np.where(stay, past.long, np.where(go, best.long, -1))
    short = np.where(stay, past.short, np.where(go, best.short, -1))
    return Target(long, short, np.where(stay, held, best.score))


def _where(chosen: Bools, target: Target) -> Target:
    score = np.broadcast_to(target.score, chosen.shape)
    return Target(np.where(chosen, target.long, -1), np.where(chosen, target.short, -1), score)


class RuleStack:
    """Rules that are called at every row, with separate positions.

    Rules of one kind with the same signal share one call, with positions over (rule, symbol) and
    thresholds over (rule, 1). All others, such as functions, are called one by one.
    """

    def __init__(self, rules: Sequence[Callable[[Past], Any]]) -> None:
        self.number = len(rules)
        groups: dict[Hashable, list[int]] = {}
        for place, rule in enumerate(rules):
            key = _signal_of(rule)
            groups.setdefault(("alone", place) if key is None else key, []).append(place)
        self._calls: list[tuple[Any, Callable[[Past], Any]]] = []
        for places in groups.values():
            if len(places) == 1:
                self._calls.append((places[0], rules[places[0]]))
            else:
                self._calls.append((np.array(places), _stacked([rules[place] for place in places])))

    def targets(
        self, knowledge: Knowledge, row: int, legs: Indices, opened: Floats, tradable: Bools, leg_usd: float
    ) -> Target:
        """Return the target pairs of all rules, one rule after the other.

        `legs` are the positions (leg, place) and `opened` the hours of their entry by place; a place is of
        one rule and one symbol.
        """
        shape = (self.number, legs.shape[1] // self.number)
        legs = legs.reshape(2, *shape)
        now = float(knowledge.market.since[row])
        held_hours = np.where(legs[0] >= 0, now - opened.reshape(shape), 0.0)
        long, short = np.empty((2, *shape), dtype=np.intp)
        score = np.empty(shape)
        for places, rule in self._calls:
            past = Past(knowledge, row, legs[:, places], held_hours[places], tradable, leg_usd)
            try:
                answer = rule(past)
            except Exception as fault:
                fault.add_note("the rule of the backtest raised this error")
                raise
            long[places], short[places], score[places] = target_of(answer, past)
        return Target(long.reshape(-1), short.reshape(-1), score.reshape(-1))


def _signal_of(rule: Any) -> Hashable:
    """Return the key of rules that share one call; None for a rule that is called separately."""
    kind = type(rule)
    if kind is SpreadThreshold:
        return kind, rule.window
    if kind is ForecastThreshold:
        return kind, id(rule.forecast), rule.max_age
    if kind is Rotation:
        return kind, rule.every, rule.window
    if kind is HoldingTime:
        signal = _signal_of(rule.rule)
        return None if signal is None else (kind, signal)
    return None


def _stacked(rules: Sequence[Any]) -> Any:
    """Return one rule for rules with the same signal; its numbers are columns with one row per rule."""
    first = rules[0]
    if isinstance(first, SpreadThreshold):
        names = ("enter_bps_8h", "exit_bps_8h", "switch_bps_8h")
        return dataclasses.replace(first, **{name: _column(rules, name) for name in names})
    if isinstance(first, ForecastThreshold):
        names = ("enter", "exit", "switch")
        return dataclasses.replace(first, **{name: _column(rules, name) for name in names})
    if isinstance(first, Rotation):
        top = [np.inf if rule.top is None else rule.top for rule in rules]
        numbers: dict[str, Any] = {"top": np.array(top)[:, None], "min_bps_8h": _column(rules, "min_bps_8h")}
        return dataclasses.replace(first, **numbers)
    min_hold = [hours_of(rule.min_hold, "min_hold", minimum=0.0) for rule in rules]
    max_hold = [np.inf if rule.max_hold is None else hours_of(rule.max_hold, "max_hold") for rule in rules]
    spans: dict[str, Any] = {"min_hold": np.array(min_hold)[:, None], "max_hold": np.array(max_hold)[:, None]}
    return HoldingTime(_stacked([rule.rule for rule in rules]), **spans)


def _column(rules: Sequence[Any], name: str) -> Any:
    return np.array([getattr(rule, name) for rule in rules], dtype=np.float64)[:, None]
