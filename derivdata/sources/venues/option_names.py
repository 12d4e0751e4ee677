"""Names of options as several venues spell them."""

from __future__ import annotations

from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.wire import expiry_of

__all__ = ["option_name"]


def __dir__() -> list[str]:
    return __all__


def option_name(reading: Reading, name: str) -> tuple[str, int, float, str]:
    """Return base, expiry, strike and side of a name such as BTC-231229-40000-C."""
    parts = name.split("-")
    if len(parts) != 4 or parts[3] not in ("C", "P"):
        reading.fail(f"{name!r} is no name of an option")
    side = "call" if parts[3] == "C" else "put"
    return parts[0], expiry_of(parts[1], reading.where), reading.required(parts[2]), side
