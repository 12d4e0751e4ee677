"""Files of collectors, dashboards and vendors: chains, trades, books, curves, totals, several tables."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from derivdata.errors import ArchiveError
from derivdata.sources.archive import import_files, open_archive
from derivdata.sources.archive.importing import Imported, Unclear
from tests.archive.rates import EVER

FILES: list[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("collected_files.toml").read_text(encoding="utf-8")
)["file"]


def _import(folder: Path, name: str, content: str, **said: Any) -> Imported:
    path = folder / "in" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return import_files(said.pop("table", None), path, folder / "to", **said)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file["name"])
def test_a_collected_file_is_read_with_at_most_one_option(tmp_path: Path, file: dict[str, Any]) -> None:
    said = file.get("option", {})
    if said:
        assert "--" in _question(tmp_path / "without", file)
    assert _import(tmp_path, file["name"], file["content"], **dict(said)).written
    archive = open_archive(tmp_path / "to")
    assert archive.tables() == {*file["rows"]}
    for table, expected in file["rows"].items():
        stored = archive.read(table, *EVER)
        for row, cells in zip(stored.to_dict("records"), expected, strict=False):
            for name, value in cells.items():
                is_stamp = isinstance(row[name], pd.Timestamp)
                wanted = pd.Timestamp(value) if is_stamp else value
                assert row[name] == (wanted if isinstance(value, str) else pytest.approx(value)), name
        assert len(stored) >= len(expected)
    assert _import(tmp_path, file["name"], file["content"], **dict(said)).written == 0


def _question(folder: Path, file: dict[str, Any]) -> str:
    """Return the question about a file: an error, or a notice about one of its tables."""
    try:
        counts = _import(folder, file["name"], file["content"])
    except ArchiveError as question:
        return str(question)
    return next(notice for notice in counts.notices if "not imported as" in notice)


_BTC = {"exchange": "binance", "symbol": "BTC"}


def test_open_interest_that_may_be_coins_or_usd_is_asked_about(tmp_path: Path) -> None:
    """3e7 may be USD, and 3e7 coins of 1,900 USD are 5.7e10 USD."""
    content = "timestamp,openInterest,markPrice\n1772323200000,30000000,1900.5\n"
    with pytest.raises(Unclear, match="may be in USD, coins or contracts"):
        _import(tmp_path, "binance_ETHUSDT_oi.csv", content)


def test_open_interest_of_venues_that_count_contracts_is_asked_about(tmp_path: Path) -> None:
    content = "timestamp,openInterest,markPrice\n1772323200000,2600000,67000.5\n"
    with pytest.raises(Unclear, match="may be in USD, coins or contracts"):
        _import(tmp_path, "okx_BTC-USDT-SWAP_oi.csv", content)


def test_dvol_close_without_its_open_raises_a_question(tmp_path: Path) -> None:
    content = "date,dvol_close\n2026-03-01,51.4\n2026-03-02,52.0\n"
    with pytest.raises(Unclear, match=r"is the close of a bar, .*--map index_pct=dvol_close"):
        _import(tmp_path, "dvol_btc.csv", content)
    _import(tmp_path, "dvol_btc.csv", content, map={"index_pct": "dvol_close"})
    rows = open_archive(tmp_path / "to").read("volatility_index_published", *EVER)
    assert rows[["exchange", "symbol", "index_pct"]].to_numpy().tolist() == [
        ["deribit", "BTC", 51.4],
        ["deribit", "BTC", 52.0],
    ]


def test_candles_of_an_index_of_volmex_are_not_prices(tmp_path: Path) -> None:
    content = "timestamp,open,high,low,close\n1772323200,50.1,51,49,50.2\n"
    with pytest.raises(Unclear, match="the file name indicates volatility_index_published"):
        _import(tmp_path, "volmex_bviv.csv", content, set=_BTC)


def test_a_ticker_with_the_best_quotes_is_not_a_book(tmp_path: Path) -> None:
    content = (
        "ts,symbol,bid1_price,bid1_size,ask1_price,ask1_size,mark_price\n"
        "1772323200,BTCUSDT,67000,1.5,67001,1,67000.5\n"
    )
    _import(tmp_path, "bybit_tickers.csv", content)
    assert open_archive(tmp_path / "to").tables() == {"prices_history"}


def test_a_side_of_a_depth_file_without_the_other_is_rejected(tmp_path: Path) -> None:
    content = (
        "timestamp,percentage,depth,notional\n"
        "2026-03-01 00:00:10,-1.00,1500.5,100000000.5\n2026-03-01 00:00:10,1.00,1600.5,108000000.5\n"
        "2026-03-01 00:00:40,-1.00,1500.5,100000000.5\n"
    )
    counts = _import(tmp_path, "BTCUSDT-bookDepth-2026-03-01.csv", content)
    assert (counts.read, counts.written, counts.rejected) == (3, 1, 2)
    assert any("line 4: the asks at this distance are missing" in line for line in counts.rejections)


def test_cell_without_a_list_of_levels_is_named(tmp_path: Path) -> None:
    content = 'time,symbol,bids,asks\n1772323200,BTCUSDT,"[[67000, 1.5]]","[67001"\n'
    with pytest.raises(ArchiveError, match=r"column asks: expected a list of levels, .* got '\[67001"):
        _import(tmp_path, "binance.csv", content)


def test_columns_of_one_name_with_different_values_are_rejected(tmp_path: Path) -> None:
    lines = [f"{1772323200 + i * 28800},BTCUSDT,0.0001,0.0002" for i in range(9)]
    content = "\n".join(["time,symbol,fundingRate,fundingRate", *lines]) + "\n"
    with pytest.raises(ArchiveError, match="two columns have the name 'fundingRate'"):
        _import(tmp_path, "binance.csv", content)


def test_option_applies_only_to_tables_that_have_it(tmp_path: Path) -> None:
    """The unit is that of open interest alone: rates are fractions by their size."""
    lines = [f"{1772323200 + i * 28800},0.0001,50.5,67000.5" for i in range(9)]
    content = "\n".join(["time,fundingRate,openInterest,markPrice", *lines]) + "\n"
    _import(tmp_path, "gate_BTC_USDT.csv", content, unit="coins")
    archive = open_archive(tmp_path / "to")
    assert archive.tables() == {"funding_settlements", "oi_history", "prices_history"}
    assert archive.read("funding_settlements", *EVER)["rate_bps_8h"].iloc[0] == pytest.approx(1.0)
    assert archive.read("oi_history", *EVER)["oi_usd"].iloc[0] == pytest.approx(50.5 * 67000.5)
