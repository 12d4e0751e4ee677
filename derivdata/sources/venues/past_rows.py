"""Rows of histories in the shape that most venues share: the contract, milliseconds, and a figure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Instrument, Payment, Price, Records
from derivdata.sources.venues.wire import NUMBER

__all__ = ["payments", "prices"]


def __dir__() -> list[str]:
    return __all__


def payments(
    reading: Reading,
    rows: Iterable[tuple[str, float | str, NUMBER]],
    named: Callable[[str], Instrument],
    period_h: float | None = None,
) -> Records:
    """Return payments from rows of contract, instant [ms] and rate.

    The rate is of `period_h` hours, by default of the spacing of the payments.
    """
    instrument, ms, required = reading.instrument, reading.ms, reading.required
    payment_rows = [
        Payment(instrument(name, named), ms(time), required(rate), period_h) for name, time, rate in rows
    ]
    return Records(payments=payment_rows, times=[row.time for row in payment_rows])


def prices(
    reading: Reading,
    rows: Iterable[tuple[float | str, NUMBER]],
    item: Instrument,
    kind: str,
    resolution: str,
) -> Records:
    """Return prices of one contract from rows of instant [ms] and price."""
    ms, required = reading.ms, reading.required
    price_rows = [Price(item, ms(time), kind, required(price), resolution) for time, price in rows]
    return Records(prices=price_rows, times=[row.time for row in price_rows])
