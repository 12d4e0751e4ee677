"""Rows of two frames of a table, side by side where they differ."""

from __future__ import annotations

import pandas as pd

from derivdata.schema import Table

__all__ = ["changed_rows"]


def changed_rows(table: Table, a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    """Rows of two frames of a table that differ, side by side.

    The one instant of a snapshot is not compared: the next snapshot has another in every row.
    """
    snapshot = _is_snapshot(a) and _is_snapshot(b)
    key = [name for name in table.key if not (snapshot and name == "time")]
    values = [n for n in table.columns if n not in table.key and not (snapshot and n == "time")]
    names = [*key, *values]
    both = _plain(a[names]).merge(
        _plain(b[names]), on=key, how="outer", suffixes=("_a", "_b"), indicator="change"
    )
    shared = both["change"] == "both"
    differs = ~shared
    for name in values:
        x, y = both[f"{name}_a"], both[f"{name}_b"]
        differs |= ~((x == y) | (x.isna() & y.isna())).fillna(False).astype(bool)
    labels = {"left_only": "only in a", "right_only": "only in b", "both": "changed"}
    both["change"] = both["change"].astype("str").map(labels)
    sides = [f"{name}_{side}" for name in values for side in "ab"]
    return both.loc[differs, [*key, "change", *sides]].reset_index(drop=True)


def _is_snapshot(frame: pd.DataFrame) -> bool:
    return "time" in frame.columns and frame["time"].nunique() <= 1


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with categories as text: two answers rarely have the same ones."""
    texts = [n for n, dtype in frame.dtypes.items() if isinstance(dtype, pd.CategoricalDtype)]
    return frame.astype(dict.fromkeys(texts, "str"))
