"""Liquidation orders: columns read some orders at a time equal rows read one at a time from plain JSON."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import derivdata as dd
from derivdata.errors import SchemaError
from derivdata.tables.endpoints import Request
from tests.test_fetch_funding import answering
from tests.test_fetch_validation import answering as answered_by

OPTIONAL = ("price", "avg_price", "quantity", "filled_quantity", "status", "fill_count")
COLUMNS = {
    "time": "timestamp", "exchange": "exchange", "order_id": "oid", "symbol": "symbol", "side": "side",
    "value_usd": "usd_value", "order_price_usd": "price", "fill_price_usd": "avg_price",
    "quantity": "quantity", "filled_quantity": "filled_quantity", "status": "status",
    "fill_count": "fill_count",
}  # fmt: skip


def order(number: int, **fields: Any) -> dict[str, Any]:
    """The order of a number, a second after the one before."""
    stamp = pd.Timestamp("2026-01-01") + pd.Timedelta(number, "s")
    made = {"timestamp": f"{stamp.isoformat()}Z", "exchange": "okx", "symbol": "BTC", "side": "long"}
    return {**made, "oid": f"o{number}", "usd_value": 1.5 * number, **fields}


def one_by_one(events: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The slow reference: the rows in order of time, venue and order id."""
    rows = []
    for event in events:
        row = {column: event.get(wire) for column, wire in COLUMNS.items()}
        row |= {"time": pd.Timestamp(event["timestamp"]), "order_id": str(event["oid"])}
        rows.append(tuple(row.values()))
    return sorted(rows, key=lambda row: row[:3])


def rows_of(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    plain = frame[list(COLUMNS)].astype(object).where(frame[list(COLUMNS)].notna(), None)
    return list(plain.itertuples(index=False, name=None))


FIELDS = st.fixed_dictionaries(
    {
        "timestamp": st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-01T00:00:01.250Z"]),
        "exchange": st.sampled_from(["okx", "zo", "binance"]),
        "symbol": st.sampled_from(["BTC", "é"]),
        "side": st.sampled_from(["long", "short"]),
    },
    optional={
        "price": st.one_of(st.none(), st.floats(0, 1e8)),
        "avg_price": st.integers(0, 10**6),
        "quantity": st.floats(0, 1e9),
        "filled_quantity": st.none(),
        "status": st.sampled_from(["filled", "open", None]),
        "fill_count": st.one_of(st.none(), st.integers(0, 9)),
    },
)


@pytest.mark.filterwarnings("ignore::derivdata.errors.DataNotice")  # figures that do not agree
@given(st.lists(st.tuples(FIELDS, st.booleans()), max_size=6))
def test_orders_equal_a_loop_over_rows(made: list[tuple[dict[str, Any], bool]]) -> None:
    events = [order(n, **fields, oid=n if number else f"o{n}") for n, (fields, number) in enumerate(made)]
    with answering({"events": events, "count": len(events)}):
        assert rows_of(dd.liquidations.events()) == one_by_one(events)


def test_long_lists_lose_no_row_at_batch_boundaries() -> None:
    """1,200 orders, the last ones of each batch of 512 with a number for an id or without a price."""
    events = [order(n, **({"oid": n} if n % 512 == 511 else {"price": 2.0 * n})) for n in range(1200)]
    with answering({"events": events[::-1], "count": len(events)}):
        frame = dd.liquidations.events(limit=5000)
    assert rows_of(frame) == one_by_one(events)
    assert frame["order_price_usd"].isna().sum() == 2
    assert frame["fill_price_usd"].isna().all()


def test_invalid_order_is_named_by_its_index() -> None:
    events = [order(n) for n in range(700)]
    events[600]["usd_value"] = "much"
    with (
        answering({"events": events, "count": len(events)}),
        pytest.raises(SchemaError, match=r"got `str` - at `\$\.events\[512:700\]\[88\]\.usd_value`"),
    ):
        dd.liquidations.events(limit=5000)


SUMS = {
    "BTC": {"okx": 1.0, "bybit": 3.0},
    "ETH": {"okx": 2.0, "bybit": 6.0},
    None: {"okx": 10.0, "gateio": 5.0},
}
"""Longs [USD] of one hour, by symbol and venue; None is the sum of all symbols."""


def sums_of(request: Request) -> tuple[int, Any]:
    symbol = dict(request.query).get("symbol")
    venues = {venue: {"long_usd": usd, "short_usd": None} for venue, usd in SUMS[symbol].items()}
    row = {"date": "2026-06-01T05:00:00Z", "exchanges": venues}
    return 200, {"unit": "usd", "resolution": "1h", "data": [row]}


@pytest.mark.filterwarnings("ignore::derivdata.errors.DataNotice")
def test_sums_of_symbols_have_a_row_for_each_symbol_and_venue() -> None:
    with answered_by(sums_of):
        both = dd.liquidations.history(["BTC", "ETH"], "2026-06-01", "2026-06-02", venues=["okx", "bybit"])
        every = dd.liquidations.history(None, "2026-06-01", "2026-06-02", venues="okx")
    rows = list(zip(both["symbol"], both["exchange"], both["long_usd"], strict=True))
    assert rows == [("BTC", "bybit", 3.0), ("BTC", "okx", 1.0), ("ETH", "bybit", 6.0), ("ETH", "okx", 2.0)]
    assert list(zip(every["symbol"], every["exchange"], every["long_usd"], strict=True)) == [
        ("all", "okx", 10.0)
    ]
