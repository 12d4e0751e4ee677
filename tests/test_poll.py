"""The live feed of liquidations neither repeats nor drops an order, and says where it may have holes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pandas as pd
import pytest

import derivdata as dd
from derivdata import api, times, transport
from derivdata.analysis.liquidations import bucket, observed
from derivdata.fetch import liquidations

START = pd.Timestamp("2026-06-30T12:00", tz="UTC")


class Feed:
    """A store of orders that is asked as the service is, with a clock that every wait moves on."""

    def __init__(self, late: dict[int, int] | None = None) -> None:
        self.now = START
        self.late = late or {}
        self.asked: list[dict[str, str]] = []

    def sleep(self, seconds: float) -> None:
        self.now += pd.Timedelta(seconds, "s")

    def stamp(self, number: int) -> pd.Timestamp:
        return START + pd.Timedelta(number, "s")

    def answer(self, endpoint: Any, params: dict[str, Any], *, into: Any, until: Any = None) -> Any:
        request = endpoint.request(params)
        query = dict(request.query)
        self.asked.append(query)
        since = pd.Timestamp(int(query["since"]), unit="ms", tz="UTC")
        limit = int(query["limit"])
        found = [
            {
                "timestamp": times.iso(self.stamp(n)),
                "exchange": "okx",
                "symbol": "BTC",
                "side": "long",
                "oid": str(n),
                "usd_value": float(n),
            }
            for n in range(-600, 600)
            if since < self.stamp(n) <= self.now - pd.Timedelta(self.late.get(n, 0), "s")
        ]
        body = into(events=[liquidations.orders._Event(**e) for e in found[-limit:]])
        return transport.Answer(body, self.now, request, "0" * 64, (), "feed", False)


@pytest.fixture
def feed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Feed]:
    made = Feed(late={25: 12, 31: 20})
    monkeypatch.setattr(transport, "get", made.answer)
    before = times.set_clock(lambda: made.now)
    yield made
    times.set_clock(before)


def test_every_order_comes_once_even_if_late(feed: Feed) -> None:
    frames = list(islice(dd.liquidations.poll("10s", every=10, sleep=feed.sleep), 12))
    numbers = [int(n) for frame in frames for n in frame["order_id"]]
    assert len(numbers) == len(set(numbers))
    assert set(range(-9, 101)) <= set(numbers), "those that reached the store late are there too"
    assert 25 in [int(n) for n in frames[4]["order_id"]], "stored 12 s after its own time"
    for frame in frames:
        pd.testing.assert_frame_equal(dd.tables.LIQUIDATIONS_EVENTS.conform(frame), frame)


def test_the_service_is_asked_with_since_and_never_with_min_usd(feed: Feed) -> None:
    frames = list(islice(dd.liquidations.poll("10s", every=10, min_usd=20, sleep=feed.sleep), 5))
    assert all(set(query) == {"since", "limit"} for query in feed.asked)
    assert min(v for frame in frames for v in frame["value_usd"]) == 20.0


def test_coverage_is_whole_while_no_answer_is_full(feed: Feed) -> None:
    frames = list(islice(dd.liquidations.poll("10s", every=10, sleep=feed.sleep), 4))
    spans = observed(*frames)
    assert spans["start"].iloc[0] == START - pd.Timedelta("10s")
    assert spans["end"].iloc[-1] == START + pd.Timedelta("30s")
    assert (spans["start"].iloc[1:].to_numpy() == spans["end"].iloc[:-1].to_numpy()).all()
    assert all(not dd.provenance(frame)["coverage"]["missed"] for frame in frames)


def test_a_full_answer_says_what_it_may_have_lost(feed: Feed) -> None:
    frames = list(islice(dd.liquidations.poll("300s", every=10, limit=50, sleep=feed.sleep), 2))
    lost = dd.provenance(frames[0])["coverage"]["missed"]
    assert lost == [["2026-06-30T11:55:00Z", "2026-06-30T11:59:11Z"]]
    spans = observed(*frames)
    sums = bucket(pd.concat(frames), "1min", start="2026-06-30T11:55", end="2026-06-30T12:00", coverage=spans)
    assert sums["coverage"].values[:4].tolist() == [0.0] * 4
    assert sums["long_usd"].isnull().values[:4].all(), "not watched is not zero"
    assert 0 < sums["coverage"].values[4] < 1


def test_over_the_local_service_the_feed_is_the_store() -> None:
    dd.connect("sample")
    assert api.LIQUIDATIONS_EVENTS.fresh_seconds <= 10
    frames = list(islice(dd.liquidations.poll("2h", limit=5000, sleep=lambda _: None), 3))
    whole = dd.liquidations.events(since="2h", limit=5000)
    assert len(frames[0]) >= len(whole) > 0
    assert [len(frame) for frame in frames[1:]] == [0, 0], "the clock stands still: nothing new, no repeats"
