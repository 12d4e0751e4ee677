"""`dd.live` against the fake venues: rows as they arrive, covered windows, and gaps."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
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
from derivdata.sources.collect.collector import Collector
from derivdata.sources.collect.reporting import StatusLine
from derivdata.sources.collect.session import MachineClock
from derivdata.sources.collect.venue_feeds import VenueStream, until_next_minute
from derivdata.sources.venues.reading import Context
from derivdata.sources.venues.registry import STATE_STREAMS, VENUES
from derivdata.support.times import Window
from tests.collect.clocks import HANGS_SECONDS
from tests.collect.direct import faked
from tests.collect.fakes import Fakes, SimulatedClock
from tests.collect.test_sockets import Pushing

RATES = ["funding_history"]


class Unhurried(SimulatedClock):
    """Whoever waits for the next minute lets the reader read."""

    def wait(self, seconds: float) -> bool:
        if seconds > 5:
            time.sleep(0.02)
        return super().wait(seconds)


class Together(Unhurried):
    """Goes to the next minute once the polls of all venues wait for it: a slow venue misses no minute."""

    def __init__(self, now: str, venues: int) -> None:
        super().__init__(now)
        self._meeting = threading.Barrier(venues, action=self._go_on)

    def wait(self, seconds: float) -> bool:
        if seconds <= 5:
            return super().wait(seconds)
        with suppress(threading.BrokenBarrierError):  # the feed was closed
            self._meeting.wait(HANGS_SECONDS)
        return self._stopped

    def stop(self) -> None:
        super().stop()
        self._meeting.abort()

    def _go_on(self) -> None:
        super().wait(until_next_minute(self.utc()))


@pytest.fixture
def clock() -> SimulatedClock:
    return Unhurried("2026-01-20T10:30:30")


def _threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("derivdata")}


def _of(updates: list[Any], table: str) -> pd.DataFrame:
    return pd.concat([rows for name, rows in updates if name == table], ignore_index=True)


def test_updates_have_windows_and_break_leaves_no_thread(fakes, clock, monkeypatch) -> None:
    """MEXC blocks this address: one notice, and a gap in each minute; the others continue."""
    messages: list[str] = []
    monkeypatch.setattr(StatusLine, "show", lambda _, text: messages.append(text))
    fakes.refusals["mexc"] = (451, {}, {})
    names = [*RATES, "prices_history"]
    where: dict[str, Any] = {"clock": clock, "addresses": fakes.addresses}
    updates: list[Any] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataNotice)
        for update in dd.live(names, ["KuCoin", "mexc"], "BTC", **where):
            updates.append(update)
            told = [rows["exchange"].iloc[0] for table, rows in updates if table == "coverage"]
            if min(told.count("kucoin"), told.count("mexc")) == 3:
                break
    assert _threads() == set()
    assert re.match(r"1 of 2 venues, \d+ of \d+ requests; waiting for (kucoin|mexc)$", messages[0])
    assert len(messages) == 2, "of the first poll of each venue"
    rates = _of(updates, "funding_history").query("exchange == 'kucoin'")
    assert set(rates["symbol"]) == {"BTC"}
    assert rates["rate_bps_8h"].tolist() == pytest.approx([1.0] * len(rates))
    assert set(_of(updates, "prices_history")["kind"]) == {"mark", "index", "last"}
    coverage = _of(updates, "coverage")
    assert list(coverage) == ["table", "exchange", "symbol", "start", "end", "answered", "error"]
    mine = coverage[(coverage["exchange"] == "kucoin") & (coverage["table"] == "funding_history")]
    assert mine["answered"].all()
    assert (mine["end"] - mine["start"] == pd.Timedelta(1, "min")).all()
    refused = coverage[coverage["exchange"] == "mexc"]
    assert not refused["answered"].any()
    assert refused["error"].str.contains("HTTP 451").all()
    assert sum("mexc funding_history" in str(notice.message) for notice in caught) == 1


def test_rows_not_read_in_time_are_reported_as_a_gap(fakes: Fakes, clock: SimulatedClock) -> None:
    unread = (
        "rows were dropped, because the venues send faster than the program reads: read faster, or pass a "
        "larger max_queue"
    )
    updates: list[Any] = []
    deadline = time.monotonic() + HANGS_SECONDS
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataNotice)
        for update in dd.live(RATES, ["kucoin"], clock=clock, addresses=fakes.addresses, max_queue=2):
            updates.append(update)
            while clock.utc() < pd.Timestamp("2026-01-20T11:00", tz="UTC") and time.monotonic() < deadline:
                time.sleep(0.01)
            if len(updates) == 9:
                break
    assert [str(notice.message) for notice in caught] == [
        f"kucoin funding_history: {unread}; later gaps are only in the coverage rows"
    ]
    coverage = _of(updates, "coverage")
    coverage = coverage.iloc[1:]  # the first poll lists the contracts, which takes more than a minute
    assert coverage["error"].tolist()[:2] == [unread, ""], "one window, however many polls it was"
    assert (coverage["start"].iloc[1:].to_numpy() == coverage["end"].iloc[:-1].to_numpy()).all(), "no hole"
    read = _of(updates, "funding_history")["time"].dt.floor("min").unique()[1:]
    assert set(coverage.loc[coverage["answered"], "start"]) <= set(read)


def test_async_for_yields_the_same_updates(fakes: Fakes, clock: SimulatedClock) -> None:
    async def first() -> Any:
        feed = dd.live(RATES, ["kucoin"], ["ETH"], clock=clock, addresses=fakes.addresses)
        async for update in feed:
            feed.close()
            return update
        raise AssertionError("it ended")

    table, rows = asyncio.run(first())
    assert table == "funding_history"
    assert rows[["symbol", "exchange"]].to_numpy().tolist() == [["ETH", "kucoin"]]
    assert _threads() == set()


@pytest.fixture
def served() -> Iterator[Fakes]:
    now = MachineClock().utc
    with Fakes(int(now().timestamp()) + 3600, now) as running:
        yield running


def _rate(rate: str, ms: int) -> dict[str, Any]:
    """A frame of okx about the running rate of BTC."""
    row = {"instType": "SWAP", "instId": "BTC-USDT-SWAP", "fundingRate": rate, "ts": str(ms),
           "fundingTime": str(ms + 3_600_000), "nextFundingTime": str(ms + 9 * 3_600_000),
           "method": "current_period"}  # fmt: skip
    return {"arg": {"channel": "funding-rate", "instId": "BTC-USDT-SWAP"}, "data": [row]}


def test_broken_channel_is_reported_as_a_gap(served: Fakes) -> None:
    """Okx pushes a rate, ends the connection, and pushes another one when it is connected to again."""
    ms = int(time.time() * 1000)
    server = Pushing([[_rate("0.0001", ms)], [_rate("0.0003", ms + 900)]], 1)
    where: dict[str, Any] = {"addresses": served.addresses, "sockets": {"okx": server.address}}
    updates: list[Any] = []
    with warnings.catch_warnings(record=True) as caught, dd.live(RATES, "okx", "BTC", **where) as feed:
        warnings.simplefilter("always", DataNotice)
        for update in feed:
            updates.append(update)
            if sum(len(rows) for table, rows in updates[:-1] if table == "funding_history") == 2:
                break
    server.close()
    assert [str(notice.message).partition(": ")[0] for notice in caught] == ["okx funding_history"]
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


def test_channel_with_binary_frames_is_named_and_polled_instead(served: Fakes) -> None:
    """As Paradex' are since 2026-09-21: SBE, which begins with the length of a block and a template."""
    server = Pushing([[bytes.fromhex("3800010001000300") + bytes(56)]], 1)
    where: dict[str, Any] = {"addresses": served.addresses, "sockets": {"okx": server.address}}
    updates: list[Any] = []
    since = time.monotonic()
    with warnings.catch_warnings(record=True) as caught, dd.live(RATES, "okx", "BTC", **where) as feed:
        warnings.simplefilter("always", DataNotice)
        for update in feed:
            updates.append(update)
            told = [rows["answered"].all() for table, rows in updates if table == "coverage"]
            if RATES[0] in dict(updates) and {*told} == {True, False}:
                break
    assert time.monotonic() - since < 60
    server.close()
    assert _threads() == set()
    why = "okx funding-rate: expected JSON or gzip-compressed JSON, got 64 bytes that begin with 38 00 01 00"
    assert any(why in str(notice.message) for notice in caught)
    rates = _of(updates, RATES[0])
    assert set(rates["symbol"]) == {"BTC"}
    assert rates["rate_bps_8h"].tolist() == pytest.approx([3.0] * len(rates))


def test_liquidation_far_from_the_mark_is_omitted_and_named(served: Fakes) -> None:
    """Prices are polled for it, even if not requested."""
    ms = int(time.time() * 1000)
    rows = [{"T": ms, "s": "BTCUSDT", "S": "Buy", "v": "2", "p": price} for price in ("2500", "45000", "1e6")]
    server = Pushing([[{"topic": "allLiquidation.BTCUSDT", "type": "snapshot", "ts": ms, "data": rows}]], 1)
    where: dict[str, Any] = {"addresses": served.addresses, "sockets": {"bybit": server.address}}
    updates: list[Any] = []
    feed = dd.live("liquidations_fills", "bybit", "BTC", **where)
    feed._polls.poll("bybit")
    with feed, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataNotice)
        for update in feed:
            updates.append(update)
            if "liquidations_fills" in dict(updates) and "coverage" in dict(updates):
                break
    server.close()
    text = "2 rows omitted, the first: a liquidation of BTC at"
    assert [text in str(notice.message) for notice in caught] == [True]
    assert _of(updates, "liquidations_fills")["order_price_usd"].tolist() == [45000.0]
    doubts = _of(updates, "coverage").query("symbol == 'figures'")
    assert (len(doubts), doubts["answered"].any()) == (1, False)
    assert {name for name, _ in updates} == {"liquidations_fills", "coverage"}


def test_prices_are_polled_to_check_pushed_liquidations(fakes: Fakes) -> None:
    names, chosen = ["liquidations_fills", "prices_history"], ["bybit", "kucoin"]
    with dd.live(names, chosen, "BTC", addresses=fakes.addresses) as feed:
        assert feed._wanted == {"bybit": [], "kucoin": ["prices_history"]}
        assert feed._polled == chosen
    with dd.live(names[0], chosen, "BTC", addresses=fakes.addresses) as feed:
        assert feed._polled == ["bybit"]
        assert "prices_history" not in feed._polls.states["kucoin"].tables, "it has no liquidations"


def _listened(exchange: str, frames: list[Any], names: set[str]) -> tuple[VenueStream, dict[str, Any]]:
    """Let a channel's frames come, the clock's second by second; return the stream and the newest rows."""
    (stream,), clock = STATE_STREAMS[exchange], SimulatedClock("2026-01-20T10:30:30")
    listening = VenueStream(VENUES[exchange], stream, lambda: ([], {}), clock)
    listening._names, rows = names, {}
    for frame in frames:
        body = json.dumps(frame).encode()
        assert stream.marker in body
        listening._keep(body, Context(None, exchange), clock.utc())
        rows, _, error = listening.drain()
        assert error == ""
        clock.wait(1)
    return listening, rows


_TOPIC = {"topic": "tickers.BTCUSDT", "cs": 1}
_WHOLE = {
    "symbol": "BTCUSDT", "fundingRate": "0.0001", "fundingIntervalHour": "8",
    "nextFundingTime": "1768924800000", "markPrice": "50000", "indexPrice": "49990", "lastPrice": "50010",
    "openInterest": "20",
    "openInterestValue": "1000000", "turnover24h": "777", "price24hPcnt": "0.01",
}  # fmt: skip
_SLIM = {"M": "100", "I": "99", "f": "0.0000125", "t": 1768905030000, "option_pricing": None,
         "stats": {"oi": "30", "v": "5", "p": "0.1"}}  # fmt: skip


@pytest.mark.parametrize(
    ("exchange", "name", "frames", "told"),
    [
        # of what changed alone: the mark values the coins of before
        ("bybit", "BTCUSDT", [
            {**_TOPIC, "type": "snapshot", "ts": 1768905030000, "data": _WHOLE},
            {**_TOPIC, "type": "delta", "ts": 1768905031000,
             "data": {"symbol": "BTCUSDT", "markPrice": "60000"}},
        ], (1.0, 600_000.0, 60_000.0)),
        ("dydx", "BTC-USD", [
            {"type": "subscribed", "contents": {"markets": {"BTC-USD": {
                "ticker": "BTC-USD", "status": "ACTIVE", "oraclePrice": "50000",
                "nextFundingRate": "0.0000125", "openInterest": "10", "volume24H": "1",
                "priceChange24H": "1"}}}},
            {"type": "channel_data", "contents": {"trading": {"BTC-USD": {"openInterest": "12"}}}},
        ], (1.0, 600_000.0, None)),
        ("lighter", "1:BTC", [{"channel": "market_stats:all", "market_stats": {"1": {
            "symbol": "BTC", "market_id": 1, "index_price": "49990", "mark_price": "50000",
            "open_interest": "600000", "last_trade_price": "50000", "current_funding_rate": "0.0012",
            "funding_rate": "0.0011", "daily_quote_token_volume": 777.0, "daily_price_change": 1.0}}}],
         (0.96, 600_000.0, 50_000.0)),
        ("deribit", "BTC-PERPETUAL", [{"jsonrpc": "2.0", "method": "subscription", "params": {
            "channel": "ticker.BTC-PERPETUAL.agg2", "data": {
                "instrument_name": "BTC-PERPETUAL", "timestamp": 1768905030000, "open_interest": 600000.0,
                "mark_price": 50000.0, "index_price": 49990.0, "last_price": 50000.0, "funding_8h": 0.0001,
                "stats": {"volume_usd": 1.0, "price_change": 1.0}}}}], (1.0, 600_000.0, 50_000.0)),
        ("derive", "BTC-PERP", [{"method": "subscription", "params": {
            "channel": "ticker_slim.BTC-PERP.1000", "data": {"timestamp": 1, "instrument_ticker": _SLIM}}}],
         (1.0, 3_000.0, 100.0)),
    ],
)  # fmt: skip
def test_partial_frames_update_rows_of_the_full_state(exchange, name, frames, told) -> None:
    _, rows = _listened(exchange, frames, {name})
    marks = rows["prices_history"].query("kind == 'mark'")["price_usd"].tolist()
    assert rows["funding_history"]["rate_bps_8h"].tolist() == [pytest.approx(told[0])]
    assert rows["oi_history"]["oi_usd"].tolist() == [told[1]]
    assert marks == ([] if told[2] is None else [told[2]])
    _, others = _listened(exchange, frames, {"another contract"})
    assert others["funding_history"].empty


@pytest.mark.parametrize(
    ("coins", "oi_usd", "gap", "omitted"),
    [
        ([3000] * 6, [], r".*is 1e\+03 times that of the last poll.*", None),
        (
            [3, 3, 3, 3, 3, 90],
            [300.0] * 5,
            "",
            "2 values omitted, the first: C5-USD: oi_usd is 9000, but was 300 in the last poll",
        ),
    ],
    ids=["all contracts", "one contract"],
)
def test_frame_with_larger_open_interest_is_a_gap_or_omits_one_value(
    coins: list[int], oi_usd: list[float], gap: str, omitted: str | None
) -> None:
    """Six contracts of dydx have 3 coins at 100 USD each, and other amounts a second later."""

    def frame(amounts: list[int]) -> bytes:
        rows = {
            f"C{n}-USD": {"oraclePrice": "100", "openInterest": str(amount), "nextFundingRate": "0.0000125"}
            for n, amount in enumerate(amounts)
        }
        prices = {name: {"oraclePrice": "100"} for name in rows}
        contents = {"trading": rows, "oraclePrices": prices}
        return json.dumps({"type": "channel_data", "contents": contents}).encode()

    stream, _ = _listened("dydx", [json.loads(frame([3] * 6))], {f"C{n}-USD" for n in range(6)})
    clock = stream._clock
    stream._since, stream._last_response = clock.utc() - pd.Timedelta(1, "s"), [clock.utc()]
    stream._keep(frame(coins), Context(None, "dydx"), clock.utc())
    rows, covered, error = stream.drain()
    assert rows["oi_history"]["oi_usd"].tolist() == oi_usd
    assert len(rows["funding_history"]) == 6
    assert re.fullmatch(gap, error, re.DOTALL)
    assert len(covered) == (0 if gap else 1)
    if omitted is not None:
        assert stream.omitted == omitted


def test_service_serves_pushed_rows_of_a_running_collector(served, archive, monkeypatch) -> None:
    """A second's row is stored before the next poll, and the service returns it."""
    monkeypatch.setattr("derivdata.sources.collect.collector._PUSHED_SECONDS", 0.1)
    ms, clock = int(time.time() * 1000), MachineClock()
    server = Pushing([[_rate("0.0007", ms)]], 1)
    where: dict[str, Any] = {"addresses": served.addresses, "sockets": {"okx": server.address}}
    collector = Collector(
        archive, venues=["okx"], symbols=["BTC"], names=RATES, push=True, clock=clock, **where
    )
    running = threading.Thread(target=collector.run, name="derivdata-collector")
    running.start()
    deadline, pushed = time.monotonic() + HANGS_SECONDS, pd.DataFrame()
    while pushed.empty and time.monotonic() < deadline:
        time.sleep(0.05)
        if "funding_history" in archive.tables():  # the next poll may come first
            pushed = archive.read("funding_history")
            pushed = pushed[pushed["time"] == pd.Timestamp(ms, unit="ms", tz="UTC")]
    dd.connect(str(archive.path), cache="off")
    shown = dd.funding.snapshot()
    dd.disconnect()
    clock.stop()
    running.join(HANGS_SECONDS)
    server.close()
    collector.close()
    assert pushed["rate_bps_8h"].tolist() == [pytest.approx(7.0)]
    assert set(shown["exchange"]) == {"okx"}
    assert "BTC" in set(shown["symbol"]), "and all that are listed, once the next poll has come"
    while _threads() and time.monotonic() < deadline:  # the writer is waited for a tenth of a second here
        time.sleep(0.05)
    assert _threads() == set()


class Scripted:
    """A channel and its clock: a drain each second, as written; the first one is read before the rest."""

    tables = ("funding_history",)
    venue = VENUES["okx"]
    omitted = ""

    def __init__(self, drains: list[Any]) -> None:
        self.is_read, self.is_over = threading.Event(), threading.Event()
        self._drains, self._seconds = drains, 0

    def is_broken(self, now: pd.Timestamp) -> bool:
        return False

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
    monkeypatch.setattr("derivdata.sources.collect.venue_feeds.VenueStream", lambda *_, **__: script)
    updates: list[Any] = []
    feed = dd.live(RATES, "okx", clock=script, max_queue=most)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataNotice)
        for update in feed:
            updates.append(update)
            script.is_read.set()
            assert script.is_over.wait(HANGS_SECONDS)
            if not feed._queue:
                feed.close()
    coverage = _of(updates, "coverage")
    assert len(caught) == coverage["error"].str.contains("rows were dropped|nothing was received").any()
    ends = [((coverage[name] - _at(0)).dt.total_seconds()).tolist() for name in ("start", "end")]
    rates = _of(updates, "funding_history")["rate_bps_8h"].tolist()
    return rates, list(zip(*ends, coverage["error"], strict=True))


def test_window_with_unread_pushed_rows_is_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows come at 0, 20, 60 and 150 s. A queue of four drops the row at 20 s, one of five drops none."""
    drains: list[Any] = [(None, []) for _ in range(180)]
    drains[0], drains[19], drains[59] = (1.0, []), (2.0, []), (3.0, [(0, 60)])
    drains[119], drains[149], drains[179] = (None, [(60, 120)]), (4.0, [(120, 150)]), (None, [(150, 180)])
    unread = (
        "rows were dropped, because the venues send faster than the program reads: read faster, or pass a "
        "larger max_queue"
    )
    rates, windows = _told(monkeypatch, drains, 4)
    assert rates == [1.0, 3.0, 4.0]
    assert windows == [(0, 60, unread), (60, 120, ""), (120, 180, "")]
    rates, windows = _told(monkeypatch, drains, 5)
    assert rates == [1.0, 2.0, 3.0, 4.0]
    assert windows == [(0, 60, ""), (60, 120, ""), (120, 180, "")]


def test_the_time_until_a_channel_is_connected_is_a_gap_without_a_notice(monkeypatch) -> None:
    drains: list[Any] = [(None, []) for _ in range(62)]
    drains[0], drains[1], drains[61] = (1.0, []), (None, [(1, 2)]), (None, [(2, 62)])
    _, windows = _told(monkeypatch, drains, 1000)
    assert windows == [(0, 1, "the channel was not connected yet"), (1, 2, ""), (2, 62, "")]


def test_late_pong_does_not_withdraw_a_reported_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ping of second 10 gets its pong at 70, after the minute was reported as a gap: the gap remains."""
    drains: list[Any] = [(None, []) for _ in range(120)]
    drains[0], drains[69], drains[119] = (1.0, []), (None, [(0, 10)]), (None, [(10, 120)])
    _, windows = _told(monkeypatch, drains, 1000)
    assert windows == [(0, 60, "nothing was received from the channel"), (60, 120, "")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["positioning_history"], "okx"), "'positioning_history' is not published live by okx"),
        ((["nope"], "okx"), "unknown table 'nope'"),
        (([], "okx"), "tables must name at least one table, got none"),
        ((RATES, "nope"), "nope"),
        ((["orderbook_book"], "okx"), r"such as symbols=\['BTC'\]"),
    ],
)
def test_live_rejects_unsupported_tables_and_venues(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dd.live(*arguments)


def test_example_of_the_documentation_draws_ten_minutes(monkeypatch) -> None:
    clock = Together("2026-01-20T10:30:30", venues=3)
    fakes = faked(int(pd.Timestamp("2026-01-21", tz="UTC").timestamp()), clock, monkeypatch)
    text = (Path(__file__).resolve().parents[2] / "docs" / "venues.md").read_text(encoding="utf-8")
    block = text.partition("## Streaming")[2].partition("```python\n")[2].partition("```")[0]
    result = partial(dd.live, clock=clock, addresses=fakes.addresses)
    monkeypatch.setattr("derivdata.sources.collect.live_feed.find_spec", lambda _: None)  # polls alone
    drawn: list[object] = []
    line = "from IPython.display import clear_output, display\n"
    assert line in block
    notebook = {"clear_output": lambda wait: None, "display": drawn.append}
    scope: dict[str, Any] = {"dd": SimpleNamespace(live=result), **notebook}
    exec(compile(block.replace(line, ""), "venues.md", "exec"), scope)  # noqa: S102 - a page of ours
    lines = {line.get_label(): line.get_ydata() for line in scope["axes"].get_lines()}
    plt.close(scope["figure"])
    assert {venue: set(rates.round(9)) for venue, rates in lines.items()} == {
        "bybit": {4.0}, "hyperliquid": {1.0}, "okx": {3.0},
    }  # fmt: skip
    drawn_times = scope["last"]["time"]
    assert pd.Timedelta(5, "min") < drawn_times.max() - drawn_times.min() <= pd.Timedelta(10, "min")
    assert drawn == [scope["figure"]] * len(drawn)
    assert _threads() == set()


def test_order_book_is_polled_for_the_requested_symbol(fakes: Fakes, clock: SimulatedClock) -> None:
    feed = dd.live("orderbook_book", "okx", "BTC", clock=clock, addresses=fakes.addresses)
    with feed:
        table, rows = next(iter(feed))
    with pytest.raises(ValueError, match=r"call dd\.live again"):
        next(iter(feed))
    with pytest.raises(ValueError, match="max_queue must be at least 1, got 0"):
        dd.live(RATES, "okx", max_queue=0)
    assert table == "orderbook_book"
    assert rows[["symbol", "side", "price_usd"]].iloc[0].tolist() == ["BTC", "ask", 101.0]


def test_state_channels_are_known_endpoints_and_require_symbols() -> None:
    """As the venues' pages write the messages."""
    for exchange, streams in STATE_STREAMS.items():
        paths = {e.path for e in VENUES[exchange].endpoints if e.method == "WS"}
        assert {stream.channel for stream in streams} <= paths
    names = {"gateio": ["A_USD", "B_USDT"], "bitget": ["AUSDT", "BUSD", "CPERP"]}
    sockets = {
        exchange: streams[-1].connections(names.get(exchange, ["A", "B"]), 5)
        for exchange, streams in STATE_STREAMS.items()
    }
    for exchange in ("binance", "aster"):
        (socket,) = sockets.pop(exchange)
        assert (socket.address[-21:], socket.messages) == ("/ws/!markPrice@arr@1s", [])
    sent = {exchange: [json.loads(item.messages[0]) for item in those] for exchange, those in sockets.items()}
    gate = {"time": 5, "channel": "futures.tickers", "event": "subscribe"}
    assert sent.pop("gateio") == [{**gate, "payload": ["B_USDT"]}, {**gate, "payload": ["A_USD"]}]
    kinds = [item["instType"] for item in sent.pop("bitget")[0]["args"]]
    assert kinds == ["USDT-FUTURES", "COIN-FUTURES", "USDC-FUTURES"]
    assert {exchange: messages[0] for exchange, messages in sent.items()} == {
        "bybit": {"op": "subscribe", "args": ["tickers.A", "tickers.B"]},
        "deribit": {
            "jsonrpc": "2.0", "method": "public/subscribe",
            "params": {"channels": ["ticker.A.agg2", "ticker.B.agg2"]}, "id": 1,
        },
        "derive": {
            "method": "subscribe", "id": 1,
            "params": {"channels": ["ticker_slim.A.1000", "ticker_slim.B.1000"]},
        },
        "dydx": {"type": "subscribe", "channel": "v4_markets"},
        "edgex": {"type": "subscribe", "channel": "ticker.all.1s"},
        "lighter": {"type": "subscribe", "channel": "market_stats/all"},
        "okx": {"op": "subscribe", "args": [
            {"channel": "open-interest", "instId": "A"}, {"channel": "open-interest", "instId": "B"}
        ]},
        "hyperliquid": {"method": "subscribe", "subscription": {"type": "allDexsAssetCtxs"}},
        "kraken": {"event": "subscribe", "feed": "ticker", "product_ids": ["A", "B"]},
    }  # fmt: skip
    ping = b'{"type":"ping","time":"1789136310001"}'
    assert STATE_STREAMS["edgex"][0].reply(ping) == '{"type":"pong","time":"1789136310001"}'
    assert len(STATE_STREAMS["kraken"][0].connections([str(n) for n in range(250)], 0)[0].messages) == 3
    assert venues.read("okx", "open-interest", b'{"data": []}')["oi_history"].empty
