"""Spread and depth by band, computed by hand."""

import numpy as np
import pandas as pd
import pytest

from derivdata.analysis import depth, funding
from derivdata.sources import sample

FIRST, SECOND = (pd.Timestamp(f"2026-01-01T0{hour}:00", tz="UTC").as_unit("us") for hour in (0, 1))


def side(
    name: str, levels: list[tuple[float, float]], time: pd.Timestamp = FIRST, venue: str = "okx"
) -> pd.DataFrame:
    frame = pd.DataFrame(levels, columns=["price_usd", "size"])
    return frame.assign(
        symbol="BTC", exchange=venue, time=time, side=name, level=np.arange(1, len(levels) + 1)
    )


def made() -> pd.DataFrame:
    """Return books with mid 100: bids at 5, 10 and 30 bps, asks at 5 and 20; an hour later one a side."""
    return pd.concat(
        [
            side("bid", [(99.95, 2.0), (99.9, 1.0), (99.7, 4.0)]),
            side("ask", [(100.05, 1.0), (100.2, 3.0)]),
            side("bid", [(199.9, 1.0)], SECOND),
            side("ask", [(200.1, 2.0)], SECOND),
        ],
        ignore_index=True,
    )


def test_spread_and_depth_of_two_books() -> None:
    """The first book has bids to 30 bps and asks to 20 bps: the band of 25 bps is complete for bids only."""
    result = depth.by_band(made(), [5.0, 10.0, 25.0]).squeeze(["symbol", "exchange"])
    np.testing.assert_allclose(result["mid_usd"], [100.0, 200.0])
    np.testing.assert_allclose(result["spread_bps"], [10.0, 10.0])
    first = result.isel(time=0)
    np.testing.assert_allclose(first["visible_usd"], [[199.9, 299.8, 299.8], [100.05, 100.05, 400.65]])
    assert first["complete"].values.tolist() == [[True, True, True], [True, True, False]]
    np.testing.assert_allclose(first["depth_usd"], [[199.9, 299.8, 299.8], [100.05, 100.05, np.nan]])
    second = result.isel(time=1)
    np.testing.assert_allclose(second["visible_usd"], [[199.9] * 3, [400.2] * 3])
    assert second["complete"].values.tolist() == [[True, False, False]] * 2


def test_a_book_of_one_side_has_neither_mid_nor_depth() -> None:
    rows = made()
    rows = rows[(rows["time"] == FIRST) | (rows["side"] == "bid")]
    result = depth.by_band(rows, [5.0]).squeeze(["symbol", "exchange", "depth_bps"])
    np.testing.assert_allclose(result["mid_usd"], [100.0, np.nan])
    np.testing.assert_allclose(result["depth_usd"].isel(time=1), [np.nan, np.nan])
    assert not result["complete"].isel(time=1).any()
    bids = depth.by_band(rows[rows["side"] == "bid"], [5.0])
    assert bids["mid_usd"].isnull().all()
    assert bids["visible_usd"].isnull().all()


def test_venues_without_a_book_at_a_time_are_nan() -> None:
    rows = pd.concat(
        [made(), side("bid", [(99.0, 1.0)], venue="bybit"), side("ask", [(101.0, 1.0)], venue="bybit")]
    )
    result = depth.by_band(rows.sample(frac=1.0, random_state=1), [150.0])
    assert result.sizes == {"symbol": 1, "exchange": 2, "time": 2, "side": 2, "depth_bps": 1}
    bybit = result.sel(symbol="BTC", exchange="bybit", depth_bps=150.0)
    np.testing.assert_allclose(bybit["spread_bps"], [200.0, np.nan])
    np.testing.assert_allclose(bybit["visible_usd"], [[99.0, 101.0], [np.nan, np.nan]])
    assert not bybit["complete"].any()


def test_book_depth_and_slippage_equal_those_of_depth_history() -> None:
    """A book of 10 bps with 299.8 USD of bids: an order of 199.9 USD is filled within 5 bps."""
    result = depth.by_band(made(), [5.0, 10.0])["depth_usd"].sel(symbol="BTC", exchange="okx").isel(time=0)
    cost = funding.slippage_bps(result, 199.9)
    assert 0.0 < float(cost.sel(side="bid")) <= 5.0


def test_a_book_of_the_sample_agrees_with_its_depth() -> None:
    at = pd.Timestamp("2026-06-30T11:00", tz="UTC")
    book = sample.open().latest(
        "orderbook_book", at, within=pd.Timedelta(1, "h"), symbols=["BTC"], venues=["binance"]
    )
    result = depth.by_band(book, [10.0, 25.0]).squeeze()
    mid = float(result["mid_usd"])
    bids = book[book["side"] == "bid"]
    near = bids[bids["price_usd"] >= mid * (1.0 - 10e-4)]
    expected = float((near["price_usd"] * near["size"]).sum())
    assert float(result["visible_usd"].sel(side="bid", depth_bps=10.0)) == pytest.approx(expected)


def test_impossible_books_are_rejected() -> None:
    rows = made()
    named = "the book of BTC on okx at 2026-01-01 00:00:00"
    for match, frame in (
        (
            f"{named} is crossed, with the best bid 99.95 USD above the best ask 99.9 USD",
            rows.replace(100.05, 99.9),
        ),
        (f"{named} has a price that is not above 0", rows.replace(99.9, -1.0)),
        (f"{named} has a size that is not 0 or more", rows.assign(size=rows["size"].where(rows.index > 0))),
        (f"{named} has a level twice", rows.assign(level=1)),
        (f"{named} has a side that is not", rows.replace("ask", "sell")),
        ("books is empty", rows.iloc[:0]),
        ("must have the column 'size'", rows.drop(columns="size")),
    ):
        with pytest.raises(ValueError, match=match):
            depth.by_band(frame)
    for bands in ([], [10.0, 5.0], [0.0], [float("nan")]):
        with pytest.raises(ValueError, match="must ascend from above 0"):
            depth.by_band(rows, bands)


def costs(rows: pd.DataFrame, size_usd: float) -> dict[str, list[float]]:
    """Return average price, cost and filled value of a buy and of a sale."""
    table = depth.market_order_cost(rows, size_usd).set_index("side")
    return {
        side: table.loc[side, ["average_price_usd", "cost_bps", "filled_usd"]].tolist()
        for side in table.index
    }


def test_market_order_fills_the_best_levels_first() -> None:
    rows = made()
    rows = rows[rows["time"] == FIRST].sample(frac=1.0, random_state=2)
    # A buy of 250.35 USD takes 1 coin at 100.05 and 1.5 at 100.20: 2.5 coins at 100.14, 14 bps above 100.
    assert costs(rows, 250.35)["buy"] == pytest.approx([100.14, 14.0, 250.35])
    # A sale of 249.85 USD takes 2 coins at 99.95 and 0.5 at 99.90: 2.5 coins at 99.94, 6 bps below 100.
    assert costs(rows, 249.85)["sell"] == pytest.approx([99.94, 6.0, 249.85])
    # Three coins empty the two best bids exactly.
    assert costs(rows, 299.8)["sell"] == pytest.approx([299.8 / 3.0, 20.0 / 3.0, 299.8])


def test_market_order_beyond_the_book_has_no_price() -> None:
    rows = made()
    rows = rows[rows["time"] == FIRST]
    # Asks are worth 100.05 + 3 x 100.2 = 400.65 USD, bids 199.9 + 99.9 + 4 x 99.7 = 698.6 USD.
    whole = costs(rows, 400.65)
    assert whole["buy"] == pytest.approx([400.65 / 4.0, 16.25, 400.65])
    more = costs(rows, 500.0)
    assert more["buy"] == pytest.approx([np.nan, np.nan, 400.65], nan_ok=True)
    # Two coins at 99.95, one at 99.9 and 200.2 USD at 99.7.
    average = 500.0 / (3.0 + 200.2 / 99.7)
    assert more["sell"] == pytest.approx([average, 100.0 * (100.0 - average), 500.0])


def test_market_orders_of_several_books_are_in_one_table() -> None:
    rows = pd.concat([side("bid", [(99.0, 1.0)], venue="bybit"), made()])
    table = depth.market_order_cost(rows, [100.05, 40.0])
    assert table.columns[:5].tolist() == ["symbol", "exchange", "time", "side", "size_usd"]
    assert table["time"].dtype == rows["time"].dtype
    bybit = table[table["exchange"] == "bybit"].set_index(["side", "size_usd"])
    # The venue has one bid of 99 USD and no ask, so it has no mid price.
    assert bybit["filled_usd"].to_dict() == {
        ("buy", 40.0): 0.0,
        ("buy", 100.05): 0.0,
        ("sell", 40.0): 40.0,
        ("sell", 100.05): 99.0,
    }
    assert bybit.loc[("sell", 40.0), "average_price_usd"] == 99.0
    assert bybit["cost_bps"].isna().all()
    # The best levels of okx are 5 bps from the mid and fill 100.05 USD, at both times.
    okx = table[table["exchange"] == "okx"]
    assert okx["time"].tolist() == [FIRST] * 4 + [SECOND] * 4
    assert okx["side"].tolist() == ["buy", "buy", "sell", "sell"] * 2
    assert okx["cost_bps"].tolist() == pytest.approx([5.0] * 8)


def test_market_orders_without_a_valid_size_or_book_are_rejected() -> None:
    for size in (0.0, -1.0, float("nan"), float("inf"), [1.0, 0.0]):
        with pytest.raises(ValueError, match=r"size_usd must be a positive number, got [-.\w]+$"):
            depth.market_order_cost(made(), size)
    with pytest.raises(ValueError, match="size_usd is empty: pass at least one size"):
        depth.market_order_cost(made(), [])
    with pytest.raises(ValueError, match="is crossed"):
        depth.market_order_cost(made().replace(100.05, 99.9), 1.0)
