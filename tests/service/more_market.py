"""The rest of the hand-written market: books, depth, option overview, trading hours, outcomes, builders."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from tests.service.market import at

_TABLES = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
"""By table: its description, columns and rows."""

_INSTANTS = ("time", "start", "end", "next_session_start", "expiry")


def frames() -> dict[str, pd.DataFrame]:
    return {name: _frame(name) for name in _TABLES if name != "earlier_chain"}


def earlier_chain() -> pd.DataFrame:
    """BTC on deribit two minutes before noon of 29 June, with the underlying at 59,100."""
    greeks = dict.fromkeys(("delta", "gamma", "vega", "theta"), float("nan"))
    return _frame("earlier_chain").assign(**greeks)


def _frame(name: str) -> pd.DataFrame:
    frame = pd.DataFrame(_TABLES[name]["rows"], columns=_TABLES[name]["columns"].split())
    stamps = {column: [at(text) for text in frame[column]] for column in _INSTANTS if column in frame}
    return frame.assign(**stamps)
