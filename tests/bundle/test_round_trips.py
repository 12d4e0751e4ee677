"""The sample recorded, replayed and saved: tables are equal, and each response gives its table again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import xarray as xr

import derivdata as dd
from derivdata import bundle
from derivdata.tables import TABLES
from tests.reliability.calls import function
from tests.reliability.calls.fetchers import FETCHERS

Market = tuple[Path, dict[str, Any]]

SAVED = ["funding_history", "funding_snapshot", "oi_history", "liquidations_events", "options_snapshot"]
ELSEWHERE = {"oi_sparklines", *(f"options_{name}_history" for name in ("atm", "overview", "surface"))}
"""Responses of another table, parts of responses, and surfaces."""


def fetched() -> dict[str, Any]:
    """The result of every fetcher, by its table or name."""
    calls = {name: given for name, given in FETCHERS.items() if name != "liquidations.poll"}
    return {name.replace(".", "_"): function(name)(**given) for name, given in calls.items()}


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Market:
    """Return a folder with a recording of the sample and an empty one, and the data fetched meanwhile."""
    folder = tmp_path_factory.mktemp("market")
    dd.connect("sample", cache="off")
    with bundle.record(folder / "empty.ddz"):
        pass
    with bundle.record(folder / "all.ddz"):
        live = fetched()
    dd.disconnect()
    return folder, live


@pytest.mark.usefixtures("no_sockets")
def test_a_replay_gives_identical_frames_and_surfaces(market: Market) -> None:
    folder, live = market
    with bundle.replay(folder / "all.ddz") as replay:
        again = fetched()
    assert (replay.source, replay.synthetic) == ("sample", True)
    assert replay.asof == pd.Timestamp("2026-06-30T12:00:00Z")
    for name, result in live.items():
        assert len(result) > 0
        if isinstance(result, xr.Dataset):
            assert again[name].identical(result)
        else:
            pd.testing.assert_frame_equal(again[name], result, check_exact=True)
            assert again[name].attrs == result.attrs


@pytest.mark.parametrize("name", SAVED)
def test_parquet_and_csv_round_trip_through_the_schema(name: str, market: Market, tmp_path: Path) -> None:
    frame = market[1][name]
    frame.to_parquet(tmp_path / "x.parquet")
    frame.to_csv(tmp_path / "x.csv", index=False)
    back = pd.read_parquet(tmp_path / "x.parquet")
    assert dd.provenance(back) == dd.provenance(frame)
    for read in (back, pd.read_csv(tmp_path / "x.csv")):
        pd.testing.assert_frame_equal(TABLES[name].conform(read), frame, check_exact=True)


def test_every_recorded_response_rebuilds_its_table(market: Market) -> None:
    """The difference from an empty recording has all rows of all tables."""
    folder, live = market
    difference = bundle.bundle_diff(folder / "all.ddz", folder / "empty.ddz")
    assert set(difference.answers["change"]) == {"only in a"}
    counts = dict(zip(difference.answers["table"], difference.answers["rows"], strict=True))
    tables = live.keys() & TABLES.keys() - ELSEWHERE
    assert {name: counts[name] for name in tables} == {name: len(live[name]) for name in tables}
    for name in ("funding_snapshot", "oi_exchanges", "options_snapshot", "markets_symbols"):
        frame, rows = live[name], difference.rows[name]
        key = [column for column in TABLES[name].key if column in rows]
        rebuilt_keys = rows[key].astype(str).sort_values(key, ignore_index=True)
        live_keys = frame[key].astype(str).sort_values(key, ignore_index=True)
        assert rebuilt_keys.to_numpy().tolist() == live_keys.to_numpy().tolist()
        number = next(column for column in TABLES[name].columns if frame[column].dtype == "float64")
        assert rows[f"{number}_a"].sum() == pytest.approx(frame[number].sum(), rel=1e-12)
        assert rows[f"{number}_b"].isna().all()
