"""Read one response: fields, times and series, and the quantities that the rules compare."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar

import msgspec
import numpy as np
import pandas as pd

from derivdata.client import transport
from derivdata.client.transport import DecodedResponse
from derivdata.errors import SchemaError
from derivdata.support import times
from derivdata.support.arrays import Array
from derivdata.support.forking import DECODERS
from derivdata.tables import endpoints
from derivdata.tables.history_rows import SPARSE
from derivdata.tables.schema import Table, coded, floats, repeated
from derivdata.tables.series_faults import row_medians

T = TypeVar("T")

_BATCH = 512
_FAR = np.log(4.0)
_NEARBY = 60
"""Rows before and after a row that show the usual level there."""
HOUR_US = 3_600_000_000
DAY_US = 86_400_000_000
_STEPS_US = {name: times.us(step) for name, step in times.RESOLUTIONS.items()}
_UNSTATED_STEP_US = HOUR_US
"""Maximum distance of a row from its window if the resolution is not stated."""

_NAME_LISTS = ("exchange", "exchanges", "symbol", "exclude_symbol")
_SINGLE_NAMES = ("dex", "venue", "coin")
_SUBJECTS = frozenset({"symbol", "exchange", "dex", "dex_name", "venue", "coin", "kind"})

Figure: TypeAlias = float | msgspec.UnsetType | None
"""A number that may be null, or missing in some rows but not in all."""


class Envelope(msgspec.Struct, kw_only=True):
    """The fields of a response next to its rows; rules compare them with the request."""

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
    count: Any = None
    total: Any = None
    total_market_oi: Any = None
    totals: Any = None
    notices: Any = None


def micros(response: DecodedResponse[Any], texts: Sequence[str | None]) -> Array:
    """Parse the timestamps of a response [µs since 1970]."""
    path = response.request.path
    try:
        stamps = times.micros(texts)
    except (ValueError, TypeError) as problem:
        reason = str(problem).splitlines()[0][:200]
        raise SchemaError(
            f"{path}: a timestamp cannot be read ({reason}); see the response with dd.raw({path!r}, ...)"
        ) from None
    if (stamps == pd.NaT.value).any():
        raise SchemaError(f"{path}: a row has no timestamp; see the response with dd.raw({path!r}, ...)")
    return stamps


def timestamps(response: DecodedResponse[Any], texts: Sequence[str | None]) -> pd.DatetimeIndex:
    """Parse the timestamps of a response."""
    return pd.DatetimeIndex(micros(response, texts).view("datetime64[us]"), tz="UTC")


def response_time(response: DecodedResponse[Any]) -> pd.Timestamp:
    """Return the time of a response, from its ``timestamp``."""
    return timestamps(response, [response.body.timestamp])[0]


def decode_raw(
    response: DecodedResponse[Any], raw: msgspec.Raw, decoder: msgspec.json.Decoder[T], place: str
) -> T:
    """Decode a field that a struct left as `msgspec.Raw`. Errors name its `place`: ``"$.series.binance"``."""
    try:
        return decoder.decode(raw)
    except msgspec.MsgspecError as error:
        message = str(error)
        if "`$" not in message:
            message += " - at `$`"
        raise transport.unreadable(response.request, message.replace("`$", f"`{place}")) from None


def decode_items(
    response: DecodedResponse[Any],
    items: Sequence[msgspec.Raw],
    decoder: msgspec.json.Decoder[list[T]],
    place: str,
) -> Iterator[list[T]]:
    """Yield decoded batches of a list whose items a struct left as `msgspec.Raw`.

    A batch fits into the processor's cache, unlike a long list.
    """
    for start in range(0, len(items), _BATCH):
        batch = items[start : start + _BATCH]
        listed = msgspec.Raw(b"[%b]" % b",".join(batch))
        yield decode_raw(response, listed, decoder, f"{place}[{start}:{start + len(batch)}]")


class Point(msgspec.Struct, gc=False, kw_only=True):
    """A rate at a time; null means a missing rate."""

    timestamp: str = ""
    y: float | None


class Settlement(Point, gc=False, kw_only=True):
    """A payment and the minutes that it covers; `rateNative` is the rate if these are unknown."""

    intervalMinutes: float | None
    rateNative: float | None = None
    paymentCount: float | None = None


class _OlderPoint(msgspec.Struct, gc=False):
    t: str


def series(
    response: DecodedResponse[Any], point: type[Point], numbers: Mapping[str, str], instead: str = "y"
) -> dict[str, Any]:
    """Return the columns of all venues under ``series``: `numbers` are fields by column.

    A point with neither ``y`` nor the column `instead` is dropped.
    """
    # Venues are decoded one at a time, and only their arrays are kept. Most venues share one grid of
    # timestamps, which is then parsed once.
    by_venue: list[dict[str, Array]] = []
    texts: list[str] | None = None
    for venue, raw in response.body.series.items():
        points: list[Any] = decode_raw(response, raw, DECODERS[list[point]], f"$.series.{venue}")  # type: ignore[valid-type]
        previous_texts = texts
        texts = [row.timestamp for row in points]
        if texts != previous_texts and not all(texts):
            older = decode_raw(response, raw, DECODERS[list[_OlderPoint]], f"$.series.{venue}")
            texts = [row.t for row in older]
        if texts != previous_texts:
            stamps = micros(response, texts)
        arrays = {name: floats([*map(attrgetter(field), points)]) for name, field in numbers.items()}
        has_rate = ~np.isnan(arrays["y"]) | ~np.isnan(arrays[instead])
        arrays["timestamp"] = stamps
        by_venue.append({name: array[has_rate] for name, array in arrays.items()})
    sizes = [arrays["y"].size for arrays in by_venue]
    columns = {}
    for name in numbers:
        columns[name] = np.concatenate([np.empty(0), *(arrays[name] for arrays in by_venue)])
    places = np.arange(len(by_venue), dtype=np.min_scalar_type(len(by_venue)))
    joined_stamps = np.concatenate([np.empty(0, np.int64), *(arrays["timestamp"] for arrays in by_venue)])
    return columns | {
        "symbol": repeated(response.body.symbol, sum(sizes)),
        "exchange": coded(response.body.series, np.repeat(places, sizes)),
        "timestamp": pd.DatetimeIndex(joined_stamps.view("datetime64[us]"), tz="UTC"),
    }


class CheckedResponse:
    """A response and its request, as input of the rules."""

    def __init__(
        self,
        response: DecodedResponse[Any],
        table: Table | None,
        columns: dict[str, Any],
        raw: Mapping[str, Any],
    ) -> None:
        self.response = response
        self.table = table
        self.columns = columns  # the response's rows, typed, by the library's names
        self.raw = raw  # the decoded rows, by wire name
        self.facts: dict[str, Any] = {}  # results of rules, for the provenance
        self.effective: list[str] = []  # names of the rules that gave a notice or changed rows
        self.figures: dict[str, Array | None] = {}  # cache of `figure`, cleared when rows are removed
        self.series_rows: dict[str, Any] = {}  # cache of `series_rules.series_rows`, cleared at the same time
        request = response.request
        body = response.body
        self.endpoint = endpoints.endpoint_of(request.path)
        self.requested = dict(request.query)
        if self.endpoint is not None and "{" in self.endpoint.path:
            self.requested |= self.endpoint.values(request.path)
        # Symbols, venues, dexes and coins requested by name; a list with "all" names none.
        lists = {n: frozenset(self.requested[n].split(",")) for n in _NAME_LISTS if n in self.requested}
        single = {n: frozenset({self.requested[n]}) for n in _SINGLE_NAMES if n in self.requested}
        self.requested_names = single | {n: listed for n, listed in lists.items() if "all" not in listed}
        self.stated = body
        if isinstance(body, msgspec.Struct):
            self.stated = msgspec.structs.asdict(body)
        self.time_us = self.micros("time")
        # Distinct words of each text column, and of columns that name a subject.
        self.words: dict[str, list[str]] = {}
        for name, values in columns.items():
            if isinstance(values, pd.Categorical):
                self.words[name] = list(values.categories)
            elif name in _SUBJECTS:
                distinct = pd.unique(values)
                self.words[name] = [str(word) for word in distinct if word is not None and word == word]
        self.step_us = self._step()
        self.as_of_us: int | None = None
        if response.as_of is not pd.NaT:
            self.as_of_us = times.us(response.as_of)
        self.window_us = self._window()

    def _step(self) -> int:
        """Return the step of the rows [µs]: as stated in the response, else as requested."""
        requested = self.requested
        for name in (self.stated.get("resolution"), requested.get("resolution"), requested.get("interval")):
            if str(name) in _STEPS_US:
                return _STEPS_US[str(name)]
        return _UNSTATED_STEP_US

    @property
    def coarseness(self) -> int:
        """Return 1 if the response's resolution is coarser than requested, −1 if it is finer, else 0."""
        by_name = {"raw": 0, **_STEPS_US}
        requested = by_name.get(self.requested.get("resolution", ""))
        stated = by_name.get(str(self.stated.get("resolution")))
        if requested is None or stated is None:
            return 0
        return (stated > requested) - (stated < requested)

    def _window(self) -> tuple[int, int] | None:
        """Return the requested window [µs]. A range counts back from ``Date``, plus one bucket."""
        requested = self.requested
        if "start" in requested and "end" in requested:
            # `times.iso` writes UTC with a final Z, which numpy cannot parse.
            start, end = (np.datetime64(requested[n].removesuffix("Z"), "us") for n in ("start", "end"))
            return int(start.view(np.int64)), int(end.view(np.int64))
        now = self.as_of_us
        if now is None:
            return None
        if "since" in requested:
            return int(requested["since"]) * 1000, now + DAY_US
        if "range" not in requested or self.table is None:
            return None
        back = times.lookback(requested["range"])
        if back is None:
            return None
        return now - times.us(back) - self.step_us, now + 1

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values()), ()))

    def keep(self, rows: Array) -> None:
        """Keep only these rows."""
        places = np.flatnonzero(rows)
        self.columns = {name: values.take(places) for name, values in self.columns.items()}
        self.time_us = self.micros("time")
        self.figures.clear()
        self.series_rows.clear()

    def numbers(self, name: str) -> Array | None:
        """Return a column as floats (times in µs); None if the response does not have it."""
        values: Any = self.columns.get(name)
        if values is None:
            return None
        if hasattr(values, "asi8"):
            return np.where(values.isna(), np.nan, values.asi8)
        if isinstance(values, np.ndarray) and values.dtype == np.float64:
            return values
        return np.asarray(pd.Series(values).to_numpy(dtype=np.float64, na_value=np.nan))

    def series(self, *ignored: str) -> Array:
        """Return a series number per row.

        Rows of a series have equal keys, except for the columns `ignored`.
        """
        codes = np.zeros(self.size, dtype=np.int64)
        if self.table is None:
            return codes
        for name in self.table.key:
            if name in ignored:
                continue
            column = self.columns[name]
            values = column.codes if isinstance(column, pd.Categorical) else pd.factorize(column)[0]
            codes = codes * (int(values.max(initial=0)) + 1) + values
        return codes

    def micros(self, name: str) -> Array | None:
        """Return the times of a column [µs since 1970]; None if the response does not have it."""
        stamps = getattr(self.columns.get(name), "asi8", None)
        return None if stamps is None else np.asarray(stamps)


def _figures(e: CheckedResponse, names: Sequence[str]) -> list[Array] | None:
    """Return several figures; None at the first that the response does not have."""
    values = []
    for name in names:
        value = figure(e, name)
        if value is None:
            return None
        values.append(value)
    return values


def related(e: CheckedResponse, *, name: str, relations: Mapping[str, Callable[..., Any]]) -> Iterator[str]:
    """Yield a breach for the first row whose figures break a relation of a rule."""
    for figures, broken in relations.items():
        names = figures.split(",")
        values = _figures(e, names)
        if values is None:
            continue
        with np.errstate(invalid="ignore", divide="ignore"):
            rows = np.flatnonzero(broken(*values))
        if not rows.size:
            continue
        first = rows[0]
        shown = []
        for figure_name, array in zip(names, values, strict=True):
            is_condition = figure_name.endswith("=") or figure_name[0] == "@"
            if not is_condition:
                shown.append(f"{figure_name} {_text_of(figure_name, array[min(first, array.size - 1)])}")
        keys: list[str] = []
        if e.table is not None and e.size > first:
            keys = [key for key in e.table.key if key in e.words]
        where = " ".join(str(e.columns[key][first]) for key in keys)
        yield f"{name}: {', '.join(shown)} ({where}; {rows.size} of {e.size} rows)"


def figure(e: CheckedResponse, name: str) -> Array | None:
    """Return figures by name; None if the response does not have them.

    - ``column``: the values of a column.
    - ``column=word``: whether the column is the word.
    - ``#``: the number of rows; ``#column``: the number of words in a comma-separated list.
    - ``$field``: a number next to the rows; ``limit``: the limit of the request.
    - ``step_hours``: the resolution [h]; ``hours_apart``: time since the previous row of the series [h].
    - ``@table``: a condition, missing unless the response is of that table; ``@regular`` unless a hosted
      service has a row at each step; ``@settled`` unless the rows are payments.
    - ``median column`` and others: see `_OF`.
    """
    if name not in e.figures:
        how, _, column = name.partition(" ")
        e.figures[name] = _statistic(e, how, column) if column else _named(e, name)
    return e.figures[name]


def _statistic(e: CheckedResponse, how: str, column: str) -> Array | None:
    """Return a statistic of a column, by its prefix: ``median``, or ``next:rank`` with another column."""
    values = figure(e, column)
    if values is None or not values.size or e.table is None:
        return None
    prefix, _, by = how.partition(":")
    return _OF[prefix](e, values, by or column)


def _named(e: CheckedResponse, name: str) -> Array | None:
    """Return a quantity whose name does not have a prefix of `_OF`."""
    if name in e.columns:
        return e.numbers(name) if _is_figure(e, name) else None
    column, is_word, word = name.partition("=")
    if is_word:
        if column not in e.columns:
            return None
        return np.asarray(e.columns[column] == word)
    if name[0] == "#" and name[1:] in e.columns:
        return np.array([word.count(",") + bool(word) for word in e.columns[name[1:]]], dtype=np.float64)
    if name == "hours_apart" and e.table is not None and e.time_us is not None:
        return (e.time_us - _neighbour(e.time_us, e.time_us, e.series("time"), before=True)) / HOUR_US
    if name[0] == "@":
        return np.ones(1) if _is_met(e, name[1:]) else None
    number = _single_figure(e, name)
    if not isinstance(number, int | float):
        return None
    return np.array([float(number)])


def _is_figure(e: CheckedResponse, column: str) -> bool:
    """Return whether a column is numeric. Payloads without a schema may have text columns."""
    values: Any = e.columns[column]
    return e.table is not None or hasattr(values, "asi8") or getattr(values, "dtype", "") == np.float64


def _is_met(e: CheckedResponse, condition: str) -> bool:
    """Return whether a response meets a condition, ``regular``, ``settled`` or the name of its table."""
    if e.table is None:
        return False
    if condition == "regular":
        return e.endpoint is not None and not e.endpoint.local and e.table.name not in SPARSE
    if condition == "settled":
        return "settled" in e.words.get("kind", ())
    return e.table.name == condition


def _single_figure(e: CheckedResponse, name: str) -> Any:
    """Return a figure with one value per response; None if the response does not have it."""
    if name == "#":
        return e.size
    if name == "limit":
        return float(e.requested.get("limit", np.inf))
    if e.table is None:
        return None
    if name == "step_hours":
        resolutions = {e.stated.get("resolution"), e.requested.get("resolution")}
        return None if resolutions.isdisjoint(times.RESOLUTIONS) else e.step_us / HOUR_US
    if name[0] != "$":
        return None
    field, _, inner = name[1:].partition(".")
    stated = e.stated.get(field)
    if inner and isinstance(stated, dict):
        return stated.get(inner)
    return stated


def _neighbour(values: Array, by: Array, groups: Array, *, before: bool = False) -> Array:
    """Return for each row the value of the next (or previous) row of its group, in the order of `by`."""
    steps = np.diff(groups)
    if (steps < 0).any() or (np.diff(by)[steps == 0] < 0).any():
        order = np.lexsort((by, groups))
        neighbours = np.empty(values.size)
        neighbours[order] = _neighbour(values[order], by[order], groups[order], before=before)
        return neighbours
    neighbours = np.full(values.size, np.nan)
    same_group = steps == 0
    if before:
        neighbours[1:] = np.where(same_group, values[:-1], np.nan)
    else:
        neighbours[:-1] = np.where(same_group, values[1:], np.nan)
    return neighbours


def _next(e: CheckedResponse, values: Array, by: str) -> Array | None:
    """Return the figure at the next level, rank or distance of the same time."""
    places = figure(e, by)
    if places is None:
        return None
    # A rank orders symbols or venues, so they are not part of the group.
    ignored = ["time", by]
    if by == "rank":
        ignored += ["symbol", "exchange"]
    groups = e.series(*ignored)
    if e.time_us is not None:
        groups = groups * values.size + pd.factorize(e.time_us)[0]
    return _neighbour(values, places, groups)


def _usual(e: CheckedResponse, values: Array, column: str) -> Array:
    """Return the median of each row's series, over all venues for prices; NaN in series of up to 3 rows.

    Levels may change by any factor in months: rows far from the median of their series are compared with that
    of the rows next to them.
    """
    ignored = ["time", "days_ago", "expiry"]
    if column == "price_usd":
        ignored.append("exchange")
    groups = e.series(*ignored)
    series = pd.Series(values).groupby(groups)
    usual = np.array(series.transform("median").where(series.transform("count") > 3))
    with np.errstate(divide="ignore", invalid="ignore"):
        is_far = np.abs(np.log(values / usual)) > _FAR
    if e.time_us is None or not is_far.any():
        return usual
    order = np.lexsort((e.time_us, groups))
    places = np.flatnonzero(is_far[order])
    rows = places[:, None] + np.arange(-_NEARBY, _NEARBY + 1)
    inside = order[np.clip(rows, 0, order.size - 1)]
    is_nearby = (rows >= 0) & (rows < order.size) & (groups[inside] == groups[order[places]][:, None])
    usual[order[places]] = row_medians(np.where(is_nearby, values[inside], np.nan))
    return usual


def _of_series(statistic: str, e: CheckedResponse, values: Array, _: str) -> Array:
    return np.asarray(pd.Series(values).groupby(e.series("time")).transform(statistic))


def _best(e: CheckedResponse, values: Array, side: str) -> Array | None:
    """Return the figure at the first level of a side of an order book."""
    if "level" not in e.columns:
        return None
    rows = np.flatnonzero(e.columns["side"] == side)
    return values[rows[:1]] if rows.size else None


def _median(e: CheckedResponse, values: Array, _: str) -> Array | None:
    finite = values[~np.isnan(values)]
    return np.array([np.median(finite)]) if finite.size else None


_OF: dict[str, Callable[[CheckedResponse, Array, str], Array | None]] = {
    "sum": lambda e, values, _: np.array([values.sum()]),
    "median": _median,
    "count": lambda e, values, _: np.array([np.isfinite(values).sum()]),
    "usual": _usual,
    "typical": partial(_of_series, "median"),
    "min": partial(_of_series, "min"),
    "next": _next,
    "best": _best,
}
"""Statistics of a column, by prefix. `sum`, `median` and `count` (of finite values) are over all rows.
`typical` (median) and `min` are over each row's series; `usual` is the median of series of more than three
rows. `next` is the figure at the next rank, level or distance, `best` the figure at a side's first level.
"""


def _text_of(name: str, value: float) -> str:
    """Return a figure as text, and a time in microseconds as ISO text."""
    if name in ("expiry", "time", "start", "end"):
        return f"{np.datetime64(int(value), 'us').astype('datetime64[m]')}Z"
    return f"{value:g}"
