"""Points of many venues in one answer, read a venue at a time so that memory holds one of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from derivdata import transport
from derivdata.fetch.validation import micros
from derivdata.schema import coded, floats, repeated
from derivdata.transport import Answer


class Point(msgspec.Struct, gc=False, kw_only=True):
    """A rate at an instant; null is no rate."""

    timestamp: str = ""
    y: float | None


class Settlement(Point, gc=False, kw_only=True):
    """A payment, and the minutes that it is for."""

    intervalMinutes: float | None


class _OlderPoint(msgspec.Struct, gc=False):
    t: str


def series(answer: Answer[Any], point: type[Point], numbers: Mapping[str, str]) -> dict[str, Any]:
    """Return the columns of all venues that an answer holds under ``series``.

    Parameters
    ----------
    point
        What each point is.
    numbers
        Its fields by column; a point without ``y`` is no row.

    Raises
    ------
    SchemaError
        A point is another thing; the message names venue and place.
    """
    parts = list(_venues(answer, point, numbers))
    sizes = [part["y"].size for part in parts]
    columns = {
        name: np.concatenate([part[name] for part in parts]) if parts else np.empty(0) for name in numbers
    }
    places = np.arange(len(parts), dtype=np.min_scalar_type(len(parts)))
    stamps = np.concatenate([np.empty(0, np.int64), *(part["timestamp"] for part in parts)])
    return columns | {
        "symbol": repeated(answer.body.symbol, sum(sizes)),
        "exchange": coded(answer.body.series, np.repeat(places, sizes)),
        "timestamp": pd.DatetimeIndex(stamps.view("datetime64[us]"), tz="UTC"),
    }


def _venues(
    answer: Answer[Any], point: type[Point], numbers: Mapping[str, str]
) -> Iterator[dict[str, np.ndarray[Any, Any]]]:
    """Yield the points of each venue that have a rate, one venue in memory at a time.

    Venues mostly share one grid of instants, which is then read once.
    """
    texts: list[str] | None = None
    for venue, raw in answer.body.series.items():
        points = transport.decode_raw(answer, raw, _decoder(point), f"$.series.{venue}")
        before, texts = texts, [point.timestamp for point in points]
        if not all(texts):
            texts = _older(answer, venue)
        if texts != before:
            stamps = micros(answer, texts)
        found = {name: floats([*map(attrgetter(f), points)]) for name, f in numbers.items()}
        kept = ~np.isnan(found["y"])
        yield {name: values[kept] for name, values in {"timestamp": stamps, **found}.items()}


def _older(answer: Answer[Any], venue: str) -> list[str]:
    """Yield the instants of a venue's points under their older name."""
    raw, place = answer.body.series[venue], f"$.series.{venue}"
    return [point.t for point in transport.decode_raw(answer, raw, _decoder(_OlderPoint), place)]


@cache
def _decoder(point: type[Any]) -> msgspec.json.Decoder[list[Any]]:
    return msgspec.json.Decoder(list[point])  # type: ignore[valid-type]
