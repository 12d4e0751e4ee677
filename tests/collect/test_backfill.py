"""A month of history of all venues, held to what the fake venues know to have happened."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from derivdata.sources.archive import Archive
from derivdata.sources.collect import backfill
from derivdata.sources.venues.hyperliquid import DEXES
from derivdata.sources.venues.registry import VENUES
from tests.collect.days import hold_settlements
from tests.collect.fakes import SYMBOLS, Fakes, SimulatedClock
from tests.collect.limits import used

NOW = "2026-02-01T00:30:00"
START, END = "2026-01-01", "2026-02-01"
MONTH = pd.Timestamp(START, tz="UTC"), pd.Timestamp(END, tz="UTC")
LAST = int(pd.Timestamp(END, tz="UTC").timestamp()) + 1800
SETTLING = [name for name in VENUES if name not in ("paradex", "coinbase", *DEXES)]  # no fake plays the dexes
UNCONFIRMED = ("kraken",)


@pytest.mark.parametrize("exchange", SETTLING)
def test_a_month_of_settlements_equals_the_truth_row_for_row(
    exchange: str, fill: Any, archive: Archive, fakes: Fakes
) -> None:
    """Though a tenth of the requests fail."""
    fakes.random_faults = 0.1
    options = {"unconfirmed": exchange in UNCONFIRMED}
    done = fill("funding_settlements", exchange, **options)
    assert done.failed == []
    hold_settlements(archive, fakes, [exchange], *MONTH)
    assert used(fakes.log)[exchange] <= 0.25
    again = fill("funding_settlements", exchange, **options)
    assert again.written == {}  # the ledger knows what was asked
    assert len(archive.requests()) == len(SYMBOLS)


@pytest.mark.parametrize("exchange", ["binance", "bitget", "hyperliquid", "kraken"])
def test_a_delisted_contract_has_a_past(exchange: str, fill: Any, archive: Archive, fakes: Fakes) -> None:
    fakes.delisted = True
    options = {"symbols": ["OLD"], "unconfirmed": exchange in UNCONFIRMED}
    assert fill("funding_settlements", exchange, **options).failed == []
    first, end = (moment.timestamp() for moment in MONTH)
    paid = [row[0] for row in fakes.truth.payments(exchange, "OLD") if first <= row[0] < end]
    assert archive.read("funding_settlements", *MONTH)["time"].dt.floor("h").tolist() == [
        pd.Timestamp(second, unit="s", tz="UTC").floor("h") for second in paid
    ]


@pytest.mark.parametrize("exchange", ["binance", "bybit", "okx", "gateio"])
def test_open_interest_of_the_past_equals_the_truth(
    exchange: str, fill: Any, archive: Archive, fakes: Fakes
) -> None:
    """Bybit tells coins: its marks of the same five minutes value them."""
    start = "2026-01-29"
    done = fill("oi_history", exchange, start=start)
    assert done.failed == []
    assert used(fakes.log)[exchange] <= 0.25
    first, end = (pd.Timestamp(t, tz="UTC") for t in (start, END))
    rows = archive.read("oi_history", first, end)
    for symbol in SYMBOLS:
        truth = [r for r in fakes.truth.oi(symbol) if first.timestamp() <= r[0] < end.timestamp()]
        found = rows[rows["symbol"] == symbol]
        assert len(truth) == 864
        assert found["time"].tolist() == [pd.Timestamp(s, unit="s", tz="UTC") for s, _, _ in truth]
        np.testing.assert_allclose(found["oi_usd"], [coins * mark for _, coins, mark in truth], rtol=1e-9)
        assert set(found["resolution"]) == {"5m"}


def test_a_walk_that_breaks_off_writes_no_row_and_is_asked_again(
    fill: Any, archive: Archive, fakes: Fakes
) -> None:
    fill("funding_settlements", "bybit", symbols=["ETH"])
    listing = 3  # requests for the list of contracts
    refused = {"retCode": 10001, "retMsg": "bad", "result": {}, "time": 1}
    fakes.faults["bybit"] = [*[None] * (listing + 1), refused]
    done = fill("funding_settlements", "bybit", symbols=["BTC"])
    assert len(done.failed) == 1
    assert done.failed[0].startswith("bybit funding_settlements BTC: /v5/market/funding/history: ")
    assert "10001" in done.failed[0]
    assert "BTC" not in archive.symbols("funding_settlements")
    asked = archive.requests().set_index("symbol")
    assert asked["answered"].to_dict() == {"BTC": False, "ETH": True}
    assert fill("funding_settlements", "bybit").failed == []
    hold_settlements(archive, fakes, ["bybit"], *MONTH)


def test_a_window_is_asked_only_where_the_ledger_lacks_it(fill: Any, archive: Archive, fakes: Fakes) -> None:
    fill("funding_settlements", "binance", start="2026-01-10")
    fakes.log.clear()
    fill("funding_settlements", "binance")
    asked = [params for _, place, params, _ in fakes.log if place.endswith("fundingRate")]
    ten = pd.Timestamp("2026-01-10", tz="UTC").timestamp() * 1000
    assert asked
    assert all(float(params["endTime"]) <= ten for params in asked)
    hold_settlements(archive, fakes, ["binance"], *MONTH)


@pytest.mark.parametrize("apart", [30, 300])
def test_a_clock_that_differs_is_noticed_or_stops_writing(
    apart: int, archive: Archive, clock: SimulatedClock
) -> None:
    offset = pd.Timedelta(apart, "s")
    with Fakes(LAST, lambda: clock.utc() + offset) as running:
        where: dict[str, Any] = {"clock": clock, "addresses": running.addresses}
        done = backfill(archive, SYMBOLS, START, END, venues=["dydx"], names=["funding_settlements"], **where)
    if apart == 30:
        assert "30 s apart" in done.notices[0]
        assert archive.tables() == {"funding_settlements"}
    else:
        assert "300 s apart: set the clock" in done.failed[0]
        assert archive.tables() == frozenset()


def test_a_long_walk_tells_requests_done_of_how_many(fill: Any, fakes: Fakes) -> None:
    """Phemex: 31 days in steps of 100 hours, and 9 hours before them, are 8 requests."""
    said: list[str] = []
    fill("funding_settlements", "phemex", symbols=["BTC"], progress=said.append)
    asked = sum(place.endswith("funding-rate-history") for _, place, *_ in fakes.log)
    told = [text.rpartition(": ")[2] for text in said[:-1]]
    assert told == ["5 of about 8 requests"], said
    assert asked == 8
