"""Sums over the symbols of each venue: against the slow reference, and made once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from derivdata.sources import Query, sample
from derivdata.sources.service.data.market import totals
from derivdata.sources.service.data.store import Cancelled
from derivdata.sources.service.data.view import Series, StoredColumn, View
from derivdata.sources.service.data.windows import resolve
from tests.service import market
from tests.service.memory_store import MemoryStore
from tests.service.test_answer_size import Counting
from tests.service.test_mixed_steps import frames

SAMPLE = sample.open()


def irregular() -> MemoryStore:
    """Half hours, hours off the grid, whole days, an hour that is not over, a missing value, and a gap."""
    parts = [
        ("BTC", "binance", "1h", market.every("1h", "2026-06-27", "2026-06-30 11:00"), 3.0),
        ("ETH", "binance", "1h", market.every("1h", "2026-06-27 00:20", "2026-06-28 23:20"), 5.0),
        ("BTC", "okx", "30m", market.every("30min", "2026-06-29", "2026-06-29 12:00"), 7.0),
        ("SOL", "okx", "1d", market.every("1D", "2026-06-26", "2026-06-29"), 11.0),
    ]
    rows = [market.series(*pair, time, oi_usd=usd, resolution=step) for *pair, step, time, usd in parts]
    frame = pd.concat(rows, ignore_index=True)
    frame.loc[5, "oi_usd"] = None
    volume = frame.rename(columns={"oi_usd": "volume_usd"})
    return MemoryStore({"oi_history": frame, "volume_history": volume}, now="2026-06-30 11:20")


STORES: dict[str, Any] = {
    "sample": SAMPLE,
    "mixed": MemoryStore(frames(), now=market.NOW),
    "irregular": irregular(),
}
COLUMNS = [StoredColumn("oi_history", "oi_usd"), StoredColumn("volume_history", "volume_usd", added=True)]


def difference(found: Series, expected: Series) -> str:
    """Differences between two series, except the last digits of floats, and cents of each symbol."""
    if (found.used, found.notices) != (expected.used, expected.notices):
        return f"{found.used, found.notices} instead of {expected.used, expected.notices}"
    kinds = {"exchange": object, "value": float, "symbol_count": int}
    left, right = (part.frame.astype(kinds).reset_index(drop=True) for part in (found, expected))
    cents = 0.006 * max(right["symbol_count"].max(), 1) if len(right) else 0.0
    try:
        pd.testing.assert_frame_equal(left, right, check_dtype=False, rtol=1e-9, atol=cents)
    except AssertionError as problem:
        return str(problem) if len(left) or len(right) else ""
    return ""


class CancelledOnce(Counting):
    """The sample, whose first sums are not wanted any more."""

    def sums(self, query: Query, value: str) -> pd.DataFrame:
        if not self.days:
            self.days = 0.1
            raise Cancelled
        return super().sums(query, value)


def test_totals_are_computed_once_unless_cancelled() -> None:
    """Ten days at 4 h are read with what reaches into them."""
    store = CancelledOnce()
    view = View(store, store.now)
    window = resolve({"start": pd.Timestamp("2026-06-20T12:00Z")}, now=view.now, tier="pro")

    def ask() -> Series:
        return totals(view, COLUMNS[0], window, "4h", venues=["hotstuff"])

    with pytest.raises(Cancelled):
        ask()
    first = ask()
    assert 10 < store.days < 11.5
    before = store.days
    pd.testing.assert_frame_equal(ask().frame, first.frame)
    assert store.days == before


def test_evicted_results_are_computed_again() -> None:
    """Of results of 40 MB three are cached; the least recently requested one is evicted first."""
    store = Counting()
    view, made = View(store, store.now), []

    def ask(name: str) -> int:
        def make() -> pd.DataFrame:
            made.append(name)
            return pd.DataFrame({"x": np.zeros(5_000_000)})

        return len(view.once(name, make))

    for name in "abcabcdab":
        assert ask(name) == 5_000_000
    assert "".join(made) == "abcda" + "b"


BLOCKS = (1, 300), (1, 10**9), (30, 10**9)
"""Days of the first block, and rows of the following blocks."""


@pytest.mark.parametrize("store", list(STORES))
@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.value)
@pytest.mark.parametrize(
    ("resolution", "chosen"),
    [*((step, (["BTC", "ETH"],)) for step in ("raw", "15m", "1h", "4h")), (None, (None, ["okx"]))],
)
def test_series_computed_in_blocks_equals_series_computed_at_once(
    store: str, column: StoredColumn, resolution: str | None, chosen: Any
) -> None:
    """From one day and from 300 rows per block, which is a day again, to all at once.

    A row of a whole day is known to a later part of it if another row covers a day, so windows of a store
    with such rows begin at midnight.
    """
    start = pd.Timestamp("2026-06-26T00:00Z" if store == "irregular" else "2026-06-26T05:00Z")
    source = STORES[store]
    results = []
    for days, rows in BLOCKS:
        view = View(source, source.now)
        view.first_days, view.block_rows = days, rows
        window = resolve({"start": start}, now=view.now, tier="pro")
        results.append(view.series(column, window, resolution, *chosen))
    for other in results[:2]:
        assert (other.used, other.notices) == (results[2].used, results[2].notices)
        left, right = (
            part.frame.astype({"symbol": str, "exchange": str}).reset_index(drop=True)
            for part in (other, results[2])
        )
        pd.testing.assert_frame_equal(left, right)
