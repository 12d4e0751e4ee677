"""Spread and depth of order books over time, and the cost of market orders."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.panels import positive
from derivdata.support.arguments import typed
from derivdata.support.arrays import Floats
from derivdata.support.times import naive_utc
from derivdata.tables.frames import require_columns, require_zone

__all__ = ["by_band", "market_order_cost"]
__dir__ = __all__.copy

_BOOK = ["symbol", "exchange", "time"]
_SIDES = ("bid", "ask")
_ROUNDING = 1e-9  # bps
_FILLED = 1.0 - 1e-12  # a size is filled from this share on, because sums of levels are rounded


@typed
def by_band(books: pd.DataFrame, bands: Sequence[float] = (10.0, 25.0, 50.0, 100.0)) -> xr.Dataset:
    """Compute the spread of order books and their depth within bands around the mid price.

    Parameters
    ----------
    books
        Table ``orderbook_book`` of any number of books: of ``dd.orderbook.book``, joined with ``dd.concat``,
        or of an archive.
    bands
        Distances from the mid price [bps], ascending.

    Returns
    -------
    Dataset over ``symbol``, ``exchange`` and ``time``
        ``mid_usd`` [USD] and ``spread_bps`` [bps of the mid], of books with both sides. Also over ``side``
        (``bid``, ``ask``) and ``depth_bps``: ``visible_usd`` [USD], the value of the levels within the band;
        ``complete``, whether the side has a level at the end of the band or beyond, so that the band is
        complete; ``depth_usd`` [USD], ``visible_usd`` if complete, else NaN. NaN and False without a book.

    Raises
    ------
    ValueError
        A column is absent; times have no zone; a side, price or size is missing or impossible; a level is
        there twice; a book is crossed; bands do not ascend from above 0.

    Notes
    -----
    ``depth_usd`` has the dims of ``dd.panel`` of ``orderbook_depth_history``, and `slippage_bps` accepts it
    at one time. A book cut by a service at a number of levels is complete only up to its last level.

    Examples
    --------
    >>> book = dd.orderbook.book("BTC", "binance", limit=5)
    >>> levels = dd.analysis.depth.by_band(book, [1.0, 100.0]).squeeze()
    >>> bool(levels["spread_bps"] > 0.0), levels["complete"].sel(depth_bps=100.0).values.tolist()
    (True, [False, False])
    """
    edges = np.array(bands, dtype=np.float64)
    if not edges.size or not np.isfinite(edges).all() or edges[0] <= 0.0 or (np.diff(edges) <= 0.0).any():
        raise ValueError(f"bands must ascend from above 0 bps, got {list(bands)}")

    # 1. Number the books, and find the best price of each side.
    rows = _checked(books)
    labels, places = _labels(rows)
    shape = tuple(len(values) for values in labels.values())
    book = np.ravel_multi_index(places, shape)
    price = rows["price_usd"].to_numpy(dtype=np.float64)
    size = rows["size"].to_numpy(dtype=np.float64)
    is_ask = (rows["side"] == "ask").to_numpy()
    bid, ask = _best_prices(rows, book)

    # 2. Sum the value of the levels within each band, and test whether the side reaches the end of the band.
    mid = (bid + ask) / 2.0
    distance = 1e4 * np.abs(price / mid[book] - 1.0)
    sides = 2 * book + is_ask
    visible = []
    complete = []
    for edge in edges:
        within = np.where(distance <= edge + _ROUNDING, price * size, 0.0)
        visible.append(np.bincount(sides, within, 2 * mid.size).reshape(-1, 2))
        reached = distance >= edge - _ROUNDING
        complete.append(np.bincount(sides, reached, 2 * mid.size).reshape(-1, 2) > 0.0)
    seen = np.where(np.isnan(mid)[:, None, None], np.nan, np.stack(visible, axis=-1))
    whole = np.stack(complete, axis=-1)

    # 3. Put the results on the grid; missing books are NaN.
    spread = 1e4 * (ask - bid) / mid
    dims = (*_BOOK, "side", "depth_bps")
    figures = {
        "mid_usd": (_BOOK, _on_grid(mid, shape, np.nan), {"units": "USD"}),
        "spread_bps": (_BOOK, _on_grid(spread, shape, np.nan), {"units": "bps"}),
        "visible_usd": (dims, _on_grid(seen, shape, np.nan), {"units": "USD"}),
        "complete": (dims, _on_grid(whole, shape, False)),
    }
    result = xr.Dataset(figures, labels | {"side": list(_SIDES), "depth_bps": edges})
    depth = result["visible_usd"].where(result["complete"]).assign_attrs(units="USD")
    return result.assign(depth_usd=depth)


@typed
def market_order_cost(books: pd.DataFrame, size_usd: float | Sequence[float]) -> pd.DataFrame:
    """Compute the average price of market orders, and its distance from the mid price.

    Parameters
    ----------
    books
        Books as for `by_band`.
    size_usd
        Size of the order [USD], its amount times the average price. A number, or several.

    Returns
    -------
    DataFrame, one row per ``symbol``, ``exchange``, ``time``, ``side`` and ``size_usd``
        ``side`` is ``buy``, filled by asks, or ``sell``, filled by bids. ``average_price_usd`` [USD], NaN if
        the levels of the book do not fill the size. ``cost_bps`` [bps of the mid], the distance of the
        average price from the mid, above it for a buy and below it for a sale; also NaN without a bid or an
        ask. ``filled_usd`` [USD], the part of the size that the levels fill.

    Raises
    ------
    ValueError
        A size is not a positive number, or books are invalid for `by_band`.

    Notes
    -----
    Fees are not included. A book cut by a service at a number of levels may show too little for a size that
    the venue would fill.

    Examples
    --------
    >>> book = dd.orderbook.book("BTC", "binance")
    >>> cost = dd.analysis.depth.market_order_cost(book, 1e6)
    >>> cost["side"].tolist(), bool((cost["cost_bps"] > 0.0).all())
    (['buy', 'sell'], True)
    """
    sizes = [positive(value, "size_usd") for value in np.atleast_1d(size_usd).tolist()]
    if not sizes:
        raise ValueError("size_usd is empty: pass at least one size")

    # 1. Sort the levels of each side of each book from the best price.
    rows = _checked(books)
    rows["book"] = rows.groupby(_BOOK).ngroup()
    rows["value"] = rows["price_usd"] * rows["size"]
    rows["from_best"] = rows["price_usd"].where(rows["side"] == "ask", -rows["price_usd"])
    rows = rows.sort_values(["book", "from_best"], ignore_index=True)
    book = rows["book"].to_numpy()
    bid, ask = _best_prices(rows, book)
    mid = (bid + ask) / 2.0

    # 2. Fill each size level by level, and add up the value and the amount.
    price = rows["price_usd"].to_numpy(dtype=np.float64)
    value = rows["value"].to_numpy(dtype=np.float64)
    before = rows.groupby(["book", "side"])["value"].cumsum().to_numpy(dtype=np.float64) - value
    labels = rows[_BOOK].drop_duplicates(ignore_index=True)
    labels["time"] = labels["time"].dt.tz_localize("UTC")
    tables = []
    for order, side, sign in (("buy", "ask", 1.0), ("sell", "bid", -1.0)):
        is_side = (rows["side"] == side).to_numpy()
        for size in sizes:
            taken = np.where(is_side, np.clip(size - before, 0.0, value), 0.0)
            filled = np.bincount(book, taken, mid.size)
            amount = np.bincount(book, taken / price, mid.size)
            is_full = filled >= size * _FILLED
            average = np.divide(filled, amount, out=np.full(mid.size, np.nan), where=is_full)
            figures = {
                "side": order,
                "size_usd": size,
                "average_price_usd": average,
                "cost_bps": sign * 1e4 * (average / mid - 1.0),
                "filled_usd": filled,
            }
            tables.append(labels.assign(**figures))
    costs = pd.concat(tables, ignore_index=True)
    return costs.sort_values([*_BOOK, "side", "size_usd"], ignore_index=True)


def _labels(rows: Any) -> tuple[dict[str, Any], list[Any]]:
    """Return the sorted labels of symbols, venues and times, and the position of each row among them."""
    labels = {}
    places = []
    for name in _BOOK:
        place, values = pd.factorize(rows[name], sort=True)
        labels[name] = values.to_numpy()
        places.append(place)
    return labels, places


def _on_grid(values: Any, shape: tuple[int, ...], fill: Any) -> Any:
    """Return values by book on the grid of all labels, with `fill` after the last book."""
    absent = np.full((math.prod(shape) - len(values), *values.shape[1:]), fill, dtype=values.dtype)
    return np.concatenate([values, absent]).reshape(*shape, *values.shape[1:])


def _checked(books: pd.DataFrame) -> Any:
    """Return the rows of books with naive times, after checks."""
    require_columns(books, "books", ("price_usd", "size"), others=(*_BOOK, "side", "level"))
    require_zone(books, "books")
    if books.empty:
        raise ValueError("books is empty: pass at least one row")
    rows = books[[*_BOOK, "side", "level", "price_usd", "size"]].reset_index(drop=True)
    rows = rows.astype(dict.fromkeys(("symbol", "exchange", "side"), "str"))
    rows["time"] = naive_utc(rows["time"].dt.as_unit("us"))
    faults = {
        "a side that is not 'bid' or 'ask'": ~rows["side"].isin(_SIDES),
        "a price that is not above 0": ~(rows["price_usd"] > 0.0),
        "a size that is not 0 or more": ~(rows["size"] >= 0.0),
        "a level twice": rows.duplicated([*_BOOK, "side", "level"]),
        "no time": rows["time"].isna(),
    }
    for fault, wrong in faults.items():
        if wrong.any():
            row = rows[wrong].iloc[0]
            raise ValueError(f"books: {_named(row['symbol'], row['exchange'], row['time'])} has {fault}")
    return rows


def _best_prices(rows: Any, book: Any) -> tuple[Floats, Floats]:
    """Return the best bid and the best ask of each numbered book [USD], NaN without one."""
    price = rows["price_usd"].to_numpy(dtype=np.float64)
    is_ask = (rows["side"] == "ask").to_numpy()
    bid = np.full(book.max() + 1, np.nan)
    ask = bid.copy()
    np.fmax.at(bid, book[~is_ask], price[~is_ask])
    np.fmin.at(ask, book[is_ask], price[is_ask])
    _refuse_crossed(bid, ask, rows, book)
    return bid, ask


def _refuse_crossed(bid: Floats, ask: Floats, rows: Any, book: Any) -> None:
    crossed = bid >= ask
    if crossed.any():
        at = int(np.argmax(crossed))
        row = rows[book == at].iloc[0]
        raise ValueError(
            f"books: {_named(row['symbol'], row['exchange'], row['time'])} is crossed, with the best bid "
            f"{bid[at]:g} USD above the best ask {ask[at]:g} USD: remove it"
        )


def _named(symbol: Any, exchange: Any, time: Any) -> str:
    return f"the book of {symbol} on {exchange} at {time}"
