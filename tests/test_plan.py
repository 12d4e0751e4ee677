"""What a large fetch would ask for, counted by hand and against what is asked."""

from __future__ import annotations

import pytest

import derivdata as dd
from derivdata.errors import DataNotice

WINDOW = ("2025-09-01", "2026-06-30")


def test_requests_and_seconds_are_counted_by_hand() -> None:
    """Fifty venues leave 5,000 hours to an answer; cuts since 1970 lie at hours 490,000 and 495,000.

    Two symbols make 6 requests; at 1.8 a second five waits of 0.5556 s and one answer of 0.3 s.
    """
    rows = dd.plan(["BTC", "ETH"], *WINDOW).set_index("fetcher")
    assert rows.loc["funding.history", "requests"] == 6
    assert rows.loc["funding.history", "seconds"] == pytest.approx(5 / 1.8 + 0.3)
    assert rows.loc["funding.history", "per_second"] == 2.0
    assert rows.loc["oi.history", "seconds"] == pytest.approx(6 * 0.3)
    assert set(rows["tier"]) == {"dev"}
    slow = dd.plan("BTC", *WINDOW, latency_seconds=2.0).set_index("fetcher")
    assert slow.loc["funding.history", "seconds"] == pytest.approx(6.0)


def test_the_plan_is_what_is_asked() -> None:
    dd.connect("sample")
    window = ("2026-06-20", "2026-06-25")
    planned = dd.plan(["BTC", "ETH"], *window, resolution="1m").set_index("fetcher")["requests"]
    asked = dd.provenance(dd.funding.history(["BTC", "ETH"], *window, resolution="1m"))["requests"]
    assert planned["funding.history"] == len(asked)
    paid = dd.provenance(dd.funding.settlements(["BTC", "ETH"], *window))["requests"]
    assert planned["funding.settlements"] == len(paid)
    with pytest.warns(DataNotice, match="asked for resolution '1m', the answer has '1h'"):
        held = dd.provenance(dd.oi.history("BTC", *window, resolution="1m"))["requests"]
    assert planned["oi.history"] == 2 * len(held)
    with pytest.warns(DataNotice, match="asked for resolution '1m', the answer has '1h'"):
        traded = dd.provenance(dd.volume.history("BTC", *window, resolution="1m"))["requests"]
    assert planned["volume.history"] == 2 * len(traded)
    marks = dd.provenance(dd.prices.history("BTC", *window, resolution="1m"))["requests"]
    assert planned["prices.history"] == 2 * len(marks)


def test_a_year_of_minutes_takes_hours_and_says_so() -> None:
    many = [f"A{i}" for i in range(200)]
    said = dd.plan(many, *WINDOW, resolution="1m").attrs["summary"]
    assert said.startswith(
        "2025-09-01 00:00 to 2026-06-30 00:00 UTC: funding.history 17,600 requests, 2.7 h; "
    )
    assert "funding.settlements 600 requests, 3 min" in said
    assert dd.plan("BTC", *WINDOW).attrs["summary"].endswith("prices.history 3 requests, 1 s")


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((["BTC", "BTC"], *WINDOW), {}, "each once"),
        (("BTC", *WINDOW[::-1]), {}, "is not before end"),
        (("BTC", *WINDOW), {"resolution": "9m"}, "resolution='9m' is not one of"),
        (("BTC", *WINDOW), {"latency_seconds": -1.0}, "latency_seconds=-1.0 must be 0 or more"),
    ],
)
def test_what_makes_no_plan(arguments: tuple[object, ...], options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dd.plan(*arguments, **options)  # type: ignore[arg-type]
