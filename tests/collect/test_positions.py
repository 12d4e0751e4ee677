"""Positioning and taker volume of venues, compared with the fake venues' figures."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from derivdata.sources import venues
from derivdata.sources.collect import Collector, backfill
from tests.collect.positions import KINDS, delivered, dvol, long_share, spot, taken, traded

NOW = "2026-01-20T10:30:00"
END = pd.Timestamp("2026-01-20T10:00", tz="UTC")
HOUR, MINUTES = pd.Timedelta(1, "h"), pd.Timedelta(5, "min")
TOLD = {
    # What a venue tells: kinds, the step, how long a step lasts before its state is stamped, and how far back
    "binance": (KINDS, MINUTES, pd.Timedelta(0), "3D"),
    "bybit": (("accounts",), HOUR, HOUR, "3D"),
    "okx": (KINDS, HOUR, HOUR, "7D"),
    "gateio": (KINDS, MINUTES, MINUTES, "3D"),
    "bitget": (("accounts", "positions"), HOUR, HOUR, "24h"),
    "huobi": (("top_accounts", "top_positions"), HOUR, HOUR, "24h"),
    "kraken": (("accounts",), HOUR, HOUR, "7D"),
}


@pytest.mark.parametrize("venue", TOLD)
def test_positioning_history_equals_the_truth(fill, archive, fakes, venue) -> None:
    kinds, step, lasts, back = TOLD[venue]
    start = END - pd.Timedelta(back)
    assert fill("positioning_history", venue, start=start).failed == []
    rows = archive.read("positioning_history", start, END)
    assert set(rows["kind"]) == set(kinds)
    times = pd.date_range(start, END, freq=step, inclusive="left")
    for kind, part in rows.groupby("kind", observed=True):
        assert part["time"].tolist() == times.tolist()
        longs = [long_share("BTC", str(kind), int((time - lasts).timestamp())) for time in times]
        np.testing.assert_allclose(part["long_share"], longs, rtol=1e-9)
        np.testing.assert_allclose(part["short_share"], 1 - np.array(longs), rtol=1e-9)
        np.testing.assert_allclose(part["long_short_ratio"], np.array(longs) / (1 - np.array(longs)))
    before = len(fakes.log)
    assert fill("positioning_history", venue, start=start).written == {}
    assert not [
        place for _, place, _, _ in fakes.log[before:] if "ratio" in place.lower()
    ]  # the ledger has it


@pytest.mark.parametrize(
    ("venue", "step"),
    [(v, HOUR) for v in ("binance", "aster", "okx", "bitget", "kraken")] + [("gateio", MINUTES)],
)
def test_taker_volume_history_equals_the_truth(fill, archive, venue, step) -> None:
    """Bitget and Kraken state coins, which count at the mark of the step's start."""
    start = END - pd.Timedelta(1, "D")
    done = fill("volume_taker", venue, start=start, unconfirmed=True)
    assert done.failed == []
    rows = archive.read("volume_taker", start, END)
    times = pd.date_range(start, END, freq=step, inclusive="left")
    assert rows["time"].tolist() == times.tolist()
    expected = [taken("BTC", int(time.timestamp())) for time in times]
    np.testing.assert_allclose(rows[["buy_usd", "sell_usd"]].to_numpy(), expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("venue", "quote"),
    [("binance", "USDT"), ("bybit", "USDT"), ("coinbase", "USD"), ("kraken", "USD"), ("okx", "USDT")],
)
def test_spot_price_history_equals_the_truth(fill, archive, venue, quote) -> None:
    start = END - pd.Timedelta(3, "D")
    assert fill("prices_spot", venue, start=start).failed == []
    rows = archive.read("prices_spot", start, END)
    times = pd.date_range(start, END, freq=HOUR, inclusive="left")
    assert rows["time"].tolist() == times.tolist()
    assert set(rows["quote"]) == {quote}
    assert rows["price"].tolist() == [spot(int(time.timestamp())) for time in times]


@pytest.mark.parametrize("venue", ["binance", "okx", "gateio"])
def test_current_step_is_requested_again_after_its_end(archive, fakes, clock, venue) -> None:
    """At 10:30 the hour of 10:00 has no row yet, and at 11:05 it may be missing; a later backfill adds it."""
    start = END - pd.Timedelta(1, "D")
    where: dict[str, Any] = {"venues": [venue], "clock": clock, "addresses": fakes.addresses}
    assert backfill(archive, ["BTC"], start, names=["volume_taker"], **where).failed == []
    clock.wait(35 * 60)
    assert backfill(archive, ["BTC"], start, names=["volume_taker"], **where).failed == []
    assert archive.requests()["end"].max() == clock.utc().floor("h") - HOUR
    clock.wait(85 * 60)
    assert backfill(archive, ["BTC"], start, names=["volume_taker"], **where).failed == []
    rows = archive.read("volume_taker", start, END + 2 * HOUR)
    step = TOLD[venue][1] if venue == "gateio" else HOUR
    assert rows["time"].tolist() == pd.date_range(start, END + 2 * HOUR, freq=step, inclusive="left").tolist()


def _timestamps(start: pd.Timestamp, step: str) -> list[int]:
    """Return the seconds of a window that are on a step of the day."""
    return [int(time.timestamp()) for time in pd.date_range(start, END, freq=step, inclusive="left")]


OF_OPTIONS: dict[str, tuple[str, Any]] = {
    "options_trades": (
        "trade_id",
        lambda start: sorted(
            (row["timestamp"], row["trade_id"]) for row in map(traded, _timestamps(start, "10min"))
        ),
    ),
    "delivery_prices": (
        "price_usd",
        lambda start: [
            (second * 1000, delivered(second // 86400))
            for second in _timestamps(start, "h")
            if second % 86400 == 8 * 3600
        ],
    ),
    "volatility_index_published": (
        "index_pct",
        lambda start: [(second * 1000, dvol(second - 3600)) for second in _timestamps(start, "h")],
    ),
}


@pytest.mark.parametrize(
    ("table", "venue"), [*((table, "deribit") for table in OF_OPTIONS), ("delivery_prices", "binance")]
)
def test_option_history_equals_the_truth(fill, archive, fakes, table, venue) -> None:
    start, (column, wanted) = END - pd.Timedelta(2, "D"), OF_OPTIONS[table]
    assert fill(table, venue, start=start).failed == []
    rows = archive.read(table, start, END)
    assert [
        (time.timestamp() * 1000, value) for time, value in zip(rows["time"], rows[column], strict=True)
    ] == (wanted(start))
    requests = len(fakes.log)
    assert fill(table, venue, start=start).written == {}
    lists = {"/public/get_instruments", "/fapi/v1/exchangeInfo", "/dapi/v1/exchangeInfo"}
    assert {place for _, place, _, _ in fakes.log[requests:]} <= lists


def test_collector_polls_option_trades_if_the_table_is_chosen(archive, fakes, clock) -> None:
    """100 trades of each family reach back five minutes: the ledger has so much and no more."""

    def collect(*names: str) -> dict[str, int]:
        return Collector(
            archive, venues=["okx"], names=names or None, clock=clock, addresses=fakes.addresses
        ).once()  # fmt: skip

    assert "options_trades" not in collect()
    assert collect("options_trades") == {"options_trades": 200}
    clock.wait(600)
    assert collect("options_trades") == {"options_trades": 200}
    rows = archive.read("options_trades", END, END + HOUR, symbols=["BTC"])
    assert set(rows["size"]) == {30 * 0.01}
    ledger = archive.requests().query("table == 'options_trades' and symbol == 'BTC'").sort_values("start")
    assert ledger["start"].tolist() == rows["time"].iloc[[0, 100]].tolist()
    (gap,) = archive.unanswered("options_trades", "okx", "BTC", rows["time"].iloc[0], rows["time"].iloc[-1])
    assert gap == (ledger["end"].iloc[0], rows["time"].iloc[100])


def test_hour_without_shorts_has_no_ratio_and_other_rows_stay() -> None:
    """As kraken reports the first hours after a listing."""
    told = {
        "timestamp": [1768860000, 1768863600, 1768867200],
        "data": {"longCount": [0, 4, 6], "shortCount": [0, 0, 3]},
    }
    body = json.dumps({"result": told, "errors": []})
    rows = venues.read("kraken", "/api/charts/v1/analytics/PF_XBTUSD/long-short-info?interval=3600", body)
    assert rows["positioning_history"]["long_short_ratio"].tolist() == [2.0]


def test_collector_refills_positioning_if_the_table_is_chosen(archive, fakes, clock) -> None:
    def collect(*names: str) -> dict[str, int]:
        return Collector(
            archive, venues=["bybit"], symbols=["BTC"], names=names or None, since=pd.Timedelta(1, "D"),
            clock=clock, addresses=fakes.addresses,
        ).once()  # fmt: skip

    assert "positioning_history" not in collect()
    assert collect("positioning_history") == {"positioning_history": 24}
