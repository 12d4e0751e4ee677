"""Figures of options in a report: titles and labels state the numbers that are drawn."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.axes import Axes

from derivdata.reports import charts


@pytest.fixture
def ax() -> Iterator[Axes]:
    figure, axes = plt.subplots()
    yield axes
    plt.close(figure)


def title(ax: Axes) -> str:
    return " ".join(ax.get_title(loc="left").split())


@pytest.mark.parametrize(
    ("atm", "words"),
    [
        ([40.0, 40.2, 40.4], "ATM volatility is flat at 40.2 %"),
        ([40.0, 42.0, 45.0], "ATM volatility rises from 40.0 % in 12 h to 45.0 % in 90 d"),
        ([45.0, 42.0, 40.0], "ATM volatility falls from 45.0 % in 12 h to 40.0 % in 90 d"),
        ([40.0, 45.0, 42.0], "ATM volatility peaks at 45.0 % in 7.0 d and falls to 42.0 % in 90 d"),
        ([45.0, 40.0, 42.0], "ATM volatility falls to 40.0 % in 7.0 d and rises to 42.0 % in 90 d"),
        ([46.3, 46.8, 44.8], "ATM volatility peaks at 46.8 % in 7.0 d and falls to 44.8 % in 90 d"),
        ([44.8, 44.6, 45.3], "ATM volatility falls to 44.6 % in 7.0 d and rises to 45.3 % in 90 d"),
        ([46.3, 46.4, 44.8], "ATM volatility falls from 46.3 % in 12 h to 44.8 % in 90 d"),
        ([40.0], "ATM volatility is 40.0 % at the only expiry"),
    ],
)
def test_title_of_a_term_structure_states_its_shape(atm: list[float], words: str) -> None:
    tenors = np.array([0.5, 7.0, 90.0])[: len(atm)]
    assert charts.term_words(tenors, np.array(atm)) == words


@pytest.mark.parametrize(
    ("past", "words"),
    [
        ([45.3, 44.8, 44.8], ", on average 1.0 points above the day before"),
        ([47.3, 48.8, np.nan], ", on average 1.5 points below the day before"),
        ([46.3, 46.8, 44.8], ", on average unchanged from the day before"),
        ([np.nan, np.nan, np.nan], ""),
    ],
)
def test_title_of_a_term_structure_has_the_mean_change(past: list[float], words: str) -> None:
    """The first changes are 1, 2 and 0 points, the second ones -1 and -2; the last ones have no value."""
    assert charts.change_words(np.array([46.3, 46.8, 44.8]), np.array(past)) == words


@pytest.mark.parametrize(
    ("reversals", "words"),
    [
        ([-1.0, -3.0], "25-delta puts cost 1.0 to 3.0 volatility points more than calls, most at 30 d"),
        ([2.0, 1.0], "25-delta calls cost 1.0 to 2.0 volatility points more than puts, most at 7.0 d"),
        ([-1.0, 3.0], "the 25-delta skew changes sign with expiry; calls are 3.0 points richer at 30 d"),
        ([np.nan, -3.0], "25-delta puts cost 3.0 volatility points more than calls"),
        ([np.nan, np.nan], "25 delta is beyond the quotes"),
    ],
)
def test_title_of_smiles_states_which_side_costs_more(reversals: list[float], words: str) -> None:
    assert charts.skew_words(np.array(reversals), np.array([7.0, 30.0])) == words


def test_surface_writes_every_volatility_and_greys_missing_ones(ax: Axes) -> None:
    """The 25-delta call is ATM plus butterfly plus half the reversal: 50 + 1 - 2 = 49, the put 53."""
    points = pd.DataFrame(
        {
            "tenor [days]": [7.0, 30.0],
            "ATM [%]": [50.0, 48.0],
            "RR 25Δ": [-4.0, -4.0],
            "BF 25Δ": [1.0, 1.0],
            "RR 10Δ": [-8.0, np.nan],
            "BF 10Δ": [3.0, np.nan],
        }
    )
    charts.draw_surface(points, "BTC on deribit", ax=ax, source="hand")
    written = [text.get_text() for text in ax.texts]
    assert written[:8] == ["49.0", "49.0", "47.0", "50.0", "48.0", "53.0", "51.0", "57.0"]
    assert title(ax) == "BTC on deribit: 10Δ puts are 8.0 points above 10Δ calls in 7 days"
    assert any("grey: beyond the quotes" in words for words in written)


def level(symbol: str, implied: float, realised: float) -> charts.Level:
    times = pd.date_range("2026-01-01", periods=21, freq="D")
    lines = [xr.DataArray(np.full(21, value), {"time": times}, ["time"]) for value in (implied, realised)]
    return charts.Level(symbol, *lines, pd.DataFrame(), 7.0, 0.0, 20.0)


def test_levels_are_differences_with_a_label_for_each_symbol(ax: Axes) -> None:
    levels = [level("BTC", 0.45, 0.40), level("ETH", 0.60, 0.72)]
    charts.draw_levels(levels, ax=ax, source="hand")
    assert title(ax) == "Latest 30-day ATM is 5.0 points above 7-day realised for BTC, 12.0 below for ETH"
    assert [line.get_ydata()[-1] for line in ax.lines[:2]] == pytest.approx([5.0, -12.0])
    words = [text.get_text() for text in ax.texts]
    assert words[:3] == ["latest: BTC 45.0 − 40.0 %, ETH 60.0 − 72.0 %", "ETH -12.0", "BTC +5.0"]


def test_last_difference_is_of_the_last_chain_and_the_last_price(ax: Axes) -> None:
    """Realised volatility ends a day before the chain, in which ATM volatility is 45 %."""
    btc = level("BTC", 0.45, 0.40)
    charts.draw_levels([btc._replace(realised=btc.realised[:-1])], ax=ax, source="hand")
    assert title(ax) == "Latest 30-day ATM is 5.0 points above 7-day realised for BTC"
    assert ax.lines[0].get_ydata()[-1] == pytest.approx(5.0)
