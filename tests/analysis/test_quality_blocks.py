"""A table is examined in blocks of series and of time: the report does not depend on where it is cut."""

import numpy as np
import pandas as pd
import pytest

from derivdata.analysis.quality import peers, points, quality


def _faulty_table() -> pd.DataFrame:
    """Six symbols on five venues: duplicates, rows of another symbol, a floor, gaps, missing keys."""
    rng = np.random.default_rng(7)
    times = pd.date_range("2026-01-01", periods=240, freq="h", tz="UTC", unit="us")
    parts = []
    for symbol in "FBDACE":
        for venue in "vwxyz":
            rate = np.where(rng.random(240) < 0.3, 1.0, rng.normal(size=240).round(3))
            row = {"symbol": symbol, "exchange": venue, "time": times, "rate_bps_8h": rate}
            parts.append(pd.DataFrame(row))
    table = pd.concat(parts, ignore_index=True)
    of_a = (table["symbol"] == "A") & (table["exchange"] == "w")
    of_b = (table["symbol"] == "B") & (table["exchange"] == "w")
    copied = np.flatnonzero(of_a)[100:130]
    table.loc[copied, "rate_bps_8h"] = table.loc[np.flatnonzero(of_b)[100:130], "rate_bps_8h"].to_numpy()
    table = table.drop(index=np.flatnonzero(of_b)[20:25])
    table = pd.concat([table, table.iloc[300:320], table.iloc[[50]].assign(rate_bps_8h=9.0)])
    table.loc[table.index[::500], "symbol"] = None
    return table.reset_index(drop=True)


@pytest.mark.parametrize("order", ["series", "time", "shuffled"])
@pytest.mark.parametrize("columns", ["text", "categories", "settlements"])
def test_the_report_does_not_depend_on_the_blocks(
    order: str, columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _faulty_table()
    if columns == "categories":
        table = table.astype({"symbol": "category", "exchange": "category"})
    if columns == "settlements":
        table = table.assign(interval_hours=1.0, kind="settled")
    if order == "time":
        table = table.sort_values("time", kind="stable").reset_index(drop=True)
    if order == "shuffled":
        table = table.sample(frac=1.0, random_state=1).reset_index(drop=True)
    whole = quality(table)
    assert whole["other_symbol"].max() >= 20
    for module in (points, peers):
        monkeypatch.setattr(module, "_BLOCK_ROWS", 100)
        monkeypatch.setattr(module, "_MAX_BLOCKS", 1_000)
    monkeypatch.setattr(points, "_CHUNK", 77)
    monkeypatch.setattr(peers, "_MAX_COUNTED", 10)
    pd.testing.assert_frame_equal(quality(table), whole)


def test_series_are_numbered_as_pandas_groups_them() -> None:
    rng = np.random.default_rng(2)
    size = 5_000
    table = pd.DataFrame(
        {
            "symbol": pd.Categorical.from_codes(rng.integers(-1, 6, size), list("zyxabc")),
            "exchange": rng.choice(["v", "w", None], size),
            "instrument_name": rng.choice([f"I{i}" for i in range(3_000)], size),
        }
    )
    for keys in (["symbol"], ["symbol", "exchange"], ["symbol", "exchange", "instrument_name"]):
        expected = table.groupby(keys, observed=True, sort=True).ngroup().fillna(-1).astype(int)
        series, first = points.numbered_series(table, keys)
        assert series.tolist() == expected.tolist()
        assert first.tolist() == [int(expected.eq(n).idxmax()) for n in range(expected.max() + 1)]


def test_many_combinations_of_keys_are_numbered_too(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"symbol": rng.choice(list("abc"), 400), "exchange": rng.choice(["v", None], 400)})
    expected = table.groupby(["symbol", "exchange"]).ngroup().fillna(-1).astype(int)
    monkeypatch.setattr(points, "_MAX_COMBINATIONS", 2)
    assert points.numbered_series(table, ["symbol", "exchange"])[0].tolist() == expected.tolist()


def test_blocks_hold_whole_symbols_and_every_row_once() -> None:
    series = np.array([3, 0, 1, -1, 2, 4, 0, 3, 2], dtype=np.int16)
    groups = np.array([0, 0, 1, 1, 2])
    result = list(points.blocks(series, groups))
    assert [(block.first, block.number) for block in result] == [(0, 5)]
    assert result[0].rows.tolist() == [0, 1, 2, 4, 5, 6, 7, 8]


def test_blocks_end_with_a_symbol(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(points, "_BLOCK_ROWS", 4)
    series = np.array([3, 0, 1, -1, 2, 4, 0, 3, 2], dtype=np.int16)
    result = list(points.blocks(series, np.array([0, 0, 1, 1, 2])))
    assert [block.rows.tolist() for block in result] == [[1, 2, 6], [0, 4, 7, 8], [5]]


@pytest.mark.parametrize("steps", [1, 100, 500])
def test_products_in_blocks_equal_the_full_product(steps: int) -> None:
    first, second = np.random.default_rng(5).integers(-9, 9, (2, 43, steps)).astype(float)
    np.testing.assert_array_equal(peers._products(first, second), np.einsum("at,bt->ab", first, second))
