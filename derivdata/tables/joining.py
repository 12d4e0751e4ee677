"""Tables joined so that what is known of their rows is kept; `pandas.concat` drops ``attrs`` that differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from derivdata.support.arguments import typed
from derivdata.support.calls import Provenance
from derivdata.tables.definitions import TABLES


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
