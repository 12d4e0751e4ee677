"""Endpoints that open interest and volume share: the same questions and parameters about another quantity."""

from __future__ import annotations

from derivdata.tables.endpoints.model import Endpoint
from derivdata.tables.endpoints.params import (
    END,
    EXCHANGE,
    EXCHANGES,
    LIMIT,
    NOT_BOTH,
    PATH_SYMBOL,
    RESOLUTION,
    START,
    WEEK_TO_QUARTER,
    WINDOW,
)


def timeseries(family: str, quantity: str) -> Endpoint:
    """Return the endpoint of one symbol on every venue over time; `quantity` begins its description."""
    return Endpoint(
        f"/{family}/{{symbol}}/timeseries",
        "dev",
        f"{family}_history",
        f"{quantity} of one symbol on every venue over time.",
        params=(PATH_SYMBOL, *WINDOW, EXCHANGES, RESOLUTION),
        exclusive=NOT_BOTH,
        unit="usd",
        states_resolution=True,
    )


def exchange_totals(family: str, quantity: str) -> Endpoint:
    """Return the endpoint of every venue's total over time; `quantity` begins its description."""
    return Endpoint(
        f"/{family}/exchange-totals",
        "dev",
        f"{family}_exchange_totals",
        f"{quantity} of every venue over all symbols, over time.",
        params=(*WINDOW, EXCHANGES, RESOLUTION),
        exclusive=NOT_BOTH,
        unit="usd",
        states_resolution=True,
    )


def top_symbols(family: str, quantity: str) -> Endpoint:
    """Return the endpoint of a venue's largest symbols over time; `quantity` begins its description."""
    return Endpoint(
        f"/{family}/exchange-top-symbols-timeseries",
        "dev",
        f"{family}_top_symbols",
        f"{quantity} of a venue's largest symbols over time.",
        params=(EXCHANGE, START, END, WEEK_TO_QUARTER, LIMIT),
        exclusive=NOT_BOTH,
        unit="usd",
    )
