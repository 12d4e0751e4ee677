"""Bulk files of venues: planned, fetched, verified and read; missing and corrected files."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from derivdata.sources.archive import Archive
from derivdata.sources.archive.importing.adjustments import state_times
from derivdata.sources.archive.ledger import LedgerEntry
from derivdata.sources.collect.file_histories import backfill_files
from derivdata.sources.collect.session import Clock
from tests.collect.buckets import Bucket, bars, connect, metrics
from tests.collect.clocks import SimulatedClock

EVER = (pd.Timestamp("2015-01-01", tz="UTC"), pd.Timestamp("2030-01-01", tz="UTC"))
UM = "/data/futures/um"


def day_file(day: str, symbol: str = "BTCUSDT", market: str = "um") -> str:
    return f"/data/futures/{market}/daily/metrics/{symbol}/{symbol}-metrics-{day}.zip"


def bar_file(period: str, kind: str = "markPriceKlines", by: str = "monthly") -> str:
    return f"{UM}/{by}/{kind}/BTCUSDT/1h/BTCUSDT-1h-{period}.zip"


@pytest.fixture
def bucket() -> Bucket:
    return Bucket()


@pytest.fixture
def run(bucket: Bucket, archive: Archive, monkeypatch: pytest.MonkeyPatch) -> Any:
    addresses = connect(bucket, monkeypatch)
    clock: Clock = SimulatedClock("2026-08-01")

    def fill(start: str, end: str, **options: Any) -> Any:
        given = {"symbols": ["BTC"], "venues": ["binance"], **options}
        return backfill_files(
            archive, given.pop("symbols"), start, end, clock=clock, addresses=addresses, **given
        )

    return fill


def test_metrics_files_give_open_interest_and_three_ratios(
    run: Any, bucket: Bucket, archive: Archive
) -> None:
    """To 2026-06-24 a row is labelled with its own time, and from then on five minutes earlier."""
    bucket.put_zip(day_file("2026-06-24"), metrics("BTCUSDT", "2026-06-24"))
    bucket.put_zip(day_file("2026-06-25"), metrics("BTCUSDT", "2026-06-25", first="00:00", coins=500.0))
    done = run("2026-06-24T00:05", "2026-06-26T00:05")
    assert done.failed == []
    assert done.written == {("binance", "oi_history"): 576, ("binance", "positioning_history"): 1728}
    rows = archive.read("oi_history", *EVER)
    five = pd.Timedelta(5, "min")
    assert rows["time"].tolist() == list(pd.date_range("2026-06-24T00:05", periods=576, freq=five, tz="UTC"))
    assert rows["oi_usd"].iloc[[0, 287, 288, 575]].tolist() == [5e6, 19.35e6, 25e6, 39.35e6]
    assert set(rows["resolution"]) == {"5m"}
    ratios = archive.read("positioning_history", *EVER).set_index(["kind", "time"]).sort_index()
    first = pd.Timestamp("2026-06-24T00:10", tz="UTC")
    values = ratios.loc[[("accounts", first), ("top_accounts", first), ("top_positions", first)]]
    assert values["long_short_ratio"].tolist() == pytest.approx([1.001, 1.5, 2.0])
    assert values["long_share"].tolist() == pytest.approx([1.001 / 2.001, 0.6, 2 / 3])
    assert values["short_share"].tolist() == pytest.approx([1 / 2.001, 0.4, 1 / 3])


def test_ledger_records_files_and_they_are_not_fetched_again(run, bucket, archive) -> None:
    for day in ("2024-01-01", "2024-01-02", "2024-01-03"):
        bucket.put_zip(day_file(day), metrics("BTCUSDT", day))
    run("2024-01-01T00:05", "2024-01-03T00:05", names=["oi_history"])
    ledger = archive.requests()
    assert ledger[["table", "exchange", "symbol", "source"]].to_numpy().tolist() == [
        ["oi_history", "binance", "BTC", "file"]
    ]
    times = [pd.Timestamp(f"2024-01-0{day}T00:05", tz="UTC") for day in (1, 3)]
    assert ledger[["start", "end"]].iloc[0].tolist() == times
    assert archive.unanswered("oi_history", "binance", "BTC", *times) == []
    [mark] = [m for name, m in archive.files("oi_history", "binance", "BTC").items() if "01-02" in name]
    assert (mark.name, len(mark.sha256)) == (day_file("2024-01-02").lstrip("/"), 64)
    assert mark.modified == "2026-01-01T08:30:00.000Z"
    bucket.asked.clear()
    again = run("2024-01-01T00:05", "2024-01-04T00:05", names=["oi_history"])
    assert bucket.asked == [day_file("2024-01-03") + ".CHECKSUM", day_file("2024-01-03")]
    assert again.written == {("binance", "oi_history"): 288}


def test_dry_run_counts_files_bytes_and_rows_without_fetching(run, bucket, archive) -> None:
    for day in pd.date_range("2024-01-01", "2024-01-20"):
        if day.day != 7:
            bucket.put_zip(day_file(f"{day:%Y-%m-%d}"), metrics("BTCUSDT", f"{day:%Y-%m-%d}"))
    done = run("2024-01-01T00:05", "2024-02-01", dry_run=True)
    assert bucket.asked == []
    [row] = done.plan.to_dict("records")
    size = sum(len(body) for path, (body, _) in bucket.files.items() if path.endswith(".zip"))
    assert row == {
        "exchange": "binance", "kind": "metrics", "contract": "BTCUSDT", "first": "2024-01-01",
        "last": "2024-01-20", "files": 19, "missing": 1, "to_fetch": 19, "megabytes": round(size / 1e6, 3),
        "rows": 19 * 1152,
    }  # fmt: skip
    assert archive.requests().empty
    assert "CC BY-NC-SA" in done.terms["binance"]


def test_missing_days_and_rows_are_reported(run: Any, bucket: Bucket, archive: Archive) -> None:
    bucket.put_zip(day_file("2024-01-01"), metrics("BTCUSDT", "2024-01-01"))
    blank = metrics("BTCUSDT", "2024-01-03", skip=100).replace(",1.5,2.0,1.0,", ',"",,,')
    bucket.put_zip(day_file("2024-01-03"), blank)
    done = run("2024-01-01T00:05", "2024-01-04T00:05")
    assert done.failed == []
    [missing, short, *_] = [notice for notice in done.notices if "metrics" in notice]
    assert missing == "binance metrics BTCUSDT: the venue lists no file for 2024-01-02"
    assert (
        "rows are missing in 1 files: 2024-01-03 (188 of 288 rows of oi_history); 2024-01-03 (561 of 864"
        in short
    )
    assert "line 2: long_short_ratio is missing" in short
    last = archive.read("positioning_history", *EVER).groupby("kind", observed=True).size()
    assert last.to_dict() == {"accounts": 475, "top_accounts": 475, "top_positions": 475}
    lacking = (pd.Timestamp(t, tz="UTC") for t in ("2024-01-02T00:05", "2024-01-03T00:05"))
    assert len(archive.unanswered("oi_history", "binance", "BTC", *lacking)) == 1


def test_file_with_a_wrong_checksum_is_not_read(run, bucket, archive, tmp_path) -> None:
    bucket.put_zip(day_file("2024-01-01"), metrics("BTCUSDT", "2024-01-01"))
    bucket.put_zip(day_file("2024-01-02"), metrics("BTCUSDT", "2024-01-02"), wrong="0" * 64)
    done = run("2024-01-01T00:05", "2024-01-03T00:05", names=["oi_history"], folder=tmp_path / "files")
    assert done.written == {("binance", "oi_history"): 288}
    assert len(done.failed) == 1
    assert "expected the checksum 000" in done.failed[0]
    kept = sorted(path.name for path in (tmp_path / "files").rglob("*") if path.is_file())
    assert kept == ["BTCUSDT-metrics-2024-01-01.zip", "BTCUSDT-metrics-2024-01-02.zip.mismatch"]
    assert bucket.asked.count(day_file("2024-01-02")) == 2


def test_interrupted_run_continues_where_it_ended(run: Any, bucket: Bucket, archive: Archive) -> None:
    days = [f"{day:%Y-%m-%d}" for day in pd.date_range("2024-01-01", "2024-01-06")]
    for day in days:
        bucket.put_zip(day_file(day), metrics("BTCUSDT", day))
    bucket.silent_after = 6
    done = run("2024-01-01T00:05", "2024-01-07T00:05", names=["oi_history"])
    assert done.written == {("binance", "oi_history"): 3 * 288}
    assert "no complete response" in done.failed[0]
    bucket.silent_after = None
    bucket.asked.clear()
    assert run("2024-01-01T00:05", "2024-01-07T00:05", names=["oi_history"]).failed == []
    assert [path for path in bucket.asked if path.endswith(".zip")] == [day_file(day) for day in days[3:]]
    assert len(archive.read("oi_history", *EVER)) == 6 * 288


def test_rewritten_file_corrects_only_its_own_rows(run, bucket, archive) -> None:
    bucket.put_zip(day_file("2024-01-01"), metrics("BTCUSDT", "2024-01-01"))
    run("2024-01-01T00:05", "2024-01-02T00:05", names=["oi_history"])
    polled = archive.read("oi_history", *EVER).iloc[:1].assign(resolution="raw", oi_usd=7.0)
    polled["time"] += pd.Timedelta(1, "min")
    archive.append("oi_history", polled)
    bucket.put_zip(
        day_file("2024-01-01"),
        metrics("BTCUSDT", "2024-01-01", coins=200.0, skip=8),
        "2026-02-01T08:30:00.000Z",
    )
    done = run("2024-01-01T00:05", "2024-01-02T00:05", names=["oi_history"])
    rows = archive.read("oi_history", *EVER)
    assert len(rows) == 281
    assert rows.loc[rows["resolution"] == "5m", "oi_usd"].iloc[[0, -1]].tolist() == [10e6, 23.95e6]
    assert rows.loc[rows["resolution"] == "raw", "oi_usd"].tolist() == [7.0]
    assert "289 rows of oi_history were replaced by 281 (correction 1)" in done.notices[-2] + done.notices[-1]
    assert "BTCUSDT-metrics-2024-01-01.zip" in archive.corrections()["reason"].iloc[0]
    bucket.asked.clear()
    assert run("2024-01-01T00:05", "2024-01-02T00:05", names=["oi_history"]).written == {}
    assert bucket.asked == []


def test_payment_files_with_and_without_a_header_are_stored_at_the_hour(
    run: Any, bucket: Bucket, archive: Archive
) -> None:
    """The second row's stamp is 8 ms late, as in recorded files; the interval is the file's own."""
    head = "calc_time,funding_interval_hours,last_funding_rate\n"
    old = "1609459200000,8,0.00010000\n1609488000008,8,-0.00020000\n"
    new = head + "1767225600008,8,0.00010000\n1767240000000,4,0.00005000\n"
    bucket.put_zip(f"{UM}/monthly/fundingRate/BTCUSDT/BTCUSDT-fundingRate-2021-01.zip", old)
    bucket.put_zip(f"{UM}/monthly/fundingRate/BTCUSDT/BTCUSDT-fundingRate-2026-01.zip", new)
    done = run("2021-01-01", "2026-02-01", names=["funding_settlements"])
    assert done.failed == []
    rows = archive.read("funding_settlements", *EVER)
    assert rows["time"].dt.strftime("%Y-%m-%dT%H:%M:%S.%f").tolist() == [
        f"{stamp}:00:00.000000"
        for stamp in ("2021-01-01T00", "2021-01-01T08", "2026-01-01T00", "2026-01-01T04")
    ]
    assert rows["rate_bps_8h"].tolist() == pytest.approx([1.0, -2.0, 1.0, 1.0])
    assert rows["interval_hours"].tolist() == [8.0, 8.0, 8.0, 4.0]
    missing = next(notice for notice in done.notices if "lists no file for" in notice)
    assert "2021-02, 2021-03, 2021-04, 2021-05, 2021-06 and 54 more" in missing


def test_dated_futures_have_the_index_of_their_hours_and_expired_ones_are_found(
    run: Any, bucket: Bucket, archive: Archive
) -> None:
    """Bars open at 1,000 and 100 more each hour; the perpetual's files next to them are not futures."""
    for name in ("BTCUSDT", "BTCUSDT_240329", "BTCUSDT_240628"):
        path = f"{UM}/monthly/klines/{name}/1h/{name}-1h-2024-03.zip"
        bucket.put_zip(path, bars(name, "2024-03-29", "2024-03-30"))
    bucket.put_zip(bar_file("2024-03", "indexPriceKlines"), bars("BTCUSDT", "2024-03-29", "2024-03-30"))
    done = run("2024-03-29", "2024-03-30", names=["futures_history"])
    assert done.failed == []
    rows = archive.read("futures_history", *EVER)
    assert rows["index_price_usd"].tolist() == rows["price_usd"].tolist()
    assert rows.groupby("instrument_name").size().to_dict() == {"BTCUSDT_240329": 8, "BTCUSDT_240628": 24}
    assert rows.loc[rows["time"] == "2024-03-29T07:00Z", "price_usd"].tolist() == [1700.0, 1700.0]
    assert rows["expiry"].drop_duplicates().tolist() == [
        pd.Timestamp(day, tz="UTC") for day in ("2024-03-29T08:00", "2024-06-28T08:00")
    ]


def test_bvol_is_the_last_value_of_each_hour(run: Any, bucket: Bucket, archive: Archive) -> None:
    """Excerpt of one row per second; by hand: 40.5 is the last of the first hour."""
    first = pd.Timestamp("2026-07-01", tz="UTC")
    stamps = [first + pd.Timedelta(h, "h") + pd.Timedelta(s, "s") for h in range(24) for s in (0, 1800, 3599)]
    rows = [
        f"{t.value // 10**6 + 1},BTCBVOLUSDT,BTCBVOL,USDT,{40 + t.hour + (t.minute + 1) // 60 / 2}"
        for t in stamps
    ]
    header = "calc_time,symbol,base_asset,quote_asset,index_value"
    path = "/data/option/daily/BVOLIndex/BTCBVOLUSDT/BTCBVOLUSDT-BVOLIndex-2026-07-01.zip"
    bucket.put_zip(path, "\n".join([header, *rows]))
    done = run("2026-07-01T01:00", "2026-07-02T01:00", names=["volatility_index_published"])
    assert (done.failed, done.notices) == ([], [])
    result = archive.read("volatility_index_published", *EVER)
    assert result["time"].tolist() == list(pd.date_range("2026-07-01T01:00", periods=24, freq="h", tz="UTC"))
    assert result["index_pct"].tolist() == [40.5 + hour for hour in range(24)]
    assert set(result["symbol"]) == {"BTC"}
    assert run("2026-07-01T01:00", "2026-07-02T01:00", names=["volatility_index_published"]).written == {}


def test_file_of_another_month_or_contract_is_rejected(run: Any, bucket: Bucket) -> None:
    rows = "1609459200000,8,0.00010000\n"
    bucket.put_zip(f"{UM}/monthly/fundingRate/BTCUSDT/BTCUSDT-fundingRate-2022-01.zip", rows)
    bucket.put_zip(day_file("2022-01-05"), metrics("ETHUSDT", "2022-01-05"))
    done = run("2022-01-01", "2022-02-01", names=["funding_settlements", "oi_history"])
    assert done.written == {}
    assert ["outside the period" in failure for failure in done.failed] == [True, False]
    assert "expected rows of BTCUSDT, got rows of ETHUSDT" in done.failed[1]


def test_days_replace_missing_rows_of_a_month_and_unfinished_months(
    run: Any, bucket: Bucket, archive: Archive
) -> None:
    """January lacks the 7th, which has a file; February has only a file of the 1st: 32 days of 24 hours.

    `bars` gives the n-th hour of a file the price 1000 + 100 n.
    """
    bucket.put_zip(bar_file("2024-01"), bars("BTCUSDT", "2024-01-01", "2024-02-01", skip=("2024-01-07",)))
    bucket.put_zip(bar_file("2024-01-07", by="daily"), bars("BTCUSDT", "2024-01-07", "2024-01-08"))
    bucket.put_zip(bar_file("2024-02-01", by="daily"), bars("BTCUSDT", "2024-02-01", "2024-02-02"))
    done = run("2024-01-01", "2024-02-03", names=["prices_history"])
    assert done.failed == []
    assert done.plan[["kind", "files"]].to_numpy().tolist() == [["klines mark", 2]]
    rows = archive.read("prices_history", *EVER)
    assert len(rows) == 32 * 24
    assert rows["price_usd"].iloc[[0, 1, 144, 168]].tolist() == [1000, 1100, 1000, 17800]
    assert set(rows["kind"]) == {"mark"}
    assert set(rows["resolution"]) == {"1h"}


def test_a_delisted_symbol_and_a_coin_margined_contract_are_found(run, bucket, archive) -> None:
    """Coin-margined open interest is in contracts, of 100 USD for BTC, with labels five minutes early."""
    names = ("LUNAUSDT", "LUNABUSD", "BTCUSDT", "BTCUSDT_210326", "ETHUSDT", "XRPUSDT", "ADAUSDT", "BNBUSDT")
    for name in names:
        bucket.put_zip(day_file("2022-05-01", name), metrics(name, "2022-05-01"))
    coin = metrics("BTCUSD_PERP", "2022-05-01", first="00:00").replace(",1.5,2.0,", ",,,")
    bucket.put_zip(day_file("2022-05-01", "BTCUSD_PERP", "cm"), coin)
    window = ("2022-05-01T00:05", "2022-05-02T00:05")
    done = run(*window, symbols=["LUNA", "DOGE"], names=["oi_history"])
    assert done.plan["contract"].tolist() == ["LUNAUSDT"]
    assert "no files for DOGE" in "".join(done.notices)
    assert archive.symbols("oi_history") == ("LUNA",)
    run(*window, symbols=["BTCUSD_PERP"], names=["oi_history"])
    rows = archive.read("oi_history", *EVER, symbols=["BTC"])
    assert rows["oi_usd"].iloc[[0, 1]].tolist() == [10_000.0, 10_100.0]
    assert rows["time"].iloc[0] == pd.Timestamp("2022-05-01T00:05", tz="UTC")


def test_files_of_okx_gate_and_kucoin_give_payments_at_whole_hours(
    run: Any, bucket: Bucket, archive: Archive
) -> None:
    """OKX has months in UTC+8 and stamps 3 s late, Gate no header and an empty month, KuCoin days."""
    okx = "instrument_name,funding_rate,funding_time\n"
    for hours in (0, 8, 16):
        ms = 1704038400000 + hours * 3_600_000 + 3_000  # from 2023-12-31 16:00, 1 January in UTC+8
        okx += f"BTC-USDT-SWAP,0.0002,{ms}\n"
    folder = "/cdn/okex/traderecords/swaprates/monthly"
    bucket.put_zip(f"{folder}/202401/BTC-USDT-SWAP-fundingrates-2024-01.zip", okx)
    gate = "/futures_usdt/funding_applies"
    bucket.put_gz(f"{gate}/202401/BTC_USDT-202401.csv.gz", "1704067200,0.0001\n1704081600,0.0001\n")
    bucket.put_gz(f"{gate}/202402/BTC_USDT-202402.csv.gz", "")
    kucoin = "/data/futures/daily/fundingRates/XBTUSDTM/XBTUSDTM-fundingRates-2024-01-02.zip"
    rows = "symbol,time,fundingRate\nXBTUSDTM,1704153600000,0.0003\nXBTUSDTM,1704182400000,0.0004\n"
    bucket.put_zip(kucoin, rows)
    options = {"venues": ["okx", "gateio", "kucoin"], "names": ["funding_settlements"]}
    done = run("2024-01-01", "2024-03-01", **options)
    assert done.failed == []
    rows = archive.read("funding_settlements", *EVER)
    payments = {}
    for venue, group in rows.groupby("exchange", observed=True):
        times = group["time"].dt.strftime("%m-%dT%H:%M:%S")
        payments[venue] = list(zip(times, group["rate_native"].round(9), strict=True))
    assert payments == {
        "okx": [("12-31T16:00:00", 2e-4), ("01-01T00:00:00", 2e-4), ("01-01T08:00:00", 2e-4)],
        "gateio": [("01-01T00:00:00", 1e-4), ("01-01T04:00:00", 1e-4)],
        "kucoin": [("01-02T00:00:00", 3e-4), ("01-02T08:00:00", 4e-4)],
    }
    assert rows["interval_hours"].isna().all(), "fewer than three gaps confirm no interval"
    assert "okx fundingrates BTC-USDT-SWAP: the venue does not have the files for 2024-02" in "".join(
        done.notices
    )
    bucket.asked.clear()
    run("2024-01-01", "2024-03-01", **options)
    assert [path for path in bucket.asked if "CHECKSUM" not in path] == [
        f"{folder}/202402/BTC-USDT-SWAP-fundingrates-2024-02.zip",
        f"{folder}/202403/BTC-USDT-SWAP-fundingrates-2024-03.zip",
    ]


def test_busy_host_is_requested_again_and_a_refusal_is_not_an_empty_month(run, bucket, archive) -> None:
    bucket.put_zip(day_file("2024-01-01"), metrics("BTCUSDT", "2024-01-01"))
    for status, tries in ((503, 5), (403, 1)):
        bucket.broken[day_file("2024-01-01")] = status
        bucket.asked.clear()
        done = run("2024-01-01T00:05", "2024-01-02T00:05", names=["oi_history"])
        assert f"HTTP {status}" in done.failed[0]
        assert bucket.asked.count(day_file("2024-01-01")) == tries
        assert archive.requests().empty


def test_what_is_in_no_file_is_said(run: Any) -> None:
    done = run("2024-01-01", "2024-02-01", venues=["bybit", "hyperliquid"])
    assert "bybit: its files have only trades" in done.notices[0]
    assert "charged to the user's account" in done.notices[1]
    with pytest.raises(ValueError, match=r"tables must be among .*, got 'liquidations_fills'"):
        run("2024-01-01", "2024-02-01", names=["liquidations_fills"])


def test_bars_that_were_rewritten_correct_prices_and_what_takers_did(run, bucket, archive) -> None:
    """Prices have kinds, of which bars of trades are one; the volume of takers has none."""
    names = ["prices_history", "volume_taker"]
    bucket.put_zip(bar_file("2024-01", "klines"), bars("BTCUSDT", "2024-01-01", "2024-02-01"))
    assert run("2024-01-01", "2024-02-01", names=names).failed == []
    later = bars("BTCUSDT", "2024-01-01", "2024-02-01", skip=("2024-01-07",))
    bucket.put_zip(bar_file("2024-01", "klines"), later, "2026-02-01T08:30:00.000Z")
    done = run("2024-01-01", "2024-02-01", names=names)
    assert {table: len(archive.read(table, *EVER)) for table in names} == dict.fromkeys(names, 30 * 24)
    rows = archive.read("volume_taker", *EVER)
    assert rows[["buy_usd", "sell_usd"]].drop_duplicates().to_numpy().tolist() == [[600.0, 400.0]]
    assert rows["time"].iloc[0] == pd.Timestamp("2024-01-01", tz="UTC")
    message = " ".join(done.notices)
    assert "744 rows of prices_history were replaced by 720" in message
    assert "744 rows of volume_taker were replaced by 720" in message


def test_rewritten_file_does_not_replace_payments_from_requests(run, bucket, archive) -> None:
    """The file lacks a payment that a request returned; a payment of the next month is outside the file."""
    month = f"{UM}/monthly/fundingRate/BTCUSDT/BTCUSDT-fundingRate-2021-01.zip"
    first = 1609459200000  # 2021-01-01
    bucket.put_zip(month, f"{first},8,0.0001\n{first + 8 * 3_600_000},8,0.0002\n")
    names = ["funding_settlements"]
    run("2021-01-01", "2021-02-01", names=names)
    asked = archive.read("funding_settlements", *EVER).iloc[[1, 1]].reset_index(drop=True)
    asked["time"] = pd.to_datetime(["2021-01-01T16:00", "2021-02-01T00:00"], utc=True)
    for start, end in (("2021-01-01T12:00", "2021-01-01T20:00"), ("2021-01-31", "2021-02-02")):
        window = asked["time"].between(pd.Timestamp(start, tz="UTC"), pd.Timestamp(end, tz="UTC"))
        archive.merge(
            "funding_settlements", asked[window], requests=[LedgerEntry("binance", "BTC", start, end)]
        )
    late = first + 31 * 86_400_000 + 8 * 3_600_000  # of the next month
    bucket.put_zip(month, f"{first},8,0.0005\n{late},8,0.0003\n", "2026-02-01T08:30:00.000Z")
    done = run("2021-01-01", "2021-02-01", names=names)
    rows = archive.read("funding_settlements", *EVER).set_index("time")["rate_bps_8h"]
    assert rows.index.strftime("%m-%dT%H").tolist() == ["01-01T00", "01-01T16", "02-01T00", "02-01T08"]
    assert rows.tolist() == pytest.approx([5.0, 2.0, 2.0, 3.0])
    assert "3 rows of funding_settlements were replaced by 2" in done.notices[-1]


def test_only_the_symbol_stored_from_another_contract_fails(run, bucket, archive) -> None:
    for name in ("BTCUSDT", "ETHUSDT", "XRPUSDT"):
        bucket.put_zip(day_file("2024-01-01", name), metrics(name, "2024-01-01"))
    window: Any = ("2024-01-01T00:05", "2024-01-02T00:05")
    run(*window, symbols=["XRP"], names=["oi_history"])
    other = archive.read("oi_history", *EVER).iloc[:1].assign(symbol="BTC")
    archive.merge("oi_history", other, contracts={"binance BTC": "BTCUSDC"})
    done = run(*window, symbols=["BTC", "ETH"], names=["oi_history"])
    assert archive.read("oi_history", *EVER).groupby("symbol").size().to_dict() == {
        "BTC": 1, "ETH": 288, "XRP": 288,
    }  # fmt: skip
    [failure] = done.failed
    assert failure.startswith("binance metrics BTCUSDT: oi_history: BTCUSDT would continue the series of BTC")


def test_damaged_daily_file_is_named_and_the_month_is_stored(run, bucket, archive) -> None:
    bucket.put_zip(bar_file("2024-01"), bars("BTCUSDT", "2024-01-01", "2024-02-01", skip=("2024-01-07",)))
    bucket.put_zip(bar_file("2024-01-07", by="daily"), "<html>moved</html>\n")
    done = run("2024-01-01", "2024-02-01", names=["prices_history"])
    assert len(archive.read("prices_history", *EVER)) == 30 * 24
    assert any("1h-2024-01-07.zip" in text for text in done.notices), done.notices


def test_current_month_is_not_requested_from_a_host_without_a_list(run, bucket) -> None:
    """It is the first of August: the present file of August would be taken for the whole month."""
    done = run("2026-07-01", "2026-08-20", venues=["gateio"], names=["funding_settlements"])
    assert [path.rpartition("/")[2] for path in bucket.asked] == ["BTC_USDT-202607.csv.gz"]
    assert "the venue does not have the files for 202607" in " ".join(done.notices)


@pytest.mark.parametrize(
    ("first", "last", "moved"),
    [
        ("2024-01-01T00:05", "2024-01-02T00:00", False),
        ("2024-01-01T00:05", "2024-01-01T23:55", False),  # the row of midnight lacks
        ("2026-07-01T00:05", "2026-07-01T23:55", True),  # the row of the first midnight lacks
        ("2026-07-01T00:00", "2026-07-01T23:55", True),
    ],
)
def test_metrics_labels_without_the_first_or_last_row(first: str, last: str, moved: bool) -> None:
    labels = pd.Series(pd.date_range(first, last, freq="5min", tz="UTC"))
    instants = state_times(labels, inverse=False)
    assert instants.iloc[0] - labels.iloc[0] == pd.Timedelta("5min" if moved else "0min")
