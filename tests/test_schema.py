"""Tables are built and checked in one place: casts, order, keys, and errors that name table and field."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from derivdata import tables
from derivdata.errors import SchemaError
from derivdata.tables.schema import arrangement, floats
from tests.support.records import attrs_of
from tests.support.rows import rows

TWO = {
    "symbol": ["ETH", "BTC"],
    "exchange": ["okx", "okx"],
    "timestamp": ["2026-01-01T00:00:00Z", "2026-01-01 00:00:00"],
    "y": [1, 2.5],
    "resolution": ["1h", "1h"],
    "kind": ["sampled", "sampled"],
}
HISTORY = tables.TABLES["funding_history"]


def test_build_renames_casts_orders_and_sorts() -> None:
    frame = HISTORY.build(TWO | {"something_new": ["x", "y"]})
    assert list(frame.columns) == ["symbol", "exchange", "time", "rate_bps_8h", "resolution", "kind"]
    assert frame["symbol"].tolist() == ["BTC", "ETH"]
    assert frame["rate_bps_8h"].tolist() == [2.5, 1.0]
    assert frame["time"].tolist() == [pd.Timestamp("2026-01-01", tz="UTC")] * 2
    assert frame.dtypes.astype(str).tolist() == [
        "category", "category", "datetime64[us, UTC]", "float64", "category", "category",
    ]  # fmt: skip


def test_empty_tables_have_every_column_and_conform() -> None:
    for name, table in tables.TABLES.items():
        frame = table.empty()
        assert (table.name, len(frame)) == (name, 0)
        assert list(frame.columns) == list(table.columns)
        pd.testing.assert_frame_equal(table.conform(frame), frame)
        frame.columns.name = "changed"
        assert table.empty().columns.name is None, "tables share no labels"
        assert set(table.key) <= set(table.columns), name
        without_default = {n for n in table.key if not table.columns[n].default}
        assert set(table.optional) <= set(table.columns) - without_default, name
        assert len(set(table.wire.values())) == len(table.wire), f"two columns of one wire name: {name}"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": None}, r"funding_history.rate_bps_8h \(wire 'y'\) is missing"),
        ({"y": ["1", "2"]}, "funding_history.rate_bps_8h is not number"),
        ({"y": [True, False]}, "funding_history.rate_bps_8h is not number"),
        ({"timestamp": ["soon", "later"]}, "funding_history.time is not time"),
        ({"timestamp": [1, 2]}, "funding_history.time is not time"),
        ({"symbol": [1, 2]}, "funding_history.symbol is not text"),
        ({"symbol": ["BTC", None]}, "symbol is part of the key but missing in 1 rows"),
        ({"symbol": ["BT\x1bC"] * 2}, r"1 rows repeat a key, the first at symbol=BT\\x1bC, exchange=okx"),
        ({"y": [1.0]}, "columns of unequal length"),
        *(
            ({"y": nested}, "rate_bps_8h is not number")
            for nested in ([[1], [2]], np.ones((2, 1)), [(1,), (2,)])
        ),
    ],
)
def test_invalid_rows_raise_a_schema_error_with_the_field(change: Any, message: str) -> None:
    columns = {k: v for k, v in (TWO | change).items() if v is not None}
    with pytest.raises(SchemaError, match=message):
        HISTORY.build(columns)


def test_duplicate_keys_raise() -> None:
    three_times = {name: list(values) * 3 for name, values in TWO.items()}
    with pytest.raises(SchemaError, match="4 rows repeat a key"):
        HISTORY.build(three_times)


def test_conform_requires_a_zone_and_converts_to_utc() -> None:
    frame = HISTORY.build(TWO)
    naive = frame.assign(time=frame["time"].dt.tz_localize(None))
    with pytest.raises(SchemaError, match="times without a zone"):
        HISTORY.conform(naive)
    tokyo = frame.assign(time=frame["time"].dt.tz_convert("Asia/Tokyo"))
    pd.testing.assert_frame_equal(HISTORY.conform(tokyo), frame)


def test_conform_keeps_the_provenance() -> None:
    frame = HISTORY.build(TWO)
    frame.attrs["provenance"] = {"source": "test"}
    assert attrs_of(HISTORY.conform(frame)) == {"provenance": {"source": "test"}}


def test_joined_columns_are_one_sorted_table() -> None:
    later = TWO | {"timestamp": ["2026-01-02T00:00:00Z"] * 2, "exchange": ["aster", "zo"]}
    frame = HISTORY.frame(HISTORY.joined([HISTORY.typed(TWO), HISTORY.typed(later)]))
    assert len(frame) == 4
    assert list(frame["exchange"].cat.categories) == ["aster", "okx", "zo"]
    assert frame["symbol"].tolist() == ["BTC", "BTC", "ETH", "ETH"]
    pd.testing.assert_frame_equal(HISTORY.frame(HISTORY.joined([])), HISTORY.empty())


SNAPSHOT = {"exchange": "okx", "timestamp": "2026-01-01 00:00:00", "kind": "sampled"}


def test_rank_that_is_not_a_number_is_missing() -> None:
    rates, ranks = [1.0, None, 2.0, 3.0], [1, "2", "500+", None]
    frame = rows("funding_snapshot", symbol=list("ABCD"), rate_bps_8h=rates, oi_rank=ranks, **SNAPSHOT)
    assert frame["oi_rank"].tolist() == [1, 2, pd.NA, pd.NA]
    assert str(frame["oi_rank"].dtype) == "Int64"
    assert np.isnan(frame["rate_bps_8h"][1])
    assert frame["interval_hours"].isna().all(), "an optional column that is absent is missing in every row"


def test_counts_and_ranks_must_be_whole_numbers() -> None:
    summary = {"time": pd.Timestamp("2026-01-01", tz="UTC"), "total_oi_usd": 1.0, "market_share": 1.0}
    summary |= {"top_symbol": "BTC", "change_24h": 0.0, "change_7d": 0.0}
    with pytest.raises(
        SchemaError, match=r"oi_exchanges\.symbol_count is not count: 1 of 1 values are not whole"
    ):
        rows("oi_exchanges", exchange=["okx"], symbol_count=1.5, **summary)
    with pytest.raises(SchemaError, match="oi_rank is not rank: 1 of 1 values are not whole"):
        rows("funding_snapshot", symbol=["A"], rate_bps_8h=1.0, oi_rank=float("inf"), **SNAPSHOT)


def _reference(made: list[tuple[str, str, str, float]]) -> tuple[list[Any], int]:
    """Rows in order of their key and how many repeat one, a row at a time."""
    keys = Counter(row[:3] for row in made)
    return sorted(made, key=lambda row: row[:3]), sum(n - 1 for n in keys.values())


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["ETH", "BTC", "sol", "é"]),
            st.sampled_from(["okx", "binance"]),
            st.sampled_from(["2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z", "2026-01-01T12:00:00Z"]),
            st.floats(-1e9, 1e9),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_build_equals_a_plain_sort_for_any_rows(made: list[tuple[str, str, str, float]]) -> None:
    names = ("symbol", "exchange", "timestamp", "y")
    columns = dict(zip(names, map(list, zip(*made, strict=True)), strict=True))
    columns |= {"resolution": ["1h"] * len(made), "kind": ["sampled"] * len(made)}
    expected, doubles = _reference(made)
    if doubles:
        with pytest.raises(SchemaError, match=f"{doubles} rows repeat a key"):
            HISTORY.build(columns)
        return
    frame = HISTORY.build(columns)
    stamps = [pd.Timestamp(t) for _, _, t, _ in expected]
    assert frame["symbol"].tolist() == [s for s, *_ in expected]
    assert frame["exchange"].tolist() == [e for _, e, *_ in expected]
    assert frame["time"].tolist() == stamps
    assert frame["rate_bps_8h"].tolist() == [y for *_, y in expected]
    assert list(frame["symbol"].cat.categories) == sorted({s for s, *_ in expected})
    assert list(frame.index) == list(range(len(made)))
    pd.testing.assert_frame_equal(HISTORY.conform(frame.sample(frac=1, random_state=1)), frame)


def test_built_table_does_not_share_data_with_its_columns() -> None:
    rates = np.array([1.0, 2.5])
    built = HISTORY.build(TWO | {"y": rates})
    built.loc[0, ["symbol", "rate_bps_8h"]] = ["ETH", 7.0]
    assert built["rate_bps_8h"].tolist() == [7.0, 1.0]
    assert rates.tolist() == [1.0, 2.5]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_conformed_table_does_not_share_data_with_its_frame(zone: str) -> None:
    frame = HISTORY.build(TWO)
    frame["time"] = frame["time"].dt.tz_convert(zone)
    before = frame.copy(deep=True)
    conformed = HISTORY.conform(frame)
    conformed.loc[0, ["symbol", "rate_bps_8h"]] = ["ETH", 7.0]
    conformed.loc[1, "time"] = pd.Timestamp("2000-01-01", tz="UTC")
    pd.testing.assert_frame_equal(frame, before)
    assert conformed["rate_bps_8h"].tolist() == [7.0, 1.0]
    assert conformed["time"][1].year == 2000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"kind": ["sampled", "predicted"]},
            "kind is not text: expected one of sampled, settled, got 'predicted'",
        ),
        ({"resolution": ["hourly", "1h"]}, "resolution is not text: expected one of raw, .*, got 'hourly'"),
        ({"y": [1.0, float("inf")]}, "funding_history.rate_bps_8h is not number: a value is infinite"),
        ({"y": np.array([1.0, -np.inf])}, "a value is infinite"),
    ],
)
def test_build_and_conform_reject_unknown_words_and_infinite_numbers(change: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        HISTORY.build(TWO | change)
    frame = HISTORY.build(TWO).astype({"kind": object, "resolution": object})
    for field, values in change.items():
        column = "rate_bps_8h" if field == "y" else field
        frame[column] = values
    with pytest.raises(SchemaError, match=message):
        HISTORY.conform(frame)


@pytest.mark.parametrize(
    "values", [[], [1.5], [1, -2.5, 10**300], [None, 2.0], [float("nan"), -0.0], [1.0, "2.5", None]]
)
def test_floats_are_parsed_like_numpy(values: list[Any]) -> None:
    result, expected = floats(values), np.array(values, dtype=np.float64)
    assert result.tobytes() == expected.tobytes()
    assert result.flags.writeable


@pytest.mark.parametrize("value", ["x", object(), 10**400])
def test_invalid_floats_raise_like_numpy(value: Any) -> None:
    with pytest.raises((ValueError, TypeError, OverflowError)) as refused:
        floats([1.0, value])
    with pytest.raises(refused.type):
        np.array([1.0, value], dtype=np.float64)


@pytest.mark.parametrize("words", [3, 400])
@pytest.mark.parametrize("kind", ["shuffled", "month after month", "sorted"])
def test_rows_are_ordered_like_a_stable_sort(words, kind):
    """Few and many groups; rows in no order, in order within stretches, and in order."""
    rng, names = np.random.default_rng(5), [f"{i:03d}" for i in range(words)]
    frame = pd.DataFrame(
        {
            "word": pd.Categorical.from_codes(rng.integers(0, words, 4000), names),
            "other": pd.Categorical.from_codes(rng.integers(0, words, 4000), names),
            "time": pd.Timestamp("2026-01-01", tz="UTC") + pd.to_timedelta(rng.integers(0, 50, 4000), "h"),
        }
    )
    by = ["word", "other", "time"]
    if kind == "month after month":
        frame = frame.sort_values(["time", "word", "other"], ignore_index=True)
    if kind == "sorted":
        frame = frame.sort_values(by, ignore_index=True)
    order, tied = arrangement([frame[name] for name in by])
    expected = frame.sort_values(by, kind="stable")
    assert (order is None) == (kind == "sorted")
    np.testing.assert_array_equal(np.arange(4000) if order is None else order, expected.index)
    np.testing.assert_array_equal(tied, (expected[by] == expected[by].shift()).all(axis=1).to_numpy()[1:])
