"""Files that look like those of another venue, contract, kind or unit: a question, not a guess."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from derivdata.errors import ArchiveError
from derivdata.sources.archive import import_files, open_archive
from tests.archive.rates import EVER

_START = 1_772_323_200  # 2026-03-01T00:00Z


def _import(folder: Path, name: str, content: str, **said: Any) -> Any:
    path = folder / "in" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return import_files(said.pop("table", None), path, folder / "to", **said)


def _hourly(header: str, row: str) -> str:
    return "\n".join([header, *(row.format(time=_START + 3_600 * hour) for hour in range(4))]) + "\n"


@pytest.mark.parametrize(("kind", "price"), [("mark", 61_000.0), ("index", 62_000.0), ("last", 63_000.0)])
def test_the_kind_of_the_caller_selects_its_column(tmp_path: Path, kind: str, price: float) -> None:
    content = _hourly("time,symbol,markPrice,indexPrice,lastPrice", "{time},BTCUSDT,61000,62000,63000")
    _import(tmp_path, "okx_prices.csv", content, table="prices_history", set={"kind": kind})
    stored = open_archive(tmp_path / "to").read("prices_history", *EVER)
    assert {*stored["price_usd"]} == {price}


def test_mark_prices_are_not_stored_as_another_kind(tmp_path: Path) -> None:
    content = _hourly("time,symbol,markPrice", "{time},BTCUSDT,61000")
    with pytest.raises(ArchiveError, match="no column is that of index prices"):
        _import(tmp_path, "okx_prices.csv", content, set={"kind": "index"})


def test_candles_have_the_kind_of_the_caller(tmp_path: Path) -> None:
    content = _hourly("time,symbol,open,high,low,close", "{time},BTCUSDT,61000,61900,60900,61500")
    _import(tmp_path, "okx_candles.csv", content, set={"kind": "mark"})
    stored = open_archive(tmp_path / "to").read("prices_history", *EVER)
    assert {*stored["kind"]} == {"mark"}
    assert {*stored["price_usd"]} == {61_000.0}


@pytest.mark.parametrize("name", ["BTCUSD_PERP", "BTC/USD:BTC", "BTCUSD"])
def test_contracts_of_usd_are_not_read_as_usd_by_their_size(tmp_path: Path, name: str) -> None:
    content = _hourly("time,symbol,mark_price,open_interest", f"{{time}},{name},67000,12000000")
    with pytest.raises(ArchiveError, match="may be in USD, coins or contracts"):
        _import(tmp_path, "binance_oi.csv", content)


def test_open_interest_of_bybit_is_that_of_one_side(tmp_path: Path) -> None:
    answer = {
        "retCode": 0, "retMsg": "OK", "retExtInfo": {}, "time": 1_772_326_900_000,
        "result": {
            "symbol": "BTCUSDT", "category": "linear", "nextPageCursor": "",
            "list": [{"openInterest": "52000", "timestamp": f"{_START}000"}],
        },
    }  # fmt: skip
    options: dict[str, Any] = {"unit": "coins", "set": {"price_usd": "67000", "exchange": "bybit"}}
    header = "timestamp,symbol,openInterest"
    for name, content in (
        ("answer.json", json.dumps(answer)),
        ("history.csv", _hourly(header, "{time},BTCUSDT,52000")),
    ):
        counts = _import(tmp_path / name, name, content, **options)
        stored = open_archive(tmp_path / name / "to").read("oi_history", *EVER)
        assert {*stored["oi_usd"]} == {26_000.0 * 67_000}
    assert "counts both sides" in counts.notices[0]
    options["set"]["exchange"] = "binance"
    counts = _import(tmp_path / "other", "history.csv", _hourly(header, "{time},BTCUSDT,52000"), **options)
    stored = open_archive(tmp_path / "other" / "to").read("oi_history", *EVER)
    assert {*stored["oi_usd"]} == {52_000.0 * 67_000}
    assert not counts.notices


@pytest.mark.parametrize(
    ("venue", "header", "row"),
    [
        ("gateio", "time,contract,lsr_taker,open_interest_usd", "{time},BTC_USDT,1.1,4287580124"),
        ("huobi", "ts,contract_code,amount_type,value,trade_turnover", "{time},BTC-USDT,2,4287580124,9"),
    ],
)
def test_open_interest_of_gate_and_htx_is_that_of_one_side(
    tmp_path: Path, venue: str, header: str, row: str
) -> None:
    """Gate's `contract_stats` and HTX's `value` are twice the open contracts: docs/venues.md."""
    options: dict[str, Any] = {"table": "oi_history", "unit": "usd", "set": {"exchange": venue}}
    counts = _import(tmp_path, "history.csv", _hourly(header, row), **options)
    stored = open_archive(tmp_path / "to").read("oi_history", *EVER)
    assert {*stored["oi_usd"]} == {2_143_790_062.0}
    assert "counts both sides" in counts.notices[0]


@pytest.mark.parametrize(
    ("venue", "usd"), [("bybit", 0.5e9), ("gate", 0.5e9), ("htx", 0.5e9), ("binance", 1e9), ("okx", 1e9)]
)
def test_open_interest_of_ccxt_is_that_of_one_side(tmp_path: Path, venue: str, usd: float) -> None:
    row = {"symbol": "BTC/USDT:USDT", "openInterestAmount": 15_000.0, "openInterestValue": 1e9, "info": {}}
    stamps = {"timestamp": 1_772_323_200_000, "datetime": "2026-03-01T00:00:00.000Z"}
    _import(tmp_path, f"{venue}-oi.json", json.dumps([row | stamps]))
    assert open_archive(tmp_path / "to").read("oi_history", *EVER)["oi_usd"].tolist() == [usd]


def test_open_interest_of_tardis_is_that_of_one_side(tmp_path: Path) -> None:
    """639,937,332 contracts of 0.0001 BTC and 1,000,000 of 0.001 BTC at 67,000 USD, both sides each."""
    content = (
        "exchange,symbol,timestamp,local_timestamp,funding_timestamp,funding_rate,predicted_funding_rate,"
        "open_interest,last_price,index_price,mark_price\n"
    )
    for market, contracts in (
        ("gate-io-futures,BTC_USDT", 639937332),
        ("huobi-dm-linear-swap,BTC-USDT", 1000000),
    ):
        stamp = f"{_START}000000"
        content += f"{market},{stamp},{stamp},1772352000000000,0.0001,,{contracts},67000,67000,67000\n"
    _import(tmp_path, "derivative_ticker.csv", content, table="oi_history")
    stored = open_archive(tmp_path / "to").read("oi_history", *EVER).set_index("exchange")["oi_usd"]
    assert stored["gateio"] == pytest.approx(639_937_332 * 0.0001 * 67_000 / 2, rel=1e-12)
    assert stored["huobi"] == pytest.approx(1_000_000 * 0.001 * 67_000 / 2, rel=1e-12)


def test_a_column_of_open_interest_that_is_not_of_gate_is_kept(tmp_path: Path) -> None:
    content = _hourly("time,symbol,open_interest_usd", "{time},BTC,4287580124")
    counts = _import(tmp_path, "gate_oi.csv", content)
    assert {*open_archive(tmp_path / "to").read("oi_history", *EVER)["oi_usd"]} == {4_287_580_124.0}
    assert not counts.notices


@pytest.mark.parametrize("clock", ["", " 0:00", " 00:00:00", " 12:00:00 AM"])
def test_first_days_of_months_are_not_days_of_january(tmp_path: Path, clock: str) -> None:
    content = "Date,Symbol,Mark Price\n" + "".join(f"{m}/1/2026{clock},BTCUSDT,67000\n" for m in (3, 4, 5))
    with pytest.raises(ArchiveError, match="the day and the month in an order that the file does not show"):
        _import(tmp_path, "okx_prices.csv", content)


@pytest.mark.parametrize("column", ["oi_usd", "open_interest_usd", "volume_usd"])
def test_figures_of_venues_may_be_of_one_coin(tmp_path: Path, column: str) -> None:
    content = _hourly(f"time,exchange,{column}", "{time},binance,50000000")
    with pytest.raises(ArchiveError, match="its rows name a venue and no contract"):
        _import(tmp_path, "pepe_by_exchange.csv", content)


def test_figures_of_venues_that_are_totals_are_stored(tmp_path: Path) -> None:
    content = _hourly("time,exchange,oi_usd", "{time},binance,25000000000")
    assert _import(tmp_path, "total_oi.csv", content).table == "oi_exchange_totals"


@pytest.mark.parametrize("name", ["btc_research/pepe_binance_funding.csv", "ETH/link_binance_funding.csv"])
def test_a_folder_does_not_name_the_coin_of_a_file_of_another(tmp_path: Path, name: str) -> None:
    content = _hourly("time,funding_rate_8h", "{time},0.0001")
    with pytest.raises(ArchiveError, match="symbol is not in the file"):
        _import(tmp_path, name, content, table="funding_history")


def test_a_folder_names_the_coin_of_a_file_of_none(tmp_path: Path) -> None:
    content = _hourly("time,funding_rate_8h", "{time},0.0001")
    _import(tmp_path, "ETH/binance_funding_rates_1h.csv", content, table="funding_history")
    stored = open_archive(tmp_path / "to").read("funding_history", *EVER)
    assert {*stored["symbol"]} == {"ETH"}
