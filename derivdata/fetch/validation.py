"""Check every answer against its request, in one place, on the way from answers to a table.

`tabulate` is how each fetcher makes its table. It holds an answer to `rules.RULES` as soon as its columns are
there: a contradiction or an impossible figure is a `SchemaError`, and the answer is removed from the cache;
what is unlikely is a `DataNotice`, which stays in the provenance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

import msgspec
import numpy as np
import pandas as pd

from derivdata import times, transport
from derivdata.api import Request
from derivdata.errors import SchemaError
from derivdata.fetch.rules import RULES, Evidence
from derivdata.schema import Table
from derivdata.transport import Answer

__all__ = [
    "Envelope",
    "Figure",
    "answer_time",
    "check",
    "columns_of",
    "instants",
    "micros",
    "tabulate",
]

T = TypeVar("T")

Figure: TypeAlias = float | msgspec.UnsetType | None
"""A number that may be null, or absent in some rows but not in all."""


class Envelope(msgspec.Struct, kw_only=True):
    """What an answer may say of itself beside its rows; rules compare it with the request."""

    symbol: Any = None
    exchange: Any = None
    exchanges_filter: Any = None
    group_by: Any = None
    window_days: Any = None
    range: Any = None
    period: Any = None
    days: Any = None
    unit: Any = None
    resolution: str = "unstated"
    notices: Any = None


def tabulate(
    table: Table,
    answers: Iterable[Answer[T]],
    columns: Callable[[Answer[T]], Mapping[str, Any]],
    *,
    within: times.Window | None = None,
) -> pd.DataFrame:
    """Return the table of some answers that keep the rules, with their provenance in ``attrs``.

    Parameters
    ----------
    answers
        Each is dropped as soon as its columns are there, so that one at a time is in memory.
    columns
        Wire-named columns of one answer; instants may be text.
    within
        The window to which rows are cut, where the API has no parameter for it.

    Raises
    ------
    SchemaError
        A column is missing or of another kind, a key is missing or stands twice, or an answer breaks a rule.

    Warns
    -----
    DataNotice
        An answer is unlikely, or all answers to a question have no rows and none says so.
    """
    seen: list[Answer[Any]] = []
    parts: list[dict[str, Any]] = []
    facts: dict[str, Any] = {}
    for answer in answers:
        part, notices, found = columns_of(table, answer, columns, within=within)
        for notice in notices:
            if not any(notice in earlier.notices for earlier in seen):
                transport.notify(answer.request, notice)
        seen.append(replace(answer, body=None, notices=(*answer.notices, *notices)))  # type: ignore[arg-type]
        parts.append(part)
        facts |= found
    _say_where_nothing_is(seen, parts)
    with removed_if_wrong(*(answer.request for answer in seen)):
        frame = table.frame(table.joined(parts))
    said = transport.provenance(seen)
    said.update(facts)
    frame.attrs["provenance"] = said
    return frame


def columns_of(
    table: Table,
    answer: Answer[T],
    columns: Callable[[Answer[T]], Mapping[str, Any]],
    *,
    within: times.Window | None = None,
) -> tuple[dict[str, Any], list[str], dict[str, Any]]:
    """Return typed columns of an answer that keeps the rules, notices about it, and facts for provenance.

    Raises
    ------
    SchemaError
        As `tabulate`; the answer is no longer in the cache.
    """
    with removed_if_wrong(answer.request):
        raw = columns(answer)
        evidence = Evidence(answer, table, table.typed(raw), raw)
        notices = check(evidence)
    if within is not None:
        start, end = (bound.as_unit("us").asm8.view(np.int64) for bound in within)
        stamps = evidence.columns["time"].asi8
        evidence.keep((stamps >= start) & (stamps < end))
    return evidence.columns, notices, evidence.facts


def check(evidence: Evidence) -> list[str]:
    """Check an answer against every rule, and return what is unlikely about it.

    Raises
    ------
    SchemaError
        The answer breaks a rule whose outcome is an error; the message shows both sides.
    """
    notices: list[str] = []
    request = evidence.answer.request
    for rule in RULES:
        for breach in rule.check(evidence):
            if rule.outcome == "error":
                raise SchemaError(
                    f"{request.path}: {breach}; see the answer with dd.raw({request.path!r}, ...)"
                )
            notices.append(breach)
    return notices


def micros(answer: Answer[Any], texts: Sequence[str | None]) -> np.ndarray[Any, Any]:
    """Return instants of an answer's texts [µs since 1970].

    Raises
    ------
    SchemaError
        One is missing or cannot be read.
    """
    path = answer.request.path
    with removed_if_wrong(answer.request):
        try:
            found = times.micros(texts)
        except (ValueError, TypeError) as problem:
            reason = str(problem).splitlines()[0][:200]
            raise SchemaError(
                f"{path}: a timestamp is not an instant: {reason}; see the answer with dd.raw({path!r}, ...)"
            ) from None
        if (found == pd.NaT.value).any():
            raise SchemaError(f"{path}: a row has no timestamp; see the answer with dd.raw({path!r}, ...)")
    return found


def instants(answer: Answer[Any], texts: Sequence[str | None]) -> pd.DatetimeIndex:
    """Return instants of an answer's texts.

    Raises
    ------
    SchemaError
        As in `micros`.
    """
    return pd.DatetimeIndex(micros(answer, texts).view("datetime64[us]"), tz="UTC")


def answer_time(answer: Answer[Any]) -> pd.Timestamp:
    """Return the instant of the answer as a whole, from its ``timestamp``.

    Raises
    ------
    SchemaError
        It is absent or cannot be read.
    """
    return instants(answer, [answer.body.timestamp])[0]


@contextmanager
def removed_if_wrong(*requests: Request) -> Iterator[None]:
    """Remove the answers to `requests` from the cache where they turn out to be no table."""
    try:
        yield
    except SchemaError:
        for request in requests:
            transport.SESSION.forget(request)
        raise


def _say_where_nothing_is(seen: list[Answer[Any]], parts: Sequence[Mapping[str, Any]]) -> None:
    """Warn once for each question over a window whose answers have no rows and no notice that says why."""
    sizes: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
    last: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
    for place, (answer, part) in enumerate(zip(seen, parts, strict=True)):
        request = answer.request
        if not {"start", "range"} & dict(request.query).keys():
            continue
        question = request.path, tuple(pair for pair in request.query if pair[0] not in ("start", "end"))
        rows = len(next(iter(part.values()))) + len(answer.notices)
        sizes[question] = sizes.get(question, 0) + rows
        last[question] = place
    for question, size in sizes.items():
        if not size:
            answer = seen[last[question]]
            notice = "the answer has no rows, and no notice that says why"
            seen[last[question]] = replace(answer, notices=(*answer.notices, notice))
            transport.notify(answer.request, notice)
