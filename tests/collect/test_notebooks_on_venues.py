"""The notebooks that need no more than venues tell, run on ``dd.connect("venues")`` against the fake venues.

Others need more. The cascade needs liquidations that a collector has listened to; the one on three intervals
needs sampled rates of the past, which no venue tells, and a venue that is none of these. Those on
volatility and on the surface need chains of the past, those on FTX and on 10 October recordings of their
days, and the one on past picks reads a file.
"""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import matplotlib as mpl
import pandas as pd
import pytest

import derivdata as dd
from derivdata.sources.archive import open_archive
from derivdata.sources.collect import read_through
from tests.collect.direct import faked
from tests.collect.fakes import SYMBOLS, SimulatedClock
from tests.reliability.promises import SOAK

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
NOW = pd.Timestamp("2026-01-20T10:30:30", tz="UTC")
VENUES = ["binance", "bybit", "okx", "hyperliquid", "gateio", "deribit", "paradex", "aster", "huobi"]

NOTEBOOKS: dict[str, dict[str, str]] = {
    "who_holds_the_open_interest": {'"2025-09-01"': '"2026-01-16"'},  # okx tells of five days
    "a_btc_surface_you_can_defend": {},
    "thirty_day_volatility_from_one_snapshot": {},
    "reproducible_report": {},
    "which_spreads_survive_fees": {
        '["BTC", "ETH", "SOL", "BNB", "LINK", "UNI", "DOT", "TAO"]': repr([*SYMBOLS]),
        '"2026-05-01"': '"2026-01-10"',
    },
}
"""Notebooks, and what stands in their code for symbols and days that the fakes do not have."""

LEFT_OUT = {
    "anatomy_of_a_liquidation_cascade",
    "did_the_picks_pay",
    "eight_hours_four_hours_one_hour",
    "is_volatility_rich",
    "longs_in_the_week_of_ftx",
    "open_interest_on_october_10",
    "spot_perpetual_or_future",
    "what_did_the_surface_move_cost_me",
    "what_was_traded_at_which_volatility",
    "who_is_positioned_how",
}


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """notebooks/record.py, and a connection to the fake venues."""
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.chdir(FOLDER)
    mpl.use("Agg")
    clock = SimulatedClock(f"{NOW:%Y-%m-%dT%H:%M:%S}")
    fakes = faked(int(NOW.timestamp()) + 86_400, clock, monkeypatch)
    fakes.chains = True
    store = read_through.ReadThrough(
        open_archive(tmp_path / "market"), venues=VENUES, clock=clock, addresses=fakes.addresses
    )
    monkeypatch.setattr(read_through, "open_venues", lambda archive=None, venues=None: store)
    return importlib.import_module("record")


def test_every_notebook_is_run_or_left_out() -> None:
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == {*NOTEBOOKS, *LEFT_OUT}


@pytest.mark.parametrize("name", NOTEBOOKS if SOAK else [next(iter(NOTEBOOKS))])
def test_a_notebook_s_code_runs_on_the_venues(name: str, recorder: Any) -> None:
    cells = [
        recorder._SWITCH.sub("LIVE = True", code) for code in recorder.code_cells(FOLDER / f"{name}.ipynb")
    ]
    for old, new in NOTEBOOKS[name].items():
        assert any(old in code for code in cells), "the notebook no longer says this"
        cells = [code.replace(old, new) for code in cells]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dd.errors.DataNotice)
        dd.connect("venues", venues=VENUES)
        names: dict[str, Any] = {}
        outputs = recorder.run(cells, name, names)
    dd.disconnect()
    assert sum("image/png" in shown.get("data", {}) for cell in outputs for shown in cell) == 1
    HELD[name](names)


def _holders(names: dict[str, Any]) -> None:
    """Days of open interest of the four venues that tell of the past, and the last of each is the truth."""
    assert set(names["held"]["exchange"].values) >= {"binance", "gateio", "okx"}
    shares = names["share"].sel(symbol="BTC").isel(time=-1)
    share = shares if not hasattr(shares, "data_vars") else shares["share"]
    assert float(share.sum("exchange")) == pytest.approx(1.0)


def _surface(names: dict[str, Any]) -> None:
    """The fitted volatility at the money is that of the fakes' surface, to a tenth of a point."""
    alone = names["fitted"]
    assert alone.sizes["expiry"] == 4
    assert float(alone["rmse_vol"].max()) < 0.005


def _index(names: dict[str, Any]) -> None:
    """All three ways to the index agree within a point, though strikes are a tenth of the price apart."""
    levels = [*names["levels"].values()]
    assert max(levels) - min(levels) < 1.0
    assert 55.0 < levels[0] < 70.0


def _report(names: dict[str, Any]) -> None:
    """Time goes on between the two reports of a live source, so only their parts are the same."""
    heads = [[line for line in names[report] if "<h2" in line] for report in ("once", "again")]
    assert heads[0] == heads[1] != []
    assert set(names["rates"]["exchange"]) >= {"binance", "okx", "hyperliquid", "aster"}


def _spreads(names: dict[str, Any]) -> None:
    paid = names["paid"]
    assert set(paid["exchange"]) == {"binance", "okx", "gateio", "hyperliquid", "aster"}
    assert set(paid["symbol"]) == set(SYMBOLS)
    assert len(names["result"]) == len(SYMBOLS)


HELD = {
    "who_holds_the_open_interest": _holders,
    "a_btc_surface_you_can_defend": _surface,
    "thirty_day_volatility_from_one_snapshot": _index,
    "reproducible_report": _report,
    "which_spreads_survive_fees": _spreads,
}
