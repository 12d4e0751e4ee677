"""Intervals that no answer of a venue names: the time between two payments that were seen to come next."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pandas as pd

from derivdata.sources.venues.record_types import State
from derivdata.sources.venues.wire import us_of

__all__ = ["PaymentSpacing"]

_HOUR_US = 3_600_000_000
_GOOD_HOURS = (1.0, 2.0, 4.0, 8.0)


class _Seen(NamedTuple):
    """The payment that an answer named as the next, when, and the hours since the payment before."""

    next_payment: int
    at: int
    hours: float | None


class PaymentSpacing:
    """What the polls of one venue told of its contracts' next payments."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def fill(self, states: Iterable[State], at: pd.Timestamp) -> list[State]:
        """Return states with the interval of each rate whose answer names only the next payment.

        It is known from the first payment on that passes between polls less than an hour apart, which cannot
        have missed another, and until one passes that no two such polls saw. Instants are those of the
        venue's clock, by which it pays: `at`, the instant of the poll here, counts for a state without one.
        """
        filled = []
        for state in states:
            if state.rate is not None and state.period_h is None and state.next_payment is not None:
                now = us_of(at) if state.time is None else state.time
                seen = self._seen.get(state.instrument.name)
                hours = None if seen is None else seen.hours
                if seen is not None and state.next_payment != seen.next_payment:
                    spacing = (state.next_payment - seen.next_payment) / _HOUR_US
                    # A venue may name a payment as the next for some seconds after it was made.
                    passed = seen.next_payment <= now < min(seen.at, seen.next_payment) + _HOUR_US
                    hours = spacing if passed and spacing in _GOOD_HOURS else None
                self._seen[state.instrument.name] = _Seen(state.next_payment, now, hours)
                state = state._replace(period_h=hours, settle_h=hours)
            filled.append(state)
        return filled
