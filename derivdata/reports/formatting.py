"""Numbers and words as people write them."""

from __future__ import annotations

import math

__all__ = ["count", "lasting", "listing", "pct", "rate", "usd"]


def usd(value: float) -> str:
    """Write dollars with three digits and a letter: ``36.4 M USD``."""
    if not math.isfinite(value):
        return "unknown"
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g} {letter} USD"
    return f"{value:.3g} USD"


def rate(bps_8h: float) -> str:
    """Write a funding rate: ``+0.85 bps/8h``."""
    return f"{bps_8h:+.2f} bps/8h"


def pct(fraction: float, digits: int = 1, *, signed: bool = False) -> str:
    """Write a fraction as percent: ``12.3 %``."""
    return f"{100 * fraction:{'+' if signed else ''}.{digits}f} %"


def lasting(hours: float) -> str:
    """Write a duration: ``14 h``, ``3.2 days``, ``never``."""
    if math.isinf(hours):
        return "never"
    if math.isnan(hours):
        return "unknown"
    return f"{hours:.2g} h" if hours < 10 else f"{hours:.0f} h" if hours < 72 else f"{hours / 24:.1f} days"


def count(number: int, what: str) -> str:
    """Write a count: ``1 venue``, ``3 venues``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def listing(items: list[str]) -> str:
    """Join words: ``a``, ``a and b``, ``a, b and c``."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
