"""Portfolios of pairs in a backtest: sizes by time, and accounts whose legs share their collateral."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from derivdata.analysis.backtest.book import Account, Book
from derivdata.analysis.backtest.market import Market
from derivdata.analysis.inputs import require_times, require_variables
from derivdata.analysis.panels import labels_of, positive
from derivdata.support.arrays import Bools, Floats, Indices


@dataclass(frozen=True, eq=False)
class Portfolio:
    """Hold pairs in the sizes that `derivdata.analysis.funding.portfolio` gave, many of a symbol at once.

    In place of a rule of `carry`, which then leaves ``leg_usd`` and ``leverage`` aside: sizes and collateral
    grow and shrink with the equity. The legs on a venue share one account. It is liquidated whole where its
    equity is below `carry`'s ``maintenance`` of its legs' notional, and the other legs of its pairs are
    closed with it. Collateral is set to what the sizes call for when they change and at every
    ``transfer_every``, as far as the equity reaches.

    Attributes
    ----------
    sizes
        Dims ``symbol``, ``pair`` and ``time``, with ``leg_usd`` and, over ``exchange`` and ``time``,
        ``collateral_usd``, both for a capital of ``attrs["capital_usd"]``; ``long`` and ``short`` along
        ``pair``. They count from the first row at or after their time.
    band
        A pair is left as it is while its size is within this fraction of what is wanted: each trade costs.
        What coins that are owned gain is money only once they are sold: 0 keeps the other leg's collateral.
    """

    sizes: xr.Dataset = field(repr=False)
    band: float = 0.1

    def __post_init__(self) -> None:
        require_variables(
            self.sizes, "sizes", ["leg_usd", "collateral_usd"], dims=["symbol", "pair", "exchange", "time"]
        )
        require_times(self.sizes, "sizes")
        if (np.diff(self.sizes["time"].to_numpy()) <= np.timedelta64(0, "us")).any():
            raise ValueError("the times of sizes must ascend without repeats")
        positive(self.sizes.attrs.get("capital_usd", np.nan), "sizes.attrs['capital_usd']")
        if not 0.0 <= self.band < 1.0:
            raise ValueError(f"band={self.band} is a fraction of a pair's size, from 0 up to 1")

    def on(self, market: Market) -> Sizes:
        """Return the sizes by the places of a market; pairs that are never wanted have none."""
        names = labels_of(self.sizes["leg_usd"], "symbol")
        venues = labels_of(self.sizes["collateral_usd"], "exchange")
        for dim, labels, wanted in (("symbol", market.symbols, names), ("exchange", market.venues, venues)):
            strange = sorted(set(wanted.tolist()) - set(labels))
            if strange:
                raise ValueError(f"the panel has no {dim} {strange[0]!r}, which sizes are of")
        legs = np.array(
            [
                [market.venues.index(str(name)) for name in self.sizes[leg].to_numpy()]
                for leg in ("long", "short")
            ],
            dtype=np.intp,
        ).reshape(2, -1)
        leg_usd = np.nan_to_num(self.sizes["leg_usd"].transpose("time", "symbol", "pair").to_numpy())
        symbol, pair = np.nonzero((leg_usd > 0.0).any(axis=0))
        places = np.array([market.symbols.index(str(name)) for name in names], dtype=np.intp)
        collateral = self.sizes["collateral_usd"].reindex(exchange=list(market.venues), fill_value=0.0)
        return Sizes(
            self.sizes["time"].to_numpy(),
            places[symbol],
            legs[:, pair],
            leg_usd[:, symbol, pair],
            np.nan_to_num(collateral.transpose("time", "exchange").to_numpy()),
            float(self.sizes.attrs["capital_usd"]),
            self.band,
        )


class Sizes(NamedTuple):
    """Sizes of a portfolio; its places are pairs of a symbol."""

    times: Any
    symbol: Indices
    legs: Indices
    """(leg, place) venues."""
    leg_usd: Floats
    """(time, place)."""
    collateral_usd: Floats
    """(time, venue)."""
    capital: float
    band: float

    def due(self, now: Any, previous: Any) -> int | None:
        """Return the place of the newest sizes at a row, None where the row before had them too."""
        newest, before = np.searchsorted(self.times, [now, previous], side="right") - 1
        return None if newest < 0 or (newest == before and now != previous) else int(newest)


class Accounts(Book):
    """Positions of which all legs on a venue share one account.

    Its equity is that of its legs: which leg the collateral is booked to means nothing.
    """

    def __init__(self, sizes: Sizes, shape: tuple[int, int], account: Account) -> None:
        super().__init__(sizes.symbol, shape, account)
        self.sizes = sizes
        self.collateral = np.zeros(shape[1])
        """Equity that each account is brought to [USD]."""
        self.allotted = 0.0

    def _by_venue(self, amounts: Floats) -> Floats:
        """Return the sums of the legs' amounts over venues."""
        there = self.legs >= 0
        return np.asarray(np.bincount(self.legs[there], amounts[there], self.collateral.size), float)

    def lost_legs(self) -> Bools:
        """Tell which legs are on a venue whose account has less left than its maintenance margin."""
        notional = self.coins * self.mark
        of_legs = self.account.maintenance_usd(self.symbol, self.legs, self.coins, notional)
        needs = self._by_venue(of_legs)
        lost = ~self.account.owned & (self._by_venue(self._equity()) < needs)
        return (self.legs >= 0) & lost[self.legs]

    def transfer(self, now: float, equity: float) -> None:
        """Bring the accounts to their collateral, where the last transfer is long enough ago."""
        if now - self.allotted >= self.account.transfer_hours:
            self.allot(now, equity)

    def allot(self, now: float, equity: float) -> None:
        """Bring the accounts to their collateral, to as large a part of each as the equity [USD] reaches.

        Coins that are owned are what they are worth: only the rest can be moved.
        """
        notional = self._by_venue(self.coins * self.mark)
        owned = self.account.owned
        coins = notional * owned
        used = np.where((notional > 0.0) & ~owned, self.collateral, 0.0)
        share = max(equity - float(coins.sum()), 0.0) / max(float(used.sum()), 1e-12)
        self._book(coins + min(1.0, share) * used)
        self.allotted = now

    def close(self, at: Indices, *rest: Any, **named: Any) -> tuple[Floats, Any, Any]:
        """Close pairs as `Book.close`; what their legs have gained or lost stays in the accounts."""
        left = self._by_venue(self._equity())
        traded = super().close(at, *rest, **named)
        self._book(left)
        return traded

    def _book(self, equity: Floats) -> None:
        """Book the equity of the accounts to their legs, by notional."""
        notional = self.coins * self.mark
        on_venue = self._by_venue(notional)
        share = equity / np.where(on_venue > 0.0, on_venue, 1.0)
        self.margin += np.where(self.legs >= 0, share[self.legs] * notional - self._equity(), 0.0)
