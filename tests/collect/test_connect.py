"""``dd.connect("venues")`` against the fake venues: fetched, kept, requested once."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import requests

import derivdata as dd
from derivdata.errors import ArchiveError, DataNotice, NetworkError, NotConnected, NotFound
from derivdata.sources import Query
from derivdata.sources.archive import open_archive
from derivdata.sources.collect import read_through, session
from derivdata.sources.collect.collector import Collector
from derivdata.sources.service import server
from derivdata.sources.venues.registry import VENUES
from tests.collect.clocks import HANGS_SECONDS
from tests.collect.fakes import Fakes, SimulatedClock
from tests.support.rows import few_rows

LAST = int(pd.Timestamp("2026-01-21", tz="UTC").timestamp())


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


def test_settlements_are_stored_and_requested_once(fakes: Fakes, clock: SimulatedClock) -> None:
    dd.connect("venues", venues=["binance", "bybit"])
    with pytest.warns(DataNotice, match="BTC binance: 21 of 54 payments are missing"):  # as hourly ones
        rows = dd.funding.settlements("BTC", "2026-01-12", "2026-01-15")
    for exchange in ("binance", "bybit"):
        result = rows[rows["exchange"] == exchange]
        first, end = (pd.Timestamp(t, tz="UTC").timestamp() for t in ("2026-01-12", "2026-01-15"))
        truth = [p for p in fakes.truth.payments(exchange, "BTC") if first <= p[0] < end]
        assert result["time"].tolist() == [pd.Timestamp(s, unit="s", tz="UTC") for s, _, _ in truth]
        # Two payments 8 h apart end the window: a third gap would confirm that hourly payments ended.
        assert result["interval_hours"].tolist()[:-2] == [hours for _, hours, _ in truth][:-2]
    before = _asked(fakes, "fundingRate")
    clock.wait(300)
    with pytest.warns(DataNotice, match="21 of 54 payments are missing"):
        again = dd.funding.settlements("BTC", "2026-01-12", "2026-01-15")
    pd.testing.assert_frame_equal(again, rows)
    assert _asked(fakes, "fundingRate") == before


def test_slow_venue_does_not_delay_reads_of_another(fakes: Fakes) -> None:
    """Okx does not respond; a read of both waits for it, while bybit's data is already stored."""
    store = read_through.open_venues(None, ["bybit", "okx"])
    window = [pd.Timestamp(day, tz="UTC") for day in ("2026-01-12", "2026-01-15")]

    def read(*venues: str) -> None:
        store.rows(Query("funding_settlements", *window, ["BTC"], venues))

    both = threading.Thread(target=read, args=("bybit", "okx"), daemon=True)
    alone = threading.Thread(target=read, args=("bybit",), daemon=True)
    with store._collector.shared["okx"].history_lock:
        both.start()
        deadline = time.monotonic() + HANGS_SECONDS
        while store.requests().empty:
            assert time.monotonic() < deadline, "bybit was not asked"
            time.sleep(0.01)
        alone.start()
        alone.join(HANGS_SECONDS)
        assert not alone.is_alive()
        assert both.is_alive()
        assert set(store.requests()["exchange"]) == {"bybit"}
    both.join(HANGS_SECONDS)
    assert set(store.requests()["exchange"]) == {"bybit", "okx"}


def test_snapshot_is_at_most_a_minute_old(fakes: Fakes, clock: SimulatedClock, tmp_path: Path) -> None:
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
    kept = [*tmp_path.rglob("*.answer")]
    assert (len(kept), len({path.parent for path in kept})) == (3, 1)  # no folder for each state


def test_unavailable_venue_gives_one_notice_with_the_reason(fakes, clock) -> None:
    fakes.faults["bybit"] = [(451, {}, {})]
    dd.connect("venues", venues=["bybit", "okx"])
    with pytest.warns(DataNotice, match="bybit is omitted: .*HTTP 451"):
        rows = dd.funding.snapshot()
    assert set(rows["exchange"]) == {"okx"}
    clock.wait(120)
    later = dd.funding.snapshot()  # said once, and in the provenance of each table that lacks it
    for table in (rows, later):
        [notice] = dd.provenance(table)["notices"]
        assert notice.startswith("bybit is omitted: ")


def test_snapshot_raises_until_one_venue_responds(fakes: Fakes, clock: SimulatedClock) -> None:
    """As without a network: an empty table would mean that no venue pays funding."""
    fakes.refusals = {"bybit": (503, {}, {})}
    dd.connect("venues", venues=["bybit"])
    with (
        pytest.warns(DataNotice, match="503"),
        pytest.raises(NotFound, match="does not have funding_history"),
    ):
        dd.funding.snapshot()
    with pytest.raises(NotFound, match="/funding/settlement: venues does not have funding_settlements"):
        dd.funding.settlements("BTC", "2026-01-12", "2026-01-15")
    fakes.refusals = {}
    clock.wait(120)
    assert set(dd.funding.snapshot()["exchange"]) == {"bybit"}


def test_connect_without_a_network_raises_with_the_reason(fakes: Fakes, tmp_path: Path) -> None:
    fakes.out_of_reach = {"bybit", "okx", "kraken"}
    with pytest.raises(NetworkError) as caught:
        dd.connect("venues", venues=["bybit", "okx", "kraken"])
    why = "127.0.0.1:9 does not accept connections"
    assert str(caught.value).startswith(
        f"venues: none of 3 venues responded: bybit /v5/market/instruments-info: {why}; okx "
    )
    assert "and 1 more. Check the network and the proxy" in str(caught.value)
    assert f"dd.connect({str(tmp_path / 'market')!r})" in str(caught.value)
    with pytest.raises(NotConnected):
        dd.funding.snapshot()
    dd.connect("venues", venues=["bybit", "gateio"])  # one of two: a notice, and the other's rows
    with pytest.warns(DataNotice, match=f"bybit: .*{why}"):
        assert set(dd.funding.snapshot()["exchange"]) == {"gateio"}


def test_window_before_the_first_poll_names_functions_with_history(fakes: Fakes) -> None:
    dd.connect("venues", venues=["bybit"])
    first = "begin with the first poll at 2026-01-20 10:30, .*settlements returns earlier payments"
    with few_rows(), pytest.warns(DataNotice, match=first):
        rows = dd.funding.history("BTC", "30d")
    assert rows["time"].nunique() == 1
    assert dd.quality(rows)[["expected", "missing"]].to_numpy().tolist() == [[720, 719]]


def test_polls_and_histories_share_rate_limit_and_contract_list(fakes: Fakes) -> None:
    """Each history has a separate session; the venue counts all requests together."""
    dd.connect("venues", venues=["bybit"])
    dd.funding.settlements("BTC", "2026-01-12", "2026-01-15")
    listed, polled = _asked(fakes, "instruments-info"), len(fakes.log)
    dd.funding.settlements("ETH", "2026-01-12", "2026-01-15")
    assert len(fakes.log) > polled
    assert _asked(fakes, "instruments-info") == listed > 0
    sent = [at for exchange, *_, at in fakes.log if exchange == "bybit"]
    least = min(e.weight for e in VENUES["bybit"].endpoints) / VENUES["bybit"].budget
    assert all(late - early >= pd.Timedelta(0.999 * least, "s") for early, late in pairwise(sent))


def test_totals_are_empty_if_only_some_symbols_were_fetched(fakes: Fakes) -> None:
    """The history of one symbol is fetched; a total of its day would lack all the others."""
    dd.connect("venues", venues=["okx"])
    assert len(dd.oi.history("BTC", "2026-01-19", "2026-01-20")) == 24
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataNotice)
        totals = dd.oi.exchange_totals("2026-01-19", "2026-01-20")
    assert totals.empty


def test_order_book_older_than_a_minute_is_requested_again(fakes: Fakes, clock: SimulatedClock) -> None:
    dd.connect("venues", venues=["binance", "okx"])
    book = dd.orderbook.book("BTC", "okx")
    assert book[["side", "price_usd", "size"]].to_numpy().tolist() == [
        ["ask", 101.0, 3.0],
        ["ask", 103.0, 4.0],
        ["bid", 100.0, 1.0],
        ["bid", 99.0, 2.0],
    ]
    dd.orderbook.book("BTC", "okx", limit=1)
    assert _asked(fakes, "/market/books") == 1
    clock.wait(300)
    dd.orderbook.book("BTC", "okx", limit=1)
    assert _asked(fakes, "/market/books") == 2
    with few_rows():
        depth = dd.orderbook.depth_history("BTC", "okx", "1h", resolution="1m")
    assert depth.loc[depth["depth_bps"] == 50, "ask_depth_usd"].dropna().unique().tolist() == [303.0]


def test_venue_options_are_rejected_for_other_sources() -> None:
    with pytest.raises(ValueError, match="archive= and venues= are only for"):
        dd.connect("sample", venues=["okx"])


class Held:
    """A function that, once `holding`, signals its call and waits before it continues."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.holding = function, False
        self.called, self.go = threading.Event(), threading.Event()

    def __call__(self, *args: Any, **options: Any) -> Any:
        if self.holding:
            self.called.set()
            assert self.go.wait(2 * HANGS_SECONDS)
        return self.function(*args, **options)


def _get(local: server.RunningService, path: str) -> requests.Response:
    return requests.get(local.url + path, headers={"X-Api-Key": local.api_key}, timeout=HANGS_SECONDS)


def _told_now(local: server.RunningService) -> pd.Timestamp:
    return pd.Timestamp(_get(local, "/").json()["now"], tz="UTC")


@pytest.mark.parametrize("busy", ["fill", "poll"])
def test_service_responds_during_requests_to_venues(busy, fakes, clock, monkeypatch) -> None:
    fill, poll = Held(read_through.backfill), Held(Collector.once)
    monkeypatch.setattr(read_through, "backfill", fill)
    monkeypatch.setattr(Collector, "once", lambda collector: poll(collector))
    local = server.start("venues", venues=["bybit"])
    path = "/funding/settlement?symbol=BTC&start=2026-01-12T00:00:00Z&end=2026-01-13T00:00:00Z"
    assert _get(local, "/funding").status_code == 200
    result = local.clock()
    held = fill if busy == "fill" else poll
    held.holding = True
    clock.wait(0 if busy == "fill" else 300)
    slow: list[requests.Response] = []
    asking = threading.Thread(target=lambda: slow.append(_get(local, path)))
    asking.start()
    try:
        assert held.called.wait(HANGS_SECONDS)
        if busy == "fill":
            clock.wait(300)
        before = len(fakes.log)
        assert _told_now(local) == result, "the newest state is still that"
        assert len(fakes.log) == before
        if busy == "fill":
            assert _get(local, "/funding").status_code == 200, "the state does not wait for a history"
            assert _told_now(local) >= result + pd.Timedelta(300, "s")
    finally:
        held.go.set()
        asking.join()
        local.close()
    assert [answer.status_code for answer in slow] == [200]


def test_clock_before_the_first_poll_is_the_system_clock(fakes: Fakes, clock: SimulatedClock) -> None:
    store = read_through.open_venues(venues=["bybit"])
    clock.wait(100)
    assert store.now == clock.utc()
    assert fakes.log == []


@pytest.mark.skipif(os.name != "posix", reason="needs users without an entry")
def test_missing_home_directory_raises_with_advice_to_name_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    import pwd

    def unknown(_: object) -> None:
        raise KeyError("no such user")

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for name in ("HOME", "XDG_DATA_HOME", "DERIVDATA_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ArchiveError, match=r'pass a folder, dd\.connect\("venues", archive=\.\.\.\)'):
        read_through.open_venues()
    assert session.checked_on() == {}
    with pytest.raises(ArchiveError, match="set DERIVDATA_DATA_DIR"):
        session.keep_checks({"okx /api/v5/public/funding-rate": "2026-06-30"}, [])


def test_notice_names_venues_without_polled_open_interest_once(fakes: Fakes) -> None:
    dd.connect("venues", venues=["aster", "binance", "bybit"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataNotice)
        dd.funding.settlements("BTC", "2026-01-19", "2026-01-20")
        before = [str(notice.message) for notice in caught]
        held = dd.oi.exchanges()
        dd.oi.exchanges()
    said = (
        "aster: funding is polled but open interest is not: totals and shares of open interest lack "
        "this venue"
    )
    messages = [str(notice.message) for notice in caught if "open interest is not" in str(notice.message)]
    assert set(held["exchange"]) == {"binance", "bybit"}
    assert said not in before
    assert messages == [said]


def test_prices_combine_polls_and_histories(fakes: Fakes) -> None:
    """Gate reports its mark next to its open interest; bybit's past mark is missing, with a notice."""
    dd.connect("venues", venues=["gateio", "bybit"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataNotice)
        rows = dd.prices.history("BTC", "2026-01-19", "2026-01-20", resolution="1h")
    notices = [str(notice.message) for notice in caught]
    lacking = "no confirmed request of bybit returns the history of prices_history"
    assert sum(text.startswith(lacking) for text in notices) == 1
    assert rows["exchange"].tolist() == ["gateio"] * 24
    now = dd.asof() + pd.Timedelta(5, "min")
    polled = dd.prices.history("BTC", now - pd.Timedelta(1, "h"), now, kind="index", resolution="raw")
    assert "bybit" in set(polled["exchange"])
    assert (polled["resolution"] == "raw").all()
