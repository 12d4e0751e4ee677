"""A month of history of all venues, compared with the truth of the fake venues."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from derivdata.sources.archive import Archive
from derivdata.sources.venues.registry import VENUES
from derivdata.tables.contracts import HIP3_DEXES as DEXES
from tests.collect.days import assert_settlements_equal_truth
from tests.collect.fakes import SYMBOLS, Fakes
from tests.venues.test_budgets import used

NOW = "2026-02-01T00:30:00"
START, END = "2026-01-01", "2026-02-01"
MONTH = pd.Timestamp(START, tz="UTC"), pd.Timestamp(END, tz="UTC")
LAST = int(pd.Timestamp(END, tz="UTC").timestamp()) + 1800
_WITHOUT_PAST = ("paradex", "coinbase", "variational")
SETTLING = [name for name in VENUES if name not in (*_WITHOUT_PAST, *DEXES)]  # no fake plays the dexes
UNCONFIRMED = ("kraken", "nado")
_REACH = {"ethereal": "2026-01-02T01:00"}
"""Start of the history of a venue that serves only the last 30 days."""


@pytest.mark.parametrize("exchange", SETTLING)
def test_backfilled_month_of_settlements_equals_the_truth(exchange, fill, archive, fakes) -> None:
    """Though a tenth of the requests fail."""
    fakes.random_faults = 0.1
    options = {"unconfirmed": exchange in UNCONFIRMED}
    done = fill("funding_settlements", exchange, **options)
    assert done.failed == []
    first = pd.Timestamp(_REACH.get(exchange, START), tz="UTC")
    assert_settlements_equal_truth(archive, fakes, [exchange], first, MONTH[1])
    assert used(fakes.log)[exchange] <= 0.25
    again = fill("funding_settlements", exchange, **options)
    assert again.written == {}  # the ledger knows what was asked
    assert len(archive.requests()) == len(SYMBOLS)


@pytest.mark.parametrize("exchange", ["binance", "bitget", "hyperliquid", "kraken"])
def test_delisted_contract_is_backfilled(exchange: str, fill: Any, archive: Archive, fakes: Fakes) -> None:
    fakes.delisted = True
    options = {"symbols": ["OLD"], "unconfirmed": exchange in UNCONFIRMED}
    assert fill("funding_settlements", exchange, **options).failed == []
    first, end = (moment.timestamp() for moment in MONTH)
    paid = [row[0] for row in fakes.truth.payments(exchange, "OLD") if first <= row[0] < end]
    assert archive.read("funding_settlements", *MONTH)["time"].dt.floor("h").tolist() == [
        pd.Timestamp(second, unit="s", tz="UTC").floor("h") for second in paid
    ]


def test_interrupted_walk_writes_no_rows_and_is_requested_again(fill, archive, fakes) -> None:
    fill("funding_settlements", "bybit", symbols=["ETH"])
    listing = 3  # requests for the list of contracts
    # The list and the first page succeed, and the second page is refused.
    refused = {"retCode": 10001, "retMsg": "bad", "result": {}, "time": 1}
    fakes.faults["bybit"] = [*[None] * (listing + 1), refused]
    done = fill("funding_settlements", "bybit", symbols=["BTC"])
    assert len(done.failed) == 1
    assert done.failed[0].startswith("bybit funding_settlements BTC: /v5/market/funding/history: ")
    assert "10001" in done.failed[0]
    assert "BTC" not in archive.symbols("funding_settlements")
    ledger = archive.requests().set_index("symbol")
    assert ledger["answered"].to_dict() == {"BTC": False, "ETH": True}
    assert fill("funding_settlements", "bybit").failed == []
    assert_settlements_equal_truth(archive, fakes, ["bybit"], *MONTH)


def test_invalid_row_rejects_only_its_page_which_is_requested_again(fill, archive, fakes) -> None:
    """Hyperliquid has 500 payments a page: the second page has a rate that is not a number."""
    bad = pd.Timestamp("2026-01-30T05:00Z")

    def broken(params: dict[str, Any], body: Any) -> Any:
        if params["type"] == "fundingHistory" and isinstance(body, list):
            for row in body:
                if pd.Timestamp(row["time"], unit="ms", tz="UTC").floor("h") == bad:
                    row["fundingRate"] = "none"
        return body

    fakes.altered["hyperliquid/info"] = broken
    done = fill("funding_settlements", "hyperliquid", symbols=["BTC"])
    assert len(done.failed) == 1
    assert "1 row omitted: hyperliquid /info fundingHistory: 'none' is not a number" in done.failed[0]
    rows = archive.read("funding_settlements", *MONTH)
    assert len(rows) == 743
    assert bad not in set(rows["time"])
    ledger = archive.requests()
    failed = ledger[~ledger["answered"]].iloc[0]
    assert pd.Timestamp("2026-01-20", tz="UTC") < failed["start"] < bad < failed["end"] <= MONTH[1]
    answered = ledger[ledger["answered"]].sort_values("start")
    assert answered["start"].iloc[0] == MONTH[0]
    assert answered["end"].iloc[0] == failed["start"]
    fakes.altered.clear()
    fakes.log.clear()
    assert fill("funding_settlements", "hyperliquid", symbols=["BTC"]).failed == []
    first = min(params["startTime"] for *_, params, _ in fakes.log if params.get("type") == "fundingHistory")
    assert first > pd.Timestamp("2026-01-15", tz="UTC").timestamp() * 1000, "not the first page again"
    assert bad in set(archive.read("funding_settlements", *MONTH)["time"])
    assert archive.unanswered("funding_settlements", "hyperliquid", "BTC", *MONTH) == []


def test_history_waits_for_the_end_of_a_ban(fill: Any, fakes: Fakes, clock: Any) -> None:
    """Half an hour, given in the text of Binance's response."""
    since = clock.utc()
    until = int((since + pd.Timedelta(30, "min")).timestamp() * 1000)
    ban = {"code": -1003, "msg": f"Way too many requests; IP banned until {until}."}
    fakes.faults["binance"] = [None, None, (418, {}, json.dumps(ban))]
    assert fill("funding_settlements", "binance", symbols=["BTC"]).failed == []
    assert clock.utc() - since >= pd.Timedelta(30, "min")


def test_too_long_ban_is_an_error_with_advice(fill: Any, fakes: Fakes) -> None:
    fakes.refusals["binance"] = (
        418,
        {"Retry-After": "7200"},
        {"code": -1003, "msg": "Way too many requests"},
    )
    done = fill("funding_settlements", "binance", symbols=["BTC"])
    assert len(done.failed) == 1
    for words in ("/fapi/v1/exchangeInfo", "HTTP 418", "requests per second of its limit",
                  "now pauses for 7200 s", "stop other programs that send requests to binance"):  # fmt: skip
        assert words in done.failed[0]


def test_only_windows_missing_from_the_ledger_are_requested(
    fill: Any, archive: Archive, fakes: Fakes
) -> None:
    """The second call fills the month of January; the first one filled it from the 10th on."""
    fill("funding_settlements", "binance", start="2026-01-10")
    fakes.log.clear()
    fill("funding_settlements", "binance")
    requests = [params for _, place, params, _ in fakes.log if place.endswith("fundingRate")]
    start_of_the_first_call = pd.Timestamp("2026-01-10", tz="UTC").timestamp() * 1000
    assert len(requests) > 0
    assert all(float(params["endTime"]) <= start_of_the_first_call for params in requests)
    assert_settlements_equal_truth(archive, fakes, ["binance"], *MONTH)


def test_small_clock_difference_is_reported(fill, archive, fakes) -> None:
    fakes.skew = pd.Timedelta(30, "s")
    done = fill("funding_settlements", "dydx")
    assert "30 s apart" in done.notices[0]
    assert archive.tables() == {"funding_settlements"}


def test_large_clock_difference_stops_writing(fill, archive, fakes) -> None:
    fakes.skew = pd.Timedelta(300, "s")
    done = fill("funding_settlements", "dydx")
    assert "300 s apart: set the clock" in done.failed[0]
    assert archive.tables() == frozenset()


def test_long_walk_reports_progress_in_requests(fill: Any, fakes: Fakes) -> None:
    """Phemex returns 100 hours a request: 31 days, and the 9 hours before them, are 8 requests."""
    messages: list[str] = []
    fill("funding_settlements", "phemex", symbols=["BTC"], progress=messages.append)
    requests = sum(place.endswith("funding-rate-history") for _, place, *_ in fakes.log)
    progress = [text.rpartition(": ")[2] for text in messages[:-1]]
    assert progress == ["5 of about 8 requests"], messages
    assert requests == 8


@pytest.mark.parametrize(
    ("venue", "kinds", "resolution"),
    [
        ("deribit", {"index": None}, "1h"),  # next to the payments
        ("gateio", {"mark": 0.0}, "5m"),  # next to the open interest
        ("binance", {"mark": 0.0, "last": 1.0, "index": -2.0}, "1h"),
        *((venue, {"mark": 0.0, "index": -2.0}, "1h") for venue in ("bybit", "okx")),
    ],
)
def test_past_prices_equal_the_truth_and_candles_need_unconfirmed(
    venue, kinds, resolution, fill, archive, fakes
) -> None:
    """A candle's price is its open, at its start; where its kind is so far above the mark."""
    start, step = pd.Timestamp("2026-01-28", tz="UTC"), pd.Timedelta(resolution)
    window: dict[str, Any] = {"symbols": ["BTC"], "start": start}
    is_confirmed = venue in ("deribit", "gateio")
    done = fill("prices_history", venue, **window)
    if not is_confirmed:
        assert done.notices == [
            f"no confirmed request of {venue} returns the history of prices_history: only polled "
            "rows are stored"
        ]
        assert archive.requests().empty
        done = fill("prices_history", venue, **window, unconfirmed=True)
    assert done.failed == []
    rows = archive.read("prices_history", start, MONTH[1])
    assert set(rows["kind"]) == {*kinds}
    assert set(rows["resolution"]) == {resolution}
    times = pd.date_range(start, MONTH[1], freq=step, inclusive="left")
    marks = {second: mark for second, _, mark in fakes.truth.oi("BTC")}
    for kind, above in kinds.items():
        part, seconds = rows[rows["kind"] == kind], [int(time.timestamp()) for time in times]
        assert part["time"].tolist() == times.tolist()
        expected = [fakes.truth.index(at) if above is None else marks[at] + above for at in seconds]
        assert part["price_usd"].tolist() == expected
    assert fill("prices_history", venue, **window, unconfirmed=not is_confirmed).written == {}


@pytest.mark.parametrize("venue", ["binance", "bybit", "okx"])
def test_history_of_dated_futures_has_mark_and_index(venue, fill, archive, fakes) -> None:
    """For listed futures only: the ledger has no window of them, since others may have expired in it."""
    fakes.extras, start = True, pd.Timestamp("2026-01-28", tz="UTC")
    assert fill("futures_history", venue, symbols=["BTC"], start=start, unconfirmed=True).failed == []
    rows = archive.read("futures_history", start, MONTH[1])
    assert set(rows["expiry"]) == {pd.Timestamp("2026-03-27T08:00Z")}
    truth = {pd.Timestamp(at, unit="s", tz="UTC"): mark for at, mark in fakes.truth.bars("BTC")}
    assert rows["time"].tolist() == [at for at in truth if start <= at < MONTH[1]]
    assert rows["price_usd"].tolist() == [truth[at] for at in rows["time"]]
    assert rows["index_price_usd"].tolist() == [truth[at] - 2.0 for at in rows["time"]]
    assert set(rows["resolution"]) == {"1h"}
    assert archive.requests().empty


def test_paradex_returns_a_rate_for_every_minute(fill: Any, archive: Archive) -> None:
    """Of rows five seconds apart, the newest of each minute; a fraction of 8 hours is 10,000 bps."""
    start = MONTH[1] - pd.Timedelta(1, "h")
    assert fill("funding_history", "paradex", symbols=["BTC"], start=start).failed == []
    rows = archive.read("funding_history", start, MONTH[1])
    assert 59 <= len(rows) <= 61
    assert rows["time"].diff().dropna().max() <= pd.Timedelta(1, "min")
    seconds = rows["time"].astype("int64") // 1_000_000
    np.testing.assert_allclose(rows["rate_bps_8h"], seconds % 1000 * 1e-3, atol=1e-9)
    assert (rows["kind"] == "sampled").all()
