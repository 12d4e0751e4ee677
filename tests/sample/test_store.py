import itertools

import numpy as np
import pandas as pd
import pytest

from derivdata.sources import Query, sample
from derivdata.sources.service.data.store import Store
from derivdata.tables import TABLES, VENUES
from derivdata.tables.contracts import contract
from tests.support.timestamps import at

HISTORIES = ("funding_history", "funding_settlements", "oi_history", "volume_history")
BASE = (*HISTORIES, "liquidations_fills", "options_snapshot", "markets_symbol_exchanges")
MORE = (
    *("prices_history", "options_overview_history", "orderbook_depth_history", "hip3_hourly_candles"),
    *("hip3_traders", "hip4_traders", "hip4_oi", "builders_history"),
)
FEW = {"symbols": ["BTC", "XRP", "PEPE"], "venues": ["binance", "deribit", "lighter", "vest"]}


@pytest.fixture(scope="module")
def store() -> Store:
    return sample.open()


def test_sample_states_its_label_and_universe(store):
    assert (store.label, store.synthetic) == ("sample", True)
    assert (store.start, store.now) == (at("2025-09-01"), at("2026-06-30 12:00"))
    assert store.identity == sample.open().identity
    assert store.identity == store.id == f"sample-20250901-{store.version}"
    assert store.tables() >= set(BASE)
    assert repr(store).startswith("<synthetic market")
    symbols = store.symbols("funding_history")
    assert len(symbols) >= 400
    assert list(symbols) == sorted(symbols)
    assert {"BTC", "ETH", "TSLA", "XAU", "币安人生"} <= set(symbols)
    assert store.exchanges("funding_history") == tuple(sorted(VENUES))
    assert store.symbols("options_snapshot") == tuple("BNB BTC DOGE ETH HYPE SOL XRP ZEC".split())
    assert store.exchanges("options_snapshot") == ("binance", "bybit", "deribit", "derive", "okx")
    now = store.latest("oi_history", store.now, within=pd.Timedelta("1D"))
    venues = now.groupby("symbol", observed=True).size()
    assert venues[["BTC", "ETH"]].min() >= 38
    assert (now.groupby("exchange", observed=True).size() > 0).all()
    assert len(now["exchange"].cat.categories) == 43
    assert venues.quantile(0.1) < 12 < venues.quantile(0.9)


def few_of(table):
    return FEW if {"symbol", "exchange"} <= set(TABLES[table].key) else {}


@pytest.mark.parametrize("table", [*BASE, *MORE])
def test_rows_do_not_depend_on_the_window_bounds(store, table):
    cuts = ["2026-02-05 22:10", *(f"2026-02-06 {hour}" for hour in ("00:00", "08:00", "08:05", "17:31"))]
    complete = store.read(table, at(cuts[0]), at(cuts[-1]), **few_of(table))
    parts = [store.read(table, at(a), at(b), **few_of(table)) for a, b in itertools.pairwise(cuts)]
    assert len(complete) > 0
    pd.testing.assert_frame_equal(TABLES[table].conform(pd.concat(parts, ignore_index=True)), complete)
    assert complete["time"].between(at(cuts[0]), at(cuts[-1]), inclusive="left").all()
    if few_of(table):
        assert set(complete["symbol"]) <= set(FEW["symbols"])
        assert set(complete["exchange"]) <= set(FEW["venues"])


@pytest.mark.parametrize("table", BASE)
def test_filters_do_not_change_rows(store, table):
    window = at("2026-04-13 15:50"), at("2026-04-13 17:10")
    everything = store.read(table, *window)
    few = store.read(table, *window, **FEW)
    kept = everything["symbol"].isin(FEW["symbols"]) & everything["exchange"].isin(FEW["venues"])
    assert 0 < len(few) < len(everything)
    pd.testing.assert_frame_equal(TABLES[table].conform(everything[kept]), few)


@pytest.mark.parametrize("table", [*HISTORIES, "markets_symbol_exchanges", *MORE[:4]])
@pytest.mark.parametrize("instant", ["2026-01-12 00:00", "2026-01-12 00:04", "2026-01-12 13:37"])
def test_latest_equals_the_last_row_of_a_read(store, table, instant):
    chosen = {"symbols": ["BTC", "币安人生", "SPX"]} if few_of(table) else {}
    until, within = at(instant), pd.Timedelta("30h")
    history = store.read(table, until - within, until + pd.Timedelta("1us"), **chosen)
    key = [name for name in TABLES[table].key if name != "time"]
    latest = store.latest(table, until, within=within, **chosen)
    last = history.sort_values("time", kind="stable").groupby(key, observed=True).tail(1)
    pd.testing.assert_frame_equal(latest, TABLES[table].conform(last))
    assert len(latest) > 0


def test_latest_returns_each_series_including_ended_ones(store):
    instant, within = at("2026-05-17 03:21"), pd.Timedelta("12h")
    everything = store.latest("markets_symbol_exchanges", instant, within=within)
    few = store.latest("markets_symbol_exchanges", instant, within=within, symbols=["ADA", "TSLA"])
    kept = everything[everything["symbol"].isin(["ADA", "TSLA"])]
    pd.testing.assert_frame_equal(TABLES["markets_symbol_exchanges"].conform(kept), few)
    spans = sample.truth("funding").dropna(subset="end")
    ended = spans.iloc[0]
    chosen = {"symbols": [ended["symbol"]], "venues": [ended["exchange"]]}
    after = ended["end"] + pd.Timedelta("50h")
    result = store.latest("oi_history", after, within=pd.Timedelta("3D"), **chosen)
    assert result["time"].tolist() == [ended["end"] - pd.Timedelta("1h")]
    assert store.latest("oi_history", after, within=pd.Timedelta("2D"), **chosen).empty


def test_latest_chain_and_fills(store):
    frame = store.latest("options_snapshot", at("2026-06-30 12:59"), within=pd.Timedelta("1h"), **FEW)
    assert frame["time"].unique().tolist() == [at("2026-06-30 12:00")]
    assert store.latest("options_snapshot", at("2026-06-30 12:59"), within=pd.Timedelta("10min")).empty
    span = store.latest("liquidations_fills", at("2026-06-30 12:00"), within=pd.Timedelta("1h"))
    read = store.read("liquidations_fills", at("2026-06-30 11:00"), at("2026-06-30 12:00:00.000001"))
    assert len(span) > 50
    pd.testing.assert_frame_equal(span, read)


@pytest.mark.parametrize("table", BASE)
def test_sample_starts_at_its_start_and_unknown_symbols_are_empty(store, table):
    before, start = at("2025-08-01"), at("2025-09-01")
    for empty in (
        store.read(table, before, start),
        store.latest(table, start - pd.Timedelta("1us"), within=pd.Timedelta("9D")),
        store.read(table, start, start + pd.Timedelta("1D"), symbols=["NOSUCH"]),
        store.latest(table, store.now, within=pd.Timedelta("1D"), venues=["nosuch"]),
        store.read(table, store.now, store.now, symbols=["BTC"]),
    ):
        assert empty.empty
        pd.testing.assert_frame_equal(empty, TABLES[table].empty())
    assert store.read(table, before, at("2025-09-01 12:00"), **FEW)["time"].min() < at("2025-09-01 08:00:01")
    assert len(store.read(table, at("2027-01-01"), at("2027-01-01 12:00"), **FEW)) > 0


def test_an_unknown_table_is_rejected_and_symbols_are_base_symbols(store):
    for call in (store.symbols, store.exchanges):
        with pytest.raises(
            ValueError,
            match="does not have the table 'funding'; available: builders_history, delivery_prices",
        ):
            call("funding")
    with pytest.raises(ValueError, match="does not have the table 'funding'"):
        store.read("funding", store.start, store.now)
    with pytest.raises(ValueError, match="does not have the table 'funding'"):
        store.latest("funding", store.now, within=pd.Timedelta("1h"))
    names = {name for table in store.tables() for name in store.symbols(table)}
    assert {name for name in names if contract(name).symbol != name} == set()


def test_values_are_rounded_for_json(store):
    for table in BASE:
        frame = store.read(table, at("2026-03-10 05:00"), at("2026-03-10 06:00"), **FEW)
        for name in frame.select_dtypes("number").columns:
            values = frame[name].dropna().to_numpy(dtype=float)
            digits = 10 if name == "gamma" else 6
            np.testing.assert_array_equal(values, np.round(values, digits))
            assert not np.signbit(values[values == 0.0]).any()


def test_expensive_rows_are_cached_on_disk_and_rebuilt_if_damaged(store, tmp_path, monkeypatch):
    """Sums of two months take seconds; sums of an hour are not worth a file."""
    monkeypatch.setenv("DERIVDATA_CACHE_DIR", str(tmp_path))
    months = Query("oi_history", at("2026-03-01"), at("2026-05-01"))
    store.sums(Query("oi_history", at("2026-03-01"), at("2026-03-01 01:00"), venues=["okx"]), "oi_usd")
    assert not list(tmp_path.rglob("*.answer"))
    made = store.sums(months, "oi_usd")
    (file,) = tmp_path.rglob("*.answer")
    assert file.stat().st_mode & 0o077 == 0
    written = file.stat().st_mtime_ns
    pd.testing.assert_frame_equal(sample.open().sums(months, "oi_usd"), made)
    assert file.stat().st_mtime_ns == written
    whole = file.read_bytes()
    file.write_bytes(whole[:-100] + bytes(100))
    pd.testing.assert_frame_equal(store.sums(months, "oi_usd"), made)
    assert file.read_bytes()[-100:] == whole[-100:]


@pytest.mark.parametrize("table", ["options_overview_history", "options_snapshot", "orderbook_depth_history"])
def test_rows_cached_on_disk_equal_computed_rows(store, table, tmp_path, monkeypatch):
    """The last of them has a column that is missing throughout."""
    monkeypatch.setenv("DERIVDATA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(f"{type(store).__module__}._MIN_SECONDS_TO_STORE", -1.0)
    query = Query(table, at("2026-03-01"), at("2026-03-01 01:00"), ["BTC"], ["okx"])
    made = store.rows(query)
    assert len(made) > 0
    assert list(tmp_path.rglob("*.answer"))
    pd.testing.assert_frame_equal(store.rows(query), made)
