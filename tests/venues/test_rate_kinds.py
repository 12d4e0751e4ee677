"""Settled, next and predicted funding rates are separate, each with its settlement."""

import json
from typing import Any

import pandas as pd
import pytest

import derivdata as dd
from derivdata.errors import DataNotice
from derivdata.sources import venues


def at(text: str) -> pd.Timestamp:
    return pd.Timestamp(text, tz="UTC").as_unit("us")


def rates(venue: str, request: str, body: Any, when: str | None = None) -> pd.DataFrame:
    return venues.read(venue, request, json.dumps(body), at=when)["funding_rates"]


def rows(frame: pd.DataFrame) -> dict[str, tuple[float, float, pd.Timestamp]]:
    """Return the rates [bps/8h and of the interval] and the settlement by venue and kind."""
    return {
        f"{row.exchange} {row.rate_kind}": (
            round(row.rate_bps_8h, 6),
            round(row.rate_native, 9),
            row.settlement_time,
        )
        for row in frame.itertuples()
    }


# Two rows of a body that was recorded on 2026-09-03.
BINANCE = {"fundingRate": "0.00009858", "nextFundingTime": 1788480000000, "fundingIntervalHours": 8}
OWN = {"fundingRate": "0.0012026746", "nextFundingTime": 1788458400000, "fundingIntervalHours": 1}
PREDICTED = [["BTC", [["BinPerp", BINANCE], ["HlPerp", OWN], ["BybitPerp", None]]]]


def test_prediction_of_hyperliquid_belongs_to_the_named_venue() -> None:
    result = rates("hyperliquid", "/info predictedFundings", PREDICTED, "2026-09-03T17:30Z")
    assert rows(result) == {
        "binance predicted": (0.9858, 0.00009858, at("2026-09-04T00:00")),
        "hyperliquid predicted": (96.213968, 0.001202675, at("2026-09-03T18:00")),
    }
    assert result["time"].tolist() == [at("2026-09-03T17:30")] * 2
    assert result["interval_hours"].tolist() == [8.0, 1.0]


def test_settlement_in_the_past_is_omitted() -> None:
    """The venue's own is then the next whole hour; of another venue it is not known."""
    result = rates("hyperliquid", "/info predictedFundings", PREDICTED, "2026-09-04T00:00Z")
    assert result.set_index("exchange")["settlement_time"]["hyperliquid"] == at("2026-09-04T01:00")
    assert result.set_index("exchange")["settlement_time"].isna()["binance"]


def test_a_prediction_without_an_interval_is_of_an_hour_on_the_venue_itself() -> None:
    """The body has the shape of the venue's documentation of 2024: 0.00125 % an hour are 1 bp per 8 hours."""
    own = {"fundingRate": "0.0000125", "nextFundingTime": 1788458400000}
    other = {"fundingRate": "0.0001", "nextFundingTime": 1788480000000}
    body = [["BTC", [["BinPerp", other], ["HlPerp", own]]]]
    with pytest.warns(DataNotice, match="the interval of the rate of BinPerp is not stated"):
        result = rates("hyperliquid", "/info predictedFundings", body, "2026-09-03T17:30Z")
    assert rows(result) == {"hyperliquid predicted": (1.0, 0.0000125, at("2026-09-03T18:00"))}
    assert result["interval_hours"].tolist() == [1.0]


def test_an_unknown_venue_is_omitted_with_a_notice() -> None:
    body = [["BTC", [["BinPerp", BINANCE], ["HlPerp", OWN], ["NewPerp", BINANCE]]]]
    with pytest.warns(DataNotice, match="NewPerp is not a known venue"):
        result = rates("hyperliquid", "/info predictedFundings", body, "2026-09-03T17:30Z")
    assert len(result) == 2


def test_okx_states_the_last_the_next_and_the_rate_after_it() -> None:
    """The row is of a body of 2026-09; `nextFundingRate` has a value in bodies of 2023."""
    row = {
        "fundingRate": "0.0000593556502673", "fundingTime": "1789171200000", "instId": "BTC-USDT-SWAP",
        "instType": "SWAP", "method": "current_period", "nextFundingRate": "",
        "nextFundingTime": "1789200000000", "prevFundingTime": "1789142400000",
        "settFundingRate": "0.0000599316422609", "settState": "settled", "ts": "1789147104593",
    }  # fmt: skip
    request = "/api/v5/public/funding-rate?instId=BTC-USDT-SWAP"
    known = {
        "okx next": (0.593557, 0.000059356, at("2026-09-12T00:00")),
        "okx settled": (0.599316, 0.000059932, at("2026-09-11T16:00")),
    }
    assert rows(rates("okx", request, {"code": "0", "data": [row]})) == known
    later = row | {"nextFundingRate": "0.0001"}
    predicted = {"okx predicted": (1.0, 0.0001, at("2026-09-12T08:00"))}
    assert rows(rates("okx", request, {"code": "0", "data": [later]})) == known | predicted
    processing = row | {"settState": "processing"}  # the rate is then of the settlement under way
    assert [*rows(rates("okx", request, {"code": "0", "data": [processing]}))] == ["okx next"]


def test_kucoin_states_the_next_and_a_prediction_without_its_settlement() -> None:
    """Figures of a body of 2025-05-28."""
    row = {
        "symbol": ".XBTUSDTMFPI8H", "granularity": 28800000, "timePoint": 1748462400000, "value": 6.1e-05,
        "predictedValue": 0.000109, "fundingTime": 1748491200000,
    }  # fmt: skip
    result = rates(
        "kucoin",
        "/api/v1/funding-rate/XBTUSDTM/current",
        {"code": "200000", "data": row},
        "2025-05-28T21:00Z",
    )
    assert rows(result)["kucoin next"] == (0.61, 0.000061, at("2025-05-29T04:00"))
    assert rows(result)["kucoin predicted"][:2] == (1.09, 0.000109)
    assert result["settlement_time"].isna().tolist() == [False, True]


def test_huobi_states_the_next_and_its_estimate_of_the_one_after() -> None:
    """A row of a body of 2020-10-28."""
    row = {
        "estimated_rate": "0.000100000000000000", "funding_rate": "-0.000362360011416593",
        "contract_code": "BTC-USD", "funding_time": "1603872000000", "next_funding_time": "1603900800000",
    }  # fmt: skip
    body = {"status": "ok", "data": row, "ts": 1603866304635}
    result = rates("huobi", "/swap-api/v1/swap_batch_funding_rate?contract_code=BTC-USD", body)
    assert rows(result) == {
        "huobi predicted": (1.0, 0.0001, at("2020-10-28T16:00")),
        "huobi next": (-3.6236, -0.00036236, at("2020-10-28T08:00")),
    }


def test_a_running_rate_with_its_settlement_is_the_next() -> None:
    """Binance: a rate of 2 bps that is paid every 4 hours."""
    row = {
        "symbol": "BTCUSDT", "markPrice": "50000", "indexPrice": "50000", "lastFundingRate": "0.0002",
        "nextFundingTime": 1788480000000, "time": 1788465600000, "interestRate": "0.0001",
    }  # fmt: skip
    body = json.dumps([row])
    context = {"interval_hours": 4.0}
    result = venues.read("binance", "/fapi/v1/premiumIndex", body, context=context)["funding_rates"]
    assert rows(result) == {"binance next": (4.0, 0.0002, at("2026-09-04T00:00"))}


def test_kinds_are_never_mixed_in_one_panel() -> None:
    result = rates("hyperliquid", "/info predictedFundings", PREDICTED, "2026-09-03T17:30Z")
    later = result.assign(rate_kind="settled", time=at("2026-09-03T18:00"))
    both = pd.concat([result.astype({"rate_kind": "str"}), later], ignore_index=True)
    with pytest.raises(
        ValueError, match="the table mixes predicted and settled: keep the rows of one rate_kind"
    ):
        dd.panel(both, "rate_bps_8h")
    panel = dd.panel(both[both["rate_kind"] == "predicted"], "rate_bps_8h")
    assert panel.sizes == {"symbol": 1, "exchange": 2, "time": 1}
    assert panel.attrs["rate_kind"] == "predicted"
