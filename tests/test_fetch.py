"""Every fetcher returns its table, with the values that stand on the wire."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from vcr.errors import CannotOverwriteExistingCassetteException as UnrecordedRequest

import derivdata as dd
from derivdata.errors import DataNotice
from derivdata.fetchers import FAMILIES
from derivdata.tables.definitions import OPEN_TABLES
from tests.support.cassettes import FOLDER, KEY, ORIGINS, origin, playing

DAY = ("2026-06-01", "2026-06-02")
NOON = pd.Timestamp("2026-06-30T12:00:00", tz="UTC")
ANSWERED = pd.Timestamp("2026-06-30T12:00:05", tz="UTC")

CASES: list[tuple[str, str, tuple[Any, ...], dict[str, Any], int]] = [  # rows counted by hand
    ("funding", "snapshot", (), {}, 3),
    ("funding", "metadata", (), {}, 3),
    ("funding", "history", ("BTC", *DAY), {"resolution": "8h"}, 3),
    ("funding", "settlements", ("BTC", *DAY), {}, 3),
    ("markets", "symbols", (), {}, 2),
    ("markets", "price_movers", (), {"min_volume_usd": 1e6, "limit": 2}, 3),
    ("markets", "funding_leaders", (), {"venues": ["okx", "binance"]}, 2),
    ("oi", "exchanges", (), {}, 2),
    ("oi", "sparklines", (), {}, 14),
    ("oi", "history", ("BTC", *DAY), {"resolution": "12h"}, 3),
    ("liquidations", "events", (), {"limit": 3}, 2),
    ("options", "snapshot", ("BTC", "deribit"), {}, 3),
    ("volume", "history", ("BTC", *DAY), {"resolution": "12h"}, 2),
    ("oi", "exchange_totals", DAY, {"resolution": "12h"}, 3),
    ("volume", "taker", ("BTC", *DAY), {"resolution": "12h"}, 2),
    ("volume", "exchange_totals", DAY, {"resolution": "12h"}, 1),
    ("volume", "oi_ratio", DAY, {"resolution": "12h", "window_days": 1}, 2),
    ("oi", "top_symbols", ("binance", *DAY), {"limit": 2}, 3),
    ("volume", "top_symbols", ("binance", *DAY), {}, 1),
    ("orderbook", "book", ("BTC", "binance"), {"limit": 2}, 3),
    ("orderbook", "depth_history", ("BTC", "binance", *DAY), {"resolution": "12h"}, 4),
    ("futures", "history", ("BTC", *DAY), {"resolution": "12h"}, 3),
    ("positioning", "history", ("BTC", *DAY), {"resolution": "12h"}, 3),
    ("prices", "spot", ("BTC", *DAY), {"quote": "USD", "resolution": "12h"}, 2),
    ("prices", "history", ("BTC", *DAY), {"kind": "index", "resolution": "12h"}, 3),
    ("options", "trades", ("BTC", *DAY), {}, 2),
    ("delivery", "prices", ("BTC", *DAY), {}, 2),
    ("volatility", "index_published", ("BTC", *DAY), {"resolution": "12h"}, 2),
    ("options", "metrics", ("BTC", "deribit"), {}, 2),
    ("options", "atm_history", ("BTC", "deribit", "6h"), {}, 2),
    ("options", "overview_history", ("6h",), {}, 1),
    ("liquidations", "history", DAY, {"resolution": "12h"}, 2),
    ("liquidations", "aggregates", ("4h",), {"group_by": "exchange"}, 2),
    ("markets", "price_buckets", (), {}, 3),
    ("markets", "exchanges", (), {}, 2),
    ("markets", "exchange_symbols", ("binance",), {}, 2),
    ("markets", "symbol_exchanges", ("BTC",), {}, 2),
    ("markets", "symbol_stats", ("BTC",), {}, 1),
    ("markets", "exchange_history", ("binance", *DAY), {}, 2),
    ("rwa", "market_hours", ("XNYS",), {}, 3),
]
SURFACES = [("options", "surface"), ("options", "surface_history")]
GENERATORS = [("liquidations", "poll")]
OPEN: list[tuple[str, str, tuple[Any, ...], dict[str, Any], int]] = [  # rows with the one of the answer's top
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
        warnings.filterwarnings("ignore", ".*dropped: it is half-open", DataNotice)
        return getattr(getattr(dd, family), name)(*args, **kwargs)


def test_every_fetcher_has_a_case() -> None:
    public = {(family, name) for family, module in FAMILIES.items() for name in module.__all__}
    assert public == {case[:2] for case in CASES + OPEN} | {*SURFACES, *GENERATORS}


def test_every_cassette_says_its_origin_and_holds_no_key() -> None:
    cassettes = sorted(FOLDER.glob("*.yaml"))
    assert {f"{family}_{name}" for family, name, *_ in CASES + OPEN} <= {path.stem for path in cassettes}
    for path in cassettes:
        assert origin(path) in ORIGINS, path
        assert KEY not in path.read_text(encoding="utf-8"), path


@pytest.mark.parametrize(
    ("family", "name", "args", "kwargs", "rows"), CASES, ids=[f"{c[0]}.{c[1]}" for c in CASES]
)
def test_fetcher_returns_its_table(
    family: str, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], rows: int
) -> None:
    frame = fetched(family, name, *args, **kwargs)
    table = dd.tables.TABLES[TABLES_OF.get((family, name), f"{family}_{name}")]
    pd.testing.assert_frame_equal(frame, table.conform(frame))
    assert len(frame) == rows
    said = dd.provenance(frame)
    assert said["source"] == "api.derivdata.example"
    assert said["synthetic"] is False
    assert len(said["requests"]) == 1
    assert len(said["requests"][0]["sha256"]) == 64


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
    """Every name of a field anywhere in the answer."""
    if isinstance(body, dict):
        return set(body) | {name for value in body.values() for name in _fields(value)}
    return {name for item in body for name in _fields(item)} if isinstance(body, list) else set()


def test_funding_of_now_reads_the_wire() -> None:
    frame = fetched("funding", "snapshot").set_index(["symbol", "exchange"])
    assert ("ETH", "binance") not in frame.index, "a null rate is no row"
    btc = frame.loc[("BTC", "hyperliquid")]
    assert btc["rate_bps_8h"] == 1.0
    assert btc["rate_native"] == 0.0000125
    assert btc["interval_hours"] == 1
    assert btc["oi_rank"] == 1
    assert btc["time"] == NOON
    assert frame.loc[("ETH", "hyperliquid"), "rate_bps_8h"] == -0.5
    assert set(frame["kind"]) == {"sampled"}
    native = dd.units.convert(frame["rate_native"], "native", "bps_8h", hours=frame["interval_hours"])
    np.testing.assert_allclose(native, frame["rate_bps_8h"])
    frame = fetched("funding", "metadata").set_index("exchange")
    assert frame.loc["huobi", "display_name"] == "HTX"
    assert frame.loc["edgex", "interval_hours"] == 4
    assert np.isnan(frame.loc["qfex", "interval_hours"])


def test_funding_snapshot_reads_the_older_form() -> None:
    with pytest.warns(DataNotice, match=r"high rate: rate_bps_8h -2048.12, .*\(PEPE huobi; 1 of"):
        frame = fetched("funding", "snapshot", cassette="funding_snapshot_older").set_index("symbol")
    assert frame.loc["PEPE", "rate_bps_8h"] == -2048.123456
    assert frame["oi_rank"].tolist() == [1, pd.NA], "500+ is beyond the list, not 500"
    assert frame.loc["BTC", "interval_hours"] == 8.0
    assert np.isnan(frame.loc["PEPE", "interval_hours"])
    assert np.isnan(frame.loc["BTC", "rate_native"])
    assert frame.loc["BTC", "time"] == NOON


def test_funding_history_and_settlements_read_the_wire() -> None:
    frame = fetched("funding", "history", "BTC", *DAY, resolution="8h").set_index(["exchange", "time"])
    first = pd.Timestamp("2026-06-01", tz="UTC")
    assert frame.loc[("binance", first), "rate_bps_8h"] == 0.94
    assert frame.loc[("okx", first), "rate_bps_8h"] == -0.25, "a point with t and no timestamp"
    assert ("binance", first + pd.Timedelta("8h")) not in frame.index, "a null rate is no row"
    assert ("okx", pd.Timestamp("2026-06-02", tz="UTC")) not in frame.index, "the window is half-open"
    assert set(frame["resolution"]) == {"8h"}
    assert dd.panel(frame.reset_index()).attrs["units"] == "bps/8h"
    frame = fetched("funding", "settlements", "BTC", *DAY)
    paid = frame["rate_bps_8h"] * frame["interval_hours"] / 8
    assert paid.groupby(frame["exchange"], observed=True).sum().to_dict() == {
        "binance": 0.8,
        "hyperliquid": 1 / 8 - 4 / 8,
    }
    assert set(frame["kind"]) == {"settled"}
    assert frame["interval_hours"].tolist() == [8.0, 1.0, 1.0]


def test_markets_read_the_wire() -> None:
    frame = fetched("markets", "symbols").set_index("symbol")
    btc = frame.loc["BTC"]
    assert (btc["rank"], btc["price_usd"], btc["price_24h_change_pct"]) == (1, 101250.5, -1.25)
    assert (btc["oi_usd"], btc["volume_24h_usd"]) == (4.1e10, 5.5e10)
    assert (btc["top_funding_bps_8h"], btc["top_funding_exchange"]) == (3.75, "vest")
    assert frame.loc["AAPL", "asset_class"] == "equity"
    assert pd.isna(frame.loc["AAPL", "top_funding_exchange"])
    assert pd.isna(btc["asset_class"])
    frame = fetched("markets", "price_movers", min_volume_usd=1e6, limit=2)
    assert frame[["direction", "rank", "symbol"]].to_numpy().tolist() == [
        ["gainer", 1, "DOGE"],
        ["gainer", 2, "ETH"],
        ["loser", 1, "ZEC"],
    ]
    assert frame["price_24h_change_pct"].tolist() == [12.5, 4.0, -9.75]
    assert set(frame["time"]) == {NOON}
    frame = fetched("markets", "funding_leaders", venues=["okx", "binance"])
    assert frame["symbol"].tolist() == ["PEPE", "BTC"]
    assert frame["funding_current_bps_8h"].tolist() == [45.5, 1.0]
    assert frame["oi_rank"].tolist() == [57, 1]


def test_oi_reads_the_wire() -> None:
    frame = fetched("oi", "exchanges").set_index("exchange")
    assert frame.loc["binance", "total_oi_usd"] == 3.0e10
    assert frame.loc["okx", "market_share"] == 0.25
    assert frame["symbol_count"].tolist() == [420, 250]
    assert np.isnan(frame.loc["okx", "change_7d"])
    assert set(frame["time"]) == {ANSWERED}, "an answer without a time takes the server's Date"
    frame = fetched("oi", "sparklines").set_index(["exchange", "days_ago"])["oi_usd"]
    assert frame[("binance", 0)] == 3.0e10
    assert frame[("binance", 6)] == 2.7e10
    assert frame[("okx", 6)] == 1.1e10
    frame = fetched("oi", "history", "BTC", *DAY, resolution="12h").set_index(["exchange", "time"])["oi_usd"]
    assert frame[("binance", pd.Timestamp("2026-06-01T12:00", tz="UTC"))] == 1.3e10
    assert frame[("okx", pd.Timestamp("2026-06-01", tz="UTC"))] == 4.5e9
    assert len(frame) == 3, "a null is no row"


def test_liquidations_events_read_the_wire() -> None:
    frame = fetched("liquidations", "events", limit=3)
    assert frame["exchange"].tolist() == ["binance", "hyperliquid"], "in order of time"
    row = frame.iloc[1]
    assert row["time"] == pd.Timestamp("2026-06-30T11:59:58.250", tz="UTC")
    assert (row["order_price_usd"], row["fill_price_usd"], row["value_usd"]) == (100900.0, 100895.5, 50447.75)
    assert (row["side"], row["status"], row["fill_count"]) == ("long", "filled", 3)
    assert frame["order_id"].tolist() == ["991", "h-1"], "an order id is text even where it came as a number"
    frame = fetched(
        "liquidations",
        "events",
        since="2026-06-30T11:58",
        min_usd=1000,
        cassette="liquidations_events_since",
    )
    assert frame["value_usd"].tolist() == [50447.75]


def test_options_snapshot_reads_the_wire() -> None:
    frame = fetched("options", "snapshot", "BTC", "deribit").set_index("instrument_name")
    call = frame.loc["BTC-3JUL26-100000-C"]
    assert (call["strike"], call["side"], call["iv"], call["open_interest"]) == (
        100_000,
        "call",
        0.4525,
        125.5,
    )
    assert call["expiry"] == pd.Timestamp("2026-07-03T08:00", tz="UTC")
    assert np.isnan(frame.loc["BTC-31JUL26-120000-C", "iv"])
    assert np.isnan(frame.loc["BTC-31JUL26-120000-C", "delta"])
    assert set(frame["time"]) == {ANSWERED}


def test_options_surface_is_the_snapshot_by_expiry_strike_and_side() -> None:
    surface = fetched("options", "surface", "BTC", "deribit")
    assert surface.sizes == {"expiry": 2, "strike": 2, "side": 2}
    place = {"expiry": "2026-07-31T08:00", "strike": 120_000, "side": "put"}
    assert surface["iv"].sel(place).item() == 0.5
    assert surface["as_of"].values == np.datetime64("2026-06-30T12:00:05")
    assert dd.provenance(surface)["source"] == "api.derivdata.example"


def test_pair_off_the_matrix_warns_and_asks_all_the_same() -> None:
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
        (lambda: dd.funding.history("BTC", "2026-01-02", "2026-01-01"), "is not before end"),
        (lambda: dd.funding.history([], *DAY), "symbols must name at least one"),
        (lambda: dd.funding.history(["BTC", "BTCUSDT"], *DAY), "each once"),
        (lambda: dd.oi.history("BTC,ETH", *DAY), "symbols='BTC,ETH': give several names as a list"),
        (lambda: dd.funding.history("BTC", *DAY, resolution="7h"), "resolution='7h' is not one of"),
        (lambda: dd.oi.history("BTC", *DAY, resolution="weekly"), "resolution='weekly'"),
        (lambda: dd.liquidations.events(symbols="BTC", exclude_symbols="ETH"), "exclude each other"),
        (lambda: dd.markets.price_movers(limit=0), "limit must be at least 1"),
        (lambda: dd.hip4.dashboard("7d", venue="both"), "venue='both' is not one of out, skew"),
        (lambda: dd.liquidations.aggregates("25h"), "range='25h' is not one of 1h, 4h, 12h, 24h"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_sent(call: Any, message: str) -> None:
    with playing("funding_snapshot") as cassette:
        with pytest.raises(ValueError, match=message):
            call()
        assert cassette.play_count == 0
