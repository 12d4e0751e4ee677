"""Rules for the options of one chain: put-call parity, expiries, strikes around the forward."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from derivdata.client.market_sizes import MIN_PRICES
from derivdata.client.reading import DAY_US, HOUR_US, CheckedResponse
from derivdata.client.snapshot_rules import marks_usd
from derivdata.client.transport import SESSION
from derivdata.support.arrays import Array

_DAILY_VENUES = frozenset(("binance", "bybit", "deribit", "okx"))
"""Venues that list calls and puts on BTC and ETH for the next days, weeks and quarters.

In 17 chains of Deribit from December 2025 and January 2026, every strike had a call and a put, every forward
was between the strikes of its expiry, and the first expiry was at most 1.3 days ahead.
"""
_NEXT_US = 4 * DAY_US
_LAST_US = 30 * DAY_US
_MIN_OF_CHAIN = 100
_MIN_EXPIRIES = 3
_MIN_OF_EXPIRY = 10
_FEW = 0.01
"""Maximum share of strikes with only a call or a put that suggests missing rows. If the share is larger, the
venue omits options without quotes."""
_MIN_PAIRS = 4
_PARITY_APART = 0.03
"""Maximum median deviation from put-call parity, as a share of the forward. Recorded chains have 0.0002."""
_ABOVE = 2.0
_BASIS_A_YEAR = 0.3
_ONE_INDEX = 0.001
"""Largest difference of one index between its rows, as a share; it moves while a venue publishes them."""
_MIN_WITHOUT_VOLATILITY = 3
_PRICED_USD = 5.0


def unlikely_chains(e: CheckedResponse) -> Iterator[str]:
    """Find chains with missing options, and mark prices that contradict parity or their volatility."""
    if e.table is None or e.table.name not in ("options_snapshot", "options_metrics") or not e.size:
        return
    now = e.as_of_us
    if e.time_us is not None:
        if np.unique(e.time_us).size > 1:
            return
        now = int(e.time_us[0])
    expiry = e.micros("expiry")
    if expiry is None or now is None:
        return
    # An archive may hold only some of the options.
    is_whole = SESSION.origin() is not None and np.unique(expiry).size >= _MIN_EXPIRIES
    is_whole &= e.requested.get("symbol", "") in MIN_PRICES
    is_whole &= e.requested.get("exchange", "") in _DAILY_VENUES
    if is_whole:
        yield from _missing_expiries(expiry, now)
    forward = e.numbers("underlying_price")
    strike = e.numbers("strike") if e.table.name == "options_snapshot" else None
    if strike is None or forward is None:
        return
    if is_whole and e.size >= _MIN_OF_CHAIN:
        yield from _missing_strikes(expiry, strike, forward)
    yield from _repeated_asks(e, strike, forward)
    yield from _without_volatility(e, expiry, now, strike, forward)
    yield from _unlike_parity(e, expiry, now, strike, forward)


def _missing_expiries(expiry: Array, now: int) -> Iterator[str]:
    """Find chains without an expiry in the next days, or without one in a later month."""
    apart = expiry[expiry > now] - now
    if not apart.size:
        return
    if apart.min() > _NEXT_US:
        yield (
            f"the first expiry is {apart.min() / DAY_US:.0f} days ahead: expected at most "
            f"{_NEXT_US / DAY_US:.0f} days; rows may be missing"
        )
    if apart.max() < _LAST_US:
        yield (
            f"the last expiry is {apart.max() / DAY_US:.0f} days ahead: expected at least "
            f"{_LAST_US / DAY_US:.0f} days; rows may be missing"
        )


def _missing_strikes(expiry: Array, strike: Array, forward: Array) -> Iterator[str]:
    """Find single strikes without a call or a put, and forwards outside the range of strikes."""
    frame = pd.DataFrame({"expiry": expiry, "strike": strike, "forward": forward})
    sides = frame.groupby(["expiry", "strike"]).size()
    single = sides[sides == 1]
    if 0 < len(single) <= max(1.0, _FEW * len(sides)):
        day, first = single.index[0]
        shown = np.datetime64(int(day), "us").astype("datetime64[D]")
        yield (
            f"{len(single)} of {len(sides)} strikes have only a call or only a put, first {first:g} of "
            f"{shown}: rows may be missing"
        )
    for day, own in frame.groupby("expiry"):
        middle = float(own["forward"].median())
        lowest, highest = float(own["strike"].min()), float(own["strike"].max())
        if len(own) >= _MIN_OF_EXPIRY and (middle < lowest or middle > highest):
            shown = np.datetime64(int(day), "us").astype("datetime64[D]")
            yield (
                f"strikes of {shown} are from {lowest:g} to {highest:g} and the underlying is at {middle:g}: "
                "rows may be missing or belong to another coin"
            )
            return


def _repeated_asks(e: CheckedResponse, strike: Array, forward: Array) -> Iterator[str]:
    """Find placeholders: repeated prices far above the strike and the underlying price."""
    for name in ("bid_usd", "ask_usd", "mark_usd"):
        prices = e.numbers(name) if name in e.columns else None
        if prices is None:
            continue
        is_above = prices > _ABOVE * np.fmax(strike, forward)
        largest = float(prices[is_above].max()) if is_above.any() else 0.0
        count = int((prices == largest).sum())
        if largest and count >= _MIN_PAIRS:
            yield (
                f"{name} is {largest:g} USD in {count} options, over {_ABOVE:g} times the strike and the "
                "underlying price: it may be a placeholder"
            )
            return


def _without_volatility(
    e: CheckedResponse, expiry: Array, now: int, strike: Array, forward: Array
) -> Iterator[str]:
    """Find options near the money with a price and a volatility of 0."""
    iv = e.numbers("iv")
    mark = e.numbers("mark_usd") if "mark_usd" in e.columns else None
    if iv is None or mark is None:
        return
    with np.errstate(invalid="ignore", divide="ignore"):
        is_near = (np.abs(np.log(strike / forward)) < 0.1) & (expiry - now > 12 * HOUR_US)
    is_wrong = is_near & (iv == 0.0) & (mark > _PRICED_USD)
    if is_wrong.sum() >= _MIN_WITHOUT_VOLATILITY:
        row = int(np.argmax(is_wrong))
        yield (
            f"iv is 0 in {int(is_wrong.sum())} options near the money, first at strike {strike[row]:g} with "
            f"a mark price of {mark[row]:g} USD: values may be missing"
        )


def _unlike_parity(
    e: CheckedResponse, expiry: Array, now: int, strike: Array, forward: Array
) -> Iterator[str]:
    """Find expiries whose mark prices violate put-call parity: call − put = forward − strike."""
    dollars = marks_usd(e, forward)
    if dollars is None:
        return
    rows = pd.DataFrame({"expiry": expiry, "strike": strike, "mark": dollars / forward, "forward": forward})
    is_call = np.asarray(e.columns["side"] == "call")
    pairs = rows[is_call].merge(rows[~is_call], on=["expiry", "strike"], suffixes=("", "_put"))
    pairs = pairs[(pairs["mark"] > 0.0) & (pairs["mark_put"] > 0.0)]
    # Farther from the forward, a discount of the strike by 5 % counts.
    pairs = pairs[(pairs["strike"] / pairs["forward"] - 1.0).abs() < 0.5]
    pairs["apart"] = pairs["mark"] - pairs["mark_put"] - 1.0 + pairs["strike"] / pairs["forward"]
    # One index for all expiries differs from each forward by the basis, and may move between its rows.
    levels = rows.groupby("expiry")["forward"].median()
    is_index = levels.max() - levels.min() < _ONE_INDEX * levels.median()
    for day, own in pairs.groupby("expiry"):
        years = (int(day) - now) / (365 * DAY_US)
        most = _PARITY_APART + (_BASIS_A_YEAR * years if is_index else 0.0)
        apart = float(own["apart"].abs().median())
        if len(own) >= _MIN_PAIRS and apart > most:
            shown = np.datetime64(int(day), "us").astype("datetime64[D]")
            yield (
                f"call minus put of {shown} differs from forward minus strike by {100 * apart:.2g} % of the "
                f"forward (median of {len(own)} strikes): mark prices may belong to other options or be in "
                "another unit"
            )
            return
