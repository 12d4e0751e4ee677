"""Refusals: one exception that carries the status, the body and the headers of the answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from derivdata.support.text import nearest_symbols

DOCS = "/docs"


class Refusal(Exception):
    """A request that gets an error answer: HTTP status, JSON object with ``error``, and further headers."""

    def __init__(
        self, status: int, error: str, *, headers: Mapping[str, str] | None = None, **fields: object
    ) -> None:
        super().__init__(error)
        self.status = status
        self.body = {"error": error, **fields}
        self.headers = dict(headers or {})


def bad_request(error: str) -> Refusal:
    """Refuse a parameter that cannot be read, or does not fit the others (400)."""
    return Refusal(400, error)


def unknown_symbol(symbol: str, known: Iterable[str]) -> Refusal:
    """Refuse a symbol that is not there, with the nearest that are (404)."""
    near = ", ".join(nearest_symbols(symbol, known))
    return not_found(f"unknown symbol {symbol!r}" + (f"; did you mean {near}?" if near else ""))


def not_found(error: str) -> Refusal:
    """Refuse a symbol, venue or path that is not there, or data that the source does not hold (404)."""
    return Refusal(404, error)
