"""Shapes of rows and of errors that most venues send.

The fields of rows have our names; a venue says how it spells them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import msgspec

from derivdata.errors import SchemaError, VenueError
from derivdata.sources.venues.wire import Body, Stamp, Wire

T = TypeVar("T")
N = TypeVar("N")  # how a venue writes numbers: str, float, or either
S = TypeVar("S")  # how it writes instants


class Figures(Wire, Generic[N, S]):
    """What a row says of one contract now."""

    name: str
    time: S
    rate: N | None = None
    hours: N | None = None  # between payments, in the venue's unit of time
    plain_hours: float | None = None  # the same, a number next to figures that are text
    next_payment: S | None = None
    mark: N | None = None
    index_price: N | None = None
    last: N | None = None
    price: N | None = None  # what represents the mark where a venue has none
    opened: N | None = None  # the price of 24 hours ago
    contracts: N | None = None  # open interest
    oi_usd: N | None = None
    coins: N | None = None  # open interest
    volume_usd: N | None = None
    volume: N | None = None  # in coins, at the last price
    change: N | None = None  # of 24 hours, a fraction
    change_pct: N | None = None
    expiry: S | None = None  # of a dated contract in a list with perpetual ones


class Greeks(Wire, Generic[N, S]):
    """What a row says of one option now."""

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


class Paid(Wire, Generic[N, S]):
    """A funding payment."""

    time: S
    rate: N
    name: str
    hours: N | S | None = None  # between payments, in the unit of the venue


class Closed(Wire, Generic[N, S]):
    """A liquidation, or a trade that may be one."""

    name: str
    time: S
    side: str
    amount: N
    price: N
    kind: str  # of a trade
    id: str = ""
    number: int | None = None  # of a trade, where it has no id


class Bargain(Wire, Generic[N, S, T]):
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
    block: T | None = None  # what names a block trade, or a package of which it is a leg
    combo: T | None = None


class Sided(Wire, Generic[N, S]):
    """What is long and what is short at an instant or in a period: shares, numbers, or only their ratio."""

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


class Listed(Wire, Generic[N, S, T]):
    """A contract in a list; its status is text, a number or a flag."""

    name: str
    status: T
    kind: str
    symbol: str = ""
    quote: str = ""
    stage: str = ""  # what tells a contract that does not trade freely yet
    shown: bool = True
    size: N | None = None
    hours: N | None = None
    listed: S | None = None
    expiry: S | None = None
    tick: N | None = None
    step: N | None = None


class Part(Wire):
    """Base of the shapes that `placed` makes, each with one field, ``value``."""


_STAMPS = ("time", "next_payment", "expiry", "listed")
_WIDE: dict[Any, Any] = {
    **dict.fromkeys((int, str, float, int | str), Stamp),
    **dict.fromkeys((int | None, str | None, float | None, int | str | None), Stamp | None),
}
"""Instants are read from text and from numbers, whichever a venue is known to send."""


OPTIONAL = "__optional__"
"""Attribute of a shape that `spelled` makes: our and the venue's name of each field with a default, and that.

Only shapes have it whose other fields, such as a name and a time, are those of rows of most answers.
"""
_UNTELLING = ("name", "time", "status", "kind")


def spelled(shape: type[T], *, required: Sequence[str] = (), **names: str) -> type[T]:
    """Return a shape with the venue's names of its fields; what the venue does not tell is None.

    A name such as ``filters.price.tickSize`` is a path, and two of our names may be one of the venue's.
    A row must have the fields that are `required`, though they may be null there: rows of other answers of
    the venue that share the rest do not pass for rows of this kind.
    """
    fields = list[Any]()
    others = dict[str, Any]()
    wire: dict[str, str] = {}
    for field in msgspec.structs.fields(shape):  # type: ignore[arg-type]
        head, _, rest = names.get(field.name, "").partition(".")
        kind = _WIDE.get(field.type, field.type) if field.name in _STAMPS else field.type
        kind = kind if field.required else kind | None  # venues send null for what they have nothing about
        if not head:
            others[field.name] = None if field.required else field.default
        elif rest or head in wire.values():
            ours = next((ours for ours, theirs in wire.items() if theirs == head), f"_{head}")
            if ours not in wire:
                wire[ours] = head
                fields.append((ours, Any, None))
            others[field.name] = property(partial(_at, kind, ours, rest))
        else:
            wire[field.name] = head
            is_required = field.required or field.name in required
            fields.append((field.name, kind) if is_required else (field.name, kind, field.default))
    if all(len(field) == 3 or field[0] in _UNTELLING for field in fields):
        others[OPTIONAL] = tuple((field[0], wire[field[0]], field[2]) for field in fields if len(field) == 3)
    row: Any = msgspec.defstruct(
        "Row", sorted(fields, key=len), bases=(Wire,), namespace=others, rename=wire, gc=False
    )
    return row  # type: ignore[no-any-return]


def _at(kind: Any, ours: str, path: str, row: Any) -> Any:
    """Return what is at a path of a field; in a list of objects a name is one of an object's values."""
    value = getattr(row, ours)
    for name in path.split(".") if path else ():
        if isinstance(value, list):
            value = next((one for one in value if isinstance(one, dict) and name in one.values()), None)
        else:
            value = value.get(name) if isinstance(value, dict) else None
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as problem:
        raise SchemaError(f"the body is not as expected: {problem} - at {path}") from None


def many(kind: Any) -> Any:
    """Return the shape of a list of rows."""
    return list[kind]


def keyed(kind: Any) -> Any:
    """Return the shape of rows by their keys."""
    return dict[str, kind]


def leaf(value: Any) -> Any:
    """Return what is at the end of a path, of which `placed` is the shape."""
    while isinstance(value, Part):
        value = value.value  # type: ignore[attr-defined]
    return value


@cache
def placed(kind: Any, path: str, default: Any = msgspec.NODEFAULT) -> Any:
    """Return the shape of a body that holds something at a path of names such as ``result.list``."""
    for name in reversed(path.split(".")) if path else ():
        kind = msgspec.defstruct(
            "Body", [("value", kind, default)], bases=(Part,), rename={"value": name}, gc=False
        )
    return kind


Fault = tuple[str | int | None, str] | None
"""Code and message of an error; None where there is none."""


class _MayFail(Protocol):
    @property
    def fault(self) -> Fault: ...


class Refused(Wire):
    """An error as several venues write it."""

    code: int | str | None = None
    message: str | None = None


class RefusedBody(Wire):
    """A body that is ``{"error": {"code": ..., "message": ...}}`` where it is an error."""

    error: Refused | None = None

    @property
    def fault(self) -> Fault:
        """The error."""
        return None if self.error is None else (self.error.code, self.error.message or "")


class CodedBody(Wire):
    """A body whose ``code`` says whether it is an error; a venue with another `success` has a subclass."""

    success: ClassVar[str] = "0"
    code: str | int | None = None
    msg: str | None = None
    message: str | None = None

    @property
    def fault(self) -> Fault:
        """The error."""
        if self.code is None or str(self.code) == self.success:
            return None
        return str(self.code), self.msg or self.message or ""


class WordedBody(Wire):
    """A body whose ``code`` is a word where it is an error."""

    code: str | None = None
    message: str | None = None

    @property
    def fault(self) -> Fault:
        """The error."""
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
        """The error."""
        code = int(self.code) if isinstance(self.code, str) and self.code.isdecimal() else self.code
        if code in (None, self.success):
            return super().fault
        return code, self.msg or self.message or ""


def refusal(kind: type[_MayFail], reason_of: Callable[[Any], str | None]) -> Callable[[Body], None]:
    """Return what raises a `VenueError` for a body that is an error, with HTTP 200 or not.

    In `kind`, the shape of an error, every field is optional, so that each object of the venue fits;
    `reason_of` returns `VenueError.reason` by code, or None for a refusal.
    """

    def refuse(reading: Body) -> None:
        fault = reading.decode(kind).fault if reading.body.lstrip()[:1] == b"{" else None
        if fault is not None:
            code, message = fault
            reason = reason_of(code) or "refused"
            raise VenueError(reading.where, message or "refused", code=code, reason=reason)

    return refuse
