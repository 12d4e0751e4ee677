"""Figures of real markets that the rules about sizes and patterns do not doubt."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import derivdata as dd
from derivdata.client.snapshot_rules import unlike_black
from derivdata.errors import DataNotice
from derivdata.tables import TABLES
from tests.test_fetch_validation import always, answering

HOURS = pd.date_range("2026-06-01", periods=72, freq="h", tz="UTC")
WINDOW = ("2026-06-01", "2026-06-04")
STAMPS = [f"{stamp:%Y-%m-%dT%H:%M:%SZ}" for stamp in HOURS]


def notices(body: Any, call: Callable[[], object]) -> list[str]:
    with answering(always(body)), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(warning.message) for warning in caught]


def test_premiums_of_options_are_not_prices_of_a_coin() -> None:
    dd.connect("sample")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trades = dd.options.trades(["BTC", "ETH"], "1d")
    assert trades["price_usd"].min() < 350.0
    assert [str(warning.message) for warning in caught] == []


@pytest.mark.parametrize("volume", [0.0, 5e9])
def test_constant_volume_is_not_taken_for_swapped_columns(volume: float) -> None:
    sizes = 1e9 * np.exp(np.cumsum(np.random.default_rng(0).normal(0.0, 0.01, len(STAMPS))))
    rows = [
        {"timestamp": stamp, "oi_usd": size, "volume_usd": volume}
        for stamp, size in zip(STAMPS, sizes.tolist(), strict=True)
    ]
    body = {"exchange": "okx", "resolution": "1h", "data": rows}
    texts = notices(body, lambda: dd.markets.exchange_history("okx", *WINDOW))
    assert not [text for text in texts if "may be swapped" in text]


def chain_evidence(columns: dict[str, Any], time: Any, expiry: Any) -> Any:
    """Return a response of ``options_snapshot`` as the rules see it."""
    evidence: Any = SimpleNamespace(
        table=TABLES["options_snapshot"], columns=columns, size=len(time), time_us=time, words={}
    )
    evidence.micros = {"time": time, "expiry": expiry}.__getitem__
    evidence.numbers = lambda name: columns[name].astype(np.float64)
    return evidence


def test_deltas_may_be_adjusted_by_the_premium() -> None:
    dd.connect("sample")
    chain = dd.options.snapshot("BTC", "deribit")
    times = chain[["time", "expiry"]].apply(lambda stamps: stamps.dt.tz_convert(None))
    stamps = {name: times[name].to_numpy().astype("datetime64[us]").astype("int64") for name in times}
    premium = chain["mark_coin"].to_numpy()
    texts = []
    for delta in (chain["delta"].to_numpy() - premium, -chain["delta"].to_numpy()):
        names = ["side", "iv", "strike", "underlying_price", "mark_coin", "mark_usd"]
        columns = {name: chain[name].to_numpy() for name in names} | {"delta": delta}
        evidence = chain_evidence(columns, stamps["time"], stamps["expiry"])
        texts.append([text for text in unlike_black(evidence) if text.startswith("delta")])
    assert texts[0] == []
    assert len(texts[1]) == 1


def test_an_index_in_place_of_forwards_is_compared_near_its_time_alone() -> None:
    """The forward is 20 % a year above the index; volatilities of half are found at the nearest expiry."""
    strikes = np.linspace(90_000.0, 110_000.0, 11)
    days = np.repeat([7, 180, 365], strikes.size)
    strike = np.tile(strikes, 3)
    years = days / 365
    forward = 100_000.0 * np.exp(0.2 * years)
    mark = dd.analysis.black76.price(forward, strike, years, 0.5, "call")
    time = np.full(days.size, pd.Timestamp("2026-06-01").value // 1000)
    expiry = time + days * 86_400_000_000
    texts = []
    for iv in (0.5, 0.25):
        columns = {
            "side": np.full(days.size, "call", dtype=object),
            "iv": np.full(days.size, iv),
            "strike": strike,
            "underlying_price": np.full(days.size, 100_000.0),
            "mark_usd": np.asarray(mark),
        }
        texts.append([*unlike_black(chain_evidence(columns, time, expiry))])
    assert texts[0] == []
    assert len(texts[1]) == 1
    assert "2026-06-08" in texts[1][0]


@pytest.mark.parametrize(("venue", "is_doubted"), [("deribit", False), ("okx", True)])
def test_small_rates_of_one_venue_are_accepted_from_deribit_only(venue: str, is_doubted: bool) -> None:
    """Deribit's formula has no interest; 1 bps of the others in fractions of a percent would be as small."""
    rates = 0.02 + 0.01 * np.random.default_rng(0).normal(size=len(STAMPS))
    points = [{"timestamp": stamp, "y": rate} for stamp, rate in zip(STAMPS, rates.tolist(), strict=True)]
    body = {"symbol": "BTC", "unit": "bps_8h", "resolution": "1h", "series": {venue: points}, "notices": []}
    texts = notices(body, lambda: dd.funding.history("BTC", *WINDOW, venues=[venue], resolution="1h"))
    assert any("may be fractions or percent" in text for text in texts) is is_doubted


@pytest.mark.parametrize("window", ["3d", "5d"])
def test_hourly_volumes_of_a_whole_venue_are_not_taken_for_sums_of_a_day(window: str) -> None:
    """They change by some 9 % from hour to hour in the sample, and those of one symbol by 30 % and more."""
    dd.connect("sample")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frame = dd.markets.exchange_history("binance", window)
    assert len(frame) == 24 * int(window[0])


@pytest.mark.parametrize(("rows", "factor"), [(12, 10.0), (48, 10.0), (48, 1 / 30)])
def test_some_days_at_another_level_are_far_from_the_usual(rows: int, factor: float) -> None:
    """Open interest of one of three venues, 500 hours; a level that lasts for months is not doubted."""
    times = pd.date_range("2026-06-01", periods=500, freq="h")
    wave = 1.0 + 0.02 * np.sin(np.arange(500) / 7.0)
    data = []
    for venue, level in (("binance", 5e9), ("bybit", 4e9), ("okx", 3e9)):
        values = level * wave
        if venue == "okx":
            values[200 : 200 + rows] *= factor
        data += [
            {"exchange": venue, "timestamp": f"{time.isoformat()}Z", "open_interest_usd": value}
            for time, value in zip(times, values.tolist(), strict=True)
        ]
    body = {"symbol": "BTC", "resolution": "1h", "data": data}
    with answering(always(body)), pytest.warns(DataNotice, match=f"BTC okx; {rows} of 1500 rows"):
        dd.oi.history("BTC", "2026-06-01", "2026-06-21T20:00")
