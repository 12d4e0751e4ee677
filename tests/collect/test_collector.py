"""Polling the state of venues, a minute at a time, against the fake venues."""

from __future__ import annotations

import threading
from typing import Any

import pandas as pd
import pytest

from derivdata.sources.archive import Archive
from derivdata.sources.collect.collector import Collector
from derivdata.sources.collect.read_through import ReadThrough
from derivdata.sources.collect.reporting import late
from tests.collect import state_bodies
from tests.collect.clocks import EventClock
from tests.collect.direct import faked
from tests.collect.fakes import SYMBOLS, VENUES, Fakes
from tests.collect.state_bodies import RUNNING_BPS

NOW = "2026-01-20T10:30:30"
LAST = int(pd.Timestamp("2026-01-21", tz="UTC").timestamp())
DAY = pd.Timestamp("2026-01-20", tz="UTC")
DOWN = (503, {}, {"code": -1001, "msg": "maintenance"})
FOUR = ("binance", "bybit", "okx", "hyperliquid")


def _rows(archive: Archive, table: str) -> pd.DataFrame:
    rows = archive.read(table, DAY, DAY + pd.Timedelta(1, "D"))
    return rows.set_index(["exchange", "symbol"])


def test_one_poll_stores_one_row_per_contract_and_venue(
    make_collector: Any, archive: Archive, fakes: Fakes
) -> None:
    rows = make_collector(*FOUR).once()
    assert rows["funding_history"] == len(FOUR) * 2
    market = _rows(archive, "markets_symbol_exchanges")
    assert market.loc[("binance", "BTC"), "price_usd"] == dict(fakes.states())["BTC"][2]
    assert market.loc[("binance", "BTC"), "volume_24h_usd"] == 100_000  # of another response, in the same row
    assert market.loc[("okx", "BTC"), "price_24h_change_pct"] == pytest.approx(100.0)
    chain = _rows(archive, "options_snapshot")
    assert len(chain) == 6  # three of BTC, three of ETH
    assert chain["time"].groupby("symbol", observed=True).nunique().tolist() == [1, 1]  # one time
    assert set(chain["open_interest"]) == {7.0}
    prices = _rows(archive, "prices_history")
    assert set(prices.loc[("binance", "BTC"), "kind"]) == {"mark", "index", "last"}


def test_progress_counts_planned_requests_and_names_the_slowest_venues_first(archive, monkeypatch) -> None:
    clock, said = EventClock(pd.Timestamp(NOW, tz="UTC")), list[str]()
    fakes = faked(LAST, clock, monkeypatch)
    fakes.delays = {"bybit": 9.0, "okx": 2.0}
    where: dict[str, Any] = {"clock": clock, "addresses": fakes.addresses, "symbols": ()}
    Collector(archive, venues=FOUR[1:], progress=said.append, **where).once()
    done, of = [int(word) for word in said[0].split() if word.isdecimal()][2:]
    assert said[0].endswith("; waiting for bybit, okx"), "though okx was asked more often"
    assert said[-1] == f"3 of 3 venues, {len(fakes.log)} of {len(fakes.log)} requests"
    assert done < of == len(fakes.log) - 1, "that a list has a second page is known when the first is there"


def test_rates_in_another_unit_fail_only_the_rates_of_their_venue(make_collector, archive, fakes) -> None:
    names = [f"C{number}" for number in range(25)]
    universe = {"universe": [{"name": name, "szDecimals": 3} for name in names]}
    figures = {
        "funding": "0.02", "openInterest": "3", "markPx": "100", "oraclePx": "100", "midPx": "100",
        "prevDayPx": "100", "dayNtlVlm": "9", "dayBaseVlm": "1", "premium": None, "impactPxs": None,
    }  # fmt: skip
    bodies = {"meta": universe, "metaAndAssetCtxs": [universe, [figures] * len(names)]}
    fakes.altered["hyperliquid/info"] = lambda params, body: bodies.get(params["type"], body)
    collector = make_collector("okx", "hyperliquid")
    collector.once()
    assert set(_rows(archive, "funding_history").index) == {("okx", "BTC"), ("okx", "ETH")}
    open_interest = _rows(archive, "oi_history")["oi_usd"]
    assert open_interest["hyperliquid"].tolist() == [300.0] * len(names)
    assert "okx" in open_interest.index.get_level_values("exchange")
    why = "the median funding rate of 25 contracts is 1600 bps per 8 hours"
    assert set(collector.failed) == {"hyperliquid funding_history", "hyperliquid markets_symbol_exchanges"}
    assert all(
        t.startswith(f"{name}: {why}") and "(body stored as" in t for name, t in collector.failed.items()
    )
    ledger = archive.requests()
    refused = ledger[(ledger["exchange"] == "hyperliquid") & (ledger["table"] == "funding_history")]
    assert refused["error"].str.startswith(f"hyperliquid funding_history: {why}").all()
    assert not refused["answered"].any()


def test_exception_in_an_adapter_fails_only_its_venue_and_is_named(
    make_collector, archive, clock, monkeypatch
) -> None:
    collector = make_collector("okx", "bybit")

    def wrong(*_: object) -> None:
        raise KeyError("fundingRate")

    monkeypatch.setattr(collector._states["bybit"], "_tabulate", wrong)
    collector.once()
    assert set(_rows(archive, "funding_history").index.get_level_values("exchange")) == {"okx"}
    assert collector.failed["bybit funding_history"] == "KeyError('fundingRate')"
    monkeypatch.undo()
    clock.wait(60)
    collector.once()
    assert "bybit" in _rows(archive, "funding_history").index.get_level_values("exchange")


def test_venue_is_polled_again_if_an_interrupt_loses_its_poll(
    make_collector, archive, clock, monkeypatch
) -> None:
    collector = make_collector("okx", names=["funding_history"])
    receive = clock.receive

    def interrupt(source, seconds):
        receive(source, seconds)
        raise KeyboardInterrupt

    monkeypatch.setattr(clock, "receive", interrupt)
    with pytest.raises(KeyboardInterrupt):
        collector.once()
    monkeypatch.setattr(clock, "receive", receive)
    collector._threads["okx"].join()
    clock.wait(60)
    assert collector.once()["funding_history"] > 0


def test_hanging_poll_is_recorded_as_unanswered_after_ten_minutes(
    make_collector, archive, clock, monkeypatch
) -> None:
    """Otherwise a venue whose thread hangs would look like one that is no longer collected."""
    collector, began = make_collector("okx", names=["funding_history"]), clock.utc()
    monkeypatch.setattr(clock, "receive", lambda source, seconds: None)
    release = threading.Event()
    monkeypatch.setattr(collector, "_poll", lambda name: release.wait(60))
    for _ in range(120):
        collector._minute(deadline=50)
        clock.wait(60)
    release.set()
    ledger = archive.requests()
    assert ledger["error"].tolist() == [
        f"okx: the poll that started at {began:%Y-%m-%d %H:%M} is still running"
    ]
    assert ledger["start"].tolist() == [began.floor("min") + pd.Timedelta(10, "min")]
    assert late(archive, clock.utc(), pd.Timedelta(10, "min")) == ["okx funding_history"]


def test_rows_without_a_venue_time_get_the_arrival_time(make_collector, archive, fakes, clock) -> None:
    fakes.delays["hyperliquid/info"] = 7.0
    began = clock.utc()
    make_collector("hyperliquid").once()
    sent = [at for _, _, params, at in fakes.log if params["type"] == "metaAndAssetCtxs"]
    assert sent[0] >= began + pd.Timedelta(14, "s"), "the list took seven seconds, and so does this"
    assert set(_rows(archive, "funding_history")["time"]) == {sent[0]}
    assert set(_rows(archive, "oi_history")["time"]) == {sent[0]}


def test_failed_contract_list_keeps_the_older_one_and_is_requested_again(
    make_collector, archive, fakes, clock
) -> None:
    collector = make_collector("okx", names=["funding_history"])
    collector.once()
    clock.wait(3600)
    fakes.faults["okx"] = ["page"]
    collector.once()
    assert set(collector.failed) == {"okx /api/v5/public/instruments?instType=SWAP"}
    clock.wait(60)
    collector.once()
    assert collector.failed == {}
    assert len(_rows(archive, "funding_history")) == 3 * 2


def test_failed_five_minute_request_retries_briefly_then_waits_five_minutes(
    make_collector, archive, fakes, clock
) -> None:
    names = ["funding_history", "prices_history"]
    collector = make_collector("binance", names=names)
    fakes.refusals["binance/fapi/v1/ticker/24hr"] = (503, {}, {"message": "busy"})
    began = clock.utc()
    collector.once()
    assert clock.utc() - began < pd.Timedelta(40, "s"), "20 s of waiting, and the pace of the budget"
    places = [place for _, place, _, _ in fakes.log]
    requests = places.count("/fapi/v1/ticker/24hr")
    assert 2 <= requests <= 5, "after 1, 2, 4 and 8 s"
    clock.wait(60)
    collector.once()
    places = [place for _, place, _, _ in fakes.log]
    assert places.count("/fapi/v1/ticker/24hr") == requests, "not again after one minute"
    assert len(_rows(archive, "funding_history")) == 2 * 2


def test_older_response_supplies_volume_but_not_price(make_collector, archive, fakes, clock) -> None:
    collector = make_collector("binance")
    collector.once()
    clock.wait(60)
    collector.once()  # the 24 hours are requested every 5 minutes only
    market = _rows(archive, "markets_symbol_exchanges").loc[("binance", "BTC")]
    assert market["volume_24h_usd"].tolist() == [100_000, 100_000]
    kinds = _rows(archive, "prices_history").loc[("binance", "BTC")]["kind"]
    assert kinds.value_counts().to_dict() == {"mark": 2, "index": 2, "last": 1}
    requests = [place for _, place, _, _ in fakes.log]
    assert requests.count("/fapi/v1/premiumIndex") == 2
    assert requests.count("/fapi/v1/ticker/24hr") == 1


def test_poll_of_all_venues_equals_the_truth_without_inverse_and_delisted_contracts(
    make_collector, archive, fakes
) -> None:
    """Inverse and delisted contracts are next to forty others, the last without the optional fields."""
    fakes.symbols, fakes.extras = (*SYMBOLS, *(f"C{number:02}" for number in range(38))), True
    fakes.delisted = True
    tables = ["funding_history", "oi_history", "markets_symbol_exchanges", "futures_history"]
    collector = make_collector(*VENUES, names=tables, unconfirmed=True, share_seconds=None)
    collector.once()
    assert collector.failed == {}
    rates, held = (_rows(archive, table).reset_index() for table in tables[:2])
    for table in (rates, held):
        told = {str(venue): sorted(of) for venue, of in table.groupby("exchange", observed=True)["symbol"]}
        # Deribit is requested a currency, and lists the others inverse, too
        of_futures = [venue for venue in VENUES if venue != "coinbase"]
        assert told == {v: sorted(SYMBOLS if v == "deribit" else fakes.symbols) for v in of_futures}
    expected = [RUNNING_BPS[venue] for venue in rates["exchange"]]
    assert rates["rate_bps_8h"].tolist() == pytest.approx(expected)
    seconds = held["time"].map(lambda at: int(at.timestamp()))
    truth = [fakes.truth.oi_at(s, at) for s, at in zip(held["symbol"], seconds, strict=True)]
    assert held["oi_usd"].tolist() == pytest.approx([coins * mark for _, coins, mark in truth])
    market = _rows(archive, "markets_symbol_exchanges").reset_index()
    assert set(market["exchange"]) == {*of_futures}
    assert set(market["symbol"]) == set(fakes.symbols)
    dated = _rows(archive, "futures_history").reset_index()
    assert dated["exchange"].tolist() == ["binance", "bybit", "deribit", "kraken", "okx"]
    assert set(dated["expiry"]) == {pd.Timestamp("2026-03-27T08:00Z")}
    figures = dated[["price_usd", "index_price_usd", "oi_usd"]]
    assert (figures == [50_600.0, 50_000.0, 7 * 50_600.0]).all(axis=None)


def test_coin_margined_bitget_contract_is_requested_as_coin_margined(
    make_collector, fill, archive, fakes, monkeypatch
) -> None:
    monkeypatch.setattr(state_bodies, "BITGET_OTHERS", ("BTC", "XYZ"))
    collector = make_collector("bitget", names=["funding_history"])
    collector.once()
    assert collector.failed == {}
    rates = _rows(archive, "funding_history").reset_index()
    assert rates.set_index("symbol")["rate_bps_8h"].round(9).to_dict() == {"BTC": 2.0, "ETH": 2.0, "XYZ": 2.0}
    yesterday = DAY - pd.Timedelta(1, "D")
    done = fill("funding_settlements", "bitget", symbols=["BTC", "XYZ"], start=yesterday, end=DAY)
    assert done.failed == []
    requests = {
        (p["symbol"], p["productType"]) for _, at, p, _ in fakes.log if at.endswith("/history-fund-rate")
    }
    assert requests == {("BTCUSDT", "USDT-FUTURES"), ("XYZUSD", "COIN-FUTURES")}, "USD before USDC"


def test_contract_of_another_market_does_not_replace_a_failed_one(
    make_collector, archive, fakes, clock
) -> None:
    """The coin-margined contract of the fakes pays 9 bps, the USDT contract 1."""
    collector = make_collector("binance", names=["funding_history"])
    collector.once()
    fakes.refusals["binance/fapi/v1/premiumIndex"] = DOWN
    clock.wait(60)
    collector.once()
    rows = archive.read("funding_history", DAY, DAY + pd.Timedelta(1, "D"))
    assert rows["rate_bps_8h"].round(9).tolist() == [1.0, 1.0]
    assert "maintenance" in collector.failed["binance /fapi/v1/premiumIndex"]


def test_geoblocked_host_is_skipped_but_its_venue_is_still_polled(
    make_collector, archive, fakes, clock
) -> None:
    fakes.refusals["binance/eapi/"] = (451, {}, {"code": 0, "msg": "restricted location"})
    collector = make_collector("binance", share_seconds=None)
    for _ in range(2):
        collector.once()
        clock.wait(300)
    assert collector.gone == {}
    assert set(archive.symbols("funding_history")) == set(archive.symbols("oi_history")) == {"BTC", "ETH"}
    assert "restricted location" in collector.failed["binance options_snapshot"]
    assert sum(place.startswith("/eapi") for _, place, *_ in fakes.log) == 1, "not asked again"
    fakes.refusals.clear()
    clock.wait((clock.utc().ceil("h") - clock.utc()).total_seconds())
    collector.once()
    assert "binance options_snapshot" not in collector.failed, "but with the next hour"


def test_failed_contract_list_is_requested_again_and_the_others_are_used(
    make_collector, archive, fakes, clock
) -> None:
    busy = {"retCode": 10016, "retMsg": "busy", "result": {}, "time": 1}
    fakes.altered["instruments-info"] = lambda params, body: busy if params["category"] == "inverse" else body
    collector = make_collector("bybit")
    collector.once()
    assert set(archive.symbols("funding_history")) == {"BTC", "ETH"}
    listing = "bybit /v5/market/instruments-info?category=inverse"
    assert "10016" in collector.failed[listing] or "busy" in collector.failed[listing]
    fakes.altered.clear()
    clock.wait(60)
    collector.once()
    assert collector.failed == {}


def test_missing_intervals_are_not_replaced_by_a_default(
    make_collector: Any, archive: Archive, fakes: Fakes
) -> None:
    """Where fundingInfo is missing, an adjusted contract must not pass for one of 8 hours."""
    fakes.refusals["binance/fapi/v1/fundingInfo"] = DOWN
    collector = make_collector("binance", names=["funding_history"])
    collector.once()
    assert "funding_history" not in archive.tables()
    assert "binance /fapi/v1/fundingInfo" in collector.failed


def test_only_endpoints_of_the_chosen_tables_are_requested(make_collector: Any, fakes: Fakes) -> None:
    make_collector("binance", names=["funding_history"]).once()
    requests = {place.rpartition("/")[2] for _, place, *_ in fakes.log}
    assert requests == {"exchangeInfo", "fundingInfo", "premiumIndex"}
    fakes.log.clear()
    make_collector("binance", names=["options_snapshot"]).once()
    others = {place for _, place, *_ in fakes.log if "/eapi/" not in place}
    assert others == {"/fapi/v1/exchangeInfo", "/dapi/v1/exchangeInfo"}


def test_notice_names_the_request_without_a_response(archive, fakes, clock) -> None:
    fakes.refusals["binance/dapi/v1/premiumIndex"] = DOWN
    store = ReadThrough(archive, venues=["binance"], clock=clock, addresses=fakes.addresses)
    store.refresh()
    messages = [text for text in store.take_notices() if "dapi" in text]
    store.close()
    assert len(messages) == 1
    assert messages[0].startswith("binance: response to /dapi/v1/premiumIndex is missing: ")


def test_removed_field_leaves_its_column_empty_and_is_reported_once_a_day(
    make_collector, archive, fakes, clock
) -> None:
    """Next to a row that contradicts itself, which is named each time."""
    fakes.symbols = ("BTC", "ETH", "SOL")
    collector, said = make_collector("bybit", names=["markets_symbol_exchanges"]), list[str]()
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
    assert all(why.startswith("1 row omitted: ") for why in said)
    ledger = archive.requests()
    failed = ledger[~ledger["answered"]]
    assert set(failed["symbol"]) == {"/v5/market/tickers?category=linear"}
    assert failed["error"].str.startswith("1 row omitted: ").all()
    gone = "; the response no longer has change_pct: these columns are empty"
    assert [why.endswith(gone) for why in said] == [True, False, False]
    rows = archive.read("markets_symbol_exchanges", clock.utc() - pd.Timedelta(1, "min"))
    assert rows["price_24h_change_pct"].isna().all()
    assert rows["volume_24h_usd"].notna().all()


def test_open_interest_that_jumps_by_a_unit_is_omitted_and_other_rows_are_written(
    make_collector, archive, fakes, clock
) -> None:
    names = [f"C{number}" for number in range(6)]
    coins = {"factor": 1}

    def answered(exchange: str, place: str, params: dict[str, Any]) -> tuple[int, Any]:
        universe = {"universe": [{"name": name, "szDecimals": 3} for name in names]}
        figures = {"funding": "0.0000125", "openInterest": str(3 * coins["factor"]), "markPx": "100",
                   "oraclePx": "100", "midPx": "100", "prevDayPx": "100", "dayNtlVlm": "9"}  # fmt: skip
        return 200, universe if params["type"] == "meta" else [universe, [figures] * len(names)]

    fakes._body = answered  # type: ignore[method-assign]
    collector = make_collector("hyperliquid")
    for number, factor in enumerate((1, 1000, 1, 1000)):
        if number == 3:
            collector = make_collector("hyperliquid")  # a restart forgets nothing
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
        "the values are accepted, because the venue has sent them for an hour"
        in collector.failed["hyperliquid figures"]
    )
    assert (
        archive.read("oi_history", clock.utc() - pd.Timedelta(1, "min"))["oi_usd"].tolist() == [300_000.0] * 6
    )


def test_contract_delisted_within_the_hour_ends_with_its_last_row(
    make_collector, archive, fakes, clock
) -> None:
    """The venue still serves the contract's last minute; the others change, so the list is requested."""
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
    collector = make_collector("binance", names=["funding_history"])
    for number in range(6):
        minute["now"] = number
        collector.once()
        clock.wait(60)
    rows = archive.read("funding_history", DAY, DAY + pd.Timedelta(1, "D"))
    assert rows.groupby("symbol", observed=True).size().to_dict() == {"C0": 3, "C1": 6, "C2": 6, "C3": 6}
    lists = [place for _, place, *_ in fakes.log if place.endswith("/fapi/v1/exchangeInfo")]
    assert len(lists) == 2, "at the start, and where one stood still"


def _rates_of_cryptocom(fakes: Fakes, lost: set[str]) -> list[tuple[str, pd.Timestamp]]:
    """Fail the hourly rates of some contracts, one request each, and return the requests with their times."""
    asked: list[tuple[str, pd.Timestamp]] = []

    def refusing(params: dict[str, Any], body: Any) -> Any:
        asked.append((params["instrument_name"][:3], fakes.now().floor("min")))
        refused = {"code": 10001, "message": f"SYS_ERROR of {params['instrument_name']}"}
        return (400, refused) if asked[-1][0] in lost else body

    fakes.altered["/public/get-valuations"] = refusing
    return asked


def test_an_hourly_request_that_no_contract_answered_failed_and_is_requested_again_in_five_minutes(
    make_collector, archive, fakes, clock
) -> None:
    lost = {"BTC", "ETH"}
    _rates_of_cryptocom(fakes, lost)
    collector = make_collector("cryptocom", names=["funding_history"])
    collector.once()
    assert "SYS_ERROR of BTC" in collector.failed["cryptocom funding_history"]
    assert archive.requests()["answered"].tolist() == [False]
    lost.clear()
    clock.wait(300)
    collector.once()
    assert collector.failed == {}
    assert set(archive.symbols("funding_history")) == {"BTC", "ETH"}


def test_only_failed_contracts_of_an_hourly_request_are_requested_again(
    make_collector, archive, fakes, clock
) -> None:
    """BTC fails in the polls at 0 and 5 minutes, and has a response at 10 minutes."""
    failing = {"BTC"}
    requests = _rates_of_cryptocom(fakes, failing)
    collector = make_collector("cryptocom", names=["funding_history"])
    label = "/public/get-valuations?valuation_type=funding_rate"
    errors = []
    for number in range(4):
        if number == 2:
            failing.clear()
        collector.once()
        errors.append(collector.failed.get(f"cryptocom {label}", "").partition(":")[0])
        clock.wait(300)
    first = requests[0][1]
    minutes = [(symbol, (at - first) // pd.Timedelta(1, "min")) for symbol, at in requests]
    assert minutes == [("BTC", 0), ("ETH", 0), ("BTC", 5), ("BTC", 10)]
    assert errors == ["1 of 2 requests failed", "1 of 1 requests failed", "", ""]
    rows = archive.read("funding_history", DAY, DAY + pd.Timedelta(1, "D")).sort_values("time")
    assert rows["symbol"].tolist() == ["ETH", "BTC"], "one row of each, at its own minute"
    assert rows["time"].iloc[1] - rows["time"].iloc[0] > pd.Timedelta(1, "min")
    ledger = archive.requests()
    of_request = ledger[ledger["symbol"] == label]
    assert len(of_request)
    assert not of_request["answered"].any()
    start = first.floor("min")
    hour = (start, start + pd.Timedelta(1, "h"))
    assert archive.unanswered("funding_history", "cryptocom", "ETH", *hour) == []
    [gap] = archive.unanswered("funding_history", "cryptocom", "BTC", *hour)
    assert gap == (start, start + pd.Timedelta(10, "min")), "until its first response"
