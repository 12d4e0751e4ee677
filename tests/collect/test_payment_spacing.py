"""The interval of a rate from two payments that polls saw to come next, by the venue's clock."""

from __future__ import annotations

import pandas as pd
import pytest

from derivdata.sources.collect.contract_states import PaymentSpacing
from derivdata.sources.venues.record_types import Instrument, State
from derivdata.support import times

BTC = Instrument("BTC-USDT", "BTC", "USDT", 0.001)
EIGHT = pd.Timestamp("2026-01-20T08:00", tz="UTC")
MINUTE = pd.Timedelta(1, "min")


def _hours(polls: list[tuple[pd.Timedelta, int]], ahead: pd.Timedelta) -> list[float | None]:
    """Return the interval at each poll, of (venue's time since 08:00, hours of the next payment)."""
    spacing, hours = PaymentSpacing(), []
    for since, due in polls:
        time = EIGHT + since
        next_payment = times.us(EIGHT.normalize() + pd.Timedelta(due, "h"))
        state = State(BTC, times.us(time), 0.0001, next_payment=next_payment)
        hours += [filled.period_h for filled in spacing.fill([state], time + ahead)]
    return hours


@pytest.mark.parametrize("seconds", [-50, 0, 50])
@pytest.mark.parametrize(
    ("polls", "wanted"),
    [
        ([(-MINUTE / 4, 8), (MINUTE * 3 / 4, 16), (2 * MINUTE, 16)], [None, 8.0, 8.0]),
        # 08:00 is still named as the next some seconds after it
        ([(-MINUTE, 8), (MINUTE / 12, 8), (2 * MINUTE, 12), (3 * MINUTE, 12)], [None, None, 4.0, 4.0]),
        ([(MINUTE / 12, 8), (59 * MINUTE, 9)], [None, 1.0]),
        ([(MINUTE / 12, 8), (60 * MINUTE, 10)], [None, None]),  # 09:00 may have been a payment, too
        ([(-30 * MINUTE, 8), (30 * MINUTE, 10)], [None, None]),  # an hour apart
        ([(-30 * MINUTE, 16), (-29 * MINUTE, 12)], [None, None]),  # brought forward: none has passed
    ],
)
def test_the_interval_is_the_time_between_two_payments_whatever_our_clock_shows(
    polls: list[tuple[pd.Timedelta, int]], wanted: list[float | None], seconds: int
) -> None:
    """A clock that differs by up to a minute is collected with; payments are made by the venue's."""
    assert _hours(polls, pd.Timedelta(seconds, "s")) == wanted


def test_a_payment_that_was_seen_to_pass_comes_before_an_interval_that_was_told_before() -> None:
    """A list of 8 hours goes on agreeing with 16:00 where 08:00 and 12:00 were paid."""
    spacing, hours = PaymentSpacing(), []
    for since, due in ((4 * 60 - 1, 12), (4 * 60 + 1, 16), (6 * 60, 16)):
        time = times.us(EIGHT + since * MINUTE)
        next_payment = times.us(EIGHT.normalize() + pd.Timedelta(due, "h"))
        told = State(BTC, time, 0.0001, 4.0 if due == 12 else 8.0, 8.0, next_payment=next_payment)
        hours += [filled.period_h for filled in spacing.fill([told], EIGHT)]
    assert hours == [4.0, 4.0, 4.0]
