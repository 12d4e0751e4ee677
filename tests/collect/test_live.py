"""`dd.live` against the fake venues: rows as they come, windows that were answered, and gaps."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import pytest

import derivdata as dd
from derivdata.errors import DataNotice
from derivdata.sources import venues
from derivdata.sources.collect.clock import MachineClock
from derivdata.sources.venues.registry import VENUES
from derivdata.sources.venues.state_streams import STATE_STREAMS
from derivdata.support.times import Window
from tests.collect.clocks import HANGS_SECONDS
from tests.collect.fakes import Fakes, SimulatedClock
from tests.collect.test_sockets import Pushing

RATES = ["funding_history"]


class Unhurried(SimulatedClock):
    """Whoever waits for the next minute lets the reader read."""

    def wait(self, seconds: float) -> bool:
        if seconds > 5:
            time.sleep(0.02)
        return super().wait(seconds)


@pytest.fixture
def clock() -> SimulatedClock:
    return Unhurried("2026-01-20T10:30:30")


def _threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("derivdata")}


def _of(updates: list[Any], table: str) -> pd.DataFrame:
    return pd.concat([rows for name, rows in updates if name == table], ignore_index=True)


def test_rows_come_with_their_windows_and_break_leaves_no_thread(fakes: Fakes, clock: SimulatedClock) -> None:
    """Bitget refuses this address: a notice, once, and a gap in each minute; the others go on."""
    fakes.refusals["bitget"] = (451, {}, {})
    names = [*RATES, "prices_history"]
    where: dict[str, Any] = {"clock": clock, "addresses": fakes.addresses}
    updates: list[Any] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataNotice)
        for update in dd.live(names, ["Bybit", "bitget"], "BTC", **where):
            updates.append(update)
            told = [rows["exchange"].iloc[0] for table, rows in updates if table == "coverage"]
            if min(told.count("bybit"), told.count("bitget")) == 3:
                break
    assert _threads() == set()
    rates = _of(updates, "funding_history").query("exchange == 'bybit'")
    assert set(rates["symbol"]) == {"BTC"}
    assert rates["rate_bps_8h"].tolist() == pytest.approx([4.0] * len(rates))
    assert set(_of(updates, "prices_history")["kind"]) == {"mark", "index", "last"}
    coverage = _of(updates, "coverage")
    assert list(coverage) == ["table", "exchange", "symbol", "start", "end", "answered", "error"]
    mine = coverage[(coverage["exchange"] == "bybit") & (coverage["table"] == "funding_history")]
    assert mine["answered"].all()
    assert (mine["end"] - mine["start"] == pd.Timedelta(1, "min")).all()
    refused = coverage[coverage["exchange"] == "bitget"]
    assert not refused["answered"].any()
    assert refused["error"].str.contains("HTTP 451").all()
    assert sum("bitget funding_history" in str(one.message) for one in caught) == 1


def test_what_is_not_read_in_time_is_a_gap(fakes: Fakes, clock: SimulatedClock) -> None:
    unread = "it was not read in time: the reader is slower than the venues"
    updates: list[Any] = []
    deadline = time.monotonic() + HANGS_SECONDS
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataNotice)
        for update in dd.live(RATES, ["bybit"], clock=clock, addresses=fakes.addresses, most=2):
            updates.append(update)
            while clock.utc() < pd.Timestamp("2026-01-20T11:00", tz="UTC") and time.monotonic() < deadline:
                time.sleep(0.01)
            if len(updates) == 9:
                break
    assert [str(one.message) for one in caught] == [
        f"bybit funding_history: {unread}; later gaps are rows of coverage"
    ]
    coverage = _of(updates, "coverage")
    coverage = coverage.iloc[1:]  # the first poll lists the contracts, which takes more than a minute
    assert coverage["error"].tolist()[:2] == [unread, ""], "one window, however many polls it was"
    assert (coverage["start"].iloc[1:].to_numpy() == coverage["end"].iloc[:-1].to_numpy()).all(), "no hole"
    read = _of(updates, "funding_history")["time"].dt.floor("min").unique()[1:]
    assert set(coverage.loc[coverage["answered"], "start"]) <= set(read)


def test_the_same_by_async_for(fakes: Fakes, clock: SimulatedClock) -> None:
    async def first() -> Any:
        feed = dd.live(RATES, ["bybit"], ["ETH"], clock=clock, addresses=fakes.addresses)
        async for update in feed:
            feed.close()
            return update
        raise AssertionError("it ended")

    table, rows = asyncio.run(first())
    assert table == "funding_history"
    assert rows[["symbol", "exchange"]].to_numpy().tolist() == [["ETH", "bybit"]]
    assert _threads() == set()


@pytest.fixture
def served() -> Iterator[Fakes]:
    now = MachineClock().utc
    with Fakes(int(now().timestamp()) + 3600, now) as running:
        yield running


def test_a_channel_is_listened_to_and_a_break_of_it_is_a_gap(served: Fakes) -> None:
    """Okx pushes a rate, ends the connection, and pushes another one when it is connected to again."""
    ms = int(time.time() * 1000)

    def frame(rate: str, late: int) -> dict[str, Any]:
        row = {"instType": "SWAP", "instId": "BTC-USDT-SWAP", "fundingRate": rate, "ts": str(ms + late),
               "fundingTime": str(ms + 3_600_000), "nextFundingTime": str(ms + 8 * 3_600_000 + 3_600_000),
               "method": "current_period"}  # fmt: skip
        return {"arg": {"channel": "funding-rate", "instId": "BTC-USDT-SWAP"}, "data": [row]}

    server = Pushing([[frame("0.0001", 0)], [frame("0.0003", 900)]], 1)
    where: dict[str, Any] = {"addresses": served.addresses, "sockets": {"okx": server.address}}
    updates: list[Any] = []
    with warnings.catch_warnings(record=True) as caught, dd.live(RATES, "okx", "BTC", **where) as feed:
        warnings.simplefilter("always", DataNotice)
        for update in feed:
            updates.append(update)
            if sum(len(rows) for table, rows in updates[:-1] if table == "funding_history") == 2:
                break
    server.close()
    assert [str(one.message).partition(": ")[0] for one in caught] == ["okx funding_history"]
    assert _threads() == set()
    subscribed = {"op": "subscribe", "args": [{"channel": "funding-rate", "instId": "BTC-USDT-SWAP"}]}
    assert server.received[0] == subscribed, "of the chosen contract alone"
    rates = _of(updates, "funding_history")
    assert rates["rate_bps_8h"].tolist() == pytest.approx([1.0, 3.0])
    coverage = _of(updates, "coverage")
    assert coverage["answered"].tolist()[:1] == [False], "before the first frame"
    assert not coverage["answered"].all()
    assert (coverage["start"].iloc[1:].to_numpy() == coverage["end"].iloc[:-1].to_numpy()).all()
    assert not served.log or all("funding-rate" not in place for _, place, *_ in served.log), "none polled"


def test_a_queue_of_no_batch_is_refused() -> None:
    with pytest.raises(ValueError, match="most: 0 is less than 1"):
        dd.live(RATES, "okx", most=0)


class Scripted:
    """A channel and its clock: a drain each second, as written; the first one is read before the rest."""

    tables = ("funding_history",)
    venue = VENUES["okx"]

    def __init__(self, drains: list[Any]) -> None:
        self.is_read, self.is_over = threading.Event(), threading.Event()
        self._drains, self._seconds = drains, 0

    def utc(self) -> pd.Timestamp:
        return _at(self._seconds)

    def wait(self, _: float) -> bool:
        if self._seconds == 1:
            self.is_read.wait(HANGS_SECONDS)
        self._seconds += 1
        if self._seconds > len(self._drains):
            self.is_over.set()
        return self.is_over.is_set()

    def drain(self) -> Any:
        bps, windows = self._drains[self._seconds - 1]
        row = {"symbol": "BTC", "exchange": "okx", "time": _at(self._seconds), "rate_bps_8h": bps}
        rows = {} if bps is None else {"funding_history": pd.DataFrame([row])}
        return rows, [Window(_at(start), _at(end)) for start, end in windows], ""

    def start(self) -> None:
        pass

    def stop(self) -> None:
        self.is_over.set()


def _at(second: float) -> pd.Timestamp:
    return pd.Timestamp("2026-01-20T10:30:30", tz="UTC") + pd.Timedelta(second, "s")


def _told(
    monkeypatch: pytest.MonkeyPatch, drains: list[Any], most: int
) -> tuple[list[float], list[tuple[float, float, str]]]:
    """Return the rates that were read, and the windows [s] with their errors."""
    script = Scripted(drains)
    monkeypatch.setattr("derivdata.sources.collect.polling.VenueStream", lambda *_, **__: script)
    updates: list[Any] = []
    feed = dd.live(RATES, "okx", clock=script, most=most)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataNotice)
        for update in feed:
            updates.append(update)
            script.is_read.set()
            assert script.is_over.wait(HANGS_SECONDS)
            if not feed._queue:
                feed.close()
    coverage = _of(updates, "coverage")
    assert len(caught) == coverage["error"].str.contains("read in time|nothing was heard").any()
    ends = [((coverage[name] - _at(0)).dt.total_seconds()).tolist() for name in ("start", "end")]
    rates = _of(updates, "funding_history")["rate_bps_8h"].tolist()
    return rates, list(zip(*ends, coverage["error"], strict=True))


def test_a_window_is_a_gap_whose_pushed_rows_were_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows come at 20, 60 and 150 s, their windows each minute; with four that wait, the row at 20 s goes."""
    drains: list[Any] = [(None, []) for _ in range(180)]
    drains[0], drains[19], drains[59] = (1.0, []), (2.0, []), (3.0, [(0, 60)])
    drains[119], drains[149], drains[179] = (None, [(60, 120)]), (4.0, [(120, 150)]), (None, [(150, 180)])
    unread = "it was not read in time: the reader is slower than the venues"
    rates, windows = _told(monkeypatch, drains, 4)
    assert rates == [1.0, 3.0, 4.0]
    assert windows == [(0, 60, unread), (60, 120, ""), (120, 180, "")]
    rates, windows = _told(monkeypatch, drains, 5)
    assert rates == [1.0, 2.0, 3.0, 4.0]
    assert windows == [(0, 60, ""), (60, 120, ""), (120, 180, "")]


def test_the_time_until_a_channel_is_connected_is_a_gap_without_a_notice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drains: list[Any] = [(None, []) for _ in range(62)]
    drains[0], drains[1], drains[61] = (1.0, []), (None, [(1, 2)]), (None, [(2, 62)])
    _, windows = _told(monkeypatch, drains, 1000)
    assert windows == [(0, 1, "the channel was not connected yet"), (1, 2, ""), (2, 62, "")]


def test_a_sign_of_life_that_comes_late_takes_no_window_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ping of second 10 is answered at 70, when the minute was told as a gap: what was told stays."""
    drains: list[Any] = [(None, []) for _ in range(120)]
    drains[0], drains[69], drains[119] = (1.0, []), (None, [(0, 10)]), (None, [(10, 120)])
    _, windows = _told(monkeypatch, drains, 1000)
    assert windows == [(0, 60, "nothing was heard of the channel"), (60, 120, "")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["positioning_history"], "okx"), "none of okx tells 'positioning_history' of now"),
        ((["nope"], "okx"), "there is no table 'nope'"),
        (([], "okx"), "tables: name at least one"),
        ((RATES, "nope"), "nope"),
        ((["orderbook_book"], "okx"), r"name some, symbols=\['BTC'\]"),
    ],
)
def test_what_cannot_be_told_live_is_refused(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dd.live(*arguments)


def test_the_example_of_the_page_draws_ten_minutes(
    fakes: Fakes, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "venues.md").read_text(encoding="utf-8")
    block = text.partition("## Tables as they come")[2].partition("```python\n")[2].partition("```")[0]
    told = partial(dd.live, clock=clock, addresses=fakes.addresses)
    monkeypatch.setattr("derivdata.sources.collect.live_feed.find_spec", lambda _: None)  # polls alone
    drawn: list[object] = []
    line = "from IPython.display import clear_output, display\n"
    assert line in block
    notebook = {"clear_output": lambda wait: None, "display": drawn.append}
    scope: dict[str, Any] = {"dd": SimpleNamespace(live=told), **notebook}
    exec(compile(block.replace(line, ""), "venues.md", "exec"), scope)
    lines = {line.get_label(): line.get_ydata() for line in scope["axes"].get_lines()}
    plt.close(scope["figure"])
    assert {venue: set(rates.round(9)) for venue, rates in lines.items()} == {
        "bybit": {4.0}, "hyperliquid": {1.0}, "okx": {3.0},
    }  # fmt: skip
    drawn_times = scope["last"]["time"]
    assert pd.Timedelta(5, "min") < drawn_times.max() - drawn_times.min() <= pd.Timedelta(10, "min")
    assert drawn == [scope["figure"]] * len(drawn)
    assert _threads() == set()


def test_a_book_is_polled_for_its_symbol(fakes: Fakes, clock: SimulatedClock) -> None:
    feed = dd.live("orderbook_book", "okx", "BTC", clock=clock, addresses=fakes.addresses)
    with feed:
        table, rows = next(iter(feed))
    with pytest.raises(ValueError, match=r"call dd\.live again"):
        next(iter(feed))
    assert table == "orderbook_book"
    assert rows[["symbol", "side", "price_usd"]].iloc[0].tolist() == ["BTC", "ask", 101.0]


def test_the_channels_of_the_state_are_known_endpoints_and_ask_for_names() -> None:
    """As the venues' pages write the messages."""
    for exchange, streams in STATE_STREAMS.items():
        paths = {e.path for e in VENUES[exchange].endpoints if e.method == "WS"}
        assert {stream.channel for stream in streams} <= paths
    sent = {
        exchange: json.loads(streams[-1].connections(["A", "B"], 0)[0].messages[0])
        for exchange, streams in STATE_STREAMS.items()
    }
    assert sent == {
        "okx": {"op": "subscribe", "args": [
            {"channel": "open-interest", "instId": "A"}, {"channel": "open-interest", "instId": "B"}
        ]},
        "hyperliquid": {"method": "subscribe", "subscription": {"type": "allDexsAssetCtxs"}},
        "kraken": {"event": "subscribe", "feed": "ticker", "product_ids": ["A", "B"]},
        "paradex": {
            "jsonrpc": "2.0", "method": "subscribe", "params": {"channel": "markets_summary"}, "id": 1
        },
    }  # fmt: skip
    assert len(STATE_STREAMS["kraken"][0].connections([str(n) for n in range(250)], 0)[0].messages) == 3
    assert venues.read("okx", "open-interest", b'{"data": []}')["oi_history"].empty
