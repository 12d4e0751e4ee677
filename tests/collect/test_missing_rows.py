"""Rows that venues do not list: incomplete windows, and gaps that a second response confirms."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from derivdata.sources.archive import Archive
from tests.collect.clocks import SimulatedClock
from tests.collect.fakes import Fakes
from tests.collect.test_backfill import LAST as LAST
from tests.collect.test_backfill import NOW as NOW

START, END = "2026-01-01", "2026-02-01"
PAYMENTS = "funding_settlements"
DAYS = pd.Timedelta(1, "D")


def hour(text: str) -> pd.Timestamp:
    return pd.Timestamp(text, tz="UTC")


def without(fakes: Fakes, *hours: str) -> None:
    """Let Binance list no payments of some hours."""
    gone = {hour(text) for text in hours}

    def cut(params: dict[str, Any], body: Any) -> Any:
        return [r for r in body if pd.Timestamp(r["fundingTime"], unit="ms", tz="UTC").floor("h") not in gone]

    fakes.altered["fundingRate"] = cut


def requests(fakes: Fakes) -> list[dict[str, Any]]:
    return [params for _, place, params, _ in fakes.log if place.endswith("fundingRate")]


def gaps(archive: Archive, *, answered: bool) -> list[tuple[pd.Timestamp, pd.Timestamp]]:
    ledger = archive.requests().query("error == error")
    chosen = ledger[ledger["answered"] == answered]
    return list(zip(chosen["start"], chosen["end"], strict=True))


def _first_gap(missing: int, fakes: Fakes) -> tuple[pd.Timestamp, pd.Timestamp]:
    """Remove payments from 20 January 08:00 on; return the window until the next payment."""
    times = pd.date_range(hour("2026-01-20T08:00"), periods=missing, freq="8h")
    without(fakes, *(f"{time:%Y-%m-%dT%H:%M}" for time in times))
    return times[0], times[-1] + pd.Timedelta(8, "h")


@pytest.mark.parametrize("missing", [1, 2, 5, 12])
def test_gap_is_confirmed_by_a_second_response(
    missing: int, fill: Any, archive: Archive, fakes: Fakes
) -> None:
    window = _first_gap(missing, fakes)
    done = fill(PAYMENTS, "binance")
    text = f"{missing} rows missing after 2026-01-20T00:00:00Z (step 8 h)"
    assert done.failed == [f"binance {PAYMENTS} BTC: incomplete: {text}"]
    assert gaps(archive, answered=False) == [window]
    fakes.log.clear()
    fill(PAYMENTS, "binance")
    # The response must have the next payment, too.
    assert all(float(request["endTime"]) >= window[1].timestamp() * 1000 for request in requests(fakes))
    assert gaps(archive, answered=True) == [window]
    confirmed = archive.requests().query("source == 'confirmed_gap'")
    assert confirmed["error"].tolist() == [text]
    fakes.log.clear()
    assert fill(PAYMENTS, "binance").failed == []
    assert requests(fakes) == []


def test_confirmed_gap_is_requested_again_after_30_days(
    fill: Any, fakes: Fakes, clock: SimulatedClock
) -> None:
    _first_gap(2, fakes)
    for _ in range(2):
        fill(PAYMENTS, "binance")
    fakes.log.clear()
    clock.wait(29 * 86_400)
    fill(PAYMENTS, "binance")
    assert requests(fakes) == []
    clock.wait(2 * 86_400)
    fill(PAYMENTS, "binance")
    assert requests(fakes) != []
    fakes.log.clear()
    fill(PAYMENTS, "binance")
    assert requests(fakes) == [], "confirmed again"


def test_confirmed_gap_is_filled_once_the_venue_has_the_rows(
    fill: Any, archive: Archive, fakes: Fakes, clock: SimulatedClock
) -> None:
    _first_gap(2, fakes)
    for _ in range(2):
        fill(PAYMENTS, "binance")
    fakes.altered.clear()
    clock.wait(31 * 86_400)
    assert fill(PAYMENTS, "binance").written == {("binance", PAYMENTS): 2}
    ledger = archive.requests()
    assert ledger[["start", "end", "answered", "source"]].values.tolist() == [
        [hour(START), hour(END), True, "request"]
    ]


def test_late_payment_completes_the_window(fill: Any, archive: Archive, fakes: Fakes) -> None:
    """Two payments in a row lack at first, then the second of them. A gap that changes is not confirmed."""
    without(fakes, "2026-01-20T08:00", "2026-01-20T16:00", "2026-01-25T00:00")
    fill(PAYMENTS, "binance")
    assert len(gaps(archive, answered=False)) == 2
    without(fakes, "2026-01-20T16:00")
    fill(PAYMENTS, "binance")
    assert gaps(archive, answered=False) == [(hour("2026-01-20T16:00"), hour("2026-01-21"))]
    assert gaps(archive, answered=True) == []  # another response than the one before
    fakes.altered.clear()
    assert fill(PAYMENTS, "binance").failed == []
    rows = archive.read(PAYMENTS, hour("2026-01-20"), hour("2026-01-26"))
    assert len(rows) == 18
    assert archive.unanswered(PAYMENTS, "binance", "BTC", START, END) == []


def test_the_newest_payment_is_requested_until_it_is_listed(
    fill: Any, archive: Archive, fakes: Fakes, clock: SimulatedClock
) -> None:
    without(fakes, "2026-01-31T16:00")
    for _ in range(3):
        fill(PAYMENTS, "binance")
        clock.wait(60)
        assert archive.requests().query("not answered")["start"].tolist() == [hour("2026-01-31T16:00")]
    fakes.altered.clear()
    assert fill(PAYMENTS, "binance").written == {("binance", PAYMENTS): 1}


def test_missing_rows_of_open_interest_are_requested_again(fill: Any, archive: Archive, fakes: Fakes) -> None:
    gone = hour("2026-01-30T07:00")

    def cut(params: dict[str, Any], body: Any) -> Any:
        return [row for row in body if pd.Timestamp(row["timestamp"], unit="ms", tz="UTC") != gone]

    fakes.altered["openInterestHist"] = cut
    fill("oi_history", "binance", start="2026-01-29")
    (gap,) = gaps(archive, answered=False)
    assert gap[0] == gone
    fill("oi_history", "binance", start="2026-01-29")
    assert gaps(archive, answered=True) == [gap]
    assert archive.unanswered("oi_history", "binance", "BTC", "2026-01-29", END) == []


def test_late_first_row_is_reported_if_the_listing_time_is_unknown(
    fill: Any, archive: Archive, fakes: Fakes
) -> None:
    """Bybit's list has no listing here: payments of 1 to 15 January are 45 rows at 8 hours."""
    middle = hour("2026-01-16").timestamp() * 1000

    def cut(params: dict[str, Any], body: Any) -> Any:
        rows = [row for row in body["result"]["list"] if int(row["fundingRateTimestamp"]) >= middle]
        return body | {"result": body["result"] | {"list": rows}}

    fakes.altered["funding/history"] = cut
    done = fill(PAYMENTS, "bybit")
    [notice] = [text for text in done.notices if "begin late" in text]
    assert "bybit funding_settlements" in notice
    assert "BTC from 2026-01-16T00:00:00Z (45 rows)" in notice
