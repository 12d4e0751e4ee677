"""Open interest that takes a request for each contract: evenly over five minutes, the largest first.

And the interval of a rate from two payments that polls saw to come next, by the venue's clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd
import pytest

from derivdata.sources import Query
from derivdata.sources.archive import open_archive
from derivdata.sources.collect.collector import Collector
from derivdata.sources.collect.contracts import PaymentSpacing
from derivdata.sources.collect.read_through import ReadThrough
from derivdata.sources.collect.reporting import status
from derivdata.sources.collect.session import VenueSession
from derivdata.sources.collect.state import VenueState
from derivdata.sources.venues.record_types import Instrument, State
from derivdata.sources.venues.registry import VENUES
from derivdata.support import times
from tests.collect.clocks import SimulatedClock
from tests.collect.direct import connect_directly
from tests.collect.fakes import Fakes

NOW, MINUTE = "2026-01-20T10:30:00", pd.Timedelta(1, "min")
COINS = {f"S{number:02}": 100.0 + number for number in range(23)}
"""One of 23 symbols each; the volume grows with the number."""
MARK = 50.0


class Many(Fakes):
    """Binance with 23 contracts, and open interest of each by its own request."""

    def _body(self, exchange: str, place: str, params: dict[str, Any]) -> tuple[int, Any]:
        now = int(self.now().timestamp() * 1000)
        if place.startswith("/dapi/"):  # no coin-margined contracts
            return 200, {"symbols": []} if place.endswith("exchangeInfo") else []
        names = {f"{symbol}USDT": coins for symbol, coins in COINS.items()}
        if place == "/fapi/v1/exchangeInfo":
            same = {"contractType": "PERPETUAL", "status": "TRADING", "quoteAsset": "USDT"}
            listed = [{**same, "symbol": name, "baseAsset": name.removesuffix("USDT")} for name in names]
            return 200, {"symbols": listed}
        if place == "/fapi/v1/premiumIndex":
            same = {"markPrice": str(MARK), "indexPrice": "49", "lastFundingRate": "0.0001", "time": now}
            due = (now // 28_800_000 + 1) * 28_800_000
            return 200, [{**same, "symbol": name, "nextFundingTime": due} for name in names]
        if place == "/fapi/v1/ticker/24hr":
            same = {"lastPrice": "50", "priceChangePercent": "1", "volume": "2"}
            return 200, [{**same, "symbol": name, "quoteVolume": str(c * 1000)} for name, c in names.items()]
        if place == "/fapi/v1/openInterest":
            coins = names[params["symbol"]]
            return 200, {"symbol": params["symbol"], "openInterest": str(coins), "time": now - 250}
        return super()._body(exchange, place, params)

    def asked(self) -> list[tuple[str, pd.Timestamp]]:
        """Symbols whose open interest was requested, and when."""
        results = [
            (params["symbol"], at) for _, place, params, at in self.log if place.endswith("/openInterest")
        ]
        return [(name.removesuffix("USDT"), at) for name, at in results]


@pytest.fixture
def fakes(clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch) -> Many:
    venue = Many(int(clock.utc().timestamp()) + 86_400, clock.utc)
    connect_directly(venue, clock, monkeypatch)
    return venue


@pytest.fixture
def collected(make_collector: Callable[..., Collector]) -> Callable[..., Collector]:
    return partial(make_collector, "binance", names=["oi_history", "markets_symbol_exchanges"])


def _minutes(collector: Collector, clock: SimulatedClock, count: int) -> None:
    first = clock.utc()
    for minute in range(count):
        clock.wait((first + minute * MINUTE - clock.utc()).total_seconds())
        collector.once()


def test_each_minute_requests_a_fifth_of_the_contracts(fakes, clock) -> None:
    session = VenueSession(VENUES["binance"], clock, address=fakes.addresses["binance"])
    state, first = VenueState(session, seconds=25.0), clock.utc()
    for minute in range(10):
        clock.wait((first + minute * MINUTE - clock.utc()).total_seconds())
        state.poll()
    asked = fakes.asked()
    assert Counter(symbol for symbol, _ in asked) == dict.fromkeys(COINS, 2)
    each = Counter((at - first).floor("min") for _, at in asked)
    assert len(each) == 10
    assert set(each.values()) == {5, 3}, "a fifth of 23, and what is left of them"
    assert [symbol for symbol, _ in asked[:5]] == ["S22", "S21", "S20", "S19", "S18"], "by volume"


def test_rows_have_the_venue_time_and_the_mark_of_the_same_minute(collected, fakes, clock) -> None:
    collector = collected()
    _minutes(collector, clock, 5)
    end = clock.utc() + MINUTE
    rows = collector.archive.read("oi_history", end - pd.Timedelta(1, "h"), end)
    truth = {symbol: at - pd.Timedelta(250, "ms") for symbol, at in fakes.asked()}
    assert dict(zip(rows["symbol"], rows["time"].dt.floor("ms"), strict=True)) == {
        symbol: at.floor("ms") for symbol, at in truth.items()
    }
    assert dict(zip(rows["symbol"], rows["oi_usd"], strict=True)) == {s: c * MARK for s, c in COINS.items()}
    assert set(rows["resolution"]) == {"raw"}
    market = collector.archive.latest("markets_symbol_exchanges", end, within=MINUTE * 2)
    assert len(market) == len(COINS)
    assert market["oi_usd"].notna().all(), "what was told within five minutes still holds"


def test_five_minute_polls_leave_no_gap_in_the_ledger(collected, fakes, clock) -> None:
    collector = collected()
    first = clock.utc()
    _minutes(collector, clock, 7)
    ledger = collector.archive.requests()
    mine = ledger[ledger["table"] == "oi_history"]
    assert len(mine) == len(COINS), "one interval for each symbol, however often it was asked"
    assert mine["answered"].all()
    lasted = Counter((mine["end"] - mine["start"]) / MINUTE)
    assert lasted == {10.0: 10, 5.0: 13}, "ten were asked a second time"
    assert mine["start"].min() == first.floor("min")
    held = status(collector.archive, clock.utc()).set_index("table")
    assert held.loc["oi_history", "holes"] == 0


def test_chosen_symbols_are_requested_first_and_a_single_poll_requests_all(collected, fakes, clock) -> None:
    collected(symbols=["S03"]).once()
    assert [symbol for symbol, _ in fakes.asked()][:2] == ["S03", "S22"]
    before = len(fakes.asked())
    collected(share_seconds=None).once()
    assert len(fakes.asked()) - before == len(COINS)


def test_rejected_contract_loses_its_row_and_busy_venue_ends_the_poll(collected, fakes, clock) -> None:
    refused = {
        "S22USDT": (400, {"code": -1121, "msg": "Invalid symbol."}),
        "S19USDT": (503, {"msg": "maintenance"}),
    }
    fakes.altered["/openInterest"] = lambda params, body: refused.get(params["symbol"], body)
    collector = collected()
    collector.once()
    assert "maintenance" in collector.failed["binance oi_history"]
    ledger = collector.archive.requests()
    mine = ledger[ledger["table"] == "oi_history"].set_index("symbol")
    assert mine["answered"].to_dict() == {"S22": False, "S21": True, "S20": True, "S19": False}
    assert "Invalid symbol" in mine.loc["S22", "error"]
    clock.wait(60)
    collector.once()
    assert {symbol for symbol, _ in fakes.asked()} >= {"S18", "S17", "S16"}, "the rest is asked next"


@pytest.mark.parametrize(
    ("bad", "asked"),
    [
        (("S22", "S20", "S18"), 5),  # the whole share of this poll
        (("S22", "S21", "S20", "S19", "S17", "S16", "S15", "S14"), 23),  # S18 is between
        (("S22", "S21", "S20", "S19", "S18"), 5),  # five in a row: it is the venue
    ],
)
def test_unreadable_contract_loses_its_row_and_five_in_a_row_end_the_poll(bad, asked, fakes, clock) -> None:
    wrong = {"openInterest": [], "time": "soon"}
    fakes.altered["/openInterest"] = lambda params, body: (
        body | wrong if params["symbol"].removesuffix("USDT") in bad else body
    )
    session = VenueSession(VENUES["binance"], clock, address=fakes.addresses["binance"])
    VenueState(session, seconds=25.0 if len(bad) == 3 else None).poll()
    assert [symbol for symbol, _ in fakes.asked()] == [f"S{22 - n:02}" for n in range(asked)]


def test_request_with_404_is_not_repeated(collected, fakes, clock) -> None:
    fakes.refusals["binance/fapi/v1/openInterest"] = (404, {}, {"code": -1, "msg": "no such path"})
    collector = collected()
    collector.once()
    clock.wait(60)
    collector.once()
    assert len(fakes.asked()) == 1
    assert collector.venues_without("oi_history") == []  # the coin-margined request is still there


def test_row_without_a_mark_of_the_minute_is_omitted(collected, fakes, clock) -> None:
    fakes.refusals["binance/fapi/v1/premiumIndex"] = (400, {}, {"code": -1, "msg": "no"})
    collector = collected()
    collector.once()
    end = clock.utc() + MINUTE
    assert collector.archive.read("oi_history", end - pd.Timedelta(1, "h"), end).empty
    assert "its mark price of the same minute is missing" in collector.failed["binance oi_history"]


def test_notice_states_the_share_of_polled_open_interest_until_complete(tmp_path, fakes, clock) -> None:
    store = ReadThrough(
        open_archive(tmp_path / "market"), venues=["binance"], clock=clock, addresses=fakes.addresses
    )
    store.refresh()
    store.newest(Query("oi_history", clock.utc() - 60 * MINUTE, clock.utc()))
    (said,) = [text for text in store.take_notices() if "open interest" in text]
    assert said.startswith("binance: open interest of 5 of 23 contracts so far, the largest first")
    for _ in range(4):
        clock.wait(61)
        store.refresh()
    rows = store.newest(Query("oi_history", clock.utc() - 60 * MINUTE, clock.utc()))
    assert set(rows["symbol"]) == set(COINS)
    assert not [text for text in store.take_notices() if "open interest" in text]
    store.close()


BTC = Instrument("BTC-USDT", "BTC", "USDT", 0.001)
EIGHT = pd.Timestamp("2026-01-20T08:00", tz="UTC")


def _hours(polls: list[tuple[pd.Timedelta, int]], ahead: pd.Timedelta) -> list[float | None]:
    """Return the interval at each poll, of (venue's time since 08:00, hours of the next payment)."""
    spacing, hours = PaymentSpacing(), []
    for since, due in polls:
        time = EIGHT + since
        next_payment = times.us(EIGHT.normalize() + pd.Timedelta(due, "h"))
        state = State(BTC, times.us(time), 0.0001, next_payment=next_payment)
        hours += [filled.period_h for filled in spacing.fill([state], time + ahead)]
    return hours


@pytest.mark.parametrize("seconds", [-50, 0, 50])
@pytest.mark.parametrize(
    ("polls", "wanted"),
    [
        ([(-MINUTE / 4, 8), (MINUTE * 3 / 4, 16), (2 * MINUTE, 16)], [None, 8.0, 8.0]),
        # 08:00 is still named as the next some seconds after it
        ([(-MINUTE, 8), (MINUTE / 12, 8), (2 * MINUTE, 12), (3 * MINUTE, 12)], [None, None, 4.0, 4.0]),
        ([(MINUTE / 12, 8), (59 * MINUTE, 9)], [None, 1.0]),
        ([(MINUTE / 12, 8), (60 * MINUTE, 10)], [None, None]),  # 09:00 may have been a payment, too
        ([(-30 * MINUTE, 8), (30 * MINUTE, 10)], [None, None]),  # an hour apart
        ([(-30 * MINUTE, 16), (-29 * MINUTE, 12)], [None, None]),  # brought forward: none has passed
    ],
)
def test_interval_is_the_time_between_payments_at_any_local_clock(polls, wanted, seconds) -> None:
    """A clock off by up to a minute is accepted; payments follow the venue's clock."""
    assert _hours(polls, pd.Timedelta(seconds, "s")) == wanted


def test_observed_payment_overrides_an_interval_stated_earlier() -> None:
    """A list of 8 hours goes on agreeing with 16:00 where 08:00 and 12:00 were paid."""
    spacing, hours = PaymentSpacing(), []
    for since, due in ((4 * 60 - 1, 12), (4 * 60 + 1, 16), (6 * 60, 16)):
        time = times.us(EIGHT + since * MINUTE)
        next_payment = times.us(EIGHT.normalize() + pd.Timedelta(due, "h"))
        result = State(BTC, time, 0.0001, 4.0 if due == 12 else 8.0, 8.0, next_payment=next_payment)
        hours += [filled.period_h for filled in spacing.fill([result], EIGHT)]
    assert hours == [4.0, 4.0, 4.0]
