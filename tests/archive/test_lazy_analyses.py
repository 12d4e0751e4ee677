"""Every analysis that is lazy runs on a panel of an archive, and gives what the same rows give in memory."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import dask
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import derivdata as dd
from derivdata.analysis import align, basis, funding, oi, volatility
from derivdata.sources.archive import Archive
from tests.analysis.funding_made import dollars
from tests.analysis.test_funding_properties import SAMPLED, SETTLED

pytest.importorskip("dask.array")

START, END = pd.Timestamp("2026-01-01"), pd.Timestamp("2026-01-27T16:00")
GRID = pd.date_range(START, END, freq="8h", inclusive="left").as_unit("us").to_numpy()
CHUNK = 40
TABLES = {
    "funding_settlements": "rate_bps_8h",
    "funding_history": "rate_bps_8h",
    "oi_history": "oi_usd",
    "volume_history": "volume_usd",
    "prices_history": "price_usd",
}

Panels = dict[str, xr.DataArray]

CASES: dict[str, Callable[[Panels], Any]] = {
    "align.align": lambda x: align.align(x["funding_history"], "16h"),
    "funding.cumulative": lambda x: funding.cumulative(x["funding_settlements"]),
    "basis.against": lambda x: basis.against(x["prices_history"], 0.99 * x["prices_history"]),
    "basis.against, a venue": lambda x: basis.against(x["prices_history"], "v01"),
    "oi.by_kind": lambda x: oi.by_kind(x["oi_history"]),
    "oi.hhi": lambda x: oi.hhi(oi.market_share(x["oi_history"], venues=["v00", "v01"])),
    "oi.in_coins": lambda x: oi.in_coins(x["oi_history"], x["prices_history"]),
    "oi.market_share": lambda x: oi.market_share(x["oi_history"], venues=["v00", "v01", "v02"]),
    "oi.migration": lambda x: oi.migration(x["oi_history"], START, START + pd.Timedelta("80h")),
    "oi.oi_to_volume": lambda x: oi.oi_to_volume(x["oi_history"], x["volume_history"]),
    "oi.share_trend": lambda x: oi.share_trend(oi.market_share(x["oi_history"], venues=["v00", "v01"])),
    "volatility.bars": lambda x: volatility.bars(x["prices_history"], step="1d"),
    "volatility.bipower": lambda x: volatility.bipower(x["prices_history"], "2d"),
    "volatility.cone": lambda x: volatility.cone(
        volatility.bars(x["prices_history"], step="1d"), ["3d", "6d"]
    ),
    "volatility.implied_minus_realised": lambda x: volatility.implied_minus_realised(
        volatility.realised(volatility.bars(x["prices_history"], step="1d"), "5d") * 1.1,
        volatility.realised(volatility.bars(x["prices_history"], step="1d"), "5d"),
        window="3d",
    ),
    "volatility.realised": lambda x: volatility.realised(
        volatility.bars(x["prices_history"], step="1d"), "5d"
    ),
}
CLOSE = {"oi.migration"}
"""Sums over chunks in another order: equal to 1e-12 of the largest, all others to the bit."""

AT_ONCE = {name for name in CASES if name.startswith("volatility.")} - {"volatility.bipower"}
"""Made of bars, which are computed when they are asked for: a bar is few numbers for many prices."""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    """Five tables of two symbols on four venues in two files each; a tenth of the rates is missing."""
    archive = dd.open_archive(tmp_path_factory.mktemp("lazy") / "derivs")
    sampled = SAMPLED.fillna(0.0)
    columns = {
        "funding_settlements": (SETTLED, {"interval_hours": 8.0, "kind": "settled"}),
        "funding_history": (SAMPLED, {"resolution": "8h", "kind": "sampled"}),
        "oi_history": (dollars(sampled, gaps=0.0), {"resolution": "8h"}),
        "volume_history": (dollars(sampled, seed=3, gaps=0.0), {"resolution": "8h"}),
        "prices_history": (np.exp(0.01 * sampled), {"resolution": "8h", "kind": "mark"}),
    }
    for table, (panel, constants) in columns.items():
        rows = panel.rename(TABLES[table]).to_series().dropna().reset_index().assign(**constants)
        if table == "funding_settlements":
            rows["rate_native"] = rows["rate_bps_8h"] * 1e-4
        rows["time"] = rows["time"].dt.tz_localize("UTC")
        frame = dd.tables.TABLES[table].conform(rows)
        if table == "prices_history":
            index = dd.tables.TABLES[table].conform(
                frame.assign(kind="index", price_usd=frame["price_usd"] + 1.0)
            )
            archive.merge(table, index)
        for part in (frame[frame["time"].dt.day < 12], frame[frame["time"].dt.day >= 12]):
            archive.merge(table, part)
    return archive


@pytest.fixture(scope="module")
def lazy(archive: Archive) -> Panels:
    window = {"start": START, "end": END, "step": "8h", "chunks": CHUNK}
    kinds = {"prices_history": {"kind": "index"}}
    return {
        table: archive.panel(table, column, **window, **kinds.get(table, {}))
        for table, column in TABLES.items()
    }


@pytest.fixture(scope="module")
def eager(archive: Archive) -> Panels:
    """The same rows as `read` gives them, in one piece."""
    found = {}
    for table, column in TABLES.items():
        rows = archive.read(table, START.tz_localize("UTC"), END.tz_localize("UTC"))
        if table == "prices_history":
            rows = rows[rows["kind"] == "index"]
        found[table] = dd.panel(rows, column).reindex(time=GRID)
    return found


def _no_work(*_: Any, **__: Any) -> None:
    raise AssertionError("something was computed before it was asked for")


def test_every_lazy_analysis_of_a_panel_is_here() -> None:
    """Those of funding are in test_funding_properties; else a join of two tables is left."""
    modules = {"align": align, "basis": basis, "oi": oi, "volatility": volatility}
    public = {
        f"{name}.{each}"
        for name, module in modules.items()
        for each in module.__all__
        if inspect.isfunction(getattr(module, each))
    }
    assert public - {name.partition(",")[0] for name in CASES} == {"align.asof_join"}


@pytest.mark.parametrize("name", CASES)
def test_a_lazy_panel_of_an_archive_gives_the_numbers_of_memory(
    name: str, lazy: Panels, eager: Panels
) -> None:
    with dask.config.set(scheduler="synchronous" if name in AT_ONCE else _no_work):
        found = CASES[name](lazy)
    assert dask.is_dask_collection(found) == (name not in AT_ONCE)
    with dask.config.set(scheduler="synchronous"):
        found = found.compute()
    expected = CASES[name](eager)
    if name in CLOSE:
        xr.testing.assert_allclose(found, expected, rtol=1e-12, atol=0.0)
    else:
        xr.testing.assert_equal(found, expected)


def test_the_panels_have_holes_and_chunks(lazy: Panels, eager: Panels) -> None:
    """What is compared is no constant: a tenth of the rates is missing, and time is in two chunks."""
    assert np.isnan(eager["funding_settlements"]).mean() > 0.05
    assert len(lazy["funding_settlements"].chunks[-1]) == 2
