"""Rules for sizes that have never occurred: prices, open interest, volumes, books and chains.

The limits are far beyond all recorded values, so they detect wrong units and not unusual markets.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from derivdata.client.reading import HOUR_US, CheckedResponse
from derivdata.client.transport import SESSION
from derivdata.support.arrays import Array
from derivdata.tables.series_patterns import rank_correlation

MIN_PRICES = {"BTC": 7_500.0, "ETH": 350.0}
"""Prices [USD] below which the unit must differ. They are less than half of the lows since 2021, which were
15,476 on 2022-11-21 and 720 on 2021-01-01."""
_SINCE_US = 1_609_459_200_000_000
"""2021-01-01T00:00:00Z [µs]."""
LARGEST_PRICES = {"BTC": 3e6, "ETH": 1e5}
"""Prices [USD] above which the unit must differ: 20 times the highest price until 2026."""
_PRICES = (
    "price_usd", "price", "underlying_price", "index_price_usd", "order_price_usd", "fill_price_usd",
)  # fmt: skip
_PRICES_OF_UNDERLYINGS = ("underlying_price", "index_price_usd")
_SUPPLY = {"BTC": 21e6, "ETH": 2.5e8}
"""Maximum number of coins in existence, for ETH twice the number of 2026."""
LARGE_VENUES = frozenset(("binance", "bybit", "okx"))
_MIN_OF_LARGE_USD = {"oi_usd": 2e7, "volume_usd": 2e5, "buy_usd": 1e5, "sell_usd": 1e5}
"""Open interest and hourly volume [USD] of BTC or ETH at `LARGE_VENUES`, a tenth of the lows since 2021."""
_MIN_OF_MANY = 5.0
"""Factor between the minimum of single rows and that of the median of many rows. In 2023 and 2024, hourly
volume of ETH on Bybit [USD] was 4e6 in its lowest 8 hours, and its median 5e7."""
_MIN_OF_ALL_USD = {"total_oi_usd": 2e8, "total_volume_usd": 2e6}
"""Open interest and hourly volume [USD] of all contracts of one of `LARGE_VENUES`, likewise."""
_MIN_TOTAL_OI_USD = 2e8
"""Open interest of BTC or ETH on all venues, which was above 1e9 since 2021."""
_MAX_OF_LEVEL_USD = 2e9  # larger levels are probably sizes in USD
_CUMULATED_LEVELS = 12  # minimum levels of each side
_MIN_ONE_SIDED = 20  # minimum options of a chain with one side
_MIN_SYMBOLS = 50  # minimum symbols of a list
_MIN_LARGEST = {
    "price_24h_change_pct": 1.0, "oi_24h_change_pct": 1.0, "volume_24h_change_pct": 1.0,
    "funding_current_bps_8h": 0.05,
}  # fmt: skip
"""Minimum of the largest value over many symbols. In a wrong unit (fraction, percent) it is a hundredth or
less."""
_MIN_OI_CHANGE_PCT = 0.2
"""Minimum of the largest daily change among ten venues [%]. Among 43 venues it is above 10."""
_MAX_SINCE_POINT = 8.0
"""Maximum factor between the open interest of a venue and the newest point of its week, at most a day old,
unless its daily change states a launch or a closure."""
_CLEAR_MOVE_PCT = 1.0  # minimum move whose sign is compared
_SAME_MOVE = 0.25
"""Maximum difference of two moves of open interest that count as equal, as a fraction of the change."""
_OPPOSITE_SHARE = 0.9  # minimum share of venues with the opposite sign
_MAX_CHANGES_PCT = ("price_24h_change_pct", "oi_24h_change_pct")
_MAX_OI_CHANGE_PCT = 40.0  # maximum median of changes
_MAX_TOP_FUNDING_BPS = 100.0  # maximum median of the highest rates [bps/8h]
_CROWDED = 0.05  # quantile of changes that shows their distance from 0
_MAX_OF_VOLUME = 0.5
"""Maximum ratio of liquidations to the volume of a venue. On large venues it was at most a quarter."""
_MIN_VOLUME_USD = 1e7  # volumes up to this are not compared
_MIN_VENUES = 10  # minimum venues
_MIN_ORDERS = 50  # minimum liquidations
_MIN_ORDER_USD = 10.0  # minimum mean liquidation
_MIN_INDEX_PCT = 5.0  # minimum median of a volatility index
_STEPS_OF_STOCK = 5.0  # minimum ratio of the changes of swapped columns
_MIN_STEPS = 24  # minimum rows
_MAX_OF_DEPTH = 10.0
"""Maximum ratio of the sides of a large book over a day. Large single orders give ratios of 4 for hours."""
_MIN_ZEROS = 3  # minimum zeros, or runs of zeros
_MIN_SHARE_OF_ZEROS = 0.05  # minimum share of zeros
_ROLLING_US = 22 * HOUR_US
_MIN_ALIKE = 0.2
_MAX_LIQUIDATED_USD = 2e10
"""Maximum liquidations in a row of one venue. On 2025-10-10 those of all venues were 19 billion USD."""
_MAX_OF_SIDE = 1.6
"""Maximum ratio of taker buys to sells over two days or more."""


def beyond_markets(e: CheckedResponse) -> Iterator[str]:
    """Find values that have never occurred in a market."""
    yield from _prices(e)
    yield from _sizes_of_large(e)
    yield from _totals_of_large(e)
    yield from _depths(e)
    yield from _books(e)
    yield from _chains(e)
    yield from _changes(e)
    yield from _flows_and_stocks(e)
    yield from _liquidations(e)
    yield from _rolling_zeros(e)


def _symbols(e: CheckedResponse) -> Array | None:
    """Return the symbol of each row; None for a table without symbols."""
    if "symbol" not in e.columns or e.table is None:
        return None
    return np.asarray(e.columns["symbol"])


def has_only_large(e: CheckedResponse) -> bool:
    """Return whether all rows are of BTC or ETH, or sums over all symbols of venues."""
    if "symbol" in e.columns:
        return {*e.words.get("symbol", ())} <= MIN_PRICES.keys()
    return True


def _is_large(e: CheckedResponse) -> Array:
    """Return a mask of rows of BTC and ETH at large venues."""
    if not {"symbol", "exchange"} <= e.columns.keys():
        return np.zeros(e.size, dtype=bool)
    is_large: Array = np.isin(np.asarray(e.columns["symbol"], dtype=str), [*MIN_PRICES])
    is_large &= np.isin(np.asarray(e.columns["exchange"], dtype=str), [*LARGE_VENUES])
    return is_large


def _is_recent(e: CheckedResponse) -> Array:
    """Return a mask of rows since 2021; rows without a time are current."""
    if e.time_us is None:
        return np.ones(e.size, dtype=bool)
    return e.time_us >= _SINCE_US


def _prices(e: CheckedResponse) -> Iterator[str]:
    """Check prices against the lowest and highest ones that a symbol can have."""
    symbols = _symbols(e)
    if symbols is None:
        return
    names: tuple[str, ...] = _PRICES
    if "strike" in e.columns:  # prices of options are premiums; only options have a strike
        names = _PRICES_OF_UNDERLYINGS
    for name in names:
        values = e.numbers(name)
        if values is None:
            continue
        if name in _PRICES_OF_UNDERLYINGS:
            yield from _high_prices(name, symbols, values)
        for symbol, minimum in MIN_PRICES.items():
            is_below = (symbols == symbol) & (values > 0.0) & (values < minimum) & _is_recent(e)
            if is_below.any():
                row = int(np.argmax(is_below))
                yield (
                    f"{name} of {symbol} is {values[row]:.4g} in {int(is_below.sum())} rows: expected at "
                    f"least {minimum:g}, as always since 2021"
                )


def _high_prices(name: str, symbols: Array, values: Array) -> Iterator[str]:
    """Find prices above the largest one of a symbol."""
    for symbol, most in LARGEST_PRICES.items():
        is_above = (symbols == symbol) & (values > most)
        if is_above.any():
            row = int(np.argmax(is_above))
            yield f"{name} of {symbol} is {values[row]:.4g}: no market has ever had such a price"


def _sizes_of_large(e: CheckedResponse) -> Iterator[str]:
    """Compare open interest and volume of large coins at large venues with their lows since 2021."""
    symbols = _symbols(e)
    if symbols is None:
        return
    is_recent = _is_recent(e)
    if "exchange" in e.columns:
        row_venues = np.asarray(e.columns["exchange"])
        is_of = {venue: row_venues == venue for venue in sorted(LARGE_VENUES)}
    else:
        is_of = {"all venues": np.ones(e.size, dtype=bool)}
    for name in _MIN_OF_LARGE_USD:
        values = e.numbers(name)
        if values is None or "instrument_name" in e.columns:
            continue
        limit = _min_of_large(e, name)
        for symbol in MIN_PRICES:
            for venue, is_of_venue in is_of.items():
                is_own = (symbols == symbol) & is_of_venue & is_recent & np.isfinite(values)
                problem = _small(values[is_own], limit, is_level=name == "oi_usd", step_us=e.step_us)
                if problem:
                    yield f"{name} of {symbol} at {venue} is {problem}"
                    return


def _min_of_large(e: CheckedResponse, name: str) -> float:
    """Return the minimum open interest or volume that a row can have [USD]; negative without a limit."""
    if "exchange" in e.columns:
        hours = max(e.step_us, HOUR_US) / HOUR_US
        minimum = _MIN_OF_LARGE_USD[name]
        return minimum if name == "oi_usd" else minimum * hours
    # Of all venues, or of one dex of HIP-3, which may have no trades in BTC.
    if name == "oi_usd" and "dex" not in e.columns:
        return _MIN_TOTAL_OI_USD
    return -1.0


def _has_zeros(values: Array, *, is_level: bool, step_us: int) -> bool:
    """Return whether there are more zeros than in an outage: three separate runs and 5 % of the rows."""
    is_zero = values == 0.0
    if is_level:
        return int(is_zero.sum()) >= _MIN_ZEROS
    if step_us < HOUR_US:
        return False
    runs = int((np.diff(np.append(0, is_zero.astype(np.int8))) == 1).sum())
    return runs >= _MIN_ZEROS and float(is_zero.mean()) >= _MIN_SHARE_OF_ZEROS


def _small(values: Array, limit: float, *, is_level: bool, step_us: int) -> str:
    """Describe zeros of a large market, or a median below the limit; empty if there are none."""
    if limit > 0.0 and _has_zeros(values, is_level=is_level, step_us=step_us):
        return f"0 in {int((values == 0.0).sum())} rows: values may be missing"
    if not is_level and values.size >= _MIN_STEPS:
        limit *= _MIN_OF_MANY
    middle = float(np.median(values)) if values.size else np.inf
    if middle >= limit:
        return ""
    return (
        f"{middle:.4g} (median of {values.size} rows): it has been above {limit:.3g} since 2021, so the "
        "unit may be coins or thousands"
    )


def _totals_of_large(e: CheckedResponse) -> Iterator[str]:
    """Compare totals of large venues with their smallest ones; an archive may have some symbols only."""
    if "exchange" not in e.columns or "symbol" in e.columns:
        return
    if e.table is None or SESSION.origin() is None:
        return
    venues = np.asarray(e.columns["exchange"])
    for name, minimum in _MIN_OF_ALL_USD.items():
        values = e.numbers(name)
        if values is None:
            continue
        limit = minimum
        if name == "total_volume_usd":
            limit = minimum * (max(e.step_us, HOUR_US) / HOUR_US)
        for venue in sorted(LARGE_VENUES):
            known = values[(venues == venue) & _is_recent(e) & np.isfinite(values)]
            if known.size and float(np.median(known)) < limit:
                yield (
                    f"{name} of {venue} is {np.median(known):.4g} (median of {known.size} rows): it has been "
                    f"above {limit:.3g} since 2021, so the unit may be coins or thousands"
                )
                return


def _books(e: CheckedResponse) -> Iterator[str]:
    """Check the levels of a book: two sides, sizes in coins, not cumulated."""
    if e.table is None or e.table.name != "orderbook_book" or not e.size:
        return
    prices = e.numbers("price_usd")
    sizes = e.numbers("size")
    sides = np.asarray(e.columns["side"])
    missing = sorted({"bid", "ask"} - {*sides})
    if missing:
        yield f"the book has no {missing[0]}s in {e.size} levels"
    if prices is None or sizes is None:
        return
    values = prices * sizes
    if (values > _MAX_OF_LEVEL_USD).any():
        row = int(np.nanargmax(values))
        yield (
            f"a level of the book is worth {values[row]:.3g} USD (size {sizes[row]:g} at price "
            f"{prices[row]:g}): the size may be in USD"
        )
    for side in ("bid", "ask"):
        empty = int(((sizes == 0.0) & (sides == side)).sum())
        if empty:
            yield f"{empty} {side}s of the book have the size 0"
    rising = [np.diff(sizes[sides == side]) for side in ("bid", "ask")]
    if all(steps.size >= _CUMULATED_LEVELS and (steps > 0.0).all() for steps in rising):
        yield f"sizes of the book rise at each of its {e.size} levels: they may be cumulative"


def _depths(e: CheckedResponse) -> Iterator[str]:
    """Find days on which one side of a large book is several times as deep as the other.

    Books of other venues may be one-sided for days, and any book for hours.
    """
    if e.table is None or e.table.name != "orderbook_depth_history" or e.time_us is None:
        return
    if e.step_us < HOUR_US or not _is_large(e).all():
        return
    bids = e.numbers("bid_depth_usd")
    asks = e.numbers("ask_depth_usd")
    if bids is None or asks is None or not e.size:
        return
    order = np.lexsort((e.time_us, e.series("time")))
    series = e.series("time")[order]
    for word, larger, smaller in (("bids", bids[order], asks[order]), ("asks", asks[order], bids[order])):
        is_far = larger > _MAX_OF_DEPTH * smaller
        starts = np.flatnonzero(np.append(True, (is_far[1:] != is_far[:-1]) | (np.diff(series) != 0)))
        lengths = np.diff(np.append(starts, series.size))
        long = np.flatnonzero(is_far[starts] & (lengths >= _MIN_STEPS))
        if long.size:
            row = order[starts[long[0]]]
            yield (
                f"{word} at {e.columns['depth_bps'][row]:g} bps are over {_MAX_OF_DEPTH:g} times as deep "
                f"as the other side in {lengths[long[0]]} consecutive rows: one side may be in another "
                "unit"
            )
            return


def _chains(e: CheckedResponse) -> Iterator[str]:
    """Check a chain of options: both sides, and open interest in coins."""
    if e.table is None or "strike" not in e.columns or "side" not in e.columns or "trade_id" in e.columns:
        return
    sides = e.words.get("side", [])
    if e.size >= _MIN_ONE_SIDED and len({*np.asarray(e.columns["side"])}) == 1:
        yield f"all {e.size} options of the chain are {sides[0]}s: options of the other side are missing"
    interest = e.numbers("open_interest")
    symbol = str(e.requested.get("symbol", ""))
    if interest is not None and symbol in _SUPPLY and e.time_us is not None:
        total = float(np.nansum(interest)) / max(np.unique(e.time_us).size, 1)
        if total > _SUPPLY[symbol]:
            yield (
                f"open_interest of the chain adds up to {total:.4g}, which is more {symbol} than exist: "
                "it may be in USD"
            )


def _changes(e: CheckedResponse) -> Iterator[str]:
    """Check changes and rates of many symbols or venues, which are in percent and bps."""
    if e.table is None:
        return
    is_ranking = e.table.name in ("markets_price_movers", "markets_funding_leaders")
    if e.size >= _MIN_SYMBOLS or (is_ranking and e.size > 1):
        for name, minimum in _MIN_LARGEST.items():
            largest = _quantile(e, name, 1.0)
            if largest is not None and largest < minimum:
                yield f"{name} is at most {largest:.3g} in {e.size} rows: it may be a fraction"
    yield from _changes_of_symbols(e)
    if e.table.name == "oi_exchanges":
        yield from _changes_of_venues(e)
        yield from _sparklines(e)
    index = _quantile(e, "index_pct", 0.5)
    if index is not None and index < _MIN_INDEX_PCT:
        yield f"the median of index_pct is {index:.3g}: expected percent per year"


def _changes_of_venues(e: CheckedResponse) -> Iterator[str]:
    """Check the unit of daily changes of open interest."""
    if e.size < _MIN_VENUES:
        return
    largest = _quantile(e, "change_24h", 1.0)
    if largest is not None and largest < _MIN_OI_CHANGE_PCT:
        yield f"change_24h is at most {largest:.3g} % in {e.size} rows: it may be a fraction"
    middle = _quantile(e, "change_24h", 0.5)
    if middle is not None and middle > _MAX_OI_CHANGE_PCT:
        yield f"the median change_24h of the venues is {middle:.3g} %: the changes may be in another unit"


def _sparklines(e: CheckedResponse) -> Iterator[str]:
    """Compare open interest of venues and its daily change with the points of the last week.

    The hour of the points is undocumented. The newest one may be a day old, and the market may have turned
    since. So a sign is wrong only if the newest point is about the present open interest and the reversed
    change is about that of the points.
    """
    totals = e.numbers("total_oi_usd")
    changes = e.numbers("change_24h")
    venues = e.stated.get("exchanges")
    if totals is None or changes is None or not isinstance(venues, list) or len(venues) != e.size:
        return
    points = np.full((e.size, 2), np.nan)
    for row, venue in enumerate(venues):
        if len(venue.sparkline_7d) > 1:
            points[row] = venue.sparkline_7d[-2:]
    before, newest = points.T
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = totals / newest
        moves = 100.0 * (newest / before - 1.0)
        # A day ago the value was between both points, if a launch or a closure is the reason.
        day_ago = totals / (1.0 + changes / 100.0)
        is_consistent = day_ago <= _MAX_SINCE_POINT * np.fmax(before, newest)
        is_consistent &= day_ago * _MAX_SINCE_POINT >= np.fmin(before, newest)
        is_other = np.abs(np.log(ratios)) > np.log(_MAX_SINCE_POINT)
        is_other &= (totals > 0.0) & (newest > 0.0) & (before > 0.0) & ~is_consistent
    for row in np.flatnonzero(is_other)[:1].tolist():
        yield (
            f"total_oi_usd of {venues[row].exchange} is {ratios[row]:.3g} times the newest point of its "
            "sparkline: one of the two may be in another unit"
        )
    limit = _SAME_MOVE * np.abs(changes)
    is_clear = (np.abs(moves) >= _CLEAR_MOVE_PCT) & (np.abs(changes) >= _CLEAR_MOVE_PCT)
    is_clear &= np.abs(100.0 * (ratios - 1.0)) <= limit
    count = int(is_clear.sum())
    opposite = int((np.abs(moves + changes) <= limit)[is_clear].sum())
    if count >= _MIN_VENUES and opposite >= _OPPOSITE_SHARE * count:
        yield (
            f"change_24h has the opposite sign of the sparkline at {opposite} of {count} venues: the "
            "sign may be lost"
        )


def _changes_of_symbols(e: CheckedResponse) -> Iterator[str]:
    """Check changes and rates of many symbols: their medians, and price changes without a sign."""
    if e.size < _MIN_SYMBOLS:
        return
    limits = dict.fromkeys(_MAX_CHANGES_PCT, _MAX_OI_CHANGE_PCT) | {
        "top_funding_bps_8h": _MAX_TOP_FUNDING_BPS
    }
    for name, maximum in limits.items():
        values = e.numbers(name)
        if values is None or not np.isfinite(values).any():
            continue
        # A crash moves most markets by similar amounts, so the limit is far above a usual median.
        middle = float(np.nanmedian(values))
        if middle > maximum:
            yield (
                f"{name} has a median of {middle:.3g} in {e.size} rows: expected at most {maximum:g}; values "
                "may be in another unit or have an offset"
            )
    changes = e.numbers("price_24h_change_pct")
    if changes is None or e.size < 2 * _MIN_SYMBOLS or "rank" not in e.columns:
        return
    known = changes[np.isfinite(changes)]
    # If all markets rise, few of them rise by almost 0. Without signs, many changes are near 0.
    is_crowded = known.size and np.quantile(known, _CROWDED) < 2.0 * _CROWDED * np.median(known)
    if is_crowded and known.min() >= 0.0:
        yield f"price_24h_change_pct is never below 0 in {known.size} rows: its sign may be lost"


def _quantile(e: CheckedResponse, name: str, share: float) -> float | None:
    """Return the quantile of the sizes of a column; None if the response does not have it."""
    values = e.numbers(name)
    if values is None or not np.isfinite(values).any():
        return None
    return float(np.nanquantile(np.abs(values), share))


def _flows_and_stocks(e: CheckedResponse) -> Iterator[str]:
    """Compare volumes with open interest, buys with sells, and liquidations with their number."""
    if e.table is None:
        return
    name = e.table.name
    if name == "markets_exchange_history" and e.size > _MIN_STEPS:
        of_stock = _usual_step(e, "oi_usd")
        of_flow = _usual_step(e, "volume_usd")
        if of_stock > _STEPS_OF_STOCK * of_flow > 0.0:
            yield (
                f"oi_usd changes by {100 * of_stock:.2g} % per row and volume_usd by {100 * of_flow:.2g} "
                "%: the two columns may be swapped"
            )
    interest = e.numbers("oi_usd")
    volume = e.numbers("volume_24h_usd")
    if interest is not None and volume is not None and float(np.nansum(volume)) > _MIN_VOLUME_USD:
        total = float(np.nansum(interest))
        if total < 1.0:
            yield (
                f"oi_usd adds up to {total:.3g} USD and volume_24h_usd to {np.nansum(volume):.3g} USD: "
                "one of them may be in another unit"
            )
    if name == "volume_taker" and e.step_us >= HOUR_US:
        yield from _buys_and_sells(e)


def _rolling_zeros(e: CheckedResponse) -> Iterator[str]:
    """Find volumes of 24 hours that are 0 twice within 22 hours and not between.

    A trade after the first 0 counts in the volumes of the next 24 hours, so the second 0 is impossible.
    """
    values = e.numbers("volume_24h_usd")
    stamps = e.time_us
    is_coarse = e.step_us > 6 * HOUR_US
    if values is None or stamps is None or is_coarse or values.size <= 2 * _MIN_STEPS:
        return
    order = np.lexsort((stamps, e.series("time")))
    series = e.series("time")[order]
    values = values[order]
    zeros = np.flatnonzero(values == 0.0)
    is_again = np.diff(zeros) > 1  # zeros with other values in between
    is_again &= np.diff(series[zeros]) == 0
    is_again &= np.diff(stamps[order][zeros]) <= _ROLLING_US
    if is_again.sum() >= _MIN_ZEROS:
        row = order[zeros[int(np.argmax(is_again))]]
        keys = [str(e.columns[name][row]) for name in ("exchange", "instrument_name") if name in e.columns]
        yield (
            f"volume_24h_usd of {' '.join(keys)} is 0 twice within a day but not in between, and again "
            f"in {int(is_again.sum()) - 1} more places: values may be missing"
        )


def _buys_and_sells(e: CheckedResponse) -> Iterator[str]:
    """Find buys and sells of large markets over two days or more that cannot belong to one market."""
    buys = e.numbers("buy_usd")
    sells = e.numbers("sell_usd")
    if buys is None or sells is None:
        return
    series = e.series("time")
    is_large = _is_large(e)
    for code in np.unique(series[is_large]).tolist():
        is_used = (series == code) & np.isfinite(buys) & np.isfinite(sells)
        bought = float(np.sum(buys[is_used]))
        sold = float(np.sum(sells[is_used]))
        if is_used.sum() < 2 * _MIN_STEPS or not bought + sold > 0.0:
            continue
        is_varied = min(np.unique(buys[is_used]).size, np.unique(sells[is_used]).size) >= _MIN_STEPS
        alike = rank_correlation(buys[is_used], sells[is_used])
        if is_varied and alike < _MIN_ALIKE:
            row = int(np.argmax(is_used))
            yield (
                f"buy_usd and sell_usd of {e.columns['exchange'][row]} do not move together (correlation "
                f"{alike:.2f} in {int(is_used.sum())} rows): rows may be in another order"
            )
            return
        if not 1.0 / _MAX_OF_SIDE <= bought / max(sold, 1e-9) <= _MAX_OF_SIDE:
            row = int(np.argmax(is_used))
            names = " ".join(
                str(e.columns[name][row]) for name in ("symbol", "exchange") if name in e.columns
            )
            yield (
                f"buy_usd of {names} adds up to {bought:.4g} and sell_usd to {sold:.4g} in "
                f"{int(is_used.sum())} rows: one of them may be the sum of both sides, or have another venue "
                "or unit"
            )
            return


def _liquidations(e: CheckedResponse) -> Iterator[str]:
    """Compare liquidations with the largest ones, and with their number."""
    if e.table is None:
        return
    name = e.table.name
    if name == "liquidations_history":
        for side in ("long_usd", "short_usd"):
            values = e.numbers(side)
            if values is not None and (values > _MAX_LIQUIDATED_USD).any():
                yield f"{side} is {np.nanmax(values):.3g}: no venue has ever had as many liquidations"
    if name == "liquidations_aggregates":
        yield from _mean_liquidation(e)
    liquidated = e.numbers("liquidation_24h_usd")
    volume = e.numbers("volume_24h_usd")
    if name == "markets_exchanges" and liquidated is not None and volume is not None:
        is_above = (liquidated > _MAX_OF_VOLUME * volume) & (volume > _MIN_VOLUME_USD)
        if is_above.any():
            row = int(np.argmax(is_above))
            yield (
                f"liquidation_24h_usd of {e.columns['exchange'][row]} is {liquidated[row]:.3g} and "
                f"volume_24h_usd is {volume[row]:.3g}: expected liquidations of at most "
                f"{_MAX_OF_VOLUME:.0%} of the volume"
            )


def _mean_liquidation(e: CheckedResponse) -> Iterator[str]:
    """Check the mean size of liquidations, which is small if amounts are in another unit."""
    totals = e.numbers("total_usd")
    counts = e.numbers("total_count")
    if totals is None or counts is None or counts.sum() < _MIN_ORDERS:
        return
    mean = float(np.sum(totals)) / float(np.sum(counts))
    if mean < _MIN_ORDER_USD:
        yield (
            f"the mean liquidation is {mean:.3g} USD in {counts.sum():g} orders: values may be in "
            "another unit"
        )


def _usual_step(e: CheckedResponse, name: str) -> float:
    """Return the median change of the logarithm from row to row; 0 if it is not known."""
    values = e.numbers(name)
    if values is None:
        return 0.0
    positive = values[values > 0.0]
    if positive.size < 2:
        return 0.0
    return float(np.median(np.abs(np.diff(np.log(positive)))))
