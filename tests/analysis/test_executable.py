import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog

from derivdata.analysis import black76, chain
from derivdata.sources import sample
from tests.analysis import made_chains

NOW = pd.Timestamp("2026-01-01T08:00Z")
NEAR, FAR = pd.Timestamp("2026-01-31T08:00Z"), pd.Timestamp("2026-03-02T08:00Z")
FREE = {"fee_rate": 0.0, "fee_cap": 0.0, "future_fee_rate": 0.0}


def market(unit: str, *, width: float = 0.02, vol: float = 0.5) -> pd.DataFrame:
    """Two expiries at one volatility, forwards 100 and 102, spreads of 2 % of the price."""
    rows = []
    for expiry, forward in ((NEAR, 100.0), (FAR, 102.0)):
        years = (expiry - NOW).days / 365
        for strike in (80.0, 90.0, 100.0, 110.0, 120.0):
            for side in ("call", "put"):
                usd = float(black76.price(forward, strike, years, vol, side))
                price = usd / forward if unit == "coin" else usd
                rows.append(
                    {
                        "symbol": "BTC", "exchange": "made", "time": NOW, "expiry": expiry, "strike": strike,
                        "side": side, "iv": vol, "underlying_price": forward, "open_interest": 1.0,
                        f"bid_{unit}": price * (1 - width / 2), f"ask_{unit}": price * (1 + width / 2),
                        "bid_size": 5.0, "ask_size": 7.0,
                    }
                )  # fmt: skip
    return pd.DataFrame(rows)


def put(table: pd.DataFrame, expiry: pd.Timestamp, strike: float, side: str, **prices: float) -> pd.DataFrame:
    at = (table["expiry"] == expiry) & (table["strike"] == strike) & (table["side"] == side)
    assert at.sum() == 1
    return table.assign(**{name: table[name].mask(at, value) for name, value in prices.items()})


def quote(table: pd.DataFrame, expiry: pd.Timestamp, strike: float, side: str, name: str) -> float:
    at = (table["expiry"] == expiry) & (table["strike"] == strike) & (table["side"] == side)
    return float(table[name][at].iloc[0])


@pytest.mark.parametrize("unit", ["usd", "coin"])
def test_consistent_prices_have_no_executable_arbitrage(unit):
    result = chain.executable(market(unit), **FREE)
    assert result.empty
    assert list(result.columns)[:5] == ["symbol", "exchange", "time", "kind", "expiry"]


def test_butterfly_profit_equals_hand_calculation():
    """The 100 call bid raised to 9: half of the 90 and half of the 110 cost less."""
    table = put(market("usd"), NEAR, 100.0, "call", bid_usd=9.0, ask_usd=9.2)
    low, high = (quote(table, NEAR, k, "call", "ask_usd") for k in (90.0, 110.0))
    result = chain.executable(table, **FREE)
    row = result[(result["kind"] == "butterfly")].iloc[0]
    assert row["gross_usd"] == pytest.approx(9.0 - (low + high) / 2, rel=1e-12)
    assert row["size_coin"] == 5.0
    assert row["net_usd"] == row["gross_usd"]
    assert row["legs"].startswith("sell 1 call 100 at 9; buy 0.5 call 90 at")
    charged = chain.executable(table, fee_rate=0.001, fee_cap=0.125)
    row = charged[charged["kind"] == "butterfly"].iloc[0]
    # 0.1 % of the forward of 100 on each leg; half of it for halves.
    assert row["fees_usd"] == pytest.approx(0.1 + 0.05 + 0.05, rel=1e-12)
    assert row["net_usd"] == pytest.approx(row["gross_usd"] - 0.2, rel=1e-12)
    thin = put(table, NEAR, 110.0, "call", ask_size=0.3)
    row = chain.executable(thin, **FREE).query("kind == 'butterfly'").iloc[0]
    assert row["size_coin"] == pytest.approx(0.6)


def dear(table: pd.DataFrame, bid: float, ask: float) -> pd.DataFrame:
    """Return a table in which the 120 call's bid is above the ask of the 110 call."""
    table = put(table, NEAR, 120.0, "call", bid_usd=bid, ask_usd=1.1 * bid)
    return put(table, NEAR, 110.0, "call", bid_usd=0.9 * ask, ask_usd=ask)


def vertical(table: pd.DataFrame, side: str = "call", **fees: float) -> pd.Series:
    return chain.executable(table, **fees).query("kind == 'vertical' and side == @side").iloc[0]


def test_fees_are_capped_and_those_of_a_future_are_the_venues():
    row = vertical(dear(market("usd"), 2.0, 1.6), fee_rate=0.01, fee_cap=0.1)
    assert row["gross_usd"] == pytest.approx(2.0 - 1.6)
    assert row["fees_usd"] == pytest.approx(0.2 + 0.16)
    # Deribit's 0.05 % of 100 USD, next to two options at 0.03 %: 0.11 USD.
    table = market("usd", width=0.0).assign(exchange="deribit")
    futures = pd.DataFrame({"expiry": [NEAR], "bid_usd": [103.0], "ask_usd": [103.1]})
    row = chain.executable(table, futures=futures, fee_cap=1.0).query("kind == 'parity'").iloc[0]
    assert row["fees_usd"] == pytest.approx(0.05 + 2 * 0.03, abs=0.01)
    assert row["gross_usd"] == pytest.approx(3.0)
    table = put(market("usd"), NEAR, 90.0, "put", bid_usd=6.5, ask_usd=6.6)
    ask = quote(table, NEAR, 100.0, "put", "ask_usd")
    assert vertical(table, "put", **FREE)["gross_usd"] == pytest.approx(6.5 - ask)


@pytest.mark.parametrize("venue", ["deribit", "made"])
def test_known_fees_of_venues_are_used(venue):
    """Deribit: 0.03 % of the forward of 100, at most 12.5 % of the price, which is less of 0.2 and 0.1."""
    table = market("usd").assign(exchange=venue)
    row = vertical(dear(table, 0.2, 0.1))
    assert row["fees_usd"] == pytest.approx(0.125 * 0.2 + 0.125 * 0.1)
    assert row["fees_of"] == "deribit"
    table = dear(table, 2.0, 1.6)
    assert vertical(table)["fees_usd"] == pytest.approx(2 * 0.0003 * 100.0)
    mine = vertical(table, fee_rate=0.001)
    assert (mine["fees_usd"], mine["fees_of"]) == (pytest.approx(2 * 0.001 * 100.0), "deribit")
    assert vertical(table, **FREE)["fees_of"] == "given"


def test_box_and_parity_lock_in_the_difference_of_forwards():
    """The 110 call bid as if the forward were 104; its put is requested at the model's price."""
    price = float(black76.price(104.0, 110.0, 30 / 365, 0.5, "call"))
    table = market("usd", width=0.0)
    table = table[table["strike"].isin([80.0, 110.0])]
    table = put(table, NEAR, 110.0, "call", bid_usd=price, ask_usd=price)
    futures = pd.DataFrame({"expiry": [NEAR, FAR], "bid_usd": [99.9, 101.9], "ask_usd": [100.1, 102.1]})
    result = chain.executable(table, futures=futures, **FREE).set_index("kind")
    sold = 110.0 + price - quote(table, NEAR, 110.0, "put", "ask_usd")
    assert result.loc["box", "gross_usd"] == pytest.approx(sold - 100.0, rel=1e-9)
    assert result.loc["parity", "gross_usd"] == pytest.approx(sold - 100.1, rel=1e-9)
    assert result.loc["parity", "legs"].endswith("buy 1 future at 100.1")
    for side, locked in (("bid_usd", True), ("ask_usd", False)):
        result = chain.executable(table, futures=futures.assign(**{side: np.nan}), **FREE).set_index("kind")
        assert ("parity" in result.index) == locked, "the future is bought at its ask"
        assert result.loc["box", "gross_usd"] == pytest.approx(sold - 100.0, rel=1e-9)


def _paid(legs: str, s: np.ndarray) -> np.ndarray:
    """Total payoff of the trades in words at the prices s of the coin [coins]."""
    total = np.zeros(s.size)
    for leg in legs.split("; "):
        verb, size, *what, _, price = leg.split()
        sign = 1.0 if verb == "buy" else -1.0
        if "future" in what:
            assert what == ["USD", "of", "the", "future"]
            total += sign * float(size) * (1 / float(price) - 1 / s)
        else:
            side, strike = what
            payoff = np.maximum(s - float(strike) if side == "call" else float(strike) - s, 0.0) / s
            total += sign * float(size) * (payoff - float(price))
    return total


def test_legs_paid_in_coin_lock_in_the_profit_at_any_price_of_the_coin():
    """Box 80/110 and parity at 110: the 110 call at 104's price, futures 99.9 to 100.1."""
    price = float(black76.price(104.0, 110.0, 30 / 365, 0.5, "call")) / 104.0
    table = market("coin", width=0.0)
    table = table[table["strike"].isin([80.0, 110.0])]
    table = put(table, NEAR, 110.0, "call", bid_coin=price, ask_coin=price)
    futures = pd.DataFrame({"expiry": [NEAR, FAR], "bid_usd": [99.9, 101.9], "ask_usd": [100.1, 102.1]})
    result = chain.executable(table, futures=futures, **FREE).set_index("kind")
    s = np.array([20.0, 60.0, 80.0, 95.0, 110.0, 150.0, 1_000.0])
    for kind, gross in (("box", 0.845), ("parity", 1.0521)):
        assert result.loc[kind, "gross_usd"] == pytest.approx(gross, abs=5e-4), kind
        # Legs are written with six digits of the price and eight of the quantity.
        np.testing.assert_allclose(_paid(result.loc[kind, "legs"], s), gross / 100.0, atol=1e-5)
    charged = chain.executable(table, futures=futures, fee_rate=0.0, future_fee_rate=0.001)
    assert charged.set_index("kind").loc["parity", "fees_usd"] == pytest.approx(0.11, rel=1e-9)


@pytest.mark.parametrize("unit", ["usd", "coin"])
def test_calendar_profit_equals_hand_calculation(unit):
    """The near 100 call bid above the far 100 call, whose moneyness is better (its forward is 102)."""
    table = market(unit)
    far = quote(table, FAR, 100.0, "call", f"ask_{unit}")
    bid = far * 1.1
    table = put(table, NEAR, 100.0, "call", **{f"bid_{unit}": bid, f"ask_{unit}": bid * 1.01})
    result = chain.executable(table, **FREE)
    row = result[(result["kind"] == "calendar") & (result["side"] == "call")].iloc[0]
    expected = bid - far / 1.02 if unit == "usd" else (bid - far) * 100.0
    assert row["gross_usd"] == pytest.approx(expected, rel=1e-9)
    assert row["far_expiry"] == FAR
    # 105 is not listed: the far call of 110 has the worse moneyness and is cheaper, and is not taken.
    assert "call 100 at" in row["legs"].split(";")[1]


def test_an_arbitrage_across_expiries_needs_the_later_one_to_be_later() -> None:
    """The sample has no arbitrage; pairing expiries without regard to order finds 815 false calendars."""
    market, hour = sample.open(), pd.Timedelta("1h")
    snapshot = market.latest("options_snapshot", market.now, within=hour, symbols=["BTC"], venues=["deribit"])
    for order in (snapshot, snapshot.sample(frac=1.0, random_state=1)):
        assert chain.executable(order).empty
    # A calendar that is there: the far call's ask below the near one's bid, at the same strike and forward.
    rows = snapshot[snapshot["side"] == "call"]
    near, far = np.sort(rows["expiry"].unique())[[4, 5]]
    both = rows[rows["expiry"].isin([near, far])].assign(underlying_price=rows["underlying_price"].iloc[0])
    dear = both.assign(bid_coin=both["bid_coin"].where(both["expiry"] == far, 0.9))
    dear["ask_coin"] = dear["ask_coin"].where(dear["expiry"] == far, 0.95)
    for order in (dear, dear[::-1]):
        result = chain.executable(order)
        calendars = result[result["kind"] == "calendar"]
        assert len(calendars) > 0
        assert (calendars["expiry"] < calendars["far_expiry"]).all()


def test_invalid_arguments_are_rejected():
    with pytest.raises(ValueError, match="options must have bid and ask prices to find executable arbitrage"):
        chain.executable(market("usd").drop(columns=["bid_usd", "ask_usd"]))
    with pytest.raises(ValueError, match="fee_rate, fee_cap and future_fee_rate must be 0 or more"):
        chain.executable(market("usd"), fee_rate=-0.1)


STRIKES = np.array([7e4, 8e4, 9e4, 1e5, 1.1e5, 1.2e5, 1.4e5])


def drawn(seed: int, count: int, absent: float = 0.45) -> list[dict[str, object]]:
    """Chains of one expiry around a smile, each with one quote moved, some with many quotes absent."""
    rng = np.random.default_rng(seed)
    made: list[dict[str, object]] = []
    k = np.log(STRIKES / 1e5)
    iv = 0.6 + 0.3 * k**2 - 0.1 * k
    for number in range(count):
        inverse, half = bool(number % 2), rng.uniform(0.02, 0.075)
        quotes = {}
        for side in ("call", "put"):
            price = black76.price(1e5, STRIKES, 30 / 365, iv, side) / (1e5 if inverse else 1.0)
            quotes[side] = np.column_stack([price * (1 - half), price * (1 + half)])
        moved = quotes["call" if rng.random() < 0.5 else "put"]
        moved[rng.integers(STRIKES.size)] *= rng.uniform(0.5, 1.6)
        if number % 3:
            for values in quotes.values():
                values[rng.random(STRIKES.size) < absent] = np.nan
        future = None if number % 5 else tuple(1e5 * np.array([0.9995, 1.0005]) * rng.uniform(0.96, 1.04))
        made.append({"inverse": inverse, "quotes": quotes, "future": future})
    return made


def min_violation(inverse: bool, quotes: dict[str, np.ndarray], future: tuple[float, float] | None) -> float:
    """By how much quotes must widen until some distribution of the price prices all of them.

    Masses at 0, at the strikes and at infinity, where the mass vanishes and its mean remains. For options
    paid in coin, masses are multiplied by the price.
    """
    unit, middle = (1.0 if inverse else 1e5), STRIKES / 1e5
    points, rows, limits = len(STRIKES), [], []
    for side, values in quotes.items():
        for place, (bid, ask) in enumerate(values):
            if np.isnan(bid):
                continue
            gap = middle - middle[place]
            pays = np.maximum(gap if side == "call" else -gap, 0.0) / (middle if inverse else 1.0)
            at_zero = middle[place] if side == "put" else 0.0
            beyond = 1.0 if side == "call" else 0.0
            row = np.array([at_zero, *pays, beyond])
            rows += [np.append(-row, -1.0), np.append(row, -1.0)]
            limits += [-bid / unit, ask / unit]
    masses = np.array([0.0 if inverse else 1.0, *np.ones(points), 1.0 if inverse else 0.0, 0.0])
    if future is not None:
        bid, ask = np.array(future) / 1e5
        # The mean of the price; in coin that of 1/S, times the future's price, is 1.
        mean = np.array([1.0, *(1.0 / middle), 0.0]) if inverse else np.array([0.0, *middle, 1.0])
        low, high = (1.0 / ask, 1.0 / bid) if inverse else (bid, ask)
        rows += [np.append(-mean, -1.0), np.append(mean, -1.0)]
        limits += [-low, high]
    cost = np.append(np.zeros(points + 2), 1.0)
    return float(linprog(cost, A_ub=rows, b_ub=limits, A_eq=[masses], b_eq=[1.0], method="highs").fun)


def as_table(made: list[dict[str, object]], inverse: bool) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the drawn chains of one unit, one symbol each, and the futures of the chains that have one."""
    rows, futures = [], []
    unit = "coin" if inverse else "usd"
    for number, item in enumerate(made):
        if item["inverse"] != inverse:
            continue
        for side, values in item["quotes"].items():
            for strike, (bid, ask) in zip(STRIKES, values, strict=True):
                quote = {f"bid_{unit}": bid, f"ask_{unit}": ask, "underlying_price": 1e5}
                rows.append({"symbol": f"C{number}", "strike": strike, "side": side} | quote)
        if item["future"] is not None:
            bid, ask = item["future"]
            futures.append(
                {"symbol": f"C{number}", "expiry": made_chains.MONTH, "bid_usd": bid, "ask_usd": ask}
            )
    return made_chains.options(*rows), pd.DataFrame(futures)


@pytest.mark.parametrize("inverse", [False, True])
def test_arbitrage_is_listed_only_if_no_distribution_prices_the_quotes(inverse):
    """Against the dual problem: a distribution of the price at expiry that prices every quote between bid and
    ask.
    """
    made = drawn(3, 400)
    table, futures = as_table(made, inverse)
    result = chain.executable(table, futures=futures, fee_rate=0.0, future_fee_rate=0.0)
    listed, compared = set(result["symbol"]), {True: 0, False: 0}
    for number, item in enumerate(made):
        if item["inverse"] != inverse:
            continue
        violation = min_violation(inverse, item["quotes"], item["future"])
        if 1e-9 < violation < 1e-5:  # too close to tell in floating point
            continue
        compared[violation > 0.5e-5] += 1
        assert (f"C{number}" in listed) == (violation > 0.5e-5), (number, violation)
    assert min(compared.values()) > 40
    assert {"portfolio", "vertical", "butterfly", "box", "parity"} <= set(result["kind"])


@pytest.mark.parametrize("inverse", [False, True])
def test_arbitrage_portfolio_never_loses(inverse):
    """The trades as they are written, paid and settled at prices from 1,000 USD to 10 million."""
    table, futures = as_table(drawn(5, 500, absent=0.7), inverse)
    result = chain.executable(table, futures=futures, fee_rate=0.0, future_fee_rate=0.0)
    portfolios = result[result["kind"] == "portfolio"]
    assert len(portfolios) >= 5
    assert portfolios["legs"].str.contains("future").any()
    ends = np.concatenate([np.geomspace(1e3, 1e7, 400), STRIKES])
    for legs, gross in zip(portfolios["legs"], portfolios["gross_usd"], strict=True):
        paid, pays = 0.0, np.zeros_like(ends)
        for leg in legs.split("; "):
            words = leg.split()
            sign, price = (1.0 if words[0] == "buy" else -1.0), float(words[-1])
            amount = sign * float(words[1])
            if "future" in leg:
                pays += amount * (1.0 / price - 1.0 / ends if inverse else ends - price)
                continue
            gap = (ends - float(words[3])) * (1.0 if words[2] == "call" else -1.0)
            pays += amount * np.maximum(gap, 0.0) / (ends if inverse else 1.0)
            paid += amount * price
        profit = gross / (1e5 if inverse else 1.0)
        # The words have six digits of each price and eight of each quantity.
        assert (pays - paid - profit).min() > (-2e-5 if inverse else -2.0)


def discounted(unit: str, rate: float) -> pd.DataFrame:
    """The market of one model, its premiums discounted."""
    table = market(unit)
    factor = np.exp(-rate * (table["expiry"] - NOW) / pd.Timedelta(365, "D"))
    return table.assign(**{name: table[name] * factor for name in (f"bid_{unit}", f"ask_{unit}")})


@pytest.mark.parametrize("unit", ["usd", "coin"])
def test_discounted_premiums_have_no_arbitrage_at_their_interest_rate(unit):
    futures = pd.DataFrame({"expiry": [NEAR, FAR], "bid_usd": [99.9, 101.9], "ask_usd": [100.1, 102.1]})
    table = discounted(unit, 2.0)
    assert chain.executable(table, futures=futures, interest_rate=2.0, **FREE).empty
    assert chain.executable(table.assign(interest_rate=2.0), futures=futures, **FREE).empty
    assert not chain.executable(table, futures=futures, **FREE).empty


def test_profits_with_an_interest_rate_equal_hand_calculation():
    """A 100 call bid 1 above its model: call less put against the future, and an option sold against two."""
    rate, years = 0.5, (NEAR - NOW).days / 365
    factor = np.exp(-rate * years)
    table = discounted("usd", rate)
    futures = pd.DataFrame({"expiry": [NEAR, FAR], "bid_usd": [99.9, 101.9], "ask_usd": [100.1, 102.1]})
    put_ask = quote(table, NEAR, 100.0, "put", "ask_usd")
    bid = put_ask + 1.0
    table = put(table, NEAR, 100.0, "call", bid_usd=bid, ask_usd=bid + 0.1)
    result = chain.executable(table, futures=futures, interest_rate=rate, **FREE)
    parity = result[result["kind"] == "parity"].iloc[0]
    # Sold at 1 now, which is 1/factor at expiry; bought at 100.1: the profit of expiry, discounted.
    assert parity["gross_usd"] == pytest.approx(factor * (100.0 + 1.0 / factor - 100.1), rel=1e-9)
    assert "buy 1 future at 100.1" in parity["legs"]
    far = discounted("usd", rate)
    cheap = quote(far, NEAR, 100.0, "call", "bid_usd") * 0.6
    far = put(far, FAR, 100.0, "call", bid_usd=cheap * 0.9, ask_usd=cheap)
    calendar = chain.executable(far, interest_rate=rate, **FREE).set_index(["kind", "side"])
    row = calendar.loc[("calendar", "call")]
    row = (
        row[row["legs"].str.startswith("sell 1 call 100 ")].iloc[0] if isinstance(row, pd.DataFrame) else row
    )
    late = np.exp(-rate * (FAR - NOW).days / 365)
    quantity = factor / late / 1.02
    expected = quote(far, NEAR, 100.0, "call", "bid_usd") - quantity * cheap
    assert row["gross_usd"] == pytest.approx(expected, rel=1e-9)
