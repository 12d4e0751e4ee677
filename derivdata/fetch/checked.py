"""Answers held to the question: the subject that was asked for, and instants that can be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

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


def get(endpoint: Endpoint, params: Mapping[str, Any], *, into: type[T]) -> Answer[T]:
    """One answer, of the symbol and venue that were asked for.

    Raises
    ------
    SchemaError
        The answer is of another shape, or is about another symbol or venue.
    FetchError
        As `transport.get` raises.
    """
    return held(transport.get(endpoint, params, into=into))


def held(answer: Answer[T]) -> Answer[T]:
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
    path = answer.request.path
    see = f"see the answer with dd.raw({path!r}, ...)"
    try:
        found = times.parse(texts)
    except (ValueError, TypeError) as problem:
        said = str(problem).splitlines()[0][:200]
        raise SchemaError(f"{path}: a timestamp is not an instant: {said}; {see}") from None
    if found.hasnans:
        raise SchemaError(f"{path}: a row has no timestamp; {see}")
    return found


def answered(answer: Answer[Any]) -> pd.Timestamp:
    """Instant of the answer as a whole, from its ``timestamp``.

    Raises
    ------
    SchemaError
        It cannot be read.
    """
    return instants(answer, [answer.body.timestamp])[0]
