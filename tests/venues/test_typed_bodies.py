"""Bodies typed after the venues' documentation: damaged ones, and what more than one row tells."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest

from derivdata.errors import SchemaError, VenueError
from derivdata.sources import venues
from tests.venues.test_mutations import wrong_rows
from tests.venues.test_read import CASES, context_of

AT = pd.Timestamp("2026-10-01T12:00:00Z")
UNRECORDED = ("bingx", "phemex", "bitmex", "cryptocom", "edgex", "backpack", "coinbase")
"""Venues none of whose bodies anybody recorded for these tests."""
DAMAGED = [case for case in CASES if case["venue"] in UNRECORDED or "unrecorded" in case]
MAY_BE_EITHER = {
    "futures.public_liquidates": ("number at ('result', 0, 'price')",),
    "/contract-biz/public/real-funding-rates": ("number at ('data', 'rows', 0, 'fundingRate')",),
    "/api-data/public/data/funding-rate-history": ("number at ('data', 'rows', 0, 'fundingRate')",),
}
"""Another number of another kind, where clients have seen both kinds: nothing else tells which is right."""


@pytest.mark.parametrize("case", DAMAGED, ids=lambda case: f"{case['venue']} {case['request']}")
def test_a_damaged_body_gives_no_wrong_row(case: dict[str, Any]) -> None:
    place = case["request"].partition("?")[0]

    def read(body: bytes) -> Any:
        try:
            return venues.records(case["venue"], case["request"], body, at=AT, context=context_of(case))
        except (SchemaError, VenueError):
            return None

    wrong = wrong_rows(case["body"], read)
    assert {name: rows for name, rows in wrong.items() if name not in MAY_BE_EITHER.get(place, ())} == {}


def test_parts_of_a_chain_take_their_units() -> None:
    cases = [case for case in DAMAGED if not case["expected"]]
    (quoted,), (marked,), (open_,) = (
        venues.records(case["venue"], case["request"], json.dumps(case["body"]), at=AT).options
        for case in cases
    )
    assert quoted.quotes is not None
    assert marked.quotes is not None
    assert quoted.quotes[:3] == (True, 0.04, None)
    assert (marked.quotes.in_coin, marked.quotes.mark) == (True, 0.05)
    assert (open_.symbol, open_.open_interest, open_.strike) == ("BTC", 12.5, 50_000.0)


def _contexts(*marks_and_means: tuple[float, float]) -> str:
    """Return contexts of that many coins, which traded 10,000 coins each."""
    universe = [{"name": f"C{i}", "szDecimals": 3} for i in range(len(marks_and_means))]
    rows = [
        {"funding": "0.0000125", "openInterest": "10", "markPx": str(mark), "oraclePx": str(mark),
         "prevDayPx": str(mean), "dayNtlVlm": str(mean * 1e4), "midPx": str(mark), "dayBaseVlm": "10000"}
        for mark, mean in marks_and_means
    ]  # fmt: skip
    return json.dumps([{"universe": universe}, rows])


def test_one_crashing_coin_does_not_cost_the_others_their_rows() -> None:
    """The coin stands at less than a tenth of its mean of the day, BTC near its own."""
    request = "/info metaAndAssetCtxs"
    frames = venues.read("hyperliquid", request, _contexts((50_000.0, 50_100.0), (0.9, 10.0)), at=AT)
    assert frames["oi_history"]["oi_usd"].tolist() == [500_000.0, 9.0]
    with pytest.raises(SchemaError, match="median coin"):
        venues.read("hyperliquid", request, _contexts((50_000.0, 5e6), (2_000.0, 2e5), (0.9, 0.9)), at=AT)


@pytest.mark.parametrize(
    ("exchange", "frame"),
    [
        ("gateio", '{"event":"subscribe","error":{"code":2,"message":"unknown contract"},"result":null}'),
        ("huobi", '{"op":"sub","topic":"x","err-code":2011,"err-msg":"invalid topic"}'),
        ("lighter", '{"error":{"code":30005,"message":"invalid channel"}}'),
    ],
)
def test_a_refused_subscription_is_an_error(exchange: str, frame: str) -> None:
    with pytest.raises(VenueError, match=r"unknown contract|invalid"):
        venues.read(exchange, "any", frame)
