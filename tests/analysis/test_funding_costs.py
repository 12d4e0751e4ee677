from itertools import pairwise

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from derivdata.analysis import funding
from derivdata.analysis.funding.persistence import hours_to_earn
from tests.support.examples import examples

INF = float("inf")


def _integral(spread, mean, half_life, hours):
    inner = [n * half_life for n in (1.0, 5.0, 40.0) if n * half_life < hours]
    pieces = pairwise([0.0, *inner, hours])  # a fast decay is lost on one long interval
    return sum(
        quad(lambda t: (mean + (spread - mean) * 0.5 ** (t / half_life)) / 8.0, a, b)[0] for a, b in pieces
    )


def test_spread_that_turns_negative_breaks_even_early_or_never():
    """5 → −1 with a half-life of a day peaks at 9.16 bps, where 6 × 2^(−t/24) = 1: after 62.04 h."""
    at_peak = _integral(5.0, -1.0, 24.0, 24.0 * np.log2(6.0))
    assert hours_to_earn(5.0, at_peak + 0.01, -1.0, 24.0) == INF
    just = hours_to_earn(5.0, at_peak - 1e-9, -1.0, 24.0)
    assert just == pytest.approx(62.04, abs=0.05)
    assert just < 24.0 * np.log2(6.0)


@examples(10, 200)
@given(st.floats(-20, 20), st.floats(0.1, 100), st.floats(-20, 20), st.floats(1.0, 500.0))
def test_carry_at_break_even_equals_the_cost(spread, cost, mean, half_life):
    result = hours_to_earn(spread, cost, mean, half_life)
    if np.isfinite(result) and result < 1e5:
        assert _integral(spread, mean, half_life, result) == pytest.approx(cost, rel=1e-6)
        before = _integral(spread, mean, half_life, 0.9 * result)
        assert before < cost
    elif mean > 1e-6:
        assert result > 1e4
    else:
        assert max(_integral(spread, mean, half_life, h) for h in (1, 10, 100, 1_000, 1e4)) < cost


@pytest.mark.parametrize(
    ("spread", "cost", "expected"),
    [(5.0, 20.0, 32.0), (-5.0, 20.0, INF), (0.0, 20.0, INF), (0.0, 0.0, 0.0), (5.0, -1.0, 0.0)],
)
def test_constant_spread_breaks_even_at_cost_over_rate(spread, cost, expected):
    assert hours_to_earn(spread, cost, spread, INF) == expected


def test_limits_of_the_half_life():
    """At once: only the mean pays, 20 bps at 1 bps/8h. Never: only the spread, at 5."""
    assert hours_to_earn(5.0, 20.0, 1.0, 0.0) == pytest.approx(160.0)
    assert hours_to_earn(5.0, 20.0, 1.0, INF) == pytest.approx(32.0)
    assert hours_to_earn(1.0, 20.0, 1.0, 24.0) == pytest.approx(160.0)
    # The root of H/8 + (5 − 1)/8 (1 − e^(−κH))/κ = 20, and 5/(8κ) = 21.64, which is below 25.
    assert hours_to_earn(5.0, 20.0, 1.0, 24.0) == pytest.approx(52.184460935142, abs=1e-8)
    assert hours_to_earn(5.0, 25.0, 0.0, 24.0) == INF
    result = hours_to_earn(np.array([5.0, np.nan, -1.0]), 20.0, np.array([5.0, 5.0, -1.0]), INF)
    np.testing.assert_array_equal(result, [32.0, np.nan, INF])
    # 1 bps/8h that stays for long pays 1 bps after 8.04 h, whatever lies beyond.
    for mean in (-5e-324, -1e-12):
        result = hours_to_earn(1.0, 1.0, mean, 500.0)
        assert result == pytest.approx(8.0447, abs=1e-4)


def _depth(values):
    return xr.DataArray(
        values,
        dims=(*(["side"] if np.ndim(values) == 2 else []), "depth_bps"),
        coords={"depth_bps": [10.0, 25.0, 50.0, 100.0]},
        attrs={"units": "USD"},
    )


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (50.0, 2.5),  # half of the first band, evenly from 0: mean distance 2.5
        (100.0, 5.0),
        (150.0, (100 * 5.0 + 50 * 13.75) / 150),  # half of the band 10 to 25: its mean is 13.75
        (200.0, (100 * 5.0 + 100 * 17.5) / 200),
        (400.0, (100 * 5.0 + 100 * 17.5 + 200 * 75.0) / 400),  # nothing between 25 and 50
        (400.1, np.nan),
    ],
)
def test_slippage_through_the_bands(size, expected):
    cost = funding.slippage_bps(_depth([100.0, 200.0, 200.0, 400.0]), size)
    np.testing.assert_allclose(float(cost), expected, rtol=1e-14)


@pytest.mark.parametrize("depth", [[100.0, 90.0, 200.0, 400.0], [100.0, np.nan, 200.0, 400.0]])
def test_decreasing_or_missing_depth_gives_nan_slippage(depth):
    assert np.isnan(funding.slippage_bps(_depth(depth), 50.0))


def test_slippage_of_several_books():
    depth = _depth([[100.0, 200.0, 300.0, 400.0], [50.0, 60.0, 70.0, 80.0]])
    cost = funding.slippage_bps(depth, 100.0)
    assert cost.dims == ("side",)
    assert float(cost[0]) == 5.0
    assert np.isnan(cost[1])
    with pytest.raises(ValueError, match="unit of depth_usd is missing"):
        funding.slippage_bps(_depth([1.0, 2.0, 3.0, 4.0]).drop_attrs(), 1.0)
    with pytest.raises(ValueError, match="ascend"):
        funding.slippage_bps(_depth([1.0, 2.0, 3.0, 4.0])[::-1], 1.0)
    with pytest.raises(ValueError, match="size_usd must not have the dim 'depth_bps': select one"):
        funding.slippage_bps(_depth([1.0, 2.0, 3.0, 4.0]), _depth([1.0, 1.0, 1.0, 1.0]))
