"""Greeks of a chain in one unit: published greeks against finite differences of prices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from derivdata.analysis import chain

GREEKS = ("delta", "gamma", "vega", "theta")


def _option(exchange: str, quoted: int, expiry: str, **figures: Any) -> dict[str, Any]:
    """A row of one option; `quoted` in milliseconds."""
    return {
        "symbol": "BTC",
        "exchange": exchange,
        "time": pd.Timestamp(quoted, unit="ms", tz="UTC"),
        "expiry": pd.Timestamp(f"{expiry}T08:00Z"),
        **figures,
    }


# Tickers as the venues sent them: cryptofeed 57d5f18d (2021-07-22), and ccxt 4.5.90 (2023-11-10).
_DERIBIT = _option(
    "deribit", 1626993723632, "2021-07-30", instrument_name="ETH-30JUL21-2800-C", strike=2800.0, side="call",
    iv=1.2074, underlying_price=2003.61, delta=0.03127, gamma=0.0002, vega=0.20072, theta=-1.64029,
)  # fmt: skip
_BYBIT = _option(
    "bybit", 1699584008326, "2024-01-26", instrument_name="BTC-26JAN24-39000-C", strike=39000.0, side="call",
    iv=0.5577, underlying_price=37649.67254894, delta=0.49640971, gamma=0.00004131, vega=69.08651675,
    theta=-24.9443226,
)  # fmt: skip
_OKX = _option(
    "okx", 1699586421976, "2024-03-29", instrument_name="BTC-USD-240329-32000-C", strike=32000.0, side="call",
    iv=0.5916253554539876, underlying_price=37675.80158694987, delta=0.5105464486882039,
    gamma=-0.13183515090501083, vega=0.0020207455080045846, theta=-0.0004202992014012855,
)  # fmt: skip
# Recorded 2025-07-09 (nbgsmk/GEC ae5d17e5).
_OKX_2025 = _option(
    "okx", 1752086420763, "2025-12-26", instrument_name="BTC-USD-251226-100000-C", strike=100000.0,
    side="call", iv=0.4335822639833618, underlying_price=112782.12029616143501, delta=0.5339928762039878,
    gamma=0.08913628046196788, vega=0.002330608031079633, theta=-0.00029783940855611867,
)  # fmt: skip
# OKX's documentation of opt-summary, 2024-10: its deltaBS is -0.9999672034, its gammaBS 0.0000000002
_OKX_PUT = _option(
    "okx", 1728703155650, "2024-10-13", instrument_name="BTC-USD-241013-70000-P", strike=70000.0, side="put",
    iv=0.3675503331, underlying_price=62604.6993093463, delta=-1.1180902625, gamma=2.2361957091,
    vega=0.0000000001, theta=0.0000032334,
)  # fmt: skip


@pytest.mark.parametrize(
    ("row", "tolerance"),
    [
        (_DERIBIT, {"delta": 5e-6, "gamma": 5e-6, "vega": 1e-5, "theta": 5e-5}),  # half a last digit, or one
        (_BYBIT, {"delta": 5e-5, "gamma": 5e-9, "vega": 3e-3, "theta": 3e-3}),
    ],
)
def test_published_greeks_equal_black76_in_table_units(row, tolerance) -> None:
    (result,) = chain.greeks(pd.DataFrame([row])).to_dict("records")
    for name in GREEKS:
        assert result[name] == pytest.approx(row[name], abs=tolerance[name]), name
        assert result[f"{name}_venue"] == result[f"{name}_converted"] == row[name]
    assert (result["venue_unit"], result["is_confirmed"]) == ("usd", True)


def test_premium_adjusted_greeks_of_okx_become_those_of_black() -> None:
    """Within 0.3 % for delta, 1 % for gamma and vega and 2 % for theta, by which OKX' own inputs differ."""
    rows = pd.DataFrame([_OKX, _OKX_PUT])
    result = chain.greeks(rows, venue_units={"okx": "coin"})
    call, put = result.to_dict("records")
    for name, share in (("delta", 3e-3), ("gamma", 1e-2), ("vega", 1e-2), ("theta", 2e-2)):
        assert call[f"{name}_converted"] == pytest.approx(call[name], rel=share), name
        assert call[f"{name}_venue"] == _OKX[name]
    assert put["delta_converted"] == pytest.approx(-0.9999672034, abs=5e-5)
    assert put["gamma_converted"] == pytest.approx(0.0000000002, abs=1e-9)
    assert result["venue_unit"].tolist() == ["coin", "coin"]
    assert result["is_confirmed"].all()
    (late,) = chain.greeks(pd.DataFrame([_OKX_2025]), venue_units={"okx": "coin"}).to_dict("records")
    for name in GREEKS:
        assert late[f"{name}_converted"] == pytest.approx(late[name], rel=1e-3), name
    assert not chain.greeks(pd.DataFrame([_OKX_2025]))["is_confirmed"].any(), "the fields with BS are not"


def _coin_price(forward: float, strike: float, years: float, iv: float, sign: int) -> float:
    """Premium in coin, by the formula of 1976."""
    deviation = iv * math.sqrt(years)
    d1 = math.log(forward / strike) / deviation + deviation / 2
    d2 = d1 - deviation
    return float(sign * (norm.cdf(sign * d1) - strike / forward * norm.cdf(sign * d2)))


@pytest.mark.parametrize(("strike", "side"), [(80.0, "call"), (120.0, "call"), (95.0, "put"), (140.0, "put")])
def test_coin_greeks_equal_finite_differences_of_the_coin_price(strike: float, side: str) -> None:
    """Delta and gamma of OKX are F v' and F² v''; in USD they are differences of F v."""
    forward, iv, sign = 100.0, 0.6, 1 if side == "call" else -1
    start, end = pd.Timestamp("2026-01-01T08:00Z"), pd.Timestamp("2026-07-02T08:00Z")
    years = (end - start) / pd.Timedelta(365, "D")

    def coin(f: float = forward, t: float = years, sigma: float = iv) -> float:
        return _coin_price(f, strike, t, sigma, sign)

    def usd(f: float = forward, t: float = years, sigma: float = iv) -> float:
        return f * coin(f, t, sigma)

    expected, stated = {}, {}
    for value, greeks, scale in ((usd, expected, 1.0), (coin, stated, forward)):
        greeks["delta"] = scale * (value(f=forward + 0.01) - value(f=forward - 0.01)) / 0.02
        second = value(f=forward + 0.1) - 2 * value() + value(f=forward - 0.1)
        greeks["gamma"] = scale**2 * second / 0.01
        greeks["vega"] = (value(sigma=iv + 1e-5) - value(sigma=iv - 1e-5)) / 2e-5 / 100
        greeks["theta"] = (value(t=years - 1e-5) - value(t=years + 1e-5)) / 2e-5 / 365
    row = {
        "symbol": "BTC", "exchange": "okx", "time": start, "expiry": end, "strike": strike, "side": side,
        "iv": iv, "underlying_price": forward, **stated,
    }  # fmt: skip
    (result,) = chain.greeks(pd.DataFrame([row]), venue_units={"okx": "coin"}).to_dict("records")
    for name in GREEKS:
        assert result[name] == pytest.approx(expected[name], rel=1e-4), name
        assert result[f"{name}_converted"] == pytest.approx(expected[name], rel=1e-4), name


def test_greeks_in_an_unknown_unit_are_not_converted() -> None:
    rows = pd.DataFrame([_BYBIT, {**_BYBIT, "exchange": "elsewhere", "delta": np.nan}])
    result = chain.greeks(rows).set_index("exchange")
    assert result["venue_unit"].to_dict() == {"bybit": "usd", "elsewhere": "unknown"}
    assert np.isnan(result.loc["elsewhere", [f"{name}_converted" for name in GREEKS]].to_numpy(float)).all()
    assert result.loc["elsewhere", "gamma_venue"] == _BYBIT["gamma"]
    assert result.loc["elsewhere", "delta"] == result.loc["bybit", "delta"]
    with pytest.raises(ValueError, match="venue_units has okx, which the chain does not have"):
        chain.greeks(rows, venue_units={"okx": "coin"})
