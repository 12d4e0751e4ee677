"""Costs of option strategies: fees with their caps by day, delivery, slippage of hedges, and margin."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

import numpy as np

from derivdata.support.arguments import require_fields
from derivdata.support.text import warn_caller
from derivdata.tables.venue_facts import FACTS, fact_value
from derivdata.units import BPS

_FRIDAY = 4


@dataclass(frozen=True)
class OptionCosts:
    """Costs of options and of their hedge.

    None takes the fact of ``dd.venues.facts()`` that was newest on the day of the trade, and is refused where
    the venue has none.

    Attributes
    ----------
    option_fee_bps
        Fee of an option [bps of the underlying].
    option_fee_cap
        The most that a fee or a delivery fee is [fraction of the option's price, or of its payoff], up to 1;
        infinite: no cap.
    delivery_fee_bps
        Fee of an option that is delivered in the money [bps of the underlying]. With None, options that do
        not expire on a Friday pay what the venue charges for daily options.
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
            raise ValueError(f"fee_bps={self.fee_bps!r} must be a finite number")
        cap = self.option_fee_cap
        if cap is not None and 1.0 < cap < np.inf:
            raise ValueError(f"option_fee_cap={cap!r} must be a fraction from 0 to 1: 12.5 % is 0.125")
        for name in ("option_fee_bps", "option_fee_cap", "delivery_fee_bps", "slippage_bps"):
            value = getattr(self, name)
            is_cap = name == "option_fee_cap"
            if value is not None and not (0.0 <= value < np.inf or (is_cap and value == np.inf)):
                raise ValueError(f"{name}={value!r} must be a number from 0 on")


class Fees:
    """Fees of one symbol on the venue of its options and on that of its hedge."""

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
        if self._costs.delivery_fee_bps is None and dt.date.fromisoformat(day).weekday() != _FRIDAY:
            fact = "daily_option_delivery_fee_bps"
            of_daily = fact_value(self._venue, fact, self._symbol, day)
            if of_daily is not None:
                return of_daily
        return self._rate("delivery_fee_bps", "option_delivery_fee_bps", self._venue, day)

    def _rate(self, name: str, fact: str, venue: str, day: str) -> float:
        given: float | None = getattr(self._costs, name)
        if given is not None:
            return given
        published = fact_value(venue, fact, self._symbol, day)
        if published is not None:
            return published
        first = min(
            (
                row
                for row in FACTS
                if row[0] == venue and row.fact == fact and row.symbol in ("", self._symbol)
            ),
            key=lambda row: row.as_of,
            default=None,
        )
        if first is None:
            raise ValueError(
                f"no {fact} with a source is known of {venue} for {self._symbol} (dd.venues.facts() lists "
                f"those that are): pass OptionCosts({name}=...)"
            )
        if fact not in self._early:
            self._early.add(fact)
            warn_caller(
                f"the {fact} of {venue} on {day} is not known; that of {first.as_of} is used: pass "
                f"OptionCosts({name}=...)"
            )
        return first.value


def margin_of_short(side: str, strike: float, spot: float, mark: float) -> float:
    """Return the initial margin of one short option [USD], as Deribit's standard margin has it.

    ``max(0.15 − OTM/S, 0.1) S + mark``; of a put at least its maintenance margin,
    ``max(0.075 S, 0.075 mark) + mark`` (doc.tslab.pro, "Deribit Margin Requirements Calculation", read
    2026-11-28).
    """
    out_of_the_money = max(strike - spot, 0.0) if side == "call" else max(spot - strike, 0.0)
    initial = max(0.15 * spot - out_of_the_money, 0.1 * spot) + mark
    if side == "call":
        return initial
    return max(initial, max(0.075 * spot, 0.075 * mark) + mark)
