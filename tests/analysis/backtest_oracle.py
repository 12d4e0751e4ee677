"""A backtest of carry as a loop that a reader can follow: one symbol, one row, one leg at a time.

Shares no code with the library. Rates, intervals and prices are nested lists ``[symbol][venue][row]``, NaN
where missing; `wanted` returns the pair of a symbol to hold.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

LONG, SHORT = 0, 1


@dataclass
class Position:
    venues: tuple[int, int]
    opened: float
    coins: float
    entry: list[float]
    mark: list[float]
    margin: list[float]
    moved: float
    earned: list[float] = field(default_factory=lambda: [0.0, 0.0])
    marked: float = 0.0


@dataclass
class Rules:
    """The numbers of a backtest; `fee` is in bps by venue, `slip` one number of bps."""

    settled: bool
    hours: float
    fee: list[float]
    slip: float
    capital: float
    leg: float
    leverage: float
    maintenance: float
    transfer: float
    liquidation: float
    limit: float = math.inf
    oldest_mark: float = 24.0


def backtest(  # noqa: C901 - one loop from top to bottom is the point
    rates: Any,
    interval: float,
    prices: Any,
    rules: Rules,
    wanted: Callable[..., tuple[int, int, float] | None],
) -> tuple[list[float], list[tuple[int, int, int, int, int, str]]]:
    """Return the equity after each row, and (symbol, long, short, entry, exit, reason) of each trade."""
    symbols, rows = len(rates), len(rates[0][0])
    equity, path, closed = rules.capital, [], []
    held: dict[int, Position] = {}
    entered: dict[int, int] = {}

    def close(symbol: int, row: int, reason: str, lost: tuple[bool, bool] = (False, False)) -> float:
        position = held.pop(symbol)
        cost = 0.0
        for leg in (LONG, SHORT):
            notional = position.coins * position.mark[leg]
            bps = rules.fee[position.venues[leg]] + rules.slip + (rules.liquidation if lost[leg] else 0.0)
            cost += notional * bps / 10_000
        closed.append((symbol, *position.venues, entered[symbol], row, reason))
        return cost

    for row in range(rows):
        now = row * rules.hours
        for symbol, position in held.items():
            there = [prices[symbol][venue][row] for venue in position.venues]
            if not any(math.isnan(mark) for mark in there):
                position.marked = now
            else:  # what moves against a leg without a mark is no gain
                there = position.mark
            for leg in (LONG, SHORT):
                venue, mark = position.venues[leg], there[leg]
                gain = position.coins * (mark - position.mark[leg])
                equity += gain if leg == LONG else -gain
                position.mark = [mark if item == leg else position.mark[item] for item in (LONG, SHORT)]
                if rules.settled:
                    rate, paid_hours = rates[symbol][venue][row], interval
                else:  # the last sample before this row, for the time since the row before
                    known = [at for at in range(row) if not math.isnan(rates[symbol][venue][at])]
                    rate = rates[symbol][venue][known[-1]] if known else math.nan
                    until = min(now, known[-1] * rules.hours + rules.limit) if known else now
                    paid_hours = max(until - (row - 1) * rules.hours, 0.0)
                if not math.isnan(rate):
                    payment = rate * paid_hours / 8 / 10_000 * position.coins * mark
                    payment = -payment if leg == LONG else payment
                    equity += payment
                    position.earned[leg] += payment
        for symbol in [item for item in held if now - held[item].marked > rules.oldest_mark]:
            equity -= close(symbol, row, "no_mark")
        for symbol in list(held):
            position, left, lost = held[symbol], [], []
            for leg, sign in ((LONG, 1), (SHORT, -1)):
                gain = sign * position.coins * (position.mark[leg] - position.entry[leg])
                left.append(position.margin[leg] + gain + position.earned[leg])
                lost.append(left[leg] < rules.maintenance * position.coins * position.mark[leg])
            if any(lost):
                equity -= close(symbol, row, "liquidation", (lost[0], lost[1]))
            elif now - position.moved >= rules.transfer:
                even = (left[0] + left[1]) / 2
                position.margin = [position.margin[leg] + even - left[leg] for leg in (LONG, SHORT)]
                position.moved = now
        if row == rows - 1:
            for symbol in list(held):
                equity -= close(symbol, row, "end")
            path.append(equity)
            break
        entries = []
        for symbol in range(symbols):
            present = held[symbol].venues if symbol in held else None
            tradable = [not math.isnan(prices[symbol][venue][row]) for venue in range(len(rates[0]))]
            answer = wanted(symbol, row, present, tradable)
            if present is not None and (answer is None or answer[:2] != present):
                equity -= close(symbol, row, "rule")
            if answer is not None and answer[:2] != present:
                entries.append((answer[2], symbol, answer[:2]))
        margin = 2 * rules.leg / rules.leverage
        room = math.floor((equity - margin * len(held)) / margin + 1e-9)
        for _, symbol, venues in sorted(entries, key=lambda entry: (-entry[0], entry[1]))[: max(room, 0)]:
            marks = [prices[symbol][venue][row] for venue in venues]
            coins = rules.leg / ((marks[0] + marks[1]) / 2)
            for leg in (LONG, SHORT):
                equity -= coins * marks[leg] * (rules.fee[venues[leg]] + rules.slip) / 10_000
            half = margin / 2
            held[symbol] = Position(venues, now, coins, list(marks), list(marks), [half, half], now)
            held[symbol].marked = now
            entered[symbol] = row
        path.append(equity)
    return path, closed


def threshold(  # noqa: C901
    rates: Any,
    interval: float,
    settled: bool,
    hours: float,
    enter: float,
    leave: float,
    switch: float,
    limit: float,
) -> Callable[..., tuple[int, int, float] | None]:
    """The widest pair by the last known rates, entered from one spread and left below another."""

    def last(symbol: int, venue: int, row: int) -> float:
        """Return the last fresh rate at a row; a sample is known once its bucket has ended."""
        for at in range(row if settled else row - 1, -1, -1):
            if not math.isnan(rates[symbol][venue][at]):
                age = (row - at) * hours
                return (
                    rates[symbol][venue][at]
                    if age < (1.5 * interval if settled else limit + 1e-9)
                    else math.nan
                )
        return math.nan

    def wanted(
        symbol: int, row: int, present: tuple[int, int] | None, tradable: list[bool]
    ) -> tuple[int, int, float] | None:
        known = [last(symbol, venue, row) for venue in range(len(tradable))]
        usable = [venue for venue in range(len(known)) if tradable[venue] and not math.isnan(known[venue])]
        best = None
        if usable:
            long = min(usable, key=lambda venue: known[venue])
            short = max(usable, key=lambda venue: known[venue])
            if long != short and known[short] - known[long] >= enter:
                best = (long, short, known[short] - known[long])
        if present is not None:
            spread = known[present[1]] - known[present[0]]
            if spread >= leave and not (best is not None and best[2] > spread + switch):
                return (*present, spread)
        return best

    return wanted


def portfolio(  # noqa: C901 - one loop from top to bottom is the point
    rates: Any, interval: float, prices: Any, rules: Rules, sizes: dict[int, Any], fee: Any, band: float
) -> tuple[list[float], list[tuple[int, int, int, int, int, str]]]:
    """As `backtest` of settlements, of many sized pairs; the legs on a venue share an account.

    `sizes` has, by the row at which they are new, USD of a leg by (symbol, long, short) and collateral by
    venue, for the capital; `fee` is in bps by side (buy, sell) and venue.
    """
    venues, rows = range(len(rates[0])), len(rates[0][0])
    equity, path, closed = rules.capital, [], []
    held: dict[tuple[int, int, int], Any] = {}
    account, wanted_account, moved = dict.fromkeys(venues, 0.0), dict.fromkeys(venues, 0.0), 0.0

    def trade(pair: Any, coins: float, bought: int, lost: tuple[int, ...] = ()) -> float:
        cost = 0.0
        for leg in (LONG, SHORT):
            side = bought if leg == LONG else 1 - bought
            bps = fee[side][pair[1 + leg]] + rules.slip
            bps += rules.liquidation if pair[1 + leg] in lost else 0.0
            cost += coins * held[pair]["mark"][leg] * bps / 10_000
        return cost

    def close(pair: Any, row: int, reason: str, lost: tuple[int, ...] = ()) -> float:
        cost = trade(pair, held[pair]["coins"], 1, lost)
        closed.append((*pair, held[pair]["entered"], row, reason))
        del held[pair]
        return cost

    def on_venue(venue: int) -> float:
        legs = [(p, leg) for p in held for leg in (LONG, SHORT) if p[1 + leg] == venue]
        return sum(held[p]["coins"] * held[p]["mark"][leg] for p, leg in legs)

    def allot() -> None:
        """Bring the accounts to their collateral; the balance of a closed leg stays there until then."""
        used = {venue: wanted_account[venue] if on_venue(venue) > 0 else 0.0 for venue in venues}
        reach = min(1.0, equity / sum(used.values())) if sum(used.values()) else 0.0
        for venue in venues:
            account[venue] = reach * used[venue]

    for row in range(rows):
        now = row * rules.hours
        for pair, position in held.items():
            there = [prices[pair[0]][venue][row] for venue in pair[1:]]
            there = position["mark"] if any(map(math.isnan, there)) else there
            if there is not position["mark"]:
                position["marked"] = now
            for leg, sign in ((LONG, 1), (SHORT, -1)):
                gain = sign * position["coins"] * (there[leg] - position["mark"][leg])
                rate = rates[pair[0]][pair[1 + leg]][row]
                if not math.isnan(rate):
                    gain -= sign * rate * interval / 8 / 10_000 * position["coins"] * there[leg]
                equity += gain
                account[pair[1 + leg]] += gain
            position["mark"] = there
        for pair in [item for item in held if now - held[item]["marked"] > rules.oldest_mark]:
            equity -= close(pair, row, "no_mark")
        lost = tuple(v for v in venues if account[v] < rules.maintenance * on_venue(v) and on_venue(v) > 0)
        for pair in [item for item in held if set(item[1:]) & set(lost)]:
            equity -= close(pair, row, "liquidation", lost)
        if now - moved >= rules.transfer:
            allot()
            moved = now
        if row == rows - 1:
            for pair in list(held):
                equity -= close(pair, row, "end")
        elif row in sizes:
            leg_usd, collateral = sizes[row]
            scale = equity / rules.capital
            for pair in [item for item in held if not leg_usd.get(item)]:
                equity -= close(pair, row, "rule")
            for pair, size in leg_usd.items():
                marks = [prices[pair[0]][venue][row] for venue in pair[1:]]
                middle, present = sum(marks) / 2, held.get(pair)
                before = present["coins"] * sum(present["mark"]) / 2 if present else 0.0
                if (
                    not size
                    or math.isnan(middle)
                    or (present and abs(scale * size - before) <= band * before)
                ):
                    continue
                coins = scale * size / middle
                if present:
                    equity -= trade(pair, abs(coins - present["coins"]), int(coins < present["coins"]))
                    present["coins"] = coins
                else:
                    held[pair] = {"coins": coins, "mark": marks, "marked": now, "entered": row}
                    equity -= trade(pair, coins, 0)
            wanted_account = {venue: scale * collateral[venue] for venue in venues}
            allot()
            moved = now
        path.append(equity)
    return path, closed
