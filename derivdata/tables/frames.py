"""Check the columns that a function needs, and join frames with their attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from derivdata.support.arguments import typed
from derivdata.support.calls import Provenance
from derivdata.support.text import did_you_mean
from derivdata.support.times import has_zone
from derivdata.tables.definitions import TABLES
from derivdata.units import VOLATILITY_SPELLINGS

_TIMES = ("time", "start", "end", "expiry")
_NAMES = ("symbol", "exchange", "side", "instrument_name")
_LARGEST_MEDIAN_IV = 15.0  # in their last hours options trade at up to 1,500 %; 15 (percent) is rare


def require_columns(
    frame: pd.DataFrame,
    argument: str,
    numbers: Sequence[str] = (),
    *,
    others: Sequence[str] = (),
    any_kind: Sequence[str] = (),
) -> None:
    """Raise `ValueError` if a column is missing, repeated or of another kind than required.

    Columns in `numbers` must be numeric. Columns in `others` with a name of `_TIMES` or `_NAMES` must have
    times or text; columns in `any_kind` may have any values.
    """
    for name in (*others, *numbers, *any_kind):
        if name not in frame.columns:
            near = did_you_mean(name, frame.columns)
            raise ValueError(f"{argument} has no column {name!r}{near}")
        if frame.columns.get_loc(name).__class__ is not int:
            raise ValueError(f"{argument} has the column {name!r} more than once")
    for name in numbers:
        if len(frame) and not pd.api.types.is_numeric_dtype(frame[name]):
            raise ValueError(f"{argument} must have numbers in the column {name!r}, got {frame[name].dtype}")
    if frame.empty:
        return
    for name in others:
        _require_kind(frame, argument, name, is_time=name in _TIMES, is_name=name in _NAMES)


def _require_kind(frame: pd.DataFrame, argument: str, name: str, *, is_time: bool, is_name: bool) -> None:
    """Raise `ValueError` if a column of times or names has another dtype."""
    dtype = frame[name].dtype
    if is_time and dtype.kind != "M":
        raise ValueError(f"{argument} must have times in the column {name!r}, got {dtype}")
    if is_name and dtype.kind in "biufcmM":
        raise ValueError(f"{argument} must have text in the column {name!r}, got {dtype}")


def require_zone(frame: pd.DataFrame, argument: str) -> None:
    """Raise `ValueError` if ``time`` is without a time zone: it may be any local time."""
    if not has_zone(frame["time"]):
        raise ValueError(
            f"{argument} has times without a zone: localize them with "
            f"{argument}['time'].dt.tz_localize('UTC')"
        )


def require_instants(frame: pd.DataFrame, argument: str, names: Sequence[str]) -> None:
    """Raise `ValueError` if a column has other values than times, or missing times."""
    for name in names:
        _require_kind(frame, argument, name, is_time=True, is_name=False)
        if frame[name].isna().any():
            raise ValueError(f"{argument} has a row without {name!r}")


def require_decimal_volatility(iv: Any, remedy: str = "divide it by 100") -> None:
    """Raise `ValueError` for implied volatilities without a unit whose median is above 15, as in percent.

    Lazy arrays are not checked.
    """
    if getattr(iv, "attrs", {}).get("units") in VOLATILITY_SPELLINGS:
        return
    if getattr(iv, "chunks", None) is not None:
        return
    values = np.asarray(iv, dtype=np.float64)
    if not (values > _LARGEST_MEDIAN_IV).any():
        return
    finite = values[np.isfinite(values)]
    if finite.size and (median := float(np.median(finite))) > _LARGEST_MEDIAN_IV:
        raise ValueError(
            f"iv looks like percent, its median is {median:.4g}: "
            f"a volatility is decimal, 0.55 for 55 %; {remedy}"
        )


@typed
def concat(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Join tables of one kind and their provenance.

    Parameters
    ----------
    frames
        Tables with the same columns in the same order, as fetchers return them: of several symbols, venues,
        windows or sources.

    Returns
    -------
    DataFrame
        All rows, sorted as their table is. ``provenance`` has all sources, requests and notices, and is
        synthetic if any frame is; a frame without provenance adds the source ``not stated``.

    Raises
    ------
    ValueError
        `frames` is empty, or the frames have different columns.
    SchemaError
        Two rows have the same key, because windows or venues overlap.

    Examples
    --------
    >>> days = [("2026-06-01", "2026-06-02"), ("2026-06-08", "2026-06-09")]
    >>> rates = dd.concat([dd.funding.history("BTC", *day, venues=["okx"]) for day in days])
    >>> len(rates), dd.provenance(rates)["synthetic"]
    (48, True)
    """
    if len(frames) == 0:
        raise ValueError("frames is empty: pass at least one table")
    columns = list(frames[0].columns)
    for place, frame in enumerate(frames):
        if list(frame.columns) != columns:
            other = sorted(set(columns) ^ set(frame.columns)) or ["their order"]
            raise ValueError(
                f"frames[{place}] has other columns than frames[0]: {', '.join(map(str, other))}"
            )
    joined = pd.concat(_plain(frames), ignore_index=True)
    table = next((table for table in TABLES.values() if list(table.columns) == columns), None)
    if table is not None:
        joined = table.conform(joined)
    provenances = [frame.attrs.get("provenance") for frame in frames]
    if any(provenances):
        joined.attrs["provenance"] = joined_provenance(provenances)
    return joined


def _plain(frames: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """Return the frames without index and attrs, with the same categories in each text column.

    pandas would join different categories to a column of objects.
    """
    plain = [frame.set_axis(frame.columns, axis=1).reset_index(drop=True) for frame in frames]
    for frame in plain:
        frame.attrs = {}
    for name in plain[0].columns:
        dtypes = [frame[name].dtype for frame in plain]
        if all(isinstance(dtype, pd.CategoricalDtype) for dtype in dtypes):
            words = sorted({word for dtype in dtypes for word in dtype.categories})
            union = pd.CategoricalDtype(pd.Index(words, dtype="str"))
            plain = [frame.astype({name: union}) for frame in plain]
    return plain


def joined_provenance(provenances: Sequence[Mapping[str, Any] | None]) -> dict[str, Any]:
    """Join several provenances; None stands for a frame whose source is not stated."""
    joined: dict[str, Any] = {}
    # Dictionaries instead of lists: they drop repetitions and keep the order.
    sources: dict[str, None] = {}
    notices: dict[str, None] = {}
    attributions: dict[str, None] = {}
    requests: list[Any] = []
    for provenance in provenances:
        if not provenance:
            sources["not stated"] = None
            continue
        joined |= provenance
        sources |= dict.fromkeys(provenance.get("source", "not stated").split(", "))
        notices |= dict.fromkeys(provenance.get("notices", []))
        requests += provenance.get("requests", [])
        if provenance.get("attribution"):
            attributions[provenance["attribution"]] = None
    stated = [provenance for provenance in provenances if provenance]
    joined["source"] = ", ".join(sources)
    joined["synthetic"] = any(provenance.get("synthetic", False) for provenance in stated)
    joined["as_of"] = max((p["as_of"] for p in stated if p.get("as_of")), default=None)
    joined["requests"] = requests
    joined["notices"] = list(notices)
    joined["attribution"] = "; ".join(attributions)
    return Provenance(joined)
