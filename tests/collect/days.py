"""Hours of collecting on a simulated clock, compared with the truth of the fake venues."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from derivdata.sources.archive import Archive
from derivdata.sources.collect.collector import Collector
from derivdata.sources.collect.reporting import Minute
from tests.collect.clocks import EventClock
from tests.collect.fakes import PAGE, SYMBOLS, Fakes

TABLES = ("funding_history", "oi_history", "funding_settlements")
OI_HISTORIES = {"binance": 420, "okx": 60, "gateio": 60}
"""Maximum delay of open interest [s] of venues that also publish its past."""

_WHOLE = ("gateio", "huobi", "bitget", "bybit", "mexc", "kucoin", "kraken", "dydx")
WHOLE = {"funding_history": ("binance", *_WHOLE, "okx", "phemex"), "oi_history": _WHOLE}
"""Venues whose trouble is not about a table, next to binance, whose open interest is requested singly."""
_DOWN = (503, {}, {"msg": "maintenance"})
_FAULTS: dict[str, tuple[str, Any]] = {
    "binance": ("/dapi/v1/premiumIndex", "silence"),
    "gateio": ("/futures/btc/", (451, {}, {"message": "not in your region"})),
    "huobi": ("/swap-api/", _DOWN),
    "bitmex": ("", _DOWN),
}
"""By venue, the start of a path and the response."""
_LIMITS = {"kucoin": (429, {"Retry-After": "3"}, {}), "kraken": (429, {}, {})}
"""Responses to each third request."""


def _odd(body: Any) -> Any:
    for row in body["result"]["list"]:
        if row["symbol"] == "ODDUSDT":
            row["singleOpenInterest"] = str(3 * float(row["openInterest"]))
    return body


def _without_change(body: Any) -> Any:
    for row in body["data"]:
        del row["riseFallRate"]
    return body


def _in_thousandths(body: Any) -> Any:
    for row in body["data"]:
        row |= {name: str(1000 * float(row[name])) for name in ("oi", "oiCcy", "oiUsd")}
    return body


def _half(body: Any) -> str:
    text = json.dumps(body)
    return text[: len(text) // 2]


_SPOILED: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("bitget", "COIN-FUTURES"): lambda _: PAGE.decode(),
    ("bybit", "/tickers linear"): _odd,
    ("mexc", "/ticker"): _without_change,
    ("okx", "/open-interest SWAP"): _in_thousandths,
    ("dydx", "/historicalFunding/"): lambda body: {
        "historicalFunding": [row for row in body["historicalFunding"] for _ in range(2)]
    },
    ("backpack", "/"): _half,
    ("phemex", "/md/v3/ticker/24hr/all"): lambda body: body | {"result": []},
}
"""By venue, text of the path and the parameters."""
TROUBLES = [*dict.fromkeys([*_FAULTS, *_LIMITS, *(name for name, _ in _SPOILED), "deribit"])]
"""Venues with one fault each, deribit with a clock 90 s ahead, and a contract that all venues delist."""


class Hostile(Fakes):
    """Venues that misbehave, each in its own way, from `first` until `over`.

    Responses about the current state still include OLD, which is delisted in the middle of the window.
    """

    first = over = pd.Timestamp(0, tz="UTC")
    unit_over = over  # when okx counts in its own unit again: what lasts for an hour is accepted

    def trouble(self, first: pd.Timestamp, over: pd.Timestamp, symbols: Sequence[str]) -> None:
        """Say when, and what contracts there are; before and after it all venues are well."""
        self.first, self.over, self.symbols = first, over, tuple(symbols)
        self.unit_over = min(over, first + pd.Timedelta(50, "min"))
        self.delisted, self.delisted_at = True, first + (over - first) / 2

    @property
    def _is_on(self) -> bool:
        return self.first <= self._clock() < self.over

    def now(self) -> pd.Timestamp:
        ahead = self._is_on and getattr(self._of, "exchange", "") == "deribit"
        return super().now() + pd.Timedelta(90 if ahead else 0, "s")

    def _fault(self, exchange: str, place: str) -> Any:
        start, fault = _FAULTS.get(exchange, ("", None))
        if exchange in _LIMITS and self._counts[exchange] % 3 == 0:
            fault = _LIMITS[exchange]
        return fault if self._is_on and place.startswith(start) else None

    def _body(self, exchange: str, place: str, params: dict[str, Any]) -> tuple[int, Any]:
        status, body = super()._body(exchange, place, params)
        asked = " ".join([place, *map(str, params.values())])
        is_on = self._is_on and (exchange != "okx" or self._clock() < self.unit_over)
        for (name, part), spoiled in _SPOILED.items():
            if is_on and status == 200 and name == exchange and part in asked:
                body = spoiled(body)
        return status, body


def collect_until(
    archive: Archive,
    fakes: Fakes,
    clock: EventClock,
    end: pd.Timestamp,
    venues: Sequence[str],
    *,
    names: Sequence[str] = TABLES,
    unconfirmed: bool = False,
) -> list[Minute]:
    """Collect until a time, as a process does from its start to its end."""
    minutes: list[Minute] = []

    def count(minute: Minute) -> None:
        minutes.append(minute)
        if minute.time >= end:
            clock.stop()

    collector = Collector(
        archive,
        venues=venues,
        symbols=SYMBOLS,
        names=names,
        since=pd.Timedelta(1, "D"),
        clock=clock,
        addresses=fakes.addresses,
        unconfirmed=unconfirmed,
        log=count,
    )
    collector.run()
    collector.close()
    return minutes


def assert_settlements_equal_truth(
    archive: Archive, fakes: Fakes, venues: Sequence[str], first: pd.Timestamp, end: pd.Timestamp
) -> int:
    """Hold the payments of a window to the truth, row for row; return how many there are."""
    rows = archive.read("funding_settlements", first, end)
    count = 0
    for exchange in venues:
        for symbol in SYMBOLS:
            payments = fakes.truth.payments(exchange, symbol)
            truth = [p for p in payments if first.timestamp() <= p[0] < end.timestamp()]
            result = rows[(rows["exchange"] == exchange) & (rows["symbol"] == symbol)]
            stamps = [pd.Timestamp(second, unit="s", tz="UTC") for second, _, _ in truth]
            assert result["time"].tolist() == stamps, (exchange, symbol)
            bps = [rate * 1e4 * 8 / hours for _, hours, rate in truth]
            assert result["interval_hours"].tolist() == [hours for _, hours, _ in truth], (exchange, symbol)
            np.testing.assert_allclose(result["rate_bps_8h"], bps, rtol=1e-9, atol=1e-12)
            count += len(result)
    return count


def assert_open_interest_equals_truth(
    archive: Archive, fakes: Fakes, venues: Sequence[str], first: pd.Timestamp, end: pd.Timestamp
) -> int:
    """Hold open interest to the truth, and each five minutes to a poll or a row of the history."""
    rows = archive.read("oi_history", first, end)
    seconds = rows["time"].astype("int64").to_numpy() // 1_000_000
    truth = [fakes.truth.oi_at(s, int(at)) for s, at in zip(rows["symbol"], seconds, strict=True)]
    np.testing.assert_allclose(rows["oi_usd"], [c * m for _, c, m in truth], rtol=1e-9)
    assert not rows.duplicated(["symbol", "exchange", "time"]).any()
    for exchange in set(venues) & OI_HISTORIES.keys():
        for symbol in SYMBOLS:
            mine = (rows["exchange"] == exchange) & (rows["symbol"] == symbol)
            held = sorted(seconds[mine.to_numpy()].tolist())
            for second in range(int(first.timestamp()), int(end.timestamp()), 300):
                place = bisect_left(held, second)
                assert place < len(held), (exchange, symbol, second)
                assert held[place] < second + OI_HISTORIES[exchange], (exchange, symbol, second)
    return len(rows)


def answered_minutes(
    archive: Archive, table: str, exchange: str, first: pd.Timestamp, end: pd.Timestamp
) -> set[pd.Timestamp]:
    """Return the minutes for which the ledger has a response of a venue about all contracts."""
    ledger = archive.requests()
    ledger = ledger[(ledger["table"] == table) & (ledger["exchange"] == exchange) & ledger["answered"]]
    windows = ledger.loc[ledger["symbol"].isna(), ["start", "end"]].itertuples(index=False)
    return {
        at
        for window in windows
        for at in pd.date_range(window.start, window.end, freq="min", inclusive="left")
        if first <= at < end
    }


def assert_minutes_equal_ledger(
    archive: Archive,
    venues: Sequence[str],
    first: pd.Timestamp,
    end: pd.Timestamp,
    symbols: Sequence[str] = SYMBOLS,
) -> int:
    """Compare sampled rates with the ledger: one row of each contract in each covered minute only."""
    rows = archive.read("funding_history", first, end)
    count = 0
    for exchange in venues:
        minutes = answered_minutes(archive, "funding_history", exchange, first, end)
        for symbol in symbols:
            mine = rows[(rows["exchange"] == exchange) & (rows["symbol"] == symbol)]
            assert not mine["time"].duplicated().any(), (exchange, symbol)
            assert len(mine) == len(minutes), (exchange, symbol)
        count += len(minutes)
    return count
