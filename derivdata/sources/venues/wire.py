"""Strict decoding of venues' bodies: numbers, times, rows and errors.

The fields of rows have the library's names. Each venue maps them to its own names with `spelled`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any, ClassVar, Generic, NoReturn, Protocol, TypeVar, overload

import msgspec
import numpy as np
import pandas as pd

from derivdata.errors import SchemaError, VenueError
from derivdata.support import times
from derivdata.support.forking import DECODERS
from derivdata.tables.contracts import expiry, iso_of

T = TypeVar("T")

NUMBER = str | float | None
"""A number that may be sent as text, or be missing."""

Stamp = int | float | str
"""A time, as a number or as text: venues change between the two, and some use both."""

# Earliest and latest plausible times: 2014 and 2100.
_FIRST_US, _LAST_US = 1_388_534_400_000_000, 4_102_444_800_000_000
_FIRST_MS = 1e11  # larger than plausible seconds, smaller than plausible milliseconds
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# Lengths of ISO times without the zone, with seconds, milliseconds or microseconds.
_LENGTHS_OF_ISO = {19, 23, 26}


class Wire(msgspec.Struct, gc=False):
    """Base of the shapes of bodies: a field without default is required, unknown fields are ignored."""


class Data(Wire, Generic[T]):
    """Envelope ``{"data": ...}`` of a response; the fields next to it are the venue's own codes."""

    data: T


@overload
def decode(body: bytes, kind: type[T], where: str) -> T: ...
@overload
def decode(body: bytes, kind: Any, where: str) -> Any: ...
def decode(body: bytes, kind: Any, where: str) -> Any:
    """Decode a body; `where` names it in the error.

    Raises `SchemaError` if the body is not JSON or has another shape; the message has the place in the body.
    """
    try:
        return DECODERS[kind].decode(body)
    except msgspec.ValidationError as problem:
        raise SchemaError(f"{where}: the body has an unexpected form: {problem}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise SchemaError(f"{where}: the body is not complete JSON: {problem}") from None


class Body:
    """A body and its name in messages: decoding, and checked numbers and times."""

    def __init__(self, body: bytes, where: str) -> None:
        self.body = body
        self.where = where

    @overload
    def decode(self, kind: type[T]) -> T: ...
    @overload
    def decode(self, kind: Any) -> Any: ...
    def decode(self, kind: Any) -> Any:
        """Decode the body; see `wire.decode`."""
        return decode(self.body, kind, self.where)

    def frames(self, kind: type[T]) -> list[T]:
        """Decode one WebSocket frame, or an array of them as recordings keep them."""
        if self.body.lstrip()[:1] == b"[":
            frames: list[T] = self.decode(list[kind])  # type: ignore[valid-type]
            return frames
        return [self.decode(kind)]

    def fail(self, why: str) -> NoReturn:
        """Raise a `SchemaError` that names the body."""
        raise SchemaError(f"{self.where}: {why}")

    def number(self, value: NUMBER) -> float | None:
        """Return a number from text or a number; None, empty text and N/A are missing.

        Raises `SchemaError` for any other value that is not a finite number.
        """
        if value in (None, "", "N/A"):
            return None
        try:
            result = float(plain_digits(value))
        except (TypeError, ValueError):
            self.fail(f"{value!r} is not a number")
        if not math.isfinite(result):
            self.fail(f"{value!r} is not a finite number")
        return result

    def percent(self, fraction: NUMBER) -> float | None:
        """Convert a fraction to percent; None if it is missing."""
        value = self.number(fraction)
        return None if value is None else value * 100

    def required(self, value: NUMBER) -> float:
        """Return a required number."""
        try:
            result = float(plain_digits(value))  # the usual case first, because histories are long
        except (TypeError, ValueError):
            result = math.nan
        if math.isfinite(result):
            return result
        self.number(value)  # raises the error for any other value
        return self.fail("a number is missing")

    def numbers(self, values: Sequence[NUMBER]) -> list[float]:
        """Return many required numbers."""
        if _are_plain(values):
            try:
                result = list(map(float, values))  # type: ignore[arg-type]
            except (TypeError, ValueError):
                return list(map(self.required, values))
            if all(map(math.isfinite, result)):
                return result
        return list(map(self.required, values))

    def timestamps(self, values: Sequence[Stamp], unit: str) -> list[int]:
        """Return microseconds from many times, in the format of the method `unit`.

        Histories are long, so times of one type are converted together. Mixed types and other formats are
        converted one by one by the method, which also raises the error for an implausible time.
        """
        kinds = {*map(type, values)}
        if unit == "seconds_or_ms" and kinds == {int}:
            are_ms = {value >= _FIRST_MS for value in values}  # type: ignore[operator]
            if len(are_ms) == 1:
                unit = "ms" if are_ms == {True} else "seconds"
        us: list[int] = []
        if unit == "seconds" and kinds == {int}:
            us = [1_000_000 * value for value in values]  # type: ignore[misc]
        elif unit == "ms" and (kinds == {int} or (kinds == {str} and _are_digits(values))):  # type: ignore[arg-type]
            us = [1000 * int(value) for value in values]
        elif unit == "iso" and kinds == {str}:
            us = _iso_timestamps(values)  # type: ignore[arg-type]
        if us and min(us) >= _FIRST_US and max(us) < _LAST_US:
            return us
        return list(map(getattr(self, unit), values))

    def _plausible(self, us: int, value: object) -> int:
        """Raise for times before 2014 and after 2100, as for seconds read as milliseconds."""
        if not _FIRST_US <= us < _LAST_US:
            self.fail(f"expected a time from 2014 to 2100, got {value!r}: its unit may differ")
        return us

    def ms(self, value: Stamp) -> int:
        """Return microseconds from milliseconds, or from ISO 8601 text."""
        try:
            us = int(plain_digits(value)) * 1000
        except (TypeError, ValueError):
            if isinstance(value, str) and value[4:5] == "-":
                return self.iso(value)
            self.fail(f"expected a time in milliseconds, got {value!r}")
        return us if _FIRST_US <= us < _LAST_US else self._plausible(us, value)

    def ns(self, value: float | str) -> int:
        """Return microseconds from nanoseconds, which venues write as text."""
        try:
            us = int(value) // 1000
        except (TypeError, ValueError):
            self.fail(f"expected a time in nanoseconds, got {value!r}")
        return self._plausible(us, value)

    def seconds(self, value: Stamp) -> int:
        """Return microseconds from seconds, which may have a fraction (kept to the millisecond)."""
        return self._plausible(round(self.required(value) * 1000) * 1000, value)

    def seconds_or_ms(self, value: Stamp) -> int:
        """Return microseconds from seconds or milliseconds, distinguished by their size."""
        return self.ms(value) if self.required(value) >= _FIRST_MS else self.seconds(value)

    def iso(self, value: Stamp) -> int:
        """Return microseconds from ISO 8601 text, or from milliseconds."""
        text = str(value)
        if text.isdecimal():
            return self.ms(text)
        try:
            stamp = datetime.fromisoformat(text)
        except ValueError:
            self.fail(f"expected a time in ISO 8601, got {value!r}")
        if stamp.tzinfo is None:
            self.fail(f"expected a time with a zone, got {value!r}")
        return self._plausible((stamp - _EPOCH) // _MICROSECOND, value)

    def require_close(
        self,
        first: float | None,
        second: float | None,
        tolerance: float,
        what: str,
        *,
        step: float = 0.0,
    ) -> None:
        """Raise for two values of one quantity that differ by more than a relative `tolerance`.

        `step` is the last digit to which the venue rounds or truncates a value, and a difference up to it is
        accepted. Missing values and 0 are not compared.
        """
        if not first or not second:
            return
        # A difference of exactly one step may be slightly larger as a float.
        allowed = max(tolerance * max(abs(first), abs(second)), step * (1 + 1e-6))
        if abs(first - second) > allowed:
            self.fail(f"{what} differ ({first!r} and {second!r}): one of them may be in another unit")


def if_stated(convert: Callable[[Any], T], value: Any) -> T | None:
    """Return the converted value, or None for None."""
    if value is None:
        return None
    return convert(value)


def as_rows(value: list[T] | T) -> list[T]:
    """Return the rows of a field that may be a single row instead of a list."""
    if isinstance(value, list):
        return value
    return [value]


def change_pct(price: float | None, before: float | None) -> float | None:
    """Return the change of a price in percent, None if one of the two is missing or 0."""
    if not price or not before:
        return None
    return (price / before - 1) * 100


def one_side(both: float | None) -> float | None:
    """Return half of a value that counts both sides of each position or trade."""
    if both is None:
        return None
    return both / 2


def step_of(decimals: int | None) -> float | None:
    """Return the step of a price or size with a number of decimals, which is negative for whole tens."""
    if decimals is None:
        return None
    return 10.0**-decimals


def plain_digits(value: Any) -> Any:
    """Return a number or its text; raise for text that only Python accepts as a number, such as ``1_0``."""
    if isinstance(value, str) and ("_" in value or not value.isascii()):
        raise ValueError(f"{value!r} is not a number in digits")
    return value


def _are_plain(values: Sequence[Any]) -> bool:
    """Return whether all text among values is ASCII without ``_``, which Python accepts in numbers."""
    text = "".join([value for value in values if type(value) is str])
    return text.isascii() and "_" not in text


def _are_digits(values: Sequence[str]) -> bool:
    return _are_plain(values) and all(map(str.isdecimal, values))


def _iso_timestamps(values: Sequence[str]) -> list[int]:
    """Return microseconds from ISO 8601 text with a zone; empty if some text has another format."""
    texts = [value[:-1] for value in values if value[-1:] == "Z"]
    try:
        if len(texts) == len(values) and {*map(len, texts)} <= _LENGTHS_OF_ISO:
            us: list[int] = np.array(texts, dtype="datetime64[us]").astype(np.int64).tolist()
            return us
        read = list(map(datetime.fromisoformat, values))
    except ValueError:
        return []
    if any(stamp.tzinfo is None for stamp in read):
        return []
    # A float of seconds has a resolution of a quarter of a microsecond until 2100.
    return [round(stamp.timestamp() * 1e6) for stamp in read]


def stamps(times: Sequence[int | None], at: int | None) -> pd.DatetimeIndex:
    """Return the times [µs] of rows as a column; rows without one get the time of arrival.

    Raises `SchemaError`: there is no time of arrival either.
    """
    filled = [at if time is None else time for time in times]
    if any(time is None for time in filled):
        raise SchemaError("the body has no time: pass at=, its time of arrival")
    return pd.DatetimeIndex(np.array(filled, dtype="int64").astype("datetime64[us]"), tz="UTC")


def expiry_of(text: str, where: str) -> int:
    """Return the expiry [µs] of a date such as 28JUN24, 240329 or 20261225: 08:00 UTC."""
    try:
        return times.us(expiry(text))
    except ValueError:
        raise SchemaError(f"{where}: {text!r} is not an expiry date") from None


def expiry_in(name: str) -> int | None:
    """Return the expiry in a name such as BTC-27DEC24 or BTCUSDT_251226, None where it has none."""
    end = re.split(r"[-_]", name)[-1]
    iso = iso_of(end)
    return expiry_of(end, name) if iso is not None and iso[1] else None


N = TypeVar("N")  # type of a venue's numbers: str, float or both
S = TypeVar("S")  # type of times


class Figures(Wire, Generic[N, S]):
    """Current values of one contract in a row."""

    name: str
    time: S
    rate: N | None = None
    hours: N | None = None  # time between payments, in the venue's unit
    plain_hours: float | None = None  # the same as a number, if other values are text
    next_payment: S | None = None
    mark: N | None = None
    index_price: N | None = None
    last: N | None = None
    price: N | None = None  # substitute for the mark, if the venue has none
    opened: N | None = None  # price 24 hours ago
    contracts: N | None = None  # open interest
    oi_usd: N | None = None
    coins: N | None = None  # open interest
    volume_usd: N | None = None
    volume: N | None = None  # volume in coins, valued at the last price
    change: N | None = None  # 24-hour change as a fraction
    change_pct: N | None = None
    expiry: S | None = None  # expiry of dated contracts in a list with perpetuals


class Greeks(Wire, Generic[N, S]):
    """Current values of one option in a row."""

    name: str
    time: S
    iv: N | None = None
    delta: N | None = None
    gamma: N | None = None
    vega: N | None = None
    theta: N | None = None
    rho: N | None = None
    open_interest: N | None = None
    underlying: N | None = None
    bid: N | None = None
    ask: N | None = None
    mark: N | None = None
    index_price: N | None = None
    volume: N | None = None
    interest_rate: N | None = None


class PaymentRow(Wire, Generic[N, S]):
    """A funding payment."""

    time: S
    rate: N
    name: str
    hours: N | S | None = None  # time between payments, in the venue's unit


class LiquidationRow(Wire, Generic[N, S]):
    """A liquidation, or a trade that may be one."""

    name: str
    time: S
    side: str
    amount: N
    price: N
    kind: str  # kind of a trade
    id: str = ""
    number: int | None = None  # number of a trade without an id


class TradeRow(Wire, Generic[N, S, T]):
    """A trade of an option; ids and sides are text or numbers."""

    name: str
    time: S
    id: T
    side: T
    price: N
    amount: N
    iv: N | None = None
    index_price: N | None = None
    underlying: N | None = None
    block: T | None = None  # id of a block trade, or of the package of which it is a leg
    combo: T | None = None


class LongShortRow(Wire, Generic[N, S]):
    """Long and short at a time or in a period: shares, numbers, or only their ratio."""

    time: S
    name: str
    long: N | None = None
    short: N | None = None
    ratio: N | None = None


class Level(Wire, Generic[N]):
    """One level of a book."""

    price: N
    size: N


class Book(Wire, Generic[T, S]):
    """A book with levels of one kind, rows of price and size or structures."""

    bids: list[T]
    asks: list[T]
    time: S
    name: str


class ContractRow(Wire, Generic[N, S, T]):
    """A contract in a list; its status is text, a number or a flag."""

    name: str
    status: T
    kind: str
    symbol: str = ""
    quote: str = ""
    stage: str = ""  # marks a contract that is not fully open for trading
    shown: bool = True
    size: N | None = None
    hours: N | None = None
    listed: S | None = None
    expiry: S | None = None
    tick: N | None = None
    step: N | None = None


class Part(Wire):
    """Base of the structs of `placed`, which have one field, ``value``."""


_STAMPS = ("time", "next_payment", "expiry", "listed")
_WIDE: dict[Any, Any] = {
    **dict.fromkeys((int, str, float, int | str), Stamp),
    **dict.fromkeys((int | None, str | None, float | None, int | str | None), Stamp | None),
}
"""Types of times, which are read from text and numbers for every venue."""


OPTIONAL = "__optional__"
"""Attribute of a struct of `spelled`: the names in the library and at the venue, and the default, of optional
fields.

A struct has it if its required fields, such as a name and a time, occur in rows of most responses.
"""
_UNTELLING = ("name", "time", "status", "kind")


def spelled(shape: type[T], *, required: Sequence[str] = (), **names: str) -> type[T]:
    """Return a struct with the venue's field names; fields that the venue lacks are None.

    A name such as ``filters.price.tickSize`` is a path, and one field of the venue may fill several of the
    struct. A row must have the `required` fields, which may be null: they distinguish it from the rows of
    other responses of the venue.
    """
    decoded: list[Any] = []  # (name, type) of required fields, and (name, type, default) of optional ones
    computed: dict[str, Any] = {}  # constants, and properties that read a part of a decoded field
    venue_names: dict[str, str] = {}  # by the name of the decoded field
    for field in msgspec.structs.fields(shape):  # type: ignore[arg-type]
        venue_name, _, path = names.get(field.name, "").partition(".")
        kind: Any = field.type
        if field.name in _STAMPS:
            kind = _WIDE.get(kind, kind)
        if not field.required:
            kind = kind | None  # venues send null for missing values
        if not venue_name:
            computed[field.name] = None if field.required else field.default
            continue
        source = next((name for name, other in venue_names.items() if other == venue_name), None)
        if source is None and not path:
            venue_names[field.name] = venue_name
            is_required = field.required or field.name in required
            decoded.append((field.name, kind) if is_required else (field.name, kind, field.default))
            continue
        # The field is a part of a venue's field, or has the same one as an earlier field.
        if source is None:
            source = f"_{venue_name}"
            venue_names[source] = venue_name
            decoded.append((source, Any, None))
        computed[field.name] = property(partial(_at, kind, source, path))
    optional = [field for field in decoded if len(field) == 3]
    if all(len(field) == 3 or field[0] in _UNTELLING for field in decoded):
        computed[OPTIONAL] = tuple((name, venue_names[name], default) for name, _, default in optional)
    row: Any = msgspec.defstruct(
        "Row", sorted(decoded, key=len), bases=(Wire,), namespace=computed, rename=venue_names, gc=False
    )
    return row  # type: ignore[no-any-return]


def _at(kind: Any, ours: str, path: str, row: Any) -> Any:
    """Return the value at a path of a field; in a list of objects a name is one of an object's values."""
    value = getattr(row, ours)
    for name in path.split(".") if path else ():
        if isinstance(value, list):
            value = next((item for item in value if isinstance(item, dict) and name in item.values()), None)
        else:
            value = value.get(name) if isinstance(value, dict) else None
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as problem:
        raise SchemaError(f"the body has an unexpected form: {problem} - at {path}") from None


def many(kind: Any) -> Any:
    """Return the shape of a list of rows."""
    return list[kind]


def keyed(kind: Any) -> Any:
    """Return the shape of rows by their keys."""
    return dict[str, kind]


def leaf(value: Any) -> Any:
    """Return the value at the end of a path whose struct is `placed`."""
    while isinstance(value, Part):
        value = value.value  # type: ignore[attr-defined]
    return value


@cache
def placed(kind: Any, path: str, default: Any = msgspec.NODEFAULT) -> Any:
    """Return the shape of a body with a value of `kind` at a path of names such as ``result.list``."""
    for name in reversed(path.split(".")) if path else ():
        kind = msgspec.defstruct(
            "Body", [("value", kind, default)], bases=(Part,), rename={"value": name}, gc=False
        )
    return kind


Fault = tuple[str | int | None, str] | None
"""Code and message of an error; None without one."""


class _MayFail(Protocol):
    @property
    def fault(self) -> Fault: ...


class Refused(Wire):
    """An error as several venues write it."""

    code: int | str | None = None
    message: str | None = None


class RefusedBody(Wire):
    """A body that is ``{"error": {"code": ..., "message": ...}}`` for errors."""

    error: Refused | None = None

    @property
    def fault(self) -> Fault:
        """Return code and message of the error, or None for a body without one."""
        return None if self.error is None else (self.error.code, self.error.message or "")


class CodedBody(Wire):
    """A body whose ``code`` states whether it is an error.

    A venue with another `success` code has a subclass.
    """

    success: ClassVar[str] = "0"
    code: str | int | None = None
    msg: str | None = None
    message: str | None = None

    @property
    def fault(self) -> Fault:
        """Return code and message of the error, or None for a body without one."""
        if self.code is None or str(self.code) == self.success:
            return None
        return str(self.code), self.msg or self.message or ""


class WordedBody(Wire):
    """A body whose ``code`` is a word if it is an error."""

    code: str | None = None
    message: str | None = None

    @property
    def fault(self) -> Fault:
        """Return code and message of the error, or None for a body without one."""
        return None if self.code is None else (self.code, self.message or "")


class NumberedBody(RefusedBody):
    """A body whose ``code`` is a number; a venue with another `success` has a subclass.

    Samples of Phemex have it as text too (ccxt 4.5.90, phemex.py fetch_funding_rate_history).
    """

    success: ClassVar[int] = 0
    code: int | str | None = None
    msg: str | None = None
    message: str | None = None

    @property
    def fault(self) -> Fault:
        """Return code and message of the error, or None for a body without one."""
        code = int(self.code) if isinstance(self.code, str) and self.code.isdecimal() else self.code
        if code in (None, self.success):
            return super().fault
        return code, self.msg or self.message or ""


class _Event(Wire):
    """Fields of a frame that may name an error, and those with its text."""

    channel: object = None
    event: object = None
    type: object = None
    message: object = None
    msg: object = None
    data: object = None
    content: object = None
    error: object = None
    result: object = None  # the confirmed channels of Deribit, which omits unknown ones


_REJECTIONS = ("error", "rs.error", "alert")
"""Words of frames that reject a message: of Hyperliquid, dYdX and others, of MEXC, and of Kraken."""


def refuse_event(reading: Body) -> None:
    """Raise a `VenueError` for a frame that rejects a message, such as an unknown subscription."""
    if reading.body.lstrip()[:1] != b"{":
        return
    event = reading.decode(_Event)
    # Deribit confirms the channels that it knows: an empty list rejects all of them.
    is_error = isinstance(event.error, dict) or event.result == []
    if not is_error and not any(word in _REJECTIONS for word in (event.channel, event.event, event.type)):
        return
    texts = (event.error, event.content, event.message, event.msg, event.data)
    text = next((text for text in texts if text), "no subscription was confirmed")
    code: object = "rejected"
    if isinstance(text, dict):
        code, text = text.get("code", code), text.get("message") or text.get("msg") or ""
    reason = "limit" if "too many" in str(text).lower() else "refused"
    raise VenueError(reading.where, str(text) or "a message was rejected", code=str(code), reason=reason)


def refusal(kind: type[_MayFail], reason_of: Callable[[Any], str | None]) -> Callable[[Body], None]:
    """Return a function that raises a `VenueError` for a body that is an error, also with HTTP 200.

    `kind` is the shape of an error. Its fields are optional, so any object of the venue can be decoded.
    `reason_of` returns `VenueError.reason` by code, or None for a rejected request.
    """

    def refuse(reading: Body) -> None:
        fault = reading.decode(kind).fault if reading.body.lstrip()[:1] == b"{" else None
        if fault is not None:
            code, message = fault
            reason = reason_of(code) or "refused"
            raise VenueError(reading.where, message or "refused", code=code, reason=reason)

    return refuse
