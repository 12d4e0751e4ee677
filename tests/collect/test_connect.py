"""``dd.connect("venues")`` against the fake venues: fetched, kept, requested once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

import derivdata as dd
from derivdata.archive import open_archive
from derivdata.collect import read_through
from derivdata.errors import DataNotice
from tests.collect.fakes import Fakes, SimulatedClock

LAST = int(pd.Timestamp("2026-01-21", tz="UTC").timestamp())


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock("2026-01-20T10:30:30")


@pytest.fixture
def fakes(clock: SimulatedClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fakes]:
    monkeypatch.setenv("DERIVDATA_CACHE_DIR", str(tmp_path / "cache"))
    with Fakes(LAST, clock.utc) as running:

        def opened(archive: str | None = None, venues: list[str] | None = None) -> read_through.ReadThrough:
            return read_through.ReadThrough(
                open_archive(archive or tmp_path / "market"),
                venues=venues,
                clock=clock,
                addresses=running.addresses,
            )

        monkeypatch.setattr(read_through, "open_venues", opened)
        yield running
    dd.disconnect()


def _asked(fakes: Fakes, ending: str) -> int:
    return sum(place.endswith(ending) for _, place, _, _ in fakes.log)


def test_settlements_are_fetched_kept_and_requested_once(fakes: Fakes, clock: SimulatedClock) -> None:
    dd.connect("venues", venues=["binance", "bybit"])
    rows = dd.funding.settlements("BTC", "2026-01-12", "2026-01-15")
    for exchange in ("binance", "bybit"):
        found = rows[rows["exchange"] == exchange]
        first, end = (pd.Timestamp(t, tz="UTC").timestamp() for t in ("2026-01-12", "2026-01-15"))
        truth = [p for p in fakes.truth.payments(exchange, "BTC") if first <= p[0] < end]
        assert found["time"].tolist() == [pd.Timestamp(s, unit="s", tz="UTC") for s, _, _ in truth]
        assert found["interval_hours"].tolist() == [hours for _, hours, _ in truth]
    before = _asked(fakes, "fundingRate")
    clock.wait(300)
    again = dd.funding.settlements("BTC", "2026-01-12", "2026-01-15")
    pd.testing.assert_frame_equal(again, rows)
    assert _asked(fakes, "fundingRate") == before


def test_the_state_is_that_of_the_last_minute(fakes: Fakes, clock: SimulatedClock) -> None:
    dd.connect("venues", venues=["bybit", "okx", "hyperliquid"])
    assert dd.asof() == clock.utc().floor("min")
    rows = dd.funding.snapshot()
    bps = rows[rows["symbol"] == "BTC"].set_index("exchange")["rate_bps_8h"].to_dict()
    assert bps == pytest.approx({"bybit": 4.0, "okx": 3.0, "hyperliquid": 1.0})
    polls = _asked(fakes, "/v5/market/tickers")
    dd.markets.symbols()
    assert _asked(fakes, "/v5/market/tickers") == polls  # younger than a minute
    clock.wait(120)
    assert dd.asof() == clock.utc().floor("min")
    dd.markets.symbols()
    assert _asked(fakes, "/v5/market/tickers") > polls


def test_a_venue_that_cannot_be_had_is_one_notice_with_the_reason(
    fakes: Fakes, clock: SimulatedClock
) -> None:
    fakes.faults["bybit"] = [(451, {}, {})]
    dd.connect("venues", venues=["bybit", "okx"])
    with pytest.warns(DataNotice, match="bybit is left out: .*HTTP 451"):
        rows = dd.funding.snapshot()
    assert set(rows["exchange"]) == {"okx"}
    clock.wait(120)
    dd.funding.snapshot()  # said once


def test_open_interest_of_the_past_is_fetched(fakes: Fakes) -> None:
    dd.connect("venues", venues=["okx"])
    rows = dd.oi.history("BTC", "2026-01-19", "2026-01-20", resolution="5m")
    truth = {s: c * m for s, c, m in fakes.truth.oi("BTC")}
    assert len(rows) == 288
    assert all(
        usd == pytest.approx(truth[int(time.timestamp())])
        for time, usd in zip(rows["time"], rows["oi_usd"], strict=True)
    )


def test_a_chain_is_one_instant_with_its_greeks(fakes: Fakes) -> None:
    dd.connect("venues", venues=["okx"])
    chain = dd.options.snapshot("BTC", "okx")
    assert chain["strike"].tolist() == [40000, 50000, 60000]
    assert set(chain["iv"]) == {0.6}


def test_what_no_venue_tells_is_not_found_and_never_the_sample(fakes: Fakes) -> None:
    dd.connect("venues", venues=["okx"])
    with pytest.raises(dd.errors.FetchError):
        dd.hip3.dashboard()


def test_options_of_the_venues_are_refused_for_other_sources() -> None:
    with pytest.raises(ValueError, match="archive= and venues= are for"):
        dd.connect("sample", venues=["okx"])
