"""Contracts of a venue and their intervals as tables, and what one unit of a base stands for."""

from __future__ import annotations

import re
from typing import Any

from derivdata import tables
from derivdata.sources.venues.record_types import Instrument, Records
from derivdata.tables.schema import Column, Kind, Table

__all__ = ["INSTRUMENTS", "INTERVALS", "instruments", "intervals", "multiplier"]


def __dir__() -> list[str]:
    return __all__


_MULTIPLIER = re.compile(r"^(?:(?P<before>10{3,7})|1(?P<million>M))(?=[A-Z])|(?<=[A-Z])(?P<after>10{3,7})$")

INSTRUMENTS = Table(
    name="instruments",
    key=("exchange", "instrument_name"),
    columns={
        "exchange": tables.COLUMNS["exchange"],
        "instrument_name": Column(Kind.LABEL, "", "Venue's name of the contract."),
        "symbol": tables.COLUMNS["symbol"],
        "quote": Column(Kind.LABEL, "", "Quote currency; missing where the venue does not say."),
        "contract_size": Column(Kind.NUMBER, "asset", "Coins of one contract; USD where it is inverse."),
        "multiplier": Column(
            Kind.NUMBER, "1", "Coins that one unit of the symbol stands for: 1000 of 1000PEPE."
        ),
        "is_inverse": Column(Kind.FLAG, "", "Whether it is margined and settled in the coin."),
        "is_perpetual": Column(Kind.FLAG, "", "Whether it has no expiry."),
        "is_active": Column(Kind.FLAG, "", "Whether it trades."),
        "position": Column(Kind.COUNT, "", "Place in the venue's list, from 0: some answers go by it."),
    },
    order=("exchange", "position"),
    doc="Contracts of a venue as it lists them now.",
)
INTERVALS = Table(
    name="intervals",
    key=("exchange", "instrument_name"),
    columns={
        "exchange": tables.COLUMNS["exchange"],
        "instrument_name": Column(Kind.LABEL, "", "Venue's name of the contract."),
        "symbol": tables.COLUMNS["symbol"],
        "interval_hours": tables.COLUMNS["interval_hours"],
    },
    doc="Hours between the funding payments of a contract now.",
)


def multiplier(symbol: str) -> float:
    """Return how many coins one unit of a base stands for: 1000 of 1000PEPE, SHIB1000 and kPEPE, else 1."""
    if symbol[:1] == "k" and symbol[1:].isupper() and len(symbol) > 2:
        return 1000.0
    match = _MULTIPLIER.search(symbol)
    if match is None:
        return 1.0
    return 1e6 if match["million"] else float(match["before"] or match["after"])


def instruments(items: list[Instrument]) -> dict[str, Any]:
    """Return the columns of `INSTRUMENTS`."""
    return {
        "instrument_name": [item.name for item in items],
        "symbol": [item.symbol for item in items],
        "quote": [item.quote or None for item in items],
        "contract_size": [item.size for item in items],
        "multiplier": [multiplier(item.symbol) for item in items],
        "is_inverse": [item.inverse for item in items],
        "is_perpetual": [item.perpetual for item in items],
        "is_active": [item.active for item in items],
        "position": range(len(items)),
    }


def intervals(records: Records) -> dict[str, Any]:
    """Return the columns of `INTERVALS`; what a list states stands before what a rate does."""
    stated = {s.instrument.name: (s.instrument, s.settle_h) for s in records.states if s.settle_h is not None}
    stated |= {i.instrument.name: (i.instrument, i.hours) for i in records.intervals}
    return {
        "instrument_name": [*stated],
        "symbol": [item.symbol for item, _ in stated.values()],
        "interval_hours": [hours for _, hours in stated.values()],
    }
