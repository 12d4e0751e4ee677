"""Every fetcher returns its table, with the values that are on the wire."""

from __future__ import annotations

import json
import warnings
from contextlib import nullcontext
from typing import Any

import pandas as pd
import pytest
from vcr.errors import CannotOverwriteExistingCassetteException as UnrecordedRequest

import derivdata as dd
from derivdata.errors import DataNotice
from derivdata.matrix import FAMILIES
from derivdata.tables.definitions import OPEN_TABLES
from tests.support.cassettes import FOLDER, KEY, ORIGINS, origin, playing
from tests.support.rows import few_rows
from tests.support.timestamps import at

DAY = ("2026-06-01", "2026-06-02")
NOON, ANSWERED = at("2026-06-30T12:00:00"), at("2026-06-30T12:00:05")
FIRST, NOON_OF_FIRST = at("2026-06-01"), at("2026-06-01T12:00")

CASES: list[tuple[str, str, tuple[Any, ...], dict[str, Any]]] = [
    ("funding", "snapshot", (), {}),
    ("funding", "metadata", (), {}),
    ("funding", "history", ("BTC", *DAY), {"resolution": "8h"}),
    ("funding", "settlements", ("BTC", *DAY), {}),
    ("markets", "symbols", (), {}),
    ("markets", "price_movers", (), {"min_volume_usd": 1e6, "limit": 2}),
    ("markets", "funding_leaders", (), {"venues": ["okx", "binance"]}),
    ("oi", "exchanges", (), {}),
    ("oi", "sparklines", (), {}),
    ("oi", "history", ("BTC", *DAY), {"resolution": "12h"}),
    ("liquidations", "events", (), {"limit": 3}),
    ("options", "snapshot", ("BTC", "deribit"), {}),
    ("volume", "history", ("BTC", *DAY), {"resolution": "12h"}),
    ("oi", "exchange_totals", DAY, {"resolution": "12h"}),
    ("volume", "taker", ("BTC", *DAY), {"resolution": "12h"}),
    ("volume", "exchange_totals", DAY, {"resolution": "12h"}),
    ("volume", "oi_ratio", DAY, {"resolution": "12h", "window_days": 1}),
    ("oi", "top_symbols", ("binance", *DAY), {"limit": 2}),
    ("volume", "top_symbols", ("binance", *DAY), {}),
    ("orderbook", "book", ("BTC", "binance"), {"limit": 2}),
    ("orderbook", "depth_history", ("BTC", "binance", *DAY), {"resolution": "12h"}),
    ("futures", "history", ("BTC", *DAY), {"resolution": "12h"}),
    ("positioning", "history", ("BTC", *DAY), {"resolution": "12h"}),
    ("prices", "spot", ("BTC", *DAY), {"quote": "USD", "resolution": "12h"}),
    ("prices", "history", ("BTC", *DAY), {"kind": "index", "resolution": "12h"}),
    ("options", "trades", ("BTC", *DAY), {}),
    ("delivery", "prices", ("BTC", *DAY), {}),
    ("volatility", "index_published", ("BTC", *DAY), {"resolution": "12h"}),
    ("options", "metrics", ("BTC", "deribit"), {}),
    ("options", "atm_history", ("BTC", "deribit", "6h"), {}),
    ("options", "overview_history", ("6h",), {}),
    ("liquidations", "history", (None, *DAY), {"resolution": "12h"}),
    ("liquidations", "aggregates", ("4h",), {"group_by": "exchange"}),
    ("markets", "price_buckets", (), {}),
    ("markets", "exchanges", (), {}),
    ("markets", "exchange_symbols", ("binance",), {}),
    ("markets", "symbol_exchanges", ("BTC",), {}),
    ("markets", "symbol_stats", ("BTC",), {}),
    ("markets", "exchange_history", ("binance", *DAY), {}),
    ("rwa", "market_hours", ("XNYS",), {}),
]
VALUES: dict[str, list[Any]] = {
    "funding.snapshot rate_bps_8h": [0.94, 1.0, -0.5],  # a null rate is no row
    "funding.metadata display_name": ["EDGEX", "HTX", "QFEX"],
    "funding.metadata interval_hours": [4.0, 8.0, None],
    "funding.history rate_bps_8h": [0.94, 1.0, -0.25],  # the window is half-open
    "funding.settlements rate_bps_8h": [0.8, 1.0, -4.0],
    "funding.settlements interval_hours": [8.0, 1.0, 1.0],
    "markets.symbols rank": [1, 2],
    "markets.symbols price_usd": [101250.5, 101250.5],
    "markets.symbols price_24h_change_pct": [-1.25, -1.25],
    "markets.symbols oi_usd": [4.1e10, 4.1e10],
    "markets.symbols volume_24h_usd": [5.5e10, 5.5e10],
    "markets.symbols top_funding_bps_8h": [3.75, None],
    "markets.symbols top_funding_exchange": ["vest", None],
    "markets.symbols asset_class": [None, "equity"],
    "markets.price_movers direction": ["gainer", "gainer", "loser"],
    "markets.price_movers rank": [1, 2, 1],
    "markets.price_movers symbol": ["DOGE", "ETH", "ZEC"],
    "markets.price_movers price_24h_change_pct": [12.5, 4.0, -9.75],
    "markets.price_movers time": [NOON] * 3,
    "markets.funding_leaders symbol": ["PEPE", "BTC"],
    "markets.funding_leaders funding_current_bps_8h": [45.5, 1.0],
    "markets.funding_leaders oi_rank": [57, 1],
    "oi.exchanges total_oi_usd": [3e10, 1e10],
    "oi.exchanges market_share": [0.75, 0.25],
    "oi.exchanges symbol_count": [420, 250],
    "oi.exchanges change_7d": [-2.25, None],
    "oi.exchanges time": [ANSWERED] * 2,  # a response without a time takes the server's Date
    "oi.sparklines oi_usd": [3e10, 2.95e10, 2.9e10, 2.85e10, 2.8e10, 2.75e10, 2.7e10] + [1e10] * 6 + [1.1e10],
    "oi.history oi_usd": [1.25e10, 1.3e10, 4.5e9],
    "oi.history time": [FIRST, NOON_OF_FIRST, FIRST],
    "liquidations.events order_id": ["991", "h-1"],
    "options.snapshot strike": [1e5, 1e5, 1.2e5],
    "options.snapshot side": ["call", "put", "call"],
    "options.snapshot iv": [0.4525, 0.455, None],
    "options.snapshot delta": [0.61, -0.39, None],
    "options.snapshot open_interest": [125.5, 80.0, 10.0],
    "options.snapshot time": [ANSWERED] * 3,
    "volume.history volume_usd": [6.5e9, 7e9],  # no null, none at the open end
    "volume.history time": [FIRST, NOON_OF_FIRST],  # t where timestamp is absent
    "oi.exchange_totals exchange": ["binance", "okx", "okx"],
    "oi.exchange_totals total_oi_usd": [3e10, 1e10, 1.1e10],
    "oi.exchange_totals symbol_count": [420, 250, None],
    "volume.taker buy_usd": [120.5, 0.0],
    "volume.taker sell_usd": [80.25, 7.0],
    "volume.exchange_totals total_volume_usd": [5.5e10],
    "volume.oi_ratio volume_oi_ratio": [1.75, 0.5],
    "volume.oi_ratio volume_usd": [5.25e10, 5e9],
    "volume.oi_ratio oi_usd": [3e10, 1e10],
    "volume.oi_ratio time": [FIRST, NOON_OF_FIRST],
    "oi.top_symbols symbol": ["BTC", "BTC", "ETH"],
    "oi.top_symbols time": [FIRST, NOON_OF_FIRST, FIRST],
    "oi.top_symbols oi_usd": [1.25e10, 1.3e10, 6e9],
    "volume.top_symbols volume_usd": [2.5e9],
    "orderbook.book side": ["ask", "bid", "bid"],
    "orderbook.book level": [1, 1, 2],
    "orderbook.book price_usd": [101250.5, 101250.0, 101249.5],
    "orderbook.book size": [0.75, 2.5, 1.0],
    "orderbook.book time": [NOON] * 3,
    "orderbook.depth_history depth_bps": [10.0, 25.0, 50.0, 100.0],
    "orderbook.depth_history bid_depth_usd": [1.5e6, 4e6, 9e6, 2e7],
    "orderbook.depth_history ask_depth_usd": [1.25e6, 4.5e6, 8e6, None],
    "futures.history price_usd": [101800.0, 100400.5, 100390.0],
    "positioning.history long_short_ratio": [1.5, 1.0, 0.8],
    "prices.spot price": [104000.5, 104500.25],
    "prices.history price_usd": [104000.5, 104500.25, 104001.75],
    "options.trades size": [0.1, 12.5],
    "delivery.prices price_usd": [99512.25, 99513.0],
    "volatility.index_published index_pct": [47.25, 48.0],
    "options.metrics atm_iv": [0.45, 0.475],
    "options.metrics atm_iv_24h_ago": [0.4375, None],
    "options.metrics atm_iv_change_24h": [0.0125, None],
    "options.metrics time": [ANSWERED] * 2,
    "options.atm_history iv": [0.4625, 0.45],  # the hour before the window is cut off here
    "options.atm_history underlying_price": [101000.0, 101275.25],
    "options.overview_history notional_oi_usd": [3.5e10],
    "options.overview_history notional_volume_24h_usd": [2.25e9],
    "liquidations.history long_usd": [2.5e6, 0.0],
    "liquidations.history short_usd": [1e6, None],  # a null is unknown and not zero
    "liquidations.aggregates long_count": [3, 0],
    "liquidations.aggregates short_count": [1, 0],
    "liquidations.aggregates total_usd": [100000.5, 0.0],
    "markets.price_buckets symbols": ["DOGE,PEPE", "", "ZEC"],
    "markets.price_buckets symbol_count": [2, 0, 1],
    "markets.price_buckets lower_pct": [10.0, 5.0, None],
    "markets.price_buckets upper_pct": [None, 10.0, -10.0],
    "markets.exchanges oi_usd": [3e10, 2.5e7],
    "markets.exchanges volume_24h_usd": [5.5e10, None],
    "markets.exchange_symbols oi_usd": [1.3e10, 6e9],
    "markets.exchange_symbols funding_avg_7d_bps_8h": [0.75, None],
    "markets.symbol_exchanges oi_usd": [1.3e10, 4.5e9],
    "markets.symbol_exchanges funding_current_bps_8h": [0.94, 0.94],
    "markets.symbol_stats oi_usd": [4.1e10],
    "markets.symbol_stats top_funding_exchange": ["vest"],
    "markets.symbol_stats rank": [None],
    "markets.exchange_history oi_usd": [3e10, 3.1e10],
    "markets.exchange_history volume_usd": [2.5e9, None],
    "rwa.market_hours session": ["regular", "post", "holiday"],
    "rwa.market_hours is_tradable": [True, True, False],
    "rwa.market_hours is_tradable_now": [False] * 3,
    "rwa.market_hours mic": ["XNYS"] * 3,
    "rwa.market_hours start": [at("2026-06-30T13:30"), at("2026-06-30T20:00"), at("2026-07-03T04:00")],
    "rwa.market_hours end": [at("2026-06-30T20:00"), at("2026-07-01"), at("2026-07-04T04:00")],
    "rwa.market_hours next_session_start": [at("2026-06-30T13:30")] * 3,
}
"""By fetcher and column, the wire name."""

OPEN: list[
    tuple[str, str, tuple[Any, ...], dict[str, Any], int]
] = [  # rows with the one of the response's top
    ("hip3", "dashboard", ("7d",), {}, 4),
    ("hip3", "dex_detail", ("xyz", "7d"), {}, 4),
    ("hip3", "by_dex", ("7d",), {}, 2),
    ("hip3", "by_symbol", ("7d",), {"dex": "xyz", "limit": 1}, 2),
    ("hip3", "timeseries_symbol", ("all",), {"symbol": "xyz:TSLA"}, 3),
    ("hip3", "timeseries_dex_breakdown", ("7d",), {"dex": "xyz"}, 2),
    ("hip3", "leaderboard", ("7d",), {"limit": 1}, 2),
    ("hip3", "oi_trends_total", ("7d",), {}, 4),
    ("hip3", "oi_trends_dex", ("xyz", "7d"), {}, 3),
    ("hip3", "candles", ("xyz:TSLA", *DAY), {}, 2),
    ("hip4", "dashboard", ("7d",), {"venue": "out"}, 4),
    ("hip4", "outcome", (7, "7d"), {}, 3),
    ("hip4", "oi_eod", ("2026-06-28",), {"venue": "skew"}, 3),
    ("hip4", "leaderboard", ("7d",), {"limit": 1}, 2),
    ("builders", "dashboard", ("7d",), {}, 3),
]
TABLES_OF = {("volume", "oi_ratio"): "volume_oi_ratio"}


def fetched(family: str, name: str, *args: Any, cassette: str = "", **kwargs: Any) -> Any:
    with playing(cassette or f"{family}_{name}"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*dropped, because the window is half-open", DataNotice)
        return getattr(getattr(dd, family), name)(*args, **kwargs)


def test_every_fetcher_has_a_case() -> None:
    public = {(family, name) for family, module in FAMILIES.items() for name in module.__all__}
    elsewhere = {("options", "surface"), ("options", "surface_history"), ("liquidations", "poll")}
    assert public == {case[:2] for case in [*CASES, *OPEN]} | elsewhere
    assert {key.split()[0] for key in VALUES} == {f"{family}.{name}" for family, name, *_ in CASES}


def test_every_cassette_states_its_origin_and_has_no_key() -> None:
    cassettes = sorted(FOLDER.glob("*.yaml"))
    assert {f"{family}_{name}" for family, name, *_ in [*CASES, *OPEN]} <= {path.stem for path in cassettes}
    for path in cassettes:
        assert origin(path) in ORIGINS, path
        assert KEY not in path.read_text(encoding="utf-8"), path


SHORTENED = frozenset(
    "funding.history funding.settlements oi.history oi.exchange_totals volume.oi_ratio futures.history "
    "positioning.history prices.history options.atm_history options.overview_history".split()
)
"""Fetchers whose cassettes hold fewer rows than their window has."""


@pytest.mark.parametrize(("family", "name", "args", "kwargs"), CASES, ids=[f"{c[0]}.{c[1]}" for c in CASES])
def test_fetcher_returns_its_table(
    family: str, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    with few_rows() if f"{family}.{name}" in SHORTENED else nullcontext():
        frame = fetched(family, name, *args, **kwargs)
    table = dd.tables.TABLES[TABLES_OF.get((family, name), f"{family}_{name}")]
    pd.testing.assert_frame_equal(frame, table.conform(frame))
    values = {key.split()[1]: row for key, row in VALUES.items() if key.startswith(f"{family}.{name} ")}
    result = frame[[*values]].astype(object).where(frame[[*values]].notna(), None)
    assert result.to_dict("list") == values
    provenance = dd.provenance(frame)
    assert provenance["source"] == "api.derivdata.example"
    assert provenance["synthetic"] is False
    assert len(provenance["requests"]) == 1
    assert len(provenance["requests"][0]["sha256"]) == 64


@pytest.mark.parametrize(
    ("family", "name", "args", "kwargs", "rows"), OPEN, ids=[f"{c[0]}.{c[1]}" for c in OPEN]
)
def test_open_fetcher_keeps_every_field(
    family: str, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], rows: int
) -> None:
    with playing(f"{family}_{name}") as cassette:
        frame = getattr(getattr(dd, family), name)(*args, **kwargs)
        body = json.loads(cassette.responses[0]["body"]["string"])
    assert len(frame) == rows
    assert frame.columns[0] == "part"
    assert _fields(body) <= set(frame.columns) | set(frame["part"]) | set(frame.get("key", []))
    assert f"{family}_{name}" in OPEN_TABLES
    assert len(dd.provenance(frame)["requests"]) == 1


def _fields(body: Any) -> set[str]:
    """Every name of a field anywhere in the response."""
    if isinstance(body, dict):
        return set(body) | {name for value in body.values() for name in _fields(value)}
    return {name for item in body for name in _fields(item)} if isinstance(body, list) else set()


def test_pair_outside_the_options_matrix_warns_and_is_requested() -> None:
    with playing("options_snapshot") as cassette:
        with (
            pytest.warns(DataNotice, match="lists options on ZEC for derive, not deribit"),
            pytest.raises(UnrecordedRequest, match="exchange=deribit&symbol=ZEC"),
        ):
            dd.options.snapshot("ZEC", "deribit")
        assert cassette.play_count == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: dd.funding.history("BTC", "2026-01-02", "2026-01-01"),
            "must be before end, got start 2026-01-02T00:00:00Z and end 2026-01-01T00:00:00Z",
        ),
        (lambda: dd.funding.history([], *DAY), "symbols must have at least one name"),
        (lambda: dd.funding.history(["BTC", "BTCUSDT"], *DAY), "no duplicates"),
        (
            lambda: dd.oi.history("BTC,ETH", *DAY),
            r"symbols='BTC,ETH' is one string with several names.* \['BTC', 'ETH'\]",
        ),
        (lambda: dd.markets.price_movers(limit=0), "limit must be at least 1"),
        (lambda: dd.liquidations.aggregates("25h"), "range must be one of 1h, 4h, 12h, 24h, got '25h'"),
    ],
)
def test_invalid_arguments_raise_before_a_request(call: Any, message: str) -> None:
    with playing("funding_snapshot") as cassette:
        with pytest.raises(ValueError, match=message):
            call()
        assert cassette.play_count == 0
