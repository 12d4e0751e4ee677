"""Rules of a sweep are simulated in one loop, with the same result as each rule alone."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

from derivdata.analysis import backtest
from derivdata.analysis.backtest import engine
from tests.analysis.test_backtest import drawn, drawn_sizes, panel


def _first_symbols(number: int, past: backtest.Past) -> dict[str, tuple[str, ...]]:
    return dict.fromkeys(past.symbols[:number], past.venues[:2])


def _many_rules(forecast: Any) -> dict[str, Any]:
    """Rules of every kind, several of each, in an order that mixes them."""
    rules: dict[str, Any] = {}
    for place in range(3):
        spread = backtest.SpreadThreshold(1.0 + 0.7 * place, 0.2 * place, switch_bps_8h=1.0 + place)
        rules |= {
            f"spread {place}": spread,
            f"mean {place}": backtest.SpreadThreshold(0.5 + place, window="2d"),
            f"holding {place}": backtest.HoldingTime(spread, f"{1 + place}d", (None, "3d", "5d")[place]),
            f"rotation {place}": backtest.Rotation("1d", top=(1, None, 2)[place], min_bps_8h=0.5 * place),
            f"forecast {place}": backtest.ForecastThreshold(forecast, 1.0 + place, 0.5 * place),
            f"limit {place}": backtest.VenueLimit(spread, 120_000.0 * (1 + place)),
            f"function {place}": partial(_first_symbols, place + 1),
        }
    return rules


@pytest.mark.parametrize("capital", [2e5, 1e7])
@pytest.mark.parametrize("contracts", [None, {"beta": "inverse"}])
def test_sweep_results_equal_single_backtests(capital: float, contracts: Any) -> None:
    """To the last bit, also where the capital is too small for all pairs and legs are liquidated."""
    rates, prices = drawn(9)
    held = panel(rates)
    rules = _many_rules(held.drop_vars("interval_hours", errors="ignore"))
    options: dict[str, Any] = {"prices": panel(prices, unit="USD"), "contracts": contracts}
    options |= {"capital": capital, "leverage": 40.0, "transfer_every": "16h"}
    costs = backtest.Costs(fee_bps=1.0, slippage_bps=0.5)
    table = backtest.sweep(held, rules, costs, **options).set_index("rule")
    assert list(table.index) == list(rules)
    for name, rule in rules.items():
        alone = backtest.carry(held, rule, costs, **options)
        for figure in ("net_usd", "apr", "sharpe", "sharpe_adjusted", "max_drawdown", "liquidations"):
            np.testing.assert_array_equal(table[figure][name], alone[figure].item(), err_msg=name)
        assert table["turnover"][name] == pytest.approx(alone["turnover"].item(), rel=1e-12)
        assert table["trades"][name] == alone.sizes["trade"]
    assert table["trades"].nunique() > 5


def test_sweep_accepts_portfolios_and_many_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    rates, prices = drawn(4)
    rules: dict[str, Any] = {f"{enter:g}": backtest.SpreadThreshold(enter) for enter in (1.0, 2.0, 3.0)}
    rules = {"sized": backtest.Portfolio(drawn_sizes(4), band=0.3)} | rules
    options: dict[str, Any] = {"prices": panel(prices, unit="USD")}
    costs = backtest.Costs(fee_bps=1.0)
    complete = backtest.sweep(panel(rates), rules, costs, **options)
    alone = backtest.carry(panel(rates), rules["sized"], costs, **options)
    assert complete["rule"].tolist() == ["sized", "1", "2", "3"]
    assert complete["net_usd"][0] == alone["net_usd"].item()
    assert complete["trades"][0] == alone.sizes["trade"] > 0
    monkeypatch.setattr(engine, "_MAX_RULES", 2)
    pd.testing.assert_frame_equal(backtest.sweep(panel(rates), rules, costs, **options), complete)


def test_sweep_rejects_options_unknown_to_carry() -> None:
    with pytest.raises(TypeError, match="no argument 'legs_usd'; did you mean 'leg_usd'"):
        backtest.sweep(
            panel(drawn(4)[0]), {"a": backtest.SpreadThreshold(1.0)}, backtest.Costs(), legs_usd=1.0
        )
