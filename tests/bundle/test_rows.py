"""Every fetcher's answer makes its table again from the bundle alone, whatever its parameters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import derivdata as dd
from derivdata import bundle
from derivdata.bundle.difference import BundleDiff

DAY = ("2026-06-01", "2026-06-01T12:00")
CALLS: list[tuple[str, Callable[[], pd.DataFrame]]] = [
    ("funding_snapshot", lambda: dd.funding.snapshot()),
    ("funding_metadata", lambda: dd.funding.metadata()),
    ("funding_history", lambda: dd.funding.history("BTC", *DAY)),
    ("funding_history", lambda: dd.funding.history("BTC", *DAY, venues=["okx", "bybit"], resolution=None)),
    ("funding_settlements", lambda: dd.funding.settlements("ETH", *DAY, venues="okx")),
    ("markets_symbols", lambda: dd.markets.symbols()),
    ("markets_price_movers", lambda: dd.markets.price_movers(min_volume_usd=1e6, limit=5)),
    ("markets_funding_leaders", lambda: dd.markets.funding_leaders(venues=["okx"])),
    ("oi_exchanges", lambda: dd.oi.exchanges()),
    ("oi_history", lambda: dd.oi.history("BTC", *DAY, resolution="4h")),
    ("liquidations_events", lambda: dd.liquidations.events(limit=1000, min_usd=200_000.0)),
    ("liquidations_events", lambda: dd.liquidations.events(since="2026-06-30T11:00", venues=["okx"])),
    ("options_snapshot", lambda: dd.options.snapshot("ETH", "okx")),
    ("options_atm_history", lambda: dd.options.atm_history("BTC", "deribit", "23h")),
    ("liquidations_aggregates", lambda: dd.liquidations.aggregates("12h", group_by="exchange")),
    ("volume_history", lambda: dd.volume.history("BTC", *DAY)),
    ("oi_exchange_totals", lambda: dd.oi.exchange_totals(*DAY)),
    ("orderbook_book", lambda: dd.orderbook.book("BTC", "binance")),
]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[BundleDiff, dict[int, pd.DataFrame]]:
    """All calls recorded and set against a recording of nothing; and what they gave."""
    folder: Path = tmp_path_factory.mktemp("rows")
    frames: dict[int, pd.DataFrame] = {}
    dd.connect("sample", cache="off")
    with bundle.record(folder / "empty.ddz"):
        pass
    with bundle.record(folder / "all.ddz"):
        for number, (_, call) in enumerate(CALLS):
            frames[number] = call()
    dd.disconnect()
    return bundle.bundle_diff(folder / "all.ddz", folder / "empty.ddz"), frames


def test_every_answer_makes_its_table_again(
    recorded: tuple[BundleDiff, dict[int, pd.DataFrame]],
) -> None:
    difference, frames = recorded
    assert len(difference.answers) == len(CALLS)
    assert set(difference.answers["change"]) == {"only in a"}
    made = sorted(zip(difference.answers["table"], difference.answers["rows"], strict=True))
    assert made == sorted((name, len(frames[n])) for n, (name, _) in enumerate(CALLS))


@pytest.mark.parametrize("name", ["funding_snapshot", "oi_exchanges", "options_snapshot", "markets_symbols"])
def test_the_rows_are_the_tables(name: str, recorded: tuple[BundleDiff, dict[int, pd.DataFrame]]) -> None:
    difference, frames = recorded
    [frame] = [frames[n] for n, call in enumerate(CALLS) if call[0] == name]
    rows: Any = difference.rows[name]
    table = dd.tables.TABLES[name]
    key = [k for k in table.key if k in rows]
    assert sorted(map(tuple, rows[key].to_numpy())) == sorted(map(tuple, frame[key].astype(str).to_numpy()))
    [number] = [c for c in table.columns if frame[c].dtype == "float64"][:1]
    assert rows[f"{number}_a"].sum() == pytest.approx(frame[number].sum(), rel=1e-12)
    assert rows[f"{number}_b"].isna().all()
