"""Read one body: the request, its time, and the context from other responses.

`Context` has the contracts, intervals and prices of other responses of the venue, `Reading` reads the body.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from operator import attrgetter
from typing import Any, TypeVar

import msgspec
import numpy as np
import pandas as pd
from msgspec.structs import astuple

from derivdata.errors import SchemaError
from derivdata.sources.venues import wire
from derivdata.sources.venues.record_types import (
    Instrument,
    Option,
    OrderBook,
    Payment,
    Positioning,
    Price,
    Quotes,
    Records,
    State,
    TakerVolume,
    contradictions,
    from_columns,
    value_text,
    without,
)
from derivdata.sources.venues.wire import (
    OPTIONAL,
    ContractRow,
    Figures,
    Greeks,
    Level,
    LongShortRow,
    as_rows,
    change_pct,
    if_stated,
    keyed,
    leaf,
    many,
    placed,
)
from derivdata.support import times
from derivdata.tables import contract
from derivdata.tables.payments import VALID_HOURS

T = TypeVar("T")
_FIRST_MS = 1_388_534_400_000
"""1 January 2014, the first plausible time."""
_NEVER_MS = 4_102_444_800_000
_NEVER_YEAR = "2100"
"""Times from 1 January 2100 on mean never."""
_STEP_TEXT = re.compile(r"(\d*)([A-Za-z]*)")
_UNITS_US = {
    "s": 1_000_000,
    **dict.fromkeys(("m", "min"), 60_000_000),
    **dict.fromkeys(("h", "H", "hour", "Hutc"), 3_600_000_000),
    **dict.fromkeys(("d", "D", "day", "Dutc"), 86_400_000_000),
}
"""Lengths of the units of steps as venues write them; ``M`` is a month, which is not a resolution."""
_RESOLUTION_OF_US: dict[int, str] = {times.us(length): name for name, length in times.RESOLUTIONS.items()}
_CHECKED_ROWS = (
    "states options oi prices intervals liquidations positioning taker_volumes trades deliveries indices"
).split()
"""Fields of `Records` whose rows are checked for impossible values."""
_SERIES_KEYS: dict[str, Callable[[Any], Any]] = {
    "oi": lambda row: (row.instrument.name, row.time, row.resolution),
    "prices": lambda row: (row.instrument.name, row.time, row.kind, row.resolution),
    "positioning": lambda row: (row.instrument.name, row.time, row.kind, row.resolution),
    "taker_volumes": lambda row: (row.instrument.name, row.time, row.resolution),
    "indices": lambda row: (row.symbol, row.time, row.resolution),
    "deliveries": lambda row: (row.symbol, row.time, row.contract),
}
"""Histories with one row per time, and the key of a row. Payments are compared later."""
_CANDLE_TOLERANCE = 1.000001
_MIN_BARS = 2
_OPTION_SIDES = {"C": "call", "P": "put"}
_WITHOUT_EXPIRY = (None, "", 0, "0")
_HOURS_AS_TIME = re.compile(r"2000-01-(\d\d)T(\d\d):00:00(\.0+)?Z")
_USUAL_HOURS = (1.0, 2.0, 4.0, 8.0)
_MINUTE_US = 60_000_000
_HOUR_US = 3_600_000_000
_CONTEXT_FRAMES = ("instruments", "intervals", "prices_history", "markets_symbol_exchanges")
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
        self.interval_hours = _positive_number(given, "interval_hours")
        self.contract_size = _positive_number(given, "contract_size")
        self.mark_price = _positive_number(given, "mark_price")
        self.named: str | None = given.get("instrument")
        frames = {name: _venue_rows(given.get(name), name, exchange) for name in _CONTEXT_FRAMES}
        self.instruments: dict[str, Instrument] = {}
        for row in frames["instruments"].to_dict("records"):
            item = _listed_contract(row)
            self.instruments[item.name] = item
        self.intervals = _stated_intervals(frames["intervals"])
        self._lists_intervals = "intervals" in given
        self._unlisted = given.get("margins_without_intervals", ())
        marks = frames["prices_history"]
        if "kind" in marks:
            marks = marks[marks["kind"] == "mark"]
        self._marks: dict[tuple[str, int], list[tuple[int, float]]] = {}  # marks by symbol and minute
        for frame in (frames["markets_symbol_exchanges"], marks):
            for symbol, time, price in _mark_prices(frame):
                self._marks.setdefault((symbol, time // _MINUTE_US), []).append((time, price))

    def lists_intervals(self, item: Instrument) -> bool:
        """Return whether a list states differing intervals for contracts such as this one."""
        return self._lists_intervals and not {item.margin, "any"} & {*self._unlisted}

    def mark(self, symbol: str, time: int | None) -> float | None:
        """Return the mark price nearest to a time [µs], None without one in the same minute."""
        if time is None:
            return None
        minute = time // _MINUTE_US
        marks: list[tuple[int, float]] = []
        for at in (minute - 1, minute, minute + 1):
            marks += self._marks.get((symbol, at), ())
        stamp, price = min(marks, key=lambda mark: abs(mark[0] - time), default=(0, None))
        if abs(stamp - time) > _MINUTE_US:
            return None
        return price


def _positive_number(given: Mapping[str, Any], name: str) -> float | None:
    """Return a number of the context, None without one; raise unless it is above 0."""
    value = given.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ValueError(f"context[{name!r}]={value!r} is not a number above 0")
    return float(value)


def _venue_rows(frame: Any, name: str, exchange: str) -> pd.DataFrame:
    """Return the rows of a venue in a frame of the context; without a frame, an empty one."""
    if frame is None:
        return _NO_ROWS
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"context[{name!r}] must be a frame, not {type(frame).__name__}")
    if "exchange" not in frame:
        return frame
    return frame[frame["exchange"] == exchange]


def _listed_contract(row: Mapping[str, Any]) -> Instrument:
    """Return the contract of a row of the table ``instruments``."""
    optional = ("quote", "contract_size", "strike", "expiry")
    stated = {name: row[name] for name in optional if not pd.isna(row.get(name))}
    item = Instrument(
        str(row["instrument_name"]),
        str(row["symbol"]),
        str(stated.get("quote", "")),
        inverse=bool(row["is_inverse"]),
        perpetual=bool(row["is_perpetual"]),
        active=bool(row["is_active"]),
    )
    if "contract_size" in stated:
        item = item._replace(size=float(stated["contract_size"]))
    if "strike" in stated:
        item = item._replace(strike=float(stated["strike"]))
    if "expiry" in stated:
        item = item._replace(expiry=times.us(pd.Timestamp(stated["expiry"])))
    return item


def _stated_intervals(frame: pd.DataFrame) -> dict[str, float]:
    """Return the intervals by the venue's names, or by symbols in a frame without names."""
    key = "instrument_name" if "instrument_name" in frame else "symbol"
    if key not in frame or "interval_hours" not in frame:
        return {}
    pairs = zip(frame[key].astype(str), frame["interval_hours"], strict=True)
    return {name: float(hours) for name, hours in pairs if pd.notna(hours)}


def _mark_prices(frame: pd.DataFrame) -> Iterator[tuple[str, int, float]]:
    """Yield symbol, time [µs] and price of the rows with a price."""
    if "time" in frame and "price_usd" in frame:
        stamps = times.naive_utc(frame["time"]).to_numpy().astype("datetime64[us]").astype("int64")
        for symbol, time, price in zip(frame["symbol"], stamps, frame["price_usd"], strict=True):
            if not math.isnan(price):
                yield str(symbol), int(time), float(price)


def named(name: str) -> Instrument:
    """Parse a contract's name by the dictionary of `derivdata.tables.contract`."""
    plain = contract(name)
    return Instrument(name, plain.symbol, plain.quote, perpetual=bool(plain.quote))


def _round_up_to_minute(us: int) -> int:
    """Round a time up to the minute, because a venue writes an expiry at 08:00 as 07:59:59."""
    return -(-us // _MINUTE_US) * _MINUTE_US


def step_name(text: str, number_unit: str = "m") -> str:
    """Return the library's name of a step such as ``60min``, ``1Hutc`` or ``3600`` (in `number_unit`)."""
    match = _STEP_TEXT.fullmatch(text)
    if not text or match is None:
        return "unstated"
    number, unit = match.groups()
    length = int(number or 1) * _UNITS_US.get(unit or number_unit, 0)
    return _RESOLUTION_OF_US.get(length, "unstated")


class _Guard:
    """Context manager of `Reading.row`: it suppresses and stores a `SchemaError` of its row."""

    __slots__ = ("_problems",)

    def __init__(self, problems: list[SchemaError]) -> None:
        self._problems = problems

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> bool:
        if isinstance(problem, SchemaError):
            self._problems.append(problem)
            return True
        return False


class Reading(wire.Body):
    """One body with its request and context.

    The request is the `place` (path or channel) with its parameters; `path_params` are those in ``{}`` of the
    path. `at` is the body's time of arrival [µs], None if unknown. `context` is from other responses.
    """

    def __init__(
        self,
        exchange: str,
        place: str,
        params: Mapping[str, str],
        body: bytes,
        *,
        at: int | None,
        context: Context,
        path_params: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(body, f"{exchange} {place}")
        self.exchange = exchange
        self.place = place
        self.params = params
        self.at = at
        self.context = context
        self.path_params = dict(path_params or {})
        self._instruments: dict[str, Instrument] = {}
        # Counts and errors of the rows that were checked, and of those that were decoded one by one.
        self._checked_rows = 0
        self._row_errors = list[SchemaError]()
        self._row_guard = _Guard(self._row_errors)
        self._row_decodings = 0
        self._decoding_errors = list[SchemaError]()

    def value(self, kind: Any, path: str, default: Any = msgspec.NODEFAULT) -> Any:
        """Decode the value at a path of names in the body."""
        return leaf(self.decode(placed(kind, path, default)))

    def rows(self, kind: type[T], path: str = "", *, or_null: bool = False) -> list[T]:
        """Decode the rows at a path of names in the body, or a single row.

        Some venues send null for a part of a history without rows. A row of another shape is omitted; see
        `finish`.
        """
        shape: Any = kind | many(kind)
        if or_null:
            shape = shape | None
        try:
            decoded = self.value(shape, path)
        except SchemaError as problem:
            return self._decode_each(kind, self.body, path, problem)
        if decoded is None:
            return []
        rows: list[T] = as_rows(decoded)
        self._require_figures(kind, rows)
        return rows

    def keyed_rows(self, kind: type[T], path: str = "") -> dict[str, T]:
        """Decode the rows at a path of names in the body by their keys; see `rows`."""
        try:
            decoded: dict[str, T] = self.value(keyed(kind), path)
        except SchemaError as problem:
            raws: dict[str, msgspec.Raw] = self.value(keyed(msgspec.Raw), path)
            decoded = {}
            for key, raw in raws.items():
                row = self._decode_row(kind, raw, f"{path}.{key}")
                if row is not None:
                    decoded[key] = row
            if not decoded:
                raise problem
        self._require_figures(kind, decoded.values())
        return decoded

    def _require_figures(self, kind: type[T], rows: Collection[T]) -> None:
        """Raise if no row has any of the optional fields: the rows belong to another response."""
        fields = getattr(kind, OPTIONAL, ())
        if not rows or not fields:
            return
        for name, venue_name, default in fields:
            # A value may equal the default, so its name in the body is enough.
            has_value = any(value != default for value in map(attrgetter(name), rows))
            if has_value or f'"{venue_name}"'.encode() in self.body:
                return
        names = ", ".join(venue_name for _, venue_name, _ in fields)
        self.fail(f"expected rows with some of {names}, got none: the response belongs to another request")

    def _decode_each(self, kind: type[T], body: bytes, path: str, problem: SchemaError) -> list[T]:
        """Decode the rows at a path one by one; raise `problem` if none has the shape."""
        try:
            raws = leaf(wire.decode(body, placed(many(msgspec.Raw), path), self.where))
        except SchemaError:
            raise problem from None
        decoded = []
        for place, raw in enumerate(raws):
            row = self._decode_row(kind, raw, f"{path}[{place}]")
            if row is not None:
                decoded.append(row)
        if not decoded:
            raise problem
        return decoded

    def _decode_row(self, kind: type[T], raw: msgspec.Raw, place: str) -> T | None:
        """Decode one row; return None and store the error for another shape."""
        self._row_decodings += 1
        try:
            return wire.decode(bytes(raw), kind, f"{self.where} {place}")
        except SchemaError as problem:
            self._decoding_errors.append(problem)
            return None

    def pushed_each(self, kind: Any, path: str = "", default: Any = msgspec.NODEFAULT) -> list[list[Any]]:
        """Decode the rows at a path in one WebSocket frame or an array of frames; a list for each frame.

        If `kind` is the structure of a row, a frame may have one or several, and rows of another shape are
        omitted.
        """
        is_row = path and isinstance(kind, type) and issubclass(kind, msgspec.Struct)
        shape = placed(kind | many(kind) if is_row else kind, path, default)
        try:
            frames = list(map(leaf, self.frames(shape)))
        except SchemaError as problem:
            if not is_row:
                raise
            frames = [
                self._decode_frame(kind, shape, bytes(raw), path, problem) for raw in self.frames(msgspec.Raw)
            ]
        return list(map(as_rows, frames))

    def _decode_frame(self, kind: Any, shape: Any, body: bytes, path: str, problem: SchemaError) -> Any:
        """Decode the rows of one frame together, or one by one if a row has another shape."""
        try:
            return leaf(wire.decode(body, shape, self.where))
        except SchemaError:
            return self._decode_each(kind, body, path, problem)

    def pushed(self, kind: Any, path: str = "", default: Any = msgspec.NODEFAULT) -> list[Any]:
        """Decode the rows at a path in all frames, as `pushed_each` does, into one list."""
        return list(chain.from_iterable(self.pushed_each(kind, path, default)))

    def rows_of(self, kind: type[T], path: str = "", *, is_pushed: bool) -> list[T]:
        """Decode the rows at a path in WebSocket frames if the body `is_pushed`, else in a response."""
        if is_pushed:
            return self.pushed(kind, path)
        return self.rows(kind, path)

    def row(self) -> _Guard:
        """Return a context in which a row that fails its checks is omitted; see `finish`."""
        self._checked_rows += 1
        return self._row_guard

    def finish(self, records: Records, *, is_pushed: bool = False) -> Records:
        """Check all rows together and return them, with the reasons for omitted rows.

        Raises `SchemaError` if more than half of the rows failed, which suggests another response; or if a
        body that is not `is_pushed` in frames has a contract or a time of a series twice.
        """
        for problems, count in (
            (self._decoding_errors, self._row_decodings),
            (self._row_errors, self._checked_rows),
        ):
            if 2 * len(problems) > count:
                raise problems[0]
        names = Counter(map(attrgetter("instrument.name"), records.states))
        names.update(map(attrgetter("name"), records.options))
        if not is_pushed and max(names.values(), default=1) > 1:
            repeated = next(name for name, count in names.items() if count > 1)
            self.fail(f"expected one row for each contract, got several for {repeated}")
        records.omitted += dict.fromkeys(map(str, (*self._decoding_errors, *self._row_errors)))
        if not is_pushed:
            self._require_one_row_per_time(records)
        for kind in _CHECKED_ROWS:
            self._omit_contradictions(records, kind)
        return records

    def _require_one_row_per_time(self, records: Records) -> None:
        """Raise for a history with two rows of one series and time with different values."""
        for kind, key_of in _SERIES_KEYS.items():
            rows: list[Any] = getattr(records, kind)
            if len({row.time for row in rows}) == len(rows):
                continue
            first: dict[Any, Any] = {}
            for row in rows:
                other = first.setdefault(key_of(row), row)
                if other != row:
                    time = np.datetime64(row.time, "us").astype("datetime64[s]")
                    name = row.instrument.name if hasattr(row, "instrument") else row.symbol
                    self.fail(f"{name} has two rows at {time}Z with different values")

    def _omit_contradictions(self, records: Records, kind: str) -> None:
        """Remove impossible values from the rows of a kind; raise if more than half of the rows have them.

        The unchanged rows are stored in `Records.withheld`.
        """
        rows = getattr(records, kind)
        faults = contradictions(rows)
        texts = []
        for place, names in faults.items():
            texts.append(f"{self.where}: impossible values: {value_text(rows[place], names)}")
        if 2 * len(faults) > len(rows):
            raise SchemaError(
                f"{texts[0]}; {len(faults)} of {len(rows)} rows have impossible values: the venue may "
                "use another unit"
            )
        if not faults:
            return
        sound = []
        for place, row in enumerate(rows):
            remaining = row
            if place in faults:
                remaining = without(row, faults[place])
            if remaining is not None:
                sound.append(remaining)
        setattr(records, kind, sound)
        records.withheld = records.withheld or Records()
        setattr(records.withheld, kind, [rows[place] for place in faults])
        records.omitted += texts

    def require_snapshot(self, kind: str) -> None:
        """Raise for an incomplete frame, because a delta contains only changed fields."""
        if kind != "snapshot":
            self.fail(f"expected a snapshot, got {kind!r}: such frames contain only changes")

    def requested(self, *names: str) -> str:
        """Return the first of these parameters in the request, otherwise the context's instrument.

        Raises `SchemaError` without one, because the body does not name its contract.
        """
        for name in names:
            value = self.path_params.get(name) or self.params.get(name)
            if value:
                return value
        if self.context.named:
            return self.context.named
        raise SchemaError(
            f"{self.where}: the body does not name the contract: pass it with the request "
            f"(?{names[0]}=...) or as context={{'instrument': ...}}"
        )

    def instrument(self, name: str, parse: Callable[[str], Instrument] = named) -> Instrument:
        """Return the contract with a name: from the instrument list, else parsed from the name by `parse`.

        The context's ``contract_size`` fills in a size that neither has.
        """
        item = self._instruments.get(name)
        if item is None:
            item = self.context.instruments.get(name) or parse(name)
            if item.size is None and self.context.contract_size is not None:
                item = item._replace(size=self.context.contract_size)
            self._instruments[name] = item
        return item

    def interval(self, item: Instrument) -> float | None:
        """Return the hours between payments from another response, None without one."""
        intervals = self.context.intervals
        return intervals.get(item.name) or intervals.get(item.symbol) or self.context.interval_hours

    def current_interval(
        self, item: Instrument, time: int, next_payment: int, default: float | None = None
    ) -> float | None:
        """Return the hours between payments from another response, or from the next payment.

        The other response (else `default`) may be older than a change of the interval. Venues pay at
        multiples of the interval since 00:00 UTC, so the next payment is at a multiple of it, and at most an
        interval away. If it is not, return the only usual interval (1, 2, 4 or 8 hours) that agrees, else the
        only valid one, else None.
        """
        hours = self.interval(item)
        if hours is None:
            hours = default

        def agrees(hours: float) -> bool:
            step = round(hours * _HOUR_US)
            return next_payment % step == 0 and next_payment - time <= step + _MINUTE_US

        if hours is None or agrees(hours):
            return hours
        usual = list(filter(agrees, _USUAL_HOURS))
        possible = usual or list(filter(agrees, VALID_HOURS))
        if len(possible) != 1:
            return None
        return possible[0]

    def mark(self, item: Instrument, time: int | None) -> float | None:
        """Return the mark price of the same minute from another response, else the context's ``mark_price``.

        `time` None is the body's time of arrival.
        """
        price = self.context.mark(item.symbol, self.at if time is None else time)
        if price is None:
            return self.context.mark_price
        return price

    def resolution(self, name: str, number_unit: str = "m") -> str:
        """Return the step that a parameter of the request names, as the library spells it.

        Parameters
        ----------
        name
            Parameter of the request.
        number_unit
            Unit of a step without one: ``m`` or ``s``.

        Returns
        -------
        str
            A name of `derivdata.support.times.RESOLUTIONS`, or ``unstated``.
        """
        return step_name(self.params.get(name, ""), number_unit)

    def has_ended(self, stamp: int, resolution: str) -> bool:
        """Return whether the step that begins at a time was complete when the body arrived."""
        step = times.RESOLUTIONS.get(resolution)
        return self.at is None or step is None or stamp + times.us(step) <= self.at

    def positioning(
        self,
        item: Instrument,
        stamp: int,
        row: LongShortRow[Any, Any],
        kind: str,
        resolution: str,
        *,
        ends: bool,
    ) -> list[Positioning]:
        """Return one row of long/short data; an empty list for unfinished periods and missing ratios.

        `stamp` is the time of the data. With `ends` it is the start of a period, and the row gets its end.
        """
        long = self.number(row.long)
        short = self.number(row.short)
        ratio = self.number(row.ratio)
        if long is not None and short == 0:  # a new contract does not have a ratio
            return []
        # Numbers or shares. Shares need not add up to 1, because some accounts hold both sides.
        if long is not None and short:
            whole = long + short
            if whole <= 1.5:
                whole = 1.0
            # Shares have four decimals, so small ones have few significant digits.
            tolerance = 0.02 + 1e-4 / max(min(long, short), 1e-4)
            self.require_close(long / short, ratio, tolerance, "the two sides and their ratio")
            ratio = long / short
            long = long / whole
            short = short / whole
        elif ratio is not None and ratio >= 0:
            long = ratio / (1 + ratio)
            short = 1 / (1 + ratio)
        else:
            self.fail("a row has neither two sides nor their ratio")
        if ends and not self.has_ended(stamp, resolution):
            return []
        time = stamp
        if ends and resolution != "unstated":
            time += times.us(times.RESOLUTIONS[resolution])
        return [Positioning(item, time, kind, long, short, ratio, resolution)]

    def taker_volumes(
        self, item: Instrument, start: int, bought: wire.NUMBER, sold: wire.NUMBER, resolution: str
    ) -> list[TakerVolume]:
        """Return taker buys and sells of a completed step; linear contracts are valued at its mark."""
        mark = None if item.inverse else self.mark(item, start)
        buy = item.usd(self.required(bought), mark)
        sell = item.usd(self.required(sold), mark)
        if not self.has_ended(start, resolution):
            return []
        return [TakerVolume(item, start, buy, sell, resolution)]

    def word(self, value: str, meanings: Mapping[str, T]) -> T:
        """Translate a venue's word; raise for unknown words."""
        if value not in meanings:
            self.fail(f"expected one of {', '.join(map(repr, meanings))}, got {value!r}")
        return meanings[value]

    def payments(
        self,
        rows: Iterable[tuple[str, float | str, wire.NUMBER, Any]],
        parse: Callable[[str], Instrument],
        period_h: float | None = None,
        *,
        unit: str = "ms",
        per_hour: float = 1.0,
    ) -> Records:
        """Return payments from rows of contract, time, rate and interval (None where it is not stated).

        A rate is for `period_h` hours, by default for the interval. `per_hour` converts the unit of the
        interval: 60 for minutes.
        """
        names, times, rates, hours = [*zip(*rows, strict=True)] or [()] * 4
        return self.payment_columns(names, times, rates, hours, parse, period_h, unit=unit, per_hour=per_hour)

    def payment_columns(
        self,
        names: Sequence[str],
        stamps: Sequence[wire.Stamp],
        figures: Sequence[wire.NUMBER],
        steps: Sequence[Any],
        parse: Callable[[str], Instrument],
        period_h: float | None = None,
        *,
        unit: str = "ms",
        per_hour: float = 1.0,
    ) -> Records:
        """Return payments from columns of contracts, times, rates and intervals; see `payments`.

        Histories are long, and columns take half the time of rows.
        """
        try:
            times = self.timestamps(stamps, unit)
            rates = self.numbers(figures)
            items = {name: self.instrument(name, parse) for name in dict.fromkeys(names)}
            hours = {step: self._stated_hours(step, per_hour) for step in dict.fromkeys(steps)}
        except SchemaError:
            rows = zip(names, stamps, figures, steps, strict=True)
            return self._payments_by_row(rows, parse, period_h, unit, per_hour)
        item_column = map(items.__getitem__, names)
        hours_column = map(hours.__getitem__, steps)
        payments = from_columns(Payment, item_column, times, rates, repeat(period_h), hours_column)
        return Records(payments=payments, times=times)

    def _payments_by_row(
        self,
        rows: Iterable[tuple[str, float | str, wire.NUMBER, Any]],
        parse: Callable[[str], Instrument],
        period_h: float | None,
        unit: str,
        per_hour: float,
    ) -> Records:
        """Return payments as `payment_columns` does, without the rows that fail."""
        records = Records()
        to_us = getattr(self, unit)
        for name, time, rate, stated in rows:
            with self.row():
                item = self.instrument(name, parse)
                hours = self._stated_hours(stated, per_hour)
                records.add_past(Payment(item, to_us(time), self.required(rate), period_h, hours))
        return records

    def _stated_hours(self, stated: Any, per_hour: float) -> float | None:
        """Return the interval [h] of a payment's row; None if it is missing or 0.

        BitMEX writes an interval as its end, counted from 2000-01-01: ``2000-01-01T08:00:00.000Z`` is 8
        hours.
        """
        if stated is None or stated == "":
            return None
        if isinstance(stated, str) and "T" in stated:
            end = _HOURS_AS_TIME.fullmatch(stated)
            number = np.nan if end is None else 24.0 * (int(end[1]) - 1) + int(end[2])
        else:
            number = self.required(stated)
        hours = number / per_hour
        if number and hours not in VALID_HOURS:
            valid = ", ".join(f"{valid:g}" for valid in VALID_HOURS)
            self.fail(f"the interval of a payment is {stated}: expected one of {valid} hours")
        return hours or None

    def prices(
        self, rows: Iterable[tuple[float | str, wire.NUMBER]], item: Instrument, kind: str, resolution: str
    ) -> Records:
        """Return prices of one contract from rows of time [ms] and price."""
        prices = []
        for time, price in rows:
            with self.row():
                prices.append(Price(item, self.ms(time), kind, self.required(price), resolution))
        stamps = [price.time for price in prices]
        self._require_steps(stamps, item, resolution)
        return Records(prices=prices, times=stamps)

    def _require_steps(self, starts: list[int], item: Instrument, resolution: str) -> None:
        """Raise if the smallest gap between bars is not a multiple of the requested step."""
        step = times.RESOLUTIONS.get(resolution)
        if step is None or len(starts) < _MIN_BARS:
            return
        smallest_gap = int(np.min(np.diff(np.sort(starts))))
        if smallest_gap % times.us(step):
            minutes = smallest_gap / _MINUTE_US
            self.fail(
                f"{item.name}: expected bars {resolution} apart, got two {minutes:g} min apart: "
                "name the step that was requested"
            )

    def opening(self, opened: wire.NUMBER, high: wire.NUMBER, low: wire.NUMBER) -> float:
        """Return the open of a candle; raise if it is outside the candle's low and high."""
        price = self.required(opened)
        highest = self.required(high)
        lowest = self.required(low)
        if not lowest / _CANDLE_TOLERANCE <= price <= highest * _CANDLE_TOLERANCE:
            self.fail(
                f"a candle opens at {price:g}, expected from its low {lowest:g} to its high {highest:g}"
            )
        return price

    def state(
        self,
        item: Instrument,
        row: Figures[Any, Any],
        hours: float | None = None,
        *,
        time: int | None = None,
        unit: str = "ms",
        **other: Any,
    ) -> State:
        """Return the state of a contract from a row.

        `hours` is the interval, `time` the response's time for rows without one, `unit` the format of times.
        Fields of the state in `other` take precedence over the row.
        """
        number = self.number
        to_us = getattr(self, unit)
        mark = number(row.mark)
        last = number(row.last)
        price = number(row.price)
        volume = number(row.volume)
        contracts = number(row.contracts)
        opened = number(row.opened)
        change = self.percent(row.change)
        stamp = time if row.time is None else to_us(row.time)
        # 1. Compute the 24-hour change [%]: stated as a fraction, from the earlier price, or stated in
        # percent.
        if change is None:
            change = change_pct(last, opened)
        if change is None:
            percent = row.change_pct
            if isinstance(percent, str):
                percent = percent.removesuffix("%")
            change = number(percent)
        # 2. Compute open interest: contracts valued at the mark, or the venue's own value.
        if contracts is None:
            oi_usd = number(row.oi_usd)
            oi_coins = number(row.coins)
        else:
            value_at = mark or price
            if value_at is None:
                value_at = self.mark(item, stamp)
            oi_usd = item.usd(contracts, value_at)
            oi_coins = item.coins(contracts, value_at)
        # 3. Compute the volume: coins valued at the last price, or the venue's own value.
        volume_usd = number(row.volume_usd) if volume is None or last is None else volume * last
        if row.expiry not in _WITHOUT_EXPIRY:
            item = item._replace(perpetual=False, expiry=_round_up_to_minute(to_us(row.expiry)))
        next_payment = to_us(row.next_payment) if row.next_payment else None
        state = State(
            item,
            stamp,
            number(row.rate),
            hours,
            hours,
            mark=mark,
            index_price=number(row.index_price),
            last=last,
            price=price,
            oi_usd=oi_usd,
            oi_coins=oi_coins,
            volume_usd=volume_usd,
            change_pct=change,
            next_payment=next_payment,
        )
        return state._replace(**other) if other else state

    def contract(self, row: ContractRow[Any, Any, Any], *, unit: str = "ms", **other: Any) -> Instrument:
        """Return the contract of a row of a list; fields in `other` take precedence over the row."""
        expiry = self.day(row.expiry, unit)
        item = Instrument(
            row.name,
            row.symbol,
            row.quote or "",
            1.0 if row.size is None else self.number(row.size),
            expiry=if_stated(_round_up_to_minute, expiry),
            listed=self.day(row.listed, unit),
            tick=self.number(row.tick),
            step=self.number(row.step),
        )._replace(**other)
        if not item.symbol:
            self.fail(f"{item.name} has no base coin")
        return item

    def day(self, value: Any, unit: str = "ms") -> int | None:
        """Return a time of a list [µs], or None for never: 0, -1, and times from 1 January 2100 on.

        Text may be ISO 8601, with or without the zone UTC, or a day such as 20201021.
        """
        if isinstance(value, str) and (value[4:5] == "-" or len(value) == 8):
            if value >= _NEVER_YEAR:
                return None
            text = value.removesuffix("Z")
            if "T" not in text:
                text = f"{text}T00"
            return self.iso(f"{text}Z")
        stamp = self.number(value) or 0.0
        if unit == "seconds":
            stamp *= 1000
        if not _FIRST_MS <= stamp < _NEVER_MS:
            return None
        return self.ms(stamp)

    def quoted(
        self, row: Greeks[Any, Any], *, name: str = "", in_coin: bool = False, percent: float = 1.0
    ) -> Option:
        """Return an option of a row; a volatility, bid, ask or underlying of 0 or -1 is missing.

        `name` replaces the row's name, prices are coins if `in_coin`, and a volatility is divided by
        `percent`.
        """
        number = self.number
        quoted_at = if_stated(self.ms, row.time)
        iv = number(row.iv)
        quotes = Quotes(
            in_coin,
            number(row.bid) or None,
            number(row.ask) or None,
            number(row.mark),
            number(row.index_price),
            number(row.volume),
        )
        return self.option(
            name or row.name,
            self.at if quoted_at is None else quoted_at,
            quoted_at=quoted_at,
            iv=iv / percent if iv and iv > 0 else None,
            delta=number(row.delta),
            gamma=number(row.gamma),
            vega=number(row.vega),
            theta=number(row.theta),
            rho=number(row.rho),
            interest_rate=number(row.interest_rate),
            open_interest=number(row.open_interest),
            underlying=number(row.underlying) or None,
            quotes=None if quotes == Quotes(in_coin) else quotes,
        )

    def option(self, name: str, time: int | None, **figures: Any) -> Option:
        """Return the option of a name such as BTC-231229-40000-C, with its figures.

        Venues add the quote currency to the base (``BTC_USDC``), after it (``BTC-USD``) or at the end
        (``-USDT``), and write the point of a strike as ``d`` or ``_``.
        """
        words = name.removesuffix("-USDT").split("-")
        if len(words) == 5:
            del words[1]
        if len(words) != 4 or words[3] not in _OPTION_SIDES:
            self.fail(f"expected the name of an option, got {name!r}")
        strike = self.required(words[2].replace("d", ".").replace("_", "."))
        expiry = wire.expiry_of(words[1], self.where)
        symbol = words[0].partition("_")[0]
        return Option(name, symbol, time, expiry, strike, _OPTION_SIDES[words[3]], **figures)

    def levels(
        self, item: Instrument, rows: Iterable[Sequence[wire.NUMBER]]
    ) -> list[tuple[float, float | None]]:
        """Return (price, coins) of one side of a book, equal prices added up.

        Coins are None if the contract size is unknown.
        """
        coins_at: dict[float, float | None] = {}
        for row in rows:
            price = self.required(row[0])
            size = self.required(row[1])
            if price <= 0 or size < 0:
                self.fail(f"a level of the book has an impossible price {price:g} or size {size:g}")
            coins = item.coins(size, price)
            before = coins_at.get(price, 0.0)
            coins_at[price] = None if coins is None or before is None else before + coins
        return list(coins_at.items())

    def book(
        self,
        item: Instrument,
        time: int | None,
        bids: Iterable[Sequence[wire.NUMBER] | Level[Any]],
        asks: Iterable[Sequence[wire.NUMBER] | Level[Any]],
        *,
        of_orders: bool = False,
    ) -> OrderBook:
        """Return a book from rows of price and size, with the best level of each side first.

        Sizes of equal prices are added up if the rows are `of_orders`. Raises `SchemaError` if some levels
        are text and others numbers, if a level is duplicated, or if the best bid is not below the best ask,
        so the sides are wrong.
        """
        bid_rows = list(map(_level_row, bids))
        ask_rows = list(map(_level_row, asks))
        kinds = {(isinstance(row[0], str), isinstance(row[1], str)) for row in (*bid_rows, *ask_rows)}
        if len(kinds) > 1:
            self.fail("some levels of the book are text, others are numbers")
        bid = sorted(self.levels(item, bid_rows), key=lambda level: -level[0])
        ask = sorted(self.levels(item, ask_rows), key=lambda level: level[0])
        if not of_orders and len(bid) + len(ask) < len(bid_rows) + len(ask_rows):
            self.fail("two levels of one side of the book have the same price")
        if bid and ask and bid[0][0] >= ask[0][0]:
            self.fail(f"the best bid {bid[0][0]} is not below the best ask {ask[0][0]}")
        return OrderBook(item, time, bid, ask)


def _level_row(row: Sequence[wire.NUMBER] | Level[Any]) -> Sequence[wire.NUMBER]:
    """Return a level of a book as a row of price and size."""
    if isinstance(row, msgspec.Struct):
        return astuple(row)
    return row
