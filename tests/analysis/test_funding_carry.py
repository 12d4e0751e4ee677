import numpy as np
import pytest
import xarray as xr
from scipy.signal import lfilter

from derivdata.analysis import funding
from derivdata.analysis.status import FundingStatus
from tests.analysis.funding_made import market, series

NAN = np.nan
FEES = {"a": 4.5, "b": 2.5}


def _pair(long, short, **options):
    return market(np.stack([long, short])[None], venues=["a", "b"], **options)


def _realised(panel, start, end, fee_bps=0.0, **options):
    return funding.realised_carry(panel, "a", "b", start, end, fee_bps=fee_bps, **options).squeeze()


def test_pair_earns_the_settlements_of_its_holding_time():
    """Long pays −1, 2, 3; short receives 4, 5, −6: 5 + 3 − 9 = −1, less 2 × (4.5 + 2.5) of fees."""
    result = _realised(_pair([-1.0, 2.0, 3.0], [4.0, 5.0, -6.0]), "2026-01-01", "2026-01-02", FEES)
    assert float(result["long_bps"]) == -4.0
    assert float(result["short_bps"]) == 3.0
    assert float(result["gross_bps"]) == -1.0
    assert float(result["cost_bps"]) == 14.0
    assert float(result["net_bps"]) == -15.0
    # -15 bps in one day are -0.0015 × 365 a year.
    assert float(result["net_apr"]) == pytest.approx(-0.5475)
    assert result["net_apr"].attrs == {"units": "1/year"}
    assert int(result["long_settlements"]) == int(result["short_settlements"]) == 3
    assert int(result["status"]) == 0


@pytest.mark.parametrize(
    ("entry", "exit_", "gross", "settlements"),
    [
        ("2026-01-01T08:00:00", "2026-01-01T16:00:00", 2.0, 1),  # the one at the entry is not earned
        ("2026-01-01T07:59:59", "2026-01-01T16:00:00", 3.0, 2),
        ("2026-01-01T08:00:01", "2026-01-01T15:59:59", 0.0, 0),  # a second late: nothing until the next
        ("2026-01-01T08:00:01", "2026-01-02T00:00:00", 6.0, 2),
    ],
)
def test_settlements_count_after_the_entry_up_to_the_exit(entry, exit_, gross, settlements):
    result = _realised(_pair([0.0] * 4, [1.0, 2.0, 4.0, 8.0]), entry, exit_)
    assert float(result["gross_bps"]) == gross
    assert int(result["short_settlements"]) == settlements


@pytest.mark.parametrize(
    ("short", "exit_"),
    [
        ([1.0, NAN, 1.0, 1.0], "2026-01-02T00:00"),  # a settlement inside is missing
        ([1.0, 1.0, 1.0, NAN], "2026-01-02T08:00"),  # the one at the exit is
        ([1.0, 1.0, 1.0, 1.0], "2026-01-02T16:00"),  # the data ends before the exit
    ],
)
def test_an_incomplete_span_gives_nan(short, exit_):
    result = _realised(_pair([0.0] * 4, short), "2026-01-01", exit_)
    assert np.isnan(result["net_bps"])
    assert int(result["status"]) == FundingStatus.GAP


def test_values_outside_the_span_do_not_affect_carry():
    result = _realised(_pair([0.0] * 4, [1.0] * 4), "2025-12-31", "2026-01-01T16:00")
    assert np.isnan(result["net_bps"])
    result = _realised(_pair([0.0] * 2, [1.0] * 2), "2026-01-01", "2026-01-01T23:00")
    assert float(result["gross_bps"]) == 2.0
    # Rates that swap: the best pair changes each time, what is held pays it all back.
    panel = _pair([1.0, -1.0] * 3, [-1.0, 1.0] * 3)
    assert float(funding.best_pair(panel)["spread_bps_8h"].sum()) == 12.0
    assert float(_realised(panel, "2026-01-01", "2026-01-03")["gross_bps"]) == 0.0


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            {"panel": _pair([1.0] * 3, [1.0] * 3, kind="sampled")},
            ValueError,
            "panel must have payments, got sampled rates",
        ),
        (
            {"start": "2026-01-02", "end": "2026-01-01"},
            ValueError,
            r"start must be before end, got start 2026-01-02 .* and end 2026-01-01 ",
        ),
        ({"fee_bps": "low"}, TypeError, "fee_bps must be"),
        ({"fee_bps": {"a": 1.0}}, ValueError, "fee_bps does not have a fee for b: add the bps of one trade"),
        ({"panel": market(np.ones((1, 2, 3)))}, ValueError, "'a' is not a venue"),
    ],
)
def test_impossible_spans_are_rejected(change, error, message):
    arguments = {"panel": _pair([1.0] * 3, [1.0] * 3), "start": "2026-01-01", "end": "2026-01-02"} | change
    with pytest.raises(error, match=message):
        _realised(**arguments)


def _persistent(rows=270, *, half_life=3.0, mean=2.0, seed=1):
    rng = np.random.default_rng(seed)
    phi = 0.5 ** (1.0 / half_life)
    spread = np.empty(rows)
    spread[0] = mean
    for t in range(1, rows):
        spread[t] = mean + phi * (spread[t - 1] - mean) + 0.5 * rng.standard_normal()
    return spread


def _even(panel, fee_bps=FEES, **options):
    return funding.breakeven(panel, "a", "b", fee_bps=fee_bps, **options).squeeze()


def test_break_even_uses_the_persistent_spread():
    """An autoregression is fully persistent: from the last spread on, its decay has paid 14 bps by then."""
    spread = _persistent(3_000)
    spread[-1] = 4.0
    result = _even(_pair(np.zeros(spread.size), spread))
    assert float(result["cost_bps"]) == 14.0
    assert float(result["half_life_hours"]) == pytest.approx(24.0, rel=0.25)
    assert float(result["half_life_low_hours"]) < 24.0 < float(result["half_life_high_hours"])
    mean, start, hours = (float(result[name]) for name in ("mean_bps_8h", "start_bps_8h", "breakeven_hours"))
    assert mean < start <= 4.0
    kappa = np.log(2.0) / float(result["half_life_hours"])
    earned = mean * hours / 8 + (start - mean) * (1 - np.exp(-kappa * hours)) / (8 * kappa)
    assert earned == pytest.approx(14.0, rel=1e-9)
    assert int(result["status"]) == 0


def test_break_even_ignores_the_noise_of_a_spread():
    """Half-life 9 periods: variance 1 / (1 − φ²) = 7 next to noise of 4: 7 / 11 of a deviation stay."""
    rng = np.random.default_rng(3)
    stays = lfilter([1.0], [1.0, -(0.5 ** (1 / 9))], rng.standard_normal(6_000))
    spread = 5.0 + stays + 2.0 * rng.standard_normal(stays.size)
    spread[-1] = 15.0
    result = _even(_pair(np.zeros(spread.size), spread))
    mean = float(result["mean_bps_8h"])
    assert (float(result["start_bps_8h"]) - mean) / (15.0 - mean) == pytest.approx(7 / 11, abs=0.06)


def test_undetermined_break_even_states_the_reason():
    result = _even(_pair(_persistent(mean=2.0), np.zeros(270)))
    assert float(result["breakeven_hours"]) == np.inf
    assert int(result["status"]) & FundingStatus.UNREACHABLE
    short = _even(_pair(np.zeros(20), np.ones(20)))
    assert int(short["status"]) & FundingStatus.TOO_FEW
    assert np.isnan(short["breakeven_hours"])
    spread = _persistent()
    spread[-1] = NAN
    unknown = _even(_pair(np.zeros(270), spread))
    assert int(unknown["status"]) & FundingStatus.GAP
    assert np.isnan(unknown["breakeven_hours"])
    result = _even(_pair(np.zeros(270), _persistent()), period="4h")
    assert np.isnan(result["breakeven_hours"])


def test_unequal_intervals_and_samples_give_the_same_break_even():
    spread = _persistent(120)
    same = _even(_pair(np.zeros(120), spread))
    hours = np.arange(1.0, 961.0)
    panel = xr.concat(
        [series(np.where(hours % 8 == 0, 0.0, NAN), hours=hours), series(np.repeat(spread, 8), hours=hours)],
        xr.DataArray(["a", "b"], dims="exchange", name="exchange"),
    )
    mixed = _even(panel.assign_coords(interval_hours=("exchange", [8.0, 1.0])))
    assert float(mixed["breakeven_hours"]) == pytest.approx(float(same["breakeven_hours"]), rel=1e-9)
    paid = _even(_pair(np.zeros(120), spread))
    sampled = _even(_pair(np.zeros(120), spread, kind="sampled"))
    assert float(sampled["breakeven_hours"]) == pytest.approx(float(paid["breakeven_hours"]), rel=1e-9)


def _books(first):
    return xr.DataArray(
        np.array([[[first, 400.0]] * 2, [[200.0, 400.0]] * 2]),
        dims=("exchange", "side", "depth_bps"),
        coords={"exchange": ["a", "b"], "side": ["bid", "ask"], "depth_bps": [10.0, 100.0]},
        attrs={"units": "USD"},
    )


def test_slippage_of_the_four_trades_is_a_cost():
    """100 USD: venue a fills within 10 bps at 100 deep (5 bps a trade), b at 200 deep (2.5)."""
    panel = _pair(np.zeros(270), _persistent())
    plain, slipped = _even(panel), _even(panel, depth_usd=_books(100.0), size_usd=100.0)
    assert float(slipped["slippage_bps"]) == pytest.approx(15.0)
    assert float(slipped["cost_bps"]) == pytest.approx(29.0)
    assert slipped["breakeven_hours"] > plain["breakeven_hours"]
    thin = _even(panel, depth_usd=_books(100.0), size_usd=1e6)
    assert np.isnan(thin["breakeven_hours"])
    assert int(thin["status"]) & FundingStatus.TOO_THIN


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size_usd": 10.0}, "depth_usd and size_usd must be passed together"),
        ({"period": "8760h"}, "panel must cover at least one period of 8760 h"),
        ({"period": "-8h"}, "period must be a length of time such as '90s', '4h' or '30d', got '-8h'"),
        ({"fee_bps": {"a": 1.0}}, "fee_bps does not have a fee for b: add the bps of one trade"),
    ],
)
def test_carry_that_cannot_be_computed_raises(options, message):
    with pytest.raises(ValueError, match=message):
        _even(_pair(np.zeros(60), np.ones(60)), **options)
