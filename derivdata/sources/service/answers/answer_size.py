"""Refuse an answer that would be too large, before it is made.

How large an answer over a long window would be is learnt from the same answer over single days of it; windows
that cannot be too large at their resolution are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from derivdata.sources.service.answers import json_rows
from derivdata.sources.service.answers.context import RequestContext
from derivdata.sources.service.data.window import AnswerWindow, adaptive
from derivdata.sources.service.refusal import Refusal, bad_request
from derivdata.support import times
from derivdata.tables import endpoints

LARGEST = 48 << 20
"""Most bytes of one answer: what the library's own client takes."""

_DAY = pd.Timedelta(1, "D")
_ROW = 160
"""Bytes of a row of a history, at most: two instants and a few numbers."""

_MARGIN = 0.95
"""Of the window named in the error: days that were not examined may have more rows."""

_SHORT_DAYS = 4.0
"""Windows up to this long are made at once where nothing is known of their resolution."""

Answer = Callable[[RequestContext], Mapping[str, Any]]


def encoded(endpoint: endpoints.Endpoint, context: RequestContext, answer: Answer) -> bytes:
    """Return the JSON of an answer, or refuse one above `LARGEST` with the longest window that is not."""
    names = {p.name for p in endpoint.params}
    has_window = "start" in names or ("range" in names and "group_by" not in names)
    window = context.window() if has_window else None
    if window is not None and _may_be_large(endpoint, context, window):
        per_day = max(
            len(json_rows.encode(answer(context.narrowed(day)))) / _days(day) for day in _probes(window)
        )
        if per_day * _days(window) > LARGEST:
            raise _refusal(window, per_day)
    body = json_rows.encode(answer(context))
    if len(body) > LARGEST:  # the sampled days underestimated it
        raise _refusal(window, len(body) / (_days(window) if window else 1))
    return body


def _may_be_large(endpoint: endpoints.Endpoint, context: RequestContext, window: AnswerWindow) -> bool:
    """Return whether a row per venue and step of the window could be too much, or the step is unknown."""
    if not any(p.name == "resolution" for p in endpoint.params):
        return _days(window) > 7 * _SHORT_DAYS
    step = times.resolution(context.params["resolution"] or adaptive(window.requested))
    if step is None:
        return _days(window) > _SHORT_DAYS
    steps = _days(window) * float(_DAY / step)
    return len(context.view.exchanges) * _ROW * steps > LARGEST


def _probes(window: AnswerWindow) -> list[AnswerWindow]:
    """Single days of the window: the first, the middle and the last one."""
    first, last = window.start, window.end - _DAY
    starts = dict.fromkeys(stamp.floor("1D") for stamp in (first + _DAY, first + (last - first) / 2, last))
    days = [window._replace(start=max(s, window.start), end=min(s + _DAY, window.end)) for s in starts]
    return [day for day in days if day.start < day.end]


def _days(window: AnswerWindow) -> float:
    return float((window.end - window.start) / _DAY)


def _refusal(window: AnswerWindow | None, per_day: float) -> Refusal:
    limit = f"the {LARGEST >> 20} MiB of one answer"
    if window is None:
        return bad_request(f"the answer would have more than {limit}: ask for fewer rows")
    size = per_day * _days(window) / (1 << 20)
    fits = _MARGIN * LARGEST / per_day * _DAY
    longest = f"{fits // _DAY} days" if fits >= _DAY else f"{fits // pd.Timedelta(1, 'min')} minutes"
    return bad_request(
        f"the answer would have {size:.0f} MiB, more than {limit}: ask for at most {longest} at once, "
        "or at a coarser resolution"
    )
