"""The sample recorded, replayed and saved: frames come back equal, and each answer makes its table again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import derivdata as dd
from derivdata import bundle
from derivdata.bundle.difference import BundleDiff
from derivdata.tables import TABLES
from tests.reliability.calls import function
from tests.reliability.calls.fetchers import FETCHERS

TABLE_NAMES = ["funding_history", "funding_snapshot", "oi_history", "liquidations_events", "options_snapshot"]


def fetched() -> dict[str, Any]:
    surface = dd.options.surface("BTC", "deribit")
    history = dd.funding.history(["BTC", "ETH"], "1d", venues=["binance", "okx", "hyperliquid"])
    return {
        "funding_history": history,
        "funding_snapshot": dd.funding.snapshot(),
        "oi_history": dd.oi.history("BTC", "6h"),
        "liquidations_events": dd.liquidations.events(limit=1000, min_usd=200_000.0),
        "options_snapshot": dd.options.snapshot("BTC", "deribit"),
        "surface": surface,
        "panel": dd.panel(history, "rate_bps_8h"),
    }


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A recording of the sample, and what was fetched while it was made."""
    folder = tmp_path_factory.mktemp("market")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DERIVDATA_CACHE_DIR", str(folder / "cache"))
        dd.connect("sample")
        with bundle.record(folder / "market.ddz"):
            live = fetched()
        dd.disconnect()
    return folder / "market.ddz", live


@pytest.mark.usefixtures("no_sockets")
def test_a_replay_gives_identical_frames_surfaces_and_panels(market: tuple[Path, dict[str, Any]]) -> None:
    path, live = market
    with bundle.replay(path) as replay:
        again = fetched()
    assert (replay.source, replay.synthetic) == ("sample", True)
    assert replay.asof == pd.Timestamp("2026-06-30T12:00:00Z")
    for name in TABLE_NAMES:
        pd.testing.assert_frame_equal(again[name], live[name], check_exact=True)
        assert again[name].attrs == live[name].attrs
        assert len(live[name]) > 0
    for name in ("surface", "panel"):
        assert again[name].identical(live[name])


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_parquet_and_csv_bring_back_a_table_through_its_schema(
    name: str, market: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    frame = market[1][name]
    frame.to_parquet(tmp_path / "x.parquet")
    frame.to_csv(tmp_path / "x.csv", index=False)
    back = pd.read_parquet(tmp_path / "x.parquet")
    assert dd.provenance(back) == dd.provenance(frame)
    for read in (back, pd.read_csv(tmp_path / "x.csv")):
        pd.testing.assert_frame_equal(TABLES[name].conform(read), frame, check_exact=True)


ELSEWHERE = {"oi_sparklines", *(f"options_{name}_history" for name in ("atm", "overview", "surface"))}
"""Of an answer that is another table's too, of parts of answers, and surfaces."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[BundleDiff, dict[str, pd.DataFrame]]:
    """All calls recorded and set against a recording of nothing; and what they gave."""
    folder: Path = tmp_path_factory.mktemp("rows")
    frames: dict[str, pd.DataFrame] = {}
    dd.connect("sample", cache="off")
    with bundle.record(folder / "empty.ddz"):
        pass
    with bundle.record(folder / "all.ddz"):
        for name, given in FETCHERS.items():
            if (table := name.replace(".", "_")) in TABLES.keys() - ELSEWHERE:
                frames[table] = function(name)(**given)
    dd.disconnect()
    return bundle.bundle_diff(folder / "all.ddz", folder / "empty.ddz"), frames


def test_every_answer_makes_its_table_again(
    recorded: tuple[BundleDiff, dict[str, pd.DataFrame]],
) -> None:
    difference, frames = recorded
    assert len(difference.answers) == len(frames)
    assert set(difference.answers["change"]) == {"only in a"}
    made = sorted(zip(difference.answers["table"], difference.answers["rows"], strict=True))
    assert made == sorted((name, len(frame)) for name, frame in frames.items())


@pytest.mark.parametrize("name", ["funding_snapshot", "oi_exchanges", "options_snapshot", "markets_symbols"])
def test_the_rows_are_the_tables(name: str, recorded: tuple[BundleDiff, dict[str, pd.DataFrame]]) -> None:
    difference, frames = recorded
    frame = frames[name]
    rows: Any = difference.rows[name]
    table = dd.tables.TABLES[name]
    key = [k for k in table.key if k in rows]
    assert sorted(map(tuple, rows[key].to_numpy())) == sorted(map(tuple, frame[key].astype(str).to_numpy()))
    [number] = [c for c in table.columns if frame[c].dtype == "float64"][:1]
    assert rows[f"{number}_a"].sum() == pytest.approx(frame[number].sum(), rel=1e-12)
    assert rows[f"{number}_b"].isna().all()
