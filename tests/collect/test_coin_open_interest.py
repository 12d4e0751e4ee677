"""Open interest of a coin over all contracts of a venue, from polls through the archive to a panel."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pandas as pd
import pytest

import derivdata as dd
from derivdata.errors import DataNotice
from derivdata.sources.archive import Archive
from tests.collect.clocks import SimulatedClock
from tests.collect.fakes import Fakes

NOW = "2026-01-20T10:30:00"
DAY = ("2026-01-20", "2026-01-21")
MINUTE = pd.Timedelta(1, "min")


def _with_usdc(_: dict[str, Any], body: Any) -> Any:
    """Add BTC-USDC-SWAP to a list of OKX: 2 million USD of open interest.

    The coins of the coin-margined contracts are set to the equivalent of their 5,000 USD.
    """
    changed = copy.deepcopy(body)
    for row in changed["data"]:
        if row.get("oiUsd") == "5000":
            row["oiCcy"] = str(5000 / 50_050)
    first = next((row for row in changed["data"] if row["instId"] == "BTC-USDT-SWAP"), None)
    if first is None:
        return body
    usdc = {"instId": "BTC-USDC-SWAP"}
    if "settleCcy" in first:
        usdc |= {"settleCcy": "USDC", "uly": "BTC-USDC"}
    if "oiUsd" in first:
        usdc |= {"oi": "4000", "oiCcy": str(2e6 / 50_050), "oiUsd": "2000000"}
    changed["data"].append({**first, **usdc})
    return changed


@pytest.fixture
def okx(fakes: Fakes) -> Fakes:
    """OKX with contracts of BTC in USDT, in USDC and in coins, and of ETH in USDT and in coins."""
    for place in ("public/instruments", "public/open-interest", "market/tickers"):
        fakes.altered[f"okx/api/v5/{place}"] = _with_usdc
    return fakes


def _stored(archive: Archive) -> pd.DataFrame:
    return archive.read("oi_history", *DAY).set_index(["exchange", "symbol"])


def test_polls_store_one_contract_and_the_sum_of_all(
    make_collector: Any, archive: Archive, okx: Fakes
) -> None:
    """OKX: 1,353 BTC in USDT at a mark of 50,050, 2 million USD in USDC, 50 contracts of 100 USD each.

    Bybit: the same BTC in USDT, and 1 million USD in coins.
    """
    assert dict(okx.states())["BTC"][1:] == (1353.0, 50_050.0)
    make_collector("okx", "bybit").once()
    rows = _stored(archive)
    linear = 1353 * 50_050.0
    assert rows["oi_usd"].tolist() == [linear] * 4
    sums = rows["oi_all_contracts_usd"]
    assert sums["okx", "BTC"] == linear + 2_000_000 + 5_000
    assert sums["okx", "ETH"] == linear + 5_000
    assert sums["bybit", "BTC"] == sums["bybit", "ETH"] == linear + 1_000_000


def test_oi_by_coin_reads_the_sum_from_an_archive(make_collector: Any, archive: Archive, okx: Fakes) -> None:
    make_collector("okx", "bybit").once()
    dd.connect(str(archive.path))
    linear = 1353 * 50_050.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataNotice)
        one = dd.oi.history("BTC", *DAY, resolution="raw")
        coin = dd.oi.history("BTC", *DAY, resolution="raw", by="coin")
        hourly = dd.oi.history("BTC", *DAY, resolution="1h", by="coin")
    expected = {"okx": linear + 2_005_000, "bybit": linear + 1_000_000}
    assert set(one["oi_usd"]) == {linear}
    assert dict(zip(coin["exchange"].astype(str), coin["oi_usd"], strict=True)) == expected
    assert dict(zip(hourly["exchange"].astype(str), hourly["oi_usd"], strict=True)) == expected
    for table in (one, coin):  # the panel takes the sums of either table, once
        panel = dd.panel(table, by="coin")
        assert {name: panel.sel(symbol="BTC", exchange=name).max().item() for name in expected} == expected
    assert set(dd.panel(one).max("time").values.ravel()) == {linear}


def test_sum_is_missing_if_one_contract_is_missing(
    make_collector: Any, archive: Archive, okx: Fakes, clock: Any
) -> None:
    collector = make_collector("okx")
    collector.once()

    def without_usdc(params: dict[str, Any], body: Any) -> Any:
        rows = _with_usdc(params, body)["data"]
        return {**body, "data": [row for row in rows if row["instId"] != "BTC-USDC-SWAP"]}

    okx.altered["okx/api/v5/public/open-interest"] = without_usdc
    clock.wait(60)
    collector.once()
    sums = _stored(archive).reset_index().pivot(index="time", columns="symbol", values="oi_all_contracts_usd")
    assert sums["BTC"].notna().tolist() == [True, False]
    assert sums["ETH"].notna().tolist() == [True, True]
    dd.connect(str(archive.path))
    with pytest.warns(
        DataNotice, match="1 rows are omitted: open interest of some contracts is unknown, first BTC on"
    ):
        result = dd.oi.history("BTC", *DAY, resolution="raw", by="coin")
    assert len(result) == 1


def test_doubtful_value_of_another_contract_is_not_summed(
    make_collector: Any, archive: Archive, okx: Fakes, clock: SimulatedClock
) -> None:
    collector = make_collector("okx")
    collector.once()

    def a_thousand_times(params: dict[str, Any], body: Any) -> Any:
        changed = _with_usdc(params, body)
        changed["data"][-1] |= {"oiUsd": "2000000000", "oiCcy": str(2e9 / 50_050)}
        return changed

    okx.altered["okx/api/v5/public/open-interest"] = a_thousand_times
    clock.wait(60)
    collector.once()
    btc = archive.read("oi_history", *DAY, symbols=["BTC"]).sort_values("time")
    assert btc["oi_usd"].notna().all()
    assert btc["oi_all_contracts_usd"].notna().tolist() == [True, False]


def test_binance_requests_oi_of_main_contracts_first(
    make_collector: Any, archive: Archive, fakes: Fakes, clock: SimulatedClock
) -> None:
    def coin_margined(params: dict[str, Any], _: Any) -> Any:
        now = int(clock.utc().timestamp() * 1000)
        return {
            "symbol": params["symbol"],
            "pair": "X",
            "openInterest": "70",
            "contractType": "P",
            "time": now,
        }

    fakes.altered["binance/dapi/v1/openInterest"] = coin_margined
    collector = make_collector("binance", names=["oi_history"], all_contracts=True)
    for _ in range(10):
        collector.once()
        clock.wait(60)
    rows = archive.read("oi_history", *DAY).sort_values("time").groupby("symbol", observed=True).last()
    assert set(archive.read("oi_history", *DAY)["symbol"]) == {"BTC", "ETH"}
    # 70 contracts of 100 USD of BTC, and of 10 USD of ETH
    assert (rows["oi_all_contracts_usd"] - rows["oi_usd"]).round(6).to_dict() == {"BTC": 7000.0, "ETH": 700.0}


def test_archive_without_sums_is_still_readable(tmp_path: Any) -> None:
    """A table that was written before the column existed."""
    times = pd.date_range("2026-01-20", periods=3, freq="1h", tz="UTC")
    old = pd.DataFrame({"symbol": "BTC", "exchange": "okx", "time": times, "oi_usd": 5.0, "resolution": "1h"})
    archive = dd.open_archive(tmp_path / "old")
    archive.append("oi_history", old)
    assert archive.read("oi_history", *DAY)["oi_all_contracts_usd"].isna().all()
    dd.connect(str(tmp_path / "old"))
    window = (DAY[0], "2026-01-20T03:00")
    assert dd.oi.history("BTC", *window)["oi_usd"].tolist() == [5.0] * 3
    with pytest.warns(DataNotice, match="other contracts of the coins are unknown"):
        assert dd.oi.history("BTC", *window, by="coin")["oi_usd"].tolist() == [5.0] * 3
