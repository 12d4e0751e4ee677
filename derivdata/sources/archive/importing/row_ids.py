"""Ids of rows that have none: a hash of the row, so that the same row has the same id in every import."""

from __future__ import annotations

import hashlib
from collections import Counter

import pandas as pd

_FIELDS = (
    "exchange symbol time side order_price_usd fill_price_usd quantity filled_quantity value_usd order_id"
).split()


def with_ids(frame: pd.DataFrame, made: tuple[str, ...], seen: Counter[str]) -> pd.DataFrame:
    """Return the frame with ids for the rows that lack one; `seen` counts equal rows of one file."""
    lacking = [name for name in made if name not in frame or frame[name].isna().any()]
    if not lacking or frame.empty:
        return frame
    fields = [frame[name].tolist() for name in _FIELDS if name in frame.columns and name not in made]
    ids = []
    for row in zip(*fields, strict=True):
        words = [value.isoformat() if isinstance(value, pd.Timestamp) else repr(value) for value in row]
        text = "\x1f".join(words)
        seen[text] += 1
        number = f"\x1f{seen[text]}" if seen[text] > 1 else ""
        ids.append("row-" + hashlib.blake2b((text + number).encode(), digest_size=12).hexdigest())
    new = pd.Series(ids, frame.index, dtype="str")
    filled = {name: frame[name].astype("str").fillna(new) if name in frame else new for name in lacking}
    return frame.assign(**filled)
