"""Rules of option strategies: legs by tenor and delta, rolled by the calendar, by time left or by delta."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from derivdata.analysis.backtest.option_market import OptionMarket
from derivdata.analysis.position.instruments import EXPIRING, OPTIONS, SIDES
from derivdata.support.times import length

_NAMED = ("expiry", "weekly", "monthly")
_WEEK = pd.Timedelta(7, "D")
_FRIDAY = pd.Timestamp("2020-01-03T08:00", tz="UTC")


class OptionState:
    """The state of a backtest that a rule sees: quotes and position of one time, without a later one.

    Attributes
    ----------
    now
        Time of the chain.
    spot
        Index price [USD].
    equity
        Equity, in the currency of the backtest.
    opened
        When the rule's position was last changed by a trade; None before the first.
    expired
        Number of options of the present position that have been delivered since then.
    """

    def __init__(
        self,
        market: OptionMarket,
        row: int,
        legs: Callable[[], pd.DataFrame],
        *,
        equity: float,
        opened: pd.Timestamp | None,
        expired: int,
    ) -> None:
        self._market = market
        self._row = row
        self._legs = legs
        self.now = pd.Timestamp(market.times[row], tz="UTC")
        self.spot = float(market.spot[row])
        self.equity = equity
        self.opened = opened
        self.expired = expired

    @cached_property
    def quotes(self) -> pd.DataFrame:
        """Every option with a quote or a mark: one row each.

        ``expiry``, ``strike`` [USD], ``side``, ``bid_usd`` and ``ask_usd`` (NaN without a quote),
        ``mark_usd`` on the surface, ``iv`` [1/√year], ``delta`` (forward delta), ``forward`` [USD] and
        ``days`` to expiry.
        """
        return self._market.table(self._row)

    @cached_property
    def position(self) -> pd.DataFrame:
        """The legs that are held, as `derivdata.analysis.position` describes them."""
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
        Time to expiry at the entry, such as ``"7d"``: the listed expiry nearest to it. Of options and
        futures.
    delta
        Size of the forward delta of the option, from 0 to 1: the nearest option with the quote that the
        trade needs.
    moneyness
        Strike over forward, in place of `delta`; 1 is at the money. The default of options.
    """

    side: str
    quantity: float
    tenor: str | pd.Timedelta | None = None
    delta: float | None = None
    moneyness: float | None = None

    def __post_init__(self) -> None:
        if self.side not in SIDES:
            raise ValueError(f"side={self.side!r} is not one of {', '.join(SIDES)}")
        if not np.isfinite(self.quantity) or self.quantity == 0.0:
            raise ValueError(f"quantity={self.quantity!r} must be a number of coins other than 0")
        if self.side in EXPIRING and self.tenor is None:
            raise ValueError(f"a leg with the side {self.side!r} needs tenor=")
        if self.side not in EXPIRING and self.tenor is not None:
            raise ValueError(f"a leg with the side {self.side!r} has no tenor")
        if self.tenor is not None:
            length(self.tenor, "tenor")
        self._check_strike()

    def _check_strike(self) -> None:
        given = [name for name in ("delta", "moneyness") if getattr(self, name) is not None]
        if given and self.side not in OPTIONS:
            raise ValueError(f"a leg with the side {self.side!r} has no {given[0]}")
        if len(given) == 2:
            raise ValueError("a leg is chosen by delta or by moneyness: pass one of them")
        if self.delta is not None and not 0.0 < self.delta < 1.0:
            raise ValueError(f"delta={self.delta!r} must be between 0 and 1")
        if self.moneyness is not None and not self.moneyness > 0.0:
            raise ValueError(f"moneyness={self.moneyness!r} must be above 0")

    def chosen(self, state: OptionState) -> dict[str, Any]:
        """Return the leg among the quotes of a time; without expiry or strike where none has a quote."""
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
        The legs of every entry.
    every
        When the legs are chosen again: ``"expiry"``, at the first chain after an option was delivered;
        ``"weekly"``, at the first chain from Friday 08:00 UTC on; ``"monthly"``, from 08:00 UTC of the last
        Friday of a month on; or a length of time after the last entry, such as ``"3d"``.
    min_tenor
        The legs are also chosen again when an option has less time left than this.
    max_delta
        The same when the forward delta of an option is larger than this, in size.
    """

    legs: Sequence[OptionLeg]
    every: str | pd.Timedelta = "expiry"
    min_tenor: str | pd.Timedelta | None = None
    max_delta: float | None = None

    def __post_init__(self) -> None:
        if not len(self.legs) or not all(isinstance(leg, OptionLeg) for leg in self.legs):
            raise ValueError("legs must be a list of OptionLeg, one at least")
        if self.every not in _NAMED:
            length(self.every, "every")
        if self.min_tenor is not None:
            length(self.min_tenor, "min_tenor")
        if self.max_delta is not None and not 0.0 < self.max_delta < 1.0:
            raise ValueError(f"max_delta={self.max_delta!r} must be between 0 and 1")

    def __call__(self, state: OptionState) -> pd.DataFrame | None:
        """Return the legs to hold from now on, None to keep the present ones."""
        if state.opened is not None and not self._is_due(state):
            return None
        return pd.DataFrame([leg.chosen(state) for leg in self.legs])

    def _is_due(self, state: OptionState) -> bool:
        opened = state.opened
        if opened is None or state.expired:
            return True
        if self.every == "weekly":
            due = _last_friday(state.now) > opened
        elif self.every == "monthly":
            due = _last_month_end(state.now) > opened
        elif self.every == "expiry":
            due = False
        else:
            due = state.now - opened >= length(self.every, "every")
        return due or self._is_short(state) or self._is_deep(state)

    def _is_short(self, state: OptionState) -> bool:
        held = state.position
        if self.min_tenor is None or held.empty:
            return False
        left = held.loc[held["side"].isin(OPTIONS), "expiry"] - state.now
        return bool((left < length(self.min_tenor, "min_tenor")).any())

    def _is_deep(self, state: OptionState) -> bool:
        if self.max_delta is None or state.position.empty:
            return False
        names = ["expiry", "strike", "side"]
        held = state.position.merge(state.quotes[[*names, "delta"]], on=names)
        return bool((held["delta"].abs() > self.max_delta).any())


def _last_friday(now: pd.Timestamp) -> pd.Timestamp:
    """Return the last Friday 08:00 UTC that is not later than a time."""
    return _FRIDAY + (now - _FRIDAY) // _WEEK * _WEEK


def _last_month_end(now: pd.Timestamp) -> pd.Timestamp:
    """Return the last 08:00 UTC of the last Friday of a month that is not later than a time."""
    friday = _last_friday(now)
    while (friday + _WEEK).month == friday.month:
        friday -= _WEEK
    return friday
