import math

import numpy as np
import pandas as pd
import pytest

from derivdata import api, sample

STORE = sample.open()
HOUR = pd.Timedelta("1h")
PAIRS = [(s, v) for s, venues in api.OPTIONS_MATRIX.items() for v in venues]
INSTANTS = ["2025-09-01 00:00", "2025-12-26 08:00", "2026-03-13 07:00", "2026-06-30 12:00"]


def at(text):
    return pd.Timestamp(text, tz="UTC").as_unit("us")


def chain(symbol, exchange, instant):
    return STORE.latest("options_snapshot", at(instant), within=HOUR, symbols=[symbol], exchanges=[exchange])


def slices(symbol, exchange, instant):
    return sample.truth(
        "surface", symbols=[symbol], exchanges=[exchange], start=at(instant), end=at(instant) + HOUR
    )


def total_variance(k, theta, rho, psi):
    x = psi / theta * k
    return theta / 2 * (1 + rho * x + np.sqrt((x + rho) ** 2 + 1 - rho**2))


@pytest.fixture(scope="module")
def btc():
    return chain("BTC", "deribit", "2026-06-30 12:00")


def test_expiries_are_those_of_the_calendar(btc):
    """Two days and a Friday, the next three Fridays, the last of July and August, three quarters' ends."""
    days = ["07-01", "07-02", "07-03", "07-10", "07-17", "07-24", "07-31", "08-28", "09-25", "12-25"]
    expected = [at(f"2026-{d} 08:00") for d in days] + [at("2027-03-26 08:00")]
    assert btc["expiry"].unique().tolist() == expected
    assert len(btc) >= 500


@pytest.mark.parametrize("instant", INSTANTS)
def test_every_pair_of_the_matrix_has_a_chain(instant):
    frame = STORE.latest("options_snapshot", at(instant), within=HOUR)
    found = frame.groupby(["symbol", "exchange"], observed=True).size()
    assert sorted(found.index) == sorted(PAIRS)
    assert found.min() >= 100
    assert found["BTC", "deribit"] >= 500
    assert (frame["expiry"] > at(instant)).all()
    both = frame.groupby(["symbol", "exchange", "expiry", "strike"], observed=True)["side"].nunique()
    assert (both == 2).all()
    assert frame["iv"].between(0.05, 10).all()
    assert (frame["open_interest"] >= 0).all()


def test_names_are_spelled_as_the_venues_do():
    wanted = {
        "deribit": "BTC-25SEP26-100000-C",
        "binance": "BTC-260925-100000-C",
        "bybit": "BTC-25SEP26-100000-C-USDT",
        "okx": "BTC-USD-260925-100000-C",
        "derive": "BTC-20260925-100000-C",
    }
    for exchange, name in wanted.items():
        found = chain("BTC", exchange, "2026-06-30 12:00").set_index("instrument_name").loc[name]
        assert (found["strike"], found["side"]) == (100_000.0, "call")
        assert found["expiry"] == at("2026-09-25 08:00")


def test_a_strike_stays_until_its_expiry():
    days = pd.date_range("2026-02-02 09:00", "2026-03-25 09:00", freq="3D", tz="UTC").as_unit("us")
    kept: set[str] = set()
    for day in days:
        frame = chain("ETH", "deribit", day.tz_localize(None).isoformat())
        kept = {n for n in kept if "27MAR26" in n or "26JUN26" in n}
        assert kept <= set(frame["instrument_name"])
        kept |= set(frame["instrument_name"])


@pytest.mark.parametrize(("symbol", "exchange"), [("BTC", "deribit"), ("XRP", "bybit"), ("ZEC", "derive")])
def test_volatilities_and_forwards_are_those_of_the_truth(symbol, exchange):
    frame, known = chain(symbol, exchange, "2026-03-13 07:00"), slices(symbol, exchange, "2026-03-13 07:00")
    merged = frame.merge(known, on="expiry", suffixes=("", "_true"))
    k = np.log(merged["strike"] / merged["underlying_price_true"])
    years = (merged["expiry"] - at("2026-03-13 07:00")) / pd.Timedelta("365D")
    iv = np.sqrt(total_variance(k, merged["theta_true"], merged["rho"], merged["psi"]) / years)
    assert merged["iv"].to_numpy() == pytest.approx(iv.to_numpy(), abs=1e-6)
    assert merged["underlying_price"].to_numpy() == pytest.approx(
        merged["underlying_price_true"].to_numpy(), abs=1e-6
    )
    assert merged["year_fraction"].to_numpy() == pytest.approx(years.to_numpy(), rel=1e-12)
    basis = np.log(known["underlying_price"] / known["spot"]) / known["year_fraction"]
    assert basis.to_numpy() == pytest.approx(basis.iloc[0], rel=1e-9)
    assert abs(basis.iloc[0]) < 0.2


@pytest.mark.parametrize(("symbol", "exchange"), PAIRS)
def test_surfaces_are_free_of_arbitrage(symbol, exchange):
    """Durrleman's g and the calendar on a dense grid far beyond the strikes, from the parameters."""
    k = np.linspace(-4, 4, 1601)
    for instant in INSTANTS:
        t = slices(symbol, exchange, instant)
        theta, rho, psi = (t[name].to_numpy()[:, None] for name in ("theta", "rho", "psi"))
        w = total_variance(k, theta, rho, psi)
        phi = psi / theta
        root = np.sqrt((phi * k + rho) ** 2 + 1 - rho**2)
        first = psi / 2 * (rho + (phi * k + rho) / root)
        second = psi * phi / 2 * (1 - rho**2) / root**3
        g = (1 - k * first / (2 * w)) ** 2 - first**2 / 4 * (1 / w + 0.25) + second / 2
        assert g.min() > 0
        assert np.abs(first).max() < 2
        assert np.diff(w, axis=0).min() > 0


@pytest.mark.parametrize(("symbol", "exchange"), PAIRS)
def test_slices_meet_the_closed_conditions_all_year(symbol, exchange):
    """Hendriks and Martini's pair conditions with ψ/θ falling, and Gatheral and Jacquier's for each slice."""
    for day in pd.date_range("2025-09-01", "2026-06-30", freq="37D", tz="UTC").as_unit("us"):
        t = slices(symbol, exchange, day.tz_localize(None).isoformat())
        theta, rho, psi = (t[name].to_numpy() for name in ("theta", "rho", "psi"))
        assert (np.diff(theta) > 0).all()
        assert (np.diff(psi) >= np.abs(np.diff(rho * psi))).all()
        assert (np.diff(psi / theta) <= 0).all()
        assert (psi * (1 + np.abs(rho)) < 4).all()
        assert (psi**2 / theta * (1 + np.abs(rho)) <= 4).all()


def test_calls_and_puts_share_their_volatility(btc):
    iv = btc.pivot(index=["expiry", "strike"], columns="side", values="iv")
    pd.testing.assert_series_equal(iv["call"], iv["put"], check_names=False)


@pytest.mark.parametrize(
    ("exchange", "vega_unit", "theta_unit"),
    [("deribit", 0.01, 1 / 365), ("bybit", 0.01, 1 / 365), ("binance", 1.0, 1 / 365), ("derive", 1.0, 1.0)],
)
def test_greeks_are_black_76_in_the_venues_units(exchange, vega_unit, theta_unit):
    """Against differences of the price ``F N(d1) − K N(d2)`` written with ``math.erf``."""

    def price(row, forward, iv, years):
        s = iv * math.sqrt(years)
        d1 = math.log(forward / row.strike) / s + s / 2
        n1, n2 = (0.5 * (1 + math.erf(d / math.sqrt(2))) for d in (d1, d1 - s))
        call = forward * n1 - row.strike * n2
        return call if row.side == "call" else call - forward + row.strike

    frame = chain("ETH", exchange, "2026-06-30 12:00")
    near = frame[(frame["strike"] / frame["underlying_price"] - 1).abs() < 0.25]
    for row in near.sample(40, random_state=3).itertuples():
        f, v, t = row.underlying_price, row.iv, (row.expiry - row.time) / pd.Timedelta("365D")
        up, mid, down = (price(row, f * (1 + h), v, t) for h in (1e-4, 0.0, -1e-4))
        assert row.delta == pytest.approx((up - down) / (2e-4 * f), abs=2e-5)
        assert row.gamma == pytest.approx((up - 2 * mid + down) / (1e-4 * f) ** 2, rel=2e-3, abs=1e-7)
        vega = (price(row, f, v + 1e-4, t) - price(row, f, v - 1e-4, t)) / 2e-4
        assert row.vega == pytest.approx(vega * vega_unit, rel=1e-4, abs=1e-4)
        decay = (price(row, f, v, t * (1 - 1e-4)) - price(row, f, v, t * (1 + 1e-4))) / (2e-4 * t)
        assert row.theta == pytest.approx(decay * theta_unit, rel=1e-3, abs=1e-4)


def test_one_venue_gives_no_greeks():
    frame = chain("BTC", "okx", "2026-06-30 12:00")
    assert frame[["delta", "gamma", "vega", "theta"]].isna().all(axis=None)


def test_the_surface_moves_smoothly():
    """At-the-money variance of a fixed expiry from hour to hour: small steps, no jump at midnight."""
    t = sample.truth("surface", symbols=["BTC"], exchanges=["deribit"], start="2026-06-20", end="2026-06-25")
    t = t[t["expiry"] == at("2026-09-25 08:00")]
    level = np.sqrt(t["theta"] / t["year_fraction"]).to_numpy()
    assert np.ptp(level) > 0.002
    assert np.abs(np.diff(level)).max() < 0.002
    assert np.abs(np.diff(level, 2)).max() < 2e-4


def test_open_interest_gathers_at_the_money(btc):
    quarter = btc[btc["expiry"] == at("2026-09-25 08:00")]
    k = np.log(quarter["strike"] / quarter["underlying_price"]).abs()
    assert quarter.loc[k < 0.2, "open_interest"].mean() > 3 * quarter.loc[k > 0.6, "open_interest"].mean()


def test_open_interest_grows_from_nothing():
    """The quarter's end of March 2027 is listed 330 days before, on 30 April 2026."""
    sizes = []
    for instant in ("2026-04-30 08:00", "2026-05-02 08:00", "2026-05-30 08:00"):
        frame = chain("BTC", "deribit", instant)
        sizes.append(frame.loc[frame["expiry"] == at("2027-03-26 08:00"), "open_interest"].sum())
    assert chain("BTC", "deribit", "2026-04-30 07:00")["expiry"].max() < at("2027-03-26 08:00")
    assert sizes[0] == 0
    assert 0 < 3 * sizes[1] < sizes[2]
