"""Order ids for liquidations that come without: a hash of the row, so that a file imported twice is once."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

import pandas as pd

__all__ = ["with_ids"]

_TELLING = (
    "exchange symbol time side order_price_usd fill_price_usd quantity filled_quantity value_usd order_id"
).split()


def with_ids(frame: pd.DataFrame, made: tuple[str, ...], seen: Counter[str]) -> pd.DataFrame:
    """Return the frame with the columns of `made` filled.

    Equal rows of one file are events of their own: `seen` counts them, and the second and later ones get
    their number into the hash.
    """
    if not made or frame.empty:
        return frame
    telling = [frame[name].tolist() for name in _TELLING if name in frame.columns and name not in made]
    ids = []
    for row in zip(*telling, strict=True):
        text = "\x1f".join(map(_text, row))
        seen[text] += 1
        number = f"\x1f{seen[text]}" if seen[text] > 1 else ""
        ids.append("row-" + hashlib.blake2b((text + number).encode(), digest_size=12).hexdigest())
    return frame.assign(**dict.fromkeys(made, ids))


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, pd.Timestamp) else repr(value)
