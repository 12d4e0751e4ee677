"""Rules of option strategies: legs, rolls, and delta hedges in a perpetual with its funding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.backtest.option_market import OptionMarket
from derivdata.analysis.panels import Panel, hours_of, require, require_rate
from derivdata.analysis.position.sensitivities import EXPIRING, OPTIONS, SIDES
from derivdata.analysis.settlements import due_settlements
from derivdata.support.arguments import require_fields
from derivdata.support.arrays import Floats
from derivdata.support.times import length
from derivdata.units import BPS, REFERENCE_HOURS

_NAMED = ("expiry", "weekly", "monthly")
_WEEK = pd.Timedelta(7, "D")
_FRIDAY = pd.Timestamp("2020-01-03T08:00", tz="UTC")


class OptionState:
    """State of a backtest for a rule: quotes and position at one time, without later data.

    Attributes
    ----------
    now
        Time of the chain.
    spot
        Index price [USD].
    equity
        Equity, in the currency of the backtest.
    opened
        Time of the last trade of the rule; None before the first.
    selected
        Last time at which the rule returned legs, changed or not; None before the first time, and after the
        rule returned an empty table.
    expired
        Number of options and futures that have been delivered since `selected`.
    """

    def __init__(
        self,
        market: OptionMarket,
        row: int,
        legs: Callable[[], pd.DataFrame],
        *,
        equity: float,
        opened: pd.Timestamp | None,
        selected: pd.Timestamp | None,
        expired: int,
    ) -> None:
        self._market = market
        self._row = row
        self._legs = legs
        self.now = pd.Timestamp(market.times[row], tz="UTC")
        self.spot = float(market.spot[row])
        self.equity = equity
        self.opened = opened
        self.selected = selected
        self.expired = expired

    @cached_property
    def quotes(self) -> pd.DataFrame:
        """Options with a quote or a mark, one row each.

        ``expiry``, ``strike`` [USD], ``side``, ``bid_usd`` and ``ask_usd`` (NaN without a quote),
        ``mark_usd`` on the surface, ``iv`` [1/√year], ``delta`` (forward delta), ``forward`` [USD] and
        ``days`` to expiry.
        """
        return self._market.table(self._row)

    @cached_property
    def position(self) -> pd.DataFrame:
        """Return the open legs, in the format of `derivdata.analysis.position`."""
        return self._legs()


@dataclass(frozen=True)
class OptionLeg:
    """One leg of a strategy: an option by tenor and by delta or moneyness, or a fixed amount of coins.

    Attributes
    ----------
    side
        ``"call"``, ``"put"``, ``"future"``, ``"perpetual"`` or ``"spot"``.
    quantity
        Coins; negative is short.
    tenor
        Time to expiry at the entry of options and futures, such as ``"7d"``. The nearest listed expiry is
        selected.
    delta
        Absolute forward delta of the option, from 0 to 1. The nearest option with the quote that the trade
        needs is selected.
    moneyness
        Strike over forward, in place of `delta`; 1 is at the money. The default of options.
    """

    side: str
    quantity: float
    tenor: str | pd.Timedelta | None = None
    delta: float | None = None
    moneyness: float | None = None

    def __post_init__(self) -> None:
        require_fields(self)
        if self.side not in SIDES:
            raise ValueError(f"side must be one of {', '.join(SIDES)}, got {self.side!r}")
        if not np.isfinite(self.quantity) or self.quantity == 0.0:
            raise ValueError(f"quantity must be a number of coins other than 0, got {self.quantity!r}")
        if self.side in EXPIRING and self.tenor is None:
            raise ValueError(f"a leg with the side {self.side!r} needs tenor=")
        if self.side not in EXPIRING and self.tenor is not None:
            raise ValueError(f"a leg with the side {self.side!r} must not have a tenor")
        if self.tenor is not None:
            length(self.tenor, "tenor")
        self._check_strike()

    def _check_strike(self) -> None:
        given = [name for name in ("delta", "moneyness") if getattr(self, name) is not None]
        if given and self.side not in OPTIONS:
            raise ValueError(f"a leg with the side {self.side!r} must not have {given[0]}")
        if len(given) == 2:
            raise ValueError("delta= and moneyness= exclude each other: pass one of them")
        if self.delta is not None and not 0.0 < self.delta < 1.0:
            raise ValueError(f"delta must be between 0 and 1, got {self.delta!r}")
        if self.moneyness is not None and not self.moneyness > 0.0:
            raise ValueError(f"moneyness must be above 0, got {self.moneyness!r}")

    def chosen(self, state: OptionState) -> dict[str, Any]:
        """Return the leg as a row, with the expiry and strike selected from the quotes of `state`.

        Expiry and strike are missing if no usable quote exists.
        """
        # 1. Select the quotes on the side that the trade takes.
        leg = {"side": self.side, "quantity": self.quantity, "expiry": pd.NaT, "strike": np.nan}
        if self.tenor is None:
            return leg
        quotes = state.quotes[state.quotes["forward"].notna() & (state.quotes["days"] > 0.0)]
        if self.side in OPTIONS:
            needed = "ask_usd" if self.quantity > 0.0 else "bid_usd"
            has_quote = quotes[needed].notna() & quotes["mark_usd"].notna()
            quotes = quotes[(quotes["side"] == self.side) & has_quote]
        if quotes.empty:
            return leg

        # 2. Choose the nearest expiry, then its nearest strike.
        days = length(self.tenor, "tenor") / pd.Timedelta(1, "D")
        off = (quotes["days"] - days).abs()
        leg["expiry"] = quotes.loc[off.idxmin(), "expiry"]
        if self.side == "future":
            return leg
        near = quotes[quotes["expiry"] == leg["expiry"]].sort_values("strike")
        if self.delta is not None:
            distance = (near["delta"].abs() - self.delta).abs()
        else:
            wanted = 1.0 if self.moneyness is None else self.moneyness
            distance = np.log(near["strike"] / near["forward"] / wanted).abs()
        if distance.notna().any():
            leg["strike"] = float(near.loc[distance.idxmin(), "strike"])
        return leg


@dataclass(frozen=True)
class Roll:
    """Hold legs and replace them: by the calendar, when one expires, by the time left, or by delta.

    Attributes
    ----------
    legs
        Legs of each entry.
    every
        When the legs are selected again: ``"expiry"``, at the first chain after the delivery of a leg;
        ``"weekly"``, at the first chain from Friday 08:00 UTC on; ``"monthly"``, from 08:00 UTC of the last
        Friday of a month on; or a length of time after the last selection, such as ``"3d"``. Legs that are
        selected again stay open.
    min_tenor
        The legs are also selected again when an option or a future has less time to expiry than this.
    max_delta
        The legs are also selected again when the absolute forward delta of an option is larger than this.
    """

    legs: Sequence[OptionLeg]
    every: str | pd.Timedelta = "expiry"
    min_tenor: str | pd.Timedelta | None = None
    max_delta: float | None = None

    def __post_init__(self) -> None:
        require_fields(self)
        if not len(self.legs) or not all(isinstance(leg, OptionLeg) for leg in self.legs):
            raise ValueError("legs must be a list of at least one OptionLeg")
        if self.every not in _NAMED:
            _require_interval(self.every)
        if self.min_tenor is not None:
            length(self.min_tenor, "min_tenor")
        if self.max_delta is not None and not 0.0 < self.max_delta < 1.0:
            raise ValueError(f"max_delta must be between 0 and 1, got {self.max_delta!r}")

    def __call__(self, state: OptionState) -> pd.DataFrame | None:
        """Return the target legs, None to keep the current ones."""
        if state.selected is not None and not self._is_due(state, state.selected):
            return None
        return pd.DataFrame([leg.chosen(state) for leg in self.legs])

    def _is_due(self, state: OptionState, selected: pd.Timestamp) -> bool:
        """Return whether legs that were selected at a time must be replaced now."""
        if state.expired:
            return True
        if self.every == "weekly":
            due = _last_friday(state.now) > selected
        elif self.every == "monthly":
            due = _last_month_end(state.now) > selected
        elif self.every == "expiry":
            due = False
        else:
            due = state.now - selected >= length(self.every, "every")
        return due or self._is_short(state) or self._is_deep(state)

    def _is_short(self, state: OptionState) -> bool:
        """Return whether an option or a future has less time to expiry than `min_tenor`."""
        held = state.position
        if self.min_tenor is None or held.empty:
            return False
        left = held.loc[held["side"].isin(EXPIRING), "expiry"] - state.now
        return bool((left < length(self.min_tenor, "min_tenor")).any())

    def _is_deep(self, state: OptionState) -> bool:
        """Return whether the absolute delta of an option is larger than `max_delta`."""
        if self.max_delta is None or state.position.empty:
            return False
        names = ["expiry", "strike", "side"]
        held = state.position.merge(state.quotes[[*names, "delta"]], on=names)
        return bool((held["delta"].abs() > self.max_delta).any())


def _require_interval(every: str | pd.Timedelta) -> None:
    try:
        length(every, "every")
    except ValueError:
        raise ValueError(
            f"every must be one of {', '.join(_NAMED)}, or a length of time such as '3d', got {every!r}"
        ) from None


def _last_friday(now: pd.Timestamp) -> pd.Timestamp:
    """Return the last Friday 08:00 UTC that is not later than a time."""
    return _FRIDAY + (now - _FRIDAY) // _WEEK * _WEEK


def _last_month_end(now: pd.Timestamp) -> pd.Timestamp:
    """Return the last 08:00 UTC of the last Friday of a month that is not later than a time."""
    friday = _last_friday(now)
    while (friday + _WEEK).month == friday.month:
        friday -= _WEEK
    return friday


_HOUR_US = 3_600e6
_LATE = 1.5
"""Number of intervals after which a payment counts as missing."""


@dataclass(frozen=True)
class DeltaHedge:
    """Hold a perpetual against the delta of the position.

    The position is hedged after each trade and delivery. In addition it is hedged at an interval, outside a
    band, or both.

    Attributes
    ----------
    every
        Time between two hedges, such as ``"8h"``; None hedges only at the band.
    band
        Delta of position and hedge [coins] above which it is hedged; None hedges only at the interval.
    venue
        Venue of the perpetual, with its prices, funding and fees; None is the options' venue.
    contract
        ``"linear"``: a number of coins, settled in USD; ``"inverse"``: a number of USD, settled in coin.
    max_price_age
        Maximum age of the newest price of the perpetual.
    """

    every: str | pd.Timedelta | None = None
    band: float | None = None
    venue: str | None = None
    contract: Literal["linear", "inverse"] = "linear"
    max_price_age: str | pd.Timedelta = "1h"

    def __post_init__(self) -> None:
        require_fields(self)
        if self.every is None and self.band is None:
            raise ValueError("a hedge needs every= (an interval) or band= (coins of delta)")
        if self.every is not None:
            length(self.every, "every")
        if self.band is not None and not self.band > 0.0:
            raise ValueError(f"band must be above 0 coins, got {self.band!r}")
        if self.contract not in ("linear", "inverse"):
            raise ValueError(f"contract must be 'linear' or 'inverse', got {self.contract!r}")
        length(self.max_price_age, "max_price_age")

    def is_due(self, hours_since: float, net_delta: float) -> bool:
        """Return whether a hedge is due, by the time since the last one and the delta [coins]."""
        by_time = self.every is not None and hours_since >= hours_of(self.every, "every") - 1e-9
        by_delta = self.band is not None and abs(net_delta) > self.band
        return by_time or by_delta


class PerpetualPrices:
    """Prices of one perpetual [USD]; without a panel the index prices of the chains."""

    def __init__(
        self,
        prices: Panel | None,
        symbol: str,
        venue: str,
        max_age: pd.Timedelta,
        index: tuple[Floats, Floats],
    ) -> None:
        if prices is None:
            self._times, self._values = index
            self._age = 0.0
            return
        series = _of(require(prices, "time", name="prices"), "prices", symbol, venue)
        values = series.to_numpy().astype(np.float64)
        is_priced = values > 0.0
        stamps = series["time"].to_numpy().astype("datetime64[us]").astype(np.int64)
        self._times = stamps[is_priced].astype(np.float64)
        self._values = values[is_priced]
        if not self._times.size:
            raise ValueError(f"prices does not have a price of {symbol} on {venue}")
        self._age = float(max_age / pd.Timedelta(1, "us"))

    def at(self, timestamp: float) -> float:
        """Return the newest price at a time [µs]; NaN if it is too old."""
        place = int(np.searchsorted(self._times, timestamp, side="right")) - 1
        if place < 0 or timestamp - self._times[place] > self._age:
            return float("nan")
        return float(self._values[place])

    def newest(self, timestamp: float) -> float:
        """Return the newest price at or before a time [µs], of any age; NaN before the first."""
        place = int(np.searchsorted(self._times, timestamp, side="right")) - 1
        return float("nan") if place < 0 else float(self._values[place])


class Payments:
    """Settled funding of one perpetual: times, and payments of a long position [fraction of the notional]."""

    def __init__(self, funding: Panel | None, symbol: str, venue: str) -> None:
        self.given = funding is not None
        self._times = np.empty(0)
        self._share = np.empty(0)
        self._hours = np.empty(0)
        if funding is None:
            return
        panel = require_rate(funding, "time", name="funding")
        if panel.attrs.get("kind") == "sampled" or "interval_hours" not in panel.coords:
            raise ValueError(
                "funding must be settlements with interval_hours: pass the table of dd.funding.settlements"
            )
        series, interval = due_settlements(_of(panel, "funding", symbol, venue))
        rates = series.to_numpy().astype(np.float64)
        hours = np.broadcast_to(interval.to_numpy().astype(np.float64), rates.shape)
        is_payment = np.isfinite(rates) & (hours > 0.0)
        stamps = series["time"].to_numpy().astype("datetime64[us]").astype(np.int64)
        self._times = stamps[is_payment].astype(np.float64)
        self._hours = hours[is_payment]
        self._share = rates[is_payment] / BPS * hours[is_payment] / REFERENCE_HOURS
        if not self._times.size:
            raise ValueError(f"funding does not have a payment of {symbol} on {venue}")

    def within(self, after: float, until: float) -> list[tuple[float, float]]:
        """Return time [µs] and share of the payments with ``after < time <= until``."""
        first, last = np.searchsorted(self._times, [after, until], side="right")
        return list(zip(self._times[first:last].tolist(), self._share[first:last].tolist(), strict=True))

    def missing_hours(self, after: float, until: float) -> float:
        """Return the hours of a span in which due payments are missing."""
        if not self._times.size:
            return 0.0
        # 1. Find the gaps: before the first payment, between payments, and after the last one.
        starts = self._times - self._hours * _HOUR_US
        begins = np.append(-np.inf, self._times)
        ends = np.append(starts, np.inf)

        # 2. Select gaps that are too long for a late payment; the usual gap is the shorter neighbouring
        # interval.
        shorter = np.minimum(self._hours[:-1], self._hours[1:])
        usual = np.concatenate([self._hours[:1], shorter, self._hours[-1:]]) * _HOUR_US
        is_gap = ends - begins > (_LATE - 1.0) * usual

        # 3. After the last payment, missing hours begin one interval later.
        begins[-1] += usual[-1]
        overlap = np.minimum(ends, until) - np.maximum(begins, after)
        return float(np.clip(overlap[is_gap], 0.0, None).sum() / _HOUR_US)


def _of(panel: xr.DataArray, argument: str, symbol: str, venue: str) -> xr.DataArray:
    """Return the series of one symbol and venue, sorted by time."""
    series = panel
    for name, label in (("symbol", symbol), ("exchange", venue)):
        if name not in series.dims:
            continue
        labels = [str(item) for item in series[name].to_numpy().tolist()]
        place = 0  # use the only series if the chains do not name a symbol
        if len(labels) > 1 or label:
            if label not in labels:
                raise ValueError(
                    f"{argument} does not have the {name} {label!r}; available: {', '.join(labels)}"
                )
            place = labels.index(label)
        series = series.isel({name: place})
    loaded: xr.DataArray = series.compute().sortby("time")
    if not loaded.indexes["time"].is_unique:
        raise ValueError(f"{argument} must have each timestamp once: drop duplicates")
    return loaded
