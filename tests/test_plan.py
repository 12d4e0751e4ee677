"""Requests of a large fetch, counted by hand and compared with the sent requests."""

from __future__ import annotations

import pytest

import derivdata as dd

WINDOW = ("2025-09-01", "2026-06-30")


def test_requests_and_seconds_are_counted_by_hand() -> None:
    """Fifty venues leave 5,000 hours per response; cuts since 1970 are at hours 490,000 and 495,000.

    Two symbols make 6 requests; at 1.8 a second five waits of 0.5556 s and one response of 0.3 s.
    """
    rows = dd.plan(["BTC", "ETH"], *WINDOW).set_index("fetcher")
    assert rows.loc["funding.history", "requests"] == 6
    assert rows.loc["funding.history", "seconds"] == pytest.approx(5 / 1.8 + 0.3)
    assert rows.loc["funding.history", "per_second"] == 2.0
    assert rows.loc["oi.history", "seconds"] == pytest.approx(6 * 0.3)
    assert set(rows["tier"]) == {"dev"}
    slow = dd.plan("BTC", *WINDOW, latency_seconds=2.0).set_index("fetcher")
    assert slow.loc["funding.history", "seconds"] == pytest.approx(6.0)


@pytest.mark.filterwarnings("ignore:.*the response has '(1h|5m)'")
def test_plan_equals_the_sent_requests() -> None:
    dd.connect("sample")
    window = ("2026-06-20", "2026-06-25")
    planned = dd.plan(["BTC", "ETH"], *window, resolution="1m").set_index("fetcher")["requests"]
    minutes = {"resolution": "1m"}
    for fetcher, fetch, options in (
        ("funding.history", dd.funding.history, minutes),
        ("funding.settlements", dd.funding.settlements, {}),
        ("oi.history", dd.oi.history, minutes),
        ("volume.history", dd.volume.history, minutes),
        ("prices.history", dd.prices.history, minutes),
    ):
        asked = dd.provenance(fetch("BTC", *window, **options))["requests"]
        assert planned[fetcher] == 2 * len(asked), fetcher


def test_plan_of_a_year_of_minutes_reports_hours() -> None:
    many = [f"A{i}" for i in range(200)]
    said = dd.plan(many, *WINDOW, resolution="1m").attrs["summary"]
    assert said.startswith(
        "2025-09-01 00:00 to 2026-06-30 00:00 UTC: funding.history 17,600 requests, 2.7 h; "
    )
    assert "funding.settlements 600 requests, 3 min" in said
    assert dd.plan("BTC", *WINDOW).attrs["summary"].endswith("prices.history 3 requests, 1 s")


def test_negative_latency_raises() -> None:
    with pytest.raises(ValueError, match=r"latency_seconds must be 0 or more, got -1\.0"):
        dd.plan("BTC", *WINDOW, latency_seconds=-1.0)
