"""Bodies of OKX that are the same for contracts and for options."""

from __future__ import annotations

from derivdata.sources.venues.wire import Wire

__all__ = ["MarkBody", "OpenInterestBody"]


def __dir__() -> list[str]:
    return __all__


class _OpenInterest(Wire):
    instId: str
    oi: str
    oiCcy: str
    ts: str
    oiUsd: str | None = None


class OpenInterestBody(Wire):
    """Open interest of each instrument, in contracts, in coins and, of some, in USD."""

    data: list[_OpenInterest]


class _Mark(Wire):
    instId: str
    markPx: str
    ts: str


class MarkBody(Wire):
    """Mark prices of each instrument."""

    code: str
    data: list[_Mark]
