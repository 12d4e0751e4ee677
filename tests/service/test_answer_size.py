"""Oversized responses are rejected before computation, with the longest window that fits."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pandas as pd
import pytest

from derivdata.client.transport.settings import Limits
from derivdata.sources import Query
from derivdata.sources.sample.store import Sample
from derivdata.sources.service.answers import encoding
from tests.service.conftest import Caller, serving

END = "2026-06-30T00:00Z"


class Counting(Sample):
    """The sample, with a count of the days that were read."""

    days = 0.0

    def rows(self, query: Query) -> pd.DataFrame:
        self.days += (query.end - query.start) / pd.Timedelta(1, "D")
        return super().rows(query)

    def sums(self, query: Query, value: str) -> pd.DataFrame:
        self.days += (query.end - query.start) / pd.Timedelta(1, "D")
        return super().sums(query, value)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Caller, Counting]]:
    """Start a service of the sample whose largest response is 1 MiB."""
    monkeypatch.setattr(encoding, "LARGEST", 1 << 20)
    store = Counting()
    with serving(store) as caller:
        yield caller, store


CASES = [
    ("/funding/historical", {"symbol": "BTC", "resolution": "1m"}, 12),
    ("/oi/BTC/timeseries", {"resolution": "5m"}, 40),
    ("/oi/exchange-totals", {"resolution": "5m"}, 12),
    ("/orderbook/depth-history", {"symbol": "BTC", "exchange": "binance", "resolution": "1m"}, 30),
]


@pytest.mark.parametrize(("path", "params", "days"), CASES)
def test_too_long_window_is_rejected_and_the_suggested_window_fits(
    asked: tuple[Caller, Counting], path: str, params: dict[str, str], days: int
) -> None:
    ask, store = asked
    start = pd.Timestamp(END) - pd.Timedelta(days, "D")
    error = ask.error(path, 400, **params, start=start.isoformat(), end=END)["error"]
    assert "above the limit of 1 MiB" in error
    assert store.days < 12, "at most three days were looked at, each with its surroundings"
    number, unit = re.findall(r"at most (\d+) (days|minutes) at once", error)[0]
    longest = pd.Timedelta(int(number), unit)
    fitting = ask(path, **params, start=(pd.Timestamp(END) - longest).isoformat(), end=END)
    assert fitting.status_code == 200
    assert (1 << 20) / 3 < len(fitting.content) <= 1 << 20


def test_size_limit_of_responses_equals_that_of_the_client() -> None:
    assert encoding.LARGEST == Limits().body_bytes == 48 * 1024**2


def test_large_response_is_rejected_when_the_estimate_missed_it(
    asked: tuple[Caller, Counting], monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, _ = asked
    monkeypatch.setattr(encoding, "_sample_days", lambda _: [])
    monkeypatch.setattr(encoding, "_may_be_large", lambda *_: False)
    params = {"symbol": "BTC", "resolution": "raw", "start": "2026-06-10", "end": END}
    error = ask.error("/funding/historical", 400, **params)["error"]
    assert re.search(r"the response would have \d+ MiB, above .* request at most \d+ (days|minutes)", error)


@pytest.mark.parametrize("days", [0.2, 3.9])
def test_short_window_is_encoded_without_an_estimate(asked: tuple[Caller, Counting], days: float) -> None:
    ask, store = asked
    start = pd.Timestamp(END) - pd.Timedelta(days, "D")
    ask.body(
        "/funding/historical",
        symbol="SOL",
        resolution="raw",
        exchanges="okx",
        start=start.isoformat(),
        end=END,
    )
    assert store.days < days + 2.1, "the window and what reaches into it, once"
