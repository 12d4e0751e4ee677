"""The summary of an import names the columns of numbers that no table of the file stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from derivdata.sources.archive import import_files

_KLINES = (
    "open_time,open,high,low,close,volume,close_time,quote_volume,count,taker_buy_volume,"
    "taker_buy_quote_volume,ignore\n"
    "1704067200000,42000.5,42100,41900,42050,10,1704070799999,420000,100,4,168000,0\n"
    "1704070800000,42050,42100,41900,42060,11,1704074399999,462000,120,5,210000,0\n"
)
_FROM_REST = _KLINES.replace("quote_volume,count", "quote_asset_volume,number_of_trades").replace(
    "taker_buy_volume,taker_buy_quote_volume", "taker_buy_base_asset_volume,taker_buy_quote_asset_volume"
)
_RATES = (
    "timestamp,symbol,exchange,funding_rate,premium,note,score %\n"
    "1772323200,BTCUSDT,binance,0.0001,0.0002,a,5%\n"
    "1772352000,BTCUSDT,binance,0.0002,,b,\n"
    "1772380800,BTCUSDT,binance,0.0001,0.0003,c,7%\n"
)


def _unread(folder: Path, name: str, content: str, **said: Any) -> list[str]:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    understood = import_files(said.pop("table", None), path, folder / "to", **said).understood
    return [
        line.removeprefix("not read  ") for line in understood.splitlines() if line.startswith("not read")
    ]


@pytest.mark.parametrize(
    ("name", "content", "unread"),
    [
        # The bulk file fills prices_history (open) and volume_taker (both quote volumes).
        ("BTCUSDT-1h-2024-01.csv", _KLINES, "high, low, close, volume, count, taker_buy_volume"),
        (
            "BTCUSD_PERP-1h-2024-01.csv",  # its quote volumes are coins
            _KLINES,
            "high, low, close, volume, quote_volume, count, taker_buy_volume, taker_buy_quote_volume",
        ),
        (
            "binance_BTCUSDT.csv",
            _FROM_REST,
            "high, low, close, volume, quote_asset_volume, number_of_trades, taker_buy_base_asset_volume, "
            "taker_buy_quote_asset_volume",
        ),
        ("rates.csv", _RATES, "premium, score %"),
    ],
)
def test_the_summary_names_columns_of_numbers_that_are_not_stored(
    tmp_path: Path, name: str, content: str, unread: str
) -> None:
    assert _unread(tmp_path, name, content) == [unread]


def test_columns_that_are_stored_by_an_option_are_not_named(tmp_path: Path) -> None:
    said = {"table": "volume_taker", "unit": None, "market": "binance:BTC"}
    how = {"time": "open_time", "buy_usd": "taker_buy_quote_asset_volume", "sell_usd": "quote_asset_volume"}
    unread = _unread(tmp_path, "k.csv", _FROM_REST, map=how, **said)
    assert unread == ["open, high, low, close, volume, number_of_trades, taker_buy_base_asset_volume"]


def test_a_file_whose_numbers_are_all_stored_has_no_such_line(tmp_path: Path) -> None:
    content = "timestamp,symbol,exchange,funding_rate\n1772323200,BTCUSDT,binance,0.0001\n"
    assert _unread(tmp_path, "rates.csv", content, table="funding_settlements", unit="native") == []
