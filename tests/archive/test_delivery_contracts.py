"""Delivery prices are stored by contract, and archives of earlier versions, which have none, are read."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pandas as pd
import pytest

import derivdata as dd
from derivdata import tables, venues
from derivdata.sources.archive import Archive, open_archive
from derivdata.sources.archive.importing.importer import import_files

_OLD = Path(__file__).parents[1] / "data" / "archive_format_4"
_EXPIRY = pd.Timestamp("2026-03-27T08:00Z")
_DAYS = pd.Timestamp("2026-03-01", tz="UTC"), pd.Timestamp("2026-05-01", tz="UTC")
_NEXT = pd.Timestamp("2026-04-24T08:00Z")


def _rows(contracts: list[str], prices: list[float], time: pd.Timestamp = _EXPIRY) -> pd.DataFrame:
    return pd.DataFrame(
        {"symbol": "BTC", "exchange": "binance", "contract": contracts, "time": time, "price_usd": prices}
    )


def _old_archive(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    """An archive with one delivery price, written by a version whose table has no contract."""
    table = tables.TABLES["delivery_prices"]
    columns = {name: column for name, column in table.columns.items() if name != "contract"}
    key = ("symbol", "exchange", "time")
    earlier = replace(table, key=key, columns=columns, optional=frozenset(), order=())
    with monkeypatch.context() as patch:
        patch.setitem(tables.TABLES, "delivery_prices", earlier)
        open_archive(folder).append("delivery_prices", _rows(["?"], [69_000.0]).drop(columns="contract"))
    return open_archive(folder)


def test_two_deliveries_of_one_venue_at_one_time_are_both_stored(tmp_path: Path) -> None:
    future = venues.read(
        "binance",
        "/futures/data/delivery-price?pair=BTCUSDT",
        json.dumps([{"deliveryTime": 1774598400000, "deliveryPrice": 70000.5}]),
    )
    exercised = {
        "symbol": "BTC-260327-70000-C", "strikePrice": "70000", "realStrikePrice": "70123.25",
        "expiryDate": 1774598400000, "strikeResult": "REALISTIC_VALUE_STRICKEN",
    }  # fmt: skip
    option = venues.read("binance", "/eapi/v1/exerciseHistory?underlying=BTCUSDT", json.dumps([exercised]))
    for number, order in enumerate(permutations((future, option))):
        archive = open_archive(tmp_path / str(number))
        for body in order:
            assert archive.append("delivery_prices", body["delivery_prices"]) == 1
        dd.connect(str(tmp_path / str(number)))
        rows = dd.delivery.prices("BTC", "2026-03-26", "2026-03-28", venues=["binance"])
        assert rows["contract"].tolist() == ["future:USDT", "option:USDT"]
        assert rows["price_usd"].tolist() == [70000.5, 70123.25]


def test_a_stored_table_without_the_contract_is_read_as_unstated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = _old_archive(tmp_path, monkeypatch)
    assert archive.read("delivery_prices", *_DAYS)["contract"].tolist() == ["unstated"]
    assert archive.sql("SELECT contract FROM delivery_prices")["contract"].tolist() == ["unstated"]
    with pytest.warns(dd.errors.DataNotice, match="1 rows already exist with other values"):
        assert archive.append("delivery_prices", _rows(["unstated"], [69_500.0])) == 0
    contracts = ["future:USDT", "option:USDT"]
    assert archive.append("delivery_prices", _rows(contracts, [70_000.0, 70_100.0])) == 2
    assert (
        archive.append("delivery_prices", _rows(contracts, [71_000.0, 71_100.0], _NEXT)) == 2
    )  # merges March
    rows = archive.read("delivery_prices", *_DAYS)
    assert rows["contract"].tolist() == [*contracts, "unstated", *contracts]
    assert rows["price_usd"].tolist() == [70_000.0, 70_100.0, 69_000.0, 71_000.0, 71_100.0]
    listed = archive.sql("SELECT contract FROM delivery_prices ORDER BY time, contract")
    assert listed["contract"].tolist() == rows["contract"].tolist()
    newest = archive.latest("delivery_prices", _NEXT, within=pd.Timedelta(60, "D"))
    assert sorted(newest["price_usd"]) == [69_000.0, 71_000.0, 71_100.0]


def test_lazy_rows_of_an_old_table_have_the_contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("dask.dataframe")
    archive = _old_archive(tmp_path, monkeypatch)
    archive.append("delivery_prices", _rows(["option:USDT"], [70_100.0]))
    rows = archive.lazy("delivery_prices").compute()
    assert sorted(rows["contract"]) == ["option:USDT", "unstated"]


def test_an_archive_of_format_4_takes_delivery_prices(tmp_path: Path) -> None:
    archive = open_archive(shutil.copytree(_OLD, tmp_path / "copy"))
    assert archive.append("delivery_prices", _rows(["option:USDT"], [70_100.0])) == 1
    assert archive.read("delivery_prices", *_DAYS)["contract"].tolist() == ["option:USDT"]


def test_imported_delivery_prices_may_lack_the_contract(tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    line = "BTC,deribit,{contract}2026-03-{day}T08:00:00Z,70000\n"
    header = "symbol,exchange,{contract}time,price_usd\n"
    file.write_text(header.format(contract="") + line.format(contract="", day=27))
    assert import_files("delivery_prices", file, tmp_path / "archive").written == 1
    both = line.format(contract="index:USD,", day=27) + line.format(contract=",", day=28)
    file.write_text(header.format(contract="contract,") + both)
    assert import_files("delivery_prices", file, tmp_path / "archive").written == 2
    rows = open_archive(tmp_path / "archive").read("delivery_prices", *_DAYS)
    assert rows["contract"].tolist() == ["index:USD", "unstated", "unstated"]
