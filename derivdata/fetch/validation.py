"""Check that an answer is about what was requested: its symbol and venue, and instants that can be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pandas as pd
from msgspec import UnsetType

from derivdata import api, times, transport
from derivdata.api import Endpoint
from derivdata.errors import SchemaError
from derivdata.transport import Answer

T = TypeVar("T")

Figure: TypeAlias = float | UnsetType | None
"""A number that may be null, or absent in some rows but not in all."""

_SUBJECT = ("symbol", "exchange")
_MISSING = pd.NaT.value


def get(endpoint: Endpoint, params: Mapping[str, Any], *, into: type[T]) -> Answer[T]:
    """One answer, of the symbol and venue that were asked for.

    Raises
    ------
    SchemaError
        The answer is of another shape, or is about another symbol or venue.
    FetchError
        As `transport.get` raises.
    """
    return require_subject(transport.get(endpoint, params, into=into))


def require_subject(answer: Answer[T]) -> Answer[T]:
    """The answer, if the symbol and the venue that it names are those that were asked for.

    Raises
    ------
    SchemaError
        It is about another one.
    """
    path = answer.request.path
    endpoint = api.endpoint_of(path)
    asked = dict(answer.request.query) | (endpoint.values(path) if endpoint else {})
    for name in _SUBJECT:
        said = getattr(answer.body, name, None)
        if isinstance(said, str) and name in asked and said.casefold() != asked[name].casefold():
            raise SchemaError(
                f"{path}: asked for {name} {asked[name]!r}, the answer is about {said!r}; "
                f"see it with dd.raw({path!r}, ...)"
            )
    return answer


def instants(answer: Answer[Any], texts: Sequence[str | None]) -> pd.DatetimeIndex:
    """Instants of an answer's texts.

    Raises
    ------
    SchemaError
        One is missing or cannot be read.
    """
    return pd.DatetimeIndex(micros(answer, texts).view("datetime64[us]"), tz="UTC")


def micros(answer: Answer[Any], texts: Sequence[str | None]) -> np.ndarray[Any, Any]:
    """The same as microseconds since 1970.

    Raises
    ------
    SchemaError
        As in `instants`.
    """
    path = answer.request.path
    try:
        found = times.micros(texts)
    except (ValueError, TypeError) as problem:
        said = str(problem).splitlines()[0][:200]
        raise SchemaError(f"{path}: a timestamp is not an instant: {said}; {_see(path)}") from None
    if (found == _MISSING).any():
        raise SchemaError(f"{path}: a row has no timestamp; {_see(path)}")
    return found


def answer_time(answer: Answer[Any]) -> pd.Timestamp:
    """Instant of the answer as a whole, from its ``timestamp``.

    Raises
    ------
    SchemaError
        It cannot be read.
    """
    return instants(answer, [answer.body.timestamp])[0]


def _see(path: str) -> str:
    return f"see the answer with dd.raw({path!r}, ...)"
