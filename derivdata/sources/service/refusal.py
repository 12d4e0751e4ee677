"""Error responses as an exception with the status, the body and the headers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from derivdata.support.text import nearest_symbols

DOCS = "/docs"


class Refusal(Exception):
    """Error response to a request: HTTP status, JSON object with ``error``, and additional headers."""

    def __init__(
        self, status: int, error: str, *, headers: Mapping[str, str] | None = None, **fields: object
    ) -> None:
        super().__init__(error)
        self.status = status
        self.body = {"error": error, **fields}
        self.headers = dict(headers or {})


def bad_request(error: str) -> Refusal:
    """Return the error for a parameter that cannot be read or conflicts with another one (400)."""
    return Refusal(400, error)


def unknown_symbol(symbol: str, known: Iterable[str]) -> Refusal:
    """Return the error for an unknown symbol, with the most similar symbols (404)."""
    near = ", ".join(nearest_symbols(symbol, known))
    hint = f"; did you mean {near}?" if near else ""
    return not_found(f"unknown symbol {symbol!r}{hint}")


def not_found(error: str) -> Refusal:
    """Return the error for an unknown symbol, venue or path, or for data that the source lacks (404)."""
    return Refusal(404, error)
