"""A cache record lists the checks that its response passed, so that a read does not repeat them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import derivdata as dd
from derivdata.client import rules
from derivdata.client.transport import cache, connection
from derivdata.client.transport.response import DIGEST_HEADER
from tests.support.kept_answers import head
from tests.transport.server import NOON, Reply, Server, serving

HOURS = pd.date_range("2026-06-29", periods=24, freq="h", tz="UTC")
WINDOW = (HOURS[0], HOURS[-1] + pd.Timedelta("1h"))


def history(missing: int = 0, venue: str = "okx", **extra: Any) -> Reply:
    """Hourly rates of two venues on 29 June 2026; the second one lacks its last rows."""
    times = [f"{stamp:%Y-%m-%dT%H:%M:%SZ}" for stamp in HOURS]
    rates = [1.0 + 0.01 * (n % 7) for n in range(24)]
    points: list[dict[str, Any]] = [{"timestamp": t, "y": y} for t, y in zip(times, rates, strict=True)]
    others = [point | {"y": point["y"] + 0.125} for point in points]
    series = {"binance": points, venue: others[: 24 - missing]}
    body = {"symbol": "BTC", "unit": "bps_8h", "resolution": "1h", "series": series, "notices": []}
    return Reply.json(body | extra)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """Names of the rules that ran, in a cache of the test's own."""
    monkeypatch.setenv("DERIVDATA_CACHE_DIR", str(tmp_path / "cache"))
    names: list[str] = []

    def counted(rule: rules.Rule, evidence: Any) -> Iterator[str]:
        names.append(rule.name)
        yield from rule.breaches(evidence)

    counting = tuple(rule._replace(breaches=partial(counted, rule)) for rule in rules.RULES)
    monkeypatch.setattr(rules, "RULES", counting)
    yield names
    dd.disconnect()


def read(server: Server, **options: Any) -> tuple[pd.DataFrame, list[str]]:
    """The history and its notices, over a new connection."""
    dd.connect(server.url, **options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        frame = dd.funding.history("BTC", *WINDOW)
    return frame, [str(warning.message) for warning in caught]


def records(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache").rglob("*.answer"))


def test_a_response_that_passed_is_not_checked_again(ran: list[str], tmp_path: Path) -> None:
    with serving(lambda _: history()) as server:
        first, _ = read(server)
        assert "impossible figure" in ran
        assert "unlike peers" in ran
        (path,) = records(tmp_path)
        os.utime(path, ns=(10**18, 10**18))
        ran.clear()
        again, _ = read(server)
        assert ran == []
        assert len(server.paths) == 1
    pd.testing.assert_frame_equal(again, first)
    assert again.attrs["provenance"] == first.attrs["provenance"]


def test_notices_of_the_checks_are_given_again(ran: list[str]) -> None:
    with serving(lambda _: history(missing=9, venue="OKX.x Y")) as server:
        first, notices = read(server)
        ran.clear()
        again, repeated = read(server)
    assert any("is not a valid slug" in notice for notice in notices)
    assert any("9 of 24 rows of the 1 h grid are missing" in notice for notice in notices)
    assert repeated == notices
    assert ran == ["odd venue"]
    pd.testing.assert_frame_equal(again, first)
    assert again.attrs["provenance"] == first.attrs["provenance"]


def test_rows_that_a_check_removed_are_removed_again(ran: list[str]) -> None:
    early = {"timestamp": "2026-06-28T23:00:00Z", "y": 1.0}
    body = {"symbol": "BTC", "unit": "bps_8h", "resolution": "1h", "notices": []}
    points = [early, *({"timestamp": f"{t:%Y-%m-%dT%H:%M:%SZ}", "y": 1.0} for t in HOURS)]
    with serving(lambda _: Reply.json({**body, "series": {"okx": points}})) as server:
        first, _ = read(server)
        again, notices = read(server)
    assert len(first) == len(again) == 24
    assert any("1 rows at the edges of the window were dropped" in notice for notice in notices)


def test_code_of_another_version_checks_a_record_again(
    ran: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(lambda _: history()) as server:
        read(server)
        count = len(ran)
        ran.clear()
        monkeypatch.setattr(connection, "_checks_version", lambda: "of other rules")
        read(server)
        assert len(ran) == count
        ran.clear()
        read(server)
        assert ran == []


def test_the_version_changes_with_the_code_of_rules_tables_and_fetchers() -> None:
    hashed = connection.CHECKING_CODE
    assert {"client", "tables", "support", "liquidations", "funding", "oi", "units"} <= set(hashed)


def test_a_response_of_a_new_request_is_checked(ran: list[str]) -> None:
    with serving(lambda _: history()) as server:
        read(server)
        ran.clear()
        read(server, cache="refresh")
        assert "impossible figure" in ran


@pytest.mark.parametrize("options", [{"cache": "off"}, {"cache": {"read_only": True}}])
def test_checks_are_not_marked_without_a_cache(
    options: dict[str, Any], ran: list[str], tmp_path: Path
) -> None:
    with serving(lambda _: history()) as server:
        read(server, **options)
        assert records(tmp_path) == []


def test_response_is_checked_once_for_each_reader(ran: list[str], tmp_path: Path) -> None:
    """The venues of liquidations are chosen here, so that other rows remain for each choice."""
    day = {"date": "2026-06-29T00:00:00Z"}
    venues = {"okx": {"long_usd": 1.0, "short_usd": 2.0}, "bybit": {"long_usd": 4.0, "short_usd": 8.0}}
    body = {"data": [day | {"exchanges": venues}], "resolution": "1d", "notices": []}
    with serving(lambda _: Reply.json(body)) as server:
        dd.connect(server.url)
        sums = {}
        for venue in ("okx", "bybit", "okx"):
            ran.clear()
            frame = dd.liquidations.history("BTC", WINDOW[0], WINDOW[1], resolution="1d", venues=venue)
            sums[venue] = frame["long_usd"].tolist(), "impossible figure" in ran
        assert len(server.paths) == 1
    assert sums == {"okx": ([1.0], False), "bybit": ([4.0], True)}


def test_a_record_of_another_response_is_not_marked(tmp_path: Path) -> None:
    """Another process may have replaced the record while the response was checked."""
    files = cache.ResponseFiles(tmp_path, "source")
    stored = head("key", b"{}")
    stored.headers = {DIGEST_HEADER: "of the body", "Date": "Tue, 30 Jun 2026 12:00:30 GMT"}
    files.keep(stored, b"{}")
    checks = cache.Checks("version", {"reader": ["odd venue"]})

    def marked(digest: str, date: pd.Timestamp) -> Any:
        files.keep_checks("key", checks, digest=digest, date=date)
        record = files.record("key")
        assert record is not None
        assert record.body == b"{}"
        return record.head.checks

    assert marked("of another body", NOON) is None
    assert marked("of the body", NOON - pd.Timedelta("1h")) is None
    assert marked("of the body", NOON) == checks
    files.keep_checks("no such key", checks, digest="of the body", date=NOON)
    assert [*files.keys()] == ["key"]


def test_marking_a_record_changes_neither_its_age_nor_the_marks_of_other_readers(tmp_path: Path) -> None:
    files = cache.ResponseFiles(tmp_path, "source")
    stored = head("key", b"{}")
    stored.headers = {DIGEST_HEADER: "of the body", "Date": "Tue, 30 Jun 2026 12:00:30 GMT"}
    files.keep(stored, b"{}")
    (path,) = tmp_path.rglob("*.answer")
    os.utime(path, ns=(10**18, 10**18))
    for version, reader in (("1", "a"), ("1", "b"), ("2", "c")):
        files.keep_checks("key", cache.Checks(version, {reader: []}), digest="of the body", date=NOON)
        record = files.record("key")
        assert record is not None
        assert record.head.checks is not None
        expected = {"a": ["a"], "b": ["a", "b"], "c": ["c"]}[reader]
        assert sorted(record.head.checks.rules) == expected
    assert path.stat().st_mtime_ns == 10**18


def test_names_of_rules_are_distinct() -> None:
    names = [rule.name for rule in rules.RULES]
    assert len(set(names)) == len(names)
