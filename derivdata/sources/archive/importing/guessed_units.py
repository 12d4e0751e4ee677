"""Units of columns that no layout declares: their names or their sizes state them, or they are asked."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from derivdata.sources.archive.importing.market_names import plain_name
from derivdata.sources.archive.importing.opening import Source
from derivdata.sources.archive.importing.outcome import Unclear
from derivdata.sources.archive.importing.readers import Chunk
from derivdata.sources.archive.importing.values import Rejections, encoded, numbers
from derivdata.support.arrays import Array

_SUFFIXES = (
    (re.compile(r"(apr|apy|annual(ized|ised)?|peryear|yearly)(pct|percent)$"), "percent_year"),
    (re.compile(r"(apr|annual(ized|ised)?|peryear|yearly)$"), "per_year"),
    (re.compile(r"(daily|perday|1d|24h)$"), "per_day"),
    (re.compile(r"8h(pct|percent)$"), "percent_8h"),
    (re.compile(r"(bps8h|8hbps)$"), "bps_8h"),
    (re.compile(r"(8h|per8h)$"), "per_8h"),
    (re.compile(r"(1hpct|hourlypct)$"), "percent_hour"),
    (re.compile(r"(1h|hourly|perhour)$"), "per_hour"),
    (re.compile(r"(pct|percent|percentage)$"), "percent"),
    (re.compile(r"bps$"), "bps"),
)
"""Ends of a rate's name that state its unit."""
_FLOORS = (0.0001, 0.0000125, 0.00005, 0.000025, 0.0003)
"""Rates of quiet times, as fractions of 8, 1, 4, 2 and 24 hours (interest of 0.03 % a day)."""
_LEAST = 10


def _sizes(head: Chunk, column: str) -> Array:
    values = np.abs(numbers(head.columns[column], column, Rejections(len(head)), suffix="%"))
    return values[np.isfinite(values) & (values > 0)]


def unit_of_rates(source: Source, head: Chunk, column: str) -> str:
    """Return the unit of rates that their name or their size states."""
    unit = _unit_in_names(source, column)
    if unit is not None:
        return unit
    values = head.columns[column]
    if pa.types.is_string(values.type) and any(text.endswith("%") for text in encoded(values).texts):
        return "percent"
    sizes = _sizes(head, column)
    median = float(np.median(sizes)) if sizes.size else 0.0
    unit = _unit_by_size(sizes, median)
    if unit is not None:
        return unit
    raise Unclear(
        f"{source}: the unit of {column} is not clear, its median is {median:.4g}: say it with --unit: "
        "native (a fraction of the interval), percent, bps, bps_8h, per_8h, per_year, percent_year",
        "--unit",
        ["native", "percent", "bps", "bps_8h", "per_8h", "per_day", "per_year", "percent_year"],
    )


def _unit_in_names(source: Source, column: str) -> str | None:
    """Return the unit that the end of a column's name states; of a column ``value``, of the file's name."""
    word = plain_name(column)
    if word == "value":
        word = plain_name(source.name.rsplit("/", 1)[-1].split(".")[0])
    return next((unit for pattern, unit in _SUFFIXES if pattern.search(word)), None)


def _unit_by_size(sizes: Array, median: float) -> str | None:
    """Return whether rates are fractions or percent of their interval, by their size and their floors."""
    at_floor = bool(sizes.size) and float(np.mean(np.isin(np.round(sizes, 9), _FLOORS))) > 0.02
    is_small = sizes.size < _LEAST or sizes.max(initial=0.0) < 0.03
    if 1e-7 < median < 0.0015 and (at_floor or is_small):
        return "native"
    if at_floor and median < 0.005:
        return "native"
    if sizes.size >= _LEAST and np.mean(np.isclose(sizes, 0.01, rtol=1e-9)) > 0.05 and median < 0.05:
        return "percent"
    return None


_IN_USD = re.compile(r"(?<![a-z])(usd|dollars?|notional)(?![a-z])", re.I)


def unit_of_interest(source: Source, column: str) -> str:
    """Return USD where the name of the file says so, else ask."""
    if _IN_USD.search(source.name.rsplit("/", 1)[-1]) is not None:
        return "usd"
    raise Unclear(
        f"{source}: {column} may be in USD, coins or contracts: say it with --unit usd, "
        "--unit coins, or --unit contracts and --set contract_size=COINS",
        "--unit",
        ["usd", "coins", "contracts"],
    )


def unit_of_volatility(source: Source, head: Chunk, found: Mapping[str, str]) -> str | None:
    """Return whether volatilities are percent, by their median: no market is at 300 %, nor at 3 %."""
    if "iv" not in found:
        return None
    sizes = _sizes(head, found["iv"])
    if not sizes.size:
        return None
    median = float(np.median(sizes))
    if median > 8.0:
        return "percent"
    if median < 3.0:
        return "decimal"
    raise Unclear(
        f"{source}: {found['iv']} has the median {median:.4g}, which may be decimal or percent: say --unit "
        "decimal or --unit percent",
        "--unit",
        ["decimal", "percent"],
    )
