import numpy as np
import pandas as pd
import pytest

import derivdata as dd
from derivdata.analysis import backtest
from derivdata.analysis.futures import cash_and_carry, constant_maturity, roll, term_structure, with_leg
from tests.support.records import assert_identical

START = pd.Timestamp("2026-03-02T08:00Z")
NEAR, FAR = START + pd.Timedelta("73D"), START + pd.Timedelta("146D")  # 0.2 and 0.4 years


def rows(*cells: tuple[str, pd.Timestamp, float, float, float], at: pd.Timestamp = START) -> pd.DataFrame:
    """Rows of one time on okx: contract, expiry, price, index, open interest."""
    names = ["instrument_name", "expiry", "price_usd", "index_price_usd", "oi_usd"]
    return pd.DataFrame(cells, columns=names).assign(symbol="BTC", exchange="okx", time=at)


TABLE = rows(
    ("BTC-USD-260514", NEAR, 102.0, 100.0, 50.0),
    ("BTC-USDT-260514", NEAR, 999.0, 100.0, 5.0),  # smaller: it does not count
    ("BTC-USDT-260726", FAR, 106.05, 101.0, 50.0),  # an index of 101 in its own quote
    ("BTC-USD-260302", START + pd.Timedelta("30min"), 100.1, 100.0, 900.0),  # its last hour
)


def test_basis_uses_the_index_in_the_quote_currency_of_each_expiry() -> None:
    curve = term_structure(TABLE).isel(symbol=0, exchange=0, time=0)
    assert pd.DatetimeIndex(curve["expiry"]).tz_localize("UTC").tolist() == [NEAR, FAR]
    assert float(curve["spot"]) == 100.5  # the median of both; each basis is of its own
    assert curve["forward"].values.tolist() == pytest.approx([1.02 * 100.5, 1.05 * 100.5])
    assert curve["basis"].values.tolist() == pytest.approx([0.02, 0.05])
    assert curve["basis_apr"].values.tolist() == pytest.approx([0.1, 0.125])
    assert curve["forward_carry"].values[1] == pytest.approx(np.log(1.05 / 1.02) / 0.2)


def test_figure_of_a_basis_states_contango() -> None:
    curve = term_structure(TABLE).isel(symbol=0, exchange=0, time=0)
    figure = dd.plot.term_structure(curve, kind="basis", source="made by hand")
    title = "BTC on okx: all forwards are above spot, by 10.0 to 12.5 % a year (contango)"
    assert figure.get_title(loc="left").startswith(title)


def test_term_structure_without_a_future_long_enough_raises() -> None:
    with pytest.raises(
        ValueError, match="futures must have at least one row with an index price before its expiry"
    ):
        term_structure(TABLE, min_tenor="300d")


def test_times_without_a_zone_are_utc() -> None:
    naive = TABLE.assign(time=TABLE["time"].dt.tz_localize(None))
    assert_identical(term_structure(naive), term_structure(TABLE))


@pytest.mark.parametrize(
    ("days", "total"),
    [
        (36.5, 0.5 * np.log(1.02)),  # half of the way from 0
        (73.0, np.log(1.02)),
        (109.5, 0.5 * (np.log(1.02) + np.log(1.05))),
        (146.0, np.log(1.05)),
        (147.0, np.nan),
    ],
)
def test_a_constant_maturity_is_linear_in_the_logarithm_between_expiries(days: float, total: float) -> None:
    curve = term_structure(TABLE)
    for data in (curve, curve.chunk(time=1)):
        result = constant_maturity(data, pd.Timedelta(days, "D")).values.item()
        assert result == pytest.approx(np.expm1(total) * 365.0 / days, nan_ok=True)


def test_cash_and_carry_pays_the_basis_less_costs_and_the_loan() -> None:
    trade = cash_and_carry(term_structure(TABLE), costs_bps=50.0, borrow_apr=0.05)
    near = trade.isel(symbol=0, exchange=0, time=0, expiry=0)
    assert float(near["net"]) == pytest.approx(0.02 - 0.005 - 0.01)
    assert float(near["net_apr"]) == pytest.approx(0.025)
    assert float(near["breakeven_borrow_apr"]) == pytest.approx(0.075)
    with pytest.raises(ValueError, match=r"costs_bps must be 0 or more, got -1\.0"):
        cash_and_carry(term_structure(TABLE), costs_bps=-1.0)


def _days(*prices: tuple[float | None, float]) -> pd.DataFrame:
    first = NEAR - pd.Timedelta(len(prices), "D")
    return pd.concat(
        rows(*cells, at=first + pd.Timedelta(day, "D"))
        for day, (near, far) in enumerate(prices)
        for cells in [[("N", NEAR, near, 100.0, 9.0)] * (near is not None) + [("F", FAR, far, 100.0, 9.0)]]
    )


def test_a_roll_sells_the_old_contract_at_its_price_and_changes_no_earlier_one() -> None:
    rolled = roll(_days((102.0, 105.0), (101.0, 106.05), (100.0, 110.0)), before="2d")
    assert rolled["instrument_name"].tolist() == ["N", "F", "F"]  # two days are not more than two days
    assert rolled["roll_bps"].tolist() == pytest.approx([np.nan, 500.0, np.nan], nan_ok=True)
    assert rolled["rolled_usd"].tolist() == pytest.approx([102.0, 101.0, 110.0 / 1.05])
    waited = roll(_days((102.0, 105.0), (None, 106.05), (100.0, 110.0)), before="2d")  # for both prices
    assert waited["instrument_name"].tolist() == ["N", "F"]
    assert waited["roll_bps"].iat[1] == pytest.approx(1000.0)
    gone = [_days((102.0, 105.0), (None, 106.05)), rows(("F", FAR, 110.0, 100.0, 9.0), at=NEAR)]
    with pytest.raises(ValueError, match="BTC on okx: the contract of 2026-05-14 cannot be rolled"):
        roll(pd.concat(gone), before="1d")
    unpriced = roll(_days((102.0, 105.0), (101.0, np.nan), (100.0, 110.0)), before="2d")
    assert unpriced["rolled_usd"].tolist() == pytest.approx([102.0, 101.0, 100.0])
    with pytest.raises(ValueError, match="futures must have a contract with more than 900d until its expiry"):
        roll(TABLE, before="900d")


def test_contract_choice_has_no_look_ahead() -> None:
    """A nearer expiry is listed later, and another contract of the same expiry becomes the larger one."""
    table = _days((None, 105.0), (102.0, 106.0), (101.0, 107.0), (100.0, 108.0))
    table = pd.concat(
        [table, table[table["instrument_name"] == "F"].assign(instrument_name="G", oi_usd=[1, 99, 99, 99])]
    )
    rolled = roll(table.sample(frac=1.0, random_state=1), before="1h")
    assert rolled["instrument_name"].tolist() == ["F"] * 4
    assert rolled["roll_bps"].isna().all()
    for last in table["time"].unique():
        pd.testing.assert_frame_equal(
            roll(table[table["time"] <= last], before="1h"), rolled[rolled["time"] <= last]
        )


@pytest.mark.filterwarnings(
    "ignore:prices lie more than 5 %:derivdata.errors.DataNotice"
)  # the future's basis
def test_backtest_of_a_future_earns_its_basis_and_the_perpetual_rates() -> None:
    """Short the future at 105, at expiry 100; long the perpetual, which is paid twice."""
    times = pd.date_range(START, periods=3, freq="8h")
    cells = {"symbol": "BTC", "exchange": "okx", "time": times}
    paid = pd.DataFrame({**cells, "rate_bps_8h": [5.0, -2.0, -3.0], "kind": "settled", "interval_hours": 8.0})
    marks = pd.DataFrame({**cells, "kind": "mark", "price_usd": [100.0] * 3, "resolution": "raw"})
    future = pd.concat(
        rows(("F", FAR, price, 100.0, 9.0), at=at)
        for at, price in zip(times, (105.0, 103.0, 100.0), strict=True)
    )
    hourly = {"time": pd.date_range(START, times[-1], freq="h"), "interval_hours": 1.0, "exchange": "dydx"}
    hourly = pd.DataFrame({"symbol": "BTC", "rate_bps_8h": 1.0, "kind": "settled", **hourly})
    market = with_leg(dd.panel(pd.concat([paid, hourly])), dd.panel(marks), roll(future))
    assert market["exchange"].values.tolist() == ["dydx", "okx", "okx future"]
    assert market["rate_bps_8h"].sel(exchange="okx future").values.ravel().tolist() == [0.0] * 17

    def hold(past: backtest.Past) -> dict[str, tuple[str, str]]:
        return {"BTC": ("okx", "okx future")}

    rates, prices = market["rate_bps_8h"], market["price_usd"]
    trade = backtest.trades(backtest.carry(rates, hold, backtest.Costs(fee_bps=0.0), prices=prices)).iloc[0]
    assert trade["price_usd"] > 0.0  # of each coin 5 USD, and 2 and 3 bps of 100
    assert trade["price_usd"] / trade["funding_usd"] == pytest.approx(5.0 / 0.05)
