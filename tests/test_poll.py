"""The live feed of liquidations neither repeats nor drops an order, and reports possible gaps."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice, takewhile
from typing import Any

import msgspec
import pandas as pd
import pytest

import derivdata as dd
from derivdata.analysis.liquidations import bucket, observed
from derivdata.client import transport
from derivdata.client.transport.session import request_of
from derivdata.errors import DataNotice
from derivdata.support import times
from derivdata.tables import endpoints

START, NONE = pd.Timestamp("2026-06-30T12:00", tz="UTC"), dt.timedelta(0)


class Feed:
    """A store with an order every `step` seconds, requested like the service; every wait advances its clock.

    A full response lacks the newest orders, or the oldest: no document says which.
    """

    def __init__(self, lacks: str, late: dict[int, int] | None = None, step: float = 1.0) -> None:
        self.now = START
        self.lacks = lacks
        self.late = {number: dt.timedelta(seconds=length) for number, length in (late or {}).items()}
        self.step = step
        self.asked: list[dict[str, str]] = []

    def sleep(self, seconds: float) -> None:
        self.now += pd.Timedelta(seconds, "s")

    def stamp(self, number: int) -> dt.datetime:
        return START.to_pydatetime() + dt.timedelta(seconds=number * self.step)

    def event(self, number: int) -> dict[str, Any]:
        event = {"exchange": "okx", "symbol": "BTC", "side": "long", "oid": str(number)}
        stamp = times.iso(pd.Timestamp(self.stamp(number)))
        return event | {"timestamp": stamp, "usd_value": float(number + 600)}

    def answer(self, endpoint: Any, params: dict[str, Any], *, into: Any, until: Any = None) -> Any:
        request = request_of(endpoint, params)
        query = dict(request.query)
        self.asked.append(query)
        since = dt.datetime.fromtimestamp(int(query["since"]) / 1000, dt.UTC)
        limit = int(query["limit"])
        results = [n for n in range(-600, 600) if since < self.stamp(n) <= self.now - self.late.get(n, NONE)]
        sent = [self.event(n) for n in (results[:limit] if self.lacks == "newest" else results[-limit:])]
        body = msgspec.json.decode(msgspec.json.encode({"events": sent}), type=into)
        return transport.DecodedResponse(body, self.now, request, "0" * 64, (), "feed", False)


@contextmanager
def feeding(made: Feed) -> Iterator[Feed]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transport, "get", made.answer)
        before = times.set_clock(lambda: made.now)
        yield made
        times.set_clock(before)


@pytest.fixture(params=["newest", "oldest"])
def feed(request: pytest.FixtureRequest) -> Iterator[Feed]:
    with feeding(Feed(request.param, late={25: 12, 31: 20})) as made:
        yield made


def numbers_of(frames: list[pd.DataFrame]) -> list[int]:
    return [int(n) for frame in frames for n in frame["order_id"]]


def missed(frames: list[pd.DataFrame]) -> list[list[str]]:
    return [span for frame in frames for span in dd.provenance(frame)["coverage"]["missed"]]


def covered_without_a_hole(frames: list[pd.DataFrame], start: str) -> None:
    spans = observed(*frames)
    assert spans["start"].iloc[0] == START - pd.Timedelta(start)
    assert (spans["start"].iloc[1:].to_numpy() == spans["end"].iloc[:-1].to_numpy()).all()
    assert missed(frames) == []


def test_poll_returns_every_order_once_even_if_late(feed: Feed) -> None:
    frames = list(islice(dd.liquidations.poll("10s", every=10, sleep=feed.sleep), 12))
    numbers = numbers_of(frames)
    assert len(numbers) == len(set(numbers))
    assert set(range(-9, 101)) <= set(numbers), "those that reached the store late are there too"
    assert 25 in [int(n) for n in frames[4]["order_id"]], "stored 12 s after its own time"
    covered_without_a_hole(frames, "10s")
    for frame in frames:
        pd.testing.assert_frame_equal(dd.tables.TABLES["liquidations_events"].conform(frame), frame)


def test_poll_sends_since_and_never_min_usd(feed: Feed) -> None:
    frames = list(islice(dd.liquidations.poll("10s", every=10, min_usd=620, sleep=feed.sleep), 5))
    assert all(set(query) == {"since", "limit"} for query in feed.asked)
    assert min(v for frame in frames for v in frame["value_usd"]) == 620.0
    assert dd.liquidations.events(since="10s", min_usd=638)["value_usd"].tolist() == [638.0, 639.0, 640.0]


def test_full_page_without_the_oldest_orders_reports_possible_loss() -> None:
    with feeding(Feed("oldest")) as feed:
        frames = list(islice(dd.liquidations.poll("300s", every=10, limit=50, sleep=feed.sleep), 2))
    lost = dd.provenance(frames[0])["coverage"]["missed"]
    assert lost == [["2026-06-30T11:55:00Z", "2026-06-30T11:59:11Z"]]
    spans = observed(*frames)
    sums = bucket(pd.concat(frames), "1min", start="2026-06-30T11:55", end="2026-06-30T12:00", coverage=spans)
    assert sums["coverage"].values[:4].tolist() == [0.0] * 4
    assert sums["long_usd"].isnull().values[:4].all(), "not watched is not zero"
    assert 0 < sums["coverage"].values[4] < 1


def test_full_page_without_the_newest_orders_is_continued() -> None:
    with feeding(Feed("newest")) as feed:
        frames = list(islice(dd.liquidations.poll("300s", every=10, limit=50, sleep=feed.sleep), 10))
    numbers = numbers_of(frames)
    assert len(numbers) == len(set(numbers))
    assert set(range(-299, 1)) <= set(numbers)
    covered_without_a_hole(frames, "300s")


def test_feed_continues_with_more_orders_than_one_page() -> None:
    with feeding(Feed("newest", step=0.1)) as feed:
        frames = list(islice(dd.liquidations.poll("30s", every=10, limit=50, sleep=feed.sleep), 40))
    numbers = numbers_of(frames)
    assert sorted(numbers) == list(range(min(numbers), max(numbers) + 1)), "each once, and no hole"
    assert max(numbers) >= 200, "two turns of ten seconds"
    assert missed(frames) == []


def test_more_orders_in_a_millisecond_than_a_page_use_a_larger_limit() -> None:
    with feeding(Feed("newest", step=1e-6)) as feed:
        frames = list(islice(dd.liquidations.poll("1s", every=1, limit=2, sleep=feed.sleep), 3))
    assert sorted(numbers_of(frames)) == list(range(-600, 1))
    assert missed(frames) == []


def test_a_quiet_start_is_not_missed() -> None:
    with feeding(Feed("newest")) as feed:
        frames = list(islice(dd.liquidations.poll("1h", every=10, limit=400, sleep=feed.sleep), 2))
    assert dd.provenance(frames[0])["coverage"]["observed"][0][0] == "2026-06-30T11:00:00Z"
    assert missed(frames) == [], "no order came before 11:50"


@pytest.mark.parametrize("lacks", ["newest", "oldest"])
def test_full_page_covers_only_the_time_between_its_orders(lacks: str) -> None:
    with feeding(Feed(lacks)):
        with pytest.warns(DataNotice, match="has limit=50 rows") as caught:
            frame = dd.liquidations.events(since="300s", limit=50)
        whole = dd.liquidations.events(since="300s")
    assert {w.filename for w in caught} == {__file__}
    provenance = dd.provenance(frame)
    assert "has limit=50 rows" in provenance["notices"][0]
    first, last = (times.iso(frame["time"].iloc[n]) for n in (0, -1))
    assert provenance["coverage"]["observed"] == [[first, last]]
    ends = [["2026-06-30T11:55:00Z", first], [last, "2026-06-30T12:00:00Z"]]
    assert provenance["coverage"]["missed"] == [span for span in ends if span[0] < span[1]]
    assert dd.provenance(whole)["coverage"] == {
        "observed": [["2026-06-30T11:55:00Z", "2026-06-30T12:00:00Z"]],
        "missed": [],
    }


def test_polls_of_few_rows_return_every_order_once() -> None:
    dd.connect("sample")
    events = dd.liquidations.events(since="30m", limit=5000)
    polls = dd.liquidations.poll("30m", limit=20, sleep=lambda _: None)
    frames = list(takewhile(len, polls))
    orders = [order for frame in frames for order in frame["order_id"]]
    assert set(events["order_id"]) <= set(orders)
    assert len(orders) == len(set(orders))
    assert missed(frames) == []


def test_later_polls_at_the_same_time_return_no_rows() -> None:
    dd.connect("sample")
    frames = list(islice(dd.liquidations.poll("2h", limit=5000, sleep=lambda _: None), 3))
    assert len(frames[0]) >= len(dd.liquidations.events(since="2h", limit=5000)) > 0
    assert [len(frame) for frame in frames[1:]] == [0, 0]


def test_cached_events_are_fresh_for_at_most_ten_seconds() -> None:
    assert endpoints.LIQUIDATIONS_EVENTS.fresh_seconds <= 10


@pytest.mark.parametrize("lacks", ["newest", "oldest"])
def test_events_since_a_time_are_complete_after_any_filter(
    lacks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """600 orders of 0 to 600 s ago are worth 1 to 600 USD; a page has 50 of them."""
    monkeypatch.setattr(dd.liquidations, "_LIMIT", 50)
    with feeding(Feed(lacks)) as feed:
        frame = dd.liquidations.events(since="599s")
        large = dd.liquidations.events(since="599s", min_usd=590.0)
    assert numbers_of([frame]) == list(range(-598, 1))
    assert dd.provenance(frame)["coverage"] == {
        "observed": [["2026-06-30T11:50:01Z", "2026-06-30T12:00:00Z"]],
        "missed": [],
    }
    assert len(dd.provenance(frame)["requests"]) == (13 if lacks == "newest" else 1)
    assert large["value_usd"].tolist() == [float(usd) for usd in range(590, 601)]
    assert all("min_usd" not in query for query in feed.asked)


def test_filtered_events_at_the_limit_give_a_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dd.liquidations, "_LIMIT", 50)
    with (
        feeding(Feed("newest")),
        pytest.warns(
            DataNotice, match="/liquidations/events: the result has limit=3 rows, so more orders may exist"
        ),
    ):
        frame = dd.liquidations.events(since="599s", limit=3, min_usd=300.0)
    assert frame["value_usd"].tolist() == [300.0, 301.0, 302.0]
    last = times.iso(frame["time"].iloc[-1])
    spans = dd.provenance(frame)["coverage"]
    assert spans["observed"] == [["2026-06-30T11:50:01Z", last]]
    assert spans["missed"] == [[last, "2026-06-30T12:00:00Z"]]


def test_more_orders_than_the_largest_page_that_lacks_the_oldest_are_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """599 orders, of which the largest page has the newest 400."""
    monkeypatch.setattr(dd.liquidations, "_LIMIT", 50)
    monkeypatch.setattr(dd.liquidations, "_MAX_PAGE", 400)
    with feeding(Feed("oldest")), pytest.warns(DataNotice, match="at most 400 orders"):
        frame = dd.liquidations.events(since="599s")
    assert numbers_of([frame]) == list(range(-399, 1))
    spans = dd.provenance(frame)["coverage"]
    assert spans["missed"] == [["2026-06-30T11:50:01Z", "2026-06-30T11:53:21Z"]]
    assert spans["observed"] == [["2026-06-30T11:53:21Z", "2026-06-30T12:00:00Z"]]
