"""Sums over the symbols of each venue: against the slow reference, and days made once."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pandas as pd
import pytest

from derivdata.sources import sample, service
from derivdata.sources.service import view as views
from derivdata.sources.service.running_answer import Cancelled
from derivdata.sources.service.venue_totals import totals
from derivdata.sources.service.view import View
from derivdata.sources.service.window import resolve
from tests.service import market, slow_totals
from tests.service.conftest import KEYS, Caller
from tests.service.memory_store import MemoryStore
from tests.service.test_mixed_steps import frames

SAMPLE = sample.open()


def irregular() -> MemoryStore:
    """Half hours, hours off the grid, whole days, an hour that is not over, a missing value, and a gap."""
    rows = [
        market.series(
            "BTC",
            "binance",
            market.every("1h", "2026-06-27", "2026-06-30 11:00"),
            oi_usd=3.0,
            resolution="1h",
        ),
        market.series(
            "ETH",
            "binance",
            market.every("1h", "2026-06-27 00:20", "2026-06-28 23:20"),
            oi_usd=5.0,
            resolution="1h",
        ),
        market.series(
            "BTC",
            "okx",
            market.every("30min", "2026-06-29", "2026-06-29 12:00"),
            oi_usd=7.0,
            resolution="30m",
        ),
        market.series(
            "SOL", "okx", market.every("1D", "2026-06-26", "2026-06-29"), oi_usd=11.0, resolution="1d"
        ),
    ]
    frame = pd.concat(rows, ignore_index=True)
    frame.loc[5, "oi_usd"] = None
    volume = frame.rename(columns={"oi_usd": "volume_usd"})
    return MemoryStore({"oi_history": frame, "volume_history": volume}, now="2026-06-30 11:20")


STORES: dict[str, Any] = {
    "sample": SAMPLE,
    "mixed": MemoryStore(frames(), now=market.NOW),
    "irregular": irregular(),
}
COLUMNS = [("oi_history", "oi_usd", False), ("volume_history", "volume_usd", True)]


@pytest.mark.parametrize("store", list(STORES))
@pytest.mark.parametrize(("table", "value", "added"), COLUMNS)
@pytest.mark.parametrize("resolution", [None, "raw", "15m", "1h", "4h", "1d"])
@pytest.mark.parametrize(
    ("start", "end", "venues"),
    [
        ("2026-06-26T05:00Z", "2026-06-29T17:30Z", None),
        ("2026-06-28T00:00Z", None, ["okx", "binance"]),
        ("2026-06-29T03:00Z", "2026-06-29T05:00Z", None),
    ],
)
def test_the_same_as_the_slow_reference(
    store: str,
    table: str,
    value: str,
    added: bool,
    resolution: str | None,
    start: str,
    end: str | None,
    venues: Any,
) -> None:
    source = STORES[store]
    if store == "sample":
        venues = venues or ["okx", "deribit"]
    view = View(source, source.now)
    window = resolve(
        {"start": pd.Timestamp(start), "end": end and pd.Timestamp(end)}, now=view.now, tier="pro"
    )
    options = {"venues": venues, "added": added}
    expected = slow_totals.totals(view, table, value, window, resolution, **options)
    for _ in range(2):  # made, then remembered
        found = totals(view, table, value, window, resolution, **options)
        assert (found.used, found.notices) == (expected.used, expected.notices)
        left, right = (
            part.frame.astype({"exchange": object, "value": float, "symbol_count": int}).reset_index(
                drop=True
            )
            for part in (found, expected)
        )
        if len(right):
            pd.testing.assert_frame_equal(left, right, check_dtype=False, rtol=1e-9)
        assert len(left) == len(right)


class Counting(sample.Sample):
    """The sample, which notes how many days are read of it."""

    days = 0.0

    def read(self, table: str, start: pd.Timestamp, end: pd.Timestamp, **kwargs: Any) -> pd.DataFrame:
        self.days += (end - start) / pd.Timedelta(1, "D")
        return super().read(table, start, end, **kwargs)

    def step_sums(self, table: str, start: pd.Timestamp, end: pd.Timestamp, **kwargs: Any) -> Any:
        self.days += (end - start) / pd.Timedelta(1, "D")
        return super().step_sums(table, start, end, **kwargs)


def test_a_window_that_overlaps_reads_the_new_days_alone() -> None:
    """21 days at 4 h are read once (with what reaches into each block); one day more is one day."""
    store = Counting()
    view = View(store, store.now)

    def ask(start: str) -> int:
        window = resolve(
            {"start": pd.Timestamp(start), "end": pd.Timestamp("2026-06-22T00:00Z")}, now=view.now, tier="pro"
        )
        before = store.days
        totals(view, "oi_history", "oi_usd", window, "4h", venues=["okx"])
        return round(store.days - before, 2)

    assert 21 < ask("2026-06-01T00:00Z") < 24
    assert ask("2026-06-01T00:00Z") == 0
    assert 1 < ask("2026-05-31T00:00Z") < 1.3
    assert ask("2026-06-10T00:00Z") == 0


class CancelledOnce(View):
    """A view whose fourth read of sums finds its work cancelled."""

    reads = 0

    def step_sums(self, *args: Any, **kwargs: Any) -> pd.DataFrame:
        self.reads += 1
        if self.reads == 4:
            raise Cancelled
        return super().step_sums(*args, **kwargs)


def test_cancelled_work_keeps_the_days_that_it_had_made() -> None:
    """Blocks are of 1, 2, 4 and 8 days: the fourth is cancelled, and seven days are kept of 59."""
    store = Counting()
    view = CancelledOnce(store, store.now)

    def ask(end: str) -> float:
        window = resolve(
            {"start": pd.Timestamp("2026-04-01T00:00Z"), "end": pd.Timestamp(end)}, now=view.now, tier="pro"
        )
        before = store.days
        totals(view, "oi_history", "oi_usd", window, "4h", venues=["okx"])
        return store.days - before

    with pytest.raises(Cancelled):
        ask("2026-05-30T00:00Z")
    assert store.days > 7
    assert ask("2026-04-08T00:00Z") == 0
    assert 52 < ask("2026-05-30T00:00Z") < 54


@pytest.mark.parametrize("store", list(STORES))
@pytest.mark.parametrize(("table", "value", "added"), COLUMNS)
@pytest.mark.parametrize("resolution", ["raw", "15m", "1h", "4h"])
def test_a_series_in_blocks_is_the_series_in_one_piece(
    store: str, table: str, value: str, added: bool, resolution: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From one day and from 300 rows a block, which is a day again, to all at once."""
    source = STORES[store]
    view = View(source, source.now)
    window = resolve({"start": pd.Timestamp("2026-06-26T05:00Z")}, now=view.now, tier="pro")
    found = []
    for days, rows in ((1, 300), (1, 10**9), (30, 10**9)):
        monkeypatch.setattr(views, "_FIRST_DAYS", days)
        monkeypatch.setattr(views, "_BLOCK_ROWS", rows)
        found.append(view.series(table, value, window, resolution, symbols=["BTC", "ETH"], added=added))
    for other in found[:2]:
        assert (other.used, other.notices) == (found[2].used, found[2].notices)
        left, right = (
            part.frame.astype({"symbol": str, "exchange": str}).reset_index(drop=True)
            for part in (other, found[2])
        )
        pd.testing.assert_frame_equal(left, right)


def test_volatility_at_the_money_of_a_day_is_made_once() -> None:
    """Two days are read for the first request; a third day is all that a longer one reads."""
    store = Counting()
    with closing(service.start(store, keys=KEYS, now="2026-06-28")) as local:
        ask = Caller(local)
        ask.body("/options/atm-history", symbol="BTC", exchange="deribit", range="2d")
        before = store.days
        assert before > 2
        body = ask.body("/options/atm-history", symbol="BTC", exchange="deribit", range="3d")
        assert store.days - before < 1.2
        assert {row["hour"][:10] for row in body["data"]} == {
            "2026-06-25",
            "2026-06-26",
            "2026-06-27",
            "2026-06-28",
        }
        ask.session.close()
