"""Files whose columns may be read in several ways: weak evidence raises a question and stores nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from derivdata.errors import ArchiveError
from derivdata.sources.archive import import_files, open_archive
from derivdata.sources.archive.importing import Unclear
from tests.archive.rates import EVER

_START = 1_772_323_200  # 2026-03-01T00:00Z
_BOOK = [("bid", "67000"), ("bid", "66999"), ("ask", "67001"), ("ask", "67002")]


def _import(folder: Path, name: str, content: str, **said: Any) -> Any:
    path = folder / "in" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return import_files(said.pop("table", None), path, folder / "to", **said)


def _rows(folder: Path, table: str) -> pd.DataFrame:
    return open_archive(folder / "to").read(table, *EVER)


@pytest.mark.parametrize("header", ["time,side,price", "time,id,side,price"])
def test_levels_of_a_book_without_sizes_are_rejected(tmp_path: Path, header: str) -> None:
    number = "7," if ",id," in header else ""
    lines = [header, *(f"{_START},{number}{side},{price}" for side, price in _BOOK)]
    with pytest.raises(ArchiveError, match=r"levels of an order book .+ without sizes"):
        _import(tmp_path, "book.csv", "\n".join(lines) + "\n", market="gateio:BTC")


@pytest.mark.parametrize("fields", [{}, {"contract": "BTC_USDT", "id": 5}])
def test_prices_of_a_book_of_gate_without_sizes_are_rejected(tmp_path: Path, fields: dict[str, Any]) -> None:
    body = {
        **fields,
        "t": _START,
        "asks": [{"p": "67001"}, {"p": "67002"}],
        "bids": [{"p": "67000"}, {"p": "66999"}],
    }
    with pytest.raises(ArchiveError, match=r"levels of an order book .+ without sizes"):
        _import(tmp_path, "book.json", json.dumps(body), set={"exchange": "gateio"})


def _rates(header: str, hours: int = 1) -> str:
    rates = ["0.0000135", "0.0000213", "-0.0000071", "0.0000160"]
    lines = [f"{_START + 3600 * hours * number},{rate}" for number, rate in enumerate(rates * 3)]
    return "\n".join([header, *lines]) + "\n"


@pytest.mark.parametrize(
    ("name", "header", "hours"),
    [
        ("hyperliquid_BTC.csv", "timestamp,avg_funding_rate", 1),
        ("hyperliquid_BTC.csv", "timestamp,funding_rate_mean", 1),
        ("hyperliquid_BTC_hourly_avg.csv", "timestamp,funding_rate", 1),
        ("hyperliquid_BTC.csv", "time_bucket,funding_rate", 1),
        ("binance_BTC.csv", "timestamp,avg_funding_rate", 8),
    ],
)
def test_averages_of_rates_are_not_taken_for_payments(
    tmp_path: Path, name: str, header: str, hours: int
) -> None:
    with pytest.raises(Unclear, match="may be an average") as caught:
        _import(tmp_path, name, _rates(header, hours))
    assert caught.value.choices == ["funding_history", "funding_settlements"]


def test_hourly_averages_of_rates_of_eight_hours_are_samples(tmp_path: Path) -> None:
    """Binance pays BTC every 8 hours: an hourly average of 0.0000135 is 0.135 bps per 8 hours."""
    _import(tmp_path, "binance_BTC.csv", _rates("timestamp,avg_funding_rate"))
    assert _rows(tmp_path, "funding_history")["rate_bps_8h"].iloc[0] == pytest.approx(0.135)


_QUOTES = (
    "timestamp,exchange,symbol{names},bid,ask,bid_vol,ask_vol\n"
    "{start},bybit,{market}{values},2100,2200,0.55,0.57\n"
)


@pytest.mark.parametrize(
    ("market", "kind"), [("BTC-27MAR26-70000-C", "an option"), ("BTC-27MAR26", "a dated future")]
)
@pytest.mark.parametrize("sizes", ["bid_vol,ask_vol", "bid_size,ask_size"])
def test_quotes_of_instruments_are_not_books_of_the_perpetual(
    tmp_path: Path, market: str, kind: str, sizes: str
) -> None:
    content = _QUOTES.format(names="", start=_START, market=market, values="")
    content = content.replace("bid_vol,ask_vol", sizes)
    with pytest.raises(ArchiveError, match=f"is {kind}, and orderbook_book is of perpetual contracts"):
        _import(tmp_path, "quotes.csv", content)


@pytest.mark.parametrize(
    ("name", "value"), [("expiry", "2026-03-27"), ("delta", "0.25"), ("mark_iv", "0.56")]
)
def test_volatilities_of_quotes_are_not_sizes(tmp_path: Path, name: str, value: str) -> None:
    content = _QUOTES.format(names=f",{name}", start=_START, market="BTC", values=f",{value}")
    with pytest.raises(ArchiveError, match=r"not recognised|not in the file"):
        _import(tmp_path, "quotes.csv", content)


def test_quotes_in_a_file_of_options_are_asked_about(tmp_path: Path) -> None:
    content = _QUOTES.format(names="", start=_START, market="BTC", values="")
    with pytest.raises(Unclear, match="its name says options, and orderbook_book is of perpetual contracts"):
        _import(tmp_path, "bybit_options.csv", content)
    _import(tmp_path, "bybit_BTC.csv", content)
    assert _rows(tmp_path, "orderbook_book")["size"].tolist() == [0.57, 0.55]  # ask, bid
