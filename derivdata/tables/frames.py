"""Check that a frame has the columns that a function needs, and join frames with their attributes."""

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
_LARGEST_MEDIAN_IV = 15.0  # options in their last hours trade at up to 1,500 %; 15 % is rare


def require_columns(
    frame: pd.DataFrame,
    argument: str,
    numbers: Sequence[str] = (),
    *,
    others: Sequence[str] = (),
    any_kind: Sequence[str] = (),
) -> None:
    """Refuse a frame that lacks a column, has one twice, or holds something else where numbers belong.

    Columns of times and names (`_TIMES`, `_NAMES`) must hold these, unless `any_kind` has them.
    """
    for name in (*others, *numbers, *any_kind):
        if name not in frame.columns:
            near = did_you_mean(name, frame.columns)
            raise ValueError(f"{argument} has no column {name!r}{near}")
        if frame.columns.get_loc(name).__class__ is not int:
            raise ValueError(f"{argument} has the column {name!r} more than once")
    for name in numbers:
        if len(frame) and not pd.api.types.is_numeric_dtype(frame[name]):
            raise ValueError(f"{argument} has no numbers in the column {name!r} but {frame[name].dtype}")
    for name in others if len(frame) else ():
        _require_kind(frame, argument, name, is_time=name in _TIMES, is_name=name in _NAMES)


def _require_kind(frame: pd.DataFrame, argument: str, name: str, *, is_time: bool, is_name: bool) -> None:
    held = frame[name].dtype
    if is_time and held.kind != "M":
        raise ValueError(f"{argument} must have times in the column {name!r}, got {held}")
    if is_name and held.kind in "biufcmM":
        raise ValueError(f"{argument} has no text in the column {name!r} but {held}")


def require_zone(frame: pd.DataFrame, argument: str) -> None:
    """Refuse a frame whose ``time`` has no time zone: its wall clock may be of any place."""
    if not has_zone(frame["time"]):
        raise ValueError(
            f"{argument} has times without a zone: localize them with "
            f"{argument}['time'].dt.tz_localize('UTC')"
        )


def require_instants(frame: pd.DataFrame, argument: str, names: Sequence[str]) -> None:
    """Refuse a frame that holds something else than instants in one of its columns."""
    for name in names:
        _require_kind(frame, argument, name, is_time=True, is_name=False)
        if frame[name].isna().any():
            raise ValueError(f"{argument} has a row without {name!r}")


def require_decimal_volatility(iv: Any, remedy: str = "divide it by 100") -> None:
    """Refuse implied volatilities that look like percent: no unit is stated and their median is above 15.

    Lazy arrays are not read.
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
    """Join tables of one kind, with the provenance of them all.

    Parameters
    ----------
    frames
        Tables with the same columns in the same order, as fetchers return them: of several symbols, venues,
        windows or sources.

    Returns
    -------
    DataFrame
        All rows, sorted as their table is. ``provenance`` names every source, request and notice, and is
        synthetic where any of them is; a frame without provenance adds the source ``not stated``.

    Raises
    ------
    ValueError
        There are no frames, or they have other columns.
    SchemaError
        Two rows share a key: windows or venues that overlap.

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
    table = next((one for one in TABLES.values() if list(one.columns) == columns), None)
    if table is not None:
        joined = table.conform(joined)
    provenances = [frame.attrs.get("provenance") for frame in frames]
    if any(provenances):
        joined.attrs["provenance"] = joined_provenance(provenances)
    return joined


def _plain(frames: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """Return the frames without index and attrs, each text column with the words of all frames.

    Of categories that differ pandas would make objects.
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
    """Return one provenance of several; one that is None is a source that is not stated."""
    given = [one for one in provenances if one]
    sources = [one.get("source", "not stated") if one else "not stated" for one in provenances]
    instants = [one["as_of"] for one in given if one.get("as_of")]
    facts = {name: value for one in given for name, value in one.items()}
    return Provenance(
        facts
        | {
            "source": ", ".join(dict.fromkeys(name for source in sources for name in source.split(", "))),
            "synthetic": any(one.get("synthetic", False) for one in given),
            "as_of": max(instants, default=None),
            "requests": [request for one in given for request in one.get("requests", [])],
            "notices": list(dict.fromkeys(notice for one in given for notice in one.get("notices", []))),
            "attribution": "; ".join(
                dict.fromkeys(one["attribution"] for one in given if one.get("attribution"))
            ),
        }
    )
