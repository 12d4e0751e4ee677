"""Tradable static arbitrage at bid and ask, with sizes and net of fees, including across expiries."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from scipy.optimize import linprog

from derivdata.analysis.chain.forward import slice_forwards
from derivdata.analysis.chain.prepared import PreparedChain, prepare, require_price_units
from derivdata.analysis.labelling import keys_of
from derivdata.analysis.panels import require_columns
from derivdata.support.arguments import typed
from derivdata.support.arrays import Floats
from derivdata.tables.venue_facts import fact_value
from derivdata.units import BPS

_MIN_PROFIT = 1e-7  # minimum profit as a fraction of the forward, above rounding errors
_NOTHING = 1e-9  # coins of a leg


class QuotedExpiry(NamedTuple):
    """Quotes of one expiry by strike: rows bid and ask, NaN if missing; prices in `unit` USD."""

    labels: dict[str, Any]
    expiry: Any
    forward: float
    discount: float
    inverse: bool
    strike: Floats
    price: dict[tuple[str, str], Floats]
    size: dict[tuple[str, str], Floats]

    @property
    def unit(self) -> float:
        """Return the value of one unit of price [USD]."""
        return self.forward if self.inverse else 1.0


class Trade(NamedTuple):
    """One leg: bought quantity (negative: sold), option, and price [currency of the option]."""

    quantity: float
    of: QuotedExpiry
    side: str
    at: int

    @property
    def key(self) -> tuple[str, str]:
        """Return the key of the quote that this leg trades at."""
        return self.side, "ask" if self.quantity > 0 else "bid"


class Future(NamedTuple):
    """Bid and ask of a future [USD]."""

    bid: float
    ask: float


class Hedge(NamedTuple):
    """A bought or sold future. The quantity is in USD if options are paid in coin, otherwise in coins."""

    verb: str
    price: float
    amount: float


class Portfolio(NamedTuple):
    """Trades without a possible loss, the future, and the profit in the unit of the prices."""

    trades: list[Trade]
    hedge: Hedge | None
    profit: float


def quoted_expiries(chain: PreparedChain) -> Iterator[QuotedExpiry]:
    """Yield the quotes of each expiry of each chain in chronological order, separately for coin and USD."""
    rows = chain.rows
    prices = chain.prices
    if not prices.known:
        raise ValueError("options must have bid and ask prices to find executable arbitrage")
    table = slice_forwards(chain, methods=("underlying", "parity", "delta", "spot"))
    frame = rows.assign(bid=prices.bid, ask=prices.ask, inverse=prices.inverse, place=chain.place)
    frame["side"] = frame["side"].astype(object)
    for name in ("bid", "ask"):
        frame[name] = frame[name].where((frame[name] > 0.0) & np.isfinite(frame[name]))
        size = f"{name}_size"
        frame[size] = frame[size].astype(np.float64) if size in frame else np.nan
    has_quote = frame[["bid", "ask"]].notna().any(axis=1)
    frame = frame[(frame["year_fraction"] > 0.0) & np.isfinite(frame["strike"]) & has_quote]
    labels = keys_of(rows)
    # Sorted by time, place and price, so that the result does not depend on the order of the rows.
    frame = frame.sort_values(["place", "strike", "side", "ask", "bid"], ascending=[True] * 4 + [False])
    for at, group in frame.groupby("place", sort=True):
        forward = float(table["forward"].loc[at])
        discount = float(table["discount"].fillna(1.0).loc[at])
        for inverse, rows_of_unit in group.groupby("inverse"):
            values = ["bid", "ask", "bid_size", "ask_size"]
            wide = rows_of_unit.pivot_table(
                index="strike", columns="side", values=values, aggfunc="first", dropna=False
            )
            wide = wide.reindex(columns=pd.MultiIndex.from_product([values, ("call", "put")]))
            price = {}
            sizes = {}
            for side, quote in itertools.product(("call", "put"), ("bid", "ask")):
                price[side, quote] = wide[quote, side].to_numpy(np.float64)
                sizes[side, quote] = wide[f"{quote}_size", side].to_numpy(np.float64)
            yield QuotedExpiry(
                labels=rows_of_unit[labels].iloc[0].to_dict(), expiry=rows_of_unit["expiry"].iloc[0],
                forward=forward, discount=discount, inverse=bool(inverse),
                strike=wide.index.to_numpy(np.float64), price=price, size=sizes,
            )  # fmt: skip


def verticals(quotes: QuotedExpiry) -> Iterator[tuple[str, list[Trade]]]:
    """Find the cheapest option with at least the same payoff everywhere, for every option with a bid."""
    for side in ("call", "put"):
        # Calls with a lower strike pay at least as much, and puts with a higher one: reverse the strikes of
        # puts, so that the better options come first.
        order = np.arange(quotes.strike.size)
        if side == "put":
            order = order[::-1]
        bid = quotes.price[side, "bid"][order]
        ask = quotes.price[side, "ask"][order]
        for place in range(1, bid.size):
            better = ask[:place]
            if np.isnan(bid[place]) or np.isnan(better).all():
                continue
            best = int(np.nanargmin(better))
            if bid[place] > better[best]:
                sold = Trade(-1.0, quotes, side, int(order[place]))
                bought = Trade(1.0, quotes, side, int(order[best]))
                yield "vertical", [sold, bought]


def butterflies(quotes: QuotedExpiry) -> Iterator[tuple[str, list[Trade]]]:
    """Find the cheapest mix of a lower and a higher strike, for every option with a bid."""
    strike = quotes.strike
    for side in ("call", "put"):
        bid = quotes.price[side, "bid"]
        ask = quotes.price[side, "ask"]
        for place in range(1, strike.size - 1):
            if np.isnan(bid[place]):
                continue
            low = strike[:place, None]
            high = strike[None, place + 1 :]
            share = (high - strike[place]) / (high - low)
            cost = share * ask[:place, None] + (1.0 - share) * ask[None, place + 1 :]
            if np.isnan(cost).all():
                continue
            i, j = np.unravel_index(np.nanargmin(cost), cost.shape)
            if bid[place] > cost[i, j]:
                lower = float(share[i, j])
                legs = ((-1.0, place), (lower, int(i)), (1.0 - lower, int(place + 1 + j)))
                yield "butterfly", [Trade(quantity, quotes, side, at) for quantity, at in legs]


def calendars(near: QuotedExpiry, far: QuotedExpiry) -> Iterator[list[Trade]]:
    """Find the cheapest far option of at least the same moneyness, for every near option with a bid.

    With F₂ = R F₁ fixed, 1/R calls of strike K₂ ≤ R K₁ are worth at least ``(S − K₂/R)⁺ ≥ (S − K₁)⁺`` when
    the near one expires; options paid in coin need a quantity of one. With an interest rate, the payoff of
    the far options is discounted to that time, so more of them are needed.
    """
    ratio = far.forward / near.forward
    if near.inverse != far.inverse or not np.isfinite(ratio):
        return
    quantity = (1.0 if near.inverse else 1.0 / ratio) * (near.discount / far.discount)
    for side, sign in (("call", 1.0), ("put", -1.0)):
        bid = near.price[side, "bid"]
        ask = far.price[side, "ask"]
        for place in np.flatnonzero(~np.isnan(bid)):
            fits = (sign * (near.strike[place] * ratio - far.strike) >= 0.0) & ~np.isnan(ask)
            if not fits.any():
                continue
            best = int(np.argmin(np.where(fits, ask, np.inf)))
            if bid[place] > quantity * ask[best]:
                yield [Trade(-1.0, near, side, int(place)), Trade(quantity, far, side, best)]


_COLUMNS = (
    *("kind", "expiry", "far_expiry", "side", "legs"),
    *("gross_usd", "fees_usd", "net_usd", "size_coin", "fees_of"),
)


@typed
def executable(
    options: pd.DataFrame | xr.Dataset,
    *,
    futures: pd.DataFrame | None = None,
    fee_rate: float | None = None,
    fee_cap: float | None = None,
    future_fee_rate: float | None = None,
    interest_rate: float | None = None,
    at: Any = None,
) -> pd.DataFrame:
    """Find static arbitrage between executable quotes: buys at the ask, sells at the bid.

    Parameters
    ----------
    options
        The table ``options_snapshot``, or the result of `clean`, with ``bid_coin`` and ``ask_coin`` or
        ``bid_usd`` and ``ask_usd``; sizes from columns ``bid_size`` and ``ask_size`` [coins] if present. A
        bid or ask of 0, or an infinite one, is missing.
    futures
        Quotes of the futures: columns ``expiry``, ``bid_usd``, ``ask_usd`` (and ``symbol``, ``exchange`` if
        they differ), for parity. Without it there are no rows of kind ``"parity"``.
    fee_rate, fee_cap
        Fee of an option [fraction of the forward], at most `fee_cap` of its price. None uses the taker fee of
        the chain's venue in ``dd.venues.facts``, or Deribit's fees (0.03 %, capped at 12.5 %) if that venue
        has no facts. The column ``fees_of`` names the venue.
    future_fee_rate
        Fee of a future [fraction of its value]; None as above (Deribit: 0.05 %).
    interest_rate
        Continuous rate [1/year] at which cash is lent and borrowed until expiry; None uses the chain's column
        ``interest_rate`` (Binance publishes one), or 0 without one.
    at
        Timestamp of the quotes if the chain does not have ``time``.

    Returns
    -------
    DataFrame, one row per violation before fees, the most profitable first
        The labels of the chain; ``kind``; ``expiry`` and ``far_expiry`` (missing except calendars);
        ``side``; ``legs``, the trades in words; ``gross_usd``, ``fees_usd`` and ``net_usd`` [USD per coin of
        the first leg]; ``size_coin`` [coins of the first leg], the minimum that its legs offer, NaN where the
        chain has no sizes; ``fees_of``, the venue whose published fees are used, ``"given"`` if all are
        arguments. Kinds:

        - ``"vertical"``: a call has an ask below the bid of a call with a higher strike, or a put has an ask
          below the bid of a put with a lower strike.
        - ``"butterfly"``: a bid is above the cost of a combination of a lower and a higher strike whose
          payoff is at least as high.
        - ``"box"``: call minus put at two strikes locks in two different forwards; for prices in coin,
          quantities are in proportion to 1/strike.
        - ``"parity"``: call minus put at one strike against the future; for prices in coin, the future has as
          many USD as the strike.
        - ``"portfolio"``: any other trades of the expiry, at most 1 coin a quote, with the future where it is
          given, that gain immediately and cannot lose, found by a linear programme if no other kind exists:
          verticals that cost more than their width, options against a forward of another strike, and mixes of
          more legs.
        - ``"calendar"``: a bid is above the ask of a later expiry at the same or a better moneyness. Only
          this kind assumes that the ratio of the two forwards is constant until the first expiry.

    Raises
    ------
    ValueError
        Bid or ask is missing; prices are not in the unit of their column name; a fee is negative.

    Notes
    -----
    Profits are present values: profits locked in at expiry are discounted at the interest rate. Options paid
    in coin are compared in coin, where dominance of payoffs is preserved, and the profit is valued at the
    forward. Only the best combination of an option is listed. Quotes of a snapshot may be from
    different times.
    """
    given = (fee_rate, fee_cap, future_fee_rate)
    if not all(fee is None or fee >= 0.0 for fee in given):
        raise ValueError("fee_rate, fee_cap and future_fee_rate must be 0 or more")
    chain = prepare(options, at=at, interest_rate=interest_rate)
    require_price_units(chain)
    by_chain: dict[tuple[Any, ...], list[QuotedExpiry]] = {}
    for quotes in quoted_expiries(chain):
        by_chain.setdefault(tuple(quotes.labels.values()), []).append(quotes)
    trades: list[dict[str, Any]] = []
    for expiries in by_chain.values():
        trades += _violations(expiries, futures, given)
    table = pd.DataFrame(trades, columns=[*keys_of(chain.rows), *_COLUMNS])
    for name in ("expiry", "far_expiry"):
        table[name] = pd.to_datetime(table[name], utc=True).dt.as_unit("us")
    table = table.astype(dict.fromkeys(("gross_usd", "fees_usd", "net_usd", "size_coin"), np.float64))
    return table.sort_values("net_usd", ascending=False, kind="stable", ignore_index=True)


def portfolio(quotes: QuotedExpiry, future: Future | None) -> Portfolio | None:
    """Find the most profitable trades of at most 1 coin per quote that cannot lose at expiry.

    A linear programme maximises sales minus purchases minus the cash ``c`` that covers the worst payoff,
    under ``payoff(S) + c ≥ 0`` for every price S. Paid in coin both sides are multiplied by S, so that
    payoffs are linear between strikes in either case. They are checked at 0, at the strikes, and in their
    slope beyond the last one. Premiums count with interest. Return None without a profit.
    """
    # 1. Scale strikes to about 1, because the tolerances of the programme are absolute.
    scale = float(np.median(quotes.strike))
    corners = np.concatenate([[0.0], quotes.strike / scale])
    unit = 1.0 if quotes.inverse else scale

    # 2. Add a column for each quote, for the future and for cash.
    programme = _programme(quotes, corners, unit)
    count = len(programme.legs)
    if not count:
        return None
    if future is not None:
        # The forward is for 1 coin. If options are paid in coin, it is for `price` USD and pays (S −
        # price)/S.
        for direction, price in ((1.0, future.ask / scale), (-1.0, future.bid / scale)):
            payoff = direction * np.append(corners - price, 1.0)
            programme.payoffs.append(payoff if np.isfinite(price) else np.zeros_like(payoff))
            programme.costs.append(0.0)
    cash = np.append(corners, 1.0) if quotes.inverse else np.append(np.ones_like(corners), 0.0)
    matrix = np.column_stack([*programme.payoffs, cash])
    highest = np.where(np.arange(len(programme.costs)) < count, 1.0, float(count))
    if future is not None:
        highest[-2:][~np.isfinite([future.ask, future.bid])] = 0.0
    # Cash may be positive or negative.
    limits = [*zip(np.zeros_like(highest), highest, strict=True), (None, None)]

    # 3. Solve, and compute the profit without the tolerances of the programme.
    solved = linprog(
        np.append(programme.costs, 1.0), A_ub=-matrix, b_ub=np.zeros(len(matrix)), bounds=limits,
        method="highs", options={"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9},
    )  # fmt: skip
    if solved.x is None:
        raise RuntimeError(
            f"the linear programme of the expiry {quotes.expiry} does not have a solution: {solved.message}"
        )
    quantity = np.where(solved.x[:-1] > _NOTHING, solved.x[:-1], 0.0)
    payoff = matrix[:, :-1] @ quantity
    profit = _riskless(payoff, matrix[:, -1]) - float(np.dot(programme.costs, quantity))
    if not profit > _MIN_PROFIT:
        return None

    # 4. Scale the trades so that the largest is 1 coin.
    largest = float(np.max(quantity[:count]))
    amounts = [float(amount) for amount in quantity[:count]]
    trades = [
        leg._replace(quantity=leg.quantity * amount / largest)
        for leg, amount in zip(programme.legs, amounts, strict=True)
        if amount
    ]
    trades.sort(key=lambda trade: (-abs(trade.quantity), trade.at, trade.side))
    hedge = None
    if future is not None:
        bought, sold = quantity[-2:]
        hedge = _hedge(future, float(bought - sold) / largest, inverse=quotes.inverse)
    return Portfolio(trades, hedge, profit / largest * unit * quotes.discount)


class _Programme(NamedTuple):
    """Columns of a linear programme: trades with costs, and payoffs at each corner and beyond."""

    legs: list[Trade]
    costs: list[float]
    payoffs: list[Floats]


def _programme(quotes: QuotedExpiry, corners: Floats, unit: float) -> _Programme:
    """Return leg, cost and payoff of each quote for the linear programme; `corners` are 0 and the strikes."""
    programme = _Programme([], [], [])
    for (side, end), prices in quotes.price.items():
        direction = 1.0 if end == "ask" else -1.0
        for place in np.flatnonzero(~np.isnan(prices)).tolist():
            gap = corners - corners[place + 1]
            payoff = np.append(np.maximum(gap, 0.0), 1.0)
            if side == "put":
                payoff = np.append(np.maximum(-gap, 0.0), 0.0)
            programme.legs.append(Trade(direction, quotes, side, int(place)))
            programme.costs.append(direction * prices[place] / (unit * quotes.discount))
            programme.payoffs.append(direction * payoff)
    return programme


def _hedge(future: Future, net: float, *, inverse: bool) -> Hedge | None:
    """Return the trade of `net` futures, a sale if negative; None for 0."""
    if abs(net) <= _NOTHING:
        return None
    verb = "buy" if net > 0.0 else "sell"
    price = future.ask if net > 0.0 else future.bid
    return Hedge(verb, price, abs(net) * (price if inverse else 1.0))


def _riskless(payoff: Floats, cash: Floats) -> float:
    """Return the maximum cash that can be withdrawn immediately and is covered by the payoffs everywhere."""
    covered = cash > 0.0
    if (payoff[~covered] < -_NOTHING).any():
        return -np.inf
    return float(np.min(payoff[covered] / cash[covered]))


def _violations(
    expiries: list[QuotedExpiry], futures: pd.DataFrame | None, given: tuple[float | None, ...]
) -> Iterator[dict[str, Any]]:
    """Yield the violations between the expiries of one chain, in order of time."""
    fees = _fees(expiries[0].labels, given)
    for i, quotes in enumerate(expiries):
        future = _future_of(futures, quotes)
        rows = [_row(kind, trades, fees) for kind, trades in (*verticals(quotes), *butterflies(quotes))]
        rows += _forwards(quotes, future, fees)
        rows = [row for row in rows if row["gross_usd"] > _MIN_PROFIT * quotes.forward]
        yield from rows
        # The programme finds every arbitrage but does not classify it, so it runs only if the simpler kinds
        # find none.
        best = None if rows else portfolio(quotes, future)
        if best is not None:
            gross = best.profit * quotes.unit
            yield _row("portfolio", best.trades, fees, gross=gross, hedge=best.hedge)
        for far in expiries[i + 1 :]:
            for trades in calendars(quotes, far):
                yield _row("calendar", trades, fees)


class _Fees(NamedTuple):
    rate: float
    cap: float
    future: float
    whose: str


def _fees(labels: dict[str, Any], given: tuple[float | None, ...]) -> _Fees:
    """Return the given fees, otherwise the fees of the chain's venue, otherwise Deribit's."""
    facts = ("option_taker_fee_bps", "option_fee_cap", "taker_fee_bps")
    whose = str(labels.get("exchange", ""))
    published = [fact_value(whose, fact, str(labels.get("symbol", ""))) for fact in facts]
    if None in published:
        whose = "deribit"
        published = [fact_value("deribit", fact, "BTC") for fact in facts]
    rate, cap, future = (value or 0.0 for value in published)
    of_venue = (rate / BPS, cap, future / BPS)
    rate, cap, future = (fee if own is None else own for own, fee in zip(given, of_venue, strict=True))
    return _Fees(rate, cap, future, whose if None in given else "given")


def _forwards(quotes: QuotedExpiry, future: Future | None, fees: _Fees) -> Iterator[dict[str, Any]]:
    """Compare the forwards that call minus put locks in, with each other and with the future.

    Bought at a and sold at b, ``C − P`` of strike K locks in the forward ``K + a`` or ``K + b``; in coin,
    where it pays ``1 − K/S``, ``K/(1 − a)`` or ``K/(1 − b)``. Premiums are at expiry, with interest.
    """
    buy = (quotes.price["call", "ask"] - quotes.price["put", "bid"]) / quotes.discount
    sell = (quotes.price["call", "bid"] - quotes.price["put", "ask"]) / quotes.discount
    strike = quotes.strike
    bought = strike + buy
    sold = strike + sell
    if quotes.inverse:
        with np.errstate(divide="ignore", invalid="ignore"):
            bought = np.where(buy < 1.0, strike / (1.0 - buy), np.nan)
            sold = np.where(sell < 1.0, strike / (1.0 - sell), np.nan)
    if not (np.isfinite(bought).any() and np.isfinite(sold).any()):
        return
    low = int(np.nanargmin(bought))
    high = int(np.nanargmax(sold))
    if sold[high] > bought[low]:
        # In coin, call minus put of strike K pays 1 − K/S. The terms in 1/S cancel if quantities are
        # proportional to 1/K.
        other = strike[low] / strike[high] if quotes.inverse else 1.0
        trades = [*_synthetic(quotes, 1.0, low), *_synthetic(quotes, -other, high)]
        yield _row("box", trades, fees, gross=_locked(quotes, strike[low], bought[low], sold[high]))
    if future is None:
        return
    if future.bid > bought[low]:
        gross = _locked(quotes, strike[low], bought[low], future.bid)
        hedge = _parity_hedge("sell", future.bid, quotes, low)
        yield _row("parity", _synthetic(quotes, 1.0, low), fees, gross=gross, hedge=hedge)
    if sold[high] > future.ask:
        gross = _locked(quotes, strike[high], future.ask, sold[high])
        hedge = _parity_hedge("buy", future.ask, quotes, high)
        yield _row("parity", _synthetic(quotes, -1.0, high), fees, gross=gross, hedge=hedge)


def _synthetic(quotes: QuotedExpiry, quantity: float, at: int) -> list[Trade]:
    """Return the synthetic forward of one strike: long calls and short puts."""
    return [Trade(quantity, quotes, "call", at), Trade(-quantity, quotes, "put", at)]


def _parity_hedge(verb: str, price: float, quotes: QuotedExpiry, at: int) -> Hedge:
    """Return the future that hedges one synthetic forward: in coin its strike in USD, otherwise one coin."""
    return Hedge(verb, price, float(quotes.strike[at]) if quotes.inverse else 1.0)


def _locked(quotes: QuotedExpiry, strike: float, bought: float, sold: float) -> float:
    """Return the present profit [USD] of a forward bought and sold, per coin or per `strike` USD."""
    later = quotes.forward * strike * (1.0 / bought - 1.0 / sold) if quotes.inverse else sold - bought
    return float(quotes.discount * later)


def _future_of(futures: pd.DataFrame | None, quotes: QuotedExpiry) -> Future | None:
    """Return bid and ask of the future of an expiry; None if it has no row."""
    if futures is None:
        return None
    require_columns(futures, "futures", ("bid_usd", "ask_usd"), any_kind=("expiry",))
    at = pd.to_datetime(futures["expiry"], utc=True) == pd.Timestamp(quotes.expiry)
    for name in ("symbol", "exchange"):
        if name in futures and name in quotes.labels:
            at &= futures[name].astype(object) == quotes.labels[name]
    row = futures[at]
    if row.empty:
        return None
    return Future(float(row["bid_usd"].iloc[0]), float(row["ask_usd"].iloc[0]))


def _row(
    kind: str, trades: list[Trade], fees: _Fees, *, gross: float | None = None, hedge: Hedge | None = None
) -> dict[str, Any]:
    """Return the row of one violation; `gross` defaults to the immediate payoff of the trades."""
    first = trades[0].of
    unit = first.unit  # prices in coin of both expiries are valued at the same rate
    paid = 0.0
    cost = 0.0
    texts = []
    sizes = []
    for trade in trades:
        quotes = trade.of
        quantity = abs(trade.quantity)
        price = quotes.price[trade.key][trade.at]
        paid -= trade.quantity * price * unit
        cost += quantity * min(fees.rate * quotes.forward, fees.cap * price * unit)
        sizes.append(quotes.size[trade.key][trade.at] / quantity)
        verb = "buy" if trade.quantity > 0 else "sell"
        texts.append(f"{verb} {quantity:.8g} {trade.side} {quotes.strike[trade.at]:.15g} at {price:.6g}")
    if hedge is not None:
        value = hedge.amount * first.forward
        size = f"{hedge.amount:.8g} future"
        if first.inverse:
            value = hedge.amount
            size = f"{hedge.amount:.10g} USD of the future"
        cost += fees.future * value
        texts.append(f"{hedge.verb} {size} at {hedge.price:.8g}")
    total = paid if gross is None else gross
    far = trades[1].of.expiry if kind == "calendar" else pd.NaT
    sides = {trade.side for trade in trades}
    return first.labels | {
        "kind": kind,
        "expiry": first.expiry,
        "far_expiry": far,
        "side": sides.pop() if len(sides) == 1 else "both",
        "legs": "; ".join(texts),
        "gross_usd": total,
        "fees_usd": cost,
        "net_usd": total - cost,
        "size_coin": float(np.min(sizes)),
        "fees_of": fees.whose,
    }
