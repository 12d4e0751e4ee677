"""Recorded data imported, served and fetched over HTTP, against values read by eye in the files."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import derivdata as dd
from derivdata.cli import main
from derivdata.errors import DataNotice
from tests.support.real_archive import real_archive
from tests.support.timestamps import at


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return real_archive(tmp_path_factory)


@pytest.fixture
def served(archive: Path) -> None:
    dd.connect(str(archive))


@pytest.mark.usefixtures("served")
def test_settlements_of_every_venue_round_trip_in_utc_and_bps() -> None:
    frame = dd.funding.settlements("BTC", "2020-01-01", "2020-01-02")
    rates = frame.set_index(["exchange", "time"])["rate_bps_8h"]
    assert rates[("binance", at("2020-01-01"))] == pytest.approx(-1.2359, abs=1e-12), "03:00 of UTC+3"
    assert rates[("gateio", at("2020-01-01T16:00"))] == pytest.approx(0.26, abs=1e-12)
    later = dd.funding.settlements(["BTC", "ETH"], "2022-01-01", "2022-01-02")
    rates = later.set_index(["symbol", "exchange", "time"])["rate_bps_8h"]
    assert rates[("BTC", "dydx", at("2022-01-01T01:00"))] == pytest.approx(3.20868, abs=1e-12)
    hours = later.groupby("exchange", observed=True)["interval_hours"].unique().map(list)
    assert hours["dydx"] == [1.0]
    assert hours["kucoin"] == [8.0]
    kucoin = later[later["exchange"] == "kucoin"]
    assert sorted(set(kucoin["time"].dt.hour)) == [4, 12, 20]
    assert set(later["kind"]) == {"settled"}
    assert dd.provenance(later)["source"] == "real"
    assert dd.provenance(later)["synthetic"] is False


@pytest.mark.usefixtures("served")
def test_snapshots_of_39_venues_round_trip_as_history() -> None:
    raw = dd.funding.history("BTC", "2026-08-09T21:45", "2026-08-09T22:00", resolution="raw")
    rates = raw.set_index("exchange")["rate_bps_8h"]
    assert len(rates) == 38, "39 venues, one of them null"
    assert (rates["aster"], rates["binance"], rates["zo"]) == (0.7524, 0.9398, -0.08)
    assert "txflow" not in rates
    eth = dd.funding.history("ETH", "2026-08-09T21:45", "2026-08-09T22:00", resolution="raw")
    assert eth.set_index("exchange").loc["vest", "rate_bps_8h"] == -2.3208
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataNotice)
        week = dd.funding.history("BTC", "2026-08-09", "2026-08-16")
    messages = [str(notice.message) for notice in caught]
    assert "txflow is constant at 0.383472 from 2026-08-10 17:00 on in 92 rows" in messages[0], (
        "one venue stood still"
    )
    words = "all 39 series: rows begin at 2026-08-09 21:00; 21 of 168 rows of the 1 h grid are missing"
    assert words in messages[1]
    assert week["exchange"].nunique() == 39
    assert set(week["resolution"]) == {"1h"}


@pytest.mark.usefixtures("served")
def test_open_interest_round_trips_to_the_cent() -> None:
    frame = dd.oi.history("BTC", "2025-03-08T08:00", "2025-03-08T10:00", resolution="raw")
    assert frame["oi_usd"].iloc[0] == pytest.approx(898_745_447.79, abs=0.005)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataNotice)
        whole = dd.oi.history("BTC", "2025-03-08", "2026-03-08")
    message = " ".join(str(warning.message) for warning in caught)
    assert "rows begin at 2025-03-08 08:00; 8 of 8760 rows of the 1 h grid are missing" in message
    assert "rows end at 2026-03-07 07:00; 16 of 8760 rows of the 1 h grid are missing" in message
    assert "BTC hyperliquid: 18 of 8760 rows of the 1 h grid are missing" in message  # 8760 - 8718 - 8 - 16
    assert len(whole) == 8718
    assert whole["oi_usd"].iloc[-1] == pytest.approx(1_706_639_341.00, abs=0.005)
    assert whole["time"].iloc[-1] == at("2026-03-07T07:00")


@pytest.mark.usefixtures("served")
def test_every_liquidation_round_trips_once() -> None:
    frame = dd.liquidations.events(since="2025-05-01", limit=10_000)
    assert len(frame) == 2243
    row = frame.loc[frame["value_usd"].idxmax()]
    assert row["value_usd"] == pytest.approx(356_700.7675, abs=1e-6)
    assert row["time"] == at("2025-05-27T17:07:56.855")
    assert (row["symbol"], row["fill_price_usd"]) == ("ETH", 2695.0)
    assert np.isnan(row["quantity"])


def test_option_chain_round_trips_as_a_surface(archive: Path) -> None:
    dd.connect(str(archive), now="2026-01-24T21:30")
    chain = dd.options.snapshot("BTC", "deribit").set_index("instrument_name")
    call = chain.loc["BTC-27MAR26-100000-C"]
    assert (call["iv"], call["delta"], call["vega"]) == (0.3788, 0.27204, 122.4348)
    assert (call["open_interest"], call["underlying_price"]) == (4082.5, 89909.66)
    assert call["expiry"] == at("2026-03-27T08:00")
    assert np.isnan(call["gamma"])
    surface = dd.options.surface("BTC", "deribit")
    recorded = at("2026-01-24T21:18:21.044844")
    assert (chain["time"] == recorded).all(), "served at its own time, not at the service's clock"
    assert pd.Timestamp(surface["as_of"].item(), tz="UTC") == recorded
    years = (at("2026-03-27T08:00") - recorded) / pd.Timedelta("365D")
    assert surface["year_fraction"].sel(expiry="2026-03-27T08:00").item() == pytest.approx(years, rel=1e-12)
    place = {"expiry": "2026-03-27T08:00", "strike": 100_000.0, "side": "call"}
    assert surface["iv"].sel(place).item() == 0.3788
    price = surface["underlying_price"].sel(expiry="2026-03-27T08:00").item()
    assert price == pytest.approx(89909.66, abs=0.1)


@pytest.mark.parametrize(
    ("now", "said", "lacks"),
    [
        ("2026-01-24T21:30", ["BTC on deribit", "hyperliquid"], ["No liquidations", "no liquidations"]),
        ("2026-08-15T12:00", ["Widest spread", "binance"], ["No options on BTC"]),
    ],
)
def test_report_states_available_and_missing_tables_of_an_archive(
    archive: Path, tmp_path: Path, now: str, said: list[str], lacks: list[str]
) -> None:
    out = tmp_path / "real.html"
    options = f"--symbols BTC --window 7d --now {now} --out {out}".split()
    assert main(["report", str(archive), *options]) == 0
    text = out.read_text(encoding="utf-8")
    assert all(words in text for words in said)
    assert any(words in text for words in lacks)
    assert "ynthetic" not in re.sub("<style>.*?</style>", "", text, flags=re.DOTALL)
