"""Every fetcher on collected venue data: its table, or an error that names the missing table."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import derivdata as dd
from derivdata.errors import DataNotice, NotFound
from derivdata.sources.archive import open_archive
from derivdata.sources.collect import read_through
from tests.collect import chains
from tests.collect.books import ASKS, BIDS, BOOKS
from tests.collect.direct import connect_directly
from tests.collect.fakes import SYMBOLS, Fakes, SimulatedClock
from tests.collect.fakes import VENUES as FAKED
from tests.reliability.calls.fetchers import FETCHERS
from tests.reliability.promises import SOAK
from tests.test_fetch import FAMILIES

NOW = pd.Timestamp("2026-01-20T10:30:30", tz="UTC")
DAY = ("2026-01-19", "2026-01-20")
VENUES = [*FAKED]
FEW = ["bybit", "deribit", "hyperliquid"]
"""Venues of the report in the gate: two of them have options, whose chains are never of one time."""

CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "funding.snapshot": ((), {}),
    "funding.history": (("BTC", "2h"), {}),
    "funding.settlements": (("BTC", *DAY), {}),
    "markets.symbols": ((), {}),
    "markets.price_movers": ((), {"min_volume_usd": 0}),
    "markets.funding_leaders": ((), {}),
    "markets.price_buckets": ((), {}),
    "markets.exchange_symbols": (("okx",), {}),
    "markets.exchange_history": (("okx", "2h"), {}),
    "markets.symbol_exchanges": (("BTC",), {}),
    "markets.symbol_stats": (("BTC",), {}),
    "oi.exchange_totals": (("2h",), {}),
    "oi.history": (("BTC", *DAY), {}),
    "oi.top_symbols": (("okx", "2h"), {}),
    "options.snapshot": (("BTC", "okx"), {}),
    "options.surface": (("BTC", "okx"), {}),
    "options.surface_history": (("BTC", "okx", "2h"), {}),
    "options.metrics": (("BTC", "okx"), {}),
    "options.trades": (("BTC", *DAY), {"venues": "deribit"}),
    "delivery.prices": (("BTC", *DAY), {"venues": "deribit"}),
    "volatility.index_published": (("BTC", *DAY), {"venues": "deribit"}),
    "orderbook.book": (("BTC", "okx"), {}),
    "futures.history": (("BTC", "2h"), {"resolution": None}),
    "positioning.history": (("BTC", *DAY), {}),
    "prices.spot": (("BTC", *DAY), {}),
    "prices.history": (("BTC", "2h"), {"kind": "mark", "resolution": None}),
    "volume.taker": (("BTC", *DAY), {}),
}
"""Fetchers whose tables are filled by polls and histories of venues."""

LACKING = {
    "volume_history": "volume.exchange_totals volume.history volume.oi_ratio volume.top_symbols",
    "options_overview_history": "options.overview_history",
    "rwa_market_hours": "rwa.market_hours",
    "hip3_traders": "hip3.dashboard hip3.dex_detail hip3.by_dex hip3.by_symbol hip3.timeseries_symbol "
    "hip3.timeseries_dex_breakdown hip3.leaderboard",
    "hip3_hourly_candles": "hip3.oi_trends_total hip3.oi_trends_dex hip3.candles",
    "hip4_traders": "hip4.dashboard hip4.outcome hip4.leaderboard",
    "hip4_oi": "hip4.oi_eod",
    "builders_history": "builders.dashboard",
}
"""Tables that no venue provides, as named by the errors, and their fetchers."""

BY_COLLECTING: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "liquidations.events": ((), {"since": "1h"}, "liquidations_fills"),
    "liquidations.history": (("BTC", *DAY), {}, "liquidations_fills"),
    "liquidations.aggregates": (("4h",), {}, "liquidations_fills"),
    "options.atm_history": (("BTC", "okx", "2h"), {}, "options_snapshot"),
    "orderbook.depth_history": (("BTC", "okx", *DAY), {}, "orderbook_depth_history"),
}
"""Fetchers whose table fills while something collects: liquidations, books, the chain of each full hour."""

LISTS = {"funding.metadata", "markets.exchanges", "oi.exchanges", "oi.sparklines", "liquidations.poll"}
"""Lists of symbols and venues, and the feed."""


@pytest.fixture(scope="module")
def polled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Fakes, read_through.ReadThrough]]:
    """All venues, which were polled twice, and what keeps their responses."""
    folder = tmp_path_factory.mktemp("venues")
    clock = SimulatedClock(f"{NOW:%Y-%m-%dT%H:%M:%S}")
    fakes = Fakes(int(NOW.timestamp()) + 86_400, clock.utc)
    fakes.chains = True
    with pytest.MonkeyPatch.context() as patch:
        connect_directly(fakes, clock, patch)
        store = read_through.ReadThrough(
            open_archive(folder / "market"), venues=VENUES, clock=clock, addresses=fakes.addresses
        )
        for _ in range(2):
            store.refresh()
            clock.wait(61)
        yield fakes, store


@pytest.fixture
def market(
    polled: tuple[Fakes, read_through.ReadThrough], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Fakes]:
    """The venues, connected."""
    fakes, store = polled
    monkeypatch.setattr(read_through, "open_venues", lambda archive=None, venues=None: store)
    dd.connect("venues", venues=VENUES)
    yield fakes
    dd.disconnect()


def _call(name: str, *args: Any, **options: Any) -> Any:
    family, _, function = name.partition(".")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataNotice)
        return getattr(getattr(dd, family), function)(*args, **options)


def test_every_public_fetcher_has_a_call_in_these_tests() -> None:
    families = [name for name in FAMILIES if hasattr(dd, name)]
    public = {f"{f}.{name}" for f in families for name in getattr(dd, f).__all__}
    assert public == {*CALLS, *" ".join(LACKING.values()).split(), *BY_COLLECTING, *LISTS}


def test_fetchers_return_rows_or_name_the_table_that_venues_lack(market: Fakes) -> None:
    results = {name: _call(name, *args, **options) for name, (args, options) in CALLS.items()}
    assert [name for name, table in results.items() if len(table) == 0] == []
    assert {*SYMBOLS} <= {*dd.instruments(venues="okx")["symbol"]}
    for name, table in results.items():
        if isinstance(table, pd.DataFrame) and "exchange" in table:
            assert set(table["exchange"]) <= set(VENUES), name
        if isinstance(table, pd.DataFrame) and "symbol" in table:
            assert set(table["symbol"]) <= set(SYMBOLS), name
    window = dict(zip(("start", "end"), DAY, strict=True))
    for table, names in LACKING.items():
        for name in names.split():
            with pytest.raises(NotFound, match=rf"venues does not have {table}\b"):
                _call(name, **{k: window.get(k, value) for k, value in FETCHERS[name].items()})
    for name, (args, options, table) in BY_COLLECTING.items():
        try:
            _call(name, *args, **options)
        except NotFound as problem:
            assert f"venues does not have {table}" in str(problem)  # noqa: PT017 - or there is an answer


def test_report_and_quality_work_on_data_of_venues(market: Fakes, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if SOAK:
            dd.report(["BTC"], window="1d", out=out)
        else:
            dd.report(["BTC"], window="1d", out=out, venues=FEW, sections=["funding", "options"])
        rates = dd.funding.settlements("BTC", *DAY)
        result = dd.quality(rates)
    text = out.read_text(encoding="utf-8")
    assert "hyperliquid" in text
    assert "BTC smiles on" in text
    assert "(synthetic)" not in text
    assert len(result) > 0


def test_open_interest_history_equals_the_truth(market: Fakes) -> None:
    rows = _call("oi.history", "BTC", *DAY, resolution="raw")
    counts = rows.groupby("exchange", observed=True).size().to_dict()
    of_htx = rows.loc[rows["exchange"] == "huobi", "time"]
    assert counts == {
        "binance": 288, "bybit": 288, "okx": 288, "gateio": 288, "huobi": len(of_htx), "kraken": 288,
    }, "bybit's is in coins, at its marks of the same instants"  # fmt: skip
    # Steps of five minutes of the 16 hours 33.6 minutes (0.69 days) before the first request.
    requests = [at for name, place, _, at in market.log if name == "huobi" and "his_open_interest" in place]
    assert pd.Timedelta("16h28min") < requests[0] - of_htx.min() <= pd.Timedelta("16h33min36s")
    assert of_htx.diff().dropna().eq(pd.Timedelta("5min")).all()
    assert of_htx.max() == pd.Timestamp("2026-01-19T23:55Z")
    seconds = rows["time"].map(lambda at: int(at.timestamp()))
    truth = [coins * mark for _, coins, mark in (market.truth.oi_at("BTC", at) for at in seconds)]
    assert rows["oi_usd"].tolist() == pytest.approx(truth)


def test_order_books_of_all_venues_equal_the_truth(market: Fakes) -> None:
    for exchange, _ in BOOKS:
        rows = _call("orderbook.book", "BTC", exchange)
        results = {
            side: sorted(zip(part["price_usd"], part["size"].round(9), strict=True))
            for side, part in rows.groupby("side", observed=True)
        }
        assert results == {"bid": sorted(BIDS), "ask": sorted(ASKS)}, exchange


@pytest.mark.parametrize("exchange", ["deribit", "bybit", "binance"])
def test_option_chains_equal_the_truth(exchange: str, market: Fakes) -> None:
    rows = _call("options.snapshot", "BTC", exchange)
    requests = [
        at for name, place, _, at in market.log if name == exchange and (name, place) in chains.CHAINS
    ]
    truth = {
        (pd.Timestamp(o.expiry, unit="s", tz="UTC"), float(o.strike), {"C": "call", "P": "put"}[o.side]): o
        for o in chains.options(int(requests[-1].timestamp()))
    }
    result = rows.set_index(["expiry", "strike", "side"])
    assert {*result.index} == {*truth}
    expected = [truth[key] for key in result.index]
    assert result["iv"].tolist() == pytest.approx([o.iv for o in expected], rel=1e-3)
    assert result["open_interest"].tolist() == [o.open_interest for o in expected]
