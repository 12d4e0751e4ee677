"""Raw, natural and jump-wing parameters against Gatheral and Jacquier's printed ones."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from derivdata.analysis import smile
from tests.analysis.smiles import published, raw_sets

SETS = (
    "vogt",
    "vogt_guaranteed",
    "vogt_optimal",
    "raw_free",
    "market_like",
    "market_like_gj_repair",
    "quantlib_svi",
    "crypto30d",
)

raws = st.builds(
    smile.Raw,
    a=st.floats(0.001, 0.2),
    b=st.floats(0.01, 0.8),
    rho=st.floats(-0.95, 0.95),
    m=st.floats(-0.5, 0.5),
    sigma=st.floats(0.02, 1.0),
)


def test_the_list_of_sets_is_the_file():
    assert set(raw_sets()) == set(SETS)


@pytest.mark.parametrize("name", SETS)
def test_natural_and_jump_wings_lead_back_to_raw(name):
    raw = raw_sets()[name]
    natural, wings = smile.svi_raw_to_natural(raw), smile.svi_raw_to_jump_wings(raw, 0.7)
    np.testing.assert_allclose(smile.svi_natural_to_raw(natural), raw, rtol=0, atol=1e-13)
    np.testing.assert_allclose(smile.jump_wings_to_raw(wings, 0.7), raw, rtol=0, atol=1e-13)


def test_vogt_in_natural_and_jump_wing_parameters():
    """Gatheral and Jacquier 2014, example 5.1, t = 1; natural ones from equation 3.4."""
    raw = raw_sets()["vogt"]
    natural, wings = published("vogt", "natural"), published("vogt", "jw")
    expected = [natural[name] for name in ("Delta", "mu", "rho", "omega", "zeta")]
    np.testing.assert_allclose(smile.svi_raw_to_natural(raw), expected, rtol=1e-13)
    expected = [wings[name] for name in ("v", "psi", "p", "c", "vtilde")]
    np.testing.assert_allclose(smile.svi_raw_to_jump_wings(raw, 1.0), expected, rtol=1e-13)


@pytest.mark.parametrize("name", ["vogt_guaranteed", "vogt_optimal"])
def test_jump_wings_of_the_paper_give_its_raw_slices(name):
    wings, changed = published("vogt", "jw"), published(name, "jw")
    given_wings = smile.JumpWings(wings["v"], wings["psi"], wings["p"], changed["c"], changed["vtilde"])
    np.testing.assert_allclose(
        smile.jump_wings_to_raw(given_wings, 1.0), raw_sets()[name], rtol=0, atol=1e-13
    )


@given(raws, st.floats(0.01, 3.0))
def test_jump_wings_mean_what_they_are_called(raw, t):
    """Level, skew and wing slopes read off the curve itself."""
    wings = smile.svi_raw_to_jump_wings(raw, t)
    w0 = float(smile.raw_total_variance(0.0, raw))
    slope = float(smile.raw_total_variance(0.0, raw, derivative=1))
    assert wings.v * t == pytest.approx(w0, rel=1e-12)
    assert wings.psi == pytest.approx(slope / (2 * np.sqrt(w0)), rel=1e-9, abs=1e-12)
    far = float(smile.raw_total_variance(1e6, raw, derivative=1))
    near = float(smile.raw_total_variance(-1e6, raw, derivative=1))
    assert wings.c * np.sqrt(w0) == pytest.approx(far, rel=1e-6, abs=1e-9)
    assert wings.p * np.sqrt(w0) == pytest.approx(-near, rel=1e-6, abs=1e-9)
    k = np.linspace(raw.m - 40 * raw.sigma, raw.m + 40 * raw.sigma, 200_001)
    assert wings.v_min * t == pytest.approx(smile.raw_total_variance(k, raw).min(), rel=1e-5)


def test_symmetric_smile_has_its_vertex_at_the_money():
    """beta = 0: the general inverse divides by it."""
    raw = smile.Raw(0.02, 0.2, 0.3, 0.0, 0.4)
    wings = smile.svi_raw_to_jump_wings(raw, 0.5)
    centred = wings._replace(psi=raw.b * raw.rho / (2 * np.sqrt(wings.v * 0.5)))
    np.testing.assert_allclose(smile.jump_wings_to_raw(centred, 0.5), raw, atol=1e-12)


def test_impossible_jump_wings_are_refused():
    with pytest.raises(ValueError, match="-p <= 2 psi <= c"):
        smile.jump_wings_to_raw(smile.JumpWings(0.04, 0.5, 0.3, 0.2, 0.03), 1.0)


def test_labels_and_laziness_are_kept():
    raw = smile.Raw(*(xr.DataArray(np.full(3, x), dims="expiry") for x in raw_sets()["raw_free"]))
    lazy = smile.Raw(*(x.chunk({"expiry": 1}) for x in raw))
    t = xr.DataArray([0.1, 0.2, 0.3], dims="expiry")
    for whole, part in zip(
        smile.svi_raw_to_jump_wings(raw, t), smile.svi_raw_to_jump_wings(lazy, t), strict=True
    ):
        assert isinstance(part.data, da.Array)
        xr.testing.assert_identical(whole, part.compute())


def test_nan_stays_nan():
    raw = smile.Raw(np.array([0.02, np.nan]), *(np.full(2, x) for x in (0.4, -0.6, 0.05, 0.2)))
    wings = smile.svi_raw_to_jump_wings(raw, 1.0)
    assert [np.isnan(x[1]) for x in wings] == [True] * 5
    assert np.isfinite([x[0] for x in smile.jump_wings_to_raw(wings, 1.0)]).all()
