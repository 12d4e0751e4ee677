"""What trades cost: fees by venue and side, slippage, and the fee of a liquidation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from derivdata.support.arrays import Floats
from derivdata.tables.venue_facts import fact_value

_SIDES = ("buy", "sell")


@dataclass(frozen=True)
class Costs:
    """Costs of trades [bps of the notional traded].

    Attributes
    ----------
    fee_bps
        Fee of one trade: one number for all venues; or a mapping of venues to a number, or to
        ``{"buy": …, "sell": …}``. None takes the taker fees of ``dd.venues.facts()``, and is refused where a
        symbol and venue has none there.
    slippage_bps
        Distance from the mark at which an order fills, where no depth is given.
    liquidation_bps
        Fee of a liquidation on top of the fee of the trade, for the leg that is liquidated.
    """

    fee_bps: float | Mapping[str, Any] | None = None
    slippage_bps: float = 0.0
    liquidation_bps: float = 0.0

    def by_side(self, symbols: Sequence[str], venues: Sequence[str]) -> Floats:
        """Return the fees [bps] over (buy, sell), symbols and venues."""
        fees = np.empty((2, len(symbols), len(venues)))
        if self.fee_bps is None:
            fees[:] = _published(symbols, venues)
            return fees
        if not isinstance(self.fee_bps, Mapping):
            fees[:] = _number(self.fee_bps, "fee_bps")
            return fees
        for place, venue in enumerate(venues):
            if venue not in self.fee_bps:
                given = ", ".join(map(str, self.fee_bps)) or "none"
                raise ValueError(f"fee_bps has no fee of {venue!r}; it has {given}")
            fee = self.fee_bps[venue]
            if isinstance(fee, Mapping) and set(fee) != set(_SIDES):
                raise ValueError(f"fee_bps[{venue!r}] names {sorted(fee)}; the sides are buy and sell")
            sides = [fee[side] for side in _SIDES] if isinstance(fee, Mapping) else [fee, fee]
            fees[..., place] = [[_number(side, f"fee_bps[{venue!r}]")] for side in sides]
        return fees


def _published(symbols: Sequence[str], venues: Sequence[str]) -> list[list[float]]:
    fees = [[fact_value(venue, "taker_fee_bps", symbol) for venue in venues] for symbol in symbols]
    lacking = {venue for row in fees for venue, fee in zip(venues, row, strict=True) if fee is None}
    if lacking:
        raise ValueError(
            f"no taker fee with a source is known of {', '.join(sorted(lacking))} for every symbol "
            "(dd.venues.facts() lists those that are): pass fee_bps"
        )
    return [[fee for fee in row if fee is not None] for row in fees]


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool | str) or value is None or np.ndim(value):
        raise TypeError(f"{name} must be a number, not {value!r}")
    number = float(value)
    if not np.isfinite(number):
        raise ValueError(f"{name}={value!r} is not a finite number")
    return number
