"""Buckets, by hand: validity of a sample, mean of a bucket, and joins."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest

from derivdata.sources.service.data import windows
from tests.service.conftest import Caller
from tests.service.market import at, series

HISTORY = "/funding/historical"
HOUR = pd.Timedelta(1, "h")


def means(
    time: list[str], rate: list[float], step: str, horizon: str, stated: str = "raw"
) -> dict[str, float]:
    frame = series(
        "BTC", "x", pd.DatetimeIndex([at(t) for t in time], tz="UTC"), rate_bps_8h=rate, resolution=stated
    )
    result = windows.means(frame, "rate_bps_8h", pd.Timedelta(step), at(horizon))
    return dict(zip(result["time"].dt.strftime("%d %H:%M"), result["rate_bps_8h"], strict=True))


def test_bucket_means_equal_hand_calculation() -> None:
    """2 for a quarter of an hour, then 4 for three quarters: 3.5."""
    result = means(["2026-01-01 10:00", "2026-01-01 10:15"], [2.0, 4.0], "1h", "2026-01-02")
    assert result == {"01 10:00": 3.5, "01 11:00": 4.0}
    result = means(["2026-01-01 00:00", "2026-01-01 16:00"], [1.0, 5.0], "4h", "2026-01-03", "8h")
    assert result == {"01 00:00": 1.0, "01 04:00": 1.0, "01 16:00": 5.0, "01 20:00": 5.0}
    # At 10:30 the bucket of 10:00 is 1 for ten minutes and 4 for twenty: 3.
    result = means(
        ["2026-01-01 10:00", "2026-01-01 10:10", "2026-01-01 10:30"], [1, 4, 9], "1h", "2026-01-01 10:30"
    )
    assert result == {"01 10:00": 3.0}
    result = means(["2026-01-01 23:59", "2026-01-02 00:00"], [1.0, 2.0], "8h", "2026-01-03")
    assert result == {"01 16:00": 1.0, "02 00:00": 2.0}
    assert list(means(["1969-12-31 23:30"], [1.0], "24h", "1970-01-03")) == ["31 00:00", "01 00:00"]
    assert means(["2026-01-01 10:00"], [np.nan], "1h", "2026-01-02") == {}
    assert means([], [], "1h", "2026-01-02") == {}
    frame = pd.concat(
        [
            series("A", "x", [at("2026-01-01 10:00")], rate_bps_8h=1.0, resolution="raw"),
            series("A", "y", [at("2026-01-01 10:30")], rate_bps_8h=2.0, resolution="raw"),
            series("B", "y", [at("2026-01-01 10:30")], rate_bps_8h=3.0, resolution="raw"),
        ],
        ignore_index=True,
    )
    result = windows.means(frame, "rate_bps_8h", HOUR, at("2026-01-02"))
    assert result["rate_bps_8h"].tolist() == [1.0, 2.0, 2.0, 3.0, 3.0]
    assert (result["symbol"] + result["exchange"]).tolist() == ["Ax", "Ay", "Ay", "By", "By"]


@pytest.mark.parametrize("step", ["1min", "30min", "4h", "24h"])
def test_bucket_means_equal_a_loop_over_seconds(step: str) -> None:
    """Against one value per second, held forward by a loop, averaged per bucket."""
    rng = np.random.default_rng(5)
    seconds = np.sort(rng.choice(2 * 86400, size=60, replace=False))
    rates = rng.normal(size=60)
    origin, length = at("2026-01-01"), int(pd.Timedelta(step).total_seconds())
    known: dict[int, list[float]] = {}
    for i, second in enumerate(seconds):
        until = min(seconds[i + 1] if i + 1 < 60 else 3 * 86400, second + 3600)
        for s in range(second, until):
            known.setdefault(s // length, []).append(rates[i])
    frame = series("A", "x", origin + pd.to_timedelta(seconds, unit="s"), rate_bps_8h=rates, resolution="raw")
    result = windows.means(frame, "rate_bps_8h", pd.Timedelta(step), origin + pd.Timedelta(3, "D"))
    numbers = ((result["time"] - origin) // pd.Timedelta(step)).tolist()
    assert numbers == sorted(known)
    np.testing.assert_allclose(result["rate_bps_8h"], [np.mean(known[n]) for n in numbers], rtol=1e-12)


def points(ask: Caller, **params: Any) -> list[tuple[str, float]]:
    body = ask.body(HISTORY, symbol="BTC", exchanges="hyperliquid", **params)
    return [(p["timestamp"][8:16], p["y"]) for p in body["series"].get("hyperliquid", [])]


def test_history_endpoint_returns_bucket_means(ask: Caller) -> None:
    """The steps of 29 June: 2 at 10:00, 4 at 10:15 (valid to 11:15), 6 at 14:00 (valid to 15:00)."""
    window = {"start": "2026-06-29T00:00Z", "end": "2026-06-30T00:00Z"}
    assert points(ask, resolution="1h", **window) == [("29T10:00", 3.5), ("29T11:00", 4.0), ("29T14:00", 6.0)]
    four = [("29T08:00", round((2 * 15 + 4 * 60) / 75, 6)), ("29T12:00", 6.0)]
    assert points(ask, resolution="4h", **window) == four
    assert points(ask, resolution="1d", **window) == [
        ("29T00:00", round((2 * 15 + 4 * 60 + 6 * 60) / 135, 6))
    ]
    assert points(ask, resolution="raw", **window) == [
        ("29T10:00", 2.0),
        ("29T10:15", 4.0),
        ("29T14:00", 6.0),
    ]
    # At 11:00 the sample of 10:15 still holds, though it lies before the window.
    window = {"start": "2026-06-29T11:00Z", "end": "2026-06-29T12:00Z"}
    assert points(ask, resolution="5m", **window) == [("29T11:00", 4.0), ("29T11:05", 4.0), ("29T11:10", 4.0)]
    # The open interest of this market is stored by the hour.
    body = ask.body("/oi/BTC/timeseries", range="1d", resolution="5m", exchanges="hyperliquid")
    assert body["resolution"] == "1h"
    assert [row["timestamp"][11:16] for row in body["data"][:2]] == ["12:00", "13:00"]
    body = ask.body("/oi/BTC/timeseries", range="1d", resolution="raw", exchanges="hyperliquid")
    assert body["resolution"] == "1h"


@pytest.mark.parametrize("resolution", ["raw", "5m", "1h", "8h", "1d"])
def test_adjacent_windows_join_to_the_long_window(ask: Caller, resolution: str) -> None:
    cuts = ["2026-06-29T09:00Z", "2026-06-29T10:07Z", "2026-06-29T14:30Z", "2026-06-30T12:00Z"]
    parts = [
        point
        for start, end in pairwise(cuts)
        for point in points(ask, resolution=resolution, start=start, end=end)
    ]
    assert parts == points(ask, resolution=resolution, start=cuts[0], end=cuts[-1])
    assert parts
