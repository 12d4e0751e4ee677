"""Contracts of a venue and their intervals: as tables, and read back as the context of other bodies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from derivdata import tables, units
from derivdata.sources.venues.record_types import Instrument, Records, StatedRate
from derivdata.support import times
from derivdata.tables.contracts import hip3_contract
from derivdata.tables.schema import Column, Kind, Table

_SAME_US = 60_000_000  # one minute
_FRAMES = ("instruments", "intervals", "prices_history", "markets_symbol_exchanges")

_LISTED = tables.TABLES["instruments"]
INSTRUMENTS = replace(
    _LISTED,
    key=("exchange", "instrument_name"),
    columns={name: column for name, column in _LISTED.columns.items() if name != "time"}
    | {"position": Column(Kind.COUNT, "", "Place in the venue's list, from 0: some answers go by it.")},
    order=("exchange", "position"),
)
"""The list of a venue in one body."""
INTERVALS = Table(
    name="intervals",
    key=("exchange", "instrument_name"),
    columns={
        name: tables.COLUMNS[name] for name in ("exchange", "instrument_name", "symbol", "interval_hours")
    },
    doc="Hours between the funding payments of a contract now.",
)
DEXES = Table(
    name="dexes",
    key=("exchange", "dex"),
    columns={
        "exchange": tables.COLUMNS["exchange"],
        "dex": Column(Kind.TEXT, "", "Name of a HIP-3 dex, which begins the names of its contracts."),
        "venue": Column(Kind.TEXT, "", "Slug under which its contracts are read: its own, or the venue's."),
    },
    doc="Dexes that others deploy on a venue.",
)
FUNDING_RATES = Table(
    name="funding_rates",
    key=("exchange", "instrument_name", "rate_kind"),
    columns={
        "exchange": tables.COLUMNS["exchange"],
        "instrument_name": tables.COLUMNS["instrument_name"],
        "rate_kind": tables.COLUMNS["rate_kind"],
        "symbol": tables.COLUMNS["symbol"],
        "time": tables.COLUMNS["time"],
        "settlement_time": tables.COLUMNS["settlement_time"],
        "rate_bps_8h": tables.COLUMNS["rate_bps_8h"],
        "rate_native": tables.COLUMNS["rate_native"],
        "interval_hours": tables.COLUMNS["interval_hours"],
    },
    doc="Funding rates by kind: settled, of the next settlement, and predicted.",
)
_FIELDS = {"instrument_name": "name", "contract_size": "size", "symbol": "symbol", "strike": "strike"}
_FIELDS |= {f"is_{name}": name for name in ("inverse", "perpetual", "active")} | {
    "tick": "tick",
    "step": "step",
}


def instruments(items: list[Instrument], exchange: str) -> dict[str, Any]:
    """Return the columns of `INSTRUMENTS`; a list of Hyperliquid may have contracts of its dexes."""
    return {
        "exchange": [hip3_contract(exchange, item.name)[0] for item in items],
        **{column: [getattr(item, name) for item in items] for column, name in _FIELDS.items()},
        "quote": [item.quote or None for item in items],
        "multiplier": [float(tables.base(item.symbol)[1]) for item in items],
        **{
            name: pd.to_datetime([getattr(item, name) for item in items], unit="us", utc=True).as_unit("us")
            for name in ("expiry", "listed", "delisted")
        },
        "position": range(len(items)),
    }


def intervals(records: Records) -> dict[str, Any]:
    """Return the columns of `INTERVALS`; a list takes precedence over a rate."""
    stated = {s.instrument.name: (s.instrument, s.settle_h) for s in records.states if s.settle_h is not None}
    stated |= {i.instrument.name: (i.instrument, i.hours) for i in records.intervals}
    return {
        "instrument_name": [*stated],
        "symbol": [item.symbol for item, _ in stated.values()],
        "interval_hours": [hours for _, hours in stated.values()],
    }


def funding_rates(exchange: str, records: Records, at: int | None) -> dict[str, Any]:
    """Return the columns of `FUNDING_RATES`: rates of a stated kind, and running ones with a settlement."""
    newest = {(row.venue, row.instrument.name, row.kind): row for row in records.rates}
    for state in records.states:
        key = (None, state.instrument.name, "next")
        if state.rate is not None and state.next_payment is not None and key not in newest:
            newest[key] = StatedRate(
                state.instrument,
                "next",
                state.rate,
                state.next_payment,
                state.time,
                state.period_h,
                state.settle_h,
            )
    rows = list(newest.values())
    period = np.array([row.period_h for row in rows], dtype=np.float64)
    hours = np.array([row.settle_h for row in rows], dtype=np.float64)
    rates = np.array([row.rate for row in rows], dtype=np.float64)
    return {
        "exchange": [row.venue or exchange for row in rows],
        "instrument_name": [row.instrument.name for row in rows],
        "symbol": [row.instrument.symbol for row in rows],
        "rate_kind": [row.kind for row in rows],
        "time": _instants([at if row.time is None else row.time for row in rows]),
        "settlement_time": _instants([row.settlement for row in rows]),
        "rate_bps_8h": units.convert(rates, "native", "bps_8h", hours=period),
        "rate_native": rates * hours / period,
        "interval_hours": hours,
    }


def _instants(stamps: list[int | None]) -> pd.DatetimeIndex:
    return pd.to_datetime(pd.array(stamps, dtype="Int64"), unit="us", utc=True).as_unit("us")


def dexes(exchange: str, names: list[str]) -> dict[str, Any]:
    """Return the columns of `DEXES`."""
    return {"dex": names, "venue": [hip3_contract(exchange, f"{name}:")[0] for name in names]}


_NO_ROWS = pd.DataFrame()


class Context:
    """Context from other responses of the venue about its contracts: frames of `read`, or single values.

    Parameters
    ----------
    values
        Frames ``instruments``, ``intervals``, ``prices_history`` or ``markets_symbol_exchanges``; for a body
        about one contract also the values ``interval_hours``, ``contract_size`` (coins, USD of an inverse
        contract), ``mark_price`` [USD] and ``instrument`` (the venue's name of the contract).
        ``margins_without_intervals`` are margins whose contracts have unknown intervals. Other names are
        ignored, so that the result of `read` can be passed unchanged.
    exchange
        Only rows of this venue count.
    """

    def __init__(self, values: Mapping[str, Any] | None, exchange: str) -> None:
        given = dict(values or {})
        self.interval_hours = _positive(given, "interval_hours")
        self.contract_size = _positive(given, "contract_size")
        self.mark_price = _positive(given, "mark_price")
        self.named: str | None = given.get("instrument")
        frames = {name: _of(given.get(name), name, exchange) for name in _FRAMES}
        self.instruments: dict[str, Instrument] = {}
        if len(frames["instruments"]):
            listed = map(_instrument, frames["instruments"].to_dict("records"))
            self.instruments = {item.name: item for item in listed}
        self.intervals = _hours(frames["intervals"])
        self._lists_intervals = "intervals" in given
        self._unlisted = given.get("margins_without_intervals", ())
        marks = frames["prices_history"]
        marks = marks[marks["kind"] == "mark"] if "kind" in marks else marks
        self._marks: dict[tuple[str, int], list[tuple[int, float]]] = {}  # by symbol and minute
        for frame in (frames["markets_symbol_exchanges"], marks):
            for symbol, time, price in _marks(frame):
                self._marks.setdefault((symbol, time // _SAME_US), []).append((time, price))

    def lists_intervals(self, item: Instrument) -> bool:
        """Return whether a list said which contracts such as this one differ from the venue's default."""
        margin = "inverse" if item.inverse else "linear"
        return self._lists_intervals and not {margin, "any"} & {*self._unlisted}

    def mark(self, symbol: str, time: int | None) -> float | None:
        """Return the mark price nearest to a time [µs], None without one in the same minute."""
        if time is None:
            return None
        minute = time // _SAME_US
        near = [row for at in (minute - 1, minute, minute + 1) for row in self._marks.get((symbol, at), ())]
        stamp, price = min(near, key=lambda row: abs(row[0] - time), default=(0, None))
        return price if abs(stamp - time) <= _SAME_US else None


def _positive(given: Mapping[str, Any], name: str) -> float | None:
    value = given.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ValueError(f"context[{name!r}]={value!r} is not a number above 0")
    return float(value)


def _of(frame: Any, name: str, exchange: str) -> pd.DataFrame:
    if frame is None:
        return _NO_ROWS
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"context[{name!r}] must be a frame, not {type(frame).__name__}")
    return frame[frame["exchange"] == exchange] if "exchange" in frame else frame


def _instrument(row: Mapping[str, Any]) -> Instrument:
    size = row["contract_size"]
    return Instrument(
        str(row["instrument_name"]),
        str(row["symbol"]),
        "" if pd.isna(row["quote"]) else str(row["quote"]),
        None if pd.isna(size) else float(size),
        bool(row["is_inverse"]),
        bool(row["is_perpetual"]),
        bool(row["is_active"]),
        strike=None if pd.isna(strike := row.get("strike", np.nan)) else float(strike),
        expiry=None if pd.isna(expiry := row.get("expiry")) else times.us(pd.Timestamp(expiry)),
    )


def _hours(frame: pd.DataFrame) -> dict[str, float]:
    """Return the intervals by the venue's names, or by symbols in a frame without names."""
    key = "instrument_name" if "instrument_name" in frame else "symbol"
    if key not in frame or "interval_hours" not in frame:
        return {}
    pairs = zip(frame[key].astype(str), frame["interval_hours"], strict=True)
    return {name: float(hours) for name, hours in pairs if pd.notna(hours)}


def _marks(frame: pd.DataFrame) -> Iterator[tuple[str, int, float]]:
    if "time" in frame and "price_usd" in frame:
        stamps = times.naive_utc(frame["time"]).to_numpy().astype("datetime64[us]").astype("int64")
        for symbol, time, price in zip(frame["symbol"], stamps, frame["price_usd"], strict=True):
            if price == price:
                yield str(symbol), int(time), float(price)
