"""Tickers that were renamed or reused: dated facts, each confirmed by two public sources.

A ticker names a coin only at a time. ``MATIC`` became ``POL``. ``LIT`` was Litentry, which became ``HEI``,
and is Lighter now. Venues rename on different days, so an old ticker is the new one at any time, unless
another coin uses it later.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

_LATE_VENUES = np.timedelta64(90, "D")
"""How long after a renaming venues may still use the old ticker."""


class RenamedTicker(NamedTuple):
    """One renaming of a ticker, one old coin for one new coin."""

    old: str
    new: str
    renamed: str  # the day on which the sources' venue ended markets of the old ticker
    reused: str  # the day from which the old ticker is another coin; empty if it is not
    sources: tuple[str, ...]


RENAMED_TICKERS = (
    RenamedTicker(
        "LUNA",
        "LUNC",
        "2022-05-28",
        "2022-05-28",
        (
            "Terra, exchange migration guide (junhoyeo.github.io/terra-docs, migration)",
            "InvestorPlace, 2022-05-26, Terra's new LUNA (investorplace.com/2022/05)",
        ),
    ),
    RenamedTicker(
        "RNDR",
        "RENDER",
        "2024-07-09",
        "",
        (
            "AZC News, OKX delists RNDR futures and margin trading (azc.news, id 24185)",
            "MEXC, Render tokenomics, 2024-12-24: RENDER, formerly RNDR, 1:1 (mexc.com/price/RENDER)",
        ),
    ),
    RenamedTicker(
        "MATIC",
        "POL",
        "2024-09-10",
        "",
        (
            "CoinGape, Binance announces MATIC to POL token swap, 1:1 (coingape.com)",
            "DailyChain, Binance to halt MATIC trades for the POL swap, 1:1 (dailychain.news)",
        ),
    ),
    RenamedTicker(
        "FTM",
        "S",
        "2025-01-13",
        "",
        (
            "Binance announcement, FTM token swap and brand upgrade to S, 1:1 (Square 17987822306257)",
            "CoinJar, Fantom to Sonic, 2025-01-08, 1:1 (coinjar.com/learn/fantom-to-sonic)",
        ),
    ),
    RenamedTicker(
        "LIT",
        "HEI",
        "2025-02-10",
        "2025-12-30",
        (
            "Bitget announcement 12560603822009, 2025-01-25: 1 LIT = 1 HEI",
            "Litentry technical committee, proposal 35 (litentry.subsquare.io/techcomm/proposals/35)",
            "Gate news 17316738, 2025-12-30: Lighter launches LIT",
            "ChainGPT, 2025-12-31: Lighter unveils LIT token",
        ),
    ),
)
"""Renamings, the oldest first. All are one old coin for one new coin."""
_BY_OLD = {ticker.old: ticker for ticker in RENAMED_TICKERS}


def other_tickers(coin: str) -> list[str]:
    """Return the tickers that a coin had or has besides this one."""
    own = {coin}
    for ticker in RENAMED_TICKERS:
        if ticker.new == coin or (ticker.old == coin and not ticker.reused):
            own |= {ticker.old, ticker.new}
    return sorted(own - {coin})


def is_another_coin_from(ticker: RenamedTicker) -> pd.Timestamp | None:
    """Return the time from which the old ticker is another coin: when it is reused, or earlier.

    Perpetuals are listed before a coin is launched. So rows count for the other coin from 90 days after the
    renaming on, by which venues have ended the old markets.
    """
    if not ticker.reused:
        return None
    late = pd.Timestamp(ticker.renamed, tz="UTC") + _LATE_VENUES
    return min(late, pd.Timestamp(ticker.reused, tz="UTC"))


def coins_at(coins: pd.Series, times: pd.Series) -> pd.Series:
    """Return the coins that tickers are at some times: old tickers become the new ones."""
    renamed = coins
    for old in set(coins.unique()) & _BY_OLD.keys():
        ticker = _BY_OLD[old]
        until = is_another_coin_from(ticker)
        rows = coins == old
        if until is not None:
            rows &= times < until
        renamed = renamed.mask(rows, ticker.new)
    return renamed
