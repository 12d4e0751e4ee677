"""Errors that venues send, with HTTP 200 or not, by the shapes that they write them in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from derivdata.errors import VenueError
from derivdata.sources.venues import wire
from derivdata.sources.venues.reading import Reading

Fault = tuple[str | int | None, str] | None
"""Code and message of an error; None where there is none."""


class _MayFail(Protocol):
    @property
    def fault(self) -> Fault: ...


class Refused(wire.Wire):
    """An error as several venues write it."""

    code: int | str | None = None
    message: str | None = None


class RefusedBody(wire.Wire):
    """A body that is ``{"error": {"code": ..., "message": ...}}`` where it is an error."""

    error: Refused | None = None

    @property
    def fault(self) -> Fault:
        """The error."""
        return None if self.error is None else (self.error.code, self.error.message or "")


class CodedBody(wire.Wire):
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


class WordedBody(wire.Wire):
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


def refusal(kind: type[_MayFail], reason_of: Callable[[Any], str | None]) -> Callable[[Reading], None]:
    """Return what raises a `VenueError` for a body that is an error, with HTTP 200 or not.

    In `kind`, the shape of an error, every field is optional, so that each object of the venue fits;
    `reason_of` returns `VenueError.reason` by code, or None for a refusal.
    """

    def refuse(reading: Reading) -> None:
        fault = reading.decode(kind).fault if reading.body.lstrip()[:1] == b"{" else None
        if fault is not None:
            code, message = fault
            reason = reason_of(code) or "refused"
            raise VenueError(reading.where, message or "refused", code=code, reason=reason)

    return refuse
