"""Regression tests of small inputs: invalid numbers, empty lines, types of panels."""

from __future__ import annotations

import tracemalloc
import zipfile
from pathlib import Path

import pytest
import xarray as xr

from derivdata.analysis import backtest, oi, taker
from derivdata.errors import ArchiveError
from derivdata.sources.archive import import_files, open_archive
from tests.analysis.test_backtest import drawn, panel

HEAD = "symbol,exchange,time,kind,resolution,rate_bps_8h\n"
ROW = "BTC,okx,2026-06-01T0{}:00:00Z,sampled,raw,{}\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1e308", "is above 24000, which is impossible"),
        ("30000", "is above 24000, which is impossible"),
        ("-30000", "is below -24000"),
        ("٠.١", "is not a number"),
        ("１.０", "is not a number"),
        ("1_0", "is not a number"),
        ("0x10", "is not a number"),
        ("inf", "is not a number"),
    ],
)
def test_a_rate_that_is_not_a_number_or_impossible_is_rejected(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "rates.csv"
    path.write_text(HEAD + ROW.format(0, text) + ROW.format(1, "1.5"), encoding="utf-8")
    result = import_files("funding_history", path, tmp_path / "to")
    assert (result.written, result.rejected) == (1, 1)
    assert why in str(result)
    stored = open_archive(tmp_path / "to").read("funding_history")
    assert stored["rate_bps_8h"].tolist() == [1.5]


@pytest.mark.parametrize("name", ["rates.csv", "rates.jsonl", "rates.json"])
def test_compressed_empty_lines_use_no_memory(name: str, tmp_path: Path) -> None:
    """20 MB of line ends pack into 20 kB; a Python object for each line would be a gigabyte."""
    packed = tmp_path / "lines.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(name, b"\n" * 20_000_000)
    tracemalloc.start()
    with pytest.raises(ArchiveError, match="the file is empty"):
        import_files("funding_history", packed, tmp_path / "to")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100e6


def test_a_row_before_a_million_empty_lines_is_read(tmp_path: Path) -> None:
    packed = tmp_path / "lines.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("rates.csv", (HEAD + ROW.format(0, "1.5")).encode() + b"\n" * 1_000_000)
    assert import_files("funding_history", packed, tmp_path / "to").written == 1


def amounts(name: str) -> xr.DataArray:
    return panel([[[10.0, 20.0, 30.0], [30.0, 20.0, 10.0]]], unit="USD").rename(name)


def test_shares_accept_integer_open_interest() -> None:
    whole = amounts("oi_usd").astype("int64")
    shares = oi.market_share(whole, venues=["alpha", "beta"])
    assert shares.values.tolist() == [[[0.25, 0.5, 0.75], [0.75, 0.5, 0.25]]]


def test_duplicate_time_is_named() -> None:
    bought = amounts("buy_usd")
    doubled = bought.isel(time=[0, 1, 2, 2])
    with pytest.raises(ValueError, match="buy must have 2026-01-01 16:00:00 once along 'time': keep one"):
        taker.imbalance(doubled, amounts("sell_usd"))


def test_a_backtest_computes_prices_of_single_precision_in_double() -> None:
    rates, prices = drawn(3)
    single = panel(prices, unit="USD").astype("float32")
    rule = backtest.SpreadThreshold(1.0)
    costs = backtest.Costs(fee_bps=2.0)
    result = backtest.carry(panel(rates), rule, costs, prices=single)
    expected = backtest.carry(panel(rates), rule, costs, prices=single.astype("float64"))
    assert float(result["net_usd"]) == float(expected["net_usd"]) != 0.0
