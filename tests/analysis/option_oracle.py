"""Hand-made chains, and option strategies computed in a plain loop, one leg at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["FUNDING_BPS", "STEP", "SlowStrangle", "made_chains", "perpetual", "settlements"]

STEP = pd.Timedelta(8, "h")
FUNDING_BPS = 1.5  # of each interval of 8 hours
_START = pd.Timestamp("2026-01-02T08:00", tz="UTC")


def _normal(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def black(forward: float, strike: float, years: float, iv: float, side: str) -> tuple[float, float]:
    """Return Black's price and its derivative to the forward."""
    sign = 1.0 if side == "call" else -1.0
    if years <= 0.0:
        return max(sign * (forward - strike), 0.0), 0.0
    s = iv * math.sqrt(years)
    d1 = math.log(forward / strike) / s + s / 2.0
    price = sign * (forward * _normal(sign * d1) - strike * _normal(sign * (d1 - s)))
    return price, sign * _normal(sign * d1)


def made_chains(
    spots: Any,
    *,
    in_coin: bool = True,
    step: pd.Timedelta = STEP,
    expiries: int = 4,
    carry: float = 0.03,
    half_spread: float = 0.01,
    iv: float | None = None,
    strikes: tuple[float, float, float] = (60_000.0, 140_001.0, 2_000.0),
) -> pd.DataFrame:
    """Return chains of weekly expiries (Fridays 08:00 UTC) along a path of the index.

    The volatility is 0.5 + 0.02 sin(row) and a smile in log-moneyness, or `iv` everywhere. Bid and ask are
    `half_spread` of the price below and above it.
    """
    rows = []
    for place, spot in enumerate(spots):
        now = _START + place * step
        friday = _START + (now - _START) // pd.Timedelta(7, "D") * pd.Timedelta(7, "D")
        for week in range(1, expiries + 1):
            expiry = friday + week * pd.Timedelta(7, "D")
            years = (expiry - now) / pd.Timedelta(365, "D")
            forward = spot * math.exp(carry * years)
            for strike in np.arange(*strikes):
                k = math.log(strike / forward)
                level = 0.5 + 0.02 * math.sin(place)
                vol = iv if iv is not None else level - 0.1 * k + 0.15 * k * k
                for side in ("call", "put"):
                    price, _ = black(forward, strike, years, vol, side)
                    price = price / forward if in_coin else price
                    rows.append((now, expiry, strike, side, vol, forward, spot, price))
    names = ["time", "expiry", "strike", "side", "iv", "underlying_price", "index_price_usd", "price"]
    chain = pd.DataFrame(rows, columns=names)
    unit = "coin" if in_coin else "usd"
    least = 1e-4 if in_coin else 5.0
    return chain.drop(columns="price").assign(
        symbol="BTC",
        exchange="deribit",
        open_interest=1.0,
        **{
            f"bid_{unit}": (chain["price"] * (1.0 - half_spread)).where(chain["price"] > least),
            f"ask_{unit}": chain["price"] * (1.0 + half_spread) + least,
        },
    )


def perpetual(spots: Any, step: pd.Timedelta = STEP) -> pd.DataFrame:
    """Return marks of a perpetual 5 USD above the index."""
    times = pd.DatetimeIndex([_START + place * step for place in range(len(spots))]).as_unit("us")
    price = np.asarray(spots) + 5.0
    return pd.DataFrame(
        {"symbol": "BTC", "exchange": "deribit", "time": times, "kind": "mark", "price_usd": price}
    )


def settlements(count: int) -> pd.DataFrame:
    """Return payments every 8 hours of `FUNDING_BPS`."""
    times = pd.DatetimeIndex([_START + place * STEP for place in range(count)]).as_unit("us")
    return pd.DataFrame(
        {
            "symbol": "BTC",
            "exchange": "deribit",
            "time": times,
            "kind": "settled",
            "rate_bps_8h": FUNDING_BPS,
            "interval_hours": 8.0,
        }
    )


def smile_vol(surfaces: Any, row: int, expiry: Any, strike: float, forward: float) -> float:
    """Return the volatility of a raw SVI slice and the bumps on it, by their formulas."""
    at = surfaces.isel(time=row).sel(expiry=expiry.tz_localize(None))
    a, b, rho, m, sigma = (float(at[name]) for name in ("a", "b", "rho", "m", "sigma"))
    k = math.log(strike / forward)
    w = a + b * (rho * (k - m) + math.sqrt((k - m) ** 2 + sigma**2))
    if "bump_1" in at:
        radius = 0.8 * math.sqrt(12.0)
        for place, centre in enumerate((-4.0, -2.25, -1.0, 0.0, 1.0, 2.25, 4.0), start=1):
            z = (k / float(at["bump_unit"]) - centre) / radius
            w += float(at[f"bump_{place}"]) * (1.0 - z * z) ** 6 if abs(z) < 1.0 else 0.0
    return math.sqrt(w / float(at["year_fraction"]))


class SlowStrangle:
    """A short strangle that is renewed when it has expired, worked out chain by chain."""

    def __init__(
        self,
        chains: pd.DataFrame,
        surfaces: Any,
        *,
        quoted_in_coin: bool,
        account_in_coin: bool,
        inverse_hedge: bool,
        delivery: dict[Any, float],
        perp: pd.DataFrame,
        fees: dict[str, float],
        hedge_rows: int,
        delta: float,
        days: float,
        capital: float,
    ) -> None:
        self.chains = dict(list(chains.groupby("time")))
        self.surfaces, self.fees, self.delivery = surfaces, fees, delivery
        self.quoted_in_coin, self.account_in_coin = quoted_in_coin, account_in_coin
        self.inverse_hedge, self.hedge_rows = inverse_hedge, hedge_rows
        self.delta, self.days, self.cash = delta, days, capital
        self.prices = dict(zip(perp["time"], perp["price_usd"], strict=True))
        self.held: list[dict[str, Any]] = []
        self.hedge, self.hedge_price, self.hedged_row = 0.0, float("nan"), -(10**9)

    def equity(self) -> list[float]:
        """Return the equity at every chain."""
        times = sorted(self.chains)
        return [self._at(row, now, row == len(times) - 1) for row, now in enumerate(times)]

    def _at(self, row: int, now: Any, last: bool) -> float:
        chain = self.chains[now]
        spot, price = chain["index_price_usd"].iloc[0], self.prices[now]
        self.usd, self.coin = (1 / spot, 1.0) if self.account_in_coin else (1.0, spot)
        self._carry_hedge(price)
        changed = self._deliver(now)
        if not self.held and not last and (row == 0 or changed):
            self._sell(row, now, chain)
            changed = True
        forwards = dict(zip(chain["expiry"], chain["underlying_price"], strict=True))
        values = [self._valued(row, now, leg, forwards[leg["expiry"]], spot) for leg in self.held]
        slope = sum(part for _, part in values)
        if changed or row - self.hedged_row >= self.hedge_rows:
            per_unit = self.coin / price if self.inverse_hedge else price * self.usd
            change = -slope / per_unit - self.hedge
            self.cash -= abs(change) * per_unit * (self.fees["hedge"] + self.fees["slippage"])
            self.hedge += change
            self.hedged_row = row
        return float(self.cash + sum(value for value, _ in values))

    def _carry_hedge(self, price: float) -> None:
        if self.hedge:
            notional = self.hedge if self.inverse_hedge else self.hedge * price
            self.cash -= notional * FUNDING_BPS / 1e4 * self.usd
            if self.inverse_hedge:
                self.cash += self.hedge * (1 / self.hedge_price - 1 / price) * self.coin
            else:
                self.cash += self.hedge * (price - self.hedge_price) * self.usd
        self.hedge_price = price

    def _deliver(self, now: Any) -> bool:
        due = [leg for leg in self.held if leg["expiry"] == now]
        for leg in due:
            paid_at = self.delivery[now]
            sign = 1 if leg["side"] == "call" else -1
            payoff = max(sign * (paid_at - leg["strike"]), 0.0)
            fee = min(self.fees["delivery"] * paid_at, self.fees["cap"] * payoff)
            self.cash -= (payoff + fee) / (paid_at if self.account_in_coin else 1.0)
            self.held.remove(leg)
        return bool(due)

    def _sell(self, row: int, now: Any, chain: pd.DataFrame) -> None:
        expiry = min(
            chain["expiry"].unique(), key=lambda e: abs((e - now) / pd.Timedelta(1, "D") - self.days)
        )
        near = chain[chain["expiry"] == expiry]
        forward, years = near["underlying_price"].iloc[0], (expiry - now) / pd.Timedelta(365, "D")
        column, unit = ("bid_coin", self.coin) if self.quoted_in_coin else ("bid_usd", self.usd)
        for side in ("call", "put"):
            options = near[(near["side"] == side) & near[column].notna()]

            def off(strike: float, side: str = side) -> float:
                vol = smile_vol(self.surfaces, row, expiry, strike, forward)
                return abs(abs(black(forward, strike, years, vol, side)[1]) - self.delta)

            strike = min(options["strike"], key=off)
            bid = options.loc[options["strike"] == strike, column].iloc[0]
            # The underlying of the fee is one coin in every account currency.
            fee = min(self.fees["option"] * self.coin, self.fees["cap"] * bid * unit)
            self.cash += bid * unit - fee
            self.held.append({"expiry": expiry, "side": side, "strike": strike})

    def _valued(
        self, row: int, now: Any, leg: dict[str, Any], forward: float, spot: float
    ) -> tuple[float, float]:
        """Return the value of one short option, and its change per relative move of all prices."""
        years = (leg["expiry"] - now) / pd.Timedelta(365, "D")
        vol = smile_vol(self.surfaces, row, leg["expiry"], leg["strike"], forward)
        price, delta = black(forward, leg["strike"], years, vol, leg["side"])
        if self.account_in_coin:
            ratio = 1.0 if self.quoted_in_coin else forward / spot
            return -price / forward * ratio, -(delta - price / forward) * ratio
        ratio = spot / forward if self.quoted_in_coin else 1.0
        return -price * ratio, -delta * forward * ratio
