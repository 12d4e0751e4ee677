"""A venue is many parts: a market, a host or a request that fails takes nothing else away, and is named."""

from __future__ import annotations

from typing import Any

import pandas as pd

from derivdata.sources.archive import Archive
from derivdata.sources.collect.read_through import ReadThrough
from tests.collect.fakes import Fakes

DAY = pd.Timestamp("2026-01-20", tz="UTC")
DOWN = (503, {}, {"code": -1001, "msg": "maintenance"})


def _symbols(archive: Archive, table: str) -> set[str]:
    return set(archive.read(table, DAY, DAY + pd.Timedelta(1, "D"))["symbol"])


def test_a_contract_of_another_market_does_not_stand_in_for_one_that_failed(
    made, archive, fakes, clock
) -> None:
    """The coin-margined contract of the fakes pays 9 bps, the one of USDT 1."""
    collector = made("binance", names=["funding_history"])
    collector.once()
    fakes.refusals["binance/fapi/v1/premiumIndex"] = DOWN
    clock.wait(60)
    collector.once()
    rows = archive.read("funding_history", DAY, DAY + pd.Timedelta(1, "D"))
    assert rows["rate_bps_8h"].round(9).tolist() == [1.0, 1.0]
    assert "maintenance" in collector.failed["binance /fapi/v1/premiumIndex"]


def test_a_host_that_refuses_this_address_is_left_and_the_venue_stays(made, archive, fakes, clock) -> None:
    fakes.refusals["binance/eapi/"] = (451, {}, {"code": 0, "msg": "restricted location"})
    collector = made("binance", share_seconds=None)
    for _ in range(2):
        collector.once()
        clock.wait(300)
    assert collector.gone == {}
    assert _symbols(archive, "funding_history") == _symbols(archive, "oi_history") == {"BTC", "ETH"}
    assert "restricted location" in collector.failed["binance options_snapshot"]
    assert sum(place.startswith("/eapi") for _, place, *_ in fakes.log) == 1, "not asked again"
    fakes.refusals.clear()
    clock.wait((clock.utc().ceil("h") - clock.utc()).total_seconds())
    collector.once()
    assert "binance options_snapshot" not in collector.failed, "but with the next hour"


def test_the_lists_that_come_give_their_contracts_and_the_other_is_asked_for_again(
    made, archive, fakes, clock
) -> None:
    busy = {"retCode": 10016, "retMsg": "busy", "result": {}, "time": 1}
    fakes.altered["instruments-info"] = lambda params, body: busy if params["category"] == "inverse" else body
    collector = made("bybit")
    collector.once()
    assert _symbols(archive, "funding_history") == {"BTC", "ETH"}
    listing = "bybit /v5/market/instruments-info?category=inverse"
    assert "10016" in collector.failed[listing] or "busy" in collector.failed[listing]
    fakes.altered.clear()
    clock.wait(60)
    collector.once()
    assert collector.failed == {}


def test_intervals_that_never_came_are_no_default(made: Any, archive: Archive, fakes: Fakes) -> None:
    """Where fundingInfo is missing, an adjusted contract must not pass for one of 8 hours."""
    fakes.refusals["binance/fapi/v1/fundingInfo"] = DOWN
    collector = made("binance", names=["funding_history"])
    collector.once()
    assert _symbols(archive, "funding_history") == set()
    assert "binance /fapi/v1/fundingInfo" in collector.failed


def test_only_what_the_tables_need_is_asked(made: Any, fakes: Fakes) -> None:
    made("binance", names=["funding_history"]).once()
    asked = {place.rpartition("/")[2] for _, place, *_ in fakes.log}
    assert asked == {"exchangeInfo", "fundingInfo", "premiumIndex"}
    fakes.log.clear()
    made("binance", names=["options_snapshot"]).once()
    others = {place for _, place, *_ in fakes.log if "/eapi/" not in place}
    assert others == {"/fapi/v1/exchangeInfo", "/dapi/v1/exchangeInfo"}


def test_a_user_is_told_which_request_got_no_answer(archive, fakes, clock) -> None:
    fakes.refusals["binance/dapi/v1/premiumIndex"] = DOWN
    store = ReadThrough(archive, venues=["binance"], clock=clock, addresses=fakes.addresses)
    store.refresh()
    said = [text for text in store.take_notices() if "dapi" in text]
    store.close()
    assert len(said) == 1
    assert said[0].startswith("binance: no answer to /dapi/v1/premiumIndex: ")


def test_a_field_that_is_gone_leaves_its_column_empty_and_is_named_once_a_day(
    made, archive, fakes, clock
) -> None:
    """Beside a row that contradicts itself, which is named each time."""
    fakes.symbols = ("BTC", "ETH", "SOL")
    collector, said = made("bybit", names=["markets_symbol_exchanges"]), list[str]()
    collector.once()

    def odd(_: dict[str, Any], body: Any) -> Any:
        for row in body["result"]["list"]:
            row.pop("price24hPcnt")
            if row["symbol"] == "SOLUSDT":
                row["singleOpenInterest"] = str(3 * float(row["openInterest"]))
        return body

    fakes.altered["/tickers"] = odd
    for _ in range(3):
        clock.wait(60)
        collector.once()
        said.append(collector.failed["bybit /v5/market/tickers?category=linear"])
    assert all(why.startswith("1 left out: ") for why in said)
    gone = "; no longer tells change_pct: these columns stay empty"
    assert [why.endswith(gone) for why in said] == [True, False, False]
    rows = archive.read("markets_symbol_exchanges", clock.utc() - pd.Timedelta(1, "min"))
    assert rows["price_24h_change_pct"].isna().all()
    assert rows["volume_24h_usd"].notna().all()


def test_open_interest_that_jumps_by_a_unit_is_left_out_and_the_rest_is_written(
    made, archive, fakes, clock
) -> None:
    names = [f"C{number}" for number in range(6)]
    coins = {"factor": 1}

    def answered(exchange: str, place: str, params: dict[str, Any]) -> tuple[int, Any]:
        universe = {"universe": [{"name": name, "szDecimals": 3} for name in names]}
        figures = {"funding": "0.0000125", "openInterest": str(3 * coins["factor"]), "markPx": "100",
                   "oraclePx": "100", "midPx": "100", "prevDayPx": "100", "dayNtlVlm": "9"}  # fmt: skip
        return 200, universe if params["type"] == "meta" else [universe, [figures] * len(names)]

    fakes._body = answered  # type: ignore[method-assign]
    collector = made("hyperliquid")
    for number, factor in enumerate((1, 1000, 1, 1000)):
        if number == 3:
            collector = made("hyperliquid")  # a restart forgets nothing
        coins["factor"] = factor
        collector.once()
        if factor == 1000:
            assert "is 1e+03 times that of the last poll" in collector.failed["hyperliquid oi_history"]
        clock.wait(60)
    held = archive.read("oi_history", DAY, DAY + pd.Timedelta(1, "D"))
    assert held["oi_usd"].tolist() == [300.0] * 12, "two of four minutes"
    rates = archive.read("funding_history", DAY, DAY + pd.Timedelta(1, "D"))
    assert len(rates) == 24
    clock.wait(3600)
    collector.once()
    assert (
        "it is believed, since the venue has told it for an hour" in collector.failed["hyperliquid figures"]
    )
    assert (
        archive.read("oi_history", clock.utc() - pd.Timedelta(1, "min"))["oi_usd"].tolist() == [300_000.0] * 6
    )


def test_a_contract_delisted_within_the_hour_ends_with_its_last_row(made, archive, fakes, clock) -> None:
    """The venue goes on telling its last minute; the others move, so the list is looked at."""
    names = [f"C{number}" for number in range(4)]
    minute = {"now": 0}
    listed = {"contractType": "PERPETUAL", "quoteAsset": "USDT"}

    def told(exchange: str, place: str, params: dict[str, Any]) -> tuple[int, Any]:
        at, now = int(clock.utc().timestamp() * 1000), minute["now"]
        rows: list[dict[str, Any]] = []
        for name in names if place.startswith("/fapi/") else ():
            gone = name == "C0" and now >= 3
            row: dict[str, Any] = {"symbol": f"{name}USDT"}
            if place.endswith("exchangeInfo"):
                rows.append({**row, **listed, "baseAsset": name, "status": "SETTLING" if gone else "TRADING"})
            elif place.endswith("premiumIndex"):
                row |= {"markPrice": str(102 if gone else 100 + now), "lastFundingRate": "0.0001", "time": at}
                rows.append({**row, "nextFundingTime": at // 28_800_000 * 28_800_000 + 28_800_000})
        return 200, {"symbols": rows} if place.endswith("exchangeInfo") else rows

    fakes._body = told  # type: ignore[method-assign]
    collector = made("binance", names=["funding_history"])
    for number in range(6):
        minute["now"] = number
        collector.once()
        clock.wait(60)
    rows = archive.read("funding_history", DAY, DAY + pd.Timedelta(1, "D"))
    assert rows.groupby("symbol", observed=True).size().to_dict() == {"C0": 3, "C1": 6, "C2": 6, "C3": 6}
    lists = [place for _, place, *_ in fakes.log if place.endswith("/fapi/v1/exchangeInfo")]
    assert len(lists) == 2, "at the start, and where one stood still"


def _rates_of_cryptocom(fakes: Fakes, lost: set[str]) -> list[tuple[str, pd.Timestamp]]:
    """Refuse the hourly rates of some contracts, a request each; return what is asked, and when."""
    asked: list[tuple[str, pd.Timestamp]] = []

    def refusing(params: dict[str, Any], body: Any) -> Any:
        asked.append((params["instrument_name"][:3], fakes.now().floor("min")))
        refused = {"code": 10001, "message": f"SYS_ERROR of {params['instrument_name']}"}
        return (400, refused) if asked[-1][0] in lost else body

    fakes.altered["/public/get-valuations"] = refusing
    return asked


def test_an_hourly_request_that_no_contract_answered_failed_and_is_asked_again_in_five_minutes(
    made, archive, fakes, clock
) -> None:
    lost = {"BTC", "ETH"}
    _rates_of_cryptocom(fakes, lost)
    collector = made("cryptocom", names=["funding_history"])
    collector.once()
    assert "SYS_ERROR of BTC" in collector.failed["cryptocom funding_history"]
    assert archive.requests()["answered"].tolist() == [False]
    lost.clear()
    clock.wait(300)
    collector.once()
    assert collector.failed == {}
    assert _symbols(archive, "funding_history") == {"BTC", "ETH"}


def test_of_an_hourly_request_only_what_failed_is_asked_again(made, archive, fakes, clock) -> None:
    lost = {"BTC"}
    asked = _rates_of_cryptocom(fakes, lost)
    collector = made("cryptocom", names=["funding_history"])
    label, said = "/public/get-valuations?valuation_type=funding_rate", []
    for number in range(4):
        if number == 2:
            lost.clear()
        collector.once()
        said.append(collector.failed.get(f"cryptocom {label}", ""))
        clock.wait(300)
    first = asked[0][1]
    minutes = [(symbol, (at - first) // pd.Timedelta(1, "min")) for symbol, at in asked]
    assert minutes == [("BTC", 0), ("ETH", 0), ("BTC", 5), ("BTC", 10)]
    assert [why.partition(":")[0] for why in said] == [
        "1 of 2 requests failed",
        "1 of 1 requests failed",
        "",
        "",
    ]
    rows = archive.read("funding_history", DAY, DAY + pd.Timedelta(1, "D")).sort_values("time")
    assert rows["symbol"].tolist() == ["ETH", "BTC"], "one row of each, at its own minute"
    assert rows["time"].iloc[1] - rows["time"].iloc[0] > pd.Timedelta(1, "min")
    named = archive.requests()
    assert not named.loc[named["symbol"] == label, "answered"].any()
    assert named["symbol"].eq(label).any()
    start = first.floor("min")
    assert (
        archive.unanswered("funding_history", "cryptocom", "ETH", start, start + pd.Timedelta(1, "h")) == []
    )
    [gap] = archive.unanswered("funding_history", "cryptocom", "BTC", start, start + pd.Timedelta(1, "h"))
    assert gap == (start, start + pd.Timedelta(10, "min")), "until its first answer"
