"""One body about to be read: the request, its time, and the context from other answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar, overload
from urllib.parse import parse_qsl

import pandas as pd

from derivdata.errors import SchemaError, VenueError
from derivdata.sources.venues import wire
from derivdata.sources.venues.endpoint import Endpoint
from derivdata.sources.venues.record_types import Book, Instrument
from derivdata.support import times
from derivdata.tables import contract

__all__ = ["Context", "Reading", "Request", "refuse_by_code"]


def __dir__() -> list[str]:
    return __all__


T = TypeVar("T")
_UNFILLED = re.compile(r"\{\w+\}")
_SAME_US = 60_000_000
_HOUR_US = 3_600_000_000
_FRAMES = ("instruments", "intervals", "prices_history", "markets_symbol_exchanges")


class _Coded(wire.Wire):
    code: str | None = None
    msg: str = ""


def refuse_by_code(success: str, reasons: Mapping[str, str]) -> Callable[[Reading], None]:
    """Return what refuses a body whose ``code``, with HTTP 200 or not, is another than that of success.

    `reasons` are those of `VenueError.reason` by code; other codes are refusals.
    """

    def refuse(reading: Reading) -> None:
        if reading.body.lstrip()[:1] != b"{":
            return
        fault = reading.decode(_Coded)
        if fault.code not in (None, success):
            reason = reasons.get(fault.code or "", "refused")
            raise VenueError(reading.where, fault.msg, code=fault.code, reason=reason)

    return refuse


@dataclass(frozen=True)
class Request:
    """A path or channel with its parameters."""

    place: str
    params: Mapping[str, str]

    @classmethod
    def parse(cls, text: str) -> Request:
        """Read a path or channel; a part that is still ``{name}`` counts as not given."""
        address = re.sub(r"^(https?|wss?)://[^/]+", "", text)
        place, _, query = address.partition("?")
        pairs = parse_qsl(query, keep_blank_values=True)
        return cls(place, {k: v for k, v in pairs if not _UNFILLED.fullmatch(v)})


class Context:
    """The context from other answers of the venue about its contracts: frames of `read`, or single values.

    Parameters
    ----------
    values
        Frames ``instruments``, ``intervals``, ``prices_history`` or ``markets_symbol_exchanges``; for a body
        about one contract also the values ``interval_hours``, ``contract_size`` (coins, USD of an inverse
        contract), ``mark_price`` [USD] and ``instrument`` (the venue's name of the contract).
        Other names are ignored, so that the result of `read` can be given unchanged.
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
        for row in frames["instruments"].to_dict("records"):
            item = _instrument(row)
            self.instruments[item.name] = item
        hours = frames["intervals"]
        self.intervals = _lookup(
            hours, "instrument_name" if "instrument_name" in hours else "symbol", "interval_hours"
        )
        self.knows_intervals = "intervals" in given
        marks = frames["prices_history"]
        marks = marks[marks["kind"] == "mark"] if "kind" in marks else marks
        self._marks: dict[str, list[tuple[int, float]]] = {}
        for frame in (frames["markets_symbol_exchanges"], marks):
            for symbol, time, price in _marks(frame):
                self._marks.setdefault(symbol, []).append((time, price))

    def mark(self, symbol: str, time: int | None) -> float | None:
        """Return the mark price nearest to an instant [µs], None where none is of the same minute."""
        marks = self._marks.get(symbol)
        if not marks or time is None:
            return None
        stamp, price = min(marks, key=lambda row: abs(row[0] - time))
        return price if abs(stamp - time) <= _SAME_US else None


def named(name: str) -> Instrument:
    """Return what a contract's name alone says, by the dictionary of `derivdata.tables.contract`."""
    plain = contract(name)
    return Instrument(name, plain.symbol, plain.quote, perpetual=bool(plain.quote))


def _marks(frame: pd.DataFrame) -> Iterator[tuple[str, int, float]]:
    if "time" in frame and "price_usd" in frame:
        stamps = frame["time"].dt.tz_convert(None).to_numpy().astype("datetime64[us]").astype("int64")
        for symbol, time, price in zip(frame["symbol"], stamps, frame["price_usd"], strict=True):
            if price == price:
                yield str(symbol), int(time), float(price)


def _positive(given: Mapping[str, Any], name: str) -> float | None:
    value = given.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ValueError(f"context[{name!r}]={value!r} is not a number above 0")
    return float(value)


def _of(frame: Any, name: str, exchange: str) -> pd.DataFrame:
    if frame is None:
        return pd.DataFrame()
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"context[{name!r}] must be a frame, not {type(frame).__name__}")
    return frame[frame["exchange"] == exchange] if "exchange" in frame else frame


def _lookup(frame: pd.DataFrame, key: str, value: str) -> dict[str, float]:
    if key not in frame or value not in frame:
        return {}
    pairs = zip(frame[key].astype(str), frame[value], strict=True)
    return {k: float(v) for k, v in pairs if pd.notna(v)}


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
    )


class Reading:
    """One body with all that is needed to read it; adapters get nothing else.

    Parameters
    ----------
    endpoint
        What answered; None for a body that is only looked at for errors.
    request, body
        What was asked, and the answer.
    at
        Microseconds of arrival, None where it is not known.
    context
        The context from other answers.
    parts
        Values of the ``{name}`` parts of the path or channel.
    """

    def __init__(
        self,
        exchange: str,
        endpoint: Endpoint | None,
        request: Request,
        body: bytes,
        *,
        at: int | None,
        context: Context,
        parts: Mapping[str, str] | None = None,
    ) -> None:
        self.exchange, self.endpoint, self.request, self.body = exchange, endpoint, request, body
        self.at, self.context = at, context
        self.parts = dict(parts or {})
        self._instruments: dict[str, Instrument] = {}
        self.where = f"{exchange} {request.place}"

    @overload
    def decode(self, kind: type[T]) -> T: ...
    @overload
    def decode(self, kind: Any) -> Any: ...
    def decode(self, kind: Any) -> Any:
        """Decode the body; see `wire.decode`."""
        return wire.decode(self.body, kind, self.where)

    def frames(self, kind: type[T]) -> list[T]:
        """Decode one WebSocket frame or an array of them."""
        return wire.frames_of(self.body, kind, self.where)

    def number(self, value: wire.NUMBER) -> float | None:
        """Return a number, None where it is missing; see `wire.number`."""
        return wire.number(value, self.where)

    def required(self, value: wire.NUMBER) -> float:
        """Return a number that must be there."""
        return wire.required(value, self.where)

    def ms(self, value: float | str) -> int:
        """Return the microseconds of an instant in milliseconds."""
        return wire.ms_us(value, self.where)

    def fail(self, why: str) -> NoReturn:
        """Raise a `SchemaError` that names the body."""
        wire.fail(self.where, why)

    def asked(self, *names: str) -> str:
        """Return the first of these parts or parameters that the request has, else the context's instrument.

        Raises
        ------
        SchemaError
            None is given: the body does not say which contract it is about.
        """
        for name in names:
            value = self.parts.get(name) or self.request.params.get(name)
            if value:
                return value
        if self.context.named:
            return self.context.named
        raise SchemaError(
            f"{self.where}: the body does not name the contract: give it with the request "
            f"(?{names[0]}=...) or as context={{'instrument': ...}}"
        )

    def instrument(self, name: str, parse: Callable[[str], Instrument] = named) -> Instrument:
        """Return the contract of a name: from the instrument list, else as `parse` reads the name.

        The context's ``contract_size`` fills in a size that neither knows.
        """
        item = self._instruments.get(name)
        if item is None:
            item = self.context.instruments.get(name) or parse(name)
            if item.size is None and self.context.contract_size is not None:
                item = item._replace(size=self.context.contract_size)
            self._instruments[name] = item
        return item

    def interval(self, item: Instrument) -> float | None:
        """Return the hours between payments from another answer, None where none has them."""
        intervals = self.context.intervals
        return intervals.get(item.name) or intervals.get(item.symbol) or self.context.interval_hours

    def current_interval(
        self, item: Instrument, time: int, next_payment: int, default: float | None = None
    ) -> float | None:
        """Return the hours between payments from another answer if the next payment agrees with them.

        That answer may be older than a change of the interval. Venues pay at multiples of the interval since
        00:00 UTC, so the next payment is at such a multiple and no longer than an interval away. Where it is
        not, the interval is the only one of 1, 2, 4 and 8 hours that agrees, or not known (None).
        """
        hours = self.interval(item)
        hours = default if hours is None else hours

        def agrees(hours: float) -> bool:
            step = round(hours * _HOUR_US)
            return next_payment % step == 0 and next_payment - time <= step + _SAME_US

        if hours is None or agrees(hours):
            return hours
        possible = [other for other in (1.0, 2.0, 4.0, 8.0) if agrees(other)]
        return possible[0] if len(possible) == 1 else None

    def mark(self, item: Instrument, time: int | None) -> float | None:
        """Return the mark price of the same minute from another answer, else the given one."""
        price = self.context.mark(item.symbol, self.at if time is None else time)
        return price if price is not None else self.context.mark_price

    def mark_then(self, item: Instrument, time: int) -> float | None:
        """Return the mark price of an instant of the past, never that of another minute."""
        return self.context.mark(item.symbol, time)

    def resolution(self, name: str) -> str:
        """Return the step that a parameter of the request names, as the library spells it."""
        step = self.request.params.get(name, "").replace("min", "m").lower()
        return step if step in times.RESOLUTIONS else "unstated"

    def word(self, value: str, meanings: Mapping[str, T]) -> T:
        """Return the meaning of a venue's word; others are refused."""
        if value not in meanings:
            wire.fail(self.where, f"{value!r} is not one of {', '.join(map(repr, meanings))}")
        return meanings[value]

    def levels(
        self, item: Instrument, rows: Iterable[Sequence[wire.NUMBER]]
    ) -> list[tuple[float, float | None]]:
        """Return (price, coins) of one side of a book, equal prices added up.

        The coins are None where the size of one contract is not known.
        """
        total: dict[float, float | None] = {}
        for row in rows:
            price = self.required(row[0])
            coins, before = item.coins(self.required(row[1]), price), total.get(price, 0.0)
            total[price] = None if coins is None or before is None else before + coins
        return list(total.items())

    def book(
        self,
        item: Instrument,
        time: int | None,
        bids: Iterable[Sequence[wire.NUMBER]],
        asks: Iterable[Sequence[wire.NUMBER]],
    ) -> Book:
        """Return a book from rows of price and size, the best first.

        Raises
        ------
        SchemaError
            Some levels are text and others numbers; or the best bid is above the best ask: the sides are
            not what they are taken for.
        """
        bids, asks = list(bids), list(asks)
        kinds = {(isinstance(row[0], str), isinstance(row[1], str)) for row in (*bids, *asks)}
        if len(kinds) > 1:
            wire.fail(self.where, "levels of one book are written in two ways")
        bid = sorted(self.levels(item, bids), key=lambda level: -level[0])
        ask = sorted(self.levels(item, asks), key=lambda level: level[0])
        if bid and ask and bid[0][0] >= ask[0][0]:
            wire.fail(self.where, f"the best bid {bid[0][0]} is not below the best ask {ask[0][0]}")
        return Book(item, time, bid, ask)
