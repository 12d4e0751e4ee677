"""Responses of tools that fit into a language model's context: first and last rows, counts and the window."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

LARGEST = 32_000
"""Most characters of a tool's response."""

_ROWS = (200, 100, 50, 25, 12, 6, 3, 2, 1, 0)
"""Rows that are shown at each end of a list, from the most to the fewest."""
_LONGEST_TEXT = 2_000
_TIMES = ("timestamp", "hour", "date", "time")


def fitted(body: Any, advice: str) -> dict[str, Any]:
    """Return a response of at most `LARGEST` characters.

    ``data`` is the body. Where it is too long, each long list is replaced by an object with its ``count`` and
    its ``first`` and ``last`` items, each long object by one with ``count`` and ``first``. ``truncated`` says
    whether anything was left out, ``window`` has the first and the last time of all rows, including those
    left out, and ``more`` says how to request the rest.
    """
    answer: dict[str, Any] = {"data": body, "truncated": False}
    window = _window(body)
    if window is not None:
        answer["window"] = window
    if _size(answer) <= LARGEST:
        return answer
    answer |= {"truncated": True, "more": advice}
    for rows in _ROWS:
        answer["data"] = _shortened(body, rows)
        if _size(answer) <= LARGEST:
            return answer
    return {**answer, "data": None}


def text_of(answer: Mapping[str, Any]) -> str:
    """Return a response as the text that is counted and sent."""
    return json.dumps(answer, ensure_ascii=False, allow_nan=False)


def _size(answer: Mapping[str, Any]) -> int:
    return len(text_of(answer))


def _shortened(value: Any, rows: int) -> Any:
    """Return a value whose lists and objects of data have at most twice `rows` items."""
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else f"{value[:_LONGEST_TEXT]}…"
    if isinstance(value, Mapping):
        # Twelve names or fewer are the fields of a row; more are data, such as one field a symbol.
        most = max(2 * rows, 12)
        names = list(value)
        shown = {name: _shortened(value[name], rows) for name in names[:most]}
        return shown if len(names) <= most else {"count": len(names), "first": shown}
    if isinstance(value, Sequence):
        if len(value) <= 2 * rows:
            return [_shortened(item, rows) for item in value]
        first = [_shortened(item, rows) for item in value[:rows]]
        last = [_shortened(item, rows) for item in value[len(value) - rows :]]
        return {"count": len(value), "first": first, "last": last}
    return value


def _window(body: Any) -> dict[str, str] | None:
    """Return the first and the last time of the rows of a body, or None where its rows have no time."""
    times = sorted(set(_row_times(body, in_list=False)))
    return {"start": times[0], "end": times[-1]} if times else None


def _row_times(value: Any, *, in_list: bool) -> list[str]:
    if isinstance(value, Mapping):
        own = [value[name] for name in _TIMES if in_list and isinstance(value.get(name), str)]
        nested = [time for item in value.values() for time in _row_times(item, in_list=False)]
        return own[:1] + nested
    if isinstance(value, list):
        return [time for item in value for time in _row_times(item, in_list=True)]
    return []
