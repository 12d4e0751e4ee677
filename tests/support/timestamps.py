"""Times in the dtype of tables."""

from __future__ import annotations

import pandas as pd


def at(text: str) -> pd.Timestamp:
    return pd.Timestamp(text, tz="UTC").as_unit("us")
