"""Commands that request venues, and their output about an archive, against the fake venues."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import derivdata as dd
from derivdata.cli import main
from derivdata.errors import NetworkError
from derivdata.sources.archive import Archive, open_archive
from derivdata.sources.archive.ledger import LedgerEntry
from derivdata.sources.collect import Collector, backfill
from derivdata.sources.collect.checking import check_venues
from derivdata.sources.collect.read_through import open_venues
from derivdata.sources.collect.reporting import Minute, late, status
from derivdata.sources.collect.session import VenueSession, checked_on, is_collected, keep_checks
from derivdata.sources.venues.registry import VENUES, coverage_of
from derivdata.tables import TABLES
from derivdata.tables.contracts import HIP3_DEXES as DEXES
from tests.collect.fakes import Fakes, SimulatedClock


@pytest.fixture
def commands(fakes: Fakes, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connect the commands to the fake venues and their clock; `check` requests dydx."""
    monkeypatch.setattr(clock, "stop_on", lambda signals: None, raising=False)
    monkeypatch.setattr("derivdata.sources.collect.session.MachineClock", lambda: clock)
    monkeypatch.setattr("derivdata.sources.collect.Collector", partial(Collector, addresses=fakes.addresses))
    monkeypatch.setattr("derivdata.sources.collect.backfill", partial(backfill, addresses=fakes.addresses))
    session = partial(VenueSession, address=fakes.addresses["dydx"])
    monkeypatch.setattr("derivdata.sources.collect.session.VenueSession", session)


def test_venues_lists_tables_and_terms_and_endpoints(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["venues", "--venues", "derive", "okx"]) == 0
    text = capsys.readouterr().out
    assert "a sample: one of each contract and second at most" in text
    assert "derive: Data usage policy of 2026-05-09" in text
    assert main(["venues", "endpoints", "--venues", "derive", "okx"]) == 0
    text = capsys.readouterr().out
    assert "/api/v5/public/funding-rate" in text
    assert "binance" not in text


COVERED = {
    ("binance", "liquidations_fills"): {"cadence": "as they come", "completeness": "a sample"},
    ("okx", "funding_settlements"): {"cadence": "every hour", "history": "90 days"},
    ("lighter", "funding_settlements"): {"unit": "percent of an hour, with the sign in another field"},
    ("kraken", "funding_history"): {"unit": "USD of a contract and hour"},
    ("bitget", "oi_history"): {"history": "none"},
    ("binance", "oi_history"): {
        "cadence": "every 300 s", "completeness": "the polled states, of every symbol, one per request",
        "limit": "10 a second; its history 0.83 a second",
    },
    ("aster", "oi_history"): {
        "cadence": "every 300 s",
        "completeness": "the polled states, of the 50 contracts with the most volume, one per request",
    },
    ("bybit", "oi_history"): {"cadence": "every 60 s", "completeness": "polled", "limit": "5 a second"},
    ("binance", "funding_history"): {"limit": "10 a second"},
    ("binance", "funding_settlements"): {"limit": "0.42 a second"},
}  # fmt: skip
"""Output of the table of venues, by venue and table."""


def test_coverage_of_venues() -> None:
    index = ["exchange", "table"]
    confirmed, every = (coverage_of([*VENUES], {}, unconfirmed=u).set_index(index) for u in (False, True))
    assert (confirmed["verified_on"] == "").all()
    for place, told in COVERED.items():
        for column, text in told.items():
            assert text in every.loc[place, column], (place, column)
    assert [("kraken", "funding_settlements") in rows.index for rows in (confirmed, every)] == [False, True]
    days = {"okx /api/v5/public/funding-rate": "2026-11-01"}
    told = coverage_of(["okx"], days, unconfirmed=False).set_index("table")["verified_on"]
    assert told[["funding_history", "prices_history"]].tolist() == ["2026-11-01", ""], "each endpoint is"
    assert dd.venues.endpoints()["note"].str.contains("a fifth of them each minute").sum() == 2


def test_unknown_venue_or_table_prints_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["collect", "--once"], ["backfill"]):
        assert main([*command, "--to", str(tmp_path / "a"), "--venues", "nope"]) == 1
        assert "venues must be among binance, bybit" in capsys.readouterr().err
    assert main(["backfill", "--to", str(tmp_path / "a"), "--venues", "okx", "--tables", "hip3"]) == 1
    assert "tables must be among funding_settlements" in capsys.readouterr().err


def test_status_reports_collected_tables_and_failures(make_collector, fakes, clock, archive, capsys) -> None:
    fakes.faults["okx"] = [(451, {}, {})]
    collector = make_collector("bybit", "okx")
    collector.once()
    assert [*collector.gone] == ["okx"]
    rows = status(archive, clock.utc()).set_index(["exchange", "table"])
    assert rows.loc[("bybit", "oi_history"), "rows_last_hour"] == 2
    assert rows.loc[("bybit", "oi_history"), "failed"] == 0
    assert rows.loc[("okx", "oi_history"), "failed"] == 1
    assert "451" in rows.loc[("okx", "oi_history"), "last_error"]
    assert main(["status", str(archive.path)]) == 0
    assert "oi_history" in capsys.readouterr().out
    assert rows.loc[("bybit", "funding_history"), "last_row"] == pd.Timestamp("2026-01-20T10:30:30.6Z")


def test_status_fails_when_the_last_response_is_too_old(tmp_path, monkeypatch, capsys) -> None:
    """Responses end at 10:31 and are seven and a half minutes old."""
    archive, at = open_archive(tmp_path / "market"), pd.Timestamp("2026-01-20T10:30Z").as_unit("us")
    entries = [LedgerEntry("okx", None, at, at + pd.Timedelta(1, "min"))]
    rates = TABLES["funding_history"].empty()
    archive.append("funding_history", rates, requests=entries)
    monkeypatch.setattr(
        "derivdata.sources.collect.session.MachineClock", lambda: SimulatedClock("2026-01-20T10:38:30")
    )
    place = str(tmp_path / "market")
    assert main(["status", place, "--format", "prometheus", "--fail-after", "10m"]) == 0
    output = capsys.readouterr().out.splitlines()
    assert 'derivdata_lag_minutes{exchange="okx",table="funding_history"} 7.5' in output
    assert "# TYPE derivdata_lag_minutes gauge" in output
    assert main(["status", place, "--format", "json", "--fail-after", "7m"]) == 1
    output = capsys.readouterr()
    row = json.loads(output.out)
    assert (row["exchange"], row["lag_minutes"], row["last_row"]) == ("okx", 7.5, None)
    assert "no response for 7m: okx funding_history" in output.err


def test_status_alarm_ignores_ended_series_and_waits_for_hourly_refills(archive: Archive) -> None:
    """At 12:00: polled until 11:59 and 11:45, refilled until 10:46, failing since 8:00; once until 6:00."""
    day = pd.Timestamp("2026-01-20", tz="UTC").as_unit("us")
    asked = {
        "funding_history": [("okx", None, "10:00", "11:59", ""), ("gateio", None, "10:00", "11:45", "")],
        "funding_settlements": [
            ("bybit", "BTC", "00:00", "10:46", ""),
            ("kraken", "BTC", "00:00", "06:00", ""),
        ],
        "oi_history": [("okx", "BTC", "00:00", "08:00", ""), ("okx", "BTC", "08:00", "11:00", "HTTP 503")],
    }
    for table, windows in asked.items():
        entries = [
            LedgerEntry(venue, symbol, day + pd.Timedelta(f"{a}:00"), day + pd.Timedelta(f"{b}:00"), why)
            for venue, symbol, a, b, why in windows
        ]
        archive.append(table, TABLES[table].empty(), requests=entries)
    noon, minute = day + pd.Timedelta(12, "h"), pd.Timedelta(1, "min")
    assert late(archive, noon, 10 * minute) == ["gateio funding_history", "okx oi_history"]
    assert late(archive, noon, 30 * minute) == ["okx oi_history"]


def test_a_check_of_venues_ends_with_a_verdict_for_each_table(
    commands, fakes, tmp_path, monkeypatch, capsys
) -> None:
    monkeypatch.setenv("DERIVDATA_DATA_DIR", str(tmp_path))
    command = ["venues", "check", "--venues", "dydx", "--out", str(tmp_path / "found.jsonl")]
    assert main(command) == 0
    output = capsys.readouterr().out
    assert "dydx /perpetualMarkets: response received" in output
    assert re.search(r"dydx +funding_settlements +confirms +/historicalFunding", output)
    results = [json.loads(line) for line in (tmp_path / "found.jsonl").read_text().splitlines()]
    assert {row["verified_on"] for row in results} == {"2026-01-20"}
    assert "127.0.0.1" not in output + (tmp_path / "found.jsonl").read_text()
    fakes.faults["dydx"] = [{"markets": 3, "clientIp": "203.0.113.7"}]
    assert main([*command, "--bodies", str(tmp_path / "bodies")]) == 1
    kept = json.loads((tmp_path / "bodies" / "dydx-funding-perpetualmarkets.json").read_text("utf-8"))
    assert (kept["verdict"], kept["body"]) == ("contradicts", {"markets": 3, "clientIp": "[redacted]"})
    assert kept["removed"] == ["clientIp was removed"]
    assert "not as expected: dydx /perpetualMarkets" in capsys.readouterr().err


def test_collecting_ends_after_a_time_without_any_response(make_collector: Any, fakes: Fakes) -> None:
    minutes: list[Minute] = []

    def log(minute: Minute) -> None:
        minutes.append(minute)
        fakes.refusals = {"bybit": (503, {}, {})}

    collector = make_collector("bybit", fail_after=pd.Timedelta(30, "min"), log=log)
    with pytest.raises(NetworkError, match=r"no rows were collected since 2026-01-20 10:31: .*HTTP 503"):
        collector.run()
    assert minutes[0].rows["funding_history"] == 2
    waited = minutes[-1].time - minutes[0].time
    assert pd.Timedelta(30, "min") <= waited < pd.Timedelta(33, "min")


def test_collecting_continues_when_responses_have_no_rows(make_collector, fakes, clock) -> None:
    fakes.refusals = {"gateio/futures/usdt/liq_orders": (200, {}, [])}
    minutes: list[Minute] = []

    def stop_after_ten(minute: Minute) -> None:
        minutes.append(minute)
        if len(minutes) == 10:
            clock.stop()

    limit = pd.Timedelta(5, "min")
    make_collector("gateio", names=["liquidations_fills"], fail_after=limit, log=stop_after_ten).run()
    assert len(minutes) == 10
    assert sum(sum(minute.rows.values()) for minute in minutes) == 0
    assert [minute.failed for minute in minutes] == [{}] * 10
    assert sum(place.endswith("/liq_orders") for _, place, *_ in fakes.log) >= 10


def test_check_of_venues_at_one_host_sends_requests_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hyperliquid and a market at its address: the waits of one count for the other."""
    monkeypatch.setattr("derivdata.sources.collect.session.keep_checks", lambda *_: None)
    results: list[list[VenueSession]] = []

    def check(sessions: list[VenueSession], **_: Any) -> pd.DataFrame:
        results.append(sessions)
        row = {"exchange": "hyperliquid", "path_or_channel": "/info meta", "verdict": "confirms"}
        return pd.DataFrame([row])

    monkeypatch.setattr("derivdata.sources.collect.checking.check_venues", check)
    assert main(["venues", "check", "--venues", "hyperliquid", next(iter(DEXES)), "okx"]) == 0
    now = pd.Timestamp("2026-01-20T10:30:30", tz="UTC")
    assert [session.shared.turn(now, 1.0) for session in results[0]] == [0.0, 1.0, 0.0]


def _checked(fakes: Fakes, clock: SimulatedClock, *names: str) -> pd.DataFrame:
    sessions = [VenueSession(VENUES[name], clock, address=fakes.addresses[name]) for name in names]
    return check_venues(sessions).set_index(["exchange", "path_or_channel"])


def test_check_reports_confirmed_and_contradicted_facts(fakes: Fakes, clock: SimulatedClock) -> None:
    fakes.faults["hyperliquid"] = [*[None] * 5, {"universe": 3}]
    rows = _checked(fakes, clock, "hyperliquid").loc["hyperliquid"]
    verdicts = rows["verdict"].to_dict()
    assert verdicts["/info meta"] == verdicts["/info fundingHistory"] == "confirms"
    assert rows.loc["/info metaAndAssetCtxs", "rows"] == 2
    assert verdicts["/info allPerpMetas"] == "contradicts"
    assert verdicts["/info l2Book"] == "confirms"
    assert "Expected `array`, got `object`" in rows.loc["/info allPerpMetas", "error"]


@pytest.mark.parametrize("factor", [1, 8, 100])
def test_check_compares_binance_rates_with_hyperliquid_predictions(factor, fakes, clock) -> None:
    fakes.altered["binance/fapi/v1/premiumIndex"] = lambda _, body: [
        {**row, "lastFundingRate": str(factor * 0.0001)} for row in body
    ]
    fakes.faults["okx"] = [(451, {}, {})] * 99
    rows = _checked(fakes, clock, "binance", "hyperliquid", "gateio", "okx")
    binance = rows.loc[("binance", "/fapi/v1/premiumIndex")]
    assert binance["verdict"] == ("confirms" if factor == 1 else "contradicts")
    wrong = f"the rate is {factor} times the rate that hyperliquid predicts"
    assert binance["error"] == ("" if factor == 1 else wrong)
    assert rows.loc[("hyperliquid", "/info metaAndAssetCtxs"), "verdict"] == "confirms"
    assert rows.loc[("gateio", "/futures/usdt/tickers"), "verdict"] == "confirms"
    dead = rows.loc["okx"]
    assert dead["verdict"].tolist() == ["no answer"]
    assert "451" in dead["error"].iloc[0]


def test_check_detects_open_interest_that_counts_both_sides(fakes: Fakes, clock: SimulatedClock) -> None:
    """Gate's tickers count both sides, its contracts one: if one of them changes, the two differ."""
    fakes.altered["/futures/usdt/tickers"] = lambda _, body: [
        {**row, "total_size": str(2 * float(row["total_size"]))} for row in body
    ]
    result = _checked(fakes, clock, "gateio").loc["gateio", "/futures/usdt/tickers"]
    assert result["verdict"] == "contradicts"
    assert result["error"] == "open interest is 2 times the value of /futures/usdt/contracts"


def test_an_unconfirmed_endpoint_is_collected_once_a_check_has_confirmed_it(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("DERIVDATA_DATA_DIR", str(tmp_path))
    endpoint = next(e for e in VENUES["kraken"].endpoints if e.what == "settlements")
    name = f"kraken {endpoint.path}"
    assert not is_collected(endpoint, unconfirmed=False)
    assert is_collected(endpoint, unconfirmed=True)
    keep_checks({name: "2026-03-02"}, [])
    assert checked_on() == {name: "2026-03-02"}
    assert [path.name for path in tmp_path.iterdir()] == ["venues-checked.json"]
    assert open_venues().archive.path == tmp_path / "venues"
    assert is_collected(endpoint, unconfirmed=False)
    keep_checks({}, [name])
    assert not is_collected(endpoint, unconfirmed=False)
    (tmp_path / "venues-checked.json").write_text("{")
    assert checked_on() == {}


def test_public_service_of_collected_data_prints_the_venues_terms(
    make_collector, archive, capsys, monkeypatch
) -> None:
    make_collector("okx").once()
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)
    for host, said in (("127.0.0.1", False), ("0.0.0.0", True)):
        assert main(["serve", str(archive.path), "--live", "--host", host, "--port", "0"]) == 0
        assert ("collected from okx: redistribution is your" in capsys.readouterr().out) == said


@pytest.mark.parametrize("lost", [["okx"], ["okx", "bybit"]])
def test_collecting_once_names_failures_and_fails_without_any_row(
    lost, commands, fakes, tmp_path, capsys
) -> None:
    """Histories of a dead venue are not requested, which would take minutes of waiting."""
    fakes.refusals = {name: (503, {}, {"msg": "maintenance"}) for name in lost}
    to = ["--to", str(tmp_path / "market"), "--venues", "okx", "bybit", "--symbols", "BTC"]
    code = main(["collect", *to, "--once", "--tables", "funding_history"])
    output = capsys.readouterr()
    for name in lost:
        assert f"{name} funding_history: failed: " in output.out
        assert "HTTP 503" in output.out
        assert len({place for venue, place, _, _ in fakes.log if venue == name}) == 1, "lists of contracts"
    assert code == (1 if len(lost) == 2 else 0)
    assert ("nothing was collected" in output.err) == (len(lost) == 2)
    if len(lost) == 2:
        assert main(["collect", *to, "--tables", "funding_history", "--fail-after", "5m"]) == 1
        assert "no rows; failed: bybit funding_history, okx funding_history" in capsys.readouterr().out


def test_backfill_without_a_response_fails_with_the_reason(commands, fakes, tmp_path, capsys) -> None:
    options = "--venues okx --symbols BTC --since 2d".split()
    command = ["backfill", "--to", str(tmp_path / "market"), *options]
    fakes.refusals = {"okx": (503, {}, {"msg": "maintenance"})}
    assert main(command) == 1
    output = capsys.readouterr()
    assert "okx: " in output.out
    assert "HTTP 503" in output.out
    assert "nothing was written" in output.err
    fakes.refusals = {}
    assert main(command) == 0
    assert "0 windows failed" in capsys.readouterr().out
