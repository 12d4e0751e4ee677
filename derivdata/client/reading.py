"""Read one answer: its fields, its instants and series, and the evidence that rules look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar

import msgspec
import numpy as np
import pandas as pd

from derivdata.client import transport
from derivdata.client.transport import Answer
from derivdata.errors import SchemaError
from derivdata.support import times
from derivdata.support.arrays import Array
from derivdata.support.forking import DECODERS
from derivdata.tables import endpoints
from derivdata.tables.history_rows import SPARSE
from derivdata.tables.schema import Table, coded, floats, repeated

T = TypeVar("T")

_BATCH = 512
HOUR_US = 3_600_000_000
DAY_US = 86_400_000_000
_STEPS_US = {name: times.us(step) for name, step in times.RESOLUTIONS.items()}
_UNSTATED_STEP_US = HOUR_US
"""How far outside of its window a row may lie where no resolution says how long a bucket is."""

_NAME_LISTS = ("exchange", "exchanges", "symbol", "exclude_symbol")
_SINGLE_NAMES = ("dex", "venue", "coin")
_SUBJECTS = frozenset({"symbol", "exchange", "dex", "dex_name", "venue", "coin", "kind"})

Figure: TypeAlias = float | msgspec.UnsetType | None
"""A number that may be null, or absent in some rows but not in all."""


class Envelope(msgspec.Struct, kw_only=True):
    """The fields of an answer next to its rows; rules compare them with the request."""

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


def micros(answer: Answer[Any], texts: Sequence[str | None]) -> Array:
    """Return instants of an answer's texts [µs since 1970]."""
    path = answer.request.path
    try:
        stamps = times.micros(texts)
    except (ValueError, TypeError) as problem:
        reason = str(problem).splitlines()[0][:200]
        raise SchemaError(
            f"{path}: a timestamp cannot be read: {reason}; see the response with dd.raw({path!r}, ...)"
        ) from None
    if (stamps == pd.NaT.value).any():
        raise SchemaError(f"{path}: a row has no timestamp; see the response with dd.raw({path!r}, ...)")
    return stamps


def instants(answer: Answer[Any], texts: Sequence[str | None]) -> pd.DatetimeIndex:
    """Return instants of an answer's texts."""
    return pd.DatetimeIndex(micros(answer, texts).view("datetime64[us]"), tz="UTC")


def answer_time(answer: Answer[Any]) -> pd.Timestamp:
    """Return the instant of the answer as a whole, from its ``timestamp``."""
    return instants(answer, [answer.body.timestamp])[0]


def decode_raw(answer: Answer[Any], raw: msgspec.Raw, decoder: msgspec.json.Decoder[T], place: str) -> T:
    """Return a part that a struct left as `msgspec.Raw`; `place` is where: ``"$.series.binance"``."""
    try:
        return decoder.decode(raw)
    except msgspec.MsgspecError as error:
        message = str(error) if "`$" in str(error) else f"{error} - at `$`"
        raise transport.unreadable(answer.request, message.replace("`$", f"`{place}")) from None


def decode_items(
    answer: Answer[Any], items: Sequence[msgspec.Raw], decoder: msgspec.json.Decoder[list[T]], place: str
) -> Iterator[list[T]]:
    """Yield items of a list that a struct left as `msgspec.Raw`, decoded some at a time.

    So many stay in the processor's cache until they are read, where a whole long list does not.
    """
    for start in range(0, len(items), _BATCH):
        some = items[start : start + _BATCH]
        listed = msgspec.Raw(b"[%b]" % b",".join(some))
        yield decode_raw(answer, listed, decoder, f"{place}[{start}:{start + len(some)}]")


class Point(msgspec.Struct, gc=False, kw_only=True):
    """A rate at an instant; null is no rate."""

    timestamp: str = ""
    y: float | None


class Settlement(Point, gc=False, kw_only=True):
    """A payment, and the minutes that it is for; `rateNative` is what it pays where these are not known."""

    intervalMinutes: float | None
    rateNative: float | None = None
    paymentCount: float | None = None


class _OlderPoint(msgspec.Struct, gc=False):
    t: str


def series(
    answer: Answer[Any], point: type[Point], numbers: Mapping[str, str], instead: str = "y"
) -> dict[str, Any]:
    """Return the columns of all venues under ``series``: `numbers` are fields by column.

    A point without ``y``, and without the column `instead`, is not a row.
    """
    # Only the numbers of a venue outlive its turn of the loop: one venue's points at a time are in memory.
    # Venues mostly share one grid of instants, which is then read once.
    parts: list[dict[str, Array]] = []
    texts: list[str] | None = None
    for venue, raw in answer.body.series.items():
        points: list[Any] = decode_raw(answer, raw, DECODERS[list[point]], f"$.series.{venue}")  # type: ignore[valid-type]
        before = texts
        texts = [one.timestamp for one in points]
        if not all(texts):
            older = decode_raw(answer, raw, DECODERS[list[_OlderPoint]], f"$.series.{venue}")
            texts = [one.t for one in older]
        if texts != before:
            stamps = micros(answer, texts)
        values = {name: floats([*map(attrgetter(f), points)]) for name, f in numbers.items()}
        has_rate = ~np.isnan(values["y"]) | ~np.isnan(values[instead])
        parts.append({name: v[has_rate] for name, v in {"timestamp": stamps, **values}.items()})
    sizes = [part["y"].size for part in parts]
    columns = {
        name: np.concatenate([part[name] for part in parts]) if parts else np.empty(0) for name in numbers
    }
    places = np.arange(len(parts), dtype=np.min_scalar_type(len(parts)))
    joined_stamps = np.concatenate([np.empty(0, np.int64), *(part["timestamp"] for part in parts)])
    return columns | {
        "symbol": repeated(answer.body.symbol, sum(sizes)),
        "exchange": coded(answer.body.series, np.repeat(places, sizes)),
        "timestamp": pd.DatetimeIndex(joined_stamps.view("datetime64[us]"), tz="UTC"),
    }


class CheckedAnswer:
    """An answer next to the request that it answers: what rules look at."""

    def __init__(
        self, answer: Answer[Any], table: Table | None, columns: dict[str, Any], raw: Mapping[str, Any]
    ) -> None:
        self.answer = answer
        self.table = table
        self.columns = columns  # of the answer's rows, typed, by the library's names
        self.raw = raw  # the same as they were decoded, by wire name
        self.facts: dict[str, Any] = {}  # what a rule found out and the provenance says
        self.effective: list[str] = []  # names of the rules that gave a notice or changed rows
        self.figures: dict[str, Array | None] = {}  # what `figure` has read, until rows are removed
        request = answer.request
        body = answer.body
        self.endpoint = endpoints.endpoint_of(request.path)
        self.requested = dict(request.query)
        if self.endpoint is not None and "{" in self.endpoint.path:
            self.requested |= self.endpoint.values(request.path)
        # Symbols, venues, dexes and coins that were asked for by name: lists split, without those of all.
        lists = {n: frozenset(self.requested[n].split(",")) for n in _NAME_LISTS if n in self.requested}
        single = {n: frozenset({self.requested[n]}) for n in _SINGLE_NAMES if n in self.requested}
        self.requested_names = single | {n: listed for n, listed in lists.items() if "all" not in listed}
        self.stated = body if isinstance(body, Mapping) else msgspec.structs.asdict(body)
        self.time_us = self.micros("time")
        self.words: dict[str, list[str]] = {}  # of each text column, and of those that name a subject
        for name, values in columns.items():
            if isinstance(values, pd.Categorical):
                self.words[name] = list(values.categories)
            elif name in _SUBJECTS:
                distinct = pd.unique(values)
                self.words[name] = [str(word) for word in distinct if word is not None and word == word]
        steps = [self.stated.get("resolution"), *map(self.requested.get, ("resolution", "interval"))]
        named = [_STEPS_US[step] for step in steps if isinstance(step, str) and step in _STEPS_US]
        self.step_us = named[0] if named else _UNSTATED_STEP_US
        by_name = {"raw": 0, **_STEPS_US}
        wanted = by_name.get(self.requested.get("resolution", ""))
        used = by_name.get(str(steps[0]))
        self.coarseness = 0 if wanted is None or used is None else (used > wanted) - (used < wanted)
        date = answer.as_of
        self.as_of_us = None if date is pd.NaT else int(date.asm8.astype("datetime64[us]").view(np.int64))
        self.window_us = self._window()

    def _window(self) -> tuple[int, int] | None:
        """Return the requested window; a range counts back from the ``Date`` and a bucket's start."""
        requested = self.requested
        if "start" in requested and "end" in requested:
            # As `times.iso` writes them: ISO text in UTC that ends in Z, which numpy alone does not take.
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
        return None if back is None else (now - times.us(back) - self.step_us, now + 1)

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values()), ()))

    def keep(self, rows: Array) -> None:
        """Remove all other rows."""
        places = np.flatnonzero(rows)
        self.columns = {name: values.take(places) for name, values in self.columns.items()}
        self.time_us = self.micros("time")
        self.figures.clear()

    def numbers(self, name: str) -> Array | None:
        """Return a column as floats, instants in µs; None where the answer has no such column."""
        values: Any = self.columns.get(name)
        if values is None:
            return None
        if hasattr(values, "asi8"):
            return np.where(values.isna(), np.nan, values.asi8)
        if isinstance(values, np.ndarray) and values.dtype == np.float64:
            return values
        return np.asarray(pd.Series(values).to_numpy(dtype=np.float64, na_value=np.nan))

    def series(self, *beside: str) -> Array:
        """Return a number for the series of each row: rows alike in the table's key except `beside`."""
        codes = np.zeros(self.size, dtype=np.int64)
        for name in () if self.table is None else self.table.key:
            if name not in beside:
                words = self.columns[name]
                values = None
                values = words.codes if isinstance(words, pd.Categorical) else pd.factorize(words)[0]
                codes = codes * (int(values.max(initial=0)) + 1) + values
        return codes

    def micros(self, name: str) -> Array | None:
        """Return the instants of a column [µs since 1970], None where the answer has no such column."""
        values: Any = self.columns.get(name)
        return np.asarray(values.asi8) if hasattr(values, "asi8") else None


def related(e: CheckedAnswer, *, name: str, relations: Mapping[str, Callable[..., Any]]) -> Iterator[str]:
    """Show the first row in which figures break a relation of a rule."""
    for figures, broken in relations.items():
        names = figures.split(",")
        values = [*takewhile(lambda one: one is not None, map(partial(figure, e), names))]
        if len(values) < len(names):
            continue
        with np.errstate(invalid="ignore", divide="ignore"):
            rows = np.flatnonzero(broken(*values))
        if rows.size:
            shown = ", ".join(
                f"{n} {_text_of(n, v[min(rows[0], v.size - 1)])}"
                for n, v in zip(names, values, strict=True)
                if v is not None and not n.endswith("=") and n[0] != "@"
            )
            row = rows[0] if e.table is not None and e.size > rows[0] else None
            keys = [] if e.table is None or row is None else [k for k in e.table.key if k in e.words]
            where = " ".join(str(e.columns[key][row]) for key in keys)
            yield f"{name}: {shown} ({where}; {rows.size} of {e.size} rows)"


def figure(e: CheckedAnswer, name: str) -> Array | None:
    """Return figures by name, None where the answer has none.

    A column; ``column=word``: where it is the word; ``#``: the number of rows; ``#column``: how many words it
    lists; ``$field``: what is next to the rows; ``limit``: that of the request; ``step_hours``: the
    resolution; ``hours_apart``: the time since the row before, of the same series; ``@table``: nothing unless
    the answer is of that table, ``@regular`` unless a hosted service's with a row at every step, ``@settled``
    unless of payments. For a word before a column see `_OF`.
    """
    if name not in e.figures:
        how, _, of = name.partition(" ")
        values = figure(e, of) if of else _named(e, name)
        if of:
            how, _, by = how.partition(":")
            some = values is not None and values.size and e.table is not None
            values = _OF[how](e, values, by or of) if some else None  # type: ignore[arg-type]
        e.figures[name] = values
    return e.figures[name]


def _named(e: CheckedAnswer, name: str) -> Array | None:
    values: Any = e.columns.get(name)
    if values is not None:
        # Of a payload that no document describes, words are no figures.
        is_figure = (
            e.table is not None or hasattr(values, "asi8") or getattr(values, "dtype", "") == np.float64
        )
        return e.numbers(name) if is_figure else None
    column, is_word, word = name.partition("=")
    if is_word:
        return np.asarray(e.columns[column] == word) if column in e.columns else None
    if name[0] == "#" and name[1:] in e.columns:
        return np.array([word.count(",") + bool(word) for word in e.columns[name[1:]]], dtype=np.float64)
    if name == "hours_apart" and e.table is not None and e.time_us is not None:
        return (e.time_us - _neighbour(e.time_us, e.time_us, e.series("time"), before=True)) / HOUR_US
    given = _beside_rows(e, name)
    return np.array([float(given)]) if isinstance(given, int | float) else None


def _beside_rows(e: CheckedAnswer, name: str) -> Any:
    """Return the one figure that a name represents, None for nothing."""
    if name == "#":
        return e.size
    if name == "limit":
        return float(e.requested.get("limit", np.inf))
    if e.table is None:
        return None
    if name == "step_hours":
        words = (e.stated.get("resolution"), e.requested.get("resolution"))
        return e.step_us / HOUR_US if any(word in times.RESOLUTIONS for word in words) else None
    if name == "@regular":
        is_hosted = e.endpoint is not None and not e.endpoint.local
        return 1.0 if is_hosted and e.table.name not in SPARSE else None
    if name == "@settled":
        return 1.0 if "settled" in e.words.get("kind", ()) else None
    if name[0] == "@":
        return 1.0 if e.table.name == name[1:] else None
    field, _, inner = name.removeprefix("$").partition(".")
    stated = e.stated.get(field) if name[0] == "$" else None
    return stated.get(inner) if inner and isinstance(stated, dict) else stated


def _neighbour(values: Array, by: Array, groups: Array, *, before: bool = False) -> Array:
    """Return of each row the value of the next one (or the one before) by a figure, in its group."""
    steps = np.diff(groups)
    if (steps < 0).any() or (np.diff(by)[steps == 0] < 0).any():
        order = np.lexsort((by, groups))
        found = np.empty(values.size)
        found[order] = _neighbour(values[order], by[order], groups[order], before=before)
        return found
    found = np.full(values.size, np.nan)
    last = max(values.size - 1, 0)
    to, of = (slice(1, None), slice(last)) if before else (slice(last), slice(1, None))
    found[to] = np.where(steps == 0, values[of], np.nan)
    return found


def _next(e: CheckedAnswer, values: Array, by: str) -> Array | None:
    """Follow places, ranks and distances of one instant; a rank counts the symbols and venues."""
    places = figure(e, by)
    if places is None:
        return None
    groups = e.series("time", by, *(("symbol", "exchange") if by == "rank" else ()))
    stamps = np.zeros(values.size) if e.time_us is None else e.time_us
    return _neighbour(values, places, groups * values.size + pd.factorize(stamps)[0])


def _usual(e: CheckedAnswer, values: Array, column: str) -> Array:
    alone = ("time", "days_ago", "expiry", *(("exchange",) if column == "price_usd" else ()))
    series = pd.Series(values).groupby(e.series(*alone))
    return np.asarray(series.transform("median").where(series.transform("count") > 3))


def _of_series(what: str, e: CheckedAnswer, values: Array, _: str) -> Array:
    return np.asarray(pd.Series(values).groupby(e.series("time")).transform(what))


def _best(e: CheckedAnswer, values: Array, side: str) -> Array | None:
    rows = np.flatnonzero(e.columns["side"] == side) if "level" in e.columns else ()
    return values[rows[:1]] if len(rows) else None


_OF: dict[str, Callable[[CheckedAnswer, Array, str], Array | None]] = {
    "sum": lambda e, values, _: np.array([values.sum()]),
    "middle": lambda e, values, _: None if np.isnan(values).all() else np.array([np.nanmedian(values)]),
    "known": lambda e, values, _: np.array([np.isfinite(values).sum()]),
    "usual": _usual,
    "typical": partial(_of_series, "median"),
    "least": partial(_of_series, "min"),
    "next": _next,
    "best": _best,
}
"""What is made of a column: its sum and median, and how many values are known; the median of each row's
series, `usual` where there are more than three; the least of the series; the figure of the next rank, level
or distance; that of a side's first level.
"""


def _text_of(name: str, value: float) -> str:
    """Return a figure as text; instants, which are microseconds, as such."""
    is_instant = name in ("expiry", "time", "start", "end")
    return f"{np.datetime64(int(value), 'us').astype('datetime64[m]')}Z" if is_instant else f"{value:g}"
