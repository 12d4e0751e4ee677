"""Errors that rows reveal, at import and at append: rejected with the question to resolve."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from derivdata.errors import ArchiveError, SchemaError
from derivdata.sources.archive import Archive, import_files, open_archive
from tests.archive.rates import EVER, START, rates

FUNDING = "funding_history"
SETTLED = "funding_settlements"
OI = "oi_history"


def settlements(
    exchange: str = "okx", symbol: str = "BTC", *, hours: float = 8.0, rate: float = 1.0
) -> pd.DataFrame:
    """Forty payments eight hours apart, their rates 0.5 and 1.5 times `rate` in turn."""
    return pd.DataFrame(
        {
            "symbol": symbol,
            "exchange": exchange,
            "time": pd.date_range(START, periods=40, freq="8h").as_unit("us"),
            "rate_bps_8h": [rate * (0.5 + i % 2) for i in range(40)],
            "interval_hours": hours,
            "kind": "settled",
        }
    )


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return open_archive(tmp_path / "mine")


def test_append_normalises_names_like_import(archive: Archive) -> None:
    frame = rates(["BTC/USDT:USDT", "sol"], ["Binance", "htx"], hours=3, plus=1.0).assign(kind="Sampled")
    assert archive.append(FUNDING, frame) == 12
    assert archive.symbols(FUNDING) == ("BTC", "SOL")
    assert archive.exchanges(FUNDING) == ("binance", "huobi")
    assert archive.append(FUNDING, rates(["BTC", "SOL"], ["binance", "huobi"], hours=3, plus=1.0)) == 0


def test_schema_error_of_append_names_the_archive_not_the_api(archive: Archive) -> None:
    with pytest.raises(SchemaError) as refused:
        archive.append(FUNDING, rates(hours=2).assign(rate_bps_8h="much"))
    assert "dd.raw" not in str(refused.value)
    assert "nothing was appended (dd.tables.TABLES['funding_history'] lists the columns)" in str(
        refused.value
    )


HOURLY = pd.date_range(START, periods=40, freq="h").as_unit("us")
HELD = settlements().drop(columns=["rate_bps_8h", "interval_hours", "kind"]).assign(resolution="8h")


@pytest.mark.parametrize(
    ("table", "frame", "told"),
    [
        (SETTLED, settlements().assign(rate_bps_8h=0.0001), "looks like a fraction, .*: pass --unit native"),
        (
            SETTLED,
            settlements().assign(rate_bps_8h=0.01),
            "looks like percent, .*: 100% of the rates are 0.01",
        ),
        (
            SETTLED,
            settlements().assign(rate_bps_8h=96.0),
            "rate_bps_8h: half of the rates are over 96 bps per 8 hours",
        ),
        (
            OI,
            HELD.assign(oi_usd=90_171.0),
            "the median of okx BTC is 90,171: possibly coins or contracts, not USD",
        ),
        (OI, HELD.assign(oi_usd=5.2e12), "BTC is 5,200,000,000,000: possibly another currency"),
    ],
)
def test_unlikely_units_raise_a_question(
    archive: Archive, table: str, frame: pd.DataFrame, told: str
) -> None:
    with pytest.raises(ArchiveError, match=told):
        archive.append(table, frame)
    assert archive.tables() == frozenset()
    assert archive.append(table, frame, accept=["unit"]) == 40


def test_stated_interval_is_compared_with_the_spacing(archive: Archive) -> None:
    hourly = settlements("hyperliquid").assign(time=HOURLY)
    told = "interval_hours: hyperliquid BTC states 8, .* 1 hours apart .*: .* --set interval_hours=1 "
    with pytest.raises(ArchiveError, match=told):
        archive.append(SETTLED, hourly)
    assert archive.append(SETTLED, hourly.assign(interval_hours=1.0)) == 40


def test_late_or_missing_payments_and_changed_intervals_are_valid(archive: Archive) -> None:
    """Stamps late by milliseconds, a third of the payments missing; eight hours, then four, then one.

    Venues change the interval on a day of stress; each row has its interval.
    """
    frame = settlements().assign(time=lambda f: f["time"] + pd.to_timedelta(np.arange(40) % 7, "ms"))
    assert archive.append(SETTLED, frame[np.arange(40) % 3 != 1]) == 27
    hours = np.array([8.0] * 13 + [4.0] * 13 + [1.0] * 14)
    times = START + pd.to_timedelta(np.append(0.0, hours[1:].cumsum()), "h")
    changing = settlements("bybit").assign(time=times.as_unit("us"), interval_hours=hours)
    assert archive.append(SETTLED, changing) == 40


@pytest.mark.parametrize(("factor", "symbols"), [(8, 3), (1 / 8, 3), (24, 3), (100, 1), (1 / 10_000, 1)])
def test_a_venue_in_another_unit_than_the_others(archive: Archive, factor: float, symbols: int) -> None:
    """Two venues pay about 1 bps; the third's rates are those times a mistake."""
    names = ["BTC", "ETH", "SOL"][:symbols]
    for exchange, rate in (("okx", 1.0), ("bybit", 1.04)):
        archive.append(SETTLED, pd.concat([settlements(exchange, name, rate=rate) for name in names]))
    wrong = pd.concat([settlements("zzz", name, rate=factor) for name in names])
    with pytest.raises(
        ArchiveError, match=rf"rates of zzz are .* those of other venues for {', '.join(names)}"
    ):
        archive.append(SETTLED, wrong, accept=["unit"])
    assert archive.append(SETTLED, wrong, accept=["unit", "venues"]) == 40 * symbols


@pytest.mark.parametrize("factor", [1.0, 2.0, 5.0, 0.4])
def test_differences_between_venues_raise_no_question(archive: Archive, factor: float) -> None:
    for exchange, rate in (("okx", 1.0), ("bybit", 1.04), ("zzz", factor)):
        frames = [settlements(exchange, name, rate=rate) for name in ("BTC", "ETH", "SOL")]
        assert archive.append(SETTLED, pd.concat(frames)) == 120


def test_impossible_values_are_rejected(archive: Archive) -> None:
    with pytest.raises(
        ArchiveError, match=r"interval_hours: 40 rows have impossible values, first 0 \(BTC, okx"
    ):
        archive.append(SETTLED, settlements(hours=0.0))
    assert archive.append(OI, HELD.assign(oi_usd=8e9)) == 40
    with pytest.raises(ArchiveError, match="oi_usd: 1 rows have impossible values, first -1"):
        archive.append(OI, HELD[:2].assign(oi_usd=[5e8, -1.0]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"symbol": "BT\x1b[31mC"}, r"symbol: 'BT\\x1b\[31mC' has control or invisible characters"),
        ({"symbol": "B\0TC"}, r"symbol: 'B\\x00TC' has control or invisible characters"),
        ({"time": START - pd.Timedelta(400 * 365, "D")}, r"time: 1 rows have impossible values, first 1626-"),
    ],
)
def test_hidden_characters_and_times_before_1970_are_rejected(
    archive: Archive, change: dict[str, Any], message: str
) -> None:
    """A read without a start begins in 1970: it would never return earlier rows."""
    invalid = rates(["BTC"], ["okx"], hours=1).assign(**change)
    with pytest.raises(ArchiveError, match=message):
        archive.append(FUNDING, invalid)
    with pytest.raises(ArchiveError, match=message):
        archive.replace(FUNDING, invalid, {"exchange": "okx"})
    assert archive.tables() == frozenset()


def test_rows_over_five_minutes_in_the_future_are_rejected(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = START + pd.Timedelta(3, "h")
    clock = "derivdata.support.times.machine_now"
    monkeypatch.setattr(clock, lambda: (last - pd.Timedelta(6, "min")).to_pydatetime())
    with pytest.raises(
        ArchiveError, match="the newest row is at 2026-01-30T03:00:00Z, which is in the future"
    ):
        archive.append(FUNDING, rates(hours=4, plus=1.0))
    monkeypatch.setattr(clock, lambda: (last - pd.Timedelta(4, "min")).to_pydatetime())
    assert archive.append(FUNDING, rates(hours=4, plus=1.0)) == 16


def test_synthetic_rows_may_be_in_the_future(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("derivdata.support.times.machine_now", lambda: START.to_pydatetime())
    synthetic = rates(["XRP"], hours=5, start=START + pd.Timedelta(300, "D"))
    synthetic.attrs["provenance"] = {"synthetic": True}
    assert archive.append(FUNDING, synthetic) == 10


_BINANCE = "Time,Symbol,Interval,Rate\n" + "".join(
    f"2026-01-{1 + i // 3:02d} {8 * (i % 3):02d}:00:00,BTCUSDT Perpetual,8h,{0.01 * (0.5 + i % 2):.6f}%\n"
    for i in range(60)
)


def test_website_export_with_percent_signs_and_hours(tmp_path: Path) -> None:
    """As Binance's page exports it: ``0.005000%`` of 8 hours is 0.5 bps."""
    path = tmp_path / "in.csv"
    path.write_text(_BINANCE)
    said: dict[str, Any] = {
        "map": {"time": "Time", "symbol": "Symbol", "interval_hours": "Interval", "rate_bps_8h": "Rate"},
        "set": {"exchange": "binance"},
        "tz": "UTC",
    }
    with pytest.raises(ArchiveError, match="cells of rate_bps_8h end in %: pass --unit percent"):
        import_files(SETTLED, path, tmp_path / "to", **said)
    result = import_files(SETTLED, path, tmp_path / "to", unit="percent", **said)
    assert (result.written, result.rejected) == (60, 0)
    rows = open_archive(tmp_path / "to").read(SETTLED, *EVER)
    assert rows["rate_bps_8h"].tolist()[:2] == [pytest.approx(0.5), pytest.approx(1.5)]
    assert rows["interval_hours"].unique().tolist() == [8.0]
    assert rows["symbol"].unique().tolist() == ["BTC"]


def test_map_values_translates_words_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text(
        "symbol,exchange,time,side,value_usd\nBTC,okx,2026-01-01T00:00Z,SELL,5\nBTC,okx,2026-01-01T00:01Z,buy,6\n"
    )
    with pytest.raises(ArchiveError, match="side='SELL' is not long or short"):
        import_files("liquidations_events", path, tmp_path / "to")
    words = {"side": {"sell": "long", "buy": "short"}}
    assert import_files("liquidations_events", path, tmp_path / "to", map_values=words).written == 2
    rows = open_archive(tmp_path / "to").read("liquidations_events", *EVER)
    assert dict(zip(rows["side"], rows["value_usd"], strict=True)) == {"long": 5.0, "short": 6.0}


def test_invalid_options_of_an_import_raise_before_a_file_is_read(tmp_path: Path) -> None:
    missing, to = tmp_path / "none" / "x.csv", tmp_path / "none" / "to"
    with pytest.raises(
        ValueError, match="accept='everything' is not one of unit, interval, schedule, venues, future"
    ):
        import_files(SETTLED, missing, to, accept=["everything"])
    with pytest.raises(ValueError, match="map_values: column 'rate_bps_8h' has no words to replace"):
        import_files(SETTLED, missing, to, map_values={"rate_bps_8h": {"a": "b"}})


def test_second_contract_of_a_stored_series_is_rejected_with_both_names(tmp_path: Path) -> None:
    """One series of two contracts would jump where one follows the other; spellings of one contract continue
    it.
    """
    archive = open_archive(tmp_path)
    hours = rates(["BTCUSDC"], ["binance"], hours=48)
    archive.append("funding_history", hours[:24])
    with pytest.raises(
        ArchiveError, match=r"BTCUSDT would continue the series of BTCUSDC \(binance BTC\), but they are two"
    ):
        archive.append("funding_history", hours[24:].assign(symbol="BTCUSDT"))
    assert archive.append("funding_history", hours[24:].assign(symbol="BTC/USDC:USDC")) == 24
    assert archive.append("funding_history", rates(["BTC-USDT"], ["okx"], hours=24)) == 24
    assert archive.append("funding_history", rates(["BTC"], ["binance"], hours=50)) == 2
    with pytest.raises(ArchiveError, match="BTC-USDT would continue the series of BTC/USDC:USDC"):
        open_archive(tmp_path).append("funding_history", rates(["BTC-USDT"], ["binance"], hours=60))


def test_deleted_series_accepts_another_contract(tmp_path: Path) -> None:
    """Another contract may then be stored, and an undo that would mix both raises; stored rows remain."""
    archive = open_archive(tmp_path)
    archive.append("funding_history", rates(["BTCUSDC", "ETHUSDC"], ["binance"], hours=24))
    tether = rates(["BTCUSDT"], ["binance"], hours=6, start=START + pd.Timedelta("1D"))
    archive.delete("funding_history", {"symbol": "BTC"}, start=START + pd.Timedelta("1h"))
    mixed = "BTCUSDT would continue the series of BTCUSDC"
    with pytest.raises(ArchiveError, match=mixed):
        archive.append("funding_history", tether)
    with pytest.raises(ArchiveError, match=mixed):
        archive.replace("funding_history", tether, {"symbol": "BTC"}, start=START + pd.Timedelta("1D"))
    archive.delete("funding_history", {"symbol": "BTC"})
    archive.undo(2)
    with pytest.raises(ArchiveError, match=mixed):
        archive.append("funding_history", tether)
    archive.undo(3)
    assert archive.append("funding_history", tether) == 6
    with pytest.raises(ArchiveError, match="BTCUSDC would continue the series of BTCUSDT"):
        archive.undo(4)
    archive.append("funding_history", rates(["SOL"], ["binance"], hours=3))
    done = archive.replace("funding_history", rates(["SOLUSDC"], ["binance"], hours=3), {"symbol": "SOL"})
    archive.undo(done.number)  # no row says of which contract it was
    assert archive.append("funding_history", rates(["SOLUSDT"], ["binance"], hours=4)) == 1
    archive.replace("funding_history", rates(["ETH"], ["binance"], hours=1), {"symbol": "ETH"})
    with pytest.raises(ArchiveError, match="ETHUSDT would continue the series of ETHUSDC"):
        archive.append("funding_history", rates(["ETHUSDT"], ["binance"], start=START + pd.Timedelta("1D")))


def test_undo_of_a_replacement_restores_the_contract_of_the_series(tmp_path: Path) -> None:
    archive = open_archive(tmp_path)
    archive.append("funding_history", rates(["BTCUSDC"], ["binance"], hours=24))
    archive.replace("funding_history", rates(["BTCUSDT"], ["binance"], hours=24), {"symbol": "BTC"})
    archive.undo(1)
    later = {"hours": 6, "start": START + pd.Timedelta("1D")}
    with pytest.raises(ArchiveError, match="BTCUSDT would continue the series of BTCUSDC"):
        archive.append("funding_history", rates(["BTCUSDT"], ["binance"], **later))
    assert archive.append("funding_history", rates(["BTCUSDC"], ["binance"], **later)) == 6


@pytest.mark.parametrize(
    ("rate", "hours", "native", "message"),
    [
        (np.nan, np.nan, 0.31, r"rate_native: 1 rows have impossible values, first 0.31 .* above 0.3"),
        (np.nan, np.nan, -0.31, r"rate_native: 1 rows have impossible values, first -0.31 .* below -0.3"),
        # 3,100 bps in 8 hours are 31 % of notional; of one hour 24,000 bps in 8 hours are 30 %.
        (3100.0, 8.0, np.nan, r"1 rows pay more than 30% of notional, first 0.31 \(BTC, okx"),
        (2100.0, 12.0, np.nan, r"1 rows pay more than 30% of notional, first 0.315"),
        (24_001.0, 1.0, np.nan, "rate_bps_8h: 1 rows have impossible values, first 24001"),
    ],
)
def test_a_payment_is_at_most_30_percent_of_notional(
    tmp_path: Path, rate: float, hours: float, native: float, message: str
) -> None:
    archive = open_archive(tmp_path / "archive")
    paid = {"symbol": "BTC", "exchange": "okx", "kind": "settled", "time": [START]}
    figures = {"rate_bps_8h": rate, "interval_hours": hours, "rate_native": native}
    with pytest.raises(ArchiveError, match=message):
        archive.append("funding_settlements", pd.DataFrame(paid | figures))


@pytest.mark.parametrize(
    ("rate", "hours", "native"),
    [(np.nan, np.nan, 0.3), (np.nan, np.nan, -0.3), (3000.0, 8.0, np.nan), (24_000.0, 1.0, np.nan)],
)
def test_a_payment_of_30_percent_of_notional_is_stored(
    tmp_path: Path, rate: float, hours: float, native: float
) -> None:
    paid = {"symbol": "BTC", "exchange": "okx", "kind": "settled", "time": [START]}
    figures = {"rate_bps_8h": rate, "interval_hours": hours, "rate_native": native}
    archive = open_archive(tmp_path / "archive")
    assert archive.append("funding_settlements", pd.DataFrame(paid | figures)) == 1
