"""Events of the fake venues: one truth, which each venue reports in its own form."""

from __future__ import annotations

from datetime import UTC, datetime

from derivdata.tables.contracts import HIP3_DEXES as DEXES

HOUR = 3600
T0 = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
HOURLY = (
    "deribit", "hyperliquid", "lighter", "dydx", "derive", "kraken", "cryptocom", "backpack", "extended",
    "nado", "pacifica", "ethereal", "apex", *DEXES,
)  # fmt: skip


def interval(exchange: str, second: int) -> int:
    """Hours between payments: 8, then 4 and 1 within two days of stress, then 8 again."""
    if exchange in HOURLY:
        return 1
    day = (second - T0) // 86400
    return 4 if day == 11 else 1 if day == 12 else 8


class Truth:
    """Events: payments and open interest of each contract, the same in every request.

    Attributes
    ----------
    late
        How many seconds after its hour a payment was made, by its hour; the others were made in time.
    """

    def __init__(self, end: int) -> None:
        self.end = end
        self.late: dict[int, int] = {}

    def payments(self, exchange: str, symbol: str) -> list[tuple[int, int, float]]:
        """(second, hours since the one before, fraction of one interval), ascending from T0 − 3 days."""
        rows, second = [], T0 - 3 * 86400
        while second < self.end:
            step = interval(exchange, second)
            second += step * HOUR
            number = second // HOUR + len(symbol) + ord(symbol[0])
            rows.append((second + self.late.get(second, 0), step, (number * 7919 % 2001 - 1000) * 1e-7))
        return [row for row in rows if row[0] < self.end]

    def next_payment(self, exchange: str, second: float) -> int:
        """The second of the next payment, as the venue announces it."""
        at = T0 - 3 * 86400
        while at <= second:
            at += interval(exchange, at) * HOUR
        return at

    def oi(self, symbol: str) -> list[tuple[int, float, float]]:
        """(second, coins, mark) every 5 minutes."""
        first = T0 - 3 * 86400
        return [self.oi_at(symbol, second) for second in range(first, self.end, 300)]

    def oi_at(self, symbol: str, second: int) -> tuple[int, float, float]:
        """Return (second, coins, mark) of the five minutes that include a second."""
        number = second // 300
        return number * 300, 1000 + number * 31 % 500 + len(symbol), 50000.0 + number * 17 % 100

    def index(self, second: int) -> float:
        """The index price at a time."""
        return 49_900.0 + second // HOUR * 13 % 100

    def bars(self, symbol: str) -> list[tuple[int, float]]:
        """(second, mark) at each full hour."""
        return [(s, mark) for s, _, mark in self.oi(symbol) if s % HOUR == 0]
