"""Trades without risk in the quotes of a chain: verticals and butterflies of an expiry, calendars of two."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from derivdata.analysis.chain.forward import slice_forwards
from derivdata.analysis.chain.normalise import expiry_slices, keys_of
from derivdata.analysis.chain.option_prices import quoted
from derivdata.support.arrays import Floats


class QuotedExpiry(NamedTuple):
    """Quotes of one expiry by strike: rows bid and ask, NaN where there is none; prices in `unit` USD."""

    labels: dict[str, Any]
    expiry: Any
    forward: float
    inverse: bool
    strike: Floats
    price: dict[tuple[str, str], Floats]
    size: dict[tuple[str, str], Floats]

    @property
    def unit(self) -> float:
        """Return what one unit of price is worth [USD]."""
        return self.forward if self.inverse else 1.0


class Trade(NamedTuple):
    """One leg: how much is bought (negative: sold), of what, at which price [currency of the option]."""

    quantity: float
    of: QuotedExpiry
    side: str
    at: int

    @property
    def key(self) -> tuple[str, str]:
        """Return the quote that this leg trades at."""
        return self.side, "ask" if self.quantity > 0 else "bid"


def quoted_expiries(rows: pd.DataFrame) -> Iterator[QuotedExpiry]:
    """Yield the quotes of each expiry of each chain in order of time, those in coin and in USD apart."""
    prices = quoted(rows)
    if not prices.known:
        raise ValueError("the chain has no bid and ask prices: nothing in it can be traded")
    table = slice_forwards(rows, methods=("underlying", "parity", "delta", "spot"))
    _, place = expiry_slices(rows)
    side = rows["side"].astype(object)
    frame = rows.assign(bid=prices.bid, ask=prices.ask, inverse=prices.inverse, place=place, side=side)
    for name in ("bid", "ask"):
        frame[name] = frame[name].where(frame[name] > 0.0)
        size = f"{name}_size"
        frame[size] = frame[size].astype(np.float64) if size in frame else np.nan
    frame = frame[(frame["year_fraction"] > 0.0) & frame[["bid", "ask"]].notna().any(axis=1)]
    labels = keys_of(rows)
    # In order of time, and of one place's rows the cheapest first: the order of rows decides nothing.
    frame = frame.sort_values(["place", "strike", "side", "ask", "bid"], ascending=[True] * 4 + [False])
    for at, group in frame.groupby("place", sort=True):
        forward = float(table["forward"].loc[at])
        for inverse, part in group.groupby("inverse"):
            values = ["bid", "ask", "bid_size", "ask_size"]
            wide = part.pivot_table(
                index="strike", columns="side", values=values, aggfunc="first", dropna=False
            )
            strike = wide.index.to_numpy(np.float64)
            nothing = np.full(strike.size, np.nan)

            def column(name: str, side: str, wide: Any = wide, nothing: Any = nothing) -> Floats:
                there = (name, side) in wide.columns
                return np.asarray(wide[name, side], dtype=np.float64) if there else nothing

            sides = [(side, end) for side in ("call", "put") for end in ("bid", "ask")]
            yield QuotedExpiry(
                {name: part[name].iloc[0] for name in labels},
                part["expiry"].iloc[0],
                forward,
                bool(inverse),
                strike,
                {(side, end): column(end, side) for side, end in sides},
                {(side, end): column(f"{end}_size", side) for side, end in sides},
            )


def verticals(each: QuotedExpiry) -> Iterator[tuple[str, list[Trade]]]:
    """For every option that can be sold, the cheapest that pays no less everywhere."""
    for side, step in (("call", 1), ("put", -1)):
        bid, ask = each.price[side, "bid"][::step], each.price[side, "ask"][::step]
        count = bid.size
        for place in range(1, count):
            before = ask[:place]
            if np.isnan(bid[place]) or np.isnan(before).all():
                continue
            best = int(np.nanargmin(before))
            if bid[place] > before[best]:
                ends = [place, best] if step == 1 else [count - 1 - place, count - 1 - best]
                yield "vertical", [Trade(-1.0, each, side, ends[0]), Trade(1.0, each, side, ends[1])]


def butterflies(each: QuotedExpiry) -> Iterator[tuple[str, list[Trade]]]:
    """For every option that can be sold, the cheapest mix of a lower and a higher strike."""
    strike = each.strike
    for side in ("call", "put"):
        bid, ask = each.price[side, "bid"], each.price[side, "ask"]
        for place in range(1, strike.size - 1):
            if np.isnan(bid[place]):
                continue
            low, high = strike[:place, None], strike[None, place + 1 :]
            share = (high - strike[place]) / (high - low)
            cost = share * ask[:place, None] + (1.0 - share) * ask[None, place + 1 :]
            if np.isnan(cost).all():
                continue
            i, j = np.unravel_index(np.nanargmin(cost), cost.shape)
            if bid[place] > cost[i, j]:
                yield (
                    "butterfly",
                    [
                        Trade(-1.0, each, side, place),
                        Trade(float(share[i, j]), each, side, int(i)),
                        Trade(float(1.0 - share[i, j]), each, side, int(place + 1 + j)),
                    ],
                )


def calendars(near: QuotedExpiry, far: QuotedExpiry) -> Iterator[list[Trade]]:
    """For every option of the near expiry that can be sold, the cheapest far one of no worse moneyness.

    With F₂ = R F₁ kept, 1/R calls of strike K₂ ≤ R K₁ are worth ``(S − K₂/R)⁺ ≥ (S − K₁)⁺`` or more when the
    near one expires; paid in coin it is one of them.
    """
    ratio = far.forward / near.forward
    if near.inverse != far.inverse or not np.isfinite(ratio):
        return
    quantity = 1.0 if near.inverse else 1.0 / ratio
    for side, sign in (("call", 1.0), ("put", -1.0)):
        bid, ask = near.price[side, "bid"], far.price[side, "ask"]
        for place in np.flatnonzero(~np.isnan(bid)):
            fits = (sign * (near.strike[place] * ratio - far.strike) >= 0.0) & ~np.isnan(ask)
            if not fits.any():
                continue
            best = int(np.argmin(np.where(fits, ask, np.inf)))
            if bid[place] > quantity * ask[best]:
                yield [Trade(-1.0, near, side, int(place)), Trade(quantity, far, side, best)]
