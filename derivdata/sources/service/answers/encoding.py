"""Encode responses as JSON without a Python loop over rows, and reject responses that are too large.

Every column becomes a list of JSON tokens (each distinct time or category is written once), and rows are
joined from them. Missing values are ``null``. The size of a response over a long window is estimated from
single days of the window, unless its resolution makes a response that is too large impossible.

The module also has the input of the functions that make responses (`RequestContext`), and their type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pandas as pd
from msgspec import Raw

from derivdata.sources.service.data.store import Refusal, bad_request
from derivdata.sources.service.data.view import View, never_requested
from derivdata.sources.service.data.windows import ResponseWindow, adaptive
from derivdata.support import times
from derivdata.tables import endpoints

FREE_SYMBOLS = ("BTC", "ETH")
"""Symbols that the tier Free may request from endpoints for one symbol."""


@dataclass(frozen=True)
class RequestContext:
    """An admitted request: view of the store, tier of the key, parameters; `only` replaces the window."""

    view: View
    tier: str
    params: Mapping[str, Any]
    only: ResponseWindow | None = None

    def window(self, params: Mapping[str, Any] | None = None) -> ResponseWindow:
        """Return the window of the request's parameters, or of other `params`: see `View.window`."""
        if self.only is not None:
            return self.only
        if params is None:
            params = self.params
        return self.view.window(params, self.tier)

    def narrowed(self, window: ResponseWindow) -> RequestContext:
        """Return the request for a shorter window, at the resolution of the full window."""
        return replace(self, only=window)

    def missing(self, frame: pd.DataFrame, window: ResponseWindow, table: str) -> list[str]:
        """Return a notice if a symbol's rows are missing because they were never requested from a venue."""
        if len(frame):
            return []
        symbol = self.params["symbol"]
        venues = self.params["exchanges"]
        return never_requested(self.view, table, symbol, window.start, window.end, venues=venues)


Answers: TypeAlias = dict[str, Callable[[RequestContext], dict[str, Any]]]
"""Function that returns the body of a response, by the path of its endpoint."""


_ENCODER = msgspec.json.Encoder()
_SECOND_US = 1_000_000


def encode(body: Any) -> bytes:
    """Write a body as JSON; NaN is ``null``."""
    return _ENCODER.encode(body)


def stamp(timestamp: pd.Timestamp) -> str:
    """Format a time as in snapshots: ``YYYY-MM-DD HH:MM:SS``."""
    return str(timestamp.strftime("%Y-%m-%d %H:%M:%S"))


def rows(columns: Mapping[str, Any] | pd.DataFrame) -> Raw:
    """Write columns of equal length (Series, index, array, tokens) as a JSON array of objects."""
    return array(objects(columns))


def objects(columns: Mapping[str, Any] | pd.DataFrame) -> list[bytes]:
    """Write one JSON object per row, by a bytes template that is filled from lists of tokens."""
    fields = []
    lists = []
    for name, values in columns.items():
        fields.append(b"%b:%%b" % encode(name))
        lists.append(values if isinstance(values, list) else tokens(values))
    template = b"{" + b",".join(fields) + b"}"
    return list(map(template.__mod__, zip(*lists, strict=True)))


def sparse_objects(stamps: list[bytes], wide: pd.DataFrame) -> list[bytes]:
    """Write one JSON object per time, with a field for each column that has a value."""
    fields = [b",%b:" % encode(name) for name in wide.columns]
    objects = []
    for stamp, row in zip(stamps, wide.to_numpy().tolist(), strict=True):
        # `v == v` is false for NaN, and faster than np.isnan for single values.
        values = [field + encode(v) for field, v in zip(fields, row, strict=True) if v == v]
        objects.append(b'{"timestamp":%b%b}' % (stamp, b"".join(values)))
    return objects


def array(items: list[bytes]) -> Raw:
    """Join JSON items to a JSON array."""
    return Raw(b"[" + b",".join(items) + b"]")


def split(items: list[bytes], labels: pd.Series, shape: bytes = b"[%b]") -> dict[str, Raw]:
    """Map each label to its items, as a JSON array or in another `shape`; equal labels must be adjacent."""
    names = labels.to_numpy(dtype=object)
    if not len(names):
        return {}
    changes = np.flatnonzero(names[1:] != names[:-1]) + 1
    bounds = pairwise([0, *changes.tolist(), len(names)])
    return {str(names[start]): Raw(shape % b",".join(items[start:end])) for start, end in bounds}


def tokens(values: Any) -> list[bytes]:
    """Write each value as a JSON token: number, text, time or truth value; missing is ``null``."""
    values = pd.Series(values, copy=False)
    if times.has_zone(values):
        return iso_tokens(pd.DatetimeIndex(values))
    if isinstance(values.dtype, pd.CategoricalDtype):
        return _tokens_of_codes(values.cat.codes, values.cat.categories)
    if isinstance(values.dtype, np.dtype) and values.dtype.kind in "iufb":
        if not values.size:
            return []
        # One call for all numbers is several times as fast as a call for each.
        return encode(values.to_numpy().tolist())[1:-1].split(b",")
    if pd.api.types.infer_dtype(values, skipna=True) == "string":  # repeated names are written once
        return _tokens_of_codes(*pd.factorize(values))
    values = values.astype(object).where(values.notna(), None)
    return [encode(None if value is pd.NA else value) for value in values.tolist()]


def _tokens_of_codes(codes: Any, values: Any) -> list[bytes]:
    """Write the value of each code; −1, a missing value, is the last token."""
    tokens = [*map(encode, values), b"null"]
    return [tokens[code] for code in codes.tolist()]


def iso_tokens(index: pd.DatetimeIndex) -> list[bytes]:
    """Write times as quoted ISO text in UTC ending in Z, with a fraction of a second only if it is not 0."""
    codes, distinct = pd.factorize(index.as_unit("us").asi8)
    micros = np.asarray(distinct, dtype=np.int64)
    texts = np.char.add(np.datetime_as_string(micros.view("M8[us]"), unit="s"), "Z")
    distinct_tokens = [encode(text) for text in texts.tolist()]
    for i in np.flatnonzero(micros % _SECOND_US):
        distinct_tokens[i] = encode(times.iso(pd.Timestamp(int(micros[i]), unit="us", tz="UTC")))
    for i in np.flatnonzero(np.isnat(micros.view("M8[us]"))):
        distinct_tokens[i] = b"null"
    return [distinct_tokens[code] for code in codes.tolist()]


LARGEST = 48 << 20
"""Largest size of a response in bytes, the limit of the library's own client."""

_DAY = pd.Timedelta(1, "D")
_ROW_BYTES = 160
"""Maximum bytes of a row of a history: two times and a few numbers."""

_MARGIN = 0.95
"""Safety factor for the window in the error: days that were not examined may have more rows."""

_SMALL_DAYS = 4.0
"""Windows of unknown resolution are not estimated up to this length."""

Answer = Callable[[RequestContext], Mapping[str, Any]]


def encoded(endpoint: endpoints.Endpoint, context: RequestContext, response: Answer) -> bytes:
    """Return a response as JSON; raise `Refusal` above `LARGEST`, with the longest window that fits."""
    window = None
    names = {p.name for p in endpoint.params}
    if "start" in names or ("range" in names and "group_by" not in names):
        window = context.window()
    if window is not None and _may_be_large(endpoint, context, window):
        per_day = 0.0
        for day in _sample_days(window):
            size = len(encode(response(context.narrowed(day))))
            per_day = max(per_day, size / _days(day))
        if per_day * _days(window) > LARGEST:
            raise _refusal(window, per_day)
    body = encode(response(context))
    if len(body) > LARGEST:
        if window is None:
            raise bad_request(
                f"the response would exceed the limit of {LARGEST >> 20} MiB; request fewer rows"
            )
        raise _refusal(window, len(body) / _days(window))  # the estimate from single days was too low
    return body


def _may_be_large(endpoint: endpoints.Endpoint, context: RequestContext, window: ResponseWindow) -> bool:
    """Return whether one row per venue and step may be too large; without a step, if the window is long."""
    if not any(p.name == "resolution" for p in endpoint.params):
        return _days(window) > 7 * _SMALL_DAYS
    step = times.resolution(context.params["resolution"] or adaptive(window.requested))
    if step is None:
        return _days(window) > _SMALL_DAYS
    steps = _days(window) * float(_DAY / step)
    return len(context.view.exchanges) * _ROW_BYTES * steps > LARGEST


def _sample_days(window: ResponseWindow) -> list[ResponseWindow]:
    """Return a day at the start, in the middle and at the end of the window."""
    first = window.start
    last = window.end - _DAY
    middle = first + (last - first) / 2
    midnights = dict.fromkeys([(first + _DAY).floor("1D"), middle.floor("1D"), last.floor("1D")])
    days = []
    for midnight in midnights:
        day = window._replace(start=max(midnight, window.start), end=min(midnight + _DAY, window.end))
        if day.start < day.end:
            days.append(day)
    return days


def _days(window: ResponseWindow) -> float:
    return float((window.end - window.start) / _DAY)


def _refusal(window: ResponseWindow, per_day: float) -> Refusal:
    """Return the error for a response above `LARGEST`, with the longest window that fits."""
    size = per_day * _days(window) / (1 << 20)
    fits = _MARGIN * LARGEST / per_day * _DAY
    longest = f"{fits // _DAY} days"
    if fits < _DAY:
        longest = f"{fits // pd.Timedelta(1, 'min')} minutes"
    return bad_request(
        f"the response would have {size:.0f} MiB, above the limit of {LARGEST >> 20} MiB; request at "
        f"most {longest} at once, or a coarser resolution"
    )
