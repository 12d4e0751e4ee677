"""Sources with some of the base tables: results come from the available ones."""

from __future__ import annotations

from contextlib import AbstractContextManager

import pandas as pd

from tests.service import conftest, market
from tests.service.conftest import Caller
from tests.service.market import at
from tests.service.memory_store import MemoryStore


def serving(now: str = market.NOW, **frames: pd.DataFrame) -> AbstractContextManager[Caller]:
    return conftest.serving(MemoryStore(frames, now=now))


def test_settlements_replace_samples_that_are_missing() -> None:
    with serving(funding_settlements=market.settlements()) as ask:
        rates = ask.body("/funding")["funding_rates"]
        assert rates == {"binance": {"BTC": 1.0, "ETH": -0.5}, "hyperliquid": {"BTC": 0.2, "SOL": 12.5}}
        assert ask.body("/markets/funding-leaders")["data"][0]["funding_current_bps"] == 12.5


def test_settlement_is_served_until_its_interval_has_passed() -> None:
    """At 15:30 the settlements of binance at 08:00 over 8 hours are valid, the hourly ones are not."""
    with serving(now="2026-06-30 15:30", funding_settlements=market.settlements()) as ask:
        assert list(ask.body("/funding")["funding_rates"]) == ["binance"]


def test_sample_is_preferred_to_a_settlement() -> None:
    """BTC on binance has both, the others have a settlement only."""
    sampled = market.series(
        "BTC", "binance", [at(market.NOW)], rate_bps_8h=3.0, resolution="raw", kind="sampled"
    )
    with serving(funding_history=sampled, funding_settlements=market.settlements()) as ask:
        rates = ask.body("/funding")["funding_rates"]
        assert rates == {"binance": {"BTC": 3.0, "ETH": -0.5}, "hyperliquid": {"BTC": 0.2, "SOL": 12.5}}
        names = [n["name"] for n in ask.body("/funding/metadata")["exchanges"]["exchange_names"]]
        assert names == ["binance", "hyperliquid"]
        leader = ask.body("/markets/funding-leaders")["data"][0]
        assert (leader["symbol"], leader["funding_current_bps"]) == ("SOL", 12.5)


def test_missing_table_returns_404_with_the_table_to_use_instead() -> None:
    tables = {"history": market.funding(), "settlements": market.settlements()}
    for stored, missing, path in (
        ("settlements", "history", "/funding/historical"),
        ("history", "settlements", "/funding/settlement"),
    ):
        with serving(**{f"funding_{stored}": tables[stored]}) as ask:
            assert ask.error(path, 404, symbol="BTC")["error"] == (
                f"memory does not have funding_{missing}, which this response requires; "
                f"it has funding_{stored}: use dd.funding.{stored}"
            )


def test_snapshot_without_settlements_has_rates_and_no_intervals() -> None:
    with serving(funding_history=market.funding()) as ask:
        body = ask.body("/funding")
        assert body["funding_rates"]["binance"] == {"BTC": 1.0, "ETH": -0.5}
        assert (body["funding_intervals"], body["funding_rates_raw"], body["oi_rankings"]) == ({}, {}, {})
        names = ask.body("/funding/metadata")["exchanges"]["exchange_names"]
        assert names[0] == {"name": "binance", "display": "BINANCE"}
        assert ask.body("/markets/funding-leaders")["data"][0]["oi_rank"] is None


def test_leaderboard_is_computed_from_pair_states_alone() -> None:
    """`markets_symbol_exchanges` carries every figure; a day ago is not known."""
    frame = market.prices().assign(
        volume_24h_usd=2e7,
        oi_usd=[100.0, 50.0, 70.0, 10.0],
        funding_current_bps_8h=1.0,
        funding_avg_7d_bps_8h=3.0,
        liquidation_24h_usd=5.0,
    )
    with serving(markets_symbol_exchanges=frame) as ask:
        top = ask.body("/markets/symbols")["symbols"][0]
        assert (top["symbol"], top["oi_usd"], top["volume_24h_usd"]) == ("BTC", 150.0, 4e7)
        assert (top["liquidation_24h_usd"], top["oi_24h_change_pct"]) == (10.0, None)
        venues = ask.body("/markets/BTC/exchanges")["exchanges"]
        assert [v["funding_avg_7d_bps"] for v in venues] == [3.0, 3.0]
        assert ask.body("/oi/exchanges-summary")["total_market_oi"] == 230.0


def events() -> pd.DataFrame:
    """Return whole orders: one also present as fills, with another value, and one that is not."""
    orders = [market.fill("a1", "2026-06-30 09:00:02", 7.0), market.fill("z9", "2026-06-30 09:30", 8.0)]
    return pd.DataFrame(orders).drop(columns="fill_id").assign(fill_count=1)


def test_order_rows_are_served_once_and_unchanged() -> None:
    with serving(liquidations_events=events()) as ask:
        result = ask.body("/liquidations/events")["events"]
        assert [(e["oid"], e["usd_value"]) for e in result] == [("z9", 8.0), ("a1", 7.0)]
    with serving(liquidations_events=events(), liquidations_fills=market.fills()) as ask:
        result = ask.body("/liquidations/events", exchange="binance", since=0)["events"]
        assert [(e["oid"], e["usd_value"]) for e in result] == [("old", 58000.0), ("a1", 7.0), ("z9", 8.0)]


def test_responses_without_rows_are_empty_not_errors() -> None:
    """A day after the last row nothing holds any more; the past is still there."""
    with serving(
        now="2026-07-01 18:00", funding_history=market.funding(), oi_history=market.open_interest()
    ) as ask:
        assert ask.body("/funding")["funding_rates"] == {}
        assert ask.body("/markets/symbols")["symbols"] == []
        assert ask.body("/oi/exchanges-summary") == {"exchanges": [], "total": 0, "total_market_oi": 0.0}
        assert ask.body("/oi/exchange-totals", start="2026-07-01T01:00Z")["notices"] == [
            "no data in this range"
        ]
        assert ask.body("/oi/BTC/timeseries", range="7d")["data"] != []
    with serving(
        now="2025-08-01", options_snapshot=market.options(), funding_history=market.funding()
    ) as ask:
        for path in ("atm-history", "surface-history", "metrics"):
            body = ask.body(f"/options/{path}", exchange="deribit")
            assert not any(body.get(name) for name in ("data", "hours"))
        assert ask.body("/funding/historical", symbol="BTC")["series"] == {}


def test_rows_without_a_resolution_are_raw() -> None:
    window = {"start": "2026-06-30T00:00Z", "end": "2026-06-30T12:00Z", "resolution": "4h"}
    held = market.open_interest()
    with serving(oi_history=held.assign(resolution="raw")) as ask:
        raw = ask.body("/oi/BTC/timeseries", **window)
    assert raw["data"]
    with serving(oi_history=held.assign(resolution="unstated")) as ask:
        assert ask.body("/oi/BTC/timeseries", **window) == raw
        assert ask.body("/oi/exchanges-summary")
